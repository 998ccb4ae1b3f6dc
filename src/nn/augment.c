// A network is evaluated where its first output is named when all its inputs are known there. Otherwise
// the outputs get placeholders, and after the trace the graph is copied with networks in their place
// (expr/substitute.h): the order in which physics is written down does not limit what reads what.

#include "nn/augment.h"

#include "expr/substitute.h"
#include "nn/blueprint_data.h"

#include <stdio.h>

// A quantity that networks or formulas read.
typedef struct watched {
    const char* name;
    ns_expr value; // in this evaluation; invalid before it is computed
    ns_expr first; // in the first evaluation, at the start of the step: what is kept
} watched;

// A use whose inputs are known only after its outputs are due, in one evaluation of the dynamics.
typedef struct late_use {
    uint32_t use, evaluation;
    ns_expr *inputs, *conjugate;        // of the traced graph, once its evaluation is complete
    ns_expr* outputs[NSI_MAX_VARIANTS]; // (noutput) of the final graph, once computed
} late_use;

// A placeholder: what stands for a quantity after a late use has changed it.
typedef struct late_output {
    uint32_t late, output;
    ns_expr before; // what physics computes, in the traced graph
} late_output;

// In which of two variants of the step are networks at the state left out?
enum { AS_CHANGED, STATE_AS_GIVEN };

