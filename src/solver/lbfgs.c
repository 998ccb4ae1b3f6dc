// L-BFGS (Liu & Nocedal 1989, line search of More & Thuente 1994) and, with an L1 penalty, OWL-QN
// (Andrew & Gao 2007): liblbfgs.
//
// Added here: points without a value, the best point seen, a test of the decrease that also holds
// for values below zero, and a new start without memory when a line search fails.

#include "solver/solvers.h"

#include <float.h>
#include <lbfgs.h>
#include <limits.h>
#include <math.h>

enum { WINDOW = 10 }; // iterations over which the decrease is looked at

// What the progress function returns to end the search; liblbfgs hands it on.
enum { STOP_OBSERVER = 1000, STOP_DECREASE };

typedef struct search {
    uint32_t n;
    const nsi_lbfgs_options* options;
    nsi_cost_function* objective;
    nsi_observer* observe;
    void* context;
    nsi_outcome* out;
    double l1;                    // 0: plain L-BFGS
    double* best;                 // (n) with the value out->value
    double *base, *base_gradient; // (n) where the line search starts
    double base_value;            // there, with the penalty
    bool fresh;                   // liblbfgs will ask for the base first
    double values[WINDOW];        // of the latest iterations
} search;

nsi_lbfgs_options nsi_default_lbfgs_options(void) {
    return (nsi_lbfgs_options){.memory = 30,
                               .max_iterations = 1000,
                               .gradient_tolerance = 1e-12,
                               .decrease_tolerance = 1e-12};
}

static ns_status check_options(uint32_t n, const nsi_lbfgs_options* o, ns_error* error) {
    const char* wrong = NULL;
    if (o->memory == 0 || o->memory > INT_MAX) wrong = "memory must be positive";
    if (o->max_iterations > INT_MAX) wrong = "max_iterations is too large";
    if (!(o->gradient_tolerance >= 0.0)) wrong = "gradient_tolerance must not be negative";
    if (!(o->decrease_tolerance >= 0.0)) wrong = "decrease_tolerance must not be negative";
    if (!(o->l1 >= 0.0 && isfinite(o->l1))) wrong = "l1 must not be negative";
    if (o->l1 > 0.0 && (o->l1_start > o->l1_end || o->l1_end > n)) {
        wrong = "l1_start and l1_end must be in order and within the variables";
    }
    if (n > INT_MAX) wrong = "too many variables";
    return wrong ? nsi_fail(error, NS_ERR_ARGUMENT, "lbfgs: %s", wrong) : NS_OK;
}

static double norm(uint32_t n, const double* v) {
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += v[i] * v[i];
    return sqrt(sum);
}

static double penalty(const search* s, const double* x) {
    double sum = 0.0;
    if (s->l1 == 0.0) return sum;
    for (uint32_t i = s->options->l1_start; i < s->options->l1_end; i++) sum += fabs(x[i]);
    return s->l1 * sum;
}

