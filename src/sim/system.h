// The inside of a system.

#ifndef NSI_SYSTEM_H
#define NSI_SYSTEM_H

#include "neuralsim/sim.h"
#include "sim/step.h"

#include <float.h>
#include <math.h>

// Programs for one robot and for four side by side.
enum { NSI_FORM_ONE, NSI_FORM_FOUR, NSI_FORMS };

// Weights that programs take as one array: a part of all weights.
typedef struct nsi_weight_array {
    const char* name; // of the set
    uint32_t offset, count;
} nsi_weight_array;

struct ns_system {
    ns_allocator allocator;
    const ns_model* model;     // NULL: a learned system
    ns_system_options options; // it was made with; without free_params, set and observe
    ns_system_sizes sizes;
    uint32_t nsolver; // outputs of a step that solves for impulses: residual, relaxation; else 0
    ns_graph* graph;  // in: state, control, parameters; out: observations, residual, next state
    uint32_t* free_param;       // (np) numbers in the model's registry
    double* params;             // (nparam) values
    nsi_binding* binding;       // of the blueprint, or NULL
    nsi_weight_array* arrays;   // (narray) those of the graph, one after the other
    ns_weight_matrix* matrices; // (nmatrix) in the order of weights
    uint32_t narray, nmatrix;
    double* weights; // (nw) initial
    ns_program* step[NSI_FORMS];
    ns_program* jvp[NSI_FORMS]; // in: as step, then tangents of all; out: as step, then tangents
    ns_program*
        vjp[NSI_FORMS]; // in: as step, then seeds of all outputs; out: adjoints of all inputs
    ns_program*
        hvp[NSI_FORMS]; // in: as vjp, then tangents of all; out: as vjp, then tangents; or NULL
};

// Memory for `narray` arrays, `nmatrix` matrices and `nw` weights, to be filled.
ns_status nsi_system_alloc_weights(ns_system* system, uint32_t narray, uint32_t nmatrix,
                                   uint32_t nw, ns_error* error);

// The programs of a system that has its graph.
ns_status nsi_system_build(ns_system* system, ns_backend backend, ns_error* error);

// How to trace a model with these options: all but parameters, observations and networks.
nsi_step_options nsi_system_step_options(const ns_model* model, const ns_system_options* options);

// Another system of the same model, with the parameter values of `system` and these options, of
// which `set` is ignored. Those of `system` have no free parameters. Not for learned systems.
// @return as ns_system_create()
ns_status nsi_system_create_like(const ns_system* system, const ns_system_options* options,
                                 ns_system** out, ns_error* error);

// Set the parameters that fit a pattern; values NULL: only check that there are some and that they can
// have this value.
// @param values  (nparam) of all parameters
ns_status nsi_set_params(const ns_model* model, const ns_param_value* set, double* values,
                         ns_error* error);

// Validate option values (names are checked later).
ns_status nsi_system_check_options(const ns_system_options* options, ns_error* error);

// Why a step from this state gave a number that is not finite: the first such quantity and the
// operation behind it. Writes a phrase into `text`.
void nsi_system_diagnose(const ns_system* system, const double* in, const double* const* arrays,
                         char* text, size_t size);

// ---- what runs a step (rollout.c, sensitivity.c) -------------------------------------------

// Outputs of the step before the state.
static inline size_t nsi_step_ny(const ns_system* s) {
    return (size_t)s->sizes.ny + s->nsolver;
}

// Without a branch for each number, so that it is vectorised.
static inline bool nsi_all_finite(const double* x, size_t count) {
    bool finite = true;
    for (size_t k = 0; k < count; k++) finite &= fabs(x[k]) <= DBL_MAX;
    return finite;
}

static inline size_t nsi_max_size(size_t a, size_t b) {
    return a > b ? a : b;
}

#endif
