// The no-U-turn sampler (Hoffman & Gelman 2014) with multinomial sampling of trajectories
// (Betancourt 2017, "A conceptual introduction to Hamiltonian Monte Carlo", appendix A).
//
// A chain works in coordinates y, x = centre + L y, in which the mass matrix is the identity: L L'
// is the inverse mass matrix. It begins as the covariance of the start; warm-up replaces L by L C,
// C C' being the covariance of y over a window of iterations, shrunk towards the identity.

#include "neuralsim/posterior.h"

#include "neuralsim/random.h"
#include "solver/solvers.h"

#include <math.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum {
    DEFAULT_CHAINS = 4,
    DEFAULT_WARMUP = 500,
    DEFAULT_SAMPLES = 1000,
    DEFAULT_DEPTH = 10,
    MAX_DEPTH = 20,
    EARLY_DEPTH = 8,   // while the metric changes: long trajectories in a wrong one are waste
    FIRST_WINDOW = 25, // iterations of the first window of covariances
    START_TRIES = 50
};

// An energy error above it means that the integration has left the trajectory.
static const double MAX_ENERGY_ERROR = 1000.0;

// A point of a trajectory in the coordinates of the chain.
typedef struct nuts_point {
    double *y, *p, *g; // position, momentum, gradient
    double log_density;
} nuts_point;

// What a call of grow_tree() needs besides its arguments, for each depth.
typedef struct nuts_level {
    nuts_point proposal;
    double *first_end, *second_begin; // momenta where both halves meet
    double *first_sum, *second_sum;   // of momenta of each half
} nuts_level;

typedef struct nuts_chain {
    const ns_density* density;
    uint32_t n, worker, max_depth;
    ns_rng rng;
    double* block; // all numbers
    double *centre, *L, *x, *gx;
    nuts_point at, backward, forward, sample, proposal;
    double *back_back, *back_fore, *fore_back, *fore_fore; // momenta at the ends of both halves
    double *sum, *back_sum, *fore_sum, *both;              // sums of momenta
    nuts_level levels[MAX_DEPTH];
    double step, energy0;
    double accepted; // sum of acceptance probabilities of a trajectory
    uint32_t leaps;
    bool diverged;
    uint64_t evaluations;

    // Warm-up: dual averaging of the step size, mean and covariance of y.
    double shrinkage_point, mean_error, mean_log_step;
    uint32_t adaptations;
    uint32_t seen;
    double *mean, *covariance, *scratch, *next;
} nuts_chain;

// ---- samples ------------------------------------------------------------------------------------

ns_samples* nsi_samples_create(uint32_t n, uint32_t chains, uint32_t count) {
    ns_allocator memory = ns_default_allocator();
    ns_samples* s = nsi_alloc_zeroed(&memory, sizeof *s);
    if (!s) return NULL;
    size_t all = (size_t)chains * count;
    s->n = n;
    s->chains = chains;
    s->count = count;
    s->x = nsi_alloc_zeroed(&memory, (all * n + 1) * sizeof *s->x);
    s->log_density = nsi_alloc_zeroed(&memory, (all + 1) * sizeof *s->log_density);
    s->divergent = nsi_alloc_zeroed(&memory, (all + 1) * sizeof *s->divergent);
    s->start = nsi_alloc_zeroed(&memory, chains * sizeof *s->start);
    s->step_size = nsi_alloc_zeroed(&memory, chains * sizeof *s->step_size);
    s->acceptance = nsi_alloc_zeroed(&memory, chains * sizeof *s->acceptance);
    if (s->x && s->log_density && s->divergent && s->start && s->step_size && s->acceptance)
        return s;
    ns_samples_free(s);
    return NULL;
}

void ns_samples_free(ns_samples* s) {
    if (!s) return;
    ns_allocator memory = ns_default_allocator();
    void* blocks[] = {s->x, s->log_density, s->divergent, s->start, s->step_size, s->acceptance};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&memory, blocks[k]);
    nsi_free(&memory, s);
}

