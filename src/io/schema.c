// Reading by a table, and the table as Markdown.

#include "io/schema.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

// ---- keys ------------------------------------------------------------------------------------

const char* nsi_schema_words(const nsi_schema* schema, char out[NSI_SCHEMA_WORDS_SIZE]) {
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t k = 0; k < schema->count; k++) {
        int size = snprintf(out + used, NSI_SCHEMA_WORDS_SIZE - used, "%s%s", k > 0 ? " " : "",
                            schema->keys[k].name);
        used += (size_t)size;
        NS_ASSERT(used < NSI_SCHEMA_WORDS_SIZE);
    }
    return out;
}

enum { MAX_TABLES = 3 }; // that follow one another by `also`

ns_status nsi_schema_check_keys(const nsi_yaml* yaml, const nsi_schema* schema,
                                const nsi_yaml_node* map, ns_error* error) {
    char words[MAX_TABLES * NSI_SCHEMA_WORDS_SIZE];
    size_t used = strlen(nsi_schema_words(schema, words));
    int tables = 1;
    for (const nsi_schema* s = schema->also; s && tables < MAX_TABLES; s = s->also, tables++) {
        words[used++] = ' ';
        used += strlen(nsi_schema_words(s, words + used));
    }
    return nsi_yaml_check_map(yaml, map, schema->what, words, error);
}

ns_status nsi_schema_missing(nsi_schema_reader* r, const nsi_yaml_node* map,
                             const nsi_schema_key* key) {
    return nsi_yaml_fail(r->yaml, map, r->error, "`%s` is missing: %s", key->name, key->help);
}

// ---- values ----------------------------------------------------------------------------------

static ns_status schema_keep_text(nsi_schema_reader* r, const char* text, const char** out) {
    *out = r->arena == &r->yaml->arena ? text : nsi_arena_string(r->arena, text, strlen(text));
    return *out ? NS_OK : nsi_fail_nomem(r->error);
}

ns_status nsi_schema_text(nsi_schema_reader* r, const nsi_yaml_node* node, const char** out) {
    const char* text = NULL;
    ns_status status = nsi_yaml_text(r->yaml, node, &text, r->error);
    return text ? schema_keep_text(r, text, out) : status;
}

ns_status nsi_schema_path(nsi_schema_reader* r, const nsi_yaml_node* node, const char** out) {
    const char* text = NULL;
    ns_status status = nsi_yaml_text(r->yaml, node, &text, r->error);
    if (!text) return status;
    const char* folder = node->source ? node->source->folder : "";
    if (*text == '/' || !*folder) return schema_keep_text(r, text, out);
    size_t size = strlen(folder) + strlen(text) + 1;
    char* path = nsi_arena_alloc(r->arena, size);
    if (!path) return nsi_fail_nomem(r->error);
    snprintf(path, size, "%s%s", folder, text);
    *out = path;
    return NS_OK;
}

static ns_status read_number(nsi_schema_reader* r, const nsi_schema_key* key,
                             const nsi_yaml_node* node, double* out) {
    bool any = key->lower == key->upper;
    return nsi_yaml_number(r->yaml, node, any ? -INFINITY : key->lower, any ? INFINITY : key->upper,
                           out, r->error);
}

static ns_status schema_read_count(nsi_schema_reader* r, const nsi_schema_key* key,
                                   const nsi_yaml_node* node, uint32_t* out) {
    bool any = key->lower == key->upper;
    return nsi_yaml_count(r->yaml, node, any ? 0 : (uint32_t)key->lower,
                          any ? UINT32_MAX : (uint32_t)key->upper, out, r->error);
}

// ---- lists -----------------------------------------------------------------------------------

static ns_status read_item(nsi_schema_reader* r, const nsi_schema_key* key,
                           const nsi_yaml_node* node, void* data, uint32_t number) {
    switch (key->type) {
    case NSI_KEY_TEXTS: return nsi_schema_text(r, node, (const char**)data + number);
    case NSI_KEY_NUMBERS: return read_number(r, key, node, (double*)data + number);
    default: return schema_read_count(r, key, node, (uint32_t*)data + number);
    }
}

