// Networks in the step: at each kind of quantity they change the motion as a closed form says; their
// gradients; the same bits where their output is zero; memory, threads, what goes wrong.

#include "base/common.h"
#include "model/model_data.h"
#include "neuralsim/sim.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/malloccount.h"
#include "support/modelfile.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// ---- one robot with networks ---------------------------------------------------------------

typedef struct rig {
    ns_model* model;
    ns_blueprint* blueprint;
    ns_system* system;
    ns_workspace* work;
    ns_system_sizes n;
    uint32_t nq, batch, steps;
    double *x0, *controls, *weights, *states, *observations;
} rig;

// A text, or a file of models/ by its name.
static ns_model* load_model(const char* text) {
    if (strchr(text, '<')) return modelfile_parse(text);
    char path[1000];
    ns_model* model = NULL;
    ns_error error = {0};
    snprintf(path, sizeof path, "%s/models/%s", NEURALSIM_SOURCE_DIR, text);
    must(ns_model_load(path, NULL, &model, &error), &error);
    return model;
}

static ns_blueprint* parse_blueprint(const char* yaml) {
    ns_blueprint* blueprint = NULL;
    ns_error error = {0};
    must(ns_blueprint_parse(yaml, strlen(yaml), "b.yaml", NULL, &blueprint, &error), &error);
    return blueprint;
}

static void rig_work(rig* r, uint32_t batch, uint32_t steps) {
    ns_error error = {0};
    ns_workspace_size size = {.batch = batch, .steps = steps};
    must(ns_workspace_create(r->system, &size, &r->work, &error), &error);
    r->batch = batch;
    r->steps = steps;
    r->x0 = doubles((size_t)batch * r->n.nx);
    r->controls = doubles((size_t)batch * steps * r->n.nc);
    r->states = doubles((size_t)batch * (steps + 1) * r->n.nx);
    r->observations = doubles((size_t)batch * steps * r->n.ny);
    for (uint32_t b = 0; b < batch; b++) ns_model_default_q(r->model, r->x0 + b * r->n.nx);
}

// `yaml` NULL: without networks. The robot stands as its model does; weights are the initial ones.
static rig rig_make(const char* model, const char* yaml, const ns_system_options* options,
                    uint32_t steps) {
    rig r = {.model = load_model(model), .blueprint = yaml ? parse_blueprint(yaml) : NULL};
    ns_system_options o = options ? *options : ns_default_system_options();
    ns_error error = {0};
    o.blueprint = r.blueprint;
    must(ns_system_create(r.model, &o, &r.system, &error), &error);
    r.n = ns_system_get_sizes(r.system);
    r.nq = ns_model_get_sizes(r.model).nq;
    r.weights = doubles(r.n.nw);
    ns_system_default_weights(r.system, r.weights);
    rig_work(&r, 1, steps);
    return r;
}

static void rig_free(rig* r) {
    ns_workspace_free(r->work);
    ns_system_free(r->system);
    ns_blueprint_free(r->blueprint);
    ns_model_free(r->model);
    free(r->x0), free(r->controls), free(r->weights), free(r->states), free(r->observations);
}

