// The law "baumgarte": impulses at the level of velocities, with the papers' stabilisation terms.
//
// All contacts of a step are one problem, in the form that keeps gradients of an isolated impact usable
// (docs/contact-gradients.md): a contact that would be passed during the step acts at the time t of its
// impact, not after it has been passed. With gap phi, normal velocity vn0 and acceleration an at the
// start, vn = vn0 + dt an, the normal velocity w that is asked for at the end is
//
//     passed in this step, at t = -phi / vn:  max(0, -e (vn0 + an t) + an (dt - t)), of the impact
//     penetrating:                            max(0, -e vn0 + an dt) + push - rest
//     near:                                   -phi / dt, which only stops what others push through
//
// Masses and directions are those of the first impact, s = min t. The impulses l solve the
// conditions of ncp.h with A = J M^-1 J' (1 + cfm on the diagonal) and b = w - J (v + dt a); they
// act from max(t, s) on, which the positions feel. The push is real momentum, and an impact beside a
// resting contact is applied there too early: use the law "ncp" for anything but a comparison.

#include "contact/contact_rows.h"

static const double MAX_SWEPT = 4e6; // operations of sweeps in a step, about

// What a contact candidate asks for, from the state at the start of the step.
typedef struct contact_target {
    ns_expr passed; // 1: the gap closes in this step
    ns_expr time;   // of the impact, 0 unless passed
    ns_expr on;     // 1: takes part
    ns_expr target; // normal velocity asked for
} contact_target;

typedef struct problem {
    const nsi_robot* robot;
    const nsi_contact_options* options;
    int law;
    double dt;
    const ns_expr* qdd;        // (nv) accelerations without contact
    uint32_t nv, n;            // velocities, candidates
    nsi_candidates candidates; // at the start
    contact_target* target;    // (n)
    ns_expr first;             // time of the first impact
    nsi_contact_rows rows;     // at the first impact
    ns_expr* b;                // (rows)
    ns_expr *mu, *cfm, *on;    // (rows.n)
    ns_expr* acts;             // (n) `on` of candidates
    ns_expr* l;                // (rows) impulses
    ns_expr* scratch;          // (rows + nv)
} problem;

// Room for numbers of rows and of their blocks.
static bool allocate_problem_rows(problem* p) {
    size_t n = p->rows.n, rows = p->rows.rows;
    ns_expr* at = nsi_robot_alloc(p->robot, 3 * rows + 3 * n + p->n + p->nv, sizeof *at);
    if (!at) return false;
    p->b = at;
    p->l = p->b + rows;
    p->mu = p->l + rows;
    p->cfm = p->mu + n;
    p->on = p->cfm + n;
    p->acts = p->on + n;
    p->scratch = p->acts + p->n;
    return true;
}

// ---- the step --------------------------------------------------------------------------------

// Normal velocity after an impact within the step, from the velocities at the impact: a rotating
// body would gain energy from those at the start.
static ns_expr restitution_target(const problem* p, uint32_t c, const ns_expr* row) {
    ns_expr zero = ns_const(0.0), t = p->target[c].time;
    ns_expr e = nsi_candidate_param(p->robot, &p->candidates.data[c], NSI_RIGID_RESTITUTION);
    ns_expr vn = nsi_row_product(p->nv, row, p->robot->qd),
            an = nsi_row_product(p->nv, row, p->qdd);
    ns_expr after = ns_mul(an, ns_sub(ns_const(p->dt), t));
    return ns_max(zero, ns_sub(after, ns_mul(e, ns_add(vn, ns_mul(an, t)))));
}

