// The controller as a whole: torques of standing legs by virtual work, what it does with states and
// answers that are no good, and walking in the simulator.

#include "base/common.h"
#include "neuralsim/random.h"
#include "neuralsim/sim.h"
#include "quadruped/control.h"
#include "quadruped/leg.h"
#include "support/assert.h"
#include "support/residual.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>

static quad_robot robot_of(int k) {
    return k == 0 ? quad_laikago() : quad_a1();
}

static quad_controller* create(const quad_robot* robot, const quad_controller_options* options) {
    quad_controller* controller = NULL;
    ns_error error;
    must(quad_controller_create(robot, options, NULL, &controller, &error), &error);
    return controller;
}

// At rest in the home pose.
static quad_state standing(const quad_robot* robot) {
    quad_state s = {.position = {0.0, 0.0, 0.4}, .quaternion = {1.0}};
    for (int k = 0; k < 12; k++) s.q[k] = robot->home[k % 3];
    return s;
}

// ---- single decisions ----------------------------------------------------------------------

// When a joint of a standing leg moves a little, its torque does the work that lifts the trunk against
// the forces of the ground: the lowest point of the toe, fixed to the shank, moves against the trunk.
static void torques_of_stance_legs_do_the_work_of_the_forces(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    residual r = {.name = "virtual work", .tolerance = 1e-7};
    for (int repeat = 0; repeat < 40; repeat++) {
        quad_robot robot = robot_of(repeat % 2);
        quad_controller* controller = create(&robot, NULL);
        quad_state s = standing(&robot);
        double roll = 0.1 * ns_rng_normal(&rng);
        s.quaternion[0] = cos(0.5 * roll), s.quaternion[1] = sin(0.5 * roll);
        for (int k = 0; k < 12; k++) s.q[k] += 0.1 * ns_rng_normal(&rng);
        quad_command command = {{0.3, -0.1}, 0.2};
        quad_controller_report report;
        double torques[12];
        assert_int_equal(quad_controller_update(controller, 0.0, &s, &command, &report, NULL),
                         NS_OK);
        assert_int_equal(report.source, QUAD_STANCE_MPC);
        assert_false(report.limited);
        quad_controller_torques(controller, s.q, s.qd, torques);
        assert_memory_equal(torques, quad_controller_stance_torques(controller), sizeof torques);
        for (int k = 0; k < 12; k++) {
            int leg = k / 3;
            double work[2];
            for (int side = 0; side < 2; side++) {
                // Toe and a point of the shank straight below it, as the joint moves by h.
                const double h = side ? 1e-5 : -1e-5, *f = report.forces[leg];
                double q[3], toe[3];
                memcpy(q, s.q + 3 * leg, sizeof q);
                q[k % 3] += h;
                quad_leg_toe(&robot.legs[leg], q, toe);
                // The turn of the shank: about x (abduction) or the axis y turned by it.
                double angle = robot.legs[leg].abduction_sign * s.q[3 * leg];
                double axis[3] = {robot.legs[leg].abduction_sign, 0.0, 0.0};
                if (k % 3 > 0) axis[0] = 0.0, axis[1] = cos(angle), axis[2] = sin(angle);
                double down[3] = {0.0, -sin(roll) * robot.toe_radius,
                                  -cos(roll) * robot.toe_radius};
                toe[0] += h * (axis[1] * down[2] - axis[2] * down[1]);
                toe[1] += h * (axis[2] * down[0] - axis[0] * down[2]);
                toe[2] += h * (axis[0] * down[1] - axis[1] * down[0]);
                double level[3] = {toe[0], cos(roll) * toe[1] - sin(roll) * toe[2],
                                   sin(roll) * toe[1] + cos(roll) * toe[2]};
                work[side] = f[0] * level[0] + f[1] * level[1] + f[2] * level[2];
            }
            residual_add(&r, torques[k], -(work[1] - work[0]) / 2e-5, 10.0);
        }
        quad_controller_free(controller);
    }
    residual_check(&r);
}

