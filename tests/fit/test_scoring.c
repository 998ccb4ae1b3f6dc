// Scoring as a library: errors of a model against its own simulation, options that cannot be, and the
// report.

#include "neuralsim/scoring.h"

#include "support/assert.h"
#include "support/tempdir.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PENDULUM NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf"
#define RUSTY NEURALSIM_SOURCE_DIR "/examples/rusty_pendulum.yaml"
#define RECORDING NEURALSIM_SOURCE_DIR "/examples/rusty_pendulum_run.csv"

static const char* const recording[] = {RECORDING};

static ns_scoring_options recording_options(void) {
    ns_scoring_options options = ns_default_scoring_options();
    options.files = recording;
    options.nfile = 1;
    return options;
}

// The recording was simulated by the one model; the other lacks its friction.
static void right_and_wrong_models(void** state) {
    (void)state;
    ns_error error;
    double errors[2];
    const char* const models[] = {RUSTY, PENDULUM};
    for (int k = 0; k < 2; k++) {
        ns_scoring_options options = recording_options();
        ns_scoring* s = NULL;
        must(ns_scoring_run(models[k], &options, &s, &error), &error);
        ns_scoring_total total = ns_scoring_get(s);
        errors[k] = total.rmse_q;
        assert_int_equal(total.predictions, 1);
        assert_int_equal(total.lost, 0);
        assert_int_equal(total.samples, 100);
        assert_int_equal(ns_scoring_robot_count(s), 1);
        assert_non_null(ns_scoring_system(s, 0));
        assert_false(ns_scoring_is_learned(s));
        assert_int_equal(ns_scoring_note_count(s), 0);

        // The last horizon is the end; the mean square over coordinates is that of the channels.
        assert_int_equal(ns_scoring_horizon_count(s), 4);
        close_to("horizon", ns_scoring_get_horizon(s, 3).seconds, 2.0, 1e-12);
        close_to("pooled", ns_scoring_get_horizon(s, 3).pooled, total.rmse_q, 1e-12);
        assert_int_equal(ns_scoring_channel_count(s), 4);
        double first = ns_scoring_get_channel(s, 0).rmse,
               second = ns_scoring_get_channel(s, 1).rmse;
        close_to("channels", sqrt(0.5 * (first * first + second * second)), total.rmse_q, 1e-12);
        assert_string_equal(ns_scoring_get_channel(s, 3).unit, "rad/s");
        assert_int_equal(ns_scoring_recording_count(s), 1);
        assert_int_equal(ns_scoring_get_recording(s, 0).samples, 100);
        ns_scoring_free(s);
    }
    assert_true(errors[0] < 1e-9);
    assert_true(errors[1] > 0.1);
}

static void options_that_cannot_be(void** state) {
    (void)state;
    static const double beyond[] = {0.5, 1.0}, falling[] = {1.0, 0.5}, short_ones[] = {1e-4};
    ns_scoring_options none = ns_default_scoring_options(), origins = recording_options(),
                       far = recording_options(), order = recording_options(),
                       brief = recording_options(), tiny = recording_options(),
                       no_list = recording_options(), no_files = recording_options();
    no_list.nhorizon = 2;
    no_files.files = NULL;
    origins.origins = 3;
    far.horizon = 30;
    far.horizons = beyond;
    far.nhorizon = 2;
    order.horizons = falling;
    order.nhorizon = 2;
    brief.horizons = short_ones;
    brief.nhorizon = 1;
    tiny.horizon_seconds = 1e-4;
    const struct {
        const ns_scoring_options* options;
        const char* message;
    } cases[] = {{&none, "no recordings"},
                 {NULL, "no recordings"},
                 {&no_files, "no recordings"},
                 {&no_list, "horizons is NULL"},
                 {&origins, "origins need a horizon"},
                 {&far, "1 s is beyond the horizon of 30 samples"},
                 {&order, "ascending"},
                 {&brief, "less than the 0.02 s between samples"},
                 {&tiny, "less than the 0.02 s between samples"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_error error = {0};
        ns_scoring* s = NULL;
        assert_int_equal(ns_scoring_run(PENDULUM, cases[k].options, &s, &error), NS_ERR_ARGUMENT);
        assert_null(s);
        assert_says(error.message, cases[k].message);
    }
}

// The report has the errors, and what was not recorded as a warning.
static void the_report(void** state) {
    (void)state;
    tempdir_write("half.csv", "t,q0\n0,1\n0.02,0.99\n0.04,0.97\n0.06,0.94\n");
    ns_scoring_options options = recording_options();
    options.files = (const char* const[]){tempdir_path("half.csv")};
    ns_scoring* s = NULL;
    ns_report* report = NULL;
    ns_error error;
    must(ns_scoring_run(PENDULUM, &options, &s, &error), &error);
    assert_int_equal(ns_scoring_note_count(s), 1);
    assert_says(ns_scoring_note(s, 0), "the data has no q1, qd1");
    must(ns_scoring_report(s, &report, &error), &error);
    assert_int_equal(ns_report_section_count(report), 3);
    const ns_section* section = ns_report_section(report, 0);
    assert_int_equal(ns_section_note(section, 0).level, NS_NOTE_WARNING);
    const ns_report_table* table = ns_section_table(section, 0);
    assert_int_equal(ns_report_table_row_count(table), ns_scoring_horizon_count(s));
    uint32_t last = ns_report_table_row_count(table) - 1;
    assert_true(ns_report_table_cell(table, last, 3)->value == ns_scoring_get(s).rmse_q);
    ns_report_free(report);

    // Predictions, row by row beside what was recorded.
    ns_table_writer* writer = NULL;
    ns_table written;
    must(ns_table_writer_create(tempdir_path("out.csv"), NULL, &writer, &error), &error);
    must(ns_scoring_write_predictions(s, writer, &error), &error);
    must(ns_table_writer_finish(writer, &error), &error);
    must(ns_table_read(tempdir_path("out.csv"), NULL, NULL, &written, &error), &error);
    assert_int_equal(written.nrow, 4);
    uint32_t column = ns_table_column(&written, "q0_recorded");
    assert_true(column != UINT32_MAX && ns_table_at(&written, 2, column) == 0.97);
    ns_table_free(&written);
    ns_scoring_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(right_and_wrong_models),
                                       cmocka_unit_test(options_that_cannot_be),
                                       cmocka_unit_test(the_report)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
