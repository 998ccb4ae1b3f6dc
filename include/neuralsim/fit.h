/// @file fit.h
/// Fitting: parameters of a model and weights of its networks from recordings, with errors.
///
///     ns_fit* fit = NULL;
///     ns_fit_stage stages[] = {{.windows.length = 50}, {.windows.length = 400}};
///     ns_fit_spec spec = {.parameters = params, .train = data,      // parameters.h, data.h
///                         .stages = stages, .nstage = 2};
///     ns_fit_create(&spec, &fit, &error);                           // checks everything
///     ns_fit_run(fit, NULL, &error);
///     const ns_fit_result* result = ns_fit_get_result(fit);
///     printf("%s = %g +- %g\n", result->estimates[0].name, result->estimates[0].value,
///            result->estimates[0].standard_error);
///     ns_fit_free(fit);
///
/// The same from a file, which names models, networks and recordings (docs/fit.md):
///
///     ns_fit_load("pendulum_fit.yaml", 0, &fit, &error);
///     ns_fit_run(fit, NULL, &error);
///     ns_fit_save(fit, "out", &error);                              // fitted.yaml and the report
///
/// One least-squares solution of residuals that are there, without stages and predictions:
///
///     ns_fit_result* result = NULL;
///     ns_least_squares_fit(residuals, NULL, &result, &error);       // residuals.h
///     ns_fit_result_free(result);
///
/// The same problem gives the same bits at any number of threads, unless it limits the time. Link
/// libneuralsim_fit.a before libneuralsim_report.a and libneuralsim.a.

#ifndef NEURALSIM_FIT_H
#define NEURALSIM_FIT_H

#include "neuralsim/estimates.h"
#include "neuralsim/posterior.h"
#include "neuralsim/report.h"
#include "neuralsim/residuals.h"
#include "neuralsim/solver.h"
#include "neuralsim/words.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- the result ----------------------------------------------------------------------------------

/// A coefficient of a formula of the blueprint.
typedef struct ns_fitted_coefficient {
    const char *set, *name; ///< of weights; of its own
    double initial, value;
    double standard_error; ///< INFINITY when undetermined, NaN when not known
} ns_fitted_coefficient;

/// What a set of recordings is for.
#define NS_ROLE_MAP(X)                                                                             \
    X(NS_ROLE_TRAIN, "train", "fitted to")                                                         \
    X(NS_ROLE_VALIDATION, "validation", "chooses between fits")                                    \
    X(NS_ROLE_TEST, "test", "looked at in the end")

typedef enum ns_data_role { NS_ROLE_MAP(NS_CHOICE_VALUE) NS_ROLE_COUNT } ns_data_role;
NS_API extern const ns_choices ns_data_roles;

/// A phase of a fit: a search or a stage.
typedef struct ns_fit_phase {
    const char* name; ///< "windows of 25, LM"
    uint32_t iterations, evaluations;
    double seconds, value; ///< value: the loss at its end
    const char* finish;    ///< "converged", "limit", "stopped"
} ns_fit_phase;

typedef struct ns_fit_history_point {
    uint32_t phase, iteration;
    double seconds, value; ///< value: the loss
} ns_fit_history_point;

/// A point of a sparsity path: sizes of the first layers' weights, by input, under a penalty.
typedef struct ns_sparsity_point {
    uint32_t phase, iteration;
    double l1, group;    ///< of the stage
    double loss;         ///< without the penalty
    const double* norms; ///< (npath_name)
} ns_sparsity_point;

/// What a fit found. All of it is owned by the result.
typedef struct ns_fit_result {
    const char *title, *model, *treatment; ///< treatment: of the data
    const char* setting;                   ///< "RK4, steps of 2.5 ms, ..; seed 1"
    const char* citation;                  ///< of the data, or ""

    const ns_estimate* estimates;
    uint32_t nestimate;
    const ns_fitted_coefficient* coefficients;
    uint32_t ncoefficient;
    const double*
        correlation; ///< (nestimate x nestimate), NaN where there is no error. NULL: neither
                     ///< it nor standard errors and verdicts are computed
    const ns_parameter_direction* directions; ///< what the data does not determine; null ones first
    uint32_t ndirection;
    double sigma;       ///< standard deviation of the residuals, in units of the channels' scales
    bool noise_known;   ///< every channel has a sigma; otherwise the scale is how far it moves
    uint32_t nresidual; ///< recorded numbers of the last stage
    uint32_t nweight;   ///< weights of networks that were fitted

    const ns_score *before, *after; ///< (NS_ROLE_COUNT) by ns_data_role
    const ns_fit_phase* phases;
    uint32_t nphase;
    const ns_fit_history_point* history;
    uint32_t nhistory;
    const ns_sparsity_point* path; ///< at the end of each stage with a penalty; along its
    uint32_t npath;                ///< iterations, too, where all have the same
    const char* const* path_names; ///< inputs
    uint32_t npath_name;
    const char* const* data_warnings; ///< likely mistakes in the recordings, one line each
    uint32_t ndata_warning;
    const char* const* notes; ///< bound hits, refused steps, kinks
    uint32_t nnote;
    double seconds;                   ///< all of it
    bool complete;                    ///< false: stopped before its end
    const char* unreliable_gradients; ///< how many windows of the last stage have an unreliable
                                      ///< gradient (certificate.h), and why; NULL: none
    const char* failure; ///< residuals far above the noise, or simulations that do not stay
                         ///< finite, and the most likely reasons; NULL: the fit did not fail
    const char* doubts;  ///< what else leaves no estimate ok; NULL: nothing
    const ns_posterior* posterior; ///< NULL: not asked for, or not found: a note says why
} ns_fit_result;

