// The sentences of an answer.

#include "fit/result_words.h"

#include <math.h>

enum {
    MOST_NAMES = 12,     // in one sentence
    MOST_DIRECTIONS = 8, // of each kind
    MOST_PAIRS = 8
};

static const double STRONG = 0.95; // correlation

// ---- lists -----------------------------------------------------------------------------------

// Items after the first begin with ", "; those past `most` are only counted.
typedef struct list {
    nsi_text_builder* out;
    uint32_t count, most;
} list;

static bool next_item(list* l) {
    if (l->count++ >= l->most) return false;
    if (l->count > 1) nsi_text_add(l->out, ", ");
    return true;
}

static void end_list(const list* l) {
    if (l->count > l->most) nsi_text_add(l->out, " and %u more", l->count - l->most);
}

static const char* name_of(const nsi_result* answer, uint32_t estimate) {
    const char* name = answer->estimates.data[estimate].name;
    return name ? name : "";
}

static uint32_t count_verdict(const nsi_result* answer, nsi_verdict verdict) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < answer->estimates.count; k++) {
        count += answer->estimates.data[k].verdict == verdict;
    }
    return count;
}

// ---- parameters ------------------------------------------------------------------------------

static void add_no_effect(nsi_text_builder* out, const nsi_result* answer) {
    if (count_verdict(answer, NSI_VERDICT_NO_EFFECT) == 0) return;
    nsi_text_add(out, "No effect on the data: ");
    list names = {.out = out, .most = MOST_NAMES};
    for (uint32_t k = 0; k < answer->estimates.count; k++) {
        if (answer->estimates.data[k].verdict != NSI_VERDICT_NO_EFFECT) continue;
        if (next_item(&names)) nsi_format_add(out, name_of(answer, k));
    }
    end_list(&names);
    nsi_text_add(out, ". Fix %s, or record a motion in which %s.\n",
                 names.count == 1 ? "it" : "them", names.count == 1 ? "it matters" : "they matter");
}

// Residuals far above the noise: what follows from them is not worth much.
static void add_misfit(nsi_text_builder* out, const nsi_result* answer) {
    if (!answer->noise_known || !(answer->sigma > 3.0)) return;
    nsi_text_add(
        out,
        "Residuals are %s times the noise that the map gives: the model lacks something, or the "
        "fit is stuck. Standard errors are too small then.\n",
        nsi_format_short(answer->sigma, 2).text);
}

static void add_bounds(nsi_text_builder* out, const nsi_result* answer, nsi_verdict verdict) {
    if (count_verdict(answer, verdict) == 0) return;
    bool lower = verdict == NSI_VERDICT_AT_LOWER;
    nsi_text_add(out, "Ended at the %s bound: ", lower ? "lower" : "upper");
    list names = {.out = out, .most = MOST_NAMES};
    for (uint32_t k = 0; k < answer->estimates.count; k++) {
        const nsi_estimate* e = &answer->estimates.data[k];
        if (e->verdict != verdict || !next_item(&names)) continue;
        nsi_format_add(out, name_of(answer, k));
        nsi_text_add(out, " (%s", nsi_format_short(lower ? e->lower : e->upper, 6).text);
        if (e->unit && *e->unit) nsi_text_add(out, " ");
        nsi_format_add(out, e->unit);
        nsi_text_add(out, ")");
    }
    end_list(&names);
    nsi_text_add(out,
                 ". The data asks for %s: widen the range if that is possible, or look for what "
                 "the model lacks. The standard errors do not know of bounds.\n",
                 lower ? "less" : "more");
}

// ---- directions ------------------------------------------------------------------------------

static uint32_t count_changes(const nsi_result* answer, const nsi_direction* direction) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < answer->estimates.count; k++) count += direction->change[k] != 0.0;
    return count;
}

static void add_changes(nsi_text_builder* out, const nsi_result* answer,
                        const nsi_direction* direction) {
    list changes = {.out = out, .most = MOST_NAMES};
    for (uint32_t k = 0; k < answer->estimates.count; k++) {
        double change = direction->change[k];
        if (change == 0.0 || !next_item(&changes)) continue;
        nsi_format_add(out, name_of(answer, k));
        nsi_text_add(out, " %s%s %%", change > 0.0 ? "+" : "-",
                     nsi_format_short(fabs(change), 2).text);
    }
    end_list(&changes);
}

static void add_null_direction(nsi_text_builder* out, const nsi_result* answer,
                               const nsi_direction* direction) {
    nsi_text_add(out, "The data does not determine: ");
    if (count_changes(answer, direction) == 1) {
        for (uint32_t k = 0; k < answer->estimates.count; k++) {
            if (direction->change[k] != 0.0) nsi_format_add(out, name_of(answer, k));
        }
        nsi_text_add(out, " (the motion hardly changes). Fix it.\n");
        return;
    }
    add_changes(out, answer, direction);
    nsi_text_add(out, " together (the motion does not change). Fix one of them.\n");
}

