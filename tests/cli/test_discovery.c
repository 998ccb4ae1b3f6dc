// The experiment `discovery`, made small: its files, on fewer motions. Exactly the inputs of the truth are
// left, and the coefficients are those of the truth.

#define _POSIX_C_SOURCE 200809L

#include "support/program.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static const char* const files[] = {
    "pendulum.urdf",        "torques.yaml",      "friction.yaml",     "truth_friction.yaml",
    "truth_stiffness.yaml", "law_friction.yaml", "law_stiffness.yaml"};

#define MOTIONS(file, truth, count, seed)                                                          \
    "  - {file: " file ".csv, model: truth_" truth ".yaml, trajectories: " count ", seconds: 2,"   \
    " timestep: 0.02, integrator: rk4, seed: " seed ", initial_state: {q_shoulder: [-1.5, 1.5],"   \
    " q_elbow: [-1.5, 1.5], qd_shoulder: [-2, 2], qd_elbow: [-2, 2]}}\n"
#define SIMULATE(truth)                                                                            \
    MOTIONS(truth "_train", truth, "200", "7")                                                     \
    MOTIONS(truth "_validation", truth, "2", "8") MOTIONS(truth "_test", truth, "5", "9")
#define ENTRY(name, base, more)                                                                    \
    "  - {name: " name ", extends: " base ", seeds: 2, trajectories: [2], " more "}\n"
// A formula in place of networks, without their path.
#define FORMULA(law) "stages: null, blueprint: " law ", train: {weight_decay_upper: null}, "

static const char experiment[] =
    "kind: fits\ntitle: Small\nsimulate:\n" SIMULATE("friction") SIMULATE("stiffness") //
    "fits:\n"                                                                          //
    ENTRY("friction", "friction.yaml",
          "inputs: ['shoulder: joint/shoulder/velocity',"
          " 'elbow: joint/elbow/velocity']")
        ENTRY("stiffness", "friction.yaml",
              "data: {train: [{file: stiffness_train.csv, trajectories: 0-199}],"
              " validation: [stiffness_validation.csv], test: [stiffness_test.csv]}, inputs: "
              "['shoulder: joint/shoulder/position',"
              " 'shoulder: joint/shoulder/velocity',"
              " 'elbow: joint/elbow/position', 'elbow: joint/elbow/velocity']")
            ENTRY("formula_friction", "friction",
                  FORMULA("law_friction.yaml") "truth: {law/joint/shoulder/b: 0.1, "
                                               "law/joint/elbow/b: 0.05}")
                ENTRY("formula_stiffness", "stiffness",
                      FORMULA("law_stiffness.yaml") "truth: {law/joint/shoulder/b: 0.1, "
                                                    "law/joint/elbow/b: 0.05,"
                                                    " law/joint/shoulder/k: 0.5, "
                                                    "law/joint/elbow/k: 0.3}");

static void what_the_model_lacks_is_found(void** state) {
    (void)state;
    json_error_t error;
    run_ok("experiment small --json -o out");
    json_t* root = json_loads(last.out, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("line %d: %s", error.line, error.text);
    assert_true(metric(root, "friction_right_inputs") == 2.0);
    assert_true(metric(root, "stiffness_right_inputs") == 2.0);
    assert_true(metric(root, "formula_friction_truth_error_worst") < 0.02);
    assert_true(metric(root, "formula_stiffness_truth_error_worst") < 0.02);
    // A hundredth of what is off without the networks.
    assert_true(metric(root, "friction_n2_gain_q") > 100.0);
    assert_true(metric(root, "stiffness_n2_gain_q") > 100.0);
    json_decref(root);
}

static int start(void** state) {
    (void)state;
    char path[300];
    tempdir_mkdir("experiments");
    tempdir_mkdir("experiments/small");
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char name[100];
        snprintf(path, sizeof path, NEURALSIM_SOURCE_DIR "/experiments/discovery/%s", files[k]);
        snprintf(name, sizeof name, "experiments/small/%s", files[k]);
        char* text = file_text(path);
        tempdir_write(name, text);
        free(text);
    }
    tempdir_write("experiments/small/study.yaml", experiment);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_the_model_lacks_is_found)};
    return cmocka_run_group_tests(tests, start, NULL);
}
