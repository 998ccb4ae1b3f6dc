// The controller: where the robot is, which legs swing, where these go, and what the others push with.
//
// Frames: the trunk's; and the level one, at the trunk's origin with its heading as x and z up. The
// trunk's origin counts as its centre of mass. The ground pushes at the lowest point of a toe, which
// is a sphere.

#include "quadruped/control.h"

#include "quadruped/estimate.h"
#include "quadruped/gait.h"
#include "quadruped/leg.h"
#include "quadruped/mpc.h"
#include "quadruped/support.h"
#include "quadruped/swing.h"

#include <math.h>

#define PRESS 0.02 // m, how far below the ground a foot is sent that lost it

struct quad_controller {
    ns_allocator allocator;
    quad_robot robot;
    quad_controller_options options;
    quad_mpc* mpc;
    quad_average velocity;
    bool swung[QUAD_LEGS];         // at the last update, by the clock
    double lift_off[QUAD_LEGS][3]; // where the toe was when its swing began, level
    double features[QUAD_FEATURES];

    // The last decision
    bool damped;
    bool stands[QUAD_LEGS];
    double stance[QUAD_JOINTS]; // torques of stance legs
    double angles[QUAD_JOINTS]; // that swing legs are sent to
};

// What an update knows of the robot.
typedef struct situation {
    double rpy[3];
    double level[9]; // from the trunk's axes to the level frame
    double velocity[3], level_velocity[3], level_angular[3];
    double toes[QUAD_LEGS][3], level_toes[QUAD_LEGS][3];
    double height; // above stance toes
    quad_gait_leg gait[QUAD_LEGS];
} situation;

// ---- options -------------------------------------------------------------------------------

// A number that must be in a range.
typedef struct range {
    const char* name;
    double value, least, most;
} range;

static ns_status check_controller(const quad_robot* robot, const quad_controller_options* o,
                                  ns_error* error) {
    const double tiny = 1e-9, huge = 1e9;

    // Ranges of scalar options and of the robot.
    const range ranges[] = {
        {"gait.stance_duration", o->gait.stance_duration, 1e-3, 100.0},
        {"gait.duty_factor", o->gait.duty_factor, 0.01, 0.99},
        {"gait.contact_phase", o->gait.contact_phase, 0.0, 1.0},
        {"swing.gain", o->swing.gain, 0.0, huge},
        {"swing.clearance", o->swing.clearance, -huge, huge},
        {"swing.apex", o->swing.apex, 0.0, huge},
        {"mpc.timestep", o->mpc.timestep, 1e-6, 10.0},
        {"mpc.force_weight", o->mpc.force_weight, 1e-12, huge},
        {"mpc.friction", o->mpc.friction, 0.0, huge},
        {"mpc.least_force", o->mpc.least_force, 0.0, o->mpc.most_force},
        {"mpc.most_force", o->mpc.most_force, 0.0, huge},
        {"mpc.gravity", o->mpc.gravity, tiny, huge},
        {"window", o->window, 1.0, QUAD_MAX_WINDOW},
        {"fall_angle", o->fall_angle, 0.0, 1.5}, // upright angles have no sense at pi/2
        {"fall_height", o->fall_height, 0.0, 1.0},
        {"mass", robot->mass, tiny, huge},
        {"inertia[0]", robot->inertia[0], tiny, huge},
        {"inertia[1]", robot->inertia[1], tiny, huge},
        {"inertia[2]", robot->inertia[2], tiny, huge},
        {"body_height", robot->body_height, tiny, huge},
        {"toe_radius", robot->toe_radius, 0.0, huge},
    };
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
        // A negated comparison also rejects NaN.
        const range* r = &ranges[k];
        if (!(r->value >= r->least && r->value <= r->most)) {
            // Name the offending field.
            return quad_fail(error, NS_ERR_ARGUMENT, "%s is %g; it must be from %g to %g", r->name,
                             r->value, r->least, r->most);
        }
    }

    // Weights of the cost are not negative: the QP must stay convex.
    for (int k = 0; k < 12; k++) {
        if (!(o->mpc.state_weights[k] >= 0.0 && o->mpc.state_weights[k] <= huge)) {
            return quad_fail(error, NS_ERR_ARGUMENT,
                             "mpc.state_weights[%d] is %g; it must be from 0 to %g", k,
                             o->mpc.state_weights[k], huge);
        }
    }

    // Torque limits and gains of the joints.
    for (int k = 0; k < QUAD_LEG_JOINTS; k++) {
        if (!(robot->torque[k] >= 0.0 && robot->kp[k] >= 0.0 && robot->kd[k] >= 0.0)) {
            return quad_fail(
                error, NS_ERR_ARGUMENT,
                "torque[%d], kp[%d] or kd[%d] of the robot is negative or not a number", k, k, k);
        }
    }
    return NS_OK;
}

