// A time step with rigid contact, as a block: impulses of resting contacts, impacts within the step,
// and a correction of positions that adds no momentum. contact_step.def has the equations.
//
// n contacts with rows normal, tangent, tangent each, at the configuration of the impact; everything is in
// velocities, so lengths are divided by the time step. A contact's kind is a sum of flags:
//
//     NSI_CONTACT_RESTS   slow enough to carry load over the step
//     NSI_CONTACT_HIT     impact in this step, or one that was missed in the last step (late)
//     NSI_CONTACT_CLOSED  rests, and takes part in the impact of its island
//     NSI_CONTACT_LIMITED torsion or rolling (ncp.h), with the flags and the share of its contact; its
//                         restitution, gaps, goal and rise are zero
//     NSI_CONTACT_FOLLOWS arrives after the impact of its island, without restitution: may close its gap in
//                         what is left of the step
//
// and 0: not there. Contacts that share bodies must have the same share.

#ifndef NSI_CONTACT_STEP_H
#define NSI_CONTACT_STEP_H

#include "contact/ncp.h"

enum {
    NSI_CONTACT_RESTS = 1,
    NSI_CONTACT_HIT = 2,
    NSI_CONTACT_CLOSED = 4,
    NSI_CONTACT_FOLLOWS = 8
};

// Inputs: Z (3n x nv) as in ncp.h, u (3n) velocities at the start, h (3n) what forces add to them in the
// step; then n each of: mu, cfm, restitution, gap, share (of the step that is over at the impact; 0
// without), slack (gap that a resting contact may close), slack_after (the same from the impact on),
// goal (gap to be reached where the contact presses), rise (late hits: steps since the impact), kind.
// Outputs: impulses (3n); impulses that move coordinates beyond what the velocities at the end do, divided
// by the time step (3n); the impulses of the four problems (4 x 3n), those of the position correction (n),
// levels of the four problems (4), the largest residual, the largest level, sweeps, solves. Parameters: n,
// nsi_friction, nv.
extern const nsi_block_kind nsi_contact_step;

// Numbers of outputs.
#define NSI_CONTACT_STEP_SHIFT(n) (3 * (n))
#define NSI_CONTACT_STEP_TOLD(n) (19 * (n) + 4)
enum { NSI_CONTACT_STEP_PER_CONTACT = 9 }; // smooth inputs that a contact has one of

// Inputs: those of the step, outputs 6n to 19n + 3 of it, then the directions of all inputs but kind.
// Outputs: directions of both kinds of impulses (2 x 3n).
extern const nsi_block_kind nsi_contact_step_tangent;

// Inputs: those of the step, the same outputs, then the adjoints of both kinds of impulses. Outputs:
// adjoints of all inputs but kind.
extern const nsi_block_kind nsi_contact_step_adjoint;

#endif
