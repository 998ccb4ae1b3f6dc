// L-BFGS (Liu & Nocedal 1989, line search of More & Thuente 1994) and, with an L1 penalty, OWL-QN
// (Andrew & Gao 2007): liblbfgs.
//
// Added here: points without a value, the best point seen, a test of the decrease that also holds
// for values below zero, a new start without memory when a line search fails, and penalties on any
// variables: liblbfgs sees them in front of the others.

#include "solver/solvers.h"

#include <float.h>
#include <lbfgs.h>
#include <limits.h>
#include <math.h>

enum { WINDOW = 10 }; // iterations over which the decrease is looked at

// What the progress function returns to end the search; liblbfgs hands it on.
enum { STOP_OBSERVER = 1000, STOP_DECREASE };

// Between steps only the count of iterations is kept: each step begins without memory.
typedef struct lbfgs_state {
    const ns_allocator* allocator;
    const ns_solver_problem* problem;
    uint32_t memory;
    double tolerance, gradient_tolerance;
    uint32_t iteration;
    double l1;         // 0: plain L-BFGS
    uint32_t npenalty; // variables with a penalty
    uint32_t* order;   // (n) place of each variable in liblbfgs's vectors; NULL: its own
    double *natural, *natural_gradient; // (n) a point in the order of the problem; NULL as `order`
} lbfgs_state;

// One step: vectors are in liblbfgs's order.
typedef struct lbfgs_run {
    const lbfgs_state* state;
    uint32_t n, max_iterations;
    ns_solver_result* out;
    double* best;                 // (n) with the value out->value
    double *base, *base_gradient; // (n) where the line search starts
    double base_value;            // there, with the penalty
    bool fresh;                   // liblbfgs will ask for the base first
    double values[WINDOW];        // of the latest iterations
} lbfgs_run;

static double lbfgs_norm(uint32_t n, const double* v) {
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += v[i] * v[i];
    return sqrt(sum);
}

static double l1_penalty(const lbfgs_run* s, const double* x) {
    double sum = 0.0;
    if (s->state->l1 == 0.0) return sum;
    for (uint32_t i = 0; i < s->state->npenalty; i++) sum += fabs(x[i]);
    return s->state->l1 * sum;
}

// To liblbfgs's order and back.
static void to_order(const lbfgs_state* s, const double* from, double* to) {
    for (uint32_t i = 0; i < s->problem->n; i++) to[s->order ? s->order[i] : i] = from[i];
}

static void from_order(const lbfgs_state* s, const double* from, double* to) {
    for (uint32_t i = 0; i < s->problem->n; i++) to[i] = from[s->order ? s->order[i] : i];
}

static double ask_cost(const lbfgs_state* s, const double* x, double* gradient) {
    const ns_solver_problem* p = s->problem;
    if (!s->order) return p->cost(p->context, x, gradient);
    from_order(s, x, s->natural);
    double value = p->cost(p->context, s->natural, s->natural_gradient);
    to_order(s, s->natural_gradient, gradient);
    return value;
}

// False where there is no value, or no gradient that can be computed with.
static bool lbfgs_evaluate(lbfgs_run* s, const double* x, double* gradient, double* value) {
    if (!isfinite(lbfgs_norm(s->n, x))) return false; // of a direction that overflowed
    *value = ask_cost(s->state, x, gradient);
    s->out->evaluations++;
    if (!isfinite(*value) || !isfinite(lbfgs_norm(s->n, gradient))) return false;
    double total = *value + l1_penalty(s, x);
    if (total < s->out->value) {
        s->out->value = total;
        memcpy(s->best, x, s->n * sizeof *x);
    }
    return true;
}

