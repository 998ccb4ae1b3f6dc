// Bodies in plain numbers, a pair of them as a program, and distances computed another way.

#ifndef TEST_SHAPES_RIG_H
#define TEST_SHAPES_RIG_H

#include "base/common.h"
#include "contact/shapes.h"
#include "neuralsim/program.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/randomtree.h"
#include "support/residual.h"
#include "support/tracing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Some dozens of roundings of 1.1e-16 on numbers up to a few metres.
static const double ROUNDING = 1e-13;

// Searches for a minimum end where the function is flat to rounding.
static const double SEARCHED = 1e-10;

enum { MAX_SLOTS = 40, SLOT = 8, BODY = 9, INPUTS = 2 * BODY, CASES = 200 };

// ---- bodies in plain numbers ---------------------------------------------------------------

typedef struct body {
    ns_geom_type type;
    double p[3], w[3], size[3]; // w: axis times angle. In this order inputs of the graphs
    uint32_t nvertex;
    const double* vertices;
    struct {
        uint32_t nrow, ncol;
        const double* elevation;
    } grid; // of a height field
} body;

typedef struct point {
    double position[3], normal[3], gap, exists;
} point;

static inline double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline double length(const double a[3]) {
    return sqrt(dot(a, a));
}

static inline void cross(const double a[3], const double b[3], double out[3]) {
    double r[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
    memcpy(out, r, sizeof r);
}

// Turn v by the vector w (Rodrigues).
static inline void rotate(const double w[3], const double v[3], double out[3]) {
    double angle = length(w), k[3] = {0, 0, 1}, kv[3];
    for (int i = 0; i < 3 && angle > 0.0; i++) k[i] = w[i] / angle;
    cross(k, v, kv);
    double s = sin(angle), c = cos(angle), along = dot(k, v);
    double r[3];
    for (int i = 0; i < 3; i++) r[i] = c * v[i] + s * kv[i] + (1.0 - c) * along * k[i];
    memcpy(out, r, sizeof r);
}

static inline void to_world(const body* b, const double local[3], double out[3]) {
    rotate(b->w, local, out);
    for (int i = 0; i < 3; i++) out[i] += b->p[i];
}

static inline void to_local(const body* b, const double world[3], double out[3]) {
    double back[3] = {-b->w[0], -b->w[1], -b->w[2]}, d[3];
    for (int i = 0; i < 3; i++) d[i] = world[i] - b->p[i];
    rotate(back, d, out);
}

static inline void axis_of(const body* b, int k, double out[3]) {
    double e[3] = {k == 0, k == 1, k == 2};
    rotate(b->w, e, out);
}

static inline double along(const body* b, int axis, const double v[3]) {
    double e[3];
    axis_of(b, axis, e);
    return dot(e, v);
}

// Rotation vector of "turn by `first`, then by `then`", through quaternions.
static inline void compose_rotations(const double then[3], const double first[3], double out[3]) {
    double q[2][4];
    for (int k = 0; k < 2; k++) {
        const double* w = k ? first : then;
        double angle = length(w), s = angle > 0.0 ? sin(angle / 2) / angle : 0.5;
        q[k][0] = cos(angle / 2);
        for (int i = 0; i < 3; i++) q[k][1 + i] = s * w[i];
    }
    double v[3], r[4];
    cross(q[0] + 1, q[1] + 1, v);
    r[0] = q[0][0] * q[1][0] - dot(q[0] + 1, q[1] + 1);
    for (int i = 0; i < 3; i++) r[1 + i] = v[i] + q[0][0] * q[1][1 + i] + q[1][0] * q[0][1 + i];
    double sine = length(r + 1), angle = 2.0 * atan2(sine, r[0]);
    for (int i = 0; i < 3; i++) out[i] = sine > 0.0 ? angle * r[1 + i] / sine : 0.0;
}

// An L, counterclockwise, and a star, clockwise, with a vertex twice and one on a straight side.
static const double l_shape[] = {-0.2, -0.2, 0, 0.2,  -0.2, 0, 0.2,  -0.1, 0,
                                 -0.1, -0.1, 0, -0.1, 0.3,  0, -0.2, 0.3,  0};

enum { L_VERTICES = 6, STAR_VERTICES = 12 };

static const double solid[] = {0.1, 0.0, 0.2, -0.3, 0.1,  -0.1, 0.2, -0.2,
                               0.1, 0.0, 0.3, -0.2, 0.15, 0.1,  -0.3};

static inline body random_body(ns_rng* rng, ns_geom_type type) {
    body b = {.type = type};
    double axis[3], angle = ns_rng_uniform(rng, 0.1, 3.0);
    random_unit(rng, axis);
    for (int i = 0; i < 3; i++) {
        b.p[i] = ns_rng_uniform(rng, -0.5, 0.5);
        b.w[i] = angle * axis[i];
        b.size[i] = ns_rng_uniform(rng, 0.05, 0.3);
    }
    if (type == NS_GEOM_MESH || type == NS_GEOM_POINTS) b.vertices = solid, b.nvertex = 5;
    if (type == NS_GEOM_POLYGON) b.vertices = l_shape, b.nvertex = L_VERTICES;
    return b;
}

// ---- a pair as a program -------------------------------------------------------------------

typedef struct machine {
    ns_graph* graph;
    ns_program* program;
    void* work;
    uint32_t slots;
} machine;

static inline nsi_shape shape_inputs(const body* b, char prefix, bool constant) {
    nsi_shape s = {.type = b->type,
                   .nvertex = b->nvertex,
                   .vertices = b->vertices,
                   .nrow = b->grid.nrow,
                   .ncol = b->grid.ncol,
                   .elevation = b->grid.elevation};
    const double* numbers = b->p;
    ns_expr x[BODY];
    for (int i = 0; i < BODY; i++) {
        char name[8];
        snprintf(name, sizeof name, "%c%d", prefix, i);
        numbers = i < 3 ? b->p : i < 6 ? b->w : b->size;
        x[i] = constant ? ns_const(numbers[i % 3]) : ns_input(name);
    }
    s.position = v3(x[0], x[1], x[2]);
    s.R = m3_from_quat(q_exp(v3(x[3], x[4], x[5])));
    memcpy(s.size, x + 6, sizeof s.size);
    return s;
}

static inline ns_graph* pair_graph(const body* a, const body* b, uint32_t* slots) {
    ns_graph* g = tracing_begin();
    nsi_shape sa = shape_inputs(a, 'a', false), sb = shape_inputs(b, 'b', false);
    *slots = nsi_contact_slots(a->type, a->nvertex, b->type, b->nvertex);
    assert_true(*slots > 0 && *slots <= MAX_SLOTS);
    nsi_contact_point points[MAX_SLOTS];
    nsi_contact_points(&sa, &sb, points);
    for (uint32_t k = 0; k < *slots; k++) {
        ns_expr out[SLOT];
        memcpy(out, points[k].position.e, sizeof points[k].position.e);
        memcpy(out + 3, points[k].normal.e, sizeof points[k].normal.e);
        out[6] = points[k].gap;
        out[7] = points[k].exists;
        for (int i = 0; i < SLOT; i++) {
            char name[16];
            snprintf(name, sizeof name, "s%u_%d", k, i);
            ns_output(name, out[i]);
        }
    }
    tracing_end();
    return g;
}

static inline machine machine_of(ns_graph* graph, uint32_t slots) {
    machine m = {.graph = graph, .slots = slots};
    ns_error error = {0};
    must(ns_program_build(graph, NULL, &m.program, &error), &error);
    m.work = malloc(ns_program_work_size(m.program) + 1);
    assert_non_null(m.work);
    return m;
}

static inline machine machine_create(const body* a, const body* b) {
    uint32_t slots;
    ns_graph* graph = pair_graph(a, b, &slots);
    return machine_of(graph, slots);
}

static inline void machine_free(machine* m) {
    free(m->work);
    ns_program_free(m->program);
    ns_graph_free(m->graph);
}

static inline void fill_inputs(const body* a, const body* b, double in[INPUTS]) {
    for (int i = 0; i < INPUTS; i++) {
        const body* s = i < BODY ? a : b;
        int k = i % BODY;
        in[i] = k < 3 ? s->p[k] : k < 6 ? s->w[k - 3] : s->size[k - 6];
    }
}

static inline void machine_run(const machine* m, const body* a, const body* b, point* points) {
    double in[INPUTS], out[MAX_SLOTS * SLOT];
    fill_inputs(a, b, in);
    ns_program_run(m->program, &(ns_run){.in = in, .out = out, .work = m->work});
    for (uint32_t k = 0; k < m->slots; k++) {
        memcpy(points[k].position, out + SLOT * k, sizeof points[k].position);
        memcpy(points[k].normal, out + SLOT * k + 3, sizeof points[k].normal);
        points[k].gap = out[SLOT * k + 6];
        points[k].exists = out[SLOT * k + 7];
    }
}

// The existing point with the smallest gap.
static inline const point* deepest(const machine* m, const point* points) {
    const point* best = NULL;
    for (uint32_t k = 0; k < m->slots; k++) {
        if (points[k].exists != 0.0 && (!best || points[k].gap < best->gap)) best = &points[k];
    }
    return best;
}

static inline uint32_t existing(const machine* m, const point* points) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < m->slots; k++) n += points[k].exists != 0.0;
    return n;
}

