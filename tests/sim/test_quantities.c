// What is told of the quantities of a step: unit, stage, and whether the motion depends on them.

#define _XOPEN_SOURCE 700

#include "neuralsim/sim.h"
#include "sim/system.h"
#include "support/assert.h"

#include <string.h>

typedef struct expectation {
    const char *name, *unit, *stage;
    int affects_state;
    bool met;
} expectation;

typedef struct expectations {
    expectation* list;
    size_t count;
    uint32_t seen;
} expectations;

static void compare(void* context, const ns_quantity_info* q) {
    expectations* e = context;
    e->seen++;
    for (size_t k = 0; k < e->count; k++) {
        expectation* x = &e->list[k];
        if (strcmp(x->name, q->name) != 0) continue;
        assert_false(x->met); // each name once
        x->met = true;
        const char* stage = ns_choice_name(&ns_stages, (int)q->stage);
        if (strcmp(x->unit, q->unit) != 0 || strcmp(x->stage, stage) != 0 ||
            x->affects_state != (int)q->affects_state) {
            fail_msg("%s: unit '%s', stage %s, affects_state %d", q->name, q->unit, stage,
                     q->affects_state);
        }
    }
}

static void check_quantities(const char* robot, int contact, expectation* list, size_t count) {
    ns_load_options load_options = ns_default_load_options();
    load_options.ground = true;
    ns_model* model = NULL;
    ns_error error;
    assert_int_equal(ns_model_load(robot, &load_options, &model, &error), NS_OK);
    ns_system_options options = ns_default_system_options();
    options.contact = contact;
    expectations e = {.list = list, .count = count};
    assert_int_equal(ns_model_quantities(model, &options, compare, &e, &error), NS_OK);
    for (size_t k = 0; k < count; k++) {
        if (!list[k].met) fail_msg("there is no %s", list[k].name);
    }
    assert_true(e.seen > count);
    options.contact = 7;
    assert_int_equal(ns_model_quantities(model, &options, compare, &e, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_quantities(NULL, NULL, compare, &e, &error), NS_ERR_ARGUMENT);
    ns_model_free(model);
}

static void quantities_have_unit_and_stage(void** state) {
    (void)state;
    expectation rigid[] = {
        {"q/0", "m", "start", 1, false},
        {"q/3", "", "start", 1, false},
        {"q/7", "rad", "start", 1, false},
        {"qd/0", "m/s", "start", 1, false},
        {"qd/3", "rad/s", "start", 1, false},
        {"tau/2", "N", "start", 1, false},
        {"link/trunk/mass", "kg", "start", 1, false},
        {"joint/root/position/6", "", "state", 0, false},
        {"joint/root/velocity/2", "m/s", "state", 0, false},
        {"energy/total", "J", "state", 0, false},
        {"momentum/angular/x", "kg m^2/s", "state", 0, false},
        {"link/trunk/pose/x", "m", "state", 1, false},
        {"link/trunk/pose/qx", "", "state", 1, false},
        {"link/trunk/velocity/com/z", "m/s", "state", 0, false},
        {"bias/0", "N", "forces", 1, false},
        {"link/trunk/force/x", "N", "forces", 1, false},
        {"link/trunk/torque/x", "N m", "forces", 1, false},
        {"joint/FR_knee/force/damping", "N m", "forces", 1, false},
        {"joint/root/tau/3", "N m", "forces", 1, false},
        {"qdd/0", "m/s^2", "acceleration", 1, false},
        {"qdd/17", "rad/s^2", "acceleration", 1, false},
        {"contact/FR_calf_geom3:ground/0/depth", "m", "impulses", 1, false},
        {"contact/FR_calf_geom3:ground/0/mu", "", "impulses", 1, false},
        {"contact/FR_calf_geom3:ground/0/restitution", "", "impulses", 1, false},
        {"contact/FR_calf_geom3:ground/0/force/normal", "N", "impulses", 1, false},
        {"contact/FR_calf_geom3:ground/0/force/x", "N", "impulses", 0, false},
        {"mass_matrix/0/0", "kg", "state", 1, false},
        {"mass_matrix/0/5", "kg m", "state", 1, false},
        {"mass_matrix/17/17", "kg m^2", "state", 1, false},
        {"link/trunk/jacobian/linear/0/0", "", "after", 0, false},
        {"link/trunk/jacobian/linear/0/4", "m", "after", 0, false},
        {"contact/penetration", "m", "after", 0, false},
    };
    check_quantities(NEURALSIM_SOURCE_DIR "/models/quadruped.urdf", NS_CONTACT_NCP, rigid,
                     sizeof rigid / sizeof *rigid);
    expectation springs[] = {
        {"contact/FR_calf_geom3:ground/0/velocity/tangent1", "m/s", "contact", 1, false},
        {"contact/FR_calf_geom3:ground/0/position/x", "m", "contact", 1, false},
        {"contact/FR_calf_geom3:ground/0/normal/z", "", "contact", 1, false},
        {"contact/FR_calf_geom3:ground/0/mu", "", "contact", 1, false},
        {"contact/FR_calf_geom3:ground/0/friction", "", "contact", 1, false},
        {"contact/FR_calf_geom3:ground/0/force/z", "N", "contact", 0, false},
    };
    check_quantities(NEURALSIM_SOURCE_DIR "/models/quadruped.urdf", NS_CONTACT_SPRING, springs,
                     sizeof springs / sizeof *springs);
}

// A hinge "a", and a slider whose joint is called like the hinge's velocity.
static ns_model* misleading_model(void) {
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    ns_link_def link = ns_default_link_def();
    link.name = "arm";
    link.joint = "a";
    link.joint_type = NS_JOINT_REVOLUTE;
    link.mass = 1.0;
    link.com[0] = 0.5;
    assert_int_equal(ns_model_builder_create(NULL, &builder, NULL), NS_OK);
    assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_OK);
    link.name = "plate";
    link.joint = "a/velocity";
    link.joint_type = NS_JOINT_PRISMATIC;
    assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_OK);
    assert_int_equal(ns_model_builder_finish(builder, &model, NULL), NS_OK);
    ns_model_builder_free(builder);
    return model;
}

