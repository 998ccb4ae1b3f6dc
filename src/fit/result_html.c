// An answer for a browser: one page with its style and its figures (SVG) in it.

#include "fit/result_words.h"
#include "report/html.h"

#include <math.h>
#include <stdio.h>

enum { MOST_ROWS = 200 };

// The figure of a chart, if there is such a chart.
static void add_figure(nsi_text_builder* b, const nsi_figures* charts, const char* name) {
    const ns_figure* chart = nsi_figures_find(charts, name);
    if (!chart) return;
    nsi_drawing figure;
    ns_status status = nsi_figure_draw(chart, &b->allocator, &figure, NULL);
    if (status == NS_ERR_NOMEM) b->failed = true;
    if (status == NS_OK) nsi_html_drawing(b, &figure); // a network of NaN cannot be drawn
    nsi_drawing_free(&figure);
}

// ---- scores ----------------------------------------------------------------------------------

static void add_change_row(nsi_text_builder* b, const char* label, double before, double after) {
    if (isnan(before) && isnan(after)) return;
    nsi_text_add(b, "<tr><td class=\"l\">%s</td><td></td>", label);
    nsi_html_number(b, before, 3);
    nsi_html_number(b, after, 3);
    nsi_text_add(b, "<td></td><td></td></tr>\n");
}

static void add_role(nsi_text_builder* b, const nsi_result* answer, const nsi_figures* charts,
                     nsi_role role) {
    const nsi_score *before = &answer->before[role], *after = &answer->after[role];
    bool had = before->windows > 0, has = after->windows > 0;
    nsi_text_add(b, "<h3>%s</h3>\n", nsi_role_name(role));
    char name[40];
    snprintf(name, sizeof name, "errors_%s", nsi_role_name(role));
    add_figure(b, charts, name);
    nsi_html_open_table(b, "<horizon|windows|all, before|after|median, before|after");
    for (uint32_t k = 0; k < before->nhorizon || k < after->nhorizon; k++) {
        const nsi_horizon_error none = {.pooled = NAN, .median = NAN};
        nsi_horizon_error was = k < before->nhorizon ? before->horizons[k] : none;
        nsi_horizon_error is = k < after->nhorizon ? after->horizons[k] : none;
        const nsi_horizon_error* known = k < after->nhorizon ? &is : &was;
        nsi_text_add(b, "<tr><td class=\"l\">%s s</td><td>%u</td>",
                     nsi_format_short(known->seconds, 3).text, known->windows);
        nsi_html_number(b, was.pooled, 3);
        nsi_html_number(b, is.pooled, 3);
        nsi_html_number(b, was.median, 3);
        nsi_html_number(b, is.median, 3);
        nsi_text_add(b, "</tr>\n");
    }
    for (uint32_t k = 0; k < before->nmeasure || k < after->nmeasure; k++) {
        const nsi_measured none = {.mean = NAN, .median = NAN};
        nsi_measured was = k < before->nmeasure ? before->measures[k] : none;
        nsi_measured is = k < after->nmeasure ? after->measures[k] : none;
        nsi_text_add(b, "<tr><td class=\"l\">");
        nsi_html_text(b, is.name ? is.name : was.name);
        const char* unit = is.unit ? is.unit : was.unit;
        if (unit && *unit) nsi_text_add(b, ", ");
        nsi_html_text(b, unit);
        nsi_text_add(b, "</td><td></td>");
        nsi_html_number(b, was.mean, 3);
        nsi_html_number(b, is.mean, 3);
        nsi_html_number(b, was.median, 3);
        nsi_html_number(b, is.median, 3);
        nsi_text_add(b, "</tr>\n");
    }
    add_change_row(b, "loss", had ? before->loss : NAN, has ? after->loss : NAN);
    add_change_row(b, "rmse of q", had ? before->rmse_q : NAN, has ? after->rmse_q : NAN);
    add_change_row(b, "rmse of qd", had ? before->rmse_qd : NAN, has ? after->rmse_qd : NAN);
    nsi_html_close_table(b);
}

static void add_scores(nsi_text_builder* b, const nsi_result* answer, const nsi_figures* charts) {
    bool any = false;
    for (int role = 0; role < NSI_ROLES; role++) {
        if (answer->before[role].windows == 0 && answer->after[role].windows == 0) continue;
        if (!any) {
            nsi_text_add(b, "<h2>Prediction error</h2>\n<p class=\"faint\">Bars: all windows "
                            "together, strokes: the median window.</p>\n");
        }
        any = true;
        add_role(b, answer, charts, (nsi_role)role);
    }
}

