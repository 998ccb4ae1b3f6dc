// Running fits: threads, sparse networks, bounds, scores, what is left behind.

#define _POSIX_C_SOURCE 200809L

#include "fit/fit_run_rig.h"
#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/rendered.h"
#include "support/tempdir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- threads -----------------------------------------------------------------------------------

static void threads_do_not_change_the_answer(void** state) {
    (void)state;
    for (int k = 0; k < EXPERIMENTS; k++) {
        write_fit(experiments[k].text);
        ending one = run(1, 0, 0.0, false, NULL), two = run(2, 0, 0.0, false, NULL);
        assert_same(&one, &two, experiments[k].name);
        assert_int_equal(one.points, two.points);
        assert_false(one.stopped);
    }
}

static void a_fit_can_be_run_again(void** state) {
    (void)state;
    for (int k = 0; k < EXPERIMENTS; k += 3) {
        write_fit(experiments[k].text);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        assert_int_equal(ns_fit_run(fit, NULL, &error), NS_OK);
        ending first = ending_of(fit);
        assert_int_equal(ns_fit_run(fit, NULL, &error), NS_OK);
        ending second = ending_of(fit);
        assert_same(&first, &second, experiments[k].name);
        ns_fit_free(fit);
    }
}

// ---- damaged checkpoints -----------------------------------------------------------------------

