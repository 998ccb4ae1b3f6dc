// The thrown cube of experiments/cube_sim2sim: gradients through whole throws against differences, and
// fits from anywhere inside the bounds that stay finite.

#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/tempdir.h"
#include "sysid/stage_solver.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define CUBE NEURALSIM_SOURCE_DIR "/experiments/cube_sim2sim/"

enum { NZ = 5, MOST_UNKNOWNS = 100 };

// Bounds of log_stiffness, log_damping, exponent, mu, log_transition in the experiment.
static const double lower[NZ] = {-1, -2, 1, 0, -0.5}, upper[NZ] = {5.3, 2, 2.5, 1, 0.5};

// Two throws of the truth, 1 s of 10 ms.
static int write_throws(void** state) {
    (void)state;
    static const double x0[] = {0, 0, 0.25, 1, 0,     0,    0,    2,   0.6, 0.1, 0.5, -0.4, 0.3, //
                                0, 0, 0.2,  1, -0.05, 0.08, 0.15, 1.4, -1,  0.3, 0.2, 0.7,  -0.5};
    double unit[26];
    memcpy(unit, x0, sizeof unit);
    double size = sqrt(1.0 + 0.05 * 0.05 + 0.08 * 0.08 + 0.15 * 0.15);
    for (int i = 16; i < 20; i++) unit[i] /= size;
    motion m = motion_of(CUBE "cube.xml", 0.001, 101);
    m.runs = 2;
    m.substeps = 10;
    m.x0 = unit;
    m.options.contact = NS_CONTACT_NCP;
    m.options.friction = NS_FRICTION_PYRAMID;
    motion_record(&m, "throws.csv");
    return 0;
}

// A fit of whole throws from the given numbers; those of friction are left out where a network is in its
// place.
static ns_fit* load(const char* blueprint, const double* v, const char* fit) {
    bool force = strcmp(blueprint, "friction_force.yaml") == 0;
    char friction[200] = "";
    if (!force) {
        snprintf(friction, sizeof friction,
                 "  contact/*/mu: {initial: %.17g, lower: 0, upper: 1}\n"
                 "  log_transition: {initial: %.17g, lower: -0.5, upper: 0.5}\n",
                 v[3], v[4]);
    }
    experiment_write("fit.yaml",
                     "model: " CUBE "cube.xml\ncontact: spring\ntimestep: 0.002\n"
                     "blueprint: " CUBE "%s\n"
                     "parameters:\n"
                     "  log_stiffness: {initial: %.17g, lower: -1, upper: 5.3}\n"
                     "  log_damping: {initial: %.17g, lower: -2, upper: 2}\n"
                     "  contact/*/exponent: {initial: %.17g, lower: 1, upper: 2.5}\n%s"
                     "set:\n  contact/*/stiffness: 10^log_stiffness\n"
                     "  contact/*/damping: 10^log_damping\n%s"
                     "data: {train: [throws.csv]}\n"
                     "train: {window: whole, initial_state: recorded, weight_decay: 1.0e-4, %s}\n",
                     blueprint, v[0], v[1], v[2], friction,
                     force ? "" : "  contact/*/transition_velocity: 10^log_transition\n", fit);
    return experiment_load("fit.yaml", 1);
}