// Value and gradient for a point that has none: those of the parabola along the line which starts
// as the function does and has its minimum at a tenth of the step. It rises, so the point is
// refused, and the line search goes on where its interpolation leads it. A merely huge value would
// lead it to steps of 1e-300.
static double refusing_parabola(const lbfgs_run* s, const double* x, double* gradient) {
    double slope = 0.0; // times the step
    for (uint32_t i = 0; i < s->n; i++) {
        slope += s->base_gradient[i] * (x[i] - s->base[i]);
        gradient[i] = -9.0 * s->base_gradient[i];
    }
    double value = s->base_value + 4.0 * fabs(slope);
    // OWL-QN halves its steps whatever the value, to which liblbfgs adds the penalty.
    return s->state->l1 == 0.0 && isfinite(value) ? value : DBL_MAX / 4.0;
}

static double evaluate_for_lbfgs(void* instance, const double* x, double* gradient, const int n,
                                 const double step) {
    (void)n;
    (void)step;
    lbfgs_run* s = instance;
    if (s->fresh) {
        s->fresh = false;
        memcpy(gradient, s->base_gradient, s->n * sizeof *gradient);
        return s->base_value - l1_penalty(s, x);
    }
    double value;
    return lbfgs_evaluate(s, x, gradient, &value) ? value : refusing_parabola(s, x, gradient);
}

static bool lbfgs_report(const lbfgs_run* s, double gradient_norm) {
    const lbfgs_state* state = s->state;
    const ns_solver_problem* p = state->problem;
    if (!p->observe) return false;
    const double* x = s->best;
    if (state->order) {
        from_order(state, s->best, state->natural);
        x = state->natural;
    }
    ns_solver_progress progress = {.iteration = state->iteration + s->out->iterations,
                                   .value = s->out->value,
                                   .gradient_norm = gradient_norm,
                                   .x = x};
    return p->observe(p->context, &progress);
}

static int observe_for_lbfgs(void* instance, const double* x, const double* gradient,
                             const double value, const double x_norm, const double gradient_norm,
                             const double step, int n, int iteration, int trials) {
    (void)x_norm;
    (void)step;
    (void)n;
    (void)iteration;
    (void)trials;
    lbfgs_run* s = instance;
    ns_solver_result* out = s->out;
    memcpy(s->base, x, s->n * sizeof *x);
    memcpy(s->base_gradient, gradient, s->n * sizeof *gradient);
    s->base_value = value;
    out->iterations++;
    if (lbfgs_report(s, gradient_norm)) return STOP_OBSERVER;
    double* past = &s->values[out->iterations % WINDOW];
    double decrease = *past - out->value;
    *past = out->value;
    bool known = out->iterations >= WINDOW;
    return known && decrease <= s->state->tolerance * fabs(out->value) ? STOP_DECREASE : 0;
}

static lbfgs_parameter_t lbfgs_parameters(const lbfgs_run* s) {
    lbfgs_parameter_t p;
    lbfgs_parameter_init(&p);
    p.m = (int)s->state->memory;
    p.epsilon = s->state->gradient_tolerance;
    p.max_iterations = (int)(s->max_iterations - s->out->iterations);
    if (s->state->l1 > 0.0) {
        p.linesearch = LBFGS_LINESEARCH_BACKTRACKING;
        p.orthantwise_c = s->state->l1;
        p.orthantwise_start = 0;
        p.orthantwise_end = (int)s->state->npenalty;
    }
    return p;
}

// At the first point the search may have nowhere to go because it is the minimum, to rounding: then
// moving by as much as x itself would change the value by little.
static bool starts_flat(const lbfgs_run* s) {
    double scale = fmax(1.0, lbfgs_norm(s->n, s->base));
    return lbfgs_norm(s->n, s->base_gradient) * scale <= 1e-6 * fabs(s->base_value);
}

