// Pairs of convex shapes in general: cylinders, ellipsoids and meshes against each other and against
// spheres, capsules and boxes.
//
// A block (convex_features.h) finds the normal and the features that touch; it has no derivatives.
// Here the points are expressed by these features, which moves them along with poses and sizes (also where
// the features are those of the start of a step, nsi_shape.chosen), so that derivatives, forward and
// backward, are those of ordinary expressions. A block with tangent and
// adjoint kernels of its own would have needed three times the code, and would have had first
// derivatives only.
//
// With d = x_a - x_b between the support points of both shapes along n, the normal is where d is
// along n. The features make n square to
//
//   two directions   e1, e2 of a face, or of an edge of each: n = e1 x e2, made unit
//   one              an edge, the side of a cylinder: n = n0 + alpha t with n0 the block's normal less
//                    its part along e, and t = e x n0
//   none             n = n0 + alpha1 t1 + alpha2 t2
//
// where the alphas are a step of Newton's method, (H + gap) alpha = t . d with H the second
// derivative of the support functions (the curvature radii of both surfaces). The block's normal is
// accurate, so that the step is zero to rounding; but its derivative is that of the solution, by the
// implicit function theorem. A second step makes second derivatives right as well. H + gap does not
// vanish for the longest gap but where two vertices, or a vertex and an edge, touch at a point: there
// the normal has no derivative and counts as fixed.
//
// A point X is on a line of one shape (or just a point of it), where that meets a plane of the other;
// its gap is that to a plane through q, a point of the other shape: the plane across n, or for
// corners of the reference face that of the incident face. Both planes contain what q is taken from, so
// that it does not matter where on it q is.

#include "contact/pairs.h"

#include "contact/convex_features.h"
#include "expr/trace.h"

enum { NEWTON_STEPS = 2 };
static const double SINGULAR = 1e-9;  // of H + gap, relative to the sizes of both shapes
static const double NO_LENGTH = 1e-9; // m^2, of the cosine between line and plane: no crossing

typedef struct convex_pair {
    const nsi_shape* shape[2];
    vec3 scale[2];
    ns_expr radius[2];
    ns_expr y[NSI_CONVEX_OUTPUTS];
} convex_pair;

// ---- shapes --------------------------------------------------------------------------------

static uint32_t convex_code(const nsi_shape* s) {
    switch (s->type) {
    case NS_GEOM_CAPSULE: return NSI_CONVEX_SEGMENT;
    case NS_GEOM_CYLINDER: return NSI_CONVEX_CYLINDER;
    case NS_GEOM_BOX: return NSI_CONVEX_BOX;
    case NS_GEOM_ELLIPSOID: return NSI_CONVEX_ELLIPSOID;
    case NS_GEOM_MESH: return NSI_CONVEX_MESH + 8 * s->nvertex;
    default: return NSI_CONVEX_POINT;
    }
}

static vec3 convex_scale(const nsi_shape* s) {
    ns_expr zero = ns_const(0.0);
    switch (s->type) {
    case NS_GEOM_SPHERE: return v3_zero();
    case NS_GEOM_CAPSULE: return v3(zero, zero, s->size[1]);
    case NS_GEOM_CYLINDER: return v3(s->size[0], s->size[0], s->size[1]);
    default: return v3(s->size[0], s->size[1], s->size[2]);
    }
}

static vec3 times(vec3 a, vec3 b) {
    return v3(ns_mul(a.e[0], b.e[0]), ns_mul(a.e[1], b.e[1]), ns_mul(a.e[2], b.e[2]));
}

static vec3 output3(const convex_pair* p, uint32_t at) {
    return v3(p->y[at], p->y[at + 1], p->y[at + 2]);
}

// A direction, and a point, from unit coordinates of a shape.
static vec3 turn_unit(const convex_pair* p, int side, vec3 u) {
    return m3_apply(p->shape[side]->R, times(p->scale[side], u));
}
static vec3 place_unit(const convex_pair* p, int side, vec3 u) {
    return v3_add(p->shape[side]->position, turn_unit(p, side, u));
}

