// The convex relaxation of contact as kernels. Compiled twice, as expr/kernels.c is.

#include "contact/convex_kernels.h"

#include <math.h>
#include <stdbool.h>

#define NSI_C_SOURCE(...) __VA_ARGS__
#define L 1
#define NAME(f) convex_##f
#include "contact/convex_block_source.def"

// Lanes one after another: their Newton steps have little in common.
#define CONVEX_FORM(function, lanes)                                                               \
    static void function##_##lanes(const nsi_block_args* a) {                                      \
        for (size_t e = 0; e < lanes; e++) {                                                       \
            function(a->params, a->x + e, a->y + e, a->scratch, lanes);                            \
        }                                                                                          \
    }
#define CONVEX_FORMS(function)                                                                     \
    CONVEX_FORM(function, 1)                                                                       \
    CONVEX_FORM(function, 4)                                                                       \
    CONVEX_FORM(function, 16)                                                                      \
    CONVEX_FORM(function, 64)
CONVEX_FORMS(convex_value)
CONVEX_FORMS(convex_tangent)
CONVEX_FORMS(convex_adjoint)

#define FORMS(function)                                                                            \
    { function##_1, function##_4, function##_16, function##_64 }
#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

const nsi_ncp_kernels PASTE(nsi_convex_kernels_, NSI_KERNEL_SUFFIX) = {
    .value = FORMS(convex_value),
    .tangent = FORMS(convex_tangent),
    .adjoint = FORMS(convex_adjoint),
};
