// Blueprints made by calls: what a network may say is checked here, whether its names exist is not.

#include "nn/blueprint_data.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const ns_choice augment_rows[] = {NS_AUGMENT_MAP(NS_CHOICE_ROW)};
static const ns_choice structure_rows[] = {NS_STRUCTURE_MAP(NS_CHOICE_BIT_ROW)};
const ns_choices ns_augments = NS_CHOICES("mode", augment_rows);
const ns_choices ns_structures = NS_CHOICES("structure", structure_rows);

static const ns_choice sharing_rows[] = {NSI_SHARING_MAP(NS_CHOICE_ROW)};
const ns_choices nsi_sharings = NS_CHOICES("sharing of weights", sharing_rows);

ns_network_def ns_default_network_def(void) {
    return (ns_network_def){
        .mode = NS_AUGMENT_ADD,
        .activation = NS_TANH,
        .bound = 1.0,
        .init_scale = 1.0,
        .init_last_scale = 0.1,
        .seed = 1,
    };
}

const char* nsi_field_name(nsi_field field) {
    static const char* const names[NSI_FIELD_COUNT] = {
#define NAME(name, text) text,
        NSI_FIELD_MAP(NAME)
#undef NAME
    };
    return (unsigned)field < NSI_FIELD_COUNT ? names[field] : "";
}

nsi_place nsi_places_find(const nsi_places* places, nsi_field field, uint32_t item) {
    if (field == NSI_FIELD_FORMULA && places->field[field].line > 0) {
        nsi_place at = places->field[field];
        if (item != NSI_NONE) at.column += item;
        return at;
    }
    if (field != NSI_FIELD_COUNT) {
        if (places->items[field] && item != NSI_NONE) return places->items[field][item];
        if (places->field[field].line > 0) return places->field[field];
    }
    return places->whole;
}

// ---- life ------------------------------------------------------------------------------------

ns_status ns_blueprint_create(const ns_allocator* allocator, ns_blueprint** out, ns_error* error) {
    if (!out) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_blueprint_create: out is NULL");
    *out = NULL;
    ns_allocator own = allocator ? *allocator : ns_default_allocator();
    ns_blueprint* blueprint = nsi_alloc_zeroed(&own, sizeof *blueprint);
    if (!blueprint) return nsi_fail_nomem(error);
    blueprint->allocator = blueprint->arena.allocator = blueprint->tensor_arena.allocator = own;
    *out = blueprint;
    return NS_OK;
}

static void free_tensors(ns_blueprint* blueprint) {
    nsi_array_free(&blueprint->allocator, &blueprint->tensors);
    nsi_index_free(&blueprint->allocator, &blueprint->tensor_names);
    nsi_arena_free(&blueprint->tensor_arena);
    blueprint->tensor_numbers = 0;
    blueprint->weights_file = NULL;
}

void ns_blueprint_free(ns_blueprint* blueprint) {
    if (!blueprint) return;
    ns_allocator allocator = blueprint->allocator;
    free_tensors(blueprint);
    nsi_array_free(&allocator, &blueprint->networks);
    for (uint32_t i = 0; i < blueprint->formulas.count; i++) {
        ns_formula_free(blueprint->formulas.data[i].formula);
    }
    nsi_array_free(&allocator, &blueprint->formulas);
    nsi_arena_free(&blueprint->arena);
    nsi_free(&allocator, blueprint);
}

uint32_t ns_blueprint_network_count(const ns_blueprint* blueprint) {
    return blueprint ? blueprint->networks.count : 0;
}

const ns_network_def* ns_blueprint_network(const ns_blueprint* blueprint, uint32_t number) {
    if (!blueprint || number >= blueprint->networks.count) return NULL;
    return &blueprint->networks.data[number].def;
}

// ---- checks ----------------------------------------------------------------------------------
// Each returns false, with the fault filled in, when something is wrong.

bool nsi_fault_at(nsi_fault* fault, ns_status status, nsi_field field, uint32_t item,
                  const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->what, sizeof fault->what, format, arguments);
    va_end(arguments);
    fault->status = status;
    fault->field = field;
    fault->item = item;
    return false;
}

static bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

