// Spring contact at default settings neither trembles nor explodes, forward or backward.

#include "neuralsim/blueprint.h"
#include "sim/stability_rig.h"
#include "support/modelfile.h"

#include <stdio.h>

static ns_system_options spring_options(void) {
    ns_system_options options = ns_default_system_options();
    options.contact = NS_CONTACT_SPRING;
    return options;
}

// ---- friction --------------------------------------------------------------------------------

static const char ball[] =
    "<mujoco><worldbody><geom name='floor' type='plane' size='5 5 1'/><body pos='0 0 .0985'>"
    "<freejoint/><geom name='b' type='sphere' size='0.1' mass='1'/></body></worldbody></mujoco>";

// A ball that begins to roll: the slip comes to rest, and does not change its sign in every step.
static void a_rolling_ball_does_not_tremble(void** state) {
    (void)state;
    static const double steps[] = {5e-4, 1e-3, 2e-3, 5e-3, 1e-2};
    ns_model* model = modelfile_parse(ball);
    for (int n = 0; n < 5; n++) {
        ns_system_options options = spring_options();
        options.timestep = steps[n];
        uint32_t count = (uint32_t)(1.0 / steps[n]);
        scene s = scene_create(model, &options, 1, count);
        s.x0[2] = 0.0985;
        s.x0[7] = 1.0;
        s.x0[11] = 10.0;
        scene_run(&s);
        double jitter = 0.0;
        for (uint32_t t = count / 2; t < count; t++) {
            double change = scene_state(&s, 0, t + 1)[7] - scene_state(&s, 0, t)[7];
            jitter = fmax(jitter, fabs(change));
        }
        double sensitivity = scene_sensitivity(&s);
        printf("    step %g: speed changes by up to %.1e in a step, |dx/dx0| %.3g\n", steps[n],
               jitter, sensitivity);
        assert_true(jitter < 0.05 * steps[n]);
        assert_true(sensitivity < 30.0);
        scene_free(&s);
    }
    ns_model_free(model);
}

// A block that slides to rest: v^2 / (2 mu g), to first order in the step.

static void a_sliding_block_goes_its_way(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><worldbody><geom name='floor' type='plane' size='5 5 1'/><body pos='0 0 .0985'>"
        "<freejoint/><geom name='b' type='box' size='0.1 0.1 0.1' mass='1'/></body></worldbody>"
        "</mujoco>");
    static const ns_param_value friction[] = {{"contact/*/mu", 0.4}};
    for (int n = 0; n < 2; n++) {
        ns_system_options options = spring_options();
        options.set = friction;
        options.nset = 1;
        options.timestep = n == 0 ? 1e-3 : 2.5e-4;
        scene s = scene_create(model, &options, 1, (uint32_t)(1.0 / options.timestep));
        s.x0[2] = 0.0985;
        s.x0[7] = 1.5;
        scene_run(&s);
        double way = scene_state(&s, 0, s.steps)[0], exact = 1.5 * 1.5 / (2.0 * 0.4 * 9.81);
        printf("    step %g: way %.5f, closed form %.5f\n", options.timestep, way, exact);
        close_to("way", way, exact, 0.02 * exact); // the friction of the law sets in gradually
        scene_free(&s);
    }
    ns_model_free(model);
}

// ---- stiff scenes ----------------------------------------------------------------------------

// The largest total energy of a run over its first.
static double energy_gained(scene* s) {
    scene_run(s);
    double most = 0.0;
    for (uint32_t t = 0; t < s->steps; t++) {
        most = fmax(most, s->observations[t] - s->observations[0]);
    }
    return most;
}

static const char* const total[] = {"energy/total"};

// 100 kg on 1 kg, and 1 kg on 100 kg, at several steps; and springs far too stiff for the step. The
// energy of the springs is not in the total, so that what they give back counts as a gain: there is
// none at the start.
static void stacks_gain_no_energy(void** state) {
    (void)state;
    static const double steps[] = {2.5e-4, 1e-3, 2e-3};
    for (int heavy = 0; heavy < 2; heavy++) {
        char text[700];
        snprintf(text, sizeof text,
                 "<mujoco><option timestep='0.001'/><worldbody><geom name='floor' type='plane' "
                 "size='5 5 1'/><body pos='0 0 .1'><freejoint/><geom type='box' size='.1 .1 .1' "
                 "mass='%d'/></body><body pos='0 0 .3'><freejoint/><geom type='box' size='.1 .1 "
                 ".1' mass='%d'/></body></worldbody></mujoco>",
                 heavy ? 100 : 1, heavy ? 1 : 100);
        ns_model* model = modelfile_parse(text);
        static const ns_param_value stiff[] = {{"contact/*/stiffness", 1e9}};
        for (int k = 0; k < 6; k++) {
            ns_system_options options = spring_options();
            options.observe = total;
            options.nobserve = 1;
            options.timestep = steps[k % 3];
            options.set = stiff;
            options.nset = k < 3 ? 0 : 1;
            scene s = scene_create(model, &options, 1, (uint32_t)(1.0 / options.timestep));
            s.x0[2] = 0.1, s.x0[9] = 0.3;
            double gain = energy_gained(&s);
            if (!(gain < 1e-3 * s.observations[0]))
                fail_msg("case %d %d: %g J gained", heavy, k, gain);
            scene_free(&s);
        }
        ns_model_free(model);
    }
}

