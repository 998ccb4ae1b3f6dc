// Names of quantities: what globs, groups and {} stand for.

#include "nn/binding_rig.h"

static void names_and_globs_are_expanded(void** state) {
    (void)state;
    check_binding("  []\n", "");
    check_binding("- {name: a, inputs: q/1, outputs: joint/hip/tau}\n",
                  "a: q/1 -> joint/hip/tau\n");
    // In the order of names, whatever their letters are; single names in the order of the list.
    check_binding("- {name: a, inputs: ['link/*/velocity/com/?', q/1, q/0], outputs: 'qdd/*'}\n",
                  "a: link/thigh/velocity/com/x link/thigh/velocity/com/y link/shin/velocity/com/x"
                  " link/shin/velocity/com/y q/1 q/0 -> qdd/0 qdd/1\n");
    check_binding("- {name: a, inputs: 'joint/**', outputs: 'qdd/0'}\n",
                  "a: joint/hip/position joint/hip/velocity joint/ball/velocity/0"
                  " joint/ball/velocity/1 joint/ball/velocity/2 joint/hip/force/damping"
                  " joint/hip/force/friction joint/ball/force/damping/0 joint/ball/force/damping/1"
                  " joint/ball/force/damping/2 joint/hip/tau joint/ball/tau/0 joint/ball/tau/1"
                  " joint/ball/tau/2 -> qdd/0\n");
    // Another network's output is an input like any other.
    check_binding("- {name: b, inputs: joint/hip/tau, outputs: qdd/0}\n"
                  "- {name: a, inputs: actuator/motor/force, outputs: joint/hip/tau}\n",
                  "b: joint/hip/tau -> qdd/0\na: actuator/motor/force -> joint/hip/tau\n");
}

// Names by joint and actuator, as columns of tables have them, also with globs and {}.
static void names_of_columns_are_known(void** state) {
    (void)state;
    check_binding("- {name: a, inputs: [q_hip, 'lag2:qd_hip', qd_ball_1], outputs: tau_hip}\n",
                  "a: joint/hip/position joint/hip/velocity-1 joint/hip/velocity-2"
                  " joint/ball/velocity/1 -> joint/hip/tau\n"
                  "keep 2 of joint/hip/velocity\n");
    check_binding("- {name: a, inputs: qd_ball, outputs: tau_ball}\n",
                  "a: joint/ball/velocity/0 joint/ball/velocity/1 joint/ball/velocity/2 ->"
                  " joint/ball/tau/0 joint/ball/tau/1 joint/ball/tau/2\n");
    check_binding("- {name: a, inputs: 'qd_h*', outputs: qdd/0}\n",
                  "a: joint/hip/velocity -> qdd/0\n");

    char name[40];
    assert_true(nsi_quantity_alias("u_motor_2", false, name, sizeof name));
    assert_string_equal(name, "control/motor_2");
    assert_true(nsi_quantity_alias("tau_a_b_3", true, name, sizeof name));
    assert_string_equal(name, "joint/a_b/tau/3");
    static const char* const others[] = {"q0", "q_", "tau/0", "qdd_hip", "joint/hip/tau", ""};
    for (int k = 0; k < 6; k++)
        assert_false(nsi_quantity_alias(others[k], false, name, sizeof name));
    assert_false(nsi_quantity_alias("q_hip", true, name, sizeof name));
    assert_false(nsi_quantity_alias("q_a_name_that_is_too_long_for_it", false, name, sizeof name));
}

// The name of a group stands for its numbers; under `each` only that of a vector.
static void groups_are_expanded(void** state) {
    (void)state;
    ns_blueprint* blueprint = parse("- {name: n, each: link/th*, inputs: '{}/force', outputs:"
                                    " '{}/torque', hidden: []}\n");
    ns_error error = {0};
    nsi_binding* binding = NULL;
    // In the list below a thigh has forces x and y, and a torque z after them.
    assert_int_equal(nsi_binding_create(blueprint, &quantities, NULL, &binding, &error), NS_OK);
    assert_int_equal(binding->ninstance, 1);
    assert_int_equal(binding->instances[0].ninput, 2);
    assert_string_equal(binding->instances[0].inputs[1].name, "link/thigh/force/y");
    assert_int_equal(binding->instances[0].noutput, 1);
    assert_string_equal(binding->instances[0].outputs[0], "link/thigh/torque/z");
    nsi_binding_free(binding);
    ns_blueprint_free(blueprint);
}

static void names_with_glob_characters_stand_for_themselves(void** state) {
    (void)state;
    static const char* const odd_names[] = {"link/a*/v", "link/ab/v", "link/a*/f", "link/ab/f"};
    ns_blueprint* blueprint =
        parse("- {name: n, each: 'link/*', inputs: '{}/v', outputs: '{}/f'}\n");
    nsi_binding* binding = NULL;
    assert_int_equal(nsi_binding_create(blueprint,
                                        &(nsi_binding_quantities){.count = 4, .names = odd_names},
                                        NULL, &binding, NULL),
                     NS_OK);
    assert_string_equal(describe(binding),
                        "n: link/a*/v -> link/a*/f\nn: link/ab/v -> link/ab/f\n");
    nsi_binding_free(binding);
    ns_blueprint_free(blueprint);
}

