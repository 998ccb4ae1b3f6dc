// A policy learns from decisions of the MPC: supervised, by Adam on small batches.

#ifndef QUADRUPED_IMITATION_H
#define QUADRUPED_IMITATION_H

#include "quadruped/policy.h"
#include "quadruped/walk.h"

// Decisions: what was seen, and the torques of stance legs. Flags among the features tell which legs
// these are.
typedef struct quad_demonstrations {
    uint32_t count, room;
    double* features; // (room x 41)
    double* torques;  // (room x 12)
} quad_demonstrations;

ns_status quad_demonstrations_create(uint32_t room, const ns_allocator* allocator,
                                     quad_demonstrations* out, ns_error* error);
void quad_demonstrations_free(quad_demonstrations* lessons, const ns_allocator* allocator);

// Walk by the MPC until so many decisions more are recorded, in runs of `options`.seconds with seeds from
// `seed` on. Each decision is kept with the probability `share`.
// @return NS_OK; NS_ERR_LIMIT when there is no room for them, or robots fall so early that there are
//         none
ns_status quad_demonstrations_record(quad_demonstrations* lessons, const quad_walk_env* place,
                                     const quad_walk_options* options, uint64_t seed,
                                     uint32_t count, double share, const ns_allocator* allocator,
                                     ns_error* error);

typedef struct quad_imitate_options {
    uint32_t iterations; // default 8000
    uint32_t batch;      // default 64, a multiple of 4
    double rate;         // of Adam, falls to 1/100 by a cosine. Default 2e-3
    double held;         // share of lessons, the last ones, that only measure. Default 0.1
    uint64_t seed;
} quad_imitate_options;

quad_imitate_options quad_default_imitate_options(void);

typedef struct quad_imitate_report {
    double train, held; // root mean square error of torques of stance legs, N m
    double spread;      // root mean square of these torques about their mean
} quad_imitate_report;

// Scales are set by the lessons, then weights are trained from where they are. Ends with
// quad_policy_ready().
// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_NOMEM; NS_ERR_NONFINITE when the first iteration has no value
ns_status quad_imitate(quad_policy* policy, const quad_demonstrations* lessons,
                       const quad_imitate_options* options, quad_imitate_report* report,
                       ns_error* error);

#endif
