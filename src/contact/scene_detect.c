// The block scene_detect: which contacts act in a step, and when the islands have impacts.
//
// A pair is near when the boxes around its shapes, grown by what the bodies can move in a step, are no
// further apart than its margin. Points of near pairs are classified (contact_classes.h); trees of bodies
// that are connected by contacts that rest, pass or are late are an island, whose impact is at the
// earliest time of its contacts. The list has the contacts that rest, hit or follow, by pair.

#include "contact/contact_classes.h"
#include "contact/contact_step.h"
#include "contact/scene_kernel.h"

#include <math.h>

// Where things are among inputs and outputs.
typedef struct detect_layout {
    const double *pose, *motion, *fall, *margin;
} detect_layout;

static detect_layout lay_out_inputs(const nsi_scene* s, const double* x) {
    detect_layout l = {.pose = x};
    l.motion = l.pose + NSI_SCENE_POSE * s->ngeom;
    l.fall = l.motion + NSI_SCENE_MOTION * s->nbody;
    l.margin = l.fall + 1;
    return l;
}

// ---- boxes ---------------------------------------------------------------------------------------

typedef struct detect_box {
    double centre[3], half[3]; // in the world
    double travel;             // m, of any of its points in a step, at most
} detect_box;

// Half lengths of a box around the shape, in the shape's axes; a ground has none.
static void shape_half(const nsi_scene_geom* g, const double* size, double half[3]) {
    for (int k = 0; k < 3; k++) half[k] = 0.0;
    switch (g->type) {
    case NS_GEOM_SPHERE: half[0] = half[1] = half[2] = size[0]; break;
    case NS_GEOM_CAPSULE:
        half[0] = half[1] = size[0];
        half[2] = size[0] + size[1];
        break;
    case NS_GEOM_CYLINDER:
        half[0] = half[1] = size[0];
        half[2] = size[1];
        break;
    case NS_GEOM_BOX:
    case NS_GEOM_ELLIPSOID:
    case NS_GEOM_ELLIPSE:
        for (int k = 0; k < 3; k++) half[k] = size[k];
        break;
    case NS_GEOM_MESH:
        for (int k = 0; k < 3; k++) half[k] = size[k] * g->reach[k];
        break;
    case NS_GEOM_POLYGON:
        half[0] = g->reach[0];
        half[1] = g->reach[1];
        half[2] = size[0];
        break;
    case NS_GEOM_POINTS:
        for (int k = 0; k < 3; k++) half[k] = g->reach[k];
        break;
    case NS_GEOM_PLANE:
    case NS_GEOM_HFIELD: break;
    }
}

