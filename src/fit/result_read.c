// Answers read back from JSON. Files come from anywhere: every type, size and number is checked.

#include "fit/result_words.h"
#include "io/json_read.h"

#include <math.h>
#include <stdio.h>

enum {
    MOST_BYTES = 256 << 20,
    MOST_PARAMETERS = 2000, // whose correlations are that number squared
    MOST_PHASES = 100000,
    MOST_HORIZONS = 10000,
    MOST_POINTS = 5000000, // of the history and the path
    MOST_INPUTS = 100000   // of the path
};

typedef struct reader {
    nsi_result* out;
    const char* file;
    char at[100]; // "parameters[3]"
    ns_status status;
    ns_error* error;
} reader;

static void fault(reader* r, ns_status status, const char* key, const char* what) {
    if (r->status != NS_OK) return;
    bool inside = r->at[0] != '\0' && key[0] != '\0' && key[0] != '[';
    bool whole = r->at[0] == '\0' && key[0] == '\0'; // the file
    r->status = nsi_fail(r->error, status, "%.200s: %s%s%.60s%s%s", r->file, r->at,
                         inside ? "." : "", key, whole ? "" : ": ", what);
}

// What is not there at all was not written by earlier versions.
static void fault_type(reader* r, const json_t* value, const char* key, const char* expected) {
    fault(r, NS_ERR_PARSE, key, value ? expected : "it is missing; run the fit again");
}

static void fault_memory(reader* r) {
    if (r->status == NS_OK) r->status = nsi_fail_nomem(r->error);
}

static void enter(reader* r, const char* list, size_t number) {
    snprintf(r->at, sizeof r->at, "%s[%zu]", list, number);
}

static void leave(reader* r) {
    r->at[0] = '\0';
}

// ---- values ------------------------------------------------------------------------------------

// A text in the arena; NULL for null.
static const char* keep_text(reader* r, const json_t* value, const char* key) {
    if (!value || json_is_null(value)) return NULL;
    if (!json_is_string(value)) {
        fault(r, NS_ERR_PARSE, key, "expected a text");
        return NULL;
    }
    const char* text = json_string_value(value);
    const char* kept = nsi_arena_string(&r->out->arena, text, json_string_length(value));
    if (!kept) fault_memory(r);
    return kept;
}

static const char* get_text(reader* r, const json_t* object, const char* key) {
    return keep_text(r, json_object_get(object, key), key);
}

static double number_of(reader* r, const json_t* value, const char* key, double null) {
    if (json_is_null(value)) return null;
    if (!json_is_number(value)) fault_type(r, value, key, "expected a number or null");
    return json_number_value(value);
}

// `null` is what null stands for.
static double get_number(reader* r, const json_t* object, const char* key, double null) {
    return number_of(r, json_object_get(object, key), key, null);
}

static uint32_t get_count(reader* r, const json_t* object, const char* key) {
    const json_t* value = json_object_get(object, key);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || number > UINT32_MAX) {
        fault_type(r, value, key, "expected a whole number from 0 to 4294967295");
        return 0;
    }
    return (uint32_t)number;
}

static bool get_bool(reader* r, const json_t* object, const char* key) {
    const json_t* value = json_object_get(object, key);
    if (!json_is_boolean(value)) fault_type(r, value, key, "expected true or false");
    return json_is_true(value);
}

// The items of a list of objects; 0 after a fault.
static size_t get_list(reader* r, const json_t* object, const char* key, size_t most,
                       const json_t** out) {
    *out = json_object_get(object, key);
    size_t count = json_array_size(*out);
    if (!json_is_array(*out)) fault_type(r, *out, key, "expected a list");
    if (count > most) fault(r, NS_ERR_LIMIT, key, "too many items");
    return r->status == NS_OK ? count : 0;
}

static const json_t* get_item(reader* r, const json_t* list, const char* key, size_t number) {
    const json_t* item = json_array_get(list, number);
    enter(r, key, number);
    if (!json_is_object(item)) fault(r, NS_ERR_PARSE, "", "expected an object");
    return item;
}

// ---- parts -------------------------------------------------------------------------------------

