// Finds the data files of a spec, and selects those that a run uses.

#define _POSIX_C_SOURCE 200809L

#include "fit/spec.h"

#include "io/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

// Up to three parts of a path, from the arena.
static const char* join_path(nsi_fit_spec* p, const char* a, const char* b, const char* c) {
    const char* slash = *b && *c && b[strlen(b) - 1] != '/' ? "/" : "";
    size_t size = strlen(a) + strlen(b) + strlen(slash) + strlen(c) + 2;
    char* path = nsi_arena_alloc(&p->yaml.arena, size);
    const char* gap = *a && a[strlen(a) - 1] != '/' ? "/" : "";
    if (path) snprintf(path, size, "%s%s%s%s%s", a, gap, b, slash, c);
    return path;
}

const char* nsi_fit_spec_path(nsi_fit_spec* p, const char* name) {
    return *name == '/' ? name : join_path(p, p->folder, "", name);
}

// The folder that data is beside: that of the file which names it.
static const char* own_folder(nsi_fit_spec* p, const nsi_fit_spec_file* file) {
    const char* base = p->data_folder ? p->data_base : file->base;
    return *base == '/' ? base : *base ? join_path(p, p->folder, "", base) : p->folder;
}

static bool is_made(const nsi_fit_spec* p, const char* name) {
    for (uint32_t k = 0; p->data_root && p->data_made[k]; k++) {
        if (strcmp(p->data_made[k], name) == 0) return true;
    }
    return false;
}

ns_status nsi_fit_spec_data_path(nsi_fit_spec* p, const nsi_fit_spec_file* file, const char** out,
                                 ns_error* error) {
    // Absolute paths need no search.
    const char* below = p->data_folder ? p->data_folder : "";
    if (*file->path == '/' || file->found) {
        *out = file->path;
        return NS_OK;
    }

    // Recordings that were made come before those of the same name that were not.
    const char* roots[1 + NSI_DATA_FOLDERS] = {p->data_root};
    uint32_t count = is_made(p, file->path) ? 1 : 0;
    const char* own = own_folder(p, file);
    if (!own) return nsi_fail_nomem(error);
    count += nsi_data_folders(own, roots + count);

    // The first place that has the file.
    for (uint32_t k = 0; k < count; k++) {
        *out = join_path(p, *below == '/' ? "" : roots[k], below, file->path);
        if (!*out) return nsi_fail_nomem(error);
        if (nsi_file_exists(*out)) return NS_OK;
    }

    // Nothing was found: name the places that were searched.
    const char* first = join_path(p, roots[0], below, file->path);
    if (!first) return nsi_fail_nomem(error);
    const char* named = getenv("NEURALSIM_DATA");
    if (!named || !*named) named = "$NEURALSIM_DATA (not set)";

    // Without a data folder the message is shorter.
    if (!*below) {
        return nsi_fail(
            error, NS_ERR_IO, "%.200s:%u:%u: there is no %.150s beside this file, nor in %s",
            file->node->source->file, file->node->line, file->node->column, file->path, named);
    }
    return nsi_fail(error, NS_ERR_IO,
                    "%.200s:%u:%u: there is no %.150s, nor %s/... beside this file or below %s;"
                    " set NEURALSIM_DATA to the folder that holds the data",
                    file->node->source->file, file->node->line, file->node->column, first, below,
                    named);
}

// ---- globs -------------------------------------------------------------------------------------

typedef NSI_ARRAY(const char*) paths;

static int compare_paths(const void* a, const void* b) {
    return strcmp(*(const char* const*)a, *(const char* const*)b);
}

