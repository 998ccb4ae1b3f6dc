// Selection: terms enter one at a time, are exchanged for better ones and leave again, in windows
// that grow. The normal equations propose terms; refits decide, since a mass that is wrong by a
// fifth is not a small change.
//
// A term enters when
//   - an F test with Bonferroni's correction for the number of candidates rules out chance,
//   - it explains more in held-out folds, and a minimal share of the cost,
//   - the error of the integrator does not explain the same.
// Among terms the data cannot distinguish, the simplest enters and the others are reported beside
// it.

#include "discover/selection.h"

#include <math.h>
#include <stdio.h>

// ---- tests -------------------------------------------------------------------------------------

double nsi_selection_floor(const nsi_selection* s) {
    return fmax(nsi_thresholds.selection.negligible_share * s->baseline,
                nsi_thresholds.selection.rounding * s->gram.freedom);
}

double nsi_selection_min_gain(const nsi_selection* s) {
    return fmax(nsi_thresholds.selection.min_baseline_share * s->baseline, nsi_selection_floor(s));
}

// From the tail of the normal distribution, by bisection: there are many degrees of freedom.
double nsi_selection_min_f(const nsi_selection* s) {
    double p = nsi_thresholds.selection.family_alpha / (s->d->ncandidate + 1.0);
    double low = 0.0, high = 20.0; // standard deviations
    for (int k = 0; k < 60; k++) {
        double t = 0.5 * (low + high);
        *(erfc(t / sqrt(2.0)) > p ? &low : &high) = t;
    }
    return high * high;
}

double nsi_selection_variance(const nsi_selection* s, double squares, uint32_t terms) {
    double freedom = s->gram.freedom - terms;
    return squares / (freedom > 1.0 ? freedom : 1.0);
}

double nsi_selection_held_out(nsi_selection* s) {
    uint32_t n = nsi_selection_active_plus(s, NSI_NONE);
    return nsi_gram_held_out(&s->gram, s->subset, n, 0.0) / fmax(s->gram.freedom, 1.0);
}

// ---- the active set ----------------------------------------------------------------------------

bool nsi_selection_is_sibling(const nsi_term* t, const nsi_term* other) {
    return t->shape != NSI_NONE && other->shape != NSI_NONE && t->site == other->site;
}

bool nsi_selection_may_enter(const nsi_selection* s, uint32_t term) {
    const nsi_term* t = nsi_selection_term(s, term);
    if (!nsi_term_is_candidate(t) || s->inert[term]) return false;
    for (uint32_t k = 0; k < s->d->active.count; k++) {
        uint32_t active = s->d->active.data[k];
        if (active == term || nsi_selection_is_sibling(t, nsi_selection_term(s, active))) {
            return false;
        }
    }
    return true;
}

ns_status nsi_selection_activate(nsi_selection* s, uint32_t term) {
    ns_discovery* d = s->d;
    uint32_t shape = nsi_selection_term(s, term)->shape;
    bool ok = nsi_array_push(&d->allocator, &d->active, term);
    if (ok && shape != NSI_NONE) ok = nsi_array_push(&d->allocator, &d->active, shape);
    return ok ? NS_OK : nsi_fail_nomem(s->error);
}

void nsi_selection_deactivate(nsi_selection* s, uint32_t term) {
    ns_discovery* d = s->d;
    uint32_t kept = 0, shape = nsi_selection_term(s, term)->shape;
    for (uint32_t k = 0; k < d->active.count; k++) {
        uint32_t t = d->active.data[k];
        if (t == term || t == shape) {
            d->workspace.values[t] = 0.0;
        } else {
            d->active.data[kept++] = t;
        }
    }
    d->active.count = kept;
}

uint32_t nsi_selection_active_plus(const nsi_selection* s, uint32_t term) {
    uint32_t count = s->d->active.count;
    if (count > 0) memcpy(s->subset, s->d->active.data, count * sizeof *s->subset);
    if (term != NSI_NONE) s->subset[count++] = term;
    return count;
}

uint32_t nsi_selection_active_minus(const nsi_selection* s, uint32_t term) {
    uint32_t count = 0, shape = nsi_selection_term(s, term)->shape;
    for (uint32_t k = 0; k < s->d->active.count; k++) {
        uint32_t t = s->d->active.data[k];
        if (t != term && t != shape) s->subset[count++] = t;
    }
    return count;
}

static uint32_t count_found(const nsi_selection* s) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < s->d->active.count; k++) {
        count += nsi_term_is_candidate(nsi_selection_term(s, s->d->active.data[k]));
    }
    return count;
}

