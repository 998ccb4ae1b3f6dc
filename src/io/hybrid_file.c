// Read and write hybrid model files.

#define _POSIX_C_SOURCE 200809L

#include "io/hybrid_file.h"

#include "io/file.h"
#include "io/numbers.h"
#include "io/utf8.h"
#include "io/yaml.h"
#include "neuralsim/contact.h"
#include "neuralsim/model.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <unistd.h>

bool ns_hybrid_is_path(const char* path) {
    size_t size = strlen(path);
    return (size >= 5 && strcmp(path + size - 5, ".yaml") == 0) ||
           (size >= 4 && strcmp(path + size - 4, ".yml") == 0);
}

void nsi_hybrid_init(const ns_allocator* allocator, nsi_hybrid* out) {
    *out = (nsi_hybrid){.contact = -1,
                        .integrator = -1,
                        .arena = {.allocator = allocator ? *allocator : ns_default_allocator()}};
}

void nsi_hybrid_free(nsi_hybrid* hybrid) {
    if (!hybrid || !hybrid->arena.allocator.free) return;
    ns_allocator allocator = hybrid->arena.allocator;
    nsi_array_free(&allocator, &hybrid->parameters);
    for (uint32_t k = 0; k < hybrid->variants.count; k++) {
        nsi_array_free(&allocator, &hybrid->variants.data[k].parameters);
    }
    nsi_array_free(&allocator, &hybrid->variants);
    nsi_arena_free(&hybrid->arena);
    nsi_hybrid_init(&allocator, hybrid);
}

bool nsi_variant_has_file(const char* files, const char* recording) {
    const char* slash = strrchr(recording, '/');
    return ns_glob_match(files, slash ? slash + 1 : recording);
}

const nsi_hybrid_variant* nsi_hybrid_variant_of(const nsi_hybrid* hybrid, const char* recording) {
    for (uint32_t k = 0; k < hybrid->variants.count; k++) {
        const nsi_hybrid_variant* v = &hybrid->variants.data[k];
        if (nsi_variant_has_file(v->files, recording)) return v;
    }
    return NULL;
}

const nsi_hybrid_variant* nsi_hybrid_find_variant(const nsi_hybrid* hybrid, const char* name) {
    for (uint32_t k = 0; k < hybrid->variants.count; k++) {
        if (strcmp(hybrid->variants.data[k].name, name) == 0) return &hybrid->variants.data[k];
    }
    return NULL;
}

// ---- reading ---------------------------------------------------------------------------------

// Can this name a folder only? Writing leaves such an end out.
static bool is_folder(const char* path) {
    const char* last = strrchr(path, '/');
    last = last ? last + 1 : path;
    return last[0] == '\0' || strcmp(last, ".") == 0;
}

// The path of a file, resolved: from the folder of the file that names it.
static ns_status read_file_path(nsi_schema_reader* r, const nsi_yaml_node* node, const char** out) {
    const char* text = NULL;
    ns_status status = nsi_yaml_text(r->yaml, node, &text, r->error);
    if (status != NS_OK) return status;
    // Messages quote the name in a printable form.
    char quote[NSI_QUOTE_SIZE];
    size_t size = strlen(text);

    // Refuse what is almost certainly a mistake: a number or flag, a folder, an endless name.
    // A plain number was probably meant for another key.
    if (node->plain && nsi_yaml_is_typed(text)) {
        return nsi_yaml_fail(r->yaml, node, r->error,
                             "%s: %s is not the name of a file; put it in quotes if it is",
                             node->key, nsi_quote(text, size, quote));
    }
    if (is_folder(text)) {
        return nsi_yaml_fail(r->yaml, node, r->error, "%s: %s is a folder; give a file", node->key,
                             nsi_quote(text, size, quote));
    }
    // Longer paths cannot be opened.
    if (size > NSI_HYBRID_MAX_PATH) {
        return nsi_yaml_fail_limit(r->yaml, node, r->error, "%s: more than %d bytes", node->key,
                                   NSI_HYBRID_MAX_PATH);
    }

    // A base file may lie elsewhere: first resolve against the file that holds the key, then
    // against the hybrid model.
    const char *first = strrchr(r->yaml->file, '/'), *near = NULL;
    status = nsi_schema_path(r, node, &near);
    // Absolute paths are used as they are.
    if (status != NS_OK || *near == '/') {
        *out = near;
        return status;
    }

    // Prefix the folder of the hybrid model.
    size_t before = first ? (size_t)(first - r->yaml->file) + 1 : 0;
    char* path = nsi_arena_alloc(r->arena, before + strlen(near) + 1);
    if (!path) return nsi_fail_nomem(r->error);
    memcpy(path, r->yaml->file, before);
    memcpy(path + before, near, strlen(near) + 1);
    *out = path;
    return NS_OK;
}

