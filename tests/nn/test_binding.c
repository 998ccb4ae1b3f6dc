// Blueprints laid onto names: uses, sets of weights, and what is refused.

#include "nn/binding_rig.h"

static void each_match_is_a_use(void** state) {
    (void)state;
    // The base has no force: skipped.
    check_binding(
        "- {name: drag, each: link/*, inputs: ['{}/velocity/com/*'], outputs: '{}/force/x'}\n",
        "drag: link/thigh/velocity/com/x link/thigh/velocity/com/y -> link/thigh/force/x\n"
        "drag: link/shin/velocity/com/x link/shin/velocity/com/y -> link/shin/force/x\n");
    check_binding("- {name: drag, each: link/*, weights: separate, inputs: '{}/velocity/com/x',"
                  " outputs: '{}/force/x'}\n",
                  "drag/link/thigh: link/thigh/velocity/com/x -> link/thigh/force/x\n"
                  "drag/link/shin: link/shin/velocity/com/x -> link/shin/force/x\n");
    // The points of a contact; {} may be used twice, and glob characters stay what they are.
    check_binding("- {name: c, each: contact/*/*, inputs: ['{}/gap', 'lag2:{}/force'],"
                  " outputs: '{}/force'}\n",
                  "c: contact/foot:ground/0/gap contact/foot:ground/0/force-1"
                  " contact/foot:ground/0/force-2 -> contact/foot:ground/0/force\n"
                  "c: contact/foot:ground/1/gap contact/foot:ground/1/force-1"
                  " contact/foot:ground/1/force-2 -> contact/foot:ground/1/force\n"
                  "keep 2 of contact/foot:ground/0/force\nkeep 2 of contact/foot:ground/1/force\n");
    // A glob of one match, without stars.
    check_binding("- {name: c, each: joint/hip, inputs: '{}/velocity', outputs: '{}/tau'}\n",
                  "c: joint/hip/velocity -> joint/hip/tau\n");
    // Different sizes need weights of their own.
    check_binding(
        "- {name: c, each: joint/*, weights: separate, inputs: '{}/velocity**',"
        " outputs: '{}/tau**'}\n",
        "c/joint/hip: joint/hip/velocity -> joint/hip/tau\n"
        "c/joint/ball: joint/ball/velocity/0 joint/ball/velocity/1 joint/ball/velocity/2 ->"
        " joint/ball/tau/0 joint/ball/tau/1 joint/ball/tau/2\n");
}

static void sets_follow_each_other(void** state) {
    (void)state;
    ns_blueprint* blueprint = parse(
        "- {name: a, each: 'link/*', weights: separate, inputs: '{}/velocity/com/*',"
        " outputs: '{}/force/x', hidden: [5]}\n"
        "- {name: b, inputs: [q/0, 'lag2:q/1'], outputs: [qdd/0, qdd/1], bias: false}\n"
        "- {name: c, inputs: q/0, outputs: [joint/ball/tau/0, joint/ball/tau/1],"
        " structure: dissipative}\n"
        "- {name: d, inputs: [q/0, q/1], outputs: [contact/foot:ground/0/force, joint/hip/tau],"
        " structure: conservative, hidden: [4]}\n");
    nsi_binding* binding = binding_of(blueprint);
    static const uint32_t counts[] = {3 * 5 + 6, 3 * 5 + 6, 3 * 2, 2 * 3, 3 * 4 + 4};
    uint32_t offset = 0;
    assert_int_equal(binding->nset, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(binding->sets[i].offset, offset);
        assert_int_equal(binding->sets[i].count, counts[i]);
        offset += counts[i];
    }
    assert_int_equal(binding->nweight, offset);
    assert_string_equal(binding->sets[1].name, "a/link/shin");
    assert_int_equal(binding->sets[1].ninput, 2);
    assert_int_equal(binding->sets[2].network, 1);
    assert_int_equal(binding->sets[2].ninput, 3);
    assert_int_equal(binding->sets[2].noutput, 2);
    nsi_binding_free(binding);
    ns_blueprint_free(blueprint);
}

