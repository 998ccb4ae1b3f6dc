// Pass: elementary functions in terms of primitive operations. After differentiation, before
// contraction; linear; makes a new graph without dead nodes.
//
// Each function is one straight sequence of operations. All backends execute the same sequence, so
// results are the same bits everywhere, at any number of lanes; sin and cos of one angle, or exp
// and expm1 of one number, share their reduction because equal nodes are one node. Nothing
// branches, so both sides of a select are computed and ranges are kept by clamping. MIN and MAX
// give their second operand when one is NaN: the variable stands second, and NaN comes out as NaN.
//
// Largest errors found, in units in the last place, on 3*10^6 points in each of several ranges
// (tests/expr/test_lower.c repeats a part of that), and number of operations:
//
//     exp       0.9   20      sin, cos   0.9   38 (both: 40)     atan    1.7   32
//     expm1     1.6   23      tan        2.6   41                atan2   1.8   37
//     log       0.9   30      asin       2.1   27                tanh    2.5   19
//     log1p     1.4   31      acos       1.5   29                sign    0     4
//     softplus  1.7   36      pow        1.0   81
//
// pow: for results within e^-5..e^5; 4 ulp within e^-50..e^50, 45 ulp within e^-700..e^700. exp and
// pow have no subnormal results: below 2^-1021.5 they give 0.
//
// The contraction pass joins a product to the sum that alone uses it. Error-free steps below are
// written so that this changes nothing: their products are exact, or used twice.
//
// Coefficients and split constants are printed by tools/minimax.sollya.

#include "expr/call.h"

#include <float.h>
#include <math.h>

// One operand of a call at most is itself a call that makes nodes: compilers differ in the order in
// which they evaluate arguments, and nodes shall be numbered alike.
#define ADD(a, b) nsi_make(g, NSI_ADD, (a), (b), NSI_NONE)
#define SUB(a, b) nsi_make(g, NSI_SUB, (a), (b), NSI_NONE)
#define MUL(a, b) nsi_make(g, NSI_MUL, (a), (b), NSI_NONE)
#define DIV(a, b) nsi_make(g, NSI_DIV, (a), (b), NSI_NONE)
#define NEG(a) nsi_make(g, NSI_NEG, (a), NSI_NONE, NSI_NONE)
#define FMA(a, b, c) nsi_make(g, NSI_FMA, (a), (b), (c))   // a*b + c
#define FMS(a, b, c) nsi_make(g, NSI_FMS, (a), (b), (c))   // a*b - c
#define FNMA(a, b, c) nsi_make(g, NSI_FNMA, (a), (b), (c)) // c - a*b
#define SQRT(a) nsi_make(g, NSI_SQRT, (a), NSI_NONE, NSI_NONE)
#define ABS(a) nsi_make(g, NSI_ABS, (a), NSI_NONE, NSI_NONE)
#define ROUND(a) nsi_make(g, NSI_ROUND, (a), NSI_NONE, NSI_NONE)
#define FLOOR(a) nsi_make(g, NSI_FLOOR, (a), NSI_NONE, NSI_NONE)
#define MIN(a, b) nsi_make(g, NSI_MIN, (a), (b), NSI_NONE)
#define MAX(a, b) nsi_make(g, NSI_MAX, (a), (b), NSI_NONE)
#define COPYSIGN(a, b) nsi_make(g, NSI_COPYSIGN, (a), (b), NSI_NONE)
#define LT(a, b) nsi_make(g, NSI_LT, (a), (b), NSI_NONE)
#define EQ(a, b) nsi_make(g, NSI_EQ, (a), (b), NSI_NONE)
#define NE(a, b) nsi_make(g, NSI_NE, (a), (b), NSI_NONE)
#define OR(a, b) nsi_make(g, NSI_OR, (a), (b), NSI_NONE)
#define SELECT(a, b, c) nsi_make(g, NSI_SELECT, (a), (b), (c))
#define POW2I(a) nsi_make(g, NSI_POW2I, (a), NSI_NONE, NSI_NONE)
#define EXPONENT(a) nsi_make(g, NSI_EXPONENT, (a), NSI_NONE, NSI_NONE)
#define K(value) nsi_graph_const(g, (value))

#define LENGTH(table) (sizeof(table) / sizeof *(table))

static const double infinity = INFINITY;
static const double not_a_number = NAN;

// ---- pieces --------------------------------------------------------------------------------

// x*a + b
static nsi_id linear(ns_graph* g, nsi_id x, double a, double b) {
    nsi_id slope = K(a), offset = K(b);
    return FMA(x, slope, offset);
}

static nsi_id lower_clamp(ns_graph* g, nsi_id x, double low, double high) {
    x = MAX(K(low), x);
    return MIN(K(high), x);
}

static nsi_id lower_choose(ns_graph* g, nsi_id condition, double then, double otherwise) {
    nsi_id b = K(then), c = K(otherwise);
    return SELECT(condition, b, c);
}

// The integer nearest to x*scale: adding and subtracting 1.5 * 2^52 rounds to a multiple of 1, for
// |x*scale| < 2^51. As long as multiply and ROUND, but each step is one instruction; and 0 is +0.
static nsi_id nearest(ns_graph* g, nsi_id x, double scale) {
    const double magic = 0x1.8p52;
    x = linear(g, x, scale, magic);
    return SUB(x, K(magic));
}

