// Curves as SVG.

#include "page/chart.h"
#include "page/html.h"

#include <math.h>

// Lengths in the picture, which is narrow so that on a phone its letters stay readable.
static const double WIDTH = 400.0, LEFT = 48.0, RIGHT = 20.0;
static const double LINE = 14.0;  // from a line of text to the next
static const double LETTER = 5.6; // width of one, rather too much
static const double ONE_PANEL = 150.0, OF_SEVERAL = 84.0;
static const double SAMPLE = 18.0; // in the legend
enum {
    MOST_BUCKETS = 500, // of a series with more points than twice that, four are drawn of each
    LONGEST_NAME = 44   // in the legend
};

typedef struct drawing {
    nsi_text_builder* b;
    const nsi_lines* lines;
    nsi_scale x;
} drawing;

// ---- scales ------------------------------------------------------------------------------------

nsi_scale nsi_lines_x(const nsi_lines* lines) {
    nsi_scale x = nsi_scale_empty(lines->x_axis.log);
    for (uint32_t k = 0; k < lines->count; k++) nsi_scale_include(&x, lines->x[k]);
    nsi_scale_finish(&x, 0.0);
    return x;
}

nsi_scale nsi_lines_y(const nsi_lines* lines, const nsi_lines_panel* panel) {
    nsi_scale x = {.log = lines->x_axis.log}, y = nsi_scale_empty(panel->y.log);
    for (uint32_t s = 0; s < panel->nseries; s++) {
        for (uint32_t k = 0; k < lines->count; k++) {
            if (nsi_scale_shows(&x, lines->x[k])) nsi_scale_include(&y, panel->series[s].y[k]);
        }
    }
    nsi_scale_finish(&y, 0.04);
    return y;
}

// ---- legend ------------------------------------------------------------------------------------

bool nsi_lines_listed(const nsi_lines* l, uint32_t panel, uint32_t series) {
    const nsi_series* wanted = &l->panels[panel].series[series];
    if (!wanted->name) return false;
    for (uint32_t p = 0; p <= panel; p++) {
        for (uint32_t s = 0; s < l->panels[p].nseries; s++) {
            const nsi_series* other = &l->panels[p].series[s];
            if (p == panel && s == series) return true;
            if (other->name && strcmp(other->class, wanted->class) == 0) return false;
        }
    }
    return true;
}

static double name_width(const char* name) {
    double letters = 0.0;
    uint32_t code, count = 0;
    for (; *name && count < LONGEST_NAME; count++) {
        name += nsi_show_next(name, &code);
        letters += nsi_show_columns(code);
    }
    return letters * LETTER;
}

// Lay out the legend, and draw it if `b` is not NULL; its height.
static double add_legend(nsi_text_builder* b, const nsi_lines* l) {
    double x = LEFT, y = LINE;
    uint32_t count = 0;
    for (uint32_t p = 0; p < l->npanel; p++) {
        for (uint32_t s = 0; s < l->panels[p].nseries; s++) {
            const nsi_series* series = &l->panels[p].series[s];
            if (!nsi_lines_listed(l, p, s)) continue;
            double width = SAMPLE + 4.0 + name_width(series->name) + 12.0;
            if (x > LEFT && x + width > WIDTH) x = LEFT, y += LINE;
            if (b) {
                nsi_text_add(b, "<path class=\"curve %s\" d=\"M%s %sh%s\"/>\n", series->class,
                             nsi_page_length(x).text, nsi_page_length(y - 3.5).text,
                             nsi_page_length(SAMPLE).text);
                nsi_page_name(b, "", x + SAMPLE + 4.0, y, series->name, LONGEST_NAME);
            }
            x += width;
            count++;
        }
    }
    return count > 0 ? y + 4.0 : 0.0;
}

// ---- curves ------------------------------------------------------------------------------------

typedef struct pen {
    const drawing* d;
    const nsi_scale* y;
    const nsi_series* series;
    uint32_t first, count; // of the piece that is being drawn
} pen;

