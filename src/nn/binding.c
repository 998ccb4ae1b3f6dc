// Networks and formulas laid onto the names of one model:
//
//     each             -> matches, prefixes of names
//     "{}/force/x"     -> "link/a/force/x" -> numbers of names, one or, for a glob, several
//     prev: and lag<k>:-> lags
//
// Everything works on numbers of names, whose order is that of computation. A name without globs
// costs one look into a hash index, a glob only the names that begin like it.

#include "nn/binding.h"

#include "neuralsim/model.h"
#include "nn/blueprint_data.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MAX_EXPANDED = 4096,                // bytes of a name after {}, and its NUL
    MAX_INPUTS = 1 << 20,               // of all instances
    MAX_LAST_WIDTH = 16383,             // of a dense layer
    NEAREST_SIZE = NS_NEAREST_MAX * 110 // bytes for names in a message
};

// Where a name is an output.
typedef struct binding_output {
    const char* name;
    uint32_t use, output;
} binding_output;

// A binding and what it is made of.
typedef struct storage {
    nsi_binding binding;
    nsi_arena arena;
    NSI_ARRAY(binding_output) outputs;
    nsi_index output_names;
} storage;

typedef struct sorted_name {
    const char* name;
    uint32_t number;
} sorted_name;

// The first `size` bytes of a name, before a '/'.
typedef struct prefix {
    const char* name;
    uint32_t size;
} prefix;

typedef struct lagged {
    uint32_t name, lag;
} lagged;

typedef NSI_ARRAY(uint32_t) numbers;

typedef struct binder {
    const ns_blueprint* blueprint;
    const char* const* names;
    const uint8_t* affects_state;
    const char* const* velocities; // along which forces act
    const uint8_t* spatial;        // numbers of vectors in space
    uint32_t nname;
    ns_allocator allocator;
    ns_error* error;
    storage* out;

    nsi_index index;     // names by hash
    sorted_name* sorted; // (nname)
    const char** kept;   // (nname) the binding's copy of a name, or NULL
    uint32_t* depth;     // (nname) values to keep
    uint32_t* owner;     // (nname) part of which it is an output, or NSI_NONE
    NSI_ARRAY(prefix) prefixes;
    nsi_index prefix_index;
    NSI_ARRAY(nsi_network_instance) instances;
    NSI_ARRAY(nsi_binding_set) sets;
    uint64_t nweight, ninput; // of all

    // The network or formula, the match and what they expand to, at present.
    uint32_t part;                     // networks come first, then formulas
    const char* match;                 // or NULL
    char text[MAX_EXPANDED];           // after {}
    numbers found, outputs, conjugate; // names
    NSI_ARRAY(lagged) inputs;
} binder;

// ---- messages --------------------------------------------------------------------------------

// The formula at hand, or NULL.
static const nsi_blueprint_formula* formula_at(const binder* p) {
    uint32_t networks = p->blueprint->networks.count;
    return p->part >= networks ? &p->blueprint->formulas.data[p->part - networks] : NULL;
}

// Of a formula what it has in common with a network.
static const ns_network_def* definition(const binder* p) {
    const nsi_blueprint_formula* f = formula_at(p);
    return f ? &f->ports : &p->blueprint->networks.data[p->part].def;
}

// 'network "drag"'
static const char* part_name(const ns_blueprint* blueprint, uint32_t part, char out[80]) {
    uint32_t networks = blueprint->networks.count;
    bool is_formula = part >= networks;
    const char* name = is_formula ? blueprint->formulas.data[part - networks].def.name
                                  : blueprint->networks.data[part].def.name;
    snprintf(out, 80, "%s \"%.60s\"", is_formula ? "formula" : "network", name);
    return out;
}

// Where in the text of a formula an input is.
static uint32_t input_offset(const nsi_blueprint_formula* f, uint32_t input) {
    uint32_t k = 0;
    while (!f->sources[k].is_input || f->sources[k].number != input) k++;
    return (uint32_t)ns_formula_variable_offset(f->formula, k);
}

// "file:line:column: network "drag", link/a: inputs: " and the message.
static ns_status fail_binding_at(const binder* p, ns_status status, nsi_field field, uint32_t item,
                                 const char* format, ...) NSI_PRINTF(5, 6);
static ns_status fail_binding_at(const binder* p, ns_status status, nsi_field field, uint32_t item,
                                 const char* format, ...) {
    char message[NS_ERROR_SIZE], where[200] = "", match[80] = "", who[80];
    const nsi_blueprint_formula* f = formula_at(p);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (f && field == NSI_FIELD_INPUTS) { // they stand in the text
        item = item == NSI_NONE ? NSI_NONE : input_offset(f, item);
        field = NSI_FIELD_FORMULA;
    } else if (f && field == NSI_FIELD_OUTPUTS) {
        field = NSI_FIELD_OUTPUT;
    }
    if (p->blueprint->file) {
        const nsi_places* places = f ? &f->places : &p->blueprint->networks.data[p->part].places;
        nsi_place at = nsi_places_find(places, field, item);
        snprintf(where, sizeof where, "%.150s:%u:%u: ", at.file ? at.file : p->blueprint->file,
                 at.line, at.column);
    }
    if (p->match) snprintf(match, sizeof match, ", %.60s", p->match);
    bool whole = field == NSI_FIELD_COUNT;
    return nsi_fail(p->error, status, "%s%s%s: %s%s%s", where,
                    part_name(p->blueprint, p->part, who), match, nsi_field_name(field),
                    whole ? "" : ": ", message);
}

