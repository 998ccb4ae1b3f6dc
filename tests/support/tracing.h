// A graph to trace into, with failures of the trace as failures of the test.

#ifndef TEST_TRACING_H
#define TEST_TRACING_H

#include "neuralsim/expr.h"

// A new graph, being traced; the caller frees it.
ns_graph* tracing_begin(void);

// The trace must have gone well.
void tracing_end(void);

#endif
