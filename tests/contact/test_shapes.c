// Contact points of pairs of shapes against plain geometry computed another way: closed forms,
// searches for the nearest points, separating axes by support functions; and what any contact must
// satisfy: symmetry, invariance, the derivative of a distance, finite numbers at degenerate poses.

#include "base/common.h"
#include "contact/shapes.h"
#include "neuralsim/program.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/randomtree.h"
#include "support/residual.h"
#include "support/tracing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

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
} body;

typedef struct point {
    double position[3], normal[3], gap, exists;
} point;

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
static double length(const double a[3]) {
    return sqrt(dot(a, a));
}
static void cross(const double a[3], const double b[3], double out[3]) {
    double r[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
    memcpy(out, r, sizeof r);
}

// Turn v by the vector w (Rodrigues).
static void rotate(const double w[3], const double v[3], double out[3]) {
    double angle = length(w), k[3] = {0, 0, 1}, kv[3];
    for (int i = 0; i < 3 && angle > 0.0; i++) k[i] = w[i] / angle;
    cross(k, v, kv);
    double s = sin(angle), c = cos(angle), along = dot(k, v);
    double r[3];
    for (int i = 0; i < 3; i++) r[i] = c * v[i] + s * kv[i] + (1.0 - c) * along * k[i];
    memcpy(out, r, sizeof r);
}
static void to_world(const body* b, const double local[3], double out[3]) {
    rotate(b->w, local, out);
    for (int i = 0; i < 3; i++) out[i] += b->p[i];
}
static void to_local(const body* b, const double world[3], double out[3]) {
    double back[3] = {-b->w[0], -b->w[1], -b->w[2]}, d[3];
    for (int i = 0; i < 3; i++) d[i] = world[i] - b->p[i];
    rotate(back, d, out);
}
static void axis_of(const body* b, int k, double out[3]) {
    double e[3] = {k == 0, k == 1, k == 2};
    rotate(b->w, e, out);
}
static double along(const body* b, int axis, const double v[3]) {
    double e[3];
    axis_of(b, axis, e);
    return dot(e, v);
}

// Rotation vector of "turn by `first`, then by `then`", through quaternions.
static void compose_rotations(const double then[3], const double first[3], double out[3]) {
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
static const double star[] = {0.0,  0.3,   0, 0.08, 0.1,  0, 0.3,  0.1,   0, 0.12,  -0.04, 0,
                              0.12, -0.04, 0, 0.2,  -0.3, 0, 0.0,  -0.12, 0, -0.2,  -0.3,  0,
                              -0.1, -0.02, 0, -0.2, 0.04, 0, -0.3, 0.1,   0, -0.08, 0.1,   0};
enum { L_VERTICES = 6, STAR_VERTICES = 12 };
static const double solid[] = {0.1, 0.0, 0.2, -0.3, 0.1,  -0.1, 0.2, -0.2,
                               0.1, 0.0, 0.3, -0.2, 0.15, 0.1,  -0.3};

static body random_body(ns_rng* rng, ns_geom_type type) {
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

static nsi_shape shape_inputs(const body* b, char prefix, bool constant) {
    nsi_shape s = {.type = b->type, .nvertex = b->nvertex, .vertices = b->vertices};
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

static ns_graph* pair_graph(const body* a, const body* b, uint32_t* slots) {
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

static machine machine_of(ns_graph* graph, uint32_t slots) {
    machine m = {.graph = graph, .slots = slots};
    ns_error error = {0};
    must(ns_program_build(graph, NULL, &m.program, &error), &error);
    m.work = malloc(ns_program_work_size(m.program) + 1);
    assert_non_null(m.work);
    return m;
}
static machine machine_create(const body* a, const body* b) {
    uint32_t slots;
    ns_graph* graph = pair_graph(a, b, &slots);
    return machine_of(graph, slots);
}
static void machine_free(machine* m) {
    free(m->work);
    ns_program_free(m->program);
    ns_graph_free(m->graph);
}

static void fill_inputs(const body* a, const body* b, double in[INPUTS]) {
    for (int i = 0; i < INPUTS; i++) {
        const body* s = i < BODY ? a : b;
        int k = i % BODY;
        in[i] = k < 3 ? s->p[k] : k < 6 ? s->w[k - 3] : s->size[k - 6];
    }
}
static void machine_run(const machine* m, const body* a, const body* b, point* points) {
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
static const point* deepest(const machine* m, const point* points) {
    const point* best = NULL;
    for (uint32_t k = 0; k < m->slots; k++) {
        if (points[k].exists != 0.0 && (!best || points[k].gap < best->gap)) best = &points[k];
    }
    return best;
}
static uint32_t existing(const machine* m, const point* points) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < m->slots; k++) n += points[k].exists != 0.0;
    return n;
}

// ---- distances in plain numbers ------------------------------------------------------------

// Minimum of a convex function on [low, high], by thirds.
typedef double (*function)(double x, const void* context);
static double search(function f, const void* context, double low, double high) {
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

static double ray_to_point(double s, const void* context) {
    const ray* r = context; // here u is a segment of `from`, p relative to the point
    double d[3];
    for (int i = 0; i < 3; i++) d[i] = r->p[i] + s * r->u[i];
    return length(d);
}

// Signed distance of a point from a sphere, capsule or box.
static double distance(const body* b, const double x[3]) {
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
static double distance_along(double s, const void* context) {
    const ray* r = context;
    double x[3];
    for (int i = 0; i < 3; i++) x[i] = r->p[i] + s * r->u[i];
    return distance(r->from, x);
}

// Distance of a sphere or capsule from a convex body, by searching along the axis.
static double axis_distance(const body* a, const body* b) {
    ray r = {.from = b};
    memcpy(r.p, a->p, sizeof r.p);
    axis_of(a, 2, r.u);
    double half_length = a->type == NS_GEOM_CAPSULE ? a->size[1] : 0.0;
    return search(distance_along, &r, -half_length, half_length) - a->size[0];
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
enum { PAIRS = sizeof all / sizeof *all };

// Bodies of a pair near each other; a rod is put along the plate's axis, at heights that overlap.
static void random_pair(ns_rng* rng, const pair_of_types* pair, body* a, body* b) {
    *a = random_body(rng, pair->a);
    *b = random_body(rng, pair->b);
    if (pair->a != NS_GEOM_CYLINDER || pair->b == NS_GEOM_PLANE) return;
    double local[3] = {ns_rng_uniform(rng, -0.5, 0.5), ns_rng_uniform(rng, -0.5, 0.5),
                       ns_rng_uniform(rng, -0.09, 0.09)};
    memcpy(a->w, b->w, sizeof a->w);
    a->size[0] = ns_rng_uniform(rng, 0.005, 0.05);
    to_world(b, local, a->p);
}

static void slots_are_as_documented(void** state) {
    (void)state;
    uint32_t handled = 0;
    for (ns_geom_type a = 0; a <= NS_GEOM_POINTS; a++) {
        for (ns_geom_type b = 0; b <= NS_GEOM_POINTS; b++) {
            uint32_t na = a == NS_GEOM_POLYGON ? 6 : 5, nb = b == NS_GEOM_POLYGON ? 6 : 5;
            uint32_t want = 0;
            for (int k = 0; k < PAIRS; k++) {
                bool same = all[k].a == a && all[k].b == b,
                     swapped = all[k].a == b && all[k].b == a;
                if (same || swapped) want = all[k].slots;
            }
            assert_int_equal(nsi_contact_slots(a, na, b, nb), want);
            handled += want > 0;
        }
    }
    assert_int_equal(handled, 2 * PAIRS - 3); // three are of one type
    assert_int_equal(nsi_contact_slots(NS_GEOM_MESH, 0, NS_GEOM_PLANE, 0), 0);
    assert_int_equal(nsi_contact_slots(NS_GEOM_CYLINDER, 0, NS_GEOM_POLYGON, 2), 0);
}

// ---- planes --------------------------------------------------------------------------------

// Height of a world point above the plane.
static double height(const body* plane, const double x[3]) {
    double d[3] = {x[0] - plane->p[0], x[1] - plane->p[1], x[2] - plane->p[2]};
    return along(plane, 2, d);
}

// Gap, position and normal for a point x of a's surface.
static void compare_plane(residual* r, const body* plane, const double x[3], const point* got) {
    double n[3], h = height(plane, x);
    axis_of(plane, 2, n);
    residual_add(r, got->gap, h, 1.0);
    for (int i = 0; i < 3; i++) {
        residual_add(r, got->normal[i], n[i], 1.0);
        residual_add(r, got->position[i], x[i] - 0.5 * h * n[i], 1.0);
    }
    residual_add(r, got->exists, 1.0, 1.0);
}

static void vertices_on_a_plane(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    residual r = {.name = "capsule, box, mesh, polygon, points", .tolerance = ROUNDING};
    for (int k = 0; k < 9; k++) {
        body a = random_body(&rng, all[k].a), b = random_body(&rng, NS_GEOM_PLANE);
        machine m = machine_create(&a, &b);
        for (int n = 0; n < CASES; n++) {
            const double *vertices = a.vertices, *z;
            uint32_t nvertex = a.nvertex;
            a = random_body(&rng, all[k].a), b = random_body(&rng, NS_GEOM_PLANE);
            assert_true(vertices == a.vertices && nvertex == a.nvertex);
            point got[MAX_SLOTS];
            machine_run(&m, &a, &b, got);
            double up[3], x[3];
            axis_of(&b, 2, up);
            for (uint32_t s = 0; s < m.slots; s++) {
                double local[3] = {0, 0, 0}, radius = 0.0;
                if (a.type == NS_GEOM_SPHERE) {
                    radius = a.size[0];
                } else if (a.type == NS_GEOM_CAPSULE) {
                    radius = a.size[0], local[2] = s ? a.size[1] : -a.size[1];
                } else if (a.type == NS_GEOM_BOX) {
                    for (int i = 0; i < 3; i++) local[i] = s >> i & 1 ? a.size[i] : -a.size[i];
                } else if (a.type == NS_GEOM_MESH) {
                    for (int i = 0; i < 3; i++)
                        local[i] = a.size[i] * a.vertices[3 * s + (uint32_t)i];
                } else if (a.type == NS_GEOM_POINTS) {
                    memcpy(local, a.vertices + 3 * s, sizeof local);
                } else if (a.type == NS_GEOM_POLYGON) {
                    z = a.vertices + 3 * (s / 2);
                    local[0] = z[0], local[1] = z[1], local[2] = s % 2 ? a.size[0] : -a.size[0];
                } else {
                    continue;
                }
                to_world(&a, local, x);
                for (int i = 0; i < 3; i++) x[i] -= radius * up[i];
                compare_plane(&r, &b, x, &got[s]);
            }
        }
        machine_free(&m);
    }
    residual_check(&r);
}

// The lowest point by the support function, and all points on the surface.
static void curved_shapes_on_a_plane(void** state) {
    (void)state;
    static const ns_geom_type types[] = {NS_GEOM_CYLINDER, NS_GEOM_ELLIPSE, NS_GEOM_ELLIPSOID};
    ns_rng rng = ns_rng_seed(2);
    residual lowest = {.name = "lowest points of round shapes", .tolerance = ROUNDING};
    residual surface = {.name = "they are on the surface", .tolerance = 1e-12};
    for (int k = 0; k < 3; k++) {
        body a = random_body(&rng, types[k]), b = random_body(&rng, NS_GEOM_PLANE);
        machine m = machine_create(&a, &b);
        for (int n = 0; n < CASES; n++) {
            a = random_body(&rng, types[k]), b = random_body(&rng, NS_GEOM_PLANE);
            point got[MAX_SLOTS];
            machine_run(&m, &a, &b, got);
            double up[3], m_[3], rx = a.size[0], ry, rz;
            ry = types[k] == NS_GEOM_CYLINDER ? rx : a.size[1];
            rz = types[k] == NS_GEOM_CYLINDER ? a.size[1] : a.size[2];
            axis_of(&b, 2, up);
            for (int i = 0; i < 3; i++) m_[i] = along(&a, i, up);
            double centre = height(&b, a.p), want;
            if (types[k] == NS_GEOM_ELLIPSOID) {
                want = centre - sqrt(pow(rx * m_[0], 2) + pow(ry * m_[1], 2) + pow(rz * m_[2], 2));
            } else {
                want = centre - rz * fabs(m_[2]) - hypot(rx * m_[0], ry * m_[1]);
            }
            residual_add(&lowest, deepest(&m, got)->gap, want, 1.0);
            double sum[2][2] = {{0, 0}, {0, 0}};
            for (uint32_t s = 0; s < m.slots; s++) {
                double x[3], local[3];
                for (int i = 0; i < 3; i++) {
                    x[i] = got[s].position[i] + 0.5 * got[s].gap * got[s].normal[i];
                }
                compare_plane(&lowest, &b, x, &got[s]);
                to_local(&a, x, local);
                double c = local[0] / rx, d = local[1] / ry, e = local[2] / rz;
                if (types[k] == NS_GEOM_ELLIPSOID) {
                    residual_add(&surface, c * c + d * d + e * e, 1.0, 1.0);
                } else {
                    residual_add(&surface, c * c + d * d, 1.0, 1.0);
                    residual_add(&surface, e, s < 3 ? -1.0 : 1.0, 1.0);
                    sum[s / 3][0] += c, sum[s / 3][1] += d; // three directions 120 degrees apart
                }
            }
            for (int i = 0; i < 4; i++) residual_add(&surface, sum[i / 2][i % 2], 0.0, 1.0);
        }
        machine_free(&m);
    }
    residual_check(&lowest);
    residual_check(&surface);
}

// Upright, and on the way there: points on the rim, the lowest nearly so, and a fixed direction.
static void cylinder_stands_upright(void** state) {
    (void)state;
    body a = {.type = NS_GEOM_CYLINDER, .p = {0, 0, 0.3}, .size = {0.1, 0.3}};
    body b = {.type = NS_GEOM_PLANE};
    machine m = machine_create(&a, &b);
    point got[MAX_SLOTS];
    machine_run(&m, &a, &b, got);
    for (int s = 0; s < 3; s++) {
        double angle = 2.0 * acos(-1.0) / 3.0 * s;
        double want[3] = {0.1 * cos(angle), 0.1 * sin(angle), 0.0};
        for (int i = 0; i < 3; i++) assert_true(fabs(got[s].position[i] - want[i]) < 1e-15);
        assert_true(fabs(got[s].gap) < 1e-16 && fabs(got[s + 3].gap - 0.6) < 1e-15);
    }
    for (double tilt = 1e-12; tilt < 0.1; tilt *= 1.7) {
        for (int k = 0; k < 12; k++) {
            a.w[0] = tilt * cos(0.3 + k), a.w[1] = tilt * sin(0.3 + k);
            machine_run(&m, &a, &b, got);
            double want = 0.3 - 0.3 * cos(tilt) - 0.1 * sin(tilt),
                   slack = tilt < 1e-3 ? 0.5e-4 : 0.0;
            double gap = deepest(&m, got)->gap;
            assert_true(gap > want - 1e-15 && gap < want + slack + 1e-15);
        }
    }
    machine_free(&m);
}

// ---- balls and capsules --------------------------------------------------------------------

// Half the gap from the point along the normal are the surfaces, on both of which it stands upright.
static void compare_halfway(residual* r, const body* a, const body* b, const point* got) {
    for (int k = 0; k < 2; k++) {
        const body* s = k ? b : a;
        double away = k ? 1.0 : -1.0, on[3], off[3];
        for (int i = 0; i < 3; i++) {
            on[i] = got->position[i] - away * 0.5 * got->gap * got->normal[i];
            off[i] = on[i] + away * 0.01 * got->normal[i];
        }
        residual_add(r, distance(s, on), 0.0, 1.0);
        residual_add(r, distance(s, off), 0.01, 1.0);
    }
    residual_add(r, length(got->normal), 1.0, 1.0);
}

static void round_shapes_are_nearest(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3);
    residual gaps = {.name = "gaps of round shapes by search", .tolerance = SEARCHED};
    residual halfway = {.name = "points are half way", .tolerance = SEARCHED};
    for (int k = 9; k < 14; k++) {
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        machine m = machine_create(&a, &b);
        uint32_t second = 0;
        for (int n = 0; n < CASES; n++) {
            a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
            double want = axis_distance(&a, &b);
            // The signed distance of an axis that cuts the box is another matter.
            if (all[k].a == NS_GEOM_CAPSULE && all[k].b == NS_GEOM_BOX && want < -a.size[0])
                continue;
            // A ball's centre on the axis of a capsule has no normal.
            if (want < -a.size[0] - 0.95 * b.size[0] && b.type != NS_GEOM_BOX) continue;
            point got[MAX_SLOTS];
            machine_run(&m, &a, &b, got);
            residual_add(&gaps, deepest(&m, got)->gap, want, 1.0);
            second += existing(&m, got) > 1;
            compare_halfway(&halfway, &a, &b, deepest(&m, got));
        }
        assert_true(second < CASES / 4);
        machine_free(&m);
    }
    residual_check(&gaps);
    residual_check(&halfway);
}

// A ball whose centre is inside a box: out by the nearest face.
static void ball_inside_a_box(void** state) {
    (void)state;
    body a = {.type = NS_GEOM_SPHERE, .p = {0.05, 0.17, -0.1}, .size = {0.03}};
    body b = {.type = NS_GEOM_BOX, .size = {0.3, 0.2, 0.4}};
    machine m = machine_create(&a, &b);
    point got;
    machine_run(&m, &a, &b, &got);
    assert_true(fabs(got.gap + 0.06) < 1e-15 && got.normal[1] == 1.0 && got.normal[0] == 0.0);
    assert_true(fabs(got.position[1] - 0.17) < 1e-15); // between 0.2 and 0.17 - 0.03
    a.p[1] = -0.2;                                     // on the face
    machine_run(&m, &a, &b, &got);
    assert_true(got.normal[1] == -1.0 && fabs(got.gap + 0.03) < 1e-15);
    machine_free(&m);
}

static void parallel_capsules_have_two_points(void** state) {
    (void)state;
    // Side by side along z, 0.3 apart in x; overlap from z = -0.1 to 0.5.
    body a = {.type = NS_GEOM_CAPSULE, .p = {0.3, 0, 0.4}, .size = {0.1, 0.5}};
    body b = {.type = NS_GEOM_CAPSULE, .size = {0.15, 0.5}};
    machine m = machine_create(&a, &b);
    point got[2];
    for (int k = 0; k < 4; k++) {
        static const double turns[] = {0.0, 3.14159265358979323846, 1e-9, -0.004}; // about x
        a.w[0] = turns[k];
        machine_run(&m, &a, &b, got);
        double slack = 1e-15 + fabs(sin(turns[k]));
        assert_int_equal(existing(&m, got), 2);
        double low = fmin(got[0].position[2], got[1].position[2]);
        double high = fmax(got[0].position[2], got[1].position[2]);
        assert_true(fabs(low + 0.1) < slack + 1e-12 && fabs(high - 0.5) < slack + 1e-12);
        for (int s = 0; s < 2; s++) {
            assert_true(fabs(got[s].gap - 0.05) < slack && fabs(got[s].normal[0] - 1.0) < slack);
        }
    }
    // From lying to crossing: gaps never below the distance, above it by the documented amount,
    // and no jump.
    point before[2];
    double worst = 0.0, jump = 0.0;
    for (int n = 0; n < 5000; n++) {
        a.w[0] = 1e-5 * n;
        machine_run(&m, &a, &b, got);
        for (int i = 0; i < 6 && n > 0; i++) {
            jump = fmax(jump, fabs(got[i / 3].position[i % 3] - before[i / 3].position[i % 3]));
        }
        memcpy(before, got, sizeof before);
        if (n % 50 != 0) continue;
        double over = deepest(&m, got)->gap - axis_distance(&a, &b);
        assert_true(over > -1e-12);
        worst = fmax(worst, over);
        if (n > 3001) assert_true(existing(&m, got) == 1 && over < 1e-12);
    }
    print_message("capsules turning from parallel: gap too large by %.1e, position jumps %.1e\n",
                  worst, jump);
    assert_true(worst < 0.006 * 0.006 * 0.6 * 0.6 / (2 * 0.3) * 2.0);
    assert_true(jump < 2e-3); // 1e-5 rad at a lever of 1/sin^2
    // End to end there is one point.
    a = (body){.type = NS_GEOM_CAPSULE, .p = {0, 0, 1.3}, .size = {0.1, 0.5}};
    machine_run(&m, &a, &b, got);
    assert_int_equal(existing(&m, got), 1);
    assert_true(fabs(got[0].gap - 0.05) < 1e-15 && got[0].normal[2] == 1.0);
    machine_free(&m);
}

static void lying_capsule_has_two_points(void** state) {
    (void)state;
    // Along x on the top of a box, z = 0.2: first inside the face, then overhanging on both sides.
    const double quarter = acos(-1.0) / 2.0;
    body b = {.type = NS_GEOM_BOX, .size = {0.3, 0.4, 0.2}};
    body a = {.type = NS_GEOM_CAPSULE, .p = {0.05, 0.1, 0.2999}, .size = {0.1, 0.2}};
    machine m = machine_create(&a, &b);
    for (int overhangs = 0; overhangs < 2; overhangs++) {
        if (overhangs) a.size[1] = 0.5;
        double low = overhangs ? -0.3 : -0.15, high = overhangs ? 0.3 : 0.25;
        for (int k = 0; k < 5; k++) {
            static const double tilts[] = {0.0, 1e-12, -1e-12, 1e-4, -1e-3};
            a.w[1] = quarter + tilts[k];
            point got[2];
            machine_run(&m, &a, &b, got);
            assert_int_equal(existing(&m, got), 2);
            double slack = fabs(tilts[k]) * 0.6 + 1e-12;
            double x0 = fmin(got[0].position[0], got[1].position[0]);
            double x1 = fmax(got[0].position[0], got[1].position[0]);
            assert_true(fabs(x0 - low) < slack && fabs(x1 - high) < slack);
            for (int s = 0; s < 2; s++) {
                assert_true(fabs(got[s].gap + 1e-4) < slack);
            }
        }
    }
    // Tilted by 0.03 only the lower end touches.
    a.size[1] = 0.2;
    a.w[1] = quarter + 0.03;
    point got[2];
    machine_run(&m, &a, &b, got);
    assert_int_equal(existing(&m, got), 1);
    assert_true(fabs(got[0].gap - (-1e-4 - 0.2 * sin(0.03))) < 1e-12);
    // Across an edge of the box: the middle of the capsule, 45 degrees.
    a = (body){.type = NS_GEOM_CAPSULE,
               .p = {0.35, 0, 0.25},
               .w = {0, 1.5 * quarter, 0},
               .size = {0.05, 0.3}};
    machine_run(&m, &a, &b, got);
    assert_int_equal(existing(&m, got), 1);
    assert_true(fabs(got[0].gap - (0.05 * sqrt(2.0) - 0.05)) < 1e-12);
    assert_true(fabs(got[0].normal[0] - sqrt(0.5)) < 1e-12);
    // Through the edge: the middle of the part inside.
    a.p[0] = 0.29, a.p[2] = 0.2;
    a.w[1] = 0.3 + quarter;
    machine_run(&m, &a, &b, got);
    assert_int_equal(existing(&m, got), 1);
    double x = 0.3, z = 0.2 - 0.01 * tan(0.3); // from (0.29, 0.2) to the side at x = 0.3
    assert_true(got[0].normal[2] == 1.0 || got[0].normal[0] == 1.0);
    double depth = fmin(0.5 * (0.2 - z), 0.5 * (x - 0.29));
    assert_true(fabs(got[0].gap - (-0.05 - depth)) < 1e-12);
    machine_free(&m);
}

// ---- boxes ---------------------------------------------------------------------------------

// Separation of two boxes along a unit direction, by support functions.
static double separation_along(const body* a, const body* b, const double n[3]) {
    double d[3], reach = 0.0;
    for (int i = 0; i < 3; i++) {
        d[i] = a->p[i] - b->p[i];
        reach += a->size[i] * fabs(along(a, i, n)) + b->size[i] * fabs(along(b, i, n));
    }
    return fabs(dot(d, n)) - reach;
}
static double separation(const body* a, const body* b, bool edges) {
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
static void touching_boxes(ns_rng* rng, double want, body* a, body* b) {
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

// The biases of box_box.c, in the separation.
static double edge_bias(const body* a, const body* b) {
    double shortest = INFINITY;
    for (int i = 0; i < 3; i++) shortest = fmin(shortest, fmin(a->size[i], b->size[i]));
    return 0.06 * fabs(separation(a, b, false)) + 1.1e-3 * shortest + 1e-12;
}

static void boxes_touch_where_they_are(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(4);
    residual edge_gap = {.name = "gap of crossing edges by support functions",
                         .tolerance = ROUNDING};
    residual inside = {.name = "points are in both boxes", .tolerance = ROUNDING};
    body a = random_body(&rng, NS_GEOM_BOX), b = random_body(&rng, NS_GEOM_BOX);
    machine m = machine_create(&a, &b);
    uint32_t edges = 0, faces = 0, apart = 0, missed = 0, most = 0;
    for (int n = 0; n < 20 * CASES; n++) {
        touching_boxes(&rng, ns_rng_uniform(&rng, -0.2, 0.05), &a, &b);
        double want = separation(&a, &b, true), bias = edge_bias(&a, &b);
        point got[13];
        machine_run(&m, &a, &b, got);
        uint32_t count = existing(&m, got);
        most = count > most ? count : most;
        if (want > 0.0 && count == 0) {
            apart++;
            continue;
        }
        if (want < 0.0 && (count == 0 || deepest(&m, got)->gap > 0.0)) {
            missed++; // allowed only where the bias hides an edge
            if (want < -bias) fail_msg("no contact at a separation of %g", want);
            continue;
        }
        for (int s = 0; s < 13; s++) {
            if (got[s].exists == 0.0) continue;
            const double* normal = got[s].normal;
            residual_add(&inside, length(normal), 1.0, 1.0);
            // The normal separates as well as any axis, up to the bias, and points from b to a.
            double along_normal = separation_along(&a, &b, normal), d[3];
            if (along_normal < want - bias) {
                fail_msg("the normal separates by %g instead of %g", along_normal, want);
            }
            for (int i = 0; i < 3; i++) d[i] = a.p[i] - b.p[i];
            assert_true(dot(d, normal) > 0.0);
            // No gap is below the separation along its normal. The surfaces are where the gap says:
            // half of it from the position, in the boxes to rounding (and the border of a clip).
            assert_true(got[s].gap > along_normal - 1e-12);
            double on_a[3], on_b[3];
            for (int i = 0; i < 3; i++) {
                on_a[i] = got[s].position[i] + 0.5 * got[s].gap * normal[i];
                on_b[i] = got[s].position[i] - 0.5 * got[s].gap * normal[i];
            }
            if (s == 12 && want > 0.0) continue; // edges that pass each other
            residual_add(&inside, fmax(distance(&a, on_a), 2e-6), 2e-6, 1.0);
            residual_add(&inside, fmax(distance(&b, on_b), 2e-6), 2e-6, 1.0);
            if (s == 12) {
                residual_add(&inside, distance(&a, on_a), 0.0, 1.0);
                residual_add(&inside, distance(&b, on_b), 0.0, 1.0);
            }
        }
        if (got[12].exists != 0.0) {
            residual_add(&edge_gap, got[12].gap, want, 1.0);
            assert_int_equal(count, 1);
            edges++;
        } else {
            faces++;
        }
    }
    print_message("%u by faces, %u by edges, %u apart, %u hidden by the bias; up to %u points\n",
                  faces, edges, apart, missed, most);
    assert_true(faces > 100 && edges > 100 && most >= 4 && most <= 8);
    assert_true(missed < 20);
    residual_check(&edge_gap);
    residual_check(&inside);
    machine_free(&m);
}

// Equal boxes, stacked: four corners, whatever noise there is.
static void stacked_boxes_have_four_points(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(5);
    body b = {.type = NS_GEOM_BOX, .size = {0.5, 0.3, 0.2}};
    body a = b;
    machine m = machine_create(&a, &b);
    for (int n = 0; n < 300; n++) {
        static const double noises[] = {0.0, 1e-17, 1e-12, 1e-9, 1e-7, 1e-5};
        double noise = noises[n % 6];
        a = b;
        a.p[2] = 0.4 - (n % 2 ? 1e-4 : 0.0);
        for (int i = 0; i < 3; i++) {
            a.p[i] += ns_rng_uniform(&rng, -noise, noise);
            a.w[i] += ns_rng_uniform(&rng, -noise, noise);
        }
        point got[13];
        machine_run(&m, &a, &b, got);
        uint32_t corners = 0, count = existing(&m, got);
        // Beyond the border of the clip the corners of both show.
        assert_true(noise < 1e-6 ? count == 4 : count >= 4 && count <= 8);
        for (int s = 0; s < 13; s++) {
            if (got[s].exists == 0.0) continue;
            assert_true(fabs(got[s].normal[2] - 1.0) < 1e-9);
            assert_true(got[12].exists == 0.0);
            assert_true(fabs(got[s].gap - (a.p[2] - 0.4)) < 2.0 * noise + 1e-15);
            double x = got[s].position[0], y = got[s].position[1], slack = 3.0 * noise + 1e-12;
            bool at_corner = fabs(fabs(x) - 0.5) < slack && fabs(fabs(y) - 0.3) < slack;
            assert_true(at_corner || noise > 1e-6);
            if (at_corner) corners |= 1u << ((x > 0.0) + 2 * (y > 0.0));
        }
        assert_int_equal(corners, 15);
    }
    // A quarter turn about the vertical, a smaller one on top and below, one that overhangs.
    const double quarter = acos(-1.0) / 2.0;
    static const struct {
        double size[3], x, z, turn;
        uint32_t points;
        double reach[2]; // of the common area in x
    } tops[] = {
        {{0.3, 0.5, 0.2}, 0.0, 0.4, 1.0, 4, {-0.5, 0.5}},
        {{0.1, 0.1, 0.1}, 0.0, 0.3, 0.0, 4, {-0.1, 0.1}},
        {{1.0, 1.0, 0.1}, 0.0, 0.3, 0.0, 4, {-0.5, 0.5}},
        {{0.5, 0.1, 0.1}, 0.2, 0.3, 0.0, 4, {-0.3, 0.5}},
        {{0.5, 0.6, 0.1}, -0.2, -0.3, 0.0, 4, {-0.5, 0.3}},
        {{0.3, 0.3, 0.1}, 0.0, 0.3, 0.0, 4, {-0.3, 0.3}}, // equal in y
        {{0.5, 0.2, 0.1}, 0.0, 0.3, 0.0, 4, {-0.5, 0.5}}, // equal in x
    };
    for (size_t k = 0; k < sizeof tops / sizeof *tops; k++) {
        a = (body){.type = NS_GEOM_BOX, .p = {tops[k].x, 0, tops[k].z}};
        memcpy(a.size, tops[k].size, sizeof a.size);
        a.w[2] = quarter * tops[k].turn;
        point got[13];
        machine_run(&m, &a, &b, got);
        assert_int_equal(existing(&m, got), tops[k].points);
        double low = INFINITY, high = -INFINITY;
        for (int s = 0; s < 13; s++) {
            if (got[s].exists == 0.0) continue;
            assert_true(fabs(got[s].gap) < 1e-15);
            assert_true(got[s].normal[2] == (tops[k].z > 0.0 ? 1.0 : -1.0));
            low = fmin(low, got[s].position[0]), high = fmax(high, got[s].position[0]);
        }
        assert_true(fabs(low - tops[k].reach[0]) < 2e-6 && fabs(high - tops[k].reach[1]) < 2e-6);
    }
    // Lying at any angle and a little tilted: never by edges, which separate as well to 1e-4 m.
    for (int n = 0; n < 300; n++) {
        a = b;
        a.p[2] = 0.4 - ns_rng_uniform(&rng, 0.0, 2e-4);
        double tilt[3] = {ns_rng_uniform(&rng, -2e-4, 2e-4), ns_rng_uniform(&rng, -2e-4, 2e-4), 0};
        double yaw[3] = {0, 0, ns_rng_uniform(&rng, -2.0, 2.0)};
        compose_rotations(tilt, yaw, a.w);
        point got[13];
        machine_run(&m, &a, &b, got);
        assert_true(got[12].exists == 0.0 && existing(&m, got) >= 4);
    }
    // Turned by 45 degrees: an octagon.
    a = (body){
        .type = NS_GEOM_BOX, .p = {0, 0, 0.4}, .w = {0, 0, quarter / 2}, .size = {0.3, 0.3, 0.2}};
    b = (body){.type = NS_GEOM_BOX, .size = {0.3, 0.3, 0.2}};
    point got[13];
    machine_run(&m, &a, &b, got);
    assert_int_equal(existing(&m, got), 8);
    machine_free(&m);
}

// Two edges that cross at right angles: b's along y at x = z = 0, turned by 45 degrees about it;
// a's along x, 0.01 above.
static void crossing_edges_meet(void** state) {
    (void)state;
    const double eighth = acos(-1.0) / 4.0, diagonal = 0.2 * sqrt(2.0);
    body b = {
        .type = NS_GEOM_BOX, .p = {0, 0, -diagonal}, .w = {0, eighth, 0}, .size = {0.2, 0.5, 0.2}};
    body a = {
        .type = NS_GEOM_BOX, .p = {0, 0, diagonal}, .w = {eighth, 0, 0}, .size = {0.5, 0.2, 0.2}};
    machine m = machine_create(&a, &b);
    for (int k = 0; k < 2; k++) {
        double gap = k ? 0.01 : -0.01;
        a.p[0] = 0.1, a.p[1] = 0.03, a.p[2] = diagonal + gap;
        b.p[1] = -0.2;
        point got[13];
        machine_run(&m, &a, &b, got);
        assert_int_equal(existing(&m, got), 1);
        assert_true(got[12].exists == 1.0 && fabs(got[12].gap - gap) < 1e-15);
        double want[6] = {0.0, 0.03, 0.5 * gap, 0.0, 0.0, 1.0};
        for (int i = 0; i < 3; i++) {
            assert_true(fabs(got[12].position[i] - want[i]) < 1e-14);
            assert_true(fabs(got[12].normal[i] - want[3 + i]) < 1e-14);
        }
    }
    machine_free(&m);
}

// ---- rods and plates -----------------------------------------------------------------------

// Signed distance from a polygon: segments, and the angle the outline goes round the point.
static double polygon_distance(const double* v, uint32_t n, double x, double y) {
    double best = INFINITY, angle = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        const double *p = v + 3 * i, *q = v + 3 * ((i + 1) % n);
        ray r = {.p = {p[0] - x, p[1] - y, 0}, .u = {q[0] - p[0], q[1] - p[1], 0}};
        best = fmin(best, search(ray_to_point, &r, 0.0, 1.0));
        double a[2] = {p[0] - x, p[1] - y}, b[2] = {q[0] - x, q[1] - y};
        angle += atan2(a[0] * b[1] - a[1] * b[0], a[0] * b[0] + a[1] * b[1]);
    }
    return fabs(angle) > 3.0 ? -best : best;
}

// Place a rod of a plate's frame, upside down when asked.
static body rod_at(const body* plate, double x, double y, double z, double radius,
                   double half_length, bool turned) {
    body rod = {.type = NS_GEOM_CYLINDER, .size = {radius, half_length}};
    double local[3] = {x, y, z}, over[3] = {acos(-1.0), 0, 0};
    to_world(plate, local, rod.p);
    memcpy(rod.w, plate->w, sizeof rod.w);
    if (turned) compose_rotations(plate->w, over, rod.w);
    return rod;
}

static void rods_touch_polygons(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(6);
    residual gaps = {.name = "rod against polygon by search", .tolerance = SEARCHED};
    residual halfway = {.name = "points are half way", .tolerance = SEARCHED};
    static double round[3 * 200];
    for (int i = 0; i < 200; i++) { // many vertices, not convex
        double t = 2.0 * acos(-1.0) * i / 200.0, radius = 0.2 + 0.05 * sin(5.0 * t);
        round[3 * i] = radius * cos(t), round[3 * i + 1] = radius * sin(t);
    }
    const double* outlines[] = {l_shape, star, round};
    uint32_t counts[] = {L_VERTICES, STAR_VERTICES, 200}, insides = 0;
    for (int k = 0; k < 3; k++) {
        body plate = random_body(&rng, NS_GEOM_POLYGON), rod = random_body(&rng, NS_GEOM_CYLINDER);
        plate.vertices = outlines[k], plate.nvertex = counts[k];
        machine m = machine_create(&rod, &plate);
        print_message("rod against %u vertices: %u operations\n", counts[k],
                      ns_graph_op_count(m.graph));
        for (int n = 0; n < (k == 2 ? CASES : 5 * CASES); n++) {
            plate = random_body(&rng, NS_GEOM_POLYGON);
            double x = ns_rng_uniform(&rng, -0.5, 0.5), y = ns_rng_uniform(&rng, -0.5, 0.5);
            double radius = ns_rng_uniform(&rng, 0.0, 0.05), z = ns_rng_uniform(&rng, -0.4, 0.4);
            rod = rod_at(&plate, x, y, z, radius, 0.1, n % 2);
            point got;
            machine_run(&m, &rod, &plate, &got);
            double want = polygon_distance(outlines[k], counts[k], x, y), local[3], tip[3];
            insides += want < 0.0;
            residual_add(&gaps, got.gap, want - radius, 1.0);
            assert_true(got.exists == (fabs(z) < 0.1 + plate.size[0]));
            residual_add(&halfway, along(&plate, 2, got.normal), 0.0, 1.0);
            residual_add(&halfway, length(got.normal), 1.0, 1.0);
            for (int i = 0; i < 3; i++) tip[i] = got.position[i] - 0.5 * got.gap * got.normal[i];
            to_local(&plate, tip, local); // on the outline
            residual_add(&halfway, polygon_distance(outlines[k], counts[k], local[0], local[1]),
                         0.0, 1.0);
            for (int i = 0; i < 3; i++) tip[i] = got.position[i] + 0.5 * got.gap * got.normal[i];
            to_local(&rod, tip, local); // on the rod, on the side that looks to the plate
            residual_add(&halfway, hypot(local[0], local[1]), radius, 1.0);
            if (got.exists != 0.0) {
                assert_true(fabs(local[2]) < 0.1 + 1e-12);
                to_local(&plate, tip, local);
                assert_true(fabs(local[2]) < plate.size[0] + 1e-12);
            }
        }
        machine_free(&m);
    }
    assert_true(insides > CASES / 4);
    residual_check(&gaps);
    residual_check(&halfway);
}

// From a point of the ellipse a distance along its normal: known without searching.
static void rods_touch_ellipses(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(7);
    residual gaps = {.name = "rod against ellipse", .tolerance = 1e-12};
    residual normals = {.name = "its normal, and position", .tolerance = 1e-9};
    body plate = random_body(&rng, NS_GEOM_ELLIPSE), rod = random_body(&rng, NS_GEOM_CYLINDER);
    machine m = machine_create(&rod, &plate);
    for (int n = 0; n < 20 * CASES; n++) {
        plate = random_body(&rng, NS_GEOM_ELLIPSE);
        double ratio = n % 7 == 0 ? 1.0 : pow(3.0, ns_rng_uniform(&rng, -1.0, 1.0));
        double a = plate.size[0] = ns_rng_uniform(&rng, 0.03, 0.3), b = plate.size[1] = ratio * a;
        double t = ns_rng_uniform(&rng, -4.0, 4.0), x = cos(t), y = sin(t);
        if (n % 5 == 0) x = n % 2 ? 1.0 : 0.0, y = n % 2 ? 0.0 : -1.0; // the ends of the axes
        double nx = x / a, ny = y / b, size = hypot(nx, ny);
        nx /= size, ny /= size;
        double d = n % 3 == 0 ? -ns_rng_uniform(&rng, 0.0, 1e-3)
                              : pow(10.0, ns_rng_uniform(&rng, -6.0, 0.0));
        rod = rod_at(&plate, a * x + d * nx, b * y + d * ny, 0.0, 0.01, 0.1, n % 2);
        point got;
        machine_run(&m, &rod, &plate, &got);
        residual_add(&gaps, got.gap, d - 0.01, 1.0);
        double local[3] = {nx, ny, 0.0}, world[3], back = 0.5 * (d - 0.01);
        rotate(plate.w, local, world);
        residual_array(&normals, got.normal, world, 3, 1.0);
        local[0] = a * x + back * nx, local[1] = b * y + back * ny;
        to_world(&plate, local, world);
        residual_array(&normals, got.position, world, 3, 1.0);
    }
    machine_free(&m);
    residual_check(&gaps);
    residual_check(&normals);
}

// ---- what holds for all pairs --------------------------------------------------------------

// Every existing point of `x` is one of `y`, with the normal times `sign`.
static double unmatched(const machine* m, const point* x, const point* y, double sign) {
    double worst = 0.0;
    for (uint32_t i = 0; i < m->slots; i++) {
        if (x[i].exists == 0.0) continue;
        double best = INFINITY;
        for (uint32_t j = 0; j < m->slots; j++) {
            if (y[j].exists == 0.0) continue;
            double error = fabs(x[i].gap - y[j].gap);
            for (int k = 0; k < 3; k++) {
                error = fmax(error, fabs(x[i].position[k] - y[j].position[k]));
                error = fmax(error, fabs(x[i].normal[k] - sign * y[j].normal[k]));
            }
            best = fmin(best, error);
        }
        worst = fmax(worst, best);
    }
    return worst;
}

static void swapping_turns_the_normal(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(8);
    residual r = {.name = "a and b swapped", .tolerance = 1e-12};
    uint32_t ties = 0;
    for (int k = 0; k < PAIRS; k++) {
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        machine m = machine_create(&a, &b), back = machine_create(&b, &a);
        assert_int_equal(m.slots, back.slots);
        for (int n = 0; n < CASES; n++) {
            random_pair(&rng, &all[k], &a, &b);
            if (all[k].a == NS_GEOM_BOX && all[k].b == NS_GEOM_BOX) {
                touching_boxes(&rng, -0.05, &a, &b);
            }
            point got[MAX_SLOTS], swapped[MAX_SLOTS];
            machine_run(&m, &a, &b, got);
            machine_run(&back, &b, &a, swapped);
            if (all[k].b == NS_GEOM_BOX && all[k].a == NS_GEOM_BOX &&
                dot(got[0].normal, swapped[0].normal) > -1.0 + 1e-9) {
                ties++; // nearly equal separations: the bias prefers the first box
                continue;
            }
            if (all[k].b == NS_GEOM_CAPSULE && all[k].a == NS_GEOM_CAPSULE &&
                existing(&m, got) + existing(&back, swapped) > 2) {
                continue; // nearly parallel: the ends are those of the first
            }
            residual_add(&r, unmatched(&m, got, swapped, -1.0), 0.0, 1.0);
            residual_add(&r, unmatched(&m, swapped, got, -1.0), 0.0, 1.0);
        }
        machine_free(&m);
        machine_free(&back);
    }
    assert_true(ties < CASES / 4);
    residual_check(&r);
}

static void moving_both_changes_nothing(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(9);
    residual r = {.name = "both moved", .tolerance = 1e-12};
    for (int k = 0; k < PAIRS; k++) {
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        machine m = machine_create(&a, &b);
        for (int n = 0; n < CASES; n++) {
            random_pair(&rng, &all[k], &a, &b);
            if (all[k].a == NS_GEOM_BOX && all[k].b == NS_GEOM_BOX) {
                touching_boxes(&rng, -0.05, &a, &b);
            }
            body frame = random_body(&rng, NS_GEOM_SPHERE), moved_a = a, moved_b = b;
            to_world(&frame, a.p, moved_a.p);
            to_world(&frame, b.p, moved_b.p);
            compose_rotations(frame.w, a.w, moved_a.w);
            compose_rotations(frame.w, b.w, moved_b.w);
            point got[MAX_SLOTS], moved[MAX_SLOTS];
            machine_run(&m, &a, &b, got);
            machine_run(&m, &moved_a, &moved_b, moved);
            for (uint32_t s = 0; s < m.slots; s++) {
                assert_true(got[s].exists == moved[s].exists);
                if (got[s].exists == 0.0) continue;
                double want[3];
                residual_add(&r, moved[s].gap, got[s].gap, 1.0);
                to_world(&frame, got[s].position, want);
                residual_array(&r, moved[s].position, want, 3, 1.0);
                rotate(frame.w, got[s].normal, want);
                residual_array(&r, moved[s].normal, want, 3, 1.0);
            }
        }
        machine_free(&m);
    }
    residual_check(&r);
}

static machine jvp_machine(const machine* m) {
    ns_graph* graph = NULL;
    assert_int_equal(ns_graph_jvp(m->graph, NULL, &graph, NULL), NS_OK);
    return machine_of(graph, m->slots);
}

// Moving a by dx changes a distance by normal . dx, however the nearest points run.
static void gap_grows_along_the_normal(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(10);
    residual r = {.name = "d gap = normal . dx", .tolerance = 1e-10};
    for (int k = 0; k < PAIRS; k++) {
        bool boxes = all[k].a == NS_GEOM_BOX && all[k].b == NS_GEOM_BOX;
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        machine m = machine_create(&a, &b), jvp = jvp_machine(&m);
        uint32_t compared = 0;
        for (int n = 0; n < CASES; n++) {
            random_pair(&rng, &all[k], &a, &b);
            if (boxes) touching_boxes(&rng, -0.05, &a, &b);
            double in[2 * INPUTS] = {0}, out[2 * MAX_SLOTS * SLOT], dx[3];
            fill_inputs(&a, &b, in);
            random_unit(&rng, dx);
            memcpy(in + INPUTS, dx, sizeof dx);
            ns_program_run(jvp.program, &(ns_run){.in = in, .out = out, .work = jvp.work});
            const double* slope = out + (size_t)m.slots * SLOT;
            uint32_t count = 0;
            for (uint32_t s = 0; s < m.slots; s++) count += out[SLOT * s + 7] != 0.0;
            for (uint32_t s = 0; s < m.slots; s++) {
                const double* p = out + (size_t)SLOT * s;
                if (p[7] == 0.0) continue;
                // A clipped point slides: only what is furthest along the normal counts. A lying
                // capsule's ends slide as well.
                if (boxes && fabs(separation_along(&a, &b, p + 3) - p[6]) > 1e-9) continue;
                if (all[k].a == NS_GEOM_CAPSULE && m.slots == 2 && all[k].b != NS_GEOM_PLANE &&
                    count > 1) {
                    continue;
                }
                // An axis inside the box.
                if (all[k].a == NS_GEOM_CAPSULE && all[k].b == NS_GEOM_BOX &&
                    p[6] < -a.size[0] + 1e-6) {
                    continue;
                }
                // Deeper than the ellipse's centres of curvature there is no such distance.
                if (all[k].b == NS_GEOM_ELLIPSE && all[k].a == NS_GEOM_CYLINDER) {
                    double small = fmin(b.size[0], b.size[1]), large = fmax(b.size[0], b.size[1]);
                    if (p[6] + a.size[0] < -0.9 * small * small / large) continue;
                }
                residual_add(&r, slope[SLOT * s + 6], dot(p + 3, dx), 1.0);
                compared++;
            }
        }
        assert_true(compared >= CASES / 4);
        machine_free(&m);
        machine_free(&jvp);
    }
    residual_check(&r);
}

// At rest on each other, exactly aligned: where things lie most of the time, and where kinks are.
typedef struct resting {
    const char* name;
    body a, b;
} resting;

static const resting restings[] = {
    {"stack",
     {NS_GEOM_BOX, {0, 0, 0.4}, {0, 0, 0}, {0.5, 0.3, 0.2}, 0, NULL},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.3, 0.2}, 0, NULL}},
    {"small on large",
     {NS_GEOM_BOX, {0.1, 0, 0.2999}, {0, 0, 0}, {0.1, 0.1, 0.1}, 0, NULL},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.3, 0.2}, 0, NULL}},
    {"capsules",
     {NS_GEOM_CAPSULE, {0, 0, 0.2}, {0, 1.5707963267948966, 0}, {0.1, 0.3, 0}, 0, NULL},
     {NS_GEOM_CAPSULE, {0.1, 0, 0}, {0, 1.5707963267948966, 0}, {0.1, 0.3, 0}, 0, NULL}},
    {"capsule on box",
     {NS_GEOM_CAPSULE, {0, 0, 0.3}, {0, 1.5707963267948966, 0}, {0.1, 0.3, 0}, 0, NULL},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.3, 0.2}, 0, NULL}},
    {"capsule over box",
     {NS_GEOM_CAPSULE, {0, 0, 0.3}, {0, 1.5707963267948966, 0}, {0.1, 0.6, 0}, 0, NULL},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.3, 0.2}, 0, NULL}},
    {"ball on box",
     {NS_GEOM_SPHERE, {0.1, 0, 0.3}, {0, 0, 0}, {0.1, 0, 0}, 0, NULL},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.3, 0.2}, 0, NULL}},
    {"cylinder on plane",
     {NS_GEOM_CYLINDER, {0, 0, 0.3}, {0, 0, 0}, {0.1, 0.3, 0}, 0, NULL},
     {NS_GEOM_PLANE, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 0, NULL}},
};
enum { RESTINGS = sizeof restings / sizeof *restings };