static ns_status fail_nomem(const binder* p) {
    return nsi_fail_nomem(p->error);
}

static void offer_part(ns_nearest* nearest, const char* name, uint32_t size) {
    char text[NS_WORD_SIZE];
    if (size >= sizeof text) return;
    memcpy(text, name, size);
    text[size] = '\0';
    ns_nearest_offer(nearest, text);
}

// "; nearest: a, b, c", or nothing.
static const char* list_nearest(const ns_nearest* nearest, char out[NEAREST_SIZE]) {
    size_t length = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < nearest->count; i++) {
        length += (size_t)snprintf(out + length, NEAREST_SIZE - length, "%s%.100s",
                                   i > 0 ? ", " : "; nearest: ", nearest->best[i].name);
    }
    return out;
}

static const char* nearest_names(const binder* p, const char* wanted, char out[NEAREST_SIZE]) {
    ns_nearest nearest = {.wanted = wanted};
    for (uint32_t i = 0; i < p->nname; i++) ns_nearest_offer(&nearest, p->names[i]);
    return list_nearest(&nearest, out);
}

static bool has_glob(const char* text) {
    return strpbrk(text, "*?") != NULL;
}

static ns_status fail_missing(const binder* p, nsi_field field, uint32_t item, const char* name) {
    char nearest[NEAREST_SIZE];
    bool glob = has_glob(name), formula = formula_at(p) != NULL;
    return fail_binding_at(p, NS_ERR_ARGUMENT, field, item, "no quantity %s \"%.100s\"%s%s",
                           glob && !formula ? "fits" : "is called", name,
                           nearest_names(p, name, nearest),
                           glob && formula ? "; there are no globs in formulas" : "");
}

// ---- names -----------------------------------------------------------------------------------

static uint32_t find_name(const binder* p, const char* name) {
    uint32_t hash = nsi_hash_bytes(name, strlen(name));
    for (uint32_t at = nsi_index_first(&p->index, hash), id; nsi_index_at(&p->index, at, &id);
         at = nsi_index_next(&p->index, at)) {
        if (strcmp(p->names[id], name) == 0) return id;
    }
    return NSI_NONE;
}

static int compare_sorted(const void* a, const void* b) {
    const sorted_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

static int compare_name_numbers(const void* a, const void* b) {
    uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
    return (x > y) - (x < y);
}

static uint32_t find_prefix(const binder* p, const char* name, size_t size) {
    const nsi_index* index = &p->prefix_index;
    for (uint32_t at = nsi_index_first(index, nsi_hash_bytes(name, size)), id;
         nsi_index_at(index, at, &id); at = nsi_index_next(index, at)) {
        const prefix* other = &p->prefixes.data[id];
        if (other->size == size && memcmp(other->name, name, size) == 0) return id;
    }
    return NSI_NONE;
}

// All beginnings of all names, in the order of first appearance.
static bool find_prefixes(binder* p) {
    for (uint32_t i = 0; i < p->nname; i++) {
        const char* name = p->names[i];
        for (const char* slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
            prefix next = {name, (uint32_t)(slash - name)};
            if (find_prefix(p, name, next.size) != NSI_NONE) continue;
            uint32_t number = p->prefixes.count, hash = nsi_hash_bytes(name, next.size);
            if (!nsi_array_push(&p->allocator, &p->prefixes, next) ||
                !nsi_index_insert(&p->allocator, &p->prefix_index, hash, number)) {
                return false;
            }
        }
    }
    return true;
}

static ns_status prepare_names(binder* p) {
    size_t n = p->nname;
    p->sorted = nsi_alloc(&p->allocator, n * sizeof *p->sorted);
    p->kept = nsi_alloc_zeroed(&p->allocator, n * sizeof *p->kept);
    p->depth = nsi_alloc_zeroed(&p->allocator, n * sizeof *p->depth);
    p->owner = nsi_alloc(&p->allocator, n * sizeof *p->owner);
    if (!p->sorted || !p->kept || !p->depth || !p->owner) return fail_nomem(p);
    for (uint32_t i = 0; i < p->nname; i++) {
        p->sorted[i] = (sorted_name){p->names[i], i};
        p->owner[i] = NSI_NONE;
        uint32_t hash = nsi_hash_bytes(p->names[i], strlen(p->names[i]));
        if (!nsi_index_insert(&p->allocator, &p->index, hash, i)) return fail_nomem(p);
    }
    qsort(p->sorted, n, sizeof *p->sorted, compare_sorted);
    return find_prefixes(p) ? NS_OK : fail_nomem(p);
}

// The binding's own copy.
static const char* keep_binding_name(binder* p, uint32_t name) {
    if (!p->kept[name]) {
        p->kept[name] = nsi_arena_string(&p->out->arena, p->names[name], strlen(p->names[name]));
    }
    return p->kept[name];
}

// ---- templates -------------------------------------------------------------------------------

// `from` with the match for every {}, into p->text.
static bool substitute(binder* p, const char* from) {
    size_t length = 0, match = p->match ? strlen(p->match) : 0;
    while (*from) {
        bool hole = p->match && from[0] == '{' && from[1] == '}';
        size_t size = hole ? match : 1;
        if (size >= MAX_EXPANDED - length) return false;
        memcpy(p->text + length, hole ? p->match : from, size);
        length += size;
        from += hole ? 2 : 1;
    }
    p->text[length] = '\0';
    return true;
}

// Numbers of the names that fit a glob, in their order, into p->found.
static bool match_glob(binder* p, const char* glob) {
    // Those that begin like it are neighbours when sorted.
    size_t size = strcspn(glob, "*?");
    uint32_t low = 0, high = p->nname;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strncmp(p->sorted[middle].name, glob, size) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < p->nname && strncmp(p->sorted[low].name, glob, size) == 0; low++) {
        if (!ns_glob_match(glob, p->sorted[low].name)) continue;
        if (!nsi_array_push(&p->allocator, &p->found, p->sorted[low].number)) return false;
    }
    if (p->found.count > 1) {
        qsort(p->found.data, p->found.count, sizeof *p->found.data, compare_name_numbers);
    }
    return true;
}