// ---- parameters ------------------------------------------------------------------------------

static void add_parameters(nsi_text_builder* b, const nsi_result* answer) {
    uint32_t count = answer->estimates.count, rows = count < MOST_ROWS ? count : MOST_ROWS;
    if (count == 0) return;
    nsi_text_add(b, "<h2>Parameters</h2>\n");
    nsi_html_open_table(b, "<parameter|<unit|start|estimate|\xc2\xb1|<verdict");
    for (uint32_t k = 0; k < rows; k++) {
        const nsi_estimate* e = &answer->estimates.data[k];
        double error = answer->correlation ? e->standard_error : NAN;
        nsi_text_add(b, "<tr>");
        nsi_html_cell(b, "l", e->name);
        nsi_html_cell(b, "l", e->unit);
        nsi_html_cell(b, "", nsi_format_short(e->start, 5).text);
        nsi_html_cell(b, "", nsi_format_value(e->value, error).text);
        nsi_html_cell(b, "", nsi_format_error(e->value, error).text);
        nsi_html_cell(b, e->verdict == NSI_VERDICT_OK ? "l" : "l bad",
                      nsi_result_verdict(answer, k));
        nsi_text_add(b, "</tr>\n");
    }
    nsi_html_close_table(b);
    if (count > rows) nsi_text_add(b, "<p>%u more are in the JSON.</p>\n", count - rows);
    nsi_text_add(b, "<p class=\"faint\">%u residuals of standard deviation %s, %s.</p>\n",
                 answer->nresidual, nsi_format(answer->sigma, 3).text,
                 nsi_result_residual_unit(answer));
    if (answer->nweight > 0) {
        nsi_text_add(b, "<p class=\"faint\">%u weights of networks were fitted, too.</p>\n",
                     answer->nweight);
    }
}

static void add_coefficients(nsi_text_builder* b, const nsi_result* answer) {
    uint32_t count = answer->coefficients.count, rows = count < MOST_ROWS ? count : MOST_ROWS;
    if (count == 0) return;
    nsi_text_add(b, "<h2>Coefficients of formulas</h2>\n");
    nsi_html_open_table(b, "<formula|<coefficient|start|estimate|\xc2\xb1");
    for (uint32_t k = 0; k < rows; k++) {
        const nsi_fitted_coefficient* c = &answer->coefficients.data[k];
        nsi_text_add(b, "<tr>");
        nsi_html_cell(b, "l", c->set);
        nsi_html_cell(b, "l", c->name);
        nsi_html_cell(b, "", nsi_format_short(c->start, 5).text);
        nsi_html_cell(b, "", nsi_format_value(c->value, c->standard_error).text);
        nsi_html_cell(b, "", nsi_format_error(c->value, c->standard_error).text);
        nsi_text_add(b, "</tr>\n");
    }
    nsi_html_close_table(b);
    if (count > rows) nsi_text_add(b, "<p>%u more are in the JSON.</p>\n", count - rows);
}

static void add_intervals(nsi_text_builder* b, const nsi_figures* charts) {
    const ns_figure* chart = nsi_figures_find(charts, "parameters");
    if (!chart) return;
    nsi_text_add(
        b,
        "<p class=\"faint\">Relative to the estimate, cut off at %s %%. Bars: 1.96 standard "
        "errors each way, faint over the whole width where undetermined. Rings: "
        "start; arrows: further away than that.</p>\n",
        nsi_format_short(100.0 * chart->as.intervals.reach, 2).text);
    add_figure(b, charts, chart->name);
}

static void add_correlation(nsi_text_builder* b, const nsi_figures* charts) {
    const ns_figure* chart = nsi_figures_find(charts, "correlation");
    if (!chart) return;
    nsi_text_add(b, "<h2>Correlation</h2>\n");
    add_figure(b, charts, chart->name);
}

static void add_section(nsi_text_builder* b, const nsi_figures* charts, const char* name,
                        const char* heading) {
    if (!nsi_figures_find(charts, name)) return;
    nsi_text_add(b, "<h2>%s</h2>\n", heading);
    add_figure(b, charts, name);
}

// ---- page ------------------------------------------------------------------------------------

