// The record of a fit read from JSON. Files come from anywhere: every type, size and number is checked.

#include "fit/result_fields.h"
#include "io/json_read.h"

#include <math.h>
#include <stdio.h>

enum {
    MAX_RECORD_BYTES = 256 << 20,
    MAX_PARAMETERS = 2000, // whose correlations are that number squared
    MAX_PHASES = 100000,
    MAX_HORIZONS = 10000,
    MAX_POINTS = 5000000, // of the history and the path
    MAX_INPUTS = 100000   // of the path
};

// ---- values ---------------------------------------------------------------------------

typedef struct record_reader {
    nsi_result* out;
    const char* file;
    char at[100]; // "parameters[3]"
    ns_status status;
    ns_error* error;
} record_reader;

static void record_fault(record_reader* r, ns_status status, const char* key, const char* what) {
    if (r->status != NS_OK) return;
    bool inside = r->at[0] != '\0' && key[0] != '\0' && key[0] != '[';
    bool whole = r->at[0] == '\0' && key[0] == '\0'; // the file
    r->status = nsi_fail(r->error, status, "%.200s: %s%s%.60s%s%s", r->file, r->at,
                         inside ? "." : "", key, whole ? "" : ": ", what);
}

// What is not there at all was not written by earlier versions.
static void fault_type(record_reader* r, const json_t* value, const char* key,
                       const char* expected) {
    record_fault(r, NS_ERR_PARSE, key, value ? expected : "it is missing; run the fit again");
}

static void fault_memory(record_reader* r) {
    if (r->status == NS_OK) r->status = nsi_fail_nomem(r->error);
}

static void enter_item(record_reader* r, const char* list, size_t number) {
    snprintf(r->at, sizeof r->at, "%s[%zu]", list, number);
}

static void leave_list(record_reader* r) {
    r->at[0] = '\0';
}

// A text in the arena; NULL for null.
static const char* read_text(record_reader* r, const json_t* value, const char* key) {
    if (!value || json_is_null(value)) return NULL;
    if (!json_is_string(value)) {
        record_fault(r, NS_ERR_PARSE, key, "expected a text");
        return NULL;
    }
    const char* text = json_string_value(value);
    const char* kept = nsi_arena_string(&r->out->arena, text, json_string_length(value));
    if (!kept) fault_memory(r);
    return kept;
}

static double record_number(record_reader* r, const json_t* value, const char* key, double null) {
    if (json_is_null(value)) return null;
    if (!json_is_number(value)) fault_type(r, value, key, "expected a number or null");
    return json_number_value(value);
}

static uint32_t record_count(record_reader* r, const json_t* value, const char* key) {
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || number > UINT32_MAX) {
        fault_type(r, value, key, "expected a whole number from 0 to 4294967295");
        return 0;
    }
    return (uint32_t)number;
}

static bool read_bool(record_reader* r, const json_t* value, const char* key) {
    if (!json_is_boolean(value)) fault_type(r, value, key, "expected true or false");
    return json_is_true(value);
}

static void read_fields(record_reader* r, const json_t* object, const nsi_record_type* type,
                        void* record) {
    for (uint32_t k = 0; k < type->count && r->status == NS_OK; k++) {
        const nsi_record_field* f = &type->fields[k];
        const json_t* value = json_object_get(object, f->key);
        void* member = (char*)record + f->offset;
        switch (f->type) {
        case NSI_FIELD_TEXT: *(const char**)member = read_text(r, value, f->key); break;
        case NSI_FIELD_NUMBER: *(double*)member = record_number(r, value, f->key, f->null); break;
        case NSI_FIELD_COUNT: *(uint32_t*)member = record_count(r, value, f->key); break;
        case NSI_FIELD_BOOL: *(bool*)member = read_bool(r, value, f->key); break;
        }
    }
}

// The items of a list; 0 after a fault.
static size_t record_list(record_reader* r, const json_t* object, const char* key, size_t max,
                          const json_t** out) {
    *out = json_object_get(object, key);
    size_t count = json_array_size(*out);
    if (!json_is_array(*out)) fault_type(r, *out, key, "expected a list");
    if (count > max) record_fault(r, NS_ERR_LIMIT, key, "too many items");
    return r->status == NS_OK ? count : 0;
}

