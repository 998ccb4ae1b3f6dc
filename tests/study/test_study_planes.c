// Figures in the plane: outlines of a plate, what it stands on; and bars.

#define _POSIX_C_SOURCE 200809L

#include "study_rig.h"

// Where a square ends is its pose applied to its corners; bars are measures; discs are friction.
static void figures_show_planes_and_bars(void** state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        char command[300];
        snprintf(command, sizeof command,
                 "simulate experiments/mine/plate.xml --q0 0 0 0.2 --qd0 %g 0.1 0.3 --time 1"
                 " -o experiments/mine/slide_%d.csv",
                 k == 0 ? 0.2 : -0.1, k);
        run_ok(command);
    }
    study_rig_write("kind: fits\ntitle: Mine\n"
                    "fits: [{name: slide, extends: slide.yaml, folds: 2}]\n"
                    "references: [{name: others, measures: {far: 0.25}}]\n"
                    "figures:\n"
                    "  - {kind: outlines, title: Ends, fits: [slide], model: plate.xml,"
                    " channels: [q0, q1, q2], recordings: [0, 7]}\n"
                    "  - {kind: bars, title: Far, fits: [slide], measure: far, mark: {at: 0.1,"
                    " label: floor}}\n"
                    "  - {kind: supports, title: Feet, fits: [slide]}\n");
    json_t* result = study_rig_run("planes");
    assert_says(study_rig_notes, "no recording 7");
    uint32_t count;
    double* motion =
        study_rig_numbers("experiments/mine/slide_0.csv", &count); // left out by fold 1
    const double* end = motion + count - 7;                        // t, q, qd
    double c = cos(end[3]), s = sin(end[3]);
    char *text = tempdir_read("planes/outlines.csv"), *at = text;
    static const double corners[4][2] = {{0.1, 0.1}, {-0.1, 0.1}, {-0.1, -0.1}, {0.1, -0.1}};
    for (int k = 0; k < 4; k++) {
        double x, y;
        at = strstr(at, "\"recorded, outline\",");
        assert_non_null(at);
        at += strlen("\"recorded, outline\",");
        assert_int_equal(sscanf(at, "%lf,%lf", &x, &y), 2);
        assert_true(fabs(x - (end[1] + c * corners[k][0] - s * corners[k][1])) < 1e-9);
        assert_true(fabs(y - (end[2] + s * corners[k][0] + c * corners[k][1])) < 1e-9);
    }
    free(text);
    free(motion);
    text = tempdir_read("planes/supports.csv");
    assert_says(text, ",foot,0.05,-0.02,0.3\n");
    free(text);
    text = tempdir_read("planes/bars.csv");
    double trained, unseen;
    assert_int_equal(sscanf(text, "model,trained on,unseen\nslide,%lf,%lf", &trained, &unseen), 2);
    free(text);
    assert_true(fabs(trained - metric(result, "slide_train_far")) < 1e-12);
    assert_true(fabs(unseen - metric(result, "slide_test_far")) < 1e-12);
    json_decref(result);
    study_rig_write("kind: fits\ntitle: Mine\nfits: [{name: slide, extends: slide.yaml}]\n"
                    "figures: [{kind: bars, title: F, fits: [slide], measure: near}]\n");
    study_rig_refuse(false, "planes", "which no fit has");
    study_rig_write(
        "kind: fits\ntitle: Mine\nfits: [{name: slide, extends: slide.yaml}]\n"
        "figures: [{kind: outlines, title: E, fits: [slide], channels: [q0, q1, q2]}]\n");
    study_rig_refuse(false, "planes", "model");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_show_planes_and_bars),
    };
    return cmocka_run_group_tests(tests, study_rig_start, NULL);
}
