// Which pairs there are, and those of planes and round shapes.

#include "contact/shapes.h"

#include "contact/pairs.h"
#include "model/model_data.h"

#include <math.h>

// ---- planes --------------------------------------------------------------------------------

// A ball of radius r about p (a point for r = 0) above the plane.
static nsi_contact_point on_plane(const nsi_shape* plane, vec3 p, ns_expr r) {
    vec3 normal = m3_column(plane->R, 2);
    ns_expr gap = ns_sub(v3_dot(normal, v3_sub(p, plane->position)), r);
    vec3 lowest = v3_sub(p, v3_scale(r, normal));
    return (nsi_contact_point){.position = v3_sub(lowest, v3_scale(half(gap), normal)),
                               .normal = normal,
                               .gap = gap,
                               .exists = ns_const(1.0)};
}

static void sphere_plane(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    out[0] = on_plane(b, a->position, a->size[0]);
}

static void capsule_plane(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    vec3 end = v3_scale(a->size[1], m3_column(a->R, 2));
    out[0] = on_plane(b, v3_sub(a->position, end), a->size[0]);
    out[1] = on_plane(b, v3_add(a->position, end), a->size[0]);
}

static void box_plane(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    for (int k = 0; k < 8; k++) out[k] = on_plane(b, box_corner(a, k), ns_const(0.0));
}

static void points_plane(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    for (uint32_t k = 0; k < a->nvertex; k++) {
        const double* v = a->vertices + (size_t)3 * k;
        out[k] = on_plane(b, to_world(a, v3_const(v[0], v[1], v[2])), ns_const(0.0));
    }
}

static void mesh_plane(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    for (uint32_t k = 0; k < a->nvertex; k++) {
        vec3 v;
        for (int i = 0; i < 3; i++) {
            v.e[i] = ns_mul(ns_const(a->vertices[(size_t)3 * k + (size_t)i]), a->size[i]);
        }
        out[k] = on_plane(b, to_world(a, v), ns_const(0.0));
    }
}

static void polygon_plane(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    for (uint32_t k = 0; k < a->nvertex; k++) {
        const double* v = a->vertices + (size_t)3 * k;
        for (uint32_t face = 0; face < 2; face++) {
            ns_expr z = face ? a->size[0] : ns_neg(a->size[0]);
            vec3 p = to_world(a, v3(ns_const(v[0]), ns_const(v[1]), z));
            out[2 * k + face] = on_plane(b, p, ns_const(0.0));
        }
    }
}

// The point x of the ellipsoid that is furthest against the normal n: x is along -D^2 n with
// D = diag(half axes), at n . x = -|D n|.
static void ellipsoid_plane(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    vec3 n = m3_apply_t(a->R, m3_column(b->R, 2)), x;
    for (int i = 0; i < 3; i++) x.e[i] = ns_mul(a->size[i], n.e[i]);
    ns_normalize(3, x.e, x.e);
    for (int i = 0; i < 3; i++) x.e[i] = ns_neg(ns_mul(a->size[i], x.e[i]));
    out[0] = on_plane(b, to_world(a, x), ns_const(0.0));
}

// Three points on the rim of each end of a cylinder with an elliptic cross section, a third of a
// turn apart in the angle t of (rx cos t, ry sin t), the first where the rim is lowest.
//
// The lowest direction is (cos t, sin t) along w = -(rx n.x, ry n.y), up to scale, where n is the
// plane's normal in the cylinder's frame. It does not exist when the cylinder stands upright, and
// turns fast near there, though any three points carry a standing cylinder as well. So within a
// tilt of UPRIGHT a fixed direction takes over: w + (UPRIGHT (1 - w^2/UPRIGHT^2)^2, 0). There the
// lowest of the three is at most a sixth of a turn from the lowest point of the rim, so that the
// height is wrong by less than UPRIGHT * radius / 2. No continuous choice exists: a map of the disc
// of tilts to directions that is fixed on its rim must break somewhere. This one breaks at a tilt
// of 0.52 UPRIGHT towards -x, where the three points meet on the axis; nothing comes to rest there.
static const double UPRIGHT = 1e-3; // rad

