// Build a tree from the events of libyaml.
//
// Events rather than libyaml's documents: aliases, anchors and tags are reported with their position,
// and nothing is built from what is refused. Depth is checked event by event, so that a file of
// brackets fails early.

#include "io/yaml.h"

#include "io/numbers.h"
#include "io/utf8.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>

// ---- messages --------------------------------------------------------------------------------

typedef struct place {
    uint32_t line, column; // from 1
} place;

static void fail_list(const char* file, place at, ns_status status, ns_error* error,
                      const char* format, va_list arguments) {
    char what[NS_ERROR_SIZE];
    vsnprintf(what, sizeof what, format, arguments);
    nsi_fail(error, status, "%.200s:%u:%u: %s", file, at.line, at.column, what);
}

static place yaml_node_place(const nsi_yaml_node* node) {
    return node ? (place){node->line, node->column} : (place){1, 1};
}

static const char* node_file(const nsi_yaml* yaml, const nsi_yaml_node* node) {
    return node && node->source ? node->source->file : yaml->file;
}

void nsi_yaml_set_error(const nsi_yaml* yaml, const nsi_yaml_node* node, ns_error* error,
                        ns_status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!node) node = yaml->root;
    fail_list(node_file(yaml, node), yaml_node_place(node), status, error, format, arguments);
    va_end(arguments);
}

enum { NAME_SIZE = NSI_QUOTE_SIZE + 2 };

// "key: ", of the value or of the list that it is in, or "".
static const char* name_text(const nsi_yaml_node* node, char out[NAME_SIZE]) {
    while (node && !node->key) node = node->parent;
    out[0] = '\0';
    if (!node) return out;
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    char quote[NSI_QUOTE_SIZE];
    size_t size = strlen(node->key);
    bool word = size < NSI_QUOTE_SIZE && strspn(node->key, letters) == size;
    snprintf(out, NAME_SIZE, "%s: ", word ? node->key : nsi_quote(node->key, size, quote));
    return out;
}

// ---- reading ---------------------------------------------------------------------------------

// A list or map that is open.
typedef struct level {
    nsi_yaml_node *node, *last;
    nsi_yaml_node* pending; // the entry whose key was read and whose value comes next
    uint32_t number;        // of the node
} level;

typedef struct reader {
    nsi_yaml* out;
    const nsi_yaml_source* source;
    nsi_yaml_node* root;
    const char* text;
    size_t size;
    ns_error* error;
    level levels[NSI_YAML_MAX_DEPTH];
    uint32_t depth, ndocument;
    bool done;
    NSI_ARRAY(const nsi_yaml_node*) entries; // of all maps
    nsi_index keys;                          // of the entries, by map and key
} reader;

static void set_error_at(const reader* r, place at, ns_status status, const char* format, ...)
    NSI_PRINTF(4, 5);
static void set_error_at(const reader* r, place at, ns_status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fail_list(r->source->file, at, status, r->error, format, arguments);
    va_end(arguments);
}
#define yaml_fail_at(r, at, status, ...)                                                           \
    (set_error_at((r), (at), (status), __VA_ARGS__), nsi_same_status(status))

// Numbers fit: a file is not that long.
static place mark_place(const yaml_mark_t* mark) {
    return (place){(uint32_t)mark->line + 1, (uint32_t)mark->column + 1};
}

// Place of a byte, for errors that libyaml reports with an offset only.
static place offset_place(const reader* r, size_t offset) {
    place at = {1, 1};
    for (size_t i = 0; i < offset && i < r->size; i++) {
        bool crlf = r->text[i] == '\r' && i + 1 < r->size && r->text[i + 1] == '\n';
        if (r->text[i] == '\n' || (r->text[i] == '\r' && !crlf)) {
            at.line++;
            at.column = 1;
        } else if (((unsigned char)r->text[i] & 0xC0) != 0x80) { // not within a character
            at.column++;
        }
    }
    return at;
}

// Is a line, counted from 1, indented with a tab?
static bool begins_with_tab(const reader* r, uint32_t line) {
    size_t i = 0;
    for (uint32_t k = 1; i < r->size && k < line; i++) k += r->text[i] == '\n';
    while (i < r->size && r->text[i] == ' ') i++;
    return i < r->size && r->text[i] == '\t';
}

