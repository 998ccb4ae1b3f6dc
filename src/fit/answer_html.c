// An answer for a browser: one page with its style and its pictures (SVG) in it, and no script.

#include "fit/show.h"
#include "page/html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_ROWS = 200, MOST_INTERVALS = 60, MOST_CELLS = 40, MOST_POINTS = 1000 };

// Pictures are 400 wide, so that on a phone their letters stay readable.
static const double WIDTH = 400.0;
static const double LEFT = 170.0; // room for names
static const double LINE = 15.0;

// ---- history ---------------------------------------------------------------------------------

typedef struct axis {
    double low, high;   // decimal logarithms
    double top, bottom; // in the picture
} axis;

static double place(const axis* y, double value) {
    return y->bottom + (log10(value) - y->low) / (y->high - y->low) * (y->top - y->bottom);
}

static bool is_drawn(const nsi_history_point* point) {
    return isfinite(point->value) && point->value > 0.0;
}

// At 1, 2, 5 and 10, or at powers of ten where there are many.
static void add_ticks(nsi_text_builder* b, const axis* y, double left) {
    double span = y->high - y->low, step = fmax(1.0, ceil(span / 6.0));
    for (double decade = floor(y->low); decade <= y->high; decade++) {
        for (int digit = 1; digit <= 5; digit += digit == 1 ? 1 : 3) {
            double tick = decade + log10(digit);
            bool wanted = span < 1.5 || (digit == 1 && fmod(decade, step) == 0.0);
            if (tick < y->low || tick > y->high || !wanted) continue;
            double value = pow(10.0, tick), height = place(y, value);
            nsi_page_line(b, "grid", left, height, WIDTH, height);
            nsi_page_label(b, "e", left - 4.0, height + 3.5, nsi_show(value, 1).text);
        }
    }
}

static void add_history(nsi_text_builder* b, const nsi_answer* answer) {
    const nsi_history_point* points = answer->history.data;
    uint32_t count = answer->history.count;
    double least = INFINITY, most = 0.0;
    for (uint32_t k = 0; k < count; k++) {
        if (!is_drawn(&points[k])) continue;
        least = fmin(least, points[k].value);
        most = fmax(most, points[k].value);
    }
    if (most == 0.0 || count < 2) return;

    axis y = {.low = log10(least), .high = log10(most), .top = 8.0, .bottom = 150.0};
    double widen = fmax(0.0, 0.4 - (y.high - y.low)) / 2.0; // so that there is a tick
    y.low -= widen;
    y.high += widen;
    nsi_text_add(b, "<h2>Course of the loss</h2>\n");
    nsi_page_open_picture(b, "Loss over iterations", WIDTH, 170.0);
    const double left = 45.0;
    add_ticks(b, &y, left);
    nsi_page_label(b, "e", WIDTH, 165.0, "iterations of all phases");

    // One line for each phase: from phase to phase the loss may be of other data.
    uint32_t stride = count / MOST_POINTS + 1;
    for (uint32_t k = 0; k < count; k++) {
        bool fresh = k == 0 || points[k].phase != points[k - 1].phase;
        bool last = k + 1 == count || points[k + 1].phase != points[k].phase;
        double x = left + (WIDTH - left) * k / (count - 1);
        if (fresh && k > 0) nsi_page_line(b, "dash", x, y.top, x, y.bottom);
        if (fresh) nsi_text_add(b, "<polyline points=\"");
        if (is_drawn(&points[k]) && (fresh || last || k % stride == 0)) {
            nsi_text_add(b, "%s,%s ", nsi_page_length(x).text,
                         nsi_page_length(place(&y, points[k].value)).text);
        }
        if (last) nsi_text_add(b, "\"/>\n");
    }
    nsi_page_close_picture(b);
}

// ---- scores ----------------------------------------------------------------------------------

