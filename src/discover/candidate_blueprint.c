// Blueprints of the candidate library: with all terms, or with those that were found.

#include "discover/candidate_library.h"

#include <stdio.h>

const ns_blueprint* nsi_discover_base(const ns_fit* fit) {
    return fit->options.blueprint;
}

static ns_status copy_base(const ns_fit* fit, ns_blueprint* to, ns_error* error) {
    const ns_blueprint* base = nsi_discover_base(fit);
    ns_status status = NS_OK;
    for (uint32_t k = 0; base && k < ns_blueprint_network_count(base) && status == NS_OK; k++) {
        status = ns_blueprint_add(to, ns_blueprint_network(base, k), error);
    }
    for (uint32_t k = 0; base && k < ns_blueprint_formula_count(base) && status == NS_OK; k++) {
        status = ns_blueprint_add_formula(to, ns_blueprint_formula(base, k), error);
    }
    return status;
}

// ---- one formula -------------------------------------------------------------------------------

// Text of a formula, and its coefficients k<n> and s<n>.
typedef struct formula_text {
    nsi_text_builder text;
    NSI_ARRAY(ns_coefficient) list;
    nsi_arena names;
} formula_text;

static void formula_add_coefficient(formula_text* f, char letter, uint32_t number, double value) {
    char name[16];
    int size = snprintf(name, sizeof name, "%c%u", letter, number);
    const char* kept = nsi_arena_string(&f->names, name, (size_t)size);
    if (!kept || !nsi_array_push(&f->text.allocator, &f->list, ((ns_coefficient){kept, value}))) {
        f->text.failed = true;
    }
}

static void formula_add_atom(formula_text* f, const nsi_atom* atom, uint32_t number, double value,
                             double shape) {
    nsi_text_add(&f->text, "%sk%u * %s", f->list.count > 0 ? " + " : "", number, atom->factor);
    formula_add_coefficient(f, 'k', number, value);
    if (atom->speed_link != NSI_NONE) formula_add_coefficient(f, 's', atom->shape_number, shape);
}

void nsi_library_formula_name(const char* output, char* out, size_t size) {
    snprintf(out, size, "missing.%.*s", (int)nsi_thresholds.library.max_name, output);
    for (char* c = out; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                      (*c >= '0' && *c <= '9') || strchr("-.", *c);
        if (!letter) *c = '_';
    }
}

// A formula without coefficients is not added.
static ns_status formula_finish(formula_text* f, ns_blueprint* to, const char* output,
                                ns_error* error) {
    char name[200];
    nsi_text_add_bytes(&f->text, "", 1);
    if (f->text.failed) return nsi_fail_nomem(error);
    if (f->list.count == 0) return NS_OK;
    nsi_library_formula_name(output, name, sizeof name);
    ns_formula_def def = ns_default_formula_def();
    def.name = name;
    def.output = output;
    def.formula = f->text.text.data;
    def.coefficients = f->list.data;
    def.ncoefficient = f->list.count;
    return ns_blueprint_add_formula(to, &def, error);
}

// ---- all formulas ------------------------------------------------------------------------------

// Values of atoms; NULL: all atoms with coefficients of 0.
typedef struct atom_values {
    const double *coefficients, *shapes;
    const bool* used;
} atom_values;

static ns_status write_formula(const nsi_term_library* library, uint32_t output,
                               const atom_values* values, ns_blueprint* to, ns_error* error) {
    formula_text f = {.text = {.allocator = library->allocator},
                      .names = {.allocator = library->allocator}};
    uint32_t number = 0;
    for (uint32_t k = 0; k < library->atoms.count; k++) {
        const nsi_atom* atom = &library->atoms.data[k];
        if ((values ? atom->output : atom->host) != output) continue;
        if (values && !values->used[k]) continue;
        formula_add_atom(&f, atom, number++, values ? values->coefficients[k] : 0.0,
                         values ? values->shapes[k] : 1.0);
    }
    ns_status status = formula_finish(&f, to, library->outputs.data[output], error);
    nsi_array_free(&library->allocator, &f.text.text);
    nsi_array_free(&library->allocator, &f.list);
    nsi_arena_free(&f.names);
    return status;
}

static ns_status write_formulas(const nsi_term_library* library, const ns_fit* fit,
                                const atom_values* values, ns_blueprint** out, ns_error* error) {
    ns_blueprint* blueprint = NULL;
    ns_status status = ns_blueprint_create(&library->allocator, &blueprint, error);
    if (status == NS_OK) status = copy_base(fit, blueprint, error);
    for (uint32_t k = 0; k < library->outputs.count && status == NS_OK; k++) {
        status = write_formula(library, k, values, blueprint, error);
    }
    if (status != NS_OK) {
        ns_blueprint_free(blueprint);
        return status;
    }
    *out = blueprint;
    return NS_OK;
}

ns_status nsi_library_write_all(const nsi_term_library* library, const ns_fit* fit,
                                ns_blueprint** out, ns_error* error) {
    return write_formulas(library, fit, NULL, out, error);
}

ns_status nsi_term_library_blueprint(const nsi_term_library* library, const ns_fit* fit,
                                     const uint32_t* terms, uint32_t nterm, const double* values,
                                     ns_blueprint** out, ns_error* error) {
    // Coefficients and shapes of all atoms share one block.
    size_t count = (size_t)library->atoms.count + 1;
    double* numbers = nsi_alloc_zeroed(&library->allocator, 2 * count * sizeof *numbers);
    bool* used = nsi_alloc_zeroed(&library->allocator, count * sizeof *used);
    ns_status status = numbers && used ? NS_OK : nsi_fail_nomem(error);

    // Terms may share atoms: add up their coefficients.
    for (uint32_t k = 0; k < nterm && status == NS_OK; k++) {
        const nsi_term* t = &library->terms.data[terms[k]];
        for (uint32_t i = 0; i < t->npart; i++) {
            uint32_t atom = t->parts[i].atom;
            // Parameters of the model have no atom; they are no formula.
            if (atom == NSI_NONE) continue;
            if (t->kind == NSI_TERM_SHAPE) {
                // A shape replaces the value inside its formula.
                numbers[count + atom] = t->start + values[terms[k]];
            } else {
                // A coefficient multiplies its factor.
                used[atom] = true;
                numbers[atom] += t->parts[i].sign * values[terms[k]];
            }
        }
    }

    // Write one formula per quantity that has atoms in use.
    if (status == NS_OK) {
        atom_values found = {.coefficients = numbers, .shapes = numbers + count, .used = used};
        status = write_formulas(library, fit, &found, out, error);
    }

    nsi_free(&library->allocator, numbers);
    nsi_free(&library->allocator, used);
    return status;
}
