// JSON has no infinities: they are written as null.

#include "fit/checkpoint.h"

#include "io/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_BYTES = 1 << 30, HEAD = 44 }; // HEAD: bytes of the first line

uint64_t nsi_hash64(uint64_t hash, const void* bytes, size_t size) {
    const unsigned char* b = bytes;
    for (size_t k = 0; k < size; k++) hash = (hash ^ b[k]) * UINT64_C(0x100000001b3);
    return hash;
}

// ---- writing -----------------------------------------------------------------------------------

static json_t* number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t* checkpoint_numbers(const double* x, size_t count) {
    json_t* list = json_array();
    for (size_t k = 0; k < count; k++) json_array_append_new(list, number(x[k]));
    return list;
}

static json_t* phase_to_json(const ns_fit_phase* p) {
    return json_pack("[i, i, o, o]", (int)p->iterations, (int)p->evaluations, number(p->seconds),
                     number(p->value));
}

static json_t* point_to_json(const ns_fit_history_point* h) {
    return json_pack("[i, i, o, o]", (int)h->phase, (int)h->iteration, number(h->seconds),
                     number(h->value));
}

static json_t* path_to_json(const ns_sparsity_point* p, uint32_t count) {
    return json_pack("[i, i, o, o, o, o]", (int)p->phase, (int)p->iteration, number(p->l1),
                     number(p->group), number(p->loss), checkpoint_numbers(p->norms, count));
}

static json_t* to_json(const nsi_checkpoint* c) {
    // Lists are built first; the table below hands them to the root.
    json_t *root = json_object(), *phases = json_array(), *history = json_array(),
           *path = json_array();

    // A string: JSON numbers do not hold 64 bits exactly.
    char fingerprint[20];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, c->fingerprint);

    // The progress so far: finished phases, loss history and sparsity path.
    for (uint32_t k = 0; k < c->nphase; k++) {
        json_array_append_new(phases, phase_to_json(&c->phases[k]));
    }
    for (uint32_t k = 0; k < c->nhistory; k++) {
        json_array_append_new(history, point_to_json(&c->history[k]));
    }
    for (uint32_t k = 0; k < c->npath; k++) {
        json_array_append_new(path, path_to_json(&c->path[k], c->npath_name));
    }

    // All entries of the file, in the order in which they are written.
    const struct {
        const char* key;
        json_t* value;
    } entries[] = {
        {"fingerprint", json_string(fingerprint)},
        {"seconds", number(c->seconds)},
        {"phase", json_integer(c->phase)},
        {"iteration", json_integer(c->iteration)},
        {"converged", json_boolean(c->converged)},
        {"z", checkpoint_numbers(c->z, c->nz)},
        {"w", checkpoint_numbers(c->w, c->nw)},
        {"x", checkpoint_numbers(c->x, c->nx)},
        {"solver", checkpoint_numbers(c->solver, c->nsolver)},
        {"kept", checkpoint_numbers(c->kept, c->nkept)},
        {"kept_value", number(c->kept_value)},
        {"best", checkpoint_numbers(c->best, c->nbest)},
        {"phases", phases},
        {"history", history},
        {"path", path},
    };

    // jansson returns NULL for values it could not allocate; setting one fails here.
    for (size_t k = 0; k < sizeof entries / sizeof *entries; k++) {
        if (json_object_set_new(root, entries[k].key, entries[k].value) != 0) {
            json_decref(root);
            return NULL;
        }
    }
    return root;
}

static char* with_end(const char* path, const char* end, const ns_allocator* allocator) {
    size_t size = strlen(path) + strlen(end) + 1;
    char* name = nsi_alloc(allocator, size);
    if (name) snprintf(name, size, "%s%s", path, end);
    return name;
}

ns_status nsi_checkpoint_write(const char* path, const nsi_checkpoint* c,
                               const ns_allocator* allocator, ns_error* error) {
    json_t* root = to_json(c);
    char* body = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(root);
    nsi_text_builder text = {.allocator = allocator ? *allocator : ns_default_allocator()};
    if (body) {
        uint64_t hash = nsi_hash64(NSI_HASH_START, body, strlen(body));
        nsi_text_add(&text, "{\"neuralsim checkpoint\": \"%016" PRIx64 "\"}\n", hash);
        nsi_text_add_bytes(&text, body, strlen(body));
    }
    free(body);
    ns_text whole = {0};
    ns_status status = body ? nsi_text_finish(&text, &whole, error) : nsi_fail_nomem(error);
    char* old = with_end(path, ".old", allocator);
    if (status == NS_OK && !old) status = nsi_fail_nomem(error);
    // In between there may be no file of this name: the old one is then the newest.
    if (status == NS_OK) {
        rename(path, old);
        status = nsi_file_write(path, whole.data, whole.size, allocator, error);
    }
    nsi_free(allocator, old);
    ns_text_free(&whole);
    return status;
}

