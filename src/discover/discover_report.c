// The report of a discovery, and its record for programs.

#include "discover/discover_words.h"
#include "fit/result_words.h"
#include "neuralsim/json.h"
#include "report/report_data.h"

#include <math.h>

enum { MAX_RANKS = 15 }; // that are shown

// ---- record ------------------------------------------------------------------------------------

static void record_found(ns_json* j, const ns_discovery* d) {
    ns_json_open(j, "found", '[');
    for (uint32_t k = 0; k < d->found.count; k++) {
        const ns_discovered* f = &d->found.data[k];
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "kind",
                     f->parameter      ? "parameter"
                     : isnan(f->value) ? "network"
                                       : "formula");
        ns_json_text(j, "quantity", f->quantity);
        ns_json_text(j, "form", f->form);
        ns_json_text(j, "text", f->text);
        ns_json_number(j, "value", f->value);
        ns_json_number(j, "standard_error", f->standard_error);
        ns_json_number(j, "initial", f->start);
        ns_json_number(j, "shape", f->shape);
        ns_json_text(j, "verdict", ns_choice_name(&ns_verdicts, (int)f->verdict));
        ns_json_close(j);
    }
    ns_json_close(j);
}

static void record_moves(ns_json* j, const ns_discovery* d) {
    // Words of the file format, in the order of the kinds of steps.
    static const char* const kinds[] = {"enter", "swap", "leave"};
    const nsi_term* terms = d->library.terms.data;
    ns_json_open(j, "moves", '[');
    // One entry per step: what changed, in windows of which length.
    for (uint32_t k = 0; k < d->steps.count; k++) {
        const nsi_selection_step* m = &d->steps.data[k];
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "move", kinds[m->kind]);
        ns_json_text(j, "term", terms[m->term].name);
        if (m->replaced != NSI_NONE) ns_json_text(j, "instead_of", terms[m->replaced].name);
        ns_json_count(j, "windows", m->length);
        // Cost on training windows and on held-out windows.
        ns_json_number(j, "squares_before", m->before);
        ns_json_number(j, "squares_after", m->after);
        ns_json_number(j, "held_out_before", m->held_out_before);
        ns_json_number(j, "held_out_after", m->held_out_after);

        // Rivals: candidates with a similar cost, and whether the data can distinguish them.
        ns_json_open(j, "rivals", '[');
        for (uint32_t i = 0; i < m->nrival; i++) {
            ns_json_open(j, NULL, '{');
            ns_json_text(j, "term", terms[m->rivals[i].term].name);
            ns_json_number(j, "squares", m->rivals[i].squares);
            ns_json_bool(j, "indistinguishable", m->rivals[i].equal);
            ns_json_close(j);
        }
        ns_json_close(j);
        ns_json_close(j);
    }
    ns_json_close(j);
}

static ns_status make_record(const ns_discovery* d, ns_text* out, ns_error* error) {
    // Identity of the search, and whether it ran to the end.
    ns_json* j = ns_json_create(&d->allocator);
    ns_json_text(j, "title", d->fit->spec->title);
    ns_json_text(j, "model", d->fit->spec->model);
    ns_json_bool(j, "complete", !d->progress->stopped);

    // The result, and the notes on it.
    record_found(j, d);
    ns_json_open(j, "notes", '[');
    for (uint32_t k = 0; k < d->notes.count; k++) ns_json_text(j, NULL, d->notes.data[k].text);
    ns_json_close(j);

    nsi_data_warnings_record(&d->fit->data_warnings, j);

    // Ranking: share of the residual that each place can explain.
    ns_json_open(j, "ranking", '[');
    for (uint32_t k = 0; k < d->ranks.count; k++) {
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "quantity", d->ranks.data[k].quantity);
        ns_json_number(j, "share", d->ranks.data[k].share);
        ns_json_close(j);
    }
    ns_json_close(j);

    // Selection steps, then one entry per window length.
    record_moves(j, d);
    ns_json_open(j, "levels", '[');
    for (uint32_t k = 0; k < d->levels.count; k++) {
        const nsi_level* l = &d->levels.data[k];
        ns_json_open(j, NULL, '{');
        ns_json_count(j, "length", l->length);
        ns_json_count(j, "windows", l->windows);
        ns_json_count(j, "residuals", l->residuals);
        ns_json_number(j, "before", l->before);
        ns_json_number(j, "after", l->after);
        ns_json_close(j);
    }
    ns_json_close(j);

    // RMS residual before and after, on held-out windows and on each data set.
    ns_json_open(j, "held_out", '{');
    ns_json_number(j, "before", d->held_out[0]);
    ns_json_number(j, "after", d->held_out[1]);
    ns_json_close(j);
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        // Absent data sets have no entry.
        if (!d->fit->data[role]) continue;
        ns_json_open(j, nsi_role_name((ns_data_role)role), '{');
        ns_json_number(j, "before", d->score[role][0]);
        ns_json_number(j, "after", d->score[role][1]);
        ns_json_close(j);
    }

    // Noise level, the integrator's part, and the size of the search.
    ns_json_number(j, "noise", d->noise);
    ns_json_bool(j, "numerical", d->numerical);
    ns_json_count(j, "terms", d->ncandidate);
    ns_json_count(j, "without_effect", d->ninert);
    ns_json_count(j, "left_out", d->library.omitted);
    ns_json_number(j, "seconds", d->seconds);
    return ns_json_finish(j, out, error);
}

