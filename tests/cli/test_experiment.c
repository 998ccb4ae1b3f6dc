// The command experiment: what it lists and says, the experiment that needs no recordings, and those
// that do where they are at hand.

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
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static json_t* run_json(const char* arguments) {
    json_error_t error;
    run_ok(arguments);
    json_t* root = json_loads(last.out, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("%s: line %d: %s", arguments, error.line, error.text);
    return root;
}

static uint32_t count_of(const char* text, const char* part) {
    uint32_t count = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) count++;
    return count;
}

// ---- what there is -------------------------------------------------------------------------

static void experiments_are_listed(void** state) {
    (void)state;
    run_ok("experiment");
    const char* names[] = {"basin_hopping", "dfki_pendulum", "ibm_pendulum", "schmidt_lipson",
                           "swimmer"};
    for (int k = 0; k < 5; k++) assert_says(last.out, names[k]);
    assert_says(last.out, "ibm_pendulum       The IBM double pendulum: a free pendulum filmed");
    char* without = strdup(last.out);
    run_ok("experiment --list");
    assert_string_equal(last.out, without);
    free(without);
    run_ok("experiment --help");
    assert_says(last.out, "usage: neuralsim experiment NAME");
}

// Those in the folder one works in come first.
static void own_experiments_are_found(void** state) {
    (void)state;
    tempdir_mkdir("experiments");
    tempdir_mkdir("experiments/mine");
    tempdir_mkdir("experiments/empty");
    tempdir_write("experiments/mine/study.yaml", "kind: grid\ntitle: My own\n");
    run_ok("experiment");
    assert_says(last.out, "mine               My own\n");
    assert_says(last.out, "ibm_pendulum");
    assert_null(strstr(last.out, "empty"));
}

static void mistakes_are_explained(void** state) {
    (void)state;
    const struct {
        const char *text, *message;
    } files[] = {
        {"title: x\n", ":1:1: `kind` is missing"},
        {"kind: grid\n", "`title` is missing"},
        {"kind: gird\ntitle: x\n", ":1:7: kind"},
        {"kind: fits\ntitle: x\ndata: d\n", "`fits` is missing"},
        {"kind: fits\ntitle: x\ndata: d\nfit: [a]\n", ":4:1: "},
        {"kind: fits\ntitle: x\ndata: d\nfits: [{name: a, extends: a.yaml}]\nheadline: b\n",
         "is none of the names under `fits`: a"},
        {"kind: fits\ntitle: x\ndata: d\nfits: [{name: ../a, extends: a.yaml}]\n",
         ":4:8: a name is made of"},
        {"kind: fits\ntitle: x\ndata: d\nfits: [{name: a, extends: a.yaml}]\n"
         "references: [{name: r, horizons: [1, 2], pooled: [1]}]\n",
         ":5:14: expected horizons"},
        {"kind: grid\ntitle: x\nmodel: m\ngrid: {from: 2, to: 1}\n", ":4:7: `grid` needs a `from`"},
        {"kind: grid\ntitle: x\nmodel: m\ngrid: {from: 1, to: 2}\ntruth: {a: 1}\n",
         ":5:8: `truth` needs two"},
    };
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        tempdir_write("experiments/mine/study.yaml", files[k].text);
        run_bad("experiment mine", 1, files[k].message);
        assert_says(last.err, "neuralsim: experiments/mine/study.yaml:");
    }
    run_bad("experiment basin_hoping", 1,
            "there is no experiment 'basin_hoping'; did you mean 'basin_hopping'?");
    run_bad("experiment whatever_this_is", 1, "'neuralsim experiment' lists all");
    assert_null(strstr(last.err, "did you mean"));
    run_bad("experiment ../experiments/mine", 1, "there is no experiment");
    run_bad("experiment a b", 2, "expected one name");
    run_bad("experiment basin_hopping --quick -o /nowhere/at/all", 1, "/nowhere/at/all");
}

