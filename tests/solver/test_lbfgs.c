// L-BFGS and OWL-QN against minima that are known.

#include "solver/solvers.h"
#include "support/assert.h"
#include "support/residual.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MAX = 100 };

static ns_solver_result minimise(uint32_t n, double* x, ns_cost_function* f, void* context,
                                 const ns_solver_options* options) {
    ns_solver_result out;
    ns_error error = {0};
    ns_solver_problem p = {.n = n, .cost = f, .context = context};
    const char* solver = options && options->l1 > 0.0 ? "owlqn" : "lbfgs";
    must(ns_minimise(solver, &p, options, x, &out, &error), &error);
    return out;
}

// ---- smooth --------------------------------------------------------------------------------

// Sum over i of 100 (x_{i+1} - x_i^2)^2 + (1 - x_i)^2: minimum 0 at all ones.
static double rosenbrock(void* context, const double* x, double* g) {
    uint32_t n = *(const uint32_t*)context;
    double value = 0.0;
    if (g) memset(g, 0, n * sizeof *g);
    for (uint32_t i = 0; i + 1 < n; i++) {
        double a = x[i + 1] - x[i] * x[i], b = 1.0 - x[i];
        value += 100.0 * a * a + b * b;
        if (!g) continue;
        g[i] += -400.0 * a * x[i] - 2.0 * b;
        g[i + 1] += 200.0 * a;
    }
    return value;
}

static void finds_the_minimum_of_rosenbrock(void** state) {
    (void)state;
    const uint32_t sizes[] = {2, 100};
    for (int k = 0; k < 2; k++) {
        uint32_t n = sizes[k];
        double x[MAX], ones[MAX];
        for (uint32_t i = 0; i < n; i++) x[i] = i % 2 ? 1.0 : -1.2, ones[i] = 1.0;
        ns_solver_result out = minimise(n, x, rosenbrock, &n, NULL);
        residual r = {.name = "Rosenbrock", .tolerance = 1e-9};
        residual_array(&r, x, ones, n, 1.0);
        residual_check(&r);
        assert_int_equal(out.finish, NS_FINISH_CONVERGED);
        assert_true(out.value == rosenbrock(&n, x, NULL));
        assert_true(out.evaluations >= out.iterations && out.iterations > 0);
    }
}

// Sum of a_i (x_i - b_i)^2 / 2 + offset, and products of neighbours that leave the minimum at b.
typedef struct quadratic {
    uint32_t n;
    double a[MAX], b[MAX];
    double coupling, offset;
    uint32_t calls;
} quadratic;

static double quadratic_value(void* context, const double* x, double* g) {
    quadratic* q = context;
    q->calls++;
    double value = q->offset;
    for (uint32_t i = 0; i < q->n; i++) {
        double d = x[i] - q->b[i];
        value += 0.5 * q->a[i] * d * d;
        if (g) g[i] = q->a[i] * d;
    }
    for (uint32_t i = 0; i + 1 < q->n; i++) {
        double d = x[i] - q->b[i], e = x[i + 1] - q->b[i + 1];
        value += q->coupling * d * e;
        if (g) g[i] += q->coupling * e, g[i + 1] += q->coupling * d;
    }
    return value;
}

static quadratic make_quadratic(uint32_t n, double coupling, double offset) {
    quadratic q = {.n = n, .coupling = coupling, .offset = offset};
    ns_rng rng = ns_rng_seed(n);
    for (uint32_t i = 0; i < n; i++) {
        q.a[i] = 1.0 + (double)(i % 20);
        q.b[i] = ns_rng_uniform(&rng, -3.0, 3.0);
    }
    return q;
}

// Values around zero and below it: the decrease is measured against their size.
static void finds_the_minimum_of_a_quadratic(void** state) {
    (void)state;
    const double offsets[] = {0.0, -50.0, 1e6};
    for (int k = 0; k < 3; k++) {
        quadratic q = make_quadratic(40, 0.3, offsets[k]);
        double x[MAX] = {0};
        ns_solver_result out = minimise(q.n, x, quadratic_value, &q, NULL);
        residual r = {.name = "quadratic", .tolerance = k < 2 ? 1e-6 : 1e-3};
        residual_array(&r, x, q.b, q.n, 1.0);
        residual_check(&r);
        assert_int_equal(out.finish, NS_FINISH_CONVERGED);
        assert_int_equal(out.evaluations, q.calls);
    }
}

static void starting_at_the_minimum_is_convergence(void** state) {
    (void)state;
    quadratic q = make_quadratic(10, 0.0, 1.0);
    double x[MAX];
    memcpy(x, q.b, sizeof x);
    assert_int_equal(minimise(q.n, x, quadratic_value, &q, NULL).finish, NS_FINISH_CONVERGED);
    assert_memory_equal(x, q.b, q.n * sizeof *x);

    // So near that rounding hides every way down.
    for (uint32_t i = 0; i < q.n; i++) x[i] += 1e-10;
    assert_int_equal(minimise(q.n, x, quadratic_value, &q, NULL).finish, NS_FINISH_CONVERGED);
}

