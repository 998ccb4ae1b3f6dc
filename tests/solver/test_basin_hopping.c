// Many local searches: they find the lowest of many minima, in the same bits on any number of
// threads, and when stored and continued.

#include "solver/solvers.h"
#include "support/assert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MAX = 4, POPULATION = 8, ROUNDS = 60, WORKERS = 8 };

// Rastrigin: 11^n minima in the box, the lowest, 0, at `center`. `depth` 0 is a bowl.
typedef struct hills {
    uint32_t n;
    double center[MAX], depth;
    double starts[ROUNDS * POPULATION][MAX]; // in the order in which they came
    uint32_t per_worker[WORKERS];
    uint32_t stop_at; // round after which the observer stops; 0: none
    bool bad;         // half of the searches end without a value or a point
} hills;

static double hills_value(void* context, const double* x, double* g) {
    const hills* h = context;
    const double turn = 6.28318530717958648;
    double value = 0.0;
    for (uint32_t i = 0; i < h->n; i++) {
        double d = x[i] - h->center[i];
        value += d * d + h->depth * (1.0 - cos(turn * d));
        if (g) g[i] = 2.0 * d + h->depth * turn * sin(turn * d);
    }
    return value;
}

static double search(void* context, uint32_t worker, double* x) {
    hills* h = context;
    h->per_worker[worker < WORKERS ? worker : WORKERS - 1]++;
    if (h->bad && x[0] > 0.0) {
        x[1] = NAN;
        return x[0] > 1.0 ? NAN : -1.0;
    }
    ns_solver_options options = {.max_iterations = 100};
    ns_solver_problem p = {.n = h->n, .cost = hills_value, .context = h};
    ns_solver_result out;
    ns_status status = ns_minimise("lbfgs", &p, &options, x, &out, NULL);
    return status == NS_OK ? out.value : (double)INFINITY;
}

static const double lower[MAX] = {-5.12, -5.12, -5.12, -5.12};
static const double upper[MAX] = {5.12, 5.12, 5.12, 5.12};

enum { HEAD = 3, NUMBERS = HEAD + POPULATION * (MAX + 1) };

// `numbers`: the state of the solver, which is that of the elite from HEAD on.
typedef struct run {
    const ns_solver* solver;
    double x[MAX], numbers[NUMBERS];
    bool stored; // there are numbers to go on from
    uint32_t round, stale;
    double value;
    ns_solver_result out;
} run;

static hills make_hills(uint32_t n, uint64_t seed) {
    hills h = {.n = n, .depth = 10.0};
    ns_rng rng = ns_rng_seed(seed);
    for (uint32_t i = 0; i < n; i++) h.center[i] = ns_rng_uniform(&rng, -3.0, 3.0);
    return h;
}

// One thread, where they are not what is tested: with short searches they mostly wait.
static ns_solver_options make_options(uint32_t rounds) {
    return (ns_solver_options){.max_iterations = rounds, .threads = 1};
}

static void start(run* r) {
    *r = (run){.solver = &nsi_solver_basin_hopping, .x = {4.5, -4.5, 4.5, -4.5}};
}

static bool stop(void* context, const ns_solver_progress* progress) {
    return ((hills*)context)->stop_at == progress->iteration;
}

static void go(run* r, hills* h, ns_local_search* local, const ns_solver_options* options) {
    ns_error error = {0};
    void* state = NULL;
    ns_solver_problem p = {.n = h->n,
                           .lower = lower,
                           .upper = upper,
                           .local_search = local,
                           .observe = stop,
                           .context = h};
    must(r->solver->create(&p, options, &state, &error), &error);
    assert_int_equal(r->solver->state_size(state), HEAD + POPULATION * (h->n + 1));
    if (r->stored) r->solver->load(state, r->numbers);
    uint32_t left = options->max_iterations - r->round;
    if (left > 0) must(r->solver->step(state, r->x, left, &r->out, &error), &error);
    r->solver->save(state, r->numbers);
    r->solver->free(state);
    r->stored = true;
    r->round = (uint32_t)r->numbers[0];
    r->stale = (uint32_t)r->numbers[1];
    r->value = r->numbers[2];
}

static const double* elite(const run* r, uint32_t n, uint32_t k) {
    return r->numbers + HEAD + (size_t)n * k;
}

static const double* elite_values(const run* r, uint32_t n) {
    return r->numbers + HEAD + (size_t)n * POPULATION;
}

