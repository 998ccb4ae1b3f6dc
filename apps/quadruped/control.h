/// @file control.h
/// A controller that makes a quadruped trot: gait, swing legs, and model-predictive control of the
/// forces under stance feet (docs/quadruped.md).
///
///     quad_robot robot = quad_a1();
///     quad_map map;
///     quad_bind(model, &robot, &map, &error);      // which coordinates are whose
///     quad_controller* controller = NULL;
///     quad_controller_create(&robot, NULL, NULL, &controller, &error);
///     for (uint32_t k = 0; k < steps; k++) {
///         quad_state s = quad_read(&map, x);
///         if (k % 5 == 0) quad_controller_update(controller, 1e-3 * k, &s, &command, &report, &error);
///         quad_controller_torques(controller, s.q, s.qd, torques);
///         quad_write(&map, torques, controls);
///         ...                                               // one step of the simulator
///     }
///
/// Legs are in the order front right, front left, rear right, rear left; joints of a leg: abduction,
/// upper, lower. The trunk's frame has x forward, y to the left, z up. Units are SI.

#ifndef QUADRUPED_CONTROL_H
#define QUADRUPED_CONTROL_H

#include "neuralsim/base.h"
#include "neuralsim/model.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    QUAD_LEGS = 4,
    QUAD_LEG_JOINTS = 3,
    QUAD_JOINTS = 12,
    QUAD_FEATURES = 41 ///< what a policy sees, see quad_controller_features()
};

// ---- robots ----------------------------------------------------------------------------------

/// A leg: an abduction joint about x, then two joints about y. Vectors are in the trunk's axes with
/// all joints at 0.
typedef struct quad_leg_def {
    double hip[3];         ///< abduction joint in the trunk, m
    double abduction_sign; ///< its axis is x times this, 1 or -1
    double upper[3];       ///< from there to the upper joint, m
    double lower[3];       ///< from there to the lower joint, m
    double toe[3];         ///< from there to the centre of the toe, m
    double limits[3][2];   ///< least and largest angle of each joint, rad
} quad_leg_def;

/// What the controller knows of a robot.
typedef struct quad_robot {
    const char* name;
    const char* joints[QUAD_JOINTS]; ///< names in a model
    const char* trunk;               ///< name of the link on the floating joint
    quad_leg_def legs[QUAD_LEGS];
    double toe_radius;              ///< m
    double home[QUAD_LEG_JOINTS];   ///< angles of each leg of the pose to start from, rad
    double torque[QUAD_LEG_JOINTS]; ///< largest torque of each joint of a leg, N m
    double kp[QUAD_LEG_JOINTS];     ///< of joints of swing legs, N m/rad
    double kd[QUAD_LEG_JOINTS];     ///< N m s/rad
    double foothold[QUAD_LEGS][2];  ///< x, y of the trunk under which feet stand at rest, m
    double mass;                    ///< that the MPC plans with, kg
    double inertia[3];              ///< about the trunk's axes that the MPC plans with, kg m^2
    double body_height;             ///< of the trunk's origin above the centres of toes, m
} quad_robot;

/// Unitree Laikago as in models/laikago.urdf.
quad_robot quad_laikago(void);
/// Unitree A1 as in models/a1.urdf.
quad_robot quad_a1(void);

/// Where a model has what the controller needs.
typedef struct quad_map {
    uint32_t nq, nv, nu;
    uint32_t base_q, base_v; ///< first coordinate and velocity of the floating joint
    uint32_t q[QUAD_JOINTS]; ///< coordinate of each joint
    uint32_t v[QUAD_JOINTS]; ///< velocity of each joint
} quad_map;

/// Find the trunk and the joints of the robot in a model, by their names.
/// @return NS_OK; NS_ERR_ARGUMENT naming a joint that is missing or of another type
ns_status quad_bind(const ns_model* model, const quad_robot* robot, quad_map* out, ns_error* error);

/// The state of the robot, as the controller gets it.
typedef struct quad_state {
    double position[3];         ///< of the trunk's origin in the world, m
    double quaternion[4];       ///< of the trunk in the world, w x y z
    double velocity[3];         ///< of the trunk's origin in the world, m/s
    double angular_velocity[3]; ///< of the trunk, in its own axes, rad/s
    double q[QUAD_JOINTS];      ///< rad
    double qd[QUAD_JOINTS];     ///< rad/s
    bool contact[QUAD_LEGS];    ///< the toe touches something
    bool contact_known;         ///< false: `contact` is not looked at, feet are where the gait
                                ///< has them
} quad_state;

/// From the state x of a system (q, qd), without contacts.
quad_state quad_read(const quad_map* map, const double* x);
/// The pose to start from, with the toes on the ground z = 0, as the state x of a system: q and qd at
/// rest (nq + nv).
void quad_start(const quad_map* map, const quad_robot* robot, double* x);
/// Put torques where the control c of a system (u, tau) has them; the rest of it stays.
void quad_write(const quad_map* map, const double torques[QUAD_JOINTS], double* c);

// ---- options ---------------------------------------------------------------------------------

/// A gait that does not look at the robot: legs swing by the clock.
typedef struct quad_gait_options {
    double stance_duration;          ///< s. Default 0.3
    double duty_factor;              ///< share of a cycle in stance, 0 to 1. Default 0.6
    bool swings_first[QUAD_LEGS];    ///< a cycle starts with swing. Default FR and RL
    double initial_phase[QUAD_LEGS]; ///< in the cycle at time 0, 0 to 1. Default 0.9 0 0 0.9
    double contact_phase;            ///< share of swing or stance during which contact that is too
                                     ///< early or lost does not count. Default 0.1
} quad_gait_options;

