// ns_fit_create: copies the public spec into the internal one that a file would fill, and assembles the fit
// by the same functions.

#include "fit/fit_state.h"

#include "solver/solvers.h"
#include "sysid/residuals_state.h"

#include <math.h>

// ---- the spec ------------------------------------------------------------------------------------

// A text of the spec's own; NULL stays.
static ns_status copy_text(nsi_fit_spec* p, const char* from, const char** out, ns_error* error) {
    *out = NULL;
    if (!from) return NS_OK;
    *out = nsi_arena_string(&p->yaml.arena, from, strlen(from));
    return *out ? NS_OK : nsi_fail_nomem(error);
}

// A solver for stages, or for searches.
static ns_status find_solver(const char* name, bool global, const ns_solver** out,
                             ns_error* error) {
    ns_error why;
    *out =
        nsi_solver_choose(name, global ? NS_SOLVER_GLOBAL : 0, global ? 0 : NS_SOLVER_GLOBAL, &why);
    if (*out) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "ns_fit_create: %s", why.message);
}

static ns_status check_stage_numbers(const ns_fit_stage* s, const ns_solver* solver,
                                     ns_error* error) {
    const char* fault = NULL;
    if (!(s->tolerance >= 0.0 && s->tolerance <= 1.0)) fault = "tolerance is out of range";
    if (!(s->learning_rate >= 0.0) || !(s->final_learning_rate >= 0.0) || !(s->clip_norm >= 0.0)) {
        fault = "learning_rate or clip_norm is out of range";
    }
    if (!(s->l1 >= 0.0) || !(s->group_lasso >= 0.0)) fault = "l1 or group_lasso is negative";
    if (s->l1 > 0.0 && !(solver->capabilities & NS_SOLVER_L1)) fault = "its solver has no l1";
    if ((s->group_lasso > 0.0 || s->adaptive) && !(solver->capabilities & NS_SOLVER_GROUPS)) {
        fault = "its solver has neither group_lasso nor adaptive penalties";
    }
    if (fault) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_fit_create: a stage's %s", fault);

    fault = nsi_find_bad_window_option(&s->windows);
    if (!fault) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "ns_fit_create: a stage's windows.%s is out of range",
                    fault);
}

static double or_default(double value, double otherwise) {
    return value == 0.0 ? otherwise : value;
}

static ns_status add_called_stage(nsi_fit_spec* p, const ns_fit_stage* s, ns_error* error) {
    // The solver determines which options are valid.
    const ns_solver* solver = NULL;
    ns_status status = find_solver(s->solver ? s->solver : "lm", false, &solver, error);
    if (status == NS_OK) status = check_stage_numbers(s, solver, error);
    if (status != NS_OK) return status;

    // Zero means the default of the option.
    nsi_stage stage = {.windows = s->windows,
                       .solver = solver,
                       .iterations = s->max_iterations == 0  ? 50
                                     : s->max_iterations < 0 ? 0
                                                             : (uint32_t)s->max_iterations,
                       .tolerance = or_default(s->tolerance, 1e-9),
                       .learning_rate = or_default(s->learning_rate, 1e-2),
                       .learning_rate_end = or_default(s->final_learning_rate, -1.0),
                       .batch = s->batch,
                       .clip_norm = s->clip_norm,
                       .l1 = s->l1,
                       .group = s->group_lasso,
                       .adaptive = s->adaptive};

    // So it is for windows.
    if (stage.windows.smoothing == 0) stage.windows.smoothing = NSI_DEFAULT_SMOOTHING;
    if (stage.windows.continuity_weight == 0.0) {
        stage.windows.continuity_weight = NSI_DEFAULT_CONTINUITY_WEIGHT;
    }

    // Sizes at the beginning of a stage are those at the end of the path so far.
    const nsi_stage* last = p->stages.count > 0 ? &p->stages.data[p->stages.count - 1] : NULL;
    if (stage.adaptive && !(last && (last->l1 > 0.0 || last->group > 0.0))) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_fit_create: adaptive needs a stage with l1 or group_lasso before it");
    }

    // Stages run in the order in which they are given.
    bool done = nsi_array_push(&p->allocator, &p->stages, stage);
    return done ? NS_OK : nsi_fail_nomem(error);
}

static ns_status set_search(nsi_fit_spec* p, const ns_fit_search* s, ns_error* error) {
    p->search = (nsi_search){.population = s->population > 0 ? s->population : 8,
                             .rounds = s->rounds > 0 ? s->rounds : 20,
                             .patience = s->patience,
                             .evaluations = s->evaluations > 0 ? s->evaluations : 10000,
                             .sigma = or_default(s->sigma, 0.2),
                             .target = or_default(s->target, -INFINITY),
                             .seconds = s->seconds};
    if (!s->solver) return NS_OK;
    if (!(s->sigma >= 0.0 && s->seconds >= 0.0 && s->target >= 0.0)) {
        return nsi_fail(
            error, NS_ERR_ARGUMENT,
            "ns_fit_create: sigma, seconds and target of a search must not be negative");
    }
    ns_status status = find_solver(s->solver, true, &p->search.solver, error);
    for (uint32_t k = 0; k < p->stages.count && status == NS_OK; k++) {
        bool starts = (p->search.solver->capabilities & NS_SOLVER_STARTS) != 0;
        if (!starts || !p->stages.data[k].adaptive) continue;
        status = nsi_fail(error, NS_ERR_ARGUMENT,
                          "ns_fit_create: adaptive penalties cannot be used in a search from many"
                          " starts");
    }
    return status;
}

