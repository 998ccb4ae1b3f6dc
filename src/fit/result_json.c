// An answer for machines: one JSON object, written by jansson, whose memory comes from malloc.

#include "fit/result_words.h"

#include "io/utf8.h"

#include <math.h>

#include <jansson.h>

// ---- values ----------------------------------------------------------------------------------

// Building and writing; a failure, which is always one of memory, sticks.
typedef struct writer {
    nsi_text_builder text;
    nsi_text_builder string; // scratch
    bool failed;
} writer;

static json_t* check(writer* w, json_t* value) {
    if (!value) w->failed = true;
    return value;
}

static void set(writer* w, json_t* object, const char* key, json_t* value) {
    if (json_object_set_new(object, key, check(w, value)) != 0) w->failed = true;
}

static void append(writer* w, json_t* array, json_t* value) {
    if (json_array_append_new(array, check(w, value)) != 0) w->failed = true;
}

static json_t* number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

// Valid UTF-8 in any case, which jansson insists on. The result lives until the next call.
static const char* clean(writer* w, const char* text) {
    w->string.text.count = 0;
    for (size_t size = 0; text && *text; text += size) {
        uint32_t code;
        size = nsi_utf8_next(text, strlen(text), &code);
        nsi_text_add_bytes(&w->string, size > 0 ? text : "\xef\xbf\xbd", size > 0 ? size : 3);
        if (size == 0) size = 1;
    }
    nsi_text_add_bytes(&w->string, "", 1);
    if (!w->string.failed) return w->string.text.data;
    w->failed = true;
    return "";
}

static json_t* string(writer* w, const char* text) {
    return text ? json_string(clean(w, text)) : json_null();
}

// ---- parts -----------------------------------------------------------------------------------

static json_t* make_parameters(writer* w, const nsi_result* answer) {
    json_t* list = check(w, json_array());
    for (uint32_t k = 0; k < answer->estimates.count && !w->failed; k++) {
        const nsi_estimate* e = &answer->estimates.data[k];
        json_t* item = check(w, json_object());
        set(w, item, "name", string(w, e->name));
        set(w, item, "unit", string(w, e->unit));
        set(w, item, "start", number(e->start));
        set(w, item, "value", number(e->value));
        set(w, item, "standard_error", number(answer->correlation ? e->standard_error : NAN));
        set(w, item, "lower", number(e->lower));
        set(w, item, "upper", number(e->upper));
        set(w, item, "verdict", string(w, nsi_result_verdict(answer, k)));
        append(w, list, item);
    }
    return list;
}

static json_t* make_coefficients(writer* w, const nsi_result* answer) {
    json_t* list = check(w, json_array());
    for (uint32_t k = 0; k < answer->coefficients.count && !w->failed; k++) {
        const nsi_fitted_coefficient* c = &answer->coefficients.data[k];
        json_t* item = check(w, json_object());
        set(w, item, "set", string(w, c->set));
        set(w, item, "name", string(w, c->name));
        set(w, item, "start", number(c->start));
        set(w, item, "value", number(c->value));
        set(w, item, "standard_error", number(c->standard_error));
        bool known = !isnan(c->standard_error);
        set(w, item, "determined", known ? json_boolean(isfinite(c->standard_error)) : json_null());
        append(w, list, item);
    }
    return list;
}

static json_t* make_correlation(writer* w, const nsi_result* answer) {
    if (!answer->correlation) return json_null();
    uint32_t n = answer->estimates.count;
    json_t* matrix = check(w, json_array());
    for (uint32_t i = 0; i < n && !w->failed; i++) {
        json_t* row = check(w, json_array());
        for (uint32_t k = 0; k < n && !w->failed; k++) {
            append(w, row, number(answer->correlation[(size_t)i * n + k]));
        }
        append(w, matrix, row);
    }
    return matrix;
}

