// Values and derivatives at kinks and domain edges: the last column of ops.def, the safe forms of
// expr.h, and that the branch of a select that is not taken never leaks. Each expected number is
// from the definition of the function or from the convention written down there, not from a run.
//
// A case is evaluated by forward mode, reverse mode and, where second derivatives are given, by jvp
// of jvp, jvp of vjp and vjp of vjp; then the derivative check compares the backends at that point.

#include "expr/block.h"
#include "expr/graph_rig.h"
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

enum { MAX_INPUTS = 3 };

typedef ns_expr formula(const ns_expr* x);

typedef struct edge_case {
    const char* name;
    formula* f;
    uint32_t n;
    double x[MAX_INPUTS];
    double value;
    double gradient[MAX_INPUTS];
    bool second;                            // check this too:
    double hessian[MAX_INPUTS][MAX_INPUTS]; // symmetric
} edge_case;

static const char* const input_names[] = {"x", "y", "z"};

static ns_graph* trace(formula* f, uint32_t n) {
    ns_graph* g = NULL;
    ns_error error;
    assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
    ns_expr x[MAX_INPUTS];
    for (uint32_t i = 0; i < n; i++) x[i] = ns_input(input_names[i]);
    ns_output("f", f(x));
    must(ns_trace_end(&error), &error);
    return g;
}

// ---- one case ------------------------------------------------------------------------------

static ns_graph* derivative(const ns_graph* g, bool forward) {
    ns_graph* d = NULL;
    ns_error error;
    ns_status status =
        forward ? ns_graph_jvp(g, NULL, &d, &error) : ns_graph_vjp(g, NULL, &d, &error);
    must(status, &error);
    return d;
}

// Most expected numbers are exact; the others, like log 2, may round once or twice differently.
static const double ROUNDING = 4e-16;

static void expect(const char* name, const char* what, double got, double expected) {
    bool same = (isnan(got) && isnan(expected)) || got == expected ||
                fabs(got - expected) <= ROUNDING * fabs(expected);
    if (!same) fail_msg("%s: %s is %.17g, should be %.17g", name, what, got, expected);
}

static void expect_first_order(const edge_case* c, const ns_graph* f) {
    ns_graph* vjp = derivative(f, false);
    char what[40];
    double in[1 + MAX_INPUTS] = {0}, out[1 + MAX_INPUTS];
    memcpy(in, c->x, c->n * sizeof(double));
    in[c->n] = 1.0; // the tangent, or the seed
    run_graph(f, in, out);
    expect(c->name, "the value", out[0], c->value);
    for (uint32_t i = 0; i < c->n; i++) {
        // For one input at a time: a tangent 0 times an infinite partial would be NaN.
        ns_diff_options options = ns_default_diff_options();
        options.wrt = &i;
        options.nwrt = 1;
        ns_graph* jvp = NULL;
        assert_int_equal(ns_graph_jvp(f, &options, &jvp, NULL), NS_OK);
        run_graph(jvp, in, out);
        snprintf(what, sizeof what, "forward derivative in %s", input_names[i]);
        expect(c->name, what, out[1], c->gradient[i]);
        ns_graph_free(jvp);
    }
    run_graph(vjp, in, out);
    for (uint32_t i = 0; i < c->n; i++) {
        snprintf(what, sizeof what, "reverse derivative in %s", input_names[i]);
        expect(c->name, what, out[1 + i], c->gradient[i]);
    }
    ns_graph_free(vjp);
}

// Inputs and outputs of twice differentiated graphs, with n inputs x and the output f:
//   jvp of jvp: in x, d:x, d2:x, d2:d:x      out f, d:f, d2:f, d2:d:f
//   jvp of vjp: in x, seed, d:x, d:seed      out f, d:x, d:f, d:d:x
//   vjp of vjp: in x, seed, seed2:f, seed2:d:x  out f, d:x, d2:x, d2:seed
static void expect_second_order(const edge_case* c, const ns_graph* f) {
    uint32_t n = c->n;
    ns_graph *jvp = derivative(f, true), *vjp = derivative(f, false);
    ns_graph *twice = derivative(jvp, true), *mixed = derivative(vjp, true);
    ns_graph* reverse = derivative(vjp, false);
    char what[60];
    double in[4 * MAX_INPUTS + 4], out[4 * MAX_INPUTS + 4];
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t i = 0; i < n; i++) {
            memset(in, 0, sizeof in);
            memcpy(in, c->x, n * sizeof(double));
            in[n + i] = 1.0;
            in[2 * n + j] = 1.0;
            run_graph(twice, in, out);
            snprintf(what, sizeof what, "jvp of jvp in %s, %s", input_names[i], input_names[j]);
            expect(c->name, what, out[3], c->hessian[i][j]);
        }
        memset(in, 0, sizeof in);
        memcpy(in, c->x, n * sizeof(double));
        in[n] = 1.0;
        in[n + 1 + j] = 1.0;
        run_graph(mixed, in, out);
        for (uint32_t i = 0; i < n; i++) {
            snprintf(what, sizeof what, "jvp of vjp in %s, %s", input_names[i], input_names[j]);
            expect(c->name, what, out[n + 2 + i], c->hessian[i][j]);
        }
        memset(in, 0, sizeof in);
        memcpy(in, c->x, n * sizeof(double));
        in[n] = 1.0;
        in[n + 2 + j] = 1.0;
        run_graph(reverse, in, out);
        for (uint32_t i = 0; i < n; i++) {
            snprintf(what, sizeof what, "vjp of vjp in %s, %s", input_names[i], input_names[j]);
            expect(c->name, what, out[n + 1 + i], c->hessian[i][j]);
        }
    }
    ns_graph_free(jvp);
    ns_graph_free(vjp);
    ns_graph_free(twice);
    ns_graph_free(mixed);
    ns_graph_free(reverse);
}

