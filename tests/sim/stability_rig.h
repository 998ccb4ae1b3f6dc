// Batches of rollouts for tests of stability: run, look at states and observations, differentiate.

#ifndef TEST_STABILITY_RIG_H
#define TEST_STABILITY_RIG_H

#include "model/model_data.h"
#include "neuralsim/sim.h"
#include "support/assert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct scene {
    ns_system* system;
    ns_workspace* work;
    ns_model_sizes sizes;
    ns_system_sizes n;
    uint32_t batch, steps;
    double* x0;           // (batch x nx)
    double* controls;     // (batch x steps x nc)
    double* states;       // (batch x (steps + 1) x nx)
    double* observations; // (batch x steps x ny)
} scene;

// Initial states are zero, quaternions the identity; controls are zero.
static inline scene scene_create(const ns_model* model, const ns_system_options* options,
                                 uint32_t batch, uint32_t steps) {
    scene s = {.batch = batch, .steps = steps};
    ns_error error = {0};
    must(ns_system_create(model, options, &s.system, &error), &error);
    ns_workspace_size size = {.batch = batch, .steps = steps, .threads = 1};
    must(ns_workspace_create(s.system, &size, &s.work, &error), &error);
    s.sizes = ns_model_get_sizes(model);
    s.n = ns_system_get_sizes(s.system);
    s.x0 = doubles((size_t)batch * s.n.nx);
    s.controls = doubles((size_t)batch * steps * s.n.nc + 1);
    s.states = doubles((size_t)batch * (steps + 1) * s.n.nx);
    s.observations = doubles((size_t)batch * steps * s.n.ny + 1);
    for (uint32_t i = 0; i < s.sizes.nlink; i++) {
        const nsi_link* link = &model->links[i];
        for (uint32_t b = 0; b < batch; b++) {
            double* q = s.x0 + (size_t)b * s.n.nx + link->q;
            if (link->nq == 7) q[3] = 1.0;
            if (link->nq == 4) q[0] = 1.0;
        }
    }
    return s;
}

static inline void scene_free(scene* s) {
    free(s->x0), free(s->controls), free(s->states), free(s->observations);
    ns_workspace_free(s->work);
    ns_system_free(s->system);
}

static inline ns_rollout_args scene_args(const scene* s) {
    return (ns_rollout_args){.batch = s->batch,
                             .steps = s->steps,
                             .x0 = s->x0,
                             .controls = s->controls,
                             .states = s->states,
                             .observations = s->n.ny > 0 ? s->observations : NULL};
}

static inline void scene_run(scene* s) {
    ns_error error = {0};
    ns_rollout_args args = scene_args(s);
    must(ns_rollout(s->system, s->work, &args, &error), &error);
}

static inline const double* scene_state(const scene* s, uint32_t robot, uint32_t step) {
    return s->states + ((size_t)robot * (s->steps + 1) + step) * s->n.nx;
}

// The largest entry of the derivative of the final state for the initial one, by one reverse rollout
// for each component of the state; all robots of the batch count.
static inline double scene_sensitivity(scene* s) {
    uint32_t nx = s->n.nx;
    size_t count = (size_t)s->batch * (s->steps + 1) * nx;
    double *seeds = doubles(count), *dx0 = doubles((size_t)s->batch * nx), largest = 0.0;
    for (uint32_t i = 0; i < nx; i++) {
        ns_error error = {0};
        ns_rollout_args args = scene_args(s);
        memset(seeds, 0, count * sizeof *seeds);
        for (uint32_t b = 0; b < s->batch; b++) {
            seeds[((size_t)(b + 1) * (s->steps + 1) - 1) * nx + i] = 1.0;
        }
        ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx0};
        must(ns_rollout_vjp(s->system, s->work, &args, &adjoint, &error), &error);
        largest = fmax(largest, max_abs(dx0, (size_t)s->batch * nx));
    }
    free(seeds), free(dx0);
    return largest;
}

#endif
