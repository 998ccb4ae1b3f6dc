// Forces under stance feet that keep a trunk upright, high and at the wanted velocity over the next
// quarter of a second: convex model-predictive control (Di Carlo, Wensing, Katz, Bledt & Kim 2018,
// "Dynamic locomotion in the MIT Cheetah 3 through convex model-predictive control").
//
// All is in a frame at the trunk's centre of mass with its heading as x and z up.

#ifndef QUADRUPED_MPC_H
#define QUADRUPED_MPC_H

#include "quadruped/control.h"
#include "quadruped/qp.h"

typedef struct quad_mpc quad_mpc;

typedef struct quad_mpc_input {
    double rpy[2];              // roll, pitch
    double height;              // above the ground on which feet stand
    double angular_velocity[3]; // of the trunk
    double velocity[3];
    bool stands[QUAD_LEGS];
    double feet[QUAD_LEGS][3]; // where the ground pushes
    double wanted_height;
    double wanted_velocity[2];
    double wanted_yaw_rate;
} quad_mpc_input;

// @return NS_OK, NS_ERR_NOMEM
ns_status quad_mpc_create(double mass, const double inertia[3], const quad_mpc_options* options,
                          const ns_allocator* allocator, quad_mpc** out, ns_error* error);
void quad_mpc_free(quad_mpc* mpc);  // NULL is allowed
void quad_mpc_reset(quad_mpc* mpc); // forget the active rows of the last answer

// The QP of the forces x (step, stance foot, 3): what it points to is the mpc's, until the next call.
quad_qp_problem quad_mpc_build(quad_mpc* mpc, const quad_mpc_input* input);

// The forces of the ground on feet for the first step; those of swing feet are 0. Allocates nothing.
// @return false: the QP has no answer, or one that is too far off; all forces are 0
bool quad_mpc_solve(quad_mpc* mpc, const quad_mpc_input* input, double forces[QUAD_LEGS][3],
                    quad_qp_report* report);

#endif
