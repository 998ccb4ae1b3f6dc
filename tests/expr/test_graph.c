// Building graphs: hash-consing, folding, identities, ports, tracing, the validator, and what the
// options of differentiation and ns_gradient give.

#include "expr/block.h"
#include "expr/trace.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/tracing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

// End a trace that must have failed with this status and a message that says `text`.
static void end_with(ns_graph* g, ns_status status, const char* text) {
    ns_error error;
    assert_int_equal(ns_trace_end(&error), status);
    assert_int_equal(error.status, status);
    if (!strstr(error.message, text)) fail_msg("\"%s\" does not say \"%s\"", error.message, text);
    ns_graph_free(g);
}

static ns_expr make(nsi_op op, ns_expr a, ns_expr b, ns_expr c) {
    return (ns_expr){nsi_make(nsi_trace_graph(), op, a.id, b.id, c.id)};
}

// ---- hash-consing --------------------------------------------------------------------------

static void equal_nodes_are_one_node(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), y = ns_input("y"), z = ns_input("z");
    for (nsi_op op = 0; op < NSI_OP_COUNT; op++) {
        if (nsi_ops[op].kind == NSI_KIND_LEAF) continue;
        ns_expr first = make(op, x, y, z);
        uint32_t count = g->nodes.count;
        assert_int_equal(make(op, x, y, z).id, first.id);
        assert_int_equal(g->nodes.count, count);
        // Commuted operands: the same node exactly when the table says so.
        if (nsi_ops[op].arity == 2) {
            bool same = make(op, y, x, z).id == first.id;
            assert_int_equal(same, (nsi_ops[op].flags & NSI_FLAG_COMMUTES) != 0);
        }
    }
    assert_int_equal(ns_fma(x, y, z).id, ns_fma(y, x, z).id);
    assert_int_not_equal(ns_fma(x, y, z).id, ns_fma(x, z, y).id);
    tracing_end();
    ns_graph_free(g);
}

static void constants_are_one_node_by_their_bits(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    assert_int_equal(ns_const(0.1).id, ns_const(0.1).id);
    assert_int_equal(ns_const(NAN).id, ns_const(NAN).id);
    assert_int_not_equal(ns_const(0.1).id, ns_const(nextafter(0.1, 1.0)).id);
    assert_int_not_equal(ns_const(0.0).id, ns_const(-0.0).id);
    tracing_end();
    ns_graph_free(g);
}

// A hundred thousand different nodes, each asked for twice.
static void many_nodes_stay_apart(void** state) {
    (void)state;
    enum { N = 100000 };
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), first = ns_add(x, ns_const(1.0));
    ns_expr last = first;
    for (int i = 0; i < N; i++) last = ns_add(ns_mul(last, x), ns_const(i));
    uint32_t count = g->nodes.count;
    ns_expr again = first;
    for (int i = 0; i < N; i++) again = ns_add(ns_mul(again, x), ns_const(i));
    assert_int_equal(again.id, last.id);
    assert_int_equal(g->nodes.count, count);
    assert_true(count > 2 * N);
    tracing_end();
    ns_graph_free(g);
}

static void equal_blocks_are_one_block(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x[2] = {ns_input("x"), ns_input("y")}, swapped[2] = {x[1], x[0]};
    ns_array w = ns_input_array("w", 12, false), v = ns_input_array("v", 12, false);
    ns_expr a[2], b[2];
    ns_dense_layer(ns_array_slice(w, 0, 6), 2, x, 2, NS_TANH, a);
    ns_dense_layer(ns_array_slice(w, 0, 6), 2, x, 2, NS_TANH, b);
    assert_memory_equal(a, b, sizeof a);
    ns_dense_layer(ns_array_slice(w, 6, 6), 2, x, 2, NS_TANH, b); // other weights
    assert_int_not_equal(a[0].id, b[0].id);
    ns_dense_layer(ns_array_slice(v, 0, 6), 2, x, 2, NS_TANH, b); // another array
    assert_int_not_equal(a[0].id, b[0].id);
    ns_dense_layer(ns_array_slice(w, 0, 6), 2, swapped, 2, NS_TANH, b); // other inputs
    assert_int_not_equal(a[0].id, b[0].id);
    ns_dense_layer(ns_array_slice(w, 0, 4), 2, x, 2, NS_TANH, b); // without biases
    assert_int_not_equal(a[0].id, b[0].id);
    assert_int_equal(g->blocks.count, 5);
    tracing_end();

    // Blocks that add to an array are never merged: each adds.
    uint32_t sink = nsi_graph_sink(g, "s", 1, false);
    nsi_id inputs[2] = {x[0].id, x[1].id};
    nsi_block outer = {.kind = &nsi_dense_outer,
                       .params = {1, 1},
                       .ninput = 2,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = sink};
    assert_int_not_equal(nsi_graph_block(g, &outer), nsi_graph_block(g, &outer));
    assert_int_equal(g->error.status, NS_OK);
    ns_graph_free(g);
}

// ---- folding -------------------------------------------------------------------------------

// An operation on constants gives the bits that the operation on inputs gives at run time.
static void folding_gives_the_bits_of_running(void** state) {
    (void)state;
    static const double values[] = {0.0,   -0.0,   1.0,    -1.0,     0.5,       2.0,
                                    -0.75, 3.25,   1e-10,  1e10,     1e-300,    -1e300,
                                    700.0, -710.0, 1e-320, INFINITY, -INFINITY, NAN};
    enum { N = sizeof values / sizeof *values };
    for (nsi_op op = 0; op < NSI_OP_COUNT; op++) {
        uint32_t arity = nsi_ops[op].arity;
        bool bits = op == NSI_POW2I || op == NSI_EXPONENT;
        if (nsi_ops[op].kind == NSI_KIND_LEAF || bits) continue;
        ns_graph* g = tracing_begin();
        ns_expr x = ns_input("x"), y = ns_input("y"), z = ns_input("z");
        ns_output("f", make(op, x, y, z));
        uint32_t count = arity == 1 ? N : arity == 2 ? N * N : 300;
        double* expected = calloc(count, sizeof *expected);
        double in[3], out[1 + 324];
        for (uint32_t i = 0; i < count; i++) {
            in[0] = values[i % N];
            in[1] = values[i / N % N];
            in[2] = values[i * 5 / 3 % N];
            run_graph(g, in, out);
            expected[i] = out[0];
            nsi_id folded = make(op, ns_const(in[0]), ns_const(in[1]), ns_const(in[2])).id;
            const nsi_node* node = &g->nodes.data[folded];
            assert_int_equal(node->op, NSI_CONST);
            if (!check_same_bits(node->value, expected[i])) {
                fail_msg("%s(%g, %g, %g) folds to %.17g, runs to %.17g", nsi_ops[op].name, in[0],
                         in[1], in[2], node->value, expected[i]);
            }
        }
        free(expected);
        tracing_end();
        ns_graph_free(g);
    }
}

