// Balls and capsules against a box.

#include "contact/pairs.h"

// Closer to the surface than this the nearest face decides: the direction to the nearest point has
// no digits left there.
static const double ON_SURFACE = 1e-10; // m

// Signed distance of a point from the box, negative inside, and the normal there; in the box's
// frame.
typedef struct surface {
    vec3 normal;
    ns_expr distance;
} surface;

static surface box_surface(vec3 p, const ns_expr* size) {
    ns_expr zero = ns_const(0.0), one = ns_const(1.0);
    vec3 d, depth;
    for (int i = 0; i < 3; i++) {
        d.e[i] = ns_sub(p.e[i], within(p.e[i], size[i]));
        depth.e[i] = ns_sub(ns_abs(p.e[i]), size[i]);
    }
    ns_expr distance = ns_norm(3, d.e), outside = ns_gt(distance, ns_const(ON_SURFACE));
    ns_expr inverse = ns_div(one, ns_select(outside, distance, one));

    // Inside: the face with the largest |p| - size, which is the least deep.
    ns_expr is_y = ns_gt(depth.e[1], depth.e[0]);
    ns_expr level = ns_select(is_y, depth.e[1], depth.e[0]);
    ns_expr is_z = ns_gt(depth.e[2], level);
    level = ns_select(is_z, depth.e[2], level);
    ns_expr wins[3] = {ns_not(ns_or(is_y, is_z)), ns_and(is_y, ns_not(is_z)), is_z};

    surface s = {.distance = ns_select(outside, distance, level)};
    for (int i = 0; i < 3; i++) {
        ns_expr face = ns_select(wins[i], side(p.e[i]), zero);
        s.normal.e[i] = ns_select(outside, ns_mul(d.e[i], inverse), face);
    }
    return s;
}

// A ball about `centre`, given in the world and in the box's frame.
static nsi_contact_point ball_box(vec3 centre, vec3 local, ns_expr radius, const nsi_shape* box) {
    surface s = box_surface(local, box->size);
    vec3 normal = m3_apply(box->R, s.normal);
    ns_expr back = half(ns_add(s.distance, radius)); // to half way between both surfaces
    return (nsi_contact_point){.position = v3_sub(centre, v3_scale(back, normal)),
                               .normal = normal,
                               .gap = ns_sub(s.distance, radius),
                               .exists = ns_const(1.0)};
}

void nsi_sphere_box(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    out[0] = ball_box(a->position, to_local(b, a->position), a->size[0], b);
}

// ---- capsules ------------------------------------------------------------------------------
//
// With p(s) = p + s u on the capsule's axis, in the box's frame, and c the nearest point of the
// box, half the squared distance has the derivative
//
//   g(s) = u . (p(s) - c(p(s))),
//
// which does not decrease and is straight between the up to six places where the axis crosses the
// box's face planes. So the root is found exactly: take g at those knots and at both ends, keep the
// last knot at or before the root and the first at or after it, and go straight between them.
//
// The closest point alone would let a lying capsule rock (it runs from end to end as the capsule
// tilts by nothing), so there are two slots:
//
//   crossing   slot 0 at the root of g, slot 1 does not exist
//   lying      slots at the ends of the part that lies on the box while the tilt is below LYING:
//              where g is -LYING radius and LYING radius. Past the edge of a face g has the slope 1,
//              for an axis square to that edge, so these roots are LYING radius beyond the ends,
//              which is taken off again; the segment is longer by as much while they are sought.
//              For an axis that is askew they remain up to twice that beyond the edge.
//
// Ends that are closer than half a radius say crossing, further than one radius lying; between
// them the slots move continuously. All slots are balls on the axis against the whole box, so every
// gap is a distance that is really there. While the axis itself cuts the box g is 0 inside it, and
// "the" root is the middle of that part.

enum { KNOTS = 8 };
static const double LYING = 0.01;
static const double FLAT = 1e-13; // m: differences in g that are rounding
static const double ALONG = 1e-6; // components of u below count as this, which moves knots only
                                  // where passing them changes nothing

