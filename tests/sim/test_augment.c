// Networks at quantities of the step: what they add to the motion is what they say.

#include "base/common.h"
#include "model/model_data.h"
#include "neuralsim/sim.h"
#include "sim/augment_rig.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/modelfile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- one robot with networks ---------------------------------------------------------------

// Hands out `count` weights, which must be all.
static void rig_weights(rig* r, uint32_t count, const double* weights) {
    assert_int_equal(r->n.nw, count);
    memcpy(r->weights, weights, count * sizeof *weights);
}

#define WEIGHTS(r, ...)                                                                            \
    rig_weights(r, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

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
        check_swing(&all[i], NS_INTEGRATOR_EXPLICIT);
        check_swing(&all[i], NS_INTEGRATOR_RK4);
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
    o.integrator = NS_INTEGRATOR_EXPLICIT; // what a network changes is not taken implicitly
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
    ns_system_options o = ns_default_system_options();
    o.integrator = NS_INTEGRATOR_EXPLICIT; // what a network changes is not taken implicitly
    rig a = rig_make(pendulum,
                     "networks:\n  - name: n\n    inputs: [qd/0]\n    outputs: "
                     "[joint/hinge/force/damping, tau/0, joint/hinge/tau]\n    output_scale: "
                     "[0.5, 2, 1]\n    input_scale: [10]\n",
                     &o, 200);
    ns_param_value set = {"joint/hinge/damping", 0.3};
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
    o.integrator = NS_INTEGRATOR_EXPLICIT; // as the reference
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

    // Deeper than it is: pushed out, without speed.
    r = rig_make(ball, "networks:\n  - {name: n, inputs: [q/0], outputs: [contact/*/0/depth]}\n",
                 &o, 1);
    WEIGHTS(&r, 0.0, 0.001);
    rig_run(&r);
    close_to("pushed out", state_at(&r, 1)[1], 0.2 * 0.001, 1e-7);
    close_to("speed", state_at(&r, 1)[3], 0.0, 1e-5);
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

// An output of a network says which quantity it changes; other observations do not.
static void outputs_name_their_target(void** state) {
    (void)state;
    static const char* const observe[] = {"qdd/0", "net/**"};
    ns_system_options o = ns_default_system_options();
    o.observe = observe;
    o.nobserve = 2;
    rig r = rig_make(pendulum, delay, &o, 1);
    uint32_t outputs = 0;
    for (uint32_t k = 0; k < r.n.ny; k++) {
        ns_augment mode = NS_AUGMENT_REPLACE;
        const char* target = ns_system_observation_target(r.system, k, &mode);
        bool output = strcmp(ns_system_observation_name(r.system, k), "qdd/0") != 0;
        assert_int_equal(output, target != NULL);
        if (!output) continue;
        outputs++;
        assert_string_equal(target, "control/motor");
        assert_int_equal(mode, NS_AUGMENT_ADD);
    }
    assert_int_equal(outputs, 1);
    assert_null(ns_system_observation_target(r.system, r.n.ny, NULL));
    rig_free(&r);
}

// ---- memory --------------------------------------------------------------------------------

static void controls_can_be_delayed(void** state) {
    (void)state;
    for (int integrator = 0; integrator < 3; integrator++) {
        ns_system_options o = ns_default_system_options();
        o.integrator = integrator;
        rig a = rig_make(pendulum, delay, &o, 60), b = rig_make(pendulum, NULL, &o, 60);
        assert_int_equal(a.n.nx, 5);
        assert_int_equal(a.n.nmemory, 3);
        assert_int_equal(b.n.nmemory, 0);
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

// Quantities that only read-outs need are kept as well, whether they are observed or not.
static void memory_of_what_comes_after_the_step(void** state) {
    (void)state;
    static const char yaml[] =
        "networks:\n  - {name: n, inputs: [\"prev:mass_matrix/0/1\", \"lag2:mass_matrix/1/1\","
        " \"prev:link/ball/jacobian/linear/0/0\", \"prev:contact/penetration\"],"
        " outputs: [tau/0]}\n";
    static const char* const observe[] = {"mass_matrix/1/1", "contact/penetration"};
    ns_system_options o = ns_default_system_options();
    o.contact = NS_CONTACT_SPRING;
    rig a = rig_make(ball, yaml, &o, 30);
    o.observe = observe;
    o.nobserve = 2;
    rig b = rig_make(ball, yaml, &o, 30);
    WEIGHTS(&a, 0.3, 0.1, 0.4, 0.2, 20.0, 0.0);
    memcpy(b.weights, a.weights, a.n.nw * sizeof *a.weights);
    a.x0[1] = b.x0[1] = 0.001;
    a.x0[3] = b.x0[3] = -1.0;
    rig_run(&a);
    rig_run(&b);
    same_motion("kept and observed", &a, &b, 0.0);
    uint32_t at = 0;
    while (strcmp(ns_system_state_name(a.system, at), "memory/contact/penetration/1") != 0) at++;
    double deepest = 0.0;
    for (uint32_t s = 0; s < 30; s++) {
        close_to("penetration", state_at(&a, s + 1)[at], fmax(0.0, -state_at(&a, s)[1]), 1e-16);
        deepest = fmax(deepest, state_at(&a, s + 1)[at]);
    }
    assert_true(deepest > 1e-3);
    rig_free(&a);
    rig_free(&b);
}

// A whole number has no derivative, so that gradients of weights would not be those of the motion.
static void counts_of_the_solver_are_no_inputs(void** state) {
    (void)state;
    static const char* const inputs[] = {"prev:contact/solves", "lag3:contact/sweeps",
                                         "prev:contact/residual", "contact/relaxation"};
    for (int k = 0; k < 4; k++) {
        char yaml[200];
        snprintf(yaml, sizeof yaml,
                 "networks:\n  - {name: n, inputs: [\"%s\"], outputs: [tau/0]}\n", inputs[k]);
        ns_model* model = load_model(ball);
        ns_blueprint* blueprint = parse_blueprint(yaml);
        ns_system_options o = ns_default_system_options();
        o.contact = NS_CONTACT_NCP;
        o.blueprint = blueprint;
        ns_system* system = NULL;
        ns_error error = {0};
        assert_int_equal(ns_system_create(model, &o, &system, &error), NS_ERR_ARGUMENT);
        assert_non_null(strstr(error.message, "is a diagnostic of the solver"));
        ns_blueprint_free(blueprint);
        ns_model_free(model);
    }
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
        cmocka_unit_test(outputs_name_their_target),
        cmocka_unit_test(networks_at_the_state),
        cmocka_unit_test(networks_at_link_forces),
        cmocka_unit_test(weights_are_shared_or_not),
        cmocka_unit_test(one_network_has_several_outputs),
        cmocka_unit_test(networks_at_springs),
        cmocka_unit_test(networks_at_impulses),
        cmocka_unit_test(controls_can_be_delayed),
        cmocka_unit_test(memory_is_what_is_observed),
        cmocka_unit_test(memory_of_what_comes_after_the_step),
        cmocka_unit_test(counts_of_the_solver_are_no_inputs),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