static void assert_same_run(const run* a, const run* b) {
    assert_memory_equal(a->x, b->x, sizeof a->x);
    assert_memory_equal(a->numbers, b->numbers, sizeof a->numbers);
}

// ---- the lowest minimum --------------------------------------------------------------------

static void the_lowest_of_many_minima_is_found(void** state) {
    (void)state;
    for (uint32_t n = 2; n <= MAX; n++) {
        uint32_t rounds = 0;
        for (uint64_t seed = 0; seed < 5; seed++) {
            hills h = make_hills(n, 10 * n + seed);
            ns_solver_options o = make_options(ROUNDS);
            o.target = 1e-9;
            o.seed = seed;
            run r;
            start(&r);
            go(&r, &h, search, &o);
            assert_int_equal(r.out.finish, NS_FINISH_CONVERGED);
            for (uint32_t i = 0; i < n; i++) assert_true(fabs(r.x[i] - h.center[i]) < 1e-4);
            rounds += r.round;
        }
        print_message("%u variables: %.1f rounds of %d\n", n, rounds / 5.0, POPULATION);
    }
}

static void restarts_find_it_in_two_dimensions(void** state) {
    (void)state;
    hills h = make_hills(2, 3);
    ns_solver_options o = make_options(ROUNDS);
    o.target = 1e-9;
    run r;
    start(&r);
    r.solver = &nsi_solver_restart;
    go(&r, &h, search, &o);
    assert_int_equal(r.out.finish, NS_FINISH_CONVERGED);
    assert_true(r.out.value <= 1e-9);
}

// The best points are apart, in order, and what they claim to be.
static void the_elite_is_sorted_and_distinct(void** state) {
    (void)state;
    hills h = make_hills(3, 8);
    ns_solver_options o = make_options(10);
    run r;
    start(&r);
    go(&r, &h, search, &o);
    assert_int_equal(r.out.finish, NS_FINISH_LIMIT);
    assert_int_equal(r.out.iterations, 10);
    assert_int_equal(r.out.evaluations, 10 * POPULATION);
    assert_true(r.out.value == r.value && r.value == elite_values(&r, h.n)[0]);
    assert_memory_equal(r.x, elite(&r, h.n, 0), h.n * sizeof(double));
    const double* values = elite_values(&r, h.n);
    for (uint32_t k = 0; k < POPULATION; k++) {
        const double* x = elite(&r, h.n, k);
        assert_true(values[k] == hills_value(&h, x, NULL));
        if (k > 0) assert_true(values[k] >= values[k - 1]);
        for (uint32_t j = 0; j < k; j++) {
            double apart = 0.0;
            for (uint32_t i = 0; i < h.n; i++) {
                apart = fmax(apart, fabs(x[i] - elite(&r, h.n, j)[i]));
            }
            assert_true(apart > 1e-3);
        }
    }
}

// ---- the same bits -------------------------------------------------------------------------

static void threads_do_not_change_the_result(void** state) {
    (void)state;
    for (int method = 0; method < 2; method++) {
        run first;
        for (uint32_t threads = 1; threads <= 3; threads++) {
            hills h = make_hills(4, 1);
            ns_solver_options o = make_options(12);
            o.threads = threads;
            o.seed = 77;
            run r;
            start(&r);
            if (method) r.solver = &nsi_solver_restart;
            go(&r, &h, search, &o);
            if (threads == 1) first = r;
            assert_same_run(&first, &r);
            assert_true(nsi_solver_threads(&o) <= threads);
            for (uint32_t w = nsi_solver_threads(&o); w < WORKERS; w++) {
                assert_int_equal(h.per_worker[w], 0);
            }
        }
    }
}

static void a_stored_run_goes_on_bit_for_bit(void** state) {
    (void)state;
    ns_solver_options o = make_options(9);
    o.patience = 4;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        hills h = make_hills(3, 4);
        o.threads = threads;
        run whole;
        start(&whole);
        go(&whole, &h, search, &o);
        for (uint32_t at = 1; at <= whole.round; at += threads) {
            run part;
            start(&part);
            h.stop_at = at;
            go(&part, &h, search, &o);
            assert_int_equal(part.out.finish, NS_FINISH_STOPPED);
            assert_int_equal(part.round, at);
            run rest = part;
            h.stop_at = 0;
            go(&rest, &h, search, &o);
            assert_same_run(&whole, &rest);
            if (at < whole.round) assert_int_equal(rest.out.finish, whole.out.finish);
        }
    }
}

