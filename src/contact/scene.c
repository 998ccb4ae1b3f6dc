// What a scene is made of, and its two blocks in the trace of a step: see scene.h.

#include "contact/scene.h"

#include "contact/contact_rows.h"
#include "dyn/equality.h"
#include "dyn/solve.h"
#include "expr/trace.h"

#include <math.h>

// Contact points up to which contacts are traced one by one.
enum { TRACED_POINTS = 192 };

static bool in_scene(const nsi_contact* pair, const nsi_contact_options* options, int law) {
    return (options->model < 0 ? pair->def.model : options->model) == law;
}

// Has a pair of the law torsional or rolling friction? Scenes have sliding friction only.
static bool some_pair_turns(const nsi_robot* robot, const nsi_contact_options* options, int law) {
    const uint32_t slots[2] = {nsi_contact_find_slot("mu_torsion"),
                               nsi_contact_find_slot("mu_rolling")};
    for (uint32_t i = 0; i < robot->model->sizes.ncontact; i++) {
        const nsi_contact* pair = &robot->model->contacts[i];
        if (!in_scene(pair, options, law)) continue;
        for (int k = 0; k < 2; k++) {
            if (!nsi_is_zero_constant(robot, robot->param[pair->param + slots[k]])) return true;
        }
    }
    return false;
}

// Responses are those of trees: constraints between them are not known at run time. False, in any case.
static bool fails_with_loops(const nsi_robot* robot, const nsi_contact_options* options) {
    if (options->detection == NSI_DETECT_RUN_TIME) {
        nsi_graph_fail(
            robot->graph, NS_ERR_UNSUPPORTED,
            "detection at run time is not supported for models with equality constraints;"
            " choose detection traced");
    }
    return false;
}

bool nsi_scene_is_wanted(const nsi_robot* robot, const nsi_contact_options* options, int law) {
    if (nsi_contact_law_get(law)->impulses != nsi_contact_ncp.impulses) return false;
    if (options->detection == NSI_DETECT_TRACED) return false;
    bool changed = nsi_trace_touches("contact/") || robot->mass_change || robot->pose_change;
    if (changed || some_pair_turns(robot, options, law)) return false;
    if (nsi_equality_count(robot->model) > 0) return fails_with_loops(robot, options);
    return options->detection == NSI_DETECT_RUN_TIME ||
           nsi_candidates_count(robot->model, options, law) > TRACED_POINTS;
}

bool nsi_scene_is_part_of(const ns_graph* graph) {
    for (uint32_t i = 0; i < graph->blocks.count; i++) {
        if (graph->blocks.data[i].kind == &nsi_scene_detect) return true;
    }
    return false;
}

// ---- building ------------------------------------------------------------------------------------

static void scene_free(nsi_block_data* data) {
    nsi_scene* s = (nsi_scene*)data; // its first member
    for (uint32_t k = 0; k < s->nkind; k++) {
        nsi_scene_function_free(&s->kinds[k].start);
        nsi_scene_function_free(&s->kinds[k].rows);
    }
    nsi_scene_function_free(&s->terms);
    nsi_arena_free(&s->arena);
    ns_allocator memory = s->memory;
    nsi_free(&memory, s);
}

static void* scene_alloc(nsi_scene* s, size_t count, size_t size) {
    void* block = nsi_arena_alloc(&s->arena, (count + 1) * size);
    if (block) memset(block, 0, (count + 1) * size);
    return block;
}

