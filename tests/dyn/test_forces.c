// Robots small enough for closed forms: the double pendulum, and one joint with everything that
// acts on it.

#include "support/evaluate.h"
#include "support/randomtree.h"
#include "support/residual.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static void randomize(ns_rng* rng, double* x, uint32_t n, double size) {
    for (uint32_t i = 0; i < n; i++) x[i] = ns_rng_uniform(rng, -size, size);
}

// ---- double pendulum -----------------------------------------------------------------------

// Two hanging rods turning about y; q0 from the vertical, q1 relative to the first rod. Lagrange's
// equations as in any textbook, e.g. Spong, Hutchinson & Vidyasagar, Robot Modeling and Control,
// section 6.4.
static void double_pendulum_obeys_lagrange(void** state) {
    (void)state;
    const char* const observe[] = {"qdd", "mass_matrix", "bias", NULL};
    residual r = {.name = "double pendulum: M, bias, accelerations", .tolerance = 1e-13};
    ns_rng rng = ns_rng_seed(20);
    for (int n = 0; n < 50; n++) {
        double m[2], c[2], I[2], l = ns_rng_uniform(&rng, 0.3, 1.5);
        random_tree tree = {.world = ns_default_world_def(), .nlink = 2};
        for (int i = 0; i < 2; i++) {
            ns_link_def link = ns_default_link_def();
            link.name = i == 0 ? "upper" : "lower";
            link.parent = i == 0 ? NULL : "upper";
            link.joint_type = NS_JOINT_REVOLUTE;
            link.axis[0] = link.axis[2] = 0.0, link.axis[1] = 1.0;
            if (i == 1) link.origin.position[2] = -l;
            m[i] = link.mass = ns_rng_uniform(&rng, 0.5, 2.0);
            c[i] = ns_rng_uniform(&rng, 0.1, 1.0);
            I[i] = ns_rng_uniform(&rng, 0.01, 0.1);
            link.com[2] = -c[i];
            link.inertia[0] = link.inertia[1] = link.inertia[2] = I[i];
            tree.link[i] = link;
        }
        ns_model* model = random_tree_build(&tree, NULL);
        evaluator* e = evaluator_create(model, observe);
        randomize(&rng, e->q, 2, 3.0);
        randomize(&rng, e->qd, 2, 3.0);
        randomize(&rng, e->tau, 2, 5.0);
        evaluator_run(e);

        const double *q = e->q, *qd = e->qd, g = 9.81;
        double m12 = m[1] * (c[1] * c[1] + l * c[1] * cos(q[1])) + I[1];
        double m22 = m[1] * c[1] * c[1] + I[1];
        double m11 = m[0] * c[0] * c[0] + I[0] +
                     m[1] * (l * l + c[1] * c[1] + 2.0 * l * c[1] * cos(q[1])) + I[1];
        double h = m[1] * l * c[1] * sin(q[1]), second = m[1] * c[1] * g * sin(q[0] + q[1]);
        double first = (m[0] * c[0] + m[1] * l) * g * sin(q[0]) + second;
        double M[4] = {m11, m12, m12, m22};
        double bias[2] = {-h * (2.0 * qd[0] * qd[1] + qd[1] * qd[1]) + first,
                          h * qd[0] * qd[0] + second};
        double b0 = e->tau[0] - bias[0], b1 = e->tau[1] - bias[1], det = m11 * m22 - m12 * m12;
        double qdd[2] = {(m22 * b0 - m12 * b1) / det, (m11 * b1 - m12 * b0) / det};
        residual_array(&r, evaluator_get(e, "mass_matrix/0/0"), M, 4, 0.1);
        residual_array(&r, evaluator_get(e, "bias/0"), bias, 2, 1.0);
        residual_array(&r, evaluator_get(e, "qdd/0"), qdd, 2, 1.0);
        evaluator_free(e);
        ns_model_free(model);
    }
    residual_check(&r);
}

