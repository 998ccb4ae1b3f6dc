// Imitation learns what the MPC does; the gradient through the simulator against differences of a
// second, plain simulation of the same walk; tuning lowers errors.

#include "base/common.h"
#include "model/pose.h"
#include "neuralsim/random.h"
#include "quadruped/imitation.h"
#include "quadruped/leg.h"
#include "quadruped/tuning.h"
#include "support/residual.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { PERIOD = 5, NX = 37, NC = 18 };

static ns_model* model;
static quad_walk_env* place;
static quad_demonstrations lessons;
static quad_policy* policy; // imitates a little

static int make_all(void** state) {
    (void)state;
    quad_robot robot = quad_a1();
    char path[512];
    snprintf(path, sizeof path, "%s/models/a1.urdf", NEURALSIM_SOURCE_DIR);
    ns_load_options load = ns_default_load_options();
    load.ground = true;
    quad_walk_options walk = quad_default_walk_options();
    quad_imitate_options options = quad_default_imitate_options();
    options.iterations = 2000;
    ns_error error;
    bool done =
        ns_model_load(path, &load, &model, &error) == NS_OK &&
        quad_walk_env_create(model, &robot, NULL, NULL, &place, &error) == NS_OK &&
        quad_demonstrations_create(4000, NULL, &lessons, &error) == NS_OK &&
        quad_demonstrations_record(&lessons, place, &walk, 77, 4000, 0.25, NULL, &error) == NS_OK &&
        quad_policy_create((uint32_t[]){32, 32}, 2, 1, NULL, &policy, &error) == NS_OK;
    quad_imitate_report report;
    done = done && quad_imitate(policy, &lessons, &options, &report, &error) == NS_OK;
    if (!done) {
        print_message("%s\n", error.message);
        return 1;
    }
    print_message("imitation: %.3f N m, held out %.3f, of %.3f\n", report.train, report.held,
                  report.spread);
    return report.held < 0.4 * report.spread ? 0 : 1;
}

static int free_all(void** state) {
    (void)state;
    quad_policy_free(policy);
    quad_demonstrations_free(&lessons, NULL);
    quad_walk_env_free(place);
    ns_model_free(model);
    return 0;
}

// ---- the gradient --------------------------------------------------------------------------------

// The network, written down once more.
static void network(const double* weights, const double* features, double* torques) {
    double x[64] = {0}, y[64];
    for (int k = 0; k < 41; k++) x[k] = (features[k] - policy->mean[k]) * policy->scale[k];
    const double* w = weights;
    for (uint32_t layer = 0; layer < policy->nlayer; layer++) {
        uint32_t nin = policy->sizes[layer], nout = policy->sizes[layer + 1];
        for (uint32_t i = 0; i < nout; i++) {
            y[i] = w[nin * nout + i];
            for (uint32_t j = 0; j < nin; j++) y[i] += w[j * nout + i] * x[j];
            if (layer + 1 < policy->nlayer && y[i] < 0.0) y[i] = expm1(y[i]);
        }
        memcpy(x, y, nout * sizeof *y);
        w += (nin + 1) * nout;
    }
    for (int k = 0; k < 12; k++) torques[k] = x[k] * policy->torque[k];
}

static void sample_of(const double* x, double out[3]) {
    quad_state s = quad_read(&place->map, x);
    double R[9];
    nsi_quat_to_matrix(s.quaternion, R);
    for (int i = 0; i < 3; i++) {
        out[i] = R[i] * s.velocity[0] + R[3 + i] * s.velocity[1] + R[6 + i] * s.velocity[2];
    }
}

