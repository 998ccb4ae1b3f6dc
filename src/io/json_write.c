// Write JSON as a stream.

#include "neuralsim/json.h"

#include "base/common.h"
#include "io/utf8.h"

#include <inttypes.h>
#include <math.h>

struct ns_json {
    nsi_text_builder text;
    char closers[NS_JSON_DEPTH];
    bool filled[NS_JSON_DEPTH]; // has something at this level already
    int depth;
    bool too_deep; // what is deeper is left out
    int left_out;  // levels that are open and left out
};

static void json_put(ns_json* j, const char* text) {
    nsi_text_add_bytes(&j->text, text, strlen(text));
}

static void put_string(ns_json* j, const char* text) {
    json_put(j, "\"");
    for (size_t left = strlen(text), size; left > 0; text += size, left -= size) {
        uint32_t code;
        size = nsi_utf8_next(text, left, &code);
        if (size == 0) {
            json_put(j, "\xef\xbf\xbd");
            size = 1;
        } else if (code == '"' || code == '\\') {
            nsi_text_add(&j->text, "\\%c", (char)code);
        } else if (code < 0x20 || code == '<') {
            nsi_text_add(&j->text, "\\u%04x", code);
        } else {
            nsi_text_add_bytes(&j->text, text, size);
        }
    }
    json_put(j, "\"");
}

// What comes before a value. Objects have a line for each member; arrays stay on one line unless
// they hold objects.
static void put_key(ns_json* j, const char* key, bool opens_object) {
    bool is_object = j->closers[j->depth] == '}';
    if (j->filled[j->depth]) json_put(j, is_object || opens_object ? "," : ", ");
    j->filled[j->depth] = true;
    if (is_object || opens_object) {
        json_put(j, "\n");
        for (int k = 0; k <= j->depth; k++) json_put(j, "  ");
    }
    if (!key) return;
    put_string(j, key);
    json_put(j, ": ");
}

ns_json* ns_json_create(const ns_allocator* allocator) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    ns_json* j = nsi_alloc(&memory, sizeof *j);
    if (!j) return NULL;
    *j = (ns_json){.text = {.allocator = memory}, .closers = "}"};
    json_put(j, "{");
    return j;
}

void ns_json_open(ns_json* j, const char* key, char bracket) {
    if (!j) return;
    if (j->depth + 1 == NS_JSON_DEPTH) j->too_deep = true;
    if (j->too_deep) {
        j->left_out++;
        return;
    }
    put_key(j, key, bracket == '{');
    nsi_text_add_bytes(&j->text, &bracket, 1);
    j->depth++;
    j->closers[j->depth] = bracket == '{' ? '}' : ']';
    j->filled[j->depth] = false;
}

void ns_json_close(ns_json* j) {
    if (!j || j->depth < 0) return;
    if (j->left_out > 0) {
        j->left_out--;
        return;
    }
    char closer = j->closers[j->depth];
    if (closer == '}' && j->filled[j->depth]) {
        json_put(j, "\n");
        for (int k = 0; k < j->depth; k++) json_put(j, "  ");
    }
    nsi_text_add_bytes(&j->text, &closer, 1);
    j->depth--;
}

void ns_json_text(ns_json* j, const char* key, const char* value) {
    if (!j) return;
    put_key(j, key, false);
    if (value) {
        put_string(j, value);
    } else {
        json_put(j, "null");
    }
}

void ns_json_number(ns_json* j, const char* key, double value) {
    if (!j) return;
    put_key(j, key, false);
    if (isfinite(value)) {
        nsi_text_add_double(&j->text, value);
    } else {
        json_put(j, "null");
    }
}

void ns_json_count(ns_json* j, const char* key, uint64_t value) {
    if (!j) return;
    put_key(j, key, false);
    nsi_text_add(&j->text, "%" PRIu64, value);
}

void ns_json_bool(ns_json* j, const char* key, bool value) {
    if (!j) return;
    put_key(j, key, false);
    json_put(j, value ? "true" : "false");
}

void ns_json_numbers(ns_json* j, const char* key, const double* values, size_t count) {
    ns_json_open(j, key, '[');
    for (size_t k = 0; k < count; k++) ns_json_number(j, NULL, values[k]);
    ns_json_close(j);
}

void ns_json_value(ns_json* j, const char* key, const char* text, size_t size) {
    if (!j) return;
    put_key(j, key, false);
    nsi_text_add_bytes(&j->text, text, size);
}

ns_status ns_json_finish(ns_json* j, ns_text* out, ns_error* error) {
    *out = (ns_text){0};
    if (!j) return nsi_fail_nomem(error);
    j->left_out = 0;
    while (j->depth >= 0) ns_json_close(j);
    json_put(j, "\n");
    ns_allocator memory = j->text.allocator;
    bool too_deep = j->too_deep;
    ns_status status = nsi_text_finish(&j->text, out, error);
    nsi_free(&memory, j);
    if (status == NS_OK && too_deep) {
        ns_text_free(out);
        *out = (ns_text){0};
        return nsi_fail(error, NS_ERR_LIMIT, "JSON of more than %d levels", NS_JSON_DEPTH);
    }
    return status;
}
