// Learn the damping of a double pendulum's joints from a trajectory: a network at each joint's
// torque, fed with its velocity, trained by the gradient of many short simulations.
#include <neuralsim/neuralsim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { ROWS = 1000, WINDOW = 10, STARTS = ROWS / WINDOW, EPOCHS = 400 };
enum { ROW = (WINDOW + 1) * 4, WEIGHTS = 25 }; // of a window; of a network 1-8-1

static _Noreturn void die(const ns_error* error) {
    fprintf(stderr, "learn_damping: %s\n", error->message);
    exit(1);
}

int main(void) {
    ns_error error = {0};
    ns_model* robot;
    ns_blueprint* blueprint;
    ns_system *truth, *hybrid;
    ns_workspace *record, *work;
    if (ns_model_load("models/double_pendulum.urdf", NULL, &robot, &error)) die(&error);

    // The recording: a pendulum with damping, swinging for a second. States are q0 q1 qd0 qd1.
    static double recording[(ROWS + 1) * 4];
    ns_system_options options = ns_default_system_options();
    options.set = &(ns_param_value){"joint/*/damping", 0.3}, options.nset = 1;
    if (ns_system_create(robot, &options, &truth, &error)) die(&error);
    ns_workspace_size room = {.batch = 1, .steps = ROWS};
    if (ns_workspace_create(truth, &room, &record, &error)) die(&error);
    ns_rollout_args run = {1, ROWS, .x0 = (double[]){2, 1, 0, 0}, .states = recording};
    if (ns_rollout(truth, record, &run, &error)) die(&error);

    // The hybrid: no damping, but one network, shared by the joints, that adds to their torques.
    if (ns_blueprint_create(NULL, &blueprint, &error)) die(&error);
    ns_network_def network = ns_default_network_def();
    network.name = "damping", network.each = "joint/*";
    network.inputs = (const char*[]){"{}/velocity"}, network.ninput = 1;
    network.outputs = (const char*[]){"{}/tau"}, network.noutput = 1;
    network.hidden = (uint32_t[]){8}, network.nhidden = 1;
    if (ns_blueprint_add(blueprint, &network, &error)) die(&error);
    options = ns_default_system_options();
    options.blueprint = blueprint;
    if (ns_system_create(robot, &options, &hybrid, &error)) die(&error);
    ns_workspace_size windows = {.batch = STARTS, .steps = WINDOW};
    if (ns_workspace_create(hybrid, &windows, &work, &error)) die(&error);

    // Adam on the distance of short simulations from the recording.
    static double x0[STARTS * 4], states[STARTS * ROW], seeds[STARTS * ROW];
    double w[WEIGHTS], dw[WEIGHTS], m[WEIGHTS] = {0}, v[WEIGHTS] = {0};
    ns_system_default_weights(hybrid, w);
    for (int s = 0; s < STARTS; s++) memcpy(x0 + 4 * s, recording + 4 * WINDOW * s, 4 * sizeof *x0);
    ns_rollout_args batch = {STARTS, WINDOW, .x0 = x0, .weights = w, .states = states};
    ns_rollout_adjoint gradient = {.state_seeds = seeds, .dweights = dw};
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        double loss = 0.0;
        if (ns_rollout(hybrid, work, &batch, &error)) die(&error);
        for (int i = 0; i < STARTS * ROW; i++) {
            seeds[i] = states[i] - recording[4 * WINDOW * (i / ROW) + i % ROW];
            loss += 0.5 * seeds[i] * seeds[i];
        }
        if (ns_rollout_vjp(hybrid, work, &batch, &gradient, &error)) die(&error);
        for (int k = 0; k < WEIGHTS; k++) {
            m[k] = 0.9 * m[k] + 0.1 * dw[k], v[k] = 0.999 * v[k] + 0.001 * dw[k] * dw[k];
            double rate = 0.03 * sqrt(1.0 - pow(0.999, epoch)) / (1.0 - pow(0.9, epoch));
            w[k] -= rate * m[k] / (sqrt(v[k]) + 1e-12);
        }
        if (epoch == 1 || epoch % 100 == 0) printf("epoch %3d  loss %.3g\n", epoch, loss);
    }
    for (double rate = -4.0; rate <= 4.0; rate += 2.0) {
        double torque = w[24]; // before it 8 weights and 8 biases, then 8 weights
        for (int k = 0; k < 8; k++) torque += w[16 + k] * tanh(w[k] * rate + w[8 + k]);
        printf("at %2g rad/s  learned %6.3f  true %6.3f N m\n", rate, torque, -0.3 * rate);
    }
    ns_workspace_free(work), ns_workspace_free(record);
    ns_system_free(hybrid), ns_system_free(truth), ns_blueprint_free(blueprint),
        ns_model_free(robot);
    return 0;
}
