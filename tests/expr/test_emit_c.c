// Emitted C: the same text every time, whatever the names; what it computes.

#include "expr/code.h"
#include "expr/program_rig.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/ccode.h"
#include "support/check.h"
#include "support/malloccount.h"
#include "support/tracing.h"

#include <stdio.h>
#include <stdlib.h>

static ns_text emit(const ns_graph* g, const char* function) {
    ns_text text;
    ns_error error;
    must(ns_graph_emit_c(g, function, &text, &error), &error);
    assert_int_equal(strlen(text.data), text.size);
    return text;
}

static void emitted_c_is_the_same_every_time(void** state) {
    (void)state;
    ns_graph *first = mixture(NULL), *second = mixture(NULL), *vjp[2];
    assert_int_equal(ns_graph_vjp(first, NULL, &vjp[0], NULL), NS_OK);
    assert_int_equal(ns_graph_vjp(second, NULL, &vjp[1], NULL), NS_OK);
    ns_text texts[] = {emit(vjp[0], "f"), emit(vjp[0], "f"), emit(vjp[1], "f")};
    assert_string_equal(texts[0].data, texts[1].data);
    assert_string_equal(texts[0].data, texts[2].data);
    ns_text other = emit(vjp[0], "g");
    assert_string_not_equal(texts[0].data, other.data);
    for (int i = 0; i < 3; i++) ns_text_free(&texts[i]);
    ns_text_free(&other);
    ns_graph_free(first);
    ns_graph_free(second);
    ns_graph_free(vjp[0]);
    ns_graph_free(vjp[1]);
}

// Names of inputs, outputs and arrays are free text and must not reach the C text in any form.
static void hostile_names_do_not_reach_emitted_c(void** state) {
    (void)state;
    static const char* const hostile[] = {
        "*/ int HOSTILE; /*", "\"; HOSTILE(); \"", "\nHOSTILE\n#error HOSTILE\n",
        "HOSTILE\\",          "?\?/HOSTILE",       "%s%n HOSTILE",
        "\xff\xfe HOSTILE"};
    enum { N = sizeof hostile / sizeof *hostile };
    ns_graph* g = tracing_begin();
    ns_expr x[N], sum = ns_const(1.0);
    double point[N];
    for (int i = 0; i < N; i++) {
        x[i] = ns_input(hostile[i]);
        sum = ns_add(ns_sin(sum), x[i]);
        point[i] = 0.1 * i;
    }
    ns_array w = ns_input_array(hostile[0], 2 * N, false);
    ns_expr y[2];
    ns_dense_layer(w, N, x, 2, NS_TANH, y);
    for (int i = 0; i < N; i++) ns_output(hostile[i], ns_mul(sum, i % 2 ? y[0] : y[1]));
    tracing_end();
    ns_graph* vjp = NULL;
    assert_int_equal(ns_graph_vjp(g, NULL, &vjp, NULL), NS_OK);
    ns_text texts[2] = {emit(g, "f"), emit(vjp, "f")};
    for (int i = 0; i < 2; i++) {
        assert_null(strstr(texts[i].data, "HOSTILE"));
        for (size_t k = 0; k < texts[i].size; k++)
            assert_true((unsigned char)texts[i].data[k] < 128);
        ns_text_free(&texts[i]);
    }
    double weights[2 * N];
    for (int i = 0; i < 2 * N; i++) weights[i] = 0.3 - 0.05 * i;
    check_function(g, point, (const double* const[]){weights}, &(check_options){.name = "hostile"});
    ns_graph_free(g);
    ns_graph_free(vjp);
}

static void function_names_are_checked(void** state) {
    (void)state;
    ns_graph* g = mixture(NULL);
    char longest[102];
    memset(longest, 'a', sizeof longest);
    longest[100] = '\0';
    const char* const good[] = {"f", "_f", "f_1", "Step2", "in", "work", "doubles", longest};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ns_text text = emit(g, good[i]);
        char declaration[140];
        snprintf(declaration, sizeof declaration, "\nvoid %s(const double* in,", good[i]);
        assert_non_null(strstr(text.data, declaration));
        ns_text_free(&text);
    }
    char too_long[102];
    memset(too_long, 'a', sizeof too_long);
    too_long[101] = '\0';
    const char* const bad[] = {NULL,   "",         "1f",       "f g",    "f;",      "f-g",
                               "f\n",  "\xc3\xa4", "f()",      "f\\u",   "int",     "restrict",
                               "if",   "f/**/",    "f\"",      too_long, "sin",     "memcpy",
                               "main", "NAN",      "uint32_t", "fma",    "ns_dense"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ns_text text = {.data = (char*)1, .size = 1};
        ns_error error;
        if (ns_graph_emit_c(g, bad[i], &text, &error) != NS_ERR_ARGUMENT) {
            fail_msg("\"%s\" is accepted as the name of a C function", bad[i] ? bad[i] : "NULL");
        }
        assert_non_null(strstr(error.message, "identifier"));
        assert_null(text.data);
    }
    ns_graph_free(g);
}

