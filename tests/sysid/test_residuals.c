// Residuals by calls: derivatives against finite differences, and the same bits as a fit file.

#include "fit/fit_state.h"
#include "neuralsim/learned.h"
#include "neuralsim/residuals.h"
#include "support/assert.h"
#include "support/tempdir.h"
#include "support/testalloc.h"
#include "support/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PENDULUM(damping)                                                                          \
    "<mujoco><option timestep='0.01'/><worldbody><body name='rod'>"                                \
    "<joint name='hinge' type='hinge' axis='0 1 0' damping='" damping "'/>"                        \
    "<inertial pos='0 0 -0.5' mass='1.5' diaginertia='0.02 0.02 0.01'/>"                           \
    "</body></worldbody></mujoco>"

enum { STEPS = 60, SAMPLES = STEPS + 1 };

static ns_model* robot;
static double recorded[SAMPLES * 2]; // q, qd

// A swing with more damping than the model has.
static int make_recording(void** state) {
    (void)state;
    trial t = trial_make(PENDULUM("0.2"), NULL, STEPS);
    t.x0[0] = 1.2;
    trial_run(&t);
    memcpy(recorded, t.states, sizeof recorded);
    trial_free(&t);
    return ns_model_parse(PENDULUM("0.05"), sizeof PENDULUM("0.05") - 1, "rod.xml", NULL, &robot,
                          NULL);
}

static int free_model(void** state) {
    (void)state;
    ns_model_free(robot);
    return 0;
}

static ns_dataset* make_data(void) {
    const ns_array_channel channels[] = {{.name = "joint/hinge/position", .sigma = 0.01},
                                         {.name = "qd0", .sigma = 0.05}};
    ns_dataset* data = NULL;
    ns_error error = {0};
    must(ns_dataset_create_arrays(channels, 2, NULL, 0, 0.01, NULL, &data, &error), &error);
    must(ns_dataset_add_arrays(data, "swing", SAMPLES, recorded, NULL, &error), &error);
    return data;
}

static ns_parameters* make_params(const ns_allocator* memory) {
    ns_parameters* params = NULL;
    ns_parameter mass = ns_default_parameter();
    ns_error error = {0};
    mass.prior_sigma = 0.3;
    must(ns_parameters_create(&(ns_variant){.model = robot}, 1, memory, &params, &error), &error);
    must(ns_parameters_add(params, "joint/hinge/damping", NULL, &error), &error);
    must(ns_parameters_add(params, "link/rod/mass", &mass, &error), &error);
    return params;
}

// A step along one unknown and the cost there.
static double cost_beside(ns_residuals* r, double* step, uint32_t k, double h) {
    step[k] = h;
    ns_residuals_move(r, step);
    double cost = ns_residuals_cost(r);
    step[k] = -h;
    ns_residuals_move(r, step);
    step[k] = 0.0;
    return cost;
}

static void gradient_is_that_of_the_cost(void** state) {
    (void)state;
    ns_error error = {0};
    ns_dataset* data = make_data();
    const ns_window_options options[] = {
        {.length = 20},
        {.length = 20, .initial_state = NS_INITIAL_STATE_RECORDED},
        {.length = 20, .initial_state = NS_INITIAL_STATE_TIED, .continuity_weight = 3.0},
        {.robust = NS_ROBUST_HUBER, .robust_width = 2.0},
    };
    for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
        ns_parameters* params = make_params(NULL);
        ns_residuals* r = NULL;
        must(ns_residuals_create(params, data, &options[o], 1, &r, &error), &error);
        uint32_t n = ns_residuals_unknown_count(r);
        double *gradient = doubles(n), *step = doubles(n);
        assert_true(isfinite(ns_residuals_gradient(r, gradient)));
        for (uint32_t k = 0; k < n; k++) {
            const double h = 1e-6;
            double slope = (cost_beside(r, step, k, h) - cost_beside(r, step, k, -h)) / (2.0 * h);
            close_to("slope", gradient[k], slope, 1e-4 * (fabs(slope) + max_abs(gradient, n)));
        }
        free(gradient);
        free(step);
        ns_residuals_free(r);
        ns_parameters_free(params);
    }
    ns_dataset_free(data);
}

