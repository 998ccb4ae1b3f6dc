// What is shown of a fit: motions of a pendulum simulated with the true parameters are what was
// recorded, and the others are not.

#include "fit/episodes.h"
#include "io/csv.h"
#include "support/experiment.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const char pendulum[] = NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf";
enum { SAMPLES = 100, RUNS = 2 };
static const double period = 0.01;

static void record(void) {
    static const double x0[RUNS * 4] = {0.5, -0.3, 0.0, 0.0, -0.8, 0.4, 1.0, 0.0};
    motion m = motion_of(pendulum, period, SAMPLES);
    m.runs = RUNS;
    m.x0 = x0;
    motion_record(&m, "runs.csv");
}

static ns_fit* fit_with(const char* data, const char* predict) {
    ns_error error;
    experiment_write("plan.yaml",
                     "model: %s\nintegrator: euler\ntimestep: %g\ndata: {%s}\n"
                     "parameters:\n  link/link1/mass: {start: 2}\n"
                     "fit: {windows: 25, states: recorded}\npredict: {%s}\n",
                     pendulum, period, data, predict);
    ns_fit* fit = experiment_load("plan.yaml", 1);
    if (ns_fit_run(fit, NULL, &error) != NS_OK) fail_msg("%s", error.message);
    return fit;
}

static nsi_episodes make(const ns_fit* fit) {
    ns_error error;
    nsi_episodes e;
    if (nsi_episodes_make(fit, &e, &error) != NS_OK) fail_msg("%s", error.message);
    return e;
}

// Rows of an episode in order of time, as recorded, with predictions from each part's `history`-th
// sample on. The sum of squared errors of the start values.
static double check_rows(const nsi_episodes* e, const nsi_episode* episode, uint32_t history) {
    double before = 0.0;
    uint32_t into = 0; // samples of the part so far
    for (size_t row = episode->first; row < episode->first + episode->rows; row++) {
        bool fresh = row == episode->first || e->roles[row] != e->roles[row - 1];
        into = fresh ? 0 : into + 1;
        if (row > episode->first) assert_true(e->time[row] > e->time[row - 1]);
        for (uint32_t c = 0; c < e->nchannel; c++) {
            size_t at = row * e->nchannel + c;
            if (e->roles[row] == NSI_ROLES) {
                assert_true(isnan(e->recorded[at]) && isnan(e->values[NSI_AFTER][at]));
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

static void parts_of_a_recording_are_one_episode(void** state) {
    (void)state;
    ns_fit* fit =
        fit_with("train: [{file: runs.csv, to: 60%}], test: [{file: runs.csv, from: 60%}]",
                 "horizons: [0.1]");
    nsi_episodes e = make(fit);
    assert_int_equal(e.list.count, RUNS);
    assert_int_equal(e.left_out, 0);
    assert_int_equal(e.rows, RUNS * SAMPLES);
    for (int k = 0; k < RUNS; k++) {
        const nsi_episode* episode = &e.list.data[k];
        assert_int_equal(episode->rows, SAMPLES);
        assert_true(check_rows(&e, episode, 0) > 1e-4);
        for (uint32_t row = 0; row < SAMPLES; row++) {
            assert_int_equal(e.roles[episode->first + row],
                             row < 60 ? NSI_ROLE_TRAIN : NSI_ROLE_TEST);
            assert_true(fabs(e.time[episode->first + row] - row * period) < 1e-9);
        }
    }
    nsi_episodes_free(&e);
    ns_fit_free(fit);
}

static void parts_with_a_gap_have_an_empty_row_between(void** state) {
    (void)state;
    ns_fit* fit =
        fit_with("train: [{file: runs.csv, to: 40%}], test: [{file: runs.csv, from: 60%}]",
                 "horizons: [0.1], history: 5");
    nsi_episodes e = make(fit);
    assert_int_equal(e.list.count, RUNS);
    for (int k = 0; k < RUNS; k++) {
        uint32_t gaps = 0;
        for (uint32_t row = 0; row < e.list.data[k].rows; row++) {
            gaps += e.roles[e.list.data[k].first + row] == NSI_ROLES;
        }
        assert_int_equal(gaps, 1);
        check_rows(&e, &e.list.data[k], 4);
    }
    nsi_episodes_free(&e);
    ns_fit_free(fit);
}

static void the_same_samples_twice_are_two_episodes(void** state) {
    (void)state;
    ns_fit* fit = fit_with("train: [{file: runs.csv, trajectories: 0}],"
                           " test: [{file: runs.csv, trajectories: 0}]",
                           "horizons: [0.1]");
    nsi_episodes e = make(fit);
    assert_int_equal(e.list.count, 2);
    assert_int_equal(e.roles[e.list.data[0].first], NSI_ROLE_TEST); // comes first
    assert_int_equal(e.roles[e.list.data[1].first], NSI_ROLE_TRAIN);
    for (int k = 0; k < 2; k++) check_rows(&e, &e.list.data[k], 0);
    nsi_episodes_free(&e);
    ns_fit_free(fit);
}

static void the_table_holds_the_rows(void** state) {
    (void)state;
    ns_error error;
    ns_fit* fit =
        fit_with("train: [{file: runs.csv, to: 40%}], test: [{file: runs.csv, from: 60%}]",
                 "horizons: [0.1]");
    if (ns_fit_save(fit, experiment_path("out"), &error) != NS_OK) fail_msg("%s", error.message);
    nsi_episodes e = make(fit);
    nsi_csv table;
    if (nsi_csv_read(experiment_path("out/predictions.csv"), true, NULL, &table, &error) != NS_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(table.ncol, 3 + 3 * e.nchannel);
    assert_int_equal(table.nrow, e.rows - RUNS); // without the empty ones
    uint32_t after = nsi_csv_column(&table, "q1/after"), recorded = nsi_csv_column(&table, "q1");
    assert_true(after != NSI_NONE && recorded != NSI_NONE);
    for (uint32_t k = 0; k < table.nrow; k++) {
        double truth = nsi_csv_at(&table, k, recorded);
        assert_true(fabs(nsi_csv_at(&table, k, after) - truth) < 1e-6);
        double t = nsi_csv_at(&table, k, nsi_csv_column(&table, "t"));
        assert_int_equal(nsi_csv_at(&table, k, nsi_csv_column(&table, "test")), t > 0.5);
    }
    nsi_csv_free(&table);
    nsi_episodes_free(&e);
    ns_fit_free(fit);
}

int main(void) {
    record();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_recording_are_one_episode),
        cmocka_unit_test(parts_with_a_gap_have_an_empty_row_between),
        cmocka_unit_test(the_same_samples_twice_are_two_episodes),
        cmocka_unit_test(the_table_holds_the_rows),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    experiment_remove();
    return failed;
}
