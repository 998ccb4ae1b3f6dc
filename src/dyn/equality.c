// Rows of equality constraints, and responses of a robot to forces along them.

#include "dyn/equality.h"

#include "dyn/solve.h"
#include "expr/trace.h"

static const double REGULARISATION = 1e-9, LEAST_REGULARISATION = 1e-12;

// Rows are traced as they are, without loops: their number times itself times that of the velocities.
enum { MAX_ROWS = 192 };

static uint32_t rows_of(const nsi_equality_constraint* e) {
    if (e->def.inactive) return 0;
    return e->def.type == NS_EQUALITY_JOINT ? 1 : e->def.type == NS_EQUALITY_CONNECT ? 3 : 6;
}

uint32_t nsi_equality_count(const ns_model* model) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->sizes.nequality; i++) count += rows_of(&model->equalities[i]);
    return count;
}

// ---- joints --------------------------------------------------------------------------------------

// What a coordinate is above its reference, and the velocity that it moves with, times `ratio`.
static ns_expr joint_offset(const nsi_robot* robot, uint32_t link, ns_expr* ratio) {
    const nsi_link* l = &robot->model->links[link];
    double reference = l->def.reference;
    if (l->mimic != NSI_NONE) {
        reference = robot->model->links[l->mimic].def.reference * l->def.mimic_multiplier +
                    l->def.mimic_offset;
    }
    *ratio = ns_const(l->mimic == NSI_NONE ? 1.0 : l->def.mimic_multiplier);
    return ns_sub(nsi_joint_coordinate(robot->model, link, robot->q), ns_const(reference));
}

// phi = y - c(x), with slope J = dy - c'(x) dx and drift -c''(x) (dx/dt)^2.
static void trace_joint_row(const nsi_robot* robot, const nsi_equality_constraint* e,
                            nsi_equality* out, uint32_t row) {
    const ns_model* m = robot->model;
    const ns_expr* c = robot->param + e->param + NSI_EQUALITY_COEFFICIENT;
    ns_expr ratio, *J = out->J + (size_t)row * out->nv;
    ns_expr y = joint_offset(robot, e->a, &ratio);
    uint32_t v = m->links[e->a].v;
    J[v] = ns_add(J[v], ratio);
    out->drift[row] = ns_const(0.0);
    if (e->b == NSI_NONE) {
        out->phi[row] = ns_sub(y, c[0]);
        return;
    }

    // The polynomial and its first two derivatives, by Horner's rule.
    ns_expr x = joint_offset(robot, e->b, &ratio), zero = ns_const(0.0);
    ns_expr value = zero, slope = zero, half_bend = zero;
    for (uint32_t k = NSI_EQUALITY_COEFFICIENTS; k-- > 0;) {
        half_bend = ns_add(ns_mul(half_bend, x), slope);
        slope = ns_add(ns_mul(slope, x), value);
        value = ns_add(ns_mul(value, x), c[k]);
    }
    out->phi[row] = ns_sub(y, value);
    v = m->links[e->b].v;
    J[v] = ns_sub(J[v], ns_mul(slope, ratio));
    ns_expr rate = ns_mul(ratio, robot->qd[v]);
    out->drift[row] = ns_mul(ns_const(-2.0), ns_mul(half_bend, ns_mul(rate, rate)));
}

// ---- points and frames ---------------------------------------------------------------------------

// A frame that is fixed in a link, in the world.
typedef struct anchor_frame {
    vec3 position;
    quat turn;
    vec3 acceleration, angular_acceleration; // when qdd is zero
} anchor_frame;

