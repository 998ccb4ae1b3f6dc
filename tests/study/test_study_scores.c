// Numbers of runs: medians over seeds, measures by their names.

#define _POSIX_C_SOURCE 200809L

#include "study/study_fits.h"
#include "study_rig.h"

// The median of an even number of runs is between two; a run without the number leaves none.
static void spreads_are_medians(void** state) {
    (void)state;
    study_spread s = nsi_study_spread_of((const double[]){3.0, 1.0, 2.0}, 3);
    assert_true(s.median == 2.0 && s.least == 1.0 && s.most == 3.0);
    s = nsi_study_spread_of((const double[]){4.0, 1.0, 2.0, 3.0}, 4);
    assert_true(s.median == 2.5 && s.least == 1.0 && s.most == 4.0);
    s = nsi_study_spread_of((const double[]){1.0, INFINITY}, 2); // a run that diverged
    assert_true(isinf(s.median) && s.least == 1.0 && isinf(s.most));
    assert_true(isnan(nsi_study_spread_of((const double[]){1.0, NAN}, 2).median));
    assert_true(isnan(nsi_study_spread_of(NULL, 0).median));
}

// Measures are told apart by their names, not by the order in which a file has them.
static void measures_go_by_their_names(void** state) {
    (void)state;
    study_rig_write("kind: fits\ntitle: Mine\n" SIMULATE("") //
                    "fits:\n"
                    "  - {name: a, extends: near_far.yaml}\n"
                    "  - {name: b, extends: far_near.yaml}\n");
    json_t* root = study_rig_run("measures");
    assert_true(metric(root, "a_test_near") != metric(root, "a_test_far"));
    assert_true(metric(root, "a_test_near") == metric(root, "b_test_near"));
    assert_true(metric(root, "b_gain_near") == 1.0 && metric(root, "b_gain_far") == 1.0);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spreads_are_medians),
        cmocka_unit_test(measures_go_by_their_names),
    };
    return cmocka_run_group_tests(tests, study_rig_start, NULL);
}
