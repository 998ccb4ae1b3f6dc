// What a selection ends with: standard errors, noise, and scores with and without the terms.

#include "discover/selection.h"
#include "report/format.h"
#include "sysid/identifiability.h"

#include <math.h>

// Noise of the recordings: as given, otherwise an upper bound from their fourth differences, which
// smooth motion hardly has.
static double estimate_noise(const ns_discovery* d) {
    const ns_dataset* train = d->fit->data[NS_ROLE_TRAIN];
    const nsi_problem* p = d->workspace.problem;
    double sum = 0.0;
    uint32_t count = 0;
    for (uint32_t c = 0; c < p->nchannel; c++) {
        double given = ns_dataset_channel(train, c)->sigma * p->sources[c].scale;
        for (uint32_t k = 0; k < ns_dataset_recording_count(train); k++) {
            const ns_recording* r = ns_dataset_recording(train, k);
            for (uint32_t i = 4; i < r->nsample; i++) {
                const double* x = r->values + (size_t)(i - 4) * p->nchannel + c;
                size_t n = p->nchannel;
                double d4 = x[0] - 4.0 * x[n] + 6.0 * x[2 * n] - 4.0 * x[3 * n] + x[4 * n];
                if (!isfinite(d4) || p->sources[c].scale == 0.0) continue;
                d4 *= p->sources[c].scale;
                // 70 = 1 + 16 + 36 + 16 + 1: the variance of a fourth difference of white noise.
                sum += given > 0.0 ? given * given : d4 * d4 / 70.0;
                count++;
            }
        }
    }
    return count > 0 ? sqrt(sum / count) : NAN;
}

bool nsi_discover_is_open(const ns_discovery* d) {
    const nsi_level* last = d->levels.count > 0 ? &d->levels.data[d->levels.count - 1] : NULL;
    return last && isfinite(d->noise) &&
           last->after > nsi_thresholds.ranking.noise_ratio * d->noise &&
           last->after > nsi_thresholds.ranking.residual_share * last->before;
}

// Residuals of all sets of recordings, with parameters of the file alone and with all terms.
static ns_status score_sets(nsi_selection* s) {
    ns_discovery* d = s->d;
    double* none = nsi_alloc_zeroed(&d->allocator, ((size_t)s->gram.n + 1) * sizeof *none);
    if (!none) return nsi_fail_nomem(s->error);
    for (uint32_t k = 0; k < s->gram.n; k++) {
        if (nsi_selection_term(s, k)->kind == NSI_TERM_GIVEN) none[k] = d->workspace.values[k];
    }
    ns_status status = NS_OK;
    for (int role = 0; role < NS_ROLE_COUNT && status == NS_OK; role++) {
        const ns_dataset* data = d->fit->data[role];
        if (!data) continue;
        status = nsi_workspace_score(&d->workspace, data, none, &d->score[role][0], s->error);
        if (status == NS_OK) {
            status = nsi_workspace_score(&d->workspace, data, d->workspace.values,
                                         &d->score[role][1], s->error);
        }
    }
    nsi_free(&d->allocator, none);
    return status;
}

// ---- groups --------------------------------------------------------------------------------------

// What was found, and every parameter that might have another value, into `subset`; their number.
static uint32_t list_tradable(nsi_selection* s, nsi_identification* found) {
    const ns_discovery* d = s->d;
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->gram.n; k++) {
        const nsi_term* t = nsi_selection_term(s, k);
        bool active = nsi_selection_is_active(s, k);
        if (s->inert[k] || t->kind == NSI_TERM_SHAPE) continue;
        if (!active && t->kind != NSI_TERM_PARAMETER) continue;
        ns_estimate e = {.name = t->kind == NSI_TERM_FORMULA ? t->name : t->quantity,
                         .value = t->start + d->workspace.values[k],
                         .initial = t->start,
                         .lower = -INFINITY,
                         .upper = INFINITY};
        if (!nsi_array_push(&found->allocator, &found->estimates, e)) return NSI_NONE;
        s->subset[n++] = k;
    }
    return n;
}

