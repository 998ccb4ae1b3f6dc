// An experiment with walking robots, made small: its results, its files, and that threads do not matter.

#define _POSIX_C_SOURCE 200809L

#include "quadruped/walk_experiment.h"
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

static const walk_policy_case policies[] = {
    {.name = "net",
     .label = "network",
     .robot = WALK_A1,
     .hidden = {32, 32},
     .nhidden = 2,
     .transitions = 2000,
     .keep_probability = 0.2,
     .iterations = 1500},
    {.name = "better",
     .label = "tuned",
     .tuned_from = "net",
     .iterations = 4,
     .learning_rate = 1e-4,
     .validate_every = 2,
     .validation_seeds = 1,
     .validation_seconds = 3.0},
};

static const walk_run_case runs[] = {
    {.name = "qp", .label = "<QP>", .robot = WALK_A1, .record_trace = true},
    {.name = "trimmed", .label = "corrected", .robot = WALK_A1, .command_correction = true},
    {.name = "net", .label = "network", .policy = "net", .record_trace = true},
    {.name = "better", .label = "tuned", .policy = "better"},
    {.name = "big", .label = "Laikago", .robot = WALK_LAIKAGO, .record_trace = true, .seeds = 1},
    {.name = "soft",
     .label = "springs",
     .robot = WALK_A1,
     .contact = NS_CONTACT_SPRING,
     .seeds = 1},
};

static const char* const pairs[][2] = {{"net", "better"}};

static const walk_disturbance disturbances[] = {
    {.name = "heavy", .label = "heavy", .mass = 1.2, .friction = 1.0},
    {.name = "ice", .label = "ice", .mass = 1.0, .friction = 0.02},
    {.name = "none", .label = "none", .mass = 1.0, .friction = 1.0},
    {.name = "lead", .label = "lead", .mass = 20.0, .friction = 1.0},
};

static const walk_case small = {
    .name = "small",
    .title = "Small",
    .citation = "nobody",
    .seconds = 3.0,
    .seeds = 2,
    .playback = 2.0,
    .policies = policies,
    .npolicy = 2,
    .runs = runs,
    .nrun = 6,
    .pairs = pairs,
    .npair = 1,
    .disturbances = disturbances,
    .ndisturbance = 4,
    .disturbed = {"qp", "net", "soft"},
    .disturbed_seeds = 1,
    .disturbed_seconds = 3.0,
};

static walk_experiment* run_case(const walk_case* def, uint32_t threads) {
    const walk_options options = {
        .models = NEURALSIM_SOURCE_DIR "/models", .output = tempdir(), .threads = threads};
    walk_experiment* w = NULL;
    ns_error error;
    if (walk_experiment_create(def, &options, &w, &error) != NS_OK) fail_msg("%s", error.message);
    return w;
}

// result.json of an experiment.
static json_t* record_of(const walk_experiment* w, ns_report** report) {
    ns_text text;
    ns_error error;
    json_error_t fault;
    if (walk_report(w, report, &error) != NS_OK) fail_msg("%s", error.message);
    if (ns_report_json(*report, &text, &error) != NS_OK) fail_msg("%s", error.message);
    json_t* root = json_loads(text.data, JSON_REJECT_DUPLICATES, &fault);
    if (!root) fail_msg("line %d: %s", fault.line, fault.text);
    ns_text_free(&text);
    return root;
}

static double metric(const json_t* root, const char* name) {
    const json_t* value = json_object_get(json_object_get(root, "metrics"), name);
    if (!json_is_number(value)) fail_msg("there is no metric %s", name);
    return json_number_value(value);
}

static void assert_robust(const json_t* root) {
    const json_t* robustness = json_object_get(root, "robustness");
    const json_t* ice = json_array_get(robustness, 1);
    assert_int_equal(json_integer_value(json_object_get(ice, "qp_falls")), 1);
    // Without a disturbance, errors are those of the run in its own contact model.
    const json_t* none = json_array_get(robustness, 2);
    assert_true(json_number_value(json_object_get(none, "soft_height_error")) ==
                metric(root, "soft_height_error"));
    // Fallen before anything counted: there are no errors.
    const json_t* lead = json_array_get(robustness, 3);
    assert_int_equal(json_integer_value(json_object_get(lead, "qp_falls")), 1);
    const char* const errors[] = {"qp_velocity_error",     "qp_forward_error", "qp_turn_error",
                                  "qp_velocity_error_raw", "qp_height_error",  "qp_height_bias"};
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++) {
        assert_true(json_is_null(json_object_get(lead, errors[k])));
    }
    assert_true(json_is_integer(json_object_get(lead, "qp_unreachable")));
}

