// What the data says about parameters, against regressions and null spaces that are known.

#include "support/assert.h"
#include "support/testalloc.h"
#include "sysid/identifiability.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

enum { MOST = 40 };

// ---- problems --------------------------------------------------------------------------------

// Parameters with their values; J (m x n) in their own units.
typedef struct problem {
    uint32_t n, m;
    double value[MOST];
    double J[200 * MOST];
    double sigma;
} problem;

static void fill(nsi_identification* result, const ns_allocator* memory, uint32_t n,
                 const double* value) {
    static const char* const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    *result = (nsi_identification){.allocator = memory ? *memory : ns_default_allocator()};
    for (uint32_t k = 0; k < n; k++) {
        ns_estimate e = {.name = k < 8 ? names[k] : "more",
                         .unit = "kg",
                         .initial = value[k],
                         .value = value[k],
                         .lower = -INFINITY,
                         .upper = INFINITY};
        assert_true(nsi_array_push(&result->allocator, &result->estimates, e));
    }
}

static void gram(uint32_t m, uint32_t n, const double* J, double* H) {
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n; j++) {
            double sum = 0.0;
            for (uint32_t k = 0; k < m; k++) sum += J[k * n + i] * J[k * n + j];
            H[i * n + j] = j <= i ? sum : NAN; // nobody may look there
        }
    }
}

static void identify(nsi_identification* result, const double* H, double sigma,
                     const double* sizes) {
    ns_error error = {0};
    must(nsi_identify(result, H, sigma, sizes, &error), &error);
}

static void solve(const problem* p, nsi_identification* result) {
    static double H[MOST * MOST];
    gram(p->m, p->n, p->J, H);
    fill(result, NULL, p->n, p->value);
    identify(result, H, p->sigma, NULL);
}

static void assert_close(double a, double b, double relative) {
    if (!(fabs(a - b) <= relative * fmax(fabs(a), fabs(b)))) fail_msg("%.17g is not %.17g", a, b);
}

static void assert_change(const nsi_identification* result, uint32_t direction,
                          const double* expected) {
    for (uint32_t k = 0; k < result->estimates.count; k++) {
        double change = result->directions.data[direction].change[k];
        if (fabs(change - expected[k]) > 1e-6) {
            fail_msg("direction %u, parameter %u: %g, not %g", direction, k, change, expected[k]);
        }
    }
}

static ns_verdict verdict(const nsi_identification* result, uint32_t k) {
    return result->estimates.data[k].verdict;
}

static double error_of(const nsi_identification* result, uint32_t k) {
    return result->estimates.data[k].standard_error;
}

// Random residuals that do not change along given relative changes (one per row, orthogonal).
static void make_problem(uint64_t seed, uint32_t n, uint32_t nnull, const double* null,
                         problem* out) {
    ns_rng rng = ns_rng_seed(seed);
    *out = (problem){.n = n, .m = 100, .sigma = 0.5};
    for (uint32_t k = 0; k < n; k++) out->value[k] = ns_rng_uniform(&rng, 0.5, 2.0);
    for (uint32_t i = 0; i < out->m; i++) {
        double* row = out->J + i * n;
        for (uint32_t k = 0; k < n; k++) row[k] = ns_rng_normal(&rng);
        for (uint32_t r = 0; r < nnull; r++) {
            const double* w = null + r * n;
            double along = 0.0, length = 0.0;
            for (uint32_t k = 0; k < n; k++) along += row[k] * w[k], length += w[k] * w[k];
            for (uint32_t k = 0; k < n; k++) row[k] -= along / length * w[k];
        }
        for (uint32_t k = 0; k < n; k++) row[k] /= out->value[k];
    }
}

// ---- errors ----------------------------------------------------------------------------------

// y = a + b x: the covariance is sigma^2 / (n Sxx - Sx^2) [Sxx, -Sx; -Sx, n].
static void a_line_has_the_errors_of_the_textbook(void** state) {
    (void)state;
    const double sigma = 0.3, x[] = {0.0, 1.0, 1.5, 4.0, 9.0};
    problem p = {.n = 2, .m = 5, .value = {3.0, -2.0}, .sigma = sigma};
    double sx = 0.0, sxx = 0.0;
    for (int k = 0; k < 5; k++) {
        p.J[2 * k] = 1.0;
        p.J[2 * k + 1] = x[k];
        sx += x[k];
        sxx += x[k] * x[k];
    }
    nsi_identification result;
    solve(&p, &result);
    double determinant = 5.0 * sxx - sx * sx;
    assert_close(error_of(&result, 0), sigma * sqrt(sxx / determinant), 1e-12);
    assert_close(error_of(&result, 1), sigma * sqrt(5.0 / determinant), 1e-12);
    assert_close(result.correlation[1], -sx / sqrt(5.0 * sxx), 1e-12);
    assert_close(result.correlation[2], result.correlation[1], 1e-15);
    assert_true(result.correlation[0] == 1.0 && result.correlation[3] == 1.0);
    assert_int_equal(verdict(&result, 0), NS_VERDICT_OK);
    assert_int_equal(verdict(&result, 1), NS_VERDICT_OK);
    assert_int_equal(result.directions.count, 0);
    nsi_identification_free(&result);
}

