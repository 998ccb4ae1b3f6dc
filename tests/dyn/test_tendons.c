// Tendons against their formulas, and their gradients. tests/io/test_mujoco_drives.c has MuJoCo's answers.

#include "dyn/gradient_rig.h"
#include "neuralsim/sim.h"
#include "support/evaluate.h"
#include "support/modelfile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Two slides without gravity, 2 kg and 3 kg, with a tendon x + 2 y between them.
static ns_model* slides(const char* tendon) {
    char text[3000];
    snprintf(text, sizeof text,
             "<mujoco><option gravity='0 0 0' timestep='0.01'/><worldbody>"
             "<body><joint name='x' type='slide' axis='1 0 0'/>"
             "<inertial pos='0 0 0' mass='2' diaginertia='1 1 1'/></body>"
             "<body><joint name='y' type='slide' axis='1 0 0'/>"
             "<inertial pos='0 0 0' mass='3' diaginertia='1 1 1'/></body></worldbody>"
             "<tendon><fixed name='t' %s><joint joint='x' coef='1'/><joint joint='y' coef='2'/>"
             "</fixed></tendon></mujoco>",
             tendon);
    return modelfile_parse(text);
}

static evaluator* step_with(const ns_model* model, ns_integrator integrator) {
    static const char* const observe[] = {"qdd", "tendon"};
    ns_system_options options = ns_default_system_options();
    options.integrator = (int)integrator;
    options.observe = observe;
    options.nobserve = 2;
    return evaluator_create_with(model, &options);
}

// A spring that is slack from 0.1 to 0.4: it pulls beyond, pushes below, and does nothing between.
static void springs_are_slack_within_their_range(void** state) {
    (void)state;
    ns_model* model = slides("stiffness='7' springlength='0.1 0.4'");
    evaluator* e = step_with(model, NS_INTEGRATOR_EXPLICIT);
    const double length[3] = {-0.2, 0.25, 0.9}, force[3] = {7 * 0.3, 0.0, -7 * 0.5};
    for (int k = 0; k < 3; k++) {
        e->q[0] = 0.1, e->q[1] = 0.5 * (length[k] - 0.1);
        evaluator_run(e);
        close_to("length", *evaluator_get(e, "tendon/t/length"), length[k], 1e-15);
        close_to("force", *evaluator_get(e, "tendon/t/force/spring"), force[k], 1e-14);
        close_to("x", *evaluator_get(e, "qdd/0"), force[k] / 2.0, 1e-14);
        close_to("y", *evaluator_get(e, "qdd/1"), 2.0 * force[k] / 3.0, 1e-14);
    }
    evaluator_free(e);
    ns_model_free(model);
}

// A damper, a limit or friction along m = (1, 2) at the end of the step: with B its slope, M + dt B m m'
// is inverted in closed form: the tendon's velocity changes by dt f m'M^-1 m / (1 + dt B m'M^-1 m).
static void stiff_tendons_are_implicit(void** state) {
    (void)state;
    static const struct {
        const char* tendon;
        ns_integrator integrator;
        double f, slope;
    } cases[] = {
        {"damping='900'", NS_INTEGRATOR_IMPLICIT, -900 * 0.8, 900},
        {"damping='900'", NS_INTEGRATOR_EULER, -900 * 0.8, 0},
        {"frictionloss='60'", NS_INTEGRATOR_EULER, -60, 60 / 0.8},
        {"frictionloss='60'", NS_INTEGRATOR_IMPLICIT, -60, 60 / 0.8},
    };
    for (int n = 0; n < 4; n++) {
        ns_model* model = slides(cases[n].tendon);
        evaluator* e = step_with(model, cases[n].integrator);
        const double dt = 0.01, mm = 1.0 / 2.0 + 4.0 / 3.0;
        e->qd[0] = 0.2, e->qd[1] = 0.3; // 0.8 along the tendon
        evaluator_run(e);
        double f = cases[n].f / (1.0 + dt * cases[n].slope * mm);
        close_to("x", *evaluator_get(e, "qdd/0"), f / 2.0, 1e-10);
        close_to("y", *evaluator_get(e, "qdd/1"), 2.0 * f / 3.0, 1e-10);
        evaluator_free(e);
        ns_model_free(model);
    }
}

