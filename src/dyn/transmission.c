// Transmissions of actuators, and tendons: lengths and moments. The velocity is moment . qd.

#include "dyn/transmission.h"
#include "math/wrap.h"

ns_expr nsi_actuator_param_of(const ns_model* model, const ns_expr* param, uint32_t actuator,
                              uint32_t which) {
    const nsi_actuator* a = &model->actuators[actuator];
    return param[a->param + a->slot[which]];
}

// ---- sites -----------------------------------------------------------------------------------

const nsi_link_pose* nsi_transmission_poses(const nsi_robot* robot) {
    if (robot->model->sizes.nsite == 0) return NULL;
    nsi_link_pose* pose = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *pose);
    if (pose) nsi_link_poses(robot, pose);
    return pose;
}

nsi_link_pose nsi_site_pose(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t site) {
    const nsi_model_site* s = &robot->model->sites[site];
    const double *p = s->def.pose.position, *e = s->def.pose.quaternion;
    vec3 position = v3_const(p[0], p[1], p[2]);
    quat turn = {ns_const(e[0]), ns_const(e[1]), ns_const(e[2]), ns_const(e[3])};
    mat3 R = m3_from_quat(turn);
    if (s->link == NSI_NONE) return (nsi_link_pose){R, position};
    const nsi_link_pose* link = &pose[s->link];
    return (nsi_link_pose){m3_mul(link->R, R), v3_add(link->position, m3_apply(link->R, position))};
}

static uint32_t body_of_site(const nsi_robot* robot, uint32_t site) {
    uint32_t link = robot->model->sites[site].link;
    return link == NSI_NONE ? NSI_NONE : robot->place[link].body;
}

static bool carries(const nsi_robot* robot, uint32_t ancestor, uint32_t body) {
    while (body != NSI_NONE && body != ancestor) body = robot->body[body].parent;
    return body == ancestor && body != NSI_NONE;
}

// Add the moments of a force and torque (in the world) at a point of a body, along the joints that carry
// it and do not carry the body `other`, which the opposite force and torque act on.
static void add_wrench(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t body,
                       uint32_t other, vec3 point, vec3 along, const vec3* torque,
                       ns_expr* moment) {
    for (uint32_t i = body; i != NSI_NONE; i = robot->body[i].parent) {
        if (carries(robot, i, other)) return;
        const nsi_body* b = &robot->body[i];
        vec3 arm = v3_sub(point, pose[i].position);
        for (uint32_t k = 0; k < b->nv; k++) {
            motion twist = nsi_unit_world_twist(b, pose[i].R, k);
            ns_expr sum = v3_dot(along, v3_add(twist.v, v3_cross(twist.w, arm)));
            if (torque) sum = ns_add(sum, v3_dot(*torque, twist.w));
            ns_expr* to = &moment[robot->model->links[i].v + k];
            *to = ns_add(*to, sum);
        }
    }
}

// ---- actuators -------------------------------------------------------------------------------

static vec3 direction_part(const ns_actuator_def* def, uint32_t first) {
    const double* d = def->direction + first;
    return v3_const(d[0], d[1], d[2]);
}

// Along a joint of several velocities: a fixed direction in the link's frame, or in its parent's.
static void trace_ball_transmission(const nsi_robot* robot, const nsi_actuator* a, ns_expr gear,
                                    nsi_transmission* t) {
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
        t->length = ns_mul(gear, v3_dot(torque, nsi_rotation_vector(q)));
        return;
    }
    vec3 along = direction_part(&a->def, 0);
    for (uint32_t k = 0; k < 3; k++) moment[k] = ns_mul(gear, along.e[k]);
}

// A force and torque in a site's frame; against a reference site, in that one's frame, between the two.
static void trace_site_transmission(const nsi_robot* robot, const nsi_link_pose* pose,
                                    const nsi_actuator* a, ns_expr gear, nsi_transmission* t) {
    nsi_link_pose at = nsi_site_pose(robot, pose, a->site), from = at;
    bool relative = a->ref_site != NSI_NONE;
    uint32_t body = body_of_site(robot, a->site), other = NSI_NONE;
    if (relative) {
        from = nsi_site_pose(robot, pose, a->ref_site);
        other = body_of_site(robot, a->ref_site);
    }
    vec3 along = m3_apply(from.R, v3_scale(gear, direction_part(&a->def, 0)));
    vec3 torque = m3_apply(from.R, v3_scale(gear, direction_part(&a->def, 3)));
    add_wrench(robot, pose, body, other, at.position, along, &torque, t->moment);
    if (!relative) return;
    t->length = v3_dot(along, v3_sub(at.position, from.position));
    along = v3_neg(along), torque = v3_neg(torque);
    add_wrench(robot, pose, other, body, from.position, along, &torque, t->moment);
}

static bool begin(const nsi_robot* robot, nsi_transmission* t) {
    t->moment = nsi_robot_zeros(robot, robot->model->sizes.nv);
    t->length = t->velocity = ns_const(0.0);
    return t->moment != NULL;
}

