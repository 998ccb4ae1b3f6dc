// Every origin is a window of its own: first its state, then a rollout, then sums in order.

#include "sysid/prediction.h"

#include "sysid/gauss_newton.h"

#include <math.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

typedef struct job {
    const nsi_problem* p;
    const ns_dataset* data;
    const double *z, *weights;
    const double* params; // of all variants one after the other; NULL: the systems'
    const nsi_predict_options* options;
    nsi_windows windows; // from the first sample of the history to the longest horizon
    bool* used;          // (variants) is there a window of it?
    uint32_t history;    // samples before the origin in each of them
    double after;        // share of a recording before its only origin; 0: as `origins` says
    nsi_prior* priors;   // (variables) for those that adapt
    ns_allocator allocator;
} job;

// Memory of one thread.
typedef struct worker {
    ns_workspace** work; // (variants); NULL for those that are not used
    double *x, *states, *observations, *controls, *values;
    double *v, *params; // of one that adapts: (variables), parameters of its variant and scratch
} worker;

// ---- windows -----------------------------------------------------------------------------------

static uint32_t sample_count(const job* j, uint32_t recording) {
    uint32_t all = ns_dataset_recording(j->data, recording)->nsample;
    bool fewer = j->options->only && j->options->only[recording] < all;
    return fewer ? j->options->only[recording] : all;
}

// The only origin of a recording, after a share of it.
static uint32_t origin_after(const job* j, uint32_t recording) {
    return (uint32_t)(j->after * (sample_count(j, recording) - 1.0));
}

static bool is_usable(const job* j, uint32_t recording) {
    uint32_t samples = sample_count(j, recording);
    if (!(j->after > 0.0)) return samples >= (uint64_t)j->history + 2;
    return samples > 0 && origin_after(j, recording) > 0; // something to adapt to; more follows
}

static ns_status add_windows(job* j, uint32_t recording, uint32_t origins, ns_error* error) {
    const nsi_predict_options* o = j->options;
    uint32_t samples = sample_count(j, recording);
    uint32_t first = j->after > 0.0 ? origin_after(j, recording) : 0;
    uint32_t room = samples - 1 - first - j->history,
             ahead = room; // samples after an origin, at most
    if (o->ahead > 0) {
        if (o->ahead < room) ahead = o->ahead;
    } else if (o->nhorizon > 0) {
        double wanted = ceil(o->horizons[o->nhorizon - 1] / ns_dataset_period(j->data) - 1e-6);
        if (wanted < room) ahead = wanted < 1.0 ? 1 : (uint32_t)wanted;
    }
    ns_status status = nsi_problem_check_length(j->p, j->history + ahead, error);
    if (status != NS_OK) return status;
    for (uint32_t at = 0; o->tiled && at < room; at += ahead) {
        nsi_window w = {.recording = recording, .start = at, .length = j->history + ahead};
        if (room - at < ahead) w.length = j->history + room - at;
        if (!nsi_array_push(&j->allocator, &j->windows, w)) return nsi_fail_nomem(error);
    }
    if (o->tiled) return NS_OK;
    uint32_t most = j->after > 0.0 ? 1 : room - ahead + 1; // possible origins
    uint32_t count = origins == 0 ? 1 : origins < most ? origins : most;
    for (uint32_t k = 0; k < count; k++) {
        nsi_window w = {.recording = recording, .length = j->history + ahead};
        w.start = count > 1 ? (uint32_t)((uint64_t)k * (most - 1) / (count - 1)) : first;
        if (!nsi_array_push(&j->allocator, &j->windows, w)) return nsi_fail_nomem(error);
    }
    return NS_OK;
}

