// The two stages in which contact laws act.

#include "contact/contact_stages.h"

// ---- forces --------------------------------------------------------------------------------

// Velocity in the world of the point of a body that is at p now.
static vec3 point_velocity(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t body,
                           vec3 p) {
    if (body == NSI_NONE) return v3_zero();
    motion twist = robot->body[body].velocity;
    vec3 arm = m3_apply_t(pose[body].R, v3_sub(p, pose[body].position));
    return m3_apply(pose[body].R, v3_add(twist.v, v3_cross(twist.w, arm)));
}

// The force where a condition holds, else none.
static force fo_where(ns_expr condition, force x) {
    ns_expr zero = ns_const(0.0);
    for (int k = 0; k < 3; k++) {
        x.n.e[k] = ns_select(condition, x.n.e[k], zero);
        x.f.e[k] = ns_select(condition, x.f.e[k], zero);
    }
    return x;
}

// Add force f at p to the force on a body, in the body's frame. The select is the last step, so that
// the back ends can skip everything that leads to it when the shapes are apart.
static void add_force(const nsi_link_pose* pose, uint32_t body, vec3 p, ns_expr touching, vec3 f,
                      force* sum) {
    if (body == NSI_NONE) return;
    vec3 arm = m3_apply_t(pose[body].R, v3_sub(p, pose[body].position));
    vec3 local = m3_apply_t(pose[body].R, f), moment = v3_cross(arm, local);
    *sum = fo_add(*sum, fo_where(touching, (force){moment, local}));
}

// Add the forces at one contact point to those on both bodies.
static void trace_point(const nsi_robot* robot, const nsi_link_pose* pose,
                        const nsi_candidate* candidate, force* on_a, force* on_b) {
    ns_expr zero = ns_const(0.0), one = ns_const(1.0);
    vec3 p = candidate->point.position, n = candidate->point.normal;
    vec3 v = v3_sub(point_velocity(robot, pose, candidate->body_a, p),
                    point_velocity(robot, pose, candidate->body_b, p));

    // Without contact, a depth at which laws are smooth; the final select drops the force.
    ns_expr depth = ns_neg(nsi_candidate_gap(robot, pose, candidate));
    ns_expr touching = ns_and(ns_gt(depth, zero), candidate->point.exists);
    depth = ns_select(touching, depth, one);
    ns_expr vn = nsi_candidate_named(robot, candidate, "velocity/normal", "m/s", v3_dot(n, v));
    ns_expr vt[2];
    vt[0] = nsi_candidate_named(robot, candidate, "velocity/tangent1", "m/s",
                                v3_dot(candidate->tangent[0], v));
    vt[1] = nsi_candidate_named(robot, candidate, "velocity/tangent2", "m/s",
                                v3_dot(candidate->tangent[1], v));

    // The law.
    ns_expr params[NS_CONTACT_MAX_PARAMS], along[3] = {zero, zero, zero};
    const ns_contact_law* law = candidate->law;
    for (uint32_t k = 0; k < law->nparam; k++) {
        params[k] = nsi_candidate_param(robot, candidate, k);
    }
    nsi_point_trace trace = {.given = {.depth = depth,
                                       .touching = touching,
                                       .velocity = {vn, vt[0], vt[1]},
                                       .params = params},
                             .robot = robot,
                             .candidate = candidate};
    law->force(law->context, &trace.given, along);

    // Its force in the world, on both bodies.
    vec3 f = v3_scale(along[0], n);
    for (int k = 0; k < 2; k++) f = v3_add(f, v3_scale(along[1 + k], candidate->tangent[k]));
    add_force(pose, candidate->body_a, p, touching, f, on_a);
    add_force(pose, candidate->body_b, p, touching, v3_neg(f), on_b);
    nsi_candidate_force(robot, candidate, fo_where(touching, (force){v3_zero(), f}).f);
}

// Forces of one law. Pair by pair: of one that is far apart not even the points need be computed.
static void trace_forces(const nsi_robot* robot, const nsi_contact_options* options, int law,
                         force* external) {
    nsi_candidates candidates;
    nsi_link_pose* pose = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *pose);
    if (!pose) return;
    nsi_link_poses(robot, pose);
    if (!nsi_candidates_find(robot, pose, options, law, &candidates)) return;
    nsi_candidates_name(robot, &candidates);
    for (uint32_t k = 0; k < candidates.count;) {
        const nsi_candidate* first = &candidates.data[k];
        force on_a = fo_zero(), on_b = fo_zero();
        for (; k < candidates.count && candidates.data[k].pair == first->pair; k++) {
            trace_point(robot, pose, &candidates.data[k], &on_a, &on_b);
        }
        uint32_t a = first->body_a, b = first->body_b;
        if (a != NSI_NONE) external[a] = fo_add(external[a], fo_where(first->near, on_a));
        if (b != NSI_NONE) external[b] = fo_add(external[b], fo_where(first->near, on_b));
    }
}

void nsi_contact_forces(const nsi_robot* robot, const nsi_contact_options* options,
                        force* external) {
    for (int law = 0; law < nsi_contact_law_count(); law++) {
        if (ns_contact_law_get(law)->stage != NS_CONTACT_STAGE_FORCES) continue;
        if (nsi_candidates_count(robot->model, options, law) == 0) continue;
        trace_forces(robot, options, law, external);
    }
}

ns_expr ns_contact_quantity(const ns_contact_point* point, const char* what, const char* unit,
                            ns_expr x) {
    const nsi_point_trace* trace = (const nsi_point_trace*)(const void*)point; // its first member
    return nsi_candidate_named(trace->robot, trace->candidate, what, unit, x);
}

// ---- impulses ------------------------------------------------------------------------------

// The law of stage IMPULSES that some pair has; -1 when there is none.
static int impulse_law(const ns_model* model, const nsi_contact_options* options) {
    for (int law = 0; law < nsi_contact_law_count(); law++) {
        bool impulses = ns_contact_law_get(law)->stage == NS_CONTACT_STAGE_IMPULSES;
        if (impulses && nsi_candidates_count(model, options, law) > 0) return law;
    }
    return -1;
}

bool nsi_contact_has_impulses(const ns_model* model, const nsi_contact_options* options) {
    return impulse_law(model, options) >= 0;
}

bool nsi_contact_is_count(const char* quantity) {
    return strcmp(quantity, "contact/solves") == 0 || strcmp(quantity, "contact/sweeps") == 0;
}

void nsi_contact_impulses(const nsi_robot* robot, const nsi_contact_options* options, double dt,
                          const ns_expr* qdd, const ns_expr* added, nsi_impact* impact) {
    impact->residual = impact->relaxation = ns_const(0.0);
    for (uint32_t k = 0; k < robot->model->sizes.nv; k++) {
        impact->position_correction[k] = ns_const(0.0);
    }
    int law = impulse_law(robot->model, options);
    if (law < 0) return;
    nsi_contact_law_get(law)->impulses(robot, options, law, dt, qdd, added, impact);
}
