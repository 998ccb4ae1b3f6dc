// Coefficients of formulas in fits: found again, with the errors that a parameter in their place has;
// listed, saved, left alone by weight decay, and removed one by one by the lasso.

#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/rendered.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define PENDULUM NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf"

static const char truth[] =
    "formulas:\n- name: friction\n  each: joint/*\n  weights: separate\n  output: \"{}/tau\"\n"
    "  formula: -b * \"{}/velocity\" - c * tanh(\"{}/velocity\" / 0.1)\n"
    "  coefficients: {b: 0.05, c: 0.02}\n"
    "- name: drag\n  output: link/link1/force/x\n"
    "  formula: -k * abs(\"link/link1/velocity/com/x\") * \"link/link1/velocity/com/x\"\n"
    "  coefficients: {k: 0.003}\n";

// What the recordings are made with: each joint has its own.
static const double values[] = {0.05, 0.02, 0.08, 0.01, 0.003};

static ns_fit* run(const char* name) {
    ns_fit* fit = experiment_load(name, 2);
    ns_error error = {0};
    must(ns_fit_run(fit, NULL, &error), &error);
    return fit;
}

// Swings of the pendulum, its friction by the formulas `text` with these coefficients.
static void record(const char* text, const double* coefficients, uint32_t count, double sigma,
                   const char* file) {
    static const double x0[] = {1.5, -0.5, 0.0, 0.0, -0.7, 1.9, 1.0, 0.0, 2.5, 0.3, -2.0, 1.0};
    ns_error error = {0};
    ns_blueprint* blueprint = NULL;
    motion m = motion_of(PENDULUM, 0.01, 150);
    m.runs = 3;
    m.x0 = x0;
    m.sigma = sigma;
    must(ns_blueprint_parse(text, strlen(text), "t", NULL, &blueprint, &error), &error);
    m.options.blueprint = blueprint;
    if (coefficients) {
        // As a file of weights.
        FILE* out = fopen(tempdir_path("truth.json"), "w");
        assert_non_null(out);
        assert_int_equal(count, 5);
        fprintf(out,
                "{\"friction/joint/joint0/w0\": [[%.17g, %.17g]],"
                " \"friction/joint/joint1/w0\": [[%.17g, %.17g]], \"drag/w0\": [[%.17g]]}",
                coefficients[0], coefficients[1], coefficients[2], coefficients[3],
                coefficients[4]);
        fclose(out);
        must(ns_blueprint_load_weights(blueprint, tempdir_path("truth.json"), &error), &error);
    }
    motion_record(&m, file);
    ns_blueprint_free(blueprint);
}

static const char start[] =
    "formulas:\n- name: friction\n  each: joint/*\n  weights: separate\n  output: \"{}/tau\"\n"
    "  formula: -b * \"{}/velocity\" - c * tanh(\"{}/velocity\" / 0.1)\n"
    "  coefficients: {b: 0.01, c: 0.001}\n"
    "- name: drag\n  output: link/link1/force/x\n"
    "  formula: -k * abs(\"link/link1/velocity/com/x\") * \"link/link1/velocity/com/x\"\n"
    "  coefficients: {k: 0}\n";

static void coefficients_are_found_again(void** state) {
    (void)state;
    static const char* const sets[] = {"friction/joint/joint0", "friction/joint/joint0",
                                       "friction/joint/joint1", "friction/joint/joint1", "drag"};
    static const char* const names[] = {"b", "c", "b", "c", "k"};
    static const double starts[] = {0.01, 0.001, 0.01, 0.001, 0.0};
    record(truth, values, 5, 0.0, "swings.csv");
    experiment_write("start.yaml", "%s", start);
    experiment_write("fit.yaml", "model: " PENDULUM "\ndata: {train: [swings.csv]}\n"
                                 "timestep: 0.01\nblueprint: start.yaml\n"
                                 "train: {window: [10, 50], weight_decay: 10}\n");
    ns_fit* fit = run("fit.yaml");
    const nsi_result* a = &fit->result;
    assert_int_equal(a->coefficients.count, 5);
    assert_int_equal(a->nweight, 0); // none of networks
    double most = 0.0;
    for (uint32_t k = 0; k < 5; k++) {
        const ns_fitted_coefficient* c = &a->coefficients.data[k];
        assert_string_equal(c->set, sets[k]);
        assert_string_equal(c->name, names[k]);
        assert_true(c->initial == starts[k]);
        if (!(fabs(c->value - values[k]) <= 1e-6 * values[k])) {
            fail_msg("%s %s is %.12g, not %g", c->set, c->name, c->value, values[k]);
        }
        most = fmax(most, fabs(c->value / values[k] - 1.0));
        assert_true(isfinite(c->standard_error) && c->standard_error > 0.0);
    }
    print_message("off by %.1e at most\n", most);

    // In every form.
    ns_text text = {0};
    ns_error error = {0};
    assert_int_equal(render_fit(fit, ns_report_text, &text, &error), NS_OK);
    assert_non_null(strstr(text.data, "formula                coefficient"));
    assert_non_null(strstr(text.data, "friction/joint/joint1  c "));
    ns_text_free(&text);
    assert_int_equal(render_fit(fit, ns_report_html, &text, &error), NS_OK);
    assert_non_null(strstr(text.data, "<h2>Coefficients of formulas</h2>"));
    ns_text_free(&text);
    must(ns_fit_save(fit, tempdir_path("saved"), &error), &error);
    json_t* root = json_load_file(tempdir_path("saved/result.json"), 0, NULL);
    const json_t* list = json_object_get(root, "coefficients");
    assert_int_equal(json_array_size(list), 5);
    const json_t* last = json_array_get(list, 4);
    assert_string_equal(json_string_value(json_object_get(last, "set")), "drag");
    assert_string_equal(json_string_value(json_object_get(last, "name")), "k");
    assert_true(json_number_value(json_object_get(last, "initial")) == 0.0);
    assert_true(json_number_value(json_object_get(last, "value")) == a->coefficients.data[4].value);
    json_decref(root);
    double loss = a->after[NS_ROLE_TRAIN].loss;
    ns_fit_free(fit);

    // What was saved is a model with these coefficients.
    experiment_write("again.yaml", "model: saved/fitted.yaml\ndata: {train: [swings.csv]}\n"
                                   "timestep: 0.01\nparameters: {link/link0/mass: free}\n"
                                   "train: {window: 10, iterations: 0, optimise: parameters}\n");
    fit = run("again.yaml");
    assert_true(fabs(fit->result.before[NS_ROLE_TRAIN].loss - loss) <= 1e-12 + 1e-9 * loss);
    assert_int_equal(fit->result.coefficients.count, 0); // they are not fitted here
    ns_fit_free(fit);
}

