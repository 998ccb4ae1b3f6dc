// A robot file names its meshes relative to its own folder, "../meshes/arm.stl" say. The copies keep
// these relations, so that nothing in the robot file changes: the robot stands as many folders below
// folder/robot as its meshes lead up.

#include "fit/portable.h"

#include "io/file.h"
#include "io/mesh.h"
#include "model/model_data.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum {
    MAX_COPY = 64 << 20, // bytes
    MAX_LEVELS = 1,      // that meshes may lie above the robot file: packages have them there
    MAX_TRIANGLES = 1 << 23
};

typedef struct robot_copy {
    const ns_model* model;
    const char* from; // path of the robot file
    char* folder;     // of the copy, ending with '/'
    nsi_copy_notes* notes;
    const ns_allocator* memory;
    ns_error* error;
} robot_copy;

static const char* base_name(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool nsi_same_file(const char* a, const char* b) {
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

void nsi_copy_notes_free(const ns_allocator* memory, nsi_copy_notes* notes) {
    for (uint32_t k = 0; k < notes->count; k++) nsi_free(memory, notes->data[k]);
    nsi_array_free(memory, notes);
}

// Keep a note once, since several geometries may share a mesh.
static ns_status copy_note(const robot_copy* c, const char* name, const char* why) {
    char text[600];
    if (!c->notes) return NS_OK;
    snprintf(text, sizeof text, "%.200s was not copied to the result: %.300s.", name, why);
    for (uint32_t k = 0; k < c->notes->count; k++) {
        if (strcmp(c->notes->data[k], text) == 0) return NS_OK;
    }
    char* kept = nsi_alloc(c->memory, strlen(text) + 1);
    if (kept) memcpy(kept, text, strlen(text) + 1);
    if (kept && nsi_array_push(c->memory, c->notes, kept)) return NS_OK;
    nsi_free(c->memory, kept);
    return nsi_fail_nomem(c->error);
}

// Make all folders above a path.
static ns_status make_folders(char* path, ns_error* error) {
    for (char* slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int made = mkdir(path, 0777), why = errno;
        if (made != 0 && why != EEXIST) {
            return nsi_fail(error, NS_ERR_IO, "cannot make the folder %s: %s", path, strerror(why));
        }
        *slash = '/';
    }
    return NS_OK;
}

// Write a copy. One that is the original itself, or a link to it, stays as it is.
static ns_status copy_file_bytes(const robot_copy* c, const nsi_bytes* bytes, const char* from,
                                 char* to) {
    if (nsi_same_file(from, to)) return NS_OK;
    ns_status status = make_folders(to, c->error);
    if (status != NS_OK) return status;
    return nsi_file_write(to, bytes->data, bytes->count, c->memory, c->error);
}

static ns_status copy_robot_file(const robot_copy* c, char* to) {
    nsi_bytes bytes = {0};
    ns_status status = nsi_file_read(c->from, MAX_COPY, c->memory, &bytes, c->error);
    if (status == NS_OK && bytes.count > MAX_COPY) {
        status = nsi_fail(c->error, NS_ERR_LIMIT, "%.200s: files of more than 64 MB are not copied",
                          c->from);
    }
    if (status == NS_OK) status = copy_file_bytes(c, &bytes, c->from, to);
    nsi_array_free(c->memory, &bytes);
    return status;
}

// ---- meshes --------------------------------------------------------------------------------------

// The path of a mesh relative to the folder of its robot file, or NULL: it is elsewhere, or there is no such
// file.
static const char* relative_mesh(const robot_copy* c, const ns_geom_def* geom) {
    const char* folder = c->model->folder ? c->model->folder : "";
    size_t length = strlen(folder);
    if (!geom->path || strncmp(geom->path, folder, length) != 0) return NULL;
    return geom->path[length] == '/' ? NULL : geom->path + length;
}

// How many folders a relative path leads up at most.
static uint32_t levels_up(const char* path) {
    int depth = 0, least = 0;
    for (const char* part = path; part; part = strchr(part, '/')) {
        if (*part == '/') part++;
        size_t length = strcspn(part, "/");
        if (length == 2 && strncmp(part, "..", 2) == 0) {
            depth--;
        } else if (length > 0 && !(length == 1 && *part == '.') && part[length] == '/') {
            depth++;
        }
        if (depth < least) least = depth;
    }
    return (uint32_t)-least;
}

// Are these bytes a mesh? A robot file may name any file as one that is only to be looked at.
static ns_status check_mesh(const robot_copy* c, const nsi_bytes* bytes, const char* path,
                            bool collides, ns_error* error) {
    nsi_mesh corners;
    nsi_surface surface = {0};
    if (bytes->count > MAX_COPY) {
        return nsi_fail(error, NS_ERR_LIMIT, "it has more than 64 MB");
    }
    if (collides)
        return nsi_mesh_parse(bytes->data, bytes->count, path, c->memory, &corners, error);
    ns_status status = nsi_surface_parse(bytes->data, bytes->count, path, MAX_TRIANGLES, c->memory,
                                         &surface, error);
    nsi_surface_free(c->memory, &surface);
    return status;
}

// Copy a mesh to the same relative path, or note why it is left out.
static ns_status copy_mesh(const robot_copy* c, const char* name, bool collides) {
    const char* folder = c->model->folder ? c->model->folder : "";

    // Names of meshes are relative to the model; the copies keep them.
    size_t size = strlen(name) + 1;
    char* from = nsi_alloc(c->memory, strlen(folder) + size);
    char* to = nsi_alloc(c->memory, strlen(c->folder) + size);
    ns_status status = from && to ? NS_OK : nsi_fail_nomem(c->error);
    if (status == NS_OK) {
        snprintf(from, strlen(folder) + size, "%s%s", folder, name);
        snprintf(to, strlen(c->folder) + size, "%s%s", c->folder, name);

        // Only what the reader of meshes accepts is copied, and only what was checked is written.
        nsi_bytes bytes = {0};
        ns_error inner;
        status = nsi_mesh_is_path(from)
                     ? nsi_file_read(from, MAX_COPY, c->memory, &bytes, &inner)
                     : nsi_fail(&inner, NS_ERR_UNSUPPORTED, "it is not " NSI_MESH_FORMATS);
        if (status == NS_OK) status = check_mesh(c, &bytes, from, collides, &inner);
        if (status == NS_OK) {
            status = copy_file_bytes(c, &bytes, from, to);
        } else if (status == NS_ERR_NOMEM) {
            status = nsi_fail_nomem(c->error);
        } else {
            // What cannot be copied is noted; the fit itself is saved in any case.
            status = copy_note(c, name, inner.message);
        }
        nsi_array_free(c->memory, &bytes);
    }
    nsi_free(c->memory, from);
    nsi_free(c->memory, to);
    return status;
}

// What the first of two visits finds out.
typedef struct mesh_survey {
    uint32_t levels; // that meshes lead up, at most
    bool too_far;    // one that touches something leads further up than is copied
} mesh_survey;

// Visit the meshes of a robot: look where they are, or copy them.
static ns_status visit_meshes(const robot_copy* c, mesh_survey* survey) {
    ns_status status = NS_OK;
    uint32_t count = ns_model_get_sizes(c->model).ngeom;
    for (uint32_t k = 0; k < count && status == NS_OK; k++) {
        // Meshes of packages elsewhere stay where they are; missing ones are skipped.
        const ns_geom_def* geom = ns_model_geom(c->model, k);
        bool collides = geom->nvertex > 0;
        const char* name = relative_mesh(c, geom);
        if (!name) { // a copy would not find a mesh that is elsewhere
            if (survey && collides && geom->path) survey->too_far = true;
            continue;
        }

        uint32_t levels = levels_up(name);
        if (survey && levels > MAX_LEVELS) {
            survey->too_far = survey->too_far || collides;
            status = copy_note(c, name, "it is more than one folder above the robot file");
        } else if (survey) {
            if (levels > survey->levels) survey->levels = levels;
        } else if (levels <= MAX_LEVELS) {
            status = copy_mesh(c, name, collides);
        }
    }
    return status;
}

// ---- robots --------------------------------------------------------------------------------------

// Copy a robot with its meshes below `root`, and give the path of the copy from the arena.
static ns_status copy_robot(robot_copy* c, const char* root, nsi_arena* arena, const char** out) {
    // Look at all meshes before anything is written.
    mesh_survey survey = {0};
    ns_status status = visit_meshes(c, &survey);
    if (status != NS_OK) return status;

    // Without a mesh that touches something the copy would move otherwise.
    if (survey.too_far) {
        return copy_note(c, c->from, "not all of its meshes can be; the model refers to it here");
    }

    // As many folders deep as the robot's meshes go up with "../".
    size_t size = strlen(root) + 3 * (size_t)survey.levels + strlen(base_name(c->from)) + 1;
    char *path = nsi_arena_alloc(arena, size), *folder = nsi_alloc(c->memory, size);
    if (path && folder) {
        int used = snprintf(folder, size, "%s", root);
        for (uint32_t k = 0; k < survey.levels; k++) {
            used += snprintf(folder + used, size - (size_t)used, "in/");
        }
        snprintf(path, size, "%s%s", folder, base_name(c->from));

        // Meshes are copied relative to the robot's new place.
        c->folder = folder;

        // The robot comes last: no mesh can take its place.
        status = visit_meshes(c, NULL);
        if (status == NS_OK) status = copy_robot_file(c, path);
        *out = path;
    } else {
        status = nsi_fail_nomem(c->error);
    }
    nsi_free(c->memory, folder);
    return status;
}

ns_status nsi_copy_robots(const char* folder, const ns_model* const* models, nsi_hybrid* file,
                          nsi_copy_notes* notes, const ns_allocator* allocator, ns_error* error) {
    size_t size = strlen(folder) + 40;
    char* root = nsi_alloc(allocator, size);
    ns_status status = root ? NS_OK : nsi_fail_nomem(error);
    uint32_t count = file->robot ? 1 : file->variants.count;
    for (uint32_t k = 0; k < count && status == NS_OK; k++) {
        const char** robot = file->robot ? &file->robot : &file->variants.data[k].robot;
        robot_copy c = {.model = models[k],
                        .from = *robot,
                        .notes = notes,
                        .memory = allocator,
                        .error = error};
        // Variants may have files of the same name in different folders.
        if (file->robot) {
            snprintf(root, size, "%s/robot/", folder);
        } else {
            snprintf(root, size, "%s/robot/%u/", folder, k);
        }
        status = copy_robot(&c, root, &file->arena, robot);
    }
    nsi_free(allocator, root);
    return status;
}
