// Kinematics of legs: toe positions computed by hand, Jacobians against differences, and angles that
// lead back to the targets they came from, or as near as can be.

#include "base/common.h"
#include "neuralsim/random.h"
#include "quadruped/leg.h"
#include "support/residual.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static quad_robot robot_of(int k) {
    return k == 0 ? quad_laikago() : quad_a1();
}

static void random_angles(const quad_leg_def* leg, ns_rng* rng, double q[3]) {
    for (int k = 0; k < 3; k++) q[k] = ns_rng_uniform(rng, leg->limits[k][0], leg->limits[k][1]);
}

static void check_toe(const quad_leg_def* leg, const double q[3], const double want[3]) {
    double toe[3];
    quad_leg_toe(leg, q, toe);
    for (int i = 0; i < 3; i++) assert_true(fabs(toe[i] - want[i]) < 6e-5); // four digits
}

static void toes_are_where_the_drawings_have_them(void** state) {
    (void)state;
    quad_robot laikago = quad_laikago(), a1 = quad_a1();
    const double zero[3] = {0}, pose[3] = {0.0, 0.07, -0.59};
    check_toe(&laikago.legs[0], zero, (double[]){0.0349, -0.1146, -0.4883});
    check_toe(&laikago.legs[1], zero, (double[]){0.0349, 0.1169, -0.4883});
    check_toe(&laikago.legs[2], zero, (double[]){-0.4024, -0.1146, -0.4883});
    check_toe(&laikago.legs[3], zero, (double[]){-0.4024, 0.1169, -0.4883});
    check_toe(&laikago.legs[0], pose, (double[]){0.1478, -0.1146, -0.4558});
    check_toe(&laikago.legs[2], pose, (double[]){-0.2895, -0.1146, -0.4558});
    // Isosceles: straight down by 2 * 0.2 cos 0.9.
    check_toe(&a1.legs[0], a1.home, (double[]){0.183, -0.13205, -0.24864});
    check_toe(&a1.legs[3], a1.home, (double[]){-0.183, 0.13205, -0.24864});
    // Turned outwards by a quarter: what was down is outwards. Laikago's right axes are reversed.
    const double right[3] = {-acos(0.0), 0.9, -1.8}, left[3] = {acos(0.0), 0.9, -1.8};
    check_toe(&a1.legs[0], right, (double[]){0.183, -0.047 - 0.24864, 0.08505});
    check_toe(&a1.legs[1], left, (double[]){0.183, 0.047 + 0.24864, 0.08505});
    const double outwards[3] = {acos(0.0), 0.0, 0.0};
    check_toe(&laikago.legs[0], outwards, (double[]){0.0349, -0.0817 - 0.4583, -0.03 + 0.0329});
}

static void jacobians_are_slopes(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    residual r = {.name = "Jacobian", .tolerance = 1e-9};
    const double h = 1e-4, none[3] = {0};
    for (int repeat = 0; repeat < 400; repeat++) {
        quad_robot robot = robot_of(repeat % 2);
        const quad_leg_def* leg = &robot.legs[repeat / 2 % 4];
        double q[3], J[9];
        random_angles(leg, &rng, q);
        quad_leg_jacobian(leg, q, none, J);
        for (int k = 0; k < 3; k++) {
            double at[4][3], moved[3];
            for (int s = 0; s < 4; s++) { // fourth order
                memcpy(moved, q, sizeof moved);
                moved[k] += h * (s < 2 ? s - 2 : s - 1);
                quad_leg_toe(leg, moved, at[s]);
            }
            for (int i = 0; i < 3; i++) {
                double slope = (at[0][i] - 8.0 * at[1][i] + 8.0 * at[2][i] - at[3][i]) / (12.0 * h);
                residual_add(&r, J[3 * i + k], slope, 1.0);
            }
        }
    }
    residual_check(&r);
}

// A point beside the toe moves as the toe does, and around it with the shank: so does the toe of a
// leg whose shank ends there.
static void jacobians_of_other_points_are_those_of_a_longer_shank(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(2);
    residual r = {.name = "Jacobian of a point", .tolerance = 1e-14};
    for (int repeat = 0; repeat < 200; repeat++) {
        quad_robot robot = robot_of(repeat % 2);
        quad_leg_def leg = robot.legs[repeat / 2 % 4], longer = leg;
        double q[3], J[9], K[9], toe[3], end[3], offset[3];
        const double none[3] = {0};
        random_angles(&leg, &rng, q);
        for (int i = 0; i < 3; i++) longer.toe[i] += ns_rng_normal(&rng) * 0.1;
        quad_leg_toe(&leg, q, toe);
        quad_leg_toe(&longer, q, end);
        for (int i = 0; i < 3; i++) offset[i] = end[i] - toe[i];
        quad_leg_jacobian(&leg, q, offset, J);
        quad_leg_jacobian(&longer, q, none, K);
        residual_array(&r, J, K, 9, 1.0);
    }
    residual_check(&r);
}

