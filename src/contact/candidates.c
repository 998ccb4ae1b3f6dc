// The contact points of a model's pairs.

#include "contact/contact_stages.h"

#include "expr/trace.h"

#include <math.h>

static bool follows_law(const nsi_contact* pair, const nsi_contact_options* options, int law) {
    return (options->model < 0 ? pair->def.model : options->model) == law;
}

static uint32_t pair_slots(const ns_model* model, const nsi_contact* pair) {
    const ns_geom_def *a = &model->geoms[pair->a].def, *b = &model->geoms[pair->b].def;
    return nsi_contact_slots(a->type, a->nvertex, b->type, b->nvertex);
}

uint32_t nsi_candidates_count(const ns_model* model, const nsi_contact_options* options, int law) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->sizes.ncontact; i++) {
        const nsi_contact* pair = &model->contacts[i];
        if (follows_law(pair, options, law)) count += pair_slots(model, pair);
    }
    return count;
}

static bool is_zero_constant(const nsi_robot* robot, ns_expr x) {
    if (!ns_expr_is_valid(x)) return false;
    const nsi_node* node = &robot->graph->nodes.data[x.id];
    return node->op == NSI_CONST && node->value == 0.0;
}

// A geometry where it is in the world.
static nsi_shape place_shape(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t number) {
    const nsi_geom* geom = &robot->model->geoms[number];
    const ns_expr* p = robot->param + geom->param;
    const double* q = geom->def.pose.quaternion;
    quat turn = {ns_const(q[0]), ns_const(q[1]), ns_const(q[2]), ns_const(q[3])};
    vec3 more = v3(p[NSI_GEOM_ROTATION], p[NSI_GEOM_ROTATION + 1], p[NSI_GEOM_ROTATION + 2]);
    bool turned = false;
    for (int k = 0; k < 3; k++) turned = turned || !is_zero_constant(robot, more.e[k]);
    if (turned) turn = q_mul(turn, q_exp(more));
    nsi_shape shape = {.type = geom->def.type,
                       .R = m3_from_quat(turn),
                       .position =
                           v3(p[NSI_GEOM_ORIGIN], p[NSI_GEOM_ORIGIN + 1], p[NSI_GEOM_ORIGIN + 2]),
                       .nvertex = geom->def.nvertex,
                       .vertices = geom->def.vertices};
    uint32_t nsize = nsi_geom_param_count(&geom->def) - NSI_GEOM_SIZE;
    for (uint32_t k = 0; k < 3; k++) {
        shape.size[k] = k < nsize ? p[NSI_GEOM_SIZE + k] : ns_const(geom->def.size[k]);
    }
    if (geom->link == NSI_NONE) return shape;
    const nsi_link_pose* link = &pose[geom->link];
    shape.position = v3_add(link->position, m3_apply(link->R, shape.position));
    shape.R = m3_mul(link->R, shape.R);
    return shape;
}

// Half lengths of a box around the vertices.
static void vertex_reach(const nsi_shape* s, double reach[3]) {
    for (int k = 0; k < 3; k++) reach[k] = 0.0;
    for (size_t i = 0; i < 3 * (size_t)s->nvertex; i++) {
        reach[i % 3] = fmax(reach[i % 3], fabs(s->vertices[i]));
    }
}

// The square of the radius of a ball around the shape's position that holds it.
static ns_expr ball_square(const nsi_shape* s) {
    // Half lengths of a box that holds the shape.
    double reach[3];
    ns_expr half[3] = {ns_const(0.0), ns_const(0.0), ns_const(0.0)};
    switch (s->type) {
    case NS_GEOM_SPHERE: half[0] = s->size[0]; break;
    case NS_GEOM_CAPSULE: half[0] = ns_add(s->size[0], s->size[1]); break;
    case NS_GEOM_CYLINDER:
        half[0] = s->size[0];
        half[1] = s->size[1];
        break;
    case NS_GEOM_BOX:
    case NS_GEOM_ELLIPSOID:
    case NS_GEOM_ELLIPSE:
        for (int k = 0; k < 3; k++) half[k] = s->size[k];
        break;
    case NS_GEOM_MESH:
    case NS_GEOM_POLYGON:
    case NS_GEOM_POINTS:
        vertex_reach(s, reach);
        for (int k = 0; k < 3; k++) {
            half[k] = ns_const(reach[k]);
            if (s->type == NS_GEOM_MESH) half[k] = ns_mul(s->size[k], half[k]);
        }
        if (s->type == NS_GEOM_POLYGON) half[2] = s->size[0];
        break;
    case NS_GEOM_PLANE: break;
    }

    // Its corner is the farthest.
    vec3 corner = v3(half[0], half[1], half[2]);
    return v3_dot(corner, corner);
}

