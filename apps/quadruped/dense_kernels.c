// The inverse of a symmetric positive definite matrix by sweeps (Gauss-Jordan on the lower triangle;
// Beaton 1964, Goodnight 1979). As many operations as a Cholesky factor and what makes an inverse of
// it, but all in one loop over rows. Compiled twice (CMakeLists.txt), as expr/kernels.c is: plain
// loops without sums over lanes, so that both give the same bits.

#include "quadruped/dense_kernels.h"

// The rows, two pivots at a time: one load and one store for two products.
static void add_two(double* restrict row, double a, const double* c, double b, const double* d,
                    size_t count) {
    for (size_t j = 0; j < count; j++) row[j] = (row[j] - a * c[j]) - b * d[j];
}

static void subtract_row(double* restrict row, double a, const double* c, size_t count) {
    for (size_t j = 0; j < count; j++) row[j] -= a * c[j];
}

// Column k of the symmetric matrix.
static void get_column(size_t n, const double* A, size_t k, double* c) {
    memcpy(c, A + k * n, (k + 1) * sizeof *c);
    for (size_t i = k + 1; i < n; i++) c[i] = A[i * n + k];
}

// What a sweep leaves in its own row and column.
static void put_column(size_t n, double* A, size_t k, const double* c, double d) {
    for (size_t j = 0; j < k; j++) A[k * n + j] = c[j] * d;
    A[k * n + k] = -d;
    for (size_t i = k + 1; i < n; i++) A[i * n + k] = c[i] * d;
}

static void sweep_one(size_t n, double* A, size_t k, const double* c) {
    const double d = 1.0 / c[k];
    for (size_t i = 0; i < n; i++) {
        if (i != k) subtract_row(A + i * n, c[i] * d, c, i + 1);
    }
    put_column(n, A, k, c, d);
}

// Sweep k and k + 1. `next` is column k + 1 as the first sweep leaves it.
static void sweep_two(size_t n, double* A, size_t k, const double* c, double* next) {
    const double d = 1.0 / c[k], e = 1.0 / next[k + 1];
    for (size_t i = 0; i < n; i++) {
        if (i != k && i != k + 1) add_two(A + i * n, c[i] * d, c, next[i] * e, next, i + 1);
    }
    put_column(n, A, k + 1, next, e);
    // Column k, swept by k and then by k + 1.
    for (size_t j = 0; j < k; j++) A[k * n + j] = c[j] * d - next[k] * e * next[j];
    A[k * n + k] = -d - next[k] * e * next[k];
    for (size_t i = k + 2; i < n; i++) A[i * n + k] = c[i] * d - next[i] * e * next[k];
}

#define JOIN(a, b) a##b
#define EXPAND(a, b) JOIN(a, b)
#define KERNEL(name) EXPAND(name, QUAD_KERNEL_SUFFIX)

bool KERNEL(quad_inverse_)(uint32_t count, double* A, double least, double* work) {
    const size_t n = count;
    double *c = work, *next = work + n, *diagonal = work + 2 * n;
    for (size_t k = 0; k < n; k++) diagonal[k] = A[k * n + k];
    for (size_t k = 0; k < n; k += 2) {
        get_column(n, A, k, c);
        if (!(c[k] > least * diagonal[k])) return false; // so is NaN
        if (k + 1 == n) {
            sweep_one(n, A, k, c);
            break;
        }
        get_column(n, A, k + 1, next);
        const double d = 1.0 / c[k], factor = next[k] * d;
        for (size_t i = 0; i < n; i++) next[i] -= factor * c[i];
        next[k] = factor;
        if (!(next[k + 1] > least * diagonal[k + 1])) return false;
        sweep_two(n, A, k, c, next);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            A[i * n + j] = -A[i * n + j];
            A[j * n + i] = A[i * n + j];
        }
    }
    return true;
}

// Four rows at a time: one load and one store of the sum for four products.
static void add_four_rows(double* restrict out, const double* value, const double* const* rows,
                          size_t n) {
    const double a = value[0], b = value[1], c = value[2], d = value[3];
    const double *s = rows[0], *t = rows[1], *u = rows[2], *v = rows[3];
    for (size_t j = 0; j < n; j++) {
        out[j] = (((out[j] + a * s[j]) + b * t[j]) + c * u[j]) + d * v[j];
    }
}

void KERNEL(quad_add_rows_)(uint32_t n, uint32_t count, const double* values,
                            const double* const* rows, double* out) {
    uint32_t k = 0;
    for (; k + 4 <= count; k += 4) add_four_rows(out, values + k, rows + k, n);
    for (; k < count; k++) {
        const double a = values[k], *row = rows[k];
        for (size_t j = 0; j < n; j++) out[j] += a * row[j];
    }
}
