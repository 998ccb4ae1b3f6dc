// Blocks: graph nodes with many inputs and outputs whose arithmetic is a loop, not straight-line
// code: dense layers, later the contact solver.
//
// A block reads scalars and at most one array input; it produces scalars (OUT nodes) or adds to one
// array output. Its derivatives are written as graph code that uses further blocks, so a family of
// kinds that is closed under differentiation can be differentiated any number of times. Its
// arithmetic is a kernel over lanes (kernels.h), which all backends call, and a C function that
// does the same for one lane, which emitted C carries along.

#ifndef NSI_BLOCK_H
#define NSI_BLOCK_H

#include "expr/graph.h"
#include "expr/kernels.h"

#include <stdatomic.h>

// What a block has besides numbers: tables, programs. Immutable once a graph has it; graphs and programs of
// several threads share it by reference. The text form and emitted C cannot hold it.
typedef struct nsi_block_data {
    atomic_uint references;
    void (*free)(struct nsi_block_data* data);
} nsi_block_data;

void nsi_block_data_retain(nsi_block_data* data);  // NULL is fine
void nsi_block_data_release(nsi_block_data* data); // the same

typedef struct nsi_block_sizes {
    uint32_t ninput, noutput;
    uint32_t source, sink; // length of the array read and of the array added to; 0: none
    uint32_t scratch;      // numbers per lane that the kernel wants for itself
} nsi_block_sizes;

typedef struct nsi_block_kind {
    const char* name;
    bool has_data; // its blocks have nsi_block.data
    uint32_t nparam;
    const char* param_names[NSI_BLOCK_PARAMS];

    // Sizes from parameters; false when the parameters make no sense.
    bool (*sizes)(const uint32_t* params, nsi_block_sizes* out);

    // Forward mode: dx[i] is the tangent of input i, or NSI_NONE for zero; `dsource` is the array
    // input with the tangent of the source, or NSI_NONE; `dsink` the array output for the tangent
    // of the sink. Writes dy[k] for each output, NSI_NONE for zero.
    void (*jvp)(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                uint32_t dsink, nsi_id* dy);

    // Reverse mode: ybar[k] is the adjoint of output k, or NSI_NONE for zero; `sink_seed` is the
    // array input with the adjoint of the sink, or NSI_NONE; `source_bar` the array output that the
    // adjoint of the source is added to, or NSI_NONE when not wanted. Writes xbar[i] for each
    // input, NSI_NONE for zero.
    void (*vjp)(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                uint32_t source_bar, nsi_id* xbar);

    nsi_block_kernel* (*kernel)(uint32_t form); // for nsi_lane_counts[form] lanes
    const char* c_shared; // C source that several kinds need, printed once; or NULL
    const char* c_name;   // function in emitted C:
    const char* c_source; // void c_name(const uint32_t* p, const double* x, double* y,
                          //             const double* w, double* g); scratch follows x
} nsi_block_kind;

// Kinds by name, for the text form; NULL when there is none.
const nsi_block_kind* nsi_block_kind_find(const char* name, size_t length);

// Append a block (or find an equal one without a sink) and return its BLOCK node. `block->inputs`
// is copied; sizes and ranges are checked, a misfit fails the graph.
nsi_id nsi_graph_block(ns_graph* g, const nsi_block* block);

nsi_id nsi_graph_out(ns_graph* g, nsi_id block_node, uint32_t output);

enum { NSI_DENSE_MAX_WIDTH = 1 << 14 }; // inputs, and outputs

// The dense family (dense.c). W is input-major: W[j*nout + i] leads from input j to output i.
extern const nsi_block_kind nsi_dense;           // y = W'x
extern const nsi_block_kind nsi_dense_transpose; // y = W x, the adjoint of the input
extern const nsi_block_kind nsi_dense_outer;     // G += x z', the adjoint of the weights

#endif
