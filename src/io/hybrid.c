// Hybrid model files: YAML, event by event.
//
// The events of libyaml rather than its documents: an alias, an anchor and a tag are seen where they
// stand, and what is refused is never built.

#define _POSIX_C_SOURCE 200809L

#include "io/hybrid.h"

#include "io/file.h"
#include "io/numbers.h"
#include "io/utf8.h"
#include "neuralsim/model.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <yaml.h>

bool nsi_is_hybrid_path(const char* path) {
    size_t size = strlen(path);
    return (size >= 5 && strcmp(path + size - 5, ".yaml") == 0) ||
           (size >= 4 && strcmp(path + size - 4, ".yml") == 0);
}

void nsi_hybrid_init(const ns_allocator* allocator, nsi_hybrid* out) {
    *out = (nsi_hybrid){.contact = -1,
                        .arena = {.allocator = allocator ? *allocator : ns_default_allocator()}};
}

void nsi_hybrid_free(nsi_hybrid* hybrid) {
    if (!hybrid || !hybrid->arena.allocator.free) return;
    ns_allocator allocator = hybrid->arena.allocator;
    nsi_array_free(&allocator, &hybrid->parameters);
    nsi_arena_free(&hybrid->arena);
    nsi_hybrid_init(&allocator, hybrid);
}

static const char* const contact_names[] = {
    [NS_CONTACT_NONE] = "none", [NS_CONTACT_NCP] = "ncp", [NS_CONTACT_SPRING] = "spring"};
enum { NCONTACT = sizeof contact_names / sizeof *contact_names };

// Is a parameter of this name in the index?
static bool has_pattern(const nsi_hybrid* hybrid, const nsi_index* index, uint32_t hash,
                        const char* pattern) {
    if (!index->ids) return false;
    for (uint32_t at = nsi_index_first(index, hash), id; nsi_index_at(index, at, &id);
         at = nsi_index_next(index, at)) {
        if (strcmp(hybrid->parameters.data[id].pattern, pattern) == 0) return true;
    }
    return false;
}

// ---- events ----------------------------------------------------------------------------------

typedef struct parser {
    yaml_parser_t yaml;
    yaml_event_t event; // the latest
    const char* file;
    const char *text, *folder;
    size_t size;
    nsi_hybrid* out;
    nsi_index patterns; // of the parameters
    uint32_t seen;      // bits of keys
    yaml_mark_t weights;
    ns_error* error;
} parser;

static ns_status fail_at(const parser* p, ns_status status, yaml_mark_t mark, const char* format,
                         ...) NSI_PRINTF(4, 5);
