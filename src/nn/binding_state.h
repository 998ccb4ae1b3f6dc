// The inside of a binding in the making: what its parts share. binding_names.c expands names and
// templates, binding_ports.c finds what an instance reads and writes, binding.c makes instances and sets
// of weights, binding_weights.c gives these their values.

#ifndef NSI_BINDING_STATE_H
#define NSI_BINDING_STATE_H

#include "nn/binding.h"
#include "nn/blueprint_data.h"

enum {
    NSI_BINDER_MAX_EXPANDED = 4096,                // bytes of a name after {}, and its NUL
    NSI_BINDER_MAX_INPUTS = 1 << 20,               // of all instances
    NSI_BINDER_MAX_LAST_WIDTH = 16383,             // of a dense layer
    NSI_BINDER_NEAREST_SIZE = NS_NEAREST_MAX * 110 // bytes for names in a message
};

// Where a name is an output.
typedef struct nsi_binding_output {
    const char* name;
    uint32_t use, output;
} nsi_binding_output;

// A binding and what it is made of.
typedef struct nsi_binding_storage {
    nsi_binding binding;
    nsi_arena arena;
    NSI_ARRAY(nsi_binding_output) outputs;
    nsi_index output_names;
} nsi_binding_storage;

typedef struct nsi_sorted_name {
    const char* name;
    uint32_t number;
} nsi_sorted_name;

// The first `size` bytes of a name, before a '/'.
typedef struct nsi_name_prefix {
    const char* name;
    uint32_t size;
} nsi_name_prefix;

typedef struct nsi_lagged_name {
    uint32_t name, lag, item; // in the list of the blueprint
} nsi_lagged_name;

// Where in the blueprint an instance comes from, for messages.
typedef struct nsi_use_origin {
    uint32_t part;
    const char* match;     // or NULL
    const uint32_t* items; // of its inputs of this step
} nsi_use_origin;

typedef NSI_ARRAY(uint32_t) nsi_name_numbers;

typedef struct nsi_binder {
    const ns_blueprint* blueprint;
    const char* const* names;
    const uint8_t* affects_state;
    const char* const* velocities; // along which forces act
    const uint8_t* spatial;        // numbers of vectors in space
    const uint8_t *is_diagnostic, *is_state;
    const nsi_causality* causality;
    uint32_t nname;
    ns_allocator allocator;
    ns_error* error;
    nsi_binding_storage* out;

    nsi_index index;         // names by hash
    nsi_sorted_name* sorted; // (nname)
    const char** kept;       // (nname) the binding's copy of a name, or NULL
    uint32_t* depth;         // (nname) values to keep
    uint32_t* owner;         // (nname) part of which it is an output, or NSI_NONE
    NSI_ARRAY(nsi_name_prefix) prefixes;
    nsi_index prefix_index;
    NSI_ARRAY(nsi_network_instance) instances;
    NSI_ARRAY(nsi_binding_set) sets;
    NSI_ARRAY(nsi_causal_use) causal;  // of instances
    NSI_ARRAY(nsi_use_origin) origins; // of instances
    nsi_arena working;                 // of these two
    uint64_t nweight, ninput;          // of all

    // The network or formula, the match and what they expand to, at present.
    uint32_t part;                              // networks come first, then formulas
    const char* match;                          // or NULL
    char text[NSI_BINDER_MAX_EXPANDED];         // after {}
    nsi_name_numbers found, outputs, conjugate; // names
    NSI_ARRAY(nsi_lagged_name) inputs;
} nsi_binder;

// ---- binding_names.c -------------------------------------------------------------------------

// The formula at hand, or NULL.
const nsi_blueprint_formula* nsi_binder_formula(const nsi_binder* p);

// Of a formula what it has in common with a network.
const ns_network_def* nsi_binder_definition(const nsi_binder* p);

// 'network "drag"'
const char* nsi_binder_part_name(const ns_blueprint* blueprint, uint32_t part, char out[80]);

// "file:line:column: network "drag", link/a: inputs: " and the message.
ns_status nsi_binder_fail(const nsi_binder* p, ns_status status, nsi_field field, uint32_t item,
                          const char* format, ...) NSI_PRINTF(5, 6);

ns_status nsi_binder_fail_nomem(const nsi_binder* p);

// The first `size` bytes of a name, among which the nearest is looked for.
void nsi_binder_offer(ns_nearest* nearest, const char* name, uint32_t size);

// "; nearest: a, b, c", or nothing.
const char* nsi_binder_list_nearest(const ns_nearest* nearest, char out[NSI_BINDER_NEAREST_SIZE]);

// No quantity has this name, or fits it; with the nearest names.
ns_status nsi_binder_fail_missing(const nsi_binder* p, nsi_field field, uint32_t item,
                                  const char* name);

// Number of a name, or NSI_NONE.
uint32_t nsi_binder_find(const nsi_binder* p, const char* name);

// Index and sort the names, and list what they begin with.
ns_status nsi_binder_prepare_names(nsi_binder* p);

// The binding's own copy.
const char* nsi_binder_keep_name(nsi_binder* p, uint32_t name);

// The names that a template stands for at present, into p->found; none is no error. A name that
// exists stands for itself, whatever characters are in it; one that others begin with, up to a '/',
// stands for those. In formulas a name is one quantity.
ns_status nsi_binder_expand(nsi_binder* p, const char* template, nsi_field field, uint32_t item);

// So many inputs, outputs or velocities are refused that a layer has no such width.
ns_status nsi_binder_check_count(const nsi_binder* p, nsi_field field, uint32_t item,
                                 uint64_t count);

// The names of a template, at least one, onto the end of `out`.
ns_status nsi_binder_expand_onto(nsi_binder* p, const char* template, nsi_field field,
                                 uint32_t item, nsi_name_numbers* out);

// ---- binding_ports.c -------------------------------------------------------------------------

// Does any output of this match exist, and act on anything? Links that are welded to the world
// have none, and no fault of the blueprint's.
ns_status nsi_binder_applies(nsi_binder* p, bool* exists, bool* acts);

// Fill p->outputs, p->inputs and p->conjugate of the part and match at hand, in this order: without a
// causality inputs must be there before the first output is computed, velocities belong to outputs.
ns_status nsi_binder_take_outputs(nsi_binder* p);
ns_status nsi_binder_take_inputs(nsi_binder* p);
ns_status nsi_binder_take_conjugate(nsi_binder* p);

// Mark the outputs of an instance that are coordinates or velocities. False when out of memory.
bool nsi_binder_mark_state(nsi_binder* p, nsi_network_instance* use);

// Note what an instance reads in this step and what it changes. False when out of memory.
bool nsi_binder_note_causality(nsi_binder* p, const nsi_network_instance* use);

// No network may read what is computed from its own output, also by way of other networks.
ns_status nsi_binder_check_causality(nsi_binder* p);

// Do the numbers of inputs and outputs fit each other, and the scales that are given?
ns_status nsi_binder_check_sizes(const nsi_binder* p);

#endif
