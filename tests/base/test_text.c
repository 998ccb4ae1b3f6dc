// The text builder and numbers as text; tests/expr/test_print.c tries the numbers in other locales.

#include "base/common.h"
#include "support/testalloc.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void text_grows(void** state) {
    (void)state;
    test_alloc counter = {0};
    nsi_text_builder b = {.allocator = test_allocator(&counter)};
    for (unsigned i = 0; i < 1000; i++) nsi_text_add(&b, "%u,%s", i % 10, i % 2 ? "" : "\n");
    nsi_text_add_bytes(&b, "ab\0c", 4);
    nsi_text_add_bytes(&b, NULL, 0);
    nsi_text_add(&b, "%5000d", 7); // more than doubling gives
    ns_text text;
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    assert_int_equal(text.size, 2500 + 4 + 5000);
    assert_memory_equal(text.data, "0,\n1,2,\n3,", 10);
    assert_memory_equal(text.data + 2500, "ab\0c ", 5);
    assert_string_equal(text.data + text.size - 2, " 7");
    assert_int_equal(counter.live_blocks, 1);
    ns_text_free(&text);
    assert_null(text.data);
    ns_text_free(&text);
    ns_text_free(NULL);
    assert_int_equal(counter.live_blocks, 0);
}

static void empty_text_is_a_string(void** state) {
    (void)state;
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    ns_text text;
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    assert_string_equal(text.data, "");
    assert_int_equal(text.size, 0);
    ns_text_free(&text);
}

static void failures_stick(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        nsi_text_builder b = {.allocator = test_allocator(&counter)};
        for (int i = 0; i < 100; i++) nsi_text_add(&b, "line %d\n", i);
        nsi_text_add_double(&b, 1.5);
        ns_text text;
        ns_error error = {0};
        ns_status status = nsi_text_finish(&b, &text, &error);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            ns_text_free(&text);
            assert_in_range(n, 4, 30);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(error.status, NS_ERR_NOMEM);
        assert_null(text.data);
        assert_int_equal(counter.live_blocks, 0);
    }

    // More than the count can hold.
    test_alloc counter = {0};
    nsi_text_builder b = {.allocator = test_allocator(&counter)};
    nsi_text_add(&b, "some");
    nsi_text_add_bytes(&b, "", SIZE_MAX);
    nsi_text_add(&b, "more");
    ns_text text;
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_ERR_NOMEM);
    assert_int_equal(counter.live_blocks, 0);
}

static void numbers_are_as_short_as_can_be(void** state) {
    (void)state;
    static const struct {
        double value;
        const char* text;
    } cases[] = {
        {0.0, "0"},
        {-0.0, "-0"},
        {0.1, "0.1"},
        {1.0 / 3.0, "0.3333333333333333"},
        {2.0 / 3.0, "0.6666666666666666"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1e100, "1e+100"},
        {-1.5e-7, "-1.5e-07"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {5e-324, "4.94065645841247e-324"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
        {-NAN, "nan"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        nsi_text_builder b = {.allocator = ns_default_allocator()};
        nsi_text_add_double(&b, cases[k].value);
        ns_text text;
        assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
        assert_string_equal(text.data, cases[k].text);
        double back;
        assert_int_equal(nsi_text_read_double(text.data, text.size, &back), NS_OK);
        assert_true(isnan(back) ? isnan(cases[k].value)
                                : memcmp(&back, &cases[k].value, sizeof back) == 0);
        ns_text_free(&text);
    }
}

static void only_numbers_are_read(void** state) {
    (void)state;
    double value;
    static const char* const bad[] = {"",    " 1",     "1 ",       "+",    "-.",  "e5",
                                      "1e",  "1e-",    "--1",      "1..2", "1,5", "0x1",
                                      "Inf", "nan(1)", "infinity", "1f"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_int_equal(nsi_text_read_double(bad[k], strlen(bad[k]), &value), NS_ERR_PARSE);
    }
    assert_int_equal(nsi_text_read_double("1\0", 2, &value), NS_ERR_PARSE);
    assert_int_equal(nsi_text_read_double("1e309", 5, &value), NS_ERR_LIMIT);
    assert_int_equal(nsi_text_read_double("12.5e1garbage", 6, &value), NS_OK);
    assert_true(value == 125.0);

    // As long as allowed, and a byte longer.
    char digits[NSI_MAX_NUMBER + 1];
    memset(digits, '0', sizeof digits);
    digits[1] = '.';
    digits[NSI_MAX_NUMBER - 1] = '1';
    assert_int_equal(nsi_text_read_double(digits, NSI_MAX_NUMBER, &value), NS_OK);
    assert_true(fabs(value / 1e-254 - 1.0) < 1e-15);
    assert_int_equal(nsi_text_read_double(digits, NSI_MAX_NUMBER + 1, &value), NS_ERR_LIMIT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows),
        cmocka_unit_test(empty_text_is_a_string),
        cmocka_unit_test(failures_stick),
        cmocka_unit_test(numbers_are_as_short_as_can_be),
        cmocka_unit_test(only_numbers_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
