/// @file smoothing.h
/// Smoothed gradients: of a cost averaged over random changes of the inputs of a rollout.
///
///     ns_smoother* smoother = NULL;
///     ns_smoother_size size = {.steps = 800};
///     ns_smoother_create(system, &size, &smoother, &error);
///
///     ns_rollout_args rollout = {.batch = 1, .steps = 800, .x0 = x0};
///     ns_smoothing smoothing = ns_default_smoothing();
///     smoothing.x0_sigma = (const double[]){0.0, 0.01, 0.0, 0.2};         // (nx)
///     ns_smoothed_gradient gradient = {.dx0 = dx0};                       // (nx)
///     ns_rollout_smoothed_gradient(smoother, &rollout, &smoothing, distance, target, &gradient,
///                                  &error);
///
/// The gradient of F(x) = E f(x + sigma e), e standard normal, is estimated from N samples in antithetic
/// pairs (e, -e), which are the lanes of batched rollouts:
///
///     first order    mean of (f'(x + sigma e) + f'(x - sigma e)) / 2: exact gradients
///     zeroth order   mean of (f(x + sigma e) - f(x - sigma e)) e / (2 sigma): values only
///     mix            alpha * first + (1 - alpha) * zeroth, alpha for each input by their variances
///
/// The first-order estimate has less noise where f is smooth, but is wrong where f jumps, and useless where
/// gradients explode. The zeroth-order one is always right on average. The mix is the alpha-order gradient
/// of Suh, Simchowitz, Zhang & Tedrake, "Do Differentiable Simulators Give Better Policy Gradients?" (ICML
/// 2022); docs/contact-gradients.md has the formulas.

#ifndef NEURALSIM_SMOOTHING_H
#define NEURALSIM_SMOOTHING_H

#include "neuralsim/certificate.h"
#include "neuralsim/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_smoother ns_smoother;

typedef struct ns_smoother_size {
    uint32_t steps;   ///< most steps of a rollout
    uint32_t batch;   ///< samples that are rolled out at once; 0: 32. Results depend on it only by
                      ///< rounding
    uint32_t threads; ///< 0: one per core. Results do not depend on it
} ns_smoother_size;

/// All memory that smoothed gradients of rollouts up to this size need.
/// @return NS_OK; NS_ERR_ARGUMENT, NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_smoother_create(const ns_system* system, const ns_smoother_size* size,
                                    ns_smoother** out, ns_error* error);
NS_API void ns_smoother_free(ns_smoother* smoother); ///< NULL is allowed

/// What is random. Start from ns_default_smoothing(). An input without a sigma is not changed and has the
/// first-order estimate. Weights of networks are not smoothed.
typedef struct ns_smoothing {
    uint32_t samples;       ///< of rollouts, at least 4; rounded up to an even number. Default 64
    uint64_t seed;          ///< the same seed, the same samples. Default 1
    const double* x0_sigma; ///< (nx) standard deviations, or NULL for none. Added to the numbers of
                            ///< the state as they are: the step normalises quaternions
    const double* control_sigma; ///< (nc), or NULL
    const double* param_sigma;   ///< (np), or NULL. Keep it small enough for values to be valid
    bool hold_controls; ///< one random number for all steps of a control, instead of one for each
    double confidence;  ///< standard errors within which a difference is chance. Default 3
} ns_smoothing;

NS_API ns_smoothing ns_default_smoothing(void);

/// Cost of a trajectory. Called in the thread of the caller, sample after sample.
/// @param states         (steps + 1 x nx)
/// @param observations   (steps x ny)
/// @param dstates        (steps + 1 x nx) zero; receives the derivatives of the cost
/// @param dobservations  (steps x ny) the same
/// @return the cost
typedef double ns_trajectory_cost(void* context, const double* states, const double* observations,
                                  double* dstates, double* dobservations);

/// A smoothed derivative for one input, with standard errors.
typedef struct ns_smoothed_derivative {
    double estimate, standard_error; ///< of the mix
    double alpha;                    ///< share of the first-order estimate in it
    double first, first_error;       ///< NaN and INFINITY: a gradient was not finite
    double zeroth, zeroth_error;     ///< NaN and INFINITY: the input has no sigma
    bool first_biased;               ///< the two differ by more than chance explains: f jumps
} ns_smoothed_derivative;

/// Results; arrays may be NULL.
typedef struct ns_smoothed_gradient {
    double value, value_error;         ///< mean of the cost, and its standard error
    uint32_t samples;                  ///< that were used
    uint32_t unreliable;               ///< samples whose own gradient is unreliable (certificate.h)
    ns_smoothed_derivative* dx0;       ///< (nx)
    ns_smoothed_derivative* dcontrols; ///< (steps x nc), with hold_controls (nc)
    ns_smoothed_derivative* dparams;   ///< (np)
} ns_smoothed_gradient;

/// Estimate the gradient of the smoothed cost. Allocates nothing. The same bits for the same seed.
/// @param args       the point: batch 1, not per_robot_params; states, observations and contact are
///                   not written
/// @param smoothing  NULL for ns_default_smoothing()
/// @return NS_OK, also where gradients of samples are not finite; NS_ERR_ARGUMENT; NS_ERR_NONFINITE: a
///         motion or a cost is not finite
NS_API ns_status ns_rollout_smoothed_gradient(ns_smoother* smoother, const ns_rollout_args* args,
                                              const ns_smoothing* smoothing,
                                              ns_trajectory_cost* cost, void* context,
                                              ns_smoothed_gradient* gradient, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
