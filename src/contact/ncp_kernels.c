// The impulse solver as kernels. Compiled twice, as expr/kernels.c is.

#include "contact/ncp_kernels.h"

#include <math.h>
#include <stdbool.h>

#define NSI_C_SOURCE(...) __VA_ARGS__
#define FOR_LANES for (size_t e = 0; e < L; e++)

#define L 1
#define NAME(f) one_##f
#include "contact/ncp.def"
#undef L
#undef NAME
#define L 4
#define NAME(f) four_##f
#include "contact/ncp.def"
#undef L
#undef NAME

// One lane, or four at a time.
#define KERNELS(function)                                                                          \
    static void function##_1(const nsi_block_args* a) {                                            \
        one_##function(a->params, a->x, a->y, a->scratch, 1);                                      \
    }                                                                                              \
    static void function##_4(const nsi_block_args* a) {                                            \
        four_##function(a->params, a->x, a->y, a->scratch, 4);                                     \
    }                                                                                              \
    static void function##_16(const nsi_block_args* a) {                                           \
        for (size_t e = 0; e < 16; e += 4) {                                                       \
            four_##function(a->params, a->x + e, a->y + e, a->scratch, 16);                        \
        }                                                                                          \
    }                                                                                              \
    static void function##_64(const nsi_block_args* a) {                                           \
        for (size_t e = 0; e < 64; e += 4) {                                                       \
            four_##function(a->params, a->x + e, a->y + e, a->scratch, 64);                        \
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
