// Any bytes as a blueprint. What loads must fit its own limits, lie soundly on some names or say
// where it does not; what does not load must say where; nothing may be left behind.

#include "nn/binding.h"
#include "nn/blueprint_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static const char* const names[] = {
    "q/0",
    "joint/hip/position",
    "joint/hip/velocity",
    "joint/knee/position",
    "joint/knee/velocity",
    "joint/ball/velocity/0",
    "link/thigh/velocity/com/x",
    "link/thigh/velocity/com/y",
    "link/thigh/velocity/angular/z",
    "link/shin/velocity/com/x",
    "link/shin/velocity/com/y",
    "link/shin/velocity/angular/z",
    "link/world/pose/x",
    "contact/foot:ground/0/gap",
    "contact/foot:ground/0/velocity/x",
    "contact/foot:ground/0/velocity/y",
    "link/thigh/force/x",
    "link/thigh/force/y",
    "link/thigh/torque/z",
    "link/shin/force/x",
    "link/shin/force/y",
    "link/shin/torque/z",
    "contact/foot:ground/0/friction/x",
    "contact/foot:ground/0/friction/y",
    "joint/hip/force/spring",
    "joint/knee/force/spring",
    "actuator/hip/force",
    "actuator/knee/force",
    "joint/hip/tau",
    "joint/knee/tau",
    "joint/ball/tau/0",
    "qdd/0",
};
enum { NNAME = sizeof names / sizeof *names };

// Velocities along which forces act.
static const char* const conjugate[NNAME] = {
    [16] = "link/thigh/velocity/com/x",
    [17] = "link/thigh/velocity/com/y",
    [18] = "link/thigh/velocity/angular/z",
    [19] = "link/shin/velocity/com/x",
    [20] = "link/shin/velocity/com/y",
    [21] = "link/shin/velocity/angular/z",
    [24] = "joint/hip/velocity",
    [25] = "joint/knee/velocity",
    [28] = "joint/hip/velocity",
    [29] = "joint/knee/velocity",
    [30] = "joint/ball/velocity/0",
};

static uint32_t number_of(const char* name) {
    uint32_t i = 0;
    while (i < NNAME && strcmp(names[i], name) != 0) i++;
    REQUIRE(i < NNAME);
    return i;
}

static void check_use(const nsi_binding* binding, uint32_t number) {
    const nsi_network_instance* use = &binding->instances[number];
    uint32_t earliest = NNAME, output;
    bool is_formula = use->formula != NSI_NONE;
    REQUIRE(is_formula == (use->network == NSI_NONE));
    REQUIRE(is_formula ? use->noutput == 1 : use->noutput > 0 && use->ninput > 0);
    REQUIRE(use->set < binding->nset || (is_formula && use->set == NSI_NONE));
    const nsi_binding_set* set = use->set < binding->nset ? &binding->sets[use->set] : NULL;
    REQUIRE(!set || (set->network == use->network && set->formula == use->formula &&
                     set->ninput == use->ninput && set->noutput == use->noutput));
    for (uint32_t k = 0; k < use->noutput; k++) {
        uint32_t name = number_of(use->outputs[k]);
        if (name < earliest) earliest = name;
        REQUIRE(nsi_binding_find_output(binding, use->outputs[k], &output) == number &&
                output == k);
    }
    for (uint32_t k = 0; k < use->ninput; k++) {
        uint32_t name = number_of(use->inputs[k].name), depth = 0;
        REQUIRE(use->inputs[k].lag > 0 || name < earliest);
        for (uint32_t i = 0; i < binding->nmemory; i++) {
            if (strcmp(binding->memory[i].name, names[name]) == 0) depth = binding->memory[i].depth;
        }
        REQUIRE(use->inputs[k].lag <= depth);
    }
    for (uint32_t k = 0; k < use->noutput && use->conjugate; k++) {
        REQUIRE(number_of(use->conjugate[k]) < earliest);
    }
}