static void run_cases(const edge_case* cases, size_t count) {
    check_batch* batch = check_batch_create();
    ns_graph** graphs = calloc(count, sizeof *graphs);
    for (size_t i = 0; i < count; i++) {
        const edge_case* c = &cases[i];
        graphs[i] = trace(c->f, c->n);
        expect_first_order(c, graphs[i]);
        if (c->second) expect_second_order(c, graphs[i]);
        bool finite = true;
        for (uint32_t k = 0; k < c->n; k++) {
            finite = finite && isfinite(c->x[k]) && isfinite(c->gradient[k]);
        }
        check_options options = {.name = c->name,
                                 .second = c->second,
                                 .may_vanish = true,
                                 .at_kink = true,
                                 .nonfinite = !finite,
                                 .seed = i};
        check_batch_add(batch, graphs[i], c->x, NULL, &options);
    }
    check_batch_finish(batch);
    for (size_t i = 0; i < count; i++) ns_graph_free(graphs[i]);
    free(graphs);
}

#define RUN_CASES(cases) run_cases(cases, sizeof cases / sizeof *cases)

#define FORMULA(name, ...)                                                                         \
    static ns_expr name(const ns_expr* x) {                                                        \
        return __VA_ARGS__;                                                                        \
    }
#define INF INFINITY

// ---- arithmetic, roots, exponentials, powers -----------------------------------------------

FORMULA(f_div, ns_div(x[0], x[1]))
FORMULA(f_sqrt, ns_sqrt(x[0]))
FORMULA(f_exp, ns_exp(x[0]))
FORMULA(f_expm1, ns_expm1(x[0]))
FORMULA(f_log, ns_log(x[0]))
FORMULA(f_log1p, ns_log1p(x[0]))
FORMULA(f_pow, ns_pow(x[0], x[1]))
FORMULA(f_pow_half, ns_pow(x[0], ns_const(0.5)))
FORMULA(f_pow_two, ns_pow(x[0], ns_const(2.0)))
FORMULA(f_pow_minus_one, ns_pow(x[0], ns_const(-1.0)))
FORMULA(f_pow_minus_two, ns_pow(x[0], ns_const(-2.0)))
FORMULA(f_pow_three_halves, ns_pow(x[0], ns_const(1.5)))
FORMULA(f_pow_0_x, ns_pow(ns_const(0.0), x[0]))
FORMULA(f_pow_base_1, ns_pow(ns_const(1.0), x[0]))

static void arithmetic(void** state) {
    (void)state;
    static const edge_case cases[] = {
        {"1/0", f_div, 2, {1, 0}, INF, {INF, -INF}, false, {{0}}},
        {"-1/0", f_div, 2, {-1, 0}, -INF, {INF, INF}, false, {{0}}},
        {"0/0", f_div, 2, {0, 0}, NAN, {INF, NAN}, false, {{0}}},
    };
    RUN_CASES(cases);
}

static void roots_exponentials_powers(void** state) {
    (void)state;
    static const edge_case cases[] = {
        {"sqrt(0)", f_sqrt, 1, {0}, 0, {0}, true, {{0}}},
        {"sqrt(-0)", f_sqrt, 1, {-0.0}, 0, {0}, true, {{0}}},
        {"sqrt(-1)", f_sqrt, 1, {-1}, NAN, {0}, true, {{0}}},
        {"sqrt(4)", f_sqrt, 1, {4}, 2, {0.25}, true, {{-1.0 / 32}}},
        {"exp(710)", f_exp, 1, {710}, INF, {INF}, false, {{0}}},
        {"exp(-inf)", f_exp, 1, {-INF}, 0, {0}, false, {{0}}},
        {"expm1(710)", f_expm1, 1, {710}, INF, {INF}, false, {{0}}},
        {"expm1(0)", f_expm1, 1, {0}, 0, {1}, true, {{1}}},
        {"log(0)", f_log, 1, {0}, -INF, {INF}, false, {{0}}},
        {"log(-1)", f_log, 1, {-1}, NAN, {-1}, false, {{0}}},
        {"log1p(-1)", f_log1p, 1, {-1}, -INF, {INF}, false, {{0}}},
        {"log1p(-2)", f_log1p, 1, {-2}, NAN, {-1}, false, {{0}}},
        {"log1p(0)", f_log1p, 1, {0}, 0, {1}, true, {{-1}}},
        {"pow(0, 0)", f_pow, 2, {0, 0}, 1, {0, 0}, false, {{0}}},
        {"pow(3, 0)", f_pow, 2, {3, 0}, 1, {0, 1.0986122886681098}, false, {{0}}},
        {"pow(nan, 0)", f_pow, 2, {NAN, 0}, 1, {NAN, 0}, false, {{0}}},
        {"pow(0, 1)", f_pow, 2, {0, 1}, 0, {1, 0}, false, {{0}}},
        {"pow(0, 0.5)", f_pow, 2, {0, 0.5}, 0, {0, 0}, false, {{0}}},
        {"pow(0, 2)", f_pow, 2, {0, 2}, 0, {0, 0}, false, {{0}}},
        {"pow(0, -1)", f_pow, 2, {0, -1}, INF, {0, 0}, false, {{0}}},
        {"pow(-2, 3)", f_pow, 2, {-2, 3}, -8, {12, 0}, false, {{0}}},
        {"pow(-2, -2)", f_pow, 2, {-2, -2}, 0.25, {0.25, 0}, false, {{0}}},
        {"pow(-2, 0.5)", f_pow, 2, {-2, 0.5}, NAN, {NAN, 0}, false, {{0}}},
        {"pow(0, constant 0.5)", f_pow_half, 1, {0}, 0, {0}, true, {{0}}},
        {"pow(0, constant 1.5)", f_pow_three_halves, 1, {0}, 0, {0}, true, {{0}}},
        {"pow(0, constant 2)", f_pow_two, 1, {0}, 0, {0}, true, {{2}}},
        {"pow(0, constant -1)", f_pow_minus_one, 1, {0}, INF, {-INF}, false, {{0}}},
        {"pow(0, constant -2)", f_pow_minus_two, 1, {0}, INF, {0}, false, {{0}}},
        {"constant 0 ^ 2", f_pow_0_x, 1, {2}, 0, {0}, true, {{0}}},
        {"constant 1 ^ 2", f_pow_base_1, 1, {2}, 1, {0}, true, {{0}}},
    };
    RUN_CASES(cases);
}

