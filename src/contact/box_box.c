// Two boxes: the axis that separates them most, then the points along it.
//
//   separations   of 6 face normals and 9 products of edges (Gottschalk, Lin & Manocha 1996)
//   choice        the largest. The faces of a are preferred to those of b, and faces to edges, by a
//                 small bias, so that boxes that rest on each other do not change their minds
//   face          slots 0..7   the edges of the incident face (of the other box), clipped to the
//                              sides of the reference face: where each comes in, and where it goes
//                              out when it was clipped (else the next edge comes in there)
//                 slots 8..11  corners of the reference face below the incident face
//   edges         slot 12      the nearest points of the two edges
//                 slots 0..3   ends of the edges that are above a face of the other box
//   others        no force acts on; their gap is the separation along the axis, at least 0
//
// The incident face is clipped to a reference face that is larger by BORDER, and corners of the
// reference face count when they are that far inside the incident face. Of two corners within
// BORDER of each other one remains, so that equal boxes, stacked, have four points.
//
// Indices turn with the choice: component 0 is the chosen axis, 1 and 2 follow it in cyclic order.
//
// All choices are those of the shapes where they were chosen (nsi_shape.chosen).

#include "contact/pairs.h"

static const double BORDER = 1e-6;   // m
static const double SHORTEST = 1e-9; // m, along a clipping direction; shorter counts as this
static const double PARALLEL = 1e-6; // squared sine of edges that have no product
static const double NO_AXIS = -1e6;  // m, separation along a product of parallel edges
static const double EDGE_RELATIVE = 0.05, EDGE_ABSOLUTE = 1e-3; // bias; the latter times the
static const double FACE_RELATIVE = 0.01, FACE_ABSOLUTE = 1e-4; // shortest half length of all

// ---- choices -------------------------------------------------------------------------------

typedef struct choice { // of 0, 1, 2: masks
    ns_expr is1, is2;   // is2 outweighs is1
} choice;

static choice choose_largest(const ns_expr x[3], ns_expr* largest) {
    ns_expr is1 = ns_gt(x[1], x[0]), best = ns_select(is1, x[1], x[0]);
    ns_expr is2 = ns_gt(x[2], best);
    *largest = ns_select(is2, x[2], best);
    return (choice){is1, is2};
}

static ns_expr pick(choice c, ns_expr x0, ns_expr x1, ns_expr x2) {
    return ns_select(c.is2, x2, ns_select(c.is1, x1, x0));
}

// Turn components so that the chosen one comes first, and back.
static vec3 turn_components(choice c, vec3 x) {
    const ns_expr* e = x.e;
    return v3(pick(c, e[0], e[1], e[2]), pick(c, e[1], e[2], e[0]), pick(c, e[2], e[0], e[1]));
}
static vec3 turn_back(choice c, vec3 x) {
    const ns_expr* e = x.e;
    return v3(pick(c, e[0], e[2], e[1]), pick(c, e[1], e[0], e[2]), pick(c, e[2], e[1], e[0]));
}
static mat3 turn_columns(choice c, mat3 m) {
    mat3 r;
    for (int i = 0; i < 3; i++) {
        vec3 row = turn_components(c, m3_row(m, i));
        for (int j = 0; j < 3; j++) r.e[i][j] = row.e[j];
    }
    return r;
}
static mat3 turn_rows(choice c, mat3 m) {
    return m3_transpose(turn_columns(c, m3_transpose(m)));
}

// Does the challenger beat x by the bias?
static ns_expr beats(ns_expr challenger, ns_expr x, double relative, double absolute,
                     ns_expr shortest) {
    ns_expr bias =
        ns_add(ns_mul(ns_const(relative), ns_abs(x)), ns_mul(ns_const(absolute), shortest));
    return ns_gt(challenger, ns_add(x, bias));
}

// ---- separations ---------------------------------------------------------------------------

typedef struct boxes {
    const nsi_shape *a, *b;
    mat3 C;                    // b's axes in a's frame, as columns
    vec3 to_b_in_a, to_b_in_b; // from a's centre to b's, in both frames
    vec3 size_a, size_b;       // half lengths
} boxes;

static ns_expr sum_of_products(const ns_expr x[3], const ns_expr y[3]) {
    return v3_dot(v3(x[0], x[1], x[2]), v3(y[0], y[1], y[2]));
}