ns_rng nsi_chain_rng(uint64_t seed, uint32_t chain) {
    ns_rng rng = ns_rng_seed(seed + 0x9e3779b97f4a7c15u * (chain + 1));
    return ns_rng_seed(ns_rng_next(&rng));
}

// ---- the chain ----------------------------------------------------------------------------------

static bool chain_alloc(nuts_chain* c) {
    ns_allocator memory = ns_default_allocator();
    size_t n = c->n, vectors = 32 + 7 * (size_t)c->max_depth;
    c->block = nsi_alloc_zeroed(&memory, (vectors * n + 3 * n * n) * sizeof *c->block);
    if (!c->block) return false;

    // Vectors one after the other, then matrices.
    double* next = c->block;
#define NUTS_TAKE(pointer) ((pointer) = next, next += n)
    NUTS_TAKE(c->centre), NUTS_TAKE(c->x), NUTS_TAKE(c->gx), NUTS_TAKE(c->mean);
    NUTS_TAKE(c->scratch), NUTS_TAKE(c->sum), NUTS_TAKE(c->back_sum), NUTS_TAKE(c->fore_sum);
    NUTS_TAKE(c->both), NUTS_TAKE(c->back_back), NUTS_TAKE(c->back_fore);
    NUTS_TAKE(c->fore_back), NUTS_TAKE(c->fore_fore);
    nuts_point* points[] = {&c->at, &c->backward, &c->forward, &c->sample, &c->proposal};
    for (size_t k = 0; k < sizeof points / sizeof *points; k++) {
        NUTS_TAKE(points[k]->y), NUTS_TAKE(points[k]->p), NUTS_TAKE(points[k]->g);
    }
    for (uint32_t k = 0; k < c->max_depth; k++) {
        nuts_level* l = &c->levels[k];
        NUTS_TAKE(l->proposal.y), NUTS_TAKE(l->proposal.p), NUTS_TAKE(l->proposal.g);
        NUTS_TAKE(l->first_end), NUTS_TAKE(l->second_begin);
        NUTS_TAKE(l->first_sum), NUTS_TAKE(l->second_sum);
    }
#undef NUTS_TAKE
    c->L = c->block + vectors * n;
    c->covariance = c->L + n * n;
    c->next = c->covariance + n * n;
    return true;
}

static void point_copy(const nuts_chain* c, nuts_point* to, const nuts_point* from) {
    memcpy(to->y, from->y, c->n * sizeof(double));
    memcpy(to->p, from->p, c->n * sizeof(double));
    memcpy(to->g, from->g, c->n * sizeof(double));
    to->log_density = from->log_density;
}

static void vector_copy(const nuts_chain* c, double* to, const double* from) {
    memcpy(to, from, c->n * sizeof *to);
}

static void vector_add(const nuts_chain* c, double* to, const double* a, const double* b) {
    for (uint32_t k = 0; k < c->n; k++) to[k] = a[k] + b[k];
}

static double vector_dot(const nuts_chain* c, const double* a, const double* b) {
    double sum = 0.0;
    for (uint32_t k = 0; k < c->n; k++) sum += a[k] * b[k];
    return sum;
}

static void chain_x(const nuts_chain* c, const double* y, double* x) {
    for (uint32_t i = 0; i < c->n; i++) {
        const double* row = c->L + (size_t)i * c->n;
        x[i] = c->centre[i] + vector_dot(c, row, y);
    }
}

// Log-density and its gradient at z->y.
static void chain_evaluate(nuts_chain* c, nuts_point* z) {
    const uint32_t n = c->n;
    chain_x(c, z->y, c->x);
    z->log_density = c->density->log_density(c->density->context, c->worker, c->x, c->gx);
    c->evaluations++;
    memset(z->g, 0, n * sizeof *z->g);
    for (uint32_t i = 0; i < n; i++) {
        const double* row = c->L + (size_t)i * n;
        for (uint32_t k = 0; k < n; k++) z->g[k] += row[k] * c->gx[i];
    }
    if (!isfinite(z->log_density)) z->log_density = -INFINITY;
}

