// Forward and reverse differentiation by rewriting, from the partial derivatives in ops.def.
//
// Forward:  dy = sum_k da_k * (dy/da_k), in index order.
// Reverse:  abar_k += ybar * (dy/da_k), in reverse index order.
//
// Gated products. The adjoint of the branch of a select that is not taken is 0, but the partials
// inside that branch may be infinite there (guarding against that is what the select is for), and
// 0 * infinity is NaN. So reverse mode carries along the gate of each node: the condition, made of
// those of the selects, min and max on the way, without which its adjoint is 0. Where a partial may
// not be finite ("hazard", found from the graph: it flows from operations like division up to their
// uses), the product is selected by the gate instead of being trusted to vanish. That select guards
// the derivatives of the product in turn, so that the branch does not leak at any order, and as it
// does not look at the adjoint's value, an adjoint that happens to be zero keeps its derivative.
// A node with a path past all selects has no gate; nearly all products are plain multiplications.
// In forward mode a NaN of the branch not taken is dropped by the select itself.

#include "expr/diff.h"

#include "expr/call.h"

#include <math.h>

// ---- partial derivatives -------------------------------------------------------------------

#define NONE NSI_NONE
#define ZERO nsi_graph_const(g, 0.0)
#define HALF nsi_graph_const(g, 0.5)
#define ONE nsi_graph_const(g, 1.0)
#define MINUS_ONE nsi_graph_const(g, -1.0)
#define ADD(p, q) nsi_make(g, NSI_ADD, p, q, 0)
#define SUB(p, q) nsi_make(g, NSI_SUB, p, q, 0)
#define MUL(p, q) nsi_make(g, NSI_MUL, p, q, 0)
#define DIV(p, q) nsi_make(g, NSI_DIV, p, q, 0)
#define NEG(p) nsi_make(g, NSI_NEG, p, 0, 0)
#define SQRT(p) nsi_make(g, NSI_SQRT, p, 0, 0)
#define SIN(p) nsi_make(g, NSI_SIN, p, 0, 0)
#define COS(p) nsi_make(g, NSI_COS, p, 0, 0)
#define LOG(p) nsi_make(g, NSI_LOG, p, 0, 0)
#define TANH(p) nsi_make(g, NSI_TANH, p, 0, 0)
#define ABS(p) nsi_make(g, NSI_ABS, p, 0, 0)
#define SIGN(p) nsi_make(g, NSI_SIGN, p, 0, 0)
#define COPYSIGN(p, q) nsi_make(g, NSI_COPYSIGN, p, q, 0)
#define LT(p, q) nsi_make(g, NSI_LT, p, q, 0)
#define EQ(p, q) nsi_make(g, NSI_EQ, p, q, 0)
#define NE(p, q) nsi_make(g, NSI_NE, p, q, 0)
#define SELECT(p, q, r) nsi_make(g, NSI_SELECT, p, q, r)
#define SUM_OF_SQUARES(p, q) ADD(MUL(p, p), MUL(q, q))

// d y / d operand k, where y = op(a, b, c); NSI_NONE only when the graph has failed.
static nsi_id partial(ns_graph* g, nsi_op op, uint32_t k, nsi_id a, nsi_id b, nsi_id c, nsi_id y) {
    (void)a, (void)b, (void)c, (void)y;
    switch (op) {
#define OP(ENUM, name, arity, kind, flags, value, da, db, dc, edges)                               \
    case NSI_##ENUM:                                                                               \
        return k == 0 ? (da) : k == 1 ? (db) : (dc);
#include "expr/ops.def"
#undef OP
    case NSI_OP_COUNT: break;
    }
    return NSI_NONE;
}

// Is the k-th partial of this operation zero everywhere?
static bool partial_is_zero(nsi_op op, uint32_t k) {
    return (nsi_ops[op].flags & NSI_FLAG_MASK) != 0 || op == NSI_SIGN || op == NSI_FLOOR ||
           op == NSI_ROUND || op == NSI_POW2I || op == NSI_EXPONENT ||
           (op == NSI_SELECT && k == 0) || (op == NSI_COPYSIGN && k == 1);
}

// ---- sums and products of derivatives ------------------------------------------------------

typedef struct diff {
    ns_graph* g;
    NSI_ARRAY(uint8_t) hazard; // of the first nodes, as far as asked for
} diff;

