// Heat maps.

#include "heatmap.h"

#include "page/show.h"

#include <math.h>
#include <stdio.h>

// Viridis (van der Walt and Smith 2015) at sixths: even to all eyes, also in grey.
static const uint8_t colours[][3] = {{68, 1, 84},    {65, 68, 135},  {42, 120, 142}, {34, 168, 132},
                                     {122, 209, 81}, {189, 223, 38}, {253, 231, 37}};
enum { COLOURS = sizeof colours / sizeof *colours };

// Lengths in the picture.
static const double SIDE = 150.0, TOP = 22.0, LEFT = 38.0, GAP = 48.0, WIDTH = 400.0,
                    HEIGHT = 236.0;

static const char* at(double length, nsi_shown* out) {
    *out = nsi_show_short(length, 5);
    return out->text;
}

static void add_colour(nsi_text_builder* b, double share) {
    if (!(share < 1.0)) share = 1.0; // NaN, too
    double place = share * (COLOURS - 1);
    int k = (int)fmin(floor(place), COLOURS - 2);
    int mixed[3];
    for (int i = 0; i < 3; i++) {
        mixed[i] = (int)lrint(colours[k][i] + (place - k) * (colours[k + 1][i] - colours[k][i]));
    }
    nsi_text_add(b, "#%02x%02x%02x", (unsigned)mixed[0], (unsigned)mixed[1], (unsigned)mixed[2]);
}

static void add_box(nsi_text_builder* b, const char* class, double x, double y, double width,
                    double height, double share) {
    nsi_shown s[4];
    nsi_text_add(b, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"",
                 class, at(x, &s[0]), at(y, &s[1]), at(width, &s[2]), at(height, &s[3]));
    add_colour(b, share);
    nsi_text_add(b, "\"");
}

static void add_label(nsi_text_builder* b, const char* anchor, double x, double y,
                      const char* text) {
    nsi_shown s[2];
    nsi_text_add(b, "<text text-anchor=\"%s\" x=\"%s\" y=\"%s\">%s</text>\n", anchor, at(x, &s[0]),
                 at(y, &s[1]), text);
}

static void add_star(nsi_text_builder* b, double x, double y) {
    nsi_text_add(b, "<polygon fill=\"#fff\" stroke=\"#000\" stroke-width=\"0.7\" points=\"");
    for (int k = 0; k < 10; k++) {
        double angle = k * acos(-1.0) / 5.0, radius = k % 2 == 0 ? 7.0 : 2.9;
        nsi_shown s[2];
        nsi_text_add(b, "%s,%s ", at(x + radius * sin(angle), &s[0]),
                     at(y - radius * cos(angle), &s[1]));
    }
    nsi_text_add(b, "\"/>\n");
}

static void add_map(nsi_text_builder* b, const heatmap* m, int which, double left) {
    double cell = SIDE / m->cells;
    add_label(b, "middle", left + SIDE / 2.0, TOP - 8.0, m->titles[which]);
    for (uint32_t i = 0; i < m->cells; i++) {
        for (uint32_t k = 0; k < m->cells; k++) {
            double value = m->values[which][(size_t)i * m->cells + k];
            add_box(b, "cell", left + cell * k, TOP + SIDE - cell * (i + 1.0), cell, cell,
                    value / m->most);
            nsi_text_add(b, "><title>%s</title></rect>\n", nsi_show(value, 3).text);
        }
    }
    double step = m->cells > 1 ? (m->to - m->from) / (m->cells - 1.0) : 1.0;
    double low = m->from - step / 2.0, unit = cell / step; // lengths per value
    int ticks = (int)(floor(m->to + 1e-9) - ceil(m->from)) + 1;
    for (int k = 0; k < ticks; k++) {
        double tick = ceil(m->from) + k;
        nsi_shown s = nsi_show_short(tick, 3);
        add_label(b, "middle", left + (tick - low) * unit, TOP + SIDE + 12.0, s.text);
        add_label(b, "end", left - 4.0, TOP + SIDE - (tick - low) * unit + 3.5, s.text);
    }
    add_label(b, "middle", left + SIDE / 2.0, TOP + SIDE + 24.0, m->axes[0]);
    nsi_shown s[2];
    nsi_text_add(
        b, "<text text-anchor=\"middle\" transform=\"translate(%s,%s) rotate(-90)\">%s</text>\n",
        at(left - 20.0, &s[0]), at(TOP + SIDE / 2.0, &s[1]), m->axes[1]);
    add_star(b, left + (m->mark[0] - low) * unit, TOP + SIDE - (m->mark[1] - low) * unit);
}

void heatmap_add(nsi_text_builder* b, const heatmap* m) {
    nsi_shown s[2];
    nsi_text_add(b,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 %s %s\" "
                 "font-family=\"sans-serif\" font-size=\"10\"><title>%s, %s</title>\n",
                 at(WIDTH, &s[0]), at(HEIGHT, &s[1]), m->titles[0], m->titles[1]);
    add_map(b, m, 0, LEFT);
    add_map(b, m, 1, LEFT + SIDE + GAP);
    enum { SHADES = 30 };
    double width = (2.0 * SIDE + GAP) / SHADES, y = TOP + SIDE + 34.0;
    for (int k = 0; k < SHADES; k++) {
        add_box(b, "shade", LEFT + width * k, y, width, 8.0, (k + 0.5) / SHADES);
        nsi_text_add(b, "/>\n");
    }
    char most[80];
    snprintf(most, sizeof most, "%s or more", nsi_show_short(m->most, 3).text);
    add_label(b, "start", LEFT, y + 20.0, "0");
    add_label(b, "end", LEFT + width * SHADES, y + 20.0, most);
    nsi_text_add(b, "</svg>\n");
}
