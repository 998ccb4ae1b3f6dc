// Forces of joints: spring, damper, Coulomb friction, soft limits, actuators. Each is a named
// quantity.

#include "dyn/robot.h"
#include "expr/trace.h"

#include <stdarg.h>
#include <stdio.h>

ns_expr nsi_named(ns_expr x, const char* unit, const char* format, ...) {
    char name[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    return nsi_trace_quantity(name, unit, x);
}

ns_expr nsi_named_force(ns_expr x, const nsi_link* l, uint32_t k, const char* what) {
    char index[16] = "", velocity[NSI_MODEL_MAX_NAME + 64];
    if (l->nv > 1) snprintf(index, sizeof index, "/%u", k);
    snprintf(velocity, sizeof velocity, "joint/%s/velocity%s", l->def.joint, index);
    x = nsi_named(x, nsi_joint_force_unit(l, k), "joint/%s/%s%s", l->def.joint, what, index);
    nsi_trace_conjugate(velocity);
    return x;
}

ns_expr nsi_observed(ns_expr x, const char* unit, const char* format, ...) {
    char name[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    return nsi_trace_observe(name, unit, x);
}

// Beyond a limit: a spring and damper that only push back.
static ns_expr limit_force(const nsi_robot* robot, uint32_t link, ns_expr q, ns_expr qd) {
    ns_expr zero = ns_const(0.0);
    if (!robot->model->links[link].def.limited) return zero;
    ns_expr k = nsi_robot_param(robot, link, NSI_JOINT_LIMIT_STIFFNESS);
    ns_expr d = nsi_robot_param(robot, link, NSI_JOINT_LIMIT_DAMPING);
    ns_expr below = ns_sub(nsi_robot_param(robot, link, NSI_JOINT_LOWER), q);
    ns_expr above = ns_sub(q, nsi_robot_param(robot, link, NSI_JOINT_UPPER));
    ns_expr damping = ns_mul(d, qd);
    ns_expr up = ns_max(ns_sub(ns_mul(k, below), damping), zero);
    ns_expr down = ns_max(ns_add(ns_mul(k, above), damping), zero);
    return ns_sub(ns_select(ns_gt(below, zero), up, zero),
                  ns_select(ns_gt(above, zero), down, zero));
}

// Passive force of velocity k of a joint.
static ns_expr passive_force(const nsi_robot* robot, uint32_t link, uint32_t k, ns_expr q,
                             ns_expr qd) {
    const nsi_link* l = &robot->model->links[link];
    ns_expr damping = nsi_robot_param(robot, link, NSI_JOINT_DAMPING);
    ns_expr friction = nsi_robot_param(robot, link, NSI_JOINT_FRICTION);
    ns_expr velocity = nsi_robot_param(robot, link, NSI_JOINT_FRICTION_VELOCITY);

    // Names below "force", since joint/<j>/damping and friction are those of parameters.
    ns_expr total = nsi_named_force(ns_neg(ns_mul(damping, qd)), l, k, "force/damping");
    ns_expr slip = ns_tanh(ns_div(qd, velocity));
    ns_expr rubbing = ns_neg(ns_mul(friction, slip));
    total = ns_add(total, nsi_named_force(rubbing, l, k, "force/friction"));
    if (nsi_joint_get(l->def.joint_type)->info.has_axis) {
        ns_expr stretch = ns_sub(q, nsi_robot_param(robot, link, NSI_JOINT_REST));
        ns_expr spring = ns_neg(ns_mul(nsi_robot_param(robot, link, NSI_JOINT_STIFFNESS), stretch));
        ns_expr limit = limit_force(robot, link, q, qd);
        total = ns_add(total, nsi_named_force(spring, l, k, "force/spring"));
        total = ns_add(total, nsi_named_force(limit, l, k, "force/limit"));
    }
    return total;
}

ns_expr nsi_actuator_control(const ns_model* model, uint32_t number, ns_expr u) {
    const ns_actuator_def* a = &model->actuators[number].def;
    if (!a->control_limited) return u;
    return ns_clamp(u, ns_const(a->control_lower), ns_const(a->control_upper));
}

// Joint force of an actuator at coordinate q, velocity qd.
static ns_expr actuator_force(const nsi_robot* robot, uint32_t number, ns_expr u, ns_expr motor,
                              double dt) {
    const nsi_actuator* a = &robot->model->actuators[number];
    const nsi_link* l = &robot->model->links[a->link];
    const ns_expr* p = robot->param + a->param;
    ns_expr gear = p[NSI_ACTUATOR_GEAR], kp = p[NSI_ACTUATOR_KP], kd = p[NSI_ACTUATOR_KD];
    ns_expr q = ns_mul(gear, robot->q[l->q]), qd = ns_mul(gear, robot->qd[l->v]);
    u = nsi_actuator_control(robot->model, number, u);
    ns_expr f = u;
    switch (a->def.type) {
    case NS_ACTUATOR_TORQUE: break;
    case NS_ACTUATOR_POSITION: f = ns_sub(ns_mul(kp, ns_sub(u, q)), ns_mul(kd, qd)); break;
    case NS_ACTUATOR_VELOCITY: f = ns_mul(kd, ns_sub(u, qd)); break;
    case NS_ACTUATOR_SERIES_ELASTIC: {
        ns_expr rate = ns_mul(ns_sub(u, motor), ns_const(1.0 / dt));
        f = ns_add(ns_mul(kp, ns_sub(u, q)), ns_mul(kd, ns_sub(rate, qd)));
        break;
    }
    }
    if (a->def.force_limited) {
        f = ns_clamp(f, ns_const(a->def.force_lower), ns_const(a->def.force_upper));
    }
    f = nsi_named(f, "", "actuator/%s/force", a->def.name);
    return ns_mul(gear, f);
}

void nsi_joint_forces(const nsi_robot* robot, const ns_expr* u, const ns_expr* motor, double dt,
                      ns_expr* tau, ns_expr* slope) {
    const ns_model* model = robot->model;
    uint32_t nv = model->sizes.nv;
    ns_expr* added = nsi_robot_alloc(robot, nv, sizeof *added);
    if (!added) return;
    for (uint32_t k = 0; k < nv; k++) added[k] = ns_const(0.0);

    // Springs, dampers, friction and limits.
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        if (l->mimic != NSI_NONE) { // acts on the joint it follows
            ns_expr m = robot->body[i].ratio, qd = robot->body[i].rate[0];
            ns_expr q = nsi_joint_coordinate(model, i, robot->q);
            added[l->v] = ns_add(added[l->v], ns_mul(m, passive_force(robot, i, 0, q, qd)));
        }
        for (uint32_t k = 0; k < l->nv; k++) {
            ns_expr q = l->nq == l->nv ? robot->q[l->q + k] : ns_const(0.0);
            ns_expr f = passive_force(robot, i, k, q, robot->qd[l->v + k]);
            added[l->v + k] = ns_add(added[l->v + k], f);
        }
    }

    // Actuators.
    for (uint32_t i = 0; i < model->sizes.nu; i++) {
        uint32_t v = model->links[model->actuators[i].link].v;
        added[v] = ns_add(added[v], actuator_force(robot, i, u[i], motor[i], dt));
    }

    // How the sum resists the velocity, for the implicit integrator; then the total.
    for (uint32_t k = 0; k < nv; k++) {
        if (slope) {
            ns_gradient(added[k], 1, &robot->qd[k], &slope[k]);
            slope[k] = ns_neg(slope[k]);
        }
        tau[k] = ns_add(tau[k], added[k]);
    }

    // Named last: what a network adds here is not part of the slope.
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        for (uint32_t k = 0; k < l->nv; k++) {
            ns_expr* t = &tau[l->v + k];
            *t = nsi_named_force(*t, l, k, "tau");
        }
    }
}
