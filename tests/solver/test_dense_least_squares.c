// Residuals of callbacks with a dense Jacobian, as Levenberg-Marquardt sees them.

#include "solver/solvers.h"
#include "support/assert.h"
#include "support/residual.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

// ---- the linear model --------------------------------------------------------------------------

// r = A x - b, with three residuals in two variables.
static const double A[3][2] = {{1.0, 2.0}, {3.0, -1.0}, {0.5, 4.0}}, b[3] = {1.0, 2.0, 3.0};

static bool linear(void* context, const double* x, double* r, double* J) {
    (void)context;
    for (int k = 0; k < 3; k++) r[k] = A[k][0] * x[0] + A[k][1] * x[1] - b[k];
    if (J) memcpy(J, A, sizeof A);
    return true;
}

// Without damping the step leads to the minimum; the decrease is the one that was promised; with
// damping the matrix has (1 + damping) times its diagonal.
static void steps_solve_the_damped_normal_equations(void** state) {
    (void)state;
    ns_solver_problem p = {.n = 2, .m = 3, .residuals = linear};
    nsi_dense_problem* dense = NULL;
    ns_error error = {0};
    must(nsi_dense_problem_create(&p, &(ns_solver_options){0}, &dense, &error), &error);
    for (int damped = 0; damped < 2; damped++) {
        double damping = damped ? 0.5 : 0.0, x[2] = {0.3, -0.7}, from[2] = {0.3, -0.7};
        ns_gauss_newton g = nsi_dense_problem_at(dense, x);
        double cost, predicted, H[2][2] = {{0.0}}, slope[2] = {0.0}, r[3];
        linear(NULL, x, r, NULL);
        for (int k = 0; k < 3; k++) {
            for (int i = 0; i < 2; i++) {
                slope[i] += A[k][i] * r[k];
                for (int j = 0; j < 2; j++) H[i][j] += A[k][i] * A[k][j];
            }
        }
        assert_true(g.linearise(g.context, &cost));
        assert_true(g.solve(g.context, damping, &predicted));
        double trial = g.trial_cost(g.context);
        assert_memory_equal(x, from, sizeof x); // until it is committed
        close_to("decrease", cost - trial, predicted, 1e-12);
        g.commit(g.context);
        for (int i = 0; i < 2; i++) {
            double sum = slope[i] + damping * H[i][i] * (x[i] - from[i]);
            for (int j = 0; j < 2; j++) sum += H[i][j] * (x[j] - from[j]);
            close_to("normal equations", sum, 0.0, 1e-12);
        }
    }
    nsi_dense_problem_free(dense);
    nsi_dense_problem_free(NULL);
}

static bool bad_jacobian(void* context, const double* x, double* r, double* J) {
    (void)context;
    r[0] = x[0];
    if (J) J[0] = NAN;
    return true;
}

static void a_jacobian_that_is_not_finite_fails(void** state) {
    (void)state;
    double x[1] = {3.0};
    ns_solver_problem p = {.n = 1, .m = 1, .residuals = bad_jacobian};
    ns_solver_result out;
    assert_int_equal(ns_minimise("lm", &p, NULL, x, &out, NULL), NS_OK);
    assert_int_equal(out.finish, NS_FINISH_FAILED);
    assert_true(x[0] == 3.0);
}

// ---- with a penalty ----------------------------------------------------------------------------

enum { N = 6 };

// c (x - b), whose minimum with l1 is the soft threshold of b by l1 / c^2; the last variable has no
// effect at all.
static const double goal[N] = {2.0, -3.0, 0.1, -0.2, 5.0, 0.0};

static bool shifted(void* context, const double* x, double* r, double* J) {
    const double c = *(const double*)context;
    for (int i = 0; i < N - 1; i++) r[i] = c * (x[i] - goal[i]);
    if (J) memset(J, 0, (N - 1) * N * sizeof *J);
    for (int i = 0; J && i < N - 1; i++) J[i * N + i] = c;
    return true;
}

static void a_lasso_has_the_closed_form(void** state) {
    (void)state;
    double c = 3.0;
    const ns_variable_group groups[] = {{0, 4}};
    for (int grouped = 0; grouped < 2; grouped++) {
        ns_solver_problem p = {.n = N, .m = N - 1, .residuals = shifted, .context = &c};
        ns_solver_options o = {.l1 = 4.5, .groups = grouped ? groups : NULL, .ngroup = 1};
        double x[N] = {1.0, 1.0, 1.0, 1.0, 1.0, 0.0}, want[N];
        for (int i = 0; i < N; i++) {
            double left = fabs(goal[i]) - o.l1 / (c * c);
            bool penalised = !grouped || i < 4;
            want[i] = !penalised ? goal[i] : left > 0.0 ? copysign(left, goal[i]) : 0.0;
        }
        ns_solver_result out;
        ns_error error = {0};
        must(ns_minimise("lm", &p, &o, x, &out, &error), &error);
        residual residuals = {.name = "lasso", .tolerance = 1e-7};
        residual_array(&residuals, x, want, N, 1.0);
        residual_check(&residuals);
        assert_true(x[2] == 0.0 && x[3] == 0.0);
        assert_int_equal(out.finish, NS_FINISH_CONVERGED);

        // The same by proximal steps, which take the cost from the residuals.
        double y[N] = {1.0, 1.0, 1.0, 1.0, 1.0, 0.0};
        ns_solver_result other;
        must(ns_minimise("proximal", &p, &o, y, &other, &error), &error);
        assert_true(fabs(other.value - out.value) < 1e-9);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_solve_the_damped_normal_equations),
        cmocka_unit_test(a_jacobian_that_is_not_finite_fails),
        cmocka_unit_test(a_lasso_has_the_closed_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
