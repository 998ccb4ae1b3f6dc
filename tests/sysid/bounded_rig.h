// Random fits of a double pendulum whose parameters have bounds, many of which exclude the truth.

#ifndef TEST_BOUNDED_RIG_H
#define TEST_BOUNDED_RIG_H

#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "sysid/objective_state.h"
#include "sysid/residuals_state.h"

#include <math.h>
#include <stdlib.h>

#define CHAIN                                                                                      \
    "<mujoco><option timestep='0.01' integrator='RK4'/><worldbody><body name='a'>"                 \
    "<joint name='p' type='hinge' axis='0 1 0' damping='0.3' stiffness='2' armature='0.05'/>"      \
    "<inertial pos='0 0 -0.2' mass='1' diaginertia='0.02 0.02 0.01'/>"                             \
    "<body name='b' pos='0 0 -0.4'>"                                                               \
    "<joint name='q' type='hinge' axis='0 1 0' damping='0.2' stiffness='1' armature='0.02'/>"      \
    "<inertial pos='0 0 -0.1' mass='0.5' diaginertia='0.01 0.01 0.01'/></body></body></worldbody>" \
    "</mujoco>"

enum { FREE = 5, SAMPLES = 60, CHANNELS = 4 };

static const char* const names[FREE] = {"joint/p/damping", "joint/q/damping", "joint/p/stiffness",
                                        "joint/q/stiffness", "joint/p/armature"};
static const double sizes[FREE] = {0.3, 0.2, 2.0, 1.0, 0.05};

typedef struct bounded_fit {
    ns_model* model;
    ns_parameters* params;
    ns_dataset* data;
    ns_residuals* residuals;
    double lower[FREE], upper[FREE], initial[FREE];
} bounded_fit;

static inline ns_dataset* simulate_truth(const ns_model* model, const double* truth, ns_rng* rng) {
    ns_error error = {0};
    ns_param_value set[FREE];
    for (int k = 0; k < FREE; k++) set[k] = (ns_param_value){names[k], truth[k]};
    ns_system_options options = ns_default_system_options();
    options.timestep = 0.01;
    options.set = set;
    options.nset = FREE;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_workspace_size size = {.batch = 1, .steps = SAMPLES - 1, .threads = 1};
    must(ns_system_create(model, &options, &system, &error), &error);
    must(ns_workspace_create(system, &size, &work, &error), &error);

    // Far from rest, with a little noise.
    double states[SAMPLES * CHANNELS], x0[CHANNELS] = {1.2, -0.8, 0.5, 2.0};
    ns_rollout_args args = {.batch = 1, .steps = SAMPLES - 1, .x0 = x0, .states = states};
    must(ns_rollout(system, work, &args, &error), &error);
    for (int k = CHANNELS; k < SAMPLES * CHANNELS; k++) states[k] += 0.003 * ns_rng_normal(rng);
    ns_array_channel channels[CHANNELS] = {{.name = "q0", .sigma = 0.01},
                                           {.name = "q1", .sigma = 0.01},
                                           {.name = "qd0", .sigma = 0.05},
                                           {.name = "qd1", .sigma = 0.05}};
    ns_dataset* data = NULL;
    must(ns_dataset_create_arrays(channels, CHANNELS, NULL, 0, 0.01, NULL, &data, &error), &error);
    must(ns_dataset_add_arrays(data, "run", SAMPLES, states, NULL, &error), &error);
    ns_workspace_free(work);
    ns_system_free(system);
    return data;
}

// A fit with truths between 0.2 and 3 of a number's size, bounds anywhere: many exclude the truth.
static inline bounded_fit bounded_fit_make(uint64_t seed, const ns_window_options* windows) {
    bounded_fit f = {0};
    ns_error error = {0};
    ns_rng rng = ns_rng_seed(seed);
    must(ns_model_parse(CHAIN, sizeof CHAIN - 1, "chain.xml", NULL, &f.model, &error), &error);
    double truth[FREE];
    for (int k = 0; k < FREE; k++) truth[k] = sizes[k] * ns_rng_uniform(&rng, 0.2, 3.0);
    f.data = simulate_truth(f.model, truth, &rng);
    must(ns_parameters_create(&(ns_variant){.model = f.model}, 1, NULL, &f.params, &error), &error);
    for (int k = 0; k < FREE; k++) {
        ns_parameter how = ns_default_parameter();
        double a = ns_rng_uniform(&rng, 0.1, 3.0), b = ns_rng_uniform(&rng, 0.1, 3.0);
        double share = ns_rng_uniform(&rng, 0.0, 1.0);
        bool open = ns_rng_uniform(&rng, 0.0, 1.0) < 0.3; // no upper bound
        f.lower[k] = sizes[k] * fmin(a, b);
        f.upper[k] = open ? INFINITY : sizes[k] * (fmax(a, b) + 0.05);
        f.initial[k] = f.lower[k] + share * sizes[k] * (fabs(a - b) + 0.05);
        how.lower = f.lower[k];
        how.upper = f.upper[k];
        how.initial = f.initial[k];
        how.transform = open ? NS_PARAMETER_ABOVE : NS_PARAMETER_BOX;
        must(ns_parameters_add(f.params, names[k], &how, &error), &error);
    }
    must(ns_residuals_create(f.params, f.data, windows, 1, &f.residuals, &error), &error);
    return f;
}

static inline void bounded_fit_free(bounded_fit* f) {
    ns_residuals_free(f->residuals);
    ns_parameters_free(f->params);
    ns_dataset_free(f->data);
    ns_model_free(f->model);
}

#endif
