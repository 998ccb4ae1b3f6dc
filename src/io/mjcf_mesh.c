// Meshes of MJCF as bodies: what they weigh, and primitive shapes that are fitted to them.

#include "io/mjcf.h"
#include "io/numbers.h"
#include "model/pose.h"

#include <math.h>
#include <stdio.h>

// ---- triangles -------------------------------------------------------------------------------

// More triangles than MuJoCo takes.
enum { MAX_TRIANGLES = 500 * 1000 };

// The vertices and faces that stand in the file.
static bool inline_surface(nsi_mjcf* m, const nsi_xml_element* mesh, nsi_surface* out) {
    const ns_allocator* allocator = &m->reader->allocator;
    uint32_t nvertex = 0, nface = 0;
    double *vertices = NULL, *faces = NULL;
    bool read = nsi_mjcf_number_list(m, mesh, "vertex", 3, &vertices, &nvertex) &&
                nsi_mjcf_number_list(m, mesh, "face", 3, &faces, &nface);
    uint32_t points = nvertex / 3;
    for (uint32_t k = 0; read && k < nvertex; k++) {
        read = nsi_array_push(allocator, &out->vertices, vertices[k]) ||
               nsi_reader_fail_nomem(m->reader);
    }
    for (uint32_t k = 0; read && k < nface; k++) {
        bool good = faces[k] >= 0.0 && faces[k] < points && faces[k] == floor(faces[k]);
        if (!good) {
            read = nsi_reader_fail(m->reader, mesh, NS_ERR_PARSE,
                                   "face: %g is not the number of a vertex, 0 to %u", faces[k],
                                   points - 1);
        } else {
            read = nsi_array_push(allocator, &out->triangles, (uint32_t)faces[k]) ||
                   nsi_reader_fail_nomem(m->reader);
        }
    }
    nsi_free(allocator, vertices);
    nsi_free(allocator, faces);
    return read;
}

// Why a file is not read, in words that last.
static bool describe_missing(nsi_mjcf* m, const char* file, nsi_mesh_place place,
                             const char* folder, const char** out) {
    char quote[NSI_QUOTE_SIZE], text[NS_ERROR_SIZE];
    nsi_quote(file, strlen(file), quote);
    if (place == NSI_MESH_MISSING) {
        snprintf(text, sizeof text, "has a file that is not found: %s", quote);
    } else {
        char option[220];
        nsi_mesh_permission(folder, option, sizeof option);
        snprintf(text, sizeof text,
                 "has a file outside of the model's package, %s, which %s allows", quote, option);
    }
    *out = nsi_arena_string(&m->strings, text, strlen(text));
    return *out || nsi_reader_fail_nomem(m->reader);
}

// The triangles of a mesh. Without them, `fault` says why.
static bool load_surface(nsi_mjcf* m, const nsi_xml_element* mesh, nsi_surface* out,
                         const char** fault) {
    nsi_reader* reader = m->reader;
    const char *file = nsi_xml_value(mesh, "file"), *path;
    *fault = NULL;
    if (nsi_xml_value(mesh, "vertex")) return inline_surface(m, mesh, out);
    *fault = "has no file";
    if (!file) return true;
    *fault = "is in a file, and the model was not loaded from one";
    if (!reader->folder) return true;

    if (!nsi_mjcf_find_file(m, file, &path)) return false;
    char whole[NSI_MESH_MAX_PATH];
    nsi_mesh_place place = nsi_reader_find_mesh(reader, path, whole);
    if (place != NSI_MESH_FOUND) return describe_missing(m, path, place, whole, fault);
    ns_error error;
    ns_status status = nsi_surface_read(whole, MAX_TRIANGLES, &reader->allocator, out, &error);
    *fault = "has a file of a format that is not read";
    if (status == NS_ERR_UNSUPPORTED) return true;
    *fault = NULL;
    if (status == NS_OK) return true;
    if (status == NS_ERR_NOMEM) return nsi_reader_fail_nomem(reader);
    return nsi_reader_fail(reader, mesh, status, "%s", error.message);
}

// The asset with its class.
static bool mesh_item(nsi_mjcf* m, uint32_t number, nsi_mjcf_item* out) {
    const nsi_xml_element* mesh = m->meshes.items.data[number].element;
    *out = (nsi_mjcf_item){mesh, NSI_MJCF_MESH, NSI_MJCF_MAIN_CLASS};
    return nsi_mjcf_find_class(m, mesh, "class", NSI_MJCF_MAIN_CLASS, &out->class_number);
}

