// Formulas: values against C's own arithmetic, as numbers, columns and traced; column functions
// against closed forms; messages with the place of the fault.

#include "base/series.h"
#include "expr/formula_syntax.h"
#include "neuralsim/program.h"
#include "support/check.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static ns_formula* parse(const char* text, bool columns) {
    ns_formula* f = NULL;
    size_t where = 0;
    ns_error error = {0};
    if (ns_formula_parse(text, strlen(text), columns, NULL, &f, &where, &error) != NS_OK) {
        fail_msg("%s: %s at %zu", text, error.message, where);
    }
    return f;
}

static double value(const char* text, double t) {
    ns_formula* f = parse(text, false);
    assert_true(ns_formula_variable_count(f) <= 1);
    double result = ns_formula_eval(f, &t);
    double column[3] = {1.0, t, 2.0}, out[3];
    const double* columns[] = {column};
    assert_int_equal(ns_formula_columns(f, columns, NULL, 3, out, NULL), NS_OK);
    assert_true(check_same_bits(out[1], result));
    ns_formula_free(f);
    return result;
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
        CHECK("asin(t/4) - acos(t/4) + atan(t)", asin(t / 4.0) - acos(t / 4.0) + atan(t));
        CHECK("atan2(t, -1) * sign(t)", atan2(t, -1.0) * ((t > 0.0) - (t < 0.0)));
        CHECK("90*deg + 3*mm", 90.0 * (pi / 180.0) + 3.0 * 0.001);
        CHECK("\"t\" + 1", t + 1.0);
#undef CHECK
    }
    assert_true(isinf(value("1/0", 0.0)));
    assert_true(isnan(value("log(-1)", 0.0)));
    static const char* const missing[] = {"min(1, t)", "min(t, 1)", "max(1, t)", "max(t, 1)",
                                          "t^0",       "1^t",       "sign(t)",   "t*0"};
    for (size_t k = 0; k < sizeof missing / sizeof *missing; k++) {
        if (!isnan(value(missing[k], NAN))) fail_msg("%s", missing[k]);
    }
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
        {"1 + * 2", 4, "expected a number, a name, a function or '('"},
        {"(1 + 2", 6, "expected ')'"},
        {"1 + 2)", 5, "expected an operator, not ')'"},
        {"1 2", 2, "expected an operator, not '2'"},
        {"2x", 1, "expected an operator, not 'x'"},
        {"1.2.3", 0, "'1.2.3' is not a number"},
        {"1e", 0, "'1e' is not a number"},
        {"1e999", 0, "'1e999' is not a number"},
        {"1 + foo(2)", 4,
         "'foo' is no function; there are sin cos tan asin acos atan exp log sqrt abs tanh sign "
         "atan2 min max unwrap smooth rate shift first forward"},
        {"sine(2)", 0,
         "'sine' is no function; there are sin cos tan asin acos atan exp log sqrt abs tanh sign "
         "atan2 min max unwrap smooth rate shift first forward; did you mean \"sin\"?"},
        {"sin t", 4, "expected '('"},
        {"sin(t", 5, "expected ')'"},
        {"sin(t, 1)", 5, "expected ')'"},
        {"min(t)", 5, "expected ','"},
        {"min(1, 2, 3)", 8, "expected ')'"},
        {"sin()", 4, "expected a number, a name, a function or '('"},
        {"2 * \"a b", 4, "the quoted name does not end"},
        {"\"\"", 0, "the name is empty"},
        {"smooth(x)", 8, "expected ','"},
        {"smooth(x, 4, 2)", 8, "4 rows: the number must be odd and from 3 to 1001"},
        {"smooth(x, -5, 2)", 8, "-5 rows: the number must be odd and from 3 to 1001"},
        {"smooth(x, 1003, 2)", 8, "1003 rows: the number must be odd and from 3 to 1001"},
        {"smooth(x, 5, 5)", 8, "order 5: with 5 rows it must be from 0 to 4"},
        {"rate(x, 5, 0)", 6, "order 0: with 5 rows it must be from 1 to 4"},
        {"smooth(x, n, 2)", 10, "expected a whole number of at most seven digits"},
        {"shift(x, 1.5)", 9, "expected a whole number of at most seven digits"},
        {"shift(x, 12345678)", 9, "expected a whole number of at most seven digits"},
        {"shift(x, 1, 2)", 10, "expected ')'"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_formula* f = NULL;
        size_t where = 999;
        ns_error error = {0};
        ns_status status =
            ns_formula_parse(cases[k].text, strlen(cases[k].text), true, NULL, &f, &where, &error);
        if (status != NS_ERR_PARSE || f) fail_msg("accepted: %s", cases[k].text);
        assert_string_equal(error.message, cases[k].message);
        assert_int_equal(where, cases[k].where);
    }
    ns_formula* f = NULL;
    size_t where = 999;
    ns_error error = {0};
    assert_int_equal(ns_formula_parse("1 + unwrap(x)", 13, false, NULL, &f, &where, &error),
                     NS_ERR_PARSE);
    assert_string_equal(error.message, "unwrap() is for columns of a table, and there are none");
    assert_int_equal(where, 4);
    assert_int_equal(ns_formula_parse("1\0", 2, false, NULL, &f, &where, &error), NS_ERR_PARSE);
    assert_int_equal(where, 1);
    ns_formula_free(NULL);
}

