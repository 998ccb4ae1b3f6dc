// Formulas of blueprints: read once, when they are added; names in quotes become inputs as those of a
// network, names without become coefficients.

#include "nn/blueprint_data.h"

#include <math.h>

ns_formula_def ns_default_formula_def(void) {
    return (ns_formula_def){.mode = NS_AUGMENT_ADD};
}

uint32_t ns_blueprint_formula_count(const ns_blueprint* blueprint) {
    return blueprint ? blueprint->formulas.count : 0;
}

const ns_formula_def* ns_blueprint_formula(const ns_blueprint* blueprint, uint32_t number) {
    if (!blueprint || number >= blueprint->formulas.count) return NULL;
    return &blueprint->formulas.data[number].def;
}

// ---- checks ----------------------------------------------------------------------------------

static bool check_output(const ns_formula_def* def, nsi_fault* fault) {
    uint32_t first, last;
    if (!def->output) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_OUTPUT, NSI_NONE,
                            "there is none; give a quantity");
    }
    if (!nsi_check_text(def->output, def->each != NULL, NSI_FIELD_OUTPUT, NSI_NONE, fault)) {
        return false;
    }
    if (nsi_input_lags(def->output, &first, &last) && last == 0) return true;
    return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_OUTPUT, NSI_NONE,
                        "\"%.100s\": prev: is for what a formula reads", def->output);
}

static bool check_coefficient(const ns_formula_def* def, uint32_t number, nsi_fault* fault) {
    const ns_coefficient* c = &def->coefficients[number];
    if (!c->name || strlen(c->name) > NSI_BLUEPRINT_MAX_NAME || !nsi_formula_is_name(c->name)) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_COEFFICIENTS, number,
                            "\"%.60s\" is no name of one: at most %d letters, digits and '_', no"
                            " digit first, and no function or constant of formulas",
                            c->name ? c->name : "", NSI_BLUEPRINT_MAX_NAME);
    }
    if (!isfinite(c->value)) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_COEFFICIENTS, number,
                            "%.60s is not finite", c->name);
    }
    for (uint32_t i = 0; i < number; i++) {
        if (strcmp(def->coefficients[i].name, c->name) != 0) continue;
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_COEFFICIENTS, number,
                            "%.60s is given twice; remove one", c->name);
    }
    return true;
}

static bool check_coefficients(const ns_formula_def* def, nsi_fault* fault) {
    if (def->ncoefficient > NSI_FORMULA_MAX_OPS) {
        return nsi_fault_at(fault, NS_ERR_LIMIT, NSI_FIELD_COEFFICIENTS, NSI_NONE,
                            "%u of them; at most %d", def->ncoefficient, NSI_FORMULA_MAX_OPS);
    }
    if (def->ncoefficient > 0 && !def->coefficients) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_COEFFICIENTS, NSI_NONE,
                            "the list is NULL");
    }
    for (uint32_t i = 0; i < def->ncoefficient; i++) {
        if (!check_coefficient(def, i, fault)) return false;
    }
    return true;
}

static bool check_formula(const ns_blueprint* blueprint, const ns_formula_def* def,
                          nsi_fault* fault) {
    if (blueprint->formulas.count == NSI_BLUEPRINT_MAX_NETWORKS) {
        return nsi_fault_at(fault, NS_ERR_LIMIT, NSI_FIELD_COUNT, NSI_NONE,
                            "a blueprint has at most %d formulas", NSI_BLUEPRINT_MAX_NETWORKS);
    }
    if (!nsi_check_name(blueprint, "formula", def->name, fault) ||
        (def->each && !nsi_check_text(def->each, true, NSI_FIELD_EACH, NSI_NONE, fault)) ||
        !check_output(def, fault) || !nsi_check_mode(def->mode, fault) ||
        !check_coefficients(def, fault)) {
        return false;
    }
    if (!def->formula) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_FORMULA, NSI_NONE,
                            "there is none; write what is to be computed");
    }
    if (strlen(def->formula) > NSI_BLUEPRINT_MAX_FORMULA) {
        return nsi_fault_at(fault, NS_ERR_LIMIT, NSI_FIELD_FORMULA, NSI_NONE,
                            "it has more than %d bytes", NSI_BLUEPRINT_MAX_FORMULA);
    }
    return true;
}

