// Recursive Newton-Euler algorithm (RBDA table 5.1): the joint forces of a given motion.

#include "dyn/robot.h"

// Internal accelerations of a joint: the rates of nsi_body.rate.
static void internal_acceleration(const nsi_robot* robot, uint32_t i, const ns_expr* qdd,
                                  ns_expr* d) {
    const nsi_link* l = &robot->model->links[i];
    const nsi_body* body = &robot->body[i];
    ns_expr zero = ns_const(0.0);
    if (l->def.joint_type != NS_JOINT_FLOATING) {
        ns_expr scale = body->ratio;
        for (uint32_t k = 0; k < body->nv; k++) d[k] = qdd ? ns_mul(scale, qdd[l->v + k]) : zero;
        return;
    }
    // d/dt (R' v) = R' dv/dt - w x (R' v)
    vec3 linear =
        qdd ? m3_apply_t(body->floating_R, v3(qdd[l->v], qdd[l->v + 1], qdd[l->v + 2])) : v3_zero();
    linear = v3_sub(linear, v3_cross(body->velocity.w, body->velocity.v));
    for (uint32_t k = 0; k < 3; k++) {
        d[k] = qdd ? qdd[l->v + 3 + k] : zero;
        d[3 + k] = linear.e[k];
    }
}

void nsi_rnea(const nsi_robot* robot, const ns_expr* qdd, ns_expr* tau) {
    const ns_model* model = robot->model;
    uint32_t n = model->sizes.nlink;
    motion* a = nsi_robot_alloc(robot, n, sizeof *a);
    force* f = nsi_robot_alloc(robot, n, sizeof *f);
    if (!a || !f) return;
    for (uint32_t k = 0; k < model->sizes.nv; k++) tau[k] = ns_const(0.0);

    motion world = {v3_zero(), v3_neg(nsi_robot_gravity(robot))};
    for (uint32_t i = 0; i < n; i++) {
        const nsi_body* body = &robot->body[i];
        if (body->nv == 0) continue;
        ns_expr d[NSI_MAX_DOF];
        internal_acceleration(robot, i, qdd, d);
        motion joint = mo_zero();
        a[i] = tr_motion(body->x, body->parent == NSI_NONE ? world : a[body->parent]);
        for (uint32_t k = 0; k < body->nv; k++) {
            joint = mo_add(joint, mo_scale(body->rate[k], body->s[k]));
            a[i] = mo_add(a[i], mo_scale(d[k], body->s[k]));
        }
        a[i] = mo_add(a[i], mo_cross(body->velocity, joint));
        f[i] = fo_add(in_apply(body->inertia, a[i]),
                      mo_cross_force(body->velocity, in_apply(body->inertia, body->velocity)));
        f[i] = nsi_without_external(robot, i, f[i]);
    }
    for (uint32_t i = n; i-- > 0;) {
        const nsi_body* body = &robot->body[i];
        const nsi_link* l = &model->links[i];
        if (body->nv == 0) continue;
        ns_expr t[NSI_MAX_DOF];
        for (uint32_t k = 0; k < body->nv; k++) t[k] = mo_dot(body->s[k], f[i]);
        if (l->def.joint_type == NS_JOINT_FLOATING) {
            vec3 linear = m3_apply(body->floating_R, v3(t[3], t[4], t[5]));
            for (uint32_t k = 0; k < 3; k++) {
                t[3 + k] = t[k];
                t[k] = linear.e[k];
            }
        }
        // A mimic joint's force acts on the joint it follows.
        ns_expr scale = body->ratio;
        ns_expr armature = nsi_robot_param(robot, i, NSI_JOINT_ARMATURE);
        for (uint32_t k = 0; k < body->nv; k++) {
            if (qdd) t[k] = ns_add(t[k], ns_mul(armature, ns_mul(scale, qdd[l->v + k])));
            tau[l->v + k] = ns_add(tau[l->v + k], ns_mul(scale, t[k]));
        }
        if (body->parent != NSI_NONE) {
            f[body->parent] = fo_add(f[body->parent], tr_force_back(body->x, f[i]));
        }
    }
}
