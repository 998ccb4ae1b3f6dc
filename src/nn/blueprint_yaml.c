// Blueprints from YAML.

#include "nn/blueprint_data.h"

#include <math.h>

typedef struct blueprint_reader {
    nsi_yaml yaml; // its arena also holds what is read from it
    ns_blueprint* blueprint;
    nsi_schema_reader by_table;
    ns_error* error;
    ns_status status;
} blueprint_reader;

// A network or a formula at hand.
typedef struct network_item {
    ns_network_def def;
    nsi_text_list conjugate;
} network_item;

typedef struct formula_item {
    ns_formula_def def;
    nsi_place* places; // of coefficients
} formula_item;

// ---- tables ----------------------------------------------------------------------------------

static ns_status read_sharing(nsi_schema_reader* r, const nsi_yaml_node* node, bool* separate) {
    int which = 0;
    ns_status status = nsi_yaml_choice(r->yaml, node, &nsi_sharings, &which, r->error);
    *separate = which == 1;
    return status;
}

static ns_status read_network_sharing(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    return read_sharing(r, node, &((network_item*)out)->def.separate);
}

static ns_status read_bias(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    bool bias = true;
    ns_status status = nsi_yaml_flag(r->yaml, node, &bias, r->error);
    ((network_item*)out)->def.no_bias = !bias;
    return status;
}

static ns_status read_structure(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    unsigned* bits = &((network_item*)out)->def.structure;
    bool one = node->type == NSI_YAML_SCALAR;
    ns_status status = one ? NS_OK : nsi_yaml_check_list(r->yaml, node, r->error);
    for (const nsi_yaml_node* n = one ? node : node->first; n && status == NS_OK; n = n->next) {
        int which = 0;
        status = nsi_yaml_choice(r->yaml, n, &ns_structures, &which, r->error);
        *bits |= (unsigned)which;
        if (one) break;
    }
    return status;
}

// What a definition cannot tell: how long this list is, and that this was given at all.
static ns_status check_network(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    network_item* item = out;
    ns_network_def* def = &item->def;
    const nsi_yaml_node *bound = nsi_yaml_find(map, "bound"),
                        *conjugate = nsi_yaml_find(map, "conjugate");
    uint32_t count = item->conjugate.count;
    if (conjugate && count != def->noutput) {
        return nsi_yaml_fail(
            r->yaml, conjugate, r->error,
            "conjugate: %u name%s for %u output%s; give one for each, in their order", count,
            count == 1 ? "" : "s", def->noutput, def->noutput == 1 ? "" : "s");
    }
    def->conjugate = item->conjugate.data;
    if (!bound || (def->structure & NS_STRUCTURE_BOUNDED)) return NS_OK;
    return nsi_yaml_fail(r->yaml, bound, r->error,
                         "bound: this is for the structure bounded only; add that, or leave"
                         " this out");
}

static const nsi_schema_key network_init_keys[] = {
    {"scale", NSI_KEY_NUMBER, offsetof(network_item, def.init_scale), .fallback = "1",
     .help = "weights start as N(0, scale^2 / fan-in), biases at 0"},
    {"last", NSI_KEY_NUMBER, offsetof(network_item, def.init_last_scale), .fallback = "0.1",
     .help = "in addition, of the last layer"},
    {"seed", NSI_KEY_WHOLE, offsetof(network_item, def.seed), .fallback = "1",
     .help = "of random weights"},
};
const nsi_schema nsi_network_init_schema = NSI_SCHEMA("init", network_init_keys, NULL);

