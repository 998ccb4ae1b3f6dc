// Geometries of a model builder.

#include "model/builder.h"

#include "math/convex_hull.h"

#include <math.h>
#include <stdio.h>

// Far above any robot; they keep sizes within 32 bits.
enum {
    MAX_GEOMS = 1 << 20,
    MAX_ALL_VERTICES = 1 << 22, // of all geometries
    MAX_ALL_ELEVATIONS = 1 << 22
};

// "<link>_geom<k>", k counting the link's geometries without a name; names that are taken are left
// out for good, so that this takes no longer than there are names.
static void make_geom_name(ns_model_builder* builder, const char* link, uint32_t number, char* name,
                           size_t size) {
    uint32_t* next =
        number == NSI_NONE ? &builder->next_world_geom : &builder->next_geom.data[number];
    do {
        snprintf(name, size, "%s_geom%u", link, (*next)++);
    } while (nsi_builder_find_geom(builder, name) != NSI_NONE);
}

// A plane may be drawn with any size, and a plate may have no thickness; the scale of a mesh may be
// negative.
static nsi_number_rule size_rule(ns_geom_type type, uint32_t i) {
    switch (type) {
    case NS_GEOM_MESH: return NSI_NUMBER_ANY;
    case NS_GEOM_PLANE:
    case NS_GEOM_POLYGON: return NSI_NUMBER_NOT_NEGATIVE;
    case NS_GEOM_ELLIPSE: return i < 2 ? NSI_NUMBER_POSITIVE : NSI_NUMBER_NOT_NEGATIVE;
    default: return NSI_NUMBER_POSITIVE;
    }
}

static ns_status check_geom_size(ns_geom_def* def, ns_error* error) {
    static const uint32_t nsize[] = {1, 2, 2, 3, 2, 3, 3, 1, 3, 0, 3};
    nsi_builder_part of = {"geometry", def->name};
    for (uint32_t i = 0; i < nsize[def->type]; i++) {
        ns_status status =
            nsi_builder_check_number(of, "size", def->size[i], size_rule(def->type, i), error);
        if (status != NS_OK) return status;
    }
    for (uint32_t i = nsize[def->type]; i < 3; i++) def->size[i] = 0.0;
    return NS_OK;
}

static ns_status check_geom_numbers(ns_geom_def* def, ns_error* error) {
    nsi_builder_part of = {"geometry", def->name};
    if ((uint32_t)def->type > NS_GEOM_HFIELD) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "geometry \"%s\": type is none of ns_geom_type",
                        def->name);
    }

    // Shape and pose.
    ns_status status = check_geom_size(def, error);
    if (status == NS_OK) status = nsi_builder_check_pose(of, "pose", &def->pose, error);

    // Contact parameters; automatic ones are chosen later.
    for (uint32_t i = 0; i < 3 && status == NS_OK; i++) {
        status = nsi_builder_check_number(of, "friction", def->friction[i], NSI_NUMBER_NOT_NEGATIVE,
                                          error);
    }
    uint32_t condim = def->condim;
    if (status == NS_OK && condim != 1 && condim != 3 && condim != 4 && condim != 6) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "geometry \"%s\": condim must be 1, 3, 4 or 6",
                        def->name);
    }
    if (status == NS_OK) status = nsi_builder_check_numbers(of, "color", def->color, 4, error);
    if (status == NS_OK)
        status =
            nsi_builder_check_number(of, "restitution", def->restitution, NSI_NUMBER_SHARE, error);
    if (status == NS_OK) {
        status = nsi_builder_check_number(of, "stiffness",
                                          nsi_builder_if_given(def->stiffness, NS_CONTACT_AUTO),
                                          NSI_NUMBER_NOT_NEGATIVE, error);
    }
    if (status == NS_OK) {
        status = nsi_builder_check_number(of, "damping",
                                          nsi_builder_if_given(def->damping, NS_CONTACT_AUTO),
                                          NSI_NUMBER_NOT_NEGATIVE, error);
    }
    if (status == NS_OK) {
        double exponent = def->exponent == NS_CONTACT_AUTO ? 1.5 : def->exponent;
        status = nsi_builder_check_number(of, "exponent", exponent, NSI_NUMBER_ONE_OR_MORE, error);
    }

    if (status != NS_OK) return status;
    for (uint32_t i = 0; i < 4; i++) def->color[i] = fmin(1.0, fmax(0.0, def->color[i]));
    return NS_OK;
}

