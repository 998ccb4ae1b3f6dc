// Forward steps: candidates by the normal equations, refits of the best, and one term that enters.

#include "discover/selection.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct trial {
    uint32_t term;  // NSI_NONE: not tried
    double linear;  // sum of squares by the normal equations
    double squares; // by a refit
    double* point;  // of the workspace, after the refit
    uint32_t same;  // the trial whose term has exactly the same effect here, or NSI_NONE
} trial;

static int compare_linear(const void* a, const void* b) {
    const trial *x = a, *y = b;
    if (x->linear != y->linear) return x->linear < y->linear ? -1 : 1;
    return (x->term > y->term) - (x->term < y->term);
}

// ---- candidates --------------------------------------------------------------------------------

// Does a candidate pass all tests that the normal equations allow? `after`: the cost with it.
static bool passes_tests(nsi_selection* s, uint32_t term, double before, double held_out,
                         double min_f, double* after) {
    const double min_share = nsi_thresholds.selection.min_share;

    // It must do something that the active terms cannot.
    uint32_t n = nsi_selection_active_plus(s, NSI_NONE);
    double own = nsi_gram_own_share(&s->gram, s->subset, n, term);
    if (own < nsi_thresholds.selection.min_own_share) return false;

    // A share of the cost that is worth a term, and an F test.
    n = nsi_selection_active_plus(s, term);
    *after = nsi_gram_explain(&s->gram, s->subset, n, 0.0);
    double gain = before - *after;
    if (!(gain > min_share * before) || !(gain > nsi_selection_min_gain(s))) return false;
    if (gain < min_f * nsi_selection_variance(s, *after, n)) return false;

    // Held-out folds must confirm it.
    double share = nsi_thresholds.selection.held_out_share * min_share;
    return !(nsi_gram_held_out(&s->gram, s->subset, n, 0.0) > held_out * (1.0 - share));
}

// Candidates that may enter, the best first; their number.
static uint32_t list_candidates(nsi_selection* s, trial* out) {
    uint32_t count = 0, n = nsi_selection_active_plus(s, NSI_NONE);
    double before = nsi_gram_explain(&s->gram, s->subset, n, 0.0), after;
    double held_out = nsi_gram_held_out(&s->gram, s->subset, n, 0.0);
    double min_f = nsi_selection_min_f(s);
    for (uint32_t k = 0; k < s->gram.n; k++) {
        if (!nsi_selection_may_enter(s, k)) continue;
        if (!passes_tests(s, k, before, held_out, min_f, &after)) continue;
        out[count++] = (trial){.term = k, .linear = after, .squares = INFINITY, .same = NSI_NONE};
    }
    qsort(out, count, sizeof *out, compare_linear);
    return count;
}

// Difference between sums of squares that is noise.
static double cost_tolerance(const nsi_selection* s, double squares) {
    return nsi_thresholds.selection.equal_variance *
               nsi_selection_variance(s, squares, s->d->active.count + 1) +
           nsi_selection_floor(s);
}

// In a plane, drag along x is drag across z: among terms with exactly the same effect, the simplest
// is tried and represents the others.
static void merge_same(nsi_selection* s, trial* list, uint32_t count) {
    uint32_t n = nsi_selection_active_plus(s, NSI_NONE);
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t i = k; i-- > 0 && list[k].same == NSI_NONE;) {
            double apart = fabs(list[i].linear - list[k].linear);
            if (apart > nsi_thresholds.selection.same_cost * s->squares) break;

            // The same effect, unless a part of it is its own.
            uint32_t first = list[i].same == NSI_NONE ? i : list[i].same;
            s->subset[n] = list[first].term;
            double own = nsi_gram_own_share(&s->gram, s->subset, n + 1, list[k].term);
            if (own > nsi_thresholds.selection.same_own_share) continue;
            list[k].same = first;

            uint32_t term = list[k].term;
            if (nsi_selection_term(s, term)->complexity <
                nsi_selection_term(s, list[first].term)->complexity) {
                list[k].term = list[first].term;
                list[first].term = term;
            }
        }
    }
}