// scale * (c[0] + c[step] x + c[2 step] x^2 + ...), n coefficients
static nsi_id horner(ns_graph* g, nsi_id x, const double* c, size_t n, size_t step, double scale) {
    nsi_id sum = K(scale * c[(n - 1) * step]);
    for (size_t i = n - 1; i-- > 0;) sum = FMA(sum, x, K(scale * c[i * step]));
    return sum;
}

// scale * (c[0] + c[1] x + c[2] x^2 + ...). Horner's rule takes the fewest operations. In a long
// polynomial (atan) even and odd powers are summed side by side: one operation more, but the result
// is there sooner, which made it 14 % faster (native backend). The lowest six coefficients come one
// by one all the same: sums of every other term are larger than the total and cost 1 ulp there.
static nsi_id polynomial(ns_graph* g, nsi_id x, const double* c, size_t n, double scale) {
    if (n < 16) return horner(g, x, c, n, 1, scale);
    const size_t low = 6, high = n - low;
    nsi_id square = MUL(x, x);
    nsi_id even = horner(g, square, c + low, (high + 1) / 2, 2, scale);
    nsi_id odd = horner(g, square, c + low + 1, high / 2, 2, scale);
    nsi_id sum = FMA(odd, x, even);
    for (size_t i = low; i-- > 0;) sum = FMA(sum, x, K(scale * c[i]));
    return sum;
}

#define POLYNOMIAL(x, table) polynomial(g, (x), (table), LENGTH(table), 1.0)

// ---- sin, cos, tan -------------------------------------------------------------------------

static const double two_over_pi = 0x1.45f306dc9c883p-1;

// pi/2 in three parts. The second is short: its products with integers up to 2^20 are exact.
static const double half_pi_1 = 0x1.921fb54442d18p0;
static const double half_pi_2 = 0x1.1a626331p-54;
static const double half_pi_3 = 0x1.1701b839a252p-88;

// sin(r) = r + r*z*S(z) and cos(r) = 1 + z*C(z), z = r^2, |r| <= pi/4
static const double sin_z[] = {
    -0x1.5555555555548p-3, 0x1.111111110f75dp-7,   -0x1.a01a019bf222ep-13,
    0x1.71de355f05599p-19, -0x1.ae5e5471f5503p-26, 0x1.5d8e3511cdcf2p-33,
};
static const double cos_z[] = {
    -0x1p-1,
    0x1.5555555555555p-5,
    -0x1.6c16c16c168ccp-10,
    0x1.a01a019f38aeep-16,
    -0x1.27e4fa036b9b5p-22,
    0x1.1eeb584e7aa5ep-29,
    -0x1.9073d27e1f87bp-37,
};

// x = k*pi/2 + r: sine and cosine of r and of k*pi/2.
typedef struct angle {
    nsi_id sin_r, cos_r, sin_k, cos_k;
} angle;

// The reduction is that of Cody & Waite 1980 with fused products. The error of the result is small
// relative to the result for |x| up to 1.6e6 (k up to 2^20), relative to 1 up to 2^34, and 2e-13 at
// 2^49, because the tail grows with k and is not multiplied by cos(r) below.
static angle reduce_angle(ns_graph* g, nsi_id x) {
    // Keep what is left modulo 2^50: beyond 2^49 the result is the sine of some other angle, not a
    // number out of range, and infinity gives NaN.
    nsi_id excess = ROUND(MUL(x, K(0x1p-50)));
    x = FNMA(excess, K(0x1p50), x);

    // r + tail = x - k*pi/2. The first product leaves r1 exact, as k*half_pi_1 and x are multiples
    // of 2^-53 or k is 0; what r1 - k*half_pi_2 loses is kept as in Fast2Sum (Dekker 1971).
    nsi_id k = nearest(g, x, two_over_pi);
    nsi_id part_2 = K(half_pi_2);
    nsi_id r1 = FNMA(k, K(half_pi_1), x);
    nsi_id r = FNMA(k, part_2, r1);
    nsi_id tail = FNMA(k, part_2, SUB(r1, r));
    tail = FNMA(k, K(half_pi_3), tail);

    // (r + tail)^2 to first order in the tail. Without the tail cos would be off by 1.2 ulp, but
    // the polynomials do not have to wait for it.
    nsi_id z = MUL(r, r);
    nsi_id full_z = MUL(ADD(tail, tail), r);
    full_z = FMA(r, r, full_z);

    angle a;
    nsi_id s = POLYNOMIAL(z, sin_z);
    nsi_id rz = MUL(r, z);
    a.sin_r = ADD(r, FMA(rz, s, tail));
    nsi_id c = POLYNOMIAL(z, cos_z);
    a.cos_r = FMA(c, full_z, K(1.0));

    // q = k modulo 4 in -2..2. Then cos(k pi/2) = 1 - |q| and sin(k pi/2) = q for odd q, else 0.
    nsi_id turns = nearest(g, k, 0.25);
    nsi_id q = FNMA(turns, K(4.0), k);
    nsi_id abs_q = ABS(q);
    a.cos_k = SUB(K(1.0), abs_q);
    a.sin_k = FNMA(q, ABS(a.cos_k), q);
    return a;
}

// The addition theorems; one of the two products is 0 and the other exact.
static nsi_id sin_of(ns_graph* g, const angle* a) {
    return FMA(a->sin_r, a->cos_k, MUL(a->cos_r, a->sin_k));
}

static nsi_id cos_of(ns_graph* g, const angle* a) {
    return FNMA(a->sin_r, a->sin_k, MUL(a->cos_r, a->cos_k));
}