static void face_separations(const boxes* s, ns_expr along_a[3], ns_expr along_b[3]) {
    for (int i = 0; i < 3; i++) {
        ns_expr row[3], column[3];
        for (int j = 0; j < 3; j++) row[j] = ns_abs(s->C.e[i][j]), column[j] = ns_abs(s->C.e[j][i]);
        ns_expr reach_b = sum_of_products(row, s->size_b.e);
        ns_expr reach_a = sum_of_products(column, s->size_a.e);
        along_a[i] = ns_sub(ns_sub(ns_abs(s->to_b_in_a.e[i]), s->size_a.e[i]), reach_b);
        along_b[i] = ns_sub(ns_sub(ns_abs(s->to_b_in_b.e[i]), s->size_b.e[i]), reach_a);
    }
}

// Along a_i x b_j, which in a's frame is (0, -C[i+2][j], C[i+1][j]) from component i on.
static ns_expr edge_separation(const boxes* s, int i, int j) {
    int i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
    ns_expr c1 = s->C.e[i1][j], c2 = s->C.e[i2][j];
    const ns_expr *d = s->to_b_in_a.e, *a = s->size_a.e, *b = s->size_b.e;
    ns_expr distance = ns_abs(ns_sub(ns_mul(d[i2], c1), ns_mul(d[i1], c2)));
    ns_expr reach_a = ns_add(ns_mul(a[i1], ns_abs(c2)), ns_mul(a[i2], ns_abs(c1)));
    ns_expr reach_b =
        ns_add(ns_mul(b[j1], ns_abs(s->C.e[i][j2])), ns_mul(b[j2], ns_abs(s->C.e[i][j1])));
    ns_expr sine2 = ns_add(ns_mul(c1, c1), ns_mul(c2, c2));
    ns_expr parallel = ns_lt(sine2, ns_const(PARALLEL));
    ns_expr sine = ns_sqrt(ns_select(parallel, ns_const(1.0), sine2));
    ns_expr separation = ns_div(ns_sub(ns_sub(distance, reach_a), reach_b), sine);
    return ns_select(parallel, ns_const(NO_AXIS), separation);
}

// ---- a face --------------------------------------------------------------------------------

// The reference face's frame: the origin is the reference box's centre, component 0 goes outwards
// through the face.
typedef struct face_choice {
    ns_expr of_b; // the reference face: of b?
    choice axis, incident;
    ns_expr outwards, back; // signs: of the reference face, of the incident one along its axis
} face_choice;

typedef struct face {
    vec3 origin, axis[3]; // in the world
    vec3 size;            // half lengths of the reference box
    vec3 centre, p, q;    // of the incident face: centre, unit edges,
    ns_expr np, nq;       // and their half lengths
    ns_expr inverse;      // 1 / (p1 q2 - p2 q1), the area of its image on the reference face
    vec3 normal;          // from b to a, in the world
} face;

// The other box's axes in the reference box's frame, its centre there, and the reference box's axes in the
// world; with the chosen axis first the reference face is the same for all six cases.
typedef struct face_frame {
    mat3 M, R;
    vec3 centre;
} face_frame;

static face_frame turn_to_face(const boxes* s, ns_expr of_b, choice axis) {
    mat3 M, R;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            M.e[i][j] = ns_select(of_b, s->C.e[j][i], s->C.e[i][j]);
            R.e[i][j] = ns_select(of_b, s->b->R.e[i][j], s->a->R.e[i][j]);
        }
    }
    vec3 centre = v3_select(of_b, v3_neg(s->to_b_in_b), s->to_b_in_a);
    return (face_frame){turn_rows(axis, M), turn_columns(axis, R), turn_components(axis, centre)};
}

// Component 0 points to the other box, whose face that looks back most is the incident one.
static face_choice choose_face(const boxes* s, ns_expr of_b, choice axis) {
    face_frame frame = turn_to_face(s, of_b, axis);
    ns_expr against[3], ignored;
    for (int j = 0; j < 3; j++) against[j] = ns_abs(frame.M.e[0][j]);
    face_choice c = {.of_b = of_b, .axis = axis, .outwards = side(frame.centre.e[0])};
    c.incident = choose_largest(against, &ignored);
    ns_expr along = turn_columns(c.incident, frame.M).e[0][0];
    c.back = side(ns_mul(c.outwards, along));
    return c;
}

