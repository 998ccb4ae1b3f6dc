// From the point where a fit ended to its answer: errors of parameters, of predictions, and files.

#include "fit/fit_report.h"
#include "io/file.h"
#include "io/hybrid_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

// ---- parameters --------------------------------------------------------------------------------

static ns_status list_estimates(ns_fit* f, const double* v, ns_error* error) {
    for (uint32_t k = 0; k < f->nz; k++) {
        const ns_parameter_info* variable = ns_parameters_at(f->variables, k);
        nsi_estimate estimate = {.name = variable->name,
                                 .unit = variable->unit,
                                 .start = variable->initial,
                                 .value = v[k],
                                 .lower = variable->lower,
                                 .upper = variable->upper,
                                 .standard_error = NAN,
                                 .verdict = NSI_VERDICT_OK};
        if (!nsi_array_push(&f->allocator, &f->answer.estimates, estimate)) {
            return nsi_fail_nomem(error);
        }
    }
    return NS_OK;
}

static ns_status note(ns_fit* f, const char* text, ns_error* error) {
    return nsi_array_push(&f->allocator, &f->answer.notes, text) ? NS_OK : nsi_fail_nomem(error);
}

// What priors say, beside residuals of this standard deviation. The fit itself weighs them as if it
// were 1, and says so where it is not.
static ns_status add_priors(ns_fit* f, double sigma, double* information, ns_error* error) {
    bool any = false;
    for (uint32_t k = 0; k < f->nz; k++) {
        double prior = ns_parameters_at(f->variables, k)->prior_sigma, share = sigma / prior;
        information[(size_t)k * f->nz + k] += share * share;
        any |= isfinite(prior);
    }
    if (!any || (sigma > 0.5 && sigma < 2.0)) return NS_OK;
    char text[300];
    snprintf(
        text, sizeof text,
        "priors were weighed as if the residuals had a standard deviation of 1, but it is %.2g:"
        " they %s than they should; give channels their sigma in a map",
        sigma, sigma < 1.0 ? "pull harder" : "pull less");
    const char* kept = nsi_arena_string(&f->answer.arena, text, strlen(text));
    return kept ? note(f, kept, error) : nsi_fail_nomem(error);
}

// How far the residuals of the last stage are from 0.
static double find_sigma(ns_fit* f, const nsi_objective* e) {
    double residuals = nsi_objective_residual_count(e);
    double free_ones = residuals - nsi_objective_unknowns(e);
    double rms = nsi_objective_rms(e);
    f->answer.sigma = rms * sqrt(residuals / (free_ones > 1.0 ? free_ones : 1.0));
    f->answer.nresidual = nsi_objective_residual_count(e);
    // Data made by the model itself has no noise, but residuals and derivatives have rounding.
    return fmax(f->answer.sigma, 1e-9);
}

// Coefficients of formulas, if weights are fitted at all.
static ns_status list_coefficients(ns_fit* f, ns_error* error) {
    for (uint32_t k = 0; f->answer.nweight > 0 && k < ns_system_weight_matrix_count(f->system);
         k++) {
        ns_weight_matrix m = ns_system_weight_matrix(f->system, k);
        for (uint32_t i = 0; m.formula && i < m.columns; i++) {
            nsi_fitted_coefficient c = {.set = m.set,
                                        .name = m.formula->coefficients[i].name,
                                        .start = f->w0[m.offset + i],
                                        .value = f->w[m.offset + i],
                                        .standard_error = NAN};
            if (!nsi_array_push(&f->allocator, &f->answer.coefficients, c)) {
                return nsi_fail_nomem(error);
            }
        }
    }
    f->answer.nweight -= f->answer.coefficients.count;
    return NS_OK;
}

