// Charts in characters: curves of Braille dots, bars of blocks, maps of shades.

#include "report/figure_data.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_COLUMNS = 40 };

typedef struct page {
    nsi_text_builder* b;
    uint32_t columns;
    bool colour;
} page;

static void pad(const page* p, uint32_t from, uint32_t to) {
    if (from < to) nsi_text_add(p->b, "%*s", (int)(to - from), "");
}

static void end_line(const page* p) {
    nsi_text_builder* b = p->b;
    while (b->text.count > 0 && b->text.data[b->text.count - 1] == ' ') b->text.count--;
    nsi_text_add(b, "\n");
}

static void add_left(const page* p, const char* text, uint32_t width) {
    pad(p, nsi_format_clipped(p->b, text ? text : "", width), width);
}

static void add_right(const page* p, const char* text, uint32_t width) {
    uint32_t own = nsi_format_width(text);
    pad(p, own, width);
    nsi_format_clipped(p->b, text, width);
}

static uint32_t longest(const char* const* texts, uint32_t count, uint32_t most) {
    uint32_t width = 4;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t own = texts[k] ? nsi_format_width(texts[k]) : 0;
        if (own > width) width = own;
    }
    return width < most ? width : most;
}

// Room for names.
static uint32_t most_label(const page* p) {
    return p->columns / 3 < 26 ? p->columns / 3 : 26;
}

// ---- curves ------------------------------------------------------------------------------------

// Dots, two by four in each character, which has the colour of the last dot in it.
typedef struct canvas {
    uint32_t columns, rows;
    uint8_t *dots, *colours; // (rows x columns)
} canvas;

