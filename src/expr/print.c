// The graph as text. parse.c reads it back; docs/design.md describes the form.
//
//     graph 1
//     input "q"
//     array "w" 40
//     %0 = input 0
//     %1 = const 0.5
//     %2 = mul %0 %1
//     output "y" %2
//
// Nodes are numbered anew, live ones only, in index order. The line that declares an input stands
// where its node does among them, so that reading the lines in order builds the same nodes in the
// same order: commuting operands keep theirs, and printing again gives the same bytes.

#include "expr/block.h"

typedef struct printer {
    nsi_text_builder text;
    const ns_graph* g;
    nsi_id* numbers; // of the live nodes; NSI_NONE for the others
    uint32_t ninput; // inputs declared so far
} printer;

// Printable ASCII stays; a quote, a backslash and any other byte is escaped, so that no name can
// end its string or its line.
static void print_quoted(nsi_text_builder* text, const char* name) {
    nsi_text_add_bytes(text, "\"", 1);
    for (const char* at = name; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\') {
            nsi_text_add(text, "\\%c", c);
        } else if (c < 0x20 || c >= 0x7f) {
            nsi_text_add(text, "\\x%02x", c);
        } else {
            nsi_text_add_bytes(text, at, 1);
        }
    }
    nsi_text_add_bytes(text, "\"", 1);
}

// Declare the inputs whose nodes come before node `i`.
static void print_inputs_before(printer* p, nsi_id i) {
    const nsi_ports* inputs = &p->g->inputs;
    for (; p->ninput < inputs->count && inputs->data[p->ninput].node < i; p->ninput++) {
        nsi_text_add(&p->text, "input ");
        print_quoted(&p->text, inputs->data[p->ninput].name);
        nsi_text_add(&p->text, "\n");
    }
}

static void print_arrays(nsi_text_builder* text, const char* what, const nsi_arrays* arrays) {
    for (uint32_t k = 0; k < arrays->count; k++) {
        const nsi_array_port* array = &arrays->data[k];
        nsi_text_add(text, "%s ", what);
        print_quoted(text, array->name);
        nsi_text_add(text, " %u%s\n", array->size, array->per_lane ? " per_lane" : "");
    }
}

static void print_block(printer* p, const nsi_block* block) {
    nsi_text_builder* text = &p->text;
    nsi_text_add(text, "block %s", block->kind->name);
    for (uint32_t k = 0; k < block->kind->nparam; k++) {
        nsi_text_add(text, " %s=%u", block->kind->param_names[k], block->params[k]);
    }
    for (uint32_t k = 0; k < block->ninput; k++) {
        nsi_text_add(text, "%s%%%u", k == 0 ? " (" : " ", p->numbers[block->inputs[k]]);
    }
    nsi_text_add(text, block->ninput ? ")" : " ()");
    if (block->source != NSI_NONE) {
        nsi_text_add(text, " from @%u+%u", block->source, block->source_offset);
    }
    if (block->sink != NSI_NONE) {
        nsi_text_add(text, " into @%u+%u", block->sink, block->sink_offset);
    }
}

static void print_node(printer* p, nsi_id i) {
    const nsi_node* node = &p->g->nodes.data[i];
    nsi_text_add(&p->text, "%%%u = ", p->numbers[i]);
    switch (node->op) {
    case NSI_CONST:
        nsi_text_add(&p->text, "const ");
        nsi_text_add_double(&p->text, node->value);
        break;
    case NSI_INPUT: nsi_text_add(&p->text, "input %u", node->a); break;
    case NSI_BLOCK: print_block(p, &p->g->blocks.data[node->a]); break;
    case NSI_OUT: nsi_text_add(&p->text, "out %%%u %u", p->numbers[node->a], node->b); break;
    default:
        nsi_text_add(&p->text, "%s", nsi_ops[node->op].name);
        for (uint32_t k = 0; k < nsi_node_arity(node); k++) {
            nsi_text_add(&p->text, " %%%u", p->numbers[nsi_node_operand(node, k)]);
        }
    }
    nsi_text_add(&p->text, "\n");
}

// Number the live nodes; returns the first that is no input, or the number of nodes.
static nsi_id number_nodes(printer* p, const uint8_t* live) {
    nsi_id first = p->g->nodes.count;
    uint32_t count = 0;
    for (nsi_id i = 0; i < p->g->nodes.count; i++) {
        p->numbers[i] = live[i] ? count++ : NSI_NONE;
        if (first > i && live[i] && p->g->nodes.data[i].op != NSI_INPUT) first = i;
    }
    return first;
}

ns_status ns_graph_print(const ns_graph* g, ns_text* out, ns_error* error) {
    *out = (ns_text){0};
    // An invalid graph has no text.
    if (g->error.status != NS_OK) {
        if (error) *error = g->error;
        return g->error.status;
    }

    // Dead nodes are not printed, and live ones numbered consecutively.
    printer p = {.text = {.allocator = g->allocator}, .g = g};
    uint8_t* live = nsi_alloc(&g->allocator, g->nodes.count);
    p.numbers = nsi_alloc(&g->allocator, g->nodes.count * sizeof *p.numbers);
    if (!live || !p.numbers) {
        nsi_free(&g->allocator, live);
        nsi_free(&g->allocator, p.numbers);
        return nsi_fail_nomem(error);
    }
    nsi_graph_mark_live(g, live);
    nsi_id first = number_nodes(&p, live);

    // Header and ports; usually all inputs come first.
    nsi_text_add(&p.text, "graph 1%s\n", g->lowered ? " lowered" : "");
    print_inputs_before(&p, first);
    print_arrays(&p.text, "array", &g->arrays);
    print_arrays(&p.text, "sink", &g->sinks);

    // Nodes in their order, inputs among them, so that parsing gives the same graph.
    for (nsi_id i = 0; i < g->nodes.count && !p.text.failed; i++) {
        if (!live[i]) continue;
        print_inputs_before(&p, i + 1);
        print_node(&p, i);
    }
    // Inputs that no node follows.
    print_inputs_before(&p, g->nodes.count);

    // Outputs refer to nodes by number.
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        nsi_text_add(&p.text, "output ");
        print_quoted(&p.text, g->outputs.data[k].name);
        nsi_text_add(&p.text, " %%%u\n", p.numbers[g->outputs.data[k].node]);
    }

    nsi_free(&g->allocator, live);
    nsi_free(&g->allocator, p.numbers);
    return nsi_text_finish(&p.text, out, error);
}
