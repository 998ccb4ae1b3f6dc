// What all kinds of experiments share: reading study.yaml, files, results.

#define _POSIX_C_SOURCE 200809L

#include "experiment.h"

#include "cli.h"
#include "io/file.h"
#include "report/html.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

// ---- reading -----------------------------------------------------------------------------------

static const nsi_schema_key study_keys[] = {
    {"kind", NSI_KEY_OTHER, .values = "`fits`, `grid`", .help = "what the study runs"},
    {"title", NSI_KEY_TEXT, offsetof(experiment, title), .required = true, .help = "one line"},
    {"citation", NSI_KEY_TEXT, offsetof(experiment, citation), .help = "whose work this is"},
    {"source", NSI_KEY_TEXT, offsetof(experiment, source), .help = "where to get the data"},
    {"notes", NSI_KEY_TEXTS, offsetof(experiment, notes), .help = "shown below the tables"},
};
const nsi_schema study_schema = NSI_SCHEMA("a study", study_keys, NULL);

static const nsi_yaml_node* find(const nsi_yaml_node* map, const char* key) {
    return map && map->type == NSI_YAML_MAP ? nsi_yaml_find(map, key) : NULL;
}

void experiment_fault(experiment* e, const nsi_yaml_node* node, const char* what) {
    if (e->status == NS_OK) e->status = nsi_yaml_fail(&e->yaml, node, &e->error, "%s", what);
}

static void miss(experiment* e, const nsi_yaml_node* map, const char* key) {
    if (e->status == NS_OK) {
        e->status = nsi_yaml_fail(&e->yaml, map, &e->error, "`%s` is missing", key);
    }
}

void experiment_check_map(experiment* e, const nsi_yaml_node* map, const char* what,
                          const char* keys) {
    if (e->status == NS_OK) e->status = nsi_yaml_check_map(&e->yaml, map, what, keys, &e->error);
}

void experiment_text(experiment* e, const nsi_yaml_node* map, const char* key, bool needed,
                     const char** out) {
    const nsi_yaml_node* node = find(map, key);
    if (!node && needed) miss(e, map, key);
    if (e->status == NS_OK) e->status = nsi_yaml_text(&e->yaml, node, out, &e->error);
}

void experiment_number(experiment* e, const nsi_yaml_node* map, const char* key, double lower,
                       double upper, double* out) {
    if (e->status != NS_OK) return;
    e->status = nsi_yaml_number(&e->yaml, find(map, key), lower, upper, out, &e->error);
}

void experiment_count(experiment* e, const nsi_yaml_node* map, const char* key, uint32_t lower,
                      uint32_t upper, uint32_t* out) {
    if (e->status != NS_OK) return;
    e->status = nsi_yaml_count(&e->yaml, find(map, key), lower, upper, out, &e->error);
}

void* experiment_zeros(experiment* e, size_t size) {
    if (e->status != NS_OK) return NULL;
    void* block = nsi_arena_alloc(&e->yaml.arena, size);
    if (block) {
        memset(block, 0, size);
    } else {
        e->status = nsi_fail_nomem(&e->error);
    }
    return block;
}

double* experiment_numbers(experiment* e, const nsi_yaml_node* list, uint32_t* count) {
    *count = 0;
    if (!list || e->status != NS_OK) return NULL;
    e->status = nsi_yaml_check_list(&e->yaml, list, &e->error);
    double* numbers = experiment_zeros(e, ((size_t)list->count + 1) * sizeof *numbers);
    if (!numbers) return NULL;
    for (const nsi_yaml_node* n = list->first; n && e->status == NS_OK; n = n->next) {
        e->status = nsi_yaml_number(&e->yaml, n, -1e300, 1e300, &numbers[(*count)++], &e->error);
    }
    return numbers;
}

const nsi_yaml_node* experiment_list(experiment* e, const nsi_yaml_node* map, const char* key,
                                     bool needed, uint32_t* count) {
    const nsi_yaml_node* list = find(map, key);
    *count = 0;
    if (e->status == NS_OK) e->status = nsi_yaml_check_list(&e->yaml, list, &e->error);
    if (needed && (!list || list->count == 0)) miss(e, map, key);
    if (!list || e->status != NS_OK) return NULL;
    *count = list->count;
    return list->first;
}

bool experiment_read(experiment* e, const nsi_schema* schema, const nsi_yaml_node* map,
                     void* context, void* out) {
    nsi_schema_reader r = {
        .yaml = &e->yaml, .arena = &e->yaml.arena, .context = context, .error = &e->error};
    if (e->status == NS_OK) e->status = nsi_schema_read(&r, schema, map, out);
    return e->status == NS_OK;
}