static double chain_energy(const nuts_chain* c, const nuts_point* z) {
    double energy = 0.5 * vector_dot(c, z->p, z->p) - z->log_density;
    return isnan(energy) ? INFINITY : energy;
}

static void chain_leap(nuts_chain* c, nuts_point* z, double step) {
    for (uint32_t k = 0; k < c->n; k++) {
        z->p[k] += 0.5 * step * z->g[k];
        z->y[k] += step * z->p[k];
    }
    chain_evaluate(c, z);
    for (uint32_t k = 0; k < c->n; k++) z->p[k] += 0.5 * step * z->g[k];
}

static void chain_draw_momentum(nuts_chain* c, nuts_point* z) {
    for (uint32_t k = 0; k < c->n; k++) z->p[k] = ns_rng_normal(&c->rng);
}

// ---- trajectories -------------------------------------------------------------------------------

static double log_sum(double a, double b) {
    double high = fmax(a, b);
    return isinf(high) ? high : high + log(exp(a - high) + exp(b - high));
}

// Do both ends still move apart?
static bool moves_apart(const nuts_chain* c, const double* a, const double* b, const double* sum) {
    return vector_dot(c, a, sum) > 0.0 && vector_dot(c, b, sum) > 0.0;
}

// One step further; false: it diverged.
static bool grow_leaf(nuts_chain* c, double step, nuts_point* proposal, double* begin, double* end,
                      double* sum, double* log_weight) {
    chain_leap(c, &c->at, step);
    double gain = c->energy0 - chain_energy(c, &c->at);
    c->leaps++;
    c->accepted += fmin(1.0, exp(gain));
    if (!(gain > -MAX_ENERGY_ERROR)) {
        c->diverged = true;
        return false;
    }
    *log_weight = log_sum(*log_weight, gain);
    point_copy(c, proposal, &c->at);
    vector_copy(c, begin, c->at.p);
    vector_copy(c, end, c->at.p);
    vector_add(c, sum, sum, c->at.p);
    return true;
}

// Grow a tree of 2^depth steps from c->at, which moves to its end.
// @param proposal    receives a point of it, drawn by its weight
// @param begin, end  receive the momenta at its ends
// @param sum         the sum of its momenta is added
// @param log_weight  its weight is added
// @return false when it diverged or made a turn
static bool grow_tree(nuts_chain* c, uint32_t depth, double step, nuts_point* proposal,
                      double* begin, double* end, double* sum, double* log_weight) {
    if (depth == 0) return grow_leaf(c, step, proposal, begin, end, sum, log_weight);
    nuts_level* l = &c->levels[depth - 1];
    double first = -INFINITY, second = -INFINITY;
    memset(l->first_sum, 0, c->n * sizeof(double));
    memset(l->second_sum, 0, c->n * sizeof(double));

    // Both halves, one behind the other.
    if (!grow_tree(c, depth - 1, step, proposal, begin, l->first_end, l->first_sum, &first)) {
        return false;
    }
    if (!grow_tree(c, depth - 1, step, &l->proposal, l->second_begin, end, l->second_sum,
                   &second)) {
        return false;
    }

    // A point of one of them, by their weights.
    double weight = log_sum(first, second);
    *log_weight = log_sum(*log_weight, weight);
    if (ns_rng_uniform(&c->rng, 0.0, 1.0) < exp(second - weight)) {
        point_copy(c, proposal, &l->proposal);
    }

    // Turns: of all, and of each half with the first step of the other.
    double* both = c->both;
    vector_add(c, both, l->first_sum, l->second_sum);
    vector_add(c, sum, sum, both);
    if (!moves_apart(c, begin, end, both)) return false;
    vector_add(c, both, l->first_sum, l->second_begin);
    if (!moves_apart(c, begin, l->second_begin, both)) return false;
    vector_add(c, both, l->second_sum, l->first_end);
    return moves_apart(c, l->first_end, end, both);
}

