// Forces of joints: spring, damper, Coulomb friction, soft limits, and those of actuators
// (actuators.c). Each is a named quantity.

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
ns_expr nsi_limit_force(ns_expr q, ns_expr qd, const ns_expr range[2], const ns_expr gains[2]) {
    ns_expr zero = ns_const(0.0), k = gains[0];
    ns_expr below = ns_sub(range[0], q), above = ns_sub(q, range[1]);
    ns_expr damping = ns_mul(gains[1], qd);
    ns_expr up = ns_max(ns_sub(ns_mul(k, below), damping), zero);
    ns_expr down = ns_max(ns_add(ns_mul(k, above), damping), zero);
    return ns_sub(ns_select(ns_gt(below, zero), up, zero),
                  ns_select(ns_gt(above, zero), down, zero));
}

static ns_expr joint_limit_force(const nsi_robot* robot, uint32_t link, ns_expr q, ns_expr qd) {
    const nsi_link* l = &robot->model->links[link];
    if (!l->def.limited) return ns_const(0.0);
    const ns_expr* p = robot->param + l->param;
    return nsi_limit_force(q, qd, p + NSI_JOINT_LOWER, p + NSI_JOINT_LIMIT_STIFFNESS);
}

// How friction f resists the velocity over a step. Its derivative is not enough: it vanishes beyond
// friction_velocity, where a step that friction ends would overshoot, and tremble for ever. The secant
// -f / qd is the larger one and cannot reverse the velocity, whatever inertia the joint moves.
ns_expr nsi_friction_slope(const nsi_robot* robot, ns_expr f, ns_expr friction, ns_expr qd,
                           ns_expr velocity) {
    if (nsi_robot_is_zero(robot, f)) return ns_const(0.0);
    ns_expr small = ns_const(1e-4); // the two differ by 1e-8 of themselves there
    ns_expr tangent = ns_neg(ns_div(friction, velocity));
    ns_expr near = ns_mul(small, velocity);
    ns_expr slides = ns_gt(ns_abs(qd), near);
    ns_expr secant = ns_div(f, ns_select(slides, qd, ns_const(1.0)));
    return ns_neg(ns_select(slides, secant, tangent));
}

// How a limit resists the velocity: its damping, and what its stiffness gains during the step.
ns_expr nsi_limit_slope(const nsi_robot* robot, ns_expr f, const ns_expr gains[2], double dt) {
    ns_expr zero = ns_const(0.0);
    if (nsi_robot_is_zero(robot, f)) return zero;
    ns_expr slope = ns_add(gains[1], ns_mul(ns_const(dt), gains[0]));
    return ns_select(ns_gt(ns_abs(f), zero), slope, zero);
}

// Passive forces of velocity k of a joint.
static nsi_passive_force find_passive_force(const nsi_robot* robot, uint32_t link, uint32_t k,
                                            ns_expr q, ns_expr qd, double dt) {
    const nsi_link* l = &robot->model->links[link];
    ns_expr damping = nsi_robot_param(robot, link, NSI_JOINT_DAMPING);
    ns_expr friction = nsi_robot_param(robot, link, NSI_JOINT_FRICTION);
    ns_expr velocity = nsi_robot_param(robot, link, NSI_JOINT_FRICTION_VELOCITY);
    nsi_passive_force p;

    // Names below "force", since joint/<j>/damping and friction are those of parameters.
    p.smooth = nsi_named_force(ns_neg(ns_mul(damping, qd)), l, k, "force/damping");
    ns_expr slip = ns_tanh(ns_div(qd, velocity));
    ns_expr rubbing = ns_neg(ns_mul(friction, slip));
    p.slope = nsi_friction_slope(robot, rubbing, friction, qd, velocity);
    p.stiff = nsi_named_force(rubbing, l, k, "force/friction");
    if (nsi_joint_get(l->def.joint_type)->info.has_axis) {
        ns_expr stretch = ns_sub(q, nsi_robot_param(robot, link, NSI_JOINT_REST));
        ns_expr spring = ns_neg(ns_mul(nsi_robot_param(robot, link, NSI_JOINT_STIFFNESS), stretch));
        ns_expr limit = joint_limit_force(robot, link, q, qd);
        p.smooth = ns_add(p.smooth, nsi_named_force(spring, l, k, "force/spring"));
        const ns_expr* gains = robot->param + l->param + NSI_JOINT_LIMIT_STIFFNESS;
        p.slope = ns_add(p.slope, nsi_limit_slope(robot, limit, gains, dt));
        p.stiff = ns_add(p.stiff, nsi_named_force(limit, l, k, "force/limit"));
    }
    return p;
}

// Add the passive forces of a joint's velocity, `ratio` times that of the model.
static void add_passive_force(const nsi_robot* robot, uint32_t link, uint32_t k, ns_expr q,
                              ns_expr qd, ns_expr ratio, double dt, nsi_passive_force* into) {
    nsi_passive_force p = find_passive_force(robot, link, k, q, qd, dt);
    into->smooth = ns_add(into->smooth, ns_mul(ratio, p.smooth));
    into->stiff = ns_add(into->stiff, ns_mul(ratio, p.stiff));
    into->slope = ns_add(into->slope, ns_mul(ns_mul(ratio, ratio), p.slope));
}

