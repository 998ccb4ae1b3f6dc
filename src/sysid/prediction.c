// Open-loop predictions: every origin is a window with an initial state and a rollout.

#include "sysid/gauss_newton.h"
#include "sysid/prediction_state.h"

#include <math.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

// ---- windows -----------------------------------------------------------------------------------

static uint32_t sample_count(const nsi_predict_job* j, uint32_t recording) {
    uint32_t all = ns_dataset_recording(j->data, recording)->nsample;
    bool fewer = j->options->only && j->options->only[recording] < all;
    return fewer ? j->options->only[recording] : all;
}

// The only origin of a recording, after a share of it.
static uint32_t origin_after(const nsi_predict_job* j, uint32_t recording) {
    return (uint32_t)(j->after * (sample_count(j, recording) - 1.0));
}

static bool is_usable(const nsi_predict_job* j, uint32_t recording) {
    uint32_t samples = sample_count(j, recording);
    if (!(j->after > 0.0)) return samples >= (uint64_t)j->history + 2;
    return samples > 0 && origin_after(j, recording) > 0; // something to adapt to; more follows
}

static ns_status add_windows(nsi_predict_job* j, uint32_t recording, uint32_t origins,
                             ns_error* error) {
    const nsi_predict_options* o = j->options;

    // How far a prediction goes: as asked, to the last horizon, or to the end.
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

    // Tiled windows follow each other; the last one may be shorter.
    for (uint32_t at = 0; o->tiled && at < room; at += ahead) {
        nsi_window w = {.recording = recording, .start = at, .length = j->history + ahead};
        if (room - at < ahead) w.length = j->history + room - at;
        if (!nsi_array_push(&j->allocator, &j->windows, w)) return nsi_fail_nomem(error);
    }
    if (o->tiled) return NS_OK;

    // Otherwise origins are spread evenly over the recording.
    uint32_t most = j->after > 0.0 ? 1 : room - ahead + 1; // possible origins
    uint32_t count = origins == 0 ? 1 : origins < most ? origins : most;
    for (uint32_t k = 0; k < count; k++) {
        nsi_window w = {.recording = recording, .length = j->history + ahead};
        w.start = count > 1 ? (uint32_t)((uint64_t)k * (most - 1) / (count - 1)) : first;
        if (!nsi_array_push(&j->allocator, &j->windows, w)) return nsi_fail_nomem(error);
    }
    return NS_OK;
}

