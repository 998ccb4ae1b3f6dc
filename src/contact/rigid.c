// The law "ncp": rigid bodies with Coulomb friction.
//
// A step is divided at the first impact of each island, so that impacts happen where they happen and
// resting contacts carry load before and after them (contact_step.def has the equations). What a
// contact does in the step is decided at its start, from its gap phi, its normal velocity vn, and a, the
// acceleration of gravity (in its absence, that of the contact itself):
//
//     slow    vn >= -3 a dt: what a contact at rest can gain within some steps
//     rests   slow, and phi < margin: carries load; may close its gap but for phi0 = 3 a dt^2
//     passes  fast, and the gap closes in this step, at the share t = -phi / (dt vn') of it, vn' the
//             normal velocity at the end of the step without contact
//     late    fast and phi <= 0: it has passed in the last step, after another impact of its island
//     nears   fast, and the gap would close within three steps
//     follows passes after the impact of its island, or nears when there is one, without restitution: may
//             close its gap in the rest of the step. With restitution it is late in the next step
//
// An island consists of the trees of bodies that contacts of these classes connect. The impact
// is at s, the smallest t of the island, or at the start if a contact is late. All contacts that pass within
// a thousandth of a step take part in it, and those that rest and have closed their gap.
//
// Masses and directions are those at the impact. Coordinates move with the velocities at the end of the
// step, as they do in a step without impact: up to the impact with those without it, then with those
// after it, and by the position impulses, which add no momentum.

#include "contact/contact_classes.h"
#include "contact/contact_rows.h"
#include "contact/contact_step.h"
#include "contact/scene.h"

// A contact candidate at the start of the step. Truths are 1 or 0.
typedef struct contact_class {
    ns_expr phi, vn; // gap and normal velocity
    ns_expr faster;  // what a network at the normal velocity multiplies it by
    ns_expr a;       // m/s^2, what is slow
    ns_expr rests, passes, late, nears;
    ns_expr time;                 // share of the step at which it passes; 0 otherwise
    uint32_t tree[2];             // of the bodies it is between, or NSI_NONE
    ns_expr hit, closed, follows; // see contact_step.h
    ns_expr share;                // of the step that is over at the impact of its island
} contact_class;

typedef struct rigid_step {
    const nsi_robot* robot;
    const nsi_contact_options* options;
    int law;
    double dt;
    const ns_expr* qdd; // (nv) accelerations without contact
    uint32_t nv, n;
    nsi_candidates candidates; // at the start
    contact_class* at;         // (n)
    uint32_t ntree;
    uint32_t* tree;          // (nlink) of each link
    ns_expr *share, *struck; // (ntree) share of the step at the impact, 0 without; 1: there is one
    nsi_contact_rows rows;   // at the impact
    ns_expr *l, *shift;      // (rows) impulses, and those that move coordinates in addition
} rigid_step;

static bool allocate_step(rigid_step* s) {
    const nsi_robot* robot = s->robot;
    size_t nlink = robot->model->sizes.nlink;
    s->at = nsi_robot_alloc(robot, s->n, sizeof *s->at);
    s->tree = nsi_robot_alloc(robot, nlink, sizeof *s->tree);
    s->share = nsi_robot_alloc(robot, nlink, sizeof *s->share);
    s->struck = nsi_robot_alloc(robot, nlink, sizeof *s->struck);
    return s->at && s->tree && s->share && s->struck;
}

// ---- what contacts do -------------------------------------------------------------------------

// The tree of a link, or NSI_NONE.
static uint32_t tree_of(const rigid_step* s, uint32_t link) {
    uint32_t body = link == NSI_NONE ? NSI_NONE : s->robot->place[link].body;
    return body == NSI_NONE ? NSI_NONE : s->tree[body];
}