// A prior counts beside the data with the width it has, however small the residuals are.
static void errors_know_priors(void** state) {
    (void)state;
    write_fit("  link/link0/inertia/zz: {initial: 0.01, prior_sigma: 0.002}\n" // no effect
              "train: {window: 20}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    ns_error error = {0};
    must(ns_fit_run(fit, NULL, &error), &error);
    double value, off;
    assert_true(ns_fit_estimate(fit, "link/link0/inertia/zz", &value, &off));
    assert_true(fit->result.sigma < 0.1);
    assert_true(fabs(value - 0.01) < 1e-6);
    if (!(fabs(off / 0.002 - 1.0) < 1e-3)) fail_msg("%g, not 0.002", off);
    assert_true(has_note(fit, "priors were weighed as if"));
    ns_fit_free(fit);
}

// Bounds hold for the ten numbers of a body, too.
static void bodies_stay_in_their_bounds(void** state) {
    (void)state;
    experiment_write("fit.yaml", "model: " PENDULUM "\n"
                                 "data: {train: [swings.csv]}\n"
                                 "timestep: 0.01\n"
                                 "parameters:\n"
                                 "  link/link1/mass: {initial: 0.9, lower: 0.85, upper: 0.95}\n"
                                 "  link/link1/com/*: free\n"
                                 "  link/link1/inertia/*: free\n"
                                 "train: {window: 10}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    ns_error error = {0};
    double mass;
    must(ns_fit_run(fit, NULL, &error), &error);
    assert_true(ns_fit_estimate(fit, "link/link1/mass", &mass, NULL));
    if (!(mass > 0.8499 && mass < 0.9501)) fail_msg("%g", mass);
    ns_fit_free(fit);
}

static void too_many_steps_are_refused(void** state) {
    (void)state;
    experiment_write("fit.yaml", "model: " PENDULUM "\n"
                                 "data: {train: [swings.csv], period: 0.01}\n"
                                 "timestep: 0.01\n"
                                 "parameters: {link/link1/mass: free}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    nsi_problem* p = fit->problem;
    ns_error error = {0};
    p->substeps = 1000000;
    assert_int_equal(nsi_problem_check_length(p, 2147, &error), NS_OK);
    assert_int_equal(nsi_problem_check_length(p, 2148, &error), NS_ERR_LIMIT);
    assert_int_equal(nsi_problem_check_length(p, 4295, &error), NS_ERR_LIMIT); // 2^32 and a bit
    ns_fit_free(fit);
}

// ---- sparse networks ---------------------------------------------------------------------------

static const char pair[] =
    "<mujoco><option timestep='0.01'/><worldbody>"
    "<body name='a'><joint name='a' type='hinge' axis='0 1 0'%s/>"
    "<inertial pos='0 0 -0.4' mass='1' diaginertia='0.02 0.02 0.001'/></body>"
    "<body name='b' pos='0 3 0'><joint name='b' type='hinge' axis='0 1 0'/>"
    "<inertial pos='0 0 -0.3' mass='1' diaginertia='0.02 0.02 0.001'/></body>"
    "</worldbody></mujoco>";

// Two pendulums that know nothing of each other; the network may look at both. The second swings the
// other way in the second run, so that nothing of the first can be seen in it.
static void inputs_that_do_not_matter_get_exact_zeros(void** state) {
    (void)state;
    experiment_write("truth.xml", pair, " damping='0.3'");
    experiment_write("pair.xml", pair, "");
    static const double starts[] = {0.8, -0.5, 0.0, 1.0, 0.8, 0.5, 0.0, -1.0};
    motion m = motion_of(tempdir_path("truth.xml"), 0.01, 101);
    m.runs = 2;
    m.x0 = starts;
    m.sigma = 0.001;
    motion_record(&m, "pair.csv");
    experiment_write("drag.yaml", "networks:\n"
                                  "  - name: drag\n"
                                  "    inputs: [joint/a/velocity, joint/b/velocity]\n"
                                  "    outputs: joint/a/tau\n"
                                  "    hidden: [4]\n"
                                  "    bias: false\n"
                                  "    init: {scale: 0.5, last: 1, seed: 2}\n");
    // Without decay of the upper layer, weights shrink below and grow above for nothing.
    static const char* const fits[] = {
        "proximal, group: 1e-3}",
        "proximal, l1: 1e-3}",
        "owlqn, l1: 1e-3}",
        "lm, group: 1e-3}",
        "lm, l1: 1e-3}",
        "lm}\nstages: [{group: 1e-3}, {adaptive: true}]",
        ("lm}\nstages: [{group: 1e-3, method: proximal}, {group: 1e-4,"
         " adaptive: true}, {adaptive: true, method: proximal}]")};
    for (int k = 0; k < 7; k++) {
        experiment_write("fit.yaml",
                         "model: pair.xml\nblueprint: drag.yaml\ndata: {train: [pair.csv]}\n"
                         "timestep: 0.01\n"
                         "train: {window: 20, initial_state: recorded, iterations: 1000,"
                         " weight_decay_upper: 1e-3, method: %s\n",
                         fits[k]);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        ns_weight_matrix first = ns_system_weight_matrix(fit->system, 0);
        assert_true(first.layer == 0 && first.rows == 2 && first.columns == 4);
        uint32_t used = 0;
        for (uint32_t i = 0; i < 4; i++) {
            used += fit->w[first.offset + i] != 0.0;
            if (fit->w[first.offset + 4 + i] != 0.0) {
                fail_msg("%s: %g", fits[k], fit->w[first.offset + 4 + i]);
            }
        }
        assert_true(used > 0);
        assert_true(fit->result.after[NS_ROLE_TRAIN].loss <
                    0.1 * fit->result.before[NS_ROLE_TRAIN].loss);
        ns_fit_free(fit);
    }
}

// Without iterations nothing moves, and there need not be anything that could.
static void a_model_is_scored_as_it_is(void** state) {
    (void)state;
    static const char* const fits[] = {"", "blueprint: net.yaml\n"};
    for (int k = 0; k < 2; k++) {
        experiment_write("fit.yaml",
                         "model: " PENDULUM "\ndata: {train: [swings.csv]}\ntimestep: 0.01\n"
                         "%strain: {window: 10, initial_state: recorded, iterations: 0}\n",
                         fits[k]);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        const nsi_result* a = &fit->result;
        assert_true(a->complete);
        assert_true(a->after[NS_ROLE_TRAIN].loss > 0.0);
        assert_true(a->after[NS_ROLE_TRAIN].loss == a->before[NS_ROLE_TRAIN].loss);
        assert_int_equal(a->history.count, 0);
        assert_int_equal(a->estimates.count, 0);
        must(ns_fit_save(fit, tempdir_path("scored"), &error), &error);
        ns_fit_free(fit);
    }
}

// The first row of what is trained on, with and without noise; seeds draw other noise.
static void noise_is_added_to_what_is_trained_on(void** state) {
    (void)state;
    double first[3][4];
    for (uint32_t k = 0; k < 3; k++) {
        experiment_write("fit.yaml",
                         "model: " PENDULUM "\ndata: {train: [swings.csv], test: [swings.csv],"
                         " noise: %g}\ntimestep: 0.01\nseed: %u\n"
                         "train: {window: 10, initial_state: recorded, iterations: 0}\n",
                         k > 0 ? 0.1 : 0.0, k);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        const double* train = ns_dataset_recording(fit->data[NS_ROLE_TRAIN], 0)->values;
        const double* test = ns_dataset_recording(fit->data[NS_ROLE_TEST], 0)->values;
        memcpy(first[k], train, sizeof first[k]);
        assert_memory_equal(test, first[0], sizeof first[0]);
        for (int c = 0; c < 4; c++) {
            assert_true((first[k][c] == first[0][c]) == (k == 0));
            assert_true(k < 2 || first[2][c] != first[1][c]);
        }
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        assert_true((strstr(fit->result.setting, "noise of 0.1 ") != NULL) == (k > 0));
        ns_fit_free(fit);
    }
}

// A search looks for parameters; weights start from where they are, not from zero, at which a
// network cannot learn.
static void searches_carry_weights_along(void** state) {
    (void)state;
    write_fit("blueprint: net.yaml\ntrain: {window: 20, initial_state: recorded, iterations: 0}\n"
              "search: {population: 3, rounds: 2}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    double weights[64];
    ns_system_default_weights(fit->system, weights);
    ns_error error = {0};
    must(ns_fit_run(fit, NULL, &error), &error);
    assert_memory_equal(fit->w, weights, fit->nw * sizeof(double));
    ns_fit_free(fit);
}

// A stage of no iterations leaves everything as it is, and its value is that of the start.
static void no_iterations_are_allowed(void** state) {
    (void)state;
    static const char* const methods[] = {"lm", "lbfgs", "adam"};
    double value[3];
    for (int k = 0; k < 3; k++) {
        char text[200];
        snprintf(text, sizeof text,
                 "train: {window: 20, initial_state: recorded, iterations: 0, method: %s}\n",
                 methods[k]);
        write_fit(text);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        assert_memory_equal(fit->z, fit->z0, fit->nz * sizeof(double));
        value[k] = fit->result.phases.data[0].value;
        ns_fit_free(fit);
    }
    assert_true(value[0] > 0.0 && value[0] == value[1] && value[0] == value[2]);
}

// ---- what is left behind -----------------------------------------------------------------------

static double loss_of(const ns_fit* fit, bool after) {
    return (after ? fit->result.after : fit->result.before)[NS_ROLE_TRAIN].loss;
}

// fitted.yaml predicts as the fit did, as a model of its own. An axis that was fitted is no longer
// of unit length there.
static void the_fitted_model_is_what_was_fitted(void** state) {
    (void)state;
    static const char* const parameters[] = {
        "{link/link1/mass: 0.9, joint/joint1/axis/x: 0.3, joint/joint1/damping: 0.1}",
        "{length: 0.5}\nset: {link/link1/com/z: -length}\nblueprint: net.yaml"};
    for (int k = 0; k < 2; k++) {
        experiment_write("fit.yaml",
                         "model: " PENDULUM "\ndata: {train: [swings.csv]}\ntimestep: 0.01\n"
                         "train: {window: 20, iterations: 4}\nparameters: %s\n",
                         parameters[k]);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        double before = loss_of(fit, false), after = loss_of(fit, true);
        assert_true(after < before);
        must(ns_fit_save(fit, tempdir_path("saved"), &error), &error);
        ns_fit_free(fit);
        experiment_write("again.yaml", "model: saved/fitted.yaml\ndata: {train: [swings.csv]}\n"
                                       "timestep: 0.01\ntrain: {window: 20, iterations: 0}\n"
                                       "parameters: {link/link0/mass: free}\n");
        fit = experiment_load("again.yaml", 1);
        must(ns_fit_run(fit, NULL, &error), &error);
        if (!(fabs(loss_of(fit, false) - after) <= 1e-12 * after)) {
            fail_msg("%d: %.10g, not %.10g", k, loss_of(fit, false), after);
        }
        ns_fit_free(fit);
    }
}

// After a last stage for weights nothing is known of errors of parameters; after one for parameters
// they are those for the weights as they are.
static void errors_are_those_of_the_last_stage(void** state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        char text[300];
        snprintf(
            text, sizeof text,
            "blueprint: net.yaml\ntrain: {window: 20, iterations: 3, initial_state: recorded}\n"
            "stages: [{optimise: all}, {optimise: %s}]\n",
            k ? "parameters" : "weights");
        write_fit(text);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        double deviation;
        assert_true(ns_fit_estimate(fit, "link/link1/mass", NULL, &deviation));
        assert_true(k ? deviation > 0.0 && isfinite(deviation) : isnan(deviation));
        ns_text out = {0};
        assert_int_equal(render_fit(fit, ns_report_text, &out, &error), NS_OK);
        ns_text_free(&out);
        assert_int_equal(render_fit(fit, ns_report_html, &out, &error), NS_OK);
        ns_text_free(&out);
        ns_fit_free(fit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_change_the_answer),
        cmocka_unit_test(a_fit_can_be_run_again),
        cmocka_unit_test(errors_know_priors),
        cmocka_unit_test(too_many_steps_are_refused),
        cmocka_unit_test(bodies_stay_in_their_bounds),
        cmocka_unit_test(inputs_that_do_not_matter_get_exact_zeros),
        cmocka_unit_test(a_model_is_scored_as_it_is),
        cmocka_unit_test(noise_is_added_to_what_is_trained_on),
        cmocka_unit_test(searches_carry_weights_along),
        cmocka_unit_test(no_iterations_are_allowed),
        cmocka_unit_test(the_fitted_model_is_what_was_fitted),
        cmocka_unit_test(errors_are_those_of_the_last_stage),
    };
    return cmocka_run_group_tests(tests, write_data, NULL);
}
