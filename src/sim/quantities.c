// Which quantities a step has, in which order, and which of them the motion depends on: every one of
// them gets an input added, and what reaches the next state counts.

#include "sim/step.h"

#include <stdio.h>

typedef struct probe {
    ns_graph* graph;
    nsi_arena* arena;
    const ns_allocator* allocator;
    NSI_ARRAY(const char*) names;
    bool failed;
} probe;

static ns_expr add_probe(void* context, const char* name, ns_expr x) {
    probe* p = context;
    char input[1300];
    snprintf(input, sizeof input, "probe/%s", name);
    ns_graph* graph = nsi_trace_graph();
    uint32_t number = nsi_graph_find(graph, NSI_PORT_INPUT, input);
    if (number != NSI_NONE) { // the same physics at another state
        return ns_add(x, (ns_expr){graph->inputs.data[number].node});
    }
    const char* copy = nsi_arena_string(p->arena, name, strlen(name));
    if (!copy || !nsi_array_push(p->allocator, &p->names, copy)) p->failed = true;
    return ns_add(x, ns_input(input));
}

ns_status nsi_step_quantities(const ns_model* model, const nsi_step_options* options,
                              nsi_quantity_list* out, ns_error* error) {
    *out = (nsi_quantity_list){.arena = {.allocator = model->allocator}};
    probe p = {.arena = &out->arena, .allocator = &model->allocator};
    nsi_step_options with = *options;
    with.binding = NULL;
    with.hook = add_probe;
    with.hook_context = &p;
    with.nobserve = 0;
    ns_graph* graph = NULL;
    uint8_t* live = NULL;
    ns_status status = nsi_step_trace(model, &with, &graph, error);
    if (status == NS_OK && p.failed) status = nsi_fail_nomem(error);
    if (status == NS_OK) {
        out->count = p.names.count;
        live = nsi_alloc(&model->allocator, (size_t)graph->nodes.count + 1);
        out->names = nsi_arena_alloc(&out->arena, (p.names.count + 1) * sizeof *out->names);
        out->moves = nsi_arena_alloc(&out->arena, (size_t)p.names.count + 1);
        if (!live || !out->names || !out->moves) status = nsi_fail_nomem(error);
    }
    if (status == NS_OK) {
        nsi_graph_mark_live(graph, live);
        char input[1300];
        for (uint32_t k = 0; k < out->count; k++) {
            snprintf(input, sizeof input, "probe/%s", p.names.data[k]);
            uint32_t number = nsi_graph_find(graph, NSI_PORT_INPUT, input);
            out->names[k] = p.names.data[k];
            out->moves[k] = live[graph->inputs.data[number].node];
        }
    }
    nsi_array_free(&model->allocator, &p.names);
    nsi_free(&model->allocator, live);
    ns_graph_free(graph);
    if (status != NS_OK) nsi_quantity_list_free(out);
    return status;
}

void nsi_quantity_list_free(nsi_quantity_list* list) {
    nsi_arena_free(&list->arena);
    *list = (nsi_quantity_list){0};
}