// A parameter known only to 80 % alone, and a pair whose sum is well known and whose difference is
// not: H = (1/s^2) (w w') along known directions.
static void poor_ones_are_named_with_their_error(void** state) {
    (void)state;
    problem p = {.n = 3, .m = 3, .value = {2.0, 1.0, 1.0}, .sigma = 1.0};
    p.J[0] = 1.0 / (0.8 * 2.0);                      // 0.8 of a
    p.J[3 + 1] = p.J[3 + 2] = 1000.0;                // b + c
    p.J[6 + 1] = 1.0 / 1.4, p.J[6 + 2] = -1.0 / 1.4; // (b - c) / 1.4: d = 0.7 (1, -1) is one
    nsi_identification result;
    solve(&p, &result);
    assert_close(error_of(&result, 0), 1.6, 1e-9);
    assert_close(error_of(&result, 1), 0.7, 1e-6);
    for (uint32_t k = 0; k < 3; k++) assert_int_equal(verdict(&result, k), NS_VERDICT_POOR);
    assert_int_equal(result.directions.count, 2);
    assert_change(&result, 0, (double[]){1.0, 0.0, 0.0});
    assert_close(result.directions.data[0].error, 0.8, 1e-9);
    assert_change(&result, 1, (double[]){0.0, 1.0, -1.0});
    assert_close(result.directions.data[1].error, 0.7, 1e-6);
    assert_false(result.directions.data[0].null || result.directions.data[1].null);
    assert_true(result.correlation[3 * 1 + 2] < -0.999);
    nsi_identification_free(&result);
}

// ---- null directions -------------------------------------------------------------------------

// Lagrange's equations of a planar double pendulum without motors or friction, masses at c1 and c2
// on their links, are linear and homogeneous in
//   b = {I1 + m1 c1^2 + m2 l^2, I2 + m2 c2^2, m2 l c2, m1 c1 + m2 l, m2 c2},
// so that only the four ratios of these five numbers matter.
static void a_free_double_pendulum_has_no_scale(void** state) {
    (void)state;
    const double c1 = 0.11, c2 = 0.13;
    problem p = {.n = 5, .m = 60, .value = {0.38, 0.29, 0.0021, 0.0013, 0.2}, .sigma = 1.0};
    double m1 = p.value[0], m2 = p.value[1], l = p.value[4];
    double b[5] = {p.value[2] + m1 * c1 * c1 + m2 * l * l, p.value[3] + m2 * c2 * c2, m2 * l * c2,
                   m1 * c1 + m2 * l, m2 * c2};
    const double db[5][5] = {{c1 * c1, l * l, 1.0, 0.0, 2.0 * m2 * l},
                             {0.0, c2 * c2, 0.0, 1.0, 0.0},
                             {0.0, l * c2, 0.0, 0.0, m2 * c2},
                             {c1, l, 0.0, 0.0, m2},
                             {0.0, c2, 0.0, 0.0, 0.0}};
    ns_rng rng = ns_rng_seed(3);
    for (uint32_t i = 0; i < p.m; i++) {
        for (int ratio = 1; ratio < 5; ratio++) {
            double mix = 1e3 * ns_rng_normal(&rng) / b[ratio];
            for (uint32_t k = 0; k < 5; k++) {
                p.J[i * 5 + k] += mix * (db[ratio][k] - b[ratio] / b[0] * db[0][k]);
            }
        }
    }
    nsi_identification result;
    solve(&p, &result);
    assert_int_equal(result.directions.count, 1);
    assert_true(result.directions.data[0].null && isinf(result.directions.data[0].error));
    assert_change(&result, 0, (double[]){1.0, 1.0, 1.0, 1.0, 0.0});
    for (uint32_t k = 0; k < 4; k++) {
        assert_int_equal(verdict(&result, k), NS_VERDICT_UNDETERMINED);
        assert_true(isinf(error_of(&result, k)));
        assert_true(isnan(result.correlation[5 * k + 4]));
    }
    assert_int_equal(verdict(&result, 4), NS_VERDICT_OK);
    assert_true(isfinite(error_of(&result, 4)));
    nsi_identification_free(&result);
}

