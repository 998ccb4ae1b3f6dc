// Open-loop predictions: how far a simulation is from what was recorded, and after what time.
//
// A prediction starts at an origin of a recording and sees nothing of it afterwards but the controls
// (and, without a history, the few samples by which a velocity that is not recorded is guessed).
// Its state is what is recorded there, or better the one that the model itself fits to the samples
// before: on a real double pendulum that is worth a factor of 2 to 4.

#ifndef NSI_SYSID_PREDICTION_H
#define NSI_SYSID_PREDICTION_H

#include "expr/formula_syntax.h"
#include "neuralsim/estimates.h"
#include "sysid/objective.h"

// A function of channels whose error counts: the angle of a link in the world, say.
typedef struct nsi_error_formula {
    ns_formula* formula;
    const uint32_t* channels; // of its variables
} nsi_error_formula;

// A distance between what was predicted and recorded, as a field reports it: of a point, or of a
// rotation. It is averaged over the samples of each prediction, then over predictions.
typedef struct nsi_metric {
    const char *name, *unit; // unit: or ""
    bool rotation; // of the four numbers of a quaternion: the angle between both, in degrees;
                   // otherwise the Euclidean distance
    bool mean;     // over samples; otherwise the root of the mean square
    const nsi_error_formula* formulas;
    uint32_t nformula;
} nsi_metric;

// Variables that a prediction fits anew to what was recorded before its origin, from what is known of
// them: their values, and how far each may be off.
typedef struct nsi_adaptation {
    const uint32_t* parameters; // (count) ascending
    const double* deviations;
    uint32_t count;
} nsi_adaptation;

typedef struct nsi_predict_options {
    uint32_t history;     // samples up to the origin that its state is fitted to; 0 and 1: none
    uint32_t origins;     // per set of recordings, evenly; 0: the first sample of each recording
    double after;         // above 0: one origin in each recording instead, after this share of it;
                          // its state is the recorded one
    nsi_adaptation adapt; // with `after`
    bool tiled;           // instead: one prediction after the other, to the end of each recording
    const uint32_t* only; // (nrecording) so many samples of each recording; NULL: all
    uint32_t smoothing;   // see nsi_problem_guess()
    uint32_t ahead;       // samples to predict, fewer where a recording ends; 0: as many as the
                          // longest horizon has, or all when there are no horizons
    const double* horizons; // s, ascending
    uint32_t nhorizon;
    const nsi_error_formula*
        errors;      // what errors at horizons are of; none: of all positions, or of
    uint32_t nerror; // all channels where there are no positions
    const nsi_metric* metrics;
    uint32_t nmetric;
    uint32_t threads; // 0: one per core
} nsi_predict_options;

// The error of one recording.
typedef struct nsi_recording_error {
    double rmse_q, rmse_qd; // NaN: not recorded
    uint32_t samples;       // predicted; of all origins
} nsi_recording_error;

typedef struct nsi_prediction {
    ns_allocator allocator;
    ns_score score;
    double* channels; // (nchannel) root mean square error of each; NaN: nothing there
    nsi_recording_error* recordings; // (nrecording)
    uint32_t nchannel, nrecording;
    uint32_t blind; // predictions from a state of which a part is not recorded near its origin
} nsi_prediction;

// @param z        (n) of the problem's parameters; NULL: the system's parameters
// @param weights  (nw); NULL: the system's
// @return NS_OK, NS_ERR_PARSE: no recording is long enough; NS_ERR_NOMEM
ns_status nsi_predict(const nsi_problem* problem, const ns_dataset* data, const double* z,
                      const double* weights, const nsi_predict_options* options,
                      nsi_prediction* out, ns_error* error);
void nsi_prediction_free(nsi_prediction* prediction); // zeroed and freed ones are allowed

// Is there anything to predict? As nsi_predict().
// @param longest  receives the longest time that can be predicted, s
ns_status nsi_predict_check(const nsi_problem* problem, const ns_dataset* data,
                            const nsi_predict_options* options, double* longest, ns_error* error);

// One prediction, from its origin on.
typedef struct nsi_path {
    uint32_t recording, origin, length; // samples origin .. origin + length
    const double* values;               // ((length + 1) x nchannel) of all channels
    const double* states;               // state of sample k at states + k * stride
    size_t stride;
} nsi_path;

// Called once for each prediction, by one thread at a time, in any order.
typedef void nsi_path_visitor(void* context, const nsi_path* path);
ns_status nsi_predict_visit(const nsi_problem* problem, const ns_dataset* data, const double* z,
                            const double* weights, const nsi_predict_options* options,
                            nsi_path_visitor* visit, void* context, ns_error* error);

#endif
