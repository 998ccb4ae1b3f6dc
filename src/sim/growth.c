// The spectral radius of the derivative of a step, by power iteration.

#include "sim/growth.h"

#include "sim/system.h"

#include <math.h>

// After half of these the largest eigenvalue dominates; the mean over the other half also suits pairs of
// complex eigenvalues. A double eigenvalue 1, as of free motion, gives 2^(2 / ITERATIONS) = 1.005.
enum { ITERATIONS = 256, SETTLING = ITERATIONS / 2 }; // the first ones are not counted

// Make a vector unit length; its length before.
static double normalize(double* v, uint32_t n) {
    double scale = 0.0, sum = 0.0;
    for (uint32_t k = 0; k < n; k++) scale = fmax(scale, fabs(v[k]));
    if (!(scale > 0.0) || !isfinite(scale)) return scale;
    for (uint32_t k = 0; k < n; k++) sum += v[k] / scale * (v[k] / scale);
    double length = scale * sqrt(sum);
    for (uint32_t k = 0; k < n; k++) v[k] /= length;
    return length;
}

ns_status nsi_step_growth(const ns_system* system, ns_workspace* work, const double* x,
                          const double* control, const double* params, const double* weights,
                          double* growth, ns_error* error) {
    uint32_t nx = ns_system_get_sizes(system).nx;
    double* room = nsi_alloc(&system->allocator, 3 * ((size_t)nx + 1) * sizeof *room);
    if (!room) return nsi_fail_nomem(error);
    double *v = room, *dstates = room + nx; // (nx), (2 x nx)

    // Any direction will do; this one is no one's symmetry.
    for (uint32_t k = 0; k < nx; k++) v[k] = 1.0 + 0.3 * sin(2.0 * k + 1.0);
    normalize(v, nx);

    ns_rollout_args args = {
        .batch = 1, .steps = 1, .x0 = x, .controls = control, .params = params, .weights = weights};
    ns_rollout_tangent tangent = {.dx0 = v, .dstates = dstates};
    double logarithm = 0.0;
    ns_status status = NS_OK;
    for (uint32_t n = 0; n < ITERATIONS && status == NS_OK; n++) {
        status = ns_rollout_jvp(system, work, &args, &tangent, error);
        memcpy(v, dstates + nx, nx * sizeof *v);
        double length = normalize(v, nx);
        if (n >= SETTLING) logarithm += log(length);
    }
    *growth = exp(logarithm / (double)(ITERATIONS - SETTLING));
    nsi_free(&system->allocator, room);
    return status;
}
