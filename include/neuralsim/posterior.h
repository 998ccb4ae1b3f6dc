/// @file posterior.h
/// Posterior sampling: Hamiltonian Monte Carlo and Laplace approximations of a log-density.
///
///     ns_density density = {.n = 2, .log_density = banana};
///     ns_laplace* mode = NULL;
///     ns_laplace_find(&density, start, NULL, &mode, &error);    // maximum and covariance there
///     ns_samples* samples = NULL;
///     ns_hmc_sample(&density, (const ns_laplace* const*)&mode, 1, NULL, &samples, &error);
///     ns_chain_summary s = ns_samples_summary(samples, 0);      // interval, R-hat, ESS of x[0]
///     ns_samples_free(samples);
///     ns_laplace_free(mode);
///
/// ns_hmc_sample() is the no-U-turn sampler (Hoffman & Gelman 2014) with multinomial sampling of
/// its trajectories (Betancourt 2017), dual averaging of the step size, and a mass matrix that
/// starts from the covariance of the start and is refined during warm-up.
///
/// A fit file asks for the posterior of its parameters with `posterior` (docs/posterior.md); fit.h
/// has the same for calls. Link libneuralsim_fit.

#ifndef NEURALSIM_POSTERIOR_H
#define NEURALSIM_POSTERIOR_H

#include "neuralsim/base.h"
#include "neuralsim/report.h"
#include "neuralsim/table.h"
#include "neuralsim/words.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- densities ----------------------------------------------------------------------------------

/// A probability density of n numbers, up to a factor.
typedef struct ns_density {
    uint32_t n;

    /// Natural logarithm of the density at x (n), and its exact gradient (n). -INFINITY: x is
    /// impossible. Called by several threads at a time, each with its own `worker` from 0.
    double (*log_density)(void* context, uint32_t worker, const double* x, double* gradient);

    /// Positive semidefinite approximation H (n x n, both triangles) of the negative second
    /// derivatives at x, such as J'J of a least-squares problem; false where there is none. NULL:
    /// central differences of gradients.
    bool (*information)(void* context, uint32_t worker, const double* x, double* H);
    void* context;
} ns_density;

/// A Gaussian at a maximum of a density.
typedef struct ns_laplace {
    uint32_t n;
    double* mean;        ///< (n) the maximum
    double* factor;      ///< (n x n) L, of no particular shape; the covariance is L L'
    double log_density;  ///< at the maximum
    double log_evidence; ///< logarithm of the integral of the Gaussian
    uint32_t iterations; ///< of the maximisation
    bool converged;      ///< the gradient vanishes at `mean`, relative to its uncertainty
    uint32_t
        undetermined; ///< directions in which the density hardly curves: their standard deviation
                      ///< is that of `scale`
} ns_laplace;

/// Maximise a density by damped Newton steps, and approximate it there.
/// @param start  (n) where the density is finite
/// @param scale  (n) standard deviations of a weak Gaussian that limits the covariance, and nothing
///               else; NULL: none
/// @param out    to be freed by ns_laplace_free(); NULL after a failure
/// @return NS_OK, also when it has not converged; NS_ERR_ARGUMENT; NS_ERR_NONFINITE: no finite
///         density at the start, or no finite covariance; NS_ERR_NOMEM
NS_API ns_status ns_laplace_find(const ns_density* density, const double* start,
                                 const double* scale, ns_laplace** out, ns_error* error);
NS_API void ns_laplace_free(ns_laplace* laplace); ///< NULL is allowed

// ---- sampling -----------------------------------------------------------------------------------

/// How far a sampler is: called by one thread at a time; true: stop.
typedef bool ns_sampling_observer(void* context, uint32_t done, uint32_t count);

/// A zeroed struct is the default.
typedef struct ns_hmc_options {
    uint32_t chains;      ///< 0: 4
    uint32_t warmup;      ///< iterations of each chain that are not kept. 0: 500
    uint32_t samples;     ///< that each chain keeps. 0: 1000
    double target_accept; ///< mean acceptance that the step size aims at, below 1. 0: 0.8
    uint32_t max_depth;   ///< trajectories have at most 2^max_depth steps. 0: 10
    bool diagonal;    ///< warm-up rescales coordinates only; otherwise it learns correlations, too
    uint32_t threads; ///< 0: one per core. Samples do not depend on it
    uint64_t seed;
    ns_sampling_observer* observe; ///< of iterations of all chains together
    void* context;
} ns_hmc_options;

/// Samples of chains.
typedef struct ns_samples {
    uint32_t n, chains, count; ///< count: of each chain
    double* x;                 ///< (chains x count x n)
    double* log_density;       ///< (chains x count); NaN: not computed
    bool* divergent;      ///< (chains x count) the trajectory left the level set: bias is likely
    uint32_t* start;      ///< (chains) which of the starts
    double* step_size;    ///< (chains) after warm-up; 0: no chains (Laplace)
    double* acceptance;   ///< (chains) mean acceptance of the samples
    uint32_t divergences; ///< in all
    uint32_t truncated;   ///< trajectories that were cut off at max_depth
    uint64_t evaluations; ///< of the density, with warm-up
    bool stopped;         ///< by the observer: count is what all chains have
} ns_samples;

/// Sample a density by the no-U-turn sampler.
/// @param starts   (nstart) chain k begins near the mean of start k % nstart, with its covariance
///                 as the first inverse mass matrix
/// @param options  NULL: defaults
/// @param out      to be freed by ns_samples_free(); NULL after a failure
/// @return NS_OK; NS_ERR_ARGUMENT: an option out of range, or no start; NS_ERR_NONFINITE: no finite
///         density near a start; NS_ERR_NOMEM
NS_API ns_status ns_hmc_sample(const ns_density* density, const ns_laplace* const* starts,
                               uint32_t nstart, const ns_hmc_options* options, ns_samples** out,
                               ns_error* error);