static ns_status read_robot_path(nsi_schema_reader* r, const nsi_yaml_node* node,
                                 const char** out) {
    ns_status status = read_file_path(r, node, out);
    if (status != NS_OK || !ns_hybrid_is_path(*out)) return status;
    // It could contain itself.
    char quote[NSI_QUOTE_SIZE];
    return nsi_yaml_fail(r->yaml, node, r->error, "robot: %s is YAML; give a URDF or MJCF file",
                         nsi_quote(node->text, strlen(node->text), quote));
}

static ns_status read_robot(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    return read_robot_path(r, node, &((nsi_hybrid*)out)->robot);
}

static ns_status read_blueprint(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    return read_file_path(r, node, &((nsi_hybrid*)out)->blueprint);
}

static ns_status read_weights(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    return read_file_path(r, node, &((nsi_hybrid*)out)->weights);
}

// ---- parameters

static ns_status read_parameter(nsi_schema_reader* r, const nsi_yaml_node* node,
                                nsi_hybrid_parameters* to) {
    size_t size = strlen(node->key);
    if (size > NSI_HYBRID_MAX_PATTERN || to->count >= NSI_HYBRID_MAX_PARAMETERS) {
        return nsi_yaml_fail_limit(r->yaml, node, r->error,
                                   "parameters: more than %d of them, or a name of more than %d"
                                   " bytes",
                                   NSI_HYBRID_MAX_PARAMETERS, NSI_HYBRID_MAX_PATTERN);
    }
    nsi_hybrid_parameter parameter = {.pattern = nsi_arena_string(r->arena, node->key, size),
                                      .line = node->key_line,
                                      .column = node->key_column};
    ns_status status =
        nsi_yaml_number(r->yaml, node, -INFINITY, INFINITY, &parameter.value, r->error);
    if (status == NS_OK && node->source->file != r->yaml->file) {
        parameter.file = nsi_arena_string(r->arena, node->source->file, strlen(node->source->file));
        if (!parameter.file) return nsi_fail_nomem(r->error);
    }
    if (status != NS_OK) return status;
    bool ok = parameter.pattern && nsi_array_push(&r->arena->allocator, to, parameter);
    return ok ? NS_OK : nsi_fail_nomem(r->error);
}

static ns_status hybrid_read_parameters(nsi_schema_reader* r, const nsi_yaml_node* map,
                                        nsi_hybrid_parameters* to) {
    if (map->type != NSI_YAML_MAP) {
        return nsi_yaml_fail(r->yaml, map, r->error,
                             "parameters: must be a mapping such as {\"link/*/mass\": 1.2}");
    }
    ns_status status = NS_OK;
    for (const nsi_yaml_node* n = map->first; n && status == NS_OK; n = n->next) {
        status = read_parameter(r, n, to);
    }
    return status;
}

static ns_status read_shared_parameters(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    return hybrid_read_parameters(r, map, &((nsi_hybrid*)out)->parameters);
}

// ---- variants

static ns_status hybrid_check_length(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    (void)out;
    if (strlen(node->text) <= NSI_HYBRID_MAX_PATTERN) return NS_OK;
    return nsi_yaml_fail_limit(r->yaml, node, r->error, "%s: more than %d bytes", node->key,
                               NSI_HYBRID_MAX_PATTERN);
}

static ns_status read_variant_robot(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    return read_robot_path(r, node, &((nsi_hybrid_variant*)out)->robot);
}