// Can the two touch at all? Without roots: (ra + rb)^2 <= 2 (ra^2 + rb^2).
static ns_expr are_near(const nsi_shape* a, const nsi_shape* b) {
    if (a->type == NS_GEOM_PLANE) return are_near(b, a);
    vec3 d = v3_sub(a->position, b->position);
    ns_expr zero = ns_const(0.0);
    if (b->type == NS_GEOM_PLANE) {
        if (a->type == NS_GEOM_SPHERE) return ns_const(1.0); // the gap is as cheap
        ns_expr height = v3_dot(m3_column(b->R, 2), d);
        return ns_or(ns_lt(height, zero), ns_lt(ns_mul(height, height), ball_square(a)));
    }
    ns_expr reach = ns_mul(ns_const(2.0), ns_add(ball_square(a), ball_square(b)));
    return ns_lt(v3_dot(d, d), reach);
}

static uint32_t geom_body(const nsi_robot* robot, uint32_t geom) {
    uint32_t link = robot->model->geoms[geom].link;
    return link == NSI_NONE ? NSI_NONE : robot->place[link].body;
}

// Two unit vectors that make a frame with n (Duff et al., Building an Orthonormal Basis, Revisited,
// JCGT 2017): no root, and no jump but where n_z changes its sign.
static void tangents(vec3 n, vec3 t[2]) {
    ns_expr one = ns_const(1.0);
    ns_expr sign = ns_select(ns_lt(n.e[2], ns_const(0.0)), ns_const(-1.0), one);
    ns_expr a = ns_neg(ns_div(one, ns_add(sign, n.e[2])));
    ns_expr b = ns_mul(ns_mul(n.e[0], n.e[1]), a);
    t[0] = v3(ns_add(one, ns_mul(sign, ns_mul(ns_mul(n.e[0], n.e[0]), a))), ns_mul(sign, b),
              ns_neg(ns_mul(sign, n.e[0])));
    t[1] = v3(b, ns_add(sign, ns_mul(ns_mul(n.e[1], n.e[1]), a)), ns_neg(n.e[1]));
}

const uint32_t* nsi_law_slots(const nsi_robot* robot, int number) {
    const ns_contact_law* law = ns_contact_law_get(number);
    uint32_t* slot = nsi_robot_alloc(robot, law->nparam, sizeof *slot);
    for (uint32_t k = 0; slot && k < law->nparam; k++) {
        slot[k] = nsi_contact_find_slot(law->params[k].name);
        if (slot[k] == NSI_NONE || slot[k] < robot->model->ncontact_param) continue;
        nsi_graph_fail(robot->graph, NS_ERR_STATE,
                       "the contact law \"%s\" was registered after the model was built, which"
                       " has no parameters for it: register it first",
                       law->name);
        return NULL;
    }
    return slot;
}

bool nsi_pair_place(const nsi_robot* robot, const nsi_link_pose* pose,
                    const nsi_contact_options* options, int law, const uint32_t* slot,
                    uint32_t number, nsi_placed_pair* out) {
    const ns_model* m = robot->model;
    const nsi_contact* pair = &m->contacts[number];
    if (!follows_law(pair, options, law)) return false;
    const uint32_t geoms[2] = {pair->a, pair->b};
    *out = (nsi_placed_pair){
        .number = number, .law = law, .npoint = pair_slots(m, pair), .slot = slot};
    for (int k = 0; k < 2; k++) {
        out->shape[k] = place_shape(robot, pose, geoms[k]);
        uint32_t body = out->body[k] = geom_body(robot, geoms[k]);
        if (body == NSI_NONE) continue;
        out->pose[k] = pose[body];
        out->velocity[k] = robot->body[body].velocity;
    }
    uint32_t link = m->geoms[pair->a].link;
    out->on_link = link != NSI_NONE;
    if (out->on_link) out->link = pose[link];

    nsi_candidate any = {.law = ns_contact_law_get(law), .slot = slot, .pair = number};
    for (uint32_t k = 0; k < any.law->nparam; k++) {
        out->params[k] = nsi_candidate_param(robot, &any, k);
    }
    return true;
}

ns_expr nsi_pair_near(const nsi_placed_pair* pair) {
    return are_near(&pair->shape[0], &pair->shape[1]);
}