static void constants_fold_as_ieee_says(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr zero = ns_const(0.0), one = ns_const(1.0), inf = ns_const(INFINITY);
    assert_true(isnan(g->nodes.data[ns_mul(zero, inf).id].value));  // not x*0
    assert_true(isnan(g->nodes.data[ns_sub(inf, inf).id].value));   // not x-x
    assert_true(isnan(g->nodes.data[ns_div(zero, zero).id].value)); // not 0/x
    assert_true(g->nodes.data[ns_div(one, zero).id].value == INFINITY);
    assert_true(g->nodes.data[ns_add(ns_const(0.1), ns_const(0.2)).id].value == 0.1 + 0.2);
    tracing_end();
    ns_graph_free(g);
}

// ---- identities ----------------------------------------------------------------------------

typedef ns_expr builder(ns_expr x, ns_expr y, ns_expr z);
typedef double evaluator(double x, double y, double z);

static ns_expr k(double value) {
    return ns_const(value);
}

// IDENTITY(name, what is written, the form it must take, the same in C)
#define IDENTITIES(X)                                                                              \
    X(add_zero, ns_add(x, k(0)), x, x)                                                             \
    X(zero_add, ns_add(k(0), x), x, x)                                                             \
    X(add_minus_zero, ns_add(x, k(-0.0)), x, x)                                                    \
    X(add_negated, ns_add(x, ns_neg(y)), ns_sub(x, y), x - y)                                      \
    X(negated_add, ns_add(ns_neg(x), y), ns_sub(y, x), y - x)                                      \
    X(sub_self, ns_sub(x, x), k(0), 0.0)                                                           \
    X(sub_zero, ns_sub(x, k(0)), x, x)                                                             \
    X(zero_sub, ns_sub(k(0), x), ns_neg(x), -x)                                                    \
    X(sub_negated, ns_sub(x, ns_neg(y)), ns_add(x, y), x + y)                                      \
    X(negated_sub, ns_sub(ns_neg(x), y), ns_neg(ns_add(x, y)), -x - y)                             \
    X(sub_constant, ns_sub(x, k(3)), ns_add(x, k(-3)), x - 3)                                      \
    X(mul_zero, ns_mul(x, k(0)), k(0), 0.0)                                                        \
    X(zero_mul, ns_mul(k(0), x), k(0), 0.0)                                                        \
    X(mul_one, ns_mul(x, k(1)), x, x)                                                              \
    X(one_mul, ns_mul(k(1), x), x, x)                                                              \
    X(mul_minus_one, ns_mul(x, k(-1)), ns_neg(x), -x)                                              \
    X(negated_mul_constant, ns_mul(ns_neg(x), k(3)), ns_mul(x, k(-3)), -3 * x)                     \
    X(negated_mul, ns_mul(ns_neg(x), y), ns_neg(ns_mul(x, y)), -x* y)                              \
    X(mul_negated, ns_mul(x, ns_neg(y)), ns_neg(ns_mul(x, y)), x * -y)                             \
    X(negated_mul_negated, ns_mul(ns_neg(x), ns_neg(y)), ns_mul(x, y), x* y)                       \
    X(zero_div, ns_div(k(0), x), k(0), 0.0)                                                        \
    X(div_one, ns_div(x, k(1)), x, x)                                                              \
    X(div_power_of_two, ns_div(x, k(8)), ns_mul(x, k(0.125)), x / 8)                               \
    X(div_minus_power_of_two, ns_div(x, k(-4)), ns_mul(x, k(-0.25)), x / -4)                       \
    X(negated_div, ns_div(ns_neg(x), y), ns_neg(ns_div(x, y)), -x / y)                             \
    X(div_negated, ns_div(x, ns_neg(y)), ns_neg(ns_div(x, y)), x / -y)                             \
    X(neg_neg, ns_neg(ns_neg(x)), x, x)                                                            \
    X(neg_sub, ns_neg(ns_sub(x, y)), ns_sub(y, x), y - x)                                          \
    X(fma_zero, ns_fma(x, y, k(0)), ns_mul(x, y), x* y)                                            \
    X(fma_one, ns_fma(x, k(1), y), ns_add(x, y), x + y)                                            \
    X(fma_one_first, ns_fma(k(1), x, y), ns_add(x, y), x + y)                                      \
    X(fma_times_zero, ns_fma(x, k(0), y), y, y)                                                    \
    X(fma_both_negated, ns_fma(ns_neg(x), ns_neg(y), z), ns_fma(x, y, z), fma(x, y, z))            \
    X(fma_negated, ns_fma(ns_neg(x), y, z), make(NSI_FNMA, x, y, z), fma(-x, y, z))                \
    X(fma_minus, ns_fma(x, y, ns_neg(z)), make(NSI_FMS, x, y, z), fma(x, y, -z))                   \
    X(fma_all_negated, ns_fma(x, ns_neg(y), ns_neg(z)), make(NSI_FNMS, x, y, z), fma(x, -y, -z))   \
    X(fms_one, make(NSI_FMS, x, k(1), y), ns_sub(x, y), x - y)                                     \
    X(fnma_one, make(NSI_FNMA, x, k(1), y), ns_sub(y, x), y - x)                                   \
    X(fnms_zero, make(NSI_FNMS, x, k(0), y), ns_neg(y), -y)                                        \
    X(abs_abs, ns_abs(ns_abs(x)), ns_abs(x), fabs(x))                                              \
    X(abs_neg, ns_abs(ns_neg(x)), ns_abs(x), fabs(x))                                              \
    X(copysign_abs, ns_copysign(ns_abs(x), y), ns_copysign(x, y), copysign(x, y))                  \
    X(min_self, ns_min(x, x), x, x)                                                                \
    X(max_self, ns_max(x, x), x, x)                                                                \
    X(lt_self, ns_lt(x, x), k(0), 0.0)                                                             \
    X(select_true, ns_select(k(2), x, y), x, x)                                                    \
    X(select_nan, ns_select(k(NAN), x, y), x, x)                                                   \
    X(select_false, ns_select(k(0), x, y), y, y)                                                   \
    X(select_same, ns_select(ns_lt(x, y), z, z), z, z)                                             \
    X(select_not, ns_select(ns_not(z), x, y), ns_select(z, y, x), z != 0 ? y : x)                  \
    X(and_false, ns_and(x, k(0)), k(0), 0.0)                                                       \
    X(and_true, ns_and(ns_lt(x, y), k(1)), ns_lt(x, y), x < y)                                     \
    X(true_and_number, ns_and(k(1), x), ns_ne(x, k(0)), x != 0)                                    \
    X(or_true, ns_or(x, k(-1)), k(1), 1.0)                                                         \
    X(or_false, ns_or(k(0), ns_lt(x, y)), ns_lt(x, y), x < y)                                      \
    X(or_false_number, ns_or(x, k(0)), ns_ne(x, k(0)), x != 0)                                     \
    X(and_self, ns_and(ns_lt(x, y), ns_lt(x, y)), ns_lt(x, y), x < y)                              \
    X(or_self, ns_or(ns_lt(x, y), ns_lt(x, y)), ns_lt(x, y), x < y)                                \
    X(pow_0, ns_pow(x, k(0)), k(1), 1.0)                                                           \
    X(pow_1, ns_pow(x, k(1)), x, x)                                                                \
    X(pow_2, ns_pow(x, k(2)), ns_mul(x, x), x* x)                                                  \
    X(pow_3, ns_pow(x, k(3)), ns_mul(ns_mul(x, x), x), x* x* x)                                    \
    X(pow_minus_1, ns_pow(x, k(-1)), ns_div(k(1), x), 1 / x)                                       \
    X(pow_half, ns_pow(x, k(0.5)), ns_sqrt(x), sqrt(x))                                            \
    X(pow_three_halves, ns_pow(x, k(1.5)), ns_mul(x, ns_sqrt(x)), x* sqrt(x))