// Automatic limits suit the inertia that the tendon moves, 1 / m'M^-1 m: critically damped, 20 rad/s at
// this step.
static void limits_are_chosen_as_those_of_joints(void** state) {
    (void)state;
    ns_model* model = slides("range='-0.5 0.5'");
    const ns_tendon_def* t = ns_model_tendon(model, 0);
    const double inertia = 1.0 / (1.0 / 2.0 + 4.0 / 3.0), w = 20.0;
    close_to("stiffness", t->limit_stiffness, inertia * w * w, 1e-10);
    close_to("damping", t->limit_damping, 2.0 * inertia * w, 1e-11);
    assert_true(t->limited && t->lower == -0.5 && t->upper == 0.5 && t->rest == 0.0);
    evaluator* e = step_with(model, NS_INTEGRATOR_EXPLICIT);
    e->q[0] = 0.4, e->q[1] = 0.15;
    evaluator_run(e);
    double want = -inertia * w * w * 0.2;
    close_to("limit", *evaluator_get(e, "tendon/t/force/limit"), want, 1e-10);
    evaluator_free(e);
    ns_model_free(model);
}

static void gradients_are_exact(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><compiler angle='radian'/><option timestep='0.003'/><worldbody>"
        "<site name='w' pos='0.3 -0.2 0.4'/><body><joint name='h' axis='0 1 0.2'/>"
        "<inertial pos='0.1 0 0.05' mass='1.2' diaginertia='0.02 0.03 0.025'/>"
        "<site name='s1' pos='0.1 0.05 0.02'/>"
        "<body pos='0.4 0 0'><joint name='b' type='ball'/>"
        "<inertial pos='0.02 0.03 0.1' mass='0.5' diaginertia='0.06 0.08 0.07'/>"
        "<site name='s2' pos='0.1 0.05 0.2'/></body></body>"
        "<body><joint name='k' type='slide'/><inertial pos='0 0 0' mass='0.8' "
        "diaginertia='0.011 0.012 0.02'/></body></worldbody><tendon>"
        "<fixed name='f' stiffness='30' damping='2' springlength='0.1 0.2' range='-0.1 0.1'>"
        "<joint joint='h' coef='0.7'/><joint joint='k' coef='-1.3'/></fixed>"
        "<spatial name='s' stiffness='20' damping='1' frictionloss='0.2'><site site='w'/>"
        "<site site='s1'/><pulley divisor='2'/><site site='s1'/><site site='s2'/></spatial>"
        "</tendon><actuator><motor tendon='s'/><position name='p' tendon='f' kp='4' kv='0.3'/>"
        "<general site='s2' gear='1 2 0 0.1 0.3 0' biastype='affine' biasprm='0 0 -0.2'/>"
        "<motor site='s2' refsite='s1' gear='0 1 2 0.1 0 0.1'/></actuator></mujoco>");
    static const char* const acting[] = {"tendon/*/stiffness", "tendon/*/damping", "tendon/*/rest",
                                         "tendon/s/friction",  "tendon/f/upper",   NULL};
    static const ns_integrator integrators[] = {NS_INTEGRATOR_EULER, NS_INTEGRATOR_IMPLICIT,
                                                NS_INTEGRATOR_RK4};
    for (int n = 0; n < 3; n++) {
        ns_system_options options = ns_default_system_options();
        options.integrator = (int)integrators[n];
        gradients_agree(model, options, "tendon/**", acting, 10);
    }
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(springs_are_slack_within_their_range),
        cmocka_unit_test(stiff_tendons_are_implicit),
        cmocka_unit_test(limits_are_chosen_as_those_of_joints),
        cmocka_unit_test(gradients_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