static nsi_id lower_sin(ns_graph* g, nsi_id x) {
    angle a = reduce_angle(g, x);
    return sin_of(g, &a);
}

static nsi_id lower_cos(ns_graph* g, nsi_id x) {
    angle a = reduce_angle(g, x);
    return cos_of(g, &a);
}

static nsi_id lower_tan(ns_graph* g, nsi_id x) {
    angle a = reduce_angle(g, x);
    nsi_id sine = sin_of(g, &a);
    return DIV(sine, cos_of(g, &a));
}

// ---- exp, expm1, tanh ----------------------------------------------------------------------

static const double one_over_ln2 = 0x1.71547652b82fep0;
static const double ln2_1 = 0x1.62e42fefa39efp-1;
static const double ln2_2 = 0x1.abc9e3b39803fp-56;

// (exp(r) - 1)/r = 1 + r*E(r), |r| <= ln2/2
static const double expm1_r[] = {
    0x1.0000000000005p-1,  0x1.555555555553bp-3,  0x1.5555555552106p-5,  0x1.1111111118832p-7,
    0x1.6c16c17f31716p-10, 0x1.a01a0177f35f2p-13, 0x1.a019a698afb22p-16, 0x1.71de810072d2fp-19,
    0x1.28a29942a90dp-22,  0x1.ae7794d06daedp-26,
};

// x = k*ln2 + r
typedef struct exponent {
    nsi_id k, r;
} exponent;

// Cody & Waite 1980: k*ln2_1 is subtracted exactly. `tail` is a small part of x, or NSI_NONE.
static exponent reduce_exponent(ns_graph* g, nsi_id x, nsi_id tail) {
    exponent e;
    e.k = nearest(g, x, one_over_ln2);
    e.r = FNMA(e.k, K(ln2_1), x);
    if (tail == NSI_NONE) {
        e.r = FNMA(e.k, K(ln2_2), e.r);
    } else {
        e.r = ADD(e.r, FNMA(e.k, K(ln2_2), tail));
    }
    return e;
}

// scale * exp(r)
static nsi_id exp_reduced(ns_graph* g, nsi_id r, double scale) {
    nsi_id p = polynomial(g, r, expm1_r, LENGTH(expm1_r), scale);
    p = FMA(p, r, K(scale));
    return FMA(p, r, K(scale));
}

// Arguments at which exp is certain to give 0 (k = -1022) and infinity (k = 1024).
static const double exp_low = -708.5, exp_high = 710.0;

// 2^(k-1), which exists for k = 1024 where 2^k does not. For k = -1022 POW2I gives 0.
static nsi_id half_power(ns_graph* g, nsi_id k) {
    return POW2I(SUB(k, K(1.0)));
}

static nsi_id lower_exp(ns_graph* g, nsi_id x) {
    x = lower_clamp(g, x, exp_low, exp_high);
    exponent e = reduce_exponent(g, x, NSI_NONE);
    nsi_id twice = exp_reduced(g, e.r, 2.0);
    return MUL(twice, half_power(g, e.k));
}

// 2 * (h r^2 E(r) + (h r - (1/2 - h))), h = 2^(k-1): the large parts are summed first, since they
// cancel for k = 1.
static nsi_id lower_expm1(ns_graph* g, nsi_id x) {
    x = lower_clamp(g, x, exp_low, exp_high);
    exponent e = reduce_exponent(g, x, NSI_NONE);
    nsi_id h = half_power(g, e.k);
    nsi_id rest = POLYNOMIAL(e.r, expm1_r);
    rest = MUL(rest, MUL(e.r, e.r));
    nsi_id offset = SUB(K(0.5), h);
    nsi_id half = FMA(h, rest, FMS(h, e.r, offset));
    return ADD(half, half);
}

// u/tanh(u) = 1 + z*T(z), z = u^2, |u| <= ln2/4
static const double coth_z[] = {
    0x1.555555555553ep-2,   -0x1.6c16c16bebc8cp-6, 0x1.1566aaf240f88p-9,
    -0x1.bbd41c3475021p-13, 0x1.63768db8ab75dp-16,
};

// With 2x = k*ln2 + 2u, s = 2^k and tanh(u) = u/c, where c is a polynomial, the addition theorem
//
//     tanh(x) = ((s-1) + (s+1) u/c) / ((s+1) + (s-1) u/c)
//
// needs one division and, unlike expm1(2x)/(expm1(2x)+2), no long polynomial. It is exactly odd as
// it stands: -x gives 1/s, which scales numerator and denominator by a power of two. Neither
// rounds across the other, so the result stays within [-1, 1]. For |x| >= 18.6 both are equal.
//
// ln2 needs one part only: k times what is missing of it, 2^-56, changes the result by 0.3 ulp for
// k = 1 and less beyond, where tanh flattens.
static nsi_id lower_tanh(ns_graph* g, nsi_id x) {
    x = lower_clamp(g, x, -20.0, 20.0);
    nsi_id k = nearest(g, x, 2.0 * one_over_ln2);
    nsi_id u = FNMA(k, K(0.5 * ln2_1), x);
    nsi_id s = POW2I(k);
    nsi_id z = MUL(u, u);
    nsi_id c = POLYNOMIAL(z, coth_z);
    c = FMA(c, z, K(1.0));
    nsi_id one_minus_s = SUB(K(1.0), s); // +0 for k = 0, which keeps the sign of u = -0
    nsi_id one_plus_s = ADD(K(1.0), s);
    nsi_id numerator = FNMA(one_minus_s, c, MUL(one_plus_s, u));
    nsi_id denominator = FMS(one_plus_s, c, MUL(one_minus_s, u));
    return DIV(numerator, denominator);
}

