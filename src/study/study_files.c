// Files and folders of a study.

#define _POSIX_C_SOURCE 200809L

#include "io/file.h"
#include "study/study_state.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum { STUDY_MAX_COPY = 1 << 30 }; // bytes of a file

const char* nsi_study_path(ns_study* s, const char* folder, const char* name) {
    size_t length = strlen(folder), size = length + strlen(name) + 2;
    char* path = nsi_arena_alloc(&s->yaml.arena, size);
    if (!path) {
        nsi_study_fail_nomem(s);
        return NULL;
    }
    bool gap = length > 0 && folder[length - 1] != '/';
    snprintf(path, size, "%s%s%s", folder, gap ? "/" : "", name);
    return path;
}

bool nsi_study_is_folder(const char* path) {
    struct stat status;
    return path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool nsi_study_make_folder(ns_study* s, const char* path) {
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return nsi_study_fail(s, NS_ERR_IO, "cannot make the folder %s: %s", path, strerror(errno));
    }
    if (nsi_study_is_folder(path)) return true;
    return nsi_study_fail(s, NS_ERR_IO, "%s exists and is not a folder; choose another", path);
}

bool nsi_study_copy(ns_study* s, const char* name, const char* folder) {
    const char* from = nsi_study_path(s, s->folder, name);
    const char* to = nsi_study_path(s, folder, name);
    nsi_bytes bytes = {0};
    if (!from || !to) return false;
    ns_status status = nsi_file_read(from, STUDY_MAX_COPY, NULL, &bytes, &s->error);
    if (status == NS_OK && bytes.count > STUDY_MAX_COPY) {
        status = nsi_fail(&s->error, NS_ERR_LIMIT, "%s is larger than %d MiB", from,
                          STUDY_MAX_COPY >> 20);
    }
    if (status == NS_OK) {
        status = nsi_file_write_soon(to, bytes.data, bytes.count, NULL, &s->error);
    }
    nsi_array_free(NULL, &bytes);
    return nsi_study_take(s, status);
}

bool nsi_study_write(ns_study* s, const char* folder, const char* name, const ns_text* text) {
    const char* path = nsi_study_path(s, folder, name);
    return path &&
           nsi_study_take(s, nsi_file_write_soon(path, text->data, text->size, NULL, &s->error));
}

void nsi_study_remove_results(ns_study* s) {
    static const char* const names[] = {"report.html",   "result.json",         "fitted.yaml",
                                        "analytic.yaml", "weights.safetensors", "predictions.csv"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const char* path = nsi_study_path(s, s->output, names[k]);
        if (path) remove(path);
    }
}

bool nsi_study_load_model(ns_study* s, const char* path, const char* variant, ns_hybrid** out) {
    ns_load_options options = ns_default_load_options();
    options.variant = variant;
    *out = NULL;
    if (!path || !nsi_study_take(s, ns_hybrid_load(path, &options, out, &s->error))) return false;
    if (!ns_hybrid_is_learned(*out)) return true;
    return nsi_study_fail(s, NS_ERR_UNSUPPORTED,
                          "%s is a learned system, whose step has no physics to look at", path);
}
