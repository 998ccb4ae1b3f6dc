// What a page draws of a model.

#include "report/motion_scene.h"

#include "io/mesh.h"
#include "model/model_data.h"
#include "report/format.h"

#include <math.h>

// What is drawn of a geometry.
typedef struct shape {
    bool drawn;
    nsi_mesh corners;    // of a mesh's file, if the model has none
    nsi_surface surface; // of a mesh's file; empty: corners are drawn
} shape;

typedef struct scene {
    const ns_model* model;
    const ns_allocator* allocator;
    shape* shapes;      // (ngeom)
    uint32_t triangles; // of all surfaces
    bool too_many;      // triangles: corners are drawn
} scene;

// ---- meshes ----------------------------------------------------------------------------------

// A file that is gone, or not read, leaves the shape as it is; NS_ERR_NOMEM is the only failure.
static ns_status read_file(scene* s, const char* path, const ns_geom_def* def, shape* to) {
    ns_status status = NS_OK;
    if (def->nvertex == 0) status = nsi_mesh_read(path, s->allocator, &to->corners, NULL);
    if (status != NS_OK || s->too_many) return status == NS_ERR_NOMEM ? status : NS_OK;
    status = nsi_surface_read(path, NSI_SCENE_MAX_TRIANGLES - s->triangles, s->allocator,
                              &to->surface, NULL);
    if (status == NS_OK) {
        // Vertices take room, too, whether a triangle has them or not.
        uint32_t triangles = to->surface.triangles.count / 3,
                 vertices = to->surface.vertices.count / 3;
        s->triangles += triangles > vertices / 3 ? triangles : vertices / 3;
    } else {
        nsi_surface_free(s->allocator, &to->surface);
        s->too_many = status == NS_ERR_LIMIT;
    }
    return status == NS_ERR_NOMEM ? status : NS_OK;
}

static ns_status read_mesh(scene* s, const ns_geom_def* def, shape* to) {
    return def->path ? read_file(s, def->path, def, to) : NS_OK;
}

// The triangles of a height field, in unit coordinates as the vertices of a mesh.
static ns_status make_hfield(scene* s, const ns_geom_def* def, shape* to) {
    uint32_t nrow = def->nrow, ncol = def->ncol, cells = (nrow - 1) * (ncol - 1);
    if (s->too_many || 2 * cells > NSI_SCENE_MAX_TRIANGLES - s->triangles) return NS_OK;
    if (!nsi_array_reserve(s->allocator, &to->surface.vertices, 3 * nrow * ncol) ||
        !nsi_array_reserve(s->allocator, &to->surface.triangles, 6 * cells)) {
        return NS_ERR_NOMEM;
    }
    for (uint32_t k = 0; k < nrow * ncol; k++) {
        double* v = to->surface.vertices.data + 3 * (size_t)k;
        uint32_t row = k / ncol;
        v[0] = 2.0 * (k % ncol) / (ncol - 1) - 1.0;
        v[1] = 2.0 * row / (nrow - 1) - 1.0;
        v[2] = def->elevation[k];
    }
    to->surface.vertices.count = 3 * nrow * ncol;
    for (uint32_t k = 0; k < cells; k++) {
        uint32_t first = k / (ncol - 1) * ncol + k % (ncol - 1);
        const uint32_t corners[6] = {first, first + 1,        first + ncol + 1,
                                     first, first + ncol + 1, first + ncol};
        memcpy(to->surface.triangles.data + 6 * (size_t)k, corners, sizeof corners);
    }
    to->surface.triangles.count = 6 * cells;
    s->triangles += 2 * cells;
    return NS_OK;
}

// ---- choice ----------------------------------------------------------------------------------

// Draw those geometries of a link (NSI_NONE: the world) that are to be seen, or those that are not.
static ns_status scene_draw(scene* s, uint32_t link, bool visual, bool* any) {
    ns_status status = NS_OK;
    for (uint32_t g = 0; g < s->model->sizes.ngeom && status == NS_OK; g++) {
        const nsi_geom* geom = &s->model->geoms[g];
        shape* to = &s->shapes[g];
        if (geom->link != link || geom->def.visual != visual) continue;
        if (geom->def.type == NS_GEOM_MESH) status = read_mesh(s, &geom->def, to);
        if (geom->def.type == NS_GEOM_HFIELD) status = make_hfield(s, &geom->def, to);
        to->drawn = geom->def.type != NS_GEOM_MESH || geom->def.nvertex > 0 ||
                    to->corners.count > 0 || to->surface.triangles.count > 0;
        *any = *any || to->drawn;
    }
    return status;
}