// Without an analysis there are no verdicts, and estimates are as they were listed.
static nsi_verdict get_verdict(reader* r, const json_t* item, bool analysed) {
    static const char* const words[] = {[NSI_VERDICT_NO_EFFECT] = "no effect",
                                        [NSI_VERDICT_AT_LOWER] = "at lower bound",
                                        [NSI_VERDICT_AT_UPPER] = "at upper bound",
                                        [NSI_VERDICT_UNDETERMINED] = "undetermined",
                                        [NSI_VERDICT_POOR] = "poor",
                                        [NSI_VERDICT_OK] = "ok"};
    const char* word = json_string_value(json_object_get(item, "verdict"));
    for (int k = 0; word && k <= NSI_VERDICT_OK; k++) {
        if (strcmp(word, words[k]) == 0) return (nsi_verdict)k;
    }
    if (analysed) fault(r, NS_ERR_PARSE, "verdict", "this is none of the verdicts");
    return NSI_VERDICT_OK;
}

static void read_parameters(reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* list;
    bool analysed = json_is_array(json_object_get(root, "correlation"));
    size_t count = get_list(r, root, "parameters", MOST_PARAMETERS, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        const json_t* item = get_item(r, list, "parameters", k);
        nsi_estimate e = {.name = get_text(r, item, "name"),
                          .unit = get_text(r, item, "unit"),
                          .start = get_number(r, item, "start", NAN),
                          .value = get_number(r, item, "value", NAN),
                          .lower = get_number(r, item, "lower", -INFINITY),
                          .upper = get_number(r, item, "upper", INFINITY),
                          .verdict = get_verdict(r, item, analysed)};
        bool none = !analysed || e.verdict == NSI_VERDICT_NO_EFFECT;
        e.standard_error = get_number(r, item, "standard_error", none ? NAN : INFINITY);
        if (r->status == NS_OK && !nsi_array_push(&a->allocator, &a->estimates, e)) fault_memory(r);
    }
    leave(r);
}

static void read_coefficients(reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* list = json_object_get(root, "coefficients");
    if (!list) return; // of before there were any
    size_t count = get_list(r, root, "coefficients", MOST_INPUTS, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        const json_t* item = get_item(r, list, "coefficients", k);
        bool lost = json_is_false(json_object_get(item, "determined"));
        nsi_fitted_coefficient c = {
            .set = get_text(r, item, "set"),
            .name = get_text(r, item, "name"),
            .start = get_number(r, item, "start", NAN),
            .value = get_number(r, item, "value", NAN),
            .standard_error = get_number(r, item, "standard_error", lost ? INFINITY : NAN)};
        if (r->status == NS_OK && !nsi_array_push(&a->allocator, &a->coefficients, c)) {
            fault_memory(r);
        }
    }
    leave(r);
}

static void read_correlation(reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* matrix = json_object_get(root, "correlation");
    size_t n = a->estimates.count;
    if (json_is_null(matrix) || r->status != NS_OK) return;
    if (get_list(r, root, "correlation", MOST_PARAMETERS, &matrix) != n) {
        fault(r, NS_ERR_PARSE, "correlation", "expected a row for each parameter");
        return;
    }
    a->correlation = nsi_alloc(&a->allocator, n * n * sizeof *a->correlation);
    if (!a->correlation) fault_memory(r);
    for (size_t i = 0; i < n && r->status == NS_OK; i++) {
        const json_t* row = json_array_get(matrix, i);
        enter(r, "correlation", i);
        if (!json_is_array(row) || json_array_size(row) != n) {
            fault(r, NS_ERR_PARSE, "", "expected a number for each parameter");
            return;
        }
        for (size_t k = 0; k < n; k++) {
            a->correlation[i * n + k] = number_of(r, json_array_get(row, k), "", NAN);
        }
    }
    leave(r);
}

static void read_directions(reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* list;
    uint32_t n = a->estimates.count;
    size_t count = get_list(r, root, "directions", n, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        const json_t *item = get_item(r, list, "directions", k),
                     *changes = json_object_get(item, "changes");
        if (!json_is_object(changes)) fault(r, NS_ERR_PARSE, "changes", "expected an object");
        nsi_direction direction = {.error = get_number(r, item, "error", INFINITY),
                                   .null = get_bool(r, item, "null")};
        if (r->status != NS_OK) return;
        direction.change = nsi_alloc_zeroed(&a->allocator, ((size_t)n + 1) * sizeof(double));
        if (!direction.change || !nsi_array_push(&a->allocator, &a->directions, direction)) {
            nsi_free(&a->allocator, direction.change);
            fault_memory(r);
            return;
        }
        for (uint32_t j = 0; j < n; j++) {
            const char* name = a->estimates.data[j].name;
            const json_t* change = name ? json_object_get(changes, name) : NULL;
            if (change) direction.change[j] = number_of(r, change, "changes", NAN);
        }
    }
    leave(r);
}

