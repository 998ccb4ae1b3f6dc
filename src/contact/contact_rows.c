// Rows of rigid contact: Jacobians of contact points and the masses they feel.

#include "contact/contact_rows.h"

#include "dyn/equality.h"
#include "dyn/solve.h"

#include <math.h>
#include <stddef.h>

const ns_contact_param nsi_rigid_params[NSI_RIGID_NPARAM] = {
    [NSI_RIGID_MU] = {.name = "mu",
                      .may_vanish = true,
                      .unit = "",
                      .value = NS_CONTACT_AUTO,
                      .upper = INFINITY,
                      .field = offsetof(ns_contact_def, mu)},
    [NSI_RIGID_RESTITUTION] = {.name = "restitution",
                               .unit = "",
                               .value = NS_CONTACT_AUTO,
                               .upper = 1.0,
                               .attribute = true,
                               .field = offsetof(ns_contact_def, restitution)},
    [NSI_RIGID_BETA] = {.name = "baumgarte_beta",
                        .unit = "",
                        .value = 0.2,
                        .upper = 1.0,
                        .field = offsetof(ns_contact_def, baumgarte_beta)},
    [NSI_RIGID_MAX_PUSH] = {.name = "max_push",
                            .unit = "m/s",
                            .value = 2.0,
                            .upper = INFINITY,
                            .field = offsetof(ns_contact_def, max_push)},
    [NSI_RIGID_CFM] = {.name = "cfm",
                       .unit = "",
                       .value = 1e-4,
                       .upper = INFINITY,
                       .field = offsetof(ns_contact_def, cfm)},
    [NSI_RIGID_MARGIN] = {.name = "margin",
                          .unit = "m",
                          .value = 0.02,
                          .upper = INFINITY,
                          .field = offsetof(ns_contact_def, margin)},
    [NSI_RIGID_MU_TORSION] = {.name = "mu_torsion",
                              .may_vanish = true,
                              .optional = true,
                              .unit = "m",
                              .value = NS_CONTACT_AUTO,
                              .upper = INFINITY,
                              .field = offsetof(ns_contact_def, mu_torsion)},
    [NSI_RIGID_MU_ROLLING] = {.name = "mu_rolling",
                              .may_vanish = true,
                              .optional = true,
                              .unit = "m",
                              .value = NS_CONTACT_AUTO,
                              .upper = INFINITY,
                              .field = offsetof(ns_contact_def, mu_rolling)},
    [NSI_RIGID_ALPHA] = {.name = "baumgarte_alpha",
                         .unit = "",
                         .value = 1.0,
                         .upper = 1.0,
                         .field = offsetof(ns_contact_def, baumgarte_alpha)},
};

bool nsi_contact_fits(const nsi_robot* robot, uint32_t n) {
    uint32_t nv = robot->model->sizes.nv;
    if (n > NSI_NCP_MAX_CONTACTS) {
        nsi_graph_fail(
            robot->graph, NS_ERR_LIMIT,
            "the model has %u points at which rigid bodies can touch; %d are possible: use"
            " spring contacts, leave out self-collision, or exclude pairs by groups",
            n, NSI_NCP_MAX_CONTACTS);
        return false;
    }
    if (nv > NSI_NCP_MAX_VELOCITIES) {
        nsi_graph_fail(robot->graph, NS_ERR_LIMIT,
                       "the model has %u velocities where %d are possible with rigid contact; use"
                       " the spring model",
                       nv, NSI_NCP_MAX_VELOCITIES);
        return false;
    }
    return true;
}

