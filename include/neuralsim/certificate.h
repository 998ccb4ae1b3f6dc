/// @file certificate.h
/// Certificates: how far a rollout gradient can be trusted.
///
///     ns_gradient_certificate certificate;
///     ns_rollout_adjoint gradient = {.state_seeds = seeds, .dx0 = dx0, .certificate = &certificate};
///     ns_rollout_vjp(system, work, &rollout, &gradient, &error);
///     if (certificate.verdict != NS_GRADIENT_OK) puts(certificate.reason);
///
/// ns_rollout_vjp() fills one certificate per robot when `certificate` is set: how well contact was solved
/// and how the gradient grows on its way back. It costs nothing otherwise, and never changes the gradient.
/// A contact monitor adds the contacts that are about to switch, by one more rollout:
///
///     ns_contact_monitor* monitor = NULL;
///     ns_contact_monitor_create(system, steps, &monitor, &error);
///     ns_contact_monitor_run(monitor, &rollout, &certificate, &error);
///
/// docs/contact-gradients.md explains the verdicts and their thresholds.

#ifndef NEURALSIM_CERTIFICATE_H
#define NEURALSIM_CERTIFICATE_H

#include "neuralsim/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/// How far a gradient can be trusted, from good to bad.
#define NS_GRADIENT_VERDICT_MAP(X)                                                                 \
    X(NS_GRADIENT_OK, "ok", "no sign of trouble")                                                  \
    X(NS_GRADIENT_BIASED, "biased",                                                                \
      "of a nearby problem or of one side of a kink: the direction is usually right")              \
    X(NS_GRADIENT_UNRELIABLE, "unreliable", "do not use it")

typedef enum ns_gradient_verdict { NS_GRADIENT_VERDICT_MAP(NS_CHOICE_VALUE) } ns_gradient_verdict;
extern NS_API const ns_choices ns_gradient_verdicts;

/// A gradient that grows by more than this holds only for changes below the inverse of it: unreliable,
/// or biased by kinks nearby.
#define NS_GRADIENT_MAX_GROWTH 1e6
#define NS_GRADIENT_HIGH_GROWTH 1e4

/// Growth that changes sign from step to step is an artefact of the time step: unreliable above this.
#define NS_GRADIENT_MAX_ALTERNATION 1e3

/// A contact is near a switch when it is within this share of one: of the weight, of the friction
/// cone, and of the velocity and the way that weight causes in one step.
#define NS_SWITCH_TOLERANCE 1e-2

enum { NS_GRADIENT_REASON_SIZE = 240 };

struct ns_gradient_certificate {
    ns_gradient_verdict verdict;
    char reason[NS_GRADIENT_REASON_SIZE]; ///< of a verdict other than OK, one phrase; else ""
    uint32_t steps;                       ///< of the rollout
    bool finite;                          ///< the motion and its gradient are
    uint32_t
        nonfinite_step; ///< where the motion, or on its way back the gradient, stopped to be so
    ns_contact_report contact; ///< unsolved and relaxed steps

    /// Growth on the way back: |adjoint| / (sum of the seeds so far), both by their largest component.
    /// The seeds of observations count as what they put into the adjoint of their step.
    double growth;
    uint32_t growth_step; ///< where it was largest
    double alternation;   ///< the part of the growth in steps in which the adjoint turned round:
                          ///< product of the factors. 1: none
    uint32_t alternating_steps;

    /// By ns_contact_monitor_run(), otherwise zero: steps in which a rigid contact is near a switch.
    uint32_t switching_steps;
    uint32_t switching_step; ///< the first of them
    uint32_t touching;       ///< of all steps and points: it just touches, without a force
    uint32_t sliding;        ///< it just sticks, or just slides
    uint32_t simultaneous;   ///< two impacts at the same time
};

typedef struct ns_contact_monitor ns_contact_monitor;

/// Make a monitor of rigid contacts. It builds a system that observes them; without rigid contact, and
/// where contacts are found at run time (ns_detection), it does nothing.
/// @param system  must outlive the monitor; not a learned system
/// @param steps   most steps of a rollout
/// @return NS_OK; NS_ERR_ARGUMENT, NS_ERR_UNSUPPORTED, NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_contact_monitor_create(const ns_system* system, uint32_t steps,
                                           ns_contact_monitor** out, ns_error* error);
NS_API void ns_contact_monitor_free(ns_contact_monitor* monitor); ///< NULL is allowed

/// Simulate again and add what is near a switch to the certificates of a gradient. Allocates nothing.
/// @param args          of ns_rollout_vjp(); results are not written
/// @param certificates  (batch) as it filled them; verdicts and reasons are updated
/// @return NS_OK; NS_ERR_ARGUMENT; NS_ERR_NONFINITE as ns_rollout()
NS_API ns_status ns_contact_monitor_run(ns_contact_monitor* monitor, const ns_rollout_args* args,
                                        ns_gradient_certificate* certificates, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
