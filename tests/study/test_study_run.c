// Runs of a study: fits that go on from others, folds, groups without recordings, earlier results.

#define _POSIX_C_SOURCE 200809L

#include "study_rig.h"

// What an earlier run left in the folder is not what this one made.
static void recordings_of_earlier_runs_are_not_taken(void** state) {
    (void)state;
    study_rig_write("kind: fits\ntitle: Mine\n" SIMULATE(
        "") "fits: [{name: formula, extends: formula.yaml}]\n");
    json_decref(study_rig_run("clean"));
    study_rig_write("kind: fits\ntitle: Mine\n"
                    "simulate: [{file: b.csv, model: truth.yaml, trajectories: 2, seconds: 1}]\n"
                    "fits: [{name: formula, extends: formula.yaml}]\n");
    assert_true(study_rig_exists("clean/data/a.csv"));
    assert_true(study_rig_exists("clean/report.html"));
    study_rig_refuse(false, "clean", "there is no");
    assert_false(study_rig_exists("clean/report.html"));
}

// Of its first coefficient.
static double start_of_again(void) {
    char* text = tempdir_read("from/again/result.json");
    json_t* again = json_loads(text, 0, NULL);
    const json_t* b = json_array_get(json_object_get(again, "coefficients"), 0);
    double start = json_number_value(json_object_get(b, "initial"));
    json_decref(again);
    free(text);
    return start;
}

// Weights and parameters go on from where another fit ended.
static void fits_go_on_from_others(void** state) {
    (void)state;
    study_rig_write("kind: fits\ntitle: Mine\n" SIMULATE("") //
                    "groups:\n"
                    "  - {name: first, title: The first}\n"
                    "  - {name: second, title: The second, baseline: {fit: formula}}\n"
                    "  - {name: third, title: The third, data: not_there_at_all}\n"
                    "fits:\n"
                    "  - {name: formula, extends: formula.yaml, group: first}\n"
                    "  - {name: again, extends: again.yaml, from: formula, group: second}\n"
                    "  - {name: lost, extends: again.yaml, group: third}\n"
                    "  - {name: orphan, extends: again.yaml, from: lost, group: second}\n");
    json_t* a = study_rig_run("from");
    assert_says(study_rig_notes, "The third: left out");
    assert_says(study_rig_notes, "orphan: left out");
    assert_null(json_object_get(json_object_get(a, "metrics"), "orphan_test_q"));
    assert_true(metric(a, "formula_test_q") < 1e-6); // the law itself
    assert_true(metric(a, "again_test_q") < 1e-6);   // one iteration from there
    assert_true(metric(a, "second_before_test_q") == metric(a, "first_before_test_q"));
    assert_null(json_object_get(json_object_get(a, "metrics"), "lost_test_q"));
    json_decref(a);
    char* page = tempdir_read("from/report.html");
    assert_says(page, "Left out");
    free(page);
    // The start of the second is the end of the first.
    assert_true(fabs(start_of_again() - 0.1) < 1e-6);
    // Weights that another run left in the folder are not those of a fit without any.
    study_rig_write("kind: fits\ntitle: Mine\n" SIMULATE("") //
                    "fits:\n"
                    "  - {name: formula, extends: damping.yaml}\n"
                    "  - {name: again, extends: again.yaml, from: formula}\n");
    json_decref(study_rig_run("from"));
    assert_true(start_of_again() == 0.01);
}

// Each push has a friction of its own, so that what is left out is not explained by the rest.
static void record_pushes(void) {
    for (int k = 0; k < 4; k++) {
        char command[400];
        snprintf(command, sizeof command,
                 "simulate %s/models/double_pendulum.urdf --set joint/joint0/damping=%g"
                 " --q0 %g 0.3 --time 1 --dt 0.01 --integrator rk4 -o experiments/mine/push_%c.csv",
                 NEURALSIM_SOURCE_DIR, 0.05 * (k + 1), 1.0 - 0.4 * k, 'a' + k);
        run_ok(command);
    }
}