// gcc 12 would turn -fma(a, b, c) into fma(-a, b, -c), which has the other zero where terms cancel.
static void negated_fused_results_keep_the_sign_of_zero(void** state) {
    (void)state;
    enum { N = 5, OUTPUTS = 4 };
    static const double values[] = {0.0, -0.0, 1.0, -1.0};
    static const char* const names[N] = {"a", "b", "c", "d", "e"};
    ns_graph* g = tracing_begin();
    ns_expr x[N];
    for (int i = 0; i < N; i++) x[i] = ns_input(names[i]);
    // A different inner one each, so that each has one use.
    ns_output("neg", ns_neg(ns_fma(x[0], x[1], x[2])));
    ns_output("fnma", ns_fma(ns_neg(ns_fma(x[0], x[2], x[1])), x[3], x[4]));
    ns_output("fms", ns_fma(x[3], x[4], ns_neg(ns_fma(x[1], x[2], x[0]))));
    ns_output("of fms", ns_neg(ns_fma(x[0], x[1], ns_neg(x[3]))));
    tracing_end();
    ccode* code = ccode_create();
    uint32_t number = ccode_add(code, g, NULL);
    ns_program* program = build(g, NS_BACKEND_INTERP, 1);
    void* work = malloc(ns_program_work_size(program));
    for (uint32_t n = 0; ccode_compiler(n); n++) {
        char message[2000];
        if (!ccode_compile(code, ccode_compiler(n), true, message, sizeof message)) {
            fail_msg("%s", message);
        }
        for (uint32_t i = 0; i < 1u << (2 * N); i++) { // all combinations
            double in[N], out[OUTPUTS], expected[OUTPUTS];
            for (uint32_t j = 0; j < N; j++) in[j] = values[(i >> (2 * j)) % 4];
            ns_program_run(program, &(ns_run){.in = in, .out = expected, .work = work});
            assert_true(ccode_run(code, number, in, out, NULL, NULL));
            for (uint32_t k = 0; k < OUTPUTS; k++) {
                if (!check_same_bits(out[k], expected[k])) {
                    fail_msg("%s, \"%s\" at %g %g %g %g %g: %g instead of %g", ccode_compiler(n),
                             ns_graph_output_name(g, k), in[0], in[1], in[2], in[3], in[4], out[k],
                             expected[k]);
                }
            }
        }
    }
    free(work);
    ns_program_free(program);
    ccode_free(code);
    ns_graph_free(g);
}

// No function has more than 500 steps and a few more statements.
static void emitted_functions_are_bounded(void** state) {
    (void)state;
    enum { STEPS = 3000, MAX_STATEMENTS = 520 };
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), y = ns_input("y"), z = x;
    for (int i = 0; i < STEPS; i++) {
        z = i % 3 == 0   ? ns_div(y, ns_add(ns_const(2.0), ns_abs(z)))
            : i % 3 == 1 ? ns_sub(z, y)
                         : ns_max(ns_mul(z, z), x);
    }
    ns_output("z", z);
    tracing_end();
    ns_text text = emit(g, "f");
    uint32_t parts = 0, statements = 0, total = 0;
    for (const char* line = text.data; *line; line = strchr(line, '\n') + 1) {
        const char* line_end = strchr(line, '\n');
        if (*line == '}') {
            if (statements > MAX_STATEMENTS) {
                fail_msg("an emitted function has %u statements", statements);
            }
            total += statements;
            statements = 0;
            parts++;
        }
        if (*line == ' ' && line_end[-1] == ';') statements++;
    }
    assert_true(total > STEPS);
    assert_true(parts >= STEPS / 500);
    ns_text_free(&text);
    check_function(g, (double[]){0.3, 1.1}, NULL,
                   &(check_options){.name = "long chain", .c = CHECK_C_JVP});
    ns_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emitted_c_is_the_same_every_time),
        cmocka_unit_test(hostile_names_do_not_reach_emitted_c),
        cmocka_unit_test(function_names_are_checked),
        cmocka_unit_test(negated_fused_results_keep_the_sign_of_zero),
        cmocka_unit_test(emitted_functions_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
