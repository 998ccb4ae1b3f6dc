// JSON output.

#include "json.h"

#include "cli.h"

#include <inttypes.h>
#include <math.h>

static void put(json* j, const char* text) {
    nsi_text_add_bytes(&j->text, text, strlen(text));
}

// Bytes that are not ASCII pass as they are: names come from UTF-8 files.
static void put_string(json* j, const char* text) {
    put(j, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            nsi_text_add(&j->text, "\\%c", c);
        } else if (c < 0x20) {
            nsi_text_add(&j->text, "\\u%04x", c);
        } else {
            nsi_text_add_bytes(&j->text, text, 1);
        }
    }
    put(j, "\"");
}

// What comes before a value. Objects have a line for each member; arrays stay on one line unless
// they hold objects.
static void put_key(json* j, const char* key, bool opens_object) {
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

json json_begin(void) {
    json j = {.text = {.allocator = ns_default_allocator()}, .closers = "}"};
    put(&j, "{");
    return j;
}

void json_open(json* j, const char* key, char c) {
    NS_ASSERT(j->depth + 1 < JSON_DEPTH);
    put_key(j, key, c == '{');
    nsi_text_add_bytes(&j->text, &c, 1);
    j->depth++;
    j->closers[j->depth] = c == '{' ? '}' : ']';
    j->filled[j->depth] = false;
}

void json_close(json* j) {
    char closer = j->closers[j->depth];
    if (closer == '}' && j->filled[j->depth]) {
        put(j, "\n");
        for (int k = 0; k < j->depth; k++) put(j, "  ");
    }
    nsi_text_add_bytes(&j->text, &closer, 1);
    j->depth--;
}

void json_text(json* j, const char* key, const char* value) {
    put_key(j, key, false);
    if (value) {
        put_string(j, value);
    } else {
        put(j, "null");
    }
}

void json_number(json* j, const char* key, double value) {
    put_key(j, key, false);
    if (isfinite(value)) {
        nsi_text_add_double(&j->text, value);
    } else {
        put(j, "null");
    }
}

void json_count(json* j, const char* key, uint64_t value) {
    put_key(j, key, false);
    nsi_text_add(&j->text, "%" PRIu64, value);
}

void json_bool(json* j, const char* key, bool value) {
    put_key(j, key, false);
    put(j, value ? "true" : "false");
}

void json_numbers(json* j, const char* key, const double* values, size_t count) {
    json_open(j, key, '[');
    for (size_t k = 0; k < count; k++) json_number(j, NULL, values[k]);
    json_close(j);
}

void json_value(json* j, const char* key, const char* text, size_t size) {
    put_key(j, key, false);
    nsi_text_add_bytes(&j->text, text, size);
}

static void close_all(json* j) {
    while (j->depth >= 0) json_close(j);
    put(j, "\n");
}

bool json_finish(json* j, ns_text* out) {
    ns_error error;
    close_all(j);
    if (nsi_text_finish(&j->text, out, &error) == NS_OK) return true;
    cli_fail("%s", error.message);
    return false;
}

int json_print(json* j) {
    close_all(j);
    return cli_print_text(&j->text) ? EXIT_OK : EXIT_FAILED;
}
