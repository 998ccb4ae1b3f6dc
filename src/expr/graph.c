// Storage of the expression graph: nodes, ports, blocks, copying.

#include "expr/graph.h"

#include "expr/block.h"
#include "expr/trace.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define COMMUTES NSI_FLAG_COMMUTES
#define MASK NSI_FLAG_MASK
#define HAZARD NSI_FLAG_HAZARD
const nsi_op_info nsi_ops[NSI_OP_COUNT] = {
#define OP(ENUM, name, arity, kind, flags, value, da, db, dc, edges)                               \
    {#name, #value, arity, NSI_KIND_##kind, flags},
#include "expr/ops.def"
#undef OP
};
#undef COMMUTES
#undef MASK
#undef HAZARD

nsi_id nsi_graph_fail(ns_graph* g, ns_status status, const char* format, ...) {
    if (g->error.status != NS_OK) return NSI_NONE;
    g->error.status = status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(g->error.message, sizeof g->error.message, format, arguments);
    va_end(arguments);
    return NSI_NONE;
}

nsi_id nsi_graph_fail_nomem(ns_graph* g) {
    if (g->error.status == NS_OK) nsi_fail_nomem(&g->error);
    return NSI_NONE;
}

ns_status ns_graph_create(const ns_allocator* allocator, ns_graph** out, ns_error* error) {
    *out = NULL;
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    ns_graph* g = nsi_alloc_zeroed(&memory, sizeof *g);
    if (!g) {
        nsi_fail_nomem(error);
        return NS_ERR_NOMEM;
    }
    g->allocator = memory;
    g->arena.allocator = memory;
    *out = g;
    return NS_OK;
}

void ns_graph_free(ns_graph* g) {
    if (!g) return;
    nsi_trace_forget(g);
    ns_allocator memory = g->allocator;
    for (uint32_t i = 0; i < g->blocks.count; i++) nsi_block_data_release(g->blocks.data[i].data);
    nsi_array_free(&memory, &g->nodes);
    nsi_array_free(&memory, &g->blocks);
    nsi_array_free(&memory, &g->inputs);
    nsi_array_free(&memory, &g->outputs);
    nsi_array_free(&memory, &g->quantities);
    nsi_array_free(&memory, &g->rounded);
    nsi_array_free(&memory, &g->damping);
    nsi_array_free(&memory, &g->arrays);
    nsi_array_free(&memory, &g->sinks);
    nsi_index_free(&memory, &g->index);
    nsi_index_free(&memory, &g->block_index);
    for (int kind = 0; kind < NSI_PORT_KINDS; kind++) nsi_index_free(&memory, &g->names[kind]);
    nsi_arena_free(&g->arena);
    nsi_free(&memory, g);
}

// ---- nodes ---------------------------------------------------------------------------------

// Two rounds of multiply and fold over the 16 bytes; called for every node built.
static uint32_t node_hash(const nsi_node* node) {
    uint64_t words[2];
    memcpy(words, node, sizeof words);
    uint64_t h = (words[0] ^ UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 32;
    h = (h ^ words[1]) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(h ^ (h >> 32));
}

static nsi_id append_node(ns_graph* g, nsi_node node) {
    if (g->nodes.count >= NSI_MAX_NODES) {
        return nsi_graph_fail(g, NS_ERR_LIMIT, "the graph has more than %d nodes", NSI_MAX_NODES);
    }
    if (!nsi_array_push(&g->allocator, &g->nodes, node)) return nsi_graph_fail_nomem(g);
    return g->nodes.count - 1;
}

nsi_id nsi_graph_intern(ns_graph* g, nsi_node node) {
    if (g->error.status != NS_OK) return NSI_NONE;
    uint32_t hash = node_hash(&node);
    uint32_t id;
    for (uint32_t at = nsi_index_first(&g->index, hash); nsi_index_at(&g->index, at, &id);
         at = nsi_index_next(&g->index, at)) {
        if (memcmp(&g->nodes.data[id], &node, sizeof node) == 0) return id;
    }
    id = append_node(g, node);
    if (id == NSI_NONE) return NSI_NONE;
    if (!nsi_index_insert(&g->allocator, &g->index, hash, id)) return nsi_graph_fail_nomem(g);
    return id;
}

nsi_id nsi_graph_const(ns_graph* g, double value) {
    // One NaN: its sign and payload differ between machines, and text does not tell them apart.
    nsi_node node = {.op = NSI_CONST};
    node.value = isnan(value) ? NAN : value;
    return nsi_graph_intern(g, node);
}

// ---- ports ---------------------------------------------------------------------------------

static const char* const port_kind_texts[NSI_PORT_KINDS] = {"input", "output", "array input",
                                                            "array output", "internal quantity"};

static const char* port_name_of(const ns_graph* g, nsi_port_kind kind, uint32_t number) {
    switch (kind) {
    case NSI_PORT_INPUT: return g->inputs.data[number].name;
    case NSI_PORT_OUTPUT: return g->outputs.data[number].name;
    case NSI_PORT_ARRAY: return g->arrays.data[number].name;
    case NSI_PORT_QUANTITY: return g->quantities.data[number].name;
    default: return g->sinks.data[number].name;
    }
}

uint32_t nsi_graph_find(const ns_graph* g, nsi_port_kind kind, const char* name) {
    const nsi_index* index = &g->names[kind];
    uint32_t number;
    for (uint32_t at = nsi_index_first(index, nsi_hash_bytes(name, strlen(name)));
         nsi_index_at(index, at, &number); at = nsi_index_next(index, at)) {
        if (strcmp(port_name_of(g, kind, number), name) == 0) return number;
    }
    return NSI_NONE;
}

// Check a new port's name, enter it under `number` and return a copy; NULL after failing the graph.
static const char* enter_name(ns_graph* g, nsi_port_kind kind, const char* name, uint32_t number) {
    if (g->error.status != NS_OK) return NULL;
    const char* what = port_kind_texts[kind];
    size_t length = name ? strlen(name) : 0;
    if (length == 0) {
        nsi_graph_fail(g, NS_ERR_ARGUMENT, "an %s needs a name", what);
        return NULL;
    }
    if (length >= NSI_MAX_NAME) {
        nsi_graph_fail(g, NS_ERR_LIMIT, "the name of an %s has %zu bytes; at most %d are allowed",
                       what, length, NSI_MAX_NAME - 1);
        return NULL;
    }
    if (nsi_graph_find(g, kind, name) != NSI_NONE) {
        nsi_graph_fail(g, NS_ERR_ARGUMENT,
                       "more than one %s is called \"%.200s\"; names must differ", what, name);
        return NULL;
    }
    const char* copy = nsi_arena_string(&g->arena, name, length);
    if (!copy ||
        !nsi_index_insert(&g->allocator, &g->names[kind], nsi_hash_bytes(name, length), number)) {
        nsi_graph_fail_nomem(g);
        return NULL;
    }
    return copy;
}

nsi_id nsi_graph_input(ns_graph* g, const char* name) {
    // Made before its name is entered, so that a name never stands for a missing port.
    nsi_port port = {.node = nsi_graph_intern(g, (nsi_node){.op = NSI_INPUT, .a = g->inputs.count}),
                     .unit = ""};
    if (!nsi_array_reserve(&g->allocator, &g->inputs, 1)) return nsi_graph_fail_nomem(g);
    port.name = enter_name(g, NSI_PORT_INPUT, name, g->inputs.count);
    if (!port.name) return NSI_NONE;
    g->inputs.data[g->inputs.count++] = port;
    return port.node;
}

static void add_port(ns_graph* g, nsi_port_kind kind, nsi_ports* list, nsi_port port) {
    if (g->error.status != NS_OK) return;
    if (port.node >= g->nodes.count) {
        nsi_graph_fail(g, NS_ERR_ARGUMENT, "%s \"%.200s\" is not an expression of this graph",
                       port_kind_texts[kind], port.name ? port.name : "");
        return;
    }
    if (!nsi_array_reserve(&g->allocator, list, 1)) {
        nsi_graph_fail_nomem(g);
        return;
    }
    port.name = enter_name(g, kind, port.name, list->count);
    if (port.name) list->data[list->count++] = port;
}

void nsi_graph_output(ns_graph* g, const char* name, nsi_id node) {
    add_port(g, NSI_PORT_OUTPUT, &g->outputs, (nsi_port){.name = name, .node = node, .unit = ""});
}

void nsi_graph_quantity(ns_graph* g, const nsi_port* quantity) {
    add_port(g, NSI_PORT_QUANTITY, &g->quantities, *quantity);
}

void nsi_graph_output_quantity(ns_graph* g, uint32_t number) {
    add_port(g, NSI_PORT_OUTPUT, &g->outputs, g->quantities.data[number]);
}

void nsi_graph_round(ns_graph* g, nsi_id node) {
    if (node == NSI_NONE || g->error.status != NS_OK) return;
    // A sign moves into sums (construct.c): what is behind it counts.
    if (g->nodes.data[node].op == NSI_NEG) node = g->nodes.data[node].a;
    if (g->nodes.data[node].op != NSI_MUL) return; // others round anyway
    if (!nsi_array_push(&g->allocator, &g->rounded, node)) nsi_graph_fail_nomem(g);
}

static uint32_t add_array(ns_graph* g, nsi_port_kind kind, nsi_arrays* list, const char* name,
                          uint32_t size, bool per_lane) {
    if (g->error.status != NS_OK) return NSI_NONE;
    if (size == 0 || size > NSI_MAX_ARRAY) {
        return nsi_graph_fail(g, NS_ERR_LIMIT, "%s \"%.200s\" has size %u; allowed are 1 to %d",
                              port_kind_texts[kind], name ? name : "", size, NSI_MAX_ARRAY);
    }
    if (!nsi_array_reserve(&g->allocator, list, 1)) return nsi_graph_fail_nomem(g);
    nsi_array_port port = {enter_name(g, kind, name, list->count), size, per_lane};
    if (!port.name) return NSI_NONE;
    list->data[list->count] = port;
    return list->count++;
}

uint32_t nsi_graph_array(ns_graph* g, const char* name, uint32_t size, bool per_lane) {
    return add_array(g, NSI_PORT_ARRAY, &g->arrays, name, size, per_lane);
}

uint32_t nsi_graph_sink(ns_graph* g, const char* name, uint32_t size, bool per_lane) {
    return add_array(g, NSI_PORT_SINK, &g->sinks, name, size, per_lane);
}

uint32_t ns_graph_input_count(const ns_graph* g) {
    return g->inputs.count;
}
uint32_t ns_graph_output_count(const ns_graph* g) {
    return g->outputs.count;
}
uint32_t ns_graph_array_count(const ns_graph* g) {
    return g->arrays.count;
}
uint32_t ns_graph_sink_count(const ns_graph* g) {
    return g->sinks.count;
}

const char* ns_graph_input_name(const ns_graph* g, uint32_t number) {
    return number < g->inputs.count ? g->inputs.data[number].name : NULL;
}

const char* ns_graph_output_name(const ns_graph* g, uint32_t number) {
    return number < g->outputs.count ? g->outputs.data[number].name : NULL;
}

const char* ns_graph_array_name(const ns_graph* g, uint32_t number) {
    return number < g->arrays.count ? g->arrays.data[number].name : NULL;
}

const char* ns_graph_sink_name(const ns_graph* g, uint32_t number) {
    return number < g->sinks.count ? g->sinks.data[number].name : NULL;
}

uint32_t ns_graph_array_size(const ns_graph* g, uint32_t number) {
    return number < g->arrays.count ? g->arrays.data[number].size : 0;
}

uint32_t ns_graph_sink_size(const ns_graph* g, uint32_t number) {
    return number < g->sinks.count ? g->sinks.data[number].size : 0;
}

// ---- blocks --------------------------------------------------------------------------------

void nsi_block_data_retain(nsi_block_data* data) {
    if (data) atomic_fetch_add(&data->references, 1);
}

void nsi_block_data_release(nsi_block_data* data) {
    if (data && atomic_fetch_sub(&data->references, 1) == 1) data->free(data);
}

static uint32_t block_hash(const nsi_block* block) {
    uint32_t rest[] = {nsi_hash_bytes(block->inputs, block->ninput * sizeof *block->inputs),
                       nsi_hash_bytes(block->params, sizeof block->params), block->source,
                       block->source_offset};
    return nsi_hash_bytes(rest, sizeof rest);
}

static bool blocks_equal(const nsi_block* p, const nsi_block* q) {
    return p->kind == q->kind && p->data == q->data &&
           memcmp(p->params, q->params, sizeof p->params) == 0 && p->source == q->source &&
           p->source_offset == q->source_offset && p->sink == q->sink && p->ninput == q->ninput &&
           memcmp(p->inputs, q->inputs, p->ninput * sizeof *p->inputs) == 0;
}

// Does [offset, offset + length) lie inside array `number` of `list`? `length` 0: no array wanted.
static bool range_fits(const nsi_arrays* list, uint32_t number, uint32_t offset, uint32_t length) {
    if (length == 0) return number == NSI_NONE;
    return number < list->count && offset <= list->data[number].size &&
           length <= list->data[number].size - offset;
}

nsi_id nsi_graph_block(ns_graph* g, const nsi_block* request) {
    if (g->error.status != NS_OK) return NSI_NONE;
    // The request may refer to temporary memory.
    nsi_block block = *request;
    const char* name = block.kind->name;

    // Sizes must match the parameters of the kind.
    nsi_block_sizes sizes;
    if (!block.kind->sizes(block.params, &sizes) || sizes.ninput != block.ninput) {
        return nsi_graph_fail(g, NS_ERR_ARGUMENT,
                              "block %s: its parameters do not fit its %u inputs", name,
                              block.ninput);
    }
    block.noutput = sizes.noutput;
    if (block.kind->has_data != (block.data != NULL)) {
        return nsi_graph_fail(g, NS_ERR_UNSUPPORTED,
                              "block %s has tables, which the text of a graph does not hold", name);
    }

    // Ranges of arrays must be in bounds.
    if (!range_fits(&g->arrays, block.source, block.source_offset, sizes.source)) {
        return nsi_graph_fail(g, NS_ERR_ARGUMENT,
                              "block %s needs an array of %u elements from offset %u on", name,
                              sizes.source, block.source_offset);
    }
    if (!range_fits(&g->sinks, block.sink, block.sink_offset, sizes.sink)) {
        return nsi_graph_fail(g, NS_ERR_ARGUMENT,
                              "block %s needs an array output of %u elements from offset %u on",
                              name, sizes.sink, block.sink_offset);
    }

    // Inputs must belong to this graph.
    for (uint32_t i = 0; i < block.ninput; i++) {
        if (block.inputs[i] >= g->nodes.count) {
            return nsi_graph_fail(g, NS_ERR_ARGUMENT,
                                  "input %u of block %s is not an expression of this graph", i,
                                  name);
        }
    }

    // Hash-consing: an equal block without side effects is the same block.
    uint32_t hash = block_hash(&block), id;
    if (block.sink == NSI_NONE) {
        for (uint32_t at = nsi_index_first(&g->block_index, hash);
             nsi_index_at(&g->block_index, at, &id); at = nsi_index_next(&g->block_index, at)) {
            if (blocks_equal(&g->blocks.data[g->nodes.data[id].a], &block)) return id;
        }
    }

    // Copy the inputs into the graph, and append the block with its node.
    nsi_id* inputs = nsi_arena_alloc(&g->arena, block.ninput * sizeof *inputs);
    if (!inputs) return nsi_graph_fail_nomem(g);
    memcpy(inputs, block.inputs, block.ninput * sizeof *inputs);
    block.inputs = inputs;
    if (!nsi_array_push(&g->allocator, &g->blocks, block)) return nsi_graph_fail_nomem(g);
    nsi_block_data_retain(block.data);
    id = append_node(g, (nsi_node){.op = NSI_BLOCK, .a = g->blocks.count - 1});
    if (id == NSI_NONE) return NSI_NONE;
    // Blocks that write to a sink are never merged.
    if (block.sink == NSI_NONE && !nsi_index_insert(&g->allocator, &g->block_index, hash, id)) {
        return nsi_graph_fail_nomem(g);
    }
    return id;
}

nsi_id nsi_graph_out(ns_graph* g, nsi_id block_node, uint32_t output) {
    if (block_node == NSI_NONE) return NSI_NONE;
    nsi_node node = {.op = NSI_OUT, .a = block_node};
    node.b = output;
    return nsi_graph_intern(g, node);
}

// ---- whole graphs --------------------------------------------------------------------------

void nsi_graph_mark_live(const ns_graph* g, uint8_t* live) {
    memset(live, 0, g->nodes.count);
    for (uint32_t k = 0; k < g->outputs.count; k++) live[g->outputs.data[k].node] = 1;
    for (uint32_t i = g->nodes.count; i-- > 0;) {
        const nsi_node* node = &g->nodes.data[i];
        if (node->op == NSI_BLOCK) {
            const nsi_block* block = &g->blocks.data[node->a];
            if (block->sink != NSI_NONE) live[i] = 1;
            if (!live[i]) continue;
            for (uint32_t k = 0; k < block->ninput; k++) live[block->inputs[k]] = 1;
        } else if (live[i]) {
            for (uint32_t k = 0; k < nsi_node_arity(node); k++) live[nsi_node_operand(node, k)] = 1;
        }
    }
}

uint32_t ns_graph_op_count(const ns_graph* g) {
    uint32_t count = 0;
    uint8_t* live = nsi_alloc(&g->allocator, g->nodes.count + 1);
    if (!live) return 0;
    nsi_graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        uint32_t op = g->nodes.data[i].op;
        count += live[i] && op != NSI_CONST && op != NSI_INPUT && op != NSI_OUT;
    }
    nsi_free(&g->allocator, live);
    return count;
}

ns_status nsi_graph_clone_ports(const ns_graph* g, ns_graph** out, ns_error* error) {
    ns_status status = ns_graph_create(&g->allocator, out, error);
    if (status != NS_OK) return status;
    ns_graph* copy = *out;
    for (uint32_t i = 0; i < g->inputs.count; i++) nsi_graph_input(copy, g->inputs.data[i].name);
    for (uint32_t i = 0; i < g->arrays.count; i++) {
        const nsi_array_port* array = &g->arrays.data[i];
        nsi_graph_array(copy, array->name, array->size, array->per_lane);
    }
    for (uint32_t i = 0; i < g->sinks.count; i++) {
        const nsi_array_port* sink = &g->sinks.data[i];
        nsi_graph_sink(copy, sink->name, sink->size, sink->per_lane);
    }
    return nsi_graph_finish(out, error);
}

ns_status nsi_graph_finish(ns_graph** graph, ns_error* error) {
    ns_graph* g = *graph;
    if (g->error.status == NS_OK) return NS_OK;
    ns_status status = g->error.status;
    if (error) *error = g->error;
    ns_graph_free(g);
    *graph = NULL;
    return status;
}

nsi_id nsi_graph_copy_block(const nsi_block* block, ns_graph* to, const nsi_id* map) {
    nsi_id* inputs = nsi_alloc(&to->allocator, (block->ninput + 1) * sizeof *inputs);
    if (!inputs) return nsi_graph_fail_nomem(to);
    for (uint32_t k = 0; k < block->ninput; k++) inputs[k] = map[block->inputs[k]];
    nsi_block copy = *block;
    copy.inputs = inputs;
    nsi_id id = nsi_graph_block(to, &copy);
    nsi_free(&to->allocator, inputs);
    return id;
}

nsi_id nsi_graph_copy_node(const ns_graph* from, nsi_id id, ns_graph* to, const nsi_id* map) {
    const nsi_node* node = &from->nodes.data[id];
    if (node->op == NSI_INPUT) return to->inputs.data[node->a].node; // there already
    if (node->op == NSI_CONST) return nsi_graph_const(to, node->value);
    if (node->op == NSI_BLOCK) return nsi_graph_copy_block(&from->blocks.data[node->a], to, map);
    if (node->op == NSI_OUT) return nsi_graph_out(to, map[node->a], node->b);
    nsi_id mapped[3] = {NSI_NONE, NSI_NONE, NSI_NONE};
    for (uint32_t k = 0; k < nsi_node_arity(node); k++) {
        mapped[k] = map[nsi_node_operand(node, k)];
    }
    return nsi_make(to, node->op, mapped[0], mapped[1], mapped[2]);
}

void nsi_graph_copy_nodes(const ns_graph* from, ns_graph* to, nsi_id* map) {
    // Dead nodes are not copied.
    uint8_t* live = nsi_alloc(&to->allocator, from->nodes.count + 1);
    if (!live) {
        nsi_graph_fail_nomem(to);
        return;
    }
    nsi_graph_mark_live(from, live);

    // Inputs exist already; other nodes are made again, which may simplify them.
    for (uint32_t i = 0; i < from->nodes.count && to->error.status == NS_OK; i++) {
        bool copied = live[i] || from->nodes.data[i].op == NSI_INPUT;
        map[i] = copied ? nsi_graph_copy_node(from, i, to, map) : NSI_NONE;
    }

    // Nodes that must be rounded on their own stay so.
    for (uint32_t k = 0; k < from->rounded.count && to->error.status == NS_OK; k++) {
        nsi_graph_round(to, map[from->rounded.data[k]]);
    }
    nsi_free(&to->allocator, live);
}
