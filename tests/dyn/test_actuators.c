// Actuators against their formulas, and their gradients. tests/io/test_mujoco_drives.c has MuJoCo's
// answers.

#include "dyn/gradient_rig.h"
#include "neuralsim/sim.h"
#include "support/evaluate.h"
#include "support/modelfile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A ball joint and a slide without gravity: both resist with 2.
#define BODIES                                                                                     \
    "<mujoco><option gravity='0 0 0' timestep='0.01'/><worldbody>"                                 \
    "<body name='a'><joint name='ball' type='ball'/>"                                              \
    "<inertial pos='0 0 0' mass='1' diaginertia='2 2 2'/></body>"                                  \
    "<body name='b'><joint name='rail' type='slide' axis='1 0 0' range='-1 3' %s/>"                \
    "<inertial pos='0 0 0' mass='2' diaginertia='1 1 1'/></body></worldbody><actuator>%s"          \
    "</actuator></mujoco>"

static ns_model* bodies(const char* joint, const char* actuators) {
    char text[4000];
    snprintf(text, sizeof text, BODIES, joint, actuators);
    return modelfile_parse(text);
}

static evaluator* step_with(const ns_model* model, ns_integrator integrator) {
    static const char* const observe[] = {"qdd", "actuator", "joint/*/tau"};
    ns_system_options options = ns_default_system_options();
    options.integrator = (int)integrator;
    options.observe = observe;
    options.nobserve = 3;
    return evaluator_create_with(model, &options);
}

// A filter under a constant control follows an exponential: exactly, or as Euler's method does.
static void filters_follow_their_controls(void** state) {
    (void)state;
    ns_model* model = bodies("", "<general name='e' joint='rail' dyntype='filterexact' "
                                 "dynprm='0.03'/><general name='f' joint='rail' dyntype='filter' "
                                 "dynprm='0.03'/>");
    static const ns_integrator integrators[] = {NS_INTEGRATOR_EULER, NS_INTEGRATOR_RK4};
    for (int n = 0; n < 2; n++) {
        evaluator* e = step_with(model, integrators[n]);
        assert_string_equal(ns_system_state_name(e->system, 9), "act/e");
        double *act = e->q + 9, u = 0.7, start = -0.2, h = 0.01 / 0.03;
        double rk4 = 1.0 - h + h * h / 2.0 - h * h * h / 6.0 + h * h * h * h / 24.0;
        double decay = n == 0 ? 1.0 - h : rk4;
        act[0] = act[1] = start;
        e->u[0] = e->u[1] = u;
        for (int k = 1; k <= 20; k++) {
            evaluator_run(e);
            close_to("force", *evaluator_get(e, "actuator/e/force"), act[0], 1e-15);
            memcpy(e->q, e->next, e->n.nx * sizeof *e->q);
            close_to("exact filter", act[0], u + (start - u) * exp(-k * h), 1e-14);
            close_to("filter", act[1], u + (start - u) * pow(decay, k), 1e-14);
        }
        evaluator_free(e);
    }
    ns_model_free(model);
}

// Clamps of control, force, activation and of the sum along a joint.
static void limits_cut_in_their_order(void** state) {
    (void)state;
    ns_model* model = bodies("actuatorfrcrange='-2 2.5'",
                             "<motor name='m' joint='rail' gear='3' ctrlrange='-1 0.5'/>"
                             "<general name='g' joint='rail' gainprm='4' forcerange='-1 1.2'/>"
                             "<general name='i' joint='ball' dyntype='integrator' "
                             "actrange='-0.1 0.2'/>");
    evaluator* e = step_with(model, NS_INTEGRATOR_EXPLICIT);
    const double u[3][2] = {{2.0, 0.1}, {0.4, 0.1}, {-2.0, -1.0}};
    const double m[3] = {0.5, 0.4, -1.0}, g[3] = {0.4, 0.4, -1.0};
    for (int k = 0; k < 3; k++) {
        e->u[0] = u[k][0], e->u[1] = u[k][1], e->u[2] = k == 2 ? -30.0 : 30.0;
        evaluator_run(e);
        double sum = fmax(-2.0, fmin(2.5, 3.0 * m[k] + g[k]));
        close_to("motor", *evaluator_get(e, "actuator/m/force"), m[k], 1e-15);
        close_to("general", *evaluator_get(e, "actuator/g/force"), g[k], 1e-15);
        close_to("sum", *evaluator_get(e, "joint/rail/tau"), sum, 1e-15);
        close_to("acceleration", *evaluator_get(e, "qdd/3"), sum / 2.0, 1e-15);
        close_to("activation", e->next[9], k == 2 ? -0.1 : 0.2, 1e-15);
    }
    evaluator_free(e);
    ns_model_free(model);
}

