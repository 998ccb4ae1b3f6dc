// The golf ball of experiments/golf: its truths against closed forms and the laws they cite, and what
// hybrid models of it reach; flights of real balls, if they are there.

#define _POSIX_C_SOURCE 200809L

#include "support/program.h"
#include "support/realdata.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define PI 3.14159265358979323846
#define GOLF NEURALSIM_SOURCE_DIR "/experiments/golf/"

// A golf ball and air, from their definitions.
static const double mass = 0.04593, radius = 0.04267 / 2.0, density = 1.184, gravity = 9.81;

static double half_rho_area(void) {
    return 0.5 * density * PI * radius * radius;
}

// A row of a table, the first after its names is 1.
static void read_row(const char* text, uint32_t number, double* numbers, uint32_t count) {
    for (uint32_t k = 0; k < number; k++) {
        text = strchr(text, '\n');
        assert_non_null(text);
        text++;
    }
    for (uint32_t k = 0; k < count; k++) {
        char* next;
        numbers[k] = strtod(text, &next);
        assert_true(next != text);
        text = next + (*next == ',');
    }
}

// Dropped from rest: v = V tanh(g t / V) and z = -V^2 / g log cosh(g t / V), with m g = rho A / 2 Cd V^2.
static void a_dropped_ball_falls_as_it_must(void** state) {
    (void)state;
    double row[7], terminal = sqrt(mass * gravity / (half_rho_area() * 0.24)), t = 8.0;
    run_ok("simulate " GOLF "truth.yaml --time 8 --every 800");
    read_row(last.out, 2, row, 7);
    double z = -terminal * terminal / gravity * log(cosh(gravity * t / terminal));
    double v = -terminal * tanh(gravity * t / terminal);
    print_message("terminal speed %.3f m/s; after 8 s z %.6f (%.6f), v %.6f (%.6f)\n", terminal,
                  row[3], z, row[6], v);
    // The blueprint gives rho A / 2 to six digits.
    assert_true(fabs(row[3] - z) < 1e-5 * fabs(z));
    assert_true(fabs(row[6] - v) < 1e-5 * fabs(v));
    assert_true(row[1] == 0.0 && row[2] == 0.0);
}

// Smits and Smith's coefficients at one speed and spin: drag against the velocity, lift upwards for
// backspin, and spin that decays. Turned about the vertical, all turns with it.
static void a_spinning_ball_is_lifted(void** state) {
    (void)state;
    double speed = 50.0, spin = 300.0, ratio = radius * spin / speed;
    double push = half_rho_area() * speed * speed / mass;
    double drag = push * (0.24 + 0.18 * ratio), lift = push * 0.54 * pow(ratio, 0.4);
    double decay = 2e-5 * spin * speed / radius, row[23];
    static const char format[] =
        "simulate " GOLF "magnus_truth.yaml --steps 1 --observe qdd --qd0 %g"
        " %g 0 %g %g 0";
    for (int turn = 0; turn < 2; turn++) {
        char command[400];
        double c = turn ? 0.6 : 1.0, s = turn ? 0.8 : 0.0;
        snprintf(command, sizeof command, format, speed * c, speed * s, spin * s, -spin * c);
        run_ok(command);
        read_row(last.out, 1, row, 23);
        const double *a = row + 17, expected[] = {-drag * c,  -drag * s, lift - gravity,
                                                  -decay * s, decay * c, 0.0};
        for (int k = 0; k < 6; k++)
            assert_true(fabs(a[k] - expected[k]) < 1e-6 + 1e-4 * fabs(expected[k]));
    }
    print_message("drag %.2f, lift %.2f m/s^2, spin %.2f rad/s^2\n", drag, lift, decay);
}

static void unseen_pushes_are_predicted(void** state) {
    (void)state;
    json_error_t error;
    unsetenv("NEURALSIM_DATA");
    run_ok("experiment golf --quick --json -o golf");
    json_t* a = json_loads(last.out, JSON_REJECT_DUPLICATES, &error);
    if (!a) fail_msg("line %d: %s", error.line, error.text);
    print_message(
        "vacuum %.3g m; times better: hybrid %.0f; with spin, constants %.0f, hybrid %.0f\n",
        metric(a, "drag_before_test_q"), metric(a, "drag_hybrid_gain_q"),
        metric(a, "magnus_constant_gain_q"), metric(a, "magnus_known_gain_q"));
    assert_true(metric(a, "drag_before_test_q") > 1.0);
    assert_true(metric(a, "drag_hybrid_gain_q") > 100.0);
    assert_true(metric(a, "magnus_known_gain_q") > 100.0);
    assert_true(metric(a, "magnus_known_gain_q") > 10.0 * metric(a, "magnus_constant_gain_q"));
    assert_true(metric(a, "drag_coefficient_truth_error") < 1e-6);
    // Without recordings, the case that needs them is left out.
    assert_null(json_object_get(json_object_get(a, "fits"), "real_drag"));
    json_decref(a);
}

// The error on unseen flights, m, of a fit of the study with these formulas, which ends with this exit code.
static double fit_flights(const char* formulas, int code) {
    char text[600], command[400];
    json_error_t error;
    snprintf(text, sizeof text,
             "extends: " GOLF "real_linear.yaml\nparameters: null\nset: null\n"
             "blueprint: " GOLF "%s.yaml\n",
             formulas);
    tempdir_write("flights.yaml", text);
    snprintf(command, sizeof command, "fit flights.yaml -o %s", formulas);
    program_result r = program_run(tempdir(), command);
    if (r.code != code) fail_msg("%s: exit code %d: %s", formulas, r.code, r.err);
    program_result_free(&r);
    snprintf(command, sizeof command, "%s/result.json", formulas);
    json_t* a = json_load_file(tempdir_path(command), 0, &error);
    if (!a) fail_msg("%s: %s", command, error.text);
    const json_t* test = json_object_get(json_object_get(a, "after"), "test");
    double off = json_number_value(json_object_get(test, "rmse_q"));
    json_decref(a);
    return off;
}

// Spin counts: its formula is better than the best drag, which is far above the noise and says so.
static void real_flights_are_predicted(void** state) {
    (void)state;
    need_data("spindoe_ball/index.csv");
    double drag = fit_flights("drag_law", 4), spin = fit_flights("spin_law", 0);
    print_message("drag %.4f m, with the Magnus force %.4f m\n", drag, spin);
    assert_true(drag > 0.005 && drag < 0.05);
    assert_true(spin < 0.5 * drag);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dropped_ball_falls_as_it_must),
        cmocka_unit_test(a_spinning_ball_is_lifted), cmocka_unit_test(real_flights_are_predicted),
        cmocka_unit_test(unseen_pushes_are_predicted), // takes NEURALSIM_DATA away
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
