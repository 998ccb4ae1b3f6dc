// Heat maps and matrices as SVG.

#include "report/figure_data.h"
#include "report/html.h"
#include "report/scale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- maps --------------------------------------------------------------------------------------

// Viridis (van der Walt and Smith 2015) at sixths: even to all eyes, also in grey.
static const uint8_t colours[][3] = {{68, 1, 84},    {65, 68, 135},  {42, 120, 142}, {34, 168, 132},
                                     {122, 209, 81}, {189, 223, 38}, {253, 231, 37}};
enum { COLOURS = sizeof colours / sizeof *colours };

// Lengths in the picture.
static const double TOP = 22.0, LEFT = 38.0, MAX_LEFT = 70.0, WIDTH = 400.0, RIGHT = 14.0;
static const double GAP = 10.0;   // between the first map and the labels of the second
static const double SCALE = 64.0; // height below the maps

static void add_colour(nsi_text_builder* b, double share) {
    share = share < 0.0 ? 0.0 : share < 1.0 ? share : 1.0; // NaN is the lightest, too
    double place = share * (COLOURS - 1);
    int k = (int)fmin(floor(place), COLOURS - 2);
    int mixed[3];
    for (int i = 0; i < 3; i++) {
        mixed[i] = (int)lrint(colours[k][i] + (place - k) * (colours[k + 1][i] - colours[k][i]));
    }
    nsi_text_add(b, "#%02x%02x%02x", (unsigned)mixed[0], (unsigned)mixed[1], (unsigned)mixed[2]);
}

static void open_box(nsi_text_builder* b, const char* class, double x, double y, double width,
                     double height, double share) {
    nsi_text_add(b, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"",
                 class, nsi_html_length(x).text, nsi_html_length(y).text,
                 nsi_html_length(width).text, nsi_html_length(height).text);
    add_colour(b, share);
    nsi_text_add(b, "\">");
}

static void add_star(nsi_text_builder* b, double x, double y) {
    nsi_text_add(b, "<polygon fill=\"#fff\" stroke=\"#000\" stroke-width=\"0.7\" points=\"");
    for (int k = 0; k < 10; k++) {
        double angle = k * acos(-1.0) / 5.0, radius = k % 2 == 0 ? 7.0 : 2.9;
        nsi_text_add(b, "%s,%s ", nsi_html_length(x + radius * sin(angle)).text,
                     nsi_html_length(y - radius * cos(angle)).text);
    }
    nsi_text_add(b, "\"/>\n");
}

// The axes, without places.
static nsi_scale heatmap_scale(const ns_heatmap* m) {
    double step = m->cells > 1 ? (m->to - m->from) / (m->cells - 1.0) : 1.0;
    return (nsi_scale){.low = m->from - step / 2.0, .high = m->from + step * (m->cells - 0.5)};
}

// Room for the labels of the vertical axis, and its name.
static double heatmap_label_room(const ns_heatmap* m) {
    nsi_scale y = heatmap_scale(m);
    nsi_ticks ticks = nsi_scale_ticks(&y, 6);
    double room = LEFT;
    for (uint32_t k = 0; k < ticks.count; k++) {
        room = fmax(room, nsi_html_width(ticks.label[k].text) + 20.0);
    }
    return fmin(room, MAX_LEFT);
}

static void add_map(nsi_text_builder* b, const ns_heatmap* m, int which, double left, double room,
                    double side) {
    // Both maps have the same scale and size.
    double cell = side / m->cells;
    nsi_html_name(b, "m", left + side / 2.0, TOP - 8.0, m->titles[which], side + GAP);

    // Cells, row 0 at the bottom. The tooltip gives the number.
    for (uint32_t i = 0; i < m->cells; i++) {
        for (uint32_t k = 0; k < m->cells; k++) {
            double value = m->values[which][(size_t)i * m->cells + k];
            open_box(b, "cell", left + cell * k, TOP + side - cell * (i + 1.0), cell, cell,
                     value / m->max);
            nsi_text_add(b, "<title>%s</title></rect>\n", nsi_format(value, 3).text);
        }
    }

    // Ticks along both axes, which have the same range.
    nsi_scale x = heatmap_scale(m), y = x;
    x.from = left;
    x.to = left + side;
    // Screen coordinates point down.
    y.from = TOP + side;
    y.to = TOP;
    nsi_ticks ticks = nsi_scale_ticks(&y, 6);
    for (uint32_t k = 0; k < ticks.count; k++) {
        nsi_html_label(b, "e", left - 4.0, nsi_scale_place(&y, ticks.value[k]) + 3.5,
                       ticks.label[k].text);
    }

    // Ticks of x need room for their labels' width.
    ticks = nsi_html_ticks(&x, 6);
    for (uint32_t k = 0; k < ticks.count; k++) {
        nsi_html_label(b, "m", nsi_scale_place(&x, ticks.value[k]), TOP + side + 12.0,
                       ticks.label[k].text);
    }

    // Axis labels, the vertical one rotated.
    nsi_html_name(b, "m", left + side / 2.0, TOP + side + 24.0, m->axes[0], side + GAP);
    nsi_text_add(b, "<text class=\"m\" transform=\"translate(%s,%s) rotate(-90)\">",
                 nsi_html_length(left - room + 12.0).text, nsi_html_length(TOP + side / 2.0).text);
    nsi_html_fit(b, m->axes[1], side + GAP);
    nsi_text_add(b, "</text>\n");

    // A star marks the true values.
    add_star(b, nsi_scale_place(&x, m->mark[0]), nsi_scale_place(&y, m->mark[1]));
}

