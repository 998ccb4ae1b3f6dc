// Second derivatives of the blocks of rigid contact as kernels. Compiled twice, as expr/kernels.c is.

#include "contact/second_derivative.h"

#include <math.h>
#include <stdbool.h>

#define NSI_C_SOURCE(...) __VA_ARGS__
#define L 1
#define DUAL

#define NAME(f) dual_ncp_##f
#include "contact/ncp_second_source.def"
#undef NAME
#define NAME(f) dual_contact_step_##f
#include "contact/contact_step_second_source.def"
#undef NAME
#define NAME(f) dual_convex_##f
#include "contact/convex_second_source.def"
#undef NAME

// Lanes one after another.
#define FORM(block, function, reverse, lanes)                                                      \
    static void block##_##function##_##lanes(const nsi_block_args* a) {                            \
        nsi_contact_family_sizes z;                                                                \
        if (!nsi_contact_family_measure(&nsi_##block##_family, a->params, &z)) return;             \
        const size_t last = reverse ? z.noutput : z.smooth;                                        \
        const size_t noutput = reverse ? z.smooth : z.noutput;                                     \
        for (size_t e = 0; e < lanes; e++) {                                                       \
            dual_##block##_second(reverse, a->params, z.smooth, z.fixed, last, noutput, a->x + e,  \
                                  a->y + e, a->scratch, lanes);                                    \
        }                                                                                          \
    }
#define FORMS(block, function, reverse)                                                            \
    FORM(block, function, reverse, 1)                                                              \
    FORM(block, function, reverse, 4)                                                              \
    FORM(block, function, reverse, 16)                                                             \
    FORM(block, function, reverse, 64)
#define KERNELS(block) FORMS(block, tangent, false) FORMS(block, adjoint, true)

KERNELS(ncp)
KERNELS(contact_step)
KERNELS(convex)

#define LIST(block, function)                                                                      \
    {                                                                                              \
        block##_##function##_1, block##_##function##_4, block##_##function##_16,                   \
            block##_##function##_64                                                                \
    }
#define TABLE(block)                                                                               \
    { LIST(block, tangent), LIST(block, adjoint) }
#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

const nsi_second_kernel_set PASTE(nsi_second_kernels_, NSI_KERNEL_SUFFIX) = {
    TABLE(ncp), TABLE(contact_step), TABLE(convex)};
