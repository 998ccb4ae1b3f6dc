// For tests of motions: a model, its system, one robot rolled out, and derivatives of where it ends.

#ifndef TEST_TRIAL_H
#define TEST_TRIAL_H

#include "neuralsim/sim.h"

typedef struct trial {
    ns_model* model;
    ns_system* system;
    ns_workspace* work;
    ns_system_sizes n;
    uint32_t nq, steps;
    double* x0;             // (nx) as the model stands, at rest; to be changed
    double* params;         // (np) the model's; to be changed
    const double* controls; // (steps x nc), or NULL for zero; of the test. Not for trial_jacobian()
    double* states;         // (steps + 1) x nx, after a run
    double* observations;
    ns_contact_report contact;
} trial;

// From the text of a model; `options` may be NULL. Fails the test when something is wrong.
trial trial_make(const char* text, const ns_system_options* options, uint32_t steps);
trial trial_of_model(ns_model* model, const ns_system_options* options, uint32_t steps);
void trial_free(trial* t);

// Set the free parameters that fit a glob.
void trial_set(trial* t, const char* glob, double value);
double* trial_param(trial* t, const char* name); // one of them

// Roll out; all conditions of contact must be met in every step.
void trial_run(trial* t);
const double* trial_state(const trial* t, uint32_t step);
const double* trial_end(const trial* t);

// Gradient of component k of the final state: for x0 (nx) and params (np); either may be NULL.
// Reverse mode; must be finite, and forward mode in a random direction must agree to 1e-9.
void trial_gradient(trial* t, uint32_t k, double* dx0, double* dparams);

// All derivatives of the final state for x0, d[i * nx + k] = d end[i] / d x0[k], by forward mode.
void trial_jacobian(trial* t, double* d);

#endif