// Items and their number go to two fields in this order.
static ns_status read_list(nsi_schema_reader* r, const nsi_schema_key* key,
                           const nsi_yaml_node* node, void* out) {
    // Size of an item by type.
    static const size_t sizes[] = {[NSI_KEY_TEXTS] = sizeof(const char*),
                                   [NSI_KEY_NUMBERS] = sizeof(double),
                                   [NSI_KEY_COUNTS] = sizeof(uint32_t)};
    // Some keys accept a single item without brackets.
    bool one = key->single && node->type == NSI_YAML_SCALAR;
    ns_status status = one ? NS_OK : nsi_yaml_check_list(r->yaml, node, r->error);
    uint32_t count = one ? 1 : node->count;
    // Limits come from the table of keys.
    if (status == NS_OK && key->most > 0 && count > key->most) {
        status = nsi_yaml_fail_limit(r->yaml, node, r->error, "%s: more than %u of them", key->name,
                                     key->most);
    }
    // An empty list is often a forgotten entry.
    if (status == NS_OK && key->filled && count == 0) {
        status = nsi_yaml_fail(r->yaml, node, r->error,
                               "%s: the list is empty; fill it, or leave the key out", key->name);
    }
    if (status != NS_OK) return status;

    // Allocate one more, so that an empty list has an address.
    void* data = nsi_arena_alloc(r->arena, ((size_t)count + 1) * sizes[key->type]);
    if (!data) return nsi_fail_nomem(r->error);
    uint32_t number = 0;

    // Read item by item; messages give the position of the item.
    for (const nsi_yaml_node* n = one ? node : node->first; n && status == NS_OK; n = n->next) {
        status = read_item(r, key, n, data, number++);
        if (one) break;
    }

    // The list and its count are adjacent fields.
    memcpy(out, &data, sizeof data);
    memcpy((char*)out + sizeof data, &count, sizeof count);
    return status;
}

// ---- mappings --------------------------------------------------------------------------------

static ns_status read_map_node(nsi_schema_reader* r, const nsi_schema_key* key,
                               const nsi_yaml_node* node, const nsi_yaml_node** out) {
    if (node->type != NSI_YAML_MAP) {
        return nsi_yaml_fail(r->yaml, node, r->error, "%s: write a mapping, %s", key->name,
                             key->values);
    }
    *out = node;
    return NS_OK;
}

// A value by its row.
static ns_status read_key(nsi_schema_reader* r, const nsi_schema_key* key,
                          const nsi_yaml_node* node, void* out) {
    // Without a record to fill, every row has a reader of its own.
    if (!out) return key->read ? key->read(r, node, out) : NS_OK;

    void* field = (char*)out + key->offset;
    ns_status status = NS_OK;
    switch (key->type) {
    case NSI_KEY_NUMBER: status = read_number(r, key, node, field); break;
    case NSI_KEY_COUNT: status = schema_read_count(r, key, node, field); break;
    case NSI_KEY_WHOLE:
        status = nsi_yaml_whole(r->yaml, node, 0, UINT64_MAX, field, r->error);
        break;
    case NSI_KEY_FLAG: status = nsi_yaml_flag(r->yaml, node, field, r->error); break;
    case NSI_KEY_TEXT: status = nsi_schema_text(r, node, field); break;
    case NSI_KEY_PATH: status = nsi_schema_path(r, node, field); break;
    case NSI_KEY_CHOICE:
        status = nsi_yaml_choice(r->yaml, node, key->choices, field, r->error);
        break;
    case NSI_KEY_TEXTS:
    case NSI_KEY_NUMBERS:
    case NSI_KEY_COUNTS: status = read_list(r, key, node, field); break;
    case NSI_KEY_MAP: status = read_map_node(r, key, node, field); break;
    case NSI_KEY_TABLE: status = nsi_schema_read(r, key->table, node, field); break;
    case NSI_KEY_OTHER: break;
    }
    if (status == NS_OK && key->read) status = key->read(r, node, out);
    return status;
}

ns_status nsi_schema_read_known(nsi_schema_reader* r, const nsi_schema* schema,
                                const nsi_yaml_node* map, void* out) {
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < schema->count && status == NS_OK; k++) {
        const nsi_schema_key* key = &schema->keys[k];
        const nsi_yaml_node* node = nsi_yaml_find(map, key->name);
        if (node) {
            status = read_key(r, key, node, out);
        } else if (key->required) {
            status = nsi_schema_missing(r, map, key);
        }
    }
    if (status == NS_OK && schema->check) status = schema->check(r, map, out);
    return status;
}

