// Formulas of the time: values against C's own arithmetic, and messages with the place of the
// fault.

#include "cli/formula.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static double value(const char* text, double t) {
    formula f;
    size_t where = 0;
    char message[FORMULA_MESSAGE] = "";
    if (!formula_parse(text, strlen(text), &f, &where, message)) {
        fail_msg("%s: %s at %zu", text, message, where);
    }
    return formula_eval(&f, t);
}

static void formulas_have_the_value_c_gives_them(void** state) {
    (void)state;
    const double pi = 3.14159265358979323846, times[] = {0.0, 0.25, -1.5, 3.7};
    for (int k = 0; k < 4; k++) {
        double t = times[k];
#define CHECK(text, expected) assert_true(value(text, t) == (expected))
        CHECK("1", 1.0);
        CHECK(" .5 ", 0.5);
        CHECK("2.5e-3*t", 2.5e-3 * t);
        CHECK("t", t);
        CHECK("1 + 2 * t - 3 / 4", 1.0 + 2.0 * t - 3.0 / 4.0);
        CHECK("1 - 2 - 3", -4.0);
        CHECK("8 / 4 / 2", 1.0);
        CHECK("2^3^2", 512.0);
        CHECK("-2^2", -4.0);
        CHECK("2^-1", 0.5);
        CHECK("(-2)^2", 4.0);
        CHECK("2*-3", -6.0);
        CHECK("--+t", t);
        CHECK("(t + 1) * (t - 1)", (t + 1.0) * (t - 1.0));
        CHECK("0.1*sin(2*pi*t)", 0.1 * sin(2.0 * pi * t));
        CHECK("cos(t) + tan(t) - tanh(t)", cos(t) + tan(t) - tanh(t));
        CHECK("exp(-t)*sqrt(abs(t))", exp(-t) * sqrt(fabs(t)));
        CHECK("log(1 + t^2)", log(1.0 + pow(t, 2.0)));
        CHECK("min(t, 1) + max(t, 0)", fmin(t, 1.0) + fmax(t, 0.0));
        CHECK("max(min(t,1),min(2,3))", fmax(fmin(t, 1.0), 2.0));
#undef CHECK
    }
    assert_true(isinf(value("1/0", 0.0)));
    assert_true(isnan(value("log(-1)", 0.0)));
}

static void faults_are_found_where_they_are(void** state) {
    (void)state;
    static const struct {
        const char* text;
        size_t where;
        const char* message;
    } cases[] = {
        {"", 0, "the formula ends where a number should come"},
        {"1 +", 3, "the formula ends where a number should come"},
        {"1 + * 2", 4, "expected a number, t, a function or '('"},
        {"(1 + 2", 6, "expected ')'"},
        {"1 + 2)", 5, "expected an operator, not ')'"},
        {"1 2", 2, "expected an operator, not '2'"},
        {"2x", 1, "expected an operator, not 'x'"},
        {"1.2.3", 0, "'1.2.3' is not a number"},
        {"1e", 0, "'1e' is not a number"},
        {"1e999", 0, "'1e999' is not a number"},
        {"1 + time", 4,
         "'time' is not known; there are t, pi, sin cos tan exp log sqrt abs tanh "
         "min max"},
        {"sin t", 4, "expected '('"},
        {"sin(t", 5, "expected ')'"},
        {"sin(t, 1)", 5, "expected ')'"},
        {"min(t)", 5, "expected ','"},
        {"min(1, 2, 3)", 8, "expected ')'"},
        {"sin()", 4, "expected a number, t, a function or '('"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        formula f;
        size_t where = 999;
        char message[FORMULA_MESSAGE] = "";
        if (formula_parse(cases[k].text, strlen(cases[k].text), &f, &where, message)) {
            fail_msg("accepted: %s", cases[k].text);
        }
        assert_string_equal(message, cases[k].message);
        assert_int_equal(where, cases[k].where);
    }
}

// Nesting and length are limited, so that no text can exhaust the stack.
static void depth_and_length_are_limited(void** state) {
    (void)state;
    formula f;
    size_t where;
    char message[FORMULA_MESSAGE];
    enum { SIZE = 100000 };
    char* text = malloc(SIZE);
    static const char* const fillers[] = {"(", "-", "2^", "sin("};
    for (int k = 0; k < 4; k++) {
        size_t n = strlen(fillers[k]);
        for (size_t i = 0; i < SIZE; i++) text[i] = fillers[k][i % n];
        assert_false(formula_parse(text, SIZE, &f, &where, message));
        assert_string_equal(message, "more than 64 things within each other");
    }
    for (size_t i = 0; i < SIZE; i++) text[i] = i % 2 ? '+' : '1';
    assert_false(formula_parse(text, SIZE - 1, &f, &where, message));
    assert_string_equal(message, "the formula has more than 512 numbers and operations");
    assert_true(formula_parse(text, 511, &f, &where, message)); // 256 numbers, 255 sums
    assert_true(formula_eval(&f, 0.0) == 256.0);
    for (size_t i = 0; i < 63; i++) text[i] = '(', text[64 + i] = ')';
    text[63] = 't';
    assert_true(formula_parse(text, 127, &f, &where, message));
    assert_true(formula_eval(&f, 7.0) == 7.0);
    free(text);
}

static void every_prefix_is_survived(void** state) {
    (void)state;
    static const char text[] = "0.1*sin(2*pi*t) + min(max(t^2, 1e-3), -(4 - exp(log(2))/7))";
    for (size_t size = 0; size < sizeof text; size++) {
        char* tight = malloc(size ? size : 1);
        memcpy(tight, text, size);
        formula f;
        size_t where = 0;
        char message[FORMULA_MESSAGE] = "";
        if (!formula_parse(tight, size, &f, &where, message)) {
            assert_true(where <= size);
            assert_true(message[0] != '\0');
        }
        free(tight);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_have_the_value_c_gives_them),
        cmocka_unit_test(faults_are_found_where_they_are),
        cmocka_unit_test(depth_and_length_are_limited),
        cmocka_unit_test(every_prefix_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
