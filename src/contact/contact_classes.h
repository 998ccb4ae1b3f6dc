// What a contact with rigid bodies does in a step, decided at its start: see rigid.c. Shared by
// contacts that are traced one by one and those of a scene (scene.h).

#ifndef NSI_CONTACT_CLASSES_H
#define NSI_CONTACT_CLASSES_H

#include "neuralsim/expr.h"

// Impacts of an island that are closer than this happen together; a share of the step.
#define NSI_SIMULTANEOUS 1e-3

// A contact that rests is closed at an impact up to the way of so many steps of free fall, and a
// negligible gap (m).
#define NSI_CLOSED_FALLS 2.0
#define NSI_NEGLIGIBLE_GAP 1e-9

// A contact at the start of the step. Accelerations are those without contact.
typedef struct nsi_contact_start {
    ns_expr exists;
    ns_expr phi, vn, an; // gap, normal velocity, normal acceleration
    ns_expr fall;        // m/s^2, gravity
    ns_expr margin;      // m, up to which a slow contact rests
} nsi_contact_start;

// Truths are 1 or 0.
typedef struct nsi_contact_class {
    ns_expr a; // m/s^2, what is slow
    ns_expr rests, passes, late;
    ns_expr nears; // fast, but does not arrive unless an impact of its island changes its course
    ns_expr time;  // share of the step at which it passes; 0 otherwise
} nsi_contact_class;

void nsi_contact_classify(double dt, const nsi_contact_start* start, nsi_contact_class* out);

// Is a contact that rests closed at the impact of its island, at `share` of the step?
ns_expr nsi_contact_is_closed(double dt, ns_expr phi, ns_expr vn, ns_expr a, ns_expr share);

// What the block of a step needs to know beyond the class (contact_step.h), as velocities.
typedef struct nsi_contact_term_inputs {
    ns_expr phi, vn, a, share;
    ns_expr hit, late;
    ns_expr beta, max_push;
} nsi_contact_term_inputs;

typedef struct nsi_contact_terms {
    ns_expr gap, slack, slack_after, goal, rise;
} nsi_contact_terms;

void nsi_contact_find_terms(double dt, const nsi_contact_term_inputs* in, nsi_contact_terms* out);

#endif