// The fused operations round once: with a*b = 1 - 2^-60, only the sum with 1 is left.
static void fused_operations_round_once(void** state) {
    (void)state;
    ns_graph* g = NULL;
    assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
    ns_expr a = ns_input("a"), b = ns_input("b"), c = ns_input("c");
    ns_output("fma", ns_fma(a, b, ns_neg(c)));
    ns_output("fms", make(NSI_FMS, a, b, c));
    ns_output("fnma", make(NSI_FNMA, a, b, c));
    ns_output("fnms", make(NSI_FNMS, a, b, ns_neg(c)));
    assert_int_equal(ns_trace_end(NULL), NS_OK);
    const double in[3] = {1.0 + 0x1p-30, 1.0 - 0x1p-30, 1.0};
    double out[4];
    run_graph(g, in, out);
    assert_true(out[0] == -0x1p-60 && out[1] == -0x1p-60);
    assert_true(out[2] == 0x1p-60 && out[3] == 0x1p-60);
    check_function(g, in, NULL, &(check_options){.name = "fused", .second = true});
    ns_graph_free(g);
}

// ---- circular and hyperbolic functions -----------------------------------------------------

FORMULA(f_asin, ns_asin(x[0]))
FORMULA(f_acos, ns_acos(x[0]))
FORMULA(f_atan2, ns_atan2(x[0], x[1]))
FORMULA(f_tanh, ns_tanh(x[0]))
FORMULA(f_softplus, ns_softplus(x[0]))

#define PI 3.14159265358979323846

static void circular_and_hyperbolic(void** state) {
    (void)state;
    static const edge_case cases[] = {
        {"asin(1)", f_asin, 1, {1}, PI / 2, {0}, true, {{0}}},
        {"asin(-1)", f_asin, 1, {-1}, -PI / 2, {0}, true, {{0}}},
        {"asin(2)", f_asin, 1, {2}, NAN, {0}, true, {{0}}},
        {"asin(0)", f_asin, 1, {0}, 0, {1}, true, {{0}}},
        {"acos(1)", f_acos, 1, {1}, 0, {0}, true, {{0}}},
        {"acos(-1)", f_acos, 1, {-1}, PI, {0}, true, {{0}}},
        {"acos(-2)", f_acos, 1, {-2}, NAN, {0}, true, {{0}}},
        {"acos(0)", f_acos, 1, {0}, PI / 2, {-1}, true, {{0}}},
        {"atan2(0, 0)", f_atan2, 2, {0, 0}, 0, {0, 0}, true, {{0}}},
        {"atan2(0, -0)", f_atan2, 2, {0, -0.0}, 0, {0, 0}, true, {{0}}},
        {"atan2(-0, 0)", f_atan2, 2, {-0.0, 0}, 0, {0, 0}, true, {{0}}},
        {"atan2(-0, -0)", f_atan2, 2, {-0.0, -0.0}, 0, {0, 0}, true, {{0}}},
        {"atan2(0, -2)", f_atan2, 2, {0, -2}, PI, {-0.5, 0}, true, {{0, -0.25}, {-0.25, 0}}},
        {"atan2(-0, -2)", f_atan2, 2, {-0.0, -2}, -PI, {-0.5, 0}, true, {{0, -0.25}, {-0.25, 0}}},
        {"atan2(2, 0)", f_atan2, 2, {2, 0}, PI / 2, {0, -0.5}, true, {{0, 0.25}, {0.25, 0}}},
        {"atan2(0, 2)", f_atan2, 2, {0, 2}, 0, {0.5, 0}, true, {{0, -0.25}, {-0.25, 0}}},
        {"tanh(1000)", f_tanh, 1, {1000}, 1, {0}, true, {{0}}},
        {"tanh(0)", f_tanh, 1, {0}, 0, {1}, true, {{0}}},
        {"softplus(0)", f_softplus, 1, {0}, 0.69314718055994531, {0.5}, true, {{0.25}}},
        {"softplus(1000)", f_softplus, 1, {1000}, 1000, {1}, true, {{0}}},
        {"softplus(-1000)", f_softplus, 1, {-1000}, 0, {0}, true, {{0}}},
    };
    RUN_CASES(cases);
}

// ---- pieces and truth values ---------------------------------------------------------------

FORMULA(f_abs, ns_abs(x[0]))
FORMULA(f_sign, ns_sign(x[0]))
FORMULA(f_min, ns_min(x[0], x[1]))
FORMULA(f_max, ns_max(x[0], x[1]))
FORMULA(f_floor, ns_floor(x[0]))
FORMULA(f_round, ns_round(x[0]))
FORMULA(f_copysign, ns_copysign(x[0], x[1]))

