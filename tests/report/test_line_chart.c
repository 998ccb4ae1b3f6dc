// Curves: drawn points are where the axes, as their ticks say, put the data.

#include "report/figure_data.h"
#include "support/picture.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const picture* draw(const ns_line_chart* lines) {
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    ns_text text;
    nsi_line_chart_draw(&b, lines, "A <title>");
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    const picture* p = picture_read(text.data, text.size);
    ns_text_free(&text);
    return p;
}

// ---- axes as a reader sees them ----------------------------------------------------------------

// Values and places of ticks: labels stand left of horizontal lines (or below vertical ones).
typedef struct ruler {
    double value[16], place[16];
    uint32_t count;
    bool log;
} ruler;

static double label_value(const picture* p, const picture_item* label) {
    char text[40];
    snprintf(text, sizeof text, "%.*s", (int)label->size, p->text + label->text);
    return strtod(text, NULL);
}

static ruler read_ruler(const picture* p, bool horizontal, double top, double bottom, bool log) {
    ruler r = {.log = log};
    for (uint32_t k = 0; k < p->nitem; k++) {
        const picture_item* line = &p->items[k];
        if (strcmp(line->element, "line") != 0 || strcmp(line->class, "grid") != 0) continue;
        bool lies = line->y == line->y2;
        if (lies != horizontal || line->y < top - 0.01 || line->y2 > bottom + 0.01) continue;
        for (uint32_t i = 0; i < p->nitem; i++) {
            const picture_item* label = &p->items[i];
            const char* class = horizontal ? "e" : "m";
            if (strcmp(label->element, "text") != 0 || strcmp(label->class, class) != 0) continue;
            double off = horizontal ? label->y - 3.5 - line->y : label->x - line->x;
            if (fabs(off) > 0.002 || r.count == 16) continue;
            r.value[r.count] = label_value(p, label);
            r.place[r.count++] = horizontal ? line->y : line->x;
            break;
        }
    }
    assert_true(r.count >= 2);
    return r;
}

static double value_at(const ruler* r, double place) {
    uint32_t last = r->count - 1;
    double a = r->log ? log10(r->value[0]) : r->value[0];
    double b = r->log ? log10(r->value[last]) : r->value[last];
    double v = a + (b - a) * (place - r->place[0]) / (r->place[last] - r->place[0]);
    return r->log ? pow(10.0, v) : v;
}

// A place is rounded to a thousandth, and ticks stand 100 or more of them apart.
static void assert_ruler_even(const ruler* r) {
    for (uint32_t k = 0; k < r->count; k++) {
        double off = value_at(r, r->place[k]) - r->value[k];
        assert_true(fabs(off) <= 1e-4 * (fabs(r->value[k]) + fabs(r->value[0] - r->value[1])));
    }
}

static void assert_drawn(const picture* p, const picture_item* line, const ruler* x, const ruler* y,
                         const double* xs, const double* ys, uint32_t count) {
    assert_int_equal(line->count, count);
    for (uint32_t k = 0; k < count; k++) {
        const double* point = p->points[line->point + k];
        double x_off = value_at(x, point[0]) - xs[k], y_off = value_at(y, point[1]) - ys[k];
        double x_size = fabs(x->value[x->count - 1] - x->value[0]);
        double y_size = fabs(y->value[y->count - 1] - y->value[0]);
        assert_true(fabs(x_off) <= (x->log ? 5e-4 * xs[k] : 1e-4 * x_size));
        assert_true(fabs(y_off) <= (y->log ? 5e-4 * ys[k] : 1e-4 * y_size));
        assert_true(point[0] >= 0.0 && point[0] <= p->width);
        assert_true(point[1] >= 0.0 && point[1] <= p->height);
    }
}

// ---- tests -------------------------------------------------------------------------------------

static void points_are_where_the_ticks_say(void** state) {
    (void)state;
    enum { N = 40 };
    double x[N], y[N], z[N];
    for (int form = 0; form < 4; form++) {
        bool log_x = form % 2 == 1, log_y = form / 2 == 1;
        for (int k = 0; k < N; k++) {
            x[k] = log_x ? pow(10.0, -6.0 + 0.2 * k) : -3.7 + 0.31 * k;
            y[k] = log_y ? 5.0 * exp(0.3 * k) : 12.0 * sin(0.4 * k);
            z[k] = log_y ? 2e5 : -30.0;
        }
        ns_line_series series[2] = {{"one", "c0", y}, {"two", "c1", z}};
        ns_line_panel panel = {{"y", log_y}, series, 2};
        ns_line_chart lines = {
            .x_axis = {"x", log_x}, .x = x, .count = N, .panels = &panel, .npanel = 1};
        const picture* p = draw(&lines);
        ruler rx = read_ruler(p, false, 0.0, 1e9, log_x), ry = read_ruler(p, true, 0.0, 1e9, log_y);
        assert_ruler_even(&rx);
        assert_ruler_even(&ry);
        assert_int_equal(picture_count(p, "polyline", NULL), 2);
        assert_drawn(p, picture_item_at(p, "polyline", "curve c0", 0), &rx, &ry, x, y, N);
        assert_drawn(p, picture_item_at(p, "polyline", "curve c1", 0), &rx, &ry, x, z, N);
        assert_true(picture_says(p, "one") && picture_says(p, "two") &&
                    picture_says(p, "A <title>"));
    }
}

