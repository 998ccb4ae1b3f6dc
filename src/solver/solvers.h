// Optimisers. They see numbers, values and derivatives, and nothing of robots.
//
// Every one of them
//   - is deterministic: the same problem gives the same bits, at any number of threads;
//   - asks `stop` once per iteration and then returns with the best point it has;
//   - takes a value that is not finite for "worse than anything" and goes back.

#ifndef NSI_SOLVER_SOLVERS_H
#define NSI_SOLVER_SOLVERS_H

#include "base/common.h"

// Value and gradient at x; `gradient` may be NULL. INFINITY or NaN where there is no value.
typedef double nsi_cost_function(void* context, const double* x, double* gradient);

// Asked after each iteration with the best point so far; true: stop here.
typedef struct nsi_progress {
    uint32_t iteration;
    double value;         // best so far
    double gradient_norm; // NaN where there is none
    const double* x;      // best so far
} nsi_progress;
typedef bool nsi_observer(void* context, const nsi_progress* progress);

typedef enum nsi_finish {
    NSI_FINISH_CONVERGED, // small gradient, small step or no decrease
    NSI_FINISH_ITERATIONS,
    NSI_FINISH_STOPPED, // the observer said so
    NSI_FINISH_FAILED   // no value at the start, or no way down was found
} nsi_finish;

typedef struct nsi_outcome {
    nsi_finish finish;
    uint32_t iterations, evaluations;
    double value;
} nsi_outcome;

// ---- lbfgs.c: liblbfgs -----------------------------------------------------------------------

typedef struct nsi_lbfgs_options {
    uint32_t memory;           // pairs kept. Default 30
    uint32_t max_iterations;   // default 1000
    double gradient_tolerance; // |g| <= this * max(1, |x|). Default 1e-12
    double decrease_tolerance; // stop when 10 iterations lower the value by less than this share.
                               // Default 1e-12
    double l1;                 // OWL-QN: l1 * sum |x_i| is added for l1_start <= i < l1_end; the
    uint32_t l1_start, l1_end; // value reported includes it. Default 0: plain L-BFGS
} nsi_lbfgs_options;

nsi_lbfgs_options nsi_default_lbfgs_options(void);

// @param x  (n) start, receives the best point
// @return NS_OK, NS_ERR_ARGUMENT for options out of range, NS_ERR_NOMEM; so for the others, too
ns_status nsi_lbfgs(uint32_t n, double* x, nsi_cost_function* objective, nsi_observer* observe,
                    void* context, const nsi_lbfgs_options* options, nsi_outcome* out,
                    ns_error* error);

// ---- adam.c: Kingma & Ba 2015 ----------------------------------------------------------------

typedef struct nsi_adam_options {
    double rate;         // default 1e-3
    double final_rate;   // cosine from `rate` to this over max_iterations. Default -1: rate / 100
    double beta1, beta2; // 0.9, 0.999
    double epsilon;      // 1e-8
    double clip;         // longest gradient, 0: any. Default 0
    uint32_t max_iterations; // default 1000
} nsi_adam_options;

nsi_adam_options nsi_default_adam_options(void);

// All that goes on from iteration to iteration, so that a run can be stored and continued: memory
// of the caller.
typedef struct nsi_adam_state {
    uint32_t iteration;
    double *m, *v; // (n) zero at first
} nsi_adam_state;

// `objective` may look at other data in each iteration. Goes from state->iteration to
// max_iterations; what it reports is the value of the iteration, x the current point. Where there
// is no value, the last step is taken back and the momentum lost.
ns_status nsi_adam(uint32_t n, double* x, nsi_adam_state* state, nsi_cost_function* objective,
                   nsi_observer* observe, void* context, const nsi_adam_options* options,
                   nsi_outcome* out, ns_error* error);

// ---- proximal.c: sparse-group lasso ----------------------------------------------------------

// Penalty  sum_g lambda sqrt(|g|) |x_g|_2 + l1 sum_g |x_g|_1 (Simon, Friedman, Hastie & Tibshirani
// 2013) over groups of consecutive numbers, which are in order and do not overlap. Numbers in no
// group are free.
typedef struct nsi_group {
    uint32_t offset, count;
} nsi_group;

typedef struct nsi_proximal_options {
    const nsi_group* groups;
    uint32_t ngroup;
    double group, l1;        // lambda, kappa
    const double* factors;   // (ngroup) of both, for each group; INFINITY: its numbers become 0.
                             // Default NULL: all 1
    double step;             // first one. Default 1e-3; found by backtracking
    uint32_t max_iterations; // default 2000
    double tolerance;        // of the decrease over 10 iterations, relative. Default 1e-10
} nsi_proximal_options;

nsi_proximal_options nsi_default_proximal_options(void);

// Monotone accelerated proximal gradient (Beck & Teboulle 2009) with backtracking. Exact zeros. The
// value reported includes the penalty.
ns_status nsi_proximal(uint32_t n, double* x, nsi_cost_function* objective, nsi_observer* observe,
                       void* context, const nsi_proximal_options* options, nsi_outcome* out,
                       ns_error* error);

// The penalty at x; INFINITY when a number is not 0 whose group has an infinite factor.
double nsi_proximal_penalty(const nsi_proximal_options* options, const double* x);

// The same for 1/2 x'Ax + b'x and the penalty, A (n x n) positive definite with its lower triangle
// given: x is where to start, and receives the best point found.
bool nsi_proximal_quadratic(uint32_t n, const double* A, const double* b, double* x,
                            const nsi_proximal_options* options);

