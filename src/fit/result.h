// What a fit found out, to be trusted: estimates with errors, what the data does not determine, how
// well the model predicts before and after, and where the time went. A plain record; how it is
// computed from an information matrix, and how it is shown.

#ifndef NSI_FIT_RESULT_H
#define NSI_FIT_RESULT_H

#include "base/common.h"
#include "report/figure_data.h"
#include "report/motion_data.h"

// What can be said of a parameter; the first that holds.
#define NSI_VERDICT_MAP(X)                                                                         \
    X(NSI_VERDICT_NO_EFFECT, "no effect", "the data does not depend on it")                        \
    X(NSI_VERDICT_AT_LOWER, "at lower bound", "")                                                  \
    X(NSI_VERDICT_AT_UPPER, "at upper bound", "")                                                  \
    X(NSI_VERDICT_UNDETERMINED, "undetermined", "only together with others: see directions")       \
    X(NSI_VERDICT_POOR, "poor", "standard error above half of its size")                           \
    X(NSI_VERDICT_OK, "ok", "")

typedef enum nsi_verdict { NSI_VERDICT_MAP(NS_CHOICE_VALUE) } nsi_verdict;
extern const ns_choices nsi_verdicts;

typedef struct nsi_estimate {
    const char *name, *unit;
    double start, value;
    double lower, upper;   // may be infinite
    double standard_error; // INFINITY when undetermined, NaN for no effect
    nsi_verdict verdict;
} nsi_estimate;

// A coefficient of a formula of the blueprint.
typedef struct nsi_fitted_coefficient {
    const char *set, *name; // of weights; of its own
    double start, value;
    double standard_error; // INFINITY when undetermined, NaN when not known
} nsi_fitted_coefficient;

// A combination of parameters along which the prediction does not change: relative changes, the
// largest 1, small ones 0.
typedef struct nsi_direction {
    double* change; // (nestimate)
    double error;   // standard deviation along it, as a share of the parameters; INFINITY: null
    bool null;      // not determined at all; otherwise only poorly
} nsi_direction;

// Open-loop error at a horizon; of all windows together, and of the median window.
typedef struct nsi_horizon_error {
    double seconds;
    double pooled, median;
    uint32_t windows; // that reach it
    uint32_t samples; // up to it
} nsi_horizon_error;

// A distance as a field reports it (predict.measures); over predictions.
typedef struct nsi_measured {
    const char *name, *unit; // unit: or ""
    double mean, median;
    uint32_t windows; // that have something to measure
} nsi_measured;

#define NSI_ROLE_MAP(X)                                                                            \
    X(NSI_ROLE_TRAIN, "train", "fitted to")                                                        \
    X(NSI_ROLE_VALIDATION, "validation", "chooses between fits")                                   \
    X(NSI_ROLE_TEST, "test", "looked at in the end")

typedef enum nsi_role { NSI_ROLE_MAP(NS_CHOICE_VALUE) NSI_ROLES } nsi_role;
extern const ns_choices nsi_roles;

typedef struct nsi_score {
    double loss; // root of the mean of squared residuals, each divided by its channel's sigma
    double rmse_q, rmse_qd; // over whole windows of the longest horizon; NaN: not recorded
    nsi_horizon_error* horizons;
    uint32_t nhorizon;
    nsi_measured* measures;
    uint32_t nmeasure;
    uint32_t windows, lost; // lost: the simulation did not stay finite
    uint64_t samples;       // predicted in all
} nsi_score;

typedef struct nsi_phase {
    const char* name; // "windows of 25, LM"
    uint32_t iterations, evaluations;
    double seconds, value; // value: the loss at its end
    const char* finish;    // "converged", "iterations", "stopped"
} nsi_phase;

typedef struct nsi_history_point {
    uint32_t phase, iteration;
    double seconds, value;
} nsi_history_point;

