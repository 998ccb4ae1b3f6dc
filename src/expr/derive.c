// Differentiation of whole graphs (ns_graph_jvp, ns_graph_vjp) and inside a trace (ns_gradient):
// which inputs, which names, which arrays; the rules themselves are in diff.c.

#include "expr/diff.h"
#include "expr/trace.h"

#include <stdio.h>

ns_diff_options ns_default_diff_options(void) {
    return (ns_diff_options){0};
}

// A derivative in the making: the copy of the graph and what belongs to its nodes.
typedef struct derivation {
    ns_graph* g;
    uint8_t* wanted;  // per input of the original: differentiate for it?
    nsi_id* map;      // original node -> node of g
    nsi_id* outputs;  // original output -> node of g
    uint32_t* arrays; // per array input of the original: its partner, or NSI_NONE
    uint32_t* sinks;  // per array output of the original: its partner, or NSI_NONE
} derivation;

static void derivation_free(const ns_allocator* memory, derivation* d) {
    nsi_free(memory, d->wanted);
    nsi_free(memory, d->map);
    nsi_free(memory, d->outputs);
    nsi_free(memory, d->arrays);
    nsi_free(memory, d->sinks);
}

// Copy the graph and note which inputs are to be differentiated for.
static ns_status derivation_begin(const ns_graph* graph, const ns_diff_options* options,
                                  derivation* d, ns_error* error) {
    const ns_allocator* memory = &graph->allocator;
    // An invalid graph has no derivative.
    if (graph->error.status != NS_OK) {
        if (error) *error = graph->error;
        return graph->error.status;
    }
    // Lowering replaces functions by operations on bits, which have no derivative.
    if (graph->lowered) {
        return nsi_fail(
            error, NS_ERR_UNSUPPORTED,
            "a lowered graph cannot be differentiated: rounding and bits of numbers stand"
            " for functions in it; differentiate first, then lower");
    }

    // Memory for ports and for the map from old to new nodes.
    uint32_t ninput = graph->inputs.count;
    d->wanted = nsi_alloc_zeroed(memory, (size_t)ninput + 1);
    d->map = nsi_alloc(memory, ((size_t)graph->nodes.count + 1) * sizeof(nsi_id));
    d->outputs = nsi_alloc(memory, ((size_t)graph->outputs.count + 1) * sizeof(nsi_id));
    d->arrays = nsi_alloc(memory, ((size_t)graph->arrays.count + 1) * sizeof(uint32_t));
    d->sinks = nsi_alloc(memory, ((size_t)graph->sinks.count + 1) * sizeof(uint32_t));
    if (!d->wanted || !d->map || !d->outputs || !d->arrays || !d->sinks) {
        return nsi_fail_nomem(error);
    }

    // Inputs to differentiate with respect to: those listed, or all.
    for (uint32_t i = 0; !options->wrt && i < ninput; i++) d->wanted[i] = !options->skip_inputs;
    for (uint32_t k = 0; options->wrt && k < options->nwrt; k++) {
        if (options->wrt[k] >= ninput) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "wrt[%u] is input number %u, but the graph has %u inputs", k,
                            options->wrt[k], ninput);
        }
        d->wanted[options->wrt[k]] = 1;
    }

    // Arrays and sinks have no partner yet.
    for (uint32_t i = 0; i < graph->arrays.count; i++) d->arrays[i] = NSI_NONE;
    for (uint32_t i = 0; i < graph->sinks.count; i++) d->sinks[i] = NSI_NONE;

    // Values come first in the derived graph, so that derivatives can reuse them.
    ns_status status = nsi_graph_clone_ports(graph, &d->g, error);
    if (status != NS_OK) return status;
    nsi_graph_copy_nodes(graph, d->g, d->map);
    for (uint32_t k = 0; k < graph->outputs.count && d->g->error.status == NS_OK; k++) {
        d->outputs[k] = d->map[graph->outputs.data[k].node];
        // Values may be omitted as outputs, but not as nodes.
        if (!options->skip_value) {
            nsi_graph_output(d->g, graph->outputs.data[k].name, d->outputs[k]);
        }
    }
    return NS_OK;
}

