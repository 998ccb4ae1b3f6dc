// The law "convex": rigid bodies, with the convex relaxation of Coulomb friction (convex_block.h).
//
// All contacts of a step are one problem at the level of velocities. It always has one solution, which is
// always found; the price is that a contact that slides parts with mu times its slip. What is asked of a
// contact follows from its gap phi, its normal velocity vn and its acceleration an at the start, with
// slow contacts those with vn >= -3 a dt, a the acceleration of gravity (without it, an):
//
//     passes  fast, and the gap closes within the step, at t = -phi / (vn + dt an): the normal velocity
//             max(0, -e (vn + an t) + an (dt - t)), from t on
//     late    fast, phi <= 0: max(0, -e vn + an dt)
//     open    phi > 0: -phi / dt, which closes the gap within the step and no further
//     closed  phi <= 0: 0
//
// Sliding at speed s, an open contact therefore stays at the height phi = mu s dt. Masses and directions are
// those at the first impact. Where bodies overlap, the problem is solved once more, with contacts that push
// bodies apart: positions follow that solution, velocities do not, so no momentum is added.

#include "contact/contact_rows.h"
#include "contact/convex_block.h"

static const double CONVEX_SLOW_STEPS = 3.0;     // of free fall count as resting
static const double CONVEX_REFERENCE_MAX = 9.81; // m/s^2, without gravity

// What a contact candidate asks for, from the state at the start of the step. Truths are 1 or 0.
typedef struct convex_target {
    ns_expr passes, late;
    ns_expr time;   // of the impact, 0 unless it passes
    ns_expr on;     // takes part
    ns_expr normal; // normal velocity, unless it passes
    ns_expr push;   // velocity on top of it that positions feel
    ns_expr faster; // what a network at the normal velocity multiplies it by
} convex_target;

typedef struct convex_step {
    const nsi_robot* robot;
    const nsi_contact_options* options;
    int law;
    double dt;
    const ns_expr* qdd; // (nv) accelerations without contact
    uint32_t nv, n;
    nsi_candidates candidates; // at the start
    convex_target* target;     // (n)
    ns_expr first;             // s, time of the first impact; 0 without
    ns_expr overlap;           // 1: some bodies overlap
    nsi_contact_rows rows;     // at the first impact
    ns_expr *b, *b_position;   // (rows) right-hand sides for velocities and for positions
    ns_expr *l, *l_position;   // (rows) impulses
    ns_expr *mu, *cfm, *on;    // (rows.n)
    ns_expr* acts;             // (n) `on` of candidates
} convex_step;

// Room for numbers of rows and of their blocks.
static bool allocate_convex_rows(convex_step* s) {
    size_t rows = s->rows.rows, n = s->rows.n;
    ns_expr* at = nsi_robot_alloc(s->robot, 4 * rows + 3 * n + s->n, sizeof *at);
    if (!at) return false;
    s->b = at;
    s->b_position = s->b + rows;
    s->l = s->b_position + rows;
    s->l_position = s->l + rows;
    s->mu = s->l_position + rows;
    s->cfm = s->mu + n;
    s->on = s->cfm + n;
    s->acts = s->on + n;
    return true;
}

// ---- targets -----------------------------------------------------------------------------------

