// Dense matrices of some hundred rows, for any machine and for AVX2: an inverse, and sums of rows.

#ifndef QUADRUPED_DENSE_KERNELS_H
#define QUADRUPED_DENSE_KERNELS_H

#include "quadruped/support.h"

// Replace A (n x n, of which the lower triangle is read) by its inverse, all of it.
// @param work  (3 n)
// @return false, with A spoiled, when a pivot is below `least` of the diagonal it came from
typedef bool quad_inverse_kernel(uint32_t n, double* A, double least, double* work);

// out (n) += sum of values[k] rows[k], in the order of k.
typedef void quad_add_rows_kernel(uint32_t n, uint32_t count, const double* values,
                                  const double* const* rows, double* out);

// Those for AVX2 exist with QUAD_HAVE_AVX2_KERNELS.
quad_inverse_kernel quad_inverse_generic, quad_inverse_avx2;
quad_add_rows_kernel quad_add_rows_generic, quad_add_rows_avx2;

#endif
