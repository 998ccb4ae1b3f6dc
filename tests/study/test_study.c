// Studies through the public API: load, run, observe, stop, report, save.

#define _POSIX_C_SOURCE 200809L

#include "study_rig.h"

#define ONE_FIT                                                                                    \
    "kind: fits\ntitle: Mine\ncitation: Somebody\nnotes: [What to know.]\n" SIMULATE(              \
        "") "fits: [{name: formula, extends: formula.yaml, label: A formula}]\n"
#define TWO_FITS                                                                                   \
    "kind: fits\ntitle: Mine\n" SIMULATE(                                                          \
        "") "fits:\n  - {name: formula, extends: formula.yaml}\n  - {name: damping, extends: "     \
            "damping.yaml}\n"                                                                      \
            "smoke: [formula]\n"

// ---- results -------------------------------------------------------------------------------------

static const char* fact_of(const ns_report* report, const char* name) {
    for (uint32_t k = 0; k < ns_report_fact_count(report); k++) {
        ns_fact fact = ns_report_fact(report, k);
        if (strcmp(fact.name, name) == 0) return fact.text;
    }
    return NULL;
}

static void a_study_is_run_once_and_reported(void** state) {
    (void)state;
    ns_error error;
    ns_report* report = NULL;
    study_rig_write(ONE_FIT);
    ns_study* study = study_rig_load(false);
    assert_string_equal(ns_study_name(study), "mine");
    assert_string_equal(ns_study_title(study), "Mine");

    // Before the run there is nothing to report.
    assert_int_equal(ns_study_report(study, &report, &error), NS_ERR_STATE);
    assert_null(report);
    assert_int_equal(ns_study_save(study, &error), NS_ERR_STATE);
    must(ns_study_run(study, tempdir_path("once"), &error), &error);
    assert_int_equal(ns_study_run(study, tempdir_path("again"), &error), NS_ERR_STATE);
    assert_false(study_rig_exists("again"));
    assert_false(ns_study_stopped(study));
    assert_int_equal(ns_study_problem_count(study), 0);

    // Facts, notes, and the record that result.json holds.
    must(ns_study_report(study, &report, &error), &error);
    assert_string_equal(ns_report_title(report), "Mine");
    assert_string_equal(fact_of(report, "citation"), "Somebody");
    assert_string_equal(fact_of(report, "fitted.yaml"), "formula");
    assert_string_equal(fact_of(report, "command"), "neuralsim experiment mine");
    uint32_t last_section = ns_report_section_count(report) - 1;
    const ns_section* notes = ns_report_section(report, last_section);
    assert_string_equal(ns_section_note(notes, 0).text, "What to know.");
    must(ns_study_save(study, &error), &error);
    ns_text text;
    must(ns_report_json(report, &text, &error), &error);
    char* saved = tempdir_read("once/result.json");
    assert_string_equal(saved, text.data);
    free(saved);
    ns_text_free(&text);
    ns_report_free(report);
    ns_study_free(study);
    assert_true(study_rig_exists("once/report.html"));
    assert_true(study_rig_exists("once/fitted.yaml"));
    assert_true(study_rig_exists("once/formula/report.html"));
}

// A smoke run has the fits of `smoke` only.
static void a_smoke_run_is_a_part(void** state) {
    (void)state;
    ns_error error;
    study_rig_write(TWO_FITS);
    ns_study* study = study_rig_load(true);
    must(ns_study_run(study, tempdir_path("smoke"), &error), &error);
    must(ns_study_save(study, &error), &error);
    ns_study_free(study);
    json_t* result = study_rig_read("smoke/result.json");
    assert_true(json_is_true(json_object_get(result, "quick")));
    assert_non_null(json_object_get(json_object_get(result, "fits"), "formula"));
    assert_null(json_object_get(json_object_get(result, "fits"), "damping"));
    json_decref(result);
}

// ---- progress ------------------------------------------------------------------------------------

typedef struct watcher {
    const char* stop_in; // what to stop in; NULL: nothing
    uint32_t calls;
    bool first, second; // fits that were seen
    double seconds;
} watcher;

static bool watch(void* context, const ns_study_progress* p) {
    watcher* w = context;
    w->calls++;
    w->first |= strcmp(p->what, "formula") == 0;
    w->second |= strcmp(p->what, "damping") == 0;
    assert_true(p->done >= 0.0 && p->done <= p->total && p->total > 0.0);
    assert_true(p->seconds >= w->seconds);
    w->seconds = p->seconds;
    return w->stop_in && strcmp(p->what, w->stop_in) == 0;
}

static ns_study* load_watched(watcher* w) {
    ns_study* study = NULL;
    ns_error error;
    ns_study_options options = {.threads = 1, .observe = watch, .context = w};
    must(ns_study_load(tempdir_path(STUDY_FILE), &options, &study, &error), &error);
    return study;
}