ns_status quad_controller_create(const quad_robot* robot, const quad_controller_options* options,
                                 const ns_allocator* allocator, quad_controller** out,
                                 ns_error* error) {
    *out = NULL;
    quad_controller_options chosen = options ? *options : quad_default_controller_options();
    ns_status status = check_controller(robot, &chosen, error);
    if (status != NS_OK) return status;
    quad_controller* c = quad_alloc_zeroed(allocator, sizeof *c);
    if (!c) return quad_fail_nomem(error);
    c->allocator = allocator ? *allocator : ns_default_allocator();
    c->robot = *robot;
    c->options = chosen;
    status = quad_mpc_create(robot->mass, robot->inertia, &chosen.mpc, allocator, &c->mpc, error);
    if (status != NS_OK) {
        quad_controller_free(c);
        return status;
    }
    quad_controller_reset(c);
    *out = c;
    return NS_OK;
}

void quad_controller_free(quad_controller* controller) {
    if (!controller) return;
    ns_allocator memory = controller->allocator;
    quad_mpc_free(controller->mpc);
    quad_free(&memory, controller);
}

void quad_controller_reset(quad_controller* controller) {
    controller->velocity = (quad_average){.window = controller->options.window};
    memset(controller->swung, 0, sizeof controller->swung);
    memset(controller->stands, 0, sizeof controller->stands);
    memset(controller->stance, 0, sizeof controller->stance);
    memset(controller->features, 0, sizeof controller->features);
    controller->damped = true; // nothing was decided yet
    quad_mpc_reset(controller->mpc);
}

// ---- where the robot is --------------------------------------------------------------------

static void multiply(const double A[9], const double v[3], double out[3]) {
    for (int i = 0; i < 3; i++) {
        out[i] = A[3 * i] * v[0] + A[3 * i + 1] * v[1] + A[3 * i + 2] * v[2];
    }
}

static void multiply_transposed(const double A[9], const double v[3], double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = A[i] * v[0] + A[3 + i] * v[1] + A[6 + i] * v[2];
}

static ns_status check_state(const quad_state* s, const quad_command* command, double time,
                             ns_error* error) {
    // Everything that a sensor or an operator sends.
    const struct {
        const char* name;
        const double* numbers;
        int count;
    } parts[] = {{"time", &time, 1},
                 {"state.quaternion", s->quaternion, 4},
                 {"state.velocity", s->velocity, 3},
                 {"state.angular_velocity", s->angular_velocity, 3},
                 {"state.q", s->q, QUAD_JOINTS},
                 {"state.qd", s->qd, QUAD_JOINTS},
                 {"command.velocity", command->velocity, 2},
                 {"command.yaw_rate", &command->yaw_rate, 1}};

    // A NaN would spread into every torque.
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        for (int k = 0; k < parts[p].count; k++) {
            if (isfinite(parts[p].numbers[k])) continue;
            // The caller keeps the damping of the joints.
            return quad_fail(error, NS_ERR_NONFINITE,
                             "%s[%d] is not finite; the joints are only damped", parts[p].name, k);
        }
    }

    // The quaternion must be an orientation.
    double quaternion[4];
    memcpy(quaternion, s->quaternion, sizeof quaternion);
    // Scaled quaternions are accepted.
    if (!quad_normalize(quaternion)) {
        return quad_fail(
            error, NS_ERR_ARGUMENT,
            "state.quaternion is 0, which is no orientation; the joints are only damped");
    }
    return NS_OK;
}

