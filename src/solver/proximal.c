// Accelerated proximal gradient: Beck & Teboulle, "A fast iterative shrinkage-thresholding
// algorithm for linear inverse problems", SIAM J. Imaging Sci. 2 (2009), with backtracking. Kept
// monotone by a restart: when an iteration does not lower the value, the next one goes from the
// best point and without momentum (O'Donoghue & Candes 2015, section 3.2). A step without momentum
// always goes down once it is short enough, whether or not the function is convex.

#include "solver/solvers.h"

#include <float.h>
#include <math.h>

enum { WINDOW = 10, MAX_HALVINGS = 60 };

nsi_proximal_options nsi_default_proximal_options(void) {
    return (nsi_proximal_options){.step = 1e-3, .max_iterations = 2000, .tolerance = 1e-10};
}

static ns_status check_options(uint32_t n, const nsi_proximal_options* o, ns_error* error) {
    const char* wrong = NULL;
    if (!(o->group >= 0.0 && isfinite(o->group))) wrong = "group must not be negative";
    if (!(o->l1 >= 0.0 && isfinite(o->l1))) wrong = "l1 must not be negative";
    if (!(o->step > 0.0 && isfinite(o->step))) wrong = "step must be positive";
    if (!(o->tolerance >= 0.0)) wrong = "tolerance must not be negative";
    uint64_t end = 0;
    for (uint32_t k = 0; k < o->ngroup && !wrong; k++) {
        const nsi_group* g = &o->groups[k];
        if (g->offset < end) wrong = "groups must be in order and not overlap";
        end = (uint64_t)g->offset + g->count;
        if (end > n) wrong = "a group ends after the last variable";
    }
    return wrong ? nsi_fail(error, NS_ERR_ARGUMENT, "proximal: %s", wrong) : NS_OK;
}

static double norm(uint32_t n, const double* v) {
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += v[i] * v[i];
    return sqrt(sum);
}

static double factor_of(const nsi_proximal_options* o, uint32_t group) {
    return o->factors ? o->factors[group] : 1.0;
}

double nsi_proximal_penalty(const nsi_proximal_options* o, const double* x) {
    double sum = 0.0;
    for (uint32_t k = 0; k < o->ngroup; k++) {
        const nsi_group* g = &o->groups[k];
        double l1 = 0.0;
        for (uint32_t i = 0; i < g->count; i++) l1 += fabs(x[g->offset + i]);
        if (l1 == 0.0) continue;
        double size = o->group * sqrt((double)g->count) * norm(g->count, x + g->offset);
        double factor = factor_of(o, k);
        sum += isfinite(factor) ? factor * (size + o->l1 * l1) : INFINITY;
    }
    return sum;
}

// The point that minimises |z - x|^2 / (2 step) + penalty(z), in place: each number is moved
// towards zero, then each group is shrunk (Simon et al. 2013, section 3).
static void shrink(const nsi_proximal_options* o, double step, double* x) {
    for (uint32_t k = 0; k < o->ngroup; k++) {
        const nsi_group* g = &o->groups[k];
        double *v = x + g->offset, factor = step * factor_of(o, k);
        if (!isfinite(factor)) {
            memset(v, 0, g->count * sizeof *v);
            continue;
        }
        for (uint32_t i = 0; i < g->count; i++) {
            double left = fabs(v[i]) - factor * o->l1;
            v[i] = left > 0.0 ? copysign(left, v[i]) : 0.0;
        }
        double length = norm(g->count, v);
        double threshold = factor * o->group * sqrt((double)g->count);
        double left = length > threshold ? 1.0 - threshold / length : 0.0;
        for (uint32_t i = 0; i < g->count; i++) v[i] = left > 0.0 ? left * v[i] : 0.0;
    }
}

typedef struct search {
    uint32_t n;
    const nsi_proximal_options* options;
    nsi_cost_function* objective;
    void* context;
    nsi_outcome* out;
    double *x, *y, *z, *gradient; // (n) best, extrapolated, trial; gradient at y
    double value;                 // at y, without the penalty
    double step;
    bool halved; // was a step ever too long?
} search;

// Value and gradient at y.
static bool look(search* s) {
    s->value = s->objective(s->context, s->y, s->gradient);
    s->out->evaluations++;
    return isfinite(s->value) && isfinite(norm(s->n, s->gradient));
}

