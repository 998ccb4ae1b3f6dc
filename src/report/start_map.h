// Where local and other methods end when they start from each cell of a grid (experiments of kind
// `grid`): one chart of two maps for each pose, "starts_pose1" and so on.

#ifndef NSI_REPORT_START_MAP_H
#define NSI_REPORT_START_MAP_H

#include "report/figure_data.h"

typedef struct nsi_starts {
    const char* names[2];  // of the parameters, across and up
    const char* labels[2]; // of the methods
    double truth[2];
    double from, to; // of both parameters
    uint32_t cells;  // in a row
} nsi_starts;

// @param errors  (cells x cells) of each method, borrowed: row i has the second parameter's value i
ns_status nsi_starts_add_figure(const nsi_starts* starts, uint32_t pose,
                                const double* const errors[2], nsi_figures* charts,
                                ns_error* error);

// All charts of the result.json of such an experiment.
// @return NS_OK; NS_ERR_UNSUPPORTED: JSON of something else; NS_ERR_PARSE, NS_ERR_LIMIT naming what
//         is wrong; NS_ERR_NOMEM
ns_status nsi_starts_read(const char* text, size_t size, const char* path, nsi_figures* charts,
                          ns_error* error);

#endif
