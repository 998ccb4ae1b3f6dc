// Information of the residuals about parameters and coefficients, with all other unknowns eliminated.

#include "solver/solvers.h"
#include "sysid/objective_state.h"

#include <math.h>

bool nsi_objective_information(nsi_objective* e, double* information) {
    nsi_normal* m = &e->normal;
    uint32_t n = e->n, nz = e->nz, nw = e->nw;
    double value;
    if (!nsi_normal_linearise(e, true, &value) || !nsi_normal_reduce(e, 0.0)) return false;

    // Initial states are eliminated; the block of the parameters.
    for (uint32_t i = 0; i < nz; i++) {
        for (uint32_t j = 0; j <= i; j++) information[(size_t)i * nz + j] = m->S[(size_t)i * n + j];
    }
    if (nw == 0) return true;
    // Weights: A - B' W^-1 B. Y has room for B (nw x nz) only when states are free: use H, which has.
    double* W = m->H;
    double mean = nsi_mean_weight_diagonal(e, m->S);
    for (uint32_t i = 0; i < nw; i++) {
        for (uint32_t j = 0; j <= i; j++)
            W[(size_t)i * nw + j] = m->S[(size_t)(nz + i) * n + nz + j];

        // A ridge for weights that the data does not determine.
        double own = W[(size_t)i * nw + i], size = nsi_is_network_weight(e, nz + i) ? mean : own;
        W[(size_t)i * nw + i] += size > 0.0 ? 1e-10 * size : 1.0;
    }

    // Eliminate the weights.
    if (!nsi_dense_cholesky(nw, W, e->threads)) return false;
    double* B = nsi_numbers(e, (size_t)nw * nz);
    if (!B) return false;
    for (uint32_t i = 0; i < nw; i++) {
        for (uint32_t j = 0; j < nz; j++) B[(size_t)i * nz + j] = m->S[(size_t)(nz + i) * n + j];
    }
    nsi_dense_cholesky_solve(nw, W, nz, B);

    // What is left for the parameters when the weights follow them.
    for (uint32_t i = 0; i < nz; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double sum = 0.0;
            for (uint32_t k = 0; k < nw; k++) {
                sum += m->S[(size_t)(nz + k) * n + i] * B[(size_t)k * nz + j];
            }
            information[(size_t)i * nz + j] -= sum;
        }
    }
    nsi_free(&e->allocator, B);
    return true;
}

// S scaled to a diagonal of 1 has the inverse diag(S) S^-1: how much larger a variance is than it would
// be with all else known. Rounding in S hides what is above LOST.
bool nsi_objective_coefficient_variances(nsi_objective* e, double* variances) {
    enum { LOST = 1000000000 };
    nsi_normal* m = &e->normal;
    uint32_t n = e->n, nz = e->nz;

    // Normal equations at the current point, reduced to parameters and weights.
    double value;
    if (!nsi_normal_linearise(e, true, &value) || !nsi_normal_reduce(e, 0.0)) return false;

    // Scale to a diagonal of 1, with a ridge that bounds the variance of undetermined ones.
    double *A = m->H, *size = m->g, *column = m->step;
    for (uint32_t i = 0; i < n; i++) size[i] = sqrt(fmax(m->S[(size_t)i * n + i], 0.0));
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            double both = size[i] * size[j];
            A[(size_t)i * n + j] = both > 0.0 ? m->S[(size_t)i * n + j] / both : 0.0;
        }
        A[(size_t)i * n + i] = 1.0 + 0.1 / LOST;
    }

    // A column of the inverse for each coefficient.
    if (!nsi_dense_cholesky(n, A, e->threads)) return false;
    for (uint32_t k = 0; k < e->nw; k++) {
        variances[k] = NAN;

        // Weights of networks have no meaning of their own, so no variance either.
        if (!e->coefficient[k] || !(size[nz + k] > 0.0)) continue;
        memset(column, 0, n * sizeof *column);
        column[nz + k] = 1.0;
        nsi_dense_cholesky_solve(n, A, 1, column);

        // Back to units of the coefficient; beyond the limit it is undetermined.
        double inflated = column[nz + k];
        variances[k] =
            inflated < LOST ? inflated / (size[nz + k] * size[nz + k]) : (double)INFINITY;
    }
    return true;
}
