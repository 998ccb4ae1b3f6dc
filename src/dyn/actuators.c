// Actuators: controls to activations, activations to forces, forces to joints.
//
// An actuator acts along a transmission with a length x and a moment dx/dq, the force that each
// velocity of the model feels per unit of the actuator's force. Its velocity is moment . qd.

#include "dyn/robot.h"
#include "expr/trace.h"

#include <stdio.h>

static ns_expr actuator_param(const ns_model* model, const ns_expr* param, uint32_t number,
                              uint32_t which) {
    const nsi_actuator* a = &model->actuators[number];
    return param[a->param + a->slot[which]];
}

ns_expr nsi_actuator_control(const ns_model* model, const ns_expr* param, uint32_t number,
                             ns_expr u) {
    if (!model->actuators[number].def.control_limited) return u;
    return ns_clamp(u, actuator_param(model, param, number, NSI_ACTUATOR_CONTROL_LOWER),
                    actuator_param(model, param, number, NSI_ACTUATOR_CONTROL_UPPER));
}

// ---- activation ------------------------------------------------------------------------------

ns_expr nsi_activation_rate(const ns_model* model, const ns_expr* param, uint32_t number, ns_expr u,
                            ns_expr activation) {
    u = nsi_actuator_control(model, param, number, u);
    if (model->actuators[number].def.dynamics == NS_DYNAMICS_INTEGRATOR) return u;
    return ns_div(ns_sub(u, activation),
                  actuator_param(model, param, number, NSI_ACTUATOR_TIME_CONSTANT));
}

ns_expr nsi_activation_after(const ns_model* model, const ns_expr* param, uint32_t number,
                             ns_expr start, ns_expr rate, double time) {
    ns_expr span = ns_const(time);
    if (model->actuators[number].def.dynamics == NS_DYNAMICS_FILTER_EXACT) {
        ns_expr tau = actuator_param(model, param, number, NSI_ACTUATOR_TIME_CONSTANT);
        span = ns_neg(ns_mul(tau, ns_expm1(ns_neg(ns_div(span, tau)))));
    }
    return ns_add(start, ns_mul(rate, span));
}

ns_expr nsi_activation_clamp(const ns_model* model, const ns_expr* param, uint32_t number,
                             ns_expr activation) {
    if (!model->actuators[number].def.activation_limited) return activation;
    return ns_clamp(activation, actuator_param(model, param, number, NSI_ACTUATOR_ACTIVATION_LOWER),
                    actuator_param(model, param, number, NSI_ACTUATOR_ACTIVATION_UPPER));
}

// ---- transmission ----------------------------------------------------------------------------

typedef struct transmission {
    ns_expr length, velocity;
    ns_expr* moment; // (nv)
} transmission;

// The rotation vector of a quaternion, of the shorter way round: 2 atan(|v| / |w|) along v. A series
// near the identity, where that is 0/0.
static vec3 rotation_vector(quat q) {
    ns_expr square = ns_add(ns_add(ns_mul(q.x, q.x), ns_mul(q.y, q.y)), ns_mul(q.z, q.z));
    ns_expr is_small = ns_lt(square, ns_const(1e-6)), one = ns_const(1.0);
    ns_expr length = ns_sqrt(ns_select(is_small, one, square));
    ns_expr far = ns_div(ns_atan2(length, ns_abs(q.w)), length);
    ns_expr w = ns_select(is_small, ns_abs(q.w), one), x2 = ns_div(square, ns_mul(w, w));
    ns_expr series = ns_sub(ns_const(1.0 / 3.0), ns_mul(ns_const(0.2), x2));
    ns_expr near = ns_div(ns_sub(one, ns_mul(x2, series)), w);
    ns_expr scale = ns_mul(ns_const(2.0), ns_select(is_small, near, far));
    ns_expr sign = ns_select(ns_lt(q.w, ns_const(0.0)), ns_neg(scale), scale);
    return v3_scale(sign, v3(q.x, q.y, q.z));
}

static vec3 direction_part(const ns_actuator_def* def, uint32_t first) {
    const double* d = def->direction + first;
    return v3_const(d[0], d[1], d[2]);
}

// Along a joint of several velocities: a fixed direction in the link's frame, or in its parent's.
static void trace_ball_transmission(const nsi_robot* robot, const nsi_actuator* a, ns_expr gear,
                                    transmission* t) {
    const nsi_link* l = &robot->model->links[a->link];
    const ns_joint_info* info = &nsi_joint_get(l->def.joint_type)->info;
    const ns_expr* e = robot->q + l->q + info->quaternion;
    quat q = {e[0], e[1], e[2], e[3]};

    // The torque's direction, seen from the link.
    vec3 torque = direction_part(&a->def, info->nlinear);
    if (a->def.in_parent) torque = m3_apply_t(m3_from_quat(q), torque);
    ns_expr* moment = t->moment + l->v;
    for (uint32_t k = 0; k < 3; k++) moment[info->nlinear + k] = ns_mul(gear, torque.e[k]);
    if (info->nlinear == 0) {
        t->length = ns_mul(gear, v3_dot(torque, rotation_vector(q)));
        return;
    }
    vec3 along = direction_part(&a->def, 0);
    for (uint32_t k = 0; k < 3; k++) moment[k] = ns_mul(gear, along.e[k]);
}

