// Sensitivities of one rollout: how states and observations depend on the initial state, the free
// parameters and the weights, carried forward step by step.
//
//     S_{k+1} = A_k S_k + B_k      A = df/dx, B = df/d(parameters, weights)
//
// Without derivatives for weights, the columns of S are lanes of the forward derivative. With them,
// the rows of (A, B) come from the reverse derivative, one per output of the step that is needed,
// so that a step costs the same for 2 weights and for 2,000 (and the product A S).

#ifndef NSI_SIM_SENSITIVITY_H
#define NSI_SIM_SENSITIVITY_H

#include "neuralsim/sim.h"

typedef struct nsi_sensitivity nsi_sensitivity;

// Memory for rollouts of one system. Not to be shared by threads: one for each.
// @param initial  derivatives for the initial state, too
// @param weights  derivatives for the weights, too
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_sensitivity_create(const ns_system* system, bool initial, bool weights,
                                 nsi_sensitivity** out, ns_error* error);

// The same along so many directions in the space of the parameters, without derivatives for
// weights: where many parameters are functions of few numbers.
ns_status nsi_sensitivity_create_along(const ns_system* system, bool initial, uint32_t directions,
                                       nsi_sensitivity** out, ns_error* error);
void nsi_sensitivity_free(nsi_sensitivity* sensitivity); // NULL is allowed

// Number of columns: nx if `initial`, then np, or one for each direction, then nw if `weights`.
uint32_t nsi_sensitivity_columns(const nsi_sensitivity* sensitivity);

// Called in order for k = 0, every, 2 every .. and for k = steps. For observations of the last
// state ask for one step more.
// @param x   (nx) the state at the start of step k
// @param dx  (nx x columns) its derivatives, row-major
// @param y   (ny) observations at the start of step k; NULL for k = steps
// @param dy  (ny x columns); NULL for k = steps
typedef void nsi_sensitivity_visitor(void* context, uint32_t k, const double* x, const double* dx,
                                     const double* y, const double* dy);

typedef struct nsi_sensitivity_args {
    uint32_t steps;
    const double* x0;       // (nx)
    const double* controls; // (steps x nc), or NULL for zero
    const double* params;   // (np); NULL: the model's
    const double* weights;  // (nw); NULL: the initial ones
    uint32_t every;         // steps from visit to visit; 0: 1
    const double* along;    // (np x directions); must be given for one made with directions
} nsi_sensitivity_args;

// Roll out in the calling thread; allocates nothing.
// @return true; false as soon as a state, an observation that is visited, or a derivative of one is
//         not finite, after the last good visit
bool nsi_sensitivity_run(nsi_sensitivity* sensitivity, const nsi_sensitivity_args* args,
                         nsi_sensitivity_visitor* visit, void* context);

#endif
