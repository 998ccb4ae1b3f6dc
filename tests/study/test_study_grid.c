// A study on a grid, made small: two lengths of a pendulum from four starts, by two methods.

#define _POSIX_C_SOURCE 200809L

#include "neuralsim/fit.h"
#include "study_rig.h"

#define GRID_FILE "experiments/grid/study.yaml"
#define GRID(rest)                                                                                 \
    "kind: grid\ntitle: Lengths\nmodel: pendulum.urdf\nfiles: [map.yaml]\n"                        \
    "simulate: {steps: 100, timestep: 0.01, integrator: rk4}\n"                                    \
    "truth: {length1: 3, length2: 4}\n" rest
#define METHODS                                                                                    \
    "methods:\n"                                                                                   \
    "  - {name: short, extends: local.yaml, label: One step, train: {window: 100, iterations: "    \
    "0}}\n"                                                                                        \
    "  - {name: local, extends: short, label: LM, train: {iterations: 50}}\n"                      \
    "headline: local\ncompare: short\n"
#define SMALL                                                                                      \
    GRID("poses: [[0.5, 0.3], [0.7, 0.1]]\ngrid: {from: 2.5, to: 4.5, cells: 2}\n" METHODS)

static int start(void** state) {
    (void)state;
    static const char* const names[] = {"pendulum.urdf", "map.yaml", "local.yaml"};
    tempdir_mkdir("experiments");
    tempdir_mkdir("experiments/grid");
    for (int k = 0; k < 3; k++) {
        char from[300], to[100];
        snprintf(from, sizeof from, NEURALSIM_SOURCE_DIR "/experiments/basin_hopping/%s", names[k]);
        snprintf(to, sizeof to, "experiments/grid/%s", names[k]);
        char* text = file_text(from);
        tempdir_write(to, text);
        free(text);
    }
    return 0;
}

static ns_study* load_grid(const char* text, const ns_study_options* options) {
    ns_study* study = NULL;
    ns_error error;
    tempdir_write(GRID_FILE, text);
    must(ns_study_load(tempdir_path(GRID_FILE), options, &study, &error), &error);
    return study;
}

static double error_of(const json_t* result, uint32_t pose, const char* method, uint32_t cell) {
    const json_t* errors =
        json_object_get(json_array_get(json_object_get(result, "poses"), pose), "errors");
    return json_number_value(json_array_get(json_object_get(errors, method), cell));
}

// Each cell starts at its own values: without an iteration a fit ends there.
static void cells_are_starts(void** state) {
    (void)state;
    ns_error error;
    ns_study* study = load_grid(SMALL, NULL);
    must(ns_study_run(study, tempdir_path("grid"), &error), &error);
    must(ns_study_save(study, &error), &error);
    json_t* result = study_rig_read("grid/result.json");
    for (uint32_t cell = 0; cell < 4; cell++) {
        double length1 = cell % 2 == 0 ? 2.5 : 4.5, length2 = cell / 2 == 0 ? 2.5 : 4.5;
        for (uint32_t pose = 0; pose < 2; pose++) {
            close_to("distance of the start", error_of(result, pose, "short", cell),
                     hypot(length1 - 3.0, length2 - 4.0), 1e-12);
        }
    }
    assert_true(metric(result, "short_success") == 0.0);
    assert_true(metric(result, "global_success") == metric(result, "local_success"));
    assert_true(metric(result, "local_success") > 0.0);
    assert_true(metric(result, "local_runs_max") == 1.0);

    // As a report, too.
    ns_report* report = NULL;
    must(ns_study_report(study, &report, &error), &error);
    assert_int_equal(ns_report_figure_count(report), 2);
    const ns_section* all = ns_report_section(report, 1);
    assert_string_equal(ns_section_title(all), "All poses");
    const ns_report_table* table = ns_section_table(all, 0);
    assert_string_equal(ns_report_table_cell(table, 1, 0)->text, "LM");
    assert_true(ns_report_table_cell(table, 1, 1)->value == metric(result, "local_success"));
    const ns_section* pose = ns_report_section(report, 2);
    assert_string_equal(ns_section_title(pose), "Pose 1: released at rest from (0.5, 0.3) rad");
    ns_report_free(report);
    ns_study_free(study);
    json_decref(result);

    static const char* const files[] = {"grid/report.html", "grid/fitted.yaml",
                                        "grid/starts_pose2.svg", "grid/starts_pose2.csv",
                                        "grid/pose1/truth.csv"};
    for (int k = 0; k < 5; k++) assert_true(study_rig_exists(files[k]));

    // Every fit can be run by itself.
    ns_fit* fit = NULL;
    must(ns_fit_load(tempdir_path("grid/pose1/local.yaml"), 1, &fit, &error), &error);
    ns_fit_free(fit);
}

static bool stop_later(void* context, const ns_study_progress* p) {
    uint32_t* calls = context;
    assert_true(p->total == 16.0 && p->done == ++*calls);
    return *calls == 3;
}

static void a_grid_can_be_stopped(void** state) {
    (void)state;
    ns_error error;
    uint32_t calls = 0;
    ns_study_options options = {.threads = 1, .observe = stop_later, .context = &calls};
    ns_study* study = load_grid(SMALL, &options);
    must(ns_study_run(study, tempdir_path("grid"), &error), &error); // where a result was
    assert_true(ns_study_stopped(study));
    assert_int_equal(calls, 3);
    assert_int_equal(ns_study_save(study, &error), NS_ERR_STATE);
    ns_study_free(study);
    static const char* const files[] = {"grid/report.html", "grid/result.json", "grid/fitted.yaml"};
    for (int k = 0; k < 3; k++) assert_false(study_rig_exists(files[k]));
}

static void wrong_grids_are_refused(void** state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {GRID("poses: [[0, 0]]\ngrid: {from: 2, to: 1}\n" METHODS), "`grid` needs a `from`"},
        {GRID("grid: {from: 1, to: 2}\n" METHODS), "`poses` is missing"},
        {GRID("poses: [[0, 0], [0]]\ngrid: {from: 1, to: 2}\n" METHODS),
         "all poses have as many numbers"},
        {GRID("poses: [[0]]\ngrid: {from: 1, to: 2}\n" METHODS), "has 2 coordinates"},
        {GRID("poses: [[0, 0]]\ngrid: {from: 1, to: 2}\nmethods: [{name: a, extends: local.yaml}]\n"
              "headline: a\ncompare: b\n"),
         "must be names of methods"},
        {GRID("poses: [[0, 0]]\ngrid: {from: 1, to: 2}\nheadline: a\ncompare: b\n"),
         "`methods` is missing"},
        {GRID("poses: [[0, 0]]\ngrid: {from: 1, to: 2}\nmethods: [{name: a, extends: "
              "nowhere.yaml}]\n"
              "headline: a\ncompare: a\n"),
         "nowhere.yaml"},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        ns_study* study = NULL;
        ns_error error = {0};
        tempdir_write(GRID_FILE, wrong[k].text);
        ns_status status = ns_study_load(tempdir_path(GRID_FILE), NULL, &study, &error);
        if (status == NS_OK) status = ns_study_run(study, tempdir_path("wrong"), &error);
        assert_int_not_equal(status, NS_OK);
        assert_says(error.message, wrong[k].message);
        ns_study_free(study);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_starts),
        cmocka_unit_test(a_grid_can_be_stopped),
        cmocka_unit_test(wrong_grids_are_refused),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