static ns_status fail_at(const parser* p, ns_status status, yaml_mark_t mark, const char* format,
                         ...) {
    char what[NS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return nsi_fail(p->error, status, "%.200s:%zu:%zu: %s", p->file, mark.line + 1, mark.column + 1,
                    what);
}

static ns_status fail_yaml(const parser* p) {
    const yaml_parser_t* yaml = &p->yaml;
    if (yaml->error == YAML_MEMORY_ERROR) return nsi_fail_nomem(p->error);
    yaml_mark_t mark = yaml->problem_mark;
    if (yaml->error == YAML_READER_ERROR) { // has only the number of the byte
        mark = (yaml_mark_t){0};
        for (size_t i = 0; i < yaml->problem_offset && i < p->size; i++) {
            mark.column = p->text[i] == '\n' ? 0 : mark.column + 1;
            mark.line += p->text[i] == '\n';
        }
    }
    return fail_at(p, NS_ERR_PARSE, mark, "%s", yaml->problem ? yaml->problem : "no YAML");
}

static ns_status fail_extra(const parser* p, const char* what, const unsigned char* name,
                            const char* advice) {
    char quote[NSI_QUOTE_SIZE];
    const char* text = (const char*)name;
    return fail_at(p, NS_ERR_PARSE, p->event.start_mark, "%s %s is not allowed here; %s", what,
                   nsi_quote(text, strlen(text), quote), advice);
}

// Go on to the next event, which is none of what is refused everywhere.
static ns_status next(parser* p) {
    yaml_event_delete(&p->event);
    if (!yaml_parser_parse(&p->yaml, &p->event)) return fail_yaml(p);
    const unsigned char *anchor = NULL, *tag = NULL;
    switch (p->event.type) {
    case YAML_ALIAS_EVENT:
        return fail_extra(p, "the alias", p->event.data.alias.anchor,
                          "put a name that starts with * in quotes");
    case YAML_SCALAR_EVENT:
        anchor = p->event.data.scalar.anchor;
        tag = p->event.data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = p->event.data.sequence_start.anchor;
        tag = p->event.data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = p->event.data.mapping_start.anchor;
        tag = p->event.data.mapping_start.tag;
        break;
    default: break;
    }
    if (anchor) return fail_extra(p, "the anchor", anchor, "remove it");
    if (tag) return fail_extra(p, "the tag", tag, "remove it");
    return NS_OK;
}

// ---- values ----------------------------------------------------------------------------------

// Text of the current event, a scalar. NUL-terminated; it may have NULs inside.
static const char* value_text(const parser* p) {
    return (const char*)p->event.data.scalar.value;
}

static size_t value_size(const parser* p) {
    return p->event.data.scalar.length;
}

static bool is_word(const parser* p, const char* word) {
    return value_size(p) == strlen(word) && memcmp(value_text(p), word, value_size(p)) == 0;
}

static bool is_plain(const parser* p) {
    return p->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

// Does YAML, of any version, take this plain text for something else than a text?
static bool is_typed(const char* text, size_t size) {
    static const char* const words[] = {"",    "~",   "null", "true", "false", "yes",
                                        "no",  "on",  "off",  "y",    "n",     ".inf",
                                        "nan", "inf", ".nan", "<<",   "="};
    char lower[8] = {0};
    for (size_t i = 0; i < size && size < sizeof lower; i++) {
        lower[i] = text[i];
        if (text[i] >= 'A' && text[i] <= 'Z') lower[i] = (char)(text[i] + ('a' - 'A'));
    }
    for (size_t k = 0; k < sizeof words / sizeof *words && size < sizeof lower; k++) {
        if (strcmp(lower, words[k]) == 0) return true;
    }
    double number;
    return nsi_text_read_double(text, size, &number) != NS_ERR_PARSE;
}

static ns_status fail_value(const parser* p, const char* key, const char* what) {
    char quote[NSI_QUOTE_SIZE];
    return fail_at(p, NS_ERR_PARSE, p->event.start_mark, "%s: %s %s", key,
                   nsi_quote(value_text(p), value_size(p), quote), what);
}

// The next event as the value of a key.
static ns_status next_scalar(parser* p, const char* key, const char* wanted) {
    ns_status status = next(p);
    if (status == NS_OK && p->event.type != YAML_SCALAR_EVENT) {
        status = fail_at(p, NS_ERR_PARSE, p->event.start_mark,
                         "%s: a list or a mapping where %s should be", key, wanted);
    }
    return status;
}

static ns_status read_number(parser* p, const char* key, double* out) {
    ns_status status = next_scalar(p, key, "a number");
    if (status != NS_OK) return status;
    if (!is_plain(p)) return fail_value(p, key, "is in quotes; write a number without");
    status = nsi_text_read_double(value_text(p), value_size(p), out);
    if (status == NS_ERR_LIMIT) return fail_value(p, key, "is too large or too long a number");
    if (status != NS_OK) return fail_value(p, key, "is not a number");
    if (!isfinite(*out)) return fail_value(p, key, "is not finite");
    return NS_OK;
}

static ns_status read_bool(parser* p, const char* key, bool* out) {
    ns_status status = next_scalar(p, key, "true or false");
    if (status != NS_OK) return status;
    *out = is_word(p, "true");
    bool known = *out || is_word(p, "false");
    if (!known || !is_plain(p)) return fail_value(p, key, "is neither true nor false");
    return NS_OK;
}

static ns_status read_contact(parser* p, const char* key, int* out) {
    ns_status status = next_scalar(p, key, "a name");
    if (status != NS_OK) return status;
    for (int k = 0; k < NCONTACT; k++) {
        if (!is_word(p, contact_names[k])) continue;
        *out = k;
        return NS_OK;
    }
    return fail_value(p, key, "is none of ncp, spring, none");
}

// The path of a file, resolved.
static ns_status read_path(parser* p, const char* key, const char** out) {
    ns_status status = next_scalar(p, key, "the name of a file");
    if (status != NS_OK) return status;
    const char* text = value_text(p);
    size_t size = value_size(p);
    if (is_plain(p) && is_typed(text, size)) {
        return fail_value(p, key, "is not the name of a file; put it in quotes if it is");
    }
    const char* fault = nsi_line_fault(text, size);
    if (fault) return fail_value(p, key, fault);
    if (size > NSI_HYBRID_MAX_PATH) {
        return fail_at(p, NS_ERR_LIMIT, p->event.start_mark, "%s: more than %d bytes", key,
                       NSI_HYBRID_MAX_PATH);
    }
    size_t before = text[0] == '/' ? 0 : strlen(p->folder);
    char* path = nsi_arena_alloc(&p->out->arena, before + size + 1);
    if (!path) return nsi_fail_nomem(p->error);
    memcpy(path, p->folder, before);
    memcpy(path + before, text, size + 1);
    *out = path;
    return NS_OK;
}

// A hybrid model in a hybrid model could contain itself.
static ns_status read_robot(parser* p, const char* key) {
    ns_status status = read_path(p, key, &p->out->robot);
    if (status == NS_OK && nsi_is_hybrid_path(p->out->robot)) {
        status = fail_value(p, key, "is YAML; give a URDF or MJCF file");
    }
    return status;
}

static ns_status read_timestep(parser* p, const char* key) {
    ns_status status = read_number(p, key, &p->out->timestep);
    if (status == NS_OK && p->out->timestep <= 0.0) status = fail_value(p, key, "is not positive");
    return status;
}

// ---- parameters ------------------------------------------------------------------------------

// The current event is the key.
static ns_status add_pattern(parser* p) {
    nsi_hybrid* out = p->out;
    const char* text = value_text(p);
    size_t size = value_size(p);
    const char* fault = nsi_line_fault(text, size);
    if (fault) return fail_value(p, "parameters", fault);
    if (size > NSI_HYBRID_MAX_PATTERN || out->parameters.count >= NSI_HYBRID_MAX_PARAMETERS) {
        return fail_at(p, NS_ERR_LIMIT, p->event.start_mark,
                       "parameters: more than %d of them, or a name of more than %d bytes",
                       NSI_HYBRID_MAX_PARAMETERS, NSI_HYBRID_MAX_PATTERN);
    }
    uint32_t hash = nsi_hash_bytes(text, size);
    if (has_pattern(out, &p->patterns, hash, text)) {
        return fail_value(p, "parameters", "is there twice; remove one");
    }
    const ns_allocator* allocator = &out->arena.allocator;
    nsi_hybrid_parameter parameter = {.pattern = nsi_arena_string(&out->arena, text, size)};
    if (!parameter.pattern || !nsi_array_push(allocator, &out->parameters, parameter) ||
        !nsi_index_insert(allocator, &p->patterns, hash, out->parameters.count - 1)) {
        return nsi_fail_nomem(p->error);
    }
    return NS_OK;
}

static ns_status read_parameters(parser* p) {
    ns_status status = next(p);
    if (status == NS_OK && p->event.type != YAML_MAPPING_START_EVENT) {
        status = fail_at(p, NS_ERR_PARSE, p->event.start_mark,
                         "parameters: must be a mapping such as {\"link/*/mass\": 1.2}");
    }
    while (status == NS_OK) {
        status = next(p);
        if (status != NS_OK || p->event.type == YAML_MAPPING_END_EVENT) break;
        if (p->event.type != YAML_SCALAR_EVENT) {
            return fail_at(p, NS_ERR_PARSE, p->event.start_mark,
                           "parameters: a list or a mapping where a name should be");
        }
        status = add_pattern(p);
        if (status != NS_OK) break;
        nsi_hybrid_parameter* parameter = &p->out->parameters.data[p->out->parameters.count - 1];
        char quote[NSI_QUOTE_SIZE];
        status = read_number(p, nsi_quote(parameter->pattern, strlen(parameter->pattern), quote),
                             &parameter->value);
    }
    return status;
}

// ---- keys ------------------------------------------------------------------------------------

enum {
    KEY_ROBOT,
    KEY_PARAMETERS,
    KEY_CONTACT,
    KEY_TIMESTEP,
    KEY_BLUEPRINT,
    KEY_WEIGHTS,
    KEY_GROUND,
    KEY_SELF_COLLISION,
    NKEY
};

static const char* const keys[NKEY] = {"robot",     "parameters", "contact", "timestep",
                                       "blueprint", "weights",    "ground",  "self_collision"};

// The current event is the key.
static ns_status find_key(parser* p, int* out) {
    uint32_t least = UINT32_MAX;
    const char *text = value_text(p), *nearest = "robot";
    char quote[NSI_QUOTE_SIZE];
    const char* quoted = nsi_quote(text, value_size(p), quote);
    for (int k = 0; k < NKEY; k++) {
        uint32_t distance = nsi_edit_distance(text, keys[k]);
        if (distance < least) least = distance, nearest = keys[k];
        if (!is_word(p, keys[k])) continue;
        if (p->seen >> k & 1) {
            return fail_at(p, NS_ERR_PARSE, p->event.start_mark,
                           "the key %s is there twice; remove one", quoted);
        }
        p->seen |= 1u << k;
        *out = k;
        return NS_OK;
    }
    return fail_at(p, NS_ERR_PARSE, p->event.start_mark, "unknown key %s; did you mean \"%s\"?",
                   quoted, nearest);
}

static ns_status read_entry(parser* p, int key) {
    switch (key) {
    case KEY_ROBOT: return read_robot(p, keys[key]);
    case KEY_PARAMETERS: return read_parameters(p);
    case KEY_CONTACT: return read_contact(p, keys[key], &p->out->contact);
    case KEY_TIMESTEP: return read_timestep(p, keys[key]);
    case KEY_BLUEPRINT: return read_path(p, keys[key], &p->out->blueprint);
    case KEY_WEIGHTS:
        p->weights = p->event.start_mark;
        return read_path(p, keys[key], &p->out->weights);
    case KEY_GROUND: return read_bool(p, keys[key], &p->out->ground);
    default: return read_bool(p, keys[key], &p->out->self_collision);
    }
}

// The current event opens the mapping.
static ns_status read_mapping(parser* p) {
    yaml_mark_t start = p->event.start_mark;
    for (;;) {
        ns_status status = next(p);
        if (status != NS_OK) return status;
        if (p->event.type == YAML_MAPPING_END_EVENT) break;
        if (p->event.type != YAML_SCALAR_EVENT) {
            return fail_at(p, NS_ERR_PARSE, p->event.start_mark, "a key must be a name");
        }
        int key = 0;
        status = find_key(p, &key);
        if (status == NS_OK) status = read_entry(p, key);
        if (status != NS_OK) return status;
    }
    if (!p->out->robot) {
        return fail_at(p, NS_ERR_PARSE, start,
                       "there is no robot; add \"robot: <URDF or MJCF file>\"");
    }
    if (p->out->weights && !p->out->blueprint) {
        return fail_at(p, NS_ERR_PARSE, p->weights,
                       "weights without a blueprint; add \"blueprint: <file>\"");
    }
    return NS_OK;
}

static ns_status read_document(parser* p) {
    ns_status status = next(p);            // start of the stream
    if (status == NS_OK) status = next(p); // start of the document
    if (status == NS_OK && p->event.type == YAML_DOCUMENT_START_EVENT) status = next(p);
    if (status == NS_OK && p->event.type != YAML_MAPPING_START_EVENT) {
        status = fail_at(p, NS_ERR_PARSE, p->event.start_mark,
                         "a hybrid model is a mapping; start with \"robot: <URDF or MJCF file>\"");
    }
    if (status == NS_OK) status = read_mapping(p);
    if (status == NS_OK) status = next(p); // end of the document
    if (status == NS_OK) status = next(p); // end of the stream
    if (status == NS_OK && p->event.type != YAML_STREAM_END_EVENT) {
        status = fail_at(p, NS_ERR_PARSE, p->event.start_mark,
                         "a second document; one model is in one file");
    }
    return status;
}

ns_status nsi_hybrid_parse(const char* text, size_t size, const char* path,
                           const ns_allocator* allocator, nsi_hybrid* out, ns_error* error) {
    nsi_hybrid_init(allocator, out);
    if (size > NSI_HYBRID_MAX_SIZE) {
        return nsi_fail(error, NS_ERR_LIMIT, "%.200s: more than %d MiB", path,
                        NSI_HYBRID_MAX_SIZE >> 20);
    }
    const ns_allocator* memory = &out->arena.allocator;
    char* folder = nsi_file_folder(path, memory);
    if (!folder) return nsi_fail_nomem(error);
    parser p = {
        .file = path, .text = text, .size = size, .folder = folder, .out = out, .error = error};
    ns_status status = NS_OK;
    if (yaml_parser_initialize(&p.yaml)) {
        yaml_parser_set_encoding(&p.yaml, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&p.yaml, (const unsigned char*)text, size);
        status = read_document(&p);
        yaml_event_delete(&p.event);
        yaml_parser_delete(&p.yaml);
    } else {
        status = nsi_fail_nomem(error);
    }
    nsi_index_free(memory, &p.patterns);
    nsi_free(memory, folder);
    if (status != NS_OK) nsi_hybrid_free(out);
    return status;
}

ns_status nsi_hybrid_read(const char* path, const ns_allocator* allocator, nsi_hybrid* out,
                          ns_error* error) {
    nsi_hybrid_init(allocator, out);
    ns_allocator memory = out->arena.allocator;
    nsi_bytes text = {0};
    // One byte past the limit is read, so that the parser sees that it is too much.
    ns_status status = nsi_file_read(path, NSI_HYBRID_MAX_SIZE, &memory, &text, error);
    if (status == NS_OK) {
        status = nsi_hybrid_parse(text.data, text.count, path, &memory, out, error);
    }
    nsi_array_free(&memory, &text);
    return status;
}

// ---- writing ---------------------------------------------------------------------------------

// In double quotes. YAML takes some characters past ASCII for line ends or refuses them.
static void add_quoted(nsi_text_builder* text, const char* value) {
    size_t size = strlen(value);
    nsi_text_add_bytes(text, "\"", 1);
    for (size_t at = 0, length; at < size; at += length) {
        uint32_t code = 0;
        length = nsi_utf8_next(value + at, size - at, &code);
        NS_ASSERT(length > 0); // it was checked
        if (code == '"' || code == '\\') {
            nsi_text_add(text, "\\%c", (char)code);
        } else if (code == 0x2028 || code == 0x2029 || code == 0xFEFF || code == 0xFFFE ||
                   code == 0xFFFF) {
            nsi_text_add(text, "\\u%04X", code);
        } else {
            nsi_text_add_bytes(text, value + at, length);
        }
    }
    nsi_text_add_bytes(text, "\"", 1);
}

// Without quotes where that is plainly a text.
static void add_value(nsi_text_builder* text, const char* value) {
    size_t size = strlen(value);
    bool plain = !is_typed(value, size) && value[0] != '-';
    for (size_t i = 0; i < size; i++) {
        char c = value[i];
        plain = plain && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == '/');
    }
    if (plain) {
        nsi_text_add_bytes(text, value, size);
    } else {
        add_quoted(text, value);
    }
}

// Start with the current folder unless the path is absolute; leave out "." and empty parts. ".."
// stays: what it means depends on links.
static ns_status make_absolute(const char* path, const ns_allocator* allocator, char** out,
                               ns_error* error) {
    char here[NSI_HYBRID_MAX_PATH + 1] = "";
    *out = NULL;
    if (path[0] != '/' && !getcwd(here, sizeof here)) {
        return nsi_fail(error, NS_ERR_IO, "the current folder is not known: %s", strerror(errno));
    }
    char* absolute = nsi_alloc(allocator, strlen(here) + strlen(path) + 3);
    if (!absolute) return nsi_fail_nomem(error);
    size_t size = strlen(here);
    memcpy(absolute, here, size);
    while (size > 0 && absolute[size - 1] == '/') size--; // the root
    for (const char* part = path; *part;) {
        size_t length = strcspn(part, "/");
        if (length > 0 && !(length == 1 && part[0] == '.')) {
            absolute[size++] = '/';
            memcpy(absolute + size, part, length);
            size += length;
        }
        part += length + (part[length] == '/');
    }
    if (size == 0) absolute[size++] = '/';
    absolute[size] = '\0';
    *out = absolute;
    return NS_OK;
}

// `folder` is absolute and ends with '/'.
static ns_status add_path(nsi_text_builder* text, const char* key, const char* path,
                          const char* folder, ns_error* error) {
    if (!path) return NS_OK;
    const char* fault = nsi_line_fault(path, strlen(path));
    if (fault) return nsi_fail(error, NS_ERR_ARGUMENT, "%s: the path %s", key, fault);
    char* absolute;
    ns_status status = make_absolute(path, &text->allocator, &absolute, error);
    if (!absolute) return status;
    size_t length = strlen(folder);
    bool below = strncmp(absolute, folder, length) == 0 && absolute[length] != '\0';
    const char* written = below ? absolute + length : absolute;
    if (strlen(written) > NSI_HYBRID_MAX_PATH) {
        status = nsi_fail(error, NS_ERR_LIMIT, "%s: more than %d bytes", key, NSI_HYBRID_MAX_PATH);
    } else {
        nsi_text_add(text, "%s: ", key);
        add_value(text, written);
        nsi_text_add(text, "\n");
    }
    nsi_free(&text->allocator, absolute);
    return status;
}

static ns_status add_paths(nsi_text_builder* text, const nsi_hybrid* hybrid, const char* path,
                           ns_error* error) {
    char* absolute;
    ns_status status = make_absolute(path, &text->allocator, &absolute, error);
    if (!absolute) return status;
    strrchr(absolute, '/')[1] = '\0';
    status = add_path(text, keys[KEY_ROBOT], hybrid->robot, absolute, error);
    if (status == NS_OK) {
        status = add_path(text, keys[KEY_BLUEPRINT], hybrid->blueprint, absolute, error);
    }
    if (status == NS_OK) {
        status = add_path(text, keys[KEY_WEIGHTS], hybrid->weights, absolute, error);
    }
    nsi_free(&text->allocator, absolute);
    return status;
}

static ns_status check_pattern(const nsi_hybrid* hybrid, uint32_t number, nsi_index* index,
                               const ns_allocator* allocator, ns_error* error) {
    const nsi_hybrid_parameter* parameter = &hybrid->parameters.data[number];
    const char* pattern = parameter->pattern;
    char quote[NSI_QUOTE_SIZE];
    if (!pattern) return nsi_fail(error, NS_ERR_ARGUMENT, "parameters: a name is NULL");
    size_t size = strlen(pattern);
    const char* quoted = nsi_quote(pattern, size, quote);
    const char* fault = nsi_line_fault(pattern, size);
    if (fault) return nsi_fail(error, NS_ERR_ARGUMENT, "parameters: %s %s", quoted, fault);
    if (size > NSI_HYBRID_MAX_PATTERN) {
        return nsi_fail(error, NS_ERR_LIMIT, "parameters: %s has more than %d bytes", quoted,
                        NSI_HYBRID_MAX_PATTERN);
    }
    if (!isfinite(parameter->value)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "parameters: the value of %s is not finite",
                        quoted);
    }
    uint32_t hash = nsi_hash_bytes(pattern, size);
    if (has_pattern(hybrid, index, hash, pattern)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "parameters: %s is there twice", quoted);
    }
    return nsi_index_insert(allocator, index, hash, number) ? NS_OK : nsi_fail_nomem(error);
}

