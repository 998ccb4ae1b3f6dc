// The no-U-turn sampler against densities whose moments are known.

#include "solver/posterior_rig.h"

// Mean and deviation of a coordinate, within five of their own standard errors.
static void check_moments(const ns_samples* s, uint32_t k, double mean, double deviation) {
    ns_chain_summary one = ns_samples_summary(s, k);
    assert_true(one.ess_bulk > 200.0 && one.ess_tail > 200.0);
    close_to("R-hat", one.rhat, 1.0, 0.02);
    close_to("mean", one.mean, mean, 5.0 * deviation / sqrt(one.ess_bulk));
    close_to("deviation", one.deviation, deviation, 5.0 * deviation / sqrt(one.ess_tail));
}

static void gaussians_are_sampled(void** state) {
    (void)state;
    gauss d = make_gauss();
    ns_density density = {.n = GAUSS, .log_density = gauss_density, .context = &d};
    ns_laplace* l = NULL;
    ns_error error = {0};
    must(ns_laplace_find(&density, d.mean, NULL, &l, &error), &error);

    // From the right covariance, and from a wrong one that warm-up must mend: twice, with
    // correlations and without.
    for (int wrong = 0; wrong < 3; wrong++) {
        ns_hmc_options options = {.warmup = 800, .seed = 5, .diagonal = wrong == 2};
        if (wrong > 0) {
            memset(l->factor, 0, GAUSS * GAUSS * sizeof *l->factor);
            for (int k = 0; k < GAUSS; k++) l->factor[k * GAUSS + k] = k % 2 ? 1.0 : 0.03;
        }
        ns_samples* s = NULL;
        must(ns_hmc_sample(&density, (const ns_laplace* const*)&l, 1, &options, &s, &error),
             &error);
        assert_int_equal(s->chains, 4);
        assert_int_equal(s->count, 1000);
        assert_int_equal(s->divergences, 0);
        for (uint32_t k = 0; k < GAUSS; k++) {
            check_moments(s, k, d.mean[k], sqrt(d.covariance[k * GAUSS + k]));
        }

        // Correlation of neighbours, 0.9.
        double sum = 0.0;
        for (uint32_t k = 0; k < 4000; k++) {
            sum += (s->x[k * GAUSS] - d.mean[0]) * (s->x[k * GAUSS + 1] - d.mean[1]);
        }
        close_to("covariance", sum / 4000 / d.covariance[1], 1.0, 0.15);
        // The mean acceptance is what the step size was adapted to.
        for (uint32_t c = 0; c < 4; c++) close_to("acceptance", s->acceptance[c], 0.85, 0.13);
        ns_samples_free(s);
    }
    ns_laplace_free(l);
}

// With a metric that fits, a draw costs few gradients.
static void draws_are_cheap_with_a_good_metric(void** state) {
    (void)state;
    gauss d = make_gauss();
    ns_density density = {.n = GAUSS, .log_density = gauss_density, .context = &d};
    ns_laplace* l = NULL;
    ns_samples* s = NULL;
    ns_error error = {0};
    must(ns_laplace_find(&density, d.mean, NULL, &l, &error), &error);
    must(ns_hmc_sample(&density, (const ns_laplace* const*)&l, 1, NULL, &s, &error), &error);
    for (uint32_t k = 0; k < GAUSS; k++) assert_true(ns_samples_summary(s, k).ess_bulk > 2500.0);
    assert_true(s->evaluations < 10 * 4 * 1500);
    ns_samples_free(s);
    ns_laplace_free(l);
}

// exp z is Gamma(4, 1): mean 4, deviation 2. The density is skewed, and a bound is in the
// transform.
static void skewed_densities_are_sampled(void** state) {
    (void)state;
    ns_density density = {.n = 1, .log_density = gamma_density};
    ns_laplace* l = NULL;
    ns_samples* s = NULL;
    ns_error error = {0};
    double start = 0.0;
    must(ns_laplace_find(&density, &start, NULL, &l, &error), &error);
    ns_hmc_options options = {.samples = 4000, .seed = 2};
    must(ns_hmc_sample(&density, (const ns_laplace* const*)&l, 1, &options, &s, &error), &error);
    for (uint32_t k = 0; k < s->chains * s->count; k++) s->x[k] = exp(s->x[k]);
    ns_chain_summary one = ns_samples_summary(s, 0);
    close_to("mean", one.mean, 4.0, 0.1);
    close_to("deviation", one.deviation, 2.0, 0.1);
    // Quantiles of Gamma(4, 1) are half those of chi-squared with 8 degrees of freedom.
    close_to("5 %", one.lower, 2.7326 / 2.0, 0.1);
    close_to("95 %", one.upper, 15.5073 / 2.0, 0.25);
    ns_samples_free(s);
    ns_laplace_free(l);
}