static anchor_frame find_anchor(const nsi_robot* robot, const nsi_link_pose* pose,
                                const quat* turns, const nsi_equality_constraint* e, bool second) {
    // The frame in the link. The rotation vector turns that of a.
    uint32_t link = second ? e->b : e->a;
    const ns_pose* given = second ? &e->def.anchor_b : &e->def.anchor_a;
    const ns_expr* p = robot->param + e->param;
    const ns_expr* at = p + (second ? NSI_EQUALITY_ANCHOR_B : NSI_EQUALITY_ANCHOR_A);
    const double* o = given->quaternion;
    quat turn = {ns_const(o[0]), ns_const(o[1]), ns_const(o[2]), ns_const(o[3])};
    if (!second && e->def.type == NS_EQUALITY_WELD) {
        const ns_expr* r = p + NSI_EQUALITY_ROTATION;
        turn = q_mul(turn, q_exp(v3(r[0], r[1], r[2])));
    }
    vec3 arm = v3(at[0], at[1], at[2]);

    // In the world.
    anchor_frame frame = {arm, turn, v3_zero(), v3_zero()};
    if (link == NSI_NONE) return frame;
    frame.position = v3_add(pose[link].position, m3_apply(pose[link].R, arm));
    frame.turn = q_mul(turns[link], turn);
    return frame;
}

// The velocity of a point of a link, in the world.
static vec3 point_velocity(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t link,
                           vec3 point) {
    uint32_t number = link == NSI_NONE ? NSI_NONE : robot->place[link].body;
    if (number == NSI_NONE) return v3_zero();
    const nsi_body* body = &robot->body[number];
    vec3 r = m3_apply_t(pose[number].R, v3_sub(point, pose[number].position));
    return m3_apply(pose[number].R, v3_add(body->velocity.v, v3_cross(body->velocity.w, r)));
}

// How velocities alone change the velocity of a link at a point that itself moves with `speed` in the world:
// a + alpha x r + w x speed, in the body's frame.
static void find_acceleration(const nsi_robot* robot, const nsi_link_pose* pose,
                              const motion* drift, uint32_t link, vec3 point, vec3 speed,
                              anchor_frame* frame) {
    uint32_t number = link == NSI_NONE ? NSI_NONE : robot->place[link].body;
    if (number == NSI_NONE) return;
    const nsi_body* body = &robot->body[number];
    vec3 r = m3_apply_t(pose[number].R, v3_sub(point, pose[number].position));
    vec3 linear = v3_add(drift[number].v, v3_cross(drift[number].w, r));
    linear = v3_add(linear, v3_cross(body->velocity.w, m3_apply_t(pose[number].R, speed)));
    frame->acceleration = m3_apply(pose[number].R, linear);
    frame->angular_acceleration = m3_apply(pose[number].R, drift[number].w);
}

// Add `sign` times the Jacobian of the velocity of a link's point, and of its angular velocity, to rows of J.
static void add_jacobian(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t link,
                         vec3 point, double sign, ns_expr* scratch, nsi_equality* out, uint32_t row,
                         bool turns) {
    if (link == NSI_NONE) return;
    uint32_t nv = out->nv;
    ns_expr *linear = scratch, *angular = scratch + 3 * (size_t)nv, s = ns_const(sign);
    nsi_link_jacobian(robot, pose, link, linear, angular);
    vec3 arm = v3_sub(point, pose[link].position);
    for (uint32_t v = 0; v < nv; v++) {
        vec3 w = v3(angular[v], angular[nv + v], angular[2 * nv + v]);
        vec3 move = v3_add(v3(linear[v], linear[nv + v], linear[2 * nv + v]), v3_cross(w, arm));
        for (uint32_t k = 0; k < 3; k++) {
            ns_expr* to = &out->J[(row + k) * (size_t)nv + v];
            *to = ns_add(*to, ns_mul(s, move.e[k]));
            to += 3 * (size_t)nv;
            if (turns) *to = ns_add(*to, ns_mul(s, w.e[k]));
        }
    }
}

// The rotation vector that takes the orientation of b to that of a, in the world.
static vec3 rotation_between(quat a, quat b) {
    quat back = {b.w, ns_neg(b.x), ns_neg(b.y), ns_neg(b.z)};
    return nsi_rotation_vector(q_mul(a, back));
}

