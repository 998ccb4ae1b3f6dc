// The robots' files: what they weigh, that the controller's legs are those of the models, and that both
// stand on the ground in both contact models when their joints are held.

#include "base/common.h"
#include "neuralsim/random.h"
#include "neuralsim/sim.h"
#include "quadruped/leg.h"
#include "support/assert.h"
#include "support/residual.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static quad_robot robot_of(int k) {
    return k == 0 ? quad_laikago() : quad_a1();
}

static ns_model* load(const char* name) {
    char path[512];
    snprintf(path, sizeof path, "%s/models/%s.urdf", NEURALSIM_SOURCE_DIR, name);
    ns_load_options options = ns_default_load_options();
    options.ground = true;
    ns_model* model = NULL;
    ns_error error;
    must(ns_model_load(path, &options, &model, &error), &error);
    return model;
}

static void robots_have_their_masses(void** state) {
    (void)state;
    const double masses[] = {25.567, 12.453};
    for (int k = 0; k < 2; k++) {
        quad_robot robot = robot_of(k);
        ns_model* model = load(robot.name);
        ns_model_sizes sizes = ns_model_get_sizes(model);
        double sum = 0.0;
        for (uint32_t i = 0; i < sizes.nlink; i++) sum += ns_model_link(model, i)->mass;
        assert_true(fabs(sum - masses[k]) < 1e-9);
        assert_int_equal(sizes.nq, 19);
        assert_int_equal(sizes.nv, 18);
        assert_int_equal(sizes.ncontact, 5); // toes and trunk
        ns_model_free(model);
    }
}

// The model's toes, as the simulator sees them, against the controller's kinematics.
static void legs_are_those_of_the_models(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    residual r = {.name = "toes", .tolerance = 1e-14};
    for (int k = 0; k < 2; k++) {
        quad_robot robot = robot_of(k);
        ns_model* model = load(robot.name);
        quad_map map;
        ns_error error;
        assert_int_equal(quad_bind(model, &robot, &map, &error), NS_OK);
        const char* observe[] = {"link/*_toe/pose/*"};
        ns_system_options options = ns_default_system_options();
        options.observe = observe;
        options.nobserve = 1;
        ns_system* system = NULL;
        must(ns_system_create(model, &options, &system, &error), &error);
        ns_system_sizes sizes = ns_system_get_sizes(system);
        ns_workspace* work = NULL;
        ns_workspace_create(system, &(ns_workspace_size){.batch = 1, .steps = 1}, &work, NULL);
        for (int repeat = 0; repeat < 100; repeat++) {
            double x[37] = {0}, y[64];
            assert_true(sizes.nx == 37 && sizes.ny <= 64);
            quad_start(&map, &robot, x);
            for (int j = 0; j < 12; j++) x[map.q[j]] = ns_rng_uniform(&rng, -1.5, 1.5);
            ns_rollout_args args = {.batch = 1, .steps = 1, .x0 = x, .observations = y};
            assert_int_equal(ns_rollout(system, work, &args, &error), NS_OK);
            static const char* const legs[] = {"FR", "FL", "RR", "RL"};
            for (uint32_t o = 0; o < sizes.ny; o++) {
                for (int leg = 0; leg < QUAD_LEGS; leg++) {
                    for (int i = 0; i < 3; i++) {
                        char name[64];
                        double q[3], toe[3];
                        snprintf(name, sizeof name, "link/%s_toe/pose/%c", legs[leg], "xyz"[i]);
                        if (strcmp(ns_system_observation_name(system, o), name) != 0) continue;
                        for (int j = 0; j < 3; j++) q[j] = x[map.q[3 * leg + j]];
                        quad_leg_toe(&robot.legs[leg], q, toe);
                        residual_add(&r, y[o], toe[i] + x[map.base_q + (uint32_t)i], 1.0);
                    }
                }
            }
        }
        ns_workspace_free(work);
        ns_system_free(system);
        ns_model_free(model);
    }
    assert_int_equal(r.count, 2 * 100 * 12);
    residual_check(&r);
}

