// A stage runs any solver of the table, in rounds of the length that the solver's record gives.
// Least-squares solvers move the point of the objective; the others see one vector: z and weights as they
// are, then coordinates of initial states.

#include "sysid/stage_solver.h"

#include "sysid/parameters_state.h"

#include <math.h>

struct nsi_stage_solver {
    ns_allocator allocator;
    const nsi_problem* p;
    const nsi_stage* stage;
    nsi_objective* e;
    uint32_t n, nz, nw, nx, windows; // n: unknowns
    nsi_stage_solver_state state;

    const ns_solver* solver;
    void* solver_state;
    ns_solver_options options;
    ns_solver_problem problem; // as the solver sees it
    ns_gauss_newton gauss_newton;

    double* x;                           // (n) NULL: not needed
    NSI_ARRAY(ns_variable_group) groups; // rows of first layers, coefficients of formulas
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

static bool solver_has(const nsi_stage* stage, uint32_t capability) {
    return (stage->solver->capabilities & capability) != 0;
}

static bool stage_has_penalty(const nsi_stage* stage) {
    return stage->l1 > 0.0 || stage->group > 0.0 || stage->adaptive;
}

// Least squares without a penalty changes the objective's own point; all others work on a vector.
static bool stage_has_vector(const nsi_stage* stage) {
    return !solver_has(stage, NS_SOLVER_LEAST_SQUARES) || stage_has_penalty(stage);
}

// ---- layout ------------------------------------------------------------------------------------

static ns_status list_penalty_groups(nsi_stage_solver* d, ns_error* error) {
    const ns_system* system = d->p->system;
    uint32_t first = d->nz; // of weights among unknowns
    for (uint32_t k = 0; d->nw > 0 && k < ns_system_weight_matrix_count(system); k++) {
        ns_weight_matrix m = ns_system_weight_matrix(system, k);
        if (m.formula) m.rows = m.columns, m.columns = 1; // each coefficient by itself
        for (uint32_t row = 0; m.layer == 0 && row < m.rows - m.bias; row++) {
            ns_variable_group group = {first + m.offset + row * m.columns, m.columns};
            if (!nsi_array_push(&d->allocator, &d->groups, group)) return nsi_fail_nomem(error);
        }
    }
    return NS_OK;
}

// ---- the objective -----------------------------------------------------------------------------

// Initial states keep their places in x, behind z and weights; where they are looked for there are no
// quaternions.
static void read_point(nsi_stage_solver* d) {
    nsi_point point = nsi_objective_point(d->e);
    for (uint32_t k = 0; k < d->nz; k++) d->x[k] = point.z[k];
    for (uint32_t k = 0; k < d->nw; k++) d->x[d->nz + k] = point.w[k];
    double* unknown = d->x + d->nz + d->nw;
    for (double* x = point.x; unknown < d->x + d->n; x += d->nx, unknown += d->p->ntangent) {
        for (uint32_t k = 0; k < d->p->ncoordinate; k++) {
            unknown[d->p->coordinates[k].tangent] = x[d->p->coordinates[k].at];
        }
    }
}

static void write_point(nsi_stage_solver* d, nsi_objective* e, const double* x) {
    nsi_point point = nsi_objective_point(e);
    for (uint32_t k = 0; k < d->nz; k++) point.z[k] = x[k];
    for (uint32_t k = 0; k < d->nw; k++) point.w[k] = x[d->nz + k];
    const double *unknown = x + d->nz + d->nw, *end = x + d->n;
    for (double* to = point.x; unknown < end; to += d->nx, unknown += d->p->ntangent) {
        for (uint32_t k = 0; k < d->p->ncoordinate; k++) {
            to[d->p->coordinates[k].at] = unknown[d->p->coordinates[k].tangent];
        }
    }
}

// Keep the best point of a stochastic solver. NaN and what is as good do not replace it.
static void offer_best(nsi_stage_solver* d, const double* x, double value) {
    if (!d->state.best || !(value < d->state.best_value)) return;
    d->state.best_value = value;
    memcpy(d->state.best, x, d->n * sizeof(double));
}

// The loss of all windows at x.
static double full_value(nsi_stage_solver* d, const double* x) {
    write_point(d, d->e, x);
    return nsi_objective_cost(d->e) / nsi_objective_residual_count(d->e);
}

// Batches in a new order in each epoch.
static void shuffle_batches(nsi_stage_solver* d, uint32_t epoch) {
    ns_rng rng = ns_rng_seed(d->seed + epoch);
    for (uint32_t k = 0; k < d->batches.count; k++) d->shuffled[k] = k;
    for (uint32_t k = d->batches.count; k > 1; k--) {
        uint32_t other = ns_rng_below(&rng, k), kept = d->shuffled[k - 1];
        d->shuffled[k - 1] = d->shuffled[other];
        d->shuffled[other] = kept;
    }
    d->epoch = epoch;
}

static double stage_cost(void* context, const double* x, double* gradient) {
    nsi_stage_solver* d = context;
    nsi_objective* e = d->e;
    if (d->batches.count > 0) {
        uint32_t iteration = d->state.iteration, epoch = iteration / d->batches.count;
        if (iteration % d->batches.count == 0) offer_best(d, x, full_value(d, x));
        if (epoch != d->epoch) shuffle_batches(d, epoch);
        e = d->batches.data[d->shuffled[iteration % d->batches.count]];
    }
    write_point(d, e, x);
    double value = gradient ? nsi_objective_gradient(e, gradient) : nsi_objective_cost(e);
    double scale = 1.0 / nsi_objective_residual_count(e);
    for (uint32_t k = 0; gradient && k < d->n; k++) {
        gradient[k] = isfinite(value) ? gradient[k] * scale : 0.0;
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

// Norms of the groups at x.
static void group_norms(nsi_stage_solver* d, const double* x) {
    for (uint32_t k = 0; k < d->groups.count; k++) {
        const ns_variable_group* g = &d->groups.data[k];
        double squares = 0.0;
        for (uint32_t i = 0; i < g->count; i++) {
            double w = x[g->offset + i];
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
    read_point(d);
    group_norms(d, d->x);
    d->observe_path(d->path_context, d->state.iteration, value, d->norms);
}

// Within a round; the objective's point is that of its beginning.
static bool watch_iterations_in_round(void* context, const ns_solver_progress* progress) {
    nsi_stage_solver* d = context;
    if (!d->observe_path || !progress->x) return false;
    double value = progress->value;
    group_norms(d, progress->x);
    if (d->groups.count > 0) value -= nsi_penalty(&d->options, progress->x);
    d->observe_path(d->path_context, progress->iteration, fmax(value, 0.0), d->norms);
    return false;
}

// ---- running -----------------------------------------------------------------------------------

static double current_value(nsi_stage_solver* d) {
    return nsi_objective_cost(d->e) / nsi_objective_residual_count(d->e);
}

// At most so many iterations of the solver, and the objective's point after them.
static ns_solver_result run_stage_round(nsi_stage_solver* d, uint32_t iterations) {
    ns_solver_result out = {.finish = NS_FINISH_FAILED, .value = INFINITY};
    ns_status status = d->solver->step(d->solver_state, d->x, iterations, &out, NULL);
    if (status != NS_OK) out = (ns_solver_result){.finish = NS_FINISH_FAILED, .value = INFINITY};
    if (!solver_has(d->stage, NS_SOLVER_LEAST_SQUARES)) write_point(d, d->e, d->x);

    // After a round that went down, one that finds no way down has converged.
    if (out.finish == NS_FINISH_FAILED && d->state.iteration > 0 && isfinite(out.value)) {
        out.finish = NS_FINISH_CONVERGED;
    }
    d->state.iteration += out.iterations;
    d->state.converged = out.finish == NS_FINISH_CONVERGED;
    return out;
}

// The observer of the stage, between rounds; true: stop.
static bool report_round(nsi_stage_solver* d, double value) {
    if (solver_has(d->stage, NS_SOLVER_LEAST_SQUARES)) {
        if (d->observe_path) nsi_stage_solver_tell_path(d);
        value *= 1.0 / nsi_objective_residual_count(d->e);
    }
    return d->observe && d->observe(d->context, d->state.iteration, value);
}

static ns_solver_result run_stage_rounds(nsi_stage_solver* d) {
    const uint32_t round = d->solver->round > 0 ? d->solver->round : 1;
    ns_solver_result all = {.finish = NS_FINISH_LIMIT};

    // It was done before: a checkpoint of its end was resumed.
    if (d->state.converged || d->state.iteration >= d->stage->iterations) {
        if (d->state.converged) all.finish = NS_FINISH_CONVERGED;
        all.value = current_value(d);
        return all;
    }

    // The observer sees rounds that moved; convergence counts before its stop.
    while (d->state.iteration < d->stage->iterations) {
        uint32_t left = d->stage->iterations - d->state.iteration;
        ns_solver_result out = run_stage_round(d, left < round ? left : round);
        all.iterations += out.iterations;
        all.evaluations += out.evaluations;
        all.value = out.value;
        all.finish = out.finish;
        bool stop = out.iterations > 0 && report_round(d, out.value);

        // A round that ends before its limit is the last one.
        if (out.finish != NS_FINISH_LIMIT || out.iterations == 0) break;
        if (stop) {
            all.finish = NS_FINISH_STOPPED;
            break;
        }
    }

    // Least squares sums over residuals; the loss is their mean. A stage with a penalty that is resumed
    // at its end reports what the observer saw, so it is rounded as in report_round().
    if (solver_has(d->stage, NS_SOLVER_LEAST_SQUARES)) {
        const double count = nsi_objective_residual_count(d->e);
        all.value = stage_has_penalty(d->stage) ? all.value * (1.0 / count) : all.value / count;
    }
    return all;
}

// A stochastic solver ends at the best point of all windows.
static void end_at_best(nsi_stage_solver* d, ns_solver_result* out) {
    offer_best(d, d->x, full_value(d, d->x));
    if (d->state.best && isfinite(d->state.best_value)) {
        memcpy(d->x, d->state.best, d->n * sizeof(double));
    }
    out->value = full_value(d, d->x);
}

ns_solver_result nsi_stage_solver_run(nsi_stage_solver* d, nsi_stage_solver_observer* observe,
                                      void* context) {
    const nsi_stage* stage = d->stage;
    const bool penalised_steps =
        solver_has(stage, NS_SOLVER_LEAST_SQUARES) && stage_has_penalty(stage);
    d->observe = observe;
    d->context = context;
    if (stage_has_vector(stage)) read_point(d);
    if (!solver_has(stage, NS_SOLVER_LEAST_SQUARES) && d->nz > 0 && d->state.iteration == 0) {
        nsi_parameters_leave_bounds(d->p->parameters, d->x);
    }
    if (stage->adaptive && !d->given_factors) {
        group_norms(d, d->x);
        nsi_stage_solver_set_sizes(d, d->norms);
        d->given_factors = false; // those of this run alone
    }

    if (penalised_steps) nsi_objective_set_penalty(d->e, &d->options);
    ns_solver_result out = run_stage_rounds(d);
    if (penalised_steps)
        nsi_objective_set_penalty(d->e, &(ns_solver_options){0}); // groups are ours
    if (solver_has(stage, NS_SOLVER_STOCHASTIC)) end_at_best(d, &out);
    return out;
}

// ---- the solver's state ------------------------------------------------------------------------

nsi_stage_solver_state* nsi_stage_solver_get_state(nsi_stage_solver* d) {
    return &d->state;
}

uint32_t nsi_stage_solver_state_size(const nsi_stage_solver* d) {
    return d->solver->state_size ? d->solver->state_size(d->solver_state) : 0;
}

void nsi_stage_solver_save(const nsi_stage_solver* d, double* numbers) {
    if (d->solver->save) d->solver->save(d->solver_state, numbers);
}

void nsi_stage_solver_load(nsi_stage_solver* d, const double* numbers) {
    if (d->solver->load) d->solver->load(d->solver_state, numbers);
}

ns_status nsi_stage_solver_restart(nsi_stage_solver* d, ns_error* error) {
    d->solver->free(d->solver_state);
    d->solver_state = NULL;
    d->state.iteration = 0;
    d->state.converged = false;
    d->state.best_value = INFINITY;
    return d->solver->create(&d->problem, &d->options, &d->solver_state, error);
}

// ---- making ------------------------------------------------------------------------------------

// Windows in random parts of `batch`, each with an objective of its own.
static ns_status make_batches(nsi_stage_solver* d, const ns_dataset* data, uint32_t threads,
                              ns_error* error) {
    // A shuffled copy of all windows: neighbours in time spread over the batches.
    uint32_t count = (d->windows - 1) / d->stage->batch + 1;
    nsi_windows all = {0};
    ns_status status = NS_OK;
    for (uint32_t k = 0; status == NS_OK && k < d->windows; k++) {
        nsi_window window = *nsi_objective_window(d->e, k);
        if (!nsi_array_push(&d->allocator, &all, window)) status = nsi_fail_nomem(error);
    }

    // Fisher-Yates, from the seed: a resumed stage has the same batches.
    ns_rng rng = ns_rng_seed(d->seed);
    for (uint32_t k = all.count; k > 1; k--) {
        uint32_t other = ns_rng_below(&rng, k);
        nsi_window kept = all.data[k - 1];
        all.data[k - 1] = all.data[other];
        all.data[other] = kept;
    }

    // Batches of nearly equal size, each with an objective of its own.
    for (uint32_t k = 0; status == NS_OK && k < count; k++) {
        uint32_t from = (uint32_t)((uint64_t)d->windows * k / count);
        uint32_t to = (uint32_t)((uint64_t)d->windows * (k + 1) / count);
        nsi_windows part = {.data = all.data + from, .count = to - from};
        nsi_objective* e = NULL;
        status = nsi_objective_create(d->p, data, &d->stage->windows, &part, threads, &e, error);

        // What is in the list is freed with the solver.
        if (status == NS_OK && !nsi_array_push(&d->allocator, &d->batches, e)) {
            nsi_objective_free(e);
            status = nsi_fail_nomem(error);
        }
    }

    // The order of batches is drawn anew in each epoch.
    nsi_array_free(&d->allocator, &all);
    d->shuffled = nsi_alloc(&d->allocator, ((size_t)count + 1) * sizeof *d->shuffled);
    d->epoch = NSI_NONE;
    return status == NS_OK && !d->shuffled ? nsi_fail_nomem(error) : status;
}

static uint32_t variables_of(const nsi_problem* p, const nsi_stage* stage) {
    return nsi_optimises_parameters(stage->windows.optimise) && p->parameters
               ? ns_parameters_count(p->parameters)
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
    if (solver_has(stage, NS_SOLVER_LEAST_SQUARES)) return NS_OK;
    bool free_states = stage->windows.initial_state != NS_INITIAL_STATE_RECORDED;
    for (uint32_t k = 0; k < p->ncoordinate && free_states; k++) {
        if (!p->coordinates[k].quaternion) continue;
        char solvers[200];
        nsi_solver_list(NS_SOLVER_LEAST_SQUARES, 0, solvers, sizeof solvers);
        return nsi_fail(error, NS_ERR_UNSUPPORTED,
                        "with quaternions in the state, free start states need method %s; or take"
                        " `initial_state: recorded`",
                        solvers);
    }
    if (solver_has(stage, NS_SOLVER_STOCHASTIC) && stage->batch > 0 && free_states) {
        return nsi_fail(error, NS_ERR_UNSUPPORTED,
                        "batches of windows need `initial_state: recorded`; or leave `batch` out");
    }
    return NS_OK;
}

// What the record of the solver is given.
static void fill_problem(nsi_stage_solver* d) {
    const nsi_stage* stage = d->stage;
    const bool penalised = d->groups.count > 0;
    d->options = (ns_solver_options){
        .max_iterations = stage->iterations > 0 ? stage->iterations : 1,
        .tolerance = stage->tolerance > 0.0 ? stage->tolerance : -1.0,
        .learning_rate = stage->learning_rate,
        .final_learning_rate = stage->learning_rate_end < 0.0   ? 0.0
                               : stage->learning_rate_end > 0.0 ? stage->learning_rate_end
                                                                : -1.0,
        .clip_norm = stage->clip_norm,
        .groups = d->groups.data,
        .ngroup = d->groups.count,
        .l1 = penalised ? stage->l1 : 0.0,
        .group_lasso = penalised && solver_has(stage, NS_SOLVER_GROUPS) ? stage->group : 0.0,
        .factors = stage->adaptive ? d->factors : NULL,
        .seed = d->seed};
    d->problem = (ns_solver_problem){
        .n = d->n, .cost = stage_cost, .observe = watch_iterations_in_round, .context = d};
    if (solver_has(stage, NS_SOLVER_LEAST_SQUARES)) {
        d->gauss_newton = nsi_objective_gauss_newton(d->e);
        d->problem.gauss_newton = &d->gauss_newton;
    }
}

static ns_status make_stage_solver(nsi_stage_solver* d, const ns_dataset* data, uint32_t threads,
                                   ns_error* error) {
    const nsi_stage* stage = d->stage;
    size_t n = d->n, one = sizeof(double);

    // Refuse a stage that cannot work before memory is taken.
    ns_status status = nsi_stage_solver_check(d->p, stage, error);
    if (status != NS_OK) return status;

    // The vector, and the groups of a penalty.
    if (stage_has_vector(stage)) {
        d->x = nsi_alloc(&d->allocator, (n + 1) * one);
        if (!d->x) return nsi_fail_nomem(error);
        status = list_penalty_groups(d, error);
        if (status != NS_OK) return status;

        // Sizes of groups now, and their penalties relative to each other.
        d->norms = nsi_alloc(&d->allocator, ((size_t)d->groups.count + 1) * one);
        d->factors = nsi_alloc(&d->allocator, ((size_t)d->groups.count + 1) * one);
        if (!d->norms || !d->factors) return nsi_fail_nomem(error);
    }

    // Batches, and the best point of all windows.
    if (solver_has(stage, NS_SOLVER_STOCHASTIC)) {
        d->state.best = nsi_alloc_zeroed(&d->allocator, (n + 1) * one);
        if (!d->state.best) return nsi_fail_nomem(error);
        if (stage->batch > 0 && stage->batch < d->windows) {
            status = make_batches(d, data, threads, error);
            if (status != NS_OK) return status;
        }
    }

    // The solver starts at the point of the objective.
    fill_problem(d);
    return nsi_stage_solver_restart(d, error);
}

ns_status nsi_stage_solver_create(const nsi_problem* problem, const ns_dataset* data,
                                  const nsi_stage* stage, nsi_objective* objective, uint64_t seed,
                                  uint32_t threads, nsi_stage_solver** out, ns_error* error) {
    *out = NULL;
    nsi_stage_solver* d = nsi_alloc_zeroed(&problem->allocator, sizeof *d);
    if (!d) return nsi_fail_nomem(error);
    d->allocator = problem->allocator;
    d->p = problem;
    d->stage = stage;
    d->solver = stage->solver;
    d->e = objective;
    d->seed = seed;
    d->windows = nsi_objective_window_count(objective);
    d->n = nsi_objective_unknowns(objective);
    d->nx = problem->sizes.nx;
    d->nz = variables_of(problem, stage);
    d->nw = weights_of(problem, stage);
    ns_status status = make_stage_solver(d, data, threads, error);
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
    d->solver->free(d->solver_state);
    void* blocks[] = {d->x, d->shuffled, d->state.best, d->norms, d->factors};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&memory, blocks[k]);
    nsi_free(&memory, d);
}
