#include "support/rendered.h"

static ns_status render_and_free(ns_status status, ns_report* report, report_renderer* render,
                                 ns_text* out, ns_error* error) {
    *out = (ns_text){0};
    if (status == NS_OK) status = render(report, out, error);
    ns_report_free(report);
    return status;
}

ns_status render_fit(const ns_fit* fit, report_renderer* render, ns_text* out, ns_error* error) {
    ns_report* report = NULL;
    ns_fit_report_options options = {.motion = render == ns_report_html};
    ns_status status = ns_fit_report(fit, &options, &report, error);
    return render_and_free(status, report, render, out, error);
}

ns_status render_result(const nsi_result* result, report_renderer* render, ns_text* out,
                        ns_error* error) {
    ns_report* report = NULL;
    ns_status status = nsi_result_report(result, NULL, NULL, NULL, &report, error);
    return render_and_free(status, report, render, out, error);
}

ns_status render_discovery(const ns_discovery* discovery, report_renderer* render, ns_text* out,
                           ns_error* error) {
    ns_report* report = NULL;
    ns_status status = ns_discover_report(discovery, &report, error);
    return render_and_free(status, report, render, out, error);
}
