// First-order methods see one vector: z and weights as they are, then coordinates of start states.
// L-BFGS and proximal steps go in rounds of CHUNK iterations with fresh memory, so that what is kept
// between rounds is the point alone.

#include "sysid/stage_solver.h"

#include <math.h>

enum { CHUNK = 100 };

struct nsi_stage_solver {
    ns_allocator allocator;
    const nsi_problem* p;
    const nsi_stage* stage;
    nsi_objective* e;
    uint32_t n, nz, nw, nx, windows; // n: unknowns
    nsi_stage_solver_state state;

    double *x, *gradient;
    uint32_t* order;             // place in x of each unknown
    uint32_t ninput;             // weights of first layers, which owlqn wants in front
    NSI_ARRAY(nsi_group) groups; // rows of first layers, coefficients of formulas
    NSI_ARRAY(nsi_objective*) batches;
    uint32_t* shuffled; // (batches)
    uint64_t seed;
    uint32_t epoch; // of `shuffled`; NSI_NONE: none yet

    nsi_stage_solver_observer* observe;
    void* context;
    nsi_stage_solver_path_observer* observe_path; // NULL: nobody looks on
    void* path_context;
    double* norms;      // (groups)
    double* factors;    // (groups) of the penalty
    bool given_factors; // by nsi_stage_solver_set_sizes()
};

static bool has_penalty(const nsi_stage* stage) {
    return stage->l1 > 0.0 || stage->group > 0.0 || stage->adaptive;
}

// ---- layout ------------------------------------------------------------------------------------

static ns_status list_inputs(nsi_stage_solver* d, ns_error* error) {
    const ns_system* system = d->p->system;
    uint32_t first = d->nz; // of weights among unknowns
    for (uint32_t k = 0; d->nw > 0 && k < ns_system_weight_matrix_count(system); k++) {
        ns_weight_matrix m = ns_system_weight_matrix(system, k);
        if (m.formula) m.rows = m.columns, m.columns = 1; // each coefficient by itself
        for (uint32_t row = 0; m.layer == 0 && row < m.rows - m.bias; row++) {
            nsi_group group = {first + m.offset + row * m.columns, m.columns};
            if (!nsi_array_push(&d->allocator, &d->groups, group)) return nsi_fail_nomem(error);
            d->ninput += m.columns;
        }
    }
    bool in_front = d->stage->method == NSI_METHOD_OWLQN;
    uint32_t front = 0, behind = in_front ? d->ninput : 0, group = 0;
    for (uint32_t k = 0; k < d->n; k++) {
        while (group < d->groups.count &&
               k >= d->groups.data[group].offset + d->groups.data[group].count) {
            group++;
        }
        bool input = in_front && group < d->groups.count && k >= d->groups.data[group].offset;
        d->order[k] = input ? front++ : behind++;
    }
    return NS_OK;
}

// ---- the objective -----------------------------------------------------------------------------

// Start states keep their places in x, behind z and weights; where they are looked for there are no
// quaternions.
static void get_x(nsi_stage_solver* d) {
    nsi_point point = nsi_objective_point(d->e);
    for (uint32_t k = 0; k < d->nz; k++) d->x[d->order[k]] = point.z[k];
    for (uint32_t k = 0; k < d->nw; k++) d->x[d->order[d->nz + k]] = point.w[k];
    double* unknown = d->x + d->nz + d->nw;
    for (double* x = point.x; unknown < d->x + d->n; x += d->nx, unknown += d->p->ntangent) {
        for (uint32_t k = 0; k < d->p->ncoordinate; k++) {
            unknown[d->p->coordinates[k].tangent] = x[d->p->coordinates[k].at];
        }
    }
}

static void set_point(nsi_stage_solver* d, nsi_objective* e, const double* x) {
    nsi_point point = nsi_objective_point(e);
    for (uint32_t k = 0; k < d->nz; k++) point.z[k] = x[d->order[k]];
    for (uint32_t k = 0; k < d->nw; k++) point.w[k] = x[d->order[d->nz + k]];
    const double *unknown = x + d->nz + d->nw, *end = x + d->n;
    for (double* to = point.x; unknown < end; to += d->nx, unknown += d->p->ntangent) {
        for (uint32_t k = 0; k < d->p->ncoordinate; k++) {
            to[d->p->coordinates[k].at] = unknown[d->p->coordinates[k].tangent];
        }
    }
}

