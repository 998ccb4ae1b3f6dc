// Blueprints as YAML: every key that is not at its default.

#include "io/file.h"
#include "io/utf8.h"
#include "io/yaml.h"
#include "nn/blueprint_data.h"

#include <math.h>

// The first failure sticks.
typedef struct writer {
    nsi_text_builder text;
    const char* part; // that is being written, for messages
    ns_status status;
    ns_error* error;
} writer;

static bool check_text(writer* w, const char* text) {
    const char* fault = text[0] == '\0' ? NULL : nsi_line_fault(text, strlen(text));
    if (fault && w->status == NS_OK) {
        w->status = nsi_fail(w->error, NS_ERR_ARGUMENT, "\"%.60s\": a text %s", w->part, fault);
    }
    return !fault && w->status == NS_OK;
}

static void add_key(writer* w, const char* key) {
    nsi_text_add(&w->text, "    %s: ", key);
}

static void add_text(writer* w, const char* key, const char* text) {
    if (!text || !check_text(w, text)) return;
    add_key(w, key);
    nsi_yaml_add_text(&w->text, text);
    nsi_text_add(&w->text, "\n");
}

static void add_word(writer* w, const char* key, const char* word) {
    add_key(w, key);
    nsi_text_add(&w->text, "%s\n", word);
}

static void add_list(writer* w, const char* key, const char* const* list, uint32_t count) {
    if (!list) return;
    add_key(w, key);
    for (uint32_t k = 0; k < count && check_text(w, list[k]); k++) {
        nsi_text_add(&w->text, k > 0 ? ", " : "[");
        nsi_yaml_add_text(&w->text, list[k]);
    }
    nsi_text_add(&w->text, "]\n");
}

static void write_numbers(writer* w, const char* key, const double* list, uint32_t count) {
    if (count == 0) return;
    add_key(w, key);
    for (uint32_t k = 0; k < count; k++) {
        nsi_text_add(&w->text, k > 0 ? ", " : "[");
        nsi_text_add_double(&w->text, list[k]);
    }
    nsi_text_add(&w->text, "]\n");
}

// The first keys of a network or formula.
static void begin(writer* w, const char* name, const char* each, bool separate) {
    w->part = name;
    nsi_text_add(&w->text, "  - name: ");
    nsi_yaml_add_text(&w->text, name);
    nsi_text_add(&w->text, "\n");
    add_text(w, "each", each);
    if (separate) add_word(w, "weights", ns_choice_name(&nsi_sharings, NSI_SEPARATE));
}

static void add_mode(writer* w, ns_augment mode) {
    if (mode != NS_AUGMENT_ADD) add_word(w, "mode", ns_choice_name(&ns_augments, (int)mode));
}

// ---- networks --------------------------------------------------------------------------------

static void add_structure(writer* w, const ns_network_def* def) {
    if (def->structure == 0) return;
    add_key(w, "structure");
    const char* separator = "[";
    for (uint32_t k = 0; k < ns_structures.count; k++) {
        if (!(def->structure & (unsigned)ns_structures.items[k].value)) continue;
        nsi_text_add(&w->text, "%s%s", separator, ns_structures.items[k].name);
        separator = ", ";
    }
    nsi_text_add(&w->text, "]\n");
    if (def->structure & NS_STRUCTURE_BOUNDED) {
        add_key(w, "bound");
        nsi_text_add_double(&w->text, def->bound);
        nsi_text_add(&w->text, "\n");
    }
}

static void add_init(writer* w, const ns_network_def* def) {
    ns_network_def usual = ns_default_network_def();
    if (def->init_scale == usual.init_scale && def->init_last_scale == usual.init_last_scale &&
        def->seed == usual.seed) {
        return;
    }
    add_key(w, "init");
    nsi_text_add(&w->text, "{scale: ");
    nsi_text_add_double(&w->text, def->init_scale);
    nsi_text_add(&w->text, ", last: ");
    nsi_text_add_double(&w->text, def->init_last_scale);
    nsi_text_add(&w->text, ", seed: %llu}\n", (unsigned long long)def->seed);
}

