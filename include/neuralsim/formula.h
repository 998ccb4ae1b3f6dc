/// @file formula.h
/// Formulas: arithmetic of named variables, as people write it in files and on the command line.
///
///     ns_formula* formula = NULL;
///     size_t where = 0; // offset of what is wrong
///     ns_formula_parse("0.1 * sin(2*pi*t)", 17, false, NULL, &formula, &where, &error);
///     double t = 0.25, value = ns_formula_eval(formula, &t);
///     ns_formula_free(formula);
///
/// Operators are + - * / ^ (right-associative, binds tighter than the sign: -2^2 is -4) and
/// parentheses. Constants are pi, deg (pi/180) and mm (0.001). Functions are
///   sin cos tan asin acos atan exp log sqrt abs tanh sign (of one), atan2 min max (of two).
/// A variable is a name of letters, digits and '_' that does not begin with a digit and is none of
/// the above, or any text in double quotes: "link/arm/mass" * 2.
///
/// Where they are allowed, column functions look at neighbouring rows of a column:
///   unwrap(x)             an angle made continuous
///   smooth(x, n, order)   Savitzky-Golay filter: polynomial of this order through n (odd) rows
///   rate(x, n, order)     its derivative per s
///   forward(x)            slope to the next row, per s; in the last row that of the row before
///   shift(x, n)           the value n rows before (n may be negative); missing at the ends
///   first(x)              the value in the first row
/// n and order are whole numbers, not formulas.

#ifndef NEURALSIM_FORMULA_H
#define NEURALSIM_FORMULA_H

#include "neuralsim/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_formula ns_formula;

/// Parse a formula; all `size` bytes must belong to it.
/// @param columns    allow column functions
/// @param allocator  NULL for ns_default_allocator()
/// @param out        to be freed by ns_formula_free(); NULL after a failure
/// @param where      receives the byte offset of what is wrong
/// @return NS_OK; NS_ERR_PARSE, NS_ERR_LIMIT (more than 512 operations, or 64 levels of
///         parentheses) with a message that does not repeat the place; NS_ERR_NOMEM
NS_API ns_status ns_formula_parse(const char* text, size_t size, bool columns,
                                  const ns_allocator* allocator, ns_formula** out, size_t* where,
                                  ns_error* error);
NS_API void ns_formula_free(ns_formula* formula); ///< NULL is allowed

/// Variables of a formula, each once, in order of appearance; the offset is that of the first use.
NS_API uint32_t ns_formula_variable_count(const ns_formula* formula);
NS_API const char* ns_formula_variable(const ns_formula* formula, uint32_t number);
NS_API size_t ns_formula_variable_offset(const ns_formula* formula, uint32_t number);

/// Value for given values of the variables (one per variable). Not finite where the formula has no
/// value (1/0, log(-1)); NaN with column functions.
NS_API double ns_formula_eval(const ns_formula* formula, const double* variables);

/// Values for columns of `count` rows. A missing number is NaN and makes what depends on it NaN,
/// except that unwrap(), smooth() and rate() skip missing numbers.
/// @param columns  (one per variable) of `count` rows each
/// @param times    (count) s, increasing, for smooth(), rate() and forward(); NULL: the row number
/// @param out      (count), not one of the columns
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_formula_columns(const ns_formula* formula, const double* const* columns,
                                    const double* times, uint32_t count, double* out,
                                    ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