// Nesting and length are limited, so that no text can exhaust the stack.
static void depth_and_length_are_limited(void** state) {
    (void)state;
    ns_formula* f = NULL;
    size_t where;
    ns_error error;
    enum { SIZE = 100000 };
    char* text = malloc(SIZE);
    static const char* const fillers[] = {"(", "-", "2^", "sin("};
    for (int k = 0; k < 4; k++) {
        size_t n = strlen(fillers[k]);
        for (size_t i = 0; i < SIZE; i++) text[i] = fillers[k][i % n];
        assert_int_equal(ns_formula_parse(text, SIZE, false, NULL, &f, &where, &error),
                         NS_ERR_LIMIT);
        assert_string_equal(error.message, "more than 64 things within each other");
    }
    for (size_t i = 0; i < SIZE; i++) text[i] = i % 2 ? '+' : '1';
    assert_int_equal(ns_formula_parse(text, SIZE - 1, false, NULL, &f, &where, &error),
                     NS_ERR_LIMIT);
    assert_string_equal(error.message, "the formula has more than 512 numbers and operations");
    assert_int_equal(ns_formula_parse(text, 511, false, NULL, &f, &where, &error), NS_OK);
    assert_true(ns_formula_eval(f, NULL) == 256.0); // 256 numbers, 255 sums
    ns_formula_free(f);
    for (size_t i = 0; i < 63; i++) text[i] = '(', text[64 + i] = ')';
    text[63] = 't';
    assert_int_equal(ns_formula_parse(text, 127, false, NULL, &f, &where, &error), NS_OK);
    double seven = 7.0;
    assert_true(ns_formula_eval(f, &seven) == 7.0);
    ns_formula_free(f);
    free(text);
}

static const char everything[] =
    "0.1*sin(2*pi*t) + min(max(t^2, 1e-3), -(4 - exp(log(2))/7)) + "
    "smooth(unwrap(\"a/b\"), 5, 2) - rate(t, 3, 1)*shift(x, -1)/first(forward(x))";

static void every_prefix_is_survived(void** state) {
    (void)state;
    for (size_t size = 0; size < sizeof everything; size++) {
        char* tight = malloc(size ? size : 1);
        memcpy(tight, everything, size);
        ns_formula* f = NULL;
        size_t where = 0;
        ns_error error = {0};
        if (ns_formula_parse(tight, size, true, NULL, &f, &where, &error) != NS_OK) {
            assert_true(where <= size);
            assert_true(error.message[0] != '\0');
            assert_null(f);
        }
        ns_formula_free(f);
        free(tight);
    }
}