// Moved without turning, gaps follow the normal and positions follow at most; turned, nothing is
// out of proportion (the three points of a standing cylinder turn by 1 / UPRIGHT).
static void resting_poses_have_tame_derivatives(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(14);
    for (int k = 0; k < RESTINGS; k++) {
        machine m = machine_create(&restings[k].a, &restings[k].b), jvp = jvp_machine(&m);
        double worst = 0.0, moved = 0.0, turned = 0.0;
        uint32_t count = 0;
        for (int n = 0; n < 20; n++) {
            double in[2 * INPUTS] = {0}, out[2 * MAX_SLOTS * SLOT], direction[3];
            fill_inputs(&restings[k].a, &restings[k].b, in);
            random_unit(&rng, direction);
            memcpy(in + INPUTS + (n % 2 ? 3 : 0), direction, sizeof direction);
            ns_program_run(jvp.program, &(ns_run){.in = in, .out = out, .work = jvp.work});
            for (uint32_t s = 0; s < m.slots; s++) {
                const double *p = out + (size_t)SLOT * s, *d = p + (size_t)SLOT * m.slots;
                if (p[7] == 0.0) continue;
                count++;
                double largest = 0.0;
                for (int i = 0; i < 7; i++) largest = fmax(largest, fabs(d[i]));
                if (n % 2) {
                    turned = fmax(turned, largest);
                } else {
                    moved = fmax(moved, largest);
                    worst = fmax(worst, fabs(d[6] - dot(p + 3, direction)));
                }
            }
        }
        print_message("%-18s gap %.1e, moved %.1f, turned %.1f\n", restings[k].name, worst, moved,
                      turned);
        assert_true(count > 0 && moved < 20.0 && turned < (m.slots == 6 ? 200.0 : 20.0));
        assert_true(worst < 1e-14);
        machine_free(&m);
        machine_free(&jvp);
    }
}