// From x, over and over: rounding, a kink or too many points without a value end a line search, and
// steepest descent may still lead on. Ends when that found nothing, too.
static ns_status lbfgs_descend(lbfgs_run* s, double* x, ns_error* error) {
    ns_solver_result* out = s->out;
    for (;;) {
        // Restarts share the iteration limit.
        if (out->iterations >= s->max_iterations) {
            out->finish = NS_FINISH_LIMIT;
            return NS_OK;
        }

        // Run liblbfgs until it ends, for whatever reason.
        double before = out->value;
        // The remaining iterations are its limit.
        lbfgs_parameter_t parameters = lbfgs_parameters(s);
        int result =
            lbfgs((int)s->n, x, NULL, evaluate_for_lbfgs, observe_for_lbfgs, s, &parameters);
        switch (result) {
        // Regular ends, and those that our callbacks asked for.
        case LBFGS_SUCCESS:
        case LBFGS_ALREADY_MINIMIZED:
        case STOP_DECREASE: out->finish = NS_FINISH_CONVERGED; return NS_OK;
        case STOP_OBSERVER: out->finish = NS_FINISH_STOPPED; return NS_OK;
        case LBFGSERR_MAXIMUMITERATION: out->finish = NS_FINISH_LIMIT; return NS_OK;
        case LBFGSERR_OUTOFMEMORY: return nsi_fail_nomem(error);
        // All others are failures of the line search.
        default: break;
        }

        // Failed line search: restart from the best point by steepest descent, unless that gained
        // nothing.
        if (before - out->value <= s->state->tolerance * fabs(out->value)) {
            // Without any progress at all, only a flat start counts as converged.
            bool descended = out->iterations > 0 || starts_flat(s);
            out->finish = descended ? NS_FINISH_CONVERGED : NS_FINISH_FAILED;
            return NS_OK;
        }
        memcpy(x, s->best, s->n * sizeof *x);
    }
}

static ns_status lbfgs_step(void* state, double* x, uint32_t iterations, ns_solver_result* out,
                            ns_error* error) {
    lbfgs_state* kept = state;
    uint32_t n = kept->problem->n;
    ns_status status = NS_OK;
    // Nothing is known before the first evaluation.
    *out = (ns_solver_result){.finish = NS_FINISH_FAILED, .value = INFINITY};

    // liblbfgs may require its vectors aligned and longer than n.
    int size = n > 0 ? (int)n : 1;
    double* point = lbfgs_malloc(size);
    lbfgs_run s = {.state = kept,
                   .n = n,
                   .max_iterations = iterations < INT_MAX ? iterations : INT_MAX,
                   .out = out,
                   .best = lbfgs_malloc(size),
                   .base = lbfgs_malloc(size),
                   .base_gradient = lbfgs_malloc(size),
                   .fresh = true};

    // Without memory there is no evaluation.
    if (!point || !s.best || !s.base || !s.base_gradient) {
        status = nsi_fail_nomem(error);
    } else {
        // Start at x, which is also the best point so far.
        double value;
        to_order(kept, x, point);
        memcpy(s.base, point, n * sizeof *x);
        memcpy(s.best, point, n * sizeof *x);

        // Without a finite cost and gradient at the start, the result is a failure.
        if (lbfgs_evaluate(&s, point, s.base_gradient, &value)) {
            s.base_value = s.values[0] = out->value;
            // liblbfgs refuses problems without unknowns.
            if (n == 0) {
                out->finish = NS_FINISH_CONVERGED;
            } else {
                status = lbfgs_descend(&s, point, error);
            }
            // Return the best point, not the last one.
            from_order(kept, s.best, x);
        }
    }

    // The state outlives this call: iterations keep counting.
    kept->iteration += out->iterations;

    lbfgs_free(s.base_gradient);
    lbfgs_free(s.base);
    lbfgs_free(s.best);
    lbfgs_free(point);
    return status;
}

// ---- the records -------------------------------------------------------------------------------

static ns_status lbfgs_check(const lbfgs_state* s, ns_error* error) {
    const char* wrong = NULL;
    if (s->memory > INT_MAX) wrong = "memory is too large";
    if (!(s->gradient_tolerance >= 0.0)) wrong = "gradient_tolerance must be a number";
    if (!(s->tolerance >= 0.0)) wrong = "tolerance must be a number";
    if (s->problem->n > INT_MAX) wrong = "too many variables";
    return wrong ? nsi_fail(error, NS_ERR_ARGUMENT, "lbfgs: %s", wrong) : NS_OK;
}

