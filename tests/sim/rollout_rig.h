// Robots and the inputs of their rollouts, drawn at random.

#ifndef TEST_ROLLOUT_RIG_H
#define TEST_ROLLOUT_RIG_H

#include "base/common.h"
#include "model/model_data.h"
#include "neuralsim/sim.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/evaluate.h"
#include "support/randomtree.h"

#include <stdlib.h>
#include <string.h>

// ---- robots and their inputs ---------------------------------------------------------------

typedef struct rig {
    random_tree tree;
    ns_model* model;
    ns_system* system;
    ns_model_sizes z;
    ns_system_sizes n;
} rig;

static const random_tree_options everything = {
    .forces = true, .armature = true, .mimic = true, .actuators = true};

static inline ns_system* make_system(const ns_model* model, const ns_system_options* options) {
    ns_system* system = NULL;
    ns_error error = {0};
    must(ns_system_create(model, options, &system, &error), &error);
    return system;
}

static inline rig rig_create(random_tree_options tree, uint64_t seed, uint32_t nlink,
                             const ns_system_options* options) {
    rig r;
    tree.seed = seed;
    tree.nlink = nlink;
    random_tree_make(&r.tree, &tree);
    r.model = random_tree_build(&r.tree, NULL);
    r.system = make_system(r.model, options);
    r.z = ns_model_get_sizes(r.model);
    r.n = ns_system_get_sizes(r.system);
    return r;
}

static inline void rig_free(rig* r) {
    ns_system_free(r->system);
    ns_model_free(r->model);
}

// All parameters free, some observations.
static inline ns_system_options full_options(void) {
    static const char *const free_params[] = {"**"}, *const observe[] = {"qdd", "energy", "com"};
    ns_system_options options = ns_default_system_options();
    options.free_params = free_params;
    options.nfree = 1;
    options.observe = observe;
    options.nobserve = 3;
    options.timestep = 2e-3;
    return options;
}

static inline ns_workspace* make_work(const ns_system* system, ns_workspace_size size) {
    ns_workspace* work = NULL;
    ns_error error = {0};
    must(ns_workspace_create(system, &size, &work, &error), &error);
    return work;
}

// States of a batch; motors near their joints.
static inline double* random_states(const rig* r, ns_rng* rng, uint32_t batch) {
    double* x = random_doubles(rng, (size_t)batch * r->n.nx, 0.3);
    for (uint32_t b = 0; b < batch; b++) {
        double* at = x + (size_t)b * r->n.nx;
        random_state(r->model, rng, at, at + r->z.nq);
    }
    return x;
}

// Everything a rollout and its derivatives read and write.
typedef struct run {
    uint32_t batch, steps;
    size_t nstate, nobserved, ncontrol; // numbers in all
    double *x0, *controls, *states, *observations;
    double *state_seeds, *observation_seeds, *dx0, *dcontrols, *dparams;
    double *tx0, *tcontrols, *tparams, *dstates, *dobservations; // tangents
} run;

static inline run run_create(const rig* r, ns_rng* rng, uint32_t batch, uint32_t steps) {
    run u = {.batch = batch, .steps = steps};
    u.nstate = (size_t)batch * (steps + 1) * r->n.nx;
    u.nobserved = (size_t)batch * steps * r->n.ny;
    u.ncontrol = (size_t)batch * steps * r->n.nc;
    u.x0 = random_states(r, rng, batch);
    u.controls = random_doubles(rng, u.ncontrol, 0.5);
    u.states = doubles(u.nstate);
    u.observations = doubles(u.nobserved);
    u.state_seeds = random_doubles(rng, u.nstate, 1.0);
    u.observation_seeds = random_doubles(rng, u.nobserved, 0.1);
    u.dx0 = doubles((size_t)batch * r->n.nx);
    u.dcontrols = doubles(u.ncontrol);
    u.dparams = doubles((size_t)batch * r->n.np);
    u.tx0 = random_doubles(rng, (size_t)batch * r->n.nx, 1.0);
    u.tcontrols = random_doubles(rng, u.ncontrol, 1.0);
    u.tparams = random_doubles(rng, r->n.np, 0.1);
    u.dstates = doubles(u.nstate);
    u.dobservations = doubles(u.nobserved);
    return u;
}

