// Tracing a model: its step, and every quantity it can name.

#ifndef NSI_STEP_H
#define NSI_STEP_H

#include "contact/contact.h"
#include "dyn/robot.h"
#include "expr/graph.h"

typedef struct nsi_step_options {
    double timestep;
    ns_integrator integrator;
    nsi_contact_options contact;
    const uint8_t* is_free; // (nparam) nonzero: an input; NULL: none
    bool all_quantities;    // also those that no step needs: mass matrix, Jacobians, energies...
    const char* const* observe; // names or globs of quantities that become outputs; a name also
    uint32_t nobserve;          // stands for all that begin with it and a '/'
} nsi_step_options;

// Number of motor angles in the state (series-elastic actuators).
uint32_t nsi_model_motor_count(const ns_model* model);

// Does the step solve for impulses?
bool nsi_step_has_impulses(const ns_model* model, const nsi_step_options* options);

// Trace into a new graph: inputs q0.., qd0.., motor/<a>.., u/<a>.., tau0.., then the free
// parameters by name; outputs the observed quantities, then with impulses the residual of their
// solver, "solver/residual", then q0.., qd0.., motor/<a>.. of the next state.
ns_status nsi_step_trace(const ns_model* model, const nsi_step_options* options, ns_graph** out,
                         ns_error* error);

#endif
