// Dissipative networks in discrete time: with the implicit integrator, whatever the weights, a step
// gains no more kinetic energy than the other forces give it.

#include "neuralsim/blueprint.h"
#include "sim/stability_rig.h"

#include <stdio.h>

enum { ROBOTS = 16, STEPS = 300, NV = 2 };

static ns_model* load_pendulum(void) {
    ns_model* model = NULL;
    ns_error error = {0};
    const char* path = NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf";
    must(ns_model_load(path, NULL, &model, &error), &error);
    return model;
}

static ns_blueprint* make_network(const char* output, double scale) {
    char text[500];
    snprintf(text, sizeof text,
             "networks:\n- {name: n, inputs: ['q/*', 'qd/*'], outputs: 'joint/*/%s', hidden: [8],\n"
             "   structure: dissipative, output_scale: %g}\n",
             output, scale);
    ns_blueprint* blueprint = NULL;
    ns_error error = {0};
    must(ns_blueprint_parse(text, strlen(text), "network", NULL, &blueprint, &error), &error);
    return blueprint;
}

// 1/2 a'M b
static double product(const double* M, const double* a, const double* b) {
    double sum = 0.0;
    for (int i = 0; i < NV; i++) {
        for (int j = 0; j < NV; j++) sum += 0.5 * a[i] * M[i * NV + j] * b[j];
    }
    return sum;
}

// With M and bias at the start of each step: 1/2 v+'M v+ - 1/2 v'M v + dt v+'bias <= 0. The step without
// a network has -1/2 |v+ - v|^2 in M there.
static void steps_gain_nothing_from_dissipative_networks(void** state) {
    (void)state;
    static const char* const observe[] = {"mass_matrix", "bias"};
    static const char* const outputs[] = {"tau", "force/damping"};
    static const int integrators[] = {NS_INTEGRATOR_IMPLICIT, NS_INTEGRATOR_GYRO};
    static const double scales[] = {1e-2, 1.0, 1e1, 1e3};
    ns_model* model = load_pendulum();
    for (int n = 0; n < 16; n++) {
        double scale = scales[n % 4];
        ns_blueprint* blueprint = make_network(outputs[n / 4 % 2], scale);
        ns_system_options options = ns_default_system_options();
        options.blueprint = blueprint;
        options.observe = observe;
        options.nobserve = 2;
        options.timestep = 1e-3;
        options.integrator = integrators[n / 8];
        scene s = scene_create(model, &options, ROBOTS, STEPS);
        ns_rng rng = ns_rng_seed((uint64_t)n);
        double worst = -INFINITY, size = 0.0;
        for (int draw = 0; draw < 4; draw++) {
            double* weights = doubles(s.n.nw);
            for (uint32_t k = 0; k < s.n.nw; k++) weights[k] = 3.0 * ns_rng_normal(&rng);
            for (uint32_t k = 0; k < ROBOTS * s.n.nx; k++) s.x0[k] = 3.0 * ns_rng_normal(&rng);
            ns_error error = {0};
            ns_rollout_args args = scene_args(&s);
            args.weights = weights;
            must(ns_rollout(s.system, s.work, &args, &error), &error);
            for (uint32_t b = 0; b < ROBOTS; b++) {
                for (uint32_t t = 0; t < STEPS; t++) {
                    const double* y = s.observations + ((size_t)b * STEPS + t) * s.n.ny;
                    const double *v = scene_state(&s, b, t) + NV, *next = v + s.n.nx;
                    const double *M = y, *bias = y + NV * NV;
                    double gain = product(M, next, next) - product(M, v, v);
                    for (int k = 0; k < NV; k++) gain += options.timestep * next[k] * bias[k];
                    worst = fmax(worst, gain);
                    size = fmax(size, product(M, v, v));
                }
            }
            free(weights);
        }
        printf("    %s, %g W: largest gain %.1e J in a step, of up to %.0f J\n", outputs[n / 4 % 2],
               scale, worst, size);
        assert_true(worst <= 1e-13 * size);
        scene_free(&s);
        ns_blueprint_free(blueprint);
    }
    ns_model_free(model);
}

// The gradient for states and weights is that of the step.
static void the_step_is_differentiated_as_it_is(void** state) {
    (void)state;
    ns_model* model = load_pendulum();
    ns_blueprint* blueprint = make_network("tau", 5.0);
    ns_system_options options = ns_default_system_options();
    options.blueprint = blueprint;
    options.integrator = NS_INTEGRATOR_IMPLICIT;
    scene s = scene_create(model, &options, 1, 20);
    ns_rng rng = ns_rng_seed(3);
    double *weights = doubles(s.n.nw), *slope = doubles(s.n.nw), *direction = doubles(s.n.nw);
    for (uint32_t k = 0; k < s.n.nw; k++) {
        weights[k] = ns_rng_normal(&rng);
        direction[k] = ns_rng_normal(&rng);
    }
    for (int k = 0; k < 4; k++) s.x0[k] = ns_rng_normal(&rng);
    double* seeds = doubles(21 * (size_t)s.n.nx);
    for (uint32_t k = 0; k < s.n.nx; k++) seeds[20 * s.n.nx + k] = 1.0 + k;
    ns_error error = {0};
    ns_rollout_args args = scene_args(&s);
    args.weights = weights;
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dweights = slope};
    must(ns_rollout_vjp(s.system, s.work, &args, &adjoint, &error), &error);

    double exact = 0.0, value[2] = {0.0, 0.0}, h = 1e-6;
    for (uint32_t k = 0; k < s.n.nw; k++) exact += slope[k] * direction[k];
    for (int side = 0; side < 2; side++) {
        for (uint32_t k = 0; k < s.n.nw; k++) {
            weights[k] += (side == 0 ? -h : 2.0 * h) * direction[k];
        }
        must(ns_rollout(s.system, s.work, &args, &error), &error);
        for (uint32_t k = 0; k < s.n.nx; k++) value[side] += (1.0 + k) * scene_state(&s, 0, 20)[k];
    }
    close_relative((value[1] - value[0]) / (2.0 * h), exact, 1e-7);
    assert_true(fabs(exact) > 1e-6);
    free(weights), free(slope), free(direction), free(seeds);
    scene_free(&s);
    ns_blueprint_free(blueprint);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_gain_nothing_from_dissipative_networks),
        cmocka_unit_test(the_step_is_differentiated_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