// Hands out `count` weights, which must be all.
static void rig_weights(rig* r, uint32_t count, const double* weights) {
    assert_int_equal(r->n.nw, count);
    memcpy(r->weights, weights, count * sizeof *weights);
}
#define WEIGHTS(r, ...)                                                                            \
    rig_weights(r, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

static ns_rollout_args rig_args(const rig* r) {
    return (ns_rollout_args){.batch = r->batch,
                             .steps = r->steps,
                             .x0 = r->x0,
                             .controls = r->controls,
                             .weights = r->weights,
                             .states = r->states,
                             .observations = r->observations};
}

static void rig_run(rig* r) {
    ns_rollout_args args = rig_args(r);
    ns_error error = {0};
    must(ns_rollout(r->system, r->work, &args, &error), &error);
}

static const double* state_at(const rig* r, uint32_t step) {
    return r->states + (size_t)step * r->n.nx;
}

// q and qd of both go the same way.
static void same_motion(const char* what, const rig* a, const rig* b, double tolerance) {
    uint32_t n = a->n.nx < b->n.nx ? a->n.nx : b->n.nx;
    assert_int_equal(a->steps, b->steps);
    double moved = 0.0;
    for (uint32_t s = 0; s <= a->steps; s++) {
        for (uint32_t k = 0; k < n; k++) {
            close_to(what, state_at(a, s)[k], state_at(b, s)[k], tolerance);
            moved = fmax(moved, fabs(state_at(a, s)[k] - a->x0[k]));
        }
    }
    assert_true(moved > 1e-6);
}

// ---- joints --------------------------------------------------------------------------------

static const char pendulum[] =
    "<mujoco><option timestep='0.002'/><worldbody>"
    "<body name='arm' pos='0 0 1'><joint name='hinge' type='hinge' axis='0 1 0'/>"
    "<geom type='sphere' size='0.1' pos='0 0 -0.5' mass='2'/></body></worldbody>"
    "<actuator><motor name='motor' joint='hinge' gear='2'/></actuator></mujoco>";

static const char slider[] =
    "<mujoco><option timestep='0.01'/><worldbody>"
    "<body name='mass'><joint name='rail' type='slide' axis='0 0 1'/>"
    "<geom type='sphere' size='0.1' mass='2'/></body></worldbody></mujoco>";

typedef struct swing {
    const char *output, *input, *mode; // of a network without hidden layers
    double weight, bias;
    ns_param_value model[2];     // of both
    ns_param_value reference[2]; // of the one without a network
    double u, tau;               // added to the controls of that one
} swing;

// A pendulum with a network swings like one without that has another parameter, or other controls.
static void check_swing(const swing* w, int integrator) {
    char yaml[500];
    snprintf(yaml, sizeof yaml,
             "networks:\n  - name: n\n    inputs: [%s]\n    outputs: [%s]\n    mode: %s\n",
             w->input, w->output, w->mode);
    ns_param_value set[4];
    ns_system_options o = ns_default_system_options();
    o.integrator = integrator;
    o.set = set;
    for (int k = 0; k < 2 && w->model[k].pattern; k++) set[o.nset++] = w->model[k];
    rig a = rig_make(pendulum, yaml, &o, 300);
    WEIGHTS(&a, w->weight, w->bias);
    for (int k = 0; k < 2 && w->reference[k].pattern; k++) set[o.nset++] = w->reference[k];
    rig b = rig_make(pendulum, NULL, &o, 300);
    a.x0[0] = b.x0[0] = 0.7;
    a.x0[1] = b.x0[1] = -0.4;
    for (uint32_t s = 0; s < a.steps; s++) {
        a.controls[2 * s] = 0.3 * sin(0.05 * s);
        a.controls[2 * s + 1] = 0.2 * cos(0.03 * s);
        b.controls[2 * s] = a.controls[2 * s] + w->u;
        b.controls[2 * s + 1] = a.controls[2 * s + 1] + w->tau;
    }
    rig_run(&a);
    rig_run(&b);
    same_motion(w->output, &a, &b, 1e-11);
    // It does something.
    WEIGHTS(&a, 0.5 * w->weight - 0.05, 0.5 * w->bias);
    rig_run(&a);
    assert_true(fabs(state_at(&a, 300)[0] - state_at(&b, 300)[0]) > 1e-5);
    rig_free(&a);
    rig_free(&b);
}

#define Q "joint/hinge/position"
#define QD "joint/hinge/velocity"

static void networks_at_joint_forces(void** state) {
    (void)state;
    static const swing all[] = {
        {"joint/hinge/tau", QD, "add", -0.3, 0.0, .reference = {{"joint/hinge/damping", 0.3}}},
        {"joint/hinge/tau", Q, "add", -3.0, 0.6,
         .reference = {{"joint/hinge/stiffness", 3.0}, {"joint/hinge/rest", 0.2}}},
        {"joint/hinge/force/damping", QD, "add", -0.3, 0.0,
         .reference = {{"joint/hinge/damping", 0.3}}},
        {"joint/hinge/force/damping", QD, "replace", -0.4, 0.0,
         .model = {{"joint/hinge/damping", 0.1}}, .reference = {{"joint/hinge/damping", 0.4}}},
        {"joint/hinge/force/damping", Q, "scale", 0.0, 2.0, .model = {{"joint/hinge/damping", 0.1}},
         .reference = {{"joint/hinge/damping", 0.3}}},
        {"joint/hinge/force/spring", Q, "add", -4.0, 0.0,
         .reference = {{"joint/hinge/stiffness", 4.0}}},
        {"joint/hinge/force/friction", Q, "scale", 0.0, 0.5,
         .model = {{"joint/hinge/friction", 0.2}}, .reference = {{"joint/hinge/friction", 0.3}}},
        {"actuator/motor/force", Q, "add", 0.0, 0.3, .u = 0.3},
        {"control/motor", "q/0", "add", 0.0, 0.3, .u = 0.3},
        {"tau/0", "q/0", "add", 0.0, -0.4, .tau = -0.4},
        {"bias/0", Q, "add", 0.0, 0.7, .tau = -0.7},
        {"joint/hinge/damping", "q/0", "add", 0.0, 0.25,
         .reference = {{"joint/hinge/damping", 0.25}}},
        {"joint/hinge/damping", "q/0", "scale", 0.0, 1.5, .model = {{"joint/hinge/damping", 0.1}},
         .reference = {{"joint/hinge/damping", 0.25}}},
        {"link/arm/mass", "tau/0", "replace", 0.0, 3.0, .reference = {{"link/arm/mass", 3.0}}},
        {"world/gravity/z", "tau/0", "add", 0.0, 2.0, .reference = {{"world/gravity/z", -7.81}}},
        {"link/arm/torque/y", "link/arm/velocity/angular/y", "add", -0.3, 0.0,
         .reference = {{"joint/hinge/damping", 0.3}}},
        // Drag at the centre of mass, 0.5 m from the hinge.
        {"link/arm/force/x", "link/arm/velocity/com/x", "add", -0.8, 0.0,
         .reference = {{"joint/hinge/damping", 0.2}}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int integrator = 0; integrator < 2; integrator++) check_swing(&all[i], integrator);
    }
    // Implicit in the velocity-dependent forces of joints, those of networks included.
    for (size_t i = 2; i < 5; i++) check_swing(&all[i], NS_INTEGRATOR_IMPLICIT);
    check_swing(&all[12], NS_INTEGRATOR_IMPLICIT);
}

static void networks_at_limits(void** state) {
    (void)state;
    static const char limited[] =
        "<mujoco><compiler angle='radian'/><option timestep='0.001'/><worldbody>"
        "<body name='arm'><joint name='hinge' type='hinge' axis='0 1 0' limited='true'"
        " range='-0.2 0.2'/><geom type='sphere' size='0.1' pos='0 0 -0.5' mass='2'/></body>"
        "</worldbody></mujoco>";
    ns_param_value set[] = {{"joint/hinge/limit_stiffness", 200.0},
                            {"joint/hinge/limit_damping", 0.5},
                            {"joint/hinge/limit_stiffness", 300.0},
                            {"joint/hinge/limit_damping", 0.75}};
    ns_system_options o = ns_default_system_options();
    o.set = set;
    o.nset = 2;
    rig a = rig_make(limited,
                     "networks:\n  - {name: n, inputs: [q/0], outputs: [joint/hinge/force/limit],"
                     " mode: scale}\n",
                     &o, 500);
    o.nset = 4;
    rig b = rig_make(limited, NULL, &o, 500);
    WEIGHTS(&a, 0.0, 0.5);
    a.x0[1] = b.x0[1] = 2.0;
    rig_run(&a);
    rig_run(&b);
    same_motion("limit", &a, &b, 1e-9);
    double highest = 0.0;
    for (uint32_t s = 0; s <= 500; s++) highest = fmax(highest, state_at(&a, s)[0]);
    assert_true(highest > 0.2); // it was there
    rig_free(&a);
    rig_free(&b);
}

// ---- state and acceleration ----------------------------------------------------------------

static void networks_at_the_state(void** state) {
    (void)state;
    static const ns_param_value still[] = {{"world/gravity/z", 0.0}};
    ns_system_options o = ns_default_system_options();
    o.set = still;
    o.nset = 1;
    // The acceleration a = 0.5 - 2 q, whatever the forces are.
    rig r = rig_make(slider,
                     "networks:\n  - {name: n, inputs: [q/0], outputs: [qdd/0], mode: replace}\n",
                     NULL, 200);
    WEIGHTS(&r, -2.0, 0.5);
    r.x0[0] = 0.3;
    rig_run(&r);
    double q = 0.3, v = 0.0, dt = 0.01;
    for (uint32_t s = 1; s <= 200; s++) {
        v += dt * (0.5 - 2.0 * q);
        q += dt * v;
        close_to("q after replaced acceleration", state_at(&r, s)[0], q, 1e-13);
    }
    rig_free(&r);

    r = rig_make(slider, "networks:\n  - {name: n, inputs: [q/0], outputs: [qd/0], mode: scale}\n",
                 &o, 50);
    WEIGHTS(&r, 0.0, -0.1);
    r.x0[1] = 2.0;
    rig_run(&r);
    q = 0.0, v = 2.0;
    for (uint32_t s = 1; s <= 50; s++) {
        v *= 0.9;
        q += dt * v;
        close_to("q after scaled velocity", state_at(&r, s)[0], q, 1e-13);
        close_to("scaled velocity", state_at(&r, s)[1], v, 1e-13);
    }
    rig_free(&r);

    r = rig_make(slider, "networks:\n  - {name: n, inputs: [\"prev:q/0\"], outputs: [q/0]}\n", &o,
                 50);
    WEIGHTS(&r, 0.0, 0.01);
    r.x0[1] = 2.0;
    rig_run(&r);
    for (uint32_t s = 1; s <= 50; s++) {
        close_to("shifted q", state_at(&r, s)[0], s * (0.01 + dt * 2.0), 1e-13);
    }
    rig_free(&r);

    // Gravity that depends on the height.
    r = rig_make(slider, "networks:\n  - {name: n, inputs: [q/0], outputs: [world/gravity/z]}\n",
                 NULL, 100);
    WEIGHTS(&r, 3.0, 0.0);
    r.x0[0] = 0.2;
    rig_run(&r);
    q = 0.2, v = 0.0;
    for (uint32_t s = 1; s <= 100; s++) {
        v += dt * (-9.81 + 3.0 * q);
        q += dt * v;
        close_to("q in changing gravity", state_at(&r, s)[0], q, 1e-12);
    }
    rig_free(&r);
}

// ---- links ---------------------------------------------------------------------------------

static const char body[] =
    "<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody><body name='b'><freejoint/>"
    "<geom type='box' size='0.3 0.2 0.1' pos='0.1 -0.2 0.3' mass='4'/></body></worldbody></mujoco>";

// A force in the axes of the link, at its centre of mass: no turning.
static void networks_at_link_forces(void** state) {
    (void)state;
    rig r = rig_make(body,
                     "networks:\n  - name: push\n    inputs: [q/0]\n    outputs: [link/b/force/x,"
                     " link/b/force/y, link/b/force/z]\n",
                     NULL, 1);
    const double f[3] = {1.0, -2.0, 0.5}, s = sqrt(0.5), dt = 0.01;
    WEIGHTS(&r, 0.0, 0.0, 0.0, 1.0, -2.0, 0.5);
    r.x0[3] = s, r.x0[6] = s; // a quarter turn about z: x of the link is y of the world
    rig_run(&r);
    const double* v = state_at(&r, 1) + r.nq;
    close_to("vx", v[0], -dt * f[1] / 4.0, 1e-15);
    close_to("vy", v[1], dt * f[0] / 4.0, 1e-15);
    close_to("vz", v[2], dt * f[2] / 4.0, 1e-15);
    for (int k = 3; k < 6; k++) close_to("spin", v[k], 0.0, 1e-15);
    rig_free(&r);

    r = rig_make(body,
                 "networks:\n  - name: turn\n    inputs: [q/0]\n    outputs: [link/b/torque/x,"
                 " link/b/torque/y, link/b/torque/z]\n",
                 NULL, 1);
    WEIGHTS(&r, 0.0, 0.0, 0.0, 1.0, -2.0, 0.5);
    r.x0[3] = s, r.x0[6] = s;
    rig_run(&r);
    v = state_at(&r, 1) + r.nq;
    const double half[3] = {0.3, 0.2, 0.1};
    for (int k = 0; k < 3; k++) {
        double a = half[(k + 1) % 3], b = half[(k + 2) % 3], I = 4.0 / 3.0 * (a * a + b * b);
        close_to("spin", v[3 + k], dt * f[k] / I, 1e-14);
    }
    rig_free(&r);
}

// ---- shared and separate weights -----------------------------------------------------------

static void weights_are_shared_or_not(void** state) {
    (void)state;
    static const char yaml[] = "networks:\n  - name: d\n    each: joint/*\n    weights: %s\n"
                               "    inputs: [\"{}/velocity\"]\n    outputs: [\"{}/tau\"]\n"
                               "    bias: false\n";
    char text[300];
    for (int separate = 0; separate < 2; separate++) {
        snprintf(text, sizeof text, yaml, separate ? "separate" : "shared");
        ns_param_value set[] = {{"joint/joint0/damping", 0.3}, {"joint/joint1/damping", 0.3}};
        if (separate) set[1].value = 0.1;
        ns_system_options o = ns_default_system_options();
        rig a = rig_make("double_pendulum.urdf", text, &o, 200);
        o.set = set;
        o.nset = 2;
        rig b = rig_make("double_pendulum.urdf", NULL, &o, 200);
        if (separate) {
            WEIGHTS(&a, -0.3, -0.1);
            assert_int_equal(ns_system_weight_matrix_count(a.system), 2);
            assert_string_equal(ns_system_weight_matrix(a.system, 1).set, "d/joint/joint1");
        } else {
            WEIGHTS(&a, -0.3);
            assert_int_equal(ns_system_weight_matrix_count(a.system), 1);
            assert_string_equal(ns_system_weight_matrix(a.system, 0).set, "d");
        }
        for (int k = 0; k < 4; k++) a.x0[k] = b.x0[k] = 0.5 - 0.3 * k;
        rig_run(&a);
        rig_run(&b);
        same_motion("damping", &a, &b, 1e-11);
        rig_free(&a);
        rig_free(&b);
    }
}

// One network with outputs at different places of the step: bias and damping force.
static void one_network_has_several_outputs(void** state) {
    (void)state;
    rig a = rig_make(pendulum,
                     "networks:\n  - name: n\n    inputs: [qd/0]\n    outputs: "
                     "[joint/hinge/force/damping, tau/0, joint/hinge/tau]\n    output_scale: "
                     "[0.5, 2, 1]\n    input_scale: [10]\n",
                     NULL, 200);
    ns_param_value set = {"joint/hinge/damping", 0.3};
    ns_system_options o = ns_default_system_options();
    o.set = &set;
    o.nset = 1;
    rig b = rig_make(pendulum, NULL, &o, 200);
    // -(0.5 * 2 + 2 * 0.75 + 0.5) / 10 = -0.3; 2 * 0.3 - 0.1 = 0.5
    WEIGHTS(&a, -2.0, -0.75, -0.5, 0.0, 0.3, -0.1);
    a.x0[0] = b.x0[0] = 0.5;
    for (uint32_t s = 0; s < 200; s++) b.controls[2 * s + 1] = 0.5;
    rig_run(&a);
    rig_run(&b);
    same_motion("several outputs", &a, &b, 1e-12);
    rig_free(&a);
    rig_free(&b);
}

// ---- contact -------------------------------------------------------------------------------

// A ball over the ground that moves up and down and along x; q is (x, height of its lowest point).
static const char ball[] =
    "<mujoco><option timestep='0.0005'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body name='ball' pos='0 0 0.1'><joint name='x' type='slide' axis='1 0 0'/>"
    "<joint name='z' type='slide' axis='0 0 1'/>"
    "<geom name='ball' type='sphere' size='0.1' mass='0.5'/></body></worldbody></mujoco>";

enum { DEPTH, SPEED, ELASTIC, DAMPING, NORMAL, FRICTION, TANGENT, PLACES };
static const char* const places[PLACES] = {"depth",         "velocity/normal", "force/elastic",
                                           "force/damping", "force/normal",    "friction",
                                           "force/tangent1"};

static double augmented(double x, double net, int mode) {
    return mode == 0 ? x + net : mode == 1 ? net : x * (1.0 + net);
}

// The ball by plain C: the law of springs with a network of constant output somewhere.
static void ball_reference(int place, int mode, double net, uint32_t steps, double* x) {
    const double m = 0.5, k = 4e4, c = 0.4, mu = 0.5, mus = 0.7, vt = 0.1, dt = 0.0005;
    for (uint32_t s = 0; s < steps; s++) {
        double value[PLACES];
#define AT(which, x) (value[which] = place == (which) ? augmented(x, net, mode) : (x))
        double depth = AT(DEPTH, -x[1]), fx = 0.0, fz = 0.0;
        double vn = AT(SPEED, x[3]);
        if (depth > 0.0) {
            double elastic = AT(ELASTIC, k * depth * sqrt(depth));
            double damping = AT(DAMPING, -elastic * c * vn);
            double normal = AT(NORMAL, fmax(elastic + damping, 0.0));
            double speed = sqrt(x[2] * x[2] + 1e-12 * vt * vt), r = speed / vt;
            double hump = 0.25 * r * r + 0.75;
            double friction = AT(FRICTION, mu * tanh(4.0 * r) + (mus - mu) * r / (hump * hump));
            fx = AT(TANGENT, -friction * normal / speed * x[2]);
            fz = normal;
        }
#undef AT
        x[2] += dt * fx / m;
        x[3] += dt * (fz / m - 9.81);
        x[0] += dt * x[2];
        x[1] += dt * x[3];
    }
}

static void networks_at_springs(void** state) {
    (void)state;
    static const ns_param_value set[] = {
        {"contact/*/stiffness", 4e4}, {"contact/*/damping", 0.4},
        {"contact/*/exponent", 1.5},  {"contact/*/mu", 0.5},
        {"contact/*/mu_static", 0.7}, {"contact/*/transition_velocity", 0.1}};
    static const double net[PLACES][3] = {{0.001, 0.002, 0.4}, {0.1, -0.5, 0.5}, {3.0, 6.0, 0.3},
                                          {0.5, 0.2, 3.0},     {2.0, 5.5, -0.2}, {0.1, 0.3, -0.5},
                                          {-0.3, -1.0, 0.7}};
    static const char* const modes[] = {"add", "replace", "scale"};
    ns_system_options o = ns_default_system_options();
    o.contact = NS_CONTACT_SPRING;
    o.set = set;
    o.nset = 6;
    for (int place = 0; place < PLACES; place++) {
        for (int mode = 0; mode < 3; mode++) {
            char yaml[300];
            snprintf(
                yaml, sizeof yaml,
                "networks:\n  - {name: n, inputs: [q/0], outputs: [contact/*/0/%s], mode: %s}\n",
                places[place], modes[mode]);
            rig r = rig_make(ball, yaml, &o, 150);
            double x[4] = {0.0, 0.005, 0.4, -0.5};
            WEIGHTS(&r, 0.0, net[place][mode]);
            memcpy(r.x0, x, sizeof x);
            rig_run(&r);
            ball_reference(place, mode, net[place][mode], 150, x);
            for (int k = 0; k < 4; k++) close_to(places[place], state_at(&r, 150)[k], x[k], 1e-9);
            rig_free(&r);
        }
    }
    // A damper on the ground instead of friction: from what is computed before.
    rig r = rig_make(ball,
                     "networks:\n  - name: n\n    inputs: [contact/*/0/velocity/tangent1]\n"
                     "    outputs: [contact/*/0/force/tangent1]\n    mode: replace\n",
                     &o, 100);
    WEIGHTS(&r, -2.0, 0.0);
    r.x0[1] = -0.002;
    r.x0[2] = 1.0;
    rig_run(&r);
    double v = 1.0;
    for (uint32_t s = 1; s <= 30; s++) {
        assert_true(state_at(&r, s - 1)[1] < 0.0);
        v -= 0.0005 * 2.0 * v / 0.5;
        close_to("dragged", state_at(&r, s)[2], v, 1e-13);
    }
    rig_free(&r);
}

static void networks_at_impulses(void** state) {
    (void)state;
    static const ns_param_value set[] = {{"contact/*/cfm", 0.0},
                                         {"contact/*/baumgarte_alpha", 1.0},
                                         {"contact/*/baumgarte_beta", 0.2},
                                         {"contact/*/max_push", 3.0},
                                         {"contact/*/restitution", 0.5},
                                         {"contact/*/mu", 0.5}};
    ns_system_options o = ns_default_system_options();
    o.contact = NS_CONTACT_NCP;
    o.set = set;
    o.nset = 6;
    const double dt = 0.0005, m = 0.5, g = 9.81;

    // More normal force than the ground gives: the ball takes off. Where it is apart, none.
    static const char normal[] =
        "networks:\n  - {name: n, inputs: [q/0], outputs: [contact/*/0/force/normal]}\n";
    rig r = rig_make(ball, normal, &o, 1);
    WEIGHTS(&r, 0.0, 2.0);
    r.x0[1] = -1e-12;
    rig_run(&r);
    close_to("pushed off", state_at(&r, 1)[3], dt * 2.0 / m, 1e-8);
    r.x0[1] = 1.0;
    rig_run(&r);
    close_to("apart", state_at(&r, 1)[3], -dt * g, 1e-15);
    rig_free(&r);

    r = rig_make(ball,
                 "networks:\n  - {name: n, inputs: [q/0], outputs: [contact/*/0/force/tangent1],"
                 " mode: scale}\n",
                 &o, 1);
    WEIGHTS(&r, 0.0, -0.4);
    r.x0[1] = -1e-12;
    r.x0[2] = 1.0;
    rig_run(&r);
    close_to("less friction", state_at(&r, 1)[2], 1.0 - 0.6 * 0.5 * g * dt, 1e-9);
    rig_free(&r);

    // Deeper than it is: pushed out.
    r = rig_make(ball, "networks:\n  - {name: n, inputs: [q/0], outputs: [contact/*/0/depth]}\n",
                 &o, 1);
    WEIGHTS(&r, 0.0, 0.001);
    rig_run(&r);
    close_to("pushed out", state_at(&r, 1)[3], 0.2 * 0.001 / dt, 1e-9);
    rig_free(&r);

    // Faster than it is: bounces higher.
    r = rig_make(ball,
                 "networks:\n  - {name: n, inputs: [q/0], outputs: [contact/*/0/velocity/normal],"
                 " mode: scale}\n",
                 &o, 1);
    WEIGHTS(&r, 0.0, 0.5);
    r.x0[1] = -1e-12;
    r.x0[3] = -2.0;
    rig_run(&r);
    close_to("bounced", state_at(&r, 1)[3], 0.5 * 3.0 - g * dt, 1e-8);
    rig_free(&r);
}

// ---- memory --------------------------------------------------------------------------------

// The motor gets the control of three steps before, and half of that of one step before.
static const char delay[] = "networks:\n  - name: delay\n    inputs: [\"prev:tau/0\","
                            " \"lag3:tau/0\"]\n    outputs: [control/motor]\n    bias: false\n";

static void controls_can_be_delayed(void** state) {
    (void)state;
    for (int integrator = 0; integrator < 3; integrator++) {
        ns_system_options o = ns_default_system_options();
        o.integrator = integrator;
        rig a = rig_make(pendulum, delay, &o, 60), b = rig_make(pendulum, NULL, &o, 60);
        assert_int_equal(a.n.nx, 5);
        assert_string_equal(ns_system_state_name(a.system, 2), "memory/tau/0/1");
        assert_string_equal(ns_system_state_name(a.system, 4), "memory/tau/0/3");
        WEIGHTS(&a, 0.2, 0.3, 0.0, 1.0);
        double past[4] = {0.0, 0.7, 0.0, -0.4}; // before the start, as the state says
        memcpy(a.x0 + 2, past + 1, 3 * sizeof *past);
        for (uint32_t s = 0; s < 60; s++) {
            double c = sin(0.3 * s);
            a.controls[2 * s + 1] = b.controls[2 * s + 1] = c;
            b.controls[2 * s] = 0.5 * past[1] + past[3];
            memmove(past + 1, past, 3 * sizeof *past);
            past[1] = c;
        }
        rig_run(&a);
        rig_run(&b);
        for (uint32_t s = 0; s <= 60; s++) {
            close_to("q", state_at(&a, s)[0], state_at(&b, s)[0], 1e-13);
            for (uint32_t lag = 1; lag <= 3 && s >= lag; lag++) {
                close_to("memory", state_at(&a, s)[1 + lag], a.controls[2 * (s - lag) + 1], 0.0);
            }
        }
        rig_free(&a);
        rig_free(&b);
    }
}

// What is kept of a quantity is its value at the start of the step, also with rk4, as observed.
static void memory_is_what_is_observed(void** state) {
    (void)state;
    static const char yaml[] = "networks:\n  - name: n\n    inputs: [\"prev:joint/hinge/tau\","
                               " \"prev:qdd/0\", \"prev:mass_matrix/0/0\"]\n"
                               "    outputs: [joint/hinge/tau]\n";
    static const char* const observe[] = {"joint/hinge/tau", "qdd/0", "mass_matrix/0/0"};
    for (int integrator = 0; integrator < 3; integrator++) {
        ns_system_options o = ns_default_system_options();
        o.integrator = integrator;
        o.observe = observe;
        o.nobserve = 3;
        rig r = rig_make(pendulum, yaml, &o, 20);
        WEIGHTS(&r, 0.5, 0.1, 0.2, 0.1);
        r.x0[0] = 0.4;
        r.x0[1] = 3.0;
        rig_run(&r);
        for (uint32_t s = 0; s < 20; s++) {
            for (uint32_t k = 0; k < 3; k++) {
                char name[100];
                snprintf(name, sizeof name, "memory/%s/1", ns_system_observation_name(r.system, k));
                uint32_t at = 2;
                while (strcmp(ns_system_state_name(r.system, at), name) != 0) at++;
                close_to(name, state_at(&r, s + 1)[at], r.observations[3 * s + k], 0.0);
            }
        }
        rig_free(&r);
    }
}

// ---- gradients -----------------------------------------------------------------------------

typedef struct graded {
    const char *name, *model, *yaml;
    int integrator, contact;
    const char* free_params;
    double q, qd; // added to the first coordinates
} graded;

static const char swimmer_drag[] =
    "networks:\n  - name: drag\n    each: link/*\n    inputs: [\"{}/velocity/com/x\","
    " \"{}/velocity/com/y\", \"{}/velocity/angular/z\"]\n    outputs: [\"{}/force/x\","
    " \"{}/force/y\", \"{}/torque/z\"]\n    hidden: [5]\n    guarantee: [dissipative]\n"
    "    output_scale: 1.0e-3\n"
    "  - name: joints\n    inputs: [q/*, qd/*, \"lag2:control/*\"]\n    outputs: [joint/*/tau]\n"
    "    hidden: [4, 3]\n    activation: elu\n    output_scale: 1.0e-4\n";

#define NEARLY_EVERYWHERE                                                                          \
    "networks:\n  - {name: a, inputs: [q/0, qd/0], outputs: [joint/hinge/force/damping],"          \
    " hidden: [3]}\n"                                                                              \
    "  - {name: b, inputs: [joint/hinge/force/damping, \"prev:qdd/0\"], outputs: [qdd/0], "        \
    "hidden: "                                                                                     \
    "[3],"                                                                                         \
    " mode: scale}\n"                                                                              \
    "  - {name: c, inputs: [qd/0], outputs: [world/gravity/z, link/arm/mass], hidden: [2]}\n"      \
    "  - {name: d, inputs: [q/0, link/arm/mass], outputs: [bias/0, link/arm/force/x], hidden: "    \
    "[2]}\n"

static const char nearly_everywhere[] = NEARLY_EVERYWHERE;

// At velocities too, which rk4 refuses.
static const char everywhere[] = NEARLY_EVERYWHERE
    "  - {name: e, inputs: [q/0], outputs: [qd/0], hidden: [2], output_scale: [0.01]}\n";

static const char at_contacts[] =
    "networks:\n  - {name: a, each: contact/*/*, inputs: [\"{}/depth\", \"{}/velocity/normal\"],"
    " outputs: [\"{}/force/normal\"], hidden: [3], mode: scale}\n"
    "  - {name: b, inputs: [q/*], outputs: [contact/*/0/depth], hidden: [2], output_scale: "
    "[0.001]}\n";

static const graded all_graded[] = {
    {"swimmer, euler", "swimmer2.xml", swimmer_drag, NS_INTEGRATOR_EULER, -1, "link/*/mass", 0.1,
     0.3},
    {"pendulum, euler", pendulum, everywhere, NS_INTEGRATOR_EULER, -1, "**", 0.5, 0.7},
    {"pendulum, rk4", pendulum, nearly_everywhere, NS_INTEGRATOR_RK4, -1, "**", 0.5, 0.7},
    {"pendulum, implicit", pendulum, everywhere, NS_INTEGRATOR_IMPLICIT, -1, "**", 0.5, 0.7},
    {"delay", pendulum, delay, NS_INTEGRATOR_EULER, -1, "**", 0.5, 0.7},
    {"ball, springs", ball, at_contacts, NS_INTEGRATOR_EULER, NS_CONTACT_SPRING,
     "contact/*/stiffness", -0.003, -0.3},
    {"ball, springs, rk4", ball, at_contacts, NS_INTEGRATOR_RK4, NS_CONTACT_SPRING,
     "contact/*/stiffness", -0.003, -0.3},
    {"ball, impulses", ball, at_contacts, NS_INTEGRATOR_EULER, NS_CONTACT_NCP, "link/*/mass",
     -0.003, -0.3}};
enum { GRADED = sizeof all_graded / sizeof *all_graded };

// The swimmer weighs 31 g a link.
static double control_size(const char* model) {
    return strncmp(model, "swimmer", 7) == 0 ? 1e-4 : 1.0;
}

static rig graded_rig(const graded* c, ns_backend backend, uint32_t steps, ns_rng* rng) {
    ns_system_options o = ns_default_system_options();
    o.integrator = c->integrator;
    o.contact = c->contact;
    o.backend = backend;
    o.free_params = &c->free_params;
    o.nfree = 1;
    rig r = rig_make(c->model, c->yaml, &o, steps);
    double size = control_size(c->model);
    for (uint32_t k = 0; k < r.n.nw; k++) r.weights[k] = ns_rng_uniform(rng, -0.5, 0.5);
    for (uint32_t k = 0; k < r.n.nx; k++) {
        r.x0[k] += (k < r.nq ? c->q : c->qd) * ns_rng_uniform(rng, 0.9, 1.1);
    }
    for (size_t k = 0; k < (size_t)steps * r.n.nc; k++) {
        r.controls[k] = size * ns_rng_uniform(rng, -0.2, 0.2);
    }
    return r;
}

// The step: all backends, both modes, central differences.
static void steps_with_networks_pass_the_derivative_check(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(5);
    rig rigs[GRADED];
    check_batch* batch = check_batch_create();
    for (uint32_t n = 0; n < GRADED; n++) {
        rig* r = &rigs[n];
        *r = graded_rig(&all_graded[n], NS_BACKEND_INTERP, 1, &rng);
        double* in = doubles(r->n.nx + r->n.nc + r->n.np);
        memcpy(in, r->x0, r->n.nx * sizeof *in);
        memcpy(in + r->n.nx, r->controls, r->n.nc * sizeof *in);
        ns_system_default_params(r->system, in + r->n.nx + r->n.nc);
        const double* arrays[20];
        uint32_t narray = 0;
        for (uint32_t k = 0; k < ns_system_weight_matrix_count(r->system); k++) {
            ns_weight_matrix w = ns_system_weight_matrix(r->system, k);
            if (w.layer == 0) arrays[narray++] = r->weights + w.offset;
        }
        check_options check = {.name = all_graded[n].name, .seed = n, .c = CHECK_C_VJP};
        check_batch_add(batch, ns_system_graph(r->system), in, arrays, &check);
        free(in);
    }
    check_report report = check_batch_finish(batch);
    printf("    transpose %.1e, differences %.1e, %u of %u slopes undecided\n",
           report.transpose_error, report.difference_error, report.undecided, report.slopes);
    assert_true(report.undecided * 10 < report.slopes);
    for (uint32_t n = 0; n < GRADED; n++) rig_free(&rigs[n]);
}

// What a function of states is: sum of coefficients times states.
static double weighted(const rig* r, const double* seeds) {
    double sum = 0.0;
    for (size_t k = 0; k < (size_t)r->batch * (r->steps + 1) * r->n.nx; k++) {
        sum += seeds[k] * r->states[k];
    }
    return sum;
}

static double dot(const double* a, const double* b, size_t n) {
    double sum = 0.0;
    for (size_t k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

// Rollouts: reverse = forward = differences along a direction in weights, state, controls, parameters.
static void rollouts_have_gradients(void** state) {
    (void)state;
    enum { STEPS = 12 };
    for (uint32_t n = 0; n < GRADED; n++) {
        for (int backend = 0; backend < 2; backend++) {
            ns_rng rng = ns_rng_seed(60 + n);
            rig r = graded_rig(&all_graded[n], backend ? NS_BACKEND_NATIVE : NS_BACKEND_INTERP,
                               STEPS, &rng);
            size_t nstate = (STEPS + 1) * (size_t)r.n.nx, ncontrol = STEPS * (size_t)r.n.nc;
            double *seeds = doubles(nstate), *dstates = doubles(nstate);
            double* params = doubles(r.n.np);
            struct {
                double *at, *gradient, *direction, *start;
                size_t count;
            } in[4] = {{.at = r.x0, .count = r.n.nx},
                       {.at = r.controls, .count = ncontrol},
                       {.at = params, .count = r.n.np},
                       {.at = r.weights, .count = r.n.nw}};
            ns_system_default_params(r.system, params);
            for (size_t k = 0; k < nstate; k++) seeds[k] = ns_rng_uniform(&rng, -1.0, 1.0);
            for (int p = 0; p < 4; p++) {
                in[p].gradient = doubles(in[p].count);
                in[p].direction = doubles(in[p].count);
                in[p].start = doubles(in[p].count);
                for (size_t k = 0; k < in[p].count; k++) {
                    double size = p == 2 ? 0.1 * fabs(params[k]) : 1.0;
                    in[p].direction[k] = size * ns_rng_uniform(&rng, -1.0, 1.0);
                    if (p == 2 && params[k] == 0.0) in[p].direction[k] = 0.0;
                }
                memcpy(in[p].start, in[p].at, in[p].count * sizeof(double));
            }
            ns_rollout_args args = rig_args(&r);
            ns_error error = {0};
            args.params = params;
            ns_rollout_adjoint adjoint = {.state_seeds = seeds,
                                          .dx0 = in[0].gradient,
                                          .dcontrols = in[1].gradient,
                                          .dparams = in[2].gradient,
                                          .dweights = in[3].gradient};
            must(ns_rollout_vjp(r.system, r.work, &args, &adjoint, &error), &error);
            for (int p = 0; p < 4; p++) { // each kind by itself
                ns_rollout_tangent tangent = {.dx0 = p == 0 ? in[0].direction : NULL,
                                              .dcontrols = p == 1 ? in[1].direction : NULL,
                                              .dparams = p == 2 ? in[2].direction : NULL,
                                              .dweights = p == 3 ? in[3].direction : NULL,
                                              .dstates = dstates};
                must(ns_rollout_jvp(r.system, r.work, &args, &tangent, &error), &error);
                double reverse = dot(in[p].gradient, in[p].direction, in[p].count);
                double forward = dot(seeds, dstates, nstate);
                if (!(fabs(forward - reverse) <= 1e-9 * (1.0 + fabs(forward)))) {
                    fail_msg("%s, part %d: forward %.15g, reverse %.15g", all_graded[n].name, p,
                             forward, reverse);
                }
                double f[4], h = 1e-5;
                static const double offset[4] = {-2.0, -1.0, 1.0, 2.0};
                for (int e = 0; e < 4; e++) {
                    for (size_t k = 0; k < in[p].count; k++) {
                        in[p].at[k] = in[p].start[k] + h * offset[e] * in[p].direction[k];
                    }
                    must(ns_rollout(r.system, r.work, &args, &error), &error);
                    f[e] = weighted(&r, seeds);
                }
                memcpy(in[p].at, in[p].start, in[p].count * sizeof(double));
                double slope = (8.0 * (f[2] - f[1]) - (f[3] - f[0])) / (12.0 * h);
                if (!(fabs(slope - forward) <= 1e-6 * (1.0 + fabs(forward)))) {
                    fail_msg("%s, part %d: derivative %.12g, differences %.12g", all_graded[n].name,
                             p, forward, slope);
                }
                assert_true(forward != 0.0);
            }
            for (int p = 0; p < 4; p++) {
                free(in[p].gradient), free(in[p].direction), free(in[p].start);
            }
            free(seeds), free(dstates), free(params);
            rig_free(&r);
        }
    }
}

// ---- no change where the output is zero ----------------------------------------------------

// The last layer of every set to zero; hidden layers as they are.
static void zero_last_layers(rig* r) {
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(r->system); k++) {
        ns_weight_matrix w = ns_system_weight_matrix(r->system, k);
        bool last = k + 1 == ns_system_weight_matrix_count(r->system) ||
                    ns_system_weight_matrix(r->system, k + 1).layer == 0;
        if (last) memset(r->weights + w.offset, 0, (size_t)w.rows * w.columns * sizeof(double));
    }
}

// Same numbers to the last bit; 0 and -0 are the same here: x + 0 is not -0.
static uint32_t count_changed(const char* what, const double* a, size_t stride_a, const double* b,
                              size_t stride_b, size_t rows, size_t count) {
    uint32_t changed = 0;
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < count; k++) {
            double x = a[i * stride_a + k], y = b[i * stride_b + k];
            if (x == y) continue;
            if (changed++ == 0) {
                printf("    %s: row %zu, number %zu is %.17g and %.17g\n", what, i, k, x, y);
            }
        }
    }
    return changed;
}

