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

// A contact point whose law has been traced.
typedef struct traced_point {
    const nsi_candidate* candidate;
    ns_expr touching, depth, velocity[3]; // as the law has seen them
    ns_expr along[3];                     // its force
} traced_point;

// Add the forces at one contact point to those on both bodies.
static void trace_point(const nsi_robot* robot, const nsi_link_pose* pose,
                        const nsi_candidate* candidate, force* on_a, force* on_b,
                        traced_point* traced) {
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

    // What the law reads must be expressions that no simplification takes apart, since its force is
    // differentiated for them: -(a - b) would become b - a.
    ns_expr read[3] = {ns_select(touching, vn, zero), ns_select(touching, vt[0], zero),
                       ns_select(touching, vt[1], zero)};

    // The law.
    ns_expr params[NS_CONTACT_MAX_PARAMS], along[3] = {zero, zero, zero};
    const ns_contact_law* law = candidate->law;
    for (uint32_t k = 0; k < law->nparam; k++) {
        params[k] = nsi_candidate_param(robot, candidate, k);
    }
    nsi_point_trace trace = {.given = {.depth = depth,
                                       .touching = touching,
                                       .velocity = {read[0], read[1], read[2]},
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
    *traced = (traced_point){
        candidate, touching, depth, {read[0], read[1], read[2]}, {along[0], along[1], along[2]}};
}

// ---- how forces resist velocities ------------------------------------------------------------

// Derivatives of the forces at all points for their own depths and velocities.
typedef struct point_slopes {
    ns_expr *by_depth, *by_velocity[3]; // (n) of the normal force; of force k for velocity k
} point_slopes;

// What a law reads of a point: 0: depth, 1..3: velocity.
static ns_expr point_input(const traced_point* p, uint32_t k) {
    return k == 0 ? p->depth : p->velocity[k - 1];
}

static bool is_constant(const nsi_robot* robot, ns_expr x) {
    return ns_expr_is_valid(x) && robot->graph->nodes.data[x.id].op == NSI_CONST;
}

// Points that can be differentiated together, from `from` on: none reads what another one of them
// reads, as the corners of a box on a slider do. `taken` (of nodes) is all zero before and after.
static uint32_t choose_points(const nsi_robot* robot, const traced_point* points, uint32_t n,
                              uint8_t* taken, uint8_t* done, uint32_t* chosen) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool fits = !done[i];
        for (uint32_t k = 0; k < 4 && fits; k++) {
            ns_expr x = point_input(&points[i], k);
            fits = is_constant(robot, x) || !taken[x.id];
        }
        for (uint32_t k = 0; k < 4 && fits; k++) taken[point_input(&points[i], k).id] = 1;
        if (fits) chosen[count++] = i;
    }
    for (uint32_t c = 0; c < count; c++) {
        done[chosen[c]] = 1;
        for (uint32_t k = 0; k < 4; k++) taken[point_input(&points[chosen[c]], k).id] = 0;
    }
    return count;
}

// d(force of each chosen point) / d(its own input), of force k - 1 for velocity k and of the normal force
// for the depth: one gradient of the sum has them all. Constants are not varied: slope 0.
static void differentiate_points(const nsi_robot* robot, const traced_point* points,
                                 const uint32_t* chosen, uint32_t count, uint32_t k, ns_expr* x,
                                 ns_expr* slope, ns_expr* out) {
    ns_expr sum = ns_const(0.0);
    for (uint32_t c = 0; c < count; c++) {
        const traced_point* p = &points[chosen[c]];
        sum = ns_add(sum, p->along[k < 2 ? 0 : k - 1]);
        x[c] = point_input(p, k);
    }
    ns_gradient(sum, count, x, slope);
    for (uint32_t c = 0; c < count; c++) {
        out[chosen[c]] = is_constant(robot, x[c]) ? ns_const(0.0) : slope[c];
    }
}