// Double the trajectory into a direction. `momenta` of the half that is there already lie between.
static bool double_trajectory(nuts_chain* c, uint32_t depth, bool forward, double* log_weight) {
    bool grown;
    if (forward) {
        point_copy(c, &c->at, &c->forward);
        vector_copy(c, c->back_sum, c->sum);
        vector_copy(c, c->back_fore, c->fore_fore);
        memset(c->fore_sum, 0, c->n * sizeof(double));
        grown = grow_tree(c, depth, c->step, &c->proposal, c->fore_back, c->fore_fore, c->fore_sum,
                          log_weight);
        point_copy(c, &c->forward, &c->at);
    } else {
        point_copy(c, &c->at, &c->backward);
        vector_copy(c, c->fore_sum, c->sum);
        vector_copy(c, c->fore_back, c->back_back);
        memset(c->back_sum, 0, c->n * sizeof(double));
        grown = grow_tree(c, depth, -c->step, &c->proposal, c->back_fore, c->back_back, c->back_sum,
                          log_weight);
        point_copy(c, &c->backward, &c->at);
    }
    return grown;
}

static bool trajectory_goes_on(nuts_chain* c) {
    vector_add(c, c->sum, c->back_sum, c->fore_sum);
    if (!moves_apart(c, c->back_back, c->fore_fore, c->sum)) return false;
    vector_add(c, c->both, c->back_sum, c->fore_back);
    if (!moves_apart(c, c->back_back, c->fore_back, c->both)) return false;
    vector_add(c, c->both, c->fore_sum, c->back_fore);
    return moves_apart(c, c->back_fore, c->fore_fore, c->both);
}

// One iteration from and to c->sample; true: the trajectory was cut off at the largest depth.
static bool chain_iterate(nuts_chain* c) {
    // A trajectory of one point.
    chain_draw_momentum(c, &c->sample);
    point_copy(c, &c->forward, &c->sample);
    point_copy(c, &c->backward, &c->sample);
    double* ends[] = {c->back_back, c->back_fore, c->fore_back, c->fore_fore, c->sum};
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) vector_copy(c, ends[k], c->sample.p);
    c->energy0 = chain_energy(c, &c->sample);
    c->accepted = 0.0;
    c->leaps = 0;
    c->diverged = false;

    // Doubled until it turns; newer halves are favoured.
    double log_weight = 0.0;
    for (uint32_t depth = 0; depth < c->max_depth; depth++) {
        double grown = -INFINITY;
        bool forward = ns_rng_uniform(&c->rng, 0.0, 1.0) < 0.5;
        if (!double_trajectory(c, depth, forward, &grown)) return false;
        if (ns_rng_uniform(&c->rng, 0.0, 1.0) < exp(grown - log_weight)) {
            point_copy(c, &c->sample, &c->proposal);
        }
        log_weight = log_sum(log_weight, grown);
        if (!trajectory_goes_on(c)) return false;
    }
    return true;
}

// ---- warm-up ------------------------------------------------------------------------------------

// A step size whose first step is accepted with a probability of about 0.8.
static void guess_step(nuts_chain* c) {
    int direction = 0;
    for (int k = 0; k < 100; k++) {
        point_copy(c, &c->at, &c->sample);
        chain_draw_momentum(c, &c->at);
        double before = chain_energy(c, &c->at);
        chain_leap(c, &c->at, c->step);
        bool good = before - chain_energy(c, &c->at) > log(0.8);
        if (direction == 0) direction = good ? 1 : -1;
        if (good != (direction > 0)) break;
        c->step *= direction > 0 ? 2.0 : 0.5;
        if (c->step > 1e3 || c->step < 1e-12) break;
    }
}

static void restart_step_adaptation(nuts_chain* c) {
    guess_step(c);
    c->shrinkage_point = log(10.0 * c->step);
    c->mean_error = c->mean_log_step = 0.0;
    c->adaptations = 0;
}