// ---- reading -----------------------------------------------------------------------------------

typedef struct reader {
    const json_t* root;
    nsi_checkpoint* out;
    bool ok;
} reader;

static double get_number(reader* r, const json_t* value) {
    if (json_is_null(value)) return INFINITY;
    if (!json_is_number(value)) r->ok = false;
    return json_number_value(value);
}

static uint32_t get_count(reader* r, const json_t* value) {
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > UINT32_MAX) r->ok = false;
    return r->ok ? (uint32_t)n : 0;
}

static double* get_numbers(reader* r, const char* key, uint32_t* count) {
    const json_t* list = json_object_get(r->root, key);
    size_t n = json_array_size(list);
    double* x = nsi_alloc(&r->out->allocator, (n + 1) * sizeof *x);
    if (!x || !json_is_array(list)) {
        r->ok = false;
        nsi_free(&r->out->allocator, x);
        *count = 0;
        return NULL;
    }
    for (size_t k = 0; k < n; k++) x[k] = get_number(r, json_array_get(list, k));
    *count = (uint32_t)n;
    return x;
}

static void get_lists(reader* r) {
    nsi_checkpoint* c = r->out;
    const json_t* phases = json_object_get(r->root, "phases");
    const json_t* history = json_object_get(r->root, "history");

    // Room for both lists.
    c->nphase = (uint32_t)json_array_size(phases);
    c->nhistory = (uint32_t)json_array_size(history);
    c->phases = nsi_alloc_zeroed(&c->allocator, ((size_t)c->nphase + 1) * sizeof *c->phases);
    c->history = nsi_alloc_zeroed(&c->allocator, ((size_t)c->nhistory + 1) * sizeof *c->history);

    // The caller reports a failure once, for all of the file.
    if (!c->phases || !c->history) {
        r->ok = false;
        return;
    }

    // Rows of finished phases: iterations, evaluations, seconds, loss.
    for (uint32_t k = 0; k < c->nphase; k++) {
        // What is missing or no number clears r->ok.
        const json_t* row = json_array_get(phases, k);
        c->phases[k] = (ns_fit_phase){.iterations = get_count(r, json_array_get(row, 0)),
                                      .evaluations = get_count(r, json_array_get(row, 1)),
                                      .seconds = get_number(r, json_array_get(row, 2)),
                                      .value = get_number(r, json_array_get(row, 3))};
    }

    // Rows of the loss history: phase, iteration, seconds, loss.
    for (uint32_t k = 0; k < c->nhistory; k++) {
        const json_t* row = json_array_get(history, k);
        c->history[k] = (ns_fit_history_point){.phase = get_count(r, json_array_get(row, 0)),
                                               .iteration = get_count(r, json_array_get(row, 1)),
                                               .seconds = get_number(r, json_array_get(row, 2)),
                                               .value = get_number(r, json_array_get(row, 3))};
    }
}

// There is no point in checkpoints of fits without penalties.
static void get_path(reader* r) {
    nsi_checkpoint* c = r->out;
    const json_t* path = json_object_get(r->root, "path");

    // The first point determines the number of penalised inputs.
    size_t count = json_array_size(path);
    c->has_path = json_is_array(path);
    size_t names = json_array_size(json_array_get(json_array_get(path, 0), 5));
    if (count == 0 || count > UINT32_MAX || names > UINT32_MAX) return;

    // One block holds the norms of all points; the first point owns it.
    c->path = nsi_alloc_zeroed(&c->allocator, count * sizeof *c->path);
    double* norms = nsi_alloc(&c->allocator, (count * names + 1) * sizeof *norms);
    if (!c->path || !norms) {
        r->ok = false;
        nsi_free(&c->allocator, norms);
        return;
    }

    // Counts are set once there is memory behind them.
    c->npath = (uint32_t)count;
    c->npath_name = (uint32_t)names;

    // Every point needs as many norms as the first one.
    for (size_t k = 0; k < count; k++) {
        const json_t *row = json_array_get(path, k), *list = json_array_get(row, 5);
        double* own = norms + k * names;
        c->path[k] = (ns_sparsity_point){.phase = get_count(r, json_array_get(row, 0)),
                                         .iteration = get_count(r, json_array_get(row, 1)),
                                         .l1 = get_number(r, json_array_get(row, 2)),
                                         .group = get_number(r, json_array_get(row, 3)),
                                         .loss = get_number(r, json_array_get(row, 4)),
                                         .norms = own};

        // A damaged row must not be read beyond its end.
        if (json_array_size(list) != names) r->ok = false;
        for (size_t i = 0; i < names; i++) own[i] = get_number(r, json_array_get(list, i));
    }
}