// Joint damping as the model's parameter and as a formula is one and the same thing.
static void errors_are_those_of_a_parameter(void** state) {
    (void)state;
    static const char damping[] =
        "formulas:\n- name: damping\n  each: joint/*\n  weights: separate\n  output: \"{}/tau\"\n"
        "  formula: -b * \"{}/velocity\"\n  coefficients: {b: 0.05}\n";
    record(damping, NULL, 0, 1e-3, "noisy.csv");
    experiment_write("damping.yaml", "%s", damping);
    double value[2][3], deviation[2][3];
    for (int k = 0; k < 2; k++) {
        experiment_write("fit.yaml",
                         "model: " PENDULUM "\ndata: {train: [noisy.csv]}\ntimestep: 0.01\n%s"
                         "parameters:\n  link/link1/mass: free\n%s"
                         "train: {window: 50, tolerance: 1.0e-14}\n",
                         k ? "blueprint: damping.yaml\n" : "",
                         k ? "" : "  joint/*/damping: {initial: 0.05}\n");
        ns_fit* fit = run("fit.yaml");
        assert_true(ns_fit_estimate(fit, "link/link1/mass", &value[k][0], &deviation[k][0]));
        const ns_fitted_coefficient* c = fit->result.coefficients.data;
        for (int i = 1; i < 3; i++) {
            const ns_estimate* e = &fit->result.estimates.data[k ? 0 : i];
            if (!k) assert_non_null(strstr(e->name, i == 1 ? "joint0/damping" : "joint1/damping"));
            value[k][i] = k ? c[i - 1].value : e->value;
            deviation[k][i] = k ? c[i - 1].standard_error : e->standard_error;
        }
        assert_int_equal(fit->result.coefficients.count, k ? 2 : 0);
        ns_fit_free(fit);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(deviation[0][i] > 0.0);
        print_message("%.6g +- %.3g, %.6g +- %.3g\n", value[0][i], deviation[0][i], value[1][i],
                      deviation[1][i]);
        assert_true(fabs(value[1][i] - value[0][i]) <= 1e-3 * deviation[0][i]);
        assert_true(fabs(deviation[1][i] / deviation[0][i] - 1.0) <= 1e-5);
    }
}

// Two of one kind cannot be told apart; one that does nothing is not known.
static void what_is_not_determined_is_said(void** state) {
    (void)state;
    experiment_write("twice.yaml",
                     "formulas:\n- name: f\n  output: joint/joint0/tau\n"
                     "  formula: -(a + b) * \"joint/joint0/velocity\" + 0 * n\n"
                     "  coefficients: {a: 0.03, b: 0.03, n: 1}\n"
                     "- {name: g, output: joint/joint1/tau,"
                     " formula: '-c * \"joint/joint1/velocity\"', coefficients: {c: 0.1}}\n");
    experiment_write("fit.yaml", "model: " PENDULUM "\ndata: {train: [noisy.csv]}\ntimestep: 0.01\n"
                                 "blueprint: twice.yaml\ntrain: {window: 20}\n");
    ns_fit* fit = run("fit.yaml");
    const ns_fitted_coefficient* c = fit->result.coefficients.data;
    assert_true(isinf(c[0].standard_error) && isinf(c[1].standard_error));
    assert_true(isnan(c[2].standard_error) && c[2].value == 1.0);
    assert_true(c[3].standard_error > 0.0 && c[3].standard_error < 0.01);
    ns_text text = {0};
    ns_error error = {0};
    assert_int_equal(render_fit(fit, ns_report_json, &text, &error), NS_OK);
    nsi_result back;
    assert_int_equal(nsi_result_read(text.data, text.size, "r.json", NULL, NULL, &back, &error),
                     NS_OK);
    assert_int_equal(back.coefficients.count, 4);
    assert_true(isinf(back.coefficients.data[0].standard_error));
    assert_true(isnan(back.coefficients.data[2].standard_error));
    assert_true(back.coefficients.data[3].standard_error == c[3].standard_error);
    nsi_result_free(&back);
    ns_text_free(&text);
    ns_fit_free(fit);
}

