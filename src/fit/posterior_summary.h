// Quantiles and diagnostics of the posterior of a fit (posterior.h).

#ifndef NSI_FIT_POSTERIOR_SUMMARY_H
#define NSI_FIT_POSTERIOR_SUMMARY_H

#include "base/common.h"
#include "neuralsim/posterior.h"

// Weight of each sample of a chain; all weights add up to 1.
double nsi_posterior_weight(const ns_posterior* posterior, uint32_t chain);

// The sample below which a share of the weight lies, in the order of chains.
size_t nsi_posterior_pick(const ns_posterior* posterior, double share);

// Of a number, from the samples. False when out of memory.
bool nsi_posterior_summarise(const ns_posterior* posterior, uint32_t number, ns_chain_summary* out);

// Is a column of samples.csv a parameter or coefficient?
bool nsi_is_sampled_parameter(const char* name);

#endif
