// Default settings neither explode nor tremble, forward or backward: joint damping, limits, joint
// friction.

#include "model/model_data.h"
#include "sim/stability_rig.h"
#include "support/modelfile.h"
#include "support/randomtree.h"

#include <stdio.h>

// ---- joint damping -------------------------------------------------------------------------

// MuJoCo's Euler takes joint damping at the end of the step. The number is MuJoCo 2.2.2's.
static void mjcf_euler_is_implicit_in_damping(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><option timestep='0.002'/><worldbody><body pos='0 0 1'><joint axis='0 1 0' "
        "damping='2'/><inertial pos='0 0 -.05' mass='0.1' diaginertia='5e-4 5e-4 5e-4'/></body>"
        "</worldbody></mujoco>");
    scene s = scene_create(model, NULL, 1, 250);
    s.x0[0] = 1.0;
    scene_run(&s);
    close_to("angle after 0.5 s", scene_state(&s, 0, 250)[0], 0.98972325, 1e-8);
    scene_free(&s);
    ns_model_free(model);
}

// Where no joint has damping, friction or limits, there is nothing to take at the end of the step.
static void euler_and_implicit_agree_without_stiff_forces(void** state) {
    (void)state;
    for (uint32_t n = 0; n < 4; n++) {
        random_tree tree;
        random_tree_make(&tree,
                         &(random_tree_options){.seed = 40 + n, .nlink = 3, .springs = true});
        ns_model* model = random_tree_build(&tree, NULL);
        scene s[2];
        for (int k = 0; k < 2; k++) {
            ns_system_options options = ns_default_system_options();
            options.integrator = k == 0 ? NS_INTEGRATOR_EULER : NS_INTEGRATOR_IMPLICIT;
            s[k] = scene_create(model, &options, 1, 50);
            ns_rng rng = ns_rng_seed(n);
            random_state(model, &rng, s[k].x0, s[k].x0 + s[k].sizes.nq);
            scene_run(&s[k]);
        }
        same_bits("states", s[1].states, s[0].states, 51 * (size_t)s[0].n.nx);
        assert_int_equal(ns_graph_op_count(ns_system_graph(s[0].system)),
                         ns_graph_op_count(ns_system_graph(s[1].system)));
        scene_free(&s[0]), scene_free(&s[1]);
        ns_model_free(model);
    }
}

// ---- limits --------------------------------------------------------------------------------

static const char* const kinetic[] = {"energy/kinetic"};

// The largest kinetic energy of any robot, relative to its first; its observation is number 0.
static double energy_growth(const scene* s) {
    double growth = 0.0;
    for (uint32_t b = 0; b < s->batch; b++) {
        const double* y = s->observations + (size_t)b * s->steps * s->n.ny;
        for (uint32_t k = 0; k < s->steps; k++) growth = fmax(growth, y[k * s->n.ny] / y[0]);
    }
    return growth;
}

#define BODY(mass, place) "<inertial pos='" place "' mass='" mass "' diaginertia='.01 .01 .01'/>"
#define ARM(mass)                                                                                  \
    "<body><joint axis='0 1 0' range='-30 30' limited='true'/>" BODY(mass, "0.3 0 0") "</body>"
#define ON_BASE(mass)                                                                              \
    "<mujoco><option gravity='0 0 0'/><worldbody><body><freejoint/>" BODY("1", "0 0 0")            \
        ARM(mass) "</body></worldbody></mujoco>"
#define ON_WORLD(options)                                                                          \
    "<mujoco><option gravity='0 0 0' " options "/><worldbody>" ARM("1") "</worldbody></mujoco>"

// Arms on the world, and on bases that give way, at the file's step and at others.
static void limits_add_no_energy(void** state) {
    (void)state;
    static const char* const models[] = {ON_BASE("0.1"), ON_BASE("1"), ON_BASE("3"),
                                         ON_BASE("10"),  ON_WORLD(""), ON_WORLD("timestep='0.01'")};
    static const double steps[] = {1e-4, 1e-3, 2e-3, 1e-2};
    for (size_t n = 0; n < sizeof models / sizeof *models; n++) {
        ns_model* model = modelfile_parse(models[n]);
        for (int k = 0; k < 8; k++) {
            ns_system_options options = ns_default_system_options();
            options.observe = kinetic;
            options.nobserve = 1;
            options.timestep = steps[k % 4];
            options.integrator = k < 4 ? NS_INTEGRATOR_EULER : NS_INTEGRATOR_IMPLICIT;
            scene s = scene_create(model, &options, 1, (uint32_t)(1.0 / options.timestep));
            s.x0[s.n.nx - 1] = 5.0;
            scene_run(&s);
            double growth = energy_growth(&s);
            if (!(growth < (k % 4 < 3 ? 1.01 : 1.05))) // Euler's own drift at 10 ms
                fail_msg("model %zu, step %g: x%g", n, steps[k % 4], growth);
            scene_free(&s);
        }
        ns_model_free(model);
    }
}

