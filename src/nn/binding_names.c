// Names of quantities, and what globs and templates of a blueprint stand for:
//
//     "{}/force/x"     -> "link/a/force/x" -> numbers of names, one or, for a glob, several
//
// Everything works on numbers of names, whose order is that of computation. A name without globs
// costs one look into a hash index, a glob only the names that begin like it.

#include "nn/binding_state.h"

#include "neuralsim/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// ---- messages --------------------------------------------------------------------------------

// Networks come first, then formulas; NULL: the part is a network.
static const nsi_blueprint_formula* formula_of(const ns_blueprint* blueprint, uint32_t part) {
    uint32_t networks = blueprint->networks.count;
    return part >= networks ? &blueprint->formulas.data[part - networks] : NULL;
}

const nsi_blueprint_formula* nsi_binder_formula(const nsi_binder* p) {
    return formula_of(p->blueprint, p->part);
}

const ns_network_def* nsi_binder_definition(const nsi_binder* p) {
    const nsi_blueprint_formula* f = nsi_binder_formula(p);
    return f ? &f->ports : &p->blueprint->networks.data[p->part].def;
}

const char* nsi_binder_part_name(const ns_blueprint* blueprint, uint32_t part, char out[80]) {
    const nsi_blueprint_formula* f = formula_of(blueprint, part);
    const char* name = f ? f->def.name : blueprint->networks.data[part].def.name;
    snprintf(out, 80, "%s \"%.60s\"", f ? "formula" : "network", name);
    return out;
}

// Where in the text of a formula an input is.
static uint32_t input_offset(const nsi_blueprint_formula* f, uint32_t input) {
    uint32_t k = 0;
    while (!f->sources[k].is_input || f->sources[k].number != input) k++;
    return (uint32_t)ns_formula_variable_offset(f->formula, k);
}

ns_status nsi_binder_fail(const nsi_binder* p, ns_status status, nsi_field field, uint32_t item,
                          const char* format, ...) {
    char message[NS_ERROR_SIZE], where[200] = "", match[80] = "", who[80];
    const nsi_blueprint_formula* f = nsi_binder_formula(p);
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
                    nsi_binder_part_name(p->blueprint, p->part, who), match, nsi_field_name(field),
                    whole ? "" : ": ", message);
}

ns_status nsi_binder_fail_nomem(const nsi_binder* p) {
    return nsi_fail_nomem(p->error);
}

void nsi_binder_offer(ns_nearest* nearest, const char* name, uint32_t size) {
    char text[NS_WORD_SIZE];
    if (size >= sizeof text) return;
    memcpy(text, name, size);
    text[size] = '\0';
    ns_nearest_offer(nearest, text);
}

const char* nsi_binder_list_nearest(const ns_nearest* nearest, char out[NSI_BINDER_NEAREST_SIZE]) {
    size_t length = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < nearest->count; i++) {
        length += (size_t)snprintf(out + length, NSI_BINDER_NEAREST_SIZE - length, "%s%.100s",
                                   i > 0 ? ", " : "; nearest: ", nearest->best[i].name);
    }
    return out;
}

static const char* nearest_names(const nsi_binder* p, const char* wanted,
                                 char out[NSI_BINDER_NEAREST_SIZE]) {
    ns_nearest nearest = {.wanted = wanted};
    for (uint32_t i = 0; i < p->nname; i++) ns_nearest_offer(&nearest, p->names[i]);
    return nsi_binder_list_nearest(&nearest, out);
}

static bool has_glob(const char* text) {
    return strpbrk(text, "*?") != NULL;
}

ns_status nsi_binder_fail_missing(const nsi_binder* p, nsi_field field, uint32_t item,
                                  const char* name) {
    char nearest[NSI_BINDER_NEAREST_SIZE];
    bool glob = has_glob(name), formula = nsi_binder_formula(p) != NULL;
    return nsi_binder_fail(p, NS_ERR_ARGUMENT, field, item, "no quantity %s \"%.100s\"%s%s",
                           glob && !formula ? "fits" : "is called", name,
                           nearest_names(p, name, nearest),
                           glob && formula ? "; there are no globs in formulas" : "");
}

