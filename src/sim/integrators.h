// Integrators as records, and what they work with while a step is traced. To add one: a row of
// NS_INTEGRATOR_MAP (neuralsim/model.h), and a function with its record in integrators.c.

#ifndef NSI_SIM_INTEGRATORS_H
#define NSI_SIM_INTEGRATORS_H

#include "dyn/equality.h"
#include "sim/step.h"

// A step that is being traced.
typedef struct nsi_stepper {
    const ns_model* model;
    const nsi_step_options* options;
    ns_graph* graph;
    bool names;               // also quantities that take long to trace get their names
    nsi_augmenter* augmenter; // of a binding, or NULL
    nsi_robot* first;         // the robot where the step begins, once it is known
    ns_expr *q, *qd, *actuator, *u, *tau, *param; // inputs; actuator: the state of each actuator
    ns_expr residual, relaxation;                 // of the impulses

    ns_expr* qdd; // (nv) accelerations where the step begins, before impulses

    // Activations (nu): where the state being evaluated has them, in the end those of the next state;
    // where the step begins; and how fast they change over the step, first of all at its beginning.
    ns_expr *activation, *start, *rate;
} nsi_stepper;

// The inputs of a step as physics sees them at one state: after what networks do to them.
typedef struct nsi_step_state {
    ns_expr *q, *qd, *actuator, *u, *tau, *param;
    ns_expr* rate;   // of activations (nu)
    ns_expr* added;  // by nsi_step_accelerate()
    bool gyroscopic; // for it: gyroscopic torques are those over the step
    nsi_robot robot;
    nsi_equality* equality;  // by nsi_step_accelerate(): of the model's constraints, NULL: none
    ns_expr* equality_force; // (equality->n) by which they act
} nsi_step_state;

typedef enum nsi_integrator_trait {
    NSI_RIGID_CONTACT = 1,  // it can solve for impulses; otherwise contact must be by forces
    NSI_STATE_NETWORKS = 2, // networks may change q and qd
    NSI_STIFF_JOINTS = 4,   // stays stable with stiff joint springs and dampers
    NSI_FAST_SPINS = 8      // and with bodies that spin fast
} nsi_integrator_trait;

typedef struct nsi_integrator {
    unsigned traits; // nsi_integrator_trait

    // Trace the next state q (nq), qd (nv).
    void (*step)(nsi_stepper* s, ns_expr* q, ns_expr* qd);
} nsi_integrator;

// NULL for a number that is none.
const nsi_integrator* nsi_integrator_get(ns_integrator integrator);

bool nsi_integrator_has(ns_integrator integrator, nsi_integrator_trait trait);

// The first with a trait, and its name: what messages propose.
ns_integrator nsi_integrator_with(nsi_integrator_trait trait);
const char* nsi_integrator_name_with(nsi_integrator_trait trait);

// Trace a step by the integrator of the options, then the activations it ends with. Fails the graph when that does not suit the contact or
// the networks.
void nsi_integrate(nsi_stepper* s, ns_expr* q, ns_expr* qd);

// ---- for integrators (step.c) --------------------------------------------------------------

// Memory for expressions; fails the graph when there is none.
ns_expr* nsi_step_expressions(const nsi_stepper* s, size_t count);

// Begin with a state: names what physics reads there. False when the graph failed.
bool nsi_step_begin(const nsi_stepper* s, const ns_expr* q, const ns_expr* qd, nsi_step_state* at);

// Accelerations (nv) before contact impulses. at->added gets what implicit forces add to the diagonal
// of the mass matrix (nv), NULL when that is nothing.
void nsi_step_accelerate(const nsi_stepper* s, nsi_step_state* at, nsi_implicit implicit,
                         ns_expr* qdd);

#endif
