// State of a running fit, shared by its stages (fit_run.c) and its search (search.c).

#ifndef NSI_FIT_FIT_RUN_H
#define NSI_FIT_FIT_RUN_H

#include "fit/fit_state.h"
#include "sysid/stage_solver.h"

typedef struct nsi_run {
    ns_fit* f;
    const ns_fit_options* o;
    ns_error* error;
    double began, earlier, saved; // s: start of this run, spent before it, last checkpoint
    uint64_t fingerprint;
    uint32_t phase, nphase;
    bool searches;    // the first phase is a search
    uint32_t first;   // stage of the first phase that is one
    const char* name; // of the phase
    uint32_t iterations;
    nsi_objective* e; // of the stage at work; kept after the last
    nsi_stage_solver* stage_solver;
    nsi_checkpoint resumed; // what to go on from; empty after it was taken up
    bool resuming;
    double* best;         // z, w where the search ended, and nbest_state initial states of the last
    uint32_t nbest_state; // stage; NULL: there was no search
    NSI_ARRAY(double) minima; // of a search: cost, values of parameters, weights of each local one
    bool along;        // the sparsity path is kept along iterations: all penalties are the same
    ns_status failure; // of a checkpoint that could not be written, or of memory
} nsi_run;

static inline void nsi_copy_numbers(double* to, const double* from, size_t count) {
    memcpy(to, from, count * sizeof(double));
}

// s since the beginning, time before a resume included.
double nsi_run_elapsed(const nsi_run* r);

// "windows of 100, LM"
void nsi_run_describe_phase(const nsi_run* r, uint32_t phase, char* text, size_t size);

// What is the same for checkpoints of stages and of searches; and write one.
nsi_checkpoint nsi_run_begin_checkpoint(const nsi_run* r);
void nsi_run_write_checkpoint(nsi_run* r, const nsi_checkpoint* c);

// Record the loss and call the observer; true: stop.
bool nsi_run_report(nsi_run* r, uint32_t iteration, double value);

ns_status nsi_run_end_phase(nsi_run* r, const ns_solver_result* out, double seconds);

// Keep the point where the search ended, with initial states of the last stage if it knows them.
ns_status nsi_run_keep_best(nsi_run* r, const double* states, uint32_t nstate);

// The search as a phase: from the start, or from where a checkpoint stood, to the fit's z and w.
ns_status nsi_run_search(nsi_run* r);

// ---- sample_posterior.c --------------------------------------------------------------------------

// Sample the posterior that the spec asks for, around where the last stage ended and other minima of the
// search, into the result. Where there is none to sample, a note says why.
ns_status nsi_run_sample_posterior(nsi_run* r);

#endif