void nsi_rim_points(const nsi_shape* a, vec3 up, ns_expr rx, ns_expr ry, ns_expr half_length,
                    vec3 out[NSI_RIM_POINTS]) {
    vec3 n = m3_apply_t(a->R, up);
    ns_expr ratio = rx.id == ry.id ? ns_const(1.0) : ns_div(ry, rx);
    ns_expr w[2] = {ns_neg(n.e[0]), ns_neg(ns_mul(n.e[1], ratio))};
    ns_expr tilt2 = ns_add(ns_mul(w[0], w[0]), ns_mul(w[1], w[1]));
    ns_expr rest = ns_sub(ns_const(1.0), ns_mul(ns_const(1.0 / (UPRIGHT * UPRIGHT)), tilt2));
    rest = ns_max(rest, ns_const(0.0));
    w[0] = ns_add(w[0], ns_mul(ns_const(UPRIGHT), ns_mul(rest, rest)));
    ns_normalize(2, w, w);

    // Vectors from the axis to the rim: at t, and a quarter turn on.
    vec3 x = v3_scale(rx, m3_column(a->R, 0)), y = v3_scale(ry, m3_column(a->R, 1));
    vec3 first = v3_add(v3_scale(w[0], x), v3_scale(w[1], y));
    vec3 quarter = v3_sub(v3_scale(w[0], y), v3_scale(w[1], x));
    vec3 back = v3_scale(ns_const(-0.5), first);
    vec3 aside = v3_scale(ns_const(0.5 * sqrt(3.0)), quarter);
    vec3 rim[3] = {first, v3_add(back, aside), v3_sub(back, aside)};
    vec3 end = v3_scale(half_length, m3_column(a->R, 2));
    for (int k = 0; k < NSI_RIM_POINTS; k++) {
        vec3 centre = k < 3 ? v3_sub(a->position, end) : v3_add(a->position, end);
        out[k] = v3_add(centre, rim[k % 3]);
    }
}

static void rims_plane(const nsi_shape* a, const nsi_shape* b, ns_expr rx, ns_expr ry,
                       ns_expr half_length, nsi_contact_point* out) {
    vec3 rim[NSI_RIM_POINTS];
    nsi_rim_points(a, m3_column(b->R, 2), rx, ry, half_length, rim);
    for (int k = 0; k < NSI_RIM_POINTS; k++) out[k] = on_plane(b, rim[k], ns_const(0.0));
}

static void cylinder_plane(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    rims_plane(a, b, a->size[0], a->size[0], a->size[1], out);
}

static void ellipse_plane(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    rims_plane(a, b, a->size[0], a->size[1], a->size[2], out);
}

// ---- balls and segments --------------------------------------------------------------------

// Two balls; `aside` is the normal when their centres coincide.
static nsi_contact_point balls(vec3 ca, ns_expr ra, vec3 cb, ns_expr rb, vec3 aside) {
    vec3 d = v3_sub(ca, cb);
    ns_expr distance = ns_norm(3, d.e), apart = ns_gt(distance, ns_const(0.0));
    ns_expr inverse = ns_div(ns_const(1.0), ns_select(apart, distance, ns_const(1.0)));
    vec3 normal = v3_select(apart, v3_scale(inverse, d), aside);
    ns_expr gap = ns_sub(ns_sub(distance, ra), rb);
    vec3 position = v3_add(cb, v3_scale(ns_add(rb, half(gap)), normal));
    return (nsi_contact_point){position, normal, gap, ns_const(1.0)};
}

static void sphere_sphere(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    out[0] = balls(a->position, a->size[0], b->position, b->size[0], v3_const(0.0, 0.0, 1.0));
}

static void sphere_capsule(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    vec3 axis = m3_column(b->R, 2);
    ns_expr t = within(v3_dot(axis, v3_sub(a->position, b->position)), b->size[1]);
    vec3 nearest = v3_add(b->position, v3_scale(t, axis));
    out[0] = balls(a->position, a->size[0], nearest, b->size[0], m3_column(b->R, 0));
}

// Two segments with the unit directions u and v, at an angle whose sine is s:
//
//   s > 0.03   slot 0 is the closest pair of points, slot 1 does not exist
//   s < 0.01   the slots are the two ends of the part of a's segment that runs along b's
//   between    both slots move from those ends to the closest point, continuously
//
// In all cases a slot is a ball on a's axis against the whole of b, so its gap is a distance that is
// really there. Below 0.03 the closest point may lie between the slots; with an overlap of length l
// and axes d apart the gap is then wrong by less than (0.006 l)^2 / (2 d). The closest pair itself
// runs from one end to the other as parallel capsules turn by nothing, and one contact at a time
// would make a lying capsule rock.
static const double PARALLEL_SINE2 = 0.01 * 0.01, CROSSING_SINE2 = 0.03 * 0.03;

