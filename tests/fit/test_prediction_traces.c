// What is shown of a fit: motions of a pendulum simulated with the true parameters are what was
// recorded, and the others are not.

#include "fit/prediction_traces.h"
#include "neuralsim/table.h"
#include "report/web_bundle.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/payload.h"
#include "support/program.h"
#include "support/rendered.h"
#include "support/tempdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char pendulum[] = NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf";
enum { SAMPLES = 100, RUNS = 2, MANY = 25000 };
static const double period = 0.01;

static void record(void) {
    static const double x0[RUNS * 4] = {0.5, -0.3, 0.0, 0.0, -0.8, 0.4, 1.0, 0.0};
    motion m = motion_of(pendulum, period, SAMPLES);
    m.runs = RUNS;
    m.x0 = x0;
    motion_record(&m, "runs.csv");
    motion long_one = motion_of(pendulum, period, MANY);
    long_one.x0 = x0;
    motion_record(&long_one, "long.csv");
}

static ns_fit* fit_with(const char* data, const char* predict) {
    ns_error error;
    experiment_write("plan.yaml",
                     "model: %s\nintegrator: euler\ntimestep: %g\ndata: {%s}\n"
                     "parameters:\n  link/link1/mass: {initial: 2}\n"
                     "train: {window: 25, initial_state: recorded}\npredict: {%s}\n",
                     pendulum, period, data, predict);
    ns_fit* fit = experiment_load("plan.yaml", 1);
    must(ns_fit_run(fit, NULL, &error), &error);
    return fit;
}

static nsi_traces make(const ns_fit* fit) {
    ns_error error;
    nsi_traces e;
    must(nsi_traces_make(fit, &e, &error), &error);
    return e;
}

// Rows of a trace in order of time, as recorded, with predictions from each part's `history`-th
// sample on. The sum of squared errors of the start values.
static double check_rows(const nsi_traces* e, const nsi_trace* trace, uint32_t history) {
    double before = 0.0;
    uint32_t into = 0; // samples of the part so far
    for (size_t row = trace->first; row < trace->first + trace->rows; row++) {
        bool fresh = row == trace->first || e->roles[row] != e->roles[row - 1];
        into = fresh ? 0 : into + 1;
        if (row > trace->first) assert_true(e->time[row] > e->time[row - 1]);
        for (uint32_t c = 0; c < e->nchannel; c++) {
            size_t at = row * e->nchannel + c;
            if (e->roles[row] == NS_ROLE_COUNT) {
                assert_true(isnan(e->recorded[at]) && isnan(e->values[NSI_AFTER][at]));
                assert_true(isnan(e->controls[row * e->nc]));
                continue;
            }
            assert_int_equal(isnan(e->values[NSI_AFTER][at]), into < history);
            assert_int_equal(isnan(e->values[NSI_BEFORE][at]), into < history);
            if (into < history) continue;
            assert_true(fabs(e->values[NSI_AFTER][at] - e->recorded[at]) < 1e-6);
            assert_true(e->states[NSI_AFTER][at] == e->values[NSI_AFTER][at]); // channels are q, qd
            before += pow(e->values[NSI_BEFORE][at] - e->recorded[at], 2.0);
            if (c < 2) assert_true(e->measured[at] == e->recorded[at]);
        }
    }
    return before;
}

static void parts_of_a_recording_are_one_trace(void** state) {
    (void)state;
    ns_fit* fit =
        fit_with("train: [{file: runs.csv, to: 60%}], test: [{file: runs.csv, from: 60%}]",
                 "horizons: [0.1]");
    nsi_traces e = make(fit);
    assert_int_equal(e.list.count, RUNS);
    assert_int_equal(e.left_out, 0);
    assert_int_equal(e.rows, RUNS * SAMPLES);
    for (int k = 0; k < RUNS; k++) {
        const nsi_trace* trace = &e.list.data[k];
        assert_int_equal(trace->rows, SAMPLES);
        assert_true(check_rows(&e, trace, 0) > 1e-4);
        for (uint32_t row = 0; row < SAMPLES; row++) {
            assert_int_equal(e.roles[trace->first + row], row < 60 ? NS_ROLE_TRAIN : NS_ROLE_TEST);
            assert_true(fabs(e.time[trace->first + row] - row * period) < 1e-9);
        }
    }
    nsi_traces_free(&e);
    ns_fit_free(fit);
}

static void parts_with_a_gap_have_an_empty_row_between(void** state) {
    (void)state;
    ns_fit* fit =
        fit_with("train: [{file: runs.csv, to: 40%}], test: [{file: runs.csv, from: 60%}]",
                 "horizons: [0.1], history: 5");
    nsi_traces e = make(fit);
    assert_int_equal(e.list.count, RUNS);
    for (int k = 0; k < RUNS; k++) {
        uint32_t gaps = 0;
        for (uint32_t row = 0; row < e.list.data[k].rows; row++) {
            gaps += e.roles[e.list.data[k].first + row] == NS_ROLE_COUNT;
        }
        assert_int_equal(gaps, 1);
        check_rows(&e, &e.list.data[k], 4);
    }
    nsi_traces_free(&e);
    ns_fit_free(fit);
}

