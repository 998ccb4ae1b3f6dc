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

#include "expr/call.h"

#include <math.h>

typedef struct printer {
    nsi_text_builder text;
    const ns_graph* g;
    nsi_id* numbers; // of the live nodes; NSI_NONE for the others
    uint32_t ninput; // inputs declared so far
    const double*
        off; // of a function: constants of its outputs where the call is inactive; or NULL
    NSI_ARRAY(const nsi_function*) functions; // printed before the nodes, in order of their use
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

// The number of a function in the text, or NSI_NONE.
static uint32_t printed_function(const printer* p, const nsi_function* function) {
    uint32_t k = p->functions.count;
    while (k > 0 && p->functions.data[k - 1] != function) k--;
    return k == 0 ? NSI_NONE : k - 1;
}

static void print_block(printer* p, const nsi_block* block) {
    nsi_text_builder* text = &p->text;
    nsi_text_add(text, "block %s", block->kind->name);
    for (uint32_t k = 0; k < block->kind->nparam; k++) {
        uint32_t value = block->function ? printed_function(p, block->function) : block->params[k];
        nsi_text_add(text, " %s=%u", block->kind->param_names[k], value);
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

// What the graph is a function of; nodes; outputs.
static void print_lines(printer* p, const uint8_t* live) {
    const ns_graph* g = p->g;
    nsi_id first = number_nodes(p, live);

    // Usually that is all of its inputs.
    print_inputs_before(p, first);
    print_arrays(&p->text, "array", &g->arrays);
    print_arrays(&p->text, "sink", &g->sinks);

    // Nodes, with inputs among them where they were made, so that reading gives the same order.
    for (nsi_id i = 0; i < g->nodes.count && !p->text.failed; i++) {
        if (!live[i]) continue;
        print_inputs_before(p, i + 1);
        print_node(p, i);
    }
    print_inputs_before(p, g->nodes.count); // that no node follows

    // Outputs refer to nodes by number.
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        nsi_text_add(&p->text, "output ");
        print_quoted(&p->text, g->outputs.data[k].name);
        nsi_text_add(&p->text, " %%%u", p->numbers[g->outputs.data[k].node]);
        if (p->off && !(p->off[k] == 0.0 && !signbit(p->off[k]))) {
            nsi_text_add(&p->text, " otherwise ");
            nsi_text_add_double(&p->text, p->off[k]);
        }
        nsi_text_add(&p->text, "\n");
    }
}

static bool print_graph(printer* p);

// The functions that live blocks call: "function", the lines of a graph, "end".
static bool print_functions(printer* p, const uint8_t* live) {
    const ns_graph* g = p->g;
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        if (!live[i] || g->nodes.data[i].op != NSI_BLOCK) continue;
        const nsi_function* f = g->blocks.data[g->nodes.data[i].a].function;
        if (!f || printed_function(p, f) != NSI_NONE) continue;
        if (!nsi_array_push(&g->allocator, &p->functions, f)) return false;
        nsi_text_add(&p->text, "function\n");
        printer body = {.text = p->text, .g = f->body, .off = f->off};
        bool printed = print_graph(&body);
        p->text = body.text;
        if (!printed) return false;
        nsi_text_add(&p->text, "end\n");
    }
    return true;
}

// All lines but the header; false when out of memory.
static bool print_graph(printer* p) {
    const ns_graph* g = p->g;
    uint8_t* live = nsi_alloc(&g->allocator, (size_t)g->nodes.count + 1);
    p->numbers = nsi_alloc(&g->allocator, ((size_t)g->nodes.count + 1) * sizeof *p->numbers);
    bool done = live && p->numbers;
    if (done) nsi_graph_mark_live(g, live);
    if (done) done = print_functions(p, live);
    if (done) print_lines(p, live);
    nsi_free(&g->allocator, live);
    nsi_free(&g->allocator, p->numbers);
    nsi_array_free(&g->allocator, &p->functions);
    return done;
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
    nsi_text_add(&p.text, "graph 1%s\n", g->lowered ? " lowered" : "");
    if (!print_graph(&p)) p.text.failed = true;
    return nsi_text_finish(&p.text, out, error);
}