// ---- starts and ends -----------------------------------------------------------------------

// Not a search: notes where it starts (in one thread) and leaves a high value there.
static double note(void* context, uint32_t worker, double* x) {
    hills* h = context;
    memcpy(h->starts[h->per_worker[worker]++], x, h->n * sizeof *x);
    return 5.0 + x[0] * x[0];
}

static void starts_lie_in_the_box_and_the_first_is_given(void** state) {
    (void)state;
    for (int method = 0; method < 2; method++) {
        static hills h;
        h = make_hills(3, 0);
        ns_solver_options o = make_options(20);
        o.sigma = 1.5; // hops that cross the box
        run r;
        start(&r);
        if (method) r.solver = &nsi_solver_restart;
        go(&r, &h, note, &o);
        const double given[3] = {4.5, -4.5, 4.5};
        assert_memory_equal(h.starts[0], given, sizeof given);
        for (uint32_t k = 0; k < 20 * POPULATION; k++) {
            for (uint32_t i = 0; i < h.n; i++) {
                assert_true(h.starts[k][i] >= lower[i] && h.starts[k][i] <= upper[i]);
            }
        }
    }
}

static void searches_without_a_value_are_ignored(void** state) {
    (void)state;
    hills h = make_hills(2, 2);
    h.bad = true;
    h.center[0] = -2.0;
    ns_solver_options o = make_options(ROUNDS);
    o.target = 1e-9;
    run r;
    start(&r);
    go(&r, &h, search, &o);
    assert_true(r.out.value >= 0.0 && r.out.value <= 1e-9);

    // None at all: the box has no point with a value.
    start(&r);
    o.max_iterations = 2;
    h.center[0] = NAN;
    go(&r, &h, search, &o);
    assert_int_equal(r.out.finish, NS_FINISH_FAILED);
    assert_true(r.x[0] == 4.5);
}

// One minimum of 0, to which all searches come with some rounding: nothing lower is found, though
// each value may be lower than the last by some share.
static void patience_and_time_end_it(void** state) {
    (void)state;
    hills h = make_hills(2, 2);
    h.depth = 0.0;
    ns_solver_options o = make_options(1000);
    o.patience = 3;
    run r;
    start(&r);
    go(&r, &h, search, &o);
    assert_int_equal(r.out.finish, NS_FINISH_CONVERGED);
    print_message("%u rounds\n", r.out.iterations);
    assert_in_range(r.out.iterations, 4, 20);

    o.patience = 0;
    o.seconds = 1e-9;
    start(&r);
    go(&r, &h, search, &o);
    assert_in_range(r.out.iterations, 0, 1);
}

// Without a local search of its own, the problem's cost or residuals are minimised by a solver.
static bool hills_residuals(void* context, const double* x, double* r, double* jacobian) {
    const hills* h = context;
    const double half = 3.14159265358979323846;
    for (uint32_t i = 0; i < h->n; i++) {
        double d = x[i] - h->center[i];
        r[2 * i] = d;
        r[2 * i + 1] = sqrt(2.0 * h->depth) * sin(half * d);
        for (uint32_t k = 0; jacobian && k < h->n; k++) {
            jacobian[(2 * i) * h->n + k] = k == i;
            jacobian[(2 * i + 1) * h->n + k] =
                k == i ? sqrt(2.0 * h->depth) * half * cos(half * d) : 0.0;
        }
    }
    return true;
}

static void any_solver_can_search_locally(void** state) {
    (void)state;
    const char* const locals[] = {NULL, "lbfgs", "proximal", "lm", NULL};
    for (int k = 0; k < 5; k++) {
        hills h = make_hills(2, 5);
        bool residuals = k >= 3;
        ns_solver_problem p = {.n = 2,
                               .cost = residuals ? NULL : hills_value,
                               .m = 4,
                               .residuals = residuals ? hills_residuals : NULL,
                               .lower = lower,
                               .upper = upper,
                               .context = &h};
        ns_solver_options o = {.max_iterations = ROUNDS, .target = 1e-9, .local = locals[k]};
        double x[2] = {4.5, -4.5};
        ns_solver_result out;
        ns_error error = {0};
        must(ns_minimise("basin_hopping", &p, &o, x, &out, &error), &error);
        assert_int_equal(out.finish, NS_FINISH_CONVERGED);
        for (int i = 0; i < 2; i++) assert_true(fabs(x[i] - h.center[i]) < 1e-4);
    }
}

