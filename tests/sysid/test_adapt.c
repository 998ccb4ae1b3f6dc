// Predictions that adapt to what was recorded before: a mass that falls, of which the weight is a little
// different in each recording. Its position is a linear function of gravity, so what a prior and so
// many samples say together is known in closed form.

#define _POSIX_C_SOURCE 200809L

#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/tempdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { LAST = 100, HALF = 50 };                               // samples
static const double STEP = 0.01, SIGMA = 0.01, GUESS = -10.0; // s, m, m/s^2

// Semi-implicit Euler: after k steps a mass has fallen by this much of its gravity.
static double fall(int k) {
    return STEP * STEP * k * (k + 1) / 2.0;
}

static void write_fall(const char* name, double gravity) {
    char text[20000];
    int used = snprintf(text, sizeof text, "t,q0,qd0\n");
    for (int k = 0; k <= LAST; k++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%.17g,%.17g,%.17g\n", k * STEP,
                         gravity * fall(k), gravity * STEP * k);
    }
    experiment_write(name, "%s", text);
}

static int write_files(void** state) {
    (void)state;
    experiment_write("mass.xml", "<mujoco><option timestep='0.01'/><worldbody><body name='mass'>"
                                 "<joint name='z' type='slide' axis='0 0 1'/>"
                                 "<inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/>"
                                 "</body></worldbody></mujoco>");
    experiment_write("map.yaml", "time: t\nobserve: {q0: {value: q0, sigma: 0.01},"
                                 " qd0: {value: qd0, weight: 0}}\n");
    write_fall("a.csv", -9.0);
    write_fall("b.csv", -10.5);
    return 0;
}

#define PLAN(predict)                                                                              \
    "model: mass.xml\ndata: {map: map.yaml, train: [a.csv, b.csv]}\n"                              \
    "parameters: {world/gravity/z: {initial: -10}, link/mass/mass: free}\n"                        \
    "train: {window: 10, initial_state: recorded, iterations: 0}\n"                                \
    "predict: {measures: {far: {distance: [q0], average: mean}}" predict "}\n"

static double error_with(const char* plan) {
    ns_error error;
    experiment_write("fit.yaml", "%s", plan);
    ns_fit* fit = experiment_load("fit.yaml", 2);
    must(ns_fit_run(fit, NULL, &error), &error);
    double far = fit->result.after[NS_ROLE_TRAIN].metrics[0].mean;
    ns_fit_free(fit);
    return far;
}

// Mean distance over the second half, of both recordings, for a prior of this deviation.
static double expected(double deviation) {
    static const double truths[] = {-9.0, -10.5};
    double information = 0.0, sum = 0.0, mean = 0.0;
    for (int k = 1; k <= HALF; k++) information += fall(k) * fall(k) / (SIGMA * SIGMA);
    for (int k = 1; k <= LAST - HALF; k++) mean += fall(k) / (LAST - HALF);
    for (int k = 0; k < 2; k++) {
        double known = deviation > 0.0 ? 1.0 / (deviation * deviation) : INFINITY;
        double share = isinf(known) ? 1.0 : known / (known + information); // of the prior
        sum += share * fabs(GUESS - truths[k]) * mean / 2.0;
    }
    return sum;
}

static void predictions_begin_after_a_share(void** state) {
    (void)state;
    double far = error_with(PLAN(", after: 50%"));
    assert_true(fabs(far - expected(0.0)) < 1e-9);
}

static void a_prior_and_the_samples_are_weighed(void** state) {
    (void)state;
    double far = error_with(PLAN(", after: 50%, adapt: {world/gravity/*: 0.5}"));
    assert_true(expected(0.5) < 0.2 * expected(0.0));
    assert_true(fabs(far - expected(0.5)) < 1e-6);
    far = error_with(PLAN(", after: 50%, adapt: {world/gravity/z: 0.02}"));
    assert_true(expected(0.02) > 0.2 * expected(0.0));
    assert_true(fabs(far - expected(0.02)) < 1e-6);
    // A parameter that nothing depends on changes nothing, and one that is not named stays.
    far = error_with(PLAN(", after: 50%, adapt: {link/mass/mass: 0.1}"));
    assert_true(fabs(far - expected(0.0)) < 1e-9);
}

static void mistakes_are_explained(void** state) {
    (void)state;
    static const struct {
        const char *predict, *message;
    } cases[] = {{", after: 2", "a share"},
                 {", after: 100%", "below 100%"},
                 {", after: 50%, history: 3", "does not go with"},
                 {", adapt: {world/gravity/z: 1}", "`after`"},
                 {", after: 50%, adapt: {world/gravity/y: 1}", "no such name"},
                 {", after: 50%, adapt: {world/gravity/z: -1}", "too small"},
                 {", after: 0.1%", "no recording has a sample to predict"},
                 {", after: 50%, adapt: {world/*/z: 1, world/gravity/z: text}", "number"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        experiment_write("fit.yaml",
                         "model: mass.xml\ndata: {map: map.yaml, train: [a.csv]}\n"
                         "parameters: {world/gravity/z: {initial: -10}}\n"
                         "predict: {measures: {far: {distance: [q0]}}%s}\n",
                         cases[k].predict);
        const char* message = experiment_error("fit.yaml", NS_ERR_PARSE);
        if (!strstr(message, cases[k].message)) fail_msg("%s: %s", cases[k].predict, message);
        assert_non_null(strstr(message, "fit.yaml:"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_begin_after_a_share),
        cmocka_unit_test(a_prior_and_the_samples_are_weighed),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, write_files, NULL);
}
