// The impulse problem of a step, as a block.
//
// n contacts with rows normal, tangent, tangent each; A = Z Z' (3n x 3n) with its diagonal times
// 1 + cfm of the contact, b the velocities to be reached, l the impulses, w = A l - b:
//
//     l_n >= 0,  w_n >= 0,  l_n w_n = 0
//     |l_t| <= mu l_n;   w_t = 0 inside, w_t opposite to l_t on the bound
//
// |l_t| is the length of the pair (cone) or each of the two by itself (pyramid). A contact that is
// off (flag 0) has l = 0 and no effect on the others, whatever its numbers are; so has a row without
// effective mass. With Z = J M^-1/2 in any form A is J M^-1 J'. It is formed here, not in the graph,
// because most contacts are off most of the time, and because the derivatives do without it.

#ifndef NSI_NCP_H
#define NSI_NCP_H

#include "expr/block.h"

typedef enum nsi_friction { NSI_FRICTION_PYRAMID, NSI_FRICTION_CONE } nsi_friction;

enum { NSI_NCP_MAX_CONTACTS = 64, NSI_NCP_MAX_VELOCITIES = 1 << 12 };

// Inputs: Z (3n x nv), b (3n), mu (n), cfm (n), on (n). Outputs: l (3n); the residual of the
// conditions relative to the impulses, both as lengths (1): below 1e-12 where they were met; else l
// is what some hundred sweeps come to, with its residual; the number of sweeps (1) and of solves
// (1) it took. Parameters: n, nsi_friction, nv.
extern const nsi_block_kind nsi_ncp;

// Inputs: those of nsi_ncp, l, then dZ, db, dmu, dcfm. Outputs: dl (3n).
extern const nsi_block_kind nsi_ncp_tangent;

// Inputs: those of nsi_ncp, l, then the adjoint of l. Outputs: adjoints of Z, b, mu, cfm.
extern const nsi_block_kind nsi_ncp_adjoint;

#endif