static void derivatives_pass_the_check(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(11);
    check_batch* batch = check_batch_create();
    ns_graph* graphs[PAIRS];
    for (int k = 0; k < PAIRS; k++) {
        bool boxes = all[k].a == NS_GEOM_BOX && all[k].b == NS_GEOM_BOX;
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        uint32_t slots;
        graphs[k] = pair_graph(&a, &b, &slots);
        for (int n = 0; n < 4; n++) {
            random_pair(&rng, &all[k], &a, &b);
            if (boxes) touching_boxes(&rng, -0.05, &a, &b);
            double in[INPUTS];
            fill_inputs(&a, &b, in);
            check_batch_add(batch, graphs[k], in, NULL,
                            &(check_options){.name = all[k].name,
                                             .c = n == 0 ? CHECK_C_VJP : CHECK_C_VALUE,
                                             .seed = (uint64_t)n});
        }
    }
    // Near rest, tilted a little: where slots are the ends of what lies.
    ns_graph* near[RESTINGS];
    for (int k = 0; k < RESTINGS; k++) {
        body a = restings[k].a, b = restings[k].b;
        uint32_t slots;
        near[k] = pair_graph(&a, &b, &slots);
        for (int i = 0; i < 3; i++) {
            a.p[i] += ns_rng_uniform(&rng, -0.02, 0.02);
            a.w[i] += ns_rng_uniform(&rng, -0.008, 0.008);
        }
        double in[INPUTS];
        fill_inputs(&a, &b, in);
        check_batch_add(batch, near[k], in, NULL,
                        &(check_options){.name = restings[k].name, .c = CHECK_C_VALUE});
    }
    check_report report = check_batch_finish(batch);
    for (int k = 0; k < RESTINGS; k++) ns_graph_free(near[k]);
    print_message("transpose %.1e, differences %.1e, undecided %u of %u\n", report.transpose_error,
                  report.difference_error, report.undecided, report.slopes);
    assert_true(report.undecided * 20 <= report.slopes);
    for (int k = 0; k < PAIRS; k++) ns_graph_free(graphs[k]);
}

