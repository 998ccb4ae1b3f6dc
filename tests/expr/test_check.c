// The derivative check must be able to fail: functions that lie about themselves, one lie at a
// time.

#include "expr/block.h"
#include "expr/trace.h"
#include "neuralsim/neuralsim.h"
#include "support/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

enum { N = 3 };

static const double weights[N * N] = {0.3, -0.2, 0.7, 0.1, 0.5, -0.4, 0.9, -0.6, 0.2};
static const double* const arrays[] = {weights};
static const double point[N] = {0.4, -0.8, 1.1};

// sum_i sin(y_i), y = W'x by a block of the given kind.
static ns_graph* trace_block(const nsi_block_kind* kind) {
    ns_graph* g = NULL;
    assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
    nsi_id x[N] = {ns_input("x0").id, ns_input("x1").id, ns_input("x2").id};
    ns_array w = ns_input_array("w", N * N, false);
    nsi_block block = {.kind = kind,
                       .params = {N, N},
                       .ninput = N,
                       .inputs = x,
                       .source = w.input,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(g, &block);
    ns_expr sum = ns_const(0.0);
    for (uint32_t i = 0; i < N; i++) {
        sum = ns_add(sum, ns_sin((ns_expr){nsi_graph_out(g, node, i)}));
    }
    ns_output("result", sum);
    assert_int_equal(ns_trace_end(NULL), NS_OK);
    return g;
}

static void expect_complaint(const ns_graph* f, const double* x, const check_options* options,
                             const char* complaint) {
    check_batch* batch = check_batch_create();
    check_batch_add(batch, f, x, arrays, options);
    check_report report;
    char message[3000];
    bool ok = check_batch_finish_quietly(batch, &report, message, sizeof message);
    if (!complaint) {
        if (!ok) fail_msg("complains: %s", message);
        return;
    }
    if (ok) fail_msg("does not notice: %s", complaint);
    if (!strstr(message, complaint)) fail_msg("\"%s\" does not say \"%s\"", message, complaint);
    if (options && options->name && !strstr(message, options->name)) {
        fail_msg("\"%s\" does not name the function", message);
    }
}

// ---- the lies ------------------------------------------------------------------------------

static void double_all(ns_graph* g, nsi_id* ids, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        if (ids[k] != NSI_NONE) ids[k] = nsi_make(g, NSI_ADD, ids[k], ids[k], NSI_NONE);
    }
}

static void wrong_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                      uint32_t dsink, nsi_id* dy) {
    nsi_block honest = *block;
    honest.kind = &nsi_dense;
    nsi_dense.jvp(g, &honest, dx, dsource, dsink, dy);
    double_all(g, dy, block->noutput);
}

static void wrong_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                      uint32_t source_bar, nsi_id* xbar) {
    nsi_dense.vjp(g, block, ybar, sink_seed, source_bar, xbar);
    double_all(g, xbar, block->ninput);
}

// Both modes doubled alike, weights included.
static void doubled_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                        uint32_t source_bar, nsi_id* xbar) {
    nsi_id twice[N];
    for (uint32_t k = 0; k < N; k++) twice[k] = ybar[k];
    double_all(g, twice, N);
    nsi_dense.vjp(g, block, twice, sink_seed, source_bar, xbar);
}

// Right for x, but forgets the weights.
static void forgetful_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar,
                          uint32_t sink_seed, uint32_t source_bar, nsi_id* xbar) {
    (void)source_bar;
    nsi_dense.vjp(g, block, ybar, sink_seed, NSI_NONE, xbar);
}

static void honest_block_passes(void** state) {
    (void)state;
    ns_graph* f = trace_block(&nsi_dense);
    expect_complaint(f, point, &(check_options){.name = "honest", .second = true}, NULL);
    ns_graph_free(f);
}

static void wrong_derivatives_are_noticed(void** state) {
    (void)state;
    nsi_block_kind kind = nsi_dense;
    check_options options = {.name = "liar"};

    kind.vjp = wrong_vjp;
    ns_graph* f = trace_block(&kind);
    expect_complaint(f, point, &options, "forward and reverse mode disagree");
    ns_graph_free(f);

    kind.vjp = forgetful_vjp;
    f = trace_block(&kind);
    expect_complaint(f, point, &options, "forward and reverse mode disagree");
    ns_graph_free(f);

    kind.jvp = wrong_jvp;
    kind.vjp = doubled_vjp;
    f = trace_block(&kind);
    expect_complaint(f, point, &options, "the slope of \"result\"[0]");
    options.at_kink = true;    // both modes agree, so without central differences nobody can tell
    options.c = CHECK_C_VALUE; // the derivatives have two kinds of the same C name
    expect_complaint(f, point, &options, NULL);
    ns_graph_free(f);
}

// The first derivative is right, the second is not: the transpose in the vjp lies about itself.
static nsi_block_kind lying_transpose;