typedef struct unchanged {
    const char* model;
    const char* place; // "joint", "link", "contact", "qdd"...: of a network with zero output
    const char* yaml;
    int contact, integrator;
    const char* free_params; // of both, or NULL
    bool values_only;
} unchanged;

static void randomize(rig* r, double size, ns_rng* rng) {
    for (uint32_t k = 0; k < r->n.nc * r->steps; k++) {
        r->controls[k] = size * ns_rng_uniform(rng, -0.3, 0.3);
    }
    for (uint32_t k = 0; k < r->nq + ns_model_get_sizes(r->model).nv; k++) {
        r->x0[k] += ns_rng_uniform(rng, -0.1, 0.1);
    }
}

// The gradient of a sum of states, those of memory left out.
static void gradient_for_x0(rig* r, size_t shared, double* dx0) {
    size_t nx = r->n.nx;
    double* seeds = doubles((r->steps + 1) * nx);
    for (size_t s = 0; s <= r->steps; s++) {
        for (size_t k = 0; k < shared; k++) seeds[s * nx + k] = cos(1.0 + (double)(s * shared + k));
    }
    ns_rollout_args args = rig_args(r);
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx0};
    ns_error error = {0};
    must(ns_rollout_vjp(r->system, r->work, &args, &adjoint, &error), &error);
    free(seeds);
}