// ---- degenerate poses ----------------------------------------------------------------------

// Value, forward and reverse derivative in random directions: all finite, and normals unit.
typedef struct probe {
    machine value, jvp, vjp;
} probe;

static probe probe_create(const body* a, const body* b) {
    probe p = {.value = machine_create(a, b)};
    p.jvp = jvp_machine(&p.value);
    ns_graph* graph = NULL;
    assert_int_equal(ns_graph_vjp(p.value.graph, NULL, &graph, NULL), NS_OK);
    p.vjp = machine_of(graph, p.value.slots);
    return p;
}
static void probe_free(probe* p) {
    machine_free(&p->value);
    machine_free(&p->jvp);
    machine_free(&p->vjp);
}
static void probe_run(const probe* p, ns_rng* rng, const body* a, const body* b, const char* what) {
    enum { MOST = 2 * MAX_SLOTS * SLOT + 2 * INPUTS };
    double in[MOST], out[MOST];
    const machine* machines[3] = {&p->value, &p->jvp, &p->vjp};
    for (int k = 0; k < 3; k++) {
        const machine* m = machines[k];
        fill_inputs(a, b, in);
        for (uint32_t i = INPUTS; i < ns_graph_input_count(m->graph); i++) {
            in[i] = ns_rng_uniform(rng, -1.0, 1.0);
        }
        ns_program_run(m->program, &(ns_run){.in = in, .out = out, .work = m->work});
        for (uint32_t i = 0; i < ns_graph_output_count(m->graph); i++) {
            if (!isfinite(out[i])) {
                fail_msg("%s: output %s of the %s is %g", what, ns_graph_output_name(m->graph, i),
                         k == 0   ? "value"
                         : k == 1 ? "jvp"
                                  : "vjp",
                         out[i]);
            }
        }
        for (uint32_t s = 0; s < p->value.slots; s++) {
            double size = length(out + SLOT * s + 3);
            if (out[SLOT * s + 7] != 0.0 && fabs(size - 1.0) > 1e-12) {
                fail_msg("%s: a normal has length %g", what, size);
            }
        }
    }
}