static bool find_slopes(const nsi_robot* robot, const traced_point* points, uint32_t n,
                        point_slopes* out) {
    ns_expr* room = nsi_robot_alloc(robot, 6 * (size_t)n, sizeof *room);
    uint32_t* chosen = nsi_robot_alloc(robot, n, sizeof *chosen);
    uint32_t nnode = robot->graph->nodes.count, count;
    uint8_t* taken = nsi_robot_alloc(robot, nnode, 1);
    uint8_t* done = nsi_robot_alloc(robot, n, 1);
    if (!room || !chosen || !taken || !done) return false;
    if (robot->graph->error.status != NS_OK) return false;
    memset(taken, 0, nnode);
    memset(done, 0, n);
    out->by_depth = room;
    for (uint32_t k = 0; k < 3; k++) out->by_velocity[k] = room + (k + 1) * n;
    while ((count = choose_points(robot, points, n, taken, done, chosen)) > 0) {
        for (uint32_t k = 0; k < 4; k++) {
            differentiate_points(robot, points, chosen, count, k, room + 4 * (size_t)n,
                                 room + 5 * (size_t)n, room + k * n);
        }
    }
    return robot->graph->error.status == NS_OK;
}

// How the force at a point resists its velocity over a step: along the normal, and in all directions
// across it.
typedef struct point_resistance {
    ns_expr normal, tangent;
} point_resistance;

// A force that drives, as a network may have it, can take this share of the lighter body's mass off
// the mass matrix, divided by the points of the pair: it stays positive definite.
static const double DRIVEN_SHARE = 0.1;

static ns_expr most_driven(const nsi_robot* robot, const nsi_candidate* candidate, uint32_t points,
                           double dt) {
    uint32_t a = candidate->body_a, b = candidate->body_b;
    ns_expr mass = robot->body[a == NSI_NONE ? b : a].inertia.m;
    if (a != NSI_NONE && b != NSI_NONE) mass = ns_min(mass, robot->body[b].inertia.m);
    return ns_mul(ns_const(-DRIVEN_SHARE / (dt * points)), mass);
}

static point_resistance find_point_resistance(const nsi_robot* robot, const traced_point* p,
                                              const point_slopes* slopes, uint32_t i, ns_expr least,
                                              double dt) {
    // Normal: the damping, and what the stiffness gains during the step.
    point_resistance r;
    ns_expr gained = ns_mul(ns_const(dt), slopes->by_depth[i]);
    r.normal = ns_max(ns_sub(gained, slopes->by_velocity[0][i]), least);

    // Friction: its secant f / v, which cannot reverse the slip; its slope would let it tremble. At
    // rest the slopes in all directions are the same, and the secant is their limit. Directions in
    // which nothing can move have none.
    ns_expr v[2] = {p->velocity[1], p->velocity[2]};
    ns_expr both = ns_add(slopes->by_velocity[1][i], slopes->by_velocity[2][i]);
    ns_expr square = ns_add(ns_mul(v[0], v[0]), ns_mul(v[1], v[1]));
    ns_expr slides = ns_gt(square, ns_const(1e-16)); // 1e-8 m/s
    ns_expr power = ns_add(ns_mul(p->along[1], v[0]), ns_mul(p->along[2], v[1]));
    ns_expr secant = ns_div(power, ns_select(slides, square, ns_const(1.0)));
    bool one = is_constant(robot, v[0]) || is_constant(robot, v[1]);
    ns_expr slope = ns_select(slides, secant, one ? both : ns_mul(ns_const(0.5), both));
    r.tangent = ns_max(ns_neg(slope), least);
    return r;
}

// The resistance of a point at r with normal n as one to twists about the origin:
// J' (t 1 + (g - t) n n') J with J = [-rx 1], so t times the inertia of a unit mass at r, and
// (g - t) m m' with m = (r x n, n).
static art_inertia resist_twists(point_resistance p, vec3 r, vec3 n) {
    ns_expr t = p.tangent, more = ns_sub(p.normal, t);
    vec3 arm = v3_cross(r, n), weighted_arm = v3_scale(more, arm), weighted_n = v3_scale(more, n);
    vec3 h = v3_scale(t, r);
    ns_expr square = v3_dot(h, r), zero = ns_const(0.0);
    art_inertia B;
    mat3 hx = m3_skew(h);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            B.H.e[i][j] = ns_add(hx.e[i][j], ns_mul(weighted_arm.e[i], n.e[j]));
            if (j < i) {
                B.I.e[i][j] = B.I.e[j][i];
                B.M.e[i][j] = B.M.e[j][i];
                continue;
            }
            ns_expr unit = ns_sub(i == j ? square : zero, ns_mul(h.e[i], r.e[j]));
            B.I.e[i][j] = ns_add(unit, ns_mul(weighted_arm.e[i], arm.e[j]));
            B.M.e[i][j] = ns_add(i == j ? t : zero, ns_mul(weighted_n.e[i], n.e[j]));
        }
    }
    return B;
}

