// Expansions of elementary functions: accuracy against the C library in long double, special
// values, exact symmetries, length; and the pass that applies them to whole graphs.

#include "expr/block.h"
#include "neuralsim/program.h"
#include "support/testalloc.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define NSI_C_SOURCE(...) __VA_ARGS__
#include "expr/bits.def"
#undef NSI_C_SOURCE

#define LENGTH(table) (sizeof(table) / sizeof *(table))

// ---- evaluation ----------------------------------------------------------------------------

static double apply(uint32_t op, double a, double b, double c) {
    const double lowered = NAN;
    switch ((nsi_op)op) {
#define OP(ENUM, name, arity, kind, flags, value, da, db, dc, edges)                               \
    case NSI_##ENUM:                                                                               \
        return value;
#include "expr/ops.def"
#undef OP
    case NSI_OP_COUNT: break;
    }
    return lowered;
}

// Values of all nodes of a graph of primitive operations.
static void evaluate(const ns_graph* g, const double* in, double* values) {
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const nsi_node* n = &g->nodes.data[i];
        uint32_t arity = nsi_ops[n->op].arity;
        if (n->op == NSI_INPUT) {
            values[i] = in[n->a];
        } else if (n->op == NSI_CONST) {
            values[i] = n->value;
        } else {
            double a = arity > 0 ? values[n->a] : 0.0;
            double b = arity > 1 ? values[n->b] : 0.0;
            double c = arity > 2 ? values[n->c] : 0.0;
            values[i] = apply(n->op, a, b, c);
        }
    }
}

// A function of a and b as backends see it: lowered and contracted.
typedef struct function {
    nsi_op op;
    ns_graph* g;
    double* values;
} function;

static function function_of(nsi_op op) {
    ns_graph* source;
    assert_int_equal(ns_graph_create(NULL, &source, NULL), NS_OK);
    nsi_id a = nsi_graph_input(source, "a"), b = nsi_graph_input(source, "b");
    nsi_graph_output(source, "y", nsi_make(source, op, a, b, NSI_NONE));
    function f = {.op = op};
    assert_int_equal(nsi_pass_lower(source, &f.g, NULL), NS_OK);
    assert_int_equal(nsi_pass_contract(f.g, NULL), NS_OK);
    ns_graph_free(source);
    f.values = malloc(f.g->nodes.count * sizeof *f.values);
    return f;
}

static void function_free(function* f) {
    ns_graph_free(f->g);
    free(f->values);
}

static double call(const function* f, double a, double b) {
    double in[2] = {a, b};
    evaluate(f->g, in, f->values);
    return f->values[f->g->outputs.data[0].node];
}

// The same by constant folding.
static double fold(ns_graph* g, nsi_op op, double a, double b) {
    nsi_id x = nsi_graph_const(g, a), y = nsi_graph_const(g, b);
    nsi_id id = nsi_make(g, op, x, y, NSI_NONE);
    assert_int_equal(g->error.status, NS_OK);
    assert_int_equal(g->nodes.data[id].op, NSI_CONST);
    return g->nodes.data[id].value;
}

static bool same(double x, double y) {
    return x == y || (isnan(x) && isnan(y));
}

// ---- accuracy ------------------------------------------------------------------------------

static long double softplus_l(long double x) {
    return fmaxl(x, 0.0L) + log1pl(expl(-fabsl(x)));
}

static long double reference(nsi_op op, double a, double b) {
    long double x = a, y = b;
    switch (op) {
    case NSI_EXP: return expl(x);
    case NSI_EXPM1: return expm1l(x);
    case NSI_LOG: return logl(x);
    case NSI_LOG1P: return log1pl(x);
    case NSI_POW: return powl(x, y);
    case NSI_SIN: return sinl(x);
    case NSI_COS: return cosl(x);
    case NSI_TAN: return tanl(x);
    case NSI_ASIN: return asinl(x);
    case NSI_ACOS: return acosl(x);
    case NSI_ATAN: return atanl(x);
    case NSI_ATAN2: return atan2l(x, y);
    case NSI_TANH: return tanhl(x);
    case NSI_SOFTPLUS: return softplus_l(x);
    default: return x < 0 ? -1 : x > 0 ? 1 : x;
    }
}

// Distance in units in the last place of a double as large as `exact`.
static double ulps(double y, long double exact) {
    double rounded = (double)exact;
    if (same(y, rounded)) return (double)fabsl(y - exact) > 0.0 ? 0.5 : 0.0;
    if (!isfinite(y) || !isfinite(rounded)) return INFINITY;
    int exponent;
    frexpl(exact, &exponent);
    if (exponent < DBL_MIN_EXP) exponent = DBL_MIN_EXP;
    return (double)fabsl((y - exact) / ldexpl(1.0L, exponent - DBL_MANT_DIG));
}

typedef enum sampler {
    UNIFORM,   // low..high
    BINARY,    // either sign, exponents low..high
    NEAR_ZERO, // doubles around multiples of pi/2, the low-th to the high-th
} sampler;

static double sample(ns_rng* rng, sampler kind, double low, double high) {
    double u = ns_rng_uniform(rng, low, high);
    switch (kind) {
    case BINARY: return (ns_rng_next(rng) & 1 ? 1.0 : -1.0) * exp2(u);
    case NEAR_ZERO: {
        double x = rint(u) * 1.5707963267948966;
        for (uint32_t k = ns_rng_below(rng, 4); k > 0; k--) x = nextafter(x, INFINITY);
        return x;
    }
    default: return u;
    }
}

