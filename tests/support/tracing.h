// Graphs to trace into and to run, with failures as failures of the test.

#ifndef TEST_TRACING_H
#define TEST_TRACING_H

#include "neuralsim/expr.h"

// A new graph, being traced; the caller frees it.
ns_graph* tracing_begin(void);

// The trace must have gone well.
void tracing_end(void);

// Run a graph without arrays once.
void run_graph(const ns_graph* graph, const double* in, double* out);

#endif