static void trace_link_rows(const nsi_robot* robot, const nsi_link_pose* pose, const quat* turn,
                            const motion* drift, const nsi_equality_constraint* e, ns_expr* scratch,
                            nsi_equality* out, uint32_t row) {
    bool turns = e->def.type == NS_EQUALITY_WELD;
    anchor_frame a = find_anchor(robot, pose, turn, e, false);
    anchor_frame b = find_anchor(robot, pose, turn, e, true);

    // Forces act at one point, between the anchors where these are apart: so they are equal and opposite,
    // angular momentum is kept, and a redundant row of a planar loop stays zero.
    ns_expr half = ns_const(0.5);
    vec3 point = v3_scale(half, v3_add(a.position, b.position));
    add_jacobian(robot, pose, e->a, point, 1.0, scratch, out, row, turns);
    add_jacobian(robot, pose, e->b, point, -1.0, scratch, out, row, turns);
    vec3 speed = v3_scale(half, v3_add(point_velocity(robot, pose, e->a, a.position),
                                       point_velocity(robot, pose, e->b, b.position)));
    find_acceleration(robot, pose, drift, e->a, point, speed, &a);
    find_acceleration(robot, pose, drift, e->b, point, speed, &b);

    // Violations, and what velocities alone change of their rates.
    vec3 gap = v3_sub(a.position, b.position), bend = v3_sub(a.acceleration, b.acceleration);
    vec3 angle = rotation_between(a.turn, b.turn);
    vec3 twist = v3_sub(a.angular_acceleration, b.angular_acceleration);
    for (uint32_t k = 0; k < 3; k++) {
        out->phi[row + k] = gap.e[k];
        out->drift[row + k] = bend.e[k];
        if (!turns) continue;
        out->phi[row + 3 + k] = angle.e[k];
        out->drift[row + 3 + k] = twist.e[k];
    }
}

// ---- all of them ---------------------------------------------------------------------------------

static bool allocate_rows(const nsi_robot* robot, nsi_equality* out) {
    size_t n = out->n, nv = out->nv;
    ns_expr* at = nsi_robot_alloc(robot, 2 * n + 2 * n * nv + n * n, sizeof *at);
    out->recovery = nsi_robot_alloc(robot, n, sizeof *out->recovery);
    if (!at || !out->recovery) return false;
    out->phi = at;
    out->drift = out->phi + n;
    out->J = out->drift + n;
    out->Z = out->J + n * nv;
    out->A = out->Z + n * nv;
    for (size_t k = 0; k < n * nv; k++) out->J[k] = ns_const(0.0);
    return true;
}

bool nsi_equality_rows(const nsi_robot* robot, nsi_equality* out) {
    const ns_model* m = robot->model;
    *out = (nsi_equality){.nv = m->sizes.nv, .n = nsi_equality_count(m)};
    if (out->n > MAX_ROWS) {
        nsi_graph_fail(robot->graph, NS_ERR_LIMIT,
                       "the equality constraints of the model are %u equations; %d are possible",
                       out->n, MAX_ROWS);
        return false;
    }

    // Poses, and accelerations by velocities alone.
    nsi_link_pose* pose = nsi_robot_alloc(robot, m->sizes.nlink, sizeof *pose);
    motion* drift = nsi_robot_alloc(robot, m->sizes.nlink, sizeof *drift);
    ns_expr* scratch = nsi_robot_alloc(robot, 6 * (size_t)out->nv, sizeof *scratch);
    quat* turn = nsi_robot_alloc(robot, m->sizes.nlink, sizeof *turn);
    if (!pose || !turn || !drift || !scratch || !allocate_rows(robot, out)) return false;
    nsi_link_poses(robot, pose);
    nsi_link_turns(robot, turn);
    nsi_drift_accelerations(robot, drift);

    for (uint32_t i = 0, row = 0; i < m->sizes.nequality; i++) {
        const nsi_equality_constraint* e = &m->equalities[i];
        uint32_t count = rows_of(e);
        for (uint32_t k = 0; k < count; k++) out->recovery[row + k] = e->def.recovery;
        if (count == 1) trace_joint_row(robot, e, out, row);
        if (count > 1) trace_link_rows(robot, pose, turn, drift, e, scratch, out, row);
        row += count;
    }
    return robot->graph->error.status == NS_OK;
}