static void variables_come_in_order(void** state) {
    (void)state;
    ns_formula* f = parse("y2 - _x*\"link/a b/mass\" + y2/pi + \"_x\" - sin(mass)", false);
    static const char* const names[] = {"y2", "_x", "link/a b/mass", "mass"};
    static const size_t offsets[] = {0, 5, 8, 45};
    static const unsigned forms[] = {NSI_FORMULA_BARE, NSI_FORMULA_BARE | NSI_FORMULA_QUOTED,
                                     NSI_FORMULA_QUOTED, NSI_FORMULA_BARE};
    assert_int_equal(ns_formula_variable_count(f), 4);
    for (uint32_t k = 0; k < 4; k++) {
        assert_string_equal(ns_formula_variable(f, k), names[k]);
        assert_int_equal(ns_formula_variable_offset(f, k), offsets[k]);
        assert_int_equal(nsi_formula_variable_forms(f, k), forms[k]);
    }
    assert_null(ns_formula_variable(f, 4));
    assert_int_equal(nsi_formula_variable_forms(f, 4), 0);
    const double x[] = {2.0, 3.0, 5.0, 7.0};
    double pi = 3.14159265358979323846;
    assert_true(ns_formula_eval(f, x) == 2.0 - 3.0 * 5.0 + 2.0 / pi + 3.0 - sin(7.0));
    ns_formula_free(f);
}

static void names_are_no_words_of_formulas(void** state) {
    (void)state;
    static const char* const good[] = {"b", "_", "k_2", "Sin", "pi_", "mmm"};
    static const char* const bad[] = {"", "2k", "a b", "a/b", "pi", "deg", "mm", "sin", "smooth"};
    for (size_t k = 0; k < sizeof good / sizeof *good; k++)
        assert_true(nsi_formula_is_name(good[k]));
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) assert_false(nsi_formula_is_name(bad[k]));
}

static void filters_are_named(void** state) {
    (void)state;
    ns_formula* f = parse("2*smooth(unwrap(a) , 5, 2) + rate( smooth(b, 7,3), 3, 1)", true);
    static const char* const texts[] = {"smooth(unwrap(a) , 5, 2)", "smooth(b, 7,3)",
                                        "rate( smooth(b, 7,3), 3, 1)"};
    size_t offset, size;
    for (uint32_t k = 0; k < 3; k++) {
        assert_true(nsi_formula_filter(f, k, &offset, &size));
        assert_int_equal(size, strlen(texts[k]));
        assert_memory_equal(&"2*smooth(unwrap(a) , 5, 2) + rate( smooth(b, 7,3), 3, 1)"[offset],
                            texts[k], size);
    }
    assert_false(nsi_formula_filter(f, 3, &offset, &size));
    ns_formula_free(f);
}

// The traced formula has the value of the evaluated one, and derivatives that agree with differences.
static void traced_formulas_have_the_same_value(void** state) {
    (void)state;
    static const char* const texts[] = {
        "a + b*a - b/a",
        "-a^2 + a^b",
        "sin(a)*cos(b) + tan(a) - asin(b/3)*acos(b/3) + atan(a)",
        "exp(-a)*log(b + 2) - sqrt(abs(a)) + tanh(b)",
        "atan2(a, b) + min(a, b)*max(a, 2*b) + sign(a - 10)*pi*a",
    };
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        ns_formula* f = parse(texts[k], false);
        ns_graph* graph = NULL;
        assert_int_equal(ns_graph_create(NULL, &graph, NULL), NS_OK);
        assert_int_equal(ns_trace_begin(graph, NULL), NS_OK);
        ns_expr inputs[2] = {ns_input("a"), ns_input("b")};
        ns_output("f", nsi_formula_trace(f, inputs));
        assert_int_equal(ns_trace_end(NULL), NS_OK);
        double x[2] = {0.7, 0.4}, y = 0.0;
        check_function(graph, x, NULL, &(check_options){.name = texts[k], .c = CHECK_C_VALUE});
        ns_program* program = NULL;
        assert_int_equal(ns_program_build(graph, NULL, &program, NULL), NS_OK);
        void* work = malloc(ns_program_work_size(program));
        ns_program_run(program, &(ns_run){.in = x, .out = &y, .work = work});
        // Our own sin, exp, pow.. and fused sums are a rounding error away from C's.
        assert_true(fabs(y - ns_formula_eval(f, x)) < 1e-14);
        free(work);
        ns_program_free(program);
        ns_graph_free(graph);
        ns_formula_free(f);
    }
}

// ---- columns -------------------------------------------------------------------------------

enum { ROWS = 40 };