static void look(quad_controller* c, double time, const quad_state* state, situation* s) {
    // Orientation as roll, pitch and yaw.
    double quaternion[4], R[9], velocity[3];
    memcpy(quaternion, state->quaternion, sizeof quaternion);
    quad_normalize(quaternion);
    quad_to_matrix(quaternion, R);
    s->rpy[0] = atan2(R[7], R[8]);
    s->rpy[1] = atan2(-R[6], hypot(R[7], R[8]));
    s->rpy[2] = atan2(R[3], R[0]);

    // The level frame: heading of the trunk, z up.
    double cy = cos(s->rpy[2]), sy = sin(s->rpy[2]);
    for (int j = 0; j < 3; j++) {
        s->level[j] = cy * R[j] + sy * R[3 + j];
        s->level[3 + j] = cy * R[3 + j] - sy * R[j];
        s->level[6 + j] = R[6 + j];
    }

    // Velocities in the trunk's frame, averaged, and in the level frame.
    multiply_transposed(R, state->velocity, velocity);
    quad_average_add(&c->velocity, velocity, s->velocity);
    multiply(s->level, s->velocity, s->level_velocity);
    multiply(s->level, state->angular_velocity, s->level_angular);

    // Which legs stand, and where all toes are.
    // Sensed contacts let legs touch down early.
    quad_gait_at(&c->options.gait, time, state->contact_known ? state->contact : NULL, s->gait);
    double sum = 0.0;
    int count = 0;
    for (int k = 0; k < QUAD_LEGS; k++) {
        quad_leg_toe(&c->robot.legs[k], state->q + 3 * k, s->toes[k]);
        multiply(s->level, s->toes[k], s->level_toes[k]);
        c->stands[k] = s->gait[k].state == QUAD_LEG_STANCE || s->gait[k].state == QUAD_LEG_EARLY;
        if (!c->stands[k]) continue;
        sum -= s->level_toes[k][2];
        count++;
    }

    // The trunk's height above the feet that stand.
    s->height = count > 0 ? sum / count : c->robot.body_height;
}

// Upended, or all toes about as high as the trunk.
static bool has_fallen(const quad_controller* c, const situation* s) {
    double drop = 0.0;
    for (int k = 0; k < QUAD_LEGS; k++) drop = fmax(drop, -s->level_toes[k][2]);
    return !(fabs(s->rpy[0]) <= c->options.fall_angle && fabs(s->rpy[1]) <= c->options.fall_angle &&
             drop >= c->options.fall_height * c->robot.body_height);
}

static void put_features(quad_controller* c, const quad_state* state, const quad_command* command,
                         const situation* s) {
    double* f = c->features;
    for (int i = 0; i < 3; i++) {
        f[i] = s->velocity[i];
        f[3 + i] = i < 2 ? s->rpy[i] : 0.0;
        f[6 + i] = state->angular_velocity[i];
        f[29 + i] = i < 2 ? 0.0 : c->robot.body_height;
        f[32 + i] = i < 2 ? command->velocity[i] : 0.0;
        f[35 + i] = 0.0;
        f[38 + i] = i < 2 ? 0.0 : command->yaw_rate;
    }
    for (int k = 0; k < QUAD_LEGS; k++) {
        f[9 + k] = c->stands[k] ? 1.0 : 0.0;
        memcpy(f + 13 + 3 * k, s->toes[k], sizeof s->toes[k]);
        f[25 + k] = c->options.mpc.friction;
    }
}

