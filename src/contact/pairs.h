// The pairs of shapes behind shapes.h. Each function takes its shapes in the order of its name and
// writes the slots of the pair.

#ifndef NSI_PAIRS_H
#define NSI_PAIRS_H

#include "contact/shapes.h"

enum {
    NSI_CAPSULE_CAPSULE_SLOTS = 2,
    NSI_CAPSULE_BOX_SLOTS = 2,
    NSI_BOX_BOX_SLOTS = 13,
    NSI_CONVEX_CONVEX_SLOTS = 4,
    NSI_RIM_POINTS = 6
};

typedef void nsi_pair_points(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out);

nsi_pair_points nsi_sphere_box, nsi_capsule_box; // box.c
nsi_pair_points nsi_box_box;                     // box_box.c
nsi_pair_points nsi_convex_convex;               // convex_pairs.c

// hfield.c
nsi_pair_points nsi_sphere_hfield, nsi_capsule_hfield, nsi_cylinder_hfield, nsi_box_hfield;
nsi_pair_points nsi_mesh_hfield, nsi_ellipsoid_hfield;

// Points on the rims of a cylinder (shapes.c) in the world: three on each end, the first where it is
// lowest along `up`.
void nsi_rim_points(const nsi_shape* a, vec3 up, ns_expr rx, ns_expr ry, ns_expr half_length,
                    vec3 out[NSI_RIM_POINTS]);

// A rod whose axis is along the plate's z, which is taken for granted: a circle against an outline
// in the plate's plane.
nsi_pair_points nsi_rod_polygon, nsi_rod_ellipse; // plate.c

// ---- expressions ---------------------------------------------------------------------------

static inline vec3 v3_select(ns_expr condition, vec3 a, vec3 b) {
    return v3(ns_select(condition, a.e[0], b.e[0]), ns_select(condition, a.e[1], b.e[1]),
              ns_select(condition, a.e[2], b.e[2]));
}

// -1 or 1; 1 at 0, where a normal must have a direction too.
static inline ns_expr side(ns_expr x) {
    return ns_select(ns_lt(x, ns_const(0.0)), ns_const(-1.0), ns_const(1.0));
}

static inline ns_expr half(ns_expr x) {
    return ns_mul(ns_const(0.5), x);
}

// x limited to [-limit, limit].
static inline ns_expr within(ns_expr x, ns_expr limit) {
    return ns_clamp(x, ns_neg(limit), limit);
}

// From 0 at x <= 0 to 1 at x >= 1, with a continuous derivative.
static inline ns_expr smooth_step(ns_expr x) {
    x = ns_clamp(x, ns_const(0.0), ns_const(1.0));
    return ns_mul(ns_mul(x, x), ns_sub(ns_const(3.0), ns_mul(ns_const(2.0), x)));
}

static inline vec3 to_world(const nsi_shape* shape, vec3 local) {
    return v3_add(shape->position, m3_apply(shape->R, local));
}
static inline vec3 to_local(const nsi_shape* shape, vec3 world) {
    return m3_apply_t(shape->R, v3_sub(world, shape->position));
}

// Corner k of a box, in the world.
static inline vec3 box_corner(const nsi_shape* box, int k) {
    vec3 corner = box->position;
    for (int i = 0; i < 3; i++) {
        vec3 edge = v3_scale(box->size[i], m3_column(box->R, i));
        corner = k >> i & 1 ? v3_add(corner, edge) : v3_sub(corner, edge);
    }
    return corner;
}

#endif
