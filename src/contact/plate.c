// A rod against the outline of a plate: a circle and a curve in the plate's plane. The rod's axis
// is along the plate's z; only the heights decide whether they can touch.

#include "contact/pairs.h"

#include <math.h>

// The rod's centre in the plate's frame.
static vec3 rod_centre(const nsi_shape* rod, const nsi_shape* plate) {
    return to_local(plate, rod->position);
}

// The contact from the outline's outward normal (nx, ny) and the centre's signed distance from the
// outline; at the middle of the common heights.
static nsi_contact_point rod_contact(const nsi_shape* rod, const nsi_shape* plate, vec3 centre,
                                     ns_expr nx, ns_expr ny, ns_expr distance,
                                     ns_expr half_thickness) {
    ns_expr radius = rod->size[0], z = centre.e[2];
    ns_expr low = ns_max(ns_sub(z, rod->size[1]), ns_neg(half_thickness));
    ns_expr high = ns_min(ns_add(z, rod->size[1]), half_thickness);
    ns_expr back = half(ns_add(distance, radius)); // to half way between both surfaces
    vec3 position = v3(ns_sub(centre.e[0], ns_mul(back, nx)), ns_sub(centre.e[1], ns_mul(back, ny)),
                       half(ns_add(low, high)));
    return (nsi_contact_point){.position = to_world(plate, position),
                               .normal = m3_apply(plate->R, v3(nx, ny, ns_const(0.0))),
                               .gap = ns_sub(distance, radius),
                               .exists = ns_lt(low, high)};
}

// ---- polygons ------------------------------------------------------------------------------

static const double SAME_VERTEX = 1e-12; // m

static bool same_vertex(const nsi_shape* s, uint32_t i, uint32_t j) {
    const double *v = s->vertices + (size_t)3 * i, *w = s->vertices + (size_t)3 * j;
    return hypot(w[0] - v[0], w[1] - v[1]) < SAME_VERTEX;
}

// Direction from vertex i to the next one (step 1), or to the one before (step n - 1), that is
// elsewhere; its length is returned, 0 when there is none.
static double edge_from(const nsi_shape* s, uint32_t i, uint32_t step, double direction[2]) {
    uint32_t j = i;
    do {
        j = (j + step) % s->nvertex;
    } while (j != i && same_vertex(s, i, j));
    const double *v = s->vertices + (size_t)3 * i, *w = s->vertices + (size_t)3 * j;
    double length = hypot(w[0] - v[0], w[1] - v[1]);
    for (int k = 0; k < 2; k++) direction[k] = length > 0.0 ? (w[k] - v[k]) / length : 0.0;
    return length;
}

// 1 for a counterclockwise outline, -1 for a clockwise one.
static double orientation(const nsi_shape* s) {
    double area = 0.0;
    const double* origin = s->vertices;
    for (uint32_t i = 0; i < s->nvertex; i++) {
        const double* v = s->vertices + (size_t)3 * i;
        const double* w = s->vertices + (size_t)3 * ((i + 1) % s->nvertex);
        area += (v[0] - origin[0]) * (w[1] - origin[1]) - (v[1] - origin[1]) * (w[0] - origin[0]);
    }
    return area < 0.0 ? -1.0 : 1.0;
}

// Is a point for which vertex i is nearest outside (1) or inside (-1)? Outside where the outline is
// convex, inside where it is reflex.
static double vertex_side(const nsi_shape* s, uint32_t i, double turn) {
    double next[2], before[2];
    edge_from(s, i, 1, next);
    edge_from(s, i, s->nvertex - 1, before); // points backwards
    double sine = -(before[0] * next[1] - before[1] * next[0]);
    return sine * turn < 0.0 ? -1.0 : 1.0;
}

// A line of the outline: n is its outward normal, e = turn (-n_y, n_x) its direction.
typedef struct edge {
    ns_expr nx, ny, along, aside; // of its start: e . v, n . v
    ns_expr length;
    ns_expr start, end; // where a vertex is nearest, which side is that on: 1 outside, -1 inside
} edge;

