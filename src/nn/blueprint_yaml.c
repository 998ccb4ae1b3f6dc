// Blueprints from YAML, in two passes: libyaml's events become a small tree of places and texts,
// and the tree becomes networks.
//
// Made for files from anywhere: anchors, aliases, tags, directives and further documents are refused
// where they stand (a document of libyaml would have them resolved already); size, depth and number
// of nodes are limited. Depth is looked at event by event, so that a file of brackets ends early.
// libyaml has no hook for an allocator: its buffers, while reading, come from malloc.

#include "io/file.h"
#include "io/numbers.h"
#include "nn/blueprint.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>

enum {
    MAX_DEPTH = 8, // of mappings and lists; a blueprint has four levels
    MAX_NODES = 1000 * 1000
};

typedef enum node_kind { SCALAR, LIST, MAPPING } node_kind;

typedef struct node node;
struct node {
    node_kind kind;
    nsi_place place;
    const char* text; // SCALAR: NUL-terminated
    size_t size;
    bool plain;         // not in quotes
    node *first, *last; // children; of a MAPPING keys and values in turns
    node* next;         // sibling
    uint32_t count;     // of children
};

typedef struct reader {
    const char* file;
    ns_error* error;
    nsi_arena arena; // of nodes and what is read from them
    uint32_t nnode;
    node* root;
    ns_blueprint* blueprint;
} reader;

// ---- messages --------------------------------------------------------------------------------

// "file:line:column: " and the message.
static ns_status fail_at(const reader* r, nsi_place place, ns_status status, const char* format,
                         ...) NSI_PRINTF(4, 5);