static ns_status fail_yaml(const reader* r, const yaml_parser_t* parser) {
    const char* problem = parser->problem ? parser->problem : "it cannot be read";
    if (parser->error == YAML_MEMORY_ERROR) return nsi_fail_nomem(r->error);
    if (parser->error == YAML_READER_ERROR) {
        return yaml_fail_at(r, offset_place(r, parser->problem_offset), NS_ERR_PARSE,
                            "this is not UTF-8 text: %s; save the file as UTF-8", problem);
    }
    place at = mark_place(&parser->problem_mark);
    if (begins_with_tab(r, at.line)) {
        return yaml_fail_at(r, at, NS_ERR_PARSE,
                            "this line is indented with a tab; YAML takes spaces only");
    }
    if (!parser->context) return yaml_fail_at(r, at, NS_ERR_PARSE, "malformed YAML: %s", problem);
    return yaml_fail_at(r, at, NS_ERR_PARSE, "malformed YAML: %s (%s, line %u)", problem,
                        parser->context, mark_place(&parser->context_mark).line);
}

// Many of these directives take libyaml quadratic time, and tags are not read anyway.
static ns_status check_directives(const reader* r) {
    const char *at = r->text, *end = r->text + r->size;
    for (; at < end && (at = memchr(at, '%', (size_t)(end - at))) != NULL; at++) {
        size_t before = (size_t)(at - r->text);
        bool starts = before == 0 || at[-1] == '\n' || at[-1] == '\r' ||
                      (before >= 2 && memcmp(at - 2, "\xC2\x85", 2) == 0) ||
                      (before >= 3 && memcmp(at - 3, "\xE2\x80\xA8", 3) == 0) ||
                      (before >= 3 && memcmp(at - 3, "\xE2\x80\xA9", 3) == 0);
        if (!starts || end - at < 4 || memcmp(at, "%TAG", 4) != 0) continue;
        return yaml_fail_at(r, offset_place(r, before), NS_ERR_PARSE,
                            "the directive %%TAG is not read; remove the line");
    }
    return NS_OK;
}

// Anchors, aliases and tags.
static ns_status check_marks(const reader* r, const yaml_event_t* event) {
    // Find anchor and tag of the event.
    const yaml_char_t *anchor = NULL, *tag = NULL;
    place at = mark_place(&event->start_mark);
    // Messages quote the mark in a printable form.
    char quote[NSI_QUOTE_SIZE];

    switch (event->type) {
    // An alias refers to an anchor, which is refused as well.
    case YAML_ALIAS_EVENT: // has no value of its own
        anchor = event->data.alias.anchor;
        return yaml_fail_at(
            r, at, NS_ERR_PARSE,
            "the alias %s is not allowed here; write the value out, or put a name that"
            " starts with * in quotes",
            nsi_quote((const char*)anchor, strlen((const char*)anchor), quote));
    // Scalars, lists and mappings keep their marks in different places.
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default: break;
    }

    // Files stay plain: no anchors that copy values, no tags that change types.
    const char* what = (const char*)(anchor ? anchor : tag);
    if (!what) return NS_OK;
    // Texts with a leading & or ! need quotes in YAML.
    return yaml_fail_at(r, at, NS_ERR_PARSE,
                        "the %s %s is not allowed here; remove it, or put a text"
                        " that starts with %c in quotes",
                        anchor ? "anchor" : "tag", nsi_quote(what, strlen(what), quote),
                        anchor ? '&' : '!');
}

// The text of an event, a scalar. `what` comes before it in a message.
static ns_status yaml_copy_text(const reader* r, const yaml_event_t* event, const char* what,
                                const char** out) {
    const char* text = (const char*)event->data.scalar.value;
    size_t size = event->data.scalar.length;
    const char* fault = size > 0 ? nsi_line_fault(text, size) : NULL;
    char quote[NSI_QUOTE_SIZE];
    if (fault) {
        return yaml_fail_at(r, mark_place(&event->start_mark), NS_ERR_PARSE,
                            "%s%s %s; write one line of text", what, nsi_quote(text, size, quote),
                            fault);
    }
    *out = nsi_arena_string(&r->out->arena, text, size);
    return *out ? NS_OK : nsi_fail_nomem(r->error);
}

