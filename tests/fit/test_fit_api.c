// Fits without any file: a model built by calls, data from arrays, results checked against the truth.

#include "neuralsim/fit.h"
#include "support/assert.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { STEPS = 200, SAMPLES = STEPS + 1 };

static ns_model* robot;              // damping 0.05, mass 1
static double clean[SAMPLES * 2];    // recorded with damping 0.3, mass 1.4
static double recorded[SAMPLES * 2]; // the same with noise of 0.002 rad and 0.01 rad/s
static double controls[SAMPLES];     // a torque, without which mass and damping are not apart

static ns_model* build_pendulum(void) {
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    ns_error error = {0};
    ns_link_def rod = ns_default_link_def();
    rod.name = "rod", rod.joint = "hinge";
    rod.joint_type = NS_JOINT_REVOLUTE;
    rod.axis[0] = 0.0, rod.axis[1] = 1.0, rod.axis[2] = 0.0;
    rod.mass = 1.0, rod.com[2] = -0.5;
    rod.inertia[0] = rod.inertia[1] = 0.05, rod.inertia[2] = 0.01;
    rod.damping = 0.05;
    must(ns_model_builder_create(NULL, &builder, &error), &error);
    must(ns_model_builder_add_link(builder, &rod, &error), &error);
    must(ns_model_builder_finish(builder, &model, &error), &error);
    ns_model_builder_free(builder);
    return model;
}

static int make_recording(void** state) {
    (void)state;
    ns_error error = {0};
    ns_system* truth = NULL;
    ns_workspace* work = NULL;
    ns_system_options options = ns_default_system_options();
    ns_param_value values[] = {{"joint/hinge/damping", 0.3}, {"link/rod/mass", 1.4}};
    options.set = values, options.nset = 2, options.timestep = 0.01;
    robot = build_pendulum();
    must(ns_system_create(robot, &options, &truth, &error), &error);
    assert_string_equal(ns_system_control_name(truth, 0), "tau0");
    must(
        ns_workspace_create(truth, &(ns_workspace_size){.batch = 1, .steps = STEPS}, &work, &error),
        &error);
    for (int k = 0; k < SAMPLES; k++) controls[k] = 2.0 * sin(0.05 * k);
    ns_rollout_args run = {1, STEPS, .x0 = (double[]){1.0, 0.0}, .controls = controls,
                           .states = clean};
    must(ns_rollout(truth, work, &run, &error), &error);
    ns_rng rng = ns_rng_seed(3);
    for (int k = 0; k < 2 * SAMPLES; k++) {
        recorded[k] = clean[k] + (k % 2 == 0 ? 0.002 : 0.01) * ns_rng_normal(&rng);
    }
    ns_workspace_free(work);
    ns_system_free(truth);
    return 0;
}

static int free_model(void** state) {
    (void)state;
    ns_model_free(robot);
    return 0;
}

static ns_dataset* make_data(const double* values, uint32_t count) {
    const ns_array_channel channels[] = {{.name = "joint/hinge/position", .sigma = 0.002},
                                         {.name = "joint/hinge/velocity", .sigma = 0.01}};
    ns_dataset* data = NULL;
    ns_error error = {0};
    must(ns_dataset_create_arrays(channels, 2, (const char*[]){"tau0"}, 1, 0.01, NULL, &data,
                                  &error),
         &error);
    must(ns_dataset_add_arrays(data, "swing", count, values, controls, &error), &error);
    return data;
}

static ns_parameters* make_params(const ns_allocator* memory) {
    ns_parameters* params = NULL;
    ns_error error = {0};
    ns_system_options options = ns_default_system_options();
    options.timestep = 0.01; // that of the recording
    ns_variant variant = {.model = robot, .options = &options};
    must(ns_parameters_create(&variant, 1, memory, &params, &error), &error);
    must(ns_parameters_add(params, "joint/hinge/damping", NULL, &error), &error);
    must(ns_parameters_add(params, "link/rod/mass", NULL, &error), &error);
    return params;
}