void nsi_heatmap_draw(nsi_text_builder* b, const ns_heatmap* m, const char* title) {
    double room = heatmap_label_room(m), side = 0.5 * (WIDTH - 2.0 * room - GAP - RIGHT);
    nsi_html_open_picture(b, "", title, WIDTH, TOP + side + SCALE);
    add_map(b, m, 0, room, room, side);
    add_map(b, m, 1, 2.0 * room + side + GAP, room, side);
    enum { SHADES = 30 };
    double width = (WIDTH - RIGHT - room) / SHADES, y = TOP + side + 34.0;
    for (int k = 0; k < SHADES; k++) {
        // A little wider, so that no gap shows between them.
        open_box(b, "shade", room + width * k, y, k + 1 < SHADES ? width + 0.5 : width, 8.0,
                 (k + 0.5) / SHADES);
        nsi_text_add(b, "</rect>\n");
    }
    char most[80];
    snprintf(most, sizeof most, "%s or more", nsi_format_short(m->max, 3).text);
    nsi_html_label(b, "", room, y + 20.0, "0");
    nsi_html_label(b, "e", room + width * SHADES, y + 20.0, most);
    nsi_html_close_picture(b);
}

// ---- matrices ----------------------------------------------------------------------------------

static const double NAMES = 150.0; // room at the left
static const double EDGE = 4.0;    // above all

static const char* colour_of(double value) {
    return value < 0.0 ? "red" : "blue";
}

static void add_matrix_legend(nsi_text_builder* b, double x, double y) {
    for (int k = -4; k <= 4; k++) {
        nsi_html_bar(b, colour_of(k), x + 20.0 * (k + 4), y, 20.0, 10.0, abs(k) / 4.0);
        if (k % 2 == 0) {
            nsi_html_label(b, "m", x + 20.0 * (k + 4) + 10.0, y + 21.0,
                           nsi_html_length(k / 4.0).text);
        }
    }
}

void nsi_matrix_chart_draw(nsi_text_builder* b, const ns_matrix_chart* m, const char* title) {
    double cell = fmax(10.0, fmin(20.0, (WIDTH - NAMES) / m->n));
    double width = fmax(WIDTH, NAMES + m->n * cell);
    nsi_html_open_picture(b, "", title, width, EDGE + m->n * cell + 40.0);
    for (uint32_t i = 0; i < m->n; i++) {
        nsi_html_name(b, "e", NAMES - 4.0, EDGE + cell * (i + 0.5) + 3.5, m->names[i], NAMES - 8.0);
        for (uint32_t k = 0; k <= i; k++) {
            double value = m->values[(size_t)i * m->stride + k];
            if (isnan(value)) continue;
            nsi_html_open_bar(b, colour_of(value), NAMES + cell * k, EDGE + cell * i, cell - 1.0,
                              cell - 1.0, fmin(fabs(value), 1.0));
            nsi_text_add(b, "<title>");
            nsi_html_text(b, m->names[i]);
            nsi_text_add(b, ", ");
            nsi_html_text(b, m->names[k]);
            nsi_text_add(b, ": %s</title></rect>\n", nsi_format(value, 3).text);
        }
    }
    add_matrix_legend(b, NAMES, EDGE + m->n * cell + 12.0);
    nsi_html_close_picture(b);
}
