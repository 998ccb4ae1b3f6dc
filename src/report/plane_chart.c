// Drawings in the plane as SVG: paths and outlines, with the same scale both ways.

#include "report/figure_data.h"
#include "report/html.h"

#include <math.h>
#include <stdio.h>

// Lengths in the picture.
static const double WIDTH = 400.0, LINE = 14.0, GAP = 8.0, BAR = 22.0;
enum { IN_A_ROW = 3, MAX_POINTS = 400 };

// What a panel shows, and how large.
typedef struct view {
    double x0, y0; // the middle
    double scale;  // of a length in the picture
    double left, top, side;
} view;

static bool is_there(double x, double y) {
    return isfinite(x) && isfinite(y);
}

static view look_at(const ns_plane_panel* p, double left, double top, double side) {
    nsi_scale x = nsi_scale_empty(false), y = x;
    for (uint32_t c = 0; c < p->ncurve; c++) {
        for (uint32_t k = 0; k < p->curves[c].count; k++) {
            if (!is_there(p->curves[c].x[k], p->curves[c].y[k])) continue;
            nsi_scale_include(&x, p->curves[c].x[k]);
            nsi_scale_include(&y, p->curves[c].y[k]);
        }
    }
    for (uint32_t k = 0; k < p->ndot; k++) {
        nsi_scale_include(&x, p->dots[k].x);
        nsi_scale_include(&y, p->dots[k].y);
    }
    nsi_scale_finish(&x, 0.06);
    nsi_scale_finish(&y, 0.06);
    double size = fmax(x.high - x.low, y.high - y.low);
    return (view){.x0 = 0.5 * (x.low + x.high),
                  .y0 = 0.5 * (y.low + y.high),
                  .scale = side / size,
                  .left = left,
                  .top = top,
                  .side = side};
}

static double place_x(const view* v, double x) {
    return v->left + 0.5 * v->side + (x - v->x0) * v->scale;
}

static double place_y(const view* v, double y) {
    return v->top + 0.5 * v->side - (y - v->y0) * v->scale;
}

// Pieces between what is missing; of very many points some.
static void add_curve(nsi_text_builder* b, const view* v, const ns_plane_curve* c) {
    uint32_t stride = c->count / MAX_POINTS + 1, k = 0;
    const char* tag = c->closed ? "polygon" : "polyline";
    while (k < c->count) {
        while (k < c->count && !is_there(c->x[k], c->y[k])) k++;
        if (k == c->count) return;
        nsi_text_add(b, "<%s class=\"curve %s\" points=\"", tag, c->line_style);
        for (; k < c->count && is_there(c->x[k], c->y[k]); k++) {
            bool last = k + 1 == c->count || !is_there(c->x[k + 1], c->y[k + 1]);
            if (k % stride != 0 && !last) continue;
            nsi_text_add(b, "%s,%s ", nsi_html_length(place_x(v, c->x[k])).text,
                         nsi_html_length(place_y(v, c->y[k])).text);
        }
        nsi_text_add(b, "\"/>\n");
    }
}

// A disc whose area is its value.
static void add_dot(nsi_text_builder* b, const view* v, const ns_plane_dot* d, double most) {
    if (!is_there(d->x, d->y) || !(d->size > 0.0)) return;
    double radius = 0.08 * v->side * sqrt(fmin(d->size / most, 1.0));
    nsi_text_add(b,
                 "<circle class=\"blue\" cx=\"%s\" cy=\"%s\" r=\"%s\" fill-opacity=\"0.7\"><title>",
                 nsi_html_length(place_x(v, d->x)).text, nsi_html_length(place_y(v, d->y)).text,
                 nsi_html_length(radius).text);
    nsi_html_text(b, d->name);
    nsi_text_add(b, ": %s</title></circle>\n", nsi_format(d->size, 3).text);
}

// A bar of a round length: 1, 2 or 5 times a power of ten, at most half as wide as the panel.
static void add_scale_bar(nsi_text_builder* b, const view* v, const char* unit) {
    double most = 0.5 * v->side / v->scale, power = pow(10.0, floor(log10(most)));
    double length = most >= 5.0 * power ? 5.0 * power : most >= 2.0 * power ? 2.0 * power : power;
    double x = v->left + 4.0, y = v->top + v->side + 8.0;
    char text[80];
    snprintf(text, sizeof text, "%s %.20s", nsi_format_short(length, 3).text, unit);
    nsi_html_line(b, "ink", x, y, x + length * v->scale, y);
    nsi_html_label(b, "faint", x, y + 11.0, text);
}

static bool plane_is_listed(const ns_plane_chart* p, uint32_t panel, uint32_t curve) {
    const ns_plane_curve* wanted = &p->panels[panel].curves[curve];
    if (!wanted->name) return false;
    for (uint32_t n = 0; n <= panel; n++) {
        for (uint32_t c = 0; c < p->panels[n].ncurve; c++) {
            const ns_plane_curve* other = &p->panels[n].curves[c];
            if (n == panel && c == curve) return true;
            if (other->name && strcmp(other->line_style, wanted->line_style) == 0) return false;
        }
    }
    return true;
}

// Lay out the legend, and draw it if `b` is not NULL; its height.
static double plane_legend(nsi_text_builder* b, const ns_plane_chart* p) {
    nsi_legend legend = {.b = b, .left = GAP, .right = WIDTH};
    for (uint32_t n = 0; n < p->npanel; n++) {
        for (uint32_t c = 0; c < p->panels[n].ncurve; c++) {
            const ns_plane_curve* curve = &p->panels[n].curves[c];
            if (plane_is_listed(p, n, c)) nsi_legend_add(&legend, curve->name, curve->line_style);
        }
    }
    return legend.height;
}

void nsi_plane_chart_draw(nsi_text_builder* b, const ns_plane_chart* p, const char* title) {
    uint32_t across = p->npanel < IN_A_ROW ? (p->npanel > 0 ? p->npanel : 1) : IN_A_ROW;
    uint32_t rows = (p->npanel + across - 1) / across;
    double side = (WIDTH - GAP * (across + 1)) / across, legend = plane_legend(NULL, p);
    double row = LINE + side + BAR + GAP;
    if (side > 0.6 * WIDTH) side = 0.6 * WIDTH, row = LINE + side + BAR + GAP;
    nsi_html_open_picture(b, "", title, WIDTH, legend + row * (rows > 0 ? rows : 1));
    plane_legend(b, p);
    for (uint32_t n = 0; n < p->npanel; n++) {
        const ns_plane_panel* panel = &p->panels[n];
        const uint32_t line = n / across, column = n % across;
        double left = GAP + (side + GAP) * column, top = legend + LINE + row * line;
        view v = look_at(panel, left, top, side);
        nsi_html_name(b, "", left, top - 4.0, panel->title, side);
        for (uint32_t k = 0; k < panel->ndot; k++) add_dot(b, &v, &panel->dots[k], p->max);
        for (uint32_t c = 0; c < panel->ncurve; c++) add_curve(b, &v, &panel->curves[c]);
        add_scale_bar(b, &v, p->unit);
    }
    nsi_html_close_picture(b);
}