// Keep the best point of Adam. NaN and what is as good do not replace it.
static void offer_best(nsi_stage_solver* d, const double* x, double value) {
    if (!d->state.best || !(value < d->state.best_value)) return;
    d->state.best_value = value;
    memcpy(d->state.best, x, d->n * sizeof(double));
}

// The loss of all windows at x.
static double full_value(nsi_stage_solver* d, const double* x) {
    set_point(d, d->e, x);
    return nsi_objective_cost(d->e) / nsi_objective_residual_count(d->e);
}

static double objective(void* context, const double* x, double* gradient) {
    nsi_stage_solver* d = context;
    nsi_objective* e = d->e;
    if (d->batches.count > 0) {
        uint32_t iteration = d->state.lm.iteration, epoch = iteration / d->batches.count;
        if (iteration % d->batches.count == 0) offer_best(d, x, full_value(d, x));
        if (epoch != d->epoch) {
            ns_rng rng = ns_rng_seed(d->seed + epoch);
            for (uint32_t k = 0; k < d->batches.count; k++) d->shuffled[k] = k;
            for (uint32_t k = d->batches.count; k > 1; k--) {
                uint32_t other = ns_rng_below(&rng, k), kept = d->shuffled[k - 1];
                d->shuffled[k - 1] = d->shuffled[other];
                d->shuffled[other] = kept;
            }
            d->epoch = epoch;
        }
        e = d->batches.data[d->shuffled[iteration % d->batches.count]];
    }
    set_point(d, e, x);
    double value = gradient ? nsi_objective_gradient(e, d->gradient) : nsi_objective_cost(e);
    double scale = 1.0 / nsi_objective_residual_count(e);
    for (uint32_t k = 0; gradient && k < d->n; k++) {
        gradient[d->order[k]] = isfinite(value) ? d->gradient[k] * scale : 0.0;
    }
    if (e == d->e) offer_best(d, x, value * scale);
    return value * scale;
}

// ---- sparsity ----------------------------------------------------------------------------------

void nsi_stage_solver_watch_path(nsi_stage_solver* d, nsi_stage_solver_path_observer* observe,
                                 void* context) {
    d->observe_path = observe;
    d->path_context = context;
}

static nsi_proximal_options penalty_options(const nsi_stage_solver* d) {
    nsi_proximal_options options = nsi_default_proximal_options();
    options.groups = d->groups.data;
    options.ngroup = d->groups.count;
    options.l1 = d->stage->l1;
    options.group = d->stage->method == NSI_METHOD_OWLQN ? 0.0 : d->stage->group;
    options.factors = d->stage->adaptive ? d->factors : NULL;
    return options;
}

// Norms of the groups at x.
static void find_norms(nsi_stage_solver* d, const double* x) {
    for (uint32_t k = 0; k < d->groups.count; k++) {
        const nsi_group* g = &d->groups.data[k];
        double squares = 0.0;
        for (uint32_t i = 0; i < g->count; i++) {
            double w = x[d->order[g->offset + i]];
            squares += w * w;
        }
        d->norms[k] = sqrt(squares);
    }
}

// The adaptive lasso (Zou 2006; of inputs of networks: Dinh & Ho 2020): what is small to begin with
// costs more, and what is 0 stays out.
void nsi_stage_solver_set_sizes(nsi_stage_solver* d, const double* norms) {
    for (uint32_t k = 0; k < d->groups.count; k++) {
        d->factors[k] = norms[k] > 0.0 ? 1.0 / norms[k] : INFINITY;
    }
    d->given_factors = true;
}

void nsi_stage_solver_tell_path(nsi_stage_solver* d) {
    if (!d->observe_path || !d->norms) return;
    double value = nsi_objective_cost(d->e) / nsi_objective_residual_count(d->e);
    get_x(d);
    find_norms(d, d->x);
    d->observe_path(d->path_context, d->state.lm.iteration, value, d->norms);
}