// Trees that an equality constraint connects are one: they have their impacts together.
static void join_constrained_trees(rigid_step* s) {
    const ns_model* m = s->robot->model;
    for (uint32_t i = 0; i < m->sizes.nequality; i++) {
        const nsi_equality_constraint* e = &m->equalities[i];
        uint32_t a = tree_of(s, e->a), b = tree_of(s, e->b);
        if (e->def.inactive || a == NSI_NONE || b == NSI_NONE || a == b) continue;
        for (uint32_t k = 0; k < m->sizes.nlink; k++) {
            if (s->tree[k] == a) s->tree[k] = b;
        }
    }
}

// Number trees of bodies that move together; links that are fixed to others are no bodies.
static void number_trees(rigid_step* s) {
    const nsi_robot* robot = s->robot;
    s->ntree = 0;
    for (uint32_t i = 0; i < robot->model->sizes.nlink; i++) {
        s->tree[i] = NSI_NONE;
        if (robot->place[i].body != i) continue;
        uint32_t parent = robot->body[i].parent;
        s->tree[i] = parent == NSI_NONE ? s->ntree++ : s->tree[parent];
    }
    join_constrained_trees(s);
}

// `row` is the Jacobian of the candidate's normal.
static void classify_contact(const rigid_step* s, const nsi_link_pose* pose,
                             const nsi_candidate* candidate, const ns_expr* row, contact_class* c) {
    const nsi_robot* robot = s->robot;
    ns_expr one = ns_const(1.0);
    c->phi = nsi_candidate_gap(robot, pose, candidate);
    ns_expr speed = nsi_row_product(s->nv, row, robot->qd);
    c->vn = nsi_candidate_named(robot, candidate, "velocity/normal", "m/s", speed);
    c->faster = c->vn.id == speed.id ? one : ns_div_safe(c->vn, speed);
    vec3 g = nsi_robot_gravity(robot);
    nsi_contact_start start = {.exists = candidate->point.exists,
                               .phi = c->phi,
                               .vn = c->vn,
                               .an = nsi_row_product(s->nv, row, s->qdd),
                               .fall = ns_norm(3, g.e),
                               .margin = nsi_candidate_param(robot, candidate, NSI_RIGID_MARGIN)};
    nsi_contact_class found;
    nsi_contact_classify(s->dt, &start, &found);
    c->a = found.a;
    c->rests = found.rests;
    c->passes = found.passes;
    c->late = found.late;
    c->nears = found.nears;
    c->time = found.time;
    for (int side = 0; side < 2; side++) {
        uint32_t body = side == 0 ? candidate->body_a : candidate->body_b;
        c->tree[side] = body == NSI_NONE ? NSI_NONE : s->tree[body];
    }
}

// Classes of all candidates, at the start of the step.
static bool classify_all(rigid_step* s) {
    const nsi_robot* robot = s->robot;
    nsi_link_pose* pose = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *pose);
    ns_expr* row = nsi_robot_alloc(robot, s->nv, sizeof *row);
    if (!pose || !row) return false;
    nsi_link_poses(robot, pose);
    const motion* twists = nsi_unit_twists(robot, pose);
    if (!twists || !nsi_candidates_find(robot, pose, s->options, s->law, NULL, &s->candidates)) {
        return false;
    }
    nsi_candidates_name(robot, &s->candidates);

    static const char* const slips[2] = {"velocity/tangent1", "velocity/tangent2"};
    for (uint32_t c = 0; c < s->n; c++) {
        const nsi_candidate* candidate = &s->candidates.data[c];
        nsi_contact_row(robot, twists, candidate, candidate->point.normal, row);
        classify_contact(s, pose, candidate, row, &s->at[c]);
        for (int k = 0; k < 2; k++) {
            nsi_contact_row(robot, twists, candidate, candidate->tangent[k], row);
            nsi_candidate_named(robot, candidate, slips[k], "m/s",
                                nsi_row_product(s->nv, row, robot->qd));
        }
    }
    return robot->graph->error.status == NS_OK;
}

// ---- islands ----------------------------------------------------------------------------------

