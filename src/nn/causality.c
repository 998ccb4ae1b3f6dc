// A search in depth over the graph of the step, in which the probe of an output leads on to the inputs
// of its network: a node that is met again on the way to itself closes a cycle.

#include "nn/causality.h"

#include <stdio.h>

enum { WHITE, GREY, BLACK };

typedef struct visited_node {
    nsi_id node;
    uint32_t child; // the next one to visit
} visited_node;

typedef struct cycle_search {
    const ns_graph* graph;
    const nsi_causal_use* uses;
    const ns_allocator* memory;
    uint32_t* quantity; // (nodes) whose value or, of an output, whose probe a node is, or NSI_NONE
    uint32_t* use;      // (nodes) of a probe: the use that changes its quantity, or NSI_NONE
    uint8_t* colour;    // (nodes)
    NSI_ARRAY(visited_node) stack;
} cycle_search;

static nsi_id child_node(const cycle_search* c, nsi_id id, uint32_t k) {
    const nsi_node* node = &c->graph->nodes.data[id];
    if (c->use[id] != NSI_NONE) {
        const nsi_causal_use* use = &c->uses[c->use[id]];
        return k < use->ninput ? c->graph->quantities.data[use->inputs[k]].node : NSI_NONE;
    }
    if (node->op == NSI_BLOCK) {
        const nsi_block* block = &c->graph->blocks.data[node->a];
        return k < block->ninput ? block->inputs[k] : NSI_NONE;
    }
    return k < nsi_node_arity(node) ? nsi_node_operand(node, k) : NSI_NONE;
}

static void add_path(char* path, size_t size, const char* name, const char* arrow) {
    size_t length = strlen(path);
    snprintf(path + length, size - length, "%s%.100s", arrow, name);
}

// The cycle is stack[first..]; its last node leads back to its first.
static void describe_cycle(const cycle_search* c, uint32_t first, nsi_causal_cycle* out) {
    uint32_t count = c->stack.count - first, blamed = 0;
    out->use = NSI_NONE;
    for (uint32_t i = 0; i < count; i++) {
        nsi_id node = c->stack.data[first + i].node;
        if (c->use[node] == NSI_NONE || (out->use != NSI_NONE && c->use[node] < out->use)) continue;
        out->use = c->use[node];
        blamed = i;
    }
    out->input = c->stack.data[first + blamed].child - 1;
    out->reads = c->uses[out->use].inputs[out->input];

    // From the output to the input; of a long path the message has both ends.
    enum { TOLD = 4 };
    uint32_t quantities = 0, number = 0, last = NSI_NONE;
    for (uint32_t i = 0; i < count; i++) {
        quantities += c->quantity[c->stack.data[first + i].node] != NSI_NONE;
    }
    out->path[0] = '\0';
    for (uint32_t i = count; i-- > 0;) {
        nsi_id node = c->stack.data[first + (blamed + 1 + i) % count].node;
        uint32_t quantity = c->quantity[node];
        if (quantity == NSI_NONE) continue;
        if (number == 0) out->output = quantity;
        number++;
        if (quantity == last) continue; // its probe and its value
        last = quantity;
        const char* arrow = number == 1 ? "" : c->use[node] != NSI_NONE ? " => " : " -> ";
        if (number <= TOLD || number + TOLD > quantities) {
            add_path(out->path, sizeof out->path, c->graph->quantities.data[quantity].name, arrow);
        } else if (number == TOLD + 1) {
            add_path(out->path, sizeof out->path, "...", arrow);
        }
    }
}

// Visit everything that a node depends on; true when it depends on itself.
static bool find_cycle_from(cycle_search* c, nsi_id start, nsi_causal_cycle* out, bool* ok) {
    visited_node begin = {start, 0};
    *ok = nsi_array_push(c->memory, &c->stack, begin);
    c->colour[start] = GREY;
    while (*ok && c->stack.count > 0) {
        visited_node* top = &c->stack.data[c->stack.count - 1];
        nsi_id child = child_node(c, top->node, top->child++);
        if (child == NSI_NONE) {
            c->colour[top->node] = BLACK;
            c->stack.count--;
        } else if (c->colour[child] == GREY) {
            uint32_t first = c->stack.count - 1;
            while (c->stack.data[first].node != child) first--;
            describe_cycle(c, first, out);
            return true;
        } else if (c->colour[child] == WHITE) {
            visited_node next = {child, 0};
            c->colour[child] = GREY;
            *ok = nsi_array_push(c->memory, &c->stack, next);
        }
    }
    return false;
}

ns_status nsi_causality_check(const nsi_causality* causality, uint32_t nuse,
                              const nsi_causal_use* uses, nsi_causal_cycle* out, ns_error* error) {
    const ns_graph* g = causality->graph;
    size_t count = (size_t)g->nodes.count + 1;
    cycle_search c = {.graph = g, .uses = uses, .memory = &g->allocator};
    *out = (nsi_causal_cycle){.use = NSI_NONE};
    c.quantity = nsi_alloc(c.memory, count * sizeof *c.quantity);
    c.use = nsi_alloc(c.memory, count * sizeof *c.use);
    c.colour = nsi_alloc_zeroed(c.memory, count);
    bool ok = c.quantity && c.use && c.colour, found = false;

    // Which nodes are quantities, and at which of them networks are.
    for (size_t i = 0; ok && i < count; i++) c.quantity[i] = c.use[i] = NSI_NONE;
    for (uint32_t k = 0; ok && k < g->quantities.count; k++) {
        c.quantity[g->quantities.data[k].node] = k;
    }
    for (uint32_t u = 0; ok && u < nuse; u++) {
        for (uint32_t k = 0; k < uses[u].noutput; k++) {
            nsi_id probe = causality->probes[uses[u].outputs[k]];
            c.use[probe] = u;
            c.quantity[probe] = uses[u].outputs[k];
        }
    }

    // From the inputs of all uses.
    for (uint32_t u = 0; ok && !found && u < nuse; u++) {
        for (uint32_t k = 0; ok && !found && k < uses[u].noutput; k++) {
            nsi_id probe = causality->probes[uses[u].outputs[k]];
            if (c.colour[probe] == WHITE) found = find_cycle_from(&c, probe, out, &ok);
        }
    }

    nsi_array_free(c.memory, &c.stack);
    nsi_free(c.memory, c.quantity);
    nsi_free(c.memory, c.use);
    nsi_free(c.memory, c.colour);
    return ok ? NS_OK : nsi_fail_nomem(error);
}
