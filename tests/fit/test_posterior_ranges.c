// Ranges of a table of samples whose quantiles and moments are known.

#include "neuralsim/posterior.h"
#include "support/assert.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

// 1000 samples: a = 0 .. 999 with equal weights, b = -a; c has a heavy sample. Other columns are no
// parameters.
static const char* write_samples(double heavy) {
    FILE* file = fopen(tempdir_path("samples.csv"), "wb");
    assert_non_null(file);
    fprintf(file, "chain,draw,mode,weight,log_density,divergent,a,link/b,c,window 0: q,weight 3,"
                  "noise/q0\n");
    for (int k = 0; k < 1000; k++) {
        fprintf(file, "0,%d,0,%g,%s,0,%d,%d,%d,1,1,1\n", k, k == 0 ? heavy : 1.0,
                k == 3 ? "nan" : "-1", k, -k, k == 0 ? 500 : 7);
    }
    fclose(file);
    return tempdir_path("samples.csv");
}

static double member(const json_t* root, const char* name, const char* what) {
    return json_number_value(
        json_object_get(json_object_get(json_object_get(root, "parameters"), name), what));
}

static json_t* ranges_of(const char* path, double probability) {
    ns_text text;
    ns_error error = {0};
    must(ns_posterior_ranges(path, probability, &text, &error), &error);
    json_t* root = json_loads(text.data, 0, NULL);
    assert_non_null(root);
    ns_text_free(&text);
    return root;
}

static void ranges_are_quantiles_and_moments(void** state) {
    (void)state;
    json_t* root = ranges_of(write_samples(1.0), 0.9);
    assert_int_equal(json_object_size(json_object_get(root, "parameters")), 3);
    close_to("low", member(root, "a", "low"), 50.0, 1.0);
    close_to("high", member(root, "a", "high"), 949.0, 1.0);
    close_to("mean", member(root, "link/b", "mean"), -499.5, 1e-6);
    close_to("deviation", member(root, "a", "deviation"), sqrt((1e6 - 1.0) / 12.0), 1e-4);
    json_t* values = json_object_get(json_object_get(root, "correlation"), "values");
    close_to("correlation", json_number_value(json_array_get(json_array_get(values, 0), 1)), -1.0,
             1e-9);
    json_decref(root);
}

// A sample that weighs as much as all others together is half of the distribution.
static void weights_count(void** state) {
    (void)state;
    json_t* root = ranges_of(write_samples(999.0), 0.5);
    close_to("mean", member(root, "c", "mean"), 253.5, 1e-6);
    close_to("low", member(root, "a", "low"), 0.0, 0.0);
    close_to("high", member(root, "a", "high"), 500.0, 2.0);
    json_decref(root);
}

static void bad_tables_are_refused(void** state) {
    (void)state;
    ns_text text;
    ns_error error = {0};
    const char* path = tempdir_write("other.csv", "a,b\n1,2\n");
    assert_int_equal(ns_posterior_ranges(path, 0.9, &text, &error), NS_ERR_PARSE);
    assert_says(error.message, "samples.csv");
    assert_int_equal(ns_posterior_ranges(tempdir_path("none.csv"), 0.9, &text, &error), NS_ERR_IO);
    assert_int_equal(ns_posterior_ranges(path, 1.0, &text, &error), NS_ERR_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_quantiles_and_moments),
        cmocka_unit_test(weights_count),
        cmocka_unit_test(bad_tables_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