static const json_t* record_item(record_reader* r, const json_t* list, const char* key,
                                 size_t number) {
    const json_t* item = json_array_get(list, number);
    enter_item(r, key, number);
    if (!json_is_object(item)) record_fault(r, NS_ERR_PARSE, "", "expected an object");
    return item;
}

// ---- parts ----------------------------------------------------------------------------

// Without an analysis there are no verdicts, and estimates are as they were listed.
static ns_verdict read_verdict(record_reader* r, const json_t* item, bool analysed) {
    const char* word = json_string_value(json_object_get(item, "verdict"));
    int value;
    if (word && ns_choice_find(&ns_verdicts, word, &value)) return (ns_verdict)value;
    if (analysed) record_fault(r, NS_ERR_PARSE, "verdict", "this is none of the verdicts");
    return NS_VERDICT_OK;
}

static void read_estimates(record_reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* list;
    bool analysed = json_is_array(json_object_get(root, "correlation"));
    size_t count = record_list(r, root, "parameters", MAX_PARAMETERS, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        const json_t* item = record_item(r, list, "parameters", k);
        ns_estimate e = {0};
        read_fields(r, item, &nsi_estimate_fields, &e);
        e.verdict = read_verdict(r, item, analysed);
        bool infinite = analysed && e.verdict != NS_VERDICT_NO_EFFECT;
        if (isnan(e.standard_error) && infinite) e.standard_error = INFINITY;
        if (r->status == NS_OK && !nsi_array_push(&a->allocator, &a->estimates, e)) fault_memory(r);
    }
    leave_list(r);
}

static void record_read_coefficients(record_reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* list = json_object_get(root, "coefficients");
    if (!list) return; // of before there were any
    size_t count = record_list(r, root, "coefficients", MAX_INPUTS, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        const json_t* item = record_item(r, list, "coefficients", k);
        ns_fitted_coefficient c = {0};
        read_fields(r, item, &nsi_coefficient_fields, &c);
        bool lost = json_is_false(json_object_get(item, "determined"));
        if (isnan(c.standard_error) && lost) c.standard_error = INFINITY;
        if (r->status == NS_OK && !nsi_array_push(&a->allocator, &a->coefficients, c)) {
            fault_memory(r);
        }
    }
    leave_list(r);
}

static void read_correlation(record_reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* matrix = json_object_get(root, "correlation");
    size_t n = a->estimates.count;
    if (json_is_null(matrix) || r->status != NS_OK) return;
    if (record_list(r, root, "correlation", MAX_PARAMETERS, &matrix) != n) {
        record_fault(r, NS_ERR_PARSE, "correlation", "expected a row for each parameter");
        return;
    }
    a->correlation = nsi_alloc(&a->allocator, n * n * sizeof *a->correlation);
    if (!a->correlation) fault_memory(r);
    for (size_t i = 0; i < n && r->status == NS_OK; i++) {
        const json_t* row = json_array_get(matrix, i);
        enter_item(r, "correlation", i);
        if (!json_is_array(row) || json_array_size(row) != n) {
            record_fault(r, NS_ERR_PARSE, "", "expected a number for each parameter");
            return;
        }
        for (size_t k = 0; k < n; k++) {
            a->correlation[i * n + k] = record_number(r, json_array_get(row, k), "", NAN);
        }
    }
    leave_list(r);
}

static void read_directions(record_reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* list;

    // There are at most as many directions as parameters.
    uint32_t n = a->estimates.count;
    size_t count = record_list(r, root, "directions", n, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        const json_t *item = record_item(r, list, "directions", k),
                     *changes = json_object_get(item, "changes");

        // A direction: its uncertainty, and the change of each parameter along it.
        ns_parameter_direction direction = {0};
        if (!json_is_object(changes)) {
            record_fault(r, NS_ERR_PARSE, "changes", "expected an object");
        }
        read_fields(r, item, &nsi_direction_fields, &direction);
        if (r->status != NS_OK) return;

        // Changes by the names of parameters; others are 0.
        direction.change = nsi_alloc_zeroed(&a->allocator, ((size_t)n + 1) * sizeof(double));
        if (!direction.change || !nsi_array_push(&a->allocator, &a->directions, direction)) {
            // Pushed or freed: nobody else knows of it.
            nsi_free(&a->allocator, direction.change);
            fault_memory(r);
            return;
        }

        // The result owns it by now, so a failure leaks nothing.
        for (uint32_t j = 0; j < n; j++) {
            const char* name = a->estimates.data[j].name;
            const json_t* change = name ? json_object_get(changes, name) : NULL;
            if (change) direction.change[j] = record_number(r, change, "changes", NAN);
        }
    }
    leave_list(r);
}

