// The robots the controller knows, and where a model has what it needs of them. The figures are those
// of the files models/laikago.urdf and models/a1.urdf say they come from; gains, footholds and the
// MPC's mass, inertia and height are those of google-research/motion_imitation (Peng et al. 2020).

#include "quadruped/control.h"

#include "quadruped/leg.h"
#include "quadruped/support.h"

#include <math.h>

static void set_joints(quad_robot* robot) {
    static const char* const names[] = {
        "FR_abduction", "FR_upper", "FR_lower", "FL_abduction", "FL_upper", "FL_lower",
        "RR_abduction", "RR_upper", "RR_lower", "RL_abduction", "RL_upper", "RL_lower"};
    memcpy(robot->joints, names, sizeof names);
    robot->trunk = "trunk";
}

quad_robot quad_laikago(void) {
    // Robot and controller gains.
    quad_robot robot = {
        .name = "laikago",
        .toe_radius = 0.03,
        .home = {0.0, 0.07, -0.59},
        .torque = {100.0, 100.0, 100.0},
        .kp = {220.0, 220.0, 220.0},
        .kd = {1.0, 2.0, 2.0},
        .mass = 215.0 / 9.8,
        .inertia = {0.07335, 0.25068, 0.25447},
        .body_height = 0.42,
    };

    // Legs mirror each other; offsets are those of the URDF.
    set_joints(&robot);
    for (int k = 0; k < QUAD_LEGS; k++) {
        // Order: FR, FL, RR, RL.
        const bool front = k < 2, left = k % 2 == 1;
        const double side = left ? 1.0 : -1.0;
        // Left legs turn the other way.
        robot.legs[k] = (quad_leg_def){
            .hip = {front ? 0.199095 : -0.238195, side * 0.0817145, -0.03},
            .abduction_sign = side,
            .upper = {0.0, left ? 0.055855 : -0.053565, 0.0},
            .lower = {-0.1422, -side * 0.02069, -0.20833},
            .toe = {-0.022, 0.0, -0.25},
            .limits = {{-0.873, 1.0472}, {-1.3, 3.4}, {-2.164, 0.0}},
        };
        // Footholds below the hips in the home pose.
        robot.foothold[k][0] = front ? 0.21 : -0.21;
        robot.foothold[k][1] = side * 0.1157;
    }
    return robot;
}

quad_robot quad_a1(void) {
    // Robot and controller gains.
    quad_robot robot = {
        .name = "a1",
        .toe_radius = 0.02,
        .home = {0.0, 0.9, -1.8},
        .torque = {20.0, 55.0, 55.0},
        .kp = {100.0, 100.0, 100.0},
        .kd = {1.0, 2.0, 2.0},
        .mass = 108.0 / 9.8,
        .inertia = {4.0 * 0.017, 4.0 * 0.057, 4.0 * 0.064},
        .body_height = 0.24,
    };

    // Legs mirror each other; offsets are those of the URDF.
    set_joints(&robot);
    for (int k = 0; k < QUAD_LEGS; k++) {
        // Order: FR, FL, RR, RL.
        const bool front = k < 2, left = k % 2 == 1;
        const double side = left ? 1.0 : -1.0;
        // All abduction joints turn the same way.
        robot.legs[k] = (quad_leg_def){
            .hip = {front ? 0.183 : -0.183, side * 0.047, 0.0},
            .abduction_sign = 1.0,
            .upper = {0.0, side * 0.08505, 0.0},
            .lower = {0.0, 0.0, -0.2},
            .toe = {0.0, 0.0, -0.2},
            .limits = {{-0.802851, 0.802851}, {-1.047198, 4.18879}, {-2.696534, -0.916298}},
        };
        // Footholds below the hips in the home pose.
        robot.foothold[k][0] = front ? 0.17 : -0.17;
        robot.foothold[k][1] = side * 0.14;
    }
    return robot;
}

// ---- models --------------------------------------------------------------------------------

ns_status quad_bind(const ns_model* model, const quad_robot* robot, quad_map* out,
                    ns_error* error) {
    ns_model_sizes sizes = ns_model_get_sizes(model);
    *out = (quad_map){.nq = sizes.nq, .nv = sizes.nv, .nu = sizes.nu};

    // The trunk must be a floating link.
    uint32_t trunk = ns_model_find_link(model, robot->trunk);
    if (trunk == UINT32_MAX || ns_model_link(model, trunk)->joint_type != NS_JOINT_FLOATING) {
        return quad_fail(
            error, NS_ERR_ARGUMENT,
            "the model has no link \"%.100s\" on a floating joint; a quadruped needs one",
            robot->trunk);
    }
    // Positions of its coordinates in the state.
    out->base_q = ns_model_joint_q(model, trunk);
    out->base_v = ns_model_joint_v(model, trunk);

    // Every joint must be a hinge with a coordinate of its own.
    for (int k = 0; k < QUAD_JOINTS; k++) {
        uint32_t joint = ns_model_find_joint(model, robot->joints[k]);
        // A joint that mimics another has none.
        bool right = joint != UINT32_MAX &&
                     ns_model_link(model, joint)->joint_type == NS_JOINT_REVOLUTE &&
                     ns_model_joint_q(model, joint) != UINT32_MAX;
        if (!right) {
            return quad_fail(error, NS_ERR_ARGUMENT,
                             "the model has no hinge \"%.100s\" with a coordinate of its own; name "
                             "the joints of the model, or of the robot, so that they fit",
                             robot->joints[k]);
        }
        // The model may order its joints differently.
        out->q[k] = ns_model_joint_q(model, joint);
        out->v[k] = ns_model_joint_v(model, joint);
    }
    return NS_OK;
}

quad_state quad_read(const quad_map* map, const double* x) {
    quad_state state = {0};
    const double *q = x, *qd = x + map->nq;
    memcpy(state.position, q + map->base_q, sizeof state.position);
    memcpy(state.quaternion, q + map->base_q + 3, sizeof state.quaternion);
    memcpy(state.velocity, qd + map->base_v, sizeof state.velocity);
    memcpy(state.angular_velocity, qd + map->base_v + 3, sizeof state.angular_velocity);
    for (int k = 0; k < QUAD_JOINTS; k++) {
        state.q[k] = q[map->q[k]];
        state.qd[k] = qd[map->v[k]];
    }
    return state;
}

void quad_start(const quad_map* map, const quad_robot* robot, double* x) {
    memset(x, 0, ((size_t)map->nq + map->nv) * sizeof *x);
    double lowest = 0.0;
    for (int k = 0; k < QUAD_LEGS; k++) {
        double toe[3];
        quad_leg_toe(&robot->legs[k], robot->home, toe);
        lowest = fmin(lowest, toe[2]);
    }
    x[map->base_q + 2] = robot->toe_radius - lowest;
    x[map->base_q + 3] = 1.0;
    for (int k = 0; k < QUAD_JOINTS; k++) x[map->q[k]] = robot->home[k % QUAD_LEG_JOINTS];
}

void quad_write(const quad_map* map, const double torques[QUAD_JOINTS], double* c) {
    for (int k = 0; k < QUAD_JOINTS; k++) c[map->nu + map->v[k]] = torques[k];
}