static ns_status make_windows(job* j, ns_error* error) {
    uint32_t count = ns_dataset_recording_count(j->data);
    uint64_t origins = j->options->tiled ? 0 : j->options->origins, usable = 0, passed = 0;
    for (uint32_t r = 0; r < count; r++) usable += is_usable(j, r);
    if (usable == 0) {
        return nsi_fail(error, NS_ERR_PARSE,
                        "no recording has a sample to predict after the first %u", j->history + 1);
    }
    for (uint32_t r = 0; r < count; r++) {
        if (!is_usable(j, r)) continue;
        uint64_t share = origins * (passed + 1) / usable - origins * passed / usable;
        passed++;
        if (origins > 0 && share == 0) continue;
        ns_status status = add_windows(j, r, (uint32_t)share, error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

// ---- one window --------------------------------------------------------------------------------

// The start of a window, fitted to its first samples with the model as it is.
static ns_status estimate(const job* j, const nsi_window* window, double* x, ns_error* error) {
    nsi_window past = *window;
    past.length = j->history;
    nsi_windows one = {.data = &past, .count = 1};
    ns_window_options loss = {.smoothing = j->options->smoothing, .optimise = NS_OPTIMISE_NONE};
    nsi_objective* e = NULL;
    ns_status status = nsi_objective_create(j->p, j->data, &loss, &one, 1, &e, error);
    if (status != NS_OK) return status;
    nsi_point point = nsi_objective_point(e);
    if (j->z) memcpy(point.z, j->z, ns_parameters_count(j->p->variables) * sizeof(double));
    if (j->weights) memcpy(point.w, j->weights, j->p->sizes.nw * sizeof(double));
    ns_solver_options options = {.tolerance = 1e-6};
    if (nsi_objective_lm(e, &options, NULL, NULL).finish != NS_FINISH_FAILED) {
        memcpy(x, nsi_objective_point(e).x, j->p->sizes.nx * sizeof(double));
    }
    nsi_objective_free(e);
    return NS_OK;
}

// Parameters fitted to the recording before its origin.
// @param params  receives those of its variant
static ns_status adapt(const job* j, worker* w, const nsi_window* window, uint32_t variant,
                       const double** params, ns_error* error) {
    const nsi_adaptation* a = &j->options->adapt;
    const ns_parameters* variables = j->p->variables;
    nsi_window past = {.recording = window->recording, .length = window->start};
    nsi_windows one = {.data = &past, .count = 1};
    ns_window_options loss = {.initial_state = NS_INITIAL_STATE_RECORDED,
                              .smoothing = j->options->smoothing,
                              .optimise = NS_OPTIMISE_PARAMETERS};
    nsi_objective* e = NULL;
    ns_status status = nsi_objective_create(j->p, j->data, &loss, &one, 1, &e, error);
    if (status != NS_OK) return status;
    nsi_point point = nsi_objective_point(e);
    memcpy(point.z, j->z, ns_parameters_count(variables) * sizeof(double));
    if (j->weights) memcpy(point.w, j->weights, j->p->sizes.nw * sizeof(double));
    nsi_objective_set_priors(e, j->priors);
    nsi_objective_set_active(e, a->variables, a->count);
    ns_solver_options options = {.tolerance = 1e-6};
    if (nsi_objective_lm(e, &options, NULL, NULL).finish != NS_FINISH_FAILED) {
        double* scratch = w->params + nsi_parameters_param_count(variables, variant);
        nsi_parameters_from_z(variables, nsi_objective_point(e).z, w->v, NULL, scratch);
        nsi_parameters_params(variables, variant, w->v, w->params, NULL, scratch);
        *params = w->params;
    }
    nsi_objective_free(e);
    return NS_OK;
}

// States of a simulation before the first that is not finite.
static size_t finite_states(const double* states, size_t count, uint32_t nx) {
    size_t k = 0;
    while (k < count * nx && isfinite(states[k])) k++;
    return nx > 0 ? k / nx : count;
}

// Simulated channels of a window from its origin on, into w->values. Those that a simulation does not
// reach are NaN.
static ns_status simulate(const job* j, worker* w, uint32_t number, ns_error* error) {
    const nsi_problem* p = j->p;
    const nsi_window* window = &j->windows.data[number];
    const ns_recording* recording = ns_dataset_recording(j->data, window->recording);
    uint32_t variant = nsi_problem_variant(p, recording);
    nsi_problem_guess(p, recording, window->start, j->options->smoothing, w->x);
    ns_status status = j->history > 0 ? estimate(j, window, w->x, error) : NS_OK;
    const double* params = j->params ? j->params + p->param_at[variant] : NULL;
    if (status == NS_OK && j->priors) status = adapt(j, w, window, variant, &params, error);
    if (status != NS_OK) return status;
    nsi_problem_controls(p, recording, window, w->controls);
    uint32_t steps = nsi_problem_steps(p, window->length);
    for (size_t k = 0; k < ((size_t)steps + 1) * p->sizes.nx; k++) w->states[k] = NAN;
    for (size_t k = 0; k < (size_t)steps * p->sizes.ny; k++) w->observations[k] = NAN;
    ns_rollout_args args = {.batch = 1,
                            .steps = steps,
                            .x0 = w->x,
                            .controls = w->controls,
                            .params = params,
                            .weights = j->weights,
                            .states = w->states,
                            .observations = w->observations};
    status = ns_rollout(p->variants[variant].system, w->work[variant], &args, error);
    if (status != NS_OK && status != NS_ERR_NONFINITE) return status;
    // Parts of a robot may go on by themselves after it came apart: they do not count.
    size_t reached = finite_states(w->states, (size_t)steps + 1, p->sizes.nx);
    for (uint32_t k = j->history; k <= window->length; k++) {
        size_t step = (size_t)k * p->substeps;
        for (uint32_t c = 0; c < p->nchannel; c++) {
            const nsi_source* s = &p->sources[c];
            w->values[(size_t)(k - j->history) * p->nchannel + c] =
                step >= reached ? NAN
                : s->state      ? w->states[step * p->sizes.nx + s->number]
                                : w->observations[step * p->sizes.ny + s->number];
        }
    }
    return NS_OK;
}

static void free_worker(const job* j, worker* w) {
    for (uint32_t k = 0; w->work && k < j->p->nvariant; k++) ns_workspace_free(w->work[k]);
    nsi_free(&j->allocator, w->work);
    double* blocks[] = {w->x, w->states, w->observations, w->controls, w->values, w->v, w->params};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&j->allocator, blocks[k]);
}

static ns_status make_worker(const job* j, worker* w, ns_error* error) {
    const ns_system_sizes* z = &j->p->sizes;
    uint32_t longest = 0;
    for (uint32_t k = 0; k < j->windows.count; k++) {
        if (j->windows.data[k].length > longest) longest = j->windows.data[k].length;
    }
    size_t steps = nsi_problem_steps(j->p, longest), one = sizeof(double);
    w->x = nsi_alloc(&j->allocator, (z->nx + 1) * one);
    w->states = nsi_alloc(&j->allocator, (steps + 1) * (z->nx + 1) * one);
    w->observations = nsi_alloc(&j->allocator, steps * (z->ny + 1) * one);
    w->controls = nsi_alloc(&j->allocator, steps * (z->nc + 1) * one);
    w->values = nsi_alloc(&j->allocator, ((size_t)longest + 1) * (j->p->nchannel + 1) * one);
    if (j->priors) {
        size_t np = j->p->param_at[j->p->nvariant],
               scratch = nsi_parameters_scratch(j->p->variables);
        w->v = nsi_alloc(&j->allocator, ns_parameters_count(j->p->variables) * one);
        w->params = nsi_alloc(&j->allocator, (np + scratch + 1) * one);
        if (!w->v || !w->params) return nsi_fail_nomem(error);
    }
    w->work = nsi_alloc_zeroed(&j->allocator, j->p->nvariant * sizeof(ns_workspace*));
    if (!w->x || !w->states || !w->observations || !w->controls || !w->values || !w->work) {
        return nsi_fail_nomem(error);
    }
    ns_workspace_size size = {.batch = 1, .steps = (uint32_t)steps, .threads = 1};
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < j->p->nvariant && status == NS_OK; k++) {
        if (!j->used[k]) continue;
        status = ns_workspace_create(j->p->variants[k].system, &size, &w->work[k], error);
    }
    return status;
}

// All windows, in any order; `visit` is called by one thread at a time.
typedef void window_visitor(void* context, uint32_t window, const worker* w);

static ns_status for_windows(const job* j, window_visitor* visit, void* context, ns_error* error) {
    uint32_t threads = 1;
#ifdef _OPENMP
    threads = j->options->threads > 0 ? j->options->threads : (uint32_t)omp_get_num_procs();
#endif
    if (threads > j->windows.count) threads = j->windows.count;
    worker* workers = nsi_alloc_zeroed(&j->allocator, threads * sizeof *workers);
    if (!workers) return nsi_fail_nomem(error);
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < threads && status == NS_OK; k++) {
        status = make_worker(j, &workers[k], error);
    }
    int count = status == NS_OK ? (int)j->windows.count : 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads)