static void names_may_change_afterwards(void** state) {
    (void)state;
    char input[] = "q/0", output[] = "qdd/0";
    const char* own[] = {input, output};
    ns_blueprint* blueprint = parse("- {name: a, inputs: ['q/*', 'prev:q/0'], outputs: 'qdd/*'}\n");
    nsi_binding* binding = NULL;
    assert_int_equal(nsi_binding_create(blueprint,
                                        &(nsi_binding_quantities){.count = 2, .names = own}, NULL,
                                        &binding, NULL),
                     NS_OK);
    input[0] = output[0] = 'X';
    own[0] = own[1] = NULL;
    assert_string_equal(describe(binding), "a: q/0 q/0-1 -> qdd/0\nkeep 1 of q/0\n");
    nsi_binding_free(binding);
    nsi_binding_free(NULL);
    ns_blueprint_free(blueprint);
}

static void many_names_are_handled(void** state) {
    (void)state;
    enum { LINKS = 3000 };
    static char text[4 * LINKS + 1][32];
    static const char* many[4 * LINKS + 1];
    for (int i = 0; i < LINKS; i++) {
        snprintf(text[2 * i], 32, "link/l%d/v/x", i);
        snprintf(text[2 * i + 1], 32, "link/l%d/v/y", i);
        snprintf(text[2 * LINKS + 2 * i], 32, "link/l%d/f/x", i);
        snprintf(text[2 * LINKS + 2 * i + 1], 32, "link/l%d/f/y", i);
    }
    snprintf(text[4 * LINKS], 32, "end");
    for (int i = 0; i <= 4 * LINKS; i++) many[i] = text[i];
    ns_blueprint* blueprint =
        parse("- {name: n, each: 'link/*', inputs: '{}/v/*', outputs: '{}/f/?'}\n");
    nsi_binding* binding = NULL;
    ns_error error;
    assert_int_equal(
        nsi_binding_create(blueprint,
                           &(nsi_binding_quantities){.count = 4 * LINKS + 1, .names = many}, NULL,
                           &binding, &error),
        NS_OK);
    assert_int_equal(binding->ninstance, LINKS);
    assert_string_equal(binding->instances[1234].inputs[1].name, "link/l1234/v/y");
    assert_string_equal(binding->instances[1234].outputs[1], "link/l1234/f/y");
    nsi_binding_free(binding);
    ns_blueprint_free(blueprint);

    // Too many for one network, and for the matrix of a dissipative one.
    blueprint = parse("- {name: n, inputs: 'link/*/v/*', outputs: end}\n");
    assert_int_equal(
        nsi_binding_create(blueprint,
                           &(nsi_binding_quantities){.count = 4 * LINKS + 1, .names = many}, NULL,
                           &binding, &error),
        NS_ERR_LIMIT);
    ns_blueprint_free(blueprint);
    blueprint = parse("- {name: n, inputs: link/l0/v/x, outputs: 'link/l1*/f/*',"
                      " conjugate: 'link/l1*/v/*', structure: dissipative}\n");
    assert_int_equal(
        nsi_binding_create(blueprint,
                           &(nsi_binding_quantities){.count = 4 * LINKS + 1, .names = many}, NULL,
                           &binding, &error),
        NS_ERR_LIMIT);
    assert_string_equal(error.message,
                        "f.yaml:2:43: network \"n\": outputs: 2222 are too many for the structure"
                        " dissipative, which is learned as a matrix of at most 16383 numbers");
    ns_blueprint_free(blueprint);
}

static void no_names_at_all(void** state) {
    (void)state;
    ns_blueprint* blueprint = parse("- {name: n, inputs: q/0, outputs: qdd/0}\n");
    nsi_binding* binding = NULL;
    ns_error error;
    assert_int_equal(nsi_binding_create(blueprint, &(nsi_binding_quantities){.count = 0}, NULL,
                                        &binding, &error),
                     NS_ERR_ARGUMENT);
    assert_string_equal(error.message,
                        "f.yaml:2:35: network \"n\": outputs: no quantity is called \"qdd/0\"");
    ns_blueprint_free(blueprint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_globs_are_expanded),
        cmocka_unit_test(names_of_columns_are_known),
        cmocka_unit_test(groups_are_expanded),
        cmocka_unit_test(names_with_glob_characters_stand_for_themselves),
        cmocka_unit_test(names_may_change_afterwards),
        cmocka_unit_test(many_names_are_handled),
        cmocka_unit_test(no_names_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
