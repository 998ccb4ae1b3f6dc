// Global methods of NLopt: CRS2 with local mutation (Kaelo & Ali 2006), ISRES (Runarsson & Yao
// 2005), ESCH (da Silva Santos et al. 2010), MLSL (Rinnooy Kan & Timmer 1987, starts by Kucherenko
// & Sytsko 2005) with L-BFGS. For comparison with basin_hopping.c. An iteration is an evaluation.

#include "solver/solvers.h"

#include <limits.h>
#include <math.h>
#include <nlopt.h>
#include <pthread.h>

// For points without a value. Far above any other, and sums of a few still finite.
static const double WORST = 1e100;

// NLopt's random numbers are one sequence for all, in some of its builds for all threads.
static pthread_mutex_t random_numbers = PTHREAD_MUTEX_INITIALIZER;

typedef struct population_state {
    const ns_allocator* allocator;
    const ns_solver_problem* problem;
    nlopt_algorithm algorithm;
    uint32_t population;
    double target;
    uint64_t seed;
} population_state;

typedef struct population_run {
    const population_state* state;
    const ns_solver_problem* problem;
    uint32_t n, max_evaluations;
    ns_solver_result* out;
    double* x; // (n) the best; out->value is its value
    nlopt_opt nlopt;
    bool ended; // NLopt looks at its flag a few evaluations late
} population_run;

static bool is_mlsl(const population_run* s) {
    return s->state->algorithm == NLOPT_G_MLSL_LDS;
}

static void end_search(population_run* s, ns_finish finish) {
    s->ended = true;
    s->out->finish = finish;
    nlopt_force_stop(s->nlopt);
}

static double gradient_norm(uint32_t n, const double* g) {
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += g[i] * g[i];
    return sqrt(sum);
}

static double population_evaluate(unsigned n, const double* x, double* gradient, void* data) {
    population_run* s = data;
    ns_solver_result* out = s->out;

    // Evaluate, unless the search has ended: NLopt may ask for more points before it returns.
    double value = s->ended ? (double)NAN : s->problem->cost(s->problem->context, x, gradient);
    double slope = NAN;
    // A non-finite gradient makes the value unusable, too.
    if (gradient && isfinite(value)) {
        slope = gradient_norm(n, gradient);
        if (!isfinite(slope)) value = NAN;
    }
    // NLopt needs finite numbers at all points.
    if (!isfinite(value) && gradient) memset(gradient, 0, n * sizeof *gradient);
    if (s->ended) return WORST;

    // Keep the best point.
    out->evaluations++;
    // Every evaluation counts as an iteration.
    out->iterations++;
    if (isfinite(value) && value < out->value) {
        out->value = value;
        memcpy(s->x, x, n * sizeof *x);
    }

    // The observer sees the best point so far.
    ns_solver_progress progress = {
        .iteration = out->iterations, .value = out->value, .gradient_norm = slope, .x = s->x};
    bool stop = s->problem->observe && s->problem->observe(s->problem->context, &progress);

    // Stop at the target, on request, or at the limit.
    if (out->value <= s->state->target) {
        end_search(s, NS_FINISH_CONVERGED);
    } else if (stop) {
        end_search(s, NS_FINISH_STOPPED);
    } else if (out->evaluations >= s->max_evaluations) {
        end_search(s, NS_FINISH_LIMIT);
    }

    // Points without a value are worse than all others.
    return isfinite(value) && value < WORST ? value : WORST;
}

// L-BFGS for MLSL.
static nlopt_result set_local(nlopt_opt opt, uint32_t n) {
    nlopt_opt local = nlopt_create(NLOPT_LD_LBFGS, n);
    if (!local) return NLOPT_OUT_OF_MEMORY;
    nlopt_result result = nlopt_set_ftol_rel(local, 1e-10);
    if (result > 0) result = nlopt_set_xtol_rel(local, 1e-8);
    if (result > 0) result = nlopt_set_vector_storage(local, 30);
    if (result > 0) result = nlopt_set_local_optimizer(opt, local);
    nlopt_destroy(local);
    return result;
}

static nlopt_result set_up(population_run* s, bool again) {
    const population_state* state = s->state;
    nlopt_opt opt = s->nlopt = nlopt_create(again ? NLOPT_G_MLSL : state->algorithm, s->n);
    if (!opt) return NLOPT_OUT_OF_MEMORY;
    nlopt_result result = nlopt_set_min_objective(opt, population_evaluate, s);
    if (result > 0) result = nlopt_set_lower_bounds(opt, s->problem->lower);
    if (result > 0) result = nlopt_set_upper_bounds(opt, s->problem->upper);
    if (result > 0) result = nlopt_set_maxeval(opt, (int)s->max_evaluations);
    if (result > 0) result = nlopt_set_population(opt, state->population);
    if (result > 0 && is_mlsl(s)) result = set_local(opt, s->n);
    return result;
}