#endif
    for (int k = 0; k < count; k++) {
        int thread = 0;
#ifdef _OPENMP
        thread = omp_get_thread_num();
#endif
        worker* w = &workers[thread];
        ns_error inner;
        ns_status done = simulate(j, w, (uint32_t)k, &inner);
#ifdef _OPENMP
#pragma omp critical(nsi_predict)
#endif
        {
            if (done == NS_OK) {
                visit(context, (uint32_t)k, w);
            } else if (status == NS_OK) {
                status = nsi_fail(error, done, "%s", inner.message);
            }
        }
    }
    for (uint32_t k = 0; k < threads; k++) free_worker(j, &workers[k]);
    nsi_free(&j->allocator, workers);
    return status;
}

// ---- the job -----------------------------------------------------------------------------------

static ns_status start_job(job* j, const nsi_problem* problem, const ns_dataset* data,
                           const double* z, const double* weights,
                           const nsi_predict_options* options, double** memory, ns_error* error) {
    const ns_parameters* variables = problem->variables;
    *j = (job){.p = problem,
               .data = data,
               .z = z,
               .weights = weights,
               .options = options,
               .history = options->history > 1 ? options->history - 1 : 0,
               .after = options->tiled ? 0.0 : options->after,
               .allocator = problem->allocator};
    size_t nz = z ? ns_parameters_count(variables) : 0;
    size_t scratch = z ? nsi_parameters_scratch(variables) : 0;
    size_t np = problem->param_at[problem->nvariant];
    *memory = nsi_alloc(&j->allocator, (nz + np + scratch + 1) * sizeof(double));
    j->used = nsi_alloc_zeroed(&j->allocator, problem->nvariant * sizeof *j->used);
    if (!*memory || !j->used) return nsi_fail_nomem(error);
    if (z) {
        double *v = *memory, *params = v + nz, *rest = params + np;
        nsi_parameters_from_z(variables, z, v, NULL, rest);
        for (uint32_t k = 0; k < problem->nvariant; k++) {
            nsi_parameters_params(variables, k, v, params + problem->param_at[k], NULL, rest);
        }
        j->params = params;
    }
    if (z && j->after > 0.0 && options->adapt.count > 0) {
        j->priors = nsi_alloc(&j->allocator, (nz + 1) * sizeof *j->priors);
        if (!j->priors) return nsi_fail_nomem(error);
        for (size_t k = 0; k < nz; k++) j->priors[k] = (nsi_prior){(*memory)[k], INFINITY};
        for (uint32_t k = 0; k < options->adapt.count; k++) {
            j->priors[options->adapt.variables[k]].deviation = options->adapt.deviations[k];
        }
    }
    ns_status status = make_windows(j, error);
    for (uint32_t k = 0; k < j->windows.count; k++) {
        const ns_recording* recording = ns_dataset_recording(data, j->windows.data[k].recording);
        j->used[nsi_problem_variant(problem, recording)] = true;
    }
    return status;
}