// Append a node to the list or map that is open, or make it the root.
static ns_status add_node(reader* r, place at, nsi_yaml_node** out) {
    if (r->out->nnode++ == NSI_YAML_MAX_NODES) {
        return yaml_fail_at(r, at, NS_ERR_LIMIT, "more than %d values; split the file",
                            NSI_YAML_MAX_NODES);
    }
    nsi_yaml_node* node = nsi_arena_alloc(&r->out->arena, sizeof *node);
    if (!node) return nsi_fail_nomem(r->error);
    *node = (nsi_yaml_node){.line = at.line, .column = at.column, .source = r->source};
    *out = node;
    if (r->depth == 0) {
        r->root = node;
        return NS_OK;
    }
    level* top = &r->levels[r->depth - 1];
    node->parent = top->node;
    if (top->last) {
        top->last->next = node;
    } else {
        top->node->first = node;
    }
    top->last = node;
    top->node->count++;
    return NS_OK;
}

// Find an entry of the same map with the same key, or remember this one.
static ns_status check_twice(reader* r, uint32_t map, const nsi_yaml_node* entry) {
    const ns_allocator* allocator = &r->out->arena.allocator;
    uint32_t hash = nsi_hash_bytes(entry->key, strlen(entry->key)) ^ map * 0x9E3779B1u;
    uint32_t first = r->keys.ids ? nsi_index_first(&r->keys, hash) : NSI_NONE;
    for (uint32_t at = first, id; nsi_index_at(&r->keys, at, &id);
         at = nsi_index_next(&r->keys, at)) {
        const nsi_yaml_node* other = r->entries.data[id];
        if (other->parent != entry->parent || strcmp(other->key, entry->key) != 0) continue;
        char quote[NSI_QUOTE_SIZE];
        const place key_at = {entry->key_line, entry->key_column};
        return yaml_fail_at(r, key_at, NS_ERR_PARSE,
                            "the key %s is given twice, first on line %u; remove one",
                            nsi_quote(entry->key, strlen(entry->key), quote), other->key_line);
    }
    if (!nsi_array_push(allocator, &r->entries, entry) ||
        !nsi_index_insert(allocator, &r->keys, hash, r->entries.count - 1)) {
        return nsi_fail_nomem(r->error);
    }
    return NS_OK;
}

static ns_status take_key(reader* r, level* map, const yaml_event_t* event) {
    place at = mark_place(&event->start_mark);
    if (event->type != YAML_SCALAR_EVENT) {
        return yaml_fail_at(r, at, NS_ERR_PARSE, "a key is a list or a mapping; write a word");
    }
    if (event->data.scalar.length == 0) {
        return yaml_fail_at(r, at, NS_ERR_PARSE, "a key is empty; write a word");
    }
    nsi_yaml_node* node = NULL;
    ns_status status = add_node(r, at, &node);
    if (status == NS_OK) status = yaml_copy_text(r, event, "the key ", &node->key);
    if (status != NS_OK) return status;
    node->key_line = at.line;
    node->key_column = at.column;
    map->pending = node;
    return check_twice(r, map->number, node);
}

static ns_status take_value(reader* r, nsi_yaml_node* node, const yaml_event_t* event) {
    if (event->type == YAML_SCALAR_EVENT) {
        char name[NAME_SIZE];
        node->type = NSI_YAML_SCALAR;
        node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        return yaml_copy_text(r, event, name_text(node, name), &node->text);
    }
    if (r->depth == NSI_YAML_MAX_DEPTH) {
        return yaml_fail_at(r, mark_place(&event->start_mark), NS_ERR_LIMIT,
                            "lists and mappings nest more than %d deep", NSI_YAML_MAX_DEPTH);
    }
    node->type = event->type == YAML_SEQUENCE_START_EVENT ? NSI_YAML_LIST : NSI_YAML_MAP;
    r->levels[r->depth++] = (level){.node = node, .number = r->out->nnode};
    return NS_OK;
}