// A direction of one parameter alone is what its verdict says already.
static bool worth_saying(const nsi_result* answer, const nsi_direction* direction) {
    return direction->null || count_changes(answer, direction) > 1;
}

static void add_directions(nsi_text_builder* out, const nsi_result* answer, bool null) {
    uint32_t said = 0, more = 0;
    for (uint32_t k = 0; k < answer->directions.count; k++) {
        const nsi_direction* direction = &answer->directions.data[k];
        if (direction->null != null || !worth_saying(answer, direction)) continue;
        if (said == MOST_DIRECTIONS) {
            more++;
            continue;
        }
        said++;
        if (null) {
            add_null_direction(out, answer, direction);
            continue;
        }
        nsi_text_add(out, "Poorly determined together: ");
        add_changes(out, answer, direction);
        nsi_text_add(out, "; %s times this is one standard deviation.\n",
                     nsi_format(100.0 * direction->error, 2).text);
    }
    if (more > 0) {
        nsi_text_add(out, "%u more combinations are %s.\n", more,
                     null ? "not determined" : "poorly determined");
    }
}

// ---- correlation -----------------------------------------------------------------------------

typedef struct pair {
    uint32_t a, b;
    double correlation;
} pair;

// The strongest pairs in order; returns how many there are in all.
static uint32_t find_pairs(const nsi_result* answer, pair strongest[MOST_PAIRS]) {
    uint32_t n = answer->estimates.count, count = 0;
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = a + 1; b < n; b++) {
            double c = answer->correlation[(size_t)a * n + b];
            if (!(fabs(c) > STRONG)) continue;
            uint32_t at = count < MOST_PAIRS ? count : MOST_PAIRS;
            count++;
            for (; at > 0 && fabs(strongest[at - 1].correlation) < fabs(c); at--) {
                if (at < MOST_PAIRS) strongest[at] = strongest[at - 1];
            }
            if (at < MOST_PAIRS) strongest[at] = (pair){a, b, c};
        }
    }
    return count;
}

// Of several combinations each has a parameter that is in no other: without these, the rest is
// determined.
static void add_what_to_fix(nsi_text_builder* out, const nsi_result* answer) {
    uint32_t n = answer->estimates.count, count = 0;
    for (uint32_t d = 0; d < answer->directions.count; d++)
        count += answer->directions.data[d].null;
    if (count < 2) return;
    nsi_text_add(out, "To determine the others, fix these %u: ", count);
    list names = {.out = out, .most = MOST_NAMES};
    for (uint32_t d = 0; d < answer->directions.count; d++) {
        const nsi_direction* direction = &answer->directions.data[d];
        for (uint32_t k = 0; direction->null && k < n; k++) {
            bool alone = fabs(direction->change[k]) > 0.5;
            for (uint32_t other = 0; other < answer->directions.count && alone; other++) {
                const nsi_direction* o = &answer->directions.data[other];
                alone = other == d || !o->null || o->change[k] == 0.0;
            }
            if (!alone) continue;
            if (next_item(&names)) nsi_format_add(out, name_of(answer, k));
            break;
        }
    }
    end_list(&names);
    nsi_text_add(out, ".\n");
}

static void add_correlation(nsi_text_builder* out, const nsi_result* answer) {
    pair strongest[MOST_PAIRS];
    uint32_t count = find_pairs(answer, strongest);
    if (count == 0) return;
    nsi_text_add(out, "Strongly correlated: ");
    list pairs = {.out = out, .most = MOST_PAIRS};
    for (uint32_t k = 0; k < count; k++) {
        if (!next_item(&pairs)) continue;
        nsi_format_add(out, name_of(answer, strongest[k].a));
        nsi_text_add(out, " and ");
        nsi_format_add(out, name_of(answer, strongest[k].b));
        nsi_text_add(out, " (%s)", nsi_format(strongest[k].correlation, 3).text);
    }
    end_list(&pairs);
    nsi_text_add(out, ". An error of one comes with an error of the other.\n");
}

// ---- all -------------------------------------------------------------------------------------

static void add_lost(nsi_text_builder* out, const nsi_result* answer) {
    for (int role = 0; role < NSI_ROLES; role++) {
        const nsi_score* score = &answer->after[role];
        if (score->lost == 0) continue;
        nsi_text_add(out, "%s: %u of %u windows do not stay finite in simulation.\n",
                     nsi_role_name((nsi_role)role), score->lost, score->windows);
    }
}

void nsi_result_diagnostics(nsi_text_builder* out, const nsi_result* answer) {
    if (!answer->complete) {
        nsi_text_add(out, "The fit was stopped before its end; --resume goes on from there.\n");
    }
    add_misfit(out, answer);
    if (answer->correlation) {
        add_no_effect(out, answer);
        add_directions(out, answer, true);
        add_what_to_fix(out, answer);
        add_directions(out, answer, false);
        add_bounds(out, answer, NSI_VERDICT_AT_LOWER);
        add_bounds(out, answer, NSI_VERDICT_AT_UPPER);
        add_correlation(out, answer);
    }
    add_lost(out, answer);
}