static void end_job(job* j, double* memory) {
    nsi_array_free(&j->allocator, &j->windows);
    nsi_free(&j->allocator, j->used);
    nsi_free(&j->allocator, j->priors);
    nsi_free(&j->allocator, memory);
}

static uint32_t horizon_samples(const job* j, uint32_t k) {
    double samples = floor(j->options->horizons[k] / ns_dataset_period(j->data) + 1e-6);
    return samples < UINT32_MAX ? (uint32_t)samples : UINT32_MAX;
}

ns_status nsi_predict_check(const nsi_problem* problem, const ns_dataset* data,
                            const nsi_predict_options* options, double* longest, ns_error* error) {
    job j;
    double* memory = NULL;
    ns_status status = start_job(&j, problem, data, NULL, NULL, options, &memory, error);
    *longest = 0.0;
    for (uint32_t k = 0; k < j.windows.count; k++) {
        double ahead = (j.windows.data[k].length - j.history) * ns_dataset_period(data);
        if (ahead > *longest) *longest = ahead;
    }
    end_job(&j, memory);
    return status;
}

typedef struct path_visit {
    const job* j;
    nsi_path_visitor* visit;
    void* context;
} path_visit;

static void visit_path(void* context, uint32_t window, const worker* w) {
    const path_visit* v = context;
    const nsi_window* of = &v->j->windows.data[window];
    size_t stride = (size_t)v->j->p->substeps * v->j->p->sizes.nx;
    nsi_path path = {.recording = of->recording,
                     .origin = of->start + v->j->history,
                     .length = of->length - v->j->history,
                     .values = w->values,
                     .states = w->states + v->j->history * stride,
                     .stride = stride};
    v->visit(v->context, &path);
}