static void missing_data_is_explained(void** state) {
    (void)state;
    char *given = getenv("NEURALSIM_DATA"), *kept = given ? strdup(given) : NULL;
    tempdir_mkdir("nothing");
    setenv("NEURALSIM_DATA", tempdir_path("nothing"), 1);
    run_bad("experiment ibm_pendulum", 1, "needs recordings in a folder ibm_double_pendulum");
    assert_says(last.err, tempdir_path("nothing"));
    assert_says(last.err, "https://github.com/google-research/tiny-differentiable-simulator");
    assert_says(last.err, "set NEURALSIM_DATA");
    assert_string_equal(last.out, "");
    assert_int_not_equal(access(tempdir_path("ibm_pendulum_experiment"), F_OK), 0);
    unsetenv("NEURALSIM_DATA");
    run_bad("experiment schmidt_lipson", 1, "$NEURALSIM_DATA (not set)");
    if (kept) setenv("NEURALSIM_DATA", kept, 1);
    free(kept);
}

// ---- a study of fits ---------------------------------------------------------------------------

// A table, where the files are, notes, and mistakes that only the result shows.
static void fits_are_printed(void** state) {
    (void)state;
    static const char text[] =
        "kind: fits\ntitle: Mine\n"
        "simulate: [{file: a.csv, model: truth.yaml, trajectories: 4, seconds: 0.5,"
        " initial_state: {q0: [-2, 2]}}]\n"
        "groups: [{name: here, title: Here}, {name: gone, title: Gone, data: not_there_at_all}]\n"
        "fits:\n"
        "  - {name: damping, extends: fit.yaml, group: here, truth: {joint/joint0/damping: 0.1}}\n"
        "  - {name: lost, extends: fit.yaml, group: gone}\n";
    char wrong[1000];
    tempdir_write("experiments/mine/truth.yaml",
                  "robot: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n"
                  "parameters: {joint/joint0/damping: 0.1}\n");
    tempdir_write("experiments/mine/fit.yaml",
                  "model: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n"
                  "data: {folder: data, train: [a.csv]}\n"
                  "parameters: {joint/joint0/damping: {initial: 0.01, lower: 0}}\n"
                  "train: {window: 20, initial_state: recorded}\n"
                  "predict: {horizons: [0.25]}\n");
    tempdir_write("experiments/mine/study.yaml", text);
    run_ok("experiment mine -o mine");
    assert_says(last.out, "0.25 s");
    assert_says(last.out, "damping: at most ");
    assert_says(last.out, "\nmodel   mine/fitted.yaml\npage    mine/report.html\n");
    assert_says(last.err, "Gone: left out");
    json_t* result = run_json("experiment mine --json -o mine");
    assert_true(metric(result, "damping_truth_error") < 1e-3);
    json_decref(result);
    run_ok("score mine/damping/fitted.yaml --data mine/data/a.csv");

    snprintf(wrong, sizeof wrong,
             "%sfigures: [{kind: prediction, title: P, fits: [damping], channels: [q9]}]\n", text);
    tempdir_write("experiments/mine/study.yaml", wrong);
    run_bad("experiment mine -o mine", 1, "neuralsim: a figure asks for q9");
    assert_says(last.out, "0.25 s");
}

// ---- simulated recordings ------------------------------------------------------------------

// The lengths are found from everywhere by hopping, and not by local optimisation alone.
static void basin_hopping_finds_the_lengths(void** state) {
    (void)state;
    json_t* one = run_json("experiment basin_hopping --quick --json -o out");
    assert_string_equal(json_string_value(json_object_get(one, "experiment")), "basin_hopping");
    assert_true(json_is_true(json_object_get(one, "quick")));
    assert_true(metric(one, "global_success") == 1.0);
    assert_true(metric(one, "global_success_pose1") == 1.0);
    assert_true(metric(one, "global_success_pose2") == 1.0);
    assert_true(metric(one, "growing_success") == 1.0);
    assert_true(metric(one, "restart_success") == 1.0);
    assert_true(metric(one, "growing_runs_max") == 4.0);
    assert_in_range((uint64_t)(100.0 * metric(one, "local_success")), 40, 80);
    assert_true(metric(one, "rollouts_per_second") > 50.0);
    print_message("local %.0f %%, hopping %.0f %% with %.1f runs, at most %.0f\n",
                  100.0 * metric(one, "local_success"), 100.0 * metric(one, "global_success"),
                  metric(one, "hop_runs_mean"), metric(one, "hop_runs_max"));

    char* page = tempdir_read("out/report.html");
    char* picture = tempdir_read("out/starts_pose2.svg");
    assert_int_equal(count_of(picture, "class=\"cell\""), 2 * 25);
    assert_int_equal(count_of(page, "class=\"cell\""), 2 * 2 * 25);
    assert_says(picture, "xmlns=\"http://www.w3.org/2000/svg\"");
    char* result = tempdir_read("out/result.json");
    assert_string_equal(result, last.out);
    free(page);
    free(picture);
    free(result);
    // The model that was found: the same motion as that of the truth.
    run_ok("score out/fitted.yaml --data out/pose1/truth.csv --json");
    json_t* replayed = json_loads(last.out, 0, NULL);
    assert_true(json_number_value(json_object_get(replayed, "rmse_q")) < 1e-8);
    json_decref(replayed);

    // Every fit can be run by itself.
    run_ok("fit out/pose1/hop.yaml -o alone");
    assert_says(last.out, "length1");
    json_decref(one);
}