// ---- sections ----------------------------------------------------------------------------------

// "214 terms, 12 without effect; windows of 10, 25 samples; 2.1 s"
static void add_search_fact(ns_report* report, const ns_discovery* d) {
    nsi_text_builder b = {.allocator = d->allocator};
    nsi_text_add(&b, "%u terms, %u without effect", d->ncandidate + d->ninert, d->ninert);
    for (uint32_t k = 0; k < d->levels.count; k++) {
        nsi_text_add(&b, "%s%u", k > 0 ? ", " : "; windows of ", d->levels.data[k].length);
    }
    nsi_text_add(&b, "%s; %s s", d->levels.count > 0 ? " samples" : "",
                 nsi_format_short(d->seconds, 2).text);
    nsi_text_add_bytes(&b, "", 1);
    if (b.failed) report->failed = true;
    if (!b.failed) ns_report_add_fact(report, "search", b.text.data);
    nsi_array_free(&b.allocator, &b.text);
}

static void report_found(ns_report* report, const ns_discovery* d) {
    // Distinguish an interrupted search from an empty result.
    ns_section* section = ns_report_add_section(report, "What is missing");
    if (d->progress->stopped) {
        ns_section_add_note(section, NS_NOTE_PROBLEM,
                            "interrupted: this is what was found so far, not an answer");
    } else if (d->found.count == 0) {
        ns_section_add_note(section, NS_NOTE_TEXT,
                            "Nothing is missing that these recordings show.");
    }

    // Table of corrections, in the order of selection.
    const ns_report_column columns[] = {{.name = "correction"},
                                        {.name = "value", .format = NS_FORMAT_ESTIMATE},
                                        {.name = "was", .format = NS_FORMAT_SETTING, .digits = 6},
                                        {.name = "verdict"}};
    ns_report_table* table =
        d->found.count > 0 ? ns_section_add_table(section, "found", NULL, columns, 4) : NULL;
    for (uint32_t k = 0; k < d->found.count; k++) {
        const ns_discovered* f = &d->found.data[k];

        // A network has no single value, and a formula has no previous one.
        const ns_cell row[] = {ns_cell_text(f->text),
                               isnan(f->value) ? ns_cell_missing()
                                               : ns_cell_estimate(f->value, f->standard_error),
                               f->parameter ? ns_cell_number(f->start) : ns_cell_missing(),
                               ns_cell_verdict(ns_choice_name(&ns_verdicts, (int)f->verdict),
                                               f->verdict != NS_VERDICT_OK)};
        ns_report_table_add_row(table, row, 4);
    }

    // Notes explain equivalent terms and limits.
    for (uint32_t k = 0; k < d->notes.count; k++) {
        ns_section_add_note(section, d->notes.data[k].level, d->notes.data[k].text);
    }
}

static void score_row(ns_report_table* table, const char* label, const double score[2]) {
    if (!isfinite(score[0])) return;
    const ns_cell row[] = {ns_cell_text(label), ns_cell_number(score[0]), ns_cell_number(score[1])};
    ns_report_table_add_row(table, row, 3);
}

static void report_residuals(ns_report* report, const ns_discovery* d) {
    if (d->levels.count == 0) return;
    ns_section* section = ns_report_add_section(report, "Residuals");
    const ns_report_column columns[] = {{.name = "data"},
                                        {.name = "before", .format = NS_FORMAT_NUMBER},
                                        {.name = "after", .format = NS_FORMAT_NUMBER}};
    ns_section_add_note(section, NS_NOTE_TEXT, "Root mean squares, initial states fitted.");
    ns_report_table* table = ns_section_add_table(section, "residuals", NULL, columns, 3);
    score_row(table, "held-out windows", d->held_out);
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        score_row(table, nsi_role_name((ns_data_role)role), d->score[role]);
    }
}