static ns_expr distance_slope(vec3 p, vec3 u, const ns_expr* size, ns_expr s) {
    ns_expr sum = ns_const(0.0);
    for (int i = 0; i < 3; i++) {
        ns_expr x = ns_add(p.e[i], ns_mul(s, u.e[i]));
        sum = ns_add(sum, ns_mul(u.e[i], ns_sub(x, within(x, size[i]))));
    }
    return sum;
}

// Where g, known at the knots, has this value; the middle of where it has; an end when it has not.
static ns_expr slope_root(const ns_expr* knot, const ns_expr* g, ns_expr value) {
    ns_expr above = ns_add(value, ns_const(FLAT)), below = ns_sub(value, ns_const(FLAT));
    ns_expr left = knot[0], right = knot[1], g_left = g[0], g_right = g[1]; // the ends
    for (int k = 0; k < KNOTS; k++) {
        if (k != 0) {
            ns_expr before = ns_le(g[k], above);
            left = ns_max(ns_select(before, knot[k], left), left);
            g_left = ns_max(ns_select(before, g[k], g_left), g_left);
        }
        if (k != 1) {
            ns_expr after = ns_ge(g[k], below);
            right = ns_min(ns_select(after, knot[k], right), right);
            g_right = ns_min(ns_select(after, g[k], g_right), g_right);
        }
    }
    ns_expr rise = ns_sub(g_right, g_left), flat = ns_le(rise, ns_const(2.0 * FLAT));
    ns_expr part = ns_div(ns_sub(value, g_left), ns_select(flat, ns_const(1.0), rise));
    part = ns_clamp(ns_select(flat, ns_const(0.5), part), ns_const(0.0), ns_const(1.0));
    return ns_add(left, ns_mul(part, ns_sub(right, left)));
}

void nsi_capsule_box(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    ns_expr radius = a->size[0], length = a->size[1];
    vec3 axis = m3_column(a->R, 2);
    vec3 p = to_local(b, a->position), u = m3_apply_t(b->R, axis);
    ns_expr tilt = ns_mul(ns_const(LYING), radius), reach = ns_add(length, tilt);

    // Knots: the ends, and where the axis passes the box's face planes.
    ns_expr knot[KNOTS] = {ns_neg(reach), reach}, g[KNOTS];
    for (int i = 0; i < 3; i++) {
        ns_expr along = ns_gt(ns_abs(u.e[i]), ns_const(ALONG));
        ns_expr inverse = ns_div(ns_const(1.0), ns_select(along, u.e[i], ns_const(ALONG)));
        ns_expr to_middle = ns_neg(ns_mul(p.e[i], inverse)), to_face = ns_mul(b->size[i], inverse);
        knot[2 + 2 * i] = within(ns_sub(to_middle, to_face), reach);
        knot[3 + 2 * i] = within(ns_add(to_middle, to_face), reach);
    }
    for (int k = 0; k < KNOTS; k++) g[k] = distance_slope(p, u, b->size, knot[k]);

    // One point where the distance is smallest, or the ends of the part that lies on the box.
    ns_expr closest = within(slope_root(knot, g, ns_const(0.0)), length);
    ns_expr ends[2] = {ns_add(slope_root(knot, g, ns_neg(tilt)), tilt),
                       ns_sub(slope_root(knot, g, tilt), tilt)};
    ns_expr step = ns_div(ns_mul(ns_const(2.0), ns_sub(ends[1], ends[0])), radius);
    step = ns_sub(step, ns_const(1.0));
    ns_expr lying = smooth_step(step);

    // Blend from one to two as that part grows, so that points do not jump.
    for (int k = 0; k < NSI_CAPSULE_BOX_SLOTS; k++) {
        ns_expr at = ns_add(closest, ns_mul(lying, ns_sub(ends[k], closest)));
        vec3 centre = v3_add(a->position, v3_scale(at, axis)), local;
        for (int i = 0; i < 3; i++) local.e[i] = ns_add(p.e[i], ns_mul(at, u.e[i]));
        out[k] = ball_box(centre, local, radius, b);
    }
    out[1].exists = ns_gt(step, ns_const(0.0));
}
