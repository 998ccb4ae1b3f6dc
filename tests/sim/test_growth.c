// The growth of small changes per step, against eigenvalues that are known.

#include "sim/growth.h"

#include "sim/stability_rig.h"
#include "support/modelfile.h"

#include <stdio.h>

static double growth_of(const ns_model* model, int integrator, int contact, const double* x) {
    ns_system_options options = ns_default_system_options();
    options.integrator = integrator;
    options.contact = contact;
    scene s = scene_create(model, &options, 1, 1);
    memcpy(s.x0, x, s.n.nx * sizeof *x);
    double growth = NAN;
    ns_error error = {0};
    must(nsi_step_growth(s.system, s.work, s.x0, NULL, NULL, NULL, &growth, &error), &error);
    scene_free(&s);
    return growth;
}

// 1 kg with a damper of 10 kg / dt: explicit steps multiply the velocity by -9.
static void a_stiff_damper_grows_by_nine(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><option timestep='0.001'/><worldbody><body><joint type='slide' damping='10000'/>"
        "<inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/></body></worldbody></mujoco>");
    const double x[2] = {0.1, 0.2};
    close_to("explicit", growth_of(model, NS_INTEGRATOR_EXPLICIT, -1, x), 9.0, 1e-9);
    close_to("implicit", growth_of(model, NS_INTEGRATOR_IMPLICIT, -1, x), 1.0, 1e-9);
    ns_model_free(model);
}

// A spring within its limit w dt = 2 has a pair of complex eigenvalues of size 1; beyond it a real one,
// -(a - 2 + sqrt(a^2 - 4 a)) / 2 with a = (w dt)^2.
static void springs_have_their_eigenvalues(void** state) {
    (void)state;
    for (int n = 0; n < 2; n++) {
        double a = n == 0 ? 0.5 : 5.0;
        char text[300];
        snprintf(text, sizeof text,
                 "<mujoco><option timestep='0.01'/><worldbody><body><joint type='slide' stiffness="
                 "'%g'/><inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/></body></worldbody>"
                 "</mujoco>",
                 a * 1e4);
        ns_model* model = modelfile_parse(text);
        double want = n == 0 ? 1.0 : 0.5 * (a - 2.0 + sqrt(a * a - 4.0 * a));
        const double x[2] = {0.1, 0.2};
        close_to("growth", growth_of(model, NS_INTEGRATOR_EULER, -1, x), want, 0.01 * want);
        ns_model_free(model);
    }
}

// A rolling ball on springs, 2 ms: friction is too stiff for an explicit step.
static void spring_friction_grows_in_explicit_steps_only(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><worldbody><geom type='plane' size='5 5 1'/><body pos='0 0 .0959'><freejoint/>"
        "<geom type='sphere' size='0.1' mass='1'/></body></worldbody></mujoco>");
    const double x[13] = {0, 0, 0.0959, 1, 0, 0, 0, 1, 0, 0, 0, 10, 0};
    double before = growth_of(model, NS_INTEGRATOR_EXPLICIT, NS_CONTACT_SPRING, x);
    double now = growth_of(model, NS_INTEGRATOR_EULER, NS_CONTACT_SPRING, x);
    printf("    growth per step: explicit %.3f, euler %.3f\n", before, now);
    assert_true(before > 1.5);
    assert_true(now < 1.02);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stiff_damper_grows_by_nine),
        cmocka_unit_test(springs_have_their_eigenvalues),
        cmocka_unit_test(spring_friction_grows_in_explicit_steps_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