static ns_status set_horizons(nsi_fit_spec* p, const ns_prediction_options* o, ns_error* error) {
    if (!(o->after >= 0.0 && o->after < 1.0)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_fit_create: prediction.after is no share");
    }
    p->history = o->history;
    p->origins = o->origins;
    p->after = o->after;
    p->horizons.data =
        nsi_arena_alloc(&p->yaml.arena, ((size_t)o->nhorizon + 1) * sizeof *p->horizons.data);
    if (!p->horizons.data) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < o->nhorizon; k++) {
        if (!(o->horizons[k] > (k > 0 ? o->horizons[k - 1] : 0.0) && isfinite(o->horizons[k]))) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "ns_fit_create: horizons must be positive and ascending");
        }
        p->horizons.data[p->horizons.count++] = o->horizons[k];
    }
    return NS_OK;
}

static ns_status fill_spec(nsi_fit_spec* p, const ns_fit_spec* spec, ns_error* error) {
    static const ns_fit_stage whole = {0};
    p->contact = p->integrator = -1;
    p->seed = spec->seed;
    ns_status status = copy_text(p, spec->title ? spec->title : "Fit", &p->title, error);
    if (status == NS_OK) {
        status = copy_text(p, spec->citation ? spec->citation : "", &p->citation, error);
    }
    uint32_t count = spec->nstage > 0 ? spec->nstage : 1;
    for (uint32_t k = 0; k < count && status == NS_OK; k++) {
        status = add_called_stage(p, spec->nstage > 0 ? &spec->stages[k] : &whole, error);
    }
    if (status == NS_OK) status = set_search(p, &spec->search, error);
    p->posterior = spec->posterior;
    return status == NS_OK ? set_horizons(p, &spec->prediction, error) : status;
}

// ---- models and predictions ----------------------------------------------------------------------

static ns_status take_robots(ns_fit* f, ns_error* error) {
    uint32_t count = nsi_parameters_variant_count(f->parameters);
    f->variants = nsi_alloc_zeroed(&f->allocator, count * sizeof *f->variants);
    if (!f->variants) return nsi_fail_nomem(error);
    f->nvariant = count;
    for (uint32_t k = 0; k < count; k++) {
        const ns_variant* v = nsi_parameters_variant(f->parameters, k);
        f->variants[k] = (nsi_fit_variant){
            .name = v->name, .files = v->files, .model = v->model, .options = *v->options};
        // Networks are shared: those of the first variant.
        f->variants[k].options.blueprint = f->variants[0].options.blueprint;
    }
    f->options = f->variants[0].options;
    return NS_OK;
}

static ns_status take_errors(ns_fit* f, const ns_prediction_options* o, ns_error* error) {
    ns_status status = NS_OK;
    f->errors = nsi_alloc_zeroed(&f->allocator, ((size_t)o->nerror + 1) * sizeof *f->errors);
    if (!f->errors) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < o->nerror && status == NS_OK; k++) {
        status = nsi_fit_parse_formula(f, o->errors[k], &f->errors[f->nerror++], error);
    }
    return status;
}

static ns_status take_metric(ns_fit* f, const ns_metric* from, ns_error* error) {
    nsi_metric* m = &f->metrics[f->nmetric++];
    *m = (nsi_metric){.rotation = from->rotation,
                      .mean = from->mean,
                      .formulas = f->measured + f->nmeasured,
                      .nformula = from->nformula};
    if (!from->name || from->nformula == 0 || (from->rotation && from->nformula != 4)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_fit_create: metric %.60s needs a name and formulas, a rotation four",
                        from->name ? from->name : "");
    }
    ns_status status = copy_text(f->spec, from->name, &m->name, error);
    if (status == NS_OK) status = copy_text(f->spec, from->unit ? from->unit : "", &m->unit, error);
    for (uint32_t k = 0; k < from->nformula && status == NS_OK; k++) {
        status = nsi_fit_parse_formula(f, from->formulas[k], &f->measured[f->nmeasured++], error);
    }
    return status;
}

static ns_status take_prediction_metrics(ns_fit* f, const ns_prediction_options* o,
                                         ns_error* error) {
    size_t formulas = 0;
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < o->nmetric; k++) formulas += o->metrics[k].nformula;
    f->metrics = nsi_alloc_zeroed(&f->allocator, ((size_t)o->nmetric + 1) * sizeof *f->metrics);
    f->measured = nsi_alloc_zeroed(&f->allocator, (formulas + 1) * sizeof *f->measured);
    if (!f->metrics || !f->measured) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < o->nmetric && status == NS_OK; k++) {
        status = take_metric(f, &o->metrics[k], error);
    }
    return status;
}

