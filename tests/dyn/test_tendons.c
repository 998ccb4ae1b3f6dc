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

// Around a ball and a cylinder, to the nearer side, on the side of a site, and through a ring. The radius of
// what is in contact is a parameter, too.
static void gradients_of_wrapped_tendons_are_exact(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><compiler angle='radian'/><option timestep='0.003'/><worldbody>"
        "<geom type='plane' size='1 1 1' pos='0 0 -9'/>"
        "<site name='w' pos='-0.3 -0.02 0.06'/><body><joint name='h' axis='0 1 0.2'/>"
        "<inertial pos='0.1 0 0.05' mass='1.2' diaginertia='0.02 0.03 0.025'/>"
        "<geom name='ball' size='0.1' pos='0 0.01 0.02'/><site name='s1' pos='0.3 0.05 0.02'/>"
        "<site name='up' pos='0 0 0.4'/><site name='in' pos='0.02 0 0.02'/>"
        "<body pos='0.4 0 0'><joint name='b' type='ball'/>"
        "<inertial pos='0.02 0.03 0.1' mass='0.5' diaginertia='0.06 0.08 0.07'/>"
        "<geom name='pin' type='cylinder' size='0.05 0.1' euler='1.5 0.1 0.2'/>"
        "<site name='s2' pos='0.2 0.05 0.05'/></body></body></worldbody><tendon>"
        "<spatial name='s' stiffness='20' damping='1' frictionloss='0.2'><site site='w'/>"
        "<geom geom='ball'/><site site='s1'/><geom geom='pin' sidesite='up'/><site site='s2'/>"
        "</spatial><spatial name='r' stiffness='10' springlength='0.1'><site site='w'/>"
        "<geom geom='ball' sidesite='in'/><site site='s1'/></spatial></tendon></mujoco>");
    static const char* const acting[] = {"tendon/*/stiffness", "tendon/*/rest", "geom/ball/radius",
                                         NULL};
    static const ns_integrator integrators[] = {NS_INTEGRATOR_EULER, NS_INTEGRATOR_RK4};
    for (int n = 0; n < 2; n++) {
        ns_system_options options = ns_default_system_options();
        options.integrator = (int)integrators[n];
        options.contact = NS_CONTACT_SPRING;
        gradients_agree(model, options, "tendon/**", acting, 10);
    }
    ns_model_free(model);
}

// Roll out one robot with the implicit integrator.
// @param stiff  a value to set; NULL: none
static void roll_out(const ns_model* model, const ns_param_value* stiff, const double* x0,
                     uint32_t steps, double* states) {
    ns_system_options options = ns_default_system_options();
    options.integrator = NS_INTEGRATOR_IMPLICIT;
    options.set = stiff;
    options.nset = stiff != NULL;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_error error = {0};
    ns_workspace_size size = {.batch = 1, .steps = steps};
    must(ns_system_create(model, &options, &system, &error), &error);
    must(ns_workspace_create(system, &size, &work, &error), &error);
    ns_rollout_args args = {.batch = 1, .steps = steps, .x0 = x0, .states = states};
    must(ns_rollout(system, work, &args, &error), &error);
    ns_workspace_free(work);
    ns_system_free(system);
}

// Three slides with a stiff tendon along all and an actuator along two of them. `sign` ("" or "-") is that of
// axes and coefficients.
static ns_model* stiff_chain(const char* sign) {
    char text[4000];
    snprintf(
        text, sizeof text,
        "<mujoco><compiler angle='radian'/><option timestep='0.005' gravity='0 0 0'/><worldbody>"
        "<body><joint name='x' type='slide' axis='%s1 0 0'/>"
        "<inertial pos='0 0 0' mass='0.02' diaginertia='1 1 1'/></body>"
        "<body><joint name='y' type='slide' axis='0 %s1 0'/>"
        "<inertial pos='0 0 0' mass='0.03' diaginertia='1 1 1'/></body>"
        "<body><joint name='z' type='slide' axis='0 0 %s1'/>"
        "<inertial pos='0 0 0' mass='0.01' diaginertia='1 1 1'/></body></worldbody>"
        "<tendon><fixed name='t' damping='3' frictionloss='0.4' limited='true' range='-2 2'>"
        "<joint joint='x' coef='%s1'/><joint joint='y' coef='%s1'/><joint joint='z' coef='%s1'/>"
        "</fixed><fixed name='drive'><joint joint='x' coef='%s1'/><joint joint='z' coef='%s1'/>"
        "</fixed></tendon><actuator><velocity name='v' tendon='drive' kv='9'/></actuator></mujoco>",
        sign, sign, sign, sign, sign, sign, sign, sign);
    return modelfile_parse(text);
}

