// Lowered functions against higher precision, and their special values.

#include "expr/block.h"
#include "expr/lower_rig.h"
#include "neuralsim/program.h"
#include "support/assert.h"

#include <float.h>
#include <math.h>

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_is_accurate),
        cmocka_unit_test(large_angles_are_accurate),
        cmocka_unit_test(special_values_are_as_documented),
        cmocka_unit_test(zero_keeps_its_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
