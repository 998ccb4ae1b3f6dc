// Blueprints from YAML.

#include "io/yaml.h"
#include "nn/blueprint_data.h"

#include <math.h>

// The first failure sticks: what is read after it changes nothing.
typedef struct reader {
    nsi_yaml yaml; // its arena also holds what is read from it
    ns_blueprint* blueprint;
    ns_network_def def; // of the network at hand
    nsi_places places;  // of it, or of the formula at hand
    ns_error* error;
    ns_status status;
} reader;

static nsi_place node_place(const nsi_yaml_node* n) {
    return (nsi_place){n->line, n->column};
}

// A value stands for a list of one, where `single`; the first item and their number.
static const nsi_yaml_node* read_list(reader* r, const nsi_yaml_node* n, bool single,
                                      uint32_t* count) {
    *count = 1;
    if (single && n->type == NSI_YAML_SCALAR) return n;
    r->status = nsi_yaml_check_list(&r->yaml, n, r->error);
    *count = n->count;
    return n->first;
}

// All items of a list and their places, `size` bytes for each.
static const void* read_items(reader* r, const nsi_yaml_node* n, nsi_field field, size_t size,
                              uint32_t* count) {
    const nsi_yaml_node* item = read_list(r, n, field != NSI_FIELD_HIDDEN, count);
    if (r->status != NS_OK) return NULL;
    nsi_place* places = nsi_arena_alloc(&r->yaml.arena, *count * sizeof *places);
    char* items = nsi_arena_alloc(&r->yaml.arena, *count * size);
    if (!places || !items) r->status = nsi_fail_nomem(r->error);
    for (uint32_t i = 0; i < *count && r->status == NS_OK; i++, item = item->next) {
        void* out = items + i * size;
        places[i] = node_place(item);
        switch (field) {
        case NSI_FIELD_INPUTS:
        case NSI_FIELD_OUTPUTS:
        case NSI_FIELD_AGAINST:
            r->status = nsi_yaml_text(&r->yaml, item, (const char**)out, r->error);
            break;
        case NSI_FIELD_HIDDEN:
            r->status = nsi_yaml_count(&r->yaml, item, 0, UINT32_MAX, (uint32_t*)out, r->error);
            break;
        default:
            r->status =
                nsi_yaml_number(&r->yaml, item, -INFINITY, INFINITY, (double*)out, r->error);
            break;
        }
    }
    r->places.items[field] = places;
    return items;
}

static const double* read_numbers(reader* r, const nsi_yaml_node* n, nsi_field field,
                                  uint32_t* count) {
    const double* numbers = read_items(r, n, field, sizeof *numbers, count);
    if (r->status == NS_OK && *count == 0) {
        r->status =
            nsi_yaml_fail(&r->yaml, n, r->error,
                          "%s: the list is empty; give numbers, or leave the key out", n->key);
    }
    return numbers;
}

static int read_word(reader* r, const nsi_yaml_node* n, const ns_choices* choices) {
    int which = 0;
    r->status = nsi_yaml_choice(&r->yaml, n, choices, &which, r->error);
    return which;
}

static unsigned read_guarantee(reader* r, const nsi_yaml_node* n) {
    unsigned bits = 0;
    uint32_t count;
    const nsi_yaml_node* item = read_list(r, n, true, &count);
    for (uint32_t i = 0; i < count && r->status == NS_OK; i++, item = item->next) {
        bits |= (unsigned)read_word(r, item, &ns_guarantees);
    }
    return bits;
}

static void read_init(reader* r, const nsi_yaml_node* n) {
    const nsi_yaml_node *scale = nsi_yaml_find(n, "scale"), *last = nsi_yaml_find(n, "last");
    const nsi_yaml_node* seed = nsi_yaml_find(n, "seed");
    if (scale) r->places.field[NSI_FIELD_INIT_SCALE] = node_place(scale);
    if (last) r->places.field[NSI_FIELD_INIT_LAST_SCALE] = node_place(last);
    if (seed) r->places.field[NSI_FIELD_SEED] = node_place(seed);
    r->status = nsi_yaml_check_map(&r->yaml, n, "init", "scale last seed", r->error);
    if (r->status == NS_OK) {
        r->status =
            nsi_yaml_number(&r->yaml, scale, -INFINITY, INFINITY, &r->def.init_scale, r->error);
    }
    if (r->status == NS_OK) {
        r->status =
            nsi_yaml_number(&r->yaml, last, -INFINITY, INFINITY, &r->def.init_last_scale, r->error);
    }
    if (r->status == NS_OK) {
        r->status = nsi_yaml_whole(&r->yaml, seed, 0, UINT64_MAX, &r->def.seed, r->error);
    }
}