// A1 with its twelve limits, thrown about without gravity. What is left is the drift of Euler's method,
// which is in proportion to the step: without limits it is 8 % at 1 ms.
static void limits_of_a_quadruped_add_no_energy(void** state) {
    (void)state;
    enum { ROBOTS = 64 };
    static const double steps[] = {1e-3, 2.5e-4}, allowed[] = {1.02, 1.005};
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_load(NEURALSIM_SOURCE_DIR "/models/a1.urdf", NULL, &model, &error), &error);
    static const ns_param_value weightless[] = {{"world/gravity/z", 0.0}};
    for (int n = 0; n < 2; n++) {
        ns_system_options options = ns_default_system_options();
        options.observe = kinetic;
        options.nobserve = 1;
        options.set = weightless;
        options.nset = 1;
        options.timestep = steps[n];
        scene s = scene_create(model, &options, ROBOTS, (uint32_t)(1.0 / steps[n]));
        ns_rng rng = ns_rng_seed(11);
        for (uint32_t b = 0; b < ROBOTS; b++) {
            double* x = s.x0 + (size_t)b * s.n.nx;
            for (uint32_t i = 0; i < s.sizes.nlink; i++) { // in the middle of their range
                const nsi_link* l = &model->links[i];
                if (l->def.limited) x[l->q] = 0.5 * (l->def.lower + l->def.upper);
            }
            for (uint32_t k = s.sizes.nq + 6; k < s.n.nx; k++) x[k] = 5.0 * ns_rng_normal(&rng);
        }
        scene_run(&s);
        double growth = energy_growth(&s);
        printf("    step %g: largest kinetic energy / first %.4f\n", steps[n], growth);
        assert_true(growth < allowed[n]);
        scene_free(&s);
    }
    ns_model_free(model);
}

// ---- joint friction ------------------------------------------------------------------------

// I = 0.001 kg m^2 and 0.1 N m: friction could stop 0.1 rad/s in a step of 1 ms, 10 times
// friction_velocity. The joint comes to rest without changing its direction, and stays there.
static void joint_friction_stops_without_trembling(void** state) {
    (void)state;
    enum { STEPS = 2000 };
    for (int links = 1; links <= 2; links++) {
        ns_model* model = modelfile_parse(
            links == 1
                ? "<mujoco><option timestep='0.001' gravity='0 0 0'/><worldbody><body><joint "
                  "axis='0 1 0' frictionloss='0.1'/><inertial pos='0 0 0' mass='1' "
                  "diaginertia='.001 .001 .001'/></body></worldbody></mujoco>"
                : "<mujoco><option timestep='0.001'/><worldbody><body><joint axis='0 1 0' "
                  "frictionloss='0.3'/><inertial pos='0 0 -.05' mass='.2' diaginertia="
                  "'.001 .001 .001'/><body pos='0 0 -.1'><joint axis='0 1 0' frictionloss"
                  "='0.2'/><inertial pos='0 0 -.05' mass='.1' diaginertia='5e-4 5e-4 5e-4'/>"
                  "</body></body></worldbody></mujoco>");
        for (int k = 0; k < 2; k++) {
            ns_system_options options = ns_default_system_options();
            options.integrator = k == 0 ? NS_INTEGRATOR_EULER : NS_INTEGRATOR_IMPLICIT;
            scene s = scene_create(model, &options, 1, STEPS);
            for (int i = 0; i < links; i++) s.x0[links + i] = 3.0 - i;
            scene_run(&s);

            // One joint: the closed form is v0^2 I / (2 f), to first order in the step.
            uint32_t turns = 0;
            for (uint32_t t = 0; t < STEPS; t++) {
                const double *x = scene_state(&s, 0, t), *next = scene_state(&s, 0, t + 1);
                for (int i = 0; i < links; i++) turns += x[links + i] * next[links + i] < 0.0;
            }
            const double* end = scene_state(&s, 0, STEPS);
            if (links == 1) {
                assert_int_equal(turns, 0);
                close_to("way", end[0], 3.0 * 3.0 * 0.001 / (2.0 * 0.1), 2.0 * 3.0 * 1e-3);
            }
            assert_true(turns <= 2);
            for (int i = 0; i < links; i++) assert_true(fabs(end[links + i]) < 0.01);
            double sensitivity = scene_sensitivity(&s);
            printf("    %d links: %u turns, |dx/dx0| %.3g\n", links, turns, sensitivity);
            assert_true(sensitivity < 2.0);
            scene_free(&s);
        }
        ns_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mjcf_euler_is_implicit_in_damping),
        cmocka_unit_test(euler_and_implicit_agree_without_stiff_forces),
        cmocka_unit_test(limits_add_no_energy),
        cmocka_unit_test(limits_of_a_quadruped_add_no_energy),
        cmocka_unit_test(joint_friction_stops_without_trembling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
