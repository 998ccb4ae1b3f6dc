// Robots of the reference measurements (design, section 6), generated as MJCF text, so that the
// benchmark needs no files and can include loading in a measurement.

#include "bench/bench.h"
#include "bench/scenes.h"

#include "base/common.h"
#include "contact/contact_stages.h"
#include "neuralsim/model.h"
#include "neuralsim/sim.h"
#include "sim/sensitivity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 100 }; // of a rollout whose time is given per step

// ---- models --------------------------------------------------------------------------------

// A body on a joint, left open for what it carries.
static void put_body(nsi_text_builder* t, const char* name, const char* position, const char* joint,
                     double mass, const char* com, const double moments[6]) {
    nsi_text_add(t,
                 "<body name=\"%s\" pos=\"%s\">%s<inertial pos=\"%s\" mass=\"%.17g\""
                 " fullinertia=\"%.17g %.17g %.17g %.17g %.17g %.17g\"/>\n",
                 name, position, joint, com, mass, moments[0], moments[1], moments[2], moments[3],
                 moments[4], moments[5]);
}

// Links that hang in a row, turning about y; on the ground each has a sphere at its end.
static void put_chain(nsi_text_builder* t, uint32_t links, double length, double first_mass,
                      double mass_step, const double moments[6], bool ground) {
    char name[32], com[48], position[48];
    snprintf(position, sizeof position, "0 0 %g", ground ? 0.6 : 0.0);
    snprintf(com, sizeof com, "0 0 %.17g", -0.6 * length);
    for (uint32_t i = 0; i < links; i++) {
        snprintf(name, sizeof name, "link%u", i);
        put_body(t, name, position, "<joint type=\"hinge\" axis=\"0 1 0\"/>",
                 first_mass + mass_step * i, com, moments);
        snprintf(position, sizeof position, "0 0 %.17g", -length);
        if (ground) {
            nsi_text_add(t, "<geom type=\"sphere\" size=\"0.05\" pos=\"%s\"/>\n", position);
        }
    }
    for (uint32_t i = 0; i < links; i++) nsi_text_add(t, "</body>");
}

// data/mujoco/models/quad12: a trunk of 8 kg on four legs of three joints. On the ground it stands
// on spherical feet, springs and dampers in the joints holding its pose as a PD controller would.
static void put_quadruped(nsi_text_builder* t, bool ground) {
    static const char* const legs[4] = {"FR", "FL", "RR", "RL"};
    const char* form = ground ? "<joint type=\"hinge\" axis=\"%s\" stiffness=\"60\" damping=\"2\""
                                " springref=\"%g\"/>"
                              : "<joint type=\"hinge\" axis=\"%s\" springref=\"%g\"/>";
    const double thigh_angle = 0.5285; // feet 0.4 m below the trunk
    // Trunk.
    put_body(t, "trunk", "0 0 0.4", "<freejoint/>", 8.0, "0.01 0.002 -0.005",
             (double[]){0.07, 0.16, 0.2, 0.001, 0.002, -0.0005});

    // Four legs, mirrored at the side.
    for (int k = 0; k < 4; k++) {
        double x = k < 2 ? 0.2 : -0.2, side = k % 2 ? 1.0 : -1.0;
        char name[16], joint[128], position[64], com[64];

        // Hip: abduction.
        snprintf(name, sizeof name, "%s_hip", legs[k]);
        snprintf(position, sizeof position, "%g %g 0", x, 0.06 * side);
        snprintf(com, sizeof com, "0 %g 0", 0.01 * side);
        snprintf(joint, sizeof joint, form, "1 0 0", 0.0);
        put_body(t, name, position, joint, 0.7, com, (double[]){0.0008, 0.0006, 0.0005, 0, 0, 0});

        // Thigh: flexion.
        snprintf(name, sizeof name, "%s_thigh", legs[k]);
        snprintf(position, sizeof position, "0 %g 0", 0.08 * side);
        snprintf(com, sizeof com, "0 %g -0.04", 0.005 * side);
        snprintf(joint, sizeof joint, form, "0 1 0", ground ? thigh_angle : 0.0);
        put_body(t, name, position, joint, 1.0, com,
                 (double[]){0.0055, 0.0052, 0.001, 0, 0, 0.0001 * side});

        // Calf, with the foot at its end.
        snprintf(name, sizeof name, "%s_calf", legs[k]);
        snprintf(joint, sizeof joint, form, "0 1 0", ground ? -2.0 * thigh_angle : 0.0);
        put_body(t, name, "0 0 -0.22", joint, 0.2, "0.005 0 -0.11",
                 (double[]){0.003, 0.003, 0.00005, 0, 0, 0});
        if (ground) nsi_text_add(t, "<geom type=\"sphere\" size=\"0.02\" pos=\"0 0 -0.22\"/>");
        nsi_text_add(t, "</body></body></body>\n");
    }

    nsi_text_add(t, "</body>");
}

