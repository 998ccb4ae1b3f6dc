// Rollouts that go wrong: divergence is reported with its culprit, wrong arguments are refused.

#include "base/common.h"
#include "model/model_data.h"
#include "neuralsim/sim.h"
#include "sim/rollout_rig.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/evaluate.h"
#include "support/modelfile.h"
#include "support/randomtree.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// Callers may be threads with a workspace each: a search or chains of a sampler. The culprit is looked
// for in the caller's own workspace, whatever its number.
static void threads_find_their_own_culprits(void** state) {
    (void)state;
    random_tree tree = slider();
    tree.link[0].damping = 3e4;
    ns_model* model = random_tree_build(&tree, NULL);
    ns_system* system = make_system(model, NULL);
    enum { CALLERS = 4, STEPS = 400 };
    ns_workspace* work[CALLERS];
    ns_status status[CALLERS];
    ns_error error[CALLERS] = {0};
    for (int k = 0; k < CALLERS; k++) {
        work[k] = make_work(system, (ns_workspace_size){.batch = 1, .steps = STEPS, .threads = 1});
    }
    const double x0[2] = {0.0, 1.0};
    const ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0};
#ifdef _OPENMP
#pragma omp parallel for num_threads(CALLERS) schedule(static, 1)
#endif
    for (int k = 0; k < CALLERS; k++) {
        status[k] = ns_rollout(system, work[k], &args, &error[k]);
    }
    for (int k = 0; k < CALLERS; k++) {
        assert_int_equal(status[k], NS_ERR_NONFINITE);
        assert_string_equal(error[k].message, error[0].message);
        ns_workspace_free(work[k]);
    }
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

// A rotation has no quaternion of length 0; any other length is fine.
static void zero_quaternions_are_refused(void** state) {
    (void)state;
    ns_model* model = modelfile_parse("<mujoco><worldbody><body name='b'><freejoint name='f'/>"
                                      "<geom size='.1'/></body></worldbody></mujoco>");
    ns_error error = {0};
    ns_system* system = make_system(model, NULL);
    ns_workspace* work = make_work(system, (ns_workspace_size){.batch = 2, .steps = 2});
    double x0[2 * 13] = {0.0};
    x0[3] = x0[13 + 3] = 2.0;
    ns_rollout_args args = {.batch = 2, .steps = 2, .x0 = x0};
    assert_int_equal(ns_rollout(system, work, &args, &error), NS_OK);
    x0[13 + 3] = 0.0;
    assert_int_equal(ns_rollout(system, work, &args, &error), NS_ERR_ARGUMENT);
    printf("    %s\n", error.message);
    assert_non_null(strstr(error.message, "row 1"));
    assert_non_null(strstr(error.message, "q3"));
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divergence_is_reported_with_its_culprit),
        cmocka_unit_test(threads_find_their_own_culprits),
        cmocka_unit_test(the_search_for_the_culprit_may_run_out_of_memory),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused_everywhere),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(zero_quaternions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
