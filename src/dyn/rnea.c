// Recursive Newton-Euler algorithm (RBDA table 5.1): the joint forces of a given motion.

#include "dyn/robot.h"

// Internal accelerations of a joint: the rates of nsi_body.rate.
static void internal_acceleration(const nsi_robot* robot, uint32_t i, const ns_expr* qdd,
                                  ns_expr* d) {
    const nsi_link* l = &robot->model->links[i];
    const nsi_body* body = &robot->body[i];
    if (body->joint->map) {
        body->joint->map->acceleration_to_body(body, qdd ? qdd + l->v : NULL, d);
        return;
    }
    ns_expr zero = ns_const(0.0), scale = body->ratio;
    for (uint32_t k = 0; k < body->nv; k++) d[k] = qdd ? ns_mul(scale, qdd[l->v + k]) : zero;
}

// Spatial accelerations of bodies, from that of the world.
static void accelerate(const nsi_robot* robot, const ns_expr* qdd, motion world, motion* a) {
    for (uint32_t i = 0; i < robot->model->sizes.nlink; i++) {
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
    }
}

void nsi_drift_accelerations(const nsi_robot* robot, motion* a) {
    accelerate(robot, NULL, mo_zero(), a);
}

void nsi_body_accelerations(const nsi_robot* robot, const ns_expr* qdd, motion* a) {
    accelerate(robot, qdd, (motion){v3_zero(), v3_neg(nsi_robot_gravity(robot))}, a);
}

void nsi_rnea(const nsi_robot* robot, const ns_expr* qdd, ns_expr* tau) {
    const ns_model* model = robot->model;
    uint32_t n = model->sizes.nlink;
    motion* a = nsi_robot_alloc(robot, n, sizeof *a);
    force* f = nsi_robot_alloc(robot, n, sizeof *f);
    if (!a || !f) return;
    for (uint32_t k = 0; k < model->sizes.nv; k++) tau[k] = ns_const(0.0);

    // Outwards: accelerations, and the force each body needs.
    nsi_body_accelerations(robot, qdd, a);
    for (uint32_t i = 0; i < n; i++) {
        const nsi_body* body = &robot->body[i];
        if (body->nv == 0) continue;
        f[i] = fo_add(in_apply(body->inertia, a[i]),
                      mo_cross_force(body->velocity, in_apply(body->inertia, body->velocity)));
        f[i].n = v3_add(f[i].n, nsi_gyroscopic_change(robot, i));
        f[i] = nsi_without_external(robot, i, f[i]);
    }

    // Inwards: what each joint carries.
    for (uint32_t i = n; i-- > 0;) {
        const nsi_body* body = &robot->body[i];
        const nsi_link* l = &model->links[i];
        if (body->nv == 0) continue;
        ns_expr t[NSI_MAX_DOF];
        for (uint32_t k = 0; k < body->nv; k++) t[k] = mo_dot(body->s[k], f[i]);
        if (body->joint->map) body->joint->map->force_to_model(body, t);

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
