// Global methods of NLopt: CRS2 with local mutation (Kaelo & Ali 2006), ISRES (Runarsson & Yao
// 2005), ESCH (da Silva Santos et al. 2010), MLSL (Rinnooy Kan & Timmer 1987, starts by Kucherenko
// & Sytsko 2005) with L-BFGS. For comparison with hop.c.

#include "solver/solvers.h"

#include <limits.h>
#include <math.h>
#include <nlopt.h>
#include <pthread.h>

// For points without a value. Far above any other, and sums of a few still finite.
static const double WORST = 1e100;

// NLopt's random numbers are one sequence for all, in some of its builds for all threads.
static pthread_mutex_t random_numbers = PTHREAD_MUTEX_INITIALIZER;

typedef struct search {
    uint32_t n;
    nsi_cost_function* objective;
    nsi_observer* observe;
    void* context;
    const nsi_population_options* options;
    nsi_outcome* out;
    double* x; // (n) the best; out->value is its value
    nlopt_opt nlopt;
    bool ended; // NLopt looks at its flag a few evaluations late
} search;

nsi_population_options nsi_default_population_options(void) {
    return (nsi_population_options){
        .method = NSI_POPULATION_CRS2, .max_evaluations = 10000, .target = -INFINITY};
}

static ns_status check_arguments(uint32_t n, const double* lower, const double* upper,
                                 const nsi_population_options* o, ns_error* error) {
    if (o->max_evaluations == 0 || o->max_evaluations > INT_MAX || o->population > INT_MAX) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "population: max_evaluations must be positive, and neither it nor"
                        " population above %d",
                        INT_MAX);
    }
    if (o->method == NSI_POPULATION_CRS2 && o->population > 0 && o->population <= n) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "population: CRS2 needs a population of at least %u for %u variables",
                        n + 1, n);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!(isfinite(upper[i] - lower[i]) && lower[i] <= upper[i])) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "population: the box is from %g to %g in coordinate %u; it must be"
                            " finite and not empty",
                            lower[i], upper[i], i);
        }
    }
    return NS_OK;
}

static void end(search* s, nsi_finish finish) {
    s->ended = true;
    s->out->finish = finish;
    nlopt_force_stop(s->nlopt);
}

static double gradient_norm(uint32_t n, const double* g) {
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += g[i] * g[i];
    return sqrt(sum);
}

static double evaluate(unsigned n, const double* x, double* gradient, void* data) {
    search* s = data;
    nsi_outcome* out = s->out;
    double value = s->ended ? (double)NAN : s->objective(s->context, x, gradient);
    double slope = NAN;
    if (gradient && isfinite(value)) {
        slope = gradient_norm(n, gradient);
        if (!isfinite(slope)) value = NAN;
    }
    if (!isfinite(value) && gradient) memset(gradient, 0, n * sizeof *gradient);
    if (s->ended) return WORST;

    out->evaluations++;
    out->iterations++;
    if (isfinite(value) && value < out->value) {
        out->value = value;
        memcpy(s->x, x, n * sizeof *x);
    }
    nsi_progress progress = {
        .iteration = out->iterations, .value = out->value, .gradient_norm = slope, .x = s->x};
    bool stop = s->observe && s->observe(s->context, &progress);
    if (out->value <= s->options->target) {
        end(s, NSI_FINISH_CONVERGED);
    } else if (stop) {
        end(s, NSI_FINISH_STOPPED);
    } else if (out->evaluations >= s->options->max_evaluations) {
        end(s, NSI_FINISH_ITERATIONS);
    }
    return isfinite(value) && value < WORST ? value : WORST;
}

static nlopt_algorithm algorithm_of(nsi_population_method method, bool again) {
    switch (method) {
    case NSI_POPULATION_CRS2: return NLOPT_GN_CRS2_LM;
    case NSI_POPULATION_ISRES: return NLOPT_GN_ISRES;
    case NSI_POPULATION_ESCH: return NLOPT_GN_ESCH;
    case NSI_POPULATION_MLSL: return again ? NLOPT_G_MLSL : NLOPT_G_MLSL_LDS;
    }
    return NLOPT_GN_CRS2_LM;
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

static nlopt_result set_up(search* s, const double* lower, const double* upper, bool again) {
    const nsi_population_options* o = s->options;
    nlopt_opt opt = s->nlopt = nlopt_create(algorithm_of(o->method, again), s->n);
    if (!opt) return NLOPT_OUT_OF_MEMORY;
    nlopt_result result = nlopt_set_min_objective(opt, evaluate, s);
    if (result > 0) result = nlopt_set_lower_bounds(opt, lower);
    if (result > 0) result = nlopt_set_upper_bounds(opt, upper);
    if (result > 0) result = nlopt_set_maxeval(opt, (int)o->max_evaluations);
    if (result > 0) result = nlopt_set_population(opt, o->population);
    if (result > 0 && o->method == NSI_POPULATION_MLSL) result = set_local(opt, s->n);
    return result;
}

// MLSL ends altogether when a local search fails, at the rounding limit or before points without a
// value. It goes on from the best point then, with random starts: the low-discrepancy ones would be
// the same once more.
static nlopt_result run(search* s, const double* lower, const double* upper, double* point) {
    nlopt_result result;
    bool again = false;
    do {
        uint32_t before = s->out->evaluations;
        memcpy(point, s->x, s->n * sizeof *point);
        result = set_up(s, lower, upper, again);
        double value;
        if (result > 0) result = nlopt_optimize(s->nlopt, point, &value);
        nlopt_destroy(s->nlopt);
        again = s->options->method == NSI_POPULATION_MLSL && result == NLOPT_FAILURE && !s->ended &&
                s->out->evaluations > before;
    } while (again);
    return result;
}

ns_status nsi_population(uint32_t n, const double* lower, const double* upper, double* x,
                         nsi_cost_function* objective, nsi_observer* observe, void* context,
                         const nsi_population_options* options, nsi_outcome* out, ns_error* error) {
    nsi_population_options o = options ? *options : nsi_default_population_options();
    *out = (nsi_outcome){.finish = NSI_FINISH_CONVERGED, .value = INFINITY};
    ns_status status = check_arguments(n, lower, upper, &o, error);
    if (status != NS_OK) return status;
    double* point = nsi_alloc(NULL, n * sizeof *point);
    if (!point) return nsi_fail_nomem(error);
    for (uint32_t i = 0; i < n; i++) x[i] = fmin(fmax(x[i], lower[i]), upper[i]);
    search s = {.n = n,
                .objective = objective,
                .observe = observe,
                .context = context,
                .options = &o,
                .out = out,
                .x = x};
    pthread_mutex_lock(&random_numbers);
    nlopt_srand((unsigned long)((o.seed ^ o.seed >> 32) & UINT32_MAX));
    nlopt_result result = run(&s, lower, upper, point);
    pthread_mutex_unlock(&random_numbers);
    nsi_free(NULL, point);
    if (result == NLOPT_OUT_OF_MEMORY) return nsi_fail_nomem(error);
    if (!isfinite(out->value)) out->finish = NSI_FINISH_FAILED;
    return NS_OK;
}
