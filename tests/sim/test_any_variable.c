// Networks at any variable, fed from any other: the state in any order, parameters that depend on functions
// of the state, friction of single points, normals, poses, the mass matrix; and what is a cycle.

#include "sim/augment_rig.h"

#include <math.h>

static void set_weights(rig* r, uint32_t count, const double* w) {
    assert_int_equal(r->n.nw, count);
    memcpy(r->weights, w, count * sizeof *w);
}

#define WEIGHTS(r, ...)                                                                            \
    set_weights(r, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

// A mass that slides along x and y, without gravity along them.
static const char table[] =
    "<mujoco><option timestep='0.01' gravity='0.5 0 -9.81'/><worldbody><body name='puck'>"
    "<joint name='x' type='slide' axis='1 0 0'/><joint name='y' type='slide' axis='0 1 0'/>"
    "<geom type='sphere' size='0.1' mass='2'/></body></worldbody></mujoco>";

// ---- the state -----------------------------------------------------------------------------

// Networks at the state read what it is at the start of the step, whatever the order of the list and
// whatever other networks do to it.
static void networks_at_the_state_read_it_as_given(void** state) {
    (void)state;
    rig r = rig_make(table,
                     "networks:\n"
                     "  - {name: a, inputs: [qd/1, q/0], outputs: [q/0], bias: false}\n"
                     "  - {name: b, inputs: [qd/1, qd/0], outputs: [qd/0], bias: false}\n"
                     "  - {name: c, inputs: [qd/0, q/0], outputs: [qd/1], bias: false}\n",
                     NULL, 50);
    WEIGHTS(&r, 0.02, -0.1, 0.03, -0.05, -0.04, 0.2);
    double x[4] = {0.3, -0.2, 1.0, 0.7}, dt = 0.01;
    memcpy(r.x0, x, sizeof x);
    rig_run(&r);
    for (uint32_t s = 1; s <= 50; s++) {
        double q0 = x[0] + 0.02 * x[3] - 0.1 * x[0];
        double v0 = x[2] + 0.03 * x[3] - 0.05 * x[2];
        double v1 = x[3] - 0.04 * x[2] + 0.2 * x[0];
        x[2] = v0 + dt * 0.5;
        x[3] = v1;
        x[0] = q0 + dt * x[2];
        x[1] += dt * x[3];
        for (int k = 0; k < 4; k++) close_to("state", state_at(&r, s)[k], x[k], 1e-13);
    }
    rig_free(&r);
}

// They may even read what follows from the state: of a step that starts from it as it is given.
static void networks_at_the_state_read_the_whole_step(void** state) {
    (void)state;
    ns_system_options o = ns_default_system_options();
    o.integrator = NS_INTEGRATOR_EXPLICIT;
    rig r = rig_make(table,
                     "networks:\n"
                     "  - {name: a, inputs: [qdd/0, energy/kinetic], outputs: [qd/0], bias:"
                     " false}\n"
                     "  - {name: b, inputs: [qd/0], outputs: [joint/x/damping]}\n",
                     &o, 40);
    WEIGHTS(&r, 0.05, -0.01, 0.4, 0.1);
    double x[4] = {0.0, 0.0, 1.0, 0.5}, dt = 0.01, m = 2.0;
    memcpy(r.x0, x, sizeof x);
    rig_run(&r);
    for (uint32_t s = 1; s <= 40; s++) {
        double given = 0.5 - (0.4 * x[2] + 0.1) * x[2] / m; // b reads the velocity of this step
        double energy = 0.5 * m * (x[2] * x[2] + x[3] * x[3]);
        double v = x[2] + 0.05 * given - 0.01 * energy;
        x[2] = v + dt * (0.5 - (0.4 * v + 0.1) * v / m); // and here the changed one
        x[0] += dt * x[2];
        x[1] += dt * x[3];
        for (int k = 0; k < 4; k++) close_to("state", state_at(&r, s)[k], x[k], 1e-12);
    }
    rig_free(&r);
}

// ---- parameters ----------------------------------------------------------------------------

// Damping that depends on where the link is, and on how fast it moves: known in closed form.
static void parameters_read_functions_of_the_state(void** state) {
    (void)state;
    static const char* const inputs[] = {"joint/hinge/sin", "link/arm/velocity/angular/y",
                                         "energy/kinetic"};
    for (int k = 0; k < 3; k++) {
        for (int integrator = 0; integrator < 2; integrator++) {
            char yaml[200];
            snprintf(yaml, sizeof yaml,
                     "networks:\n  - {name: n, inputs: [%s], outputs: [joint/hinge/damping]}\n",
                     inputs[k]);
            ns_system_options o = ns_default_system_options();
            o.integrator = integrator;
            rig a = rig_make(pendulum, yaml, &o, 300);
            WEIGHTS(&a, 0.3, 0.7);

            // The same force where the order of the step allows it.
            snprintf(yaml, sizeof yaml,
                     "formulas:\n  - {name: f, output: joint/hinge/force/damping, formula: '-(0.3 *"
                     " \"%s\" + 0.7) * \"joint/hinge/velocity\"'}\n",
                     inputs[k]);
            rig b = rig_make(pendulum, yaml, &o, 300);
            a.x0[0] = b.x0[0] = 1.0;
            a.x0[1] = b.x0[1] = 2.0;
            rig_run(&a);
            rig_run(&b);
            for (uint32_t s = 0; s <= 300; s++) {
                close_to(inputs[k], state_at(&a, s)[0], state_at(&b, s)[0], 1e-12);
            }
            rig_free(&a);
            rig_free(&b);
        }
    }
}

// Damping by the momentum, of a mass that depends on the place: networks in a chain, the first one last.
static void chains_of_late_networks(void** state) {
    (void)state;
    ns_system_options o = ns_default_system_options();
    o.integrator = NS_INTEGRATOR_EXPLICIT;
    rig r = rig_make(table,
                     "networks:\n"
                     "  - {name: m, inputs: [momentum/linear/y], outputs: [joint/x/damping]}\n"
                     "  - {name: d, inputs: [link/puck/pose/x], outputs: [link/puck/mass]}\n",
                     &o, 60);
    WEIGHTS(&r, 0.2, 0.5, 0.6, 0.0);
    double x[4] = {0.4, 0.0, 1.0, -0.5}, dt = 0.01;
    memcpy(r.x0, x, sizeof x);
    rig_run(&r);
    for (uint32_t s = 1; s <= 60; s++) {
        double m = 2.0 + 0.6 * x[0], d = 0.5 + 0.2 * m * x[3];
        x[2] += dt * (0.5 - d * x[2] / m);
        x[0] += dt * x[2];
        close_to("x", state_at(&r, s)[0], x[0], 1e-12);
        close_to("v", state_at(&r, s)[2], x[2], 1e-12);
    }
    rig_free(&r);
}

// A read-out that takes long to trace is there for networks in every stage of an integrator.
static void forces_read_the_mass_matrix(void** state) {
    (void)state;
    for (int integrator = 0; integrator < 3; integrator++) {
        ns_system_options o = ns_default_system_options();
        o.integrator = integrator;
        rig a = rig_make("double_pendulum.urdf",
                         "networks:\n  - {name: n, inputs: [mass_matrix/0/1, \"prev:q/0\"],"
                         " outputs: [joint/joint0/tau]}\n",
                         &o, 100);
        // M01 of a double pendulum is a + b cos(q1).
        rig b = rig_make("double_pendulum.urdf",
                         "networks:\n  - {name: n, inputs: [joint/joint1/cos, \"prev:q/0\"],"
                         " outputs: [joint/joint0/tau]}\n",
                         &o, 100);
        ns_model* model = load_model("double_pendulum.urdf");
        const ns_link_def *first = ns_model_link(model, 0), *second = ns_model_link(model, 1);
        double l = hypot(second->origin.position[0], second->origin.position[2]);
        double c = hypot(second->com[0], second->com[2]), m = second->mass;
        double sum = m * c * c + second->inertia[1], factor = m * l * c;
        assert_true(first->mass > 0.0);
        ns_model_free(model);
        WEIGHTS(&a, 2.0, 0.1, -0.3);
        WEIGHTS(&b, 2.0 * factor, 0.1, -0.3 + 2.0 * sum);
        a.x0[0] = b.x0[0] = 0.4;
        a.x0[1] = b.x0[1] = 1.0;
        rig_run(&a);
        rig_run(&b);
        for (uint32_t s = 0; s <= 100; s++) {
            close_to("q0", state_at(&a, s)[0], state_at(&b, s)[0], 1e-10);
            close_to("q1", state_at(&a, s)[1], state_at(&b, s)[1], 1e-10);
        }
        rig_free(&a);
        rig_free(&b);
    }
}

// ---- cycles --------------------------------------------------------------------------------

static void refused(const char* model_text, int contact, const char* yaml, const char* fragment) {
    ns_model* model = load_model(model_text);
    ns_blueprint* blueprint = parse_blueprint(yaml);
    ns_system_options o = ns_default_system_options();
    ns_system* system = NULL;
    ns_error error = {0};
    o.blueprint = blueprint;
    o.contact = contact;
    o.integrator =
        NS_INTEGRATOR_EXPLICIT; // others have shorter paths: their mass matrix has slopes
    assert_int_equal(ns_system_create(model, &o, &system, &error), NS_ERR_ARGUMENT);
    if (!strstr(error.message, fragment)) fail_msg("%s\nlacks %s", error.message, fragment);
    ns_blueprint_free(blueprint);
    ns_model_free(model);
}

static void cycles_are_told_with_their_path(void** state) {
    (void)state;
    refused(
        "double_pendulum.urdf", -1,
        "networks:\n  - {name: n, inputs: [link/link1/pose/x], outputs: [joint/joint1/origin/x]}\n",
        "b.yaml:2:24: network \"n\": inputs: \"link/link1/pose/x\" is computed from the output"
        " \"joint/joint1/origin/x\": joint/joint1/origin/x -> link/link1/pose/x; use"
        " \"prev:link/link1/pose/x\", its value in the step before");
    refused(pendulum, -1,
            "networks:\n  - {name: n, inputs: [qdd/0], outputs: [joint/hinge/damping]}\n",
            "joint/hinge/damping -> joint/hinge/force/damping -> joint/hinge/tau -> qdd/0; use");
    refused(pendulum, -1, "networks:\n  - {name: n, inputs: [tau/0], outputs: [tau/0]}\n",
            "\"tau/0\" is an output; use \"prev:tau/0\"");
    refused(
        "double_pendulum.urdf", -1,
        "networks:\n"
        "  - {name: a, inputs: [joint/joint0/force/damping], outputs: [joint/joint1/damping]}\n"
        "  - {name: b, inputs: [joint/joint1/force/damping], outputs: [joint/joint0/damping]}\n",
        "network \"b\": inputs: \"joint/joint1/force/damping\" is computed from the output"
        " \"joint/joint0/damping\": joint/joint0/damping -> joint/joint0/force/damping =>"
        " joint/joint1/damping -> joint/joint1/force/damping (=> is another network)");
    refused(pendulum, -1,
            "networks:\n  - {name: n, inputs: [q/0], outputs: [joint/hinge/damping],"
            " structure: dissipative, conjugate: [qdd/0]}\n",
            "conjugate: \"qdd/0\" is computed from the output \"joint/hinge/damping\"");
    refused(ball, NS_CONTACT_NCP,
            "networks:\n  - {name: n, each: contact/*/*, inputs: [\"{}/force/normal\"], outputs:"
            " [\"{}/mu\"]}\n",
            "/0/mu -> contact/ball:ground/0/force/normal; use"
            " \"prev:contact/ball:ground/0/force/normal\", its value in the step before");
    refused(pendulum, -1,
            "formulas:\n  - {name: f, output: joint/hinge/damping, formula: '2 * \"qdd/0\"'}\n",
            "formula \"f\": formula: \"qdd/0\" is computed from the output");
}

// Adding to the bias leaves the torques of joints free of inertias, replacing it does not.
static void replacing_can_close_a_cycle(void** state) {
    (void)state;
    static const char yaml[] =
        "networks:\n  - {name: a, inputs: [q/0], outputs: [bias/0], mode: %s}\n"
        "  - {name: b, inputs: [joint/hinge/tau], outputs: [link/arm/mass]}\n";
    char text[300];
    snprintf(text, sizeof text, yaml, "replace");
    refused(pendulum, -1, text, "what the network at \"link/arm/mass\" reads is computed from it");
    snprintf(text, sizeof text, yaml, "add");
    rig r = rig_make(pendulum, text, NULL, 1);
    WEIGHTS(&r, 0.0, 0.5, 0.2, 0.0);
    r.x0[0] = 0.3;
    rig_run(&r);
    // tau = -0.5 and so m = 1.9; the sphere's own inertia stays.
    double I = 0.4 * 2.0 * 0.01 + 1.9 * 0.25;
    close_to("qd", state_at(&r, 1)[1], 0.002 * (-0.5 - 1.9 * 9.81 * 0.5 * sin(0.3)) / I, 1e-12);
    rig_free(&r);
}

// ---- contact points ------------------------------------------------------------------------

static void same_motion(const char* what, const rig* a, const rig* b, double within) {
    uint32_t n = a->nq + ns_model_get_sizes(a->model).nv;
    assert_int_equal(a->steps, b->steps);
    for (uint32_t s = 0; s <= a->steps; s++) {
        for (uint32_t k = 0; k < n; k++) {
            close_to(what, state_at(a, s)[k], state_at(b, s)[k], within);
        }
    }
}

static ns_system_options contact_options(int law, const ns_param_value* set, uint32_t nset) {
    ns_system_options o = ns_default_system_options();
    o.contact = law;
    o.set = set;
    o.nset = nset;
    return o;
}

// Friction of each point that depends on its place: with springs the force is mu times the rest of the
// law, static friction follows.
static void friction_of_a_point_reads_its_place(void** state) {
    (void)state;
    static const ns_param_value set[] = {{"contact/*/mu", 0.5}};
    ns_system_options o = contact_options(NS_CONTACT_SPRING, set, 1);
    static const char* const inputs[] = {"position/x", "velocity/tangent1", "force/normal"};
    for (int k = 0; k < 3; k++) {
        char yaml[300];
        snprintf(yaml, sizeof yaml,
                 "networks:\n  - {name: n, each: contact/*/*, inputs: [\"{}/%s\"], outputs:"
                 " [\"{}/mu\"]}\n",
                 inputs[k]);
        rig a = rig_make(ball, yaml, &o, 200);
        WEIGHTS(&a, 0.2, 0.1);
        snprintf(yaml, sizeof yaml,
                 "formulas:\n  - {name: f, each: contact/*/*, output: \"{}/friction\", mode: scale,"
                 " formula: '(0.2 * \"{}/%s\" + 0.1) / 0.5'}\n",
                 inputs[k]);
        rig b = rig_make(ball, yaml, &o, 200);
        double x[4] = {0.3, -0.002, 1.0, 0.0};
        memcpy(a.x0, x, sizeof x);
        memcpy(b.x0, x, sizeof x);
        rig_run(&a);
        rig_run(&b);
        same_motion(inputs[k], &a, &b, 1e-11);
        assert_true(state_at(&a, 200)[2] < 0.99); // it was braked
        rig_free(&a);
        rig_free(&b);
    }
}

// The same for rigid contact: sliding and bouncing in closed form.
static void rigid_points_have_their_own_friction_and_restitution(void** state) {
    (void)state;
    static const ns_param_value set[] = {
        {"contact/*/cfm", 0.0}, {"contact/*/mu", 0.5}, {"contact/*/restitution", 0.5}};
    ns_system_options o = contact_options(NS_CONTACT_NCP, set, 3);
    const double dt = 0.0005, g = 9.81;
    rig r = rig_make(ball,
                     "networks:\n  - {name: n, inputs: [contact/*/0/velocity/tangent1,"
                     " contact/*/0/position/x], outputs: [contact/*/0/mu]}\n",
                     &o, 1);
    WEIGHTS(&r, 0.03, -0.2, 0.1);
    r.x0[0] = 0.4;
    r.x0[1] = -1e-12;
    r.x0[2] = 1.0;
    rig_run(&r);
    double mu = 0.5 + 0.03 * 1.0 - 0.2 * 0.4 + 0.1;
    close_to("sliding", state_at(&r, 1)[2], 1.0 - mu * g * dt, 1e-9);
    rig_free(&r);

    r = rig_make(ball,
                 "networks:\n  - {name: n, inputs: [contact/*/0/velocity/normal], outputs:"
                 " [contact/*/0/restitution]}\n",
                 &o, 1);
    WEIGHTS(&r, 0.1, 0.05);
    r.x0[1] = -1e-12;
    r.x0[3] = -2.0;
    rig_run(&r);
    close_to("bounce", state_at(&r, 1)[3], (0.5 - 0.2 + 0.05) * 2.0 - g * dt, 1e-8);
    rig_free(&r);
}

// ---- geometry of contact -------------------------------------------------------------------

// A ball on a slope that only a network knows, without friction: it slides down, by plain C.
static void terrain_can_have_a_learned_normal(void** state) {
    (void)state;
    static const ns_param_value set[] = {{"contact/*/mu", 0.0},
                                         {"contact/*/stiffness", 4e4},
                                         {"contact/*/damping", 0.4},
                                         {"contact/*/exponent", 1.5}};
    ns_system_options o = contact_options(NS_CONTACT_SPRING, set, 4);
    o.integrator = NS_INTEGRATOR_EXPLICIT;
    rig r = rig_make(ball,
                     "networks:\n  - {name: n, inputs: [contact/*/0/position/x], outputs:"
                     " [contact/*/0/normal/x], bias: false}\n",
                     &o, 300);
    WEIGHTS(&r, -0.8);
    double x[4] = {0.5, -0.001, 0.1, 0.0}, m = 0.5, dt = 0.0005;
    memcpy(r.x0, x, sizeof x);
    rig_run(&r);
    for (uint32_t s = 0; s < 300; s++) {
        double nx = -0.8 * x[0], norm = sqrt(1.0 + nx * nx), fx = 0.0, fz = 0.0;
        if (x[1] < 0.0) {
            double vn = (nx * x[2] + x[3]) / norm, elastic = 4e4 * pow(-x[1], 1.5);
            double f = fmax(0.0, elastic * (1.0 - 0.4 * vn));
            fx = f * nx / norm, fz = f / norm;
        }
        x[2] += dt * fx / m;
        x[3] += dt * (fz / m - 9.81);
        x[0] += dt * x[2];
        x[1] += dt * x[3];
        for (int k = 0; k < 4; k++) close_to("slope", state_at(&r, s + 1)[k], x[k], 1e-10);
    }
    assert_true(x[2] < -0.1); // downhill
    rig_free(&r);
}

static const char rolling[] =
    "<mujoco><option timestep='0.0005'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body name='ball' pos='0 0 0.099'><freejoint/>"
    "<geom name='ball' type='sphere' size='0.1' mass='0.5'/></body></worldbody></mujoco>";

// A force that acts beside the centre turns the ball.
static void contact_positions_can_change(void** state) {
    (void)state;
    static const char* const observe[] = {"contact/*/0/force/normal"};
    static const ns_param_value set[] = {{"contact/*/mu", 0.0}};
    ns_system_options o = contact_options(NS_CONTACT_SPRING, set, 1);
    o.integrator = NS_INTEGRATOR_EXPLICIT;
    o.observe = observe;
    o.nobserve = 1;
    rig r = rig_make(rolling,
                     "networks:\n  - {name: n, inputs: [q/0], outputs: [contact/*/0/position/x]}\n",
                     &o, 1);
    WEIGHTS(&r, 0.0, 0.03);
    rig_run(&r);
    double force = r.observations[0], I = 0.4 * 0.5 * 0.1 * 0.1;
    assert_true(force > 1.0);
    close_to("spin", state_at(&r, 1)[7 + 4], -0.0005 * 0.03 * force / I, 1e-12);
    rig_free(&r);
}

// A link whose pose is corrected touches elsewhere; its motion is otherwise the same.
static void link_poses_move_geometries(void** state) {
    (void)state;
    ns_system_options o = contact_options(NS_CONTACT_SPRING, NULL, 0);
    static const char* const observe[] = {"link/ball/pose/z", "energy/potential"};
    o.observe = observe;
    o.nobserve = 2;
    rig a = rig_make(ball, "networks:\n  - {name: n, inputs: [q/0], outputs: [link/ball/pose/z]}\n",
                     &o, 100);
    rig b = rig_make(
        ball, "networks:\n  - {name: n, inputs: [q/0], outputs: [contact/*/0/depth]}\n", &o, 100);
    WEIGHTS(&a, 0.02, -0.003);
    WEIGHTS(&b, -0.02, 0.003);
    a.x0[1] = b.x0[1] = 0.004;
    a.x0[2] = b.x0[2] = 0.3;
    rig_run(&a);
    rig_run(&b);
    same_motion("pose", &a, &b, 1e-12);
    assert_true(state_at(&a, 100)[1] < 0.003);
    for (uint32_t s = 0; s < 100; s++) {
        double change = 0.02 * state_at(&a, s)[0] - 0.003;
        close_to("pose", a.observations[2 * s] - b.observations[2 * s], change, 1e-12);
        close_to("energy", a.observations[2 * s + 1], b.observations[2 * s + 1], 1e-12);
    }
    rig_free(&a);
    rig_free(&b);

    // Turned: as a geometry that is turned on its link.
    static const char box[] =
        "<mujoco><option timestep='0.0005'/><worldbody>"
        "<geom name='ground' type='plane' size='5 5 1'/><body name='box' pos='0 0 0.1'>"
        "<joint name='z' type='slide' axis='0 0 1'/>"
        "<geom name='box' type='box' size='0.1 0.2 0.1' mass='0.5'/></body></worldbody></mujoco>";
    static const ns_param_value turned[] = {{"geom/box/origin/rx", 0.3}};
    o.nobserve = 0;
    rig c = rig_make(box,
                     "networks:\n  - {name: n, inputs: [q/0], outputs: [link/box/pose/qw,"
                     " link/box/pose/qx], mode: replace}\n",
                     &o, 100);
    o.set = turned;
    o.nset = 1;
    rig d = rig_make(box, NULL, &o, 100);
    WEIGHTS(&c, 0.0, 0.0, cos(0.15), sin(0.15));
    c.x0[0] = d.x0[0] = 0.06;
    rig_run(&c);
    rig_run(&d);
    same_motion("turned", &c, &d, 1e-11);
    assert_true(state_at(&c, 100)[1] > -0.04); // it was stopped
    rig_free(&c);
    rig_free(&d);
}

// ---- the mass matrix -----------------------------------------------------------------------

static void networks_at_the_mass_matrix(void** state) {
    (void)state;
    // On the diagonal: an armature.
    static const ns_param_value armature[] = {{"joint/joint0/armature", 0.3}};
    static const char* const observe[] = {"energy/kinetic", "mass_matrix/0/0"};
    for (int integrator = 0; integrator < 3; integrator++) {
        ns_system_options o = ns_default_system_options();
        o.integrator = integrator;
        o.observe = observe;
        o.nobserve = 2;
        rig a = rig_make("double_pendulum.urdf",
                         "networks:\n  - {name: n, inputs: [q/0], outputs: [mass_matrix/0/0]}\n",
                         &o, 200);
        o.set = armature;
        o.nset = 1;
        rig b = rig_make("double_pendulum.urdf", NULL, &o, 200);
        WEIGHTS(&a, 0.0, 0.3);
        a.x0[0] = b.x0[0] = 1.0;
        a.x0[3] = b.x0[3] = 2.0;
        rig_run(&a);
        rig_run(&b);
        same_motion("armature", &a, &b, 1e-10);
        for (uint32_t k = 0; k < 2 * 200; k++) {
            close_to("observed", a.observations[k], b.observations[k], 1e-10);
        }
        rig_free(&a);
        rig_free(&b);
    }

    // Off the diagonal, at either of the two numbers: (2, c; c, 2) qdd = (1, 0), c = x.
    for (int k = 0; k < 2; k++) {
        char yaml[200];
        snprintf(yaml, sizeof yaml,
                 "networks:\n  - {name: n, inputs: [q/0], outputs: [mass_matrix/%d/%d]}\n", k,
                 1 - k);
        rig r = rig_make(table, yaml, NULL, 30);
        WEIGHTS(&r, 1.0, 0.0);
        double x[4] = {0.5, 0.0, 0.2, 0.0}, dt = 0.01;
        memcpy(r.x0, x, sizeof x);
        rig_run(&r);
        for (uint32_t s = 1; s <= 30; s++) {
            double c = x[0], det = 4.0 - c * c;
            x[2] += dt * 2.0 / det;
            x[3] -= dt * c / det;
            x[0] += dt * x[2];
            x[1] += dt * x[3];
            for (int i = 0; i < 4; i++) close_to("coupled", state_at(&r, s)[i], x[i], 1e-12);
        }
        rig_free(&r);
    }

    // A singular matrix is the user's, and the step says where it became so.
    rig r = rig_make(table,
                     "networks:\n  - {name: n, inputs: [q/0], outputs: [mass_matrix/0/0], mode:"
                     " replace}\n",
                     NULL, 5);
    WEIGHTS(&r, 0.0, 0.0);
    ns_rollout_args args = rig_args(&r);
    ns_error error = {0};
    assert_int_equal(ns_rollout(r.system, r.work, &args, &error), NS_ERR_NONFINITE);
    assert_non_null(strstr(error.message, "qdd/0"));
    rig_free(&r);
    refused(
        table, -1,
        "networks:\n  - {name: n, inputs: [q/0], outputs: [mass_matrix/0/1, mass_matrix/1/0]}\n",
        "mass_matrix/0/1 and mass_matrix/1/0 are one number");
}

// Six numbers per joint place it on its parent: as if the file had them.
static void networks_at_joint_transforms(void** state) {
    (void)state;
    static const ns_param_value moved[] = {{"joint/joint1/origin/x", 0.05},
                                           {"joint/joint1/origin/ry", 0.2}};
    ns_system_options o = ns_default_system_options();
    rig a = rig_make("double_pendulum.urdf",
                     "networks:\n  - {name: n, inputs: [joint/joint0/cos], outputs:"
                     " [joint/joint1/origin/x, joint/joint1/origin/ry], mode: replace}\n",
                     &o, 200);
    o.set = moved;
    o.nset = 2;
    rig b = rig_make("double_pendulum.urdf", NULL, &o, 200);
    WEIGHTS(&a, 0.0, 0.0, 0.05, 0.2);
    a.x0[0] = b.x0[0] = 1.0;
    rig_run(&a);
    rig_run(&b);
    same_motion("transform", &a, &b, 1e-10);
    rig_free(&a);
    rig_free(&b);
}

// ---- gradients -----------------------------------------------------------------------------

// The gradient of a sum of final states for the weights, against differences along a direction.
static void check_weight_gradient(const char* what, rig* r) {
    ns_rng rng = ns_rng_seed(3);
    size_t nstate = (r->steps + 1) * (size_t)r->n.nx;
    double *seeds = doubles(nstate), *gradient = doubles(r->n.nw), *start = doubles(r->n.nw),
           *direction = doubles(r->n.nw);
    for (size_t k = 0; k < nstate; k++) seeds[k] = ns_rng_uniform(&rng, -1.0, 1.0);
    for (uint32_t k = 0; k < r->n.nw; k++) {
        start[k] = r->weights[k];
        direction[k] = ns_rng_uniform(&rng, -1.0, 1.0);
    }
    ns_rollout_args args = rig_args(r);
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dweights = gradient};
    ns_error error = {0};
    must(ns_rollout_vjp(r->system, r->work, &args, &adjoint, &error), &error);
    double slope = 0.0, f[2], h = 1e-5;
    for (uint32_t k = 0; k < r->n.nw; k++) slope += gradient[k] * direction[k];
    for (int side = 0; side < 2; side++) {
        for (uint32_t k = 0; k < r->n.nw; k++) {
            r->weights[k] = start[k] + (side == 0 ? -h : h) * direction[k];
        }
        rig_run(r);
        f[side] = 0.0;
        for (size_t k = 0; k < nstate; k++) f[side] += seeds[k] * r->states[k];
    }
    memcpy(r->weights, start, r->n.nw * sizeof *start);
    double difference = (f[1] - f[0]) / (2.0 * h);
    if (!(fabs(slope - difference) <= 1e-6 * (fabs(slope) + 1e-3)) || slope == 0.0) {
        fail_msg("%s: gradient %.12g, differences %.12g", what, slope, difference);
    }
    free(seeds), free(gradient), free(start), free(direction);
}

