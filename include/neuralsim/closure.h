/// @file closure.h
/// Initial states on equality constraints: by how much a state misses them, and the state nearest to it that
/// does not.
///
///     ns_closure* closure = NULL;
///     ns_closure_create(system, &closure, &error);
///     if (ns_closure_violation(closure, NULL, x, &constraint) > 1e-9)
///         ns_closure_close(closure, NULL, x, &error);
///     ns_closure_free(closure);

#ifndef NEURALSIM_CLOSURE_H
#define NEURALSIM_CLOSURE_H

#include "neuralsim/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_closure ns_closure;

/// @param system  of a robot; must outlive the closure, as must its model
/// @return NS_OK; NS_ERR_ARGUMENT (a learned system); NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_closure_create(const ns_system* system, ns_closure** out, ns_error* error);
NS_API void ns_closure_free(ns_closure* closure); ///< NULL is allowed

/// @param params      (np) of the system; NULL: the model's
/// @param x           (nx) a state
/// @param constraint  receives the number of the constraint that is missed most, UINT32_MAX without any;
///                    may be NULL
/// @return the largest violation, m or rad; 0 without constraints
NS_API double ns_closure_violation(ns_closure* closure, const double* params, const double* x,
                                   uint32_t* constraint);

/// Velocities that the constraints leave at a state: nv less the number of independent equations.
NS_API uint32_t ns_closure_freedom(ns_closure* closure, const double* params, const double* x);

/// Newton's method on the constraints. Coordinates move by as little as they can, measured by the mass
/// matrix; velocities lose what is across the constraints.
/// @param x  (nx) a state; left alone on failure
/// @return NS_OK; NS_ERR_ARGUMENT when the constraints cannot be reached from there, naming one; NS_ERR_NOMEM
NS_API ns_status ns_closure_close(ns_closure* closure, const double* params, double* x,
                                  ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