static void near_the_truth(const ns_fit_result* result) {
    const double truth[] = {0.3, 1.4};
    assert_int_equal(result->nestimate, 2);
    for (uint32_t k = 0; k < 2; k++) {
        const ns_estimate* e = &result->estimates[k];
        print_message("%s %.5f +- %.5f %s, true %g\n", e->name, e->value, e->standard_error,
                      e->unit, truth[k]);
        assert_true(e->standard_error > 0.0 && e->standard_error < 0.02 * truth[k]);
        close_to(e->name, e->value, truth[k], 4.0 * e->standard_error);
        assert_int_equal(e->verdict, NS_VERDICT_OK);
        close_relative(sqrt(ns_fit_covariance(result, k, k)), e->standard_error, 1e-12);
    }
    assert_true(isnan(ns_fit_covariance(result, 0, 2)));
    assert_true(result->sigma > 0.8 && result->sigma < 1.2 && result->noise_known);
}

static void stages_by_calls(void** state) {
    (void)state;
    ns_error error = {0};
    ns_dataset *train = make_data(recorded, SAMPLES), *test = make_data(clean, 100);
    ns_parameters* params = make_params(NULL);
    ns_fit* fit = NULL;
    const ns_fit_stage stages[] = {{.windows.length = 20}, {.windows.length = 100}};
    const char* const angle[] = {"\"joint/hinge/position\""};
    const ns_metric metrics[] = {
        {.name = "angle", .unit = "rad", .formulas = angle, .nformula = 1}};
    ns_fit_spec spec = {.parameters = params,
                        .train = train,
                        .test = test,
                        .stages = stages,
                        .nstage = 2,
                        .prediction = {.horizons = (double[]){0.2, 0.5},
                                       .nhorizon = 2,
                                       .metrics = metrics,
                                       .nmetric = 1},
                        .title = "By calls",
                        .threads = 1};
    must(ns_fit_create(&spec, &fit, &error), &error);
    assert_null(ns_fit_get_result(fit));
    must(ns_fit_run(fit, NULL, &error), &error);
    const ns_fit_result* result = ns_fit_get_result(fit);
    near_the_truth(result);
    assert_string_equal(result->title, "By calls");
    assert_true(result->complete && result->nphase == 2 && result->nhistory > 0);
    assert_string_equal(result->phases[1].name, "windows of 100, LM");

    // Scores of the test set, at both horizons and of the metric; there is none to validate on.
    const ns_score* after = &result->after[NS_ROLE_TEST];
    assert_int_equal(after->nhorizon, 2);
    assert_int_equal(after->nmetric, 1);
    assert_true(after->horizons[1].pooled < 0.1 * result->before[NS_ROLE_TEST].horizons[1].pooled);
    assert_int_equal(result->after[NS_ROLE_VALIDATION].windows, 0);

    // The same again, to the bit, and the report of a fit without files.
    double value = result->estimates[0].value;
    must(ns_fit_run(fit, NULL, &error), &error);
    same_bits("again", &ns_fit_get_result(fit)->estimates[0].value, &value, 1);
    must(ns_fit_save(fit, tempdir_path("out"), &error), &error);
    char* text = tempdir_read("out/result.json");
    assert_says(text, "By calls");
    free(text);
    text = tempdir_read("out/fitted.yaml");
    assert_string_equal(text, "");
    free(text);
    ns_fit_free(fit);
    ns_parameters_free(params);
    ns_dataset_free(train);
    ns_dataset_free(test);
}

static bool no_result(const ns_fit* fit) {
    ns_error error = {0};
    ns_report* report = NULL;
    struct stat info;
    assert_int_equal(ns_fit_report(fit, NULL, &report, &error), NS_ERR_STATE);
    assert_says(error.message, "call ns_fit_run");
    assert_null(report);
    assert_int_equal(ns_fit_save(fit, tempdir_path("none"), &error), NS_ERR_STATE);
    assert_says(error.message, "call ns_fit_run");
    return stat(tempdir_path("none"), &info) != 0 && !ns_fit_get_result(fit);
}