static void the_same_samples_twice_are_two_traces(void** state) {
    (void)state;
    ns_fit* fit = fit_with("train: [{file: runs.csv, trajectories: 0}],"
                           " test: [{file: runs.csv, trajectories: 0}]",
                           "horizons: [0.1]");
    nsi_traces e = make(fit);
    assert_int_equal(e.list.count, 2);
    assert_int_equal(e.roles[e.list.data[0].first], NS_ROLE_TEST); // comes first
    assert_int_equal(e.roles[e.list.data[1].first], NS_ROLE_TRAIN);
    for (int k = 0; k < 2; k++) check_rows(&e, &e.list.data[k], 0);
    nsi_traces_free(&e);
    ns_fit_free(fit);
}

static void the_table_holds_the_rows(void** state) {
    (void)state;
    ns_error error;
    ns_fit* fit =
        fit_with("train: [{file: runs.csv, to: 40%}], test: [{file: runs.csv, from: 60%}]",
                 "horizons: [0.1]");
    must(ns_fit_save(fit, tempdir_path("out"), &error), &error);
    nsi_traces e = make(fit);
    ns_table table;
    must(ns_table_read(tempdir_path("out/predictions.csv"),
                       &(ns_table_options){.allow_missing = true}, NULL, &table, &error),
         &error);
    assert_int_equal(table.ncol, 3 + 3 * e.nchannel);
    assert_int_equal(table.nrow, e.rows - RUNS); // without the empty ones
    uint32_t after = ns_table_column(&table, "q1/after"), recorded = ns_table_column(&table, "q1");
    assert_true(after != NSI_NONE && recorded != NSI_NONE);
    for (uint32_t k = 0; k < table.nrow; k++) {
        double truth = ns_table_at(&table, k, recorded);
        assert_true(fabs(ns_table_at(&table, k, after) - truth) < 1e-6);
        double t = ns_table_at(&table, k, ns_table_column(&table, "t"));
        assert_int_equal(ns_table_at(&table, k, ns_table_column(&table, "test")), t > 0.5);
    }
    ns_table_free(&table);
    nsi_traces_free(&e);
    ns_fit_free(fit);
}

// What belongs to no set is shown as none.
static void spans_end_where_parts_end(void** state) {
    (void)state;
    ns_error error;
    nsi_web_bundle bundle;
    if (!nsi_web_bundle_get(&bundle)) skip();
    ns_fit* fit = fit_with("train: [{file: runs.csv, to: 40%}], validation: [{file: runs.csv, "
                           "from: 60%, to: 80%}], test: [{file: runs.csv, from: 80%}]",
                           "horizons: [0.1]");
    ns_text page;
    must(render_fit(fit, ns_report_html, &page, &error), &error);
    payload p = payload_read(page.data);
    static const char* const roles[] = {"train", "validation", "test"};
    static const double ends[3][2] = {{0.0, 0.39}, {0.6, 0.8}, {0.8, 0.99}};
    const json_t* episodes = json_object_get(p.data, "episodes");
    const json_t* spans = json_object_get(json_array_get(episodes, 0), "spans");
    assert_int_equal(json_array_size(spans), 3);
    for (size_t k = 0; k < 3; k++) {
        const json_t* span = json_array_get(spans, k);
        assert_string_equal(json_string_value(json_object_get(span, "role")), roles[k]);
        double from = json_number_value(json_object_get(span, "from"));
        double to = json_number_value(json_object_get(span, "to"));
        assert_true(fabs(from - ends[k][0]) < 1e-9 && fabs(to - ends[k][1]) < 1e-9);
    }
    payload_free(&p);
    ns_text_free(&page);
    ns_fit_free(fit);
}

// Scores have few origins; what is shown is predicted everywhere.
static void every_recording_is_predicted(void** state) {
    (void)state;
    ns_fit* fit = fit_with("train: [runs.csv]", "horizons: [0.1], origins: 1");
    nsi_traces e = make(fit);
    assert_int_equal(e.list.count, RUNS);
    for (int k = 0; k < RUNS; k++) check_rows(&e, &e.list.data[k], 0);
    nsi_traces_free(&e);
    ns_fit_free(fit);
}

// Of a recording that is too long the beginning is shown, in not too many predictions.
static void long_recordings_are_shown_from_their_beginning(void** state) {
    (void)state;
    ns_fit* fit = fit_with("train: [runs.csv], test: [long.csv]", "horizons: [0.01], history: 5");
    nsi_traces e = make(fit);
    assert_int_equal(e.list.count, 1);
    assert_int_equal(e.cut, 1);
    assert_int_equal(e.left_out, RUNS);
    assert_in_range(e.rows, 10000, 20000);
    assert_in_range(e.ahead, 20, 60);
    for (size_t row = 0; row < e.rows; row++) {
        assert_true(fabs(e.time[row] - (double)row * period) < 1e-9);
        assert_int_equal(e.roles[row], NS_ROLE_TEST);
        double off = e.values[NSI_AFTER][row * e.nchannel] - e.recorded[row * e.nchannel];
        assert_true(row < 4 ? isnan(off) : fabs(off) < 1e-4);
    }
    nsi_traces_free(&e);
    ns_fit_free(fit);
}

