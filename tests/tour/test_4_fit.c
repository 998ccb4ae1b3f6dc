// Tour 4 of 5: identify a parameter of a robot from a recording.
//
// The recording is simulated here with a damping that the fit does not know, and written as a CSV
// file. All files are in tempdir(), a temporary folder that is removed when the program ends.

#include "neuralsim/fit.h"
#include "support/assert.h"
#include "support/tempdir.h"
#include "support/trial.h"

#include <math.h>
#include <stdio.h>

#define PENDULUM(damping)                                                                          \
    "<mujoco><option timestep='0.01'/><worldbody><body name='rod'>"                                \
    "<joint name='hinge' type='hinge' axis='0 1 0' damping='" damping "'/>"                        \
    "<inertial pos='0 0 -0.5' mass='1.5' diaginertia='0.02 0.02 0.01'/>"                           \
    "</body></worldbody></mujoco>"

enum { STEPS = 300 };

// A table with a column for the time and one for each number of the state: "q0" and "qd0" are names
// that the fit recognises without being told. Noise of 0.001 rad is on the angle.
static void record(const char* file) {
    trial t = trial_make(PENDULUM("0.2"), NULL, STEPS);
    t.x0[0] = 1.2;
    trial_run(&t);
    ns_rng rng = ns_rng_seed(1);
    FILE* out = fopen(file, "w");
    assert_non_null(out);
    fprintf(out, "t,q0,qd0\n");
    for (uint32_t k = 0; k <= STEPS; k++) {
        const double* x = trial_state(&t, k);
        fprintf(out, "%.3f,%.9g,%.9g\n", 0.01 * k, x[0] + 0.001 * ns_rng_normal(&rng), x[1]);
    }
    fclose(out);
    trial_free(&t);
}

static void damping_is_identified(void** state) {
    (void)state;
    ns_error error = {0};
    record(tempdir_path("swing.csv"));
    tempdir_write("pendulum.xml", PENDULUM("0.05")); // what we believe before we look at data

    // What to fit to what. Everything that is not said has a default (docs/fit.md).
    tempdir_write("fit.yaml", "model: pendulum.xml\n"
                              "data: {train: [swing.csv]}\n"
                              "parameters: {joint/hinge/damping: free}\n");
    ns_fit* fit = NULL;
    must(ns_fit_load(tempdir_path("fit.yaml"), 1, &fit, &error), &error);
    must(ns_fit_run(fit, NULL, &error), &error);

    // The estimate comes with a standard error, from the noise that is left in the residuals. The
    // truth is within four of them, and they are small.
    double damping, off;
    assert_true(ns_fit_estimate(fit, "joint/hinge/damping", &damping, &off));
    print_message("damping %.5f +- %.5f, true 0.2\n", damping, off);
    assert_true(off > 0.0 && off < 0.01);
    close_to("damping", damping, 0.2, 4.0 * off);
    ns_fit_free(fit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damping_is_identified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
