// An answer for a terminal: plain text, at most 100 columns wide.

#include "fit/result_words.h"

#include <math.h>
#include <stdio.h>

enum {
    COLUMNS = 100,
    LABEL = 10, // "citation  "
    MOST_ROWS = 60,
    NAME = 29, // columns of the table of parameters, two apart; with the verdict 98 in all
    UNIT = 9,
    START = 12,
    ESTIMATE = 14,
    ERROR = 10,
    FORMULA = 38, // of the table of coefficients; 98 in all
    COEFFICIENT = 16,
    PHASE = 34
};

// ---- cells and lines -------------------------------------------------------------------------

static void add_character(nsi_text_builder* b, const char* text, size_t size, uint32_t code) {
    if (code == 0xfffd || code == ' ') {
        nsi_text_add(b, code == ' ' ? " " : "?");
    } else {
        nsi_text_add_bytes(b, text, size);
    }
}

static void pad(nsi_text_builder* b, uint32_t from, uint32_t to) {
    if (from < to) nsi_text_add(b, "%*s", (int)(to - from), "");
}

// Without blanks at its end.
static void end_line(nsi_text_builder* b) {
    while (b->text.count > 0 && b->text.data[b->text.count - 1] == ' ') b->text.count--;
    nsi_text_add(b, "\n");
}

static void add_left(nsi_text_builder* b, const char* text, uint32_t width) {
    pad(b, nsi_format_clipped(b, text ? text : "", width), width);
}

static void add_right(nsi_text_builder* b, const char* text, uint32_t width) {
    nsi_text_add(b, "  %*s", (int)width, text); // ASCII
}

// A paragraph, broken between words. It starts in column `first`, which its other lines keep.
static void add_wrapped(nsi_text_builder* b, const char* text, size_t length, uint32_t first) {
    const char* end = text + length;
    uint32_t column = first, code;
    while (text < end) {
        const char *word = text, *stop = text;
        uint32_t width = 0;
        while (text < end) { // to the end of the word and over the space behind it
            text += nsi_format_next(text, &code);
            if (code == ' ') break;
            width += nsi_format_columns(code);
            stop = text;
        }
        if (stop == word) continue;
        if (column > first) {
            bool fits = column + 1 + width <= COLUMNS;
            nsi_text_add(b, "%s", fits ? " " : "\n");
            if (!fits) pad(b, 0, first);
            column = fits ? column + 1 : first;
        }
        for (size_t size; word < stop; word += size) {
            size = nsi_format_next(word, &code);
            if (column + nsi_format_columns(code) > COLUMNS) { // a word longer than a line
                nsi_text_add(b, "\n");
                pad(b, 0, first);
                column = first;
            }
            add_character(b, word, size, code);
            column += nsi_format_columns(code);
        }
    }
    nsi_text_add(b, "\n");
}

static void add_field(nsi_text_builder* b, const char* label, const char* text) {
    if (!text || !*text) return;
    nsi_text_add(b, "%-*s", LABEL, label);
    add_wrapped(b, text, strlen(text), LABEL);
}

static void add_item(nsi_text_builder* b, const char* text, size_t length) {
    nsi_text_add(b, "- ");
    add_wrapped(b, text, length, 2);
}

// ---- parameters ------------------------------------------------------------------------------

static uint32_t longest_name(const nsi_result* answer, uint32_t rows) {
    uint32_t longest = 9; // "parameter"
    for (uint32_t k = 0; k < rows; k++) {
        const char* name = answer->estimates.data[k].name;
        uint32_t width = name ? nsi_format_width(name) : 0;
        if (width > longest) longest = width;
    }
    return longest < NAME ? longest : NAME;
}