// There is nothing to save or to show before a run, nor after one that failed.
static void a_result_needs_a_run(void** state) {
    (void)state;
    ns_error error = {0};
    ns_dataset* train = make_data(recorded, SAMPLES);
    ns_parameters* params = make_params(NULL);
    ns_fit* fit = NULL;
    const ns_fit_stage stage = {.windows.length = 100, .max_iterations = 1};
    ns_fit_spec spec = {
        .parameters = params, .train = train, .stages = &stage, .nstage = 1, .threads = 1};
    must(ns_fit_create(&spec, &fit, &error), &error);
    assert_true(no_result(fit));

    // A damping that blows the motion up.
    must(ns_fit_run(fit, NULL, &error), &error);
    must(ns_fit_set_initial(fit, "joint/hinge/damping", 1e9, &error), &error);
    assert_int_equal(ns_fit_run(fit, NULL, &error), NS_ERR_NONFINITE);
    assert_true(no_result(fit));
    ns_fit_free(fit);
    ns_parameters_free(params);
    ns_dataset_free(train);
}

// One call on residuals gives what the last stage of a fit gives.
static void least_squares(void** state) {
    (void)state;
    ns_error error = {0};
    ns_dataset* data = make_data(recorded, SAMPLES);
    ns_parameters *params = make_params(NULL), *others = make_params(NULL);
    ns_window_options windows = {.length = 50};
    ns_residuals* r = NULL;
    ns_fit_result* result = NULL;
    must(ns_residuals_create(params, data, &windows, 1, &r, &error), &error);
    must(ns_least_squares_fit(r, NULL, &result, &error), &error);
    near_the_truth(result);
    assert_string_equal(result->phases[0].finish, "converged");

    ns_fit* fit = NULL;
    ns_fit_stage stage = {.windows = windows};
    ns_fit_spec spec = {
        .parameters = others, .train = data, .stages = &stage, .nstage = 1, .threads = 1};
    must(ns_fit_create(&spec, &fit, &error), &error);
    must(ns_fit_run(fit, NULL, &error), &error);
    for (uint32_t k = 0; k < 2; k++) {
        const ns_estimate* same = &ns_fit_get_result(fit)->estimates[k];
        same_bits("value", &result->estimates[k].value, &same->value, 1);
        same_bits("error", &result->estimates[k].standard_error, &same->standard_error, 1);
    }
    ns_residuals_free(r); // the result has texts of its own
    ns_parameters_free(params);
    assert_string_equal(result->estimates[0].name, "joint/hinge/damping");
    ns_fit_result_free(result);
    ns_fit_result_free(NULL);
    ns_fit_free(fit);
    ns_parameters_free(others);
    ns_dataset_free(data);
}

static void refused(const ns_fit_spec* spec, const char* says) {
    ns_fit* fit = NULL;
    ns_error error = {0};
    assert_int_equal(ns_fit_create(spec, &fit, &error), NS_ERR_ARGUMENT);
    assert_int_equal(error.status, NS_ERR_ARGUMENT);
    assert_says(error.message, says);
    assert_null(fit);
}