static bool trace_transmission(const nsi_robot* robot, uint32_t number, transmission* t) {
    const ns_model* model = robot->model;
    const nsi_actuator* a = &model->actuators[number];
    const nsi_link* l = &model->links[a->link];
    ns_expr gear = actuator_param(model, robot->param, number, NSI_ACTUATOR_GEAR);
    t->moment = nsi_robot_zeros(robot, model->sizes.nv);
    t->length = ns_const(0.0);
    if (!t->moment) return false;

    if (nsi_joint_get(l->def.joint_type)->info.has_axis) {
        t->length = ns_mul(gear, robot->q[l->q]);
        t->velocity = ns_mul(gear, robot->qd[l->v]);
        t->moment[l->v] = gear;
        return true;
    }
    trace_ball_transmission(robot, a, gear, t);
    t->velocity = ns_const(0.0);
    for (uint32_t k = 0; k < model->sizes.nv; k++) {
        if (nsi_robot_is_zero(robot, t->moment[k])) continue;
        t->velocity = ns_add(t->velocity, ns_mul(t->moment[k], robot->qd[k]));
    }
    return true;
}

// ---- forces ----------------------------------------------------------------------------------

// c[0] + c[1] length + c[2] velocity, without the terms that are not there.
static ns_expr affine(const nsi_robot* robot, const ns_expr* c, const transmission* t) {
    ns_expr sum = c[0];
    if (!nsi_robot_is_zero(robot, c[1])) sum = ns_add(sum, ns_mul(c[1], t->length));
    if (!nsi_robot_is_zero(robot, c[2])) sum = ns_add(sum, ns_mul(c[2], t->velocity));
    return sum;
}

// The force of an actuator's law at the input s; of series-elastic ones that is the motor's angle.
static ns_expr actuator_law(const nsi_robot* robot, uint32_t number, const transmission* t,
                            ns_expr s, ns_expr motor, double dt) {
    const nsi_actuator* a = &robot->model->actuators[number];
    const ns_expr* p = robot->param + a->param;
    ns_expr kp = p[NSI_ACTUATOR_KP], kd = p[NSI_ACTUATOR_KD];
    switch (a->def.type) {
    case NS_ACTUATOR_TORQUE: break;
    case NS_ACTUATOR_POSITION:
        return ns_sub(ns_mul(kp, ns_sub(s, t->length)), ns_mul(kd, t->velocity));
    case NS_ACTUATOR_VELOCITY: return ns_mul(kd, ns_sub(s, t->velocity));
    case NS_ACTUATOR_SERIES_ELASTIC: {
        ns_expr rate = ns_mul(ns_sub(s, motor), ns_const(1.0 / dt));
        return ns_add(ns_mul(kp, ns_sub(s, t->length)), ns_mul(kd, ns_sub(rate, t->velocity)));
    }
    case NS_ACTUATOR_GENERAL: {
        const ns_expr *gain = p + a->slot[NSI_ACTUATOR_GAIN],
                      *bias = p + a->slot[NSI_ACTUATOR_BIAS];
        return ns_add(ns_mul(affine(robot, gain, t), s), affine(robot, bias, t));
    }
    }
    return s;
}

static ns_expr actuator_force(const nsi_robot* robot, uint32_t number, const transmission* t,
                              ns_expr u, ns_expr state, double dt) {
    const ns_model* model = robot->model;
    const ns_actuator_def* def = &model->actuators[number].def;
    bool has_dynamics = def->dynamics != NS_DYNAMICS_NONE;
    ns_expr s = has_dynamics ? state : nsi_actuator_control(model, robot->param, number, u);
    ns_expr f = actuator_law(robot, number, t, s, state, dt);
    if (def->force_limited) {
        f = ns_clamp(f, actuator_param(model, robot->param, number, NSI_ACTUATOR_FORCE_LOWER),
                     actuator_param(model, robot->param, number, NSI_ACTUATOR_FORCE_UPPER));
    }
    return nsi_named(f, "", "actuator/%s/force", def->name);
}

// A force along several velocities that damps couples them: -df/dv moment moment', off the diagonal,
// which the caller finds otherwise.
static void couple(const nsi_robot* robot, const transmission* t, ns_expr f, ns_expr** coupling) {
    uint32_t nv = robot->model->sizes.nv, count = 0;
    for (uint32_t k = 0; k < nv; k++) count += !nsi_robot_is_zero(robot, t->moment[k]);
    if (count < 2) return;
    ns_expr slope;
    ns_gradient(f, 1, &t->velocity, &slope);
    if (nsi_robot_is_zero(robot, slope)) return;
    if (!*coupling) *coupling = nsi_robot_zeros(robot, (size_t)nv * nv);
    if (!*coupling) return;
    for (uint32_t i = 0; i < nv; i++) {
        for (uint32_t j = 0; j < nv; j++) {
            ns_expr* to = &(*coupling)[i * nv + j];
            if (i == j || nsi_robot_is_zero(robot, t->moment[i])) continue;
            if (nsi_robot_is_zero(robot, t->moment[j])) continue;
            *to = ns_sub(*to, ns_mul(slope, ns_mul(t->moment[i], t->moment[j])));
        }
    }
}

void nsi_actuator_forces(const nsi_robot* robot, const ns_expr* u, const ns_expr* state, double dt,
                         ns_expr* drive, ns_expr** coupling) {
    const ns_model* model = robot->model;
    for (uint32_t i = 0; i < model->sizes.nu; i++) {
        transmission t;
        if (!trace_transmission(robot, i, &t)) return;
        ns_expr f = actuator_force(robot, i, &t, u[i], state[i], dt);
        for (uint32_t k = 0; k < model->sizes.nv; k++) {
            if (nsi_robot_is_zero(robot, t.moment[k])) continue;
            drive[k] = ns_add(drive[k], ns_mul(t.moment[k], f));
        }
        if (coupling) couple(robot, &t, f, coupling);
    }

    // What the drive train of a joint can take.
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        if (!l->def.drive_limited || l->nv != 1) continue;
        ns_expr* to = &drive[l->v];
        *to = ns_clamp(*to, ns_const(l->def.drive_lower), ns_const(l->def.drive_upper));
    }
}
