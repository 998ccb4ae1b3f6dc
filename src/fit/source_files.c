// Files that a fit was read from, which its result must not replace.

#include "fit/fit_state.h"
#include "io/file.h"

typedef struct source_guard {
    const ns_fit* f;
    const char* folder; // of the result
    ns_error* error;
} source_guard;

// A source must be none of the files of a result.
static ns_status guard_file(const source_guard* g, const char* source) {
    static const char* const names[] = {
        "fitted.yaml", "fitted_blueprint.yaml", "result.json",    "weights.safetensors",
        "report.html", "predictions.csv",       "checkpoint.json"};
    ns_status status = NS_OK;
    for (size_t k = 0; k < sizeof names / sizeof *names && source && status == NS_OK; k++) {
        char* path = nsi_fit_join(g->f, g->folder, names[k]);
        if (!path) return nsi_fail_nomem(g->error);
        if (nsi_same_file(path, source)) {
            status = nsi_fail(g->error, NS_ERR_ARGUMENT,
                              "%.300s: the result would replace this file, which was read; choose"
                              " another folder for the result",
                              path);
        }
        nsi_free(&g->f->allocator, path);
    }
    return status;
}

// The files that the nodes of a tree stand in.
static ns_status guard_tree(const source_guard* g, const nsi_yaml_node* node,
                            const nsi_yaml_source* known) {
    ns_status status = node->source == known ? NS_OK : guard_file(g, node->source->file);
    for (const nsi_yaml_node* n = node->first; n && status == NS_OK; n = n->next) {
        status = guard_tree(g, n, node->source);
    }
    return status;
}

// What cannot be read any more needs no guard.
static ns_status guard_pass(ns_status status) {
    return status == NS_ERR_NOMEM ? status : NS_OK;
}

// A YAML file with those that it extends.
static ns_status guard_yaml(const source_guard* g, const char* path) {
    nsi_yaml yaml = {0};
    ns_status status = guard_file(g, path);
    if (status != NS_OK || !path || !nsi_file_exists(path)) return status;
    status = nsi_yaml_read(path, &g->f->allocator, &yaml, g->error);
    status = status == NS_OK ? guard_tree(g, yaml.root, NULL) : guard_pass(status);
    nsi_yaml_free(&yaml);
    return status;
}

// A hybrid model with the files that it names.
static ns_status guard_hybrid(const source_guard* g, const char* path) {
    nsi_hybrid file = {0};
    ns_status status = guard_yaml(g, path);
    if (status != NS_OK) return status;
    status = nsi_hybrid_read(path, &g->f->allocator, &file, g->error);
    if (status == NS_OK) {
        status = guard_yaml(g, file.blueprint);
        if (status == NS_OK) status = guard_file(g, file.weights);
    } else {
        status = guard_pass(status);
    }
    nsi_hybrid_free(&file);
    return status;
}

// A path as a spec has it, resolved; NULL stays NULL.
static ns_status guard_path(const source_guard* g, const char* name, const char** out) {
    *out = name ? nsi_fit_spec_path(g->f->spec, name) : NULL;
    return name && !*out ? nsi_fail_nomem(g->error) : NS_OK;
}

static ns_status guard_data(const source_guard* g) {
    ns_status status = NS_OK;
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        const nsi_fit_spec_files* files = &g->f->spec->files[role];
        for (uint32_t k = 0; k < files->count && status == NS_OK; k++) {
            const char* path = NULL;
            status = nsi_fit_spec_data_path(g->f->spec, &files->data[k], &path, g->error);
            status = status == NS_OK ? guard_file(g, path) : guard_pass(status);
        }
    }
    return status;
}

ns_status ns_fit_check_folder(const ns_fit* f, const char* folder, ns_error* error) {
    if (!f || !folder) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_fit_check_folder: fit or folder is NULL");
    }
    if (f->by_calls) return NS_OK;
    const source_guard g = {f, folder, error};
    const nsi_fit_spec* spec = f->spec;
    const char *model = NULL, *blueprint = NULL, *weights = NULL, *map = NULL;

    // The spec itself, then what it names.
    ns_status status = spec->yaml.root ? guard_tree(&g, spec->yaml.root, NULL) : NS_OK;
    if (status == NS_OK) status = guard_path(&g, spec->model, &model);
    if (status == NS_OK) status = guard_path(&g, spec->blueprint, &blueprint);
    if (status == NS_OK) status = guard_path(&g, spec->weights, &weights);
    if (status == NS_OK) status = guard_path(&g, spec->map, &map);
    if (status == NS_OK && model && ns_hybrid_is_path(model)) status = guard_hybrid(&g, model);
    if (status == NS_OK) status = guard_yaml(&g, blueprint);
    if (status == NS_OK) status = guard_file(&g, weights);
    if (status == NS_OK) status = guard_yaml(&g, map);
    return status == NS_OK ? guard_data(&g) : status;
}