static ns_status fail_at(const reader* r, nsi_place place, ns_status status, const char* format,
                         ...) {
    char message[NS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return nsi_fail(r->error, status, "%.150s:%u:%u: %s", r->file, place.line, place.column,
                    message);
}

static const char* quote(const node* n, char out[NSI_QUOTE_SIZE]) {
    return nsi_quote(n->text, n->size, out);
}

static uint32_t to_place(size_t number) {
    return number < UINT32_MAX ? (uint32_t)number + 1 : UINT32_MAX;
}

static nsi_place mark_place(const yaml_mark_t* mark) {
    return (nsi_place){to_place(mark->line), to_place(mark->column)};
}

// Place of a byte, for what libyaml tells the offset of only.
static nsi_place offset_place(const char* text, size_t size, size_t offset) {
    nsi_place place = {1, 1};
    if (offset > size) offset = size;
    for (size_t i = 0; i < offset; i++) {
        bool crlf = text[i] == '\r' && i + 1 < size && text[i + 1] == '\n';
        if (text[i] == '\n' || (text[i] == '\r' && !crlf)) {
            place.line++;
            place.column = 1;
        } else if (((unsigned char)text[i] & 0xC0) != 0x80) { // not within a character
            place.column++;
        }
    }
    return place;
}

static ns_status fail_yaml(const reader* r, const yaml_parser_t* parser, const char* text,
                           size_t size) {
    const char* problem = parser->problem ? parser->problem : "it cannot be read";
    if (parser->error == YAML_MEMORY_ERROR) return nsi_fail_nomem(r->error);
    if (parser->error == YAML_READER_ERROR) {
        return fail_at(r, offset_place(text, size, parser->problem_offset), NS_ERR_PARSE,
                       "this is no UTF-8 text: %s; save the file as UTF-8", problem);
    }
    nsi_place place = mark_place(&parser->problem_mark);
    if (!parser->context) return fail_at(r, place, NS_ERR_PARSE, "malformed YAML: %s", problem);
    return fail_at(r, place, NS_ERR_PARSE, "malformed YAML: %s (%s, line %u)", problem,
                   parser->context, mark_place(&parser->context_mark).line);
}

// ---- tree ------------------------------------------------------------------------------------

// Directives change nothing here, and many of them take libyaml quadratic time. A line that starts
// with '%' is one, or something that nobody writes.
static ns_status check_directives(const reader* r, const char* text, size_t size) {
    for (const char* at = text; (at = memchr(at, '%', size - (size_t)(at - text))) != NULL; at++) {
        size_t before = (size_t)(at - text);
        bool starts = before == 0 || at[-1] == '\n' || at[-1] == '\r' ||
                      (before >= 2 && memcmp(at - 2, "\xC2\x85", 2) == 0) ||
                      (before >= 3 && memcmp(at - 3, "\xE2\x80\xA8", 3) == 0) ||
                      (before >= 3 && memcmp(at - 3, "\xE2\x80\xA9", 3) == 0);
        if (!starts) continue;
        return fail_at(r, offset_place(text, size, before), NS_ERR_PARSE,
                       "a directive (%%) is not read; remove the line");
    }
    return NS_OK;
}

// Append a node to its parent, or make it the root.
static ns_status add_node(reader* r, node* parent, node_kind kind, const yaml_event_t* event,
                          node** out) {
    nsi_place place = mark_place(&event->start_mark);
    if (r->nnode++ == MAX_NODES) {
        return fail_at(r, place, NS_ERR_LIMIT, "more than %d values; split the file", MAX_NODES);
    }
    node* n = nsi_arena_alloc(&r->arena, sizeof *n);
    if (!n) return nsi_fail_nomem(r->error);
    *n = (node){.kind = kind, .place = place};
    if (!parent) {
        r->root = n;
    } else if (parent->last) {
        parent->last = parent->last->next = n;
    } else {
        parent->first = parent->last = n;
    }
    if (parent) parent->count++;
    *out = n;
    return NS_OK;
}

static ns_status check_marks(const reader* r, const yaml_event_t* event, const yaml_char_t* anchor,
                             const yaml_char_t* tag) {
    nsi_place place = mark_place(&event->start_mark);
    if (anchor) {
        return fail_at(r, place, NS_ERR_PARSE,
                       "anchors (&) and aliases (*) are not read; write the value out, or put it"
                       " into quotes");
    }
    if (tag) {
        return fail_at(r, place, NS_ERR_PARSE,
                       "tags (!) are not read; remove it, or put the value into quotes");
    }
    return NS_OK;
}

static ns_status add_scalar(reader* r, node* parent, const yaml_event_t* event) {
    ns_status status = check_marks(r, event, event->data.scalar.anchor, event->data.scalar.tag);
    node* n;
    if (status == NS_OK) status = add_node(r, parent, SCALAR, event, &n);
    if (status != NS_OK) return status;
    n->size = event->data.scalar.length;
    n->text = nsi_arena_string(&r->arena, (const char*)event->data.scalar.value, n->size);
    n->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (!n->text) return nsi_fail_nomem(r->error);
    if (memchr(n->text, '\0', n->size)) {
        return fail_at(r, n->place, NS_ERR_PARSE, "a text has a NUL character; remove it");
    }
    return NS_OK;
}

typedef struct nesting {
    node* nodes[MAX_DEPTH];
    uint32_t depth, documents;
    bool done;
} nesting;

static ns_status take_event(reader* r, nesting* at, const yaml_event_t* event) {
    nsi_place place = mark_place(&event->start_mark);
    node *parent = at->depth > 0 ? at->nodes[at->depth - 1] : NULL, *n = NULL;
    ns_status status;
    switch (event->type) {
    case YAML_STREAM_END_EVENT: at->done = true; return NS_OK;
    case YAML_DOCUMENT_START_EVENT:
        if (at->documents++ == 0) return NS_OK;
        return fail_at(r, place, NS_ERR_PARSE,
                       "this starts a second document; a file has one blueprint");
    case YAML_ALIAS_EVENT: return check_marks(r, event, event->data.alias.anchor, NULL);
    case YAML_SCALAR_EVENT: return add_scalar(r, parent, event);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        status = event->type == YAML_SEQUENCE_START_EVENT
                     ? check_marks(r, event, event->data.sequence_start.anchor,
                                   event->data.sequence_start.tag)
                     : check_marks(r, event, event->data.mapping_start.anchor,
                                   event->data.mapping_start.tag);
        if (status != NS_OK) return status;
        if (at->depth == MAX_DEPTH) {
            return fail_at(r, place, NS_ERR_LIMIT, "lists and mappings nest more than %d deep",
                           MAX_DEPTH);
        }
        status = add_node(r, parent, event->type == YAML_SEQUENCE_START_EVENT ? LIST : MAPPING,
                          event, &n);
        if (status == NS_OK) at->nodes[at->depth++] = n;
        return status;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: at->depth--; return NS_OK;
    default: return NS_OK; // starts of the stream, ends of documents
    }
}

static ns_status read_tree(reader* r, const char* text, size_t size) {
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3, size -= 3; // byte order mark
    ns_status status = check_directives(r, text, size);
    if (status != NS_OK) return status;
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return nsi_fail_nomem(r->error);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char*)text, size);
    nesting at = {0};
    while (status == NS_OK && !at.done) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            status = fail_yaml(r, &parser, text, size);
            break;
        }
        status = take_event(r, &at, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}

