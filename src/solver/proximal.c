// Accelerated proximal gradient: Beck & Teboulle, "A fast iterative shrinkage-thresholding
// algorithm for linear inverse problems", SIAM J. Imaging Sci. 2 (2009), with backtracking. Kept
// monotone by a restart: when an iteration does not lower the value, the next one goes from the
// best point and without momentum (O'Donoghue & Candes 2015, section 3.2). A step without momentum
// always goes down once it is short enough, whether or not the function is convex.

#include "solver/solvers.h"

#include <float.h>
#include <math.h>

enum { WINDOW = 10, MAX_HALVINGS = 60 };

static ns_status check_groups(const char* solver, uint32_t n, const ns_solver_options* o,
                              ns_error* error) {
    const char* wrong = NULL;
    uint64_t end = 0;
    for (uint32_t k = 0; o->groups && k < o->ngroup && !wrong; k++) {
        const ns_variable_group* g = &o->groups[k];
        if (g->offset < end) wrong = "groups must be in order and not overlap";
        end = (uint64_t)g->offset + g->count;
        if (end > n) wrong = "a group ends after the last variable";
    }
    return wrong ? nsi_fail(error, NS_ERR_ARGUMENT, "%s: %s", solver, wrong) : NS_OK;
}

ns_status nsi_penalty_check(const char* solver, uint32_t n, const ns_solver_options* o,
                            ns_error* error) {
    const char* wrong = NULL;
    if (!(o->group_lasso >= 0.0 && isfinite(o->group_lasso))) {
        wrong = "group_lasso must not be negative";
    }
    if (!(o->l1 >= 0.0 && isfinite(o->l1))) wrong = "l1 must not be negative";
    if (wrong) return nsi_fail(error, NS_ERR_ARGUMENT, "%s: %s", solver, wrong);
    return check_groups(solver, n, o, error);
}

ns_solver_options nsi_penalty_of_all(const ns_solver_options* options, uint32_t n,
                                     ns_variable_group* all) {
    ns_solver_options o = *options;
    *all = (ns_variable_group){0, n};
    if (!o.groups) {
        o.groups = all;
        o.ngroup = 1;
        o.factors = NULL;
    }
    return o;
}

static double group_norm(uint32_t n, const double* v) {
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += v[i] * v[i];
    return sqrt(sum);
}

static double group_factor(const ns_solver_options* o, uint32_t group) {
    return o->factors ? o->factors[group] : 1.0;
}

double nsi_penalty(const ns_solver_options* o, const double* x) {
    double sum = 0.0;
    for (uint32_t k = 0; k < o->ngroup; k++) {
        const ns_variable_group* g = &o->groups[k];
        double l1 = 0.0;
        for (uint32_t i = 0; i < g->count; i++) l1 += fabs(x[g->offset + i]);
        if (l1 == 0.0) continue;
        double size = o->group_lasso * sqrt((double)g->count) * group_norm(g->count, x + g->offset);
        double factor = group_factor(o, k);
        sum += isfinite(factor) ? factor * (size + o->l1 * l1) : INFINITY;
    }
    return sum;
}

// The point that minimises |z - x|^2 / (2 step) + penalty(z), in place: each number is moved
// towards zero, then each group is shrunk (Simon et al. 2013, section 3).
static void proximal_shrink(const ns_solver_options* o, double step, double* x) {
    for (uint32_t k = 0; k < o->ngroup; k++) {
        const ns_variable_group* g = &o->groups[k];
        double *v = x + g->offset, factor = step * group_factor(o, k);
        if (!isfinite(factor)) {
            memset(v, 0, g->count * sizeof *v);
            continue;
        }
        for (uint32_t i = 0; i < g->count; i++) {
            double left = fabs(v[i]) - factor * o->l1;
            v[i] = left > 0.0 ? copysign(left, v[i]) : 0.0;
        }
        double length = group_norm(g->count, v);
        double threshold = factor * o->group_lasso * sqrt((double)g->count);
        double left = length > threshold ? 1.0 - threshold / length : 0.0;
        for (uint32_t i = 0; i < g->count; i++) v[i] = left > 0.0 ? left * v[i] : 0.0;
    }
}

typedef struct proximal_run {
    uint32_t n;
    const ns_solver_options* options;
    const ns_solver_problem* problem;
    ns_solver_result* out;
    uint32_t max_iterations, earlier; // of this step; of those before it
    double tolerance;
    double *x, *y, *z, *gradient; // (n) best, extrapolated, trial; gradient at y
    double value;                 // at y, without the penalty
    double step;
    bool halved; // was a step ever too long?
} proximal_run;

