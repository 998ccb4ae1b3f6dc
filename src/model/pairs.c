// Which geometries can touch, and with what numbers.
//
// A body is all links that are welded together; what is welded to the world is the world. Two
// geometries are a pair when
//
//   - both are for contact, and either touches a group of the other,
//   - they are on different bodies, and neither body carries the other. The world carries nothing in
//     this sense: a robot touches the ground it stands on. A body without mass and geometries is
//     part of the joints around it, as in a universal joint,
//   - their links, or the links that move them, are not excluded,
//   - they are not in one tree of links, if links of a tree are to be kept apart,
//   - the shapes are handled. Those that are not are noted.
//
// A pair given by hand needs none of this but different bodies and shapes that are handled.

#include "model/model_data.h"

#include "contact/law.h"

#include <math.h>
#include <stdio.h>

// ---- shapes ------------------------------------------------------------------------------------

enum { NTYPES = NS_GEOM_HFIELD + 1 };

// A mesh whose vertices are not known has no shape; one with many touches planes only.
static bool has_shape(const ns_geom_def* geom, bool on_plane) {
    if (geom->type != NS_GEOM_MESH) return true;
    return geom->nvertex > 0 && (on_plane || geom->nvertex <= NSI_MAX_HULL_VERTICES);
}

bool nsi_geoms_can_touch(const ns_geom_def* a, const ns_geom_def* b) {
    enum {
        CYLINDER = 1 << NS_GEOM_CYLINDER,
        PLANE = 1 << NS_GEOM_PLANE,
        POLYGON = 1 << NS_GEOM_POLYGON,
        ELLIPSE = 1 << NS_GEOM_ELLIPSE,
        HFIELD = 1 << NS_GEOM_HFIELD,
        SOLID = 1 << NS_GEOM_SPHERE | 1 << NS_GEOM_CAPSULE | CYLINDER | 1 << NS_GEOM_BOX |
                1 << NS_GEOM_MESH | 1 << NS_GEOM_ELLIPSOID, // and convex
        EVERYTHING = (1 << NTYPES) - 1
    };

    // Types that each type can touch.
    static const uint32_t partners[NTYPES] = {
        [NS_GEOM_SPHERE] = PLANE | HFIELD | SOLID,
        [NS_GEOM_CAPSULE] = PLANE | HFIELD | SOLID,
        [NS_GEOM_CYLINDER] = PLANE | HFIELD | SOLID | POLYGON | ELLIPSE,
        [NS_GEOM_BOX] = PLANE | HFIELD | SOLID,
        [NS_GEOM_PLANE] = EVERYTHING & ~PLANE & ~HFIELD,
        [NS_GEOM_MESH] = PLANE | HFIELD | SOLID,
        [NS_GEOM_ELLIPSOID] = PLANE | HFIELD | SOLID,
        [NS_GEOM_POLYGON] = PLANE | CYLINDER,
        [NS_GEOM_ELLIPSE] = PLANE | CYLINDER,
        [NS_GEOM_POINTS] = PLANE,
        [NS_GEOM_HFIELD] = SOLID,
    };

    bool plane = a->type == NS_GEOM_PLANE || b->type == NS_GEOM_PLANE;
    return (partners[a->type] >> b->type & 1) && has_shape(a, plane) && has_shape(b, plane);
}

// ---- bodies ------------------------------------------------------------------------------------

uint32_t nsi_link_body(const nsi_link* links, uint32_t link) {
    while (link != NSI_NONE && ns_joint_type_info(links[link].def.joint_type)->nv == 0) {
        link = links[link].parent;
    }
    return link;
}

// Where a link belongs, and of a link that moves what it is as a body.
typedef struct place {
    uint32_t body;    // link that moves it; NSI_NONE: the world
    uint32_t tree;    // the outermost body that carries it, or itself; NSI_NONE: the world
    uint32_t carrier; // of a body: the nearest solid one inwards; NSI_NONE: the world
    bool solid;       // of a body: it has mass or geometries
    double mass;      // of a body, kg
    double tree_mass; // of a tree, at its outermost body, kg
} place;