static double vector_norm(const double* v) {
    return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

// How far a point at c, or one up to `radius` from it, moves in a step with a twist about the origin.
static double point_travel(double dt, const double* twist, const double* c, double radius) {
    const double *w = twist, *v = twist + 3;
    double at[3] = {v[0] + w[1] * c[2] - w[2] * c[1], v[1] + w[2] * c[0] - w[0] * c[2],
                    v[2] + w[0] * c[1] - w[1] * c[0]};
    return dt * (vector_norm(at) + vector_norm(w) * radius);
}

static detect_box find_box(const nsi_scene* s, const detect_layout* in, uint32_t geom) {
    const double *R = in->pose + NSI_SCENE_POSE * geom, *position = R + 9, *size = R + 12;
    double half[3];
    detect_box box = {.travel = 0.0};
    shape_half(&s->geoms[geom], size, half);
    for (int i = 0; i < 3; i++) {
        box.centre[i] = position[i];
        for (int j = 0; j < 3; j++) box.half[i] += fabs(R[3 * i + j]) * half[j];
    }
    uint32_t body = s->geoms[geom].body;
    if (body == NSI_NONE) return box;
    const double* moves = in->motion + NSI_SCENE_MOTION * body;
    double radius = vector_norm(half);
    box.travel = point_travel(s->dt, moves, position, radius) +
                 s->dt * point_travel(s->dt, moves + 6, position, radius);
    return box;
}

// Has the shape no end below, so that all that is not above it can touch it?
static bool is_ground(const nsi_scene_geom* g) {
    return g->type == NS_GEOM_PLANE || g->type == NS_GEOM_HFIELD;
}

// Could something in the box touch a ground, given by its pose and size?
static bool is_near_ground(const nsi_scene_geom* g, const double* pose, const detect_box* box,
                           double reach) {
    double height = g->type == NS_GEOM_HFIELD ? -pose[14] : 0.0; // above its highest point
    for (int k = 0; k < 3; k++) {
        double n = pose[3 * k + 2];
        height += n * (box->centre[k] - pose[9 + k]) - fabs(n) * box->half[k];
    }
    return height <= reach;
}

static bool is_near(const nsi_scene* s, const detect_layout* in, const detect_box* boxes,
                    uint32_t pair) {
    const nsi_scene_pair* p = &s->pairs[pair];
    const nsi_scene_geom *ga = &s->geoms[p->a], *gb = &s->geoms[p->b];
    const detect_box *a = &boxes[p->a], *b = &boxes[p->b];
    const double reach = in->margin[pair] + a->travel + b->travel;
    if (is_ground(ga)) return is_near_ground(ga, in->pose + NSI_SCENE_POSE * p->a, b, reach);
    if (is_ground(gb)) return is_near_ground(gb, in->pose + NSI_SCENE_POSE * p->b, a, reach);
    for (int k = 0; k < 3; k++) {
        if (fabs(a->centre[k] - b->centre[k]) > a->half[k] + b->half[k] + reach) return false;
    }
    return true;
}

// ---- pairs ---------------------------------------------------------------------------------------

// Where the inputs of a pair's function begin among those of the block; NSI_NONE: zeros, of the world.
typedef struct pair_range {
    uint32_t from, to, count;
} pair_range;
enum { PAIR_RANGES = 6, PAIR_INPUTS = 2 * NSI_SCENE_POSE + 2 * NSI_SCENE_MOTION + 2 };

static void find_ranges(const nsi_scene* s, uint32_t pair, pair_range out[PAIR_RANGES]) {
    const nsi_scene_pair* p = &s->pairs[pair];
    const uint32_t geoms[2] = {p->a, p->b};
    const uint32_t motions = NSI_SCENE_POSE * s->ngeom;
    const uint32_t rest = motions + NSI_SCENE_MOTION * s->nbody;
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t body = s->geoms[geoms[side]].body;
        out[side] =
            (pair_range){NSI_SCENE_POSE * geoms[side], NSI_SCENE_POSE * side, NSI_SCENE_POSE};
        out[2 + side] =
            (pair_range){body == NSI_NONE ? NSI_NONE : motions + NSI_SCENE_MOTION * body,
                         2 * NSI_SCENE_POSE + NSI_SCENE_MOTION * side, NSI_SCENE_MOTION};
    }
    out[4] = (pair_range){rest, PAIR_INPUTS - 2, 1};
    out[5] = (pair_range){rest + 1 + pair, PAIR_INPUTS - 1, 1};
}

static void gather_pair(const nsi_scene* s, uint32_t pair, const double* x, double* out) {
    pair_range ranges[PAIR_RANGES];
    find_ranges(s, pair, ranges);
    for (int r = 0; r < PAIR_RANGES; r++) {
        for (uint32_t k = 0; k < ranges[r].count; k++) {
            out[ranges[r].to + k] = ranges[r].from == NSI_NONE ? 0.0 : x[ranges[r].from + k];
        }
    }
}

static void scatter_pair(const nsi_scene* s, uint32_t pair, const double* in, double* x) {
    pair_range ranges[PAIR_RANGES];
    find_ranges(s, pair, ranges);
    for (int r = 0; r < PAIR_RANGES; r++) {
        if (ranges[r].from == NSI_NONE) continue;
        for (uint32_t k = 0; k < ranges[r].count; k++)
            x[ranges[r].from + k] += in[ranges[r].to + k];
    }
}

// ---- value ---------------------------------------------------------------------------------------

// The outputs of the block.
typedef struct detect_outputs {
    double *share, *source, *contacts, *deepest, *missing;
} detect_outputs;

