/// @file fit.h
/// Fitting: parameters of a model and weights of its networks from recordings, with errors.
///
///     ns_fit* fit = NULL;
///     ns_fit_load("pendulum_fit.yaml", 0, &fit, &error);          // checks everything
///     ns_fit_run(fit, NULL, &error);
///     double mass, off;
///     ns_fit_estimate(fit, "link/upper/mass", &mass, &off);        // value, standard error
///     ns_fit_save(fit, "out", &error);                             // out/fitted.yaml and the report
///     ns_fit_free(fit);
///
/// An experiment is one YAML file (docs/fit.md). The same file gives the same answer, bit for bit, at
/// any number of threads, unless it limits the time. Link libneuralsim_fit.a before
/// libneuralsim_report.a and libneuralsim.a.

#ifndef NEURALSIM_FIT_H
#define NEURALSIM_FIT_H

#include "neuralsim/report.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_fit ns_fit;

/// Read an experiment, its model, networks and recordings, and check that they fit together.
/// @param threads  0: one per core
/// @return NS_OK; NS_ERR_IO, NS_ERR_PARSE, NS_ERR_UNSUPPORTED, NS_ERR_NONFINITE, NS_ERR_LIMIT naming
///         file and line; NS_ERR_NOMEM
NS_API ns_status ns_fit_load(const char* path, uint32_t threads, ns_fit** out, ns_error* error);
NS_API void ns_fit_free(ns_fit* fit); ///< NULL is allowed

/// Let the next run start elsewhere: as if the file had another `initial` for this parameter, around
/// which its prior, if it has one, is then centred. Its bounds and its size stay.
/// @param name   of one parameter, as ns_fit_estimate() knows it
/// @param value  within its bounds
/// @return NS_OK; NS_ERR_ARGUMENT: there is no such parameter, with the nearest name, or the value is
///         not within the bounds; NS_ERR_NOMEM
NS_API ns_status ns_fit_set_start(ns_fit* fit, const char* name, double value, ns_error* error);

/// How far a fit is.
typedef struct ns_fit_progress {
    const char* phase;              ///< "windows of 100, LM", "search by basin hopping"
    uint32_t number, count;         ///< of the phase, from 0
    uint32_t iteration, iterations; ///< done, and at most
    double loss;                    ///< root of the mean squared residual, in units of its scale
    double seconds;                 ///< since the beginning, time before a resume included
} ns_fit_progress;

/// Called by one thread after each iteration; true: stop.
typedef bool ns_fit_observer(void* context, const ns_fit_progress* progress);

/// A zeroed struct is the default.
typedef struct ns_fit_options {
    ns_fit_observer* observe;
    void* context;
    const char*
        checkpoint;  ///< file to keep the state in, NULL: none. It is replaced in one go; the one
                     ///< before it stays beside it with ".old" at the end of its name
    double interval; ///< s between checkpoints. 0: 2
    bool resume;     ///< go on from the checkpoint, if there is one
} ns_fit_options;

/// Fit. Stopped by the observer, it ends with what it has; resumed, it goes on to the same answer as
/// if it had not been stopped.
/// @return NS_OK, also when stopped; NS_ERR_NONFINITE: no start gave a finite loss; NS_ERR_PARSE: the
///         checkpoint belongs to another experiment; NS_ERR_IO, NS_ERR_NOMEM
NS_API ns_status ns_fit_run(ns_fit* fit, const ns_fit_options* options, ns_error* error);

NS_API const char* ns_fit_title(const ns_fit* fit); ///< of the file; lives as long as the fit

/// Was the last run stopped before its end?
NS_API bool ns_fit_stopped(const ns_fit* fit);

/// Value and standard error (may be NULL) of a parameter; false when there is none of this name.
NS_API bool ns_fit_estimate(const ns_fit* fit, const char* name, double* value, double* error);

/// What the report of a fit has besides tables, notes and figures. Zero: nothing.
typedef struct ns_fit_report_options {
    bool motion; ///< recorded and predicted motion, which takes simulations; only pages show it
} ns_fit_report_options;

/// Report of the last run: parameters, diagnostics, prediction errors, course of the solver; its record
/// is what result.json holds.
/// @param options  NULL for the default
/// @param out      to be freed by ns_report_free() before the fit is freed or run again
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_fit_report(const ns_fit* fit, const ns_fit_report_options* options,
                               ns_report** out, ns_error* error);

/// The report of a result.json that a fit or an experiment wrote.
/// @param fit  of an experiment: which fit; NULL: its main one. The report has it as the fact "fit"
/// @param out  to be freed by ns_report_free()
/// @return NS_OK; NS_ERR_IO, NS_ERR_PARSE, NS_ERR_LIMIT naming file and place; NS_ERR_ARGUMENT: there
///         is no such fit; NS_ERR_NOMEM
NS_API ns_status ns_result_report(const char* path, const char* fit, ns_report** out,
                                  ns_error* error);

/// Write fitted.yaml (a hybrid model), weights.safetensors if there are networks, result.json and
/// report.html into a folder, which is made if it is not there.
NS_API ns_status ns_fit_save(const ns_fit* fit, const char* folder, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