static void set_dot(canvas* c, long x, long y, uint8_t colour) {
    static const uint8_t bits[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
    if (x < 0 || y < 0 || x >= 2 * (long)c->columns || y >= 4 * (long)c->rows) return;
    size_t at = (size_t)(y / 4) * c->columns + (size_t)(x / 2);
    c->dots[at] |= bits[x % 2][y % 4];
    c->colours[at] = colour;
}

// How curves are told apart without colours: every n-th dot.
static const struct look {
    const char* line_style;
    uint8_t colour; // of ECMA-48: 39 is the terminal's own
    uint8_t period;
    const char* sample;
} looks[] = {
    {"c0", 34, 1, "\u2500\u2500\u2500"},       {"c1", 31, 2, "\u254c\u254c\u254c"},
    {"c2", 32, 3, "\u2508\u2508\u2508"},       {"c3", 35, 4, "\u00b7\u00b7\u00b7"},
    {"c4", 33, 1, "\u2500\u2500\u2500"},       {"c5", 36, 2, "\u254c\u254c\u254c"},
    {"c6", 39, 3, "\u2508\u2508\u2508"},       {"c7", 90, 4, "\u00b7\u00b7\u00b7"},
    {"recorded", 39, 1, "\u2500\u2500\u2500"}, {"before", 90, 4, "\u00b7\u00b7\u00b7"},
    {"after", 34, 2, "\u254c\u254c\u254c"},    {"other", 90, 4, "\u00b7\u00b7\u00b7"},
};

static const struct look* look_of(const char* line_style) {
    for (size_t k = 0; k < sizeof looks / sizeof *looks; k++) {
        if (strcmp(looks[k].line_style, line_style) == 0) return &looks[k];
    }
    return looks;
}

// Bresenham's line.
static void draw_line(canvas* c, long x0, long y0, long x1, long y1, const struct look* look,
                      uint32_t period, uint32_t* phase) {
    long dx = labs(x1 - x0), dy = -labs(y1 - y0), sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1;
    for (long off = dx + dy;;) {
        if ((*phase)++ % period == 0) set_dot(c, x0, y0, look->colour);
        if (x0 == x1 && y0 == y1) return;
        long twice = 2 * off;
        if (twice >= dy) off += dy, x0 += sx;
        if (twice <= dx) off += dx, y0 += sy;
    }
}

static void draw_series(canvas* c, const ns_line_chart* l, const nsi_scale* x, const nsi_scale* y,
                        const ns_line_series* series, bool plain) {
    const struct look* look = look_of(series->line_style);
    uint32_t phase = 0, period = plain ? look->period : 1;
    bool drawing = false;
    long last_x = 0, last_y = 0;
    for (uint32_t k = 0; k < l->count; k++) {
        if (!nsi_scale_shows(x, l->x[k]) || !nsi_scale_shows(y, series->y[k])) {
            drawing = false;
            continue;
        }
        if (l->breaks && l->breaks[k]) drawing = false;
        long at_x = lround(nsi_scale_place(x, l->x[k]));
        long at_y = lround(nsi_scale_place(y, series->y[k]));
        if (!drawing) {
            set_dot(c, at_x, at_y, look->colour);
        } else if (at_x != last_x || at_y != last_y) {
            draw_line(c, last_x, last_y, at_x, at_y, look, period, &phase);
        }
        drawing = true;
        last_x = at_x;
        last_y = at_y;
    }
}

static void draw_rule(canvas* c, const nsi_scale* x, double value) {
    if (!nsi_scale_shows(x, value)) return;
    long at = lround(nsi_scale_place(x, value));
    for (long y = 0; y < 4 * (long)c->rows; y += 3) set_dot(c, at, y, 90);
}

static void add_cells(const page* p, const canvas* c, uint32_t row) {
    uint8_t colour = 39;
    uint32_t end = c->columns;
    const uint8_t* dots = c->dots + (size_t)row * c->columns;
    const uint8_t* colours = c->colours + (size_t)row * c->columns;
    while (end > 0 && dots[end - 1] == 0) end--;
    for (uint32_t k = 0; k < end; k++) {
        uint8_t wanted = dots[k] ? colours[k] : colour;
        if (p->colour && wanted != colour) nsi_text_add(p->b, "\033[%um", wanted);
        colour = wanted;
        unsigned code = 0x2800u + dots[k];
        char utf8[3] = {(char)(0xe0 | code >> 12), (char)(0x80 | (code >> 6 & 0x3f)),
                        (char)(0x80 | (code & 0x3f))};
        nsi_text_add_bytes(p->b, dots[k] ? utf8 : " ", dots[k] ? 3 : 1);
    }
    if (p->colour && colour != 39) nsi_text_add(p->b, "\033[39m");
}

static nsi_ticks print_y_ticks(const nsi_scale* y, uint32_t rows) {
    return nsi_scale_ticks(y, rows > 8 ? 5 : 3);
}

static void print_panel(const page* p, const ns_line_chart* l, uint32_t number, canvas* c,
                        uint32_t margin, bool plain) {
    const ns_line_panel* panel = &l->panels[number];
    // A braille cell has 2 x 4 dots.
    nsi_scale x = nsi_line_chart_x(l), y = nsi_line_chart_y(l, panel);
    x.to = 2.0 * c->columns - 1.0;
    y.from = 4.0 * c->rows - 1.0;

    // Draw marks and spans first: curves go over them.
    memset(c->dots, 0, (size_t)c->rows * c->columns);
    for (uint32_t k = 0; k < l->nmark; k++) draw_rule(c, &x, l->marks[k].x);
    for (uint32_t k = 0; k < l->nspan; k++) {
        draw_rule(c, &x, l->spans[k].from);
        draw_rule(c, &x, l->spans[k].to);
    }

    // Then the curves.
    for (uint32_t s = 0; s < panel->nseries; s++) {
        draw_series(c, l, &x, &y, &panel->series[s], plain);
    }

    // Print the name of the panel, then rows of cells with the ticks of y on their left.
    nsi_ticks ticks = print_y_ticks(&y, c->rows);
    pad(p, 0, margin);
    add_left(p, panel->y.label, c->columns);
    end_line(p);
    for (uint32_t row = 0; row < c->rows; row++) {
        // A tick belongs to the row that contains its dot.
        const char* label = "";
        for (uint32_t k = 0; k < ticks.count; k++) {
            long at = lround(nsi_scale_place(&y, ticks.value[k]));
            // The last one wins where two share a row.
            if (at / 4 == (long)row) label = ticks.label[k].text;
        }

        add_right(p, label, margin - 1);
        nsi_text_add(p->b, *label ? "\u2524" : "\u2502");
        add_cells(p, c, row);
        end_line(p);
    }
}

static void print_x_axis(const page* p, const ns_line_chart* l, uint32_t columns, uint32_t margin) {
    // Ticks use whole columns, not dots.
    nsi_scale x = nsi_line_chart_x(l);
    x.to = columns - 1.0;
    nsi_ticks ticks = nsi_scale_ticks(&x, 6);
    pad(p, 0, margin - 1);
    nsi_text_add(p->b, "\u2514");

    // Axis line with its ticks.
    for (uint32_t k = 0, tick = 0; k < columns; k++) {
        // Rounding may place two ticks in one column: the second moves on by one.
        bool at = tick < ticks.count && lround(nsi_scale_place(&x, ticks.value[tick])) <= (long)k;
        nsi_text_add(p->b, at ? "\u252c" : "\u2500");
        tick += at;
    }
    end_line(p);

    // Labels below the ticks, as many as there is room for.
    uint32_t column = 0;
    for (uint32_t k = 0; k < ticks.count; k++) {
        uint32_t width = (uint32_t)strlen(ticks.label[k].text);
        // Centre the label on its tick, within the line.
        double middle = margin + nsi_scale_place(&x, ticks.value[k]) - 0.5 * (width - 1);
        uint32_t at = (uint32_t)fmin(fmax(0.0, floor(middle + 0.5)), margin + columns);
        if (at + width > margin + columns) at = margin + columns - width;
        if (k > 0 && at <= column) continue; // no room
        pad(p, column, at);
        nsi_text_add(p->b, "%s", ticks.label[k].text);
        column = at + width;
    }
    end_line(p);

    // Name of the axis.
    pad(p, 0, margin);
    add_left(p, l->x_axis.label, columns);
    end_line(p);
}

static void print_legend(const page* p, const ns_line_chart* l) {
    uint32_t column = 0;
    for (uint32_t n = 0; n < l->npanel; n++) {
        for (uint32_t s = 0; s < l->panels[n].nseries; s++) {
            const ns_line_series* series = &l->panels[n].series[s];
            if (!nsi_line_chart_listed(l, n, s)) continue;
            const struct look* look = look_of(series->line_style);
            uint32_t width = nsi_format_width(series->name), most = p->columns - 6;
            if (width > most) width = most;
            if (column > 0 && column + 6 + width > p->columns) end_line(p), column = 0;
            if (column > 0) pad(p, 0, 2);
            if (p->colour) nsi_text_add(p->b, "\033[%um\u2500\u2500\u2500\033[39m ", look->colour);
            if (!p->colour) nsi_text_add(p->b, "%s ", look->sample);
            column += 6 + nsi_format_clipped(p->b, series->name, most);
        }
    }
    if (column > 0) end_line(p);
}

enum { MAX_STRETCHES = 20 };

static void add_stretches(const page* p, const ns_line_chart* l) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < l->nspan; k++) {
        if (!l->spans[k].label || ++count > MAX_STRETCHES) continue;
        nsi_format_clipped(p->b, l->spans[k].label, p->columns / 2);
        nsi_text_add(p->b, ": from %s to %s\n", nsi_format_short(l->spans[k].from, 4).text,
                     nsi_format_short(l->spans[k].to, 4).text);
    }
    for (uint32_t k = 0; k < l->nmark; k++) {
        if (!l->marks[k].label || ++count > MAX_STRETCHES) continue;
        nsi_text_add(p->b, "from %s: ", nsi_format_short(l->marks[k].x, 4).text);
        nsi_format_clipped(p->b, l->marks[k].label, p->columns / 2);
        end_line(p);
    }
    if (count > MAX_STRETCHES) nsi_text_add(p->b, "and %u more\n", count - MAX_STRETCHES);
}