static void add_parameters(nsi_text_builder* b, const nsi_result* answer) {
    uint32_t count = answer->estimates.count, rows = count < MOST_ROWS ? count : MOST_ROWS;
    if (count == 0) return;
    uint32_t name = longest_name(answer, rows);
    nsi_text_add(b, "\n%-*s  %-*s", (int)name, "parameter", UNIT, "unit");
    add_right(b, "start", START);
    add_right(b, "estimate", ESTIMATE);
    add_right(b, "+-", ERROR);
    nsi_text_add(b, "\n");
    for (uint32_t k = 0; k < rows; k++) {
        const nsi_estimate* e = &answer->estimates.data[k];
        double error = answer->correlation ? e->standard_error : NAN;
        const char* verdict = nsi_result_verdict(answer, k);
        add_left(b, e->name, name);
        nsi_text_add(b, "  ");
        add_left(b, e->unit, UNIT);
        add_right(b, nsi_format_short(e->start, 5).text, START);
        add_right(b, nsi_format_value(e->value, error).text, ESTIMATE);
        add_right(b, nsi_format_error(e->value, error).text, ERROR);
        nsi_text_add(b, "  %s", verdict ? verdict : "");
        end_line(b);
    }
    if (count > rows) nsi_text_add(b, "%u more parameters are in the JSON.\n", count - rows);
    if (answer->nweight > 0) {
        nsi_text_add(b, "%u weights of networks were fitted too.\n", answer->nweight);
    }
    if (answer->nresidual > 0) {
        nsi_text_add(b, "%u residuals of standard deviation %s, %s.\n", answer->nresidual,
                     nsi_format(answer->sigma, 3).text, nsi_result_residual_unit(answer));
    }
}

static void add_coefficients(nsi_text_builder* b, const nsi_result* answer) {
    uint32_t count = answer->coefficients.count, rows = count < MOST_ROWS ? count : MOST_ROWS;
    if (count == 0) return;
    uint32_t set = 7; // "formula"
    for (uint32_t k = 0; k < rows; k++) {
        const char* name = answer->coefficients.data[k].set;
        uint32_t width = name ? nsi_format_width(name) : 0;
        if (width > set) set = width;
    }
    if (set > FORMULA) set = FORMULA;
    nsi_text_add(b, "\n%-*s  %-*s", (int)set, "formula", COEFFICIENT, "coefficient");
    add_right(b, "start", START);
    add_right(b, "estimate", ESTIMATE);
    add_right(b, "+-", ERROR);
    nsi_text_add(b, "\n");
    for (uint32_t k = 0; k < rows; k++) {
        const nsi_fitted_coefficient* c = &answer->coefficients.data[k];
        add_left(b, c->set, set);
        nsi_text_add(b, "  ");
        add_left(b, c->name, COEFFICIENT);
        add_right(b, nsi_format_short(c->start, 5).text, START);
        add_right(b, nsi_format_value(c->value, c->standard_error).text, ESTIMATE);
        add_right(b, nsi_format_error(c->value, c->standard_error).text, ERROR);
        end_line(b);
    }
    if (count > rows) nsi_text_add(b, "%u more coefficients are in the JSON.\n", count - rows);
}

static void add_findings(nsi_text_builder* b, const nsi_result* answer) {
    nsi_text_builder lines = {.allocator = b->allocator};
    nsi_result_diagnostics(&lines, answer);
    if (lines.failed) b->failed = true;
    if (lines.text.count > 0 && !lines.failed) nsi_text_add(b, "\n");
    const char *at = lines.text.data, *end = at ? at + lines.text.count : NULL;
    while (!lines.failed && at < end) {
        const char* stop = memchr(at, '\n', (size_t)(end - at));
        add_item(b, at, (size_t)(stop - at));
        at = stop + 1;
    }
    nsi_array_free(&lines.allocator, &lines.text);
}

// ---- scores ----------------------------------------------------------------------------------

static void add_change(nsi_text_builder* b, double before, double after) {
    nsi_text_add(b, "  %14s -> %-10s", nsi_format(before, 3).text, nsi_format(after, 3).text);
}