// ---- distances in plain numbers ------------------------------------------------------------

// Minimum of a convex function on [low, high], by thirds.
typedef double (*function)(double x, const void* context);

static inline double search(function f, const void* context, double low, double high) {
    for (int k = 0; k < 200; k++) {
        double third = (high - low) / 3.0, x = low + third, y = high - third;
        if (f(x, context) <= f(y, context))
            high = y;
        else
            low = x;
    }
    return f(0.5 * (low + high), context);
}

typedef struct ray { // points p + s u, and the body they are measured from
    double p[3], u[3];
    const body* from;
} ray;

static inline double ray_to_point(double s, const void* context) {
    const ray* r = context; // here u is a segment of `from`, p relative to the point
    double d[3];
    for (int i = 0; i < 3; i++) d[i] = r->p[i] + s * r->u[i];
    return length(d);
}

// Signed distance of a point from a sphere, capsule or box.
static inline double distance(const body* b, const double x[3]) {
    double local[3], d[3], inside = -INFINITY;
    to_local(b, x, local);
    if (b->type == NS_GEOM_SPHERE) return length(local) - b->size[0];
    if (b->type == NS_GEOM_CAPSULE) {
        ray r = {.p = {-local[0], -local[1], -local[2]}, .u = {0, 0, 1}};
        return search(ray_to_point, &r, -b->size[1], b->size[1]) - b->size[0];
    }
    assert_true(b->type == NS_GEOM_BOX);
    for (int i = 0; i < 3; i++) {
        d[i] = fmax(fabs(local[i]) - b->size[i], 0.0);
        inside = fmax(inside, fabs(local[i]) - b->size[i]);
    }
    return inside > 0.0 ? length(d) : inside;
}

