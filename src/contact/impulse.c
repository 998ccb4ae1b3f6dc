// The law "ncp": velocities after the step that keep rigid bodies apart, with Coulomb friction.
//
// The form is the one that keeps gradients usable (docs/contact-gradients.md): a contact that
// would be passed during the step acts at the time t of its impact, not after it has been passed.
// With gap phi, normal velocity vn0 and acceleration an at the start, vn = vn0 + dt an, the normal
// velocity w that is asked for at the end is
//
//     passed in this step, at t = -phi / vn:  max(0, -e (vn0 + an t) + an (dt - t)), of the impact
//     penetrating:                            max(0, -e vn0 + an dt) + push - rest
//     near:                                   -phi / dt, which only stops what others push through
//
// Masses and directions are those of the first impact, s = min t. The impulses l solve the
// conditions of ncp.h with A = J M^-1 J' (1 + cfm on the diagonal) and b = w - J (v + dt a); they
// act from max(t, s) on, which the positions feel. With M = L' D L the rows of A = Z Z' are those
// of J L^-1 D^-1/2.

#include "contact/contact_stages.h"

#include "dyn/solve.h"

#include <math.h>
#include <stddef.h>

enum { MU, RESTITUTION, BAUMGARTE_ALPHA, BAUMGARTE_BETA, MAX_PUSH, CFM, MARGIN, NPARAM };

static const ns_contact_param ncp_params[NPARAM] = {
    [MU] = {.name = "mu",
            .may_vanish = true,
            .unit = "",
            .value = NS_CONTACT_AUTO,
            .upper = INFINITY,
            .field = offsetof(ns_contact_def, mu)},
    [RESTITUTION] = {.name = "restitution",
                     .unit = "",
                     .value = NS_CONTACT_AUTO,
                     .upper = 1.0,
                     .attribute = true,
                     .field = offsetof(ns_contact_def, restitution)},
    [BAUMGARTE_ALPHA] = {.name = "baumgarte_alpha",
                         .unit = "",
                         .value = 1.0,
                         .upper = 1.0,
                         .field = offsetof(ns_contact_def, baumgarte_alpha)},
    [BAUMGARTE_BETA] = {.name = "baumgarte_beta",
                        .unit = "",
                        .value = 0.2,
                        .upper = 1.0,
                        .field = offsetof(ns_contact_def, baumgarte_beta)},
    [MAX_PUSH] = {.name = "max_push",
                  .unit = "m/s",
                  .value = 2.0,
                  .upper = INFINITY,
                  .field = offsetof(ns_contact_def, max_push)},
    [CFM] = {.name = "cfm",
             .unit = "",
             .value = 1e-4,
             .upper = INFINITY,
             .field = offsetof(ns_contact_def, cfm)},
    [MARGIN] = {.name = "margin",
                .unit = "m",
                .value = 0.02,
                .upper = INFINITY,
                .field = offsetof(ns_contact_def, margin)},
};

static const double MAX_SWEPT = 4e6; // operations of sweeps in a step, about

enum { ROWS = 3 }; // of a candidate: along its normal and its two tangents

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
    const ns_expr* qdd;   // (nv) accelerations without contact
    uint32_t nv, n, rows; // velocities, candidates, rows
    nsi_link_pose* pose;  // (nlink)
    nsi_candidates candidates;
    nsi_candidates at_impact; // the same at the first impact
    contact_target* target;   // (n)
    ns_expr first;            // time of the first impact
    ns_expr* M;               // (nv x nv) factors of the mass matrix there
    ns_expr* root;            // (nv) D^-1/2
    ns_expr* Z;               // (rows x nv)
    ns_expr* b;               // (rows)
    ns_expr *mu, *cfm, *on;   // (n)
    ns_expr* l;               // (rows) impulses
    ns_expr* scratch;         // (rows + nv)
} problem;

static bool allocate_problem(problem* p) {
    size_t nv = p->nv, n = p->n, rows = p->rows;
    p->pose = nsi_robot_alloc(p->robot, p->robot->model->sizes.nlink, sizeof *p->pose);
    p->target = nsi_robot_alloc(p->robot, n, sizeof *p->target);
    size_t numbers = nv * nv + nv + rows * nv + 3 * rows + 3 * n + nv;
    ns_expr* at = nsi_robot_alloc(p->robot, numbers, sizeof *at);
    if (!p->pose || !p->target || !at) return false;
    p->M = at;
    p->root = p->M + nv * nv;
    p->Z = p->root + nv;
    p->b = p->Z + rows * nv;
    p->l = p->b + rows;
    p->mu = p->l + rows;
    p->cfm = p->mu + n;
    p->on = p->cfm + n;
    p->scratch = p->on + n;
    return true;
}