static ns_status derivation_end(const ns_graph* graph, derivation* d, ns_status status,
                                ns_graph** out, ns_error* error) {
    derivation_free(&graph->allocator, d);
    if (status != NS_OK) {
        ns_graph_free(d->g);
        return status;
    }
    *out = d->g;
    status = nsi_graph_finish(out, error);
    if (status == NS_OK) NSI_DEBUG_VALIDATE(*out);
    return status;
}

// ---- names ---------------------------------------------------------------------------------

enum { PREFIXED_NAME = NSI_MAX_NAME + 32 };

// "d:x"; "d2:x", "d3:x"... for order 2, 3...
static const char* prefixed(char buffer[PREFIXED_NAME], const char* prefix, uint32_t order,
                            const char* name) {
    if (order == 1) {
        snprintf(buffer, PREFIXED_NAME, "%s:%s", prefix, name);
    } else {
        snprintf(buffer, PREFIXED_NAME, "%s%u:%s", prefix, order, name);
    }
    return buffer;
}

// Is a name with this prefix taken among ports of kind `where` for any port of kind `whose`?
static bool prefix_taken(const ns_graph* graph, const char* prefix, uint32_t order,
                         nsi_port_kind whose, nsi_port_kind where) {
    char buffer[PREFIXED_NAME];
    for (uint32_t i = 0;; i++) {
        const char* name = whose == NSI_PORT_INPUT    ? ns_graph_input_name(graph, i)
                           : whose == NSI_PORT_OUTPUT ? ns_graph_output_name(graph, i)
                           : whose == NSI_PORT_ARRAY  ? ns_graph_array_name(graph, i)
                                                      : ns_graph_sink_name(graph, i);
        if (!name) return false;
        if (nsi_graph_find(graph, where, prefixed(buffer, prefix, order, name)) != NSI_NONE) {
            return true;
        }
    }
}

// ---- forward -------------------------------------------------------------------------------

static uint32_t forward_order(const ns_graph* graph) {
    uint32_t order = 1;
    while (prefix_taken(graph, "d", order, NSI_PORT_INPUT, NSI_PORT_INPUT) ||
           prefix_taken(graph, "d", order, NSI_PORT_OUTPUT, NSI_PORT_OUTPUT) ||
           prefix_taken(graph, "d", order, NSI_PORT_ARRAY, NSI_PORT_ARRAY) ||
           prefix_taken(graph, "d", order, NSI_PORT_SINK, NSI_PORT_SINK)) {
        order++;
    }
    return order;
}

static void derive_forward(const ns_graph* graph, const ns_diff_options* options, derivation* d) {
    ns_graph* g = d->g;
    char name[PREFIXED_NAME];
    // Names of repeated derivatives are numbered.
    uint32_t order = forward_order(graph);

    // Tangent arrays of arrays and sinks.
    for (uint32_t i = 0; i < graph->arrays.count && !options->skip_arrays; i++) {
        const nsi_array_port* array = &graph->arrays.data[i];
        d->arrays[i] = nsi_graph_array(g, prefixed(name, "d", order, array->name), array->size,
                                       array->per_lane || options->per_lane);
    }
    // Sinks are outputs, and so are their tangents.
    for (uint32_t i = 0; i < graph->sinks.count; i++) {
        const nsi_array_port* sink = &graph->sinks.data[i];
        d->sinks[i] = nsi_graph_sink(g, prefixed(name, "d", order, sink->name), sink->size,
                                     sink->per_lane || options->per_lane);
    }

    // Tangents of the inputs are new inputs.
    uint32_t first = g->inputs.count;
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        if (d->wanted[i]) {
            nsi_graph_input(g, prefixed(name, "d", order, graph->inputs.data[i].name));
        }
    }

    if (g->error.status != NS_OK) return;

    // Propagate tangents from the inputs to all nodes.
    uint32_t count = g->nodes.count;
    nsi_id* tangent = nsi_alloc(&g->allocator, ((size_t)count + 1) * sizeof *tangent);
    if (!tangent) {
        nsi_graph_fail_nomem(g);
        return;
    }
    // NSI_NONE means a tangent of zero.
    for (uint32_t i = 0; i < count; i++) tangent[i] = NSI_NONE;
    // Seed the tangents of the wanted inputs.
    for (uint32_t i = 0, next = first; i < graph->inputs.count; i++) {
        if (d->wanted[i]) tangent[g->inputs.data[i].node] = g->inputs.data[next++].node;
    }
    nsi_diff_forward(g, tangent, d->arrays, d->sinks);

    // Tangents of the outputs are the outputs of the derived graph.
    for (uint32_t k = 0; k < graph->outputs.count && g->error.status == NS_OK; k++) {
        nsi_id t = tangent[d->outputs[k]];
        nsi_graph_output(g, prefixed(name, "d", order, graph->outputs.data[k].name),
                         t == NSI_NONE ? nsi_graph_const(g, 0.0) : t);
    }
    nsi_free(&g->allocator, tangent);
}

