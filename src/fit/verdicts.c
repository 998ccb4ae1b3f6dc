// Verdicts on the whole of a result.
//
// Standard errors say how well the data determines parameters of a model that is right. Where residuals are
// far above the noise, or a bound of the search was felt, they say nothing of the kind, however small they are.

#include "fit/verdicts.h"

#include "fit/result_words.h"
#include "report/format.h"

#include <math.h>

// Residuals this many times the noise given are not noise.
static const double MISFIT = 3.0;
// Without a noise: residuals of this share of how far the channels go explain hardly anything.
static const double UNEXPLAINED = 0.5;
// Test error may grow by this share: where the start was right already, it goes up and down.
static const double GROWTH = 1.05;

// ---- failures ------------------------------------------------------------------------------------

static bool is_misfit(const nsi_result* a) {
    double most = a->noise_known ? MISFIT : UNEXPLAINED;
    return a->nresidual > 0 && !(a->sigma <= most); // also where it is not a number
}

// The error at the shortest horizon, of the median window; without horizons the loss. In chaotic motion
// longer ones say little.
static double score_error(const ns_score* score) {
    if (score->windows == 0) return NAN;
    return score->nhorizon > 0 ? score->horizons[0].median : score->loss;
}

// Of validation and test data; NULL: it did not grow.
static const char* find_growth(const nsi_result* a, double* before, double* after) {
    static const ns_data_role roles[] = {NS_ROLE_TEST, NS_ROLE_VALIDATION};
    for (int k = 0; k < 2; k++) {
        *before = score_error(&a->before[roles[k]]);
        *after = score_error(&a->after[roles[k]]);
        if (*after > GROWTH * *before) return nsi_role_name(roles[k]);
    }
    return NULL;
}

// ---- reasons -------------------------------------------------------------------------------------

// "Most likely: a; b" at the end of a failure.
typedef struct reason_list {
    nsi_text_builder* text;
    uint32_t count;
} reason_list;

static void begin_reason(reason_list* l) {
    nsi_text_add(l->text, "%s(%u) ", l->count > 0 ? "; " : " Most likely: ", l->count + 1);
    l->count++;
}

static void add_reasons(nsi_text_builder* text, const nsi_result* a,
                        const nsi_verdict_evidence* evidence) {
    reason_list reasons = {.text = text};

    // What kept the search from going on comes first.
    if (evidence->refused > 0) {
        begin_reason(&reasons);
        nsi_text_add(text, "%u steps were refused because ", evidence->refused);
        nsi_format_add(text, evidence->refused_name);
        nsi_text_add(text, " would not be physical or in its range: free what it depends on, too");
    }
    for (uint32_t k = 0; k < a->estimates.count; k++) {
        const ns_estimate* e = &a->estimates.data[k];
        if (e->verdict != NS_VERDICT_AT_LOWER && e->verdict != NS_VERDICT_AT_UPPER) continue;
        begin_reason(&reasons);
        nsi_format_add(text, e->name ? e->name : "");
        nsi_text_add(text, " is at its bound: widen it");
        break;
    }
    if (evidence->limits) {
        begin_reason(&reasons);
        nsi_text_add(text, "the recording leaves joint limits (%s): are units and signs right?",
                     evidence->limits);
    }
    if (evidence->stuck && !evidence->scored) {
        begin_reason(&reasons);
        nsi_text_add(text, "no step lowered the loss from this start: give other initial values,"
                           " or a `search`");
    }
    if (evidence->whole && !evidence->scored) {
        begin_reason(&reasons);
        nsi_text_add(text, "a local minimum, of which simulations of whole recordings have many:"
                           " leave `window` out, or give a list such as [10, 25, 50]");
    }

    // What is always possible.
    begin_reason(&reasons);
    nsi_text_add(text, "the model lacks something: `neuralsim discover` looks for it");
    begin_reason(&reasons);
    nsi_text_add(text, "the data is not what the map says: units, signs, delays, controls");
    nsi_text_add(text, evidence->scored ? "." : ". Standard errors are too small then.");
}

static uint32_t count_lost(const nsi_result* a) {
    uint32_t lost = 0;
    for (int role = 0; role < NS_ROLE_COUNT; role++) lost += a->after[role].lost;
    return lost;
}