static void capsule_capsule(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    vec3 u = m3_column(a->R, 2), v = m3_column(b->R, 2), r = v3_sub(a->position, b->position);
    ns_expr la = a->size[1], lb = b->size[1];
    ns_expr uv = v3_dot(u, v), ur = v3_dot(u, r), vr = v3_dot(v, r);
    ns_expr sine2 = ns_sub(ns_const(1.0), ns_mul(uv, uv));

    // Closest points of the segments (Ericson 2005, 5.1.9): of the lines, clamped on a, then on b,
    // then on a. The lower limit of the divisor is beyond where the result is used.
    ns_expr s = ns_div(ns_sub(ns_mul(uv, vr), ur), ns_max(sine2, ns_const(0.1 * PARALLEL_SINE2)));
    ns_expr t = within(ns_add(ns_mul(uv, within(s, la)), vr), lb);
    ns_expr closest = within(ns_sub(ns_mul(uv, t), ur), la);

    // Ends of the overlap: b's ends on a's axis.
    ns_expr reach = ns_mul(ns_abs(uv), lb);
    ns_expr low = within(ns_neg(ns_add(ur, reach)), la), high = within(ns_sub(reach, ur), la);

    ns_expr step = ns_mul(ns_const(1.0 / (CROSSING_SINE2 - PARALLEL_SINE2)),
                          ns_sub(sine2, ns_const(PARALLEL_SINE2)));
    ns_expr crossing = smooth_step(step);
    ns_expr ends[2] = {low, high};
    for (int k = 0; k < NSI_CAPSULE_CAPSULE_SLOTS; k++) {
        ns_expr at = ns_add(ends[k], ns_mul(crossing, ns_sub(closest, ends[k])));
        vec3 on_a = v3_add(a->position, v3_scale(at, u));
        ns_expr bt = within(ns_add(ns_mul(uv, at), vr), lb);
        vec3 on_b = v3_add(b->position, v3_scale(bt, v));
        out[k] = balls(on_a, a->size[0], on_b, b->size[0], m3_column(b->R, 0));
    }
    out[1].exists = ns_and(ns_lt(step, ns_const(1.0)), ns_lt(low, high));
}

// ---- the pairs -----------------------------------------------------------------------------

typedef struct pair {
    ns_geom_type a, b;
    uint32_t slots;      // fixed number,
    uint32_t per_vertex; // and for each vertex of a
    nsi_pair_points* points;
} pair;