ns_expr nsi_pair_within(const nsi_placed_pair* pair, ns_expr reach) {
    const nsi_shape *a = &pair->shape[0], *b = &pair->shape[1];
    if (a->type == NS_GEOM_PLANE) a = &pair->shape[1], b = &pair->shape[0];
    vec3 d = v3_sub(a->position, b->position);
    ns_expr far = ns_add(ns_sqrt(ball_square(a)), reach);
    if (b->type == NS_GEOM_PLANE) return ns_lt(v3_dot(m3_column(b->R, 2), d), far);
    far = ns_add(far, ns_sqrt(ball_square(b)));
    return ns_lt(v3_dot(d, d), ns_mul(far, far));
}

// Candidate k without its frame.
static nsi_candidate candidate_at(const nsi_placed_pair* pair, uint32_t k, ns_expr near,
                                  nsi_contact_point point, nsi_contact_point seen) {
    return (nsi_candidate){.law = ns_contact_law_get(pair->law),
                           .slot = pair->slot,
                           .pair = pair->number,
                           .index = k,
                           .body_a = pair->body[0],
                           .body_b = pair->body[1],
                           .near = near,
                           .point = point,
                           .seen = seen};
}

void nsi_pair_candidates(const nsi_placed_pair* pair, ns_expr near, nsi_candidate* out) {
    ns_graph* graph = nsi_trace_graph();
    nsi_contact_point* points = nsi_arena_alloc(&graph->arena, (pair->npoint + 1) * sizeof *points);
    if (!points) {
        nsi_graph_fail_nomem(graph);
        return;
    }
    nsi_contact_points(&pair->shape[0], &pair->shape[1], points);
    for (uint32_t k = 0; k < pair->npoint; k++) {
        out[k] = candidate_at(pair, k, near, points[k], points[k]);
        tangents(points[k].normal, out[k].tangent);
    }
}

// ---- points by calls -----------------------------------------------------------------------

enum { POINT = 14 }; // numbers of a point: position, normal, two tangents, gap, exists

static void trace_points(const nsi_robot* robot, const nsi_placed_pair* pair, ns_expr* out) {
    nsi_candidate* at = nsi_robot_alloc(robot, pair->npoint, sizeof *at);
    if (!at) return;
    nsi_pair_candidates(pair, ns_const(1.0), at);
    for (uint32_t n = 0; n < pair->npoint; n++, out += POINT) {
        for (int k = 0; k < 3; k++) {
            out[k] = at[n].point.position.e[k];
            out[3 + k] = at[n].point.normal.e[k];
            out[6 + k] = at[n].tangent[0].e[k];
            out[9 + k] = at[n].tangent[1].e[k];
        }
        out[12] = at[n].point.gap;
        out[13] = at[n].point.exists;
    }
}

static nsi_contact_point point_of(const ns_expr* x) {
    return (nsi_contact_point){v3(x[0], x[1], x[2]), v3(x[3], x[4], x[5]), x[12], x[13]};
}

// Where shapes are not near: no point, 1 m apart, with some frame.
static const double no_point[POINT] = {0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0};

static void call_candidates(const nsi_robot* robot, const nsi_placed_pair* pair, ns_expr near,
                            nsi_candidate* out) {
    nsi_pair_work work = {trace_points, POINT * pair->npoint, POINT, no_point};
    ns_expr* x = nsi_robot_alloc(robot, 2 * (size_t)work.noutput, sizeof *x);
    if (!x) return;
    ns_expr* seen = x + work.noutput;
    nsi_pair_call(robot, pair, near, &work, x);
    nsi_pair_call(robot, pair, ns_const(1.0), &work, seen);
    for (uint32_t k = 0; k < pair->npoint; k++, x += POINT, seen += POINT) {
        out[k] = candidate_at(pair, k, near, point_of(x), point_of(seen));
        for (int n = 0; n < 3; n++) {
            out[k].tangent[0].e[n] = x[6 + n];
            out[k].tangent[1].e[n] = x[9 + n];
        }
    }
}