// ---- legs ----------------------------------------------------------------------------------

// Where a leg that does not stand goes.
static void swing_leg(quad_controller* c, int k, const quad_command* command, const situation* s,
                      quad_controller_report* report) {
    const quad_gait_leg* leg = &s->gait[k];
    const quad_robot* robot = &c->robot;
    double end[3], at[3], missed;
    quad_swing_target(&c->options.swing, c->options.gait.stance_duration, robot->foothold[k],
                      s->level_velocity, s->level_angular[2], command, robot->body_height, end);
    if (leg->state == QUAD_LEG_LOST) { // down to the ground, from where it is
        memcpy(at, s->level_toes[k], sizeof at);
        at[2] = -s->height - PRESS;
    } else {
        quad_swing_path(&c->options.swing, leg->phase, c->lift_off[k], end, at);
    }
    multiply_transposed(s->level, at, report->targets[k]);
    report->unreachable[k] =
        !quad_leg_angles(&robot->legs[k], report->targets[k], c->angles + 3 * k, &missed);
}

static double controller_clamp(double x, double most) {
    if (!isfinite(x)) return 0.0;
    return x > most ? most : x < -most ? -most : x;
}

// Torques of a stance leg under whose toe the ground pushes with the force: what keeps the leg still
// is -J' f.
static void push_leg(quad_controller* c, int k, const double* q, const situation* s,
                     const double force[3]) {
    const double down[3] = {0.0, 0.0, -c->robot.toe_radius};
    double offset[3], f[3], J[9];
    multiply_transposed(s->level, down, offset);
    multiply_transposed(s->level, force, f);
    quad_leg_jacobian(&c->robot.legs[k], q + 3 * k, offset, J);
    for (int j = 0; j < 3; j++) {
        c->stance[3 * k + j] = -(J[j] * f[0] + J[3 + j] * f[1] + J[6 + j] * f[2]);
    }
}

// @return false: there are no usable forces
static bool plan_forces(quad_controller* c, const quad_command* command, const situation* s,
                        quad_controller_report* report) {
    quad_mpc_input in = {.rpy = {s->rpy[0], s->rpy[1]},
                         .height = s->height,
                         .wanted_height = c->robot.body_height,
                         .wanted_velocity = {command->velocity[0], command->velocity[1]},
                         .wanted_yaw_rate = command->yaw_rate};
    memcpy(in.angular_velocity, s->level_angular, sizeof in.angular_velocity);
    memcpy(in.velocity, s->level_velocity, sizeof in.velocity);
    memcpy(in.stands, c->stands, sizeof in.stands);
    memcpy(in.feet, s->level_toes, sizeof in.feet);
    for (int k = 0; k < QUAD_LEGS; k++) in.feet[k][2] -= c->robot.toe_radius;
    quad_qp_report qp;
    bool usable = quad_mpc_solve(c->mpc, &in, report->forces, &qp);
    report->qp_status = (int)qp.status;
    report->qp_residual = qp.residual;
    report->qp_iterations = qp.iterations;
    return usable;
}

static int count_stands(const quad_controller* c) {
    int count = 0;
    for (int k = 0; k < QUAD_LEGS; k++) count += c->stands[k];
    return count;
}

// An equal share of the weight for each foot that stands.
static void share_weight(quad_controller* c, quad_controller_report* report) {
    const double weight = c->robot.mass * c->options.mpc.gravity / count_stands(c);
    report->source = QUAD_STANCE_SHARED;
    memset(report->forces, 0, sizeof report->forces);
    for (int k = 0; k < QUAD_LEGS; k++) report->forces[k][2] = c->stands[k] ? weight : 0.0;
}

static bool all_finite(const double* numbers, int count) {
    for (int k = 0; k < count; k++) {
        if (!isfinite(numbers[k])) return false;
    }
    return true;
}