static void column(const char* text, const double* x, const double* times, uint32_t count,
                   double* out) {
    ns_formula* f = parse(text, true);
    const double* columns[] = {x};
    assert_int_equal(ns_formula_columns(f, columns, times, count, out, NULL), NS_OK);
    ns_formula_free(f);
}

static void unwrapped_angles_are_continuous(void** state) {
    (void)state;
    double x[ROWS], out[ROWS];
    for (int k = 0; k < ROWS; k++) {
        double angle = 0.5 + 2.9 * k - 0.07 * k * k; // forward, then back; by less than pi a row
        x[k] = remainder(angle, 6.28318530717958647692);
    }
    column("unwrap(x)", x, NULL, ROWS, out);
    for (int k = 0; k < ROWS; k++) {
        assert_true(fabs(out[k] - (0.5 + 2.9 * k - 0.07 * k * k)) < 1e-12);
    }

    double slow[ROWS];
    for (int k = 0; k < ROWS; k++) {
        slow[k] = remainder(0.9 * k, 6.28318530717958647692);
        if (k % 3 == 1) slow[k] = NAN; // gaps are gone over
    }
    column("unwrap(x)", slow, NULL, ROWS, out);
    for (int k = 0; k < ROWS; k++) {
        assert_true(k % 3 == 1 ? isnan(out[k]) : fabs(out[k] - 0.9 * k) < 1e-12);
    }
}

// Coefficients of Savitzky & Golay 1964, tables I and IV, for five points.
static void smoothing_has_the_published_coefficients(void** state) {
    (void)state;
    static const double smooth[5] = {-3.0 / 35, 12.0 / 35, 17.0 / 35, 12.0 / 35, -3.0 / 35};
    static const double slope[5] = {-0.2, -0.1, 0.0, 0.1, 0.2};
    double times[11], out[11];
    for (int k = 0; k < 11; k++) times[k] = 3.0 + 0.01 * k;
    for (int k = 0; k < 5; k++) {
        double x[11] = {0};
        x[3 + k] = 1.0;
        column("smooth(x, 5, 2)", x, times, 11, out);
        assert_true(fabs(out[5] - smooth[k]) < 1e-14);
        column("rate(x, 5, 2)", x, times, 11, out);
        assert_true(fabs(out[5] - slope[k] / 0.01) < 1e-11);
    }
}

// Polynomials come back, also at the ends, with uneven rows and with missing ones.
static void smoothing_keeps_polynomials(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(11);
    double times[ROWS], x[ROWS], slope[ROWS], out[ROWS], t = 5.0;
    for (int k = 0; k < ROWS; k++) {
        t += ns_rng_uniform(&rng, 0.002, 0.004);
        times[k] = t;
        double s = (t - 5.0) / 0.1;
        x[k] = 1.0 - 2.0 * s + 3.0 * s * s - s * s * s;
        slope[k] = (-2.0 + 6.0 * s - 3.0 * s * s) / 0.1;
        if (k == 4 || k == 17 || k == 18) x[k] = NAN;
    }
    double worst = 0.0, worst_rate = 0.0;
    column("smooth(x, 9, 3)", x, times, ROWS, out);
    for (int k = 0; k < ROWS; k++) {
        assert_true(isnan(out[k]) == isnan(x[k]));
        if (!isnan(x[k])) worst = fmax(worst, fabs(out[k] - x[k]));
    }
    column("rate(x, 9, 3)", x, times, ROWS, out);
    for (int k = 0; k < ROWS; k++) {
        if (!isnan(x[k])) worst_rate = fmax(worst_rate, fabs(out[k] - slope[k]));
    }
    print_message("smooth: %g, rate: %g\n", worst, worst_rate);
    assert_true(worst < 1e-13);
    assert_true(worst_rate < 1e-10);
    // A line is not a parabola: with a lower order something is smoothed away.
    column("smooth(x, 9, 1)", x, times, ROWS, out);
    assert_true(fabs(out[10] - x[10]) > 1e-4);
}

