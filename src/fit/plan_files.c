// Which files a plan means, and which of them a run takes.

#define _POSIX_C_SOURCE 200809L

#include "fit/plan.h"

#include "io/file.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

// Up to three parts of a path, from the arena.
static const char* join(nsi_fit_plan* p, const char* a, const char* b, const char* c) {
    const char* slash = *b && *c && b[strlen(b) - 1] != '/' ? "/" : "";
    size_t size = strlen(a) + strlen(b) + strlen(slash) + strlen(c) + 2;
    char* path = nsi_arena_alloc(&p->yaml.arena, size);
    const char* gap = *a && a[strlen(a) - 1] != '/' ? "/" : "";
    if (path) snprintf(path, size, "%s%s%s%s%s", a, gap, b, slash, c);
    return path;
}

const char* nsi_fit_plan_path(nsi_fit_plan* p, const char* name) {
    return *name == '/' ? name : join(p, p->folder, "", name);
}

static bool is_made(const nsi_fit_plan* p, const char* name) {
    for (uint32_t k = 0; p->data_root && p->data_made[k]; k++) {
        if (strcmp(p->data_made[k], name) == 0) return true;
    }
    return false;
}

ns_status nsi_fit_plan_data_path(nsi_fit_plan* p, const nsi_fit_plan_file* file, const char** out,
                                 ns_error* error) {
    const char* below = p->data_folder ? p->data_folder : "";
    const char* named = getenv("NEURALSIM_DATA");
    const char* roots[] = {is_made(p, file->path) ? p->data_root : NULL, p->folder, named,
                           "../shared/data"};
    if (*file->path == '/' || file->found) {
        *out = file->path;
        return NS_OK;
    }
    for (size_t k = 0; k < sizeof roots / sizeof *roots; k++) {
        if (!roots[k] || (roots[k] == named && !*named)) continue;
        *out = join(p, *below == '/' ? "" : roots[k], below, file->path);
        if (!*out) return nsi_fail_nomem(error);
        if (nsi_file_exists(*out)) return NS_OK;
    }
    const char* first = join(p, roots[0] ? roots[0] : p->folder, below, file->path);
    if (!first) return nsi_fail_nomem(error);
    if (!*below) {
        return nsi_fail(error, NS_ERR_IO,
                        "%.200s:%u:%u: there is no %.150s beside this file, nor in %s or"
                        " ../shared/data",
                        p->path, file->node->line, file->node->column, file->path,
                        named ? named : "$NEURALSIM_DATA (not set)");
    }
    return nsi_fail(error, NS_ERR_IO,
                    "%.200s:%u:%u: there is no %.150s, nor %s/... beside this file, below %s or"
                    " ../shared/data; set NEURALSIM_DATA to the folder that holds the data",
                    p->path, file->node->line, file->node->column, first, below,
                    named ? named : "$NEURALSIM_DATA (not set)");
}

// ---- globs -------------------------------------------------------------------------------------

// The files that an entry fits, those of the first folder that has one; each with the entry's part.
static ns_status expand(nsi_fit_plan* p, const nsi_fit_plan_file* entry, nsi_fit_plan_files* out,
                        ns_error* error) {
    const char* below = p->data_folder ? p->data_folder : "";
    const char* named = getenv("NEURALSIM_DATA");
    const char* roots[] = {p->folder, named && *named ? named : NULL, "../shared/data"};
    glob_t found = {0};
    for (size_t k = 0; k < sizeof roots / sizeof *roots && found.gl_pathc == 0; k++) {
        if (!roots[k]) continue;
        const char* pattern = *entry->path == '/'
                                  ? entry->path
                                  : join(p, *below == '/' ? "" : roots[k], below, entry->path);
        if (!pattern) return nsi_fail_nomem(error);
        if (glob(pattern, 0, NULL, &found) == GLOB_NOSPACE) {
            globfree(&found);
            return nsi_fail_nomem(error);
        }
    }
    ns_status status = NS_OK;
    if (found.gl_pathc == 0) {
        status = nsi_yaml_fail(&p->yaml, entry->node, error,
                               "there is no file that fits %.150s, beside this file, below"
                               " $NEURALSIM_DATA or ../shared/data",
                               entry->path);
    } else if (entry->first >= found.gl_pathc) {
        status = nsi_yaml_fail(&p->yaml, entry->node, error,
                               "%zu files fit %.150s: `take` begins behind them",
                               (size_t)found.gl_pathc, entry->path);
    }
    for (size_t k = entry->first; k < found.gl_pathc && k <= entry->last && status == NS_OK; k++) {
        nsi_fit_plan_file file = *entry;
        file.path = nsi_arena_string(&p->yaml.arena, found.gl_pathv[k], strlen(found.gl_pathv[k]));
        if (file.path && *file.path != '/') file.found = true;
        if (!file.path || !nsi_array_push(&p->allocator, out, file)) status = nsi_fail_nomem(error);
    }
    globfree(&found);
    return status;
}

ns_status nsi_fit_plan_expand(nsi_fit_plan* p, ns_error* error) {
    for (int role = 0; role < NSI_ROLES; role++) {
        nsi_fit_plan_files all = {0};
        ns_status status = NS_OK;
        for (uint32_t k = 0; k < p->files[role].count && status == NS_OK; k++) {
            const nsi_fit_plan_file* file = &p->files[role].data[k];
            bool is_glob = !file->found && strpbrk(file->path, "*?[") != NULL;
            if (is_glob) {
                status = expand(p, file, &all, error);
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

// So many whole files, from the block-th so many on; behind the last comes the first again.
static ns_status choose_files(nsi_fit_plan* p, uint32_t count, uint32_t block, ns_error* error) {
    nsi_fit_plan_files *files = &p->files[NSI_ROLE_TRAIN], chosen = {0};
    if (files->count < count) {
        return nsi_yaml_fail(&p->yaml, files->data[0].node, error,
                             "expected %u files or more to train on, or `trajectories: A-B` with"
                             " as many",
                             count);
    }
    for (uint32_t k = 0; k < count; k++) {
        uint64_t from = ((uint64_t)block * count + k) % files->count;
        if (!nsi_array_push(&p->allocator, &chosen, files->data[from])) {
            nsi_array_free(&p->allocator, &chosen);
            return nsi_fail_nomem(error);
        }
    }
    nsi_array_free(&p->allocator, files);
    *files = chosen;
    return NS_OK;
}

ns_status nsi_fit_plan_choose(nsi_fit_plan* p, uint32_t trajectories, uint32_t block,
                              ns_error* error) {
    if (trajectories == 0) return NS_OK;
    nsi_fit_plan_file* file = &p->files[NSI_ROLE_TRAIN].data[0];
    ns_data_part* part = &file->part;
    if (part->all_trajectories) return choose_files(p, trajectories, block, error);
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

ns_status nsi_fit_plan_fold(nsi_fit_plan* p, uint32_t folds, uint32_t fold, ns_error* error) {
    nsi_fit_plan_files *train = &p->files[NSI_ROLE_TRAIN], *test = &p->files[NSI_ROLE_TEST];
    if (train->count < folds) {
        return nsi_yaml_fail(&p->yaml, train->data[0].node, error,
                             "expected %u files or more to train on, a part of which each run can"
                             " leave out",
                             folds);
    }
    uint32_t kept = 0;
    test->count = 0;
    for (uint32_t k = 0; k < train->count; k++) {
        if (k % folds != fold) {
            train->data[kept++] = train->data[k];
        } else if (!nsi_array_push(&p->allocator, test, train->data[k])) {
            return nsi_fail_nomem(error);
        }
    }
    train->count = kept;
    return NS_OK;
}