// A walk again, with other weights: legs stand when they did, and swing legs go where they did.
static void walk_again(const quad_tune_tape* tape, const quad_tune_tape* first, uint32_t decisions,
                       const double* weights, ns_workspace* work) {
    for (uint32_t k = 0; k < decisions; k++) {
        double* x = tape->states + (size_t)k * PERIOD * NX;
        quad_state s = quad_read(&place->map, x);
        double f[41], R[9], torques[12], mean[3] = {0};
        memcpy(f, first->features + (size_t)k * 41, sizeof f);
        // The average: what it was, plus the change of the velocities in it.
        for (uint32_t back = 0; back < first->averaged[k] && back <= k; back++) {
            double now[3], then[3];
            sample_of(tape->states + (size_t)(k - back) * PERIOD * NX, now);
            sample_of(first->states + (size_t)(k - back) * PERIOD * NX, then);
            for (int i = 0; i < 3; i++) mean[i] += (now[i] - then[i]) / first->averaged[k];
        }
        nsi_quat_to_matrix(s.quaternion, R);
        for (int i = 0; i < 3; i++) {
            f[i] += mean[i];
            f[6 + i] = s.angular_velocity[i];
        }
        f[3] = atan2(R[7], R[8]);
        f[4] = atan2(-R[6], hypot(R[7], R[8]));
        for (int leg = 0; leg < 4; leg++) {
            quad_leg_toe(&place->robot.legs[leg], s.q + 3 * leg, f + 13 + 3 * leg);
        }
        network(weights, f, torques);
        for (uint32_t step = k * PERIOD; step < (k + 1) * PERIOD; step++) {
            double *now = tape->states + (size_t)step * NX, c[NC], states[2 * NX];
            const double* then = first->states + (size_t)step * NX;
            memcpy(c, first->controls + (size_t)step * NC, sizeof c);
            for (int j = 0; j < 12; j++) {
                uint32_t q = place->map.q[j], v = place->map.nq + place->map.v[j];
                double* torque = &c[place->map.nu + place->map.v[j]];
                double most = place->robot.torque[j % 3];
                if (first->stands[k][j / 3]) {
                    *torque = fmin(fmax(torques[j], -most), most);
                } else if (fabs(*torque) < most) {
                    *torque -= place->robot.kp[j % 3] * (now[q] - then[q]) +
                               place->robot.kd[j % 3] * (now[v] - then[v]);
                }
            }
            ns_rollout_args args = {
                .batch = 1, .steps = 1, .x0 = now, .controls = c, .states = states};
            assert_int_equal(ns_rollout(place->system, work, &args, NULL), NS_OK);
            memcpy(now + NX, states + NX, NX * sizeof *now);
        }
    }
}

static double* copy_of(const double* numbers, size_t count) {
    double* copy = malloc(count * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, numbers, count * sizeof *copy);
    return copy;
}

static void gradients_are_those_of_the_walk(void** state) {
    (void)state;
    enum { DECISIONS = 24, ROBOTS = 4 };
    quad_tune_options options = quad_default_tune_options();
    options.robots = ROBOTS;
    options.decisions = DECISIONS;
    quad_walk_options walk = quad_default_walk_options();
    quad_tune* tune = NULL;
    ns_workspace* work = NULL;
    assert_int_equal(quad_tune_create(place, &walk, policy, &options, NULL, &tune, NULL), NS_OK);
    ns_workspace_size size = {.batch = 1, .steps = 1, .threads = 1};
    assert_int_equal(ns_workspace_create(place->system, &size, &work, NULL), NS_OK);
    const uint32_t n = policy->nweight;
    double *gradient = copy_of(policy->weights, n), *direction = copy_of(policy->weights, n),
           *moved = copy_of(policy->weights, n);
    residual r = {.name = "gradient through the walk", .tolerance = 1e-4};
    ns_rng rng = ns_rng_seed(5);
    for (int round = 0; round < 6; round++) {
        quad_tune_walk(tune);
        assert_true(quad_tune_gradient(tune, gradient));
        // The gradient's own direction, which has the largest slope, and a random one.
        double norm = 0.0, slope = 0.0, values[2];
        for (uint32_t k = 0; k < n; k++) {
            direction[k] = round % 2 ? ns_rng_normal(&rng) : gradient[k];
            norm += direction[k] * direction[k];
        }
        for (uint32_t k = 0; k < n; k++) slope += gradient[k] * direction[k] / sqrt(norm);
        quad_tune_tape first[ROBOTS];
        for (uint32_t robot = 0; robot < ROBOTS; robot++) {
            const quad_tune_tape* tape = quad_tune_get_tape(tune, robot);
            assert_true(tape->whole);
            first[robot] = *tape;
            first[robot].states = copy_of(tape->states, (DECISIONS * PERIOD + 1) * NX);
        }
        const double h = 1e-5;
        for (int side = 0; side < 2; side++) {
            for (uint32_t k = 0; k < n; k++) {
                moved[k] = policy->weights[k] + (side ? h : -h) * direction[k] / sqrt(norm);
            }
            for (uint32_t robot = 0; robot < ROBOTS; robot++) {
                walk_again(quad_tune_get_tape(tune, robot), &first[robot], DECISIONS, moved, work);
            }
            values[side] = quad_tune_value(tune);
        }
        double difference = (values[1] - values[0]) / (2.0 * h);
        print_message("value %.4f, slope %.6f, difference %.6f\n", values[0], slope, difference);
        assert_true(fabs(slope) > 1e-4);
        residual_add(&r, slope, difference, fabs(difference)); // the walk is in single precision
        for (uint32_t robot = 0; robot < ROBOTS; robot++) free(first[robot].states);
    }
    residual_check(&r);
    free(gradient);
    free(direction);
    free(moved);
    ns_workspace_free(work);
    quad_tune_free(tune);
}

