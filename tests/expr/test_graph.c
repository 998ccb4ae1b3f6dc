// Graphs: equal nodes are one node; ports have names and sizes.

#include "expr/block.h"
#include "expr/graph_rig.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/tracing.h"

#include <math.h>
#include <stdio.h>

// ---- hash-consing --------------------------------------------------------------------------

static void equal_nodes_are_one_node(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), y = ns_input("y"), z = ns_input("z");
    for (nsi_op op = 0; op < NSI_OP_COUNT; op++) {
        if (nsi_ops[op].kind == NSI_KIND_LEAF) continue;
        ns_expr first = make(op, x, y, z);
        uint32_t count = g->nodes.count;
        assert_int_equal(make(op, x, y, z).id, first.id);
        assert_int_equal(g->nodes.count, count);
        // Commuted operands: the same node exactly when the table says so.
        if (nsi_ops[op].arity == 2) {
            bool same = make(op, y, x, z).id == first.id;
            assert_int_equal(same, (nsi_ops[op].flags & NSI_FLAG_COMMUTES) != 0);
        }
    }
    assert_int_equal(ns_fma(x, y, z).id, ns_fma(y, x, z).id);
    assert_int_not_equal(ns_fma(x, y, z).id, ns_fma(x, z, y).id);
    tracing_end();
    ns_graph_free(g);
}

static void constants_are_one_node_by_their_bits(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    assert_int_equal(ns_const(0.1).id, ns_const(0.1).id);
    assert_int_equal(ns_const(NAN).id, ns_const(NAN).id);
    assert_int_not_equal(ns_const(0.1).id, ns_const(nextafter(0.1, 1.0)).id);
    assert_int_not_equal(ns_const(0.0).id, ns_const(-0.0).id);
    tracing_end();
    ns_graph_free(g);
}

// A hundred thousand different nodes, each asked for twice.
static void many_nodes_stay_apart(void** state) {
    (void)state;
    enum { N = 100000 };
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), first = ns_add(x, ns_const(1.0));
    ns_expr last = first;
    for (int i = 0; i < N; i++) last = ns_add(ns_mul(last, x), ns_const(i));
    uint32_t count = g->nodes.count;
    ns_expr again = first;
    for (int i = 0; i < N; i++) again = ns_add(ns_mul(again, x), ns_const(i));
    assert_int_equal(again.id, last.id);
    assert_int_equal(g->nodes.count, count);
    assert_true(count > 2 * N);
    tracing_end();
    ns_graph_free(g);
}

static void equal_blocks_are_one_block(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x[2] = {ns_input("x"), ns_input("y")}, swapped[2] = {x[1], x[0]};
    ns_array w = ns_input_array("w", 12, false), v = ns_input_array("v", 12, false);
    ns_expr a[2], b[2];
    ns_dense_layer(ns_array_slice(w, 0, 6), 2, x, 2, NS_TANH, a);
    ns_dense_layer(ns_array_slice(w, 0, 6), 2, x, 2, NS_TANH, b);
    assert_memory_equal(a, b, sizeof a);
    ns_dense_layer(ns_array_slice(w, 6, 6), 2, x, 2, NS_TANH, b); // other weights
    assert_int_not_equal(a[0].id, b[0].id);
    ns_dense_layer(ns_array_slice(v, 0, 6), 2, x, 2, NS_TANH, b); // another array
    assert_int_not_equal(a[0].id, b[0].id);
    ns_dense_layer(ns_array_slice(w, 0, 6), 2, swapped, 2, NS_TANH, b); // other inputs
    assert_int_not_equal(a[0].id, b[0].id);
    ns_dense_layer(ns_array_slice(w, 0, 4), 2, x, 2, NS_TANH, b); // without biases
    assert_int_not_equal(a[0].id, b[0].id);
    assert_int_equal(g->blocks.count, 5);
    tracing_end();

    // Blocks that add to an array are never merged: each adds.
    uint32_t sink = nsi_graph_sink(g, "s", 1, false);
    nsi_id inputs[2] = {x[0].id, x[1].id};
    nsi_block outer = {.kind = &nsi_dense_outer,
                       .params = {1, 1},
                       .ninput = 2,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = sink};
    assert_int_not_equal(nsi_graph_block(g, &outer), nsi_graph_block(g, &outer));
    assert_int_equal(g->error.status, NS_OK);
    ns_graph_free(g);
}

// ---- ports ---------------------------------------------------------------------------------

