// An experiment of kind `walk`: quadrupeds follow random commands, by model-predictive control or by
// networks that learned from it, undisturbed and disturbed.

#ifndef CLI_EXPERIMENT_WALK_H
#define CLI_EXPERIMENT_WALK_H

#include "cli.h"
#include "experiment.h"
#include "quadruped/imitation.h"
#include "quadruped/tuning.h"
#include "report/figure_data.h"

enum { WALK_ROBOTS = 2, WALK_MOST = 32, WALK_BINS = 700 };

// How long decisions took: counts by time, from 0.1 us on, each bin 2 % wider than the last.
typedef struct walk_times {
    uint64_t bins[WALK_BINS];
    uint64_t count;
} walk_times;

// What a page shows of the first seed of a run, decision by decision.
typedef struct walk_trace {
    uint32_t count, nx, nc; // rows
    double *time, *states, *controls;
    double (*wanted)[3], (*velocity)[3];
    double* height;
    bool (*stands)[QUAD_LEGS], (*touches)[QUAD_LEGS];
} walk_trace;

typedef struct walk_policy {
    const char *name, *label;
    uint32_t robot;
    uint32_t from; // a policy before it that is tuned; NSI_NONE: it imitates
    uint32_t hidden[QUAD_MLP_F32_LAYERS], nhidden;
    uint32_t transitions;
    double share; // of decisions that are recorded
    quad_imitate_options imitate;
    quad_tune_options tune;
    uint32_t every, seeds; // validation: after so many iterations, on so many seeds
    double seconds;        // of each

    quad_policy* policy;
    quad_imitate_report imitated;
    uint32_t best;                              // iteration that was kept
    quad_walk_result first, last;               // on validation seeds
    double *history_at, *history_v, *history_h; // iterations, errors
    uint32_t nhistory, falls;                   // falls: of all validations
    double took;                                // s
} walk_policy;

typedef struct walk_run {
    const char *name, *label;
    uint32_t robot, policy; // policy NSI_NONE: QP
    int contact;            // an ns_contact_model
    bool trim, show;
    uint32_t seeds;
    quad_walk_options options;
    quad_walk_result sum;
    walk_times times;
    walk_trace trace;
} walk_run;

typedef struct walk_disturbance {
    const char *name, *label;
    double mass, friction, delay, push, noise; // delay: s
    quad_walk_result* sums;                    // of each disturbed run
} walk_disturbance;

typedef struct walk_experiment {
    experiment* e;
    quad_robot robots[WALK_ROBOTS];
    ns_model* models[WALK_ROBOTS]; // NULL: not needed
    quad_walk_options options;
    uint32_t seeds;
    double playback; // s
    walk_policy* policies;
    walk_run* runs;
    walk_disturbance* disturbances;
    uint32_t npolicy, nrun, ndisturbance;
    uint32_t disturbed[WALK_MOST], ndisturbed; // runs
    uint32_t disturbed_seeds;
    double disturbed_seconds;
    uint32_t (*pairs)[2]; // runs that are compared: before, after
    uint32_t npair;
} walk_experiment;

uint32_t walk_period(uint32_t robot);                        // ms from decision to decision
double walk_quantile(const walk_times* times, double share); // s
double walk_speed_error(const quad_walk_result* result);     // m/s, both directions; NaN: none

// ---- experiment_walk_page.c --------------------------------------------------------------------

bool walk_make_page(const walk_experiment* w, nsi_text_builder* page);

#endif