static face make_face(const boxes* s, const face_choice* c) {
    face_frame frame = turn_to_face(s, c->of_b, c->axis);
    vec3 centre = frame.centre, size = v3_select(c->of_b, s->size_b, s->size_a);
    face f = {.origin = v3_select(c->of_b, s->b->position, s->a->position),
              .size = turn_components(c->axis, size)};
    mat3 M = turn_columns(c->incident, frame.M), R = frame.R;
    size = turn_components(c->incident, v3_select(c->of_b, s->size_a, s->size_b));
    f.inverse = ns_div(ns_const(1.0), M.e[0][0]); // a rotation's minor; at least 1/sqrt(3)

    // The incident face, and the axes that carry its points back to the world.
    centre.e[0] = ns_mul(c->outwards, centre.e[0]);
    for (int j = 0; j < 3; j++) M.e[0][j] = ns_mul(c->outwards, M.e[0][j]);
    ns_expr back = ns_mul(c->back, size.e[0]);
    f.centre = v3_sub(centre, v3_scale(back, m3_column(M, 0)));
    f.p = m3_column(M, 1);
    f.q = m3_column(M, 2);
    f.np = size.e[1];
    f.nq = size.e[2];
    for (int k = 0; k < 3; k++) f.axis[k] = m3_column(R, k);
    f.axis[0] = v3_scale(c->outwards, f.axis[0]);
    f.normal = v3_select(c->of_b, f.axis[0], v3_neg(f.axis[0]));
    return f;
}

// A point of the incident face, with what is below it on the reference face.
static nsi_contact_point face_point(const face* f, vec3 x, ns_expr exists) {
    ns_expr middle = half(ns_add(x.e[0], f->size.e[0]));
    vec3 position = v3_add(f->origin, v3_scale(x.e[1], f->axis[1]));
    position = v3_add(position, v3_scale(x.e[2], f->axis[2]));
    return (nsi_contact_point){.position = v3_add(position, v3_scale(middle, f->axis[0])),
                               .normal = f->normal,
                               .gap = ns_sub(x.e[0], f->size.e[0]),
                               .exists = exists};
}

// Edges of the incident face, clipped (Liang & Barsky 1984): from `start` by t `edge`, 0 <= t <= 1,
// component c is within its limit for t in -start/edge -+ |limit/edge|.
static void clip_edges(const face* f, ns_expr wanted, nsi_contact_point out[8]) {
    vec3 P = v3_scale(f->np, f->p), Q = v3_scale(f->nq, f->q);
    vec3 start[4] = {v3_add(v3_add(f->centre, P), Q), v3_add(v3_sub(f->centre, P), Q),
                     v3_sub(v3_sub(f->centre, P), Q), v3_sub(v3_add(f->centre, P), Q)};
    vec3 edges[2] = {v3_scale(ns_const(-2.0), P), v3_scale(ns_const(-2.0), Q)};

    // Inverse of an edge's components; one that is short is not clipped by its limit.
    ns_expr inverse[2][3], width[2][3]; // components 1 and 2 of each edge
    for (int k = 0; k < 2; k++) {
        for (int c = 1; c < 3; c++) {
            ns_expr x = edges[k].e[c], is_long = ns_gt(ns_abs(x), ns_const(SHORTEST));
            x = ns_select(is_long, x, ns_const(SHORTEST));
            inverse[k][c] = ns_div(ns_const(1.0), x);
            width[k][c] = ns_abs(ns_mul(ns_add(f->size.e[c], ns_const(BORDER)), inverse[k][c]));
        }
    }

    // Where each edge enters and leaves.
    for (int i = 0; i < 4; i++) {
        int k = i % 2;
        ns_expr in = ns_const(0.0), leave = ns_const(1.0);
        for (int c = 1; c < 3; c++) {
            ns_expr middle = ns_mul(start[i].e[c], inverse[k][c]);
            if (i < 2) middle = ns_neg(middle); // the last two edges go the other way
            in = ns_max(ns_sub(middle, width[k][c]), in);
            leave = ns_min(ns_add(middle, width[k][c]), leave);
        }
        vec3 edge = i < 2 ? edges[k] : v3_neg(edges[k]);
        ns_expr exists = ns_and(wanted, ns_lt(in, leave));
        ns_expr clipped = ns_and(exists, ns_lt(leave, ns_const(1.0)));
        out[2 * i] = face_point(f, v3_add(start[i], v3_scale(in, edge)), exists);
        out[2 * i + 1] = face_point(f, v3_add(start[i], v3_scale(leave, edge)), clipped);
    }
}

