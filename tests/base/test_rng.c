// Random numbers: published vectors, and statistics against the distributions they should have.
// Seeds are fixed, so a bound that holds once holds always; bounds are five standard deviations.

#include "base/common.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

// First outputs of splitmix64 seeded with 1234567 (Rosetta Code, "Pseudo-random
// numbers/Splitmix64", from Vigna's splitmix64.c).
static void seeding_is_splitmix64(void** state) {
    (void)state;
    static const uint64_t expected[] = {
        UINT64_C(6457827717110365317), UINT64_C(3203168211198807973), UINT64_C(9817491932198370423),
        UINT64_C(4593380528125082431)};
    ns_rng rng = ns_rng_seed(1234567);
    for (int i = 0; i < 4; i++) assert_true(rng.state[i] == expected[i]);
}

static void check_sequence(ns_rng rng, const uint64_t* expected, size_t n) {
    for (size_t i = 0; i < n; i++) assert_true(ns_rng_next(&rng) == expected[i]);
}

static void generator_is_xoshiro256plusplus(void** state) {
    (void)state;
    // State 1, 2, 3, 4: the vector of the Rust crate rand_xoshiro, made with the authors' C code.
    static const uint64_t from_1234[] = {
        UINT64_C(41943041),
        UINT64_C(58720359),
        UINT64_C(3588806011781223),
        UINT64_C(3591011842654386),
        UINT64_C(9228616714210784205),
        UINT64_C(9973669472204895162),
        UINT64_C(14011001112246962877),
        UINT64_C(12406186145184390807),
        UINT64_C(15849039046786891736),
        UINT64_C(10450023813501588000),
    };
    check_sequence((ns_rng){{1, 2, 3, 4}}, from_1234, sizeof from_1234 / sizeof *from_1234);

    // State 0, 0, 0, 1: the table in the tests of the Fortran library xoshiro-fortran.
    static const uint64_t from_0001[] = {
        UINT64_C(0x0000000000800000), UINT64_C(0x0000000000800011), UINT64_C(0x0002200000800011),
        UINT64_C(0x0002200044000020), UINT64_C(0x00022000448008A1), UINT64_C(0x01102100802208A0),
        UINT64_C(0x0114002284200880), UINT64_C(0x0402896644A64095), UINT64_C(0x8A14A0A244ACC891),
        UINT64_C(0x8C88BA4680B20495),
    };
    check_sequence((ns_rng){{0, 0, 0, 1}}, from_0001, sizeof from_0001 / sizeof *from_0001);
}

static void zero_is_a_seed_like_any_other(void** state) {
    (void)state;
    ns_rng zero = ns_rng_seed(0), one = ns_rng_seed(1), again = ns_rng_seed(0);
    assert_true((zero.state[0] | zero.state[1] | zero.state[2] | zero.state[3]) != 0);
    int equal = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = ns_rng_next(&zero);
        equal += x == ns_rng_next(&one);
        assert_true(x == ns_rng_next(&again));
    }
    assert_int_equal(equal, 0);
}

static void below_stays_below(void** state) {
    (void)state;
    static const uint32_t limits[] = {1, 2, 3, 7, 100, 1u << 31, (1u << 31) + 1, UINT32_MAX};
    ns_rng rng = ns_rng_seed(11);
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
        uint32_t largest = 0;
        for (int i = 0; i < 10000; i++) {
            uint32_t x = ns_rng_below(&rng, limits[k]);
            assert_true(x < limits[k]);
            if (x > largest) largest = x;
        }
        // ... and comes close: at least 99.5 % of the way.
        assert_true(largest >= (uint32_t)(0.995 * (limits[k] - 1.0)));
    }
}

static void below_is_uniform(void** state) {
    (void)state;
    enum { NBIN = 10, NDRAW = 200000 };
    int counts[NBIN] = {0};
    ns_rng rng = ns_rng_seed(12);
    for (int i = 0; i < NDRAW; i++) counts[ns_rng_below(&rng, NBIN)]++;
    double sigma = sqrt(NDRAW * 0.1 * 0.9);
    for (int b = 0; b < NBIN; b++) assert_true(fabs(counts[b] - NDRAW * 0.1) < 5 * sigma);

    // Where plain multiply-and-shift goes wrong: with n = 3 * 2^30, every third result would come
    // up half of the time.
    int residues[3] = {0};
    for (int i = 0; i < NDRAW; i++) residues[ns_rng_below(&rng, 3u << 30) % 3]++;
    sigma = sqrt(NDRAW * 2.0 / 9.0);
    for (int r = 0; r < 3; r++) assert_true(fabs(residues[r] - NDRAW / 3.0) < 5 * sigma);
}