// ---- variables -------------------------------------------------------------------------------

static uint32_t find_coefficient(const ns_formula_def* def, const char* name) {
    for (uint32_t i = 0; i < def->ncoefficient; i++) {
        if (strcmp(def->coefficients[i].name, name) == 0) return i;
    }
    return NSI_NONE;
}

static bool fault_undeclared(const ns_formula_def* def, const char* name, uint32_t where,
                             nsi_fault* fault) {
    ns_nearest nearest = {.wanted = name};
    char hint[NS_HINT_SIZE];
    for (uint32_t i = 0; i < def->ncoefficient; i++) {
        ns_nearest_offer(&nearest, def->coefficients[i].name);
    }
    return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_FORMULA, where,
                        "%.60s is not among the coefficients (add it, or put it in double quotes if"
                        " it is a quantity)%.100s",
                        name, ns_nearest_hint(&nearest, hint));
}

// What a variable stands for; `ninput` counts the inputs found before.
static bool find_source(const ns_formula_def* def, const ns_formula* formula, uint32_t number,
                        uint32_t* ninput, nsi_formula_source* out, nsi_fault* fault) {
    const char* name = ns_formula_variable(formula, number);
    uint32_t where = (uint32_t)ns_formula_variable_offset(formula, number);
    unsigned forms = nsi_formula_variable_forms(formula, number);
    if (forms == (NSI_FORMULA_BARE | NSI_FORMULA_QUOTED)) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_FORMULA, where,
                            "%.60s is here with quotes, as a quantity, and without, as a"
                            " coefficient; rename the coefficient",
                            name);
    }
    if (forms == NSI_FORMULA_BARE) {
        *out = (nsi_formula_source){.number = find_coefficient(def, name)};
        return out->number != NSI_NONE || fault_undeclared(def, name, where, fault);
    }
    uint32_t first, last;
    if (!nsi_check_text(name, def->each != NULL, NSI_FIELD_FORMULA, where, fault)) return false;
    if (!nsi_input_lags(name, &first, &last) || last > 1) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_FORMULA, where,
                            "\"%.100s\" is no earlier value; write prev:<name>", name);
    }
    *out = (nsi_formula_source){.is_input = true, .number = (*ninput)++};
    return true;
}

// Are all coefficients used?
static bool check_use(const ns_formula_def* def, const ns_formula* formula, nsi_fault* fault) {
    uint32_t count = ns_formula_variable_count(formula);
    for (uint32_t i = 0; i < def->ncoefficient; i++) {
        const char* name = def->coefficients[i].name;
        uint32_t k = 0;
        while (k < count && (nsi_formula_variable_forms(formula, k) != NSI_FORMULA_BARE ||
                             strcmp(ns_formula_variable(formula, k), name) != 0)) {
            k++;
        }
        if (k < count) continue;
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_COEFFICIENTS, i,
                            "the formula does not use %.60s; remove it", name);
    }
    return true;
}

// ---- adding ----------------------------------------------------------------------------------

static bool copy_formula_text(nsi_arena* arena, const char** text) {
    if (!*text) return true;
    *text = nsi_arena_string(arena, *text, strlen(*text));
    return *text != NULL;
}

static bool copy_formula_def(nsi_arena* arena, ns_formula_def* def) {
    ns_coefficient* list = nsi_arena_alloc(arena, def->ncoefficient * sizeof *list);
    if (!list) return false;
    for (uint32_t i = 0; i < def->ncoefficient; i++) {
        list[i] = def->coefficients[i];
        if (!copy_formula_text(arena, &list[i].name)) return false;
    }
    def->coefficients = def->ncoefficient > 0 ? list : NULL;
    return copy_formula_text(arena, &def->name) && copy_formula_text(arena, &def->each) &&
           copy_formula_text(arena, &def->output) && copy_formula_text(arena, &def->formula);
}

