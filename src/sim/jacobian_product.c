// The product of a step's Jacobian with the sensitivities so far. Compiled twice (CMakeLists.txt), as
// expr/kernels.c is: plain loops, products and sums apart, so that both give the same bits.

#include "sim/jacobian_product.h"

// Columns at a time: the rows of S stay in the first-level cache while all results are made.
enum { TILE_BYTES = 16384, LEAST = 64, WIDTH = 8 };

// Four entries at a time: one load and one store of the result for four products.
static void jacobian_add_four(double* restrict out, const double* value, const double* const* state,
                              size_t from, size_t count) {
    const double a = value[0], b = value[1], c = value[2], d = value[3];
    const double *s = state[0] + from, *t = state[1] + from, *u = state[2] + from,
                 *v = state[3] + from;
    for (size_t j = 0; j < count; j++) {
        out[j] = (((out[j] + a * s[j]) + b * t[j]) + c * u[j]) + d * v[j];
    }
}

static void jacobian_add_one(double* restrict out, double value, const double* state,
                             size_t count) {
    for (size_t j = 0; j < count; j++) out[j] += value * state[j];
}

// x - x is 0, or NaN for what is not finite; so is a sum of those.
static bool are_products_finite(const double* x, size_t count) {
    double bad[WIDTH] = {0};
    size_t j = 0;
    for (; j + WIDTH <= count; j += WIDTH) {
        for (size_t l = 0; l < WIDTH; l++) bad[l] += x[j + l] - x[j + l];
    }
    for (; j < count; j++) bad[0] += x[j] - x[j];
    double sum = 0.0;
    for (size_t l = 0; l < WIDTH; l++) sum += bad[l];
    return sum == 0.0;
}

#define JOIN(a, b) a##b
#define KERNEL(suffix) JOIN(nsi_jacobian_product_, suffix)

bool KERNEL(NSI_KERNEL_SUFFIX)(const nsi_jacobian_product_row* rows, size_t nrow, size_t nx,
                               size_t columns) {
    size_t tile = TILE_BYTES / sizeof(double) / (nx + 1) / WIDTH * WIDTH;
    if (tile < LEAST) tile = LEAST;
    bool finite = true;
    for (size_t from = 0; from < columns; from += tile) {
        const size_t count = columns - from < tile ? columns - from : tile;
        for (size_t i = 0; i < nrow; i++) {
            const nsi_jacobian_product_row* r = &rows[i];
            double* out = r->out + from;
            size_t k = 0;
            for (; k + 4 <= r->count; k += 4) {
                jacobian_add_four(out, r->value + k, r->state + k, from, count);
            }
            for (; k < r->count; k++) jacobian_add_one(out, r->value[k], r->state[k] + from, count);
            finite &= are_products_finite(out, count);
        }
    }
    return finite;
}
