// What the library knows of formulas beyond neuralsim/formula.h: limits, how a variable is written,
// filters, tracing.

#ifndef NSI_FORMULA_SYNTAX_H
#define NSI_FORMULA_SYNTAX_H

#include "base/common.h"
#include "neuralsim/expr.h"
#include "neuralsim/formula.h"

enum {
    NSI_FORMULA_MAX_OPS = 512, // numbers and operations of a formula
    NSI_FORMULA_MAX_DEPTH = 64 // parentheses, signs and powers within each other
};

// How a variable is written in a formula: without quotes, in quotes, or both.
enum { NSI_FORMULA_BARE = 1, NSI_FORMULA_QUOTED = 2 };
unsigned nsi_formula_variable_forms(const ns_formula* formula, uint32_t number);

// Can this be a variable without quotes? It is then neither a constant nor a function.
bool nsi_formula_is_name(const char* text);

// Text of the n-th smooth() or rate() of a formula, from 0; false when there are no more.
bool nsi_formula_filter(const ns_formula* formula, uint32_t number, size_t* offset, size_t* size);

// The value of a formula without column functions, as an expression of the graph being traced.
ns_expr nsi_formula_trace(const ns_formula* formula, const ns_expr* variables);

#endif