#define DEFINE(name, written, form, value)                                                         \
    static ns_expr written_##name(ns_expr x, ns_expr y, ns_expr z) {                               \
        (void)x, (void)y, (void)z;                                                                 \
        return written;                                                                            \
    }                                                                                              \
    static ns_expr form_##name(ns_expr x, ns_expr y, ns_expr z) {                                  \
        (void)x, (void)y, (void)z;                                                                 \
        return form;                                                                               \
    }                                                                                              \
    static double value_##name(double x, double y, double z) {                                     \
        (void)x, (void)y, (void)z;                                                                 \
        return value;                                                                              \
    }
IDENTITIES(DEFINE)
#undef DEFINE

static void identities_apply_and_are_true(void** state) {
    (void)state;
    static const struct {
        const char* name;
        builder *written, *form;
        evaluator* value;
    } identities[] = {
#define ROW(name, written, form, value) {#name, written_##name, form_##name, value_##name},
        IDENTITIES(ROW)
#undef ROW
    };
    static const double points[][3] = {{0.7, -1.3, 2.1}, {-0.2, 0.9, 0.0}, {1e-3, 4.0, -5.5}};
    for (size_t i = 0; i < sizeof identities / sizeof *identities; i++) {
        ns_graph* g = tracing_begin();
        ns_expr x = ns_input("x"), y = ns_input("y"), z = ns_input("z");
        ns_expr written = identities[i].written(x, y, z), form = identities[i].form(x, y, z);
        ns_output("f", written);
        tracing_end();
        if (written.id != form.id) fail_msg("%s is not applied", identities[i].name);
        for (int p = 0; p < 3; p++) {
            double out, expected = identities[i].value(points[p][0], points[p][1], points[p][2]);
            run_graph(g, points[p], &out);
            if (!(out == expected) && !(isnan(out) && isnan(expected))) {
                fail_msg("%s: %.17g instead of %.17g", identities[i].name, out, expected);
            }
        }
        ns_graph_free(g);
    }
}

// What looks like an identity but changes values for finite numbers, or hides a NaN that is asked
// about, stays as it is written.
static void what_is_not_an_identity_is_left_alone(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), y = ns_input("y"), z = ns_input("z");
    const struct {
        ns_expr written;
        nsi_op op;
    } kept[] = {
        {ns_div(x, x), NSI_DIV}, // 0/0
        {ns_le(x, x), NSI_LE},   // NaN
        {ns_eq(x, x), NSI_EQ},
        {ns_ne(x, x), NSI_NE},
        {ns_mul(x, k(INFINITY)), NSI_MUL},
        {ns_div(x, k(3)), NSI_DIV},         // 1/3 is not exact
        {ns_div(x, k(0x1p-1074)), NSI_DIV}, // its inverse overflows
        {ns_div(x, k(0)), NSI_DIV},
        {ns_sqrt(ns_mul(x, x)), NSI_SQRT}, // overflows
        {ns_log(ns_exp(x)), NSI_LOG},
        {ns_pow(x, k(4)), NSI_POW},
        {ns_pow(k(0), x), NSI_POW},
        {ns_neg(ns_add(x, y)), NSI_NEG},
        {ns_fma(x, y, z), NSI_FMA},
        {ns_fma(x, x, ns_neg(ns_mul(x, x))), NSI_FMS}, // the rounding error of x*x, not 0
        {ns_not(ns_not(x)), NSI_NOT},                  // 1 or 0, not x
        {ns_and(x, x), NSI_AND},
    };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        assert_int_equal(g->nodes.data[kept[i].written.id].op, kept[i].op);
    }
    // Nothing is reassociated or distributed.
    assert_int_not_equal(ns_add(ns_add(x, y), z).id, ns_add(x, ns_add(y, z)).id);
    assert_int_not_equal(ns_mul(ns_mul(x, y), z).id, ns_mul(x, ns_mul(y, z)).id);
    assert_int_not_equal(ns_mul(ns_mul(x, k(2)), k(3)).id, ns_mul(x, k(6)).id);
    assert_int_not_equal(ns_add(ns_add(x, k(2)), k(3)).id, ns_add(x, k(5)).id);
    assert_int_not_equal(ns_add(ns_mul(x, y), ns_mul(x, z)).id, ns_mul(x, ns_add(y, z)).id);
    assert_int_not_equal(ns_sub(ns_add(x, y), y).id, x.id);
    assert_int_not_equal(ns_div(ns_mul(x, y), y).id, x.id);
    assert_int_not_equal(ns_min(x, y).id, ns_min(y, x).id); // a tie and a NaN take the second
    tracing_end();
    ns_graph_free(g);
}

