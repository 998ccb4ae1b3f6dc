// Levenberg-Marquardt on residuals of callbacks that have nothing to do with robots.

#include "solver/solvers.h"
#include "support/assert.h"
#include "support/residual.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

// Rosenbrock's valley as two residuals; the cost is half of the usual one.
typedef struct valley {
    double wall; // no residuals where x_0 is above
    bool silent; // they say so by NaN
    uint32_t calls, without, stop_at, observed;
    double last;
} valley;

static bool valley_residuals(void* context, const double* x, double* r, double* J) {
    valley* v = context;
    v->calls++;
    if (x[0] > v->wall) {
        v->without++;
        r[0] = r[1] = NAN;
        return v->silent;
    }
    r[0] = 10.0 * (x[1] - x[0] * x[0]);
    r[1] = 1.0 - x[0];
    if (J) J[0] = -20.0 * x[0], J[1] = 10.0, J[2] = -1.0, J[3] = 0.0;
    return true;
}

static bool watch_valley(void* context, const ns_solver_progress* progress) {
    valley* v = context;
    assert_int_equal(progress->iteration, ++v->observed);
    assert_true(progress->value < v->last);
    v->last = progress->value;
    double r[2];
    assert_true(valley_residuals(&(valley){.wall = INFINITY}, progress->x, r, NULL));
    assert_true(progress->value == 0.5 * (r[0] * r[0] + r[1] * r[1]));
    return v->observed == v->stop_at;
}

static ns_solver_problem valley_problem(valley* v) {
    return (ns_solver_problem){
        .n = 2, .m = 2, .residuals = valley_residuals, .observe = watch_valley, .context = v};
}

static ns_solver_result minimise(valley* v, double* x, const ns_solver_options* options) {
    ns_solver_problem p = valley_problem(v);
    ns_solver_result out;
    ns_error error = {0};
    v->last = INFINITY;
    must(ns_minimise("lm", &p, options, x, &out, &error), &error);
    return out;
}

static void finds_the_end_of_the_valley(void** state) {
    (void)state;
    valley v = {.wall = INFINITY};
    double x[2] = {-1.2, 1.0}, ones[2] = {1.0, 1.0};
    ns_solver_result out = minimise(&v, x, NULL);
    residual residuals = {.name = "Rosenbrock", .tolerance = 1e-9};
    residual_array(&residuals, x, ones, 2, 1.0);
    residual_check(&residuals);
    assert_int_equal(out.finish, NS_FINISH_CONVERGED);
    assert_int_equal(out.iterations, v.observed);
    assert_int_equal(out.evaluations, v.calls);
    assert_true(out.value < 1e-20);
}

// The way leads past a wall, behind which there are no residuals.
static void steps_back_from_where_there_are_no_residuals(void** state) {
    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        valley v = {.wall = 1.0 + 1e-7, .silent = silent};
        double x[2] = {-1.2, 1.0};
        ns_solver_result out = minimise(&v, x, &(ns_solver_options){.damping = 1e-12});
        assert_true(fabs(x[0] - 1.0) < 1e-5 && x[0] <= v.wall);
        assert_int_equal(out.finish, NS_FINISH_CONVERGED);

        double y[2] = {2.0, 1.0};
        out = minimise(&(valley){.wall = 1.0, .silent = silent}, y, NULL);
        assert_int_equal(out.finish, NS_FINISH_FAILED);
        assert_true(!isfinite(out.value) && y[0] == 2.0 && y[1] == 1.0);
    }
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

static void stops_when_told_and_after_its_iterations(void** state) {
    (void)state;
    for (uint32_t limit = 1; limit < 6; limit++) {
        valley v = {.wall = INFINITY}, w = {.wall = INFINITY, .stop_at = limit};
        double x[2] = {-1.2, 1.0}, y[2] = {-1.2, 1.0};
        ns_solver_result out = minimise(&v, x, &(ns_solver_options){.max_iterations = limit});
        assert_int_equal(out.finish, NS_FINISH_LIMIT);
        assert_int_equal(out.iterations, limit);
        out = minimise(&w, y, NULL);
        assert_int_equal(out.finish, NS_FINISH_STOPPED);
        assert_int_equal(out.iterations, limit);
        assert_memory_equal(x, y, sizeof x);
    }
}