// Corners of the reference face: at centre + alpha p + beta q of the incident face's plane.
static void reference_corners(const face* f, ns_expr wanted, nsi_contact_point out[4]) {
    ns_expr border = ns_const(BORDER);
    ns_expr p1 = ns_mul(f->inverse, f->p.e[1]), p2 = ns_mul(f->inverse, f->p.e[2]);
    ns_expr q1 = ns_mul(f->inverse, f->q.e[1]), q2 = ns_mul(f->inverse, f->q.e[2]);
    for (int k = 0; k < 4; k++) {
        ns_expr x = k & 1 ? f->size.e[1] : ns_neg(f->size.e[1]);
        ns_expr y = k & 2 ? f->size.e[2] : ns_neg(f->size.e[2]);
        ns_expr dx = ns_sub(x, f->centre.e[1]), dy = ns_sub(y, f->centre.e[2]);
        ns_expr alpha = ns_sub(ns_mul(dx, q2), ns_mul(dy, q1));
        ns_expr beta = ns_sub(ns_mul(dy, p1), ns_mul(dx, p2));
        ns_expr inside = ns_and(ns_lt(ns_abs(alpha), ns_sub(f->np, border)),
                                ns_lt(ns_abs(beta), ns_sub(f->nq, border)));
        ns_expr height = ns_add(ns_mul(alpha, f->p.e[0]), ns_mul(beta, f->q.e[0]));
        height = ns_add(f->centre.e[0], height);
        out[k] = face_point(f, v3(height, x, y), ns_and(wanted, inside));
    }
}

// ---- edges ---------------------------------------------------------------------------------

// Two edges that face each other along n = +-(a_i x b_j), which points from a to b. In a's frame, turned
// to start with i, and with the columns of E, b's axes, turned to start with j: n = (0, -E20, E10),
// n . b1 = E02, n . b2 = -E01.
typedef struct edge_choice {
    choice i, j;
    ns_expr towards;    // the sign of n
    ns_expr a[2], b[2]; // those of the edges' places across them
} edge_choice;

static edge_choice choose_edges(const boxes* s, choice i, choice j) {
    mat3 E = turn_columns(j, turn_rows(i, s->C));
    vec3 d = turn_components(i, s->to_b_in_a);
    edge_choice c = {.i = i, .j = j};
    c.towards = side(ns_sub(ns_mul(E.e[1][0], d.e[2]), ns_mul(E.e[2][0], d.e[1])));
    c.a[0] = side(ns_neg(ns_mul(c.towards, E.e[2][0])));
    c.a[1] = side(ns_mul(c.towards, E.e[1][0]));
    c.b[0] = side(ns_mul(c.towards, E.e[0][2]));
    c.b[1] = side(ns_mul(c.towards, E.e[0][1]));
    return c;
}

// The two edges in a's frame, with component i first.
typedef struct edge_pair {
    choice i;
    vec3 middle_a, middle_b; // of the edges
    vec3 along_b;            // unit vector; a's edge is along component 0
    ns_expr half_a, half_b;  // their half lengths
    vec3 normal;             // from a to b; its length is the sine of the edges' angle
} edge_pair;

static edge_pair make_edges(const boxes* s, const edge_choice* c) {
    mat3 E = turn_columns(c->j, turn_rows(c->i, s->C));
    vec3 d = turn_components(c->i, s->to_b_in_a), size_a = turn_components(c->i, s->size_a),
         size_b = turn_components(c->j, s->size_b);
    ns_expr zero = ns_const(0.0), b1 = ns_mul(c->b[0], size_b.e[1]),
            b2 = ns_mul(c->b[1], size_b.e[2]);

    // Their middles: a's corner furthest along n, b's furthest against it.
    vec3 on_b = v3_sub(d, v3_scale(b1, m3_column(E, 1)));
    return (edge_pair){
        .i = c->i,
        .middle_a = v3(zero, ns_mul(c->a[0], size_a.e[1]), ns_mul(c->a[1], size_a.e[2])),
        .middle_b = v3_add(on_b, v3_scale(b2, m3_column(E, 2))),
        .along_b = m3_column(E, 0),
        .half_a = size_a.e[0],
        .half_b = size_b.e[0],
        .normal = v3(zero, ns_neg(ns_mul(c->towards, E.e[2][0])), ns_mul(c->towards, E.e[1][0]))};
}