// ---- which pairs ---------------------------------------------------------------------------

typedef struct pair_of_types {
    const char* name;
    ns_geom_type a, b;
    uint32_t slots; // with the vertices of random_body()
} pair_of_types;

static const pair_of_types all[] = {
    {"sphere-plane", NS_GEOM_SPHERE, NS_GEOM_PLANE, 1},
    {"capsule-plane", NS_GEOM_CAPSULE, NS_GEOM_PLANE, 2},
    {"cylinder-plane", NS_GEOM_CYLINDER, NS_GEOM_PLANE, 6},
    {"box-plane", NS_GEOM_BOX, NS_GEOM_PLANE, 8},
    {"mesh-plane", NS_GEOM_MESH, NS_GEOM_PLANE, 5},
    {"ellipsoid-plane", NS_GEOM_ELLIPSOID, NS_GEOM_PLANE, 1},
    {"polygon-plane", NS_GEOM_POLYGON, NS_GEOM_PLANE, 12},
    {"ellipse-plane", NS_GEOM_ELLIPSE, NS_GEOM_PLANE, 6},
    {"points-plane", NS_GEOM_POINTS, NS_GEOM_PLANE, 5},
    {"sphere-sphere", NS_GEOM_SPHERE, NS_GEOM_SPHERE, 1},
    {"sphere-capsule", NS_GEOM_SPHERE, NS_GEOM_CAPSULE, 1},
    {"capsule-capsule", NS_GEOM_CAPSULE, NS_GEOM_CAPSULE, 2},
    {"sphere-box", NS_GEOM_SPHERE, NS_GEOM_BOX, 1},
    {"capsule-box", NS_GEOM_CAPSULE, NS_GEOM_BOX, 2},
    {"box-box", NS_GEOM_BOX, NS_GEOM_BOX, 13},
    {"rod-polygon", NS_GEOM_CYLINDER, NS_GEOM_POLYGON, 1},
    {"rod-ellipse", NS_GEOM_CYLINDER, NS_GEOM_ELLIPSE, 1},
};