ns_status ns_graph_jvp(const ns_graph* graph, const ns_diff_options* options, ns_graph** out,
                       ns_error* error) {
    *out = NULL;
    ns_diff_options defaults = ns_default_diff_options();
    if (!options) options = &defaults;
    derivation d = {0};
    ns_status status = derivation_begin(graph, options, &d, error);
    if (status == NS_OK && d.g && d.g->error.status == NS_OK) derive_forward(graph, options, &d);
    return derivation_end(graph, &d, status, out, error);
}

// ---- reverse -------------------------------------------------------------------------------

static uint32_t reverse_order(const ns_graph* graph) {
    uint32_t order = 1;
    while (prefix_taken(graph, "seed", order, NSI_PORT_OUTPUT, NSI_PORT_INPUT) ||
           prefix_taken(graph, "d", order, NSI_PORT_INPUT, NSI_PORT_OUTPUT) ||
           prefix_taken(graph, "seed", order, NSI_PORT_SINK, NSI_PORT_ARRAY) ||
           prefix_taken(graph, "d", order, NSI_PORT_ARRAY, NSI_PORT_SINK)) {
        order++;
    }
    return order;
}

static void derive_reverse(const ns_graph* graph, const ns_diff_options* options, derivation* d) {
    ns_graph* g = d->g;
    char name[PREFIXED_NAME];
    // Names of repeated derivatives are numbered.
    uint32_t order = reverse_order(graph);

    // Gradients of arrays are sinks, and seeds of sinks are arrays.
    for (uint32_t i = 0; i < graph->arrays.count && !options->skip_arrays; i++) {
        const nsi_array_port* array = &graph->arrays.data[i];
        d->arrays[i] = nsi_graph_sink(g, prefixed(name, "d", order, array->name), array->size,
                                      array->per_lane || options->per_lane);
    }
    for (uint32_t i = 0; i < graph->sinks.count; i++) {
        const nsi_array_port* sink = &graph->sinks.data[i];
        d->sinks[i] = nsi_graph_array(g, prefixed(name, "seed", order, sink->name), sink->size,
                                      sink->per_lane);
    }

    // Seeds of the outputs are new inputs.
    uint32_t first = g->inputs.count;
    for (uint32_t k = 0; k < graph->outputs.count; k++) {
        nsi_graph_input(g, prefixed(name, "seed", order, graph->outputs.data[k].name));
    }
    if (g->error.status != NS_OK) return;

    // Propagate adjoints from the seeds.
    uint32_t count = g->nodes.count;
    nsi_id* adjoint = nsi_alloc(&g->allocator, ((size_t)count + 1) * sizeof *adjoint);
    uint8_t* wanted = nsi_alloc_zeroed(&g->allocator, (size_t)count + 1);
    if (adjoint && wanted) {
        for (uint32_t i = 0; i < count; i++) adjoint[i] = NSI_NONE;
        // Only paths to wanted inputs are followed.
        for (uint32_t i = 0; i < graph->inputs.count; i++) {
            wanted[g->inputs.data[i].node] = d->wanted[i];
        }
        for (uint32_t k = 0; k < graph->outputs.count; k++) {
            // One node may be several outputs.
            nsi_id node = d->outputs[k], seed = g->inputs.data[first + k].node;
            adjoint[node] = adjoint[node] == NSI_NONE
                                ? seed
                                : nsi_make(g, NSI_ADD, adjoint[node], seed, NSI_NONE);
        }
        nsi_diff_reverse(g, count, adjoint, wanted, d->sinks, d->arrays);

    } else {
        nsi_graph_fail_nomem(g);
    }

    // Adjoints of the inputs are the gradient; 0 where no output depends on an input.
    for (uint32_t i = 0; adjoint && i < graph->inputs.count && g->error.status == NS_OK; i++) {
        if (!d->wanted[i]) continue;
        nsi_id bar = adjoint[g->inputs.data[i].node];
        nsi_graph_output(g, prefixed(name, "d", order, graph->inputs.data[i].name),
                         bar == NSI_NONE ? nsi_graph_const(g, 0.0) : bar);
    }
    nsi_free(&g->allocator, adjoint);
    nsi_free(&g->allocator, wanted);
}

