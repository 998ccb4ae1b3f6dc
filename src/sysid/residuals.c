// ns_residuals, the public API of an objective: creates systems for a dataset and evaluates residuals.

#include "neuralsim/residuals.h"

#include "sysid/objective_state.h"
#include "sysid/residuals_state.h"

#include <math.h>
#include <stdio.h>

// ---- making them ---------------------------------------------------------------------------------

ns_status nsi_parse_to_argument(ns_status status, ns_error* error) {
    if (status != NS_ERR_PARSE) return status;
    if (error) error->status = NS_ERR_ARGUMENT;
    return NS_ERR_ARGUMENT;
}

// The longest step that divides the period and that no variant finds too long.
static double choose_timestep(const ns_parameters* params, double period) {
    double timestep = period;
    for (uint32_t k = 0; k < nsi_parameters_variant_count(params); k++) {
        const ns_variant* v = nsi_parameters_variant(params, k);
        double own = nsi_problem_timestep(v->model, v->options, 0.0, period);
        if (k == 0 || own < timestep) timestep = own;
    }
    return timestep;
}

static ns_status make_variant_systems(ns_residuals* r, ns_error* error) {
    uint32_t count = nsi_parameters_variant_count(r->params);
    double timestep = choose_timestep(r->params, ns_dataset_period(r->data));
    r->variants = nsi_alloc_zeroed(&r->allocator, count * sizeof *r->variants);
    if (!r->variants) return nsi_fail_nomem(error);
    r->nvariant = count;
    for (uint32_t k = 0; k < count; k++) {
        const ns_variant* v = nsi_parameters_variant(r->params, k);
        r->variants[k] = (nsi_variant){.name = v->name, .files = v->files, .model = v->model};
    }

    // Joints first: channels may be named by them.
    ns_status status = nsi_variants_check(r->variants, count, error);
    for (uint32_t k = 0; k < count && status == NS_OK; k++) {
        ns_system* system = NULL;
        status = nsi_problem_make_system(r->params, k, timestep, r->data, &system, error);
        r->variants[k].system = system;
    }
    return status == NS_OK ? nsi_variants_check(r->variants, count, error) : status;
}

static ns_status make_residuals(ns_parameters* params, const ns_system* system,
                                const ns_dataset* data, const ns_window_options* options,
                                uint32_t threads, ns_residuals** out, ns_error* error) {
    static const ns_window_options defaults = {0};

    // Everything comes from the allocator of the parameters.
    ns_allocator memory = params ? *nsi_parameters_allocator(params) : ns_default_allocator();
    ns_residuals* r = nsi_alloc_zeroed(&memory, sizeof *r);
    if (!r) return nsi_fail_nomem(error);
    r->allocator = memory;
    r->params = params;
    r->data = data;

    // Parameters define the systems; without them the caller's system is used as it is.
    ns_status status = params ? nsi_parameters_finish(params, error) : NS_OK;
    if (status == NS_OK && params) status = make_variant_systems(r, error);
    if (status == NS_OK && params) {
        status = nsi_problem_create_shared(r->variants, r->nvariant, params, data, &memory,
                                           &r->problem, error);
    } else if (status == NS_OK) {
        status = nsi_problem_create(NULL, system, NULL, data, &memory, &r->problem, error);
    }

    // Windows and unknowns.
    if (status == NS_OK) {
        status = nsi_objective_create(r->problem, data, options ? options : &defaults, NULL,
                                      threads, &r->objective, error);
    }

    // There is no file to blame: parse errors become argument errors.
    if (status != NS_OK) {
        ns_residuals_free(r);
        return nsi_parse_to_argument(status, error);
    }
    *out = r;
    return NS_OK;
}

const char* nsi_find_bad_window_option(const ns_window_options* o) {
    if ((unsigned)o->initial_state > NS_INITIAL_STATE_TIED) return "initial_state";
    if ((unsigned)o->robust > NS_ROBUST_CAUCHY) return "robust";
    if ((unsigned)o->optimise > NS_OPTIMISE_NONE) return "optimise";
    if (o->robust != NS_ROBUST_NONE && !(o->robust_width > 0.0)) return "robust_width";
    if (!(o->weight_decay >= 0.0)) return "weight_decay";
    if (!(o->weight_decay_upper >= 0.0)) return "weight_decay_upper";
    return o->continuity_weight >= 0.0 ? NULL : "continuity_weight";
}

static ns_status check_options(const ns_window_options* o, ns_error* error) {
    const char* fault = o ? nsi_find_bad_window_option(o) : NULL;
    if (!fault) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "ns_residuals_create: %s is out of range", fault);
}

ns_status ns_residuals_create(ns_parameters* params, const ns_dataset* data,
                              const ns_window_options* options, uint32_t threads,
                              ns_residuals** out, ns_error* error) {
    if (out) *out = NULL;
    if (!params || !data || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_residuals_create: an argument is NULL");
    }
    ns_status status = check_options(options, error);
    if (status != NS_OK) return status;
    return make_residuals(params, NULL, data, options, threads, out, error);
}

ns_status ns_residuals_create_system(const ns_system* system, const ns_dataset* data,
                                     const ns_window_options* options, uint32_t threads,
                                     ns_residuals** out, ns_error* error) {
    if (out) *out = NULL;
    if (!system || !data || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_residuals_create_system: an argument is NULL");
    }
    ns_status status = check_options(options, error);
    if (status != NS_OK) return status;
    return make_residuals(NULL, system, data, options, threads, out, error);
}

