#include "support/tracing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

ns_graph* tracing_begin(void) {
    ns_graph* g = NULL;
    assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
    return g;
}

void tracing_end(void) {
    ns_error error;
    if (ns_trace_end(&error) != NS_OK) fail_msg("%s", error.message);
}