// ---- ports ---------------------------------------------------------------------------------

static void ports_have_names_and_sizes(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), y = ns_input("y");
    ns_array w = ns_input_array("x", 7, false), v = ns_input_array("v", 9, true);
    ns_output("x", y); // the same name for another kind of port is fine
    ns_output("z", x);
    tracing_end();
    assert_int_equal(w.size, 7);
    assert_int_equal(v.input, 1);
    assert_int_equal(ns_graph_input_count(g), 2);
    assert_int_equal(ns_graph_output_count(g), 2);
    assert_int_equal(ns_graph_array_count(g), 2);
    assert_int_equal(ns_graph_sink_count(g), 0);
    assert_string_equal(ns_graph_input_name(g, 1), "y");
    assert_string_equal(ns_graph_output_name(g, 0), "x");
    assert_string_equal(ns_graph_array_name(g, 1), "v");
    assert_int_equal(ns_graph_array_size(g, 0), 7);
    assert_int_equal(ns_graph_array_size(g, 1), 9);
    assert_null(ns_graph_input_name(g, 2));
    assert_null(ns_graph_output_name(g, UINT32_MAX));
    assert_null(ns_graph_array_name(g, 2));
    assert_null(ns_graph_sink_name(g, 0));
    assert_int_equal(ns_graph_array_size(g, 2), 0);
    assert_int_equal(ns_graph_sink_size(g, 0), 0);
    assert_int_equal(nsi_graph_find(g, NSI_PORT_INPUT, "y"), 1);
    assert_int_equal(nsi_graph_find(g, NSI_PORT_INPUT, "z"), NSI_NONE);
    ns_graph_free(g);
    ns_graph_free(NULL);
}

static void names_are_checked(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_input("twice");
    ns_input("twice");
    end_with(g, NS_ERR_ARGUMENT, "more than one input is called \"twice\"");

    g = tracing_begin();
    ns_output("y", k(1));
    ns_output("y", k(2));
    end_with(g, NS_ERR_ARGUMENT, "more than one output is called \"y\"");

    g = tracing_begin();
    ns_input_array("w", 1, false);
    ns_input_array("w", 2, true);
    end_with(g, NS_ERR_ARGUMENT, "more than one array input is called \"w\"");

    g = tracing_begin();
    ns_input("");
    end_with(g, NS_ERR_ARGUMENT, "an input needs a name");

    g = tracing_begin();
    ns_output(NULL, k(1));
    end_with(g, NS_ERR_ARGUMENT, "an output needs a name");

    char name[1026];
    memset(name, 'n', sizeof name);
    name[1023] = '\0';
    g = tracing_begin();
    ns_input(name);
    ns_output(name, k(1));
    tracing_end();
    assert_string_equal(ns_graph_input_name(g, 0), name);
    ns_graph_free(g);

    name[1023] = 'n';
    name[1024] = '\0';
    g = tracing_begin();
    ns_input(name);
    end_with(g, NS_ERR_LIMIT, "1024 bytes");
}