static void late_networks_have_gradients(void** state) {
    (void)state;
    static const struct {
        const char *model, *inputs, *outputs;
        int integrators; // how many of them, from the first
    } cases[] = {
        {"double_pendulum.urdf", "q/*, qd/*", "q/0, qd/1", 1},
        {"double_pendulum.urdf", "qdd/*, link/link1/pose/*", "qd/*", 1},
        {"double_pendulum.urdf", "link/link1/pose/*, joint/joint1/sin", "link/*/mass", 3},
        {"double_pendulum.urdf", "link/*/velocity/com/*, joint/*/sin", "joint/*/damping", 3},
        {"double_pendulum.urdf", "mass_matrix/*/*, link/link1/jacobian/**", "joint/joint0/tau", 3},
        {"double_pendulum.urdf", "joint/joint0/position", "joint/joint1/origin/*", 3},
        {"arm7_mixed.urdf", "mass_matrix/*/*, momentum/**", "tau/0", 1},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        for (int i = 0; i < cases[n].integrators; i++) {
            char yaml[300];
            snprintf(yaml, sizeof yaml,
                     "networks:\n  - {name: n, inputs: [%s], outputs: [%s], hidden: [3],"
                     " output_scale: 0.1, init: {last: 1}}\n",
                     cases[n].inputs, cases[n].outputs);
            ns_system_options o = ns_default_system_options();
            o.integrator = i;
            rig r = rig_make(cases[n].model, yaml, &o, 4);
            for (uint32_t k = 0; k < r.n.nx; k++) r.x0[k] += 0.3 - 0.1 * k;
            check_weight_gradient(cases[n].inputs, &r);
            rig_free(&r);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_at_the_state_read_it_as_given),
        cmocka_unit_test(networks_at_the_state_read_the_whole_step),
        cmocka_unit_test(parameters_read_functions_of_the_state),
        cmocka_unit_test(chains_of_late_networks),
        cmocka_unit_test(forces_read_the_mass_matrix),
        cmocka_unit_test(cycles_are_told_with_their_path),
        cmocka_unit_test(replacing_can_close_a_cycle),
        cmocka_unit_test(friction_of_a_point_reads_its_place),
        cmocka_unit_test(rigid_points_have_their_own_friction_and_restitution),
        cmocka_unit_test(terrain_can_have_a_learned_normal),
        cmocka_unit_test(contact_positions_can_change),
        cmocka_unit_test(link_poses_move_geometries),
        cmocka_unit_test(networks_at_the_mass_matrix),
        cmocka_unit_test(networks_at_joint_transforms),
        cmocka_unit_test(late_networks_have_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
