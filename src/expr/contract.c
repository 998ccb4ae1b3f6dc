// Pass: form fused multiply-adds. After lowering, before code is made; linear; in place.
//
// A product with one use, by an addition or subtraction, joins it: a*b + c, a*b - c, c - a*b. The
// sum then rounds once instead of twice. Because this happens in the graph, every backend rounds
// alike. Of two candidate products the later one is fused: the other is ready earlier. The node
// changes in place, so operands still precede it; the product is left without uses.

#include "expr/block.h"

static bool fusible(const ns_graph* g, const uint32_t* uses, nsi_id id) {
    return g->nodes.data[id].op == NSI_MUL && uses[id] == 1;
}

ns_status nsi_pass_contract(ns_graph* g, ns_error* error) {
    uint32_t* uses = nsi_alloc_zeroed(&g->allocator, ((size_t)g->nodes.count + 1) * sizeof *uses);
    uint8_t* live = nsi_alloc(&g->allocator, (size_t)g->nodes.count + 1);
    if (!uses || !live) {
        nsi_free(&g->allocator, uses);
        nsi_free(&g->allocator, live);
        return nsi_fail_nomem(error);
    }
    nsi_graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        if (!live[i]) continue;
        const nsi_node* node = &g->nodes.data[i];
        for (uint32_t k = 0; k < nsi_node_arity(node); k++) uses[nsi_node_operand(node, k)]++;
        if (node->op != NSI_BLOCK) continue;
        const nsi_block* block = &g->blocks.data[node->a];
        for (uint32_t k = 0; k < block->ninput; k++) uses[block->inputs[k]]++;
    }
    for (uint32_t k = 0; k < g->outputs.count; k++) uses[g->outputs.data[k].node]++;

    for (uint32_t i = 0; i < g->nodes.count; i++) {
        nsi_node* node = &g->nodes.data[i];
        if (!live[i] || (node->op != NSI_ADD && node->op != NSI_SUB)) continue;
        nsi_id a = node->a, b = node->b;
        bool fuse_a = fusible(g, uses, a), fuse_b = fusible(g, uses, b);
        if (fuse_a && fuse_b) {
            fuse_a = a > b;
            fuse_b = !fuse_a;
        }
        if (!fuse_a && !fuse_b) continue;
        const nsi_node* product = &g->nodes.data[fuse_a ? a : b];
        nsi_node fused = {.op = node->op == NSI_ADD ? NSI_FMA
                                : fuse_a            ? NSI_FMS
                                                    : NSI_FNMA,
                          .a = product->a};
        fused.b = product->b;
        fused.c = fuse_a ? b : a;
        *node = fused;
    }
    nsi_free(&g->allocator, uses);
    nsi_free(&g->allocator, live);
    return NS_OK;
}
