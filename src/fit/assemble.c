// Assembles a fit from its spec, models, data and parameters, and checks that they are consistent.

#include "fit/fit_state.h"
#include "sim/learned_model.h"
#include "sysid/stage_solver.h"

#include <math.h>
#include <stdio.h>

ns_status nsi_fit_fail_at(const ns_fit* f, const nsi_yaml_node* node, ns_status status,
                          const char* what, ns_error* error) {
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    if (!node) node = f->spec->yaml.root;
    if (!node) { // made by calls
        return nsi_fail(error, status == NS_ERR_PARSE ? NS_ERR_ARGUMENT : status, "%s", what);
    }
    // A value of a file that the spec extends stands in that file.
    return nsi_fail(error, status, "%.200s:%u:%u: %s", node->source->file, node->line, node->column,
                    what);
}

const nsi_yaml_node* nsi_fit_entry(const ns_fit* f, const char* key) {
    return f->spec->yaml.root ? nsi_yaml_find(f->spec->yaml.root, key) : NULL;
}

static ns_status make_learned_system(ns_fit* f, ns_error* error) {
    ns_error inner;
    ns_status status = nsi_fit_prepare_learned(f, &inner);
    if (status == NS_OK) {
        status = nsi_learned_create(f->spec->learned, f->variants[0].model, f->timestep, false,
                                    &f->allocator, &f->system, &inner);
    }
    // Names of channels and controls are the data's; all else is the network's.
    const nsi_yaml_node* node = nsi_fit_entry(f, status == NS_ERR_PARSE ? "data" : "learned");
    if (status == NS_ERR_ARGUMENT) status = NS_ERR_PARSE; // what is wrong stands in the file
    return status == NS_OK ? NS_OK : nsi_fit_fail_at(f, node, status, inner.message, error);
}

// The system of a variant. Its options say what it was made with, for those who make others.
static ns_status make_robot_system(ns_fit* f, uint32_t number, ns_error* error) {
    nsi_fit_variant* v = &f->variants[number];
    ns_error inner;
    ns_status status = nsi_problem_make_system(f->parameters, number, f->timestep,
                                               f->data[NS_ROLE_TRAIN], &v->system, &inner);
    v->options.free_params = nsi_parameters_param_names(f->parameters, number);
    v->options.nfree = nsi_parameters_param_count(f->parameters, number);
    if (status == NS_OK) return NS_OK;
    // Names of channels are the data's; what a system refuses is told without a place.
    if (status == NS_ERR_PARSE)
        return nsi_fit_fail_at(f, nsi_fit_entry(f, "data"), status, inner.message, error);
    return nsi_fail(error, status, "%s", inner.message);
}

// Variants as a problem knows them; to be freed.
static nsi_variant* make_variants(const ns_fit* f) {
    nsi_variant* variants = nsi_alloc(&f->allocator, f->nvariant * sizeof *variants);
    for (uint32_t k = 0; variants && k < f->nvariant; k++) {
        const nsi_fit_variant* v = &f->variants[k];
        const ns_system* system = k == 0 ? f->system : v->system;
        variants[k] = (nsi_variant){v->name, v->files, v->model, system};
    }
    return variants;
}

static ns_status check_variants(const ns_fit* f, ns_error* error) {
    nsi_variant* variants = make_variants(f);
    ns_error inner;
    if (!variants) return nsi_fail_nomem(error);
    ns_status status = nsi_variants_check(variants, f->nvariant, &inner);
    nsi_free(&f->allocator, variants);
    const nsi_yaml_node* node = nsi_fit_entry(f, f->spec->model ? "model" : "variants");
    return status == NS_OK ? NS_OK : nsi_fit_fail_at(f, node, status, inner.message, error);
}

static ns_status make_robot_systems(ns_fit* f, ns_error* error) {
    ns_status status = check_variants(f, error); // of their joints: channels may be named by them
    for (uint32_t k = 0; k < f->nvariant && status == NS_OK; k++) {
        status = make_robot_system(f, k, error);
    }
    f->system = f->variants[0].system;
    f->options = f->variants[0].options;
    return status == NS_OK ? check_variants(f, error) : status;
}

static ns_status make_problem(ns_fit* f, ns_error* error) {
    nsi_variant* variants = make_variants(f);
    if (!variants) return nsi_fail_nomem(error);
    ns_status status =
        nsi_problem_create_shared(variants, f->nvariant, f->parameters, f->data[NS_ROLE_TRAIN],
                                  &f->allocator, &f->problem, error);
    nsi_free(&f->allocator, variants);
    return status;
}

