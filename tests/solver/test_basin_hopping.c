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
    nsi_lbfgs_options options = nsi_default_lbfgs_options();
    options.max_iterations = 100;
    nsi_outcome out;
    return nsi_lbfgs(h->n, x, hills_value, NULL, h, &options, &out, NULL) == NS_OK
               ? out.value
               : (double)INFINITY;
}

static const double lower[MAX] = {-5.12, -5.12, -5.12, -5.12};
static const double upper[MAX] = {5.12, 5.12, 5.12, 5.12};

typedef struct run {
    double x[MAX], elite[POPULATION * MAX], elite_value[POPULATION];
    nsi_basin_hopping_state state;
    nsi_outcome out;
} run;

static hills make_hills(uint32_t n, uint64_t seed) {
    hills h = {.n = n, .depth = 10.0};
    ns_rng rng = ns_rng_seed(seed);
    for (uint32_t i = 0; i < n; i++) h.center[i] = ns_rng_uniform(&rng, -3.0, 3.0);
    return h;
}

// One thread, where they are not what is tested: with short searches they mostly wait.
static nsi_basin_hopping_options make_options(uint32_t rounds) {
    nsi_basin_hopping_options o = nsi_default_basin_hopping_options();
    o.rounds = rounds;
    o.threads = 1;
    return o;
}

static void start(run* r) {
    *r = (run){.x = {4.5, -4.5, 4.5, -4.5}};
    r->state =
        (nsi_basin_hopping_state){.x = r->x, .elite = r->elite, .elite_value = r->elite_value};
}

static run copy(const run* r) {
    run c = *r;
    c.state.x = c.x;
    c.state.elite = c.elite;
    c.state.elite_value = c.elite_value;
    return c;
}

static bool stop(void* context, const nsi_basin_hopping_state* state) {
    return ((hills*)context)->stop_at == state->round;
}

static void go(run* r, hills* h, nsi_local_search* local,
               const nsi_basin_hopping_options* options) {
    ns_error error = {0};
    r->state.x = r->x;
    r->state.elite = r->elite;
    r->state.elite_value = r->elite_value;
    must(nsi_basin_hopping(h->n, lower, upper, &r->state, local, stop, h, options, &r->out, &error),
         &error);
}

static void assert_same_run(const run* a, const run* b, uint32_t n) {
    assert_int_equal(a->state.round, b->state.round);
    assert_int_equal(a->state.stale, b->state.stale);
    assert_int_equal(a->state.searches, b->state.searches);
    assert_memory_equal(&a->state.value, &b->state.value, sizeof(double));
    assert_memory_equal(a->x, b->x, sizeof a->x);
    assert_memory_equal(a->elite, b->elite, POPULATION * n * sizeof(double));
    assert_memory_equal(a->elite_value, b->elite_value, sizeof a->elite_value);
}

// ---- the lowest minimum --------------------------------------------------------------------

static void the_lowest_of_many_minima_is_found(void** state) {
    (void)state;
    for (uint32_t n = 2; n <= MAX; n++) {
        uint32_t rounds = 0;
        for (uint64_t seed = 0; seed < 5; seed++) {
            hills h = make_hills(n, 10 * n + seed);
            nsi_basin_hopping_options o = make_options(ROUNDS);
            o.target = 1e-9;
            o.seed = seed;
            run r;
            start(&r);
            go(&r, &h, search, &o);
            assert_int_equal(r.out.finish, NSI_FINISH_CONVERGED);
            for (uint32_t i = 0; i < n; i++) assert_true(fabs(r.x[i] - h.center[i]) < 1e-4);
            rounds += r.state.round;
        }
        print_message("%u variables: %.1f rounds of %d\n", n, rounds / 5.0, POPULATION);
    }
}

static void restarts_find_it_in_two_dimensions(void** state) {
    (void)state;
    hills h = make_hills(2, 3);
    nsi_basin_hopping_options o = make_options(ROUNDS);
    o.method = NSI_BASIN_HOPPING_RESTART;
    o.target = 1e-9;
    run r;
    start(&r);
    go(&r, &h, search, &o);
    assert_int_equal(r.out.finish, NSI_FINISH_CONVERGED);
    assert_true(r.out.value <= 1e-9);
}