// Both bodies at the origin with sizes that make things coincide, then each of many special
// offsets and turns, exact and with noise.
static void degenerate_poses_are_finite(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(12);
    const double quarter = acos(-1.0) / 2.0;
    static const double levels[] = {0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 1e3};
    static const double noises[] = {0.0, 0.0, 1e-17, 1e-13, 1e-9};
    uint32_t count = 0;
    for (int k = 0; k < PAIRS; k++) {
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        static const double sizes[3] = {0.2, 0.2, 0.2}, thin[3] = {0.1, 0.3, 0.2};
        probe p = probe_create(&a, &b);
        for (int n = 0; n < 700; n++) {
            memcpy(a.size, n % 2 ? sizes : thin, sizeof a.size);
            memcpy(b.size, n % 3 ? sizes : thin, sizeof b.size);
            double noise = noises[n % 5];
            for (int i = 0; i < 3; i++) {
                double offset = levels[ns_rng_below(&rng, 7)];
                if (offset > 1.0 && n % 10) offset = 0.0; // now and then very far
                a.p[i] = ns_rng_below(&rng, 2) ? offset : -offset;
                b.p[i] = 0.0;
                a.w[i] = b.w[i] = 0.0;
            }
            if (ns_rng_below(&rng, 3) == 0) memset(a.p, 0, sizeof a.p);
            double* turned = ns_rng_below(&rng, 2) ? a.w : b.w;
            turned[ns_rng_below(&rng, 3)] = 0.5 * quarter * ns_rng_below(&rng, 5);
            for (int i = 0; i < 3; i++) {
                a.p[i] += ns_rng_uniform(&rng, -noise, noise);
                a.w[i] += ns_rng_uniform(&rng, -noise, noise);
            }
            probe_run(&p, &rng, &a, &b, all[k].name);
            count++;
        }
        // Vertices and the middle of outlines.
        for (uint32_t v = 0; v < b.nvertex && all[k].a == NS_GEOM_CYLINDER; v++) {
            memset(b.p, 0, sizeof b.p), memset(b.w, 0, sizeof b.w), memset(a.w, 0, sizeof a.w);
            memcpy(a.p, b.vertices + 3 * v, sizeof a.p);
            probe_run(&p, &rng, &a, &b, "rod at a vertex");
            for (int i = 0; i < 2; i++) {
                a.p[i] = 0.5 * (b.vertices[3 * v + (uint32_t)i] +
                                b.vertices[3 * ((v + 1) % b.nvertex) + (uint32_t)i]);
            }
            probe_run(&p, &rng, &a, &b, "rod on an edge");
        }
        probe_free(&p);
    }
    print_message("%u degenerate poses\n", count);
}

