// The gait against phases computed by hand: a cycle of 0.5 s, swing of 0.2 s, FR and RL swing from
// 0.05 to 0.25 s, FL and RR from 0.3 to 0.5 s.

#include "quadruped/gait.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

typedef struct moment {
    double time;
    bool swings[2]; // FR and RL; FL and RR
    double phase[2];
} moment;

static void phases_are_those_computed_by_hand(void** state) {
    (void)state;
    const moment moments[] = {
        {0.0, {false, false}, {5.0 / 6.0, 0.0}}, {0.03, {false, false}, {14.0 / 15.0, 0.1}},
        {0.06, {true, false}, {0.05, 0.2}},      {0.15, {true, false}, {0.5, 0.5}},
        {0.24, {true, false}, {0.95, 0.8}},      {0.28, {false, false}, {0.1, 14.0 / 15.0}},
        {0.4, {false, true}, {0.5, 0.5}},        {0.49, {false, true}, {0.8, 0.95}},
        {0.65, {true, false}, {0.5, 0.5}},       {1000.4, {false, true}, {0.5, 0.5}},
        {-0.1, {false, true}, {0.5, 0.5}},
    };
    quad_controller_options options = quad_default_controller_options();
    for (size_t k = 0; k < sizeof moments / sizeof *moments; k++) {
        quad_gait_leg legs[QUAD_LEGS];
        quad_gait_at(&options.gait, moments[k].time, NULL, legs);
        for (int leg = 0; leg < QUAD_LEGS; leg++) {
            int pair = leg == 1 || leg == 2;
            assert_int_equal(legs[leg].swings, moments[k].swings[pair]);
            assert_true(fabs(legs[leg].phase - moments[k].phase[pair]) < 1e-9);
            assert_int_equal(legs[leg].state, legs[leg].swings ? QUAD_LEG_SWING : QUAD_LEG_STANCE);
        }
    }
}

// Each leg stands for its share of the time, at any duty factor, and the phase grows from 0 to 1.
static void legs_stand_for_their_share(void** state) {
    (void)state;
    const double duties[] = {0.3, 0.5, 0.6, 0.9};
    for (int d = 0; d < 4; d++) {
        quad_controller_options options = quad_default_controller_options();
        options.gait.duty_factor = duties[d];
        options.gait.initial_phase[1] = 0.37;
        int stands[QUAD_LEGS] = {0}, total = 20000;
        quad_gait_leg before[QUAD_LEGS], legs[QUAD_LEGS];
        double cycle = options.gait.stance_duration / duties[d];
        for (int k = 0; k < total; k++) {
            quad_gait_at(&options.gait, 10.0 * cycle * k / total, NULL, legs);
            for (int leg = 0; leg < QUAD_LEGS; leg++) {
                stands[leg] += !legs[leg].swings;
                assert_true(legs[leg].phase >= 0.0 && legs[leg].phase <= 1.0);
                bool same = k > 0 && legs[leg].swings == before[leg].swings;
                if (same) assert_true(legs[leg].phase >= before[leg].phase);
                before[leg] = legs[leg];
            }
        }
        for (int leg = 0; leg < QUAD_LEGS; leg++) {
            assert_true(fabs((double)stands[leg] / total - duties[d]) < 1e-3);
        }
    }
}

static void contact_that_comes_too_early_or_is_lost_counts_after_a_while(void** state) {
    (void)state;
    quad_controller_options options = quad_default_controller_options();
    const bool none[QUAD_LEGS] = {0}, all[QUAD_LEGS] = {true, true, true, true};
    quad_gait_leg legs[QUAD_LEGS];
    quad_gait_at(&options.gait, 0.06, all, legs); // FR: 0.05 of its swing
    assert_int_equal(legs[0].state, QUAD_LEG_SWING);
    quad_gait_at(&options.gait, 0.08, all, legs); // 0.15
    assert_int_equal(legs[0].state, QUAD_LEG_EARLY);
    assert_int_equal(legs[1].state, QUAD_LEG_STANCE);
    quad_gait_at(&options.gait, 0.02, none, legs); // FL: 0.067 of its stance
    assert_int_equal(legs[1].state, QUAD_LEG_STANCE);
    quad_gait_at(&options.gait, 0.08, none, legs); // 0.27
    assert_int_equal(legs[0].state, QUAD_LEG_SWING);
    assert_int_equal(legs[1].state, QUAD_LEG_LOST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_are_those_computed_by_hand),
        cmocka_unit_test(legs_stand_for_their_share),
        cmocka_unit_test(contact_that_comes_too_early_or_is_lost_counts_after_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