// Everything but the heading is the same whichever way the robot faces.
static void the_heading_does_not_matter(void** state) {
    (void)state;
    residual r = {.name = "headings", .tolerance = 1e-7};
    quad_robot robot = quad_a1();
    double want[12] = {0};
    for (int k = 0; k < 8; k++) {
        double yaw = 0.8 * k, roll = 0.05;
        quad_controller* controller = create(&robot, NULL);
        quad_state s = standing(&robot);
        // Rz(yaw) Rx(roll)
        s.quaternion[0] = cos(0.5 * yaw) * cos(0.5 * roll);
        s.quaternion[1] = cos(0.5 * yaw) * sin(0.5 * roll);
        s.quaternion[2] = sin(0.5 * yaw) * sin(0.5 * roll);
        s.quaternion[3] = sin(0.5 * yaw) * cos(0.5 * roll);
        s.velocity[0] = 0.3 * cos(yaw) - 0.1 * sin(yaw);
        s.velocity[1] = 0.3 * sin(yaw) + 0.1 * cos(yaw);
        quad_command command = {{0.5, 0.0}, 0.3};
        double torques[12];
        assert_int_equal(quad_controller_update(controller, 0.15, &s, &command, NULL, NULL), NS_OK);
        quad_controller_torques(controller, s.q, s.qd, torques);
        if (k == 0) memcpy(want, torques, sizeof want);
        residual_array(&r, torques, want, 12, 1.0);
        quad_controller_free(controller);
    }
    residual_check(&r);
}

// Features are what control.h says, in its order.
static void features_are_in_their_places(void** state) {
    (void)state;
    quad_robot robot = quad_laikago();
    quad_controller* controller = create(&robot, NULL);
    quad_state s = standing(&robot);
    s.velocity[0] = 0.4, s.velocity[1] = 0.1, s.angular_velocity[2] = 0.25;
    quad_command command = {{0.6, 0.2}, 0.8};
    assert_int_equal(quad_controller_update(controller, 0.15, &s, &command, NULL, NULL), NS_OK);
    const double* f = quad_controller_features(controller);
    double toe[3];
    quad_leg_toe(&robot.legs[1], s.q + 3, toe);
    const double want[] = {0.4,   0.1,   0,     0,      0,      0,     0,
                           0,     0.25,  0,     1,      1,      0, // FL and RR stand
                           f[13], f[14], f[15], toe[0], toe[1], toe[2]};
    for (int k = 0; k < 19; k++) assert_true(fabs(f[k] - want[k]) < 1e-12);
    for (int k = 25; k < 29; k++) assert_true(f[k] == 0.45);
    const double wanted[] = {0, 0, 0.42, 0.6, 0.2, 0, 0, 0, 0, 0, 0, 0.8};
    for (int k = 0; k < 12; k++) assert_true(f[29 + k] == wanted[k]);
    quad_controller_free(controller);
}

// ---- what is no good -----------------------------------------------------------------------

static void check_finite(const quad_controller* controller, const quad_robot* robot,
                         const double* q, const double* qd) {
    double torques[12];
    quad_controller_torques(controller, q, qd, torques);
    for (int k = 0; k < 12; k++) {
        assert_true(isfinite(torques[k]) && fabs(torques[k]) <= robot->torque[k % 3]);
    }
}

// A NaN anywhere is told by name, and no torque is NaN.
static void numbers_that_are_not_finite_are_told(void** state) {
    (void)state;
    quad_robot robot = quad_a1();
    quad_controller* controller = create(&robot, NULL);
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; k < 3 * 37; k++) {
        quad_state s = standing(&robot);
        quad_command command = {{0.3, 0.0}, 0.0};
        double* const places[] = {s.quaternion, s.velocity,       s.angular_velocity, s.q,
                                  s.qd,         command.velocity, &command.yaw_rate};
        const int counts[] = {4, 3, 3, 12, 12, 2, 1};
        int place = 0, at = k % 37;
        while (at >= counts[place]) at -= counts[place++];
        places[place][at] = bad[k / 37];
        ns_error error;
        quad_controller_report report;
        assert_int_equal(quad_controller_update(controller, 0.1 * k, &s, &command, &report, &error),
                         NS_ERR_NONFINITE);
        assert_non_null(strstr(error.message, "is not finite"));
        check_finite(controller, &robot, s.q, s.qd);
        assert_int_equal(report.source, QUAD_STANCE_NONE);
        // The next good state is not spoilt.
        s = standing(&robot);
        command = (quad_command){{0.3, 0.0}, 0.0};
        assert_int_equal(quad_controller_update(controller, 0.1 * k, &s, &command, &report, &error),
                         NS_OK);
        assert_int_equal(report.source, QUAD_STANCE_MPC);
        check_finite(controller, &robot, s.q, s.qd);
    }
    // Joints that are not finite between two updates.
    double q[12], qd[12] = {0};
    for (int k = 0; k < 12; k++) q[k] = bad[k % 3];
    check_finite(controller, &robot, q, qd);
    quad_controller_free(controller);
}

