// The posterior of a fit in its report, and as files.

#ifndef NSI_FIT_POSTERIOR_REPORT_H
#define NSI_FIT_POSTERIOR_REPORT_H

#include "fit/prediction_traces.h"
#include "fit/result.h"
#include "report/report_data.h"

// Add the figure "corner", which borrows from the result.
ns_status nsi_posterior_add_figures(const nsi_result* result, nsi_figures* figures,
                                    ns_error* error);

// A section with the figure "bands", where traces have bands.
ns_status nsi_posterior_report_bands(ns_report* report, const nsi_traces* traces, const ns_fit* fit,
                                     ns_error* error);

// The section of the posterior; nothing without one.
void nsi_posterior_report(ns_report* report, const nsi_result* result);

// All samples as a table: chain, draw, mode, weight, log_density, divergent, then a column for each
// number.
ns_status nsi_posterior_write_samples(const ns_posterior* posterior, const char* path,
                                      const ns_allocator* allocator, ns_error* error);

#endif
