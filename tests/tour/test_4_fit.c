// Tour 4 of 5: identify a parameter of a robot from a recording.
//
// The recording is simulated here with a damping that the fit does not know. Nothing is read from a
// file: the same fit as a YAML file is in docs/fit.md.

#include "neuralsim/fit.h"
#include "support/assert.h"
#include "support/trial.h"

#define PENDULUM(damping)                                                                          \
    "<mujoco><option timestep='0.01'/><worldbody><body name='rod'>"                                \
    "<joint name='hinge' type='hinge' axis='0 1 0' damping='" damping "'/>"                        \
    "<inertial pos='0 0 -0.5' mass='1.5' diaginertia='0.02 0.02 0.01'/>"                           \
    "</body></worldbody></mujoco>"

enum { STEPS = 300, SAMPLES = STEPS + 1 };

// Angle and velocity of each sample; noise of 0.001 rad is on the angle.
static void record(double* values) {
    trial t = trial_make(PENDULUM("0.2"), NULL, STEPS);
    t.x0[0] = 1.2;
    trial_run(&t);
    ns_rng rng = ns_rng_seed(1);
    for (uint32_t k = 0; k < SAMPLES; k++) {
        values[2 * k] = trial_state(&t, k)[0] + 0.001 * ns_rng_normal(&rng);
        values[2 * k + 1] = trial_state(&t, k)[1];
    }
    trial_free(&t);
}

static void damping_is_identified(void** state) {
    (void)state;
    ns_error error = {0};
    static double values[2 * SAMPLES];
    record(values);

    // A dataset names what the numbers are, and how noisy: here the scale is how far they move.
    const ns_array_channel channels[] = {{.name = "joint/hinge/position"},
                                         {.name = "joint/hinge/velocity"}};
    ns_dataset* data = NULL;
    must(ns_dataset_create_arrays(channels, 2, NULL, 0, 0.01, NULL, &data, &error), &error);
    must(ns_dataset_add_arrays(data, "swing", SAMPLES, values, NULL, &error), &error);

    // What we believe before we look at data, and what is to be estimated of it.
    const char text[] = PENDULUM("0.05");
    ns_model* robot = NULL;
    ns_parameters* params = NULL;
    must(ns_model_parse(text, sizeof text - 1, "pendulum.xml", NULL, &robot, &error), &error);
    must(ns_parameters_create(&(ns_variant){.model = robot}, 1, NULL, &params, &error), &error);
    must(ns_parameters_add(params, "joint/hinge/damping", NULL, &error), &error);

    // Residuals over the whole recording, and the parameters that make them smallest.
    ns_residuals* residuals = NULL;
    ns_fit_result* result = NULL;
    must(ns_residuals_create(params, data, NULL, 1, &residuals, &error), &error);
    must(ns_least_squares_fit(residuals, NULL, &result, &error), &error);

    // The estimate comes with a standard error, from the noise that is left in the residuals. The
    // truth is within four of them, and they are small.
    const ns_estimate* damping = &result->estimates[0];
    print_message("%s %.5f +- %.5f %s, true 0.2\n", damping->name, damping->value,
                  damping->standard_error, damping->unit);
    assert_true(damping->standard_error > 0.0 && damping->standard_error < 0.01);
    close_to("damping", damping->value, 0.2, 4.0 * damping->standard_error);

    ns_fit_result_free(result);
    ns_residuals_free(residuals);
    ns_parameters_free(params);
    ns_dataset_free(data);
    ns_model_free(robot);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damping_is_identified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
