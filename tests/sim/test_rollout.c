// Rollouts of random robots: the same bits however they are cut up, derivatives that agree with
// each other and with central differences, no allocation, no silent NaN; integrators at their
// order.

#include "base/common.h"
#include "model/model_data.h"
#include "model/pose.h"
#include "neuralsim/sim.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/evaluate.h"
#include "support/malloccount.h"
#include "support/randomtree.h"
#include "support/residual.h"
#include "support/testalloc.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

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

static ns_system* make_system(const ns_model* model, const ns_system_options* options) {
    ns_system* system = NULL;
    ns_error error = {0};
    must(ns_system_create(model, options, &system, &error), &error);
    return system;
}

static rig rig_create(random_tree_options tree, uint64_t seed, uint32_t nlink,
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

static void rig_free(rig* r) {
    ns_system_free(r->system);
    ns_model_free(r->model);
}

// All parameters free, some observations.
static ns_system_options full_options(void) {
    static const char *const free_params[] = {"**"}, *const observe[] = {"qdd", "energy", "com"};
    ns_system_options options = ns_default_system_options();
    options.free_params = free_params;
    options.nfree = 1;
    options.observe = observe;
    options.nobserve = 3;
    options.timestep = 2e-3;
    return options;
}

static ns_workspace* make_work(const ns_system* system, ns_workspace_size size) {
    ns_workspace* work = NULL;
    ns_error error = {0};
    must(ns_workspace_create(system, &size, &work, &error), &error);
    return work;
}

// States of a batch; motors near their joints.
static double* random_states(const rig* r, ns_rng* rng, uint32_t batch) {
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

static run run_create(const rig* r, ns_rng* rng, uint32_t batch, uint32_t steps) {
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

static void run_free(run* u) {
    double* all[] = {u->x0,        u->controls,  u->states,  u->observations, u->state_seeds,
                     u->dx0,       u->dcontrols, u->dparams, u->tx0,          u->observation_seeds,
                     u->tcontrols, u->tparams,   u->dstates, u->dobservations};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static ns_rollout_args run_args(const run* u) {
    return (ns_rollout_args){.batch = u->batch,
                             .steps = u->steps,
                             .x0 = u->x0,
                             .controls = u->controls,
                             .states = u->states,
                             .observations = u->observations};
}

static ns_rollout_adjoint run_adjoint(const run* u) {
    return (ns_rollout_adjoint){.state_seeds = u->state_seeds,
                                .observation_seeds = u->observation_seeds,
                                .dx0 = u->dx0,
                                .dcontrols = u->dcontrols,
                                .dparams = u->dparams};
}

static ns_rollout_tangent run_tangent(const run* u) {
    return (ns_rollout_tangent){.dx0 = u->tx0,
                                .dcontrols = u->tcontrols,
                                .dparams = u->tparams,
                                .dstates = u->dstates,
                                .dobservations = u->dobservations};
}

// Rollout, both derivatives, with a workspace of its own.
static void run_all(const rig* r, const run* u, ns_workspace_size size, bool per_robot_params) {
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

static void a_rollout_is_its_steps(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    ns_system_options options = full_options();
    for (uint32_t n = 0; n < 6; n++) {
        options.integrator = (int)(n % 3);
        rig r = rig_create(everything, 100 + n, 1 + n, &options);
        run u = run_create(&r, &rng, 3, 17);
        run_all(&r, &u, (ns_workspace_size){.threads = 1}, false);
        ns_workspace* work = make_work(r.system, (ns_workspace_size){.batch = 1, .steps = 1});
        double *pair = doubles(2 * r.n.nx), *y = doubles(r.n.ny);
        for (uint32_t b = 0; b < u.batch; b++) {
            memcpy(pair, u.x0 + b * r.n.nx, r.n.nx * sizeof *pair);
            for (uint32_t k = 0; k < u.steps; k++) {
                size_t row = (size_t)b * u.steps + k;
                ns_error error = {0};
                ns_rollout_args args = {.batch = 1, .steps = 1, .x0 = pair, .states = pair};
                args.controls = u.controls + row * r.n.nc;
                args.observations = y;
                must(ns_rollout(r.system, work, &args, &error), &error);
                memmove(pair, pair + r.n.nx, r.n.nx * sizeof *pair);
                same_bits("state", pair, u.states + (row + b + 1) * r.n.nx, r.n.nx);
                same_bits("observation", y, u.observations + row * r.n.ny, r.n.ny);
            }
        }
        free(pair);
        free(y);
        ns_workspace_free(work);
        run_free(&u);
        rig_free(&r);
    }
}

// One run against another with the same inputs.
static void compare_runs(const char* what, const rig* r, const run* a, const run* b) {
    char name[100];
    const struct {
        const char* name;
        const double *a, *b;
        size_t count;
    } parts[] = {{"states", a->states, b->states, a->nstate},
                 {"observations", a->observations, b->observations, a->nobserved},
                 {"dx0", a->dx0, b->dx0, (size_t)a->batch * r->n.nx},
                 {"dcontrols", a->dcontrols, b->dcontrols, a->ncontrol},
                 {"dparams", a->dparams, b->dparams, r->n.np},
                 {"dstates", a->dstates, b->dstates, a->nstate},
                 {"dobservations", a->dobservations, b->dobservations, a->nobserved}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        snprintf(name, sizeof name, "%s: %s", what, parts[k].name);
        same_bits(name, parts[k].a, parts[k].b, parts[k].count);
    }
}

// A run with the inputs of another and results of its own.
static run run_again(const rig* r, const run* u) {
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

static void threads_do_not_matter(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(2);
    ns_system_options options = full_options();
    for (uint32_t n = 0; n < 3; n++) {
        rig r = rig_create(everything, 200 + n, 2 + 2 * n, &options);
        run u = run_create(&r, &rng, 11 + n, 9);
        run_all(&r, &u, (ns_workspace_size){.threads = 1}, false);
        for (uint32_t threads = 0; threads <= 3; threads++) { // 0: one per core
            run v = run_again(&r, &u);
            run_all(&r, &v, (ns_workspace_size){.threads = threads}, false);
            compare_runs("threads", &r, &u, &v);
            run_free(&v);
        }
        rig_free(&r);
        run_free(&u);
    }
}

static void backends_do_not_matter(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3);
    ns_system_options options = full_options();
    for (uint32_t n = 0; n < 3; n++) {
        options.integrator = (int)n;
        options.backend = NS_BACKEND_NATIVE;
        rig r = rig_create(everything, 300 + n, 4, &options);
        run u = run_create(&r, &rng, 5, 9), v = run_again(&r, &u);
        run_all(&r, &u, (ns_workspace_size){.threads = 1}, false);
        options.backend = NS_BACKEND_INTERP;
        rig interpreted = r;
        interpreted.system = make_system(r.model, &options);
        run_all(&interpreted, &v, (ns_workspace_size){.threads = 1}, false);
        compare_runs("backends", &r, &u, &v);
        ns_system_free(interpreted.system);
        run_free(&u);
        run_free(&v);
        rig_free(&r);
    }
}

// Each robot of a batch as if it were alone; the gradient for shared parameters is the sum in
// order.
static void robots_of_a_batch_do_not_know_each_other(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(4);
    ns_system_options options = full_options();
    for (uint32_t n = 0; n < 5; n++) { // last tiles of 1, 2, 3, 4 robots
        rig r = rig_create(everything, 400 + n, 5, &options);
        run u = run_create(&r, &rng, 4 + n, 7);
        run_all(&r, &u, (ns_workspace_size){.threads = 1}, true);
        double* sum = doubles(r.n.np);
        for (uint32_t b = 0; b < u.batch; b++) {
            size_t nx = r.n.nx, states = (u.steps + 1) * nx, controls = (size_t)u.steps * r.n.nc;
            size_t observed = (size_t)u.steps * r.n.ny;
            run one = u;
            one.batch = 1;
            one.x0 += b * nx, one.tx0 += b * nx;
            one.controls += b * controls, one.tcontrols += b * controls;
            one.state_seeds += b * states, one.observation_seeds += b * observed;
            one.states = doubles(states), one.dstates = doubles(states);
            one.observations = doubles(observed), one.dobservations = doubles(observed);
            one.dx0 = doubles(nx), one.dcontrols = doubles(controls);
            one.dparams = doubles(r.n.np);
            run_all(&r, &one, (ns_workspace_size){.threads = 1}, false);
            same_bits("states", one.states, u.states + b * states, states);
            same_bits("observations", one.observations, u.observations + b * observed, observed);
            same_bits("dstates", one.dstates, u.dstates + b * states, states);
            same_bits("dobservations", one.dobservations, u.dobservations + b * observed, observed);
            same_bits("dx0", one.dx0, u.dx0 + b * nx, nx);
            same_bits("dcontrols", one.dcontrols, u.dcontrols + b * controls, controls);
            same_bits("dparams", one.dparams, u.dparams + b * r.n.np, r.n.np);
            for (uint32_t k = 0; k < r.n.np; k++) sum[k] += one.dparams[k];
            double* own[] = {one.states, one.dstates,   one.observations, one.dobservations,
                             one.dx0,    one.dcontrols, one.dparams};
            for (int k = 0; k < 7; k++) free(own[k]);
        }
        run_all(&r, &u, (ns_workspace_size){.threads = 1}, false);
        same_bits("sum of dparams", u.dparams, sum, r.n.np);
        free(sum);
        run_free(&u);
        rig_free(&r);
    }
}

// One workspace for rollouts of several shapes, with and without controls; nothing is left over
// from one to the next. Results may be left out.
static void a_workspace_can_be_used_again(void** state) {
    (void)state;
    static const uint32_t shapes[][2] = {{9, 12}, {1, 12}, {5, 3}, {2, 1}, {9, 12}, {4, 7}};
    ns_rng rng = ns_rng_seed(41);
    ns_system_options options = full_options();
    rig r = rig_create(everything, 450, 4, &options);
    ns_workspace* work = make_work(
        r.system, (ns_workspace_size){.batch = 9, .steps = 12, .threads = 2, .max_bytes = 300000});
    for (int n = 0; n < 12; n++) {
        run u = run_create(&r, &rng, shapes[n % 6][0], shapes[n % 6][1]), v = run_again(&r, &u);
        if (n % 2) {
            memset(u.controls, 0, u.ncontrol * sizeof(double));
            memset(v.controls, 0, u.ncontrol * sizeof(double));
        }
        run_all(&r, &u, (ns_workspace_size){.threads = 1}, false);
        ns_error error = {0};
        ns_rollout_args args = run_args(&v), bare = args;
        if (n % 2) args.controls = bare.controls = NULL;
        ns_rollout_adjoint adjoint = run_adjoint(&v), no_gradient = adjoint;
        ns_rollout_tangent tangent = run_tangent(&v), no_tangent = {0};
        no_gradient.dx0 = no_gradient.dcontrols = no_gradient.dparams = NULL;
        bare.states = bare.observations = NULL;
        must(ns_rollout_vjp(r.system, work, &bare, &no_gradient, &error), &error);
        must(ns_rollout_jvp(r.system, work, &bare, &no_tangent, &error), &error);
        must(ns_rollout_vjp(r.system, work, &args, &adjoint, &error), &error);
        must(ns_rollout_jvp(r.system, work, &args, &tangent, &error), &error);
        must(ns_rollout(r.system, work, &bare, &error), &error);
        compare_runs("used again", &r, &u, &v);
        run_free(&u);
        run_free(&v);
    }
    ns_workspace_free(work);
    rig_free(&r);
}

// A robot that cannot move has nothing to simulate, but that is no mistake.
static void a_robot_without_coordinates_can_be_rolled_out(void** state) {
    (void)state;
    random_tree tree;
    random_tree_make(&tree, &(random_tree_options){.nlink = 3, .seed = 1});
    for (uint32_t i = 0; i < 3; i++) tree.link[i].joint_type = NS_JOINT_FIXED;
    ns_model* model = random_tree_build(&tree, NULL);
    const char* const observe[] = {"link/*/pose"};
    ns_system_options options = ns_default_system_options();
    options.observe = observe;
    options.nobserve = 1;
    ns_system* system = make_system(model, &options);
    ns_system_sizes n = ns_system_get_sizes(system);
    assert_int_equal(n.nx, 0);
    assert_int_equal(n.ny, 21);
    ns_workspace* work = make_work(system, (ns_workspace_size){.batch = 2, .steps = 2});
    double x0[1] = {0.0}, *y = doubles(4 * (size_t)n.ny);
    ns_error error = {0};
    ns_rollout_args args = {.batch = 2, .steps = 2, .x0 = x0, .observations = y};
    must(ns_rollout(system, work, &args, &error), &error);
    must(ns_rollout_vjp(system, work, &args, &(ns_rollout_adjoint){0}, &error), &error);
    must(ns_rollout_jvp(system, work, &args, &(ns_rollout_tangent){0}, &error), &error);
    for (int k = 0; k < 3; k++) assert_true(y[k] == tree.link[0].origin.position[k]);
    free(y);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
}

// ---- checkpoints ---------------------------------------------------------------------------

static void checkpoints_change_memory_but_no_bits(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(5);
    ns_system_options options = full_options();
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    random_tree_options tree = everything;
    rig r = rig_create(tree, 500, 4, &options);
    ns_system_free(r.system);
    ns_model_free(r.model);
    r.model = random_tree_build(&r.tree, &allocator);
    r.system = make_system(r.model, &options);

    run u = run_create(&r, &rng, 5, 100);
    size_t before = counter.live_bytes;
    ns_workspace_size size = {.batch = u.batch, .steps = u.steps, .threads = 1};
    ns_workspace* work = make_work(r.system, size);
    size_t all = counter.live_bytes - before;
    ns_workspace_free(work);
    run_all(&r, &u, size, false);

    // Less and less, down to what is refused.
    uint32_t accepted = 0;
    for (size_t bytes = all; bytes > 0; bytes = bytes * 2 / 3) {
        ns_error error = {0};
        size.max_bytes = bytes;
        before = counter.live_bytes;
        ns_status status = ns_workspace_create(r.system, &size, &work, &error);
        if (status != NS_OK) {
            assert_int_equal(status, NS_ERR_LIMIT);
            assert_non_null(strstr(error.message, "max_bytes"));
            assert_int_equal(counter.live_bytes, before);
            break;
        }
        size_t used = counter.live_bytes - before;
        ns_workspace_free(work);
        // The bound is on stored states; the rest does not depend on the number of steps.
        if (accepted > 3) assert_true(used < all / 2);
        run v = run_again(&r, &u);
        run_all(&r, &v, size, false);
        compare_runs("checkpoints", &r, &u, &v);
        run_free(&v);
        accepted++;
    }
    assert_in_range(accepted, 5, 30);
    run_free(&u);
    rig_free(&r);
    assert_int_equal(counter.live_blocks, 0);
}

// ---- derivatives ---------------------------------------------------------------------------

// Where in the list of inputs (x0, controls, parameters) a number is.
static double* input_at(const rig* r, const run* u, double* params, size_t i) {
    if (i < r->n.nx) return u->x0 + i;
    i -= r->n.nx;
    return i < u->ncontrol ? u->controls + i : params + (i - u->ncontrol);
}

static double loss(const rig* r, const run* u, const double* states, const double* observations,
                   double* size) {
    double sum = 0.0;
    *size = 0.0;
    for (size_t i = 0; i < (u->steps + 1) * (size_t)r->n.nx; i++) {
        sum += u->state_seeds[i] * states[i];
        *size += fabs(u->state_seeds[i] * states[i]);
    }
    for (size_t i = 0; i < u->steps * (size_t)r->n.ny; i++) {
        sum += u->observation_seeds[i] * observations[i];
        *size += fabs(u->observation_seeds[i] * observations[i]);
    }
    return sum;
}

// The step of central differences for an input of this size: inertias are small numbers.
static double difference_step(const char* name, double value) {
    double scale = strstr(name, "/inertia/") ? 0.01 : 0.1;
    return 1e-3 * fmax(scale, fabs(value));
}

// d loss / d input i by central differences of sixth order, at steps h and h / 2.
enum { POINTS = 12 };
static const double weights[3] = {45.0 / 60.0, -9.0 / 60.0, 1.0 / 60.0};

static double point_offset(uint32_t p) { // -3 -2 -1 1 2 3, then halves of that
    int k = (int)(p % 6) - 3;
    return (p < 6 ? 1.0 : 0.5) * (k >= 0 ? k + 1 : k);
}

typedef struct slope {
    double coarse, fine, noise;
} slope;

// All slopes in one batch.
static void differences(const rig* r, run* u, const double* h, size_t ninput, slope* out) {
    size_t batch = ninput * POINTS, nx = r->n.nx, nc = u->ncontrol, np = r->n.np;
    double *x0 = doubles(batch * nx), *controls = doubles(batch * nc);
    double *params = doubles(batch * np), *values = doubles(np), *losses = doubles(batch);
    double* states = doubles(batch * (u->steps + 1) * nx);
    double* observations = doubles(batch * u->steps * r->n.ny);
    ns_system_default_params(r->system, values);
    for (size_t b = 0; b < batch; b++) {
        double* input = input_at(r, u, values, b / POINTS);
        double kept = *input;
        *input += point_offset((uint32_t)(b % POINTS)) * h[b / POINTS];
        memcpy(x0 + b * nx, u->x0, nx * sizeof *x0);
        memcpy(controls + b * nc, u->controls, nc * sizeof *controls);
        memcpy(params + b * np, values, np * sizeof *params);
        *input = kept;
    }
    ns_error error = {0};
    ns_workspace_size size = {.batch = (uint32_t)batch, .steps = u->steps, .threads = 1};
    ns_workspace* work = make_work(r->system, size);
    ns_rollout_args args = {.batch = (uint32_t)batch, .steps = u->steps, .x0 = x0};
    args.controls = controls;
    args.params = params;
    args.per_robot_params = true;
    args.states = states;
    args.observations = observations;
    must(ns_rollout(r->system, work, &args, &error), &error);
    for (size_t i = 0; i < ninput; i++) {
        out[i] = (slope){0};
        for (uint32_t p = 0; p < POINTS; p++) {
            size_t b = i * POINTS + p;
            double extent, offset = point_offset(p), value;
            value = loss(r, u, states + b * (u->steps + 1) * nx,
                         observations + b * u->steps * r->n.ny, &extent);
            int k = (int)(fabs(offset) * (p < 6 ? 1.0 : 2.0) + 0.5) - 1;
            double weight = (offset > 0.0 ? 1.0 : -1.0) * weights[k] / h[i];
            if (p < 6) out[i].coarse += weight * value;
            if (p >= 6) out[i].fine += 2.0 * weight * value;
            // Each term of the loss carries some ten roundings of its own.
            out[i].noise = fmax(out[i].noise, 10.0 * DBL_EPSILON * extent / h[i]);
        }
    }
    free(x0), free(controls), free(params), free(values), free(losses), free(states);
    free(observations);
    ns_workspace_free(work);
}

// Does this parameter have any effect? By what the header says, not by what was traced.
static bool acts(const rig* r, uint32_t param) {
    const ns_model* model = r->model;
    for (uint32_t i = 0; i < r->z.nlink; i++) {
        const nsi_link* l = &model->links[i];
        if (param < l->param || param >= l->param + NSI_LINK_PARAMS) continue;
        uint32_t k = param - l->param, up = i;
        ns_joint_type type = l->def.joint_type;
        bool axis = type == NS_JOINT_REVOLUTE || type == NS_JOINT_PRISMATIC;
        while (up != NSI_NONE && model->links[up].def.joint_type == NS_JOINT_FIXED) {
            up = model->links[up].parent;
        }
        if (k < NSI_JOINT_ORIGIN) return up != NSI_NONE; // not when welded to the world
        if (k < NSI_JOINT_AXIS) return type != NS_JOINT_FLOATING;
        if (k <= NSI_JOINT_REST) return axis;
        if (k <= NSI_JOINT_ARMATURE) return type != NS_JOINT_FIXED;
        return l->def.limited;
    }
    for (uint32_t i = 0; i < r->z.nu; i++) {
        const nsi_actuator* a = &model->actuators[i];
        if (param < a->param || param >= a->param + NSI_ACTUATOR_PARAMS) continue;
        ns_actuator_type type = a->def.type;
        uint32_t k = param - a->param;
        if (k == NSI_ACTUATOR_KP) {
            return type == NS_ACTUATOR_POSITION || type == NS_ACTUATOR_SERIES_ELASTIC;
        }
        return k == NSI_ACTUATOR_GEAR || type != NS_ACTUATOR_TORQUE;
    }
    return true; // gravity
}

// Kinds of parameters: the name without that of the link, joint or actuator.
enum { MAX_KINDS = 64 };
typedef struct kinds {
    uint32_t count;
    char name[MAX_KINDS][40];
    uint32_t checked[MAX_KINDS]; // parameters whose gradient stands out of the noise
} kinds;

static void count_kind(kinds* all, const char* name, bool clear) {
    char kind[40];
    const char *first = strchr(name, '/'), *second = first ? strchr(first + 1, '/') : NULL;
    bool of_world = strncmp(name, "world/", 6) == 0;
    snprintf(kind, sizeof kind, "%.*s%.30s", (int)(first - name), name, of_world ? first : second);
    uint32_t k = 0;
    while (k < all->count && strcmp(all->name[k], kind) != 0) k++;
    assert_true(k < MAX_KINDS);
    if (k == all->count) memcpy(all->name[all->count++], kind, sizeof kind);
    all->checked[k] += clear;
}

// The tolerance of central differences: where steps h and h/2 agree to a tenth of it, the finer
// one, whose error is 64 times smaller, is better than that.
static const double GRADIENT = 1e-7;

typedef struct gradient_residuals {
    residual transpose, slope;
    uint32_t undecided;
    kinds kinds;
} gradient_residuals;

static void check_gradient(const rig* r, ns_rng* rng, uint32_t steps, gradient_residuals* g) {
    run u = run_create(r, rng, 1, steps);
    run_all(r, &u, (ns_workspace_size){.threads = 1}, false);
    size_t ninput = r->n.nx + u.ncontrol + r->n.np;

    // Forward against reverse: <seeds, J t> = <J' seeds, t>.
    double left = 0.0, right = 0.0, extent;
    left = loss(r, &u, u.dstates, u.dobservations, &extent);
    for (size_t i = 0; i < r->n.nx; i++) right += u.dx0[i] * u.tx0[i];
    for (size_t i = 0; i < u.ncontrol; i++) right += u.dcontrols[i] * u.tcontrols[i];
    for (size_t i = 0; i < r->n.np; i++) right += u.dparams[i] * u.tparams[i];
    residual_add(&g->transpose, left, right, extent);

    // Every component against central differences.
    double *h = doubles(ninput), *values = doubles(r->n.np);
    slope* slopes = calloc(ninput + 1, sizeof *slopes);
    assert_non_null(slopes);
    ns_system_default_params(r->system, values);
    for (size_t i = 0; i < ninput; i++) {
        size_t p = i - r->n.nx - u.ncontrol;
        bool parameter = i >= r->n.nx + u.ncontrol;
        const char* name = parameter ? ns_system_param_name(r->system, (uint32_t)p) : "";
        h[i] = difference_step(name, parameter ? values[p] : 1.0);
    }
    differences(r, &u, h, ninput, slopes);
    for (size_t i = 0; i < ninput; i++) {
        size_t p = i - r->n.nx - u.ncontrol;
        bool parameter = i >= r->n.nx + u.ncontrol;
        double got = i < r->n.nx ? u.dx0[i] : parameter ? u.dparams[p] : u.dcontrols[i - r->n.nx];
        slope s = slopes[i];
        if (parameter && !acts(r, (uint32_t)p)) {
            const char* name = ns_system_param_name(r->system, (uint32_t)p);
            if (got != 0.0 || fabs(s.coarse) > s.noise) fail_msg("%s acts, but should not", name);
            continue;
        }
        if (fabs(s.coarse - s.fine) > 0.1 * GRADIENT * fabs(s.fine) + s.noise) {
            g->undecided++; // a kink within the step
            continue;
        }
        // Off by the noise is off by the tolerance.
        residual_add(&g->slope, got, s.fine, fmax(fabs(s.fine), s.noise / GRADIENT));
        if (parameter) {
            count_kind(&g->kinds, ns_system_param_name(r->system, (uint32_t)p),
                       fabs(s.fine) > 1e3 * s.noise);
        }
    }
    free(h), free(values), free(slopes);
    run_free(&u);
}

static void check_gradients(random_tree_options tree, int integrator, uint64_t seed, uint32_t cases,
                            gradient_residuals* g) {
    ns_rng rng = ns_rng_seed(seed);
    ns_system_options options = full_options();
    options.integrator = integrator;
    for (uint32_t n = 0; n < cases; n++) {
        rig r = rig_create(tree, seed + n, 1 + n % 6, &options);
        check_gradient(&r, &rng, 8, g);
        rig_free(&r);
    }
}

static void every_parameter_has_its_gradient(void** state) {
    (void)state;
    gradient_residuals g = {
        .transpose = {.name = "reverse against forward mode", .tolerance = 1e-12},
        .slope = {.name = "reverse mode against central differences", .tolerance = GRADIENT}};
    random_tree_options no_mimic = everything;
    no_mimic.mimic = false;
    check_gradients(no_mimic, NS_INTEGRATOR_EULER, 1000, 18, &g);
    check_gradients(everything, NS_INTEGRATOR_EULER, 2000, 12, &g);
    check_gradients(everything, NS_INTEGRATOR_RK4, 3000, 6, &g);
    check_gradients(everything, NS_INTEGRATOR_IMPLICIT, 4000, 6, &g);
    printf("    %u slopes undecided, %u kinds of parameters\n", g.undecided, g.kinds.count);
    residual_check(&g.transpose);
    residual_check(&g.slope);
    assert_true(g.undecided * 100 < g.slope.count);
    // 10 of a link, 19 of a joint, 3 of an actuator, 3 of the world.
    assert_int_equal(g.kinds.count, 35);
    for (uint32_t k = 0; k < g.kinds.count; k++) {
        if (g.kinds.checked[k] < 3) {
            fail_msg("%s has a gradient in %u cases only", g.kinds.name[k], g.kinds.checked[k]);
        }
    }
}

// The step itself through the derivative check: both modes, central differences, the interpreter at
// every width, native code and emitted C, bit for bit.
static void steps_pass_the_derivative_check(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(55);
    enum { ROBOTS = 3 };
    static const char* const names[ROBOTS] = {"euler", "rk4", "implicit"};
    rig rigs[ROBOTS];
    check_batch* batch = check_batch_create();
    for (uint32_t n = 0; n < ROBOTS; n++) {
        ns_system_options options = full_options();
        options.integrator = (int)n;
        rigs[n] = rig_create(everything, 1500 + n, 2, &options);
        rig* r = &rigs[n];
        double* in = random_doubles(&rng, r->n.nx + r->n.nc + r->n.np, 0.5);
        random_state(r->model, &rng, in, in + r->z.nq);
        ns_system_default_params(r->system, in + r->n.nx + r->n.nc);
        check_options check = {.name = names[n], .seed = n, .c = CHECK_C_VJP};
        check_batch_add(batch, ns_system_graph(r->system), in, NULL, &check);
        free(in);
    }
    check_report report = check_batch_finish(batch);
    printf("    transpose %.1e, differences %.1e, %u of %u slopes undecided\n",
           report.transpose_error, report.difference_error, report.undecided, report.slopes);
    assert_true(report.undecided * 10 < report.slopes);
    for (uint32_t n = 0; n < ROBOTS; n++) rig_free(&rigs[n]);
}

// ---- what parameters mean ------------------------------------------------------------------

// A link's definition with its parameters read from a list.
static ns_link_def link_with_params(const ns_link_def* link, const double* p) {
    ns_link_def l = *link;
    l.mass = p[NSI_LINK_MASS];
    memcpy(l.com, p + NSI_LINK_COM, sizeof l.com);
    memcpy(l.inertia, p + NSI_LINK_INERTIA, sizeof l.inertia);
    memcpy(l.origin.position, p + NSI_JOINT_ORIGIN, sizeof l.origin.position);
    const double* w = p + NSI_JOINT_ROTATION;
    double angle = sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]), turn[4];
    if (angle > 0.0) {
        nsi_quat_from_axis((double[]){w[0] / angle, w[1] / angle, w[2] / angle}, angle, turn);
        nsi_quat_multiply(link->origin.quaternion, turn, l.origin.quaternion);
    }
    memcpy(l.axis, p + NSI_JOINT_AXIS, sizeof l.axis);
    l.stiffness = p[NSI_JOINT_STIFFNESS], l.rest = p[NSI_JOINT_REST];
    l.damping = p[NSI_JOINT_DAMPING], l.friction = p[NSI_JOINT_FRICTION];
    l.friction_velocity = p[NSI_JOINT_FRICTION_VELOCITY], l.armature = p[NSI_JOINT_ARMATURE];
    l.lower = p[NSI_JOINT_LOWER], l.upper = p[NSI_JOINT_UPPER];
    l.limit_stiffness = p[NSI_JOINT_LIMIT_STIFFNESS];
    l.limit_damping = p[NSI_JOINT_LIMIT_DAMPING];
    return l;
}

// Changing free parameters is the same as building another robot.
static void parameters_are_those_of_the_builder(void** state) {
    (void)state;
    residual r = {.name = "changed parameters against a changed model", .tolerance = 1e-11};
    ns_rng rng = ns_rng_seed(6);
    for (uint32_t n = 0; n < 20; n++) {
        static const char* const observe[] = {"qdd", "energy", "com", "link/*/pose"};
        ns_system_options options = full_options();
        options.observe = observe;
        options.nobserve = 4;
        rig a = rig_create(everything, 600 + n, 1 + n % 6, &options), b = a;
        run u = run_create(&a, &rng, 1, 10), v = run_again(&a, &u);
        double* p = doubles(a.n.np);
        ns_system_default_params(a.system, p);
        for (uint32_t i = 0; i < a.z.nlink; i++) {
            double* own = p + a.model->links[i].param;
            const ns_link_def* l = &a.tree.link[i];
            for (uint32_t k = 0; k < NSI_LINK_PARAMS; k++) {
                bool moments = k >= NSI_LINK_INERTIA && k < NSI_JOINT_ORIGIN;
                if (!moments) own[k] *= ns_rng_uniform(&rng, 0.9, 1.1);
                if (moments) own[k] *= 1.05; // stays physical
            }
            for (uint32_t k = 0; k < 3; k++) {
                if (l->joint_type != NS_JOINT_FLOATING) {
                    own[NSI_JOINT_ROTATION + k] = ns_rng_uniform(&rng, -0.5, 0.5);
                }
            }
            b.tree.link[i] = link_with_params(l, own);
        }
        for (uint32_t i = 0; i < a.z.nu; i++) {
            double* own = p + a.model->actuators[i].param;
            for (uint32_t k = 0; k < NSI_ACTUATOR_PARAMS; k++) {
                own[k] *= ns_rng_uniform(&rng, 0.9, 1.1);
            }
            b.tree.actuator[i].gear = own[NSI_ACTUATOR_GEAR];
            b.tree.actuator[i].kp = own[NSI_ACTUATOR_KP];
            b.tree.actuator[i].kd = own[NSI_ACTUATOR_KD];
        }
        for (uint32_t k = 0; k < 3; k++) {
            p[a.model->gravity_param + k] += ns_rng_uniform(&rng, -1.0, 1.0);
            b.tree.world.gravity[k] = p[a.model->gravity_param + k];
        }
        options.nfree = 0;
        b.model = random_tree_build(&b.tree, NULL);
        b.system = make_system(b.model, &options);
        b.n = ns_system_get_sizes(b.system);
        ns_error error = {0};
        ns_workspace_size size = {.batch = 1, .steps = u.steps, .threads = 1};
        ns_workspace *wa = make_work(a.system, size), *wb = make_work(b.system, size);
        ns_rollout_args args = run_args(&u);
        args.params = p;
        must(ns_rollout(a.system, wa, &args, &error), &error);
        args = run_args(&v);
        must(ns_rollout(b.system, wb, &args, &error), &error);
        residual_array(&r, u.states, v.states, u.nstate, 1.0);
        residual_array(&r, u.observations, v.observations, u.nobserved, 1.0);
        free(p);
        ns_workspace_free(wa);
        ns_workspace_free(wb);
        run_free(&u);
        run_free(&v);
        rig_free(&a);
        rig_free(&b);
    }
    residual_check(&r);
}

// ---- memory --------------------------------------------------------------------------------

static void rolling_out_allocates_nothing(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(7);
    ns_system_options options = full_options();
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    rig r = rig_create(everything, 700, 5, &options);
    rig_free(&r);
    r.model = random_tree_build(&r.tree, &allocator);
    r.system = make_system(r.model, &options);
    run u = run_create(&r, &rng, 10, 20);
    for (int checkpoints = 0; checkpoints < 2; checkpoints++) {
        ns_workspace_size size = {.batch = 10, .steps = 20, .threads = 2};
        size.max_bytes = checkpoints ? 400000 : 0;
        ns_workspace* work = make_work(r.system, size);
        ns_rollout_args args = run_args(&u);
        ns_rollout_adjoint adjoint = run_adjoint(&u);
        ns_rollout_tangent tangent = run_tangent(&u);
        size_t calls = counter.calls, mallocs = 0;
        for (int n = 0; n < 4; n++) {
            // The first round starts the threads.
            if (n == 1) mallocs = malloc_calls;
            assert_int_equal(ns_rollout(r.system, work, &args, NULL), NS_OK);
            assert_int_equal(ns_rollout_vjp(r.system, work, &args, &adjoint, NULL), NS_OK);
            assert_int_equal(ns_rollout_jvp(r.system, work, &args, &tangent, NULL), NS_OK);
        }
        assert_int_equal(counter.calls, calls);
        assert_int_equal(malloc_calls, mallocs);
        ns_workspace_free(work);
    }
#ifdef COUNTS_MALLOC
    assert_true(malloc_calls > 0); // it does count
#endif
    run_free(&u);
    rig_free(&r);
    assert_int_equal(counter.live_blocks, 0);
}

static void memory_running_out_is_an_error(void** state) {
    (void)state;
    random_tree tree;
    random_tree_options o = {.nlink = 2, .seed = 3, .forces = true, .actuators = true};
    random_tree_make(&tree, &o);
    ns_system_options options = full_options();
    options.backend = NS_BACKEND_INTERP;
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_model* model = random_tree_build(&tree, &allocator);
    size_t model_blocks = counter.live_blocks;
    uint32_t failures = 0;
    for (size_t n = 1;; n++) {
        ns_error error = {0};
        ns_system* system = NULL;
        ns_workspace* work = NULL;
        ns_workspace_size size = {.batch = 6, .steps = 5, .threads = 2};
        counter.calls = 0;
        counter.fail_at = n;
        ns_status status = ns_system_create(model, &options, &system, &error);
        if (status == NS_OK) status = ns_workspace_create(system, &size, &work, &error);
        bool reached = counter.calls >= n;
        counter.fail_at = 0;
        if (status != NS_OK) {
            assert_int_equal(status, NS_ERR_NOMEM);
            assert_int_equal(error.status, NS_ERR_NOMEM);
            assert_null(work);
            failures++;
        }
        ns_workspace_free(work);
        ns_system_free(system);
        assert_int_equal(counter.live_blocks, model_blocks);
        if (!reached) break;
        assert_int_not_equal(status, NS_OK);
    }
    printf("    %u allocations, each failed once\n", failures);
    assert_in_range(failures, 20, 100000);
    ns_model_free(model);
    assert_int_equal(counter.live_blocks, 0);
}

// ---- what goes wrong -----------------------------------------------------------------------

// A body on a slider along z, without gravity.
static random_tree slider(void) {
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

// A damper of d dt / m = 30 multiplies the velocity by -29 a step: past 1e308 in about 210 steps,
// sooner for the faster robot.
static void divergence_is_reported_with_its_culprit(void** state) {
    (void)state;
    random_tree tree = slider();
    tree.link[0].damping = 3e4;
    ns_model* model = random_tree_build(&tree, NULL);
    ns_system* system = make_system(model, NULL);
    enum { BATCH = 6, STEPS = 400 };
    ns_workspace* work =
        make_work(system, (ns_workspace_size){.batch = BATCH, .steps = STEPS, .threads = 1});
    double x0[BATCH * 2] = {0.0}, *states = doubles(BATCH * (STEPS + 1) * 2), dx0[BATCH * 2];
    double* seeds = doubles(BATCH * (STEPS + 1) * 2);
    x0[2 * 4 + 1] = 1.0; // robot 4 moves, the others rest
    ns_rollout_args args = {.batch = BATCH, .steps = STEPS, .x0 = x0, .states = states};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx0};
    ns_rollout_tangent tangent = {.dx0 = x0};
    uint32_t bad = 0;
    double velocity = 1.0; // the first step whose result overflows
    while (isfinite(velocity)) velocity = velocity + 1e-3 * (-3e4 * velocity), bad++;
    char step[32];
    snprintf(step, sizeof step, "step %u ", bad - 1);
    for (int mode = 0; mode < 3; mode++) {
        ns_error error = {0};
        ns_status status = mode == 0   ? ns_rollout(system, work, &args, &error)
                           : mode == 1 ? ns_rollout_vjp(system, work, &args, &adjoint, &error)
                                       : ns_rollout_jvp(system, work, &args, &tangent, &error);
        assert_int_equal(status, NS_ERR_NONFINITE);
        assert_int_equal(error.status, NS_ERR_NONFINITE);
        printf("    %s\n", error.message);
        const char* const parts[] = {"robot 4", step, "quantity ", "operation \""};
        for (int k = 0; k < 4; k++) {
            if (!strstr(error.message, parts[k])) {
                fail_msg("\"%s\" does not say \"%s\"", error.message, parts[k]);
            }
        }
    }
    // What was reached is there; the others went on.
    const double* of4 = states + 4 * (STEPS + 1) * 2;
    assert_true(of4[2 * 10 + 1] == pow(-29.0, 10.0));
    for (int i = 0; i < (STEPS + 1) * 2; i++) assert_true(states[i] == 0.0);

    // At rest nothing moves, but a small push would: the motion is finite, its derivative is not.
    x0[2 * 4 + 1] = 0.0;
    for (int i = 0; i < BATCH * (STEPS + 1) * 2; i++) seeds[i] = i / ((STEPS + 1) * 2) == 4;
    double push[BATCH * 2] = {0.0};
    push[2 * 4 + 1] = 1.0;
    tangent.dx0 = push;
    assert_int_equal(ns_rollout(system, work, &args, NULL), NS_OK);
    for (int mode = 0; mode < 2; mode++) {
        ns_error error = {0};
        ns_status status = mode == 0 ? ns_rollout_vjp(system, work, &args, &adjoint, &error)
                                     : ns_rollout_jvp(system, work, &args, &tangent, &error);
        assert_int_equal(status, NS_ERR_NONFINITE);
        printf("    %s\n", error.message);
        assert_non_null(strstr(error.message, "robot 4"));
        assert_non_null(strstr(error.message, mode == 0 ? "for qd0" : "of q0"));
    }
    free(states), free(seeds);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
}

// Memory that runs out while the culprit is sought costs only its name.
static void the_search_for_the_culprit_may_run_out_of_memory(void** state) {
    (void)state;
    random_tree tree = slider();
    tree.link[0].damping = 3e4;
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_model* model = random_tree_build(&tree, &allocator);
    ns_system* system = make_system(model, NULL);
    ns_workspace* work =
        make_work(system, (ns_workspace_size){.batch = 1, .steps = 400, .threads = 1});
    size_t blocks = counter.live_blocks;
    ns_rollout_args args = {.batch = 1, .steps = 400, .x0 = (double[]){0.0, 1.0}};
    for (size_t n = 1;; n++) {
        ns_error error = {0};
        counter.calls = 0;
        counter.fail_at = n;
        assert_int_equal(ns_rollout(system, work, &args, &error), NS_ERR_NONFINITE);
        assert_non_null(strstr(error.message, "robot 0"));
        assert_int_equal(counter.live_blocks, blocks);
        if (counter.calls < n) break;
    }
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
    assert_int_equal(counter.live_blocks, 0);
}

// In the initial state, a control or a parameter: the message says which number it is.
static void numbers_that_are_not_finite_are_refused_everywhere(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(8);
    ns_system_options options = full_options();
    rig r = rig_create(everything, 801, 4, &options);
    run u = run_create(&r, &rng, 5, 6);
    ns_workspace* work =
        make_work(r.system, (ns_workspace_size){.batch = 5, .steps = 6, .threads = 1});
    double* params = doubles(r.n.np);
    ns_system_default_params(r.system, params);
    ns_rollout_args args = run_args(&u);
    args.params = params;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (uint32_t i = 0; i < r.n.nx + r.n.nc + r.n.np; i++) {
        uint32_t c = i - r.n.nx, p = c - r.n.nc; // where they are in range
        bool of_state = i < r.n.nx, of_control = !of_state && c < r.n.nc;
        double* at = of_state     ? u.x0 + 3 * r.n.nx + i
                     : of_control ? u.controls + 20 * r.n.nc + c
                                  : params + p;
        const char* name = of_state     ? ns_system_state_name(r.system, i)
                           : of_control ? ns_system_control_name(r.system, c)
                                        : ns_system_param_name(r.system, p);
        double kept = *at;
        ns_error error = {0};
        *at = bad[i % 3];
        if (ns_rollout(r.system, work, &args, &error) != NS_ERR_NONFINITE) {
            fail_msg("%s may be %g", name, *at);
        }
        if (!strstr(error.message, name)) fail_msg("\"%s\" is about %s", error.message, name);
        *at = kept;
    }
    assert_int_equal(ns_rollout(r.system, work, &args, NULL), NS_OK);
    free(params);
    run_free(&u);
    ns_workspace_free(work);
    rig_free(&r);
}

static void wrong_arguments_are_refused(void** state) {
    (void)state;
    random_tree tree = slider();
    ns_model* model = random_tree_build(&tree, NULL);
    ns_system *system = make_system(model, NULL), *other = make_system(model, NULL), *none = NULL;
    ns_workspace* work = make_work(system, (ns_workspace_size){.batch = 2, .steps = 3});
    ns_workspace* empty = NULL;
    ns_error error;
    double x0[4] = {0.0};
    ns_rollout_args good = {.batch = 2, .steps = 3, .x0 = x0}, args;
    assert_int_equal(ns_rollout(system, work, &good, &error), NS_OK);
    assert_int_equal(ns_rollout(other, work, &good, &error), NS_ERR_ARGUMENT);
    args = good, args.batch = 3;
    assert_int_equal(ns_rollout(system, work, &args, &error), NS_ERR_ARGUMENT);
    args = good, args.steps = 4;
    assert_int_equal(ns_rollout(system, work, &args, &error), NS_ERR_ARGUMENT);
    args = good, args.batch = 0;
    assert_int_equal(ns_rollout(system, work, &args, &error), NS_ERR_ARGUMENT);
    args = good, args.x0 = NULL;
    assert_int_equal(ns_rollout(system, work, &args, &error), NS_ERR_ARGUMENT);
    args = good, args.per_robot_params = true;
    assert_int_equal(ns_rollout(system, work, &args, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_rollout(NULL, work, &good, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_rollout(system, NULL, &good, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_rollout(system, work, NULL, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_rollout_vjp(system, work, &good, NULL, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_rollout_jvp(system, work, &good, NULL, &error), NS_ERR_ARGUMENT);
    ns_workspace_size size = {.batch = 0, .steps = 3};
    assert_int_equal(ns_workspace_create(system, &size, &empty, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_workspace_create(NULL, &size, &empty, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_workspace_create(system, NULL, &empty, &error), NS_ERR_ARGUMENT);
    assert_null(empty);
    assert_int_equal(ns_system_create(NULL, NULL, &none, &error), NS_ERR_ARGUMENT);

    static const char* const unknown[] = {"link/nobody/mass"};
    ns_system_options options = ns_default_system_options();
    options.free_params = unknown, options.nfree = 1;
    assert_int_equal(ns_system_create(model, &options, &none, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "link/nobody/mass"));
    options = ns_default_system_options();
    options.observe = unknown, options.nobserve = 1;
    assert_int_equal(ns_system_create(model, &options, &none, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "link/nobody/mass"));
    options = ns_default_system_options();
    options.timestep = -1.0;
    assert_int_equal(ns_system_create(model, &options, &none, &error), NS_ERR_ARGUMENT);
    options.timestep = NAN;
    assert_int_equal(ns_system_create(model, &options, &none, &error), NS_ERR_ARGUMENT);
    options = ns_default_system_options();
    options.integrator = 17;
    assert_int_equal(ns_system_create(model, &options, &none, &error), NS_ERR_ARGUMENT);
    assert_null(none);
    ns_workspace_free(NULL);
    ns_system_free(NULL);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_system_free(other);
    ns_model_free(model);
}

// ---- long runs -----------------------------------------------------------------------------

// 1e5 steps: everything finite, quaternions of unit length. The Newton step of each time step
// leaves a few roundings.
static void a_hundred_thousand_steps_stay_finite(void** state) {
    (void)state;
    static const struct {
        ns_joint_type type;
        int integrator;
    } cases[] = {{NS_JOINT_FLOATING, NS_INTEGRATOR_EULER},
                 {NS_JOINT_FLOATING, NS_INTEGRATOR_RK4},
                 {NS_JOINT_SPHERICAL, NS_INTEGRATOR_EULER},
                 {NS_JOINT_SPHERICAL, NS_INTEGRATOR_RK4},
                 {NS_JOINT_SPHERICAL, NS_INTEGRATOR_IMPLICIT}};
    enum { STEPS = 100000 };
    residual unit = {.name = "length of quaternions over 1e5 steps", .tolerance = 1e-14};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        random_tree tree = {.world = ns_default_world_def(), .nlink = 1};
        ns_link_def link = ns_default_link_def();
        link.name = "body";
        link.joint_type = cases[n].type;
        link.mass = 1.2;
        link.com[0] = 0.1, link.com[2] = -0.3;
        link.inertia[0] = 0.02, link.inertia[1] = 0.03, link.inertia[2] = 0.045;
        // A free body falls for 100 s otherwise, and loses digits with the distance.
        if (link.joint_type == NS_JOINT_FLOATING) tree.world.gravity[2] = 0.0;
        link.damping = cases[n].integrator == NS_INTEGRATOR_IMPLICIT ? 0.01 : 0.0;
        tree.link[0] = link;
        ns_model* model = random_tree_build(&tree, NULL);
        ns_system_options options = ns_default_system_options();
        options.integrator = cases[n].integrator;
        ns_system* system = make_system(model, &options);
        ns_workspace* work =
            make_work(system, (ns_workspace_size){.batch = 1, .steps = STEPS, .threads = 1});
        uint32_t nx = ns_system_get_sizes(system).nx, nq = ns_model_get_sizes(model).nq;
        double x0[13] = {0.0}, *states = doubles((STEPS + 1) * (size_t)nx);
        ns_model_default_q(model, x0);
        x0[nx - 3] = 7.0, x0[nx - 2] = -3.0, x0[nx - 1] = 0.5; // tumbling
        ns_error error = {0};
        ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0, .states = states};
        must(ns_rollout(system, work, &args, &error), &error);
        double turned = 0.0;
        for (size_t k = 0; k <= STEPS; k++) {
            const double* q = states + k * nx + nq - 4;
            residual_add(&unit, sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]), 1.0,
                         1.0);
            turned = fmax(turned, fabs(q[1]));
            for (uint32_t i = 0; i < nx; i++) assert_true(isfinite(states[k * nx + i]));
        }
        assert_true(turned > 0.5);
        free(states);
        ns_workspace_free(work);
        ns_system_free(system);
        ns_model_free(model);
    }
    residual_check(&unit);
}

// Trees with everything that acts on joints, damped so that they come to rest, over 1e5 steps: states
// and gradients stay finite, and the checkpointed reverse sweep is still the transpose of the forward
// one. Seeds stand at an early step, while there is motion, and at the end.
static void long_runs_of_trees_have_gradients(void** state) {
    (void)state;
    enum { STEPS = 100000, EARLY = 1500 };
    residual r = {.name = "<s, J v> = <J's, v> over 1e5 steps", .tolerance = 1e-9};
    for (uint32_t n = 0; n < 3; n++) {
        random_tree tree;
        random_tree_options o = {.seed = 900 + n, .nlink = 5, .root = ROOT_WORLD, .forces = true};
        random_tree_make(&tree, &o);
        for (uint32_t i = 0; i < tree.nlink; i++) {
            if (tree.link[i].joint_type != NS_JOINT_FIXED) tree.link[i].damping = 0.8;
        }
        ns_model* model = random_tree_build(&tree, NULL);
        ns_system_options options = ns_default_system_options();
        options.integrator = NS_INTEGRATOR_IMPLICIT;
        ns_system* system = make_system(model, &options);
        ns_workspace_size size = {
            .batch = 1, .steps = STEPS, .threads = 1, .max_bytes = (size_t)4 << 20};
        ns_workspace* work = make_work(system, size);
        uint32_t nx = ns_system_get_sizes(system).nx, nq = ns_model_get_sizes(model).nq;
        ns_rng rng = ns_rng_seed(n);
        double *x0 = doubles(nx), *v = doubles(nx), *dx0 = doubles(nx);
        double *seeds = doubles((STEPS + 1) * (size_t)nx),
               *dstates = doubles((STEPS + 1) * (size_t)nx);
        random_state(model, &rng, x0, x0 + nq);
        for (uint32_t i = 0; i < nx; i++) {
            v[i] = ns_rng_normal(&rng);
            seeds[(size_t)EARLY * nx + i] = ns_rng_normal(&rng);
            seeds[(size_t)STEPS * nx + i] = ns_rng_normal(&rng);
        }
        ns_error error = {0};
        ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0};
        ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx0};
        ns_rollout_tangent tangent = {.dx0 = v, .dstates = dstates};
        must(ns_rollout_vjp(system, work, &args, &adjoint, &error), &error);
        must(ns_rollout_jvp(system, work, &args, &tangent, &error), &error);
        double forward = 0.0, reverse = 0.0, size_of = 0.0;
        for (uint32_t i = 0; i < nx; i++) {
            const size_t at[2] = {(size_t)EARLY * nx + i, (size_t)STEPS * nx + i};
            for (int k = 0; k < 2; k++) {
                forward += seeds[at[k]] * dstates[at[k]];
                size_of += fabs(seeds[at[k]] * dstates[at[k]]);
            }
            reverse += dx0[i] * v[i];
            size_of += fabs(dx0[i] * v[i]);
        }
        assert_true(size_of > 1e-6);
        residual_add(&r, forward, reverse, size_of);
        free(x0);
        free(v);
        free(dx0);
        free(seeds);
        free(dstates);
        ns_workspace_free(work);
        ns_system_free(system);
        ns_model_free(model);
    }
    residual_check(&r);
}

// ---- integrators ---------------------------------------------------------------------------

// State after `time` with steps of dt.
static void simulate(const ns_model* model, int integrator, double dt, double time,
                     const double* x0, double* end) {
    ns_system_options options = ns_default_system_options();
    options.integrator = integrator;
    options.timestep = dt;
    ns_system* system = make_system(model, &options);
    uint32_t steps = (uint32_t)(time / dt + 0.5), nx = ns_system_get_sizes(system).nx;
    ns_workspace* work =
        make_work(system, (ns_workspace_size){.batch = 1, .steps = steps, .threads = 1});
    double* states = doubles((steps + 1) * (size_t)nx);
    ns_error error = {0};
    ns_rollout_args args = {.batch = 1, .steps = steps, .x0 = x0, .states = states};
    must(ns_rollout(system, work, &args, &error), &error);
    memcpy(end, states + (size_t)steps * nx, nx * sizeof *end);
    free(states);
    ns_workspace_free(work);
    ns_system_free(system);
}

static double distance(const double* a, const double* b, uint32_t n) {
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

// Halving the step divides the error by 2^order. The reference has 16 times smaller steps than the
// coarser one, which moves the measured order by less than 0.1 for order 1 and 2e-5 for order 4;
// the rest is the next term of the error.
static void integrators_have_their_order(void** state) {
    (void)state;
    static const struct {
        const char* name;
        int integrator;
        double dt, time, low, high;
    } cases[] = {{"euler", NS_INTEGRATOR_EULER, 1e-3, 0.1, 0.9, 1.25},
                 {"implicit", NS_INTEGRATOR_IMPLICIT, 1e-3, 0.1, 0.9, 1.25},
                 {"rk4", NS_INTEGRATOR_RK4, 4e-3, 0.2, 3.8, 4.3}};
    ns_rng rng = ns_rng_seed(9);
    for (int c = 0; c < 3; c++) {
        uint32_t balls = 0;
        printf("    order of %s:", cases[c].name);
        for (uint32_t n = 0; n < 6; n++) {
            random_tree tree;
            random_tree_options o = {.seed = 900 + n, .nlink = 2 + n % 3, .forces = true};
            o.root = n % 2 ? ROOT_FLOATING : ROOT_WORLD;
            random_tree_make(&tree, &o);
            // Limits set in with a jump, and no method keeps its order over one. Friction changes
            // within a step as long as these.
            for (uint32_t i = 0; i < tree.nlink; i++) {
                tree.link[i].limited = false;
                tree.link[i].friction = 0.0;
            }
            tree.link[1].joint_type = n < 3 ? NS_JOINT_SPHERICAL : NS_JOINT_REVOLUTE;
            if (n < 3) tree.link[1].stiffness = tree.link[1].rest = 0.0, balls++;
            ns_model* model = random_tree_build(&tree, NULL);
            uint32_t nx = ns_model_get_sizes(model).nq + ns_model_get_sizes(model).nv;
            double x0[100], coarse[100], fine[100], reference[100];
            assert_true(nx <= 100);
            random_state(model, &rng, x0, x0 + ns_model_get_sizes(model).nq);
            const double dt = cases[c].dt, time = cases[c].time;
            simulate(model, cases[c].integrator, dt, time, x0, coarse);
            simulate(model, cases[c].integrator, dt / 2, time, x0, fine);
            simulate(model, cases[c].integrator, dt / 16, time, x0, reference);
            double order = log2(distance(coarse, reference, nx) / distance(fine, reference, nx));
            printf(" %.2f", order);
            if (!(order > cases[c].low && order < cases[c].high)) {
                fail_msg("%s has order %g on tree %u", cases[c].name, order, n);
            }
            ns_model_free(model);
        }
        printf("\n");
        assert_int_equal(balls, 3);
    }
}

// With d dt / m = 10 the explicit step multiplies the velocity by -9, the implicit one by 1/11.
static void the_implicit_integrator_bears_stiff_damping(void** state) {
    (void)state;
    enum { STEPS = 20 };
    const double dt = 1e-3, d = 1e4, decay = pow(1.0 + d * dt, -STEPS);
    random_tree tree = slider();
    tree.link[0].damping = d;
    ns_model* model = random_tree_build(&tree, NULL);
    double x0[2] = {0.5, 1.0}, states[(STEPS + 1) * 2], *end = states + STEPS * 2;
    simulate(model, NS_INTEGRATOR_EULER, dt, STEPS * dt, x0, end);
    assert_true(fabs(end[1]) > 1e15);

    // Value and gradient of the last velocity, v = v0 (1 + d dt / m)^-STEPS.
    static const char* const free_params[] = {"link/body/mass", "joint/slide/damping"};
    ns_system_options options = ns_default_system_options();
    options.integrator = NS_INTEGRATOR_IMPLICIT;
    options.timestep = dt;
    options.free_params = free_params;
    options.nfree = 2;
    ns_system* system = make_system(model, &options);
    assert_string_equal(ns_system_param_name(system, 0), "link/body/mass");
    ns_workspace* work =
        make_work(system, (ns_workspace_size){.batch = 1, .steps = STEPS, .threads = 1});
    double seeds[(STEPS + 1) * 2] = {0.0}, dx0[2], dparams[2];
    seeds[2 * STEPS + 1] = 1.0;
    ns_error error = {0};
    ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0, .states = states};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx0, .dparams = dparams};
    must(ns_rollout_vjp(system, work, &args, &adjoint, &error), &error);
    residual r = {.name = "implicit damping against its formula", .tolerance = 1e-13};
    double slope_d = -STEPS * dt * decay / (1.0 + d * dt);
    residual_add(&r, end[1], decay, decay);
    residual_add(&r, end[0], 0.5 + dt * (1.0 - decay) / (d * dt), 1.0);
    residual_add(&r, dx0[0], 0.0, decay);
    residual_add(&r, dx0[1], decay, decay);
    residual_add(&r, dparams[0], -d * slope_d, -d * slope_d);
    residual_add(&r, dparams[1], slope_d, -slope_d);
    residual_check(&r);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
}

// Solve A x = b in place by Gauss, without pivoting: A is positive definite.
static void solve_dense(uint32_t n, double* A, double* b) {
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t i = j + 1; i < n; i++) {
            double factor = A[i * n + j] / A[j * n + j];
            for (uint32_t k = j; k < n; k++) A[i * n + k] -= factor * A[j * n + k];
            b[i] -= factor * b[j];
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++) b[i] -= A[i * n + k] * b[k];
        b[i] /= A[i * n + i];
    }
}

// -d(force)/d(velocity) of what acts at a joint with this velocity, by what the header says.
static double force_slope(const ns_link_def* l, double q, double qd) {
    double s = 1.0 / cosh(qd / l->friction_velocity);
    double smooth = l->damping + l->friction / l->friction_velocity * s * s;
    if (!l->limited) return smooth;
    double push = q < l->lower   ? l->limit_stiffness * (l->lower - q) - l->limit_damping * qd
                  : q > l->upper ? l->limit_stiffness * (q - l->upper) + l->limit_damping * qd
                                 : 0.0;
    return push > 0.0 ? smooth + l->limit_damping : smooth;
}

// (M + dt B) (qd' - qd) / dt = tau - bias, with B the slopes of the joint forces.
static void the_implicit_step_solves_its_equation(void** state) {
    (void)state;
    residual r = {.name = "(M + dt B) qdd = tau - bias", .tolerance = 1e-11};
    ns_rng rng = ns_rng_seed(10);
    uint32_t floating = 0;
    for (uint32_t n = 0; n < 40; n++) {
        static const char* const observe[] = {"mass_matrix", "bias", "joint/*/tau"};
        ns_system_options options = ns_default_system_options();
        options.integrator = NS_INTEGRATOR_IMPLICIT;
        options.timestep = 0.05; // so that it matters
        options.observe = observe;
        options.nobserve = 3;
        random_tree tree;
        random_tree_options o = {.seed = 1100 + n, .nlink = 1 + n % 6, .forces = true};
        o.mimic = n % 3 == 0;
        o.armature = n % 2 == 0;
        random_tree_make(&tree, &o);
        floating += tree.link[0].joint_type == NS_JOINT_FLOATING && tree.link[0].friction > 0.0;
        ns_model* model = random_tree_build(&tree, NULL);
        evaluator* e = evaluator_create_with(model, &options);
        uint32_t nv = e->sizes.nv;
        if (nv > 0) {
            random_state(model, &rng, e->q, e->qd);
            for (uint32_t k = 0; k < nv; k++) e->tau[k] = ns_rng_uniform(&rng, -2.0, 2.0);
            evaluator_run(e);
            double *M = doubles((size_t)nv * nv), *b = doubles(nv), *got = doubles(nv);
            memcpy(M, evaluator_get(e, "mass_matrix/0/0"), (size_t)nv * nv * sizeof *M);
            const double *bias = evaluator_get(e, "bias/0"), *tau = bias + nv;
            for (uint32_t k = 0; k < nv; k++) {
                b[k] = tau[k] - bias[k];
                got[k] = (e->next[e->sizes.nq + k] - e->qd[k]) / options.timestep;
            }
            for (uint32_t i = 0; i < tree.nlink; i++) {
                const nsi_link* l = &model->links[i];
                double m = l->mimic != NSI_NONE ? l->def.mimic_multiplier : 1.0;
                uint32_t count = l->mimic != NSI_NONE ? 1 : l->nv;
                for (uint32_t k = 0; k < count; k++) {
                    double q = count == 1 ? e->q[l->q] : 0.0, qd = m * e->qd[l->v + k];
                    if (l->mimic != NSI_NONE) q = m * q + l->def.mimic_offset;
                    M[(l->v + k) * (nv + 1)] +=
                        options.timestep * m * m * force_slope(&l->def, q, qd);
                }
            }
            solve_dense(nv, M, b);
            residual_array(&r, got, b, nv, 1.0);
            free(M), free(b), free(got);
        }
        evaluator_free(e);
        ns_model_free(model);
    }
    assert_true(floating > 0);
    residual_check(&r);
}

// ---- series-elastic actuators --------------------------------------------------------------

// The motor's angle of the last step is in the state; its rate drives the damper.
static void series_elastic_motors_remember_their_angle(void** state) {
    (void)state;
    enum { STEPS = 20 };
    const double dt = 1e-2, kp = 5.0, kd = 0.3, gear = 2.0;
    for (int limited = 0; limited < 2; limited++) {
        random_tree tree = slider();
        ns_actuator_def* a = &tree.actuator[0];
        *a = ns_default_actuator_def();
        tree.nactuator = 1;
        a->joint = "slide";
        a->name = "spring";
        a->type = NS_ACTUATOR_SERIES_ELASTIC;
        a->kp = kp, a->kd = kd, a->gear = gear;
        a->control_limited = limited;
        a->control_lower = -0.1, a->control_upper = 0.15;
        ns_model* model = random_tree_build(&tree, NULL);
        ns_system_options options = ns_default_system_options();
        options.timestep = dt;
        ns_system* system = make_system(model, &options);
        assert_int_equal(ns_system_get_sizes(system).nx, 3);
        assert_string_equal(ns_system_state_name(system, 2), "motor/spring");
        assert_string_equal(ns_system_control_name(system, 0), "u/spring");
        double x0[3] = {0.1, -0.2, 0.05}, controls[STEPS * 2] = {0.0}, states[(STEPS + 1) * 3];
        for (int k = 0; k < STEPS; k++) controls[2 * k] = 0.3 * sin(0.7 * k);
        ns_workspace* work =
            make_work(system, (ns_workspace_size){.batch = 1, .steps = STEPS, .threads = 1});
        ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0, .states = states};
        args.controls = controls;
        ns_error error = {0};
        must(ns_rollout(system, work, &args, &error), &error);

        residual r = {.name = limited ? "motor with limited angle" : "motor", .tolerance = 1e-13};
        double q = x0[0], qd = x0[1], motor = x0[2];
        for (int k = 0; k < STEPS; k++) {
            double u = controls[2 * k];
            if (limited) u = fmin(fmax(u, a->control_lower), a->control_upper);
            qd += dt * gear * (kp * (u - gear * q) + kd * ((u - motor) / dt - gear * qd));
            q += dt * qd;
            motor = u;
            const double want[3] = {q, qd, motor};
            residual_array(&r, states + 3 * (k + 1), want, 3, 1.0);
        }
        residual_check(&r);
        ns_workspace_free(work);
        ns_system_free(system);
        ns_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rollout_is_its_steps),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(backends_do_not_matter),
        cmocka_unit_test(robots_of_a_batch_do_not_know_each_other),
        cmocka_unit_test(a_workspace_can_be_used_again),
        cmocka_unit_test(a_robot_without_coordinates_can_be_rolled_out),
        cmocka_unit_test(checkpoints_change_memory_but_no_bits),
        cmocka_unit_test(every_parameter_has_its_gradient),
        cmocka_unit_test(steps_pass_the_derivative_check),
        cmocka_unit_test(parameters_are_those_of_the_builder),
        cmocka_unit_test(rolling_out_allocates_nothing),
        cmocka_unit_test(memory_running_out_is_an_error),
        cmocka_unit_test(divergence_is_reported_with_its_culprit),
        cmocka_unit_test(the_search_for_the_culprit_may_run_out_of_memory),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused_everywhere),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_hundred_thousand_steps_stay_finite),
        cmocka_unit_test(long_runs_of_trees_have_gradients),
        cmocka_unit_test(integrators_have_their_order),
        cmocka_unit_test(the_implicit_integrator_bears_stiff_damping),
        cmocka_unit_test(the_implicit_step_solves_its_equation),
        cmocka_unit_test(series_elastic_motors_remember_their_angle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