// ---- cost ----------------------------------------------------------------------------------

// Operations with shape a moving and constant sizes: against a plane that is the ground, or another
// moving shape. Not the rotation matrices, which are inputs here.
static uint32_t operations(const body* a, const body* b, bool ground) {
    ns_graph* g = tracing_begin();
    nsi_shape s[2];
    for (int k = 0; k < 2; k++) {
        const body* from = k ? b : a;
        bool constant = k == 1 && ground;
        s[k] =
            (nsi_shape){.type = from->type, .nvertex = from->nvertex, .vertices = from->vertices};
        for (int i = 0; i < 3; i++) {
            char name[16];
            snprintf(name, sizeof name, "p%d%d", k, i);
            s[k].position.e[i] = constant ? ns_const(0.0) : ns_input(name);
            s[k].size[i] = ns_const(from->size[i]);
            for (int j = 0; j < 3; j++) {
                snprintf(name, sizeof name, "R%d%d%d", k, i, j);
                s[k].R.e[i][j] = constant ? ns_const(i == j) : ns_input(name);
            }
        }
    }
    nsi_contact_point points[MAX_SLOTS];
    nsi_contact_points(&s[0], &s[1], points);
    uint32_t slots = nsi_contact_slots(a->type, a->nvertex, b->type, b->nvertex), n = 0;
    for (uint32_t k = 0; k < slots; k++) {
        ns_expr out[SLOT] = {points[k].position.e[0], points[k].position.e[1],
                             points[k].position.e[2], points[k].normal.e[0],
                             points[k].normal.e[1],   points[k].normal.e[2],
                             points[k].gap,           points[k].exists};
        for (int i = 0; i < SLOT; i++) {
            char name[16];
            snprintf(name, sizeof name, "y%u", n++);
            ns_output(name, out[i]);
        }
    }
    tracing_end();
    uint32_t count = ns_graph_op_count(g);
    ns_graph_free(g);
    return count;
}