// A null direction in words, if something that was found is part of it.
static ns_status keep_group(nsi_selection* s, const nsi_identification* found,
                            const ns_parameter_direction* direction) {
    ns_discovery* d = s->d;
    nsi_text_builder text = {.allocator = d->allocator};
    bool any = false;
    uint32_t parts = 0;
    for (uint32_t k = 0; k < found->estimates.count; k++) {
        double change = direction->change[k];
        if (change == 0.0) continue;
        any = any || nsi_selection_is_active(s, s->subset[k]);
        nsi_text_add(&text, "%s%s %s%s %%", parts++ ? ", " : "", found->estimates.data[k].name,
                     change > 0.0 ? "+" : "-", nsi_format_short(fabs(change), 2).text);
    }
    ns_status status = text.failed ? nsi_fail_nomem(s->error) : NS_OK;
    if (any && parts > 1 && status == NS_OK) {
        const char* kept = nsi_arena_string(&d->arena, text.text.data, text.text.count);
        bool done = kept && nsi_array_push(&d->allocator, &d->groups, kept);
        for (uint32_t k = 0; k < found->estimates.count; k++) {
            if (direction->change[k] != 0.0) d->traded[s->subset[k]] = true;
        }
        if (!done) status = nsi_fail_nomem(s->error);
    }
    nsi_array_free(&text.allocator, &text.text);
    return status;
}

// Which of what was found can be traded against parameters that were left as they are? Its error is that
// with all of these right, and says nothing of it.
static ns_status find_groups(nsi_selection* s, double variance) {
    nsi_identification found = {.allocator = s->d->allocator};
    s->d->groups.count = 0;
    uint32_t n = list_tradable(s, &found);
    double* information =
        n == NSI_NONE ? NULL
                      : nsi_alloc(&s->d->allocator, ((size_t)n * n + 1) * sizeof *information);
    ns_status status = information ? NS_OK : nsi_fail_nomem(s->error);
    for (uint32_t i = 0; i < n && status == NS_OK; i++) {
        for (uint32_t j = 0; j < n; j++) {
            information[(size_t)i * n + j] =
                s->gram.G[NSI_FOLDS][(size_t)s->subset[i] * s->gram.n + s->subset[j]];
        }
    }

    // What cannot be analysed has no groups.
    ns_error why;
    bool known =
        status == NS_OK && nsi_identify(&found, information, sqrt(variance), NULL, &why) == NS_OK;
    for (uint32_t k = 0; known && k < found.directions.count && status == NS_OK; k++) {
        const ns_parameter_direction* direction = &found.directions.data[k];
        if (direction->null) status = keep_group(s, &found, direction);
    }
    nsi_free(&s->d->allocator, information);
    nsi_identification_free(&found);
    return status;
}

ns_status nsi_selection_summarise(nsi_selection* s) {
    ns_discovery* d = s->d;

    // Standard errors of the active terms.
    uint32_t n = nsi_selection_active_plus(s, NSI_NONE);
    double variance = nsi_selection_variance(s, s->squares, n);
    nsi_gram_variances(&s->gram, s->subset, n, s->variances);
    for (uint32_t k = 0; k < n; k++) d->errors[s->subset[k]] = sqrt(variance * s->variances[k]);

    ns_status status = find_groups(s, variance);
    if (status != NS_OK) return status;
    n = nsi_selection_active_plus(s, NSI_NONE); // `subset` was used

    // Residuals of the last level, in held-out folds.
    double count = fmax(d->levels.data[d->levels.count - 1].residuals, 1);
    d->held_out[0] = sqrt(s->baseline / count);
    d->held_out[1] = sqrt(fmax(nsi_gram_held_out(&s->gram, s->subset, n, 0.0), 0.0) / count);
    d->noise = estimate_noise(d);

    // Where something may still be missing, and how the result does elsewhere.
    status = nsi_selection_rank_sites(s, &d->rest);
    for (int role = 0; role < NS_ROLE_COUNT; role++) d->score[role][0] = d->score[role][1] = NAN;
    if (status != NS_OK || nsi_selection_stopped(s)) return status;
    return score_sets(s);
}