// Bounds are what was found on 3*10^6 points, rounded up. `high` and `low` of pow are those of the
// logarithm of the result.
static const struct {
    nsi_op op;
    sampler kind;
    double low, high;
    double bound; // ulp
} accuracy[] = {
    {NSI_EXP, UNIFORM, -708.0, 709.78, 0.95},
    {NSI_EXP, UNIFORM, -2.0, 2.0, 0.95},
    {NSI_EXP, BINARY, -60.0, 0.0, 0.95},
    {NSI_EXPM1, UNIFORM, -40.0, 709.78, 1.7},
    {NSI_EXPM1, UNIFORM, -2.0, 2.0, 1.7},
    {NSI_EXPM1, BINARY, -1022.0, 0.0, 1.7},
    {NSI_LOG, UNIFORM, 0.1, 10.0, 0.95},
    {NSI_LOG, UNIFORM, 0x1p-1074, 0x1p-1020, 0.95},
    {NSI_LOG, UNIFORM, 1.0, 0x1.fffffffffffffp1023, 0.95},
    {NSI_LOG1P, UNIFORM, -0.999, 3.0, 1.6},
    {NSI_LOG1P, BINARY, -1022.0, -0.01, 1.6},
    {NSI_LOG1P, UNIFORM, 1.0, 0x1.fffffffffffffp1023, 1.6},
    {NSI_LOG1P, UNIFORM, -0x1p-1023, 0x1p-1023, 0.0},
    {NSI_POW, UNIFORM, -5.0, 5.0, 1.0},
    {NSI_POW, UNIFORM, -50.0, 50.0, 4.0},
    {NSI_POW, UNIFORM, -700.0, 700.0, 60.0},
    {NSI_SIN, UNIFORM, -10.0, 10.0, 0.95},
    {NSI_SIN, UNIFORM, -1e5, 1e5, 0.95},
    {NSI_SIN, UNIFORM, -1.6e6, 1.6e6, 0.95},
    {NSI_SIN, BINARY, -1022.0, 1.0, 0.95},
    {NSI_SIN, NEAR_ZERO, -1e6, 1e6, 0.55},
    {NSI_COS, UNIFORM, -10.0, 10.0, 0.95},
    {NSI_COS, UNIFORM, -1e5, 1e5, 0.95},
    {NSI_COS, UNIFORM, -1.6e6, 1.6e6, 0.95},
    {NSI_COS, BINARY, -1022.0, 1.0, 0.95},
    {NSI_COS, NEAR_ZERO, -1e6, 1e6, 0.55},
    {NSI_TAN, UNIFORM, -10.0, 10.0, 2.6},
    {NSI_TAN, UNIFORM, -1e5, 1e5, 2.6},
    {NSI_TAN, BINARY, -1022.0, 1.0, 2.6},
    {NSI_TAN, NEAR_ZERO, -1e6, 1e6, 2.6},
    {NSI_ASIN, UNIFORM, -1.0, 1.0, 2.1},
    {NSI_ASIN, BINARY, -1022.0, 0.0, 2.1},
    {NSI_ACOS, UNIFORM, -1.0, 1.0, 1.6},
    {NSI_ACOS, UNIFORM, 0.9999, 1.0, 1.6},
    {NSI_ACOS, BINARY, -1022.0, 0.0, 1.6},
    {NSI_ATAN, UNIFORM, -10.0, 10.0, 1.7},
    {NSI_ATAN, BINARY, -1022.0, 1023.9, 1.7},
    {NSI_ATAN2, UNIFORM, -1.0, 1.0, 1.8},
    {NSI_ATAN2, BINARY, -20.0, 20.0, 1.8},
    {NSI_TANH, UNIFORM, -1.0, 1.0, 2.6},
    {NSI_TANH, UNIFORM, -22.0, 22.0, 2.6},
    {NSI_TANH, BINARY, -1022.0, 4.0, 2.6},
    {NSI_SOFTPLUS, UNIFORM, -700.0, 700.0, 1.8},
    {NSI_SOFTPLUS, UNIFORM, -10.0, 10.0, 1.8},
    {NSI_SOFTPLUS, BINARY, -60.0, 5.0, 1.8},
    {NSI_SIGN, UNIFORM, -1.0, 1.0, 0.0},
    {NSI_SIGN, BINARY, -1022.0, 1023.9, 0.0},
};

static void every_function_is_accurate(void** state) {
    (void)state;
    if (LDBL_MANT_DIG < 64) skip(); // no better arithmetic at hand to compare with
    enum { NPOINT = 40000 };
    ns_rng rng = ns_rng_seed(11);
    for (size_t i = 0; i < LENGTH(accuracy); i++) {
        const nsi_op op = accuracy[i].op;
        const double low = accuracy[i].low, high = accuracy[i].high;
        function f = function_of(op);
        double worst = 0.0, worst_a = 0.0, worst_b = 0.0;
        for (int k = 0; k < NPOINT; k++) {
            double a = sample(&rng, accuracy[i].kind, low, high);
            double b = sample(&rng, accuracy[i].kind, low, high);
            if (op == NSI_POW) { // `b` so far is the logarithm of the result
                a = exp2(ns_rng_uniform(&rng, k % 2 ? -1.0 : -40.0, k % 2 ? 1.0 : 40.0));
                b = b / log(a);
            }
            double error = ulps(call(&f, a, b), reference(op, a, b));
            if (error > worst) worst = error, worst_a = a, worst_b = b;
        }
        print_message("%-8s %9.3g..%-9.3g %5.2f ulp", nsi_ops[op].name, low, high, worst);
        print_message(worst > 0.0 ? " at %.17g" : "\n", worst_a);
        if (worst > 0.0) print_message(nsi_ops[op].arity > 1 ? ", %.17g\n" : "\n", worst_b);
        assert_true(worst <= accuracy[i].bound);
        function_free(&f);
    }
}