ns_status nsi_selection_relinearise(nsi_selection* s) {
    nsi_gram next;
    ns_status status = nsi_gram_take(&s->d->workspace, &next, s->error);
    if (status != NS_OK) return status;
    nsi_gram_free(nsi_selection_stopped(s) ? &next : &s->gram);
    if (!nsi_selection_stopped(s)) s->gram = next;
    return NS_OK;
}

ns_status nsi_selection_record(nsi_selection* s, nsi_selection_step step, double held_out_before) {
    step.length = s->d->workspace.length;
    step.after = s->squares;
    step.held_out_before = held_out_before;
    step.held_out_after = nsi_selection_held_out(s);
    bool done = nsi_array_push(&s->d->allocator, &s->d->steps, step);
    return done ? NS_OK : nsi_fail_nomem(s->error);
}

// ---- levels ------------------------------------------------------------------------------------

// A coefficient without effect has a column of 0 but for rounding. Units of terms differ, so that
// only the scale of the residuals can be compared with.
static void find_inert(nsi_selection* s) {
    ns_discovery* d = s->d;
    d->ncandidate = d->ninert = 0;
    for (uint32_t k = 0; k < s->gram.n; k++) {
        if (!nsi_term_is_candidate(nsi_selection_term(s, k))) continue;
        double own = s->gram.G[NSI_FOLDS][(size_t)k * s->gram.n + k];
        s->inert[k] = !(own > nsi_thresholds.gram.min_diagonal);
        *(s->inert[k] ? &d->ninert : &d->ncandidate) += 1;
    }
}

// The sums of squares of the model as it is, and with the terms found so far, at new windows.
static ns_status refit_level(nsi_selection* s) {
    ns_discovery* d = s->d;
    nsi_workspace* ws = &d->workspace;
    // Save the values found in shorter windows.
    double* here = nsi_workspace_save(ws);
    if (!here) return nsi_fail_nomem(s->error);

    // Baseline: the model with the parameters that the file fits, which come first.
    uint32_t ngiven = 0;
    for (uint32_t k = 0; k < d->active.count; k++) {
        bool given = nsi_selection_term(s, d->active.data[k])->kind == NSI_TERM_GIVEN;
        if (!given) ws->values[d->active.data[k]] = 0.0;
        ngiven += given;
    }

    // Refit the baseline from there.
    double* bare = nsi_workspace_save(ws);
    if (bare) {
        nsi_workspace_restore(ws, bare);
        s->baseline =
            nsi_workspace_refit(ws, d->active.data, ngiven, nsi_thresholds.refit.baseline);
        // Without any discovery, the baseline is also the result.
        s->squares = s->baseline;
    }

    // Terms found in shorter windows are a good start for longer ones.
    if (bare && count_found(s) > 0) {
        nsi_workspace_restore(ws, here);
        s->squares =
            nsi_workspace_refit(ws, d->active.data, d->active.count, nsi_thresholds.refit.accepted);
    }

    bool ok = bare != NULL;
    nsi_free(&d->allocator, here);
    nsi_free(&d->allocator, bare);
    return ok ? NS_OK : nsi_fail_nomem(s->error);
}

// Cut into windows of this length and linearise. Incomplete when it is stopped.
static ns_status begin_level(nsi_selection* s, uint32_t length) {
    ns_status status = nsi_workspace_cut(&s->d->workspace, length, s->error);
    s->numerical = NAN;
    if (status == NS_OK) status = refit_level(s);
    if (status != NS_OK || nsi_selection_stopped(s)) return status;
    if (!isfinite(s->squares)) {
        return nsi_fail(
            s->error, NS_ERR_NONFINITE,
            "%.200s: the simulation does not stay finite in windows of %u samples; choose a"
            " smaller time step",
            s->d->fit->spec->path, length);
    }
    return nsi_selection_relinearise(s);
}

// Forward steps; after each, terms that became superfluous leave, or are exchanged.
static ns_status run_level(nsi_selection* s) {
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < nsi_thresholds.selection.max_steps && status == NS_OK; k++) {
        bool entered = false, changed = true;
        if (nsi_selection_stopped(s) || s->squares < nsi_selection_floor(s)) break;
        status = nsi_selection_forward_step(s, &entered);
        if (status != NS_OK || !entered) break;
        for (uint32_t i = 0; i < nsi_thresholds.selection.max_corrections && changed; i++) {
            if (status != NS_OK || nsi_selection_stopped(s)) break;
            status = nsi_selection_backward_step(s, &changed);
            if (status == NS_OK && !changed) status = nsi_selection_exchange_step(s, &changed);
        }
    }
    return status;
}

