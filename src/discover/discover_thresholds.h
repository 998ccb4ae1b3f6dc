// Every number that decides what a discovery finds, in one place.
//
// Residuals are in units of the noise of their channel, or of its spread where no noise is given. "Cost" is the
// sum of squared residuals; a "share" is a fraction of it.

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
    // The candidate library: what it holds bounds memory and time, which grow with its square.
    struct {
        uint32_t max_coefficients; // kinds of terms beyond these are counted as omitted
        uint32_t max_name;         // bytes of a quantity's name; formulas are named after it
        uint32_t all_pairs;   // up to so many joints, each is coupled to each; else to neighbours
        uint32_t max_coupled; // joints that the extended library couples one joint to
        uint32_t max_host_terms; // coefficients of one formula, which has 512 operations at most
        double
            friction_speeds[4]; // transition speeds v of tanh(qd / v), as shares of the RMS speed
    } library;

    // Windows that recordings are cut into.
    struct {
        uint32_t max_residuals; // about; more do not change which terms are found
        uint32_t
            min_fold_recordings; // so many recordings are folds themselves; else stretches of windows
        uint32_t smoothing;      // samples from which initial states are guessed
        uint32_t speed_samples; // of a recording that the RMS speed is computed from, about
        uint32_t difference;    // samples apart: noise does not hide the change between them
        uint32_t min_length, max_length;    // of the shortest level, samples
        double default_length;              // s, when no coordinate is recorded
        double growth[NSI_DISCOVER_LEVELS]; // of window lengths, in characteristic half-periods
    } windows;

    // Levenberg-Marquardt over the active terms.
    struct {
        double damping; // relative, at the start
        double min_damping;
        double increase, decrease; // factors of the damping after a step that fails, or succeeds
        uint32_t max_failures;     // steps in a row
        double
            negligible_decrease; // predicted, as a share of the tolerance: not worth another failure
        double regularisation;   // relative, of a diagonal that is singular but for rounding
        double min_shape, max_shape; // range of a shape, relative to where it starts
        nsi_refit_limits trial;      // of a candidate: enough to compare it with others
        nsi_refit_limits baseline;   // without any candidate
        nsi_refit_limits accepted;   // of terms that stay
    } refit;

    // Normal equations.
    struct {
        double min_pivot;    // relative: a term below depends on the others but for rounding
        double min_diagonal; // squared residual units: a term below has no effect
    } gram;

    // Stepwise selection.
    struct {
        double family_alpha;   // probability that noise lets any of all candidates in (Bonferroni)
        double min_share;      // of the current cost that a term must explain
        double held_out_share; // of min_share that it must explain in folds it was not fitted to
        double min_baseline_share; // of the cost without any term that a term must explain
        double negligible_share;   // of the cost without any term: nothing is left to explain
        double rounding;           // mean squared residual that is rounding
        double no_residual;        // mean squared residual below which sites are not even ranked
        double
            min_own_share; // of a candidate's effect that no active term has; else it is not tried
        double
            equal_variance; // times the residual variance: costs closer than that are equal (3 sigma)
        double same_cost;   // relative: costs of two candidates that may do exactly the same
        double same_own_share; // of the effect: below it, two candidates do exactly the same
        double trial_range;  // share of the best gain that a candidate may lack and still be tried
        uint32_t max_trials; // candidates that are refitted, best first
        uint32_t max_trials_of_kind; // and the best of parameters and of formulas, in any case
        double pair_share;  // of the best cost with one term that two at one site must come below
        double rival_share; // of a term's gain at which another candidate is told beside it
        uint32_t max_steps; // forward steps at one window length
        uint32_t max_corrections;  // backward and exchange steps after each of them
        double hysteresis;         // share of the entry thresholds below which a term leaves
        double exchange_predicted; // share of the cost that an exchange must come below, linearised
        double exchange_gain;      // and share that it must explain in fact
    } selection;

    // Is what is left the integrator's error?
    struct {
        uint32_t state_iterations; // of the refit of initial states
        double damping;            // of that refit
        double max_extrapolation;  // times the difference between two integrators
        uint32_t max_steps;        // between samples: finer integrators take too long
        double min_gain;           // share of a candidate's gain that the integrator explains, too
        double clear_gain; // a candidate that leaves less than this of the rest enters anyway
        double min_share;  // of the cost: what is left is numerical as a whole
    } integrator;

    // Ranking of sites, and what is done when much is left.
    struct {
        uint32_t max_terms;    // of a site, added one after another
        double ridge;          // relative, against terms of one site that are nearly alike
        double noise_ratio;    // residual above so many times the noise, and ...
        double residual_share; // ... above this share of the first residual: much is left
        uint32_t crowded;      // terms at one joint that suggest a law the library does not have
        uint32_t max_suspects; // of a ranking
    } ranking;

    // The second pass with an extended library at one joint.
    struct {
        uint32_t max_joints;
        double much_better;   // ratio of held-out residuals that may cost more terms,
        uint32_t extra_terms; // so many
        double as_good;       // ratio that is enough with fewer terms
    } second_pass;

    // The network fallback.
    struct {
        uint32_t max_joints; // that are tried
        uint32_t hidden[2];  // units per layer
        uint32_t max_windows;
        nsi_refit_limits train;
        uint32_t score_iterations; // of initial states
        uint32_t
            held_out_every; // one recording of so many is left out, or the last part of the windows
        double min_spread;  // variance of an input that can be scaled by it
        double promising;   // ratio to the residual of the formulas, before inputs are removed
        double clearly_better; // ratio between networks at two sites
        double as_good;        // ratio at which an input is removed
        double accepted;       // ratio to the residual of the formulas at which the network stays
    } network;
} nsi_discover_thresholds;

extern const nsi_discover_thresholds nsi_thresholds;

#endif