// Near a zero of theirs, sin and cos of large angles lose relative accuracy, not absolute.
static void large_angles_are_accurate(void** state) {
    (void)state;
    if (LDBL_MANT_DIG < 64) skip();
    enum { NPOINT = 40000 };
    const double bound = 1.2e-16; // 1.1 ulp of 1/2..1
    static const nsi_op ops[] = {NSI_SIN, NSI_COS};
    ns_rng rng = ns_rng_seed(13);
    for (size_t i = 0; i < LENGTH(ops); i++) {
        function f = function_of(ops[i]);
        double worst = 0.0;
        for (int k = 0; k < NPOINT; k++) {
            double x = sample(&rng, BINARY, 20.0, 34.0);
            double error = (double)fabsl(call(&f, x, 0.0) - reference(ops[i], x, 0.0));
            if (!(error <= worst)) worst = error;
        }
        print_message("%s up to 2^34: error %.2g\n", nsi_ops[ops[i]].name, worst);
        assert_true(worst <= bound);
        function_free(&f);
    }
}

// ---- special values ------------------------------------------------------------------------

#define INF INFINITY
#define PI 3.141592653589793
#define SMALLEST 0x1p-1074
#define LARGEST 0x1.fffffffffffffp1023

// Equal up to the sign of zero, unless `ulp` gives some room.
static const struct {
    nsi_op op;
    double a, b, expected, ulp;
} specials[] = {
    {NSI_EXP, 0.0, 0, 1.0, 0},
    {NSI_EXP, -0.0, 0, 1.0, 0},
    {NSI_EXP, SMALLEST, 0, 1.0, 0},
    {NSI_EXP, INF, 0, INF, 0},
    {NSI_EXP, -INF, 0, 0.0, 0},
    {NSI_EXP, NAN, 0, NAN, 0},
    {NSI_EXP, 709.782712893384, 0, 0x1.fffffffffff2ap1023, 1}, // largest that does not overflow
    {NSI_EXP, 709.7827128933841, 0, INF, 0},
    {NSI_EXP, 1e300, 0, INF, 0},
    {NSI_EXP, -745.0, 0, 0.0, 0}, // no subnormal results
    {NSI_EXP, -1e300, 0, 0.0, 0},

    {NSI_EXPM1, 0.0, 0, 0.0, 0},
    {NSI_EXPM1, -0x1p-1022, 0, -0x1p-1022, 0},
    {NSI_EXPM1, INF, 0, INF, 0},
    {NSI_EXPM1, -INF, 0, -1.0, 0},
    {NSI_EXPM1, -40.0, 0, -1.0, 0},
    {NSI_EXPM1, -1000.0, 0, -1.0, 0},
    {NSI_EXPM1, NAN, 0, NAN, 0},
    {NSI_EXPM1, 709.782712893384, 0, 0x1.fffffffffff2ap1023, 1},
    {NSI_EXPM1, 709.7827128933841, 0, INF, 0},

    {NSI_LOG, 1.0, 0, 0.0, 0},
    {NSI_LOG, 0.0, 0, -INF, 0},
    {NSI_LOG, -0.0, 0, -INF, 0},
    {NSI_LOG, -SMALLEST, 0, NAN, 0},
    {NSI_LOG, -1.0, 0, NAN, 0},
    {NSI_LOG, -INF, 0, NAN, 0},
    {NSI_LOG, INF, 0, INF, 0},
    {NSI_LOG, NAN, 0, NAN, 0},
    {NSI_LOG, SMALLEST, 0, -744.4400719213812, 1},
    {NSI_LOG, 0x1p-1022, 0, -708.3964185322641, 1},
    {NSI_LOG, LARGEST, 0, 709.782712893384, 1},
    {NSI_LOG, 0x1.fffffffffffffp-1, 0, -0x1.0000000000001p-53, 1},

    {NSI_LOG1P, 0.0, 0, 0.0, 0},
    {NSI_LOG1P, SMALLEST, 0, SMALLEST, 0},
    {NSI_LOG1P, -1e-300, 0, -1e-300, 0},
    {NSI_LOG1P, -1.0, 0, -INF, 0},
    {NSI_LOG1P, -0x1.0000000000001p0, 0, NAN, 0},
    {NSI_LOG1P, -INF, 0, NAN, 0},
    {NSI_LOG1P, INF, 0, INF, 0},
    {NSI_LOG1P, NAN, 0, NAN, 0},
    {NSI_LOG1P, LARGEST, 0, 709.782712893384, 1},
    {NSI_LOG1P, -0x1.fffffffffffffp-1, 0, -36.7368005696771, 1},

    {NSI_POW, 2.0, 10.0, 1024.0, 0},
    {NSI_POW, 2.0, -1021.0, 0x1p-1021, 0},
    {NSI_POW, 2.0, 1023.0, 0x1p1023, 0},
    {NSI_POW, 2.0, 1024.0, INF, 0},
    {NSI_POW, 2.0, -1080.0, 0.0, 0},
    {NSI_POW, 10.0, 308.0, 1e308, 50},
    {NSI_POW, 0.0, 0.0, 1.0, 0},
    {NSI_POW, INF, 0.0, 1.0, 0},
    {NSI_POW, NAN, 0.0, 1.0, 0},
    {NSI_POW, -3.0, -0.0, 1.0, 0},
    {NSI_POW, 1.0, INF, 1.0, 0},
    {NSI_POW, 1.0, NAN, 1.0, 0},
    {NSI_POW, 1.0, 1e300, 1.0, 0},
    {NSI_POW, NAN, 2.5, NAN, 0},
    {NSI_POW, 2.5, NAN, NAN, 0},
    {NSI_POW, 0.0, 2.5, 0.0, 0},
    {NSI_POW, 0.0, 1e-310, 0.0, 0},
    {NSI_POW, -0.0, 4.0, 0.0, 0},
    {NSI_POW, 0.0, -2.5, INF, 0},
    {NSI_POW, 0.0, INF, 0.0, 0},
    {NSI_POW, 0.0, -INF, INF, 0},
    {NSI_POW, INF, 2.5, INF, 0},
    {NSI_POW, INF, -2.5, 0.0, 0},
    {NSI_POW, -INF, 5.0, -INF, 0},
    {NSI_POW, 2.0, INF, INF, 0},
    {NSI_POW, 2.0, -INF, 0.0, 0},
    {NSI_POW, 0.5, INF, 0.0, 0},
    {NSI_POW, 0.5, -INF, INF, 0},
    {NSI_POW, 1.0000000000000002, 1e300, INF, 0},
    {NSI_POW, 1.0000000000000002, -1e300, 0.0, 0},
    {NSI_POW, -2.0, 5.0, -32.0, 0},
    {NSI_POW, -2.0, 6.0, 64.0, 0},
    {NSI_POW, -2.0, -5.0, -0.03125, 0},
    {NSI_POW, -2.0, 2.5, NAN, 0},
    {NSI_POW, -1.0, 9007199254740991.0, -1.0, 0}, // the largest odd double
    {NSI_POW, -1.0, 9007199254740992.0, 1.0, 0},
    {NSI_POW, -1.0, 1e300, 1.0, 0},
    {NSI_POW, 0x1p-1074, 4.0, 0.0, 0},
    {NSI_POW, 0x1p-1074, -0.25, 0x1.6a09e667f3bcdp268, 3},

    {NSI_SIN, 0.0, 0, 0.0, 0},
    {NSI_SIN, -0.0, 0, 0.0, 0},
    {NSI_SIN, SMALLEST, 0, SMALLEST, 0},
    {NSI_SIN, PI, 0, 1.2246467991473532e-16, 0.5},
    {NSI_SIN, PI / 2, 0, 1.0, 0},
    {NSI_SIN, INF, 0, NAN, 0},
    {NSI_SIN, -INF, 0, NAN, 0},
    {NSI_SIN, NAN, 0, NAN, 0},
    {NSI_COS, 0.0, 0, 1.0, 0},
    {NSI_COS, SMALLEST, 0, 1.0, 0},
    {NSI_COS, PI, 0, -1.0, 0},
    {NSI_COS, PI / 2, 0, 6.123233995736766e-17, 0.5},
    {NSI_COS, INF, 0, NAN, 0},
    {NSI_COS, -INF, 0, NAN, 0},
    {NSI_COS, NAN, 0, NAN, 0},
    {NSI_TAN, 0.0, 0, 0.0, 0},
    {NSI_TAN, SMALLEST, 0, SMALLEST, 0},
    {NSI_TAN, PI / 2, 0, 1.633123935319537e16, 2},
    {NSI_TAN, INF, 0, NAN, 0},
    {NSI_TAN, NAN, 0, NAN, 0},

    {NSI_ASIN, 1.0, 0, PI / 2, 0},
    {NSI_ASIN, -1.0, 0, -PI / 2, 0},
    {NSI_ASIN, 0.0, 0, 0.0, 0},
    {NSI_ASIN, SMALLEST, 0, SMALLEST, 0},
    {NSI_ASIN, 0.5, 0, PI / 6, 1},
    {NSI_ASIN, 0x1.0000000000001p0, 0, NAN, 0},
    {NSI_ASIN, -1.5, 0, NAN, 0},
    {NSI_ASIN, INF, 0, NAN, 0},
    {NSI_ASIN, NAN, 0, NAN, 0},
    {NSI_ACOS, 1.0, 0, 0.0, 0},
    {NSI_ACOS, -1.0, 0, PI, 0},
    {NSI_ACOS, 0.0, 0, PI / 2, 0},
    {NSI_ACOS, -0.0, 0, PI / 2, 0},
    {NSI_ACOS, 0x1.0000000000001p0, 0, NAN, 0},
    {NSI_ACOS, -1.5, 0, NAN, 0},
    {NSI_ACOS, -INF, 0, NAN, 0},
    {NSI_ACOS, NAN, 0, NAN, 0},

    {NSI_ATAN, 0.0, 0, 0.0, 0},
    {NSI_ATAN, SMALLEST, 0, SMALLEST, 0},
    {NSI_ATAN, 1.0, 0, PI / 4, 1},
    {NSI_ATAN, INF, 0, PI / 2, 0},
    {NSI_ATAN, -INF, 0, -PI / 2, 0},
    {NSI_ATAN, LARGEST, 0, PI / 2, 0},
    {NSI_ATAN, NAN, 0, NAN, 0},

    {NSI_ATAN2, 0.0, 0.0, 0.0, 0},
    {NSI_ATAN2, -0.0, 0.0, 0.0, 0},
    {NSI_ATAN2, 0.0, -0.0, 0.0, 0},
    {NSI_ATAN2, -0.0, -0.0, 0.0, 0},
    {NSI_ATAN2, 0.0, 1.0, 0.0, 0},
    {NSI_ATAN2, 0.0, -1.0, PI, 0},
    {NSI_ATAN2, -0.0, -1.0, -PI, 0},
    {NSI_ATAN2, 0.0, -SMALLEST, PI, 0},
    {NSI_ATAN2, SMALLEST, SMALLEST, PI / 4, 1},
    {NSI_ATAN2, SMALLEST, -SMALLEST, 3 * PI / 4, 1},
    {NSI_ATAN2, -LARGEST, -LARGEST, -3 * PI / 4, 1},
    {NSI_ATAN2, LARGEST, 0x1p1023, 0x1.1b6e192ebbe44p0, 1}, // atan(2)
    {NSI_ATAN2, 1.0, 0.0, PI / 2, 0},
    {NSI_ATAN2, -1.0, -0.0, -PI / 2, 0},
    {NSI_ATAN2, 1.0, INF, 0.0, 0},
    {NSI_ATAN2, 1.0, -INF, PI, 0},
    {NSI_ATAN2, -1.0, -INF, -PI, 0},
    {NSI_ATAN2, INF, 1.0, PI / 2, 0},
    {NSI_ATAN2, -INF, -1e300, -PI / 2, 0},
    {NSI_ATAN2, NAN, 1.0, NAN, 0},
    {NSI_ATAN2, 1.0, NAN, NAN, 0},
    {NSI_ATAN2, NAN, 0.0, NAN, 0},
    {NSI_ATAN2, 0.0, NAN, NAN, 0},

    {NSI_TANH, 0.0, 0, 0.0, 0},
    {NSI_TANH, SMALLEST, 0, SMALLEST, 0},
    {NSI_TANH, 19.1, 0, 1.0, 0},
    {NSI_TANH, 1e300, 0, 1.0, 0},
    {NSI_TANH, INF, 0, 1.0, 0},
    {NSI_TANH, -INF, 0, -1.0, 0},
    {NSI_TANH, NAN, 0, NAN, 0},

    {NSI_SOFTPLUS, 0.0, 0, 0.6931471805599453, 1},
    {NSI_SOFTPLUS, INF, 0, INF, 0},
    {NSI_SOFTPLUS, -INF, 0, 0.0, 0},
    {NSI_SOFTPLUS, 1e300, 0, 1e300, 0},
    {NSI_SOFTPLUS, -1e300, 0, 0.0, 0},
    {NSI_SOFTPLUS, 40.0, 0, 40.0, 0},
    {NSI_SOFTPLUS, NAN, 0, NAN, 0},

    {NSI_SIGN, 0.0, 0, 0.0, 0},
    {NSI_SIGN, -0.0, 0, 0.0, 0},
    {NSI_SIGN, SMALLEST, 0, 1.0, 0},
    {NSI_SIGN, -SMALLEST, 0, -1.0, 0},
    {NSI_SIGN, INF, 0, 1.0, 0},
    {NSI_SIGN, -INF, 0, -1.0, 0},
    {NSI_SIGN, NAN, 0, NAN, 0},
};