static void array_sizes_are_checked(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_input_array("w", 0, false);
    end_with(g, NS_ERR_LIMIT, "\"w\" has size 0");
    g = tracing_begin();
    ns_input_array("w", (1u << 28) + 1, false);
    end_with(g, NS_ERR_LIMIT, "\"w\" has size 268435457");

    static const struct {
        uint32_t offset, size;
    } bad[] = {{0, 11}, {10, 1}, {11, 0}, {5, 6}, {UINT32_MAX, 2}, {2, UINT32_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        g = tracing_begin();
        ns_array slice = ns_array_slice(ns_input_array("w", 10, false), bad[i].offset, bad[i].size);
        assert_int_equal(slice.size, 0);
        end_with(g, NS_ERR_ARGUMENT, "does not fit an array of 10");
    }
    // A slice of a slice counts from the slice.
    g = tracing_begin();
    ns_array w = ns_input_array("w", 10, false);
    ns_array slice = ns_array_slice(ns_array_slice(w, 3, 6), 2, 4);
    assert_int_equal(slice.offset, 5);
    assert_int_equal(slice.size, 4);
    ns_array_slice(ns_array_slice(w, 3, 6), 3, 4);
    end_with(g, NS_ERR_ARGUMENT, "an array of 6");
}

// ---- tracing -------------------------------------------------------------------------------

static void tracing_has_a_beginning_and_an_end(void** state) {
    (void)state;
    ns_error error;
    assert_int_equal(ns_trace_end(&error), NS_ERR_STATE);
    assert_non_null(strstr(error.message, "without ns_trace_begin"));
    assert_int_equal(ns_trace_begin(NULL, &error), NS_ERR_ARGUMENT);

    ns_graph *g = tracing_begin(), *other = NULL;
    assert_int_equal(ns_graph_create(NULL, &other, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(other, &error), NS_ERR_STATE);
    assert_non_null(strstr(error.message, "tracing already"));
    assert_int_equal(ns_trace_begin(g, NULL), NS_ERR_STATE);
    ns_expr x = ns_input("x"); // the first trace goes on
    tracing_end();
    assert_int_equal(ns_graph_input_count(g), 1);
    assert_int_equal(ns_graph_input_count(other), 0);

    // A graph may be traced in several goes.
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
    ns_output("y", ns_sin(x));
    tracing_end();
    assert_int_equal(ns_graph_op_count(g), 1);
    ns_graph_free(g);
    ns_graph_free(other);
}

static void outside_of_a_trace_everything_is_invalid(void** state) {
    (void)state;
    ns_expr out[2], x[2] = {{0}, {1}};
    assert_false(ns_expr_is_valid(ns_input("x")));
    assert_false(ns_expr_is_valid(ns_const(1.0)));
    assert_false(ns_expr_is_valid(ns_add(x[0], x[1])));
    assert_false(ns_expr_is_valid(ns_sin(x[0])));
    assert_false(ns_expr_is_valid(ns_select(x[0], x[1], x[0])));
    assert_false(ns_expr_is_valid(ns_norm(2, x)));
    assert_false(ns_expr_is_valid(ns_clamp(x[0], x[0], x[1])));
    ns_normalize(2, x, out);
    assert_false(ns_expr_is_valid(out[0]) || ns_expr_is_valid(out[1]));
    ns_gradient(x[0], 2, x, out);
    assert_false(ns_expr_is_valid(out[0]) || ns_expr_is_valid(out[1]));
    ns_array w = ns_input_array("w", 6, false);
    assert_int_equal(w.size, 0);
    ns_dense_layer((ns_array){0, 0, 6}, 2, x, 2, NS_TANH, out);
    assert_false(ns_expr_is_valid(out[0]) || ns_expr_is_valid(out[1]));
    ns_output("y", x[0]);
}

static void the_first_failure_is_reported(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x");
    ns_expr lost = ns_add(x, (ns_expr){1000}); // of some larger graph
    assert_false(ns_expr_is_valid(lost));
    assert_false(ns_expr_is_valid(ns_sin(lost))); // passed on
    assert_false(ns_expr_is_valid(ns_add(x, x))); // nothing is built any more
    assert_false(ns_expr_is_valid(ns_input("another")));
    ns_output("y", lost);
    uint32_t count = g->nodes.count;
    ns_error error;
    assert_int_equal(ns_trace_end(&error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "operand 2 of \"add\""));
    assert_int_equal(g->nodes.count, count);
    // It sticks.
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
    ns_output("z", x);
    end_with(g, NS_ERR_ARGUMENT, "operand 2 of \"add\"");

    g = tracing_begin();
    ns_output("y", (ns_expr){7});
    end_with(g, NS_ERR_ARGUMENT, "output \"y\" is not an expression of this graph");

    g = tracing_begin();
    ns_expr gradient[1];
    ns_gradient(ns_input("x"), 1, &(ns_expr){7}, gradient);
    assert_false(ns_expr_is_valid(gradient[0]));
    end_with(g, NS_ERR_ARGUMENT, "ns_gradient");
}

// ---- validator -----------------------------------------------------------------------------

typedef struct victim {
    ns_graph* g;
    nsi_id input, add, block, out, outer; // nodes
} victim;

static victim make_victim(void) {
    victim v = {.g = tracing_begin()};
    ns_expr x = ns_input("x"), y = ns_input("y"), layer[2];
    ns_array w = ns_input_array("w", 8, false);
    v.input = y.id;
    v.add = ns_add(x, y).id;
    ns_dense_layer(ns_array_slice(w, 4, 4), 2, (ns_expr[]){x, y}, 2, NS_IDENTITY, layer);
    v.out = layer[1].id;
    v.block = v.g->nodes.data[v.out].a;
    nsi_id inputs[2] = {x.id, y.id};
    nsi_block outer = {.kind = &nsi_dense_outer,
                       .params = {1, 1},
                       .ninput = 2,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = nsi_graph_sink(v.g, "s", 3, false),
                       .sink_offset = 2};
    v.outer = nsi_graph_block(v.g, &outer);
    ns_output("sum", ns_sub(ns_sin(layer[1]), (ns_expr){v.add}));
    tracing_end();
    return v;
}

// Each way of breaking a graph, and what the validator says about it.
#define CORRUPTIONS(X)                                                                             \
    X(g->nodes.data[v.add].op = NSI_OP_COUNT, "unknown operation")                                 \
    X(g->nodes.data[v.input].a = 0, "input without its port")                                      \
    X(g->nodes.data[v.input].a = 99, "input without its port")                                     \
    X(g->inputs.data[1].node = v.add, "input without its port")                                    \
    X(g->nodes.data[v.add].a = v.add, "operand not before its use")                                \
    X(g->nodes.data[v.add].b = g->nodes.count, "operand not before its use")                       \
    X(g->nodes.data[g->nodes.count - 1].a = v.block, "only an output of a block")                  \
    X(g->nodes.data[v.out].a = v.add, "only an output of a block")                                 \
    X(g->nodes.data[v.out].b = 2, "no such output of the block")                                   \
    X(g->nodes.data[v.block].a = g->blocks.count, "no such block")                                 \
    X(g->blocks.data[0].params[0] = 0, "bad parameters")                                           \
    X(g->blocks.data[0].params[0] = 3, "block sizes differ")                                       \
    X(g->blocks.data[0].noutput = 3, "block sizes differ")                                         \
    X(g->blocks.data[0].source = NSI_NONE, "array missing or not wanted")                          \
    X(g->blocks.data[0].sink = 0, "array missing or not wanted")                                   \
    X(g->blocks.data[1].sink = NSI_NONE, "array missing or not wanted")                            \
    X(g->blocks.data[0].source = 1, "array input out of range")                                    \
    X(g->blocks.data[0].source_offset = 5, "array input out of range")                             \
    X(g->blocks.data[0].source_offset = UINT32_MAX, "array input out of range")                    \
    X(g->blocks.data[1].sink = 1, "array output out of range")                                     \
    X(g->blocks.data[1].sink_offset = 3, "array output out of range")                              \
    X(((nsi_id*)g->blocks.data[0].inputs)[1] = v.block, "block input not before")                  \
    X(((nsi_id*)g->blocks.data[1].inputs)[0] = v.block, "used as a number")                        \
    X(g->outputs.data[0].node = g->nodes.count, "output 0 is not a number")                        \
    X(g->outputs.data[0].node = v.block, "output 0 is not a number")

static void validator_finds_every_corruption(void** state) {
    (void)state;
    ns_error error;
    victim sound = make_victim();
    assert_int_equal(nsi_graph_validate(sound.g, &error), NS_OK);
    ns_graph_free(sound.g);
#define CORRUPT(change, says)                                                                      \
    {                                                                                              \
        victim v = make_victim();                                                                  \
        ns_graph* g = v.g;                                                                         \
        change;                                                                                    \
        if (nsi_graph_validate(g, &error) != NS_ERR_INVALID) fail_msg("not noticed: " #change);    \
        if (!strstr(error.message, says)) fail_msg(#change ": %s", error.message);                 \
        assert_int_equal(nsi_graph_validate(g, NULL), NS_ERR_INVALID);                             \
        ns_graph_free(g);                                                                          \
    }
    CORRUPTIONS(CORRUPT)
#undef CORRUPT
}

static void blocks_are_checked_when_built(void** state) {
    (void)state;
    for (int bad = 0; bad < 5; bad++) {
        ns_graph* g = tracing_begin();
        nsi_id inputs[2] = {ns_input("x").id, ns_input("y").id};
        nsi_block block = {.kind = &nsi_dense,
                           .params = {2, 2},
                           .ninput = 2,
                           .inputs = inputs,
                           .source = ns_input_array("w", 4, false).input,
                           .sink = NSI_NONE};
        if (bad == 0) block.params[0] = 3;
        if (bad == 1) block.params[1] = 1 << 20;
        if (bad == 2) block.source_offset = 1;
        if (bad == 3) block.sink = 0;
        if (bad == 4) inputs[1] = 77;
        assert_int_equal(nsi_graph_block(g, &block), NSI_NONE);
        end_with(g, NS_ERR_ARGUMENT, "block dense");
    }
}

// ---- gradients inside a trace --------------------------------------------------------------

// f = sin(x) y + x^3: gradient and Hessian by ns_gradient against the closed form.
static void gradient_and_its_gradient(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x[2] = {ns_input("x"), ns_input("y")}, d[2], dd[2];
    ns_expr f = ns_add(ns_mul(ns_sin(x[0]), x[1]), ns_pow(x[0], k(3)));
    ns_gradient(f, 2, x, d);
    ns_output("fx", d[0]);
    ns_output("fy", d[1]);
    ns_gradient(d[0], 2, x, dd);
    ns_output("fxx", dd[0]);
    ns_output("fxy", dd[1]);
    ns_gradient(d[1], 2, x, dd);
    ns_output("fyx", dd[0]);
    ns_output("fyy", dd[1]);
    tracing_end();
    const double a = 0.8, b = -1.7, in[2] = {a, b};
    const double expected[6] = {
        cos(a) * b + 3 * a * a, sin(a), -sin(a) * b + 6 * a, cos(a), cos(a), 0.0};
    double out[6];
    run_graph(g, in, out);
    for (int i = 0; i < 6; i++) assert_true(fabs(out[i] - expected[i]) < 4e-15);
    check_function(g, in, NULL, &(check_options){.name = "gradients", .second = true});
    ns_graph_free(g);
}

static void gradient_for_intermediate_variables(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), u = ns_sin(x), v = ns_mul(u, u), d[3];
    ns_expr f = ns_mul(ns_mul(u, v), x);
    // Each variable is independent of the others: x does not act through u, nor u through v.
    ns_gradient(f, 3, (ns_expr[]){x, u, v}, d);
    ns_output("x", d[0]); // u v
    ns_output("u", d[1]); // v x
    ns_output("v", d[2]); // u x
    ns_gradient(f, 1, &x, d);
    ns_output("all", d[0]); // sin^3 + 3 x sin^2 cos
    ns_gradient(f, 1, &v, d);
    ns_output("v alone", d[0]); // u x
    ns_gradient(f, 1, &f, d);
    ns_output("itself", d[0]); // 1
    ns_expr unrelated = ns_input("other"), later = ns_cos(f);
    ns_gradient(f, 2, (ns_expr[]){unrelated, later}, d);
    ns_output("unrelated", d[0]);
    ns_output("later", d[1]);
    ns_gradient(f, 2, (ns_expr[]){u, u}, d); // the same one twice
    ns_output("u first", d[0]);
    ns_output("u second", d[1]);
    ns_gradient(k(3), 1, &x, d);
    ns_output("of a constant", d[0]);
    ns_gradient(f, 0, NULL, NULL);
    tracing_end();
    const double a = 0.6, s = sin(a), in[2] = {a, 9.0};
    const double total = 3 * s * s * a; // for u alone, v acting through it
    const double expected[11] = {s * s * s, s * s * a, s * a, s * s * s + 3 * a * s * s * cos(a),
                                 s * a,     1.0,       0.0,   0.0,
                                 total,     total,     0.0};
    double out[11];
    run_graph(g, in, out);
    for (int i = 0; i < 11; i++) {
        if (!(fabs(out[i] - expected[i]) < 1e-15)) {
            fail_msg("%s: %.17g instead of %.17g", ns_graph_output_name(g, (uint32_t)i), out[i],
                     expected[i]);
        }
    }
    ns_graph_free(g);
}

static void gradient_through_a_layer(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x[2] = {ns_input("x"), ns_input("y")}, y[1], d[2], z[1];
    ns_array w = ns_input_array("w", 3, false);
    ns_dense_layer(w, 2, x, 1, NS_TANH, y);
    ns_gradient(y[0], 2, x, d);
    ns_output("dx", d[0]);
    ns_output("dy", d[1]);
    // For the output of the block itself: its derivative is that of the activation.
    ns_dense_layer(w, 2, x, 1, NS_IDENTITY, z);
    ns_gradient(y[0], 1, z, d);
    ns_output("dz", d[0]);
    tracing_end();
    const double in[2] = {0.4, -0.9}, weights[3] = {0.7, -0.2, 0.1};
    double out[3];
    ns_program* program = NULL;
    assert_int_equal(ns_program_build(g, NULL, &program, NULL), NS_OK);
    void* work = malloc(ns_program_work_size(program));
    ns_program_run(
        program,
        &(ns_run){.in = in, .out = out, .arrays = (const double* const[]){weights}, .work = work});
    double t = tanh(0.4 * 0.7 + 0.9 * 0.2 + 0.1), slope = 1 - t * t;
    assert_true(fabs(out[0] - 0.7 * slope) < 1e-15);
    assert_true(fabs(out[1] + 0.2 * slope) < 1e-15);
    assert_true(fabs(out[2] - slope) < 1e-15);
    free(work);
    ns_program_free(program);
    check_function(g, in, (const double* const[]){weights},
                   &(check_options){.name = "gradient of a layer", .second = true});
    ns_graph_free(g);
}

// ---- options of differentiation ------------------------------------------------------------

static ns_graph* three_inputs(void) {
    ns_graph* g = tracing_begin();
    ns_expr x[3] = {ns_input("a"), ns_input("b"), ns_input("c")}, y[1];
    ns_array w = ns_input_array("w", 3, false);
    ns_input_array("v", 2, true);
    ns_dense_layer(w, 3, x, 1, NS_IDENTITY, y);
    ns_output("f", ns_mul(ns_mul(x[0], x[1]), x[2]));
    ns_output("g", y[0]);
    tracing_end();
    return g;
}

// The names of all ports, as one text.
static void expect_ports(const ns_graph* g, const char* expected) {
    char text[600] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < ns_graph_input_count(g); i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s ", ns_graph_input_name(g, i));
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "| ");
    for (uint32_t i = 0; i < ns_graph_array_count(g); i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s[%u]%s ",
                                 ns_graph_array_name(g, i), ns_graph_array_size(g, i),
                                 g->arrays.data[i].per_lane ? "*" : "");
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "-> ");
    for (uint32_t i = 0; i < ns_graph_output_count(g); i++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s ", ns_graph_output_name(g, i));
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "| ");
    for (uint32_t i = 0; i < ns_graph_sink_count(g); i++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s[%u]%s ", ns_graph_sink_name(g, i),
                             ns_graph_sink_size(g, i), g->sinks.data[i].per_lane ? "*" : "");
    }
    assert_string_equal(text, expected);
}

