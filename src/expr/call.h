// Calls: blocks whose arithmetic is a graph of its own, compiled once and executed wherever a block
// calls it. Geometry of contact is traced this way: pairs of the same shapes are calls of one
// function (contact/pair_function.c).
//
// A call has one input more than its function, the first: a truth value. Where it is false, the call
// is inactive: the function is not executed, and the outputs are constants that belong to it. With
// several lanes the function is executed if any lane is active; the others get the constants.
//
// Derivatives of a call are calls of derived functions with the same truth value, whose outputs are
// zero where it is false. Derived functions are functions like any other, so that there are
// derivatives of any order.

#ifndef NSI_CALL_H
#define NSI_CALL_H

#include "expr/block.h"

#include <stdatomic.h>

// Immutable once created, shared by reference among graphs (also of several threads).
struct nsi_function {
    atomic_uint references;
    ns_allocator allocator;
    ns_graph* body; // operations only: neither blocks nor arrays
    double* off;    // (outputs) what a call gives where the call is inactive
    bool hazard;    // a value or a derivative may be infinite or NaN (diff.c)
    uint32_t id;    // a number no other function has
};

// `body` is taken over, also on failure; `off` (one per output) is copied, NULL for all zero.
ns_status nsi_function_create(ns_graph* body, const double* off, nsi_function** out,
                              ns_error* error);
nsi_function* nsi_function_retain(nsi_function* function);
void nsi_function_release(nsi_function* function); // NULL is fine

// Append a call, or find an equal one. `inputs` has one node per input of the body. Returns the
// BLOCK node.
nsi_id nsi_graph_call(ns_graph* g, nsi_function* function, nsi_id active, const nsi_id* inputs);

// Make `g` an owner of the function; false after failing the graph.
bool nsi_graph_own_function(ns_graph* g, nsi_function* function);
void nsi_graph_release_functions(ns_graph* g); // when `g` is freed

// How a function is derived from another.
typedef enum nsi_derived_mode {
    NSI_DERIVED_PICK,    // the marked outputs, and of the inputs those that they need
    NSI_DERIVED_FORWARD, // tangents of all outputs, for the marked inputs
    NSI_DERIVED_REVERSE, // adjoints of all inputs, from those of the marked outputs
} nsi_derived_mode;

// Kept with a graph, which asks for the same ones again and again.
typedef struct nsi_derived {
    nsi_function *from, *function;
    nsi_derived_mode mode;
    uint8_t* marks;
    uint32_t nmark;
    uint32_t* inputs; // PICK: (inputs of `function`) which inputs of `from` they are
} nsi_derived;

// NULL after failing the graph; valid until the graph derives another one.
const nsi_derived* nsi_graph_derive(ns_graph* g, nsi_function* from, nsi_derived_mode mode,
                                    const uint8_t* marks, uint32_t nmark);

extern const nsi_block_kind nsi_call;

#endif