static void special_values_are_as_documented(void** state) {
    (void)state;
    int failures = 0;
    for (size_t i = 0; i < LENGTH(specials); i++) {
        function f = function_of(specials[i].op);
        double y = call(&f, specials[i].a, specials[i].b), expected = specials[i].expected;
        if (!same(y, expected) && !(ulps(y, expected) <= specials[i].ulp)) {
            print_error("%s(%.17g, %.17g) = %.17g, expected %.17g\n", nsi_ops[f.op].name,
                        specials[i].a, specials[i].b, y, expected);
            failures++;
        }
        function_free(&f);
    }
    assert_int_equal(failures, 0);
}

static void zero_keeps_its_sign(void** state) {
    (void)state;
    static const nsi_op ops[] = {NSI_TANH, NSI_LOG1P, NSI_ATAN, NSI_ASIN, NSI_ATAN2};
    for (size_t i = 0; i < LENGTH(ops); i++) {
        function f = function_of(ops[i]);
        for (int negative = 0; negative < 2; negative++) {
            double y = call(&f, negative ? -0.0 : 0.0, 1.0);
            assert_true(y == 0.0 && !signbit(y) == !negative);
        }
        function_free(&f);
    }
}

// ---- symmetry, range, folding --------------------------------------------------------------

// Any double: all bit patterns, but for NaN.
static double any_double(ns_rng* rng) {
    double x;
    do {
        uint64_t bits = ns_rng_next(rng);
        memcpy(&x, &bits, sizeof x);
    } while (isnan(x));
    return x;
}