static ns_status make_windows(nsi_predict_job* j, ns_error* error) {
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
static ns_status estimate(const nsi_predict_job* j, const nsi_window* window, double* x,
                          ns_error* error) {
    nsi_window past = *window;
    past.length = j->history;
    nsi_windows one = {.data = &past, .count = 1};
    ns_window_options loss = {.smoothing = j->options->smoothing, .optimise = NS_OPTIMISE_NONE};
    nsi_objective* e = NULL;
    ns_status status = nsi_objective_create(j->p, j->data, &loss, &one, 1, &e, error);
    if (status != NS_OK) return status;
    nsi_point point = nsi_objective_point(e);
    if (j->z) memcpy(point.z, j->z, ns_parameters_count(j->p->parameters) * sizeof(double));
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
static ns_status adapt(const nsi_predict_job* j, nsi_predict_worker* w, const nsi_window* window,
                       uint32_t variant, const double** params, ns_error* error) {
    const nsi_adaptation* a = &j->options->adapt;
    const ns_parameters* parameters = j->p->parameters;
    nsi_window past = {.recording = window->recording, .length = window->start};
    nsi_windows one = {.data = &past, .count = 1};
    ns_window_options loss = {.initial_state = NS_INITIAL_STATE_RECORDED,
                              .smoothing = j->options->smoothing,
                              .optimise = NS_OPTIMISE_PARAMETERS};
    nsi_objective* e = NULL;
    ns_status status = nsi_objective_create(j->p, j->data, &loss, &one, 1, &e, error);
    if (status != NS_OK) return status;
    nsi_point point = nsi_objective_point(e);
    memcpy(point.z, j->z, ns_parameters_count(parameters) * sizeof(double));
    if (j->weights) memcpy(point.w, j->weights, j->p->sizes.nw * sizeof(double));
    nsi_objective_set_priors(e, j->priors);
    nsi_objective_set_active(e, a->parameters, a->count);
    ns_solver_options options = {.tolerance = 1e-6};
    if (nsi_objective_lm(e, &options, NULL, NULL).finish != NS_FINISH_FAILED) {
        double* scratch = w->params + nsi_parameters_param_count(parameters, variant);
        nsi_parameters_from_z(parameters, nsi_objective_point(e).z, w->v, NULL, scratch);
        nsi_parameters_params(parameters, variant, w->v, w->params, NULL, scratch);
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
static ns_status simulate(const nsi_predict_job* j, nsi_predict_worker* w, uint32_t number,
                          ns_error* error) {
    const nsi_problem* p = j->p;
    const nsi_window* window = &j->windows.data[number];
    const ns_recording* recording = ns_dataset_recording(j->data, window->recording);
    uint32_t variant = nsi_problem_variant(p, recording);

    // Initial state: smoothed samples, refined by a fit to the history; parameters may adapt, too.
    nsi_problem_guess(p, recording, window->start, j->options->smoothing, w->x);
    ns_status status = j->history > 0 ? estimate(j, window, w->x, error) : NS_OK;
    const double* params = j->params ? j->params + p->param_at[variant] : NULL;
    if (status == NS_OK && j->priors) status = adapt(j, w, window, variant, &params, error);
    if (status != NS_OK) return status;

    // A diverged rollout leaves NaN in what it did not reach.
    nsi_problem_controls(p, recording, window, w->controls);
    uint32_t steps = nsi_problem_steps(p, window->length);
    for (size_t k = 0; k < ((size_t)steps + 1) * p->sizes.nx; k++) w->states[k] = NAN;
    for (size_t k = 0; k < (size_t)steps * p->sizes.ny; k++) w->observations[k] = NAN;

    // One window at a time: windows have different lengths and adapted parameters.
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

    // Values of the channels at the samples, from states or observations.
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

static void free_worker(const nsi_predict_job* j, nsi_predict_worker* w) {
    for (uint32_t k = 0; w->work && k < j->p->nvariant; k++) ns_workspace_free(w->work[k]);
    nsi_free(&j->allocator, w->work);
    double* blocks[] = {w->x, w->states, w->observations, w->controls, w->values, w->v, w->params};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&j->allocator, blocks[k]);
}

static ns_status make_worker(const nsi_predict_job* j, nsi_predict_worker* w, ns_error* error) {
    const ns_system_sizes* z = &j->p->sizes;

    // The longest window determines the size of the buffers.
    uint32_t longest = 0;
    for (uint32_t k = 0; k < j->windows.count; k++) {
        if (j->windows.data[k].length > longest) longest = j->windows.data[k].length;
    }

    // Room for one rollout, and for its channels at the samples.
    size_t steps = nsi_problem_steps(j->p, longest), one = sizeof(double);
    w->x = nsi_alloc(&j->allocator, (z->nx + 1) * one);
    w->states = nsi_alloc(&j->allocator, (steps + 1) * (z->nx + 1) * one);
    w->observations = nsi_alloc(&j->allocator, steps * (z->ny + 1) * one);
    w->controls = nsi_alloc(&j->allocator, steps * (z->nc + 1) * one);
    w->values = nsi_alloc(&j->allocator, ((size_t)longest + 1) * (j->p->nchannel + 1) * one);

    // Adaptation changes parameters per window, so each worker has its own.
    if (j->priors) {
        size_t np = j->p->param_at[j->p->nvariant],
               scratch = nsi_parameters_scratch(j->p->parameters);
        w->v = nsi_alloc(&j->allocator, ns_parameters_count(j->p->parameters) * one);
        w->params = nsi_alloc(&j->allocator, (np + scratch + 1) * one);
        if (!w->v || !w->params) return nsi_fail_nomem(error);
    }

    // A failure here is cleaned up by free_worker().
    w->work = nsi_alloc_zeroed(&j->allocator, j->p->nvariant * sizeof(ns_workspace*));
    if (!w->x || !w->states || !w->observations || !w->controls || !w->values || !w->work) {
        return nsi_fail_nomem(error);
    }

    // Workspaces for the variants that occur in the data.
    ns_workspace_size size = {.batch = 1, .steps = (uint32_t)steps, .threads = 1};
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < j->p->nvariant && status == NS_OK; k++) {
        if (!j->used[k]) continue;
        status = ns_workspace_create(j->p->variants[k].system, &size, &w->work[k], error);
    }
    return status;
}

ns_status nsi_predict_for_windows(const nsi_predict_job* j, nsi_window_visitor* visit,
                                  void* context, ns_error* error) {
    // A worker for each thread, but no more than there are windows.
    uint32_t threads = 1;
#ifdef _OPENMP
    threads = j->options->threads > 0 ? j->options->threads : (uint32_t)omp_get_num_procs();
#endif
    if (threads > j->windows.count) threads = j->windows.count;
    nsi_predict_worker* workers = nsi_alloc_zeroed(&j->allocator, threads * sizeof *workers);
    if (!workers) return nsi_fail_nomem(error);
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < threads && status == NS_OK; k++) {
        status = make_worker(j, &workers[k], error);
    }

    // Windows are independent; their cost varies with length and adaptation.
    int count = status == NS_OK ? (int)j->windows.count : 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads)
#endif
    for (int k = 0; k < count; k++) {
        int thread = 0;
#ifdef _OPENMP
        thread = omp_get_thread_num();
#endif

        // A thread has its own buffers and its own error.
        nsi_predict_worker* w = &workers[thread];
        ns_error inner;
        ns_status done = simulate(j, w, (uint32_t)k, &inner);
#ifdef _OPENMP
#pragma omp critical(nsi_predict)
#endif
        {
            // Visitors share sums: one at a time. The first failure is reported.
            if (done == NS_OK) {
                visit(context, (uint32_t)k, w);
            } else if (status == NS_OK) {
                status = nsi_fail(error, done, "%s", inner.message);
            }
        }
    }

    // Also those that could not be made.
    for (uint32_t k = 0; k < threads; k++) free_worker(j, &workers[k]);
    nsi_free(&j->allocator, workers);
    return status;
}

// ---- the job -----------------------------------------------------------------------------------

ns_status nsi_predict_start(nsi_predict_job* j, const nsi_problem* problem, const ns_dataset* data,
                            const double* z, const double* weights,
                            const nsi_predict_options* options, double** memory, ns_error* error) {
    const ns_parameters* parameters = problem->parameters;

    // Everything is set before the first failure, so that nsi_predict_end() can free it.
    *j = (nsi_predict_job){.p = problem,
                           .data = data,
                           .z = z,
                           .weights = weights,
                           .options = options,
                           .history = options->history > 1 ? options->history - 1 : 0,
                           .after = options->tiled ? 0.0 : options->after,
                           .allocator = problem->allocator};

    // Room for parameter values and model parameters; the caller frees it.
    size_t nz = z ? ns_parameters_count(parameters) : 0;
    size_t scratch = z ? nsi_parameters_scratch(parameters) : 0;
    size_t np = problem->param_at[problem->nvariant];
    *memory = nsi_alloc(&j->allocator, (nz + np + scratch + 1) * sizeof(double));
    j->used = nsi_alloc_zeroed(&j->allocator, problem->nvariant * sizeof *j->used);
    if (!*memory || !j->used) return nsi_fail_nomem(error);

    // Model parameters of every variant at the point z.
    if (z) {
        double *v = *memory, *params = v + nz, *rest = params + np;
        nsi_parameters_from_z(parameters, z, v, NULL, rest);
        for (uint32_t k = 0; k < problem->nvariant; k++) {
            nsi_parameters_params(parameters, k, v, params + problem->param_at[k], NULL, rest);
        }
        j->params = params;
    }

    // Parameters that adapt have a prior around the fit; the others stay fixed.
    if (z && j->after > 0.0 && options->adapt.count > 0) {
        j->priors = nsi_alloc(&j->allocator, (nz + 1) * sizeof *j->priors);
        if (!j->priors) return nsi_fail_nomem(error);
        for (size_t k = 0; k < nz; k++) j->priors[k] = (nsi_prior){(*memory)[k], INFINITY};
        for (uint32_t k = 0; k < options->adapt.count; k++) {
            j->priors[options->adapt.parameters[k]].deviation = options->adapt.deviations[k];
        }
    }

    // Windows, and the variants that they need.
    ns_status status = make_windows(j, error);
    for (uint32_t k = 0; k < j->windows.count; k++) {
        const ns_recording* recording = ns_dataset_recording(data, j->windows.data[k].recording);
        j->used[nsi_problem_variant(problem, recording)] = true;
    }
    return status;
}

void nsi_predict_end(nsi_predict_job* j, double* memory) {
    nsi_array_free(&j->allocator, &j->windows);
    nsi_free(&j->allocator, j->used);
    nsi_free(&j->allocator, j->priors);
    nsi_free(&j->allocator, memory);
}

ns_status nsi_predict_check(const nsi_problem* problem, const ns_dataset* data,
                            const nsi_predict_options* options, double* longest, ns_error* error) {
    nsi_predict_job j;
    double* memory = NULL;
    ns_status status = nsi_predict_start(&j, problem, data, NULL, NULL, options, &memory, error);
    *longest = 0.0;
    for (uint32_t k = 0; k < j.windows.count; k++) {
        double ahead = (j.windows.data[k].length - j.history) * ns_dataset_period(data);
        if (ahead > *longest) *longest = ahead;
    }
    nsi_predict_end(&j, memory);
    return status;
}

typedef struct path_visit {
    const nsi_predict_job* j;
    nsi_path_visitor* visit;
    void* context;
} path_visit;

static void visit_path(void* context, uint32_t window, const nsi_predict_worker* w) {
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
    nsi_predict_job j;
    double* memory = NULL;
    ns_status status = nsi_predict_start(&j, problem, data, z, weights, options, &memory, error);
    path_visit v = {&j, visit, context};
    if (status == NS_OK) status = nsi_predict_for_windows(&j, visit_path, &v, error);
    nsi_predict_end(&j, memory);
    return status;
}