// Dual averaging (Nesterov 2009; Hoffman & Gelman 2014, section 3.2).
static void adapt_step(nuts_chain* c, double target) {
    static const double GAMMA = 0.05, T0 = 10.0, KAPPA = 0.75;
    double acceptance = c->leaps > 0 ? c->accepted / c->leaps : 0.0, m = ++c->adaptations;
    double eta = 1.0 / (m + T0), weight = pow(m, -KAPPA);
    c->mean_error = (1.0 - eta) * c->mean_error + eta * (target - acceptance);
    double log_step = c->shrinkage_point - c->mean_error * sqrt(m) / GAMMA;
    c->mean_log_step = weight * log_step + (1.0 - weight) * c->mean_log_step;
    c->step = exp(log_step);
}

// Running mean and covariance of y (Welford 1962).
static void watch_covariance(nuts_chain* c) {
    const uint32_t n = c->n;
    double *before = c->scratch, share = 1.0 / ++c->seen;
    for (uint32_t i = 0; i < n; i++) {
        before[i] = c->sample.y[i] - c->mean[i];
        c->mean[i] += before[i] * share;
    }
    for (uint32_t i = 0; i < n; i++) {
        double after = c->sample.y[i] - c->mean[i];
        for (uint32_t j = 0; j <= i; j++) c->covariance[(size_t)i * n + j] += after * before[j];
    }
}

// L C for the Cholesky factor C of the covariance of y, shrunk towards that of before; only its
// diagonal where there are too few points for the rest.
static void update_metric(nuts_chain* c, bool diagonal) {
    const uint32_t n = c->n;
    const double share = c->seen / (c->seen + 5.0), scale = c->seen > 1 ? 1.0 / (c->seen - 1) : 0.0;
    diagonal = diagonal || c->seen < 3 * n;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double* a = &c->covariance[(size_t)i * n + j];
            *a = i == j ? share * *a * scale + (1.0 - share) : diagonal ? 0.0 : share * *a * scale;
        }
    }
    chain_x(c, c->sample.y, c->x);
    if (nsi_dense_cholesky(n, c->covariance, 1)) {
        for (uint32_t i = 0; i < n; i++) {
            double* row = c->next + (size_t)i * n;
            memset(row, 0, n * sizeof *row);
            for (uint32_t k = 0; k < n; k++) {
                double l = c->L[(size_t)i * n + k];
                for (uint32_t j = 0; j <= k; j++) row[j] += l * c->covariance[(size_t)k * n + j];
            }
        }
        memcpy(c->L, c->next, (size_t)n * n * sizeof *c->L);
    }

    // The chain goes on from the same x, which is the new centre.
    vector_copy(c, c->centre, c->x);
    memset(c->sample.y, 0, n * sizeof(double));
    memset(c->mean, 0, n * sizeof(double));
    memset(c->covariance, 0, (size_t)n * n * sizeof(double));
    c->seen = 0;
    chain_evaluate(c, &c->sample);
}

// Windows over which covariances are taken: from 15 % of the warm-up on, each twice as long as the
// one before, up to its last 10 %.
typedef struct warmup_plan {
    uint32_t first, last, end, length; // `end` of the window at work
} warmup_plan;

static warmup_plan plan_warmup(uint32_t warmup) {
    warmup_plan p = {.first = warmup * 3 / 20, .last = warmup - warmup / 10};
    if (warmup < FIRST_WINDOW) return (warmup_plan){0, 0, 0, 0}; // the step size alone
    p.length = FIRST_WINDOW;
    p.end = p.first + p.length;
    if (p.end + 2 * p.length > p.last) p.end = p.last;
    return p;
}

static void warm_up_once(nuts_chain* c, warmup_plan* plan, uint32_t iteration,
                         const ns_hmc_options* o) {
    const bool early = iteration < plan->last && o->max_depth > EARLY_DEPTH;
    c->max_depth = early ? EARLY_DEPTH : o->max_depth;
    chain_iterate(c);
    adapt_step(c, o->target_accept);
    if (iteration < plan->first || iteration >= plan->last) return;
    watch_covariance(c);
    if (iteration + 1 < plan->end) return;

    // The end of a window.
    update_metric(c, o->diagonal);
    restart_step_adaptation(c);
    plan->length *= 2;
    plan->end += plan->length;
    if (plan->end + 2 * plan->length > plan->last) plan->end = plan->last;
}

