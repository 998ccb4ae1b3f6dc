// Footholds against sums by hand, and the swing path against what it must pass through.

#include "quadruped/swing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static bool near(double a, double b) {
    return fabs(a - b) < 1e-12;
}

static void footholds_are_those_computed_by_hand(void** state) {
    (void)state;
    quad_swing_options swing = quad_default_controller_options().swing;
    const double at[2] = {0.2, 0.1}, still[2] = {0}, moving[2] = {0.5, -0.1};
    quad_command stop = {{0}, 0}, go = {{0.6, 0.2}, 0.8};
    double target[3];
    // At rest: under the hip.
    quad_swing_target(&swing, 0.3, at, still, 0.0, &stop, 0.42, target);
    assert_true(near(target[0], 0.2) && near(target[1], 0.1) && near(target[2], -0.41));
    // Moving as wanted: half of what the hip moves in a stance ahead.
    quad_command same = {{0.5, -0.1}, 0.0};
    quad_swing_target(&swing, 0.3, at, moving, 0.0, &same, 0.42, target);
    assert_true(near(target[0], 0.2 + 0.075) && near(target[1], 0.1 - 0.015));
    // Turning at 0.5 rad/s the hip moves with (-0.05, 0.1) m/s.
    quad_swing_target(&swing, 0.3, at, moving, 0.5, &go, 0.42, target);
    double v[2] = {0.45, 0.0}, wanted[2] = {0.6 - 0.08, 0.2 + 0.16};
    for (int i = 0; i < 2; i++) {
        assert_true(near(target[i], at[i] + 0.15 * v[i] - 0.03 * (wanted[i] - v[i])));
    }
}

static void paths_go_from_start_over_the_apex_to_the_end(void** state) {
    (void)state;
    quad_swing_options swing = quad_default_controller_options().swing;
    const double start[3] = {0.1, -0.1, -0.42}, end[3] = {0.3, -0.12, -0.4};
    double p[3], highest = -1.0, before = 0.0;
    quad_swing_path(&swing, 0.0, start, end, p);
    for (int i = 0; i < 3; i++) assert_true(near(p[i], start[i]));
    quad_swing_path(&swing, 1.0, start, end, p);
    for (int i = 0; i < 3; i++) assert_true(near(p[i], end[i]));
    // Half of the way at 0.8 sin(pi s) = 1/2: there it is 0.1 above the higher end.
    quad_swing_path(&swing, asin(0.625) / acos(-1.0), start, end, p);
    assert_true(near(p[0], 0.2) && near(p[1], -0.11) && near(p[2], -0.3));
    for (int k = 0; k <= 1000; k++) {
        quad_swing_path(&swing, k / 1000.0, start, end, p);
        assert_true(k == 0 || p[0] >= before - 1e-15);
        assert_true(k == 0 || p[0] - before < 0.002); // no jumps
        before = p[0];
        highest = fmax(highest, p[2]);
    }
    assert_true(highest >= -0.3 && highest < -0.298);
    // Phases outside are those at the ends.
    quad_swing_path(&swing, 1.7, start, end, p);
    assert_true(near(p[2], end[2]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(footholds_are_those_computed_by_hand),
        cmocka_unit_test(paths_go_from_start_over_the_apex_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