// Those of convex_pairs.c.
static const pair_of_types convex_pairs[] = {
    {"sphere-cylinder", NS_GEOM_SPHERE, NS_GEOM_CYLINDER, 1},
    {"sphere-ellipsoid", NS_GEOM_SPHERE, NS_GEOM_ELLIPSOID, 1},
    {"sphere-mesh", NS_GEOM_SPHERE, NS_GEOM_MESH, 1},
    {"capsule-cylinder", NS_GEOM_CAPSULE, NS_GEOM_CYLINDER, 2},
    {"capsule-ellipsoid", NS_GEOM_CAPSULE, NS_GEOM_ELLIPSOID, 1},
    {"capsule-mesh", NS_GEOM_CAPSULE, NS_GEOM_MESH, 2},
    {"box-cylinder", NS_GEOM_BOX, NS_GEOM_CYLINDER, 4},
    {"box-ellipsoid", NS_GEOM_BOX, NS_GEOM_ELLIPSOID, 1},
    {"box-mesh", NS_GEOM_BOX, NS_GEOM_MESH, 4},
    {"cylinder-cylinder", NS_GEOM_CYLINDER, NS_GEOM_CYLINDER, 4},
    {"cylinder-ellipsoid", NS_GEOM_CYLINDER, NS_GEOM_ELLIPSOID, 1},
    {"cylinder-mesh", NS_GEOM_CYLINDER, NS_GEOM_MESH, 4},
    {"ellipsoid-ellipsoid", NS_GEOM_ELLIPSOID, NS_GEOM_ELLIPSOID, 1},
    {"ellipsoid-mesh", NS_GEOM_ELLIPSOID, NS_GEOM_MESH, 1},
    {"mesh-mesh", NS_GEOM_MESH, NS_GEOM_MESH, 4},
};

// Those of hfield.c.
static const pair_of_types hfield_pairs[] = {
    {"sphere-hfield", NS_GEOM_SPHERE, NS_GEOM_HFIELD, 3},
    {"capsule-hfield", NS_GEOM_CAPSULE, NS_GEOM_HFIELD, 6},
    {"cylinder-hfield", NS_GEOM_CYLINDER, NS_GEOM_HFIELD, 10},
    {"box-hfield", NS_GEOM_BOX, NS_GEOM_HFIELD, 12},
    {"ellipsoid-hfield", NS_GEOM_ELLIPSOID, NS_GEOM_HFIELD, 3},
    {"mesh-hfield", NS_GEOM_MESH, NS_GEOM_HFIELD, 5},
};

// ---- boxes ---------------------------------------------------------------------------------

// Separation of two boxes along a unit direction, by support functions.
static inline double separation_along(const body* a, const body* b, const double n[3]) {
    double d[3], reach = 0.0;
    for (int i = 0; i < 3; i++) {
        d[i] = a->p[i] - b->p[i];
        reach += a->size[i] * fabs(along(a, i, n)) + b->size[i] * fabs(along(b, i, n));
    }
    return fabs(dot(d, n)) - reach;
}

static inline double separation(const body* a, const body* b, bool edges) {
    double best = -INFINITY;
    for (int k = 0; k < (edges ? 15 : 6); k++) {
        double n[3], m[3];
        axis_of(k < 3 ? a : b, k % 3, n);
        if (k >= 6) {
            axis_of(a, (k - 6) / 3, n), axis_of(b, k % 3, m);
            cross(n, m, n);
            double size = length(n);
            if (size < 1e-3) continue;
            for (int i = 0; i < 3; i++) n[i] /= size;
        }
        best = fmax(best, separation_along(a, b, n));
    }
    return best;
}

// Two boxes whose separation is about `want` times the shortest half length.
static inline void touching_boxes(ns_rng* rng, double want, body* a, body* b) {
    double away[3], low = 0.0, high = 2.0, shortest = INFINITY;
    *a = random_body(rng, NS_GEOM_BOX);
    *b = random_body(rng, NS_GEOM_BOX);
    random_unit(rng, away);
    for (int i = 0; i < 3; i++) shortest = fmin(shortest, fmin(a->size[i], b->size[i]));
    for (int k = 0; k < 60; k++) {
        double middle = 0.5 * (low + high);
        for (int i = 0; i < 3; i++) a->p[i] = b->p[i] + middle * away[i];
        if (separation(a, b, true) < want * shortest)
            low = middle;
        else
            high = middle;
    }
}

#endif
