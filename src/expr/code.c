// From graph to code: the pass list, then numbering of values.

#include "expr/code.h"

static bool append_block(const ns_graph* g, const nsi_node* node, const uint32_t* ref,
                         nsi_code* code) {
    const nsi_block* block = &g->blocks.data[node->a];
    nsi_block_sizes sizes = {0};
    block->kind->sizes(block->params, &sizes);
    nsi_code_block item = {.kind = block->kind,
                           .ninput = block->ninput,
                           .noutput = block->noutput,
                           .first_input = code->block_inputs.count,
                           .first_value = code->nvalue,
                           .step = code->steps.count,
                           .stage = block->ninput + sizes.scratch,
                           .source = block->source,
                           .source_offset = block->source_offset,
                           .sink = block->sink,
                           .sink_offset = block->sink_offset,
                           .data = block->data};
    memcpy(item.params, block->params, sizeof item.params);
    if (block->source != NSI_NONE) item.source_per_lane = g->arrays.data[block->source].per_lane;
    if (block->sink != NSI_NONE) item.sink_per_lane = g->sinks.data[block->sink].per_lane;
    for (uint32_t k = 0; k < block->ninput; k++) {
        if (!nsi_array_push(&code->allocator, &code->block_inputs, ref[block->inputs[k]])) {
            return false;
        }
    }
    code->nvalue += block->noutput;
    if (!nsi_array_push(&code->allocator, &code->blocks, item)) return false;
    nsi_block_data_retain(item.data);
    return true;
}

// Values of the program, of which a reference can number 2^30. The number of nodes does not bound
// them: one line of text makes a block with thousands of outputs.
static uint64_t count_values(const ns_graph* g, const uint8_t* live) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const nsi_node* node = &g->nodes.data[i];
        if (live[i]) count += node->op == NSI_BLOCK ? g->blocks.data[node->a].noutput : 1;
    }
    return count;
}

// Number the live nodes; ref[i] is the reference of node i.
static bool number_values(const ns_graph* g, const uint8_t* live, uint32_t* ref, nsi_code* code) {
    // Dead nodes get no reference.
    const ns_allocator* memory = &code->allocator;

    // Every live node gets a reference, in the order of tracing.
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const nsi_node* node = &g->nodes.data[i];
        if (!live[i]) continue;
        nsi_step step = {.op = node->op};
        switch (node->op) {
        // Constants are kept in a table of their own.
        case NSI_CONST:
            ref[i] = NSI_REF(NSI_BASE_CONST, code->consts.count);
            if (!nsi_array_push(memory, &code->consts, node->value)) return false;
            continue;
        // Inputs are read from where the caller has them.
        case NSI_INPUT: ref[i] = NSI_REF(NSI_BASE_INPUT, node->a); continue;
        case NSI_OUT:
            ref[i] = ref[node->a] + node->b; // values of a block are consecutive
            continue;
        case NSI_BLOCK:
            // Blocks are steps with several results.
            ref[i] = NSI_REF(NSI_BASE_WORK, code->nvalue);
            step.a = code->blocks.count;
            step.dst = ref[i];
            if (!append_block(g, node, ref, code)) return false;
            break;
        default:
            // Unary operations repeat their operand, so that readers need no special case.
            ref[i] = step.dst = NSI_REF(NSI_BASE_WORK, code->nvalue++);
            step.a = ref[node->a];
            step.b = nsi_ops[node->op].arity > 1 ? ref[node->b] : step.a;
            step.c = nsi_ops[node->op].arity > 2 ? ref[node->c] : step.a;
        }
        if (!nsi_array_push(memory, &code->steps, step)) return false;
    }

    // Outputs are references to values, inputs or constants.
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        if (!nsi_array_push(memory, &code->outputs, ref[g->outputs.data[k].node])) return false;
    }
    return true;
}

ns_status ns_graph_lower(const ns_graph* graph, bool fuse, ns_graph** out, ns_error* error) {
    *out = NULL;
    if (graph->error.status != NS_OK) {
        if (error) *error = graph->error;
        return graph->error.status;
    }
    ns_status status = nsi_pass_lower(graph, out, error);
    if (status == NS_OK) NSI_DEBUG_VALIDATE(*out);
    if (status == NS_OK && fuse) status = nsi_pass_contract(*out, error);
    if (status == NS_OK) NSI_DEBUG_VALIDATE(*out);
    if (status != NS_OK) {
        ns_graph_free(*out);
        *out = NULL;
    }
    return status;
}