// Free spheres 10 m apart.
static void put_spheres(nsi_text_builder* t, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        nsi_text_add(t,
                     "<body name=\"ball%u\" pos=\"%u 0 10\"><freejoint/>"
                     "<geom type=\"sphere\" size=\"0.1\" mass=\"1\"/></body>\n",
                     i, 10 * i);
    }
}

// models/swimmer2.xml: two capsules of 0.1 m in the plane, without gravity.
static const char swimmer_text[] =
    "<mujoco model=\"swimmer2\"><compiler angle=\"radian\"/>"
    "<option timestep=\"0.01\" integrator=\"Euler\" gravity=\"0 0 0\"/>\n"
    "<worldbody><body name=\"link0\"><joint name=\"rootx\" type=\"slide\" axis=\"1 0 0\"/>"
    "<joint name=\"rooty\" type=\"slide\" axis=\"0 1 0\"/>"
    "<joint name=\"rootz\" type=\"hinge\" axis=\"0 0 1\"/>"
    "<inertial pos=\"0.05 0 0\" mass=\"0.03560471674068433\" diaginertia="
    "\"1.7383479349863525e-06 3.917566039026473e-05 3.917566039026473e-05\"/>\n"
    "<body name=\"link1\" pos=\"0.1 0 0\"><joint name=\"joint1\" type=\"hinge\" axis=\"0 0 1\"/>"
    "<inertial pos=\"0.05 0 0\" mass=\"0.03560471674068433\" diaginertia="
    "\"1.7383479349863525e-06 3.917566039026473e-05 3.917566039026473e-05\"/></body></body>\n"
    "</worldbody><actuator><motor name=\"m_joint1\" joint=\"joint1\" gear=\"1\"/></actuator>"
    "</mujoco>\n";

static ns_status robot_text(const char* name, ns_text* out, ns_error* error) {
    nsi_text_builder t = {.allocator = ns_default_allocator()};

    // The swimmer is a fixed text.
    if (strncmp(name, "swimmer2", 8) == 0) {
        nsi_text_add_bytes(&t, swimmer_text, sizeof swimmer_text - 1);
        return nsi_text_finish(&t, out, error);
    }

    // Scenes of many bodies are in a file of their own.
    if (strncmp(name, "scene/", 6) == 0) {
        bench_put_scene(&t, name + 6);
        return nsi_text_finish(&t, out, error);
    }

    // The name of a case holds the robot and its variant.
    bool far = strstr(name, "_far") != NULL, ground = far || strstr(name, "_ground"),
         legs = strncmp(name, "quadruped", 9) == 0;
    // Legged robots take longer steps.
    nsi_text_add(&t,
                 "<mujoco model=\"%s\"><compiler angle=\"radian\"/><option timestep=\"%s\"/>"
                 "<worldbody>\n",
                 name, legs ? "0.002" : "0.001");
    // Far from the ground, contact is computed but never acts.
    if (ground) {
        nsi_text_add(&t, "<geom name=\"ground\" type=\"plane\" size=\"20 20 1\" friction=\"%s\"/>",
                     legs ? "0.8" : "1");
    }

    // Masses, lengths and inertias are fixed, so that results of different versions compare.
    if (strncmp(name, "double_pendulum", 15) == 0) {
        put_chain(&t, 2, 1.0, 1.0, -0.4, (double[]){0.087, 0.085, 0.004, 0, 0, 0}, false);
    } else if (strncmp(name, "pendulum5", 9) == 0) {
        put_chain(&t, 5, 0.3, 0.5, 0.1, (double[]){0.006, 0.0055, 0.001, 0, 0, 0}, ground);
    } else if (strncmp(name, "chain100", 8) == 0) {
        put_chain(&t, 100, 0.1, 0.1, 0.0, (double[]){0.0001, 0.0001, 0.00001, 0, 0, 0}, false);
    } else if (strncmp(name, "spheres8", 8) == 0) {
        put_spheres(&t, 8);
    } else {
        put_quadruped(&t, ground);
    }

    nsi_text_add(&t, "</worldbody></mujoco>\n");
    return nsi_text_finish(&t, out, error);
}

