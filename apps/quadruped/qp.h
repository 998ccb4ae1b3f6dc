// Convex quadratic programs of some hundred variables:
//
//     minimise 1/2 x' H x + g' x   so that   lower <= A x <= upper
//
// H is dense, the rows of A are given without their zeros. Rows may be bounded on one side (infinite
// bounds), on both, or equal. H may be semidefinite. Made once for a largest size, it solves without
// allocating, from the set of active rows of the last answer:
//
//     quad_qp* qp = NULL;
//     quad_qp_create(60, 100, NULL, &qp, &error);
//     quad_qp_report report = quad_qp_solve(qp, &problem, active, x, y);
//
// The method is a dual active-set one: see qp.c.

#ifndef QUADRUPED_QP_H
#define QUADRUPED_QP_H

#include "quadruped/support.h"

typedef struct quad_qp quad_qp;

typedef struct quad_qp_problem {
    uint32_t n, m;           // variables, rows
    const double* H;         // (n x n) symmetric, both triangles; positive semidefinite
    const double* g;         // (n)
    const uint32_t* start;   // (m + 1) first entry of each row of A, and the end
    const uint32_t* columns; // of the entries
    const double* values;
    const double *lower, *upper; // (m) may be infinite; lower <= upper
} quad_qp_problem;

typedef enum quad_qp_status {
    QUAD_QP_SOLVED,     // the residual is at most QUAD_QP_TOLERANCE
    QUAD_QP_INEXACT,    // x is the best that rounding allowed, or the iterations ran out
    QUAD_QP_INFEASIBLE, // no x fulfils the rows; y proves it: A' y = 0, sum of bounds times y < 0
    QUAD_QP_UNBOUNDED,  // x is a direction in which the objective falls for ever
    QUAD_QP_BAD_INPUT   // a number is not finite, H not positive semidefinite, or lower > upper
} quad_qp_status;

#define QUAD_QP_TOLERANCE 1e-8

typedef struct quad_qp_report {
    quad_qp_status status;
    double residual;     // how far the KKT conditions are from true, see quad_qp_residual()
    uint32_t iterations; // changes of the active set
    uint32_t active;     // rows at a bound in the end
} quad_qp_report;

// @param n, m  most variables and rows
// @return NS_OK, NS_ERR_NOMEM
ns_status quad_qp_create(uint32_t n, uint32_t m, const ns_allocator* allocator, quad_qp** out,
                         ns_error* error);
void quad_qp_free(quad_qp* qp); // NULL is allowed

// @param active  (m) in: rows to start from, 1 at the upper bound, -1 at the lower, 0 at none; out:
//                those of the answer
// @param x       (n) receives the answer
// @param y       (m) receives the multipliers: H x + g + A' y = 0, y > 0 at an upper bound, < 0 at a
//                lower one
quad_qp_report quad_qp_solve(quad_qp* qp, const quad_qp_problem* problem, int8_t* active, double* x,
                             double* y);

// The largest of: |H x + g + A' y| relative to the largest term of these sums; how far a row is beyond
// its bound relative to the largest term of any row, or (for answers of 0) to its own largest entry
// times |g| / max H_ii as far as its bounds reach; for every multiplier the smaller of its largest term
// in A' y and its row's distance from the bound it belongs to, both relative in the same way.
// @param work  (2 n)
double quad_qp_residual(const quad_qp_problem* problem, const double* x, const double* y,
                        double* work);

#endif