bool nsi_check_name(const ns_blueprint* blueprint, const char* kind, const char* name,
                    nsi_fault* fault) {
    // Missing and empty names have different causes: API and file.
    if (!name) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_NAME, NSI_NONE,
                            "there is none; every %s needs one", kind);
    }
    if (name[0] == '\0') {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_NAME, NSI_NONE,
                            "it is empty; every %s needs one", kind);
    }
    // Limits keep names within messages and paths.
    if (strlen(name) > NSI_BLUEPRINT_MAX_NAME) {
        return nsi_fault_at(fault, NS_ERR_LIMIT, NSI_FIELD_NAME, NSI_NONE,
                            "it has more than %d bytes; shorten it", NSI_BLUEPRINT_MAX_NAME);
    }

    // Names are parts of paths: no slash, no wildcard.
    for (const char* at = name; *at; at++) {
        if (is_name_character(*at)) continue;
        // Report the position rather than the byte, which may be unprintable.
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_NAME, NSI_NONE,
                            "byte %d is none of letters, digits, '_', '-' and '.'; rename it",
                            (int)(at - name) + 1);
    }

    // Networks and formulas share one name space, because weight files refer to both.
    for (uint32_t i = 0; i < blueprint->networks.count; i++) {
        if (strcmp(blueprint->networks.data[i].def.name, name) != 0) continue;
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_NAME, NSI_NONE,
                            "network %u has it too; rename one", i + 1);
    }
    for (uint32_t i = 0; i < blueprint->formulas.count; i++) {
        if (strcmp(blueprint->formulas.data[i].def.name, name) != 0) continue;
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_NAME, NSI_NONE,
                            "formula %u has it too; rename one", i + 1);
    }
    return true;
}

// A quantity, or a glob of them.
bool nsi_check_text(const char* text, bool each, nsi_field field, uint32_t item, nsi_fault* fault) {
    if (!text || text[0] == '\0') {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, field, item, "a name is %s; write a quantity",
                            text ? "empty" : "NULL");
    }
    if (strlen(text) > NSI_BLUEPRINT_MAX_TEXT) {
        return nsi_fault_at(fault, NS_ERR_LIMIT, field, item, "\"%.40s...\" has more than %d bytes",
                            text, NSI_BLUEPRINT_MAX_TEXT);
    }
    for (const char* at = text; *at; at++) {
        if ((unsigned char)*at >= 0x20 && *at != 0x7F) continue;
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, field, item,
                            "byte %d of a name is a control character; remove it",
                            (int)(at - text) + 1);
    }
    if (!each && strstr(text, "{}")) {
        return nsi_fault_at(
            fault, NS_ERR_ARGUMENT, field, item,
            "\"%.100s\" has a {}, which stands for a match of `each`, and there is no"
            " `each`; add one or write the name",
            text);
    }
    return true;
}

const char* nsi_input_lags(const char* input, uint32_t* first, uint32_t* last) {
    *first = *last = 0;
    const char* rest = input;
    if (strncmp(input, "prev:", 5) == 0) {
        *first = *last = 1;
        rest = input + 5;
    } else if (strncmp(input, "lag", 3) == 0) {
        const char* at = input + 3;
        uint32_t lag = 0;
        for (; *at >= '0' && *at <= '9'; at++) {
            if (lag <= NSI_BLUEPRINT_MAX_LAG) lag = 10 * lag + (uint32_t)(*at - '0');
        }
        if (*at != ':') return input; // a name that starts like this
        if (lag < 1 || lag > NSI_BLUEPRINT_MAX_LAG) return NULL;
        *first = 1;
        *last = lag;
        rest = at + 1;
    }
    if (rest == input) return rest;
    // What follows must be a name without a lag of its own.
    uint32_t inner_first, inner_last;
    const char* inner = nsi_input_lags(rest, &inner_first, &inner_last);
    return inner == rest && rest[0] != '\0' ? rest : NULL;
}