// The lasso takes out the terms that the data does not need, and keeps the others.
static void terms_are_removed_one_by_one(void** state) {
    (void)state;
    experiment_write("terms.yaml",
                     "formulas:\n- name: damping\n  each: joint/*\n  output: \"{}/tau\"\n"
                     "  formula: -b * \"{}/velocity\" + s * sin(\"{}/position\") + o\n"
                     "  coefficients: {b: 0.02, s: 0.01, o: 0.01}\n");
    experiment_write(
        "fit.yaml",
        "model: " PENDULUM "\ndata: {train: [noisy.csv]}\ntimestep: 0.01\n"
        "blueprint: terms.yaml\ntrain: {window: 20, initial_state: recorded, iterations: 300,"
        " method: proximal}\nstages:\n- {method: lm, iterations: 20}\n"
        "- {group: 3.0e-4}\n");
    ns_fit* fit = run("fit.yaml");
    const nsi_result* a = &fit->result;
    const ns_fitted_coefficient* c = a->coefficients.data;
    print_message("b %g, s %g, o %g\n", c[0].value, c[1].value, c[2].value);
    assert_true(c[0].value > 0.03 && c[0].value < 0.06);
    assert_true(c[1].value == 0.0 && c[2].value == 0.0);
    assert_int_equal(a->path_names.count, 3);
    assert_string_equal(a->path_names.data[1], "s");
    assert_true(a->path.data[a->path.count - 1].norms[1] == 0.0);
    assert_true(a->path.data[a->path.count - 1].norms[0] == fabs(c[0].value));
    ns_fit_free(fit);
}

// A convex problem, nearly: both methods end where the other does. Then adaptive stages: what is out
// stays out, what is left moves to where it would be had the others never been there.
static void both_methods_of_the_lasso_agree(void** state) {
    (void)state;
    static const char text[] = "model: " PENDULUM "\ndata: {train: [noisy.csv]}\ntimestep: 0.01\n"
                               "blueprint: %s\ntrain: {window: 20, initial_state: recorded,"
                               " iterations: 2000, tolerance: 1.0e-13}\n%s";
    static const char* const stages[] = {"stages: [{group: 3.0e-4, method: proximal}]\n",
                                         "stages: [{group: 3.0e-4}]\n",
                                         "stages: [{group: 3.0e-4}, {adaptive: true}]\n"};
    experiment_write("terms.yaml",
                     "formulas:\n- name: damping\n  each: joint/*\n  output: \"{}/tau\"\n"
                     "  formula: -b * \"{}/velocity\" + s * sin(\"{}/position\") + o\n"
                     "  coefficients: {b: 0.02, s: 0.01, o: 0.01}\n");
    double b[3];
    for (int k = 0; k < 3; k++) {
        experiment_write("fit.yaml", text, "terms.yaml", stages[k]);
        ns_fit* fit = run("fit.yaml");
        const ns_fitted_coefficient* c = fit->result.coefficients.data;
        b[k] = c[0].value;
        print_message("b %.10g, s %g, o %g, %u iterations, loss %.12g\n", c[0].value, c[1].value,
                      c[2].value, fit->result.phases.data[0].iterations,
                      fit->result.phases.data[0].value);
        assert_true(c[1].value == 0.0 && c[2].value == 0.0);
        ns_fit_free(fit);
    }
    assert_true(fabs(b[1] - b[0]) < 1e-6 * b[0]);
    experiment_write("one.yaml", "formulas:\n- name: damping\n  each: joint/*\n"
                                 "  output: \"{}/tau\"\n  formula: -b * \"{}/velocity\"\n"
                                 "  coefficients: {b: 0.02}\n");
    experiment_write("fit.yaml", text, "one.yaml", "");
    ns_fit* fit = run("fit.yaml");
    double alone = fit->result.coefficients.data[0].value;
    ns_fit_free(fit);
    assert_true(fabs(b[2] - alone) < 1e-7 * alone);
    assert_true(b[1] < 0.995 * b[2]); // the penalty makes it smaller
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coefficients_are_found_again),
        cmocka_unit_test(errors_are_those_of_a_parameter),
        cmocka_unit_test(what_is_not_determined_is_said),
        cmocka_unit_test(terms_are_removed_one_by_one),
        cmocka_unit_test(both_methods_of_the_lasso_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