static const nsi_schema_key network_keys[] = {
    {"name", NSI_KEY_TEXT, offsetof(network_item, def.name),
     .help = "letters, digits, `_`, `-`, `.`; unique, also among formulas"},
    {"each", NSI_KEY_TEXT, offsetof(network_item, def.each), .values = "glob",
     .fallback = "(one network)",
     .help = "apply the network to each match, which `{}` in the lists below stands for"},
    {"weights", NSI_KEY_OTHER, .read = read_network_sharing, .values = "`shared`, `separate`",
     .fallback = "shared", .help = "with `each`: one set for all matches, or one for each"},
    {"inputs", NSI_KEY_TEXTS, offsetof(network_item, def.inputs), .single = true,
     .values = "list of quantities", .help = "names or globs; `prev:x`, `lag3:x`"},
    {"outputs", NSI_KEY_TEXTS, offsetof(network_item, def.outputs), .single = true,
     .values = "list of quantities", .help = "names or globs"},
    {"mode", NSI_KEY_CHOICE, offsetof(network_item, def.mode), .choices = &ns_augments,
     .fallback = "add", .help = "what the network does to its outputs"},
    {"hidden", NSI_KEY_COUNTS, offsetof(network_item, def.hidden), .fallback = "(a linear map)",
     .help = "widths of hidden layers"},
    {"activation", NSI_KEY_CHOICE, offsetof(network_item, def.activation),
     .choices = &ns_activations, .fallback = "tanh", .help = "of hidden layers"},
    {"bias", NSI_KEY_OTHER, .read = read_bias, .values = "`true`, `false`", .fallback = "true",
     .help = ""},
    {"structure", NSI_KEY_OTHER, .read = read_structure,
     .values = "one or a list of `dissipative`, `conservative`, `odd`, `even`, `bounded`",
     .fallback = "(none)", .help = "what holds for any weights"},
    {"bound", NSI_KEY_NUMBER, offsetof(network_item, def.bound), .fallback = "1",
     .help = "of `bounded`: outputs stay within bound times output_scale"},
    {"conjugate", NSI_KEY_TEXTS, offsetof(network_item, conjugate), .single = true,
     .values = "list of quantities", .fallback = "(known for joints and links)",
     .help = "of `dissipative`: the velocity that belongs to each output"},
    {"input_shift", NSI_KEY_NUMBERS, offsetof(network_item, def.input_shift), .single = true,
     .filled = true, .values = "number, or one for each", .fallback = "0",
     .help = "a network sees (input - shift) / scale"},
    {"input_scale", NSI_KEY_NUMBERS, offsetof(network_item, def.input_scale), .single = true,
     .filled = true, .values = "number, or one for each", .fallback = "1", .help = ""},
    {"output_scale", NSI_KEY_NUMBERS, offsetof(network_item, def.output_scale), .single = true,
     .filled = true, .values = "number, or one for each", .fallback = "1",
     .help = "outputs are multiplied by it; of `dissipative` one number, the power scale"},
    {"conjugate_scale", NSI_KEY_NUMBERS, offsetof(network_item, def.conjugate_scale),
     .single = true, .filled = true, .values = "number, or one for each", .fallback = "1",
     .help = "of `dissipative`: scale of each velocity"},
    {"init", NSI_KEY_TABLE, 0, .table = &nsi_network_init_schema, .values = "`{scale, last, seed}`",
     .help = "initial weights"},
};
const nsi_schema nsi_network_schema = NSI_SCHEMA("a network", network_keys, check_network);

static ns_status read_formula_sharing(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    return read_sharing(r, node, &((formula_item*)out)->def.separate);
}

static ns_status read_coefficients(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    formula_item* item = out;
    if (map->type != NSI_YAML_MAP) {
        return nsi_yaml_fail(r->yaml, map, r->error,
                             "coefficients: write a mapping of names and numbers, {b: 0.1, c: 2}");
    }
    item->places = nsi_arena_alloc(r->arena, map->count * sizeof *item->places);
    ns_coefficient* list = nsi_arena_alloc(r->arena, map->count * sizeof *list);
    if (!item->places || !list) return nsi_fail_nomem(r->error);
    ns_status status = NS_OK;
    uint32_t count = 0;
    for (const nsi_yaml_node* c = map->first; c && status == NS_OK; c = c->next, count++) {
        item->places[count] = (nsi_place){c->key_line, c->key_column, NULL};
        list[count] = (ns_coefficient){.name = c->key};
        status = nsi_yaml_number(r->yaml, c, -INFINITY, INFINITY, &list[count].value, r->error);
    }
    item->def.coefficients = list;
    item->def.ncoefficient = count;
    return status;
}

