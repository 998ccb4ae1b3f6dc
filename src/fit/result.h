// The result of a fit: estimates with standard errors, what the data cannot identify, prediction errors
// before and after, and time spent. A plain record, its analysis from an information matrix, and its
// reports.

#ifndef NSI_FIT_RESULT_H
#define NSI_FIT_RESULT_H

#include "base/common.h"
#include "neuralsim/fit.h"
#include "report/figure_data.h"
#include "report/motion_data.h"
#include "sysid/identifiability.h"

typedef struct nsi_result {
    ns_allocator allocator; // of all arrays; texts live in the arena
    nsi_arena arena;
    const char *title, *model, *treatment; // treatment: of the data
    const char* setting;                   // "rk4, 2.5 ms; windows with free states; seed 1"
    const char* citation;                  // of the data, or ""
    const char* fit;                       // its name among those it was read from, or NULL

    nsi_estimates estimates;
    NSI_ARRAY(ns_fitted_coefficient) coefficients;
    double* correlation; // (nestimate x nestimate), NaN where there is no error. NULL: neither it
                         // nor standard errors and verdicts are computed
    nsi_directions directions; // null ones first
    double sigma;              // of the residuals, in units of the channels' scales
    bool noise_known;          // every channel has a sigma; otherwise the scale is how far it goes
    uint32_t nresidual, nweight; // weights of networks

    ns_score before[NS_ROLE_COUNT], after[NS_ROLE_COUNT]; // windows 0: no such data
    NSI_ARRAY(ns_fit_phase) phases;
    NSI_ARRAY(ns_fit_history_point) history;
    NSI_ARRAY(ns_sparsity_point) path;    // at the end of each stage with a penalty; along its
    NSI_ARRAY(const char*) path_names;    // iterations, too, where all have the same
    NSI_ARRAY(const char*) data_warnings; // likely mistakes in the recordings
    NSI_ARRAY(const char*) notes;     // what a reader should know: bound hits, refused steps, kinks
    const char* unreliable_gradients; // windows of the last stage, in words; NULL: none
    const char *failure, *doubts;     // as of ns_fit_result
    double seconds;                   // all of it
    bool complete;                    // false: stopped before its end
    ns_posterior* posterior;          // in the arena; NULL: none
} nsi_result;

void nsi_result_init(const ns_allocator* allocator, nsi_result* out); // NULL: the default one
void nsi_result_free(nsi_result* result);

// The result as callers see it; it points into the result.
ns_fit_result nsi_result_view(const nsi_result* result);

// Standard errors, verdicts, correlation and directions of the estimates; as nsi_identify().
ns_status nsi_result_identify(nsi_result* result, const double* information, double sigma,
                              const double* sizes, ns_error* error);

// The record for machines; nsi_result_report() (fit_report.h) shows it to people.
ns_status nsi_result_json(const nsi_result* result, ns_text* out, ns_error* error);

// Read what nsi_result_json() wrote, or that in which `fits` has it (of an experiment). What is not
// finite is null there: a standard error is read as INFINITY, or NaN where there is no effect;
// bounds, errors of directions and of horizons as infinite; all else as NaN.
// @param path  of the file, for messages
// @param fit   which of `fits`, NULL: the headline, or the first; ignored for a single one
// @return NS_OK; NS_ERR_PARSE naming what is wrong, NS_ERR_LIMIT; NS_ERR_ARGUMENT: there is no such
//         fit; NS_ERR_NOMEM. `out` is initialised in any case
ns_status nsi_result_read(const char* text, size_t size, const char* path, const char* fit,
                          const ns_allocator* allocator, nsi_result* out, ns_error* error);

// Add the charts of a result, those for which there is something: "loss", "parameters",
// "correlation", "errors_train" ("validation", "test"), "timing", "path". They borrow from it.
ns_status nsi_result_add_figures(const nsi_result* result, nsi_figures* charts, ns_error* error);

#endif