// A scalar, or the start of a list or map: a key, or a value.
static ns_status take_node(reader* r, const yaml_event_t* event) {
    ns_status status = check_marks(r, event);
    if (status != NS_OK) return status;
    place at = mark_place(&event->start_mark);
    level* top = r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
    nsi_yaml_node* node = NULL;
    if (top && top->pending) {
        node = top->pending;
        top->pending = NULL;
        node->line = at.line;
        node->column = at.column;
    } else if (top && top->node->type == NSI_YAML_MAP) {
        return take_key(r, top, event);
    } else {
        status = add_node(r, at, &node);
    }
    return status == NS_OK ? take_value(r, node, event) : status;
}

static ns_status take_event(reader* r, const yaml_event_t* event) {
    switch (event->type) {
    case YAML_STREAM_END_EVENT: r->done = true; return NS_OK;
    case YAML_DOCUMENT_START_EVENT:
        if (r->ndocument++ == 0) return NS_OK;
        return yaml_fail_at(r, mark_place(&event->start_mark), NS_ERR_PARSE,
                            "this starts a second document; a file has one");
    case YAML_ALIAS_EVENT:
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT: return take_node(r, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        if (r->depth > 0) r->depth--;
        return NS_OK;
    default: return NS_OK; // start of the stream, end of a document
    }
}

static ns_status read_events(reader* r) {
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return nsi_fail_nomem(r->error);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char*)r->text, r->size);
    ns_status status = NS_OK;
    while (status == NS_OK && !r->done) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            status = fail_yaml(r, &parser);
            break;
        }
        status = take_event(r, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}

// An empty file is an empty text.
static ns_status yaml_add_root(reader* r) {
    nsi_yaml_node* root = NULL;
    if (r->root) return NS_OK;
    ns_status status = add_node(r, (place){1, 1}, &root);
    if (status != NS_OK) return status;
    root->text = "";
    root->plain = true;
    return NS_OK;
}

ns_status nsi_yaml_parse_into(nsi_yaml* out, const nsi_yaml_source* source, const char* text,
                              size_t size, nsi_yaml_node** root, ns_error* error) {
    if (size > NSI_YAML_MAX_SIZE) {
        return nsi_fail(error, NS_ERR_LIMIT, "%.200s: more than %d MiB; split the file",
                        source->file, NSI_YAML_MAX_SIZE >> 20);
    }
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3, size -= 3; // byte order mark
    reader r = {.out = out, .source = source, .text = text, .size = size, .error = error};
    ns_status status = check_directives(&r);
    if (status == NS_OK) status = read_events(&r);
    if (status == NS_OK) status = yaml_add_root(&r);
    nsi_array_free(&out->arena.allocator, &r.entries);
    nsi_index_free(&out->arena.allocator, &r.keys);
    *root = r.root;
    return status;
}

void nsi_yaml_free(nsi_yaml* yaml) {
    nsi_arena_free(&yaml->arena);
    *yaml = (nsi_yaml){0};
}

// ---- maps and lists --------------------------------------------------------------------------

const nsi_yaml_node* nsi_yaml_find(const nsi_yaml_node* map, const char* key) {
    if (!map || map->type != NSI_YAML_MAP) return NULL;
    const nsi_yaml_node* entry = map->first;
    while (entry && strcmp(entry->key, key) != 0) entry = entry->next;
    return entry;
}

enum { MAX_WORD = 64 }; // bytes, with the NUL

// Copy the next of some words that are separated by spaces; false when there is none.
static bool yaml_next_word(const char** at, char out[MAX_WORD]) {
    size_t size = strcspn(*at, " ");
    NS_ASSERT(size < MAX_WORD);
    if (size == 0) return false;
    memcpy(out, *at, size);
    out[size] = '\0';
    *at += size + ((*at)[size] == ' ');
    return true;
}

// The number of a word, or -1.
static int find_word(const char* words, const char* wanted) {
    char word[MAX_WORD];
    for (int k = 0; yaml_next_word(&words, word); k++) {
        if (strcmp(word, wanted) == 0) return k;
    }
    return -1;
}

bool nsi_yaml_is_null(const nsi_yaml_node* node) {
    return node->type == NSI_YAML_SCALAR && node->plain &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 ||
            strcmp(node->text, "null") == 0);
}

// A name for a kind of value, for messages.
static const char* kind_text(const nsi_yaml_node* node) {
    if (node->type == NSI_YAML_MAP) return "a mapping";
    if (node->type == NSI_YAML_LIST) return "a list";
    return nsi_yaml_is_null(node) ? "nothing" : "one value";
}

