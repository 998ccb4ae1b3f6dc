// Composite rigid body algorithm (RBDA table 6.2): the mass matrix.

#include "dyn/robot.h"

// A body's generalised force from a spatial force, in the model's order and of the followed joint.
static void project_force(const nsi_robot* robot, uint32_t i, force f, ns_expr* t) {
    const nsi_body* body = &robot->body[i];
    ns_expr scale = body->ratio;
    for (uint32_t k = 0; k < body->nv; k++) t[k] = ns_mul(scale, mo_dot(body->s[k], f));
    if (body->joint->map) body->joint->map->force_to_model(body, t);
}

// The twist of a unit of velocity k, in the model's order.
static motion unit_twist(const nsi_robot* robot, uint32_t i, uint32_t k) {
    const nsi_body* body = &robot->body[i];
    return body->joint->map ? body->joint->map->twist(body, k) : mo_scale(body->ratio, body->s[k]);
}

static void add_entry(ns_expr* M, uint32_t nv, uint32_t row, uint32_t column, ns_expr x) {
    M[row * nv + column] = ns_add(M[row * nv + column], x);
}

void nsi_crba(const nsi_robot* robot, ns_expr* M) {
    const ns_model* model = robot->model;
    uint32_t n = model->sizes.nlink, nv = model->sizes.nv;
    inertia* composite = nsi_robot_alloc(robot, n, sizeof *composite);
    if (!composite) return;
    for (uint32_t k = 0; k < nv * nv; k++) M[k] = ns_const(0.0);
    for (uint32_t i = 0; i < n; i++) composite[i] = robot->body[i].inertia;

    for (uint32_t i = n; i-- > 0;) {
        const nsi_body* body = &robot->body[i];
        const nsi_link* l = &model->links[i];
        if (body->nv == 0) continue;
        if (body->parent != NSI_NONE) {
            composite[body->parent] =
                in_add(composite[body->parent], tr_inertia_back(body->x, composite[i]));
        }

        // Columns of this joint's velocities: its own block, then those of the joints that carry it.
        ns_expr armature = nsi_robot_param(robot, i, NSI_JOINT_ARMATURE);
        ns_expr scale = body->ratio;
        for (uint32_t k = 0; k < body->nv; k++) {
            add_entry(M, nv, l->v + k, l->v + k, ns_mul(ns_mul(scale, scale), armature));
            force f = in_apply(composite[i], unit_twist(robot, i, k));
            ns_expr t[NSI_MAX_DOF];
            project_force(robot, i, f, t);
            for (uint32_t m = 0; m < body->nv; m++) {
                // The upper triangle mirrors the lower one exactly.
                if (m >= k) add_entry(M, nv, l->v + m, l->v + k, t[m]);
                if (m > k) add_entry(M, nv, l->v + k, l->v + m, t[m]);
            }
            for (uint32_t j = i; robot->body[j].parent != NSI_NONE;) {
                f = tr_force_back(robot->body[j].x, f);
                j = robot->body[j].parent;
                const nsi_link* up = &model->links[j];
                project_force(robot, j, f, t);
                for (uint32_t m = 0; m < robot->body[j].nv; m++) {
                    add_entry(M, nv, l->v + k, up->v + m, t[m]);
                    add_entry(M, nv, up->v + m, l->v + k, t[m]);
                }
            }
        }
    }

    for (uint32_t k = 0; robot->mass_change && k < nv * nv; k++) {
        M[k] = ns_add(M[k], robot->mass_change[k]);
    }
}