static void pieces(void** state) {
    (void)state;
    static const edge_case cases[] = {
        {"abs(0)", f_abs, 1, {0}, 0, {0}, true, {{0}}},
        {"abs(-0)", f_abs, 1, {-0.0}, 0, {0}, true, {{0}}},
        {"abs(-3)", f_abs, 1, {-3}, 3, {-1}, true, {{0}}},
        {"sign(0)", f_sign, 1, {0}, 0, {0}, true, {{0}}},
        {"sign(-2)", f_sign, 1, {-2}, -1, {0}, true, {{0}}},
        {"min(1, 1)", f_min, 2, {1, 1}, 1, {0, 1}, true, {{0}}},
        {"max(1, 1)", f_max, 2, {1, 1}, 1, {0, 1}, true, {{0}}},
        {"min(nan, 2)", f_min, 2, {NAN, 2}, 2, {0, 1}, true, {{0}}},
        {"min(2, nan)", f_min, 2, {2, NAN}, NAN, {0, 1}, true, {{0}}},
        {"max(nan, 2)", f_max, 2, {NAN, 2}, 2, {0, 1}, true, {{0}}},
        {"max(2, nan)", f_max, 2, {2, NAN}, NAN, {0, 1}, true, {{0}}},
        {"floor(2)", f_floor, 1, {2}, 2, {0}, true, {{0}}},
        {"floor(-0.5)", f_floor, 1, {-0.5}, -1, {0}, true, {{0}}},
        {"round(0.5)", f_round, 1, {0.5}, 0, {0}, true, {{0}}},
        {"round(1.5)", f_round, 1, {1.5}, 2, {0}, true, {{0}}},
        {"round(2.5)", f_round, 1, {2.5}, 2, {0}, true, {{0}}},
        {"round(-2.5)", f_round, 1, {-2.5}, -2, {0}, true, {{0}}},
        {"copysign(0, -1)", f_copysign, 2, {0, -1}, 0, {-1, 0}, true, {{0}}},
        {"copysign(-0, 1)", f_copysign, 2, {-0.0, 1}, 0, {-1, 0}, true, {{0}}},
        {"copysign(3, 0)", f_copysign, 2, {3, 0}, 3, {1, 0}, true, {{0}}},
        {"copysign(3, -0)", f_copysign, 2, {3, -0.0}, -3, {-1, 0}, true, {{0}}},
    };
    RUN_CASES(cases);
}

FORMULA(f_lt, ns_lt(x[0], x[1]))
FORMULA(f_le, ns_le(x[0], x[1]))
FORMULA(f_gt, ns_gt(x[0], x[1]))
FORMULA(f_ge, ns_ge(x[0], x[1]))
FORMULA(f_eq, ns_eq(x[0], x[1]))
FORMULA(f_ne, ns_ne(x[0], x[1]))
FORMULA(f_and, ns_and(x[0], x[1]))
FORMULA(f_or, ns_or(x[0], x[1]))
FORMULA(f_not, ns_not(x[0]))
FORMULA(f_select, ns_select(x[0], x[1], x[2]))

static void truth_values(void** state) {
    (void)state;
    // Every comparison below, equal and above, and with NaN on either side.
    static const struct {
        formula* f;
        const char* name;
        double below, equal, above, nan;
    } comparisons[] = {
        {f_lt, "lt", 1, 0, 0, 0}, {f_le, "le", 1, 1, 0, 0}, {f_gt, "gt", 0, 0, 1, 0},
        {f_ge, "ge", 0, 1, 1, 0}, {f_eq, "eq", 0, 1, 0, 0}, {f_ne, "ne", 1, 0, 1, 1},
    };
    for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++) {
        const char* name = comparisons[i].name;
        formula* f = comparisons[i].f;
        const edge_case cases[] = {
            {name, f, 2, {1, 2}, comparisons[i].below, {0}, true, {{0}}},
            {name, f, 2, {2, 2}, comparisons[i].equal, {0}, true, {{0}}},
            {name, f, 2, {0, -0.0}, comparisons[i].equal, {0}, true, {{0}}},
            {name, f, 2, {3, 2}, comparisons[i].above, {0}, true, {{0}}},
            {name, f, 2, {NAN, 2}, comparisons[i].nan, {0}, true, {{0}}},
            {name, f, 2, {2, NAN}, comparisons[i].nan, {0}, true, {{0}}},
        };
        RUN_CASES(cases);
    }

    static const edge_case cases[] = {
        {"0 and 0", f_and, 2, {0, 0}, 0, {0}, true, {{0}}},
        {"-0 and 1", f_and, 2, {-0.0, 1}, 0, {0}, true, {{0}}},
        {"2 and 0", f_and, 2, {2, 0}, 0, {0}, true, {{0}}},
        {"2 and -3", f_and, 2, {2, -3}, 1, {0}, true, {{0}}},
        {"nan and 1", f_and, 2, {NAN, 1}, 1, {0}, true, {{0}}},
        {"0 or 0", f_or, 2, {0, 0}, 0, {0}, true, {{0}}},
        {"0 or 1e-300", f_or, 2, {0, 1e-300}, 1, {0}, true, {{0}}},
        {"nan or 0", f_or, 2, {NAN, 0}, 1, {0}, true, {{0}}},
        {"not 0", f_not, 1, {0}, 1, {0}, true, {{0}}},
        {"not -0", f_not, 1, {-0.0}, 1, {0}, true, {{0}}},
        {"not 2", f_not, 1, {2}, 0, {0}, true, {{0}}},
        {"not nan", f_not, 1, {NAN}, 0, {0}, true, {{0}}},
        {"select(1, 2, 3)", f_select, 3, {1, 2, 3}, 2, {0, 1, 0}, true, {{0}}},
        {"select(0, 2, 3)", f_select, 3, {0, 2, 3}, 3, {0, 0, 1}, true, {{0}}},
        {"select(-0, 2, 3)", f_select, 3, {-0.0, 2, 3}, 3, {0, 0, 1}, true, {{0}}},
        {"select(nan, 2, 3)", f_select, 3, {NAN, 2, 3}, 2, {0, 1, 0}, true, {{0}}},
        {"select(1, 2, nan)", f_select, 3, {1, 2, NAN}, 2, {0, 1, 0}, true, {{0}}},
        {"select(0, inf, 3)", f_select, 3, {0, INF, 3}, 3, {0, 0, 1}, true, {{0}}},
    };
    RUN_CASES(cases);
}

// ---- bits ----------------------------------------------------------------------------------