ns_status nsi_code_build(const ns_graph* graph, nsi_code* code, ns_error* error) {
    *code = (nsi_code){.allocator = graph->allocator, .ninput = graph->inputs.count};
    ns_graph* g = NULL;
    ns_status status = ns_graph_lower(graph, true, &g, error);
    if (status != NS_OK) return status;
    const ns_allocator* memory = &code->allocator;
    uint8_t* live = nsi_alloc(memory, (size_t)g->nodes.count + 1);
    uint32_t* ref = nsi_alloc(memory, ((size_t)g->nodes.count + 1) * sizeof *ref);
    if (live && ref) nsi_graph_mark_live(g, live);
    if (live && ref && count_values(g, live) > NSI_MAX_NODES) {
        status = nsi_fail(error, NS_ERR_LIMIT,
                          "the graph has more than %d values, outputs of blocks included",
                          NSI_MAX_NODES);
    } else if (!live || !ref || !number_values(g, live, ref, code) ||
               !nsi_code_find_regions(code)) {
        status = nsi_fail_nomem(error);
    }
    nsi_free(memory, live);
    nsi_free(memory, ref);
    ns_graph_free(g);
    if (status != NS_OK) nsi_code_free(code);
    return status;
}

void nsi_code_free(nsi_code* code) {
    for (uint32_t i = 0; i < code->blocks.count; i++) {
        nsi_block_data_release(code->blocks.data[i].data);
    }
    nsi_array_free(&code->allocator, &code->steps);
    nsi_array_free(&code->allocator, &code->consts);
    nsi_array_free(&code->allocator, &code->blocks);
    nsi_array_free(&code->allocator, &code->block_inputs);
    nsi_array_free(&code->allocator, &code->outputs);
    nsi_array_free(&code->allocator, &code->regions);
}

void nsi_code_last_uses(const nsi_code* code, uint32_t* last) {
    for (uint32_t i = 0; i < code->steps.count; i++) {
        const nsi_step* step = &code->steps.data[i];
        if (step->op == NSI_BLOCK) {
            const nsi_code_block* block = &code->blocks.data[step->a];
            for (uint32_t k = 0; k < block->ninput; k++) {
                uint32_t ref = code->block_inputs.data[block->first_input + k];
                if (nsi_is_value(ref)) last[NSI_REF_COMPONENT(ref)] = i;
            }
            for (uint32_t k = 0; k < block->noutput; k++) last[block->first_value + k] = i;
            continue;
        }
        for (uint32_t k = 0; k < nsi_ops[step->op].arity; k++) {
            uint32_t ref = nsi_step_operand(step, k);
            if (nsi_is_value(ref)) last[NSI_REF_COMPONENT(ref)] = i;
        }
        last[NSI_REF_COMPONENT(step->dst)] = i;
    }
}

// ---- slots ---------------------------------------------------------------------------------

uint32_t nsi_slots_take(nsi_slots* slots) {
    if (slots->unused.count > 0) return slots->unused.data[--slots->unused.count];
    return slots->count++;
}

uint32_t nsi_slots_take_range(nsi_slots* slots, uint32_t count) {
    uint32_t first = slots->count;
    slots->count += count;
    return first;
}

bool nsi_slots_release(const ns_allocator* memory, nsi_slots* slots, uint32_t slot) {
    return nsi_array_push(memory, &slots->unused, slot);
}

// ---- blocks at run time --------------------------------------------------------------------

void nsi_code_block_run(const nsi_code_block* block, nsi_block_kernel* kernel, uint32_t lanes,
                        const ns_run* run, double* x, double* y) {
    nsi_block_args args = {.params = block->params,
                           .data = block->data,
                           .x = x,
                           .y = y,
                           .scratch = x + (size_t)block->ninput * lanes};
    if (block->source != NSI_NONE) {
        args.source_step = block->source_per_lane ? lanes : 1;
        args.source = run->arrays[block->source] + block->source_offset * args.source_step;
    }
    if (block->sink != NSI_NONE) {
        args.sink_step = block->sink_per_lane ? lanes : 1;
        args.sink = run->sinks[block->sink] + block->sink_offset * args.sink_step;
    }
    kernel(&args);
}
