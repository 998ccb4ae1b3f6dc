// Names of inputs: every one of them leads to its number, and ambiguous ones are not used.

#include "neuralsim/io_names.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <stdio.h>
#include <string.h>

// A ball joint, two hinges of which one has a series-elastic motor.
static ns_model* make_robot(const char* hinge, const ns_allocator* allocator) {
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    ns_error error;
    must(ns_model_builder_create(allocator, &builder, &error), &error);
    const char* joints[] = {"a", "free", hinge};
    const char* links[] = {"ball", "rod", "tip"};
    for (int k = 0; k < 3; k++) {
        ns_link_def link = ns_default_link_def();
        link.name = links[k];
        link.parent = k == 0 ? NULL : links[k - 1];
        link.joint = joints[k];
        link.joint_type = k == 0 ? NS_JOINT_SPHERICAL : NS_JOINT_REVOLUTE;
        link.mass = 1.0;
        link.inertia[0] = link.inertia[1] = link.inertia[2] = 0.1;
        must(ns_model_builder_add_link(builder, &link, &error), &error);
    }
    ns_actuator_def motor = ns_default_actuator_def();
    motor.name = "m";
    motor.joint = hinge;
    motor.type = NS_ACTUATOR_SERIES_ELASTIC;
    motor.kp = 1.0;
    must(ns_model_builder_add_actuator(builder, &motor, &error), &error);
    must(ns_model_builder_finish(builder, &model, &error), &error);
    ns_model_builder_free(builder);
    return model;
}

static ns_system* make_system(const ns_model* model) {
    static const char* const free_params[] = {"link/rod/mass"};
    ns_system_options options = ns_default_system_options();
    options.free_params = free_params;
    options.nfree = 1;
    options.backend = NS_BACKEND_INTERP;
    ns_system* system = NULL;
    ns_error error;
    must(ns_system_create(model, &options, &system, &error), &error);
    return system;
}

static void assert_target(const ns_io_names* names, const char* name, ns_io_kind kind,
                          uint32_t index) {
    ns_io_target target = ns_io_names_find(names, name);
    if (target.kind != kind || target.index != index) {
        fail_msg("%s is %d %u, and not %d %u", name, (int)target.kind, target.index, (int)kind,
                 index);
    }
}

static void names_lead_to_numbers(void** state) {
    (void)state;
    ns_model* model = make_robot("knee", NULL);
    ns_system* system = make_system(model);
    ns_io_names* names = NULL;
    ns_error error;
    must(ns_io_names_create(system, &names, &error), &error);
    assert_true(ns_io_names_by_joint(names));

    // State: q (4 + 1 + 1), qd (3 + 1 + 1), motor; control: u, tau (3 + 1 + 1)
    assert_target(names, "q_a_0", NS_IO_STATE, 0);
    assert_target(names, "q5", NS_IO_STATE, 5);
    assert_target(names, "q_knee", NS_IO_STATE, 5);
    assert_target(names, "qd_a_2", NS_IO_STATE, 8);
    assert_target(names, "motor_m", NS_IO_STATE, 11);
    assert_target(names, "motor/m", NS_IO_STATE, 11);
    assert_target(names, "u0", NS_IO_CONTROL, 0);
    assert_target(names, "u_m", NS_IO_CONTROL, 0);
    assert_target(names, "u_knee", NS_IO_CONTROL, 0); // its only actuator
    assert_target(names, "u_free", NS_IO_CONTROL, 4); // has none: the force
    assert_target(names, "tau_free", NS_IO_CONTROL, 4);
    assert_target(names, "link/rod/mass", NS_IO_PARAM, 0);
    assert_target(names, "q_a", NS_IO_NONE, 0);
    assert_target(names, "", NS_IO_NONE, 0);
    assert_string_equal(ns_io_names_state(names, 5), "q_knee");
    assert_string_equal(ns_io_names_control(names, 0), "u_m");
    assert_null(ns_io_names_state(names, 12));
    assert_null(ns_io_names_control(names, 6));

    for (uint32_t k = 0; k < ns_io_names_count(names); k++) {
        ns_io_target target;
        const char* name = ns_io_names_at(names, k, &target);
        assert_target(names, name, target.kind, target.index);
    }
    assert_null(ns_io_names_at(names, ns_io_names_count(names), NULL));
    ns_io_names_free(names);
    ns_io_names_free(NULL);
    ns_system_free(system);
    ns_model_free(model);
}

// q_a_0: of joint "a_0", or the first of joint "a"?
static void ambiguous_names_are_not_used(void** state) {
    (void)state;
    ns_model* model = make_robot("a_0", NULL);
    ns_system* system = make_system(model);
    ns_io_names* names = NULL;
    ns_error error;
    must(ns_io_names_create(system, &names, &error), &error);
    assert_false(ns_io_names_by_joint(names));
    assert_target(names, "q_a_0", NS_IO_NONE, 0);
    assert_target(names, "q_free", NS_IO_NONE, 0);
    assert_target(names, "q5", NS_IO_STATE, 5);
    assert_target(names, "link/rod/mass", NS_IO_PARAM, 0);
    assert_string_equal(ns_io_names_state(names, 5), "q5");
    ns_io_names_free(names);
    ns_system_free(system);
    ns_model_free(model);
}

static void out_of_memory_is_reported(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    for (int k = 0; k < 2; k++) {
        ns_model* model = make_robot(k == 0 ? "knee" : "a_0", &allocator);
        ns_system* system = make_system(model);
        size_t before = counter.live_blocks;
        ns_status status = NS_ERR_NOMEM;
        for (size_t n = 1; status == NS_ERR_NOMEM; n++) {
            ns_io_names* names = NULL;
            counter.calls = 0;
            counter.fail_at = n;
            status = ns_io_names_create(system, &names, NULL);
            counter.fail_at = 0;
            assert_true((status == NS_OK) == (names != NULL));
            ns_io_names_free(names);
            assert_int_equal(counter.live_blocks, before);
        }
        assert_int_equal(status, NS_OK);
        ns_system_free(system);
        ns_model_free(model);
    }
    assert_int_equal(counter.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_lead_to_numbers),
        cmocka_unit_test(ambiguous_names_are_not_used),
        cmocka_unit_test(out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