// Bars of what terms at each place explain.
static void add_ranking_figure(ns_section* section, const ns_discovery* d, uint32_t rows) {
    // The caption says what a share means.
    ns_figure* figure =
        ns_section_add_figure(section, NS_FIGURE_BARS, "ranking",
                              "Share of the residuals that up to three terms at one place explain");
    if (!figure) return;
    // Figures borrow their arrays; the report owns them.
    ns_report* report = section->report;
    const char** labels = ns_report_alloc(report, rows, sizeof *labels);
    ns_bar* bars = ns_report_alloc(report, rows, sizeof *bars);
    double* shares = ns_report_alloc(report, rows, sizeof *shares);
    ns_figure_column* columns = ns_report_alloc(report, 2, sizeof *columns);
    if (!labels || !bars || !shares || !columns) return;

    // One bar per place, labelled with its percentage.
    for (uint32_t k = 0; k < rows; k++) {
        labels[k] = d->ranks.data[k].quantity;
        shares[k] = d->ranks.data[k].share;
        const char* text = nsi_figures_text(nsi_report_figures(report), "%s %%",
                                            nsi_format(100.0 * shares[k], 3).text);
        // The renderer checks the report once, at the end.
        if (!text) report->failed = true;
        bars[k] = (ns_bar){.length = shares[k], .mark = NAN, .text = text};
    }

    // The same numbers as columns, for the JSON renderer.
    columns[0] = (ns_figure_column){.name = "quantity", .texts = labels};
    columns[1] = (ns_figure_column){.name = "share", .numbers = shares};
    figure->columns = columns;
    figure->ncolumn = 2;
    figure->nrow = rows;

    figure->as.bars = (ns_bar_chart){
        .labels = labels, .bars = bars, .rows = rows, .ngroup = 1, .groups = {"share", NULL}};
}

static void report_ranking(ns_report* report, const ns_discovery* d) {
    uint32_t rows = d->ranks.count < MAX_RANKS ? d->ranks.count : MAX_RANKS;
    if (rows == 0) return;
    ns_section* section = ns_report_add_section(report, "Where");
    const ns_report_column columns[] = {{.name = "quantity"},
                                        {.name = "share", .format = NS_FORMAT_PERCENT}};
    ns_section_add_note(
        section, NS_NOTE_TEXT,
        "Share of the residuals of the original model that up to three terms at one "
        "place explain, in held-out windows.");
    ns_report_table* table = ns_section_add_table(section, "ranking", NULL, columns, 2);
    for (uint32_t k = 0; k < rows; k++) {
        const ns_cell row[] = {ns_cell_text(d->ranks.data[k].quantity),
                               ns_cell_number(d->ranks.data[k].share)};
        ns_report_table_add_row(table, row, 2);
    }
    add_ranking_figure(section, d, rows);
}

static void report_steps(ns_report* report, const ns_discovery* d) {
    // A model that lacks nothing took no steps.
    if (d->steps.count == 0) return;
    ns_section* section = ns_report_add_section(report, "Steps");
    // Columns: training cost and held-out residual, before and after each step.
    const ns_report_column columns[] = {{.name = "step"},
                                        {.name = "samples", .format = NS_FORMAT_COUNT},
                                        {.name = "squares, before", .format = NS_FORMAT_NUMBER},
                                        {.name = "after", .format = NS_FORMAT_NUMBER},
                                        {.name = "held-out, before", .format = NS_FORMAT_NUMBER},
                                        {.name = "after", .format = NS_FORMAT_NUMBER}};

    // State the unit of the columns.
    ns_section_add_note(
        section, NS_NOTE_TEXT,
        "Sum of squared residuals in windows of so many samples, and RMS residual of "
        "held-out windows.");
    ns_report_table* table = ns_section_add_table(section, "steps", NULL, columns, 6);

    // One row per step.
    for (uint32_t k = 0; k < d->steps.count; k++) {
        const nsi_selection_step* m = &d->steps.data[k];
        // Describe the step: a term that entered, left or replaced another.
        nsi_text_builder text = {.allocator = d->allocator};
        nsi_discover_step_text(d, m, &text);
        nsi_text_add_bytes(&text, "", 1);
        if (text.failed) report->failed = true;
        // Held-out values are mean squares; the table gives the root.
        const ns_cell row[] = {ns_cell_text(text.failed ? "" : text.text.data),
                               ns_cell_number(m->length),
                               ns_cell_number(m->before),
                               ns_cell_number(m->after),
                               ns_cell_number(sqrt(fmax(m->held_out_before, 0.0))),
                               ns_cell_number(sqrt(fmax(m->held_out_after, 0.0)))};
        ns_report_table_add_row(table, row, 6);
        nsi_array_free(&text.allocator, &text.text);
    }
}

ns_status ns_discover_report(const ns_discovery* d, ns_report** out, ns_error* error) {
    *out = NULL;
    ns_report* report = NULL;
    ns_text record = {0};
    ns_status status = ns_report_create(d->fit->spec->title, &d->allocator, &report, error);
    if (status == NS_OK) status = make_record(d, &record, error);
    if (status == NS_OK) {
        ns_report_add_fact(report, "model", d->fit->spec->model);
        add_search_fact(report, d);
        const nsi_data_warnings* w = &d->fit->data_warnings;
        nsi_data_warnings_report(w->texts.data, w->texts.count, report);
        report_found(report, d);
        report_residuals(report, d);
        report_ranking(report, d);
        report_steps(report, d);
        ns_report_set_record(report, record.data, record.size);
        status = ns_report_check(report, error);
    }
    ns_text_free(&record);
    if (status == NS_OK) {
        *out = report;
    } else {
        ns_report_free(report);
    }
    return status;
}
