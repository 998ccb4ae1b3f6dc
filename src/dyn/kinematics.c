// Poses, velocities and Jacobians of links; energy, momentum, centre of mass.

#include "dyn/robot.h"

void nsi_link_poses(const nsi_robot* robot, nsi_link_pose* pose) {
    for (uint32_t i = 0; i < robot->model->sizes.nlink; i++) {
        const nsi_placement* place = &robot->place[i];
        pose[i] = (nsi_link_pose){place->R, place->position};
        if (place->body == i) {
            const nsi_body* body = &robot->body[i];
            pose[i] = (nsi_link_pose){m3_transpose(body->x.E), body->x.r};
            if (body->parent == NSI_NONE) continue;
            const nsi_link_pose* parent = &pose[body->parent];
            pose[i].position = v3_add(parent->position, m3_apply(parent->R, body->x.r));
            pose[i].R = m3_mul_nt(parent->R, body->x.E);
        } else if (place->body != NSI_NONE) {
            const nsi_link_pose* body = &pose[place->body];
            pose[i].position = v3_add(body->position, m3_apply(body->R, place->position));
            pose[i].R = m3_mul(body->R, place->R);
        }
    }
}

void nsi_link_turns(const nsi_robot* robot, quat* turn) {
    for (uint32_t i = 0; i < robot->model->sizes.nlink; i++) {
        const nsi_link* l = &robot->model->links[i];

        // The joint's frame in the parent.
        const double* o = l->def.origin.quaternion;
        quat q = {ns_const(o[0]), ns_const(o[1]), ns_const(o[2]), ns_const(o[3])};
        const ns_expr* r = robot->param + l->param + NSI_JOINT_ROTATION;
        q = q_mul(q, q_exp(v3(r[0], r[1], r[2])));

        // The joint's own rotation; a floating joint's is in the world.
        const nsi_joint* joint = nsi_joint_get(l->def.joint_type);
        if (joint->info.in_world) {
            q = joint->rotation(robot, i);
        } else if (joint->rotation) {
            q = q_mul(q, joint->rotation(robot, i));
        }
        bool in_world = l->parent == NSI_NONE || joint->info.in_world;
        turn[i] = in_world ? q : q_mul(turn[l->parent], q);
    }
}

vec3 nsi_rotation_vector(quat q) {
    // 2 atan(|v| / |w|) along v; a series near the identity, where that is 0/0.
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

nsi_link_pose nsi_geom_place(const nsi_robot* robot, uint32_t number) {
    const nsi_geom* geom = &robot->model->geoms[number];
    const double *p = geom->def.pose.position, *q = geom->def.pose.quaternion;
    vec3 position = v3_const(p[0], p[1], p[2]);
    quat turn = {ns_const(q[0]), ns_const(q[1]), ns_const(q[2]), ns_const(q[3])};
    if (geom->param == NSI_NONE) return (nsi_link_pose){m3_from_quat(turn), position};

    // Orientation: of the file, then a rotation by parameters, traced only where it is not zero.
    const ns_expr* x = robot->param + geom->param;
    position = v3(x[NSI_GEOM_ORIGIN], x[NSI_GEOM_ORIGIN + 1], x[NSI_GEOM_ORIGIN + 2]);
    vec3 more = v3(x[NSI_GEOM_ROTATION], x[NSI_GEOM_ROTATION + 1], x[NSI_GEOM_ROTATION + 2]);
    bool turned = false;
    for (int k = 0; k < 3; k++) turned = turned || !nsi_robot_is_zero(robot, more.e[k]);
    if (turned) turn = q_mul(turn, q_exp(more));
    return (nsi_link_pose){m3_from_quat(turn), position};
}

nsi_link_pose nsi_surface_pose(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t link) {
    nsi_link_pose at = pose[link];
    if (!robot->pose_change) return at;
    const nsi_pose_change* change = &robot->pose_change[link];
    if (change->moved) at.position = v3_add(at.position, change->displacement);
    if (change->turned) at.R = m3_mul(at.R, change->turn);
    return at;
}

// Pull a nearly unit quaternion back to unit length: one Newton step for 1/sqrt(q.q), which is
// exact to second order in the deviation and needs no root.
static quat renormalize(quat q) {
    ns_expr square = ns_add(ns_add(ns_mul(q.w, q.w), ns_mul(q.x, q.x)),
                            ns_add(ns_mul(q.y, q.y), ns_mul(q.z, q.z)));
    ns_expr scale = ns_sub(ns_const(1.5), ns_mul(ns_const(0.5), square));
    return (quat){ns_mul(scale, q.w), ns_mul(scale, q.x), ns_mul(scale, q.y), ns_mul(scale, q.z)};
}

void nsi_integrate_config(const ns_model* model, const ns_expr* q, const ns_expr* dq,
                          ns_expr* next) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        uint32_t plain = nsi_plain_coordinates(l);
        for (uint32_t k = 0; k < plain; k++) next[l->q + k] = ns_add(q[l->q + k], dq[l->v + k]);
        if (plain == l->nq) continue;
        const ns_expr *w = dq + l->v + plain, *from = q + l->q + plain;
        quat turn = q_exp(v3(w[0], w[1], w[2]));
        quat to = renormalize(q_mul((quat){from[0], from[1], from[2], from[3]}, turn));
        const ns_expr e[4] = {to.w, to.x, to.y, to.z};
        for (uint32_t k = 0; k < 4; k++) next[l->q + plain + k] = e[k];
    }
}

