// Candidate parameters: those of the model that might have another value.

#include "discover/candidate_library.h"

#include <math.h>

// Are parameters of this kind candidates when the file names none?
static bool is_usual_kind(ns_param_kind kind) {
    switch (kind) {
    case NS_PARAM_MASS:
    case NS_PARAM_COM:
    case NS_PARAM_INERTIA:
    case NS_PARAM_ACTUATOR_GEAR:
    case NS_PARAM_ACTUATOR_KP:
    case NS_PARAM_ACTUATOR_KD: return true;
    default: return false;
    }
}

static bool is_wanted_param(const nsi_library_builder* b, const ns_param* param) {
    const nsi_text_list* globs = &b->fit->spec->discover_parameters;
    for (uint32_t k = 0; k < globs->count; k++) {
        if (ns_glob_match(globs->data[k], param->name)) return true;
    }
    return globs->count == 0 && is_usual_kind(param->kind);
}

// Does the file fit or set it?
static bool is_set_by_file(const nsi_library_builder* b, const ns_param* param) {
    const nsi_fit_spec* spec = b->fit->spec;
    for (uint32_t k = 0; k < spec->parameters.count; k++) {
        if (ns_glob_match(spec->parameters.data[k].name, param->name)) return true;
    }
    for (uint32_t k = 0; k < spec->settings.count; k++) {
        if (ns_glob_match(spec->settings.data[k].name, param->name)) return true;
    }
    return false;
}

static double param_complexity(const ns_param* param) {
    switch (param->kind) {
    case NS_PARAM_MASS: return 1.0;
    case NS_PARAM_COM: return 2.0;
    case NS_PARAM_INERTIA: return 2.2;
    default: return 1.5;
    }
}

double nsi_discover_value(const ns_fit* fit, const ns_param* param) {
    double value = param->value;
    for (uint32_t k = 0; k < fit->options.nset; k++) {
        const ns_param_value* set = &fit->options.set[k];
        if (ns_glob_match(set->pattern, param->name)) value = set->value;
    }
    return value;
}

uint32_t nsi_discover_find_param(const ns_model* model, ns_param_kind kind, uint32_t owner) {
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nparam; k++) {
        const ns_param* param = ns_model_param(model, k);
        if (param->kind == kind && param->owner == owner) return k;
    }
    return NSI_NONE;
}

// A variable without bounds and transforms, which one parameter of the model is set to: values that
// no body can have are refused by the simulation.
static void request_parameter(nsi_library_builder* b, uint32_t number) {
    const ns_param* param = ns_model_param(b->model, number);
    const ns_allocator* memory = &b->library->allocator;
    nsi_parameter_request request = {.name = nsi_library_text(b, "discover_%u", number),
                                     .how = ns_default_parameter(),
                                     .line = 1,
                                     .column = 1};
    request.how.initial = nsi_discover_value(b->fit, param);
    nsi_setting_request setting = {
        .name = param->name, .formula = request.name, .line = 1, .column = 1};
    if (!nsi_array_push(memory, &b->requests, request) ||
        !nsi_array_push(memory, &b->settings, setting) ||
        !nsi_array_push(memory, &b->params, number)) {
        b->failed = true;
    }
}

void nsi_library_request_parameters(nsi_library_builder* b) {
    const nsi_fit_spec* spec = b->fit->spec;
    const ns_allocator* memory = &b->library->allocator;

    // Those of the file, without priors: residuals are not weighed against anything here.
    for (uint32_t k = 0; k < spec->parameters.count; k++) {
        nsi_parameter_request request = spec->parameters.data[k];
        request.how.prior_sigma = NAN;
        if (!nsi_array_push(memory, &b->requests, request)) b->failed = true;
    }
    for (uint32_t k = 0; k < spec->settings.count; k++) {
        if (!nsi_array_push(memory, &b->settings, spec->settings.data[k])) b->failed = true;
    }

    // Candidates; the inertia of a link that cannot move has no effect.
    for (uint32_t k = 0; k < ns_model_get_sizes(b->model).nparam && !b->failed; k++) {
        const ns_param* param = ns_model_param(b->model, k);
        bool of_link = param->kind <= NS_PARAM_INERTIA;
        if (of_link && !nsi_library_link_moves(b, param->owner)) continue;
        if (!is_wanted_param(b, param) || is_set_by_file(b, param)) continue;
        if (nsi_library_has_room(b, b->params.count + 1)) request_parameter(b, k);
    }
}

// The parameter of the model that is a variable of its own here; NSI_NONE: a variable of the file.
static uint32_t param_of_variable(const nsi_library_builder* b, const char* variable) {
    uint32_t given = b->settings.count - b->params.count;
    for (uint32_t k = 0; k < b->params.count; k++) {
        if (strcmp(b->settings.data[given + k].formula, variable) == 0) return b->params.data[k];
    }
    return NSI_NONE;
}

void nsi_library_add_parameters(nsi_library_builder* b) {
    const ns_parameters* variables = b->library->variables;

    // One term per variable.
    for (uint32_t k = 0; k < ns_parameters_count(variables) && !b->failed; k++) {
        const ns_parameter_info* variable = ns_parameters_at(variables, k);
        // A variable may be a parameter of the model or a name that the file defines.
        uint32_t number = param_of_variable(b, variable->name);
        const ns_param* param = number == NSI_NONE ? NULL : ns_model_param(b->model, number);

        // Variables that the file fits are always active and represent themselves.
        nsi_site site = {.kind = NSI_SITE_PARAMETER,
                         .name = param ? param->name : variable->name,
                         .link = NSI_NONE,
                         .other = NSI_NONE,
                         .component = k};
        // Other parameters are candidates.
        nsi_term term = {.kind = param ? NSI_TERM_PARAMETER : NSI_TERM_GIVEN,
                         .site = nsi_library_site(b, site),
                         .form = "",
                         .unit = param            ? param->unit
                                 : variable->unit ? variable->unit
                                                  : "",
                         .equivalent = NSI_NONE,
                         .start = variable->initial,
                         .complexity = param ? param_complexity(param) : 1.0,
                         .shape = NSI_NONE,
                         .owner = NSI_NONE};

        // The term has one part: the column of its variable.
        nsi_part_list parts = {0};
        nsi_term_part part = {.column = k, .sign = 1.0, .atom = NSI_NONE};
        if (!nsi_array_push(&b->library->allocator, &parts.list, part)) b->failed = true;
        nsi_library_add_term(b, &parts, term);
    }
}
