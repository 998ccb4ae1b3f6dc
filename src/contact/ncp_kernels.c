// The impulse solver as kernels. Compiled twice, as expr/kernels.c is.

#include "contact/ncp_kernels.h"

#include <math.h>
#include <stdbool.h>

#define NSI_C_SOURCE(...) __VA_ARGS__

#define L 1
#define NAME(f) one_##f
#include "contact/ncp.def"
#undef L
#undef NAME

#define SOLVER(name)                                                                               \
    static void name(const uint32_t* params, const double* x, double* y, double* scratch,          \
                     size_t lanes)

// ---- one lane --------------------------------------------------------------------------------

SOLVER(single_value) {
    one_value(params, x, y, scratch, lanes, 0);
}
SOLVER(single_tangent) {
    one_tangent(params, x, y, scratch, lanes);
}
SOLVER(single_adjoint) {
    one_adjoint(params, x, y, scratch, lanes);
}

// ---- four lanes ------------------------------------------------------------------------------

#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

#define L 4
#define NAME(f) four_##f
#include "contact/ncp.def"
#undef L
#undef NAME

// Lanes that do not settle in the first round go on alone.
SOLVER(quad_value) {
    unsigned left = four_value(params, x, y, scratch, lanes, 0);
    for (size_t e = 0; e < 4; e++) {
        if (left >> e & 1) one_value(params, x + e, y + e, scratch, lanes, 1);
    }
}
SOLVER(quad_tangent) {
    four_tangent(params, x, y, scratch, lanes);
}
SOLVER(quad_adjoint) {
    four_adjoint(params, x, y, scratch, lanes);
}

#else // without vectors of four, nothing is gained by doing them together

SOLVER(quad_value) {
    for (size_t e = 0; e < 4; e++) single_value(params, x + e, y + e, scratch, lanes);
}
SOLVER(quad_tangent) {
    for (size_t e = 0; e < 4; e++) single_tangent(params, x + e, y + e, scratch, lanes);
}
SOLVER(quad_adjoint) {
    for (size_t e = 0; e < 4; e++) single_adjoint(params, x + e, y + e, scratch, lanes);
}

#endif

// ---- the kernels -----------------------------------------------------------------------------

#define KERNELS(function)                                                                          \
    static void function##_1(const nsi_block_args* a) {                                            \
        single_##function(a->params, a->x, a->y, a->scratch, 1);                                   \
    }                                                                                              \
    static void function##_4(const nsi_block_args* a) {                                            \
        quad_##function(a->params, a->x, a->y, a->scratch, 4);                                     \
    }                                                                                              \
    static void function##_16(const nsi_block_args* a) {                                           \
        for (size_t e = 0; e < 16; e += 4) {                                                       \
            quad_##function(a->params, a->x + e, a->y + e, a->scratch, 16);                        \
        }                                                                                          \
    }                                                                                              \
    static void function##_64(const nsi_block_args* a) {                                           \
        for (size_t e = 0; e < 64; e += 4) {                                                       \
            quad_##function(a->params, a->x + e, a->y + e, a->scratch, 64);                        \
        }                                                                                          \
    }

KERNELS(value)
KERNELS(tangent)
KERNELS(adjoint)

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

const nsi_ncp_kernels PASTE(nsi_ncp_kernels_, NSI_KERNEL_SUFFIX) = {
    .value = {value_1, value_4, value_16, value_64},
    .tangent = {tangent_1, tangent_4, tangent_16, tangent_64},
    .adjoint = {adjoint_1, adjoint_4, adjoint_16, adjoint_64},
};