// A body that slides along, or turns about, an axis through its centre of mass, without gravity:
// what it resists with is one number.
static random_tree one_joint(ns_joint_type type, double resistance) {
    random_tree tree = {.world = ns_default_world_def(), .nlink = 1};
    tree.world.gravity[2] = 0.0;
    ns_link_def link = ns_default_link_def();
    link.name = "body";
    link.joint = "joint";
    link.joint_type = type;
    link.mass = type == NS_JOINT_REVOLUTE ? 1.0 : resistance;
    if (type != NS_JOINT_PRISMATIC) {
        link.inertia[0] = link.inertia[1] = link.inertia[2] = resistance;
    }
    tree.link[0] = link;
    return tree;
}

static double clamp(double x, double lower, double upper) {
    return fmin(fmax(x, lower), upper);
}

static double expected_limit_force(const ns_link_def* l, double q, double qd) {
    if (!l->limited) return 0.0;
    if (q < l->lower) return fmax(l->limit_stiffness * (l->lower - q) - l->limit_damping * qd, 0.0);
    if (q > l->upper) {
        return -fmax(l->limit_stiffness * (q - l->upper) + l->limit_damping * qd, 0.0);
    }
    return 0.0;
}

static double expected_actuator_force(const ns_actuator_def* a, double q, double qd, double u,
                                      double motor, double dt) {
    if (a->control_limited) u = clamp(u, a->control_lower, a->control_upper);
    double f = u;
    if (a->type == NS_ACTUATOR_POSITION) f = a->kp * (u - a->gear * q) - a->kd * a->gear * qd;
    if (a->type == NS_ACTUATOR_VELOCITY) f = a->kd * (u - a->gear * qd);
    if (a->type == NS_ACTUATOR_SERIES_ELASTIC) {
        f = a->kp * (u - a->gear * q) + a->kd * ((u - motor) / dt - a->gear * qd);
    }
    if (a->force_limited) f = clamp(f, a->force_lower, a->force_upper);
    return a->gear * f;
}

