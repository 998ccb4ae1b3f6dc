// Curves as SVG.

#include "report/figure_data.h"
#include "report/html.h"

#include <math.h>

// Lengths in the picture, which is narrow so that on a phone its letters stay readable.
static const double WIDTH = 400.0, LEFT = 48.0, MAX_LEFT = 130.0, RIGHT = 20.0;
static const double LINE = 14.0; // from a line of text to the next
static const double ONE_PANEL = 150.0, OF_SEVERAL = 84.0;
enum { MAX_BUCKETS = 500 }; // of a series with more points than twice that, four are drawn of each

typedef struct drawing {
    nsi_text_builder* b;
    const ns_line_chart* lines;
    nsi_scale x;
    double panel; // height of one
} drawing;

// ---- scales ------------------------------------------------------------------------------------

nsi_scale nsi_line_chart_x(const ns_line_chart* lines) {
    nsi_scale x = nsi_scale_empty(lines->x_axis.log);
    for (uint32_t k = 0; k < lines->count; k++) nsi_scale_include(&x, lines->x[k]);
    nsi_scale_finish(&x, 0.0);
    return x;
}

nsi_scale nsi_line_chart_y(const ns_line_chart* lines, const ns_line_panel* panel) {
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

bool nsi_line_chart_listed(const ns_line_chart* l, uint32_t panel, uint32_t series) {
    const ns_line_series* wanted = &l->panels[panel].series[series];
    if (!wanted->name) return false;
    for (uint32_t p = 0; p <= panel; p++) {
        for (uint32_t s = 0; s < l->panels[p].nseries; s++) {
            const ns_line_series* other = &l->panels[p].series[s];
            if (p == panel && s == series) return true;
            if (other->name && strcmp(other->line_style, wanted->line_style) == 0) return false;
        }
    }
    return true;
}

// Lay out the legend, and draw it if `b` is not NULL; its height.
static double line_legend(nsi_text_builder* b, const ns_line_chart* l) {
    nsi_legend legend = {.b = b, .left = LEFT, .right = WIDTH};
    for (uint32_t p = 0; p < l->npanel; p++) {
        for (uint32_t s = 0; s < l->panels[p].nseries; s++) {
            const ns_line_series* series = &l->panels[p].series[s];
            if (nsi_line_chart_listed(l, p, s))
                nsi_legend_add(&legend, series->name, series->line_style);
        }
    }
    return legend.height;
}

// ---- curves ------------------------------------------------------------------------------------

typedef struct pen {
    const drawing* d;
    const nsi_scale* y;
    const ns_line_series* series;
    uint32_t first, end, count; // of the piece that is being drawn; count: of its points
} pen;

// Points of a bucket. Buckets are those of all points, so that pieces are thinned alike.
static uint32_t stride_of(const ns_line_chart* l) {
    uint32_t stride = l->count / MAX_BUCKETS;
    return stride < 2 ? 1 : stride;
}

static bool is_point(const pen* p, uint32_t k) {
    return nsi_scale_shows(&p->d->x, p->d->lines->x[k]) && nsi_scale_shows(p->y, p->series->y[k]);
}

static double x_of(const pen* p, uint32_t k) {
    return nsi_scale_place(&p->d->x, p->d->lines->x[k]);
}

static double y_of(const pen* p, uint32_t k) {
    return nsi_scale_place(p->y, p->series->y[k]);
}

static void line_point(const pen* p, uint32_t k) {
    nsi_text_add(p->d->b, "%s,%s ", nsi_html_length(x_of(p, k)).text,
                 nsi_html_length(y_of(p, k)).text);
}

// First, lowest, highest and last of a bucket, in their order: what is left out cannot be seen.
static void add_bucket(const pen* p, uint32_t from, uint32_t to) {
    while (from < to && !is_point(p, from)) from++;
    if (from == to) return;
    uint32_t chosen[4] = {from, from, from, from};
    for (uint32_t k = from; k < to; k++) {
        if (!is_point(p, k)) continue;
        if (p->series->y[k] < p->series->y[chosen[1]]) chosen[1] = k;
        if (p->series->y[k] > p->series->y[chosen[2]]) chosen[2] = k;
        chosen[3] = k;
    }
    if (chosen[1] > chosen[2]) {
        uint32_t kept = chosen[1];
        chosen[1] = chosen[2];
        chosen[2] = kept;
    }
    for (int k = 0; k < 4; k++) {
        if (k == 0 || chosen[k] != chosen[k - 1]) line_point(p, chosen[k]);
    }
}

static void add_piece(const pen* p) {
    nsi_text_builder* b = p->d->b;
    if (p->count == 0) return;
    if (p->count == 1) {
        nsi_text_add(b, "<circle class=\"curve %s\" cx=\"%s\" cy=\"%s\" r=\"1.5\"/>\n",
                     p->series->line_style, nsi_html_length(x_of(p, p->first)).text,
                     nsi_html_length(y_of(p, p->first)).text);
        return;
    }
    uint32_t stride = stride_of(p->d->lines), end = p->end;
    nsi_text_add(b, "<polyline class=\"curve %s\" points=\"", p->series->line_style);
    for (uint32_t k = p->first; k < end; k += stride) {
        add_bucket(p, k, end - k < stride ? end : k + stride);
    }
    nsi_text_add(b, "\"/>\n");
    for (uint32_t k = p->first; p->d->lines->points && k < end; k++) {
        if (!is_point(p, k)) continue;
        nsi_text_add(b, "<circle class=\"curve %s\" cx=\"%s\" cy=\"%s\" r=\"1.5\"/>\n",
                     p->series->line_style, nsi_html_length(x_of(p, k)).text,
                     nsi_html_length(y_of(p, k)).text);
    }
}

static void line_series(const drawing* d, const nsi_scale* y, const ns_line_series* series) {
    const ns_line_chart* l = d->lines;
    pen p = {.d = d, .y = y, .series = series};
    uint32_t stride = stride_of(l), missing = 0;
    for (uint32_t k = 0; k < l->count; k++) {
        bool point = is_point(&p, k);
        missing = point ? missing : missing + 1;
        // A gap that is shorter than a bucket cannot be seen.
        if ((l->breaks && l->breaks[k]) || (missing >= stride && p.count > 0)) {
            add_piece(&p);
            p.count = 0;
        }
        if (!point) continue;
        missing = 0;
        if (p.count++ == 0) p.first = k;
        p.end = k + 1;
    }
    add_piece(&p);
}

// ---- panels ------------------------------------------------------------------------------------

// A label that has so much room, if that is enough for a few letters.
static void add_fitting(nsi_text_builder* b, double x, double y, double room, const char* label) {
    static const double FEW = 25.0;
    if (label && room >= fmin(FEW, nsi_html_width(label))) {
        nsi_html_name(b, "faint", x, y, label, room);
    }
}

static double clamp_to(const nsi_scale* x, double value) {
    return nsi_scale_shows(x, value) ? fmax(x->from, fmin(x->to, nsi_scale_place(x, value)))
                                     : x->from;
}

static void line_spans(const drawing* d, double top, double bottom, bool labelled) {
    const ns_line_chart* l = d->lines;
    for (uint32_t k = 0; k < l->nspan; k++) {
        if (!(l->spans[k].from <= l->spans[k].to)) continue;
        double from = clamp_to(&d->x, l->spans[k].from), to = clamp_to(&d->x, l->spans[k].to);
        nsi_text_add(d->b, "<rect class=\"span\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>\n",
                     nsi_html_length(from).text, nsi_html_length(top).text,
                     nsi_html_length(to - from).text, nsi_html_length(bottom - top).text);
        if (labelled) add_fitting(d->b, from + 3.0, top + 10.0, to - from - 3.0, l->spans[k].label);
    }
}

static void add_marks(const drawing* d, double top, double bottom, bool labelled) {
    const ns_line_chart* l = d->lines;
    double last = d->x.from; // the axis; lines nearer than a pixel are one
    for (uint32_t k = 0; k < l->nmark; k++) {
        if (!nsi_scale_shows(&d->x, l->marks[k].x)) continue;
        double x = clamp_to(&d->x, l->marks[k].x), room = d->x.to - x;
        if (fabs(x - last) >= 1.0) nsi_html_line(d->b, "dash", x, top, x, bottom), last = x;
        if (k + 1 < l->nmark) room = clamp_to(&d->x, l->marks[k + 1].x) - x;
        if (labelled) add_fitting(d->b, x + 3.0, top + 10.0, room - 3.0, l->marks[k].label);
    }
}

static nsi_ticks line_y_ticks(const drawing* d, const nsi_scale* y) {
    return nsi_scale_ticks(y, d->panel > OF_SEVERAL ? 5 : 3);
}

// Where panels begin: behind the widest label.
static double find_left(const drawing* d) {
    double left = LEFT;
    for (uint32_t n = 0; n < d->lines->npanel; n++) {
        nsi_scale y = nsi_line_chart_y(d->lines, &d->lines->panels[n]);
        nsi_ticks ticks = line_y_ticks(d, &y);
        for (uint32_t k = 0; k < ticks.count; k++) {
            left = fmax(left, nsi_html_width(ticks.label[k].text) + 6.0);
        }
    }
    return fmin(left, MAX_LEFT);
}

static void line_panel(const drawing* d, const ns_line_panel* panel, double top, bool first) {
    nsi_text_builder* b = d->b;
    nsi_scale y = nsi_line_chart_y(d->lines, panel);
    double left = d->x.from, bottom = top + d->panel;
    y.from = bottom;
    y.to = top;
    line_spans(d, top, bottom, first);
    nsi_ticks ticks = line_y_ticks(d, &y);
    for (uint32_t k = 0; k < ticks.count; k++) {
        double at = nsi_scale_place(&y, ticks.value[k]);
        nsi_html_line(b, "grid", left, at, WIDTH - RIGHT, at);
        nsi_html_label(b, "e", left - 4.0, at + 3.5, ticks.label[k].text);
    }
    ticks = nsi_html_ticks(&d->x, 6);
    for (uint32_t k = 0; k < ticks.count; k++) {
        double at = nsi_scale_place(&d->x, ticks.value[k]);
        nsi_html_line(b, "grid", at, top, at, bottom);
    }
    add_marks(d, top, bottom, first);
    for (uint32_t s = 0; s < panel->nseries; s++) line_series(d, &y, &panel->series[s]);
    nsi_html_line(b, "ink", left, bottom, WIDTH - RIGHT, bottom);
    nsi_html_line(b, "ink", left, top, left, bottom);
    if (panel->y.label) {
        nsi_html_name(b, "faint", left, top - 4.0, panel->y.label, WIDTH - left - 4.0);
    }
}

void nsi_line_chart_draw(nsi_text_builder* b, const ns_line_chart* lines, const char* title) {
    double legend = line_legend(NULL, lines);
    drawing d = {.b = b, .lines = lines, .x = nsi_line_chart_x(lines)};
    d.panel = lines->npanel > 1 ? OF_SEVERAL : ONE_PANEL;
    double one = d.panel + LINE + 4.0, height = legend + lines->npanel * one + 2.0 * LINE + 2.0;
    d.x.from = find_left(&d);
    d.x.to = WIDTH - RIGHT;
    nsi_html_open_picture(b, "", title, WIDTH, height);
    line_legend(b, lines);
    double top = legend + LINE;
    for (uint32_t k = 0; k < lines->npanel; k++, top += one) {
        line_panel(&d, &lines->panels[k], top, k == 0);
    }
    double bottom = legend + lines->npanel * one - 4.0;
    nsi_ticks ticks = nsi_html_ticks(&d.x, 6);
    for (uint32_t k = 0; k < ticks.count; k++) {
        double most = WIDTH - 0.5 * nsi_html_width(ticks.label[k].text);
        double at = fmin(nsi_scale_place(&d.x, ticks.value[k]), most);
        nsi_html_label(b, "m", at, bottom + 12.0, ticks.label[k].text);
    }
    nsi_html_label(b, "m", (d.x.from + d.x.to) / 2.0, bottom + 12.0 + LINE, lines->x_axis.label);
    nsi_html_close_picture(b);
}