static const double two_nulls[2][7] = {{1.0, 0.0, 1.0, 0.0, -0.5, 0.0, 0.0},
                                       {0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0}};

// However LAPACK turns the null space, the two come out apart.
static void several_null_directions_are_told_apart(void** state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        problem p;
        make_problem(seed, 7, 2, two_nulls[0], &p);
        nsi_identification result;
        solve(&p, &result);
        assert_int_equal(result.directions.count, 2);
        assert_change(&result, 0, two_nulls[0]);
        assert_change(&result, 1, two_nulls[1]);
        const bool known[7] = {[3] = true, [6] = true};
        for (uint32_t k = 0; k < 7; k++) {
            assert_int_equal(verdict(&result, k),
                             known[k] ? NS_VERDICT_OK : NS_VERDICT_UNDETERMINED);
        }
        nsi_identification_free(&result);
    }
}

// Fixing one parameter of each null direction leaves a full problem, whose errors for the others
// that are determined must be the same (Rao 1973, chapter 4a).
static void errors_beside_a_null_direction_are_those_with_it_fixed(void** state) {
    (void)state;
    problem p;
    make_problem(7, 7, 2, two_nulls[0], &p);
    nsi_identification whole;
    solve(&p, &whole);
    const uint32_t kept[5] = {2, 3, 4, 5, 6};
    problem fixed = {.n = 5, .m = p.m, .sigma = p.sigma};
    for (uint32_t k = 0; k < 5; k++) {
        fixed.value[k] = p.value[kept[k]];
        for (uint32_t i = 0; i < p.m; i++) fixed.J[i * 5 + k] = p.J[i * 7 + kept[k]];
    }
    nsi_identification part;
    solve(&fixed, &part);
    assert_int_equal(part.directions.count, 0);
    assert_close(error_of(&whole, 3), error_of(&part, 1), 1e-9);
    assert_close(error_of(&whole, 6), error_of(&part, 4), 1e-9);
    assert_close(whole.correlation[7 * 3 + 6], part.correlation[5 * 1 + 4], 1e-9);
    nsi_identification_free(&whole);
    nsi_identification_free(&part);
}

// Many directions of which no sparse form is known: they are null, and as many as there should be.
static void all_null_directions_are_found(void** state) {
    (void)state;
    enum { N = 30, RANK = 18 };
    ns_rng rng = ns_rng_seed(11);
    static problem p;
    p = (problem){.n = N, .m = 100, .sigma = 1.0};
    static double mix[RANK * N];
    for (size_t k = 0; k < RANK * N; k++) mix[k] = ns_rng_normal(&rng);
    for (uint32_t k = 0; k < N; k++) p.value[k] = pow(10.0, ns_rng_uniform(&rng, -8.0, 8.0));
    for (uint32_t i = 0; i < p.m; i++) {
        for (uint32_t r = 0; r < RANK; r++) {
            double weight = ns_rng_normal(&rng);
            for (uint32_t k = 0; k < N; k++) p.J[i * N + k] += weight * mix[r * N + k] / p.value[k];
        }
    }
    nsi_identification result;
    solve(&p, &result);
    assert_int_equal(result.directions.count, N - RANK);
    for (uint32_t d = 0; d < result.directions.count; d++) {
        const double* change = result.directions.data[d].change;
        assert_true(result.directions.data[d].null);
        double largest = 0.0;
        for (uint32_t k = 0; k < N; k++) largest = fmax(largest, change[k]);
        assert_true(largest == 1.0);
        for (uint32_t r = 0; r < RANK; r++) {
            double along = 0.0;
            for (uint32_t k = 0; k < N; k++) along += mix[r * N + k] * change[k];
            assert_true(fabs(along) < 0.3); // what became 0 is below 0.02
        }
    }
    nsi_identification_free(&result);
}

// Data made by the model itself has next to no noise, which makes even rounding errors in H look
// like knowledge.
static void no_noise_hides_no_null_direction(void** state) {
    (void)state;
    const double sigmas[] = {1e-3, 1e-9, 1e-14, 0.0};
    for (size_t k = 0; k < sizeof sigmas / sizeof *sigmas; k++) {
        problem p;
        make_problem(5, 7, 2, two_nulls[0], &p);
        p.sigma = sigmas[k];
        nsi_identification result;
        solve(&p, &result);
        assert_int_equal(result.directions.count, 2);
        assert_change(&result, 0, two_nulls[0]);
        assert_int_equal(verdict(&result, 0), NS_VERDICT_UNDETERMINED);
        assert_int_equal(verdict(&result, 3), NS_VERDICT_OK);
        assert_true(error_of(&result, 3) <= p.sigma);
        nsi_identification_free(&result);
    }
}