// No quaternion is not upright.
static void a_quaternion_of_zero_is_refused(void** state) {
    (void)state;
    quad_robot robot = quad_a1();
    quad_controller* controller = create(&robot, NULL);
    quad_state s = standing(&robot);
    s.quaternion[0] = 0.0;
    for (int k = 0; k < 12; k++) s.qd[k] = 1.0;
    quad_command command = {{0.3, 0.0}, 0.0};
    quad_controller_report report;
    ns_error error;
    double torques[12];
    assert_int_equal(quad_controller_update(controller, 0.1, &s, &command, &report, &error),
                     NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "state.quaternion"));
    assert_int_equal(report.source, QUAD_STANCE_NONE);
    quad_controller_torques(controller, s.q, s.qd, torques);
    for (int k = 0; k < 12; k++) assert_true(torques[k] == -robot.kd[k % 3]);
    quad_controller_free(controller);
}

// Under a command that is lost in rounding the answer of the QP is refused: the feet that stand carry
// the weight.
static void forces_that_are_no_good_are_not_used(void** state) {
    (void)state;
    const double speeds[] = {1.0, 1e6, 1e12, 1e20, 1e100};
    for (int k = 0; k < 2 * 5; k++) {
        quad_robot robot = robot_of(k % 2);
        quad_controller* controller = create(&robot, NULL);
        quad_state s = standing(&robot);
        quad_command command = {{speeds[k / 2], 0.0}, 0.0};
        quad_controller_report report;
        assert_int_equal(quad_controller_update(controller, 0.1, &s, &command, &report, NULL),
                         NS_OK);
        double sum = 0.0, weight = robot.mass * quad_default_controller_options().mpc.gravity;
        for (int leg = 0; leg < QUAD_LEGS; leg++) sum += report.forces[leg][2];
        if (k / 2 < 2) {
            assert_int_equal(report.source, QUAD_STANCE_MPC);
            assert_true(sum > 0.5 * weight);
        } else {
            assert_int_equal(report.source, QUAD_STANCE_SHARED);
            assert_true(fabs(sum - weight) < 1e-9 * weight);
        }
        check_finite(controller, &robot, s.q, s.qd);
        quad_controller_free(controller);
    }
}

// Where no force is allowed, none is the exact answer, not a failure.
static void forces_of_zero_are_an_answer(void** state) {
    (void)state;
    quad_robot robot = quad_a1();
    quad_controller_options options = quad_default_controller_options();
    options.mpc.least_force = options.mpc.most_force = 0.0;
    quad_controller* controller = create(&robot, &options);
    quad_state s = standing(&robot);
    quad_command command = {{0.4, 0.1}, 0.3};
    quad_controller_report report;
    assert_int_equal(quad_controller_update(controller, 0.1, &s, &command, &report, NULL), NS_OK);
    assert_int_equal(report.source, QUAD_STANCE_MPC);
    assert_int_equal(report.qp_status, 0);
    for (int k = 0; k < 12; k++) assert_true(fabs(report.forces[k / 3][k % 3]) < 1e-9);
    quad_controller_free(controller);
}