static ns_graph* jvp(const ns_graph* g, const ns_diff_options* options) {
    ns_graph* d = NULL;
    ns_error error;
    must(ns_graph_jvp(g, options, &d, &error), &error);
    return d;
}

static ns_graph* vjp(const ns_graph* g, const ns_diff_options* options) {
    ns_graph* d = NULL;
    ns_error error;
    must(ns_graph_vjp(g, options, &d, &error), &error);
    return d;
}

static void options_choose_what_is_differentiated(void** state) {
    (void)state;
    ns_graph *f = three_inputs(), *d;
    const uint32_t wrt[] = {2, 0};
    ns_diff_options options = ns_default_diff_options();

    d = jvp(f, NULL);
    expect_ports(d, "a b c d:a d:b d:c | w[3] v[2]* d:w[3] d:v[2]* -> f g d:f d:g | ");
    ns_graph_free(d);
    d = vjp(f, NULL);
    expect_ports(d, "a b c seed:f seed:g | w[3] v[2]* -> f g d:a d:b d:c | d:w[3] d:v[2]* ");
    ns_graph_free(d);

    options.wrt = wrt;
    options.nwrt = 2;
    d = jvp(f, &options);
    expect_ports(d, "a b c d:a d:c | w[3] v[2]* d:w[3] d:v[2]* -> f g d:f d:g | ");
    ns_graph_free(d);
    options.skip_arrays = true;
    d = vjp(f, &options);
    expect_ports(d, "a b c seed:f seed:g | w[3] v[2]* -> f g d:a d:c | ");
    double out[4];
    ns_graph_free(d);

    options.skip_value = true;
    d = jvp(f, &options);
    expect_ports(d, "a b c d:a d:c | w[3] v[2]* -> d:f d:g | ");
    ns_graph_free(d);

    options = ns_default_diff_options();
    options.per_lane = true;
    d = jvp(f, &options);
    expect_ports(d, "a b c d:a d:b d:c | w[3] v[2]* d:w[3]* d:v[2]* -> f g d:f d:g | ");
    ns_graph_free(d);
    options.skip_inputs = true; // arrays only
    d = vjp(f, &options);
    expect_ports(d, "a b c seed:f seed:g | w[3] v[2]* -> f g | d:w[3]* d:v[2]* ");
    ns_graph_free(d);
    options.skip_inputs = false;
    options.wrt = wrt;
    options.nwrt = 0; // the same
    d = vjp(f, &options);
    expect_ports(d, "a b c seed:f seed:g | w[3] v[2]* -> f g | d:w[3]* d:v[2]* ");
    ns_graph_free(d);

    // The numbers: f = a b c, so the tangent for a and c alone is b c da + a b dc.
    options = ns_default_diff_options();
    options.wrt = wrt;
    options.nwrt = 2;
    options.skip_value = options.skip_arrays = true;
    ns_graph* only_f = tracing_begin();
    ns_expr x[3] = {ns_input("a"), ns_input("b"), ns_input("c")};
    ns_output("f", ns_mul(ns_mul(x[0], x[1]), x[2]));
    tracing_end();
    d = jvp(only_f, &options);
    run_graph(d, (double[]){2.0, 3.0, 5.0, 7.0, 11.0}, out);
    assert_true(out[0] == 3.0 * 5.0 * 7.0 + 2.0 * 3.0 * 11.0);
    ns_graph_free(d);
    d = vjp(only_f, &options);
    run_graph(d, (double[]){2.0, 3.0, 5.0, 10.0}, out);
    assert_true(out[0] == 150.0 && out[1] == 60.0);
    ns_graph_free(d);
    ns_graph_free(only_f);
    ns_graph_free(f);
}

