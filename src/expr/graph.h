// The expression graph: one append-only array of fixed-size nodes, built by hash-consing.
//
// A node's operands have smaller indices, so index order is topological order. Building the same
// node twice gives the same index; constants fold and exact identities apply at construction
// (construct.c). A graph is also a function: named scalar inputs and outputs, plus arrays, which
// only blocks read (array inputs) or add to (array outputs).

#ifndef NSI_GRAPH_H
#define NSI_GRAPH_H

#include "base/common.h"
#include "neuralsim/expr.h"

typedef uint32_t nsi_id; // index of a node; NSI_NONE is no node

typedef enum nsi_op {
#define OP(ENUM, name, arity, kind, flags, value, da, db, dc, edges) NSI_##ENUM,
#include "expr/ops.def"
#undef OP
    NSI_OP_COUNT
} nsi_op;

typedef enum nsi_op_kind { NSI_KIND_LEAF, NSI_KIND_PRIM, NSI_KIND_LOWER } nsi_op_kind;

enum { NSI_FLAG_COMMUTES = 1, NSI_FLAG_MASK = 2, NSI_FLAG_HAZARD = 4 };

typedef struct nsi_op_info {
    const char* name;
    const char* value; // the C expression
    uint8_t arity, kind, flags;
} nsi_op_info;

extern const nsi_op_info nsi_ops[NSI_OP_COUNT];

// 16 bytes. CONST uses `value`; INPUT: a = input number; BLOCK: a = block number;
// OUT: a = id of the BLOCK node, b = output number.
typedef struct nsi_node {
    uint32_t op;
    nsi_id a;
    union {
        struct {
            nsi_id b, c;
        };
        double value;
    };
} nsi_node;

_Static_assert(sizeof(nsi_node) == 16, "four nodes to a cache line");

typedef struct nsi_port { // a scalar input, output or quantity
    const char* name;
    nsi_id node;
    const char* unit;      // of a quantity, and of an output that is one; "" for none
    int stage;             // of a quantity: what nsi_trace_stage() was told last
    const char* conjugate; // of a force: the velocity along which it acts, a quantity; or NULL
} nsi_port;

typedef struct nsi_array_port { // an array input or output
    const char* name;
    uint32_t size;
    bool per_lane; // [size][lanes]; otherwise [size], read by all lanes or summed over them
} nsi_array_port;

struct nsi_block_kind;
struct nsi_block_data;

enum { NSI_BLOCK_PARAMS = 3 };

// One use of a block: see block.h.
typedef struct nsi_block {
    const struct nsi_block_kind* kind;
    uint32_t params[NSI_BLOCK_PARAMS]; // those that the kind has not are 0
    uint32_t ninput, noutput;
    const nsi_id* inputs;           // in the graph's arena
    uint32_t source, source_offset; // array input read, from where on; or NSI_NONE
    uint32_t sink, sink_offset;     // array output added to, from where on; or NSI_NONE
    struct nsi_block_data* data;    // tables and programs of its own (block.h), or NULL
} nsi_block;

typedef NSI_ARRAY(nsi_port) nsi_ports;
typedef NSI_ARRAY(nsi_array_port) nsi_arrays;

// The lists of named things.
typedef enum nsi_port_kind {
    NSI_PORT_INPUT,
    NSI_PORT_OUTPUT,
    NSI_PORT_ARRAY,
    NSI_PORT_SINK,
    NSI_PORT_QUANTITY,
    NSI_PORT_KINDS
} nsi_port_kind;

// A part -coefficient * velocity of a force, which acts along another velocity. The coefficients of all
// terms make a positive semidefinite matrix.
typedef struct nsi_damping_term {
    nsi_id force;     // expression that the term is part of
    nsi_id along, of; // velocity along which it acts, velocity that it resists
    nsi_id coefficient;
} nsi_damping_term;

struct ns_graph {
    ns_allocator allocator;
    nsi_arena arena; // names, block operands
    NSI_ARRAY(nsi_node) nodes;
    nsi_index index; // of nodes, by content
    NSI_ARRAY(nsi_block) blocks;
    nsi_index block_index; // BLOCK nodes by content of their block
    nsi_ports inputs, outputs;
    nsi_ports quantities;                // named intermediate results (ns_quantity)
    NSI_ARRAY(nsi_id) rounded;           // nodes that are rounded before they are used (contract.c)
    NSI_ARRAY(nsi_damping_term) damping; // of forces, while a step is traced (nsi_trace_damping())
    nsi_arrays arrays, sinks;            // array inputs, array outputs
    nsi_index names[NSI_PORT_KINDS];
    bool lowered;   // in primitive operations: runs, but is not to be differentiated
    ns_error error; // first failure while building; everything after it is ignored
};

// Limits that keep 32-bit arithmetic on sizes safe; far above anything useful.
enum { NSI_MAX_NODES = 1 << 28, NSI_MAX_NAME = 1 << 10, NSI_MAX_ARRAY = 1 << 28 };

