// Distances between recorded and predicted motion as fields report them: a body that stays where it is
// according to the model, and moves and turns evenly in the recording.

#define _POSIX_C_SOURCE 200809L

#include "fit/fit_state.h"
#include "fit/result_words.h"
#include "neuralsim/fit.h"
#include "support/assert.h"
#include "support/rendered.h"
#include "support/tempdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { ROWS = 121 };

// Recording k moves by 3 k mm in x and 4 k mm in y a row, and turns by 2 degrees: beyond half a turn.
static void write_motion(void) {
    FILE* file = fopen(tempdir_path("run.csv"), "wb");
    assert_non_null(file);
    fputs("traj,t,q0,q1,q2,q3,q4,q5,q6,qd0,qd1,qd2,qd3,qd4,qd5\n", file);
    for (int traj = 0; traj < 2; traj++) {
        for (int k = 0; k < ROWS; k++) {
            double half = k * 3.14159265358979323846 / 180.0, s = k * (traj + 1.0) * 1e-3;
            fprintf(file, "%d,%.17g,%.17g,%.17g,1,%.17g,0,0,%.17g,0,0,0,0,0,0\n", traj, k * 0.01,
                    3.0 * s, 4.0 * s, cos(half), sin(half));
        }
    }
    fclose(file);
}

#define PLAN(measures)                                                                             \
    "model: body.xml\ndata: {train: [run.csv]}\nparameters: {link/body/mass: free}\n"              \
    "train: {window: one, initial_state: recorded, iterations: 1}\npredict: {measures: " measures  \
    "}\n"

static void averages_are_those_of_an_even_motion(void** state) {
    (void)state;
    ns_error error;
    ns_fit* fit = NULL;
    tempdir_write("plan.yaml",
                  PLAN("{mean: {distance: [1000*q0, 1000*q1], average: mean, unit: mm},"
                       " rms: {distance: [q0, q1]},"
                       " turn: {rotation: [q3, q4, q5, q6], average: mean, unit: <deg>}}"));
    must(ns_fit_load(tempdir_path("plan.yaml"), 1, &fit, &error), &error);
    must(ns_fit_run(fit, NULL, &error), &error);
    // Sums of k and k^2 up to n; 5 mm a row in the first recording, 10 mm in the second.
    double n = ROWS - 1, mean = 5.0 * (n + 1.0) / 2.0;
    double rms = 5e-3 * sqrt((n + 1.0) * (2.0 * n + 1.0) / 6.0), turn = 0.0;
    for (int k = 1; k < ROWS; k++) turn += (2 * k <= 180 ? 2.0 * k : 360.0 - 2.0 * k) / n;
    const ns_score* s = &fit->result.after[NS_ROLE_TRAIN];
    assert_int_equal(s->nmetric, 3);
    assert_string_equal(s->metrics[0].name, "mean");
    assert_string_equal(s->metrics[0].unit, "mm");
    assert_true(fabs(s->metrics[0].mean - 1.5 * mean) < 1e-9 * mean);
    assert_true(fabs(s->metrics[0].median - 1.5 * mean) < 1e-9 * mean);
    assert_true(fabs(s->metrics[1].mean - 1.5 * rms) < 1e-12);
    assert_true(fabs(s->metrics[2].mean - turn) < 1e-9);

    // Shown everywhere, and read back.
    ns_text text, page;
    nsi_result again;
    assert_int_equal(render_fit(fit, ns_report_text, &text, &error), NS_OK);
    assert_non_null(strstr(text.data, "mean, mm"));
    ns_text_free(&text);
    assert_int_equal(render_fit(fit, ns_report_html, &page, &error), NS_OK);
    assert_non_null(strstr(page.data, "turn, &lt;deg&gt;"));
    ns_text_free(&page);
    assert_int_equal(render_fit(fit, ns_report_json, &text, &error), NS_OK);
    assert_int_equal(nsi_result_read(text.data, text.size, "r", NULL, NULL, &again, &error), NS_OK);
    const ns_score* read = &again.after[NS_ROLE_TRAIN];
    assert_int_equal(read->nmetric, 3);
    assert_string_equal(read->metrics[2].name, "turn");
    assert_true(read->metrics[1].mean == s->metrics[1].mean);
    nsi_result_free(&again);
    ns_text_free(&text);
    ns_fit_free(fit);
}

// What was recorded has four zeros where the body has moved: that is no rotation, and never right.
static void zeros_are_no_rotation(void** state) {
    (void)state;
    ns_error error;
    ns_fit* fit = NULL;
    tempdir_write("plan.yaml",
                  PLAN("{turn: {rotation: ['max(0, 1 - 1e6*q0)', 0*q1, 0*q1, 0*q1]}}"));
    must(ns_fit_load(tempdir_path("plan.yaml"), 1, &fit, &error), &error);
    must(ns_fit_run(fit, NULL, &error), &error);
    assert_true(isinf(fit->result.after[NS_ROLE_TRAIN].metrics[0].mean));
    ns_fit_free(fit);
}

static void mistakes_are_told(void** state) {
    (void)state;
    static const struct {
        const char *plan, *message;
    } wrong[] = {
        {PLAN("[1]"), "write a mapping"},
        {PLAN("{a: {}}"), "expected `distance"},
        {PLAN("{a: {distance: [q0], rotation: [q3, q4, q5, q6]}}"), "expected `distance"},
        {PLAN("{a: {rotation: [q3, q4, q5]}}"), "four numbers"},
        {PLAN("{a: {distance: [q99]}}"), "no channel q99"},
        {PLAN("{a: {distance: [q0 +]}}"), "at character"},
        {PLAN("{a: {distance: [q0], average: some}}"), "mean"},
        {PLAN("{a: {distance: [[q0]]}}"), "plan.yaml:5"},
        {PLAN("{a: 3}"), "plan.yaml:5"},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        ns_error error;
        ns_fit* fit = NULL;
        tempdir_write("plan.yaml", wrong[k].plan);
        assert_int_equal(ns_fit_load(tempdir_path("plan.yaml"), 1, &fit, &error), NS_ERR_PARSE);
        if (!strstr(error.message, wrong[k].message)) fail_msg("%s", error.message);
        assert_null(fit);
    }
}

static int start(void** state) {
    (void)state;
    tempdir_write("body.xml", "<mujoco><option gravity=\"0 0 0\" timestep=\"0.01\"/><worldbody>"
                              "<body name=\"body\"><freejoint/><inertial pos=\"0 0 0\" mass=\"1\""
                              " diaginertia=\"1 1 1\"/></body></worldbody></mujoco>");
    write_motion();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_are_those_of_an_even_motion),
        cmocka_unit_test(zeros_are_no_rotation),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