// Joints whose axes point the other way, with coefficients -1, move the other way and not otherwise.
static void mirrored_tendons_do_the_same(void** state) {
    (void)state;
    enum { STEPS = 60, N = 6 };
    static const char* const signs[] = {"", "-"};
    double* states[2];
    for (int k = 0; k < 2; k++) {
        ns_model* model = stiff_chain(signs[k]);
        double way = k == 0 ? 1.0 : -1.0, x0[N] = {0.3, -0.2, 0.4, 9.0, 7.0, 11.0};
        for (int i = 0; i < N; i++) x0[i] *= way;
        states[k] = calloc((STEPS + 1) * N, sizeof(double));
        assert_non_null(states[k]);
        roll_out(model, NULL, x0, STEPS, states[k]);
        ns_model_free(model);
    }
    for (int i = 0; i < (STEPS + 1) * N; i++) {
        close_to("mirrored state", -states[1][i], states[0][i], 1e-9);
        assert_true(fabs(states[0][i]) < 20.0); // and none explodes
    }
    free(states[0]);
    free(states[1]);
}

// A joint that follows another with -1 and its limit: the step is stable, however stiff that is.
static void mirrored_followers_have_stable_limits(void** state) {
    (void)state;
    static const char text[] =
        "<robot name='r'><link name='base'/><link name='a'><inertial><mass value='0.1'/>"
        "<inertia ixx='1e-3' iyy='1e-3' izz='1e-3' ixy='0' ixz='0' iyz='0'/></inertial></link>"
        "<link name='b'><inertial><mass value='0.1'/>"
        "<inertia ixx='1e-3' iyy='1e-3' izz='1e-3' ixy='0' ixz='0' iyz='0'/></inertial></link>"
        "<joint name='j' type='continuous'><parent link='base'/><child link='a'/></joint>"
        "<joint name='k' type='revolute'><parent link='base'/><child link='b'/>"
        "<limit lower='-0.1' upper='0.1' effort='1' velocity='1'/>"
        "<mimic joint='j' multiplier='-1'/></joint></robot>";
    ns_model* model = modelfile_parse(text);
    ns_param_value stiff = {.pattern = "joint/k/limit_stiffness", .value = 1e6};
    double x0[2] = {0.0, 5.0}, states[301 * 2];
    roll_out(model, &stiff, x0, 300, states);
    for (int k = 0; k <= 300; k++) {
        assert_true(fabs(states[2 * k]) < 0.12 && fabs(states[2 * k + 1]) < 5.1);
    }
    ns_model_free(model);
}

// Joints at the ends of what their drives can take feel a constant force, though one actuator drives both.
static void saturated_drives_do_not_resist(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><option gravity='0 0 0' timestep='0.002'/><worldbody>"
        "<body><joint name='x' type='slide' axis='1 0 0' actuatorfrcrange='-1 1'/>"
        "<inertial pos='0 0 0' mass='0.1' diaginertia='1 1 1'/></body>"
        "<body><joint name='y' type='slide' axis='1 0 0' actuatorfrcrange='-0.01 0.01'/>"
        "<inertial pos='0 0 0' mass='0.1' diaginertia='1 1 1'/></body></worldbody>"
        "<tendon><fixed name='t'><joint joint='x' coef='1'/><joint joint='y' coef='1'/></fixed>"
        "</tendon><actuator><velocity tendon='t' kv='5'/></actuator></mujoco>";
    ns_model* model = modelfile_parse(text);
    double x0[4] = {0.0, 0.0, 2.0, 2.0}, states[8];
    roll_out(model, NULL, x0, 1, states);
    close_to("at 1 N", states[6], 2.0 - 0.002 * 1.0 / 0.1, 1e-12);
    close_to("at 0.01 N", states[7], 2.0 - 0.002 * 0.01 / 0.1, 1e-12);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(springs_are_slack_within_their_range),
        cmocka_unit_test(stiff_tendons_are_implicit),
        cmocka_unit_test(limits_are_chosen_as_those_of_joints),
        cmocka_unit_test(gradients_are_exact),
        cmocka_unit_test(gradients_of_wrapped_tendons_are_exact),
        cmocka_unit_test(mirrored_tendons_do_the_same),
        cmocka_unit_test(mirrored_followers_have_stable_limits),
        cmocka_unit_test(saturated_drives_do_not_resist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
