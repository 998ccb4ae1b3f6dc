// Pass: form fused multiply-adds. After lowering, before code is made; linear; in place.
//
// A product joins the additions and subtractions that use it: a*b + c, a*b - c, c - a*b. The sum then
// rounds once instead of twice. Because this happens in the graph, every backend rounds alike; and
// because it does not matter who else uses the product, observing a value changes no bit. Of two
// candidate products the later one is fused: the other is ready earlier. The node changes in place,
// so operands still precede it; a product without other uses is left to be dropped.

#include "expr/block.h"

ns_status nsi_pass_contract(ns_graph* g, ns_error* error) {
    // Work on a copy of the flags, because nodes are rewritten in place.
    uint8_t* live = nsi_alloc(&g->allocator, (size_t)g->nodes.count + 1);
    uint8_t* fusible = nsi_alloc(&g->allocator, (size_t)g->nodes.count + 1);
    if (!live || !fusible) {
        nsi_free(&g->allocator, live);
        nsi_free(&g->allocator, fusible);
        return nsi_fail_nomem(error);
    }

    // Products that may be fused: all but those that must be rounded on their own.
    nsi_graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.count; i++) fusible[i] = g->nodes.data[i].op == NSI_MUL;
    for (uint32_t k = 0; k < g->rounded.count; k++) fusible[g->rounded.data[k]] = 0;

    // Fuse one product into each sum: of two, the later one.
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        nsi_node* node = &g->nodes.data[i];
        // Dead sums need no fusion.
        if (!live[i] || (node->op != NSI_ADD && node->op != NSI_SUB)) continue;
        nsi_id a = node->a, b = node->b;
        bool fuse_a = fusible[a], fuse_b = fusible[b];
        // Both are products: only one can be fused.
        if (fuse_a && fuse_b) {
            fuse_a = a > b;
            fuse_b = !fuse_a;
        }
        if (!fuse_a && !fuse_b) continue;

        // a*b + c, a*b - c or c - a*b.
        const nsi_node* product = &g->nodes.data[fuse_a ? a : b];
        nsi_node fused = {.op = node->op == NSI_ADD ? NSI_FMA
                                : fuse_a            ? NSI_FMS
                                                    : NSI_FNMA,
                          .a = product->a};
        fused.b = product->b;
        fused.c = fuse_a ? b : a;
        // The product itself stays for other readers; if there are none, it is dead.
        *node = fused;
    }

    nsi_free(&g->allocator, live);
    nsi_free(&g->allocator, fusible);
    return NS_OK;
}