// ---- L1 ------------------------------------------------------------------------------------

// With a diagonal quadratic the answer is the soft threshold of b by l1 / a.
static void l1_gives_the_soft_threshold_with_exact_zeros(void** state) {
    (void)state;
    quadratic q = make_quadratic(60, 0.0, -3.0);
    ns_solver_options options = {0};
    const ns_variable_group groups[2] = {{5, 20}, {30, 25}};
    options.l1 = 8.0;
    options.groups = groups;
    options.ngroup = 2;
    double x[MAX], want[MAX];
    uint32_t zeros = 0;
    for (uint32_t i = 0; i < q.n; i++) {
        x[i] = 1.0;
        double left = fabs(q.b[i]) - options.l1 / q.a[i];
        bool penalised = (i >= 5 && i < 25) || (i >= 30 && i < 55);
        want[i] = !penalised ? q.b[i] : left > 0.0 ? copysign(left, q.b[i]) : 0.0;
        zeros += want[i] == 0.0;
    }
    assert_in_range(zeros, 5, 45); // the case is not trivial
    ns_solver_result out = minimise(q.n, x, quadratic_value, &q, &options);
    assert_int_equal(out.finish, NS_FINISH_CONVERGED);
    residual r = {.name = "soft threshold", .tolerance = 1e-6};
    residual_array(&r, x, want, q.n, 1.0);
    residual_check(&r);
    double penalty = 0.0;
    for (uint32_t i = 0; i < q.n; i++) {
        assert_true((x[i] == 0.0) == (want[i] == 0.0));
        bool penalised = (i >= 5 && i < 25) || (i >= 30 && i < 55);
        if (penalised) penalty += options.l1 * fabs(x[i]);
    }
    assert_true(fabs(out.value - quadratic_value(&q, x, NULL) - penalty) < 1e-12);
}

// ---- points without a value ----------------------------------------------------------------

// x - log x in every coordinate: minimum 1 at 1, nothing at and below 0; NaN or infinite, with
// gradients that are left alone or NaN.
typedef struct barrier {
    uint32_t n;
    double nothing;
    bool spoil;
    uint32_t without; // evaluations without a value
} barrier;

static double barrier_value(void* context, const double* x, double* g) {
    barrier* b = context;
    double value = 0.0;
    for (uint32_t i = 0; i < b->n; i++) {
        assert_true(isfinite(x[i]));
        if (x[i] <= 0.0) {
            b->without++;
            for (uint32_t k = 0; b->spoil && g && k < b->n; k++) g[k] = NAN;
            return b->spoil ? 0.0 : b->nothing;
        }
        value += x[i] - log(x[i]);
        if (g) g[i] = 1.0 - 1.0 / x[i];
    }
    return value;
}

static void steps_back_from_where_there_is_no_value(void** state) {
    (void)state;
    const double nothing[] = {NAN, INFINITY, -INFINITY, 0.0};
    for (int k = 0; k < 8; k++) {
        // From far off along a line that leads into the wall at the first step.
        barrier b = {.n = 3, .nothing = nothing[k / 2], .spoil = k / 2 == 3};
        double x[3] = {1e-3, 30.0, 2.0}, ones[3] = {1.0, 1.0, 1.0};
        if (k % 2) x[0] = 0.9, x[1] = 1.0, x[2] = 0.1;
        ns_solver_result out = minimise(b.n, x, barrier_value, &b, NULL);
        assert_int_equal(out.finish, NS_FINISH_CONVERGED);
        residual r = {.name = "barrier", .tolerance = 1e-6};
        residual_array(&r, x, ones, b.n, 1.0);
        residual_check(&r);
        if (k % 2 == 0) assert_true(b.without > 0);
    }
}

static void l1_steps_back_from_where_there_is_no_value(void** state) {
    (void)state;
    // x - log x + 3 x has its minimum at 1/4.
    barrier b = {.n = 2, .nothing = NAN};
    double x[2] = {1e-3, 20.0}, want[2] = {0.25, 0.25};
    ns_solver_options options = {0};
    options.l1 = 3.0;
    minimise(b.n, x, barrier_value, &b, &options);
    residual r = {.name = "barrier with l1", .tolerance = 1e-6};
    residual_array(&r, x, want, b.n, 1.0);
    residual_check(&r);
    assert_true(b.without > 0);
}

static void a_start_without_a_value_fails(void** state) {
    (void)state;
    barrier b = {.n = 2, .nothing = NAN};
    double x[2] = {-1.0, 2.0};
    ns_solver_result out = minimise(b.n, x, barrier_value, &b, NULL);
    assert_int_equal(out.finish, NS_FINISH_FAILED);
    assert_int_equal(out.evaluations, 1);
    assert_true(x[0] == -1.0 && x[1] == 2.0);
}