static void ports_have_names_and_sizes(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), y = ns_input("y");
    ns_array w = ns_input_array("x", 7, false), v = ns_input_array("v", 9, true);
    ns_output("x", y); // the same name for another kind of port is fine
    ns_output("z", x);
    tracing_end();
    assert_int_equal(w.size, 7);
    assert_int_equal(v.input, 1);
    assert_int_equal(ns_graph_input_count(g), 2);
    assert_int_equal(ns_graph_output_count(g), 2);
    assert_int_equal(ns_graph_array_count(g), 2);
    assert_int_equal(ns_graph_sink_count(g), 0);
    assert_string_equal(ns_graph_input_name(g, 1), "y");
    assert_string_equal(ns_graph_output_name(g, 0), "x");
    assert_string_equal(ns_graph_array_name(g, 1), "v");
    assert_int_equal(ns_graph_array_size(g, 0), 7);
    assert_int_equal(ns_graph_array_size(g, 1), 9);
    assert_null(ns_graph_input_name(g, 2));
    assert_null(ns_graph_output_name(g, UINT32_MAX));
    assert_null(ns_graph_array_name(g, 2));
    assert_null(ns_graph_sink_name(g, 0));
    assert_int_equal(ns_graph_array_size(g, 2), 0);
    assert_int_equal(ns_graph_sink_size(g, 0), 0);
    assert_int_equal(nsi_graph_find(g, NSI_PORT_INPUT, "y"), 1);
    assert_int_equal(nsi_graph_find(g, NSI_PORT_INPUT, "z"), NSI_NONE);
    ns_graph_free(g);
    ns_graph_free(NULL);
}

static void names_are_checked(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_input("twice");
    ns_input("twice");
    end_with(g, NS_ERR_ARGUMENT, "more than one input is called \"twice\"");

    g = tracing_begin();
    ns_output("y", k(1));
    ns_output("y", k(2));
    end_with(g, NS_ERR_ARGUMENT, "more than one output is called \"y\"");

    g = tracing_begin();
    ns_input_array("w", 1, false);
    ns_input_array("w", 2, true);
    end_with(g, NS_ERR_ARGUMENT, "more than one array input is called \"w\"");

    g = tracing_begin();
    ns_input("");
    end_with(g, NS_ERR_ARGUMENT, "an input needs a name");

    g = tracing_begin();
    ns_output(NULL, k(1));
    end_with(g, NS_ERR_ARGUMENT, "an output needs a name");

    char name[1026];
    memset(name, 'n', sizeof name);
    name[1023] = '\0';
    g = tracing_begin();
    ns_input(name);
    ns_output(name, k(1));
    tracing_end();
    assert_string_equal(ns_graph_input_name(g, 0), name);
    ns_graph_free(g);

    name[1023] = 'n';
    name[1024] = '\0';
    g = tracing_begin();
    ns_input(name);
    end_with(g, NS_ERR_LIMIT, "1024 bytes");
}

static void array_sizes_are_checked(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_input_array("w", 0, false);
    end_with(g, NS_ERR_LIMIT, "\"w\" has size 0");
    g = tracing_begin();
    ns_input_array("w", (1u << 28) + 1, false);
    end_with(g, NS_ERR_LIMIT, "\"w\" has size 268435457");

    static const struct {
        uint32_t offset, size;
    } bad[] = {{0, 11}, {10, 1}, {11, 0}, {5, 6}, {UINT32_MAX, 2}, {2, UINT32_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        g = tracing_begin();
        ns_array slice = ns_array_slice(ns_input_array("w", 10, false), bad[i].offset, bad[i].size);
        assert_int_equal(slice.size, 0);
        end_with(g, NS_ERR_ARGUMENT, "does not fit an array of 10");
    }
    // A slice of a slice counts from the slice.
    g = tracing_begin();
    ns_array w = ns_input_array("w", 10, false);
    ns_array slice = ns_array_slice(ns_array_slice(w, 3, 6), 2, 4);
    assert_int_equal(slice.offset, 5);
    assert_int_equal(slice.size, 4);
    ns_array_slice(ns_array_slice(w, 3, 6), 3, 4);
    end_with(g, NS_ERR_ARGUMENT, "an array of 6");
}

// ---- options of differentiation ------------------------------------------------------------

// docs/operations.md says what the table says.
static void the_page_of_operations_is_up_to_date(void** state) {
    (void)state;
    static const struct {
        const char *name, *kind, *edges;
    } rows[] = {
#define OP(ENUM, name, arity, kind, flags, value, da, db, dc, edges) {#name, #kind, edges},
#include "expr/ops.def"
#undef OP
    };
    FILE* file = fopen(NEURALSIM_SOURCE_DIR "/docs/operations.md", "r");
    assert_non_null(file);
    static char page[1 << 16];
    size_t size = fread(page, 1, sizeof page - 1, file);
    fclose(file);
    // Bars are escaped in the page's table.
    for (size_t i = 0, k = 0; i <= size; i++) {
        if (page[i] != '\\' || page[i + 1] != '|') page[k++] = page[i];
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].kind, "LEAF") == 0) continue;
        char start[64];
        snprintf(start, sizeof start, "\n| `%s` |", rows[i].name);
        const char* line = strstr(page, start);
        if (!line) fail_msg("%s is missing", rows[i].name);
        const char *text = strstr(line, rows[i].edges), *end = strchr(line + 1, '\n');
        if (!text || text > end) fail_msg("%s: \"%s\" is missing", rows[i].name, rows[i].edges);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_nodes_are_one_node),
        cmocka_unit_test(constants_are_one_node_by_their_bits),
        cmocka_unit_test(many_nodes_stay_apart),
        cmocka_unit_test(equal_blocks_are_one_block),
        cmocka_unit_test(ports_have_names_and_sizes),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(array_sizes_are_checked),
        cmocka_unit_test(the_page_of_operations_is_up_to_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
