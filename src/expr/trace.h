// The current graph of a thread, for modules that build graphs through the public functions.

#ifndef NSI_TRACE_H
#define NSI_TRACE_H

#include "expr/graph.h"

// The graph being traced in this thread, or NULL.
ns_graph* nsi_trace_graph(void);

// A graph that is being freed is not traced any more.
void nsi_trace_forget(const ns_graph* graph);

// While muted, ns_quantity() names nothing: for physics that is traced again at another state, as
// the later stages of a Runge-Kutta step are.
void nsi_trace_mute(bool mute);

#endif