// Their errors, at the end of the last stage.
static ns_status judge_coefficients(ns_fit* f, nsi_objective* e, ns_error* error) {
    const nsi_stage* last = &f->plan->stages.data[f->plan->stages.count - 1];
    if (f->answer.coefficients.count == 0 || !nsi_optimises_weights(last->windows.optimise))
        return NS_OK;
    double* variances = nsi_alloc(&f->allocator, f->nw * sizeof *variances);
    if (!variances) return nsi_fail_nomem(error);
    if (nsi_objective_coefficient_variances(e, variances)) {
        double sigma = find_sigma(f, e);
        nsi_fitted_coefficient* c = f->answer.coefficients.data;
        for (uint32_t k = 0; k < ns_system_weight_matrix_count(f->system); k++) {
            ns_weight_matrix m = ns_system_weight_matrix(f->system, k);
            for (uint32_t i = 0; m.formula && i < m.columns; i++, c++) {
                c->standard_error = sigma * sqrt(variances[m.offset + i]);
            }
        }
    }
    nsi_free(&f->allocator, variances);
    return NS_OK;
}

// Errors from the normal equations at the end of the last stage.
static ns_status identify(ns_fit* f, nsi_objective* e, ns_error* error) {
    const nsi_stage* last = &f->plan->stages.data[f->plan->stages.count - 1];
    if (f->nz == 0 || !nsi_optimises_parameters(last->windows.optimise)) return NS_OK;
    double* information = nsi_alloc_zeroed(&f->allocator, (size_t)f->nz * f->nz * sizeof(double));
    double* sizes = nsi_alloc(&f->allocator, f->nz * sizeof(double));
    ns_status status = information && sizes ? NS_OK : nsi_fail_nomem(error);
    for (uint32_t k = 0; status == NS_OK && k < f->nz; k++) {
        sizes[k] = 1e-3 * ns_parameters_at(f->variables, k)->scale;
    }
    if (status == NS_OK && nsi_objective_information(e, information)) {
        double sigma = find_sigma(f, e);
        status = add_priors(f, sigma, information, error);
        if (status == NS_OK) {
            status = nsi_result_identify(&f->answer, information, sigma, sizes, error);
        }
        if (status == NS_ERR_NONFINITE || status == NS_ERR_INVALID) {
            status = note(f,
                          "standard errors could not be computed: the information about the"
                          " parameters is not finite",
                          error);
        }
    } else if (status == NS_OK) {
        status = note(f, "standard errors could not be computed: the normal equations are singular",
                      error);
    }
    nsi_free(&f->allocator, information);
    nsi_free(&f->allocator, sizes);
    return status;
}

// ---- predictions -------------------------------------------------------------------------------

nsi_predict_options nsi_fit_predict_options(const ns_fit* f) {
    return (nsi_predict_options){.history = f->plan->history,
                                 .origins = f->plan->origins,
                                 .after = f->plan->after,
                                 .adapt = {f->adapt, f->adapt_deviations, f->nadapt},
                                 .smoothing = f->plan->stages.data[0].windows.smoothing,
                                 .horizons = f->plan->horizons.data,
                                 .nhorizon = f->plan->horizons.count,
                                 .errors = f->errors,
                                 .nerror = f->nerror,
                                 .measures = f->measures,
                                 .nmeasure = f->nmeasure,
                                 .threads = f->threads};
}

static ns_status score(ns_fit* f, nsi_role role, bool after, nsi_score* out, ns_error* error) {
    if (!f->data[role]) return NS_OK;
    nsi_predict_options options = nsi_fit_predict_options(f);
    nsi_prediction prediction = {0};
    ns_status status = nsi_predict(f->problem, f->data[role], after ? f->z : f->z0,
                                   after ? f->w : f->w0, &options, &prediction, error);
    if (status != NS_OK) return status;
    *out = prediction.score;
    prediction.score.horizons = NULL;
    prediction.score.measures = NULL;
    nsi_prediction_free(&prediction);
    return NS_OK;
}

// ---- words -------------------------------------------------------------------------------------

