#include "nn/augment.h"

#include "nn/blueprint_data.h"

#include <stdio.h>

// A quantity that networks or formulas read.
typedef struct watched {
    const char* name;
    ns_expr value; // in this evaluation; invalid before it is computed
    ns_expr first; // in the first evaluation, at the start of the step: what is kept
} watched;

struct nsi_augmenter {
    const nsi_binding* binding;
    ns_graph* graph;
    ns_array* weights; // (nset)
    ns_expr* memory;   // of all kept values, in the order of the binding's
    watched* watched;  // (nwatched)
    uint32_t nwatched;
    nsi_index index;   // of watched, by name
    ns_expr** outputs; // (ninstance) results, or NULL before a use is evaluated
    bool ok;
};

uint32_t nsi_binding_memory_count(const nsi_binding* binding) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < binding->nmemory; k++) count += binding->memory[k].depth;
    return count;
}

static void* alloc(const nsi_augmenter* a, size_t count, size_t size) {
    void* block = nsi_arena_alloc(&a->graph->arena, (count + 1) * size);
    if (!block) nsi_graph_fail_nomem(a->graph);
    return block;
}

static uint32_t find_watched(const nsi_augmenter* a, const char* name) {
    uint32_t hash = nsi_hash_bytes(name, strlen(name));
    for (uint32_t at = nsi_index_first(&a->index, hash), id; nsi_index_at(&a->index, at, &id);
         at = nsi_index_next(&a->index, at)) {
        if (strcmp(a->watched[id].name, name) == 0) return id;
    }
    return NSI_NONE;
}

static bool watch_quantity(nsi_augmenter* a, const char* name) {
    if (find_watched(a, name) != NSI_NONE) return true;
    a->watched[a->nwatched] = (watched){name, {NSI_NONE}, {NSI_NONE}};
    return nsi_index_insert(&a->graph->allocator, &a->index, nsi_hash_bytes(name, strlen(name)),
                            a->nwatched++);
}

static bool watch_all(nsi_augmenter* a) {
    const nsi_binding* binding = a->binding;
    size_t most = binding->nmemory;
    for (uint32_t u = 0; u < binding->ninstance; u++)
        most += binding->instances[u].ninput + binding->instances[u].noutput;
    a->watched = alloc(a, most, sizeof *a->watched);
    bool ok = a->watched != NULL;
    for (uint32_t k = 0; ok && k < binding->nmemory; k++)
        ok = watch_quantity(a, binding->memory[k].name);
    for (uint32_t u = 0; ok && u < binding->ninstance; u++) {
        const nsi_network_instance* use = &binding->instances[u];
        for (uint32_t k = 0; ok && k < use->ninput; k++)
            ok = watch_quantity(a, use->inputs[k].name);
        for (uint32_t k = 0; ok && use->conjugate && k < use->noutput; k++) {
            ok = watch_quantity(a, use->conjugate[k]);
        }
    }
    return ok;
}

nsi_augmenter* nsi_augmenter_create(const nsi_binding* binding) {
    // Augmentation happens while the step is traced.
    ns_graph* graph = nsi_trace_graph();
    if (!graph) return NULL;
    nsi_augmenter* a = nsi_arena_alloc(&graph->arena, sizeof *a);
    if (!a) return nsi_graph_fail_nomem(graph), NULL;

    // The graph owns the augmenter: both are needed equally long.
    *a = (nsi_augmenter){.binding = binding, .graph = graph};
    a->weights = alloc(a, binding->nset, sizeof *a->weights);
    a->memory = alloc(a, nsi_binding_memory_count(binding), sizeof *a->memory);
    a->outputs = alloc(a, binding->ninstance, sizeof *a->outputs);
    // A failure has been recorded in the graph.
    if (!a->weights || !a->memory || !a->outputs) return NULL;

    // Register the quantities that networks read; they are looked up by name during tracing.
    if (!watch_all(a)) {
        nsi_index_free(&graph->allocator, &a->index);
        return nsi_graph_fail_nomem(graph), NULL;
    }

    // Weights of each set are one array input.
    char name[1024];
    for (uint32_t s = 0; s < binding->nset; s++) {
        snprintf(name, sizeof name, "net/%s", binding->sets[s].name);
        a->weights[s] = ns_input_array(name, binding->sets[s].count, false);
    }

    // Past values that networks read are scalar inputs, one per lag.
    for (uint32_t k = 0, n = 0; k < binding->nmemory; k++) {
        for (uint32_t lag = 1; lag <= binding->memory[k].depth; lag++) {
            // The caller makes them part of the state.
            snprintf(name, sizeof name, "memory/%s/%u", binding->memory[k].name, lag);
            a->memory[n++] = ns_input(name);
        }
    }
    return a;
}