// False where there is no value, or no gradient that can be computed with.
static bool evaluate(search* s, const double* x, double* gradient, double* value) {
    if (!isfinite(norm(s->n, x))) return false; // of a direction that overflowed
    *value = s->objective(s->context, x, gradient);
    s->out->evaluations++;
    if (!isfinite(*value) || !isfinite(norm(s->n, gradient))) return false;
    double total = *value + penalty(s, x);
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
static double parabola(const search* s, const double* x, double* gradient) {
    double slope = 0.0; // times the step
    for (uint32_t i = 0; i < s->n; i++) {
        slope += s->base_gradient[i] * (x[i] - s->base[i]);
        gradient[i] = -9.0 * s->base_gradient[i];
    }
    double value = s->base_value + 4.0 * fabs(slope);
    // OWL-QN halves its steps whatever the value, to which liblbfgs adds the penalty.
    return s->l1 == 0.0 && isfinite(value) ? value : DBL_MAX / 4.0;
}

static double evaluate_for_lbfgs(void* instance, const double* x, double* gradient, const int n,
                                 const double step) {
    (void)n;
    (void)step;
    search* s = instance;
    if (s->fresh) {
        s->fresh = false;
        memcpy(gradient, s->base_gradient, s->n * sizeof *gradient);
        return s->base_value - penalty(s, x);
    }
    double value;
    return evaluate(s, x, gradient, &value) ? value : parabola(s, x, gradient);
}

static int observe_for_lbfgs(void* instance, const double* x, const double* gradient,
                             const double value, const double x_norm, const double gradient_norm,
                             const double step, int n, int iteration, int trials) {
    (void)x_norm;
    (void)step;
    (void)n;
    (void)iteration;
    (void)trials;
    search* s = instance;
    nsi_outcome* out = s->out;
    memcpy(s->base, x, s->n * sizeof *x);
    memcpy(s->base_gradient, gradient, s->n * sizeof *gradient);
    s->base_value = value;
    out->iterations++;
    nsi_progress progress = {.iteration = out->iterations,
                             .value = out->value,
                             .gradient_norm = gradient_norm,
                             .x = s->best};
    if (s->observe && s->observe(s->context, &progress)) return STOP_OBSERVER;
    double* past = &s->values[out->iterations % WINDOW];
    double decrease = *past - out->value;
    *past = out->value;
    bool known = out->iterations >= WINDOW;
    return known && decrease <= s->options->decrease_tolerance * fabs(out->value) ? STOP_DECREASE
                                                                                  : 0;
}

static lbfgs_parameter_t make_parameters(const search* s) {
    lbfgs_parameter_t p;
    lbfgs_parameter_init(&p);
    p.m = (int)s->options->memory;
    p.epsilon = s->options->gradient_tolerance;
    p.max_iterations = (int)(s->options->max_iterations - s->out->iterations);
    if (s->l1 > 0.0) {
        p.linesearch = LBFGS_LINESEARCH_BACKTRACKING;
        p.orthantwise_c = s->l1;
        p.orthantwise_start = (int)s->options->l1_start;
        p.orthantwise_end = (int)s->options->l1_end;
    }
    return p;
}

// At the first point the search may have nowhere to go because it is the minimum, to rounding: then
// moving by as much as x itself would change the value by little.
static bool is_flat(const search* s) {
    double scale = fmax(1.0, norm(s->n, s->base));
    return norm(s->n, s->base_gradient) * scale <= 1e-6 * fabs(s->base_value);
}

// From x, over and over: rounding, a kink or too many points without a value end a line search, and
// steepest descent may still lead on. Ends when that found nothing, too.
static ns_status run(search* s, double* x, ns_error* error) {
    nsi_outcome* out = s->out;
    for (;;) {
        if (out->iterations >= s->options->max_iterations) {
            out->finish = NSI_FINISH_ITERATIONS;
            return NS_OK;
        }
        double before = out->value;
        lbfgs_parameter_t parameters = make_parameters(s);
        int result =
            lbfgs((int)s->n, x, NULL, evaluate_for_lbfgs, observe_for_lbfgs, s, &parameters);
        switch (result) {
        case LBFGS_SUCCESS:
        case LBFGS_ALREADY_MINIMIZED:
        case STOP_DECREASE: out->finish = NSI_FINISH_CONVERGED; return NS_OK;
        case STOP_OBSERVER: out->finish = NSI_FINISH_STOPPED; return NS_OK;
        case LBFGSERR_MAXIMUMITERATION: out->finish = NSI_FINISH_ITERATIONS; return NS_OK;
        case LBFGSERR_OUTOFMEMORY: return nsi_fail_nomem(error);
        default: break;
        }
        if (before - out->value <= s->options->decrease_tolerance * fabs(out->value)) {
            bool descended = out->iterations > 0 || is_flat(s);
            out->finish = descended ? NSI_FINISH_CONVERGED : NSI_FINISH_FAILED;
            return NS_OK;
        }
        memcpy(x, s->best, s->n * sizeof *x);
    }
}

ns_status nsi_lbfgs(uint32_t n, double* x, nsi_cost_function* objective, nsi_observer* observe,
                    void* context, const nsi_lbfgs_options* options, nsi_outcome* out,
                    ns_error* error) {
    nsi_lbfgs_options o = options ? *options : nsi_default_lbfgs_options();
    *out = (nsi_outcome){.finish = NSI_FINISH_FAILED, .value = INFINITY};
    ns_status status = check_options(n, &o, error);
    if (status != NS_OK) return status;

    // liblbfgs may want its vectors aligned and longer than n.
    int size = n > 0 ? (int)n : 1;
    double* point = lbfgs_malloc(size);
    search s = {.n = n,
                .options = &o,
                .objective = objective,
                .observe = observe,
                .context = context,
                .out = out,
                .l1 = o.l1_start < o.l1_end ? o.l1 : 0.0,
                .best = lbfgs_malloc(size),
                .base = lbfgs_malloc(size),
                .base_gradient = lbfgs_malloc(size),
                .fresh = true};
    if (!point || !s.best || !s.base || !s.base_gradient) {
        status = nsi_fail_nomem(error);
    } else {
        double value;
        memcpy(point, x, n * sizeof *x);
        memcpy(s.base, x, n * sizeof *x);
        memcpy(s.best, x, n * sizeof *x);
        if (evaluate(&s, point, s.base_gradient, &value)) {
            s.base_value = s.values[0] = out->value;
            if (n == 0) {
                out->finish = NSI_FINISH_CONVERGED;
            } else {
                status = run(&s, point, error);
            }
            memcpy(x, s.best, n * sizeof *x);
        }
    }
    lbfgs_free(s.base_gradient);
    lbfgs_free(s.base);
    lbfgs_free(s.best);
    lbfgs_free(point);
    return status;
}