// Of a model that is only scored: it is what it is, and nothing failed.
static void add_unexplained(nsi_text_builder* text, const nsi_result* a,
                            const nsi_verdict_evidence* evidence) {
    if (is_misfit(a)) {
        nsi_text_add(text,
                     "The model does not explain the data: residuals are %s times %s, and %s times"
                     " is the limit. Nothing was fitted, as no stage has iterations.",
                     nsi_format_short(a->sigma, 3).text,
                     a->noise_known ? "the noise given in the data map" : "how far the data goes",
                     nsi_format_short(a->noise_known ? MISFIT : UNEXPLAINED, 2).text);
        add_reasons(text, a, evidence);
    } else if (count_lost(a) > 0) {
        nsi_text_add(text,
                     "The model does not explain the data: %u simulations of it do not stay"
                     " finite. Take a smaller time step, or shorter horizons.",
                     count_lost(a));
    }
}

static void add_failure(nsi_text_builder* text, const nsi_result* a,
                        const nsi_verdict_evidence* evidence) {
    if (is_misfit(a)) {
        nsi_text_add(text, "The fit failed: residuals are %s times %s.",
                     nsi_format_short(a->sigma, 2).text,
                     a->noise_known ? "the noise given in the data map" : "how far the data goes");
        add_reasons(text, a, evidence);
    } else if (count_lost(a) > 0) {
        nsi_text_add(text, "The fit failed: simulations of the fitted model do not stay finite."
                           " Take a smaller time step, or shorter horizons.");
    }
}

// ---- verdicts ------------------------------------------------------------------------------------

// Of an estimate that is ok by itself.
static ns_verdict judge_ok(const nsi_result* a, const nsi_verdict_evidence* evidence) {
    double before, after;
    if (is_misfit(a)) return NS_VERDICT_MISFIT;
    if (evidence->refused > 0) return NS_VERDICT_REFUSED;
    if (evidence->limits) return NS_VERDICT_LIMITS;
    return find_growth(a, &before, &after) ? NS_VERDICT_TEST : NS_VERDICT_OK;
}

// Notes on what is no failure, but leaves no estimate ok.
static void add_doubts(nsi_text_builder* text, const nsi_result* a,
                       const nsi_verdict_evidence* evidence) {
    double before, after;
    const char* grown = find_growth(a, &before, &after);
    if (evidence->scored) add_unexplained(text, a, evidence);
    if (evidence->limits && text->text.count == 0) { // else it is among the reasons
        nsi_text_add(text,
                     "The recording leaves joint limits (%s): the simulation pushes back there."
                     " Correct the limits, the units or the signs, or leave these stretches out.",
                     evidence->limits);
    }
    if (grown) {
        nsi_text_add(text,
                     "%sThe error on %s data grew, from %s to %s: the fit does not carry over.",
                     text->text.count > 0 ? " " : "", grown, nsi_format(before, 3).text,
                     nsi_format(after, 3).text);
    }
}

// The text as one of the result's own; "" is none.
static ns_status keep_verdict_text(nsi_result* a, nsi_text_builder* text, const char** out,
                                   ns_error* error) {
    if (text->text.count > 0 && !text->failed) {
        *out = nsi_arena_string(&a->arena, text->text.data, text->text.count);
    }
    bool failed = text->failed || (text->text.count > 0 && !*out);
    nsi_array_free(&text->allocator, &text->text);
    return failed ? nsi_fail_nomem(error) : NS_OK;
}

ns_status nsi_result_judge(nsi_result* a, const nsi_verdict_evidence* evidence, ns_error* error) {
    nsi_text_builder failure = {.allocator = a->allocator}, doubts = {.allocator = a->allocator};
    a->failure = a->doubts = NULL;
    if (!evidence->scored) add_failure(&failure, a, evidence);
    ns_status status = keep_verdict_text(a, &failure, &a->failure, error);
    if (status == NS_OK) {
        add_doubts(&doubts, a, evidence);
        status = keep_verdict_text(a, &doubts, &a->doubts, error);
    }

    // Reasons look at verdicts of their own, so these change last.
    for (uint32_t k = 0; k < a->estimates.count && status == NS_OK; k++) {
        ns_estimate* e = &a->estimates.data[k];
        if (e->verdict == NS_VERDICT_OK) e->verdict = judge_ok(a, evidence);
    }
    return status;
}
