// The contact points of a model's pairs.

#include "contact/contact_stages.h"

#include "expr/trace.h"

#include <math.h>
#include <stdio.h>

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

bool nsi_is_zero_constant(const nsi_robot* robot, ns_expr x) {
    if (!ns_expr_is_valid(x)) return false;
    const nsi_node* node = &robot->graph->nodes.data[x.id];
    return node->op == NSI_CONST && node->value == 0.0;
}

nsi_shape nsi_geom_shape(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t number) {
    const nsi_geom* geom = &robot->model->geoms[number];
    const ns_expr* p = robot->param + geom->param;

    // Shape in the frame of its link; sizes that are no parameters are constants.
    nsi_link_pose place = nsi_geom_place(robot, number);
    nsi_shape shape = {.type = geom->def.type,
                       .R = place.R,
                       .position = place.position,
                       .nvertex = geom->def.nvertex,
                       .vertices = geom->def.vertices,
                       .nrow = geom->def.nrow,
                       .ncol = geom->def.ncol,
                       .elevation = geom->def.elevation};
    uint32_t nsize = nsi_geom_param_count(&geom->def) - NSI_GEOM_SIZE;
    for (uint32_t k = 0; k < 3; k++) {
        shape.size[k] = k < nsize ? p[NSI_GEOM_SIZE + k] : ns_const(geom->def.size[k]);
    }

    // To the world.
    if (geom->link == NSI_NONE) return shape;
    nsi_link_pose link = nsi_surface_pose(robot, pose, geom->link);
    shape.position = v3_add(link.position, m3_apply(link.R, shape.position));
    shape.R = m3_mul(link.R, shape.R);
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
    case NS_GEOM_PLANE:
    case NS_GEOM_HFIELD: break; // they have no end below
    }

    // Its corner is the farthest.
    vec3 corner = v3(half[0], half[1], half[2]);
    return v3_dot(corner, corner);
}

// Can the two touch at all? Without roots: (ra + rb)^2 <= 2 (ra^2 + rb^2).
static ns_expr are_near(const nsi_shape* a, const nsi_shape* b) {
    if (a->type == NS_GEOM_PLANE || a->type == NS_GEOM_HFIELD) return are_near(b, a);
    vec3 d = v3_sub(a->position, b->position);
    ns_expr zero = ns_const(0.0);
    bool hfield = b->type == NS_GEOM_HFIELD;
    if (b->type == NS_GEOM_PLANE || hfield) {
        if (a->type == NS_GEOM_SPHERE && !hfield) return ns_const(1.0); // the gap is as cheap
        ns_expr height = v3_dot(m3_column(b->R, 2), d);
        if (hfield) height = ns_sub(height, b->size[2]); // above its highest point
        return ns_or(ns_lt(height, zero), ns_lt(ns_mul(height, height), ball_square(a)));
    }
    ns_expr reach = ns_mul(ns_const(2.0), ns_add(ball_square(a), ball_square(b)));
    return ns_lt(v3_dot(d, d), reach);
}

static uint32_t geom_body(const nsi_robot* robot, uint32_t geom) {
    uint32_t link = robot->model->geoms[geom].link;
    return link == NSI_NONE ? NSI_NONE : robot->place[link].body;
}

// Duff et al., Building an Orthonormal Basis, Revisited (JCGT 2017): no root, and no jump but where n_z changes its sign.
void nsi_contact_tangents(vec3 n, vec3 t[2]) {
    ns_expr one = ns_const(1.0);
    ns_expr sign = ns_select(ns_lt(n.e[2], ns_const(0.0)), ns_const(-1.0), one);
    ns_expr a = ns_neg(ns_div(one, ns_add(sign, n.e[2])));
    ns_expr b = ns_mul(ns_mul(n.e[0], n.e[1]), a);
    t[0] = v3(ns_add(one, ns_mul(sign, ns_mul(ns_mul(n.e[0], n.e[0]), a))), ns_mul(sign, b),
              ns_neg(ns_mul(sign, n.e[0])));
    t[1] = v3(b, ns_add(sign, ns_mul(ns_mul(n.e[1], n.e[1]), a)), ns_neg(n.e[1]));
}