// ---- log, log1p, softplus ------------------------------------------------------------------

// log((1+s)/(1-s)) = 2s + s*z*L(z), z = s^2: for arguments 1/sqrt2..sqrt2 and for 1..2
static const double log_z[] = {
    0x1.5555555555558p-1, 0x1.99999999952d3p-2, 0x1.2492492df8288p-2, 0x1.c71c62dafe5d8p-3,
    0x1.7462b7c30167bp-3, 0x1.39fdfad00f52dp-3, 0x1.2b5d0d1375f3dp-3,
};
static const double log1p_z[] = {
    0x1.5555555555555p-1, 0x1.999999999a27cp-2, 0x1.24924923df833p-2, 0x1.c71c726c186a7p-3,
    0x1.745cf15494d41p-3, 0x1.3b18a6d7982f8p-3, 0x1.10acf55b3c3f1p-3, 0x1.eb8a265ef0991p-4,
    0x1.688e8c8831d33p-4, 0x1.4afdbc715abcep-3,
};

static const double sqrt2 = 0x1.6a09e667f3bcdp0;

// x = 2^k (1 + f), 1/sqrt2 <= 1 + f <= sqrt2
typedef struct magnitude {
    nsi_id minus_k, f;
} magnitude;

// For positive finite x; subnormal numbers are scaled up, and large ones down to keep 2^-k normal.
// The exponent of x*sqrt2 is that of x rounded to nearest, which centres 1 + f without a select.
static magnitude split_magnitude(ns_graph* g, nsi_id x) {
    nsi_id small = LT(x, K(1.0));
    x = MUL(x, lower_choose(g, small, 0x1p54, 0x1p-54));
    nsi_id exponent_of_x = EXPONENT(MUL(x, K(sqrt2)));
    nsi_id scaled_by = lower_choose(g, small, 54.0, -54.0);
    magnitude m;
    m.minus_k = SUB(scaled_by, exponent_of_x);
    nsi_id power = POW2I(NEG(exponent_of_x));
    m.f = FMS(x, power, K(1.0));
    return m;
}

// log(1+f) = f - s*rest with s = f/(2+f), rest = f - z L(z): its large part, f, has no error, while
// 2s has the error of a quotient (fdlibm's e_log.c, Sun Microsystems 1993).
static nsi_id log_rest(ns_graph* g, nsi_id f, const double* c, size_t n, nsi_id* s) {
    *s = DIV(f, ADD(f, K(2.0)));
    nsi_id z = MUL(*s, *s);
    return FNMA(z, polynomial(g, z, c, n, 1.0), f);
}

// k*ln2 + log(1+f). Negative k in products, so that k = 0 adds -0 and keeps the sign of f = -0.
static nsi_id log_of(ns_graph* g, magnitude m) {
    nsi_id s;
    nsi_id rest = log_rest(g, m.f, log_z, LENGTH(log_z), &s);
    nsi_id y = SUB(m.f, FMA(s, rest, MUL(m.minus_k, K(ln2_2))));
    return FNMA(m.minus_k, K(ln2_1), y);
}

// `y` for low < x < infinity; otherwise -infinity (x = low), NaN (below) or x (infinity, NaN).
static nsi_id log_edges(ns_graph* g, nsi_id x, double low, nsi_id y) {
    // x - DBL_MAX is below any logarithm but for infinite x.
    y = MAX(y, SUB(x, K(DBL_MAX)));
    nsi_id edge = lower_choose(g, EQ(x, K(low)), -infinity, not_a_number);
    nsi_id inside = LT(K(low), x);
    return SELECT(inside, y, edge);
}

static nsi_id lower_log(ns_graph* g, nsi_id x) {
    nsi_id y = log_of(g, split_magnitude(g, x));
    return log_edges(g, x, 0.0, y);
}

// log(u + c) with u = 1 + x rounded and c what was rounded away (exact up to 2^53, and of no
// consequence beyond). For k = 0, f is x again.
static nsi_id lower_log1p(ns_graph* g, nsi_id x) {
    nsi_id u = ADD(x, K(1.0));
    nsi_id c = SUB(x, SUB(u, K(1.0)));

    // As in split_magnitude(). u is never subnormal, but 2^-k is for u above 2^1022: via 2^(2-k).
    nsi_id k_minus_2 = EXPONENT(MUL(u, K(0.25 * sqrt2)));
    nsi_id power = MUL(POW2I(NEG(k_minus_2)), K(0.25));
    magnitude m;
    m.minus_k = SUB(K(-2.0), k_minus_2);
    nsi_id minus_f = FNMA(u, power, K(1.0));
    m.f = FMS(c, power, minus_f);
    return log_edges(g, x, -1.0, log_of(g, m));
}

