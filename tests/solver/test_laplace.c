// Laplace approximations: exact for Gaussians, second order for others.

#include "solver/posterior_rig.h"

static void gaussians_are_found_exactly(void** state) {
    (void)state;
    gauss d = make_gauss();
    ns_density density = {.n = GAUSS, .log_density = gauss_density, .context = &d};
    ns_laplace* l = NULL;
    ns_error error = {0};
    must(ns_laplace_find(&density, (double[GAUSS]){0}, NULL, &l, &error), &error);
    assert_true(l->converged);
    assert_int_equal(l->undetermined, 0);

    // The mean, the covariance L L', and the integral: (2 pi)^(n/2) sqrt(det), det of an AR(1)
    // process.
    double log_det = (GAUSS - 1) * log(1.0 - 0.81);
    for (int i = 0; i < GAUSS; i++) {
        double deviation = sqrt(d.covariance[i * GAUSS + i]);
        log_det += 2.0 * log(deviation);
        close_to("mean", l->mean[i], d.mean[i], 1e-4 * deviation);
        for (int j = 0; j < GAUSS; j++) {
            double sum = 0.0;
            for (int k = 0; k < GAUSS; k++) {
                sum += l->factor[i * GAUSS + k] * l->factor[j * GAUSS + k];
            }
            close_to("covariance", sum, d.covariance[i * GAUSS + j],
                     1e-5 * deviation * sqrt(d.covariance[j * GAUSS + j]));
        }
    }
    close_to("evidence", l->log_evidence, 0.5 * GAUSS * log(2.0 * acos(-1.0)) + 0.5 * log_det,
             1e-4);

    // Samples of it have these moments.
    ns_samples* s = NULL;
    must(ns_laplace_sample((const ns_laplace* const*)&l, 1, 4, 2500, 1, &s, &error), &error);
    for (uint32_t i = 0; i < GAUSS; i++) {
        ns_chain_summary one = ns_samples_summary(s, i);
        double deviation = sqrt(d.covariance[i * GAUSS + i]);
        close_to("mean", one.mean, d.mean[i], 0.05 * deviation);
        close_to("deviation", one.deviation, deviation, 0.04 * deviation);
        close_to("R-hat", one.rhat, 1.0, 0.01);
    }
    ns_samples_free(s);
    ns_laplace_free(l);
}

// 4 z - exp z has its maximum at log 4, and curvature 4 there.
static void maxima_far_away_are_reached(void** state) {
    (void)state;
    ns_density density = {.n = 1, .log_density = gamma_density};
    const double starts[] = {-6.0, 0.0, 5.0};
    for (size_t k = 0; k < 3; k++) {
        ns_laplace* l = NULL;
        ns_error error = {0};
        must(ns_laplace_find(&density, &starts[k], NULL, &l, &error), &error);
        assert_true(l->converged);
        close_to("mean", l->mean[0], log(4.0), 1e-4);
        close_to("factor", fabs(l->factor[0]), 0.5, 1e-4);
        ns_laplace_free(l);
    }
}

static double ridge_density(void* context, uint32_t worker, const double* x, double* g) {
    (void)context, (void)worker;
    g[0] = g[1] = -(x[0] + x[1]);
    return -0.5 * (x[0] + x[1]) * (x[0] + x[1]);
}

// Along x0 = -x1 nothing is known: the scale limits it, and it is counted.
static void flat_directions_have_the_given_scale(void** state) {
    (void)state;
    ns_density density = {.n = 2, .log_density = ridge_density};
    ns_laplace* l = NULL;
    ns_error error = {0};
    must(ns_laplace_find(&density, (double[]){1.0, 2.0}, (double[]){7.0, 7.0}, &l, &error), &error);
    assert_int_equal(l->undetermined, 1);
    double difference = 0.0;
    for (int k = 0; k < 2; k++) difference += pow(l->factor[k] - l->factor[2 + k], 2.0);
    close_to("deviation", sqrt(difference / 2.0), 7.0, 1e-3);
    ns_laplace_free(l);
}

static double no_density(void* context, uint32_t worker, const double* x, double* g) {
    (void)context, (void)worker, (void)x;
    g[0] = 0.0;
    return -INFINITY;
}

static void bad_starts_are_refused(void** state) {
    (void)state;
    ns_density density = {.n = 1, .log_density = no_density};
    ns_laplace* l = NULL;
    ns_error error = {0};
    double start = 0.0;
    assert_int_equal(ns_laplace_find(&density, &start, NULL, &l, &error), NS_ERR_NONFINITE);
    assert_null(l);
    assert_int_equal(ns_laplace_find(NULL, &start, NULL, &l, &error), NS_ERR_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaussians_are_found_exactly),
        cmocka_unit_test(maxima_far_away_are_reached),
        cmocka_unit_test(flat_directions_have_the_given_scale),
        cmocka_unit_test(bad_starts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