static void read_field(reader* r, const nsi_yaml_node* n, nsi_field field, uint32_t* nagainst) {
    const nsi_yaml* yaml = &r->yaml;
    ns_network_def* def = &r->def;
    bool bias = true;
    r->places.field[field] = node_place(n);
    switch (field) {
    case NSI_FIELD_NAME: r->status = nsi_yaml_text(yaml, n, &def->name, r->error); break;
    case NSI_FIELD_EACH: r->status = nsi_yaml_text(yaml, n, &def->each, r->error); break;
    case NSI_FIELD_WEIGHTS: def->separate = read_word(r, n, &nsi_sharings) == NSI_SEPARATE; break;
    case NSI_FIELD_INPUTS:
        def->inputs = read_items(r, n, field, sizeof *def->inputs, &def->ninput);
        break;
    case NSI_FIELD_OUTPUTS:
        def->outputs = read_items(r, n, field, sizeof *def->outputs, &def->noutput);
        break;
    case NSI_FIELD_MODE: def->mode = (ns_augment)read_word(r, n, &ns_augments); break;
    case NSI_FIELD_HIDDEN:
        def->hidden = read_items(r, n, field, sizeof *def->hidden, &def->nhidden);
        break;
    case NSI_FIELD_ACTIVATION:
        def->activation = (ns_activation)read_word(r, n, &ns_activations);
        break;
    case NSI_FIELD_BIAS:
        r->status = nsi_yaml_flag(yaml, n, &bias, r->error);
        def->no_bias = !bias;
        break;
    case NSI_FIELD_GUARANTEE: def->guarantee = read_guarantee(r, n); break;
    case NSI_FIELD_BOUND:
        r->status = nsi_yaml_number(yaml, n, -INFINITY, INFINITY, &def->bound, r->error);
        break;
    case NSI_FIELD_AGAINST:
        def->against = read_items(r, n, field, sizeof *def->against, nagainst);
        break;
    case NSI_FIELD_INPUT_SHIFT:
        def->input_shift = read_numbers(r, n, field, &def->ninput_shift);
        break;
    case NSI_FIELD_INPUT_SCALE:
        def->input_scale = read_numbers(r, n, field, &def->ninput_scale);
        break;
    case NSI_FIELD_OUTPUT_SCALE:
        def->output_scale = read_numbers(r, n, field, &def->noutput_scale);
        break;
    default: def->against_scale = read_numbers(r, n, field, &def->nagainst_scale); break;
    }
}

static void read_network(reader* r, const nsi_yaml_node* n) {
    r->def = ns_default_network_def();
    r->places = (nsi_places){.whole = node_place(n)};
    r->status = nsi_yaml_check_map(&r->yaml, n, "a network",
                                   "name each weights inputs outputs mode hidden activation bias"
                                   " guarantee bound against input_shift input_scale output_scale"
                                   " against_scale init",
                                   r->error);
    uint32_t nagainst = 0;
    for (int i = 0; i < NSI_FIELD_INIT_SCALE && r->status == NS_OK; i++) {
        const nsi_yaml_node* value = nsi_yaml_find(n, nsi_field_name((nsi_field)i));
        if (value) read_field(r, value, (nsi_field)i, &nagainst);
    }
    if (r->status == NS_OK) read_init(r, nsi_yaml_find(n, "init"));
    if (r->status != NS_OK) return;

    // What a definition cannot tell: how long this list is, and that this was given at all.
    const ns_network_def* def = &r->def;
    const nsi_yaml_node* bound = nsi_yaml_find(n, "bound");
    if (def->against && nagainst != def->noutput) {
        r->status = nsi_yaml_fail(
            &r->yaml, nsi_yaml_find(n, "against"), r->error,
            "against: %u name%s for %u output%s; give one for each, in their order", nagainst,
            nagainst == 1 ? "" : "s", def->noutput, def->noutput == 1 ? "" : "s");
    } else if (bound && !(def->guarantee & NS_GUARANTEE_BOUNDED)) {
        r->status =
            nsi_yaml_fail(&r->yaml, bound, r->error,
                          "bound: this is for the guarantee bounded only; add that, or leave"
                          " this out");
    } else {
        r->status = nsi_blueprint_add_at(r->blueprint, def, &r->places, r->error);
    }
}

