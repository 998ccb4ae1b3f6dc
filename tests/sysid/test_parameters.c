// The public list of parameters to estimate: globs, bounds, formulas, variants, misuse.

#include "neuralsim/parameters.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <math.h>

static ns_model* robot;

static int load_robot(void** state) {
    (void)state;
    return ns_model_load(NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf", NULL, &robot, NULL);
}

static int free_robot(void** state) {
    (void)state;
    ns_model_free(robot);
    return 0;
}

static ns_parameters* empty(void) {
    ns_parameters* params = NULL;
    ns_error error = {0};
    must(ns_parameters_create(&(ns_variant){.model = robot}, 1, NULL, &params, &error), &error);
    return params;
}

static void refused(ns_status status, const ns_error* error, const char* says) {
    assert_int_equal(status, NS_ERR_ARGUMENT);
    assert_says(error->message, says);
}

static void globs_bounds_and_own_numbers(void** state) {
    (void)state;
    ns_error error = {0};
    ns_parameters* params = empty();
    ns_parameter mass = ns_default_parameter(), own = ns_default_parameter();
    mass.upper = 30.0, mass.prior_sigma = 0.5;
    own.initial = 0.2, own.lower = 0.0;
    must(ns_parameters_add(params, "link/*/mass", &mass, &error), &error);
    must(ns_parameters_add(params, "friction", &own, &error), &error);
    must(ns_parameters_set(params, "joint/*/damping", "2 * friction", &error), &error);

    // Both links, then the number of our own.
    assert_int_equal(ns_parameters_count(params), 3);
    const ns_parameter_info* first = ns_parameters_at(params, 0);
    assert_string_equal(first->unit, "kg");
    assert_int_equal(first->transform, NS_PARAMETER_BOX);
    assert_true(first->upper == 30.0 && first->lower == 0.0 && first->prior_sigma == 0.5);
    const ns_parameter_info* last = ns_parameters_at(params, 2);
    assert_string_equal(last->name, "friction");
    assert_true(last->initial == 0.2 && isinf(last->upper) && isinf(last->prior_sigma));
    assert_int_equal(ns_parameters_find(params, "friction"), 2);
    assert_int_equal(ns_parameters_find(params, "frictio"), UINT32_MAX);
    assert_null(ns_parameters_at(params, 3));

    must(ns_parameters_set_initial(params, "friction", 0.4, &error), &error);
    assert_true(ns_parameters_at(params, 2)->initial == 0.4);
    ns_parameters_free(params);
}

static void mistakes_name_the_nearest(void** state) {
    (void)state;
    ns_error error = {0};
    ns_parameters* params = empty();
    ns_parameter how = ns_default_parameter();
    refused(ns_parameters_add(params, "link/link1/mas", NULL, &error), &error,
            "no parameter matches \"link/link1/mas\"; did you mean \"link/link1/mass\"?");
    refused(ns_parameters_set(params, "joint/*/dampnig", "1", &error), &error, "no parameter");
    refused(ns_parameters_add(params, "length", NULL, &error), &error, "needs an initial value");
    how.lower = 5.0, how.upper = 4.0;
    refused(ns_parameters_add(params, "link/link1/mass", &how, &error), &error, "lower bound 5");
    how.upper = 6.0;
    refused(ns_parameters_add(params, "link/link1/mass", &how, &error), &error,
            "is not between 5 and 6");
    how = ns_default_parameter(), how.transform = NS_PARAMETER_NONE;
    refused(ns_parameters_add(params, "link/link1/mass", &how, &error), &error, "transform");
    refused(ns_parameters_set(params, "joint/*/damping", "2 *", &error), &error, "character");
    refused(ns_parameters_add(NULL, "a", NULL, &error), &error, "NULL");
    refused(ns_parameters_set(params, "a", NULL, &error), &error, "NULL");
    refused(ns_parameters_set_initial(params, "a", 1.0, &error), &error, "\"a\" is estimated");

    // What failed has added nothing, and may be asked for in another way.
    assert_int_equal(ns_parameters_count(params), 0);
    must(ns_parameters_add(params, "link/link1/mass", NULL, &error), &error);
    refused(ns_parameters_add(params, "link/*/mass", NULL, &error), &error, "asked for twice");
    assert_int_equal(ns_parameters_count(params), 1);
    refused(ns_parameters_set(params, "link/*/mass", "1", &error), &error, "already estimated");
    refused(ns_parameters_set_initial(params, "link/link1/mass", -1.0, &error), &error,
            "not between");
    must(ns_parameters_set(params, "link/link0/mass", "2 * \"link/link1/mass\"", &error), &error);
    ns_parameters_free(params);
}

static void variants_share(void** state) {
    (void)state;
    ns_error error = {0};
    ns_parameters* params = NULL;
    ns_system_options heavy = ns_default_system_options();
    heavy.set = &(ns_param_value){"link/link1/mass", 9.0}, heavy.nset = 1;
    ns_variant variants[] = {{"light", "*_a.csv", robot, NULL},
                             {"heavy", "*_b.csv", robot, &heavy}};
    must(ns_parameters_create(variants, 2, NULL, &params, &error), &error);
    refused(ns_parameters_add(params, "link/*/mass", NULL, &error), &error,
            "can have one initial value only");
    assert_int_equal(ns_parameters_count(params), 0);
    ns_parameter mass = ns_default_parameter();
    mass.initial = 2.0;
    must(ns_parameters_add(params, "link/*/mass", &mass, &error), &error);
    assert_int_equal(ns_parameters_count(params), 2);
    ns_parameters_free(params);

    variants[1].name = NULL;
    refused(ns_parameters_create(variants, 2, NULL, &params, &error), &error, "variant 1");
    assert_null(params);
    refused(ns_parameters_create(&(ns_variant){0}, 1, NULL, &params, &error), &error, "no model");
    refused(ns_parameters_create(NULL, 0, NULL, &params, &error), &error, "no variant");
    ns_parameters_free(NULL);
}

static ns_status make_all(const ns_allocator* memory, ns_error* error) {
    ns_parameters* params = NULL;
    ns_parameter own = ns_default_parameter();
    own.initial = 1.0;
    ns_status status =
        ns_parameters_create(&(ns_variant){.model = robot}, 1, memory, &params, error);
    if (status == NS_OK) status = ns_parameters_add(params, "link/*/mass", NULL, error);
    if (status == NS_OK) status = ns_parameters_add(params, "a", &own, error);
    if (status == NS_OK) status = ns_parameters_set(params, "joint/*/damping", "a", error);
    ns_parameters_free(params);
    return status;
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator memory = test_allocator(&counter);
        ns_error error = {0};
        ns_status status = make_all(&memory, &error);
        assert_int_equal(status, counter.calls < n ? NS_OK : NS_ERR_NOMEM);
        assert_int_equal(counter.live_blocks, 0);
        if (status == NS_OK) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(globs_bounds_and_own_numbers),
        cmocka_unit_test(mistakes_name_the_nearest),
        cmocka_unit_test(variants_share),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, load_robot, free_robot);
}
