// Every number that decides what a discovery finds, in one place.
//
// Residuals are in units of the noise of their channel, or of its spread where no noise is given.
// "Cost" is the sum of squared residuals; a "share" is a fraction of it.

#ifndef NSI_DISCOVER_DISCOVER_THRESHOLDS_H
#define NSI_DISCOVER_DISCOVER_THRESHOLDS_H

#include <stdint.h>

enum {
    NSI_FOLDS = 5,          // of the cross-validation
    NSI_DISCOVER_LEVELS = 3 // window lengths
};

// How often and how precisely coefficients are refitted by Levenberg-Marquardt.
typedef struct nsi_refit_limits {
    uint32_t iterations;
    double tolerance; // relative decrease of the cost at which a refit has converged
} nsi_refit_limits;

typedef struct nsi_discover_thresholds {
    // The candidate library. Memory and time of the normal equations grow with the square of its
    // size.
    struct {
        // Coefficients in all. Kinds of terms beyond are counted as omitted, and the report says
        // so.
        uint32_t max_coefficients;
        // Bytes of a quantity's name. Formulas are named after it, and have names of 200 bytes at
        // most.
        uint32_t max_name;
        // Models with so many joints couple each joint to each, larger ones to its neighbours.
        uint32_t all_pairs;
        // Joints that the extended library couples one joint to; more are counted as omitted.
        uint32_t max_coupled;
        // Coefficients of one formula in the extended library: a formula has 512 operations at
        // most.
        uint32_t max_host_terms;
        // Grid of transition speeds v of tanh(qd / v), relative to the RMS speed of the joint.
        // Refits refine v from the best of them.
        double friction_speeds[4];
    } library;

    // Windows that recordings are cut into.
    struct {
        // Residuals in all, about. More take time and do not change which terms are found.
        uint32_t max_residuals;
        // So many recordings are folds themselves; with fewer, folds are stretches of windows.
        uint32_t min_fold_recordings;
        // Samples on either side from which initial states are guessed.
        uint32_t smoothing;
        // Samples of a recording, about, from which the mean and spread of a state are computed.
        uint32_t speed_samples;
        // Window lengths in half-periods. Short windows keep large errors linear, long ones show
        // weak effects.
        double growth[NSI_DISCOVER_LEVELS];
    } windows;

    // Levenberg-Marquardt over the active terms.
    struct {
        // Relative damping of the first step, and the smallest.
        double damping, min_damping;
        // Factors of the damping after a step that fails, or succeeds.
        double increase, decrease;
        // Steps that may fail in a row.
        uint32_t max_failures;
        // Predicted decrease, as a share of the tolerance, that is not worth another attempt.
        double negligible_decrease;
        // Relative increase of the diagonal: keeps singular equations solvable, far below any
        // damping.
        double regularisation;
        // Range of a shape relative to its start: it stays positive and within what the motion
        // shows.
        double min_shape, max_shape;
        // Of a candidate: enough to compare it with others. Without any candidate. Of terms that
        // stay.
        nsi_refit_limits trial, baseline, accepted;
    } refit;

    // Normal equations.
    struct {
        // Pivot relative to the diagonal. Below, a term is a combination of the others but for
        // rounding.
        double min_pivot;
        // Squared effect of a unit step, in residual units. Below, a term has no effect but for
        // rounding.
        double min_diagonal;
    } gram;

    // Stepwise selection.
    struct {
        // Probability that noise lets in any of all candidates (Bonferroni's correction).
        double family_alpha;
        // Share of the current cost that a term must explain to be worth having.
        double min_share;
        // Share of that share that it must explain in folds it was not fitted to.
        double held_out_share;
        // Share of the cost without any term that a term must explain: in an exact recording every
        // residual is significant.
        double min_baseline_share;
        // Share of the cost without any term below which nothing is left to explain.
        double negligible_share;
        // Mean squared residual that is rounding.
        double rounding;
        // Mean squared residual below which sites are not even ranked.
        double no_residual;
        // Share of a candidate's effect that no combination of active terms has. Below, it is not
        // tried.
        double min_own_share;
        // Costs that differ by less than this multiple of the residual variance are equal (3
        // sigma).
        double equal_variance;
        // Relative difference of two costs, and own share, below which two candidates have the same
        // effect.
        double same_cost, same_own_share;
        // Share of the best gain that a candidate may lack by the normal equations and still be
        // refitted.
        double trial_range;
        // Candidates that are refitted, best first; and of parameters and formulas, in any case.
        uint32_t max_trials, max_trials_of_kind;
        // Of two terms at one site that leave less than this share of what the best one alone does,
        // the better enters first: each alone may explain little.
        double pair_share;
        // Share of a term's gain at which another candidate is reported beside it.
        double rival_share;
        // Forward steps at one window length; backward and exchange steps after each of them.
        uint32_t max_steps, max_corrections;
        // A term leaves below this share of what lets it enter, so that it does not come back at
        // once.
        double hysteresis;
        // Share of the cost that an exchange must come below by the normal equations, which are not
        // exact for long steps; and share that it must explain after a refit.
        double exchange_predicted, exchange_gain;
    } selection;

    // Is what is left the integrator's error?
    struct {
        // Iterations and relative damping of the refit of initial states.
        uint32_t state_iterations;
        double damping;
        // The error is this multiple of the difference between two integrators at most.
        double max_extrapolation;
        // Steps between samples: finer integrators take too long.
        uint32_t max_steps;
        // The integrator is to blame when it explains this share of a candidate's gain.
        double min_gain;
        // A candidate that leaves less than this share of what the integrator leaves enters anyway.
        double clear_gain;
        // Share of the cost that the integrator explains when all that is left is numerical.
        double min_share;
    } integrator;

    // Ranking of sites, and what is done when much is left.
    struct {
        // Terms of a site that are added one after another: all of them would fit noise.
        uint32_t max_terms;
        // Relative ridge, against terms of one site that are nearly alike.
        double ridge;
        // Much is left when the residual is above so many times the noise, and above this share of
        // the first.
        double noise_ratio, residual_share;
        // Terms at one joint that suggest a law the library does not have.
        uint32_t crowded;
        // Sites of a ranking that may be suspects.
        uint32_t max_suspects;
    } ranking;

    // The second pass with an extended library at one joint.
    struct {
        // Joints that are tried.
        uint32_t max_joints;
        // Ratio of held-out residuals that is worth so many more terms.
        double much_better;
        uint32_t extra_terms;
        // Ratio that is enough with fewer terms.
        double as_good;
    } second_pass;

    // The network fallback.
    struct {
        // Joints that are tried.
        uint32_t max_joints;
        // Units per layer.
        uint32_t hidden[2];
        uint32_t max_windows;
        nsi_refit_limits train;
        // Iterations over initial states in held-out windows.
        uint32_t score_iterations;
        // One recording of so many is held out, or this part of the windows where there are few
        // recordings.
        uint32_t held_out_every;
        // Variance above which an input is scaled by it.
        double min_spread;
        // Ratios of held-out residuals. To that of the formulas, before inputs are removed: with
        // all inputs, a network overfits. Between networks at two sites. At which an input is
        // removed. To that of the formulas, at which the network stays.
        double promising, clearly_better, as_good, accepted;
    } network;
} nsi_discover_thresholds;

extern const nsi_discover_thresholds nsi_thresholds;

#endif
