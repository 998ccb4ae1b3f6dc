// Estimates of parameters and coefficients, and their standard errors.

#ifndef NSI_FIT_UNCERTAINTY_H
#define NSI_FIT_UNCERTAINTY_H

#include "fit/result.h"
#include "sysid/objective.h"

// Estimates with the values v of the parameters, without errors.
ns_status nsi_list_estimates(const ns_parameters* params, const double* v, nsi_result* out,
                             ns_error* error);

// Coefficients of formulas among the weights, if result->nweight says that weights were fitted; the
// number of weights is then that of the others.
// @param w0, w  (nw) at the beginning and at the end
ns_status nsi_list_coefficients(const ns_system* system, const double* w0, const double* w,
                                nsi_result* out, ns_error* error);

// Errors, verdicts, correlations and directions of what is listed, as far as the last stage optimised
// it.
// @param e  objective of the last stage, at its end
ns_status nsi_judge_estimates(const ns_parameters* params, const ns_system* system,
                              ns_optimise optimised, nsi_objective* e, nsi_result* out,
                              ns_error* error);

#endif