static ns_model* load_robot(const char* name) {
    ns_text text = {0};
    ns_model* model = NULL;
    ns_error error;
    ns_status status = robot_text(name, &text, &error);
    if (status == NS_OK) status = ns_model_parse(text.data, text.size, name, NULL, &model, &error);
    if (status != NS_OK) fprintf(stderr, "neuralsim bench: %s: %s\n", name, error.message);
    ns_text_free(&text);
    return model;
}

// ---- rollouts ------------------------------------------------------------------------------

typedef struct rollout_context {
    const ns_system* system;
    ns_workspace* work;
    ns_rollout_args args;
    ns_rollout_adjoint adjoint;
    ns_status status;
    ns_error error;
} rollout_context;

static void body_gradient(void* context) {
    rollout_context* c = context;
    c->status = ns_rollout_vjp(c->system, c->work, &c->args, &c->adjoint, &c->error);
}

static void body_step(void* context) {
    rollout_context* c = context;
    c->status = ns_rollout(c->system, c->work, &c->args, &c->error);
}

// Where robots are after so many steps.
static ns_status settle(const ns_system* system, uint32_t batch, uint32_t steps, double* x,
                        ns_error* error) {
    uint32_t nx = ns_system_get_sizes(system).nx;
    ns_workspace* work = NULL;
    ns_workspace_size size = {.batch = batch, .steps = steps, .threads = 1};
    double* states = malloc((size_t)batch * (steps + 1) * nx * sizeof *states);
    ns_rollout_args args = {.batch = batch, .steps = steps, .x0 = x, .states = states};
    ns_status status = states ? ns_workspace_create(system, &size, &work, error) : NS_ERR_NOMEM;
    if (status == NS_OK) status = ns_rollout(system, work, &args, error);
    for (uint32_t b = 0; status == NS_OK && b < batch; b++) {
        memcpy(x + (size_t)b * nx, states + ((size_t)b * (steps + 1) + steps) * nx, nx * sizeof *x);
    }
    ns_workspace_free(work);
    free(states);
    return status;
}

// What is measured besides the model.
typedef struct bench_task {
    uint32_t steps;    // of a rollout
    bool gradient;     // with the reverse sweep
    bool per_rollout;  // time of the whole rollout, not per step
    uint32_t settling; // steps before
    double lift;       // m, of a floating base
    bool at_rest;      // at the start, before the settling
    bool alone;        // one robot only: many would have nothing to share
} bench_task;

