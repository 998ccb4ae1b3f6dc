// Rollouts: the same bits however they are run, checkpoints, memory.

#include "base/common.h"
#include "model/model_data.h"
#include "model/pose.h"
#include "neuralsim/sim.h"
#include "sim/rollout.h"
#include "sim/rollout_rig.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/evaluate.h"
#include "support/malloccount.h"
#include "support/randomtree.h"
#include "support/residual.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// Seeds of a run that depend on its motion: twice the states.
typedef struct late_seeds {
    const run* u;
    uint32_t seeded; // robots
    bool simulated;  // states of robots were there when their seeds were asked for
} late_seeds;

static void seed_late(void* context, uint32_t first, uint32_t count) {
    late_seeds* s = context;
    const size_t row = s->u->nstate / s->u->batch;
    for (size_t k = first * row; k < (first + count) * row; k++) {
        s->simulated = s->simulated && !isnan(s->u->states[k]);
        s->u->state_seeds[k] = 2.0 * s->u->states[k];
    }
    s->seeded += count;
}

// Seeds that are set in the middle of a gradient are those of a rollout before it.
static void seeds_may_depend_on_the_motion(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(7);
    ns_system_options options = full_options();
    rig r = rig_create(everything, 250, 4, &options);
    for (uint32_t batch = 1; batch <= 9; batch += 4) {
        run u = run_create(&r, &rng, batch, 9), v = run_again(&r, &u);
        ns_workspace* work =
            make_work(r.system, (ns_workspace_size){.batch = batch, .steps = 9, .threads = 1});
        ns_error error = {0};

        // First a rollout, then its gradient.
        ns_rollout_args args = run_args(&u);
        ns_rollout_adjoint adjoint = run_adjoint(&u);
        must(ns_rollout(r.system, work, &args, &error), &error);
        for (size_t k = 0; k < u.nstate; k++) u.state_seeds[k] = 2.0 * u.states[k];
        must(ns_rollout_vjp(r.system, work, &args, &adjoint, &error), &error);

        // Both together.
        late_seeds late = {.u = &v, .simulated = true};
        for (size_t k = 0; k < v.nstate; k++) v.states[k] = NAN;
        ns_rollout_args args_late = run_args(&v);
        ns_rollout_adjoint adjoint_late = run_adjoint(&v);
        must(nsi_rollout_vjp_seeded(r.system, work, &args_late, &adjoint_late, seed_late, &late,
                                    &error),
             &error);
        assert_true(late.simulated);
        assert_int_equal(late.seeded, batch);
        assert_memory_equal(u.dx0, v.dx0, (size_t)batch * r.n.nx * sizeof(double));
        assert_memory_equal(u.dcontrols, v.dcontrols, u.ncontrol * sizeof(double));
        assert_memory_equal(u.dparams, v.dparams, r.n.np * sizeof(double));
        ns_workspace_free(work);
        run_free(&u);
        run_free(&v);
    }
    rig_free(&r);
}

// Seeders of several threads, each with robots of its own: what they mark is theirs alone.
typedef struct marked_seeds {
    const run* u;
    uint32_t* seeded; // (batch) how often
    bool* simulated;  // (batch) all states were there
} marked_seeds;

static void seed_and_mark(void* context, uint32_t first, uint32_t count) {
    marked_seeds* s = context;
    const size_t row = s->u->nstate / s->u->batch;
    for (uint32_t b = first; b < first + count; b++) {
        s->seeded[b]++;
        s->simulated[b] = true;
        for (size_t k = b * row; k < (b + 1) * row; k++) {
            s->simulated[b] = s->simulated[b] && !isnan(s->u->states[k]);
            s->u->state_seeds[k] = 2.0 * s->u->states[k];
        }
    }
}

static void seeders_run_side_by_side(void** state) {
    (void)state;
    enum { BATCH = 37, STEPS = 9, THREADS = 4, ROUNDS = 5 };
    ns_rng rng = ns_rng_seed(8);
    ns_system_options options = full_options();
    rig r = rig_create(everything, 260, 4, &options);
    run u = run_create(&r, &rng, BATCH, STEPS), v = run_again(&r, &u);

    // One thread: a rollout, then its gradient.
    ns_workspace_size size = {.batch = BATCH, .steps = STEPS, .threads = 1};
    ns_workspace* work = make_work(r.system, size);
    ns_error error = {0};
    ns_rollout_args args = run_args(&u), args_late = run_args(&v);
    ns_rollout_adjoint adjoint = run_adjoint(&u), adjoint_late = run_adjoint(&v);
    must(ns_rollout(r.system, work, &args, &error), &error);
    for (size_t k = 0; k < u.nstate; k++) u.state_seeds[k] = 2.0 * u.states[k];
    must(ns_rollout_vjp(r.system, work, &args, &adjoint, &error), &error);
    ns_workspace_free(work);

    // Four: both together, each robot once.
    size.threads = THREADS;
    work = make_work(r.system, size);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t seeded[BATCH] = {0};
        bool simulated[BATCH] = {false};
        marked_seeds marks = {.u = &v, .seeded = seeded, .simulated = simulated};
        for (size_t k = 0; k < v.nstate; k++) v.states[k] = v.state_seeds[k] = NAN;
        must(nsi_rollout_vjp_seeded(r.system, work, &args_late, &adjoint_late, seed_and_mark,
                                    &marks, &error),
             &error);
        for (int b = 0; b < BATCH; b++) {
            assert_int_equal(seeded[b], 1);
            assert_true(simulated[b]);
        }
        same_bits("dx0", v.dx0, u.dx0, (size_t)BATCH * r.n.nx);
        same_bits("dcontrols", v.dcontrols, u.dcontrols, u.ncontrol);
        same_bits("dparams", v.dparams, u.dparams, r.n.np);
    }
    ns_workspace_free(work);
    run_free(&u);
    run_free(&v);
    rig_free(&r);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rollout_is_its_steps),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(seeds_may_depend_on_the_motion),
        cmocka_unit_test(seeders_run_side_by_side),
        cmocka_unit_test(backends_do_not_matter),
        cmocka_unit_test(robots_of_a_batch_do_not_know_each_other),
        cmocka_unit_test(a_workspace_can_be_used_again),
        cmocka_unit_test(a_robot_without_coordinates_can_be_rolled_out),
        cmocka_unit_test(checkpoints_change_memory_but_no_bits),
        cmocka_unit_test(rolling_out_allocates_nothing),
        cmocka_unit_test(memory_running_out_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