// "LSTM of 16, next state"
static void describe_learned(const nsi_learned* l, char* text, size_t size) {
    int used = snprintf(text, size, "%s",
                        l->kind == NS_LEARNED_LSTM ? "LSTM of "
                        : l->nhidden == 0          ? "linear map"
                                                   : "feed-forward network of ");
    for (uint32_t k = 0; k < l->nhidden && used > 0 && (size_t)used < size; k++) {
        used +=
            snprintf(text + used, size - (size_t)used, "%s%u", k > 0 ? " and " : "", l->hidden[k]);
    }
    if (used > 0 && (size_t)used < size) {
        snprintf(text + used, size - (size_t)used, ", %s",
                 l->integrate   ? l->increment ? "increments of velocities" : "next velocities"
                 : l->increment ? "increments"
                                : "next state");
    }
}

// "butter.xml", or all of the plan's variants one after the other; NULL: out of memory.
static const char* describe_model(ns_fit* f) {
    nsi_text_builder text = {.allocator = f->allocator};
    if (f->plan->model) return f->plan->model;
    for (uint32_t k = 0; k < f->plan->variants.count; k++) {
        nsi_text_add(&text, "%s%s", k > 0 ? ", " : "", f->plan->variants.data[k].model);
    }
    const char* kept =
        text.failed ? NULL : nsi_arena_string(&f->answer.arena, text.text.data, text.text.count);
    nsi_array_free(&text.allocator, &text.text);
    return kept;
}

static ns_status describe(ns_fit* f, ns_error* error) {
    static const char* const states[] = {"free start states", "start states as recorded",
                                         "start states tied to the window before"};
    const nsi_stage* last = &f->plan->stages.data[f->plan->stages.count - 1];
    ns_system_sizes sizes = ns_system_get_sizes(f->system);
    char text[300], step[200];
    double period = ns_dataset_period(f->data[NSI_ROLE_TRAIN]);
    if (f->plan->learned) {
        describe_learned(f->plan->learned, step, sizeof step);
    } else {
        snprintf(step, sizeof step, "%s, steps of %g ms",
                 ns_choice_help(&ns_integrators, (int)sizes.integrator), sizes.timestep * 1e3);
    }
    char noise[60] = "";
    if (f->plan->noise > 0.0) {
        snprintf(noise, sizeof noise, "; noise of %g added to training data", f->plan->noise);
    }
    snprintf(text, sizeof text, "%s, samples every %g ms; %s%s; seed %llu", step, period * 1e3,
             states[last->windows.initial_state], noise, (unsigned long long)f->plan->seed);
    nsi_result* a = &f->answer;
    a->setting = nsi_arena_string(&a->arena, text, strlen(text));
    a->title = f->plan->title;
    a->citation = f->plan->citation;
    a->model = describe_model(f);
    a->treatment = ns_dataset_treatment(f->data[NSI_ROLE_TRAIN]);
    a->noise_known = true;
    for (uint32_t k = 0; k < ns_dataset_channel_count(f->data[NSI_ROLE_TRAIN]); k++) {
        const ns_channel* channel = ns_dataset_channel(f->data[NSI_ROLE_TRAIN], k);
        if (channel->weight > 0.0 && !(channel->sigma > 0.0)) a->noise_known = false;
    }
    a->nweight = 0;
    for (uint32_t k = 0; k < f->plan->stages.count; k++) {
        if (nsi_optimises_weights(f->plan->stages.data[k].windows.optimise)) a->nweight = f->nw;
    }
    return a->setting && a->model ? NS_OK : nsi_fail_nomem(error);
}

// A text of the answer's own: it may outlive the fit.
static bool own(nsi_result* a, const char** text) {
    if (*text) *text = nsi_arena_string(&a->arena, *text, strlen(*text));
    return *text != NULL;
}