static ns_status read_variant_parameters(nsi_schema_reader* r, const nsi_yaml_node* map,
                                         void* out) {
    return hybrid_read_parameters(r, map, &((nsi_hybrid_variant*)out)->parameters);
}

static const nsi_schema_key hybrid_variant_keys[] = {
    {"name", NSI_KEY_TEXT, offsetof(nsi_hybrid_variant, name), .read = hybrid_check_length,
     .required = true, .help = "of the variant"},
    {"files", NSI_KEY_TEXT, offsetof(nsi_hybrid_variant, files), .read = hybrid_check_length,
     .required = true, .values = "glob", .help = "names of its recordings, without folders"},
    {"robot", NSI_KEY_OTHER, .read = read_variant_robot, .required = true, .values = "file",
     .help = "URDF or MJCF"},
    {"parameters", NSI_KEY_OTHER, .read = read_variant_parameters, .values = "`{NAME: number}`",
     .help = "of this one alone, on top of the others"},
};
const nsi_schema nsi_hybrid_variant_schema = NSI_SCHEMA("a variant", hybrid_variant_keys, NULL);

static ns_status hybrid_read_variant(nsi_schema_reader* r, const nsi_yaml_node* map,
                                     nsi_hybrid* out) {
    nsi_hybrid_variant v = {0};
    ns_status status = nsi_schema_read(r, &nsi_hybrid_variant_schema, map, &v);
    if (status == NS_OK && nsi_hybrid_find_variant(out, v.name)) {
        status = nsi_yaml_fail(r->yaml, map, r->error, "there are two variants %.100s", v.name);
    }
    if (status == NS_OK && !nsi_array_push(&out->arena.allocator, &out->variants, v)) {
        status = nsi_fail_nomem(r->error);
    }
    if (status != NS_OK) nsi_array_free(&out->arena.allocator, &v.parameters);
    return status;
}

static ns_status hybrid_read_variants(nsi_schema_reader* r, const nsi_yaml_node* list, void* out) {
    nsi_hybrid* hybrid = out;
    ns_status status = NS_OK;
    if (list->type != NSI_YAML_LIST || list->count == 0) {
        return nsi_yaml_fail(r->yaml, list, r->error,
                             "variants: must be a list such as [{name: a, files: \"*_a_*\", robot:"
                             " a.xml}]");
    }
    if (list->count > NSI_HYBRID_MAX_VARIANTS) {
        return nsi_yaml_fail_limit(r->yaml, list, r->error, "variants: more than %d",
                                   NSI_HYBRID_MAX_VARIANTS);
    }
    if (hybrid->robot) {
        return nsi_yaml_fail(r->yaml, list, r->error,
                             "robot and variants: leave one of the two out");
    }
    for (const nsi_yaml_node* n = list->first; n && status == NS_OK; n = n->next) {
        status = hybrid_read_variant(r, n, hybrid);
    }
    return status;
}

// ---- the whole

static ns_status hybrid_read_learned(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    static const char* const others[] = {"parameters", "contact", "integrator", "blueprint",
                                         "variants"};
    nsi_hybrid* hybrid = out;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        const nsi_yaml_node* other = nsi_yaml_find(node->parent, others[k]);
        if (!other) continue;
        return nsi_yaml_fail(r->yaml, other, r->error,
                             "%s: not supported with a learned system; remove one of the two",
                             others[k]);
    }
    if (!nsi_yaml_find(node->parent, "timestep")) {
        return nsi_yaml_fail(r->yaml, node, r->error,
                             "learned: the time step is missing; add \"timestep:\"");
    }
    nsi_learned* learned = nsi_arena_alloc(r->arena, sizeof *learned);
    if (!learned) return nsi_fail_nomem(r->error);
    hybrid->learned = learned;
    return nsi_learned_read(r->yaml, node, true, r->arena, learned, r->error);
}