static void a_fallen_robot_is_told_and_goes_limp(void** state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        quad_robot robot = robot_of(k);
        quad_controller* controller = create(&robot, NULL);
        quad_command command = {{0.5, 0.0}, 0.0};
        quad_controller_report report;
        quad_state s = standing(&robot);
        // On its side, on its back, nose down.
        const double poses[][4] = {{0.7, 0.7, 0, 0}, {0, 1, 0, 0}, {0.7, 0, 0.7, 0}};
        for (int p = 0; p < 4; p++) {
            s = standing(&robot);
            if (p < 3) memcpy(s.quaternion, poses[p], sizeof s.quaternion);
            for (int j = 0; j < 12 && p == 3; j++) { // or lying on folded legs
                s.q[j] = j % 3 == 0 ? 0.0 : j % 3 == 1 ? 1.6 : -2.69;
                if (k == 0 && j % 3 == 1) s.q[j] = 1.2;
                if (k == 0 && j % 3 == 2) s.q[j] = -2.1;
            }
            for (int j = 0; j < 12; j++) s.qd[j] = 1.0;
            assert_int_equal(quad_controller_update(controller, 0.1, &s, &command, &report, NULL),
                             NS_OK);
            assert_true(report.fallen);
            double torques[12];
            quad_controller_torques(controller, s.q, s.qd, torques);
            for (int j = 0; j < 12; j++) assert_true(torques[j] == -robot.kd[j % 3]);
        }
        s = standing(&robot);
        assert_int_equal(quad_controller_update(controller, 0.1, &s, &command, &report, NULL),
                         NS_OK);
        assert_false(report.fallen);
        quad_controller_free(controller);
    }
}

static void targets_out_of_reach_are_told(void** state) {
    (void)state;
    quad_robot robot = quad_a1();
    quad_controller* controller = create(&robot, NULL);
    quad_state s = standing(&robot);
    quad_command command = {{0.0, 0.0}, 0.0};
    quad_controller_report report;
    assert_int_equal(quad_controller_update(controller, 0.06, &s, &command, &report, NULL), NS_OK);
    for (int k = 0; k < QUAD_LEGS; k++) assert_false(report.unreachable[k]);
    s.velocity[0] = 8.0; // the foothold is 1.2 m ahead
    for (int k = 0; k < 40; k++) {
        assert_int_equal(quad_controller_update(controller, 0.2, &s, &command, &report, NULL),
                         NS_OK);
    }
    assert_true(report.unreachable[0] && report.unreachable[3]);
    assert_false(report.unreachable[1] || report.unreachable[2]); // these stand
    check_finite(controller, &robot, s.q, s.qd);
    quad_controller_free(controller);
}

typedef struct policy_state {
    int calls;
    bool fails;
    double value;
} policy_state;

static bool policy(void* context, const double* features, double* torques) {
    policy_state* p = context;
    p->calls++;
    assert_true(features[31] > 0.0);
    for (int k = 0; k < 12; k++) torques[k] = p->value;
    return !p->fails;
}

// A policy takes the place of the MPC for stance legs; when it fails, the weight is shared.
static void a_policy_takes_the_place_of_the_mpc(void** state) {
    (void)state;
    policy_state p = {.value = 3.0};
    quad_robot robot = quad_a1();
    quad_controller_options options = quad_default_controller_options();
    options.policy = policy;
    options.policy_context = &p;
    quad_controller* controller = create(&robot, &options);
    quad_state s = standing(&robot);
    quad_command command = {{0.0, 0.0}, 0.0};
    quad_controller_report report;
    double torques[12];
    assert_int_equal(quad_controller_update(controller, 0.15, &s, &command, &report, NULL), NS_OK);
    assert_int_equal(report.source, QUAD_STANCE_POLICY);
    quad_controller_torques(controller, s.q, s.qd, torques);
    for (int k = 3; k < 9; k++) assert_true(torques[k] == 3.0);
    p.value = 100.0;
    assert_int_equal(quad_controller_update(controller, 0.15, &s, &command, &report, NULL), NS_OK);
    assert_true(report.limited);
    quad_controller_torques(controller, s.q, s.qd, torques);
    assert_true(torques[3] == 20.0 && torques[4] == 55.0);
    for (int how = 0; how < 2; how++) {
        p.fails = how == 0;
        p.value = how == 0 ? 1.0 : NAN;
        assert_int_equal(quad_controller_update(controller, 0.15, &s, &command, &report, NULL),
                         NS_OK);
        assert_int_equal(report.source, QUAD_STANCE_SHARED);
        assert_true(fabs(report.forces[1][2] - 0.5 * robot.mass * 9.8) < 1e-9);
        check_finite(controller, &robot, s.q, s.qd);
    }
    assert_int_equal(p.calls, 4);
    quad_controller_free(controller);
}