/// Covariance of two estimates, in the product of their units; NaN where there is no error.
NS_API double ns_fit_covariance(const ns_fit_result* result, uint32_t a, uint32_t b);

/// Solve one least-squares problem by Levenberg-Marquardt, from the point where the residuals are to that
/// where they end, which is left in them.
/// @param options  of solver lm, without l1 and group_lasso; NULL: defaults
/// @param out      estimates with errors and the solver's trace, without scores; to be freed by
///                 ns_fit_result_free(). NULL after a failure
/// @return NS_OK, however the solver ended (phases[0].finish); NS_ERR_ARGUMENT: an argument is NULL, an
///         option out of range, or nothing to optimise; NS_ERR_NONFINITE: the residuals are not finite at
///         the start; NS_ERR_NOMEM
NS_API ns_status ns_least_squares_fit(ns_residuals* residuals, const ns_solver_options* options,
                                      ns_fit_result** out, ns_error* error);
NS_API void ns_fit_result_free(ns_fit_result* result); ///< of the call above. NULL is allowed

/// Report of a result: parameters, diagnostics, prediction errors, trace of the solver.
/// @param out  to be freed by ns_report_free() before the result
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_fit_result_report(const ns_fit_result* result, ns_report** out,
                                      ns_error* error);

// ---- the specification ---------------------------------------------------------------------------

/// One local optimisation. A zeroed struct is the default.
typedef struct ns_fit_stage {
    ns_window_options windows;  ///< and what is optimised
    const char* solver;         ///< "lbfgs"; NULL: "lm". See solver.h
    int32_t max_iterations;     ///< 0: 50; negative: none, to score a model as it is
    double tolerance;           ///< 0: 1e-9
    double learning_rate;       ///< of stochastic solvers. 0: 1e-2
    double final_learning_rate; ///< at the end of the stage. 0: learning_rate / 100
    uint32_t batch;             ///< windows per step of a stochastic solver. 0: all
    double clip_norm;           ///< longest gradient of a stochastic solver. 0: any
    double l1, group_lasso;     ///< penalties on first layers of networks and on coefficients
    bool adaptive;              ///< penalties over the sizes at the beginning of the stage
} ns_fit_stage;

/// A global search before the stages. A zeroed struct is the default: none.
typedef struct ns_fit_search {
    const char* solver;   ///< "basin_hopping", "crs2"; NULL: no search
    uint32_t population;  ///< 0: 8
    uint32_t rounds;      ///< 0: 20
    uint32_t patience;    ///< rounds without a lower cost. 0: any number
    uint32_t evaluations; ///< of population methods. 0: 10000
    double sigma;         ///< of hops, as a share of the box. 0: 0.2
    double target;        ///< stop at this loss. 0: none
    double seconds;       ///< 0: any time
} ns_fit_search;

/// An error metric: a distance between predicted and recorded values.
typedef struct ns_metric {
    const char *name, *unit; ///< unit: NULL for none
    bool rotation; ///< of the four numbers of a quaternion: the angle between both, in degrees;
                   ///< otherwise the Euclidean distance
    bool mean;     ///< over samples; otherwise the root of the mean square
    const char* const* formulas; ///< of channels, names in double quotes
    uint32_t nformula;
} ns_metric;

/// How scores are made. A zeroed struct is the default: each recording from its first sample to its end.
typedef struct ns_prediction_options {
    uint32_t history; ///< samples up to an origin that its state is fitted to; 0 and 1: none
    uint32_t origins; ///< per set of recordings, evenly; 0: the first sample of each recording
    double after;     ///< above 0: one origin in each recording instead, after this share of it
    const double* horizons; ///< s, ascending
    uint32_t nhorizon;
    const char* const*
        errors; ///< formulas of channels whose errors count at horizons; none: positions
    uint32_t nerror;
    const ns_metric* metrics;
    uint32_t nmetric;
} ns_prediction_options;