// Everything a rollout of one system in `batch` robots needs.
static bool rollout_prepare(rollout_context* c, const ns_system* system, const ns_model* model,
                            uint32_t batch, const bench_task* task) {
    uint32_t steps = task->steps;
    ns_system_sizes z = ns_system_get_sizes(system);
    ns_model_sizes m = ns_model_get_sizes(model);
    // The same states in every run.
    ns_rng rng = ns_rng_seed(11);

    // Buffers for states and gradients.
    double* x0 = calloc((size_t)batch * z.nx, sizeof *x0);
    double* seeds = calloc((size_t)batch * (steps + 1) * z.nx, sizeof *seeds);
    double* dx0 = calloc((size_t)batch * z.nx, sizeof *dx0);
    double* dparams = calloc((size_t)z.np + 1, sizeof *dparams);
    double* dweights = calloc((size_t)z.nw + 1, sizeof *dweights);

    // Arguments of the rollout and of its adjoint.
    c->system = system;
    c->args = (ns_rollout_args){.batch = batch, .steps = steps, .x0 = x0};
    c->adjoint = (ns_rollout_adjoint){
        .state_seeds = seeds, .dx0 = dx0, .dparams = dparams, .dweights = dweights};

    ns_workspace_size size = {.batch = batch, .steps = steps, .threads = 1};
    if (!x0 || !seeds || !dx0 || !dparams || !dweights ||
        ns_workspace_create(system, &size, &c->work, &c->error) != NS_OK) {
        return false; // rollout_finish() frees what there is
    }

    // Initial states: random velocities, and random positions for robots with a fixed base.
    for (uint32_t b = 0; b < batch; b++) {
        double* x = x0 + (size_t)b * z.nx;
        ns_model_default_q(model, x);
        if (m.nq > m.nv) x[2] += task->lift;
        for (uint32_t i = 0; i < m.nlink; i++) { // joints where their springs are at rest
            const ns_link_def* link = ns_model_link(model, i);
            if (link->joint_type == NS_JOINT_REVOLUTE) x[ns_model_joint_q(model, i)] += link->rest;
        }
        for (uint32_t i = 0; i < m.nv; i++) {
            x[m.nq + i] = task->at_rest ? 0.0 : ns_rng_uniform(&rng, -0.5, 0.5);
            if (m.nq == m.nv) x[i] += ns_rng_uniform(&rng, -0.5, 0.5);
        }

        // The gradient is that of the sum over the last state.
        for (uint32_t i = 0; i < z.nx; i++)
            seeds[((size_t)b * (steps + 1) + steps) * z.nx + i] = 1.0;
    }

    // Robots on the ground settle first, so that contact is steady.
    return task->settling == 0 || settle(system, batch, task->settling, x0, &c->error) == NS_OK;
}

static void rollout_finish(rollout_context* c) {
    free((void*)c->args.x0);
    free((void*)c->adjoint.state_seeds);
    free(c->adjoint.dx0);
    free(c->adjoint.dparams);
    free(c->adjoint.dweights);
    ns_workspace_free(c->work);
}

static uint32_t steps_executed(const ns_graph* graph) {
    ns_program* program = NULL;
    if (ns_program_build(graph, NULL, &program, NULL) != NS_OK) return 0;
    uint32_t count = ns_program_get_info(program).step_count;
    ns_program_free(program);
    return count;
}

// ---- the contact problem -------------------------------------------------------------------

// Mean over the steps of a quantity that the step may name, or NAN. The system that is asked is not
// the one that is timed.
static bool mean_quantity(const char* quantity, const ns_model* model,
                          const ns_system_options* system_options, const bench_task* task,
                          double* mean, ns_error* error) {
    // Create a system that observes the quantity.
    ns_system_options with = *system_options;
    with.observe = &quantity;
    with.nobserve = 1;
    ns_system* system = NULL;
    *mean = NAN;
    ns_status status = ns_system_create(model, &with, &system, error);
    if (status == NS_ERR_ARGUMENT) return true; // there is no such quantity
    if (status != NS_OK) return false;

    // Run the steps of the task once.
    uint32_t ny = ns_system_get_sizes(system).ny;
    double* values = malloc((size_t)task->steps * ny * sizeof *values);
    rollout_context c = {0};
    bool ok = values && rollout_prepare(&c, system, model, 1, task);
    if (ok) {
        // Only the first observation is needed.
        c.args.observations = values;
        body_step(&c);
        ok = c.status == NS_OK;

        // Average over the steps.
        double sum = 0.0;
        for (uint32_t n = 0; ok && n < task->steps; n++) sum += values[(size_t)n * ny];
        if (ok) *mean = sum / task->steps;
    }

    // Release everything, whatever happened before.
    if (!ok) *error = c.error;
    rollout_finish(&c);
    free(values);
    ns_system_free(system);
    return ok;
}