// max(x, 0) + log(1 + e), e = exp(-|x|) in [0, 1], where 1 + e needs no reduction.
static nsi_id lower_softplus(ns_graph* g, nsi_id x) {
    // From -709.1 down k is -1023, and POW2I gives 0.
    nsi_id minus_abs = NEG(ABS(x));
    exponent r = reduce_exponent(g, MAX(K(-709.2), minus_abs), NSI_NONE);
    nsi_id e = exp_reduced(g, r.r, 1.0);
    e = MUL(e, POW2I(r.k));
    nsi_id s;
    nsi_id rest = log_rest(g, e, log1p_z, LENGTH(log1p_z), &s);
    nsi_id log_part = FNMA(s, rest, e);
    nsi_id ramp = MAX(K(0.0), x);
    return ADD(ramp, log_part);
}

// ---- atan, atan2, asin, acos ---------------------------------------------------------------

// atan(t) = t + t*z*A(z), z = t^2, |t| <= 1. A reduction to tan(pi/8) would save ten coefficients
// and cost as many instructions, some of them not safe from overflow.
static const double atan_z[] = {
    -0x1.5555555555555p-2, 0x1.9999999999717p-3,  -0x1.249249247bfe2p-3, 0x1.c71c71bd6d437p-4,
    -0x1.745d1629d2c8ep-4, 0x1.3b139d554ef6ap-4,  -0x1.111022acf274ep-4, 0x1.e1d21719d4abap-5,
    -0x1.aec5c056fcc34p-5, 0x1.84449210fa61dp-5,  -0x1.5d73a77d781e3p-5, 0x1.3427715a2b1eap-5,
    -0x1.01f239360e104p-5, 0x1.88d42cbd096ebp-6,  -0x1.03299e0c0ea6p-6,  0x1.193ce3e761577p-7,
    -0x1.d98602c79b6bcp-9, 0x1.1e9284ac309f6p-10, -0x1.b82dc339c024p-13, 0x1.4084ffc7d3624p-16,
};

// asin(t) = t + t*z*B(z), z = t^2, |t| <= 1/2
static const double asin_z[] = {
    0x1.555555555554ep-3, 0x1.3333333337473p-4, 0x1.6db6db67c0e13p-5,  0x1.f1c71fd958f26p-6,
    0x1.6e8b22a614496p-6, 0x1.1c59dd81c8095p-6, 0x1.c863b27c15e0ap-7,  0x1.85911c4476537p-7,
    0x1.fb3a266a3c542p-8, 0x1.09d2ffd0c1a5cp-6, -0x1.6aafe0532da57p-7, 0x1.d1565a9b5597ep-6,
};

// What half_pi_1, and so any multiple of it, lacks, relative to it.
static const double half_pi_rest = 0x1.678afae35cdd1p-55;

// atan(numerator/denominator) for a quotient in [0, 1].
static nsi_id atan_of_ratio(ns_graph* g, nsi_id numerator, nsi_id denominator) {
    nsi_id t = DIV(numerator, denominator);
    nsi_id z = MUL(t, t);
    nsi_id p = POLYNOMIAL(z, atan_z);
    return FMA(p, MUL(t, z), t);
}

// |base - a| with the sign of y. `base` is 0 or a multiple of half_pi_1, and is completed here.
static nsi_id angle_from(ns_graph* g, nsi_id base, nsi_id a, nsi_id y) {
    a = FNMA(base, K(half_pi_rest), a);
    a = SUB(base, a);
    return COPYSIGN(a, y);
}

static nsi_id lower_atan(ns_graph* g, nsi_id x) {
    nsi_id one = K(1.0);
    nsi_id abs_x = ABS(x);
    nsi_id numerator = MIN(one, abs_x);
    nsi_id denominator = MAX(one, abs_x);
    nsi_id a = atan_of_ratio(g, numerator, denominator);
    nsi_id base = lower_choose(g, LT(one, abs_x), half_pi_1, 0.0);
    return angle_from(g, base, a, x);
}

// With c = atan(smaller/larger) and the sign of x: |y| > |x|: pi/2 - c; else x < 0: pi + c; else c.
static nsi_id lower_atan2(ns_graph* g, nsi_id y, nsi_id x) {
    nsi_id abs_x = ABS(x), abs_y = ABS(y);
    nsi_id numerator = MIN(abs_x, abs_y);   // NaN in y
    nsi_id denominator = MAX(abs_y, abs_x); // NaN in x
    // 0/0: any denominator other than 0 gives the 0 that is wanted.
    denominator = MAX(K(0x1p-1074), denominator);
    nsi_id c = atan_of_ratio(g, numerator, denominator);
    c = COPYSIGN(c, x);
    nsi_id base = lower_choose(g, LT(x, K(0.0)), -2.0 * half_pi_1, 0.0);
    nsi_id steep = LT(abs_x, abs_y);
    base = SELECT(steep, K(half_pi_1), base);
    return angle_from(g, base, c, y);
}

// For |x| <= 1/2 the series in z = x^2; beyond it asin|x| = pi/2 - 2 asin(t), t^2 = z = (1-|x|)/2.
typedef struct arc {
    nsi_id large;   // |x| > 1/2
    nsi_id twice_t; // NaN for |x| > 1
    nsi_id zb;      // asin(t)/t - 1 or asin(x)/x - 1
} arc;

static arc reduce_arc(ns_graph* g, nsi_id x) {
    arc a;
    nsi_id half = K(0.5);
    nsi_id abs_x = ABS(x);
    a.large = LT(half, abs_x);
    nsi_id t2 = FNMA(abs_x, half, half);
    a.twice_t = MUL(SQRT(t2), K(2.0));
    nsi_id z = SELECT(a.large, t2, MUL(x, x));
    a.zb = MUL(z, POLYNOMIAL(z, asin_z));
    return a;
}