FORMULA(f_pow2i, make(NSI_POW2I, x[0], x[0], x[0]))
FORMULA(f_exponent, make(NSI_EXPONENT, x[0], x[0], x[0]))

static void bits_of_a_double(void** state) {
    (void)state;
    static const edge_case cases[] = {
        {"pow2i(0)", f_pow2i, 1, {0}, 1, {0}, true, {{0}}},
        {"exponent(8)", f_exponent, 1, {8}, 3, {0}, true, {{0}}},
    };
    RUN_CASES(cases);

    // All normal powers of two, and the largest number below each.
    ns_graph *pow2i = trace(f_pow2i, 1), *exponent = trace(f_exponent, 1);
    for (int k = -1022; k <= 1023; k++) {
        double in = k, power = ldexp(1.0, k), below = nextafter(ldexp(1.0, k), 0.0), out;
        run_graph(pow2i, &in, &out);
        assert_true(out == power);
        run_graph(exponent, &power, &out);
        assert_true(out == k);
        if (k == -1022) continue; // the number below is not normal
        run_graph(exponent, &below, &out);
        assert_true(out == k - 1);
    }
    ns_graph_free(pow2i);
    ns_graph_free(exponent);
}

// ---- the branch not taken ------------------------------------------------------------------

FORMULA(g_sqrt, ns_select(ns_gt(x[0], k(0)), ns_sqrt(x[0]), k(0)))
FORMULA(g_inverse, ns_select(ns_ne(x[0], k(0)), ns_mul(x[1], ns_div(k(1), x[0])), k(0)))
FORMULA(g_quotient, ns_select(ns_ne(x[0], k(0)), ns_div(x[1], x[0]), k(0)))
FORMULA(g_log, ns_mul(ns_select(ns_gt(x[0], k(0)), ns_log(x[0]), k(0)), x[1]))
FORMULA(g_xlogx, ns_select(ns_gt(x[0], k(0)), ns_mul(x[0], ns_log(x[0])), x[0]))
FORMULA(g_else, ns_select(ns_eq(x[0], k(0)), k(1), ns_div(ns_sin(x[0]), x[0])))
FORMULA(g_pow, ns_select(ns_gt(x[0], k(0)), ns_pow(x[0], x[1]), k(0)))
FORMULA(g_asin, ns_select(ns_lt(ns_abs(x[0]), k(1)), ns_asin(x[0]), k(0)))
FORMULA(g_exp, ns_select(ns_lt(x[0], k(0)), ns_exp(ns_exp(x[0])), x[0]))
FORMULA(g_tan, ns_select(ns_ne(x[0], k(0)), ns_tan(ns_div(x[1], x[0])), x[1]))
FORMULA(g_min, ns_min(ns_div(k(1), ns_mul(x[0], x[0])), x[1]))
FORMULA(g_max, ns_max(ns_log(x[0]), x[1]))
FORMULA(g_fma, ns_select(ns_ne(x[0], k(0)), ns_fma(x[1], ns_div(k(1), x[0]), x[1]), x[1]))
FORMULA(g_atan2, ns_select(ns_ne(x[0], k(0)), ns_atan2(ns_div(x[1], x[0]), x[1]), k(0)))

// A chain of hazards behind one select.
FORMULA(g_chain, ns_select(ns_gt(x[0], k(0)), ns_sin(ns_log(ns_sqrt(ns_div(x[1], x[0])))), x[1]))

// Two selects, the inner one taking the infinite branch while the outer one drops it.
FORMULA(g_nested,
        ns_select(ns_gt(x[0], k(1)),
                  ns_mul(ns_select(ns_gt(x[0], k(-1)), ns_div(k(1), x[0]), k(0)), x[1]), k(0)))
FORMULA(g_nested_twice,
        ns_select(ns_gt(x[0], k(0)),
                  ns_select(ns_gt(x[1], k(0)), ns_mul(ns_log(x[0]), ns_log(x[1])), ns_sqrt(x[0])),
                  ns_select(ns_gt(x[1], k(0)), ns_sqrt(x[1]), k(0))))

// The same hazard inside the branch and, taken, outside of it.
FORMULA(g_shared, ns_add(ns_select(ns_gt(x[0], k(0)), ns_div(k(1), x[0]), k(0)),
                         ns_mul(x[1], ns_div(k(1), ns_add(x[0], k(2))))))

// Constants that are not finite, or have no finite inverse.
FORMULA(g_constant_zero, ns_select(ns_lt(x[0], k(1)), x[0], ns_div(x[0], k(0))))
FORMULA(g_constant_tiny, ns_select(ns_lt(x[0], k(1)), x[0], ns_div(x[0], k(1e-310))))
FORMULA(g_constant_infinity, ns_select(ns_lt(x[0], k(1)), x[0], ns_mul(x[0], k(INF))))