static bool count_contact(const ns_model* model, const ns_system_options* system_options,
                          const bench_task* task, bench_contact* out, ns_error* error) {
    nsi_contact_options which = {.model = system_options->contact};
    uint32_t impulses = nsi_candidates_count(model, &which, NS_CONTACT_NCP);
    uint32_t springs = nsi_candidates_count(model, &which, NS_CONTACT_SPRING);
    *out = (bench_contact){.rows = 3 * (impulses + springs), .sweeps = NAN, .solves = NAN};
    return impulses == 0 ||
           (mean_quantity("contact/sweeps", model, system_options, task, &out->sweeps, error) &&
            mean_quantity("contact/solves", model, system_options, task, &out->solves, error));
}

// ---- rows ----------------------------------------------------------------------------------

// Rows for one robot and for a batch in four lanes.
static bool measure_rollouts(const char* name, const bench_options* options, const ns_model* model,
                             const ns_system_options* system_options, const bench_task* task) {
    static const ns_backend backends[] = {NS_BACKEND_NATIVE, NS_BACKEND_INTERP};

    // Count contacts in a separate run, so that counting costs no time in the measured one.
    bench_contact contact;
    ns_error counting = {0};
    bool ok = count_contact(model, system_options, task, &contact, &counting);
    if (!ok) fprintf(stderr, "neuralsim bench: %s: %s\n", name, counting.message);

    // One block of rows per back end.
    for (int k = 0; k < 2 && ok; k++) {
        const char* backend = ns_backend_name(backends[k]);
        if (options->backend && strcmp(options->backend, backend) != 0) continue;

        // Create the system; this time is a column of its own.
        ns_system_options with = *system_options;
        with.backend = backends[k];
        ns_system* system = NULL;
        ns_error error;
        double start = nsi_clock_thread_cpu();
        if (ns_system_create(model, &with, &system, &error) != NS_OK) {
            fprintf(stderr, "neuralsim bench: %s: %s\n", name, error.message);
            return false;
        }
        double created = nsi_clock_thread_cpu() - start;

        // One lane runs a single robot; four lanes run a batch of 16.
        uint32_t executed = steps_executed(ns_system_graph(system));
        for (uint32_t lanes = 1; lanes <= (task->alone ? 1 : 4) && ok; lanes *= 4) {
            rollout_context c = {0};
            uint32_t batch = lanes == 1 ? 1 : 16;
            ok = rollout_prepare(&c, system, model, batch, task);
            if (ok) {
                bench_time time =
                    bench_measure(options, task->gradient ? body_gradient : body_step, &c);
                ok = c.status == NS_OK;
                // Time per robot and step, or per rollout.
                double runs = (double)batch * (task->per_rollout ? 1 : task->steps);
                bench_print(options, &(bench_row){.name = name,
                                                  .backend = backend,
                                                  .lanes = lanes,
                                                  .ns = 1e9 * time.best / runs,
                                                  .ns_median = 1e9 * time.median / runs,
                                                  .compile_ms = 1e3 * created,
                                                  .ops = ns_graph_op_count(ns_system_graph(system)),
                                                  .steps = executed,
                                                  .samples = time.samples,
                                                  .contact = &contact});
            }

            // Errors end the benchmark after this row.
            if (!ok) fprintf(stderr, "neuralsim bench: %s: %s\n", name, c.error.message);
            rollout_finish(&c);
        }

        ns_system_free(system);
    }
    return ok;
}

// ---- cases ---------------------------------------------------------------------------------

// Measure the robot of a case.
static bool measure_robot(const bench_case* self, const bench_options* options,
                          const ns_system_options* system, const bench_task* task) {
    ns_model* model = load_robot(self->name);
    bool ok = model && measure_rollouts(self->name, options, model, system, task);
    ns_model_free(model);
    return ok;
}

static ns_system_options with_free(const char* const* names, uint32_t count) {
    ns_system_options system = ns_default_system_options();
    system.free_params = names;
    system.nfree = count;
    return system;
}