// `row` is the Jacobian of the candidate's normal.
static void find_convex_target(const convex_step* s, const nsi_link_pose* pose,
                               const nsi_candidate* candidate, const ns_expr* row,
                               convex_target* w) {
    const nsi_robot* robot = s->robot;
    ns_expr zero = ns_const(0.0), one = ns_const(1.0), dt = ns_const(s->dt);
    ns_expr phi = nsi_candidate_gap(robot, pose, candidate);
    ns_expr speed = nsi_row_product(s->nv, row, robot->qd);
    ns_expr vn = nsi_candidate_named(robot, candidate, "velocity/normal", "m/s", speed);
    ns_expr an = nsi_row_product(s->nv, row, s->qdd), end = ns_add(vn, ns_mul(dt, an));
    w->faster = vn.id == speed.id ? one : ns_div_safe(vn, speed);

    // Fast and arriving, or fast and already inside.
    vec3 g = nsi_robot_gravity(robot);
    ns_expr a = ns_max(ns_norm(3, g.e), ns_min(ns_abs(an), ns_const(CONVEX_REFERENCE_MAX)));
    ns_expr exists = candidate->point.exists, open = ns_gt(phi, zero);
    ns_expr slow = ns_le(ns_mul(ns_const(-CONVEX_SLOW_STEPS * s->dt), a), vn);
    ns_expr fast = ns_select(slow, zero, exists);
    ns_expr arrives = ns_and(open, ns_lt(ns_add(phi, ns_mul(dt, end)), zero));
    w->passes = ns_and(fast, arrives);
    w->late = ns_and(fast, ns_le(phi, zero));
    w->time = ns_select(w->passes, ns_neg(ns_div(phi, ns_select(w->passes, end, one))), zero);

    // The normal velocity, and how overlap is undone.
    ns_expr e = nsi_candidate_param(robot, candidate, NSI_RIGID_RESTITUTION);
    ns_expr bounce = ns_max(zero, ns_sub(ns_mul(dt, an), ns_mul(e, vn)));
    ns_expr closed = ns_select(w->late, bounce, zero);
    w->normal = ns_select(open, ns_neg(ns_div(phi, dt)), closed);
    ns_expr beta = nsi_candidate_param(robot, candidate, NSI_RIGID_BETA);
    ns_expr most = nsi_candidate_param(robot, candidate, NSI_RIGID_MAX_PUSH);
    ns_expr push = ns_min(ns_div(ns_mul(beta, ns_neg(phi)), dt), most);
    w->push = ns_select(open, zero, push);
    ns_expr margin = nsi_candidate_param(robot, candidate, NSI_RIGID_MARGIN);
    w->on = ns_and(exists, ns_or(w->passes, ns_lt(phi, margin)));
}

// Targets of all candidates, the first impact, and whether something overlaps.
static bool find_convex_targets(convex_step* s) {
    const nsi_robot* robot = s->robot;
    nsi_link_pose* pose = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *pose);
    ns_expr* row = nsi_robot_alloc(robot, s->nv, sizeof *row);
    s->target = nsi_robot_alloc(robot, s->n, sizeof *s->target);
    if (!pose || !row || !s->target) return false;

    // Points that may touch, and the directions of their joints.
    nsi_link_poses(robot, pose);
    const motion* twists = nsi_unit_twists(robot, pose);
    if (!twists || !nsi_candidates_find(robot, pose, s->options, s->law, NULL, &s->candidates)) {
        return false;
    }
    nsi_candidates_name(robot, &s->candidates);

    // Velocities to reach, the earliest impact and any overlap; tangential velocities are named.
    static const char* const slips[2] = {"velocity/tangent1", "velocity/tangent2"};
    ns_expr zero = ns_const(0.0), first = ns_const(s->dt), any = zero;
    s->overlap = zero;
    for (uint32_t c = 0; c < s->n; c++) {
        const nsi_candidate* candidate = &s->candidates.data[c];
        convex_target* w = &s->target[c];
        nsi_contact_row(robot, twists, candidate, candidate->point.normal, row);
        find_convex_target(s, pose, candidate, row, w);
        ns_expr impact = ns_or(w->passes, w->late);
        first = ns_select(impact, ns_min(first, w->time), first);
        any = ns_or(any, impact);
        s->overlap = ns_or(s->overlap, ns_and(w->on, ns_gt(w->push, zero)));
        for (int k = 0; k < 2; k++) {
            nsi_contact_row(robot, twists, candidate, candidate->tangent[k], row);
            nsi_candidate_named(robot, candidate, slips[k], "m/s",
                                nsi_row_product(s->nv, row, robot->qd));
        }
    }
    s->first = ns_select(any, first, zero);
    return robot->graph->error.status == NS_OK;
}

// ---- the problems ------------------------------------------------------------------------------

// The robot as it is at the first impact; `end` are the velocities without contact.
static bool move_to_first_impact(const convex_step* s, const ns_expr* end, nsi_robot* moved) {
    const nsi_robot* robot = s->robot;
    ns_expr* q = nsi_robot_alloc(robot, robot->model->sizes.nq, sizeof *q);
    ns_expr* dq = nsi_robot_alloc(robot, s->nv, sizeof *dq);
    if (!q || !dq) return false;
    for (uint32_t k = 0; k < s->nv; k++) dq[k] = ns_mul(s->first, end[k]);
    nsi_integrate_config(robot->model, robot->q, dq, q);
    return nsi_robot_move(robot, q, robot->qd, moved);
}