// Neal's funnel: x0 ~ N(0, 3), x1 ~ N(0, exp(x0 / 2)). Its neck is too narrow for one step size.
static double funnel_density(void* context, uint32_t worker, const double* x, double* g) {
    (void)context, (void)worker;
    double square = x[1] * x[1] * exp(-x[0]);
    g[0] = -x[0] / 9.0 - 0.5 + 0.5 * square;
    g[1] = -x[1] * exp(-x[0]);
    return -x[0] * x[0] / 18.0 - 0.5 * x[0] - 0.5 * square;
}

static void divergences_are_counted(void** state) {
    (void)state;
    ns_density density = {.n = 2, .log_density = funnel_density};
    double mean[2] = {0.0, 0.1}, factor[4] = {1.0, 0.0, 0.0, 1.0};
    const ns_laplace start = {.n = 2, .mean = mean, .factor = factor}, *starts[] = {&start};
    ns_samples* s = NULL;
    ns_error error = {0};
    ns_hmc_options options = {.seed = 1, .target_accept = 0.6};
    must(ns_hmc_sample(&density, starts, 1, &options, &s, &error), &error);
    uint32_t counted = 0;
    for (uint32_t k = 0; k < s->chains * s->count; k++) counted += s->divergent[k];
    assert_int_equal(counted, s->divergences);
    assert_true(s->divergences > 0);
    ns_samples_free(s);
}

// Trajectories that hit the limit are counted: along a long valley few steps lead nowhere.
static void short_trajectories_are_counted(void** state) {
    (void)state;
    gauss d = make_gauss();
    ns_density density = {.n = GAUSS, .log_density = gauss_density, .context = &d};
    double factor[GAUSS * GAUSS] = {0};
    for (int k = 0; k < GAUSS; k++) factor[k * GAUSS + k] = 1e-3;
    const ns_laplace start = {.n = GAUSS, .mean = d.mean, .factor = factor}, *starts[] = {&start};
    ns_samples* s = NULL;
    ns_error error = {0};
    ns_hmc_options options = {.chains = 1, .warmup = 10, .samples = 50, .max_depth = 3};
    must(ns_hmc_sample(&density, starts, 1, &options, &s, &error), &error);
    assert_true(s->truncated > 25);
    ns_samples_free(s);
}

// Warm-up in a metric that is far too small: trajectories stop after 255 steps until the metric is
// known, then after 1023.
static void early_trajectories_are_short(void** state) {
    (void)state;
    gauss d = make_gauss();
    ns_density density = {.n = GAUSS, .log_density = gauss_density, .context = &d};
    double factor[GAUSS * GAUSS] = {0};
    for (int k = 0; k < GAUSS; k++) factor[k * GAUSS + k] = 1e-7;
    const ns_laplace start = {.n = GAUSS, .mean = d.mean, .factor = factor}, *starts[] = {&start};
    ns_samples* s = NULL;
    ns_error error = {0};
    ns_hmc_options options = {.chains = 1, .warmup = 40, .samples = 4};
    must(ns_hmc_sample(&density, starts, 1, &options, &s, &error), &error);
    const double guesses = 2.0 * 100.0, early = 36 * 255.0, late = 8 * 1023.0; // gradients
    assert_true((double)s->evaluations < early + late + guesses);
    ns_samples_free(s);
}

// ---- several starts, threads, stopping ----------------------------------------------------------

// Two normal peaks at -4 and 4, which no chain leaves.
static double peaks_density(void* context, uint32_t worker, const double* x, double* g) {
    (void)context, (void)worker;
    double a = 50.0 * (x[0] - 4.0) * (x[0] - 4.0), b = 50.0 * (x[0] + 4.0) * (x[0] + 4.0);
    double low = fmin(a, b), value = log(exp(low - a) + exp(low - b)) - low;
    double share = 1.0 / (1.0 + exp(a - b));
    g[0] = -100.0 * (share * (x[0] - 4.0) + (1.0 - share) * (x[0] + 4.0));
    return value;
}

