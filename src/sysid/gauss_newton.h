// The objective of a fit as a problem for Levenberg-Marquardt.

#ifndef NSI_SYSID_GAUSS_NEWTON_H
#define NSI_SYSID_GAUSS_NEWTON_H

#include "sysid/objective.h"

// Normal equations and steps of the objective, whose point they move.
ns_gauss_newton nsi_objective_gauss_newton(nsi_objective* objective);

// Levenberg-Marquardt from the objective's point. The observer sees no x.
ns_solver_result nsi_objective_lm(nsi_objective* objective, const ns_solver_options* options,
                                  ns_solver_observer* observe, void* context);

#endif