static bool check_quantity_list(const char* const* list, uint32_t count, const ns_network_def* def,
                                nsi_field field, nsi_fault* fault) {
    // An empty list is a network without effect.
    if (count == 0) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, field, NSI_NONE,
                            "the list is empty; give at least one quantity");
    }
    // Limits keep sizes within 32 bits.
    if (count > NSI_BLUEPRINT_MAX_WIDTH) {
        return nsi_fault_at(fault, NS_ERR_LIMIT, field, NSI_NONE, "%u of them; at most %d", count,
                            NSI_BLUEPRINT_MAX_WIDTH);
    }

    if (!list) return nsi_fault_at(fault, NS_ERR_ARGUMENT, field, NSI_NONE, "the list is NULL");

    // Each entry is a quantity; inputs may also be past values.
    for (uint32_t i = 0; i < count; i++) {
        // A placeholder {} needs `each`.
        if (!nsi_check_text(list[i], def->each != NULL, field, i, fault)) return false;

        // Prefixes prev: and lag<k>: select past values.
        uint32_t first, last;
        const char* rest = nsi_input_lags(list[i], &first, &last);
        if (!rest) {
            return nsi_fault_at(
                fault, NS_ERR_ARGUMENT, field, i,
                "\"%.100s\" is no earlier value; write prev:<name>, or lag<k>:<name>"
                " with k from 1 to %d",
                list[i], NSI_BLUEPRINT_MAX_LAG);
        }

        // Outputs belong to the current step.
        if (last > 0 && field != NSI_FIELD_INPUTS) {
            return nsi_fault_at(fault, NS_ERR_ARGUMENT, field, i,
                                "\"%.100s\": prev: and lag<k>: are for inputs only", list[i]);
        }
    }
    return true;
}

bool nsi_check_mode(ns_augment mode, nsi_fault* fault) {
    if (ns_choice_has(&ns_augments, (int)mode)) return true;
    return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_MODE, NSI_NONE, "%d is no mode",
                        (int)mode);
}

static bool check_network_layers(const ns_network_def* def, nsi_fault* fault) {
    if (def->nhidden > NSI_BLUEPRINT_MAX_HIDDEN) {
        return nsi_fault_at(fault, NS_ERR_LIMIT, NSI_FIELD_HIDDEN, NSI_NONE,
                            "%u layers; at most %d", def->nhidden, NSI_BLUEPRINT_MAX_HIDDEN);
    }
    if (def->nhidden > 0 && !def->hidden) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_HIDDEN, NSI_NONE, "the list is NULL");
    }
    for (uint32_t i = 0; i < def->nhidden; i++) {
        if (def->hidden[i] >= 1 && def->hidden[i] <= NSI_BLUEPRINT_MAX_WIDTH) continue;
        return nsi_fault_at(fault, def->hidden[i] < 1 ? NS_ERR_ARGUMENT : NS_ERR_LIMIT,
                            NSI_FIELD_HIDDEN, i, "a layer is %u wide; 1 to %d are possible",
                            def->hidden[i], NSI_BLUEPRINT_MAX_WIDTH);
    }
    if ((unsigned)def->activation >= NS_ACTIVATION_COUNT) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_ACTIVATION, NSI_NONE,
                            "%d is no activation", (int)def->activation);
    }
    return nsi_check_mode(def->mode, fault);
}

static bool check_structure(const ns_network_def* def, nsi_fault* fault) {
    // Pairs that exclude each other.
    static const struct {
        ns_structure a, b;
    } exclusive[] = {
        {NS_STRUCTURE_ODD, NS_STRUCTURE_EVEN},
        {NS_STRUCTURE_BOUNDED, NS_STRUCTURE_DISSIPATIVE},
        {NS_STRUCTURE_BOUNDED, NS_STRUCTURE_CONSERVATIVE},
        {NS_STRUCTURE_CONSERVATIVE, NS_STRUCTURE_DISSIPATIVE},
    };

    // Unknown bits come from a newer header or an uninitialised field.
    unsigned g = def->structure, all = 0;
    for (uint32_t i = 0; i < ns_structures.count; i++) {
        all |= (unsigned)ns_structures.items[i].value;
    }
    if ((g & ~all) != 0) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_STRUCTURE, NSI_NONE,
                            "0x%x has bits that are no structure", g);
    }

    // Contradictory structures.
    for (size_t i = 0; i < sizeof exclusive / sizeof *exclusive; i++) {
        unsigned both = exclusive[i].a | exclusive[i].b;
        if ((g & both) != both) continue;
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_STRUCTURE, NSI_NONE,
                            "%s and %s do not go together; choose one",
                            ns_choice_name(&ns_structures, (int)exclusive[i].a),
                            ns_choice_name(&ns_structures, (int)exclusive[i].b));
    }

    // Dissipation and conservation hold for the combined power of all outputs.
    bool dissipative = (g & NS_STRUCTURE_DISSIPATIVE) != 0;
    bool conservative = (g & NS_STRUCTURE_CONSERVATIVE) != 0;
    const char* exact = ns_choice_name(&ns_structures, dissipative ? NS_STRUCTURE_DISSIPATIVE
                                                                   : NS_STRUCTURE_CONSERVATIVE);
    // A factor on a force keeps no sign or potential.
    if ((dissipative || conservative) && def->mode == NS_AUGMENT_SCALE) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_MODE, NSI_NONE,
                            "scale does not go with the structure %s; choose add or replace",
                            exact);
    }

    // A scale per output would break both: there is one power and one potential.
    if ((dissipative || conservative) && def->noutput_scale > 1) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, NSI_FIELD_OUTPUT_SCALE, NSI_NONE,
                            "%u numbers; the structure %s needs one for all outputs",
                            def->noutput_scale, exact);
    }

    // Conjugate velocities matter only for dissipation.
    if (!dissipative && (def->conjugate || def->nconjugate_scale > 0)) {
        return nsi_fault_at(
            fault, NS_ERR_ARGUMENT,
            def->conjugate ? NSI_FIELD_CONJUGATE : NSI_FIELD_CONJUGATE_SCALE, NSI_NONE,
            "this is for the structure dissipative only; add that, or leave this out");
    }
    return true;
}

