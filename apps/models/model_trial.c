// One robot file: load, gradient, accelerations beside MuJoCo's, 2 s of motion.

#define _POSIX_C_SOURCE 200809L // clock_gettime

#include "models/model_trial.h"

#include "models/mujoco_robot.h"
#include "neuralsim/neuralsim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STATES = 5 }; // random states at which accelerations are compared

static double clock_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Uniform in -1 ... 1, always the same sequence.
static double random_number(uint64_t* seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 4503599627370496.0 - 1.0;
}

void model_trial_clear(model_trial* trial) {
    *trial = (model_trial){.acceleration_error = -1.0,
                           .height_difference = -1.0,
                           .first_gradient = -1.0,
                           .step = -1.0,
                           .peer_step = -1.0};
}

// Notes of the model on what changes the motion, or may.
static void read_notes(const ns_model* model, model_trial* trial) {
    uint32_t count = ns_model_get_sizes(model).nignored;
    for (uint32_t k = 0; k < count; k++) {
        if (ns_model_ignored_effect(model, k) == NS_IGNORED_HARMLESS) continue;
        if (trial->lost++ > 0) continue;
        snprintf(trial->message, sizeof trial->message, "%s", ns_model_ignored(model, k));
    }
}

// The gradient of one step, and the time since `start`.
static bool first_gradient(const ns_model* model, double start, model_trial* trial) {
    ns_error error = {0};
    ns_system* system = NULL;
    if (ns_system_create(model, NULL, &system, &error) != NS_OK) {
        snprintf(trial->message, sizeof trial->message, "%s", error.message);
        return false;
    }

    ns_system_sizes sizes = ns_system_get_sizes(system);
    double* memory = calloc(6 * (size_t)sizes.nx, sizeof *memory);
    ns_workspace* work = NULL;
    ns_workspace_size size = {.batch = 1, .steps = 1, .threads = 1};
    bool done = memory && ns_workspace_create(system, &size, &work, &error) == NS_OK;
    if (done) {
        double *x0 = memory, *gradient = x0 + sizes.nx;
        double *states = gradient + sizes.nx, *seeds = states + 2 * (size_t)sizes.nx;
        ns_model_default_q(model, x0);
        for (uint32_t k = 0; k < sizes.nx; k++) seeds[sizes.nx + k] = 1.0;
        ns_rollout_args args = {.batch = 1, .steps = 1, .x0 = x0, .states = states};
        ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = gradient};
        done = ns_rollout_vjp(system, work, &args, &adjoint, &error) == NS_OK;
    }
    if (done) trial->first_gradient = clock_of(CLOCK_MONOTONIC) - start;
    if (!done) snprintf(trial->message, sizeof trial->message, "%s", error.message);

    ns_workspace_free(work);
    free(memory);
    ns_system_free(system);
    return done;
}

// Is the parameter one of a limit or of Coulomb friction, of a joint or a tendon?
static bool is_constraint(const char* name) {
    static const char* const patterns[] = {"*/*/limit_stiffness", "*/*/limit_damping",
                                           "*/*/friction"};
    bool found = false;
    for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
        found = found || ns_glob_match(patterns[k], name);
    }
    return found;
}

// A system without contact, limits and Coulomb friction, which MuJoCo counts as constraints.
static ns_system* smooth_system(const ns_model* model) {
    uint32_t nparam = ns_model_get_sizes(model).nparam;
    ns_param_value* set = calloc(nparam + 1, sizeof *set);
    if (!set) return NULL;
    uint32_t nset = 0;
    for (uint32_t k = 0; k < nparam; k++) {
        const ns_param* param = ns_model_param(model, k);
        if (is_constraint(param->name)) {
            set[nset++] = (ns_param_value){.pattern = param->name, .value = 0.0};
        }
    }

    static const char* const observe[] = {"qdd/*"};
    ns_system_options options = ns_default_system_options();
    options.set = set;
    options.nset = nset;
    options.observe = observe;
    options.nobserve = 1;
    options.contact = NS_CONTACT_NONE;
    options.integrator = NS_INTEGRATOR_EXPLICIT;
    ns_system* system = NULL;
    ns_system_create(model, &options, &system, NULL);
    free(set);
    return system;
}

