// Experiments of kind `walk`, made small: what they write, that threads do not matter, and what is said
// about files that are wrong.

#define _POSIX_C_SOURCE 200809L

#include "support/program.h"
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

static const char experiment[] =
    "kind: walk\n"
    "title: Small\n"
    "seconds: 3\n"
    "seeds: 2\n"
    "playback: 2\n"
    "policies:\n"
    "  - {name: net, robot: a1, hidden: [32, 32], transitions: 2000, share: 0.2, iterations: "
    "1500}\n"
    "  - {name: better, from: net, iterations: 4, every: 2, seeds: 1, seconds: 3}\n"
    "runs:\n"
    "  - {name: qp, robot: a1, show: true}\n"
    "  - {name: trimmed, robot: a1, trim: true}\n"
    "  - {name: net, policy: net, show: true}\n"
    "  - {name: better, policy: better}\n"
    "  - {name: big, robot: laikago, show: true, seeds: 1}\n"
    "  - {name: soft, robot: a1, contact: spring, seeds: 1}\n"
    "compare:\n"
    "  - {before: net, after: better}\n"
    "robustness:\n"
    "  runs: [qp, net, soft]\n"
    "  seeds: 1\n"
    "  seconds: 3\n"
    "  disturbances:\n"
    "    - {name: heavy, label: heavy, mass: 1.2}\n"
    "    - {name: ice, label: ice, friction: 0.02}\n"
    "    - {name: none, label: none}\n"
    "    - {name: lead, label: lead, mass: 20}\n";

static int make_folder(void** state) {
    (void)state;
    tempdir_mkdir("experiments");
    tempdir_mkdir("experiments/small");
    tempdir_write("experiments/small/experiment.yaml", experiment);
    return 0;
}

static json_t* run(const char* arguments) {
    json_error_t error;
    run_ok(arguments);
    json_t* root = json_loads(last.out, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("line %d: %s", error.line, error.text);
    return root;
}

static void assert_is_there(const char* name) {
    if (access(tempdir_path(name), F_OK) != 0) fail_msg("there is no %s", name);
}

static void robots_walk_and_learn(void** state) {
    (void)state;
    json_t* root = run("experiment small --json --threads 2 -o out");
    assert_true(metric(root, "qp_falls") == 0.0);
    assert_true(metric(root, "big_falls") == 0.0);
    assert_true(metric(root, "qp_seconds_walked") == 6.0);
    // The trim takes away errors that are always the same.
    assert_true(metric(root, "trimmed_height_error") < 0.5 * metric(root, "qp_height_error"));
    assert_true(metric(root, "trimmed_velocity_error") < metric(root, "qp_velocity_error"));
    // The reduction is that of the two errors.
    double reduction = 1.0 - metric(root, "better_height_error") / metric(root, "net_height_error");
    assert_true(fabs(metric(root, "better_height_reduction") - reduction) < 1e-9);
    const json_t* ice = json_array_get(json_object_get(root, "robustness"), 1);
    assert_int_equal(json_integer_value(json_object_get(ice, "qp_falls")), 1);
    // Without a disturbance, errors are those of the run in its own contact model.
    const json_t* none = json_array_get(json_object_get(root, "robustness"), 2);
    assert_true(json_number_value(json_object_get(none, "soft_height_error")) ==
                metric(root, "soft_height_error"));
    // Fallen before anything counted: there are no errors.
    const json_t* lead = json_array_get(json_object_get(root, "robustness"), 3);
    assert_int_equal(json_integer_value(json_object_get(lead, "qp_falls")), 1);
    const char* const errors[] = {"qp_velocity_error",     "qp_forward_error", "qp_turn_error",
                                  "qp_velocity_error_raw", "qp_height_error",  "qp_height_bias"};
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++) {
        assert_true(json_is_null(json_object_get(lead, errors[k])));
    }
    // Trouble is counted.
    assert_true(metric(root, "qp_shared") == 0.0 && metric(root, "qp_limited") == 0.0);
    assert_true(json_is_integer(json_object_get(lead, "qp_unreachable")));
    const char* const files[] = {"net.c",       "net.safetensors", "better.c", "better.safetensors",
                                 "report.html", "result.json",     "a1.html",  "motion_laikago.svg",
                                 "gait_qp.svg", "times.svg"};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char name[100];
        snprintf(name, sizeof name, "out/%s", files[k]);
        assert_is_there(name);
    }
    json_t* alone = run("experiment small --json --threads 1 -o alone");
    const char* const same[] = {"qp_velocity_error",   "trimmed_velocity_error",
                                "net_velocity_error",  "better_velocity_error",
                                "better_height_error", "big_tilt"};
    for (size_t k = 0; k < sizeof same / sizeof *same; k++) {
        assert_true(metric(root, same[k]) == metric(alone, same[k]));
    }
    json_decref(root);
    json_decref(alone);
    char* page = tempdir_read("out/report.html");
    assert_says(page, "viewer-data");
    assert_says(page, "Feet that stand and touch");
    assert_says(page, "href=\"a1.html\"");
    free(page);
}

static void what_is_wrong_is_said(void** state) {
    (void)state;
    const struct {
        const char *text, *message;
    } files[] = {
        {"kind: walk\ntitle: x\n", "`runs` is missing"},
        {"kind: walk\ntitle: x\nruns:\n  - {name: a, robot: dog}\n", "a1"},
        {"kind: walk\ntitle: x\nruns:\n  - {name: a, policy: b}\n", "there is no such policy"},
        {"kind: walk\ntitle: x\npolicies:\n  - {name: a}\nruns:\n  - {name: a}\n", "`hidden`"},
        {"kind: walk\ntitle: x\npolicies:\n  - {name: a, from: b}\nruns:\n  - {name: a}\n",
         "there is no such policy before it"},
        {"kind: walk\ntitle: x\nruns:\n  - {name: a}\ncompare:\n  - {before: a, after: b}\n",
         "there is no such run"},
        {"kind: walk\ntitle: x\nruns:\n  - {name: a, gait: b}\n", "gait"},
        {"kind: walk\ntitle: x\nruns:\n  - {name: ../../evil}\n", "letters, digits and _"},
        {"kind: walk\ntitle: x\npolicies:\n  - {name: ../../evil, hidden: [8]}\nruns:\n  - {name: "
         "a}\n",
         "experiment.yaml:4:"},
        {"kind: walk\ntitle: x\nruns:\n  - {name: a}\n  - {name: a}\n", "this name is taken"},
        {"kind: walk\ntitle: x\npolicies:\n  - {name: b, hidden: [8]}\n  - {name: b, hidden: [8]}\n"
         "runs:\n  - {name: a}\n",
         "experiment.yaml:5:"},
        {"kind: walk\ntitle: x\nseconds: -1\nruns:\n  - {name: a}\n", "seconds"},
    };
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        tempdir_write("experiments/small/experiment.yaml", files[k].text);
        run_bad("experiment small", 1, files[k].message);
        assert_says(last.err, "experiments/small/experiment.yaml:");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(robots_walk_and_learn),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
