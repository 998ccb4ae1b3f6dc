// Kernels of the convex relaxation of contact, for any machine and for AVX2+FMA.

#ifndef NSI_CONVEX_KERNELS_H
#define NSI_CONVEX_KERNELS_H

#include "contact/ncp_kernels.h"

extern const nsi_ncp_kernels nsi_convex_kernels_generic;
extern const nsi_ncp_kernels nsi_convex_kernels_avx2; // only with NSI_HAVE_AVX2_KERNELS

#endif
