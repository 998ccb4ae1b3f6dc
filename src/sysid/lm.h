// Levenberg-Marquardt on the normal equations of an evaluator (Levenberg 1944, Marquardt 1963).

#ifndef NSI_SYSID_LM_H
#define NSI_SYSID_LM_H

#include "solver/solvers.h"
#include "sysid/objective.h"

typedef struct nsi_lm_options {
    uint32_t max_iterations; // accepted steps. Default 50
    double damping;          // the first. Default 1e-2
    double tolerance; // stop after two steps that lower the value by less than this share, or
                      // when the model promises less. Default 1e-9
} nsi_lm_options;

nsi_lm_options nsi_default_lm_options(void);

// All that goes on from iteration to iteration, besides the evaluator's point. Zero at first.
typedef struct nsi_lm_state {
    uint32_t iteration, small; // small: steps in a row that gained little
    double damping;            // 0: none yet
} nsi_lm_state;

// From the evaluator's point. The observer sees no x.
nsi_outcome nsi_lm(nsi_objective* evaluator, nsi_lm_state* state, const nsi_lm_options* options,
                   nsi_observer* observe, void* context);

#endif
