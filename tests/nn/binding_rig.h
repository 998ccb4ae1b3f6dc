// Names as a step might have them, and blueprints that are laid onto them.

#ifndef TEST_BINDING_RIG_H
#define TEST_BINDING_RIG_H

#include "nn/binding.h"
#include "nn/blueprint_data.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <stdio.h>
#include <string.h>

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

static const nsi_binding_quantities quantities = {
    .count = NNAME, .names = names, .conjugate = conjugate, .spatial = spatial};

static inline ns_blueprint* parse(const char* networks) {
    char text[4000];
    snprintf(text, sizeof text, "networks:\n%s", networks);
    ns_blueprint* blueprint = NULL;
    ns_error error;
    must(ns_blueprint_parse(text, strlen(text), "f.yaml", NULL, &blueprint, &error), &error);
    return blueprint;
}

static inline nsi_binding* binding_of(const ns_blueprint* blueprint) {
    nsi_binding* binding = NULL;
    ns_error error;
    must(nsi_binding_create(blueprint, &quantities, NULL, &binding, &error), &error);
    return binding;
}

// A binding as text: "set: inputs -> outputs | against", with "-<lag>" behind inputs, then
// what is remembered.
static inline const char* describe(const nsi_binding* binding) {
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

static inline void check_binding(const char* networks, const char* expected) {
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

typedef struct wrong {
    const char *networks, *message;
    ns_status status; // NS_OK: NS_ERR_ARGUMENT
} wrong;

static inline void check_wrong(const wrong* rows, size_t count, const uint8_t* affects_state) {
    for (size_t i = 0; i < count; i++) {
        ns_blueprint* blueprint = parse(rows[i].networks);
        nsi_binding* binding = NULL;
        ns_error error = {0};
        ns_status expected = rows[i].status == NS_OK ? NS_ERR_ARGUMENT : rows[i].status;
        ns_status status =
            nsi_binding_create(blueprint,
                               &(nsi_binding_quantities){.count = NNAME,
                                                         .names = names,
                                                         .affects_state = affects_state,
                                                         .conjugate = conjugate,
                                                         .spatial = spatial},
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

#define TWO_SETS                                                                                   \
    "- {name: a, each: 'link/*', weights: separate, inputs: '{}/velocity/com/x',"                  \
    " outputs: '{}/force/x', hidden: [2]}\n"

#endif
