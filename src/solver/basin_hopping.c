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

enum { STATE_HEAD = 3 }; // numbers of a saved state before the points

typedef struct hopping_state {
    const ns_allocator* allocator;
    const ns_solver_problem* problem;
    uint32_t n, width; // width: with what is carried along
    const double *lower, *upper;
    bool anywhere; // every search starts anywhere in the box
    uint32_t population, threads, max_rounds, patience;
    double sigma, target, seconds, began;
    uint64_t seed;
    const ns_solver* local; // of searches, unless the problem has its own

    uint32_t round;          // done so far
    uint32_t stale;          // rounds without a lower value
    double value;            // the best
    double* x;               // (width) the best; the caller's
    double* elite;           // (population x width) best points so far, the best first
    double* elite_value;     // (population) INFINITY: none yet
    double *points, *values; // (population x width), (population) of a round
} hopping_state;

uint32_t nsi_solver_threads(const ns_solver_options* options) {
    uint32_t threads = 1;
#ifdef _OPENMP
    threads = options->threads > 0 ? options->threads : (uint32_t)omp_get_num_procs();
#else
    (void)options;
#endif
    return threads;
}

// ---- where searches start ------------------------------------------------------------------

static ns_rng make_rng(uint64_t seed, uint32_t round, uint32_t number) {
    ns_rng rng = ns_rng_seed(seed);
    return ns_rng_seed(ns_rng_next(&rng) ^ ((uint64_t)round << 32 | number));
}

// Into [low, high]: reflected at the border it crossed, or put on it when that is not enough.
static double fold_into(double x, double low, double high) {
    if (x < low) x = low + (low - x);
    if (x > high) x = high - (x - high);
    return x < low ? low : x > high ? high : x;
}

// What goes along with a parent.
static void carry_along(const hopping_state* p, const double* parent, double* x) {
    memcpy(x + p->n, parent + p->n, (p->width - p->n) * sizeof *x);
}

static void start_anywhere(const hopping_state* p, ns_rng* rng, double* x) {
    for (uint32_t i = 0; i < p->n; i++) {
        x[i] = fold_into(ns_rng_uniform(rng, p->lower[i], p->upper[i]), p->lower[i], p->upper[i]);
    }
}

// From between a and b, which may be the same, by a random hop of about sigma boxes in a part of
// the coordinates. A local search may have ended outside the box; hops start at its border then.
static void start_around(const hopping_state* p, ns_rng* rng, const double* a, const double* b,
                         double sigma, double part, double* x) {
    double share = ns_rng_uniform(rng, 0.0, 1.0);
    uint32_t always = p->n > 0 ? ns_rng_below(rng, p->n) : 0;
    for (uint32_t i = 0; i < p->n; i++) {
        double low = p->lower[i], high = p->upper[i];
        double from = a[i] + share * (b[i] - a[i]);
        from = from < low ? low : from > high ? high : from;
        double hop = sigma * (high - low) * ns_rng_normal(rng);
        bool moves = ns_rng_uniform(rng, 0.0, 1.0) < part || i == always;
        x[i] = moves ? fold_into(from + hop, low, high) : from;
    }
}

static uint32_t count_elite(const hopping_state* p) {
    uint32_t count = 0;
    while (count < p->population && p->elite_value[count] < INFINITY) count++;
    return count;
}