static void branch_not_taken_never_leaks(void** state) {
    (void)state;
    static const edge_case cases[] = {
        {"x > 0 ? sqrt x : 0 at 0", g_sqrt, 1, {0}, 0, {0}, true, {{0}}},
        {"x > 0 ? sqrt x : 0 at -1", g_sqrt, 1, {-1}, 0, {0}, true, {{0}}},
        {"x != 0 ? y * (1/x) : 0 at 0", g_inverse, 2, {0, 3}, 0, {0, 0}, true, {{0}}},
        {"x != 0 ? y * (1/x) : 0 at 0, 0", g_inverse, 2, {0, 0}, 0, {0, 0}, true, {{0}}},
        {"x != 0 ? y/x : 0 at 0", g_quotient, 2, {0, 3}, 0, {0, 0}, true, {{0}}},
        {"x != 0 ? y/x : 0 at 0, 0", g_quotient, 2, {0, 0}, 0, {0, 0}, true, {{0}}},
        {"(x > 0 ? log x : 0) * y at 0", g_log, 2, {0, 3}, 0, {0, 0}, true, {{0}}},
        {"(x > 0 ? log x : 0) * y at -1", g_log, 2, {-1, 3}, 0, {0, 0}, true, {{0}}},
        {"x > 0 ? x log x : x at 0", g_xlogx, 1, {0}, 0, {1}, true, {{0}}},
        {"x > 0 ? x log x : x at -2", g_xlogx, 1, {-2}, -2, {1}, true, {{0}}},
        {"x == 0 ? 1 : sin(x)/x at 0", g_else, 1, {0}, 1, {0}, true, {{0}}},
        {"x > 0 ? x^y : 0 at 0", g_pow, 2, {0, -1}, 0, {0, 0}, true, {{0}}},
        {"x > 0 ? x^y : 0 at -1", g_pow, 2, {-1, 0.5}, 0, {0, 0}, true, {{0}}},
        {"|x| < 1 ? asin x : 0 at 1", g_asin, 1, {1}, 0, {0}, true, {{0}}},
        {"|x| < 1 ? asin x : 0 at -2", g_asin, 1, {-2}, 0, {0}, true, {{0}}},
        {"x < 0 ? exp(exp(x)) : x at 800", g_exp, 1, {800}, 800, {1}, true, {{0}}},
        {"x != 0 ? tan(y/x) : y at 0", g_tan, 2, {0, 3}, 3, {0, 1}, true, {{0}}},
        {"min(1/x^2, y) at 0", g_min, 2, {0, 3}, 3, {0, 1}, true, {{0}}},
        {"max(log x, y) at 0", g_max, 2, {0, 3}, 3, {0, 1}, true, {{0}}},
        {"max(log x, y) at -1", g_max, 2, {-1, 3}, 3, {0, 1}, true, {{0}}},
        {"x != 0 ? fma(y, 1/x, y) : y at 0", g_fma, 2, {0, 3}, 3, {0, 1}, true, {{0}}},
        {"x != 0 ? atan2(y/x, y) : 0 at 0", g_atan2, 2, {0, 3}, 0, {0, 0}, true, {{0}}},
        {"a chain of hazards at 0", g_chain, 2, {0, 3}, 3, {0, 1}, true, {{0}}},
        {"a chain of hazards at 0, 0", g_chain, 2, {0, 0}, 0, {0, 1}, true, {{0}}},
        {"nested selects at 0", g_nested, 2, {0, 3}, 0, {0, 0}, true, {{0}}},
        {"nested twice at 0, 0", g_nested_twice, 2, {0, 0}, 0, {0, 0}, true, {{0}}},
        {"nested twice at 0, 4",
         g_nested_twice,
         2,
         {0, 4},
         2,
         {0, 0.25},
         true,
         {{0, 0}, {0, -1.0 / 32}}},
        {"nested twice at 4, 0",
         g_nested_twice,
         2,
         {4, 0},
         2,
         {0.25, 0},
         true,
         {{-1.0 / 32, 0}, {0, 0}}},
        {"x < 1 ? x : x/0", g_constant_zero, 1, {0.5}, 0.5, {1}, true, {{0}}},
        {"x < 1 ? x : x/1e-310", g_constant_tiny, 1, {0.5}, 0.5, {1}, true, {{0}}},
        {"x < 1 ? x : x*inf", g_constant_infinity, 1, {0.5}, 0.5, {1}, true, {{0}}},
        {"shared hazard at 0", g_shared, 2, {0, 4}, 2, {-1, 0.5}, true, {{1, -0.25}, {-0.25, 0}}},
    };
    RUN_CASES(cases);
}

// Where the branch is taken, a gated product is a product: its second derivative has the term with
// the derivative of a factor that is zero itself.
FORMULA(c_square, ns_select(ns_gt(x[0], k(0)),
                            ns_mul(k(0.5), ns_pow(ns_sub(ns_div(k(1), x[0]), k(1)), k(2))), k(0)))
FORMULA(c_log, ns_select(ns_gt(x[0], k(0)), ns_mul(ns_log(x[0]), ns_log(x[0])), k(0)))
FORMULA(c_product, ns_select(ns_ne(x[0], k(0)), ns_mul(x[1], ns_div(k(1), x[0])), k(0)))

static void gated_products_keep_their_curvature(void** state) {
    (void)state;
    static const edge_case cases[] = {
        // f = (1/x - 1)^2 / 2: f' = (1/x - 1)(-1/x^2), f'' = 1/x^4 + 2 (1/x - 1)/x^3
        {"(1/x - 1)^2 / 2 at 1", c_square, 1, {1}, 0, {0}, true, {{1}}},
        // f = log(x)^2: f'' = 2 (1 - log x) / x^2
        {"log(x)^2 at 1", c_log, 1, {1}, 0, {0}, true, {{2}}},
        // f = y/x: f_xy = -1/x^2, f_xx = 2y/x^3
        {"y/x at 2, 0", c_product, 2, {2, 0}, 0, {0, 0.5}, true, {{0, -0.25}, {-0.25, 0}}},
    };
    RUN_CASES(cases);
}