// Pairs of bars, one pair for each horizon.
static void add_horizon_bars(nsi_text_builder* b, const nsi_score* before, const nsi_score* after) {
    const nsi_score* scores[2] = {before, after};
    uint32_t rows = before->nhorizon > after->nhorizon ? before->nhorizon : after->nhorizon;
    double most = 0.0;
    for (int s = 0; s < 2; s++) {
        for (uint32_t k = 0; k < scores[s]->nhorizon; k++) {
            const nsi_horizon_error* h = &scores[s]->horizons[k];
            if (isfinite(h->pooled)) most = fmax(most, h->pooled);
            if (isfinite(h->median)) most = fmax(most, h->median);
        }
    }
    const double left = 60.0, room = WIDTH - left - 60.0, unit = most > 0.0 ? room / most : 0.0;
    nsi_page_open_picture(b, "Errors before and after", WIDTH, 30.0 * rows);
    for (uint32_t k = 0; k < rows; k++) {
        double y = 30.0 * k;
        const nsi_score* known = k < after->nhorizon ? after : before;
        nsi_page_label(b, "e", left - 14.0, y + 16.0,
                       nsi_show_short(known->horizons[k].seconds, 3).text);
        nsi_page_label(b, "e", left - 4.0, y + 16.0, "s");
        for (int s = 0; s < 2; s++, y += 12.0) {
            if (k >= scores[s]->nhorizon) continue;
            const nsi_horizon_error* h = &scores[s]->horizons[k];
            double length = isfinite(h->pooled) ? h->pooled * unit : 0.0;
            nsi_page_bar(b, s == 0 ? "grey" : "blue", left, y + 1.0, length, 10.0, 1.0);
            if (isfinite(h->median)) {
                double x = left + h->median * unit;
                nsi_page_line(b, "ink", x, y, x, y + 12.0);
                length = fmax(length, x - left);
            }
            nsi_page_label(b, "", left + length + 4.0, y + 9.5, nsi_show(h->pooled, 3).text);
        }
    }
    nsi_page_close_picture(b);
}

static void add_change_row(nsi_text_builder* b, const char* label, double before, double after) {
    if (isnan(before) && isnan(after)) return;
    nsi_text_add(b, "<tr><td class=\"l\">%s</td><td></td>", label);
    nsi_page_number(b, before, 3);
    nsi_page_number(b, after, 3);
    nsi_text_add(b, "<td></td><td></td></tr>\n");
}

static void add_role(nsi_text_builder* b, const nsi_answer* answer, nsi_role role) {
    const nsi_score *before = &answer->before[role], *after = &answer->after[role];
    bool had = before->windows > 0, has = after->windows > 0;
    nsi_text_add(b, "<h3>%s</h3>\n", nsi_show_role(role));
    if (before->nhorizon + after->nhorizon > 0) add_horizon_bars(b, before, after);
    nsi_page_open_table(b, "<horizon|windows|all, before|after|median, before|after");
    for (uint32_t k = 0; k < before->nhorizon || k < after->nhorizon; k++) {
        const nsi_horizon_error none = {.pooled = NAN, .median = NAN};
        nsi_horizon_error was = k < before->nhorizon ? before->horizons[k] : none;
        nsi_horizon_error is = k < after->nhorizon ? after->horizons[k] : none;
        const nsi_horizon_error* known = k < after->nhorizon ? &is : &was;
        nsi_text_add(b, "<tr><td class=\"l\">%s s</td><td>%u</td>",
                     nsi_show_short(known->seconds, 3).text, known->windows);
        nsi_page_number(b, was.pooled, 3);
        nsi_page_number(b, is.pooled, 3);
        nsi_page_number(b, was.median, 3);
        nsi_page_number(b, is.median, 3);
        nsi_text_add(b, "</tr>\n");
    }
    add_change_row(b, "loss", had ? before->loss : NAN, has ? after->loss : NAN);
    add_change_row(b, "rmse of q", had ? before->rmse_q : NAN, has ? after->rmse_q : NAN);
    add_change_row(b, "rmse of qd", had ? before->rmse_qd : NAN, has ? after->rmse_qd : NAN);
    nsi_page_close_table(b);
}

static void add_scores(nsi_text_builder* b, const nsi_answer* answer) {
    bool any = false;
    for (int role = 0; role < NSI_ROLES; role++) {
        if (answer->before[role].windows == 0 && answer->after[role].windows == 0) continue;
        if (!any) {
            nsi_text_add(b, "<h2>Prediction error</h2>\n<p class=\"faint\">Grey: before, coloured: "
                            "after the fit. Bars: all windows together, strokes: the median "
                            "window.</p>\n");
        }
        any = true;
        add_role(b, answer, (nsi_role)role);
    }
}

// ---- parameters ------------------------------------------------------------------------------

static void add_parameters(nsi_text_builder* b, const nsi_answer* answer) {
    uint32_t count = answer->estimates.count, rows = count < MOST_ROWS ? count : MOST_ROWS;
    if (count == 0) return;
    nsi_text_add(b, "<h2>Parameters</h2>\n");
    nsi_page_open_table(b, "<parameter|<unit|start|estimate|\xc2\xb1|<verdict");
    for (uint32_t k = 0; k < rows; k++) {
        const nsi_estimate* e = &answer->estimates.data[k];
        double error = answer->correlation ? e->standard_error : NAN;
        nsi_text_add(b, "<tr>");
        nsi_page_cell(b, "l", e->name);
        nsi_page_cell(b, "l", e->unit);
        nsi_page_cell(b, "", nsi_show_short(e->start, 5).text);
        nsi_page_cell(b, "", nsi_show_value(e->value, error).text);
        nsi_page_cell(b, "", nsi_show_error(e->value, error).text);
        nsi_page_cell(b, e->verdict == NSI_VERDICT_OK ? "l" : "l bad", nsi_show_verdict(answer, k));
        nsi_text_add(b, "</tr>\n");
    }
    nsi_page_close_table(b);
    if (count > rows) nsi_text_add(b, "<p>%u more are in the JSON.</p>\n", count - rows);
    nsi_text_add(b, "<p class=\"faint\">%u residuals of standard deviation %s, %s.</p>\n",
                 answer->nresidual, nsi_show(answer->sigma, 3).text,
                 nsi_show_residual_unit(answer));
    if (answer->nweight > 0) {
        nsi_text_add(b, "<p class=\"faint\">%u weights of networks were fitted, too.</p>\n",
                     answer->nweight);
    }
}