typedef struct quad_swing_options {
    double gain;      ///< of the velocity error in the foothold (Raibert), s. Default 0.03
    double clearance; ///< footholds are this far above the desired ground, m. Default 0.01
    double apex;      ///< of the foot's path above the higher of its ends, m. Default 0.1
} quad_swing_options;

enum { QUAD_MPC_STEPS = 10 };

typedef struct quad_mpc_options {
    double timestep;          ///< of a step of the horizon, s. Default 0.025
    double state_weights[12]; ///< roll pitch yaw, x y z, angular velocity, velocity.
                              ///< Default 5 5 0.2, 0 0 10, 0 0 1, 1 1 0
    double force_weight;      ///< 1/N^2, positive. Default 1e-5
    double friction;          ///< of the pyramid. Default 0.45
    double least_force;       ///< normal force of a stance foot in m g. Default 0.1
    double most_force;        ///< the same. Default 10
    double gravity;           ///< m/s^2. Default 9.8
} quad_mpc_options;

/// Torques of stance legs from what the controller sees, in place of the MPC. Torques of swing legs
/// are not used.
/// @return false: the controller stands on equal vertical forces and says so
typedef bool quad_stance_policy(void* context, const double features[QUAD_FEATURES],
                                double torques[QUAD_JOINTS]);

typedef struct quad_controller_options {
    quad_gait_options gait;
    quad_swing_options swing;
    quad_mpc_options mpc;
    uint32_t window;    ///< updates over which the velocity is averaged, 1 to 100. Default 20
    double fall_angle;  ///< roll or pitch beyond which the robot has fallen, rad. Default 0.8
    double fall_height; ///< share of body_height below which it has. Default 0.4
    quad_stance_policy* policy; ///< NULL: MPC
    void* policy_context;
} quad_controller_options;

quad_controller_options quad_default_controller_options(void);

// ---- control ---------------------------------------------------------------------------------

typedef struct quad_controller quad_controller;

/// Wanted motion of the trunk, in its own heading.
typedef struct quad_command {
    double velocity[2]; ///< forward and to the left, m/s
    double yaw_rate;    ///< rad/s
} quad_command;

typedef enum quad_leg_phase {
    QUAD_LEG_STANCE,
    QUAD_LEG_SWING,
    QUAD_LEG_EARLY,
    QUAD_LEG_LOST
} quad_leg_phase;

/// How the forces were found.
typedef enum quad_stance_source {
    QUAD_STANCE_MPC,
    QUAD_STANCE_POLICY,
    QUAD_STANCE_SHARED, ///< the QP or the policy failed: weight shared by the stance feet
    QUAD_STANCE_NONE    ///< no foot stands, or the robot has fallen
} quad_stance_source;

typedef struct quad_controller_report {
    bool fallen;                 ///< all joints are only damped
    bool unreachable[QUAD_LEGS]; ///< swing target out of reach: the nearest pose was taken
    bool limited;                ///< a torque of a stance leg was cut to its limit
    quad_stance_source source;
    int qp_status;          ///< 0: solved; 1: inexact; 2: infeasible; 3: unbounded; 4: bad input
    double qp_residual;     ///< of the KKT conditions, relative
    uint32_t qp_iterations; ///< changes of the active set
    quad_leg_phase legs[QUAD_LEGS];
    bool stands[QUAD_LEGS];       ///< the foot was given a force
    double forces[QUAD_LEGS][3];  ///< of the ground on feet; x along the heading, z up, N
    double targets[QUAD_LEGS][3]; ///< of swing feet, in the trunk's frame, m
    double velocity[3];           ///< estimate, in the trunk's axes, m/s
    double height;                ///< of the trunk above the centres of stance toes, m
} quad_controller_report;

/// @param options    NULL for quad_default_controller_options()
/// @param allocator  NULL for ns_default_allocator()
/// @param out        free it with quad_controller_free()
/// @return NS_OK; NS_ERR_ARGUMENT naming the field that is wrong; NS_ERR_NOMEM
ns_status quad_controller_create(const quad_robot* robot, const quad_controller_options* options,
                                 const ns_allocator* allocator, quad_controller** out,
                                 ns_error* error);
void quad_controller_free(quad_controller* controller); ///< NULL is allowed

/// Forget the past: averages, feet's starts, active rows.
void quad_controller_reset(quad_controller* controller);

/// Decide: to be called once every control period (10 ms for Laikago, 5 ms for A1). Allocates nothing.
/// @param time    since the gait's start, s
/// @param report  receives what was decided; NULL is allowed
/// @return NS_OK, also when the robot has fallen; NS_ERR_NONFINITE naming the number of the state, or
///         of the command, NS_ERR_ARGUMENT for a quaternion of 0: joints are then only damped
ns_status quad_controller_update(quad_controller* controller, double time, const quad_state* state,
                                 const quad_command* command, quad_controller_report* report,
                                 ns_error* error);

/// Torques of the joints by the last decision: PD for swing legs, the decided torques for stance legs.
/// Finite and within limits whatever q and qd are. To be called every step of a simulator.
void quad_controller_torques(const quad_controller* controller, const double q[QUAD_JOINTS],
                             const double qd[QUAD_JOINTS], double torques[QUAD_JOINTS]);

/// What the policy was or would have been shown at the last update: velocity in the trunk's axes 3,
/// roll pitch 0 3, angular velocity 3, stance flags 4, toes in the trunk's frame 12, friction 4,
/// desired position 3, velocity 3, roll pitch yaw 3, angular velocity 3.
const double* quad_controller_features(const quad_controller* controller);

/// Torques of stance legs decided at the last update, 0 for the others (12).
const double* quad_controller_stance_torques(const quad_controller* controller);

#ifdef __cplusplus
}
#endif

#endif
