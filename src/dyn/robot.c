// Parameters, welded links, joint transforms and velocities as expressions.

#include "dyn/robot.h"

#include "expr/trace.h"

#include <math.h>

void* nsi_robot_alloc(const nsi_robot* robot, size_t count, size_t size) {
    void* block = nsi_arena_alloc(&robot->graph->arena, (count + 1) * size);
    if (!block) nsi_graph_fail_nomem(robot->graph);
    return block;
}

ns_expr* nsi_robot_zeros(const nsi_robot* robot, size_t count) {
    ns_expr* list = nsi_robot_alloc(robot, count, sizeof *list);
    for (size_t k = 0; list && k < count; k++) list[k] = ns_const(0.0);
    return list;
}

bool nsi_robot_is_zero(const nsi_robot* robot, ns_expr x) {
    if (!ns_expr_is_valid(x)) return true;
    const nsi_node* node = &robot->graph->nodes.data[x.id];
    return node->op == NSI_CONST && node->value == 0.0;
}

vec3 nsi_robot_gravity(const nsi_robot* robot) {
    const ns_expr* g = robot->param + robot->model->gravity_param;
    return v3(g[0], g[1], g[2]);
}

force nsi_without_external(const nsi_robot* robot, uint32_t i, force f) {
    for (int k = 0; k < 3; k++) {
        nsi_graph_round(robot->graph, f.n.e[k].id);
        nsi_graph_round(robot->graph, f.f.e[k].id);
    }
    return robot->external ? fo_sub(f, robot->external[i]) : f;
}

static bool is_constant(const nsi_robot* robot, ns_expr x) {
    return ns_expr_is_valid(x) && robot->graph->nodes.data[x.id].op == NSI_CONST;
}

static vec3 param_vec3(const nsi_robot* robot, uint32_t link, uint32_t first) {
    return v3(nsi_robot_param(robot, link, first), nsi_robot_param(robot, link, first + 1),
              nsi_robot_param(robot, link, first + 2));
}

// The link's inertia about its own origin from mass, centre of mass and inertia about that.
static inertia traced_inertia(const nsi_robot* robot, uint32_t link) {
    ns_expr p[6];
    for (uint32_t k = 0; k < 6; k++) p[k] = nsi_robot_param(robot, link, NSI_LINK_INERTIA + k);
    mat3 at_com = {{{p[0], p[3], p[4]}, {p[3], p[1], p[5]}, {p[4], p[5], p[2]}}};
    ns_expr m = nsi_robot_param(robot, link, NSI_LINK_MASS);
    vec3 c = param_vec3(robot, link, NSI_LINK_COM), h = v3_scale(m, c);
    // Steiner: I + m (c.c 1 - c c')
    mat3 I;
    for (int i = 0; i < 3; i++) {
        for (int j = i; j < 3; j++) {
            ns_expr shift = ns_neg(ns_mul(h.e[i], c.e[j]));
            if (i == j) {
                int k = (i + 1) % 3, l = (i + 2) % 3;
                shift = ns_add(ns_mul(h.e[k], c.e[k]), ns_mul(h.e[l], c.e[l]));
            }
            I.e[i][j] = I.e[j][i] = ns_add(at_com.e[i][j], shift);
        }
    }
    return (inertia){m, h, I};
}

// Orientation of the joint frame in the parent link: the file's, turned by the rotation vector.
static mat3 joint_rotation(const nsi_robot* robot, uint32_t link) {
    const double* q = robot->model->links[link].def.origin.quaternion;
    quat nominal = {ns_const(q[0]), ns_const(q[1]), ns_const(q[2]), ns_const(q[3])};
    vec3 turn = param_vec3(robot, link, NSI_JOINT_ROTATION);
    bool turned = false;
    for (int k = 0; k < 3; k++) {
        turned = turned || !is_constant(robot, turn.e[k]) ||
                 robot->graph->nodes.data[turn.e[k].id].value != 0.0;
    }
    return m3_from_quat(turned ? q_mul(nominal, q_exp(turn)) : nominal);
}

vec3 nsi_joint_axis(const nsi_robot* robot, uint32_t link) {
    vec3 axis = param_vec3(robot, link, NSI_JOINT_AXIS);
    bool unit = true;
    double square = 0.0;
    for (int k = 0; k < 3; k++) {
        double value = robot->graph->nodes.data[axis.e[k].id].value;
        unit = unit && is_constant(robot, axis.e[k]);
        if (unit) square += value * value;
    }
    unit = unit && fabs(square - 1.0) < 1e-12; // a model's axes are, to rounding
    if (!unit) ns_normalize(3, axis.e, axis.e);
    return axis;
}

// ---- joints --------------------------------------------------------------------------------