// The same for the shape that `of_b` says.
static vec3 turn_either(const convex_pair* p, ns_expr of_b, vec3 u) {
    return v3_select(of_b, turn_unit(p, 1, u), turn_unit(p, 0, u));
}

static vec3 unit_vector(vec3 v) {
    ns_normalize(3, v.e, v.e);
    return v;
}

// ---- curved parts --------------------------------------------------------------------------

// 1 over the length of (x, y, z), 0 for none.
static ns_expr inverse_length(vec3 v) {
    ns_expr square = v3_dot(v, v), zero = ns_const(0.0), one = ns_const(1.0);
    ns_expr any = ns_gt(square, zero);
    return ns_select(any, ns_div(one, ns_sqrt(ns_select(any, square, one))), zero);
}

static bool is_curved(const nsi_shape* s) {
    return s->type == NS_GEOM_CYLINDER || s->type == NS_GEOM_ELLIPSOID;
}

// n in the frame of a shape, which the cylinder sees without its part along the axis, times its scale.
static vec3 curved_direction(const convex_pair* p, int side, vec3 n) {
    vec3 l = m3_apply_t(p->shape[side]->R, n);
    if (p->shape[side]->type == NS_GEOM_ELLIPSOID) return times(p->scale[side], l);
    return v3(l.e[0], l.e[1], ns_const(0.0));
}

// From the anchor to the surface, towards the other shape.
static vec3 bulge(const convex_pair* p, int side, vec3 n) {
    if (!is_curved(p->shape[side])) return v3_zero();
    vec3 l = curved_direction(p, side, n);
    ns_expr f = ns_mul(inverse_length(l), p->y[NSI_CONVEX_ROUND + side]);
    return turn_unit(p, side, v3_scale(side ? f : ns_neg(f), l));
}

// H between the tangents: of the support function |D n|, (x . y - (l . x)(l . y)) / |l| with l, x, y
// the vectors times D; of a cylinder D is its radius and leaves out the axis.
static void add_curvature(const convex_pair* p, int side, vec3 n, const vec3 t[2], ns_expr h[3]) {
    if (!is_curved(p->shape[side])) return;
    bool ellipsoid = p->shape[side]->type == NS_GEOM_ELLIPSOID;
    vec3 l = curved_direction(p, side, n), x[2];
    ns_expr inverse = inverse_length(l), along[2];
    for (int k = 0; k < 2; k++) {
        x[k] = curved_direction(p, side, t[k]);
        along[k] = ns_mul(inverse, v3_dot(l, x[k]));
    }
    ns_expr f = ns_mul(p->y[NSI_CONVEX_ROUND + side], inverse);
    if (!ellipsoid) f = ns_mul(f, p->shape[side]->size[0]);
    for (int k = 0; k < 3; k++) {
        int i = k / 2, j = (k + 1) / 2; // 00, 01, 11
        ns_expr across = ns_sub(v3_dot(x[i], x[j]), ns_mul(along[i], along[j]));
        h[k] = ns_add(h[k], ns_mul(f, across));
    }
}

// ---- normal --------------------------------------------------------------------------------

// Divide by what may vanish: 0 then.
static ns_expr divide_above(ns_expr a, ns_expr b, ns_expr limit) {
    ns_expr sound = ns_gt(b, limit);
    return ns_select(sound, ns_div(a, ns_select(sound, b, ns_const(1.0))), ns_const(0.0));
}

