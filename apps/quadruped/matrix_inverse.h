// The inverse of a symmetric positive definite matrix of some hundred rows, for any machine and for
// AVX2.

#ifndef NSI_QUADRUPED_MATRIX_INVERSE_H
#define NSI_QUADRUPED_MATRIX_INVERSE_H

#include "base/common.h"

// Replace A (n x n, of which the lower triangle is read) by its inverse, all of it.
// @param work  (3 n)
// @return false, with A spoiled, when a pivot is below `least` of the diagonal it came from
typedef bool nsi_inverse_kernel(uint32_t n, double* A, double least, double* work);

nsi_inverse_kernel nsi_inverse_generic, nsi_inverse_avx2; // the latter: NSI_HAVE_AVX2_KERNELS

#endif