static ns_status check_vertices(const ns_model_builder* builder, const ns_geom_def* def,
                                ns_error* error) {
    bool mesh = def->type == NS_GEOM_MESH, polygon = def->type == NS_GEOM_POLYGON;
    bool may = mesh || polygon || def->type == NS_GEOM_POINTS;
    nsi_builder_part of = {"geometry", def->name};
    const char* fault = NULL;
    if (def->mesh && !mesh) fault = "mesh must be NULL unless the type is NS_GEOM_MESH";
    if (mesh && !def->mesh && def->nvertex == 0) fault = "mesh must name a file, or give vertices";
    if (def->nvertex > 0 && !def->vertices) fault = "vertices is NULL and nvertex is not 0";
    if (def->nvertex > 0 && !may) fault = "only meshes, polygons and points have vertices";
    if (def->nvertex == 0 && may && !mesh) fault = "vertices must be given";
    if (fault) return nsi_fail(error, NS_ERR_ARGUMENT, "geometry \"%s\": %s", def->name, fault);
    if (def->nvertex > NSI_MAX_VERTICES || def->nvertex > MAX_ALL_VERTICES - builder->nvertex) {
        return nsi_fail(error, NS_ERR_LIMIT,
                        "geometry \"%s\": too many vertices, %u; at most %d, and %d in a model",
                        def->name, def->nvertex, NSI_MAX_VERTICES, MAX_ALL_VERTICES);
    }
    ns_status status =
        nsi_builder_check_numbers(of, "vertices", def->vertices, 3 * def->nvertex, error);
    if (status != NS_OK || !polygon) return status;
    fault = nsi_outline_fault(def->vertices, def->nvertex);
    if (!fault) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "geometry \"%s\": vertices: the outline %s", def->name,
                    fault);
}

static ns_status check_elevation(const ns_model_builder* builder, const ns_geom_def* def,
                                 ns_error* error) {
    nsi_builder_part of = {"geometry", def->name};
    bool hfield = def->type == NS_GEOM_HFIELD;
    if (!hfield && (def->elevation || def->nrow || def->ncol)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "geometry \"%s\": only height fields have elevation, nrow and ncol",
                        def->name);
    }
    if (!hfield) return NS_OK;
    if (!def->elevation || def->nrow < 2 || def->ncol < 2) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "geometry \"%s\": a height field needs elevation and at least 2 rows and "
                        "2 columns",
                        def->name);
    }
    if (def->nrow > NSI_MAX_ELEVATIONS / def->ncol ||
        def->nrow * def->ncol > MAX_ALL_ELEVATIONS - builder->nelevation) {
        return nsi_fail(error, NS_ERR_LIMIT,
                        "geometry \"%s\": too many elevations, %u x %u; at most %d, and %d in a "
                        "model: use a coarser grid, or several height fields",
                        def->name, def->nrow, def->ncol, NSI_MAX_ELEVATIONS, MAX_ALL_ELEVATIONS);
    }
    return nsi_builder_check_numbers(of, "elevation", def->elevation, def->nrow * def->ncol, error);
}

// Of a mesh with many vertices only the corners of its hull stay; false when out of memory.
static bool keep_mesh_corners(const ns_model_builder* builder, double* vertices, uint32_t* count) {
    uint32_t kept = 0;
    bool* is_corner = nsi_alloc(&builder->allocator, *count * sizeof *is_corner);
    bool found =
        is_corner && nsi_convex_hull(vertices, *count, &builder->allocator, is_corner) == NS_OK;
    for (uint32_t k = 0; found && k < *count; k++) {
        if (!is_corner[k]) continue;
        memmove(vertices + 3 * (size_t)kept++, vertices + 3 * (size_t)k, 3 * sizeof *vertices);
    }
    nsi_free(&builder->allocator, is_corner);
    if (found) *count = kept;
    return found;
}