// base + m (1 + zb), largest parts first.
static nsi_id arc_from(ns_graph* g, nsi_id base, nsi_id m, nsi_id zb) {
    nsi_id rest = MUL(base, K(half_pi_rest));
    rest = FMA(m, zb, rest);
    return ADD(ADD(base, m), rest);
}

static nsi_id lower_asin(ns_graph* g, nsi_id x) {
    arc a = reduce_arc(g, x);
    nsi_id base = lower_choose(g, a.large, half_pi_1, 0.0);
    nsi_id minus_twice_t = NEG(a.twice_t);
    nsi_id m = SELECT(a.large, minus_twice_t, ABS(x));
    return COPYSIGN(arc_from(g, base, m, a.zb), x);
}

static nsi_id lower_acos(ns_graph* g, nsi_id x) {
    arc a = reduce_arc(g, x);
    nsi_id base = lower_choose(g, LT(x, K(0.0)), 2.0 * half_pi_1, 0.0);
    base = SELECT(a.large, base, K(half_pi_1));
    nsi_id minus_x = NEG(x);
    nsi_id m = SELECT(a.large, COPYSIGN(a.twice_t, x), minus_x);
    return arc_from(g, base, m, a.zb);
}

// ---- pow, sign -----------------------------------------------------------------------------

// log(1+f) = S + S*w*W(w), S = 2f/(2+f), w = S^2; the relative error is 2^-65.
static const double log_w[] = {
    0x1.5555555555555p-4,  0x1.9999999999d58p-7,  0x1.249249242f0ap-9,   0x1.c71c725c1a977p-12,
    0x1.745cdb8fda4dap-14, 0x1.3b2153e7d8364p-16, 0x1.0f4a99a85f2c1p-18, 0x1.101ea97c3356bp-20,
};

// ln2 with a first part of 41 bits: its products with exponents are exact.
static const double ln2_short = 0x1.62e42fefa4p-1;
static const double ln2_rest = -0x1.8432a1b0e2634p-43;

// log(x) = high + low for positive finite x, to about 2^-58 of it; exp() multiplies that by the
// logarithm of the result, hence the growing error of pow.
static void log_with_tail(ns_graph* g, nsi_id x, nsi_id* high, nsi_id* low) {
    magnitude m = split_magnitude(g, x);

    // S + tail = f/(1 + f/2), from the remainder of the division; d + d_tail = 1 + f/2.
    nsi_id half = K(0.5);
    nsi_id d = FMA(m.f, half, K(1.0));
    nsi_id d_tail = FMS(m.f, half, SUB(d, K(1.0)));
    nsi_id reciprocal = DIV(K(1.0), d);
    nsi_id s = MUL(m.f, reciprocal);
    nsi_id remainder = FNMA(s, d, m.f);
    remainder = FNMA(s, d_tail, remainder);
    nsi_id tail = MUL(remainder, reciprocal);

    nsi_id w = MUL(s, s);
    nsi_id p = POLYNOMIAL(w, log_w);
    tail = FMA(p, MUL(s, w), tail);

    // k*ln2 + S by Fast2Sum, exact since |k*ln2| is 0 or larger; then once more with the tail.
    nsi_id part = K(ln2_short);
    nsi_id sum = FNMA(m.minus_k, part, s);
    nsi_id lost = SUB(s, FMA(m.minus_k, part, sum));
    tail = FNMA(m.minus_k, K(ln2_rest), tail);
    tail = ADD(tail, lost);
    *high = ADD(sum, tail);
    *low = SUB(tail, SUB(*high, sum));
}

// exp(b log|a|), then the sign.
static nsi_id lower_pow(ns_graph* g, nsi_id a, nsi_id b) {
    nsi_id zero = K(0.0), one = K(1.0);
    nsi_id x = ABS(a);
    nsi_id log_high, log_low;
    // The logarithm needs more than double precision: errors are multiplied by b.
    log_with_tail(g, x, &log_high, &log_low);
    log_high = MAX(log_high, SUB(x, K(DBL_MAX))); // as in log_edges()
    nsi_id minus_infinity = K(-infinity);
    log_high = SELECT(EQ(x, zero), minus_infinity, log_high);

    // y + y_tail = b log|a|. Out of range, y is clamped and the tail, which may be NaN, dropped.
    nsi_id product = MUL(b, log_high);
    nsi_id y_tail = FMS(b, log_high, product);
    y_tail = FMA(b, log_low, y_tail);
    nsi_id y = lower_clamp(g, product, exp_low, exp_high);
    y_tail = SELECT(EQ(y, product), y_tail, zero);

    // Exponentiate the sum of both parts.
    exponent e = reduce_exponent(g, y, y_tail);
    nsi_id twice = exp_reduced(g, e.r, 2.0);
    nsi_id result = MUL(twice, half_power(g, e.k));

    // Negative a: the sign is + for even b, - for odd b, and there is no value for other b.
    nsi_id parity = FLOOR(MUL(b, K(0.5)));
    parity = FNMA(parity, K(2.0), b);
    nsi_id sign = lower_choose(g, EQ(parity, one), -1.0, not_a_number);
    sign = SELECT(EQ(parity, zero), one, sign);
    sign = SELECT(EQ(FLOOR(b), b), sign, K(not_a_number)); // parity rounds for b near an integer
    sign = SELECT(LT(a, zero), sign, one);
    result = MUL(result, sign);

    // Also where the other operand is infinite or NaN, as in C.
    nsi_id base_is_one = EQ(a, one);
    nsi_id always_one = OR(base_is_one, EQ(b, zero));
    return SELECT(always_one, one, result);
}