static ns_status make_system(ns_fit* f, ns_error* error) {
    nsi_fit_spec* p = f->spec;
    ns_status status = p->learned ? make_learned_system(f, error) : make_robot_systems(f, error);
    if (status != NS_OK) return status;
    ns_error inner;
    status = make_problem(f, &inner);
    if (status == NS_OK && p->learned) status = nsi_fit_make_teacher(f, &inner);
    const nsi_yaml_node* node = nsi_fit_entry(f, p->timestep > 0.0 ? "timestep" : "data");
    return status == NS_OK ? NS_OK : nsi_fit_fail_at(f, node, status, inner.message, error);
}

// What the work would only find out on its way: that a stage has no windows, that a search does not
// know where, that a prediction has nothing to predict.
static ns_status check_stage(ns_fit* f, const nsi_stage* stage, const nsi_yaml_node* node,
                             ns_error* error) {
    nsi_windows windows = {0};
    ns_error inner;
    const nsi_problem* problem = nsi_fit_problem(f, stage);
    ns_status status = nsi_stage_solver_check(problem, stage, &inner);
    if (status == NS_OK) {
        status =
            nsi_windows_make(problem, f->data[NS_ROLE_TRAIN], stage->windows.length,
                             stage->windows.max_windows, stage->windows.overlap, &windows, &inner);
    }
    for (uint32_t k = 0; k < windows.count && status == NS_OK; k++) {
        status = nsi_problem_check_length(problem, windows.data[k].length, &inner);
    }
    nsi_array_free(&f->allocator, &windows);
    return status == NS_OK ? NS_OK : nsi_fit_fail_at(f, node, status, inner.message, error);
}

static ns_status check_search(const ns_fit* f, ns_error* error) {
    const nsi_yaml_node* node = nsi_fit_entry(f, "search");
    const ns_solver* solver = f->spec->search.solver;
    if (!solver) return NS_OK;
    if (f->nz == 0)
        return nsi_fit_fail_at(f, node, NS_ERR_PARSE, "a search needs `parameters`", error);
    for (uint32_t k = 0; k < f->nz; k++) {
        const ns_parameter_info* v = ns_parameters_at(f->parameters, k);
        char what[400];
        if (v->transform == NS_PARAMETER_INERTIA && (solver->capabilities & NS_SOLVER_GRADIENT)) {
            snprintf(what, sizeof what,
                     "%.60s cannot look for all ten inertial numbers of a link: %.200s; take"
                     " basin_hopping",
                     solver->name, v->name);
            return nsi_fit_fail_at(f, node, NS_ERR_PARSE, what, error);
        }
        if (isfinite(v->lower) && isfinite(v->upper)) continue;
        snprintf(what, sizeof what, "a search needs to know where: give lower and upper for %.200s",
                 v->name);
        return nsi_fit_fail_at(f, node, NS_ERR_PARSE, what, error);
    }
    return NS_OK;
}

// Every set must have something to predict, and one of them as much as the longest horizon asks for.
static ns_status check_predictions(const ns_fit* f, ns_error* error) {
    nsi_predict_options options = nsi_fit_predict_options(f);
    const nsi_yaml_node* node = nsi_fit_entry(f, "predict");
    double longest = 0.0;
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        double reached = 0.0;
        ns_error inner;
        if (!f->data[role]) continue;
        ns_status status = nsi_predict_check(f->problem, f->data[role], &options, &reached, &inner);
        if (status != NS_OK) {
            if (!node && !f->by_calls) node = f->spec->files[role].data[0].node;
            return nsi_fit_fail_at(f, node, status, inner.message, error);
        }
        if (reached > longest) longest = reached;
    }
    double period = ns_dataset_period(f->data[NS_ROLE_TRAIN]);
    double wanted = options.nhorizon > 0 ? options.horizons[options.nhorizon - 1] : 0.0;
    // A horizon counts its whole samples.
    if (floor(wanted / period + 1e-6) <= longest / period + 0.5) return NS_OK;
    char what[200];
    snprintf(what, sizeof what,
             "a horizon of %g s is longer than every recording allows: at most %g s; take shorter"
             " `horizons`, or fewer `origins`",
             wanted, longest);
    return nsi_fit_fail_at(f, node, NS_ERR_PARSE, what, error);
}

ns_status nsi_fit_check(ns_fit* f, ns_error* error) {
    const nsi_yaml_node *list = nsi_fit_entry(f, "stages"), *node = list ? list->first : NULL;
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < f->spec->stages.count && status == NS_OK; k++) {
        const nsi_yaml_node *fit = nsi_fit_entry(f, "train"), *at = node ? node
                                                                    : fit
                                                                        ? fit
                                                                        : nsi_fit_entry(f, "data");
        status = check_stage(f, &f->spec->stages.data[k], at, error);
        if (node) node = node->next;
    }
    if (status == NS_OK) status = check_search(f, error);
    return status == NS_OK ? check_predictions(f, error) : status;
}