// All that joints within their limits reach with the foot below the abduction axis and the knee bent
// backwards.
static void angles_lead_back_to_the_toe(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3);
    residual position = {.name = "toe", .tolerance = 1e-12};
    residual angles = {.name = "angles", .tolerance = 1e-6}; // less near a straight leg
    int count = 0;
    for (int repeat = 0; repeat < 40000; repeat++) {
        quad_robot robot = robot_of(repeat % 2);
        const quad_leg_def* leg = &robot.legs[repeat / 2 % 4];
        double q[3], toe[3], found[3], again[3], missed;
        random_angles(leg, &rng, q);
        double thigh = atan2(-leg->lower[0], -leg->lower[2]);
        double shank = atan2(-leg->toe[0], -leg->toe[2]);
        double first = q[1] + thigh, second = first + q[2] + shank - thigh;
        double drop = leg->upper[2] - hypot(leg->lower[0], leg->lower[2]) * cos(first) -
                      hypot(leg->toe[0], leg->toe[2]) * cos(second);
        if (drop > -1e-3 || second - first > -1e-2) continue;
        quad_leg_toe(leg, q, toe);
        assert_true(quad_leg_angles(leg, toe, found, &missed));
        quad_leg_toe(leg, found, again);
        residual_array(&position, again, toe, 3, 1.0);
        residual_array(&angles, found, q, 3, 1.0);
        count++;
    }
    assert_true(count > 15000);
    residual_check(&position);
    residual_check(&angles);
}

// What is too far is approached along the same direction: no pose within limits is much nearer, and the
// answer is told from one that reaches.
static void out_of_reach_is_told_and_approached(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(4);
    int told = 0;
    for (int repeat = 0; repeat < 2000; repeat++) {
        quad_robot robot = robot_of(repeat % 2);
        const quad_leg_def* leg = &robot.legs[repeat / 2 % 4];
        double target[3], q[3], toe[3], missed, distance = 0.0;
        for (int i = 0; i < 3; i++) target[i] = leg->hip[i] + ns_rng_uniform(&rng, -1.0, 1.0);
        bool reached = quad_leg_angles(leg, target, q, &missed);
        quad_leg_toe(leg, q, toe);
        for (int i = 0; i < 3; i++) {
            distance += (toe[i] - target[i]) * (toe[i] - target[i]);
            assert_true(q[i] >= leg->limits[i][0] && q[i] <= leg->limits[i][1]);
        }
        assert_true(fabs(sqrt(distance) - missed) < 1e-12);
        assert_true(reached == (missed <= QUAD_LEG_REACHED));
        told += !reached;
    }
    assert_true(told > 1000);

    // Straight down and too far: a straight leg, short of the target by the difference.
    quad_robot laikago = quad_laikago();
    const quad_leg_def* leg = &laikago.legs[1];
    double d = leg->upper[1] + leg->lower[1], q[3], missed;
    double target[3] = {leg->hip[0], leg->hip[1] + d, leg->hip[2] - 1.0};
    assert_false(quad_leg_angles(leg, target, q, &missed));
    double length = hypot(leg->lower[0], leg->lower[2]) + hypot(leg->toe[0], leg->toe[2]);
    // Its knee cannot be straight (limit 0, straight at 0.51): it comes a little less far.
    assert_true(missed >= 1.0 - length && missed < 1.0 - length + 0.02);
    assert_true(q[2] == 0.0);
}

static void strange_targets_give_numbers(void** state) {
    (void)state;
    quad_robot a1 = quad_a1();
    const double* hip = a1.legs[0].hip;
    const double targets[][3] = {{hip[0], hip[1], hip[2]},
                                 {1e300, 0, 0},
                                 {0, 0, -1e300},
                                 {hip[0], hip[1] - 0.08505, hip[2]}};
    for (int k = 0; k < 4; k++) {
        double q[3], missed;
        quad_leg_angles(&a1.legs[0], targets[k], q, &missed);
        for (int i = 0; i < 3; i++) assert_true(isfinite(q[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(toes_are_where_the_drawings_have_them),
        cmocka_unit_test(jacobians_are_slopes),
        cmocka_unit_test(jacobians_of_other_points_are_those_of_a_longer_shank),
        cmocka_unit_test(angles_lead_back_to_the_toe),
        cmocka_unit_test(out_of_reach_is_told_and_approached),
        cmocka_unit_test(strange_targets_give_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