// MuJoCo moves vertices by refpos, turns them by refquat and scales them: S R' (v - p). Here vertices
// are scaled, and the rest is in the pose.
bool nsi_mjcf_mesh_placement(nsi_mjcf* m, uint32_t number, double scale[3], ns_pose* pose) {
    nsi_mjcf_item mesh;
    double at[3] = {0.0}, q[4] = {1.0, 0.0, 0.0, 0.0};
    uint32_t count, npos, nquat;
    for (int i = 0; i < 3; i++) scale[i] = 1.0;
    if (!mesh_item(m, number, &mesh) || !nsi_mjcf_numbers(m, mesh, "scale", 3, 3, scale, &count) ||
        !nsi_mjcf_numbers(m, mesh, "refpos", 3, 3, at, &npos) ||
        !nsi_mjcf_numbers(m, mesh, "refquat", 4, 4, q, &nquat)) {
        return false;
    }
    if (npos + nquat == 0) return true;
    if (!nsi_normalize(q, 4)) {
        return nsi_reader_fail(m->reader, mesh.element, NS_ERR_PARSE, "refquat gives no rotation");
    }
    bool uniform = scale[0] == scale[1] && scale[1] == scale[2];
    if (nquat > 0 && !uniform) {
        return nsi_reader_fail(m->reader, mesh.element, NS_ERR_UNSUPPORTED,
                               "refquat together with a scale that differs between axes is not "
                               "supported; turn the vertices instead");
    }
    ns_pose moved = {.quaternion = {q[0], -q[1], -q[2], -q[3]}};
    for (int i = 0; i < 3; i++) at[i] *= -scale[i];
    nsi_quat_rotate(moved.quaternion, at, moved.position);
    *pose = nsi_pose_compose(pose, &moved);
    return true;
}

// Scale the vertices. A mirrored mesh would be inside out.
static void scale_surface(const double scale[3], nsi_surface* s) {
    for (uint32_t k = 0; k < s->vertices.count; k++) s->vertices.data[k] *= scale[k % 3];
    if (scale[0] * scale[1] * scale[2] > 0.0) return;
    for (uint32_t k = 0; k < s->triangles.count; k += 3) {
        uint32_t* t = s->triangles.data + k;
        uint32_t swapped = t[1];
        t[1] = t[2];
        t[2] = swapped;
    }
}

// The scaled triangles of an asset.
static bool asset_surface(nsi_mjcf* m, uint32_t number, nsi_surface* out, const char** fault) {
    double scale[3];
    ns_pose pose = nsi_pose_identity();
    if (!nsi_mjcf_mesh_placement(m, number, scale, &pose) ||
        !load_surface(m, m->meshes.items.data[number].element, out, fault)) {
        return false;
    }
    scale_surface(scale, out);
    return true;
}

// Which rule holds for a mesh?
static bool mesh_rule(nsi_mjcf* m, nsi_mjcf_item geom, uint32_t number, nsi_mesh_inertia* out) {
    static const char* const rules[] = {"legacy", "exact", "convex", "shell", NULL};
    static const char* const false_true[] = {"false", "true", NULL};
    nsi_mjcf_item mesh;
    uint32_t rule = m->exact_mesh_inertia ? NSI_MESH_EXACT : NSI_MESH_LEGACY, shell = 0;
    if (!mesh_item(m, number, &mesh) || !nsi_mjcf_word(m, mesh, "inertia", rules, &rule) ||
        !nsi_mjcf_word(m, geom, "shellinertia", false_true, &shell)) {
        return false;
    }
    *out = shell ? NSI_MESH_SHELL : (nsi_mesh_inertia)rule;
    return true;
}

bool nsi_mjcf_mesh_mass_find(nsi_mjcf* m, nsi_mjcf_item geom, uint32_t number, nsi_mesh_mass* out,
                             const char** fault) {
    nsi_mesh_inertia rule;
    nsi_surface surface = {0};
    if (!mesh_rule(m, geom, number, &rule)) return false;

    // Geoms often share a mesh.
    nsi_mjcf_mesh* known = &m->mesh_data.data[number];
    if (!known->mass[rule]) {
        nsi_mjcf_mesh_mass* found = nsi_arena_alloc(&m->strings, sizeof *found);
        if (!found) return nsi_reader_fail_nomem(m->reader);
        bool read = asset_surface(m, number, &surface, &found->fault);
        if (read && !found->fault &&
            nsi_mesh_mass_find(&surface, rule, &m->reader->allocator, &found->mass,
                               &found->fault) != NS_OK) {
            read = nsi_reader_fail_nomem(m->reader);
        }
        nsi_surface_free(&m->reader->allocator, &surface);
        if (!read) return false;
        known->mass[rule] = found;
    }
    *out = known->mass[rule]->mass;
    *fault = known->mass[rule]->fault;
    return true;
}

// ---- fitted shapes ---------------------------------------------------------------------------

// The principal frame of a mesh: MuJoCo's has the largest moment about x and the smallest about z.
static void principal_frame(const nsi_mesh_mass* mass, ns_pose* frame, double moments[3]) {
    // Rounding must not turn axes of a symmetric shape.
    double inertia[6], values[3], vectors[9], r[9];
    double size = mass->inertia[0] + mass->inertia[1] + mass->inertia[2];
    for (int n = 0; n < 6; n++) {
        inertia[n] = n > 2 && fabs(mass->inertia[n]) < 1e-9 * size ? 0.0 : mass->inertia[n];
    }
    nsi_inertia_eigen(inertia, values, vectors);
    for (int k = 0; k < 3; k++) {
        moments[k] = values[2 - k];
        for (int i = 0; i < 3; i++) r[3 * i + k] = vectors[3 * i + 2 - k];
    }
    double x[3] = {r[0], r[3], r[6]}, y[3] = {r[1], r[4], r[7]}, z[3];
    nsi_cross(x, y, z);
    for (int i = 0; i < 3; i++) r[3 * i + 2] = z[i];
    nsi_quat_from_matrix(r, frame->quaternion);
    memcpy(frame->position, mass->com, sizeof mass->com);
}