static bool check_network_numbers(const double* list, uint32_t count, bool positive,
                                  nsi_field field, nsi_fault* fault) {
    if (count > NSI_BLUEPRINT_MAX_WIDTH) {
        return nsi_fault_at(fault, NS_ERR_LIMIT, field, NSI_NONE, "%u of them; at most %d", count,
                            NSI_BLUEPRINT_MAX_WIDTH);
    }
    if (count > 0 && !list) {
        return nsi_fault_at(fault, NS_ERR_ARGUMENT, field, NSI_NONE, "the list is NULL");
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!isfinite(list[i])) {
            return nsi_fault_at(fault, NS_ERR_ARGUMENT, field, i, "number %u is not finite", i + 1);
        }
        if (positive && !(list[i] > 0.0)) {
            return nsi_fault_at(fault, NS_ERR_ARGUMENT, field, i, "number %u is not greater than 0",
                                i + 1);
        }
    }
    return true;
}

static bool check_network_number(double value, bool zero, nsi_field field, nsi_fault* fault) {
    if (isfinite(value) && (zero ? value >= 0.0 : value > 0.0)) return true;
    return nsi_fault_at(fault, NS_ERR_ARGUMENT, field, NSI_NONE, "it must be finite and %s 0",
                        zero ? "at least" : "greater than");
}

static bool check_network_def(const ns_blueprint* blueprint, const ns_network_def* def,
                              nsi_fault* fault) {
    if (blueprint->networks.count == NSI_BLUEPRINT_MAX_NETWORKS) {
        return nsi_fault_at(fault, NS_ERR_LIMIT, NSI_FIELD_COUNT, NSI_NONE,
                            "a blueprint has at most %d networks", NSI_BLUEPRINT_MAX_NETWORKS);
    }
    bool dissipative = (def->structure & NS_STRUCTURE_DISSIPATIVE) != 0;
    return nsi_check_name(blueprint, "network", def->name, fault) &&
           (!def->each || nsi_check_text(def->each, true, NSI_FIELD_EACH, NSI_NONE, fault)) &&
           check_quantity_list(def->inputs, def->ninput, def, NSI_FIELD_INPUTS, fault) &&
           check_quantity_list(def->outputs, def->noutput, def, NSI_FIELD_OUTPUTS, fault) &&
           check_network_layers(def, fault) && check_structure(def, fault) &&
           (!def->conjugate ||
            check_quantity_list(def->conjugate, def->noutput, def, NSI_FIELD_CONJUGATE, fault)) &&
           check_network_number(def->bound, false, NSI_FIELD_BOUND, fault) &&
           check_network_numbers(def->input_shift, def->ninput_shift, false, NSI_FIELD_INPUT_SHIFT,
                                 fault) &&
           check_network_numbers(def->input_scale, def->ninput_scale, true, NSI_FIELD_INPUT_SCALE,
                                 fault) &&
           check_network_numbers(def->output_scale, def->noutput_scale, dissipative,
                                 NSI_FIELD_OUTPUT_SCALE, fault) &&
           check_network_numbers(def->conjugate_scale, def->nconjugate_scale, true,
                                 NSI_FIELD_CONJUGATE_SCALE, fault) &&
           check_network_number(def->init_scale, true, NSI_FIELD_INIT_SCALE, fault) &&
           check_network_number(def->init_last_scale, true, NSI_FIELD_INIT_LAST_SCALE, fault);
}

