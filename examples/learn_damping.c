// Estimate the damping of a pendulum's joints from a recording, without any file but the robot's.
#include <neuralsim/fit.h>

#include <stdio.h>
enum { ROWS = 500 };

int main(void) {
    ns_error error = {0};
    ns_model* robot;
    ns_system* truth;
    ns_workspace* work;
    ns_parameters* params;
    ns_dataset* data;
    ns_residuals* residuals;
    ns_fit_result* result;
    static double recording[(ROWS + 1) * 4]; // q0 q1 qd0 qd1

    // The recording: joints with a damping of 0.3 N m s/rad, swinging.
    ns_system_options options = ns_default_system_options();
    options.set = &(ns_param_value){"joint/*/damping", 0.3}, options.nset = 1;
    ns_rollout_args run = {1, ROWS, .x0 = (double[]){2, 1, 0, 0}, .states = recording};
    if (ns_model_load("models/double_pendulum.urdf", NULL, &robot, &error) ||
        ns_system_create(robot, &options, &truth, &error) ||
        ns_workspace_create(truth, &(ns_workspace_size){.steps = ROWS, .batch = 1}, &work,
                            &error) ||
        ns_rollout(truth, work, &run, &error)) {
        return fprintf(stderr, "learn_damping: %s\n", error.message), 1;
    }

    // The fit: damping of each joint, from windows of 50 samples with free initial states.
    ns_array_channel channels[] = {
        {.name = "q0"}, {.name = "q1"}, {.name = "qd0"}, {.name = "qd1"}};
    double period = ns_system_get_sizes(truth).timestep;
    if (ns_dataset_create_arrays(channels, 4, NULL, 0, period, NULL, &data, &error) ||
        ns_dataset_add_arrays(data, "swing", ROWS + 1, recording, NULL, &error) ||
        ns_parameters_create(&(ns_variant){.model = robot}, 1, NULL, &params, &error) ||
        ns_parameters_add(params, "joint/*/damping", NULL, &error) ||
        ns_residuals_create(params, data, &(ns_window_options){.length = 50}, 0, &residuals,
                            &error) ||
        ns_least_squares_fit(residuals, NULL, &result, &error)) {
        return fprintf(stderr, "learn_damping: %s\n", error.message), 1;
    }
    for (uint32_t k = 0; k < result->nestimate; k++) {
        const ns_estimate* e = &result->estimates[k];
        printf("%s  %.4f +- %.1g %s\n", e->name, e->value, e->standard_error, e->unit);
    }
    ns_fit_result_free(result), ns_residuals_free(residuals), ns_parameters_free(params);
    ns_dataset_free(data), ns_workspace_free(work), ns_system_free(truth), ns_model_free(robot);
    return 0;
}