typedef struct maker {
    const nsi_pair_source* from;
    ns_allocator allocator;
    nsi_pairs* out;
    place* places;               // (nlink)
    nsi_index given, exclusions; // by the two numbers
    nsi_index names;             // of the pairs made so far
    struct {
        uint32_t count, a, b;            // how many, and the first
    } unhandled[NTYPES + 1][NTYPES + 1]; // by type, the smaller first; a mesh without shape is last
} maker;

static uint32_t body_of(const maker* m, uint32_t link) {
    return link == NSI_NONE ? NSI_NONE : m->places[link].body;
}

static void find_link_bodies(maker* m) {
    const nsi_pair_source* from = m->from;
    for (uint32_t i = 0; i < from->nlink; i++) {
        const nsi_link* link = &from->links[i];
        bool fixed = ns_joint_type_info(link->def.joint_type)->nv == 0;
        uint32_t inner = body_of(m, link->parent);
        place* p = &m->places[i];
        *p = (place){.body = fixed ? inner : i, .carrier = NSI_NONE};
        p->tree = inner != NSI_NONE ? m->places[inner].tree : p->body;
        if (p->body == NSI_NONE) continue;
        m->places[p->body].mass += link->def.mass;
        m->places[p->tree].tree_mass += link->def.mass;
        if (link->def.mass > 0.0) m->places[p->body].solid = true;
    }
    for (uint32_t i = 0; i < from->ngeom; i++) {
        uint32_t body = body_of(m, from->geoms[i].link);
        if (body != NSI_NONE) m->places[body].solid = true;
    }
    for (uint32_t i = 0; i < from->nlink; i++) {
        uint32_t inner = body_of(m, from->links[i].parent);
        bool through = inner != NSI_NONE && !m->places[inner].solid;
        m->places[i].carrier = through ? m->places[inner].carrier : inner;
    }
}

// Does one of two different bodies carry the other?
static bool carries(const maker* m, uint32_t a, uint32_t b) {
    if (a == NSI_NONE || b == NSI_NONE) return false;
    return m->places[a].carrier == b || m->places[b].carrier == a;
}

// ---- sets of two numbers -----------------------------------------------------------------------

static uint32_t hash_two(uint32_t a, uint32_t b) {
    const uint32_t both[2] = {a < b ? a : b, a < b ? b : a};
    return nsi_hash_bytes(both, sizeof both);
}

static bool are(uint32_t a, uint32_t b, uint32_t x, uint32_t y) {
    return (a == x && b == y) || (a == y && b == x);
}

static bool is_pair_given(const maker* m, uint32_t a, uint32_t b) {
    for (uint32_t at = nsi_index_first(&m->given, hash_two(a, b)), id;
         nsi_index_at(&m->given, at, &id); at = nsi_index_next(&m->given, at)) {
        if (are(a, b, m->from->given[id].a, m->from->given[id].b)) return true;
    }
    return false;
}

static bool links_excluded(const maker* m, uint32_t a, uint32_t b) {
    for (uint32_t at = nsi_index_first(&m->exclusions, hash_two(a, b)), id;
         nsi_index_at(&m->exclusions, at, &id); at = nsi_index_next(&m->exclusions, at)) {
        if (are(a, b, m->from->exclusions[id].a, m->from->exclusions[id].b)) return true;
    }
    return false;
}

static bool index_source(maker* m) {
    const nsi_pair_source* from = m->from;
    for (uint32_t i = 0; i < from->ngiven; i++) {
        uint32_t hash = hash_two(from->given[i].a, from->given[i].b);
        if (!nsi_index_insert(&m->allocator, &m->given, hash, i)) return false;
    }
    for (uint32_t i = 0; i < from->nexclusion; i++) {
        uint32_t hash = hash_two(from->exclusions[i].a, from->exclusions[i].b);
        if (!nsi_index_insert(&m->allocator, &m->exclusions, hash, i)) return false;
    }
    return true;
}