static void gaps_and_breaks_end_a_line(void** state) {
    (void)state;
    double x[] = {0, 1, 2, 3, 4, 5, 6, 7, NAN, 9};
    double y[] = {1, 2, NAN, 4, INFINITY, 6, 7, 8, 9, 10};
    bool breaks[10] = {[7] = true};
    ns_line_series series = {NULL, "after", y};
    ns_line_panel panel = {{"y", false}, &series, 1};
    ns_line_chart lines = {.x_axis = {"x", false},
                           .x = x,
                           .count = 10,
                           .breaks = breaks,
                           .panels = &panel,
                           .npanel = 1};
    const picture* p = draw(&lines);
    // 0-1, 3, 5-6, 7, 9
    assert_int_equal(picture_count(p, "polyline", "curve after"), 2);
    assert_int_equal(picture_count(p, "circle", "curve after"), 3);
    ruler rx = read_ruler(p, false, 0.0, 1e9, false), ry = read_ruler(p, true, 0.0, 1e9, false);
    assert_drawn(p, picture_item_at(p, "polyline", NULL, 0), &rx, &ry, x, y, 2);
    assert_drawn(p, picture_item_at(p, "polyline", NULL, 1), &rx, &ry, x + 5, y + 5, 2);
    assert_true(fabs(value_at(&ry, picture_item_at(p, "circle", NULL, 0)->y) - 4.0) < 1e-3);

    // On a logarithmic axis what is not above 0 is missing.
    double z[] = {-1, 0, 10, 100, 1000, 0, 10, 10, 10, 10};
    series.y = z;
    panel.y.log = true;
    lines.points = true;
    p = draw(&lines);
    ry = read_ruler(p, true, 0.0, 1e9, true);
    assert_drawn(p, picture_item_at(p, "polyline", NULL, 0), &rx, &ry, x + 2, z + 2, 3);
}

static void marks_and_spans_are_at_their_places(void** state) {
    (void)state;
    double x[] = {10, 20, 30, 40}, y[] = {1, 2, 3, 4};
    ns_line_series series[2] = {{"recorded", "recorded", y}, {"after", "after", y}};
    ns_line_panel panels[2] = {{{"a", false}, series, 2}, {{"b", false}, series, 2}};
    ns_line_mark marks[] = {{20, "a mark & more"}, {35, NULL}};
    ns_line_span spans[] = {{25, 35, "test"}, {-100, 12, NULL}, {30, 20, "x"}, {NAN, 20, "x"}};
    ns_line_chart lines = {.x_axis = {"x", false},
                           .x = x,
                           .count = 4,
                           .panels = panels,
                           .npanel = 2,
                           .marks = marks,
                           .nmark = 2,
                           .spans = spans,
                           .nspan = 4};
    const picture* p = draw(&lines);
    assert_int_equal(picture_count(p, "rect", "span"), 4); // two in each panel
    ruler rx = read_ruler(p, false, 0.0, 1e9, false);
    assert_int_equal(picture_count(p, "line", "dash"), 4);
    assert_true(fabs(value_at(&rx, picture_item_at(p, "line", "dash", 0)->x) - 20.0) < 1e-3);
    assert_true(fabs(value_at(&rx, picture_item_at(p, "line", "dash", 1)->x) - 35.0) < 1e-3);
    const picture_item* span = picture_item_at(p, "rect", "span", 0);
    assert_true(fabs(value_at(&rx, span->x) - 25.0) < 1e-3);
    assert_true(fabs(value_at(&rx, span->x + span->x2) - 35.0) < 1e-3);
    span = picture_item_at(p, "rect", "span", 1); // cut off at the axis
    assert_true(fabs(value_at(&rx, span->x) - 10.0) < 1e-3);
    assert_true(picture_says(p, "a mark & more") && picture_says(p, "test"));
    // Each class is in the legend once, though it is in both panels.
    uint32_t legends = 0;
    for (uint32_t k = 0; k < p->nitem; k++) {
        const picture_item* item = &p->items[k];
        legends += strcmp(item->element, "text") == 0 && item->size == 8 &&
                   memcmp(p->text + item->text, "recorded", 8) == 0;
    }
    assert_int_equal(legends, 1);
}

