/// @file residuals.h
/// Residuals: simulated minus recorded, over windows of a dataset.

#ifndef NEURALSIM_RESIDUALS_H
#define NEURALSIM_RESIDUALS_H

#include "neuralsim/data.h"

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

#ifdef __cplusplus
}
#endif

#endif