static const nsi_schema_key formula_keys[] = {
    {"name", NSI_KEY_TEXT, offsetof(formula_item, def.name), .help = "as of networks"},
    {"each", NSI_KEY_TEXT, offsetof(formula_item, def.each), .values = "glob",
     .fallback = "(one formula)", .help = "as of networks"},
    {"weights", NSI_KEY_OTHER, .read = read_formula_sharing, .values = "`shared`, `separate`",
     .fallback = "shared", .help = "with `each`: coefficients of all matches, or of each"},
    {"output", NSI_KEY_TEXT, offsetof(formula_item, def.output), .values = "quantity",
     .help = "name, or glob that matches one"},
    {"mode", NSI_KEY_CHOICE, offsetof(formula_item, def.mode), .choices = &ns_augments,
     .fallback = "add", .help = "what the formula does to its output"},
    {"formula", NSI_KEY_TEXT, offsetof(formula_item, def.formula), .values = "formula",
     .help = "of quantities in double quotes and of coefficients"},
    {"coefficients", NSI_KEY_OTHER, .read = read_coefficients, .values = "`{NAME: number}`",
     .help = "numbers that are fitted as weights are"},
};
const nsi_schema nsi_formula_schema = NSI_SCHEMA("a formula", formula_keys, NULL);

static const nsi_schema_key blueprint_keys[] = {
    {"networks", NSI_KEY_OTHER, .values = "list", .help = "networks, below"},
    {"formulas", NSI_KEY_OTHER, .values = "list", .help = "formulas, below"},
};
const nsi_schema nsi_blueprint_schema = NSI_SCHEMA("a blueprint", blueprint_keys, NULL);

// ---- places ----------------------------------------------------------------------------------

// The name of a file that outlives the tree; NULL: the blueprint's own, or out of memory.
static const char* keep_file(blueprint_reader* r, const nsi_yaml_node* node) {
    const char* file = node->source->file;
    if (strcmp(file, r->blueprint->file) == 0) return NULL;
    return nsi_arena_string(&r->blueprint->arena, file, strlen(file));
}

static nsi_place node_place(const nsi_yaml_node* n, const char* file) {
    return (nsi_place){n->line, n->column, file};
}

// Places of the values of a mapping, and of the items of its lists.
static nsi_places find_places(blueprint_reader* r, const nsi_yaml_node* map) {
    const char* file = keep_file(r, map);
    nsi_places places = {.whole = node_place(map, file)};
    for (int i = 0; i < NSI_FIELD_COUNT && r->status == NS_OK; i++) {
        const nsi_yaml_node* n = nsi_yaml_find(map, nsi_field_name((nsi_field)i));
        if (!n || i == NSI_FIELD_INIT_SCALE || i == NSI_FIELD_INIT_LAST_SCALE ||
            i == NSI_FIELD_SEED) {
            continue;
        }
        places.field[i] = node_place(n, file);
        bool list = n->type == NSI_YAML_LIST, one = n->type == NSI_YAML_SCALAR;
        bool items = i == NSI_FIELD_INPUTS || i == NSI_FIELD_OUTPUTS || i == NSI_FIELD_CONJUGATE ||
                     i == NSI_FIELD_HIDDEN || i == NSI_FIELD_INPUT_SHIFT ||
                     i == NSI_FIELD_INPUT_SCALE || i == NSI_FIELD_OUTPUT_SCALE ||
                     i == NSI_FIELD_CONJUGATE_SCALE;
        if (!items || !(list || one)) continue;
        uint32_t count = list ? n->count : 1, k = 0;
        nsi_place* of = nsi_arena_alloc(&r->yaml.arena, ((size_t)count + 1) * sizeof *of);
        if (!of) r->status = nsi_fail_nomem(r->error);
        for (const nsi_yaml_node* item = list ? n->first : n; of && k < count; item = item->next) {
            of[k++] = node_place(item, file);
        }
        places.items[i] = of;
    }
    return places;
}

// Keys of `init` are fields of their own.
static void find_init_places(const nsi_yaml_node* init, nsi_places* places) {
    const char* file = places->whole.file;
    const nsi_yaml_node *scale = nsi_yaml_find(init, "scale"), *last = nsi_yaml_find(init, "last"),
                        *seed = nsi_yaml_find(init, "seed");
    if (scale) places->field[NSI_FIELD_INIT_SCALE] = node_place(scale, file);
    if (last) places->field[NSI_FIELD_INIT_LAST_SCALE] = node_place(last, file);
    if (seed) places->field[NSI_FIELD_SEED] = node_place(seed, file);
}

// ---- networks and formulas -------------------------------------------------------------------