// Impact time and target velocity of a candidate; `row` is the Jacobian of its normal.
static contact_target normal_target(const nsi_robot* robot, const nsi_link_pose* pose,
                                    const nsi_candidate* candidate, double step, const ns_expr* row,
                                    const ns_expr* qdd) {
    uint32_t nv = robot->model->sizes.nv;
    ns_expr zero = ns_const(0.0), one = ns_const(1.0), dt = ns_const(step);
    ns_expr phi = nsi_candidate_gap(robot, pose, candidate);
    ns_expr vn0 = nsi_candidate_named(robot, candidate, "velocity/normal", "m/s",
                                      nsi_row_product(nv, row, robot->qd));
    ns_expr an = nsi_row_product(nv, row, qdd), vn = ns_add(vn0, ns_mul(dt, an));
    ns_expr e = nsi_candidate_param(robot, candidate, NSI_RIGID_RESTITUTION);

    // An impact within the step, and its time.
    ns_expr outside = ns_ge(phi, zero);
    contact_target w;
    w.passed =
        ns_and(ns_and(outside, ns_lt(ns_add(phi, ns_mul(dt, vn)), zero)), candidate->point.exists);
    w.time = ns_select(w.passed, ns_neg(ns_div(phi, ns_select(w.passed, vn, one))), zero);

    // Penetrating: bounce, and undo part of the depth and of the closing speed.
    ns_expr closing = ns_max(zero, ns_neg(vn0));
    ns_expr alpha = nsi_candidate_param(robot, candidate, NSI_RIGID_ALPHA);
    ns_expr beta = nsi_candidate_param(robot, candidate, NSI_RIGID_BETA);
    ns_expr push = ns_min(ns_div(ns_mul(beta, ns_neg(phi)), dt),
                          nsi_candidate_param(robot, candidate, NSI_RIGID_MAX_PUSH));
    ns_expr inside = ns_max(zero, ns_add(ns_mul(e, closing), ns_mul(an, dt)));
    inside = ns_sub(ns_add(inside, push), ns_mul(ns_sub(one, alpha), closing));

    // Outside: close the gap and no more.
    ns_expr near = ns_neg(ns_div(phi, dt));
    w.target = ns_select(outside, near, inside);
    ns_expr margin = nsi_candidate_param(robot, candidate, NSI_RIGID_MARGIN);
    w.on = ns_and(ns_or(w.passed, ns_lt(phi, margin)), candidate->point.exists);
    return w;
}

// Targets of all candidates; the time of the first impact is 0 when there is none.
static bool find_targets(problem* p) {
    const nsi_robot* robot = p->robot;
    nsi_link_pose* pose = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *pose);
    ns_expr* row = nsi_robot_alloc(robot, p->nv, sizeof *row);
    p->target = nsi_robot_alloc(robot, p->n, sizeof *p->target);
    if (!pose || !row || !p->target) return false;

    // Points that may touch, and the directions of their joints.
    nsi_link_poses(robot, pose);
    const motion* twists = nsi_unit_twists(robot, pose);
    if (!twists || !nsi_candidates_find(robot, pose, p->options, p->law, NULL, &p->candidates)) {
        return false;
    }
    nsi_candidates_name(robot, &p->candidates);

    // Normal velocities to reach, and the earliest impact; tangential velocities are named.
    ns_expr first = ns_const(p->dt), any = ns_const(0.0);
    for (uint32_t c = 0; c < p->n; c++) {
        const nsi_candidate* candidate = &p->candidates.data[c];
        contact_target* w = &p->target[c];
        nsi_contact_row(robot, twists, candidate, candidate->point.normal, row);
        *w = normal_target(robot, pose, candidate, p->dt, row, p->qdd);
        first = ns_select(w->passed, ns_min(first, w->time), first);
        any = ns_or(any, w->passed);
        for (int k = 0; k < 2; k++) {
            nsi_contact_row(robot, twists, candidate, candidate->tangent[k], row);
            nsi_candidate_named(robot, candidate,
                                k == 0 ? "velocity/tangent1" : "velocity/tangent2", "m/s",
                                nsi_row_product(p->nv, row, robot->qd));
        }
    }
    p->first = ns_select(any, first, ns_const(0.0));
    return robot->graph->error.status == NS_OK;
}