motion nsi_link_velocity(const nsi_robot* robot, uint32_t link) {
    const nsi_placement* place = &robot->place[link];
    if (place->body == NSI_NONE) return mo_zero();
    transform x = {m3_transpose(place->R), place->position};
    return tr_motion(x, robot->body[place->body].velocity);
}

motion nsi_unit_world_twist(const nsi_body* body, mat3 R, uint32_t k) {
    if (body->joint->map) return body->joint->map->world_twist(body, R, k);
    motion s = mo_scale(body->ratio, body->s[k]);
    return (motion){m3_apply(R, s.w), m3_apply(R, s.v)};
}

void nsi_link_jacobian(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t link,
                       ns_expr* linear, ns_expr* angular) {
    const ns_model* model = robot->model;
    uint32_t nv = model->sizes.nv;
    for (uint32_t k = 0; k < 3 * nv; k++) linear[k] = angular[k] = ns_const(0.0);
    for (uint32_t i = robot->place[link].body; i != NSI_NONE; i = robot->body[i].parent) {
        const nsi_body* body = &robot->body[i];
        const nsi_link* l = &model->links[i];
        vec3 arm = v3_sub(pose[link].position, pose[i].position);
        for (uint32_t k = 0; k < body->nv; k++) {
            motion twist = nsi_unit_world_twist(body, pose[i].R, k);
            vec3 v = v3_add(twist.v, v3_cross(twist.w, arm));
            for (uint32_t row = 0; row < 3; row++) {
                ns_expr* to = &linear[row * nv + l->v + k];
                *to = ns_add(*to, v.e[row]);
                to = &angular[row * nv + l->v + k];
                *to = ns_add(*to, twist.w.e[row]);
            }
        }
    }
}

ns_expr nsi_kinetic_energy(const nsi_robot* robot) {
    ns_expr sum = ns_const(0.0);
    for (uint32_t i = 0; i < robot->model->sizes.nlink; i++) {
        const nsi_body* body = &robot->body[i];
        if (body->nv == 0) continue;
        sum = ns_add(sum, mo_dot(body->velocity, in_apply(body->inertia, body->velocity)));
        ns_expr armature = nsi_robot_param(robot, i, NSI_JOINT_ARMATURE);
        for (uint32_t k = 0; k < body->nv; k++) {
            sum = ns_add(sum, ns_mul(armature, ns_mul(body->rate[k], body->rate[k])));
        }
    }
    uint32_t nv = robot->model->sizes.nv;
    for (uint32_t k = 0; robot->mass_change && k < nv * nv; k++) {
        ns_expr rates = ns_mul(robot->qd[k / nv], robot->qd[k % nv]);
        sum = ns_add(sum, ns_mul(robot->mass_change[k], rates));
    }
    return ns_mul(ns_const(0.5), sum);
}

// m times the position of a body's centre of mass in the world.
static vec3 moment(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t i) {
    const inertia* in = &robot->body[i].inertia;
    return v3_add(m3_apply(pose[i].R, in->h), v3_scale(in->m, pose[i].position));
}

ns_expr nsi_potential_energy(const nsi_robot* robot, const nsi_link_pose* pose) {
    ns_expr sum = ns_const(0.0);
    vec3 gravity = nsi_robot_gravity(robot);
    for (uint32_t i = 0; i < robot->model->sizes.nlink; i++) {
        if (robot->body[i].nv == 0) continue;
        sum = ns_sub(sum, v3_dot(gravity, moment(robot, pose, i)));
    }
    return sum;
}

ns_expr nsi_spring_energy(const nsi_robot* robot) {
    ns_expr sum = ns_const(0.0);
    for (uint32_t i = 0; i < robot->model->sizes.nlink; i++) {
        if (!nsi_joint_get(robot->model->links[i].def.joint_type)->info.has_axis) continue;
        ns_expr q = nsi_joint_coordinate(robot->model, i, robot->q);
        ns_expr stretch = ns_sub(q, nsi_robot_param(robot, i, NSI_JOINT_REST));
        ns_expr k = nsi_robot_param(robot, i, NSI_JOINT_STIFFNESS);
        sum = ns_add(sum, ns_mul(ns_const(0.5), ns_mul(k, ns_mul(stretch, stretch))));
    }
    return sum;
}

void nsi_momentum(const nsi_robot* robot, const nsi_link_pose* pose, vec3* linear, vec3* angular) {
    *linear = *angular = v3_zero();
    for (uint32_t i = 0; i < robot->model->sizes.nlink; i++) {
        const nsi_body* body = &robot->body[i];
        if (body->nv == 0) continue;
        force p = in_apply(body->inertia, body->velocity);
        vec3 f = m3_apply(pose[i].R, p.f), n = m3_apply(pose[i].R, p.n);
        *linear = v3_add(*linear, f);
        *angular = v3_add(*angular, v3_add(n, v3_cross(pose[i].position, f)));
    }
}

vec3 nsi_center_of_mass(const nsi_robot* robot, const nsi_link_pose* pose) {
    ns_expr mass = ns_const(0.0);
    vec3 sum = v3_zero();
    for (uint32_t i = 0; i < robot->model->sizes.nlink; i++) {
        if (robot->body[i].nv == 0) continue;
        mass = ns_add(mass, robot->body[i].inertia.m);
        sum = v3_add(sum, moment(robot, pose, i));
    }
    return v3_scale(ns_div_safe(ns_const(1.0), mass), sum);
}