static void mistakes(void** state) {
    (void)state;
    ns_dataset* data = make_data(recorded, SAMPLES);
    ns_parameters* params = make_params(NULL);
    const ns_fit_spec right = {.parameters = params, .train = data};
    ns_fit_spec spec = right;
    spec.parameters = NULL;
    refused(&spec, "no parameters");
    spec = right, spec.train = NULL;
    refused(&spec, "train");
    ns_fit_stage stage = {.solver = "lbgfs"};
    spec = right, spec.stages = &stage, spec.nstage = 1;
    refused(&spec, "lbfgs");
    stage = (ns_fit_stage){.windows.length = 100000};
    refused(&spec, "longer than every recording");
    spec = right, spec.search.solver = "basin_hopping";
    refused(&spec, "lower and upper");
    spec = right, spec.prediction.horizons = (double[]){1.0, 0.5}, spec.prediction.nhorizon = 2;
    refused(&spec, "ascending");
    spec = right, spec.prediction.errors = (const char*[]){"angle"}, spec.prediction.nerror = 1;
    refused(&spec, "no channel angle");

    // Counts of lists that are not there.
    const ns_metric metric = {.name = "angle", .nformula = 1};
    spec = right, spec.nstage = 1;
    refused(&spec, "stages is NULL");
    spec = right, spec.prediction.nhorizon = 2;
    refused(&spec, "horizons is NULL");
    spec = right, spec.prediction.nerror = 1;
    refused(&spec, "errors is NULL");
    spec = right, spec.prediction.nmetric = 1;
    refused(&spec, "metrics is NULL");
    spec.prediction.metrics = &metric;
    refused(&spec, "formulas of a metric is NULL");

    // Options of windows.
    const struct {
        ns_window_options windows;
        const char* says;
    } cases[] = {{{.continuity_weight = -1.0}, "continuity_weight"},
                 {{.continuity_weight = NAN}, "continuity_weight"},
                 {{.weight_decay = NAN}, "weight_decay"},
                 {{.weight_decay_upper = -1.0}, "weight_decay_upper"},
                 {{.robust = NS_ROBUST_HUBER}, "robust_width"},
                 {{.robust = (ns_robust_loss)3, .robust_width = 1.0}, "robust is out"},
                 {{.initial_state = (ns_initial_state)3}, "initial_state"},
                 {{.optimise = (ns_optimise)4}, "optimise"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        stage = (ns_fit_stage){.windows = cases[k].windows};
        spec = right, spec.stages = &stage, spec.nstage = 1;
        refused(&spec, cases[k].says);
    }
    ns_error error = {0};
    assert_int_equal(ns_least_squares_fit(NULL, NULL, NULL, &error), NS_ERR_ARGUMENT);
    ns_residuals* r = NULL;
    ns_fit_result* result = NULL;
    must(ns_residuals_create(params, data, NULL, 1, &r, &error), &error);
    const ns_solver_options penalties[] = {{.l1 = 0.1}, {.group_lasso = 0.1}};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(ns_least_squares_fit(r, &penalties[k], &result, &error), NS_ERR_ARGUMENT);
        assert_says(error.message, "a stage of ns_fit_create");
    }
    ns_residuals_free(r);
    ns_parameters_free(params);
    ns_dataset_free(data);
}

static ns_status fit_with(const ns_allocator* memory, ns_parameters* params, const ns_dataset* data,
                          ns_error* error) {
    (void)memory;
    ns_fit* fit = NULL;
    ns_fit_stage stage = {.windows.length = 50, .max_iterations = 1};
    ns_fit_spec spec = {
        .parameters = params, .train = data, .stages = &stage, .nstage = 1, .threads = 1};
    ns_status status = ns_fit_create(&spec, &fit, error);
    if (status == NS_OK) status = ns_fit_run(fit, NULL, error);
    ns_fit_free(fit);
    return status;
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    ns_dataset* data = make_data(recorded, SAMPLES);
    for (size_t n = 1;; n++) {
        test_alloc counter = {0};
        ns_allocator memory = test_allocator(&counter);
        ns_parameters* params = make_params(&memory);
        ns_error error = {0};
        counter.fail_at = counter.calls + n;
        ns_status status = fit_with(&memory, params, data, &error);
        bool failed = counter.calls >= counter.fail_at;
        if (!failed) must(status, &error);
        // A solver takes too little memory for a failure of its own, of which a note tells.
        if (failed && status != NS_OK) {
            assert_true(status == NS_ERR_NOMEM || status == NS_ERR_NONFINITE);
        }
        ns_parameters_free(params);
        assert_int_equal(counter.live_blocks, 0);
        if (!failed) break;
    }
    ns_dataset_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_by_calls),
        cmocka_unit_test(a_result_needs_a_run),
        cmocka_unit_test(least_squares),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_recording, free_model);
}