// The numbers of a group: "link/a/force" stands for its x, y, z. Under `each` only such vectors do:
// joints have one torque or three, and a network is made for one number of them.
static bool match_members(binder* p) {
    char members[MAX_EXPANDED + 2];
    snprintf(members, sizeof members, "%s/*", p->text);
    if (!match_glob(p, members)) return false;
    for (uint32_t k = 0; definition(p)->each && k < p->found.count; k++) {
        if (!p->spatial || !p->spatial[p->found.data[k]]) p->found.count = 0;
    }
    return true;
}

// The names that a template stands for at present, into p->found; none is no error. A name that
// exists stands for itself, whatever characters are in it; one that others begin with, up to a '/',
// stands for those. In formulas a name is one quantity.
static ns_status expand_quantities(binder* p, const char* template, nsi_field field,
                                   uint32_t item) {
    p->found.count = 0;
    if (!substitute(p, template)) {
        return fail_binding_at(p, NS_ERR_LIMIT, field, item,
                               "\"%.60s\" has more than %d bytes after {}", template,
                               MAX_EXPANDED - 1);
    }
    uint32_t name = find_name(p, p->text);
    bool ok = true;
    if (name != NSI_NONE) {
        ok = nsi_array_push(&p->allocator, &p->found, name);
    } else if (formula_at(p)) {
        ok = true;
    } else if (has_glob(p->text)) {
        ok = match_glob(p, p->text);
    } else {
        ok = match_members(p);
    }
    return ok ? NS_OK : fail_nomem(p);
}

static ns_status check_count(const binder* p, nsi_field field, uint32_t item, uint64_t count) {
    if (count <= NSI_BLUEPRINT_MAX_WIDTH) return NS_OK;
    return fail_binding_at(p, NS_ERR_LIMIT, field, item, "more than %d after globs and lags",
                           NSI_BLUEPRINT_MAX_WIDTH);
}

// The names of a template, at least one, onto the end of `out`.
static ns_status expand_onto(binder* p, const char* template, nsi_field field, uint32_t item,
                             numbers* out) {
    ns_status status = expand_quantities(p, template, field, item);
    if (status == NS_OK && p->found.count == 0) return fail_missing(p, field, item, p->text);
    if (status == NS_OK) {
        status = check_count(p, field, item, (uint64_t)out->count + p->found.count);
    }
    for (uint32_t k = 0; k < p->found.count && status == NS_OK; k++) {
        if (!nsi_array_push(&p->allocator, out, p->found.data[k])) status = fail_nomem(p);
    }
    return status;
}

// ---- outputs ---------------------------------------------------------------------------------

static bool may_move(const binder* p, uint32_t name) {
    return !p->affects_state || p->affects_state[name];
}

// Does any output of this match exist, and act on anything? Links that are welded to the world
// have none, and no fault of the blueprint's.
static ns_status applies(binder* p, bool* exists, bool* acts) {
    const ns_network_def* def = definition(p);
    *exists = *acts = false;
    for (uint32_t i = 0; i < def->noutput && !*acts; i++) {
        ns_status status = expand_quantities(p, def->outputs[i], NSI_FIELD_OUTPUTS, i);
        if (status != NS_OK) return status;
        *exists = *exists || p->found.count > 0;
        for (uint32_t k = 0; k < p->found.count; k++) {
            *acts = *acts || may_move(p, p->found.data[k]);
        }
    }
    return NS_OK;
}

// The part becomes the owner of a name.
static ns_status take_output(binder* p, uint32_t item, uint32_t name) {
    uint32_t owner = p->owner[name];
    if (!may_move(p, name)) {
        return fail_binding_at(
            p, NS_ERR_ARGUMENT, NSI_FIELD_OUTPUTS, item,
            "nothing in the step depends on \"%.150s\", so that a %s there has no"
            " effect",
            p->names[name], formula_at(p) ? "formula" : "network");
    }
    if (owner != NSI_NONE) {
        char other[80];
        return fail_binding_at(
            p, NS_ERR_ARGUMENT, NSI_FIELD_OUTPUTS, item,
            "\"%.150s\" is an output of %s already; a quantity has one network or"
            " formula at most",
            p->names[name], part_name(p->blueprint, owner, other));
    }
    p->owner[name] = p->part;
    return NS_OK;
}

