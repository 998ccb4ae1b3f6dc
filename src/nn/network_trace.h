// Networks of a blueprint, traced: layers, scales, structures.

#ifndef NSI_NETWORK_TRACE_H
#define NSI_NETWORK_TRACE_H

#include "base/common.h"
#include "neuralsim/blueprint.h"

// One matrix of weights, input-major: rows inputs (and the bias), columns outputs.
typedef struct nsi_layer {
    uint32_t offset; // in the set of weights
    uint32_t rows, columns;
    bool bias; // the last row
} nsi_layer;

enum { NSI_MAX_LAYERS = 17 }; // 16 hidden

// The layers of a network with `nin` inputs and `nout` outputs (after globs); returns how many.
// Their last output count depends on the structure: L has nout (nout + 1) / 2 numbers, a potential
// one.
uint32_t nsi_network_layers(const ns_network_def* def, uint32_t nin, uint32_t nout,
                            nsi_layer layers[NSI_MAX_LAYERS]);

// Number of weights; UINT64 so that hostile sizes do not wrap.
uint64_t nsi_network_weight_count(const ns_network_def* def, uint32_t nin, uint32_t nout);

// Initial weights (count). `stream` tells sets of one network apart.
void nsi_network_init(const ns_network_def* def, uint32_t nin, uint32_t nout, uint64_t stream,
                      double* weights);

// While tracing: the outputs (nout) from inputs (nin) and, for a dissipative network, the velocities
// `conjugate` (nout). Scales are applied; what the outputs do to their quantities is not. Of a
// dissipative network `damping` (nout x nout, or NULL) receives the matrix A, positive definite, with
// outputs = -A conjugate.
void nsi_network_trace(const ns_network_def* def, ns_array weights, uint32_t nin,
                       const ns_expr* inputs, uint32_t nout, const ns_expr* conjugate,
                       ns_expr* outputs, ns_expr* damping);

#endif