static void lbfgs_state_free(void* state) {
    lbfgs_state* s = state;
    if (!s) return;
    nsi_free(s->allocator, s->order);
    nsi_free(s->allocator, s->natural);
    nsi_free(s->allocator, s);
}

static ns_status lbfgs_create(const ns_solver_problem* problem, const ns_solver_options* o,
                              void** state, ns_error* error) {
    lbfgs_state s = {.allocator = o->allocator,
                     .problem = problem,
                     .memory = o->memory ? o->memory : 30,
                     .tolerance = nsi_option(o->tolerance, 1e-12),
                     .gradient_tolerance = nsi_option(o->gradient_tolerance, 1e-12)};
    ns_status status = lbfgs_check(&s, error);
    if (status != NS_OK) return status;
    lbfgs_state* kept = nsi_alloc(o->allocator, sizeof *kept);
    if (!kept) return nsi_fail_nomem(error);
    *kept = s;
    *state = kept;
    return NS_OK;
}

// Places of the variables: those with a penalty in front.
static void put_in_front(lbfgs_state* s, const ns_solver_options* o) {
    uint32_t n = s->problem->n, behind = 0, group = 0;
    for (uint32_t k = 0; k < o->ngroup; k++) behind += o->groups[k].count;
    s->npenalty = behind;
    for (uint32_t i = 0, front = 0; i < n; i++) {
        while (group < o->ngroup && i >= o->groups[group].offset + o->groups[group].count) group++;
        bool inside = group < o->ngroup && i >= o->groups[group].offset;
        s->order[i] = inside ? front++ : behind++;
    }
}

static ns_status owlqn_create(const ns_solver_problem* problem, const ns_solver_options* o,
                              void** state, ns_error* error) {
    ns_status status = nsi_penalty_check("owlqn", problem->n, o, error);
    if (status == NS_OK) status = lbfgs_create(problem, o, state, error);
    if (status != NS_OK || o->l1 == 0.0) return status;
    lbfgs_state* s = *state;
    size_t n = problem->n;
    ns_variable_group all;
    ns_solver_options options = nsi_penalty_of_all(o, problem->n, &all);
    s->order = nsi_alloc(o->allocator, n * sizeof *s->order);
    s->natural = nsi_alloc(o->allocator, 2 * n * sizeof *s->natural);
    if (!s->order || !s->natural) {
        lbfgs_state_free(s);
        *state = NULL;
        return nsi_fail_nomem(error);
    }
    s->natural_gradient = s->natural + n;
    put_in_front(s, &options);
    s->l1 = s->npenalty > 0 ? o->l1 : 0.0;
    return NS_OK;
}

static uint32_t lbfgs_state_size(const void* state) {
    (void)state;
    return 1;
}

static void lbfgs_save(const void* state, double* numbers) {
    numbers[0] = ((const lbfgs_state*)state)->iteration;
}

static void lbfgs_load(void* state, const double* numbers) {
    ((lbfgs_state*)state)->iteration = nsi_saved_count(numbers[0]);
}

const ns_solver nsi_solver_lbfgs = {
    .name = "lbfgs",
    .title = "L-BFGS",
    .help = "limited-memory BFGS",
    .capabilities = NS_SOLVER_GRADIENT,
    .round = 100,
    .max_iterations = 1000,
    .create = lbfgs_create,
    .step = lbfgs_step,
    .state_size = lbfgs_state_size,
    .save = lbfgs_save,
    .load = lbfgs_load,
    .free = lbfgs_state_free,
};

const ns_solver nsi_solver_owlqn = {
    .name = "owlqn",
    .title = "OWL-QN",
    .help = "limited-memory BFGS with an L1 penalty",
    .capabilities = NS_SOLVER_GRADIENT | NS_SOLVER_L1,
    .round = 100,
    .max_iterations = 1000,
    .create = owlqn_create,
    .step = lbfgs_step,
    .state_size = lbfgs_state_size,
    .save = lbfgs_save,
    .load = lbfgs_load,
    .free = lbfgs_state_free,
};