// Callbacks of a caller need not be safe in several threads unless these are asked for.
static double count_callers(void* context, const double* x, double* g) {
    int* inside = context;
    int now = 0;
#ifdef _OPENMP
#pragma omp atomic capture
#endif
    now = ++inside[0];
    if (now > 1) inside[1] = now;
    double value = 0.0;
    for (int k = 0; k < 2000; k++) value += 1e-9 * cos(x[0] + k);
    if (g) g[0] = 2.0 * x[0];
#ifdef _OPENMP
#pragma omp atomic
#endif
    --inside[0];
    return x[0] * x[0] + 0.0 * value;
}

static void callbacks_run_in_one_thread_by_default(void** state) {
    (void)state;
    const char* const solvers[] = {"basin_hopping", "restart"};
    for (int k = 0; k < 2; k++) {
        int inside[2] = {0, 0};
        ns_solver_problem p = {
            .n = 1, .cost = count_callers, .lower = lower, .upper = upper, .context = inside};
        double x[1] = {4.5};
        ns_solver_result out;
        ns_error error = {0};
        must(ns_minimise(solvers[k], &p, NULL, x, &out, &error), &error);
        assert_int_equal(inside[1], 0);
    }
}

// A checkpoint may hold any numbers.
static void counts_out_of_range_are_clamped(void** state) {
    (void)state;
    hills h = make_hills(1, 5);
    ns_solver_problem p = {
        .n = 1, .lower = lower, .upper = upper, .local_search = search, .context = &h};
    ns_solver_options o = make_options(5);
    void* solver = NULL;
    ns_error error = {0};
    must(nsi_solver_basin_hopping.create(&p, &o, &solver, &error), &error);
    double numbers[HEAD + 2 * POPULATION] = {1e300, -7.0, 1.0};
    nsi_solver_basin_hopping.load(solver, numbers);
    nsi_solver_basin_hopping.save(solver, numbers);
    nsi_solver_basin_hopping.free(solver);
    assert_true(numbers[0] == UINT32_MAX && numbers[1] == 0.0);
}

static void bad_arguments_are_refused(void** state) {
    (void)state;
    hills h = make_hills(2, 2);
    const double high[2] = {1.0, INFINITY};
    const struct {
        const double *lower, *upper;
        ns_solver_options options;
        uint32_t carried;
        const char* named;
    } cases[] = {{lower, high, {0}, 0, "coordinate 1"},
                 {upper, lower, {0}, 0, "coordinate 0"},
                 {lower, NULL, {0}, 0, "a box"},
                 {lower, upper, {.population = UINT32_MAX}, 0, "population"},
                 {lower, upper, {.sigma = INFINITY}, 0, "sigma"},
                 {lower, upper, {.local = "crs2"}, 0, "crs2"},
                 {lower, upper, {.local = "lm"}, 0, "lm: the problem needs residuals"},
                 {lower, upper, {0}, 1, "carried"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_solver_problem p = {.n = 2,
                               .cost = hills_value,
                               .lower = cases[k].lower,
                               .upper = cases[k].upper,
                               .carried = cases[k].carried,
                               .context = &h};
        double x[3] = {0.0, 0.0, 0.0};
        ns_solver_result out;
        ns_error error;
        ns_status status = ns_minimise("basin_hopping", &p, &cases[k].options, x, &out, &error);
        assert_int_equal(status, NS_ERR_ARGUMENT);
        assert_non_null(strstr(error.message, cases[k].named));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_of_many_minima_is_found),
        cmocka_unit_test(restarts_find_it_in_two_dimensions),
        cmocka_unit_test(the_elite_is_sorted_and_distinct),
        cmocka_unit_test(threads_do_not_change_the_result),
        cmocka_unit_test(a_stored_run_goes_on_bit_for_bit),
        cmocka_unit_test(starts_lie_in_the_box_and_the_first_is_given),
        cmocka_unit_test(searches_without_a_value_are_ignored),
        cmocka_unit_test(patience_and_time_end_it),
        cmocka_unit_test(any_solver_can_search_locally),
        cmocka_unit_test(callbacks_run_in_one_thread_by_default),
        cmocka_unit_test(counts_out_of_range_are_clamped),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