static uint32_t count_changes(const unchanged* u, bool observe_more) {
    enum { STEPS = 25 };
    static const char* const observe[] = {"qdd", "energy", "link/*/velocity", "mass_matrix"};
    ns_system_options o = ns_default_system_options();
    o.contact = u->contact;
    o.integrator = u->integrator;
    o.observe = observe;
    o.nobserve = 3;
    o.free_params = &u->free_params;
    o.nfree = u->free_params ? 1 : 0;
    if (u->contact == NS_CONTACT_SPRING) o.timestep = 2e-5; // they start deep in the ground
    rig a = rig_make(u->model, NULL, &o, STEPS);
    if (observe_more) {
        static const char* const all[] = {"qdd", "energy", "link/*/velocity", "**"};
        o.observe = all;
        o.nobserve = 4;
    }
    rig b = rig_make(u->model, u->yaml, &o, STEPS);
    zero_last_layers(&b);
    ns_rng rng = ns_rng_seed(8), again = ns_rng_seed(8);
    randomize(&a, control_size(u->model), &rng);
    randomize(&b, control_size(u->model), &again);
    rig_run(&a);
    rig_run(&b);
    char what[200];
    uint32_t changed = 0;
    snprintf(what, sizeof what, "%.20s, %s, contact %d: states", u->model, u->place, u->contact);
    changed += count_changed(what, a.states, a.n.nx, b.states, b.n.nx, STEPS + 1, a.n.nx);
    snprintf(what, sizeof what, "%.20s, %s, contact %d: observed", u->model, u->place, u->contact);
    changed += count_changed(what, a.observations, a.n.ny, b.observations, b.n.ny, STEPS, a.n.ny);
    double *da = doubles(a.n.nx), *db = doubles(b.n.nx);
    gradient_for_x0(&a, a.n.nx, da);
    gradient_for_x0(&b, a.n.nx, db);
    snprintf(what, sizeof what, "%.20s, %s, contact %d: dx0", u->model, u->place, u->contact);
    if (!u->values_only) changed += count_changed(what, da, a.n.nx, db, a.n.nx, 1, a.n.nx);
    free(da), free(db);
    rig_free(&a);
    rig_free(&b);
    return changed;
}

