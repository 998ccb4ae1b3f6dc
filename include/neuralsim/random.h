/// @file random.h
/// Random numbers that are the same on every machine: xoshiro256++ (Blackman & Vigna 2021), seeded by
/// splitmix64.
///
///     ns_rng rng = ns_rng_seed(1);
///     double noise = 0.01 * ns_rng_normal(&rng);

#ifndef NEURALSIM_RANDOM_H
#define NEURALSIM_RANDOM_H

#include "neuralsim/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_rng {
    uint64_t state[4];
} ns_rng;

NS_API ns_rng ns_rng_seed(uint64_t seed);
NS_API uint64_t ns_rng_next(ns_rng* rng);
NS_API uint32_t ns_rng_below(ns_rng* rng, uint32_t n);              ///< uniform in 0..n-1, n > 0
NS_API double ns_rng_uniform(ns_rng* rng, double low, double high); ///< uniform in [low, high)
NS_API double ns_rng_normal(ns_rng* rng);                           ///< mean 0, variance 1

#ifdef __cplusplus
}
#endif

#endif