static ns_status take_outputs(binder* p) {
    const ns_network_def* def = definition(p);
    p->outputs.count = 0;
    ns_status status = NS_OK;
    for (uint32_t i = 0; i < def->noutput && status == NS_OK; i++) {
        uint32_t k = p->outputs.count;
        status = expand_onto(p, def->outputs[i], NSI_FIELD_OUTPUTS, i, &p->outputs);
        for (; k < p->outputs.count && status == NS_OK; k++) {
            status = take_output(p, i, p->outputs.data[k]);
        }
    }
    return status;
}

static uint32_t earliest_output(const binder* p) {
    uint32_t earliest = p->outputs.data[0];
    for (uint32_t i = 1; i < p->outputs.count; i++) {
        if (p->outputs.data[i] < earliest) earliest = p->outputs.data[i];
    }
    return earliest;
}

// ---- inputs ----------------------------------------------------------------------------------

static ns_status take_input(binder* p, uint32_t item, uint32_t earliest) {
    uint32_t first, last;
    const char* template = nsi_input_lags(definition(p)->inputs[item], &first, &last);
    ns_status status = expand_quantities(p, template, NSI_FIELD_INPUTS, item);
    if (status != NS_OK) return status;
    if (p->found.count == 0) return fail_missing(p, NSI_FIELD_INPUTS, item, p->text);
    status = check_count(p, NSI_FIELD_INPUTS, item,
                         p->inputs.count + (uint64_t)p->found.count * (last - first + 1));
    if (status != NS_OK) return status;
    for (uint32_t k = 0; k < p->found.count; k++) {
        uint32_t name = p->found.data[k];
        if (last == 0 && name >= earliest) {
            return fail_binding_at(
                p, NS_ERR_ARGUMENT, NSI_FIELD_INPUTS, item,
                "\"%.120s\" is not computed before the output \"%.120s\"; prev: takes"
                " the value of the step before",
                p->names[name], p->names[earliest]);
        }
        for (uint32_t lag = first; lag <= last; lag++) {
            lagged input = {name, lag};
            if (!nsi_array_push(&p->allocator, &p->inputs, input)) return fail_nomem(p);
        }
        if (p->depth[name] < last) p->depth[name] = last;
    }
    return NS_OK;
}

static ns_status take_inputs(binder* p) {
    uint32_t earliest = earliest_output(p);
    p->inputs.count = 0;
    ns_status status = NS_OK;
    for (uint32_t i = 0; i < definition(p)->ninput && status == NS_OK; i++) {
        status = take_input(p, i, earliest);
    }
    if (status != NS_OK) return status;
    p->ninput += p->inputs.count;
    if (p->ninput > MAX_INPUTS) {
        return fail_binding_at(p, NS_ERR_LIMIT, NSI_FIELD_INPUTS, NSI_NONE,
                               "all networks and formulas together have more than %d inputs",
                               MAX_INPUTS);
    }
    return NS_OK;
}

// ---- velocities ------------------------------------------------------------------------------

static ns_status take_conjugate(binder* p) {
    const ns_network_def* def = definition(p);
    p->conjugate.count = 0;
    if (!(def->structure & NS_STRUCTURE_DISSIPATIVE)) return NS_OK;

    // Velocities that are given, one for each output.
    if (def->conjugate) {
        for (uint32_t i = 0; i < def->noutput; i++) {
            ns_status status =
                expand_onto(p, def->conjugate[i], NSI_FIELD_CONJUGATE, i, &p->conjugate);
            if (status != NS_OK) return status;
        }
        if (p->conjugate.count != p->outputs.count) {
            return fail_binding_at(
                p, NS_ERR_ARGUMENT, NSI_FIELD_CONJUGATE, NSI_NONE,
                "%u velocities for %u outputs; give one for each, in their order",
                p->conjugate.count, p->outputs.count);
        }
    }

    // Otherwise those that belong to the forces.
    for (uint32_t i = 0; i < p->outputs.count && !def->conjugate; i++) {
        const char* output = p->names[p->outputs.data[i]];
        const char* velocity = p->velocities ? p->velocities[p->outputs.data[i]] : NULL;
        if (!velocity) {
            return fail_binding_at(
                p, NS_ERR_ARGUMENT, NSI_FIELD_CONJUGATE, NSI_NONE,
                "which velocity belongs to the output \"%.150s\" is not known; give it", output);
        }
        uint32_t name = find_name(p, velocity);
        if (name == NSI_NONE) {
            return fail_binding_at(
                p, NS_ERR_ARGUMENT, NSI_FIELD_CONJUGATE, NSI_NONE,
                "the velocity \"%.120s\" of the output \"%.120s\" does not exist here;"
                " give another",
                velocity, output);
        }
        if (!nsi_array_push(&p->allocator, &p->conjugate, name)) return fail_nomem(p);
    }

    // The network needs them before its first output is due.
    uint32_t earliest = earliest_output(p);
    for (uint32_t i = 0; i < p->conjugate.count; i++) {
        if (p->conjugate.data[i] < earliest) continue;
        return fail_binding_at(p, NS_ERR_ARGUMENT, NSI_FIELD_CONJUGATE, NSI_NONE,
                               "\"%.150s\" is not computed before the output \"%.150s\"",
                               p->names[p->conjugate.data[i]], p->names[earliest]);
    }
    return NS_OK;
}

// ---- sizes -----------------------------------------------------------------------------------