// ---- all chains ---------------------------------------------------------------------------------

typedef struct hmc_run {
    const ns_density* density;
    const ns_laplace* const* starts;
    uint32_t nstart;
    ns_hmc_options options; // with defaults
    ns_samples* out;
    uint32_t* kept; // (chains)
    uint32_t done;  // iterations of all chains
    bool stop;
} hmc_run;

// A finite point near the mean of the start: a draw of its Gaussian, nearer and nearer.
static bool chain_begin(nuts_chain* c, const ns_laplace* start) {
    double spread = 1.0;
    vector_copy(c, c->centre, start->mean);
    memcpy(c->L, start->factor, (size_t)c->n * c->n * sizeof *c->L);
    for (int k = 0; k < START_TRIES; k++, spread *= 0.8) {
        for (uint32_t i = 0; i < c->n; i++) c->sample.y[i] = spread * ns_rng_normal(&c->rng);
        chain_evaluate(c, &c->sample);
        if (isfinite(c->sample.log_density)) return true;
    }
    return false;
}

// Tell the observer now and then; true: stop.
static bool hmc_report(hmc_run* r) {
    bool stop;
#ifdef _OPENMP
#pragma omp critical(nsi_hmc)
#endif
    {
        uint32_t all = r->options.chains * (r->options.warmup + r->options.samples);
        r->done++;
        if (!r->stop && r->options.observe && (r->done % 10 == 0 || r->done == all)) {
            r->stop = r->options.observe(r->options.context, r->done, all);
        }
        stop = r->stop;
    }
    return stop;
}

static ns_status run_chain(hmc_run* r, uint32_t number, uint32_t worker) {
    const ns_hmc_options* o = &r->options;
    ns_samples* s = r->out;
    ns_allocator memory = ns_default_allocator();
    nuts_chain c = {.density = r->density,
                    .n = r->density->n,
                    .worker = worker,
                    .max_depth = o->max_depth,
                    .rng = nsi_chain_rng(o->seed, number),
                    .step = 1.0};
    uint32_t truncated = 0, divergences = 0;

    // Begin near the start.
    if (!chain_alloc(&c)) return NS_ERR_NOMEM;
    s->start[number] = number % r->nstart;
    ns_status status = chain_begin(&c, r->starts[s->start[number]]) ? NS_OK : NS_ERR_NONFINITE;

    // Warm up; the step size is then the mean of the last ones.
    warmup_plan plan = plan_warmup(o->warmup);
    bool stop = status != NS_OK;
    if (!stop) restart_step_adaptation(&c);
    for (uint32_t k = 0; k < o->warmup && !stop; k++) {
        warm_up_once(&c, &plan, k, o);
        stop = hmc_report(r);
    }
    if (c.adaptations > 0) c.step = exp(c.mean_log_step);

    // Sample.
    double acceptance = 0.0;
    for (uint32_t k = 0; k < o->samples && !stop; k++) {
        size_t at = (size_t)number * o->samples + k;
        truncated += chain_iterate(&c);
        chain_x(&c, c.sample.y, s->x + at * c.n);
        s->log_density[at] = c.sample.log_density;
        s->divergent[at] = c.diverged;
        divergences += c.diverged;
        acceptance += c.leaps > 0 ? c.accepted / c.leaps : 0.0;
        r->kept[number] = k + 1;
        stop = hmc_report(r);
    }

    // Totals of the run.
    s->step_size[number] = c.step;
    s->acceptance[number] = r->kept[number] > 0 ? acceptance / r->kept[number] : 0.0;
#ifdef _OPENMP
#pragma omp critical(nsi_hmc)
#endif
    {
        s->truncated += truncated;
        s->divergences += divergences;
        s->evaluations += c.evaluations;
    }
    nsi_free(&memory, c.block);
    return status;
}

