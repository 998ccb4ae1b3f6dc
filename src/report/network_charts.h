// Sets of weights of a system, as people see them: names of what goes in and comes out, and pictures.

#ifndef NSI_REPORT_NETWORK_CHARTS_H
#define NSI_REPORT_NETWORK_CHARTS_H

#include "report/figure_data.h"

#include "sim/system.h"

// Names of the inputs of a set of weights of the system's blueprint, over all uses of it: '*' stands
// for what differs ("joint/*/velocity", "prev:qd/0"). From the arena; NULL when out of memory.
const char* const* nsi_weights_inputs(const ns_system* system, uint32_t set, nsi_arena* arena);

// Add the chart "network_<set>": a picture of this set, whose weights are borrowed. A formula's has none.
// @param weights  (nw) of all sets
// @param when     NULL, or what tells two pictures of a set apart: "network_<set>_<when>"
ns_status nsi_weights_add_figure(const ns_system* system, uint32_t set, const double* weights,
                                 const char* when, nsi_figures* charts, ns_error* error);

#endif