static bool is_hazard(diff* d, nsi_id id) {
    ns_graph* g = d->g;
    // Answers are cached per node, and the graph grows while it is differentiated.
    if (id >= d->hazard.count &&
        !nsi_array_reserve(&g->allocator, &d->hazard, g->nodes.count - d->hazard.count)) {
        nsi_graph_fail_nomem(g);
        return false;
    }

    // A node is a hazard by itself, or by an operand.
    for (uint32_t i = d->hazard.count; i <= id; i++) {
        const nsi_node* node = &g->nodes.data[i];
        uint8_t hazard = 0;
        // Constants may be infinite.
        if (node->op == NSI_CONST) {
            hazard = (uint8_t)!isfinite(node->value);
        } else if (node->op == NSI_DIV) {
            // Only a division by something that can vanish, or whose inverse overflows.
            const nsi_node* divisor = &g->nodes.data[node->b];
            hazard = divisor->op != NSI_CONST || !isfinite(1.0 / divisor->value);
        } else if (nsi_ops[node->op].flags & NSI_FLAG_HAZARD) {
            hazard = 1;
        }

        // Hazards spread through blocks and operations, but not through masks.
        if (node->op == NSI_BLOCK) {
            const nsi_block* block = &g->blocks.data[node->a];
            hazard |= block->function && block->function->hazard;
            for (uint32_t k = 0; k < block->ninput; k++) {
                hazard |= d->hazard.data[block->inputs[k]];
            }
        } else if (!(nsi_ops[node->op].flags & NSI_FLAG_MASK)) {
            for (uint32_t k = 0; k < nsi_node_arity(node); k++) {
                hazard |= d->hazard.data[nsi_node_operand(node, k)];
            }
        }
        // Operands come first, so that one pass suffices.
        d->hazard.data[d->hazard.count++] = hazard;
    }
    return d->hazard.data[id] != 0;
}

static nsi_id sum(ns_graph* g, nsi_id a, nsi_id b) {
    if (a == NSI_NONE) return b;
    if (b == NSI_NONE) return a;
    nsi_graph_round(g, a);
    nsi_graph_round(g, b);
    return ADD(a, b);
}

// The gate of an adjoint: a truth value, or one of these.
#define NEVER NSI_NONE
#define ALWAYS (NSI_NONE - 1)

static nsi_id gate_and(ns_graph* g, nsi_id p, nsi_id q) {
    if (p == NEVER || q == NEVER) return NEVER;
    if (p == ALWAYS) return q;
    if (q == ALWAYS) return p;
    return nsi_make(g, NSI_AND, p, q, 0);
}

static nsi_id gate_or(ns_graph* g, nsi_id p, nsi_id q) {
    if (p == ALWAYS || q == ALWAYS) return ALWAYS;
    if (p == NEVER) return q;
    if (q == NEVER) return p;
    return nsi_make(g, NSI_OR, p, q, 0);
}

// s times partial p, where s is zero unless `gate`. `switches`: p may be a switch
// SELECT(condition, q, ZERO) of the table, which selects the product instead of multiplying by the
// selection.
static nsi_id product(diff* d, nsi_id s, nsi_id p, nsi_id gate, bool switches) {
    ns_graph* g = d->g;
    if (s == NSI_NONE || p == NSI_NONE || nsi_is_const(g, p, 0.0)) return NSI_NONE;
    nsi_node node = g->nodes.data[p];
    if (switches && node.op == NSI_SELECT) {
        if (nsi_is_const(g, node.c, 0.0)) {
            nsi_id taken = product(d, s, node.b, gate, true);
            return taken == NSI_NONE ? NSI_NONE : SELECT(node.a, taken, ZERO);
        }
        if (nsi_is_const(g, node.b, 0.0)) {
            nsi_id taken = product(d, s, node.c, gate, true);
            return taken == NSI_NONE ? NSI_NONE : SELECT(node.a, ZERO, taken);
        }
    }
    if (gate != ALWAYS && is_hazard(d, p)) return SELECT(gate, MUL(s, p), ZERO);
    return MUL(s, p);
}

// Operations whose partials are operands, not expressions of the table.
static bool is_product(nsi_op op) {
    return op == NSI_MUL || op == NSI_FMA || op == NSI_FMS || op == NSI_FNMA || op == NSI_FNMS;
}

static nsi_id without_sign(const ns_graph* g, nsi_id id) {
    return g->nodes.data[id].op == NSI_NEG ? g->nodes.data[id].a : id;
}