const uint32_t* nsi_contact_find_slots(const nsi_robot* robot, int number) {
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

bool nsi_candidates_find(const nsi_robot* robot, const nsi_link_pose* pose,
                         const nsi_contact_options* options, int law,
                         const nsi_candidates* at_start, nsi_candidates* out) {
    // Room for all points, and where the parameters of the law are.
    const ns_model* m = robot->model;
    *out = (nsi_candidates){.pose = pose};
    uint32_t count = nsi_candidates_count(m, options, law);
    out->data = nsi_robot_alloc(robot, count, sizeof *out->data);
    nsi_contact_point* points = nsi_robot_alloc(robot, count, sizeof *points);
    uint32_t nparam = ns_contact_law_get(law)->nparam;
    ns_expr* param = nsi_robot_alloc(robot, (size_t)count * nparam, sizeof *param);
    const uint32_t* slot = nsi_contact_find_slots(robot, law);
    if (!out->data || !points || !param || !slot) return false;
    for (size_t k = 0; k < (size_t)count * nparam; k++) param[k].id = NSI_NONE;

    // Shapes where they are now, then the points between them.
    for (uint32_t i = 0; i < m->sizes.ncontact; i++) {
        const nsi_contact* pair = &m->contacts[i];
        if (!follows_law(pair, options, law)) continue;
        nsi_shape a = nsi_geom_shape(robot, pose, pair->a),
                  b = nsi_geom_shape(robot, pose, pair->b);
        nsi_shape start_a, start_b;
        if (at_start) {
            start_a = nsi_geom_shape(robot, at_start->pose, pair->a);
            start_b = nsi_geom_shape(robot, at_start->pose, pair->b);
            a.chosen = &start_a;
            b.chosen = &start_b;
        }
        nsi_contact_points(&a, &b, points);
        ns_expr near = are_near(&a, &b);
        for (uint32_t k = 0; k < pair_slots(m, pair); k++) {
            nsi_candidate* candidate = &out->data[out->count];
            *candidate = (nsi_candidate){.law = ns_contact_law_get(law),
                                         .slot = slot,
                                         .pair = i,
                                         .index = k,
                                         .body_a = geom_body(robot, pair->a),
                                         .body_b = geom_body(robot, pair->b),
                                         .near = near,
                                         .point = points[k],
                                         .param = param + (size_t)nparam * out->count++};
            nsi_contact_tangents(points[k].normal, candidate->tangent);
        }
    }
    return robot->graph->error.status == NS_OK;
}

// ---- parameters ----------------------------------------------------------------------------

ns_expr nsi_pair_param(const nsi_robot* robot, const nsi_candidate* candidate, uint32_t k) {
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
    if (node->op != NSI_CONST || node->value != automatic) return param;
    uint32_t followed = nsi_contact_find_slot(nsi_contact_slot(slot)->follows);
    for (uint32_t i = 0; i < candidate->law->nparam; i++) { // of this point, if the law has it
        if (candidate->slot[i] == followed) return nsi_candidate_param(robot, candidate, i);
    }
    return robot->param[pair->param + followed];
}

// Is a parameter a quantity of each point, with the pair's value x unless a network changes it?
static bool is_point_param(const nsi_robot* robot, const ns_contact_param* param, ns_expr x) {
    if (param->optional) return !nsi_is_zero_constant(robot, x);
    return strcmp(param->name, "mu") == 0 || strcmp(param->name, "restitution") == 0;
}

ns_expr nsi_candidate_param(const nsi_robot* robot, const nsi_candidate* candidate, uint32_t k) {
    ns_expr* known = &candidate->param[k];
    if (ns_expr_is_valid(*known)) return *known;
    const ns_contact_param* param = &candidate->law->params[k];
    *known = nsi_pair_param(robot, candidate, k);
    if (is_point_param(robot, param, *known)) {
        *known = nsi_candidate_named(robot, candidate, param->name, param->unit, *known);
    }
    return *known;
}

// ---- quantities ----------------------------------------------------------------------------

ns_expr nsi_candidate_named(const nsi_robot* robot, const nsi_candidate* candidate,
                            const char* what, const char* unit, ns_expr x) {
    return nsi_named(x, unit, "contact/%s/%u/%s", robot->model->contacts[candidate->pair].def.name,
                     candidate->index, what);
}

// Name a vector; true when a network has changed it.
static bool name_point_vector(const nsi_robot* robot, const nsi_candidate* candidate,
                              const char* what, const char* unit, vec3* v) {
    bool changed = false;
    for (int k = 0; k < 3; k++) {
        char name[20];
        snprintf(name, sizeof name, "%s/%c", what, "xyz"[k]);
        ns_expr x = nsi_candidate_named(robot, candidate, name, unit, v->e[k]);
        changed = changed || x.id != v->e[k].id;
        v->e[k] = x;
    }
    return changed;
}

// The normal at unit length, and tangents that fit it.
static void turn_candidate(nsi_candidate* candidate, vec3 normal) {
    ns_normalize(3, normal.e, normal.e);
    candidate->point.normal = normal;
    nsi_contact_tangents(normal, candidate->tangent);
}

void nsi_candidates_name(const nsi_robot* robot, nsi_candidates* candidates) {
    for (uint32_t k = 0; k < candidates->count; k++) {
        nsi_candidate* c = &candidates->data[k];
        vec3 position = c->point.position, normal = c->point.normal;
        c->named = true;
        c->moved = name_point_vector(robot, c, "position", "m", &position);
        c->turned = name_point_vector(robot, c, "normal", "", &normal);
        vec3 given = c->point.normal;
        if (c->turned) turn_candidate(c, normal);
        for (int i = 0; i < 3; i++) {
            c->displacement.e[i] = nsi_trace_change(position.e[i], c->point.position.e[i]);
        }
        c->turn = v3_sub(c->point.normal, given);
        c->point.position = position;
    }
}

void nsi_candidates_follow(const nsi_candidates* named, nsi_candidates* moved) {
    for (uint32_t k = 0; k < named->count && k < moved->count; k++) {
        const nsi_candidate* from = &named->data[k];
        nsi_candidate* to = &moved->data[k];
        if (from->moved) to->point.position = v3_add(to->point.position, from->displacement);
        if (from->turned) turn_candidate(to, v3_add(to->point.normal, from->turn));
    }
}

ns_expr nsi_candidate_gap(const nsi_robot* robot, const nsi_link_pose* pose,
                          const nsi_candidate* candidate) {
    uint32_t link = robot->model->geoms[robot->model->contacts[candidate->pair].a].link;
    vec3 place = candidate->point.position;
    if (!candidate->named) { // for those who look at them
        vec3 position = place, normal = candidate->point.normal;
        name_point_vector(robot, candidate, "position", "m", &position);
        name_point_vector(robot, candidate, "normal", "", &normal);
    }
    if (link != NSI_NONE) {
        nsi_link_pose at = nsi_surface_pose(robot, pose, link);
        place = m3_apply_t(at.R, v3_sub(place, at.position));
    }
    name_point_vector(robot, candidate, "local", "m", &place);
    return ns_neg(
        nsi_candidate_named(robot, candidate, "depth", "m", ns_neg(candidate->point.gap)));
}

void nsi_candidate_force(const nsi_robot* robot, const nsi_candidate* candidate, vec3 f) {
    const char* pair = robot->model->contacts[candidate->pair].def.name;
    for (int k = 0; k < 3; k++) {
        nsi_observed(f.e[k], "N", "contact/%s/%u/force/%c", pair, candidate->index, "xyz"[k]);
    }
}