static ns_status check_scale(const binder* p, nsi_field field, uint32_t count, uint32_t needed,
                             const char* of) {
    if (count <= 1 || count == needed) return NS_OK;
    return fail_binding_at(p, NS_ERR_ARGUMENT, field, NSI_NONE,
                           "%u numbers for %u %s; give one for all, or one for each", count, needed,
                           of);
}

static ns_status check_sizes(const binder* p) {
    const ns_network_def* def = definition(p);
    uint32_t nin = p->inputs.count, nout = p->outputs.count;

    // Scales: one for all, or one each.
    ns_status status = check_scale(p, NSI_FIELD_INPUT_SHIFT, def->ninput_shift, nin, "inputs");
    if (status == NS_OK) {
        status = check_scale(p, NSI_FIELD_INPUT_SCALE, def->ninput_scale, nin, "inputs");
    }
    if (status == NS_OK) {
        status = check_scale(p, NSI_FIELD_OUTPUT_SCALE, def->noutput_scale, nout, "outputs");
    }
    if (status == NS_OK) {
        status = check_scale(p, NSI_FIELD_CONJUGATE_SCALE, def->nconjugate_scale, nout, "outputs");
    }
    if (status != NS_OK) return status;

    // A conservative force is a gradient with respect to the inputs.
    if ((def->structure & NS_STRUCTURE_CONSERVATIVE) && nin != nout) {
        return fail_binding_at(p, NS_ERR_ARGUMENT, NSI_FIELD_STRUCTURE, NSI_NONE,
                               "conservative needs as many inputs as outputs, not %u and %u", nin,
                               nout);
    }

    // A dissipative force is a symmetric matrix times velocities.
    if ((def->structure & NS_STRUCTURE_DISSIPATIVE) &&
        (uint64_t)nout * (nout + 1) / 2 > MAX_LAST_WIDTH) {
        return fail_binding_at(
            p, NS_ERR_LIMIT, NSI_FIELD_OUTPUTS, NSI_NONE,
            "%u are too many for the structure dissipative, which is learned as a"
            " matrix of at most %d numbers",
            nout, MAX_LAST_WIDTH);
    }
    return NS_OK;
}

// ---- sets and instances ----------------------------------------------------------------------

static ns_status make_set(binder* p, uint32_t* number) {
    const ns_network_def* def = definition(p);
    uint32_t nin = p->inputs.count, nout = p->outputs.count;
    const nsi_blueprint_formula* f = formula_at(p);
    uint32_t network = f ? NSI_NONE : p->part;
    uint32_t formula = f ? p->part - p->blueprint->networks.count : NSI_NONE;

    // A formula without coefficients has no weights.
    *number = p->sets.count;
    if (f && f->def.ncoefficient == 0) {
        *number = NSI_NONE;
        return NS_OK;
    }

    // The set of an earlier match, when they share one.
    if (p->sets.count > 0 && !def->separate) {
        const nsi_binding_set* last = &p->sets.data[p->sets.count - 1];
        if (last->network == network && last->formula == formula) {
            *number = p->sets.count - 1;
            if (last->ninput == nin && last->noutput == nout) return NS_OK;
            return fail_binding_at(
                p, NS_ERR_ARGUMENT, NSI_FIELD_EACH, NSI_NONE,
                "there are %u inputs and %u outputs here, but %u and %u at the matches"
                " before, which use the same weights; name fewer, or make the weights"
                " separate",
                nin, nout, last->ninput, last->noutput);
        }
    }

    // A new set, behind the others.
    uint64_t count = f ? f->def.ncoefficient : nsi_network_weight_count(def, nin, nout);
    if (count > NSI_BLUEPRINT_MAX_WEIGHTS - p->nweight) {
        return fail_binding_at(p, NS_ERR_LIMIT, NSI_FIELD_COUNT, NSI_NONE,
                               "with its %llu weights there are more than %d in all",
                               (unsigned long long)count, NSI_BLUEPRINT_MAX_WEIGHTS);
    }
    nsi_binding_set set = {.network = network,
                           .formula = formula,
                           .ninput = nin,
                           .noutput = nout,
                           .offset = (uint32_t)p->nweight,
                           .count = (uint32_t)count};

    // Its name, "<network>" or "<network>/<match>", is part of the names of tensors.
    bool has_match = p->match && def->separate;
    size_t size = strlen(def->name) + (has_match ? strlen(p->match) + 1 : 0);
    char* name = nsi_arena_alloc(&p->out->arena, size + 1);
    if (!name) return fail_nomem(p);
    snprintf(name, size + 1, "%s%s%s", def->name, has_match ? "/" : "", has_match ? p->match : "");
    set.name = name;
    p->nweight += count;
    return nsi_array_push(&p->allocator, &p->sets, set) ? NS_OK : fail_nomem(p);
}

// Names as the binding keeps them; NULL when out of memory.
static const char** keep_list(binder* p, const numbers* list) {
    const char** out = nsi_arena_alloc(&p->out->arena, list->count * sizeof *out);
    for (uint32_t i = 0; i < list->count && out; i++) {
        out[i] = keep_binding_name(p, list->data[i]);
        if (!out[i]) return NULL;
    }
    return out;
}

