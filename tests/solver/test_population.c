// NLopt's global methods, each on functions with many minima: basins, seeds, ends.

#include "solver/solvers.h"
#include "support/assert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { N = 2, METHODS = 4 };

enum { CRS2, ISRES, ESCH, MLSL };
static const char* const methods[METHODS] = {"crs2", "isres", "esch", "mlsl"};

// Six-hump camel (Dixon & Szego 1978): six minima in the box, the two lowest, -1.0316284535, at
// +-(0.0898, -0.7126).
typedef struct camel {
    uint32_t calls, gradients, stop_at;
    double wall; // no value where x_0 is above
    bool over;   // the observer said so: nothing is to be asked any more
} camel;

static double camel_value(void* context, const double* x, double* g) {
    camel* c = context;
    assert_false(c->over);
    c->calls++;
    double a = x[0], b = x[1], a2 = a * a, b2 = b * b;
    if (a > c->wall) return c->calls % 2 ? NAN : INFINITY;
    if (g) {
        c->gradients++;
        g[0] = 8.0 * a - 8.4 * a * a2 + 2.0 * a * a2 * a2 + b;
        g[1] = a - 8.0 * b + 16.0 * b * b2;
    }
    return (4.0 - 2.1 * a2 + a2 * a2 / 3.0) * a2 + a * b + (-4.0 + 4.0 * b2) * b2;
}

static bool watch(void* context, const ns_solver_progress* progress) {
    camel* c = context;
    assert_int_equal(progress->iteration, c->calls);
    c->over = c->calls == c->stop_at;
    return c->over;
}

static const double lower[N] = {-3.0, -2.0}, upper[N] = {3.0, 2.0};

static ns_solver_result minimise(int method, double* x, camel* c,
                                 const ns_solver_options* options) {
    ns_solver_result out;
    ns_error error = {0};
    ns_solver_problem p = {.n = N,
                           .cost = camel_value,
                           .lower = lower,
                           .upper = upper,
                           .observe = watch,
                           .context = c};
    must(ns_minimise(methods[method], &p, options, x, &out, &error), &error);
    assert_int_equal(out.evaluations, c->calls);
    return out;
}

static void each_method_reaches_the_lowest_basin(void** state) {
    (void)state;
    for (int k = 0; k < METHODS; k++) {
        for (uint64_t seed = 0; seed < 3; seed++) {
            ns_solver_options o = {0};
            o.seed = seed;
            o.max_iterations = 6000;
            double x[N] = {2.8, -1.9};
            camel c = {.wall = INFINITY};
            ns_solver_result out = minimise(k, x, &c, &o);
            print_message("method %d: %.3g above the minimum after %u evaluations\n", k,
                          out.value + 1.0316284534898774, out.evaluations);
            // ESCH draws coordinates anew and does not refine them.
            double tolerance = k == ESCH ? 0.05 : 1e-6;
            assert_true(fabs(out.value + 1.0316284534898774) < tolerance);
            assert_true(x[0] * x[1] < 0.0 && fabs(fabs(x[0]) - 0.09) < 0.2);
            assert_true(out.value == camel_value(&(camel){.wall = INFINITY}, x, NULL));
            assert_int_equal(out.finish, NS_FINISH_LIMIT);
            assert_int_equal(out.evaluations, 6000);
            assert_true((c.gradients > 0) == (k == MLSL));
        }
    }
}

static void a_seed_gives_the_same_run(void** state) {
    (void)state;
    for (int k = 0; k < METHODS; k++) {
        double first[N] = {0.0};
        double values[3];
        for (uint64_t run = 0; run < 3; run++) {
            ns_solver_options o = {0};
            o.seed = run < 2 ? 5 : UINT64_C(5) << 32 | 1;
            o.max_iterations = 300;
            double x[N] = {2.8, -1.9};
            camel c = {.wall = INFINITY};
            values[run] = minimise(k, x, &c, &o).value;
            if (run == 0) memcpy(first, x, sizeof x);
            if (run == 1) assert_memory_equal(first, x, sizeof x);
        }
        assert_true(values[0] == values[1]);
        if (k != MLSL) assert_true(values[0] != values[2]);
    }
}

