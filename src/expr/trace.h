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

// The stage that quantities belong to from now on (ns_stage of neuralsim/sim.h). A trace begins with 0.
void nsi_trace_stage(int stage);

// ns_quantity() with a unit, which must outlive the graph; "" for none.
ns_expr nsi_trace_quantity(const char* name, const char* unit, ns_expr x);

// The quantity that was named last is a force, which acts along the velocity of this name.
void nsi_trace_conjugate(const char* velocity);

// A force that has just been traced damps: see nsi_damping_term. What steps may take at their end.
void nsi_trace_damping(ns_expr force, ns_expr along, ns_expr of, ns_expr coefficient);

// ns_quantity() for what nothing depends on: a name to observe by. It leaves the rounding alone.
ns_expr nsi_trace_observe(const char* name, const char* unit, ns_expr x);

// By how much a quantity was changed: `changed` less `given`, and just y where it is `given` plus y.
ns_expr nsi_trace_change(ns_expr changed, ns_expr given);

// While set, ns_quantity() asks what to go on with instead of the quantity; NULL for none. Ends with the
// trace.
typedef ns_expr nsi_quantity_hook(void* context, const char* name, ns_expr x);
void nsi_trace_hook(nsi_quantity_hook* hook, void* context);

// Does the hook care for quantities whose names begin with `prefix`? A hook without a filter cares for all.
typedef bool nsi_quantity_filter(void* context, const char* prefix);
void nsi_trace_filter(nsi_quantity_filter* filter);
bool nsi_trace_touches(const char* prefix);

// Trace another graph in the middle of a trace, without names and hook.
typedef struct nsi_trace_state {
    ns_graph* graph;
    bool muted;
    nsi_quantity_hook* hook;
} nsi_trace_state;
nsi_trace_state nsi_trace_enter(ns_graph* graph);
void nsi_trace_leave(nsi_trace_state outside);

#endif