// The best points are apart, in order, and what they claim to be.
static void the_elite_is_sorted_and_distinct(void** state) {
    (void)state;
    hills h = make_hills(3, 8);
    nsi_basin_hopping_options o = make_options(10);
    run r;
    start(&r);
    go(&r, &h, search, &o);
    assert_int_equal(r.out.finish, NSI_FINISH_ITERATIONS);
    assert_int_equal(r.out.iterations, 10);
    assert_int_equal(r.out.evaluations, 10 * POPULATION);
    assert_int_equal(r.state.searches, 10 * POPULATION);
    assert_true(r.out.value == r.state.value && r.state.value == r.elite_value[0]);
    assert_memory_equal(r.x, r.elite, h.n * sizeof(double));
    for (int k = 0; k < POPULATION; k++) {
        const double* x = r.elite + (uint32_t)k * h.n;
        assert_true(r.elite_value[k] == hills_value(&h, x, NULL));
        if (k > 0) assert_true(r.elite_value[k] >= r.elite_value[k - 1]);
        for (int j = 0; j < k; j++) {
            double apart = 0.0;
            for (uint32_t i = 0; i < h.n; i++) {
                apart = fmax(apart, fabs(x[i] - r.elite[(uint32_t)j * h.n + i]));
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
            nsi_basin_hopping_options o = make_options(12);
            o.method = method ? NSI_BASIN_HOPPING_RESTART : NSI_BASIN_HOPPING_MUTATE;
            o.threads = threads;
            o.seed = 77;
            run r;
            start(&r);
            go(&r, &h, search, &o);
            if (threads == 1) first = copy(&r);
            assert_same_run(&first, &r, h.n);
            assert_true(nsi_basin_hopping_threads(&o) <= threads);
            for (uint32_t w = nsi_basin_hopping_threads(&o); w < WORKERS; w++) {
                assert_int_equal(h.per_worker[w], 0);
            }
        }
    }
}

static void a_stored_run_goes_on_bit_for_bit(void** state) {
    (void)state;
    nsi_basin_hopping_options o = make_options(9);
    o.patience = 4;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        hills h = make_hills(3, 4);
        o.threads = threads;
        run whole;
        start(&whole);
        go(&whole, &h, search, &o);
        for (uint32_t at = 1; at <= whole.state.round; at += threads) {
            run part;
            start(&part);
            h.stop_at = at;
            go(&part, &h, search, &o);
            assert_int_equal(part.out.finish, NSI_FINISH_STOPPED);
            assert_int_equal(part.state.round, at);
            run rest = copy(&part);
            h.stop_at = 0;
            go(&rest, &h, search, &o);
            assert_same_run(&whole, &rest, h.n);
            if (at < whole.state.round) assert_int_equal(rest.out.finish, whole.out.finish);
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
        nsi_basin_hopping_options o = make_options(20);
        o.method = method ? NSI_BASIN_HOPPING_RESTART : NSI_BASIN_HOPPING_MUTATE;
        o.sigma = 1.5; // hops that cross the box
        run r;
        start(&r);
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
    nsi_basin_hopping_options o = make_options(ROUNDS);
    o.target = 1e-9;
    run r;
    start(&r);
    go(&r, &h, search, &o);
    assert_true(r.out.value >= 0.0 && r.out.value <= 1e-9);

    // None at all: the box has no point with a value.
    start(&r);
    o.rounds = 2;
    h.center[0] = NAN;
    go(&r, &h, search, &o);
    assert_int_equal(r.out.finish, NSI_FINISH_FAILED);
    assert_true(r.x[0] == 4.5);
}

// One minimum of 0, to which all searches come with some rounding: nothing lower is found, though
// each value may be lower than the last by some share.
static void patience_and_time_end_it(void** state) {
    (void)state;
    hills h = make_hills(2, 2);
    h.depth = 0.0;
    nsi_basin_hopping_options o = make_options(1000);
    o.patience = 3;
    run r;
    start(&r);
    go(&r, &h, search, &o);
    assert_int_equal(r.out.finish, NSI_FINISH_CONVERGED);
    print_message("%u rounds\n", r.out.iterations);
    assert_in_range(r.out.iterations, 4, 20);

    o.patience = 0;
    o.seconds = 1e-9;
    start(&r);
    go(&r, &h, search, &o);
    assert_in_range(r.out.iterations, 0, 1);
}

static void bad_boxes_are_refused(void** state) {
    (void)state;
    hills h = make_hills(2, 2);
    run r;
    start(&r);
    ns_error error;
    const double high[2] = {1.0, INFINITY};
    assert_int_equal(
        nsi_basin_hopping(2, lower, high, &r.state, search, NULL, &h, NULL, &r.out, &error),
        NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "coordinate 1"));
    assert_int_equal(
        nsi_basin_hopping(2, upper, lower, &r.state, search, NULL, &h, NULL, &r.out, &error),
        NS_ERR_ARGUMENT);
    nsi_basin_hopping_options o = nsi_default_basin_hopping_options();
    o.population = 0;
    assert_int_equal(
        nsi_basin_hopping(2, lower, upper, &r.state, search, NULL, &h, &o, &r.out, &error),
        NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "population"));
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
        cmocka_unit_test(bad_boxes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
