// Height fields. The surface is made of triangles, and solid below without end; beside the field there
// is nothing.
//
// Blocks (hfield_features.h) find the features that are nearest and have no derivatives; here the points
// are expressed by these features, which moves them along with poses and sizes, as in convex_pairs.c.
// A shape touches in two ways:
//
//   balls   points of the shape with a radius, against the nearest face, edge or vertex of the
//           surface. A sphere touches in up to three places, as in a valley
//   peaks   vertices of the surface that stick into a capsule, cylinder or box
//
// Edges of a shape that cross edges of the surface between these are not seen.

#include "contact/hfield_features.h"
#include "contact/pairs.h"
#include "expr/trace.h"

enum { MAX_BALLS = NSI_MAX_HULL_VERTICES };

static vec3 scaled_unit(const nsi_shape* field, vec3 u) {
    return v3(ns_mul(field->size[0], u.e[0]), ns_mul(field->size[1], u.e[1]),
              ns_mul(field->size[2], u.e[2]));
}

// Inputs that all blocks have: the sizes first, the elevations last.
static nsi_id field_block(const nsi_block_kind* kind, const nsi_shape* field, uint32_t param,
                          const ns_expr* own, uint32_t nown) {
    ns_graph* graph = nsi_trace_graph();
    uint32_t grid = field->nrow * field->ncol, count = 0;
    nsi_id* inputs = nsi_alloc(&graph->allocator, (3 + nown + grid) * sizeof *inputs);
    if (!inputs) {
        nsi_graph_fail(graph, NS_ERR_NOMEM, "out of memory");
        return NSI_NONE;
    }
    for (int i = 0; i < 3; i++) inputs[count++] = field->size[i].id;
    for (uint32_t k = 0; k < nown; k++) inputs[count++] = own[k].id;
    for (uint32_t k = 0; k < grid; k++) inputs[count++] = ns_const(field->elevation[k]).id;
    nsi_block block = {.kind = kind,
                       .params = {field->nrow, field->ncol, param},
                       .ninput = count,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(graph, &block);
    nsi_free(&graph->allocator, inputs);
    return node;
}

static ns_expr block_out(nsi_id node, uint32_t k) {
    return (ns_expr){nsi_graph_out(nsi_trace_graph(), node, k)};
}

static vec3 block_out3(nsi_id node, uint32_t k) {
    return v3(block_out(node, k), block_out(node, k + 1), block_out(node, k + 2));
}

// ---- balls ---------------------------------------------------------------------------------

typedef struct ball {
    vec3 centre; // in the field's frame
    ns_expr radius;
} ball;

// 1 over x, 0 for 0.
static ns_expr inverse_or_zero(ns_expr x) {
    ns_expr any = ns_gt(x, ns_const(0.0)), one = ns_const(1.0);
    return ns_select(any, ns_div(one, ns_select(any, x, one)), ns_const(0.0));
}

// The normal of the triangle of a slot.
static vec3 triangle_normal(const nsi_shape* field, nsi_id node, uint32_t at) {
    vec3 sides[2];
    for (uint32_t k = 0; k < 2; k++) {
        sides[k] = scaled_unit(field, block_out3(node, at + NSI_HFIELD_SIDES + 3 * k));
    }
    vec3 normal = v3_cross(sides[0], sides[1]);
    ns_normalize(3, normal.e, normal.e);
    return normal;
}

static nsi_contact_point ball_point(const nsi_shape* field, const ball* b, nsi_id node,
                                    uint32_t at) {
    ns_expr face = block_out(node, at + NSI_HFIELD_FACE);
    vec3 vertex = scaled_unit(field, block_out3(node, at + NSI_HFIELD_VERTEX));
    vec3 edge = scaled_unit(field, block_out3(node, at + NSI_HFIELD_EDGE));
    vec3 d = v3_sub(b->centre, vertex), upwards = triangle_normal(field, node, at);

    // From an edge or a vertex: across the edge.
    ns_expr along = ns_mul(v3_dot(edge, d), inverse_or_zero(v3_dot(edge, edge)));
    d = v3_sub(d, v3_scale(along, edge));
    ns_expr distance = ns_norm(3, d.e), side = block_out(node, at + NSI_HFIELD_SIDE);
    vec3 across = v3_scale(ns_mul(side, inverse_or_zero(distance)), d);

    vec3 normal = v3_select(face, upwards, across);
    ns_expr apart = ns_select(face, v3_dot(upwards, d), ns_mul(side, distance));
    ns_expr gap = ns_sub(apart, b->radius), back = half(ns_add(apart, b->radius));
    return (nsi_contact_point){.position =
                                   to_world(field, v3_sub(b->centre, v3_scale(back, normal))),
                               .normal = m3_apply(field->R, normal),
                               .gap = gap,
                               .exists = block_out(node, at + NSI_HFIELD_EXISTS)};
}

// The nearest feature of each ball, or several of a single one.
static nsi_id balls_block(const nsi_shape* field, const ball* balls, uint32_t count, bool several) {
    ns_expr own[4 * MAX_BALLS];
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t i = 0; i < 3; i++) own[4 * k + i] = balls[k].centre.e[i];
        own[4 * k + 3] = balls[k].radius;
    }
    return field_block(&nsi_hfield_nearest, field, several ? 0 : count, own, 4 * count);
}

