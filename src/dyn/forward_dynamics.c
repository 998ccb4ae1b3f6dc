// Forward dynamics of any model: the articulated body algorithm for trees, a factored mass matrix where
// mimic joints, contact forces that are taken at the end of the step, networks at the mass matrix or
// equality constraints couple bodies otherwise.

#include "dyn/equality.h"
#include "dyn/robot.h"
#include "dyn/solve.h"
#include "expr/graph.h"

// Add to J (nv) the world twists about the world's origin that a body has by unit velocities.
static void add_twists(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t body,
                       ns_expr sign, motion* J, bool* moves) {
    for (; body != NSI_NONE; body = robot->body[body].parent) {
        const nsi_body* b = &robot->body[body];
        for (uint32_t k = 0; k < b->nv; k++) {
            uint32_t v = robot->model->links[body].v + k;
            motion s = nsi_unit_world_twist(b, pose[body].R, k);
            s.v = v3_add(s.v, v3_cross(pose[body].position, s.w));
            s = mo_scale(sign, s);
            J[v] = moves[v] ? mo_add(J[v], s) : s;
            moves[v] = true;
        }
    }
}

// Bodies that carry both of a pair move them alike.
static void drop_common(const nsi_robot* robot, uint32_t a, uint32_t b, bool* moves) {
    for (uint32_t i = a; i != NSI_NONE; i = robot->body[i].parent) {
        for (uint32_t j = b; j != NSI_NONE; j = robot->body[j].parent) {
            if (i != j) continue;
            for (uint32_t k = 0; k < robot->body[i].nv; k++) {
                moves[robot->model->links[i].v + k] = false;
            }
        }
    }
}

// M += J' B J
static void add_quadratic(uint32_t nv, const art_inertia* B, const motion* J, const bool* moves,
                          ns_expr* M) {
    for (uint32_t i = 0; i < nv; i++) {
        if (!moves[i]) continue;
        force f = ai_apply(*B, J[i]);
        for (uint32_t j = 0; j <= i; j++) {
            if (!moves[j]) continue;
            M[i * nv + j] = ns_add(M[i * nv + j], mo_dot(J[j], f));
            M[j * nv + i] = M[i * nv + j];
        }
    }
}

// A world twist about the world's origin in the frame of a link.
static motion twist_in_link(const nsi_link_pose* pose, motion s) {
    vec3 v = v3_add(s.v, v3_cross(s.w, pose->position));
    return (motion){m3_apply_t(pose->R, s.w), m3_apply_t(pose->R, v)};
}

// What contact forces resist: of bodies against the world, or of pairs of bodies.
static void add_resistance(const nsi_robot* robot, ns_expr* M) {
    uint32_t nv = robot->model->sizes.nv, nlink = robot->model->sizes.nlink;
    const nsi_contact_resistance* r = robot->resistance;
    nsi_link_pose* pose = nsi_robot_alloc(robot, nlink, sizeof *pose);
    motion* J = nsi_robot_alloc(robot, nv, sizeof *J);
    bool* moves = nsi_robot_alloc(robot, nv, sizeof *moves);
    if (!pose || !J || !moves) return;
    nsi_link_poses(robot, pose);
    for (uint32_t i = 0; r->body && i < nlink; i++) {
        if (robot->body[i].nv == 0) continue;
        memset(moves, 0, nv * sizeof *moves);
        add_twists(robot, pose, i, ns_const(1.0), J, moves);
        for (uint32_t k = 0; k < nv; k++) {
            if (moves[k]) J[k] = twist_in_link(&pose[i], J[k]);
        }
        add_quadratic(nv, &r->body[i], J, moves, M);
    }
    for (uint32_t c = 0; c < r->ncoupling; c++) {
        const nsi_contact_coupling* pair = &r->coupling[c];
        memset(moves, 0, nv * sizeof *moves);
        add_twists(robot, pose, pair->body_a, ns_const(1.0), J, moves);
        add_twists(robot, pose, pair->body_b, ns_const(-1.0), J, moves);
        if (!robot->model->has_mimic) drop_common(robot, pair->body_a, pair->body_b, moves);
        add_quadratic(nv, &pair->B, J, moves, M);
    }
}

