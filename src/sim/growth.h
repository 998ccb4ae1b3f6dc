// How fast small changes of the state grow from step to step.

#ifndef NSI_SIM_GROWTH_H
#define NSI_SIM_GROWTH_H

#include "neuralsim/sim.h"

// The spectral radius of the derivative of one step at a state: a small change of the state, and with it
// a gradient, grows by this factor in every step that the motion stays near there. 1 for motion that is
// neither damped nor unstable; well above 1 a step is too long for a force (friction, a damper, a spring), or the
// motion itself is unstable. By power iteration with ns_rollout_jvp(); 2 % of accuracy, since free motion
// alone grows in proportion to the number of steps.
// @param work      for at least one robot and one step
// @param x         (nx) state
// @param control   (nc), or NULL for zero
// @param params    (np), or NULL for the model's
// @param weights   (nw), or NULL for the initial ones
// @param growth    receives the factor; 0 when the derivative is zero after some steps
// @return as ns_rollout_jvp(); NS_ERR_NOMEM
ns_status nsi_step_growth(const ns_system* system, ns_workspace* work, const double* x,
                          const double* control, const double* params, const double* weights,
                          double* growth, ns_error* error);

#endif
