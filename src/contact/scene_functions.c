// The functions of a scene: traced once for each kind of pair, with their derivatives, and executed for
// each pair that is near.

#include "contact/contact_classes.h"
#include "contact/scene.h"
#include "expr/trace.h"

#include <stdio.h>

// ---- functions ---------------------------------------------------------------------------------

typedef struct scene_trace {
    nsi_trace_state outside;
    ns_graph* graph;
    uint32_t count; // of inputs, then of outputs
} scene_trace;

static ns_status begin_function(const nsi_scene* s, scene_trace* t, ns_error* error) {
    *t = (scene_trace){.graph = NULL};
    ns_status status = ns_graph_create(&s->memory, &t->graph, error);
    if (status == NS_OK) t->outside = nsi_trace_enter(t->graph);
    return status;
}

static ns_expr next_input(scene_trace* t) {
    char name[16];
    snprintf(name, sizeof name, "x%u", t->count++);
    return ns_input(name);
}

static vec3 next_vector(scene_trace* t) {
    vec3 v;
    for (int k = 0; k < 3; k++) v.e[k] = next_input(t);
    return v;
}

static void next_output(scene_trace* t, ns_expr y) {
    char name[16];
    snprintf(name, sizeof name, "y%u", t->count++);
    ns_output(name, y);
}

static ns_status build_program(nsi_scene* s, const ns_graph* g, ns_program** out, ns_error* error) {
    ns_status status = ns_program_build(g, NULL, out, error);
    if (status != NS_OK) return status;
    ns_program_info info = ns_program_get_info(*out);
    if (info.input_count > s->most_inputs) s->most_inputs = info.input_count;
    if (info.output_count > s->most_outputs) s->most_outputs = info.output_count;
    size_t work = (ns_program_work_size(*out) + sizeof(double) - 1) / sizeof(double);
    if (work > s->work) s->work = work;
    return NS_OK;
}

// End the trace and build the programs; the first `nsmooth` outputs have derivatives. Frees the graph.
static ns_status end_function(nsi_scene* s, scene_trace* t, uint32_t nsmooth,
                              nsi_scene_function* out, ns_error* error) {
    nsi_trace_leave(t->outside);
    ns_graph *g = t->graph, *derived = NULL;
    ns_status status = nsi_graph_finish(&g, error);
    if (status != NS_OK) return status;
    *out = (nsi_scene_function){
        .ninput = g->inputs.count, .noutput = g->outputs.count, .nsmooth = nsmooth};
    status = build_program(s, g, &out->value, error);

    // Derivatives are those of the smooth outputs.
    g->outputs.count = nsmooth;
    ns_diff_options options = ns_default_diff_options();
    options.skip_value = true;
    if (status == NS_OK) status = ns_graph_jvp(g, &options, &derived, error);
    if (status == NS_OK) status = build_program(s, derived, &out->tangent, error);
    ns_graph_free(derived);
    derived = NULL;
    if (status == NS_OK) status = ns_graph_vjp(g, &options, &derived, error);
    if (status == NS_OK) status = build_program(s, derived, &out->adjoint, error);
    ns_graph_free(derived);
    ns_graph_free(g);
    return status;
}

void nsi_scene_function_free(nsi_scene_function* f) {
    ns_program_free(f->value);
    ns_program_free(f->tangent);
    ns_program_free(f->adjoint);
}

// ---- pairs ---------------------------------------------------------------------------------------

static nsi_shape trace_shape(scene_trace* t, const nsi_scene_kind* kind, int side) {
    nsi_shape shape = kind->like[side];
    for (int i = 0; i < 3; i++) {
        vec3 row = next_vector(t);
        for (int j = 0; j < 3; j++) shape.R.e[i][j] = row.e[j];
    }
    shape.position = next_vector(t);
    for (int k = 0; k < 3; k++) shape.size[k] = next_input(t);
    return shape;
}

// Normal component at p of a twist about the origin.
static ns_expr normal_part(vec3 w, vec3 v, vec3 p, vec3 n) {
    return v3_dot(n, v3_add(v, v3_cross(w, p)));
}

