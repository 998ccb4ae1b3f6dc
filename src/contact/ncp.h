// The impulse problem of a step, as a block.
//
// n contacts with rows normal, tangent, tangent each; A symmetric (3n x 3n) with the regularisation
// on its diagonal, b the velocities to be reached, l the impulses, w = A l - b:
//
//     l_n >= 0,  w_n >= 0,  l_n w_n = 0
//     |l_t| <= mu l_n;   w_t = 0 inside, w_t opposite to l_t on the bound
//
// |l_t| is the length of the pair (cone) or each of the two by itself (pyramid). A contact that is
// off (flag 0) has l = 0 and no effect on the others; so has a row without effective mass.

#ifndef NSI_NCP_H
#define NSI_NCP_H

#include "expr/block.h"

typedef enum nsi_friction { NSI_FRICTION_PYRAMID, NSI_FRICTION_CONE } nsi_friction;

enum { NSI_NCP_MAX_CONTACTS = 64 };

// Inputs: A packed (lower triangle by rows), b (3n), mu (n), on (n). Outputs: l (3n), and the
// residual of the conditions relative to the impulses, both as lengths (1): below 1e-12 where they
// were met; else l is what some hundred sweeps come to, with its residual.
// Parameters: n, nsi_friction.
extern const nsi_block_kind nsi_ncp;

// Inputs: those of nsi_ncp, l, then dA, db, dmu. Outputs: dl (3n).
extern const nsi_block_kind nsi_ncp_tangent;

// Inputs: those of nsi_ncp, l, then the adjoint of l. Outputs: adjoints of A, b, mu.
extern const nsi_block_kind nsi_ncp_adjoint;

#endif
