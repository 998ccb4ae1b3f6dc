// The convex relaxation of the impulse problem of a step, as a block.
//
// n contacts with rows normal, tangent, tangent each, as in ncp.h. The unknown u (nv) is the change of
// velocities in coordinates in which the mass matrix is the identity; c = Z u - b are the velocities at the
// contacts less those to be reached, and R = cfm times the diagonal of Z Z' (of both tangents the mean)
// makes contacts soft. The impulses are the projection of -c / R on the friction cones, in the norm of R:
//
//     u = Z' g(Z u - b)
//
// This is where the gradient of a strictly convex function vanishes: there is one solution, Newton's
// method with a line search finds it, and its Newton matrix is symmetric. The price is that a contact that
// slides also parts: c_n = mu |c_t| up to R (Anitescu 2006; Todorov 2014; Castro et al. 2022).

#ifndef NSI_CONVEX_BLOCK_H
#define NSI_CONVEX_BLOCK_H

#include "contact/ncp.h"

// The Newton matrix is nv x nv.
enum { NSI_CONVEX_MAX_VELOCITIES = 256 };

// A smaller cfm counts as this one: the impulses are velocities divided by it, and so is their rounding.
#define NSI_CONVEX_MIN_CFM 1e-6

// Inputs: Z (3n x nv), b (3n), mu (n), cfm (n), on (n). Outputs: impulses g (3n); then four numbers: the
// residual |u - Z'g| relative to the velocities of the problem, 0 sweeps, Newton steps, and the level: 0,
// or NSI_CONVEX_MIN_CFM where a contact asked for less. Where more than NSI_NCP_MAX_ACTIVE contacts are
// on, the first ones are solved for and the residual is at least 1. Parameters: n, nv.
extern const nsi_block_kind nsi_convex;

// Inputs: those of nsi_convex, g, then dZ, db, dmu, dcfm. Outputs: dg (3n).
extern const nsi_block_kind nsi_convex_tangent;

// Inputs: those of nsi_convex, g, then the adjoint of g. Outputs: adjoints of Z, b, mu, cfm.
extern const nsi_block_kind nsi_convex_adjoint;

#endif