static void memory_is_checked_and_only_asked_for_at_the_start(void** state) {
    (void)state;
    quad_robot robot = quad_a1();
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        quad_controller* controller = NULL;
        ns_error error;
        ns_status status = quad_controller_create(&robot, NULL, &allocator, &controller, &error);
        if (counter.calls < n) {
            size_t calls = counter.calls;
            quad_state s = standing(&robot);
            quad_command command = {{0.2, 0.0}, 0.0};
            for (int k = 0; k < 100; k++) {
                quad_controller_update(controller, 0.01 * k, &s, &command, NULL, NULL);
                check_finite(controller, &robot, s.q, s.qd);
            }
            assert_int_equal(counter.calls, calls);
            quad_controller_free(controller);
            assert_int_equal(counter.live_blocks, 0);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(counter.live_blocks, 0);
    }
    quad_controller_free(NULL);
}

// ---- walking -------------------------------------------------------------------------------

typedef struct walk {
    quad_robot robot;
    quad_map map;
    ns_model* model;
    ns_system* system;
    ns_workspace* work;
    quad_controller* controller;
    double x[37], y[64];
    double residual;
    uint32_t time; // ms
} walk;

static walk begin(int robot, ns_contact_model contact) {
    walk w = {.robot = robot_of(robot)};
    char path[512];
    snprintf(path, sizeof path, "%s/models/%s.urdf", NEURALSIM_SOURCE_DIR, w.robot.name);
    ns_load_options load = ns_default_load_options();
    load.ground = true;
    assert_int_equal(ns_model_load(path, &load, &w.model, NULL), NS_OK);
    assert_int_equal(quad_bind(w.model, &w.robot, &w.map, NULL), NS_OK);
    const char* observe[] = {"contact/FR_toe*/0/depth", "contact/FL_toe*/0/depth",
                             "contact/RR_toe*/0/depth", "contact/RL_toe*/0/depth"};
    ns_system_options options = ns_default_system_options();
    options.contact = (int)contact;
    options.observe = observe;
    options.nobserve = 4;
    ns_error error;
    must(ns_system_create(w.model, &options, &w.system, &error), &error);
    assert_int_equal(ns_system_get_sizes(w.system).ny, 4);
    ns_workspace_create(w.system, &(ns_workspace_size){.batch = 1, .steps = 1}, &w.work, NULL);
    w.controller = create(&w.robot, NULL);
    quad_start(&w.map, &w.robot, w.x);
    return w;
}