static void joint_forces_are_what_the_header_says(void** state) {
    (void)state;
    residual each = {.name = "spring, damper, friction, limit, actuator", .tolerance = 1e-14};
    residual r = {.name = "their sum over the inertia", .tolerance = 1e-13};
    ns_rng rng = ns_rng_seed(21);
    uint32_t beyond = 0, clamped = 0;
    for (uint32_t n = 0; n < 400; n++) {
        double resistance = ns_rng_uniform(&rng, 0.5, 2.0);
        random_tree tree = one_joint(n % 2 ? NS_JOINT_PRISMATIC : NS_JOINT_REVOLUTE, resistance);
        ns_link_def* l = &tree.link[0];
        l->stiffness = ns_rng_uniform(&rng, 0.0, 10.0);
        l->rest = ns_rng_uniform(&rng, -1.0, 1.0);
        l->damping = ns_rng_uniform(&rng, 0.0, 2.0);
        l->friction = ns_rng_uniform(&rng, 0.0, 2.0);
        l->friction_velocity = ns_rng_uniform(&rng, 0.01, 1.0);
        l->armature = ns_rng_uniform(&rng, 0.0, 1.0);
        l->limited = n % 4 < 2;
        l->lower = -0.5, l->upper = 0.5;
        l->limit_stiffness = ns_rng_uniform(&rng, 1.0, 50.0);
        l->limit_damping = ns_rng_uniform(&rng, 0.0, 20.0);
        ns_actuator_def* a = &tree.actuator[0];
        *a = ns_default_actuator_def();
        tree.nactuator = 1;
        a->joint = "joint";
        a->name = "motor";
        a->type = (ns_actuator_type)(n / 4 % 4);
        a->gear = ns_rng_uniform(&rng, -2.0, 2.0);
        a->kp = ns_rng_uniform(&rng, 0.0, 10.0);
        a->kd = ns_rng_uniform(&rng, 0.0, 0.1);
        a->control_limited = n / 16 % 2, a->control_lower = -0.7, a->control_upper = 0.4;
        a->force_limited = n / 32 % 2, a->force_lower = -1.5, a->force_upper = 1.0;
        ns_model* model = random_tree_build(&tree, NULL);
        const char* const observe[] = {"qdd", "joint", "actuator", NULL};
        evaluator* e = evaluator_create(model, observe);
        double q = ns_rng_uniform(&rng, -1.0, 1.0), qd = ns_rng_uniform(&rng, -2.0, 2.0);
        double u = ns_rng_uniform(&rng, -1.0, 1.0), motor = ns_rng_uniform(&rng, -1.0, 1.0);
        e->q[0] = q, e->qd[0] = qd, e->u[0] = u;
        if (a->type == NS_ACTUATOR_SERIES_ELASTIC) e->motor[0] = motor;
        e->tau[0] = ns_rng_uniform(&rng, -2.0, 2.0);
        evaluator_run(e);

        double spring = -l->stiffness * (q - l->rest), damper = -l->damping * qd;
        double friction = -l->friction * tanh(qd / l->friction_velocity);
        double limit = expected_limit_force(l, q, qd);
        double drive = expected_actuator_force(a, q, qd, u, motor, tree.world.timestep);
        residual_add(&each, *evaluator_get(e, "joint/joint/force/spring"), spring, 10.0);
        residual_add(&each, *evaluator_get(e, "joint/joint/force/damping"), damper, 10.0);
        residual_add(&each, *evaluator_get(e, "joint/joint/force/friction"), friction, 10.0);
        residual_add(&each, *evaluator_get(e, "joint/joint/force/limit"), limit, 10.0);
        residual_add(&each, a->gear * *evaluator_get(e, "actuator/motor/force"), drive, 200.0);
        double total = e->tau[0] + spring + damper + friction + limit + drive;
        residual_add(&each, *evaluator_get(e, "joint/joint/tau"), total, 200.0);
        residual_add(&r, *evaluator_get(e, "qdd/0"), total / (resistance + l->armature), 200.0);
        beyond += limit != 0.0;
        clamped += a->force_limited &&
                   (drive == a->gear * a->force_lower || drive == a->gear * a->force_upper);
        evaluator_free(e);
        ns_model_free(model);
    }
    assert_in_range(beyond, 50, 150);
    assert_in_range(clamped, 20, 200);
    residual_check(&each);
    residual_check(&r);
}

// A ball joint and a floating joint have damper and friction on each of their velocities.
static void free_joints_have_forces_on_each_velocity(void** state) {
    (void)state;
    residual r = {.name = "ball and floating joints: forces", .tolerance = 1e-13};
    residual moves = {.name = "ball and floating joints: accelerations", .tolerance = 1e-12};
    ns_rng rng = ns_rng_seed(22);
    for (int n = 0; n < 20; n++) {
        ns_joint_type type = n % 2 ? NS_JOINT_FLOATING : NS_JOINT_SPHERICAL;
        double resistance = ns_rng_uniform(&rng, 0.5, 2.0);
        random_tree tree = one_joint(type, resistance); // mass and inertia are the same number
        ns_link_def* l = &tree.link[0];
        l->damping = ns_rng_uniform(&rng, 0.1, 2.0);
        l->friction = ns_rng_uniform(&rng, 0.1, 2.0);
        l->friction_velocity = ns_rng_uniform(&rng, 0.1, 1.0);
        l->armature = n % 4 < 2 ? ns_rng_uniform(&rng, 0.1, 1.0) : 0.0;
        ns_model* model = random_tree_build(&tree, NULL);
        const char* const observe[] = {"qdd", "joint/joint/tau", NULL};
        evaluator* e = evaluator_create(model, observe);
        random_state(model, &rng, e->q, e->qd);
        randomize(&rng, e->tau, e->sizes.nv, 2.0);
        evaluator_run(e);
        for (uint32_t k = 0; k < e->sizes.nv; k++) {
            double qd = e->qd[k], total = e->tau[k] - l->damping * qd;
            total -= l->friction * tanh(qd / l->friction_velocity);
            residual_add(&r, *evaluator_get(e, "joint/joint/tau/%u", k), total, 1.0);
            // A sphere: no gyroscopic torque.
            double want = total / (resistance + l->armature);
            residual_add(&moves, *evaluator_get(e, "qdd/%u", k), want, 1.0);
        }
        evaluator_free(e);
        ns_model_free(model);
    }
    residual_check(&r);
    residual_check(&moves);
}

