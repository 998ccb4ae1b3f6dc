/// @file figure.h
/// Figures: what a picture shows, as plain data, drawn as SVG or in characters; its numbers are a table.
///
///     ns_text svg;
///     const ns_figure* loss = ns_report_find_figure(report, "loss");
///     ns_figure_svg(loss, NULL, &svg, &error);          // a file of its own
///
/// Figures are made by ns_section_add_figure() (report.h), which returns one to be filled. Its arrays and
/// texts are borrowed: take them from ns_report_alloc(), or keep them as long as the report. Texts may
/// hold anything; they are escaped where they are drawn. Link libneuralsim_report.a before libneuralsim.a.

#ifndef NEURALSIM_FIGURE_H
#define NEURALSIM_FIGURE_H

#include "neuralsim/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- lines: curves over one x, in panels one below the other -------------------------------------

typedef struct ns_axis {
    const char* label;
    bool log; ///< values that are not positive are missing
} ns_axis;

typedef struct ns_line_series {
    const char* name;       ///< in the legend, once for each style; NULL: not there
    const char* line_style; ///< "c0" to "c7", "recorded", "before", "after", "other"
    const double* y;        ///< (count); not finite: missing
} ns_line_series;

typedef struct ns_line_panel {
    ns_axis y;
    const ns_line_series* series;
    uint32_t nseries;
} ns_line_panel;

/// A vertical line.
typedef struct ns_line_mark {
    double x;
    const char* label;
} ns_line_mark;

/// A shaded range of x.
typedef struct ns_line_span {
    double from, to;
    const char* label;
} ns_line_span;

typedef struct ns_line_chart {
    ns_axis x_axis;
    const double* x; ///< (count); not finite: no point
    uint32_t count;
    const bool* breaks; ///< (count) no line from the point before; NULL: none
    const ns_line_panel* panels;
    uint32_t npanel;
    const ns_line_mark* marks;
    uint32_t nmark;
    const ns_line_span* spans;
    uint32_t nspan;
    bool points; ///< a ring at each point
} ns_line_chart;

// ---- bars ----------------------------------------------------------------------------------------

typedef struct ns_bar {
    double length;    ///< NaN: no bar; infinite: only its text
    double mark;      ///< a stroke across it; NaN: none
    const char* text; ///< behind it
} ns_bar;

typedef struct ns_bar_chart {
    const char* const* labels; ///< (rows)
    const ns_bar* bars;        ///< (rows x ngroup), groups from the top
    uint32_t rows, ngroup;
    const char* groups[2]; ///< names of one or two; the second is the coloured one
    const char* mark;      ///< what strokes are; NULL: there are none
} ns_bar_chart;

// ---- intervals around 0 --------------------------------------------------------------------------

typedef struct ns_interval {
    const char* label;
    const char* note; ///< at the right
    bool bad;         ///< the note stands out
    double half;      ///< half its width; INFINITY: the whole axis; NaN: no interval
    double start;     ///< a ring; NaN: none
} ns_interval;

typedef struct ns_interval_chart {
    const ns_interval* rows;
    uint32_t nrow;
    double reach; ///< end of the axis: intervals are cut off there, starts become arrows
} ns_interval_chart;

// ---- maps ----------------------------------------------------------------------------------------

/// Two maps of the same grid side by side.
typedef struct ns_heatmap {
    const char* titles[2];
    const char* axes[2];     ///< across, up
    const double* values[2]; ///< (cells x cells): row i, column k at value i up, k across
    uint32_t cells;          ///< in a row
    double from, to;         ///< of both axes: centres of the first and the last cell
    double mark[2];          ///< where the star is
    double max;              ///< this value and all above have the lightest colour
} ns_heatmap;

/// The lower triangle of a symmetric matrix of numbers from -1 to 1.
typedef struct ns_matrix_chart {
    const char* const* names; ///< (n)
    const double* values;     ///< (stride x stride); NaN: empty
    uint32_t n, stride;
} ns_matrix_chart;

// ---- drawings in the plane, with the same scale both ways ----------------------------------------

typedef struct ns_plane_curve {
    const char* name;       ///< in the legend, once for each style; NULL: not there
    const char* line_style; ///< as of ns_line_series
    const double *x, *y;    ///< (count); not finite: missing
    uint32_t count;
    bool closed; ///< an outline
} ns_plane_curve;

