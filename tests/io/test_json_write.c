// JSON that is written is JSON: another library reads it, and finds what was put in.

#include "neuralsim/json.h"

#include "support/testalloc.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void values_come_back(void** state) {
    (void)state;
    static const double numbers[] = {0.1, -1.0 / 3.0, 1e-320, 1.7976931348623157e308, -0.0, 7.0};
    ns_json* j = ns_json_create(NULL);
    ns_json_text(j, "text", "a \"b\" \\ \t\n\x01 <b>");
    ns_json_text(j, "</script>", NULL);
    ns_json_text(j, "broken", "\xc3(\xff\xe2\x82");
    ns_json_numbers(j, "numbers", numbers, 6);
    ns_json_number(j, "nan", NAN);
    ns_json_number(j, "inf", -INFINITY);
    ns_json_count(j, "count", 1234567890123456789u);
    ns_json_bool(j, "yes", true);
    ns_json_value(j, "raw", "[1,[]]", 6);
    ns_json_open(j, "list", '[');
    ns_json_open(j, NULL, '{');
    ns_json_open(j, "left open", '['); // closed in the end
    ns_text text;
    assert_int_equal(ns_json_finish(j, &text, NULL), NS_OK);
    assert_null(strchr(text.data, '<'));

    json_t* object = json_loads(text.data, 0, NULL); // refuses what is not UTF-8
    assert_non_null(object);
    assert_string_equal(json_string_value(json_object_get(object, "text")),
                        "a \"b\" \\ \t\n\x01 <b>");
    assert_true(json_is_null(json_object_get(object, "</script>")));
    assert_string_equal(json_string_value(json_object_get(object, "broken")),
                        "\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    for (size_t k = 0; k < 6; k++) {
        assert_true(json_number_value(json_array_get(json_object_get(object, "numbers"), k)) ==
                    numbers[k]);
    }
    assert_true(json_is_null(json_object_get(object, "nan")));
    assert_true(json_is_null(json_object_get(object, "inf")));
    assert_int_equal(json_integer_value(json_object_get(object, "count")), 1234567890123456789);
    assert_true(json_is_true(json_object_get(object, "yes")));
    assert_int_equal(json_array_size(json_object_get(object, "raw")), 2);
    assert_int_equal(json_array_size(json_object_get(object, "list")), 1);
    json_decref(object);
    ns_text_free(&text);
}

static void out_of_memory_is_told(void** state) {
    (void)state;
    ns_status status = NS_ERR_NOMEM;
    for (size_t n = 1; status == NS_ERR_NOMEM; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_json* j = ns_json_create(&allocator);
        for (int k = 0; k < 100; k++) ns_json_number(j, "number", k / 3.0);
        ns_text text;
        status = ns_json_finish(j, &text, NULL);
        assert_true(status == NS_ERR_NOMEM || counter.calls < n);
        ns_text_free(&text);
        assert_int_equal(counter.live_blocks, 0);
    }
}

// Levels beyond the limit are left out without harm, and the end tells.
static void too_deep_is_told(void** state) {
    (void)state;
    ns_json* j = ns_json_create(NULL);
    for (int k = 0; k < 2 * NS_JSON_DEPTH; k++) ns_json_open(j, k == 0 ? "a" : NULL, '[');
    for (int k = 0; k < 3 * NS_JSON_DEPTH; k++) ns_json_close(j);
    ns_text text;
    ns_error error = {0};
    assert_int_equal(ns_json_finish(j, &text, &error), NS_ERR_LIMIT);
    assert_string_equal(error.message, "JSON of more than 16 levels");
    assert_null(text.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back),
        cmocka_unit_test(out_of_memory_is_told),
        cmocka_unit_test(too_deep_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