ns_status nsi_predict_visit(const nsi_problem* problem, const ns_dataset* data, const double* z,
                            const double* weights, const nsi_predict_options* options,
                            nsi_path_visitor* visit, void* context, ns_error* error) {
    job j;
    double* memory = NULL;
    ns_status status = start_job(&j, problem, data, z, weights, options, &memory, error);
    path_visit v = {&j, visit, context};
    if (status == NS_OK) status = for_windows(&j, visit_path, &v, error);
    end_job(&j, memory);
    return status;
}

// ---- errors ------------------------------------------------------------------------------------

// Squared errors of one window: of each channel, and of positions up to each horizon. Kept per window
// and added in order.
typedef struct sums {
    const job* j;
    uint32_t width; // numbers per window
    double*
        window; // per window: (nchannel) sums, counts, (nhorizon) sums, counts, (nmeasure) sums,
                // counts, lost
} sums;

static bool is_position(const nsi_problem* p, uint32_t channel) {
    return p->sources[channel].state && p->sources[channel].number < p->nq;
}

// A formula of the channels of a row.
static double eval(const nsi_error_formula* f, const double* row) {
    double a[NSI_FORMULA_MAX_OPS];
    for (uint32_t k = 0; k < ns_formula_variable_count(f->formula); k++) a[k] = row[f->channels[k]];
    return ns_formula_eval(f->formula, a);
}

static double formula_error(const nsi_error_formula* f, const double* row, const double* truth) {
    return eval(f, row) - eval(f, truth);
}

// The angle between two rotations, in degrees. Quaternions of both signs are the same rotation; the
// difference and the sum of two unit vectors are at a right angle, and tell small angles exactly.
static double rotation_between(const nsi_metric* m, const double* row, const double* truth) {
    double a[4], b[4], aa = 0.0, bb = 0.0, ab = 0.0, less = 0.0, more = 0.0;
    for (int k = 0; k < 4; k++) {
        a[k] = eval(&m->formulas[k], row);
        b[k] = eval(&m->formulas[k], truth);
        aa += a[k] * a[k];
        bb += b[k] * b[k];
        ab += a[k] * b[k];
    }
    double sign = ab < 0.0 ? -1.0 : 1.0;
    for (int k = 0; k < 4; k++) { // NaN for four zeros, which are no rotation
        double x = sign * a[k] / sqrt(aa), y = b[k] / sqrt(bb);
        less += (x - y) * (x - y);
        more += (x + y) * (x + y);
    }
    return 4.0 * atan2(sqrt(less), sqrt(more)) * (180.0 / 3.14159265358979323846);
}