// ---- rows ------------------------------------------------------------------------------------

// The twists of unit velocities in the world and about its origin, NSI_MAX_DOF per link; NULL when
// out of memory.
static motion* unit_twists(const nsi_robot* robot, const nsi_link_pose* pose) {
    const ns_model* model = robot->model;
    motion* all = nsi_robot_alloc(robot, (size_t)model->sizes.nlink * NSI_MAX_DOF, sizeof *all);
    for (uint32_t i = 0; all && i < model->sizes.nlink; i++) {
        const nsi_body* body = &robot->body[i];
        for (uint32_t k = 0; k < body->nv; k++) {
            motion* twist = &all[i * NSI_MAX_DOF + k];
            *twist = nsi_unit_world_twist(body, pose[i].R, k);
            twist->v = v3_add(twist->v, v3_cross(pose[i].position, twist->w));
        }
    }
    return all;
}

static bool body_carries(const nsi_robot* robot, uint32_t ancestor, uint32_t body) {
    while (body != NSI_NONE && body > ancestor) body = robot->body[body].parent;
    return body == ancestor;
}

// Row of the Jacobian: velocity of a relative to b along d at p. Bodies that carry both move both
// alike.
static void jacobian_row(const nsi_robot* robot, const motion* twists,
                         const nsi_candidate* candidate, vec3 d, ns_expr* row) {
    const ns_model* model = robot->model;
    vec3 moment = v3_cross(candidate->point.position, d);
    for (uint32_t k = 0; k < model->sizes.nv; k++) row[k] = ns_const(0.0);
    for (int side = 0; side < 2; side++) {
        uint32_t body = side == 0 ? candidate->body_a : candidate->body_b;
        uint32_t other = side == 0 ? candidate->body_b : candidate->body_a;
        for (uint32_t i = body; i != NSI_NONE; i = robot->body[i].parent) {
            if (other != NSI_NONE && body_carries(robot, i, other)) break;
            for (uint32_t k = 0; k < robot->body[i].nv; k++) {
                const motion* twist = &twists[i * NSI_MAX_DOF + k];
                ns_expr x = ns_add(v3_dot(d, twist->v), v3_dot(moment, twist->w));
                ns_expr* to = &row[model->links[i].v + k];
                *to = side == 0 ? ns_add(*to, x) : ns_sub(*to, x);
            }
        }
    }
}

static ns_expr dot_product(uint32_t n, const ns_expr* a, const ns_expr* b) {
    ns_expr sum = ns_const(0.0);
    for (uint32_t k = 0; k < n; k++) sum = ns_add(sum, ns_mul(a[k], b[k]));
    return sum;
}

// ---- the step --------------------------------------------------------------------------------

// Normal velocity after an impact within the step, from the velocities at the impact: a rotating
// body would gain energy from those at the start.
static ns_expr restitution_target(const problem* p, uint32_t c, const ns_expr* row) {
    ns_expr zero = ns_const(0.0), t = p->target[c].time;
    ns_expr e = nsi_candidate_param(p->robot, &p->candidates.data[c], RESTITUTION);
    ns_expr vn = dot_product(p->nv, row, p->robot->qd), an = dot_product(p->nv, row, p->qdd);
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
                                      dot_product(nv, row, robot->qd));
    ns_expr an = dot_product(nv, row, qdd), vn = ns_add(vn0, ns_mul(dt, an));
    ns_expr e = nsi_candidate_param(robot, candidate, RESTITUTION);

    // An impact within the step, and its time.
    ns_expr outside = ns_ge(phi, zero);
    contact_target w;
    w.passed =
        ns_and(ns_and(outside, ns_lt(ns_add(phi, ns_mul(dt, vn)), zero)), candidate->point.exists);
    w.time = ns_select(w.passed, ns_neg(ns_div(phi, ns_select(w.passed, vn, one))), zero);

    // Penetrating: bounce, and undo part of the depth and of the closing speed.
    ns_expr closing = ns_max(zero, ns_neg(vn0));
    ns_expr alpha = nsi_candidate_param(robot, candidate, BAUMGARTE_ALPHA);
    ns_expr beta = nsi_candidate_param(robot, candidate, BAUMGARTE_BETA);
    ns_expr push = ns_min(ns_div(ns_mul(beta, ns_neg(phi)), dt),
                          nsi_candidate_param(robot, candidate, MAX_PUSH));
    ns_expr inside = ns_max(zero, ns_add(ns_mul(e, closing), ns_mul(an, dt)));
    inside = ns_sub(ns_add(inside, push), ns_mul(ns_sub(one, alpha), closing));

    // Outside: close the gap and no more.
    ns_expr near = ns_neg(ns_div(phi, dt));
    w.target = ns_select(outside, near, inside);
    ns_expr margin = nsi_candidate_param(robot, candidate, MARGIN);
    w.on = ns_and(ns_or(w.passed, ns_lt(phi, margin)), candidate->point.exists);
    return w;
}

