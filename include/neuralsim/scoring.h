/// @file scoring.h
/// Scoring: how far a model's open-loop predictions are from recordings.
///
///     ns_scoring_options options = ns_default_scoring_options();
///     options.files = (const char* const[]){"run.csv"};
///     options.nfile = 1;
///     ns_scoring* scoring = NULL;
///     ns_scoring_run("robot.urdf", &options, &scoring, &error);
///     printf("RMSE of q: %g\n", ns_scoring_get(scoring).rmse_q);
///     ns_scoring_free(scoring);
///
/// A prediction starts from a state of a recording and sees nothing of it afterwards but the controls.
/// Link as for fit.h.

#ifndef NEURALSIM_SCORING_H
#define NEURALSIM_SCORING_H

#include "neuralsim/hybrid.h"
#include "neuralsim/report.h"
#include "neuralsim/table.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_scoring ns_scoring;

typedef struct ns_scoring_options {
    const char* const* files; ///< (nfile) tables of recordings; at least one
    uint32_t nfile;
    const char* map;        ///< meaning of the columns; NULL: inferred from their names
    double period;          ///< s between samples; 0: of the first file
    uint32_t horizon;       ///< samples to predict; 0: horizon_seconds, or to the end
    double horizon_seconds; ///< s to predict; 0: to the end
    const double* horizons; ///< (nhorizon) s, ascending: errors up to these times
    uint32_t nhorizon;      ///< 0: four, spread evenly
    uint32_t origins;       ///< predictions, from evenly spread samples; 0: one per recording
    uint32_t history;       ///< samples up to an origin that its state is fitted to; 0: as recorded
    uint32_t smoothing; ///< samples to either side that a missing velocity comes from. Default 5
    double timestep;    ///< s; 0: the longest that divides the period, not above the model's
    int integrator, contact; ///< as in ns_system_options. Default -1
    ns_friction friction;    ///< as in ns_system_options
    uint32_t contact_sweeps; ///< as in ns_system_options
    const char* blueprint;   ///< file of networks in place of the model's; NULL: the model's
    const char* weights;     ///< file of their weights; NULL: the model's
    ns_load_options load;    ///< of the robot; `variant`: for all files
    uint32_t threads;        ///< 0: one per core. The result is the same
} ns_scoring_options;

NS_API ns_scoring_options ns_default_scoring_options(void);

/// Load a model and recordings, and predict.
/// @param model    path of a robot or hybrid model; must outlive the scoring, as all texts of the options
/// @param options  NULL: defaults, which have no recordings and are refused
/// @param out      to be freed by ns_scoring_free(); NULL after a failure
/// @return NS_OK; NS_ERR_ARGUMENT: options contradict each other or the data; NS_ERR_IO, NS_ERR_PARSE,
///         NS_ERR_UNSUPPORTED, NS_ERR_NONFINITE, NS_ERR_LIMIT naming the file; NS_ERR_NOMEM
NS_API ns_status ns_scoring_run(const char* model, const ns_scoring_options* options,
                                ns_scoring** out, ns_error* error);
NS_API void ns_scoring_free(ns_scoring* scoring); ///< NULL is allowed

/// Errors of all predictions. Roots of mean squares; infinite when a prediction is lost, NaN when the
/// quantity is not recorded.
typedef struct ns_scoring_total {
    double rmse_q, rmse_qd;
    uint32_t predictions;
    uint32_t lost; ///< predictions that did not stay finite
    uint64_t samples;
} ns_scoring_total;

typedef struct ns_scoring_horizon {
    double seconds;
    double pooled, median; ///< RMSE of all predictions up to it together, and of the median one
    uint32_t predictions;  ///< that reach it
    uint32_t samples;      ///< up to it
} ns_scoring_horizon;

typedef struct ns_scoring_channel {
    const char *name, *unit;
    double rmse;
} ns_scoring_channel;

typedef struct ns_scoring_recording {
    const char* name;
    double rmse_q, rmse_qd;
    uint32_t samples; ///< predicted
} ns_scoring_recording;

NS_API ns_scoring_total ns_scoring_get(const ns_scoring* scoring);
NS_API uint32_t ns_scoring_horizon_count(const ns_scoring* scoring);
NS_API ns_scoring_horizon ns_scoring_get_horizon(const ns_scoring* scoring, uint32_t number);
NS_API uint32_t ns_scoring_channel_count(const ns_scoring* scoring);
NS_API ns_scoring_channel ns_scoring_get_channel(const ns_scoring* scoring, uint32_t number);
NS_API uint32_t ns_scoring_recording_count(const ns_scoring* scoring);
NS_API ns_scoring_recording ns_scoring_get_recording(const ns_scoring* scoring, uint32_t number);

/// Likely mistakes in the recordings (data_check.h), one line each; NULL for a number that is too
/// large.
NS_API uint32_t ns_scoring_data_warning_count(const ns_scoring* scoring);
NS_API const char* ns_scoring_data_warning(const ns_scoring* scoring, uint32_t number);

/// Warnings: states that the data does not have.
NS_API uint32_t ns_scoring_note_count(const ns_scoring* scoring);
NS_API const char* ns_scoring_note(const ns_scoring* scoring, uint32_t number);

/// The robots that were simulated: one, or the variants that recordings belong to.
NS_API uint32_t ns_scoring_robot_count(const ns_scoring* scoring);
NS_API const ns_model* ns_scoring_model(const ns_scoring* scoring, uint32_t number);
NS_API const ns_system* ns_scoring_system(const ns_scoring* scoring, uint32_t number);
/// The integrator that the options or the hybrid model ask for; -1: the robot's own file decides.
NS_API int ns_scoring_integrator(const ns_scoring* scoring, uint32_t number);
NS_API bool ns_scoring_is_learned(const ns_scoring* scoring); ///< is its step a network?

/// Predict again and write each prediction beside its recording: traj, t, then each channel and
/// <channel>_recorded.
/// @return NS_OK, NS_ERR_NOMEM; failures to write are those of the writer
NS_API ns_status ns_scoring_write_predictions(const ns_scoring* scoring, ns_table_writer* writer,
                                              ns_error* error);

/// Report: errors up to horizons, of channels and of recordings.
/// @param out  to be freed by ns_report_free() before the scoring
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_scoring_report(const ns_scoring* scoring, ns_report** out, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