/// A disc of area `size`.
typedef struct ns_plane_dot {
    double x, y, size;
    const char* name;
} ns_plane_dot;

typedef struct ns_plane_panel {
    const char* title;
    const ns_plane_curve* curves;
    uint32_t ncurve;
    const ns_plane_dot* dots;
    uint32_t ndot;
} ns_plane_panel;

/// Panels side by side, each as large as its content, with a scale bar.
typedef struct ns_plane_chart {
    const ns_plane_panel* panels;
    uint32_t npanel;
    const char* unit; ///< of both axes
    double max;       ///< this size and all above have the largest disc
} ns_plane_chart;

// ---- networks: layers as columns of circles, weights as lines between them ------------------------

/// Weights from one layer to the next: row j leads from node j, the last one from the bias if there
/// is one; columns are the nodes of the next layer.
typedef struct ns_network_diagram_layer {
    const double* weights; ///< (rows x columns)
    uint32_t rows, columns;
    bool bias;
    const char* heading; ///< over the next layer's nodes, such as "tanh"
} ns_network_diagram_layer;

typedef struct ns_network_diagram {
    const char* title;
    const char* const* notes; ///< (nnote) lines under the title
    uint32_t nnote;
    const ns_network_diagram_layer*
        layers;                 ///< each has as many columns as the next has rows, without its bias
    uint32_t nlayer;            ///< at least 1
    const char* const* inputs;  ///< names: of the rows of the first layer without its bias,
    const char* const* outputs; ///< of the columns of the last
} ns_network_diagram;

// ---- corner plots: samples of several numbers, one by one and in pairs -----------------------------

typedef struct ns_corner_chart {
    const char* const* names; ///< (n)
    const double* values;     ///< (count x n)
    const double* weights;    ///< (count) not negative; NULL: equal
    uint32_t n, count;
} ns_corner_chart;

// ---- figures -------------------------------------------------------------------------------------

/// A column of a figure's numbers: numbers or texts, one of both.
typedef struct ns_figure_column {
    const char* name;
    const double* numbers;
    const char* const* texts;
} ns_figure_column;

typedef enum ns_figure_kind {
    NS_FIGURE_LINES,
    NS_FIGURE_BARS,
    NS_FIGURE_INTERVALS,
    NS_FIGURE_HEATMAP,
    NS_FIGURE_MATRIX,
    NS_FIGURE_PLANE,
    NS_FIGURE_NETWORK,
    NS_FIGURE_CORNER
} ns_figure_kind;

typedef struct ns_figure {
    char name[64]; ///< "loss": of files and in addresses; letters, digits and '_'
    const char* title;
    const char* caption; ///< a sentence that explains the marks, or NULL
    ns_figure_kind kind;
    union {
        ns_line_chart lines;
        ns_bar_chart bars;
        ns_interval_chart intervals;
        ns_heatmap heatmap;
        ns_matrix_chart matrix;
        ns_plane_chart plane;
        ns_network_diagram network;
        ns_corner_chart corner;
    } as;
    const ns_figure_column* columns; ///< (ncolumn) its numbers
    uint32_t ncolumn, nrow;
} ns_figure;

/// Draw a figure as an SVG file. The same figure gives the same bytes.
/// @param allocator  NULL for ns_default_allocator()
/// @param out        to be freed by ns_text_free()
/// @return NS_OK; NS_ERR_NONFINITE naming a weight of a network that is not finite; NS_ERR_NOMEM
NS_API ns_status ns_figure_svg(const ns_figure* figure, const ns_allocator* allocator, ns_text* out,
                               ns_error* error);

/// Its numbers as comma-separated values; missing ones are empty.
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_figure_csv(const ns_figure* figure, const ns_allocator* allocator, ns_text* out,
                               ns_error* error);

/// Draw a figure in characters, at most `columns` wide (40 at least are used).
/// @param colour  distinguish curves by terminal colours
/// @return NS_OK; NS_ERR_UNSUPPORTED: a network, a plane or a corner plot; NS_ERR_NOMEM
NS_API ns_status ns_figure_text(const ns_figure* figure, uint32_t columns, bool colour,
                                const ns_allocator* allocator, ns_text* out, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