// Third derivatives of a gated expression: in every mode 0 where it is off, right where it is on.
static void branch_not_taken_does_not_leak_at_third_order(void** state) {
    (void)state;
    ns_graph* f = trace(g_quotient, 2);
    for (int modes = 0; modes < 8; modes++) {
        ns_graph* d = NULL;
        const ns_graph* from = f;
        ns_graph* chain[3];
        for (int order = 0; order < 3; order++) {
            chain[order] = d = derivative(from, (modes >> order) & 1);
            from = d;
        }
        uint32_t nin = ns_graph_input_count(d), nout = ns_graph_output_count(d);
        double* in = calloc(nin, sizeof *in);
        double* out = calloc(nout, sizeof *out);
        for (uint32_t i = 2; i < nin; i++) in[i] = 1.0;
        in[1] = 3.0;
        run_graph(d, in, out);
        for (uint32_t i = 0; i < nout; i++) expect("y/x at 0, third order", "an output", out[i], 0);
        free(in);
        free(out);
        for (int order = 0; order < 3; order++) ns_graph_free(chain[order]);
    }

    // jvp of jvp of jvp for x alone: d3 (y/x) / dx3 = -6 y / x^4
    ns_diff_options options = ns_default_diff_options();
    ns_graph* chain[4] = {f};
    for (uint32_t order = 0; order < 3; order++) {
        options.wrt = &(uint32_t){0};
        options.nwrt = 1;
        assert_int_equal(ns_graph_jvp(chain[order], &options, &chain[order + 1], NULL), NS_OK);
    }
    const double in[5] = {2.0, 3.0, 1.0, 1.0, 1.0};
    double out[8];
    run_graph(chain[3], in, out);
    expect("y/x at 2, third order", "jvp of jvp of jvp", out[7], -6.0 * 3.0 / 16.0);
    for (int order = 0; order < 4; order++) ns_graph_free(chain[order]);
}

// ---- safe forms ----------------------------------------------------------------------------

FORMULA(s_div, ns_div_safe(x[0], x[1]))
FORMULA(s_norm, ns_norm(3, x))
FORMULA(s_acos, ns_acos_safe(x[0]))
FORMULA(s_asin, ns_asin_safe(x[0]))
FORMULA(s_clamp, ns_clamp(x[0], x[1], x[2]))

static ns_expr s_normalize(const ns_expr* x) {
    ns_expr unit[3];
    ns_normalize(3, x, unit);
    return unit[0];
}

static ns_expr s_normalize_dot(const ns_expr* x) { // |x|, by way of the unit vector, in place
    ns_expr unit[2] = {x[0], x[1]};
    ns_normalize(2, unit, unit);
    return ns_add(ns_mul(unit[0], x[0]), ns_mul(unit[1], x[1]));
}

static void safe_forms(void** state) {
    (void)state;
    static const edge_case cases[] = {
        {"div_safe(3, 0)", s_div, 2, {3, 0}, 0, {0, 0}, true, {{0}}},
        {"div_safe(0, 0)", s_div, 2, {0, 0}, 0, {0, 0}, true, {{0}}},
        {"div_safe(3, -0)", s_div, 2, {3, -0.0}, 0, {0, 0}, true, {{0}}},
        {"div_safe(3, 2)", s_div, 2, {3, 2}, 1.5, {0.5, -0.75}, true, {{0, -0.25}, {-0.25, 0.75}}},
        {"norm of 0", s_norm, 3, {0, 0, 0}, 0, {0, 0, 0}, true, {{0}}},
        {"norm of (0, -2, 0)",
         s_norm,
         3,
         {0, -2, 0},
         2,
         {0, -1, 0},
         true,
         {{0.5, 0, 0}, {0, 0, 0}, {0, 0, 0.5}}},
        {"normalize 0", s_normalize, 3, {0, 0, 0}, 0, {0, 0, 0}, true, {{0}}},
        {"normalize (0, 0, 2)",
         s_normalize,
         3,
         {0, 0, 2},
         0,
         {0.5, 0, 0},
         true,
         {{0, 0, -0.25}, {0, 0, 0}, {-0.25, 0, 0}}},
        {"0 along its unit vector", s_normalize_dot, 2, {0, 0}, 0, {0, 0}, true, {{0}}},
        {"(2, 0) along its unit vector",
         s_normalize_dot,
         2,
         {2, 0},
         2,
         {1, 0},
         true,
         {{0, 0}, {0, 0.5}}},
        {"acos_safe(1)", s_acos, 1, {1}, 0, {0}, true, {{0}}},
        {"acos_safe(1.5)", s_acos, 1, {1.5}, 0, {0}, true, {{0}}},
        {"acos_safe(-1)", s_acos, 1, {-1}, PI, {0}, true, {{0}}},
        {"acos_safe(-7)", s_acos, 1, {-7}, PI, {0}, true, {{0}}},
        {"acos_safe(0)", s_acos, 1, {0}, PI / 2, {-1}, true, {{0}}},
        {"asin_safe(1)", s_asin, 1, {1}, PI / 2, {0}, true, {{0}}},
        {"asin_safe(3)", s_asin, 1, {3}, PI / 2, {0}, true, {{0}}},
        {"asin_safe(-1)", s_asin, 1, {-1}, -PI / 2, {0}, true, {{0}}},
        {"asin_safe(0)", s_asin, 1, {0}, 0, {1}, true, {{0}}},
        {"clamp inside", s_clamp, 3, {2, 1, 3}, 2, {1, 0, 0}, true, {{0}}},
        {"clamp below", s_clamp, 3, {0, 1, 3}, 1, {0, 1, 0}, true, {{0}}},
        {"clamp above", s_clamp, 3, {4, 1, 3}, 3, {0, 0, 1}, true, {{0}}},
        {"clamp at the lower limit", s_clamp, 3, {1, 1, 3}, 1, {1, 0, 0}, true, {{0}}},
        {"clamp at the upper limit", s_clamp, 3, {3, 1, 3}, 3, {1, 0, 0}, true, {{0}}},
        {"clamp nan", s_clamp, 3, {NAN, 1, 3}, NAN, {1, 0, 0}, true, {{0}}},
    };
    RUN_CASES(cases);
}

// ---- blocks behind a select ----------------------------------------------------------------