struct nsi_augmenter {
    const nsi_binding* binding;
    ns_graph* graph;
    ns_array* weights; // (nset)
    ns_expr* memory;   // of all kept values, in the order of the binding's
    watched* watched;  // (nwatched)
    uint32_t nwatched;
    nsi_index index;   // of watched, by name
    ns_expr** outputs; // (ninstance) results, or NULL before a use is evaluated
    uint32_t* late_of; // (ninstance) number of the late use in this evaluation, or NSI_NONE
    bool begun;
    uint32_t evaluation;  // of the dynamics, from 0
    uint32_t first_input; // number of inputs without placeholders
    uint32_t nclosed;     // late uses whose inputs are known
    NSI_ARRAY(late_use) late;
    NSI_ARRAY(late_output) placeholders;
    nsi_substitution resolved; // after the trace; .to is NULL where nothing was late
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
    a->late_of = alloc(a, binding->ninstance, sizeof *a->late_of);
    // A failure has been recorded in the graph.
    if (!a->weights || !a->memory || !a->outputs || !a->late_of) return NULL;

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

// `damping` (noutput x noutput) as in nsi_network_trace(), or NULL.
static void trace_network(const nsi_augmenter* a, const nsi_network_instance* use,
                          const ns_expr* inputs, const ns_expr* conjugate, ns_expr* outputs,
                          ns_expr* damping) {
    const ns_network_def* def = ns_blueprint_network(a->binding->blueprint, use->network);
    nsi_network_trace(def, a->weights[use->set], use->ninput, inputs, use->noutput,
                      use->conjugate ? conjugate : NULL, outputs, damping);
}

static bool is_joint_force(const char* name) {
    return strncmp(name, "joint/", 6) == 0;
}

// Joint forces of a dissipative network are damping, which steps may take at their end.
static void note_damping(const nsi_network_instance* use, const ns_expr* conjugate,
                         const ns_expr* damping, const ns_expr* outputs) {
    for (uint32_t i = 0; i < use->noutput; i++) {
        for (uint32_t j = 0; j < use->noutput; j++) {
            if (!is_joint_force(use->outputs[i]) || !is_joint_force(use->outputs[j])) continue;
            nsi_trace_damping(outputs[i], conjugate[i], conjugate[j],
                              damping[i * use->noutput + j]);
        }
    }
}

static ns_expr trace_formula(const nsi_augmenter* a, const nsi_network_instance* use,
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

// The outputs (noutput) of a use in the graph that is being traced; NULL when out of memory.
static ns_expr* trace_use(const nsi_augmenter* a, uint32_t number, const ns_expr* inputs,
                          const ns_expr* conjugate, ns_expr* damping) {
    const nsi_network_instance* use = &a->binding->instances[number];
    ns_expr* outputs = alloc(a, use->noutput, sizeof *outputs);
    if (!outputs) return NULL;
    if (use->formula != NSI_NONE) {
        outputs[0] = trace_formula(a, use, inputs);
    } else {
        trace_network(a, use, inputs, conjugate, outputs, damping);
    }
    return outputs;
}

// The inputs and velocities of a use, from this evaluation; some are invalid when they are not known
// yet. False when out of memory.
static bool collect_values(const nsi_augmenter* a, uint32_t number, ns_expr** inputs,
                           ns_expr** conjugate, bool* complete) {
    const nsi_network_instance* use = &a->binding->instances[number];
    *inputs = alloc(a, use->ninput, sizeof **inputs);
    *conjugate = alloc(a, use->noutput, sizeof **conjugate);
    if (!*inputs || !*conjugate) return false;
    *complete = true;
    for (uint32_t k = 0; k < use->ninput; k++) {
        (*inputs)[k] = quantity_value(a, use->inputs[k].name, use->inputs[k].lag);
        *complete = *complete && ns_expr_is_valid((*inputs)[k]);
    }
    for (uint32_t k = 0; use->conjugate && k < use->noutput; k++) {
        (*conjugate)[k] = quantity_value(a, use->conjugate[k], 0);
        *complete = *complete && ns_expr_is_valid((*conjugate)[k]);
    }
    return true;
}

static ns_expr change_value(ns_augment mode, ns_expr x, ns_expr y) {
    switch (mode) {
    case NS_AUGMENT_ADD: return ns_add(x, y);
    case NS_AUGMENT_REPLACE: return y;
    case NS_AUGMENT_SCALE: return ns_add(x, ns_mul(x, y));
    }
    return x;
}

// Evaluate a use where its first output is due, or put it off. A use at the state always is: it reads a
// step from the state as it is given.
static void begin_use(nsi_augmenter* a, uint32_t number) {
    const nsi_network_instance* use = &a->binding->instances[number];
    ns_expr *inputs, *conjugate;
    bool complete;
    if (!collect_values(a, number, &inputs, &conjugate, &complete)) return;
    if (use->at_state || !complete) {
        late_use late = {.use = number, .evaluation = a->evaluation};
        a->late_of[number] = a->late.count;
        if (!nsi_array_push(&a->graph->allocator, &a->late, late)) nsi_graph_fail_nomem(a->graph);
        return;
    }

    size_t squared = use->conjugate ? (size_t)use->noutput * use->noutput : 0;
    ns_expr* damping = squared > 0 ? alloc(a, squared, sizeof *damping) : NULL;
    ns_expr* outputs = trace_use(a, number, inputs, conjugate, damping);
    char name[OUTPUT_NAME];
    for (uint32_t k = 0; outputs && k < use->noutput; k++) {
        output_name(a->binding, use, k, name);
        outputs[k] = ns_quantity(name, outputs[k]);
    }
    if (damping && outputs) note_damping(use, conjugate, damping, outputs);
    a->outputs[number] = outputs;
}

// A placeholder for output k of a late use at x.
static ns_expr add_placeholder(nsi_augmenter* a, uint32_t late, uint32_t k, ns_expr x) {
    char name[40];
    snprintf(name, sizeof name, "placeholder/%u", a->placeholders.count);
    if (a->placeholders.count == 0) a->first_input = a->graph->inputs.count;
    late_output entry = {late, k, x};
    if (!nsi_array_push(&a->graph->allocator, &a->placeholders, entry)) {
        nsi_graph_fail_nomem(a->graph);
    }
    return ns_input(name);
}

static ns_expr augment(void* context, const char* name, ns_expr x) {
    nsi_augmenter* a = context;
    uint32_t output, use = nsi_binding_find_output(a->binding, name, &output);
    if (use != NSI_NONE && a->graph->error.status == NS_OK) {
        if (!a->outputs[use] && a->late_of[use] == NSI_NONE) begin_use(a, use);
        if (a->outputs[use]) {
            x = change_value(a->binding->instances[use].mode, x, a->outputs[use][output]);
        } else if (a->late_of[use] != NSI_NONE) {
            x = add_placeholder(a, a->late_of[use], output, x);
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

// Does a network or formula read or change a quantity with this prefix?
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

// This evaluation of the dynamics is complete: late uses get their inputs.
static void close_evaluation(nsi_augmenter* a) {
    for (; a->nclosed < a->late.count; a->nclosed++) {
        late_use* late = &a->late.data[a->nclosed];
        bool complete = true;
        if (!collect_values(a, late->use, &late->inputs, &late->conjugate, &complete)) return;
        if (complete || a->graph->error.status != NS_OK) continue;
        char name[OUTPUT_NAME];
        output_name(a->binding, &a->binding->instances[late->use], 0, name);
        nsi_graph_fail(a->graph, NS_ERR_STATE, "an input of \"%.200s\" is not part of the step",
                       name);
    }
}

void nsi_augmenter_begin(nsi_augmenter* a) {
    if (a->begun) {
        close_evaluation(a);
        a->evaluation++;
    }
    a->begun = true;
    for (uint32_t u = 0; u < a->binding->ninstance; u++) {
        a->outputs[u] = NULL;
        a->late_of[u] = NSI_NONE;
    }
    a->graph->damping.count = 0;
    for (uint32_t k = 0; k < a->nwatched; k++) a->watched[k].value.id = NSI_NONE;
    nsi_trace_hook(augment, a);
    nsi_trace_filter(augments_prefix);
}

// ---- networks in place of placeholders -------------------------------------------------------

// The outputs of a late use in the final graph.
static ns_expr* late_outputs(nsi_augmenter* a, nsi_substitution* s, uint32_t number,
                             uint32_t variant) {
    late_use late = a->late.data[number];
    if (late.outputs[variant]) return late.outputs[variant];
    const nsi_network_instance* use = &a->binding->instances[late.use];
    uint32_t seen = use->at_state ? STATE_AS_GIVEN : variant;
    ns_expr* inputs = alloc(a, use->ninput, sizeof *inputs);
    ns_expr* conjugate = alloc(a, use->noutput, sizeof *conjugate);
    if (!inputs || !conjugate) return NULL;
    for (uint32_t k = 0; k < use->ninput; k++) {
        inputs[k].id = nsi_substitute(s, late.inputs[k].id, seen);
    }
    for (uint32_t k = 0; use->conjugate && k < use->noutput; k++) {
        conjugate[k].id = nsi_substitute(s, late.conjugate[k].id, seen);
    }
    if (s->to->error.status != NS_OK) return NULL;

    ns_expr* outputs = trace_use(a, late.use, inputs, conjugate, NULL);
    for (uint32_t k = 0; outputs && k < use->noutput; k++) nsi_graph_round(s->to, outputs[k].id);
    a->late.data[number].outputs[variant] = outputs;
    return outputs;
}

static nsi_id late_value(void* context, nsi_substitution* s, uint32_t number, uint32_t variant) {
    nsi_augmenter* a = context;
    const late_output* at = &a->placeholders.data[number];
    const nsi_network_instance* use = &a->binding->instances[a->late.data[at->late].use];
    ns_expr x = {nsi_substitute(s, at->before.id, variant)};
    if (variant == STATE_AS_GIVEN && use->output_at_state[at->output]) return x.id;

    // As ns_quantity() does it, every number by itself.
    nsi_graph_round(s->to, x.id);
    ns_expr* outputs = late_outputs(a, s, at->late, variant);
    if (!outputs) return NSI_NONE;
    x = change_value(use->mode, x, outputs[at->output]);
    nsi_graph_round(s->to, x.id);
    return x.id;
}

// Quantities of the traced graph in the final one, then the outputs of late uses.
static void move_quantities(nsi_augmenter* a) {
    nsi_substitution* s = &a->resolved;
    // Quantities, as networks changed them.
    const nsi_ports* traced = &s->from->quantities;
    for (uint32_t k = 0; k < traced->count; k++) {
        nsi_port quantity = traced->data[k];
        quantity.node = nsi_substitute(s, quantity.node, AS_CHANGED);
        if (quantity.conjugate) {
            size_t size = strlen(quantity.conjugate);
            quantity.conjugate = nsi_arena_string(&s->to->arena, quantity.conjugate, size);
            if (!quantity.conjugate) nsi_graph_fail_nomem(s->to);
        }
        nsi_graph_quantity(s->to, &quantity);
    }

    // Outputs of late uses, each at the stage of the quantity that it changes.
    char name[OUTPUT_NAME];
    for (uint32_t i = 0; i < a->late.count; i++) {
        const nsi_network_instance* use = &a->binding->instances[a->late.data[i].use];
        const ns_expr* outputs = a->late.data[i].outputs[AS_CHANGED];
        if (a->late.data[i].evaluation > 0 || !outputs) continue;
        for (uint32_t k = 0; k < use->noutput; k++) {
            uint32_t target = nsi_graph_find(s->from, NSI_PORT_QUANTITY, use->outputs[k]);
            output_name(a->binding, use, k, name);
            nsi_graph_quantity(
                s->to, &(nsi_port){.name = name,
                                   .node = outputs[k].id,
                                   .unit = "",
                                   .stage = target == NSI_NONE ? 0 : traced->data[target].stage});
        }
    }
}

ns_graph* nsi_augmenter_resolve(nsi_augmenter* a) {
    close_evaluation(a);
    nsi_trace_hook(NULL, NULL);
    ns_graph* traced = a->graph;
    if (a->placeholders.count == 0 || traced->error.status != NS_OK) return traced;
    ns_status status =
        nsi_substitution_begin(traced, a->first_input, late_value, a, &a->resolved, &traced->error);
    if (status != NS_OK) return traced;

    // Networks are traced into the copy.
    ns_graph* final = a->resolved.to;
    ns_trace_end(NULL);
    status = ns_trace_begin(final, &traced->error);
    a->graph = final;
    if (status == NS_OK) nsi_substitution_finish(&a->resolved);

    // The binding has been checked. But where a network replaces a number instead of adding to it, what
    // is left of the physics can depend on what it replaced.
    if (a->resolved.cyclic != NSI_NONE) {
        const late_output* at = &a->placeholders.data[a->resolved.cyclic];
        const nsi_network_instance* use = &a->binding->instances[a->late.data[at->late].use];
        final->error.status = NS_OK;
        nsi_graph_fail(final, NS_ERR_ARGUMENT,
                       "what the network at \"%.200s\" reads is computed from it, since another"
                       " network has the mode replace or scale: use add there, or prev: here",
                       use->outputs[at->output]);
    }
    if (status == NS_OK) move_quantities(a);
    return final;
}

ns_expr nsi_augmenter_resolved(nsi_augmenter* a, ns_expr x) {
    return a->resolved.to ? (ns_expr){nsi_substitute(&a->resolved, x.id, AS_CHANGED)} : x;
}

void nsi_augmenter_finish(nsi_augmenter* a) {
    const ns_allocator* memory = &a->graph->allocator;
    nsi_index_free(memory, &a->index);
    nsi_array_free(memory, &a->late);
    nsi_array_free(memory, &a->placeholders);
    if (a->resolved.to) nsi_substitution_free(&a->resolved);
}

void nsi_augmenter_put_memory(nsi_augmenter* a) {
    char name[1024];
    for (uint32_t k = 0, n = 0; k < a->binding->nmemory; k++) {
        const nsi_binding_memory* kept = &a->binding->memory[k];
        for (uint32_t lag = 1; lag <= kept->depth; lag++) {
            snprintf(name, sizeof name, "memory/%s/%u", kept->name, lag);
            // watched[k] is memory k: they are watched first
            ns_expr value = lag == 1 ? a->watched[k].first : a->memory[n + lag - 2];
            ns_output(name, nsi_augmenter_resolved(a, value));
        }
        n += kept->depth;
    }
}
