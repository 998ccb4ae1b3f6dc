// Stepwise selection of terms: what its files share.
//
//     forward_selection.c    a term enters
//     backward_selection.c   a term leaves, or is exchanged for another
//     site_ranking.c         where terms would explain most
//     selection_summary.c    standard errors, scores
//     selection.c            the active set, and the levels: windows that grow

#ifndef NSI_DISCOVER_SELECTION_H
#define NSI_DISCOVER_SELECTION_H

#include "discover/discover_state.h"

typedef struct nsi_selection {
    ns_discovery* d;
    ns_error* error;
    nsi_gram gram;     // at the current point
    double squares;    // sum of squared residuals there
    double baseline;   // the same without any term, at this length of windows
    double numerical;  // the same without the integrator's error; NaN: not computed yet
    bool* inert;       // (terms) without effect
    uint32_t* subset;  // (terms + 2) scratch: terms to be solved for
    double* variances; // (terms + 2) scratch
} nsi_selection;

static inline const nsi_term* nsi_selection_term(const nsi_selection* s, uint32_t term) {
    return &s->d->library.terms.data[term];
}

static inline bool nsi_selection_stopped(const nsi_selection* s) {
    return s->d->progress->stopped;
}

static inline bool nsi_selection_is_active(const nsi_selection* s, uint32_t term) {
    for (uint32_t k = 0; k < s->d->active.count; k++) {
        if (s->d->active.data[k] == term) return true;
    }
    return false;
}

// ---- selection.c -----------------------------------------------------------------------------

// The cost below which nothing is left to explain.
double nsi_selection_floor(const nsi_selection* s);
// The gain that a term must have, and the F statistic that it must reach.
double nsi_selection_min_gain(const nsi_selection* s);
double nsi_selection_min_f(const nsi_selection* s);
// Residual variance with so many terms.
double nsi_selection_variance(const nsi_selection* s, double squares, uint32_t terms);
// Mean square of held-out folds with the active terms.
double nsi_selection_held_out(nsi_selection* s);

// Do both terms describe friction of one joint, at different speeds of the grid?
bool nsi_selection_is_sibling(const nsi_term* t, const nsi_term* other);
bool nsi_selection_may_enter(const nsi_selection* s, uint32_t term);

// Into the active set and out of it, together with the shape. A term that leaves has the value 0.
ns_status nsi_selection_activate(nsi_selection* s, uint32_t term);
void nsi_selection_deactivate(nsi_selection* s, uint32_t term);

// The active terms and one more (NSI_NONE: none), or without one and its shape, into `subset`;
// their number.
uint32_t nsi_selection_active_plus(const nsi_selection* s, uint32_t term);
uint32_t nsi_selection_active_minus(const nsi_selection* s, uint32_t term);

// The Gram matrix of the current point. When it is stopped, that of the last point stays.
ns_status nsi_selection_relinearise(nsi_selection* s);

// Keep the step for the report, once its terms are in place.
ns_status nsi_selection_record(nsi_selection* s, nsi_selection_step step, double held_out_before);

// ---- steps -----------------------------------------------------------------------------------

ns_status nsi_selection_forward_step(nsi_selection* s, bool* changed);
ns_status nsi_selection_backward_step(nsi_selection* s, bool* changed);
// Put the linear term in the place of a friction whose velocity reached the end of its range.
ns_status nsi_selection_straighten_step(nsi_selection* s);
ns_status nsi_selection_exchange_step(nsi_selection* s, bool* changed);

// ---- results ---------------------------------------------------------------------------------

ns_status nsi_selection_rank_sites(nsi_selection* s, nsi_ranks* out);
ns_status nsi_selection_summarise(nsi_selection* s);

#endif