// ---- formulas --------------------------------------------------------------------------------

static void read_coefficients(reader* r, const nsi_yaml_node* n, ns_formula_def* def) {
    if (n->type != NSI_YAML_MAP) {
        r->status = nsi_yaml_fail(&r->yaml, n, r->error,
                                  "coefficients: write a mapping of names and numbers,"
                                  " {b: 0.1, c: 2}");
        return;
    }
    nsi_place* places = nsi_arena_alloc(&r->yaml.arena, n->count * sizeof *places);
    ns_coefficient* list = nsi_arena_alloc(&r->yaml.arena, n->count * sizeof *list);
    if (!places || !list) {
        r->status = nsi_fail_nomem(r->error);
        return;
    }
    uint32_t count = 0;
    for (const nsi_yaml_node* c = n->first; c && r->status == NS_OK; c = c->next, count++) {
        places[count] = (nsi_place){c->key_line, c->key_column};
        list[count] = (ns_coefficient){.name = c->key};
        r->status = nsi_yaml_number(&r->yaml, c, -INFINITY, INFINITY, &list[count].value, r->error);
    }
    r->places.items[NSI_FIELD_COEFFICIENTS] = places;
    def->coefficients = list;
    def->ncoefficient = count;
}

static void read_formula_field(reader* r, const nsi_yaml_node* n, nsi_field field,
                               ns_formula_def* def) {
    r->places.field[field] = node_place(n);
    switch (field) {
    case NSI_FIELD_NAME: r->status = nsi_yaml_text(&r->yaml, n, &def->name, r->error); break;
    case NSI_FIELD_EACH: r->status = nsi_yaml_text(&r->yaml, n, &def->each, r->error); break;
    case NSI_FIELD_WEIGHTS: def->separate = read_word(r, n, &nsi_sharings) == NSI_SEPARATE; break;
    case NSI_FIELD_OUTPUT: r->status = nsi_yaml_text(&r->yaml, n, &def->output, r->error); break;
    case NSI_FIELD_MODE: def->mode = (ns_augment)read_word(r, n, &ns_augments); break;
    case NSI_FIELD_FORMULA:
        r->status = nsi_yaml_text(&r->yaml, n, &def->formula, r->error);
        r->places.field[field].column += !n->plain; // the text begins behind the quote
        break;
    default: read_coefficients(r, n, def); break;
    }
}

static void read_formula(reader* r, const nsi_yaml_node* n) {
    static const nsi_field fields[] = {NSI_FIELD_NAME,        NSI_FIELD_EACH, NSI_FIELD_WEIGHTS,
                                       NSI_FIELD_OUTPUT,      NSI_FIELD_MODE, NSI_FIELD_FORMULA,
                                       NSI_FIELD_COEFFICIENTS};
    ns_formula_def def = ns_default_formula_def();
    r->places = (nsi_places){.whole = node_place(n)};
    r->status = nsi_yaml_check_map(&r->yaml, n, "a formula",
                                   "name each weights output mode formula coefficients", r->error);
    for (size_t i = 0; i < sizeof fields / sizeof *fields && r->status == NS_OK; i++) {
        const nsi_yaml_node* value = nsi_yaml_find(n, nsi_field_name(fields[i]));
        if (value) read_formula_field(r, value, fields[i], &def);
    }
    if (r->status == NS_OK) {
        r->status = nsi_blueprint_add_formula_at(r->blueprint, &def, &r->places, r->error);
    }
}

static void read_list_of(reader* r, const char* key,
                         void (*read)(reader* r, const nsi_yaml_node* n)) {
    const nsi_yaml_node* list = nsi_yaml_find(r->yaml.root, key);
    if (!list || r->status != NS_OK) return;
    r->status = nsi_yaml_check_list(&r->yaml, list, r->error);
    for (const nsi_yaml_node* n = list->first; n && r->status == NS_OK; n = n->next) read(r, n);
}

static void read_root(reader* r) {
    const nsi_yaml_node* root = r->yaml.root;
    r->status = nsi_yaml_check_map(&r->yaml, root, "a blueprint", "networks formulas", r->error);
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
    reader r = {.error = error};
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