// ---- what it is for ------------------------------------------------------------------------------

typedef struct course {
    double sum; // of the values of all iterations
    uint32_t count;
} course;

static bool follow(void* context, uint32_t iteration, double value, double norm) {
    course* c = context;
    assert_true(iteration >= 1 && isfinite(value) && norm > 0.0);
    c->sum += value;
    c->count++;
    return false;
}

// Tune a copy of a policy on a course of 25 iterations, which the seed of the options fixes.
// @return the mean value along the way
static double tune_copy(const quad_policy* start, double rate, uint32_t threads,
                        quad_policy** tuned) {
    quad_walk_options walk = quad_default_walk_options();
    quad_tune_options options = quad_default_tune_options();
    options.robots = 8;
    options.decisions = 40;
    options.iterations = 25;
    options.rate = rate;
    options.threads = threads;
    quad_tune* tune = NULL;
    course c = {0};
    assert_int_equal(quad_policy_copy(start, tuned, NULL), NS_OK);
    assert_int_equal(quad_tune_create(place, &walk, *tuned, &options, NULL, &tune, NULL), NS_OK);
    assert_int_equal(quad_tune_run(tune, follow, &c, NULL), NS_OK);
    assert_int_equal(c.count, 25);
    quad_tune_free(tune);
    return c.sum / c.count;
}

// The value of a policy that stays as it is, on that course.
static double value_on_course(const quad_policy* fixed) {
    quad_policy* copy = NULL;
    double value = tune_copy(fixed, 1e-15, 2, &copy);
    quad_policy_free(copy);
    return value;
}

// Tuning lowers what it measures, before and after on one course: with seeds 1 to 4 to 0.2 ... 0.4 of it.
// (Values of single iterations vary by more than that: a robot that is about to fall has a large one.)
// Threads do not change a bit of the result.
static void tuning_lowers_the_value_whatever_the_threads(void** state) {
    (void)state;
    quad_policy* tuned[2] = {NULL, NULL};
    for (uint32_t k = 0; k < 2; k++) tune_copy(policy, 1e-3, k + 1, &tuned[k]);
    assert_memory_equal(tuned[0]->weights, tuned[1]->weights, policy->nweight * sizeof(double));

    double before = value_on_course(policy), after = value_on_course(tuned[0]);
    print_message("value %.3f, then %.3f\n", before, after);
    assert_true(after < 0.6 * before);
    quad_policy_free(tuned[0]);
    quad_policy_free(tuned[1]);
}

