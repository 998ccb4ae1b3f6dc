// Diagnostics: sentences on what the data cannot identify, and what should not be trusted.

#include "fit/fit_report.h"

#include <math.h>

enum {
    MAX_NAMES = 12,     // in one sentence
    MAX_DIRECTIONS = 8, // of each kind
    MAX_PAIRS = 8
};

static const double STRONG = 0.95; // correlation

// ---- sentences -----------------------------------------------------------------------------------

// One sentence after the other becomes a note of the section.
typedef struct diagnosis {
    const nsi_result* result;
    ns_report* report;
    ns_section* section; // NULL: nothing was said yet
    nsi_text_builder text;
} diagnosis;

// End the sentence.
static void diagnosis_end(diagnosis* d, ns_note_level level) {
    nsi_text_add_bytes(&d->text, "", 1);
    if (!d->section) d->section = ns_report_add_section(d->report, "Diagnostics");
    if (!d->text.failed) ns_section_add_note(d->section, level, d->text.text.data);
    d->text.text.count = 0;
}

// A list in a sentence: items after the first begin with ", "; those past `max` are only counted.
typedef struct name_list {
    nsi_text_builder* out;
    uint32_t count, max;
} name_list;

static bool name_list_next(name_list* l) {
    if (l->count++ >= l->max) return false;
    if (l->count > 1) nsi_text_add(l->out, ", ");
    return true;
}

static void name_list_end(const name_list* l) {
    if (l->count > l->max) nsi_text_add(l->out, " and %u more", l->count - l->max);
}

static const char* estimate_name(const nsi_result* result, uint32_t estimate) {
    const char* name = result->estimates.data[estimate].name;
    return name ? name : "";
}

static uint32_t count_verdict(const nsi_result* result, ns_verdict verdict) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < result->estimates.count; k++) {
        count += result->estimates.data[k].verdict == verdict;
    }
    return count;
}

// ---- parameters ------------------------------------------------------------------------------

static void diagnose_no_effect(diagnosis* d) {
    const nsi_result* a = d->result;
    if (count_verdict(a, NS_VERDICT_NO_EFFECT) == 0) return;
    nsi_text_add(&d->text, "No effect on the data: ");
    name_list names = {.out = &d->text, .max = MAX_NAMES};
    for (uint32_t k = 0; k < a->estimates.count; k++) {
        if (a->estimates.data[k].verdict != NS_VERDICT_NO_EFFECT) continue;
        if (name_list_next(&names)) nsi_format_add(&d->text, estimate_name(a, k));
    }
    name_list_end(&names);
    nsi_text_add(&d->text, ". Fix %s, or record a motion in which %s.",
                 names.count == 1 ? "it" : "them", names.count == 1 ? "it matters" : "they matter");
    diagnosis_end(d, NS_NOTE_WARNING);
}

// Reasons why the whole fit failed. The verdicts on single estimates mean little then.
static void diagnose_failure(diagnosis* d) {
    if (d->result->failure) {
        nsi_text_add(&d->text, "%s", d->result->failure);
        diagnosis_end(d, NS_NOTE_PROBLEM);
    }
    if (!d->result->doubts) return;
    nsi_text_add(&d->text, "%s", d->result->doubts);
    diagnosis_end(d, NS_NOTE_WARNING);
}

static void diagnose_bounds(diagnosis* d, ns_verdict verdict) {
    const nsi_result* a = d->result;
    if (count_verdict(a, verdict) == 0) return;
    bool lower = verdict == NS_VERDICT_AT_LOWER;
    nsi_text_add(&d->text, "At the %s bound: ", lower ? "lower" : "upper");
    name_list names = {.out = &d->text, .max = MAX_NAMES};
    for (uint32_t k = 0; k < a->estimates.count; k++) {
        const ns_estimate* e = &a->estimates.data[k];
        if (e->verdict != verdict || !name_list_next(&names)) continue;
        nsi_format_add(&d->text, estimate_name(a, k));
        nsi_text_add(&d->text, " (%s", nsi_format_short(lower ? e->lower : e->upper, 6).text);
        if (e->unit && *e->unit) nsi_text_add(&d->text, " ");
        nsi_format_add(&d->text, e->unit);
        nsi_text_add(&d->text, ")");
    }
    name_list_end(&names);
    nsi_text_add(&d->text,
                 ". The data favours a %s value: widen the range if that is possible, or look for "
                 "what the model lacks. Standard errors ignore bounds.",
                 lower ? "smaller" : "larger");
    diagnosis_end(d, NS_NOTE_WARNING);
}