// Records of a list inside of a score, whose place is `outer`; NULL after a fault.
static void* read_score_list(record_reader* r, const json_t* object, const char* outer,
                             const char* key, const nsi_record_type* type, size_t size,
                             uint32_t* count) {
    const json_t* list = NULL;
    size_t there = record_list(r, object, key, MAX_HORIZONS, &list);
    char* records = nsi_alloc_zeroed(&r->out->allocator, (there + 1) * size);
    if (!records) fault_memory(r);
    for (size_t k = 0; k < there && r->status == NS_OK; k++) {
        snprintf(r->at, sizeof r->at, "%.60s.%s[%zu]", outer, key, k);
        const json_t* item = json_array_get(list, k);
        if (!json_is_object(item)) record_fault(r, NS_ERR_PARSE, "", "expected an object");
        read_fields(r, item, type, records + k * size);
        *count = (uint32_t)k + 1;
    }
    snprintf(r->at, sizeof r->at, "%.60s", outer);
    return records;
}

static void read_scores(record_reader* r, const json_t* root, const char* key,
                        ns_score out[NS_ROLE_COUNT]) {
    const json_t* object = json_object_get(root, key);
    if (!json_is_object(object)) record_fault(r, NS_ERR_PARSE, key, "expected an object");
    for (int role = 0; role < NS_ROLE_COUNT && r->status == NS_OK; role++) {
        const char* name = nsi_role_name((ns_data_role)role);
        const json_t* item = json_object_get(object, name);
        ns_score* score = &out[role];
        char place[60];
        snprintf(place, sizeof place, "%s.%s", key, name);
        snprintf(r->at, sizeof r->at, "%s", place);
        if (json_is_null(item)) continue; // no such data
        if (!json_is_object(item)) {
            record_fault(r, NS_ERR_PARSE, "", "expected an object or null");
            return;
        }
        read_fields(r, item, &nsi_score_fields, score);
        if (r->status != NS_OK) return;
        score->horizons = read_score_list(r, item, place, "horizons", &nsi_horizon_fields,
                                          sizeof *score->horizons, &score->nhorizon);
        if (r->status != NS_OK || !json_object_get(item, "metrics")) continue;
        score->metrics = read_score_list(r, item, place, "metrics", &nsi_metric_fields,
                                         sizeof *score->metrics, &score->nmetric);
    }
    leave_list(r);
}

static void read_phases(record_reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* list;
    size_t count = record_list(r, root, "phases", MAX_PHASES, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        ns_fit_phase phase = {0};
        read_fields(r, record_item(r, list, "phases", k), &nsi_phase_fields, &phase);
        if (!nsi_array_push(&a->allocator, &a->phases, phase)) fault_memory(r);
    }
    leave_list(r);
}

static void read_history(record_reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* list;
    size_t count = record_list(r, root, "history", MAX_POINTS, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        ns_fit_history_point point = {0};
        read_fields(r, record_item(r, list, "history", k), &nsi_history_fields, &point);
        if (!nsi_array_push(&a->allocator, &a->history, point)) fault_memory(r);
    }
    leave_list(r);
}

static void read_path(record_reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t *names, *list, *norms;

    // Names of the penalised inputs.
    size_t nname = record_list(r, root, "path_names", MAX_INPUTS, &names);
    for (size_t k = 0; k < nname && r->status == NS_OK; k++) {
        const char* name = read_text(r, json_array_get(names, k), "path_names");
        if (!nsi_array_push(&a->allocator, &a->path_names, name)) fault_memory(r);
    }

    // A point has a norm for each of the names.
    size_t count = record_list(r, root, "path", MAX_POINTS, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        const json_t* item = record_item(r, list, "path", k);
        ns_sparsity_point point = {0};
        read_fields(r, item, &nsi_path_fields, &point);

        // Norms are drawn by name, so none may be missing.
        if (record_list(r, item, "norms", MAX_INPUTS, &norms) != nname) {
            record_fault(r, NS_ERR_PARSE, "norms", "expected a number for each of path_names");
        }

        // Not before everything is known to be there.
        if (r->status != NS_OK) return;

        // null stands for NaN.
        double* own = nsi_arena_alloc(&a->arena, (nname + 1) * sizeof *own);
        for (size_t i = 0; own && i < nname; i++) {
            own[i] = record_number(r, json_array_get(norms, i), "norms", NAN);
        }
        point.norms = own;
        if (!own || !nsi_array_push(&a->allocator, &a->path, point)) fault_memory(r);
    }
    leave_list(r);
}