// The last operand is 0 or NaN.
static nsi_id lower_sign(ns_graph* g, nsi_id x) {
    nsi_id zero = K(0.0), minus_one = K(-1.0), one = K(1.0);
    nsi_id not_positive = SELECT(LT(x, zero), minus_one, x);
    return SELECT(LT(zero, x), one, not_positive);
}

nsi_id nsi_lower_op(ns_graph* g, nsi_op op, nsi_id a, nsi_id b) {
    switch (op) {
    case NSI_EXP: return lower_exp(g, a);
    case NSI_EXPM1: return lower_expm1(g, a);
    case NSI_LOG: return lower_log(g, a);
    case NSI_LOG1P: return lower_log1p(g, a);
    case NSI_POW: return lower_pow(g, a, b);
    case NSI_SIN: return lower_sin(g, a);
    case NSI_COS: return lower_cos(g, a);
    case NSI_TAN: return lower_tan(g, a);
    case NSI_ASIN: return lower_asin(g, a);
    case NSI_ACOS: return lower_acos(g, a);
    case NSI_ATAN: return lower_atan(g, a);
    case NSI_ATAN2: return lower_atan2(g, a, b);
    case NSI_TANH: return lower_tanh(g, a);
    case NSI_SOFTPLUS: return lower_softplus(g, a);
    case NSI_SIGN: return lower_sign(g, a);
    default:
        return nsi_graph_fail(g, NS_ERR_INVALID, "operation %u has no expansion", (unsigned)op);
    }
}

// ---- the pass ------------------------------------------------------------------------------

// A graph on its way: old nodes to new ones. A truth value has two forms there: the mask, which
// only select, and, or, not take, and the number 1 or 0.
typedef struct lowering {
    const ns_graph* from;
    ns_graph* to;
    nsi_id* map;     // as built
    nsi_id* numbers; // as numbers; NSI_NONE until asked for
    uint8_t* live;
    uint32_t* first_out; // per block: where the outputs of a call are in `wanted`
    uint8_t* wanted;     // per output of a call: does anything read it?
} lowering;

static bool gives_mask(const ns_graph* g, nsi_id id) {
    return (nsi_ops[g->nodes.data[id].op].flags & NSI_FLAG_MASK) != 0;
}

static nsi_id as_number(lowering* l, nsi_id old) {
    nsi_id id = l->map[old];
    if (l->numbers[old] == NSI_NONE) {
        l->numbers[old] = gives_mask(l->to, id) ? lower_choose(l->to, id, 1.0, 0.0) : id;
    }
    return l->numbers[old];
}

static nsi_id as_mask(lowering* l, nsi_id old) {
    ns_graph* g = l->to;
    nsi_id id = l->map[old];
    if (gives_mask(g, id) || g->nodes.data[id].op == NSI_CONST) return id;
    return NE(id, K(0.0));
}

static nsi_id lower_operation(lowering* l, const nsi_node* node) {
    nsi_id operands[3] = {NSI_NONE, NSI_NONE, NSI_NONE};
    bool logic = node->op == NSI_AND || node->op == NSI_OR || node->op == NSI_NOT;
    for (uint32_t k = 0; k < nsi_ops[node->op].arity; k++) {
        bool wants_mask = logic || (node->op == NSI_SELECT && k == 0);
        nsi_id old = nsi_node_operand(node, k);
        operands[k] = wants_mask ? as_mask(l, old) : as_number(l, old);
    }
    if (nsi_ops[node->op].kind == NSI_KIND_LOWER) {
        return nsi_lower_op(l->to, node->op, operands[0], operands[1]);
    }
    return nsi_make(l->to, node->op, operands[0], operands[1], operands[2]);
}

// Which outputs of calls are read? False when out of memory.
static bool find_wanted_outputs(lowering* l) {
    const ns_graph* g = l->from;
    size_t total = 0;
    l->first_out = nsi_alloc(&g->allocator, ((size_t)g->blocks.count + 1) * sizeof(uint32_t));
    if (!l->first_out) return false;
    for (uint32_t k = 0; k < g->blocks.count; k++) {
        l->first_out[k] = (uint32_t)total;
        if (g->blocks.data[k].function) total += g->blocks.data[k].noutput;
    }
    if (total > NSI_MAX_NODES) {
        nsi_graph_fail(l->to, NS_ERR_LIMIT, "the calls of the graph have more than %d outputs",
                       NSI_MAX_NODES);
        return false;
    }
    l->wanted = nsi_alloc_zeroed(&g->allocator, total + 1);
    if (!l->wanted) return false;
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const nsi_node* node = &g->nodes.data[i];
        if (!l->live[i] || node->op != NSI_OUT) continue;
        uint32_t block = g->nodes.data[node->a].a;
        if (g->blocks.data[block].function) l->wanted[l->first_out[block] + node->b] = 1;
    }
    return true;
}