// ---- values ----------------------------------------------------------------------------------

// A name for a kind of value, for messages.
static const char* kind_text(const node* n) {
    if (n->kind == MAPPING) return "a mapping";
    if (n->kind == LIST) return "a list";
    return "one value";
}

static bool is_null(const node* n) {
    return n->kind == SCALAR && n->plain &&
           (n->size == 0 || strcmp(n->text, "~") == 0 || strcmp(n->text, "null") == 0);
}

static ns_status want_scalar(const reader* r, const node* n, const char* key, const char* what) {
    if (is_null(n)) {
        return fail_at(r, n->place, NS_ERR_PARSE, "%s: there is nothing; write %s", key, what);
    }
    if (n->kind != SCALAR) {
        return fail_at(r, n->place, NS_ERR_PARSE, "%s: this is %s; write %s", key, kind_text(n),
                       what);
    }
    return NS_OK;
}

static ns_status read_text(const reader* r, const node* n, const char* key, const char** out) {
    ns_status status = want_scalar(r, n, key, "a name");
    *out = n->text;
    return status;
}

static ns_status read_number(const reader* r, const node* n, const char* key, double* out) {
    ns_status status = want_scalar(r, n, key, "a number");
    if (status != NS_OK) return status;
    char text[NSI_QUOTE_SIZE];
    status = n->plain ? nsi_text_read_double(n->text, n->size, out) : NS_ERR_PARSE;
    if (status == NS_OK && isfinite(*out)) return NS_OK;
    return fail_at(r, n->place, NS_ERR_PARSE, "%s: %s is %s; write a number", key, quote(n, text),
                   status == NS_ERR_PARSE   ? "not a number"
                   : status == NS_ERR_LIMIT ? "too large or too long"
                                            : "not finite");
}

// A whole number, in decimal digits.
static ns_status read_whole(const reader* r, const node* n, const char* key, uint64_t most,
                            uint64_t* out) {
    ns_status status = want_scalar(r, n, key, "a whole number");
    if (status != NS_OK) return status;
    char text[NSI_QUOTE_SIZE];
    bool digits = n->plain && n->size > 0 && strspn(n->text, "0123456789") == n->size;
    if (!digits) {
        return fail_at(r, n->place, NS_ERR_PARSE, "%s: %s is not a whole number from 0 on", key,
                       quote(n, text));
    }
    *out = 0;
    for (const char* at = n->text; *at; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (*out > (most - digit) / 10) {
            return fail_at(r, n->place, NS_ERR_LIMIT, "%s: %s is too large; at most %llu", key,
                           quote(n, text), (unsigned long long)most);
        }
        *out = 10 * *out + digit;
    }
    return NS_OK;
}

// One of some words, in a text that separates them by spaces; `number` receives which.
static ns_status read_word(const reader* r, const node* n, const char* key, const char* words,
                           uint32_t* number) {
    char what[160];
    snprintf(what, sizeof what, "one of %s", words);
    ns_status status = want_scalar(r, n, key, what);
    if (status != NS_OK) return status;
    uint32_t k = 0;
    for (const char* at = words; *at; k++) {
        size_t size = strcspn(at, " ");
        if (size == n->size && memcmp(at, n->text, size) == 0) {
            *number = k;
            return NS_OK;
        }
        at += size + (at[size] == ' ');
    }
    char text[NSI_QUOTE_SIZE];
    return fail_at(r, n->place, NS_ERR_PARSE, "%s: %s is none of: %s", key, quote(n, text), words);
}

// ---- lists -----------------------------------------------------------------------------------

// A value stands for a list of one, where `single`.
static ns_status want_list(const reader* r, const node* n, const char* key, bool single,
                           const node** first, uint32_t* count) {
    *first = n->kind == LIST ? n->first : n;
    *count = n->kind == LIST ? n->count : 1;
    if (n->kind == LIST || (n->kind == SCALAR && single)) return NS_OK;
    return fail_at(r, n->place, NS_ERR_PARSE, "%s: this is %s; write a list", key, kind_text(n));
}

static ns_status read_places(reader* r, const node* first, uint32_t count, const nsi_place** out) {
    nsi_place* places = nsi_arena_alloc(&r->arena, count * sizeof *places);
    if (!places) return nsi_fail_nomem(r->error);
    uint32_t i = 0;
    for (const node* n = first; i < count; n = n->next) places[i++] = n->place;
    *out = places;
    return NS_OK;
}