// Bodies, the axes they move along, and the trees they belong to. Trees that share a velocity through a
// mimic joint are one.
static bool add_scene_bodies(nsi_scene* s, const nsi_robot* robot, uint32_t* number) {
    const ns_model* m = robot->model;
    s->nv = m->sizes.nv;
    s->bodies = scene_alloc(s, m->sizes.nlink, sizeof *s->bodies);
    s->axis_v = scene_alloc(s, (size_t)m->sizes.nlink * NSI_MAX_DOF, sizeof *s->axis_v);
    s->dof_tree = scene_alloc(s, s->nv, sizeof *s->dof_tree);
    s->dof_local = scene_alloc(s, s->nv, sizeof *s->dof_local);
    s->dofs = scene_alloc(s, s->nv, sizeof *s->dofs);
    s->trees = scene_alloc(s, m->sizes.nlink, sizeof *s->trees);
    if (!s->bodies || !s->axis_v || !s->dof_tree || !s->dof_local || !s->dofs || !s->trees) {
        return false;
    }

    // The root of a body's tree is its first body; of one that follows another tree, that tree's.
    for (uint32_t v = 0; v < s->nv; v++) s->dof_tree[v] = NSI_NONE;
    for (uint32_t i = 0; i < m->sizes.nlink; i++) {
        number[i] = NSI_NONE;
        if (robot->place[i].body != i) continue;
        number[i] = s->nbody;
        nsi_scene_body* body = &s->bodies[s->nbody];
        uint32_t parent = robot->body[i].parent;
        *body = (nsi_scene_body){.link = i,
                                 .parent = parent == NSI_NONE ? NSI_NONE : number[parent],
                                 .first_axis = s->naxis,
                                 .naxis = robot->body[i].nv};
        body->tree = body->parent == NSI_NONE ? s->nbody : s->bodies[body->parent].tree;
        for (uint32_t k = 0; k < body->naxis; k++) {
            uint32_t v = m->links[i].v + k, old = s->dof_tree[v];
            s->axis_v[s->naxis++] = v;
            if (old == NSI_NONE || old == body->tree) {
                s->dof_tree[v] = body->tree;
                continue;
            }
            uint32_t from = body->tree > old ? body->tree : old,
                     to = body->tree > old ? old : body->tree;
            for (uint32_t b = 0; b <= s->nbody; b++) {
                if (s->bodies[b].tree == from) s->bodies[b].tree = to;
            }
            for (uint32_t w = 0; w < s->nv; w++) {
                if (s->dof_tree[w] == from) s->dof_tree[w] = to;
            }
        }
        s->nbody++;
    }
    return true;
}

// Number the trees in a row, and their velocities.
static bool add_trees(nsi_scene* s, bool dense) {
    uint32_t* number = scene_alloc(s, s->nbody, sizeof *number);
    if (!number) return false;
    for (uint32_t b = 0; b < s->nbody; b++) {
        if (s->bodies[b].tree == b) number[b] = s->ntree++;
    }
    for (uint32_t b = 0; b < s->nbody; b++) s->bodies[b].tree = number[s->bodies[b].tree];
    for (uint32_t v = 0; v < s->nv; v++) s->dof_tree[v] = number[s->dof_tree[v]];
    for (uint32_t t = 0, at = 0; t < s->ntree; t++) {
        nsi_scene_tree* tree = &s->trees[t];
        *tree = (nsi_scene_tree){.first = at, .factor = s->nfactor, .dense = dense};
        for (uint32_t v = 0; v < s->nv; v++) {
            if (s->dof_tree[v] != t) continue;
            s->dof_local[v] = tree->nv++;
            s->dofs[at++] = v;
        }
        s->nfactor += tree->nv * (tree->nv + 1) / 2;
    }

    // The longest chain of velocities that move a body.
    uint32_t longest = 0;
    for (uint32_t b = 0; b < s->nbody; b++) {
        uint32_t length = 0;
        for (uint32_t i = b; i != NSI_NONE; i = s->bodies[i].parent) length += s->bodies[i].naxis;
        if (dense) length = s->trees[s->bodies[b].tree].nv;
        if (length > longest) longest = length;
    }
    s->chain = 2 * longest;
    return true;
}

static uint32_t add_geom(nsi_scene* s, const nsi_robot* robot, const uint32_t* body,
                         uint32_t* number, uint32_t geom) {
    if (number[geom] != NSI_NONE) return number[geom];
    const nsi_geom* g = &robot->model->geoms[geom];
    uint32_t link = g->link == NSI_NONE ? NSI_NONE : robot->place[g->link].body;
    nsi_scene_geom* to = &s->geoms[s->ngeom];
    *to = (nsi_scene_geom){.type = g->def.type, .body = link == NSI_NONE ? NSI_NONE : body[link]};
    for (size_t i = 0; i < 3 * (size_t)g->def.nvertex; i++) {
        to->reach[i % 3] = fmax(to->reach[i % 3], fabs(g->def.vertices[i]));
    }
    s->geom_number[s->ngeom] = geom;
    number[geom] = s->ngeom++;
    return number[geom];
}