// ---- graph.c -------------------------------------------------------------------------------

// Find or append this very node, without simplification.
nsi_id nsi_graph_intern(ns_graph* g, nsi_node node);

nsi_id nsi_graph_const(ns_graph* g, double value);
nsi_id nsi_graph_input(ns_graph* g, const char* name);
void nsi_graph_output(ns_graph* g, const char* name, nsi_id node);

// A named intermediate result. The unit must outlive the graph.
void nsi_graph_quantity(ns_graph* g, const nsi_port* quantity);

// A quantity becomes an output of the same name and unit.
void nsi_graph_output_quantity(ns_graph* g, uint32_t number);

// The value of this node is to be rounded by itself: products are not fused into sums. So what a
// network of output zero adds to a quantity changes no bit.
void nsi_graph_round(ns_graph* g, nsi_id node);
uint32_t nsi_graph_array(ns_graph* g, const char* name, uint32_t size, bool per_lane);
uint32_t nsi_graph_sink(ns_graph* g, const char* name, uint32_t size, bool per_lane);

// Number of the port of this kind with this name, or NSI_NONE.
uint32_t nsi_graph_find(const ns_graph* g, nsi_port_kind kind, const char* name);

// Make the first failure stick; returns NSI_NONE so that a builder can return it.
nsi_id nsi_graph_fail(ns_graph* g, ns_status status, const char* format, ...) NSI_PRINTF(3, 4);
nsi_id nsi_graph_fail_nomem(ns_graph* g);

// Number of operands that are node ids (OUT has one: its BLOCK).
static inline uint32_t nsi_node_arity(const nsi_node* node) {
    return node->op == NSI_OUT ? 1 : nsi_ops[node->op].arity;
}

static inline nsi_id nsi_node_operand(const nsi_node* node, uint32_t k) {
    return k == 0 ? node->a : k == 1 ? node->b : node->c;
}

// `live[i]` becomes 1 for every node that an output or a block with a sink depends on.
// `live` has nodes.count bytes.
void nsi_graph_mark_live(const ns_graph* g, uint8_t* live);

// A new, empty graph with the same ports and arrays as `g`: inputs are created in order, outputs
// are left to the caller.
ns_status nsi_graph_clone_ports(const ns_graph* g, ns_graph** out, ns_error* error);

// If building `*graph` failed, hand its error over, free it and set it to NULL.
ns_status nsi_graph_finish(ns_graph** graph, ns_error* error);

// Append a block of another graph, with its inputs looked up in `map`; returns its BLOCK node.
nsi_id nsi_graph_copy_block(const nsi_block* block, ns_graph* to, const nsi_id* map);

// Make node `id` of another graph again, through the simplifying constructors, with its operands looked
// up in `map`. Inputs are looked up by their number.
nsi_id nsi_graph_copy_node(const ns_graph* from, nsi_id id, ns_graph* to, const nsi_id* map);

// Copy the live part of `from` into `to`, which has at least its inputs, arrays and sinks, through
// the simplifying constructors; `map` (from->nodes.count ids) receives where each node went.
void nsi_graph_copy_nodes(const ns_graph* from, ns_graph* to, nsi_id* map);

// ---- construct.c ---------------------------------------------------------------------------

// An operation on nodes with folding and identities. Operands past the arity are ignored. Any
// operand NSI_NONE gives NSI_NONE.
nsi_id nsi_make(ns_graph* g, nsi_op op, nsi_id a, nsi_id b, nsi_id c);

static inline bool nsi_is_const(const ns_graph* g, nsi_id id, double value) {
    const nsi_node* n = &g->nodes.data[id];
    return n->op == NSI_CONST && n->value == value;
}

// ---- validate.c ----------------------------------------------------------------------------

// Every invariant of the representation; NS_ERR_INVALID names the first node that breaks one.
// Runs between passes in debug builds.
ns_status nsi_graph_validate(const ns_graph* g, ns_error* error);

#ifdef NDEBUG
#define NSI_DEBUG_VALIDATE(g) ((void)0)
#else
#define NSI_DEBUG_VALIDATE(g) NS_ASSERT(nsi_graph_validate((g), NULL) == NS_OK)
#endif

// ---- lower.c -------------------------------------------------------------------------------

// Expand one LOWER operation into PRIM operations in `g`. With constant operands the expansion
// folds to a constant, which is how such operations are folded.
nsi_id nsi_lower_op(ns_graph* g, nsi_op op, nsi_id a, nsi_id b);

// The whole graph in PRIM operations, dead nodes dropped; truth values reach only select, and, or,
// not.
ns_status nsi_pass_lower(const ns_graph* g, ns_graph** out, ns_error* error);

// ---- contract.c ----------------------------------------------------------------------------

// Form fused multiply-adds in place. `g` must be lowered and is not to be built on afterwards.
ns_status nsi_pass_contract(ns_graph* g, ns_error* error);

#endif