static void make_start(const hopping_state* p, uint32_t number, double* x) {
    ns_rng rng = make_rng(p->seed, p->round, number);
    uint32_t elite = count_elite(p);
    carry_along(p, p->x, x);

    // The first search of all starts at the given point, those beside it around it.
    if (p->round == 0 && number == 0) {
        for (uint32_t i = 0; i < p->n; i++) x[i] = fmin(fmax(p->x[i], p->lower[i]), p->upper[i]);
        return;
    }
    if (p->anywhere) {
        start_anywhere(p, &rng, x);
        return;
    }
    if (p->round == 0) {
        start_around(p, &rng, p->x, p->x, p->sigma, 1.0, x);
        return;
    }

    // Some leave the basins known so far, when the last round found nothing.
    if (elite == 0 || (p->stale > 0 && ns_rng_uniform(&rng, 0.0, 1.0) < ANYWHERE)) {
        start_anywhere(p, &rng, x);
        return;
    }

    // The longer nothing was found, the further the hops go, up to the size of the box. How much
    // shorter this one is and how many coordinates take part is drawn, evenly on a scale of
    // halvings: nobody knows how far apart the basins are, and one number is wrong more often than
    // all.
    double sigma = p->sigma * (1.0 + (double)p->stale);
    if (sigma > 1.0) sigma = fmax(1.0, p->sigma);
    sigma = ldexp(sigma, -(int)ns_rng_below(&rng, SCALES));
    int doublings = 0;
    frexp((double)p->n, &doublings);
    double part = doublings > 0 ? ldexp(1.0, -(int)ns_rng_below(&rng, (uint32_t)doublings)) : 1.0;

    // The better of two, and in half of the cases another one.
    uint32_t a = ns_rng_below(&rng, elite), rival = ns_rng_below(&rng, elite);
    if (rival < a) a = rival;
    uint32_t b = ns_rng_next(&rng) >> 63 ? ns_rng_below(&rng, elite) : a;
    const double *first = p->elite + (size_t)a * p->width,
                 *second = p->elite + (size_t)b * p->width;
    carry_along(p, first, x);
    start_around(p, &rng, first, second, sigma, part, x);
}

// ---- what they found -----------------------------------------------------------------------

static bool same_place(const hopping_state* p, const double* a, const double* b) {
    for (uint32_t i = 0; i < p->n; i++) {
        if (fabs(a[i] - b[i]) > SAME_PLACE * (p->upper[i] - p->lower[i])) return false;
    }
    return true;
}

static bool is_usable_point(const hopping_state* p, const double* x, double value) {
    bool usable = isfinite(value);
    for (uint32_t i = 0; i < p->width; i++) usable = usable && isfinite(x[i]);
    return usable;
}

// Put a point among the best, in order and without its likes that are worse.
static void add_elite(hopping_state* p, const double* x, double value) {
    uint32_t population = p->population, count = count_elite(p);
    size_t row = p->width * sizeof *x;
    uint32_t end = count < population ? count : population - 1; // the entry that is overwritten
    for (uint32_t k = 0; k < count; k++) {
        if (!same_place(p, x, p->elite + (size_t)k * p->width)) continue;
        if (p->elite_value[k] <= value) return;
        end = k;
        break;
    }
    if (p->elite_value[end] <= value) return;
    uint32_t at = end;
    for (; at > 0 && p->elite_value[at - 1] > value; at--) {
        p->elite_value[at] = p->elite_value[at - 1];
        memcpy(p->elite + (size_t)at * p->width, p->elite + (size_t)(at - 1) * p->width, row);
    }
    p->elite_value[at] = value;
    memcpy(p->elite + (size_t)at * p->width, x, row);
}

static void take_in(hopping_state* p) {
    uint32_t population = p->population;
    double before = p->value;
    for (uint32_t k = 0; k < population; k++) {
        const double* x = p->points + (size_t)k * p->width;
        if (is_usable_point(p, x, p->values[k])) add_elite(p, x, p->values[k]);
    }
    uint32_t elite = count_elite(p);
    if (elite > 0 && p->elite_value[0] < before) {
        p->value = p->elite_value[0];
        memcpy(p->x, p->elite, p->width * sizeof *p->x);
    }
    // At a minimum of zero every search is lower than the last by some share: look at the worst of
    // the best as well.
    double scale = elite > 0 ? fmax(fabs(p->value), fabs(p->elite_value[elite - 1])) : 0.0;
    bool lower = p->value < INFINITY && before - p->value > SAME_VALUE * scale;
    p->stale = lower ? 0 : p->stale + 1;
    p->round++;
}

// ---- rounds --------------------------------------------------------------------------------

// A local search with a solver of the library, from any thread.
static double local_minimum(const hopping_state* p, double* x) {
    ns_solver_problem problem = *p->problem;
    problem.observe = NULL;
    ns_solver_result result;
    ns_status status = nsi_minimise(p->local, &problem, NULL, x, &result, NULL);
    return status == NS_OK ? result.value : (double)INFINITY;
}