// The resistance where a condition holds, else none.
static art_inertia ai_where(ns_expr condition, art_inertia a) {
    ns_expr zero = ns_const(0.0);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            a.H.e[i][j] = ns_select(condition, a.H.e[i][j], zero);
            a.I.e[i][j] = j < i ? a.I.e[j][i] : ns_select(condition, a.I.e[i][j], zero);
            a.M.e[i][j] = j < i ? a.M.e[j][i] : ns_select(condition, a.M.e[i][j], zero);
        }
    }
    return a;
}

static art_inertia ai_zero(void) {
    ns_expr zero = ns_const(0.0);
    art_inertia a;
    for (int i = 0; i < 9; i++) {
        a.I.e[i / 3][i % 3] = a.H.e[i / 3][i % 3] = a.M.e[i / 3][i % 3] = zero;
    }
    return a;
}

static vec3 v3_where(ns_expr condition, vec3 x) {
    for (int k = 0; k < 3; k++) x.e[k] = ns_select(condition, x.e[k], ns_const(0.0));
    return x;
}

// The resistance of the points of a pair, in the frame of a body, or of the world (NSI_NONE). The last
// steps are selects with the conditions that the forces have: what leads there is skipped with them.
// Of one or two points these are the 8 numbers of each, of more the 21 of their sum.
static art_inertia resist_points(const nsi_robot* robot, const nsi_link_pose* pose,
                                 const traced_point* points, const point_slopes* slopes,
                                 uint32_t first, uint32_t count, uint32_t frame, double dt) {
    const nsi_candidate* c = points[first].candidate;
    ns_expr least = most_driven(robot, c, count, dt), step = ns_const(dt);
    art_inertia sum = ai_zero();
    for (uint32_t i = first; i < first + count; i++) {
        const nsi_contact_point* point = &points[i].candidate->point;
        point_resistance r = find_point_resistance(robot, &points[i], slopes, i, least, dt);
        vec3 across = v3(ns_mul(step, r.normal), ns_mul(step, r.tangent), ns_const(0.0));
        vec3 at = point->position, n = point->normal;
        if (frame != NSI_NONE) {
            at = m3_apply_t(pose[frame].R, v3_sub(at, pose[frame].position));
            n = m3_apply_t(pose[frame].R, n);
        }
        across = v3_where(points[i].touching, across);
        if (count <= 2) {
            across = v3_where(c->near, across);
            at = v3_where(c->near, v3_where(points[i].touching, at));
            n = v3_where(c->near, v3_where(points[i].touching, n));
        }
        r = (point_resistance){across.e[0], across.e[1]};
        sum = ai_add(sum, resist_twists(r, at, n));
    }
    return count <= 2 ? sum : ai_where(c->near, sum);
}

// Add what the points of one pair resist. On a body that touches the world it acts in the body's own
// frame, where the articulated body algorithm takes it in; two moving bodies are coupled by it.
static void resist_pair(const nsi_robot* robot, const nsi_link_pose* pose,
                        const traced_point* points, const point_slopes* slopes, uint32_t first,
                        uint32_t count, double dt, nsi_contact_resistance* out) {
    const nsi_candidate* c = points[first].candidate;
    uint32_t own = c->body_a == NSI_NONE ? c->body_b : c->body_a;
    uint32_t frame = out->body ? own : NSI_NONE;
    art_inertia B = resist_points(robot, pose, points, slopes, first, count, frame, dt);
    if (out->body) {
        out->body[own] = ai_add(out->body[own], B);
    } else {
        out->coupling[out->ncoupling++] = (nsi_contact_coupling){c->body_a, c->body_b, B};
    }

    // Last, so that the back ends know when they come to the above that these are computed anyway
    // (regions.c).
    ns_expr any = ns_const(0.0);
    for (uint32_t i = first; i < first + count; i++) any = ns_or(any, points[i].touching);
    out->any = ns_or(out->any, ns_select(c->near, any, ns_const(0.0)));
}

// ---- the stage -------------------------------------------------------------------------------

