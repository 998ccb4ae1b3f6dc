// Lists of numbers in attributes of files: how many there may be, and what messages quote.

#include "io/numbers.h"
#include "support/assert.h"

#include <string.h>

static void numbers_are_read(void** state) {
    (void)state;
    double x[3] = {0};
    uint32_t count = 9;
    ns_error error = {0};
    must(nsi_numbers_parse(" 1\t-2.5e-3\n+16 ", 1, 3, x, &count, &error), &error);
    assert_int_equal(count, 3);
    all_close(x, (double[]){1.0, -2.5e-3, 16.0}, 3, 0.0);
    must(nsi_numbers_parse("7", 1, 3, x, &count, &error), &error);
    assert_int_equal(count, 1);
    must(nsi_numbers_parse(" \r\n", 0, 3, x, &count, &error), &error);
    assert_int_equal(count, 0);
}

static void faults_are_quoted(void** state) {
    (void)state;
    static const struct {
        const char* text;
        uint32_t min, max;
        const char* message;
    } cases[] = {
        {"1 two 3", 3, 3, "\"two\" is not a number"},
        {"1e999", 1, 1, "\"1e999\" is too large or too long a number"},
        {"inf", 1, 1, "\"inf\" is not finite"},
        {"nan", 1, 1, "\"nan\" is not finite"},
        {"1 2", 3, 3, "\"1 2\" has 2 numbers where 3 are needed"},
        {"1 2 3 4", 1, 3, "\"1 2 3 4\" has 4 numbers where 1 to 3 are needed"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double x[3];
        uint32_t count = 9;
        ns_error error = {0};
        assert_int_equal(
            nsi_numbers_parse(cases[k].text, cases[k].min, cases[k].max, x, &count, &error),
            NS_ERR_PARSE);
        assert_string_equal(error.message, cases[k].message);
        assert_int_equal(count, 0);
    }
}

static void quotes_are_short_and_printable(void** state) {
    (void)state;
    char out[NSI_QUOTE_SIZE], text[200];
    assert_string_equal(nsi_quote("a\tb\x7f", 4, out), "\"a b \"");
    memset(text, 'x', sizeof text);
    nsi_quote(text, sizeof text, out);
    assert_int_equal(strlen(out), NSI_QUOTE_SIZE - 1);
    assert_string_equal(out + strlen(out) - 5, "x...\"");

    // A character of two bytes is not cut in two, wherever it lies.
    for (size_t shift = 0; shift < 2; shift++) {
        memset(text, 'x', shift);
        for (size_t k = shift; k + 1 < sizeof text; k += 2) memcpy(text + k, "\xc3\xa4", 2);
        nsi_quote(text, 150, out);
        assert_int_equal((unsigned char)out[strlen(out) - 5], 0xA4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read),
        cmocka_unit_test(faults_are_quoted),
        cmocka_unit_test(quotes_are_short_and_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
