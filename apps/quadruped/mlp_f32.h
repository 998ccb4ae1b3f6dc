// A network of dense layers with ELU, evaluated for one input in single precision: weights are read
// once per decision, so that their size is what takes time. For any machine and for AVX2.

#ifndef QUADRUPED_MLP_F32_H
#define QUADRUPED_MLP_F32_H

#include "quadruped/support.h"

enum { QUAD_MLP_F32_WIDEST = 512, QUAD_MLP_F32_LAYERS = 6 };

// y (sizes[nlayer]) from x (sizes[0]); weights layer by layer as in nn.h: row j leads from input j, the
// last row holds biases. The last layer is linear. No size is above QUAD_MLP_F32_WIDEST.
typedef void quad_mlp_f32_kernel(uint32_t nlayer, const uint32_t* sizes, const float* weights,
                                 const float* x, float* y);

quad_mlp_f32_kernel quad_mlp_f32_generic, quad_mlp_f32_avx2; // QUAD_HAVE_AVX2_KERNELS

#endif
