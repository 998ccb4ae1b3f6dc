// Shortest paths around a sphere or cylinder, in the plane that the path of a sphere lies in, or in the plane
// across the axis of a cylinder: there the obstacle is a circle.
//
// The tangents from a point d at the distance l touch the circle of radius r at
//
//     t = (r/l)^2 d +- (r sqrt(l^2 - r^2) / l^2) d',   d' = (d_y, -d_x)
//
// so there are two paths, which go around clockwise (+ at the first end) and counter-clockwise. With a side
// point the one that passes closer to it counts, otherwise the one with the shorter chord, which is the
// shorter one. Both sides of every selection are evaluated: what is divided by is not zero on either.

#include "math/wrap.h"

// Squares of lengths below are nothing; MuJoCo has the same bound.
static const double NOTHING = 1e-15;

typedef struct vec2 {
    ns_expr x, y;
} vec2;

static vec2 v2_sub(vec2 a, vec2 b) {
    return (vec2){ns_sub(a.x, b.x), ns_sub(a.y, b.y)};
}

static vec2 v2_add(vec2 a, vec2 b) {
    return (vec2){ns_add(a.x, b.x), ns_add(a.y, b.y)};
}

static vec2 v2_scale(ns_expr s, vec2 a) {
    return (vec2){ns_mul(s, a.x), ns_mul(s, a.y)};
}

static ns_expr v2_dot(vec2 a, vec2 b) {
    return ns_add(ns_mul(a.x, b.x), ns_mul(a.y, b.y));
}

static ns_expr v2_cross(vec2 a, vec2 b) {
    return ns_sub(ns_mul(a.x, b.y), ns_mul(a.y, b.x));
}

static ns_expr v2_length(vec2 a) {
    const ns_expr e[2] = {a.x, a.y};
    return ns_norm(2, e);
}

static vec2 v2_unit(vec2 a) {
    ns_expr e[2] = {a.x, a.y};
    ns_normalize(2, e, e);
    return (vec2){e[0], e[1]};
}

static vec2 v2_select(ns_expr condition, vec2 then, vec2 otherwise) {
    return (vec2){ns_select(condition, then.x, otherwise.x),
                  ns_select(condition, then.y, otherwise.y)};
}

// The angle whose sine and cosine these are, but for a common factor; 0 where both are 0.
static ns_expr angle_of(ns_expr sine, ns_expr cosine) {
    ns_expr square = ns_add(ns_mul(sine, sine), ns_mul(cosine, cosine));
    ns_expr is_any = ns_gt(square, ns_const(0.0));
    return ns_atan2(sine, ns_select(is_any, cosine, ns_const(1.0)));
}

// A path in the plane.
typedef struct flat_path {
    ns_expr wraps;
    vec2 first, second;
    ns_expr length;
} flat_path;

// The point of the segment that is nearest to the origin.
static vec2 nearest_point(vec2 from, vec2 to) {
    vec2 way = v2_sub(to, from);
    ns_expr share = ns_neg(ns_div_safe(v2_dot(way, from), v2_dot(way, way)));
    return v2_add(from, v2_scale(ns_clamp(share, ns_const(0.0), ns_const(1.0)), way));
}

// Do two segments cross?
static ns_expr segments_cross(vec2 a0, vec2 a1, vec2 b0, vec2 b1) {
    vec2 a = v2_sub(a1, a0), b = v2_sub(b1, b0), between = v2_sub(a0, b0);
    ns_expr det = v2_cross(a, b), zero = ns_const(0.0), one = ns_const(1.0);
    ns_expr along_a = ns_div_safe(v2_cross(b, between), det);
    ns_expr along_b = ns_div_safe(v2_cross(a, between), det);
    ns_expr in_a = ns_and(ns_ge(along_a, zero), ns_le(along_a, one));
    ns_expr in_b = ns_and(ns_ge(along_b, zero), ns_le(along_b, one));
    return ns_and(ns_ge(ns_abs(det), ns_const(NOTHING)), ns_and(in_a, in_b));
}

// ---- around --------------------------------------------------------------------------------

// Where the tangent from a point touches, on the side of d' for sign 1; the point is outside.
static vec2 tangent_point(vec2 d, ns_expr radius, double sign) {
    ns_expr square = v2_dot(d, d), r2 = ns_mul(radius, radius);
    ns_expr rest = ns_sub(square, r2), is_outside = ns_gt(rest, ns_const(0.0));
    ns_expr root = ns_sqrt(ns_select(is_outside, rest, ns_const(1.0)));
    ns_expr across = ns_mul(ns_const(sign), ns_mul(radius, root));
    vec2 turned = {d.y, ns_neg(d.x)};
    vec2 sum = v2_add(v2_scale(r2, d), v2_scale(across, turned));
    return v2_scale(ns_div_safe(ns_const(1.0), square), sum);
}