/// What is fitted to what, and how. What it points to is copied, apart from parameters and data.
typedef struct ns_fit_spec {
    ns_parameters*
        parameters; ///< of one robot or several variants, with their networks; from now on
                    ///< nothing can be added. Outlives the fit, as do the data:
    const ns_dataset *train, *validation, *test; ///< the last two may be NULL
    const ns_fit_stage* stages; ///< one after the other; none: one of whole recordings, by lm
    uint32_t nstage;
    ns_fit_search search;
    ns_prediction_options prediction;
    ns_posterior_options posterior;
    uint64_t seed;                ///< of searches and batches
    uint32_t threads;             ///< 0: one per core
    const char *title, *citation; ///< of the report; NULL: none
} ns_fit_spec;

typedef struct ns_fit ns_fit;

/// Make a fit, and check that its parts go together.
/// @param out  NULL after a failure
/// @return NS_OK; NS_ERR_ARGUMENT: parameters, train or out is NULL, a channel, control, solver or name in
///         a formula is not known, with the nearest one, no recording is as long as a window, a search
///         without bounds, or nothing to fit; NS_ERR_UNSUPPORTED, NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_fit_create(const ns_fit_spec* spec, ns_fit** out, ns_error* error);

/// Read a fit file, its model, networks and recordings, and check that they go together.
/// @param threads  0: one per core
/// @return NS_OK; NS_ERR_IO, NS_ERR_PARSE, NS_ERR_UNSUPPORTED, NS_ERR_NONFINITE, NS_ERR_LIMIT naming
///         file and line; NS_ERR_NOMEM
NS_API ns_status ns_fit_load(const char* path, uint32_t threads, ns_fit** out, ns_error* error);
NS_API void ns_fit_free(ns_fit* fit); ///< NULL is allowed

/// Likely mistakes in the recordings (data_check.h), one line each, the most severe first. A fit made by
/// calls has none: ns_data_check_sets() checks its data. NULL for a number that is too large.
NS_API uint32_t ns_fit_data_warning_count(const ns_fit* fit);
NS_API const char* ns_fit_data_warning(const ns_fit* fit, uint32_t number);

/// Let the next run start elsewhere: as if the file had another `initial` for this parameter, around
/// which its prior, if it has one, is then centred. Its bounds and its size stay.
/// @param name   of one parameter, as ns_fit_estimate() knows it
/// @param value  within its bounds
/// @return NS_OK; NS_ERR_ARGUMENT: there is no such parameter, with the nearest name, or the value is
///         not within the bounds; NS_ERR_NOMEM
NS_API ns_status ns_fit_set_initial(ns_fit* fit, const char* name, double value, ns_error* error);

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

/// The result of the last run, owned by the fit, until it is run again; NULL before a run has ended.
NS_API const ns_fit_result* ns_fit_get_result(const ns_fit* fit);

/// Value and standard error (may be NULL) of a parameter; false when there is none of this name.
NS_API bool ns_fit_estimate(const ns_fit* fit, const char* name, double* value, double* error);

/// What the report of a fit has besides tables, notes and figures. Zero: nothing.
typedef struct ns_fit_report_options {
    bool motion; ///< recorded and predicted motion, which takes simulations; only pages show it
} ns_fit_report_options;

/// Report of the last run: parameters, diagnostics, prediction errors, trace of the solver; its record
/// is what result.json holds.
/// @param options  NULL for the default
/// @param out      to be freed by ns_report_free() before the fit is freed or run again
/// @return NS_OK; NS_ERR_STATE: no run has ended, or the last one failed; NS_ERR_NOMEM
NS_API ns_status ns_fit_report(const ns_fit* fit, const ns_fit_report_options* options,
                               ns_report** out, ns_error* error);

/// The report of a result.json that a fit or an experiment wrote.
/// @param fit  of an experiment: which fit; NULL: its main one. The report has it as the fact "fit"
/// @param out  to be freed by ns_report_free()
/// @return NS_OK; NS_ERR_IO, NS_ERR_PARSE, NS_ERR_LIMIT naming file and place; NS_ERR_ARGUMENT: there
///         is no such fit; NS_ERR_NOMEM
NS_API ns_status ns_result_report(const char* path, const char* fit, ns_report** out,
                                  ns_error* error);

/// May the result be saved into a folder? Not where it would replace a file that the fit was read from.
/// @return NS_OK; NS_ERR_ARGUMENT naming the file; NS_ERR_IO, NS_ERR_NOMEM
NS_API ns_status ns_fit_check_folder(const ns_fit* fit, const char* folder, ns_error* error);

/// Write fitted.yaml (a hybrid model), weights.safetensors if there are networks, result.json and
/// report.html into a folder, which is made if it is not there. With copies of the robot files and the
/// blueprint, so that the folder can be moved. A fit made by ns_fit_create() has no robot files: there is
/// no fitted.yaml.
/// @return NS_OK; NS_ERR_STATE: no run has ended, or the last one failed, and nothing is written;
///         NS_ERR_ARGUMENT: likewise, as ns_fit_check_folder(); NS_ERR_IO, NS_ERR_NOMEM
NS_API ns_status ns_fit_save(const ns_fit* fit, const char* folder, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