// The robot as it is at the first impact.
static bool at_impact(const problem* p, nsi_robot* moved) {
    const nsi_robot* robot = p->robot;
    ns_expr* q = nsi_robot_alloc(robot, robot->model->sizes.nq, sizeof *q);
    ns_expr* dq = nsi_robot_alloc(robot, p->nv, sizeof *dq);
    if (!q || !dq) return false;
    for (uint32_t k = 0; k < p->nv; k++) dq[k] = ns_mul(p->first, robot->qd[k]);
    nsi_integrate_config(robot->model, robot->q, dq, q);
    return nsi_robot_move(robot, q, robot->qd, moved);
}

// Masses and directions at the first impact, and the right-hand side; `qd` are the velocities without
// contact.
static bool build_problem(problem* p, const ns_expr* added, const ns_expr* qd) {
    nsi_robot moved;
    if (!at_impact(p, &moved)) return false;
    if (!nsi_contact_rows_build(&moved, p->options, p->law, &p->candidates, added, &p->rows) ||
        !allocate_problem_rows(p)) {
        return false;
    }
    for (uint32_t c = 0; c < p->n; c++) p->acts[c] = p->target[c].on;
    for (uint32_t i = 0; i < p->rows.rows; i++) {
        const ns_expr* row = p->rows.J + (size_t)i * p->nv;
        p->b[i] = ns_neg(nsi_row_product(p->nv, row, qd));
        if (i % NSI_CONTACT_ROWS > 0) continue;
        uint32_t c = i / NSI_CONTACT_ROWS;
        const nsi_row_block* block = &p->rows.blocks[c];
        const contact_target* w = &p->target[block->candidate];
        const nsi_candidate* candidate = &p->candidates.data[block->candidate];
        p->mu[c] = nsi_contact_block_mu(p->robot, &p->candidates, block);
        p->cfm[c] = nsi_candidate_param(p->robot, candidate, NSI_RIGID_CFM);
        p->on[c] = nsi_contact_block_flag(block, w->on);
        if (block->part != NSI_PART_POINT) continue;

        // An impact is not to lose speed to the regularisation: exact for a contact by itself.
        ns_expr bounce = restitution_target(p, block->candidate, row);
        ns_expr target = ns_select(w->passed, bounce, w->target);
        ns_expr softer = ns_add(ns_const(1.0), p->cfm[c]);
        p->b[i] = ns_add(p->b[i], target);
        p->b[i] = ns_select(w->passed, ns_mul(p->b[i], softer), p->b[i]);
    }
    return p->robot->graph->error.status == NS_OK;
}

