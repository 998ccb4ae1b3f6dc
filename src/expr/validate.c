// The invariants of the graph representation, in one place.

#include "expr/block.h"

static ns_status bad_node(ns_error* error, uint32_t i, const char* what) {
    return nsi_fail(error, NS_ERR_INVALID, "node %u: %s", i, what);
}

static ns_status check_block(const ns_graph* g, uint32_t i, ns_error* error) {
    if (g->nodes.data[i].a >= g->blocks.count) return bad_node(error, i, "no such block");
    const nsi_block* block = &g->blocks.data[g->nodes.data[i].a];
    nsi_block_sizes sizes;
    if (!nsi_block_get_sizes(block, &sizes)) return bad_node(error, i, "bad parameters");

    // Numbers of inputs and outputs follow from the parameters.
    if (sizes.ninput != block->ninput || sizes.noutput != block->noutput) {
        return bad_node(error, i, "block sizes differ from its parameters");
    }

    // Arrays are present exactly where the kind needs them.
    if ((sizes.source != 0) != (block->source != NSI_NONE) ||
        (sizes.sink != 0) != (block->sink != NSI_NONE)) {
        return bad_node(error, i, "array missing or not wanted");
    }
    // Ranges within the arrays, without overflow.
    if (sizes.source &&
        (block->source >= g->arrays.count ||
         (uint64_t)block->source_offset + sizes.source > g->arrays.data[block->source].size)) {
        return bad_node(error, i, "array input out of range");
    }
    if (sizes.sink && (block->sink >= g->sinks.count || (uint64_t)block->sink_offset + sizes.sink >
                                                            g->sinks.data[block->sink].size)) {
        return bad_node(error, i, "array output out of range");
    }

    // Inputs are defined before the block, and are numbers.
    for (uint32_t k = 0; k < block->ninput; k++) {
        if (block->inputs[k] >= i) return bad_node(error, i, "block input not before the block");
        if (g->nodes.data[block->inputs[k]].op == NSI_BLOCK) {
            return bad_node(error, i, "a block is used as a number");
        }
    }
    return NS_OK;
}

ns_status nsi_graph_validate(const ns_graph* g, ns_error* error) {
    // Nodes: operands must come before their use.
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const nsi_node* node = &g->nodes.data[i];
        // Operations of the table.
        if (node->op >= NSI_OP_COUNT) return bad_node(error, i, "unknown operation");
        // Inputs and ports refer to each other.
        if (node->op == NSI_INPUT &&
            (node->a >= g->inputs.count || g->inputs.data[node->a].node != i)) {
            return bad_node(error, i, "input without its port");
        }

        if (node->op == NSI_BLOCK) {
            ns_status status = check_block(g, i, error);
            if (status != NS_OK) return status;
        }

        // Operands: topological order, and blocks only through their outputs.
        for (uint32_t k = 0; k < nsi_node_arity(node); k++) {
            nsi_id operand = nsi_node_operand(node, k);
            if (operand >= i) return bad_node(error, i, "operand not before its use");
            bool is_block = g->nodes.data[operand].op == NSI_BLOCK;
            if (is_block != (node->op == NSI_OUT)) {
                return bad_node(error, i, "only an output of a block can be used as a number");
            }
        }

        if (node->op == NSI_OUT) {
            if (node->b >= g->blocks.data[g->nodes.data[node->a].a].noutput) {
                return bad_node(error, i, "no such output of the block");
            }
        }
    }

    // Outputs are numbers.
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        nsi_id node = g->outputs.data[k].node;
        if (node >= g->nodes.count || g->nodes.data[node].op == NSI_BLOCK) {
            return nsi_fail(error, NS_ERR_INVALID, "output %u is not a number", k);
        }
    }
    return NS_OK;
}
