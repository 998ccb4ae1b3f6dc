// Equality constraints in a time step (dyn/equality.h has their rows).
//
// Accelerations satisfy J qdd + dJ/dt qd = 0, which is what qdd and forces mean; forces that answer contact
// impulses are added to them. A step of Euler's family
// then does what SHAKE does (Ryckaert, Ciccotti & Berendsen 1977): velocities v+ lead from one configuration
// on the constraints to the next, phi(q + dt v+) = 0. To second order in dt that is
//
//     J v+ = -dt/2 dJ/dt qd,
//
// so v+ is a chord rather than a tangent. This is the half-step velocity of the leapfrog that semi-implicit
// Euler is, and it neither feeds nor drains the energy of a frictionless loop, as J v+ = 0 would do in each
// step (by a share of (w dt)^2 at the rate w). What is left of phi, of third order, and what the state began
// with, is taken off positions by a Newton step in each step, without touching velocities. Runge-Kutta's
// stages have accelerations as above; its result is projected on phi = 0 and J qd = 0.

#ifndef NSI_SIM_EQUALITY_STEP_H
#define NSI_SIM_EQUALITY_STEP_H

#include "sim/integrators.h"

// Rows of the constraints at a state, for nsi_step_accelerate(), with names of their violations. False
// when the graph has failed.
bool nsi_equality_step_begin(const nsi_stepper* s, nsi_step_state* at);

// Change velocities qd (nv) without contact at the end of the step.
void nsi_equality_keep_velocities(const nsi_stepper* s, const nsi_step_state* at, ns_expr* qd);

// Add to the position correction of the step (contact_stages.h), and name the forces.
void nsi_equality_keep_positions(const nsi_stepper* s, const nsi_step_state* at,
                                 nsi_impact* impact);

// Name the forces of a state.
void nsi_equality_name_forces(const nsi_stepper* s, const nsi_step_state* at);

// Move a state to the constraints: a Newton step for q (nq), then J qd = 0.
void nsi_equality_project_state(const nsi_stepper* s, ns_expr* q, ns_expr* qd);

#endif