static const pair pairs[] = {
    {NS_GEOM_SPHERE, NS_GEOM_PLANE, 1, 0, sphere_plane},
    {NS_GEOM_CAPSULE, NS_GEOM_PLANE, 2, 0, capsule_plane},
    {NS_GEOM_CYLINDER, NS_GEOM_PLANE, 6, 0, cylinder_plane},
    {NS_GEOM_BOX, NS_GEOM_PLANE, 8, 0, box_plane},
    {NS_GEOM_MESH, NS_GEOM_PLANE, 0, 1, mesh_plane},
    {NS_GEOM_ELLIPSOID, NS_GEOM_PLANE, 1, 0, ellipsoid_plane},
    {NS_GEOM_POLYGON, NS_GEOM_PLANE, 0, 2, polygon_plane},
    {NS_GEOM_ELLIPSE, NS_GEOM_PLANE, 6, 0, ellipse_plane},
    {NS_GEOM_POINTS, NS_GEOM_PLANE, 0, 1, points_plane},
    {NS_GEOM_SPHERE, NS_GEOM_SPHERE, 1, 0, sphere_sphere},
    {NS_GEOM_SPHERE, NS_GEOM_CAPSULE, 1, 0, sphere_capsule},
    {NS_GEOM_CAPSULE, NS_GEOM_CAPSULE, NSI_CAPSULE_CAPSULE_SLOTS, 0, capsule_capsule},
    {NS_GEOM_SPHERE, NS_GEOM_BOX, 1, 0, nsi_sphere_box},
    {NS_GEOM_CAPSULE, NS_GEOM_BOX, NSI_CAPSULE_BOX_SLOTS, 0, nsi_capsule_box},
    {NS_GEOM_BOX, NS_GEOM_BOX, NSI_BOX_BOX_SLOTS, 0, nsi_box_box},
    {NS_GEOM_SPHERE, NS_GEOM_CYLINDER, 1, 0, nsi_convex_convex},
    {NS_GEOM_SPHERE, NS_GEOM_ELLIPSOID, 1, 0, nsi_convex_convex},
    {NS_GEOM_SPHERE, NS_GEOM_MESH, 1, 0, nsi_convex_convex},
    {NS_GEOM_CAPSULE, NS_GEOM_CYLINDER, 2, 0, nsi_convex_convex},
    {NS_GEOM_CAPSULE, NS_GEOM_ELLIPSOID, 1, 0, nsi_convex_convex},
    {NS_GEOM_CAPSULE, NS_GEOM_MESH, 2, 0, nsi_convex_convex},
    {NS_GEOM_BOX, NS_GEOM_CYLINDER, NSI_CONVEX_CONVEX_SLOTS, 0, nsi_convex_convex},
    {NS_GEOM_BOX, NS_GEOM_ELLIPSOID, 1, 0, nsi_convex_convex},
    {NS_GEOM_BOX, NS_GEOM_MESH, NSI_CONVEX_CONVEX_SLOTS, 0, nsi_convex_convex},
    {NS_GEOM_CYLINDER, NS_GEOM_CYLINDER, NSI_CONVEX_CONVEX_SLOTS, 0, nsi_convex_convex},
    {NS_GEOM_CYLINDER, NS_GEOM_ELLIPSOID, 1, 0, nsi_convex_convex},
    {NS_GEOM_CYLINDER, NS_GEOM_MESH, NSI_CONVEX_CONVEX_SLOTS, 0, nsi_convex_convex},
    {NS_GEOM_ELLIPSOID, NS_GEOM_ELLIPSOID, 1, 0, nsi_convex_convex},
    {NS_GEOM_ELLIPSOID, NS_GEOM_MESH, 1, 0, nsi_convex_convex},
    {NS_GEOM_MESH, NS_GEOM_MESH, NSI_CONVEX_CONVEX_SLOTS, 0, nsi_convex_convex},
    {NS_GEOM_SPHERE, NS_GEOM_HFIELD, 3, 0, nsi_sphere_hfield},
    {NS_GEOM_CAPSULE, NS_GEOM_HFIELD, 6, 0, nsi_capsule_hfield},
    {NS_GEOM_CYLINDER, NS_GEOM_HFIELD, 10, 0, nsi_cylinder_hfield},
    {NS_GEOM_BOX, NS_GEOM_HFIELD, 12, 0, nsi_box_hfield},
    {NS_GEOM_ELLIPSOID, NS_GEOM_HFIELD, 3, 0, nsi_ellipsoid_hfield},
    {NS_GEOM_MESH, NS_GEOM_HFIELD, 0, 1, nsi_mesh_hfield},
    {NS_GEOM_CYLINDER, NS_GEOM_POLYGON, 1, 0, nsi_rod_polygon},
    {NS_GEOM_CYLINDER, NS_GEOM_ELLIPSE, 1, 0, nsi_rod_ellipse},
};

// The pair in either order; NULL when there is none. `swapped`: the pair's a is b.
static const pair* find_shape_pair(ns_geom_type a, ns_geom_type b, bool* swapped) {
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        *swapped = pairs[k].a != a || pairs[k].b != b;
        if (!*swapped || (pairs[k].a == b && pairs[k].b == a)) return &pairs[k];
    }
    return NULL;
}

uint32_t nsi_contact_slots(ns_geom_type a, uint32_t nvertex_a, ns_geom_type b, uint32_t nvertex_b) {
    bool swapped;
    const pair* p = find_shape_pair(a, b, &swapped);
    if (!p) return 0;
    // An outline needs three corners.
    if ((a == NS_GEOM_POLYGON && nvertex_a < 3) || (b == NS_GEOM_POLYGON && nvertex_b < 3)) {
        return 0;
    }
    // The vertices of a mesh are searched one by one, but for planes.
    bool general = p->points == nsi_convex_convex || p->points == nsi_mesh_hfield;
    if (general && (nvertex_a > NSI_MAX_HULL_VERTICES || nvertex_b > NSI_MAX_HULL_VERTICES)) {
        return 0;
    }
    return p->slots + p->per_vertex * (swapped ? nvertex_b : nvertex_a);
}

void nsi_contact_points(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    uint32_t slots = nsi_contact_slots(a->type, a->nvertex, b->type, b->nvertex);
    bool swapped;
    const pair* p = find_shape_pair(a->type, b->type, &swapped);
    if (!p || slots == 0) return;
    p->points(swapped ? b : a, swapped ? a : b, out);
    for (uint32_t k = 0; swapped && k < slots; k++) out[k].normal = v3_neg(out[k].normal);
}