// The same steps in other simulators: from the same text and the same state.
static bool measure_peers(const bench_case* self, const bench_options* options,
                          const bench_task* task) {
    // MuJoCo's reader refuses the chain of 100 links, which is nested too deep.
    if (!options->peers || strncmp(self->name, "chain100", 8) == 0) return true;

    // Our own rollout provides the initial state.
    ns_text text = {0};
    ns_model* model = load_robot(self->name);
    ns_system* system = NULL;
    ns_error error = {0};
    rollout_context c = {0};
    bool ok = model && robot_text(self->name, &text, &error) == NS_OK &&
              ns_system_create(model, NULL, &system, &error) == NS_OK;
    if (ok && !rollout_prepare(&c, system, model, 1, task)) {
        error = c.error;
        ok = false;
    }

    // Hand model and state to the other simulators.
    if (ok) {
        ns_model_sizes n = ns_model_get_sizes(model);
        // They print their own rows.
        ok = bench_peers_step(options, &(bench_peer_task){.name = self->name,
                                                          .text = text.data,
                                                          .size = text.size,
                                                          .nq = n.nq,
                                                          .nv = n.nv,
                                                          .state = c.args.x0,
                                                          .steps = task->steps});
    } else {
        fprintf(stderr, "neuralsim bench: %s: %s\n", self->name, error.message);
    }

    rollout_finish(&c);
    ns_system_free(system);
    ns_text_free(&text);
    ns_model_free(model);
    return ok;
}

static bool measure_step(const bench_case* self, const bench_options* options,
                         const bench_task* task) {
    ns_system_options system = ns_default_system_options();
    return measure_robot(self, options, &system, task) && measure_peers(self, options, task);
}

bool bench_robot_step(const bench_case* self, const bench_options* options) {
    return measure_step(self, options, &(bench_task){.steps = STEPS});
}

bool bench_robot_gradient(const bench_case* self, const bench_options* options) {
    ns_system_options system = ns_default_system_options();
    return measure_robot(self, options, &system, &(bench_task){.steps = STEPS, .gradient = true});
}

// On the ground, from where it has come to rest: after two seconds.
enum { SETTLING = 2000 };

bool bench_ground_step(const bench_case* self, const bench_options* options) {
    return measure_step(self, options, &(bench_task){.steps = STEPS, .settling = SETTLING});
}

bool bench_ground_gradient(const bench_case* self, const bench_options* options) {
    // Masses and lengths of the chain.
    static const char* const free_params[] = {"link/*/mass", "joint/*/origin/z"};
    bool chain = strncmp(self->name, "pendulum5", 9) == 0;
    ns_system_options system = with_free(free_params, chain ? 2 : 0);
    return measure_robot(self, options, &system,
                         &(bench_task){.steps = STEPS, .gradient = true, .settling = SETTLING});
}

// Many bodies: those that fall are measured while they come to rest on each other.
static bench_task scene_task(const bench_case* self, bool gradient) {
    bool falls = strstr(self->name, "bowl") || strstr(self->name, "pile");
    return (bench_task){.steps = 20,
                        .gradient = gradient,
                        .settling = falls ? 400 : 0,
                        .at_rest = true,
                        .alone = true};
}

bool bench_scene_step(const bench_case* self, const bench_options* options) {
    bench_task task = scene_task(self, false);
    return measure_step(self, options, &task);
}

bool bench_scene_gradient(const bench_case* self, const bench_options* options) {
    bench_task task = scene_task(self, true);
    ns_system_options system = ns_default_system_options();
    return measure_robot(self, options, &system, &task);
}

bool bench_far_step(const bench_case* self, const bench_options* options) {
    ns_system_options system = ns_default_system_options();
    system.contact = strstr(self->name, "/none") ? NS_CONTACT_NONE : NS_CONTACT_SPRING;
    return measure_robot(self, options, &system, &(bench_task){.steps = STEPS, .lift = 10.0});
}

// 500 steps, gradient for two masses and two lengths.
bool bench_pendulum_gradient(const bench_case* self, const bench_options* options) {
    static const char* const free_params[] = {"link/*/mass", "joint/link1_joint/origin/z",
                                              "link/link1/com/z"};
    ns_system_options system = with_free(free_params, 3);
    return measure_robot(self, options, &system,
                         &(bench_task){.steps = 500, .gradient = true, .per_rollout = true});
}