static void add_score(nsi_text_builder* b, const nsi_result* answer, nsi_role role) {
    const nsi_score *before = &answer->before[role], *after = &answer->after[role];
    const nsi_score* longer = after->nhorizon > 0 ? after : before;
    bool had = before->windows > 0, has = after->windows > 0;
    for (uint32_t k = 0; k < longer->nhorizon; k++) {
        const nsi_horizon_error none = {.pooled = NAN, .median = NAN};
        nsi_horizon_error was = k < before->nhorizon ? before->horizons[k] : none;
        nsi_horizon_error is = k < after->nhorizon ? after->horizons[k] : none;
        nsi_text_add(b, "%-10s  %8s s  %7u", k == 0 ? nsi_role_name(role) : "",
                     nsi_format_short(longer->horizons[k].seconds, 3).text,
                     longer->horizons[k].windows);
        add_change(b, was.pooled, is.pooled);
        add_change(b, was.median, is.median);
        end_line(b);
    }
    for (uint32_t k = 0; k < after->nmeasure; k++) {
        const nsi_measured *is = &after->measures[k],
                           *was = k < before->nmeasure ? &before->measures[k] : NULL;
        char name[100];
        snprintf(name, sizeof name, "%s%s%s", is->name, *is->unit ? ", " : "", is->unit);
        nsi_text_add(b, "%-10s  ", longer->nhorizon == 0 && k == 0 ? nsi_role_name(role) : "");
        uint32_t used = nsi_format_clipped(b, name, 19);
        nsi_text_add(b, "%*s", 19 - (int)used, "");
        add_change(b, was ? was->mean : NAN, is->mean);
        add_change(b, was ? was->median : NAN, is->median);
        end_line(b);
    }
    static const char* const labels[] = {"rms / scale", "rmse of q", "rmse of qd"};
    const double old[] = {before->loss, before->rmse_q, before->rmse_qd};
    const double new[] = {after->loss, after->rmse_q, after->rmse_qd};
    for (int k = 0; k < 3; k++) {
        double was = had ? old[k] : NAN, is = has ? new[k] : NAN;
        if (isnan(was) && isnan(is)) continue;
        bool first =
            longer->nhorizon + after->nmeasure == 0 && k == 0; // otherwise the role stands above
        nsi_text_add(b, "%-10s  %-19s", first ? nsi_role_name(role) : "", labels[k]);
        add_change(b, was, is);
        end_line(b);
    }
}

static void add_scores(nsi_text_builder* b, const nsi_result* answer) {
    bool any = false;
    for (int role = 0; role < NSI_ROLES; role++) {
        if (answer->before[role].windows == 0 && answer->after[role].windows == 0) continue;
        if (!any) {
            nsi_text_add(b, "\n%-10s  %10s  %7s  %14s -> %-10s  %14s -> after\n", "error",
                         "horizon", "number", "all, before", "after", "median, before");
        }
        any = true;
        add_score(b, answer, (nsi_role)role);
    }
}

// ---- course ----------------------------------------------------------------------------------

static void add_phases(nsi_text_builder* b, const nsi_result* answer) {
    if (answer->phases.count == 0) return;
    nsi_text_add(b, "\n%-*s  %10s  %11s  %9s  %10s  end\n", PHASE, "phase", "iterations",
                 "evaluations", "seconds", "loss");
    for (uint32_t k = 0; k < answer->phases.count; k++) {
        const nsi_phase* phase = &answer->phases.data[k];
        add_left(b, phase->name, PHASE);
        nsi_text_add(b, "  %10u  %11u", phase->iterations, phase->evaluations);
        add_right(b, nsi_format(phase->seconds, 3).text, 9);
        add_right(b, nsi_format(phase->value, 4).text, 10);
        nsi_text_add(b, "  ");
        nsi_format_clipped(b, phase->finish ? phase->finish : "", 12);
        end_line(b);
    }
    nsi_text_add(b, "%s s in all\n", nsi_format(answer->seconds, 3).text);
}

static void add_notes(nsi_text_builder* b, const nsi_result* answer) {
    if (answer->notes.count > 0) nsi_text_add(b, "\nNotes\n");
    for (uint32_t k = 0; k < answer->notes.count; k++) {
        const char* note = answer->notes.data[k] ? answer->notes.data[k] : "";
        add_item(b, note, strlen(note));
    }
}

ns_status nsi_result_text(const nsi_result* answer, ns_text* out, ns_error* error) {
    nsi_text_builder b = {.allocator = answer->allocator};
    const char* title = answer->title && *answer->title ? answer->title : "Fit";
    add_wrapped(&b, title, strlen(title), 0);
    add_field(&b, "model", answer->model);
    add_field(&b, "data", answer->treatment);
    add_field(&b, "setting", answer->setting);
    add_field(&b, "citation", answer->citation);
    add_parameters(&b, answer);
    add_coefficients(&b, answer);
    add_findings(&b, answer);
    add_scores(&b, answer);
    add_phases(&b, answer);
    add_notes(&b, answer);
    return nsi_text_finish(&b, out, error);
}