static ns_status fail_key(const nsi_yaml* yaml, const nsi_yaml_node* entry, const char* what,
                          const char* keys, ns_error* error) {
    char word[MAX_WORD] = "", hint[MAX_WORD + 32] = "the", quote[NSI_QUOTE_SIZE];
    ns_nearest nearest = {.wanted = entry->key};
    for (const char* at = keys; yaml_next_word(&at, word);) ns_nearest_offer(&nearest, word);
    const char* likely = ns_nearest_likely(&nearest);
    if (likely) snprintf(hint, sizeof hint, "did you mean \"%s\"? The", likely);
    nsi_yaml_node at_key = {
        .line = entry->key_line, .column = entry->key_column, .source = entry->source};
    return nsi_yaml_fail(yaml, &at_key, error, "unknown key %s; %s keys of %s: %s",
                         nsi_quote(entry->key, strlen(entry->key), quote), hint, what, keys);
}

ns_status nsi_yaml_check_map(const nsi_yaml* yaml, const nsi_yaml_node* node, const char* what,
                             const char* keys, ns_error* error) {
    if (!node) return NS_OK;
    if (node->type != NSI_YAML_MAP) {
        return nsi_yaml_fail(yaml, node, error,
                             "%s: this is %s; write a mapping with keys from: %s", what,
                             kind_text(node), keys);
    }
    for (const nsi_yaml_node* entry = node->first; entry; entry = entry->next) {
        if (find_word(keys, entry->key) < 0) return fail_key(yaml, entry, what, keys, error);
    }
    return NS_OK;
}

ns_status nsi_yaml_check_list(const nsi_yaml* yaml, const nsi_yaml_node* node, ns_error* error) {
    char name[NAME_SIZE];
    if (!node || node->type == NSI_YAML_LIST) return NS_OK;
    return nsi_yaml_fail(yaml, node, error, "%sthis is %s; write a list", name_text(node, name),
                         kind_text(node));
}

// ---- values ----------------------------------------------------------------------------------

// "key: "text" what".
static ns_status fail_value(const nsi_yaml* yaml, const nsi_yaml_node* node, ns_error* error,
                            const char* format, ...) NSI_PRINTF(4, 5);