static detect_outputs lay_out_outputs(const nsi_scene* s, double* y) {
    detect_outputs o = {.share = y};
    o.source = o.share + s->ntree;
    o.contacts = o.source + s->ntree;
    o.deepest = o.contacts + NSI_SCENE_CONTACT * s->ncontact;
    o.missing = o.deepest + 1;
    return o;
}

enum { EVENT_PASSES = 64, EVENT_NEARS = 128 }; // while the list is made: they may not take part

// Append the points of a near pair that act to the list, and join the islands they connect.
static uint32_t list_points(const nsi_scene* s, uint32_t pair, const double* found,
                            detect_outputs* out, uint32_t* island, uint32_t count) {
    const nsi_scene_pair* p = &s->pairs[pair];
    const uint32_t npoint = s->kinds[p->kind].npoint;
    const double* flags = found + 4 * (size_t)npoint;
    for (uint32_t k = 0; k < npoint; k++) {
        const double *at = found + 4 * (size_t)k, *flag = flags + 4 * (size_t)k;
        if (flag[0] == 0.0 && flag[1] == 0.0 && flag[2] == 0.0 && flag[3] == 0.0) continue;
        if (-at[0] > *out->deepest) *out->deepest = -at[0];
        if (count == s->ncontact) {
            *out->missing = 1.0;
            return count;
        }
        double* contact = out->contacts + NSI_SCENE_CONTACT * count++;
        contact[NSI_SCENE_ID] = (double)(pair * NSI_SCENE_MAX_POINTS + k);
        contact[NSI_SCENE_KIND] =
            (flag[0] != 0.0 ? NSI_CONTACT_RESTS : 0) + (flag[1] != 0.0 ? EVENT_PASSES : 0) +
            (flag[2] != 0.0 ? NSI_SCENE_LATE : 0) + (flag[3] != 0.0 ? EVENT_NEARS : 0);
        for (int i = 0; i < 4; i++) contact[NSI_SCENE_PHI + i] = at[i];
        uint32_t a = nsi_scene_geom_tree(s, p->a), b = nsi_scene_geom_tree(s, p->b);
        if (a != NSI_NONE && b != NSI_NONE) nsi_island_join(island, a, b);
    }
    return count;
}

static uint32_t contact_tree(const nsi_scene* s, const double* contact) {
    uint32_t pair = 0, point;
    nsi_scene_contact_of(contact, &pair, &point);
    uint32_t a = nsi_scene_geom_tree(s, s->pairs[pair].a);
    return a != NSI_NONE ? a : nsi_scene_geom_tree(s, s->pairs[pair].b);
}

// The earliest impact of each island, in the entries of its root: share, and which contact it is from.
static void find_earliest(const nsi_scene* s, uint32_t* island, uint32_t count,
                          detect_outputs* out) {
    for (uint32_t t = 0; t < s->ntree; t++) out->share[t] = 1.0, out->source[t] = -1.0;
    for (uint32_t c = 0; c < count; c++) {
        const double* contact = out->contacts + NSI_SCENE_CONTACT * c;
        const unsigned kind = (unsigned)contact[NSI_SCENE_KIND];
        if (!(kind & (NSI_SCENE_LATE | EVENT_PASSES))) continue; // rests or nears
        uint32_t tree = contact_tree(s, contact);
        if (tree == NSI_NONE) continue;
        tree = nsi_island_root(island, tree);
        if (out->source[tree] >= 0.0 && contact[NSI_SCENE_TIME] >= out->share[tree]) continue;
        out->share[tree] = contact[NSI_SCENE_TIME];
        out->source[tree] = (double)c;
    }
}