// Is the first contact between two trees that are not the same: the others follow it?
static bool is_link(const contact_class* c) {
    return c->tree[0] != NSI_NONE && c->tree[1] != NSI_NONE && c->tree[0] != c->tree[1];
}

// Does some contact between trees a and b rest or arrive? 0 or 1.
static ns_expr trees_touch(const rigid_step* s, uint32_t a, uint32_t b) {
    ns_expr touch = ns_const(0.0);
    for (uint32_t c = 0; c < s->n; c++) {
        const contact_class* at = &s->at[c];
        bool between =
            (at->tree[0] == a && at->tree[1] == b) || (at->tree[0] == b && at->tree[1] == a);
        if (between)
            touch = ns_or(touch, ns_or(at->rests, ns_or(at->passes, ns_or(at->late, at->nears))));
    }
    return touch;
}

static bool trees_can_touch(const rigid_step* s, uint32_t a, uint32_t b) {
    for (uint32_t c = 0; c < s->n; c++) {
        const contact_class* at = &s->at[c];
        if (!is_link(at)) continue;
        if ((at->tree[0] == a && at->tree[1] == b) || (at->tree[0] == b && at->tree[1] == a)) {
            return true;
        }
    }
    return false;
}

// One impact for trees that are connected: the earliest spreads from neighbour to neighbour, at most as
// often as there are others.
static void spread_impacts(rigid_step* s) {
    uint32_t count = s->ntree;
    ns_expr* touch = nsi_robot_alloc(s->robot, (size_t)count * count, sizeof *touch);
    bool* can = nsi_robot_alloc(s->robot, (size_t)count * count, sizeof *can);
    if (!touch || !can) return;

    // Pairs of trees that can touch, and whether they do.
    bool any = false;
    for (uint32_t a = 0; a < count; a++) {
        for (uint32_t b = 0; b < a; b++) {
            can[a * count + b] = trees_can_touch(s, a, b);
            any = any || can[a * count + b];
            if (can[a * count + b]) touch[a * count + b] = trees_touch(s, a, b);
        }
    }

    // Neighbours take the earlier impact of both, round by round.
    for (uint32_t round = 1; any && round < count; round++) {
        for (uint32_t a = 0; a < count; a++) {
            for (uint32_t b = 0; b < a; b++) {
                if (!can[a * count + b]) continue;
                ns_expr on = touch[a * count + b], first = ns_min(s->share[a], s->share[b]);
                ns_expr either = ns_or(s->struck[a], s->struck[b]);
                for (int side = 0; side < 2; side++) {
                    uint32_t t = side == 0 ? a : b;
                    s->share[t] = ns_select(on, first, s->share[t]);
                    s->struck[t] = ns_select(on, either, s->struck[t]);
                }
            }
        }
    }
}

// The time of the first impact of each island, and which contacts take part.
static void find_impacts(rigid_step* s) {
    ns_expr zero = ns_const(0.0), one = ns_const(1.0);

    // The earliest impact of each tree, then of its island; 0 where there is none.
    for (uint32_t t = 0; t < s->ntree; t++) s->share[t] = one, s->struck[t] = zero;
    for (uint32_t c = 0; c < s->n; c++) {
        const contact_class* at = &s->at[c];
        ns_expr event = ns_or(at->passes, at->late);
        for (int side = 0; side < 2; side++) {
            uint32_t t = at->tree[side];
            if (t == NSI_NONE || (side == 1 && t == at->tree[0])) continue;
            s->share[t] = ns_select(event, ns_min(s->share[t], at->time), s->share[t]);
            s->struck[t] = ns_or(s->struck[t], event);
        }
    }
    spread_impacts(s);
    for (uint32_t t = 0; t < s->ntree; t++) {
        s->share[t] = ns_select(s->struck[t], s->share[t], zero);
    }

    // Contacts that hit at that time, that follow later, and that are closed at it.
    for (uint32_t c = 0; c < s->n; c++) {
        contact_class* at = &s->at[c];
        uint32_t t = at->tree[0] != NSI_NONE ? at->tree[0] : at->tree[1];
        bool moves = t != NSI_NONE;
        ns_expr struck = moves ? s->struck[t] : zero;
        at->share = moves ? s->share[t] : zero;
        ns_expr now = ns_le(at->time, ns_add(at->share, ns_const(NSI_SIMULTANEOUS)));
        at->hit = ns_or(at->late, ns_and(at->passes, now));
        ns_expr e = nsi_candidate_param(s->robot, &s->candidates.data[c], NSI_RIGID_RESTITUTION);
        ns_expr later = ns_or(ns_select(at->hit, zero, at->passes), ns_and(at->nears, struck));
        at->follows = ns_and(later, ns_le(e, zero));
        ns_expr closed = nsi_contact_is_closed(s->dt, at->phi, at->vn, at->a, at->share);
        at->closed = ns_and(at->rests, ns_and(struck, closed));
    }
}

