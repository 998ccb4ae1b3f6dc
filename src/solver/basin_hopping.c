// Many local searches in rounds: parallel basin hopping (Wales & Doye 1997; in rounds over a
// population: Heiden et al., "NeuralSim", ICRA 2021, section III-B) and random restarts.
//
// The searches of a round do not know of each other. Where they start follows from the state before
// the round, what they found is taken in by number after it: neither the number of threads nor
// which of them is done first can be seen in the result.

#include "solver/solvers.h"

#include <math.h>
#ifdef _OPENMP
#include <omp.h>
#endif

// Two points closer than this share of the box in every coordinate are the same minimum.
static const double SAME_PLACE = 1e-4;

// A value that is lower by less than this share is the same minimum, searched once more.
static const double SAME_VALUE = 1e-9;

// Hops are shorter by up to 2^(1 - SCALES).
enum { SCALES = 5 };

// Share of the searches that start anywhere once a round found nothing: hops around the best points
// alone rarely leave a wide basin.
static const double ANYWHERE = 0.25;

nsi_basin_hopping_options nsi_default_basin_hopping_options(void) {
    return (nsi_basin_hopping_options){.method = NSI_BASIN_HOPPING_MUTATE,
                                       .population = 8,
                                       .rounds = 20,
                                       .sigma = 0.2,
                                       .target = -INFINITY};
}

static ns_status check_arguments(uint32_t n, const double* lower, const double* upper,
                                 const nsi_basin_hopping_options* o, ns_error* error) {
    if (o->population == 0 || o->population > INT32_MAX) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "hop: population must be positive");
    }
    if (!(o->sigma >= 0.0 && isfinite(o->sigma))) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "hop: sigma must not be negative");
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!(isfinite(upper[i] - lower[i]) && lower[i] <= upper[i])) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "hop: the box is from %g to %g in coordinate %u; it must be finite and"
                            " not empty",
                            lower[i], upper[i], i);
        }
    }
    return NS_OK;
}

uint32_t nsi_basin_hopping_threads(const nsi_basin_hopping_options* options) {
    uint32_t threads = 1;
#ifdef _OPENMP
    threads = options->threads > 0 ? options->threads : (uint32_t)omp_get_num_procs();
#endif
    return threads < options->population ? threads : options->population;
}

// ---- where searches start ------------------------------------------------------------------

typedef struct problem {
    uint32_t n, width; // width: with what is carried along
    const double *lower, *upper;
    const nsi_basin_hopping_options* options;
} problem;

static ns_rng make_rng(uint64_t seed, uint32_t round, uint32_t number) {
    ns_rng rng = ns_rng_seed(seed);
    return ns_rng_seed(ns_rng_next(&rng) ^ ((uint64_t)round << 32 | number));
}

// Into [low, high]: reflected at the border it crossed, or put on it when that is not enough.
static double fold(double x, double low, double high) {
    if (x < low) x = low + (low - x);
    if (x > high) x = high - (x - high);
    return x < low ? low : x > high ? high : x;
}

// What goes along with a parent.
static void carry(const problem* p, const double* parent, double* x) {
    memcpy(x + p->n, parent + p->n, (p->width - p->n) * sizeof *x);
}

static void start_anywhere(const problem* p, ns_rng* rng, double* x) {
    for (uint32_t i = 0; i < p->n; i++) {
        x[i] = fold(ns_rng_uniform(rng, p->lower[i], p->upper[i]), p->lower[i], p->upper[i]);
    }
}

// From between a and b, which may be the same, by a random hop of about sigma boxes in a part of
// the coordinates. A local search may have ended outside the box; hops start at its border then.
static void start_around(const problem* p, ns_rng* rng, const double* a, const double* b,
                         double sigma, double part, double* x) {
    double share = ns_rng_uniform(rng, 0.0, 1.0);
    uint32_t always = p->n > 0 ? ns_rng_below(rng, p->n) : 0;
    for (uint32_t i = 0; i < p->n; i++) {
        double low = p->lower[i], high = p->upper[i];
        double from = a[i] + share * (b[i] - a[i]);
        from = from < low ? low : from > high ? high : from;
        double hop = sigma * (high - low) * ns_rng_normal(rng);
        bool moves = ns_rng_uniform(rng, 0.0, 1.0) < part || i == always;
        x[i] = moves ? fold(from + hop, low, high) : from;
    }
}

