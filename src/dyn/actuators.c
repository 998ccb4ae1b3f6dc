// Actuators: controls to activations, activations to forces, forces to joints.
//
// An actuator acts along a transmission (transmission.c).

#include "dyn/transmission.h"

ns_expr nsi_actuator_control(const ns_model* model, const ns_expr* param, uint32_t number,
                             ns_expr u) {
    if (!model->actuators[number].def.control_limited) return u;
    return ns_clamp(u, nsi_actuator_param_of(model, param, number, NSI_ACTUATOR_CONTROL_LOWER),
                    nsi_actuator_param_of(model, param, number, NSI_ACTUATOR_CONTROL_UPPER));
}

// ---- activation ------------------------------------------------------------------------------

ns_expr nsi_activation_rate(const ns_model* model, const ns_expr* param, uint32_t number, ns_expr u,
                            ns_expr activation) {
    u = nsi_actuator_control(model, param, number, u);
    if (model->actuators[number].def.dynamics == NS_DYNAMICS_INTEGRATOR) return u;
    ns_expr tau = nsi_actuator_param_of(model, param, number, NSI_ACTUATOR_TIME_CONSTANT);
    if (model->actuators[number].def.dynamics == NS_DYNAMICS_MUSCLE) {
        // Rising is slower, and falling faster, the more of the muscle is active.
        ns_expr zero = ns_const(0.0), one = ns_const(1.0);
        ns_expr slow =
            ns_add(ns_const(0.5), ns_mul(ns_const(1.5), ns_clamp(activation, zero, one)));
        ns_expr fall = nsi_actuator_param_of(model, param, number, NSI_ACTUATOR_DEACTIVATION_TIME);
        u = ns_clamp(u, zero, one);
        tau = ns_select(ns_gt(u, activation), ns_mul(tau, slow), ns_div(fall, slow));
    }
    return ns_div(ns_sub(u, activation), tau);
}

ns_expr nsi_activation_after(const ns_model* model, const ns_expr* param, uint32_t number,
                             ns_expr start, ns_expr rate, double time) {
    ns_expr span = ns_const(time);
    if (model->actuators[number].def.dynamics == NS_DYNAMICS_FILTER_EXACT) {
        ns_expr tau = nsi_actuator_param_of(model, param, number, NSI_ACTUATOR_TIME_CONSTANT);
        span = ns_neg(ns_mul(tau, ns_expm1(ns_neg(ns_div(span, tau)))));
    }
    return ns_add(start, ns_mul(rate, span));
}

ns_expr nsi_activation_clamp(const ns_model* model, const ns_expr* param, uint32_t number,
                             ns_expr activation) {
    if (!model->actuators[number].def.activation_limited) return activation;
    return ns_clamp(activation,
                    nsi_actuator_param_of(model, param, number, NSI_ACTUATOR_ACTIVATION_LOWER),
                    nsi_actuator_param_of(model, param, number, NSI_ACTUATOR_ACTIVATION_UPPER));
}

// ---- forces ----------------------------------------------------------------------------------

// c[0] + c[1] length + c[2] velocity, without the terms that are not there.
static ns_expr affine(const nsi_robot* robot, const ns_expr* c, const nsi_transmission* t) {
    ns_expr sum = c[0];
    if (!nsi_robot_is_zero(robot, c[1])) sum = ns_add(sum, ns_mul(c[1], t->length));
    if (!nsi_robot_is_zero(robot, c[2])) sum = ns_add(sum, ns_mul(c[2], t->velocity));
    return sum;
}

// ---- muscles ---------------------------------------------------------------------------------
// The curves of MuJoCo's muscle, of normalised length and velocity; pieces of parabolas that join smoothly.

static ns_expr square_of(double scale, ns_expr x) {
    return ns_mul(ns_const(scale), ns_mul(x, x));
}

// (L - from) / (to - from)
static ns_expr share(ns_expr length, double from, double to) {
    return ns_mul(ns_const(1.0 / (to - from)), ns_sub(length, ns_const(from)));
}

// How strong it is at a length: 1 at the optimal one, 0 from lmin and lmax on.
static ns_expr active_length(const ns_muscle_def* m, ns_expr length) {
    double rise = 0.5 * (m->lmin + 1.0), fall = 0.5 * (1.0 + m->lmax);
    ns_expr zero = ns_const(0.0), one = ns_const(1.0);
    ns_expr up = square_of(0.5, share(length, m->lmin, rise));
    ns_expr top = ns_sub(one, square_of(0.5, share(length, 1.0, rise)));
    ns_expr past = ns_sub(one, square_of(0.5, share(length, 1.0, fall)));
    ns_expr down = square_of(0.5, share(length, m->lmax, fall));
    ns_expr f = ns_select(ns_le(length, ns_const(m->lmax)), down, zero);
    f = ns_select(ns_le(length, ns_const(fall)), past, f);
    f = ns_select(ns_le(length, one), top, f);
    f = ns_select(ns_le(length, ns_const(rise)), up, f);
    return ns_select(ns_ge(length, ns_const(m->lmin)), f, zero);
}