// A contact that passes was expected along its normal at the start. With points and normals at the impact:
// if the gap will still be open at the end of the step, the bodies miss each other.
static void drop_misses(rigid_step* s) {
    ns_expr one = ns_const(1.0), zero = ns_const(0.0), dt = ns_const(s->dt);
    for (uint32_t b = 0; b < s->rows.n; b++) {
        if (s->rows.blocks[b].part != NSI_PART_POINT) continue;
        uint32_t c = s->rows.blocks[b].candidate;
        contact_class* at = &s->at[c];

        // The gap at the impact, with what a network did to it, and how it changes from there on.
        ns_expr start = s->candidates.data[c].point.gap, gap = s->rows.candidates.data[c].point.gap;
        if (at->phi.id != start.id) gap = ns_add(gap, ns_sub(at->phi, start));
        const ns_expr* normal = s->rows.J + (size_t)b * NSI_CONTACT_ROWS * s->nv;
        ns_expr speed = ns_add(nsi_row_product(s->nv, normal, s->robot->qd),
                               ns_mul(dt, nsi_row_product(s->nv, normal, s->qdd)));
        ns_expr left = ns_mul(dt, ns_sub(one, at->share));
        ns_expr end = ns_add(gap, ns_mul(left, ns_mul(at->faster, speed)));
        ns_expr misses = ns_and(at->passes, ns_gt(end, ns_const(NSI_NEGLIGIBLE_GAP)));
        at->hit = ns_select(misses, zero, at->hit);
    }
}

// Does a contact take part in the step?
static ns_expr is_on(const contact_class* c) {
    return ns_or(c->follows, ns_or(c->rests, c->hit));
}

// Rows of contacts that are not on are zero. The back ends skip what leads to them alone.
static void clear_absent_rows(rigid_step* s) {
    ns_expr zero = ns_const(0.0);
    for (uint32_t i = 0; i < s->rows.rows; i++) {
        const nsi_row_block* block = &s->rows.blocks[i / NSI_CONTACT_ROWS];
        ns_expr on = is_on(&s->at[block->candidate]), *z = s->rows.Z + (size_t)i * s->nv;
        for (uint32_t k = 0; k < s->nv; k++) z[k] = ns_select(on, z[k], zero);
    }
}

// ---- the block --------------------------------------------------------------------------------

// The robot as it is at the impacts of its islands; `end` are the velocities without contact.
static bool move_to_impact(const rigid_step* s, const ns_expr* end, nsi_robot* moved) {
    const nsi_robot* robot = s->robot;
    const ns_model* model = robot->model;
    ns_expr* q = nsi_robot_alloc(robot, model->sizes.nq, sizeof *q);
    ns_expr* dq = nsi_robot_alloc(robot, s->nv, sizeof *dq);
    if (!q || !dq) return false;
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        if (s->tree[i] == NSI_NONE) continue;
        ns_expr time = ns_mul(ns_const(s->dt), s->share[s->tree[i]]);
        for (uint32_t k = 0; k < robot->body[i].nv; k++) {
            uint32_t v = model->links[i].v + k;
            dq[v] = ns_mul(time, end[v]);
        }
    }
    nsi_integrate_config(model, robot->q, dq, q);
    return nsi_robot_move(robot, q, robot->qd, moved);
}