// The angle from one point of the circle to another, clockwise for sign 1, from 0 to 2 pi.
static ns_expr arc_angle(vec2 from, vec2 to, double sign) {
    const double turn = 6.28318530717958647692;
    ns_expr angle = angle_of(ns_mul(ns_const(-sign), v2_cross(from, to)), v2_dot(from, to));
    ns_expr whole = ns_add(angle, ns_const(turn));
    return ns_select(ns_lt(angle, ns_const(0.0)), whole, angle);
}

// One of the two paths, and how good it is.
static flat_path trace_turn(vec2 from, vec2 to, ns_expr radius, const vec2* side, double sign,
                            ns_expr* good) {
    flat_path path = {.first = tangent_point(from, radius, sign),
                      .second = tangent_point(to, radius, -sign)};
    path.length = ns_mul(radius, arc_angle(path.first, path.second, sign));
    path.wraps = ns_not(segments_cross(from, path.first, to, path.second));
    vec2 chord = v2_sub(path.second, path.first);
    *good = side ? v2_dot(v2_unit(v2_add(path.first, path.second)), *side)
                 : ns_neg(v2_dot(chord, chord));
    *good = ns_select(path.wraps, *good, ns_const(-1e4));
    return path;
}

// `side`: NULL, or a point of the circle.
static flat_path trace_around(vec2 from, vec2 to, ns_expr radius, const vec2* side) {
    // Does the segment miss the circle, on the right side?
    vec2 nearest = nearest_point(from, to);
    ns_expr r2 = ns_mul(radius, radius), misses = ns_gt(v2_dot(nearest, nearest), r2);
    if (side) misses = ns_and(misses, ns_ge(v2_dot(*side, nearest), ns_const(0.0)));

    // The better one of the two ways around.
    ns_expr good[2];
    flat_path a = trace_turn(from, to, radius, side, 1.0, &good[0]);
    flat_path b = trace_turn(from, to, radius, side, -1.0, &good[1]);
    ns_expr is_a = ns_gt(good[0], good[1]);
    flat_path path = {.wraps = ns_select(is_a, a.wraps, b.wraps),
                      .first = v2_select(is_a, a.first, b.first),
                      .second = v2_select(is_a, a.second, b.second),
                      .length = ns_select(is_a, a.length, b.length)};

    // Points inside of the circle, or at one place, are joined by a straight line.
    vec2 way = v2_sub(to, from);
    ns_expr outside =
        ns_and(ns_ge(v2_dot(from, from), r2),
               ns_and(ns_ge(v2_dot(to, to), r2), ns_ge(v2_dot(way, way), ns_const(NOTHING))));
    path.wraps = ns_and(path.wraps, ns_and(outside, ns_not(misses)));
    return path;
}

// ---- inside --------------------------------------------------------------------------------

// How fast the path by way of a point of the circle becomes longer with its angle from an end at the
// distance l, over r: l sin(angle) / distance. `slope` receives the derivative of that.
static ns_expr pull(ns_expr l, ns_expr r, ns_expr angle, ns_expr* slope) {
    ns_expr s = ns_sin(angle), c = ns_cos(angle);
    ns_expr square =
        ns_sub(ns_add(ns_mul(l, l), ns_mul(r, r)), ns_mul(ns_mul(ns_const(2.0), c), ns_mul(l, r)));
    ns_expr per_distance = ns_div_safe(ns_const(1.0), ns_sqrt(ns_max(square, ns_const(NOTHING))));
    ns_expr value = ns_mul(ns_mul(l, s), per_distance);
    // The distance itself grows by r value.
    *slope = ns_sub(ns_mul(ns_mul(l, c), per_distance),
                    ns_mul(ns_mul(r, per_distance), ns_mul(value, value)));
    return value;
}