static void stance_legs(quad_controller* c, const quad_state* state, const quad_command* command,
                        const situation* s, quad_controller_report* report) {
    memset(c->stance, 0, sizeof c->stance);
    report->source = QUAD_STANCE_NONE;
    if (count_stands(c) == 0) return;

    bool given = false;
    if (c->options.policy) {
        report->source = QUAD_STANCE_POLICY;
        given = c->options.policy(c->options.policy_context, c->features, c->stance) &&
                all_finite(c->stance, QUAD_JOINTS);
        if (!given) share_weight(c, report);
    } else {
        report->source = QUAD_STANCE_MPC;
        bool usable = plan_forces(c, command, s, report);
        if (!usable || !all_finite(&report->forces[0][0], 3 * QUAD_LEGS)) share_weight(c, report);
    }
    for (int k = 0; k < QUAD_LEGS; k++) {
        if (c->stands[k] && !given) push_leg(c, k, state->q, s, report->forces[k]);
        for (int j = 3 * k; j < 3 * k + 3; j++) {
            double wanted = c->stands[k] ? c->stance[j] : 0.0;
            c->stance[j] = controller_clamp(wanted, c->robot.torque[j - 3 * k]);
            if (c->stance[j] != wanted) report->limited = true;
        }
    }
}

// ---- control -------------------------------------------------------------------------------

ns_status quad_controller_update(quad_controller* c, double time, const quad_state* state,
                                 const quad_command* command, quad_controller_report* report,
                                 ns_error* error) {
    // Until a decision is made, the joints are only damped.
    quad_controller_report own;
    if (!report) report = &own;
    *report = (quad_controller_report){.source = QUAD_STANCE_NONE};
    c->damped = true;
    ns_status status = check_state(state, command, time, error);

    if (status != NS_OK) return status;

    // What is measured now.
    situation s;
    look(c, time, state, &s);
    memcpy(report->velocity, s.velocity, sizeof report->velocity);
    report->height = s.height;

    // A leg that starts to swing remembers where it left the ground.
    for (int k = 0; k < QUAD_LEGS; k++) {
        report->legs[k] = s.gait[k].state;
        report->stands[k] = c->stands[k];
        bool starts = s.gait[k].swings && !c->swung[k];
        if (starts) memcpy(c->lift_off[k], s.level_toes[k], sizeof c->lift_off[k]);
        c->swung[k] = s.gait[k].swings;
    }

    // A robot that has fallen gets no torque from stance legs.
    put_features(c, state, command, &s);
    report->fallen = has_fallen(c, &s);
    if (report->fallen) {
        memset(c->stance, 0, sizeof c->stance);
        return NS_OK;
    }

    // Place the swing feet.
    c->damped = false;
    for (int k = 0; k < QUAD_LEGS; k++) {
        if (!c->stands[k]) swing_leg(c, k, command, &s, report);
    }

    // Then optimise the forces of the stance feet.
    stance_legs(c, state, command, &s, report);
    return NS_OK;
}

void quad_controller_torques(const quad_controller* c, const double q[QUAD_JOINTS],
                             const double qd[QUAD_JOINTS], double torques[QUAD_JOINTS]) {
    for (int k = 0; k < QUAD_JOINTS; k++) {
        const int joint = k % QUAD_LEG_JOINTS;
        double torque = -c->robot.kd[joint] * qd[k];
        if (!c->damped && c->stands[k / QUAD_LEG_JOINTS]) {
            torque = c->stance[k];
        } else if (!c->damped) {
            torque += c->robot.kp[joint] * (c->angles[k] - q[k]);
        }
        torques[k] = controller_clamp(torque, c->robot.torque[joint]);
    }
}

const double* quad_controller_features(const quad_controller* controller) {
    return controller->features;
}

const double* quad_controller_stance_torques(const quad_controller* controller) {
    return controller->stance;
}
