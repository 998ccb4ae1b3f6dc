// The sparse-group lasso: closed forms where there are some, else the conditions of a minimum.

#include "solver/solvers.h"
#include "support/assert.h"
#include "support/residual.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { N = 40, ROWS = 100, GROUPS = 8 };

// |A x - b|^2 / 2.
typedef struct regression {
    uint32_t rows;
    double A[ROWS][N], b[ROWS];
    uint32_t calls;
} regression;

static double regression_value(void* context, const double* x, double* g) {
    regression* r = context;
    r->calls++;
    double value = 0.0;
    if (g) memset(g, 0, N * sizeof *g);
    for (uint32_t k = 0; k < r->rows; k++) {
        double e = -r->b[k];
        for (int i = 0; i < N; i++) e += r->A[k][i] * x[i];
        value += 0.5 * e * e;
        for (int i = 0; g && i < N; i++) g[i] += e * r->A[k][i];
    }
    return value;
}

// Groups of 5, of which the last two numbers of x are left out.
static void make_groups(ns_variable_group* groups) {
    for (uint32_t k = 0; k < GROUPS; k++)
        groups[k] = (ns_variable_group){.offset = 5 * k, .count = 5};
    groups[GROUPS - 1].count = 3;
}

static double penalty(const ns_solver_options* o, const double* x) {
    double sum = 0.0;
    for (uint32_t k = 0; k < o->ngroup; k++) {
        double square = 0.0;
        for (uint32_t i = o->groups[k].offset; i < o->groups[k].offset + o->groups[k].count; i++) {
            square += x[i] * x[i];
            sum += o->l1 * fabs(x[i]);
        }
        sum += o->group_lasso * sqrt((double)o->groups[k].count * square);
    }
    return sum;
}

static ns_solver_result minimise(double* x, regression* r, const ns_solver_options* options) {
    ns_solver_result out;
    ns_error error = {0};
    ns_solver_problem p = {.n = N, .cost = regression_value, .context = r};
    must(ns_minimise("proximal", &p, options, x, &out, &error), &error);
    return out;
}

// Columns of length c at right angles: the penalty acts on A'b / c^2 as it does on a point.
static void an_orthogonal_design_gives_the_closed_form(void** state) {
    (void)state;
    const double c = 3.0;
    static regression r;
    r = (regression){.rows = N};
    ns_rng rng = ns_rng_seed(5);
    for (int i = 0; i < N; i++) {
        r.A[i][i] = c;
        r.b[i] = 4.0 * ns_rng_normal(&rng) * (i / 5 % 2 ? 0.3 : 1.0);
    }
    ns_variable_group groups[GROUPS];
    make_groups(groups);
    const double weights[][2] = {{0.0, 3.0}, {3.0, 0.0},   {2.0, 2.5},
                                 {0.0, 0.0}, {100.0, 0.0}, {2.0, 2.5}};
    const double factors[GROUPS] = {1.0, 0.5, 2.0, 0.0, 1.0, INFINITY, 3.0, 0.1};
    for (int w = 0; w < 6; w++) {
        ns_solver_options o = {0};
        o.groups = groups;
        o.ngroup = GROUPS;
        o.group_lasso = weights[w][0];
        o.l1 = weights[w][1];
        o.tolerance = -1.0;
        o.factors = w == 5 ? factors : NULL;
        double want[N], x[N];
        for (int i = 0; i < N; i++) want[i] = r.b[i] / c, x[i] = 1.0;
        for (int k = 0; k < GROUPS; k++) {
            double* v = want + groups[k].offset;
            double square = 0.0, factor = w == 5 ? factors[k] : 1.0;
            for (uint32_t i = 0; i < groups[k].count; i++) {
                double left = fabs(v[i]) - factor * o.l1 / (c * c);
                v[i] = left > 0.0 ? copysign(left, v[i]) : 0.0;
                square += v[i] * v[i];
            }
            double left =
                sqrt(square) - factor * o.group_lasso * sqrt((double)groups[k].count) / (c * c);
            for (uint32_t i = 0; i < groups[k].count; i++) {
                v[i] = left > 0.0 ? v[i] * left / sqrt(square) : 0.0;
            }
        }
        ns_solver_result out = minimise(x, &r, &o);
        assert_int_equal(out.finish, NS_FINISH_CONVERGED);
        residual residuals = {.name = "orthogonal design", .tolerance = 1e-7};
        residual_array(&residuals, x, want, N, 1.0);
        residual_check(&residuals);
        uint32_t zeros = 0;
        for (int i = 0; i < N; i++) {
            assert_true((x[i] == 0.0) == (want[i] == 0.0));
            zeros += want[i] == 0.0;
        }
        if (w < 3) assert_in_range(zeros, 5, 35);
        double all = out.value - regression_value(&r, x, NULL);
        assert_true(fabs(all - nsi_penalty(&o, x)) < 1e-10);
        if (w < 5) assert_true(fabs(all - penalty(&o, x)) < 1e-10);
    }
}