// ---- directions ------------------------------------------------------------------------------

static uint32_t count_changes(const nsi_result* a, const ns_parameter_direction* direction) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < a->estimates.count; k++) count += direction->change[k] != 0.0;
    return count;
}

static void add_changes(nsi_text_builder* out, const nsi_result* a,
                        const ns_parameter_direction* direction) {
    name_list changes = {.out = out, .max = MAX_NAMES};
    for (uint32_t k = 0; k < a->estimates.count; k++) {
        double change = direction->change[k];
        if (change == 0.0 || !name_list_next(&changes)) continue;
        nsi_format_add(out, estimate_name(a, k));
        nsi_text_add(out, " %s%s %%", change > 0.0 ? "+" : "-",
                     nsi_format_short(fabs(change), 2).text);
    }
    name_list_end(&changes);
}

static void diagnose_null_direction(diagnosis* d, const ns_parameter_direction* direction) {
    const nsi_result* a = d->result;
    if (count_changes(a, direction) == 1) {
        nsi_text_add(&d->text, "The data cannot identify ");
        for (uint32_t k = 0; k < a->estimates.count; k++) {
            if (direction->change[k] != 0.0) nsi_format_add(&d->text, estimate_name(a, k));
        }
        nsi_text_add(&d->text, " (the motion hardly changes). Fix it.");
    } else {
        nsi_text_add(&d->text, "The data cannot identify this combination: ");
        add_changes(&d->text, a, direction);
        nsi_text_add(&d->text, " (the motion does not change). Fix one of them.");
    }
    diagnosis_end(d, NS_NOTE_WARNING);
}

static void diagnose_poor_direction(diagnosis* d, const ns_parameter_direction* direction) {
    nsi_text_add(&d->text, "Poorly identified combination: ");
    add_changes(&d->text, d->result, direction);
    nsi_text_add(&d->text, ". It is uncertain by +-%s %%.",
                 nsi_format(100.0 * direction->error, 2).text);
    diagnosis_end(d, NS_NOTE_WARNING);
}

// A direction of one parameter alone is what its verdict says already.
static bool direction_is_told(const nsi_result* a, const ns_parameter_direction* direction) {
    return direction->null || count_changes(a, direction) > 1;
}

static void diagnose_directions(diagnosis* d, bool null) {
    const nsi_result* a = d->result;
    uint32_t said = 0, more = 0;
    for (uint32_t k = 0; k < a->directions.count; k++) {
        const ns_parameter_direction* direction = &a->directions.data[k];
        if (direction->null != null || !direction_is_told(a, direction)) continue;
        if (said == MAX_DIRECTIONS) {
            more++;
            continue;
        }
        said++;
        if (null) diagnose_null_direction(d, direction);
        if (!null) diagnose_poor_direction(d, direction);
    }
    if (more == 0) return;
    nsi_text_add(&d->text, "%u more combinations are %s.", more,
                 null ? "not identifiable" : "poorly identified");
    diagnosis_end(d, NS_NOTE_WARNING);
}

// Of several combinations each has a parameter that is in no other: without these, the rest is
// identifiable.
static void diagnose_what_to_fix(diagnosis* d) {
    const nsi_result* a = d->result;
    uint32_t n = a->estimates.count, count = 0;
    for (uint32_t k = 0; k < a->directions.count; k++) count += a->directions.data[k].null;
    if (count < 2) return;

    nsi_text_add(&d->text, "Fix these %u to identify the others: ", count);
    name_list names = {.out = &d->text, .max = MAX_NAMES};
    for (uint32_t at = 0; at < a->directions.count; at++) {
        const ns_parameter_direction* direction = &a->directions.data[at];
        for (uint32_t k = 0; direction->null && k < n; k++) {
            bool alone = fabs(direction->change[k]) > 0.5;
            for (uint32_t other = 0; other < a->directions.count && alone; other++) {
                const ns_parameter_direction* o = &a->directions.data[other];
                alone = other == at || !o->null || o->change[k] == 0.0;
            }
            if (!alone) continue;
            if (name_list_next(&names)) nsi_format_add(&d->text, estimate_name(a, k));
            break;
        }
    }
    name_list_end(&names);
    nsi_text_add(&d->text, ".");
    diagnosis_end(d, NS_NOTE_WARNING);
}

