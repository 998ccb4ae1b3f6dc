// Small symmetric positive definite systems of expressions.

#ifndef NSI_DYN_SOLVE_H
#define NSI_DYN_SOLVE_H

#include "neuralsim/expr.h"

// Factor A = L D L' in place (n x n, row-major; only the lower triangle is read): the strict lower
// triangle becomes L, the diagonal 1/D. Zeros of A that are known when tracing cost nothing.
void nsi_ldl_factor(uint32_t n, ns_expr* A);

// Solve A x = b with the factors; x may be b.
void nsi_ldl_solve(uint32_t n, const ns_expr* LD, const ns_expr* b, ns_expr* x);

// Factor A = L' D L in place (only the lower triangle is read): the strict lower triangle becomes L,
// the diagonal 1/D. On the mass matrix of a tree, whose zeros are known when tracing, no zero is
// lost (RBDA section 6.5). A x = b is solved by begin (x: b to L'^-1 b), multiplication by 1/D and
// finish (x to L^-1 x).
void nsi_ltdl_factor(uint32_t n, ns_expr* A);
void nsi_ltdl_begin(uint32_t n, const ns_expr* LD, ns_expr* x);
void nsi_ltdl_finish(uint32_t n, const ns_expr* LD, ns_expr* x);

#endif
