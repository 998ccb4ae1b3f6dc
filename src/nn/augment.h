// Networks and formulas of a binding put into a step while it is traced: at each named quantity the value
// is noted for those that read it, and replaced where one writes it.

#ifndef NSI_AUGMENT_H
#define NSI_AUGMENT_H

#include "expr/trace.h"
#include "nn/binding.h"

typedef struct nsi_augmenter nsi_augmenter;

// While tracing: the arrays of weights ("net/<set>") and the kept values ("memory/<name>/<lag>") become
// inputs of the graph being traced. NULL when out of memory (the trace fails); freed with the graph.
nsi_augmenter* nsi_augmenter_create(const nsi_binding* binding);

// From now on ns_quantity() goes through the augmenter. Called again, all values are forgotten and
// networks and formulas are evaluated anew: physics is traced at another state.
//
// Networks at the state (nsi_network_instance.at_state) read quantities as they are without networks at
// the state, all others as they are with them.
void nsi_augmenter_begin(nsi_augmenter* a);

// Stop, after all of the step has been traced and before it has outputs. Returns the graph to go on with,
// which is being traced from now on: the traced one, or a copy with networks where their inputs were known
// too late. Both have to be freed if they differ. A failure is in the graph that is returned.
ns_graph* nsi_augmenter_resolve(nsi_augmenter* a);

// An expression of the traced graph in the graph to go on with.
ns_expr nsi_augmenter_resolved(nsi_augmenter* a, ns_expr x);

// Outputs for what is kept for the next step, "memory/<name>/<lag>".
void nsi_augmenter_put_memory(nsi_augmenter* a);

// Free working memory; the traced graph must still be there.
void nsi_augmenter_finish(nsi_augmenter* a);

// The instance whose output is the quantity of this name, "net/<set>/<quantity>" or
// "formula/<set>/<quantity>", and which of its outputs; NSI_NONE when there is none.
uint32_t nsi_augmented_find(const nsi_binding* binding, const char* name, uint32_t* output);

// Number of kept values.
uint32_t nsi_binding_memory_count(const nsi_binding* binding);

#endif
