// Densities whose moments are known, for tests of samplers.

#ifndef TEST_POSTERIOR_RIG_H
#define TEST_POSTERIOR_RIG_H

#include "neuralsim/posterior.h"
#include "support/assert.h"

#include <math.h>
#include <stdlib.h>

enum { GAUSS = 5 };

// Correlated, with scales from 1e-3 to 1e3.
typedef struct gauss {
    double mean[GAUSS], covariance[GAUSS * GAUSS], precision[GAUSS * GAUSS];
} gauss;

// Neighbours of an AR(1) process have correlation phi; its precision is tridiagonal.
static inline gauss make_gauss(void) {
    gauss g = {{0}, {0}, {0}};
    const double phi = 0.9, scale[GAUSS] = {1e-3, 1.0, 1e3, 10.0, 0.1};
    for (int i = 0; i < GAUSS; i++) {
        g.mean[i] = scale[i] * (i - 3);
        for (int j = 0; j < GAUSS; j++) {
            double p = i == j ? (i == 0 || i == GAUSS - 1 ? 1.0 : 1.0 + phi * phi)
                              : (abs(i - j) == 1 ? -phi : 0.0);
            g.precision[i * GAUSS + j] = p / (1.0 - phi * phi) / (scale[i] * scale[j]);
            g.covariance[i * GAUSS + j] = pow(phi, abs(i - j)) * scale[i] * scale[j];
        }
    }
    return g;
}

static inline double gauss_density(void* context, uint32_t worker, const double* x, double* g) {
    (void)worker;
    const gauss* d = context;
    double value = 0.0;
    for (int i = 0; i < GAUSS; i++) {
        g[i] = 0.0;
        for (int j = 0; j < GAUSS; j++) {
            g[i] -= d->precision[i * GAUSS + j] * (x[j] - d->mean[j]);
        }
        value += 0.5 * g[i] * (x[i] - d->mean[i]);
    }
    return value;
}

// log of a Gamma(4, 1) density of exp z, with the Jacobian: 4 z - exp z. Mean of exp z is 4,
// variance 4.
static inline double gamma_density(void* context, uint32_t worker, const double* z, double* g) {
    (void)context, (void)worker;
    g[0] = 4.0 - exp(z[0]);
    return 4.0 * z[0] - exp(z[0]);
}

#endif