// To be tried: the best, the best of each kind, and simpler ones that are equal for all that is
// known; not those that are far behind.
static void prune_trials(const nsi_selection* s, trial* list, uint32_t count) {
    uint32_t tried = 0, of_kind[2] = {0};
    if (count == 0) return;
    double simplest = INFINITY;
    double max =
        list[0].linear + nsi_thresholds.selection.trial_range * (s->squares - list[0].linear);
    double equal = list[0].linear + cost_tolerance(s, list[0].linear);
    for (uint32_t k = 0; k < count; k++) {
        if (list[k].same != NSI_NONE) continue;
        const nsi_term* t = nsi_selection_term(s, list[k].term);
        uint32_t kind = t->kind == NSI_TERM_FORMULA;
        bool simpler = list[k].linear <= equal && t->complexity < simplest;
        bool take = list[k].linear <= max &&
                    (tried < nsi_thresholds.selection.max_trials ||
                     of_kind[kind] < nsi_thresholds.selection.max_trials_of_kind || simpler);
        simplest = fmin(simplest, t->complexity);
        of_kind[kind]++;
        tried += take;
        if (!take) list[k].term = NSI_NONE;
    }
}

// ---- trials ------------------------------------------------------------------------------------

static double refit_trial(ns_discovery* d) {
    return nsi_workspace_refit(&d->workspace, d->active.data, d->active.count,
                               nsi_thresholds.refit.trial);
}

// Refit with each candidate; back to the current point after each.
static ns_status run_trials(nsi_selection* s, trial* list, uint32_t count) {
    ns_discovery* d = s->d;
    // Every trial starts from the same point.
    double* here = nsi_workspace_save(&d->workspace);
    if (!here) return nsi_fail_nomem(s->error);
    ns_status status = NS_OK;

    // Refit with one candidate at a time.
    for (uint32_t k = 0; k < count && status == NS_OK && !nsi_selection_stopped(s); k++) {
        uint32_t before = d->active.count;
        // Skip candidates that were pruned or that repeat another's effect.
        if (list[k].term == NSI_NONE || list[k].same != NSI_NONE) continue;
        // Progress line, with a chance to stop.
        char activity[300];
        snprintf(activity, sizeof activity, "windows of %u samples: trying %.200s",
                 d->workspace.length, nsi_selection_term(s, list[k].term)->name);
        if (nsi_discover_report_activity(d, activity)) break;

        // Activate the candidate, refit, and keep the point in case it is chosen.
        status = nsi_selection_activate(s, list[k].term);
        if (status != NS_OK) break;
        list[k].squares = refit_trial(d);
        list[k].point = nsi_workspace_save(&d->workspace);
        if (!list[k].point) status = nsi_fail_nomem(s->error);
        // Back to the current point.
        d->active.count = before;
        nsi_workspace_restore(&d->workspace, here);
    }

    // Candidates with the same effect share the cost of the one that was tried.
    for (uint32_t k = 0; k < count; k++) {
        if (list[k].same != NSI_NONE) list[k].squares = list[list[k].same].squares;
    }
    nsi_free(&d->allocator, here);
    return status;
}

// The best, or one that is as good and simpler; NSI_NONE: none.
static uint32_t choose_trial(const nsi_selection* s, const trial* list, uint32_t count) {
    uint32_t best = NSI_NONE;
    for (uint32_t k = 0; k < count; k++) {
        if (!list[k].point || !isfinite(list[k].squares)) continue;
        if (best == NSI_NONE || list[k].squares < list[best].squares) best = k;
    }
    if (best == NSI_NONE) return NSI_NONE;

    uint32_t chosen = best;
    double max = list[best].squares + cost_tolerance(s, list[best].squares);
    for (uint32_t k = 0; k < count; k++) {
        if (!list[k].point || !(list[k].squares <= max)) continue;
        double own = nsi_selection_term(s, list[k].term)->complexity;
        double least = nsi_selection_term(s, list[chosen].term)->complexity;
        if (own < least || (own == least && list[k].squares < list[chosen].squares)) chosen = k;
    }
    return chosen;
}