// total + s times p, as product() gives it. Every derivative is a rounded number, and a product is
// fused into the sum of those before it, whatever these are: so terms that are zero, from networks or
// observations, change no bit. (contract.c would choose by the order of nodes which of two to fuse.)
static nsi_id add_product(diff* d, nsi_id total, nsi_id s, nsi_id p, nsi_id gate, bool switches) {
    ns_graph* g = d->g;
    nsi_id term = product(d, s, p, gate, switches);
    if (term == NSI_NONE || g->error.status != NS_OK) return total;
    nsi_graph_round(g, term);
    nsi_id bare = without_sign(g, term);
    nsi_node node = g->nodes.data[bare];
    bool handed_on = bare == without_sign(g, s); // p is 1 or -1
    // Where p is a hazard, the product may be selected by a gate, or not when more depends on it.
    if (total == NSI_NONE || node.op != NSI_MUL || handed_on || is_hazard(d, p)) {
        return sum(g, total, term);
    }
    return nsi_make(g, bare == term ? NSI_FMA : NSI_FNMA, node.a, node.b, total);
}

// ---- forward -------------------------------------------------------------------------------

// min, max and select choose one tangent.
static nsi_id chosen_tangent(ns_graph* g, nsi_id condition, nsi_id then, nsi_id otherwise) {
    if (then == NSI_NONE && otherwise == NSI_NONE) return NSI_NONE;
    return SELECT(condition, then == NSI_NONE ? ZERO : then,
                  otherwise == NSI_NONE ? ZERO : otherwise);
}

static nsi_id node_tangent(diff* d, nsi_id id, const nsi_id* tangent) {
    ns_graph* g = d->g;
    // A copy: making nodes may move the array.
    nsi_node node = g->nodes.data[id];
    nsi_id total = NSI_NONE;
    uint32_t arity = nsi_node_arity(&node);
    // Without a tangent of any operand there is none of the result.
    for (uint32_t k = 0; k < arity; k++) {
        if (tangent[nsi_node_operand(&node, k)] != NSI_NONE) total = 0;
    }
    if (total == NSI_NONE) return NSI_NONE;

    // A choice passes on the tangent of the operand that it selects.
    if (node.op == NSI_SELECT) {
        return chosen_tangent(g, node.a, tangent[node.b], tangent[node.c]);
    }
    // Ties take the second operand, as the operation does.
    if (node.op == NSI_MIN) {
        return chosen_tangent(g, LT(node.a, node.b), tangent[node.a], tangent[node.b]);
    }
    if (node.op == NSI_MAX) {
        return chosen_tangent(g, LT(node.b, node.a), tangent[node.a], tangent[node.b]);
    }

    // Otherwise, sum the partial derivatives times the tangents (chain rule).
    total = NSI_NONE;
    for (uint32_t k = 0; k < arity; k++) {
        nsi_id s = tangent[nsi_node_operand(&node, k)];
        // Partials that vanish identically need no nodes.
        if (s == NSI_NONE || partial_is_zero(node.op, k)) continue;
        nsi_id p = partial(g, node.op, k, node.a, node.b, node.c, id);
        // Guards are needed where 0 * infinity could occur.
        total = add_product(d, total, s, p, ALWAYS, !is_product(node.op));
    }
    return total;
}

// A block's tangents are made at its BLOCK node and handed to its OUT nodes.
typedef struct block_values {
    nsi_id* ids;      // one per output of every block
    uint32_t* offset; // per block, into ids
} block_values;

static bool block_values_create(ns_graph* g, block_values* values) {
    uint64_t total = 0;
    values->ids = NULL;
    values->offset = nsi_alloc(&g->allocator, (g->blocks.count + 1) * sizeof(uint32_t));
    if (!values->offset) return false;
    for (uint32_t i = 0; i < g->blocks.count; i++) {
        values->offset[i] = (uint32_t)total;
        total += g->blocks.data[i].noutput;
    }
    if (total > NSI_MAX_NODES) {
        nsi_graph_fail(g, NS_ERR_LIMIT, "the blocks of the graph have more than %d outputs",
                       NSI_MAX_NODES);
        return false;
    }
    values->ids = nsi_alloc(&g->allocator, (total + 1) * sizeof(nsi_id));
    if (!values->ids) return false;
    for (uint64_t i = 0; i < total; i++) values->ids[i] = NSI_NONE;
    return true;
}

static void block_values_free(ns_graph* g, block_values* values) {
    nsi_free(&g->allocator, values->ids);
    nsi_free(&g->allocator, values->offset);
}

