// Learned systems and their steps in plain C.

#ifndef TEST_LEARNED_RIG_H
#define TEST_LEARNED_RIG_H

#include "base/common.h"
#include "neuralsim/learned.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/residual.h"

#include <stdlib.h>

static inline ns_system* make_system(const ns_learned_def* def, ns_backend backend) {
    ns_system* system = NULL;
    ns_error error = {0};
    must(ns_system_create_learned(def, NULL, backend, &system, &error), &error);
    return system;
}

static inline ns_workspace* make_work(const ns_system* system, ns_workspace_size size) {
    ns_workspace* work = NULL;
    ns_error error = {0};
    must(ns_workspace_create(system, &size, &work, &error), &error);
    return work;
}

// ---- definitions ---------------------------------------------------------------------------

enum { NX = 4, NC = 2, NIN = 6 };

// Three states are seen, one of them as an angle; everything is scaled.
static inline ns_learned_def awkward_def(ns_learned_kind kind, bool increment) {
    static const ns_learned_input modes[] = {NS_LEARNED_RAW, NS_LEARNED_ANGLE, NS_LEARNED_HIDE};
    static const uint32_t hidden[] = {5, 3};
    static const double shift[] = {0.2, -0.1, 0.3}, scale[] = {2.0, 3.0, 0.5, 1.5};
    static const double control_shift[] = {0.1, -0.3}, control_scale[] = {0.7};
    static const double output_scale[] = {0.5, 0.8, 1.2};
    ns_learned_def def = ns_default_learned_def();
    def.kind = kind;
    def.increment = increment;
    def.nx = NX, def.nc = NC;
    def.hidden = hidden, def.nhidden = 2;
    def.state_input = modes, def.nstate_input = 3;
    def.state_shift = shift, def.nstate_shift = 3;
    def.state_scale = scale, def.nstate_scale = 4;
    def.control_shift = control_shift, def.ncontrol_shift = 2;
    def.control_scale = control_scale, def.ncontrol_scale = 1;
    def.output_scale = output_scale, def.noutput_scale = 3; // the fourth: its state's
    return def;
}

static inline ns_learned_def small_def(ns_learned_kind kind, uint32_t nx, uint32_t nc,
                                       uint32_t nhidden, const uint32_t* hidden) {
    ns_learned_def def = ns_default_learned_def();
    def.kind = kind;
    def.nx = nx, def.nc = nc;
    def.hidden = hidden, def.nhidden = nhidden;
    return def;
}

// ---- derivatives ---------------------------------------------------------------------------

// Everything a rollout and its derivatives read and write.
typedef struct run {
    ns_system_sizes z;
    uint32_t batch, steps;
    size_t nstate, ncontrol, nx0;
    double *w, *x0, *controls, *seeds, *tw, *tx0, *tcontrols; // read
    double *states, *dx0, *dcontrols, *dw, *dstates;          // written
} run;

static inline run run_create(const ns_system* system, ns_rng* rng, uint32_t batch, uint32_t steps) {
    run u = {.z = ns_system_get_sizes(system), .batch = batch, .steps = steps};
    u.nstate = (size_t)batch * (steps + 1) * u.z.nx;
    u.ncontrol = (size_t)batch * steps * u.z.nc;
    u.nx0 = (size_t)batch * u.z.nx;
    u.w = random_doubles(rng, u.z.nw, 0.5);
    u.x0 = random_doubles(rng, u.nx0, 1.0);
    u.controls = random_doubles(rng, u.ncontrol, 1.0);
    u.seeds = random_doubles(rng, u.nstate, 1.0);
    u.tw = random_doubles(rng, u.z.nw, 1.0);
    u.tx0 = random_doubles(rng, u.nx0, 1.0);
    u.tcontrols = random_doubles(rng, u.ncontrol, 1.0);
    u.states = doubles(u.nstate), u.dstates = doubles(u.nstate);
    u.dx0 = doubles(u.nx0), u.dcontrols = doubles(u.ncontrol), u.dw = doubles(u.z.nw);
    return u;
}

// The same inputs, other results.
static inline run run_again(const run* u) {
    run v = *u;
    v.states = doubles(u->nstate), v.dstates = doubles(u->nstate);
    v.dx0 = doubles(u->nx0), v.dcontrols = doubles(u->ncontrol), v.dw = doubles(u->z.nw);
    return v;
}

static inline void run_free_results(run* u) {
    free(u->states), free(u->dstates), free(u->dx0), free(u->dcontrols), free(u->dw);
}

static inline void run_free(run* u) {
    run_free_results(u);
    free(u->w), free(u->x0), free(u->controls), free(u->seeds);
    free(u->tw), free(u->tx0), free(u->tcontrols);
}

static inline ns_rollout_args run_args(const run* u) {
    return (ns_rollout_args){.batch = u->batch,
                             .steps = u->steps,
                             .x0 = u->x0,
                             .controls = u->controls,
                             .weights = u->w,
                             .states = u->states};
}

static inline void run_all(const ns_system* system, const run* u, ns_workspace_size size) {
    size.batch = u->batch, size.steps = u->steps;
    ns_workspace* work = make_work(system, size);
    ns_rollout_args args = run_args(u);
    ns_rollout_tangent tangent = {
        .dx0 = u->tx0, .dcontrols = u->tcontrols, .dweights = u->tw, .dstates = u->dstates};
    ns_rollout_adjoint adjoint = {
        .state_seeds = u->seeds, .dx0 = u->dx0, .dcontrols = u->dcontrols, .dweights = u->dw};
    ns_error error = {0};
    must(ns_rollout_jvp(system, work, &args, &tangent, &error), &error);
    must(ns_rollout_vjp(system, work, &args, &adjoint, &error), &error);
    must(ns_rollout(system, work, &args, &error), &error);
    ns_workspace_free(work);
}

#endif