// A step of Newton's method; `one`, `none`: the number of directions the normal is square to.
static vec3 improve_normal(const convex_pair* p, vec3 n, const vec3 t[2], ns_expr one,
                           ns_expr none) {
    vec3 d = v3_sub(v3_add(place_unit(p, 0, output3(p, NSI_CONVEX_ANCHOR)), bulge(p, 0, n)),
                    v3_add(place_unit(p, 1, output3(p, NSI_CONVEX_ANCHOR + 3)), bulge(p, 1, n)));
    ns_expr gap = v3_dot(n, d), h[3] = {gap, ns_const(0.0), gap};
    for (int side = 0; side < 2; side++) add_curvature(p, side, n, t, h);

    // The full system, or the first tangent alone.
    ns_expr f1 = v3_dot(t[0], d), f2 = v3_dot(t[1], d), zero = ns_const(0.0);
    ns_expr determinant = ns_sub(ns_mul(h[0], h[2]), ns_mul(h[1], h[1]));
    ns_expr trace = ns_add(ns_mul(h[0], h[0]), ns_mul(h[2], h[2]));
    ns_expr limit = ns_mul(ns_const(SINGULAR), trace);
    ns_expr a1 = divide_above(ns_sub(ns_mul(f1, h[2]), ns_mul(f2, h[1])), determinant, limit);
    ns_expr a2 = divide_above(ns_sub(ns_mul(f2, h[0]), ns_mul(f1, h[1])), determinant, limit);
    ns_expr alone = divide_above(f1, h[0], ns_const(SINGULAR));
    a1 = ns_select(none, a1, ns_select(one, alone, zero));
    a2 = ns_select(none, a2, zero);
    return unit_vector(v3_add(n, v3_add(v3_scale(a1, t[0]), v3_scale(a2, t[1]))));
}

static vec3 convex_normal(const convex_pair* p) {
    ns_expr mode = p->y[NSI_CONVEX_MODE];
    ns_expr two = ns_gt(mode, ns_const(1.5)), none = ns_lt(mode, ns_const(0.5));
    ns_expr one = ns_not(ns_or(two, none));
    vec3 found = output3(p, NSI_CONVEX_NORMAL), e[2];
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t at = NSI_CONVEX_DIRECTION + 4 * k;
        e[k] = turn_either(p, p->y[at], output3(p, at + 1));
        e[k] = v3_scale(inverse_length(e[k]), e[k]);
    }

    // Square to the directions.
    vec3 across = v3_sub(found, v3_scale(v3_dot(e[0], found), e[0]));
    vec3 n = unit_vector(v3_select(two, v3_cross(e[0], e[1]), across));
    for (int k = 0; k < NEWTON_STEPS; k++) {
        vec3 t[2] = {v3_select(one, v3_cross(e[0], n), output3(p, NSI_CONVEX_TANGENT))};
        if (k > 0) { // the block's tangent is square to the block's normal
            vec3 skew = v3_scale(v3_dot(n, t[0]), n);
            t[0] = v3_select(one, t[0], unit_vector(v3_sub(t[0], skew)));
        }
        t[1] = v3_cross(n, t[0]);
        n = improve_normal(p, n, t, one, none);
    }
    return n;
}

// ---- points --------------------------------------------------------------------------------

// `incident`: the normal of the incident face; NULL for pairs with one slot, which have none.
static nsi_contact_point convex_point(const convex_pair* p, uint32_t slot, vec3 n,
                                      const vec3 curved[2], const vec3* incident) {
    uint32_t at = NSI_CONVEX_FIRST_SLOT + slot * NSI_CONVEX_SLOT_SIZE;
    ns_expr of_b = p->y[at + NSI_CONVEX_OWNER], of_a = ns_not(of_b), zero = ns_const(0.0);

    // The line, and a point and a direction of the other shape.
    vec3 position[2], origin, X, q, u, e;
    for (int k = 0; k < 2; k++) position[k] = v3_add(p->shape[k]->position, curved[k]);
    origin = v3_select(of_b, position[1], position[0]);
    X = v3_add(origin, turn_either(p, of_b, output3(p, at + NSI_CONVEX_LINE)));
    u = turn_either(p, of_b, output3(p, at + NSI_CONVEX_ALONG));
    origin = v3_select(of_b, position[0], position[1]);
    q = v3_add(origin, turn_either(p, of_a, output3(p, at + NSI_CONVEX_PLANE)));
    e = turn_either(p, of_a, output3(p, at + NSI_CONVEX_SIDE));

    // Where they meet.
    vec3 m = v3_cross(n, e);
    if (incident) m = v3_select(p->y[at + NSI_CONVEX_END], e, m);
    ns_expr cosine = v3_dot(m, u);
    ns_expr meets = ns_gt(ns_mul(cosine, cosine), ns_const(NO_LENGTH * NO_LENGTH));
    ns_expr t = ns_div(v3_dot(m, v3_sub(q, X)), ns_select(meets, cosine, ns_const(1.0)));
    X = v3_add(X, v3_scale(ns_select(meets, t, zero), u));

    // The gap of the core shapes, from b to a, then half way between the surfaces.
    ns_expr height = v3_dot(n, v3_sub(X, q));
    if (incident) {
        vec3 plane = v3_select(p->y[at + NSI_CONVEX_CORNER], *incident, n);
        height = ns_div(v3_dot(plane, v3_sub(X, q)), v3_dot(plane, n));
    }
    ns_expr more = half(ns_sub(p->radius[1], p->radius[0]));
    vec3 middle = v3_add(X, v3_scale(ns_sub(more, half(height)), n));
    ns_expr gap = ns_select(of_b, ns_neg(height), height);
    gap = ns_sub(ns_sub(gap, p->radius[0]), p->radius[1]);
    return (nsi_contact_point){middle, n, gap, p->y[at + NSI_CONVEX_EXISTS]};
}