// The wall cuts through the box; one of the two lowest minima is left.
static void points_without_a_value_are_avoided(void** state) {
    (void)state;
    for (int k = 0; k < METHODS; k++) {
        ns_solver_options o = {0};
        o.max_iterations = 8000;
        double x[N] = {2.8, -1.9};
        camel c = {.wall = 0.0};
        ns_solver_result out = minimise(k, x, &c, &o);
        assert_true(fabs(out.value + 1.0316284534898774) < 0.05);
        assert_true(x[0] < 0.0);

        double y[N] = {2.8, -1.9};
        c = (camel){.wall = -4.0};
        o.max_iterations = 500;
        out = minimise(k, y, &c, &o);
        assert_int_equal(out.finish, NS_FINISH_FAILED);
        assert_true(y[0] == 2.8 && y[1] == -1.9);
    }
}

static void stops_when_told_and_at_its_target(void** state) {
    (void)state;
    for (int k = 0; k < METHODS; k++) {
        const uint32_t stops[] = {1, 2, 15, 200};
        for (int s = 0; s < 4; s++) {
            ns_solver_options o = {0};
            double x[N] = {2.8, -1.9};
            camel c = {.wall = INFINITY, .stop_at = stops[s]};
            ns_solver_result out = minimise(k, x, &c, &o);
            assert_int_equal(out.finish, NS_FINISH_STOPPED);
            assert_int_equal(out.evaluations, stops[s]);
        }
        ns_solver_options o = {0};
        o.target = -0.9;
        double x[N] = {9.0, -9.0}; // is moved into the box
        camel c = {.wall = INFINITY};
        ns_solver_result out = minimise(k, x, &c, &o);
        assert_int_equal(out.finish, NS_FINISH_CONVERGED);
        assert_true(out.value <= -0.9);
    }
}

// A bowl over more variables, one of which has no room.
static double bowl(void* context, const double* x, double* g) {
    (void)context;
    double value = 0.0;
    for (int i = 0; i < 5; i++) {
        value += (x[i] - 0.3) * (x[i] - 0.3);
        if (g) g[i] = 2.0 * (x[i] - 0.3);
    }
    return value;
}

static void a_coordinate_without_room_stays(void** state) {
    (void)state;
    for (int k = 0; k < METHODS; k++) {
        double low[5] = {-1, -1, 0.5, -1, -1}, high[5] = {1, 1, 0.5, 1, 1}, x[5] = {0};
        ns_solver_options o = {0};
        ns_solver_result out;
        ns_solver_problem p = {.n = 5, .cost = bowl, .lower = low, .upper = high};
        assert_int_equal(ns_minimise(methods[k], &p, &o, x, &out, NULL), NS_OK);
        assert_true(x[2] == 0.5);
        assert_true(out.value < (k == ESCH ? 0.1 : 0.041));
    }
}

static void bad_arguments_are_refused(void** state) {
    (void)state;
    double x[N] = {0.0, 0.0};
    ns_solver_result out;
    ns_error error;
    camel c = {.wall = INFINITY};
    ns_solver_problem p = {
        .n = N, .cost = camel_value, .lower = lower, .upper = upper, .context = &c};
    ns_solver_options o = {.population = N};
    assert_int_equal(ns_minimise("crs2", &p, &o, x, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "at least 3"));
    o.population = UINT32_MAX;
    assert_int_equal(ns_minimise("esch", &p, &o, x, &out, &error), NS_ERR_ARGUMENT);
    p.lower = upper, p.upper = lower;
    assert_int_equal(ns_minimise("isres", &p, NULL, x, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "coordinate 0"));
    p.lower = NULL;
    assert_int_equal(ns_minimise("mlsl", &p, NULL, x, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "a box"));
    assert_int_equal(c.calls, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_method_reaches_the_lowest_basin),
        cmocka_unit_test(a_seed_gives_the_same_run),
        cmocka_unit_test(points_without_a_value_are_avoided),
        cmocka_unit_test(stops_when_told_and_at_its_target),
        cmocka_unit_test(a_coordinate_without_room_stays),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