// A call of its function reduced to the outputs that are read and the inputs that these need. Its
// truth value is a mask.
static nsi_id lower_call(lowering* l, uint32_t number) {
    const nsi_block* block = &l->from->blocks.data[number];
    const nsi_derived* picked = nsi_graph_derive(l->to, block->function, NSI_DERIVED_PICK,
                                                 l->wanted + l->first_out[number], block->noutput);
    if (!picked) return NSI_NONE;
    nsi_function* f = picked->function;
    uint32_t count = f->body->inputs.count;
    nsi_id* inputs = nsi_alloc(&l->from->allocator, ((size_t)count + 1) * sizeof *inputs);
    if (!inputs) return nsi_graph_fail_nomem(l->to);
    for (uint32_t k = 0; k < count; k++) {
        inputs[k] = as_number(l, block->inputs[1 + picked->inputs[k]]);
    }
    nsi_id node = nsi_graph_call(l->to, f, as_mask(l, block->inputs[0]), inputs);
    nsi_free(&l->from->allocator, inputs);
    return node;
}

static nsi_id lower_out(lowering* l, const nsi_node* node) {
    uint32_t block = l->from->nodes.data[node->a].a, output = node->b;
    if (l->from->blocks.data[block].function) {
        output = 0;
        for (uint32_t k = 0; k < node->b; k++) output += l->wanted[l->first_out[block] + k];
    }
    return nsi_graph_out(l->to, l->map[node->a], output);
}

static nsi_id lower_block(lowering* l, uint32_t number) {
    const nsi_block* block = &l->from->blocks.data[number];
    if (block->function) return lower_call(l, number);
    for (uint32_t k = 0; k < block->ninput; k++) as_number(l, block->inputs[k]);
    return nsi_graph_copy_block(block, l->to, l->numbers);
}

static nsi_id lower_node(lowering* l, const nsi_node* node) {
    switch (node->op) {
    case NSI_CONST: return nsi_graph_const(l->to, node->value);
    case NSI_INPUT: return l->to->inputs.data[node->a].node;
    case NSI_BLOCK: return lower_block(l, node->a);
    case NSI_OUT: return lower_out(l, node);
    default: return lower_operation(l, node);
    }
}

// Elementary functions compute with a product and its rounding error: one that their expansion, the
// nodes from `first` on, uses more than once must be the rounded one everywhere.
static void keep_rounding(ns_graph* g, nsi_id first) {
    enum { LONGEST = 256 };
    uint8_t uses[LONGEST] = {0};
    nsi_id end = g->nodes.count;
    NS_ASSERT(end - first <= LONGEST);
    for (nsi_id i = first; i < end; i++) {
        const nsi_node* node = &g->nodes.data[i];
        for (uint32_t k = 0; k < nsi_node_arity(node); k++) {
            nsi_id operand = nsi_node_operand(node, k);
            if (operand >= first) uses[operand - first]++;
        }
    }
    for (nsi_id i = first; i < end; i++) {
        if (g->nodes.data[i].op == NSI_MUL && uses[i - first] > 1) nsi_graph_round(g, i);
    }
}

ns_status nsi_pass_lower(const ns_graph* g, ns_graph** out, ns_error* error) {
    // An invalid graph is not lowered.
    *out = NULL;
    if (g->error.status != NS_OK) {
        if (error) *error = g->error;
        return g->error.status;
    }

    // The result has the same ports.
    lowering l = {.from = g};
    ns_status status = nsi_graph_clone_ports(g, &l.to, error);
    if (status != NS_OK) return status;

    // Lower node by node; an operation that becomes several keeps its own rounding.
    const ns_allocator* memory = &g->allocator;
    const uint32_t count = g->nodes.count;
    // Old to new nodes; masks converted to numbers are cached.
    l.map = nsi_alloc(memory, ((size_t)count + 1) * sizeof *l.map);
    l.numbers = nsi_alloc(memory, ((size_t)count + 1) * sizeof *l.numbers);
    l.live = nsi_alloc(memory, (size_t)count + 1);
    if (l.live) nsi_graph_mark_live(g, l.live);
    if (l.map && l.numbers && l.live && find_wanted_outputs(&l)) {
        for (uint32_t i = 0; i < count && l.to->error.status == NS_OK; i++) {
            nsi_id first = l.to->nodes.count;
            l.numbers[i] = NSI_NONE;
            // Dead nodes would only cost time.
            l.map[i] = l.live[i] ? lower_node(&l, &g->nodes.data[i]) : NSI_NONE;
            // Fusing inside a lowered function would change its bits.
            if (l.to->nodes.count - first > 1 && g->nodes.data[i].op != NSI_BLOCK) {
                keep_rounding(l.to, first);
            }
        }

        // Nodes that must be rounded on their own stay so.
        for (uint32_t k = 0; k < g->rounded.count; k++) {
            nsi_graph_round(l.to, l.map[g->rounded.data[k]]);
        }

        // Outputs that are masks become numbers.
        for (uint32_t k = 0; k < g->outputs.count && l.to->error.status == NS_OK; k++) {
            nsi_graph_output(l.to, g->outputs.data[k].name, as_number(&l, g->outputs.data[k].node));
        }
    } else {
        nsi_graph_fail_nomem(l.to);
    }

    // The maps are not needed any more.
    nsi_free(memory, l.map);
    nsi_free(memory, l.numbers);
    nsi_free(memory, l.live);
    nsi_free(memory, l.first_out);
    nsi_free(memory, l.wanted);

    // A lowered graph cannot be differentiated.
    l.to->lowered = true;
    *out = l.to;
    status = nsi_graph_finish(out, error);
    // Debug builds check the result of every pass.
    if (status == NS_OK) NSI_DEBUG_VALIDATE(*out);
    return status;
}