// The slope of the loss along a random direction of all parameters and weights. Touching and leaving are
// kinks of the second derivative, so the best of three steps counts.
static double slope_error(const ns_fit* fit, nsi_objective* e, ns_rng* rng) {
    double gradient[MOST_UNKNOWNS], direction[MOST_UNKNOWNS], best = INFINITY;
    uint32_t n = nsi_objective_unknowns(e);
    assert_true(n <= MOST_UNKNOWNS && n == fit->nz + fit->nw);
    assert_true(isfinite(nsi_objective_gradient(e, gradient)));
    nsi_point p = nsi_objective_point(e);
    double z[NZ], w[MOST_UNKNOWNS], slope = 0.0, size = 0.0;
    memcpy(z, p.z, fit->nz * sizeof *z);
    memcpy(w, p.w, fit->nw * sizeof *w);
    for (uint32_t i = 0; i < n; i++) {
        direction[i] = ns_rng_normal(rng);
        slope += gradient[i] * direction[i];
        size += gradient[i] * gradient[i];
    }
    assert_true(size > 0.0);
    for (double step = 1e-5; step > 5e-8; step *= 0.1) {
        double value[2];
        for (int side = 0; side < 2; side++) {
            double h = side == 0 ? step : -step;
            for (uint32_t i = 0; i < fit->nz; i++) p.z[i] = z[i] + h * direction[i];
            for (uint32_t i = 0; i < fit->nw; i++) p.w[i] = w[i] + h * direction[fit->nz + i];
            value[side] = nsi_objective_cost(e);
        }
        double off = fabs((value[0] - value[1]) / (2.0 * step) - slope) / sqrt(size);
        best = fmin(best, off);
    }
    memcpy(p.z, z, fit->nz * sizeof *z);
    memcpy(p.w, w, fit->nw * sizeof *w);
    return best;
}

static void gradients_go_through_whole_throws(void** state) {
    (void)state;
    static const char* const blueprints[] = {"friction.yaml", "friction_force.yaml"};
    static const double points[][NZ] = {
        {0, 0, 1.5, 0.2, -0.3}, {3.5, 0.7, 1.1, 0.5, -0.2}, {4, 0.5, 1.4, 0.4, 0}};
    ns_rng rng = ns_rng_seed(1);
    double worst = 0.0;
    for (int b = 0; b < 2; b++) {
        for (int k = 0; k < 3; k++) {
            ns_fit* fit = load(blueprints[b], points[k], "iterations: 1");
            nsi_objective* e = NULL;
            ns_error error = {0};
            const nsi_stage* stage = &fit->spec->stages.data[0];
            must(nsi_objective_create(fit->problem, fit->data[NS_ROLE_TRAIN], &stage->windows, NULL,
                                      1, &e, &error),
                 &error);
            nsi_objective_guess(e);
            for (uint32_t i = 0; i < fit->nw; i++) {
                nsi_objective_point(e).w[i] = 0.3 * ns_rng_normal(&rng);
            }
            double off = slope_error(fit, e, &rng);
            worst = fmax(worst, off);
            if (!(off < 1e-4)) fail_msg("%s, point %d: off by %g", blueprints[b], k, off);
            nsi_objective_free(e);
            ns_fit_free(fit);
        }
    }
    print_message("    slopes differ by %.1e of the gradient at most\n", worst);
}

// From corners of the bounds and from random points between them.
static void fits_from_anywhere_stay_finite(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(2);
    for (int k = 0; k < 20; k++) {
        double v[NZ];
        for (int i = 0; i < NZ; i++) {
            double share = k < 8 ? (double)(k >> (i % 3) & 1) : ns_rng_uniform(&rng, 0.0, 1.0);
            v[i] = lower[i] + share * (upper[i] - lower[i]);
        }
        ns_fit* fit = load(k % 2 ? "friction_force.yaml" : "friction.yaml", v, "iterations: 5");
        ns_error error = {0};
        if (ns_fit_run(fit, NULL, &error) != NS_OK) fail_msg("start %d: %s", k, error.message);
        const ns_score* after = &fit->result.after[NS_ROLE_TRAIN];
        assert_true(isfinite(after->loss) && isfinite(after->rmse_q) && isfinite(after->rmse_qd));
        assert_true(after->loss <= fit->result.before[NS_ROLE_TRAIN].loss);
        static const char* const names[] = {"log_stiffness", "log_damping",
                                            "contact/box:floor/exponent"};
        for (int i = 0; i < 3; i++) {
            double value = NAN, off = NAN;
            assert_true(ns_fit_estimate(fit, names[i], &value, &off));
            assert_true(value >= lower[i] && value <= upper[i]);
        }
        ns_fit_free(fit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_go_through_whole_throws),
        cmocka_unit_test(fits_from_anywhere_stay_finite),
    };
    return cmocka_run_group_tests(tests, write_throws, NULL);
}