static bool is_point(const pen* p, uint32_t k) {
    return nsi_scale_shows(&p->d->x, p->d->lines->x[k]) && nsi_scale_shows(p->y, p->series->y[k]);
}

static double x_of(const pen* p, uint32_t k) {
    return nsi_scale_place(&p->d->x, p->d->lines->x[k]);
}

static double y_of(const pen* p, uint32_t k) {
    return nsi_scale_place(p->y, p->series->y[k]);
}

static void add_point(const pen* p, uint32_t k) {
    nsi_text_add(p->d->b, "%s,%s ", nsi_page_length(x_of(p, k)).text,
                 nsi_page_length(y_of(p, k)).text);
}

// First, lowest, highest and last of a bucket, in their order: what is left out cannot be seen.
static void add_bucket(const pen* p, uint32_t from, uint32_t to) {
    uint32_t chosen[4] = {from, from, from, to - 1};
    for (uint32_t k = from; k < to; k++) {
        if (p->series->y[k] < p->series->y[chosen[1]]) chosen[1] = k;
        if (p->series->y[k] > p->series->y[chosen[2]]) chosen[2] = k;
    }
    if (chosen[1] > chosen[2]) {
        uint32_t kept = chosen[1];
        chosen[1] = chosen[2];
        chosen[2] = kept;
    }
    for (int k = 0; k < 4; k++) {
        if (k == 0 || chosen[k] != chosen[k - 1]) add_point(p, chosen[k]);
    }
}

static void add_piece(const pen* p) {
    nsi_text_builder* b = p->d->b;
    if (p->count == 0) return;
    if (p->count == 1) {
        nsi_text_add(b, "<circle class=\"curve %s\" cx=\"%s\" cy=\"%s\" r=\"1.5\"/>\n",
                     p->series->class, nsi_page_length(x_of(p, p->first)).text,
                     nsi_page_length(y_of(p, p->first)).text);
        return;
    }
    // Buckets are those of all points, so that pieces are thinned alike.
    uint32_t stride = p->d->lines->count / MOST_BUCKETS, end = p->first + p->count;
    if (stride < 2) stride = 1;
    nsi_text_add(b, "<polyline class=\"curve %s\" points=\"", p->series->class);
    for (uint32_t k = p->first; k < end; k += stride) {
        add_bucket(p, k, end - k < stride ? end : k + stride);
    }
    nsi_text_add(b, "\"/>\n");
    for (uint32_t k = p->first; p->d->lines->points && k < end; k++) {
        nsi_text_add(b, "<circle class=\"curve %s\" cx=\"%s\" cy=\"%s\" r=\"1.5\"/>\n",
                     p->series->class, nsi_page_length(x_of(p, k)).text,
                     nsi_page_length(y_of(p, k)).text);
    }
}

static void add_series(const drawing* d, const nsi_scale* y, const nsi_series* series) {
    const nsi_lines* l = d->lines;
    pen p = {.d = d, .y = y, .series = series};
    for (uint32_t k = 0; k < l->count; k++) {
        bool point = is_point(&p, k), fresh = !point || (l->breaks && l->breaks[k]);
        if (fresh) {
            add_piece(&p);
            p.count = 0;
        }
        if (!point) continue;
        if (p.count++ == 0) p.first = k;
    }
    add_piece(&p);
}

// ---- panels ------------------------------------------------------------------------------------

// A label that has so much room, if that is enough for a few letters.
static void add_fitting(nsi_text_builder* b, double x, double y, double room, const char* label) {
    uint32_t most = (uint32_t)fmax(0.0, room / LETTER);
    if (label && most >= 3) nsi_page_name(b, "faint", x, y, label, most);
}

static double clamp_to(const nsi_scale* x, double value) {
    return nsi_scale_shows(x, value) ? fmax(x->from, fmin(x->to, nsi_scale_place(x, value)))
                                     : x->from;
}