bool experiment_read_list(experiment* e, const nsi_schema* schema, const nsi_yaml_node* list,
                          void* context, size_t size, void* items, uint32_t* count) {
    *count = 0;
    if (e->status == NS_OK) e->status = nsi_yaml_check_list(&e->yaml, list, &e->error);
    char* data = experiment_zeros(e, ((list ? (size_t)list->count : 0) + 1) * size);
    memcpy(items, &data, sizeof data);
    for (const nsi_yaml_node* n = list ? list->first : NULL; n && e->status == NS_OK; n = n->next) {
        nsi_schema_defaults(schema, data + *count * size);
        experiment_read(e, schema, n, context, data + *count * size);
        (*count)++;
    }
    return e->status == NS_OK;
}

int experiment_complain(const experiment* e) {
    return e->status == NS_OK ? EXIT_OK : cli_fail("%s", e->error.message);
}

// ---- files -------------------------------------------------------------------------------------

const char* experiment_path(experiment* e, const char* folder, const char* name) {
    size_t length = strlen(folder), size = length + strlen(name) + 2;
    char* path = nsi_arena_alloc(&e->yaml.arena, size);
    if (!path) {
        if (e->status == NS_OK) e->status = nsi_fail_nomem(&e->error);
        return NULL;
    }
    bool gap = length > 0 && folder[length - 1] != '/';
    snprintf(path, size, "%s%s%s", folder, gap ? "/" : "", name);
    return path;
}

bool experiment_make_folder(const char* path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return true;
    cli_fail("cannot make the folder %s: %s", path, strerror(errno));
    return false;
}

bool experiment_copy(experiment* e, const char* name, const char* folder) {
    const char* from = experiment_path(e, e->folder, name);
    const char* to = experiment_path(e, folder, name);
    size_t size = 0;
    if (!from || !to) return false;
    char* text = cli_read_file(from, &size);
    bool done = text && cli_write_file(to, text, size);
    free(text);
    return done;
}

bool experiment_write(const experiment* e, const char* name, const ns_text* text) {
    size_t size = strlen(e->output) + strlen(name) + 2;
    char* path = malloc(size);
    if (!path) {
        cli_fail("out of memory");
        return false;
    }
    snprintf(path, size, "%s/%s", e->output, name);
    bool done = cli_write_file(path, text->data, text->size);
    free(path);
    return done;
}

// ---- results -----------------------------------------------------------------------------------

ns_json* experiment_begin_json(const experiment* e, uint64_t seed) {
    ns_json* j = ns_json_create(NULL);
    ns_json_text(j, "experiment", e->name);
    ns_json_text(j, "title", e->title);
    ns_json_count(j, "seed", seed);
    ns_json_bool(j, "quick", e->quick);
    ns_json_number(j, "seconds", nsi_clock_wall() - e->began);
    return j;
}

void experiment_open_page(const experiment* e, nsi_text_builder* page) {
    nsi_html_open(page, e->title);
    nsi_html_element(page, "h1", e->title);
    if (e->quick) nsi_text_add(page, "<p class=\"faint\">A quick run: only a part of it.</p>\n");
}

void experiment_close_page(const experiment* e, nsi_text_builder* page) {
    if (e->notes.count > 0) nsi_text_add(page, "<h2>Notes</h2>\n<ul>\n");
    for (uint32_t k = 0; k < e->notes.count; k++) {
        nsi_html_element(page, "li", e->notes.data[k]);
    }
    if (e->notes.count > 0) nsi_text_add(page, "</ul>\n");
    nsi_text_add(page, "<dl>\n");
    if (e->citation) {
        nsi_text_add(page, "<dt>citation</dt>");
        nsi_html_element(page, "dd", e->citation);
    }
    if (e->source) {
        nsi_text_add(page, "<dt>data</dt>");
        nsi_html_element(page, "dd", e->source);
    }
    nsi_text_add(page, "</dl>\n<p class=\"faint\">neuralsim experiment ");
    nsi_html_text(page, e->name);
    nsi_text_add(page, "%s: %s s</p>\n", e->quick ? " --quick" : "",
                 nsi_format(nsi_clock_wall() - e->began, 3).text);
    nsi_html_close(page);
}

int experiment_finish(const experiment* e, ns_json* result, nsi_text_builder* page) {
    ns_text text = {0}, html = {0};
    ns_error error;
    ns_status status = ns_json_finish(result, &text, &error);
    ns_status of_page = nsi_text_finish(page, &html, status == NS_OK ? &error : NULL);
    bool done = status == NS_OK && of_page == NS_OK;
    if (!done) cli_fail("%s", error.message);
    done = done && experiment_write(e, "result.json", &text);
    done = done && experiment_write(e, "report.html", &html);
    if (done && e->json) fwrite(text.data, 1, text.size, stdout);
    ns_text_free(&text);
    ns_text_free(&html);
    return done ? cli_finish() : EXIT_FAILED;
}