static void search_all(hopping_state* p) {
    int population = (int)p->population;
    const ns_solver_problem* problem = p->problem;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads((int)p->threads)
#endif
    for (int k = 0; k < population; k++) {
        uint32_t worker = 0;
#ifdef _OPENMP
        worker = (uint32_t)omp_get_thread_num();
#endif
        double* x = p->points + (size_t)k * p->width;
        make_start(p, (uint32_t)k, x);
        p->values[k] = problem->local_search ? problem->local_search(problem->context, worker, x)
                                             : local_minimum(p, x);
    }
}

// Reasons to end before a round.
static bool is_done(const hopping_state* p, ns_finish* finish) {
    if (p->value <= p->target || (p->patience > 0 && p->stale >= p->patience)) {
        *finish = NS_FINISH_CONVERGED;
        return true;
    }
    return p->seconds > 0.0 && nsi_clock_wall() - p->began >= p->seconds;
}

static ns_status hopping_step(void* state, double* x, uint32_t iterations, ns_solver_result* out,
                              ns_error* error) {
    (void)error;
    hopping_state* p = state;
    const ns_solver_problem* problem = p->problem;
    p->x = x;
    *out = (ns_solver_result){.finish = NS_FINISH_LIMIT, .value = INFINITY};
    bool done = false;
    while (out->iterations < iterations && !(done = is_done(p, &out->finish))) {
        search_all(p);
        take_in(p);
        out->iterations++;
        out->evaluations += p->population;
        ns_solver_progress progress = {
            .iteration = p->round, .value = p->value, .gradient_norm = NAN, .x = p->x};
        if (problem->observe && problem->observe(problem->context, &progress)) {
            out->finish = NS_FINISH_STOPPED;
            done = true;
            break;
        }
    }
    if (p->value <= p->target) out->finish = NS_FINISH_CONVERGED;
    done = done || p->round >= p->max_rounds;
    if (done && p->round > 0 && !(p->value < INFINITY)) out->finish = NS_FINISH_FAILED;
    out->value = p->value;
    return NS_OK;
}

// ---- the records -------------------------------------------------------------------------------

static ns_status check_hopping(const hopping_state* s, const ns_solver_options* o,
                               ns_error* error) {
    const ns_solver_problem* p = s->problem;
    if (s->population > INT32_MAX) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "basin_hopping: population is too large");
    }
    if (!(s->sigma >= 0.0 && isfinite(s->sigma))) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "basin_hopping: sigma must be finite");
    }
    if (!p->local_search && p->carried > 0) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "basin_hopping: `carried` needs a local_search that knows of it");
    }
    if (!p->local_search && !s->local) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "basin_hopping: there is no local solver \"%.60s\"",
                        o->local);
    }
    ns_status status = nsi_solver_check_box("basin_hopping", p, error);
    if (status != NS_OK || p->local_search) return status;

    // Each local search would fail otherwise; every start is as good as the lower corner here.
    ns_error why;
    status = nsi_solver_check_problem(s->local, p, &(ns_solver_options){0}, p->lower, &why);
    if (status == NS_OK) return NS_OK;
    return nsi_fail(error, status, "basin_hopping: local solver %s", why.message);
}

static const ns_solver* choose_local(const ns_solver_problem* problem, const char* name) {
    if (!name) return problem->residuals ? &nsi_solver_lm : &nsi_solver_lbfgs;
    return nsi_solver_choose(name, 0, NS_SOLVER_GLOBAL, NULL);
}