// Shares of the estimate; where that is 0, of the start.
static double share_of(const nsi_estimate* e, double length) {
    double size = e->value != 0.0 ? fabs(e->value) : fabs(e->start);
    return size > 0.0 ? length / size : 0.0;
}

// Two standard errors each way, as shares of the estimate, and where the fit started.
static void add_intervals(nsi_text_builder* b, const nsi_answer* answer) {
    uint32_t count = answer->estimates.count;
    uint32_t rows = count < MOST_INTERVALS ? count : MOST_INTERVALS;
    if (count == 0 || !answer->correlation) return;
    double reach = 0.001;
    for (uint32_t k = 0; k < rows; k++) {
        const nsi_estimate* e = &answer->estimates.data[k];
        double start = share_of(e, fabs(e->start - e->value));
        double error = share_of(e, 2.0 * e->standard_error);
        if (isfinite(start)) reach = fmax(reach, start);
        if (isfinite(error)) reach = fmax(reach, error);
    }
    reach = fmin(reach, 1.0);
    const double middle = (LEFT + WIDTH) / 2.0, half = (WIDTH - LEFT) / 2.0 - 8.0;
    nsi_text_add(
        b,
        "<p class=\"faint\">Relative to the estimate, cut off at %s %%. Bars: two standard "
        "errors each way, faint over the whole width where undetermined. Rings: "
        "start.</p>\n",
        nsi_show_short(100.0 * reach, 2).text);
    nsi_page_open_picture(b, "Parameters with errors", WIDTH, LINE * rows + 16.0);
    nsi_page_line(b, "grid", middle, 0.0, middle, LINE * rows);
    for (uint32_t k = 0; k < rows; k++) {
        const nsi_estimate* e = &answer->estimates.data[k];
        double y = LINE * (k + 0.5), error = share_of(e, 2.0 * e->standard_error);
        double start = share_of(e, e->start - e->value);
        nsi_page_name(b, LEFT - 4.0, y + 3.5, e->name);
        if (!isnan(error)) {
            double length = half * fmin(error, reach) / reach;
            nsi_page_bar(b, "blue", middle - length, y - 3.0, 2.0 * length, 6.0,
                         isinf(error) ? 0.2 : 0.6);
        }
        nsi_page_line(b, "ink", middle, y - 5.0, middle, y + 5.0);
        if (isfinite(start)) {
            double x = middle + half * fmax(-reach, fmin(start, reach)) / reach;
            nsi_text_add(b, "<circle class=\"ink\" cx=\"%s\" cy=\"%s\" r=\"3\"/>\n",
                         nsi_page_length(x).text, nsi_page_length(y).text);
        }
    }
    char limit[48];
    snprintf(limit, sizeof limit, "-%s %%", nsi_show_short(100.0 * reach, 2).text);
    nsi_page_label(b, "", middle - half, LINE * rows + 12.0, limit);
    limit[0] = '+';
    nsi_page_label(b, "e", middle + half, LINE * rows + 12.0, limit);
    nsi_page_close_picture(b);
}

// ---- correlation -----------------------------------------------------------------------------

static const char* colour_of(double correlation) {
    return correlation < 0.0 ? "red" : "blue";
}

static void add_legend(nsi_text_builder* b, double x, double y) {
    for (int k = -4; k <= 4; k++) {
        nsi_page_bar(b, colour_of(k), x + 20.0 * (k + 4), y, 20.0, 10.0, abs(k) / 4.0);
        if (k % 2 == 0)
            nsi_page_label(b, "m", x + 20.0 * (k + 4) + 10.0, y + 21.0,
                           nsi_page_length(k / 4.0).text);
    }
}