static void read_score(reader* r, const json_t* object, nsi_score* out) {
    nsi_result* a = r->out;
    const json_t* list;
    if (json_is_null(object) || r->status != NS_OK) return;
    if (!json_is_object(object)) {
        fault(r, NS_ERR_PARSE, "", "expected an object or null");
        return;
    }
    out->loss = get_number(r, object, "loss", NAN);
    out->rmse_q = get_number(r, object, "rmse_q", NAN);
    out->rmse_qd = get_number(r, object, "rmse_qd", NAN);
    out->windows = get_count(r, object, "windows");
    out->lost = get_count(r, object, "lost");
    size_t count = get_list(r, object, "horizons", MOST_HORIZONS, &list);
    out->horizons = nsi_alloc_zeroed(&a->allocator, (count + 1) * sizeof *out->horizons);
    if (!out->horizons) fault_memory(r);
    char outer[sizeof r->at];
    memcpy(outer, r->at, sizeof outer);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        snprintf(r->at, sizeof r->at, "%.60s.horizons[%zu]", outer, k);
        const json_t* item = json_array_get(list, k);
        if (!json_is_object(item)) fault(r, NS_ERR_PARSE, "", "expected an object");
        out->horizons[k] = (nsi_horizon_error){.seconds = get_number(r, item, "seconds", NAN),
                                               .pooled = get_number(r, item, "pooled", INFINITY),
                                               .median = get_number(r, item, "median", INFINITY),
                                               .windows = get_count(r, item, "windows"),
                                               .samples = get_count(r, item, "samples")};
        out->nhorizon = (uint32_t)k + 1;
    }
    count = 0;
    if (json_object_get(object, "measures")) {
        count = get_list(r, object, "measures", MOST_HORIZONS, &list);
    }
    out->measures = nsi_alloc_zeroed(&a->allocator, (count + 1) * sizeof *out->measures);
    if (!out->measures) fault_memory(r);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        snprintf(r->at, sizeof r->at, "%.60s.measures[%zu]", outer, k);
        const json_t* item = json_array_get(list, k);
        if (!json_is_object(item)) fault(r, NS_ERR_PARSE, "", "expected an object");
        out->measures[k] = (nsi_measured){.name = get_text(r, item, "name"),
                                          .unit = get_text(r, item, "unit"),
                                          .mean = get_number(r, item, "mean", INFINITY),
                                          .median = get_number(r, item, "median", INFINITY)};
        out->nmeasure = (uint32_t)k + 1;
    }
    memcpy(r->at, outer, sizeof outer);
}

static void read_scores(reader* r, const json_t* root, const char* key, nsi_score out[NSI_ROLES]) {
    const json_t* object = json_object_get(root, key);
    if (!json_is_object(object)) fault(r, NS_ERR_PARSE, key, "expected an object");
    for (int role = 0; role < NSI_ROLES && r->status == NS_OK; role++) {
        const char* name = nsi_role_name((nsi_role)role);
        snprintf(r->at, sizeof r->at, "%s.%s", key, name);
        read_score(r, json_object_get(object, name), &out[role]);
    }
    leave(r);
}

static void read_phases(reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* list;
    size_t count = get_list(r, root, "phases", MOST_PHASES, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        const json_t* item = get_item(r, list, "phases", k);
        nsi_phase phase = {.name = get_text(r, item, "name"),
                           .iterations = get_count(r, item, "iterations"),
                           .evaluations = get_count(r, item, "evaluations"),
                           .seconds = get_number(r, item, "seconds", NAN),
                           .value = get_number(r, item, "value", NAN),
                           .finish = get_text(r, item, "finish")};
        if (r->status == NS_OK && !nsi_array_push(&a->allocator, &a->phases, phase))
            fault_memory(r);
    }
    leave(r);
}

static void read_history(reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* list;
    size_t count = get_list(r, root, "history", MOST_POINTS, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        const json_t* item = get_item(r, list, "history", k);
        nsi_history_point point = {.phase = get_count(r, item, "phase"),
                                   .iteration = get_count(r, item, "iteration"),
                                   .seconds = get_number(r, item, "seconds", NAN),
                                   .value = get_number(r, item, "value", NAN)};
        if (r->status == NS_OK && !nsi_array_push(&a->allocator, &a->history, point)) {
            fault_memory(r);
        }
    }
    leave(r);
}