static void units_do_not_follow_from_names(void** state) {
    (void)state;
    ns_model* model = misleading_model();
    expectation list[] = {
        {"joint/a/velocity", "rad/s", "state", 0, false},
        {"joint/a/velocity/position", "m", "state", 0, false},
        {"joint/a/velocity/velocity", "m/s", "state", 0, false},
        {"joint/a/velocity/tau", "N", "forces", 1, false},
        {"link/plate/force/x", "N", "forces", 1, false},
    };
    expectations e = {.list = list, .count = sizeof list / sizeof *list};
    assert_int_equal(ns_model_quantities(model, NULL, compare, &e, NULL), NS_OK);
    for (size_t k = 0; k < e.count; k++) assert_true(list[k].met);
    ns_model_free(model);
}

// Observations keep the unit of the quantity; numbers that are too large have none.
static void observations_have_units(void** state) {
    (void)state;
    ns_model* model = misleading_model();
    const char* observe[] = {"joint/*/position", "qdd/1", "link/arm/mass"};
    const char* free_params[] = {"link/arm/mass"};
    static const char* const names[] = {"joint/a/position", "qdd/1", "link/arm/mass"};
    static const char* const units[] = {"rad", "m/s^2", "kg"};
    ns_system_options options = ns_default_system_options();
    options.observe = observe, options.nobserve = 3;
    options.free_params = free_params, options.nfree = 1;
    ns_system* system = NULL;
    assert_int_equal(ns_system_create(model, &options, &system, NULL), NS_OK);
    uint32_t ny = ns_system_get_sizes(system).ny;
    for (size_t i = 0; i < 3; i++) {
        uint32_t k = 0;
        while (k < ny && strcmp(ns_system_observation_name(system, k), names[i]) != 0) k++;
        assert_true(k < ny);
        assert_string_equal(ns_system_observation_unit(system, k), units[i]);
    }
    assert_null(ns_system_observation_unit(system, ny));
    ns_system_free(system);
    ns_model_free(model);
}

// Forces of joints and links know the velocity along which they act, which is computed before them.
static void forces_have_velocities(void** state) {
    (void)state;
    static const struct {
        const char *force, *velocity;
    } rows[] = {{"joint/a/tau", "joint/a/velocity"},
                {"joint/a/velocity/tau", "joint/a/velocity/velocity"},
                {"joint/a/velocity/force/damping", "joint/a/velocity/velocity"},
                {"link/plate/force/y", "link/plate/velocity/com/y"},
                {"link/plate/torque/x", "link/plate/velocity/angular/x"},
                {"qdd/0", NULL}};
    enum { ROWS = sizeof rows / sizeof *rows };
    ns_model* model = misleading_model();
    ns_system_options options = ns_default_system_options();
    nsi_step_options step = nsi_system_step_options(model, &options);
    nsi_quantity_list list;
    assert_int_equal(nsi_step_quantities(model, &step, &list, NULL), NS_OK);
    uint32_t found = 0;
    for (uint32_t k = 0; k < list.count; k++) {
        const char* velocity = list.conjugate[k];
        for (uint32_t i = 0; i < ROWS; i++) {
            if (strcmp(rows[i].force, list.names[k]) != 0) continue;
            found++;
            assert_int_equal(velocity == NULL, rows[i].velocity == NULL);
            if (velocity) assert_string_equal(velocity, rows[i].velocity);
        }
        uint32_t at = 0;
        while (velocity && at < k && strcmp(list.names[at], velocity) != 0) at++;
        assert_true(!velocity || at < k);
    }
    assert_int_equal(found, ROWS);
    nsi_quantity_list_free(&list);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantities_have_unit_and_stage),
        cmocka_unit_test(units_do_not_follow_from_names),
        cmocka_unit_test(observations_have_units),
        cmocka_unit_test(forces_have_velocities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
