// A policy is improved through the simulator: the gradient of what it does wrong, over a short time of
// walking, with respect to its weights (docs/quadruped.md).
//
// Some robots walk, each under its own commands. In each iteration they go on for some decisions; the
// error of these is carried back, step by step through contact (ns_rollout_vjp), torques, network and
// features, and Adam takes a step. So starts are always states that the policy leads to, and gradients
// end where the iteration began (truncated backpropagation through time). Where swing feet are sent
// counts as given; that their PD follows the joints does not.

#ifndef QUADRUPED_TUNING_H
#define QUADRUPED_TUNING_H

#include "neuralsim/solver.h"
#include "quadruped/policy.h"
#include "quadruped/walk.h"

enum { QUAD_TUNE_ERRORS = 6 };

typedef struct quad_tune_options {
    uint32_t robots;     // a multiple of 4. Default 16
    uint32_t decisions;  // of an iteration. Default 0: one stride
    uint32_t iterations; // default 300
    double rate;         // of Adam. Default 1e-4
    double clip;         // longest gradient. Default 1
    // Errors that count as 1: forward, sideways (m/s), turning (rad/s), roll, pitch (rad), height (m).
    // Default 0.05 0.03 0.03, 0.1 0.1, 0.005
    double unit[QUAD_TUNE_ERRORS];
    double ripple; // share of the error of each moment; the rest is that of the mean. Default 0.1
    uint64_t seed; // default 1
    uint32_t threads; // default 1. Results do not depend on it
} quad_tune_options;

quad_tune_options quad_default_tune_options(void);

typedef struct quad_tune quad_tune;

// What was recorded of one robot in an iteration, row by row.
typedef struct quad_tune_tape {
    bool whole;       // it did not fall
    double* states;   // (decisions x period + 1 x nx), the last of one being the first of the next
    double* controls; // (decisions x period x nc)
    double* features; // (decisions x 41)
    quad_command* commands;    // (decisions)
    uint32_t* averaged;        // (decisions) velocities in the estimate
    bool (*stands)[QUAD_LEGS]; // (decisions)
} quad_tune_tape;

// @param policy  is changed
ns_status quad_tune_create(const quad_walk_env* place, const quad_walk_options* walk,
                           quad_policy* policy, const quad_tune_options* options,
                           const ns_allocator* allocator, quad_tune** out, ns_error* error);
void quad_tune_free(quad_tune* tune); // NULL is allowed

// Walk on for an iteration with the policy as it is, and record it.
void quad_tune_walk(quad_tune* tune);
const quad_tune_tape* quad_tune_get_tape(const quad_tune* tune, uint32_t robot);
// The value of what was recorded, over robots that did not fall; NaN when all did.
double quad_tune_value(const quad_tune* tune);
// Its gradient for the policy's weights (nweight). False when a derivative is not finite.
bool quad_tune_gradient(quad_tune* tune, double* gradient);

// Asked after each iteration; true: stop.
typedef bool quad_tune_observer(void* context, uint32_t iteration, double value, double norm);

// All iterations; the policy is ready to run at any time the observer is asked, and at the end.
// @return NS_OK, NS_ERR_NOMEM; NS_ERR_NONFINITE when the first iteration has no value or no gradient
ns_status quad_tune_run(quad_tune* tune, quad_tune_observer* observe, void* context,
                        ns_error* error);

#endif
