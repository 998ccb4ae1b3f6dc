// The record of a fit written as JSON by jansson, whose memory comes from malloc.

#include "fit/result_fields.h"
#include "io/utf8.h"

#include <math.h>

#include <jansson.h>

// Building and writing; a failure, which is always one of memory, sticks.
typedef struct record_writer {
    nsi_text_builder text;
    nsi_text_builder string; // scratch
    bool failed;
} record_writer;

static json_t* json_check(record_writer* w, json_t* value) {
    if (!value) w->failed = true;
    return value;
}

static void json_set(record_writer* w, json_t* object, const char* key, json_t* value) {
    if (json_object_set_new(object, key, json_check(w, value)) != 0) w->failed = true;
}

static void json_append(record_writer* w, json_t* array, json_t* value) {
    if (json_array_append_new(array, json_check(w, value)) != 0) w->failed = true;
}

static json_t* json_of_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

// Valid UTF-8 in any case, which jansson insists on. The result lives until the next call.
static const char* clean_text(record_writer* w, const char* text) {
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

static json_t* json_of_text(record_writer* w, const char* text) {
    return text ? json_string(clean_text(w, text)) : json_null();
}

static json_t* json_of_numbers(record_writer* w, const double* values, uint32_t count) {
    json_t* list = json_check(w, json_array());
    for (uint32_t k = 0; k < count && !w->failed; k++) {
        json_append(w, list, json_of_number(values[k]));
    }
    return list;
}

static json_t* json_of_texts(record_writer* w, const char* const* texts, uint32_t count) {
    json_t* list = json_check(w, json_array());
    for (uint32_t k = 0; k < count && !w->failed; k++) {
        json_append(w, list, json_of_text(w, texts[k]));
    }
    return list;
}

static void write_fields(record_writer* w, json_t* object, const nsi_record_type* type,
                         const void* record) {
    for (uint32_t k = 0; k < type->count && !w->failed; k++) {
        const nsi_record_field* f = &type->fields[k];
        const void* member = (const char*)record + f->offset;
        json_t* value = NULL;
        switch (f->type) {
        case NSI_FIELD_TEXT: value = json_of_text(w, *(const char* const*)member); break;
        case NSI_FIELD_NUMBER: value = json_of_number(*(const double*)member); break;
        case NSI_FIELD_COUNT: value = json_integer(*(const uint32_t*)member); break;
        case NSI_FIELD_BOOL: value = json_boolean(*(const bool*)member); break;
        }
        json_set(w, object, f->key, value);
    }
}

static json_t* json_of_record(record_writer* w, const nsi_record_type* type, const void* record) {
    json_t* object = json_check(w, json_object());
    write_fields(w, object, type, record);
    return object;
}

static json_t* json_of_records(record_writer* w, const nsi_record_type* type, const void* records,
                               uint32_t count, size_t size) {
    json_t* list = json_check(w, json_array());
    for (uint32_t k = 0; k < count && !w->failed; k++) {
        json_append(w, list, json_of_record(w, type, (const char*)records + k * size));
    }
    return list;
}

// Without an analysis there are neither standard errors nor verdicts.
static json_t* json_of_estimates(record_writer* w, const nsi_result* a) {
    json_t* list = json_check(w, json_array());
    for (uint32_t k = 0; k < a->estimates.count && !w->failed; k++) {
        ns_estimate e = a->estimates.data[k];
        if (!a->correlation) e.standard_error = NAN;
        json_t* item = json_of_record(w, &nsi_estimate_fields, &e);
        json_set(w, item, "verdict", json_of_text(w, nsi_result_verdict(a, k)));
        json_append(w, list, item);
    }
    return list;
}

// null of a standard error: not identifiable, or not known.
static json_t* json_of_coefficients(record_writer* w, const nsi_result* a) {
    json_t* list = json_check(w, json_array());
    for (uint32_t k = 0; k < a->coefficients.count && !w->failed; k++) {
        const ns_fitted_coefficient* c = &a->coefficients.data[k];
        json_t* item = json_of_record(w, &nsi_coefficient_fields, c);
        bool known = !isnan(c->standard_error);
        json_set(w, item, "determined",
                 known ? json_boolean(isfinite(c->standard_error)) : json_null());
        json_append(w, list, item);
    }
    return list;
}

static json_t* json_of_correlation(record_writer* w, const nsi_result* a) {
    if (!a->correlation) return json_null();
    uint32_t n = a->estimates.count;
    json_t* matrix = json_check(w, json_array());
    for (uint32_t i = 0; i < n && !w->failed; i++) {
        json_append(w, matrix, json_of_numbers(w, a->correlation + (size_t)i * n, n));
    }
    return matrix;
}

static json_t* json_of_directions(record_writer* w, const nsi_result* a) {
    json_t* list = json_check(w, json_array());
    for (uint32_t k = 0; k < a->directions.count && !w->failed; k++) {
        const ns_parameter_direction* direction = &a->directions.data[k];
        json_t *item = json_of_record(w, &nsi_direction_fields, direction),
               *changes = json_check(w, json_object());
        for (uint32_t j = 0; j < a->estimates.count && !w->failed; j++) {
            if (direction->change[j] == 0.0) continue;
            json_t* change = json_of_number(direction->change[j]);
            json_set(w, changes, clean_text(w, a->estimates.data[j].name), change);
        }
        json_set(w, item, "changes", changes);
        json_append(w, list, item);
    }
    return list;
}

static json_t* json_of_posterior(record_writer* w, const nsi_result* a) {
    static const char* const kinds[] = {"parameter", "weight", "initial state", "noise"};
    const ns_posterior* p = a->posterior;
    json_t *object = json_check(w, json_object()), *numbers = json_check(w, json_array());

    // How it was sampled.
    json_set(w, object, "method",
             json_of_text(w, ns_choice_name(&ns_posterior_methods, (int)p->method)));
    json_set(w, object, "chains", json_integer(p->chains));
    json_set(w, object, "samples", json_integer(p->count));
    json_set(w, object, "divergences", json_integer(p->divergences));
    json_set(w, object, "truncated", json_integer(p->truncated));
    json_set(w, object, "modes", json_of_numbers(w, p->probability, p->nmode));
    json_set(w, object, "seconds", json_of_number(p->seconds));

    // Summaries of its numbers.
    for (uint32_t k = 0; k < p->n && !w->failed; k++) {
        const ns_posterior_number* number = &p->numbers[k];
        const ns_chain_summary* s = &number->summary;
        json_t* item = json_check(w, json_object());
        json_set(w, item, "name", json_of_text(w, number->name));
        json_set(w, item, "unit", json_of_text(w, number->unit));
        json_set(w, item, "kind", json_of_text(w, kinds[number->kind]));
        json_set(w, item, "mean", json_of_number(s->mean));
        json_set(w, item, "deviation", json_of_number(s->deviation));
        json_set(w, item, "p5", json_of_number(s->lower));
        json_set(w, item, "median", json_of_number(s->median));
        json_set(w, item, "p95", json_of_number(s->upper));
        json_set(w, item, "rhat", json_of_number(s->rhat));
        json_set(w, item, "ess_bulk", json_of_number(s->ess_bulk));
        json_set(w, item, "ess_tail", json_of_number(s->ess_tail));
        json_append(w, numbers, item);
    }
    json_set(w, object, "numbers", numbers);
    return object;
}

// null: no such data.
static json_t* json_of_scores(record_writer* w, const ns_score scores[NS_ROLE_COUNT]) {
    json_t* object = json_check(w, json_object());
    for (int role = 0; role < NS_ROLE_COUNT && !w->failed; role++) {
        const ns_score* score = &scores[role];
        json_t* item =
            score->windows > 0 ? json_of_record(w, &nsi_score_fields, score) : json_null();
        if (score->windows > 0) {
            json_set(w, item, "horizons",
                     json_of_records(w, &nsi_horizon_fields, score->horizons, score->nhorizon,
                                     sizeof *score->horizons));
        }
        if (score->windows > 0 && score->nmetric > 0) {
            json_set(w, item, "metrics",
                     json_of_records(w, &nsi_metric_fields, score->metrics, score->nmetric,
                                     sizeof *score->metrics));
        }
        json_set(w, object, nsi_role_name((ns_data_role)role), item);
    }
    return object;
}

static json_t* json_of_path(record_writer* w, const nsi_result* a) {
    json_t* list = json_check(w, json_array());
    for (uint32_t k = 0; k < a->path.count && !w->failed; k++) {
        const ns_sparsity_point* point = &a->path.data[k];
        json_t* item = json_of_record(w, &nsi_path_fields, point);
        json_set(w, item, "norms", json_of_numbers(w, point->norms, a->path_names.count));
        json_append(w, list, item);
    }
    return list;
}

static int receive_json(const char* bytes, size_t size, void* context) {
    record_writer* w = context;
    nsi_text_add_bytes(&w->text, bytes, size);
    return w->text.failed ? -1 : 0;
}

// jansson shortens no number: what is read back has the same bits.
static void write_json(record_writer* w, const json_t* value) {
    size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
    if (json_dump_callback(value, receive_json, w, flags) != 0) w->failed = true;
}

// A line for each member, and for each item of a list of lists or objects: a matrix with a line for
// each number would be as unreadable as one line for everything.
static void write_lines(record_writer* w, json_t* root) {
    nsi_text_add(&w->text, "{");
    const char* separator = "\n";
    for (void* at = json_object_iter(root); at; at = json_object_iter_next(root, at)) {
        const json_t* value = json_object_iter_value(at);
        nsi_text_add(&w->text, "%s  \"%s\": ", separator, json_object_iter_key(at)); // ours: plain
        const json_t* first = json_array_get(value, 0);
        if (json_is_object(first) || json_is_array(first)) {
            for (size_t k = 0; k < json_array_size(value); k++) {
                nsi_text_add(&w->text, "%s\n    ", k == 0 ? "[" : ",");
                write_json(w, json_array_get(value, k));
            }
            nsi_text_add(&w->text, "\n  ]");
        } else {
            write_json(w, value);
        }
        separator = ",\n";
    }
    nsi_text_add(&w->text, "\n}\n");
}

ns_status nsi_result_json(const nsi_result* a, ns_text* out, ns_error* error) {
    record_writer w = {.text = {.allocator = a->allocator}, .string = {.allocator = a->allocator}};

    // Scalars and texts by their table of fields; failures gather in w.
    json_t* root = json_of_record(&w, &nsi_result_fields, a);

    // What was found, and what the data cannot identify.
    json_set(&w, root, "parameters", json_of_estimates(&w, a));
    json_set(&w, root, "coefficients", json_of_coefficients(&w, a));
    json_set(&w, root, "correlation", json_of_correlation(&w, a));
    json_set(&w, root, "directions", json_of_directions(&w, a));

    if (a->posterior) json_set(&w, root, "posterior", json_of_posterior(&w, a));

    // How well it predicts, and how it was found.
    json_set(&w, root, "before", json_of_scores(&w, a->before));
    json_set(&w, root, "after", json_of_scores(&w, a->after));
    json_set(&w, root, "phases",
             json_of_records(&w, &nsi_phase_fields, a->phases.data, a->phases.count,
                             sizeof *a->phases.data));
    json_set(&w, root, "history",
             json_of_records(&w, &nsi_history_fields, a->history.data, a->history.count,
                             sizeof *a->history.data));

    // Of stages with a penalty.
    json_set(&w, root, "path_names", json_of_texts(&w, a->path_names.data, a->path_names.count));
    json_set(&w, root, "path", json_of_path(&w, a));
    json_set(&w, root, "data_warnings",
             json_of_texts(&w, a->data_warnings.data, a->data_warnings.count));
    json_set(&w, root, "notes", json_of_texts(&w, a->notes.data, a->notes.count));

    // One line per member and list item, so that files can be read and compared.
    if (!w.failed) write_lines(&w, root);
    json_decref(root);
    nsi_array_free(&w.string.allocator, &w.string.text);
    if (w.failed) w.text.failed = true;
    return nsi_text_finish(&w.text, out, error);
}