static void balls_hfield(const nsi_shape* field, const ball* balls, uint32_t count,
                         nsi_contact_point* out) {
    nsi_id node = balls_block(field, balls, count, false);
    for (uint32_t k = 0; k < count && node != NSI_NONE; k++) {
        out[k] = ball_point(field, &balls[k], node, k * NSI_HFIELD_SLOT_SIZE);
    }
}

void nsi_sphere_hfield(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    ball whole = {to_local(b, a->position), a->size[0]};
    nsi_id node = balls_block(b, &whole, 1, true);
    for (uint32_t k = 0; k < NSI_HFIELD_NEAREST && node != NSI_NONE; k++) {
        out[k] = ball_point(b, &whole, node, k * NSI_HFIELD_SLOT_SIZE);
    }
}

void nsi_mesh_hfield(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    ball corners[MAX_BALLS];
    for (uint32_t k = 0; k < a->nvertex; k++) {
        const double* v = a->vertices + (size_t)3 * k;
        vec3 p;
        for (int i = 0; i < 3; i++) p.e[i] = ns_mul(ns_const(v[i]), a->size[i]);
        corners[k] = (ball){to_local(b, to_world(a, p)), ns_const(0.0)};
    }
    balls_hfield(b, corners, a->nvertex, out);
}

// From the centre of an ellipsoid, with the orientation R, to its point x that is furthest against n:
// x is along -D^2 n with D = diag(half axes), at n . x = -|D n|, which is `reach`.
static vec3 furthest_against(const nsi_shape* ellipsoid, mat3 R, vec3 n, ns_expr* reach) {
    vec3 l = m3_apply_t(R, n);
    for (int i = 0; i < 3; i++) l.e[i] = ns_mul(ellipsoid->size[i], l.e[i]);
    *reach = ns_norm(3, l.e);
    ns_normalize(3, l.e, l.e);
    for (int i = 0; i < 3; i++) l.e[i] = ns_neg(ns_mul(ellipsoid->size[i], l.e[i]));
    return m3_apply(R, l);
}

// Faces near a ball around the ellipsoid give its points that are furthest against their normals, and
// the faces nearest to those their planes. Edges and vertices of the surface are not seen.
void nsi_ellipsoid_hfield(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    mat3 R = m3_mul(m3_transpose(b->R), a->R);
    vec3 centre = to_local(b, a->position);
    ball points[NSI_HFIELD_NEAREST];
    ns_expr reach;

    // Points of the ellipsoid.
    ball whole = {centre, ns_max(a->size[0], ns_max(a->size[1], a->size[2]))};
    nsi_id around = balls_block(b, &whole, 1, true);
    if (around == NSI_NONE) return;
    for (uint32_t k = 0; k < NSI_HFIELD_NEAREST; k++) {
        vec3 n = triangle_normal(b, around, k * NSI_HFIELD_SLOT_SIZE);
        points[k] = (ball){v3_add(centre, furthest_against(a, R, n, &reach)), ns_const(0.0)};
    }

    // The ellipsoid against the planes of the faces there.
    nsi_id node = balls_block(b, points, NSI_HFIELD_NEAREST, false);
    for (uint32_t k = 0; k < NSI_HFIELD_NEAREST && node != NSI_NONE; k++) {
        uint32_t at = k * NSI_HFIELD_SLOT_SIZE;
        vec3 n = triangle_normal(b, node, at), x = furthest_against(a, R, n, &reach);
        vec3 vertex = scaled_unit(b, block_out3(node, at + NSI_HFIELD_VERTEX));
        ns_expr gap = ns_sub(v3_dot(n, v3_sub(centre, vertex)), reach);
        vec3 middle = v3_sub(v3_add(centre, x), v3_scale(half(gap), n));
        out[k] = (nsi_contact_point){.position = to_world(b, middle),
                                     .normal = m3_apply(b->R, n),
                                     .gap = gap,
                                     .exists = ns_and(block_out(around, at + NSI_HFIELD_EXISTS),
                                                      block_out(node, at + NSI_HFIELD_EXISTS))};
    }
}