static ns_status add_output(binder* p, const char* name, uint32_t use, uint32_t output) {
    storage* s = p->out;
    binding_output entry = {name, use, output};
    if (!nsi_index_insert(&p->allocator, &s->output_names, nsi_hash_bytes(name, strlen(name)),
                          s->outputs.count) ||
        !nsi_array_push(&p->allocator, &s->outputs, entry)) {
        return fail_nomem(p);
    }
    return NS_OK;
}

static ns_status make_instance(binder* p) {
    uint32_t networks = p->blueprint->networks.count;
    nsi_network_instance use = {.network = p->part < networks ? p->part : NSI_NONE,
                                .formula = p->part < networks ? NSI_NONE : p->part - networks,
                                .mode = definition(p)->mode,
                                .ninput = p->inputs.count,
                                .noutput = p->outputs.count};

    ns_status status = make_set(p, &use.set);
    if (status != NS_OK) return status;

    // Copies of the names: those of the step are gone later.
    nsi_binding_input* inputs = nsi_arena_alloc(&p->out->arena, use.ninput * sizeof *inputs);
    if (!inputs) return fail_nomem(p);
    for (uint32_t i = 0; i < use.ninput; i++) {
        inputs[i] = (nsi_binding_input){keep_binding_name(p, p->inputs.data[i].name),
                                        p->inputs.data[i].lag};
        if (!inputs[i].name) return fail_nomem(p);
    }
    use.inputs = inputs;
    use.outputs = keep_list(p, &p->outputs);
    if (!use.outputs) return fail_nomem(p);
    if (p->conjugate.count > 0) {
        use.conjugate = keep_list(p, &p->conjugate);
        if (!use.conjugate) return fail_nomem(p);
    }

    // The augmenter finds instances by the quantities they change.
    for (uint32_t i = 0; i < use.noutput && status == NS_OK; i++) {
        status = add_output(p, use.outputs[i], p->instances.count, i);
    }
    if (status != NS_OK) return status;
    return nsi_array_push(&p->allocator, &p->instances, use) ? NS_OK : fail_nomem(p);
}

// The network or formula at the present match.
static ns_status apply(binder* p) {
    ns_status status = take_outputs(p);
    if (status == NS_OK) status = take_inputs(p);
    if (status == NS_OK) status = take_conjugate(p);
    if (status == NS_OK) status = check_sizes(p);
    if (status == NS_OK) status = make_instance(p);
    return status;
}

// ---- matches ---------------------------------------------------------------------------------

static ns_status fail_each(binder* p, const prefix* skipped, bool exists) {
    const ns_network_def* def = definition(p);
    if (skipped) {
        const char* output = def->outputs[0];
        return fail_binding_at(
            p, NS_ERR_ARGUMENT, NSI_FIELD_OUTPUTS, 0,
            "%s at any match of `each` (\"%.60s\"), such as %.*s: \"%.80s\"",
            exists ? "nothing in the step depends on them" : "none of them exists", def->each,
            skipped->size < 60 ? (int)skipped->size : 60, skipped->name, output);
    }
    ns_nearest nearest = {.wanted = def->each};
    for (uint32_t i = 0; i < p->prefixes.count; i++) {
        offer_part(&nearest, p->prefixes.data[i].name, p->prefixes.data[i].size);
    }
    char list[NEAREST_SIZE];
    return fail_binding_at(p, NS_ERR_ARGUMENT, NSI_FIELD_EACH, NSI_NONE,
                           "no beginning of a quantity's name, up to a '/', fits \"%.100s\"%s",
                           def->each, list_nearest(&nearest, list));
}

static ns_status apply_each(binder* p) {
    const ns_network_def* def = definition(p);
    const prefix* skipped = NULL;
    bool any = false, any_exists = false;
    // A match of its own memory: p->text is used on the way.
    nsi_text_builder match = {.allocator = p->allocator};
    ns_status status = NS_OK;

    for (uint32_t i = 0; i < p->prefixes.count && status == NS_OK; i++) {
        const prefix* candidate = &p->prefixes.data[i];
        match.text.count = 0;
        nsi_text_add_bytes(&match, candidate->name, candidate->size);
        nsi_text_add_bytes(&match, "", 1);
        if (match.failed) {
            status = fail_nomem(p);
            break;
        }

        if (!ns_glob_match(def->each, match.text.data)) continue;

        // An instance wherever its outputs exist and affect the state.
        bool exists, acts;
        p->match = match.text.data;
        status = applies(p, &exists, &acts);
        if (status == NS_OK && acts) status = apply(p);
        if (!acts && !skipped) skipped = candidate;
        any = any || acts;
        any_exists = any_exists || exists;
        p->match = NULL;
    }

    nsi_array_free(&p->allocator, &match.text);
    if (status == NS_OK && !any) status = fail_each(p, skipped, any_exists);
    return status;
}

// ---- all -------------------------------------------------------------------------------------

static const void* keep_array(binder* p, const void* data, size_t size) {
    void* copy = nsi_arena_alloc(&p->out->arena, size);
    if (copy && size > 0) memcpy(copy, data, size);
    return copy;
}