static void wrong_blueprints_are_refused(void** state) {
    (void)state;
    static const wrong rows[] = {
        {"- name: n\n  inputs: joint/hip/velocty\n  outputs: qdd/0\n",
         "f.yaml:3:11: network \"n\": inputs: no quantity is called \"joint/hip/velocty\"; nearest:"
         " joint/hip/velocity, joint/ball/velocity/0, joint/ball/velocity/1",
         0},
        {"- name: n\n  inputs: [q/0,\n    'prev:p/*']\n  outputs: qdd/0\n",
         "f.yaml:4:5: network \"n\": inputs: no quantity fits \"p/*\"; nearest: q/0, q/1, qdd/0",
         0},
        {"- name: n\n  inputs: q/0\n  outputs: [qdd/0, qdd/2]\n",
         "f.yaml:4:20: network \"n\": outputs: no quantity is called \"qdd/2\"; nearest: qdd/0,"
         " qdd/1, q/0",
         0},
        {"- name: n\n  each: links/*\n  inputs: q/0\n  outputs: '{}/force/x'\n",
         "f.yaml:3:9: network \"n\": each: no beginning of a quantity's name, up to a '/', fits"
         " \"links/*\"; nearest: link, link/shin, link/base",
         0},
        {"- name: n\n  each: link/*\n  inputs: q/0\n  outputs: '{}/torque/x'\n",
         "f.yaml:5:12: network \"n\": outputs: none of them exists at any match of `each`"
         " (\"link/*\"), such as link/base: \"{}/torque/x\"",
         0},
        // Some outputs of a match exist and others do not.
        {"- name: n\n  each: link/*\n  inputs: q/0\n  outputs: ['{}/force/x', '{}/force/z']\n",
         "f.yaml:5:27: network \"n\", link/thigh: outputs: no quantity is called"
         " \"link/thigh/force/z\"; nearest: link/thigh/force/x, link/thigh/force/y,"
         " link/thigh/torque/z",
         0},
        {"- name: n\n  each: joint/*\n  inputs: '{}/velocity'\n  outputs: '{}/tau*/**'\n",
         "f.yaml:4:11: network \"n\", joint/ball: inputs: no quantity is called"
         " \"joint/ball/velocity\"; nearest: joint/ball/velocity/0, joint/ball/velocity/1,"
         " joint/ball/velocity/2",
         0},
        // order
        {"- name: n\n  inputs: [q/0, qdd/0]\n  outputs: joint/hip/tau\n",
         "f.yaml:3:17: network \"n\": inputs: \"qdd/0\" is not computed before the output"
         " \"joint/hip/tau\"; prev: takes the value of the step before",
         0},
        {"- name: n\n  inputs: qdd/0\n  outputs: qdd/0\n",
         "f.yaml:3:11: network \"n\": inputs: \"qdd/0\" is not computed before the output "
         "\"qdd/0\";"
         " prev: takes the value of the step before",
         0},
        {"- name: n\n  inputs: 'joint/*/tau'\n  outputs: [qdd/0, joint/hip/force/damping]\n",
         "f.yaml:3:11: network \"n\": inputs: \"joint/hip/tau\" is not computed before the output"
         " \"joint/hip/force/damping\"; prev: takes the value of the step before",
         0},
        // twice
        {"- name: n\n  inputs: q/0\n  outputs: [qdd/0, 'qdd/*']\n",
         "f.yaml:4:20: network \"n\": outputs: \"qdd/0\" is an output of network \"n\" already; a"
         " quantity has one network or formula at most",
         0},
        {"- {name: m, inputs: q/0, outputs: qdd/0}\n- name: n\n  inputs: q/0\n  outputs: 'qdd/*'\n",
         "f.yaml:5:12: network \"n\": outputs: \"qdd/0\" is an output of network \"m\" already; a"
         " quantity has one network or formula at most",
         0},
        {"- name: n\n  each: link/*\n  inputs: q/0\n  outputs: qdd/0\n",
         "f.yaml:5:12: network \"n\", link/thigh: outputs: \"qdd/0\" is an output of network \"n\""
         " already; a quantity has one network or formula at most",
         0},
        // against
        {"- {name: n, inputs: q/0, outputs: qdd/0, structure: dissipative}\n",
         "f.yaml:2:3: network \"n\": conjugate: which velocity belongs to the output \"qdd/0\" is "
         "not"
         " known; give it",
         0},
        {"- name: n\n  inputs: q/0\n  outputs: qdd/0\n  structure: dissipative\n  conjugate: q/2\n",
         "f.yaml:6:14: network \"n\": conjugate: no quantity is called \"q/2\"; nearest: q/0, q/1,"
         " qdd/0",
         0},
        {"- name: n\n  inputs: q/0\n  outputs: qdd/0\n  structure: dissipative\n  conjugate: "
         "'q/*'\n",
         "f.yaml:6:14: network \"n\": conjugate: 2 velocities for 1 outputs; give one for each, in"
         " their order",
         0},
        {"- name: n\n  inputs: q/0\n  outputs: qdd/0\n  structure: dissipative\n  conjugate: "
         "qdd/1\n",
         "f.yaml:6:14: network \"n\": conjugate: \"qdd/1\" is not computed before the output"
         " \"qdd/0\"",
         0},
        // sizes
        {"- {name: n, inputs: [q/0, q/1], outputs: qdd/0, structure: conservative}\n",
         "f.yaml:2:60: network \"n\": structure: conservative needs as many inputs as outputs, not "
         "2"
         " and 1",
         0},
        {"- {name: n, inputs: 'lag3:q/0', outputs: qdd/0, input_scale: [1, 2]}\n",
         "f.yaml:2:62: network \"n\": input_scale: 2 numbers for 3 inputs; give one for all, or one"
         " for each",
         0},
        {"- {name: n, inputs: 'q/*', outputs: qdd/0, input_shift: [1, 2, 3]}\n",
         "f.yaml:2:57: network \"n\": input_shift: 3 numbers for 2 inputs; give one for all, or one"
         " for each",
         0},
        {"- {name: n, inputs: q/0, outputs: 'qdd/*', output_scale: [1, 2, 3]}\n",
         "f.yaml:2:58: network \"n\": output_scale: 3 numbers for 2 outputs; give one for all, or"
         " one for each",
         0},
        {"- {name: n, inputs: q/0, outputs: joint/hip/tau, structure: dissipative,\n"
         "   conjugate_scale: [1, 2]}\n",
         "f.yaml:3:21: network \"n\": conjugate_scale: 2 numbers for 1 outputs; give one for all, "
         "or"
         " one for each",
         0},
        {"- name: n\n  each: joint/*\n  inputs: '{}/velocity**'\n  outputs: '{}/tau**'\n",
         "f.yaml:3:9: network \"n\", joint/ball: each: there are 3 inputs and 3 outputs here, but 1"
         " and 1 at the matches before, which use the same weights; name fewer, or make the weights"
         " separate",
         0},
        {"- {name: n, inputs: ['lag1000:q/*', 'lag1000:qdd/*', 'lag97:q/0'], outputs: qdd/0}\n",
         "f.yaml:2:54: network \"n\": inputs: more than 4096 after globs and lags", NS_ERR_LIMIT},
        {"- {name: m, inputs: q/0, outputs: qdd/1}\n"
         "- {name: n, inputs: q/0, outputs: qdd/0, hidden: [4096, 4096, 4096, 4096, 4096, 4096]}\n",
         "f.yaml:3:3: network \"n\": with its 83918849 weights there are more than 67108864 in all",
         NS_ERR_LIMIT},
    };
    check_wrong(rows, sizeof rows / sizeof *rows, NULL);
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    ns_blueprint* blueprint =
        parse(TWO_SETS "- {name: b, inputs: ['q/*', 'lag2:qdd/*'], outputs: joint/hip/tau,"
                       " structure: dissipative}\n");
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        nsi_binding* binding = NULL;
        ns_error error = {0};
        ns_status status = nsi_binding_create(blueprint, &quantities, &allocator, &binding, &error);
        bool reached = counter.calls >= n;
        assert_int_equal(status, reached ? NS_ERR_NOMEM : NS_OK);
        assert_true((binding == NULL) == reached);
        nsi_binding_free(binding);
        assert_int_equal(counter.live_blocks, 0);
        if (!reached) {
            print_message("%zu allocations\n", counter.calls);
            break;
        }
    }
    ns_blueprint_free(blueprint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_match_is_a_use),
        cmocka_unit_test(sets_follow_each_other),
        cmocka_unit_test(wrong_blueprints_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