static ns_status check_hybrid_keys(nsi_schema_reader* r, const nsi_yaml_node* root, void* out) {
    const nsi_hybrid* hybrid = out;
    if (!hybrid->robot && hybrid->variants.count == 0) {
        return nsi_yaml_fail(r->yaml, root, r->error,
                             "there is no robot; add \"robot: <URDF or MJCF file>\"");
    }
    if (hybrid->weights && !hybrid->blueprint && !hybrid->learned) {
        return nsi_yaml_fail(r->yaml, nsi_yaml_find(root, "weights"), r->error,
                             "weights without a blueprint; add \"blueprint: <file>\"");
    }
    return NS_OK;
}

static const nsi_schema_key hybrid_keys[] = {
    {"robot", NSI_KEY_OTHER, .read = read_robot, .values = "file", .help = "URDF or MJCF"},
    {"variants", NSI_KEY_OTHER, .read = hybrid_read_variants, .values = "list of variants",
     .help = "in place of `robot`: robots that share all else"},
    {"parameters", NSI_KEY_OTHER, .read = read_shared_parameters, .values = "`{NAME: number}`",
     .help = "names or globs of parameters, in this order"},
    {"contact", NSI_KEY_CHOICE, offsetof(nsi_hybrid, contact), .choices = &ns_contact_laws,
     .fallback = "(as each pair says)", .help = "contact model of all pairs"},
    {"integrator", NSI_KEY_CHOICE, offsetof(nsi_hybrid, integrator), .choices = &ns_integrators,
     .fallback = "(the robot's)", .help = "numerical integration of a step"},
    {"timestep", NSI_KEY_NUMBER, offsetof(nsi_hybrid, timestep), DBL_TRUE_MIN, DBL_MAX,
     .fallback = "(the robot's)", .values = "s, > 0", .help = "of a step"},
    {"blueprint", NSI_KEY_OTHER, .read = read_blueprint, .values = "file",
     .help = "networks and formulas"},
    {"weights", NSI_KEY_OTHER, .read = read_weights, .values = "file",
     .help = "of the networks, or of the learned system"},
    {"learned", NSI_KEY_OTHER, .read = hybrid_read_learned, .values = "learned system",
     .help = "a network that is the whole step ([fit.md](fit.md#learned-systems)); in place of"
             " parameters, contact, integrator and blueprint"},
    {"ground", NSI_KEY_FLAG, offsetof(nsi_hybrid, ground), .fallback = "false",
     .help = "add a ground plane if the robot's file has none"},
    {"self_collision", NSI_KEY_FLAG, offsetof(nsi_hybrid, self_collision), .fallback = "false",
     .help = "links of the robot collide with one another"},
    {"floating_base", NSI_KEY_FLAG, offsetof(nsi_hybrid, floating_base), .fallback = "false",
     .help = "the root link of a URDF moves freely"},
};
const nsi_schema nsi_hybrid_schema = NSI_SCHEMA("a hybrid model", hybrid_keys, check_hybrid_keys);

// Take over a tree, or the failure to read it.
static ns_status finish_hybrid(ns_status status, nsi_yaml* yaml, nsi_hybrid* out, ns_error* error) {
    nsi_schema_reader r = {.yaml = yaml, .arena = &out->arena, .error = error};
    if (status == NS_OK && yaml->root->type != NSI_YAML_MAP) {
        status = nsi_yaml_fail(yaml, yaml->root, error,
                               "a hybrid model is a mapping; start with \"robot: <URDF or MJCF"
                               " file>\"");
    }
    if (status == NS_OK) status = nsi_schema_read(&r, &nsi_hybrid_schema, yaml->root, out);
    nsi_yaml_free(yaml);
    if (status != NS_OK) nsi_hybrid_free(out);
    return status;
}

ns_status nsi_hybrid_parse(const char* text, size_t size, const char* path,
                           const ns_allocator* allocator, nsi_hybrid* out, ns_error* error) {
    nsi_yaml yaml = {0};
    nsi_hybrid_init(allocator, out);
    ns_status status = nsi_yaml_parse(text, size, path, allocator, &yaml, error);
    return finish_hybrid(status, &yaml, out, error);
}

