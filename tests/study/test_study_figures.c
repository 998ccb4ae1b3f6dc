// Figures of a study: losses, learning curves, predictions.

#define _POSIX_C_SOURCE 200809L

#include "study_rig.h"

// A figure of what is not there costs neither table nor report.
static void a_wrong_figure_costs_no_result(void** state) {
    (void)state;
    ns_error error;
    study_rig_write("kind: fits\ntitle: Mine\n" SIMULATE("") //
                    "fits: [{name: formula, extends: formula.yaml}]\n"
                    "figures:\n"
                    "  - {kind: prediction, title: P, fits: [formula], channels: [q_joint0]}\n");
    ns_study* study = study_rig_load(false);
    must(ns_study_run(study, tempdir_path("wrong_figure"), &error), &error);
    assert_int_equal(ns_study_problem_count(study), 1);
    assert_says(ns_study_problem(study, 0), "its channels are q0, q1, qd0, qd1");
    assert_null(ns_study_problem(study, 1));
    must(ns_study_save(study, &error), &error);
    ns_study_free(study);
    char* page = tempdir_read("wrong_figure/report.html");
    assert_says(page, "0.5 s");
    assert_says(page, "its channels are q0, q1, qd0, qd1");
    free(page);
}

static void figures_are_in_the_page_and_files(void** state) {
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
                    "  - {name: network, extends: network.yaml, seeds: 2}\n"
                    "figures:\n"
                    "  - {kind: learning, title: Learning, fits: [formula]}\n"
                    "  - {kind: loss, title: Loss, fits: [formula, damping]}\n"
                    "  - {kind: prediction, title: <Motion>, fits: [damping, formula],"
                    " channels: [q0, qd1], before: no friction, recordings: [0, 2],"
                    " mark: {at: 0.5, label: here}}\n"
                    "  - {kind: prediction, title: Path, fits: [damping], channels: [q1],"
                    " against: q0}\n");
    json_decref(study_rig_run("runs"));

    // Figures: in the page, and as files.
    char* page = tempdir_read("runs/report.html");
    assert_says(page, "&lt;Motion&gt;");
    assert_null(strstr(page, "<Motion>"));
    assert_says(page, "no friction");
    free(page);
    uint32_t count;
    double* curve = study_rig_numbers("runs/learning.csv", &count);
    assert_true(curve[0] == 1.0); // trajectories
    free(curve);
    static const char* const names[] = {"loss.svg", "learning.svg", "prediction.svg",
                                        "prediction_2.svg", "prediction_2.csv"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char name[100];
        snprintf(name, sizeof name, "runs/%s", names[k]);
        assert_true(study_rig_exists(name));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_figure_costs_no_result),
        cmocka_unit_test(figures_are_in_the_page_and_files),
    };
    return cmocka_run_group_tests(tests, study_rig_start, NULL);
}