// ---- peaks ---------------------------------------------------------------------------------

// Signed distance of a point from a cylinder and the normal there, in its frame.
static ns_expr point_cylinder(const nsi_shape* s, vec3 p, vec3* normal) {
    ns_expr zero = ns_const(0.0), one = ns_const(1.0);
    ns_expr across = ns_norm(2, p.e), inverse = inverse_or_zero(across),
            on_axis = ns_eq(across, zero);
    vec3 radial =
        v3(ns_select(on_axis, one, ns_mul(inverse, p.e[0])), ns_mul(inverse, p.e[1]), zero);
    vec3 axial = v3(zero, zero, side(p.e[2]));
    ns_expr d[2] = {ns_sub(across, s->size[0]), ns_sub(ns_abs(p.e[2]), s->size[1])};

    // From the rim; inside or beside one surface only, from the nearer one.
    ns_expr rim = ns_norm(2, d), beyond = ns_and(ns_gt(d[0], zero), ns_gt(d[1], zero));
    ns_expr unit = inverse_or_zero(rim), by_side = ns_gt(d[0], d[1]);
    vec3 from_rim =
        v3_add(v3_scale(ns_mul(unit, d[0]), radial), v3_scale(ns_mul(unit, d[1]), axial));
    *normal = v3_select(beyond, from_rim, v3_select(by_side, radial, axial));
    return ns_select(beyond, rim, ns_select(by_side, d[0], d[1]));
}

// A vertex of the surface and a shape, whose normal points at the vertex.
static nsi_contact_point peak_point(const nsi_shape* a, vec3 peak) {
    nsi_contact_point point;
    nsi_shape tip = {.type = NS_GEOM_SPHERE, .R = a->R, .position = peak};
    for (int i = 0; i < 3; i++) tip.size[i] = ns_const(0.0);
    if (a->type != NS_GEOM_CYLINDER) {
        nsi_contact_points(&tip, a, &point);
        return point;
    }
    vec3 normal;
    point.gap = point_cylinder(a, to_local(a, peak), &normal);
    point.normal = m3_apply(a->R, normal);
    point.position = v3_sub(peak, v3_scale(half(point.gap), point.normal));
    return point;
}

static void peaks_hfield(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    nsi_hfield_solid solid = a->type == NS_GEOM_CAPSULE    ? NSI_HFIELD_CAPSULE
                             : a->type == NS_GEOM_CYLINDER ? NSI_HFIELD_CYLINDER
                                                           : NSI_HFIELD_BOX;
    mat3 R = m3_mul(m3_transpose(b->R), a->R);
    vec3 p = to_local(b, a->position);
    ns_expr own[15];
    for (int i = 0; i < 9; i++) own[i] = R.e[i / 3][i % 3];
    for (int i = 0; i < 3; i++) own[9 + i] = p.e[i], own[12 + i] = a->size[i];
    nsi_id node = field_block(&nsi_hfield_peaks, b, solid, own, 15);
    for (uint32_t k = 0; k < NSI_HFIELD_PEAKS && node != NSI_NONE; k++) {
        vec3 peak = to_world(b, scaled_unit(b, block_out3(node, 4 * k + 1)));
        out[k] = peak_point(a, peak);
        out[k].normal = v3_neg(out[k].normal);
        out[k].exists = block_out(node, 4 * k);
    }
}

void nsi_capsule_hfield(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    vec3 end = v3_scale(a->size[1], m3_column(a->R, 2));
    ball ends[2] = {{to_local(b, v3_sub(a->position, end)), a->size[0]},
                    {to_local(b, v3_add(a->position, end)), a->size[0]}};
    balls_hfield(b, ends, 2, out);
    peaks_hfield(a, b, out + 2);
}

void nsi_box_hfield(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    ball corners[8];
    for (int k = 0; k < 8; k++) {
        corners[k] = (ball){to_local(b, box_corner(a, k)), ns_const(0.0)};
    }
    balls_hfield(b, corners, 8, out);
    peaks_hfield(a, b, out + 8);
}

// The rims of the cylinder where it is lowest along the field's z.
void nsi_cylinder_hfield(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    vec3 rim[NSI_RIM_POINTS];
    ball corners[NSI_RIM_POINTS];
    nsi_rim_points(a, m3_column(b->R, 2), a->size[0], a->size[0], a->size[1], rim);
    for (int k = 0; k < NSI_RIM_POINTS; k++) {
        corners[k] = (ball){to_local(b, rim[k]), ns_const(0.0)};
    }
    balls_hfield(b, corners, NSI_RIM_POINTS, out);
    peaks_hfield(a, b, out + NSI_RIM_POINTS);
}