static ns_status scene_choose(scene* s) {
    ns_status status = NS_OK;
    for (uint32_t i = 0; i <= s->model->sizes.nlink && status == NS_OK; i++) {
        uint32_t link = i == 0 ? NSI_NONE : i - 1;
        bool any = false;
        status = scene_draw(s, link, true, &any);
        if (status == NS_OK && !any) status = scene_draw(s, link, false, &any);
    }
    return status;
}

// ---- writing ---------------------------------------------------------------------------------

static void write_number(ns_json* j, const char* key, uint32_t number) {
    ns_json_number(j, key, number == NSI_NONE ? -1.0 : number);
}

static void write_link(const ns_model* model, uint32_t number, ns_json* j) {
    const nsi_link* link = &model->links[number];
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", link->def.name);
    write_number(j, "parent", link->parent);
    ns_json_open(j, "joint", '{');
    ns_json_text(j, "name", link->def.joint);
    ns_json_text(j, "type", ns_joint_type_info(link->def.joint_type)->name);
    // The joint turns about its axis or slides along it, which leaves it as it is in the link.
    ns_json_numbers(j, "axis", link->def.axis, 3);
    ns_json_close(j);
    ns_json_close(j);
}

// Seven digits are enough for a picture.
static void write_vertices(ns_json* j, const double* vertices, size_t count) {
    ns_json_open(j, "vertices", '[');
    for (size_t k = 0; k < 3 * count; k++) {
        nsi_formatted shown = nsi_format_short(vertices[k], 7);
        ns_json_value(j, NULL, shown.text, strlen(shown.text));
    }
    ns_json_close(j);
}

static void write_shape(const scene* s, const ns_geom_def* def, const shape* of, ns_json* j) {
    const nsi_surface* surface = &of->surface;
    if (surface->triangles.count > 0 && !s->too_many) {
        write_vertices(j, surface->vertices.data, surface->vertices.count / 3);
        ns_json_open(j, "triangles", '[');
        for (uint32_t k = 0; k < surface->triangles.count; k++) {
            ns_json_count(j, NULL, surface->triangles.data[k]);
        }
        ns_json_close(j);
    } else if (def->nvertex > 0) {
        write_vertices(j, def->vertices, def->nvertex);
    } else if (of->corners.count > 0) {
        write_vertices(j, of->corners.corners, of->corners.count);
    }
}

static void write_geom(const scene* s, uint32_t number, ns_json* j) {
    const nsi_geom* geom = &s->model->geoms[number];
    const ns_geom_def* def = &geom->def;
    double pose[7];
    memcpy(pose, def->pose.position, 3 * sizeof *pose);
    memcpy(pose + 3, def->pose.quaternion, 4 * sizeof *pose);
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", def->name);
    write_number(j, "link", geom->link);
    ns_json_text(j, "type", ns_choice_name(&ns_geom_types, (int)def->type));
    ns_json_numbers(j, "size", def->size, 3);
    ns_json_numbers(j, "pose", pose, 7);
    ns_json_numbers(j, "color", def->color, 4);
    write_shape(s, def, &s->shapes[number], j);
    ns_json_close(j);
}

static void write_up(const ns_model* model, ns_json* j) {
    const double* g = model->world.gravity;
    double length = hypot(hypot(g[0], g[1]), g[2]), up[3] = {0.0, 0.0, 1.0};
    for (int k = 0; k < 3 && length > 0.0 && isfinite(length); k++) up[k] = 0.0 - g[k] / length;
    ns_json_numbers(j, "up", up, 3);
}

ns_status nsi_scene_write(const ns_model* model, const ns_allocator* allocator, const char* key,
                          ns_json* j, ns_error* error) {
    uint32_t ngeom = model->sizes.ngeom;
    scene s = {.model = model, .allocator = allocator};
    s.shapes = nsi_alloc_zeroed(allocator, ngeom * sizeof *s.shapes);
    if (!s.shapes) return nsi_fail_nomem(error);
    ns_status status = scene_choose(&s);
    if (status == NS_OK) {
        ns_json_open(j, key, '{');
        write_up(model, j);
        ns_json_open(j, "links", '[');
        for (uint32_t i = 0; i < model->sizes.nlink; i++) write_link(model, i, j);
        ns_json_close(j);
        ns_json_open(j, "geoms", '[');
        for (uint32_t g = 0; g < ngeom; g++) {
            if (s.shapes[g].drawn) write_geom(&s, g, j);
        }
        ns_json_close(j);
        ns_json_close(j);
    }
    for (uint32_t g = 0; g < ngeom; g++) nsi_surface_free(allocator, &s.shapes[g].surface);
    nsi_free(allocator, s.shapes);
    return status == NS_OK ? NS_OK : nsi_fail_nomem(error);
}
