// Corner plots as SVG: histograms of samples on the diagonal, pairs below it.

#include "report/figure_data.h"
#include "report/html.h"

#include <math.h>

enum { BINS = 20 };

// Lengths in the picture.
static const double PANEL = 96.0, SPACE = 6.0, LEFT = 74.0, TOP = 16.0, BOTTOM = 34.0, RIGHT = 12.0;

// Range of a number: all its samples.
static void corner_range(const ns_corner_chart* c, uint32_t k, double* low, double* high) {
    *low = INFINITY;
    *high = -INFINITY;
    for (uint32_t i = 0; i < c->count; i++) {
        double value = c->values[(size_t)i * c->n + k];
        if (!isfinite(value)) continue;
        *low = fmin(*low, value);
        *high = fmax(*high, value);
    }
    if (!(*high > *low)) {
        double at = isfinite(*low) ? *low : 0.0, half = fmax(fabs(at), 1.0) * 1e-3;
        *low = at - half;
        *high = at + half;
    }
}

// The bin of a number; BINS: none.
static uint32_t corner_bin(double value, double low, double high) {
    if (!isfinite(value)) return BINS;
    uint32_t bin = (uint32_t)((value - low) / (high - low) * BINS);
    return bin < BINS ? bin : BINS - 1;
}

static double corner_weight(const ns_corner_chart* c, uint32_t sample) {
    return c->weights ? c->weights[sample] : 1.0;
}

static void add_histogram(nsi_text_builder* b, const ns_corner_chart* c, uint32_t k, double x,
                          double y) {
    double low, high, sums[BINS] = {0}, most = 0.0;
    corner_range(c, k, &low, &high);
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t bin = corner_bin(c->values[(size_t)i * c->n + k], low, high);
        if (bin < BINS) sums[bin] += corner_weight(c, i);
    }
    for (uint32_t i = 0; i < BINS; i++) most = fmax(most, sums[i]);
    for (uint32_t i = 0; i < BINS; i++) {
        if (!(sums[i] > 0.0)) continue;
        double height = PANEL * sums[i] / most;
        nsi_html_bar(b, "blue", x + i * PANEL / BINS, y + PANEL - height, PANEL / BINS, height,
                     0.8);
    }
}

static void corner_add_pair(nsi_text_builder* b, const ns_corner_chart* c, uint32_t across,
                            uint32_t up, double x, double y) {
    double low[2], high[2], sums[BINS][BINS] = {{0}}, most = 0.0;
    corner_range(c, across, &low[0], &high[0]);
    corner_range(c, up, &low[1], &high[1]);
    for (uint32_t i = 0; i < c->count; i++) {
        const double* row = c->values + (size_t)i * c->n;
        uint32_t column = corner_bin(row[across], low[0], high[0]);
        uint32_t line = corner_bin(row[up], low[1], high[1]);
        if (column == BINS || line == BINS) continue;
        sums[line][column] += corner_weight(c, i);
        most = fmax(most, sums[line][column]);
    }
    double cell = PANEL / BINS;
    for (uint32_t i = 0; i < BINS; i++) {
        for (uint32_t k = 0; k < BINS; k++) {
            if (!(sums[i][k] > 0.0)) continue;
            nsi_html_bar(b, "blue", x + k * cell, y + PANEL - (i + 1) * cell, cell, cell,
                         0.15 + 0.85 * sums[i][k] / most);
        }
    }
}

static void add_frame(nsi_text_builder* b, double x, double y) {
    nsi_html_line(b, "grid", x, y, x + PANEL, y);
    nsi_html_line(b, "grid", x, y + PANEL, x + PANEL, y + PANEL);
    nsi_html_line(b, "grid", x, y, x, y + PANEL);
    nsi_html_line(b, "grid", x + PANEL, y, x + PANEL, y + PANEL);
}

// Ends of the range under a column, and at the left of a row.
static void add_ends(nsi_text_builder* b, const ns_corner_chart* c, uint32_t k, double x, double y,
                     double bottom) {
    double low, high;
    corner_range(c, k, &low, &high);
    nsi_html_label(b, "", x, bottom + 12.0, nsi_format_short(low, 3).text);
    nsi_html_label(b, "e", x + PANEL, bottom + 24.0, nsi_format_short(high, 3).text);
    if (k == 0) return;
    nsi_html_label(b, "e", LEFT - 4.0, y + PANEL, nsi_format_short(low, 3).text);
    nsi_html_label(b, "e", LEFT - 4.0, y + 8.0, nsi_format_short(high, 3).text);
}

void nsi_corner_chart_draw(nsi_text_builder* b, const ns_corner_chart* c, const char* title) {
    double step = PANEL + SPACE + TOP, across = PANEL + SPACE, bottom = TOP + c->n * step - SPACE;
    nsi_html_open_picture(b, "", title, LEFT + c->n * across + RIGHT, bottom + BOTTOM);
    for (uint32_t i = 0; i < c->n; i++) {
        double y = TOP + i * step, own = LEFT + i * across;
        nsi_html_name(b, "m", own + PANEL / 2.0, y - 4.0, c->names[i], PANEL + SPACE);
        for (uint32_t k = 0; k < i; k++) {
            add_frame(b, LEFT + k * across, y);
            corner_add_pair(b, c, k, i, LEFT + k * across, y);
        }
        add_frame(b, own, y);
        add_histogram(b, c, i, own, y);
        add_ends(b, c, i, own, y, bottom - TOP + SPACE);
    }
    nsi_html_close_picture(b);
}
