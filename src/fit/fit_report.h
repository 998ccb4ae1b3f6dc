// Reports of fits inside the library.

#ifndef NSI_FIT_FIT_REPORT_H
#define NSI_FIT_FIT_REPORT_H

#include "fit/fit_state.h"
#include "fit/prediction_traces.h"
#include "fit/result_words.h"
#include "report/report_data.h"

// The report of a result, from which it borrows.
// @param moves         to be shown in it, or NULL; belongs to the report, also after a failure
// @param add_networks  adds figures of networks, or NULL
ns_status nsi_result_report(const nsi_result* result, ns_motion* moves,
                            ns_status (*add_networks)(const void* context, nsi_figures* figures,
                                                      ns_error* error),
                            const void* context, ns_report** out, ns_error* error);

// The report of a fit with the motion of its recordings and predictions.
ns_status nsi_fit_report(const ns_fit* fit, const nsi_traces* traces, ns_report** out,
                         ns_error* error);

#endif