static json_t* make_directions(writer* w, const nsi_result* answer) {
    json_t* list = check(w, json_array());
    for (uint32_t k = 0; k < answer->directions.count && !w->failed; k++) {
        const nsi_direction* direction = &answer->directions.data[k];
        json_t *item = check(w, json_object()), *changes = check(w, json_object());
        for (uint32_t j = 0; j < answer->estimates.count && !w->failed; j++) {
            if (direction->change[j] == 0.0) continue;
            json_t* change = number(direction->change[j]);
            set(w, changes, clean(w, answer->estimates.data[j].name), change);
        }
        set(w, item, "null", json_boolean(direction->null));
        set(w, item, "error", number(direction->error));
        set(w, item, "changes", changes);
        append(w, list, item);
    }
    return list;
}

static json_t* make_score(writer* w, const nsi_score* score) {
    if (score->windows == 0) return json_null();
    json_t *object = check(w, json_object()), *horizons = check(w, json_array());
    for (uint32_t k = 0; k < score->nhorizon && !w->failed; k++) {
        const nsi_horizon_error* h = &score->horizons[k];
        json_t* item = check(w, json_object());
        set(w, item, "seconds", number(h->seconds));
        set(w, item, "pooled", number(h->pooled));
        set(w, item, "median", number(h->median));
        set(w, item, "windows", json_integer(h->windows));
        set(w, item, "samples", json_integer(h->samples));
        append(w, horizons, item);
    }
    set(w, object, "loss", number(score->loss));
    set(w, object, "rmse_q", number(score->rmse_q));
    set(w, object, "rmse_qd", number(score->rmse_qd));
    set(w, object, "windows", json_integer(score->windows));
    set(w, object, "lost", json_integer(score->lost));
    set(w, object, "horizons", horizons);
    json_t* measures = score->nmeasure > 0 ? check(w, json_array()) : NULL;
    for (uint32_t k = 0; k < score->nmeasure && !w->failed; k++) {
        const nsi_measured* m = &score->measures[k];
        json_t* item = check(w, json_object());
        set(w, item, "name", string(w, m->name));
        set(w, item, "unit", string(w, m->unit));
        set(w, item, "mean", number(m->mean));
        set(w, item, "median", number(m->median));
        append(w, measures, item);
    }
    if (measures) set(w, object, "measures", measures);
    return object;
}

static json_t* make_scores(writer* w, const nsi_score scores[NSI_ROLES]) {
    json_t* object = check(w, json_object());
    for (int role = 0; role < NSI_ROLES; role++) {
        set(w, object, nsi_role_name((nsi_role)role), make_score(w, &scores[role]));
    }
    return object;
}

static json_t* make_phases(writer* w, const nsi_result* answer) {
    json_t* list = check(w, json_array());
    for (uint32_t k = 0; k < answer->phases.count && !w->failed; k++) {
        const nsi_phase* phase = &answer->phases.data[k];
        json_t* item = check(w, json_object());
        set(w, item, "name", string(w, phase->name));
        set(w, item, "iterations", json_integer(phase->iterations));
        set(w, item, "evaluations", json_integer(phase->evaluations));
        set(w, item, "seconds", number(phase->seconds));
        set(w, item, "value", number(phase->value));
        set(w, item, "finish", string(w, phase->finish));
        append(w, list, item);
    }
    return list;
}

static json_t* make_history(writer* w, const nsi_result* answer) {
    json_t* list = check(w, json_array());
    for (uint32_t k = 0; k < answer->history.count && !w->failed; k++) {
        const nsi_history_point* point = &answer->history.data[k];
        json_t* item = check(w, json_object());
        set(w, item, "phase", json_integer(point->phase));
        set(w, item, "iteration", json_integer(point->iteration));
        set(w, item, "seconds", number(point->seconds));
        set(w, item, "value", number(point->value));
        append(w, list, item);
    }
    return list;
}

static json_t* make_path(writer* w, const nsi_result* answer) {
    json_t* list = check(w, json_array());
    for (uint32_t k = 0; k < answer->path.count && !w->failed; k++) {
        const nsi_path_point* point = &answer->path.data[k];
        json_t *item = check(w, json_object()), *norms = check(w, json_array());
        for (uint32_t i = 0; i < answer->path_names.count && !w->failed; i++) {
            append(w, norms, number(point->norms[i]));
        }
        set(w, item, "phase", json_integer(point->phase));
        set(w, item, "iteration", json_integer(point->iteration));
        set(w, item, "l1", number(point->l1));
        set(w, item, "group", number(point->group));
        set(w, item, "loss", number(point->loss));
        set(w, item, "norms", norms);
        append(w, list, item);
    }
    return list;
}