// What functions know of a geometry.
static nsi_shape shape_like(const ns_geom_def* g) {
    return (nsi_shape){.type = g->type,
                       .nvertex = g->nvertex,
                       .vertices = g->vertices,
                       .nrow = g->nrow,
                       .ncol = g->ncol,
                       .elevation = g->elevation};
}

static bool is_like(const nsi_shape* a, const nsi_shape* b) {
    return a->type == b->type && a->vertices == b->vertices && a->elevation == b->elevation;
}

// The kind of a pair, traced if it is new; NSI_NONE on failure.
static uint32_t add_kind(nsi_scene* s, const ns_geom_def* a, const ns_geom_def* b,
                         ns_error* error) {
    const nsi_shape like[2] = {shape_like(a), shape_like(b)};
    for (uint32_t k = 0; k < s->nkind; k++) {
        const nsi_scene_kind* kind = &s->kinds[k];
        if (is_like(&kind->like[0], &like[0]) && is_like(&kind->like[1], &like[1])) return k;
    }
    nsi_scene_kind* kind = &s->kinds[s->nkind];
    *kind = (nsi_scene_kind){.like = {like[0], like[1]},
                             .npoint = nsi_contact_slots(a->type, a->nvertex, b->type, b->nvertex)};
    if (kind->npoint > NSI_SCENE_MAX_POINTS) {
        nsi_set_error(error, NS_ERR_LIMIT,
                      "a pair of shapes has %u contact points; %d are possible", kind->npoint,
                      NSI_SCENE_MAX_POINTS);
        return NSI_NONE;
    }
    s->nkind++;
    return nsi_scene_trace_kind(s, kind, error) == NS_OK ? s->nkind - 1 : NSI_NONE;
}

static ns_status add_pairs(nsi_scene* s, const nsi_robot* robot, const nsi_contact_options* options,
                           int law, const uint32_t* body, ns_error* error) {
    const ns_model* m = robot->model;
    uint32_t* number = scene_alloc(s, m->sizes.ngeom, sizeof *number);
    s->geoms = scene_alloc(s, m->sizes.ngeom, sizeof *s->geoms);
    s->geom_number = scene_alloc(s, m->sizes.ngeom, sizeof *s->geom_number);
    s->pairs = scene_alloc(s, m->sizes.ncontact, sizeof *s->pairs);
    s->kinds = scene_alloc(s, m->sizes.ncontact, sizeof *s->kinds);
    if (!number || !s->geoms || !s->geom_number || !s->pairs || !s->kinds) {
        return nsi_fail_nomem(error);
    }
    for (uint32_t g = 0; g < m->sizes.ngeom; g++) number[g] = NSI_NONE;
    uint64_t points = 0;
    for (uint32_t i = 0; i < m->sizes.ncontact; i++) {
        const nsi_contact* contact = &m->contacts[i];
        if (!in_scene(contact, options, law)) continue;
        nsi_scene_pair* pair = &s->pairs[s->npair++];
        *pair = (nsi_scene_pair){.pair = i,
                                 .a = add_geom(s, robot, body, number, contact->a),
                                 .b = add_geom(s, robot, body, number, contact->b)};
        pair->kind = add_kind(s, &m->geoms[contact->a].def, &m->geoms[contact->b].def, error);
        if (pair->kind == NSI_NONE) return error->status;
        points += s->kinds[pair->kind].npoint;
    }
    s->ncontact = points < NSI_SCENE_MAX_CONTACTS ? (uint32_t)points : NSI_SCENE_MAX_CONTACTS;
    return NS_OK;
}

