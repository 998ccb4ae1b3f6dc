// Walking quadrupeds: controller updates along a recorded walk, and simulation with control in the
// loop; with the QP, and with a network that imitates it.

#include "bench/bench.h"

#include "base/common.h"
#include "quadruped/imitation.h"

#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 1000, RECORDED = 3000, NX = 37, NC = 18 }; // ms

typedef struct walk {
    quad_robot robot;
    ns_model* model;
    quad_walk_env* place;
    ns_workspace* work;
    quad_controller* controller;
    quad_policy* policy; // NULL: QP
    quad_command command;
    double x[NX], depths[QUAD_LEGS]; // of toes in the ground
    uint32_t time, period;           // ms
    double created;                  // s, to make the system
    ns_error error;
    bool failed;

    quad_state states[RECORDED]; // of decisions
    double times[RECORDED];      // s
    uint32_t count, next;
} walk;

static void walk_finish(walk* w) {
    quad_controller_free(w->controller);
    quad_policy_free(w->policy);
    ns_workspace_free(w->work);
    quad_walk_env_free(w->place);
    ns_model_free(w->model);
    free(w);
}

// The robot's file, from where the program is called or where it was built.
static ns_status walk_load(walk* w) {
    static const char* const places[] = {"models", NEURALSIM_EXPERIMENTS "/../models"};
    ns_load_options options = ns_default_load_options();
    options.ground = true;
    ns_status status = NS_ERR_IO;
    for (int k = 0; k < 2 && status == NS_ERR_IO; k++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s.urdf", places[k], w->robot.name);
        status = ns_model_load(path, &options, &w->model, &w->error);
    }
    return status;
}

// The network of the paper, 41-192-192-12 with ELU, trained just long enough to walk.
static ns_status walk_train(walk* w) {
    quad_demonstrations lessons = {0};
    quad_walk_options options = quad_default_walk_options();
    options.period = w->period;
    quad_imitate_options imitate = quad_default_imitate_options();
    imitate.iterations = 1500;
    ns_error* error = &w->error;
    ns_status status = quad_demonstrations_create(5000, NULL, &lessons, error);
    if (status == NS_OK) {
        status =
            quad_demonstrations_record(&lessons, w->place, &options, 1, 5000, 0.25, NULL, error);
    }
    if (status == NS_OK) {
        status = quad_policy_create((uint32_t[]){192, 192}, 2, 1, NULL, &w->policy, error);
    }
    if (status == NS_OK) status = quad_imitate(w->policy, &lessons, &imitate, NULL, error);
    quad_demonstrations_free(&lessons, NULL);
    return status;
}

static walk* walk_start(const bench_case* self) {
    walk* w = calloc(1, sizeof *w);
    if (!w) return NULL;

    // Robot, control period in ms and commanded velocity.
    bool laikago = strstr(self->name, "laikago") != NULL;
    w->robot = laikago ? quad_laikago() : quad_a1();
    w->period = laikago ? 10 : 5;
    w->command = (quad_command){{0.4, 0.1}, 0.3};

    // Create the environment, and measure how long that takes.
    ns_status status = walk_load(w);
    double before = nsi_clock_thread_cpu();
    if (status == NS_OK) {
        status = quad_walk_env_create(w->model, &w->robot, NULL, NULL, &w->place, &w->error);
    }
    w->created = nsi_clock_thread_cpu() - before;

    // One robot, step by step.
    ns_workspace_size size = {.batch = 1, .steps = 1, .threads = 1};
    if (status == NS_OK) {
        status = ns_workspace_create(w->place->system, &size, &w->work, &w->error);
    }

    // The name of the case selects a variant of the controller.
    quad_controller_options options = quad_default_walk_options().controller;
    if (strstr(self->name, "stand")) { // on all feet nearly all of the time
        w->command = (quad_command){{0.0, 0.0}, 0.0};
        options.gait.duty_factor = 0.99;
        options.gait.stance_duration = 100.0;
    }
    // A policy network replaces the force optimisation.
    if (status == NS_OK && strstr(self->name, "network")) {
        status = walk_train(w);
        options.policy = quad_policy_decide;
        options.policy_context = w->policy;
    }

    if (status == NS_OK) {
        status = quad_controller_create(&w->robot, &options, NULL, &w->controller, &w->error);
    }
    // The sizes are compiled into the benchmark.
    if (status != NS_OK || w->place->nx != NX || w->place->nc != NC) {
        fprintf(stderr, "neuralsim bench: %s: %s\n", self->name, w->error.message);
        walk_finish(w);
        return NULL;
    }

    // Start standing.
    quad_start(&w->place->map, &w->robot, w->x);
    return w;
}

