// Which quantities a step has, in which order, and which of them the next state depends on: each gets
// an input added, and what reaches the next state counts.

#include "sim/quantity_parts.h"
#include "sim/system.h"

#include <stdio.h>

static const ns_choice stage_rows[] = {NS_STAGE_MAP(NS_CHOICE_ROW)};
const ns_choices ns_stages = NS_CHOICES("stage", stage_rows);

enum { PROBE_NAME = 1300 };

static void probe_name(const char* quantity, char out[PROBE_NAME]) {
    snprintf(out, PROBE_NAME, "probe/%s", quantity);
}

static ns_expr add_probe(void* context, const char* name, ns_expr x) {
    (void)context;
    char input[PROBE_NAME];
    probe_name(name, input);
    ns_graph* graph = nsi_trace_graph();
    uint32_t number = nsi_graph_find(graph, NSI_PORT_INPUT, input);
    if (number != NSI_NONE) { // the same physics at another state
        return ns_add(x, (ns_expr){graph->inputs.data[number].node});
    }
    return ns_add(x, ns_input(input));
}

static bool allocate_list(nsi_quantity_list* out, size_t count) {
    nsi_id* probes = nsi_arena_alloc(&out->arena, count * sizeof *probes);
    out->causality = (nsi_causality){out->graph, probes};
    out->names = nsi_arena_alloc(&out->arena, count * sizeof *out->names);
    out->units = nsi_arena_alloc(&out->arena, count * sizeof *out->units);
    out->stages = nsi_arena_alloc(&out->arena, count * sizeof *out->stages);
    out->affects_state = nsi_arena_alloc(&out->arena, count);
    out->is_diagnostic = nsi_arena_alloc(&out->arena, count);
    out->is_state = nsi_arena_alloc(&out->arena, count);
    out->spatial = nsi_arena_alloc(&out->arena, count);
    out->conjugate = nsi_arena_alloc(&out->arena, count * sizeof *out->conjugate);
    return probes && out->names && out->units && out->stages && out->affects_state &&
           out->is_diagnostic && out->is_state && out->spatial && out->conjugate;
}

// What the graph says of its quantities; `live` (nodes) marks what the next state depends on.
static bool list_quantities(const ns_model* model, const uint8_t* live, nsi_quantity_list* out) {
    const ns_graph* graph = out->graph;
    uint32_t count = graph->quantities.count;
    if (!allocate_list(out, (size_t)count + 1)) return false;
    nsi_id* probes = (nsi_id*)out->causality.probes;
    for (uint32_t k = 0; k < count; k++) {
        const nsi_port* quantity = &graph->quantities.data[k];
        char input[PROBE_NAME];
        probe_name(quantity->name, input);
        uint32_t probe = nsi_graph_find(graph, NSI_PORT_INPUT, input);
        probes[k] = graph->inputs.data[probe].node;
        out->names[k] = quantity->name;
        out->units[k] = quantity->unit;
        out->stages[k] = (ns_stage)quantity->stage;
        out->affects_state[k] = live[probes[k]];
        nsi_quantity_parts parts;
        nsi_quantity_parts_of(model, quantity->name, &parts);
        out->spatial[k] = parts.spatial;
        out->is_diagnostic[k] = nsi_contact_is_diagnostic(quantity->name);
        out->is_state[k] =
            ns_glob_match("q/*", quantity->name) || ns_glob_match("qd/*", quantity->name);
        out->conjugate[k] = quantity->conjugate;
    }
    out->count = count;
    return true;
}

// Contacts that are found at run time have no quantities: the probes are no reason to trace them.
static bool probes_no_contacts(void* context, const char* prefix) {
    (void)context, (void)prefix;
    return false;
}

ns_status nsi_step_quantities(const ns_model* model, const nsi_step_options* options,
                              nsi_quantity_list* out, ns_error* error) {
    *out = (nsi_quantity_list){.arena = {.allocator = model->allocator}};

    // The physics alone, with an input added to every quantity.
    nsi_step_options with = *options;
    with.binding = NULL;
    with.hook = add_probe;
    with.filter = probes_no_contacts;
    with.nobserve = 0;
    ns_status status = nsi_step_trace(model, &with, &out->graph, error);
    if (status != NS_OK) return status;

    uint8_t* live = nsi_alloc(&model->allocator, (size_t)out->graph->nodes.count + 1);
    if (live) nsi_graph_mark_live(out->graph, live);
    if (!live || !list_quantities(model, live, out)) {
        nsi_quantity_list_free(out);
        status = nsi_fail_nomem(error);
    }
    nsi_free(&model->allocator, live);
    return status;
}

void nsi_quantity_list_free(nsi_quantity_list* list) {
    ns_graph_free(list->graph);
    nsi_arena_free(&list->arena);
    *list = (nsi_quantity_list){0};
}

ns_status ns_model_quantities(const ns_model* model, const ns_system_options* options,
                              ns_quantity_visitor* visit, void* context, ns_error* error) {
    if (!model || !visit) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_model_quantities: model or visit is NULL");
    }

    // The options are those of a system, and are checked as there.
    ns_system_options defaults = ns_default_system_options();
    if (!options) options = &defaults;
    ns_status status = nsi_system_check_options(options, error);
    if (status != NS_OK) return status;

    // Trace the step once; its quantities follow in the order of computation.
    nsi_step_options step = nsi_system_step_options(model, options);
    nsi_quantity_list list;
    status = nsi_step_quantities(model, &step, &list, error);
    if (status != NS_OK) return status;
    for (uint32_t k = 0; k < list.count; k++) {
        nsi_quantity_parts parts;
        nsi_quantity_parts_of(model, list.names[k], &parts);
        visit(context, &(ns_quantity_info){.name = list.names[k],
                                           .unit = list.units[k],
                                           .stage = list.stages[k],
                                           .affects_state = list.affects_state[k] != 0,
                                           .group = parts.group,
                                           .family = parts.family,
                                           .object = parts.object,
                                           .component = parts.component,
                                           .rank = parts.rank,
                                           .index = {parts.index[0], parts.index[1]}});
    }
    nsi_quantity_list_free(&list);
    return NS_OK;
}
