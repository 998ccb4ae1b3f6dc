// Random numbers that are the same bits on every machine with IEEE doubles.

#include "base/common.h"

#include <math.h>

// splitmix64 (Steele, Lea & Flood 2014), the seeding the xoshiro authors recommend.
static uint64_t splitmix64(uint64_t* state) {
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

ns_rng ns_rng_seed(uint64_t seed) {
    ns_rng rng;
    for (int i = 0; i < 4; i++) rng.state[i] = splitmix64(&seed);
    return rng;
}

static uint64_t rotate_left(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

// xoshiro256++ 1.0 (Blackman & Vigna 2021)
uint64_t ns_rng_next(ns_rng* rng) {
    uint64_t* s = rng->state;
    uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

// Multiply and shift; the few products that would make some results likelier are thrown away
// (Lemire 2019, algorithm 5).
uint32_t ns_rng_below(ns_rng* rng, uint32_t n) {
    NS_ASSERT(n > 0);
    uint64_t product = (ns_rng_next(rng) >> 32) * n;
    if ((uint32_t)product < n) {
        uint32_t threshold = (UINT32_MAX - n + 1) % n; // 2^32 mod n
        while ((uint32_t)product < threshold) product = (ns_rng_next(rng) >> 32) * n;
    }
    return (uint32_t)(product >> 32);
}

// A multiple of 2^-53 in [0, 1).
static double unit(ns_rng* rng) {
    return (double)(ns_rng_next(rng) >> 11) * 0x1p-53;
}

double ns_rng_uniform(ns_rng* rng, double low, double high) {
    double x = low + (high - low) * unit(rng);
    // Rounding can reach `high`, which does not belong to the interval.
    return x < high ? x : low;
}

// Ratio of uniforms with the quadratic bounds of Leva, "A fast normal random number generator", ACM
// TOMS 18 (1992) 449-453. Chosen over Box-Muller because the result is a plain quotient: log only
// decides about the 1 % of points between the bounds, so a last-bit difference between C
// libraries does not show in the numbers.
double ns_rng_normal(ns_rng* rng) {
    for (;;) {
        double u = 1.0 - unit(rng); // (0, 1]
        double v = 1.7156 * (unit(rng) - 0.5);
        double x = u - 0.449871;
        double y = fabs(v) + 0.386595;
        double q = x * x + y * (0.19600 * y - 0.25472 * x);
        if (q < 0.27597) return v / u;
        if (q <= 0.27846 && v * v <= -4.0 * u * u * log(u)) return v / u;
    }
}