// Closest points of the two lines, kept on the edges.
static nsi_contact_point edge_point(const boxes* s, const edge_pair* e, ns_expr gap,
                                    ns_expr wanted) {
    vec3 on_a = e->middle_a, v = e->along_b, r = v3_sub(on_a, e->middle_b);
    ns_expr uv = v.e[0], ur = r.e[0], vr = v3_dot(v, r);
    ns_expr sine2 = ns_add(ns_mul(v.e[1], v.e[1]), ns_mul(v.e[2], v.e[2]));
    sine2 = ns_max(sine2, ns_const(PARALLEL));
    ns_expr inverse2 = ns_div(ns_const(1.0), sine2);
    ns_expr along_a = ns_mul(inverse2, ns_sub(ns_mul(uv, vr), ur));
    ns_expr along_b = ns_mul(inverse2, ns_sub(vr, ns_mul(uv, ur)));
    on_a.e[0] = within(along_a, e->half_a);
    vec3 on_b = v3_add(e->middle_b, v3_scale(within(along_b, e->half_b), v));

    vec3 middle = turn_back(e->i, v3_scale(ns_const(0.5), v3_add(on_a, on_b)));
    vec3 normal = turn_back(e->i, v3_scale(ns_neg(ns_sqrt(inverse2)), e->normal));
    return (nsi_contact_point){.position = to_world(s->a, middle),
                               .normal = m3_apply(s->a->R, normal),
                               .gap = gap,
                               .exists = wanted};
}

// The ends of the two edges: first those of a's in b's frame, then those of b's in a's.
static void find_ends(const boxes* s, const edge_pair* e, vec3 out[4]) {
    for (int k = 0; k < 2; k++) {
        ns_expr sign = ns_const(k ? 1.0 : -1.0);
        vec3 end_a = e->middle_a;
        end_a.e[0] = ns_mul(sign, e->half_a);
        vec3 end_b = v3_add(e->middle_b, v3_scale(ns_mul(sign, e->half_b), e->along_b));
        out[k] = m3_apply_t(s->C, v3_sub(turn_back(e->i, end_a), s->to_b_in_a));
        out[2 + k] = turn_back(e->i, end_b);
    }
}

// A corner x of the other box, in this box's frame, above the face that it was nearest to when it was
// at x0. `sign` is that of the normal, which points from b to a.
static nsi_contact_point corner_above(const nsi_shape* box, vec3 size, vec3 x0, vec3 x, double sign,
                                      ns_expr wanted) {
    ns_expr above[3], ignored, zero = ns_const(0.0);
    for (int k = 0; k < 3; k++) above[k] = ns_sub(ns_abs(x0.e[k]), size.e[k]);
    choice nearest = choose_largest(above, &ignored);
    vec3 place = turn_components(nearest, v3(above[0], above[1], above[2]));
    ns_expr beside = ns_max(place.e[1], place.e[2]);
    ns_expr exists = ns_and(ns_ge(place.e[0], zero), ns_lt(beside, zero));

    ns_expr outwards = side(turn_components(nearest, x0).e[0]);
    ns_expr height = ns_mul(outwards, turn_components(nearest, x).e[0]);
    ns_expr gap = ns_sub(height, turn_components(nearest, size).e[0]);
    vec3 normal = turn_back(nearest, v3(outwards, zero, zero));
    vec3 point = v3_sub(x, v3_scale(half(gap), normal));
    return (nsi_contact_point){.position = to_world(box, point),
                               .normal = m3_apply(box->R, v3_scale(ns_const(sign), normal)),
                               .gap = gap,
                               .exists = ns_and(wanted, exists)};
}

static nsi_contact_point select_point(ns_expr which, const nsi_contact_point* a,
                                      const nsi_contact_point* b) {
    return (nsi_contact_point){.position = v3_select(which, a->position, b->position),
                               .normal = v3_select(which, a->normal, b->normal),
                               .gap = ns_select(which, a->gap, b->gap),
                               .exists = ns_select(which, a->exists, b->exists)};
}