// A run that is stopped leaves the fits that are done, and nothing that looks like a result, of this
// run or of one before.
static void an_observer_stops_a_run(void** state) {
    (void)state;
    ns_error error;
    ns_report* report = NULL;
    static const char* const results[] = {"stopped/report.html", "stopped/result.json",
                                          "stopped/fitted.yaml", "stopped/predictions.csv"};
    study_rig_write(TWO_FITS);
    watcher all = {.stop_in = NULL}, some = {.stop_in = "damping"};
    ns_study* study = load_watched(&all);
    must(ns_study_run(study, tempdir_path("stopped"), &error), &error);
    must(ns_study_save(study, &error), &error);
    assert_true(all.calls > 4 && all.first && all.second);
    for (int k = 0; k < 4; k++) assert_true(study_rig_exists(results[k]));
    ns_study_free(study);

    study = load_watched(&some);
    must(ns_study_run(study, tempdir_path("stopped"), &error), &error);
    assert_true(ns_study_stopped(study));
    assert_true(some.first && some.second);
    assert_int_equal(ns_study_report(study, &report, &error), NS_ERR_STATE);
    assert_int_equal(ns_study_save(study, &error), NS_ERR_STATE);
    ns_study_free(study);
    for (int k = 0; k < 4; k++) assert_false(study_rig_exists(results[k]));
    assert_true(study_rig_exists("stopped/formula/fitted.yaml"));
}

// ---- what is missing or wrong --------------------------------------------------------------------

static void missing_recordings_are_told(void** state) {
    (void)state;
    ns_error error;
    study_rig_write("kind: fits\ntitle: Mine\nsource: a shelf\n" SIMULATE("") //
                    "groups:\n"
                    "  - {name: here, title: Here}\n"
                    "  - {name: gone, title: Gone, data: not_there_at_all}\n"
                    "fits:\n"
                    "  - {name: formula, extends: formula.yaml, group: here}\n"
                    "  - {name: lost, extends: again.yaml, group: gone}\n");
    ns_study* study = study_rig_load(false);
    must(ns_study_run(study, tempdir_path("groups"), &error), &error);
    assert_says(study_rig_notes, "Gone: left out, since its recordings are missing");
    assert_says(study_rig_notes, "a shelf");
    ns_study_free(study);

    // Without any recordings nothing is made.
    study_rig_write("kind: fits\ntitle: Mine\nsource: a shelf\ndata: not_there_at_all\n"
                    "fits: [{name: pushes, extends: pushes.yaml}]\n");
    study = study_rig_load(false);
    assert_int_equal(ns_study_run(study, tempdir_path("nothing"), &error), NS_ERR_IO);
    assert_says(error.message, "mine needs recordings in a folder not_there_at_all");
    assert_says(error.message, "get them from a shelf");
    assert_false(study_rig_exists("nothing"));
    assert_false(ns_study_stopped(study));
    ns_study_free(study);
}

static void wrong_files_are_refused(void** state) {
    (void)state;
    static const struct {
        const char *text, *message;
        ns_status status;
    } wrong[] = {
        {"title: x\n", ":1:1: `kind` is missing", NS_ERR_PARSE},
        {"[1, 2]\n", "expected keys: kind, title", NS_ERR_PARSE},
        {"kind: fit\ntitle: x\n", "did you mean", NS_ERR_PARSE},
        {"kind: grid\n", "`title` is missing", NS_ERR_PARSE},
        {"kind: fits\ntitle: x\n", "`fits` is missing", NS_ERR_PARSE},
        {"kind: fits\ntitle: x\nfits: [{name: a, extends: nowhere.yaml}]\n", "nowhere.yaml",
         NS_ERR_IO},
    };
    ns_study* study = NULL;
    ns_error error;
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        study_rig_write(wrong[k].text);
        assert_int_equal(ns_study_load(tempdir_path(STUDY_FILE), NULL, &study, &error),
                         wrong[k].status);
        assert_null(study);
        assert_says(error.message, wrong[k].message);
        assert_int_equal(ns_study_load(tempdir_path(STUDY_FILE), NULL, &study, NULL),
                         wrong[k].status);
    }
    assert_int_equal(ns_study_load(tempdir_path("nowhere"), NULL, &study, &error), NS_ERR_IO);
    assert_says(error.message, "nowhere");
    ns_study_free(NULL);
}

static void folders_must_be_folders(void** state) {
    (void)state;
    ns_error error;
    study_rig_write(ONE_FIT);
    tempdir_write("file", "");
    static const char* const folders[] = {"file", "not/there"};
    for (int k = 0; k < 2; k++) {
        ns_study* study = study_rig_load(false);
        assert_int_equal(ns_study_run(study, tempdir_path(folders[k]), &error), NS_ERR_IO);
        assert_says(error.message, tempdir_path(folders[k]));
        ns_study_free(study);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_study_is_run_once_and_reported),
        cmocka_unit_test(a_smoke_run_is_a_part),
        cmocka_unit_test(an_observer_stops_a_run),
        cmocka_unit_test(missing_recordings_are_told),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(folders_must_be_folders),
    };
    return cmocka_run_group_tests(tests, study_rig_start, NULL);
}