// Beyond a long gap another motion may have begun.
static void smoothing_ends_at_gaps(void** state) {
    (void)state;
    double times[ROWS], x[ROWS], out[ROWS];
    for (int k = 0; k < ROWS; k++) {
        times[k] = 0.01 * k + (k >= 20 ? 1.0 : 0.0);
        x[k] = k >= 20 ? 50.0 : 0.03 * k;
    }
    column("smooth(x, 7, 1)", x, times, ROWS, out);
    for (int k = 0; k < ROWS; k++) assert_true(fabs(out[k] - x[k]) < 1e-13);
    column("smooth(x, 7, 4)", x + 18, times + 18, 4, out); // two rows on each side: not enough
    for (int k = 0; k < 4; k++) assert_true(isnan(out[k]));
}

static void rows_can_be_shifted(void** state) {
    (void)state;
    static const double x[5] = {1.0, 2.0, 4.0, 8.0, 16.0};
    double out[5];
    column("x - shift(x, 1)", x, NULL, 5, out);
    assert_true(isnan(out[0]) && out[1] == 1.0 && out[4] == 8.0);
    column("shift(x, -2)", x, NULL, 5, out);
    assert_true(out[0] == 4.0 && out[2] == 16.0 && isnan(out[3]) && isnan(out[4]));
    column("shift(x, 9)", x, NULL, 5, out);
    for (int k = 0; k < 5; k++) assert_true(isnan(out[k]));
    column("x/first(x + 1)", x, NULL, 5, out);
    for (int k = 0; k < 5; k++) assert_true(out[k] == x[k] / 2.0);
    column("forward(x)", x, NULL, 5, out); // per row
    assert_memory_equal(out, ((const double[]){1, 2, 4, 8, 8}), sizeof out);
    column("forward(x)", x, (const double[]){0.0, 0.5, 1.0, 3.0, 4.0}, 5, out);
    assert_memory_equal(out, ((const double[]){2, 4, 2, 8, 8}), sizeof out);
    column("forward(x)", x, NULL, 1, out);
    assert_true(isnan(out[0]));
    column("1/(x - 4)", x, NULL, 5, out);
    assert_true(isinf(out[2]) && out[3] == 0.25);
    column("x", x, NULL, 0, out);
    column("smooth(x, 3, 1)", x, (const double[]){1.0}, 1, out);
    assert_true(isnan(out[0]));
}

static int compare(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

static void the_spacing_is_the_median(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(5);
    for (uint32_t count = 2; count < 200; count++) {
        double times[200], scratch[200], steps[200];
        times[0] = 0.0;
        for (uint32_t k = 1; k < count; k++) times[k] = times[k - 1] + 1 + ns_rng_below(&rng, 4);
        for (uint32_t k = 1; k < count; k++) steps[k - 1] = times[k] - times[k - 1];
        qsort(steps, count - 1, sizeof *steps, compare);
        assert_true(nsi_series_spacing(times, count, scratch) == steps[(count - 2) / 2]);
    }
    double one = 1.0, scratch;
    assert_true(isnan(nsi_series_spacing(&one, 1, &scratch)));
}

static void failing_allocations_are_reported(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_formula* f = NULL;
        size_t where;
        ns_error error = {0};
        ns_status status = ns_formula_parse(everything, sizeof everything - 1, true, &allocator, &f,
                                            &where, &error);
        if (status == NS_OK) {
            static const double x[3] = {1.0, 2.0, 3.0};
            const double* columns[] = {x, x, x};
            double out[3];
            status = ns_formula_columns(f, columns, NULL, 3, out, &error);
        }
        ns_formula_free(f);
        assert_int_equal(counter.live_blocks, 0);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            assert_true(n > 3);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(error.status, NS_ERR_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_have_the_value_c_gives_them),
        cmocka_unit_test(faults_are_found_where_they_are),
        cmocka_unit_test(depth_and_length_are_limited),
        cmocka_unit_test(every_prefix_is_survived),
        cmocka_unit_test(variables_come_in_order),
        cmocka_unit_test(names_are_no_words_of_formulas),
        cmocka_unit_test(filters_are_named),
        cmocka_unit_test(traced_formulas_have_the_same_value),
        cmocka_unit_test(unwrapped_angles_are_continuous),
        cmocka_unit_test(smoothing_has_the_published_coefficients),
        cmocka_unit_test(smoothing_keeps_polynomials),
        cmocka_unit_test(smoothing_ends_at_gaps),
        cmocka_unit_test(rows_can_be_shifted),
        cmocka_unit_test(the_spacing_is_the_median),
        cmocka_unit_test(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
