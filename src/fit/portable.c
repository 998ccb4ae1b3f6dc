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

enum { MAX_COPY = 64 << 20 }; // bytes

typedef struct robot_copy {
    const ns_model* model;
    const char* from; // path of the robot file
    char* folder;     // of the copy, ending with '/'
    const ns_allocator* memory;
    ns_error* error;
} robot_copy;

static const char* base_name(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
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

static ns_status copy_file(const char* from, char* to, const ns_allocator* memory,
                           ns_error* error) {
    nsi_bytes bytes = {0};
    ns_status status = nsi_file_read(from, MAX_COPY, memory, &bytes, error);
    if (status == NS_OK && bytes.count > MAX_COPY) {
        status =
            nsi_fail(error, NS_ERR_LIMIT, "%.200s: files of more than 64 MB are not copied", from);
    }
    if (status == NS_OK) status = make_folders(to, error);
    if (status == NS_OK) status = nsi_file_write(to, bytes.data, bytes.count, memory, error);
    nsi_array_free(memory, &bytes);
    return status;
}

// ---- meshes --------------------------------------------------------------------------------------

// The path of a mesh relative to the folder of its robot file; NULL when there is no such file, or it is
// named by an absolute path. To be freed.
static char* relative_mesh(const robot_copy* c, const char* mesh, bool* failed) {
    const char* folder = c->model->folder ? c->model->folder : "";
    size_t size = nsi_mesh_path_size(folder, mesh), length = strlen(folder);
    char* path = nsi_alloc(c->memory, size);
    *failed = path == NULL;
    if (!path) return NULL;
    bool found = nsi_mesh_find(folder, mesh, path, size);
    if (!found || strncmp(path, folder, length) != 0 || path[length] == '/') {
        nsi_free(c->memory, path);
        return NULL;
    }
    memmove(path, path + length, strlen(path + length) + 1);
    return path;
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

// Visit the meshes of a robot: count the levels they lead up, or copy them.
static ns_status visit_meshes(const robot_copy* c, uint32_t* levels) {
    ns_status status = NS_OK;
    uint32_t count = ns_model_get_sizes(c->model).ngeom;
    for (uint32_t k = 0; k < count && status == NS_OK; k++) {
        // Meshes with absolute paths stay where they are; missing ones are skipped.
        const ns_geom_def* geom = ns_model_geom(c->model, k);
        bool failed = false;
        char* name = geom->mesh ? relative_mesh(c, geom->mesh, &failed) : NULL;
        if (failed) return nsi_fail_nomem(c->error);
        if (!name) continue;

        // First pass: how many folders above the robot file the meshes lie.
        if (levels) {
            uint32_t own = levels_up(name);
            if (own > *levels) *levels = own;
        } else {
            // Second pass: copy the mesh to the same relative path.
            const char* folder = c->model->folder ? c->model->folder : "";
            size_t size = strlen(name) + 1;
            char* from = nsi_alloc(c->memory, strlen(folder) + size);
            char* to = nsi_alloc(c->memory, strlen(c->folder) + size);
            if (from && to) {
                snprintf(from, strlen(folder) + size, "%s%s", folder, name);
                snprintf(to, strlen(c->folder) + size, "%s%s", c->folder, name);
                status = copy_file(from, to, c->memory, c->error);
            } else {
                status = nsi_fail_nomem(c->error);
            }
            nsi_free(c->memory, from);
            nsi_free(c->memory, to);
        }
        nsi_free(c->memory, name);
    }
    return status;
}

// ---- robots --------------------------------------------------------------------------------------

// Copy a robot with its meshes below `root`, and give the path of the copy from the arena.
static ns_status copy_robot(robot_copy* c, const char* root, nsi_arena* arena, const char** out) {
    uint32_t levels = 0;
    ns_status status = visit_meshes(c, &levels);
    if (status != NS_OK) return status;
    size_t size = strlen(root) + 3 * (size_t)levels + strlen(base_name(c->from)) + 1;
    char *path = nsi_arena_alloc(arena, size), *folder = nsi_alloc(c->memory, size);
    if (path && folder) {
        int used = snprintf(folder, size, "%s", root);
        for (uint32_t k = 0; k < levels; k++) {
            used += snprintf(folder + used, size - (size_t)used, "in/");
        }
        snprintf(path, size, "%s%s", folder, base_name(c->from));
        c->folder = folder;
        status = copy_file(c->from, path, c->memory, c->error);
        if (status == NS_OK) status = visit_meshes(c, NULL);
        *out = path;
    } else {
        status = nsi_fail_nomem(c->error);
    }
    nsi_free(c->memory, folder);
    return status;
}

ns_status nsi_copy_robots(const char* folder, const ns_model* const* models, nsi_hybrid* file,
                          const ns_allocator* allocator, ns_error* error) {
    size_t size = strlen(folder) + 40;
    char* root = nsi_alloc(allocator, size);
    ns_status status = root ? NS_OK : nsi_fail_nomem(error);
    uint32_t count = file->robot ? 1 : file->variants.count;
    for (uint32_t k = 0; k < count && status == NS_OK; k++) {
        const char** robot = file->robot ? &file->robot : &file->variants.data[k].robot;
        robot_copy c = {.model = models[k], .from = *robot, .memory = allocator, .error = error};
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