// A fold is the same as a fit to the files that it keeps, tested on the others; numbers of all folds
// are averages over what they leave out.
static void folds_leave_out_a_part_each(void** state) {
    (void)state;
    record_pushes();
    study_rig_write("kind: fits\ntitle: Mine\nanalytic_baseline: all\nheadline: again\n"
                    "fits:\n"
                    "  - {name: all, extends: pushes.yaml, folds: 2}\n"
                    "  - {name: again, extends: pushes.yaml, folds: 2, from: all}\n"
                    "  - {name: first, extends: first.yaml}\n"
                    "  - {name: second, extends: second.yaml}\n"
                    "  - {name: curve, extends: pushes.yaml, trajectories: [1, 2], seeds: 2}\n");
    json_t* root = study_rig_run("folds");
    double first = metric(root, "first_test_far"), second = metric(root, "second_test_far");
    assert_true(first > 1e-3 && second > 1e-3 && fabs(first - second) > 1e-4);
    assert_true(fabs(metric(root, "all_test_far") - 0.5 * (first + second)) < 1e-9);
    assert_true(fabs(metric(root, "again_test_far") - 0.5 * (first + second)) < 1e-6);
    // Fold k goes on from fold k.
    const json_t* folds = json_object_get(json_object_get(root, "runs"), "again");
    assert_int_equal(json_array_size(folds), 3);
    assert_null(json_object_get(json_array_get(folds, 0), "fold"));
    for (uint32_t k = 1; k < 3; k++) {
        char name[60];
        snprintf(name, sizeof name, "folds/%s/result.json", k == 1 ? "first" : "second");
        char* text = tempdir_read(name);
        json_t* alone = json_loads(text, 0, NULL);
        snprintf(name, sizeof name, "folds/again/fold%u/result.json", k);
        char* other = tempdir_read(name);
        json_t* again = json_loads(other, 0, NULL);
        const json_t* end = json_array_get(json_object_get(alone, "parameters"), 0);
        const json_t* start = json_array_get(json_object_get(again, "parameters"), 0);
        assert_true(json_number_value(json_object_get(end, "value")) > 0.01);
        assert_true(fabs(json_number_value(json_object_get(end, "value")) -
                         json_number_value(json_object_get(start, "initial"))) < 1e-9);
        json_decref(alone);
        json_decref(again);
        free(text);
        free(other);
    }
    // One and two of the files, the same for all seeds.
    const json_t* runs = json_object_get(json_object_get(root, "runs"), "curve");
    assert_int_equal(json_array_size(runs), 4);
    assert_false(json_equal(json_object_get(json_array_get(runs, 0), "train"),
                            json_object_get(json_array_get(runs, 2), "train")));
    assert_true(json_equal(json_object_get(json_array_get(runs, 2), "train"),
                           json_object_get(json_array_get(runs, 3), "train")));
    json_decref(root);
    run_ok("score folds/analytic.yaml --data experiments/mine/push_a.csv");

    study_rig_write("kind: fits\ntitle: Mine\n"
                    "fits: [{name: all, extends: pushes.yaml, folds: 5}]\n");
    study_rig_refuse(false, "few", "expected 5 files or more");
    study_rig_write("kind: fits\ntitle: Mine\n"
                    "fits: [{name: all, extends: pushes.yaml, folds: 2, seeds: 2}]\n");
    study_rig_refuse(false, "few", "does not go with");
    // What has seen all files is no start for one that leaves some out.
    study_rig_write("kind: fits\ntitle: Mine\n"
                    "fits: [{name: all, extends: pushes.yaml},"
                    " {name: some, extends: pushes.yaml, folds: 2, from: all}]\n");
    study_rig_refuse(false, "few", "has seen what folds leave out");
    study_rig_write(
        "kind: fits\ntitle: Mine\nfits: [{name: all, extends: twice.yaml, folds: 2}]\n");
    study_rig_refuse(false, "few", "stands twice");
    study_rig_write("kind: fits\ntitle: Mine\nfits: [{name: all, extends: pushes.yaml}]\n"
                    "references: [{name: o, horizons: [1], pooled: [1], measures: [1, 2]}]\n");
    study_rig_refuse(false, "few", "measures: write a mapping");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_of_earlier_runs_are_not_taken),
        cmocka_unit_test(fits_go_on_from_others),
        cmocka_unit_test(folds_leave_out_a_part_each),
    };
    return cmocka_run_group_tests(tests, study_rig_start, NULL);
}