static void pairs_cost_little(void** state) {
    (void)state;
    // What they cost when this was written, and a little more.
    static const uint32_t most[PAIRS] = {4,  20, 110, 90, 120, 50,   170, 120, 100,
                                         30, 45, 160, 90, 700, 1200, 250, 250};
    ns_rng rng = ns_rng_seed(13);
    for (int k = 0; k < PAIRS; k++) {
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        bool plane = all[k].b == NS_GEOM_PLANE;
        uint32_t n = operations(&a, &b, plane);
        print_message("%-16s %2u slots %5u operations%s", all[k].name, all[k].slots, n,
                      plane ? " on the ground" : "");
        if (plane) print_message(", %u on a moving plane", operations(&a, &b, false));
        print_message("\n");
        assert_true(n <= most[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_as_documented),
        cmocka_unit_test(vertices_on_a_plane),
        cmocka_unit_test(curved_shapes_on_a_plane),
        cmocka_unit_test(cylinder_stands_upright),
        cmocka_unit_test(round_shapes_are_nearest),
        cmocka_unit_test(ball_inside_a_box),
        cmocka_unit_test(parallel_capsules_have_two_points),
        cmocka_unit_test(lying_capsule_has_two_points),
        cmocka_unit_test(boxes_touch_where_they_are),
        cmocka_unit_test(stacked_boxes_have_four_points),
        cmocka_unit_test(crossing_edges_meet),
        cmocka_unit_test(rods_touch_polygons),
        cmocka_unit_test(rods_touch_ellipses),
        cmocka_unit_test(swapping_turns_the_normal),
        cmocka_unit_test(moving_both_changes_nothing),
        cmocka_unit_test(gap_grows_along_the_normal),
        cmocka_unit_test(resting_poses_have_tame_derivatives),
        cmocka_unit_test(derivatives_pass_the_check),
        cmocka_unit_test(degenerate_poses_are_finite),
        cmocka_unit_test(pairs_cost_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
