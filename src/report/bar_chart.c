// Bars and intervals as SVG.

#include "report/figure_data.h"
#include "report/html.h"

#include <math.h>
#include <stdio.h>

static const double WIDTH = 400.0;
static const double LINE = 15.0;
static const double EDGE = 4.0; // above and below all
static const double LONGEST_NAME = 145.0;

// Room for names at the left.
static double bar_label_room(const char* const* labels, uint32_t count) {
    double longest = 20.0;
    for (uint32_t k = 0; k < count; k++) longest = fmax(longest, nsi_html_width(labels[k]));
    return 8.0 + fmin(longest, LONGEST_NAME);
}

// ---- bars --------------------------------------------------------------------------------------

static const char* class_of(const ns_bar_chart* bars, uint32_t group) {
    return group + 1 < bars->ngroup ? "grey" : "blue";
}

static void add_bars_legend(nsi_text_builder* b, const ns_bar_chart* bars, double x) {
    for (uint32_t g = 0; g < bars->ngroup; g++) {
        nsi_html_bar(b, class_of(bars, g), x, 3.0, 12.0, 8.0, 1.0);
        nsi_html_label(b, "", x + 16.0, 11.0, bars->groups[g]);
        x += 28.0 + nsi_html_width(bars->groups[g]);
    }
    if (bars->mark) {
        nsi_html_line(b, "ink", x + 2.0, 2.0, x + 2.0, 12.0);
        nsi_html_label(b, "", x + 8.0, 11.0, bars->mark);
    }
}

void nsi_bar_chart_draw(nsi_text_builder* b, const ns_bar_chart* bars, const char* title) {
    // Scale: the longest bar or mark. Numbers need room behind it.
    double most = 0.0, texts = 0.0;
    for (uint32_t k = 0; k < bars->rows * bars->ngroup; k++) {
        const ns_bar* bar = &bars->bars[k];
        if (isfinite(bar->length)) most = fmax(most, bar->length);
        if (isfinite(bar->mark)) most = fmax(most, bar->mark);
        if (bar->text) texts = fmax(texts, nsi_html_width(bar->text));
    }

    // Labels on the left, numbers behind the longest bar.
    double left = bar_label_room(bars->labels, bars->rows), room = WIDTH - left - texts - 8.0;
    double row = 12.0 * bars->ngroup + 6.0;
    // All bars empty: any scale will do.
    if (!(most > 0.0)) most = 1.0;

    // A legend is needed only if there are groups or marks to tell apart.
    double top = bars->ngroup < 2 && !bars->mark ? EDGE : LINE + EDGE;
    nsi_html_open_picture(b, "", title, WIDTH, top + row * bars->rows + EDGE);
    if (top > EDGE) add_bars_legend(b, bars, left);

    // Each row has one bar per group, the mark and the number.
    for (uint32_t k = 0; k < bars->rows; k++) {
        double y = top + row * k;
        nsi_html_name(b, "e", left - 4.0, y + 0.5 * row + 0.5, bars->labels[k], LONGEST_NAME);
        for (uint32_t g = 0; g < bars->ngroup; g++, y += 12.0) {
            const ns_bar* bar = &bars->bars[k * bars->ngroup + g];
            // Nothing was measured: leave the row empty.
            if (isnan(bar->length) && isnan(bar->mark)) continue;
            double length = isfinite(bar->length) ? room * fmax(0.0, bar->length / most) : 0.0;
            nsi_html_bar(b, class_of(bars, g), left, y + 1.0, length, 10.0, 1.0);

            // A tick across the bar marks the reference value.
            if (isfinite(bar->mark)) {
                double x = left + room * fmax(0.0, bar->mark / most);
                nsi_html_line(b, "ink", x, y, x, y + 12.0);
                // The number goes behind the mark if that is further out.
                length = fmax(length, x - left);
            }
            nsi_html_label(b, "", left + length + 4.0, y + 9.5, bar->text);
        }
    }
    nsi_html_close_picture(b);
}

// ---- intervals ---------------------------------------------------------------------------------

void nsi_interval_chart_draw(nsi_text_builder* b, const ns_interval_chart* v, const char* title) {
    // Room for the longest label.
    double longest = 20.0;
    for (uint32_t k = 0; k < v->nrow; k++) {
        longest = fmax(longest, nsi_html_width(v->rows[k].label));
    }

    // Labels on the left, notes on the right, zero in the middle of the plot.
    const double left = 8.0 + fmin(longest, LONGEST_NAME);
    const double right = WIDTH - 84.0, middle = (left + right) / 2.0;
    const double half = (right - left) / 2.0 - 6.0, unit = v->reach > 0.0 ? half / v->reach : 0.0;
    const double bottom = EDGE + LINE * v->nrow;
    nsi_html_open_picture(b, "", title, WIDTH, bottom + 18.0);

    // Grid lines at zero and at both limits.
    nsi_html_line(b, "grid", middle, 0.0, middle, bottom + 3.0);
    nsi_html_line(b, "grid", middle - half, 0.0, middle - half, bottom + 3.0);
    nsi_html_line(b, "grid", middle + half, 0.0, middle + half, bottom + 3.0);

    // Rows: confidence interval, estimate and initial value, all relative to the estimate.
    for (uint32_t k = 0; k < v->nrow; k++) {
        const ns_interval* row = &v->rows[k];
        double y = EDGE + LINE * (k + 0.5);
        nsi_html_name(b, "e", left - 4.0, y + 3.5, row->label, LONGEST_NAME);
        // Unidentifiable parameters have a pale bar across the whole plot.
        if (!isnan(row->half)) {
            double length = fmin(row->half, v->reach) * unit;
            nsi_html_bar(b, row->bad ? "red" : "blue", middle - length, y - 3.0, 2.0 * length, 6.0,
                         isinf(row->half) ? 0.2 : 0.6);
        }

        // The estimate itself.
        nsi_html_line(b, "ink", middle, y - 5.0, middle, y + 5.0);

        // The initial value, if it was estimated from one.
        if (isfinite(row->start)) {
            double side = row->start < 0.0 ? -1.0 : 1.0;
            if (fabs(row->start) <= v->reach) {
                nsi_html_ring(b, "ink", middle + row->start * unit, y, 3.0);
            } else { // further out: an arrow at the edge
                nsi_text_add(b, "<path class=\"ink\" d=\"M%s %sl%s 3.5l%s 3.5\"/>\n",
                             nsi_html_length(middle + side * (half - 3.0)).text,
                             nsi_html_length(y - 3.5).text, nsi_html_length(side * 5.0).text,
                             nsi_html_length(side * -5.0).text);
            }
        }

        // Notes, such as "not identifiable".
        if (row->note)
            nsi_html_label(b, row->bad ? "bad" : "faint", right + 6.0, y + 3.5, row->note);
    }

    // Axis labels, in percent.
    char limit[48];
    snprintf(limit, sizeof limit, "-%s %%", nsi_format_short(100.0 * v->reach, 2).text);
    nsi_html_label(b, "m", middle - half, bottom + 14.0, limit);
    nsi_html_label(b, "m", middle, bottom + 14.0, "0");
    // The same text with the other sign.
    limit[0] = '+';
    nsi_html_label(b, "m", middle + half, bottom + 14.0, limit);
    nsi_html_close_picture(b);
}