// ---- networks and formulas -------------------------------------------------------------------

static ns_expr quantity_value(const nsi_augmenter* a, const char* name, uint32_t lag) {
    if (lag == 0) return a->watched[find_watched(a, name)].value;
    uint32_t first = 0;
    for (uint32_t k = 0; k < a->binding->nmemory; k++) {
        if (strcmp(a->binding->memory[k].name, name) == 0) return a->memory[first + lag - 1];
        first += a->binding->memory[k].depth;
    }
    NS_ASSERT(false && "the binding keeps every value that is read later");
    return (ns_expr){NSI_NONE};
}

static void trace_network(nsi_augmenter* a, const nsi_network_instance* use, const ns_expr* inputs,
                          ns_expr* outputs) {
    const ns_network_def* def = ns_blueprint_network(a->binding->blueprint, use->network);
    ns_expr* conjugate = alloc(a, use->noutput, sizeof *conjugate);
    if (!conjugate) return;
    for (uint32_t k = 0; use->conjugate && k < use->noutput; k++) {
        conjugate[k] = quantity_value(a, use->conjugate[k], 0);
    }
    nsi_network_trace(def, a->weights[use->set], use->ninput, inputs, use->noutput,
                      use->conjugate ? conjugate : NULL, outputs);
}

static ns_expr trace_formula(nsi_augmenter* a, const nsi_network_instance* use,
                             const ns_expr* inputs) {
    const nsi_blueprint_formula* f = &a->binding->blueprint->formulas.data[use->formula];
    uint32_t count = ns_formula_variable_count(f->formula);
    ns_expr* coefficients = alloc(a, f->def.ncoefficient, sizeof *coefficients);
    ns_expr* variables = alloc(a, count, sizeof *variables);
    if (!coefficients || !variables) return (ns_expr){NSI_NONE};
    if (use->set != NSI_NONE) ns_array_elements(a->weights[use->set], coefficients);
    for (uint32_t k = 0; k < count; k++) {
        const nsi_formula_source* source = &f->sources[k];
        variables[k] = source->is_input ? inputs[source->number] : coefficients[source->number];
    }
    return nsi_formula_trace(f->formula, variables);
}

enum { OUTPUT_NAME = 1200 };

// Of output k as a quantity: "net/<set>/<quantity>", "formula/<set>/<quantity>".
static void output_name(const nsi_binding* binding, const nsi_network_instance* use, uint32_t k,
                        char out[OUTPUT_NAME]) {
    const char* set = use->set != NSI_NONE
                          ? binding->sets[use->set].name
                          : ns_blueprint_formula(binding->blueprint, use->formula)->name;
    snprintf(out, OUTPUT_NAME, "%s/%s/%s", use->formula != NSI_NONE ? "formula" : "net", set,
             use->outputs[k]);
}

uint32_t nsi_augmented_find(const nsi_binding* binding, const char* name, uint32_t* output) {
    char other[OUTPUT_NAME];
    for (uint32_t i = 0; i < binding->ninstance; i++) {
        const nsi_network_instance* use = &binding->instances[i];
        for (uint32_t k = 0; k < use->noutput; k++) {
            output_name(binding, use, k, other);
            if (strcmp(name, other) != 0) continue;
            *output = k;
            return i;
        }
    }
    return NSI_NONE;
}