// Where a sparsity path stands: sizes of the first layers' weights, by input, under a penalty.
typedef struct nsi_path_point {
    uint32_t phase, iteration;
    double l1, group;    // of the stage
    double loss;         // without the penalty
    const double* norms; // (npath_name), from the arena
} nsi_path_point;

typedef struct nsi_result {
    ns_allocator allocator; // of all arrays; texts live in the arena
    nsi_arena arena;
    const char *title, *model, *treatment; // treatment: of the data
    const char* setting;                   // "rk4, 2.5 ms; windows with free states; seed 1"
    const char* citation;                  // of the data, or ""
    const char* fit;                       // its name among those it was read from, or NULL

    NSI_ARRAY(nsi_estimate) estimates;
    NSI_ARRAY(nsi_fitted_coefficient) coefficients;
    double* correlation; // (nestimate x nestimate), NaN where there is no error. NULL: neither it
                         // nor standard errors and verdicts are computed
    NSI_ARRAY(nsi_direction) directions; // null ones first
    double sigma;                        // of the residuals, in units of the channels' scales
    bool noise_known; // every channel has a sigma; otherwise the scale is how far it goes
    uint32_t nresidual, nweight; // weights of networks

    nsi_score before[NSI_ROLES], after[NSI_ROLES]; // windows 0: no such data
    NSI_ARRAY(nsi_phase) phases;
    NSI_ARRAY(nsi_history_point) history;
    NSI_ARRAY(nsi_path_point) path;    // at the end of each stage with a penalty; along its
    NSI_ARRAY(const char*) path_names; // iterations, too, where all have the same
    NSI_ARRAY(const char*) notes; // what a reader should know: bound hits, refused steps, kinks
    double seconds;               // all of it
    bool complete;                // false: stopped before its end
} nsi_result;

void nsi_result_init(const ns_allocator* allocator, nsi_result* out); // NULL: the default one
void nsi_result_free(nsi_result* answer);

// Fill standard errors, verdicts, correlation and directions of `answer->estimates`, whose other
// fields are there. Parameters are analysed relative to their size: to |value|, or where that is
// nearly nothing to the size given.
// @param information  (n x n) J'J of the residuals for the parameters in their own units, all else
//                     (weights, states) eliminated; lower triangle counts
// @param sigma        standard deviation of the residuals
// @param sizes        (n) of parameters whose value is near 0; NULL: a thousandth of the start, or
//                     1e-3 where that is 0
// @return NS_OK, NS_ERR_NOMEM; NS_ERR_NONFINITE, naming the parameter: information, sigma or value
//         is not finite; NS_ERR_INVALID: LAPACK found no eigenvalues
ns_status nsi_result_identify(nsi_result* answer, const double* information, double sigma,
                              const double* sizes, ns_error* error);

// The record for machines; nsi_result_report() (fit_report.h) shows it to people.
ns_status nsi_result_json(const nsi_result* answer, ns_text* out, ns_error* error);

// Read what nsi_result_json() wrote, or that in which `fits` has it (of an experiment). What is not
// finite is null there: a standard error is read as INFINITY, or NaN where there is no effect;
// bounds, errors of directions and of horizons as infinite; all else as NaN.
// @param path  of the file, for messages
// @param fit   which of `fits`, NULL: the main one, or the first; ignored for a single one
// @return NS_OK; NS_ERR_PARSE naming what is wrong, NS_ERR_LIMIT; NS_ERR_ARGUMENT: there is no such
//         fit; NS_ERR_NOMEM. `out` is initialised in any case
ns_status nsi_result_read(const char* text, size_t size, const char* path, const char* fit,
                          const ns_allocator* allocator, nsi_result* out, ns_error* error);

// Add the charts of an answer, those for which there is something: "loss", "parameters",
// "correlation", "errors_train" ("validation", "test"), "timing", "path". They borrow from it.
ns_status nsi_result_add_figures(const nsi_result* answer, nsi_figures* charts, ns_error* error);

#endif