// ---- the whole -----------------------------------------------------------------------------------

// A list that is NULL although its count is not 0.
static const char* find_missing_list(const ns_fit_spec* spec) {
    const ns_prediction_options* o = &spec->prediction;
    if (spec->nstage > 0 && !spec->stages) return "stages is NULL";
    if (o->nhorizon > 0 && !o->horizons) return "prediction.horizons is NULL";
    if (o->nerror > 0 && !o->errors) return "prediction.errors is NULL";
    if (o->nmetric > 0 && !o->metrics) return "prediction.metrics is NULL";
    for (uint32_t k = 0; k < o->nmetric; k++) {
        if (o->metrics[k].nformula > 0 && !o->metrics[k].formulas) {
            return "formulas of a metric is NULL";
        }
    }
    return NULL;
}

static ns_status check_called_spec(const ns_fit_spec* spec, ns_fit** out, ns_error* error) {
    const char* missing = NULL;
    if (!spec || !spec->parameters) missing = "there are no parameters";
    if (!missing && (!spec->train || ns_dataset_recording_count(spec->train) == 0)) {
        missing = "there is no recording to train on";
    }
    if (!missing) missing = find_missing_list(spec);
    if (!missing &&
        ((unsigned)spec->posterior.method > NS_POSTERIOR_HMC ||
         !(spec->posterior.target_accept >= 0.0 && spec->posterior.target_accept < 1.0))) {
        missing = "posterior.method or posterior.target_accept is out of range";
    }
    if (!out) missing = "out is NULL";
    return missing ? nsi_fail(error, NS_ERR_ARGUMENT, "ns_fit_create: %s", missing) : NS_OK;
}

// All sets have the channels, controls and period of the training data.
static ns_status check_set(const ns_dataset* train, const ns_dataset* other, const char* role,
                           ns_error* error) {
    if (!other) return NS_OK;
    bool same = ns_dataset_period(train) == ns_dataset_period(other) &&
                ns_dataset_channel_count(train) == ns_dataset_channel_count(other) &&
                ns_dataset_control_count(train) == ns_dataset_control_count(other) &&
                ns_dataset_recording_count(other) > 0;
    for (uint32_t k = 0; same && k < ns_dataset_channel_count(train); k++) {
        same = strcmp(ns_dataset_channel(train, k)->name, ns_dataset_channel(other, k)->name) == 0;
    }
    for (uint32_t k = 0; same && k < ns_dataset_control_count(train); k++) {
        same = strcmp(ns_dataset_control(train, k), ns_dataset_control(other, k)) == 0;
    }
    if (same) return NS_OK;
    return nsi_fail(
        error, NS_ERR_ARGUMENT,
        "ns_fit_create: %s needs recordings, and channels, controls and period of train", role);
}

ns_status ns_fit_create(const ns_fit_spec* spec, ns_fit** out, ns_error* error) {
    if (out) *out = NULL;

    // Validate the spec before anything is allocated.
    ns_status status = check_called_spec(spec, out, error);
    if (status == NS_OK) status = check_set(spec->train, spec->validation, "validation", error);
    if (status == NS_OK) status = check_set(spec->train, spec->test, "test", error);
    if (status == NS_OK) status = nsi_parameters_finish(spec->parameters, error);
    if (status != NS_OK) return status;

    // The spec, models and data, as a file would give them.
    ns_allocator memory = *nsi_parameters_allocator(spec->parameters);
    ns_fit* f = nsi_alloc_zeroed(&memory, sizeof *f);
    if (!f) return nsi_fail_nomem(error);
    f->allocator = memory;
    f->data_warnings.arena.allocator = memory;
    f->threads = spec->threads;

    // Borrowed from the caller, who frees them after the fit.
    f->by_calls = true;
    f->parameters = spec->parameters;
    f->data[NS_ROLE_TRAIN] = spec->train;
    f->data[NS_ROLE_VALIDATION] = spec->validation;
    f->data[NS_ROLE_TEST] = spec->test;
    nsi_result_init(&memory, &f->result);
    f->spec = nsi_fit_spec_make("fit", &memory);
    status = f->spec ? fill_spec(f->spec, spec, error) : nsi_fail_nomem(error);
    if (status == NS_OK) status = take_robots(f, error);
    if (status == NS_OK) status = take_errors(f, &spec->prediction, error);
    if (status == NS_OK) status = take_prediction_metrics(f, &spec->prediction, error);

    // From here on as a fit from a file.
    if (status == NS_OK) {
        nsi_fit_choose_timestep(f);
        status = nsi_fit_assemble(f, error);
    }

    // Faults of single stages are found now, not hours into the fit.
    if (status == NS_OK) status = nsi_fit_check(f, error);
    if (status != NS_OK) {
        ns_fit_free(f);
        return nsi_parse_to_argument(status, error);
    }
    *out = f;
    return NS_OK;
}