static void add_network(writer* w, const ns_network_def* def) {
    begin(w, def->name, def->each, def->separate);
    add_list(w, "inputs", def->inputs, def->ninput);
    add_list(w, "outputs", def->outputs, def->noutput);
    add_mode(w, def->mode);
    if (def->nhidden > 0) {
        add_key(w, "hidden");
        for (uint32_t k = 0; k < def->nhidden; k++) {
            nsi_text_add(&w->text, "%s%u", k > 0 ? ", " : "[", def->hidden[k]);
        }
        nsi_text_add(&w->text, "]\n");
    }
    if (def->activation != NS_TANH) {
        add_word(w, "activation", ns_activation_name(def->activation));
    }
    if (def->no_bias) add_word(w, "bias", "false");
    add_structure(w, def);
    add_list(w, "conjugate", def->conjugate, def->noutput);
    write_numbers(w, "input_shift", def->input_shift, def->ninput_shift);
    write_numbers(w, "input_scale", def->input_scale, def->ninput_scale);
    write_numbers(w, "output_scale", def->output_scale, def->noutput_scale);
    write_numbers(w, "conjugate_scale", def->conjugate_scale, def->nconjugate_scale);
    add_init(w, def);
}

// ---- formulas --------------------------------------------------------------------------------

// In single quotes, which leave the double ones of names as they are; unless YAML needs an escape.
static void add_expression(writer* w, const char* text) {
    bool simple = check_text(w, text);
    for (const char* at = text; *at && simple; at++)
        simple = *at >= 0x20 && *at < 0x7f && *at != '\'';
    add_key(w, "formula");
    if (simple) nsi_text_add(&w->text, "'%s'\n", text);
    if (simple || w->status != NS_OK) return;
    nsi_yaml_add_quoted(&w->text, text);
    nsi_text_add(&w->text, "\n");
}

static void add_formula(writer* w, const ns_formula_def* def, const double* values) {
    begin(w, def->name, def->each, def->separate);
    add_text(w, "output", def->output);
    add_mode(w, def->mode);
    add_expression(w, def->formula);
    for (uint32_t k = 0; k < def->ncoefficient; k++) {
        double value = values ? values[k] : def->coefficients[k].value;
        if (!isfinite(value) && w->status == NS_OK) {
            w->status = nsi_fail(w->error, NS_ERR_ARGUMENT, "\"%.60s\": %.60s is not finite",
                                 def->name, def->coefficients[k].name);
        }
        if (k == 0) add_key(w, "coefficients");
        nsi_text_add(&w->text, k > 0 ? ", " : "{");
        nsi_yaml_add_text(&w->text, def->coefficients[k].name);
        nsi_text_add(&w->text, ": ");
        nsi_text_add_double(&w->text, value);
    }
    if (def->ncoefficient > 0) nsi_text_add(&w->text, "}\n");
}

ns_status nsi_blueprint_text(const ns_blueprint* blueprint, const double* coefficients,
                             const ns_allocator* allocator, ns_text* out, ns_error* error) {
    writer w = {.text = {.allocator = allocator ? *allocator : ns_default_allocator()},
                .error = error};
    uint32_t networks = ns_blueprint_network_count(blueprint);
    uint32_t formulas = ns_blueprint_formula_count(blueprint);
    *out = (ns_text){0};
    if (networks > 0) nsi_text_add(&w.text, "networks:\n");
    for (uint32_t k = 0; k < networks; k++) add_network(&w, ns_blueprint_network(blueprint, k));
    if (formulas > 0) nsi_text_add(&w.text, "formulas:\n");
    for (uint32_t k = 0; k < formulas; k++) {
        const ns_formula_def* def = ns_blueprint_formula(blueprint, k);
        add_formula(&w, def, coefficients);
        if (coefficients) coefficients += def->ncoefficient;
    }
    if (networks + formulas == 0) nsi_text_add(&w.text, "networks: []\n");
    if (w.status == NS_OK) return nsi_text_finish(&w.text, out, error);
    nsi_array_free(&w.text.allocator, &w.text.text);
    return w.status;
}

ns_status nsi_blueprint_write(const char* path, const ns_blueprint* blueprint,
                              const double* coefficients, const ns_allocator* allocator,
                              ns_error* error) {
    ns_text text;
    ns_status status = nsi_blueprint_text(blueprint, coefficients, allocator, &text, error);
    if (status == NS_OK) status = nsi_file_write(path, text.data, text.size, allocator, error);
    ns_text_free(&text);
    return status;
}