static double distance_between(const nsi_metric* m, const double* row, const double* truth) {
    double sum = 0.0;
    for (uint32_t k = 0; k < m->nformula; k++) {
        double off = formula_error(&m->formulas[k], row, truth);
        sum += off * off;
    }
    return sqrt(sum);
}

// Is all that a measure is made of recorded?
static bool is_recorded(const nsi_metric* m, const double* truth) {
    for (uint32_t k = 0; k < m->nformula; k++) {
        if (isnan(eval(&m->formulas[k], truth))) return false;
    }
    return true;
}

static void add_measures(const job* j, const double* row, const double* truth, double* sum,
                         double* count) {
    for (uint32_t k = 0; k < j->options->nmetric; k++) {
        const nsi_metric* m = &j->options->metrics[k];
        if (!is_recorded(m, truth)) continue;
        double d = m->rotation ? rotation_between(m, row, truth) : distance_between(m, row, truth);
        if (!isfinite(d)) d = INFINITY;
        sum[k] += m->mean ? d : d * d;
        count[k] += 1.0;
    }
}

static void add_near(const job* j, uint32_t sample, double square, double* near) {
    uint32_t nh = j->options->nhorizon;
    for (uint32_t h = 0; h < nh; h++) {
        if (sample > horizon_samples(j, h)) continue;
        near[h] += square;
        near[nh + h] += 1.0;
    }
}

static void add_window(void* context, uint32_t number, const worker* from) {
    sums* s = context;
    const job* j = s->j;
    const nsi_problem* p = j->p;
    const nsi_window* w = &j->windows.data[number];
    const double* values = from->values;
    uint32_t nc = p->nchannel, nh = j->options->nhorizon, origin = w->start + j->history;
    const double* recorded = ns_dataset_recording(j->data, w->recording)->values;
    double *sum = s->window + (size_t)number * s->width, *count = sum + nc;
    uint32_t nm = j->options->nmetric;
    double *near = count + nc, *measured = near + 2 * (size_t)nh, *lost = measured + 2 * (size_t)nm;
    bool positions = false;
    for (uint32_t c = 0; c < nc; c++) positions |= is_position(p, c);
    for (uint32_t k = 1; k <= w->length - j->history; k++) {
        const double* truth = recorded + ((size_t)origin + k) * nc;
        const double* row = values + (size_t)k * nc;
        for (uint32_t c = 0; c < nc; c++) {
            double off = row[c] - truth[c], square = off * off;
            if (isnan(truth[c])) continue;
            if (!isfinite(square)) { // nothing is as wrong as no number
                *lost = 1.0;
                square = INFINITY;
            }
            sum[c] += square;
            count[c] += 1.0;
            bool counts = j->options->nerror == 0 && (is_position(p, c) || !positions);
            if (counts) add_near(j, k, square, near);
        }
        for (uint32_t i = 0; i < j->options->nerror; i++) {
            double off = formula_error(&j->options->errors[i], row, truth), square = off * off;
            double reference = formula_error(&j->options->errors[i], truth, truth);
            if (isnan(reference)) continue; // something was not recorded
            add_near(j, k, isfinite(square) ? square : INFINITY, near);
        }
        add_measures(j, row, truth, measured, measured + nm);
    }
}

static double root(double sum, double count) {
    return count > 0.0 ? sqrt(sum / count) : NAN;
}