ns_expr nsi_joint_coordinate(const ns_model* model, uint32_t link, const ns_expr* q) {
    const nsi_link* l = &model->links[link];
    if (l->mimic == NSI_NONE) return q[l->q];
    ns_expr followed = ns_mul(ns_const(l->def.mimic_multiplier), q[l->q]);
    return ns_add(followed, ns_const(l->def.mimic_offset));
}

// Joint frame in the parent body, from the parent link's placement; that of a joint in the world is the
// world's.
static void joint_frame(const nsi_robot* robot, uint32_t link, mat3* R, vec3* position) {
    const nsi_link* l = &robot->model->links[link];
    *R = m3_identity();
    *position = v3_zero();
    if (nsi_joint_get(l->def.joint_type)->info.in_world) return; // q holds the pose itself
    *R = joint_rotation(robot, link);
    *position = param_vec3(robot, link, NSI_JOINT_ORIGIN);
    if (l->parent == NSI_NONE) return;
    const nsi_placement* in = &robot->place[l->parent];
    *position = v3_add(in->position, m3_apply(in->R, *position));
    *R = m3_mul(in->R, *R);
}

static void add_moving_link(nsi_robot* robot, uint32_t link, uint32_t parent) {
    const nsi_link* l = &robot->model->links[link];
    nsi_body* body = &robot->body[link];
    mat3 frame, R = m3_identity();
    vec3 position, translation = v3_zero();
    joint_frame(robot, link, &frame, &position);

    // The joint's own motion.
    body->joint = nsi_joint_get(l->def.joint_type);
    body->nv = body->joint->info.nv;
    body->ratio = ns_const(l->mimic != NSI_NONE ? l->def.mimic_multiplier : 1.0);
    body->joint->trace(robot, link, body, &R, &translation);
    body->joint_R = R;

    // Pose in the parent body, and inertia.
    body->parent = parent;
    body->x =
        (transform){m3_transpose(m3_mul(frame, R)), v3_add(position, m3_apply(frame, translation))};
    body->inertia = traced_inertia(robot, link);
    robot->place[link] = (nsi_placement){link, m3_identity(), v3_zero()};

    // The parent's velocity plus the joint's.
    motion v = parent == NSI_NONE ? mo_zero() : tr_motion(body->x, robot->body[parent].velocity);
    for (uint32_t k = 0; k < body->nv; k++) v = mo_add(v, mo_scale(body->rate[k], body->s[k]));
    body->velocity = v;
}

static void add_welded_link(nsi_robot* robot, uint32_t link, uint32_t parent) {
    nsi_placement* place = &robot->place[link];
    place->body = parent;
    joint_frame(robot, link, &place->R, &place->position);
    if (parent == NSI_NONE) return; // welded to the world: its inertia does not matter
    transform x = {m3_transpose(place->R), place->position};
    nsi_body* body = &robot->body[parent];
    body->inertia = in_add(body->inertia, tr_inertia_back(x, traced_inertia(robot, link)));
}

bool nsi_robot_init(nsi_robot* robot, const ns_model* model, const ns_expr* param, const ns_expr* q,
                    const ns_expr* qd) {
    *robot =
        (nsi_robot){.model = model, .graph = nsi_trace_graph(), .q = q, .qd = qd, .param = param};
    if (!robot->graph) return false;
    uint32_t n = model->sizes.nlink;
    robot->body = nsi_robot_alloc(robot, n, sizeof *robot->body);
    robot->place = nsi_robot_alloc(robot, n, sizeof *robot->place);
    if (!robot->body || !robot->place) return false;
    for (uint32_t i = 0; i < n && robot->graph->error.status == NS_OK; i++) {
        const nsi_link* l = &model->links[i];
        uint32_t parent = l->parent == NSI_NONE ? NSI_NONE : robot->place[l->parent].body;
        robot->body[i].nv = 0;
        if (!nsi_joint_get(l->def.joint_type)->trace) {
            add_welded_link(robot, i, parent);
        } else {
            add_moving_link(robot, i, parent);
        }
    }
    return robot->graph->error.status == NS_OK;
}

bool nsi_robot_move(const nsi_robot* robot, const ns_expr* q, const ns_expr* qd, nsi_robot* moved) {
    bool ok = nsi_robot_init(moved, robot->model, robot->param, q, qd);
    moved->pose_change = robot->pose_change;
    moved->mass_change = robot->mass_change;
    return ok;
}

void nsi_robot_force_to_body(const nsi_robot* robot, uint32_t link, const ns_expr* tau,
                             ns_expr* internal) {
    const nsi_link* l = &robot->model->links[link];
    const nsi_velocity_map* map = robot->body[link].joint->map;
    if (map) {
        map->force_to_body(&robot->body[link], tau + l->v, internal);
    } else {
        for (uint32_t k = 0; k < l->nv; k++) internal[k] = tau[l->v + k];
    }
}