// Which contacts take part: the list without those that pass after the impact.
static uint32_t keep_hits(const nsi_scene* s, uint32_t* island, uint32_t count, detect_outputs* out,
                          uint32_t* moved) {
    uint32_t kept = 0;
    for (uint32_t c = 0; c < count; c++) {
        const double* contact = out->contacts + NSI_SCENE_CONTACT * c;
        const uint32_t tree = contact_tree(s, contact);
        const uint32_t root = tree == NSI_NONE ? NSI_NONE : nsi_island_root(island, tree);
        const bool struck = root != NSI_NONE && out->source[root] >= 0.0;
        const double share = struck ? out->share[root] : 0.0;
        const double phi = contact[NSI_SCENE_PHI], vn = contact[NSI_SCENE_VN];
        const double a = contact[NSI_SCENE_A], time = contact[NSI_SCENE_TIME];
        const unsigned was = (unsigned)contact[NSI_SCENE_KIND];
        unsigned kind = was & (NSI_CONTACT_RESTS | NSI_SCENE_LATE);
        if (was & NSI_SCENE_LATE) kind |= NSI_CONTACT_HIT;
        if (was & EVENT_PASSES) {
            kind |= time <= share + NSI_SIMULTANEOUS ? NSI_CONTACT_HIT : NSI_CONTACT_FOLLOWS;
        }

        const double near = NSI_CLOSED_FALLS * s->dt * s->dt * a + NSI_NEGLIGIBLE_GAP;
        const bool closed = phi + s->dt * share * vn <= near;
        if ((was & NSI_CONTACT_RESTS) && struck && closed) kind |= NSI_CONTACT_CLOSED;
        if ((was & EVENT_NEARS) && struck) kind |= NSI_CONTACT_FOLLOWS;
        moved[c] = kind ? kept : NSI_NONE;
        if (!kind) continue;
        double* to = out->contacts + NSI_SCENE_CONTACT * kept++;
        to[NSI_SCENE_ID] = contact[NSI_SCENE_ID];
        to[NSI_SCENE_KIND] = kind;
        to[NSI_SCENE_PHI] = phi;
        to[NSI_SCENE_VN] = vn;
        to[NSI_SCENE_A] = a;
        to[NSI_SCENE_TIME] = time;
    }
    return kept;
}

static void detect_value(const nsi_scene* s, const double* x, double* y, double* scratch) {
    detect_layout in = lay_out_inputs(s, x);
    detect_outputs out = lay_out_outputs(s, y);
    double* at = scratch;
    detect_box* boxes =
        (detect_box*)(void*)nsi_take(&at, s->ngeom * (sizeof(detect_box) / sizeof(double)));
    uint32_t* island = nsi_take_counts(&at, s->ntree);
    uint32_t* moved = nsi_take_counts(&at, s->ncontact);
    double* args = nsi_take(&at, s->most_inputs);
    double* found = nsi_take(&at, s->most_outputs);

    // Points of near pairs.
    for (uint32_t g = 0; g < s->ngeom; g++) boxes[g] = find_box(s, &in, g);
    for (uint32_t t = 0; t < s->ntree; t++) island[t] = t;
    *out.deepest = *out.missing = 0.0;
    uint32_t count = 0;
    for (uint32_t p = 0; p < s->npair; p++) {
        if (!is_near(s, &in, boxes, p)) continue;
        gather_pair(s, p, x, args);
        nsi_scene_run(s->kinds[s->pairs[p].kind].start.value, args, found, at);
        count = list_points(s, p, found, &out, island, count);
    }

    // Impacts of islands, and the contacts that take part.
    find_earliest(s, island, count, &out);
    uint32_t kept = keep_hits(s, island, count, &out, moved);
    for (uint32_t c = kept; c < s->ncontact; c++) {
        for (int k = 0; k < NSI_SCENE_CONTACT; k++) {
            out.contacts[NSI_SCENE_CONTACT * c + (uint32_t)k] = 0.0;
        }
        out.contacts[NSI_SCENE_CONTACT * c + NSI_SCENE_ID] = -1.0;
    }

    // All trees of an island have the numbers of its root, which is the first of them.
    for (uint32_t t = s->ntree; t-- > 0;) {
        const uint32_t root = nsi_island_root(island, t);
        const bool struck = out.source[root] >= 0.0;
        out.share[t] = struck ? out.share[root] : 0.0;
        out.source[t] = struck ? (double)moved[(uint32_t)out.source[root]] : -1.0;
    }
}

size_t nsi_scene_detect_scratch(const nsi_scene* s) {
    return s->ngeom * (sizeof(detect_box) / sizeof(double)) + s->ntree + 4 +
           2 * (size_t)s->ncontact + 2 * (size_t)s->most_inputs + s->most_outputs + s->work;
}