// The slope has the wrong sign, so every step goes up.
static double wrong_slope(void* context, const double* x, double* g) {
    (void)context;
    if (g) g[0] = -2.0 * (x[0] + 5.0);
    return (x[0] + 5.0) * (x[0] + 5.0);
}

static void no_way_down_fails_and_leaves_the_start(void** state) {
    (void)state;
    double x = 1.0;
    assert_int_equal(minimise(1, &x, wrong_slope, NULL, NULL).finish, NS_FINISH_FAILED);
    assert_true(x == 1.0);
}

// |x| + |y|/2: a kink at the minimum, where line searches fail.
static double kink(void* context, const double* x, double* g) {
    (void)context;
    if (g) g[0] = x[0] < 0.0 ? -1.0 : 1.0, g[1] = x[1] < 0.0 ? -0.5 : 0.5;
    return fabs(x[0]) + 0.5 * fabs(x[1]) + 1.0;
}

static void a_kink_ends_near_the_minimum(void** state) {
    (void)state;
    double x[2] = {3.7, -11.3};
    ns_solver_result out = minimise(2, x, kink, NULL, NULL);
    assert_int_equal(out.finish, NS_FINISH_CONVERGED);
    print_message("value %.3g above the minimum\n", out.value - 1.0);
    assert_true(out.value < 1.0 + 1e-3);
}

// ---- ends ----------------------------------------------------------------------------------

typedef struct watch {
    uint32_t n, calls, stop_at;
    double last;
} watch;

static double watched_value(void* context, const double* x, double* g) {
    return rosenbrock(&((watch*)context)->n, x, g);
}

static bool watched(void* context, const ns_solver_progress* progress) {
    watch* w = context;
    assert_int_equal(progress->iteration, ++w->calls);
    assert_true(progress->value == rosenbrock(&w->n, progress->x, NULL));
    assert_true(progress->value <= w->last);
    assert_true(progress->gradient_norm > 0.0);
    w->last = progress->value;
    return w->calls == w->stop_at;
}

static void stops_when_told_and_after_its_iterations(void** state) {
    (void)state;
    watch w = {.n = 2, .stop_at = 7, .last = INFINITY};
    double x[2] = {-1.2, 1.0};
    ns_solver_result out;
    ns_solver_problem p = {.n = 2, .cost = watched_value, .observe = watched, .context = &w};
    assert_int_equal(ns_minimise("lbfgs", &p, NULL, x, &out, NULL), NS_OK);
    assert_int_equal(out.finish, NS_FINISH_STOPPED);
    assert_int_equal(out.iterations, 7);
    assert_true(out.value == w.last && out.value == rosenbrock(&w.n, x, NULL));

    ns_solver_options options = {0};
    for (uint32_t limit = 1; limit < 5; limit++) {
        double y[2] = {-1.2, 1.0};
        options.max_iterations = limit;
        out = minimise(2, y, rosenbrock, &w.n, &options);
        assert_int_equal(out.finish, NS_FINISH_LIMIT);
        assert_int_equal(out.iterations, limit);
    }
}

static void bad_options_are_named(void** state) {
    (void)state;
    uint32_t n = 2;
    double x[2] = {0.0, 0.0};
    ns_solver_result out;
    const ns_variable_group outside = {1, 2};
    ns_solver_problem p = {.n = n, .cost = rosenbrock, .context = &n};
    const struct {
        const char* solver;
        ns_solver_options options;
        const char* named;
    } cases[] = {{"lbfgs", {.memory = UINT32_MAX}, "memory"},
                 {"lbfgs", {.tolerance = NAN}, "tolerance"},
                 {"lbfgs", {.gradient_tolerance = NAN}, "gradient_tolerance"},
                 {"lbfgs", {.l1 = 1.0}, "l1"},
                 {"owlqn", {.l1 = -1.0}, "l1"},
                 {"owlqn", {.group_lasso = 1.0}, "group_lasso"},
                 {"owlqn", {.l1 = 1.0, .groups = &outside, .ngroup = 1}, "last variable"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_error error;
        ns_status status = ns_minimise(cases[k].solver, &p, &cases[k].options, x, &out, &error);
        assert_int_equal(status, NS_ERR_ARGUMENT);
        assert_non_null(strstr(error.message, cases[k].named));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_minimum_of_rosenbrock),
        cmocka_unit_test(finds_the_minimum_of_a_quadratic),
        cmocka_unit_test(starting_at_the_minimum_is_convergence),
        cmocka_unit_test(l1_gives_the_soft_threshold_with_exact_zeros),
        cmocka_unit_test(steps_back_from_where_there_is_no_value),
        cmocka_unit_test(l1_steps_back_from_where_there_is_no_value),
        cmocka_unit_test(a_start_without_a_value_fails),
        cmocka_unit_test(no_way_down_fails_and_leaves_the_start),
        cmocka_unit_test(a_kink_ends_near_the_minimum),
        cmocka_unit_test(stops_when_told_and_after_its_iterations),
        cmocka_unit_test(bad_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
