// State of a prediction, shared by prediction.c (windows and rollouts) and metrics.c (errors).

#ifndef NSI_SYSID_PREDICTION_STATE_H
#define NSI_SYSID_PREDICTION_STATE_H

#include "sysid/prediction.h"

#include <math.h>

typedef struct nsi_predict_job {
    const nsi_problem* p;
    const ns_dataset* data;
    const double *z, *weights;
    const double* params; // of all variants one after the other; NULL: the systems'
    const nsi_predict_options* options;
    nsi_windows windows; // from the first sample of the history to the longest horizon
    bool* used;          // (variants) is there a window of it?
    uint32_t history;    // samples before the origin in each of them
    double after;        // share of a recording before its only origin; 0: as `origins` says
    nsi_prior* priors;   // (parameters) for those that adapt
    ns_allocator allocator;
} nsi_predict_job;

// Memory of one thread.
typedef struct nsi_predict_worker {
    ns_workspace** work; // (variants); NULL for those that are not used
    double *x, *states, *observations, *controls, *values;
    double *v, *params; // of one that adapts: (parameters), parameters of its variant and scratch
} nsi_predict_worker;

// Windows, parameters and priors of a job.
// @param memory  receives what nsi_predict_end() frees
ns_status nsi_predict_start(nsi_predict_job* j, const nsi_problem* problem, const ns_dataset* data,
                            const double* z, const double* weights,
                            const nsi_predict_options* options, double** memory, ns_error* error);
void nsi_predict_end(nsi_predict_job* j, double* memory);

// All windows, in any order; `visit` is called by one thread at a time.
typedef void nsi_window_visitor(void* context, uint32_t window, const nsi_predict_worker* w);
ns_status nsi_predict_for_windows(const nsi_predict_job* j, nsi_window_visitor* visit,
                                  void* context, ns_error* error);

// Whole samples up to a horizon.
static inline uint32_t nsi_horizon_samples(const nsi_predict_job* j, uint32_t k) {
    double samples = floor(j->options->horizons[k] / ns_dataset_period(j->data) + 1e-6);
    return samples < UINT32_MAX ? (uint32_t)samples : UINT32_MAX;
}

#endif