// ---- copies ----------------------------------------------------------------------------------
// Each returns false when out of memory.

static bool copy_bytes(nsi_arena* arena, const void* from, size_t size, const void** out) {
    *out = NULL;
    if (size == 0) return true;
    void* copy = nsi_arena_alloc(arena, size);
    if (!copy) return false;
    memcpy(copy, from, size);
    *out = copy;
    return true;
}

static bool copy_network_text(nsi_arena* arena, const char** text) {
    if (!*text) return true;
    *text = nsi_arena_string(arena, *text, strlen(*text));
    return *text != NULL;
}

static bool copy_list(nsi_arena* arena, const char* const** list, uint32_t count) {
    if (!*list) return true;
    const char** copy = nsi_arena_alloc(arena, count * sizeof *copy);
    if (!copy) return false;
    for (uint32_t i = 0; i < count; i++) {
        copy[i] = (*list)[i];
        if (!copy_network_text(arena, &copy[i])) return false;
    }
    *list = copy;
    return true;
}

static bool copy_numbers(nsi_arena* arena, const double** list, uint32_t count) {
    const void* copy;
    if (!copy_bytes(arena, *list, count * sizeof **list, &copy)) return false;
    *list = copy;
    return true;
}

static bool copy_network_def(nsi_arena* arena, ns_network_def* def) {
    const void* hidden;
    if (!copy_bytes(arena, def->hidden, def->nhidden * sizeof *def->hidden, &hidden)) return false;
    def->hidden = hidden;
    return copy_network_text(arena, &def->name) && copy_network_text(arena, &def->each) &&
           copy_list(arena, &def->inputs, def->ninput) &&
           copy_list(arena, &def->outputs, def->noutput) &&
           copy_list(arena, &def->conjugate, def->noutput) &&
           copy_numbers(arena, &def->input_shift, def->ninput_shift) &&
           copy_numbers(arena, &def->input_scale, def->ninput_scale) &&
           copy_numbers(arena, &def->output_scale, def->noutput_scale) &&
           copy_numbers(arena, &def->conjugate_scale, def->nconjugate_scale);
}

// Only the lists of names are asked for after a network was added.
static bool copy_places(nsi_arena* arena, const ns_network_def* def, nsi_places* places) {
    const nsi_place* given[NSI_FIELD_COUNT];
    memcpy(given, places->items, sizeof given);
    memset(places->items, 0, sizeof places->items);
    static const nsi_field lists[] = {NSI_FIELD_INPUTS, NSI_FIELD_OUTPUTS, NSI_FIELD_CONJUGATE};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        uint32_t count = lists[i] == NSI_FIELD_INPUTS ? def->ninput : def->noutput;
        const void* copy = NULL;
        if (given[lists[i]] &&
            !copy_bytes(arena, given[lists[i]], count * sizeof(nsi_place), &copy)) {
            return false;
        }
        places->items[lists[i]] = copy;
    }
    return true;
}

// ---- adding ----------------------------------------------------------------------------------

ns_status nsi_fault_tell(const nsi_fault* fault, const ns_blueprint* blueprint, const char* kind,
                         const char* name, uint32_t number, const nsi_places* places,
                         ns_error* error) {
    char who[64];
    bool whole = fault->field == NSI_FIELD_COUNT;
    if (fault->field != NSI_FIELD_NAME && name && !whole) {
        snprintf(who, sizeof who, "%s \"%.40s\"", kind, name);
    } else {
        snprintf(who, sizeof who, "%s %u", kind, number + 1);
    }
    char item[24] = "";
    if (fault->item != NSI_NONE) {
        bool byte = fault->field == NSI_FIELD_FORMULA;
        snprintf(item, sizeof item, byte ? ", byte %u" : "[%u]", fault->item + byte);
    }
    const char* field = nsi_field_name(fault->field);
    const char* colon = whole ? "" : ": ";
    if (!places) {
        return nsi_fail(error, fault->status, "%s: %s%s%s%s", who, field, item, colon, fault->what);
    }
    nsi_place at = nsi_places_find(places, fault->field, fault->item);
    return nsi_fail(error, fault->status == NS_ERR_ARGUMENT ? NS_ERR_PARSE : fault->status,
                    "%.150s:%u:%u: %s: %s%s%s", at.file ? at.file : blueprint->file, at.line,
                    at.column, who, field, colon, fault->what);
}

