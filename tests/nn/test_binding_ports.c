// What an instance reads and writes: lags, velocities, outputs that act on something.

#include "nn/binding_rig.h"

static const uint8_t* moving(void) {
    static uint8_t affects_state[NNAME];
    for (int i = 0; i < NNAME; i++) {
        affects_state[i] =
            strncmp(names[i], "link/shin/", 10) != 0 && strncmp(names[i], "q/", 2) != 0;
    }
    return affects_state;
}

static void lags_are_expanded_and_kept(void** state) {
    (void)state;
    // Earlier values of what comes later, and of the output itself, are there.
    check_binding("- {name: a, inputs: ['prev:qdd/*', 'lag3:joint/hip/tau', 'prev:q/0', q/0],"
                  " outputs: joint/hip/tau}\n"
                  "- {name: b, inputs: ['lag2:qdd/1', q/0], outputs: qdd/1}\n",
                  "a: qdd/0-1 qdd/1-1 joint/hip/tau-1 joint/hip/tau-2 joint/hip/tau-3 q/0-1 q/0 ->"
                  " joint/hip/tau\n"
                  "b: qdd/1-1 qdd/1-2 q/0 -> qdd/1\n"
                  "keep 1 of q/0\nkeep 3 of joint/hip/tau\nkeep 1 of qdd/0\nkeep 2 of qdd/1\n");
}

static void velocities_are_known(void** state) {
    (void)state;
    check_binding("- {name: d, each: link/*, inputs: '{}/velocity/com/x', structure: dissipative,"
                  " outputs: ['{}/force/x', '{}/force/y', '{}/torque/z']}\n",
                  "d: link/thigh/velocity/com/x -> link/thigh/force/x link/thigh/force/y"
                  " link/thigh/torque/z | link/thigh/velocity/com/x link/thigh/velocity/com/y"
                  " link/thigh/velocity/angular/z\n"
                  "d: link/shin/velocity/com/x -> link/shin/force/x link/shin/force/y"
                  " link/shin/torque/z | link/shin/velocity/com/x link/shin/velocity/com/y"
                  " link/shin/velocity/angular/z\n");
    check_binding("- {name: d, inputs: q/0, structure: dissipative,"
                  " outputs: [joint/hip/tau, 'joint/ball/tau/*']}\n",
                  "d: q/0 -> joint/hip/tau joint/ball/tau/0 joint/ball/tau/1 joint/ball/tau/2 |"
                  " joint/hip/velocity joint/ball/velocity/0 joint/ball/velocity/1"
                  " joint/ball/velocity/2\n");
    check_binding("- {name: d, inputs: q/0, structure: dissipative,"
                  " outputs: [joint/hip/force/friction, joint/ball/force/damping/2]}\n",
                  "d: q/0 -> joint/hip/force/friction joint/ball/force/damping/2 |"
                  " joint/hip/velocity joint/ball/velocity/2\n");
    // Given ones.
    check_binding("- {name: d, each: 'joint/b*', inputs: q/0, structure: dissipative,"
                  " outputs: ['{}/tau/0', '{}/tau/1'], conjugate: ['{}/velocity/1', q/1]}\n",
                  "d: q/0 -> joint/ball/tau/0 joint/ball/tau/1 | joint/ball/velocity/1 q/1\n");
    check_binding("- {name: d, inputs: q/0, structure: dissipative, outputs: 'qdd/*',"
                  " conjugate: 'q/*'}\n",
                  "d: q/0 -> qdd/0 qdd/1 | q/0 q/1\n");
}

static void outputs_must_have_an_effect(void** state) {
    (void)state;
    static const wrong rows[] = {
        {"- {name: n, inputs: q/0, outputs: q/1}\n",
         "f.yaml:2:35: network \"n\": outputs: nothing in the step depends on \"q/1\", so that a"
         " network there has no effect",
         0},
        {"- {name: n, each: link/shin, inputs: q/0, outputs: '{}/force/x'}\n",
         "f.yaml:2:52: network \"n\": outputs: nothing in the step depends on them at any match of"
         " `each` (\"link/shin\"), such as link/shin: \"{}/force/x\"",
         0},
    };
    check_wrong(rows, sizeof rows / sizeof *rows, moving());

    // Where no output of a match has an effect, the match is left out.
    ns_blueprint* blueprint =
        parse("- {name: n, each: 'link/*', inputs: q/0, outputs: '{}/force/x'}\n");
    nsi_binding* binding = NULL;
    assert_int_equal(nsi_binding_create(blueprint,
                                        &(nsi_binding_quantities){.count = NNAME,
                                                                  .names = names,
                                                                  .affects_state = moving(),
                                                                  .conjugate = conjugate,
                                                                  .spatial = spatial},
                                        NULL, &binding, NULL),
                     NS_OK);
    assert_string_equal(describe(binding), "n: q/0 -> link/thigh/force/x\n");
    nsi_binding_free(binding);
    ns_blueprint_free(blueprint);
}

static void a_velocity_may_be_missing(void** state) {
    (void)state;
    static const char* const few[] = {"q/0", "joint/a/tau", "joint/a/velocity", "joint/b/tau"};
    static const char* const few_conjugate[] = {NULL, "joint/a/velocity", NULL, "joint/b/velocity"};
    static const struct {
        const char *output, *message;
    } rows[] = {
        {"joint/b/tau", "conjugate: the velocity \"joint/b/velocity\" of the output \"joint/b/tau\""
                        " does not exist here; give another"},
        {"joint/a/tau", "conjugate: \"joint/a/velocity\" is not computed before the output"},
        {"joint/a/velocity", "conjugate: which velocity belongs to"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static const char* const inputs[] = {"q/0"};
        ns_network_def def = ns_default_network_def();
        def.name = "n";
        def.inputs = inputs, def.ninput = 1;
        def.outputs = &rows[i].output, def.noutput = 1;
        def.structure = NS_STRUCTURE_DISSIPATIVE;
        ns_blueprint* blueprint = NULL;
        assert_int_equal(ns_blueprint_create(NULL, &blueprint, NULL), NS_OK);
        assert_int_equal(ns_blueprint_add(blueprint, &def, NULL), NS_OK);
        nsi_binding* binding = NULL;
        ns_error error;
        assert_int_equal(
            nsi_binding_create(
                blueprint,
                &(nsi_binding_quantities){.count = 4, .names = few, .conjugate = few_conjugate},
                NULL, &binding, &error),
            NS_ERR_ARGUMENT);
        // Made by calls: no file and line.
        assert_int_equal(strncmp(error.message, "network \"n\": ", 13), 0);
        if (!strstr(error.message, rows[i].message)) fail_msg("%s", error.message);
        ns_blueprint_free(blueprint);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lags_are_expanded_and_kept),
        cmocka_unit_test(velocities_are_known),
        cmocka_unit_test(outputs_must_have_an_effect),
        cmocka_unit_test(a_velocity_may_be_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