// The swimmer with a network in its step. Either one network of 1,639 weights (8-35-33-4) from
// coordinates and velocities to joint forces, or one of 1,637 (3-72-17-6) that each link has in its
// own frame and shares with the other: drag that only takes energy out.
static ns_blueprint* swimmer_network(const bench_case* self) {
    // Whole-body network: all coordinates in, joint torques out.
    static const char* const joint_inputs[] = {"q/*", "qd/*"};
    static const char* const joint_outputs[] = {"joint/*/tau"};
    // Link network: velocity of a link in its own frame in, force on the link out.
    static const char* const link_inputs[] = {"{}/velocity/com/x", "{}/velocity/com/y",
                                              "{}/velocity/angular/z"};
    static const char* const link_outputs[] = {"{}/force/x", "{}/force/y", "{}/torque/z"};
    static const uint32_t joint_hidden[] = {35, 33}, link_hidden[] = {72, 17};
    // Small initial outputs keep the motion close to that without a network.
    static const double scale = 1e-4;
    bool links = strncmp(self->name, "swimmer2_links", 14) == 0;
    ns_network_def def = ns_default_network_def();

    // Describe the network.
    def.name = "medium";
    def.inputs = links ? link_inputs : joint_inputs;
    def.ninput = links ? 3 : 2;
    def.outputs = links ? link_outputs : joint_outputs;
    def.noutput = links ? 3 : 1;
    def.hidden = links ? link_hidden : joint_hidden;
    def.nhidden = 2;
    def.output_scale = &scale;
    def.noutput_scale = 1;
    // One network for all links, dissipative by construction.
    if (links) def.each = "link/*";
    if (links) def.structure = NS_STRUCTURE_DISSIPATIVE | NS_STRUCTURE_EVEN;

    // A blueprint with this network alone.
    ns_blueprint* blueprint = NULL;
    ns_error error;
    if (ns_blueprint_create(NULL, &blueprint, &error) == NS_OK &&
        ns_blueprint_add(blueprint, &def, &error) == NS_OK) {
        return blueprint;
    }
    fprintf(stderr, "neuralsim bench: %s: %s\n", self->name, error.message);
    ns_blueprint_free(blueprint);
    return NULL;
}

// 200 steps, gradient of all weights.
bool bench_swimmer_gradient(const bench_case* self, const bench_options* options) {
    ns_system_options system = ns_default_system_options();
    ns_blueprint* blueprint = swimmer_network(self);
    system.blueprint = blueprint;
    bool ok = blueprint &&
              measure_robot(self, options, &system,
                            &(bench_task){.steps = 200, .gradient = true, .per_rollout = true});
    ns_blueprint_free(blueprint);
    return ok;
}

// ---- Jacobians -----------------------------------------------------------------------------

typedef struct jacobian_context {
    nsi_sensitivity* sensitivity;
    nsi_sensitivity_args args;
    double sum; // of what was seen
    bool ok;
} jacobian_context;

// A look at each state, so that nothing of it is left out.
static void robots_observe(void* context, uint32_t k, const double* x, const double* dx,
                           const double* y, const double* dy) {
    jacobian_context* c = context;
    (void)k, (void)y, (void)dy;
    c->sum += x[0] + dx[0];
}

static void body_jacobian(void* context) {
    jacobian_context* c = context;
    c->ok = nsi_sensitivity_run(c->sensitivity, &c->args, robots_observe, c);
}

// A row of one backend: one rollout in one thread.
static bool measure_jacobian(const bench_case* self, const bench_options* options,
                             const ns_model* model, const ns_system_options* system_options,
                             const bench_task* task, bool initial) {
    // Everything is released at the end, so it starts empty.
    ns_system* system = NULL;
    ns_error error = {0};
    rollout_context r = {0};
    jacobian_context c = {0};

    // Create the system and its sensitivities; only the former counts as compile time.
    double start = nsi_clock_thread_cpu();
    bool ok = ns_system_create(model, system_options, &system, &error) == NS_OK;
    double created = nsi_clock_thread_cpu() - start;
    ok = ok && nsi_sensitivity_create(system, initial, true, &c.sensitivity, &error) == NS_OK;

    // The initial state is that of the rollout benchmarks.
    if (ok && !rollout_prepare(&r, system, model, 1, task)) {
        error = r.error;
        ok = false;
    }

    // Measure whole rollouts with their Jacobians.
    if (ok) {
        c.args = (nsi_sensitivity_args){.steps = task->steps, .x0 = r.args.x0};
        bench_time time = bench_measure(options, body_jacobian, &c);
        // A diverging rollout has no Jacobian.
        ok = c.ok;
        if (!ok) snprintf(error.message, sizeof error.message, "the rollout is not finite");
        bench_print(options, &(bench_row){.name = self->name,
                                          .backend = ns_backend_name(system_options->backend),
                                          .lanes = 1,
                                          .ns = 1e9 * time.best,
                                          .ns_median = 1e9 * time.median,
                                          .compile_ms = 1e3 * created,
                                          .ops = ns_graph_op_count(ns_system_graph(system)),
                                          .steps = steps_executed(ns_system_graph(system)),
                                          .samples = time.samples});
    }

    if (!ok) fprintf(stderr, "neuralsim bench: %s: %s\n", self->name, error.message);
    rollout_finish(&r);
    nsi_sensitivity_free(c.sensitivity);
    ns_system_free(system);
    return ok;
}