// kd = 2 ratio sqrt(kp m): the free swing of the servo, x'' = -(kp x + kd x') / m, has that damping ratio.
static void damping_ratios_become_gains(void** state) {
    (void)state;
    ns_model* model = bodies("armature='0.5'", "<position name='p' joint='rail' gear='2' kp='3' "
                                               "dampratio='0.7'/>");
    double m = 2.5 / 4.0; // seen through the gear
    double want = 2.0 * 0.7 * sqrt(3.0 * m);
    close_to("kd", ns_model_actuator(model, 0)->kd, want, 1e-14);
    uint32_t kd = ns_model_find_param(model, "actuator/p/kd");
    close_to("parameter", ns_model_param(model, kd)->value, want, 1e-14);
    ns_model_free(model);

    // A hinge carries what is beyond it: m l^2, and the inertia about the centre of mass.
    model =
        modelfile_parse("<mujoco><worldbody><body><joint name='h' axis='0 1 0'/><inertial pos='0 "
                        "0 0' mass='1' diaginertia='1 1 1'/><body pos='2 0 0'><joint axis='0 1 "
                        "0'/><inertial pos='0 0 1' mass='3' diaginertia='4 5 6'/></body></body>"
                        "</worldbody><actuator><position joint='h' dampratio='1'/></actuator>"
                        "</mujoco>");
    want = 2.0 * sqrt(1.0 + 5.0 + 3.0 * (4.0 + 1.0));
    close_to("kd of a chain", ns_model_actuator(model, 0)->kd, want, 1e-13);
    ns_model_free(model);
}

// A servo along d on a ball that resists with I: the implicit step solves (I + dt kd gear^2 d d') w' =
// dt tau, so d' w' = dt f gear d'd / (I + dt kd gear^2 d'd), and nothing happens across d.
static void damping_along_several_velocities_is_implicit(void** state) {
    (void)state;
    ns_model* model = bodies("", "<velocity name='v' joint='ball' kv='50' gear='1 -2 0.5'/>");
    evaluator* e = step_with(model, NS_INTEGRATOR_IMPLICIT);
    const double d[3] = {1.0, -2.0, 0.5}, w[3] = {0.3, 0.4, -0.6}, dt = 0.01;
    double along = 0.0, dd = 0.0;
    memcpy(e->qd, w, sizeof w);
    e->u[0] = 0.9;
    evaluator_run(e);
    for (int k = 0; k < 3; k++) along += d[k] * w[k], dd += d[k] * d[k];
    double f = 50.0 * (0.9 - along);
    for (int k = 0; k < 3; k++) {
        double want = f * d[k] / (2.0 + dt * 50.0 * dd);
        close_to("acceleration", *evaluator_get(e, "qdd/%d", k), want, 1e-12);
    }
    evaluator_free(e);
    ns_model_free(model);
}

// The length along a ball joint is its rotation vector's, of the shorter way, smoothly through zero.
static void lengths_of_ball_joints_are_rotation_vectors(void** state) {
    (void)state;
    ns_model* model = bodies("", "<position name='p' joint='ball' kp='1' gear='0 0 2'/>"
                                 "<position name='q' jointinparent='ball' kp='1' gear='0 0 2'/>");
    evaluator* e = step_with(model, NS_INTEGRATOR_EXPLICIT);
    const double angles[] = {0.0, 1e-9, 1e-4, 2e-3, 0.5, 3.0, 3.3, 6.0};
    for (int k = 0; k < 8; k++) {
        double turn = angles[k] > 3.14159265358979323846 ? angles[k] - 2.0 * 3.14159265358979323846
                                                         : angles[k];
        e->q[0] = cos(0.5 * angles[k]), e->q[3] = sin(0.5 * angles[k]);
        evaluator_run(e);
        close_to("force", *evaluator_get(e, "actuator/p/force"), -2.0 * turn, 1e-14);
        close_to("in the parent", *evaluator_get(e, "actuator/q/force"), -2.0 * turn, 1e-14);
    }
    evaluator_free(e);
    ns_model_free(model);
}

