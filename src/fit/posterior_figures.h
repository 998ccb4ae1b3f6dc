// Figures of a posterior: pairs of its samples, and bands of predictions. The same for the report of a fit
// and for the files that it wrote.

#ifndef NSI_FIT_POSTERIOR_FIGURES_H
#define NSI_FIT_POSTERIOR_FIGURES_H

#include "report/report_data.h"

enum { NSI_MAX_CORNER = 8, NSI_MAX_CORNER_POINTS = 2000 };
enum { NSI_MAX_BAND_PANELS = 4, NSI_MAX_BAND_ROWS = 400 };

// The figure "corner".
// @param names   (n) of the figures' memory, as all pointers here
// @param values  (count x n) samples of equal weight
ns_status nsi_corner_add_figure(nsi_figures* figures, const char* const* names, uint32_t n,
                                const double* values, uint32_t count, ns_error* error);

// The figure "bands".
// @param channels  (n) names
// @param numbers   (rows each) times, then for each channel what was recorded, and both ends of its band
ns_status nsi_bands_add_figure(nsi_figures* figures, const char* const* channels, uint32_t n,
                               double* numbers, uint32_t rows, ns_error* error);

#endif