// ---- hop.c: many local searches --------------------------------------------------------------

typedef enum nsi_basin_hopping_method {
    NSI_BASIN_HOPPING_MUTATE, // parallel basin hopping: after each round all start around the best points
                              // found so far, combined and mutated (NeuralSim, section III-B)
    NSI_BASIN_HOPPING_RESTART // each starts anywhere in the box (its workshop version)
} nsi_basin_hopping_method;

typedef struct nsi_basin_hopping_options {
    nsi_basin_hopping_method method;
    uint32_t
        population; // local searches per round: fixed by the problem, not by the machine. Default 8
    uint32_t rounds;   // at most. Default 20
    uint32_t threads;  // 0: one per core
    double sigma;      // mutation, in shares of the box. Default 0.2
    double target;     // stop when a value is at or below it. Default -INFINITY
    uint32_t patience; // stop after this many rounds without a lower value. Default 0: never
    double seconds;    // stop after the round in which this time is over; 0: never. How far the
                       // search comes then depends on the machine
    uint32_t
        carried; // numbers behind the n of every point that go along with it: a start takes those
                 // of its parent, or of the best point. Default 0
    uint64_t seed;
} nsi_basin_hopping_options;

nsi_basin_hopping_options nsi_default_basin_hopping_options(void);

// How many threads these options lead to: no more than there are searches in a round.
uint32_t nsi_basin_hopping_threads(const nsi_basin_hopping_options* options);

// A local search from x (n + carried), which receives where it ended; returns the value there. Called from
// several threads, each with its own `worker` (0 .. nsi_basin_hopping_threads() - 1).
typedef double nsi_local_search(void* context, uint32_t worker, double* x);

// Where a run stands after a round: all that it needs to go on. Memory of the caller.
typedef struct nsi_basin_hopping_state {
    uint32_t round;      // done so far
    uint32_t stale;      // rounds without a lower value
    uint32_t searches;   // local searches so far
    double value;        // the best
    double* x;           // (n + carried) the best
    double* elite;       // (population x (n + carried)) best points so far, the best first
    double* elite_value; // (population) INFINITY: none yet
} nsi_basin_hopping_state;

// Called after each round by one thread; true: stop.
typedef bool nsi_basin_hopping_observer(void* context, const nsi_basin_hopping_state* state);

// Starts from state->x when state->round is 0: the first search starts there, the others around it
// (MUTATE) or in the box (RESTART). The random numbers of a search depend on seed, round and its
// number in the round only. Goes on from any state the observer was shown as if it had not stopped.
// When rounds find nothing lower, hops get longer and a quarter of the searches start anywhere.
// @param lower, upper  (n) the box, finite; every start lies in it
ns_status nsi_basin_hopping(uint32_t n, const double* lower, const double* upper,
                            nsi_basin_hopping_state* state, nsi_local_search* local,
                            nsi_basin_hopping_observer* observe, void* context,
                            const nsi_basin_hopping_options* options, nsi_outcome* out,
                            ns_error* error);

// ---- population.c: NLopt ---------------------------------------------------------------------

typedef enum nsi_population_method {
    NSI_POPULATION_CRS2,
    NSI_POPULATION_ISRES,
    NSI_POPULATION_ESCH,
    NSI_POPULATION_MLSL // with low-discrepancy starts and L-BFGS
} nsi_population_method;

typedef struct nsi_population_options {
    nsi_population_method method;
    uint32_t max_evaluations; // default 10000
    double target;            // default -INFINITY
    uint32_t population;      // 0: NLopt's choice
    uint64_t seed;
} nsi_population_options;

nsi_population_options nsi_default_population_options(void);

// Starts from x, moved into the box, which receives the best point. An iteration is an evaluation;
// only MLSL asks for gradients. NLopt's random numbers are a global: of several calls at a time one
// runs and the others wait, so an objective must not call it.
ns_status nsi_population(uint32_t n, const double* lower, const double* upper, double* x,
                         nsi_cost_function* objective, nsi_observer* observe, void* context,
                         const nsi_population_options* options, nsi_outcome* out, ns_error* error);

// ---- dense.c: BLAS and LAPACK ----------------------------------------------------------------
// Matrices are row-major. BLAS works in one thread; where there is enough to do, we share out parts
// whose bits do not depend on who computes them. Safe to call from several threads at a time: with
// an OpenBLAS built without threads, which is not, calls wait for each other. So BLAS must not be
// called from anywhere else.

// Lower triangle of H (n x n) += J' J for J (m x n, rows `stride` apart). `threads` 0: one per
// core.
void nsi_dense_add_gram(uint32_t m, uint32_t n, const double* J, size_t stride, double* H,
                        uint32_t threads);
// Lower triangle of A (n x n) to its Cholesky factor, the same at any number of threads; false when it
// is not positive definite.
bool nsi_dense_cholesky(uint32_t n, double* A, uint32_t threads);
// Solve with the factor, for `count` right-hand sides (n x count, row-major), in place.
void nsi_dense_cholesky_solve(uint32_t n, const double* L, uint32_t count, double* b);
// Eigenvalues (ascending) and vectors (row k belongs to value k) of a symmetric matrix (lower
// triangle), which is overwritten. False when LAPACK did not converge or had no memory, or when a
// number is NaN.
bool nsi_dense_eigen(uint32_t n, double* A, double* values, double* vectors);

#endif
