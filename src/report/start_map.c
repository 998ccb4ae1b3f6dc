// Charts of starts on a grid, and their numbers from JSON, which may come from anywhere.

#include "report/start_map.h"

#include "io/json_read.h"

#include <math.h>
#include <stdio.h>

enum { MAX_CELLS = 100, MAX_POSES = 100, MAX_BYTES = 256 << 20 };

ns_status nsi_starts_add_figure(const nsi_starts* s, uint32_t pose, const double* const errors[2],
                                nsi_figures* charts, ns_error* error) {
    // One cell per start.
    uint32_t count = s->cells * s->cells;
    // Poses are counted from 1 in names that people see.
    char name[40];
    snprintf(name, sizeof name, "starts_pose%u", pose + 1);
    const char* title =
        nsi_figures_text(charts, "Distance from the truth by start, pose %u", pose + 1);
    ns_figure* chart = title ? nsi_figures_add(charts, NS_FIGURE_HEATMAP, name, title) : NULL;
    ns_figure_column* columns = chart ? nsi_figure_table(charts, chart, 4, count) : NULL;
    double* across = nsi_figures_zeros(charts, count, sizeof *across);
    double* up = nsi_figures_zeros(charts, count, sizeof *up);
    if (!columns || !across || !up) return nsi_fail_nomem(error);

    // Table: both initial values and both errors of each cell.
    double step = s->cells > 1 ? (s->to - s->from) / (s->cells - 1.0) : 0.0;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t row = k / s->cells, column = k % s->cells;
        // Starts are evenly spaced, the limits included.
        across[k] = s->from + step * column;
        up[k] = s->from + step * row;
    }

    // Columns are named after the parameters and the compared methods.
    columns[0] = (ns_figure_column){.name = s->names[0], .numbers = across};
    columns[1] = (ns_figure_column){.name = s->names[1], .numbers = up};
    for (int k = 0; k < 2; k++) {
        columns[2 + k] = (ns_figure_column){.name = s->labels[k], .numbers = errors[k]};
    }

    // Two heatmaps side by side, one per method, with the same scale.
    chart->as.heatmap = (ns_heatmap){.titles = {s->labels[0], s->labels[1]},
                                     .axes = {s->names[0], s->names[1]},
                                     .values = {errors[0], errors[1]},
                                     .cells = s->cells,
                                     .from = s->from,
                                     .to = s->to,
                                     .mark = {s->truth[0], s->truth[1]},
                                     .max = 0.6 * (s->to - s->from)};
    return NS_OK;
}

// ---- reading -----------------------------------------------------------------------------------

typedef struct reader {
    const char* file;
    nsi_figures* charts;
    ns_status status;
    ns_error* error;
} reader;

static void fault(reader* r, const char* where, const char* what) {
    if (r->status == NS_OK) {
        r->status = nsi_fail(r->error, NS_ERR_PARSE, "%.200s: %s: %s", r->file, where, what);
    }
}

static double start_number(reader* r, const json_t* value, const char* where) {
    double number = json_number_value(value);
    if (!json_is_number(value) || !isfinite(number)) fault(r, where, "expected a number");
    return number;
}

static const char* get_text(reader* r, const json_t* value, const char* where) {
    const char* text = json_string_value(value);
    if (!text) {
        fault(r, where, "expected a text");
        return "";
    }
    const char* kept = nsi_figures_text(r->charts, "%s", text);
    if (!kept && r->status == NS_OK) r->status = nsi_fail_nomem(r->error);
    return kept ? kept : "";
}

static void read_start_grid(reader* r, const json_t* grid, nsi_starts* out) {
    const json_t *names = json_object_get(grid, "parameters"),
                 *truth = json_object_get(grid, "truth"), *cells = json_object_get(grid, "cells");
    json_int_t count = json_integer_value(cells);
    if (!json_is_object(grid)) fault(r, "grid", "it is missing; run the experiment again");
    for (size_t k = 0; k < 2; k++) {
        out->names[k] = get_text(r, json_array_get(names, k), "grid.parameters");
        out->truth[k] = start_number(r, json_array_get(truth, k), "grid.truth");
    }
    out->from = start_number(r, json_object_get(grid, "from"), "grid.from");
    out->to = start_number(r, json_object_get(grid, "to"), "grid.to");
    if (!(out->from < out->to) || !isfinite(out->to - out->from)) {
        fault(r, "grid.to", "expected a number above `from`");
    }
    if (!json_is_integer(cells) || count < 2 || count > MAX_CELLS) {
        fault(r, "grid.cells", "expected a whole number from 2 to 100");
    }
    out->cells = r->status == NS_OK ? (uint32_t)count : 0;
}

// The label of a method; its name where it has none.
static const char* get_label(reader* r, const json_t* root, const char* name) {
    const json_t* methods = json_object_get(root, "methods");
    for (size_t k = 0; k < json_array_size(methods); k++) {
        const json_t* method = json_array_get(methods, k);
        const char* own = json_string_value(json_object_get(method, "name"));
        const json_t* label = json_object_get(method, "label");
        if (own && strcmp(own, name) == 0 && label) return get_text(r, label, "methods.label");
    }
    return name;
}

// What is null, which is no distance, is missing.
static const double* read_errors(reader* r, const json_t* pose, const char* method,
                                 uint32_t count) {
    const json_t* list = json_object_get(json_object_get(pose, "errors"), method);
    if (!json_is_array(list) || json_array_size(list) != count) {
        fault(r, "poses.errors", "expected a list with a number for each cell");
        return NULL;
    }
    double* errors = nsi_figures_zeros(r->charts, count, sizeof *errors);
    if (!errors && r->status == NS_OK) r->status = nsi_fail_nomem(r->error);
    for (uint32_t k = 0; errors && k < count; k++) {
        const json_t* value = json_array_get(list, k);
        errors[k] = json_is_null(value) ? NAN : start_number(r, value, "poses.errors");
        if (errors[k] < 0.0) fault(r, "poses.errors", "a distance is not below 0");
    }
    return errors;
}

static void read_starts(reader* r, const json_t* root, const json_t* poses) {
    nsi_starts starts = {.cells = 0};
    read_start_grid(r, json_object_get(root, "grid"), &starts);
    const char* methods[2] = {get_text(r, json_object_get(root, "compare"), "compare"),
                              get_text(r, json_object_get(root, "headline"), "headline")};
    for (int k = 0; k < 2; k++) starts.labels[k] = get_label(r, root, methods[k]);
    if (json_array_size(poses) > MAX_POSES) fault(r, "poses", "more than 100");
    for (uint32_t p = 0; p < json_array_size(poses) && r->status == NS_OK; p++) {
        const double* errors[2];
        for (int k = 0; k < 2; k++) {
            errors[k] =
                read_errors(r, json_array_get(poses, p), methods[k], starts.cells * starts.cells);
        }
        if (r->status == NS_OK) {
            r->status = nsi_starts_add_figure(&starts, p, errors, r->charts, r->error);
        }
    }
}

ns_status nsi_starts_read(const char* text, size_t size, const char* path, nsi_figures* charts,
                          ns_error* error) {
    reader r = {.file = path, .charts = charts, .error = error};
    json_t* root;
    ns_status parsed = nsi_json_read(text, size, path, MAX_BYTES, &root, error);
    if (parsed != NS_OK) return parsed;
    const json_t* poses = json_object_get(root, "poses");
    if (json_is_array(poses)) {
        read_starts(&r, root, poses);
    } else {
        r.status = nsi_fail(error, NS_ERR_UNSUPPORTED, "%.200s: there are no poses", path);
    }
    json_decref(root);
    return r.status;
}
