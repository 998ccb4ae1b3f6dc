// The table of solvers: finding, listing, registering.

#include "solver/solvers.h"
#include "support/assert.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static ns_status stub_create(const ns_solver_problem* problem, const ns_solver_options* options,
                             void** state, ns_error* error) {
    (void)problem, (void)options, (void)state, (void)error;
    return NS_OK;
}

static ns_status stub_step(void* state, double* x, uint32_t iterations, ns_solver_result* result,
                           ns_error* error) {
    (void)state, (void)x, (void)iterations, (void)error;
    *result = (ns_solver_result){.finish = NS_FINISH_CONVERGED};
    return NS_OK;
}

static uint32_t stub_size(const void* state) {
    (void)state;
    return 0;
}

static void stub_save(const void* state, double* numbers) {
    (void)state, (void)numbers;
}

static void stub_load(void* state, const double* numbers) {
    (void)state, (void)numbers;
}

static void stub_free(void* state) {
    (void)state;
}

static const ns_solver stub = {.name = "stub",
                               .create = stub_create,
                               .step = stub_step,
                               .state_size = stub_size,
                               .save = stub_save,
                               .load = stub_load,
                               .free = stub_free};

static void names_are_chosen_by_what_solvers_can(void** state) {
    (void)state;
    char text[200];
    nsi_solver_list(NS_SOLVER_L1, 0, text, sizeof text);
    assert_string_equal(text, "lm, owlqn or proximal");
    nsi_solver_list(NS_SOLVER_STOCHASTIC, 0, text, sizeof text);
    assert_string_equal(text, "adam");
    nsi_solver_list(0, NS_SOLVER_GRADIENT | NS_SOLVER_STARTS | NS_SOLVER_LEAST_SQUARES, text,
                    sizeof text);
    assert_string_equal(text, "crs2, isres or esch");
    nsi_solver_list(0, 0, text, 10); // cut off, not overrun
    assert_true(strlen(text) < 10);

    ns_error error;
    assert_ptr_equal(nsi_solver_choose("lm", 0, NS_SOLVER_GLOBAL, &error), &nsi_solver_lm);
    assert_null(nsi_solver_choose("lm", NS_SOLVER_GLOBAL, 0, &error));
    assert_non_null(strstr(error.message, "basin_hopping"));
    assert_null(strstr(error.message, "lbfgs"));
    assert_null(nsi_solver_choose(NULL, 0, 0, &error));
    assert_string_equal(nsi_solver_title(&nsi_solver_owlqn), "OWL-QN");
    assert_string_equal(nsi_solver_title(&stub), "stub");
}

static void bad_records_are_refused(void** state) {
    (void)state;
    ns_error error = {0};
    must(ns_solver_register(&stub, &error), &error);
    assert_int_equal(ns_solver_register(&stub, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "already"));
    ns_solver copy = stub;
    copy.name = "lm";
    assert_int_equal(ns_solver_register(&copy, &error), NS_ERR_ARGUMENT);
    copy.name = "other";
    copy.step = NULL;
    assert_int_equal(ns_solver_register(&copy, &error), NS_ERR_ARGUMENT);
    copy = stub;
    copy.name = "other";
    copy.load = NULL;
    assert_int_equal(ns_solver_register(&copy, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_solver_register(NULL, &error), NS_ERR_ARGUMENT);
    assert_null(ns_solver_find("other"));
}

enum { THREADS = 4, EACH = 5 };
static char names[THREADS][EACH][16];
static ns_solver records[THREADS][EACH];

static void* register_some(void* argument) {
    ns_solver* own = argument;
    for (int k = 0; k < EACH; k++) {
        if (ns_solver_register(&own[k], NULL) != NS_OK) return argument;
        if (ns_solver_find(own[k].name) != &own[k]) return argument;
    }
    return NULL;
}

static void several_threads_can_register(void** state) {
    (void)state;
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        for (int k = 0; k < EACH; k++) {
            snprintf(names[t][k], sizeof names[t][k], "own_%d_%d", t, k);
            records[t][k] = stub;
            records[t][k].name = names[t][k];
        }
        assert_int_equal(pthread_create(&threads[t], NULL, register_some, records[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        void* failed = NULL;
        pthread_join(threads[t], &failed);
        assert_null(failed);
    }
    for (int t = 0; t < THREADS; t++) {
        for (int k = 0; k < EACH; k++) {
            assert_ptr_equal(ns_solver_find(names[t][k]), &records[t][k]);
        }
    }
}

static void the_table_has_an_end(void** state) {
    (void)state;
    static char more[100][16];
    static ns_solver many[100];
    ns_error error;
    ns_status status = NS_OK;
    for (int k = 0; k < 100 && status == NS_OK; k++) {
        snprintf(more[k], sizeof more[k], "more_%d", k);
        many[k] = stub;
        many[k].name = more[k];
        status = ns_solver_register(&many[k], &error);
    }
    assert_int_equal(status, NS_ERR_LIMIT);
    assert_null(nsi_solver_choose("nothing like it", 0, 0, &error));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_chosen_by_what_solvers_can),
        cmocka_unit_test(bad_records_are_refused),
        cmocka_unit_test(several_threads_can_register),
        cmocka_unit_test(the_table_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