// Robots that fall begin anew and do not count; where all fall there is no value.
static void robots_that_fall_do_not_count(void** state) {
    (void)state;
    quad_walk_options walk = quad_default_walk_options();
    quad_tune_options options = quad_default_tune_options();
    options.robots = 4;
    quad_policy* limp = NULL;
    quad_tune* tune = NULL;
    assert_int_equal(quad_policy_copy(policy, &limp, NULL), NS_OK);
    memset(limp->weights, 0, limp->nweight * sizeof *limp->weights);
    quad_policy_ready(limp);
    assert_int_equal(quad_tune_create(place, &walk, limp, &options, NULL, &tune, NULL), NS_OK);
    double* gradient = copy_of(limp->weights, limp->nweight);
    for (int round = 0; round < 2; round++) {
        quad_tune_walk(tune);
        for (uint32_t r = 0; r < 4; r++) assert_false(quad_tune_get_tape(tune, r)->whole);
        assert_true(isnan(quad_tune_value(tune)));
        assert_false(quad_tune_gradient(tune, gradient));
    }
    ns_error error;
    assert_int_equal(quad_tune_run(tune, NULL, NULL, &error), NS_ERR_NONFINITE);
    free(gradient);
    quad_tune_free(tune);
    quad_policy_free(limp);
}

// Weights that are not finite are told, not reported as trained.
static void imitation_that_cannot_begin_is_told(void** state) {
    (void)state;
    quad_policy* broken = NULL;
    assert_int_equal(quad_policy_copy(policy, &broken, NULL), NS_OK);
    broken->weights[broken->nweight - 1] = NAN;
    ns_error error;
    assert_int_equal(quad_imitate(broken, &lessons, NULL, NULL, &error), NS_ERR_NONFINITE);
    quad_policy_free(broken);
}

static void options_without_sense_are_refused(void** state) {
    (void)state;
    quad_walk_options walk = quad_default_walk_options();
    quad_tune_options options = quad_default_tune_options();
    quad_tune* tune = NULL;
    options.robots = 3;
    assert_int_equal(quad_tune_create(place, &walk, policy, &options, NULL, &tune, NULL),
                     NS_ERR_ARGUMENT);
    options.robots = 4;
    walk.noise = 1.0;
    assert_int_equal(quad_tune_create(place, &walk, policy, &options, NULL, &tune, NULL),
                     NS_ERR_ARGUMENT);
    assert_null(tune);
    quad_imitate_options imitate = quad_default_imitate_options();
    imitate.batch = 3;
    assert_int_equal(quad_imitate(policy, &lessons, &imitate, NULL, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(quad_demonstrations_record(&lessons, place, &walk, 1, 1, 1.0, NULL, NULL),
                     NS_ERR_LIMIT);
    quad_tune_free(NULL);
}

static void memory_is_checked(void** state) {
    (void)state;
    quad_walk_options walk = quad_default_walk_options();
    quad_tune_options options = quad_default_tune_options();
    options.robots = 4;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        quad_tune* tune = NULL;
        ns_status status =
            quad_tune_create(place, &walk, policy, &options, &allocator, &tune, NULL);
        bool last = counter.calls < n;
        assert_int_equal(status, last ? NS_OK : NS_ERR_NOMEM);
        if (last) { // and none is asked for on the way
            double* gradient = copy_of(policy->weights, policy->nweight);
            size_t calls = counter.calls;
            quad_tune_walk(tune);
            assert_true(quad_tune_gradient(tune, gradient));
            assert_int_equal(counter.calls, calls);
            free(gradient);
        }
        quad_tune_free(tune);
        assert_int_equal(counter.live_blocks, 0);
        if (last) break;
        if (n > 40) n += 10; // the tracing of the network asks often
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_walk),
        cmocka_unit_test(tuning_lowers_the_value_whatever_the_threads),
        cmocka_unit_test(robots_that_fall_do_not_count),
        cmocka_unit_test(imitation_that_cannot_begin_is_told),
        cmocka_unit_test(options_without_sense_are_refused),
        cmocka_unit_test(memory_is_checked),
    };
    return cmocka_run_group_tests(tests, make_all, free_all);
}
