// The record of a study: metrics by name, and each run by itself.

#define _POSIX_C_SOURCE 200809L

#include "study_rig.h"

static double number_of(const json_t* root, const char* fit, uint32_t run, const char* key) {
    const json_t* runs = json_object_get(json_object_get(root, "runs"), fit);
    return json_number_value(json_object_get(json_array_get(runs, run), key));
}

static double median_of_three(double a, double b, double c) {
    return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

static void numbers_of_runs_and_of_all(void** state) {
    (void)state;
    study_rig_write("kind: fits\ntitle: Mine\n" SIMULATE(", noise: 0.001") //
                    "fits:\n"
                    "  - name: formula\n"
                    "    extends: formula.yaml\n"
                    "    seeds: 3\n"
                    "    trajectories: [1, 3]\n"
                    "    truth: {friction/joint/joint0/b: 0.1, friction/joint/joint1/b: 0.05}\n"
                    "  - name: damping\n"
                    "    extends: damping.yaml\n"
                    "    truth: {joint/joint0/damping: 0.1, joint/joint1/damping: 0.05}\n"
                    "  - {name: network, extends: network.yaml, seeds: 2}\n");
    json_t* a = study_rig_run("record");
    // Numbers of runs stand together with those of all.
    double off[3], q[3];
    for (uint32_t k = 0; k < 3; k++) {
        off[k] = number_of(a, "formula", 3 + k, "truth_error");
        const json_t* runs = json_object_get(json_object_get(a, "runs"), "formula");
        const json_t* run = json_array_get(runs, 3 + k);
        assert_int_equal(json_integer_value(json_object_get(run, "trajectories")), 3);
        assert_int_equal(json_integer_value(json_object_get(run, "seed")), 1 + k);
        q[k] = json_number_value(json_object_get(json_object_get(run, "test"), "q"));
        assert_true(off[k] > 0.0 && off[k] < 0.05); // noise of 0.1 %
    }
    assert_true(off[0] != off[1] && off[1] != off[2]); // other trajectories
    assert_true(metric(a, "formula_truth_error") == median_of_three(off[0], off[1], off[2]));
    assert_true(metric(a, "formula_truth_error_worst") == fmax(fmax(off[0], off[1]), off[2]));
    assert_true(metric(a, "formula_test_q") == median_of_three(q[0], q[1], q[2]));
    assert_true(metric(a, "formula_test_q") == metric(a, "formula_n3_test_q"));
    assert_true(metric(a, "formula_n1_test_q") != metric(a, "formula_n3_test_q"));
    assert_true(fabs(metric(a, "formula_test_pooled_1s") - metric(a, "formula_test_q")) < 1e-12);
    double gain = metric(a, "before_test_qd") / metric(a, "formula_test_qd");
    assert_true(gain > 5.0 && fabs(metric(a, "formula_gain_qd") - gain) < 1e-9 * gain);
    // A parameter of the model is the same law.
    assert_true(metric(a, "damping_truth_error") < 0.02);
    // Networks start elsewhere.
    assert_true(number_of(a, "network", 0, "seed") == 1.0);
    const json_t* runs = json_object_get(json_object_get(a, "runs"), "network");
    assert_false(json_equal(json_object_get(json_array_get(runs, 0), "test"),
                            json_object_get(json_array_get(runs, 1), "test")));
    json_decref(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_runs_and_of_all),
    };
    return cmocka_run_group_tests(tests, study_rig_start, NULL);
}