static bool is_file(const char* path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

// Files of a folder whose names fit, into `out`.
static ns_status list_folder(nsi_fit_spec* p, const char* folder, const char* glob, paths* out,
                             ns_error* error) {
    DIR* open = opendir(*folder ? folder : ".");
    ns_status status = NS_OK;
    for (struct dirent* d; open && status == NS_OK && (d = readdir(open));) {
        if (d->d_name[0] == '.' || !ns_glob_match(glob, d->d_name)) continue;
        const char* path = join_path(p, folder, "", d->d_name);
        if (path && !is_file(path)) continue;
        if (!path || !nsi_array_push(&p->allocator, out, path)) status = nsi_fail_nomem(error);
    }
    if (open) closedir(open);
    return status;
}

// Files that an entry fits: recordings that were made, or those of the first folder that has one.
static ns_status find_files(nsi_fit_spec* p, const nsi_fit_spec_file* entry, paths* out,
                            ns_error* error) {
    const char* below = p->data_folder ? p->data_folder : "";
    const char* roots[NSI_DATA_FOLDERS];
    const char* own = own_folder(p, entry);
    if (!own) return nsi_fail_nomem(error);
    uint32_t count = nsi_data_folders(own, roots);
    const char* slash = strrchr(entry->path, '/');
    const char* glob = slash ? slash + 1 : entry->path;
    const char* part = nsi_arena_string(&p->yaml.arena, entry->path, (size_t)(glob - entry->path));
    ns_status status = part ? NS_OK : nsi_fail_nomem(error);
    for (uint32_t k = 0; status == NS_OK && p->data_root && p->data_made[k]; k++) {
        if (!ns_glob_match(entry->path, p->data_made[k])) continue;
        const char* path = join_path(p, p->data_root, below, p->data_made[k]);
        if (!path || !nsi_array_push(&p->allocator, out, path)) status = nsi_fail_nomem(error);
    }
    for (uint32_t k = 0; k < count && status == NS_OK && out->count == 0; k++) {
        const char* folder =
            *part == '/' ? part : join_path(p, *below == '/' ? "" : roots[k], below, part);
        status = folder ? list_folder(p, folder, glob, out, error) : nsi_fail_nomem(error);
    }
    if (out->count > 0) qsort(out->data, out->count, sizeof *out->data, compare_paths);
    return status;
}

// The files that an entry fits, each with the entry's part.
static ns_status expand(nsi_fit_spec* p, const nsi_fit_spec_file* entry, nsi_fit_spec_files* out,
                        ns_error* error) {
    paths found = {0};
    ns_status status = find_files(p, entry, &found, error);
    uint32_t last = entry->last == UINT32_MAX ? found.count - 1 : entry->last;
    if (status == NS_OK && found.count == 0) {
        status = nsi_yaml_fail(&p->yaml, entry->node, error,
                               "there is no file that fits %.150s, beside this file or below"
                               " $NEURALSIM_DATA",
                               entry->path);
    } else if (status == NS_OK && (entry->first >= found.count || last >= found.count)) {
        status = nsi_yaml_fail(&p->yaml, entry->node, error,
                               "only %u files fit %.150s: `select` counts them from 0", found.count,
                               entry->path);
    }
    for (uint32_t k = entry->first; status == NS_OK && k <= last; k++) {
        nsi_fit_spec_file file = *entry;
        file.path = found.data[k];
        file.found = true;
        if (!nsi_array_push(&p->allocator, out, file)) status = nsi_fail_nomem(error);
    }
    nsi_array_free(&p->allocator, &found);
    return status;
}

// A name with * or ? that is not the name of a file.
static bool is_glob(nsi_fit_spec* p, const nsi_fit_spec_file* file) {
    const char* path = NULL;
    return !file->found && strpbrk(file->path, "*?") != NULL &&
           nsi_fit_spec_data_path(p, file, &path, NULL) != NS_OK;
}

ns_status nsi_fit_spec_expand(nsi_fit_spec* p, ns_error* error) {
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        nsi_fit_spec_files all = {0};
        ns_status status = NS_OK;
        for (uint32_t k = 0; k < p->files[role].count && status == NS_OK; k++) {
            const nsi_fit_spec_file* file = &p->files[role].data[k];
            if (is_glob(p, file)) {
                status = expand(p, file, &all, error);
            } else if (file->first > 0 || file->last != UINT32_MAX) {
                status = nsi_yaml_fail(&p->yaml, file->node, error,
                                       "`select` is for globs, and %.150s is none", file->path);
            } else if (!nsi_array_push(&p->allocator, &all, *file)) {
                status = nsi_fail_nomem(error);
            }
        }
        nsi_array_free(&p->allocator, &p->files[role]);
        p->files[role] = all;
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

// ---- parts -------------------------------------------------------------------------------------

// The first so many whole files.
static ns_status choose_files(nsi_fit_spec* p, uint32_t count, ns_error* error) {
    nsi_fit_spec_files* files = &p->files[NS_ROLE_TRAIN];
    if (files->count < count) {
        return nsi_yaml_fail(&p->yaml, files->data[0].node, error,
                             "expected %u files or more to train on, or `trajectories: A-B` with"
                             " as many",
                             count);
    }
    files->count = count;
    return NS_OK;
}

ns_status nsi_fit_spec_choose(nsi_fit_spec* p, uint32_t trajectories, uint32_t block,
                              ns_error* error) {
    if (trajectories == 0) return NS_OK;
    nsi_fit_spec_file* file = &p->files[NS_ROLE_TRAIN].data[0];
    ns_data_part* part = &file->part;
    if (part->all_trajectories) return choose_files(p, trajectories, error);
    double count = part->last_trajectory - part->first_trajectory + 1.0;
    double begin = (double)block * trajectories;
    if (!(count >= begin + trajectories)) {
        return nsi_yaml_fail(&p->yaml, file->node, error,
                             "expected `trajectories: A-B` with %g or more, of which run %u can"
                             " take %u",
                             begin + trajectories, block + 1, trajectories);
    }
    part->first_trajectory += begin;
    part->last_trajectory = part->first_trajectory + trajectories - 1.0;
    return NS_OK;
}

ns_status nsi_fit_spec_fold(nsi_fit_spec* p, uint32_t folds, uint32_t fold, ns_error* error) {
    nsi_fit_spec_files *train = &p->files[NS_ROLE_TRAIN], *test = &p->files[NS_ROLE_TEST];

    // Every fold needs a file of its own.
    if (train->count < folds) {
        return nsi_yaml_fail(&p->yaml, train->data[0].node, error,
                             "expected %u files or more to train on, a part of which each run can"
                             " leave out",
                             folds);
    }

    // A file that is listed twice would be in both sets.
    for (uint32_t k = 0; k < train->count; k++) {
        const char *path = NULL, *other = NULL;

        // Paths as they are found: the same file may be written in two ways.
        ns_status status = nsi_fit_spec_data_path(p, &train->data[k], &path, error);
        for (uint32_t i = 0; i < k && status == NS_OK; i++) {
            status = nsi_fit_spec_data_path(p, &train->data[i], &other, error);
            if (status != NS_OK || strcmp(path, other) != 0) continue;
            return nsi_yaml_fail(&p->yaml, train->data[k].node, error,
                                 "%.150s stands twice: it could be trained on and left out",
                                 train->data[k].path);
        }
        if (status != NS_OK) return status;
    }

    // Every folds-th file, beginning with number fold, becomes the test set.
    uint32_t kept = 0;
    test->count = 0;
    for (uint32_t k = 0; k < train->count; k++) {
        // Files keep their order, so that folds do not depend on the machine.
        if (k % folds != fold) {
            train->data[kept++] = train->data[k];
        } else if (!nsi_array_push(&p->allocator, test, train->data[k])) {
            return nsi_fail_nomem(error);
        }
    }
    train->count = kept;
    return NS_OK;
}
