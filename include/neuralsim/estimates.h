/// @file estimates.h
/// Estimates of parameters with their errors and what the data does not determine, and scores of
/// predictions: the records that a result is made of (fit.h).

#ifndef NEURALSIM_ESTIMATES_H
#define NEURALSIM_ESTIMATES_H

#include "neuralsim/words.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- parameters ----------------------------------------------------------------------------------

/// What can be said of a parameter; the first that holds.
#define NS_VERDICT_MAP(X)                                                                          \
    X(NS_VERDICT_NO_EFFECT, "no effect", "the data does not depend on it")                         \
    X(NS_VERDICT_AT_LOWER, "at lower bound", "")                                                   \
    X(NS_VERDICT_AT_UPPER, "at upper bound", "")                                                   \
    X(NS_VERDICT_UNDETERMINED, "undetermined", "only together with others: see directions")        \
    X(NS_VERDICT_POOR, "poor", "standard error above half of its size")                            \
    X(NS_VERDICT_MISFIT, "misfit", "residuals are far above the noise: errors mean nothing")       \
    X(NS_VERDICT_REFUSED, "refused", "the last steps were refused: it may be far from its best")   \
    X(NS_VERDICT_LIMITS, "beyond limits", "the recording leaves joint limits")                     \
    X(NS_VERDICT_TEST, "worse on test", "the error on test data grew")                             \
    X(NS_VERDICT_OK, "ok", "")

typedef enum ns_verdict { NS_VERDICT_MAP(NS_CHOICE_VALUE) } ns_verdict;
NS_API extern const ns_choices ns_verdicts;

/// A parameter, in its SI unit.
typedef struct ns_estimate {
    const char *name, *unit;
    double initial, value;
    double lower, upper;   ///< bounds, may be infinite
    double standard_error; ///< INFINITY when undetermined, NaN for no effect or when not computed
    ns_verdict verdict;
} ns_estimate;

/// A combination of parameters along which the prediction hardly changes.
typedef struct ns_parameter_direction {
    double* change; ///< (nestimate) relative changes, the largest 1, small ones 0
    double error;   ///< standard deviation along it, as a share of the parameters; INFINITY: null
    bool null;      ///< not determined at all; otherwise only poorly
} ns_parameter_direction;

// ---- predictions ---------------------------------------------------------------------------------

/// Open-loop error at a horizon, in the unit of positions or of the spec's errors.
typedef struct ns_horizon_error {
    double seconds;        ///< the horizon
    double pooled, median; ///< RMSE of all windows together, and of the median window
    uint32_t windows;      ///< that reach it
    uint32_t samples;      ///< up to it
} ns_horizon_error;

/// A metric over predictions.
typedef struct ns_metric_score {
    const char *name, *unit; ///< unit: or ""
    double mean, median;     ///< over windows
    uint32_t windows;        ///< that have something to measure
} ns_metric_score;

/// Open-loop predictions of a set of recordings.
typedef struct ns_score {
    double loss; ///< root of the mean of squared residuals, each divided by its channel's sigma
    double rmse_q, rmse_qd; ///< over whole windows of the longest horizon; NaN: not recorded
    ns_horizon_error* horizons;
    uint32_t nhorizon;
    ns_metric_score* metrics;
    uint32_t nmetric;
    uint32_t windows, lost; ///< lost: the simulation did not stay finite. windows 0: no such data
    uint64_t samples;       ///< predicted in all
} ns_score;

#ifdef __cplusplus
}
#endif

#endif