// Are there bodies with the numbers it starts from?
static ns_status check_start(ns_fit* f, ns_error* error) {
    size_t nz = f->nz, np = f->problem->param_at[f->nvariant];
    double* v =
        nsi_alloc(&f->allocator, (nz + np + nsi_parameters_scratch(f->parameters)) * sizeof *v);
    if (!v) return nsi_fail_nomem(error);
    const char* fault = NULL;
    nsi_parameters_from_z(f->parameters, f->z0, v, NULL, v + nz + np);
    for (uint32_t k = 0; k < f->nvariant && !fault; k++) {
        nsi_parameters_params(f->parameters, k, v, v + nz, NULL, v + nz + np);
        fault = nsi_parameters_fault(f->parameters, k, v + nz);
    }
    nsi_free(&f->allocator, v);
    if (!fault) return NS_OK;
    char what[500];
    snprintf(what, sizeof what,
             "with these starts %.200s is not physical: its inertia cannot belong to a body, or a"
             " formula has no value or one out of its range",
             fault);
    return nsi_fit_fail_at(f, nsi_fit_entry(f, "parameters"), NS_ERR_PARSE, what, error);
}

// ---- formulas ------------------------------------------------------------------------------------

ns_status nsi_fit_parse_formula(ns_fit* f, const char* text, nsi_error_formula* out,
                                ns_error* error) {
    const ns_dataset* train = f->data[NS_ROLE_TRAIN];

    // Parse the text; an error names the character where it occurs.
    size_t where = 0;
    ns_error inner;
    ns_status status =
        ns_formula_parse(text, strlen(text), false, &f->allocator, &out->formula, &where, &inner);

    // Running out of memory is no fault of the text.
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    if (status != NS_OK) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "at character %zu of the formula: %s", where + 1,
                        inner.message);
    }

    // Its variables are channels.
    uint32_t count = ns_formula_variable_count(out->formula);
    uint32_t* channels =
        nsi_arena_alloc(&f->spec->yaml.arena, ((size_t)count + 1) * sizeof *channels);
    if (!channels) return nsi_fail_nomem(error);
    out->channels = channels;

    // Each variable is bound to the training channel of the same name.
    for (uint32_t k = 0; k < count; k++) {
        const char* name = ns_formula_variable(out->formula, k);
        channels[k] = NSI_NONE;
        for (uint32_t c = 0; c < ns_dataset_channel_count(train); c++) {
            if (strcmp(ns_dataset_channel(train, c)->name, name) == 0) channels[k] = c;
        }
        if (channels[k] != NSI_NONE) continue;

        // A misspelt name, or one with a slash that was read as a division.
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "the data has no channel %.200s; put names in double quotes", name);
    }
    return NS_OK;
}

// ---- the whole -----------------------------------------------------------------------------------

static ns_status take_start(ns_fit* f, ns_error* error) {
    double* v = nsi_alloc(&f->allocator, ((size_t)f->nz + 1) * sizeof(double));
    if (!v) return nsi_fail_nomem(error);
    nsi_parameters_initial(f->parameters, v);
    nsi_parameters_to_z(f->parameters, v, f->z0);
    nsi_free(&f->allocator, v);
    return NS_OK;
}

// No stage moves anything: the model is scored as it is.
static bool only_scores(const ns_fit* f) {
    for (uint32_t k = 0; k < f->spec->stages.count; k++) {
        if (f->spec->stages.data[k].iterations > 0) return false;
    }
    return !f->spec->search.solver;
}

static ns_status begin_fit(ns_fit* f, ns_error* error) {
    f->nz = ns_parameters_count(f->parameters);
    f->nw = ns_system_get_sizes(f->system).nw;
    if (f->nz + f->nw == 0 && !only_scores(f)) {
        return nsi_fit_fail_at(f, NULL, NS_ERR_PARSE,
                               "there is nothing to fit; give `parameters` or a blueprint, or"
                               " `train: {iterations: 0}` to score the model as it is",
                               error);
    }
    size_t nz = f->nz, nw = f->nw;
    f->z = nsi_alloc(&f->allocator, (2 * (nz + nw) + 1) * sizeof(double));
    if (!f->z) return nsi_fail_nomem(error);
    f->w = f->z + nz;
    f->z0 = f->w + nw;
    f->w0 = f->z0 + nz;
    ns_status status = take_start(f, error);
    if (status != NS_OK) return status;
    ns_system_default_weights(f->system, f->w0);
    memcpy(f->z, f->z0, (nz + nw) * sizeof(double));
    return check_start(f, error);
}

