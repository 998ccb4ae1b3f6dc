// Damping falls to a fifth after a step that helps and grows fivefold after one that does not.

#include "sysid/lm.h"

#include <math.h>

nsi_lm_options nsi_default_lm_options(void) {
    return (nsi_lm_options){.max_iterations = 50, .damping = 1e-2, .tolerance = 1e-9};
}

enum { MOST_FAILURES = 25 };

// Raise the damping until a step helps; false when none does.
static bool step_down(nsi_objective* e, nsi_lm_state* state, double tolerance, double* value,
                      nsi_outcome* out) {
    for (int failure = 0; failure < MOST_FAILURES; failure++) {
        double predicted = 0.0;
        if (nsi_objective_solve(e, state->damping, &predicted)) {
            if (predicted <= 0.01 * tolerance * *value) return false;
            double trial = nsi_objective_trial_cost(e);
            out->evaluations++;
            if (trial < *value) {
                nsi_objective_commit(e);
                *value = trial;
                state->damping = fmax(0.2 * state->damping, 1e-15);
                return true;
            }
        }
        state->damping *= 5.0;
    }
    return false;
}

nsi_outcome nsi_lm(nsi_objective* e, nsi_lm_state* state, const nsi_lm_options* options,
                   nsi_observer* observe, void* context) {
    nsi_outcome out = {.finish = NSI_FINISH_ITERATIONS};
    if (state->damping == 0.0) state->damping = options->damping;
    if (state->small >= 2 || state->iteration >= options->max_iterations) { // it was done before
        if (state->small >= 2) out.finish = NSI_FINISH_CONVERGED;
        out.value = nsi_objective_cost(e);
        return out;
    }
    while (state->iteration < options->max_iterations) {
        double value;
        out.evaluations++;
        if (!nsi_objective_linearise(e, &value)) {
            out.finish = NSI_FINISH_FAILED;
            out.value = INFINITY;
            return out;
        }
        out.value = value;
        if (!step_down(e, state, options->tolerance, &out.value, &out)) {
            out.finish = NSI_FINISH_CONVERGED;
            break;
        }
        state->iteration++;
        out.iterations++;
        state->small = value - out.value < options->tolerance * value ? state->small + 1 : 0;
        nsi_progress progress = {
            .iteration = state->iteration, .value = out.value, .gradient_norm = NAN};
        bool stop = observe && observe(context, &progress);
        if (state->small >= 2) {
            out.finish = NSI_FINISH_CONVERGED;
            break;
        }
        if (stop) {
            out.finish = NSI_FINISH_STOPPED;
            break;
        }
    }
    return out;
}