static ns_status read_texts(reader* r, const node* n, nsi_field field, nsi_places* places,
                            const char* const** out, uint32_t* count) {
    const char* key = nsi_field_name(field);
    const node* item;
    ns_status status = want_list(r, n, key, true, &item, count);
    if (status == NS_OK) status = read_places(r, item, *count, &places->items[field]);
    if (status != NS_OK) return status;
    const char** texts = nsi_arena_alloc(&r->arena, *count * sizeof *texts);
    if (!texts) return nsi_fail_nomem(r->error);
    for (uint32_t i = 0; i < *count && status == NS_OK; i++, item = item->next) {
        status = read_text(r, item, key, &texts[i]);
    }
    *out = texts;
    return status;
}

static ns_status read_numbers(reader* r, const node* n, nsi_field field, nsi_places* places,
                              const double** out, uint32_t* count) {
    const char* key = nsi_field_name(field);
    const node* item;
    ns_status status = want_list(r, n, key, true, &item, count);
    if (status == NS_OK && *count == 0) {
        return fail_at(r, n->place, NS_ERR_PARSE,
                       "%s: the list is empty; give numbers, or leave the key out", key);
    }
    if (status == NS_OK) status = read_places(r, item, *count, &places->items[field]);
    if (status != NS_OK) return status;
    double* numbers = nsi_arena_alloc(&r->arena, *count * sizeof *numbers);
    if (!numbers) return nsi_fail_nomem(r->error);
    for (uint32_t i = 0; i < *count && status == NS_OK; i++, item = item->next) {
        status = read_number(r, item, key, &numbers[i]);
    }
    *out = numbers;
    return status;
}

static ns_status read_widths(reader* r, const node* n, nsi_places* places, const uint32_t** out,
                             uint32_t* count) {
    const node* item;
    ns_status status = want_list(r, n, "hidden", false, &item, count);
    if (status == NS_OK) status = read_places(r, item, *count, &places->items[NSI_FIELD_HIDDEN]);
    if (status != NS_OK) return status;
    uint32_t* widths = nsi_arena_alloc(&r->arena, *count * sizeof *widths);
    if (!widths) return nsi_fail_nomem(r->error);
    for (uint32_t i = 0; i < *count && status == NS_OK; i++, item = item->next) {
        uint64_t width = 0;
        status = read_whole(r, item, "hidden", UINT32_MAX, &width);
        widths[i] = (uint32_t)width;
    }
    *out = widths;
    return status;
}

static ns_status read_guarantee(const reader* r, const node* n, unsigned* out) {
    const node* item;
    uint32_t count;
    ns_status status = want_list(r, n, "guarantee", true, &item, &count);
    for (uint32_t i = 0; i < count && status == NS_OK; i++, item = item->next) {
        uint32_t bit = 0;
        status = read_word(r, item, "guarantee", "dissipative conservative odd even bounded", &bit);
        *out |= 1u << bit;
    }
    return status;
}

static ns_status read_activation(const reader* r, const node* n, ns_activation* out) {
    ns_status status = want_scalar(r, n, "activation", "a name");
    ns_error error;
    if (status != NS_OK || ns_activation_find(n->text, out, &error) == NS_OK) return status;
    // Said again here, since the text may have characters that are not fit for a message.
    char text[NSI_QUOTE_SIZE];
#define LIST_NAME(id, name) " " name
    return fail_at(r, n->place, NS_ERR_PARSE,
                   "activation: %s is none of:" NS_ACTIVATION_MAP(LIST_NAME), quote(n, text));
#undef LIST_NAME
}

// ---- mappings --------------------------------------------------------------------------------

// The number of a key among `keys`, each only once: `values` receives its value.
static ns_status take_key(const reader* r, const node* key, const char* const* keys, uint32_t nkey,
                          const node** values) {
    if (key->kind != SCALAR) {
        return fail_at(r, key->place, NS_ERR_PARSE, "a key is %s; write a word", kind_text(key));
    }
    uint32_t least = UINT32_MAX, nearest = 0;
    char text[NSI_QUOTE_SIZE];
    for (uint32_t i = 0; i < nkey; i++) {
        uint32_t distance = nsi_edit_distance(key->text, keys[i]);
        if (distance < least) least = distance, nearest = i;
    }
    if (least > 0) {
        return fail_at(r, key->place, NS_ERR_PARSE,
                       "there is no key %s; the nearest that there is: %s", quote(key, text),
                       keys[nearest]);
    }
    if (values[nearest]) {
        return fail_at(r, key->place, NS_ERR_PARSE,
                       "the key %s is here for the second time, first on line %u; keep one",
                       keys[nearest], values[nearest]->place.line);
    }
    values[nearest] = key->next;
    return NS_OK;
}

