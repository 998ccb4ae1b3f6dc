// Charts: what a figure shows, as plain data. A chart is described once and drawn as SVG (a figure) or
// in characters (a terminal); its numbers are a table.

#ifndef NSI_REPORT_CHART_H
#define NSI_REPORT_CHART_H

#include "report/figure.h"
#include "report/network_diagram.h"
#include "report/scale.h"

// ---- lines.c: curves over one x, in panels one below the other ---------------------------------

typedef struct nsi_axis {
    const char* label;
    bool log; // what is not above 0 is missing
} nsi_axis;

typedef struct nsi_series {
    const char* name;  // in the legend, once for each class; NULL: not there
    const char* class; // "c0" to "c7", "recorded", "before", "after", "other"
    const double* y;   // (count); not finite: missing
} nsi_series;

typedef struct nsi_lines_panel {
    nsi_axis y;
    const nsi_series* series;
    uint32_t nseries;
} nsi_lines_panel;

typedef struct nsi_lines_mark { // a vertical line
    double x;
    const char* label;
} nsi_lines_mark;

typedef struct nsi_lines_span { // a shaded stretch
    double from, to;
    const char* label;
} nsi_lines_span;

typedef struct nsi_lines {
    nsi_axis x_axis;
    const double* x; // (count); not finite: no point
    uint32_t count;
    const bool* breaks; // (count) no line from the point before; NULL: none
    const nsi_lines_panel* panels;
    uint32_t npanel;
    const nsi_lines_mark* marks;
    uint32_t nmark;
    const nsi_lines_span* spans;
    uint32_t nspan;
    bool points; // a ring at each
} nsi_lines;

// Vertical lines of class "grid" are at ticks of x, horizontal ones at those of y; polylines go
// through the points, thinned where there are more than can be seen; a point alone is a circle.
void nsi_lines_draw(nsi_text_builder* b, const nsi_lines* lines, const char* title);

// The scale of a panel, without places: of all that it shows.
nsi_scale nsi_lines_x(const nsi_lines* lines);
nsi_scale nsi_lines_y(const nsi_lines* lines, const nsi_lines_panel* panel);
// Is this series in the legend: the first of its class that has a name?
bool nsi_lines_listed(const nsi_lines* lines, uint32_t panel, uint32_t series);

// ---- bars.c ------------------------------------------------------------------------------------

typedef struct nsi_bar {
    double length;    // NaN: there is none; infinite: only its text
    double mark;      // a stroke; NaN: none
    const char* text; // behind it
} nsi_bar;

typedef struct nsi_bars {
    const char* const* labels; // (rows)
    const nsi_bar* bars;       // (rows x ngroup), groups from the top
    uint32_t rows, ngroup;
    const char* groups[2]; // names of one or two; the second is the coloured one
    const char* mark;      // what strokes are; NULL: there are none
} nsi_bars;

void nsi_bars_draw(nsi_text_builder* b, const nsi_bars* bars, const char* title);

// Intervals around 0.
typedef struct nsi_interval {
    const char* label;
    const char* note; // at the right
    bool bad;         // the note stands out
    double half;      // INFINITY: all there is; NaN: none
    double start;     // a ring; NaN: none
} nsi_interval;

typedef struct nsi_intervals {
    const nsi_interval* rows;
    uint32_t nrow;
    double reach; // what is further out is cut off there; starts are arrows
} nsi_intervals;

void nsi_intervals_draw(nsi_text_builder* b, const nsi_intervals* intervals, const char* title);

// ---- heatmap.c ---------------------------------------------------------------------------------

// Two pictures of the same grid side by side.
typedef struct nsi_heatmap {
    const char* titles[2];
    const char* axes[2];     // across, up
    const double* values[2]; // (cells x cells): row i, column k at value i up, k across
    uint32_t cells;          // in a row
    double from, to;         // of both axes: centres of the first and the last cell
    double mark[2];          // where the star is
    double most;             // what has the lightest colour: it and all above
} nsi_heatmap;

// One <rect> of class "cell" for each cell, dark where the value is small.
void nsi_heatmap_draw(nsi_text_builder* b, const nsi_heatmap* map, const char* title);

// The lower triangle of a symmetric matrix of numbers from -1 to 1.
typedef struct nsi_matrix {
    const char* const* names; // (n)
    const double* values;     // (stride x stride); NaN: empty
    uint32_t n, stride;
} nsi_matrix;