void ns_residuals_free(ns_residuals* r) {
    if (!r) return;
    ns_allocator memory = r->allocator;
    nsi_objective_free(r->objective);
    nsi_problem_free(r->problem);
    for (uint32_t k = 0; k < r->nvariant; k++) ns_system_free((ns_system*)r->variants[k].system);
    nsi_free(&memory, r->variants);
    nsi_free(&memory, r);
}

// ---- what they are -------------------------------------------------------------------------------

const ns_system* ns_residuals_system(const ns_residuals* r, uint32_t variant) {
    return variant < r->problem->nvariant ? r->problem->variants[variant].system : NULL;
}

uint32_t ns_residuals_window_count(const ns_residuals* r) {
    return nsi_objective_window_count(r->objective);
}

uint32_t ns_residuals_count(const ns_residuals* r) {
    return (uint32_t)r->objective->row_at[r->objective->windows.count];
}

ns_residual_info ns_residuals_at(const ns_residuals* r, uint32_t row) {
    const nsi_objective* e = r->objective;
    if (row >= ns_residuals_count(r)) return (ns_residual_info){.channel = NULL};
    uint32_t window = 0;
    while (e->row_at[window + 1] <= row) window++;
    const nsi_window* w = &e->windows.data[window];
    uint32_t within = row - (uint32_t)e->row_at[window], nchannel = r->problem->nchannel;
    return (ns_residual_info){.window = window,
                              .recording = w->recording,
                              .sample = w->start + nsi_first_sample(e) + within / nchannel,
                              .channel = ns_dataset_channel(r->data, within % nchannel)->name};
}

uint32_t ns_residuals_unknown_count(const ns_residuals* r) {
    return nsi_objective_unknowns(r->objective);
}

// The coordinate of the state that a direction belongs to.
static const char* direction_name(const ns_residuals* r, uint32_t direction) {
    const nsi_problem* p = r->problem;
    uint32_t at = 0;
    for (uint32_t k = 0; k < p->ncoordinate && p->coordinates[k].tangent <= direction; k++) {
        at = p->coordinates[k].at;
    }
    uint32_t channel = p->channel_of_state[at];
    return channel != NSI_NONE ? ns_dataset_channel(r->data, channel)->name
                               : ns_system_state_name(p->system, at);
}

void ns_residuals_unknown_name(const ns_residuals* r, uint32_t number, char* text, size_t size) {
    const nsi_objective* e = r->objective;
    if (size == 0) return;
    text[0] = '\0';
    if (number < e->nz) {
        snprintf(text, size, "%s", ns_parameters_at(r->params, number)->name);
    } else if (number < e->n) {
        snprintf(text, size, "weight %u", number - e->nz);
    } else if (number < ns_residuals_unknown_count(r)) {
        uint32_t state = number - e->n;
        snprintf(text, size, "window %u: %s", state / e->nt, direction_name(r, state % e->nt));
    }
}

// ---- the point -----------------------------------------------------------------------------------

void ns_residuals_get_parameters(const ns_residuals* r, double* values) {
    nsi_objective* e = r->objective;
    if (r->params) nsi_parameters_from_z(r->params, e->point.z, values, NULL, e->scratch);
}

void ns_residuals_get_weights(const ns_residuals* r, double* weights) {
    memcpy(weights, r->objective->point.w, r->problem->sizes.nw * sizeof(double));
}

static size_t state_numbers(const ns_residuals* r) {
    return (size_t)r->objective->windows.count * r->problem->sizes.nx;
}

void ns_residuals_get_initial_states(const ns_residuals* r, double* states) {
    memcpy(states, r->objective->point.x, state_numbers(r) * sizeof(double));
}

void ns_residuals_set_parameters(ns_residuals* r, const double* values) {
    if (r->params) nsi_parameters_to_z(r->params, values, r->objective->point.z);
}

void ns_residuals_set_weights(ns_residuals* r, const double* weights) {
    memcpy(r->objective->point.w, weights, r->problem->sizes.nw * sizeof(double));
}

void ns_residuals_set_initial_states(ns_residuals* r, const double* states) {
    memcpy(r->objective->point.x, states, state_numbers(r) * sizeof(double));
}

void ns_residuals_move(ns_residuals* r, const double* step) {
    nsi_objective_move(r->objective, step);
}

// ---- at the point --------------------------------------------------------------------------------

double ns_residuals_cost(ns_residuals* r) {
    return nsi_objective_cost(r->objective);
}

const double* ns_residuals_values(const ns_residuals* r) {
    size_t count;
    return nsi_objective_residuals(r->objective, &count);
}

double ns_residuals_rms(const ns_residuals* r) {
    return nsi_objective_rms(r->objective);
}

double ns_residuals_gradient(ns_residuals* r, double* gradient) {
    return nsi_objective_gradient(r->objective, gradient);
}

ns_status ns_residuals_normal_equations(ns_residuals* r, double* H, double* g, ns_error* error) {
    nsi_objective* e = r->objective;
    double cost, squares;
    if (!nsi_objective_linearise(e, &cost)) {
        return nsi_fail(error, NS_ERR_NONFINITE,
                        "ns_residuals_normal_equations: there is no finite cost at this point");
    }
    if (!nsi_objective_eliminate_states(e, 0.0, H, g, &squares)) {
        return nsi_fail(error, NS_ERR_NONFINITE,
                        "ns_residuals_normal_equations: initial states are not determined");
    }
    for (uint32_t i = 0; i < e->n; i++) {
        g[i] = -g[i];
        for (uint32_t j = 0; j < i; j++) H[(size_t)j * e->n + i] = H[(size_t)i * e->n + j];
    }
    return NS_OK;
}
