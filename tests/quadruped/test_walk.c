// Walking in a loop: what commands are, how errors are measured, what disturbances do, and that nothing
// is allocated on the way.

#include "quadruped/walk.h"
#include "support/assert.h"
#include "support/residual.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static ns_model* model;
static quad_walk_env* place;

static int load(void** state) {
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s/models/a1.urdf", NEURALSIM_SOURCE_DIR);
    ns_load_options options = ns_default_load_options();
    options.ground = true;
    quad_robot robot = quad_a1();
    return ns_model_load(path, &options, &model, NULL) == NS_OK &&
                   quad_walk_env_create(model, &robot, NULL, NULL, &place, NULL) == NS_OK
               ? 0
               : 1;
}

static int unload(void** state) {
    (void)state;
    quad_walk_env_free(place);
    ns_model_free(model);
    return 0;
}

static quad_walk* create(const quad_walk_env* at, const quad_walk_options* options) {
    quad_walk* walk = NULL;
    ns_error error;
    must(quad_walk_create(at, options, NULL, &walk, &error), &error);
    return walk;
}

static quad_walk_result run(const quad_walk_env* at, const quad_walk_options* options,
                            uint64_t seed) {
    quad_walk* walk = create(at, options);
    quad_walk_sample m;
    quad_walk_begin(walk, seed);
    while (quad_walk_step(walk, &m)) continue;
    quad_walk_result result = quad_walk_finish(walk);
    quad_walk_free(walk);
    return result;
}

// Errors are summed up a second time, from what each moment says.
static void errors_are_those_of_the_moments(void** state) {
    (void)state;
    enum { STRIDE = 100 };
    quad_walk_options options = quad_default_walk_options();
    options.seconds = 6.0;
    quad_walk* walk = create(place, &options);
    quad_walk_begin(walk, 3);
    static double errors[2000][3];
    double raw[3] = {0}, smooth[3] = {0}, height = 0.0, tilt = 0.0;
    uint32_t count = 0, n = 0;
    quad_walk_sample m;
    for (; quad_walk_step(walk, &m); n++) {
        const double wanted[3] = {m.command.velocity[0], m.command.velocity[1], m.command.yaw_rate};
        for (int k = 0; k < 3; k++) errors[n][k] = m.velocity[k] - wanted[k];
        assert_true(fabs(wanted[0]) <= 0.6 && fabs(wanted[1]) <= 0.2 && fabs(wanted[2]) <= 0.8);
        // The gravity direction in the trunk tells the tilt.
        const double* q = m.state.quaternion;
        double up = 1.0 - 2.0 * (q[1] * q[1] + q[2] * q[2]);
        tilt = fmax(tilt, acos(up));
        if (m.time < 1.0 - 1e-9) continue;
        count++;
        height += pow(m.state.position[2] - 0.02 - 0.24, 2.0);
        for (int k = 0; k < 3; k++) {
            double mean = 0.0;
            for (uint32_t i = 0; i < STRIDE; i++) mean += errors[n - i][k];
            smooth[k] += mean / STRIDE * mean / STRIDE;
            raw[k] += errors[n][k] * errors[n][k];
        }
    }
    quad_walk_result result = quad_walk_finish(walk);
    residual r = {.name = "errors of a walk", .tolerance = 1e-10};
    assert_int_equal(n, 1200);
    assert_int_equal(result.decisions, 1200);
    assert_int_equal(result.count, count);
    assert_int_equal(result.falls, 0);
    assert_true(fabs(result.seconds - 6.0) < 1e-9);
    for (int k = 0; k < 3; k++) {
        residual_add(&r, result.velocity[k], sqrt(smooth[k] / count), 1.0);
        residual_add(&r, result.raw[k], sqrt(raw[k] / count), 1.0);
    }
    residual_add(&r, result.height, sqrt(height / count), 1.0);
    residual_check(&r);
    // The largest of roll and pitch is not above the tilt of both together, nor much below.
    assert_true(result.tilt <= tilt + 1e-12 && result.tilt >= 0.7 * tilt);
    quad_walk_free(walk);
}

// The command goes straight to each target and stays there.
static void commands_are_ramps(void** state) {
    (void)state;
    quad_walk_options options = quad_default_walk_options();
    options.seconds = 8.0;
    quad_walk* walk = create(place, &options);
    quad_walk_begin(walk, 5);
    quad_walk_sample m;
    double before = 0.0, start = 0.0, end = 0.0;
    for (uint32_t n = 0; quad_walk_step(walk, &m); n++) {
        uint32_t at = n % 400; // decisions of 2 s; a ramp has 100
        double now = m.command.velocity[0];
        if (at == 0) start = now; // of the ramp
        if (at == 100) end = now;
        if (at > 100) assert_true(now == end);
        if (at == 50) before = now;
        if (at == 100) assert_true(fabs(0.5 * (start + end) - before) < 1e-12);
    }
    quad_walk_free(walk);
}