static ns_status check_hybrid(const nsi_hybrid* hybrid, const ns_allocator* allocator,
                              ns_error* error) {
    if (!hybrid->robot) return nsi_fail(error, NS_ERR_ARGUMENT, "robot is NULL");
    if (nsi_is_hybrid_path(hybrid->robot)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "robot is YAML; give a URDF or MJCF file");
    }
    if (hybrid->weights && !hybrid->blueprint) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "weights without a blueprint");
    }
    if (hybrid->contact < -1 || hybrid->contact >= NCONTACT) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "contact is neither -1 nor a contact model");
    }
    if (!(hybrid->timestep >= 0.0) || !isfinite(hybrid->timestep)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "timestep is negative or not finite");
    }
    if (hybrid->parameters.count > NSI_HYBRID_MAX_PARAMETERS) {
        return nsi_fail(error, NS_ERR_LIMIT, "parameters: more than %d", NSI_HYBRID_MAX_PARAMETERS);
    }
    nsi_index index = {0};
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < hybrid->parameters.count && status == NS_OK; k++) {
        status = check_pattern(hybrid, k, &index, allocator, error);
    }
    nsi_index_free(allocator, &index);
    return status;
}

static void add_rest(nsi_text_builder* text, const nsi_hybrid* hybrid) {
    if (hybrid->contact >= 0) {
        nsi_text_add(text, "%s: %s\n", keys[KEY_CONTACT], contact_names[hybrid->contact]);
    }
    if (hybrid->timestep > 0.0) {
        nsi_text_add(text, "%s: ", keys[KEY_TIMESTEP]);
        nsi_text_add_double(text, hybrid->timestep);
        nsi_text_add(text, "\n");
    }
    if (hybrid->ground) nsi_text_add(text, "%s: true\n", keys[KEY_GROUND]);
    if (hybrid->self_collision) nsi_text_add(text, "%s: true\n", keys[KEY_SELF_COLLISION]);
    if (hybrid->parameters.count > 0) nsi_text_add(text, "%s:\n", keys[KEY_PARAMETERS]);
    for (uint32_t k = 0; k < hybrid->parameters.count; k++) {
        nsi_text_add(text, "  ");
        add_quoted(text, hybrid->parameters.data[k].pattern);
        nsi_text_add(text, ": ");
        nsi_text_add_double(text, hybrid->parameters.data[k].value);
        nsi_text_add(text, "\n");
    }
}

