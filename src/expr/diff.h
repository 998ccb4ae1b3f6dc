// Derivatives of expressions as further expressions of the same graph.

#ifndef NSI_DIFF_H
#define NSI_DIFF_H

#include "expr/graph.h"

// Forward mode over all nodes of `g`. On entry tangent[i] is the tangent of node i where it is
// given (inputs, usually) and NSI_NONE elsewhere; on return it is filled for every node, NSI_NONE
// meaning zero. `tangent` has nodes.count entries at entry. `array_tangents[k]` is the array input
// with the tangent of array input k, `sink_tangents[k]` the array output for the tangent of array
// output k; NSI_NONE for none.
void nsi_diff_forward(ns_graph* g, nsi_id* tangent, const uint32_t* array_tangents,
                      const uint32_t* sink_tangents);

// Reverse mode over the first `count` nodes of `g`. On entry adjoint[i] holds the seeds, NSI_NONE
// for zero, and wanted[i] marks the nodes whose adjoint is asked for. On return adjoint[i] holds
// the adjoint of the wanted nodes. `sink_seeds[k]` is the array input with the adjoint of array
// output k; `array_adjoints[k]` the array output that the adjoint of array input k is added to.
void nsi_diff_reverse(ns_graph* g, uint32_t count, nsi_id* adjoint, const uint8_t* wanted,
                      const uint32_t* sink_seeds, const uint32_t* array_adjoints);

#endif