static void threads_do_not_matter(void** state) {
    (void)state;
    json_t* one = json_load_file(tempdir_path("out/result.json"), 0, NULL); // one for each core
    json_t* three = run_json("experiment basin_hopping --quick --json -o three --threads 3");
    assert_non_null(one);
    assert_true(json_equal(json_object_get(one, "poses"), json_object_get(three, "poses")));
    assert_true(metric(one, "hop_runs_mean") == metric(three, "hop_runs_mean"));
    json_decref(one);
    json_decref(three);
}

// ---- recordings ----------------------------------------------------------------------------

static json_t* run_quick(const char* name) {
    char arguments[200];
    snprintf(arguments, sizeof arguments, "experiment %s --quick --json -o %s", name, name);
    json_t* a = run_json(arguments);
    print_message("%s: 0.5 s %.3g -> %.3g, median %.3g, %.1f s\n", name,
                  metric(a, "before_test_pooled_0.5s"), metric(a, "friction_test_pooled_0.5s"),
                  metric(a, "friction_test_median_0.5s"), metric(a, "friction_seconds"));
    double gain = metric(a, "before_test_pooled_0.5s") / metric(a, "friction_test_pooled_0.5s");
    assert_true(fabs(metric(a, "friction_gain_0.5s") - gain) < 1e-9 * gain);
    assert_non_null(json_object_get(json_object_get(a, "fits"), "friction"));
    return a;
}

// Medians that earlier fits of another program reached, 0.019, are within reach.
static void ibm_pendulum_is_predicted(void** state) {
    (void)state;
    need_data("ibm_double_pendulum");
    json_t* a = run_quick("ibm_pendulum");
    assert_true(metric(a, "friction_test_median_0.5s") < 0.03);
    assert_true(metric(a, "friction_test_median_1s") < 0.1);
    assert_true(metric(a, "friction_gain_0.5s") > 20.0);
    json_decref(a);
    char command[700];
    snprintf(command, sizeof command,
             "score ibm_pendulum/fitted.yaml --map '%s' --history 21 --origins 20 --horizon 0.25s"
             " --data \"$NEURALSIM_DATA/ibm_double_pendulum/4.csv\" --json",
             NEURALSIM_SOURCE_DIR "/data/maps/ibm_double_pendulum.yaml");
    run_ok(command);
    assert_int_equal(access(tempdir_path("ibm_pendulum/friction/report.html"), R_OK), 0);
}

// The authors' own parameters, friction included, are where it starts.
static void dfki_pendulum_is_predicted(void** state) {
    (void)state;
    need_data("dfki_double_pendulum");
    json_t* a = run_quick("dfki_pendulum");
    assert_true(fabs(metric(a, "before_test_pooled_0.5s") - 0.08) < 0.02);
    assert_true(metric(a, "friction_test_pooled_0.5s") < 0.06);
    assert_true(metric(a, "friction_validation_pooled_0.5s") < 0.05);
    assert_true(metric(a, "friction_gain_2s") > 1.8);
    json_decref(a);
}

static void schmidt_lipson_is_predicted(void** state) {
    (void)state;
    need_data("schmidt_lipson");
    json_t* a = run_quick("schmidt_lipson");
    assert_true(metric(a, "friction_test_median_0.5s") < 0.006);
    assert_true(metric(a, "friction_train_median_1s") < 0.01);
    json_decref(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experiments_are_listed),
        cmocka_unit_test(own_experiments_are_found),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(missing_data_is_explained),
        cmocka_unit_test(fits_are_printed),
        cmocka_unit_test(basin_hopping_finds_the_lengths),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(ibm_pendulum_is_predicted),
        cmocka_unit_test(dfki_pendulum_is_predicted),
        cmocka_unit_test(schmidt_lipson_is_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