static edge select_edge(ns_expr condition, edge a, edge b) {
    return (edge){.nx = ns_select(condition, a.nx, b.nx),
                  .ny = ns_select(condition, a.ny, b.ny),
                  .along = ns_select(condition, a.along, b.along),
                  .aside = ns_select(condition, a.aside, b.aside),
                  .length = ns_select(condition, a.length, b.length),
                  .start = ns_select(condition, a.start, b.start),
                  .end = ns_select(condition, a.end, b.end)};
}

static edge make_edge(const nsi_shape* plate, uint32_t i, double turn) {
    const double* v = plate->vertices + (size_t)3 * i;
    double e[2], length = edge_from(plate, i, 1, e);
    double n[2] = {turn * e[1], -turn * e[0]};
    return (edge){.nx = ns_const(n[0]),
                  .ny = ns_const(n[1]),
                  .along = ns_const(e[0] * v[0] + e[1] * v[1]),
                  .aside = ns_const(n[0] * v[0] + n[1] * v[1]),
                  .length = ns_const(length),
                  .start = ns_const(vertex_side(plate, i, turn)),
                  .end = ns_const(vertex_side(plate, (i + 1) % plate->nvertex, turn))};
}

// Where (x, y) is from an edge: `aside` along its normal, `beyond` how far before its start
// (negative) or after its end; the squared distance is returned.
static ns_expr from_edge(const edge* s, double turn, ns_expr x, ns_expr y, ns_expr* beyond,
                         ns_expr* aside) {
    ns_expr ex = ns_mul(ns_const(-turn), s->ny), ey = ns_mul(ns_const(turn), s->nx);
    ns_expr at = ns_add(ns_mul(x, ex), ns_mul(y, ey));
    ns_expr along = ns_sub(at, s->along);
    *aside = ns_sub(ns_add(ns_mul(x, s->nx), ns_mul(y, s->ny)), s->aside);
    *beyond = ns_sub(along, ns_clamp(along, ns_const(0.0), s->length));
    return ns_add(ns_mul(*beyond, *beyond), ns_mul(*aside, *aside));
}

// The nearest edge has the smallest beyond^2 + aside^2. Where beyond is 0 the signed distance is
// `aside`, smooth through the outline; else a vertex is nearest, and which side that is on is known
// beforehand, so that nothing has to count crossings. What is chosen are the constants of an edge:
// with them the distance is computed once more, so that derivatives know one edge only, however
// many there are.
void nsi_rod_polygon(const nsi_shape* rod, const nsi_shape* plate, nsi_contact_point* out) {
    vec3 centre = rod_centre(rod, plate);
    ns_expr x = centre.e[0], y = centre.e[1], zero = ns_const(0.0), least = zero, beyond, aside;

    // The nearest edge.
    double turn = orientation(plate);
    edge nearest = {zero, zero, zero, zero, zero, zero, zero};
    bool first = true;
    for (uint32_t i = 0; i < plate->nvertex; i++) {
        if (same_vertex(plate, i, (i + 1) % plate->nvertex)) continue;
        edge this = make_edge(plate, i, turn);
        ns_expr d2 = from_edge(&this, turn, x, y, &beyond, &aside);
        ns_expr nearer = first ? ns_const(1.0) : ns_lt(d2, least);
        least = first ? d2 : ns_select(nearer, d2, least);
        nearest = first ? this : select_edge(nearer, this, nearest);
        first = false;
    }

    // Its distance once more, from its own constants.
    ns_expr distance2 = from_edge(&nearest, turn, x, y, &beyond, &aside);
    ns_expr nx = nearest.nx, ny = nearest.ny;
    ns_expr sign = ns_select(ns_lt(beyond, zero), nearest.start, nearest.end);

    // From a vertex: the direction (beyond e + aside n), outwards. On it: the edge's normal.
    ns_expr at_vertex = ns_and(ns_ne(beyond, zero), ns_gt(distance2, zero));
    ns_expr distance = ns_mul(sign, ns_sqrt(distance2));
    ns_expr inverse = ns_div(ns_const(1.0), ns_select(at_vertex, distance, ns_const(1.0)));
    ns_expr along_edge = ns_mul(ns_const(turn), ns_mul(beyond, inverse)); // e = turn (-ny, nx)
    ns_expr along_normal = ns_mul(aside, inverse);
    ns_expr vx = ns_sub(ns_mul(along_normal, nx), ns_mul(along_edge, ny));
    ns_expr vy = ns_add(ns_mul(along_normal, ny), ns_mul(along_edge, nx));
    out[0] =
        rod_contact(rod, plate, centre, ns_select(at_vertex, vx, nx), ns_select(at_vertex, vy, ny),
                    ns_select(at_vertex, distance, aside), plate->size[0]);
}

