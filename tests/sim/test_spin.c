// Bodies that spin fast. Runge-Kutta: they fall as if they did not, and tumbling keeps the order of the
// method. Gyroscopic torques over a step: energy and angular momentum stay.

#include "neuralsim/sim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { NX = 13 };

static ns_model* make_body(double ixx, double iyy, double izz) {
    ns_error error;
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    ns_link_def body = ns_default_link_def();
    body.name = "body";
    body.joint_type = NS_JOINT_FLOATING;
    body.mass = 2.0;
    body.inertia[0] = ixx, body.inertia[1] = iyy, body.inertia[2] = izz;
    assert_int_equal(ns_model_builder_create(NULL, &builder, &error), NS_OK);
    assert_int_equal(ns_model_builder_add_link(builder, &body, &error), NS_OK);
    assert_int_equal(ns_model_builder_finish(builder, &model, &error), NS_OK);
    ns_model_builder_free(builder);
    return model;
}

// The state after so many steps in all of `seconds`.
static void run_with(const ns_model* model, int integrator, double seconds, uint32_t steps,
                     const double* x0, double* x) {
    ns_error error;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_system_options options = ns_default_system_options();
    options.integrator = integrator;
    options.timestep = seconds / steps;
    assert_int_equal(ns_system_create(model, &options, &system, &error), NS_OK);
    ns_workspace_size size = {.batch = 1, .steps = steps, .threads = 1};
    assert_int_equal(ns_workspace_create(system, &size, &work, &error), NS_OK);
    double* states = malloc((steps + 1) * NX * sizeof *states);
    ns_rollout_args args = {.batch = 1, .steps = steps, .x0 = x0, .states = states};
    assert_int_equal(ns_rollout(system, work, &args, &error), NS_OK);
    memcpy(x, states + (size_t)steps * NX, NX * sizeof *x);
    free(states);
    ns_workspace_free(work);
    ns_system_free(system);
}

static void run(const ns_model* model, double seconds, uint32_t steps, const double* x0,
                double* x) {
    run_with(model, NS_INTEGRATOR_RK4, seconds, steps, x0, x);
}

// More than a radian in a step: the way of the ball is that of free fall all the same.
static void a_spinning_ball_falls_like_any_other(void** state) {
    (void)state;
    ns_model* model = make_body(0.01, 0.01, 0.01);
    double x0[NX] = {0, 0, 10, 1, 0, 0, 0, 3, -1, 4, 120, -90, 130}, x[NX], t = 0.35;
    run(model, t, 50, x0, x);
    for (int k = 0; k < 3; k++) {
        double fall = k == 2 ? 9.81 : 0.0;
        assert_true(fabs(x[k] - (x0[k] + x0[7 + k] * t - 0.5 * fall * t * t)) < 1e-9);
        assert_true(fabs(x[7 + k] - (x0[7 + k] - fall * t)) < 1e-9);
    }
    ns_model_free(model);
}

// Halving the step divides the error by 16, also of rotations about axes that move.
static void tumbling_is_of_fourth_order(void** state) {
    (void)state;
    ns_model* model = make_body(0.01, 0.02, 0.025);
    double x0[NX] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 6, -3}, exact[NX], x[NX], error[2];
    run(model, 0.8, 4096, x0, exact);
    for (int n = 0; n < 2; n++) {
        run(model, 0.8, n == 0 ? 32 : 64, x0, x);
        error[n] = 0.0;
        for (int k = 3; k < NX; k++) error[n] = fmax(error[n], fabs(x[k] - exact[k]));
    }
    assert_true(error[0] > 1e-9 && error[0] < 1e-2);
    assert_true(error[0] / error[1] > 12.0 && error[0] / error[1] < 25.0);
    ns_model_free(model);
}

// ---- the integrator gyro ---------------------------------------------------------------------

// Kinetic energy of turning, and angular momentum in the body's axes.
static double turning_energy(const double* x, const double* moments) {
    double sum = 0.0;
    for (int k = 0; k < 3; k++) sum += 0.5 * moments[k] * x[10 + k] * x[10 + k];
    return sum;
}

static double spin(const double* x, const double* moments) {
    double sum = 0.0;
    for (int k = 0; k < 3; k++) sum += moments[k] * moments[k] * x[10 + k] * x[10 + k];
    return sqrt(sum);
}

// The midpoint rule keeps the energy and the amount of angular momentum for ever; 3 Newton steps solve
// it. Rigid contact is possible, since the torque is one of the step.
static void fast_spins_keep_their_energy(void** state) {
    (void)state;
    static const double moments[3] = {0.01, 0.02, 0.028};
    static const struct {
        double speed, allowed;
    } cases[] = {{10.0, 1e-12}, {100.0, 1e-12}, {500.0, 1e-12}};
    ns_model* model = make_body(moments[0], moments[1], moments[2]);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        enum { STEPS = 5000 };
        double s = cases[n].speed;
        double x0[NX] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0.6 * s, 0.75 * s, 0.28 * s}, x[NX];
        run_with(model, NS_INTEGRATOR_GYRO, 5.0, STEPS, x0, x);
        double energy = turning_energy(x, moments) / turning_energy(x0, moments) - 1.0;
        double momentum = spin(x, moments) / spin(x0, moments) - 1.0;
        print_message("    %g rad/s: energy %+.1e, momentum %+.1e after 5 s\n", s, energy,
                      momentum);
        assert_true(fabs(energy) < cases[n].allowed && fabs(momentum) < cases[n].allowed);
    }
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spinning_ball_falls_like_any_other),
        cmocka_unit_test(tumbling_is_of_fourth_order),
        cmocka_unit_test(fast_spins_keep_their_energy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