// Value and gradient at y.
static bool proximal_look(proximal_run* s) {
    s->value = s->problem->cost(s->problem->context, s->y, s->gradient);
    s->out->evaluations++;
    return isfinite(s->value) && isfinite(group_norm(s->n, s->gradient));
}

// From y to z by the longest step over which the function stays below its quadratic bound; `total`
// receives the value with the penalty. False when not even the shortest step did.
static bool proximal_advance(proximal_run* s, double* total) {
    for (int k = 0; k < MAX_HALVINGS; k++) {
        // Gradient step on the smooth part, then the proximal operator of the penalty.
        for (uint32_t i = 0; i < s->n; i++) s->z[i] = s->y[i] - s->step * s->gradient[i];
        proximal_shrink(s->options, s->step, s->z);

        // Sufficient decrease: the value must be below the quadratic bound of this step length.
        double slope = 0.0, square = 0.0;
        for (uint32_t i = 0; i < s->n; i++) {
            double d = s->z[i] - s->y[i];
            // Terms of the bound.
            slope += s->gradient[i] * d;
            square += d * d;
        }

        // The gradient is not needed at a trial point.
        double value = s->problem->cost(s->problem->context, s->z, NULL);
        s->out->evaluations++;
        // Close to the minimum, differences are of the order of rounding.
        double rounding = 4.0 * DBL_EPSILON * (fabs(s->value) + fabs(slope));
        if (value <= s->value + slope + square / (2.0 * s->step) + rounding) {
            *total = value + nsi_penalty(s->options, s->z);
            // Accepted at once: try a longer step next time, doubling until the first rejection.
            s->step *= k > 0 ? 1.0 : s->halved ? 1.1 : 2.0;
            return isfinite(*total);
        }

        // Rejected: halve the step (backtracking).
        s->step *= 0.5;
        s->halved = true;
    }
    return false;
}

static void proximal_descend(proximal_run* s) {
    const ns_solver_problem* p = s->problem;
    ns_solver_result* out = s->out;
    double values[WINDOW] = {[0] = out->value};
    double t = 1.0;        // Beck & Teboulle, eq. (4.2)
    bool momentum = false; // does y differ from x?
    bool looked = true;    // are value and gradient those of y?
    out->finish = NS_FINISH_LIMIT;
    while (out->iterations < s->max_iterations) {
        // A step from y. Without momentum it goes down, or there is no way down.
        double total = INFINITY;
        bool moved = (looked || proximal_look(s)) && proximal_advance(s, &total);
        bool lower = moved && total < out->value;
        if (!moved && !momentum) {
            out->finish = out->iterations > 0 ? NS_FINISH_CONVERGED : NS_FINISH_FAILED;
            return;
        }

        // Extrapolate from a better point, or go back to the best one.
        if (lower) {
            double next = 0.5 * (1.0 + sqrt(1.0 + 4.0 * t * t));
            double share = (t - 1.0) / next;
            for (uint32_t i = 0; i < s->n; i++) {
                s->y[i] = s->z[i] + share * (s->z[i] - s->x[i]);
                s->x[i] = s->z[i];
            }
            momentum = t > 1.0;
            t = next;
            out->value = total;
        } else {
            memcpy(s->y, s->x, s->n * sizeof *s->x);
            momentum = false;
            t = 1.0;
        }
        looked = false;

        // Observer, and the decrease over the last iterations.
        out->iterations++;
        ns_solver_progress progress = {.iteration = s->earlier + out->iterations,
                                       .value = out->value,
                                       .gradient_norm = NAN,
                                       .x = s->x};
        if (p->observe && p->observe(p->context, &progress)) {
            out->finish = NS_FINISH_STOPPED;
            return;
        }
        double* past = &values[out->iterations % WINDOW];
        double decrease = *past - out->value;
        *past = out->value;
        if (out->iterations >= WINDOW && decrease <= s->tolerance * fabs(out->value)) {
            out->finish = NS_FINISH_CONVERGED;
            return;
        }
    }
}

// ---- the record --------------------------------------------------------------------------------

// Between steps only the count of iterations is kept.
typedef struct proximal_state {
    const ns_solver_problem* problem;
    ns_solver_options options;
    ns_variable_group all;
    uint32_t iteration;
    double* work; // (3 n)
} proximal_state;