static double usual_or_any(ns_rng* rng, int k) {
    return k % 2 ? any_double(rng) : ns_rng_uniform(rng, -20.0, 20.0);
}

static void symmetries_are_exact(void** state) {
    (void)state;
    static const struct {
        nsi_op op;
        double sign; // f(-x) = sign * f(x)
    } cases[] = {
        {NSI_SIN, -1},  {NSI_COS, 1},   {NSI_TAN, -1},   {NSI_TANH, -1},
        {NSI_ATAN, -1}, {NSI_ASIN, -1}, {NSI_ATAN2, -1}, {NSI_SIGN, -1},
    };
    enum { NPOINT = 20000 };
    ns_rng rng = ns_rng_seed(3);
    for (size_t i = 0; i < LENGTH(cases); i++) {
        function f = function_of(cases[i].op);
        for (int k = 0; k < NPOINT; k++) {
            double x = usual_or_any(&rng, k), y = usual_or_any(&rng, k / 2);
            assert_true(same(call(&f, -x, y), cases[i].sign * call(&f, x, y)));
        }
        function_free(&f);
    }
}

static void bounded_functions_stay_in_bounds(void** state) {
    (void)state;
    static const struct {
        nsi_op op;
        double low, high;
    } cases[] = {
        {NSI_SIN, -1, 1},     {NSI_COS, -1, 1},
        {NSI_TANH, -1, 1},    {NSI_ATAN, -PI / 2, PI / 2},
        {NSI_ATAN2, -PI, PI}, {NSI_EXP, 0, INF},
        {NSI_EXPM1, -1, INF}, {NSI_SOFTPLUS, 0, INF},
        {NSI_ACOS, 0, PI},    {NSI_ASIN, -PI / 2, PI / 2},
    };
    enum { NPOINT = 50000 };
    ns_rng rng = ns_rng_seed(5);
    for (size_t i = 0; i < LENGTH(cases); i++) {
        function f = function_of(cases[i].op);
        for (int k = 0; k < NPOINT; k++) {
            double x = usual_or_any(&rng, k), y = usual_or_any(&rng, k / 2);
            if (isinf(x)) continue;
            if (cases[i].op == NSI_ACOS || cases[i].op == NSI_ASIN) x = sin(x);
            double z = call(&f, x, y);
            if (!(z >= cases[i].low && z <= cases[i].high)) {
                print_error("%s(%.17g, %.17g) = %.17g\n", nsi_ops[f.op].name, x, y, z);
            }
            assert_true(z >= cases[i].low && z <= cases[i].high);
        }
        function_free(&f);
    }
}

