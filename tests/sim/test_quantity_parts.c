// The parts of names of quantities, also where names of links, joints and actuators mislead.

#define _XOPEN_SOURCE 700

#include "sim/quantity_parts.h"
#include "support/assert.h"

typedef struct expectation {
    const char *name, *group, *family, *object, *component;
    uint32_t rank, index[2];
    bool spatial;
} expectation;

static void check_parts(const ns_model* model, const expectation* list, size_t count) {
    for (size_t k = 0; k < count; k++) {
        const expectation* x = &list[k];
        nsi_quantity_parts parts;
        nsi_quantity_parts_of(model, x->name, &parts);
        assert_string_equal(parts.group, x->group);
        assert_string_equal(parts.family, x->family);
        assert_string_equal(parts.object, x->object);
        assert_string_equal(parts.component, x->component);
        assert_int_equal(parts.rank, x->rank);
        for (uint32_t r = 0; r < x->rank; r++) assert_int_equal(parts.index[r], x->index[r]);
        assert_int_equal(parts.spatial, x->spatial);
    }
}

static void names_have_groups_and_families(void** state) {
    (void)state;
    ns_load_options options = ns_default_load_options();
    options.ground = true;
    ns_model* model = NULL;
    assert_int_equal(
        ns_model_load(NEURALSIM_SOURCE_DIR "/models/quadruped.urdf", &options, &model, NULL),
        NS_OK);
    static const expectation list[] = {
        {"qdd/17", "qdd", "qdd", "", "", 1, {17, 0}, false},
        {"mass_matrix/2/11", "mass_matrix", "mass_matrix", "", "", 2, {2, 11}, false},
        {"energy/total", "energy/total", "energy/total", "", "", 0, {0}, false},
        {"com/x", "com", "com", "", "x", 0, {0}, true},
        {"momentum/linear/z", "momentum/linear", "momentum/linear", "", "z", 0, {0}, true},
        {"link/trunk/pose/y", "link/trunk/pose", "link/*/pose", "link", "y", 0, {0}, true},
        {"link/trunk/pose/qy", "link/trunk/pose", "link/*/pose", "link", "qy", 0, {0}, false},
        {"link/trunk/jacobian/linear/0/4",
         "link/trunk/jacobian/linear",
         "link/*/jacobian/linear",
         "link",
         "",
         2,
         {0, 4},
         false},
        {"joint/root/tau/3", "joint/root/tau", "joint/*/tau", "joint", "", 1, {3}, false},
        {"joint/FR_knee/tau", "joint/FR_knee/tau", "joint/*/tau", "joint", "", 0, {0}, false},
        {"contact/FR_calf_geom3:ground/0/force/x",
         "contact/FR_calf_geom3:ground/0/force",
         "contact/*/*/force",
         "point",
         "x",
         0,
         {0},
         true},
        {"contact/penetration",
         "contact/penetration",
         "contact/penetration",
         "",
         "",
         0,
         {0},
         false},
        // Parameters.
        {"contact/FR_calf_geom3:ground/mu",
         "contact/FR_calf_geom3:ground/mu",
         "contact/*/mu",
         "contact",
         "",
         0,
         {0},
         false},
        {"link/trunk/com/z", "link/trunk/com", "link/*/com", "link", "z", 0, {0}, true},
        {"link/trunk/inertia/xy",
         "link/trunk/inertia/xy",
         "link/*/inertia/xy",
         "link",
         "",
         0,
         {0},
         true},
        {"joint/FR_knee/origin/rx",
         "joint/FR_knee/origin/rx",
         "joint/*/origin/rx",
         "joint",
         "",
         0,
         {0},
         true},
        {"joint/FR_knee/damping",
         "joint/FR_knee/damping",
         "joint/*/damping",
         "joint",
         "",
         0,
         {0},
         false},
    };
    check_parts(model, list, sizeof list / sizeof *list);
    ns_model_free(model);
}

// A link "3" on a joint "x/tau", one with slashes in its name, and an actuator "x".
static void objects_may_have_any_name(void** state) {
    (void)state;
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    ns_link_def link = ns_default_link_def();
    ns_actuator_def actuator = ns_default_actuator_def();
    link.name = "3";
    link.joint = "x/tau";
    link.joint_type = NS_JOINT_REVOLUTE;
    link.mass = 1.0;
    link.com[0] = 0.5;
    assert_int_equal(ns_model_builder_create(NULL, &builder, NULL), NS_OK);
    assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_OK);
    link.name = "3/pose/x";
    link.joint = "x";
    assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_OK);
    actuator.name = "x";
    actuator.joint = "x";
    assert_int_equal(ns_model_builder_add_actuator(builder, &actuator, NULL), NS_OK);
    assert_int_equal(ns_model_builder_finish(builder, &model, NULL), NS_OK);

    static const expectation list[] = {
        {"link/3/pose/x", "link/3/pose", "link/*/pose", "link", "x", 0, {0}, true},
        {"link/3/pose/x/pose/qw", "link/3/pose/x/pose", "link/*/pose", "link", "qw", 0, {0}, false},
        {"joint/x/tau", "joint/x/tau", "joint/*/tau", "joint", "", 0, {0}, false},
        {"joint/x/tau/tau", "joint/x/tau/tau", "joint/*/tau", "joint", "", 0, {0}, false},
        {"control/x", "control/x", "control/x", "", "", 0, {0}, false},
    };
    check_parts(model, list, sizeof list / sizeof *list);
    ns_model_builder_free(builder);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_groups_and_families),
        cmocka_unit_test(objects_may_have_any_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
