// Estimate the damping of a double pendulum's joints from a recording in memory, with errors.
#include <neuralsim/fit.h>

#include <stdio.h>
#define TRY(call)                                                                                  \
    if (call) return fprintf(stderr, "learn_damping: %s\n", error.message), 1
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

    // The recording: joints with a damping of 0.3 N m s/rad, swinging. Columns are q0 q1 qd0 qd1.
    static double recording[(ROWS + 1) * 4];
    ns_system_options options = ns_default_system_options();
    options.set = &(ns_param_value){"joint/*/damping", 0.3}, options.nset = 1;
    ns_rollout_args run = {1, ROWS, .x0 = (double[]){2, 1, 0, 0}, .states = recording};
    TRY(ns_model_load("models/double_pendulum.urdf", NULL, &robot, &error));
    TRY(ns_system_create(robot, &options, &truth, &error));
    TRY(ns_workspace_create(truth, &(ns_workspace_size){.batch = 1, .steps = ROWS}, &work, &error));
    TRY(ns_rollout(truth, work, &run, &error));

    // The fit: the damping of each joint, from windows of 50 samples with free initial states.
    const ns_array_channel channels[] = {
        {.name = "q0"}, {.name = "q1"}, {.name = "qd0"}, {.name = "qd1"}};
    double period = ns_system_get_sizes(truth).timestep;
    ns_window_options windows = {.length = 50};
    TRY(ns_dataset_create_arrays(channels, 4, NULL, 0, period, NULL, &data, &error));
    TRY(ns_dataset_add_arrays(data, "swing", ROWS + 1, recording, NULL, &error));
    TRY(ns_parameters_create(&(ns_variant){.model = robot}, 1, NULL, &params, &error));
    TRY(ns_parameters_add(params, "joint/*/damping", NULL, &error));
    TRY(ns_residuals_create(params, data, &windows, 0, &residuals, &error));
    TRY(ns_least_squares_fit(residuals, NULL, &result, &error));
    for (const ns_estimate* e = result->estimates; e < result->estimates + result->nestimate; e++) {
        printf("%s  %.4f +- %.1g %s\n", e->name, e->value, e->standard_error, e->unit);
    }
    ns_fit_result_free(result), ns_residuals_free(residuals), ns_parameters_free(params);
    ns_dataset_free(data), ns_workspace_free(work), ns_system_free(truth), ns_model_free(robot);
    return 0;
}