static void wrong_options_are_reported(void** state) {
    (void)state;
    ns_graph *f = three_inputs(), *d = f;
    ns_error error;
    const uint32_t wrt[] = {1, 3};
    ns_diff_options options = ns_default_diff_options();
    options.wrt = wrt;
    options.nwrt = 2;
    assert_int_equal(ns_graph_jvp(f, &options, &d, &error), NS_ERR_ARGUMENT);
    assert_null(d);
    assert_non_null(strstr(error.message, "wrt[1] is input number 3"));
    assert_int_equal(ns_graph_vjp(f, &options, &d, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "wrt[1] is input number 3"));
    ns_graph_free(f);
}

// Repeated derivatives number their prefixes where names would clash.
static void prefixes_are_numbered(void** state) {
    (void)state;
    ns_graph* f = tracing_begin();
    ns_output("f", ns_sin(ns_input("x")));
    tracing_end();
    ns_graph *first = jvp(f, NULL), *second = jvp(first, NULL), *third = jvp(second, NULL);
    expect_ports(first, "x d:x | -> f d:f | ");
    expect_ports(second, "x d:x d2:x d2:d:x | -> f d:f d2:f d2:d:f | ");
    expect_ports(third, "x d:x d2:x d2:d:x d3:x d3:d:x d3:d2:x d3:d2:d:x | "
                        "-> f d:f d2:f d2:d:f d3:f d3:d:f d3:d2:f d3:d2:d:f | ");
    ns_graph_free(first);
    ns_graph_free(second);
    ns_graph_free(third);

    first = vjp(f, NULL), second = vjp(first, NULL), third = jvp(first, NULL);
    expect_ports(first, "x seed:f | -> f d:x | ");
    expect_ports(second, "x seed:f seed2:f seed2:d:x | -> f d:x d2:x d2:seed:f | ");
    expect_ports(third, "x seed:f d:x d:seed:f | -> f d:x d:f d:d:x | ");
    ns_graph_free(first);
    ns_graph_free(second);
    ns_graph_free(third);
    ns_graph_free(f);

    // A name that somebody has taken already.
    f = tracing_begin();
    ns_expr x = ns_input("x");
    ns_output("d:x", ns_mul(x, ns_input("d:x")));
    tracing_end();
    first = vjp(f, NULL);
    expect_ports(first, "x d:x seed2:d:x | -> d:x d2:x d2:d:x | ");
    ns_graph_free(first);
    first = jvp(f, NULL);
    expect_ports(first, "x d:x d2:x d2:d:x | -> d:x d2:d:x | ");
    ns_graph_free(first);
    ns_graph_free(f);

    // A name that becomes too long.
    char name[1024];
    memset(name, 'n', 1022);
    name[1022] = '\0';
    f = tracing_begin();
    ns_output("f", ns_sin(ns_input(name)));
    tracing_end();
    ns_error error;
    assert_int_equal(ns_graph_jvp(f, NULL, &first, &error), NS_ERR_LIMIT);
    assert_null(first);
    assert_int_equal(ns_graph_vjp(f, NULL, &first, &error), NS_ERR_LIMIT);
    assert_null(first);
    ns_graph_free(f);
}

