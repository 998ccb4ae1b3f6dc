// Kernels of the impulse solver, for any machine and for AVX2+FMA.

#ifndef NSI_NCP_KERNELS_H
#define NSI_NCP_KERNELS_H

#include "expr/kernels.h"

typedef struct nsi_ncp_kernels {
    nsi_block_kernel* value[NSI_LANE_FORMS];
    nsi_block_kernel* tangent[NSI_LANE_FORMS];
    nsi_block_kernel* adjoint[NSI_LANE_FORMS];
} nsi_ncp_kernels;

extern const nsi_ncp_kernels nsi_ncp_kernels_generic;
extern const nsi_ncp_kernels nsi_ncp_kernels_avx2; // only with NSI_HAVE_AVX2_KERNELS

#endif
