// Backward and exchange steps: terms that the others have made superfluous leave, or make room for
// better ones.

#include "discover/selection.h"

#include <math.h>

// The Gram matrix as it would be with a term at 0; `back` undoes it.
static void shift_gram(nsi_gram* gram, uint32_t term, double value, bool back) {
    double by = back ? -value : value; // the step is -value
    for (uint32_t f = 0; f <= NSI_FOLDS; f++) {
        if (!gram->G[f]) continue;
        const double* row = gram->G[f] + (size_t)term * gram->n;
        gram->squares[f] += 2.0 * by * gram->h[f][term] + by * by * row[term];
        for (uint32_t k = 0; k < gram->n; k++) gram->h[f][k] += by * row[k];
    }
}

// Refit without a term, and with another in its place unless that is NSI_NONE. The exchange is kept
// when the cost decreases by more than min_decrease, which may be negative.
static ns_status replace_active(nsi_selection* s, uint32_t term, uint32_t other,
                                double min_decrease, bool* changed) {
    ns_discovery* d = s->d;
    double before = s->squares, held_out = nsi_selection_held_out(s);

    // Save the current point and the active set, in case the exchange is rejected.
    double *here = nsi_workspace_save(&d->workspace), *there = NULL;
    uint32_t count = d->active.count;
    uint32_t* old = nsi_alloc(&d->allocator, (count + 1) * sizeof *old);
    ns_status status = here && old ? NS_OK : nsi_fail_nomem(s->error);
    if (status != NS_OK) goto done;
    memcpy(old, d->active.data, count * sizeof *old);

    // Change the active set and refit. The objectives move to the new values; initial states stay.
    nsi_selection_deactivate(s, term);
    if (other != NSI_NONE) status = nsi_selection_activate(s, other);
    there = nsi_workspace_save(&d->workspace);
    if (status == NS_OK && !there) status = nsi_fail_nomem(s->error);
    if (status != NS_OK) goto done;
    nsi_workspace_restore(&d->workspace, there);
    double squares = nsi_workspace_refit(&d->workspace, d->active.data, d->active.count,
                                         nsi_thresholds.refit.accepted);

    // Non-finite refits are rejected, whatever the margin.
    *changed = isfinite(squares) && squares < before - min_decrease;
    if (*changed) {
        // Accept: record the step and rebuild the normal equations at the new point.
        nsi_selection_step step = {.kind =
                                       other == NSI_NONE ? NSI_STEP_BACKWARD : NSI_STEP_EXCHANGE,
                                   .term = other == NSI_NONE ? term : other,
                                   .replaced = other == NSI_NONE ? NSI_NONE : term,
                                   .before = before};
        s->squares = squares;
        // The integrator check belonged to the old set of terms.
        s->numerical = NAN;
        status = nsi_selection_relinearise(s);
        if (status == NS_OK) status = nsi_selection_record(s, step, held_out);
    } else {
        // Reject: restore the active set, the values and the cost.
        memcpy(d->active.data, old, count * sizeof *old);
        d->active.count = count;
        nsi_workspace_restore(&d->workspace, here);
        nsi_workspace_cost(&d->workspace);
    }
done:

    nsi_free(&d->allocator, old);
    nsi_free(&d->allocator, here);
    nsi_free(&d->allocator, there);
    return status;
}

// The loss that a term may cause and still leave: below a part of what lets it enter, so that it does not come
// back at once.
static double tolerated_loss(const nsi_selection* s) {
    const double part = nsi_thresholds.selection.hysteresis;
    double keep =
        part * nsi_selection_min_f(s) * nsi_selection_variance(s, s->squares, s->d->active.count);
    return fmax(keep, fmax(part * nsi_selection_min_gain(s),
                           part * nsi_thresholds.selection.min_share * s->squares));
}