// The pair of a trial and another formula at the same site with the least cost below `least`.
static void propose_pair(nsi_selection* s, const trial* list, uint32_t count, double least,
                         uint32_t* first, uint32_t* second) {
    *first = *second = NSI_NONE;
    for (uint32_t k = 0; k < count; k++) {
        const nsi_term* t = list[k].point ? nsi_selection_term(s, list[k].term) : NULL;
        if (!t || t->kind != NSI_TERM_FORMULA) continue;
        for (uint32_t i = 0; i < s->gram.n; i++) {
            const nsi_term* u = nsi_selection_term(s, i);
            if (i == list[k].term || u->kind != NSI_TERM_FORMULA || u->site != t->site) continue;
            if (nsi_selection_is_sibling(t, u) || !nsi_selection_may_enter(s, i)) continue;
            uint32_t n = nsi_selection_active_plus(s, list[k].term);
            s->subset[n] = i;
            double squares = nsi_gram_explain(&s->gram, s->subset, n + 1, 0.0);
            if (squares < least) least = squares, *first = k, *second = i;
        }
    }
}

// Of a law of two terms at one site, such as a spring with a rest angle, each alone may explain
// less than some other term. When two leave much less than any term alone, also after a refit, the
// better one of them enters first: its number in the list, or NSI_NONE.
static ns_status find_pair(nsi_selection* s, const trial* list, uint32_t count, uint32_t* first) {
    ns_discovery* d = s->d;
    uint32_t second, chosen = choose_trial(s, list, count);
    *first = NSI_NONE;
    if (chosen == NSI_NONE) return NS_OK;
    double max = nsi_thresholds.selection.pair_share * list[chosen].squares;
    propose_pair(s, list, count, max, first, &second);
    if (*first == NSI_NONE) return NS_OK;

    // A refit decides; then back to the current point.
    double* here = nsi_workspace_save(&d->workspace);
    if (!here) return nsi_fail_nomem(s->error);
    uint32_t before = d->active.count;
    ns_status status = nsi_selection_activate(s, list[*first].term);
    if (status == NS_OK) status = nsi_selection_activate(s, second);
    if (status == NS_OK && !(refit_trial(d) < max)) *first = NSI_NONE;
    d->active.count = before;
    nsi_workspace_restore(&d->workspace, here);
    nsi_free(&d->allocator, here);
    return status;
}

// ---- the step ----------------------------------------------------------------------------------

static int compare_rivals(const void* a, const void* b) {
    const nsi_rival *x = a, *y = b;
    if (x->squares != y->squares) return x->squares < y->squares ? -1 : 1;
    return (x->term > y->term) - (x->term < y->term);
}

// Candidates that explain nearly as much as the chosen one.
static ns_status record_rivals(nsi_selection* s, const trial* list, uint32_t count, uint32_t chosen,
                               nsi_selection_step* step) {
    nsi_rival* rivals = nsi_arena_alloc(&s->d->arena, ((size_t)count + 1) * sizeof *rivals);
    if (!rivals) return nsi_fail_nomem(s->error);
    double squares = list[chosen].squares;
    double least = nsi_thresholds.selection.rival_share * (s->squares - squares);
    const nsi_term* own = nsi_selection_term(s, list[chosen].term);
    for (uint32_t k = 0; k < count; k++) {
        if (k == chosen || list[k].term == NSI_NONE) continue;
        if (!(s->squares - list[k].squares > least)) continue;
        // Friction at another speed is no other explanation.
        if (nsi_selection_is_sibling(own, nsi_selection_term(s, list[k].term))) continue;
        bool equal = list[k].squares <= squares + cost_tolerance(s, squares);
        rivals[step->nrival++] = (nsi_rival){list[k].term, list[k].squares, equal};
    }
    qsort(rivals, step->nrival, sizeof *rivals, compare_rivals);
    step->rivals = rivals;
    return NS_OK;
}