// ---- correlation -----------------------------------------------------------------------------

typedef struct correlated_pair {
    uint32_t a, b;
    double correlation;
} correlated_pair;

// The strongest pairs in order; returns how many there are in all.
static uint32_t find_pairs(const nsi_result* result, correlated_pair strongest[MAX_PAIRS]) {
    uint32_t n = result->estimates.count, count = 0;
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = a + 1; b < n; b++) {
            double c = result->correlation[(size_t)a * n + b];
            if (!(fabs(c) > STRONG)) continue;
            uint32_t at = count < MAX_PAIRS ? count : MAX_PAIRS;
            count++;
            for (; at > 0 && fabs(strongest[at - 1].correlation) < fabs(c); at--) {
                if (at < MAX_PAIRS) strongest[at] = strongest[at - 1];
            }
            if (at < MAX_PAIRS) strongest[at] = (correlated_pair){a, b, c};
        }
    }
    return count;
}

static void diagnose_correlation(diagnosis* d) {
    const nsi_result* a = d->result;
    correlated_pair strongest[MAX_PAIRS];
    uint32_t count = find_pairs(a, strongest);
    if (count == 0) return;
    nsi_text_add(&d->text, "Strongly correlated: ");
    name_list pairs = {.out = &d->text, .max = MAX_PAIRS};
    for (uint32_t k = 0; k < count; k++) {
        if (!name_list_next(&pairs)) continue;
        nsi_format_add(&d->text, estimate_name(a, strongest[k].a));
        nsi_text_add(&d->text, " and ");
        nsi_format_add(&d->text, estimate_name(a, strongest[k].b));
        nsi_text_add(&d->text, " (%s)", nsi_format(strongest[k].correlation, 3).text);
    }
    name_list_end(&pairs);
    nsi_text_add(&d->text, ". An error in one comes with an error in the other.");
    diagnosis_end(d, NS_NOTE_INFO);
}

// ---- all -------------------------------------------------------------------------------------

static void diagnose_lost(diagnosis* d) {
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        const ns_score* score = &d->result->after[role];
        if (score->lost == 0) continue;
        nsi_text_add(&d->text, "%s: %u of %u windows do not stay finite in simulation.",
                     nsi_role_name((ns_data_role)role), score->lost, score->windows);
        diagnosis_end(d, NS_NOTE_PROBLEM);
    }
}

// Gradients that the last stage should not have followed.
static void diagnose_gradients(diagnosis* d) {
    if (!d->result->unreliable_gradients) return;
    nsi_text_add(&d->text, "Unreliable gradients: %s.", d->result->unreliable_gradients);
    diagnosis_end(d, NS_NOTE_WARNING);
}

void nsi_result_diagnose(const nsi_result* result, ns_report* report) {
    diagnosis d = {.result = result, .report = report, .text = {.allocator = result->allocator}};
    if (!result->complete) {
        nsi_text_add(&d.text, "The fit was stopped before its end; --resume continues it.");
        diagnosis_end(&d, NS_NOTE_PROBLEM);
    }
    diagnose_failure(&d);
    diagnose_gradients(&d);
    if (result->correlation) {
        diagnose_no_effect(&d);
        diagnose_directions(&d, true);
        diagnose_what_to_fix(&d);
        diagnose_directions(&d, false);
        diagnose_bounds(&d, NS_VERDICT_AT_LOWER);
        diagnose_bounds(&d, NS_VERDICT_AT_UPPER);
        diagnose_correlation(&d);
    }
    diagnose_lost(&d);
    if (d.text.failed) report->failed = true;
    nsi_array_free(&d.text.allocator, &d.text.text);
}
