// Robust standard errors: the estimator against its formula with a Jacobian by differences, and
// reported errors against the scatter of estimates.

#include "neuralsim/fit.h"
#include "neuralsim/random.h"
#include "support/assert.h"
#include "support/trial.h"
#include "sysid/residuals_state.h"
#include "sysid/sandwich.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PENDULUM(damping)                                                                          \
    "<mujoco><option timestep='0.02'/><worldbody><body name='rod'>"                                \
    "<joint name='hinge' type='hinge' axis='0 1 0' damping='" damping "'/>"                        \
    "<inertial pos='0 0 -0.5' mass='1.5' diaginertia='0.02 0.02 0.01'/>"                           \
    "</body></worldbody></mujoco>"

enum { STEPS = 600, SAMPLES = STEPS + 1 };

static ns_model* robot;
static double clean[SAMPLES * 2];

static int make_motion(void** state) {
    (void)state;
    trial t = trial_make(PENDULUM("0.05"), NULL, STEPS);
    t.x0[0] = 1.2;
    trial_run(&t);
    memcpy(clean, t.states, sizeof clean);
    trial_free(&t);
    return ns_model_parse(PENDULUM("0.05"), sizeof PENDULUM("0.05") - 1, "rod.xml", NULL, &robot,
                          NULL);
}

static int free_model(void** state) {
    (void)state;
    ns_model_free(robot);
    return 0;
}

typedef struct sandwich_rig {
    ns_dataset* data;
    ns_parameters* params;
    ns_residuals* residuals;
} sandwich_rig;

// The angle with noise of 0.02 rad whose neighbours have this correlation.
static sandwich_rig make_rig(double phi, uint64_t seed, const ns_window_options* windows) {
    sandwich_rig r;
    ns_error error = {0};
    ns_rng rng = ns_rng_seed(seed);
    double recorded[SAMPLES], noise = ns_rng_normal(&rng);
    for (int k = 0; k < SAMPLES; k++) {
        recorded[k] = clean[2 * k] + 0.02 * noise;
        noise = phi * noise + sqrt(1.0 - phi * phi) * ns_rng_normal(&rng);
    }
    const ns_array_channel channel = {.name = "joint/hinge/position", .sigma = 0.02};
    must(ns_dataset_create_arrays(&channel, 1, NULL, 0, 0.02, NULL, &r.data, &error), &error);
    must(ns_dataset_add_arrays(r.data, "swing", SAMPLES, recorded, NULL, &error), &error);
    must(ns_parameters_create(&(ns_variant){.model = robot}, 1, NULL, &r.params, &error), &error);
    must(ns_parameters_add(r.params, "joint/hinge/damping", NULL, &error), &error);
    ns_parameter length = ns_default_parameter();
    length.lower = -1.0, length.upper = -0.3; // a shorter pendulum swings the same
    must(ns_parameters_add(r.params, "link/rod/com/z", &length, &error), &error);
    must(ns_residuals_create(r.params, r.data, windows, 1, &r.residuals, &error), &error);
    return r;
}

static void free_rig(sandwich_rig* r) {
    ns_residuals_free(r->residuals);
    ns_parameters_free(r->params);
    ns_dataset_free(r->data);
}

// Solve the 2 x 2 system A x = b.
static void solve2(const double A[4], const double b[2], double x[2]) {
    double det = A[0] * A[3] - A[1] * A[2];
    x[0] = (A[3] * b[0] - A[1] * b[1]) / det;
    x[1] = (A[0] * b[1] - A[2] * b[0]) / det;
}

static void the_estimator_is_its_formula(void** state) {
    (void)state;
    const ns_window_options windows = {.length = 100, .initial_state = NS_INITIAL_STATE_RECORDED};
    sandwich_rig r = make_rig(0.5, 1, &windows);
    uint32_t rows = ns_residuals_count(r.residuals);
    assert_int_equal(rows, 600);

    // Columns of the Jacobian for values of the parameters.
    double v[2], *J = doubles(2 * (size_t)rows), residuals[600];
    ns_residuals_get_parameters(r.residuals, v);
    for (int k = 0; k < 2; k++) {
        for (int side = -1; side <= 1; side += 2) {
            double moved[2] = {v[0], v[1]};
            moved[k] += side * 1e-6;
            ns_residuals_set_parameters(r.residuals, moved);
            ns_residuals_cost(r.residuals);
            const double* values = ns_residuals_values(r.residuals);
            for (uint32_t i = 0; i < rows; i++) J[2 * i + (uint32_t)k] += side * values[i] / 2e-6;
        }
    }
    ns_residuals_set_parameters(r.residuals, v);
    ns_residuals_cost(r.residuals);
    memcpy(residuals, ns_residuals_values(r.residuals), sizeof residuals);

    // Blocks of 75 samples, which do not end where windows do.
    double A[4] = {0}, want[2] = {0}, got[2];
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t k = 0; k < 4; k++) A[k] += J[2 * i + k / 2] * J[2 * i + k % 2];
    }
    for (uint32_t from = 0; from < rows; from += 75) {
        double score[2] = {0}, x[2];
        for (uint32_t i = from; i < from + 75; i++) {
            for (uint32_t k = 0; k < 2; k++) score[k] += J[2 * i + k] * residuals[i];
        }
        solve2(A, score, x);
        for (int k = 0; k < 2; k++) want[k] += x[k] * x[k] * 8.0 / 7.0 * 600.0 / 598.0;
    }
    assert_true(nsi_objective_sandwich(r.residuals->objective, 75, got));
    for (int k = 0; k < 2; k++) close_to("variance", got[k] / want[k], 1.0, 1e-5);
    free(J);
    free_rig(&r);
}