#define AT_JOINTS(what)                                                                            \
    "networks:\n  - {name: n, each: joint/*, inputs: [q/*, qd/*], outputs: [\"{}/" what "\"],"     \
    " hidden: [4]}\n"
#define AT_ALL(what, mode)                                                                         \
    "networks:\n  - {name: n, inputs: [q/*, \"prev:qd/*\"], outputs: [" what "], hidden: [4],"     \
    " mode: " mode "}\n"
#define AT_LINKS                                                                                   \
    "networks:\n  - {name: n, each: link/*, inputs: [\"{}/velocity/com/x\","                       \
    " \"{}/velocity/com/y\", \"{}/velocity/angular/z\"], outputs: [\"{}/force/x\","                \
    " \"{}/force/y\", \"{}/force/z\", \"{}/torque/x\", \"{}/torque/y\", \"{}/torque/z\"],"         \
    " hidden: [4]}\n"
#define AT_CONTACTS(what)                                                                          \
    "networks:\n  - {name: n, each: contact/*/*, inputs: [q/0, qd/*], outputs: [\"{}/" what        \
    "\"], hidden: [4]}\n"

static void networks_of_zero_output_change_nothing(void** state) {
    (void)state;
    static const char* const models[] = {"double_pendulum.urdf",
                                         "swimmer2.xml",
                                         "arm7_mixed.urdf",
                                         "quadruped.urdf",
                                         "pendulum5_ground.xml",
                                         pendulum,
                                         ball,
                                         body};
    static const char* const contacts[] = {
        AT_CONTACTS("depth"),          AT_CONTACTS("velocity/normal"), AT_CONTACTS("force/normal"),
        AT_CONTACTS("force/tangent1"), AT_CONTACTS("force/elastic"),   AT_CONTACTS("force/damping"),
        AT_CONTACTS("friction")};
    uint32_t changed = 0, tried = 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        const struct {
            const char *place, *yaml, *free_params;
        } where[] = {
            {"empty", "networks: []\n", NULL},
            {"tau", AT_JOINTS("tau"), NULL},
            {"damping", AT_JOINTS("force/damping"), NULL},
            {"friction", AT_JOINTS("force/friction"), NULL},
            {"damping scaled", AT_ALL("joint/*/force/damping", "scale"), NULL},
            {"qdd", AT_ALL("qdd/*", "add"), NULL},
            {"input tau", AT_ALL("tau/*", "add"), NULL},
            {"bias", AT_ALL("bias/*", "add"), NULL},
            {"links", AT_LINKS, NULL},
            {"mass", "networks:\n  - {name: n, inputs: [q/*], outputs: [link/*/mass]}\n",
             "link/*/mass"},
        };
        ns_model* model = load_model(models[m]);
        bool floating = model->links[0].def.joint_type == NS_JOINT_FLOATING;
        bool has_contact = model->sizes.ncontact > 0;
        ns_model_free(model);
        for (size_t k = 0; k < sizeof where / sizeof *where; k++) {
            if (floating && strstr(where[k].yaml, "each: joint")) continue;
            if (models[m] == body && strstr(where[k].yaml, "joint/*/force")) continue;
            // The ball does not turn.
            if (models[m] == ball && strcmp(where[k].place, "links") == 0) continue;
            if (strcmp(models[m], "swimmer2.xml") == 0 && strcmp(where[k].place, "mass") == 0)
                continue;
            for (int i = 0; i < (m < 3 || m == 5 ? 3 : 1); i++) {
                unchanged u = {models[m], where[k].place,       where[k].yaml, -1,
                               i,         where[k].free_params, false};
                // A slope of forces that is constant is folded into the masses as the step is
                // traced: only one that is not can be compared.
                if (i == NS_INTEGRATOR_IMPLICIT && !u.free_params) {
                    u.free_params = "joint/*/damping";
                }
                changed += count_changes(&u, false) > 0;
                tried++;
            }
        }
        for (int c = NS_CONTACT_NCP; has_contact && c <= NS_CONTACT_SPRING; c++) {
            unchanged u = {models[m], "links, contact", AT_LINKS, c, 0, NULL, false};
            if (models[m] != ball) changed += count_changes(&u, false) > 0;
            tried++;
            for (size_t k = 0; k < (c == NS_CONTACT_SPRING ? 7 : 4); k++) {
                u.place = u.yaml = contacts[k];
                // The force is -(a product), whose sign moves into what uses it; with a network it
                // stays, and adjoints are summed in another order.
                u.values_only = c == NS_CONTACT_SPRING && strstr(contacts[k], "tangent1") != NULL;
                changed += count_changes(&u, false) > 0;
                tried++;
            }
        }
    }
    printf("    %u of %u changed something\n", changed, tried);
    assert_int_equal(changed, 0);
}