// m x'' = -k x - d x': the exact motion, underdamped. Runge-Kutta is off by (h omega)^5 / 120 a
// step, with h omega = 5e-3 here.
static void a_damped_oscillator_follows_its_formula(void** state) {
    (void)state;
    residual r = {.name = "damped oscillator over 2 s", .tolerance = 1e-10};
    const double m = 1.5, k = 40.0, d = 0.8, x0 = 0.3, v0 = -0.4;
    random_tree tree = one_joint(NS_JOINT_PRISMATIC, m);
    tree.link[0].stiffness = k;
    tree.link[0].damping = d;
    ns_model* model = random_tree_build(&tree, NULL);
    ns_system_options options = ns_default_system_options();
    const char* const observe[] = {"q"};
    options.integrator = NS_INTEGRATOR_RK4;
    options.observe = observe;
    options.nobserve = 1;
    enum { STEPS = 2000 };
    uint32_t ny;
    double* y = observe_rollout(model, &options, (double[]){x0, v0}, STEPS, &ny);
    assert_int_equal(ny, 1);
    double decay = d / (2.0 * m), omega = sqrt(k / m - decay * decay);
    for (uint32_t n = 0; n < STEPS; n++) {
        double t = n * 1e-3;
        double want =
            exp(-decay * t) * (x0 * cos(omega * t) + (v0 + decay * x0) / omega * sin(omega * t));
        residual_add(&r, y[n], want, x0);
    }
    residual_check(&r);
    free(y);
    ns_model_free(model);
}

// A hinge that a spring holds, in zero gravity: the spring's energy is the only potential one.
static void springs_store_energy(void** state) {
    (void)state;
    const char* const observe[] = {"energy", NULL};
    residual r = {.name = "energy of a joint spring", .tolerance = 1e-14};
    random_tree tree = {.world = ns_default_world_def(), .nlink = 1};
    tree.world.gravity[2] = 0.0;
    ns_link_def link = ns_default_link_def();
    link.name = "flap";
    link.joint_type = NS_JOINT_REVOLUTE;
    link.inertia[0] = link.inertia[1] = link.inertia[2] = 0.2;
    link.mass = 1.0;
    link.stiffness = 30.0;
    link.rest = 0.4;
    tree.link[0] = link;
    ns_model* model = random_tree_build(&tree, NULL);
    evaluator* e = evaluator_create(model, observe);
    e->q[0] = 1.1;
    e->qd[0] = 2.0;
    evaluator_run(e);
    double kinetic = 0.5 * 0.2 * 4.0, potential = 0.5 * 30.0 * 0.7 * 0.7;
    residual_add(&r, *evaluator_get(e, "energy/kinetic"), kinetic, 1.0);
    residual_add(&r, *evaluator_get(e, "energy/potential"), potential, 1.0);
    residual_add(&r, *evaluator_get(e, "energy/total"), kinetic + potential, 1.0);
    residual_check(&r);
    evaluator_free(e);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(springs_store_energy),
        cmocka_unit_test(double_pendulum_obeys_lagrange),
        cmocka_unit_test(joint_forces_are_what_the_header_says),
        cmocka_unit_test(free_joints_have_forces_on_each_velocity),
        cmocka_unit_test(a_damped_oscillator_follows_its_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