// How the smooth forces resist velocity k: -d(force)/d(qd), but for forces that are known to damp,
// whose terms nsi_joint_damping() adds.
static ns_expr smooth_slope(const nsi_robot* robot, ns_expr f, uint32_t k) {
    const ns_graph* g = robot->graph;
    uint32_t count = g->damping.count;
    ns_expr* x = nsi_robot_alloc(robot, 2 * ((size_t)count + 1), sizeof *x);
    if (!x) return ns_const(0.0);
    ns_expr* slope = x + count + 1;
    x[0] = robot->qd[k];
    for (uint32_t i = 0; i < count; i++) x[1 + i].id = g->damping.data[i].force;
    ns_gradient(f, count + 1, x, slope);
    return slope[0];
}

// Add forces that are known to damp (nsi_trace_damping(): of dissipative networks) to the slopes (nv),
// and what is off the diagonal to `matrix` (nv x nv), made where it is NULL. Returns the matrix.
static ns_expr* add_joint_damping(const nsi_robot* robot, ns_expr* slope, ns_expr* matrix) {
    const ns_graph* g = robot->graph;
    uint32_t nv = robot->model->sizes.nv;
    for (uint32_t i = 0; i < g->damping.count; i++) {
        // The velocities of the model that the term is about.
        const nsi_damping_term* term = &g->damping.data[i];
        uint32_t row = NSI_NONE, column = NSI_NONE;
        for (uint32_t k = 0; k < nv; k++) {
            if (robot->qd[k].id == term->along) row = k;
            if (robot->qd[k].id == term->of) column = k;
        }
        if (row == NSI_NONE || column == NSI_NONE) continue;
        ns_expr coefficient = {term->coefficient};
        if (row == column) {
            slope[row] = ns_add(slope[row], coefficient);
            continue;
        }

        // Joints that damp each other.
        if (!matrix) matrix = nsi_robot_zeros(robot, nv * nv);
        if (!matrix) return NULL;
        matrix[row * nv + column] = ns_add(matrix[row * nv + column], coefficient);
    }
    return matrix;
}

ns_expr* nsi_joint_forces(const nsi_robot* robot, const ns_expr* u, const ns_expr* state, double dt,
                          nsi_implicit implicit, ns_expr* tau, ns_expr* slope) {
    const ns_model* model = robot->model;
    uint32_t nv = model->sizes.nv;
    ns_expr* coupling = NULL;
    ns_expr* drive = nsi_robot_zeros(robot, nv);
    nsi_passive_force* added = nsi_robot_alloc(robot, nv, sizeof *added);
    if (!added || !drive) return NULL;
    ns_expr zero = ns_const(0.0), one = ns_const(1.0);
    for (uint32_t k = 0; k < nv; k++) added[k] = (nsi_passive_force){zero, zero, zero};

    // Springs, dampers, friction and limits.
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        if (l->mimic != NSI_NONE) { // acts on the joint it follows
            ns_expr m = robot->body[i].ratio, qd = robot->body[i].rate[0];
            ns_expr q = nsi_joint_coordinate(model, i, robot->q);
            add_passive_force(robot, i, 0, q, qd, m, dt, &added[l->v]);
        }
        for (uint32_t k = 0; k < l->nv; k++) {
            ns_expr q = l->nq == l->nv ? robot->q[l->q + k] : zero;
            add_passive_force(robot, i, k, q, robot->qd[l->v + k], one, dt, &added[l->v + k]);
        }
    }

    // Actuators.
    nsi_actuator_forces(robot, u, state, dt, drive, implicit == NSI_IMPLICIT ? &coupling : NULL);
    for (uint32_t k = 0; k < nv; k++) added[k].smooth = ns_add(added[k].smooth, drive[k]);

    nsi_tendon_forces(robot, dt, implicit, added, &coupling);

    // How the sum resists the velocity; then the total.
    for (uint32_t k = 0; k < nv; k++) {
        slope[k] = implicit == NSI_EXPLICIT ? zero : added[k].slope;
        if (implicit == NSI_IMPLICIT) {
            slope[k] = ns_sub(slope[k], smooth_slope(robot, added[k].smooth, k));
        }
        tau[k] = ns_add(tau[k], ns_add(added[k].smooth, added[k].stiff));
    }

    // Named last. What a network adds here has a slope of its own.
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        for (uint32_t k = 0; k < l->nv; k++) {
            ns_expr *t = &tau[l->v + k], before = *t;
            *t = nsi_named_force(*t, l, k, "tau");
            if (implicit != NSI_IMPLICIT || t->id == before.id) continue;
            ns_expr change = smooth_slope(robot, ns_sub(*t, before), l->v + k);
            slope[l->v + k] = ns_sub(slope[l->v + k], change);
        }
    }
    return implicit == NSI_IMPLICIT ? add_joint_damping(robot, slope, coupling) : coupling;
}