static ns_status take_keys(const reader* r, const node* mapping, const char* what,
                           const char* const* keys, uint32_t nkey, const node** values) {
    for (uint32_t i = 0; i < nkey; i++) values[i] = NULL;
    if (mapping->kind != MAPPING) {
        return fail_at(r, mapping->place, NS_ERR_PARSE,
                       "%s: this is %s; write a mapping with keys like %s: ...", what,
                       is_null(mapping) ? "nothing" : kind_text(mapping), keys[0]);
    }
    ns_status status = NS_OK;
    for (const node* key = mapping->first; key && status == NS_OK; key = key->next->next) {
        status = take_key(r, key, keys, nkey, values);
    }
    return status;
}

static ns_status read_init(const reader* r, const node* n, ns_network_def* def,
                           nsi_places* places) {
    static const char* const keys[] = {"scale", "last", "seed"};
    const node* values[3];
    ns_status status = take_keys(r, n, "init", keys, 3, values);
    if (status == NS_OK && values[0]) {
        places->field[NSI_FIELD_INIT_SCALE] = values[0]->place;
        status = read_number(r, values[0], "scale", &def->init_scale);
    }
    if (status == NS_OK && values[1]) {
        places->field[NSI_FIELD_INIT_LAST_SCALE] = values[1]->place;
        status = read_number(r, values[1], "last", &def->init_last_scale);
    }
    if (status == NS_OK && values[2]) {
        places->field[NSI_FIELD_SEED] = values[2]->place;
        status = read_whole(r, values[2], "seed", UINT64_MAX, &def->seed);
    }
    return status;
}

// The words of a file for enums and flags.
static ns_status read_choice(const reader* r, const node* n, nsi_field field, ns_network_def* def) {
    uint32_t which = 0;
    ns_status status;
    switch (field) {
    case NSI_FIELD_WEIGHTS:
        status = read_word(r, n, "weights", "shared separate", &which);
        def->separate = which == 1;
        return status;
    case NSI_FIELD_MODE:
        status = read_word(r, n, "mode", "add replace scale", &which);
        def->mode = (ns_augment)which;
        return status;
    default:
        status = read_word(r, n, "bias", "true false", &which);
        def->no_bias = which == 1;
        return status;
    }
}

static ns_status read_field(reader* r, const node* n, nsi_field field, ns_network_def* def,
                            uint32_t* nagainst, nsi_places* places) {
    places->field[field] = n->place;
    switch (field) {
    case NSI_FIELD_NAME: return read_text(r, n, "name", &def->name);
    case NSI_FIELD_EACH: return read_text(r, n, "each", &def->each);
    case NSI_FIELD_INPUTS: return read_texts(r, n, field, places, &def->inputs, &def->ninput);
    case NSI_FIELD_OUTPUTS: return read_texts(r, n, field, places, &def->outputs, &def->noutput);
    case NSI_FIELD_AGAINST: return read_texts(r, n, field, places, &def->against, nagainst);
    case NSI_FIELD_HIDDEN: return read_widths(r, n, places, &def->hidden, &def->nhidden);
    case NSI_FIELD_ACTIVATION: return read_activation(r, n, &def->activation);
    case NSI_FIELD_GUARANTEE: return read_guarantee(r, n, &def->guarantee);
    case NSI_FIELD_BOUND: return read_number(r, n, "bound", &def->bound);
    case NSI_FIELD_INPUT_SHIFT:
        return read_numbers(r, n, field, places, &def->input_shift, &def->ninput_shift);
    case NSI_FIELD_INPUT_SCALE:
        return read_numbers(r, n, field, places, &def->input_scale, &def->ninput_scale);
    case NSI_FIELD_OUTPUT_SCALE:
        return read_numbers(r, n, field, places, &def->output_scale, &def->noutput_scale);
    case NSI_FIELD_AGAINST_SCALE:
        return read_numbers(r, n, field, places, &def->against_scale, &def->nagainst_scale);
    default: return read_choice(r, n, field, def);
    }
}