static void robots_walk_and_learn(void** state) {
    (void)state;
    walk_experiment* w = run_case(&small, 2);
    ns_report* report = NULL;
    json_t* root = record_of(w, &report);
    assert_true(metric(root, "qp_falls") == 0.0);
    assert_true(metric(root, "big_falls") == 0.0);
    assert_true(metric(root, "qp_seconds_walked") == 6.0);
    // The correction takes away errors that are always the same.
    assert_true(metric(root, "trimmed_height_error") < 0.5 * metric(root, "qp_height_error"));
    assert_true(metric(root, "trimmed_velocity_error") < metric(root, "qp_velocity_error"));
    // The reduction is that of the two errors.
    double reduction = 1.0 - metric(root, "better_height_error") / metric(root, "net_height_error");
    assert_true(fabs(metric(root, "better_height_reduction") - reduction) < 1e-9);
    assert_true(metric(root, "qp_shared") == 0.0 && metric(root, "qp_limited") == 0.0);
    assert_robust(root);
    const char* const files[] = {"net.c", "net.safetensors", "better.c", "better.safetensors"};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        if (access(tempdir_path(files[k]), F_OK) != 0) fail_msg("there is no %s", files[k]);
    }

    // The same with one thread.
    walk_experiment* alone = run_case(&small, 1);
    for (uint32_t k = 0; k < w->nrun; k++) {
        assert_true(walk_speed_error(&w->runs[k].sum) == walk_speed_error(&alone->runs[k].sum));
        assert_true(w->runs[k].sum.height == alone->runs[k].sum.height);
        assert_true(w->runs[k].sum.tilt == alone->runs[k].sum.tilt);
    }
    walk_experiment_free(alone);
    json_decref(root);

    // The page: motion of the larger robot, figures, a link to the other one.
    ns_text page;
    ns_error error;
    assert_int_equal(ns_report_html(report, &page, &error), NS_OK);
    assert_non_null(strstr(page.data, "viewer-data"));
    assert_non_null(strstr(page.data, "Planned stance and contact"));
    assert_non_null(strstr(page.data, "href=\"a1.html\""));
    assert_non_null(strstr(page.data, "&lt;QP&gt;"));
    ns_text_free(&page);
    const char* const figures[] = {"motion_laikago", "gait_big", "times", "tuning_better"};
    for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) {
        assert_non_null(ns_report_find_figure(report, figures[k]));
    }
    ns_report_free(report);

    ns_report* other = NULL;
    assert_int_equal(walk_robot_report(w, WALK_A1, &other, &error), NS_OK);
    assert_non_null(ns_report_find_figure(other, "gait_qp"));
    ns_report_free(other);
    assert_int_equal(walk_robot_report(w, WALK_LAIKAGO, &other, &error), NS_OK);
    assert_null(other);
    walk_experiment_free(w);
}

static void names_that_are_not_there_are_errors(void** state) {
    (void)state;
    static const walk_run_case lost[] = {{.name = "a", .label = "a", .policy = "b"}};
    static const walk_policy_case orphan[] = {{.name = "a", .label = "a", .tuned_from = "b"}};
    walk_case cases[3] = {small, small, small};
    cases[0].runs = lost, cases[0].nrun = 1;
    cases[1].policies = orphan, cases[1].npolicy = 1;
    cases[2].disturbed[0] = "ghost";
    const char* const messages[] = {"there is no policy b", "there is no policy b before it",
                                    "there is no run ghost"};
    const walk_options options = {.models = NEURALSIM_SOURCE_DIR "/models", .output = tempdir()};
    for (int k = 0; k < 3; k++) {
        walk_experiment* w = NULL;
        ns_error error;
        assert_int_equal(walk_experiment_create(&cases[k], &options, &w, &error), NS_ERR_ARGUMENT);
        assert_null(w);
        assert_non_null(strstr(error.message, messages[k]));
    }
    assert_null(walk_find_case("trot"));
    assert_ptr_equal(walk_find_case("mpc"), &walk_case_mpc);
}

// Policies, runs and comparisons of the two cases refer to each other by name.
static void cases_are_consistent(void** state) {
    (void)state;
    const walk_case* const cases[] = {&walk_case_mpc, &walk_case_imitation};
    for (size_t c = 0; c < 2; c++) {
        const walk_case* def = cases[c];
        for (uint32_t k = 0; k < def->npair; k++) {
            for (int side = 0; side < 2; side++) {
                bool found = false;
                for (uint32_t r = 0; r < def->nrun; r++) {
                    found = found || strcmp(def->runs[r].name, def->pairs[k][side]) == 0;
                }
                assert_true(found);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(robots_walk_and_learn),
        cmocka_unit_test(names_that_are_not_there_are_errors),
        cmocka_unit_test(cases_are_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
