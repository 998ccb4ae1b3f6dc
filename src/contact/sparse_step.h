// The step of contact_step.h for many bodies: the same inputs and outputs, but rows of Z have the
// velocities of their contact only, and problems are solved in the space of velocities (ncp_sparse.def).
//
// Parameters: n, nsi_friction, numbers in a row of Z, velocities, trees; then where the velocities of
// each tree begin, and their number; then for each contact which velocities its numbers are of, ended by
// UINT32_MAX where there are fewer.

#ifndef NSI_SPARSE_STEP_H
#define NSI_SPARSE_STEP_H

#include <stddef.h>
#include <stdint.h>

typedef void nsi_sparse_kernel(const uint32_t* params, const double* x, double* y, double* scratch);

typedef struct nsi_sparse_step {
    nsi_sparse_kernel *value, *tangent, *adjoint;
} nsi_sparse_step;

extern const nsi_sparse_step nsi_sparse_step_generic;
extern const nsi_sparse_step nsi_sparse_step_avx2; // only with NSI_HAVE_AVX2_KERNELS

enum { NSI_SPARSE_BEGIN = 5 }; // parameters in front of those of trees

// Doubles that a kernel needs for n contacts with `width` numbers in a row, `size` velocities of `trees`.
static inline size_t nsi_sparse_step_scratch(size_t n, size_t width, size_t size, size_t trees) {
    const size_t rows = 3 * n + 4;
    return 64 + (16 + 24) * rows + 4 * n * (width + 2) + 27 * n + 5 * size + size * size +
           (2 * trees + size + 1) / 2 + (trees * trees + 7) / 8;
}

#endif