// ---- responses -----------------------------------------------------------------------------------

static ns_expr product(uint32_t n, const ns_expr* a, const ns_expr* b) {
    ns_expr sum = ns_const(0.0);
    for (uint32_t k = 0; k < n; k++) sum = ns_add(sum, ns_mul(a[k], b[k]));
    return sum;
}

// Add R to the diagonal of A: blocks are single rows of joints, and threes.
static void regularise(const ns_model* m, nsi_equality* rows) {
    uint32_t n = rows->n;
    for (uint32_t i = 0, row = 0; i < m->sizes.nequality; i++) {
        uint32_t count = rows_of(&m->equalities[i]), size = count == 1 ? 1 : 3;
        for (uint32_t first = row; first < row + count; first += size) {
            ns_expr sum = ns_const(LEAST_REGULARISATION * size / REGULARISATION);
            for (uint32_t k = first; k < first + size; k++) {
                sum = ns_add(sum, rows->A[(size_t)k * n + k]);
            }
            ns_expr r = ns_mul(ns_const(REGULARISATION / size), sum);
            for (uint32_t k = first; k < first + size; k++) {
                ns_expr* a = &rows->A[(size_t)k * n + k];
                *a = ns_add(*a, r);
            }
        }
        row += count;
    }
}

bool nsi_equality_factor(const nsi_robot* robot, const ns_expr* M, const ns_expr* root,
                         nsi_equality* rows) {
    uint32_t n = rows->n, nv = rows->nv;
    rows->M = M;
    rows->root = root;
    for (uint32_t i = 0; i < n; i++) {
        ns_expr* z = rows->Z + (size_t)i * nv;
        for (uint32_t k = 0; k < nv; k++) z[k] = rows->J[(size_t)i * nv + k];
        nsi_ltdl_begin(nv, M, z);
        for (uint32_t k = 0; k < nv; k++) z[k] = ns_mul(z[k], root[k]);
        for (uint32_t j = 0; j <= i; j++) {
            rows->A[(size_t)i * n + j] = product(nv, z, rows->Z + (size_t)j * nv);
        }
    }
    regularise(robot->model, rows);
    nsi_ldl_factor(n, rows->A);
    return robot->graph->error.status == NS_OK;
}

void nsi_equality_rates(const nsi_equality* rows, const ns_expr* x, ns_expr* out) {
    for (uint32_t i = 0; i < rows->n; i++) {
        out[i] = product(rows->nv, rows->J + (size_t)i * rows->nv, x);
    }
}

void nsi_equality_solve(const nsi_equality* rows, const ns_expr* rate, ns_expr* out) {
    nsi_ldl_solve(rows->n, rows->A, rate, out);
}

void nsi_equality_respond(const nsi_equality* rows, const ns_expr* l, ns_expr* out) {
    uint32_t nv = rows->nv;
    for (uint32_t k = 0; k < nv; k++) {
        out[k] = ns_const(0.0);
        for (uint32_t i = 0; i < rows->n; i++) {
            out[k] = ns_add(out[k], ns_mul(rows->Z[(size_t)i * nv + k], l[i]));
        }
        out[k] = ns_mul(out[k], rows->root[k]);
    }
    nsi_ltdl_finish(nv, rows->M, out);
}

void nsi_equality_project(const nsi_robot* robot, const nsi_equality* rows, ns_expr* z,
                          ns_expr* forces) {
    uint32_t nv = rows->nv;
    ns_expr* l = forces ? forces : nsi_robot_alloc(robot, rows->n, sizeof *l);
    if (!l) return;
    for (uint32_t i = 0; i < rows->n; i++) l[i] = product(nv, rows->Z + (size_t)i * nv, z);
    nsi_equality_solve(rows, l, l);
    for (uint32_t i = 0; i < rows->n; i++) l[i] = ns_neg(l[i]);
    for (uint32_t k = 0; k < nv; k++) {
        for (uint32_t i = 0; i < rows->n; i++) {
            z[k] = ns_add(z[k], ns_mul(rows->Z[(size_t)i * nv + k], l[i]));
        }
    }
}