// How its velocity, positive when it is lengthened, changes that.
static ns_expr active_velocity(const ns_muscle_def* m, ns_expr velocity) {
    double more = m->fvmax - 1.0;
    ns_expr zero = ns_const(0.0), one = ns_const(1.0), most = ns_const(m->fvmax);
    ns_expr pulled = square_of(1.0 / more, ns_sub(ns_const(more), velocity));
    ns_expr f = ns_select(ns_le(velocity, ns_const(more)), ns_sub(most, pulled), most);
    f = ns_select(ns_le(velocity, zero), square_of(1.0, ns_add(velocity, one)), f);
    return ns_select(ns_gt(velocity, ns_neg(one)), f, zero);
}

// What it resists stretching with, active or not.
static ns_expr passive_length(const ns_muscle_def* m, ns_expr length) {
    double bend = 0.5 * (1.0 + m->lmax);
    ns_expr x = share(length, 1.0, bend), zero = ns_const(0.0);
    ns_expr straight = ns_sub(x, ns_const(0.5));
    ns_expr f = ns_select(ns_le(length, ns_const(bend)), square_of(0.5, x), straight);
    f = ns_mul(ns_const(m->fpmax), f);
    return ns_select(ns_gt(length, ns_const(1.0)), f, zero);
}

static ns_expr muscle_force(const ns_muscle_def* m, ns_expr peak, const nsi_transmission* t,
                            ns_expr s) {
    double optimal = (m->length_range[1] - m->length_range[0]) / (m->range[1] - m->range[0]);
    ns_expr length =
        ns_add(ns_const(m->range[0]),
               ns_mul(ns_const(1.0 / optimal), ns_sub(t->length, ns_const(m->length_range[0]))));
    ns_expr velocity = ns_mul(ns_const(1.0 / (optimal * m->vmax)), t->velocity);
    ns_expr active = ns_mul(s, ns_mul(active_length(m, length), active_velocity(m, velocity)));
    return ns_neg(ns_mul(peak, ns_add(active, passive_length(m, length))));
}

// ---- laws ------------------------------------------------------------------------------------

// The force of an actuator's law at the input s; of series-elastic ones that is the motor's angle.
static ns_expr actuator_law(const nsi_robot* robot, uint32_t number, const nsi_transmission* t,
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
    case NS_ACTUATOR_MUSCLE:
        return muscle_force(&a->def.muscle, p[a->slot[NSI_ACTUATOR_PEAK_FORCE]], t, s);
    }
    return s;
}

static ns_expr actuator_force(const nsi_robot* robot, uint32_t number, const nsi_transmission* t,
                              ns_expr u, ns_expr state, double dt) {
    const ns_model* model = robot->model;
    const ns_actuator_def* def = &model->actuators[number].def;
    bool has_dynamics = def->dynamics != NS_DYNAMICS_NONE;
    ns_expr s = has_dynamics ? state : nsi_actuator_control(model, robot->param, number, u);
    ns_expr f = actuator_law(robot, number, t, s, state, dt);
    if (def->force_limited) {
        f = ns_clamp(f,
                     nsi_actuator_param_of(model, robot->param, number, NSI_ACTUATOR_FORCE_LOWER),
                     nsi_actuator_param_of(model, robot->param, number, NSI_ACTUATOR_FORCE_UPPER));
    }
    return nsi_named(f, "", "actuator/%s/force", def->name);
}

// Keep what couples a velocity to others only where its drive yields: at the end of its range it does not.
static void uncouple(const nsi_robot* robot, uint32_t v, ns_expr yields, ns_expr* coupling) {
    uint32_t nv = robot->model->sizes.nv;
    ns_expr zero = ns_const(0.0);
    for (uint32_t k = 0; k < nv; k++) {
        ns_expr *row = &coupling[(size_t)v * nv + k], *column = &coupling[(size_t)k * nv + v];
        if (k == v) continue;
        *row = ns_select(yields, *row, zero);
        *column = ns_select(yields, *column, zero);
    }
}

void nsi_actuator_forces(const nsi_robot* robot, const ns_expr* u, const ns_expr* state, double dt,
                         ns_expr* drive, ns_expr** coupling) {
    const ns_model* model = robot->model;
    const nsi_link_pose* pose = nsi_transmission_poses(robot);
    for (uint32_t i = 0; i < model->sizes.nu; i++) {
        nsi_transmission t;
        if (!nsi_actuator_transmission(robot, pose, i, &t)) return;
        ns_expr f = actuator_force(robot, i, &t, u[i], state[i], dt);
        nsi_transmission_apply(robot, &t, f, drive);
        if (!coupling || !nsi_transmission_is_shared(robot, &t)) continue;
        nsi_transmission_couple(robot, &t, nsi_transmission_slope(robot, &t, f), coupling);
    }

    // What the drive train of a joint can take.
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        if (!l->def.drive_limited || l->nv != 1) continue;
        ns_expr *to = &drive[l->v], lower = ns_const(l->def.drive_lower),
                upper = ns_const(l->def.drive_upper);
        if (coupling && *coupling) {
            ns_expr yields = ns_and(ns_gt(*to, lower), ns_lt(*to, upper));
            uncouple(robot, l->v, yields, *coupling);
        }
        *to = ns_clamp(*to, lower, upper);
    }
}