static void print_lines(const page* p, const ns_line_chart* l) {
    uint32_t margin = 2, listed = 0, rows = l->npanel > 1 ? 8 : 14;

    // The widest tick label of all panels is their common margin.
    for (uint32_t n = 0; n < l->npanel; n++) {
        nsi_scale y = nsi_line_chart_y(l, &l->panels[n]);
        nsi_ticks ticks = print_y_ticks(&y, rows);
        for (uint32_t k = 0; k < ticks.count; k++) {
            uint32_t width = (uint32_t)strlen(ticks.label[k].text) + 1;
            if (width > margin) margin = width;
        }
        // Curves in the legend decide whether line styles are needed.
        for (uint32_t s = 0; s < l->panels[n].nseries; s++)
            listed += nsi_line_chart_listed(l, n, s);
    }

    // One canvas serves all panels.
    canvas c = {.columns = p->columns - margin, .rows = rows};
    size_t cells = (size_t)c.columns * c.rows;
    c.dots = nsi_alloc(&p->b->allocator, 2 * cells);
    if (!c.dots) {
        p->b->failed = true;
        return;
    }
    // Colours of cells follow the dots.
    c.colours = c.dots + cells;
    // 39: default colour of the terminal.
    memset(c.colours, 39, cells);

    // Legend, panels, axis, then explanations of marks and spans.
    print_legend(p, l);
    // Without colour, several curves need patterns.
    for (uint32_t n = 0; n < l->npanel; n++)
        print_panel(p, l, n, &c, margin, !p->colour && listed > 1);
    print_x_axis(p, l, c.columns, margin);

    add_stretches(p, l);
    nsi_free(&p->b->allocator, c.dots);
}