// The formula as a network is seen from outside; false when out of memory.
static bool make_ports(nsi_arena* arena, nsi_blueprint_formula* f) {
    uint32_t count = ns_formula_variable_count(f->formula);
    const char** inputs = nsi_arena_alloc(arena, count * sizeof *inputs);
    const char** outputs = nsi_arena_alloc(arena, sizeof *outputs);
    if (!inputs || !outputs) return false;
    f->ports = ns_default_network_def();
    f->ports.name = f->def.name;
    f->ports.each = f->def.each;
    f->ports.separate = f->def.separate;
    f->ports.mode = f->def.mode;
    for (uint32_t k = 0; k < count; k++) {
        if (!f->sources[k].is_input) continue;
        inputs[f->sources[k].number] = ns_formula_variable(f->formula, k);
        f->ports.ninput++;
    }
    outputs[0] = f->def.output;
    f->ports.inputs = inputs;
    f->ports.outputs = outputs;
    f->ports.noutput = 1;
    return true;
}

// Read the text and find what its variables stand for; NS_ERR_NOMEM, or the fault's status.
static ns_status parse(ns_blueprint* blueprint, nsi_blueprint_formula* f, nsi_fault* fault) {
    const ns_formula_def* def = &f->def;
    size_t where = 0;
    ns_error inner = {0};
    ns_status status = ns_formula_parse(def->formula, strlen(def->formula), false,
                                        &blueprint->allocator, &f->formula, &where, &inner);
    if (status == NS_ERR_NOMEM) return status;
    if (status != NS_OK) {
        // Made by a call, a formula that cannot be read is an argument that is wrong.
        nsi_fault_at(fault, status == NS_ERR_PARSE ? NS_ERR_ARGUMENT : status, NSI_FIELD_FORMULA,
                     (uint32_t)where, "%.250s", inner.message);
        return fault->status;
    }
    uint32_t count = ns_formula_variable_count(f->formula), ninput = 0;
    nsi_formula_source* sources = nsi_arena_alloc(&blueprint->arena, count * sizeof *sources);
    if (!sources) return NS_ERR_NOMEM;
    f->sources = sources;
    for (uint32_t k = 0; k < count; k++) {
        if (!find_source(def, f->formula, k, &ninput, &sources[k], fault)) return fault->status;
    }
    return check_use(def, f->formula, fault) ? NS_OK : fault->status;
}

static ns_status enter_formula(ns_blueprint* blueprint, const ns_formula_def* formula,
                               const nsi_places* places, ns_error* error) {
    nsi_fault fault = {0};
    nsi_blueprint_formula f = {.def = *formula};
    ns_status status =
        check_formula(blueprint, formula, &fault) ? parse(blueprint, &f, &fault) : fault.status;
    if (status == NS_OK) {
        if (places) f.places = *places;
        memset(f.places.items, 0, sizeof f.places.items); // of this call only
        if (!copy_formula_def(&blueprint->arena, &f.def) || !make_ports(&blueprint->arena, &f) ||
            !nsi_array_push(&blueprint->allocator, &blueprint->formulas, f)) {
            status = NS_ERR_NOMEM;
        }
    }
    if (status == NS_OK) return NS_OK;
    ns_formula_free(f.formula);
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    return nsi_fault_tell(&fault, blueprint, "formula", formula->name, blueprint->formulas.count,
                          places, error);
}

ns_status ns_blueprint_add_formula(ns_blueprint* blueprint, const ns_formula_def* formula,
                                   ns_error* error) {
    if (!blueprint || !formula) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_blueprint_add_formula: blueprint or formula is NULL");
    }
    return enter_formula(blueprint, formula, NULL, error);
}

ns_status nsi_blueprint_add_formula_at(ns_blueprint* blueprint, const ns_formula_def* formula,
                                       const nsi_places* places, ns_error* error) {
    return enter_formula(blueprint, formula, places, error);
}