motion* nsi_unit_twists(const nsi_robot* robot, const nsi_link_pose* pose) {
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

// What the twist of a relative to b has along a direction of forces. Bodies that carry both sides move
// both alike.
static void twist_row(const nsi_robot* robot, const motion* twists, const nsi_candidate* candidate,
                      const vec3* d, vec3 moment, ns_expr* row) {
    const ns_model* model = robot->model;
    for (uint32_t k = 0; k < model->sizes.nv; k++) row[k] = ns_const(0.0);
    for (int side = 0; side < 2; side++) {
        uint32_t body = side == 0 ? candidate->body_a : candidate->body_b;
        uint32_t other = side == 0 ? candidate->body_b : candidate->body_a;
        for (uint32_t i = body; i != NSI_NONE; i = robot->body[i].parent) {
            if (other != NSI_NONE && body_carries(robot, i, other)) break;
            for (uint32_t k = 0; k < robot->body[i].nv; k++) {
                const motion* twist = &twists[i * NSI_MAX_DOF + k];
                ns_expr x = v3_dot(moment, twist->w);
                if (d) x = ns_add(v3_dot(*d, twist->v), x);
                ns_expr* to = &row[model->links[i].v + k];
                *to = side == 0 ? ns_add(*to, x) : ns_sub(*to, x);
            }
        }
    }
}

void nsi_contact_row(const nsi_robot* robot, const motion* twists, const nsi_candidate* candidate,
                     vec3 d, ns_expr* row) {
    twist_row(robot, twists, candidate, &d, v3_cross(candidate->point.position, d), row);
}

ns_expr nsi_row_product(uint32_t n, const ns_expr* a, const ns_expr* b) {
    ns_expr sum = ns_const(0.0);
    for (uint32_t k = 0; k < n; k++) sum = ns_add(sum, ns_mul(a[k], b[k]));
    return sum;
}

// ---- blocks of rows ------------------------------------------------------------------------

ns_expr nsi_contact_block_mu(const nsi_robot* robot, const nsi_candidates* at_start,
                             const nsi_row_block* block) {
    static const uint32_t params[] = {[NSI_PART_POINT] = NSI_RIGID_MU,
                                      [NSI_PART_TORSION] = NSI_RIGID_MU_TORSION,
                                      [NSI_PART_ROLLING] = NSI_RIGID_MU_ROLLING};
    return nsi_candidate_param(robot, &at_start->data[block->candidate], params[block->part]);
}

ns_expr nsi_contact_block_flag(const nsi_row_block* block, ns_expr flag) {
    if (block->part == NSI_PART_POINT) return flag;
    ns_expr limited = ns_add(flag, ns_const(NSI_CONTACT_LIMITED));
    return ns_select(ns_gt(flag, ns_const(0.0)), limited, ns_const(0.0));
}

// The blocks of all candidates.
static bool list_blocks(const nsi_robot* robot, const nsi_candidates* at_start,
                        nsi_contact_rows* r) {
    r->blocks = nsi_robot_alloc(robot, 3 * (size_t)at_start->count, sizeof *r->blocks);
    if (!r->blocks) return false;
    for (uint32_t c = 0; c < at_start->count; c++) {
        for (nsi_contact_part part = NSI_PART_POINT; part <= NSI_PART_ROLLING; part++) {
            nsi_row_block block = {c, part};
            ns_expr mu = nsi_contact_block_mu(robot, at_start, &block);
            if (part != NSI_PART_POINT && nsi_is_zero_constant(robot, mu)) continue;
            r->blocks[r->n++] = block;
        }
    }
    r->rows = NSI_CONTACT_ROWS * r->n;
    return nsi_contact_fits(robot, r->n);
}

static bool allocate_rows(const nsi_robot* robot, nsi_contact_rows* r) {
    size_t nv = r->nv, rows = r->rows;
    ns_expr* at = nsi_robot_alloc(robot, nv * nv + nv + 2 * rows * nv, sizeof *at);
    if (!at) return false;
    r->M = at;
    r->root = r->M + nv * nv;
    r->J = r->root + nv;
    r->Z = r->J + rows * nv;
    return true;
}

void nsi_mass_factors(const nsi_robot* robot, const ns_expr* added, ns_expr* M, ns_expr* root) {
    uint32_t nv = robot->model->sizes.nv;
    nsi_crba(robot, M);
    for (uint32_t k = 0; k < nv && added; k++) {
        nsi_graph_round(robot->graph, M[k * nv + k].id); // adding zero changes no bit
        M[k * nv + k] = ns_add(M[k * nv + k], added[k]);
    }
    nsi_ltdl_factor(nv, M);
    for (uint32_t k = 0; k < nv; k++) root[k] = ns_sqrt(M[k * nv + k]);
}

// Row t of a block; false: a zero row.
static bool block_row(const nsi_robot* robot, const motion* twists, const nsi_contact_rows* r,
                      const nsi_row_block* block, uint32_t t, ns_expr* row) {
    const nsi_candidate* candidate = &r->candidates.data[block->candidate];
    const vec3* tangent = candidate->tangent;
    vec3 normal = candidate->point.normal;
    if (block->part == NSI_PART_POINT) {
        nsi_contact_row(robot, twists, candidate, t == 0 ? normal : tangent[t - 1], row);
        return true;
    }
    bool rolling = block->part == NSI_PART_ROLLING;
    bool moves = rolling ? t > 0 : t == 1;
    for (uint32_t k = 0; k < r->nv && !moves; k++) row[k] = ns_const(0.0);
    if (moves) twist_row(robot, twists, candidate, NULL, rolling ? tangent[t - 1] : normal, row);
    return moves;
}

// Rows feel the robot as equality constraints let it move.
static bool constrain_rows(const nsi_robot* robot, nsi_contact_rows* r) {
    nsi_equality rows;
    if (nsi_equality_count(robot->model) == 0) return true;
    if (!nsi_equality_rows(robot, &rows) || !nsi_equality_factor(robot, r->M, r->root, &rows)) {
        return false;
    }
    r->nconstraint = rows.n;
    r->answer = nsi_robot_alloc(robot, (size_t)r->rows * rows.n, sizeof *r->answer);
    if (!r->answer) return false;
    for (uint32_t i = 0; i < r->rows; i++) {
        nsi_equality_project(robot, &rows, r->Z + (size_t)i * r->nv,
                             r->answer + (size_t)i * rows.n);
    }
    return robot->graph->error.status == NS_OK;
}

bool nsi_contact_rows_build(const nsi_robot* robot, const nsi_contact_options* options, int law,
                            const nsi_candidates* at_start, const ns_expr* added,
                            nsi_contact_rows* out) {
    uint32_t nv = robot->model->sizes.nv;
    *out = (nsi_contact_rows){.nv = nv};
    nsi_link_pose* pose = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *pose);
    if (!pose || !list_blocks(robot, at_start, out) || !allocate_rows(robot, out)) return false;

    // Points at this configuration.
    nsi_link_poses(robot, pose);
    const motion* twists = nsi_unit_twists(robot, pose);
    if (!twists || !nsi_candidates_find(robot, pose, options, law, at_start, &out->candidates)) {
        return false;
    }
    nsi_candidates_follow(at_start, &out->candidates);

    nsi_mass_factors(robot, added, out->M, out->root);

    // Rows, and rows times the root of the inverse mass matrix.
    for (uint32_t i = 0; i < out->rows; i++) {
        const nsi_row_block* block = &out->blocks[i / NSI_CONTACT_ROWS];
        ns_expr *J = out->J + (size_t)i * nv, *z = out->Z + (size_t)i * nv;
        bool moves = block_row(robot, twists, out, block, i % NSI_CONTACT_ROWS, J);
        for (uint32_t k = 0; k < nv; k++) z[k] = J[k];
        if (!moves) continue;
        nsi_ltdl_begin(nv, out->M, z);
        for (uint32_t k = 0; k < nv; k++) z[k] = ns_mul(z[k], out->root[k]);
    }
    return constrain_rows(robot, out) && robot->graph->error.status == NS_OK;
}

