// Figures inside the library: a collection with the memory of its figures, and one drawing function for
// each kind.

#ifndef NSI_REPORT_FIGURE_DATA_H
#define NSI_REPORT_FIGURE_DATA_H

#include "neuralsim/figure.h"
#include "report/drawing.h"
#include "report/network_diagram.h"
#include "report/scale.h"

// ---- figure.c ----------------------------------------------------------------------------------

// Figures with what they point to, unless that is borrowed.
typedef struct nsi_figures {
    nsi_arena arena;
    NSI_ARRAY(ns_figure) list;
} nsi_figures;

void nsi_figures_init(const ns_allocator* allocator, nsi_figures* out); // NULL: the default one
void nsi_figures_free(nsi_figures* figures);

// A new one, to be filled before the next is added; NULL when out of memory. Of the name, what a
// figure's may not have becomes '_', and a number follows where another figure has it.
ns_figure* nsi_figures_add(nsi_figures* figures, ns_figure_kind kind, const char* name,
                           const char* title);
const ns_figure* nsi_figures_find(const nsi_figures* figures, const char* name); // or NULL

// From the arena, zeroed; NULL when out of memory.
void* nsi_figures_zeros(nsi_figures* figures, size_t count, size_t size);
const char* nsi_figures_text(nsi_figures* figures, const char* format, ...) NSI_PRINTF(2, 3);
// Its table of so many columns, to be filled; NULL when out of memory.
ns_figure_column* nsi_figure_table(nsi_figures* figures, ns_figure* figure, uint32_t ncolumn,
                                   uint32_t nrow);

// @return NS_OK; NS_ERR_NONFINITE naming a weight of a network that is not; NS_ERR_NOMEM
ns_status nsi_figure_draw(const ns_figure* figure, const ns_allocator* allocator, nsi_drawing* out,
                          ns_error* error);

// ---- line_chart.c ------------------------------------------------------------------------------

// Vertical lines of class "grid" are at ticks of x, horizontal ones at those of y; polylines go
// through the points, thinned where there are more than can be seen; a point alone is a circle.
void nsi_line_chart_draw(nsi_text_builder* b, const ns_line_chart* lines, const char* title);

// The scale of a panel, without places: of all that it shows.
nsi_scale nsi_line_chart_x(const ns_line_chart* lines);
nsi_scale nsi_line_chart_y(const ns_line_chart* lines, const ns_line_panel* panel);
// Is this series in the legend: the first of its style that has a name?
bool nsi_line_chart_listed(const ns_line_chart* lines, uint32_t panel, uint32_t series);

// ---- bar_chart.c, heatmap.c, plane_chart.c -----------------------------------------------------

void nsi_bar_chart_draw(nsi_text_builder* b, const ns_bar_chart* bars, const char* title);
void nsi_interval_chart_draw(nsi_text_builder* b, const ns_interval_chart* intervals,
                             const char* title);
// One <rect> of class "cell" for each cell, dark where the value is small.
void nsi_heatmap_draw(nsi_text_builder* b, const ns_heatmap* map, const char* title);
void nsi_matrix_chart_draw(nsi_text_builder* b, const ns_matrix_chart* matrix, const char* title);
void nsi_plane_chart_draw(nsi_text_builder* b, const ns_plane_chart* plane, const char* title);

// ---- corner_chart.c ----------------------------------------------------------------------------

// Histograms on the diagonal, one <rect> of class "blue" for each bin that is not empty; below it, pairs as
// counts in cells.
void nsi_corner_chart_draw(nsi_text_builder* b, const ns_corner_chart* corner, const char* title);

#endif
