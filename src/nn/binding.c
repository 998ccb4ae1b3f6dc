// Networks and formulas laid onto the names of one model:
//
//     each             -> matches, prefixes of names
//     match            -> one instance: outputs, inputs, velocities (binding_ports.c)
//     instances        -> sets of weights, values of earlier steps that are kept

#include "nn/binding_state.h"

#include "neuralsim/model.h"

#include <stdio.h>

// ---- sets and instances ----------------------------------------------------------------------

static ns_status make_set(nsi_binder* p, uint32_t* number) {
    const ns_network_def* def = nsi_binder_definition(p);
    uint32_t nin = p->inputs.count, nout = p->outputs.count;
    const nsi_blueprint_formula* f = nsi_binder_formula(p);
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
            return nsi_binder_fail(
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
        return nsi_binder_fail(p, NS_ERR_LIMIT, NSI_FIELD_COUNT, NSI_NONE,
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
    if (!name) return nsi_binder_fail_nomem(p);
    snprintf(name, size + 1, "%s%s%s", def->name, has_match ? "/" : "", has_match ? p->match : "");
    set.name = name;
    p->nweight += count;
    return nsi_array_push(&p->allocator, &p->sets, set) ? NS_OK : nsi_binder_fail_nomem(p);
}

// Names as the binding keeps them; NULL when out of memory.
static const char** keep_list(nsi_binder* p, const nsi_name_numbers* list) {
    const char** out = nsi_arena_alloc(&p->out->arena, list->count * sizeof *out);
    for (uint32_t i = 0; i < list->count && out; i++) {
        out[i] = nsi_binder_keep_name(p, list->data[i]);
        if (!out[i]) return NULL;
    }
    return out;
}

static ns_status add_output(nsi_binder* p, const char* name, uint32_t use, uint32_t output) {
    nsi_binding_storage* s = p->out;
    nsi_binding_output entry = {name, use, output};
    if (!nsi_index_insert(&p->allocator, &s->output_names, nsi_hash_bytes(name, strlen(name)),
                          s->outputs.count) ||
        !nsi_array_push(&p->allocator, &s->outputs, entry)) {
        return nsi_binder_fail_nomem(p);
    }
    return NS_OK;
}

static ns_status make_instance(nsi_binder* p) {
    uint32_t networks = p->blueprint->networks.count;
    nsi_network_instance use = {.network = p->part < networks ? p->part : NSI_NONE,
                                .formula = p->part < networks ? NSI_NONE : p->part - networks,
                                .mode = nsi_binder_definition(p)->mode,
                                .ninput = p->inputs.count,
                                .noutput = p->outputs.count};

    ns_status status = make_set(p, &use.set);
    if (status != NS_OK) return status;

    // Copies of the names: those of the step are gone later.
    nsi_binding_input* inputs = nsi_arena_alloc(&p->out->arena, use.ninput * sizeof *inputs);
    if (!inputs) return nsi_binder_fail_nomem(p);
    for (uint32_t i = 0; i < use.ninput; i++) {
        inputs[i] = (nsi_binding_input){nsi_binder_keep_name(p, p->inputs.data[i].name),
                                        p->inputs.data[i].lag};
        if (!inputs[i].name) return nsi_binder_fail_nomem(p);
    }
    use.inputs = inputs;
    use.outputs = keep_list(p, &p->outputs);
    if (!use.outputs || !nsi_binder_mark_state(p, &use) || !nsi_binder_note_causality(p, &use)) {
        return nsi_binder_fail_nomem(p);
    }
    if (p->conjugate.count > 0) {
        use.conjugate = keep_list(p, &p->conjugate);
        if (!use.conjugate) return nsi_binder_fail_nomem(p);
    }

    // The augmenter finds instances by the quantities they change.
    for (uint32_t i = 0; i < use.noutput && status == NS_OK; i++) {
        status = add_output(p, use.outputs[i], p->instances.count, i);
    }
    if (status != NS_OK) return status;
    return nsi_array_push(&p->allocator, &p->instances, use) ? NS_OK : nsi_binder_fail_nomem(p);
}

// The network or formula at the present match.
static ns_status apply(nsi_binder* p) {
    ns_status status = nsi_binder_take_outputs(p);
    if (status == NS_OK) status = nsi_binder_take_inputs(p);
    if (status == NS_OK) status = nsi_binder_take_conjugate(p);
    if (status == NS_OK) status = nsi_binder_check_sizes(p);
    if (status == NS_OK) status = make_instance(p);
    return status;
}

// ---- matches ---------------------------------------------------------------------------------

static ns_status fail_each(nsi_binder* p, const nsi_name_prefix* skipped, bool exists) {
    const ns_network_def* def = nsi_binder_definition(p);
    if (skipped) {
        const char* output = def->outputs[0];
        return nsi_binder_fail(
            p, NS_ERR_ARGUMENT, NSI_FIELD_OUTPUTS, 0,
            "%s at any match of `each` (\"%.60s\"), such as %.*s: \"%.80s\"",
            exists ? "nothing in the step depends on them" : "none of them exists", def->each,
            skipped->size < 60 ? (int)skipped->size : 60, skipped->name, output);
    }
    ns_nearest nearest = {.wanted = def->each};
    for (uint32_t i = 0; i < p->prefixes.count; i++) {
        nsi_binder_offer(&nearest, p->prefixes.data[i].name, p->prefixes.data[i].size);
    }
    char list[NSI_BINDER_NEAREST_SIZE];
    return nsi_binder_fail(p, NS_ERR_ARGUMENT, NSI_FIELD_EACH, NSI_NONE,
                           "no beginning of a quantity's name, up to a '/', fits \"%.100s\"%s",
                           def->each, nsi_binder_list_nearest(&nearest, list));
}

static ns_status apply_each(nsi_binder* p) {
    const ns_network_def* def = nsi_binder_definition(p);
    const nsi_name_prefix* skipped = NULL;
    bool any = false, any_exists = false;
    // A match of its own memory: p->text is used on the way.
    nsi_text_builder match = {.allocator = p->allocator};
    ns_status status = NS_OK;

    for (uint32_t i = 0; i < p->prefixes.count && status == NS_OK; i++) {
        const nsi_name_prefix* candidate = &p->prefixes.data[i];
        match.text.count = 0;
        nsi_text_add_bytes(&match, candidate->name, candidate->size);
        nsi_text_add_bytes(&match, "", 1);
        if (match.failed) {
            status = nsi_binder_fail_nomem(p);
            break;
        }

        if (!ns_glob_match(def->each, match.text.data)) continue;

        // An instance wherever its outputs exist and affect the state.
        bool exists, acts;
        p->match = match.text.data;
        status = nsi_binder_applies(p, &exists, &acts);
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

static const void* keep_array(nsi_binder* p, const void* data, size_t size) {
    void* copy = nsi_arena_alloc(&p->out->arena, size);
    if (copy && size > 0) memcpy(copy, data, size);
    return copy;
}

static ns_status finish_binding(nsi_binder* p) {
    nsi_binding* binding = &p->out->binding;
    NSI_ARRAY(nsi_binding_memory) memory = {0};
    ns_status status = NS_OK;
    for (uint32_t i = 0; i < p->nname && status == NS_OK; i++) {
        if (p->depth[i] == 0) continue;
        nsi_binding_memory entry = {nsi_binder_keep_name(p, i), p->depth[i]};
        if (!entry.name || !nsi_array_push(&p->allocator, &memory, entry))
            status = nsi_binder_fail_nomem(p);
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
        status = nsi_binder_fail_nomem(p);
    return status;
}

static void free_binder(nsi_binder* p) {
    nsi_free(&p->allocator, p->sorted);
    nsi_free(&p->allocator, (void*)p->kept);
    nsi_free(&p->allocator, p->depth);
    nsi_free(&p->allocator, p->owner);
    nsi_index_free(&p->allocator, &p->index);
    nsi_array_free(&p->allocator, &p->prefixes);
    nsi_index_free(&p->allocator, &p->prefix_index);
    nsi_array_free(&p->allocator, &p->instances);
    nsi_array_free(&p->allocator, &p->sets);
    nsi_array_free(&p->allocator, &p->causal);
    nsi_array_free(&p->allocator, &p->origins);
    nsi_arena_free(&p->working);
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
    nsi_binder p = {.blueprint = blueprint,
                    .names = quantities->names,
                    .affects_state = quantities->affects_state,
                    .velocities = quantities->conjugate,
                    .spatial = quantities->spatial,
                    .is_diagnostic = quantities->is_diagnostic,
                    .is_state = quantities->is_state,
                    .causality = quantities->causality,
                    .nname = quantities->count,
                    .allocator = own,
                    .error = error};

    // The binding lives in a block of its own, with an arena for names.
    p.out = nsi_alloc_zeroed(&own, sizeof *p.out);
    if (!p.out) return nsi_fail_nomem(error);
    p.out->arena.allocator = p.working.allocator = own;
    p.out->binding = (nsi_binding){.allocator = own, .blueprint = blueprint, .block = p.out};

    // Networks, then formulas: each once, or once for every match of `each`.
    ns_status status = nsi_binder_prepare_names(&p);
    uint32_t parts = blueprint->networks.count + blueprint->formulas.count;
    for (; p.part < parts && status == NS_OK; p.part++) {
        status = nsi_binder_definition(&p)->each ? apply_each(&p) : apply(&p);
    }

    // Lists in their final form; working memory goes.
    if (status == NS_OK) status = nsi_binder_check_causality(&p);
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
    nsi_binding_storage* s = binding->block;
    ns_allocator allocator = binding->allocator;
    nsi_array_free(&allocator, &s->outputs);
    nsi_index_free(&allocator, &s->output_names);
    nsi_arena_free(&s->arena);
    nsi_free(&allocator, s);
}

uint32_t nsi_binding_find_output(const nsi_binding* binding, const char* name, uint32_t* output) {
    const nsi_binding_storage* s = binding->block;
    uint32_t hash = nsi_hash_bytes(name, strlen(name));
    for (uint32_t at = nsi_index_first(&s->output_names, hash), id;
         nsi_index_at(&s->output_names, at, &id); at = nsi_index_next(&s->output_names, at)) {
        if (strcmp(s->outputs.data[id].name, name) != 0) continue;
        *output = s->outputs.data[id].output;
        return s->outputs.data[id].use;
    }
    return NSI_NONE;
}