// Name of the force of a row; NULL: a zero row.
static const char* block_row_name(const nsi_contact_rows* r, uint32_t i) {
    static const char* const names[][NSI_CONTACT_ROWS] = {
        [NSI_PART_POINT] = {"force/normal", "force/tangent1", "force/tangent2"},
        [NSI_PART_TORSION] = {NULL, "moment/normal", NULL},
        [NSI_PART_ROLLING] = {NULL, "moment/tangent1", "moment/tangent2"}};
    return names[r->blocks[i / NSI_CONTACT_ROWS].part][i % NSI_CONTACT_ROWS];
}

void nsi_contact_respond(const nsi_contact_rows* r, const ns_expr* g, ns_expr* out) {
    for (uint32_t k = 0; k < r->nv; k++) out[k] = ns_const(0.0);
    for (uint32_t i = 0; i < r->rows; i++) {
        if (!block_row_name(r, i)) continue; // a zero row
        for (uint32_t k = 0; k < r->nv; k++) {
            out[k] = ns_add(out[k], ns_mul(r->Z[(size_t)i * r->nv + k], g[i]));
        }
    }
    for (uint32_t k = 0; k < r->nv; k++) out[k] = ns_mul(out[k], r->root[k]);
    nsi_ltdl_finish(r->nv, r->M, out);
}

void nsi_contact_constraint_forces(const nsi_contact_rows* r, const ns_expr* g, double dt,
                                   ns_expr* forces) {
    ns_expr rate = ns_const(1.0 / dt);
    for (uint32_t k = 0; forces && k < r->nconstraint; k++) {
        ns_expr sum = ns_const(0.0);
        for (uint32_t i = 0; i < r->rows; i++) {
            sum = ns_add(sum, ns_mul(r->answer[(size_t)i * r->nconstraint + k], g[i]));
        }
        forces[k] = ns_add(forces[k], ns_mul(rate, sum));
    }
}

void nsi_contact_name_forces(const nsi_robot* robot, const nsi_contact_rows* r,
                             const nsi_candidates* at_start, double dt, const ns_expr* on,
                             ns_expr* l) {
    // Along normal and tangents: a network's force acts only on points in contact or about to be.
    for (uint32_t i = 0; i < r->rows; i++) {
        const nsi_row_block* block = &r->blocks[i / NSI_CONTACT_ROWS];
        const char* name = block_row_name(r, i);
        if (!name) continue;
        uint32_t c = block->candidate;
        const char* unit = block->part == NSI_PART_POINT ? "N" : "N m";
        ns_expr f = ns_mul(l[i], ns_const(1.0 / dt));
        ns_expr named = nsi_candidate_named(robot, &at_start->data[c], name, unit, f);
        f = named.id == f.id ? f : ns_select(on[c], named, ns_const(0.0));
        l[i] = ns_mul(f, ns_const(dt));
    }

    // In the world: as they act, in the directions of the rows.
    ns_expr rate = ns_const(1.0 / dt);
    for (uint32_t b = 0; b < r->n; b++) {
        if (r->blocks[b].part != NSI_PART_POINT) continue;
        const nsi_candidate* candidate = &r->candidates.data[r->blocks[b].candidate];
        const ns_expr* at = l + (size_t)b * NSI_CONTACT_ROWS;
        vec3 f = v3_scale(at[0], candidate->point.normal);
        f = v3_add(f, v3_scale(at[1], candidate->tangent[0]));
        f = v3_add(f, v3_scale(at[2], candidate->tangent[1]));
        nsi_candidate_force(robot, candidate, v3_scale(rate, f));
    }
}
