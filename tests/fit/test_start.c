// Fits that start elsewhere, and windows at the beginning of a recording, on a pendulum whose length is
// known.

#define _POSIX_C_SOURCE 200809L

#include "fit/fit_state.h"
#include "neuralsim/fit.h"
#include "support/assert.h"
#include "support/tempdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

// A point mass on a rod, q'' = -(g / l) sin q, by RK4 in steps far below those of the fit.
static void write_motion(const char* name, double length) {
    FILE* file = fopen(tempdir_path(name), "wb");
    double q = 0.7, w = 0.0, h = 1e-4;
    assert_non_null(file);
    fputs("t,q0,qd0\n", file);
    for (int k = 0; k <= 10000; k++) {
        if (k % 100 == 0) fprintf(file, "%.17g,%.17g,%.17g\n", k * h, q, w);
        double c = -9.81 / length;
        double k1 = c * sin(q), k2 = c * sin(q + 0.5 * h * w);
        double k3 = c * sin(q + 0.5 * h * w + 0.25 * h * h * k1);
        double k4 = c * sin(q + h * w + 0.5 * h * h * k2);
        q += h * w + h * h / 6.0 * (k1 + k2 + k3);
        w += h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4);
    }
    fclose(file);
}

#define PLAN(more)                                                                                 \
    "model: pendulum.urdf\nintegrator: rk4\ntimestep: 0.01\ndata: {train: [run.csv]}\n"            \
    "parameters:\n  length: {initial: 0.5, lower: 0.2, upper: 4" more                              \
    "}\nset: {link/rod/com/z: -length}\n"

static ns_fit* load(const char* plan) {
    ns_error error;
    ns_fit* fit = NULL;
    tempdir_write("plan.yaml", plan);
    must(ns_fit_load(tempdir_path("plan.yaml"), 1, &fit, &error), &error);
    return fit;
}

static double run(ns_fit* fit) {
    ns_error error;
    double value = NAN;
    must(ns_fit_run(fit, NULL, &error), &error);
    assert_true(ns_fit_estimate(fit, "length", &value, NULL));
    return value;
}

static void a_fit_starts_where_it_is_told(void** state) {
    (void)state;
    ns_fit* fit = load(PLAN("") "train: {window: whole, initial_state: recorded, iterations: 0}\n");
    assert_true(fabs(run(fit) - 0.5) < 1e-12);
    const double starts[] = {3.0, 0.9, 0.5};
    for (int k = 0; k < 3; k++) {
        assert_int_equal(ns_fit_set_initial(fit, "length", starts[k], NULL), NS_OK);
        assert_true(fabs(run(fit) - starts[k]) < 1e-12);
        assert_true(fit->result.estimates.data[0].initial == starts[k]);
    }
    ns_fit_free(fit);
}

// Started anew it finds the same, bit for bit, as a fit whose file has this start.
static void it_is_as_if_the_file_had_it(void** state) {
    (void)state;
    ns_fit* fit = load(PLAN("") "train: {window: whole, initial_state: recorded}\n");
    double first = run(fit);
    assert_int_equal(ns_fit_set_initial(fit, "length", 1.5, NULL), NS_OK);
    double moved = run(fit);
    assert_int_equal(ns_fit_set_initial(fit, "length", 0.5, NULL), NS_OK);
    assert_true(run(fit) == first);
    ns_fit_free(fit);
    fit = load("model: pendulum.urdf\nintegrator: rk4\ntimestep: 0.01\ndata: {train: [run.csv]}\n"
               "parameters: {length: {initial: 1.5, lower: 0.2, upper: 4}}\n"
               "set: {link/rod/com/z: -length}\ntrain: {window: whole, initial_state: recorded}\n");
    assert_true(run(fit) == moved);
    assert_true(fabs(moved - 1.0) < 1e-6);
    ns_fit_free(fit);
}