// From y to z by the longest step over which the function stays below its quadratic bound; `total`
// receives the value with the penalty. False when not even the shortest step did.
static bool advance(search* s, double* total) {
    for (int k = 0; k < MAX_HALVINGS; k++) {
        for (uint32_t i = 0; i < s->n; i++) s->z[i] = s->y[i] - s->step * s->gradient[i];
        shrink(s->options, s->step, s->z);
        double slope = 0.0, square = 0.0;
        for (uint32_t i = 0; i < s->n; i++) {
            double d = s->z[i] - s->y[i];
            slope += s->gradient[i] * d;
            square += d * d;
        }
        double value = s->objective(s->context, s->z, NULL);
        s->out->evaluations++;
        double rounding = 4.0 * DBL_EPSILON * (fabs(s->value) + fabs(slope));
        if (value <= s->value + slope + square / (2.0 * s->step) + rounding) {
            *total = value + nsi_proximal_penalty(s->options, s->z);
            // Where the function is flatter, steps may be longer. At first it is not known how
            // long.
            s->step *= k > 0 ? 1.0 : s->halved ? 1.1 : 2.0;
            return isfinite(*total);
        }
        s->step *= 0.5;
        s->halved = true;
    }
    return false;
}

static void run(search* s, nsi_observer* observe) {
    const nsi_proximal_options* o = s->options;
    nsi_outcome* out = s->out;
    double values[WINDOW] = {[0] = out->value};
    double t = 1.0;        // Beck & Teboulle, eq. (4.2)
    bool momentum = false; // does y differ from x?
    bool looked = true;    // are value and gradient those of y?
    out->finish = NSI_FINISH_ITERATIONS;
    while (out->iterations < o->max_iterations) {
        double total = INFINITY;
        bool moved = (looked || look(s)) && advance(s, &total);
        bool lower = moved && total < out->value;
        if (!moved && !momentum) {
            out->finish = out->iterations > 0 ? NSI_FINISH_CONVERGED : NSI_FINISH_FAILED;
            return;
        }
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
        out->iterations++;
        nsi_progress progress = {
            .iteration = out->iterations, .value = out->value, .gradient_norm = NAN, .x = s->x};
        if (observe && observe(s->context, &progress)) {
            out->finish = NSI_FINISH_STOPPED;
            return;
        }
        double* past = &values[out->iterations % WINDOW];
        double decrease = *past - out->value;
        *past = out->value;
        if (out->iterations >= WINDOW && decrease <= o->tolerance * fabs(out->value)) {
            out->finish = NSI_FINISH_CONVERGED;
            return;
        }
    }
}

ns_status nsi_proximal(uint32_t n, double* x, nsi_cost_function* objective, nsi_observer* observe,
                       void* context, const nsi_proximal_options* options, nsi_outcome* out,
                       ns_error* error) {
    nsi_proximal_options o = options ? *options : nsi_default_proximal_options();
    *out = (nsi_outcome){.finish = NSI_FINISH_FAILED, .value = INFINITY};
    ns_status status = check_options(n, &o, error);
    if (status != NS_OK) return status;
    double* work = nsi_alloc(NULL, 3 * (size_t)n * sizeof *work);
    if (!work) return nsi_fail_nomem(error);
    search s = {.n = n,
                .options = &o,
                .objective = objective,
                .context = context,
                .out = out,
                .x = x,
                .y = work,
                .z = work + n,
                .gradient = work + 2 * (size_t)n,
                .step = o.step};
    memcpy(s.y, x, n * sizeof *x);
    if (look(&s)) {
        out->value = s.value + nsi_proximal_penalty(&o, x);
        run(&s, observe);
    }
    nsi_free(NULL, work);
    return NS_OK;
}

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
                            const nsi_proximal_options* options) {
    quadratic q = {n, A, b, nsi_alloc(NULL, ((size_t)n + 1) * sizeof(double))};
    nsi_outcome out = {.finish = NSI_FINISH_FAILED};
    ns_status status = NS_ERR_NOMEM;
    if (q.product) status = nsi_proximal(n, x, quadratic_value, NULL, &q, options, &out, NULL);
    nsi_free(NULL, q.product);
    return status == NS_OK && isfinite(out.value);
}
