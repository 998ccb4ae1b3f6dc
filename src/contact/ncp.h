// The impulse problem of a step, as a block.
//
// n contacts with rows normal, tangent, tangent each; A = Z Z' (3n x 3n) with its diagonal times
// 1 + cfm of the contact, b the velocities to be reached, l the impulses, w = A l - b:
//
//     l_n >= 0,  w_n >= 0,  l_n w_n = 0
//     |l_t| <= mu l_n;   w_t = 0 inside, w_t opposite to l_t on the bound
//
// |l_t| is the length of the pair (cone) or each of the two by itself (pyramid). Torsional and rolling
// friction of a contact are one or two more "contacts" directly behind it, with NSI_CONTACT_LIMITED in their
// flag and on when it is: they have no normal row (it is zero), and the l_n of their bound is that of
// the contact. Each is limited by itself. A contact that is
// off (flag 0) has l = 0 and no effect on the others, whatever its numbers are; so has a row without
// effective mass. Where more than NSI_NCP_MAX_ACTIVE are on, the first ones are solved for and the
// residual is at least 1. With Z = J M^-1/2 in any form A is J M^-1 J'. It is formed here, not in the graph,
// because most contacts are off most of the time, and because the derivatives do without it.

#ifndef NSI_NCP_H
#define NSI_NCP_H

#include "expr/block.h"

typedef enum nsi_friction { NSI_FRICTION_PYRAMID, NSI_FRICTION_CONE } nsi_friction;

// Flag of torsion and rolling, above those of contact_step.h.
enum { NSI_CONTACT_LIMITED = 16 };

// Contacts that a block is given, those of them that may be on at a time (1,056 rows), and velocities.
enum { NSI_NCP_MAX_CONTACTS = 1 << 12, NSI_NCP_MAX_ACTIVE = 352, NSI_NCP_MAX_VELOCITIES = 1 << 12 };

// Inputs: Z (3n x nv), b (3n), mu (n), cfm (n), on (n). Outputs: l (3n); the residual of the
// conditions relative to the impulses, both as lengths (1): below 1e-10 where they were met; the number
// of sweeps (1) and of solves (1) it took; the level (1): 0, or the least cfm of the softer problem that
// was solved instead. Parameters: n, nsi_friction, nv.
extern const nsi_block_kind nsi_ncp;

// Inputs: those of nsi_ncp, l, level, then dZ, db, dmu, dcfm. Outputs: dl (3n).
extern const nsi_block_kind nsi_ncp_tangent;

// Inputs: those of nsi_ncp, l, level, then the adjoint of l. Outputs: adjoints of Z, b, mu, cfm.
extern const nsi_block_kind nsi_ncp_adjoint;

// ---- shared with contact_step.c --------------------------------------------------------------

// Do the parameters (n, nsi_friction, nv) make sense?
bool nsi_ncp_params_ok(const uint32_t* params);

// Numbers that a kernel needs for itself, with `extra` vectors of rows.
uint32_t nsi_ncp_scratch(const uint32_t* params, uint32_t extra);

// Outputs of a value that its derivatives read: a range, and one more or NSI_NONE.
typedef struct nsi_ncp_kept {
    uint32_t first, count, last;
} nsi_ncp_kept;

// Append a block of `kind` that reads the inputs of the block `value`, some of its outputs, and `more`;
// NSI_NONE among those is zero.
nsi_id nsi_ncp_append(ns_graph* g, const nsi_block_kind* kind, const nsi_block* value,
                      const nsi_ncp_kept* kept, const nsi_id* more, uint32_t nmore);

// For derivatives of a block that has first ones only: fail the graph.
void nsi_ncp_no_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                    uint32_t dsink, nsi_id* dy);
void nsi_ncp_no_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                    uint32_t source_bar, nsi_id* xbar);

// A function of a kind in emitted C; `inputs` is their number in terms of n and p[2] = nv, as text.
#define NSI_NCP_BLOCK_FUNCTION(prefix, function, inputs)                                           \
    "static void " prefix #function                                                                \
    "_block(const uint32_t* p, const double* x, double* y, const double* w, double* g) {\n"        \
    "    (void)w, (void)g, (void)" prefix "value, (void)" prefix "tangent, (void)" prefix          \
    "adjoint;\n"                                                                                   \
    "    size_t n = p[0];\n"                                                                       \
    "    " prefix #function "(p, x, y, (double*)x + (" inputs "), 1);\n}"

#endif