static uint32_t count_elite(const problem* p, const nsi_basin_hopping_state* state) {
    uint32_t count = 0;
    while (count < p->options->population && state->elite_value[count] < INFINITY) count++;
    return count;
}

static void make_start(const problem* p, const nsi_basin_hopping_state* state, uint32_t number,
                       double* x) {
    const nsi_basin_hopping_options* o = p->options;
    ns_rng rng = make_rng(o->seed, state->round, number);
    uint32_t elite = count_elite(p, state);
    carry(p, state->x, x);
    if (state->round == 0 && number == 0) {
        for (uint32_t i = 0; i < p->n; i++)
            x[i] = fmin(fmax(state->x[i], p->lower[i]), p->upper[i]);
        return;
    }
    if (o->method == NSI_BASIN_HOPPING_RESTART) {
        start_anywhere(p, &rng, x);
        return;
    }
    if (state->round == 0) {
        start_around(p, &rng, state->x, state->x, o->sigma, 1.0, x);
        return;
    }
    if (elite == 0 || (state->stale > 0 && ns_rng_uniform(&rng, 0.0, 1.0) < ANYWHERE)) {
        start_anywhere(p, &rng, x);
        return;
    }
    // The longer nothing was found, the further the hops go, up to the size of the box. How much
    // shorter this one is and how many coordinates take part is drawn, evenly on a scale of
    // halvings: nobody knows how far apart the basins are, and one number is wrong more often than
    // all.
    double sigma = o->sigma * (1.0 + (double)state->stale);
    if (sigma > 1.0) sigma = fmax(1.0, o->sigma);
    sigma = ldexp(sigma, -(int)ns_rng_below(&rng, SCALES));
    int doublings = 0;
    frexp((double)p->n, &doublings);
    double part = doublings > 0 ? ldexp(1.0, -(int)ns_rng_below(&rng, (uint32_t)doublings)) : 1.0;
    // The better of two, and in half of the cases another one.
    uint32_t a = ns_rng_below(&rng, elite), rival = ns_rng_below(&rng, elite);
    if (rival < a) a = rival;
    uint32_t b = ns_rng_next(&rng) >> 63 ? ns_rng_below(&rng, elite) : a;
    const double *first = state->elite + (size_t)a * p->width,
                 *second = state->elite + (size_t)b * p->width;
    carry(p, first, x);
    start_around(p, &rng, first, second, sigma, part, x);
}

// ---- what they found -----------------------------------------------------------------------

static bool same_place(const problem* p, const double* a, const double* b) {
    for (uint32_t i = 0; i < p->n; i++) {
        if (fabs(a[i] - b[i]) > SAME_PLACE * (p->upper[i] - p->lower[i])) return false;
    }
    return true;
}

static bool is_usable(const problem* p, const double* x, double value) {
    bool usable = isfinite(value);
    for (uint32_t i = 0; i < p->width; i++) usable = usable && isfinite(x[i]);
    return usable;
}

// Put a point among the best, in order and without its likes that are worse.
static void add_elite(const problem* p, nsi_basin_hopping_state* state, const double* x,
                      double value) {
    uint32_t population = p->options->population, count = count_elite(p, state);
    size_t row = p->width * sizeof *x;
    uint32_t end = count < population ? count : population - 1; // the entry that is overwritten
    for (uint32_t k = 0; k < count; k++) {
        if (!same_place(p, x, state->elite + (size_t)k * p->width)) continue;
        if (state->elite_value[k] <= value) return;
        end = k;
        break;
    }
    if (state->elite_value[end] <= value) return;
    uint32_t at = end;
    for (; at > 0 && state->elite_value[at - 1] > value; at--) {
        state->elite_value[at] = state->elite_value[at - 1];
        memcpy(state->elite + (size_t)at * p->width, state->elite + (size_t)(at - 1) * p->width,
               row);
    }
    state->elite_value[at] = value;
    memcpy(state->elite + (size_t)at * p->width, x, row);
}

