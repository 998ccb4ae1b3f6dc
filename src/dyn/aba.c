// Articulated body algorithm (Featherstone, Rigid Body Dynamics Algorithms, 2008, table 7.1).
// Gravity enters as an acceleration -g of the world.

#include "dyn/robot.h"
#include "dyn/solve.h"
#include "expr/graph.h"

typedef struct aba_body {
    art_inertia I;
    force p;
    motion c;                              // velocity product acceleration
    force U[NSI_MAX_DOF];                  // I S
    ns_expr LD[NSI_MAX_DOF * NSI_MAX_DOF]; // factors of D = S' I S
    ns_expr u[NSI_MAX_DOF];
    motion a;
} aba_body;

// What the diagonal of the mass matrix gets for velocity k of a joint, in the model's order.
static ns_expr added_inertia(const nsi_robot* robot, uint32_t link, const ns_expr* added,
                             uint32_t k) {
    ns_expr armature = nsi_robot_param(robot, link, NSI_JOINT_ARMATURE);
    return added ? ns_add(armature, added[robot->model->links[link].v + k]) : armature;
}

// The same for all its velocities.
static void added_inertias(const nsi_robot* robot, uint32_t link, const ns_expr* added,
                           ns_expr* out) {
    for (uint32_t k = 0; k < robot->body[link].nv; k++) {
        out[k] = added_inertia(robot, link, added, k);
    }
}

// What contact forces resist is a change of the velocities, which is the acceleration of the body less
// the part that it has without qdd: gravity, as above, and velocity products.
static void resist_contact(const nsi_robot* robot, uint32_t i, motion world, aba_body* all) {
    const nsi_body* body = &robot->body[i];
    aba_body* b = &all[i];
    const art_inertia* B = &robot->resistance->body[i];
    b->a = mo_add(tr_motion(body->x, body->parent == NSI_NONE ? world : all[body->parent].a), b->c);
    if (body->joint->info.in_world) { // its linear velocity is in the world
        b->a.v = v3_sub(b->a.v, v3_cross(body->velocity.w, body->velocity.v));
    }

    // Adding zero changes no bit.
    for (int k = 0; k < 9; k++) {
        nsi_graph_round(robot->graph, b->I.I.e[k / 3][k % 3].id);
        nsi_graph_round(robot->graph, b->I.H.e[k / 3][k % 3].id);
        nsi_graph_round(robot->graph, b->I.M.e[k / 3][k % 3].id);
    }
    for (int k = 0; k < 3; k++) {
        nsi_graph_round(robot->graph, b->p.n.e[k].id);
        nsi_graph_round(robot->graph, b->p.f.e[k].id);
    }
    b->I = ai_add(b->I, *B);
    b->p = fo_sub(b->p, ai_apply(*B, b->a));
}

// Pass 1: velocity products and bias forces.
static void begin_body(const nsi_robot* robot, uint32_t i, aba_body* b) {
    const nsi_body* body = &robot->body[i];
    motion joint = mo_zero();
    for (uint32_t k = 0; k < body->nv; k++) {
        joint = mo_add(joint, mo_scale(body->rate[k], body->s[k]));
    }
    // The subspace of six velocities is everything: v x v = 0.
    b->c = body->parent == NSI_NONE && body->nv == 6 ? mo_zero() : mo_cross(body->velocity, joint);
    b->I = in_articulated(body->inertia);
    b->p = mo_cross_force(body->velocity, in_apply(body->inertia, body->velocity));
    b->p.n = v3_add(b->p.n, nsi_gyroscopic_change(robot, i));
    b->p = nsi_without_external(robot, i, b->p);
}

