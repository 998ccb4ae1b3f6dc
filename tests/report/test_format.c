// Numbers as reports show them: as many digits as their error allows.

#include "report/format.h"
#include "support/assert.h"

#include <math.h>
#include <stdlib.h>

static void digits_follow_the_error(void** state) {
    (void)state;
    static const struct {
        double value, error;
        const char *shown, *shown_error;
    } cases[] = {
        {0.076, 0.0003, "0.0760", "0.0003"},
        {0.0760432, 0.00012, "0.07604", "0.00012"},
        {0.0760432, 0.00099, "0.0760", "0.0010"},
        {-12.3456, 0.5, "-12.3", "0.5"},
        {12345.6, 300.0, "12346", "300"},
        {0.5, 3e-6, "0.500000", "0.000003"},
        {3.25e-8, 1.2e-10, "3.250e-08", "1.2e-10"},
        {2.5e7, 4e3, "2.5000e+07", "4000"},
        {1.0, 1e-12, "1.000000", "1.0e-12"},
        {0.003, 5.0, "0.0030", "5"},
        {0.0, 0.01, "0.000", "0.010"},
        {1.5, INFINITY, "1.5000", "inf"},
        {1.5, NAN, "1.5000", "-"},
        {1.5, 0.0, "1.5000", "0"},
        {NAN, 1.0, "-", "1.0"},
        {-INFINITY, 1.0, "-inf", "1.0"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        assert_string_equal(nsi_format_value(cases[k].value, cases[k].error).text, cases[k].shown);
        assert_string_equal(nsi_format_error(cases[k].value, cases[k].error).text,
                            cases[k].shown_error);
    }
    static const struct {
        double value;
        const char* shown;
    } chosen[] = {{0.1, "0.1"},     {25.0, "25"},     {1.0, "1"},          {100.0, "100"},
                  {-0.25, "-0.25"}, {0.0, "0"},       {2.5e-9, "2.5e-09"}, {1e20, "1e+20"},
                  {NAN, "-"},       {INFINITY, "inf"}};
    for (size_t k = 0; k < sizeof chosen / sizeof *chosen; k++) {
        assert_string_equal(nsi_format_short(chosen[k].value, 4).text, chosen[k].shown);
    }
    assert_string_equal(nsi_format(0.0, 3).text, "0");
    assert_string_equal(nsi_format(99.96, 3).text, "100");
    assert_string_equal(nsi_format(0.000123456, 3).text, "0.000123");
    assert_string_equal(nsi_format(0.0000123456, 3).text, "1.23e-05");
    assert_string_equal(nsi_format(-1.7976931348623157e308, 17).text, "-1.7976931348623157e+308");
    assert_string_equal(nsi_format(-999999.9, 6).text, "-1.00000e+06");
}

// What is shown reads back to within half of its last digit.
static void shown_numbers_are_right(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    for (int k = 0; k < 20000; k++) {
        double value = ns_rng_normal(&rng) * pow(10.0, ns_rng_uniform(&rng, -12.0, 12.0));
        double error = fabs(value) * pow(10.0, ns_rng_uniform(&rng, -9.0, 3.0));
        double shown = strtod(nsi_format_value(value, error).text, NULL);
        double shown_error = strtod(nsi_format_error(value, error).text, NULL);
        // Two digits at least, and below the error.
        assert_true(fabs(shown - value) <=
                    fmin(0.0501 * fabs(value), 0.51 * error + 1e-6 * fabs(value)));
        assert_true(fabs(shown_error - error) <= 0.251 * error);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_follow_the_error),
        cmocka_unit_test(shown_numbers_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