static json_t* make_path_names(writer* w, const nsi_result* answer) {
    json_t* list = check(w, json_array());
    for (uint32_t k = 0; k < answer->path_names.count && !w->failed; k++) {
        append(w, list, string(w, answer->path_names.data[k]));
    }
    return list;
}

static json_t* make_notes(writer* w, const nsi_result* answer) {
    json_t* list = check(w, json_array());
    for (uint32_t k = 0; k < answer->notes.count && !w->failed; k++) {
        append(w, list, string(w, answer->notes.data[k]));
    }
    return list;
}

// ---- text ------------------------------------------------------------------------------------

static int receive(const char* bytes, size_t size, void* context) {
    writer* w = context;
    nsi_text_add_bytes(&w->text, bytes, size);
    return w->text.failed ? -1 : 0;
}

// jansson shortens no number: what is read back has the same bits.
static void write_value(writer* w, const json_t* value) {
    if (json_dump_callback(value, receive, w, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) != 0) {
        w->failed = true;
    }
}

// A line for each member, and for each item of a list of lists or objects: a matrix with a line for
// each number would be as unreadable as one line for everything.
static void write_root(writer* w, json_t* root) {
    nsi_text_add(&w->text, "{");
    const char* separator = "\n";
    for (void* at = json_object_iter(root); at; at = json_object_iter_next(root, at)) {
        const json_t* value = json_object_iter_value(at);
        nsi_text_add(&w->text, "%s  \"%s\": ", separator, json_object_iter_key(at)); // ours: plain
        const json_t* first = json_array_get(value, 0);
        if (json_is_object(first) || json_is_array(first)) {
            for (size_t k = 0; k < json_array_size(value); k++) {
                nsi_text_add(&w->text, "%s\n    ", k == 0 ? "[" : ",");
                write_value(w, json_array_get(value, k));
            }
            nsi_text_add(&w->text, "\n  ]");
        } else {
            write_value(w, value);
        }
        separator = ",\n";
    }
    nsi_text_add(&w->text, "\n}\n");
}

ns_status nsi_result_json(const nsi_result* answer, ns_text* out, ns_error* error) {
    writer w = {.text = {.allocator = answer->allocator},
                .string = {.allocator = answer->allocator}};
    json_t* root = check(&w, json_object());
    set(&w, root, "title", string(&w, answer->title));
    set(&w, root, "model", string(&w, answer->model));
    set(&w, root, "treatment", string(&w, answer->treatment));
    set(&w, root, "setting", string(&w, answer->setting));
    set(&w, root, "citation", string(&w, answer->citation));
    set(&w, root, "complete", json_boolean(answer->complete));
    set(&w, root, "seconds", number(answer->seconds));
    set(&w, root, "parameters", make_parameters(&w, answer));
    set(&w, root, "coefficients", make_coefficients(&w, answer));
    set(&w, root, "correlation", make_correlation(&w, answer));
    set(&w, root, "directions", make_directions(&w, answer));
    set(&w, root, "sigma", number(answer->sigma));
    set(&w, root, "noise_known", json_boolean(answer->noise_known));
    set(&w, root, "residuals", json_integer(answer->nresidual));
    set(&w, root, "weights", json_integer(answer->nweight));
    set(&w, root, "before", make_scores(&w, answer->before));
    set(&w, root, "after", make_scores(&w, answer->after));
    set(&w, root, "phases", make_phases(&w, answer));
    set(&w, root, "history", make_history(&w, answer));
    set(&w, root, "path_names", make_path_names(&w, answer));
    set(&w, root, "path", make_path(&w, answer));
    set(&w, root, "notes", make_notes(&w, answer));
    if (!w.failed) write_root(&w, root);
    json_decref(root);
    nsi_array_free(&w.string.allocator, &w.string.text);
    if (w.failed) w.text.failed = true;
    return nsi_text_finish(&w.text, out, error);
}
