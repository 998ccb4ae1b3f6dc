// The impulse solver and the step with rigid contact as kernels. Compiled twice, as expr/kernels.c is.

#include "contact/ncp_kernels.h"

#include "contact/ncp.h"

#include <math.h>
#include <stdbool.h>

#define NSI_C_SOURCE(...) __VA_ARGS__

#define L 1
#define NAME(f) one_ncp_##f
#include "contact/ncp_source.def"
#undef NAME
#define NAME(f) one_step_##f
#include "contact/contact_step_source.def"
#undef NAME
#undef L

#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

#define L 4
#define NAME(f) four_ncp_##f
#include "contact/ncp_source.def"
#undef NAME
#define NAME(f) four_step_##f
#include "contact/contact_step_source.def"
#undef NAME
#undef L

// Lanes that do not settle together are solved again alone.
#define QUAD_VALUE(block)                                                                          \
    static void quad_##block##_value(const uint32_t* params, const double* x, double* y,           \
                                     double* scratch, size_t lanes) {                              \
        unsigned left = four_##block##_value(params, x, y, scratch, lanes);                        \
        for (size_t e = 0; e < 4; e++) {                                                           \
            if (left >> e & 1) one_##block##_value(params, x + e, y + e, scratch, lanes);          \
        }                                                                                          \
    }

// Lanes with impacts, or with too many contacts together, are done alone.
#define QUAD_DERIVATIVE(function)                                                                  \
    static void quad_##function(const uint32_t* params, const double* x, double* y,                \
                                double* scratch, size_t lanes) {                                   \
        if (four_##function(params, x, y, scratch, lanes)) return;                                 \
        for (size_t e = 0; e < 4; e++) one_##function(params, x + e, y + e, scratch, lanes);       \
    }
QUAD_DERIVATIVE(ncp_tangent)
QUAD_DERIVATIVE(ncp_adjoint)
QUAD_DERIVATIVE(step_tangent)
QUAD_DERIVATIVE(step_adjoint)

#else // without vectors of four, nothing is gained by doing them together

#define QUAD(function)                                                                             \
    static void quad_##function(const uint32_t* params, const double* x, double* y,                \
                                double* scratch, size_t lanes) {                                   \
        for (size_t e = 0; e < 4; e++) one_##function(params, x + e, y + e, scratch, lanes);       \
    }
#define QUAD_VALUE(block) QUAD(block##_value) QUAD(block##_tangent) QUAD(block##_adjoint)

#endif

QUAD_VALUE(ncp)
QUAD_VALUE(step)

// ---- the kernels -----------------------------------------------------------------------------

#define KERNELS(function)                                                                          \
    static void function##_1(const nsi_block_args* a) {                                            \
        one_##function(a->params, a->x, a->y, a->scratch, 1);                                      \
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

#define BLOCK_KERNELS(block)                                                                       \
    KERNELS(block##_value)                                                                         \
    KERNELS(block##_tangent)                                                                       \
    KERNELS(block##_adjoint)

_Static_assert(NSI_NCP_MAX_ACTIVE == 352, "ACTIVE of lanes.def");

BLOCK_KERNELS(ncp)
BLOCK_KERNELS(step)

#define FORMS(function)                                                                            \
    { function##_1, function##_4, function##_16, function##_64 }
#define TABLE(block)                                                                               \
    {                                                                                              \
        .value = FORMS(block##_value), .tangent = FORMS(block##_tangent),                          \
        .adjoint = FORMS(block##_adjoint)                                                          \
    }
#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

const nsi_ncp_kernels PASTE(nsi_ncp_kernels_, NSI_KERNEL_SUFFIX) = TABLE(ncp);
const nsi_ncp_kernels PASTE(nsi_contact_step_kernels_, NSI_KERNEL_SUFFIX) = TABLE(step);