void nsi_fit_choose_timestep(ns_fit* f) {
    double period = ns_dataset_period(f->data[NS_ROLE_TRAIN]);
    f->timestep = period;
    for (uint32_t k = 0; k < f->nvariant && !f->spec->learned; k++) {
        const nsi_fit_variant* v = &f->variants[k];
        double own = nsi_problem_timestep(v->model, &v->options, f->spec->timestep, period);
        if (k == 0 || own < f->timestep) f->timestep = own;
    }
    for (uint32_t k = 0; k < f->nvariant; k++) f->variants[k].options.timestep = f->timestep;
    f->options = f->variants[0].options;
}

// Windows in half-periods of the motion: short ones avoid local minima, long ones show weak effects.
static const double window_growth[] = {1.0, 2.5, 5.0};
enum { WINDOW_LEVELS = sizeof window_growth / sizeof *window_growth };

// A growing schedule in place of the only stage. Lengths divide the shortest recording evenly, so that few
// samples are left over; recordings shorter than half a period count for nothing there.
static ns_status choose_windows(ns_fit* f, ns_error* error) {
    const ns_dataset* train = f->data[NS_ROLE_TRAIN];
    nsi_fit_spec* spec = f->spec;
    if (!spec->choose_windows || spec->learned) return NS_OK;
    uint32_t half_period = nsi_windows_half_period(f->problem, train), shortest = NSI_NONE;
    for (uint32_t k = 0; k < ns_dataset_recording_count(train); k++) {
        uint32_t length = ns_dataset_recording(train, k)->nsample - 1;
        if (length >= half_period && length < shortest) shortest = length;
    }
    if (shortest == NSI_NONE) return NS_OK; // whole recordings

    nsi_stage stage = spec->stages.data[0];
    spec->stages.count = 0;
    for (int k = 0; k < WINDOW_LEVELS; k++) {
        double windows = fmax(1.0, round(shortest / (window_growth[k] * half_period)));
        uint32_t length = (uint32_t)(shortest / windows);
        if (length == stage.windows.length) continue;
        stage.windows.length = length;
        if (!nsi_array_push(&spec->allocator, &spec->stages, stage)) return nsi_fail_nomem(error);
    }
    return NS_OK;
}

ns_status nsi_fit_assemble(ns_fit* f, ns_error* error) {
    ns_status status = make_system(f, error);
    if (status == NS_OK) status = choose_windows(f, error);
    return status == NS_OK ? begin_fit(f, error) : status;
}

ns_status ns_fit_set_initial(ns_fit* f, const char* name, double value, ns_error* error) {
    if (!f || !name) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_fit_set_initial: fit or name is NULL");
    }
    ns_error inner;
    ns_status status = ns_parameters_set_initial(f->parameters, name, value, &inner);
    if (status == NS_OK) return take_start(f, error);
    return nsi_fail(error, status, "%s: %s", f->spec->path, inner.message);
}

void ns_fit_free(ns_fit* f) {
    if (!f) return;
    ns_allocator memory = f->allocator;

    // The result and the formulas of errors and metrics.
    nsi_result_free(&f->result);
    for (uint32_t k = 0; k < f->nerror; k++) ns_formula_free(f->errors[k].formula);
    nsi_free(&memory, f->errors);
    for (uint32_t k = 0; k < f->nmeasured; k++) ns_formula_free(f->measured[k].formula);
    nsi_free(&memory, f->measured);
    nsi_free(&memory, f->metrics);
    nsi_free(&memory, f->adapt);
    nsi_free(&memory, f->adapt_deviations);

    // Problems refer to systems, so they go first.
    nsi_problem_free(f->teacher);
    ns_system_free(f->teacher_system);
    nsi_problem_free(f->problem);
    for (uint32_t k = 1; k < f->nvariant; k++) ns_system_free(f->variants[k].system);
    ns_system_free(f->system);

    // Parameters and data sets belong to the caller of ns_fit_create.
    if (!f->by_calls) ns_parameters_free(f->parameters);
    for (int role = 0; role < NS_ROLE_COUNT && !f->by_calls; role++) {
        ns_dataset_free((ns_dataset*)f->data[role]);
    }

    nsi_data_warnings_free(&f->data_warnings);

    // Models come last: systems and parameters refer to them.
    ns_data_map_free(f->map);
    ns_blueprint_free(f->blueprint);
    for (uint32_t k = 0; k < f->nvariant; k++) ns_hybrid_free(f->variants[k].hybrid);
    nsi_free(&memory, f->variants);
    nsi_fit_spec_free(f->spec);

    // z holds all points, initial and fitted, in one block.
    nsi_free(&memory, f->z);
    nsi_free(&memory, f);
}
