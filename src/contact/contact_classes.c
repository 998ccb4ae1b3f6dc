// Classes of contacts, and what follows from them for the block of a step.

#include "contact/contact_classes.h"

static const double SLOW_STEPS = 3.0;     // of free fall count as resting
static const double NEAR_STEPS = 3.0;     // in which a contact that nears would arrive
static const double REFERENCE_MAX = 9.81; // m/s^2, without gravity

void nsi_contact_classify(double dt, const nsi_contact_start* start, nsi_contact_class* out) {
    ns_expr zero = ns_const(0.0), one = ns_const(1.0), step = ns_const(dt);
    ns_expr phi = start->phi, end = ns_add(start->vn, ns_mul(step, start->an));

    // What counts as slow: gravity; without it the contact's own acceleration.
    out->a = ns_max(start->fall, ns_min(ns_abs(start->an), ns_const(REFERENCE_MAX)));

    // Slow and near, or fast and arriving, or fast and already inside, or fast and near.
    ns_expr slow = ns_le(ns_mul(ns_const(-SLOW_STEPS * dt), out->a), start->vn); // also 0 of 0
    ns_expr outside = ns_gt(phi, zero);
    ns_expr arrives = ns_and(outside, ns_lt(ns_add(phi, ns_mul(step, end)), zero));
    out->rests = ns_and(start->exists, ns_and(slow, ns_lt(phi, start->margin)));
    out->passes = ns_and(start->exists, ns_select(slow, zero, arrives));
    out->late = ns_and(start->exists, ns_select(slow, zero, ns_le(phi, zero)));
    ns_expr way = ns_mul(ns_const(-NEAR_STEPS * dt), start->vn);
    ns_expr near = ns_and(ns_select(arrives, zero, outside), ns_lt(phi, way));
    out->nears = ns_and(start->exists, ns_select(slow, zero, near));

    // When, in steps.
    ns_expr change = ns_select(out->passes, ns_mul(step, end), one);
    out->time = ns_select(out->passes, ns_neg(ns_div(phi, change)), zero);
}

ns_expr nsi_contact_is_closed(double dt, ns_expr phi, ns_expr vn, ns_expr a, ns_expr share) {
    ns_expr gap = ns_add(phi, ns_mul(ns_mul(ns_const(dt), share), vn));
    ns_expr near =
        ns_add(ns_mul(ns_const(NSI_CLOSED_FALLS * dt * dt), a), ns_const(NSI_NEGLIGIBLE_GAP));
    return ns_le(gap, near);
}

// Gap that the position correction is to leave, from the gap at the start.
static ns_expr goal_gap(double dt, const nsi_contact_term_inputs* in) {
    ns_expr zero = ns_const(0.0), one = ns_const(1.0);
    ns_expr phi0 = ns_mul(ns_const(SLOW_STEPS * dt * dt), in->a);
    ns_expr up = ns_min(ns_mul(in->beta, ns_neg(in->phi)), ns_mul(in->max_push, ns_const(dt)));
    ns_expr open = ns_mul(ns_sub(one, in->beta), ns_min(in->phi, phi0));
    ns_expr goal = ns_select(ns_lt(in->phi, zero), ns_add(in->phi, up), open);

    // A late hit undoes the way of a step at once; what is deeper has other reasons.
    ns_expr deeper = ns_min(zero, ns_sub(in->phi, ns_mul(ns_const(dt), in->vn)));
    up = ns_min(ns_mul(in->beta, ns_neg(deeper)), ns_mul(in->max_push, ns_const(dt)));
    return ns_select(in->hit, ns_add(deeper, up), goal);
}

void nsi_contact_find_terms(double dt, const nsi_contact_term_inputs* in, nsi_contact_terms* out) {
    ns_expr zero = ns_const(0.0), one = ns_const(1.0), rate = ns_const(1.0 / dt);

    // Gaps that may still be closed, at the start and at the impact.
    ns_expr phi0 = ns_mul(ns_const(SLOW_STEPS * dt * dt), in->a);
    ns_expr moved = ns_mul(ns_mul(ns_const(dt), in->share), in->vn);
    ns_expr slack = ns_max(zero, ns_sub(in->phi, phi0));
    ns_expr slack_after = ns_max(zero, ns_sub(ns_add(in->phi, moved), phi0));

    // A late hit rises from where it should have been hit, at most a step ago.
    ns_expr speed = ns_select(in->late, ns_mul(ns_const(dt), in->vn), ns_const(-1.0));
    ns_expr ago = ns_min(one, ns_div(in->phi, speed));
    out->rise = ns_select(in->late, ns_add(one, ago), zero);

    out->gap = ns_mul(rate, in->phi);
    out->slack = ns_mul(rate, slack);
    out->slack_after = ns_mul(rate, slack_after);
    out->goal = ns_mul(rate, goal_gap(dt, in));
}
