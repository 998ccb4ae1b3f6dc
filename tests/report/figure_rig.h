// Charts of all kinds for tests of figures.

#ifndef TEST_FIGURE_RIG_H
#define TEST_FIGURE_RIG_H

#include "neuralsim/table.h"
#include "report/figure_data.h"
#include "report/html.h"
#include "report/start_map.h"
#include "support/assert.h"

#include <math.h>
#include <string.h>
#include <wchar.h>

static const char hostile[] = "</script><b a=\"1\" c='2'>&amp;]]>--><!--";

static const char wide[] = "\xe9\x96\xa2\xe7\xaf\x80/\xd0\xbc\xd0\xb0\xd1\x81\xd1\x81\xd0\xb0";

static const char broken[] = "half\xe3\x81 esc\x1b[2J\x01 \xff";

// ---- a sample of each kind -----------------------------------------------------------------------

static const char* const names[] = {hostile, wide, broken};

static const double xs[] = {1.0, 2.0, 3.0}, ys[] = {0.5, NAN, -2.5};

static inline void set_table(nsi_figures* charts, ns_figure* chart) {
    ns_figure_column* columns = nsi_figure_table(charts, chart, 3, 3);
    if (!columns) return;
    columns[0] = (ns_figure_column){.name = "x", .numbers = xs};
    columns[1] = (ns_figure_column){.name = hostile, .numbers = ys};
    columns[2] = (ns_figure_column){.name = "who", .texts = names};
}

static inline bool make_charts(nsi_figures* charts) {
    static const ns_line_series series[] = {{hostile, "c0", ys}, {wide, "recorded", xs}};
    static const ns_line_panel panel = {{broken, false}, series, 2};
    static const ns_bar bars[] = {{1.0, 0.5, "1"}, {NAN, NAN, NULL}, {INFINITY, NAN, "inf"},
                                  {0.0, 0.0, "0"}, {2.0, 3.0, "2"},  {-1.0, 1.0, "-1"}};
    static const ns_interval rows[] = {{hostile, "ok", false, 0.1, 0.5},
                                       {wide, "undetermined", true, INFINITY, NAN},
                                       {broken, "no effect", true, NAN, -7.0}};
    static const double matrix[] = {1.0, NAN, NAN, -0.5, 1.0, 0.0, 0.25, NAN, 1.0};
    static const double cells[] = {0.0, 1.0, NAN, 99.0};
    static const double weights[] = {1.0, -2.0, 0.5};
    static const ns_network_diagram_layer layer = {weights, 3, 1, false, "outputs"};
    static const ns_plane_curve curves[] = {{hostile, "c0", xs, ys, 3, false},
                                            {wide, "recorded", ys, xs, 3, true}};
    static const ns_plane_dot dots[] = {{1.0, 2.0, 0.5, hostile}, {NAN, 1.0, 1.0, wide}};
    static const ns_plane_panel planes[] = {{hostile, curves, 2, dots, 2},
                                            {wide, NULL, 0, NULL, 0}};
    for (int kind = NS_FIGURE_LINES; kind <= NS_FIGURE_NETWORK; kind++) {
        ns_figure* chart = nsi_figures_add(charts, (ns_figure_kind)kind, "one/two <3>", hostile);
        if (!chart) return false;
        set_table(charts, chart);
        switch (chart->kind) {
        case NS_FIGURE_LINES:
            chart->as.lines = (ns_line_chart){
                .x_axis = {wide, false}, .x = xs, .count = 3, .panels = &panel, .npanel = 1};
            break;
        case NS_FIGURE_BARS:
            chart->as.bars = (ns_bar_chart){names, bars, 3, 2, {"before", "after"}, "median"};
            break;
        case NS_FIGURE_INTERVALS: chart->as.intervals = (ns_interval_chart){rows, 3, 1.0}; break;
        case NS_FIGURE_HEATMAP:
            chart->as.heatmap = (ns_heatmap){.titles = {hostile, wide},
                                             .axes = {broken, hostile},
                                             .values = {cells, cells},
                                             .cells = 2,
                                             .from = 1.0,
                                             .to = 2.0,
                                             .mark = {1.0, 2.0},
                                             .max = 3.0};
            break;
        case NS_FIGURE_MATRIX: chart->as.matrix = (ns_matrix_chart){names, matrix, 3, 3}; break;
        case NS_FIGURE_PLANE:
            chart->as.plane =
                (ns_plane_chart){.panels = planes, .npanel = 2, .unit = broken, .max = 2.0};
            break;
        case NS_FIGURE_CORNER:
            chart->as.corner =
                (ns_corner_chart){.names = names, .values = matrix, .n = 3, .count = 3};
            break;
        case NS_FIGURE_NETWORK:
            chart->as.network = (ns_network_diagram){
                .title = hostile, .layers = &layer, .nlayer = 1, .inputs = names, .outputs = names};
            break;
        }
    }
    return true;
}

static inline uint32_t occurrences(const char* text, const char* wanted) {
    uint32_t count = 0;
    for (; (text = strstr(text, wanted)); text++) count++;
    return count;
}

#endif