// Normal velocity after an impact within the step, from the velocities at the impact: a rotating body
// would gain energy from those at the start.
static ns_expr passing_target(const convex_step* s, uint32_t c, const ns_expr* row) {
    const convex_target* w = &s->target[c];
    ns_expr e = nsi_candidate_param(s->robot, &s->candidates.data[c], NSI_RIGID_RESTITUTION);
    ns_expr vn = nsi_row_product(s->nv, row, s->robot->qd),
            an = nsi_row_product(s->nv, row, s->qdd);
    ns_expr after = ns_mul(an, ns_sub(ns_const(s->dt), w->time));
    ns_expr before = ns_mul(w->faster, ns_add(vn, ns_mul(an, w->time)));
    return ns_max(ns_const(0.0), ns_sub(after, ns_mul(e, before)));
}

// Right-hand sides at the first impact; `qd` are the velocities without contact.
static void build_right_sides(convex_step* s, const ns_expr* qd) {
    ns_expr one = ns_const(1.0);
    for (uint32_t c = 0; c < s->n; c++) s->acts[c] = s->target[c].on;
    for (uint32_t c = 0; c < s->rows.n; c++) {
        const nsi_row_block* block = &s->rows.blocks[c];
        const convex_target* w = &s->target[block->candidate];
        const nsi_candidate* candidate = &s->candidates.data[block->candidate];
        s->mu[c] = nsi_contact_block_mu(s->robot, &s->candidates, block);
        s->cfm[c] = nsi_candidate_param(s->robot, candidate, NSI_RIGID_CFM);
        s->on[c] = nsi_contact_block_flag(block, w->on);

        // An impact is not to lose speed to the regularisation: exact for a contact by itself.
        ns_expr impact = ns_or(w->passes, w->late);
        ns_expr softer = ns_select(impact, ns_add(one, s->cfm[c]), one);
        for (uint32_t k = 0; k < NSI_CONTACT_ROWS; k++) {
            uint32_t i = c * NSI_CONTACT_ROWS + k;
            bool normal = k == 0 && block->part == NSI_PART_POINT;
            const ns_expr* row = s->rows.J + (size_t)i * s->nv;
            ns_expr b = ns_neg(nsi_row_product(s->nv, row, qd));
            if (normal) {
                ns_expr target = passing_target(s, block->candidate, row);
                b = ns_add(b, ns_select(w->passes, target, w->normal));
            }
            s->b[i] = s->b_position[i] = ns_mul(softer, b);
            if (normal) s->b_position[i] = ns_add(s->b[i], w->push);
        }
    }
}

// The impulses for right-hand side b; returns the node of the block.
static nsi_id solve_convex(const convex_step* s, const ns_expr* b, const ns_expr* on, ns_expr* l) {
    ns_graph* graph = s->robot->graph;
    uint32_t rows = s->rows.rows, n = s->rows.n, count = 0;
    nsi_id* inputs = nsi_robot_alloc(s->robot, rows * (s->nv + 1) + 3 * n, sizeof *inputs);
    if (!inputs) return NSI_NONE;
    for (uint32_t i = 0; i < rows * s->nv; i++) inputs[count++] = s->rows.Z[i].id;
    for (uint32_t i = 0; i < rows; i++) inputs[count++] = b[i].id;
    for (uint32_t c = 0; c < n; c++) inputs[count++] = s->mu[c].id;
    for (uint32_t c = 0; c < n; c++) inputs[count++] = s->cfm[c].id;
    for (uint32_t c = 0; c < n; c++) inputs[count++] = on[c].id;
    nsi_block block = {.kind = &nsi_convex,
                       .params = {n, s->nv},
                       .ninput = count,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(graph, &block);
    for (uint32_t i = 0; i < rows; i++) l[i].id = nsi_graph_out(graph, node, i);
    return node;
}

// Both problems; that of positions is empty, and free, unless something overlaps.
static void solve_both(convex_step* s, nsi_impact* impact) {
    ns_graph* graph = s->robot->graph;
    ns_expr* on = nsi_robot_alloc(s->robot, s->rows.n, sizeof *on);
    if (!on) return;
    for (uint32_t c = 0; c < s->rows.n; c++) {
        const nsi_row_block* block = &s->rows.blocks[c];
        on[c] = nsi_contact_block_flag(block, ns_and(s->acts[block->candidate], s->overlap));
    }
    nsi_id velocities = solve_convex(s, s->b, s->on, s->l);
    nsi_id positions = solve_convex(s, s->b_position, on, s->l_position);
    if (graph->error.status != NS_OK) return;

    // The worse residual, all Newton steps.
    static const char* const told[4] = {"contact/residual", "contact/sweeps", "contact/solves",
                                        "contact/relaxation"};
    ns_expr said[4];
    for (uint32_t k = 0; k < 4; k++) {
        ns_expr first = {nsi_graph_out(graph, velocities, s->rows.rows + k)};
        ns_expr second = {nsi_graph_out(graph, positions, s->rows.rows + k)};
        said[k] = k == 2 ? ns_add(first, second) : ns_max(first, second);
        ns_quantity(told[k], said[k]);
    }
    impact->residual = said[0];
    impact->relaxation = said[3];
}

// Velocities, and what dt times them has too much of: impulses before the impact, less the push.
static void apply_convex(const convex_step* s, nsi_impact* impact) {
    uint32_t rows = s->rows.rows;
    ns_expr* jump = nsi_robot_alloc(s->robot, s->nv, sizeof *jump);
    ns_expr* surplus = nsi_robot_alloc(s->robot, rows, sizeof *surplus);
    if (!jump || !surplus) return;
    ns_expr zero = ns_const(0.0), dt = ns_const(s->dt);
    for (uint32_t i = 0; i < rows; i++) {
        ns_expr push = ns_select(s->overlap, ns_sub(s->l_position[i], s->l[i]), zero);
        surplus[i] = ns_neg(ns_mul(dt, push));
    }
    nsi_contact_name_forces(s->robot, &s->rows, &s->candidates, s->dt, s->acts, s->l);
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t c = s->rows.blocks[i / NSI_CONTACT_ROWS].candidate;
        ns_expr time = ns_max(s->target[c].time, s->first);
        surplus[i] = ns_add(surplus[i], ns_mul(time, s->l[i]));
    }
    nsi_contact_constraint_forces(&s->rows, s->l, s->dt, impact->constraint);
    nsi_contact_respond(&s->rows, s->l, jump);
    for (uint32_t k = 0; k < s->nv; k++) impact->qd[k] = ns_add(impact->qd[k], jump[k]);
    nsi_contact_respond(&s->rows, surplus, impact->position_correction);
}

