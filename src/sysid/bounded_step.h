// Gauss-Newton steps of parameters with bounds.
//
// The transforms of transforms.c keep values v within their bounds, but their derivative vanishes on a
// bound: a step that is linear in the coordinates z sees nothing of a parameter there, and one that lands on
// a bound cannot leave it. So steps are computed in v, within the bounds (solvers.h, nsi_box_quadratic), and
// then taken in z.

#ifndef NSI_SYSID_BOUNDED_STEP_H
#define NSI_SYSID_BOUNDED_STEP_H

#include "sysid/objective_state.h"

// Does any number have bounds that are reached by a transform? Bodies and logarithms do not.
bool nsi_has_bounded_numbers(const nsi_objective* e);

// Memory for bounded steps, where there are bounded numbers; the objective's.
bool nsi_bounded_step_prepare(nsi_objective* e);

// Move coordinates of the point so far off their bounds that derivatives have finite inverses: by a
// billionth of the range or scale.
void nsi_bounded_step_hold_off(nsi_objective* e);

// The step of the numbers from the damped matrix S and the right-hand side in `step`, which is replaced: first
// by the linear step in z, for nsi_bounded_step_finish() and all that is linear.
// @return false when S is not positive definite
bool nsi_bounded_step_solve(nsi_objective* e);

// From the linear step in `step` to the one that leads to the same values.
void nsi_bounded_step_finish(nsi_objective* e);

#endif