static int compare_doubles(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

// Largest distance between the empirical and the true distribution function (Kolmogorov-Smirnov),
// times sqrt(n); above 1.95 in one case of a thousand. Sorts x.
static double kolmogorov_smirnov(double* x, size_t n, double (*distribution)(double)) {
    qsort(x, n, sizeof *x, compare_doubles);
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        double f = distribution(x[i]);
        worst = fmax(worst, fmax(f - (double)i / (double)n, (double)(i + 1) / (double)n - f));
    }
    return worst * sqrt((double)n);
}

enum { NSAMPLE = 200000 };
static double samples[NSAMPLE];

static double uniform_distribution(double x) {
    return (x + 2.0) / 5.0; // on [-2, 3)
}

static void uniform_is_uniform(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(13);
    for (int i = 0; i < NSAMPLE; i++) {
        samples[i] = ns_rng_uniform(&rng, -2.0, 3.0);
        assert_true(samples[i] >= -2.0 && samples[i] < 3.0);
    }
    double ks = kolmogorov_smirnov(samples, NSAMPLE, uniform_distribution);
    print_message("Kolmogorov-Smirnov, uniform: %.3f\n", ks);
    assert_true(ks < 1.95);
}

static void uniform_excludes_its_upper_end(void** state) {
    (void)state;
    // In an interval of a few doubles most results round, and some to the upper end.
    ns_rng rng = ns_rng_seed(14);
    for (int i = 0; i < 1000; i++) {
        double high = nextafter(1.0, 2.0);
        assert_true(ns_rng_uniform(&rng, 1.0, high) == 1.0);
        high = nextafter(high, 2.0);
        double x = ns_rng_uniform(&rng, 1.0, high);
        assert_true(x >= 1.0 && x < high);
        assert_true(ns_rng_uniform(&rng, 4.0, 4.0) == 4.0);
        x = ns_rng_uniform(&rng, -1e-310, 1e-310);
        assert_true(x >= -1e-310 && x < 1e-310);
    }
}

static double normal_distribution(double x) {
    return 0.5 * erfc(-x * sqrt(0.5));
}

static void normal_is_normal(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(15);
    double sums[5] = {0}; // of x^k
    int beyond_3 = 0;
    for (int i = 0; i < NSAMPLE; i++) {
        double x = ns_rng_normal(&rng);
        assert_true(isfinite(x));
        samples[i] = x;
        for (int k = 1; k <= 4; k++) sums[k] += pow(x, k);
        beyond_3 += fabs(x) > 3.0;
    }
    // Moments 0, 1, 0, 3 have variances 1, 2, 15, 96, divided by the number of samples.
    static const double moments[] = {1.0, 0.0, 1.0, 0.0, 3.0}, variances[] = {0, 1, 2, 15, 96};
    for (int k = 1; k <= 4; k++) {
        double error = (sums[k] / NSAMPLE - moments[k]) / sqrt(variances[k] / NSAMPLE);
        print_message("moment %d: off by %+.2f standard deviations\n", k, error);
        assert_true(fabs(error) < 5.0);
    }

    double tail = erfc(3.0 * sqrt(0.5));
    double sigma = sqrt(NSAMPLE * tail * (1.0 - tail));
    assert_true(fabs(beyond_3 - NSAMPLE * tail) < 5.0 * sigma);

    double ks = kolmogorov_smirnov(samples, NSAMPLE, normal_distribution);
    print_message("Kolmogorov-Smirnov, normal: %.3f\n", ks);
    assert_true(ks < 1.95);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeding_is_splitmix64),
        cmocka_unit_test(generator_is_xoshiro256plusplus),
        cmocka_unit_test(zero_is_a_seed_like_any_other),
        cmocka_unit_test(below_stays_below),
        cmocka_unit_test(below_is_uniform),
        cmocka_unit_test(uniform_is_uniform),
        cmocka_unit_test(uniform_excludes_its_upper_end),
        cmocka_unit_test(normal_is_normal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
