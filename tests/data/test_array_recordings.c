// Recordings from numbers in memory.

#include "neuralsim/data.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <math.h>

static const ns_array_channel channels[] = {
    {.name = "q0", .sigma = 0.01}, {.name = "qd0"}, {.name = "q1", .weight = -1.0}};
static const char* const controls[] = {"tau0"};

static ns_status make(const ns_allocator* memory, ns_dataset** out, ns_error* error) {
    return ns_dataset_create_arrays(channels, 3, controls, 1, 0.02, memory, out, error);
}

static void numbers_are_copied(void** state) {
    (void)state;
    ns_error error = {0};
    ns_dataset* data = NULL;
    must(make(NULL, &data, &error), &error);
    double values[] = {1, 2, 3, NAN, 5, 6}, u[] = {7, 8};
    must(ns_dataset_add_arrays(data, "swing", 2, values, u, &error), &error);
    values[0] = u[0] = 0.0;

    assert_true(ns_dataset_period(data) == 0.02);
    assert_int_equal(ns_dataset_channel_count(data), 3);
    assert_true(ns_dataset_channel(data, 0)->sigma == 0.01);
    assert_true(ns_dataset_channel(data, 1)->weight == 1.0);
    assert_true(ns_dataset_channel(data, 2)->weight == 0.0);
    assert_string_equal(ns_dataset_control(data, 0), "tau0");
    assert_int_equal(ns_dataset_recording_count(data), 1);
    const ns_recording* r = ns_dataset_recording(data, 0);
    assert_string_equal(r->name, "swing");
    assert_string_equal(r->file, "swing");
    assert_true(r->nsample == 2 && r->nmissing == 1 && r->start == 0.0);
    same_bits("values", r->values, (double[]){1, 2, 3, NAN, 5, 6}, 6);
    same_bits("controls", r->controls, (double[]){7, 8}, 2);
    ns_dataset_free(data);
}

static void refused(ns_status status, ns_status expected, const ns_error* error, const char* says) {
    assert_int_equal(status, expected);
    assert_says(error->message, says);
}

static void mistakes(void** state) {
    (void)state;
    ns_error error = {0};
    ns_dataset* data = NULL;
    const ns_status wrong = NS_ERR_ARGUMENT;
    const ns_array_channel twice[] = {{.name = "q0"}, {.name = "q0"}}, bad = {"q0", -1.0, 0.0};
    refused(ns_dataset_create_arrays(NULL, 0, NULL, 0, 0.1, NULL, &data, &error), wrong, &error,
            "no channels");
    refused(ns_dataset_create_arrays(channels, 1, NULL, 1, 0.1, NULL, &data, &error), wrong, &error,
            "no names of controls");
    refused(ns_dataset_create_arrays(channels, 1, NULL, 0, 0.0, NULL, &data, &error), wrong, &error,
            "period");
    refused(ns_dataset_create_arrays(twice, 2, NULL, 0, 0.1, NULL, &data, &error), wrong, &error,
            "two channels q0");
    refused(ns_dataset_create_arrays(&bad, 1, NULL, 0, 0.1, NULL, &data, &error), wrong, &error,
            "sigma");
    refused(ns_dataset_create_arrays(&(ns_array_channel){0}, 1, NULL, 0, 0.1, NULL, &data, &error),
            wrong, &error, "channel 0 has no name");
    assert_null(data);

    must(make(NULL, &data, &error), &error);
    double values[6] = {0}, u[2] = {0, NAN};
    refused(ns_dataset_add_arrays(data, "a", 2, values, NULL, &error), wrong, &error, "NULL");
    refused(ns_dataset_add_arrays(data, "a", 1, values, u, &error), wrong, &error, "2 samples");
    refused(ns_dataset_add_arrays(data, "a", 2, values, u, &error), NS_ERR_NONFINITE, &error,
            "a: sample 1 of tau0 is not finite");
    u[1] = 0.0, values[4] = INFINITY;
    refused(ns_dataset_add_arrays(data, "a", 2, values, u, &error), NS_ERR_NONFINITE, &error,
            "a: sample 1 of qd0 is infinite");
    refused(ns_dataset_add(data, "a.csv", NULL, &error), wrong, &error, "has no map");
    assert_int_equal(ns_dataset_recording_count(data), 0);
    ns_dataset_free(data);
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator memory = test_allocator(&counter);
        ns_dataset* data = NULL;
        ns_error error = {0};
        double values[6] = {0}, u[2] = {0};
        ns_status status = make(&memory, &data, &error);
        if (status == NS_OK) status = ns_dataset_add_arrays(data, "a", 2, values, u, &error);
        assert_int_equal(status, counter.calls < n ? NS_OK : NS_ERR_NOMEM);
        ns_dataset_free(data);
        assert_int_equal(counter.live_blocks, 0);
        if (status == NS_OK) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_copied),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