static bool pass_on(void* context, const nsi_progress* progress) {
    nsi_stage_solver* d = context;
    double scale =
        d->stage->method == NSI_METHOD_LM ? 1.0 / nsi_objective_residual_count(d->e) : 1.0;
    if (d->stage->method == NSI_METHOD_ADAM) {
        d->state.lm.iteration = progress->iteration;
        set_point(d, d->e, progress->x);
    } else if (d->stage->method != NSI_METHOD_LM) { // the point is between rounds
        if (d->observe_path) {
            nsi_proximal_options options = penalty_options(d);
            find_norms(d, progress->x);
            for (uint32_t k = 0; k < d->n; k++) d->gradient[k] = progress->x[d->order[k]];
            double value = progress->value - nsi_proximal_penalty(&options, d->gradient);
            d->observe_path(d->path_context, d->state.lm.iteration + progress->iteration,
                            fmax(value, 0.0), d->norms);
        }
        return false;
    } else if (d->observe_path) {
        nsi_stage_solver_tell_path(d);
    }
    return d->observe && d->observe(d->context, progress->iteration, progress->value * scale);
}

// ---- methods -----------------------------------------------------------------------------------

static nsi_outcome run_adam(nsi_stage_solver* d) {
    const nsi_stage* stage = d->stage;
    nsi_adam_options options = nsi_default_adam_options();
    options.rate = stage->rate;
    options.final_rate = stage->rate_end;
    options.max_iterations = stage->iterations;
    options.clip = stage->clip;
    nsi_adam_state state = {d->state.lm.iteration, d->state.m, d->state.v};
    nsi_outcome out = {.finish = NSI_FINISH_FAILED, .value = INFINITY};
    get_x(d);
    nsi_adam(d->n, d->x, &state, objective, pass_on, d, &options, &out, NULL);
    d->state.lm.iteration = state.iteration;
    offer_best(d, d->x, full_value(d, d->x));
    if (isfinite(d->state.best_value)) memcpy(d->x, d->state.best, d->n * sizeof(double));
    out.value = full_value(d, d->x);
    return out;
}

// A round of L-BFGS, OWL-QN or proximal steps.
static nsi_outcome run_round(nsi_stage_solver* d, uint32_t iterations) {
    const nsi_stage* stage = d->stage;
    nsi_outcome out = {.finish = NSI_FINISH_FAILED, .value = INFINITY};
    get_x(d);
    if (stage->method == NSI_METHOD_PROXIMAL) {
        nsi_proximal_options options = penalty_options(d);
        options.max_iterations = iterations;
        options.tolerance = stage->tolerance;
        nsi_proximal(d->n, d->x, objective, pass_on, d, &options, &out, NULL);
    } else {
        nsi_lbfgs_options options = nsi_default_lbfgs_options();
        options.max_iterations = iterations;
        options.decrease_tolerance = stage->tolerance;
        if (stage->method == NSI_METHOD_OWLQN) {
            options.l1 = stage->l1;
            options.l1_end = d->ninput;
        }
        nsi_lbfgs(d->n, d->x, objective, pass_on, d, &options, &out, NULL);
    }
    set_point(d, d->e, d->x);
    return out;
}

static nsi_outcome run_rounds(nsi_stage_solver* d) {
    nsi_lm_state* state = &d->state.lm;
    nsi_outcome all = {.finish = NSI_FINISH_ITERATIONS};
    if (state->small >= 2 || state->iteration >= d->stage->iterations) { // it was done before
        if (state->small >= 2) all.finish = NSI_FINISH_CONVERGED;
        all.value = nsi_objective_cost(d->e) / nsi_objective_residual_count(d->e);
        return all;
    }
    while (state->iteration < d->stage->iterations) {
        uint32_t left = d->stage->iterations - state->iteration;
        nsi_outcome out = run_round(d, left < CHUNK ? left : CHUNK);
        // After a round that went down, one that finds no way down has converged.
        if (out.finish == NSI_FINISH_FAILED && state->iteration > 0 && isfinite(out.value)) {
            out.finish = NSI_FINISH_CONVERGED;
        }
        all.iterations += out.iterations;
        all.evaluations += out.evaluations;
        all.value = out.value;
        state->iteration += out.iterations;
        if (out.finish == NSI_FINISH_CONVERGED) state->small = 2;
        bool stop = d->observe && d->observe(d->context, state->iteration, out.value);
        if (out.finish == NSI_FINISH_CONVERGED || out.finish == NSI_FINISH_FAILED) {
            all.finish = out.finish;
            break;
        }
        if (stop) {
            all.finish = NSI_FINISH_STOPPED;
            break;
        }
    }
    return all;
}