// The lower triangle, coloured.
static void add_correlation(nsi_text_builder* b, const nsi_answer* answer) {
    uint32_t count = answer->estimates.count, n = count < MOST_CELLS ? count : MOST_CELLS;
    if (count < 2 || !answer->correlation) return;
    double cell = fmax(10.0, fmin(20.0, (WIDTH - LEFT) / n)), width = fmax(WIDTH, LEFT + n * cell);
    nsi_text_add(b, "<h2>Correlation of the errors</h2>\n");
    if (count > n) nsi_text_add(b, "<p class=\"faint\">Of the first %u parameters.</p>\n", n);
    nsi_page_open_picture(b, "Correlation", width, n * cell + 40.0);
    for (uint32_t i = 0; i < n; i++) {
        nsi_page_name(b, LEFT - 4.0, cell * (i + 0.5) + 3.5, answer->estimates.data[i].name);
        for (uint32_t k = 0; k <= i; k++) {
            double c = answer->correlation[(size_t)i * count + k];
            if (isnan(c)) continue;
            nsi_page_open_bar(b, colour_of(c), LEFT + cell * k, cell * i, cell - 1.0, cell - 1.0,
                              fabs(c));
            nsi_text_add(b, "<title>");
            nsi_page_text(b, answer->estimates.data[i].name);
            nsi_text_add(b, ", ");
            nsi_page_text(b, answer->estimates.data[k].name);
            nsi_text_add(b, ": %s</title></rect>\n", nsi_show(c, 3).text);
        }
    }
    add_legend(b, LEFT, n * cell + 12.0);
    nsi_page_close_picture(b);
}

// ---- page ------------------------------------------------------------------------------------

static void add_field(nsi_text_builder* b, const char* label, const char* text) {
    if (!text || !*text) return;
    nsi_text_add(b, "<dt>%s</dt>", label);
    nsi_page_element(b, "dd", text);
}

static void add_findings(nsi_text_builder* b, const nsi_answer* answer) {
    nsi_text_builder lines = {.allocator = b->allocator};
    nsi_show_findings(&lines, answer);
    ns_text text;
    if (nsi_text_finish(&lines, &text, NULL) != NS_OK) {
        b->failed = true;
        return;
    }
    if (text.size > 0) nsi_text_add(b, "<h2>Findings</h2>\n<ul>\n");
    for (char* line = text.data; *line;) {
        char* end = strchr(line, '\n');
        *end = '\0';
        nsi_page_element(b, "li", line);
        line = end + 1;
    }
    if (text.size > 0) nsi_text_add(b, "</ul>\n");
    ns_text_free(&text);
}

static void add_phases(nsi_text_builder* b, const nsi_answer* answer) {
    if (answer->phases.count == 0) return;
    nsi_text_add(b, "<h2>Phases</h2>\n");
    nsi_page_open_table(b, "<phase|iterations|evaluations|seconds|loss|<end");
    for (uint32_t k = 0; k < answer->phases.count; k++) {
        const nsi_phase* phase = &answer->phases.data[k];
        nsi_text_add(b, "<tr>");
        nsi_page_cell(b, "l", phase->name);
        nsi_text_add(b, "<td>%u</td><td>%u</td>", phase->iterations, phase->evaluations);
        nsi_page_number(b, phase->seconds, 3);
        nsi_page_number(b, phase->value, 4);
        nsi_page_cell(b, "l", phase->finish);
        nsi_text_add(b, "</tr>\n");
    }
    nsi_page_close_table(b);
    nsi_text_add(b, "<p class=\"faint\">%s s in all</p>\n", nsi_show(answer->seconds, 3).text);
}

static void add_notes(nsi_text_builder* b, const nsi_answer* answer) {
    if (answer->notes.count == 0) return;
    nsi_text_add(b, "<h2>Notes</h2>\n<ul>\n");
    for (uint32_t k = 0; k < answer->notes.count; k++)
        nsi_page_element(b, "li", answer->notes.data[k]);
    nsi_text_add(b, "</ul>\n");
}

ns_status nsi_answer_html(const nsi_answer* answer, ns_text* out, ns_error* error) {
    nsi_text_builder b = {.allocator = answer->allocator};
    const char* title = answer->title && *answer->title ? answer->title : "Fit";
    nsi_page_open(&b, title);
    nsi_page_element(&b, "h1", title);
    nsi_text_add(&b, "<dl>\n");
    add_field(&b, "model", answer->model);
    add_field(&b, "data", answer->treatment);
    add_field(&b, "setting", answer->setting);
    add_field(&b, "citation", answer->citation);
    nsi_text_add(&b, "</dl>\n");
    add_parameters(&b, answer);
    add_findings(&b, answer);
    add_intervals(&b, answer);
    add_correlation(&b, answer);
    add_scores(&b, answer);
    add_history(&b, answer);
    add_phases(&b, answer);
    add_notes(&b, answer);
    nsi_page_close(&b);
    return nsi_text_finish(&b, out, error);
}