static void observing_changes_nothing(void** state) {
    (void)state;
    static const char* const models[] = {"double_pendulum.urdf", "swimmer2.xml", "arm7_mixed.urdf",
                                         "quadruped.urdf", "pendulum5_ground.xml"};
    uint32_t changed = 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        unchanged u = {models[m], "observe", NULL, -1, 0, NULL, false};
        changed += count_changes(&u, true) > 0;
    }
    assert_int_equal(changed, 0);
}

// ---- batches, threads, memory --------------------------------------------------------------

static rig swimmers(uint32_t batch, uint32_t steps, ns_rng* rng) {
    rig r = rig_make("swimmer2.xml", swimmer_drag, NULL, 1);
    ns_workspace_free(r.work);
    free(r.x0), free(r.controls), free(r.states), free(r.observations);
    rig_work(&r, batch, steps);
    for (size_t k = 0; k < (size_t)batch * r.n.nx; k++) r.x0[k] = ns_rng_uniform(rng, -0.5, 0.5);
    for (size_t k = 0; k < (size_t)batch * steps * r.n.nc; k++) {
        r.controls[k] = ns_rng_uniform(rng, -1e-4, 1e-4);
    }
    return r;
}

static void weight_gradient(const rig* r, ns_workspace* work, const double* seeds, double* dw) {
    ns_rollout_args args = rig_args(r);
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dweights = dw};
    ns_error error = {0};
    must(ns_rollout_vjp(r->system, work, &args, &adjoint, &error), &error);
}