static ns_status trace_start(nsi_scene* s, nsi_scene_kind* kind, nsi_contact_point* points,
                             ns_expr* flags, ns_error* error) {
    scene_trace t;
    ns_status status = begin_function(s, &t, error);
    if (status != NS_OK) return status;
    nsi_shape a = trace_shape(&t, kind, 0), b = trace_shape(&t, kind, 1);
    vec3 moves[2][4]; // twist w, v; acceleration w, v
    for (int side = 0; side < 2; side++) {
        for (int k = 0; k < 4; k++) moves[side][k] = next_vector(&t);
    }
    ns_expr fall = next_input(&t), margin = next_input(&t);
    nsi_contact_points(&a, &b, points);

    t.count = 0;
    for (uint32_t k = 0; k < kind->npoint; k++) {
        vec3 p = points[k].position, n = points[k].normal;
        nsi_contact_start start = {.exists = points[k].exists,
                                   .phi = points[k].gap,
                                   .vn = ns_sub(normal_part(moves[0][0], moves[0][1], p, n),
                                                normal_part(moves[1][0], moves[1][1], p, n)),
                                   .an = ns_sub(normal_part(moves[0][2], moves[0][3], p, n),
                                                normal_part(moves[1][2], moves[1][3], p, n)),
                                   .fall = fall,
                                   .margin = margin};
        nsi_contact_class c;
        nsi_contact_classify(s->dt, &start, &c);
        next_output(&t, start.phi);
        next_output(&t, start.vn);
        next_output(&t, c.a);
        next_output(&t, c.time);
        flags[4 * k] = c.rests;
        flags[4 * k + 1] = c.passes;
        flags[4 * k + 2] = c.late;
        flags[4 * k + 3] = c.nears;
    }
    for (uint32_t k = 0; k < 4 * kind->npoint; k++) next_output(&t, flags[k]);
    return end_function(s, &t, 4 * kind->npoint, &kind->start, error);
}

// The directions of rows as wrenches: a row of the Jacobian is the product with a twist. Reads the shapes
// at the impact, then those at the start of the step, where features are chosen.
static ns_status trace_rows(nsi_scene* s, nsi_scene_kind* kind, nsi_contact_point* points,
                            ns_error* error) {
    scene_trace t;
    ns_status status = begin_function(s, &t, error);
    if (status != NS_OK) return status;
    nsi_shape a = trace_shape(&t, kind, 0), b = trace_shape(&t, kind, 1);
    nsi_shape start_a = trace_shape(&t, kind, 0), start_b = trace_shape(&t, kind, 1);
    a.chosen = &start_a;
    b.chosen = &start_b;
    nsi_contact_points(&a, &b, points);
    t.count = 0;
    for (uint32_t k = 0; k < kind->npoint; k++) {
        vec3 d[3] = {points[k].normal};
        nsi_contact_tangents(d[0], d + 1);
        for (int row = 0; row < 3; row++) {
            vec3 moment = v3_cross(points[k].position, d[row]);
            for (int i = 0; i < 3; i++) next_output(&t, moment.e[i]);
            for (int i = 0; i < 3; i++) next_output(&t, d[row].e[i]);
        }
    }
    return end_function(s, &t, 18 * kind->npoint, &kind->rows, error);
}

ns_status nsi_scene_trace_kind(nsi_scene* s, nsi_scene_kind* kind, ns_error* error) {
    nsi_contact_point* points = nsi_alloc(&s->memory, kind->npoint * sizeof *points);
    ns_expr* flags = nsi_alloc(&s->memory, 4 * (size_t)kind->npoint * sizeof *flags);
    ns_status status =
        points && flags ? trace_start(s, kind, points, flags, error) : nsi_fail_nomem(error);
    if (status == NS_OK) status = trace_rows(s, kind, points, error);
    nsi_free(&s->memory, points);
    nsi_free(&s->memory, flags);
    return status;
}

// ---- terms ---------------------------------------------------------------------------------------

ns_status nsi_scene_trace_terms(nsi_scene* s, ns_error* error) {
    scene_trace t;
    ns_status status = begin_function(s, &t, error);
    if (status != NS_OK) return status;
    ns_expr x[NSI_TERM_INPUTS];
    for (int k = 0; k < NSI_TERM_INPUTS; k++) x[k] = next_input(&t);
    nsi_contact_term_inputs in = {.phi = x[NSI_TERM_PHI],
                                  .vn = x[NSI_TERM_VN],
                                  .a = x[NSI_TERM_A],
                                  .share = x[NSI_TERM_SHARE],
                                  .hit = x[NSI_TERM_HIT],
                                  .late = x[NSI_TERM_LATE],
                                  .beta = x[NSI_TERM_BETA],
                                  .max_push = x[NSI_TERM_MAX_PUSH]};
    nsi_contact_terms terms;
    nsi_contact_find_terms(s->dt, &in, &terms);
    t.count = 0;
    next_output(&t, terms.gap);
    next_output(&t, terms.slack);
    next_output(&t, terms.slack_after);
    next_output(&t, terms.goal);
    next_output(&t, terms.rise);
    return end_function(s, &t, NSI_TERM_OUTPUTS, &s->terms, error);
}