// x != 0 ? net(1/x, y) : y, with the weights as inputs too. At x = 0 nothing of the network may
// reach value or derivatives, those of the weights included.
static void block_behind_a_select(void** state) {
    (void)state;
    enum { WIDTH = 3 };
    ns_graph* f = NULL;
    assert_int_equal(ns_graph_create(NULL, &f, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(f, NULL), NS_OK);
    ns_expr x = ns_input("x"), y = ns_input("y");
    uint32_t first = ns_dense_size(2, WIDTH), second = ns_dense_size(WIDTH, 1);
    ns_array w = ns_input_array("w", first + second, false);
    ns_expr in[2] = {ns_div(k(1), x), y}, hidden[WIDTH], out[1];
    ns_dense_layer(ns_array_slice(w, 0, first), 2, in, WIDTH, NS_TANH, hidden);
    ns_dense_layer(ns_array_slice(w, first, second), WIDTH, hidden, 1, NS_IDENTITY, out);
    ns_output("f", ns_select(ns_ne(x, k(0)), out[0], y));
    assert_int_equal(ns_trace_end(NULL), NS_OK);

    double weights[32];
    for (uint32_t i = 0; i < first + second; i++) weights[i] = 0.4 - 0.13 * i;
    const double* const arrays[] = {weights};
    check_options options = {.name = "network of 1/x at 0", .second = true, .at_kink = true};
    check_function(f, (double[]){0.0, 0.7}, arrays, &options);
    options = (check_options){.name = "network of 1/x at 2", .second = true};
    check_function(f, (double[]){2.0, 0.7}, arrays, &options);

    // The numbers themselves: df/dy = 1, all others 0; second derivatives 0.
    ns_graph *vjp = derivative(f, false), *second_order = derivative(vjp, true);
    ns_program* program = NULL;
    assert_int_equal(ns_program_build(second_order, NULL, &program, NULL), NS_OK);
    void* work = malloc(ns_program_work_size(program));
    // in x, y, seed, d:x, d:y, d:seed; out f, d:x, d:y, d:f, d:d:x, d:d:y
    const double input[6] = {0.0, 0.7, 1.0, 0.3, 0.2, 0.0};
    double output[6], gradient[32] = {0}, hessian[32] = {0}, tangents[32];
    for (int i = 0; i < 32; i++) tangents[i] = 0.1 * i - 1.0;
    ns_program_run(program, &(ns_run){.in = input,
                                      .out = output,
                                      .arrays = (const double* const[]){weights, tangents},
                                      .sinks = (double* const[]){gradient, hessian},
                                      .work = work});
    const double expected[6] = {0.7, 0.0, 1.0, 0.2, 0.0, 0.0};
    for (int i = 0; i < 6; i++) expect("network of 1/x at 0", "an output", output[i], expected[i]);
    for (int i = 0; i < 32; i++) {
        expect("network of 1/x at 0", "a gradient of the weights", gradient[i], 0.0);
        expect("network of 1/x at 0", "a second derivative of the weights", hessian[i], 0.0);
    }
    free(work);
    ns_program_free(program);
    ns_graph_free(vjp);
    ns_graph_free(second_order);
    ns_graph_free(f);
}

// ---- the table of partial derivatives ------------------------------------------------------

static bool derivative_vanishes(nsi_op op) {
    return (nsi_ops[op].flags & NSI_FLAG_MASK) || op == NSI_SIGN || op == NSI_FLOOR ||
           op == NSI_ROUND || op == NSI_POW2I || op == NSI_EXPONENT;
}

// Every operation at ordinary points, derivatives of first and second order against central
// differences.
static void partials_are_right_at_ordinary_points(void** state) {
    (void)state;
    static const double points[][3] = {
        {0.3, -0.7, 1.2}, {-0.4, 0.9, -0.3}, {0.85, 0.6, 0.1}, {-0.72, -0.35, 2.1}};
    enum { POINTS = sizeof points / sizeof *points };
    check_batch* batch = check_batch_create();
    ns_graph* graphs[NSI_OP_COUNT] = {0};
    uint32_t count = 0;
    for (nsi_op op = 0; op < NSI_OP_COUNT; op++) {
        uint32_t arity = nsi_ops[op].arity;
        if (nsi_ops[op].kind == NSI_KIND_LEAF) continue;
        ns_graph* g = NULL;
        assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
        nsi_id x[3] = {0};
        for (uint32_t i = 0; i < arity; i++) x[i] = nsi_graph_input(g, input_names[i]);
        nsi_graph_output(g, "f", nsi_make(g, op, x[0], x[1], x[2]));
        graphs[op] = g;
        for (int p = 0; p < POINTS; p++) {
            double at[3] = {points[p][0], points[p][1], points[p][2]};
            // Only where the operation is defined around the point.
            bool positive = op == NSI_SQRT || op == NSI_LOG || op == NSI_POW || op == NSI_EXPONENT;
            if (positive) at[0] = fabs(at[0]);
            if (op == NSI_POW2I) at[0] = rint(10.0 * at[0]);
            check_options options = {.name = nsi_ops[op].name,
                                     .second = true,
                                     .may_vanish = derivative_vanishes(op),
                                     .at_kink = op == NSI_POW2I,
                                     .seed = (uint64_t)p};
            check_batch_add(batch, g, at, NULL, &options);
            count++;
        }
    }
    check_report report = check_batch_finish(batch);
    print_message("%u operations at %d points: %u slopes, %u undecided, transpose %.1e, central"
                  " differences %.1e\n",
                  count / POINTS, POINTS, report.slopes, report.undecided, report.transpose_error,
                  report.difference_error);
    assert_int_equal(report.undecided, 0);
    for (int op = 0; op < NSI_OP_COUNT; op++) ns_graph_free(graphs[op]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(roots_exponentials_powers),
        cmocka_unit_test(fused_operations_round_once),
        cmocka_unit_test(circular_and_hyperbolic),
        cmocka_unit_test(pieces),
        cmocka_unit_test(truth_values),
        cmocka_unit_test(bits_of_a_double),
        cmocka_unit_test(branch_not_taken_never_leaks),
        cmocka_unit_test(branch_not_taken_does_not_leak_at_third_order),
        cmocka_unit_test(gated_products_keep_their_curvature),
        cmocka_unit_test(safe_forms),
        cmocka_unit_test(block_behind_a_select),
        cmocka_unit_test(partials_are_right_at_ordinary_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
