// Which parameters the data determines, and how well.

#ifndef NSI_SYSID_IDENTIFIABILITY_H
#define NSI_SYSID_IDENTIFIABILITY_H

#include "base/common.h"
#include "neuralsim/estimates.h"

typedef NSI_ARRAY(ns_estimate) nsi_estimates;
typedef NSI_ARRAY(ns_parameter_direction) nsi_directions;

// Estimates, and what an information matrix says of them.
typedef struct nsi_identification {
    ns_allocator allocator; // of all
    nsi_estimates estimates;
    double* correlation; // (nestimate x nestimate), NaN where there is no error. NULL: not computed
    nsi_directions directions; // null ones first
} nsi_identification;

void nsi_identification_free(nsi_identification* identification);

// Fill standard errors, verdicts, correlation and directions of the estimates, whose other fields are
// there. Parameters are analysed relative to their size: to |value|, or where that is nearly nothing
// to the size given.
// @param information  (n x n) J'J of the residuals for the parameters in their own units, all else
//                     (weights, states) eliminated; lower triangle counts
// @param sigma        standard deviation of the residuals
// @param sizes        (n) of parameters whose value is near 0; NULL: a thousandth of the start, or
//                     1e-3 where that is 0
// @return NS_OK, NS_ERR_NOMEM; NS_ERR_NONFINITE, naming the parameter: information, sigma or value
//         is not finite; NS_ERR_INVALID: LAPACK found no eigenvalues
ns_status nsi_identify(nsi_identification* identification, const double* information, double sigma,
                       const double* sizes, ns_error* error);

#endif
