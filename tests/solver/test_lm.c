// Levenberg-Marquardt on residuals of callbacks that have nothing to do with robots.

#include "solver/solvers.h"
#include "support/assert.h"
#include "support/residual.h"

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

// A checkpoint may hold any numbers.
static void numbers_out_of_range_are_clamped(void** state) {
    (void)state;
    const ns_solver* lm = &nsi_solver_lm;
    valley v = {.wall = INFINITY};
    ns_solver_problem p = valley_problem(&v);
    ns_solver_options o = {.max_iterations = 50, .damping = 0.5};
    void* solver = NULL;
    assert_int_equal(lm->create(&p, &o, &solver, NULL), NS_OK);
    double numbers[3] = {1e20, -1.0, -3.0};
    lm->load(solver, numbers);
    lm->save(solver, numbers);
    assert_true(numbers[0] == UINT32_MAX && numbers[1] == 0.0 && numbers[2] == 0.5);
    numbers[0] = numbers[1] = numbers[2] = NAN;
    lm->load(solver, numbers);
    lm->save(solver, numbers);
    assert_true(numbers[0] == 0.0 && numbers[1] == 0.0 && numbers[2] == 0.5);
    lm->free(solver);
}

// A Jacobian with the wrong sign points up.
static bool wrong_residuals(void* context, const double* x, double* r, double* J) {
    bool there = valley_residuals(context, x, r, J);
    for (int k = 0; J && k < 4; k++) J[k] = -J[k];
    return there;
}

static void a_wrong_jacobian_fails(void** state) {
    (void)state;
    for (int damped = 0; damped < 2; damped++) {
        valley v = {.wall = INFINITY};
        ns_solver_problem p = {.n = 2, .m = 2, .residuals = wrong_residuals, .context = &v};
        double x[2] = {-1.2, 1.0};
        ns_solver_result out;
        ns_error error = {0};
        must(ns_minimise("lm", &p, &(ns_solver_options){.damping = damped ? 1e-12 : 0.0}, x, &out,
                         &error),
             &error);
        assert_int_equal(out.finish, NS_FINISH_FAILED);
        assert_true(x[0] == -1.2 && x[1] == 1.0);

        // Where only rounding errors are left, nothing is wrong with that.
        x[0] = 1.0, x[1] = 1.0 + 2.3e-16;
        must(ns_minimise("lm", &p, NULL, x, &out, &error), &error);
        assert_int_equal(out.finish, NS_FINISH_CONVERGED);
    }
}

static void bad_options_are_named(void** state) {
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
    assert_int_equal(v.calls, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_end_of_the_valley),
        cmocka_unit_test(steps_back_from_where_there_are_no_residuals),
        cmocka_unit_test(stops_when_told_and_after_its_iterations),
        cmocka_unit_test(a_stored_run_goes_on_bit_for_bit),
        cmocka_unit_test(numbers_out_of_range_are_clamped),
        cmocka_unit_test(a_wrong_jacobian_fails),
        cmocka_unit_test(bad_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
