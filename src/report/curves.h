// Columns of a table over time.

#ifndef NSI_REPORT_CURVES_H
#define NSI_REPORT_CURVES_H

#include "neuralsim/table.h"
#include "report/figure_data.h"

enum { NSI_CURVES_DEFAULT = 4, NSI_CURVES_MAX = 8 };

// Add a chart of channels over the column `t` (without one, over rows), each in a panel. A channel is a
// column `name` together with `name/before` and `name/after`, or with `name_recorded` (as `score`
// writes them), which are drawn with it. Where `traj`
// changes, a new trajectory begins; they are drawn one after the other, six at most. Rows in which
// `test` is not 0 are shaded.
// @param patterns  names or globs of channels; none: the first four
// @return NS_OK; NS_ERR_ARGUMENT: there is no such column, or too many; NS_ERR_PARSE: no numbers at
//         all; NS_ERR_NOMEM
ns_status nsi_curves_add_figure(const ns_table* table, const char* file,
                                const char* const* patterns, uint32_t npattern, const char* name,
                                const char* title, nsi_figures* charts, ns_error* error);

#endif
