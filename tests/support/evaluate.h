// Named quantities of a model at given states, by a rollout of one step.
//
//     evaluator* e = evaluator_create(model, (const char*[]){"qdd", "mass_matrix", NULL});
//     memcpy(e->q, ...), memcpy(e->qd, ...), memcpy(e->tau, ...);
//     evaluator_run(e);
//     const double* qdd = evaluator_get(e, "qdd/0");
//     evaluator_free(e);

#ifndef TEST_EVALUATE_H
#define TEST_EVALUATE_H

#include "neuralsim/sim.h"

typedef struct evaluator {
    const ns_model* model;
    ns_system* system;
    ns_workspace* work;
    ns_model_sizes sizes;
    ns_system_sizes n;
    double *q, *qd, *motor; // the state, in one array from q on
    double *u, *tau;        // the control, in one array from u on
    double* y;              // observations
    double *states, *next;  // both states; the second one is `next`
} evaluator;

// Observe the quantities that fit the patterns, up to NULL. Fails the test when that is refused.
evaluator* evaluator_create(const ns_model* model, const char* const* observe);
evaluator* evaluator_create_with(const ns_model* model, const ns_system_options* options);
void evaluator_free(evaluator* e); // NULL is allowed

void evaluator_run(evaluator* e);

// Where the observation of this name is. Those of one array follow each other in row-major order,
// but linear and angular Jacobians of a link take turns, element by element, unless they are asked
// for by patterns of their own.
const double* evaluator_get(const evaluator* e, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

// The observations (steps x ny) of a rollout without controls, to be freed.
double* observe_rollout(const ns_model* model, const ns_system_options* options, const double* x0,
                        uint32_t steps, uint32_t* ny);

#endif
