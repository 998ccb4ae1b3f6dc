// A floating joint: the link moves freely in the world. Its coordinates are its pose there. Its linear
// velocity is in the world, its angular velocity in the link's frame; internally both are in the link's
// frame, angular part first.

#include "dyn/joint.h"
#include "dyn/robot.h"
#include "dyn/solve.h"
#include "expr/graph.h"

static quat floating_rotation(const nsi_robot* robot, uint32_t link) {
    const ns_expr* q = robot->q + robot->model->links[link].q;
    return (quat){q[3], q[4], q[5], q[6]};
}

static void floating_trace(const nsi_robot* robot, uint32_t link, nsi_body* body, mat3* R,
                           vec3* translation) {
    const nsi_link* l = &robot->model->links[link];
    const ns_expr *q = robot->q + l->q, *qd = robot->qd + l->v;
    *R = m3_from_quat(floating_rotation(robot, link));
    *translation = v3(q[0], q[1], q[2]);
    vec3 v = m3_apply_t(*R, v3(qd[0], qd[1], qd[2]));
    for (uint32_t k = 0; k < 6; k++) {
        body->s[k] = nsi_unit_twist(k);
        body->rate[k] = k < 3 ? qd[3 + k] : v.e[k - 3];
    }
}

static void floating_subspace(const ns_link_def* def, uint32_t k, double s[6]) {
    (void)def;
    s[k] = 1.0;
}

// ---- velocities of the model and internal ones ---------------------------------------------

static void floating_force_to_body(const nsi_body* body, const ns_expr* tau, ns_expr* internal) {
    vec3 f = m3_apply_t(body->joint_R, v3(tau[0], tau[1], tau[2]));
    for (uint32_t k = 0; k < 3; k++) {
        internal[k] = tau[3 + k];
        internal[3 + k] = f.e[k];
    }
}

static void floating_force_to_model(const nsi_body* body, ns_expr* t) {
    vec3 linear = m3_apply(body->joint_R, v3(t[3], t[4], t[5]));
    for (uint32_t k = 0; k < 3; k++) {
        t[3 + k] = t[k];
        t[k] = linear.e[k];
    }
}

static motion floating_twist(const nsi_body* body, uint32_t k) {
    return k < 3 ? (motion){v3_zero(), m3_row(body->joint_R, (int)k)} : body->s[k - 3];
}

// Linear velocities are along the world's axes: without R R', which would only be so up to rounding.
static motion floating_world_twist(const nsi_body* body, mat3 R, uint32_t k) {
    if (k < 3) return nsi_unit_twist(3 + k);
    return (motion){m3_apply(R, body->s[k - 3].w), v3_zero()};
}

// d/dt (R' v) = R' dv/dt - w x (R' v)
static void floating_acceleration_to_body(const nsi_body* body, const ns_expr* qdd, ns_expr* d) {
    vec3 linear = qdd ? m3_apply_t(body->joint_R, v3(qdd[0], qdd[1], qdd[2])) : v3_zero();
    linear = v3_sub(linear, v3_cross(body->velocity.w, body->velocity.v));
    for (uint32_t k = 0; k < 3; k++) {
        d[k] = qdd ? qdd[3 + k] : ns_const(0.0);
        d[3 + k] = linear.e[k];
    }
}

static void floating_acceleration_to_model(const nsi_body* body, const ns_expr* d, ns_expr* qdd) {
    vec3 omega = body->velocity.w, linear = v3(d[3], d[4], d[5]);
    linear = m3_apply(body->joint_R, v3_add(linear, v3_cross(omega, body->velocity.v)));
    for (uint32_t k = 0; k < 3; k++) {
        qdd[k] = linear.e[k];
        qdd[3 + k] = d[k];
    }
}

// What is added to the mass matrix is along the world's axes: A for the velocity, in the model's order.
// D gets R' A R, in the body's.
static void floating_add_inertia(const nsi_robot* robot, const nsi_body* body, const ns_expr* A,
                                 ns_expr* D) {
    bool uniform = A[0].id == A[1].id && A[0].id == A[2].id;
    for (uint32_t k = 0; k < 3; k++) {
        nsi_graph_round(robot->graph, D[k * 6 + k].id); // adding zero changes no bit
        D[k * 6 + k] = ns_add(D[k * 6 + k], A[3 + k]);
        for (uint32_t l = 0; l <= k; l++) {
            ns_expr* entry = &D[(3 + k) * 6 + 3 + l];
            vec3 left = m3_column(body->joint_R, (int)k), right = m3_column(body->joint_R, (int)l);
            for (int i = 0; i < 3; i++) right.e[i] = ns_mul(A[i], right.e[i]);
            ns_expr turned = uniform ? (k == l ? A[0] : ns_const(0.0)) : v3_dot(left, right);
            nsi_graph_round(robot->graph, entry->id);
            *entry = ns_add(*entry, turned);
        }
    }
}

// With x = (angular, linear) the linear velocity in the world has the rate R (x_linear + w x v), and what
// is added to the mass matrix acts on that: (I + E) x = u - I a - E (0, w x v).
static void floating_accelerate(const nsi_body* body, const ns_expr* A, motion a, const ns_expr* LD,
                                const ns_expr* u, const force* U, ns_expr* x) {
    ns_expr zero = ns_const(0.0);
    bool plain = true;
    for (uint32_t k = 0; k < 6; k++) plain = plain && A[k].id == zero.id;

    // Without E: I x = u - I a, and a is subtracted after the solve.
    if (plain) {
        nsi_ldl_solve(6, LD, u, x);
        for (uint32_t k = 0; k < 6; k++) x[k] = ns_sub(x[k], (k < 3 ? a.w : a.v).e[k % 3]);
        return;
    }

    // E (0, w x v), by way of the world's axes.
    vec3 rest = m3_apply(body->joint_R, v3_cross(body->velocity.w, body->velocity.v));
    for (int k = 0; k < 3; k++) rest.e[k] = ns_mul(A[k], rest.e[k]);
    rest = m3_apply_t(body->joint_R, rest);

    for (uint32_t k = 0; k < 6; k++) x[k] = ns_sub(u[k], mo_dot(a, U[k]));
    for (uint32_t k = 0; k < 3; k++) x[3 + k] = ns_sub(x[3 + k], rest.e[k]);
    nsi_ldl_solve(6, LD, x, x);
}

static const nsi_velocity_map floating_map = {
    .force_to_body = floating_force_to_body,
    .force_to_model = floating_force_to_model,
    .twist = floating_twist,
    .world_twist = floating_world_twist,
    .acceleration_to_body = floating_acceleration_to_body,
    .acceleration_to_model = floating_acceleration_to_model,
    .add_inertia = floating_add_inertia,
    .accelerate = floating_accelerate,
};

const nsi_joint nsi_joint_floating = {
    .info = {.name = "floating", .nq = 7, .nv = 6, .nlinear = 3, .quaternion = 3, .in_world = true},
    .trace = floating_trace,
    .rotation = floating_rotation,
    .subspace = floating_subspace,
    .map = &floating_map,
};
