// Tour 2 of 5: derivatives of a simulation, compared with finite differences.
//
// trial.h holds what tour 1 built step by step: a model, its system, a workspace and one robot.

#include "support/assert.h"
#include "support/trial.h"

#include <math.h>

// A damped pendulum, q0 from hanging down. The parameters are those of the file, by name:
// joint/hinge/damping, link/rod/mass, ... `neuralsim quantities FILE` lists them.
static const char pendulum[] = "<mujoco><option timestep='0.005'/><worldbody><body name='rod'>"
                               "<joint name='hinge' type='hinge' axis='0 1 0' damping='0.1'/>"
                               "<inertial pos='0 0 -0.5' mass='1.5' diaginertia='0.02 0.02 0.01'/>"
                               "</body></worldbody></mujoco>";

enum { STEPS = 200, Q = 0, QD = 1, NX = 2 };

// The angle after a second.
static double final_angle(trial* t) {
    trial_run(t);
    return trial_end(t)[Q];
}

// The slope of final_angle() along one number that it depends on, by central differences.
static double slope(trial* t, double* number) {
    const double step = 1e-5, kept = *number;
    *number = kept + step;
    double above = final_angle(t);
    *number = kept - step;
    double below = final_angle(t);
    *number = kept;
    return (above - below) / (2.0 * step);
}

static void gradients_of_a_rollout_are_exact(void** state) {
    (void)state;

    // Parameters are constants of the compiled step unless they are set free.
    static const char* const names[] = {"joint/hinge/damping", "link/rod/mass"};
    ns_system_options options = ns_default_system_options();
    options.free_params = names, options.nfree = 2;
    trial t = trial_make(pendulum, &options, STEPS);
    t.x0[Q] = 1.2, t.x0[QD] = -0.5;

    // Reverse mode: one pass back through the simulation gives the derivatives of one number, here
    // the final angle, for everything that it depends on. trial_gradient() calls ns_rollout_vjp()
    // and makes sure that forward mode, ns_rollout_jvp(), agrees with it.
    double dx0[NX], dparams[2];
    trial_gradient(&t, Q, dx0, dparams);

    // Differences need two simulations for each number and are good to about 9 digits.
    close_to("d angle / d initial angle", dx0[Q], slope(&t, &t.x0[Q]), 1e-7);
    close_to("d angle / d initial velocity", dx0[QD], slope(&t, &t.x0[QD]), 1e-7);
    for (int k = 0; k < 2; k++) close_to(names[k], dparams[k], slope(&t, &t.params[k]), 1e-7);

    // A test that cannot fail proves nothing: none of these derivatives is zero.
    for (int k = 0; k < 2; k++) assert_true(fabs(dx0[k]) > 1e-3 && fabs(dparams[k]) > 1e-3);
    trial_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_a_rollout_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