// ---- derivatives ---------------------------------------------------------------------------------

// Contacts of the list that belong to the pair of contact `first`: one behind the last.
static uint32_t end_of_pair(const nsi_scene* s, const double* contacts, uint32_t first) {
    uint32_t pair = 0, point, other;
    nsi_scene_contact_of(contacts + NSI_SCENE_CONTACT * first, &pair, &point);
    uint32_t end = first + 1;
    while (end < s->ncontact &&
           nsi_scene_contact_of(contacts + NSI_SCENE_CONTACT * end, &other, &point) &&
           other == pair) {
        end++;
    }
    return end;
}

// The contact that is the deepest; NSI_NONE: nothing overlaps.
static uint32_t deepest_contact(const nsi_scene* s, const detect_outputs* out) {
    for (uint32_t c = 0; c<s->ncontact&& * out->deepest> 0.0; c++) {
        const double* contact = out->contacts + NSI_SCENE_CONTACT * c;
        if (contact[NSI_SCENE_ID] < 0.0) break;
        if (-contact[NSI_SCENE_PHI] == *out->deepest) return c;
    }
    return NSI_NONE;
}

// x: inputs, outputs, direction of the inputs.
static void detect_tangent(const nsi_scene* s, const double* x, double* y, double* scratch) {
    const uint32_t ninput = nsi_scene_detect_inputs(s), noutput = nsi_scene_detect_outputs(s);
    const detect_outputs value = lay_out_outputs(s, (double*)x + ninput);
    const double* dx = x + ninput + noutput;
    detect_outputs d = lay_out_outputs(s, y);
    double* at = scratch;
    double* args = nsi_take(&at, s->most_inputs);
    double* found = nsi_take(&at, s->most_outputs);
    for (uint32_t k = 0; k < noutput; k++) y[k] = 0.0;

    // Contacts, all points of a pair at once.
    for (uint32_t c = 0, end, pair, point; c < s->ncontact; c = end) {
        if (!nsi_scene_contact_of(value.contacts + NSI_SCENE_CONTACT * c, &pair, &point)) break;
        end = end_of_pair(s, value.contacts, c);
        gather_pair(s, pair, x, args);
        gather_pair(s, pair, dx, args + PAIR_INPUTS);
        nsi_scene_run(s->kinds[s->pairs[pair].kind].start.tangent, args, found, at);
        for (uint32_t i = c; i < end; i++) {
            nsi_scene_contact_of(value.contacts + NSI_SCENE_CONTACT * i, &pair, &point);
            for (uint32_t k = 0; k < 4; k++) {
                d.contacts[NSI_SCENE_CONTACT * i + NSI_SCENE_PHI + k] = found[4 * point + k];
            }
        }
    }

    // Impact times of trees and the penetration are those of one contact each.
    for (uint32_t t = 0; t < s->ntree; t++) {
        if (value.source[t] < 0.0) continue;
        d.share[t] = d.contacts[NSI_SCENE_CONTACT * (uint32_t)value.source[t] + NSI_SCENE_TIME];
    }
    uint32_t deepest = deepest_contact(s, &value);
    if (deepest != NSI_NONE) {
        *d.deepest = -d.contacts[NSI_SCENE_CONTACT * deepest + NSI_SCENE_PHI];
    }
}