// ---- numbers -----------------------------------------------------------------------------------

// What a geometry moves with: the mass of its tree, and of its body alone, kg. The world has no end
// of either.
typedef struct masses {
    double tree, body;
} masses;

static masses masses_of(const maker* m, const nsi_geom* geom) {
    uint32_t number = body_of(m, geom->link);
    if (number == NSI_NONE) return (masses){INFINITY, INFINITY};
    const place* body = &m->places[number];
    double tree = m->places[body->tree].tree_mass;
    if (tree == 0.0) tree = 1.0; // moved by armature alone
    return (masses){tree, body->mass > 0.0 ? body->mass : tree};
}

// Friction of two geometries as MuJoCo combines it: the higher priority decides; of equals the larger
// condim and the larger friction. Kind 0 is sliding, 1 torsional, 2 rolling; each acts from a condim on.
static double default_friction(const ns_geom_def* a, const ns_geom_def* b, int kind) {
    static const uint32_t acts_from[3] = {3, 4, 6};
    if (a->priority > b->priority) b = a;
    if (b->priority > a->priority) a = b;
    uint32_t condim = a->condim > b->condim ? a->condim : b->condim;
    return condim < acts_from[kind] ? 0.0 : fmax(a->friction[kind], b->friction[kind]);
}

// Values that are automatic: see ns_contact_def.
static void choose_pair_values(const maker* m, nsi_contact* contact) {
    const nsi_geom *a = &m->from->geoms[contact->a], *b = &m->from->geoms[contact->b];
    ns_contact_def* def = &contact->def;

    // What materials decide, for all laws.
    double* const friction[3] = {&def->mu, &def->mu_torsion, &def->mu_rolling};
    for (int k = 0; k < 3; k++) {
        if (*friction[k] == NS_CONTACT_AUTO) *friction[k] = default_friction(&a->def, &b->def, k);
    }
    if (def->restitution == NS_CONTACT_AUTO) {
        def->restitution = fmax(a->def.restitution, b->def.restitution);
    }

    // What follows another parameter, and goes on doing so when that changes.
    const ns_contact_param* param;
    for (uint32_t k = 0; (param = nsi_contact_slot(k)); k++) {
        if (!param->follows || nsi_contact_value(def, param) != NS_CONTACT_AUTO) continue;
        double value = nsi_contact_value(def, nsi_contact_find_param(param->follows));
        memcpy((char*)def + param->field, &value, sizeof value);
        contact->follows |= UINT64_C(1) << k;
    }

    // The rest is the laws' own.
    masses x = masses_of(m, a), y = masses_of(m, b);
    nsi_pair_bodies bodies = {.a = &a->def,
                              .b = &b->def,
                              .tree_mass = fmin(x.tree, y.tree),
                              .body_mass = fmin(x.body, y.body),
                              .timestep = m->from->timestep};
    for (int k = 0; k < nsi_contact_law_count(); k++) {
        const nsi_contact_law* law = nsi_contact_law_get(k);
        if (law->choose) law->choose(&bodies, def);
    }
}

// ---- pairs -------------------------------------------------------------------------------------

static ns_status add_pair(maker* m, nsi_contact contact, ns_error* error) {
    nsi_pairs* out = m->out;
    uint32_t id = out->contacts.count;
    uint32_t hash = nsi_hash_bytes(contact.def.name, strlen(contact.def.name));
    if (id >= NSI_MAX_PAIRS) {
        return nsi_fail(error, NS_ERR_LIMIT,
                        "more than %d pairs of geometries can touch; let groups and touches "
                        "(contype and conaffinity) name those that matter, or exclude links",
                        NSI_MAX_PAIRS);
    }

    // Names of pairs are part of parameter names and must differ.
    for (uint32_t at = nsi_index_first(&m->names, hash), other; nsi_index_at(&m->names, at, &other);
         at = nsi_index_next(&m->names, at)) {
        if (strcmp(out->contacts.data[other].def.name, contact.def.name) == 0) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "pair \"%s\": another pair has this name; name the pair or its "
                            "geometries differently",
                            contact.def.name);
        }
    }

    // Automatic parameters depend on both bodies.
    choose_pair_values(m, &contact);
    if (!nsi_array_push(&m->allocator, &out->contacts, contact) ||
        !nsi_index_insert(&m->allocator, &m->names, hash, id)) {
        return nsi_fail_nomem(error);
    }
    out->in_pair[contact.a] = out->in_pair[contact.b] = true;
    return NS_OK;
}