// ---- units, effects, bounds ------------------------------------------------------------------

static void units_do_not_matter(void** state) {
    (void)state;
    const double units[7] = {1e6, 1e-6, 1.0, 1e3, 1e-6, 1e6, 1e-3};
    problem p;
    make_problem(13, 7, 2, two_nulls[0], &p);
    for (uint32_t i = 0; i < p.m; i++) p.J[i * 7 + 6] *= 0.04; // a poor one
    nsi_identification one, other;
    solve(&p, &one);
    for (uint32_t k = 0; k < 7; k++) {
        p.value[k] *= units[k];
        for (uint32_t i = 0; i < p.m; i++) p.J[i * 7 + k] /= units[k];
    }
    solve(&p, &other);
    assert_int_equal(verdict(&one, 6), NS_VERDICT_POOR);
    assert_int_equal(one.directions.count, 3);
    assert_int_equal(other.directions.count, 3);
    for (uint32_t d = 0; d < 3; d++) assert_change(&other, d, one.directions.data[d].change);
    for (uint32_t k = 0; k < 7; k++) {
        assert_int_equal(verdict(&one, k), verdict(&other, k));
        if (isfinite(error_of(&one, k))) {
            assert_close(error_of(&one, k) * units[k], error_of(&other, k), 1e-8);
        }
    }
    nsi_identification_free(&one);
    nsi_identification_free(&other);
}

static void parameters_without_effect_stay_aside(void** state) {
    (void)state;
    problem p;
    make_problem(17, 4, 0, NULL, &p);
    for (uint32_t i = 0; i < p.m; i++) {
        p.J[i * 4 + 1] = 0.0;
        p.J[i * 4 + 2] *= 1e-9; // nobody can see that
    }
    nsi_identification result;
    solve(&p, &result);
    const ns_verdict expected[4] = {NS_VERDICT_OK, NS_VERDICT_NO_EFFECT, NS_VERDICT_NO_EFFECT,
                                    NS_VERDICT_OK};
    for (uint32_t k = 0; k < 4; k++) {
        assert_int_equal(verdict(&result, k), expected[k]);
        bool none = expected[k] == NS_VERDICT_NO_EFFECT;
        assert_int_equal(isnan(error_of(&result, k)), none);
        assert_int_equal(isnan(result.correlation[4 * k + k]), none);
        assert_int_equal(isnan(result.correlation[4 * k + 3]), none);
    }
    assert_int_equal(result.directions.count, 0);
    nsi_identification_free(&result);

    // Nothing has an effect.
    fill(&result, NULL, 2, (double[]){1.0, 0.0});
    identify(&result, (double[4]){0.0}, 1.0, NULL);
    assert_int_equal(verdict(&result, 0), NS_VERDICT_NO_EFFECT);
    assert_int_equal(verdict(&result, 1), NS_VERDICT_NO_EFFECT);
    nsi_identification_free(&result);
}

// A value of 0 is measured by the size that is given.
static void sizes_are_for_values_near_zero(void** state) {
    (void)state;
    const double H[4] = {4.0, 0.0, 0.0, 4.0}; // standard error 0.5
    nsi_identification result;
    fill(&result, NULL, 2, (double[]){0.0, 3.0});
    identify(&result, H, 1.0, (double[]){2.0, 1e-3});
    assert_int_equal(verdict(&result, 0), NS_VERDICT_OK);
    assert_int_equal(verdict(&result, 1), NS_VERDICT_OK);
    identify(&result, H, 1.0, (double[]){0.1, 1e-3}); // again, on the same result
    assert_int_equal(verdict(&result, 0), NS_VERDICT_POOR);
    assert_int_equal(result.directions.count, 1);
    assert_close(result.directions.data[0].error, 5.0, 1e-12);
    identify(&result, H, 1.0, NULL);
    assert_close(result.directions.data[0].error, 500.0, 1e-12);
    result.estimates.data[0].initial = 100.0; // and its thousandth
    identify(&result, H, 1.0, NULL);
    assert_close(result.directions.data[0].error, 5.0, 1e-12);
    assert_close(error_of(&result, 0), 0.5, 1e-12);
    nsi_identification_free(&result);
}

