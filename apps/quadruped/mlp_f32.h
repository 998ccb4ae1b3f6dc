// A network of dense layers with ELU, evaluated for one input in single precision: weights are read
// once per decision, so that their size is what takes time. For any machine and for AVX2.

#ifndef NSI_QUADRUPED_MLP_F32_H
#define NSI_QUADRUPED_MLP_F32_H

#include "base/common.h"

enum { NSI_MLP_F32_WIDEST = 512, NSI_MLP_F32_LAYERS = 6 };

// y (sizes[nlayer]) from x (sizes[0]); weights layer by layer as in nn.h: row j leads from input j, the
// last row holds biases. The last layer is linear. No size is above NSI_MLP_F32_WIDEST.
typedef void nsi_mlp_f32_kernel(uint32_t nlayer, const uint32_t* sizes, const float* weights,
                                const float* x, float* y);

nsi_mlp_f32_kernel nsi_mlp_f32_generic, nsi_mlp_f32_avx2; // NSI_HAVE_AVX2_KERNELS

#endif