static ns_status make_scene(const nsi_robot* robot, const nsi_contact_options* options, int law,
                            double dt, nsi_scene** out, ns_error* error) {
    const ns_model* m = robot->model;
    nsi_scene* s = nsi_alloc_zeroed(&m->allocator, sizeof *s);
    *out = s;
    if (!s) return nsi_fail_nomem(error);
    atomic_init(&s->shared.references, 1);
    s->shared.free = scene_free;
    s->memory = s->arena.allocator = m->allocator;
    s->dt = dt;
    s->friction = (uint32_t)options->friction;
    uint32_t* body = scene_alloc(s, m->sizes.nlink, sizeof *body);
    if (m->sizes.nv > NSI_NCP_MAX_VELOCITIES) {
        return nsi_fail(error, NS_ERR_LIMIT,
                        "the model has %u velocities where %d are possible with rigid contact; use"
                        " the spring model",
                        m->sizes.nv, NSI_NCP_MAX_VELOCITIES);
    }
    if (!body || !add_scene_bodies(s, robot, body) || !add_trees(s, m->has_mimic)) {
        return nsi_fail_nomem(error);
    }
    ns_status status = add_pairs(s, robot, options, law, body, error);
    if (status == NS_OK) status = nsi_scene_trace_terms(s, error);
    return status;
}

// ---- tracing -------------------------------------------------------------------------------------

typedef struct scene_step {
    const nsi_robot* robot;
    nsi_scene* scene;
    double dt;
    const ns_expr* qdd;
    const uint32_t* slot; // of the law's parameters
    nsi_id* inputs;
    uint32_t count;
} scene_step;

static void add_input(scene_step* t, ns_expr x) {
    t->inputs[t->count++] = x.id;
}

static void add_vector(scene_step* t, vec3 v) {
    for (int k = 0; k < 3; k++) add_input(t, v.e[k]);
}

// Geometries where they are.
static void add_shapes(scene_step* t, const nsi_robot* robot, const nsi_link_pose* pose) {
    for (uint32_t g = 0; g < t->scene->ngeom; g++) {
        nsi_shape shape = nsi_geom_shape(robot, pose, t->scene->geom_number[g]);
        for (int i = 0; i < 3; i++) add_vector(t, m3_row(shape.R, i));
        add_vector(t, shape.position);
        for (int k = 0; k < 3; k++) add_input(t, shape.size[k]);
    }
}

// Parameter k of a pair of the scene.
static ns_expr pair_parameter(const scene_step* t, uint32_t pair, uint32_t k) {
    ns_expr known[NSI_RIGID_NPARAM];
    for (uint32_t i = 0; i < NSI_RIGID_NPARAM; i++) known[i].id = NSI_NONE;
    nsi_candidate candidate = {.law = &nsi_contact_ncp.law,
                               .slot = t->slot,
                               .pair = t->scene->pairs[pair].pair,
                               .param = known};
    return nsi_pair_param(t->robot, &candidate, k);
}

static nsi_id append_scene_block(scene_step* t, const nsi_block_kind* kind, uint32_t noutput,
                                 size_t scratch) {
    nsi_block block = {.kind = kind,
                       .params = {t->count, noutput, (uint32_t)scratch},
                       .ninput = t->count,
                       .inputs = t->inputs,
                       .source = NSI_NONE,
                       .sink = NSI_NONE,
                       .data = &t->scene->shared};
    return nsi_graph_block(t->robot->graph, &block);
}

static ns_expr scene_output(const scene_step* t, nsi_id node, uint32_t k) {
    return (ns_expr){nsi_graph_out(t->robot->graph, node, k)};
}

