/// @file gradcheck.h
/// Checks the gradients of a system: reverse mode against forward mode and finite differences.
///
///     ns_gradcheck_result* check = NULL;
///     ns_gradcheck(system, NULL, &check, &error);
///     for (uint32_t k = 0; k < check->ninput; k++) {
///         const ns_gradcheck_input* in = &check->inputs[k];
///         printf("%s: %g, differences %g, %s\n", in->name, in->reverse, in->difference,
///                ns_gradcheck_verdict_name(in->verdict));
///     }
///     ns_gradcheck_free(check);
///
/// The function that is differentiated is a random weighted sum of the final state of a short
/// rollout, from a random or given initial state. Its inputs are the initial state, the controls
/// (each held over all steps), the free parameters and a sample of the weights of networks. Reverse
/// mode gives the gradient in one sweep; forward mode and central differences of fourth order give
/// it again, input by input.
///
/// With contact, or networks, the function has kinks, which may lie close together. There,
/// differences are believed only as far from the point as those to both sides agree. Where they have no
/// answer, the certificate of the gradient (certificate.h) says why, and a smoothed gradient (smoothing.h)
/// can be computed beside the exact one.

#ifndef NEURALSIM_GRADCHECK_H
#define NEURALSIM_GRADCHECK_H

#include "neuralsim/certificate.h"
#include "neuralsim/sim.h"
#include "neuralsim/smoothing.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Start from ns_default_gradcheck_options().
typedef struct ns_gradcheck_options {
    uint32_t steps;       ///< of the rollout, at least 1. Default 20
    uint64_t seed;        ///< of everything random. Default 1
    const double* q0;     ///< (nq) initial coordinates with unit quaternions. Default NULL: random,
                          ///< near the model's default pose
    const double* qd0;    ///< (nv) initial velocities. Default NULL: random
    uint32_t max_weights; ///< weights of networks to check, chosen at random. Default 20
    double smooth_sigma;  ///< above 0: also the gradient smoothed over all inputs but weights, with
        ///< this standard deviation in units of their sizes (1 for states). Default 0
    uint32_t smooth_samples; ///< rollouts of the smoothed gradient, at least 4. Default 64
} ns_gradcheck_options;

NS_API ns_gradcheck_options ns_default_gradcheck_options(void);

typedef enum ns_gradcheck_kind {
    NS_GRADCHECK_STATE,
    NS_GRADCHECK_CONTROL,
    NS_GRADCHECK_PARAMETER,
    NS_GRADCHECK_WEIGHT
} ns_gradcheck_kind;

typedef enum ns_gradcheck_verdict {
    NS_GRADCHECK_OK,     ///< all three agree: forward mode to rounding, differences to 1e-6
    NS_GRADCHECK_ZERO,   ///< all three are zero, to rounding: the input has no effect
    NS_GRADCHECK_BIASED, ///< forward and reverse mode agree, and the point is at a kink: they are
                         ///< the derivative of one side of it
    NS_GRADCHECK_UNRELIABLE, ///< forward and reverse mode agree, but differences have no answer: it
                             ///< cannot be judged
    NS_GRADCHECK_FAIL        ///< the derivatives differ, or one is not finite
} ns_gradcheck_verdict;

/// "state", "control", "parameter", "weight" and "ok", "zero", "biased", "unreliable", "FAIL"; never NULL.
NS_API const char* ns_gradcheck_kind_name(ns_gradcheck_kind kind);
NS_API const char* ns_gradcheck_verdict_name(ns_gradcheck_verdict verdict);

/// The derivative of the function with respect to one input.
typedef struct ns_gradcheck_input {
    ns_gradcheck_kind kind;
    const char* name; ///< "q0", "tau0", "link/arm/mass", "drag/w0[2,1]" (row and column)
    double reverse, forward, difference;
    double uncertainty; ///< of `difference`, absolute; infinite when it has no answer
    double error;       ///< of `reverse` against `difference`, relative; 0 where both are rounding
    ns_gradcheck_verdict verdict;
    const char* reason;              ///< of BIASED, UNRELIABLE and FAIL: a phrase; otherwise ""
    ns_smoothed_derivative smoothed; ///< with smooth_sigma, for all but weights
} ns_gradcheck_input;

typedef struct ns_gradcheck_result {
    const ns_gradcheck_input* inputs; ///< (ninput) state, controls, parameters, weights
    uint32_t ninput;
    uint32_t ok, zero, biased, unreliable, fail; ///< how many inputs have which verdict
    uint32_t judged;      ///< inputs that could be judged: all but the unreliable ones
    double largest_error; ///< of the inputs that are ok, relative; NaN when none is
    bool is_zero;         ///< the whole gradient is zero: nothing was checked
    ns_gradient_certificate certificate; ///< of the gradient as a whole
    bool has_smoothed;                   ///< smoothed derivatives are there
    bool can_touch;                      ///< the model has pairs that push when they touch
    uint32_t contact_steps;              ///< steps in which a contact acted
} ns_gradcheck_result;

/// Check the gradients of a system at one point. It builds one or two more systems of the same model
/// to scale the controls and to count contacts.
/// @param options  NULL for ns_default_gradcheck_options()
/// @param out      to be freed by ns_gradcheck_free(), may outlive the system; NULL after a failure
/// @return NS_OK, whatever the verdicts are; NS_ERR_ARGUMENT: no steps, or a system without inputs;
///         NS_ERR_NONFINITE: the rollout or a gradient is not finite; NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_gradcheck(const ns_system* system, const ns_gradcheck_options* options,
                              ns_gradcheck_result** out, ns_error* error);
NS_API void ns_gradcheck_free(ns_gradcheck_result* result); ///< NULL is allowed

#ifdef __cplusplus
}
#endif

#endif