// Rounding and bits stand for functions in a lowered graph: its derivative would be wrong in
// silence.
static void lowered_graphs_are_not_differentiated(void** state) {
    (void)state;
    ns_graph *g = tracing_begin(), *lowered = NULL, *again = NULL, *derivative = NULL;
    ns_output("y", ns_sin(ns_input("x")));
    tracing_end();
    ns_error error;
    ns_text text;
    assert_int_equal(ns_graph_lower(g, false, &lowered, &error), NS_OK);
    assert_int_equal(ns_graph_jvp(lowered, NULL, &derivative, &error), NS_ERR_UNSUPPORTED);
    assert_int_equal(ns_graph_vjp(lowered, NULL, &derivative, &error), NS_ERR_UNSUPPORTED);
    assert_null(derivative);
    // Neither after a round trip through text.
    assert_int_equal(ns_graph_print(lowered, &text, &error), NS_OK);
    assert_int_equal(ns_graph_parse(text.data, text.size, NULL, NULL, &again, &error), NS_OK);
    assert_int_equal(ns_graph_vjp(again, NULL, &derivative, &error), NS_ERR_UNSUPPORTED);
    ns_text_free(&text);
    ns_graph_free(again);
    ns_graph_free(lowered);
    ns_graph_free(g);
}

// Blocks are cheap to write down and have many outputs: their sum must not wrap around.
static void too_many_block_outputs_are_refused(void** state) {
    (void)state;
    enum { WIDTH = 1 << 14, BLOCKS = (1 << 28) / WIDTH + 1 };
    ns_graph *g = tracing_begin(), *derivative = NULL;
    ns_array w = ns_input_array("w", WIDTH, false);
    nsi_id x = ns_input("x").id;
    for (uint32_t k = 0; k < BLOCKS; k++) {
        nsi_block block = {.kind = &nsi_dense,
                           .params = {1, WIDTH},
                           .ninput = 1,
                           .inputs = &x,
                           .source = w.input,
                           .sink = NSI_NONE};
        x = nsi_graph_out(g, nsi_graph_block(g, &block), 0);
    }
    ns_output("y", (ns_expr){x});
    tracing_end();
    ns_error error;
    assert_int_equal(ns_graph_jvp(g, NULL, &derivative, &error), NS_ERR_LIMIT);
    assert_int_equal(ns_graph_vjp(g, NULL, &derivative, &error), NS_ERR_LIMIT);
    assert_null(derivative);
    ns_graph_free(g);
}

static void a_freed_graph_is_traced_no_more(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_graph_free(g);
    assert_false(ns_expr_is_valid(ns_input("x")));
    assert_int_equal(ns_trace_end(NULL), NS_ERR_STATE);
}

// docs/operations.md says what the table says.
static void the_page_of_operations_is_up_to_date(void** state) {
    (void)state;
    static const struct {
        const char *name, *kind, *edges;
    } rows[] = {
#define OP(ENUM, name, arity, kind, flags, value, da, db, dc, edges) {#name, #kind, edges},
#include "expr/ops.def"
#undef OP
    };
    FILE* file = fopen(NEURALSIM_SOURCE_DIR "/docs/operations.md", "r");
    assert_non_null(file);
    static char page[1 << 16];
    size_t size = fread(page, 1, sizeof page - 1, file);
    fclose(file);
    // Bars are escaped in the page's table.
    for (size_t i = 0, k = 0; i <= size; i++) {
        if (page[i] != '\\' || page[i + 1] != '|') page[k++] = page[i];
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].kind, "LEAF") == 0) continue;
        char start[64];
        snprintf(start, sizeof start, "\n| `%s` |", rows[i].name);
        const char* line = strstr(page, start);
        if (!line) fail_msg("%s is missing", rows[i].name);
        const char *text = strstr(line, rows[i].edges), *end = strchr(line + 1, '\n');
        if (!text || text > end) fail_msg("%s: \"%s\" is missing", rows[i].name, rows[i].edges);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_nodes_are_one_node),
        cmocka_unit_test(constants_are_one_node_by_their_bits),
        cmocka_unit_test(many_nodes_stay_apart),
        cmocka_unit_test(equal_blocks_are_one_block),
        cmocka_unit_test(folding_gives_the_bits_of_running),
        cmocka_unit_test(constants_fold_as_ieee_says),
        cmocka_unit_test(identities_apply_and_are_true),
        cmocka_unit_test(what_is_not_an_identity_is_left_alone),
        cmocka_unit_test(ports_have_names_and_sizes),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(array_sizes_are_checked),
        cmocka_unit_test(tracing_has_a_beginning_and_an_end),
        cmocka_unit_test(outside_of_a_trace_everything_is_invalid),
        cmocka_unit_test(the_first_failure_is_reported),
        cmocka_unit_test(validator_finds_every_corruption),
        cmocka_unit_test(blocks_are_checked_when_built),
        cmocka_unit_test(gradient_and_its_gradient),
        cmocka_unit_test(gradient_for_intermediate_variables),
        cmocka_unit_test(gradient_through_a_layer),
        cmocka_unit_test(options_choose_what_is_differentiated),
        cmocka_unit_test(wrong_options_are_reported),
        cmocka_unit_test(prefixes_are_numbered),
        cmocka_unit_test(lowered_graphs_are_not_differentiated),
        cmocka_unit_test(too_many_block_outputs_are_refused),
        cmocka_unit_test(a_freed_graph_is_traced_no_more),
        cmocka_unit_test(the_page_of_operations_is_up_to_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
