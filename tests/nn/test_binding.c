// Blueprints laid onto names: what globs, {} and lags become, in which order, what is refused, and
// where weights come from.

#include "nn/binding.h"
#include "nn/blueprint_data.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

// Names as a step might have them: two links that move, one that is welded to the world and has no
// forces, a joint of one velocity and one of three, a contact.
static const char* const names[] = {
    "q/0",
    "q/1",
    "joint/hip/position",
    "joint/hip/velocity",
    "joint/ball/velocity/0",
    "joint/ball/velocity/1",
    "joint/ball/velocity/2",
    "link/base/pose/x",
    "link/thigh/velocity/com/x",
    "link/thigh/velocity/com/y",
    "link/thigh/velocity/angular/z",
    "link/shin/velocity/com/x",
    "link/shin/velocity/com/y",
    "link/shin/velocity/angular/z",
    "link/thigh/force/x",
    "link/thigh/force/y",
    "link/thigh/torque/z",
    "link/shin/force/x",
    "link/shin/force/y",
    "link/shin/torque/z",
    "joint/hip/force/damping",
    "joint/hip/force/friction",
    "joint/ball/force/damping/0",
    "joint/ball/force/damping/1",
    "joint/ball/force/damping/2",
    "actuator/motor/force",
    "joint/hip/tau",
    "joint/ball/tau/0",
    "joint/ball/tau/1",
    "joint/ball/tau/2",
    "qdd/0",
    "qdd/1",
    "contact/foot:ground/0/gap",
    "contact/foot:ground/0/force",
    "contact/foot:ground/1/gap",
    "contact/foot:ground/1/force",
};
enum { NNAME = sizeof names / sizeof *names };

// Velocities along which forces act.
static const char* const conjugate[NNAME] = {
    [14] = "link/thigh/velocity/com/x",
    [15] = "link/thigh/velocity/com/y",
    [16] = "link/thigh/velocity/angular/z",
    [17] = "link/shin/velocity/com/x",
    [18] = "link/shin/velocity/com/y",
    [19] = "link/shin/velocity/angular/z",
    [20] = "joint/hip/velocity",
    [21] = "joint/hip/velocity",
    [22] = "joint/ball/velocity/0",
    [23] = "joint/ball/velocity/1",
    [24] = "joint/ball/velocity/2",
    [26] = "joint/hip/velocity",
    [27] = "joint/ball/velocity/0",
    [28] = "joint/ball/velocity/1",
    [29] = "joint/ball/velocity/2",
};

// Numbers of vectors in space.
static const uint8_t spatial[NNAME] = {
    [7] = 1,  [8] = 1,  [9] = 1,  [10] = 1, [11] = 1, [12] = 1, [13] = 1,
    [14] = 1, [15] = 1, [16] = 1, [17] = 1, [18] = 1, [19] = 1};
static const nsi_binding_quantities quantities = {NNAME, names, NULL, conjugate, spatial};

static ns_blueprint* parse(const char* networks) {
    char text[4000];
    snprintf(text, sizeof text, "networks:\n%s", networks);
    ns_blueprint* blueprint = NULL;
    ns_error error;
    must(ns_blueprint_parse(text, strlen(text), "f.yaml", NULL, &blueprint, &error), &error);
    return blueprint;
}

static nsi_binding* binding_of(const ns_blueprint* blueprint) {
    nsi_binding* binding = NULL;
    ns_error error;
    must(nsi_binding_create(blueprint, &quantities, NULL, &binding, &error), &error);
    return binding;
}

// A binding as text: "set: inputs -> outputs | against", with "-<lag>" behind inputs, then
// what is remembered.
static const char* describe(const nsi_binding* binding) {
    static char text[8000];
    size_t at = 0;
#define PUT(...) at += (size_t)snprintf(text + at, sizeof text - at, __VA_ARGS__)
    text[0] = '\0';
    for (uint32_t i = 0; i < binding->ninstance; i++) {
        const nsi_network_instance* use = &binding->instances[i];
        PUT("%s:", binding->sets[use->set].name);
        for (uint32_t k = 0; k < use->ninput; k++) {
            PUT(" %s", use->inputs[k].name);
            if (use->inputs[k].lag > 0) PUT("-%u", use->inputs[k].lag);
        }
        PUT(" ->");
        for (uint32_t k = 0; k < use->noutput; k++) PUT(" %s", use->outputs[k]);
        for (uint32_t k = 0; k < use->noutput && use->conjugate; k++) {
            PUT("%s%s", k == 0 ? " | " : " ", use->conjugate[k]);
        }
        PUT("\n");
    }
    for (uint32_t i = 0; i < binding->nmemory; i++) {
        PUT("keep %u of %s\n", binding->memory[i].depth, binding->memory[i].name);
    }
#undef PUT
    return text;
}