static void make_regression(regression* r, uint64_t seed) {
    *r = (regression){.rows = ROWS};
    ns_rng rng = ns_rng_seed(seed);
    for (int k = 0; k < ROWS; k++) {
        double common = ns_rng_normal(&rng), e = 0.1 * ns_rng_normal(&rng);
        for (int i = 0; i < N; i++) {
            r->A[k][i] = ns_rng_normal(&rng) + 0.5 * common; // correlated columns
            if (i % 7 == 0) e += r->A[k][i] * (1.0 + 0.1 * i);
        }
        r->b[k] = e;
    }
}

// At the minimum, for a group that is not zero: g_i + l1 sign(x_i) + lambda sqrt(|g|) x_i / |x_g| =
// 0 where x_i is not zero, |g_i| <= l1 where it is; for a group that is zero, the soft threshold of
// its gradient is no longer than lambda sqrt(|g|).
static void a_regression_ends_at_a_minimum(void** state) {
    (void)state;
    static regression r;
    ns_variable_group groups[GROUPS];
    make_groups(groups);
    const double weights[][2] = {{0.0, 20.0}, {15.0, 0.0}, {10.0, 10.0}};
    for (int w = 0; w < 3; w++) {
        make_regression(&r, (uint64_t)w);
        ns_solver_options o = {0};
        o.groups = groups;
        o.ngroup = GROUPS;
        o.group_lasso = weights[w][0];
        o.l1 = weights[w][1];
        o.tolerance = -1.0;
        double x[N] = {0.0}, g[N];
        ns_solver_result out = minimise(x, &r, &o);
        print_message("%u iterations, %u evaluations\n", out.iterations, out.evaluations);
        assert_int_equal(out.finish, NS_FINISH_CONVERGED);
        regression_value(&r, x, g);
        const double tolerance = 1e-4; // of gradients that are around 100 at the start
        uint32_t zeros = 0;
        for (int k = 0; k < GROUPS; k++) {
            double square = 0.0, soft = 0.0, weight = o.group_lasso * sqrt((double)groups[k].count);
            for (uint32_t i = groups[k].offset; i < groups[k].offset + groups[k].count; i++) {
                square += x[i] * x[i];
                double left = fmax(fabs(g[i]) - o.l1, 0.0);
                soft += left * left;
                zeros += x[i] == 0.0;
            }
            if (square == 0.0) assert_true(sqrt(soft) <= weight + tolerance);
            for (uint32_t i = groups[k].offset; i < groups[k].offset + groups[k].count; i++) {
                if (square == 0.0) continue;
                if (x[i] == 0.0) {
                    assert_true(fabs(g[i]) <= o.l1 + tolerance);
                } else {
                    double slope = copysign(o.l1, x[i]) + weight * x[i] / sqrt(square);
                    assert_true(fabs(g[i] + slope) <= tolerance);
                }
            }
        }
        for (int i = N - 2; i < N; i++) assert_true(fabs(g[i]) <= tolerance); // in no group
        assert_in_range(zeros, w == 1 ? 0 : 3, N - 4);
    }
}

// A regression is a quadratic function: 1/2 x'A'Ax - b'Ax.
static void a_quadratic_ends_where_its_regression_does(void** state) {
    (void)state;
    static regression r;
    static double A[N][N], b[N];
    ns_variable_group groups[GROUPS];
    make_groups(groups);
    make_regression(&r, 7);
    for (int i = 0; i < N; i++) {
        b[i] = 0.0;
        for (int j = 0; j < N; j++) A[i][j] = j > i ? NAN : 0.0; // the upper triangle is not read
        for (int k = 0; k < ROWS; k++) {
            b[i] -= r.A[k][i] * r.b[k];
            for (int j = 0; j <= i; j++) A[i][j] += r.A[k][i] * r.A[k][j];
        }
    }
    ns_solver_options o = {0};
    o.groups = groups;
    o.ngroup = GROUPS;
    o.group_lasso = o.l1 = 10.0;
    o.tolerance = -1.0;
    double want[N] = {0.0}, x[N] = {0.0};
    minimise(want, &r, &o);
    assert_true(nsi_proximal_quadratic(N, A[0], b, x, &o));
    residual residuals = {.name = "quadratic", .tolerance = 1e-6};
    residual_array(&residuals, x, want, N, 1.0);
    residual_check(&residuals);
    for (int i = 0; i < N; i++) assert_true((x[i] == 0.0) == (want[i] == 0.0));
}