static int compare_numbers(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

static double median_of(double* values, uint32_t count) {
    if (count == 0) return NAN;
    qsort(values, count, sizeof *values, compare_numbers);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

static void score_horizon(const sums* s, uint32_t h, double* scratch, ns_horizon_error* out) {
    const job* j = s->j;
    uint32_t nc = j->p->nchannel, nh = j->options->nhorizon, count = 0;
    double sum = 0.0, number = 0.0;
    for (uint32_t k = 0; k < j->windows.count; k++) {
        const double* w = s->window + (size_t)k * s->width + 2 * (size_t)nc;
        bool reaches = j->windows.data[k].length - j->history >= horizon_samples(j, h);
        if (!reaches || w[nh + h] == 0.0) continue;
        sum += w[h];
        number += w[nh + h];
        scratch[count++] = root(w[h], w[nh + h]);
    }
    *out = (ns_horizon_error){.seconds = j->options->horizons[h],
                               .pooled = root(sum, number),
                               .median = median_of(scratch, count),
                               .windows = count,
                               .samples = horizon_samples(j, h)};
}

static void score_measure(const sums* s, uint32_t k, double* scratch, ns_metric_score* out) {
    const job* j = s->j;
    const nsi_metric* m = &j->options->metrics[k];
    uint32_t nm = j->options->nmetric, count = 0;
    double sum = 0.0;
    for (uint32_t i = 0; i < j->windows.count; i++) {
        const double* w = s->window + (size_t)i * s->width + (s->width - 1 - 2 * (size_t)nm);
        if (w[nm + k] == 0.0) continue;
        double average = w[k] / w[nm + k];
        scratch[count] = m->mean ? average : sqrt(average);
        sum += scratch[count++];
    }
    *out = (ns_metric_score){.name = m->name,
                          .unit = m->unit,
                          .windows = count,
                          .mean = count > 0 ? sum / count : NAN,
                          .median = median_of(scratch, count)};
}

// Sums over windows and channels: of positions, then of velocities.
typedef struct kind_sums {
    double sum[2], count[2];
} kind_sums;

static void add_kinds(const sums* s, const double* w, kind_sums* to) {
    const nsi_problem* p = s->j->p;
    for (uint32_t c = 0; c < p->nchannel; c++) {
        if (!p->sources[c].state) continue;
        int kind = is_position(p, c) ? 0 : 1;
        to->sum[kind] += w[c];
        to->count[kind] += w[p->nchannel + c];
    }
}

// kinds: (nrecording + 1) of zeros, the last one for all recordings.
static void score_kinds(const sums* s, kind_sums* kinds, nsi_prediction* out) {
    const job* j = s->j;
    kind_sums* all = &kinds[out->nrecording];
    for (uint32_t k = 0; k < j->windows.count; k++) {
        const double* w = s->window + (size_t)k * s->width;
        add_kinds(s, w, &kinds[j->windows.data[k].recording]);
        add_kinds(s, w, all);
    }
    for (uint32_t r = 0; r < out->nrecording; r++) {
        out->recordings[r].rmse_q = root(kinds[r].sum[0], kinds[r].count[0]);
        out->recordings[r].rmse_qd = root(kinds[r].sum[1], kinds[r].count[1]);
    }
    out->score.rmse_q = root(all->sum[0], all->count[0]);
    out->score.rmse_qd = root(all->sum[1], all->count[1]);
}

// Windows that had to start from a state that is not recorded.
static uint32_t count_blind(const job* j, double* x) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < j->windows.count && j->history == 0; k++) {
        const nsi_window* w = &j->windows.data[k];
        const ns_recording* recording = ns_dataset_recording(j->data, w->recording);
        count += !nsi_problem_guess(j->p, recording, w->start, j->options->smoothing, x);
    }
    return count;
}