static void chains_begin_at_each_start(void** state) {
    (void)state;
    ns_density density = {.n = 1, .log_density = peaks_density};
    ns_laplace* modes[2] = {NULL, NULL};
    const double starts[] = {-3.0, 3.5};
    ns_error error = {0};
    for (int k = 0; k < 2; k++) {
        must(ns_laplace_find(&density, &starts[k], NULL, &modes[k], &error), &error);
    }
    ns_samples* s = NULL;
    must(ns_hmc_sample(&density, (const ns_laplace* const*)modes, 2, NULL, &s, &error), &error);
    for (uint32_t c = 0; c < 4; c++) {
        assert_int_equal(s->start[c], c % 2);
        double mean = 0.0;
        for (uint32_t k = 0; k < s->count; k++) mean += s->x[c * s->count + k] / s->count;
        close_to("mode", mean, c % 2 ? 4.0 : -4.0, 0.02);
    }

    // Chains do not mix: normal scores of ranks have means -+ sqrt(2 / pi), of 8 halves of chains.
    double share = 2.0 / acos(-1.0), rhat = sqrt(1.0 + share * 8.0 / 7.0 / (1.0 - share));
    close_to("R-hat", ns_samples_summary(s, 0).rhat, rhat, 0.02);
    ns_samples_free(s);
    for (int k = 0; k < 2; k++) ns_laplace_free(modes[k]);
}

static void samples_do_not_depend_on_threads(void** state) {
    (void)state;
    gauss d = make_gauss();
    ns_density density = {.n = GAUSS, .log_density = gauss_density, .context = &d};
    ns_laplace* l = NULL;
    ns_error error = {0};
    must(ns_laplace_find(&density, d.mean, NULL, &l, &error), &error);
    ns_samples* s[3] = {NULL, NULL, NULL};
    for (int k = 0; k < 3; k++) {
        ns_hmc_options options = {
            .warmup = 60, .samples = 40, .seed = k == 2 ? 8 : 7, .threads = k ? 3 : 1};
        must(ns_hmc_sample(&density, (const ns_laplace* const*)&l, 1, &options, &s[k], &error),
             &error);
    }
    same_bits("samples", s[0]->x, s[1]->x, 4 * 40 * GAUSS);
    assert_int_equal(s[0]->evaluations, s[1]->evaluations);
    assert_true(s[0]->x[0] != s[2]->x[0]); // another seed
    for (int k = 0; k < 3; k++) ns_samples_free(s[k]);
    ns_laplace_free(l);
}

static bool stop_at(void* context, uint32_t done, uint32_t count) {
    assert_int_equal(count, 2 * (100 + 200));
    return done >= *(const uint32_t*)context;
}

static void stopping_keeps_what_is_there(void** state) {
    (void)state;
    ns_density density = {.n = 1, .log_density = gamma_density};
    double mean = 1.0, factor = 0.5;
    const ns_laplace start = {.n = 1, .mean = &mean, .factor = &factor}, *starts[] = {&start};
    ns_samples* s = NULL;
    ns_error error = {0};
    uint32_t limit = 450; // in the samples of the second chain
    ns_hmc_options options = {.chains = 2,
                              .warmup = 100,
                              .samples = 200,
                              .threads = 1,
                              .observe = stop_at,
                              .context = &limit};
    must(ns_hmc_sample(&density, starts, 1, &options, &s, &error), &error);
    assert_true(s->stopped);
    assert_int_equal(s->count, 50);
    assert_true(all_finite(s->x, 100));
    assert_true(s->x[50] != 0.0);
    ns_samples_free(s);
}

static double nowhere_density(void* context, uint32_t worker, const double* x, double* g) {
    (void)context, (void)worker, (void)x;
    g[0] = NAN;
    return NAN;
}

static void bad_calls_are_refused(void** state) {
    (void)state;
    ns_density density = {.n = 1, .log_density = gamma_density};
    double mean = 1.0, factor = 0.5;
    const ns_laplace start = {.n = 1, .mean = &mean, .factor = &factor}, *starts[] = {&start};
    ns_samples* s = NULL;
    ns_error error = {0};
    const ns_hmc_options bad[] = {
        {.target_accept = 1.0}, {.target_accept = -0.1}, {.max_depth = 40}};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_int_equal(ns_hmc_sample(&density, starts, 1, &bad[k], &s, &error), NS_ERR_ARGUMENT);
    }
    assert_int_equal(ns_hmc_sample(&density, starts, 0, NULL, &s, &error), NS_ERR_ARGUMENT);
    density.log_density = nowhere_density;
    assert_int_equal(ns_hmc_sample(&density, starts, 1, NULL, &s, &error), NS_ERR_NONFINITE);
    assert_null(s);
    ns_samples_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaussians_are_sampled),
        cmocka_unit_test(draws_are_cheap_with_a_good_metric),
        cmocka_unit_test(skewed_densities_are_sampled),
        cmocka_unit_test(divergences_are_counted),
        cmocka_unit_test(short_trajectories_are_counted),
        cmocka_unit_test(early_trajectories_are_short),
        cmocka_unit_test(chains_begin_at_each_start),
        cmocka_unit_test(samples_do_not_depend_on_threads),
        cmocka_unit_test(stopping_keeps_what_is_there),
        cmocka_unit_test(bad_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