nsi_outcome nsi_stage_solver_run(nsi_stage_solver* d, nsi_stage_solver_observer* observe,
                                 void* context) {
    const nsi_stage* stage = d->stage;
    d->observe = observe;
    d->context = context;
    if (stage->adaptive && !d->given_factors) {
        get_x(d);
        find_norms(d, d->x);
        nsi_stage_solver_set_sizes(d, d->norms);
        d->given_factors = false; // those of this run alone
    }
    if (stage->method == NSI_METHOD_ADAM) return run_adam(d);
    if (stage->method != NSI_METHOD_LM) return run_rounds(d);
    nsi_lm_options options = nsi_default_lm_options();
    if (has_penalty(stage)) {
        nsi_proximal_options penalty = penalty_options(d);
        nsi_objective_set_penalty(d->e, &penalty);
    }
    options.max_iterations = stage->iterations;
    options.tolerance = stage->tolerance;
    nsi_outcome out = nsi_lm(d->e, &d->state.lm, &options, pass_on, d);
    nsi_objective_set_penalty(d->e, &(nsi_proximal_options){0}); // the groups are ours
    out.value /= nsi_objective_residual_count(d->e);
    return out;
}

// ---- making ------------------------------------------------------------------------------------

// Windows in random parts of `batch`, each with an evaluator of its own.
static ns_status make_batches(nsi_stage_solver* d, const ns_dataset* data, uint32_t threads,
                              ns_error* error) {
    uint32_t count = (d->windows - 1) / d->stage->batch + 1;
    nsi_windows all = {0};
    ns_status status = NS_OK;
    for (uint32_t k = 0; status == NS_OK && k < d->windows; k++) {
        nsi_window window = *nsi_objective_window(d->e, k);
        if (!nsi_array_push(&d->allocator, &all, window)) status = nsi_fail_nomem(error);
    }
    ns_rng rng = ns_rng_seed(d->seed);
    for (uint32_t k = all.count; k > 1; k--) {
        uint32_t other = ns_rng_below(&rng, k);
        nsi_window kept = all.data[k - 1];
        all.data[k - 1] = all.data[other];
        all.data[other] = kept;
    }
    for (uint32_t k = 0; status == NS_OK && k < count; k++) {
        uint32_t from = (uint32_t)((uint64_t)d->windows * k / count);
        uint32_t to = (uint32_t)((uint64_t)d->windows * (k + 1) / count);
        nsi_windows part = {.data = all.data + from, .count = to - from};
        nsi_objective* e = NULL;
        status = nsi_objective_create(d->p, data, &d->stage->windows, &part, threads, &e, error);
        if (status == NS_OK && !nsi_array_push(&d->allocator, &d->batches, e)) {
            nsi_objective_free(e);
            status = nsi_fail_nomem(error);
        }
    }
    nsi_array_free(&d->allocator, &all);
    d->shuffled = nsi_alloc(&d->allocator, ((size_t)count + 1) * sizeof *d->shuffled);
    d->epoch = NSI_NONE;
    return status == NS_OK && !d->shuffled ? nsi_fail_nomem(error) : status;
}

static uint32_t variables_of(const nsi_problem* p, const nsi_stage* stage) {
    return nsi_optimises_parameters(stage->windows.optimise) && p->variables
               ? ns_parameters_count(p->variables)
               : 0;
}

static uint32_t weights_of(const nsi_problem* p, const nsi_stage* stage) {
    return nsi_optimises_weights(stage->windows.optimise) ? p->sizes.nw : 0;
}