void nsi_matrix_draw(nsi_text_builder* b, const nsi_matrix* matrix, const char* title);

// ---- plane.c -----------------------------------------------------------------------------------

typedef struct nsi_plane_curve {
    const char* name;    // in the legend, once for each class; NULL: not there
    const char* class;   // as of nsi_series
    const double *x, *y; // (count); not finite: missing
    uint32_t count;
    bool closed; // an outline
} nsi_plane_curve;

typedef struct nsi_plane_dot { // a disc of this area
    double x, y, size;
    const char* name;
} nsi_plane_dot;

typedef struct nsi_plane_panel {
    const char* title;
    const nsi_plane_curve* curves;
    uint32_t ncurve;
    const nsi_plane_dot* dots;
    uint32_t ndot;
} nsi_plane_panel;

// Panels side by side, each as large as what it shows, with a bar that tells how large that is.
typedef struct nsi_plane {
    const nsi_plane_panel* panels;
    uint32_t npanel;
    const char* unit; // of both axes
    double most;      // size of the largest disc, and all above
} nsi_plane;

void nsi_plane_draw(nsi_text_builder* b, const nsi_plane* plane, const char* title);

// ---- chart.c -----------------------------------------------------------------------------------

// Numbers or texts, one of both.
typedef struct nsi_chart_column {
    const char* name;
    const double* numbers;
    const char* const* texts;
} nsi_chart_column;

typedef enum nsi_chart_kind {
    NSI_CHART_LINES,
    NSI_CHART_BARS,
    NSI_CHART_INTERVALS,
    NSI_CHART_HEATMAP,
    NSI_CHART_MATRIX,
    NSI_CHART_PLANE,
    NSI_CHART_NETWORK
} nsi_chart_kind;

typedef struct nsi_chart {
    char name[64]; // as nsi_figure's
    const char* title;
    nsi_chart_kind kind;
    union {
        nsi_lines lines;
        nsi_bars bars;
        nsi_intervals intervals;
        nsi_heatmap heatmap;
        nsi_matrix matrix;
        nsi_plane plane;
        nsi_network_picture network;
    } as;
    const nsi_chart_column* columns; // its numbers
    uint32_t ncolumn, nrow;
} nsi_chart;

// Charts with what they point to, unless that is borrowed.
typedef struct nsi_charts {
    nsi_arena arena;
    NSI_ARRAY(nsi_chart) list;
} nsi_charts;

void nsi_charts_init(const ns_allocator* allocator, nsi_charts* out); // NULL: the default one
void nsi_charts_free(nsi_charts* charts);

// A new one, to be filled; NULL when out of memory. Of the name, what a figure's may not have
// becomes '_', and a number follows where another chart has it.
nsi_chart* nsi_charts_add(nsi_charts* charts, nsi_chart_kind kind, const char* name,
                          const char* title);
const nsi_chart* nsi_charts_find(const nsi_charts* charts, const char* name); // or NULL

// From the arena, zeroed; NULL when out of memory.
void* nsi_charts_zeros(nsi_charts* charts, size_t count, size_t size);
const char* nsi_charts_text(nsi_charts* charts, const char* format, ...) NSI_PRINTF(2, 3);
// Its table of so many columns, to be filled; NULL when out of memory.
nsi_chart_column* nsi_chart_table(nsi_charts* charts, nsi_chart* chart, uint32_t ncolumn,
                                  uint32_t nrow);

// @return NS_OK; NS_ERR_NONFINITE naming a weight of a network that is not; NS_ERR_NOMEM
ns_status nsi_chart_figure(const nsi_chart* chart, const ns_allocator* allocator, nsi_figure* out,
                           ns_error* error);

// Its numbers: missing ones are empty.
ns_status nsi_chart_csv(const nsi_chart* chart, const ns_allocator* allocator, ns_text* out,
                        ns_error* error);

// ---- terminal.c --------------------------------------------------------------------------------

// In characters, at most so many columns (40 at least are taken).
// @param colour  tell curves apart by colours of the terminal
// @return NS_OK; NS_ERR_UNSUPPORTED: a network, a plane; NS_ERR_NOMEM
ns_status nsi_chart_text(const nsi_chart* chart, uint32_t columns, bool colour,
                         const ns_allocator* allocator, ns_text* out, ns_error* error);

#endif