static ns_status read_network(reader* r, const node* n) {
    // The fields that are keys, and last the mapping of the others.
    enum { KEY_INIT = NSI_FIELD_INIT_SCALE, KEY_COUNT };
    const char* keys[KEY_COUNT];
    const node* values[KEY_COUNT];
    for (int i = 0; i < KEY_INIT; i++) keys[i] = nsi_field_name((nsi_field)i);
    keys[KEY_INIT] = "init";
    ns_status status = take_keys(r, n, "network", keys, KEY_COUNT, values);

    ns_network_def def = ns_default_network_def();
    nsi_places places = {.network = n->place};
    uint32_t nagainst = 0;
    for (int i = 0; i < KEY_INIT && status == NS_OK; i++) {
        if (values[i]) status = read_field(r, values[i], (nsi_field)i, &def, &nagainst, &places);
    }
    if (status == NS_OK && values[KEY_INIT]) status = read_init(r, values[KEY_INIT], &def, &places);
    if (status != NS_OK) return status;

    // What a definition cannot tell: how long this list is, and that this was given at all.
    if (def.against && nagainst != def.noutput) {
        return fail_at(r, values[NSI_FIELD_AGAINST]->place, NS_ERR_PARSE,
                       "against: %u name%s for %u output%s; give one for each, in their order",
                       nagainst, nagainst == 1 ? "" : "s", def.noutput,
                       def.noutput == 1 ? "" : "s");
    }
    if (values[NSI_FIELD_BOUND] && !(def.guarantee & NS_GUARANTEE_BOUNDED)) {
        return fail_at(r, values[NSI_FIELD_BOUND]->place, NS_ERR_PARSE,
                       "bound: this is for the guarantee bounded only; add that, or leave this"
                       " out");
    }
    return nsi_blueprint_add_at(r->blueprint, &def, &places, r->error);
}

static ns_status read_root(reader* r) {
    static const char* const keys[] = {"networks"};
    const node *networks, *first;
    uint32_t count;
    if (!r->root || is_null(r->root)) {
        return fail_at(r, (nsi_place){1, 1}, NS_ERR_PARSE,
                       "there is nothing; a blueprint starts with networks:");
    }
    ns_status status = take_keys(r, r->root, "blueprint", keys, 1, &networks);
    if (status != NS_OK) return status;
    if (!networks) {
        return fail_at(r, r->root->place, NS_ERR_PARSE, "the key networks is missing");
    }
    status = want_list(r, networks, "networks", false, &first, &count);
    for (const node* n = first; n && status == NS_OK; n = n->next) status = read_network(r, n);
    return status;
}

// ---- files -----------------------------------------------------------------------------------

static ns_status parse(const char* text, size_t size, const char* name,
                       const ns_allocator* allocator, ns_blueprint** out, ns_error* error) {
    reader r = {.file = name, .error = error};
    ns_status status = ns_blueprint_create(allocator, &r.blueprint, error);
    if (status != NS_OK) return status;
    r.arena.allocator = r.blueprint->allocator;
    r.blueprint->file = nsi_arena_string(&r.blueprint->arena, name, strlen(name));
    if (!r.blueprint->file) status = nsi_fail_nomem(error);
    if (status == NS_OK && size > NSI_BLUEPRINT_MAX_SIZE) {
        status = fail_at(&r, (nsi_place){1, 1}, NS_ERR_LIMIT, "more than %d MiB; split the file",
                         NSI_BLUEPRINT_MAX_SIZE >> 20);
    }
    if (status == NS_OK) status = read_tree(&r, text, size);
    if (status == NS_OK) status = read_root(&r);
    nsi_arena_free(&r.arena);
    if (status == NS_OK) {
        *out = r.blueprint;
    } else {
        ns_blueprint_free(r.blueprint);
    }
    return status;
}

ns_status ns_blueprint_parse(const char* text, size_t size, const char* name,
                             const ns_allocator* allocator, ns_blueprint** out, ns_error* error) {
    if (out) *out = NULL;
    if (!text || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_blueprint_parse: text or out is NULL");
    }
    return parse(text, size, name ? name : "blueprint", allocator, out, error);
}

ns_status ns_blueprint_load(const char* path, const ns_allocator* allocator, ns_blueprint** out,
                            ns_error* error) {
    if (out) *out = NULL;
    if (!path || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_blueprint_load: path or out is NULL");
    }
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    nsi_bytes text = {0};
    // One byte past the limit is read, so that the parser sees that it is too much.
    ns_status status = nsi_file_read(path, NSI_BLUEPRINT_MAX_SIZE, &memory, &text, error);
    if (status == NS_OK) status = parse(text.data, text.count, path, &memory, out, error);
    nsi_array_free(&memory, &text);
    return status;
}