static bool finish(const nsi_robot* robot, nsi_transmission* t) {
    for (uint32_t k = 0; k < robot->model->sizes.nv; k++) {
        if (nsi_robot_is_zero(robot, t->moment[k])) continue;
        t->velocity = ns_add(t->velocity, ns_mul(t->moment[k], robot->qd[k]));
    }
    return true;
}

bool nsi_actuator_transmission(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t actuator,
                               nsi_transmission* t) {
    const ns_model* model = robot->model;
    const nsi_actuator* a = &model->actuators[actuator];
    ns_expr gear = nsi_actuator_param_of(model, robot->param, actuator, NSI_ACTUATOR_GEAR);

    // A tendon's, scaled.
    if (a->tendon != NSI_NONE) {
        if (!nsi_tendon_transmission(robot, pose, a->tendon, t)) return false;
        t->length = ns_mul(gear, t->length);
        t->velocity = ns_mul(gear, t->velocity);
        for (uint32_t k = 0; k < model->sizes.nv; k++) t->moment[k] = ns_mul(gear, t->moment[k]);
        return true;
    }

    if (!begin(robot, t)) return false;
    if (a->site != NSI_NONE) {
        trace_site_transmission(robot, pose, a, gear, t);
        return finish(robot, t);
    }
    const nsi_link* l = &model->links[a->link];
    if (!nsi_joint_get(l->def.joint_type)->info.has_axis) {
        trace_ball_transmission(robot, a, gear, t);
        return finish(robot, t);
    }
    t->length = ns_mul(gear, robot->q[l->q]);
    t->moment[l->v] = gear;
    return finish(robot, t);
}

// ---- tendons ---------------------------------------------------------------------------------

static void trace_joints(const nsi_robot* robot, const nsi_tendon* tendon, nsi_transmission* t) {
    for (uint32_t k = 0; k < tendon->def.npart; k++) {
        const nsi_tendon_part* part = &tendon->parts[k];
        const nsi_link* l = &robot->model->links[part->link];
        ns_expr factor = ns_const(part->factor), ratio = factor;
        ns_expr q = nsi_joint_coordinate(robot->model, part->link, robot->q);
        if (l->mimic != NSI_NONE) ratio = ns_mul(factor, robot->body[part->link].ratio);
        t->length = ns_add(t->length, ns_mul(factor, q));
        t->moment[l->v] = ns_add(t->moment[l->v], ratio);
    }
}

// One piece of a tendon, from a point of one body to one of another, where `there` is not 0: its length, and
// what it pulls.
static ns_expr add_piece(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t from_body,
                         vec3 from, uint32_t to_body, vec3 to, ns_expr there, ns_expr scale,
                         ns_expr* moment) {
    // The unit vector is zero where the two points are one.
    vec3 way = v3_sub(to, from), unit;
    ns_normalize(3, way.e, unit.e);
    ns_expr length = v3_dot(unit, way), zero = ns_const(0.0);
    for (int k = 0; k < 3; k++) {
        unit.e[k] = ns_select(there, ns_mul(scale, unit.e[k]), zero);
    }
    add_wrench(robot, pose, to_body, from_body, to, unit, NULL, moment);
    add_wrench(robot, pose, from_body, to_body, from, v3_neg(unit), NULL, moment);
    return ns_select(there, ns_mul(scale, length), zero);
}

// Around a geometry, where the tendon touches it.
static ns_expr add_wrapped(const nsi_robot* robot, const nsi_link_pose* pose,
                           const nsi_tendon_part* parts, ns_expr scale, ns_expr* moment) {
    const nsi_tendon_part* around = parts;
    const nsi_geom* geom = &robot->model->geoms[around->geom];
    uint32_t from_body = body_of_site(robot, around[-1].site);
    uint32_t to_body = body_of_site(robot, around[1].site);
    uint32_t geom_body = geom->link == NSI_NONE ? NSI_NONE : robot->place[geom->link].body;
    vec3 from = nsi_site_pose(robot, pose, around[-1].site).position;
    vec3 to = nsi_site_pose(robot, pose, around[1].site).position;

    // All in the geometry's frame. A site of the same link does not move there.
    nsi_link_pose place = nsi_geom_place(robot, around->geom), at = place;
    if (geom->link != NSI_NONE) {
        const nsi_link_pose* link = &pose[geom->link];
        at.R = m3_mul(link->R, place.R);
        at.position = v3_add(link->position, m3_apply(link->R, place.position));
    }
    vec3 ends[2] = {m3_apply_t(at.R, v3_sub(from, at.position)),
                    m3_apply_t(at.R, v3_sub(to, at.position))};
    vec3 side = v3_zero();
    if (around->side != NSI_NONE) {
        const nsi_model_site* site = &robot->model->sites[around->side];
        const double* p = site->def.pose.position;
        bool fixed = site->link == geom->link;
        side =
            fixed ? v3_const(p[0], p[1], p[2]) : nsi_site_pose(robot, pose, around->side).position;
        side = fixed ? m3_apply_t(place.R, v3_sub(side, place.position))
                     : m3_apply_t(at.R, v3_sub(side, at.position));
    }
    ns_expr radius = geom->param == NSI_NONE ? ns_const(geom->def.size[0])
                                             : robot->param[geom->param + NSI_GEOM_SIZE];
    nsi_wrap wrap = nsi_wrap_path(geom->def.type == NS_GEOM_SPHERE, radius, ends[0], ends[1],
                                  around->side == NSI_NONE ? NULL : &side);

    // Either straight, or to the surface, along it and away from it.
    vec3 first = v3_add(at.position, m3_apply(at.R, wrap.first));
    vec3 second = v3_add(at.position, m3_apply(at.R, wrap.second));
    ns_expr sum = ns_select(wrap.wraps, ns_mul(scale, wrap.length), ns_const(0.0));
    sum = ns_add(sum, add_piece(robot, pose, from_body, from, to_body, to, ns_not(wrap.wraps),
                                scale, moment));
    sum = ns_add(
        sum, add_piece(robot, pose, from_body, from, geom_body, first, wrap.wraps, scale, moment));
    return ns_add(
        sum, add_piece(robot, pose, geom_body, second, to_body, to, wrap.wraps, scale, moment));
}

