// What the kernels of a scene share.

#include "contact/scene_kernel.h"

void nsi_scene_lanes(const nsi_block_args* args, size_t lanes, nsi_scene_work* work) {
    const nsi_scene* scene = (const nsi_scene*)(const void*)args->data;
    uint32_t ninput = args->params[0], noutput = args->params[1];
    if (lanes == 1) {
        work(scene, args->x, args->y, args->scratch);
        return;
    }
    double *x = args->scratch, *y = x + ninput, *scratch = y + noutput;
    for (size_t lane = 0; lane < lanes; lane++) {
        for (size_t k = 0; k < ninput; k++) x[k] = args->x[k * lanes + lane];
        work(scene, x, y, scratch);
        for (size_t k = 0; k < noutput; k++) args->y[k * lanes + lane] = y[k];
    }
}

// With room to take the lanes apart.
bool nsi_scene_sizes(const uint32_t* params, nsi_block_sizes* out) {
    *out = (nsi_block_sizes){params[0], params[1], 0, 0, params[0] + params[1] + params[2]};
    return params[0] > 0 && params[1] > 0;
}

nsi_id nsi_scene_append(ns_graph* g, const nsi_block_kind* kind, const nsi_block* value,
                        uint32_t kept, uint32_t nkept, const nsi_id* more, uint32_t nmore,
                        uint32_t noutput, size_t scratch) {
    uint32_t count = value->ninput + nkept + nmore;
    nsi_id* inputs = nsi_alloc(&g->allocator, count * sizeof *inputs);
    if (!inputs) return nsi_graph_fail_nomem(g);
    nsi_id *at = inputs, zero = nsi_graph_const(g, 0.0);
    memcpy(at, value->inputs, value->ninput * sizeof *inputs);
    at += value->ninput;
    nsi_id node = nsi_graph_block(g, value); // consing finds the value's own node
    for (uint32_t k = 0; k < nkept; k++) *at++ = nsi_graph_out(g, node, kept + k);
    for (uint32_t k = 0; k < nmore; k++) *at++ = more[k] == NSI_NONE ? zero : more[k];
    nsi_block block = {.kind = kind,
                       .params = {count, noutput, (uint32_t)scratch},
                       .ninput = count,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = NSI_NONE,
                       .data = value->data};
    node = nsi_graph_block(g, &block);
    nsi_free(&g->allocator, inputs);
    return node;
}