// What starts inside something else leaves it at no more than 1 / damping, 1 m/s: 5 cm.
static void overlap_does_not_throw(void** state) {
    (void)state;
    static const double depths[] = {1e-3, 5e-3, 1e-2, 5e-2}, steps[] = {1e-4, 1e-3, 2e-3, 5e-3};
    ns_model* model = modelfile_parse(
        "<mujoco><worldbody><geom name='floor' type='plane' size='5 5 1'/><body pos='0 0 .1'>"
        "<freejoint/><geom name='b' type='box' size='0.1 0.1 0.1' mass='1'/></body></worldbody>"
        "</mujoco>");
    for (int k = 0; k < 16; k++) {
        ns_system_options options = spring_options();
        options.timestep = steps[k % 4];
        scene s = scene_create(model, &options, 1, (uint32_t)(0.5 / options.timestep));
        s.x0[2] = 0.1 - depths[k / 4];
        scene_run(&s);
        double top = 0.0;
        for (uint32_t t = 0; t <= s.steps; t++) top = fmax(top, scene_state(&s, 0, t)[2] - 0.1);
        if (!(top < 0.052)) fail_msg("%g m deep, step %g: %g m", depths[k / 4], steps[k % 4], top);
        scene_free(&s);
    }
    ns_model_free(model);
}

// The corners of a box on a slider all have one and the same velocity; free, each has its own. Falling
// flat without friction, both are the same motion.
static void points_of_one_velocity_are_told_apart(void** state) {
    (void)state;
    static const char* const joints[] = {"<freejoint/>", "<joint type='slide' axis='0 0 1'/>"};
    enum { STEPS = 120 };
    double height[2][STEPS + 1], lowest = INFINITY;
    for (int n = 0; n < 2; n++) {
        char text[400];
        snprintf(text, sizeof text,
                 "<mujoco><worldbody><geom type='plane' size='5 5 1'/><body pos='0 0 .15'>%s"
                 "<geom type='box' size='0.1 0.1 0.1' mass='1'/></body></worldbody></mujoco>",
                 joints[n]);
        ns_model* model = modelfile_parse(text);
        static const ns_param_value smooth[] = {{"contact/*/mu", 0.0}};
        ns_system_options options = spring_options();
        options.set = smooth;
        options.nset = 1;
        scene s = scene_create(model, &options, 1, STEPS);
        if (n == 0) s.x0[2] = 0.15;
        scene_run(&s);
        for (uint32_t t = 0; t <= STEPS; t++) {
            const double* x = scene_state(&s, 0, t);
            height[n][t] = n == 0 ? x[2] : x[0] + 0.15;
            lowest = fmin(lowest, height[n][t]);
        }
        scene_free(&s);
        ns_model_free(model);
    }
    assert_true(lowest < 0.099); // it has touched
    all_close(height[1], height[0], STEPS + 1, 1e-9);
}

// ---- a quadruped -----------------------------------------------------------------------------

// A PD stance of the shipped quadruped by formulas (kp 60 N m, kd 1.5 N m s), with torques that make it
// step: the derivative of the final state for the initial one stays below 1e3 for 3,000 steps.
static void gradients_of_a_stepping_quadruped_stay_bounded(void** state) {
    (void)state;
    enum { STEPS = 3000 };
    static const char stance[] =
        "formulas:\n"
        "- {name: abd, each: joint/*_abd, output: '{}/tau',\n"
        "   formula: '-60 * \"{}/position\" - 1.5 * \"{}/velocity\"'}\n"
        "- {name: hip, each: joint/*_hipj, output: '{}/tau',\n"
        "   formula: '60 * (0.8 - \"{}/position\") - 1.5 * \"{}/velocity\"'}\n"
        "- {name: knee, each: joint/*_knee, output: '{}/tau',\n"
        "   formula: '60 * (-1.6 - \"{}/position\") - 1.5 * \"{}/velocity\"'}\n";
    ns_error error = {0};
    ns_model* model = NULL;
    ns_blueprint* blueprint = NULL;
    ns_load_options load = ns_default_load_options();
    load.ground = true;
    must(ns_model_load(NEURALSIM_SOURCE_DIR "/models/quadruped.urdf", &load, &model, &error),
         &error);
    must(ns_blueprint_parse(stance, strlen(stance), "stance", NULL, &blueprint, &error), &error);
    for (int n = 0; n < 3; n++) {
        static const double torque[] = {0.0, 5.0, 15.0}; // N m
        ns_system_options options = spring_options();
        options.blueprint = blueprint;
        scene s = scene_create(model, &options, 1, STEPS);
        s.x0[2] = 0.33;
        for (int k = 0; k < 4; k++) s.x0[8 + 3 * k] = 0.8, s.x0[9 + 3 * k] = -1.6;
        for (uint32_t t = 0; t < STEPS; t++) {
            double* tau = s.controls + (size_t)t * s.n.nc;
            for (int k = 0; k < 4; k++) { // diagonal pairs in turn, twice a second
                double phase = 4.0 * 3.141592653589793 * 1e-3 * t;
                tau[8 + 3 * k] = torque[n] * sin(phase) * (k == 0 || k == 3 ? 1.0 : -1.0);
            }
        }
        scene_run(&s);
        const double* end = scene_state(&s, 0, STEPS);
        double sensitivity = scene_sensitivity(&s);
        printf("    torques of %g N m: at %.3f %.3f %.3f, |dx/dx0| %.3g\n", torque[n], end[0],
               end[1], end[2], sensitivity);
        assert_true(sensitivity < 1e3);
        scene_free(&s);
    }
    ns_blueprint_free(blueprint);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rolling_ball_does_not_tremble),
        cmocka_unit_test(a_sliding_block_goes_its_way),
        cmocka_unit_test(stacks_gain_no_energy),
        cmocka_unit_test(overlap_does_not_throw),
        cmocka_unit_test(points_of_one_velocity_are_told_apart),
        cmocka_unit_test(gradients_of_a_stepping_quadruped_stay_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