ns_status nsi_stage_solver_check(const nsi_problem* p, const nsi_stage* stage, ns_error* error) {
    if (stage->iterations > 0 && variables_of(p, stage) + weights_of(p, stage) == 0) {
        return nsi_fail(error, NS_ERR_PARSE, "there is nothing to fit: no %s",
                        nsi_optimises_parameters(stage->windows.optimise) ? "parameters"
                                                                          : "weights");
    }
    if (stage->method == NSI_METHOD_LM) return NS_OK;
    bool free_states = stage->windows.initial_state != NS_INITIAL_STATE_RECORDED;
    for (uint32_t k = 0; k < p->ncoordinate && free_states; k++) {
        if (!p->coordinates[k].quaternion) continue;
        return nsi_fail(error, NS_ERR_UNSUPPORTED,
                        "with quaternions in the state, free start states need method lm; or take"
                        " `states: recorded`");
    }
    if (stage->method == NSI_METHOD_ADAM && stage->batch > 0 && free_states) {
        return nsi_fail(error, NS_ERR_UNSUPPORTED,
                        "batches of windows need `states: recorded`; or leave `batch` out");
    }
    return NS_OK;
}

static ns_status make(nsi_stage_solver* d, const ns_dataset* data, uint32_t threads,
                      ns_error* error) {
    const nsi_stage* stage = d->stage;
    ns_status status = nsi_stage_solver_check(d->p, stage, error);
    if (status != NS_OK || (stage->method == NSI_METHOD_LM && !has_penalty(stage))) return status;
    size_t n = d->n, one = sizeof(double);
    d->x = nsi_alloc(&d->allocator, (n + 1) * one);
    d->gradient = nsi_alloc(&d->allocator, (n + 1) * one);
    d->order = nsi_alloc(&d->allocator, (n + 1) * sizeof *d->order);
    if (!d->x || !d->gradient || !d->order) return nsi_fail_nomem(error);
    if (stage->method == NSI_METHOD_ADAM) {
        d->state.m = nsi_alloc_zeroed(&d->allocator, (n + 1) * one);
        d->state.v = nsi_alloc_zeroed(&d->allocator, (n + 1) * one);
        d->state.best = nsi_alloc_zeroed(&d->allocator, (n + 1) * one);
        if (!d->state.m || !d->state.v || !d->state.best) return nsi_fail_nomem(error);
        if (stage->batch > 0 && stage->batch < d->windows) {
            status = make_batches(d, data, threads, error);
        }
    }
    if (status == NS_OK) status = list_inputs(d, error);
    if (status != NS_OK) return status;
    d->norms = nsi_alloc(&d->allocator, ((size_t)d->groups.count + 1) * one);
    d->factors = nsi_alloc(&d->allocator, ((size_t)d->groups.count + 1) * one);
    return d->norms && d->factors ? NS_OK : nsi_fail_nomem(error);
}

ns_status nsi_stage_solver_create(const nsi_problem* problem, const ns_dataset* data,
                                  const nsi_stage* stage, nsi_objective* evaluator, uint64_t seed,
                                  uint32_t threads, nsi_stage_solver** out, ns_error* error) {
    *out = NULL;
    nsi_stage_solver* d = nsi_alloc_zeroed(&problem->allocator, sizeof *d);
    if (!d) return nsi_fail_nomem(error);
    d->allocator = problem->allocator;
    d->p = problem;
    d->stage = stage;
    d->e = evaluator;
    d->seed = seed;
    d->state.best_value = INFINITY;
    d->windows = nsi_objective_window_count(evaluator);
    d->n = nsi_objective_unknowns(evaluator);
    d->nx = problem->sizes.nx;
    d->nz = variables_of(problem, stage);
    d->nw = weights_of(problem, stage);
    ns_status status = make(d, data, threads, error);
    if (status != NS_OK) {
        nsi_stage_solver_free(d);
        return status;
    }
    *out = d;
    return NS_OK;
}

void nsi_stage_solver_free(nsi_stage_solver* d) {
    if (!d) return;
    ns_allocator memory = d->allocator;
    for (uint32_t k = 0; k < d->batches.count; k++) nsi_objective_free(d->batches.data[k]);
    nsi_array_free(&memory, &d->batches);
    nsi_array_free(&memory, &d->groups);
    void* blocks[] = {d->x,       d->gradient,   d->order, d->shuffled, d->state.m,
                      d->state.v, d->state.best, d->norms, d->factors};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&memory, blocks[k]);
    nsi_free(&memory, d);
}

nsi_stage_solver_state* nsi_stage_solver_get_state(nsi_stage_solver* d) {
    return &d->state;
}