static inline void run_free(run* u) {
    double* all[] = {u->x0,        u->controls,  u->states,  u->observations, u->state_seeds,
                     u->dx0,       u->dcontrols, u->dparams, u->tx0,          u->observation_seeds,
                     u->tcontrols, u->tparams,   u->dstates, u->dobservations};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static inline ns_rollout_args run_args(const run* u) {
    return (ns_rollout_args){.batch = u->batch,
                             .steps = u->steps,
                             .x0 = u->x0,
                             .controls = u->controls,
                             .states = u->states,
                             .observations = u->observations};
}

static inline ns_rollout_adjoint run_adjoint(const run* u) {
    return (ns_rollout_adjoint){.state_seeds = u->state_seeds,
                                .observation_seeds = u->observation_seeds,
                                .dx0 = u->dx0,
                                .dcontrols = u->dcontrols,
                                .dparams = u->dparams};
}

static inline ns_rollout_tangent run_tangent(const run* u) {
    return (ns_rollout_tangent){.dx0 = u->tx0,
                                .dcontrols = u->tcontrols,
                                .dparams = u->tparams,
                                .dstates = u->dstates,
                                .dobservations = u->dobservations};
}

// Rollout, both derivatives, with a workspace of its own.
static inline void run_all(const rig* r, const run* u, ns_workspace_size size,
                           bool per_robot_params) {
    ns_error error = {0};
    size.batch = u->batch;
    size.steps = u->steps;
    ns_workspace* work = make_work(r->system, size);
    ns_rollout_args args = run_args(u);
    ns_rollout_adjoint adjoint = run_adjoint(u);
    ns_rollout_tangent tangent = run_tangent(u);
    double* params = doubles((size_t)u->batch * r->n.np);
    double* tparams = doubles((size_t)u->batch * r->n.np);
    if (per_robot_params) {
        for (uint32_t b = 0; b < u->batch; b++) {
            ns_system_default_params(r->system, params + (size_t)b * r->n.np);
            memcpy(tparams + (size_t)b * r->n.np, u->tparams, r->n.np * sizeof *tparams);
        }
        args.params = params;
        args.per_robot_params = true;
        tangent.dparams = tparams;
    }
    must(ns_rollout_jvp(r->system, work, &args, &tangent, &error), &error);
    must(ns_rollout_vjp(r->system, work, &args, &adjoint, &error), &error);
    must(ns_rollout(r->system, work, &args, &error), &error);
    free(params);
    free(tparams);
    ns_workspace_free(work);
}

// ---- the same bits -------------------------------------------------------------------------

// A run with the inputs of another and results of its own.
static inline run run_again(const rig* r, const run* u) {
    ns_rng rng = ns_rng_seed(0);
    run v = run_create(r, &rng, u->batch, u->steps);
    memcpy(v.x0, u->x0, (size_t)u->batch * r->n.nx * sizeof(double));
    memcpy(v.controls, u->controls, u->ncontrol * sizeof(double));
    memcpy(v.state_seeds, u->state_seeds, u->nstate * sizeof(double));
    memcpy(v.observation_seeds, u->observation_seeds, u->nobserved * sizeof(double));
    memcpy(v.tx0, u->tx0, (size_t)u->batch * r->n.nx * sizeof(double));
    memcpy(v.tcontrols, u->tcontrols, u->ncontrol * sizeof(double));
    memcpy(v.tparams, u->tparams, r->n.np * sizeof(double));
    return v;
}

// ---- what goes wrong -----------------------------------------------------------------------

// A body on a slider along z, without gravity.
static inline random_tree slider(void) {
    random_tree tree = {.world = ns_default_world_def(), .nlink = 1};
    ns_link_def link = ns_default_link_def();
    link.name = "body";
    link.joint = "slide";
    link.joint_type = NS_JOINT_PRISMATIC;
    link.mass = 1.0;
    tree.world.gravity[2] = 0.0;
    tree.link[0] = link;
    return tree;
}

#endif
