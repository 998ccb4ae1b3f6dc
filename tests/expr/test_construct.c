// Construction of nodes: constants are folded, identities applied where they are exact.

#include "expr/block.h"
#include "expr/graph_rig.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/tracing.h"

#include <math.h>
#include <stdlib.h>

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
    X(max_bounded, ns_max(k(2), ns_min(x, k(1))), k(2), fmax(2, fmin(x, 1)))                       \
    X(max_bounded_first, ns_max(ns_min(x, k(2)), k(2)), k(2), fmax(fmin(x, 2), 2))                 \
    X(min_bounded, ns_min(k(-3), ns_max(x, k(-2))), k(-3), fmin(-3, fmax(x, -2)))                  \
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
        {ns_max(k(2), ns_min(k(1), x)), NSI_MAX},    // a NaN is the second
        {ns_max(k(1), ns_min(x, k(2))), NSI_MAX},    // between 1 and 2
        {ns_max(k(0), ns_min(x, k(-0.0))), NSI_MAX}, // -0
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folding_gives_the_bits_of_running),
        cmocka_unit_test(constants_fold_as_ieee_says),
        cmocka_unit_test(identities_apply_and_are_true),
        cmocka_unit_test(what_is_not_an_identity_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
