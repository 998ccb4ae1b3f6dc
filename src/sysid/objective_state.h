// State of an objective, shared by objective.c, objective_cost.c (cost, gradient), normal_equations.c and
// normal_solve.c (Gauss-Newton).

#ifndef NSI_SYSID_OBJECTIVE_STATE_H
#define NSI_SYSID_OBJECTIVE_STATE_H

#include "sim/sensitivity.h"
#include "sysid/objective.h"

// Windows of the same variant and number of steps are rolled out together.
typedef struct nsi_batch {
    uint32_t first, count, steps, variant;
    ns_workspace* work;
} nsi_batch;

// Normal equations of everything that is looked for. The unknowns are n numbers (z, weights) and nt
// directions of each window's initial state.
typedef struct nsi_normal {
    nsi_sensitivity** sensitivity; // (threads x variants); NULL for variants without windows
    double* slab;                  // rows of the Jacobian of some windows: nt, then n columns
    double* slab_residual;         // beside each row
    uint32_t* kept;                // how many rows of each of these windows there are
    uint32_t slab_windows;
    double squares;             // sum of squared residuals at the point; trials have others
    double *H, *g;              // (n x n) lower triangle, (n)
    double *Hxx, *Hxn, *gx;     // per window (nt x nt) lower triangle, (nt x n), (nt)
    double* Hnext;              // per window (nt x nt): with the start of the next one
    double* ends;               // tied: per window (nx x (nt + n)) derivatives of where it ends
    double *S, *L, *Y, *E, *yg; // what solving makes of them
    double *step, *step_x;      // (n), (windows x nt)
    double *x, *b;              // (n) with a penalty: where it leads, linear part of the model
    double* box;                // of bounded_step.c: 5 n numbers, scratch
    uint32_t* box_numbers;      // (n) scratch
    double* row;                // scratch: 2 nx + nt
} nsi_normal;

struct nsi_objective {
    ns_allocator allocator;
    const nsi_problem* p;
    const ns_dataset* data;
    ns_window_options options;
    const nsi_prior* priors;              // (parameters), or NULL: their own
    const nsi_perturbation* perturbation; // or NULL
    uint32_t threads;
    nsi_windows windows; // by variants
    uint32_t* variant;   // (windows) of each
    bool* used;          // (variants) is there a window of it?
    NSI_ARRAY(nsi_batch) batches;
    size_t *state_at, *control_at; // (windows + 1) where each has its part
    size_t* row_at;                // (windows + 1) of residuals

    uint32_t n, nz,
        nw; // unknowns without states: n = nz + nw, as far as they are fitted and chosen
    const uint32_t* chosen; // (n) of nz + nw, or NULL: all
    uint32_t nt;            // directions of an initial state; 0 when they are not looked for
    nsi_point point, trial;
    double *v, *params, *dparams, *dv, *scratch; // of the point or trial last looked at; parameters
                                                 // of all variants one after the other
    double* scale; // (channels) residual = (simulated - recorded) * scale
    double *states, *observations, *controls;
    double *residuals, *row_weight; // robust: how much each row counts; 0: missing
    double squares;                 // sum of squared residuals at the last value
    uint32_t nresidual;
    double* decay;           // (nw) R of each weight
    bool* coefficient;       // (nw) is it one of a formula?
    double *tie_scale, *tie; // (nx) of the ends of windows

    // Gradients.
    double *seeds, *observation_seeds;
    double *dx, *dp, *dw; // by initial states, parameters, weights; the last two and their parts

    nsi_normal normal;
    ns_solver_options penalty; // without groups there is none
    uint32_t refused;
    const char* refused_link;
};

static inline uint32_t nsi_state_size(const nsi_objective* e) {
    return e->p->sizes.nx;
}

// Parameters of all variants together.
static inline uint32_t nsi_param_total(const nsi_objective* e) {
    return e->p->param_at[e->p->nvariant];
}

static inline const ns_system* nsi_batch_system(const nsi_objective* e, const nsi_batch* b) {
    return e->p->variants[b->variant].system;
}

static inline const ns_recording* nsi_window_recording(const nsi_objective* e, uint32_t window) {
    return ns_dataset_recording(e->data, e->windows.data[window].recording);
}

static inline uint32_t nsi_parameter_count(const nsi_objective* e) {
    return e->p->parameters ? ns_parameters_count(e->p->parameters) : 0;
}

static inline nsi_prior nsi_prior_of(const nsi_objective* e, uint32_t parameter) {
    if (e->priors) return e->priors[parameter];
    const ns_parameter_info* v = ns_parameters_at(e->p->parameters, parameter);
    return (nsi_prior){v->initial, v->prior_sigma};
}

// Where weight decay pulls a weight to.
static inline double nsi_weight_mean(const nsi_objective* e, uint32_t weight) {
    return e->perturbation ? e->perturbation->weights[weight] : 0.0;
}

// Number of an unknown among parameters and weights, where only some are chosen.
static inline uint32_t nsi_column_of(const nsi_objective* e, uint32_t unknown) {
    return e->chosen ? e->chosen[unknown] : unknown;
}

// The first sample of a window that counts.
static inline uint32_t nsi_first_sample(const nsi_objective* e) {
    return e->options.initial_state == NS_INITIAL_STATE_RECORDED ? 1 : 0;
}

static inline bool nsi_is_tied(const nsi_objective* e, uint32_t window) {
    return e->options.initial_state == NS_INITIAL_STATE_TIED && e->windows.data[window].joined;
}

// Zeroed memory; one number more than asked for, so that there is always a block.
static inline double* nsi_numbers(const nsi_objective* e, size_t count) {
    return nsi_alloc_zeroed(&e->allocator, (count + 1) * sizeof(double));
}

// F at a point, leaving states, residuals and their weights.
double nsi_objective_cost_at(nsi_objective* e, const nsi_point* point);

// Parameters for z, and their derivatives; false when they are none that bodies can have.
bool nsi_objective_set_params(nsi_objective* e, const double* z, bool derivatives);

// Move parameters that no bodies can have to the nearest ones along the boundary, where that can be
// done.
void nsi_objective_repair(nsi_objective* e, double* z);

// The point moved by a step of the numbers (n) and of the initial states (windows x nt).
void nsi_objective_moved(const nsi_objective* e, const double* step, const double* step_x,
                         nsi_point* out);

// Where a window ends minus where the next one starts, scaled (nx).
void nsi_objective_continuity(const nsi_objective* e, const nsi_point* point, uint32_t window,
                              double* out);

// Derivatives of half the squared residuals of rows first .. last - 1 for values of parameters, weights and
// directions of initial states (unknowns), after nsi_normal_linearise() with natural numbers. Not for tied
// windows.
// @param masked  scratch for all residuals
bool nsi_objective_score(nsi_objective* e, size_t first, size_t last, double* masked, double* out);

void nsi_normal_free(nsi_objective* e);

// Normal equations at the point; `natural`: for values of parameters rather than their coordinates, and
// without priors. False as nsi_objective_linearise().
bool nsi_normal_linearise(nsi_objective* e, bool natural, double* value);

// The reduced matrix S without damping of the numbers, and its right-hand side into `step`. False when an
// initial state is not determined.
bool nsi_normal_reduce(nsi_objective* e, double damping);

// The penalty on weights at a point.
double nsi_penalty_at(const nsi_objective* e, const nsi_point* point);

// Is an unknown a weight of a network, not a parameter or coefficient? And the mean of a diagonal over
// these.
bool nsi_is_network_weight(const nsi_objective* e, uint32_t unknown);
double nsi_mean_weight_diagonal(const nsi_objective* e, const double* A);

#endif
