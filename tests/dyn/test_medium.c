// The medium and compensated gravity against their formulas, and their gradients.
// tests/io/test_mujoco_drives.c has MuJoCo's answers.

#include "dyn/gradient_rig.h"
#include "neuralsim/sim.h"
#include "support/evaluate.h"
#include "support/modelfile.h"

#include <math.h>

// A cube of 0.2 m and 3 kg that sinks, spins and is blown at: its equivalent box is itself.
static void cubes_are_dragged_by_their_sides(void** state) {
    (void)state;
    static const char* const observe[] = {"qdd", NULL};
    ns_model* model = modelfile_parse(
        "<mujoco><option density='800' viscosity='2' wind='0 0 0.3' gravity='0 0 -10'/><worldbody>"
        "<body gravcomp='0.4'><freejoint/><inertial pos='0 0 0' mass='3' diaginertia='0.02 0.02 "
        "0.02'/></body></worldbody></mujoco>");
    evaluator* e = evaluator_create(model, observe);
    const double pi = 3.14159265358979323846, d = 0.2, v = -0.9 - 0.3, w = 2.5;
    e->qd[2] = -0.9, e->qd[5] = w;
    evaluator_run(e);
    double f = -3.0 * pi * d * 2.0 * v + 0.5 * 800.0 * d * d * v * v;
    double n = -pi * d * d * d * 2.0 * w - 800.0 * d * 2.0 * d * d * d * d / 64.0 * w * w;
    close_to("sinking", *evaluator_get(e, "qdd/2"), f / 3.0 - 10.0 * 0.6, 1e-12);
    close_to("spinning", *evaluator_get(e, "qdd/5"), n / 0.02, 1e-12);
    close_to("across", *evaluator_get(e, "qdd/0"), 0.0, 1e-12);
    evaluator_free(e);
    ns_model_free(model);
}

// Compensated in full, a tilted chain with a welded load feels no gravity; by half, half of it.
static void compensated_gravity_scales_the_weight(void** state) {
    (void)state;
    static const char* const observe[] = {"qdd", NULL};
    static const char text[] =
        "<mujoco><worldbody><body gravcomp='%g'><joint axis='0 1 0.3'/>"
        "<inertial pos='0.3 0.1 0' mass='2' diaginertia='0.1 0.1 0.1'/>"
        "<body gravcomp='%g' pos='0.2 0 0.5' euler='20 0 40'>"
        "<inertial pos='0.3 0 0.1' mass='1' diaginertia='0.1 0.1 0.1'/></body></body></worldbody>"
        "</mujoco>";
    double qdd[3];
    for (int k = 0; k < 3; k++) {
        char whole[1000];
        snprintf(whole, sizeof whole, text, 0.5 * k, 0.5 * k);
        ns_model* model = modelfile_parse(whole);
        evaluator* e = evaluator_create(model, observe);
        e->q[0] = 0.4;
        evaluator_run(e);
        qdd[k] = *evaluator_get(e, "qdd/0");
        evaluator_free(e);
        ns_model_free(model);
    }
    assert_true(fabs(qdd[0]) > 1.0);
    close_to("half", qdd[1], 0.5 * qdd[0], 1e-13);
    close_to("none", qdd[2], 0.0, 1e-13);
}

static void gradients_are_exact(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><option density='900' viscosity='0.7' wind='1 -2 0.5' timestep='0.002'/>"
        "<worldbody><body gravcomp='0.7'><freejoint/><inertial pos='0.1 0.02 -0.05' "
        "quat='0.8 0.3 -0.1 0.5' mass='1.2' diaginertia='0.03 0.02 0.045'/>"
        "<body pos='0.4 0 0'><joint axis='0 0 1'/><inertial pos='0.1 0 0' mass='0.3' "
        "diaginertia='0.01 0.03 0.035'/></body></body></worldbody></mujoco>");
    static const char* const acting[] = {"world/**", NULL};
    ns_system_options options = ns_default_system_options();
    options.integrator = NS_INTEGRATOR_IMPLICIT;
    gradients_agree(model, options, "world/**", acting, 6);
    ns_model_free(model);

    // The mass that gravity is compensated for.
    model = modelfile_parse(
        "<mujoco><worldbody><body gravcomp='0.7'><joint axis='0 1 0'/><inertial pos='0.1 0.02 "
        "-0.05' mass='1.2' diaginertia='0.03 0.02 0.045'/><body pos='0.4 0 0' gravcomp='1'>"
        "<joint axis='0 1 1'/><inertial pos='0.1 0 0' mass='0.3' diaginertia='0.01 0.03 "
        "0.035'/></body></body></worldbody></mujoco>");
    static const char* const masses[] = {"link/*/mass", NULL};
    gradients_agree(model, options, "link/**", masses, 3);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cubes_are_dragged_by_their_sides),
        cmocka_unit_test(compensated_gravity_scales_the_weight),
        cmocka_unit_test(gradients_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