// MLSL ends altogether when a local search fails, at the rounding limit or before points without a
// value. It goes on from the best point then, with random starts: the low-discrepancy ones would be
// the same once more.
static nlopt_result run_nlopt(population_run* s, double* point) {
    nlopt_result result;
    bool again = false;
    do {
        uint32_t before = s->out->evaluations;
        memcpy(point, s->x, s->n * sizeof *point);
        result = set_up(s, again);
        double value;
        if (result > 0) result = nlopt_optimize(s->nlopt, point, &value);
        nlopt_destroy(s->nlopt);
        again = is_mlsl(s) && result == NLOPT_FAILURE && !s->ended && s->out->evaluations > before;
    } while (again);
    return result;
}

static ns_status population_step(void* state, double* x, uint32_t iterations, ns_solver_result* out,
                                 ns_error* error) {
    const population_state* kept = state;
    const ns_solver_problem* p = kept->problem;
    *out = (ns_solver_result){.finish = NS_FINISH_CONVERGED, .value = INFINITY};
    double* point = nsi_alloc(kept->allocator, p->n * sizeof *point);
    if (!point) return nsi_fail_nomem(error);
    for (uint32_t i = 0; i < p->n; i++) x[i] = fmin(fmax(x[i], p->lower[i]), p->upper[i]);
    population_run s = {.state = kept,
                        .problem = p,
                        .n = p->n,
                        .max_evaluations = iterations < INT_MAX ? iterations : INT_MAX,
                        .out = out,
                        .x = x};

    pthread_mutex_lock(&random_numbers);
    nlopt_srand((unsigned long)((kept->seed ^ kept->seed >> 32) & UINT32_MAX));
    nlopt_result result = run_nlopt(&s, point);
    pthread_mutex_unlock(&random_numbers);

    nsi_free(kept->allocator, point);
    if (result == NLOPT_OUT_OF_MEMORY) return nsi_fail_nomem(error);
    if (!isfinite(out->value)) out->finish = NS_FINISH_FAILED;
    return NS_OK;
}

// ---- the records -------------------------------------------------------------------------------

static ns_status make_population(const ns_solver* solver, nlopt_algorithm algorithm,
                                 const ns_solver_problem* problem, const ns_solver_options* o,
                                 void** state, ns_error* error) {
    if (o->population > INT_MAX) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "%s: population is too large", solver->name);
    }
    if (algorithm == NLOPT_GN_CRS2_LM && o->population > 0 && o->population <= problem->n) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "crs2: a population of at least %u is needed for %u variables",
                        problem->n + 1, problem->n);
    }
    ns_status status = nsi_solver_check_box(solver->name, problem, error);
    if (status != NS_OK) return status;
    population_state* kept = nsi_alloc(o->allocator, sizeof *kept);
    if (!kept) return nsi_fail_nomem(error);
    *kept = (population_state){.allocator = o->allocator,
                               .problem = problem,
                               .algorithm = algorithm,
                               .population = o->population,
                               .target = o->target == 0.0 ? -INFINITY : o->target,
                               .seed = o->seed};
    *state = kept;
    return NS_OK;
}

static void population_free(void* state) {
    population_state* s = state;
    if (s) nsi_free(s->allocator, s);
}

// A record for each algorithm: NLopt keeps its state to itself, so there are no checkpoints.
#define POPULATION_SOLVER(id, words, text, nlopt, more)                                            \
    static ns_status id##_create(const ns_solver_problem* problem, const ns_solver_options* o,     \
                                 void** state, ns_error* error) {                                  \
        return make_population(&nsi_solver_##id, nlopt, problem, o, state, error);                 \
    }                                                                                              \
    const ns_solver nsi_solver_##id = {                                                            \
        .name = #id,                                                                               \
        .title = words,                                                                            \
        .help = text,                                                                              \
        .capabilities = NS_SOLVER_GLOBAL | (more),                                                 \
        .round = UINT32_MAX,                                                                       \
        .max_iterations = 10000,                                                                   \
        .create = id##_create,                                                                     \
        .step = population_step,                                                                   \
        .free = population_free,                                                                   \
    };

POPULATION_SOLVER(crs2, "CRS2", "controlled random search of NLopt", NLOPT_GN_CRS2_LM, 0)
POPULATION_SOLVER(isres, "ISRES", "evolution strategy of NLopt", NLOPT_GN_ISRES, 0)
POPULATION_SOLVER(esch, "ESCH", "evolutionary algorithm of NLopt", NLOPT_GN_ESCH, 0)
POPULATION_SOLVER(mlsl, "MLSL", "multi-level single-linkage of NLopt with L-BFGS", NLOPT_G_MLSL_LDS,
                  NS_SOLVER_GRADIENT)
