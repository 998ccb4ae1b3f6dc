// Standard errors that hold when residuals are correlated in time or are not noise: the sandwich
// estimator (Huber 1967) over blocks of samples.

#ifndef NSI_SYSID_SANDWICH_H
#define NSI_SYSID_SANDWICH_H

#include "sysid/objective.h"

// How residuals at the last value are correlated in time, over all channels and windows.
typedef struct nsi_residual_correlation {
    double lag1;    // autocorrelation of neighbours
    double samples; // integrated: so many samples count as one
} nsi_residual_correlation;
nsi_residual_correlation nsi_objective_residual_correlation(const nsi_objective* objective);

// Blocks of whole samples, one after the other: fewest and most of them, and how many correlation
// times one should be long.
enum { NSI_MIN_BLOCKS = 8, NSI_MAX_BLOCKS = 50, NSI_BLOCK_TIMES = 4 };

// The blocks for residuals with this correlation: so many of `length` samples; 0: there are too
// few.
uint32_t nsi_objective_block_count(const nsi_objective* objective, double samples,
                                   uint32_t* length);

// Variances of the parameters in their own units, everything else eliminated,
//
//     A^-1 (sum of s s' over blocks) A^-1,
//
// A being J'J and s the gradient that the residuals of a block have.
// @param length     samples of a block
// @param variances  (parameters)
// @return false when an unknown is not determined, windows are tied, or memory ran out
bool nsi_objective_sandwich(nsi_objective* objective, uint32_t length, double* variances);

#endif