static void read_path(reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t *names, *list, *norms;
    size_t nname = get_list(r, root, "path_names", MOST_INPUTS, &names);
    for (size_t k = 0; k < nname && r->status == NS_OK; k++) {
        const char* name = keep_text(r, json_array_get(names, k), "path_names");
        if (!nsi_array_push(&a->allocator, &a->path_names, name)) fault_memory(r);
    }
    size_t count = get_list(r, root, "path", MOST_POINTS, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        const json_t* item = get_item(r, list, "path", k);
        nsi_path_point point = {.phase = get_count(r, item, "phase"),
                                .iteration = get_count(r, item, "iteration"),
                                .l1 = get_number(r, item, "l1", NAN),
                                .group = get_number(r, item, "group", NAN),
                                .loss = get_number(r, item, "loss", NAN)};
        if (get_list(r, item, "norms", MOST_INPUTS, &norms) != nname) {
            fault(r, NS_ERR_PARSE, "norms", "expected a number for each of path_names");
        }
        if (r->status != NS_OK) return;
        double* own = nsi_arena_alloc(&a->arena, (nname + 1) * sizeof *own);
        for (size_t i = 0; own && i < nname; i++) {
            own[i] = number_of(r, json_array_get(norms, i), "norms", NAN);
        }
        point.norms = own;
        if (!own || !nsi_array_push(&a->allocator, &a->path, point)) fault_memory(r);
    }
    leave(r);
}

static void read_notes(reader* r, const json_t* root) {
    nsi_result* a = r->out;
    const json_t* list;
    size_t count = get_list(r, root, "notes", MOST_PHASES, &list);
    for (size_t k = 0; k < count && r->status == NS_OK; k++) {
        enter(r, "notes", k);
        const char* text = keep_text(r, json_array_get(list, k), "");
        if (!nsi_array_push(&a->allocator, &a->notes, text)) fault_memory(r);
    }
    leave(r);
}

static void read_root(reader* r, const json_t* root) {
    nsi_result* a = r->out;
    a->title = get_text(r, root, "title");
    a->model = get_text(r, root, "model");
    a->treatment = get_text(r, root, "treatment");
    a->setting = get_text(r, root, "setting");
    a->citation = get_text(r, root, "citation");
    a->complete = get_bool(r, root, "complete");
    a->seconds = get_number(r, root, "seconds", NAN);
    a->sigma = get_number(r, root, "sigma", NAN);
    a->noise_known = get_bool(r, root, "noise_known");
    a->nresidual = get_count(r, root, "residuals");
    a->nweight = get_count(r, root, "weights");
    read_parameters(r, root);
    read_coefficients(r, root);
    read_correlation(r, root);
    read_directions(r, root);
    read_scores(r, root, "before", a->before);
    read_scores(r, root, "after", a->after);
    read_phases(r, root);
    read_history(r, root);
    read_path(r, root);
    read_notes(r, root);
}

// ---- files -------------------------------------------------------------------------------------

// The answer in a file: itself, or one of `fits`.
static const json_t* choose(reader* r, const json_t* root, const char* fit) {
    const json_t* fits = json_object_get(root, "fits");
    if (json_is_object(root) && json_is_object(json_object_get(root, "before"))) return root;
    if (!json_is_object(fits) || json_object_size(fits) == 0) {
        bool discovery = json_is_array(json_object_get(root, "found")) &&
                         json_is_array(json_object_get(root, "ranking"));
        fault(r, NS_ERR_PARSE, "",
              discovery ? "this is a discovery; see its report.html"
                        : "this is no result of a fit");
        return NULL;
    }
    if (!fit) fit = json_string_value(json_object_get(root, "main"));
    if (!fit) fit = json_object_iter_key(json_object_iter((json_t*)fits));
    const json_t* one = json_object_get(fits, fit);
    if (one) {
        r->out->fit = nsi_arena_string(&r->out->arena, fit, strlen(fit));
        if (!r->out->fit) fault_memory(r);
        return one;
    }
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
    reader r = {.out = out, .file = path, .error = error};
    json_t* root;
    ns_status parsed = nsi_json_read(text, size, path, MOST_BYTES, &root, error);
    if (parsed != NS_OK) return parsed;
    const json_t* chosen = choose(&r, root, fit);
    if (chosen && !json_is_object(chosen)) fault(&r, NS_ERR_PARSE, "fits", "expected objects");
    if (r.status == NS_OK) read_root(&r, chosen);
    json_decref(root);
    if (r.status != NS_OK) nsi_result_free(out);
    return r.status;
}