// Find contacts: the node of the block.
static nsi_id detect_contacts(scene_step* t) {
    const nsi_robot* robot = t->robot;
    nsi_scene* s = t->scene;
    nsi_link_pose* pose = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *pose);
    vec3* rates = nsi_robot_alloc(robot, 4 * (size_t)s->nbody, sizeof *rates);
    if (!pose || !rates) return NSI_NONE;
    nsi_link_poses(robot, pose);
    const motion* twists = nsi_unit_twists(robot, pose);
    if (!twists) return NSI_NONE;
    t->count = 0;
    add_shapes(t, robot, pose);

    // Twists of bodies and how they change, about the world's origin.
    for (uint32_t b = 0; b < s->nbody; b++) {
        const nsi_scene_body* body = &s->bodies[b];
        vec3* own = rates + 4 * (size_t)b;
        for (int k = 0; k < 4; k++) {
            own[k] = body->parent == NSI_NONE ? v3_zero() : rates[4 * body->parent + (uint32_t)k];
        }
        for (uint32_t k = 0; k < body->naxis; k++) {
            const uint32_t v = s->axis_v[body->first_axis + k];
            vec3 w = twists[body->link * NSI_MAX_DOF + k].w,
                 l = twists[body->link * NSI_MAX_DOF + k].v;
            own[0] = v3_add(own[0], v3_scale(robot->qd[v], w));
            own[1] = v3_add(own[1], v3_scale(robot->qd[v], l));
            own[2] = v3_add(own[2], v3_scale(t->qdd[v], w));
            own[3] = v3_add(own[3], v3_scale(t->qdd[v], l));
        }
        for (int k = 0; k < 4; k++) add_vector(t, own[k]);
    }
    vec3 g = nsi_robot_gravity(robot);
    add_input(t, ns_norm(3, g.e));
    for (uint32_t p = 0; p < s->npair; p++) {
        add_input(t, pair_parameter(t, p, NSI_RIGID_MARGIN));
    }
    return append_scene_block(t, &nsi_scene_detect, nsi_scene_detect_outputs(s),
                              nsi_scene_detect_scratch(s));
}

// The robot as it is at the impacts of its islands.
static bool move_scene(const scene_step* t, nsi_id detect, const ns_expr* end, nsi_robot* moved) {
    const nsi_robot* robot = t->robot;
    ns_expr* q = nsi_robot_alloc(robot, robot->model->sizes.nq, sizeof *q);
    ns_expr* dq = nsi_robot_alloc(robot, t->scene->nv, sizeof *dq);
    if (!q || !dq) return false;
    for (uint32_t v = 0; v < t->scene->nv; v++) {
        ns_expr share = scene_output(t, detect, t->scene->dof_tree[v]);
        dq[v] = ns_mul(ns_mul(ns_const(t->dt), share), end[v]);
    }
    nsi_integrate_config(robot->model, robot->q, dq, q);
    return nsi_robot_move(robot, q, robot->qd, moved);
}

// Factors of the mass matrix, tree by tree: lower rows, with the root of the inverse pivot last.
static void add_factors(scene_step* t, const ns_expr* M, const ns_expr* root) {
    const nsi_scene* s = t->scene;
    for (uint32_t k = 0; k < s->ntree; k++) {
        const uint32_t* dof = s->dofs + s->trees[k].first;
        for (uint32_t i = 0; i < s->trees[k].nv; i++) {
            for (uint32_t j = 0; j < i; j++) add_input(t, M[(size_t)dof[i] * s->nv + dof[j]]);
            add_input(t, root[dof[i]]);
        }
    }
}

static nsi_id respond_to_contacts(scene_step* t, nsi_id detect, const nsi_robot* moved,
                                  const ns_expr* M, const ns_expr* root) {
    const nsi_robot* robot = t->robot;
    nsi_scene* s = t->scene;
    nsi_link_pose* pose = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *pose);
    nsi_link_pose* start = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *start);
    if (!pose || !start) return NSI_NONE;
    nsi_link_poses(robot, start);
    nsi_link_poses(moved, pose);
    const motion* twists = nsi_unit_twists(moved, pose);
    if (!twists) return NSI_NONE;
    t->count = 0;
    add_shapes(t, moved, pose);
    for (uint32_t b = 0; b < s->nbody; b++) {
        for (uint32_t k = 0; k < s->bodies[b].naxis; k++) {
            add_vector(t, twists[s->bodies[b].link * NSI_MAX_DOF + k].w);
            add_vector(t, twists[s->bodies[b].link * NSI_MAX_DOF + k].v);
        }
    }
    add_factors(t, M, root);
    for (uint32_t v = 0; v < s->nv; v++) add_input(t, robot->qd[v]);
    for (uint32_t v = 0; v < s->nv; v++) add_input(t, t->qdd[v]);
    for (uint32_t k = 0; k < s->ntree; k++) add_input(t, scene_output(t, detect, k));
    static const uint32_t params[NSI_SCENE_PARAMS] = {
        NSI_RIGID_MU, NSI_RIGID_CFM, NSI_RIGID_RESTITUTION, NSI_RIGID_BETA, NSI_RIGID_MAX_PUSH};
    for (uint32_t p = 0; p < s->npair; p++) {
        for (uint32_t k = 0; k < NSI_SCENE_PARAMS; k++) {
            add_input(t, pair_parameter(t, p, params[k]));
        }
    }
    for (uint32_t k = 0; k < NSI_SCENE_CONTACT * s->ncontact; k++) {
        add_input(t, scene_output(t, detect, 2 * s->ntree + k));
    }
    add_input(t, scene_output(t, detect, nsi_scene_detect_outputs(s) - 1)); // are some missing?
    add_shapes(t, robot, start);
    return append_scene_block(t, &nsi_scene_respond, nsi_scene_respond_outputs(s),
                              nsi_scene_respond_scratch(s));
}