// The impulses from the solver's block.
static void solve_block(const problem* p, nsi_impact* impact) {
    ns_graph* graph = p->robot->graph;
    uint32_t rows = p->rows.rows, n = p->rows.n, count = 0;
    nsi_id* inputs = nsi_robot_alloc(p->robot, rows * (p->nv + 1) + 3 * n, sizeof *inputs);
    if (!inputs) return;

    // Inputs, in the order that nsi_ncp expects.
    for (uint32_t i = 0; i < rows * p->nv; i++) inputs[count++] = p->rows.Z[i].id;
    for (uint32_t i = 0; i < rows; i++) inputs[count++] = p->b[i].id;
    for (uint32_t c = 0; c < n; c++) inputs[count++] = p->mu[c].id;
    for (uint32_t c = 0; c < n; c++) inputs[count++] = p->cfm[c].id;
    for (uint32_t c = 0; c < n; c++) inputs[count++] = p->on[c].id;

    // The block, and its impulses.
    nsi_block block = {.kind = &nsi_ncp,
                       .params = {n, p->options->friction, p->nv},
                       .ninput = count,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(graph, &block);
    for (uint32_t i = 0; i < rows; i++) p->l[i].id = nsi_graph_out(graph, node, i);

    // What the solver reports.
    static const char* const names[4] = {"contact/residual", "contact/sweeps", "contact/solves",
                                         "contact/relaxation"};
    ns_expr told[4];
    for (uint32_t k = 0; k < 4; k++) {
        told[k].id = nsi_graph_out(graph, node, rows + k);
        ns_quantity(names[k], told[k]);
    }
    impact->residual = told[0];
    impact->relaxation = told[3];
}

// The impulses by sweeps that are part of the graph; returns the residual.
static ns_expr solve_sweeps(const problem* p) {
    uint32_t rows = p->rows.rows, nv = p->nv;
    ns_expr zero = ns_const(0.0);

    // Only point contacts, and few operations.
    if (p->rows.n > p->n) {
        nsi_graph_fail(p->robot->graph, NS_ERR_UNSUPPORTED,
                       "a number of sweeps is not possible with torsional or rolling friction; set"
                       " mu_torsion and mu_rolling to 0, or solve exactly");
        return zero;
    }
    if ((double)rows * rows * p->options->sweeps > MAX_SWEPT) {
        nsi_graph_fail(p->robot->graph, NS_ERR_LIMIT,
                       "%u sweeps over %u rows are too many operations for one step: at most %.0f",
                       p->options->sweeps, rows, MAX_SWEPT / ((double)rows * rows));
        return zero;
    }

    // A = Z Z', softened on the diagonal.
    ns_expr* A = nsi_robot_alloc(p->robot, (size_t)rows * rows, sizeof *A);
    if (!A) return zero;
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            ns_expr a = nsi_row_product(nv, p->rows.Z + (size_t)i * nv, p->rows.Z + (size_t)j * nv);
            if (i == j) a = ns_mul(a, ns_add(ns_const(1.0), p->cfm[i / NSI_CONTACT_ROWS]));
            A[i * rows + j] = A[j * rows + i] = a;
        }
    }

    // Sweeps, and how well their impulses fulfil the conditions.
    nsi_friction friction = p->options->friction;
    nsi_ncp_sweeps(p->n, friction, p->options->sweeps, A, p->b, p->mu, p->on, p->l);
    ns_expr residual = nsi_ncp_residual(p->n, friction, A, p->b, p->mu, p->on, p->l);
    return ns_quantity("contact/residual", residual);
}

// Impulses into velocities and positions.
static void apply_impulses(const problem* p, nsi_impact* impact) {
    ns_expr *delayed = p->scratch, *jump = delayed + p->rows.rows;
    nsi_contact_name_forces(p->robot, &p->rows, &p->candidates, p->dt, p->acts, p->l);
    for (uint32_t i = 0; i < p->rows.rows; i++) {
        uint32_t c = p->rows.blocks[i / NSI_CONTACT_ROWS].candidate;
        ns_expr time = ns_max(p->target[c].time, p->first);
        delayed[i] = ns_mul(time, p->l[i]);
    }
    nsi_contact_constraint_forces(&p->rows, p->l, p->dt, impact->constraint);
    nsi_contact_respond(&p->rows, p->l, jump);
    for (uint32_t k = 0; k < p->nv; k++) impact->qd[k] = ns_add(impact->qd[k], jump[k]);
    nsi_contact_respond(&p->rows, delayed, impact->position_correction);
}

static void baumgarte_impulses(const nsi_robot* robot, const nsi_contact_options* options, int law,
                               double dt, const ns_expr* qdd, const ns_expr* added,
                               nsi_impact* impact) {
    problem p = {.robot = robot,
                 .options = options,
                 .law = law,
                 .dt = dt,
                 .qdd = qdd,
                 .nv = robot->model->sizes.nv,
                 .n = nsi_candidates_count(robot->model, options, law)};

    // From the targets by way of the conditions to impulses, and what they change.
    if (!nsi_contact_fits(robot, p.n)) return;
    if (!find_targets(&p) || !build_problem(&p, added, impact->qd)) return;
    if (options->sweeps > 0) {
        impact->residual = solve_sweeps(&p);
    } else {
        solve_block(&p, impact);
    }
    if (robot->graph->error.status != NS_OK) return;
    apply_impulses(&p, impact);
}

const nsi_contact_law nsi_contact_baumgarte = {
    .law = {.name = "baumgarte",
            .help = "rigid: impulses with the papers' Baumgarte terms",
            .params = nsi_rigid_params,
            .nparam = NSI_RIGID_NPARAM,
            .stage = NS_CONTACT_STAGE_IMPULSES},
    .impulses = baumgarte_impulses,
};