// Targets of all candidates; the time of the first impact is 0 when there is none.
static bool find_targets(problem* p) {
    const nsi_robot* robot = p->robot;
    nsi_link_poses(robot, p->pose);
    const motion* twists = unit_twists(robot, p->pose);
    if (!twists || !nsi_candidates_find(robot, p->pose, p->options, p->law, &p->candidates)) {
        return false;
    }
    ns_expr first = ns_const(p->dt), any = ns_const(0.0), *row = p->scratch;
    for (uint32_t c = 0; c < p->n; c++) {
        const nsi_candidate* candidate = &p->candidates.data[c];
        contact_target* w = &p->target[c];
        jacobian_row(robot, twists, candidate, candidate->point.normal, row);
        *w = normal_target(robot, p->pose, candidate, p->dt, row, p->qdd);
        first = ns_select(w->passed, ns_min(first, w->time), first);
        any = ns_or(any, w->passed);
        for (int k = 0; k < 2; k++) {
            jacobian_row(robot, twists, candidate, candidate->tangent[k], row);
            nsi_candidate_named(robot, candidate,
                                k == 0 ? "velocity/tangent1" : "velocity/tangent2", "m/s",
                                dot_product(p->nv, row, robot->qd));
        }
    }
    p->first = ns_select(any, first, ns_const(0.0));
    return robot->graph->error.status == NS_OK;
}

// The robot as it is at the first impact.
static bool at_impact(const problem* p, nsi_robot* moved) {
    const nsi_robot* robot = p->robot;
    ns_expr* q = nsi_robot_alloc(robot, robot->model->sizes.nq, sizeof *q);
    if (!q) return false;
    ns_expr* dq = p->scratch;
    for (uint32_t k = 0; k < p->nv; k++) dq[k] = ns_mul(p->first, robot->qd[k]);
    nsi_integrate_config(robot->model, robot->q, dq, q);
    return nsi_robot_init(moved, robot->model, robot->param, q, robot->qd);
}

// Row i of b and Z. `z` is row i of J, `qd` the velocities without contact.
static void add_impulse_row(const problem* p, uint32_t i, ns_expr* z, const ns_expr* qd) {
    uint32_t c = i / ROWS, nv = p->nv;
    const contact_target* w = &p->target[c];
    const nsi_candidate* candidate = &p->candidates.data[c];
    p->b[i] = ns_neg(dot_product(nv, z, qd));
    ns_expr target = w->target;
    if (i % ROWS == 0) target = ns_select(w->passed, restitution_target(p, c, z), target);
    nsi_ltdl_begin(nv, p->M, z);
    for (uint32_t k = 0; k < nv; k++) z[k] = ns_mul(z[k], p->root[k]);
    if (i % ROWS > 0) return;
    p->mu[c] = nsi_candidate_param(p->robot, candidate, MU);
    p->cfm[c] = nsi_candidate_param(p->robot, candidate, CFM);
    p->on[c] = w->on;
    // An impact is not to lose speed to the regularisation: exact for a contact by itself.
    p->b[i] = ns_add(p->b[i], target);
    ns_expr softer = ns_add(ns_const(1.0), p->cfm[c]);
    p->b[i] = ns_select(w->passed, ns_mul(p->b[i], softer), p->b[i]);
}