// The pair of two geometries, which follows from their groups.
static ns_status make_pair(maker* m, uint32_t a, uint32_t b, ns_error* error) {
    const nsi_geom* geoms = m->from->geoms;
    char name[NSI_PAIR_MAX_NAME + 1];
    int length = snprintf(name, sizeof name, "%s:%s", geoms[a].def.name, geoms[b].def.name);
    nsi_contact contact = {.def = ns_default_contact_def(), .a = a, .b = b};
    contact.def.name = nsi_arena_string(&m->out->strings, name, (size_t)length);
    if (!contact.def.name) return nsi_fail_nomem(error);
    return add_pair(m, contact, error);
}

static uint32_t row_of(const ns_geom_def* geom) {
    return has_shape(geom, true) ? (uint32_t)geom->type : NTYPES;
}

static void count_unhandled(maker* m, uint32_t a, uint32_t b) {
    uint32_t x = row_of(&m->from->geoms[a].def), y = row_of(&m->from->geoms[b].def);
    uint32_t first = x < y ? x : y, second = x < y ? y : x;
    if (m->unhandled[first][second].count++ > 0) return;
    m->unhandled[first][second].a = a, m->unhandled[first][second].b = b;
}

// The two geometries, in their order, if groups, bodies and exclusions let them touch.
static ns_status try_pair(maker* m, uint32_t earlier, uint32_t later, ns_error* error) {
    const nsi_geom *e = &m->from->geoms[earlier], *l = &m->from->geoms[later];
    if (!(e->def.groups & l->def.touches) && !(l->def.groups & e->def.touches)) return NS_OK;
    uint32_t e_body = body_of(m, e->link), l_body = body_of(m, l->link);
    if (e_body == l_body || carries(m, e_body, l_body) || is_pair_given(m, earlier, later) ||
        links_excluded(m, e->link, l->link) || links_excluded(m, e_body, l_body)) {
        return NS_OK;
    }
    if (m->from->apart && e_body != NSI_NONE && l_body != NSI_NONE &&
        m->places[e_body].tree == m->places[l_body].tree) {
        return NS_OK;
    }
    // The normal is to point from what stands still to what moves.
    bool swap = l_body == NSI_NONE;
    uint32_t a = swap ? earlier : later, b = swap ? later : earlier;
    if (nsi_geoms_can_touch(&e->def, &l->def)) return make_pair(m, a, b, error);
    count_unhandled(m, a, b);
    return NS_OK;
}

// Geometries that may be in a pair, in their order: all of them, and those that move.
typedef struct candidates {
    NSI_ARRAY(uint32_t) all, moving;
} candidates;

static bool find_candidates(const maker* m, candidates* c) {
    uint32_t groups = 0, touches = 0;
    for (uint32_t i = 0; i < m->from->ngeom; i++) {
        const ns_geom_def* def = &m->from->geoms[i].def;
        if (!def->collision) continue;
        groups |= def->groups, touches |= def->touches;
    }
    for (uint32_t i = 0; i < m->from->ngeom; i++) {
        const nsi_geom* geom = &m->from->geoms[i];
        if (!geom->def.collision) continue;
        if (!(geom->def.groups & touches) && !(geom->def.touches & groups)) continue;
        if (!nsi_array_push(&m->allocator, &c->all, i)) return false;
        if (body_of(m, geom->link) != NSI_NONE && !nsi_array_push(&m->allocator, &c->moving, i)) {
            return false;
        }
    }
    return true;
}