// Backward steps while there are any; then the level is kept for the report.
static ns_status end_level(nsi_selection* s) {
    ns_discovery* d = s->d;
    nsi_level level = {.length = d->workspace.length};
    bool changed = true;
    ns_status status = NS_OK;
    while (changed && status == NS_OK && !nsi_selection_stopped(s)) {
        status = nsi_selection_backward_step(s, &changed);
    }
    if (status == NS_OK && !nsi_selection_stopped(s)) status = nsi_selection_straighten_step(s);
    for (uint32_t f = 0; f < d->workspace.nfold; f++) {
        level.windows += nsi_objective_window_count(d->workspace.folds[f]);
        level.residuals += nsi_objective_residual_count(d->workspace.folds[f]);
    }
    level.before = sqrt(s->baseline / fmax(level.residuals, 1));
    level.after = sqrt(s->squares / fmax(level.residuals, 1));
    if (status == NS_OK && !nsi_array_push(&d->allocator, &d->levels, level)) {
        status = nsi_fail_nomem(s->error);
    }
    return status;
}

// One length of windows after another. `last`: longer ones are of no use.
// @param before  length of the level before; 0: this is the first
// @param kept    (terms) scratch
static ns_status select_level(nsi_selection* s, uint32_t length, uint32_t before, double* kept,
                              bool* last) {
    ns_discovery* d = s->d;
    // Save the level before, in case that this one does not complete.
    size_t size = d->library.terms.count * sizeof *kept;
    double squares = s->squares, baseline = s->baseline;
    memcpy(kept, d->workspace.values, size);

    // If the model diverges in longer windows, the result of shorter ones is final.
    ns_status status = begin_level(s, length);
    *last = status == NS_ERR_NONFINITE && before > 0;
    if (*last) status = begin_level(s, before);

    // Interrupted: the level before is final.
    if (nsi_selection_stopped(s)) {
        memcpy(d->workspace.values, kept, size);
        s->squares = squares;
        s->baseline = baseline;
        *last = true;
    }

    if (*last || status != NS_OK) return status;

    // Exclude candidates without effect; this does not depend on the window length.
    if (before == 0) find_inert(s);

    // Rank the places before the first discovery, unless the residual is rounding error.
    bool some = s->baseline > nsi_thresholds.selection.no_residual * s->gram.freedom;
    if (some && count_found(s) == 0) status = nsi_selection_rank_sites(s, &d->ranks);

    // Select terms, then record the level.
    if (status == NS_OK) status = run_level(s);
    if (status == NS_OK) status = end_level(s);
    return status;
}

static ns_status select_terms(nsi_selection* s, double* kept) {
    ns_discovery* d = s->d;
    uint32_t half_period = nsi_workspace_half_period(&d->workspace), before = 0;
    uint32_t longest = nsi_workspace_longest(d->fit->data[NS_ROLE_TRAIN]);
    bool last = false;
    ns_status status = NS_OK;

    // What the file fits is always active.
    for (uint32_t k = 0; k < d->library.terms.count && status == NS_OK; k++) {
        if (nsi_selection_term(s, k)->kind == NSI_TERM_GIVEN) status = nsi_selection_activate(s, k);
    }

    // Longer windows show weaker effects.
    for (int k = 0; k < NSI_DISCOVER_LEVELS && status == NS_OK && !last; k++) {
        uint32_t length = (uint32_t)(nsi_thresholds.windows.growth[k] * half_period);
        if (length > longest - 1) length = longest > 1 ? longest - 1 : 1;
        if (length == before || nsi_selection_stopped(s)) break;
        char activity[100];
        snprintf(activity, sizeof activity, "windows of %u samples", length);
        if (nsi_discover_report_activity(d, activity)) break;
        status = select_level(s, length, before, kept, &last);
        before = length;
    }
    if (status == NS_OK && d->levels.count > 0) status = nsi_selection_summarise(s);
    return status;
}

ns_status nsi_discover_select(ns_discovery* d, ns_error* error) {
    nsi_selection s = {.d = d, .error = error, .numerical = NAN};
    size_t room = (size_t)d->library.terms.count + 2;
    s.gram.allocator = d->allocator;
    s.inert = nsi_alloc_zeroed(&d->allocator, room * sizeof *s.inert);
    s.subset = nsi_alloc_zeroed(&d->allocator, room * sizeof *s.subset);
    s.variances = nsi_alloc_zeroed(&d->allocator, room * sizeof *s.variances);
    double* kept = nsi_alloc_zeroed(&d->allocator, room * sizeof *kept);
    bool ok = s.inert && s.subset && s.variances && kept;
    ns_status status = ok ? select_terms(&s, kept) : nsi_fail_nomem(error);
    nsi_gram_free(&s.gram);
    nsi_free(&d->allocator, s.inert);
    nsi_free(&d->allocator, s.subset);
    nsi_free(&d->allocator, s.variances);
    nsi_free(&d->allocator, kept);
    return status;
}