ns_status nsi_hybrid_print(const nsi_hybrid* hybrid, const char* path,
                           const ns_allocator* allocator, ns_text* out, ns_error* error) {
    *out = (ns_text){0};
    nsi_text_builder text = {.allocator = allocator ? *allocator : ns_default_allocator()};
    ns_status status = check_hybrid(hybrid, &text.allocator, error);
    if (status == NS_OK) status = add_paths(&text, hybrid, path, error);
    if (status == NS_OK) {
        add_rest(&text, hybrid);
        if (text.text.count > NSI_HYBRID_MAX_SIZE) {
            status = nsi_fail(error, NS_ERR_LIMIT, "the file would have more than %d MiB",
                              NSI_HYBRID_MAX_SIZE >> 20);
        }
    }
    if (status != NS_OK) {
        nsi_array_free(&text.allocator, &text.text);
        return status;
    }
    return nsi_text_finish(&text, out, error);
}

ns_status nsi_hybrid_write(const char* path, const nsi_hybrid* hybrid,
                           const ns_allocator* allocator, ns_error* error) {
    ns_text text;
    ns_error inner;
    ns_status status = nsi_hybrid_print(hybrid, path, allocator, &text, &inner);
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    if (status != NS_OK) return nsi_fail(error, status, "%.200s: %s", path, inner.message);
    status = nsi_file_write(path, text.data, text.size, allocator, error);
    ns_text_free(&text);
    return status;
}