static ns_status fail_value(const nsi_yaml* yaml, const nsi_yaml_node* node, ns_error* error,
                            const char* format, ...) {
    char what[NS_ERROR_SIZE], name[NAME_SIZE], quote[NSI_QUOTE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return nsi_yaml_fail(yaml, node, error, "%s%s %s", name_text(node, name),
                         nsi_quote(node->text, strlen(node->text), quote), what);
}

static ns_status want_scalar(const nsi_yaml* yaml, const nsi_yaml_node* node, const char* what,
                             ns_error* error) {
    char name[NAME_SIZE];
    if (node->type == NSI_YAML_SCALAR && !nsi_yaml_is_null(node)) return NS_OK;
    return nsi_yaml_fail(yaml, node, error, "%sthis is %s; write %s", name_text(node, name),
                         kind_text(node), what);
}

// "is too small; at least 0.5".
static ns_status fail_bound(const nsi_yaml* yaml, const nsi_yaml_node* node, const char* what,
                            double bound, ns_error* error) {
    nsi_text_builder builder = {.allocator = yaml->arena.allocator};
    ns_text text;
    nsi_text_add(&builder, "%s ", what);
    nsi_text_add_double(&builder, bound);
    ns_status status = nsi_text_finish(&builder, &text, error);
    if (status != NS_OK) return status;
    status = fail_value(yaml, node, error, "%s", text.data);
    ns_text_free(&text);
    return status;
}

ns_status nsi_yaml_number(const nsi_yaml* yaml, const nsi_yaml_node* node, double lower,
                          double upper, double* out, ns_error* error) {
    if (!node) return NS_OK;
    ns_status status = want_scalar(yaml, node, "a number", error);
    if (status != NS_OK) return status;
    if (!node->plain) return fail_value(yaml, node, error, "is in quotes; write a number without");
    double number;
    status = nsi_text_read_double(node->text, strlen(node->text), &number);
    if (status != NS_OK || !isfinite(number)) {
        return fail_value(yaml, node, error, "is %s; write a number",
                          status == NS_ERR_PARSE   ? "not a number"
                          : status == NS_ERR_LIMIT ? "too large or too long"
                                                   : "not finite");
    }
    if (number < lower) {
        if (lower > 0.0 && lower <= DBL_MIN) {
            return fail_value(yaml, node, error, "is not greater than 0; write such a number");
        }
        return fail_bound(yaml, node, "is too small; at least", lower, error);
    }
    if (number > upper) return fail_bound(yaml, node, "is too large; at most", upper, error);
    *out = number;
    return NS_OK;
}

ns_status nsi_yaml_whole(const nsi_yaml* yaml, const nsi_yaml_node* node, uint64_t lower,
                         uint64_t upper, uint64_t* out, ns_error* error) {
    // Absent keys keep their default.
    if (!node) return NS_OK;
    ns_status status = want_scalar(yaml, node, "a whole number", error);
    if (status != NS_OK) return status;

    // Digits only: signs, exponents and quotes are refused.
    if (!node->plain || node->text[strspn(node->text, "0123456789")] != '\0') {
        // Ranges are part of the message where there is one.
        if (!node->plain || upper == UINT64_MAX) {
            return fail_value(yaml, node, error, "is not a whole number; write digits%s",
                              node->plain ? "" : " without quotes");
        }
        return fail_value(yaml, node, error, "is not a whole number from %llu to %llu",
                          (unsigned long long)lower, (unsigned long long)upper);
    }

    // Accumulate digits, with a check before each overflow.
    uint64_t number = 0;
    for (const char* at = node->text; *at; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        // The same as 10 * number + digit > upper, without overflow.
        if (digit > upper || number > (upper - digit) / 10) {
            return fail_value(yaml, node, error, "is too large; at most %llu",
                              (unsigned long long)upper);
        }
        number = 10 * number + digit;
    }

    if (number < lower) {
        return fail_value(yaml, node, error, "is too small; at least %llu",
                          (unsigned long long)lower);
    }
    *out = number;
    return NS_OK;
}

ns_status nsi_yaml_count(const nsi_yaml* yaml, const nsi_yaml_node* node, uint32_t lower,
                         uint32_t upper, uint32_t* out, ns_error* error) {
    uint64_t number = 0;
    ns_status status = nsi_yaml_whole(yaml, node, lower, upper, &number, error);
    if (status == NS_OK && node) *out = (uint32_t)number;
    return status;
}

ns_status nsi_yaml_flag(const nsi_yaml* yaml, const nsi_yaml_node* node, bool* out,
                        ns_error* error) {
    if (!node) return NS_OK;
    ns_status status = want_scalar(yaml, node, "true or false", error);
    if (status != NS_OK) return status;
    int which = find_word("false true", node->text);
    if (which < 0) return fail_value(yaml, node, error, "is neither true nor false");
    if (!node->plain) return fail_value(yaml, node, error, "is in quotes; write it without");
    *out = which == 1;
    return NS_OK;
}

ns_status nsi_yaml_text(const nsi_yaml* yaml, const nsi_yaml_node* node, const char** out,
                        ns_error* error) {
    if (!node) return NS_OK;
    ns_status status = want_scalar(yaml, node, "a text", error);
    if (status != NS_OK) return status;
    if (node->text[0] == '\0') return fail_value(yaml, node, error, "is empty; write a text");
    *out = node->text;
    return NS_OK;
}

ns_status nsi_yaml_choice(const nsi_yaml* yaml, const nsi_yaml_node* node,
                          const ns_choices* choices, int* out, ns_error* error) {
    if (!node) return NS_OK;
    if (node->type == NSI_YAML_SCALAR && ns_choice_find(choices, node->text, out)) return NS_OK;
    char list[NS_ERROR_SIZE], what[NS_ERROR_SIZE + 16];
    ns_choices_list(choices, list, sizeof list);
    snprintf(what, sizeof what, "one of: %s", list);
    ns_status status = want_scalar(yaml, node, what, error);
    if (status != NS_OK) return status;
    ns_choice_fault(choices, node->text, what, sizeof what);
    return fail_value(yaml, node, error, "%s", what);
}
