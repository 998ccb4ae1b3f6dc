// What follows from what in a step, and whether networks that read and change its quantities can be
// computed in some order.

#ifndef NSI_CAUSALITY_H
#define NSI_CAUSALITY_H

#include "expr/graph.h"

// The step as a graph in which an input, the probe, has been added to every quantity.
typedef struct nsi_causality {
    const ns_graph* graph;
    const nsi_id* probes; // (quantities) nodes
} nsi_causality;

// A use of a network: quantities by number.
typedef struct nsi_causal_use {
    uint32_t ninput, noutput;
    const uint32_t* inputs;  // of this step
    const uint32_t* outputs; // those on which inputs may not depend
} nsi_causal_use;

// A cycle: an output of a use and an input that follows from it.
typedef struct nsi_causal_cycle {
    uint32_t use;           // NSI_NONE: there is no cycle
    uint32_t input;         // number of the input among those of the use
    uint32_t output, reads; // quantities
    char path[500];         // "output -> ... -> input"; "=>" leads through another network
} nsi_causal_cycle;

// Find a cycle, if there is one. Of its uses the last one is blamed.
// @return NS_OK; NS_ERR_NOMEM
ns_status nsi_causality_check(const nsi_causality* causality, uint32_t nuse,
                              const nsi_causal_use* uses, nsi_causal_cycle* out, ns_error* error);

#endif