// `reach` NULL: any.
static bool find_candidates(const nsi_robot* robot, const nsi_link_pose* pose,
                            const nsi_contact_options* options, int law, const ns_expr* reach,
                            nsi_candidates* out) {
    // Room for all points, and where the parameters of the law are.
    const ns_model* m = robot->model;
    *out = (nsi_candidates){.count = 0};
    uint32_t count = nsi_candidates_count(m, options, law);
    out->data = nsi_robot_alloc(robot, count, sizeof *out->data);
    const uint32_t* slot = nsi_law_slots(robot, law);
    if (!out->data || !slot) return false;

    // Shapes where they are now, then the points between them.
    for (uint32_t i = 0; i < m->sizes.ncontact; i++) {
        nsi_placed_pair pair;
        if (!nsi_pair_place(robot, pose, options, law, slot, i, &pair)) continue;
        if (nsi_pair_is_frequent(robot, options, &pair)) {
            ns_expr near = reach ? nsi_pair_within(&pair, *reach) : ns_const(1.0);
            call_candidates(robot, &pair, near, out->data + out->count);
        } else {
            nsi_pair_candidates(&pair, nsi_pair_near(&pair), out->data + out->count);
        }
        out->count += pair.npoint;
    }
    return robot->graph->error.status == NS_OK;
}

bool nsi_candidates_find(const nsi_robot* robot, const nsi_link_pose* pose,
                         const nsi_contact_options* options, int law, nsi_candidates* out) {
    return find_candidates(robot, pose, options, law, NULL, out);
}

bool nsi_candidates_find_within(const nsi_robot* robot, const nsi_link_pose* pose,
                                const nsi_contact_options* options, int law, ns_expr reach,
                                nsi_candidates* out) {
    return find_candidates(robot, pose, options, law, &reach, out);
}

ns_expr nsi_candidate_param(const nsi_robot* robot, const nsi_candidate* candidate, uint32_t k) {
    const nsi_contact* pair = &robot->model->contacts[candidate->pair];
    uint32_t slot = candidate->slot[k];
    if (slot == NSI_NONE) { // a constant, which another law may have defined
        const ns_contact_param* row = nsi_contact_find_param(candidate->law->params[k].name);
        return ns_const(nsi_contact_value(&pair->def, row));
    }
    ns_expr param = robot->param[pair->param + slot];
    if (!(pair->follows >> slot & 1) || !ns_expr_is_valid(param)) return param;

    // An automatic value is that of another parameter, unless it has been set or is free itself.
    const nsi_node* node = &robot->graph->nodes.data[param.id];
    double automatic = robot->model->params[pair->param + slot].value;
    bool untouched = node->op == NSI_CONST && node->value == automatic;
    uint32_t followed = nsi_contact_find_slot(nsi_contact_slot(slot)->follows);
    return untouched ? robot->param[pair->param + followed] : param;
}

ns_expr nsi_candidate_named(const nsi_robot* robot, const nsi_candidate* candidate,
                            const char* what, const char* unit, ns_expr x) {
    return nsi_named(x, unit, "contact/%s/%u/%s", robot->model->contacts[candidate->pair].def.name,
                     candidate->index, what);
}

ns_expr nsi_candidate_gap(const nsi_robot* robot, const nsi_link_pose* pose,
                          const nsi_candidate* candidate) {
    uint32_t link = robot->model->geoms[robot->model->contacts[candidate->pair].a].link;
    return nsi_candidate_gap_on(robot, link == NSI_NONE ? NULL : &pose[link], candidate);
}

ns_expr nsi_candidate_gap_on(const nsi_robot* robot, const nsi_link_pose* link,
                             const nsi_candidate* candidate) {
    static const char* const position[3] = {"position/x", "position/y", "position/z"};
    static const char* const normal[3] = {"normal/x", "normal/y", "normal/z"};
    static const char* const local[3] = {"local/x", "local/y", "local/z"};
    vec3 place = candidate->seen.position;
    if (link) place = m3_apply_t(link->R, v3_sub(place, link->position));
    for (int k = 0; k < 3; k++) {
        nsi_candidate_named(robot, candidate, position[k], "m", candidate->seen.position.e[k]);
        nsi_candidate_named(robot, candidate, normal[k], "", candidate->seen.normal.e[k]);
        nsi_candidate_named(robot, candidate, local[k], "m", place.e[k]);
    }
    // What a network makes of the depth counts everywhere; without one the point's own does.
    ns_expr depth = ns_neg(candidate->seen.gap);
    ns_expr named = nsi_candidate_named(robot, candidate, "depth", "m", depth);
    return named.id == depth.id ? candidate->point.gap : ns_neg(named);
}

void nsi_candidate_force(const nsi_robot* robot, const nsi_candidate* candidate, vec3 f) {
    const char* pair = robot->model->contacts[candidate->pair].def.name;
    for (int k = 0; k < 3; k++) {
        nsi_observed(f.e[k], "N", "contact/%s/%u/force/%c", pair, candidate->index, "xyz"[k]);
    }
}
