#include "expr/substitute.h"

#include <stdlib.h>

ns_status nsi_substitution_begin(const ns_graph* from, uint32_t first, nsi_placeholder_value* value,
                                 void* context, nsi_substitution* out, ns_error* error) {
    const ns_allocator* memory = &from->allocator;
    *out = (nsi_substitution){
        .from = from, .first = first, .value = value, .context = context, .cyclic = NSI_NONE};
    ns_status status = ns_graph_create(memory, &out->to, error);
    if (status != NS_OK) return status;

    // Ports, in their order.
    for (uint32_t i = 0; i < first; i++) nsi_graph_input(out->to, from->inputs.data[i].name);
    for (uint32_t i = 0; i < from->arrays.count; i++) {
        const nsi_array_port* array = &from->arrays.data[i];
        nsi_graph_array(out->to, array->name, array->size, array->per_lane);
    }
    status = nsi_graph_finish(&out->to, error);
    if (status != NS_OK) return status;

    // Where nodes go: nowhere yet.
    size_t count = (size_t)from->nodes.count + 1, nplaceholder = from->inputs.count - first;
    out->visit = nsi_alloc_zeroed(memory, count * sizeof *out->visit);
    bool ok = out->visit != NULL;
    for (int v = 0; v < NSI_MAX_VARIANTS; v++) {
        out->map[v] = nsi_alloc(memory, count * sizeof *out->map[v]);
        out->busy[v] = nsi_alloc_zeroed(memory, nplaceholder + 1);
        ok = ok && out->map[v] && out->busy[v];
        for (size_t i = 0; i < count && out->map[v]; i++) out->map[v][i] = NSI_NONE;
    }
    if (ok) return NS_OK;
    ns_graph_free(out->to);
    out->to = NULL;
    nsi_substitution_free(out);
    return nsi_fail_nomem(error);
}

void nsi_substitution_free(nsi_substitution* s) {
    const ns_allocator* memory = &s->from->allocator;
    nsi_free(memory, s->visit);
    for (int v = 0; v < NSI_MAX_VARIANTS; v++) {
        nsi_free(memory, s->map[v]);
        nsi_free(memory, s->busy[v]);
        s->map[v] = NULL;
        s->busy[v] = NULL;
    }
    s->visit = NULL;
}

typedef NSI_ARRAY(nsi_id) id_list;

static bool visit_node(nsi_substitution* s, nsi_id id, uint32_t variant, id_list* list) {
    if (s->map[variant][id] != NSI_NONE || s->visit[id] == s->nvisit) return true;
    s->visit[id] = s->nvisit;
    return nsi_array_push(&s->to->allocator, list, id);
}

// All nodes that `node` is computed from and that are not there yet, itself included.
static bool collect_missing(nsi_substitution* s, nsi_id node, uint32_t variant, id_list* list) {
    s->nvisit++;
    bool ok = visit_node(s, node, variant, list);
    for (uint32_t at = 0; ok && at < list->count; at++) {
        const nsi_node* n = &s->from->nodes.data[list->data[at]];
        if (n->op == NSI_BLOCK) {
            const nsi_block* block = &s->from->blocks.data[n->a];
            for (uint32_t k = 0; ok && k < block->ninput; k++) {
                ok = visit_node(s, block->inputs[k], variant, list);
            }
        } else {
            for (uint32_t k = 0; ok && k < nsi_node_arity(n); k++) {
                ok = visit_node(s, nsi_node_operand(n, k), variant, list);
            }
        }
    }
    return ok;
}

static int compare_ids(const void* a, const void* b) {
    nsi_id x = *(const nsi_id*)a, y = *(const nsi_id*)b;
    return (x > y) - (x < y);
}

static nsi_id placeholder(nsi_substitution* s, uint32_t input, uint32_t variant) {
    uint8_t* busy = &s->busy[variant][input - s->first];
    if (*busy) {
        s->cyclic = input - s->first;
        return nsi_graph_fail(s->to, NS_ERR_STATE, "placeholder \"%.200s\" depends on itself",
                              s->from->inputs.data[input].name);
    }
    *busy = 1;
    nsi_id value = s->value(s->context, s, input - s->first, variant);
    *busy = 0;
    return value;
}

nsi_id nsi_substitute(nsi_substitution* s, nsi_id node, uint32_t variant) {
    if (node == NSI_NONE || s->to->error.status != NS_OK) return NSI_NONE;
    nsi_id* map = s->map[variant];
    if (map[node] != NSI_NONE) return map[node];
    id_list missing = {0};
    if (!collect_missing(s, node, variant, &missing)) nsi_graph_fail_nomem(s->to);

    // In the order of the original, which decides what is fused (contract.c). A placeholder may make
    // some of them on its way.
    if (missing.count > 1) {
        qsort(missing.data, missing.count, sizeof *missing.data, compare_ids);
    }
    for (uint32_t k = 0; k < missing.count && s->to->error.status == NS_OK; k++) {
        nsi_id id = missing.data[k];
        const nsi_node* n = &s->from->nodes.data[id];
        if (map[id] != NSI_NONE) continue;
        if (n->op == NSI_INPUT && n->a >= s->first) {
            map[id] = placeholder(s, n->a, variant);
        } else {
            map[id] = nsi_graph_copy_node(s->from, id, s->to, map);
        }
    }
    nsi_array_free(&s->to->allocator, &missing);
    return s->to->error.status == NS_OK ? map[node] : NSI_NONE;
}

void nsi_substitution_finish(nsi_substitution* s) {
    for (uint32_t i = 0; i < s->from->nodes.count; i++) nsi_substitute(s, i, 0);
    for (int v = 0; v < NSI_MAX_VARIANTS && s->to->error.status == NS_OK; v++) {
        for (uint32_t k = 0; k < s->from->rounded.count; k++) {
            nsi_graph_round(s->to, s->map[v][s->from->rounded.data[k]]);
        }
    }
}