// With recorded initial states, H is J'J of the residuals and of the prior.
static void normal_equations_are_those_of_the_residuals(void** state) {
    (void)state;
    ns_error error = {0};
    ns_dataset* data = make_data();
    ns_parameters* params = make_params(NULL);
    ns_residuals* r = NULL;
    ns_window_options options = {.length = 30, .initial_state = NS_INITIAL_STATE_RECORDED};
    must(ns_residuals_create(params, data, &options, 1, &r, &error), &error);
    assert_int_equal(ns_residuals_unknown_count(r), 2);
    assert_int_equal(ns_residuals_window_count(r), 2);
    uint32_t rows = ns_residuals_count(r);
    assert_int_equal(rows, 2 * 30 * 2);

    // Columns of the Jacobian by central differences; the prior is a row more.
    double* J = doubles(2 * ((size_t)rows + 1));
    const double h = 1e-6;
    for (uint32_t k = 0; k < 2; k++) {
        double step[2] = {0};
        for (int side = 1; side >= -1; side -= 2) {
            step[k] = side * h;
            ns_residuals_move(r, step);
            ns_residuals_cost(r);
            double v[2];
            ns_residuals_get_parameters(r, v);
            const double* values = ns_residuals_values(r);
            for (uint32_t i = 0; i < rows; i++) J[2 * i + k] += side * values[i] / (2.0 * h);
            J[2 * rows + k] += side * v[1] / 0.3 / (2.0 * h);
            step[k] = -side * h;
            ns_residuals_move(r, step);
        }
    }
    double H[4], g[2], gradient[2], own[4] = {0};
    must(ns_residuals_normal_equations(r, H, g, &error), &error);
    ns_residuals_gradient(r, gradient);
    for (uint32_t i = 0; i <= rows; i++) {
        for (uint32_t k = 0; k < 4; k++) own[k] += J[2 * i + k / 2] * J[2 * i + k % 2];
    }
    for (uint32_t k = 0; k < 4; k++) close_relative(H[k], own[k], 1e-4 * max_abs(own, 4));
    for (uint32_t k = 0; k < 2; k++) close_to("g", g[k], gradient[k], 1e-9 * max_abs(gradient, 2));
    free(J);
    ns_residuals_free(r);
    ns_parameters_free(params);
    ns_dataset_free(data);
}