// Inputs of the solver's block that a block of rows has one of, in the solver's order, rows.n apart.
static void contact_inputs(const rigid_step* s, uint32_t b, nsi_id* to) {
    const nsi_row_block* block = &s->rows.blocks[b];
    const nsi_candidate* candidate = &s->candidates.data[block->candidate];
    const contact_class* at = &s->at[block->candidate];
    ns_expr zero = ns_const(0.0);
    nsi_contact_term_inputs in = {.phi = at->phi,
                                  .vn = at->vn,
                                  .a = at->a,
                                  .share = at->share,
                                  .hit = at->hit,
                                  .late = at->late,
                                  .beta = nsi_candidate_param(s->robot, candidate, NSI_RIGID_BETA),
                                  .max_push =
                                      nsi_candidate_param(s->robot, candidate, NSI_RIGID_MAX_PUSH)};
    nsi_contact_terms terms;
    nsi_contact_find_terms(s->dt, &in, &terms);

    ns_expr e = nsi_candidate_param(s->robot, candidate, NSI_RIGID_RESTITUTION);
    ns_expr kind = ns_add(ns_select(at->rests, ns_const(NSI_CONTACT_RESTS), zero),
                          ns_select(at->hit, ns_const(NSI_CONTACT_HIT), zero));
    kind = ns_add(kind, ns_select(at->closed, ns_const(NSI_CONTACT_CLOSED), zero));
    kind = ns_add(kind, ns_select(at->follows, ns_const(NSI_CONTACT_FOLLOWS), zero));
    const ns_expr inputs[] = {nsi_contact_block_mu(s->robot, &s->candidates, block),
                              nsi_candidate_param(s->robot, candidate, NSI_RIGID_CFM),
                              ns_mul(at->faster, e),
                              terms.gap,
                              at->share,
                              terms.slack,
                              terms.slack_after,
                              terms.goal,
                              terms.rise,
                              nsi_contact_block_flag(block, kind)};
    static const bool normal[] = {false, false, true, true, false, true, true, true, true, false};
    for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++) { // what only normals have, or all
        bool has = !normal[k] || block->part == NSI_PART_POINT;
        to[k * s->rows.n + b] = has ? inputs[k].id : zero.id;
    }
}