static ns_status own_texts(nsi_result* a, ns_error* error) {
    bool ok = own(a, &a->title) && own(a, &a->citation) && own(a, &a->model);
    ok = ok && own(a, &a->treatment);
    for (uint32_t k = 0; ok && k < a->estimates.count; k++) {
        nsi_estimate* estimate = &a->estimates.data[k];
        ok = own(a, &estimate->name) && (!estimate->unit || own(a, &estimate->unit));
    }
    for (uint32_t k = 0; ok && k < a->coefficients.count; k++) {
        ok = own(a, &a->coefficients.data[k].set) && own(a, &a->coefficients.data[k].name);
    }
    for (int role = 0; ok && role < 2 * NSI_ROLES; role++) {
        nsi_score* s = role < NSI_ROLES ? &a->before[role] : &a->after[role - NSI_ROLES];
        for (uint32_t k = 0; ok && k < s->nmeasure; k++) {
            ok = own(a, &s->measures[k].name) && own(a, &s->measures[k].unit);
        }
    }
    return ok ? NS_OK : nsi_fail_nomem(error);
}

ns_status nsi_fit_get_result(ns_fit* f, nsi_objective* e, ns_error* error) {
    size_t scratch = nsi_parameters_scratch(f->variables);
    double* v = nsi_alloc(&f->allocator, ((size_t)f->nz + scratch + 1) * sizeof(double));
    if (!v) return nsi_fail_nomem(error);
    nsi_parameters_from_z(f->variables, f->z, v, NULL, v + f->nz);
    ns_status status = describe(f, error);
    if (status == NS_OK) status = list_estimates(f, v, error);
    if (status == NS_OK) status = list_coefficients(f, error);
    nsi_free(&f->allocator, v);
    if (status == NS_OK && e) status = identify(f, e, error);
    if (status == NS_OK && e) status = judge_coefficients(f, e, error);
    for (int role = 0; role < NSI_ROLES && status == NS_OK; role++) {
        status = score(f, (nsi_role)role, false, &f->answer.before[role], error);
        if (status == NS_OK) {
            status = score(f, (nsi_role)role, true, &f->answer.after[role], error);
        }
    }
    return status == NS_OK ? own_texts(&f->answer, error) : status;
}

const char* ns_fit_title(const ns_fit* f) {
    return f->plan->title;
}

bool ns_fit_estimate(const ns_fit* f, const char* name, double* value, double* error) {
    for (uint32_t k = 0; k < f->answer.estimates.count; k++) {
        const nsi_estimate* estimate = &f->answer.estimates.data[k];
        if (strcmp(estimate->name, name) != 0) continue;
        if (value) *value = estimate->value;
        if (error) *error = estimate->standard_error;
        return true;
    }
    return false;
}

// ---- files -------------------------------------------------------------------------------------

char* nsi_fit_join(const ns_fit* f, const char* folder, const char* name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    char* path = nsi_alloc(&f->allocator, size);
    if (path) snprintf(path, size, "%s/%s", folder, name);
    return path;
}

ns_status nsi_fit_write_text(const ns_fit* f, const char* folder, const char* name,
                             const ns_text* text, ns_error* error) {
    char* path = nsi_fit_join(f, folder, name);
    ns_status status = path ? nsi_file_write(path, text->data, text->size, &f->allocator, error)
                            : nsi_fail_nomem(error);
    nsi_free(&f->allocator, path);
    return status;
}

ns_status nsi_fit_set_parameter(const ns_fit* f, nsi_hybrid_parameters* to, const ns_model* robot,
                                const char* name, double value, ns_error* error) {
    const ns_param* param = ns_model_param(robot, ns_model_find_param(robot, name));
    uint32_t kept = 0;
    for (uint32_t k = 0; k < to->count; k++) {
        if (strcmp(to->data[k].pattern, name) == 0) continue;
        to->data[kept++] = to->data[k];
    }
    to->count = kept;
    nsi_hybrid_parameter parameter = {.pattern = name,
                                      .value = fmin(fmax(value, param->lower), param->upper)};
    bool done = nsi_array_push(&f->allocator, to, parameter);
    return done ? NS_OK : nsi_fail_nomem(error);
}