// The largest relative difference of accelerations at one random state.
static double acceleration_error(const ns_system* system, ns_workspace* work, mujoco_robot* peer,
                                 uint64_t* seed, double* memory) {
    ns_system_sizes sizes = ns_system_get_sizes(system);
    mujoco_robot_sizes other = mujoco_robot_get_sizes(peer);
    double* x0 = memory;
    double* control = x0 + sizes.nx;
    double* here = control + sizes.nc;
    double* there = here + other.nv;
    double* step = there + other.nv;

    // Any pose near the default one, velocities and controls of ordinary size.
    memset(x0, 0, sizeof *x0 * (sizes.nx + sizes.nc));
    for (uint32_t k = 0; k < other.nv; k++) step[k] = 0.3 * random_number(seed);
    for (uint32_t k = 0; k < other.nv; k++) x0[other.nq + k] = random_number(seed);
    for (uint32_t k = 0; k < other.nu; k++) control[k] = 0.5 * random_number(seed);
    mujoco_robot_accelerations(peer, step, x0 + other.nq, control, x0, there);

    ns_rollout_args args = {
        .batch = 1, .steps = 1, .x0 = x0, .controls = control, .observations = here};
    if (ns_rollout(system, work, &args, NULL) != NS_OK) return INFINITY;
    double largest = 0.0, difference = 0.0;
    for (uint32_t k = 0; k < other.nv; k++) {
        largest = fmax(largest, fabs(there[k]));
        difference = fmax(difference, fabs(here[k] - there[k]));
    }
    return difference / fmax(largest, 1e-300);
}

static void compare_accelerations(const ns_model* model, mujoco_robot* peer, model_trial* trial) {
    ns_system* system = smooth_system(model);
    ns_workspace* work = NULL;
    double* memory = NULL;
    ns_workspace_size size = {.batch = 1, .steps = 1, .threads = 1};
    if (system && ns_workspace_create(system, &size, &work, NULL) == NS_OK) {
        ns_system_sizes sizes = ns_system_get_sizes(system);
        ns_model_sizes own = ns_model_get_sizes(model);
        mujoco_robot_sizes other = mujoco_robot_get_sizes(peer);
        size_t most = sizes.nx + sizes.nc + 3 * (size_t)other.nv;
        bool same =
            own.nequality == 0 && own.nq == other.nq && own.nv == other.nv && own.nu == other.nu;
        if (same && own.nv > 0) memory = calloc(most, sizeof *memory);
        uint64_t seed = 1;
        if (memory) trial->acceleration_error = 0.0;
        for (int k = 0; memory && k < STATES; k++) {
            double error = acceleration_error(system, work, peer, &seed, memory);
            trial->acceleration_error = fmax(trial->acceleration_error, error);
        }
    }
    free(memory);
    ns_workspace_free(work);
    ns_system_free(system);
}

// 2 s as the file says.
static void move(const ns_model* model, mujoco_robot* peer, model_trial* trial) {
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    if (ns_system_create(model, NULL, &system, NULL) != NS_OK) return;
    ns_system_sizes sizes = ns_system_get_sizes(system);
    uint32_t steps = (uint32_t)ceil(2.0 / sizes.timestep);
    double* x0 = calloc(sizes.nx, sizeof *x0);
    double* states = calloc(((size_t)steps + 1) * sizes.nx, sizeof *states);
    ns_workspace_size size = {.batch = 1, .steps = steps, .threads = 1};
    if (x0 && states && ns_workspace_create(system, &size, &work, NULL) == NS_OK) {
        ns_error error = {0};
        ns_model_default_q(model, x0);
        ns_rollout_args args = {.batch = 1, .steps = steps, .x0 = x0, .states = states};
        double before = clock_of(CLOCK_THREAD_CPUTIME_ID);
        trial->moved = true;
        trial->finite = ns_rollout(system, work, &args, &error) == NS_OK;
        trial->step = 1e6 * (clock_of(CLOCK_THREAD_CPUTIME_ID) - before) / steps;
        if (!trial->finite) snprintf(trial->message, sizeof trial->message, "%s", error.message);
    }

    // The same motion there, and the height of a floating root.
    double height = 0.0;
    if (states && trial->finite && peer) {
        double before = clock_of(CLOCK_THREAD_CPUTIME_ID);
        bool finite = mujoco_robot_move(peer, steps, sizes.timestep, &height);
        trial->peer_step = 1e6 * (clock_of(CLOCK_THREAD_CPUTIME_ID) - before) / steps;
        mujoco_robot_sizes other = mujoco_robot_get_sizes(peer);
        if (finite && other.floating && other.nq == ns_model_get_sizes(model).nq) {
            trial->height_difference = fabs(states[(size_t)steps * sizes.nx + 2] - height);
        }
    }
    ns_workspace_free(work);
    free(states);
    free(x0);
    ns_system_free(system);
}

void model_trial_run(const char* path, model_trial* trial) {
    model_trial_clear(trial);
    ns_error error = {0};
    ns_model* model = NULL;
    double start = clock_of(CLOCK_MONOTONIC);
    trial->loads = ns_model_load(path, NULL, &model, &error) == NS_OK;
    if (trial->loads) {
        read_notes(model, trial);
    } else {
        snprintf(trial->message, sizeof trial->message, "%s", error.message);
    }
    if (trial->loads) trial->loads = first_gradient(model, start, trial);

    mujoco_robot* peer = mujoco_robot_open(path);
    trial->peer_loads = peer != NULL;
    if (trial->loads && peer) compare_accelerations(model, peer, trial);
    if (trial->loads) move(model, peer, trial);
    mujoco_robot_close(peer);
    ns_model_free(model);
}