// The normal of the incident face; n when there is none.
static vec3 incident_normal(const convex_pair* p, vec3 n) {
    vec3 f[2];
    for (uint32_t k = 0; k < 2; k++) {
        vec3 direction = output3(p, NSI_CONVEX_INCIDENT + 1 + 3 * k);
        f[k] = turn_either(p, p->y[NSI_CONVEX_INCIDENT], direction);
        f[k] = v3_scale(inverse_length(f[k]), f[k]);
    }
    vec3 normal = v3_cross(f[0], f[1]);
    ns_expr flat = ns_gt(ns_abs(v3_dot(normal, n)), ns_const(NO_LENGTH));
    return v3_select(flat, normal, n);
}

// ---- both ----------------------------------------------------------------------------------

static void append_inputs(const convex_pair* p, int side, nsi_id* inputs, uint32_t* count) {
    const nsi_shape* s = nsi_chosen_shape(p->shape[side]);
    for (int i = 0; i < 9; i++) inputs[(*count)++] = s->R.e[i / 3][i % 3].id;
    for (int i = 0; i < 3; i++) inputs[(*count)++] = s->position.e[i].id;
    for (int i = 0; i < 3; i++) inputs[(*count)++] = p->scale[side].e[i].id;
    uint32_t nvertex = s->type == NS_GEOM_MESH ? s->nvertex : 0;
    for (uint32_t k = 0; k < 3 * nvertex; k++) inputs[(*count)++] = ns_const(s->vertices[k]).id;
}

void nsi_convex_convex(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    convex_pair p = {.shape = {a, b}};
    for (int side = 0; side < 2; side++) {
        const nsi_shape* s = p.shape[side];
        bool ball = s->type == NS_GEOM_SPHERE || s->type == NS_GEOM_CAPSULE;
        p.scale[side] = convex_scale(s);
        p.radius[side] = ball ? s->size[0] : ns_const(0.0);
    }

    // The features.
    nsi_id inputs[2 * (NSI_CONVEX_POSE + 3 * NSI_CONVEX_MAX_VERTICES)];
    uint32_t count = 0;
    for (int side = 0; side < 2; side++) append_inputs(&p, side, inputs, &count);
    ns_graph* graph = nsi_trace_graph();
    nsi_block block = {.kind = &nsi_convex_features,
                       .params = {convex_code(a), convex_code(b)},
                       .ninput = count,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(graph, &block);
    for (uint32_t k = 0; k < NSI_CONVEX_OUTPUTS; k++) p.y[k].id = nsi_graph_out(graph, node, k);

    // The normal, and what it adds to anchors.
    vec3 n = convex_normal(&p), curved[2] = {bulge(&p, 0, n), bulge(&p, 1, n)};
    uint32_t slots = nsi_contact_slots(a->type, a->nvertex, b->type, b->nvertex);
    if (slots == 1) {
        out[0] = convex_point(&p, 0, n, curved, NULL);
        return;
    }

    // Points of faces.
    vec3 incident = incident_normal(&p, n);
    for (uint32_t k = 0; k < slots; k++) out[k] = convex_point(&p, k, n, curved, &incident);
}