static void check_plan(const ns_blueprint* blueprint) {
    nsi_binding* binding = NULL;
    ns_error error = {0};
    ns_status status = nsi_binding_create(
        blueprint,
        &(nsi_binding_quantities){.count = NNAME, .names = names, .conjugate = conjugate}, NULL,
        &binding, &error);
    REQUIRE((status == NS_OK) == (binding != NULL) && status == error.status);
    REQUIRE(status == NS_OK || strncmp(error.message, "fuzz:", 5) == 0);
    if (!binding) return;
    uint32_t offset = 0;
    for (uint32_t i = 0; i < binding->nset; i++) {
        REQUIRE(binding->sets[i].offset == offset);
        offset += binding->sets[i].count;
    }
    REQUIRE(binding->nweight == offset && offset <= NSI_BLUEPRINT_MAX_WEIGHTS);
    for (uint32_t i = 0; i < binding->ninstance; i++) check_use(binding, i);
    if (binding->nweight <= 10000) {
        double* weights = malloc((binding->nweight + 1) * sizeof *weights);
        REQUIRE(weights && nsi_binding_weights(binding, weights, &error) == NS_OK);
        free(weights);
    }
    nsi_binding_free(binding);
}

static void check_network(const ns_network_def* def) {
    REQUIRE(def->name && def->ninput > 0 && def->noutput > 0);
    REQUIRE(def->nhidden <= NSI_BLUEPRINT_MAX_HIDDEN);
    REQUIRE(def->bound > 0.0 && isfinite(def->init_scale) && isfinite(def->init_last_scale));
    for (uint32_t i = 0; i < def->ninput_scale; i++) REQUIRE(def->input_scale[i] > 0.0);
}

// Variables are inputs or coefficients, and all of these are variables.
static void check_formula(const nsi_blueprint_formula* f) {
    uint32_t inputs = 0, coefficients = 0;
    REQUIRE(f->def.name && f->def.output && f->def.formula && f->ports.noutput == 1);
    for (uint32_t k = 0; k < ns_formula_variable_count(f->formula); k++) {
        const nsi_formula_source* source = &f->sources[k];
        const char* name = ns_formula_variable(f->formula, k);
        REQUIRE(source->number < (source->is_input ? f->ports.ninput : f->def.ncoefficient));
        REQUIRE(strcmp(source->is_input ? f->ports.inputs[source->number]
                                        : f->def.coefficients[source->number].name,
                       name) == 0);
        *(source->is_input ? &inputs : &coefficients) += 1;
    }
    REQUIRE(inputs == f->ports.ninput && coefficients == f->def.ncoefficient);
}

// Written and read again it writes the same.
static void check_text(const ns_blueprint* blueprint) {
    ns_text one = {0}, two = {0};
    ns_blueprint* again = NULL;
    REQUIRE(nsi_blueprint_text(blueprint, NULL, NULL, &one, NULL) == NS_OK);
    ns_error error = {0};
    ns_status status = ns_blueprint_parse(one.data, one.size, "fuzz", NULL, &again, &error);
    if (status != NS_OK) fprintf(stderr, "%s\n%s\n", error.message, one.data);
    REQUIRE(status == NS_OK);
    REQUIRE(nsi_blueprint_text(again, NULL, NULL, &two, NULL) == NS_OK);
    REQUIRE(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
    ns_text_free(&one);
    ns_text_free(&two);
    ns_blueprint_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    ns_blueprint* blueprint = NULL;
    ns_error error = {0};
    ns_status status =
        ns_blueprint_parse((const char*)data, size, "fuzz", NULL, &blueprint, &error);
    REQUIRE((status == NS_OK) == (blueprint != NULL));
    REQUIRE(status == error.status);
    REQUIRE(status == NS_OK || strncmp(error.message, "fuzz:", 5) == 0);
    for (uint32_t i = 0; i < ns_blueprint_network_count(blueprint); i++) {
        check_network(ns_blueprint_network(blueprint, i));
    }
    for (uint32_t i = 0; i < ns_blueprint_formula_count(blueprint); i++) {
        check_formula(&blueprint->formulas.data[i]);
    }
    if (blueprint) check_plan(blueprint);
    if (blueprint) check_text(blueprint);
    ns_blueprint_free(blueprint);
    return 0;
}