static void finish(const sums* s, double* scratch, kind_sums* kinds, nsi_prediction* out) {
    const job* j = s->j;
    uint32_t nc = j->p->nchannel, nh = j->options->nhorizon;
    double scaled = 0.0, scaled_count = 0.0;
    for (uint32_t c = 0; c < nc; c++) {
        double sum = 0.0, count = 0.0, scale = j->p->sources[c].scale;
        for (uint32_t k = 0; k < j->windows.count; k++) {
            sum += s->window[(size_t)k * s->width + c];
            count += s->window[(size_t)k * s->width + nc + c];
        }
        out->channels[c] = root(sum, count);
        if (scale == 0.0) continue; // also when the sum is infinite
        scaled += sum * scale * scale;
        scaled_count += count;
    }
    for (uint32_t k = 0; k < j->windows.count; k++) {
        const double* w = s->window + (size_t)k * s->width;
        out->score.lost += w[s->width - 1] != 0.0;
        out->recordings[j->windows.data[k].recording].samples +=
            j->windows.data[k].length - j->history;
    }
    score_kinds(s, kinds, out);
    for (uint32_t h = 0; h < nh; h++) score_horizon(s, h, scratch, &out->score.horizons[h]);
    for (uint32_t k = 0; k < j->options->nmetric; k++) {
        score_measure(s, k, scratch, &out->score.metrics[k]);
    }
    out->score.nmetric = j->options->nmetric;
    out->score.windows = j->windows.count;
    for (uint32_t k = 0; k < j->windows.count; k++) {
        out->score.samples += j->windows.data[k].length - j->history;
    }
    out->score.loss = root(scaled, scaled_count);
    out->score.nhorizon = nh;
    out->blind = count_blind(j, scratch);
}

ns_status nsi_predict(const nsi_problem* problem, const ns_dataset* data, const double* z,
                      const double* weights, const nsi_predict_options* options,
                      nsi_prediction* out, ns_error* error) {
    job j;
    double *memory = NULL, *scratch = NULL;
    kind_sums* kinds = NULL;
    *out = (nsi_prediction){.allocator = problem->allocator,
                            .nchannel = problem->nchannel,
                            .nrecording = ns_dataset_recording_count(data)};
    ns_status status = start_job(&j, problem, data, z, weights, options, &memory, error);
    sums s = {.j = &j,
              .width = 2 * (problem->nchannel + options->nhorizon + options->nmetric) + 1};
    if (status == NS_OK) {
        size_t windows = j.windows.count, one = sizeof(double);
        s.window = nsi_alloc_zeroed(&j.allocator, windows * s.width * one);
        scratch = nsi_alloc(&j.allocator, (windows + problem->sizes.nx + 1) * one);
        kinds = nsi_alloc_zeroed(&j.allocator, ((size_t)out->nrecording + 1) * sizeof *kinds);
        out->channels = nsi_alloc(&j.allocator, ((size_t)out->nchannel + 1) * one);
        out->recordings =
            nsi_alloc_zeroed(&j.allocator, ((size_t)out->nrecording + 1) * sizeof *out->recordings);
        out->score.horizons =
            nsi_alloc(&j.allocator, ((size_t)options->nhorizon + 1) * sizeof(ns_horizon_error));
        out->score.metrics =
            nsi_alloc(&j.allocator, ((size_t)options->nmetric + 1) * sizeof(ns_metric_score));
        bool ok = s.window && scratch && kinds && out->channels && out->recordings &&
                  out->score.horizons && out->score.metrics;
        status = ok ? for_windows(&j, add_window, &s, error) : nsi_fail_nomem(error);
    }
    if (status == NS_OK) finish(&s, scratch, kinds, out);
    nsi_free(&j.allocator, s.window);
    nsi_free(&j.allocator, scratch);
    nsi_free(&j.allocator, kinds);
    end_job(&j, memory);
    if (status != NS_OK) nsi_prediction_free(out);
    return status;
}

void nsi_prediction_free(nsi_prediction* prediction) {
    if (!prediction->allocator.free) return;
    ns_allocator memory = prediction->allocator;
    nsi_free(&memory, prediction->channels);
    nsi_free(&memory, prediction->recordings);
    nsi_free(&memory, prediction->score.horizons);
    nsi_free(&memory, prediction->score.metrics);
    *prediction = (nsi_prediction){.allocator = memory};
}