// ---- ellipses ------------------------------------------------------------------------------

// The point of the ellipse nearest to (x, y) is (a q1, b q2) with q1 = a x / (t + a^2) and
// q2 = b y / (t + b^2), where t > -min(a, b)^2 is the root of |q(t)| = 1 (Eberly, "Distance from a
// Point to an Ellipse", 2013). As for trust regions (Conn, Gould & Toint 2000, 7.3.3), Newton's
// method goes on 1/|q| - 1, which is concave and nearly straight, and exactly so for a circle:
//
//   t <- t + (|q| - 1) |q|^2 / (q1^2 / (t + a^2) + q2^2 / (t + b^2))
//
// From the left of the root, where one of q1, q2 is 1, it climbs without overshooting. Six steps
// reach the last digit up to ratios of 1:3 and from the curvature's centres outwards; the last one
// makes the derivative exact too. The distance is n . (x, y) - |(a n1, b n2)| at the normal n along
// (q1 / a, q2 / b): stationary in n, so what error t has left enters squared.
//
// Deeper inside than the centres of curvature the nearest point is another one; then t stops at
// LOWEST and the result is some point of the ellipse, and at the centre the end of the short axis.
enum { ELLIPSE_STEPS = 7 };
static const double ELLIPSE_LOWEST = 0.999; // times -min(a, b)^2

void nsi_rod_ellipse(const nsi_shape* rod, const nsi_shape* plate, nsi_contact_point* out) {
    vec3 centre = rod_centre(rod, plate);
    ns_expr x = centre.e[0], y = centre.e[1], one = ns_const(1.0), zero = ns_const(0.0);
    ns_expr a = plate->size[0], b = plate->size[1], aa = ns_mul(a, a), bb = ns_mul(b, b);
    ns_expr ax = ns_mul(a, x), by = ns_mul(b, y);

    // Newton's method on the root of a square, from a start beyond which it is monotone.
    ns_expr lowest = ns_mul(ns_const(-ELLIPSE_LOWEST), ns_min(aa, bb));
    ns_expr t = ns_max(ns_sub(ns_abs(ax), aa), ns_sub(ns_abs(by), bb));
    t = ns_max(t, lowest);
    for (int step = 0; step < ELLIPSE_STEPS; step++) {
        ns_expr da = ns_add(t, aa), db = ns_add(t, bb);
        ns_expr q1 = ns_div(ax, da), q2 = ns_div(by, db);
        ns_expr s1 = ns_mul(q1, q1), s2 = ns_mul(q2, q2), s = ns_add(s1, s2);
        ns_expr slope = ns_add(ns_div(s1, da), ns_div(s2, db));
        ns_expr change = ns_mul(ns_sub(ns_sqrt(s), one), ns_div_safe(s, slope));
        t = ns_max(lowest, ns_add(t, change));
    }

    // (q1 / a, q2 / b), made unit; at the centre the direction of the short axis.
    ns_expr n[2] = {ns_div(x, ns_add(t, aa)), ns_div(y, ns_add(t, bb))};
    ns_expr at_centre = ns_and(ns_eq(n[0], zero), ns_eq(n[1], zero)), slim = ns_lt(a, b);
    ns_normalize(2, n, n);
    n[0] = ns_select(at_centre, slim, n[0]);
    n[1] = ns_select(at_centre, ns_not(slim), n[1]);
    ns_expr reach[2] = {ns_mul(a, n[0]), ns_mul(b, n[1])};
    ns_expr distance = ns_add(ns_mul(n[0], x), ns_mul(n[1], y));
    distance = ns_sub(distance, ns_norm(2, reach));
    out[0] = rod_contact(rod, plate, centre, n[0], n[1], distance, plate->size[2]);
}