// Masses and directions at the first impact.
static bool build_problem(problem* p, const ns_expr* added, const ns_expr* qd) {
    nsi_robot moved;
    if (!at_impact(p, &moved)) return false;
    nsi_link_poses(&moved, p->pose);
    const motion* twists = unit_twists(&moved, p->pose);
    if (!twists || !nsi_candidates_find(&moved, p->pose, p->options, p->law, &p->at_impact)) {
        return false;
    }
    nsi_crba(&moved, p->M);
    for (uint32_t k = 0; k < p->nv && added; k++) {
        nsi_graph_round(p->robot->graph, p->M[k * p->nv + k].id); // adding zero changes no bit
        p->M[k * p->nv + k] = ns_add(p->M[k * p->nv + k], added[k]);
    }
    nsi_ltdl_factor(p->nv, p->M);
    for (uint32_t k = 0; k < p->nv; k++) p->root[k] = ns_sqrt(p->M[k * p->nv + k]);
    for (uint32_t i = 0; i < p->rows; i++) {
        const nsi_candidate* candidate = &p->at_impact.data[i / ROWS];
        vec3 d = i % ROWS == 0 ? candidate->point.normal : candidate->tangent[i % ROWS - 1];
        ns_expr* z = p->Z + (size_t)i * p->nv;
        jacobian_row(&moved, twists, candidate, d, z);
        add_impulse_row(p, i, z, qd);
    }
    return p->robot->graph->error.status == NS_OK;
}

// The impulses from the solver's block; returns the residual.
static ns_expr solve_block(const problem* p) {
    ns_graph* graph = p->robot->graph;
    uint32_t rows = p->rows, count = 0;
    nsi_id* inputs = nsi_robot_alloc(p->robot, rows * (p->nv + 1) + 3 * p->n, sizeof *inputs);
    if (!inputs) return ns_const(0.0);
    for (uint32_t i = 0; i < rows * p->nv; i++) inputs[count++] = p->Z[i].id;
    for (uint32_t i = 0; i < rows; i++) inputs[count++] = p->b[i].id;
    for (uint32_t c = 0; c < p->n; c++) inputs[count++] = p->mu[c].id;
    for (uint32_t c = 0; c < p->n; c++) inputs[count++] = p->cfm[c].id;
    for (uint32_t c = 0; c < p->n; c++) inputs[count++] = p->on[c].id;
    nsi_block block = {.kind = &nsi_ncp,
                       .params = {p->n, p->options->friction, p->nv},
                       .ninput = count,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(graph, &block);
    for (uint32_t i = 0; i < rows; i++) p->l[i].id = nsi_graph_out(graph, node, i);
    ns_expr told[3];
    for (uint32_t k = 0; k < 3; k++) told[k].id = nsi_graph_out(graph, node, rows + k);
    ns_quantity("contact/residual", told[0]);
    ns_quantity("contact/sweeps", told[1]);
    ns_quantity("contact/solves", told[2]);
    return told[0];
}

// The impulses by sweeps that are part of the graph; returns the residual.
static ns_expr solve_sweeps(const problem* p) {
    uint32_t rows = p->rows, nv = p->nv;
    ns_expr zero = ns_const(0.0);
    if ((double)rows * rows * p->options->sweeps > MAX_SWEPT) {
        nsi_graph_fail(p->robot->graph, NS_ERR_LIMIT,
                       "%u sweeps over %u rows are too many operations for one step: at most %.0f",
                       p->options->sweeps, rows, MAX_SWEPT / ((double)rows * rows));
        return zero;
    }
    ns_expr* A = nsi_robot_alloc(p->robot, (size_t)rows * rows, sizeof *A);
    if (!A) return zero;
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            ns_expr a = dot_product(nv, p->Z + (size_t)i * nv, p->Z + (size_t)j * nv);
            if (i == j) a = ns_mul(a, ns_add(ns_const(1.0), p->cfm[i / ROWS]));
            A[i * rows + j] = A[j * rows + i] = a;
        }
    }
    nsi_friction friction = p->options->friction;
    nsi_ncp_sweeps(p->n, friction, p->options->sweeps, A, p->b, p->mu, p->on, p->l);
    ns_expr residual = nsi_ncp_residual(p->n, friction, A, p->b, p->mu, p->on, p->l);
    return ns_quantity("contact/residual", residual);
}