ns_status ns_graph_vjp(const ns_graph* graph, const ns_diff_options* options, ns_graph** out,
                       ns_error* error) {
    *out = NULL;
    ns_diff_options defaults = ns_default_diff_options();
    if (!options) options = &defaults;
    derivation d = {0};
    ns_status status = derivation_begin(graph, options, &d, error);
    if (status == NS_OK && d.g && d.g->error.status == NS_OK) derive_reverse(graph, options, &d);
    return derivation_end(graph, &d, status, out, error);
}

// ---- inside a trace ------------------------------------------------------------------------

void ns_gradient(ns_expr y, uint32_t n, const ns_expr* x, ns_expr* dydx) {
    // On failure, results are invalid expressions and the graph holds the error.
    for (uint32_t i = 0; i < n; i++) dydx[i] = (ns_expr){NSI_NONE};
    ns_graph* g = nsi_trace_graph();
    if (!g || g->error.status != NS_OK) return;

    // All expressions must belong to this graph.
    bool valid = y.id < g->nodes.count;
    for (uint32_t i = 0; i < n; i++) valid = valid && x[i].id < g->nodes.count;
    if (!valid) {
        nsi_graph_fail(g, NS_ERR_ARGUMENT, "ns_gradient: not an expression of this graph");
        return;
    }

    // Reverse mode over the part of the graph that leads to y.
    uint32_t count = y.id + 1; // what comes later cannot matter
    // Arrays are not differentiated here.
    uint32_t narray = g->arrays.count > g->sinks.count ? g->arrays.count : g->sinks.count;
    nsi_id* adjoint = nsi_alloc(&g->allocator, (size_t)count * sizeof *adjoint);
    uint8_t* wanted = nsi_alloc_zeroed(&g->allocator, count);
    uint32_t* none = nsi_alloc(&g->allocator, ((size_t)narray + 1) * sizeof *none);
    if (adjoint && wanted && none) {
        for (uint32_t i = 0; i < count; i++) adjoint[i] = NSI_NONE;
        for (uint32_t i = 0; i < narray; i++) none[i] = NSI_NONE;
        // Independent variables may be intermediate nodes.
        for (uint32_t i = 0; i < n; i++) {
            if (x[i].id < count) wanted[x[i].id] = 1;
        }
        // The seed: dy/dy = 1.
        adjoint[y.id] = nsi_graph_const(g, 1.0);
        nsi_diff_reverse(g, count, adjoint, wanted, none, none);

        // Expressions that do not affect y have a zero derivative.
        for (uint32_t i = 0; i < n && g->error.status == NS_OK; i++) {
            nsi_id bar = x[i].id < count ? adjoint[x[i].id] : NSI_NONE;
            dydx[i].id = bar == NSI_NONE ? nsi_graph_const(g, 0.0) : bar;
        }
    } else {
        nsi_graph_fail_nomem(g);
    }

    nsi_free(&g->allocator, adjoint);
    nsi_free(&g->allocator, wanted);
    nsi_free(&g->allocator, none);
}