static void vjp_with_lying_transpose(ns_graph* g, const nsi_block* block, const nsi_id* ybar,
                                     uint32_t sink_seed, uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed;
    nsi_block outer = {.kind = &nsi_dense_outer,
                       .params = {N, N},
                       .ninput = 2 * N,
                       .source = NSI_NONE,
                       .sink = source_bar};
    nsi_id inputs[2 * N];
    for (uint32_t k = 0; k < N; k++) {
        inputs[k] = block->inputs[k];
        inputs[N + k] = ybar[k];
    }
    outer.inputs = inputs;
    nsi_graph_block(g, &outer);
    nsi_block transpose = {.kind = &lying_transpose,
                           .params = {N, N},
                           .ninput = N,
                           .inputs = ybar,
                           .source = block->source,
                           .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(g, &transpose);
    for (uint32_t k = 0; k < N; k++) xbar[k] = nsi_graph_out(g, node, k);
}

static void lying_transpose_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx,
                                uint32_t dsource, uint32_t dsink, nsi_id* dy) {
    nsi_block honest = *block;
    honest.kind = &nsi_dense_transpose;
    nsi_dense_transpose.jvp(g, &honest, dx, dsource, dsink, dy);
    double_all(g, dy, block->noutput);
}

static void wrong_second_derivatives_are_noticed(void** state) {
    (void)state;
    lying_transpose = nsi_dense_transpose;
    lying_transpose.jvp = lying_transpose_jvp;
    nsi_block_kind kind = nsi_dense;
    kind.vjp = vjp_with_lying_transpose;
    ns_graph* f = trace_block(&kind);
    expect_complaint(f, point, &(check_options){.name = "second"}, NULL);
    expect_complaint(f, point, &(check_options){.name = "second", .second = true},
                     "the Hessian is not symmetric");
    ns_graph_free(f);
}

// ---- emitted C -----------------------------------------------------------------------------

static void emitted_c_with_other_bits_is_noticed(void** state) {
    (void)state;
    nsi_block_kind kind = nsi_dense;
    // Sums from the last input to the first: the same number up to rounding.
    kind.c_source = "static void ns_dense(const uint32_t* p, const double* x, double* y,"
                    " const double* w, double* g) {\n"
                    "    (void)g;\n"
                    "    for (uint32_t i = 0; i < p[1]; i++) {\n"
                    "        double t = 0.0;\n"
                    "        for (uint32_t j = p[0]; j-- > 0;) t = fma(w[j * p[1] + i], x[j], t);\n"
                    "        y[i] = t;\n"
                    "    }\n"
                    "}";
    ns_graph* f = trace_block(&kind);
    expect_complaint(f, point, &(check_options){.name = "other order"}, "emitted C");
    ns_graph_free(f);
}

static void warnings_of_the_compiler_are_noticed(void** state) {
    (void)state;
    nsi_block_kind kind = nsi_dense;
    kind.c_source = "static void ns_dense(const uint32_t* p, const double* x, double* y,"
                    " const double* w, double* g) { p = p; (void)x, (void)y, (void)w; }";
    ns_graph* f = trace_block(&kind);
    expect_complaint(f, point, NULL, "refuses emitted C");
    ns_graph_free(f);
}

// ---- zero derivatives, kinks ---------------------------------------------------------------

static ns_graph* trace_unary(ns_expr (*op)(ns_expr)) {
    ns_graph* g = NULL;
    assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
    ns_output("y", op(ns_input("x")));
    assert_int_equal(ns_trace_end(NULL), NS_OK);
    return g;
}

static void zero_derivatives_are_refused(void** state) {
    (void)state;
    ns_graph* f = trace_unary(ns_floor);
    expect_complaint(f, point, &(check_options){.name = "floor"}, "zero everywhere");
    expect_complaint(f, point, &(check_options){.name = "floor", .may_vanish = true}, NULL);
    ns_graph_free(f);
}

static void infinite_derivatives_are_refused(void** state) {
    (void)state;
    ns_graph* f = trace_unary(ns_log);
    expect_complaint(f, (double[]){0.0}, &(check_options){.name = "log"}, "not finite");
    ns_graph_free(f);
}

static void kinks_nearby_are_counted(void** state) {
    (void)state;
    ns_graph* f = trace_unary(ns_abs);
    check_report far = check_function(f, (double[]){0.5}, NULL, NULL);
    check_report near = check_function(f, (double[]){1e-7}, NULL, NULL);
    assert_int_equal(far.slopes, 1);
    assert_int_equal(far.undecided, 0);
    assert_int_equal(near.slopes, 1);
    assert_int_equal(near.undecided, 1);
    assert_int_equal(near.functions_undecided, 1);
    ns_graph_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_block_passes),
        cmocka_unit_test(wrong_derivatives_are_noticed),
        cmocka_unit_test(wrong_second_derivatives_are_noticed),
        cmocka_unit_test(emitted_c_with_other_bits_is_noticed),
        cmocka_unit_test(warnings_of_the_compiler_are_noticed),
        cmocka_unit_test(zero_derivatives_are_refused),
        cmocka_unit_test(infinite_derivatives_are_refused),
        cmocka_unit_test(kinks_nearby_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