static void add_field(nsi_text_builder* b, const char* label, const char* text) {
    if (!text || !*text) return;
    nsi_text_add(b, "<dt>%s</dt>", label);
    nsi_html_element(b, "dd", text);
}

static void add_findings(nsi_text_builder* b, const nsi_result* answer) {
    nsi_text_builder lines = {.allocator = b->allocator};
    nsi_result_diagnostics(&lines, answer);
    ns_text text;
    if (nsi_text_finish(&lines, &text, NULL) != NS_OK) {
        b->failed = true;
        return;
    }
    if (text.size > 0) nsi_text_add(b, "<h2>Findings</h2>\n<ul>\n");
    for (char* line = text.data; *line;) {
        char* end = strchr(line, '\n');
        *end = '\0';
        nsi_html_element(b, "li", line);
        line = end + 1;
    }
    if (text.size > 0) nsi_text_add(b, "</ul>\n");
    ns_text_free(&text);
}

static void add_phases(nsi_text_builder* b, const nsi_result* answer, const nsi_figures* charts) {
    if (answer->phases.count == 0) return;
    nsi_text_add(b, "<h2>Phases</h2>\n");
    add_figure(b, charts, "timing");
    nsi_html_open_table(b, "<phase|iterations|evaluations|seconds|loss|<end");
    for (uint32_t k = 0; k < answer->phases.count; k++) {
        const nsi_phase* phase = &answer->phases.data[k];
        nsi_text_add(b, "<tr>");
        nsi_html_cell(b, "l", phase->name);
        nsi_text_add(b, "<td>%u</td><td>%u</td>", phase->iterations, phase->evaluations);
        nsi_html_number(b, phase->seconds, 3);
        nsi_html_number(b, phase->value, 4);
        nsi_html_cell(b, "l", phase->finish);
        nsi_text_add(b, "</tr>\n");
    }
    nsi_html_close_table(b);
    nsi_text_add(b, "<p class=\"faint\">%s s in all</p>\n", nsi_format(answer->seconds, 3).text);
}

static void add_notes(nsi_text_builder* b, const nsi_result* answer) {
    if (answer->notes.count == 0) return;
    nsi_text_add(b, "<h2>Notes</h2>\n<ul>\n");
    for (uint32_t k = 0; k < answer->notes.count; k++)
        nsi_html_element(b, "li", answer->notes.data[k]);
    nsi_text_add(b, "</ul>\n");
}

static ns_status add_page(nsi_text_builder* b, const nsi_result* answer, const ns_motion* viewer,
                          const nsi_figures* charts, const nsi_figures* more, ns_error* error) {
    const char* title = answer->title && *answer->title ? answer->title : "Fit";
    nsi_html_open(b, title);
    nsi_html_element(b, "h1", title);
    nsi_text_add(b, "<dl>\n");
    add_field(b, "model", answer->model);
    add_field(b, "data", answer->treatment);
    add_field(b, "setting", answer->setting);
    add_field(b, "citation", answer->citation);
    nsi_text_add(b, "</dl>\n");
    ns_status status = viewer ? nsi_motion_write(viewer, b, error) : NS_OK;
    add_parameters(b, answer);
    add_coefficients(b, answer);
    add_findings(b, answer);
    add_intervals(b, charts);
    add_correlation(b, charts);
    add_scores(b, answer, charts);
    for (uint32_t k = 0; more && k < more->list.count; k++) {
        add_figure(b, more, more->list.data[k].name);
    }
    add_section(b, charts, "path", "Sparsity");
    add_section(b, charts, "loss", "Course of the loss");
    add_phases(b, answer, charts);
    add_notes(b, answer);
    nsi_html_close(b);
    return status;
}

ns_status nsi_result_html(const nsi_result* answer, const ns_motion* viewer,
                          const nsi_figures* more, ns_text* out, ns_error* error) {
    nsi_text_builder b = {.allocator = answer->allocator};
    nsi_figures charts;
    nsi_figures_init(&answer->allocator, &charts);
    ns_status status = nsi_result_add_figures(answer, &charts, error);
    if (status == NS_OK) status = add_page(&b, answer, viewer, &charts, more, error);
    nsi_figures_free(&charts);
    if (status == NS_OK) return nsi_text_finish(&b, out, error);
    nsi_array_free(&b.allocator, &b.text);
    return status;
}