// Value of a free parameter of a variant; NULL: it has none of this name.
static const double* find_value(const ns_fit* f, const double* p, uint32_t variant,
                                const char* name) {
    const char* const* names = nsi_parameters_param_names(f->variables, variant);
    for (uint32_t k = 0; k < nsi_parameters_param_count(f->variables, variant); k++) {
        if (strcmp(names[k], name) == 0) return &p[f->problem->param_at[variant] + k];
    }
    return NULL;
}

static bool is_given(const nsi_hybrid_parameters* parameters, const char* name) {
    for (uint32_t k = 0; k < parameters->count; k++) {
        if (ns_glob_match(parameters->data[k].pattern, name)) return true;
    }
    return false;
}

// Can a value stand among those of all variants? Not when one that has a parameter of this name has
// another value, as formulas may differ and globs pass over a link that is fixed in one of them; nor
// when it has one of its own in the file, which would hide it.
static bool is_common(const ns_fit* f, const nsi_hybrid* file, const double* p, const char* name,
                      double value) {
    for (uint32_t k = 0; k < f->nvariant; k++) {
        const ns_model* robot = ns_hybrid_model(f->variants[k].hybrid);
        if (ns_model_find_param(robot, name) == NSI_NONE) continue;
        const double* other = find_value(f, p, k, name);
        if (!other || *other != value) return false;
        if (file->variants.count > 0 && is_given(&file->variants.data[k].parameters, name)) {
            return false;
        }
    }
    return true;
}

// What was found, for all variants together where it is the same.
static ns_status set_parameters(const ns_fit* f, nsi_hybrid* file, ns_error* error) {
    size_t np = f->problem->param_at[f->nvariant], scratch = nsi_parameters_scratch(f->variables);
    double* v = nsi_alloc(&f->allocator, ((size_t)f->nz + np + scratch + 1) * sizeof(double));
    if (!v) return nsi_fail_nomem(error);
    double* p = v + f->nz;
    nsi_parameters_from_z(f->variables, f->z, v, NULL, p + np);
    for (uint32_t m = 0; m < f->nvariant; m++) {
        nsi_parameters_params(f->variables, m, v, p + f->problem->param_at[m], NULL, p + np);
    }
    ns_status status = NS_OK;
    for (uint32_t m = 0; m < f->nvariant; m++) {
        const char* const* names = nsi_parameters_param_names(f->variables, m);
        const ns_model* robot = ns_hybrid_model(f->variants[m].hybrid);
        for (uint32_t k = 0; k < nsi_parameters_param_count(f->variables, m); k++) {
            double value = p[f->problem->param_at[m] + k];
            nsi_hybrid_parameters* to = is_common(f, file, p, names[k], value)
                                            ? &file->parameters
                                            : &file->variants.data[m].parameters;
            if (status == NS_OK) {
                status = nsi_fit_set_parameter(f, to, robot, names[k], value, error);
            }
        }
    }
    nsi_free(&f->allocator, v);
    return status;
}

// The model that was fitted, as it was.
static ns_status begin_model(const ns_fit* f, nsi_hybrid* file, ns_error* error) {
    nsi_fit_spec* plan = f->plan;
    const char* model = plan->model ? nsi_fit_spec_path(plan, plan->model) : NULL;
    if (plan->model && !model) return nsi_fail_nomem(error);
    if (model && ns_hybrid_is_path(model)) {
        return nsi_hybrid_read(model, &f->allocator, file, error);
    }
    nsi_hybrid_init(&f->allocator, file);
    file->robot = model;
    for (uint32_t k = 0; k < f->nvariant && !model; k++) {
        const nsi_fit_variant* v = &f->variants[k];
        nsi_hybrid_variant variant = {.name = v->name, .files = v->files, .robot = v->robot};
        if (!nsi_array_push(&f->allocator, &file->variants, variant)) return nsi_fail_nomem(error);
    }
    return NS_OK;
}