static void block_tangent(ns_graph* g, uint32_t number, const nsi_id* tangent,
                          const uint32_t* array_tangents, const uint32_t* sink_tangents,
                          nsi_id* dy) {
    nsi_block block = g->blocks.data[number];
    uint32_t dsource = block.source == NSI_NONE ? NSI_NONE : array_tangents[block.source];
    uint32_t dsink = block.sink == NSI_NONE ? NSI_NONE : sink_tangents[block.sink];
    nsi_id* dx = nsi_alloc(&g->allocator, (block.ninput + 1) * sizeof *dx);
    if (!dx) {
        nsi_graph_fail_nomem(g);
        return;
    }
    bool active = dsource != NSI_NONE;
    for (uint32_t k = 0; k < block.ninput; k++) {
        dx[k] = tangent[block.inputs[k]];
        active = active || dx[k] != NSI_NONE;
    }
    if (active) block.kind->jvp(g, &block, dx, dsource, dsink, dy);
    nsi_free(&g->allocator, dx);
}

void nsi_diff_forward(ns_graph* g, nsi_id* tangent, const uint32_t* array_tangents,
                      const uint32_t* sink_tangents) {
    diff d = {.g = g};
    block_values outs;
    if (!block_values_create(g, &outs)) nsi_graph_fail_nomem(g);
    uint32_t count = g->nodes.count;
    for (uint32_t i = 0; i < count && g->error.status == NS_OK; i++) {
        const nsi_node* node = &g->nodes.data[i];
        if (tangent[i] != NSI_NONE) continue; // given
        if (node->op == NSI_BLOCK) {
            block_tangent(g, node->a, tangent, array_tangents, sink_tangents,
                          outs.ids + outs.offset[node->a]);
        } else if (node->op == NSI_OUT) {
            tangent[i] = outs.ids[outs.offset[g->nodes.data[node->a].a] + node->b];
        } else {
            tangent[i] = node_tangent(&d, i, tangent);
        }
    }
    block_values_free(g, &outs);
    nsi_array_free(&g->allocator, &d.hazard);
}

// ---- reverse -------------------------------------------------------------------------------

typedef struct reverse {
    diff d;
    nsi_id* adjoint;
    uint8_t* active; // depends on something wanted
    nsi_id* gate;    // without this its adjoint is zero
    block_values outs;
    const uint32_t* sink_seeds;
    const uint32_t* array_adjoints;
} reverse;

// Which nodes depend on a wanted node or array?
static void mark_active(const ns_graph* g, uint32_t count, const uint8_t* wanted, reverse* r) {
    for (uint32_t i = 0; i < count; i++) {
        const nsi_node* node = &g->nodes.data[i];
        uint8_t active = wanted[i];
        if (node->op == NSI_BLOCK) {
            const nsi_block* block = &g->blocks.data[node->a];
            active |= block->source != NSI_NONE && r->array_adjoints[block->source] != NSI_NONE;
            for (uint32_t k = 0; k < block->ninput; k++) active |= r->active[block->inputs[k]];
        } else {
            for (uint32_t k = 0; k < nsi_node_arity(node); k++) {
                active |= r->active[nsi_node_operand(node, k)];
            }
        }
        r->active[i] = active;
    }
}

// When does operand k of this node matter?
static nsi_id operand_gate(ns_graph* g, const nsi_node* node, uint32_t k) {
    switch (node->op) {
    case NSI_SELECT: return k == 1 ? node->a : nsi_make(g, NSI_NOT, node->a, 0, 0);
    case NSI_MIN:
        return k == 0 ? LT(node->a, node->b) : nsi_make(g, NSI_NOT, LT(node->a, node->b), 0, 0);
    case NSI_MAX:
        return k == 0 ? LT(node->b, node->a) : nsi_make(g, NSI_NOT, LT(node->b, node->a), 0, 0);
    default: return ALWAYS;
    }
}

static void reverse_node(reverse* r, nsi_id id) {
    ns_graph* g = r->d.g;
    nsi_node node = g->nodes.data[id];
    for (uint32_t k = 0; k < nsi_node_arity(&node); k++) {
        nsi_id operand = nsi_node_operand(&node, k);
        if (!r->active[operand] || partial_is_zero(node.op, k)) continue;
        nsi_id p = partial(g, node.op, k, node.a, node.b, node.c, id);
        nsi_id before = r->adjoint[operand];
        nsi_id after =
            add_product(&r->d, before, r->adjoint[id], p, r->gate[id], !is_product(node.op));
        if (after == before) continue;
        nsi_id gate = gate_and(g, r->gate[id], operand_gate(g, &node, k));
        r->adjoint[operand] = after;
        r->gate[operand] = gate_or(g, r->gate[operand], gate);
    }
}

// In a gated block an input that is not finite would reach the adjoint of the weights as 0 * inf.
static nsi_id gated_input(diff* d, nsi_id x, nsi_id gate) {
    ns_graph* g = d->g;
    return gate != ALWAYS && is_hazard(d, x) ? SELECT(gate, x, ZERO) : x;
}

