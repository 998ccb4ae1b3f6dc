// JSON output.

#include "io/json.h"

#include "io/utf8.h"

#include <inttypes.h>
#include <math.h>

static void put(nsi_json* j, const char* text) {
    nsi_text_add_bytes(&j->text, text, strlen(text));
}

static void put_string(nsi_json* j, const char* text) {
    put(j, "\"");
    for (size_t left = strlen(text), size; left > 0; text += size, left -= size) {
        uint32_t code;
        size = nsi_utf8_next(text, left, &code);
        if (size == 0) {
            put(j, "\xef\xbf\xbd");
            size = 1;
        } else if (code == '"' || code == '\\') {
            nsi_text_add(&j->text, "\\%c", (char)code);
        } else if (code < 0x20 || code == '<') {
            nsi_text_add(&j->text, "\\u%04x", code);
        } else {
            nsi_text_add_bytes(&j->text, text, size);
        }
    }
    put(j, "\"");
}

// What comes before a value. Objects have a line for each member; arrays stay on one line unless
// they hold objects.
static void put_key(nsi_json* j, const char* key, bool opens_object) {
    bool is_object = j->closers[j->depth] == '}';
    if (j->filled[j->depth]) put(j, is_object || opens_object ? "," : ", ");
    j->filled[j->depth] = true;
    if (is_object || opens_object) {
        put(j, "\n");
        for (int k = 0; k <= j->depth; k++) put(j, "  ");
    }
    if (!key) return;
    put_string(j, key);
    put(j, ": ");
}

nsi_json nsi_json_begin(const ns_allocator* allocator) {
    nsi_json j = {.text = {.allocator = allocator ? *allocator : ns_default_allocator()},
                  .closers = "}"};
    put(&j, "{");
    return j;
}

void nsi_json_open(nsi_json* j, const char* key, char c) {
    NS_ASSERT(j->depth + 1 < NSI_JSON_DEPTH);
    put_key(j, key, c == '{');
    nsi_text_add_bytes(&j->text, &c, 1);
    j->depth++;
    j->closers[j->depth] = c == '{' ? '}' : ']';
    j->filled[j->depth] = false;
}

void nsi_json_close(nsi_json* j) {
    char closer = j->closers[j->depth];
    if (closer == '}' && j->filled[j->depth]) {
        put(j, "\n");
        for (int k = 0; k < j->depth; k++) put(j, "  ");
    }
    nsi_text_add_bytes(&j->text, &closer, 1);
    j->depth--;
}

void nsi_json_text(nsi_json* j, const char* key, const char* value) {
    put_key(j, key, false);
    if (value) {
        put_string(j, value);
    } else {
        put(j, "null");
    }
}

void nsi_json_number(nsi_json* j, const char* key, double value) {
    put_key(j, key, false);
    if (isfinite(value)) {
        nsi_text_add_double(&j->text, value);
    } else {
        put(j, "null");
    }
}

void nsi_json_count(nsi_json* j, const char* key, uint64_t value) {
    put_key(j, key, false);
    nsi_text_add(&j->text, "%" PRIu64, value);
}

void nsi_json_bool(nsi_json* j, const char* key, bool value) {
    put_key(j, key, false);
    put(j, value ? "true" : "false");
}

void nsi_json_numbers(nsi_json* j, const char* key, const double* values, size_t count) {
    nsi_json_open(j, key, '[');
    for (size_t k = 0; k < count; k++) nsi_json_number(j, NULL, values[k]);
    nsi_json_close(j);
}

void nsi_json_value(nsi_json* j, const char* key, const char* text, size_t size) {
    put_key(j, key, false);
    nsi_text_add_bytes(&j->text, text, size);
}

ns_status nsi_json_finish(nsi_json* j, ns_text* out, ns_error* error) {
    while (j->depth >= 0) nsi_json_close(j);
    put(j, "\n");
    return nsi_text_finish(&j->text, out, error);
}