// ---- both ----------------------------------------------------------------------------------

static boxes compare_boxes(const nsi_shape* a, const nsi_shape* b) {
    vec3 to_b = v3_sub(b->position, a->position);
    return (boxes){.a = a,
                   .b = b,
                   .C = m3_mul(m3_transpose(a->R), b->R),
                   .to_b_in_a = m3_apply_t(a->R, to_b),
                   .to_b_in_b = m3_apply_t(b->R, to_b),
                   .size_a = v3(a->size[0], a->size[1], a->size[2]),
                   .size_b = v3(b->size[0], b->size[1], b->size[2])};
}

typedef struct features {
    ns_expr by_edge, edge_gap;
    ns_expr separation; // along the chosen axis
    face_choice face;
    edge_choice edges;
} features;

// The best axis; another kind must be clearly better, so that points do not jump.
static features choose_features(const boxes* s) {
    ns_expr shortest = ns_min(s->size_a.e[0], s->size_b.e[0]);
    for (int i = 1; i < 3; i++) {
        shortest = ns_min(shortest, ns_min(s->size_a.e[i], s->size_b.e[i]));
    }

    // Separating axes: face normals of both, and products of edges.
    ns_expr along_a[3], along_b[3], edges[3][3], row_best[3], best_a, best_b, ignored;
    face_separations(s, along_a, along_b);
    choice axis_a = choose_largest(along_a, &best_a), axis_b = choose_largest(along_b, &best_b);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) edges[i][j] = edge_separation(s, i, j);
        choose_largest(edges[i], &row_best[i]);
    }
    features f;
    choice edge_a = choose_largest(row_best, &f.edge_gap);
    ns_expr row[3];
    for (int j = 0; j < 3; j++) row[j] = pick(edge_a, edges[0][j], edges[1][j], edges[2][j]);
    choice edge_b = choose_largest(row, &ignored);

    ns_expr of_b = beats(best_b, best_a, FACE_RELATIVE, FACE_ABSOLUTE, shortest);
    ns_expr best_face = ns_select(of_b, best_b, best_a);
    f.by_edge = beats(f.edge_gap, best_face, EDGE_RELATIVE, EDGE_ABSOLUTE, shortest);
    f.separation = ns_select(f.by_edge, f.edge_gap, best_face);
    choice axis = {ns_select(of_b, axis_b.is1, axis_a.is1),
                   ns_select(of_b, axis_b.is2, axis_a.is2)};
    f.face = choose_face(s, of_b, axis);
    f.edges = choose_edges(s, edge_a, edge_b);
    return f;
}

void nsi_box_box(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out) {
    boxes s = compare_boxes(a, b);
    boxes before = compare_boxes(nsi_chosen_shape(a), nsi_chosen_shape(b));
    features chosen = choose_features(&before);

    // Points of a face contact.
    ns_expr by_edge = chosen.by_edge, by_face = ns_not(by_edge);
    face f = make_face(&s, &chosen.face);
    clip_edges(&f, by_face, out);
    reference_corners(&f, by_face, out + 8);

    // That of two edges, and where their ends are: the next points, where the edges slide past each
    // other within a step.
    edge_pair edges = make_edges(&s, &chosen.edges),
              edges_before = make_edges(&before, &chosen.edges);
    out[12] = edge_point(&s, &edges, chosen.edge_gap, by_edge);
    vec3 end[4], end_before[4];
    find_ends(&s, &edges, end);
    find_ends(&before, &edges_before, end_before);
    for (int k = 0; k < 4; k++) {
        const nsi_shape* box = k < 2 ? b : a;
        nsi_contact_point corner = corner_above(box, k < 2 ? s.size_b : s.size_a, end_before[k],
                                                end[k], k < 2 ? 1.0 : -1.0, by_edge);
        out[k] = select_point(by_edge, &corner, &out[k]);
    }

    // Points that do not exist may be anywhere along their edges. Who looks at their depths sees how far
    // the boxes are apart, or 0.
    ns_expr apart = ns_max(chosen.separation, ns_const(0.0));
    for (int k = 0; k < NSI_BOX_BOX_SLOTS; k++)
        out[k].gap = ns_select(out[k].exists, out[k].gap, apart);
}