static void evaluate_instance(nsi_augmenter* a, uint32_t number) {
    const nsi_network_instance* use = &a->binding->instances[number];
    bool is_formula = use->formula != NSI_NONE;
    ns_expr* inputs = alloc(a, use->ninput, sizeof *inputs);
    ns_expr* outputs = alloc(a, use->noutput, sizeof *outputs);
    if (!inputs || !outputs) return;
    for (uint32_t k = 0; k < use->ninput; k++) {
        inputs[k] = quantity_value(a, use->inputs[k].name, use->inputs[k].lag);
    }
    if (is_formula) outputs[0] = trace_formula(a, use, inputs);
    if (!is_formula) trace_network(a, use, inputs, outputs);
    char name[OUTPUT_NAME];
    for (uint32_t k = 0; k < use->noutput; k++) {
        output_name(a->binding, use, k, name);
        outputs[k] = ns_quantity(name, outputs[k]);
    }
    a->outputs[number] = outputs;
}

static ns_expr augment(void* context, const char* name, ns_expr x) {
    nsi_augmenter* a = context;
    uint32_t output, use = nsi_binding_find_output(a->binding, name, &output);
    if (use != NSI_NONE) {
        if (!a->outputs[use]) evaluate_instance(a, use);
        if (!a->outputs[use]) return x; // out of memory
        ns_expr y = a->outputs[use][output];
        switch (a->binding->instances[use].mode) {
        case NS_AUGMENT_ADD: x = ns_add(x, y); break;
        case NS_AUGMENT_REPLACE: x = y; break;
        case NS_AUGMENT_SCALE: x = ns_add(x, ns_mul(x, y)); break;
        }
    }
    uint32_t id = find_watched(a, name);
    if (id == NSI_NONE) return x;
    a->watched[id].value = x;
    if (a->watched[id].first.id == NSI_NONE) a->watched[id].first = x;
    return x;
}

static bool begins_with(const char* name, const char* prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

// Is a quantity with this prefix read or written?
static bool augments_prefix(void* context, const char* prefix) {
    const nsi_augmenter* a = context;
    for (uint32_t k = 0; k < a->nwatched; k++) {
        if (begins_with(a->watched[k].name, prefix)) return true;
    }
    for (uint32_t u = 0; u < a->binding->ninstance; u++) {
        const nsi_network_instance* use = &a->binding->instances[u];
        for (uint32_t k = 0; k < use->noutput; k++) {
            if (begins_with(use->outputs[k], prefix)) return true;
        }
    }
    return false;
}

void nsi_augmenter_begin(nsi_augmenter* a) {
    for (uint32_t u = 0; u < a->binding->ninstance; u++) a->outputs[u] = NULL;
    for (uint32_t k = 0; k < a->nwatched; k++) a->watched[k].value.id = NSI_NONE;
    nsi_trace_hook(augment, a);
    nsi_trace_filter(augments_prefix);
}

void nsi_augmenter_finish(nsi_augmenter* a) {
    nsi_trace_hook(NULL, NULL);
    nsi_index_free(&a->graph->allocator, &a->index);
}

void nsi_augmenter_put_memory(const nsi_augmenter* a) {
    char name[1024];
    for (uint32_t k = 0, n = 0; k < a->binding->nmemory; k++) {
        const nsi_binding_memory* kept = &a->binding->memory[k];
        for (uint32_t lag = 1; lag <= kept->depth; lag++) {
            snprintf(name, sizeof name, "memory/%s/%u", kept->name, lag);
            // watched[k] is memory k: they are watched first
            ns_output(name, lag == 1 ? a->watched[k].first : a->memory[n + lag - 2]);
        }
        n += kept->depth;
    }
}