// ---- the law -----------------------------------------------------------------------------------

// Is this something that the law can do? Otherwise the graph has failed.
static bool convex_supports(const convex_step* s) {
    ns_graph* graph = s->robot->graph;
    if (s->options->sweeps > 0) {
        nsi_graph_fail(graph, NS_ERR_ARGUMENT,
                       "a number of sweeps is for the contact law baumgarte; choose that law, or no"
                       " sweeps");
    } else if (s->options->friction != NSI_FRICTION_CONE) {
        nsi_graph_fail(graph, NS_ERR_UNSUPPORTED,
                       "the contact law convex has a friction cone, not a pyramid; choose friction"
                       " cone, or the contact law ncp");
    } else if (s->nv > NSI_CONVEX_MAX_VELOCITIES) {
        nsi_graph_fail(graph, NS_ERR_LIMIT,
                       "the model has %u velocities where %d are possible with the contact law"
                       " convex; use ncp",
                       s->nv, NSI_CONVEX_MAX_VELOCITIES);
    }
    return graph->error.status == NS_OK && nsi_contact_fits(s->robot, s->n);
}

static void convex_impulses(const nsi_robot* robot, const nsi_contact_options* options, int law,
                            double dt, const ns_expr* qdd, const ns_expr* added,
                            nsi_impact* impact) {
    convex_step s = {.robot = robot,
                     .options = options,
                     .law = law,
                     .dt = dt,
                     .qdd = qdd,
                     .nv = robot->model->sizes.nv,
                     .n = nsi_candidates_count(robot->model, options, law)};
    if (!convex_supports(&s)) return;

    // What contacts ask for, then the rows at the first impact.
    nsi_robot moved;
    if (!find_convex_targets(&s) || !move_to_first_impact(&s, impact->qd, &moved)) return;
    if (!nsi_contact_rows_build(&moved, options, law, &s.candidates, added, &s.rows)) return;

    // Impulses, and what they change.
    if (!allocate_convex_rows(&s)) return;
    build_right_sides(&s, impact->qd);
    solve_both(&s, impact);
    if (robot->graph->error.status != NS_OK) return;
    apply_convex(&s, impact);
}

const nsi_contact_law nsi_contact_convex = {
    .law = {.name = "convex",
            .help = "rigid: impulses with the convex relaxation of Coulomb friction",
            .params = nsi_rigid_params,
            .nparam = NSI_RIGID_ALPHA, // all but the last
            .stage = NS_CONTACT_STAGE_IMPULSES},
    .impulses = convex_impulses,
};