// Forces of one law. Pair by pair: of one that is far apart not even the points need be computed.
static void trace_forces(const nsi_robot* robot, const nsi_contact_options* options, int law,
                         double dt, force* external, nsi_contact_resistance* resistance) {
    nsi_candidates candidates;
    nsi_link_pose* pose = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *pose);
    if (!pose) return;
    nsi_link_poses(robot, pose);
    if (!nsi_candidates_find(robot, pose, options, law, NULL, &candidates)) return;
    nsi_candidates_name(robot, &candidates);
    traced_point* points = nsi_robot_alloc(robot, candidates.count, sizeof *points);
    if (!points) return;
    for (uint32_t k = 0; k < candidates.count;) {
        const nsi_candidate* first = &candidates.data[k];
        force on_a = fo_zero(), on_b = fo_zero();
        for (; k < candidates.count && candidates.data[k].pair == first->pair; k++) {
            trace_point(robot, pose, &candidates.data[k], &on_a, &on_b, &points[k]);
        }
        uint32_t a = first->body_a, b = first->body_b;
        if (a != NSI_NONE) external[a] = fo_add(external[a], fo_where(first->near, on_a));
        if (b != NSI_NONE) external[b] = fo_add(external[b], fo_where(first->near, on_b));
    }

    // What the forces resist over the step.
    point_slopes slopes;
    if (!resistance || !find_slopes(robot, points, candidates.count, &slopes)) return;
    for (uint32_t k = 0, count; k < candidates.count; k += count) {
        count = 1;
        while (k + count < candidates.count &&
               candidates.data[k + count].pair == candidates.data[k].pair) {
            count++;
        }
        const nsi_candidate* c = &candidates.data[k];
        int moving = (c->body_a != NSI_NONE) + (c->body_b != NSI_NONE);
        if (moving == 0 || (moving == 2 && resistance->body)) continue;
        resist_pair(robot, pose, points, &slopes, k, count, dt, resistance);
    }
}

// Velocities of a model up to which pairs of moving bodies are taken implicitly: they take a full mass
// matrix, nv^3 / 3 operations. Above that only what touches the world is.
enum { MAX_COUPLED = 36 };

// Is there a pair of a law of this stage whose bodies both move?
static bool couples_bodies(const nsi_robot* robot, const nsi_contact_options* options) {
    const ns_model* m = robot->model;
    for (uint32_t i = 0; i < m->sizes.ncontact; i++) {
        const nsi_contact* pair = &m->contacts[i];
        int law = options->model < 0 ? (int)pair->def.model : options->model;
        if (ns_contact_law_get(law)->stage != NS_CONTACT_STAGE_FORCES) continue;
        uint32_t a = m->geoms[pair->a].link, b = m->geoms[pair->b].link;
        if (a == NSI_NONE || b == NSI_NONE) continue;
        if (robot->place[a].body != NSI_NONE && robot->place[b].body != NSI_NONE) return true;
    }
    return false;
}

nsi_contact_resistance* nsi_contact_forces(const nsi_robot* robot,
                                           const nsi_contact_options* options, double dt,
                                           bool implicit, force* external) {
    // Room for what the forces resist: by body where all touch the world only.
    const ns_model* m = robot->model;
    nsi_contact_resistance* resistance = NULL;
    for (int law = 0; implicit && law < nsi_contact_law_count() && !resistance; law++) {
        if (ns_contact_law_get(law)->stage != NS_CONTACT_STAGE_FORCES) continue;
        if (nsi_candidates_count(m, options, law) == 0) continue;
        resistance = nsi_robot_alloc(robot, 1, sizeof *resistance);
        if (!resistance) return NULL;
        *resistance = (nsi_contact_resistance){.any = ns_const(0.0)};
        if (m->has_mimic || (couples_bodies(robot, options) && m->sizes.nv <= MAX_COUPLED)) {
            resistance->coupling =
                nsi_robot_alloc(robot, m->sizes.ncontact, sizeof *resistance->coupling);
        } else {
            resistance->body = nsi_robot_alloc(robot, m->sizes.nlink, sizeof *resistance->body);
            for (uint32_t i = 0; resistance->body && i < m->sizes.nlink; i++) {
                resistance->body[i] = ai_zero();
            }
        }
        if (!resistance->coupling && !resistance->body) return NULL;
    }

    for (int law = 0; law < nsi_contact_law_count(); law++) {
        if (ns_contact_law_get(law)->stage != NS_CONTACT_STAGE_FORCES) continue;
        if (nsi_candidates_count(m, options, law) == 0) continue;
        trace_forces(robot, options, law, dt, external, resistance);
    }
    return resistance;
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

bool nsi_contact_is_diagnostic(const char* quantity) {
    static const char* const names[] = {"contact/residual", "contact/relaxation", "contact/solves",
                                        "contact/sweeps"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (strcmp(quantity, names[k]) == 0) return true;
    }
    return false;
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