// With free initial states the scores of all blocks together are the gradient, which vanishes at
// the end of a fit: one block has no variance.
static void eliminated_scores_vanish_together(void** state) {
    (void)state;
    sandwich_rig r = make_rig(0.5, 2, &(ns_window_options){.length = 150});
    ns_fit_result* result = NULL;
    ns_error error = {0};
    must(ns_least_squares_fit(r.residuals, NULL, &result, &error), &error);
    double all[2], blocks[2];
    assert_true(nsi_objective_sandwich(r.residuals->objective, 10000, all));
    assert_true(nsi_objective_sandwich(r.residuals->objective, 30, blocks));
    for (int k = 0; k < 2; k++) assert_true(all[k] < 1e-8 * blocks[k]);
    ns_fit_result_free(result);
    free_rig(&r);
}

static void correlations_are_measured(void** state) {
    (void)state;
    const double phis[] = {0.0, 0.5, 0.8};
    for (int k = 0; k < 3; k++) {
        double lag1 = 0.0, samples = 0.0;
        for (uint64_t seed = 1; seed <= 10; seed++) {
            sandwich_rig r = make_rig(phis[k], seed, &(ns_window_options){0});
            ns_fit_result* result = NULL;
            ns_error error = {0};
            must(ns_least_squares_fit(r.residuals, NULL, &result, &error), &error);
            ns_residuals_cost(r.residuals);
            nsi_residual_correlation c = nsi_objective_residual_correlation(r.residuals->objective);
            ns_fit_result_free(result);
            lag1 += c.lag1 / 10;
            samples += c.samples / 10;
            free_rig(&r);
        }
        close_to("lag 1", lag1, phis[k], 0.05);
        // Integrated over all lags, (1 + phi) / (1 - phi); small ones are left out.
        double want = (1.0 + phis[k]) / (1.0 - phis[k]);
        close_to("time", samples / want, 1.0, 0.35);
    }
}

static bool has_note(const ns_fit_result* result, const char* part) {
    for (uint32_t k = 0; k < result->nnote; k++) {
        if (strstr(result->notes[k], part)) return true;
    }
    return false;
}

// Reported standard errors are those by which estimates scatter, for white noise and for correlated
// noise, for which errors of white noise would be about three times too small.
static void reported_errors_are_the_scatter(void** state) {
    (void)state;
    enum { FITS = 60 };
    const double phis[] = {0.0, 0.8}, truth[2] = {0.05, -0.5};
    for (int p = 0; p < 2; p++) {
        double squares[2] = {0};
        uint32_t noted = 0;
        for (uint64_t seed = 1; seed <= FITS; seed++) {
            sandwich_rig r = make_rig(phis[p], 100 + seed, &(ns_window_options){0});
            ns_fit_result* result = NULL;
            ns_error error = {0};
            must(ns_least_squares_fit(r.residuals, NULL, &result, &error), &error);
            for (int k = 0; k < 2; k++) {
                const ns_estimate* e = &result->estimates[k];
                double off = (e->value - truth[k]) / e->standard_error;
                squares[k] += off * off / FITS;
            }
            noted += has_note(result, "sandwich estimator");
            ns_fit_result_free(result);
            free_rig(&r);
        }
        print_message("correlation %g: %u of %u noted, rms error / standard error %.2f %.2f\n",
                      phis[p], noted, (unsigned)FITS, sqrt(squares[0]), sqrt(squares[1]));
        assert_true(p == 0 ? noted == 0
                           : noted >= FITS - 6); // of the rest, some say that they cannot
        for (int k = 0; k < 2; k++) close_to("scatter", sqrt(squares[k]), 1.0, 0.35);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_estimator_is_its_formula),
        cmocka_unit_test(eliminated_scores_vanish_together),
        cmocka_unit_test(correlations_are_measured),
        cmocka_unit_test(reported_errors_are_the_scatter),
    };
    return cmocka_run_group_tests(tests, make_motion, free_model);
}