// The same seed gives the same walk to the bit; another one another; noise does not change commands.
static void seeds_tell_walks_apart(void** state) {
    (void)state;
    quad_walk_options options = quad_default_walk_options();
    options.seconds = 3.0;
    quad_walk_result a = run(place, &options, 1), b = run(place, &options, 1),
                     c = run(place, &options, 2);
    assert_memory_equal(a.velocity, b.velocity, sizeof a.velocity);
    assert_true(a.height == b.height && a.velocity[0] != c.velocity[0]);
    options.noise = 1.0;
    quad_walk_result d = run(place, &options, 1);
    assert_true(a.height != d.height);
    assert_true(a.follow[0][1] == d.follow[0][1]); // squares of commands
}

// The velocity of the centre of mass of a robot in the air, at rest before, after the controls of a
// period: from where it is then and 20 steps later.
static double speed_after(double factor, const quad_walk_env* at, const double* controls) {
    enum { PERIOD = 5, LATER = 20, STEPS = PERIOD + LATER + 1 };
    static const char* const observed[] = {"com/x", "com/y"};
    static ns_param_value set[1000];
    ns_system_options options = ns_default_system_options();
    options.contact = NS_CONTACT_NCP;
    options.observe = observed;
    options.nobserve = 2;
    options.set = set;
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nparam; k++) {
        const ns_param* p = ns_model_param(model, k);
        if (ns_glob_match("link/*/mass", p->name) || ns_glob_match("link/*/inertia/*", p->name)) {
            assert_true(options.nset < 1000);
            set[options.nset++] = (ns_param_value){p->name, factor * p->value};
        }
    }
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_workspace_size size = {.batch = 1, .steps = STEPS, .threads = 1};
    assert_int_equal(ns_system_create(model, &options, &system, NULL), NS_OK);
    assert_int_equal(ns_workspace_create(system, &size, &work, NULL), NS_OK);
    assert_int_equal(ns_system_get_sizes(system).ny, 2);
    static double x[100], all[STEPS * 100], y[STEPS][2];
    memset(x, 0, sizeof x);
    memset(all, 0, sizeof all);
    assert_true(at->nx <= 100 && at->nc <= 100);
    quad_start(&at->map, &at->robot, x);
    x[at->map.base_q + 2] += 1.0;
    const uint32_t force = at->map.nu + at->map.base_v;
    for (uint32_t k = 0; k < PERIOD; k++) {
        memcpy(all + k * at->nc + force, controls + k * at->nc + force, 2 * sizeof *all);
    }
    ns_rollout_args args = {
        .batch = 1, .steps = STEPS, .x0 = x, .controls = all, .observations = &y[0][0]};
    assert_int_equal(ns_rollout(system, work, &args, NULL), NS_OK);
    ns_workspace_free(work);
    ns_system_free(system);
    return hypot(y[STEPS - 1][0] - y[PERIOD][0], y[STEPS - 1][1] - y[PERIOD][1]) / (1e-3 * LATER);
}

// A push changes the velocity of the whole robot by what it says, whatever it weighs and whatever the
// controller believes that it weighs.
static void pushes_are_as_hard_as_they_say(void** state) {
    (void)state;
    const double factor = 1.2;
    quad_walk_env_options heavy = quad_default_walk_env_options();
    quad_walk_env* at = NULL;
    heavy.mass = factor;
    assert_int_equal(quad_walk_env_create(model, &place->robot, &heavy, NULL, &at, NULL), NS_OK);
    quad_walk_options options = quad_default_walk_options();
    options.seconds = 2.0;
    options.push = 0.5;
    options.push_every = 1.0;
    options.settle = 0.0;
    quad_walk* walk = create(at, &options);
    quad_walk_begin(walk, 1);
    quad_walk_sample m;
    uint32_t pushes = 0;
    while (quad_walk_step(walk, &m)) {
        const uint32_t base = at->map.nu + at->map.base_v;
        if (hypot(m.controls[base], m.controls[base + 1]) == 0.0) continue;
        assert_true(fabs(m.time - (0.5 + pushes)) < 1e-9); // the first after half of the time
        assert_true(fabs(speed_after(factor, at, m.controls) - 0.5) < 0.005);
        pushes++;
    }
    assert_int_equal(pushes, 2);
    quad_walk_free(walk);
    quad_walk_env_free(at);
}

// Decisions with trouble are counted once each, however many legs have it.
static void trouble_is_counted_by_decisions(void** state) {
    (void)state;
    quad_walk_options options = quad_default_walk_options();
    options.seconds = 4.0;
    options.push = 1.5;
    options.push_every = 1.0;
    quad_walk* walk = create(place, &options);
    quad_walk_begin(walk, 1);
    quad_walk_sample m;
    uint32_t shared = 0, unreachable = 0, limited = 0;
    while (quad_walk_step(walk, &m)) {
        const bool* missed = m.report.unreachable;
        shared += m.report.source == QUAD_STANCE_SHARED;
        unreachable += missed[0] || missed[1] || missed[2] || missed[3];
        limited += m.report.limited;
    }
    quad_walk_result result = quad_walk_finish(walk);
    assert_int_equal(result.shared, shared);
    assert_int_equal(result.unreachable, unreachable);
    assert_int_equal(result.limited, limited);
    assert_true(limited + unreachable > 0);
    quad_walk_free(walk);
}

