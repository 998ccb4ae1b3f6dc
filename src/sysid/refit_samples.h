// Samples of a posterior by refits, each followed by a short walk.
//
// A refit finds the maximum of the density for other data and priors, drawn as they could have been
// (nsi_residual_density_perturb): randomised maximum likelihood (Kitanidis 1995; Oliver, He & Reynolds 1996).
// Where the model is linear, the maxima are exact samples of the posterior; elsewhere they are spread somewhat
// too far. Metropolis steps on the density itself, which leave the posterior as it is, bring them nearer, where
// they are accepted: with networks of more than a few units hardly any is, and samples are those of the refits.
//
// Networks need it. At the maximum of the density, weight decay puts units that the data does not ask for to
// zero, where first derivatives for their weights vanish: a Gaussian there knows nothing of what these units
// could do, and is far too narrow for what they could stand in for.

#ifndef NSI_SYSID_REFIT_SAMPLES_H
#define NSI_SYSID_REFIT_SAMPLES_H

#include "sysid/residual_density.h"

typedef struct nsi_refit_options {
    const double* scales; // of ns_laplace_find()
    uint32_t threads;     // at most the workers of the density. Samples do not depend on it
    uint64_t seed;
    ns_sampling_observer* observe; // NULL: nobody
    void* context;
} nsi_refit_options;

typedef struct nsi_refit_counts {
    uint32_t unfinished; // refits that did not converge
    uint64_t steps, accepted;
} nsi_refit_counts;

// Replace samples of the Gaussian by the maxima to which refits from there lead; noise levels stay. When the
// observer stops it, `samples` has a count of 0.
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_refit_samples(nsi_residual_density* density, const nsi_refit_options* options,
                            ns_samples* samples, nsi_refit_counts* counts, ns_error* error);

#endif
