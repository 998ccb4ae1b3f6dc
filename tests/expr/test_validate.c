// The validator finds every corruption of a graph.

#include "expr/block.h"
#include "expr/graph_rig.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/tracing.h"

typedef struct victim {
    ns_graph* g;
    nsi_id input, add, block, out, outer; // nodes
} victim;

static victim make_victim(void) {
    victim v = {.g = tracing_begin()};
    ns_expr x = ns_input("x"), y = ns_input("y"), layer[2];
    ns_array w = ns_input_array("w", 8, false);
    v.input = y.id;
    v.add = ns_add(x, y).id;
    ns_dense_layer(ns_array_slice(w, 4, 4), 2, (ns_expr[]){x, y}, 2, NS_IDENTITY, layer);
    v.out = layer[1].id;
    v.block = v.g->nodes.data[v.out].a;
    nsi_id inputs[2] = {x.id, y.id};
    nsi_block outer = {.kind = &nsi_dense_outer,
                       .params = {1, 1},
                       .ninput = 2,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = nsi_graph_sink(v.g, "s", 3, false),
                       .sink_offset = 2};
    v.outer = nsi_graph_block(v.g, &outer);
    ns_output("sum", ns_sub(ns_sin(layer[1]), (ns_expr){v.add}));
    tracing_end();
    return v;
}

// Each way of breaking a graph, and what the validator says about it.
#define CORRUPTIONS(X)                                                                             \
    X(g->nodes.data[v.add].op = NSI_OP_COUNT, "unknown operation")                                 \
    X(g->nodes.data[v.input].a = 0, "input without its port")                                      \
    X(g->nodes.data[v.input].a = 99, "input without its port")                                     \
    X(g->inputs.data[1].node = v.add, "input without its port")                                    \
    X(g->nodes.data[v.add].a = v.add, "operand not before its use")                                \
    X(g->nodes.data[v.add].b = g->nodes.count, "operand not before its use")                       \
    X(g->nodes.data[g->nodes.count - 1].a = v.block, "only an output of a block")                  \
    X(g->nodes.data[v.out].a = v.add, "only an output of a block")                                 \
    X(g->nodes.data[v.out].b = 2, "no such output of the block")                                   \
    X(g->nodes.data[v.block].a = g->blocks.count, "no such block")                                 \
    X(g->blocks.data[0].params[0] = 0, "bad parameters")                                           \
    X(g->blocks.data[0].params[0] = 3, "block sizes differ")                                       \
    X(g->blocks.data[0].noutput = 3, "block sizes differ")                                         \
    X(g->blocks.data[0].source = NSI_NONE, "array missing or not wanted")                          \
    X(g->blocks.data[0].sink = 0, "array missing or not wanted")                                   \
    X(g->blocks.data[1].sink = NSI_NONE, "array missing or not wanted")                            \
    X(g->blocks.data[0].source = 1, "array input out of range")                                    \
    X(g->blocks.data[0].source_offset = 5, "array input out of range")                             \
    X(g->blocks.data[0].source_offset = UINT32_MAX, "array input out of range")                    \
    X(g->blocks.data[1].sink = 1, "array output out of range")                                     \
    X(g->blocks.data[1].sink_offset = 3, "array output out of range")                              \
    X(((nsi_id*)g->blocks.data[0].inputs)[1] = v.block, "block input not before")                  \
    X(((nsi_id*)g->blocks.data[1].inputs)[0] = v.block, "used as a number")                        \
    X(g->outputs.data[0].node = g->nodes.count, "output 0 is not a number")                        \
    X(g->outputs.data[0].node = v.block, "output 0 is not a number")

static void validator_finds_every_corruption(void** state) {
    (void)state;
    ns_error error;
    victim sound = make_victim();
    assert_int_equal(nsi_graph_validate(sound.g, &error), NS_OK);
    ns_graph_free(sound.g);
#define CORRUPT(change, says)                                                                      \
    {                                                                                              \
        victim v = make_victim();                                                                  \
        ns_graph* g = v.g;                                                                         \
        change;                                                                                    \
        if (nsi_graph_validate(g, &error) != NS_ERR_INVALID) fail_msg("not noticed: " #change);    \
        if (!strstr(error.message, says)) fail_msg(#change ": %s", error.message);                 \
        assert_int_equal(nsi_graph_validate(g, NULL), NS_ERR_INVALID);                             \
        ns_graph_free(g);                                                                          \
    }
    CORRUPTIONS(CORRUPT)
#undef CORRUPT
}

static void blocks_are_checked_when_built(void** state) {
    (void)state;
    for (int bad = 0; bad < 5; bad++) {
        ns_graph* g = tracing_begin();
        nsi_id inputs[2] = {ns_input("x").id, ns_input("y").id};
        nsi_block block = {.kind = &nsi_dense,
                           .params = {2, 2},
                           .ninput = 2,
                           .inputs = inputs,
                           .source = ns_input_array("w", 4, false).input,
                           .sink = NSI_NONE};
        if (bad == 0) block.params[0] = 3;
        if (bad == 1) block.params[1] = 1 << 20;
        if (bad == 2) block.source_offset = 1;
        if (bad == 3) block.sink = 0;
        if (bad == 4) inputs[1] = 77;
        assert_int_equal(nsi_graph_block(g, &block), NSI_NONE);
        end_with(g, NS_ERR_ARGUMENT, "block dense");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validator_finds_every_corruption),
        cmocka_unit_test(blocks_are_checked_when_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
