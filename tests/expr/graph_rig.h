// Short names for making nodes, for tests of graphs.

#ifndef TEST_GRAPH_RIG_H
#define TEST_GRAPH_RIG_H

#include "expr/block.h"
#include "expr/trace.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"

// End a trace that must have failed with this status and a message that says `text`.
static inline void end_with(ns_graph* g, ns_status status, const char* text) {
    ns_error error;
    assert_int_equal(ns_trace_end(&error), status);
    assert_int_equal(error.status, status);
    if (!strstr(error.message, text)) fail_msg("\"%s\" does not say \"%s\"", error.message, text);
    ns_graph_free(g);
}

static inline ns_expr make(nsi_op op, ns_expr a, ns_expr b, ns_expr c) {
    return (ns_expr){nsi_make(nsi_trace_graph(), op, a.id, b.id, c.id)};
}

// ---- identities ----------------------------------------------------------------------------

static inline ns_expr k(double value) {
    return ns_const(value);
}

#endif
