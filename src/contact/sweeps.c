// Projected Gauss-Seidel, unrolled.

#include "contact/contact.h"

// l_t back into |l_t| <= bound.
static void project(nsi_friction friction, ns_expr bound, ns_expr* l) {
    if (friction == NSI_FRICTION_PYRAMID) {
        for (int k = 0; k < 2; k++) l[k] = ns_max(ns_min(l[k], bound), ns_neg(bound));
        return;
    }
    ns_expr size = ns_norm(2, l), outside = ns_gt(size, bound), one = ns_const(1.0);
    ns_expr scale = ns_select(outside, ns_div(bound, ns_select(outside, size, one)), one);
    for (int k = 0; k < 2; k++) l[k] = ns_mul(scale, l[k]);
}

void nsi_ncp_sweeps(uint32_t n, nsi_friction friction, uint32_t sweeps, const ns_expr* A,
                    const ns_expr* b, const ns_expr* mu, const ns_expr* on, ns_expr* l) {
    uint32_t rows = 3 * n;
    ns_expr zero = ns_const(0.0), one = ns_const(1.0);
    for (uint32_t i = 0; i < rows; i++) l[i] = zero;
    for (uint32_t sweep = 0; sweep < sweeps; sweep++) {
        for (uint32_t i = 0; i < rows; i++) {
            uint32_t c = i / 3;
            ns_expr diagonal = A[i * rows + i];
            ns_expr massive = ns_gt(diagonal, ns_const(1e-12)), v = ns_neg(b[i]);
            for (uint32_t j = 0; j < rows; j++) v = ns_add(v, ns_mul(A[i * rows + j], l[j]));
            ns_expr x = ns_sub(l[i], ns_div(v, ns_select(massive, diagonal, one)));
            l[i] = ns_select(ns_and(massive, on[c]), x, zero);
            if (i % 3 == 0) l[i] = ns_max(l[i], zero);
            if (i % 3 == 2) project(friction, ns_mul(mu[c], l[3 * c]), &l[3 * c + 1]);
        }
    }
}
