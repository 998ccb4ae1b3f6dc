// Graphs from text and back, for tests of printing and parsing.

#ifndef TEST_TEXT_RIG_H
#define TEST_TEXT_RIG_H

#include "expr/block.h"
#include "neuralsim/program.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <stdlib.h>

// ---- helpers -------------------------------------------------------------------------------

static inline ns_graph* parse(const char* text) {
    ns_graph* g = NULL;
    ns_error error = {0};
    must(ns_graph_parse(text, strlen(text), NULL, NULL, &g, &error), &error);
    assert_int_equal(nsi_graph_validate(g, NULL), NS_OK);
    return g;
}

static inline ns_text print(const ns_graph* g) {
    ns_text text;
    assert_int_equal(ns_graph_print(g, &text, NULL), NS_OK);
    assert_int_equal(strlen(text.data), text.size);
    return text;
}

// Print, read, print again: the same bytes, and the same ports.
static inline void check_round_trip(const ns_graph* g) {
    assert_int_equal(g->error.status, NS_OK);
    ns_text first = print(g);
    ns_graph* copy = parse(first.data);
    ns_text second = print(copy);
    assert_string_equal(first.data, second.data);

    assert_int_equal(ns_graph_op_count(copy), ns_graph_op_count(g));
    assert_int_equal(copy->inputs.count, g->inputs.count);
    assert_int_equal(copy->outputs.count, g->outputs.count);
    assert_int_equal(copy->arrays.count, g->arrays.count);
    assert_int_equal(copy->sinks.count, g->sinks.count);
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        assert_string_equal(copy->inputs.data[k].name, g->inputs.data[k].name);
    }
    for (uint32_t k = 0; k < g->arrays.count; k++) {
        assert_string_equal(copy->arrays.data[k].name, g->arrays.data[k].name);
        assert_int_equal(copy->arrays.data[k].size, g->arrays.data[k].size);
        assert_int_equal(copy->arrays.data[k].per_lane, g->arrays.data[k].per_lane);
    }
    ns_text_free(&first);
    ns_text_free(&second);
    ns_graph_free(copy);
}

static inline void check_printed(const char* text, const char* expected) {
    ns_graph* g = parse(text);
    ns_text printed = print(g);
    assert_string_equal(printed.data, expected);
    check_round_trip(g);
    ns_text_free(&printed);
    ns_graph_free(g);
}

// ---- what is printed -----------------------------------------------------------------------

static const char sample[] = "graph 1\n"
                             "input \"q\"\n"
                             "input \"unused\"\n"
                             "input \"dq\"\n"
                             "array \"net/w\" 48\n"
                             "array \"scale\" 2 per_lane\n"
                             "sink \"d:net/w\" 48\n"
                             "sink \"d:scale\" 2 per_lane\n"
                             "%0 = input 0\n"
                             "%1 = input 2\n"
                             "%2 = const 0.5\n"
                             "%3 = sin %0\n"
                             "%4 = fma %1 %2 %0\n"
                             "%5 = block dense nin=4 nout=2 (%0 %1 %3 %4) from @0+40\n"
                             "%6 = out %5 0\n"
                             "%7 = out %5 1\n"
                             "%8 = block dense_transpose nin=1 nout=2 (%6 %7) from @1+0\n"
                             "%9 = out %8 0\n"
                             "%10 = block dense_outer nin=1 nout=2 (%0 %1 %3) into @0+12\n"
                             "%11 = block dense_outer nin=1 nout=2 (%0 %1 %3) into @0+12\n"
                             "input \"late\"\n"
                             "%12 = input 3\n"
                             "%13 = mul %4 %12\n"
                             "output \"y\" %9\n"
                             "output \"z\" %13\n"
                             "output \"same\" %13\n";

// ---- malformed texts -----------------------------------------------------------------------

#define HEAD "graph 1\ninput \"x\"\narray \"w\" 8\nsink \"s\" 8\n%0 = input 0\n" // five lines

static inline void check_malformed(const char* text, size_t size, const char* expected) {
    // A copy without a byte to spare, so that reading past the end is seen.
    char* copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_graph* g = NULL;
    ns_error error = {0};
    ns_status status = ns_graph_parse(copy, size, "t", &allocator, &g, &error);
    free(copy);
    if (status != NS_ERR_PARSE || error.status != status || !strstr(error.message, expected)) {
        fail_msg("%.*s\nexpected: %s\nstatus %d: %s", (int)size, text, expected, status,
                 error.message);
    }
    assert_null(g);
    assert_int_equal(counter.live_blocks, 0);
}

#endif