/// Independent samples of Gaussians, `chains` x `count` of them; chain k is of Gaussian k % nmode.
/// @return NS_OK; NS_ERR_ARGUMENT, NS_ERR_NOMEM
NS_API ns_status ns_laplace_sample(const ns_laplace* const* modes, uint32_t nmode, uint32_t chains,
                                   uint32_t count, uint64_t seed, ns_samples** out,
                                   ns_error* error);
NS_API void ns_samples_free(ns_samples* samples); ///< NULL is allowed

// ---- diagnostics --------------------------------------------------------------------------------

/// What chains say of one number. R-hat and effective sample sizes are those of Vehtari, Gelman,
/// Simpson, Carpenter & Buerkner (2021): of halves of chains, rank-normalised.
typedef struct ns_chain_summary {
    double mean, deviation;
    double median, lower, upper; ///< lower, upper: ends of the central 90 % interval
    double rhat;     ///< 1: chains agree; NaN: fewer than 4 samples in a chain, or constant
    double ess_bulk; ///< effective sample size for the centre of the distribution
    double ess_tail; ///< for its 5 % and 95 % quantiles, the smaller one
} ns_chain_summary;

/// @param x  (chains x count)
/// @return false when memory ran out
NS_API bool ns_chains_summarise(const double* x, uint32_t chains, uint32_t count,
                                ns_chain_summary* out);

/// Of coordinate k of samples; all NaN when out of memory.
NS_API ns_chain_summary ns_samples_summary(const ns_samples* samples, uint32_t k);

// ---- posteriors of fits -------------------------------------------------------------------------

#define NS_POSTERIOR_MAP(X)                                                                        \
    X(NS_POSTERIOR_NONE, "none", "standard errors only")                                           \
    X(NS_POSTERIOR_LAPLACE, "laplace", "Gaussian at the maximum, in unbounded coordinates")        \
    X(NS_POSTERIOR_HMC, "hmc", "samples by the no-U-turn sampler")

typedef enum ns_posterior_method { NS_POSTERIOR_MAP(NS_CHOICE_VALUE) } ns_posterior_method;
NS_API extern const ns_choices ns_posterior_methods;

/// How a fit samples its posterior. A zeroed struct is the default: not at all.
typedef struct ns_posterior_options {
    ns_posterior_method method;
    uint32_t chains;      ///< 0: 4
    uint32_t warmup;      ///< of each chain. 0: 500
    uint32_t samples;     ///< of each chain. 0: 1000
    double target_accept; ///< 0: 0.8
    bool weights;         ///< weights of networks, too; weight decay is their prior
} ns_posterior_options;

/// What a sampled number is.
typedef enum ns_posterior_kind {
    NS_POSTERIOR_PARAMETER,
    NS_POSTERIOR_WEIGHT, ///< of a network, or a coefficient of a formula
    NS_POSTERIOR_STATE,  ///< of the initial state of a window
    NS_POSTERIOR_NOISE   ///< standard deviation of the noise of a channel
} ns_posterior_kind;

/// The posterior of one number, in its SI unit.
typedef struct ns_posterior_number {
    const char *name, *unit;
    ns_posterior_kind kind;
    uint32_t
        index; ///< of the estimate, among all weights, or of the channel; of states: by windows
    ns_chain_summary summary; ///< over modes, by their probabilities; R-hat: the largest of a mode
} ns_posterior_number;

/// The posterior of a fit. All of it is owned by the result.
typedef struct ns_posterior {
    ns_posterior_method method;
    const ns_posterior_number* numbers; ///< parameters, weights, initial states, noise levels
    uint32_t n;
    uint32_t chains, count;    ///< count: samples of each chain
    const double* samples;     ///< (chains x count x n), in SI units
    const double* log_density; ///< (chains x count), of the solver's coordinates; NaN for laplace
    const bool* divergent;     ///< (chains x count)
    const uint32_t* mode;      ///< (chains) each chain is at one mode
    const double* probability; ///< (nmode) of each mode, by its Laplace approximation
    uint32_t nmode;
    uint32_t divergences, truncated; ///< as of ns_samples
    uint64_t evaluations;            ///< of the density
    double seconds;
} ns_posterior;

/// Quantile p (0 to 1) of a number over all modes; NaN when out of memory.
NS_API double ns_posterior_quantile(const ns_posterior* posterior, uint32_t number, double p);

/// Add the figure "corner" to a section: the first 8 parameters of samples.csv against each other.
/// @param path  samples.csv of ns_fit_save()
/// @return NS_OK, also where no parameter was sampled; NS_ERR_IO, NS_ERR_PARSE, NS_ERR_NOMEM
NS_API ns_status ns_section_add_corner(ns_section* section, const char* path, ns_error* error);

/// Add the figure "bands": the first recording and the 90 % bands of its predictions.
/// @param predictions  predictions.csv of ns_fit_save(); only needed during the call
/// @return NS_OK, also where there are no bands; NS_ERR_NOMEM
NS_API ns_status ns_section_add_bands(ns_section* section, const ns_table* predictions,
                                      ns_error* error);

/// Ranges for domain randomisation from the samples of a fit, as JSON: for each parameter the ends
/// of the central interval, mean and standard deviation, and correlations.
/// @param path         samples.csv of ns_fit_save()
/// @param probability  of the intervals, between 0 and 1
/// @param out          to be freed by ns_text_free()
/// @return NS_OK; NS_ERR_ARGUMENT; NS_ERR_IO, NS_ERR_PARSE naming the file; NS_ERR_NOMEM
NS_API ns_status ns_posterior_ranges(const char* path, double probability, ns_text* out,
                                     ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