// ---- bars --------------------------------------------------------------------------------------

// Eighths of a block.
static void add_block(const page* p, uint32_t eighths) {
    static const char* const blocks[] = {" ",      "\u258f", "\u258e", "\u258d", "\u258c",
                                         "\u258b", "\u258a", "\u2589", "\u2588"};
    nsi_text_add(p->b, "%s", blocks[eighths]);
}

// What has the length `most` fills the room; `text` columns are for what stands behind it.
static void print_bar(const page* p, const ns_bar* bar, double most, uint32_t room, uint32_t text,
                      bool faint) {
    uint32_t eighths = 0, mark = NSI_NONE, column = 0;
    if (isfinite(bar->length)) {
        eighths = (uint32_t)lround(8.0 * room * fmax(0.0, bar->length / most));
    }
    if (isfinite(bar->mark)) mark = (uint32_t)floor(room * fmax(0.0, bar->mark / most));
    if (mark != NSI_NONE && mark >= room) mark = room - 1;
    if (faint) eighths = (eighths + 7) / 8 * 8;
    for (; column * 8 < eighths || (mark != NSI_NONE && column <= mark); column++) {
        uint32_t left = eighths > column * 8 ? eighths - column * 8 : 0;
        if (column == mark) {
            nsi_text_add(p->b, "\u2502");
        } else if (faint && left > 0) {
            nsi_text_add(p->b, "\u2592");
        } else {
            add_block(p, left < 8 ? left : 8);
        }
    }
    if (!bar->text) return;
    nsi_text_add(p->b, " ");
    nsi_format_clipped(p->b, bar->text, text);
}

static void print_bars(const page* p, const ns_bar_chart* bars) {
    double most = 0.0;
    // Long labels are clipped.
    uint32_t text = 0, label = longest(bars->labels, bars->rows, most_label(p));

    // The longest bar fills the room that labels and numbers leave.
    for (uint32_t k = 0; k < bars->rows * bars->ngroup; k++) {
        const ns_bar* bar = &bars->bars[k];
        if (isfinite(bar->length)) most = fmax(most, bar->length);
        if (isfinite(bar->mark)) most = fmax(most, bar->mark);
        uint32_t width = bar->text ? (uint32_t)strlen(bar->text) : 0;
        if (width > text) text = width;
    }
    // Narrow terminals still get bars of 8 columns.
    uint32_t left = p->columns - label - 3, room = left > text + 8 ? left - text : 8;
    if (text > left - room) text = left - room;
    // All bars empty: any scale will do.
    if (!(most > 0.0)) most = 1.0;

    // Rows, with the label beside the first group.
    for (uint32_t k = 0; k < bars->rows; k++) {
        for (uint32_t g = 0; g < bars->ngroup; g++) {
            add_left(p, g == 0 ? bars->labels[k] : "", label);
            nsi_text_add(p->b, " ");
            // Groups differ by shade, since colour may be missing.
            print_bar(p, &bars->bars[k * bars->ngroup + g], most, room, text, g + 1 < bars->ngroup);
            end_line(p);
        }
    }

    // Legend.
    if (bars->ngroup == 2) {
        nsi_text_add(p->b, "\u2592 %s, \u2588 %s", bars->groups[0], bars->groups[1]);
        if (bars->mark) nsi_text_add(p->b, ", \u2502 %s", bars->mark);
        end_line(p);
    }
}