static void bounds_that_were_hit_are_named(void** state) {
    (void)state;
    static const struct {
        double start, value, lower, upper;
        ns_verdict verdict;
    } cases[] = {
        {0.1, 1.0, 1.0, 5.0, NS_VERDICT_AT_LOWER},
        {0.1, 1.0 + 1e-6, 1.0, 5.0, NS_VERDICT_AT_LOWER},
        {0.1, 1.001, 1.0, 5.0, NS_VERDICT_OK},
        {0.1, 5.0 - 1e-6, 1.0, 5.0, NS_VERDICT_AT_UPPER},
        {0.1, 5.0, 1.0, 5.0, NS_VERDICT_AT_UPPER},
        {0.1, 2.0, 2.0 - 1e-6, INFINITY, NS_VERDICT_AT_LOWER},
        {0.1, 2.0, -INFINITY, 2.0, NS_VERDICT_AT_UPPER},
        {0.1, 2.0, -INFINITY, 2.1, NS_VERDICT_OK},
        {0.0005, 0.0005, 1e-6, 1e3,
         NS_VERDICT_OK}, // a generous range: five hundred times the bound
        {0.1, 1e-7, 0.0, 1.0, NS_VERDICT_AT_LOWER},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        nsi_identification result;
        fill(&result, NULL, 1, &cases[k].value);
        result.estimates.data[0].initial = cases[k].start;
        result.estimates.data[0].lower = cases[k].lower;
        result.estimates.data[0].upper = cases[k].upper;
        identify(&result, (double[]){1e12}, 1.0, NULL);
        if (verdict(&result, 0) != cases[k].verdict) fail_msg("case %zu", k);
        assert_close(error_of(&result, 0), 1e-6, 1e-12);
        nsi_identification_free(&result);
    }
}

// ---- bad input -------------------------------------------------------------------------------

static void numbers_that_are_none_are_refused(void** state) {
    (void)state;
    nsi_identification result;
    ns_error error;
    fill(&result, NULL, 2, (double[]){1.0, 2.0});
    const double good[4] = {1.0, 0.0, 0.1, 1.0};
    for (int k = 0; k < 3; k++) {
        double H[4] = {1.0, 0.0, 0.1, 1.0};
        const int lower[3] = {0, 2, 3};
        H[lower[k]] = k == 1 ? INFINITY : NAN;
        assert_int_equal(nsi_identify(&result, H, 1.0, NULL, &error), NS_ERR_NONFINITE);
        assert_non_null(strstr(error.message, k == 0 ? "\"a\"" : "\"b\""));
        assert_null(result.correlation);
        assert_int_equal(result.directions.count, 0);
    }
    assert_int_equal(nsi_identify(&result, good, NAN, NULL, &error), NS_ERR_NONFINITE);
    assert_int_equal(nsi_identify(&result, good, -1.0, NULL, NULL), NS_ERR_NONFINITE);
    result.estimates.data[1].value = INFINITY;
    assert_int_equal(nsi_identify(&result, good, 1.0, NULL, &error), NS_ERR_NONFINITE);
    nsi_identification_free(&result);

    result = (nsi_identification){.allocator = ns_default_allocator()};
    assert_int_equal(nsi_identify(&result, NULL, 1.0, NULL, NULL), NS_OK);
    nsi_identification_free(&result);
}

static void no_memory_is_no_answer(void** state) {
    (void)state;
    problem p;
    static double H[49];
    make_problem(1, 7, 2, two_nulls[0], &p);
    gram(p.m, p.n, p.J, H);
    bool done = false;
    for (size_t n = 1; !done; n++) {
        test_alloc counter = {0};
        ns_allocator memory = test_allocator(&counter);
        nsi_identification result;
        fill(&result, &memory, p.n, p.value);
        counter.fail_at = counter.calls + n;
        ns_status status = nsi_identify(&result, H, 1.0, NULL, NULL);
        done = counter.calls < counter.fail_at;
        assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
        nsi_identification_free(&result);
        assert_int_equal(counter.live_blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_the_errors_of_the_textbook),
        cmocka_unit_test(poor_ones_are_named_with_their_error),
        cmocka_unit_test(a_free_double_pendulum_has_no_scale),
        cmocka_unit_test(several_null_directions_are_told_apart),
        cmocka_unit_test(errors_beside_a_null_direction_are_those_with_it_fixed),
        cmocka_unit_test(all_null_directions_are_found),
        cmocka_unit_test(no_noise_hides_no_null_direction),
        cmocka_unit_test(units_do_not_matter),
        cmocka_unit_test(parameters_without_effect_stay_aside),
        cmocka_unit_test(sizes_are_for_values_near_zero),
        cmocka_unit_test(bounds_that_were_hit_are_named),
        cmocka_unit_test(numbers_that_are_none_are_refused),
        cmocka_unit_test(no_memory_is_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