// Places: the weight is the factor's, and on ice there is no walking.
static void places_have_masses_and_friction(void** state) {
    (void)state;
    quad_walk_options walk = quad_default_walk_options();
    walk.seconds = 3.0;
    quad_walk_env* other = NULL;
    quad_walk_env_options options = quad_default_walk_env_options();
    options.mass = 1.2;
    assert_int_equal(quad_walk_env_create(model, &place->robot, &options, NULL, &other, NULL),
                     NS_OK);
    // The MPC plans with the old mass: the trunk hangs lower.
    assert_true(run(other, &walk, 1).bias < run(place, &walk, 1).bias - 0.003);
    quad_walk_env_free(other);
    options = (quad_walk_env_options){.contact = NS_CONTACT_NCP, .mass = 1.0, .friction = 0.02};
    assert_int_equal(quad_walk_env_create(model, &place->robot, &options, NULL, &other, NULL),
                     NS_OK);
    quad_walk_result ice = run(other, &walk, 1);
    assert_int_equal(ice.falls, 1);
    assert_true(ice.seconds < 3.0);
    quad_walk_env_free(other);
    options.mass = -1.0;
    ns_error error;
    assert_int_equal(quad_walk_env_create(model, &place->robot, &options, NULL, &other, &error),
                     NS_ERR_ARGUMENT);
    assert_null(other);
}

// Errors of runs put together are those over all the time.
static void runs_are_merged(void** state) {
    (void)state;
    quad_walk_result a = {.count = 1, .velocity = {3.0}, .height = 1.0, .bias = 1.0, .tilt = 0.1},
                     b = {.count = 3, .velocity = {1.0}, .height = 2.0, .bias = -1.0, .falls = 1},
                     sum = {0};
    quad_walk_merge(&sum, &a);
    quad_walk_merge(&sum, &b);
    assert_true(fabs(sum.velocity[0] - sqrt((9.0 + 3.0) / 4.0)) < 1e-15);
    assert_true(fabs(sum.height - sqrt((1.0 + 12.0) / 4.0)) < 1e-15);
    assert_true(fabs(sum.bias + 0.5) < 1e-15);
    assert_true(sum.count == 4 && sum.falls == 1 && sum.tilt == 0.1);
    // A run in which nothing counted has no errors, and does not change those of others.
    quad_walk_options options = quad_default_walk_options();
    options.seconds = 0.5;
    quad_walk_result none = run(place, &options, 1), both = {0};
    assert_true(none.count == 0 && isnan(none.velocity[0]) && isnan(none.raw[1]));
    assert_true(isnan(none.height) && isnan(none.bias));
    quad_walk_merge(&both, &none);
    assert_true(isnan(both.velocity[0]) && isnan(both.height) && isnan(both.bias));
    quad_walk_merge(&both, &b);
    quad_walk_merge(&both, &none);
    assert_true(both.velocity[0] == 1.0 && both.height == 2.0 && both.bias == -1.0);
}

static void options_out_of_range_are_named(void** state) {
    (void)state;
    quad_walk_options options = quad_default_walk_options();
    quad_walk* walk = NULL;
    ns_error error;
    options.delay = 100;
    assert_int_equal(quad_walk_create(place, &options, NULL, &walk, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "delay is 100"));
    options = quad_default_walk_options();
    options.hold[0] = 3.0;
    assert_int_equal(quad_walk_create(place, &options, NULL, &walk, &error), NS_ERR_ARGUMENT);
    options = quad_default_walk_options();
    options.controller.window = 0;
    assert_int_equal(quad_walk_create(place, &options, NULL, &walk, &error), NS_ERR_ARGUMENT);
    assert_null(walk);
}

static void memory_is_checked_and_only_asked_for_at_the_start(void** state) {
    (void)state;
    quad_walk_options options = quad_default_walk_options();
    options.seconds = 0.5;
    options.noise = 1.0;
    options.delay = 2;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        quad_walk* walk = NULL;
        ns_status status = quad_walk_create(place, &options, &allocator, &walk, NULL);
        if (counter.calls < n) {
            size_t calls = counter.calls;
            quad_walk_sample m;
            quad_walk_begin(walk, 1);
            while (quad_walk_step(walk, &m)) continue;
            assert_int_equal(counter.calls, calls);
            quad_walk_free(walk);
            assert_int_equal(counter.live_blocks, 0);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(counter.live_blocks, 0);
    }
    quad_walk_free(NULL);
    quad_walk_env_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_those_of_the_moments),
        cmocka_unit_test(commands_are_ramps),
        cmocka_unit_test(seeds_tell_walks_apart),
        cmocka_unit_test(pushes_are_as_hard_as_they_say),
        cmocka_unit_test(trouble_is_counted_by_decisions),
        cmocka_unit_test(places_have_masses_and_friction),
        cmocka_unit_test(runs_are_merged),
        cmocka_unit_test(options_out_of_range_are_named),
        cmocka_unit_test(memory_is_checked_and_only_asked_for_at_the_start),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
