// Kernels of the impulse solver and of a step with rigid contact, for any machine and for AVX2+FMA.

#ifndef NSI_NCP_KERNELS_H
#define NSI_NCP_KERNELS_H

#include "expr/kernels.h"

typedef struct nsi_ncp_kernels {
    nsi_block_kernel* value[NSI_LANE_FORMS];
    nsi_block_kernel* tangent[NSI_LANE_FORMS];
    nsi_block_kernel* adjoint[NSI_LANE_FORMS];
} nsi_ncp_kernels;

extern const nsi_ncp_kernels nsi_ncp_kernels_generic, nsi_contact_step_kernels_generic;

// Only with NSI_HAVE_AVX2_KERNELS.
extern const nsi_ncp_kernels nsi_ncp_kernels_avx2, nsi_contact_step_kernels_avx2;

#endif
