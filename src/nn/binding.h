// A blueprint applied to one model: globs and templates expanded to names that exist, in an order
// that can be computed; sets of weights laid out; values of earlier steps that must be kept.

#ifndef NSI_BINDING_H
#define NSI_BINDING_H

#include "nn/causality.h"
#include "nn/network_trace.h"

// A quantity as an input: its value now (lag 0) or `lag` steps ago.
typedef struct nsi_binding_input {
    const char* name;
    uint32_t lag;
} nsi_binding_input;

// One application of a network or formula: one of the two numbers is NSI_NONE.
typedef struct nsi_network_instance {
    uint32_t network, formula; // in the blueprint
    uint32_t set;              // of weights; NSI_NONE: a formula without coefficients
    ns_augment mode;
    uint32_t ninput, noutput;
    const nsi_binding_input* inputs;
    const char* const* outputs;
    const char* const* conjugate;   // (noutput) or NULL
    const uint8_t* output_at_state; // (noutput) nonzero: q/<k> or qd/<k>
    bool at_state;                  // some output is
} nsi_network_instance;

typedef struct nsi_binding_set {
    const char* name;          // "drag", "drag/link/a"
    uint32_t network, formula; // one of them NSI_NONE
    uint32_t ninput, noutput;
    uint32_t offset, count; // in all weights
} nsi_binding_set;

// A quantity of which the last `depth` values are kept from step to step.
typedef struct nsi_binding_memory {
    const char* name;
    uint32_t depth;
} nsi_binding_memory;

typedef struct nsi_binding {
    ns_allocator allocator;
    const ns_blueprint* blueprint;
    uint32_t ninstance, nset, nmemory;
    const nsi_network_instance* instances;
    const nsi_binding_set* sets;
    const nsi_binding_memory* memory;
    uint32_t nweight;
    void* block; // what the pointers above point into
} nsi_binding;

// Quantities of the step without networks, in the order in which they are computed.
typedef struct nsi_binding_quantities {
    uint32_t count;
    const char* const* names;
    const uint8_t* affects_state;   // nonzero: the next state depends on it; NULL: on all
    const char* const* conjugate;   // velocity along which a force acts, or NULL; NULL: unknown
    const uint8_t* spatial;         // nonzero: a number of a vector in space; NULL: none is
    const uint8_t* is_diagnostic;   // nonzero: of a solver, without a derivative; NULL: none
    const uint8_t* is_state;        // nonzero: a coordinate or velocity; NULL: none
    const nsi_causality* causality; // what follows from what; NULL: each from all before it
} nsi_binding_quantities;

// Networks at quantities that do not affect the state are refused, and counts as inputs.
// Messages name the network, the name that is wrong and the nearest existing ones, or both names of a
// wrong order; the blueprint's file and line when it was read from one.
ns_status nsi_binding_create(const ns_blueprint* blueprint,
                             const nsi_binding_quantities* quantities,
                             const ns_allocator* allocator, nsi_binding** out, ns_error* error);
void nsi_binding_free(nsi_binding* binding); // NULL is allowed

// The use at whose outputs this name is, and which output; NSI_NONE when there is none.
uint32_t nsi_binding_find_output(const nsi_binding* binding, const char* name, uint32_t* output);

// The matrices of a set: the layers of a network, or one row of coefficients. Returns how many.
uint32_t nsi_binding_layers(const nsi_binding* binding, uint32_t set,
                            nsi_layer layers[NSI_MAX_LAYERS]);

// The formula whose coefficients a set has; NULL for a network's.
const ns_formula_def* nsi_binding_formula(const nsi_binding* binding, uint32_t set);

// Initial weights of all sets (nweight): those loaded into the blueprint, else random ones and
// coefficients as they are in the blueprint.
// @return NS_OK; NS_ERR_ARGUMENT when loaded ones do not fit, naming both shapes, are missing or
// are too many
ns_status nsi_binding_weights(const nsi_binding* binding, double* weights, ns_error* error);

// The quantity that a name by joint or actuator stands for, as columns of tables have it
// (neuralsim/io_names.h): q_<joint>, qd_<joint>, tau_<joint>, u_<actuator>, also with globs.
// @param numbered  q_<joint>_<k> is coordinate k of a joint with several
// @return false: it is no such name
bool nsi_quantity_alias(const char* name, bool numbered, char* out, size_t size);

#endif