ns_status nsi_schema_read(nsi_schema_reader* r, const nsi_schema* schema, const nsi_yaml_node* map,
                          void* out) {
    if (!map) return NS_OK;
    ns_status status = nsi_schema_check_keys(r->yaml, schema, map, r->error);
    return status == NS_OK ? nsi_schema_read_known(r, schema, map, out) : status;
}

void nsi_schema_defaults(const nsi_schema* schema, void* out) {
    const nsi_yaml none = {.file = "default"};
    nsi_schema_reader r = {.yaml = &none, .arena = (nsi_arena*)&none.arena};
    for (uint32_t k = 0; k < schema->count; k++) {
        const nsi_schema_key* key = &schema->keys[k];
        if (key->type == NSI_KEY_TABLE) {
            nsi_schema_defaults(key->table, (char*)out + key->offset);
        } else if (key->fallback && key->fallback[0] != '(' && key->type < NSI_KEY_TEXTS) {
            nsi_schema_key plain = *key;
            nsi_yaml_node node = {.text = key->fallback, .plain = true};
            plain.read = NULL;
            ns_status status = read_key(&r, &plain, &node, out);
            NS_ASSERT(status == NS_OK);
            (void)status;
        }
    }
}

// ---- Markdown --------------------------------------------------------------------------------

static void add_bound(nsi_text_builder* text, const char* before, double bound) {
    char number[40];
    snprintf(number, sizeof number, "%g", bound);
    nsi_text_add(text, "%s%s", before, number);
}

// ", > 0", ", 1 to 100"
static void add_range(nsi_text_builder* text, const nsi_schema_key* key) {
    if (key->lower == key->upper) return;
    bool above = key->lower > -DBL_MAX && key->lower != 0.0 && key->lower > DBL_MIN;
    bool below = key->upper < 1e9 && key->upper != UINT32_MAX;
    if (key->lower > 0.0 && key->lower <= DBL_MIN) nsi_text_add(text, ", > 0");
    if (key->lower == 0.0) nsi_text_add(text, below ? ", 0" : ", >= 0");
    if (above) add_bound(text, below ? ", " : ", >= ", key->lower);
    if (below) add_bound(text, key->lower == 0.0 || above ? " to " : ", <= ", key->upper);
}

// `a`, `b`
static void add_names(nsi_text_builder* text, const ns_choices* choices) {
    ns_choice choice;
    for (uint32_t k = 0; ns_choice_at(choices, k, &choice); k++) {
        nsi_text_add(text, "%s`%s`", k == 0 ? "" : ", ", choice.name);
    }
}

static void add_type(nsi_text_builder* text, const nsi_schema_key* key) {
    static const char* const names[] = {
        [NSI_KEY_NUMBER] = "number",
        [NSI_KEY_COUNT] = "whole number",
        [NSI_KEY_WHOLE] = "whole number",
        [NSI_KEY_FLAG] = "`true`, `false`",
        [NSI_KEY_TEXT] = "text",
        [NSI_KEY_PATH] = "file",
        [NSI_KEY_CHOICE] = "",
        [NSI_KEY_TEXTS] = "list of texts",
        [NSI_KEY_NUMBERS] = "list of numbers",
        [NSI_KEY_COUNTS] = "list of whole numbers",
        [NSI_KEY_MAP] = "mapping",
        [NSI_KEY_TABLE] = "mapping",
        [NSI_KEY_OTHER] = "",
    };
    if (key->values) {
        nsi_text_add(text, "%s", key->values);
        return;
    }
    nsi_text_add(text, "%s", names[key->type]);
    if (key->choices) add_names(text, key->choices);
    add_range(text, key);
}

void nsi_schema_markdown(const nsi_schema* schema, nsi_text_builder* text) {
    nsi_text_add(text, "| key | value | default | |\n|---|---|---|---|\n");
    for (uint32_t k = 0; k < schema->count; k++) {
        const nsi_schema_key* key = &schema->keys[k];
        nsi_text_add(text, "| `%s` | ", key->name);
        add_type(text, key);
        nsi_text_add(text, " | %s | %s |\n",
                     key->required   ? "required"
                     : key->fallback ? key->fallback
                                     : "",
                     key->help);
    }
}