static void a_stored_run_goes_on_bit_for_bit(void** state) {
    (void)state;
    const ns_solver* lm = &nsi_solver_lm;
    valley v = {.wall = INFINITY};
    double want[2] = {-1.2, 1.0}, x[2] = {-1.2, 1.0}, numbers[3] = {0};
    ns_solver_result whole = minimise(&v, want, NULL), out = {.finish = NS_FINISH_LIMIT};
    ns_solver_problem p = valley_problem(&v);
    p.observe = NULL;
    ns_solver_options o = {.max_iterations = 50};
    for (uint32_t k = 0; out.finish == NS_FINISH_LIMIT; k++) { // a new state for each iteration
        void* solver = NULL;
        assert_int_equal(lm->create(&p, &o, &solver, NULL), NS_OK);
        assert_int_equal(lm->state_size(solver), 3);
        if (k > 0) lm->load(solver, numbers);
        assert_int_equal(lm->step(solver, x, 1, &out, NULL), NS_OK);
        lm->save(solver, numbers);
        lm->free(solver);
    }
    assert_memory_equal(x, want, sizeof x);
    assert_true(out.value == whole.value && out.finish == whole.finish);
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

// ---- other solvers, options, memory ------------------------------------------------------------

static void other_solvers_take_the_cost_from_residuals(void** state) {
    (void)state;
    const char* const solvers[] = {"lbfgs", "owlqn", "proximal", "adam", "basin_hopping", "crs2"};
    const double lower[2] = {-3.0, -3.0}, upper[2] = {3.0, 3.0};
    for (int k = 0; k < 6; k++) {
        valley v = {.wall = INFINITY};
        double x[2] = {-1.2, 1.0};
        ns_solver_problem p = valley_problem(&v);
        p.observe = NULL;
        p.lower = lower, p.upper = upper;
        ns_solver_options o = {
            .max_iterations = 20000, .tolerance = 1e-14, .learning_rate = 0.02, .threads = 1};
        if (k == 4) o.max_iterations = 2;
        ns_solver_result out;
        ns_error error = {0};
        must(ns_minimise(solvers[k], &p, &o, x, &out, &error), &error);
        assert_true(fabs(x[0] - 1.0) < 1e-3 && fabs(x[1] - 1.0) < 1e-3);
    }
}

static void bad_arguments_are_refused(void** state) {
    (void)state;
    valley v = {.wall = INFINITY};
    double x[2] = {-1.2, 1.0};
    const struct {
        ns_solver_options options;
        const char* named;
    } cases[] = {{{.damping = -1.0}, "damping"},
                 {{.damping = NAN}, "damping"},
                 {{.tolerance = NAN}, "tolerance"},
                 {{.l1 = -1.0}, "l1"},
                 {{.group_lasso = INFINITY}, "group_lasso"}};
    ns_solver_problem p = valley_problem(&v);
    ns_solver_result out;
    ns_error error;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        assert_int_equal(ns_minimise("lm", &p, &cases[k].options, x, &out, &error),
                         NS_ERR_ARGUMENT);
        assert_non_null(strstr(error.message, cases[k].named));
    }
    assert_int_equal(ns_minimise("lm", &p, NULL, NULL, &out, &error), NS_ERR_ARGUMENT);
    p.residuals = NULL;
    assert_int_equal(ns_minimise("lm", &p, NULL, x, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "residuals"));
    assert_int_equal(v.calls, 0);
}

// All solvers, with a cost and with residuals; liblbfgs and NLopt have memory of their own.
static void running_out_of_memory_is_an_error(void** state) {
    (void)state;
    const double lower[2] = {-3.0, -3.0}, upper[2] = {3.0, 3.0};
    const ns_solver* solver;
    for (uint32_t s = 0; (solver = ns_solver_at(s)) != NULL; s++) {
        bool done = false;
        for (size_t n = 1; !done; n++) {
            test_alloc counter = {.fail_at = n};
            ns_allocator allocator = test_allocator(&counter);
            valley v = {.wall = INFINITY};
            ns_solver_problem p = valley_problem(&v);
            p.observe = NULL;
            p.lower = lower, p.upper = upper;
            bool l1 = solver->capabilities & NS_SOLVER_L1;
            ns_solver_options o = {
                .max_iterations = 5, .l1 = l1 ? 0.1 : 0.0, .threads = 1, .allocator = &allocator};
            double x[2] = {-1.2, 1.0};
            ns_solver_result out;
            ns_status status = nsi_minimise(solver, &p, &o, x, &out, NULL);
            done = counter.calls < n;
            // A step of lm that has no memory for its penalty is one that does not help.
            if (done) assert_int_equal(status, NS_OK);
            if (!done) assert_true(status == NS_ERR_NOMEM || solver == &nsi_solver_lm);
            assert_int_equal(counter.live_blocks, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_end_of_the_valley),
        cmocka_unit_test(steps_back_from_where_there_are_no_residuals),
        cmocka_unit_test(a_jacobian_that_is_not_finite_fails),
        cmocka_unit_test(stops_when_told_and_after_its_iterations),
        cmocka_unit_test(a_stored_run_goes_on_bit_for_bit),
        cmocka_unit_test(a_lasso_has_the_closed_form),
        cmocka_unit_test(other_solvers_take_the_cost_from_residuals),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
