/// @file residuals.h
/// Residuals: simulated minus recorded, over windows of a dataset.
///
///     ns_residuals* r = NULL;
///     ns_window_options windows = {.length = 50};                   // samples
///     ns_residuals_create(params, data, &windows, 0, &r, &error);   // parameters.h, data.h
///     double cost = ns_residuals_cost(r);
///     ns_residuals_gradient(r, gradient);                           // (ns_residuals_unknown_count)
///     ns_residuals_free(r);
///
/// Recordings are cut into windows, each simulated in one go from an initial state. The cost is
///
///     1/2 sum rho(r) + 1/2 N decay |w|^2 + 1/2 sum ((v - initial) / prior_sigma)^2 + 1/2 |ties|^2
///
/// over the residuals r = (simulated - recorded) / sigma of all N recorded numbers; rho is the square or
/// a robust loss, w are weights of networks, v parameters. A channel without a sigma counts in units of
/// how far it moves. Link libneuralsim_fit.

#ifndef NEURALSIM_RESIDUALS_H
#define NEURALSIM_RESIDUALS_H

#include "neuralsim/data.h"
#include "neuralsim/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Initial state of each window.
#define NS_INITIAL_STATE_MAP(X)                                                                    \
    X(NS_INITIAL_STATE_FREE, "free", "estimated along with everything else")                       \
    X(NS_INITIAL_STATE_RECORDED, "recorded",                                                       \
      "from the recording, smoothed where a velocity is not recorded")                             \
    X(NS_INITIAL_STATE_TIED, "tied", "estimated, and pulled to the end of the window before")

typedef enum ns_initial_state { NS_INITIAL_STATE_MAP(NS_CHOICE_VALUE) } ns_initial_state;
extern NS_API const ns_choices ns_initial_states;

/// Loss of a residual r, in units of its standard deviation; c is robust_width.
typedef enum ns_robust_loss {
    NS_ROBUST_NONE,  ///< r^2
    NS_ROBUST_HUBER, ///< r^2 up to c, then 2 c |r| - c^2
    NS_ROBUST_CAUCHY ///< c^2 log(1 + (r / c)^2)
} ns_robust_loss;

/// Which unknowns are optimised. Initial states are apart from this.
#define NS_OPTIMISE_MAP(X)                                                                         \
    X(NS_OPTIMISE_ALL, "all", "parameters and weights")                                            \
    X(NS_OPTIMISE_PARAMETERS, "parameters", "weights stay")                                        \
    X(NS_OPTIMISE_WEIGHTS, "weights", "parameters stay")

typedef enum ns_optimise {
    NS_OPTIMISE_MAP(NS_CHOICE_VALUE) NS_OPTIMISE_NONE ///< both stay
} ns_optimise;
extern NS_API const ns_choices ns_optimises;

/// Windows of the recordings and the cost over them. A zeroed struct is the default.
typedef struct ns_window_options {
    uint32_t length;      ///< samples after the first one; 0: whole recordings
    uint32_t max_windows; ///< more are thinned out evenly; 0: no limit
    bool overlap;         ///< windows may overlap to reach max_windows
    ns_initial_state initial_state;
    uint32_t smoothing; ///< samples on either side from which initial states are guessed. 0: 5
    double continuity_weight; ///< of tied initial states, in units of the channels' scales. 0: 10
    ns_robust_loss robust;
    double robust_width;       ///< residuals above it count less, in units of sigma
    double weight_decay;       ///< of all network weights
    double weight_decay_upper; ///< in addition, of all layers but the first
    ns_optimise optimise;
} ns_window_options;

typedef struct ns_residuals ns_residuals;

/// Residuals of robots with parameters to estimate, and of the weights of their networks.
/// @param params   of one robot or several variants; from now on nothing can be added to it. Nothing need
///                 be added when only weights are fitted
/// @param data     what the robots are compared with; its channels are quantities of the models
/// @param options  NULL: a zeroed struct
/// @param threads  0: one per core. Results do not depend on it
/// @param out      to be freed before params and data; NULL after a failure
/// @return NS_OK; NS_ERR_ARGUMENT: an argument is NULL, a channel, control or name in a formula is not
///         known, with the nearest one, no recording is as long as a window, variants are not alike, or
///         the period is no multiple of the time step; NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_residuals_create(ns_parameters* params, const ns_dataset* data,
                                     const ns_window_options* options, uint32_t threads,
                                     ns_residuals** out, ns_error* error);

