// Any solver on any problem: a cost from residuals, what a solver needs, memory.

#include "solver/solvers.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

// Rosenbrock's valley as two residuals; without any where x_0 is above 2.
static bool valley_residuals(void* context, const double* x, double* r, double* J) {
    ++*(uint32_t*)context;
    if (x[0] > 2.0) return false;
    r[0] = 10.0 * (x[1] - x[0] * x[0]);
    r[1] = 1.0 - x[0];
    if (J) J[0] = -20.0 * x[0], J[1] = 10.0, J[2] = -1.0, J[3] = 0.0;
    return true;
}

static const double lower[2] = {-3.0, -3.0}, upper[2] = {3.0, 3.0};

static ns_solver_problem valley_problem(uint32_t* calls) {
    return (ns_solver_problem){.n = 2,
                               .m = 2,
                               .residuals = valley_residuals,
                               .lower = lower,
                               .upper = upper,
                               .context = calls};
}

static bool stop_at_four(void* context, const ns_solver_progress* progress) {
    assert_true(*(uint32_t*)context > 0); // the context is the problem's own
    return progress->iteration == 4;
}

static void every_solver_minimises_residuals(void** state) {
    (void)state;
    const ns_solver* solver;
    for (uint32_t k = 0; (solver = ns_solver_at(k)) != NULL; k++) {
        uint32_t calls = 0;
        double x[2] = {-1.2, 1.0}, y[2] = {-1.2, 1.0};
        ns_solver_problem p = valley_problem(&calls);
        bool starts = solver->capabilities & NS_SOLVER_STARTS;
        ns_solver_options o = {.max_iterations = starts ? 3 : 20000,
                               .tolerance = 1e-14,
                               .learning_rate = 0.02,
                               .threads = 1};
        ns_solver_result out;
        ns_error error = {0};
        must(ns_minimise(solver->name, &p, &o, x, &out, &error), &error);
        double most = strcmp(solver->name, "esch") == 0 ? 0.5 : 1e-6; // it does not refine
        if (!(out.value < most)) fail_msg("%s ends at %g", solver->name, out.value);
        assert_true(calls >= out.evaluations);

        p.observe = stop_at_four;
        o.max_iterations = 20;
        must(ns_minimise(solver->name, &p, &o, y, &out, &error), &error);
        assert_int_equal(out.finish, NS_FINISH_STOPPED);
        assert_int_equal(out.iterations, 4);
    }
}

static void a_start_without_residuals_fails(void** state) {
    (void)state;
    const char* const solvers[] = {"lm", "lbfgs", "owlqn", "adam", "proximal"};
    for (int k = 0; k < 5; k++) {
        uint32_t calls = 0;
        double x[2] = {2.5, 1.0};
        ns_solver_problem p = valley_problem(&calls);
        ns_solver_result out;
        ns_error error = {0};
        must(ns_minimise(solvers[k], &p, NULL, x, &out, &error), &error);
        assert_int_equal(out.finish, NS_FINISH_FAILED);
        assert_true(!isfinite(out.value) && x[0] == 2.5);
        assert_string_equal(ns_finish_text(out.finish), "failed");
    }
}

static void problems_must_have_what_a_solver_needs(void** state) {
    (void)state;
    uint32_t calls = 0;
    double x[2] = {-1.2, 1.0};
    ns_solver_problem p = valley_problem(&calls);
    ns_solver_result out;
    ns_error error;
    assert_int_equal(ns_minimise("lm", &p, NULL, NULL, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "a start"));
    assert_int_equal(ns_minimise("lm", &p, NULL, x, NULL, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_minimise("lm", NULL, NULL, x, &out, &error), NS_ERR_ARGUMENT);
    p.residuals = NULL;
    assert_int_equal(ns_minimise("lm", &p, NULL, x, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "residuals"));
    assert_int_equal(ns_minimise("adam", &p, NULL, x, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "a cost"));
    assert_int_equal(ns_minimise("basin_hopping", &p, NULL, x, &out, &error), NS_ERR_ARGUMENT);
    p = valley_problem(&calls);
    p.lower = NULL;
    assert_int_equal(ns_minimise("restart", &p, NULL, x, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "a box"));
    assert_int_equal(ns_minimise("lmm", &p, NULL, x, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "did you mean \"lm\"?"));

    // Penalties that nobody would add.
    const ns_gauss_newton normal = {.context = &calls};
    p = (ns_solver_problem){.n = 2, .gauss_newton = &normal};
    const ns_solver_options penalties[] = {{.l1 = 0.1}, {.group_lasso = 0.1}};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(ns_minimise("lm", &p, &penalties[k], NULL, &out, &error), NS_ERR_ARGUMENT);
        assert_non_null(strstr(error.message, "use `residuals`"));
    }
    assert_int_equal(calls, 0);
}

// All solvers, with a cost and with residuals; liblbfgs and NLopt have memory of their own.
static void running_out_of_memory_is_an_error(void** state) {
    (void)state;
    const ns_solver* solver;
    for (uint32_t s = 0; (solver = ns_solver_at(s)) != NULL; s++) {
        bool done = false;
        for (size_t n = 1; !done; n++) {
            test_alloc counter = {.fail_at = n};
            ns_allocator allocator = test_allocator(&counter);
            uint32_t calls = 0;
            ns_solver_problem p = valley_problem(&calls);
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
        cmocka_unit_test(every_solver_minimises_residuals),
        cmocka_unit_test(a_start_without_residuals_fails),
        cmocka_unit_test(problems_must_have_what_a_solver_needs),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