static ns_status proximal_create(const ns_solver_problem* problem, const ns_solver_options* options,
                                 void** state, ns_error* error) {
    // Validate the options.
    ns_status status = nsi_penalty_check("proximal", problem->n, options, error);
    if (status != NS_OK) return status;
    double step = options->step == 0.0 ? 1e-3 : options->step;
    double tolerance = nsi_option(options->tolerance, 1e-10);
    // A negated comparison also rejects NaN.
    if (!(step > 0.0 && isfinite(step))) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "proximal: step must be positive");
    }
    if (!(tolerance >= 0.0)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "proximal: tolerance must be a number");
    }

    // Allocate the state and the work vectors: current, extrapolated and trial point.
    proximal_state* s = nsi_alloc_zeroed(options->allocator, sizeof *s);
    double* work = nsi_alloc(options->allocator, 3 * (size_t)problem->n * sizeof *work);
    if (!s || !work) {
        nsi_free(options->allocator, s);
        nsi_free(options->allocator, work);
        return nsi_fail_nomem(error);
    }

    // Without groups in the options, the penalty applies to all unknowns.
    s->problem = problem;
    s->options = nsi_penalty_of_all(options, problem->n, &s->all);
    // The copy has the defaults applied.
    s->options.step = step;
    s->options.tolerance = tolerance;
    s->work = work;
    *state = s;
    return NS_OK;
}

static ns_status proximal_step(void* state, double* x, uint32_t iterations, ns_solver_result* out,
                               ns_error* error) {
    (void)error;
    proximal_state* kept = state;
    uint32_t n = kept->problem->n;
    *out = (ns_solver_result){.finish = NS_FINISH_FAILED, .value = INFINITY};
    proximal_run s = {.n = n,
                      .options = &kept->options,
                      .problem = kept->problem,
                      .out = out,
                      .max_iterations = iterations,
                      .earlier = kept->iteration,
                      .tolerance = kept->options.tolerance,
                      .x = x,
                      .y = kept->work,
                      .z = kept->work + n,
                      .gradient = kept->work + 2 * (size_t)n,
                      .step = kept->options.step};
    memcpy(s.y, x, n * sizeof *x);
    if (proximal_look(&s)) {
        out->value = s.value + nsi_penalty(&kept->options, x);
        proximal_descend(&s);
    }
    kept->iteration += out->iterations;
    return NS_OK;
}

static uint32_t proximal_state_size(const void* state) {
    (void)state;
    return 1;
}

static void proximal_save(const void* state, double* numbers) {
    numbers[0] = ((const proximal_state*)state)->iteration;
}

static void proximal_load(void* state, const double* numbers) {
    ((proximal_state*)state)->iteration = nsi_saved_count(numbers[0]);
}

static void proximal_free(void* state) {
    proximal_state* s = state;
    if (!s) return;
    nsi_free(s->options.allocator, s->work);
    nsi_free(s->options.allocator, s);
}

const ns_solver nsi_solver_proximal = {
    .name = "proximal",
    .title = "proximal",
    .help = "accelerated proximal gradient, for penalties with exact zeros",
    .capabilities = NS_SOLVER_GRADIENT | NS_SOLVER_L1 | NS_SOLVER_GROUPS,
    .round = 100,
    .max_iterations = 2000,
    .create = proximal_create,
    .step = proximal_step,
    .state_size = proximal_state_size,
    .save = proximal_save,
    .load = proximal_load,
    .free = proximal_free,
};

// ---- quadratic functions -------------------------------------------------------------------

typedef struct quadratic {
    uint32_t n;
    const double *A, *b;
    double* product; // (n) Ax
} quadratic;

static double quadratic_value(void* context, const double* x, double* gradient) {
    quadratic* q = context;
    double value = 0.0;
    memset(q->product, 0, q->n * sizeof *q->product);
    for (uint32_t i = 0; i < q->n; i++) {
        const double* row = q->A + (size_t)i * q->n;
        double sum = row[i] * x[i];
        for (uint32_t j = 0; j < i; j++) {
            sum += row[j] * x[j];
            q->product[j] += row[j] * x[i];
        }
        q->product[i] += sum;
    }
    for (uint32_t i = 0; i < q->n; i++) value += (0.5 * q->product[i] + q->b[i]) * x[i];
    for (uint32_t i = 0; gradient && i < q->n; i++) gradient[i] = q->product[i] + q->b[i];
    return value;
}

bool nsi_proximal_quadratic(uint32_t n, const double* A, const double* b, double* x,
                            const ns_solver_options* options) {
    quadratic q = {n, A, b, nsi_alloc(options->allocator, ((size_t)n + 1) * sizeof(double))};
    ns_solver_result out = {.finish = NS_FINISH_FAILED};
    ns_status status = NS_ERR_NOMEM;
    ns_solver_problem problem = {.n = n, .cost = quadratic_value, .context = &q};
    if (q.product) status = nsi_minimise(&nsi_solver_proximal, &problem, options, x, &out, NULL);
    nsi_free(options->allocator, q.product);
    return status == NS_OK && isfinite(out.value);
}