static void weight_gradients_do_not_depend_on_threads(void** state) {
    (void)state;
    static const uint32_t batches[] = {1, 2, 3, 5, 7, 130, 200};
    for (size_t n = 0; n < sizeof batches / sizeof *batches; n++) {
        uint32_t batch = batches[n], steps = 6;
        ns_rng rng = ns_rng_seed(n);
        rig r = swimmers(batch, steps, &rng);
        size_t nstate = (size_t)batch * (steps + 1) * r.n.nx, row = (steps + 1) * (size_t)r.n.nx;
        double* seeds = doubles(nstate);
        for (size_t k = 0; k < nstate; k++) seeds[k] = ns_rng_uniform(&rng, -1.0, 1.0);
        double *dw = doubles(r.n.nw), *other = doubles(r.n.nw), *sum = doubles(r.n.nw);
        weight_gradient(&r, r.work, seeds, dw);
        for (uint32_t threads = 1; threads <= 3; threads++) {
            for (int checkpoints = 0; checkpoints < 2; checkpoints++) {
                ns_workspace_size size = {.batch = batch, .steps = steps, .threads = threads};
                size.max_bytes = checkpoints ? threads * 14000 : 0;
                ns_workspace* work = NULL;
                ns_error error = {0};
                must(ns_workspace_create(r.system, &size, &work, &error), &error);
                weight_gradient(&r, work, seeds, other);
                for (uint32_t k = 0; k < r.n.nw; k++) {
                    assert_true(check_same_bits(dw[k], other[k]));
                }
                ns_workspace_free(work);
            }
        }
        // The sum of what each robot gives alone.
        for (uint32_t b = 0; b < batch; b++) {
            rig one = r;
            one.batch = 1;
            one.x0 = r.x0 + b * r.n.nx;
            one.controls = r.controls + (size_t)b * steps * r.n.nc;
            weight_gradient(&one, r.work, seeds + b * row, other);
            for (uint32_t k = 0; k < r.n.nw; k++) sum[k] += other[k];
        }
        for (uint32_t k = 0; k < r.n.nw; k++) {
            close_to("gradient of a weight", dw[k], sum[k], 1e-11 * (1.0 + fabs(sum[k])));
        }
        free(seeds), free(dw), free(other), free(sum);
        rig_free(&r);
    }
}

