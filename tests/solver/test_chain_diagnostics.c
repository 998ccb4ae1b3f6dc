// Diagnostics of chains against processes whose moments and autocorrelations are known.

#include "neuralsim/posterior.h"
#include "neuralsim/random.h"
#include "support/assert.h"

#include <math.h>
#include <stdlib.h>

enum { CHAINS = 4, COUNT = 5000 };

// x_k = phi x_{k-1} + noise, with variance 1; chain c around `apart` c.
static double* make_chains(double phi, double apart, uint64_t seed) {
    double* x = doubles((size_t)CHAINS * COUNT);
    ns_rng rng = ns_rng_seed(seed);
    for (uint32_t c = 0; c < CHAINS; c++) {
        double state = ns_rng_normal(&rng);
        for (uint32_t k = 0; k < COUNT; k++) {
            state = phi * state + sqrt(1.0 - phi * phi) * ns_rng_normal(&rng);
            x[(size_t)c * COUNT + k] = state + apart * c;
        }
    }
    return x;
}

// The effective sample size of a mean of an AR(1) process is N (1 - phi) / (1 + phi).
static void effective_sizes_are_those_of_autoregressions(void** state) {
    (void)state;
    const double phis[] = {-0.5, 0.0, 0.5, 0.9};
    for (size_t k = 0; k < sizeof phis / sizeof *phis; k++) {
        double phi = phis[k], *x = make_chains(phi, 0.0, 3 + k);
        ns_chain_summary s;
        assert_true(ns_chains_summarise(x, CHAINS, COUNT, &s));
        double want = CHAINS * COUNT * (1.0 - phi) / (1.0 + phi);
        close_to("bulk", s.ess_bulk / want, 1.0, 0.15);
        close_to("R-hat", s.rhat, 1.0, 0.01);

        // Moments and quantiles of a standard normal, within five standard errors.
        double error = 5.0 / sqrt(want);
        close_to("mean", s.mean, 0.0, error);
        close_to("deviation", s.deviation, 1.0, error);
        close_to("median", s.median, 0.0, 1.3 * error);
        close_to("lower", s.lower, -1.6448536269514722, 2.2 * error);
        close_to("upper", s.upper, 1.6448536269514722, 2.2 * error);
        free(x);
    }
}

// Of chains whose means differ, the variance between them adds: R-hat^2 = 1 + B/W for many samples.
static void chains_apart_are_noticed(void** state) {
    (void)state;
    double* x = make_chains(0.0, 1.0, 7);
    ns_chain_summary s;
    assert_true(ns_chains_summarise(x, CHAINS, COUNT, &s));
    // Means 0, 1, 2, 3 of halves of chains: variance 10 / 7. Ranks compress it a little.
    close_to("R-hat", s.rhat, sqrt(1.0 + 10.0 / 7.0), 0.1);
    assert_true(s.ess_bulk < 100.0);
    free(x);

    // The same mean but another spread: only folding shows it.
    x = make_chains(0.0, 0.0, 8);
    for (uint32_t k = 0; k < COUNT; k++) x[k] *= 4.0;
    assert_true(ns_chains_summarise(x, CHAINS, COUNT, &s));
    assert_true(s.rhat > 1.1);
    free(x);

    // A chain that drifts: its halves differ.
    x = make_chains(0.0, 0.0, 9);
    for (uint32_t k = 0; k < CHAINS * COUNT; k++) x[k] += 3.0 * (k % COUNT) / COUNT;
    assert_true(ns_chains_summarise(x, CHAINS, COUNT, &s));
    assert_true(s.rhat > 1.1);
    free(x);
}

static void degenerate_chains_say_nothing(void** state) {
    (void)state;
    double x[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    ns_chain_summary s;
    assert_true(ns_chains_summarise(x, 2, 6, &s));
    assert_true(s.mean == 1.0 && s.deviation == 0.0 && s.lower == 1.0 && s.upper == 1.0);
    assert_true(isnan(s.rhat) && isnan(s.ess_bulk));
    x[0] = 2.0;
    assert_true(ns_chains_summarise(x, 4, 3, &s));
    assert_true(isnan(s.rhat) && isfinite(s.mean));
    assert_true(ns_chains_summarise(x, 4, 0, &s));
    assert_true(isnan(s.mean));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(effective_sizes_are_those_of_autoregressions),
        cmocka_unit_test(chains_apart_are_noticed),
        cmocka_unit_test(degenerate_chains_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