// From Z'l to M^-1 J'l.
static void finish_response(const scene_step* t, nsi_id node, uint32_t first, const ns_expr* M,
                            const ns_expr* root, ns_expr* out) {
    for (uint32_t v = 0; v < t->scene->nv; v++) {
        out[v] = ns_mul(root[v], scene_output(t, node, first + v));
    }
    nsi_ltdl_finish(t->scene->nv, M, out);
}

static void trace_scene(scene_step* t, const ns_expr* added, nsi_impact* impact) {
    const nsi_robot* robot = t->robot;
    nsi_scene* s = t->scene;
    uint32_t nv = s->nv;
    uint32_t room = nsi_scene_detect_inputs(s) > nsi_scene_respond_inputs(s)
                        ? nsi_scene_detect_inputs(s)
                        : nsi_scene_respond_inputs(s);
    t->inputs = nsi_robot_alloc(robot, room, sizeof *t->inputs);
    ns_expr* M = nsi_robot_alloc(robot, (size_t)nv * nv, sizeof *M);
    ns_expr* root = nsi_robot_alloc(robot, nv, sizeof *root);
    ns_expr* change = nsi_robot_alloc(robot, nv, sizeof *change);
    if (!t->inputs || !M || !root || !change) return;

    // Contacts, then the robot at their impacts and its mass matrix there.
    nsi_id detect = detect_contacts(t);
    nsi_robot moved;
    if (detect == NSI_NONE || !move_scene(t, detect, impact->qd, &moved)) return;
    nsi_mass_factors(&moved, added, M, root);
    nsi_id respond = respond_to_contacts(t, detect, &moved, M, root);
    if (respond == NSI_NONE) return;

    // Velocities, and what dt times them has too much of.
    finish_response(t, respond, 0, M, root, change);
    for (uint32_t v = 0; v < nv; v++) impact->qd[v] = ns_add(impact->qd[v], change[v]);
    finish_response(t, respond, nv, M, root, change);
    for (uint32_t v = 0; v < nv; v++) {
        impact->position_correction[v] = ns_mul(ns_const(-t->dt), change[v]);
    }

    // What there is to know.
    static const char* const told[4] = {"contact/residual", "contact/relaxation", "contact/sweeps",
                                        "contact/solves"};
    ns_expr said[4];
    for (uint32_t k = 0; k < 4; k++) {
        said[k] = scene_output(t, respond, nsi_scene_respond_outputs(s) - 4 + k);
        ns_quantity(told[k], said[k]);
    }
    impact->residual = said[0];
    impact->relaxation = said[1];
    nsi_trace_observe("contact/penetration", "m",
                      scene_output(t, detect, nsi_scene_detect_outputs(s) - 2));
}

void nsi_scene_impulses(const nsi_robot* robot, const nsi_contact_options* options, int law,
                        double dt, const ns_expr* qdd, const ns_expr* added, nsi_impact* impact) {
    if (robot->graph->error.status != NS_OK) return;
    nsi_scene* scene;
    ns_error error = {0};
    ns_status status = make_scene(robot, options, law, dt, &scene, &error);
    if (status == NS_OK) {
        const uint32_t* slot = nsi_contact_find_slots(robot, law);
        scene_step t = {.robot = robot, .scene = scene, .dt = dt, .qdd = qdd, .slot = slot};
        if (slot) trace_scene(&t, added, impact);
    } else {
        nsi_graph_fail(robot->graph, status, "%s", error.message);
    }
    if (scene) nsi_block_data_release(&scene->shared); // blocks keep it
}