// Where there are more points than can be seen, none of the extremes is lost.
static void many_points_are_thinned(void** state) {
    (void)state;
    enum { N = 20000 };
    static double x[N], y[N];
    for (int k = 0; k < N; k++) x[k] = k, y[k] = sin(0.001 * k);
    y[7777] = 5.0;
    y[12345] = -7.0;
    ns_line_series series = {NULL, "c0", y};
    ns_line_panel panel = {{"y", false}, &series, 1};
    ns_line_chart lines = {
        .x_axis = {"x", false}, .x = x, .count = N, .panels = &panel, .npanel = 1};
    const picture* p = draw(&lines);
    ruler ry = read_ruler(p, true, 0.0, 1e9, false);
    const picture_item* line = picture_item_at(p, "polyline", NULL, 0);
    assert_true(line->count <= 2004);
    double low = INFINITY, high = -INFINITY;
    for (uint32_t k = 0; k < line->count; k++) {
        low = fmin(low, value_at(&ry, p->points[line->point + k][1]));
        high = fmax(high, value_at(&ry, p->points[line->point + k][1]));
    }
    assert_true(fabs(low + 7.0) < 1e-2 && fabs(high - 5.0) < 1e-2);
}

// Samples of another clock in between: gaps that are too short to be seen are no reason for a hundred
// thousand rings. One that can be seen is there.
static void short_gaps_are_thinned(void** state) {
    (void)state;
    enum { N = 100000 };
    static double x[N], y[N];
    for (int k = 0; k < N; k++) {
        bool missing = k % 2 == 1 || (k > 40000 && k < 45000);
        x[k] = k;
        y[k] = missing ? NAN : sin(1e-4 * k);
    }
    y[20002] = 3.0;
    ns_line_series series = {NULL, "c0", y};
    ns_line_panel panel = {{"y", false}, &series, 1};
    ns_line_chart lines = {
        .x_axis = {"x", false}, .x = x, .count = N, .panels = &panel, .npanel = 1};
    const picture* p = draw(&lines);
    assert_int_equal(picture_count(p, "polyline", NULL), 2);
    assert_int_equal(picture_count(p, "circle", NULL), 0);
    ruler rx = read_ruler(p, false, 0.0, 1e9, false), ry = read_ruler(p, true, 0.0, 1e9, false);
    const picture_item *first = picture_item_at(p, "polyline", NULL, 0),
                       *second = picture_item_at(p, "polyline", NULL, 1);
    assert_true(first->count + second->count <= 2008);
    double high = -INFINITY;
    for (uint32_t k = 0; k < first->count; k++) {
        high = fmax(high, value_at(&ry, p->points[first->point + k][1]));
    }
    assert_true(fabs(high - 3.0) < 1e-2);
    assert_true(fabs(value_at(&rx, p->points[first->point + first->count - 1][0]) - 4e4) < 1e2);
    assert_true(fabs(value_at(&rx, p->points[second->point][0]) - 4.5e4) < 1e2);
}

// Seconds since 1970, small changes of large numbers, long names: all can be read.
static void labels_have_room(void** state) {
    (void)state;
    enum { N = 50 };
    static const double from[][2] = {{1763300000.0, 0.01}, {0.0, 1e-9}, {-123456.0, 1e-3},
                                     {1e-7, 1e-8},         {1e15, 1.0}, {0.0, 12345.6}};
    static const char* const long_names[] = {
        "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"
        "mm",
        "\u95a2\u7bc0\u306e\u89d2\u5ea6\u306e\u6e2c\u5b9a\u5024\u3068\u3066\u3082\u9577\u3044\u540d"
        "\u524d\u95a2\u7bc0\u306e\u89d2\u5ea6\u306e\u6e2c\u5b9a\u5024\u3068\u3066\u3082\u9577"
        "\u3044"};
    double x[N], y[N];
    for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < 6; j++) {
            for (int k = 0; k < N; k++) {
                x[k] = from[i][0] + from[i][1] * k;
                y[k] = from[j][0] + from[j][1] * k;
            }
            ns_line_series series[] = {{long_names[0], "c0", y}, {long_names[1], "c1", y}};
            ns_line_panel panels[] = {{{long_names[0], false}, series, 2},
                                      {{long_names[1], false}, series, 2}};
            ns_line_chart lines = {
                .x_axis = {"x", false}, .x = x, .count = N, .panels = panels, .npanel = 2};
            const picture* p = draw(&lines);
            picture_check_labels(p, true);
            read_ruler(p, false, 0.0, 1e9, false);
        }
    }
}

