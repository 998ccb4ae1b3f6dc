// The loss of a set of windows, its derivatives, and Gauss-Newton steps.
//
//     F = 1/2 sum rho(r) + 1/2 N R |w|^2 + 1/2 sum ((v - start) / prior)^2 + 1/2 |ties|^2
//
// over the residuals r = (simulated - recorded) * scale of all N samples of all windows; w are the
// weights of networks (R |theta_NN|^2 of the NeuralSim workshop paper, eq. 1).
//
// The initial state of each window is a nuisance: unless it is taken as recorded it is estimated along
// with everything else, and eliminated from the normal equations by its Schur complement, window by
// window. Windows whose ends are tied to the next one's start couple neighbours: their part of the
// matrix is block tridiagonal, and the same elimination goes along the chain.

#ifndef NSI_SYSID_OBJECTIVE_H
#define NSI_SYSID_OBJECTIVE_H

#include "neuralsim/certificate.h"
#include "neuralsim/residuals.h"
#include "solver/solvers.h"
#include "sysid/problem.h"

// A Gaussian prior of a parameter.
typedef struct nsi_prior {
    double mean, deviation; // INFINITY: nothing
} nsi_prior;

// What options leave to the library: 0 stands for these.
enum { NSI_DEFAULT_SMOOTHING = 5, NSI_DEFAULT_CONTINUITY_WEIGHT = 10 };

static inline bool nsi_optimises_parameters(ns_optimise what) {
    return what == NS_OPTIMISE_ALL || what == NS_OPTIMISE_PARAMETERS;
}

static inline bool nsi_optimises_weights(ns_optimise what) {
    return what == NS_OPTIMISE_ALL || what == NS_OPTIMISE_WEIGHTS;
}

typedef struct nsi_objective nsi_objective;

// @param data     windows are taken from it, or from `windows` if there are any
// @param threads  0: one per core. Results do not depend on it
ns_status nsi_objective_create(const nsi_problem* problem, const ns_dataset* data,
                               const ns_window_options* options, const nsi_windows* windows,
                               uint32_t threads, nsi_objective** out, ns_error* error);
void nsi_objective_free(nsi_objective* objective); // NULL is allowed

uint32_t nsi_objective_window_count(const nsi_objective* objective);
const nsi_window* nsi_objective_window(const nsi_objective* objective, uint32_t number);
uint32_t nsi_objective_residual_count(const nsi_objective* objective); // N

// The point: z (n), weights (nw), initial states (windows x nx). To be read and set by the caller, until
// the next nsi_objective_commit().
typedef struct nsi_point {
    double *z, *w, *x;
} nsi_point;
nsi_point nsi_objective_point(nsi_objective* objective);

// Priors (parameters) in place of the parameters' own, from now on; NULL: their own. They stay the caller's.
void nsi_objective_set_priors(nsi_objective* objective, const nsi_prior* priors);

// A draw of what the data and priors could have been: added to residuals (rows), and to ties (windows x nx);
// where weight decay pulls weights to (weights).
typedef struct nsi_perturbation {
    const double *residuals, *ties, *weights;
} nsi_perturbation;

// From now on; NULL: none. Everything stays the caller's.
void nsi_objective_set_perturbation(nsi_objective* objective, const nsi_perturbation* perturbation);

// What residuals of each channel are multiplied by (channels): the problem's, to be read and set by the caller.
double* nsi_objective_scales(nsi_objective* objective);

// Initial states as guessed from the data.
void nsi_objective_guess(nsi_objective* objective);

// F at the point; INFINITY where a simulation does not stay finite or a link is not physical.
double nsi_objective_cost(nsi_objective* objective);

// Root of the mean squared residual at the last value, and without the robust norm.
double nsi_objective_rms(const nsi_objective* objective);

// Residuals at the last value, window by window; 0 for what is missing.
const double* nsi_objective_residuals(const nsi_objective* objective, size_t* count);

// Simulated states of a window at the last value: (steps + 1) x nx; observations (steps x ny).
const double* nsi_objective_states(const nsi_objective* objective, uint32_t window);
const double* nsi_objective_observations(const nsi_objective* objective, uint32_t window);

// ---- first order -------------------------------------------------------------------------------

// Numbers that are looked for: z and weights as far as they are fitted, then directions of all start
// states if they are free.
uint32_t nsi_objective_unknowns(const nsi_objective* objective);

// F and its gradient (unknowns); INFINITY as nsi_objective_cost().
double nsi_objective_gradient(nsi_objective* objective, double* gradient);

// How far the gradients of the windows can be trusted at the point (certificate.h).
typedef struct nsi_gradient_trust {
    uint32_t windows, unreliable;
    char reason[NS_GRADIENT_REASON_SIZE]; // of the first unreliable one
} nsi_gradient_trust;

// @return NS_OK, also where a gradient is not finite; NS_ERR_NOMEM; NS_ERR_NONFINITE: there is no cost
ns_status nsi_objective_certify(nsi_objective* objective, nsi_gradient_trust* out, ns_error* error);

// Move the point by a step (unknowns).
void nsi_objective_move(nsi_objective* objective, const double* step);

// ---- second order ------------------------------------------------------------------------------

// Normal equations and steps are of these parameters and weights only, n of them; NULL: of all again.
// `columns` are numbers of parameters, then of weights, and stay the caller's.
void nsi_objective_set_active(nsi_objective* objective, const uint32_t* columns, uint32_t count);

// Normal equations at the point. False as nsi_objective_cost() is infinite.
bool nsi_objective_linearise(nsi_objective* objective, double* value);

// The step for a damping; false when the matrix is not positive definite, or memory ran out.
// @param predicted  receives the decrease of the quadratic model without damping, and of the penalty, for
//                   this step
bool nsi_objective_solve(nsi_objective* objective, double damping, double* predicted);

// From now on linearising, solving and trying are those of F and N times a penalty on weights, of which
// offsets count from the first number that is fitted. What the options point to stays the caller's.
void nsi_objective_set_penalty(nsi_objective* objective, const ns_solver_options* options);

// For those who choose the step themselves: the matrix (n x n, lower triangle) and the right-hand side
// (n) of the last linearisation with initial states eliminated, and the sum of squares that the best initial
// states leave; n is the number of parameters and weights, or of those that are chosen. Only the states are
// damped.
// @return false when an initial state is not determined
bool nsi_objective_eliminate_states(nsi_objective* objective, double damping, double* S, double* b,
                                    double* squares);
// A step of the numbers (n), for nsi_objective_trial_cost(); initial states go along as they were damped in
// nsi_objective_eliminate_states().
void nsi_objective_set_step(nsi_objective* objective, const double* step);

// F at the point moved by the step; and go there.
double nsi_objective_trial_cost(nsi_objective* objective);
void nsi_objective_commit(nsi_objective* objective);

// Information about v (n x n) in the residuals at the point, everything else eliminated; without
// priors. Its numbers are those of residuals with a standard deviation of 1.
// @return false when the rest is singular
bool nsi_objective_information(nsi_objective* objective, double* information);

// Variances of coefficients of formulas among the weights (nw) for residuals with a standard deviation
// of 1: INFINITY for what is determined only together with others; NaN for one without effect, and for
// weights of networks.
// @return false when they cannot be computed
bool nsi_objective_coefficient_variances(nsi_objective* objective, double* variances);

// How often a point was refused because a link would not have been physical, and which one.
uint32_t nsi_objective_refused(const nsi_objective* objective, const char** link);

#endif