// Does the error of the integrator explain as much as a candidate, which leaves `squares`?
static ns_status check_integrator(nsi_selection* s, double squares, bool* is_numerical) {
    ns_discovery* d = s->d;
    *is_numerical = false;
    if (isnan(s->numerical)) {
        char other[80];
        ns_status status = nsi_workspace_numerical(&d->workspace, &s->numerical, other, s->error);
        if (status != NS_OK) return status;
        snprintf(d->other, sizeof d->other, "%s", other);
    }
    double gain = s->squares - squares, numerical = s->squares - s->numerical;
    if (!(numerical > nsi_thresholds.integrator.min_gain * gain) ||
        squares < nsi_thresholds.integrator.clear_gain * s->numerical) {
        return NS_OK;
    }
    *is_numerical = true;
    d->numerical_share = numerical / s->squares;
    d->numerical = d->numerical_share > nsi_thresholds.integrator.min_share;
    return NS_OK;
}

// The refit of a trial passes the tests of the normal equations, too.
static bool is_significant(const nsi_selection* s, const trial* t) {
    double gain = s->squares - t->squares;
    double variance = nsi_selection_variance(s, t->squares, s->d->active.count + 1);
    return gain > nsi_thresholds.selection.min_share * s->squares &&
           gain > nsi_selection_min_gain(s) && gain > nsi_selection_min_f(s) * variance;
}

// The chosen term becomes active, with a complete refit.
static ns_status accept_trial(nsi_selection* s, const trial* list, uint32_t count,
                              uint32_t chosen) {
    ns_discovery* d = s->d;
    const trial* t = &list[chosen];
    nsi_selection_step step = {
        .kind = NSI_STEP_FORWARD, .term = t->term, .replaced = NSI_NONE, .before = s->squares};
    double held_out = nsi_selection_held_out(s);
    ns_status status = record_rivals(s, list, count, chosen, &step);
    if (status == NS_OK) status = nsi_selection_activate(s, t->term);
    if (status != NS_OK) return status;
    nsi_workspace_restore(&d->workspace, t->point);
    double squares = nsi_workspace_refit(&d->workspace, d->active.data, d->active.count,
                                         nsi_thresholds.refit.accepted);
    s->squares = fmin(t->squares, squares);

    // The integrator's error was compared with what is explained now.
    s->numerical = NAN;
    d->numerical = false;
    status = nsi_selection_relinearise(s);
    return status == NS_OK ? nsi_selection_record(s, step, held_out) : status;
}

ns_status nsi_selection_forward_step(nsi_selection* s, bool* changed) {
    // Worst case: every term is a trial.
    ns_discovery* d = s->d;
    *changed = false;
    trial* list = nsi_alloc_zeroed(&d->allocator, ((size_t)s->gram.n + 1) * sizeof *list);
    if (!list) return nsi_fail_nomem(s->error);

    // Rank candidates by the normal equations, then refit the promising ones.
    uint32_t count = list_candidates(s, list), chosen = NSI_NONE;
    // Equal effects are tried once.
    merge_same(s, list, count);
    prune_trials(s, list, count);
    ns_status status = run_trials(s, list, count);
    // Two terms together may explain what neither explains alone.
    if (status == NS_OK && !nsi_selection_stopped(s)) status = find_pair(s, list, count, &chosen);
    // Otherwise the best single candidate is chosen.
    if (status == NS_OK && chosen == NSI_NONE) chosen = choose_trial(s, list, count);

    // The candidate enters if it is significant and not an artefact of the integrator.
    if (status == NS_OK && chosen != NSI_NONE && !nsi_selection_stopped(s) &&
        is_significant(s, &list[chosen])) {
        bool is_numerical = false;
        // A finer integrator that reduces the cost as much means a numerical error.
        status = check_integrator(s, list[chosen].squares, &is_numerical);
        if (status == NS_OK && !is_numerical && !nsi_selection_stopped(s)) {
            status = accept_trial(s, list, count, chosen);
            *changed = true;
        }
    }

    // Points of the trials are not needed any more.
    for (uint32_t k = 0; k < count; k++) nsi_free(&d->allocator, list[k].point);
    nsi_free(&d->allocator, list);
    return status;
}