static ns_status enter_network(ns_blueprint* blueprint, const ns_network_def* network,
                               const nsi_places* places, ns_error* error) {
    nsi_fault fault;
    if (!check_network_def(blueprint, network, &fault)) {
        return nsi_fault_tell(&fault, blueprint, "network", network->name,
                              blueprint->networks.count, places, error);
    }
    nsi_blueprint_network entry = {.def = *network};
    if (places) entry.places = *places;
    if (!copy_network_def(&blueprint->arena, &entry.def) ||
        !copy_places(&blueprint->arena, &entry.def, &entry.places) ||
        !nsi_array_push(&blueprint->allocator, &blueprint->networks, entry)) {
        return nsi_fail_nomem(error);
    }
    return NS_OK;
}

ns_status ns_blueprint_add(ns_blueprint* blueprint, const ns_network_def* network,
                           ns_error* error) {
    if (!blueprint || !network) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_blueprint_add: blueprint or network is NULL");
    }
    return enter_network(blueprint, network, NULL, error);
}

ns_status nsi_blueprint_add_at(ns_blueprint* blueprint, const ns_network_def* network,
                               const nsi_places* places, ns_error* error) {
    return enter_network(blueprint, network, places, error);
}

// ---- loaded weights --------------------------------------------------------------------------

void nsi_blueprint_clear_tensors(ns_blueprint* blueprint) {
    free_tensors(blueprint);
    blueprint->has_weights = true;
}

static uint32_t find_tensor_number(const ns_blueprint* blueprint, const char* name) {
    const nsi_index* index = &blueprint->tensor_names;
    uint32_t hash = nsi_hash_bytes(name, strlen(name));
    for (uint32_t at = nsi_index_first(index, hash), id; nsi_index_at(index, at, &id);
         at = nsi_index_next(index, at)) {
        if (strcmp(blueprint->tensors.data[id].name, name) == 0) return id;
    }
    return NSI_NONE;
}

const nsi_blueprint_tensor* nsi_blueprint_find_tensor(const ns_blueprint* blueprint,
                                                      const char* name) {
    uint32_t number = find_tensor_number(blueprint, name);
    return number == NSI_NONE ? NULL : &blueprint->tensors.data[number];
}

ns_status nsi_blueprint_add_tensor(ns_blueprint* blueprint, const char* name, uint32_t rows,
                                   uint32_t columns, const double* data, ns_error* error) {
    // Tensors are found by name when weights are assigned.
    if (name[0] == '\0') return nsi_fail(error, NS_ERR_ARGUMENT, "a tensor has no name");
    if (find_tensor_number(blueprint, name) != NSI_NONE) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "two tensors are called \"%.200s\"", name);
    }

    // Bound the total number of weights.
    uint64_t count = (uint64_t)rows * columns;
    if (count > NSI_BLUEPRINT_MAX_WEIGHTS - blueprint->tensor_numbers) {
        return nsi_fail(error, NS_ERR_LIMIT,
                        "with tensor \"%.200s\" (%u x %u) there are more than %d weights", name,
                        rows, columns, NSI_BLUEPRINT_MAX_WEIGHTS);
    }

    // Weights must be finite.
    for (uint64_t i = 0; i < count; i++) {
        if (isfinite(data[i])) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "tensor \"%.200s\": the number in row %llu, column %llu is not finite",
                        name, (unsigned long long)(i / columns), (unsigned long long)(i % columns));
    }

    // Copy name and numbers: the caller's memory may be freed afterwards.
    const void* copy;
    nsi_blueprint_tensor tensor = {.name = name, .rows = rows, .columns = columns};
    if (!copy_bytes(&blueprint->tensor_arena, data, (size_t)count * sizeof *data, &copy) ||
        !copy_network_text(&blueprint->tensor_arena, &tensor.name)) {
        return nsi_fail_nomem(error);
    }
    tensor.data = copy;

    uint32_t number = blueprint->tensors.count;

    // Reserve the array first: an index entry without its item must not exist.
    if (!nsi_array_reserve(&blueprint->allocator, &blueprint->tensors, 1) ||
        !nsi_index_insert(&blueprint->allocator, &blueprint->tensor_names,
                          nsi_hash_bytes(name, strlen(name)), number)) {
        return nsi_fail_nomem(error);
    }

    // Nothing can fail from here on.
    blueprint->tensors.data[blueprint->tensors.count++] = tensor;
    blueprint->tensor_numbers += count;
    blueprint->has_weights = true;
    return NS_OK;
}