ns_status nsi_hybrid_read(const char* path, const ns_allocator* allocator, nsi_hybrid* out,
                          ns_error* error) {
    nsi_yaml yaml = {0};
    nsi_hybrid_init(allocator, out);
    ns_status status = nsi_yaml_read(path, allocator, &yaml, error);
    return finish_hybrid(status, &yaml, out, error);
}

// ---- writing ---------------------------------------------------------------------------------

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
static ns_status hybrid_add_path(nsi_text_builder* text, const char* indent, const char* key,
                                 const char* path, const char* folder, ns_error* error) {
    if (!path) return NS_OK;
    const char* fault = nsi_line_fault(path, strlen(path));
    if (!fault && is_folder(path)) fault = "is a folder's";
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
        nsi_text_add(text, "%s%s: ", indent, key);
        nsi_yaml_add_text(text, written);
        nsi_text_add(text, "\n");
    }
    nsi_free(&text->allocator, absolute);
    return status;
}

static void hybrid_add_parameters(nsi_text_builder* text, const char* indent,
                                  const nsi_hybrid_parameters* parameters) {
    if (parameters->count > 0) nsi_text_add(text, "%sparameters:\n", indent);
    for (uint32_t k = 0; k < parameters->count; k++) {
        nsi_text_add(text, "%s  ", indent);
        nsi_yaml_add_quoted(text, parameters->data[k].pattern);
        nsi_text_add(text, ": ");
        nsi_text_add_double(text, parameters->data[k].value);
        nsi_text_add(text, "\n");
    }
}

static ns_status add_variants(nsi_text_builder* text, const nsi_hybrid* hybrid, const char* folder,
                              ns_error* error) {
    ns_status status = NS_OK;
    if (hybrid->variants.count > 0) nsi_text_add(text, "variants:\n");
    for (uint32_t k = 0; k < hybrid->variants.count && status == NS_OK; k++) {
        const nsi_hybrid_variant* v = &hybrid->variants.data[k];
        nsi_text_add(text, "  - name: ");
        nsi_yaml_add_quoted(text, v->name);
        nsi_text_add(text, "\n    files: ");
        nsi_yaml_add_quoted(text, v->files);
        nsi_text_add(text, "\n");
        status = hybrid_add_path(text, "    ", "robot", v->robot, folder, error);
        hybrid_add_parameters(text, "    ", &v->parameters);
    }
    return status;
}

static ns_status add_paths(nsi_text_builder* text, const nsi_hybrid* hybrid, const char* path,
                           ns_error* error) {
    char* absolute;
    ns_status status = make_absolute(path, &text->allocator, &absolute, error);
    if (!absolute) return status;
    strrchr(absolute, '/')[1] = '\0';
    status = hybrid_add_path(text, "", "robot", hybrid->robot, absolute, error);
    if (status == NS_OK) status = add_variants(text, hybrid, absolute, error);
    if (status == NS_OK) {
        status = hybrid_add_path(text, "", "blueprint", hybrid->blueprint, absolute, error);
    }
    if (status == NS_OK) {
        status = hybrid_add_path(text, "", "weights", hybrid->weights, absolute, error);
    }
    nsi_free(&text->allocator, absolute);
    return status;
}

// Is a parameter of this name in the index?
static bool has_pattern(const nsi_hybrid_parameters* parameters, const nsi_index* index,
                        uint32_t hash, const char* pattern) {
    if (!index->ids) return false;
    for (uint32_t at = nsi_index_first(index, hash), id; nsi_index_at(index, at, &id);
         at = nsi_index_next(index, at)) {
        if (strcmp(parameters->data[id].pattern, pattern) == 0) return true;
    }
    return false;
}

static ns_status check_pattern(const nsi_hybrid_parameters* parameters, uint32_t number,
                               nsi_index* index, const ns_allocator* allocator, ns_error* error) {
    const nsi_hybrid_parameter* parameter = &parameters->data[number];
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
    if (has_pattern(parameters, index, hash, pattern)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "parameters: %s is given twice", quoted);
    }
    return nsi_index_insert(allocator, index, hash, number) ? NS_OK : nsi_fail_nomem(error);
}

