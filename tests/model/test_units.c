// Units of coordinates, velocities and forces, by joint and by number of the model.

#include "model/model_data.h"
#include "support/assert.h"

static const ns_joint_type types[] = {NS_JOINT_REVOLUTE, NS_JOINT_PRISMATIC, NS_JOINT_SPHERICAL};

// A hinge, then a slider, then a ball joint.
static ns_model* chain_model(void) {
    static const char* const names[] = {"hinge", "slider", "ball"};
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    assert_int_equal(ns_model_builder_create(NULL, &builder, NULL), NS_OK);
    for (int k = 0; k < 3; k++) {
        ns_link_def link = ns_default_link_def();
        link.name = names[k];
        link.parent = k > 0 ? names[k - 1] : NULL;
        link.joint_type = types[k];
        link.mass = 1.0;
        for (int i = 0; i < 3; i++) link.inertia[i] = 0.1;
        assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_OK);
    }
    assert_int_equal(ns_model_builder_finish(builder, &model, NULL), NS_OK);
    ns_model_builder_free(builder);
    return model;
}

static void joints_say_their_units(void** state) {
    (void)state;
    nsi_link link = {.def = ns_default_link_def()};
    link.def.joint_type = NS_JOINT_FLOATING; // x y z, quaternion; linear, angular velocity
    assert_string_equal(nsi_joint_position_unit(&link, 2), "m");
    assert_string_equal(nsi_joint_position_unit(&link, 3), "");
    assert_string_equal(nsi_joint_velocity_unit(&link, 2), "m/s");
    assert_string_equal(nsi_joint_velocity_unit(&link, 3), "rad/s");
    assert_string_equal(nsi_joint_force_unit(&link, 2), "N");
    assert_string_equal(nsi_joint_force_unit(&link, 3), "N m");
    link.def.joint_type = NS_JOINT_REVOLUTE;
    assert_string_equal(nsi_joint_position_unit(&link, 0), "rad");
    assert_false(nsi_joint_slides(&link, 0));
}

static void numbers_of_the_state_have_units(void** state) {
    (void)state;
    static const char* const units[] = {"rad",   "m",   "",      "",      "",      "",
                                        "rad/s", "m/s", "rad/s", "rad/s", "rad/s", ""};
    ns_model* model = chain_model();
    for (uint32_t k = 0; k < 12; k++) assert_string_equal(nsi_state_unit(model, k), units[k]);
    assert_string_equal(nsi_force_unit(model, 0), "N m");
    assert_string_equal(nsi_force_unit(model, 1), "N");
    assert_true(nsi_velocity_slides(model, 1));
    assert_false(nsi_velocity_slides(model, 4));
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joints_say_their_units),
        cmocka_unit_test(numbers_of_the_state_have_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