ns_status nsi_fit_write_model(const ns_fit* f, const char* folder, const char* name,
                              const char* weights, ns_error* error) {
    nsi_fit_spec* plan = f->plan;
    nsi_hybrid file = {0};
    char* path = nsi_fit_join(f, folder, name);
    ns_status status = path ? begin_model(f, &file, error) : nsi_fail_nomem(error);
    if (status == NS_OK) status = set_parameters(f, &file, error);
    if (status == NS_OK) {
        if (plan->blueprint) file.blueprint = nsi_fit_spec_path(plan, plan->blueprint);
        if (weights) file.weights = weights;
        if (plan->contact >= 0) file.contact = plan->contact;
        file.integrator = (int)ns_system_get_sizes(f->system).integrator;
        file.timestep = f->timestep;
        if (plan->learned) { // nothing of the physics counts
            file.learned = plan->learned;
            file.parameters.count = 0;
            file.contact = file.integrator = -1;
        }
        file.ground = file.ground || plan->ground;
        file.self_collision = file.self_collision || plan->self_collision;
        if (plan->blueprint && !file.blueprint) status = nsi_fail_nomem(error);
    }
    if (status == NS_OK) status = nsi_hybrid_write(path, &file, &f->allocator, error);
    nsi_hybrid_free(&file);
    nsi_free(&f->allocator, path);
    return status;
}

typedef ns_status report_renderer(const ns_report* report, ns_text* out, ns_error* error);

static ns_status write_rendered(const ns_fit* f, const ns_report* report, report_renderer* render,
                                const char* folder, const char* name, ns_error* error) {
    ns_text text = {0};
    ns_status status = render(report, &text, error);
    if (status == NS_OK) status = nsi_fit_write_text(f, folder, name, &text, error);
    ns_text_free(&text);
    return status;
}

ns_status nsi_fit_write_report(const ns_fit* f, const ns_report* report, const char* folder,
                               ns_error* error) {
    ns_status status = write_rendered(f, report, ns_report_json, folder, "result.json", error);
    if (status != NS_OK) return status;
    return write_rendered(f, report, ns_report_html, folder, "report.html", error);
}

// Recordings beside predictions as a table, and the report for machines and people.
static ns_status write_report(const ns_fit* f, const char* folder, ns_error* error) {
    nsi_traces traces = {0};
    ns_report* report = NULL;
    char* path = nsi_fit_join(f, folder, "predictions.csv");
    ns_status status = path ? nsi_traces_make(f, &traces, error) : nsi_fail_nomem(error);
    if (status == NS_OK) status = nsi_traces_write(&traces, f, path, error);
    if (status == NS_OK) status = nsi_fit_report(f, &traces, &report, error);
    if (status == NS_OK) status = nsi_fit_write_report(f, report, folder, error);
    ns_report_free(report);
    nsi_traces_free(&traces);
    nsi_free(&f->allocator, path);
    return status;
}

ns_status ns_fit_save(const ns_fit* f, const char* folder, ns_error* error) {
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return nsi_fail(error, NS_ERR_IO, "cannot make the folder %s: %s", folder, strerror(errno));
    }
    ns_status status = NS_OK;
    char* weights = f->nw > 0 ? nsi_fit_join(f, folder, "weights.safetensors") : NULL;
    if (f->nw > 0) {
        status = weights ? ns_system_save_weights(f->system, f->w, weights, error)
                         : nsi_fail_nomem(error);
    }
    if (status == NS_OK) status = nsi_fit_write_model(f, folder, "fitted.yaml", weights, error);
    if (status == NS_OK) status = write_report(f, folder, error);
    nsi_free(&f->allocator, weights);
    return status;
}
