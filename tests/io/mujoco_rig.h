// A model file in MuJoCo and here: the same inertias and accelerations? Tests that include this are
// linked with MuJoCo, where there is one.

#ifndef TEST_MUJOCO_RIG_H
#define TEST_MUJOCO_RIG_H

#include "model/model_data.h"
#include "neuralsim/sim.h"
#include "support/assert.h"
#include "support/modelfile.h"

#include <mujoco/mujoco.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static inline void mujoco_complains(const char* message) {
    fail_msg("MuJoCo: %s", message);
}

// A file below tests/data.
static inline mjModel* mujoco_file(const char* path) {
    char whole[600], error[1000] = "";
    snprintf(whole, sizeof whole, NEURALSIM_SOURCE_DIR "/tests/data/%s", path);
    mju_user_error = mujoco_complains;
    mjModel* model = mj_loadXML(whole, NULL, error, sizeof error);
    if (!model) fail_msg("%s: %s", path, error);
    return model;
}

// Largest differences, relative to the largest entry.
typedef struct mujoco_difference {
    double mass, acceleration;
} mujoco_difference;

// A random state, within the ranges of joints, and random controls within theirs; MuJoCo's layout.
static inline void mujoco_random_state(ns_rng* rng, const mjModel* theirs, mjData* data) {
    for (int j = 0; j < theirs->njnt; j++) {
        mjtNum* q = data->qpos + theirs->jnt_qposadr[j];
        bool limited = theirs->jnt_limited[j];
        double lower = limited ? theirs->jnt_range[2 * j] : -0.5;
        double upper = limited ? theirs->jnt_range[2 * j + 1] : 0.5;
        switch (theirs->jnt_type[j]) {
        case mjJNT_FREE:
            for (int k = 0; k < 3; k++) q[k] = ns_rng_uniform(rng, -1.0, 1.0);
            q += 3;
            // fall through
        case mjJNT_BALL:
            for (int k = 0; k < 4; k++) q[k] = ns_rng_normal(rng);
            mju_normalize4(q);
            break;
        default: q[0] = ns_rng_uniform(rng, lower, upper);
        }
    }
    for (int k = 0; k < theirs->nv; k++) data->qvel[k] = ns_rng_normal(rng);
    for (int k = 0; k < theirs->nu; k++) {
        bool limited = theirs->actuator_ctrllimited[k];
        double lower = limited ? theirs->actuator_ctrlrange[2 * k] : -1.0;
        double upper = limited ? theirs->actuator_ctrlrange[2 * k + 1] : 1.0;
        data->ctrl[k] = ns_rng_uniform(rng, lower, upper);
    }
}

// Compare mass matrices and accelerations without constraints (qacc_smooth) in random states.
static inline mujoco_difference mujoco_compare(const ns_model* ours, const mjModel* theirs,
                                               uint32_t states) {
    // Ours without what is a constraint in MuJoCo: contact, limits, dry friction.
    static const char* const observe[] = {"mass_matrix/*", "qdd/*"};
    static const ns_param_value none[] = {{"joint/*/friction", 0.0},
                                          {"joint/*/limit_stiffness", 0.0},
                                          {"joint/*/limit_damping", 0.0}};
    ns_system_options options = ns_default_system_options();
    options.observe = observe, options.nobserve = 2;
    options.set = none, options.nset = 3;
    options.contact = NS_CONTACT_NONE;
    options.integrator = NS_INTEGRATOR_EULER;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_error error;
    must(ns_system_create(ours, &options, &system, &error), &error);
    ns_workspace_size size = {.batch = 1, .steps = 1, .threads = 1};
    must(ns_workspace_create(system, &size, &work, &error), &error);
    ns_system_sizes z = ns_system_get_sizes(system);
    ns_model_sizes n = ns_model_get_sizes(ours);
    uint32_t nv = n.nv;
    assert_int_equal(n.nq, theirs->nq);
    assert_int_equal(nv, theirs->nv);
    assert_int_equal(n.nu, theirs->nu);
    assert_int_equal(z.ny, nv * nv + nv);

    mjData* data = mj_makeData(theirs);
    double* x = calloc(z.nx, sizeof *x);
    double* c = calloc(z.nc + 1, sizeof *c);
    double* y = calloc(z.ny, sizeof *y);
    double* mass = calloc((size_t)nv * nv, sizeof *mass);
    assert_true(data && x && c && y && mass);
    mujoco_difference worst = {0};
    ns_rng rng = ns_rng_seed(17);
    for (uint32_t k = 0; k < states; k++) {
        mujoco_random_state(&rng, theirs, data);
        mj_forward(theirs, data);
        mj_fullM(theirs, mass, data->qM);
        memcpy(x, data->qpos, n.nq * sizeof *x);
        memcpy(x + n.nq, data->qvel, nv * sizeof *x);
        memcpy(c, data->ctrl, n.nu * sizeof *c);
        ns_rollout_args args = {.batch = 1, .steps = 1, .x0 = x, .controls = c, .observations = y};
        must(ns_rollout(system, work, &args, &error), &error);

        // Observations are in the order of their names' patterns or of the step: find each.
        double scale = 0.0, largest = 0.0;
        for (uint32_t i = 0; i < nv * nv; i++) scale = fmax(scale, fabs(mass[i]));
        for (uint32_t i = 0; i < nv; i++) largest = fmax(largest, fabs(data->qacc_smooth[i]));
        for (uint32_t i = 0; i < z.ny; i++) {
            const char* name = ns_system_observation_name(system, i);
            unsigned row, column;
            if (sscanf(name, "mass_matrix/%u/%u", &row, &column) == 2) {
                double difference = fabs(y[i] - mass[row * nv + column]) / scale;
                worst.mass = fmax(worst.mass, difference);
            } else {
                assert_int_equal(sscanf(name, "qdd/%u", &row), 1);
                double difference = fabs(y[i] - data->qacc_smooth[row]) / largest;
                worst.acceleration = fmax(worst.acceleration, difference);
            }
        }
    }
    free(x), free(c), free(y), free(mass);
    mj_deleteData(data);
    ns_workspace_free(work);
    ns_system_free(system);
    return worst;
}

// The same of a file.
static inline mujoco_difference mujoco_compare_file(const char* path, uint32_t states) {
    ns_model* ours = modelfile_load(path);
    mjModel* theirs = mujoco_file(path);
    mujoco_difference worst = mujoco_compare(ours, theirs, states);
    print_message("%s against MuJoCo: mass matrix %.1e, accelerations %.1e\n", path, worst.mass,
                  worst.acceleration);
    mj_deleteModel(theirs);
    ns_model_free(ours);
    return worst;
}

#endif