static void gradients_are_exact(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><compiler angle='radian'/><option timestep='0.003'/><worldbody>"
        "<body><joint name='h' axis='0 1 0.2' actuatorfrcrange='-4 5'/>"
        "<inertial pos='0.1 0 0.05' mass='1.2' diaginertia='0.02 0.03 0.025'/>"
        "<body pos='0.4 0 0'><joint name='b' type='ball'/>"
        "<inertial pos='0.02 0.03 0.1' mass='0.5' diaginertia='0.06 0.08 0.07'/></body></body>"
        "<body><freejoint name='f'/><inertial pos='0.01 0 0.02' mass='0.8' "
        "diaginertia='0.011 0.012 0.02'/></body></worldbody><actuator>"
        "<motor name='m' joint='h' gear='1.7' ctrlrange='-1 0.8'/>"
        "<general name='g' joint='h' gaintype='affine' gainprm='1.5 0.3 -0.2' biastype='affine' "
        "biasprm='0.7 -1.1 -0.4' forcerange='-1.2 0.6'/>"
        "<position name='e' joint='h' kp='3' kv='0.2' timeconst='0.05'/>"
        "<general name='f' joint='b' gear='0.3 0.2 -0.5' dyntype='filter' dynprm='0.04'/>"
        "<intvelocity name='i' jointinparent='b' kp='2' gear='0.1 0.8 0.2' actrange='-0.1 0.2'/>"
        "<velocity name='v' joint='b' kv='0.3' gear='0.5 0.1 -0.3'/>"
        "<motor name='w' jointinparent='f' gear='0.3 -0.2 0.5 0.02 0.04 0.01'/>"
        "</actuator></mujoco>");
    static const char* const acting[] = {"actuator/*/gear",
                                         "actuator/*/time_constant",
                                         "actuator/g/gain/*",
                                         "actuator/g/bias/*",

                                         "actuator/g/force_lower",
                                         "actuator/i/kp",
                                         NULL};
    static const ns_integrator integrators[] = {NS_INTEGRATOR_EULER, NS_INTEGRATOR_IMPLICIT,
                                                NS_INTEGRATOR_RK4};
    for (int n = 0; n < 3; n++) {
        ns_system_options options = ns_default_system_options();
        options.integrator = (int)integrators[n];
        gradients_agree(model, options, "actuator/**", acting, 10);
    }
    ns_model_free(model);
}

// Muscles on a joint and on a tendon, over their curves. The states that are tried start with activations
// below the controls: falling ones are in tests/io/test_mujoco_drives.c.
static void gradients_of_muscles_are_exact(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><compiler angle='radian'/><option timestep='0.003'/><worldbody>"
        "<site name='w' pos='0.3 -0.2 0.4'/><body><joint name='h' axis='0 1 0.2'/>"
        "<inertial pos='0.1 0 0.05' mass='1.2' diaginertia='0.02 0.03 0.025'/>"
        "<site name='t' pos='0.1 0.05 0.02'/></body></worldbody><tendon><spatial name='s'>"
        "<site site='w'/><site site='t'/></spatial></tendon><actuator>"
        "<muscle name='a' joint='h' lengthrange='-3.2 2.4' range='0.6 1.5' vmax='0.1' force='3'/>"
        "<muscle name='b' tendon='s' lengthrange='0.2 0.7' gear='0.7'/></actuator></mujoco>");
    static const char* const acting[] = {"actuator/*/gear", "actuator/*/peak_force", NULL};
    static const ns_integrator integrators[] = {NS_INTEGRATOR_EULER, NS_INTEGRATOR_IMPLICIT,
                                                NS_INTEGRATOR_RK4};
    for (int n = 0; n < 3; n++) {
        ns_system_options options = ns_default_system_options();
        options.integrator = (int)integrators[n];
        gradients_agree(model, options, "actuator/**", acting, 20);
    }
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_follow_their_controls),
        cmocka_unit_test(limits_cut_in_their_order),
        cmocka_unit_test(damping_ratios_become_gains),
        cmocka_unit_test(damping_along_several_velocities_is_implicit),
        cmocka_unit_test(lengths_of_ball_joints_are_rotation_vectors),
        cmocka_unit_test(gradients_are_exact),
        cmocka_unit_test(gradients_of_muscles_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