static void check_binding(const char* networks, const char* expected) {
    ns_blueprint* blueprint = parse(networks);
    nsi_binding* binding = binding_of(blueprint);
    assert_string_equal(describe(binding), expected);
    // Every output is found at its use.
    uint32_t noutput = 0, output = 0;
    for (uint32_t i = 0; i < binding->ninstance; i++) {
        for (uint32_t k = 0; k < binding->instances[i].noutput; k++, noutput++) {
            assert_int_equal(
                nsi_binding_find_output(binding, binding->instances[i].outputs[k], &output), i);
            assert_int_equal(output, k);
        }
    }
    uint32_t found = 0;
    for (uint32_t i = 0; i < NNAME; i++) {
        found += nsi_binding_find_output(binding, names[i], &output) != NSI_NONE;
    }
    assert_int_equal(found, noutput);
    assert_int_equal(nsi_binding_find_output(binding, "nothing", &output), NSI_NONE);
    nsi_binding_free(binding);
    ns_blueprint_free(blueprint);
}

// ---- expansion -------------------------------------------------------------------------------

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

static void names_with_glob_characters_stand_for_themselves(void** state) {
    (void)state;
    static const char* const odd_names[] = {"link/a*/v", "link/ab/v", "link/a*/f", "link/ab/f"};
    ns_blueprint* blueprint =
        parse("- {name: n, each: 'link/*', inputs: '{}/v', outputs: '{}/f'}\n");
    nsi_binding* binding = NULL;
    assert_int_equal(nsi_binding_create(blueprint,
                                        &(nsi_binding_quantities){4, odd_names, NULL, NULL, NULL},
                                        NULL, &binding, NULL),
                     NS_OK);
    assert_string_equal(describe(binding),
                        "n: link/a*/v -> link/a*/f\nn: link/ab/v -> link/ab/f\n");
    nsi_binding_free(binding);
    ns_blueprint_free(blueprint);
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

static void names_may_change_afterwards(void** state) {
    (void)state;
    char input[] = "q/0", output[] = "qdd/0";
    const char* own[] = {input, output};
    ns_blueprint* blueprint = parse("- {name: a, inputs: ['q/*', 'prev:q/0'], outputs: 'qdd/*'}\n");
    nsi_binding* binding = NULL;
    assert_int_equal(nsi_binding_create(blueprint,
                                        &(nsi_binding_quantities){2, own, NULL, NULL, NULL}, NULL,
                                        &binding, NULL),
                     NS_OK);
    input[0] = output[0] = 'X';
    own[0] = own[1] = NULL;
    assert_string_equal(describe(binding), "a: q/0 q/0-1 -> qdd/0\nkeep 1 of q/0\n");
    nsi_binding_free(binding);
    nsi_binding_free(NULL);
    ns_blueprint_free(blueprint);
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

static void layers_have_the_documented_shapes(void** state) {
    (void)state;
    static const uint32_t hidden[] = {7, 5};
    ns_network_def def = ns_default_network_def();
    def.hidden = hidden, def.nhidden = 2;
    nsi_layer layers[NSI_MAX_LAYERS];
    for (int kind = 0; kind < 4; kind++) {
        def.no_bias = kind == 3;
        def.structure = kind == 1   ? NS_STRUCTURE_DISSIPATIVE
                        : kind == 2 ? NS_STRUCTURE_CONSERVATIVE
                                    : NS_STRUCTURE_EVEN;
        uint32_t bias = kind == 3 ? 0 : 1, last = kind == 1 ? 6 : kind == 2 ? 1 : 3;
        assert_int_equal(nsi_network_layers(&def, 3, 3, layers), 3);
        // A constant in the potential would have no effect: no bias there.
        const uint32_t rows[] = {3 + bias, 7 + bias, 5 + (kind == 2 ? 0 : bias)};
        const uint32_t columns[] = {7, 5, last};
        uint32_t offset = 0;
        for (int k = 0; k < 3; k++) {
            assert_int_equal(layers[k].rows, rows[k]);
            assert_int_equal(layers[k].columns, columns[k]);
            assert_int_equal(layers[k].offset, offset);
            assert_int_equal(layers[k].bias, kind == 2 && k == 2 ? 0 : bias);
            offset += rows[k] * columns[k];
        }
        assert_int_equal(nsi_network_weight_count(&def, 3, 3), offset);
    }
    // Sizes that do not fit 32 bits.
    def.nhidden = 0;
    def.no_bias = false;
    def.structure = NS_STRUCTURE_DISSIPATIVE;
    assert_true(nsi_network_weight_count(&def, 4096, 4096) == 4097ull * (4096ull * 4097 / 2));
}

// ---- errors ----------------------------------------------------------------------------------

typedef struct wrong {
    const char *networks, *message;
    ns_status status; // NS_OK: NS_ERR_ARGUMENT
} wrong;

static const uint8_t* moving(void) {
    static uint8_t affects_state[NNAME];
    for (int i = 0; i < NNAME; i++) {
        affects_state[i] =
            strncmp(names[i], "link/shin/", 10) != 0 && strncmp(names[i], "q/", 2) != 0;
    }
    return affects_state;
}

static void check_wrong(const wrong* rows, size_t count, const uint8_t* affects_state) {
    for (size_t i = 0; i < count; i++) {
        ns_blueprint* blueprint = parse(rows[i].networks);
        nsi_binding* binding = NULL;
        ns_error error = {0};
        ns_status expected = rows[i].status == NS_OK ? NS_ERR_ARGUMENT : rows[i].status;
        ns_status status = nsi_binding_create(
            blueprint, &(nsi_binding_quantities){NNAME, names, affects_state, conjugate, spatial},
            NULL, &binding, &error);
        if (status != expected || strcmp(error.message, rows[i].message) != 0) {
            fail_msg("%s\ngives %d: \"%s\"\nand not \"%s\"", rows[i].networks, status,
                     error.message, rows[i].message);
        }
        assert_int_equal(error.status, expected);
        assert_null(binding);
        ns_blueprint_free(blueprint);
    }
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
    assert_int_equal(
        nsi_binding_create(blueprint,
                           &(nsi_binding_quantities){NNAME, names, moving(), conjugate, spatial},
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
            nsi_binding_create(blueprint,
                               &(nsi_binding_quantities){4, few, NULL, few_conjugate, NULL}, NULL,
                               &binding, &error),
            NS_ERR_ARGUMENT);
        // Made by calls: no file and line.
        assert_int_equal(strncmp(error.message, "network \"n\": ", 13), 0);
        if (!strstr(error.message, rows[i].message)) fail_msg("%s", error.message);
        ns_blueprint_free(blueprint);
    }
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
                           &(nsi_binding_quantities){4 * LINKS + 1, many, NULL, NULL, NULL}, NULL,
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
                           &(nsi_binding_quantities){4 * LINKS + 1, many, NULL, NULL, NULL}, NULL,
                           &binding, &error),
        NS_ERR_LIMIT);
    ns_blueprint_free(blueprint);
    blueprint = parse("- {name: n, inputs: link/l0/v/x, outputs: 'link/l1*/f/*',"
                      " conjugate: 'link/l1*/v/*', structure: dissipative}\n");
    assert_int_equal(
        nsi_binding_create(blueprint,
                           &(nsi_binding_quantities){4 * LINKS + 1, many, NULL, NULL, NULL}, NULL,
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
    assert_int_equal(nsi_binding_create(blueprint,
                                        &(nsi_binding_quantities){0, NULL, NULL, NULL, NULL}, NULL,
                                        &binding, &error),
                     NS_ERR_ARGUMENT);
    assert_string_equal(error.message,
                        "f.yaml:2:35: network \"n\": outputs: no quantity is called \"qdd/0\"");
    ns_blueprint_free(blueprint);
}

// ---- weights ---------------------------------------------------------------------------------

#define TWO_SETS                                                                                   \
    "- {name: a, each: 'link/*', weights: separate, inputs: '{}/velocity/com/x',"                  \
    " outputs: '{}/force/x', hidden: [2]}\n"

static void weights_are_random_or_loaded(void** state) {
    (void)state;
    ns_blueprint* blueprint = parse(TWO_SETS);
    nsi_binding* binding = binding_of(blueprint);
    enum { N = 2 * (2 * 2 + 3) };
    double weights[N], again[N];
    ns_error error;
    assert_int_equal(binding->nweight, N);
    assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_OK);
    assert_int_equal(nsi_binding_weights(binding, again, &error), NS_OK);
    assert_memory_equal(weights, again, sizeof weights);
    assert_true(weights[0] != weights[N / 2]); // sets differ
    for (int i = 0; i < N; i++) assert_true(isfinite(weights[i]));

    double numbers[N];
    for (int i = 0; i < N; i++) numbers[i] = i;
    static const char* const tensors[] = {"a/link/thigh/w0", "a/link/thigh/w1", "a/link/shin/w0",
                                          "a/link/shin/w1"};
    for (int i = 3; i >= 0; i--) { // in any order
        assert_int_equal(nsi_blueprint_add_tensor(blueprint, tensors[i], i % 2 ? 3 : 2,
                                                  i % 2 ? 1 : 2,
                                                  numbers + 7 * (i / 2) + 4 * (i % 2), &error),
                         NS_OK);
    }
    assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_OK);
    assert_memory_equal(weights, numbers, sizeof weights);

    assert_int_equal(nsi_blueprint_add_tensor(blueprint, "a/link/shin/w2", 1, 2, numbers, &error),
                     NS_OK);
    assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_ERR_ARGUMENT);
    assert_string_equal(error.message, "the loaded tensor \"a/link/shin/w2\" (1 x 2) belongs to no"
                                       " set of weights of this blueprint and model");

    nsi_blueprint_clear_tensors(blueprint);
    assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_ERR_ARGUMENT);
    assert_string_equal(error.message,
                        "set \"a/link/thigh\": the tensor \"a/link/thigh/w0\" (2 x 2)"
                        " is missing from the loaded weights");
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, tensors[0], 2, 2, numbers, &error), NS_OK);
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, tensors[1], 1, 3, numbers, &error), NS_OK);
    assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_ERR_ARGUMENT);
    assert_string_equal(error.message,
                        "set \"a/link/thigh\": the loaded tensor \"a/link/thigh/w1\" is 1 x 3, but"
                        " the network of 1 inputs and 1 outputs needs 3 x 1");

    // Names that are nearly right are told.
    nsi_blueprint_clear_tensors(blueprint);
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, "b/link/shin/w0", 2, 2, numbers, &error),
                     NS_OK);
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, "a/link/thig/w0", 2, 2, numbers, &error),
                     NS_OK);
    assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_ERR_ARGUMENT);
    assert_string_equal(error.message,
                        "set \"a/link/thigh\": the tensor \"a/link/thigh/w0\" (2 x 2) is missing"
                        " from the loaded weights; nearest: a/link/thig/w0, b/link/shin/w0");
    nsi_binding_free(binding);
    ns_blueprint_free(blueprint);
}

// ---- memory ----------------------------------------------------------------------------------

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
        cmocka_unit_test(names_and_globs_are_expanded),
        cmocka_unit_test(groups_are_expanded),
        cmocka_unit_test(each_match_is_a_use),
        cmocka_unit_test(names_with_glob_characters_stand_for_themselves),
        cmocka_unit_test(lags_are_expanded_and_kept),
        cmocka_unit_test(velocities_are_known),
        cmocka_unit_test(names_may_change_afterwards),
        cmocka_unit_test(sets_follow_each_other),
        cmocka_unit_test(layers_have_the_documented_shapes),
        cmocka_unit_test(wrong_blueprints_are_refused),
        cmocka_unit_test(outputs_must_have_an_effect),
        cmocka_unit_test(a_velocity_may_be_missing),
        cmocka_unit_test(many_names_are_handled),
        cmocka_unit_test(no_names_at_all),
        cmocka_unit_test(weights_are_random_or_loaded),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