static ns_status finish_binding(binder* p) {
    nsi_binding* binding = &p->out->binding;
    NSI_ARRAY(nsi_binding_memory) memory = {0};
    ns_status status = NS_OK;
    for (uint32_t i = 0; i < p->nname && status == NS_OK; i++) {
        if (p->depth[i] == 0) continue;
        nsi_binding_memory entry = {keep_binding_name(p, i), p->depth[i]};
        if (!entry.name || !nsi_array_push(&p->allocator, &memory, entry)) status = fail_nomem(p);
    }
    binding->ninstance = p->instances.count;
    binding->nset = p->sets.count;
    binding->nmemory = memory.count;
    binding->nweight = (uint32_t)p->nweight;
    binding->instances =
        keep_array(p, p->instances.data, p->instances.count * sizeof *p->instances.data);
    binding->sets = keep_array(p, p->sets.data, p->sets.count * sizeof *p->sets.data);
    binding->memory = keep_array(p, memory.data, memory.count * sizeof *memory.data);
    nsi_array_free(&p->allocator, &memory);
    if (status == NS_OK && (!binding->instances || !binding->sets || !binding->memory))
        status = fail_nomem(p);
    return status;
}

static void free_binder(binder* p) {
    nsi_free(&p->allocator, p->sorted);
    nsi_free(&p->allocator, (void*)p->kept);
    nsi_free(&p->allocator, p->depth);
    nsi_free(&p->allocator, p->owner);
    nsi_index_free(&p->allocator, &p->index);
    nsi_array_free(&p->allocator, &p->prefixes);
    nsi_index_free(&p->allocator, &p->prefix_index);
    nsi_array_free(&p->allocator, &p->instances);
    nsi_array_free(&p->allocator, &p->sets);
    nsi_array_free(&p->allocator, &p->found);
    nsi_array_free(&p->allocator, &p->outputs);
    nsi_array_free(&p->allocator, &p->conjugate);
    nsi_array_free(&p->allocator, &p->inputs);
}

ns_status nsi_binding_create(const ns_blueprint* blueprint,
                             const nsi_binding_quantities* quantities,
                             const ns_allocator* allocator, nsi_binding** out, ns_error* error) {
    *out = NULL;
    ns_allocator own = allocator ? *allocator : ns_default_allocator();
    binder p = {.blueprint = blueprint,
                .names = quantities->names,
                .affects_state = quantities->affects_state,
                .velocities = quantities->conjugate,
                .spatial = quantities->spatial,
                .nname = quantities->count,
                .allocator = own,
                .error = error};

    // The binding lives in a block of its own, with an arena for names.
    p.out = nsi_alloc_zeroed(&own, sizeof *p.out);
    if (!p.out) return nsi_fail_nomem(error);
    p.out->arena.allocator = own;
    p.out->binding = (nsi_binding){.allocator = own, .blueprint = blueprint, .block = p.out};

    // Networks, then formulas: each once, or once for every match of `each`.
    ns_status status = prepare_names(&p);
    uint32_t parts = blueprint->networks.count + blueprint->formulas.count;
    for (; p.part < parts && status == NS_OK; p.part++) {
        status = definition(&p)->each ? apply_each(&p) : apply(&p);
    }

    // Lists in their final form; working memory goes.
    if (status == NS_OK) status = finish_binding(&p);
    free_binder(&p);
    if (status == NS_OK) {
        *out = &p.out->binding;
    } else {
        nsi_binding_free(&p.out->binding);
    }
    return status;
}

void nsi_binding_free(nsi_binding* binding) {
    if (!binding) return;
    storage* s = binding->block;
    ns_allocator allocator = binding->allocator;
    nsi_array_free(&allocator, &s->outputs);
    nsi_index_free(&allocator, &s->output_names);
    nsi_arena_free(&s->arena);
    nsi_free(&allocator, s);
}

uint32_t nsi_binding_find_output(const nsi_binding* binding, const char* name, uint32_t* output) {
    const storage* s = binding->block;
    uint32_t hash = nsi_hash_bytes(name, strlen(name));
    for (uint32_t at = nsi_index_first(&s->output_names, hash), id;
         nsi_index_at(&s->output_names, at, &id); at = nsi_index_next(&s->output_names, at)) {
        if (strcmp(s->outputs.data[id].name, name) != 0) continue;
        *output = s->outputs.data[id].output;
        return s->outputs.data[id].use;
    }
    return NSI_NONE;
}

// ---- weights ---------------------------------------------------------------------------------

static const char* tensor_name(const nsi_binding_set* set, uint32_t layer, char* out, size_t size) {
    snprintf(out, size, "%s/w%u", set->name, layer);
    return out;
}

enum { TENSOR_NAME_SIZE = NSI_BLUEPRINT_MAX_NAME + MAX_EXPANDED + 16 };

// With the file that the weights came from.
static ns_status fail_weights(const nsi_binding* binding, ns_error* error, const char* format, ...)
    NSI_PRINTF(3, 4);
static ns_status fail_weights(const nsi_binding* binding, ns_error* error, const char* format,
                              ...) {
    char what[NS_ERROR_SIZE];
    const char* file = binding->blueprint->weights_file;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return nsi_fail(error, NS_ERR_ARGUMENT, "%.150s%s%s", file ? file : "", file ? ": " : "", what);
}

static const char* nearest_tensors(const ns_blueprint* blueprint, const char* wanted,
                                   char out[NEAREST_SIZE]) {
    ns_nearest nearest = {.wanted = wanted};
    for (uint32_t i = 0; i < blueprint->tensors.count; i++) {
        ns_nearest_offer(&nearest, blueprint->tensors.data[i].name);
    }
    return list_nearest(&nearest, out);
}