static void print_intervals(const page* p, const ns_interval_chart* v) {
    // Room for labels and notes.
    uint32_t label = 4, note = 0;
    for (uint32_t k = 0; k < v->nrow; k++) {
        uint32_t width = v->rows[k].label ? nsi_format_width(v->rows[k].label) : 0;
        uint32_t noted = v->rows[k].note ? (uint32_t)strlen(v->rows[k].note) : 0;
        if (width > label) label = width;
        if (noted > note) note = noted;
    }

    // Zero is in the middle of the room between labels and notes.
    if (label > most_label(p)) label = most_label(p);
    uint32_t used = label + note + 2, room = p->columns > used + 11 ? p->columns - used : 11;
    long half = (long)(room - 1) / 2;
    double unit = v->reach > 0.0 ? (double)half / v->reach : 0.0;

    // Rows: confidence interval and initial value, relative to the estimate.
    for (uint32_t k = 0; k < v->nrow; k++) {
        const ns_interval* row = &v->rows[k];
        long length = isnan(row->half) ? -1 : lround(fmin(row->half, v->reach) * unit),
             start = NSI_NONE;
        bool inside = fabs(row->start) <= v->reach; // else an arrow at the edge

        // Initial values beyond the plot are drawn at its edge.
        if (isfinite(row->start)) {
            start = lround(fmax(-v->reach, fmin(row->start, v->reach)) * unit);
        }
        add_left(p, row->label, label);
        nsi_text_add(p->b, " ");

        // Later signs replace earlier ones: bar, ends, zero, start.
        for (long x = -half; x <= half; x++) {
            const char* sign = " ";
            if (labs(x) <= length) sign = isinf(row->half) ? "\u2504" : "\u2500";
            if (labs(x) == length && isfinite(row->half)) sign = x < 0 ? "\u251c" : "\u2524";
            if (x == 0) sign = length > 0 ? "\u253c" : "\u2502";
            if (x == start) sign = inside ? "o" : x < 0 ? "<" : ">";
            nsi_text_add(p->b, "%s", sign);
        }

        // Notes, such as "not identifiable".
        if (row->note) nsi_text_add(p->b, " %s", row->note);
        end_line(p);
    }

    // Legend.
    nsi_text_add(p->b, "edges: \u00b1%s %%; o: start, < >: beyond\n",
                 nsi_format_short(100.0 * v->reach, 2).text);
}

// ---- maps --------------------------------------------------------------------------------------

static const char* shade(double share) {
    static const char* const shades[] = {" ", "\u2591", "\u2592", "\u2593", "\u2588"};
    return isnan(share) ? " " : shades[(int)fmin(4.0, fmax(0.0, floor(5.0 * share)))];
}

static void print_matrix(const page* p, const ns_matrix_chart* m) {
    uint32_t label = longest(m->names, m->n, most_label(p));
    uint32_t room = (p->columns - label - 1) / 2, n = m->n < room ? m->n : room;
    for (uint32_t i = 0; i < n; i++) {
        add_left(p, m->names[i], label);
        nsi_text_add(p->b, " ");
        for (uint32_t k = 0; k <= i; k++) {
            double value = m->values[(size_t)i * m->stride + k];
            const char* sign = shade(fabs(value));
            if (*sign == ' ') {
                nsi_text_add(p->b, isnan(value) ? "  " : " \u00b7");
            } else {
                nsi_text_add(p->b, "%s%s", value < 0.0 ? "-" : "+", sign);
            }
        }
        end_line(p);
    }
    nsi_text_add(p->b, "\u00b7 0.2 \u2591 0.4 \u2592 0.6 \u2593 0.8 \u2588\n");
    if (n < m->n) nsi_text_add(p->b, "only the first %u: there is no room for more\n", n);
}

// Which cells are drawn, and how: `stride` 2 takes every second one.
typedef struct tiling {
    uint32_t stride, width; // width: columns of a cell
    int beside;             // maps in a line
} tiling;

static tiling fit_maps(const page* p, const ns_heatmap* m) {
    enum { LABEL = 7, BETWEEN = 3 };
    uint32_t two = p->columns - LABEL - BETWEEN, one = p->columns - LABEL;
    if (4 * m->cells <= two) return (tiling){1, 2, 2};
    if (2 * m->cells <= two) return (tiling){1, 1, 2};
    return (tiling){(m->cells - 1) / one + 1, 1, 1};
}

