// The product of a step's Jacobian with the sensitivities so far, A S + B, for any machine and for
// AVX2.

#ifndef NSI_SIM_JACOBIAN_PRODUCT_H
#define NSI_SIM_JACOBIAN_PRODUCT_H

#include "base/common.h"

// A row of A without its zeros, and where the row of A S + B goes.
typedef struct nsi_jacobian_product_row {
    double* out;          // (columns) B, receives A S + B
    double* value;        // (count) of A
    const double** state; // (count) the rows of S they stand for
    uint32_t count;
} nsi_jacobian_product_row;

// Multiply rows; sums are made in the order of entries. False when a result is not finite.
typedef bool nsi_jacobian_product_kernel(const nsi_jacobian_product_row* rows, size_t nrow,
                                         size_t nx, size_t columns);

nsi_jacobian_product_kernel nsi_jacobian_product_generic,
    nsi_jacobian_product_avx2; // the latter only with NSI_HAVE_AVX2_KERNELS

#endif