static ns_status make_hopping(const ns_solver_problem* problem, const ns_solver_options* o,
                              bool anywhere, void** state, ns_error* error) {
    // Apply defaults to options that are not set.
    hopping_state s = {.allocator = o->allocator,
                       .problem = problem,
                       .n = problem->n,
                       .width = problem->n + problem->carried,
                       .lower = problem->lower,
                       .upper = problem->upper,
                       .anywhere = anywhere,
                       .population = o->population ? o->population : 8,
                       .max_rounds = o->max_iterations,
                       .patience = o->patience,
                       .sigma = nsi_option(o->sigma, 0.2),
                       .target = o->target == 0.0 ? -INFINITY : o->target,
                       .seconds = o->seconds,
                       .began = nsi_clock_wall(),
                       .seed = o->seed,
                       .local = choose_local(problem, o->local),
                       .value = INFINITY};

    // One thread per start at most, and a single one unless the callbacks are known to be thread-
    // safe.
    s.threads = problem->local_search || o->threads > 0 ? nsi_solver_threads(o) : 1;
    if (s.threads > s.population) s.threads = s.population;
    // Validate after defaults.
    ns_status status = check_hopping(&s, o, error);
    if (status != NS_OK) return status;

    // Allocate the elite and the points of one round, with their values, in one block.
    hopping_state* kept = nsi_alloc(o->allocator, sizeof *kept);
    size_t points = (size_t)s.population * s.width;
    double* memory = nsi_alloc_zeroed(o->allocator, 2 * (points + s.population) * sizeof *memory);
    if (!kept || !memory) {
        nsi_free(o->allocator, kept);
        nsi_free(o->allocator, memory);
        return nsi_fail_nomem(error);
    }

    // Partition the block. Values are infinite until a local search has ended.
    s.elite = memory;
    s.elite_value = s.elite + points;
    s.points = s.elite_value + s.population;
    s.values = s.points + points;
    for (uint32_t k = 0; k < s.population; k++) s.elite_value[k] = INFINITY;
    // Copy the options into the state, which outlives this call.
    *kept = s;
    *state = kept;
    return NS_OK;
}

static ns_status basin_hopping_create(const ns_solver_problem* problem, const ns_solver_options* o,
                                      void** state, ns_error* error) {
    return make_hopping(problem, o, false, state, error);
}

static ns_status restart_create(const ns_solver_problem* problem, const ns_solver_options* o,
                                void** state, ns_error* error) {
    return make_hopping(problem, o, true, state, error);
}

static size_t elite_size(const hopping_state* s) {
    return (size_t)s->population * ((size_t)s->width + 1);
}

static uint32_t hopping_state_size(const void* state) {
    return STATE_HEAD + (uint32_t)elite_size(state);
}

static void hopping_save(const void* state, double* numbers) {
    const hopping_state* s = state;
    numbers[0] = s->round;
    numbers[1] = s->stale;
    numbers[2] = s->value;
    memcpy(numbers + STATE_HEAD, s->elite, elite_size(s) * sizeof *numbers);
}

static void hopping_load(void* state, const double* numbers) {
    hopping_state* s = state;
    s->round = nsi_saved_count(numbers[0]);
    s->stale = nsi_saved_count(numbers[1]);
    s->value = numbers[2];
    memcpy(s->elite, numbers + STATE_HEAD, elite_size(s) * sizeof *numbers);
}

static void hopping_free(void* state) {
    hopping_state* s = state;
    if (!s) return;
    nsi_free(s->allocator, s->elite);
    nsi_free(s->allocator, s);
}

const ns_solver nsi_solver_basin_hopping = {
    .name = "basin_hopping",
    .title = "basin hopping",
    .help = "rounds of local searches around the best points so far, combined and mutated",
    .capabilities = NS_SOLVER_GLOBAL | NS_SOLVER_STARTS,
    .round = 1,
    .max_iterations = 20,
    .create = basin_hopping_create,
    .step = hopping_step,
    .state_size = hopping_state_size,
    .save = hopping_save,
    .load = hopping_load,
    .free = hopping_free,
};

const ns_solver nsi_solver_restart = {
    .name = "restart",
    .title = "random restarts",
    .help = "rounds of local searches from anywhere in the box",
    .capabilities = NS_SOLVER_GLOBAL | NS_SOLVER_STARTS,
    .round = 1,
    .max_iterations = 20,
    .create = restart_create,
    .step = hopping_step,
    .state_size = hopping_state_size,
    .save = hopping_save,
    .load = hopping_load,
    .free = hopping_free,
};