// Pass 2: joint-space terms, then what the parent feels.
static void reduce_body(const nsi_robot* robot, uint32_t i, const ns_expr* tau,
                        const ns_expr* added, aba_body* all) {
    const nsi_body* body = &robot->body[i];
    aba_body* b = &all[i];
    const nsi_velocity_map* map = body->joint->map;
    uint32_t n = body->nv;
    ns_expr diagonal[NSI_MAX_DOF];

    // D = S' I S, with what is added to the mass matrix, and u = tau - S' p.
    nsi_robot_force_to_body(robot, i, tau, b->u);
    for (uint32_t k = 0; k < n; k++) {
        b->U[k] = ai_apply(b->I, body->s[k]);
        b->u[k] = ns_sub(b->u[k], mo_dot(body->s[k], b->p));
        for (uint32_t l = 0; l <= k; l++) b->LD[k * n + l] = mo_dot(body->s[l], b->U[k]);
        if (map) continue;
        nsi_graph_round(robot->graph, b->LD[k * n + k].id); // adding zero changes no bit
        b->LD[k * n + k] = ns_add(b->LD[k * n + k], added_inertia(robot, i, added, k));
    }
    if (map) {
        added_inertias(robot, i, added, diagonal);
        map->add_inertia(robot, body, diagonal, b->LD);
    }
    nsi_ldl_factor(n, b->LD);
    if (body->parent == NSI_NONE) return;

    // Ia = I - U D^-1 U', pa = p + Ia c + U D^-1 u.
    art_inertia Ia = b->I;
    force pa = b->p;
    ns_expr du[NSI_MAX_DOF];
    nsi_ldl_solve(n, b->LD, b->u, du);
    for (uint32_t k = 0; k < n; k++) {
        force column = fo_zero(); // of U D^-1
        ns_expr e[NSI_MAX_DOF], d[NSI_MAX_DOF];
        for (uint32_t l = 0; l < n; l++) e[l] = ns_const(l == k ? 1.0 : 0.0);
        nsi_ldl_solve(n, b->LD, e, d);
        for (uint32_t l = 0; l < n; l++) column = fo_add(column, fo_scale(d[l], b->U[l]));
        Ia = ai_sub_outer(Ia, b->U[k], column);
        pa = fo_add(pa, fo_scale(du[k], b->U[k]));
    }
    pa = fo_add(pa, ai_apply(Ia, b->c));

    aba_body* parent = &all[body->parent];
    parent->I = ai_add(parent->I, tr_art_inertia_back(body->x, Ia));
    parent->p = fo_add(parent->p, tr_force_back(body->x, pa));
}

// Pass 3: accelerations.
static void accelerate_body(const nsi_robot* robot, uint32_t i, motion world, const ns_expr* added,
                            aba_body* all, ns_expr* qdd) {
    const nsi_body* body = &robot->body[i];
    aba_body* b = &all[i];
    uint32_t n = body->nv, v = robot->model->links[i].v;
    motion a = tr_motion(body->x, body->parent == NSI_NONE ? world : all[body->parent].a);
    a = mo_add(a, b->c);
    ns_expr d[NSI_MAX_DOF];
    if (body->joint->map) {
        ns_expr diagonal[NSI_MAX_DOF];
        added_inertias(robot, i, added, diagonal);
        body->joint->map->accelerate(body, diagonal, a, b->LD, b->u, b->U, d);
        body->joint->map->acceleration_to_model(body, d, qdd + v);
    } else {
        for (uint32_t k = 0; k < n; k++) d[k] = ns_sub(b->u[k], mo_dot(a, b->U[k]));
        nsi_ldl_solve(n, b->LD, d, d);
        for (uint32_t k = 0; k < n; k++) qdd[v + k] = d[k];
    }
    for (uint32_t k = 0; k < n; k++) a = mo_add(a, mo_scale(d[k], body->s[k]));
    b->a = a;
}

void nsi_aba(const nsi_robot* robot, const ns_expr* tau, const ns_expr* inertia_added,
             ns_expr* qdd) {
    uint32_t n = robot->model->sizes.nlink;
    aba_body* all = nsi_robot_alloc(robot, n, sizeof *all);
    if (!all) return;
    motion world = {v3_zero(), v3_neg(nsi_robot_gravity(robot))};
    for (uint32_t i = 0; i < n; i++) {
        if (robot->body[i].nv == 0) continue;
        begin_body(robot, i, &all[i]);
        if (robot->resistance) resist_contact(robot, i, world, all);
    }
    for (uint32_t i = n; i-- > 0;) {
        if (robot->body[i].nv > 0) reduce_body(robot, i, tau, inertia_added, all);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (robot->body[i].nv > 0) accelerate_body(robot, i, world, inertia_added, all, qdd);
    }
}