// The prior is centred where the fit starts: with a narrow one it stays there.
static void the_prior_moves_along(void** state) {
    (void)state;
    ns_fit* fit =
        load(PLAN(", prior_sigma: 1e-9") "train: {window: whole, initial_state: recorded}\n");
    assert_true(fabs(run(fit) - 0.5) < 1e-4);
    assert_int_equal(ns_fit_set_initial(fit, "length", 2.0, NULL), NS_OK);
    assert_true(fabs(run(fit) - 2.0) < 1e-4);
    ns_fit_free(fit);
}

static void mistakes_are_refused(void** state) {
    (void)state;
    ns_error error;
    ns_fit* fit = load(PLAN("") "train: {window: whole, initial_state: recorded, iterations: 0}\n");
    assert_int_equal(ns_fit_set_initial(fit, "lenght", 1.0, &error), NS_ERR_ARGUMENT);
    assert_non_null(
        strstr(error.message, "no parameter \"lenght\" is estimated; did you mean \"length\"?"));
    const double bad[] = {0.1, 4.5, NAN, INFINITY, -INFINITY};
    for (int k = 0; k < 5; k++) {
        assert_int_equal(ns_fit_set_initial(fit, "length", bad[k], &error), NS_ERR_ARGUMENT);
        assert_non_null(strstr(error.message, "is not between 0.2 and 4"));
    }
    assert_int_equal(ns_fit_set_initial(NULL, "length", 1.0, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_fit_set_initial(fit, NULL, 1.0, &error), NS_ERR_ARGUMENT);
    assert_true(fabs(run(fit) - 0.5) < 1e-12); // left as it was
    ns_fit_free(fit);
}

// One window is that at the beginning: of a recording that is right there and wrong later, the right
// length is found.
static void one_window_is_the_first(void** state) {
    (void)state;
    char line[200];
    write_motion("right.csv", 1.0);
    FILE* right = fopen(tempdir_path("right.csv"), "r");
    FILE* file = fopen(tempdir_path("run.csv"), "w");
    assert_non_null(right);
    assert_non_null(file);
    for (int k = 0; fgets(line, sizeof line, right); k++) {
        double t, q, w;
        if (k > 31 && sscanf(line, "%lf,%lf,%lf", &t, &q, &w) == 3) {
            fprintf(file, "%.17g,%.17g,%.17g\n", t, q + 0.5, w);
        } else {
            fputs(line, file);
        }
    }
    fclose(right);
    fclose(file);
    ns_fit* fit =
        load(PLAN("") "train: {window: [10, 30], max_windows: 1, initial_state: recorded}\n");
    assert_true(fabs(run(fit) - 1.0) < 1e-6);
    assert_int_equal(fit->result.nresidual, 2 * 30);
    ns_fit_free(fit);
    fit = load(PLAN("") "train: {window: whole, initial_state: recorded}\n");
    assert_true(fabs(run(fit) - 1.0) > 1e-3);
    ns_fit_free(fit);
    write_motion("run.csv", 1.0);
}

static int start(void** state) {
    (void)state;
    tempdir_write("pendulum.urdf",
                  "<robot name=\"p\"><link name=\"world\"/><link name=\"rod\"><inertial>"
                  "<origin xyz=\"0 0 -1\"/><mass value=\"1\"/><inertia ixx=\"1e-9\" iyy=\"1e-9\""
                  " izz=\"1e-9\" ixy=\"0\" ixz=\"0\" iyz=\"0\"/></inertial></link>"
                  "<joint name=\"hinge\" type=\"continuous\"><parent link=\"world\"/>"
                  "<child link=\"rod\"/><axis xyz=\"0 1 0\"/></joint></robot>\n");
    write_motion("run.csv", 1.0);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fit_starts_where_it_is_told),
        cmocka_unit_test(it_is_as_if_the_file_had_it),
        cmocka_unit_test(the_prior_moves_along),
        cmocka_unit_test(mistakes_are_refused),
        cmocka_unit_test(one_window_is_the_first),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