ns_status nsi_selection_backward_step(nsi_selection* s, bool* changed) {
    *changed = false;

    const double keep = tolerated_loss(s);

    // The term with the smallest loss, linearised.
    uint32_t weakest = NSI_NONE;
    double least = INFINITY;
    for (uint32_t k = 0; k < s->d->active.count; k++) {
        uint32_t term = s->d->active.data[k];
        if (!nsi_term_is_candidate(nsi_selection_term(s, term))) continue;
        uint32_t n = nsi_selection_active_minus(s, term);
        double value = s->d->workspace.values[term];
        shift_gram(&s->gram, term, value, false);
        double loss = nsi_gram_explain(&s->gram, s->subset, n, 0.0) - s->squares;
        shift_gram(&s->gram, term, value, true);
        if (loss < least) least = loss, weakest = term;
    }
    if (weakest == NSI_NONE || least > keep) return NS_OK;
    return replace_active(s, weakest, NSI_NONE, -keep, changed);
}

// The linear term at the quantity of another; NSI_NONE: none can enter.
static uint32_t find_linear(const nsi_selection* s, const nsi_term* term) {
    for (uint32_t k = 0; k < s->gram.n; k++) {
        const nsi_term* t = nsi_selection_term(s, k);
        bool linear = t->kind == NSI_TERM_FORMULA && strcmp(t->form, "qd") == 0;
        if (linear && strcmp(t->quantity, term->quantity) == 0 && nsi_selection_may_enter(s, k)) {
            return k;
        }
    }
    return NSI_NONE;
}

ns_status nsi_selection_straighten_step(nsi_selection* s) {
    for (uint32_t k = 0; k < s->d->active.count; k++) {
        uint32_t term = s->d->active.data[k];
        const nsi_term* t = nsi_selection_term(s, term);
        if (t->shape == NSI_NONE) continue;

        // tanh(qd / v) with v at its end is a line: damping, with one number less.
        double start = nsi_selection_term(s, t->shape)->start;
        double v = start + s->d->workspace.values[t->shape];
        if (v < (1.0 - 1e-3) * nsi_thresholds.refit.max_shape * start) continue;
        uint32_t linear = find_linear(s, t);
        bool changed = false;
        if (linear != NSI_NONE) {
            return replace_active(s, term, linear, -tolerated_loss(s), &changed);
        }
    }
    return NS_OK;
}

ns_status nsi_selection_exchange_step(nsi_selection* s, bool* changed) {
    *changed = false;

    // Each exchange is one active candidate that leaves and one inactive candidate that enters.
    uint32_t best = NSI_NONE, replaced = NSI_NONE, candidates = 0;
    double least = INFINITY;

    // The best exchange by the normal equations.
    for (uint32_t k = 0; k < s->d->active.count; k++) {
        uint32_t term = s->d->active.data[k];
        if (!nsi_term_is_candidate(nsi_selection_term(s, term))) continue;
        candidates++;
        uint32_t n = nsi_selection_active_minus(s, term);
        double value = s->d->workspace.values[term];

        // Take the leaving term's contribution out of the right-hand side.
        shift_gram(&s->gram, term, value, false);

        // Predict the cost with each possible replacement.
        for (uint32_t i = 0; i < s->gram.n; i++) {
            if (!nsi_selection_may_enter(s, i)) continue;
            s->subset[n] = i;
            double squares = nsi_gram_explain(&s->gram, s->subset, n + 1, 0.0);
            if (squares < least) least = squares, best = i, replaced = term;
        }

        // Put the contribution back before the next term is considered.
        shift_gram(&s->gram, term, value, true);
    }

    // With a single candidate, an exchange is the same as a new search: skip it.
    if (best == NSI_NONE || candidates < 2) return NS_OK;

    // The normal equations are not exact for steps this long: try only a large predicted gain.
    if (least > nsi_thresholds.selection.exchange_predicted * s->squares) return NS_OK;

    // Residuals at the level of rounding need no exchange.
    if (s->squares < nsi_selection_floor(s)) return NS_OK;

    // The refit has to pass the F test and a minimum relative gain.
    double f = nsi_selection_min_f(s) * nsi_selection_variance(s, s->squares, s->d->active.count);
    double gain = nsi_thresholds.selection.exchange_gain * s->squares;
    return replace_active(s, replaced, best, fmax(f, gain), changed);
}