// Impulses of velocities and of positions.
static void solve_rigid_step(rigid_step* s, nsi_impact* impact) {
    ns_graph* graph = s->robot->graph;
    uint32_t nv = s->nv, n = s->rows.n, rows = s->rows.rows, count = 0;
    nsi_id* inputs = nsi_robot_alloc(
        s->robot, rows * (nv + 2) + (NSI_CONTACT_STEP_PER_CONTACT + 1) * n, sizeof *inputs);
    s->l = nsi_robot_alloc(s->robot, rows, sizeof *s->l);
    s->shift = nsi_robot_alloc(s->robot, rows, sizeof *s->shift);
    if (!inputs || !s->l || !s->shift) return;

    // The problem in velocities of rows.
    ns_expr dt = ns_const(s->dt);
    for (uint32_t i = 0; i < rows * nv; i++) inputs[count++] = s->rows.Z[i].id;
    for (uint32_t i = 0; i < rows; i++) {
        inputs[count++] = nsi_row_product(nv, s->rows.J + (size_t)i * nv, s->robot->qd).id;
    }
    for (uint32_t i = 0; i < rows; i++) {
        ns_expr a = nsi_row_product(nv, s->rows.J + (size_t)i * nv, s->qdd);
        inputs[count++] = ns_mul(dt, a).id;
    }
    for (uint32_t b = 0; b < n; b++) contact_inputs(s, b, inputs + count);
    count += (NSI_CONTACT_STEP_PER_CONTACT + 1) * n;

    nsi_block block = {.kind = &nsi_contact_step,
                       .params = {n, s->options->friction, nv},
                       .ninput = count,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(graph, &block);
    for (uint32_t i = 0; i < rows; i++) {
        s->l[i].id = nsi_graph_out(graph, node, i);
        s->shift[i].id = nsi_graph_out(graph, node, NSI_CONTACT_STEP_SHIFT(n) + i);
    }

    static const char* const told[4] = {"contact/residual", "contact/relaxation", "contact/sweeps",
                                        "contact/solves"};
    ns_expr said[4];
    for (uint32_t k = 0; k < 4; k++) {
        said[k].id = nsi_graph_out(graph, node, NSI_CONTACT_STEP_TOLD(n) + k);
        ns_quantity(told[k], said[k]);
    }
    impact->residual = said[0];
    impact->relaxation = said[1];
}

// Velocities, and what dt times them has too much of.
static void apply_step(rigid_step* s, nsi_impact* impact) {
    ns_expr* change = nsi_robot_alloc(s->robot, s->nv, sizeof *change);
    ns_expr* on = nsi_robot_alloc(s->robot, s->n, sizeof *on);
    if (!change || !on) return;
    for (uint32_t c = 0; c < s->n; c++) on[c] = is_on(&s->at[c]);
    nsi_contact_name_forces(s->robot, &s->rows, &s->candidates, s->dt, on, s->l);
    nsi_contact_constraint_forces(&s->rows, s->l, s->dt, impact->constraint);
    nsi_contact_respond(&s->rows, s->l, change);
    for (uint32_t k = 0; k < s->nv; k++) impact->qd[k] = ns_add(impact->qd[k], change[k]);
    nsi_contact_respond(&s->rows, s->shift, change);
    for (uint32_t k = 0; k < s->nv; k++) {
        impact->position_correction[k] = ns_mul(ns_const(-s->dt), change[k]);
    }
}

static void rigid_impulses(const nsi_robot* robot, const nsi_contact_options* options, int law,
                           double dt, const ns_expr* qdd, const ns_expr* added,
                           nsi_impact* impact) {
    rigid_step s = {.robot = robot,
                    .options = options,
                    .law = law,
                    .dt = dt,
                    .qdd = qdd,
                    .nv = robot->model->sizes.nv,
                    .n = nsi_candidates_count(robot->model, options, law)};
    if (options->sweeps > 0) {
        nsi_graph_fail(robot->graph, NS_ERR_ARGUMENT,
                       "a number of sweeps is for the contact law baumgarte; choose that law, or no"
                       " sweeps");
        return;
    }
    if (nsi_scene_is_wanted(robot, options, law)) {
        nsi_scene_impulses(robot, options, law, dt, qdd, added, impact);
        return;
    }
    if (!nsi_contact_fits(robot, s.n) || !allocate_step(&s)) return;

    // What each contact does, then the impacts.
    number_trees(&s);
    if (!classify_all(&s)) return;
    find_impacts(&s);

    // Impulses at the configuration of the impacts, and what they change.
    nsi_robot moved;
    if (!move_to_impact(&s, impact->qd, &moved)) return;
    if (!nsi_contact_rows_build(&moved, options, law, &s.candidates, added, &s.rows)) return;
    drop_misses(&s);
    clear_absent_rows(&s);
    solve_rigid_step(&s, impact);
    if (robot->graph->error.status != NS_OK) return;
    apply_step(&s, impact);
}

const nsi_contact_law nsi_contact_ncp = {
    .law = {.name = "ncp",
            .help = "rigid: impacts and resting contact with Coulomb friction",
            .params = nsi_rigid_params,
            .nparam = NSI_RIGID_ALPHA, // all but the last
            .stage = NS_CONTACT_STAGE_IMPULSES},
    .impulses = rigid_impulses,
};