static void take_in(const problem* p, nsi_basin_hopping_state* state, const double* found,
                    const double* values) {
    uint32_t population = p->options->population;
    double before = state->value;
    for (uint32_t k = 0; k < population; k++) {
        const double* x = found + (size_t)k * p->width;
        if (is_usable(p, x, values[k])) add_elite(p, state, x, values[k]);
    }
    uint32_t elite = count_elite(p, state);
    if (elite > 0 && state->elite_value[0] < before) {
        state->value = state->elite_value[0];
        memcpy(state->x, state->elite, p->width * sizeof *state->x);
    }
    // At a minimum of zero every search is lower than the last by some share: look at the worst of
    // the best as well.
    double scale = elite > 0 ? fmax(fabs(state->value), fabs(state->elite_value[elite - 1])) : 0.0;
    bool lower = state->value < INFINITY && before - state->value > SAME_VALUE * scale;
    state->stale = lower ? 0 : state->stale + 1;
    state->searches += population;
    state->round++;
}

// ---- rounds --------------------------------------------------------------------------------

static void search_all(const problem* p, const nsi_basin_hopping_state* state,
                       nsi_local_search* local, void* context, double* points, double* values) {
    int population = (int)p->options->population;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads((int)nsi_basin_hopping_threads(p->options))
#endif
    for (int k = 0; k < population; k++) {
        uint32_t worker = 0;
#ifdef _OPENMP
        worker = (uint32_t)omp_get_thread_num();
#endif
        double* x = points + (size_t)k * p->width;
        make_start(p, state, (uint32_t)k, x);
        values[k] = local(context, worker, x);
    }
}

ns_status nsi_basin_hopping(uint32_t n, const double* lower, const double* upper,
                            nsi_basin_hopping_state* state, nsi_local_search* local,
                            nsi_basin_hopping_observer* observe, void* context,
                            const nsi_basin_hopping_options* options, nsi_outcome* out,
                            ns_error* error) {
    nsi_basin_hopping_options o = options ? *options : nsi_default_basin_hopping_options();
    *out = (nsi_outcome){.finish = NSI_FINISH_ITERATIONS, .value = INFINITY};
    ns_status status = check_arguments(n, lower, upper, &o, error);
    if (status != NS_OK) return status;
    problem p = {.n = n, .width = n + o.carried, .lower = lower, .upper = upper, .options = &o};
    double* points = nsi_alloc(NULL, ((size_t)p.width + 1) * o.population * sizeof *points);
    if (!points) return nsi_fail_nomem(error);
    double* values = points + (size_t)p.width * o.population;

    if (state->round == 0) {
        state->stale = state->searches = 0;
        state->value = INFINITY;
        for (uint32_t k = 0; k < o.population; k++) state->elite_value[k] = INFINITY;
    }
    double begin = nsi_clock_wall();
    while (state->round < o.rounds) {
        if (state->value <= o.target || (o.patience > 0 && state->stale >= o.patience)) {
            out->finish = NSI_FINISH_CONVERGED;
            break;
        }
        if (o.seconds > 0.0 && nsi_clock_wall() - begin >= o.seconds) break;
        search_all(&p, state, local, context, points, values);
        take_in(&p, state, points, values);
        out->iterations++;
        out->evaluations += o.population;
        if (observe && observe(context, state)) {
            out->finish = NSI_FINISH_STOPPED;
            break;
        }
    }
    if (state->value <= o.target) out->finish = NSI_FINISH_CONVERGED;
    if (state->round > 0 && !(state->value < INFINITY)) out->finish = NSI_FINISH_FAILED;
    out->value = state->value;
    nsi_free(NULL, points);
    return NS_OK;
}
