// Tracing a model: its step, and every quantity it can name.

#ifndef NSI_STEP_H
#define NSI_STEP_H

#include "contact/contact_stages.h"
#include "dyn/robot.h"
#include "expr/graph.h"
#include "expr/trace.h"
#include "neuralsim/sim.h"
#include "nn/augment.h"

typedef struct nsi_step_options {
    double timestep;
    ns_integrator integrator;
    nsi_contact_options contact;
    const double* params;       // (nparam) values; NULL: the model's
    const uint8_t* is_free;     // (nparam) nonzero: an input; NULL: none
    const nsi_binding* binding; // networks at quantities, or NULL
    nsi_quantity_hook* hook;    // instead of a binding's, to look at quantities; or NULL
    void* hook_context;
    nsi_quantity_filter* filter; // of the hook, or NULL
    bool all_quantities;         // also those that no step needs, such as energies
    const char* const* observe;  // names or globs of quantities that become outputs; a name also
    uint32_t nobserve;           // stands for all that begin with it and a '/'. Mass matrix and
                                 // Jacobians, which take long, are there only for these and a hook
} nsi_step_options;

// Quantities of a step without networks, in the order in which they are computed.
typedef struct nsi_quantity_list {
    uint32_t count;
    const char** names;
    const char** units; // live as long as the model
    ns_stage* stages;
    uint8_t* affects_state; // nonzero: the next state depends on it
    uint8_t* is_diagnostic; // nonzero: of a solver, such as iterations, without a derivative
    uint8_t* is_state;      // nonzero: q/<k> or qd/<k>
    const char** conjugate; // of a force: the velocity along which it acts; otherwise NULL
    uint8_t* spatial;       // nonzero: one number of a vector or tensor in space
    nsi_causality causality;
    ns_graph* graph; // of the causality
    nsi_arena arena;
} nsi_quantity_list;

ns_status nsi_step_quantities(const ns_model* model, const nsi_step_options* options,
                              nsi_quantity_list* out, ns_error* error);
void nsi_quantity_list_free(nsi_quantity_list* list);

// Does a quantity fit a name or glob, or does its name begin with it and a '/'?
bool nsi_quantity_matches(const char* pattern, const char* name);

// Number of states of actuators: motor angles of series-elastic ones, activations.
uint32_t nsi_model_actuator_states(const ns_model* model);

// Does the step solve for impulses?
bool nsi_step_has_impulses(const ns_model* model, const nsi_step_options* options);

// Trace into a new graph: inputs q0.., qd0.., motor/<a> or act/<a> .., u/<a>.., tau0.., then the free
// parameters by name (values that networks keep, memory/<name>/<lag>, follow these); outputs the observed quantities, then with impulses the residual of their
// solver, "solver/residual", and how much it relaxed the problem, "solver/relaxation", then q0.., qd0.., motor/<a> or act/<a>.. of the next state.
ns_status nsi_step_trace(const ns_model* model, const nsi_step_options* options, ns_graph** out,
                         ns_error* error);

#endif