static const char* text_item(record_reader* r, const json_t* list, const char* key, size_t k) {
    enter_item(r, key, k);
    return read_text(r, json_array_get(list, k), "");
}

static void read_notes(record_reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* list;
    size_t count = record_list(r, root, "data_warnings", MAX_PHASES, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        const char* text = text_item(r, list, "data_warnings", k);
        if (!nsi_array_push(&a->allocator, &a->data_warnings, text)) fault_memory(r);
    }
    leave_list(r);
    count = record_list(r, root, "notes", MAX_PHASES, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        const char* text = text_item(r, list, "notes", k);
        if (!nsi_array_push(&a->allocator, &a->notes, text)) fault_memory(r);
    }
    leave_list(r);
}

static void read_record(record_reader* r, const json_t* root) {
    read_fields(r, root, &nsi_result_fields, r->out);
    read_estimates(r, root);
    record_read_coefficients(r, root);
    read_correlation(r, root);
    read_directions(r, root);
    read_scores(r, root, "before", r->out->before);
    read_scores(r, root, "after", r->out->after);
    read_phases(r, root);
    read_history(r, root);
    read_path(r, root);
    read_notes(r, root);
}

// ---- files ----------------------------------------------------------------------------

// The record in a file: itself, or one of `fits`.
static const json_t* choose_record(record_reader* r, const json_t* root, const char* fit) {
    // The file is a fit itself, or a study with fits by name.
    const json_t* fits = json_object_get(root, "fits");
    if (json_is_object(root) && json_is_object(json_object_get(root, "before"))) return root;
    if (!json_is_object(fits) || json_object_size(fits) == 0) {
        // A discovery also writes result.json: say what it is.
        bool discovery = json_is_array(json_object_get(root, "found")) &&
                         json_is_array(json_object_get(root, "ranking"));
        record_fault(r, NS_ERR_PARSE, "",
                     discovery ? "this is a discovery; see its report.html"
                               : "this is no result of a fit");
        return NULL;
    }

    // By default the study's headline, otherwise its first.
    if (!fit) fit = json_string_value(json_object_get(root, "headline"));
    if (!fit) fit = json_object_iter_key(json_object_iter((json_t*)fits));
    const json_t* one = json_object_get(fits, fit);
    if (one) {
        // Its name, so that callers can say which one it is.
        r->out->fit = nsi_arena_string(&r->out->arena, fit, strlen(fit));
        if (!r->out->fit) fault_memory(r);
        return one;
    }

    // An unknown name: list those that exist.
    char list[200] = "";
    for (void* at = json_object_iter((json_t*)fits); at;
         at = json_object_iter_next((json_t*)fits, at)) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, " %.60s", json_object_iter_key(at));
    }
    r->status = nsi_fail(r->error, NS_ERR_ARGUMENT, "%.200s: there is no fit '%.60s'; there are:%s",
                         r->file, fit, list);
    return NULL;
}

ns_status nsi_result_read(const char* text, size_t size, const char* path, const char* fit,
                          const ns_allocator* allocator, nsi_result* out, ns_error* error) {
    nsi_result_init(allocator, out);
    record_reader r = {.out = out, .file = path, .error = error};
    json_t* root;
    ns_status parsed = nsi_json_read(text, size, path, MAX_RECORD_BYTES, &root, error);
    if (parsed != NS_OK) return parsed;
    const json_t* chosen = choose_record(&r, root, fit);
    if (chosen && !json_is_object(chosen))
        record_fault(&r, NS_ERR_PARSE, "fits", "expected objects");
    if (r.status == NS_OK) read_record(&r, chosen);
    json_decref(root);
    if (r.status != NS_OK) nsi_result_free(out);
    return r.status;
}