// M^-1 J' g for impulses g.
static void velocity_response(const problem* p, const ns_expr* g, ns_expr* out) {
    for (uint32_t k = 0; k < p->nv; k++) out[k] = ns_const(0.0);
    for (uint32_t i = 0; i < p->rows; i++) {
        for (uint32_t k = 0; k < p->nv; k++) {
            out[k] = ns_add(out[k], ns_mul(p->Z[i * p->nv + k], g[i]));
        }
    }
    for (uint32_t k = 0; k < p->nv; k++) out[k] = ns_mul(out[k], p->root[k]);
    nsi_ltdl_finish(p->nv, p->M, out);
}

// Name the forces in the world: as they act, in the directions at the first impact.
static void name_forces(const problem* p) {
    ns_expr rate = ns_const(1.0 / p->dt);
    for (uint32_t c = 0; c < p->n; c++) {
        const nsi_candidate* candidate = &p->at_impact.data[c];
        const ns_expr* l = p->l + (size_t)c * ROWS;
        vec3 f = v3_scale(l[0], candidate->point.normal);
        f = v3_add(f, v3_scale(l[1], candidate->tangent[0]));
        f = v3_add(f, v3_scale(l[2], candidate->tangent[1]));
        nsi_candidate_force(p->robot, candidate, v3_scale(rate, f));
    }
}

// Impulses into velocities and positions.
static void apply_impulses(const problem* p, nsi_impact* impact) {
    static const char* const names[ROWS] = {"force/normal", "force/tangent1", "force/tangent2"};
    ns_expr *delayed = p->scratch, *jump = delayed + p->rows;
    for (uint32_t i = 0; i < p->rows; i++) {
        uint32_t c = i / ROWS;
        ns_expr f = ns_mul(p->l[i], ns_const(1.0 / p->dt));
        ns_expr named =
            nsi_candidate_named(p->robot, &p->candidates.data[c], names[i % ROWS], "N", f);
        // A network's force acts only on points in contact or about to be.
        f = named.id == f.id ? f : ns_select(p->on[c], named, ns_const(0.0));
        p->l[i] = ns_mul(f, ns_const(p->dt));
        delayed[i] = ns_mul(ns_max(p->target[c].time, p->first), p->l[i]);
    }
    velocity_response(p, p->l, jump);
    for (uint32_t k = 0; k < p->nv; k++) impact->qd[k] = ns_add(impact->qd[k], jump[k]);
    velocity_response(p, delayed, impact->position_correction);
    name_forces(p);
}

static void ncp_impulses(const nsi_robot* robot, const nsi_contact_options* options, int law,
                         double dt, const ns_expr* qdd, const ns_expr* added, nsi_impact* impact) {
    uint32_t nv = robot->model->sizes.nv;
    uint32_t n = nsi_candidates_count(robot->model, options, law);

    // The solver's block has room for so much.
    if (n > NSI_NCP_MAX_CONTACTS) {
        nsi_graph_fail(robot->graph, NS_ERR_LIMIT,
                       "the model has %u points of rigid contact where %d are possible: use spring"
                       " contacts, leave out self-collision, or exclude pairs by groups",
                       n, NSI_NCP_MAX_CONTACTS);
        return;
    }
    if (nv > NSI_NCP_MAX_VELOCITIES) {
        nsi_graph_fail(robot->graph, NS_ERR_LIMIT,
                       "the model has %u velocities where %d are possible with rigid contact; use"
                       " the spring model",
                       nv, NSI_NCP_MAX_VELOCITIES);
        return;
    }

    problem p = {.robot = robot,
                 .options = options,
                 .law = law,
                 .dt = dt,
                 .qdd = qdd,
                 .nv = nv,
                 .n = n,
                 .rows = ROWS * n};

    // From the targets by way of the conditions to impulses, and what they change.
    if (!allocate_problem(&p) || !find_targets(&p) || !build_problem(&p, added, impact->qd)) return;
    impact->residual = options->sweeps > 0 ? solve_sweeps(&p) : solve_block(&p);
    if (robot->graph->error.status != NS_OK) return;
    apply_impulses(&p, impact);
}

const nsi_contact_law nsi_contact_ncp = {
    .law = {.name = "ncp",
            .help = "rigid: impulses with Coulomb friction",
            .params = ncp_params,
            .nparam = NPARAM,
            .stage = NS_CONTACT_STAGE_IMPULSES},
    .impulses = ncp_impulses,
};