// With one group of l1 alone it is the problem OWL-QN solves, in another way.
static void agrees_with_owlqn(void** state) {
    (void)state;
    static regression r;
    make_regression(&r, 9);
    ns_variable_group all = {.offset = 0, .count = N};
    ns_solver_options o = {0};
    o.groups = &all;
    o.ngroup = 1;
    o.l1 = 30.0;
    o.tolerance = -1.0;
    ns_solver_options owlqn = {.l1 = o.l1, .tolerance = 1e-15};
    ns_solver_problem p = {.n = N, .cost = regression_value, .context = &r};
    double x[N] = {0.0}, y[N] = {0.0};
    ns_solver_result out = minimise(x, &r, &o), other;
    assert_int_equal(ns_minimise("owlqn", &p, &owlqn, y, &other, NULL), NS_OK);
    residual residuals = {.name = "OWL-QN", .tolerance = 1e-6};
    residual_array(&residuals, x, y, N, 1.0);
    residual_check(&residuals);
    assert_true(fabs(out.value - other.value) <= 1e-9 * out.value);
    for (int i = 0; i < N; i++) assert_true((x[i] == 0.0) == (y[i] == 0.0));
}

// ---- functions that are not everywhere -----------------------------------------------------

// A valley that is not convex (minimum 0 at 1, 1), without values where x_1 > 2.
static double valley(void* context, const double* x, double* g) {
    (void)context;
    if (x[1] > 2.0) return NAN;
    double a = x[1] - x[0] * x[0], b = 1.0 - x[0];
    if (g) g[0] = -4.0 * a * x[0] - 2.0 * b, g[1] = 2.0 * a;
    return a * a + b * b;
}

typedef struct watch {
    uint32_t calls, stop_at;
    double last;
} watch;

static bool watched(void* context, const ns_solver_progress* progress) {
    watch* w = context;
    assert_int_equal(progress->iteration, ++w->calls);
    assert_true(progress->value <= w->last);
    w->last = progress->value;
    return w->calls == w->stop_at;
}

static void a_valley_with_a_wall_is_gone_down(void** state) {
    (void)state;
    ns_solver_options o = {0};
    o.step = 100.0;
    double x[2] = {-1.2, 1.9};
    watch w = {.last = INFINITY};
    ns_solver_problem p = {.n = 2, .cost = valley, .observe = watched, .context = &w};
    ns_solver_result out;
    assert_int_equal(ns_minimise("proximal", &p, &o, x, &out, NULL), NS_OK);
    assert_int_equal(out.finish, NS_FINISH_CONVERGED);
    assert_true(fabs(x[0] - 1.0) < 1e-3 && fabs(x[1] - 1.0) < 1e-3);

    x[0] = -1.2, x[1] = 1.9;
    w = (watch){.last = INFINITY, .stop_at = 4};
    assert_int_equal(ns_minimise("proximal", &p, &o, x, &out, NULL), NS_OK);
    assert_int_equal(out.finish, NS_FINISH_STOPPED);
    assert_int_equal(out.iterations, 4);
    assert_true(out.value == valley(NULL, x, NULL));

    x[1] = 3.0;
    p.observe = NULL;
    assert_int_equal(ns_minimise("proximal", &p, &o, x, &out, NULL), NS_OK);
    assert_int_equal(out.finish, NS_FINISH_FAILED);
    assert_true(x[1] == 3.0);
}

static void bad_groups_are_refused(void** state) {
    (void)state;
    double x[2] = {0.0, 0.0};
    ns_solver_result out;
    ns_error error;
    ns_variable_group groups[2] = {{0, 2}, {1, 1}};
    ns_solver_problem p = {.n = 2, .cost = valley};
    ns_solver_options o = {0};
    o.groups = groups;
    o.ngroup = 2;
    assert_int_equal(ns_minimise("proximal", &p, &o, x, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "overlap"));
    groups[1] = (ns_variable_group){2, UINT32_MAX};
    assert_int_equal(ns_minimise("proximal", &p, &o, x, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "last variable"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_orthogonal_design_gives_the_closed_form),
        cmocka_unit_test(a_regression_ends_at_a_minimum),
        cmocka_unit_test(a_quadratic_ends_where_its_regression_does),
        cmocka_unit_test(agrees_with_owlqn),
        cmocka_unit_test(a_valley_with_a_wall_is_gone_down),
        cmocka_unit_test(bad_groups_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