static bool is_lowered(uint32_t op) {
    return nsi_ops[op].kind == NSI_KIND_LOWER;
}

// Identities that apply to an expansion of variables must not change what it computes.
static void folding_and_expansion_agree(void** state) {
    (void)state;
    enum { NPOINT = 1000 };
    ns_rng rng = ns_rng_seed(7);
    for (uint32_t op = 0; op < NSI_OP_COUNT; op++) {
        if (!is_lowered(op)) continue;
        function f = function_of((nsi_op)op);
        ns_graph* g;
        assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
        for (int k = 0; k < NPOINT; k++) {
            double a = usual_or_any(&rng, k), b = usual_or_any(&rng, k / 2);
            if (op == NSI_POW && k % 4 == 0) b = rint(b) + 0.25 * (double)(k % 3);
            double folded = fold(g, (nsi_op)op, a, b);
            // x^2, x^3, 1/x and so on are made as products when the exponent is known.
            if (op == NSI_POW && rint(2.0 * b) == 2.0 * b && fabs(b) <= 3.0) continue;
            assert_true(same(folded, call(&f, a, b)));
        }
        ns_graph_free(g);
        function_free(&f);
    }
}

static void backends_agree(void** state) {
    (void)state;
    static const ns_program_options options[] = {
        {.backend = NS_BACKEND_INTERP, .lanes = 16},
        {.backend = NS_BACKEND_NATIVE, .lanes = 1},
        {.backend = NS_BACKEND_NATIVE, .lanes = 4},
    };
    enum { NRUN = 500, NLANE = 16 };
    ns_rng rng = ns_rng_seed(17);
    for (uint32_t op = 0; op < NSI_OP_COUNT; op++) {
        if (!is_lowered(op)) continue;
        function f = function_of((nsi_op)op);
        for (size_t i = 0; i < LENGTH(options); i++) {
            const uint32_t lanes = options[i].lanes;
            ns_program* program;
            assert_int_equal(ns_program_build(f.g, &options[i], &program, NULL), NS_OK);
            void* work = malloc(ns_program_work_size(program));
            for (int k = 0; k < NRUN; k++) {
                double in[2 * NLANE], out[NLANE];
                for (uint32_t l = 0; l < 2 * lanes; l++) in[l] = usual_or_any(&rng, (int)l + k);
                ns_program_run(program, &(ns_run){.in = in, .out = out, .work = work});
                for (uint32_t l = 0; l < lanes; l++) {
                    assert_true(same(out[l], call(&f, in[l], in[lanes + l])));
                }
            }
            free(work);
            ns_program_free(program);
        }
        function_free(&f);
    }
}

// ---- length --------------------------------------------------------------------------------

static uint32_t count_ops(const ns_graph* g) {
    uint32_t count = 0;
    uint8_t* live = malloc(g->nodes.count);
    nsi_graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        count += live[i] && nsi_ops[g->nodes.data[i].op].kind == NSI_KIND_PRIM;
    }
    free(live);
    return count;
}

// Operations of outputs f(a, b), h(a, b) together.
static uint32_t count_both(nsi_op f, nsi_op h) {
    ns_graph *source, *g;
    assert_int_equal(ns_graph_create(NULL, &source, NULL), NS_OK);
    nsi_id a = nsi_graph_input(source, "a"), b = nsi_graph_input(source, "b");
    nsi_graph_output(source, "f", nsi_make(source, f, a, b, NSI_NONE));
    nsi_graph_output(source, "h", nsi_make(source, h, a, b, NSI_NONE));
    assert_int_equal(nsi_pass_lower(source, &g, NULL), NS_OK);
    assert_int_equal(nsi_pass_contract(g, NULL), NS_OK);
    uint32_t count = count_ops(g);
    ns_graph_free(source);
    ns_graph_free(g);
    return count;
}

static void expansions_are_short(void** state) {
    (void)state;
    static const struct {
        nsi_op f, h;
        uint32_t limit;
    } cases[] = {
        {NSI_EXP, NSI_EXP, 20},     {NSI_EXPM1, NSI_EXPM1, 23}, {NSI_LOG, NSI_LOG, 30},
        {NSI_LOG1P, NSI_LOG1P, 31}, {NSI_POW, NSI_POW, 84},     {NSI_SIN, NSI_SIN, 38},
        {NSI_COS, NSI_COS, 38},     {NSI_TAN, NSI_TAN, 41},     {NSI_ASIN, NSI_ASIN, 27},
        {NSI_ACOS, NSI_ACOS, 29},   {NSI_ATAN, NSI_ATAN, 32},   {NSI_ATAN2, NSI_ATAN2, 37},
        {NSI_TANH, NSI_TANH, 19},   {NSI_SIGN, NSI_SIGN, 4},    {NSI_SOFTPLUS, NSI_SOFTPLUS, 36},
        {NSI_SIN, NSI_COS, 40},     {NSI_SIN, NSI_TAN, 41},     {NSI_ASIN, NSI_ACOS, 37},
        {NSI_EXP, NSI_EXPM1, 35},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        uint32_t count = count_both(cases[i].f, cases[i].h);
        print_message("%s", nsi_ops[cases[i].f].name);
        if (cases[i].h != cases[i].f) print_message(" and %s", nsi_ops[cases[i].h].name);
        print_message(": %u operations\n", count);
        assert_true(count <= cases[i].limit);
    }
}