static ns_status try_candidates(maker* m, const candidates* c, ns_error* error) {
    // Far above any robot, and still less than a second.
    const uint64_t most = 1 << 28;
    if ((uint64_t)c->moving.count * c->all.count > most) {
        return nsi_fail(error, NS_ERR_LIMIT,
                        "%u geometries that move and %u in all are for contact, too many to look "
                        "for pairs; set groups and touches (contype and conaffinity) of some to 0",
                        c->moving.count, c->all.count);
    }
    for (uint32_t k = 0; k < c->all.count; k++) {
        uint32_t later = c->all.data[k];
        // Two geometries of the world never touch.
        bool moves = body_of(m, m->from->geoms[later].link) != NSI_NONE;
        const uint32_t* others = moves ? c->all.data : c->moving.data;
        uint32_t count = moves ? k : c->moving.count;
        for (uint32_t j = 0; j < count && others[j] < later; j++) {
            ns_status status = try_pair(m, others[j], later, error);
            if (status != NS_OK) return status;
        }
    }
    return NS_OK;
}

static const char* row_name(uint32_t row) {
    return row == NTYPES ? "mesh (without vertices)" : ns_choice_name(&ns_geom_types, (int)row);
}

static bool note_unhandled(maker* m) {
    for (uint32_t x = 0; x <= NTYPES; x++) {
        for (uint32_t y = x; y <= NTYPES; y++) {
            uint32_t count = m->unhandled[x][y].count;
            if (count == 0) continue;
            char note[NSI_PAIR_MAX_NAME + 200];
            int length = snprintf(
                note, sizeof note,
                "contact between %s and %s geometries is not simulated (%u pair%s%s%s:%s); "
                "changes the motion where they touch",
                row_name(x), row_name(y), count, count == 1 ? "" : "s",
                count == 1 ? ", " : ", the first is ",
                m->from->geoms[m->unhandled[x][y].a].def.name,
                m->from->geoms[m->unhandled[x][y].b].def.name);
            const char* kept = nsi_arena_string(&m->out->strings, note, (size_t)length);
            if (!kept || !nsi_array_push(&m->allocator, &m->out->notes, kept)) return false;
        }
    }
    return true;
}

static ns_status make_all(maker* m, candidates* c, ns_error* error) {
    if (!index_source(m)) return nsi_fail_nomem(error);
    find_link_bodies(m);
    for (uint32_t i = 0; i < m->from->ngiven; i++) {
        ns_status status = add_pair(m, m->from->given[i], error);
        if (status != NS_OK) return status;
    }
    if (!find_candidates(m, c)) return nsi_fail_nomem(error);
    ns_status status = try_candidates(m, c, error);
    if (status != NS_OK) return status;
    return note_unhandled(m) ? NS_OK : nsi_fail_nomem(error);
}

ns_status nsi_pairs_make(const nsi_pair_source* source, const ns_allocator* allocator,
                         nsi_pairs* out, ns_error* error) {
    *out = (nsi_pairs){.strings = {.allocator = *allocator}};
    maker m = {.from = source, .allocator = *allocator, .out = out};
    candidates c = {0};
    m.places = nsi_alloc(allocator, source->nlink * sizeof *m.places);
    out->in_pair = nsi_alloc_zeroed(allocator, source->ngeom * sizeof *out->in_pair);
    ns_status status = m.places && out->in_pair ? make_all(&m, &c, error) : nsi_fail_nomem(error);
    nsi_free(allocator, m.places);
    nsi_index_free(allocator, &m.given);
    nsi_index_free(allocator, &m.exclusions);
    nsi_index_free(allocator, &m.names);
    nsi_array_free(allocator, &c.all);
    nsi_array_free(allocator, &c.moving);
    return status;
}

void nsi_pairs_free(nsi_pairs* pairs) {
    ns_allocator allocator = pairs->strings.allocator;
    nsi_array_free(&allocator, &pairs->contacts);
    nsi_array_free(&allocator, &pairs->notes);
    nsi_free(&allocator, pairs->in_pair);
    pairs->in_pair = NULL;
    nsi_arena_free(&pairs->strings);
}