// For some time; the mean velocity in the robot's heading and the mean yaw rate come back.
static void go(walk* w, const quad_command* command, uint32_t duration, double mean[3]) {
    const uint32_t period = strcmp(w->robot.name, "a1") == 0 ? 5 : 10;
    memset(mean, 0, 3 * sizeof *mean);
    for (uint32_t k = 0; k < duration; k++, w->time++) {
        quad_state s = quad_read(&w->map, w->x);
        quad_controller_report report;
        s.contact_known = true;
        for (int leg = 0; leg < QUAD_LEGS; leg++) s.contact[leg] = w->y[leg] > -1e-3;
        if (w->time % period == 0) {
            assert_int_equal(
                quad_controller_update(w->controller, 1e-3 * w->time, &s, command, &report, NULL),
                NS_OK);
            assert_false(report.fallen);
            assert_int_equal(report.qp_status, 0);
            assert_int_not_equal(report.source, QUAD_STANCE_SHARED);
            w->residual = fmax(w->residual, report.qp_residual);
        }
        double torques[12], controls[18] = {0}, states[2 * 37];
        quad_controller_torques(w->controller, s.q, s.qd, torques);
        quad_write(&w->map, torques, controls);
        ns_rollout_args args = {.batch = 1,
                                .steps = 1,
                                .x0 = w->x,
                                .controls = controls,
                                .states = states,
                                .observations = w->y};
        assert_int_equal(ns_rollout(w->system, w->work, &args, NULL), NS_OK);
        memcpy(w->x, states + 37, sizeof w->x);
        const double* q = s.quaternion;
        double yaw =
            atan2(2.0 * (q[0] * q[3] + q[1] * q[2]), 1.0 - 2.0 * (q[2] * q[2] + q[3] * q[3]));
        mean[0] += (cos(yaw) * s.velocity[0] + sin(yaw) * s.velocity[1]) / duration;
        mean[1] += (cos(yaw) * s.velocity[1] - sin(yaw) * s.velocity[0]) / duration;
        mean[2] += s.angular_velocity[2] / duration;
    }
}

static void end(walk* w) {
    quad_controller_free(w->controller);
    ns_workspace_free(w->work);
    ns_system_free(w->system);
    ns_model_free(w->model);
}

// Forward, sideways, turning: it moves as commanded, roughly, and does not fall.
static void robots_walk_in_both_contact_models(void** state) {
    (void)state;
    const ns_contact_model contacts[] = {NS_CONTACT_NCP, NS_CONTACT_SPRING};
    const quad_command commands[] = {{{0.4, 0.0}, 0.0}, {{0.0, 0.15}, 0.0}, {{0.0, 0.0}, 0.5}};
    for (int run = 0; run < 4; run++) {
        walk w = begin(run % 2, contacts[run / 2]);
        for (int k = 0; k < 3; k++) {
            double mean[3];
            go(&w, &commands[k], 1000, mean); // to get there
            go(&w, &commands[k], 2000, mean);
            print_message("%s: %.3f %.3f m/s, %.3f rad/s\n", w.robot.name, mean[0], mean[1],
                          mean[2]);
            assert_true(fabs(mean[0] - commands[k].velocity[0]) < 0.12);
            assert_true(fabs(mean[1] - commands[k].velocity[1]) < 0.12);
            assert_true(fabs(mean[2] - commands[k].yaw_rate) < 0.12);
        }
        print_message("KKT residual %.1e\n", w.residual);
        assert_true(w.residual <= 1e-8);
        end(&w);
    }
}

// Made anew or reset, it decides the same, to the bit.
static void a_reset_controller_is_a_new_one(void** state) {
    (void)state;
    walk w = begin(1, NS_CONTACT_NCP);
    quad_command command = {{0.4, 0.1}, 0.3};
    double mean[3], first[37];
    go(&w, &command, 400, mean);
    memcpy(first, w.x, sizeof first);
    quad_controller_reset(w.controller);
    quad_start(&w.map, &w.robot, w.x);
    memset(w.y, 0, sizeof w.y);
    w.time = 0;
    go(&w, &command, 400, mean);
    assert_memory_equal(first, w.x, sizeof first);
    end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torques_of_stance_legs_do_the_work_of_the_forces),
        cmocka_unit_test(the_heading_does_not_matter),
        cmocka_unit_test(features_are_in_their_places),
        cmocka_unit_test(numbers_that_are_not_finite_are_told),
        cmocka_unit_test(a_quaternion_of_zero_is_refused),
        cmocka_unit_test(forces_that_are_no_good_are_not_used),
        cmocka_unit_test(forces_of_zero_are_an_answer),
        cmocka_unit_test(a_fallen_robot_is_told_and_goes_limp),
        cmocka_unit_test(targets_out_of_reach_are_told),
        cmocka_unit_test(a_policy_takes_the_place_of_the_mpc),
        cmocka_unit_test(memory_is_checked_and_only_asked_for_at_the_start),
        cmocka_unit_test(robots_walk_in_both_contact_models),
        cmocka_unit_test(a_reset_controller_is_a_new_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
