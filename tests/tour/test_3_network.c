// Tour 3 of 5: a neural network inside the simulation.
//
// A blueprint attaches networks to named quantities of the time step (docs/blueprint.md). This one
// adds a torque at a joint, computed from the joint's velocity. With the right weights it is the
// damping that the model of the robot lacks.

#include "neuralsim/blueprint.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/trial.h"

#define PENDULUM(damping)                                                                          \
    "<mujoco><option timestep='0.005'/><worldbody><body name='rod'>"                               \
    "<joint name='hinge' type='hinge' axis='0 1 0' damping='" damping "'/>"                        \
    "<inertial pos='0 0 -0.5' mass='1.5' diaginertia='0.02 0.02 0.01'/>"                           \
    "</body></worldbody></mujoco>"

enum { STEPS = 200, NX = 2, NW = 2 };

static void a_network_can_be_damping(void** state) {
    (void)state;
    ns_error error = {0};

    // One layer without an activation: torque = w[0] * velocity + w[1].
    ns_blueprint* blueprint = NULL;
    must(ns_blueprint_create(NULL, &blueprint, &error), &error);
    ns_network_def network = ns_default_network_def();
    network.name = "friction";
    network.inputs = (const char*[]){"joint/hinge/velocity"}, network.ninput = 1;
    network.outputs = (const char*[]){"joint/hinge/tau"}, network.noutput = 1;
    must(ns_blueprint_add(blueprint, &network, &error), &error);

    // The robot without damping and with the network; the robot with damping.
    ns_system_options options = ns_default_system_options();
    options.blueprint = blueprint;
    trial hybrid = trial_make(PENDULUM("0"), &options, STEPS);
    trial truth = trial_make(PENDULUM("0.1"), NULL, STEPS);
    assert_int_equal(hybrid.n.nw, NW);
    hybrid.x0[0] = truth.x0[0] = 1.2;
    trial_run(&truth);

    // Weights are an argument of the rollout, like parameters: nothing is compiled again.
    double weights[NW] = {-0.1, 0.0};
    ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = hybrid.x0, .weights = weights};
    args.states = hybrid.states;
    must(ns_rollout(hybrid.system, hybrid.work, &args, &error), &error);
    all_close(hybrid.states, truth.states, (STEPS + 1) * NX, 1e-12);

    // Training needs the gradient for the weights of a loss: here half the squared distance of the
    // final angle from that of the true robot, with weights that are wrong.
    double wrong[NW] = {-0.08, 0.01}, seeds[(STEPS + 1) * NX] = {0}, gradient[NW], loss[2];
    args.weights = wrong;
    must(ns_rollout(hybrid.system, hybrid.work, &args, &error), &error);
    seeds[STEPS * NX] = trial_end(&hybrid)[0] - trial_end(&truth)[0]; // d loss / d final angle
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dweights = gradient};
    must(ns_rollout_vjp(hybrid.system, hybrid.work, &args, &adjoint, &error), &error);

    // The same by differences.
    for (int k = 0; k < NW; k++) {
        for (int side = 0; side < 2; side++) {
            wrong[k] += side == 0 ? -1e-5 : 2e-5;
            must(ns_rollout(hybrid.system, hybrid.work, &args, &error), &error);
            double off = trial_end(&hybrid)[0] - trial_end(&truth)[0];
            loss[side] = 0.5 * off * off;
        }
        wrong[k] -= 1e-5;
        close_to("d loss / d weight", gradient[k], (loss[1] - loss[0]) / 2e-5, 1e-8);
    }
    trial_free(&hybrid), trial_free(&truth), ns_blueprint_free(blueprint);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_network_can_be_damping)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