static void read_network(blueprint_reader* r, const nsi_yaml_node* n) {
    network_item item = {.def = ns_default_network_def()};
    r->status = nsi_schema_read(&r->by_table, &nsi_network_schema, n, &item);
    if (r->status != NS_OK) return;
    nsi_places places = find_places(r, n);
    find_init_places(nsi_yaml_find(n, "init"), &places);
    if (r->status != NS_OK) return;
    r->status = nsi_blueprint_add_at(r->blueprint, &item.def, &places, r->error);
}

static void read_formula(blueprint_reader* r, const nsi_yaml_node* n) {
    formula_item item = {.def = ns_default_formula_def()};
    r->status = nsi_schema_read(&r->by_table, &nsi_formula_schema, n, &item);
    if (r->status != NS_OK) return;
    nsi_places places = find_places(r, n);
    const nsi_yaml_node* text = nsi_yaml_find(n, "formula");
    if (text) places.field[NSI_FIELD_FORMULA].column += !text->plain; // behind the quote
    for (uint32_t k = 0; k < item.def.ncoefficient; k++) item.places[k].file = places.whole.file;
    places.items[NSI_FIELD_COEFFICIENTS] = item.places;
    if (r->status != NS_OK) return;
    r->status = nsi_blueprint_add_formula_at(r->blueprint, &item.def, &places, r->error);
}

static void read_list_of(blueprint_reader* r, const char* key,
                         void (*read)(blueprint_reader* r, const nsi_yaml_node* n)) {
    const nsi_yaml_node* list = nsi_yaml_find(r->yaml.root, key);
    if (!list || r->status != NS_OK) return;
    r->status = nsi_yaml_check_list(&r->yaml, list, r->error);
    for (const nsi_yaml_node* n = list->first; n && r->status == NS_OK; n = n->next) read(r, n);
}

static void read_root(blueprint_reader* r) {
    const nsi_yaml_node* root = r->yaml.root;
    r->by_table = (nsi_schema_reader){.yaml = &r->yaml, .arena = &r->yaml.arena, .error = r->error};
    r->status = nsi_schema_read(&r->by_table, &nsi_blueprint_schema, root, NULL);
    if (r->status != NS_OK) return;
    if (!nsi_yaml_find(root, "networks") && !nsi_yaml_find(root, "formulas")) {
        r->status = nsi_yaml_fail(&r->yaml, NULL, r->error,
                                  "the keys networks and formulas are missing; give one of them");
        return;
    }
    read_list_of(r, "networks", read_network);
    read_list_of(r, "formulas", read_formula);
}

// ---- files -----------------------------------------------------------------------------------

// `text` NULL: read the file.
static ns_status load(const char* text, size_t size, const char* path,
                      const ns_allocator* allocator, ns_blueprint** out, ns_error* error) {
    blueprint_reader r = {.error = error};
    ns_status status = ns_blueprint_create(allocator, &r.blueprint, error);
    if (status != NS_OK) return status;
    const char* file = nsi_arena_string(&r.blueprint->arena, path, strlen(path));
    if (!file) {
        r.status = nsi_fail_nomem(error);
    } else if (text) {
        r.status = nsi_yaml_parse(text, size, file, allocator, &r.yaml, error);
    } else {
        r.status = nsi_yaml_read(file, allocator, &r.yaml, error);
    }
    r.blueprint->file = file;
    if (r.status == NS_OK) read_root(&r);
    nsi_yaml_free(&r.yaml);
    if (r.status == NS_OK) {
        *out = r.blueprint;
    } else {
        ns_blueprint_free(r.blueprint);
    }
    return r.status;
}

ns_status ns_blueprint_parse(const char* text, size_t size, const char* name,
                             const ns_allocator* allocator, ns_blueprint** out, ns_error* error) {
    if (out) *out = NULL;
    if (!text || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_blueprint_parse: text or out is NULL");
    }
    return load(text, size, name ? name : "blueprint", allocator, out, error);
}

ns_status ns_blueprint_load(const char* path, const ns_allocator* allocator, ns_blueprint** out,
                            ns_error* error) {
    if (out) *out = NULL;
    if (!path || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_blueprint_load: path or out is NULL");
    }
    return load(NULL, 0, path, allocator, out, error);
}