static void any_numbers_can_be_drawn(void** state) {
    (void)state;
    static const double cases[][4] = {{0, 0, 0, 0},
                                      {NAN, NAN, NAN, NAN},
                                      {-DBL_MAX, DBL_MAX, 0, 1},
                                      {1e-320, 2e-320, 3e-320, 1e-323},
                                      {5e-324, 5e-324, 5e-324, 5e-324},
                                      {1e15, 1e15 + 1, 1e15 + 2, 1e15},
                                      {DBL_MAX, DBL_MAX, DBL_MAX, DBL_MAX},
                                      {INFINITY, -INFINITY, 1, -1},
                                      {-5, -5, -5, -5}};
    double x[] = {1, 2, 3, 4};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int form = 0; form < 4; form++) {
            ns_line_series series = {"\xff<&", "c0", form % 2 ? cases[k] : x};
            ns_line_panel panel = {{NULL, form / 2 == 1}, &series, 1};
            ns_line_chart lines = {.x_axis = {NULL, form / 2 == 1},
                                   .x = form % 2 ? x : cases[k],
                                   .count = 4,
                                   .panels = &panel,
                                   .npanel = 1,
                                   .points = true};
            const picture* p = draw(&lines);
            for (uint32_t i = 0; i < p->npoint; i++) {
                assert_true(p->points[i][0] >= 0.0 && p->points[i][0] <= p->width);
                assert_true(p->points[i][1] >= 0.0 && p->points[i][1] <= p->height);
            }
            ns_figure chart = {.kind = NS_FIGURE_LINES, .title = "t", .as = {.lines = lines}};
            ns_text text;
            assert_int_equal(ns_figure_text(&chart, 60, true, NULL, &text, NULL), NS_OK);
            ns_text_free(&text);
        }
    }
}

static void ticks_are_round_and_inside(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(7);
    for (int k = 0; k < 20000; k++) {
        double size = pow(10.0, ns_rng_uniform(&rng, -12.0, 12.0));
        double low = size * ns_rng_normal(&rng),
               high = low + size * ns_rng_uniform(&rng, 1e-3, 5.0);
        nsi_scale scale = nsi_scale_empty(false);
        nsi_scale_include(&scale, low);
        nsi_scale_include(&scale, high);
        nsi_scale_finish(&scale, 0.0);
        nsi_ticks ticks = nsi_scale_ticks(&scale, 5);
        assert_in_range(ticks.count, 2, 8);
        double step = ticks.value[1] - ticks.value[0], power = pow(10.0, floor(log10(step) + 1e-6));
        double digit = step / power;
        assert_true(fabs(digit - 1.0) < 1e-3 || fabs(digit - 2.0) < 1e-3 ||
                    fabs(digit - 5.0) < 1e-3);
        for (uint32_t i = 0; i < ticks.count; i++) {
            assert_true(ticks.value[i] >= low - 1e-6 * step &&
                        ticks.value[i] <= high + 1e-6 * step);
            double shown = strtod(ticks.label[i].text, NULL);
            assert_true(fabs(shown - ticks.value[i]) <= 0.01 * step);
        }
    }
}

// An axis with one tick has no scale.
static void no_axis_has_a_single_tick(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(8);
    for (int k = 0; k < 40000; k++) {
        bool log = k % 2 == 1;
        uint32_t wanted = 2 + (uint32_t)(k / 2) % 7;
        double size = pow(10.0, ns_rng_uniform(&rng, -9.0, 9.0));
        double low = log ? size : size * ns_rng_normal(&rng);
        double high = log ? low * pow(10.0, ns_rng_uniform(&rng, 0.0, 12.0))
                          : low + size * ns_rng_uniform(&rng, 1e-3, 5.0);
        nsi_scale scale = nsi_scale_empty(log);
        nsi_scale_include(&scale, low);
        nsi_scale_include(&scale, high);
        nsi_scale_finish(&scale, 0.04);
        nsi_ticks ticks = nsi_scale_ticks(&scale, wanted);
        if (ticks.count < 2) fail_msg("%g to %g, %u: %u", low, high, wanted, ticks.count);
        assert_true(ticks.count <= (log ? 2 * wanted + 6 : wanted + 4));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_where_the_ticks_say),
        cmocka_unit_test(gaps_and_breaks_end_a_line),
        cmocka_unit_test(marks_and_spans_are_at_their_places),
        cmocka_unit_test(many_points_are_thinned),
        cmocka_unit_test(any_numbers_can_be_drawn),
        cmocka_unit_test(ticks_are_round_and_inside),
        cmocka_unit_test(no_axis_has_a_single_tick),
        cmocka_unit_test(short_gaps_are_thinned),
        cmocka_unit_test(labels_have_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
