// The two stages in which contact laws act.

#include "contact/contact_stages.h"

// ---- forces --------------------------------------------------------------------------------

enum { SIDES = 2 };

// Velocity in the world of the point of a body that is at p now.
static vec3 point_velocity(const nsi_placed_pair* pair, int side, vec3 p) {
    if (pair->body[side] == NSI_NONE) return v3_zero();
    const nsi_link_pose* pose = &pair->pose[side];
    motion twist = pair->velocity[side];
    vec3 arm = m3_apply_t(pose->R, v3_sub(p, pose->position));
    return m3_apply(pose->R, v3_add(twist.v, v3_cross(twist.w, arm)));
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
static void add_force(const nsi_placed_pair* pair, int side, vec3 p, ns_expr touching, vec3 f,
                      force* sum) {
    if (pair->body[side] == NSI_NONE) return;
    const nsi_link_pose* pose = &pair->pose[side];
    vec3 arm = m3_apply_t(pose->R, v3_sub(p, pose->position));
    vec3 local = m3_apply_t(pose->R, f), moment = v3_cross(arm, local);
    *sum = fo_add(*sum, fo_where(touching, (force){moment, local}));
}

// Add the forces at one contact point to those on both bodies.
static void trace_point(const nsi_robot* robot, const nsi_placed_pair* pair,
                        const nsi_candidate* candidate, force on[SIDES]) {
    ns_expr zero = ns_const(0.0), one = ns_const(1.0);
    vec3 p = candidate->point.position, n = candidate->point.normal;
    vec3 v = v3_sub(point_velocity(pair, 0, p), point_velocity(pair, 1, p));

    // Without contact, a depth at which laws are smooth; the final select drops the force.
    const nsi_link_pose* link = pair->on_link ? &pair->link : NULL;
    ns_expr depth = ns_neg(nsi_candidate_gap_on(robot, link, candidate));
    ns_expr touching = ns_and(ns_gt(depth, zero), candidate->point.exists);
    depth = ns_select(touching, depth, one);
    ns_expr vn = nsi_candidate_named(robot, candidate, "velocity/normal", "m/s", v3_dot(n, v));
    ns_expr vt[2];
    vt[0] = nsi_candidate_named(robot, candidate, "velocity/tangent1", "m/s",
                                v3_dot(candidate->tangent[0], v));
    vt[1] = nsi_candidate_named(robot, candidate, "velocity/tangent2", "m/s",
                                v3_dot(candidate->tangent[1], v));

    // The law.
    ns_expr along[3] = {zero, zero, zero};
    const ns_contact_law* law = candidate->law;
    nsi_point_trace trace = {.given = {.depth = depth,
                                       .touching = touching,
                                       .velocity = {vn, vt[0], vt[1]},
                                       .params = pair->params},
                             .robot = robot,
                             .candidate = candidate};
    law->force(law->context, &trace.given, along);

    // Its force in the world, on both bodies.
    vec3 f = v3_scale(along[0], n);
    for (int k = 0; k < 2; k++) f = v3_add(f, v3_scale(along[1 + k], candidate->tangent[k]));
    add_force(pair, 0, p, touching, f, &on[0]);
    add_force(pair, 1, p, touching, v3_neg(f), &on[1]);
    nsi_candidate_force(robot, candidate, fo_where(touching, (force){v3_zero(), f}).f);
}

enum { WRENCH = 6, PAIR_OUTPUTS = SIDES * WRENCH };

// The forces on both bodies, moment first; zero for the world.
static void trace_pair(const nsi_robot* robot, const nsi_placed_pair* pair, ns_expr* out) {
    nsi_candidate* points = nsi_robot_alloc(robot, pair->npoint, sizeof *points);
    force on[SIDES] = {fo_zero(), fo_zero()};
    if (points) {
        nsi_pair_candidates(pair, ns_const(1.0), points);
        for (uint32_t k = 0; k < pair->npoint; k++) trace_point(robot, pair, &points[k], on);
    }
    for (int side = 0; side < SIDES; side++) {
        for (int k = 0; k < 3; k++) {
            out[WRENCH * side + k] = on[side].n.e[k];
            out[WRENCH * side + 3 + k] = on[side].f.e[k];
        }
    }
}

static const nsi_pair_work pair_forces = {.trace = trace_pair, .noutput = PAIR_OUTPUTS};

// Forces of one law. Pair by pair: of one that is far apart not even the points need be computed.
static void trace_forces(const nsi_robot* robot, const nsi_contact_options* options, int law,
                         force* external) {
    nsi_link_pose* pose = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *pose);
    const uint32_t* slot = nsi_law_slots(robot, law);
    if (!pose || !slot) return;
    nsi_link_poses(robot, pose);
    for (uint32_t i = 0; i < robot->model->sizes.ncontact; i++) {
        nsi_placed_pair pair;
        ns_expr out[PAIR_OUTPUTS];
        if (!nsi_pair_place(robot, pose, options, law, slot, i, &pair)) continue;
        ns_expr near = nsi_pair_near(&pair);
        bool called =
            nsi_pair_is_frequent(robot, options, &pair) && !nsi_pair_is_augmented(robot, &pair);
        if (called) nsi_pair_call(robot, &pair, near, &pair_forces, out);
        if (!called) trace_pair(robot, &pair, out);
        if (robot->graph->error.status != NS_OK) return;
        for (int side = 0; side < SIDES; side++) {
            if (pair.body[side] == NSI_NONE) continue;
            const ns_expr* e = out + WRENCH * side;
            force on = {v3(e[0], e[1], e[2]), v3(e[3], e[4], e[5])};
            force* sum = &external[pair.body[side]];
            *sum = fo_add(*sum, called ? on : fo_where(near, on));
        }
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

void nsi_contact_impulses(const nsi_robot* robot, const nsi_contact_options* options, double dt,
                          const ns_expr* qdd, const ns_expr* added, nsi_impact* impact) {
    impact->residual = ns_const(0.0);
    for (uint32_t k = 0; k < robot->model->sizes.nv; k++) {
        impact->position_correction[k] = ns_const(0.0);
    }
    int law = impulse_law(robot->model, options);
    if (law < 0) return;
    nsi_contact_law_get(law)->impulses(robot, options, law, dt, qdd, added, impact);
}
