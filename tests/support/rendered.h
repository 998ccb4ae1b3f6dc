// Reports of fits, results and discoveries, rendered.

#ifndef TEST_RENDERED_H
#define TEST_RENDERED_H

#include "fit/fit_report.h"
#include "neuralsim/discover.h"

typedef ns_status report_renderer(const ns_report* report, ns_text* out, ns_error* error);

// @param render  ns_report_text, ns_report_json, or ns_report_html: with motion
ns_status render_fit(const ns_fit* fit, report_renderer* render, ns_text* out, ns_error* error);
ns_status render_result(const nsi_result* result, report_renderer* render, ns_text* out,
                        ns_error* error);

ns_status render_discovery(const ns_discovery* discovery, report_renderer* render, ns_text* out,
                           ns_error* error);

#endif