// Rows of all backends.
static bool measure_jacobians(const bench_case* self, const bench_options* options,
                              const ns_system_options* system_options, const bench_task* task,
                              bool initial) {
    static const ns_backend backends[] = {NS_BACKEND_NATIVE, NS_BACKEND_INTERP};
    ns_model* model = load_robot(self->name);
    bool ok = model != NULL;
    for (int k = 0; k < 2 && ok; k++) {
        if (options->backend && strcmp(options->backend, ns_backend_name(backends[k])) != 0)
            continue;
        ns_system_options with = *system_options;
        with.backend = backends[k];
        ok = measure_jacobian(self, options, model, &with, task, initial);
    }
    ns_model_free(model);
    return ok;
}

// 500 steps, two masses; or these and the initial state.
bool bench_pendulum_jacobian(const bench_case* self, const bench_options* options) {
    static const char* const free_params[] = {"link/*/mass"};
    ns_system_options system = with_free(free_params, 1);
    return measure_jacobians(self, options, &system, &(bench_task){.steps = 500},
                             strstr(self->name, "_x0") != NULL);
}

// 200 steps, all weights and the initial state.
bool bench_swimmer_jacobian(const bench_case* self, const bench_options* options) {
    ns_system_options system = ns_default_system_options();
    ns_blueprint* blueprint = swimmer_network(self);
    system.blueprint = blueprint;
    bool ok =
        blueprint && measure_jacobians(self, options, &system, &(bench_task){.steps = 200}, true);
    ns_blueprint_free(blueprint);
    return ok;
}

// From the text of a file to the first gradient.
typedef struct first_context {
    ns_text text;
    bool ok;
} first_context;

static void body_first_gradient(void* context) {
    first_context* f = context;
    ns_model* model = NULL;
    ns_system* system = NULL;
    ns_error error;
    rollout_context c = {0};
    f->ok =
        ns_model_parse(f->text.data, f->text.size, "quadruped", NULL, &model, &error) == NS_OK &&
        ns_system_create(model, NULL, &system, &error) == NS_OK &&
        rollout_prepare(&c, system, model, 1, &(bench_task){.steps = 1});
    if (f->ok) {
        body_gradient(&c);
        f->ok = c.status == NS_OK;
    }
    rollout_finish(&c);
    ns_system_free(system);
    ns_model_free(model);
}

bool bench_first_gradient(const bench_case* self, const bench_options* options) {
    first_context f = {0};
    ns_error error;
    if (options->backend && strcmp(options->backend, "native") != 0) return true;
    if (robot_text(self->name, &f.text, &error) != NS_OK) return false;
    bench_time time = bench_measure(options, body_first_gradient, &f);
    if (f.ok) {
        bench_print(options, &(bench_row){.name = self->name,
                                          .backend = "native",
                                          .lanes = 1,
                                          .ns = 1e9 * time.best,
                                          .ns_median = 1e9 * time.median,
                                          .compile_ms = 1e3 * time.best,
                                          .samples = time.samples});
    } else {
        fprintf(stderr, "neuralsim bench: %s failed\n", self->name);
    }
    ns_text_free(&f.text);
    return f.ok;
}