// What all chains have, close together.
static void cut_samples(ns_samples* s, const uint32_t* kept) {
    uint32_t count = s->count;
    for (uint32_t k = 0; k < s->chains; k++) count = kept[k] < count ? kept[k] : count;
    if (count == s->count) return;
    s->stopped = true;
    s->divergences = 0;
    for (uint32_t k = 0; k < s->chains; k++) {
        size_t from = (size_t)k * s->count, to = (size_t)k * count;
        memmove(s->x + to * s->n, s->x + from * s->n, (size_t)count * s->n * sizeof *s->x);
        memmove(s->log_density + to, s->log_density + from, count * sizeof *s->log_density);
        memmove(s->divergent + to, s->divergent + from, count * sizeof *s->divergent);
        for (uint32_t i = 0; i < count; i++) s->divergences += s->divergent[to + i];
    }
    s->count = count;
}

static ns_status hmc_options_check(const ns_hmc_options* given, ns_hmc_options* o,
                                   ns_error* error) {
    *o = given ? *given : (ns_hmc_options){0};
    if (o->chains == 0) o->chains = DEFAULT_CHAINS;
    if (o->warmup == 0) o->warmup = DEFAULT_WARMUP;
    if (o->samples == 0) o->samples = DEFAULT_SAMPLES;
    if (o->max_depth == 0) o->max_depth = DEFAULT_DEPTH;
    if (o->target_accept == 0.0) o->target_accept = 0.8;
    if (o->max_depth > MAX_DEPTH) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_hmc_sample: max_depth %u is above %d",
                        o->max_depth, MAX_DEPTH);
    }
    if (!(o->target_accept > 0.0 && o->target_accept < 1.0)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_hmc_sample: target_accept %g is not between 0 and 1", o->target_accept);
    }
    if (o->threads == 0) {
#ifdef _OPENMP
        o->threads = (uint32_t)omp_get_num_procs();
#else
        o->threads = 1;
#endif
    }
    if (o->threads > o->chains) o->threads = o->chains;
    return NS_OK;
}

ns_status ns_hmc_sample(const ns_density* density, const ns_laplace* const* starts, uint32_t nstart,
                        const ns_hmc_options* options, ns_samples** out, ns_error* error) {
    if (!density || !density->log_density || density->n == 0 || !starts || nstart == 0 || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_hmc_sample: the density or the starts are missing");
    }
    *out = NULL;
    hmc_run r = {.density = density, .starts = starts, .nstart = nstart};
    ns_status status = hmc_options_check(options, &r.options, error);
    if (status != NS_OK) return status;
    ns_allocator memory = ns_default_allocator();
    const uint32_t chains = r.options.chains;
    r.out = nsi_samples_create(density->n, chains, r.options.samples);
    r.kept = nsi_alloc_zeroed(&memory, chains * sizeof *r.kept);
    ns_status* statuses = nsi_alloc_zeroed(&memory, chains * sizeof *statuses);
    if (!r.out || !r.kept || !statuses) status = nsi_fail_nomem(error);

    // Chains do not depend on one another, nor on who runs them.
    if (status == NS_OK) {
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)r.options.threads)
#endif
        for (int k = 0; k < (int)chains; k++) {
            uint32_t worker = 0;
#ifdef _OPENMP
            worker = (uint32_t)omp_get_thread_num();
#endif
            statuses[k] = run_chain(&r, (uint32_t)k, worker);
        }
    }
    for (uint32_t k = 0; k < chains && status == NS_OK; k++) {
        if (statuses[k] == NS_ERR_NONFINITE) {
            status = nsi_fail(error, NS_ERR_NONFINITE,
                              "chain %u found no finite log-density near its start", k);
        } else if (statuses[k] != NS_OK) {
            status = nsi_fail_nomem(error);
        }
    }
    if (status == NS_OK) cut_samples(r.out, r.kept);
    nsi_free(&memory, r.kept);
    nsi_free(&memory, statuses);
    if (status != NS_OK) {
        ns_samples_free(r.out);
        return status;
    }
    *out = r.out;
    return NS_OK;
}