// ---- the pass ------------------------------------------------------------------------------

// Only primitive operations; masks where masks belong and nowhere else.
static void check_lowered(const ns_graph* g) {
    assert_int_equal(nsi_graph_validate(g, NULL), NS_OK);
    uint8_t* mask = malloc(g->nodes.count);
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const nsi_node* n = &g->nodes.data[i];
        assert_false(is_lowered(n->op));
        mask[i] = (nsi_ops[n->op].flags & NSI_FLAG_MASK) != 0;
        bool logic = n->op == NSI_AND || n->op == NSI_OR || n->op == NSI_NOT;
        for (uint32_t k = 0; k < nsi_ops[n->op].arity; k++) {
            bool wanted = logic || (n->op == NSI_SELECT && k == 0);
            assert_int_equal(mask[nsi_node_operand(n, k)], wanted);
        }
        if (n->op != NSI_BLOCK) continue;
        const nsi_block* block = &g->blocks.data[n->a];
        for (uint32_t k = 0; k < block->ninput; k++) assert_false(mask[block->inputs[k]]);
    }
    for (uint32_t k = 0; k < g->outputs.count; k++) assert_false(mask[g->outputs.data[k].node]);
    free(mask);
}

enum { NTRUTH = 11 };

// Truth values as numbers and numbers as truth values, wherever either can stand.
static ns_graph* truth_graph(void) {
    ns_graph* g;
    assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
    nsi_id x = nsi_graph_input(g, "x"), y = nsi_graph_input(g, "y");
    nsi_id less = nsi_make(g, NSI_LT, x, y, NSI_NONE);
    nsi_id differ = nsi_make(g, NSI_NE, x, y, NSI_NONE);
    const nsi_id outputs[NTRUTH] = {
        less,
        nsi_make(g, NSI_ADD, less, differ, NSI_NONE),
        nsi_make(g, NSI_LE, less, x, NSI_NONE),
        nsi_make(g, NSI_EXP, less, NSI_NONE, NSI_NONE),
        nsi_make(g, NSI_NOT, x, NSI_NONE, NSI_NONE),
        nsi_make(g, NSI_AND, x, less, NSI_NONE),
        nsi_make(g, NSI_OR, x, y, NSI_NONE),
        nsi_make(g, NSI_SELECT, x, less, y),
        nsi_make(g, NSI_SELECT, less, x, differ),
        nsi_make(g, NSI_SELECT, nsi_make(g, NSI_SELECT, less, differ, x), x, y),
        nsi_make(g, NSI_AND, nsi_make(g, NSI_MUL, less, y, NSI_NONE), differ, NSI_NONE),
    };
    for (uint32_t k = 0; k < NTRUTH; k++) {
        char name[8];
        snprintf(name, sizeof name, "y%u", k);
        nsi_graph_output(g, name, outputs[k]);
    }
    assert_int_equal(g->error.status, NS_OK);
    return g;
}

static void truth_expected(double x, double y, double* out) {
    double less = x < y, differ = x != y;
    const double values[NTRUTH] = {
        less,
        less + differ,
        less <= x,
        less != 0.0 ? 0x1.5bf0a8b145769p1 : 1.0, // e
        x == 0.0,
        x != 0.0 && less != 0.0,
        x != 0.0 || y != 0.0,
        x != 0.0 ? less : y,
        less != 0.0 ? x : differ,
        (less != 0.0 ? differ : x) != 0.0 ? x : y,
        less * y != 0.0 && differ != 0.0,
    };
    memcpy(out, values, sizeof values);
}

static void truth_values_have_the_right_form(void** state) {
    (void)state;
    ns_graph *source = truth_graph(), *g;
    assert_int_equal(nsi_pass_lower(source, &g, NULL), NS_OK);
    check_lowered(g);
    assert_int_equal(nsi_pass_contract(g, NULL), NS_OK);
    check_lowered(g);
    ns_graph_free(g);

    // Run on the backends, in all pairs of these numbers.
    static const double numbers[] = {0.0, -0.0, 1.0, -1.0, 0.5, SMALLEST, INF, -INF, NAN};
    static const ns_backend backends[] = {NS_BACKEND_INTERP, NS_BACKEND_NATIVE};
    enum { NLANE = 4 };
    for (size_t k = 0; k < LENGTH(backends); k++) {
        ns_program_options options = {.backend = backends[k], .lanes = NLANE};
        ns_program* program;
        assert_int_equal(ns_program_build(source, &options, &program, NULL), NS_OK);
        void* work = malloc(ns_program_work_size(program));
        for (size_t i = 0; i < LENGTH(numbers); i++) {
            for (size_t j = 0; j < LENGTH(numbers); j += NLANE) {
                double in[2][NLANE], out[NTRUTH][NLANE], expected[NTRUTH];
                for (size_t l = 0; l < NLANE; l++) {
                    in[0][l] = numbers[i];
                    in[1][l] = numbers[(j + l) % LENGTH(numbers)];
                }
                ns_program_run(program, &(ns_run){.in = in[0], .out = out[0], .work = work});
                for (size_t l = 0; l < NLANE; l++) {
                    truth_expected(in[0][l], in[1][l], expected);
                    for (size_t n = 0; n < NTRUTH; n++) assert_true(same(out[n][l], expected[n]));
                }
            }
        }
        free(work);
        ns_program_free(program);
    }
    ns_graph_free(source);
}

