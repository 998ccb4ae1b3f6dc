// Formulas: numbers, variables, + - * / ^ and functions, as people write them.
//
//     unwrap(atan2(x_green - x_red, y_green - y_red)) - pi/2
//
// + - * / ^ (from the right, before the sign: -2^2 is -4), parentheses, the constants pi, deg
// (pi/180), mm (0.001), the functions
//   sin cos tan asin acos atan exp log sqrt abs tanh sign (of one), atan2 min max (of two).
// A variable is a name of letters, digits and '_' that does not begin with a digit and is none of
// the above, or any text in double quotes: "link/arm/mass" * 2. Column functions, where they are
// allowed (base/series.h):
//   unwrap(x)             an angle made continuous
//   smooth(x, n, order)   Savitzky-Golay: the polynomial of this order through n (odd) rows around
//   rate(x, n, order)     its derivative per s
//   shift(x, n)           the value n rows before (n may be negative); missing at the ends
//   first(x)              the value in the first row
// n and order are whole numbers, not formulas.

#ifndef NSI_FORMULA_H
#define NSI_FORMULA_H

#include "base/common.h"
#include "neuralsim/expr.h"

enum {
    NSI_FORMULA_MAX_OPS = 512, // numbers and operations of a formula
    NSI_FORMULA_MAX_DEPTH = 64 // parentheses, signs and powers within each other
};

typedef struct nsi_formula nsi_formula;

// Read a formula; all `size` bytes must belong to it.
// @param columns  allow column functions
// @param out      to be freed by nsi_formula_free(); NULL after a failure
// @param where    receives the offset of the fault
// @return NS_OK; NS_ERR_PARSE, NS_ERR_LIMIT with a message that has no place in it; NS_ERR_NOMEM
ns_status nsi_formula_parse(const char* text, size_t size, bool columns,
                            const ns_allocator* allocator, nsi_formula** out, size_t* where,
                            ns_error* error);
void nsi_formula_free(nsi_formula* formula); // NULL is allowed

// Variables it uses, each once, in the order in which they appear, and where they do first.
uint32_t nsi_formula_variable_count(const nsi_formula* formula);
const char* nsi_formula_variable(const nsi_formula* formula, uint32_t number);
size_t nsi_formula_variable_offset(const nsi_formula* formula, uint32_t number);

// How a variable is written in it: without quotes, in quotes, or both.
enum { NSI_FORMULA_BARE = 1, NSI_FORMULA_QUOTED = 2 };
unsigned nsi_formula_variable_forms(const nsi_formula* formula, uint32_t number);

// Can this be a variable without quotes? No constant, no function.
bool nsi_formula_is_name(const char* text);

// Text of the n-th smooth() or rate() in it, from 0; false when there are no more.
bool nsi_formula_filter(const nsi_formula* formula, uint32_t number, size_t* offset, size_t* size);

// Its value for values of its variables; not finite where it has none (1/0, log(-1)), and with
// column functions NaN.
double nsi_formula_eval(const nsi_formula* formula, const double* variables);

// The same as an expression of the graph that is being traced; for formulas without column
// functions.
ns_expr nsi_formula_trace(const nsi_formula* formula, const ns_expr* variables);

// The same for columns of `count` rows. Missing numbers are NaN, and what depends on them is
// missing, too; unwrap(), smooth() and rate() go over them.
// @param columns  one per variable
// @param times    (count) in s, growing, for smooth(), rate() and forward(); NULL: the number of
//                 the row
// @param out      (count), none of the columns
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_formula_columns(const nsi_formula* formula, const double* const* columns,
                              const double* times, uint32_t count, double* out, ns_error* error);

#endif
