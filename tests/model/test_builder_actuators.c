// Actuators that a builder refuses.

#include "model/builder_rig.h"
#include "model/model_data.h"
#include "support/assert.h"

#include <math.h>

static void expect_actuator_error(ns_model_builder* builder, const ns_actuator_def* actuator,
                                  const char* fragment) {
    ns_error error = {0};
    assert_int_equal(ns_model_builder_add_actuator(builder, actuator, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, fragment);
}

static void bad_actuators_are_named(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod("a", NULL);
    add(builder, &link);
    link = rod("b", "a");
    link.mimic = "a_joint";
    add(builder, &link);
    link = rod("c", "a");
    link.joint_type = NS_JOINT_FIXED;
    add(builder, &link);
    ns_actuator_def good = ns_default_actuator_def(), actuator = good;
    good.name = "m";
    good.joint = "a_joint";
    actuator = good;
    actuator.joint = NULL;
    expect_actuator_error(builder, &actuator, "there is no joint \"\"");
    actuator.joint = "nobody";
    expect_actuator_error(builder, &actuator, "actuator \"m\": there is no joint \"nobody\"");
    actuator.joint = "b_joint";
    expect_actuator_error(builder, &actuator, "it follows joint \"a_joint\"");
    actuator.joint = "c_joint";
    expect_actuator_error(builder, &actuator, "is fixed, which cannot be driven");
    actuator = good;
    actuator.type = (ns_actuator_type)9;
    expect_actuator_error(builder, &actuator, "type");
    actuator = good;
    actuator.gear = NAN;
    expect_actuator_error(builder, &actuator, "gear must be finite");
    actuator = good;
    actuator.kp = -1.0;
    expect_actuator_error(builder, &actuator, "kp must be zero or positive");
    actuator = good;
    actuator.kd = -1.0;
    expect_actuator_error(builder, &actuator, "kd must be zero or positive");
    actuator = good;
    actuator.control_limited = true;
    expect_actuator_error(builder, &actuator, "control_lower must be less than control_upper");
    actuator = good;
    actuator.force_limited = true;
    actuator.force_upper = INFINITY;
    expect_actuator_error(builder, &actuator, "force_lower must be less than force_upper");
    actuator = good;
    actuator.dynamics = NS_DYNAMICS_FILTER;
    actuator.time_constant = 0.0;
    expect_actuator_error(builder, &actuator, "time_constant must be positive");
    actuator.dynamics = (ns_actuator_dynamics)9;
    expect_actuator_error(builder, &actuator, "dynamics is none of ns_actuator_dynamics");
    actuator.dynamics = NS_DYNAMICS_INTEGRATOR;
    actuator.type = NS_ACTUATOR_SERIES_ELASTIC;
    expect_actuator_error(builder, &actuator, "series-elastic actuator cannot have an activation");
    actuator = good;
    actuator.activation_limited = true;
    expect_actuator_error(builder, &actuator, "activation_limited needs dynamics");
    actuator.dynamics = NS_DYNAMICS_INTEGRATOR;
    expect_actuator_error(builder, &actuator, "activation_lower must be less than");
    actuator = good;
    actuator.damping_ratio = 1.0;
    expect_actuator_error(builder, &actuator, "damping_ratio belongs to position actuators");
    actuator = good;
    actuator.gain[2] = NAN;
    expect_actuator_error(builder, &actuator, "gain");
    assert_int_equal(ns_model_builder_add_actuator(builder, &good, NULL), NS_OK);
    expect_actuator_error(builder, &good, "another actuator has this name");
    ns_model_builder_free(builder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_actuators_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
