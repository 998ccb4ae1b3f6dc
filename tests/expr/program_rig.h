// Graphs that tests of programs and emitted C share.

#ifndef TEST_PROGRAM_RIG_H
#define TEST_PROGRAM_RIG_H

#include "expr/code.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/check.h"

// Two layers, functions, selects, a gradient inside: something of everything, for one allocator.
static inline ns_status trace_mixture(ns_graph* g, ns_error* error) {
    enum { WIDTH = 3 };
    ns_status status = ns_trace_begin(g, error);
    if (status != NS_OK) return status;
    ns_expr x[2] = {ns_input("x"), ns_input("y")}, hidden[WIDTH], out[1], slope[2];
    uint32_t first = ns_dense_size(2, WIDTH), second = ns_dense_size(WIDTH, 1);
    ns_array w = ns_input_array("w", first + second, false);
    ns_dense_layer(ns_array_slice(w, 0, first), 2, x, WIDTH, NS_TANH, hidden);
    ns_dense_layer(ns_array_slice(w, first, second), WIDTH, hidden, 1, NS_IDENTITY, out);
    ns_expr y = ns_select(ns_gt(x[0], x[1]), ns_sin(x[0]), ns_div(x[1], ns_exp(x[0])));
    ns_gradient(y, 2, x, slope);
    ns_output("f", ns_add(out[0], y));
    ns_output("g", ns_mul(slope[0], slope[1]));
    return ns_trace_end(error);
}

static inline ns_graph* mixture(const ns_allocator* allocator) {
    ns_graph* g = NULL;
    ns_error error;
    assert_int_equal(ns_graph_create(allocator, &g, &error), NS_OK);
    must(trace_mixture(g, &error), &error);
    return g;
}

static inline ns_program* build(const ns_graph* g, ns_backend backend, uint32_t lanes) {
    ns_program_options options = ns_default_program_options();
    options.backend = backend;
    options.lanes = lanes;
    ns_program* program = NULL;
    ns_error error;
    must(ns_program_build(g, &options, &program, &error), &error);
    return program;
}

#endif