const ns_formula_def* nsi_binding_formula(const nsi_binding* binding, uint32_t set) {
    return ns_blueprint_formula(binding->blueprint, binding->sets[set].formula);
}

uint32_t nsi_binding_layers(const nsi_binding* binding, uint32_t number,
                            nsi_layer layers[NSI_MAX_LAYERS]) {
    const nsi_binding_set* set = &binding->sets[number];
    if (set->formula != NSI_NONE) {
        layers[0] = (nsi_layer){.rows = 1, .columns = set->count};
        return 1;
    }
    return nsi_network_layers(ns_blueprint_network(binding->blueprint, set->network), set->ninput,
                              set->noutput, layers);
}

static ns_status load_set(const nsi_binding* binding, uint32_t number, double* weights,
                          ns_error* error) {
    const nsi_binding_set* set = &binding->sets[number];
    nsi_layer layers[NSI_MAX_LAYERS];
    uint32_t nlayer = nsi_binding_layers(binding, number, layers);
    for (uint32_t k = 0; k < nlayer; k++) {
        const nsi_layer* layer = &layers[k];

        // A tensor for each layer, by name.
        char name[TENSOR_NAME_SIZE];
        const nsi_blueprint_tensor* tensor =
            nsi_blueprint_find_tensor(binding->blueprint, tensor_name(set, k, name, sizeof name));
        if (!tensor) {
            char nearest[NEAREST_SIZE];
            return fail_weights(
                binding, error,
                "set \"%.120s\": the tensor \"%.130s\" (%u x %u) is missing from the"
                " loaded weights%s",
                set->name, name, layer->rows, layer->columns,
                nearest_tensors(binding->blueprint, name, nearest));
        }

        // Its shape follows from the numbers of inputs and outputs.
        bool fits = tensor->rows == layer->rows && tensor->columns == layer->columns;
        if (!fits && set->formula != NSI_NONE) {
            return fail_weights(binding, error,
                                "set \"%.120s\": the loaded tensor \"%.130s\" is %u x %u, but the"
                                " formula of %u coefficient%s needs %u x %u",
                                set->name, name, tensor->rows, tensor->columns, set->count,
                                set->count == 1 ? "" : "s", layer->rows, layer->columns);
        }
        if (!fits) {
            return fail_weights(binding, error,
                                "set \"%.120s\": the loaded tensor \"%.130s\" is %u x %u, but the"
                                " network of %u inputs and %u outputs needs %u x %u",
                                set->name, name, tensor->rows, tensor->columns, set->ninput,
                                set->noutput, layer->rows, layer->columns);
        }

        memcpy(weights + set->offset + layer->offset, tensor->data,
               (size_t)layer->rows * layer->columns * sizeof *weights);
    }
    return NS_OK;
}

// Is there a layer of this name?
static bool is_expected(const nsi_binding* binding, const char* tensor) {
    for (uint32_t i = 0; i < binding->nset; i++) {
        const nsi_binding_set* set = &binding->sets[i];
        size_t size = strlen(set->name);
        if (strncmp(tensor, set->name, size) != 0) continue;
        char name[TENSOR_NAME_SIZE];
        nsi_layer layers[NSI_MAX_LAYERS];
        uint32_t nlayer = nsi_binding_layers(binding, i, layers);
        for (uint32_t k = 0; k < nlayer; k++) {
            if (strcmp(tensor, tensor_name(set, k, name, sizeof name)) == 0) return true;
        }
    }
    return false;
}

static ns_status load_weights(const nsi_binding* binding, double* weights, ns_error* error) {
    const ns_blueprint* blueprint = binding->blueprint;
    uint64_t used = 0;
    for (uint32_t i = 0; i < binding->nset; i++) {
        nsi_layer layers[NSI_MAX_LAYERS];
        ns_status status = load_set(binding, i, weights, error);
        if (status != NS_OK) return status;
        used += nsi_binding_layers(binding, i, layers);
    }
    if (used == blueprint->tensors.count) return NS_OK;
    for (uint32_t i = 0; i < blueprint->tensors.count; i++) {
        const nsi_blueprint_tensor* tensor = &blueprint->tensors.data[i];
        if (is_expected(binding, tensor->name)) continue;
        return fail_weights(binding, error,
                            "the loaded tensor \"%.200s\" (%u x %u) belongs to no set of weights of"
                            " this blueprint and model",
                            tensor->name, tensor->rows, tensor->columns);
    }
    return NS_OK;
}

ns_status nsi_binding_weights(const nsi_binding* binding, double* weights, ns_error* error) {
    if (binding->blueprint->has_weights) return load_weights(binding, weights, error);
    uint64_t stream = 0;
    for (uint32_t i = 0; i < binding->nset; i++) {
        const nsi_binding_set* set = &binding->sets[i];
        const ns_formula_def* formula = nsi_binding_formula(binding, i);
        for (uint32_t k = 0; formula && k < set->count; k++) {
            weights[set->offset + k] = formula->coefficients[k].value;
        }
        if (formula) continue;
        stream = i > 0 && binding->sets[i - 1].network == set->network ? stream + 1 : 0;
        nsi_network_init(ns_blueprint_network(binding->blueprint, set->network), set->ninput,
                         set->noutput, stream, weights + set->offset);
    }
    return NS_OK;
}