// x: inputs, outputs, adjoints of the outputs.
static void detect_adjoint(const nsi_scene* s, const double* x, double* y, double* scratch) {
    const uint32_t ninput = nsi_scene_detect_inputs(s), noutput = nsi_scene_detect_outputs(s);
    const detect_outputs value = lay_out_outputs(s, (double*)x + ninput);
    const detect_outputs bar = lay_out_outputs(s, (double*)x + ninput + noutput);
    double* at = scratch;
    double* args = nsi_take(&at, s->most_inputs);
    double* found = nsi_take(&at, s->most_outputs);
    double* time_bar = nsi_take(&at, s->ncontact);
    for (uint32_t k = 0; k < ninput; k++) y[k] = 0.0;

    // Shares are times of contacts.
    for (uint32_t c = 0; c < s->ncontact; c++) {
        time_bar[c] = bar.contacts[NSI_SCENE_CONTACT * c + NSI_SCENE_TIME];
    }
    for (uint32_t t = 0; t < s->ntree; t++) {
        if (value.source[t] >= 0.0) time_bar[(uint32_t)value.source[t]] += bar.share[t];
    }
    uint32_t deepest = deepest_contact(s, &value);

    for (uint32_t c = 0, end, pair, point; c < s->ncontact; c = end) {
        if (!nsi_scene_contact_of(value.contacts + NSI_SCENE_CONTACT * c, &pair, &point)) break;
        end = end_of_pair(s, value.contacts, c);
        const nsi_scene_kind* kind = &s->kinds[s->pairs[pair].kind];
        double* seed = args + PAIR_INPUTS;
        gather_pair(s, pair, x, args);
        for (uint32_t k = 0; k < 4 * kind->npoint; k++) seed[k] = 0.0;
        for (uint32_t i = c; i < end; i++) {
            const double* from = bar.contacts + NSI_SCENE_CONTACT * i;
            nsi_scene_contact_of(value.contacts + NSI_SCENE_CONTACT * i, &pair, &point);
            double* to = seed + 4 * point;
            to[0] = from[NSI_SCENE_PHI] - (i == deepest ? *bar.deepest : 0.0);
            to[1] = from[NSI_SCENE_VN];
            to[2] = from[NSI_SCENE_A];
            to[3] = time_bar[i];
        }
        nsi_scene_run(kind->start.adjoint, args, found, at);
        scatter_pair(s, pair, found, y);
    }
}

// ---- the kinds -----------------------------------------------------------------------------------

static void detect_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                       uint32_t dsink, nsi_id* dy) {
    (void)dsource, (void)dsink;
    const nsi_scene* s = (const nsi_scene*)(const void*)block->data;
    nsi_id node = nsi_scene_append(g, &nsi_scene_detect_tangent, block, 0, block->noutput, dx,
                                   block->ninput, block->noutput, nsi_scene_detect_scratch(s));
    for (uint32_t k = 0; k < block->noutput && node != NSI_NONE; k++) {
        dy[k] = nsi_graph_out(g, node, k);
    }
}

static void detect_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                       uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed, (void)source_bar;
    const nsi_scene* s = (const nsi_scene*)(const void*)block->data;
    nsi_id node = nsi_scene_append(g, &nsi_scene_detect_adjoint, block, 0, block->noutput, ybar,
                                   block->noutput, block->ninput, nsi_scene_detect_scratch(s));
    for (uint32_t k = 0; k < block->ninput && node != NSI_NONE; k++) {
        xbar[k] = nsi_graph_out(g, node, k);
    }
}

NSI_SCENE_KERNEL(detect_value)
NSI_SCENE_KERNEL(detect_tangent)
NSI_SCENE_KERNEL(detect_adjoint)

#define PARAMS .nparam = 3, .param_names = {"inputs", "outputs", "scratch"}

const nsi_block_kind nsi_scene_detect = {.name = "scene_detect",
                                         .has_data = true,
                                         PARAMS,
                                         .sizes = nsi_scene_sizes,
                                         .jvp = detect_jvp,
                                         .vjp = detect_vjp,
                                         .kernel = detect_value_kernel};

const nsi_block_kind nsi_scene_detect_tangent = {.name = "scene_detect_tangent",
                                                 .has_data = true,
                                                 PARAMS,
                                                 .sizes = nsi_scene_sizes,
                                                 .jvp = nsi_ncp_no_jvp,
                                                 .vjp = nsi_ncp_no_vjp,
                                                 .kernel = detect_tangent_kernel};

const nsi_block_kind nsi_scene_detect_adjoint = {.name = "scene_detect_adjoint",
                                                 .has_data = true,
                                                 PARAMS,
                                                 .sizes = nsi_scene_sizes,
                                                 .jvp = nsi_ncp_no_jvp,
                                                 .vjp = nsi_ncp_no_vjp,
                                                 .kernel = detect_adjoint_kernel};