// The point of the circle that both parts of the shortest path meet at the same angle: the path is
// held by the circle from inside. Bisection, and Newton's method, which has the derivative as well.
static flat_path trace_inside(vec2 from, vec2 to, ns_expr radius) {
    enum { HALVINGS = 16, NEWTON = 3 };
    ns_expr l0 = v2_length(from), l1 = v2_length(to), zero = ns_const(0.0);
    ns_expr turn = v2_cross(from, to), whole = angle_of(ns_abs(turn), v2_dot(from, to));
    ns_expr low = zero, high = whole, slope0, slope1;
    for (int k = 0; k < HALVINGS; k++) {
        ns_expr middle = ns_mul(ns_const(0.5), ns_add(low, high));
        ns_expr longer = ns_gt(pull(l0, radius, middle, &slope0),
                               pull(l1, radius, ns_sub(whole, middle), &slope1));
        high = ns_select(longer, middle, high);
        low = ns_select(longer, low, middle);
    }
    ns_expr angle = ns_mul(ns_const(0.5), ns_add(low, high));
    for (int k = 0; k < NEWTON; k++) {
        ns_expr excess = ns_sub(pull(l0, radius, angle, &slope0),
                                pull(l1, radius, ns_sub(whole, angle), &slope1));
        angle = ns_sub(angle, ns_div_safe(excess, ns_add(slope0, slope1)));
    }

    // The first end, turned towards the second one.
    ns_expr s = ns_select(ns_lt(turn, zero), ns_neg(ns_sin(angle)), ns_sin(angle)),
            c = ns_cos(angle);
    vec2 unit = v2_unit(from);
    vec2 point = {ns_sub(ns_mul(c, unit.x), ns_mul(s, unit.y)),
                  ns_add(ns_mul(s, unit.x), ns_mul(c, unit.y))};
    point = v2_scale(radius, point);

    // Not where an end is inside, or the segment meets the circle.
    vec2 nearest = nearest_point(from, to);
    ns_expr outside = ns_and(ns_gt(l0, radius), ns_gt(l1, radius));
    ns_expr misses = ns_gt(v2_dot(nearest, nearest), ns_mul(radius, radius));
    return (flat_path){ns_and(outside, misses), point, point, zero};
}

// ---- in space --------------------------------------------------------------------------------

// Axes of the plane in which a sphere is a circle: the first towards `from`. Where the ends are in line
// with the centre, any plane through them is as good.
static void sphere_axes(vec3 from, vec3 to, vec3 axes[2]) {
    vec3 unit, normal = v3_cross(from, to), other;
    ns_normalize(3, from.e, unit.e);
    ns_expr large = ns_const(0.5), zero = ns_const(0.0), one = ns_const(1.0);
    ns_expr along_x = ns_gt(ns_mul(unit.e[0], unit.e[0]), large);
    other = v3(ns_select(along_x, zero, one), ns_select(along_x, one, zero), zero);
    ns_expr in_line = ns_lt(v3_dot(normal, normal), ns_const(NOTHING * NOTHING));
    vec3 any = v3_cross(unit, other);
    for (int k = 0; k < 3; k++) normal.e[k] = ns_select(in_line, any.e[k], normal.e[k]);
    ns_normalize(3, normal.e, normal.e);
    axes[0] = unit;
    axes[1] = v3_cross(normal, unit);
}

static vec2 to_plane(vec3 v, const vec3 axes[2]) {
    return (vec2){v3_dot(v, axes[0]), v3_dot(v, axes[1])};
}

static vec3 to_space(vec2 v, const vec3 axes[2]) {
    return v3_add(v3_scale(v.x, axes[0]), v3_scale(v.y, axes[1]));
}

nsi_wrap nsi_wrap_path(bool sphere, ns_expr radius, vec3 from, vec3 to, const vec3* side) {
    vec3 axes[2] = {v3_const(1, 0, 0), v3_const(0, 1, 0)};
    if (sphere) sphere_axes(from, to, axes);
    vec2 start = to_plane(from, axes), end = to_plane(to, axes);
    flat_path path;
    if (side) {
        // On the side of a point, or through the inside where the point is there.
        vec2 place = to_plane(*side, axes);
        vec2 edge = v2_scale(radius, v2_unit(place));
        ns_expr is_inside = ns_lt(v2_dot(place, place), ns_mul(radius, radius));
        flat_path around = trace_around(start, end, radius, &edge);
        flat_path inside = trace_inside(start, end, radius);
        path = (flat_path){ns_select(is_inside, inside.wraps, around.wraps),
                           v2_select(is_inside, inside.first, around.first),
                           v2_select(is_inside, inside.second, around.second),
                           ns_select(is_inside, inside.length, around.length)};
    } else {
        path = trace_around(start, end, radius, NULL);
    }
    nsi_wrap wrap = {path.wraps, to_space(path.first, axes), to_space(path.second, axes),
                     path.length};
    if (sphere) return wrap;

    // Along the axis of a cylinder the path rises evenly: unrolled, it is straight.
    ns_expr before = v2_length(v2_sub(start, path.first));
    ns_expr after = v2_length(v2_sub(end, path.second));
    ns_expr rise = ns_sub(to.e[2], from.e[2]);
    ns_expr slope = ns_div_safe(rise, ns_add(before, ns_add(path.length, after)));
    ns_expr height = ns_mul(slope, path.length);
    wrap.first.e[2] = ns_add(from.e[2], ns_mul(slope, before));
    wrap.second.e[2] = ns_add(wrap.first.e[2], height);
    const ns_expr sides[2] = {path.length, height};
    wrap.length = ns_norm(2, sides);
    return wrap;
}