static bool from_json(const json_t* root, const ns_allocator* allocator, nsi_checkpoint* c) {
    *c = (nsi_checkpoint){.allocator = *allocator};
    reader r = {.root = root, .out = c, .ok = json_is_object(root)};
    if (!r.ok) return false;
    const char* fingerprint = json_string_value(json_object_get(root, "fingerprint"));
    c->fingerprint = fingerprint ? strtoull(fingerprint, NULL, 16) : 0;
    c->seconds = get_number(&r, json_object_get(root, "seconds"));
    c->phase = get_count(&r, json_object_get(root, "phase"));
    c->iteration = get_count(&r, json_object_get(root, "iteration"));
    c->converged = json_is_true(json_object_get(root, "converged"));
    c->z = get_numbers(&r, "z", &c->nz);
    c->w = get_numbers(&r, "w", &c->nw);
    c->x = get_numbers(&r, "x", &c->nx);
    c->solver = get_numbers(&r, "solver", &c->nsolver);
    c->kept = get_numbers(&r, "kept", &c->nkept);
    c->kept_value = get_number(&r, json_object_get(root, "kept_value"));
    c->best = get_numbers(&r, "best", &c->nbest);
    get_lists(&r);
    get_path(&r);
    return r.ok;
}

// One file; `missing` tells whether it is there at all.
static ns_status read_one(const char* path, const ns_allocator* allocator, nsi_checkpoint* out,
                          bool* missing, ns_error* error) {
    nsi_bytes bytes = {0};
    *missing = !nsi_file_exists(path);
    ns_status status = nsi_file_read(path, MAX_BYTES, allocator, &bytes, error);
    unsigned long long hash = 0;
    size_t head = 0;
    if (status == NS_OK) {
        while (head < bytes.count && bytes.data[head] != '\n') head++;
        char line[HEAD + 1] = {0};
        memcpy(line, bytes.data, head < HEAD ? head : HEAD);
        bool whole =
            head < bytes.count &&
            sscanf(line, "{\"neuralsim checkpoint\": \"%16llx\"}", &hash) == 1 &&
            nsi_hash64(NSI_HASH_START, bytes.data + head + 1, bytes.count - head - 1) == hash;
        json_t* root =
            whole ? json_loadb(bytes.data + head + 1, bytes.count - head - 1, 0, NULL) : NULL;
        if (!root || !from_json(root, allocator, out)) {
            nsi_checkpoint_free(out);
            status = nsi_fail(error, NS_ERR_PARSE, "%s is damaged", path);
        }
        json_decref(root);
    }
    nsi_array_free(allocator, &bytes);
    return status;
}

ns_status nsi_checkpoint_read(const char* path, uint64_t fingerprint, const ns_allocator* allocator,
                              nsi_checkpoint* out, bool* damaged, ns_error* error) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    bool missing, old_missing;
    *out = (nsi_checkpoint){0};

    // The latest checkpoint, or else the one before it.
    ns_status status = read_one(path, &memory, out, &missing, error);
    *damaged = status != NS_OK && !missing;
    if (status != NS_OK) {
        char *old = with_end(path, ".old", &memory), *bad = with_end(path, ".damaged", &memory);
        // Out of the way: the next write would put it in the place of the whole one.
        if (bad && *damaged) rename(path, bad);
        nsi_free(&memory, bad);

        // A crash while writing damages at most the latest one.
        if (!old) return nsi_fail_nomem(error);
        status = read_one(old, &memory, out, &old_missing, error);
        nsi_free(&memory, old);

        // Neither can be read: distinguish a first run from damaged files.
        if (status != NS_OK && missing && old_missing) {
            return nsi_fail(error, NS_ERR_IO, "there is no checkpoint %s", path);
        }
        if (status != NS_OK) {
            return nsi_fail(error, NS_ERR_PARSE,
                            "%s and the one before it are damaged; start again without resuming",
                            path);
        }
    }

    // A checkpoint of other data or settings would continue a different fit.
    if (out->fingerprint != fingerprint) {
        nsi_checkpoint_free(out);
        return nsi_fail(error, NS_ERR_PARSE,
                        "%s belongs to another experiment, or to an earlier version of this one;"
                        " start again without resuming, or in another folder",
                        path);
    }
    return NS_OK;
}

void nsi_checkpoint_free(nsi_checkpoint* c) {
    if (!c->allocator.free) return;
    if (c->path) nsi_free(&c->allocator, (void*)c->path[0].norms);
    void* blocks[] = {c->path, c->z,    c->w,      c->x,      c->solver,
                      c->kept, c->best, c->phases, c->history};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&c->allocator, blocks[k]);
    *c = (nsi_checkpoint){0};
}