/// The same for the weights of an existing system, such as a learned one (learned.h). Channels are
/// its states by name.
/// @param system  must outlive the residuals; its time step divides the period of the data
NS_API ns_status ns_residuals_create_system(const ns_system* system, const ns_dataset* data,
                                            const ns_window_options* options, uint32_t threads,
                                            ns_residuals** out, ns_error* error);
NS_API void ns_residuals_free(ns_residuals* residuals); ///< NULL is allowed

/// The system of a variant, as it was made for the data; NULL for a number that is too large.
NS_API const ns_system* ns_residuals_system(const ns_residuals* residuals, uint32_t variant);

NS_API uint32_t ns_residuals_window_count(const ns_residuals* residuals);

/// Rows: one for each channel of each sample of each window, missing ones included.
NS_API uint32_t ns_residuals_count(const ns_residuals* residuals);

/// Where a residual comes from.
typedef struct ns_residual_info {
    uint32_t window;     ///< its number
    uint32_t recording;  ///< number in the dataset
    uint32_t sample;     ///< of the recording
    const char* channel; ///< its name; NULL for a row that is too large
} ns_residual_info;
NS_API ns_residual_info ns_residuals_at(const ns_residuals* residuals, uint32_t row);

// ---- the point -----------------------------------------------------------------------------------

/// Unknowns: coordinates z of parameters (parameters.h), weights, as far as they are optimised, then
/// directions of all initial states unless those are recorded; 3 for a quaternion, 1 for any other
/// coordinate.
NS_API uint32_t ns_residuals_unknown_count(const ns_residuals* residuals);

/// "link/upper/mass", "weight 3", "window 2: joint/elbow/position". NUL-terminated; cut off, never
/// overrun, when long; "" for a number that is too large.
NS_API void ns_residuals_unknown_name(const ns_residuals* residuals, uint32_t number, char* text,
                                      size_t size);

/// Values of the parameters (ns_parameters_count), first their initial ones; weights (nw of the system),
/// first its initial ones; initial states (windows x nx), first guessed from the recordings.
NS_API void ns_residuals_get_parameters(const ns_residuals* residuals, double* values);
NS_API void ns_residuals_get_weights(const ns_residuals* residuals, double* weights);
NS_API void ns_residuals_get_initial_states(const ns_residuals* residuals, double* states);

/// Move the point there. Values on a bound are moved off it by a thousandth of their range or scale,
/// since the derivative of their transform vanishes on the bound.
NS_API void ns_residuals_set_parameters(ns_residuals* residuals, const double* values);
NS_API void ns_residuals_set_weights(ns_residuals* residuals, const double* weights);
NS_API void ns_residuals_set_initial_states(ns_residuals* residuals, const double* states);

/// Add a step (unknowns) to the point.
NS_API void ns_residuals_move(ns_residuals* residuals, const double* step);

// ---- at the point --------------------------------------------------------------------------------

/// The cost; INFINITY where a simulation does not stay finite or a link is not physical.
NS_API double ns_residuals_cost(ns_residuals* residuals);

/// Residuals (count) of the last cost, in units of sigma; 0 for what is missing. Valid until the next
/// call that evaluates.
NS_API const double* ns_residuals_values(const ns_residuals* residuals);

/// Root of the mean squared residual of the last cost, over what is recorded.
NS_API double ns_residuals_rms(const ns_residuals* residuals);

/// The cost and its gradient (unknowns), exact; INFINITY as ns_residuals_cost(), and when memory ran out.
NS_API double ns_residuals_gradient(ns_residuals* residuals, double* gradient);

/// Normal equations of parameters and weights, n of them, with initial states eliminated (Schur
/// complement): H step = -g is the Gauss-Newton step.
/// @param H  (n x n) J'J and what penalties and priors add to it; symmetric
/// @param g  (n) reduced gradient: where initial states follow every step
/// @return NS_OK; NS_ERR_NONFINITE: there is no cost at the point, or initial states are not determined
NS_API ns_status ns_residuals_normal_equations(ns_residuals* residuals, double* H, double* g,
                                               ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