static void blocks_get_numbers(void** state) {
    (void)state;
    ns_graph *source, *g;
    assert_int_equal(ns_graph_create(NULL, &source, NULL), NS_OK);
    nsi_id x = nsi_graph_input(source, "x"), y = nsi_graph_input(source, "y");
    const nsi_id inputs[] = {nsi_make(source, NSI_LT, x, y, NSI_NONE),
                             nsi_make(source, NSI_SIN, x, NSI_NONE, NSI_NONE)};
    uint32_t weights = nsi_graph_array(source, "w", 6, false);
    nsi_block block = {.kind = &nsi_dense,
                       .params = {2, 3},
                       .ninput = 2,
                       .noutput = 3,
                       .inputs = inputs,
                       .source = weights,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(source, &block);
    nsi_graph_output(source, "z", nsi_graph_out(source, node, 2));
    nsi_graph_output(source, "less", inputs[0]);
    assert_int_equal(source->error.status, NS_OK);
    assert_int_equal(nsi_pass_lower(source, &g, NULL), NS_OK);
    check_lowered(g);
    assert_int_equal(g->blocks.count, 1);
    assert_int_equal(g->outputs.data[1].node, g->blocks.data[0].inputs[0]); // wrapped once
    ns_graph_free(g);
    ns_graph_free(source);
}

static void dead_nodes_are_dropped(void** state) {
    (void)state;
    ns_graph *source, *g;
    assert_int_equal(ns_graph_create(NULL, &source, NULL), NS_OK);
    nsi_id x = nsi_graph_input(source, "x");
    nsi_make(source, NSI_POW, x, x, NSI_NONE);
    nsi_graph_output(source, "y", nsi_make(source, NSI_ADD, x, x, NSI_NONE));
    assert_int_equal(nsi_pass_lower(source, &g, NULL), NS_OK);
    assert_int_equal(g->nodes.count, 2);
    ns_graph_free(g);
    ns_graph_free(source);
}

static void errors_are_handed_on(void** state) {
    (void)state;
    ns_graph *source, *g;
    assert_int_equal(ns_graph_create(NULL, &source, NULL), NS_OK);
    nsi_make(source, NSI_SIN, 5, NSI_NONE, NSI_NONE); // no such node
    ns_error error = {0};
    assert_int_equal(nsi_pass_lower(source, &g, &error), NS_ERR_ARGUMENT);
    assert_null(g);
    assert_int_equal(error.status, NS_ERR_ARGUMENT);
    assert_string_equal(error.message, source->error.message);
    ns_graph_free(source);

    assert_int_equal(ns_graph_create(NULL, &source, NULL), NS_OK);
    nsi_id x = nsi_graph_input(source, "x");
    assert_int_equal(nsi_lower_op(source, NSI_ADD, x, x), NSI_NONE);
    assert_int_equal(source->error.status, NS_ERR_INVALID);
    ns_graph_free(source);
}

static void every_failed_allocation_is_survived(void** state) {
    (void)state;
    size_t n = 1;
    for (;; n++) {
        test_alloc counter = {0};
        ns_allocator allocator = test_allocator(&counter);
        ns_graph *source, *g;
        assert_int_equal(ns_graph_create(&allocator, &source, NULL), NS_OK);
        nsi_id x = nsi_graph_input(source, "x"), y = nsi_graph_input(source, "y");
        nsi_id less = nsi_make(source, NSI_LT, x, y, NSI_NONE);
        for (uint32_t op = 0; op < NSI_OP_COUNT; op++) {
            if (is_lowered(op))
                nsi_graph_output(source, nsi_ops[op].name, nsi_make(source, op, x, y, 0));
        }
        nsi_graph_output(source, "less", less);
        assert_int_equal(source->error.status, NS_OK);

        size_t before = counter.live_blocks;
        counter.fail_at = counter.calls + n;
        ns_error error = {0};
        ns_status status = nsi_pass_lower(source, &g, &error);
        bool failed = counter.calls >= counter.fail_at;
        assert_int_equal(status, failed ? NS_ERR_NOMEM : NS_OK);
        assert_int_equal(error.status, status);
        assert_int_equal(g == NULL, failed);
        counter.fail_at = 0;
        ns_graph_free(g);
        assert_int_equal(counter.live_blocks, before);
        ns_graph_free(source);
        assert_int_equal(counter.live_blocks, 0);
        if (!failed) break;
    }
    print_message("%zu allocations failed, one at a time\n", n - 1);
    assert_true(n > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_is_accurate),
        cmocka_unit_test(large_angles_are_accurate),
        cmocka_unit_test(special_values_are_as_documented),
        cmocka_unit_test(zero_keeps_its_sign),
        cmocka_unit_test(symmetries_are_exact),
        cmocka_unit_test(bounded_functions_stay_in_bounds),
        cmocka_unit_test(folding_and_expansion_agree),
        cmocka_unit_test(backends_agree),
        cmocka_unit_test(expansions_are_short),
        cmocka_unit_test(truth_values_have_the_right_form),
        cmocka_unit_test(blocks_get_numbers),
        cmocka_unit_test(dead_nodes_are_dropped),
        cmocka_unit_test(errors_are_handed_on),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