static void rows_and_unknowns_have_names(void** state) {
    (void)state;
    ns_error error = {0};
    ns_dataset* data = make_data();
    ns_parameters* params = make_params(NULL);
    ns_residuals* r = NULL;
    must(ns_residuals_create(params, data, &(ns_window_options){.length = 20}, 1, &r, &error),
         &error);
    ns_residual_info info = ns_residuals_at(r, 21 * 2 + 3);
    assert_true(info.window == 1 && info.recording == 0 && info.sample == 21);
    assert_string_equal(info.channel, "qd0");
    assert_null(ns_residuals_at(r, ns_residuals_count(r)).channel);
    char name[64];
    const char* const names[] = {"joint/hinge/damping", "link/rod/mass",
                                 "window 0: joint/hinge/position", "window 0: qd0",
                                 "window 1: joint/hinge/position"};
    for (uint32_t k = 0; k < 5; k++) {
        ns_residuals_unknown_name(r, k, name, sizeof name);
        assert_string_equal(name, names[k]);
    }
    ns_residuals_unknown_name(r, 1000, name, sizeof name);
    assert_string_equal(name, "");
    ns_residuals_unknown_name(r, 0, name, 6);
    assert_string_equal(name, "joint");

    // Values there and back; at the truth nothing is left.
    double v[2], states[3 * 2];
    ns_residuals_get_parameters(r, v);
    close_to("damping", v[0], 0.05, 1e-12);
    v[0] = 0.2;
    ns_residuals_set_parameters(r, v);
    ns_residuals_get_initial_states(r, states);
    for (int w = 0; w < 3; w++) memcpy(states + 2 * w, recorded + 40 * w, 2 * sizeof(double));
    ns_residuals_set_initial_states(r, states);
    assert_true(ns_residuals_cost(r) < 1e-15);
    assert_true(ns_residuals_rms(r) < 1e-7);
    assert_int_equal(ns_parameters_add(params, "link/rod/com/x", NULL, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, "in use");
    assert_non_null(ns_residuals_system(r, 0));
    assert_null(ns_residuals_system(r, 1));
    ns_residuals_free(r);
    ns_parameters_free(params);
    ns_dataset_free(data);
}

// The same problem from files.
static void a_fit_file_gives_the_same_bits(void** state) {
    (void)state;
    ns_error error = {0};
    FILE* table = fopen(tempdir_path("swing.csv"), "w");
    assert_non_null(table);
    fprintf(table, "a,b\n");
    for (int k = 0; k < SAMPLES; k++) {
        fprintf(table, "%.17g,%.17g\n", recorded[2 * k], recorded[2 * k + 1]);
    }
    fclose(table);
    tempdir_write("rod.xml", PENDULUM("0.05"));
    tempdir_write("map.yaml", "rate: 100\nobserve:\n"
                              "  joint/hinge/position: {value: a, sigma: 0.01}\n"
                              "  qd0: {value: b, sigma: 0.05}\n");
    ns_fit* fit = NULL;
    FILE* file = fopen(tempdir_path("fit.yaml"), "w");
    assert_non_null(file);
    fprintf(file,
            "model: rod.xml\ndata: {map: map.yaml, train: [swing.csv]}\n"
            "parameters:\n  joint/hinge/damping: free\n  link/rod/mass: {prior_sigma: 0.3}\n");
    fclose(file);
    must(ns_fit_load(tempdir_path("fit.yaml"), 1, &fit, &error), &error);

    ns_window_options options = {.length = 20};
    nsi_objective* e = NULL;
    must(
        nsi_objective_create(fit->problem, fit->data[NS_ROLE_TRAIN], &options, NULL, 1, &e, &error),
        &error);
    ns_dataset* data = make_data();
    ns_parameters* params = make_params(NULL);
    ns_residuals* r = NULL;
    must(ns_residuals_create(params, data, &options, 1, &r, &error), &error);
    uint32_t n = ns_residuals_unknown_count(r);
    assert_int_equal(nsi_objective_unknowns(e), n);
    double *got = doubles(n), *want = doubles(n);
    double cost = nsi_objective_gradient(e, want), mine = ns_residuals_gradient(r, got);
    same_bits("cost", &mine, &cost, 1);
    same_bits("gradient", got, want, n);
    free(got);
    free(want);
    nsi_objective_free(e);
    ns_fit_free(fit);
    ns_residuals_free(r);
    ns_parameters_free(params);
    ns_dataset_free(data);
}

// A learned system has no parameters: its weights are the unknowns.
static void learned_systems_have_residuals(void** state) {
    (void)state;
    ns_error error = {0};
    ns_learned_def def = ns_default_learned_def();
    def.nx = 2;
    def.hidden = (uint32_t[]){3}, def.nhidden = 1;
    def.state_names = (const char*[]){"joint/hinge/position", "qd0"};
    ns_system* system = NULL;
    must(ns_system_create_learned(&def, NULL, NS_BACKEND_AUTO, &system, &error), &error);
    ns_dataset* data = make_data();
    ns_residuals* r = NULL;
    ns_window_options options = {.length = 5, .initial_state = NS_INITIAL_STATE_RECORDED};
    must(ns_residuals_create_system(system, data, &options, 1, &r, &error), &error);
    uint32_t n = ns_residuals_unknown_count(r);
    assert_int_equal(n, ns_system_get_sizes(system).nw);
    double *gradient = doubles(n), *step = doubles(n);
    assert_true(isfinite(ns_residuals_gradient(r, gradient)));
    for (uint32_t k = 0; k < n; k++) {
        double slope = (cost_beside(r, step, k, 1e-6) - cost_beside(r, step, k, -1e-6)) / 2e-6;
        close_to("slope", gradient[k], slope, 1e-5 * max_abs(gradient, n));
    }
    free(gradient);
    free(step);
    ns_residuals_free(r);
    ns_dataset_free(data);
    ns_system_free(system);
}

static void mistakes(void** state) {
    (void)state;
    ns_error error = {0};
    ns_dataset *data = make_data(), *other = NULL;
    ns_parameters* params = make_params(NULL);
    ns_residuals* r = NULL;
    const ns_array_channel unknown = {.name = "joint/hinge/positon"};
    double two[2] = {0};
    must(ns_dataset_create_arrays(&unknown, 1, NULL, 0, 0.01, NULL, &other, &error), &error);
    must(ns_dataset_add_arrays(other, "a", 2, two, NULL, &error), &error);
    assert_int_equal(ns_residuals_create(params, other, NULL, 1, &r, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, "joint/hinge/position");
    assert_int_equal(error.status, NS_ERR_ARGUMENT);
    assert_int_equal(ns_residuals_create(NULL, data, NULL, 1, &r, &error), NS_ERR_ARGUMENT);
    assert_int_equal(
        ns_residuals_create(params, data, &(ns_window_options){.length = 1000}, 1, &r, &error),
        NS_ERR_ARGUMENT);
    assert_int_equal(ns_residuals_create(params, data,
                                         &(ns_window_options){.robust = NS_ROBUST_HUBER}, 1, &r,
                                         &error),
                     NS_ERR_ARGUMENT);
    assert_says(error.message, "robust_width");
    const ns_window_options unknown_choice = {.initial_state = (ns_initial_state)7};
    assert_int_equal(ns_residuals_create(params, data, &unknown_choice, 1, &r, &error),
                     NS_ERR_ARGUMENT);
    assert_says(error.message, "initial_state");
    assert_null(r);
    ns_residuals_free(NULL);
    ns_parameters_free(params);
    ns_dataset_free(other);
    ns_dataset_free(data);
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    ns_dataset* data = make_data();
    for (size_t n = 1;; n++) {
        test_alloc counter = {0};
        ns_allocator memory = test_allocator(&counter);
        ns_parameters* params = make_params(&memory);
        counter.fail_at = counter.calls + n;
        ns_residuals* r = NULL;
        ns_error error = {0};
        ns_window_options options = {.length = 20};
        ns_status status = ns_residuals_create(params, data, &options, 1, &r, &error);
        assert_int_equal(status, counter.calls < counter.fail_at ? NS_OK : NS_ERR_NOMEM);
        ns_residuals_free(r);
        ns_parameters_free(params);
        assert_int_equal(counter.live_blocks, 0);
        if (status == NS_OK) break;
    }
    ns_dataset_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_is_that_of_the_cost),
        cmocka_unit_test(normal_equations_are_those_of_the_residuals),
        cmocka_unit_test(rows_and_unknowns_have_names),
        cmocka_unit_test(a_fit_file_gives_the_same_bits),
        cmocka_unit_test(learned_systems_have_residuals),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_recording, free_model);
}