// Half lengths of the box with these moments and mass, made into the sizes of a shape.
static void fit_to_moments(const double moments[3], double mass, ns_geom_def* geom) {
    double box[3], sum = moments[0] + moments[1] + moments[2];
    for (int i = 0; i < 3; i++) {
        box[i] = 0.5 * sqrt(fmax(0.0, 6.0 * (sum - 2.0 * moments[i]) / mass));
    }
    switch (geom->type) {
    case NS_GEOM_SPHERE: geom->size[0] = (box[0] + box[1] + box[2]) / 3.0; break;
    case NS_GEOM_CAPSULE:
        geom->size[0] = 0.5 * (box[0] + box[1]);
        geom->size[1] = fmax(0.0, box[2] - 0.5 * geom->size[0]);
        break;
    case NS_GEOM_CYLINDER:
        geom->size[0] = 0.5 * (box[0] + box[1]);
        geom->size[1] = box[2];
        break;
    default: memcpy(geom->size, box, sizeof box);
    }
}

// Vertices in the principal frame, and their bounding box.
static void bound_vertices(const ns_pose* frame, nsi_surface* s, double center[3], double half[3]) {
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
    const double *q = frame->quaternion, back[4] = {q[0], -q[1], -q[2], -q[3]};
    for (uint32_t k = 0; k < s->vertices.count; k += 3) {
        double* v = s->vertices.data + k;
        for (int i = 0; i < 3; i++) v[i] -= frame->position[i];
        nsi_quat_rotate(back, v, v);
        for (int i = 0; i < 3; i++) {
            low[i] = fmin(low[i], v[i]);
            high[i] = fmax(high[i], v[i]);
        }
    }
    for (int i = 0; i < 3; i++) {
        center[i] = 0.5 * (low[i] + high[i]);
        half[i] = 0.5 * (high[i] - low[i]);
    }
}

// The shape that encloses the vertices, with its centre in that of their bounding box.
static void fit_to_box(const ns_pose* frame, nsi_surface* s, ns_geom_def* geom, double center[3]) {
    double half[3], ball = 0.0, tube = 0.0, cap = 0.0;
    bound_vertices(frame, s, center, half);
    for (uint32_t k = 0; k < s->vertices.count; k += 3) {
        const double* v = s->vertices.data + k;
        double x = v[0] - center[0], y = v[1] - center[1], z = v[2] - center[2];
        ball = fmax(ball, sqrt(x * x + y * y + z * z));
        tube = fmax(tube, sqrt(x * x + y * y));
    }
    for (uint32_t k = 0; k < s->vertices.count; k += 3) { // under the round ends
        const double* v = s->vertices.data + k;
        double x = v[0] - center[0], y = v[1] - center[1], z = v[2] - center[2];
        cap = fmax(cap, fabs(z) - sqrt(fmax(0.0, tube * tube - x * x - y * y)));
    }
    switch (geom->type) {
    case NS_GEOM_SPHERE: geom->size[0] = ball; break;
    case NS_GEOM_CAPSULE: geom->size[0] = tube, geom->size[1] = cap; break;
    case NS_GEOM_CYLINDER: geom->size[0] = tube, geom->size[1] = half[2]; break;
    default: memcpy(geom->size, half, sizeof half);
    }
}

bool nsi_mjcf_fit_mesh(nsi_mjcf* m, nsi_mjcf_item c, uint32_t number, ns_geom_def* geom) {
    nsi_mesh_mass mass = {0};
    const char* fault = NULL;
    double moments[3], unused[3], scale = 1.0;
    ns_pose frame;
    if (!nsi_mjcf_mesh_mass_find(m, c, number, &mass, &fault) ||
        !nsi_mjcf_number(m, c, "fitscale", &scale)) {
        return false;
    }
    if (fault) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                               "cannot be fitted: the mesh %s; give sizes instead of the mesh",
                               fault);
    }
    principal_frame(&mass, &frame, moments);
    fit_to_moments(moments, mass.mass, geom);

    // With fitaabb the vertices count, not the inertia.
    if (m->fit_bounds) {
        nsi_surface surface = {0};
        double center[3], moved[3];
        bool read = asset_surface(m, number, &surface, &fault);
        if (read) fit_to_box(&frame, &surface, geom, center);
        nsi_surface_free(&m->reader->allocator, &surface);
        if (!read) return false;
        nsi_quat_rotate(frame.quaternion, center, moved);
        for (int i = 0; i < 3; i++) frame.position[i] += moved[i];
    }
    for (int i = 0; i < 3; i++) geom->size[i] *= scale;
    if (!nsi_mjcf_mesh_placement(m, number, unused, &geom->pose)) return false;
    geom->pose = nsi_pose_compose(&geom->pose, &frame);
    return true;
}