static void print_row(const page* p, const ns_heatmap* m, const tiling* t, int which, uint32_t up,
                      const uint32_t star[2]) {
    for (uint32_t k = 0; k < m->cells; k += t->stride) {
        double share = m->values[which][(size_t)up * m->cells + k] / m->max;
        bool marked = star[0] == k && star[1] == up;
        const char* sign = shade(isnan(share) ? 0.0 : 1.0 - share);
        for (uint32_t c = 0; c < t->width; c++) {
            nsi_text_add(p->b, "%s", marked && c == 0 ? "*" : sign);
        }
    }
}

static void print_heatmap(const page* p, const ns_heatmap* m) {
    static const char* const places[2][2] = {{"above: ", ", below: "}, {"left: ", ", right: "}};
    // Two maps, side by side or one above the other.
    double step = m->cells > 1 ? (m->to - m->from) / (m->cells - 1.0) : 1.0;
    tiling t = fit_maps(p, m);
    uint32_t star[2], last = (m->cells - 1) / t.stride * t.stride; // last: that is drawn

    // The star is drawn in the nearest visible cell.
    for (int k = 0; k < 2; k++) {
        double at = round((m->mark[k] - m->from) / step);
        star[k] = at >= 0.0 && at < m->cells ? (uint32_t)at / t.stride * t.stride : NSI_NONE;
    }

    // Titles.
    for (int k = 0; k < 2; k++) {
        nsi_text_add(p->b, "%s", places[t.beside - 1][k]);
        nsi_format_clipped(p->b, m->titles[k], p->columns / 2 - 10);
    }
    end_line(p);

    // Rows from the top, for one map or for both at once.
    for (int first = 0; first < 2; first += t.beside) {
        if (first > 0) end_line(p);
        for (uint32_t up = last;; up -= t.stride) {
            // Only the limits of the axis have room for labels.
            bool labelled = up == 0 || up == last;
            add_right(p, labelled ? nsi_format_short(m->from + step * up, 3).text : "", 6);
            for (int which = first; which < first + t.beside; which++) {
                nsi_text_add(p->b, which == first ? "\u2502" : "  \u2502");
                print_row(p, m, &t, which, up, star);
            }
            end_line(p);
            if (up == 0) break;
        }
    }

    // Legend: axes and shades.
    nsi_text_add(p->b, "across: ");
    nsi_format_clipped(p->b, m->axes[0], p->columns / 4);
    nsi_text_add(p->b, ", up: ");
    nsi_format_clipped(p->b, m->axes[1], p->columns / 4);
    nsi_text_add(p->b, "\n\u2588: 0, blank: %s or more; *: truth\n",
                 nsi_format_short(m->max, 3).text);
    // A small terminal shows every n-th cell.
    if (t.stride > 1) nsi_text_add(p->b, "one of %u cells each way\n", t.stride);
}

// ---- all of it ---------------------------------------------------------------------------------

ns_status ns_figure_text(const ns_figure* chart, uint32_t columns, bool colour,
                         const ns_allocator* allocator, ns_text* out, ns_error* error) {
    nsi_text_builder b = {.allocator = allocator ? *allocator : ns_default_allocator()};
    page p = {
        .b = &b, .columns = columns > LEAST_COLUMNS ? columns : LEAST_COLUMNS, .colour = colour};
    *out = (ns_text){0};
    const char* undrawn = chart->kind == NS_FIGURE_NETWORK  ? "a network"
                          : chart->kind == NS_FIGURE_PLANE  ? "a plane"
                          : chart->kind == NS_FIGURE_CORNER ? "a corner plot"
                                                            : NULL;
    if (undrawn) {
        return nsi_fail(error, NS_ERR_UNSUPPORTED,
                        "%s cannot be drawn in characters; write it to a file with -o", undrawn);
    }
    nsi_format_clipped(&b, chart->title ? chart->title : "", p.columns);
    nsi_text_add(&b, "\n");
    switch (chart->kind) {
    case NS_FIGURE_LINES: print_lines(&p, &chart->as.lines); break;
    case NS_FIGURE_BARS: print_bars(&p, &chart->as.bars); break;
    case NS_FIGURE_INTERVALS: print_intervals(&p, &chart->as.intervals); break;
    case NS_FIGURE_HEATMAP: print_heatmap(&p, &chart->as.heatmap); break;
    case NS_FIGURE_MATRIX: print_matrix(&p, &chart->as.matrix); break;
    case NS_FIGURE_PLANE:
    case NS_FIGURE_CORNER:
    case NS_FIGURE_NETWORK: break;
    }
    return nsi_text_finish(&b, out, error);
}