// A map that does not say what is a quaternion leaves it with any length; a turn has none.
static void recorded_turns_are_unit(void** state) {
    (void)state;
    experiment_write(
        "body.urdf",
        "<robot name='r'><link name='world'/><link name='a'><inertial><mass value='1'/>"
        "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial></link>"
        "<joint name='j' type='floating'><parent link='world'/><child link='a'/>"
        "</joint></robot>");
    enum { ROWS = 20, ZERO = 7 };
    char table[ROWS * 100] = "t,x,y,z,a,b,c,d\n";
    for (int k = 0; k < ROWS; k++) {
        double length = k == ZERO ? 0.0 : 1.0 + 0.01 * k;
        sprintf(table + strlen(table), "%g,0,0,%.9g,%.9g,%.9g,0,0\n", k * period,
                -4.905 * pow(k * period, 2.0), 0.6 * length, 0.8 * length);
    }
    experiment_write("body_map.yaml", "time: t\nobserve: {q0: x, q1: y, q2: z, q3: a, q4: b, q5: c,"
                                      " q6: d}\n");
    experiment_write("body.csv", "%s", table);
    experiment_write(
        "body.yaml",
        "model: body.urdf\ntimestep: %g\ndata: {train: [body.csv], map: body_map.yaml}\n"
        "parameters:\n  link/a/mass: {initial: 2}\n"
        "train: {window: 5, initial_state: recorded}\n",
        period);
    ns_error error;
    ns_fit* fit = experiment_load("body.yaml", 1);
    must(ns_fit_run(fit, NULL, &error), &error);
    nsi_traces e = make(fit);
    assert_int_equal(e.rows, ROWS);
    assert_non_null(e.measured);
    for (int k = 0; k < ROWS; k++) {
        const double* q = e.measured + (size_t)k * e.nx + 3;
        if (k == ZERO) {
            assert_true(isnan(q[0]));
        } else {
            assert_true(fabs(q[0] - 0.6) < 1e-9 && fabs(q[1] - 0.8) < 1e-9);
        }
    }
    nsi_traces_free(&e);
    ns_fit_free(fit);
}

// A page holds only so much: what is too much for it must not be the end of a fit.
static void many_links_leave_room_for_fewer_rows(void** state) {
    (void)state;
    enum { LINKS = 300, ROWS = 9000 };
    char* urdf = calloc(LINKS + 3, 200);
    strcpy(urdf,
           "<robot name='r'><link name='world'/><link name='a'><inertial><origin xyz='0 0 -1'/>"
           "<mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial>"
           "</link><joint name='j' type='continuous'><parent link='world'/><child link='a'/>"
           "<axis xyz='0 1 0'/></joint>");
    char* end = urdf + strlen(urdf);
    for (int k = 0; k < LINKS; k++) {
        end += sprintf(end,
                       "<link name='l%d'/><joint name='f%d' type='fixed'><parent link='a'/>"
                       "<child link='l%d'/></joint>",
                       k, k, k);
    }
    strcpy(end, "</robot>");
    experiment_write("many.urdf", "%s", urdf);
    free(urdf);
    motion m = motion_of(tempdir_path("many.urdf"), period, ROWS);
    m.x0 = (const double[]){0.5, 0.0};
    motion_record(&m, "many.csv");
    experiment_write("many.yaml",
                     "model: many.urdf\ntimestep: %g\ndata: {train: [many.csv]}\n"
                     "parameters:\n  link/a/mass: {initial: 2}\n"
                     "train: {window: 25, initial_state: recorded}\npredict: {horizons: [1]}\n",
                     period);
    ns_error error;
    ns_fit* fit = experiment_load("many.yaml", 1);
    must(ns_fit_run(fit, NULL, &error), &error);
    must(ns_fit_save(fit, tempdir_path("many"), &error), &error);
    ns_fit_free(fit);
    nsi_web_bundle bundle;
    if (!nsi_web_bundle_get(&bundle)) return;
    char* page = tempdir_read("many/report.html");
    payload p = payload_read(page);
    assert_in_range(p.rows[0], 500, ROWS - 1);
    assert_says(page, "not to their end");
    assert_non_null(payload_quantity(&p, 0, 2, "joint/j/position"));
    payload_free(&p);
    free(page);
}

int main(void) {
    record();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_recording_are_one_trace),
        cmocka_unit_test(parts_with_a_gap_have_an_empty_row_between),
        cmocka_unit_test(the_same_samples_twice_are_two_traces),
        cmocka_unit_test(the_table_holds_the_rows),
        cmocka_unit_test(spans_end_where_parts_end),
        cmocka_unit_test(every_recording_is_predicted),
        cmocka_unit_test(long_recordings_are_shown_from_their_beginning),
        cmocka_unit_test(recorded_turns_are_unit),
        cmocka_unit_test(many_links_leave_room_for_fewer_rows),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tempdir_remove();
    return failed;
}