static ns_status check_parameters(const nsi_hybrid_parameters* parameters,
                                  const ns_allocator* allocator, ns_error* error) {
    if (parameters->count > NSI_HYBRID_MAX_PARAMETERS) {
        return nsi_fail(error, NS_ERR_LIMIT, "parameters: more than %d", NSI_HYBRID_MAX_PARAMETERS);
    }
    nsi_index index = {0};
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < parameters->count && status == NS_OK; k++) {
        status = check_pattern(parameters, k, &index, allocator, error);
    }
    nsi_index_free(allocator, &index);
    return status;
}

static ns_status check_robot(const char* robot, ns_error* error) {
    if (!robot) return nsi_fail(error, NS_ERR_ARGUMENT, "robot is NULL");
    if (!ns_hybrid_is_path(robot)) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "robot is YAML; give a URDF or MJCF file");
}

static ns_status check_variant(const nsi_hybrid* hybrid, const nsi_hybrid_variant* v,
                               const ns_allocator* allocator, ns_error* error) {
    const char* texts[] = {v->name, v->files};
    for (int k = 0; k < 2; k++) {
        size_t size = texts[k] ? strlen(texts[k]) : 0;
        bool good = size > 0 && size <= NSI_HYBRID_MAX_PATTERN && !nsi_line_fault(texts[k], size);
        if (!good) {
            return nsi_fail(error, NS_ERR_ARGUMENT, "variants: a name or glob of files is wrong");
        }
    }
    if (nsi_hybrid_find_variant(hybrid, v->name) != v) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "variants: %.100s is given twice", v->name);
    }
    ns_status status = check_robot(v->robot, error);
    return status == NS_OK ? check_parameters(&v->parameters, allocator, error) : status;
}

static ns_status check_robots(const nsi_hybrid* hybrid, const ns_allocator* allocator,
                              ns_error* error) {
    if (hybrid->variants.count == 0) return check_robot(hybrid->robot, error);
    if (hybrid->robot || hybrid->learned || hybrid->variants.count > NSI_HYBRID_MAX_VARIANTS) {
        return nsi_fail(
            error, NS_ERR_ARGUMENT,
            "variants cannot be combined with a robot or a learned system; at most %d are allowed",
            NSI_HYBRID_MAX_VARIANTS);
    }
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < hybrid->variants.count && status == NS_OK; k++) {
        status = check_variant(hybrid, &hybrid->variants.data[k], allocator, error);
    }
    return status;
}

static ns_status check_hybrid(const nsi_hybrid* hybrid, const ns_allocator* allocator,
                              ns_error* error) {
    // Robots first: everything else refers to them.
    ns_status status = check_robots(hybrid, allocator, error);
    if (status != NS_OK) return status;

    // Weights belong to the networks of a blueprint or to a learned system.
    if (hybrid->weights && !hybrid->blueprint && !hybrid->learned) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "weights without a blueprint");
    }

    // A learned system replaces the equations of motion, so nothing may refer to them.
    if (hybrid->learned) {
        status = nsi_learned_check(hybrid->learned, error);
        if (status != NS_OK) return status;
        // Contact and integrator belong to the equations of motion, too.
        if (hybrid->blueprint || hybrid->parameters.count > 0 || hybrid->contact >= 0 ||
            hybrid->integrator >= 0 || !(hybrid->timestep > 0.0)) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "a learned system has a timestep, and no blueprint, parameters, contact"
                            " or integrator");
        }
    }

    // The remaining fields are independent of each other.
    if (hybrid->contact != -1 && !ns_choice_has(&ns_contact_laws, hybrid->contact)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "contact is neither -1 nor a contact law");
    }
    if (hybrid->integrator != -1 && !ns_choice_has(&ns_integrators, hybrid->integrator)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "integrator is neither -1 nor an integrator");
    }
    // Zero selects the model's own time step.
    if (!(hybrid->timestep >= 0.0) || !isfinite(hybrid->timestep)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "timestep is negative or not finite");
    }

    // Whether patterns match a parameter is checked when the model is loaded.
    return check_parameters(&hybrid->parameters, allocator, error);
}

