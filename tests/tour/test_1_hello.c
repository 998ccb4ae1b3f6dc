// Tour 1 of 5: load a robot, simulate it, compare the motion with the formula.
//
// Start here. Tests use the public API as any program does: <neuralsim/...>, errors as values. What
// only tests need is in tests/support: must() fails the test with the message of an error, close_to()
// compares numbers.

#include "neuralsim/sim.h"
#include "support/assert.h"

#include <string.h>

// A robot is text: a URDF or MJCF file, or a string like this one. A body of 2 kg that slides along
// the vertical; its coordinate is q0, in m, its velocity qd0.
static const char robot[] =
    "<mujoco><option timestep='0.001' gravity='0 0 -9.81'/><worldbody>"
    "<body name='lift'><joint name='up' type='slide' axis='0 0 1'/>"
    "<inertial pos='0 0 0' mass='2' diaginertia='1 1 1'/></body></worldbody></mujoco>";

enum { STEPS = 1000, Q = 0, QD = 1, NX = 2 };

static void a_body_falls_as_galilei_says(void** state) {
    (void)state;
    ns_error error = {0};

    // A model holds what the file says: links, joints, masses.
    ns_model* model = NULL;
    must(ns_model_parse(robot, strlen(robot), "lift.xml", NULL, &model, &error), &error);

    // A system is the model's time step, compiled. NULL: the model's time step and integrator.
    ns_system* system = NULL;
    must(ns_system_create(model, NULL, &system, &error), &error);

    // A workspace is the memory for simulations of up to this size; ns_rollout() allocates nothing.
    ns_workspace* work = NULL;
    ns_workspace_size size = {.batch = 1, .steps = STEPS};
    must(ns_workspace_create(system, &size, &work, &error), &error);

    // Simulate one robot for a second, thrown upwards with 3 m/s. The state is q, then qd; the
    // rollout writes the initial state and the one after each step.
    double x0[NX] = {0.0, 3.0}, states[STEPS + 1][NX];
    ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0, .states = &states[0][0]};
    must(ns_rollout(system, work, &args, &error), &error);

    // The formulas of the throw. The velocity is exact. The integrator, semi-implicit Euler, takes
    // the new velocity for the position: exactly g h t / 2 below the parabola, h being the time step.
    const double g = 9.81, h = 0.001;
    for (int k = 0; k <= STEPS; k++) {
        double t = h * k;
        close_to("velocity", states[k][QD], 3.0 - g * t, 1e-10);
        close_to("position", states[k][Q], 3.0 * t - 0.5 * g * t * t - 0.5 * g * h * t, 1e-10);
    }

    // Who creates frees, in reverse order.
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
}

// Each test program is a list of functions; ctest runs this one as tour/1_hello.
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_falls_as_galilei_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
