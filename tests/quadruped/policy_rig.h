// Policies with random weights.

#ifndef TEST_POLICY_RIG_H
#define TEST_POLICY_RIG_H

#include "expr/kernels.h"
#include "neuralsim/random.h"
#include "quadruped/policy.h"
#include "support/assert.h"
#include "support/residual.h"

enum { FEATURES = QUAD_FEATURES, JOINTS = QUAD_JOINTS };

// Scales as of features of a walk, some that never change among them.
static inline quad_policy* make(uint64_t seed, uint32_t nhidden) {
    quad_policy* p = NULL;
    const uint32_t hidden[3] = {192, 61, 7};
    assert_int_equal(quad_policy_create(hidden, nhidden, seed, NULL, &p, NULL), NS_OK);
    ns_rng rng = ns_rng_seed(seed + 100);
    for (int k = 0; k < FEATURES; k++) {
        p->mean[k] = ns_rng_normal(&rng);
        p->scale[k] = k % 7 == 6 ? 0.0 : ns_rng_uniform(&rng, 0.5, 3.0);
    }
    for (int k = 0; k < JOINTS; k++) p->torque[k] = ns_rng_uniform(&rng, 1.0, 10.0);
    for (uint32_t k = 0; k < p->nweight; k++) p->weights[k] += 0.05 * ns_rng_normal(&rng);
    quad_policy_ready(p);
    return p;
}

#endif