static void reverse_block(reverse* r, nsi_id id) {
    ns_graph* g = r->d.g;
    // Copies: making nodes may move the arrays.
    uint32_t number = g->nodes.data[id].a;
    nsi_block block = g->blocks.data[number];
    // Adjoints of the outputs, collected earlier.
    const nsi_id* ybar = r->outs.ids + r->outs.offset[number];
    uint32_t sink_seed = block.sink == NSI_NONE ? NSI_NONE : r->sink_seeds[block.sink];
    uint32_t source_bar = block.source == NSI_NONE ? NSI_NONE : r->array_adjoints[block.source];

    // Skip the block unless a seed reaches it and it depends on a wanted input.
    bool reached = sink_seed != NSI_NONE;
    for (uint32_t k = 0; k < block.noutput; k++) reached = reached || ybar[k] != NSI_NONE;
    if (!reached || !r->active[id]) return;
    // Sinks accumulate unconditionally.
    nsi_id gate = sink_seed != NSI_NONE ? ALWAYS : r->gate[id];

    // Inputs that may be infinite behind a closed gate are replaced, so that 0 times them is 0. A call
    // is not executed behind a closed gate.
    nsi_id* x = nsi_alloc(&g->allocator, 2 * ((size_t)block.ninput + 1) * sizeof *x);
    if (!x) {
        nsi_graph_fail_nomem(g);
        return;
    }
    nsi_id* xbar = x + block.ninput + 1;
    // The rule sees the guarded inputs only.
    nsi_block guarded = block;
    guarded.inputs = x;
    for (uint32_t k = 0; k < block.ninput; k++) {
        x[k] = block.function ? block.inputs[k] : gated_input(&r->d, block.inputs[k], gate);
        xbar[k] = NSI_NONE;
    }
    if (block.function) x[0] = gate_and(g, block.inputs[0], gate);

    // Apply the vector-Jacobian rule of the block, and accumulate the adjoints of its inputs.
    guarded.kind->vjp(g, &guarded, ybar, sink_seed, source_bar, xbar);
    for (uint32_t k = 0; k < block.ninput; k++) {
        nsi_id operand = block.inputs[k];
        if (!r->active[operand] || xbar[k] == NSI_NONE) continue;
        r->adjoint[operand] = sum(g, r->adjoint[operand], xbar[k]);
        // An operand matters if any of its readers does.
        r->gate[operand] = gate_or(g, r->gate[operand], gate);
    }
    nsi_free(&g->allocator, x);
}

void nsi_diff_reverse(ns_graph* g, uint32_t count, nsi_id* adjoint, const uint8_t* wanted,
                      const uint32_t* sink_seeds, const uint32_t* array_adjoints) {
    reverse r = {
        .d.g = g, .adjoint = adjoint, .sink_seeds = sink_seeds, .array_adjoints = array_adjoints};

    // Mark the nodes that matter, and under which condition; seeds always do.
    r.active = nsi_alloc_zeroed(&g->allocator, (size_t)count + 1);
    r.gate = nsi_alloc(&g->allocator, ((size_t)count + 1) * sizeof *r.gate);
    if (!block_values_create(g, &r.outs) || !r.active || !r.gate) nsi_graph_fail_nomem(g);

    for (uint32_t i = 0; r.gate && i < count; i++) {
        r.gate[i] = adjoint[i] == NSI_NONE ? NEVER : ALWAYS; // seeds
    }
    if (g->error.status == NS_OK) mark_active(g, count, wanted, &r);

    // From the last node to the first: all readers of a node come before it.
    for (uint32_t i = count; i-- > 0 && g->error.status == NS_OK;) {
        if (!r.active[i] || wanted[i]) continue; // wanted nodes are independent variables
        const nsi_node* node = &g->nodes.data[i];
        // Blocks use the adjoints that their outputs have collected.
        if (node->op == NSI_BLOCK) {
            reverse_block(&r, i);
        } else if (node->op == NSI_OUT) {
            // Hand the adjoint of an output over to its block.
            nsi_id block = node->a;
            r.outs.ids[r.outs.offset[g->nodes.data[block].a] + node->b] = adjoint[i];
            r.gate[block] = gate_or(g, r.gate[block], r.gate[i]);
        } else if (adjoint[i] != NSI_NONE) {
            // Nodes that no seed reaches have no adjoint.
            reverse_node(&r, i);
        }
    }

    block_values_free(g, &r.outs);
    nsi_free(&g->allocator, r.active);
    nsi_free(&g->allocator, r.gate);
    nsi_array_free(&g->allocator, &r.d.hazard);
}
