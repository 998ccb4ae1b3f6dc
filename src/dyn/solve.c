// Factorisations without square roots (Golub & Van Loan, Matrix Computations, section 4.1).

#include "dyn/solve.h"

void nsi_ldl_factor(uint32_t n, ns_expr* A) {
    ns_expr one = ns_const(1.0);
    for (uint32_t j = 0; j < n; j++) {
        // Column j of L times D first, then divided by the pivot.
        for (uint32_t i = j; i < n; i++) {
            ns_expr sum = A[i * n + j];
            for (uint32_t k = 0; k < j; k++) {
                // The upper triangle keeps L D from earlier columns.
                sum = ns_sub(sum, ns_mul(A[k * n + i], A[j * n + k]));
            }
            A[i * n + j] = sum;
        }
        ns_expr inverse = ns_div(one, A[j * n + j]);
        for (uint32_t i = j + 1; i < n; i++) {
            A[j * n + i] = A[i * n + j];
            A[i * n + j] = ns_mul(A[i * n + j], inverse);
        }
        A[j * n + j] = inverse;
    }
}

void nsi_ldl_solve(uint32_t n, const ns_expr* LD, const ns_expr* b, ns_expr* x) {
    for (uint32_t i = 0; i < n; i++) {
        ns_expr sum = b[i];
        for (uint32_t k = 0; k < i; k++) sum = ns_sub(sum, ns_mul(LD[i * n + k], x[k]));
        x[i] = sum;
    }
    for (uint32_t i = 0; i < n; i++) x[i] = ns_mul(x[i], LD[i * n + i]);
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++) x[i] = ns_sub(x[i], ns_mul(LD[k * n + i], x[k]));
    }
}

// Zeros, of which matrices of many bodies are full, fold to nothing; looking for them first is faster.
void nsi_ltdl_factor(uint32_t n, ns_expr* A) {
    ns_expr zero = ns_const(0.0);
    for (uint32_t k = n; k-- > 0;) {
        ns_expr* row = A + (size_t)k * n;
        row[k] = ns_div(ns_const(1.0), row[k]);
        for (uint32_t i = k; i-- > 0;) {
            if (row[i].id == zero.id) continue;
            ns_expr factor = ns_mul(row[i], row[k]);
            for (uint32_t j = 0; j <= i; j++) {
                A[i * n + j] = ns_sub(A[i * n + j], ns_mul(factor, row[j]));
            }
            row[i] = factor;
        }
    }
}

void nsi_ltdl_begin(uint32_t n, const ns_expr* LD, ns_expr* x) {
    ns_expr zero = ns_const(0.0);
    for (uint32_t i = n; i-- > 0;) {
        if (x[i].id == zero.id) continue;
        for (uint32_t j = 0; j < i; j++) x[j] = ns_sub(x[j], ns_mul(LD[i * n + j], x[i]));
    }
}

void nsi_ltdl_finish(uint32_t n, const ns_expr* LD, ns_expr* x) {
    ns_expr zero = ns_const(0.0);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (LD[i * n + j].id == zero.id) continue;
            x[i] = ns_sub(x[i], ns_mul(LD[i * n + j], x[j]));
        }
    }
}
