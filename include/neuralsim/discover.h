/// @file discover.h
/// Discovery: finds from recordings what is missing in a model, without being told where to look.
///
///     ns_discovery* d = NULL;
///     ns_discover_load("what_is_missing.yaml", 0, &d, &error);
///     ns_discover_run(d, NULL, NULL, &error);
///     for (uint32_t k = 0; k < ns_discover_count(d); k++) puts(ns_discover_found(d, k)->text);
///     ns_discover_save(d, "out", &error);          // out/fitted.yaml, fitted_blueprint.yaml, the report
///     ns_discover_free(d);
///
/// The file is a fit file (fit.h, docs/fit.md) with a model and data; details are in docs/discover.md.
/// Results do not depend on the number of threads. Link as for fit.h.

#ifndef NEURALSIM_DISCOVER_H
#define NEURALSIM_DISCOVER_H

#include "neuralsim/estimates.h"
#include "neuralsim/report.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_discovery ns_discovery;

/// Read a file, its model and recordings, and build the library of candidate terms.
/// @param threads  0: one per core
/// @return NS_OK; as ns_fit_load(); NS_ERR_UNSUPPORTED: a learned system, or several variants
NS_API ns_status ns_discover_load(const char* path, uint32_t threads, ns_discovery** out,
                                  ns_error* error);
NS_API void ns_discover_free(ns_discovery* discovery); ///< NULL is allowed

/// Likely mistakes in the recordings (data_check.h), one line each; NULL for a number that is too large.
NS_API uint32_t ns_discover_data_warning_count(const ns_discovery* discovery);
NS_API const char* ns_discover_data_warning(const ns_discovery* discovery, uint32_t number);

/// Called regularly from one thread with the current activity. Return true to stop the search and keep
/// what was found so far.
typedef bool ns_discover_observer(void* context, const char* activity, double seconds);

/// Search for missing terms and wrong parameters.
/// @param observe  or NULL
/// @return NS_OK, also when nothing is missing; NS_ERR_NONFINITE: the model's simulation does not stay
///         finite; NS_ERR_NOMEM
NS_API ns_status ns_discover_run(ns_discovery* discovery, ns_discover_observer* observe,
                                 void* context, ns_error* error);

/// True when the observer stopped the search: the result is incomplete.
NS_API bool ns_discover_stopped(const ns_discovery* discovery);

/// One thing that is missing or wrong.
typedef struct ns_discovered {
    bool parameter; ///< a parameter has another value; otherwise a formula is missing
    const char*
        quantity; ///< the parameter, or what the formula adds to: "joint/elbow/tau", "link/*/force"
    const char* form; ///< of a formula: "qd", "|v| v", "tanh(qd / v)"; of a parameter ""
    const char* text; ///< "joint/elbow/tau += -0.098 qd", "link/lower/mass = 0.75"
    double value;     ///< of the parameter, or the coefficient
    double standard_error;
    double start; ///< the model's value; 0 for coefficients
    double shape; ///< v of tanh(qd / v); NaN where there is none
    ns_verdict
        verdict; ///< NS_VERDICT_UNDETERMINED: it can be traded against others, its error holds if
                 ///< these are right; AT_LOWER, AT_UPPER: its shape; MISFIT; POOR; OK
} ns_discovered;

/// What was found, in the order in which terms entered.
NS_API uint32_t ns_discover_count(const ns_discovery* discovery);
NS_API const ns_discovered* ns_discover_found(const ns_discovery* discovery, uint32_t number);

/// Report of the last run: what is missing, residuals, where, and the steps of the search.
/// @param out  to be freed by ns_report_free() before the discovery
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_discover_report(const ns_discovery* discovery, ns_report** out,
                                    ns_error* error);

/// Write fitted.yaml (a hybrid model), fitted_blueprint.yaml if a formula is missing, result.json and
/// report.html into a folder, which is created if necessary; fitted_blueprint.yaml and
/// weights.safetensors of an earlier result are removed. A run that was stopped before anything was
/// found writes nothing.
/// @return NS_OK; NS_ERR_ARGUMENT: the result would replace a file that was read, and nothing is
///         written; NS_ERR_IO, NS_ERR_NOMEM
NS_API ns_status ns_discover_save(const ns_discovery* discovery, const char* folder,
                                  ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