// ---- names -----------------------------------------------------------------------------------

uint32_t nsi_binder_find(const nsi_binder* p, const char* name) {
    uint32_t hash = nsi_hash_bytes(name, strlen(name));
    for (uint32_t at = nsi_index_first(&p->index, hash), id; nsi_index_at(&p->index, at, &id);
         at = nsi_index_next(&p->index, at)) {
        if (strcmp(p->names[id], name) == 0) return id;
    }
    return NSI_NONE;
}

static int compare_sorted(const void* a, const void* b) {
    const nsi_sorted_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

static int compare_name_numbers(const void* a, const void* b) {
    uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
    return (x > y) - (x < y);
}

static uint32_t find_prefix(const nsi_binder* p, const char* name, size_t size) {
    const nsi_index* index = &p->prefix_index;
    for (uint32_t at = nsi_index_first(index, nsi_hash_bytes(name, size)), id;
         nsi_index_at(index, at, &id); at = nsi_index_next(index, at)) {
        const nsi_name_prefix* other = &p->prefixes.data[id];
        if (other->size == size && memcmp(other->name, name, size) == 0) return id;
    }
    return NSI_NONE;
}

// All beginnings of all names, in the order of first appearance.
static bool find_prefixes(nsi_binder* p) {
    for (uint32_t i = 0; i < p->nname; i++) {
        const char* name = p->names[i];
        for (const char* slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
            nsi_name_prefix next = {name, (uint32_t)(slash - name)};
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

ns_status nsi_binder_prepare_names(nsi_binder* p) {
    size_t n = p->nname;
    p->sorted = nsi_alloc(&p->allocator, n * sizeof *p->sorted);
    p->kept = nsi_alloc_zeroed(&p->allocator, n * sizeof *p->kept);
    p->depth = nsi_alloc_zeroed(&p->allocator, n * sizeof *p->depth);
    p->owner = nsi_alloc(&p->allocator, n * sizeof *p->owner);
    if (!p->sorted || !p->kept || !p->depth || !p->owner) return nsi_binder_fail_nomem(p);
    for (uint32_t i = 0; i < p->nname; i++) {
        p->sorted[i] = (nsi_sorted_name){p->names[i], i};
        p->owner[i] = NSI_NONE;
        uint32_t hash = nsi_hash_bytes(p->names[i], strlen(p->names[i]));
        if (!nsi_index_insert(&p->allocator, &p->index, hash, i)) return nsi_binder_fail_nomem(p);
    }
    qsort(p->sorted, n, sizeof *p->sorted, compare_sorted);
    return find_prefixes(p) ? NS_OK : nsi_binder_fail_nomem(p);
}

const char* nsi_binder_keep_name(nsi_binder* p, uint32_t name) {
    if (!p->kept[name]) {
        p->kept[name] = nsi_arena_string(&p->out->arena, p->names[name], strlen(p->names[name]));
    }
    return p->kept[name];
}

// ---- templates -------------------------------------------------------------------------------

// `from` with the match for every {}, into p->text.
static bool substitute(nsi_binder* p, const char* from) {
    size_t length = 0, match = p->match ? strlen(p->match) : 0;
    while (*from) {
        bool hole = p->match && from[0] == '{' && from[1] == '}';
        size_t size = hole ? match : 1;
        if (size >= NSI_BINDER_MAX_EXPANDED - length) return false;
        memcpy(p->text + length, hole ? p->match : from, size);
        length += size;
        from += hole ? 2 : 1;
    }
    p->text[length] = '\0';
    return true;
}

// Numbers of the names that fit a glob, in their order, into p->found.
static bool match_glob(nsi_binder* p, const char* glob) {
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
static bool match_members(nsi_binder* p) {
    char members[NSI_BINDER_MAX_EXPANDED + 2];
    snprintf(members, sizeof members, "%s/*", p->text);
    if (!match_glob(p, members)) return false;
    for (uint32_t k = 0; nsi_binder_definition(p)->each && k < p->found.count; k++) {
        if (!p->spatial || !p->spatial[p->found.data[k]]) p->found.count = 0;
    }
    return true;
}

bool nsi_quantity_alias(const char* name, bool numbered, char* out, size_t size) {
    static const struct {
        const char *prefix, *before, *after;
    } aliases[] = {{"qd_", "joint/", "/velocity"},
                   {"q_", "joint/", "/position"},
                   {"tau_", "joint/", "/tau"},
                   {"u_", "control/", ""}};
    for (size_t k = 0; k < sizeof aliases / sizeof *aliases; k++) {
        size_t prefix = strlen(aliases[k].prefix);
        if (strncmp(name, aliases[k].prefix, prefix) != 0 || !name[prefix]) continue;

        // The number of a coordinate stands behind what is named.
        const char *object = name + prefix, *number = strrchr(object, '_');
        if (numbered && (!number || !number[1] || number[1 + strspn(number + 1, "0123456789")])) {
            return false;
        }
        int length = numbered ? (int)(number - object) : (int)strlen(object);
        int wrote = snprintf(out, size, "%s%.*s%s%s%s", aliases[k].before, length, object,
                             aliases[k].after, numbered ? "/" : "", numbered ? number + 1 : "");
        return wrote > 0 && (size_t)wrote < size;
    }
    return false;
}

// What p->text fits, into p->found.
static bool find_text(nsi_binder* p) {
    uint32_t name = nsi_binder_find(p, p->text);
    if (name != NSI_NONE) return nsi_array_push(&p->allocator, &p->found, name);
    if (nsi_binder_formula(p)) return true;
    return has_glob(p->text) ? match_glob(p, p->text) : match_members(p);
}

ns_status nsi_binder_expand(nsi_binder* p, const char* template, nsi_field field, uint32_t item) {
    p->found.count = 0;
    if (!substitute(p, template)) {
        return nsi_binder_fail(p, NS_ERR_LIMIT, field, item,
                               "\"%.60s\" has more than %d bytes after {}", template,
                               NSI_BINDER_MAX_EXPANDED - 1);
    }
    bool ok = find_text(p);

    // Names as of columns of tables; what is not found keeps its text, for the message.
    char given[NSI_BINDER_MAX_EXPANDED];
    memcpy(given, p->text, sizeof given);
    for (int numbered = 0; numbered < 2 && ok && p->found.count == 0; numbered++) {
        if (!nsi_quantity_alias(given, numbered == 1, p->text, sizeof p->text)) break;
        ok = find_text(p);
    }
    if (p->found.count == 0) memcpy(p->text, given, sizeof given);
    return ok ? NS_OK : nsi_binder_fail_nomem(p);
}

ns_status nsi_binder_check_count(const nsi_binder* p, nsi_field field, uint32_t item,
                                 uint64_t count) {
    if (count <= NSI_BLUEPRINT_MAX_WIDTH) return NS_OK;
    return nsi_binder_fail(p, NS_ERR_LIMIT, field, item, "more than %d after globs and lags",
                           NSI_BLUEPRINT_MAX_WIDTH);
}

ns_status nsi_binder_expand_onto(nsi_binder* p, const char* template, nsi_field field,
                                 uint32_t item, nsi_name_numbers* out) {
    ns_status status = nsi_binder_expand(p, template, field, item);
    if (status == NS_OK && p->found.count == 0)
        return nsi_binder_fail_missing(p, field, item, p->text);
    if (status == NS_OK) {
        status = nsi_binder_check_count(p, field, item, (uint64_t)out->count + p->found.count);
    }
    for (uint32_t k = 0; k < p->found.count && status == NS_OK; k++) {
        if (!nsi_array_push(&p->allocator, out, p->found.data[k]))
            status = nsi_binder_fail_nomem(p);
    }
    return status;
}
