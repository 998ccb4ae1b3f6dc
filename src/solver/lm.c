// Levenberg-Marquardt (Levenberg 1944, Marquardt 1963) on anything that linearises and solves itself:
// the windows of a fit, or residuals of a callback (dense_least_squares.c). Damping falls to a fifth
// after a step that lowers the cost and grows fivefold after one that does not.

#include "solver/solvers.h"

#include <math.h>

enum { MAX_FAILURES = 25, MAX_SMALL = 2, LM_NUMBERS = 3 };

typedef struct lm_state {
    const ns_allocator* allocator;
    ns_gauss_newton problem;
    nsi_dense_problem* dense; // NULL: the problem solves itself
    const double* x;          // of the dense problem
    double tolerance;
    ns_solver_observer* observe;
    void* context;

    uint32_t iteration;
    uint32_t small; // steps in a row that gained little
    double damping;
} lm_state;

static lm_state lm_begin(const ns_solver_options* options, ns_solver_observer* observe,
                         void* context) {
    return (lm_state){.allocator = options->allocator,
                      .tolerance = nsi_option(options->tolerance, 1e-9),
                      .damping = options->damping == 0.0 ? 1e-2 : options->damping,
                      .observe = observe,
                      .context = context};
}

// Raise the damping until a step lowers the cost; false when none does. `promised` receives the largest
// decrease that the linear model predicted.
static bool lm_step_down(lm_state* s, double* value, double* promised, ns_solver_result* out) {
    const ns_gauss_newton* p = &s->problem;
    *promised = 0.0;
    for (int failure = 0; failure < MAX_FAILURES; failure++) {
        double predicted = 0.0;
        if (p->solve(p->context, s->damping, &predicted)) {
            *promised = fmax(*promised, predicted);
            if (predicted <= 0.01 * s->tolerance * *value) return false;
            double trial = p->trial_cost(p->context);
            out->evaluations++;
            if (trial < *value) {
                p->commit(p->context);
                *value = trial;
                s->damping = fmax(0.2 * s->damping, 1e-15);
                return true;
            }
        }
        s->damping *= 5.0;
    }
    return false;
}

// Did the linear model promise much at the start, and no step keep any of it? The Jacobian is wrong then.
// Problems that solve themselves end as converged: those of fits have kinks.
static bool lm_found_no_way(const lm_state* s, double value, double promised) {
    return s->dense && s->iteration == 0 && promised > fmax(s->tolerance, 1e-9) * value &&
           !nsi_dense_problem_is_exact(s->dense, value);
}

static ns_solver_result lm_iterate(lm_state* s, uint32_t iterations) {
    // Without an iteration there is no value.
    ns_solver_result out = {.finish = NS_FINISH_LIMIT, .value = INFINITY};
    while (out.iterations < iterations) {
        // Linearise at the current point.
        double value, promised;
        out.evaluations++;
        // A point that cannot be linearised ends the run.
        if (!s->problem.linearise(s->problem.context, &value)) {
            out.finish = NS_FINISH_FAILED;
            out.value = INFINITY;
            return out;
        }
        out.value = value;

        // Find a step that decreases the cost, increasing the damping as needed.
        if (!lm_step_down(s, &out.value, &promised, &out)) {
            // None: either a minimum, or derivatives that do not match the function.
            bool failed = lm_found_no_way(s, out.value, promised);
            out.finish = failed ? NS_FINISH_FAILED : NS_FINISH_CONVERGED;
            return out;
        }

        // Count consecutive steps of little gain.
        s->iteration++;
        out.iterations++;
        s->small = value - out.value < s->tolerance * value ? s->small + 1 : 0;

        // The observer sees every step, including the last.
        ns_solver_progress progress = {
            .iteration = s->iteration, .value = out.value, .gradient_norm = NAN, .x = s->x};
        bool stop = s->observe && s->observe(s->context, &progress);

        // Converged after two small steps in a row: a single one may be due to high damping.
        if (s->small >= MAX_SMALL) {
            out.finish = NS_FINISH_CONVERGED;
            return out;
        }

        if (stop) {
            out.finish = NS_FINISH_STOPPED;
            return out;
        }
    }
    return out;
}

ns_solver_result nsi_lm(const ns_gauss_newton* problem, const ns_solver_options* options,
                        ns_solver_observer* observe, void* context) {
    lm_state s = lm_begin(options, observe, context);
    s.problem = *problem;
    return lm_iterate(&s, options->max_iterations ? options->max_iterations
                                                  : nsi_solver_lm.max_iterations);
}

// ---- the record --------------------------------------------------------------------------------

static ns_status lm_create(const ns_solver_problem* problem, const ns_solver_options* options,
                           void** state, ns_error* error) {
    lm_state s = lm_begin(options, problem->observe, problem->context);
    if (!(s.damping > 0.0 && isfinite(s.damping))) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "lm: damping must be positive");
    }
    if (!(s.tolerance >= 0.0)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "lm: tolerance must be a number");
    }
    if (problem->gauss_newton) {
        s.problem = *problem->gauss_newton;
    } else {
        ns_status status = nsi_dense_problem_create(problem, options, &s.dense, error);
        if (status != NS_OK) return status;
    }
    lm_state* kept = nsi_alloc(options->allocator, sizeof *kept);
    if (!kept) {
        nsi_dense_problem_free(s.dense);
        return nsi_fail_nomem(error);
    }
    *kept = s;
    *state = kept;
    return NS_OK;
}

static ns_status lm_step(void* state, double* x, uint32_t iterations, ns_solver_result* result,
                         ns_error* error) {
    (void)error;
    lm_state* s = state;
    if (s->dense) {
        s->problem = nsi_dense_problem_at(s->dense, x);
        s->x = x;
    }
    *result = lm_iterate(s, iterations);
    return NS_OK;
}

static uint32_t lm_state_size(const void* state) {
    (void)state;
    return LM_NUMBERS;
}

static void lm_save(const void* state, double* numbers) {
    const lm_state* s = state;
    numbers[0] = s->iteration;
    numbers[1] = s->small;
    numbers[2] = s->damping;
}

static void lm_load(void* state, const double* numbers) {
    lm_state* s = state;
    s->iteration = nsi_saved_count(numbers[0]);
    s->small = nsi_saved_count(numbers[1]);
    if (numbers[2] > 0.0 && isfinite(numbers[2])) s->damping = numbers[2];
}

static void lm_free(void* state) {
    lm_state* s = state;
    if (!s) return;
    nsi_dense_problem_free(s->dense);
    nsi_free(s->allocator, s);
}

const ns_solver nsi_solver_lm = {
    .name = "lm",
    .title = "LM",
    .help = "Levenberg-Marquardt on the residuals",
    .capabilities = NS_SOLVER_LEAST_SQUARES | NS_SOLVER_L1 | NS_SOLVER_GROUPS,
    .round = 1,
    .max_iterations = 50,
    .create = lm_create,
    .step = lm_step,
    .state_size = lm_state_size,
    .save = lm_save,
    .load = lm_load,
    .free = lm_free,
};
