// Options of the controller out of range are named.

#include "base/common.h"
#include "quadruped/control.h"
#include "support/assert.h"

#include <math.h>

static void options_out_of_range_are_named(void** state) {
    (void)state;
    quad_robot robot = quad_a1();
    quad_controller_options options = quad_default_controller_options();
    quad_controller* controller = NULL;
    ns_error error;
    options.gait.duty_factor = 1.5;
    assert_int_equal(quad_controller_create(&robot, &options, NULL, &controller, &error),
                     NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "gait.duty_factor"));
    options = quad_default_controller_options();
    options.mpc.state_weights[4] = -1.0;
    assert_int_equal(quad_controller_create(&robot, &options, NULL, &controller, &error),
                     NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "state_weights[4]"));
    options = quad_default_controller_options();
    options.window = 0;
    assert_int_equal(quad_controller_create(&robot, &options, NULL, &controller, &error),
                     NS_ERR_ARGUMENT);
    robot.mass = NAN;
    assert_int_equal(quad_controller_create(&robot, NULL, NULL, &controller, &error),
                     NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "mass"));
    assert_null(controller);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_out_of_range_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
