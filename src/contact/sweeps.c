// Projected Gauss-Seidel, unrolled.

#include "contact/contact_stages.h"

// l_t back into |l_t| <= bound.
static void project_on_cone(nsi_friction friction, ns_expr bound, ns_expr* l) {
    if (friction == NSI_FRICTION_PYRAMID) {
        for (int k = 0; k < 2; k++) l[k] = ns_max(ns_min(l[k], bound), ns_neg(bound));
        return;
    }
    ns_expr size = ns_norm(2, l), outside = ns_gt(size, bound), one = ns_const(1.0);
    ns_expr scale = ns_select(outside, ns_div(bound, ns_select(outside, size, one)), one);
    for (int k = 0; k < 2; k++) l[k] = ns_mul(scale, l[k]);
}

// The impulse of row i that brings its own velocity to zero; 0 for a row without mass or a contact
// that is off.
static ns_expr relaxed(uint32_t rows, uint32_t i, const ns_expr* A, const ns_expr* b, ns_expr on,
                       const ns_expr* l) {
    ns_expr diagonal = A[i * rows + i], v = ns_neg(b[i]);
    ns_expr massive = ns_gt(diagonal, ns_const(1e-12));
    for (uint32_t j = 0; j < rows; j++) v = ns_add(v, ns_mul(A[i * rows + j], l[j]));
    ns_expr x = ns_sub(l[i], ns_div(v, ns_select(massive, diagonal, ns_const(1.0))));
    return ns_select(ns_and(massive, on), x, ns_const(0.0));
}

void nsi_ncp_sweeps(uint32_t n, nsi_friction friction, uint32_t sweeps, const ns_expr* A,
                    const ns_expr* b, const ns_expr* mu, const ns_expr* on, ns_expr* l) {
    uint32_t rows = 3 * n;
    ns_expr zero = ns_const(0.0);
    for (uint32_t i = 0; i < rows; i++) l[i] = zero;
    for (uint32_t sweep = 0; sweep < sweeps; sweep++) {
        for (uint32_t i = 0; i < rows; i++) {
            uint32_t c = i / 3;
            l[i] = relaxed(rows, i, A, b, on[c], l);
            if (i % 3 == 0) l[i] = ns_max(l[i], zero);
            if (i % 3 == 2) project_on_cone(friction, ns_mul(mu[c], l[3 * c]), &l[3 * c + 1]);
        }
    }
}

ns_expr nsi_ncp_residual(uint32_t n, nsi_friction friction, const ns_expr* A, const ns_expr* b,
                         const ns_expr* mu, const ns_expr* on, const ns_expr* l) {
    uint32_t rows = 3 * n;
    ns_expr miss = ns_const(0.0), size = ns_const(0.0), zero = ns_const(0.0);
    for (uint32_t c = 0; c < n; c++) {
        ns_expr x[3];
        for (uint32_t k = 0; k < 3; k++) x[k] = relaxed(rows, 3 * c + k, A, b, on[c], l);
        x[0] = ns_max(x[0], zero);
        project_on_cone(friction, ns_mul(mu[c], l[3 * c]), &x[1]);
        for (uint32_t k = 0; k < 3; k++) {
            miss = ns_max(miss, ns_abs(ns_sub(x[k], l[3 * c + k])));
            size = ns_max(size, ns_abs(l[3 * c + k]));
        }
    }
    return ns_div_safe(miss, size);
}
