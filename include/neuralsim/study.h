/// @file study.h
/// Studies: many fits from one file, as papers need them.
///
///     ns_study* study = NULL;
///     ns_study_load("experiments/golf/study.yaml", NULL, &study, &error);   // validates the file
///     ns_study_run(study, "out", &error);                  // fits and recordings go below out/
///     ns_study_save(study, &error);                        // out/report.html, out/result.json
///     ns_report* report = NULL;
///     ns_study_report(study, &report, &error);             // tables, notes and figures as data
///     ns_report_free(report);
///     ns_study_free(study);
///
/// A study is a folder with a study.yaml (docs/experiments.md). Its kind says what it runs:
///
///     fits   fits to recordings, with seeds, folds, learning curves, groups and references
///     grid   one fit from every cell of a grid of initial values, by several methods
///
/// The same file gives the same numbers at any number of threads, but for those that are seconds. Link as
/// for fit.h.

#ifndef NEURALSIM_STUDY_H
#define NEURALSIM_STUDY_H

#include "neuralsim/report.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_study ns_study;

/// How far a study is.
typedef struct ns_study_progress {
    const char* what;   ///< "friction", "friction, run 2 of 3"
    double done, total; ///< of that
    double seconds;     ///< since the beginning
} ns_study_progress;

/// Called by one thread at a time; true: stop.
typedef bool ns_study_observer(void* context, const ns_study_progress* progress);

/// Called with a sentence that the user should see while the study runs: a group was left out because its
/// recordings are missing.
typedef void ns_study_notify(void* context, const char* text);

/// A zeroed struct is the default.
typedef struct ns_study_options {
    bool smoke;       ///< only the part that `smoke` of the file names, in seconds
    uint32_t threads; ///< 0: one per core
    ns_study_observer* observe;
    ns_study_notify* notify;
    void* context; ///< of both
} ns_study_options;

/// Read and validate a study.yaml and the fits that it names; recordings are not read.
/// @param options  NULL for the default; copied
/// @param out      to be freed by ns_study_free(); NULL after a failure
/// @return NS_OK; NS_ERR_IO, NS_ERR_PARSE, NS_ERR_LIMIT naming file, line and column; NS_ERR_NOMEM
NS_API ns_status ns_study_load(const char* path, const ns_study_options* options, ns_study** out,
                               ns_error* error);
NS_API void ns_study_free(ns_study* study); ///< NULL is allowed

NS_API const char* ns_study_name(const ns_study* study);  ///< that of its folder
NS_API const char* ns_study_title(const ns_study* study); ///< of the file

/// Run a study once. Each fit is saved to a folder of its name when it is done, fitted.yaml of the headline
/// and analytic.yaml of the analytic baseline to the folder itself. Results of an earlier run are removed
/// from the folder first, and those of this run when it fails or is stopped; folders of fits stay.
/// @param folder  made if it is not there; the folder that it is in must be
/// @return NS_OK, also when stopped; NS_ERR_IO: recordings are missing, with where to get them, or the
///         folder cannot be made; NS_ERR_STATE: it was run before; what fits return (fit.h)
NS_API ns_status ns_study_run(ns_study* study, const char* folder, ns_error* error);

/// Was the run stopped by the observer? Then there is no result.
NS_API bool ns_study_stopped(const ns_study* study);

/// Mistakes of the file that only the result shows, such as a figure of a channel that no fit has. All else
/// of the result is there; the report shows them first.
NS_API uint32_t ns_study_problem_count(const ns_study* study);
NS_API const char* ns_study_problem(const ns_study* study, uint32_t number);

/// Report of a finished run; its record is what result.json holds.
/// @param out  to be freed by ns_report_free() before the study is freed
/// @return NS_OK; NS_ERR_STATE: there is no finished run; NS_ERR_NOMEM
NS_API ns_status ns_study_report(ns_study* study, ns_report** out, ns_error* error);

/// Write report.html, result.json, and each figure as SVG and CSV into the folder of the run.
/// @return NS_OK; NS_ERR_STATE: there is no finished run; NS_ERR_IO, NS_ERR_NOMEM
NS_API ns_status ns_study_save(ns_study* study, ns_error* error);

// ---- which there are -----------------------------------------------------------------------------

typedef struct ns_study_list ns_study_list;

typedef struct ns_study_entry {
    const char* name;  ///< of the folder
    const char* path;  ///< of study.yaml
    const char* title; ///< NULL: study.yaml cannot be read, or has none
} ns_study_entry;

/// Find the studies below folders: FOLDER/NAME/study.yaml, ordered by name. Of two of the same name the
/// one of the earlier folder counts; folders that are not there are skipped.
/// @param out  to be freed by ns_study_list_free(); NULL after a failure
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_study_list_create(const char* const* folders, uint32_t nfolder,
                                      ns_study_list** out, ns_error* error);
NS_API void ns_study_list_free(ns_study_list* list); ///< NULL is allowed
NS_API uint32_t ns_study_list_count(const ns_study_list* list);
NS_API const ns_study_entry* ns_study_list_at(const ns_study_list* list, uint32_t number);

#ifdef __cplusplus
}
#endif

#endif
