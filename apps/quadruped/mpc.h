// Forces under stance feet that keep a trunk upright, high and at the wanted velocity over the next
// quarter of a second: convex model-predictive control (Di Carlo, Wensing, Katz, Bledt & Kim 2018,
// "Dynamic locomotion in the MIT Cheetah 3 through convex model-predictive control").
//
// All is in a frame at the trunk's centre of mass with its heading as x and z up.

#ifndef NSI_QUADRUPED_MPC_H
#define NSI_QUADRUPED_MPC_H

#include "quadruped/control.h"
#include "quadruped/qp.h"

typedef struct nsi_mpc nsi_mpc;

typedef struct nsi_mpc_input {
    double rpy[2];              // roll, pitch
    double height;              // above the ground on which feet stand
    double angular_velocity[3]; // of the trunk
    double velocity[3];
    bool stands[NS_LEGS];
    double feet[NS_LEGS][3]; // where the ground pushes
    double wanted_height;
    double wanted_velocity[2];
    double wanted_yaw_rate;
} nsi_mpc_input;

// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_mpc_create(double mass, const double inertia[3], const ns_mpc_options* options,
                         const ns_allocator* allocator, nsi_mpc** out, ns_error* error);
void nsi_mpc_free(nsi_mpc* mpc);  // NULL is allowed
void nsi_mpc_reset(nsi_mpc* mpc); // forget the active rows of the last answer

// The QP of the forces x (step, stance foot, 3): what it points to is the mpc's, until the next call.
nsi_qp_problem nsi_mpc_build(nsi_mpc* mpc, const nsi_mpc_input* input);

// The forces of the ground on feet for the first step; those of swing feet are 0. Allocates nothing.
// @return false: the QP has no answer, or one that is too far off; all forces are 0
bool nsi_mpc_solve(nsi_mpc* mpc, const nsi_mpc_input* input, double forces[NS_LEGS][3],
                   nsi_qp_report* report);

#endif