// A millisecond.
static void body_walk(void* context) {
    // Sensed state; feet within 1 mm of the ground count as contacts.
    walk* w = context;
    quad_state s = quad_read(&w->place->map, w->x);
    s.contact_known = true;
    for (int k = 0; k < QUAD_LEGS; k++) s.contact[k] = w->depths[k] > -1e-3;

    double torques[QUAD_JOINTS], controls[NC] = {0}, states[2 * NX];
    ns_status status = NS_OK;

    // The controller runs at its own period; states after the warm-up are kept for measurements.
    if (w->time % w->period == 0) {
        quad_controller_report report;
        status = quad_controller_update(w->controller, 1e-3 * w->time, &s, &w->command, &report,
                                        &w->error);
        // A fall makes all further times meaningless.
        if (report.fallen) w->failed = true;
        if (w->time >= WARM_UP && w->count < RECORDED) {
            w->times[w->count] = 1e-3 * w->time;
            w->states[w->count++] = s;
        }
    }

    // Joint torques are updated in every step.
    quad_controller_torques(w->controller, s.q, s.qd, torques);
    quad_write(&w->place->map, torques, controls);

    // Simulate one step, and observe the depths of the feet.
    ns_rollout_args args = {.batch = 1,
                            .steps = 1,
                            .x0 = w->x,
                            .controls = controls,
                            .states = states,
                            .observations = w->depths};

    if (status == NS_OK) status = ns_rollout(w->place->system, w->work, &args, &w->error);
    if (status != NS_OK) w->failed = true;
    // The last state is the next initial one.
    memcpy(w->x, states + NX, sizeof w->x);
    w->time++;
}

static void body_decide(void* context) {
    walk* w = context;
    double torques[QUAD_JOINTS];
    const quad_state* s = &w->states[w->next];
    ns_status status =
        quad_controller_update(w->controller, w->times[w->next], s, &w->command, NULL, &w->error);
    quad_controller_torques(w->controller, s->q, s->qd, torques);
    if (status != NS_OK) w->failed = true;
    w->next = (w->next + 1) % w->count;
}

static bool walk_measure(const bench_case* self, const bench_options* options, walk* w,
                         void (*body)(void*), double compile) {
    bench_time time = bench_measure(options, body, w);
    if (w->failed) {
        fprintf(stderr, "neuralsim bench: %s: the robot fell, or %s\n", self->name,
                w->error.message);
    } else {
        bench_print(options, &(bench_row){.name = self->name,
                                          .backend = "native",
                                          .lanes = 1,
                                          .ns = 1e9 * time.best,
                                          .ns_median = 1e9 * time.median,
                                          .compile_ms = 1e3 * compile,
                                          .samples = time.samples});
    }
    bool ok = !w->failed;
    walk_finish(w);
    return ok;
}

// The controller is compiled C: it has one row, that of native code.
static bool walk_is_wanted(const bench_options* options) {
    return !options->backend || strcmp(options->backend, "native") == 0;
}

bool bench_walk_decision(const bench_case* self, const bench_options* options) {
    if (!walk_is_wanted(options)) return true;
    walk* w = walk_start(self);
    if (!w) return false;
    for (int k = 0; k < WARM_UP + RECORDED; k++) body_walk(w);
    quad_controller_reset(w->controller);
    return walk_measure(self, options, w, body_decide, 0.0);
}

bool bench_walk_loop(const bench_case* self, const bench_options* options) {
    if (!walk_is_wanted(options)) return true;
    walk* w = walk_start(self);
    return w && walk_measure(self, options, w, body_walk, w->created);
}