static void trace_sites(const nsi_robot* robot, const nsi_link_pose* pose, const nsi_tendon* tendon,
                        nsi_transmission* t) {
    // From each site to the next one of the branch, or around what is between them.
    double divisor = 1.0;
    for (uint32_t k = 0; k + 1 < tendon->def.npart; k++) {
        const nsi_tendon_part *part = &tendon->parts[k], *next = part + 1;
        bool is_pulley = part->site == NSI_NONE && part->geom == NSI_NONE;
        if (is_pulley) divisor = part->factor;
        ns_expr scale = ns_const(1.0 / divisor), more = ns_const(0.0);
        if (part->geom != NSI_NONE) {
            more = add_wrapped(robot, pose, part, scale, t->moment);
        } else if (!is_pulley && next->site != NSI_NONE) {
            vec3 from = nsi_site_pose(robot, pose, part->site).position;
            vec3 to = nsi_site_pose(robot, pose, next->site).position;
            more = add_piece(robot, pose, body_of_site(robot, part->site), from,
                             body_of_site(robot, next->site), to, ns_const(1.0), scale, t->moment);
        }
        t->length = ns_add(t->length, more);
    }
}

bool nsi_tendon_transmission(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t tendon,
                             nsi_transmission* t) {
    const nsi_tendon* data = &robot->model->tendons[tendon];
    if (!begin(robot, t)) return false;
    if (data->parts[0].link != NSI_NONE) {
        trace_joints(robot, data, t);
    } else {
        trace_sites(robot, pose, data, t);
    }
    return finish(robot, t);
}

// ---- forces ----------------------------------------------------------------------------------

void nsi_transmission_apply(const nsi_robot* robot, const nsi_transmission* t, ns_expr f,
                            ns_expr* into) {
    for (uint32_t k = 0; k < robot->model->sizes.nv; k++) {
        if (nsi_robot_is_zero(robot, t->moment[k])) continue;
        into[k] = ns_add(into[k], ns_mul(t->moment[k], f));
    }
}

bool nsi_transmission_is_shared(const nsi_robot* robot, const nsi_transmission* t) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < robot->model->sizes.nv; k++) {
        count += !nsi_robot_is_zero(robot, t->moment[k]);
    }
    return count > 1;
}

ns_expr nsi_transmission_slope(const nsi_robot* robot, const nsi_transmission* t, ns_expr f) {
    uint32_t nv = robot->model->sizes.nv;
    ns_expr* by = nsi_robot_zeros(robot, nv);
    ns_expr along = ns_const(0.0), size = along;
    if (!by) return along;
    ns_gradient(f, nv, robot->qd, by);
    for (uint32_t k = 0; k < nv; k++) {
        along = ns_add(along, ns_mul(t->moment[k], by[k]));
        size = ns_add(size, ns_mul(t->moment[k], t->moment[k]));
    }
    return ns_neg(ns_div_safe(along, size));
}

void nsi_transmission_couple(const nsi_robot* robot, const nsi_transmission* t, ns_expr slope,
                             ns_expr** coupling) {
    uint32_t nv = robot->model->sizes.nv;
    if (nsi_robot_is_zero(robot, slope) || !nsi_transmission_is_shared(robot, t)) return;
    if (!*coupling) *coupling = nsi_robot_zeros(robot, (size_t)nv * nv);
    for (uint32_t i = 0; *coupling && i < nv; i++) {
        for (uint32_t j = 0; j < nv; j++) {
            ns_expr* to = &(*coupling)[i * nv + j];
            if (i == j || nsi_robot_is_zero(robot, t->moment[i])) continue;
            if (nsi_robot_is_zero(robot, t->moment[j])) continue;
            *to = ns_add(*to, ns_mul(slope, ns_mul(t->moment[i], t->moment[j])));
        }
    }
}