// With joints held by springs and dampers at the home pose, the robot comes to rest upright on its four
// toes, none of them slips away, and the ground carries its weight.
static void robots_stand_and_settle(void** state) {
    (void)state;
    const ns_contact_model models[] = {NS_CONTACT_NCP, NS_CONTACT_SPRING};
    for (int run = 0; run < 4; run++) {
        quad_robot robot = robot_of(run % 2);
        ns_model* model = load(robot.name);
        quad_map map;
        ns_error error;
        assert_int_equal(quad_bind(model, &robot, &map, &error), NS_OK);
        const char* observe[] = {"contact/*/*/force/z"};
        ns_system_options options = ns_default_system_options();
        options.contact = (int)models[run / 2];
        // Friction of springs is stiff: a toe of 0.3 kg under 60 N trembles at 1 ms (docs/models.md).
        options.timestep = models[run / 2] == NS_CONTACT_SPRING ? 5e-5 : 1e-3;
        options.observe = observe;
        options.nobserve = 1;
        ns_system* system = NULL;
        ns_workspace* work = NULL;
        must(ns_system_create(model, &options, &system, &error), &error);
        ns_workspace_create(system, &(ns_workspace_size){.batch = 1, .steps = 1}, &work, NULL);
        ns_system_sizes sizes = ns_system_get_sizes(system);
        double x[37], states[2 * 37], controls[18] = {0}, y[64];
        assert_true(sizes.nx == 37 && sizes.nc == 18 && sizes.ny <= 64);
        quad_start(&map, &robot, x);
        x[map.base_q + 2] += 0.02; // dropped from a little above
        double mass = 0.0, force = 0.0, most = 0.0;
        for (uint32_t i = 0; i < ns_model_get_sizes(model).nlink; i++) {
            mass += ns_model_link(model, i)->mass;
        }
        for (int k = 0; k * options.timestep < 4.0; k++) {
            quad_state s = quad_read(&map, x);
            double torques[12];
            for (int j = 0; j < 12; j++) {
                torques[j] = 300.0 * (robot.home[j % 3] - s.q[j]) - 5.0 * s.qd[j];
            }
            quad_write(&map, torques, controls);
            ns_rollout_args args = {.batch = 1,
                                    .steps = 1,
                                    .x0 = x,
                                    .controls = controls,
                                    .states = states,
                                    .observations = y};
            assert_int_equal(ns_rollout(system, work, &args, &error), NS_OK);
            memcpy(x, states + 37, sizeof x);
        }
        for (uint32_t o = 0; o < sizes.ny; o++) force += y[o];
        for (uint32_t i = 0; i < 18; i++) most = fmax(most, fabs(x[19 + i]));
        quad_state s = quad_read(&map, x);
        print_message("%s, %s: height %.4f, tilt %.1e, speed %.1e, force %.6f m g\n", robot.name,
                      run / 2 ? "spring" : "ncp", s.position[2],
                      2.0 * hypot(s.quaternion[1], s.quaternion[2]), most, force / (mass * 9.81));
        assert_true(most < (run / 2 ? 5e-3 : 1e-3)); // friction of springs creeps
        assert_true(2.0 * hypot(s.quaternion[1], s.quaternion[2]) < 0.05);
        assert_true(fabs(s.position[0]) < 0.02 && fabs(s.position[1]) < 0.02);
        double toe[3];
        quad_leg_toe(&robot.legs[0], robot.home, toe);
        assert_true(fabs(s.position[2] - (robot.toe_radius - toe[2])) < 0.03);
        assert_true(fabs(force / (mass * 9.81) - 1.0) < 1e-3);
        ns_workspace_free(work);
        ns_system_free(system);
        ns_model_free(model);
    }
}

static void models_without_the_joints_are_told(void** state) {
    (void)state;
    quad_robot robot = quad_a1();
    quad_map map;
    ns_error error;
    ns_model* pendulum = load("double_pendulum");
    assert_int_equal(quad_bind(pendulum, &robot, &map, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "\"trunk\""));
    ns_model_free(pendulum);
    ns_model* other = load("quadruped");
    assert_int_equal(quad_bind(other, &robot, &map, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "\"FR_abduction\""));
    robot.joints[0] = "root";
    assert_int_equal(quad_bind(other, &robot, &map, &error), NS_ERR_ARGUMENT);
    ns_model_free(other);
}

static void states_and_torques_go_where_they_belong(void** state) {
    (void)state;
    quad_map map = {.nq = 21, .nv = 20, .nu = 3, .base_q = 1, .base_v = 1};
    double x[41], c[23] = {0}, torques[12];
    for (int k = 0; k < 41; k++) x[k] = k;
    for (uint32_t k = 0; k < 12; k++) {
        map.q[k] = 20 - k, map.v[k] = 8 + k;
        torques[k] = 100.0 + k;
    }
    quad_state s = quad_read(&map, x);
    assert_true(s.position[0] == 1.0 && s.quaternion[3] == 7.0);
    assert_true(s.velocity[0] == 22.0 && s.angular_velocity[2] == 27.0);
    for (int k = 0; k < 12; k++) assert_true(s.q[k] == 20.0 - k && s.qd[k] == 29.0 + k);
    assert_false(s.contact_known);
    quad_write(&map, torques, c);
    for (int k = 0; k < 23; k++) assert_true(c[k] == (k >= 11 ? 100.0 + k - 11 : 0.0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(robots_have_their_masses),
        cmocka_unit_test(legs_are_those_of_the_models),
        cmocka_unit_test(robots_stand_and_settle),
        cmocka_unit_test(models_without_the_joints_are_told),
        cmocka_unit_test(states_and_torques_go_where_they_belong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
