// Closed sets: names and values of each table lead to each other, and help and messages of the program
// list the names of the tables.

#include "fit/spec.h"
#include "neuralsim/contact.h"
#include "neuralsim/learned.h"
#include "neuralsim/solver.h"
#include "nn/blueprint_data.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const ns_choices* const sets[] = {
    &ns_integrators, &ns_geom_types, &ns_actuator_types, &ns_param_transforms,
    &ns_activations, &ns_augments,   &ns_structures,     &ns_frictions,
    &ns_backends,    &ns_resamples,  &ns_learned_kinds,  &ns_initial_states,
    &ns_optimises,   &ns_data_roles, &ns_contact_laws,   &nsi_sharings,
};

static void names_and_values_lead_to_each_other(void** state) {
    (void)state;
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        ns_choice choice, other;
        uint32_t count = 0;
        for (; ns_choice_at(sets[s], count, &choice); count++) {
            int value = -77;
            assert_true(ns_choice_find(sets[s], choice.name, &value));
            assert_int_equal(value, choice.value);
            assert_string_equal(ns_choice_name(sets[s], choice.value), choice.name);
            for (uint32_t k = 0; k < count && ns_choice_at(sets[s], k, &other); k++) {
                assert_string_not_equal(other.name, choice.name);
                assert_int_not_equal(other.value, choice.value);
            }
        }
        assert_true(count >= 2);
        assert_false(ns_choice_has(sets[s], -77));
    }
}

static void solvers_are_found_by_their_names(void** state) {
    (void)state;
    uint32_t count = 0;
    for (const ns_solver* solver; (solver = ns_solver_at(count)) != NULL; count++) {
        assert_ptr_equal(ns_solver_find(solver->name), solver);
        assert_true(*solver->help);
    }
    assert_true(count >= 11);
    assert_null(ns_solver_find("no such solver"));
}

static void help_lists_the_names(void** state) {
    (void)state;
    static const struct {
        const char* command;
        const ns_choices* set;
    } cases[] = {{"simulate", &ns_integrators},  {"score", &ns_integrators},
                 {"gradcheck", &ns_integrators}, {"simulate", &ns_contact_laws},
                 {"eval", &ns_contact_laws},     {"simulate", &ns_frictions},
                 {"simulate", &ns_backends},     {"graph", &ns_backends}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char arguments[80], names[NS_ERROR_SIZE];
        snprintf(arguments, sizeof arguments, "%s --help", cases[k].command);
        ns_choices_list(cases[k].set, names, sizeof names);
        run_ok(arguments);
        assert_non_null(strstr(last.out, names));
        assert_null(strchr(last.out, '{'));
    }
}

static void messages_list_the_names(void** state) {
    (void)state;
    char expected[NS_ERROR_SIZE + 100], names[NS_ERROR_SIZE];
    ns_choices_list(&ns_integrators, names, sizeof names);
    snprintf(expected, sizeof expected,
             "--integrator: 'eulr' is not one of: %s; did you mean \"euler\"?", names);
    run_bad("simulate x.urdf --integrator eulr", 2, expected);
    snprintf(expected, sizeof expected, "--integrator needs one of: %s", names);
    run_bad("simulate x.urdf --integrator", 2, expected);
    tempdir_write("h.yaml", "robot: a.urdf\nintegrator: runge_kutta\n");
    snprintf(expected, sizeof expected,
             "h.yaml:2:13: integrator: \"runge_kutta\" is not one of: %s; did you mean \"rk4\"?",
             names);
    run_bad("inspect h.yaml", 1, expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_values_lead_to_each_other),
        cmocka_unit_test(solvers_are_found_by_their_names),
        cmocka_unit_test(help_lists_the_names),
        cmocka_unit_test(messages_list_the_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