// Copy what a geometry points to; false when out of memory.
static bool keep_geom(ns_model_builder* builder, ns_geom_def* def) {
    // Names.
    def->name = nsi_builder_keep(builder, def->name);
    def->link = nsi_builder_keep(builder, def->link);
    bool kept = def->name && def->link;
    if (def->mesh) {
        def->mesh = nsi_builder_keep(builder, def->mesh);
        kept = kept && def->mesh;
    }
    if (def->path) {
        def->path = nsi_builder_keep(builder, def->path);
        kept = kept && def->path;
    }

    // Elevations of a height field.
    if (def->elevation) {
        size_t size = (size_t)def->nrow * def->ncol * sizeof *def->elevation;
        double* elevation = nsi_arena_alloc(&builder->strings, size);
        if (!elevation) return false;
        def->elevation = memcpy(elevation, def->elevation, size);
    }

    // Vertices: those of a polygon in order, those of a large mesh without inner ones.
    if (def->nvertex == 0) {
        def->vertices = NULL;
        return kept;
    }
    size_t size = 3 * (size_t)def->nvertex * sizeof *def->vertices;
    double* vertices = nsi_arena_alloc(&builder->strings, size);
    if (!vertices) return false;
    memcpy(vertices, def->vertices, size);
    if (def->type == NS_GEOM_POLYGON) nsi_outline_orient(vertices, def->nvertex);
    def->vertices = vertices;
    if (def->type == NS_GEOM_MESH && def->nvertex > NSI_MAX_HULL_VERTICES) {
        kept = kept && keep_mesh_corners(builder, vertices, &def->nvertex);
    }
    return kept;
}

ns_status ns_model_builder_add_geom(ns_model_builder* builder, const ns_geom_def* given,
                                    ns_error* error) {
    ns_status status = nsi_builder_check(builder, given, "ns_model_builder_add_geom", error);
    if (status != NS_OK) return status;
    nsi_geom geom = {.def = *given, .link = NSI_NONE};
    ns_geom_def* def = &geom.def;

    // The link it is fixed to.
    if (!def->link) def->link = "world";
    if (!nsi_builder_is_world(def->link)) {
        geom.link = nsi_builder_find_link(builder, def->link);
        if (geom.link == NSI_NONE) {
            return nsi_fail(
                error, NS_ERR_ARGUMENT, "geometry \"%.*s\": link names no earlier link \"%.*s\"",
                NSI_MODEL_MAX_NAME, def->name ? def->name : "", NSI_MODEL_MAX_NAME, def->link);
        }
    }

    // A name: given, or made from that of the link.
    char name[NSI_MODEL_MAX_NAME + sizeof "_geom4294967295"];
    if (builder->geoms.count >= MAX_GEOMS) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d geometries", MAX_GEOMS);
    }
    if (!def->name) {
        make_geom_name(builder, def->link, geom.link, name, sizeof name);
        def->name = name;
    }
    status = nsi_builder_check_name("geometry", def->name, error);
    if (status != NS_OK) return status;
    if (nsi_builder_find_geom(builder, def->name) != NSI_NONE) {
        return nsi_builder_fail_duplicate("geometry", def->name, error);
    }

    status = check_geom_numbers(def, error);
    if (status == NS_OK) status = check_vertices(builder, def, error);
    if (status == NS_OK) status = check_elevation(builder, def, error);
    if (status != NS_OK) return status;

    // Keep a copy under its name.
    uint32_t id = builder->geoms.count;
    if (!keep_geom(builder, def) || !nsi_array_reserve(&builder->allocator, &builder->geoms, 1) ||
        !nsi_index_insert(&builder->allocator, &builder->geom_names, nsi_name_hash(def->name),
                          id)) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    builder->geoms.data[builder->geoms.count++] = geom;
    builder->nvertex += def->nvertex;
    builder->nelevation += def->nrow * def->ncol;
    return NS_OK;
}