// The full mass matrix M (nv x nv) and tau - bias (nv).
static void gather_all(const nsi_robot* robot, const ns_expr* tau, const ns_expr* inertia_added,
                       ns_expr* M, ns_expr* rest) {
    uint32_t nv = robot->model->sizes.nv;
    nsi_crba(robot, M);
    if (robot->resistance) add_resistance(robot, M);
    for (uint32_t k = 0; robot->coupling && k < nv * nv; k++)
        M[k] = ns_add(M[k], robot->coupling[k]);
    nsi_rnea(robot, NULL, rest);

    // Right-hand side, and the diagonal that armature and implicit damping add.
    for (uint32_t k = 0; k < nv; k++) {
        rest[k] = ns_sub(tau[k], rest[k]);
        nsi_graph_round(robot->graph, M[k * nv + k].id); // adding zero changes no bit
        if (inertia_added) M[k * nv + k] = ns_add(M[k * nv + k], inertia_added[k]);
    }
}

// M qdd = tau - bias with all bodies at once: factor the full mass matrix.
static void solve_all(const nsi_robot* robot, const ns_expr* tau, const ns_expr* inertia_added,
                      ns_expr* qdd) {
    uint32_t nv = robot->model->sizes.nv;
    ns_expr* M = nsi_robot_alloc(robot, (size_t)nv * nv, sizeof *M);
    ns_expr* rest = nsi_robot_alloc(robot, nv, sizeof *rest);
    if (!M || !rest) return;
    gather_all(robot, tau, inertia_added, M, rest);
    nsi_ldl_factor(nv, M);
    nsi_ldl_solve(nv, M, rest, qdd);
}

static void solve_forces(const nsi_robot* robot, const ns_expr* tau, const ns_expr* inertia_added,
                         ns_expr* qdd) {
    bool coupled = robot->coupling || (robot->resistance && !robot->resistance->body);
    if (robot->model->has_mimic || coupled || robot->mass_change) {
        solve_all(robot, tau, inertia_added, qdd);
    } else {
        nsi_aba(robot, tau, inertia_added, qdd);
    }
}

void nsi_forward_dynamics(const nsi_robot* robot, const ns_expr* tau, const ns_expr* inertia_added,
                          ns_expr* qdd) {
    uint32_t nv = robot->model->sizes.nv;
    solve_forces(robot, tau, inertia_added, qdd);
    if (!robot->resistance) return;

    // Where nothing touches, the equations without contact: they cost less, and the back ends skip
    // the others.
    nsi_robot apart = *robot;
    ns_expr* without = nsi_robot_alloc(robot, nv, sizeof *without);
    if (!without) return;
    apart.resistance = NULL;
    solve_forces(&apart, tau, inertia_added, without);
    for (uint32_t k = 0; k < nv; k++) {
        qdd[k] = ns_select(robot->resistance->any, qdd[k], without[k]);
    }
}

void nsi_constrained_dynamics(const nsi_robot* robot, const ns_expr* tau,
                              const ns_expr* inertia_added, nsi_equality* rows, ns_expr* qdd,
                              ns_expr* forces) {
    uint32_t nv = robot->model->sizes.nv;
    ns_expr* M = nsi_robot_alloc(robot, (size_t)nv * nv, sizeof *M);
    ns_expr* root = nsi_robot_alloc(robot, nv, sizeof *root);
    ns_expr* change = nsi_robot_alloc(robot, nv, sizeof *change);
    ns_expr* free_rate = nsi_robot_alloc(robot, rows->n, sizeof *free_rate);
    if (!M || !root || !change || !free_rate) return;

    // Accelerations without constraints.
    gather_all(robot, tau, inertia_added, M, qdd);
    nsi_ltdl_factor(nv, M);
    for (uint32_t k = 0; k < nv; k++) root[k] = ns_sqrt(M[k * nv + k]);
    nsi_ltdl_begin(nv, M, qdd);
    for (uint32_t k = 0; k < nv; k++) qdd[k] = ns_mul(qdd[k], M[k * nv + k]);
    nsi_ltdl_finish(nv, M, qdd);

    // Forces that make J qdd + dJ/dt qd zero.
    if (!nsi_equality_factor(robot, M, root, rows)) return;
    nsi_equality_rates(rows, qdd, free_rate);
    for (uint32_t i = 0; i < rows->n; i++) {
        free_rate[i] = ns_neg(ns_add(free_rate[i], rows->drift[i]));
    }
    nsi_equality_solve(rows, free_rate, forces);
    nsi_equality_respond(rows, forces, change);
    for (uint32_t k = 0; k < nv; k++) qdd[k] = ns_add(qdd[k], change[k]);
}