static void add_spans(const drawing* d, double top, double bottom, bool labelled) {
    const nsi_lines* l = d->lines;
    for (uint32_t k = 0; k < l->nspan; k++) {
        double from = clamp_to(&d->x, l->spans[k].from), to = clamp_to(&d->x, l->spans[k].to);
        nsi_text_add(d->b, "<rect class=\"span\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>\n",
                     nsi_page_length(from).text, nsi_page_length(top).text,
                     nsi_page_length(to - from).text, nsi_page_length(bottom - top).text);
        if (labelled) add_fitting(d->b, from + 3.0, top + 10.0, to - from - 3.0, l->spans[k].label);
    }
}

static void add_marks(const drawing* d, double top, double bottom, bool labelled) {
    const nsi_lines* l = d->lines;
    for (uint32_t k = 0; k < l->nmark; k++) {
        if (!nsi_scale_shows(&d->x, l->marks[k].x)) continue;
        double x = clamp_to(&d->x, l->marks[k].x), room = d->x.to - x;
        if (x > d->x.from + 0.5) nsi_page_line(d->b, "dash", x, top, x, bottom);
        if (k + 1 < l->nmark) room = clamp_to(&d->x, l->marks[k + 1].x) - x;
        if (labelled) add_fitting(d->b, x + 3.0, top + 10.0, room - 3.0, l->marks[k].label);
    }
}

static void add_panel(const drawing* d, const nsi_lines_panel* panel, double top, double bottom,
                      bool first) {
    nsi_text_builder* b = d->b;
    nsi_scale y = nsi_lines_y(d->lines, panel);
    y.from = bottom;
    y.to = top;
    add_spans(d, top, bottom, first);
    nsi_ticks ticks = nsi_scale_ticks(&y, bottom - top > OF_SEVERAL ? 5 : 3);
    for (uint32_t k = 0; k < ticks.count; k++) {
        double at = nsi_scale_place(&y, ticks.value[k]);
        nsi_page_line(b, "grid", LEFT, at, WIDTH - RIGHT, at);
        nsi_page_label(b, "e", LEFT - 4.0, at + 3.5, ticks.label[k].text);
    }
    ticks = nsi_scale_ticks(&d->x, 6);
    for (uint32_t k = 0; k < ticks.count; k++) {
        double at = nsi_scale_place(&d->x, ticks.value[k]);
        nsi_page_line(b, "grid", at, top, at, bottom);
    }
    add_marks(d, top, bottom, first);
    for (uint32_t s = 0; s < panel->nseries; s++) add_series(d, &y, &panel->series[s]);
    nsi_page_line(b, "ink", LEFT, bottom, WIDTH - RIGHT, bottom);
    nsi_page_line(b, "ink", LEFT, top, LEFT, bottom);
    if (panel->y.label) nsi_page_name(b, "faint", LEFT, top - 4.0, panel->y.label, 60);
}

void nsi_lines_draw(nsi_text_builder* b, const nsi_lines* lines, const char* title) {
    double legend = add_legend(NULL, lines), panel = lines->npanel > 1 ? OF_SEVERAL : ONE_PANEL;
    double one = panel + LINE + 4.0, height = legend + lines->npanel * one + 2.0 * LINE + 2.0;
    drawing d = {.b = b, .lines = lines, .x = nsi_lines_x(lines)};
    d.x.from = LEFT;
    d.x.to = WIDTH - RIGHT;
    nsi_page_open_picture(b, "", title, WIDTH, height);
    add_legend(b, lines);
    double top = legend + LINE;
    for (uint32_t k = 0; k < lines->npanel; k++, top += one) {
        add_panel(&d, &lines->panels[k], top, top + panel, k == 0);
    }
    double bottom = legend + lines->npanel * one - 4.0;
    nsi_ticks ticks = nsi_scale_ticks(&d.x, 6);
    for (uint32_t k = 0; k < ticks.count; k++) {
        double at = nsi_scale_place(&d.x, ticks.value[k]);
        nsi_page_label(b, "m", at, bottom + 12.0, ticks.label[k].text);
    }
    nsi_page_label(b, "m", (LEFT + WIDTH - RIGHT) / 2.0, bottom + 12.0 + LINE, lines->x_axis.label);
    nsi_page_close_picture(b);
}
