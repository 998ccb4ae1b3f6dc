// Rows of rigid contact: Jacobians of contact points and the masses they feel.

#include "contact/contact_rows.h"

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

// Bodies that carry both sides move both alike.
void nsi_contact_row(const nsi_robot* robot, const motion* twists, const nsi_candidate* candidate,
                     vec3 d, ns_expr* row) {
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

ns_expr nsi_row_product(uint32_t n, const ns_expr* a, const ns_expr* b) {
    ns_expr sum = ns_const(0.0);
    for (uint32_t k = 0; k < n; k++) sum = ns_add(sum, ns_mul(a[k], b[k]));
    return sum;
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

bool nsi_contact_rows_build(const nsi_robot* robot, const nsi_contact_options* options, int law,
                            const nsi_candidates* at_start, const ns_expr* added,
                            nsi_contact_rows* out) {
    uint32_t nv = robot->model->sizes.nv, n = nsi_candidates_count(robot->model, options, law);
    *out = (nsi_contact_rows){.nv = nv, .n = n, .rows = NSI_CONTACT_ROWS * n};
    nsi_link_pose* pose = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *pose);
    if (!pose || !allocate_rows(robot, out)) return false;

    // Points at this configuration.
    nsi_link_poses(robot, pose);
    const motion* twists = nsi_unit_twists(robot, pose);
    if (!twists || !nsi_candidates_find(robot, pose, options, law, &out->candidates)) return false;
    nsi_candidates_follow(at_start, &out->candidates);

    nsi_mass_factors(robot, added, out->M, out->root);

    // Rows, and rows times the root of the inverse mass matrix.
    for (uint32_t i = 0; i < out->rows; i++) {
        const nsi_candidate* candidate = &out->candidates.data[i / NSI_CONTACT_ROWS];
        uint32_t t = i % NSI_CONTACT_ROWS;
        ns_expr *J = out->J + (size_t)i * nv, *z = out->Z + (size_t)i * nv;
        nsi_contact_row(robot, twists, candidate,
                        t == 0 ? candidate->point.normal : candidate->tangent[t - 1], J);
        for (uint32_t k = 0; k < nv; k++) z[k] = J[k];
        nsi_ltdl_begin(nv, out->M, z);
        for (uint32_t k = 0; k < nv; k++) z[k] = ns_mul(z[k], out->root[k]);
    }
    return robot->graph->error.status == NS_OK;
}

void nsi_contact_respond(const nsi_contact_rows* r, const ns_expr* g, ns_expr* out) {
    for (uint32_t k = 0; k < r->nv; k++) out[k] = ns_const(0.0);
    for (uint32_t i = 0; i < r->rows; i++) {
        for (uint32_t k = 0; k < r->nv; k++) {
            out[k] = ns_add(out[k], ns_mul(r->Z[(size_t)i * r->nv + k], g[i]));
        }
    }
    for (uint32_t k = 0; k < r->nv; k++) out[k] = ns_mul(out[k], r->root[k]);
    nsi_ltdl_finish(r->nv, r->M, out);
}

void nsi_contact_name_forces(const nsi_robot* robot, const nsi_contact_rows* r,
                             const nsi_candidates* at_start, double dt, const ns_expr* on,
                             ns_expr* l) {
    static const char* const names[NSI_CONTACT_ROWS] = {"force/normal", "force/tangent1",
                                                        "force/tangent2"};
    // Along normal and tangents: a network's force acts only on points in contact or about to be.
    for (uint32_t i = 0; i < r->rows; i++) {
        uint32_t c = i / NSI_CONTACT_ROWS;
        ns_expr f = ns_mul(l[i], ns_const(1.0 / dt));
        ns_expr named =
            nsi_candidate_named(robot, &at_start->data[c], names[i % NSI_CONTACT_ROWS], "N", f);
        f = named.id == f.id ? f : ns_select(on[c], named, ns_const(0.0));
        l[i] = ns_mul(f, ns_const(dt));
    }

    // In the world: as they act, in the directions of the rows.
    ns_expr rate = ns_const(1.0 / dt);
    for (uint32_t c = 0; c < r->n; c++) {
        const nsi_candidate* candidate = &r->candidates.data[c];
        const ns_expr* at = l + (size_t)c * NSI_CONTACT_ROWS;
        vec3 f = v3_scale(at[0], candidate->point.normal);
        f = v3_add(f, v3_scale(at[1], candidate->tangent[0]));
        f = v3_add(f, v3_scale(at[2], candidate->tangent[1]));
        nsi_candidate_force(robot, candidate, v3_scale(rate, f));
    }
}