static void rolling_out_networks_allocates_nothing(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3);
    rig r = swimmers(10, 20, &rng);
    double *seeds = doubles(10 * 21 * (size_t)r.n.nx), *dw = doubles(r.n.nw);
    double* dstates = doubles(10 * 21 * (size_t)r.n.nx);
    for (size_t k = 0; k < 10 * 21 * (size_t)r.n.nx; k++) seeds[k] = 1.0;
    ns_rollout_args args = rig_args(&r);
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dweights = dw};
    ns_rollout_tangent tangent = {.dweights = r.weights, .dstates = dstates};
    unsigned long mallocs = 0;
    for (int n = 0; n < 4; n++) {
        if (n == 1) mallocs = malloc_calls; // the first round starts the threads
        assert_int_equal(ns_rollout(r.system, r.work, &args, NULL), NS_OK);
        assert_int_equal(ns_rollout_vjp(r.system, r.work, &args, &adjoint, NULL), NS_OK);
        assert_int_equal(ns_rollout_jvp(r.system, r.work, &args, &tangent, NULL), NS_OK);
    }
    assert_int_equal(malloc_calls, mallocs);
#ifdef COUNTS_MALLOC
    assert_true(malloc_calls > 0);
#endif
    free(seeds), free(dw), free(dstates);
    rig_free(&r);
}

static void memory_running_out_is_an_error(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_error error = {0};
    ns_model* model = NULL;
    ns_load_options m = ns_default_load_options();
    m.allocator = &allocator;
    must(ns_model_parse(pendulum, strlen(pendulum), "t", &m, &model, &error), &error);
    ns_blueprint* blueprint = parse_blueprint(everywhere);
    size_t before = counter.live_blocks;
    ns_system_options o = ns_default_system_options();
    o.blueprint = blueprint;
    o.backend = NS_BACKEND_INTERP;
    uint32_t failures = 0;
    for (size_t n = 1;; n++) {
        ns_system* system = NULL;
        counter.calls = 0;
        counter.fail_at = n;
        ns_status status = ns_system_create(model, &o, &system, &error);
        bool reached = counter.calls >= n;
        counter.fail_at = 0;
        if (reached) {
            assert_int_equal(status, NS_ERR_NOMEM);
            assert_null(system);
            failures++;
        }
        ns_system_free(system);
        assert_int_equal(counter.live_blocks, before);
        if (!reached) {
            assert_int_equal(status, NS_OK);
            break;
        }
    }
    printf("    %u allocations, each failed once\n", failures);
    assert_true(failures > 50);
    ns_blueprint_free(blueprint);
    ns_model_free(model);
    assert_int_equal(counter.live_blocks, 0);
}

// ---- what goes wrong -----------------------------------------------------------------------

static void fails(const char* yaml, const char* weights, const char* const* fragments) {
    ns_model* model = load_model(pendulum);
    ns_blueprint* blueprint = parse_blueprint(yaml);
    ns_system_options o = ns_default_system_options();
    ns_system* system = NULL;
    ns_error error = {0};
    char path[] = "augment_weights.json";
    if (weights) {
        FILE* file = fopen(path, "w");
        assert_non_null(file);
        fputs(weights, file);
        fclose(file);
        must(ns_blueprint_load_weights(blueprint, path, &error), &error);
        remove(path);
    }
    o.blueprint = blueprint;
    assert_int_equal(ns_system_create(model, &o, &system, &error), NS_ERR_ARGUMENT);
    assert_null(system);
    for (; *fragments; fragments++) {
        if (!strstr(error.message, *fragments)) fail_msg("%s\nlacks %s", error.message, *fragments);
    }
    ns_blueprint_free(blueprint);
    ns_model_free(model);
}
#define FAILS(yaml, weights, ...) fails(yaml, weights, (const char* const[]){__VA_ARGS__, NULL})

static void mistakes_are_named(void** state) {
    (void)state;
    FAILS("networks:\n  - {name: n, inputs: [q/0], outputs: [joint/hnge/tau]}\n", NULL,
          "b.yaml:2:", "joint/hnge/tau", "joint/hinge/tau");
    FAILS("networks:\n  - {name: n, inputs: [q/7], outputs: [joint/hinge/tau]}\n", NULL, "\"q/7\"",
          "q/0");
    FAILS("networks:\n  - {name: n, inputs: [q/0], outputs: [energy/total]}\n", NULL,
          "energy/total", "nothing in the step depends on");
    FAILS("networks:\n  - {name: n, inputs: [qdd/0], outputs: [joint/hinge/tau]}\n", NULL, "qdd/0",
          "joint/hinge/tau", "prev:");
    FAILS("networks:\n  - {name: n, inputs: [q/0], outputs: [tau/0]}\n",
          "{\"n/w0\": [[1.0], [2.0], [3.0]]}", "n/w0", "3 x 1", "2 x 1");
    FAILS("networks:\n  - {name: n, inputs: [q/0], outputs: [tau/0]}\n", "{\"m/w0\": [[1.0]]}",
          "n/w0", "missing");
    FAILS("networks:\n  - {name: n, inputs: [q/0], outputs: [tau/0]}\n"
          "  - {name: m, inputs: [q/0], outputs: [tau/*]}\n",
          NULL, "tau/0", "\"n\"", "\"m\"");
}

// A network at the state itself would act four times in a step of rk4.
static void rk4_refuses_networks_at_the_state(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(pendulum);
    ns_blueprint* blueprint = NULL;
    ns_error error = {0};
    assert_int_equal(
        ns_blueprint_parse(everywhere, strlen(everywhere), "b.yaml", NULL, &blueprint, &error),
        NS_OK);
    ns_system_options o = ns_default_system_options();
    o.integrator = NS_INTEGRATOR_RK4;
    o.blueprint = blueprint;
    ns_system* system = NULL;
    assert_int_equal(ns_system_create(model, &o, &system, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "rk4"));
    ns_blueprint_free(blueprint);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rk4_refuses_networks_at_the_state),
        cmocka_unit_test(networks_at_joint_forces),
        cmocka_unit_test(networks_at_limits),
        cmocka_unit_test(networks_at_the_state),
        cmocka_unit_test(networks_at_link_forces),
        cmocka_unit_test(weights_are_shared_or_not),
        cmocka_unit_test(one_network_has_several_outputs),
        cmocka_unit_test(networks_at_springs),
        cmocka_unit_test(networks_at_impulses),
        cmocka_unit_test(controls_can_be_delayed),
        cmocka_unit_test(memory_is_what_is_observed),
        cmocka_unit_test(steps_with_networks_pass_the_derivative_check),
        cmocka_unit_test(rollouts_have_gradients),
        cmocka_unit_test(networks_of_zero_output_change_nothing),
        cmocka_unit_test(observing_changes_nothing),
        cmocka_unit_test(weight_gradients_do_not_depend_on_threads),
        cmocka_unit_test(rolling_out_networks_allocates_nothing),
        cmocka_unit_test(memory_running_out_is_an_error),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