static void hybrid_add_names(nsi_text_builder* text, const char* key, const nsi_text_list* names) {
    if (names->count == 0) return;
    nsi_text_add(text, "  %s: [", key);
    for (uint32_t k = 0; k < names->count; k++) {
        if (k > 0) nsi_text_add(text, ", ");
        nsi_yaml_add_text(text, names->data[k]);
    }
    nsi_text_add(text, "]\n");
}

static void hybrid_add_numbers(nsi_text_builder* text, const char* key,
                               const nsi_number_list* numbers) {
    if (numbers->count == 0) return;
    nsi_text_add(text, "  %s: [", key);
    for (uint32_t k = 0; k < numbers->count; k++) {
        if (k > 0) nsi_text_add(text, ", ");
        nsi_text_add_double(text, numbers->data[k]);
    }
    nsi_text_add(text, "]\n");
}

static void add_learned(nsi_text_builder* text, const nsi_learned* l) {
    nsi_text_add(text, "learned:\n  kind: %s\n  hidden: [",
                 ns_choice_name(&ns_learned_kinds, (int)l->kind));
    for (uint32_t k = 0; k < l->nhidden; k++) {
        nsi_text_add(text, "%s%u", k > 0 ? ", " : "", l->hidden[k]);
    }
    nsi_text_add(text, "]\n  increment: %s\n", l->increment ? "true" : "false");
    if (l->integrate) nsi_text_add(text, "  integrate: true\n");
    if (l->kind != NS_LEARNED_LSTM) {
        nsi_text_add(text, "  activation: %s\n", ns_activation_name(l->activation));
    }
    hybrid_add_names(text, "hide", &l->hide);
    hybrid_add_names(text, "angle", &l->angle);
    nsi_text_add(text, "  init: {scale: ");
    nsi_text_add_double(text, l->init_scale);
    nsi_text_add(text, ", last: ");
    nsi_text_add_double(text, l->init_last_scale);
    nsi_text_add(text, "}\n  seed: %llu\n", (unsigned long long)l->seed);
    hybrid_add_names(text, "controls", &l->controls);
    hybrid_add_numbers(text, "state_shift", &l->state_shift);
    hybrid_add_numbers(text, "state_scale", &l->state_scale);
    hybrid_add_numbers(text, "control_shift", &l->control_shift);
    hybrid_add_numbers(text, "control_scale", &l->control_scale);
    hybrid_add_numbers(text, "output_scale", &l->output_scale);
}

static void add_rest(nsi_text_builder* text, const nsi_hybrid* hybrid) {
    if (hybrid->contact >= 0) {
        nsi_text_add(text, "contact: %s\n", ns_choice_name(&ns_contact_laws, hybrid->contact));
    }
    if (hybrid->integrator >= 0) {
        nsi_text_add(text, "integrator: %s\n", ns_choice_name(&ns_integrators, hybrid->integrator));
    }
    if (hybrid->timestep > 0.0) {
        nsi_text_add(text, "timestep: ");
        nsi_text_add_double(text, hybrid->timestep);
        nsi_text_add(text, "\n");
    }
    if (hybrid->ground) nsi_text_add(text, "ground: true\n");
    if (hybrid->self_collision) nsi_text_add(text, "self_collision: true\n");
    if (hybrid->floating_base) nsi_text_add(text, "floating_base: true\n");
    if (hybrid->learned) add_learned(text, hybrid->learned);
    hybrid_add_parameters(text, "", &hybrid->parameters);
}

ns_status nsi_hybrid_print(const nsi_hybrid* hybrid, const char* path,
                           const ns_allocator* allocator, ns_text* out, ns_error* error) {
    *out = (ns_text){0};
    nsi_text_builder text = {.allocator = allocator ? *allocator : ns_default_allocator()};
    ns_status status = check_hybrid(hybrid, &text.allocator, error);
    if (status == NS_OK) status = add_paths(&text, hybrid, path, error);
    if (status == NS_OK) {
        add_rest(&text, hybrid);
        if (text.text.count > NSI_YAML_MAX_SIZE) {
            status = nsi_fail(error, NS_ERR_LIMIT, "the file would have more than %d MiB",
                              NSI_YAML_MAX_SIZE >> 20);
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
