/// @file solver.h
/// Minimise a function: least squares, gradient methods, sparse penalties, global searches. Part of
/// libneuralsim_fit; the README has the command that links it.
///
///     static bool rosenbrock(void* context, const double* x, double* r, double* jacobian) {
///         (void)context;
///         r[0] = 10.0 * (x[1] - x[0] * x[0]);
///         r[1] = 1.0 - x[0];
///         if (jacobian) {
///             jacobian[0] = -20.0 * x[0], jacobian[1] = 10.0;
///             jacobian[2] = -1.0, jacobian[3] = 0.0;
///         }
///         return true;
///     }
///
///     double x[2] = {-1.2, 1.0};
///     ns_solver_problem problem = {.n = 2, .m = 2, .residuals = rosenbrock};
///     ns_solver_result result;
///     ns_error error;
///     if (ns_minimise("lm", &problem, NULL, x, &result, &error) != NS_OK) puts(error.message);
///
/// Solvers see numbers, values and derivatives; they know nothing of robots. A fit runs the same
/// solvers on the residuals of its windows. Every solver
///   - is deterministic: the same problem gives the same bits at any number of threads;
///   - calls the observer after each iteration and stops when it returns true;
///   - treats a cost that is not finite as worse than any other and steps back.
///
/// A solver is a record (ns_solver). ns_solver_register() adds one from outside the library; it can
/// then be used by its name in ns_minimise() and as `method` of a fit's stage or search.

#ifndef NEURALSIM_SOLVER_H
#define NEURALSIM_SOLVER_H

#include <neuralsim/base.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- the problem -------------------------------------------------------------------------------

/// Cost at x (n), and its gradient (n) unless `gradient` is NULL. INFINITY or NaN: x has no cost. Called
/// from one thread at a time, except by basin_hopping and restart with options.threads above 1.
typedef double ns_cost_function(void* context, const double* x, double* gradient);

/// Residuals (m) at x (n), and their Jacobian (m x n, row-major) unless `jacobian` is NULL. The cost
/// is half the sum of their squares. False: x has no residuals; a number that is not finite says the
/// same. Threads: as ns_cost_function.
typedef bool ns_residual_function(void* context, const double* x, double* residuals,
                                  double* jacobian);

/// A least-squares problem that keeps its own point and solves its own normal equations, for those
/// with structure (a fit eliminates the initial states of its windows). Called in this order:
/// linearise, then solve and trial_cost for one damping after the other, then commit.
typedef struct ns_gauss_newton {
    void* context;
    /// Normal equations at the point; `cost` receives the cost there. False: there is none.
    bool (*linearise)(void* context, double* cost);
    /// The step for a damping; `predicted` receives the decrease of the linear model (and a penalty) for it.
    /// False: there is no such step, use more damping.
    bool (*solve)(void* context, double damping, double* predicted);
    /// Cost at the point moved by the step; INFINITY or NaN: there is none.
    double (*trial_cost)(void* context);
    /// Move the point by the step.
    void (*commit)(void* context);
} ns_gauss_newton;

/// Progress of a solver.
typedef struct ns_solver_progress {
    uint32_t iteration;   ///< since the beginning, from 1
    double value;         ///< best cost so far, with penalties; adam: cost of this iteration
    double gradient_norm; ///< NaN where it is not known
    const double* x;      ///< (n) the best point so far; adam: the current one. NULL: gauss_newton
} ns_solver_progress;

/// Called after each iteration; true: stop here.
typedef bool ns_solver_observer(void* context, const ns_solver_progress* progress);

/// A local search from x (n + carried), which receives where it ended; returns the cost there.
/// Called from several threads, each with its own `worker` number from 0.
typedef double ns_local_search(void* context, uint32_t worker, double* x);

/// What is minimised: `residuals` or `cost`; a solver that needs a cost takes it from the residuals.
/// A zeroed field is one that the problem does not have.
typedef struct ns_solver_problem {
    uint32_t n; ///< variables
    ns_cost_function* cost;
    uint32_t m; ///< residuals
    ns_residual_function* residuals;
    const ns_gauss_newton* gauss_newton; ///< in place of `residuals`; without l1 and group_lasso
    const double *lower, *upper;         ///< (n) the box of a global search; finite
    ns_local_search* local_search; ///< of basin_hopping and restart, in place of `cost`; see there
    uint32_t carried; ///< numbers behind the n of every point that `local_search` changes as well
    ns_solver_observer* observe;
    void* context; ///< of all functions but those of gauss_newton
} ns_solver_problem;

// ---- options -----------------------------------------------------------------------------------

/// Consecutive variables.
typedef struct ns_variable_group {
    uint32_t offset, count;
} ns_variable_group;

/// Options of all solvers; each one uses those that it names. A zeroed struct is the default. Where 0
/// means a default, a negative number means 0.
typedef struct ns_solver_options {
    uint32_t max_iterations; ///< 0: lm 50, lbfgs, owlqn and adam 1000, proximal 2000, basin_hopping
        ///< and restart 20 rounds, crs2, isres, esch and mlsl 10000 evaluations
    double tolerance; ///< stop when the cost falls by less than this share: in two steps of
                      ///< lm (0: 1e-9), in 10 iterations of lbfgs and owlqn (0: 1e-12) and
                      ///< proximal (0: 1e-10)
    double damping;   ///< lm: the first one. 0: 1e-2
    uint32_t memory;  ///< lbfgs, owlqn: pairs kept. 0: 30
    double gradient_tolerance; ///< lbfgs, owlqn: stop at |g| <= this * max(1, |x|). 0: 1e-12
    double step;               ///< proximal: the first one. 0: 1e-3

    double learning_rate;       ///< adam. 0: 1e-3
    double final_learning_rate; ///< adam: reached along half a cosine at max_iterations. 0:
                                ///< learning_rate / 100
    double beta1, beta2;        ///< adam: decay of the moments. 0: 0.9 and 0.999
    double epsilon;             ///< adam. 0: 1e-8
    double clip_norm;           ///< adam: longest gradient. 0: any

    /// Penalty of lm, owlqn (l1 only) and proximal, the sparse-group lasso (Simon, Friedman, Hastie &
    /// Tibshirani 2013): sum over groups of group_lasso sqrt(count) |x_g|_2 + l1 |x_g|_1. Groups are
    /// in order and do not overlap; variables in no group are free. NULL: one group of all variables.
    const ns_variable_group* groups;
    uint32_t ngroup;
    double l1, group_lasso;
    const double* factors; ///< (ngroup) of both, for each group; INFINITY: its variables become 0.
                           ///< NULL: all 1

    uint32_t population; ///< basin_hopping, restart: local searches per round, 0: 8; crs2, isres,
                         ///< esch, mlsl: 0: NLopt's choice
    uint32_t threads;    ///< basin_hopping, restart: local searches at a time; above 1, `cost` and
                         ///< `residuals` are called from several threads. 0: one per core with
                         ///< `local_search`, else 1
    double sigma;  ///< basin_hopping: standard deviation of hops, as a share of the box. 0: 0.2
    double target; ///< global searches: stop when the cost is at or below it. 0: none
    uint32_t
        patience; ///< basin_hopping, restart: stop after this many rounds without a lower cost.
                  ///< 0: never
    double
        seconds; ///< basin_hopping, restart: begin no round after this time. 0: any time. The result
                 ///< then depends on the machine
    uint64_t seed; ///< of random numbers
    const char*
        local; ///< basin_hopping, restart: solver of the local searches when the problem has no
               ///< `local_search`. NULL: lm for residuals, lbfgs for a cost
    const ns_allocator* allocator; ///< of the solver's memory; outlives it. NULL: the C library's
} ns_solver_options;

// ---- the result --------------------------------------------------------------------------------

/// Why a solver ended, and the word for it. A wrong gradient or Jacobian mostly ends as "failed"; lm with
/// gauss_newton calls a point converged when no step lowers the cost.
#define NS_FINISH_MAP(X)                                                                           \
    X(NS_FINISH_CONVERGED, "converged") /* small gradient, small step or no decrease */            \
    X(NS_FINISH_LIMIT, "limit")         /* of iterations, evaluations or time */                   \
    X(NS_FINISH_STOPPED, "stopped")     /* by the observer */                                      \
    X(NS_FINISH_FAILED, "failed")       /* no cost at the start, or no step lowers it */

typedef enum ns_finish {
#define NS_FINISH_ENUM(name, text) name,
    NS_FINISH_MAP(NS_FINISH_ENUM)
#undef NS_FINISH_ENUM
} ns_finish;

NS_API const char* ns_finish_text(ns_finish finish); ///< never NULL

typedef struct ns_solver_result {
    ns_finish finish;
    uint32_t iterations, evaluations; ///< of cost or residuals; basin_hopping: local searches
    double value;                     ///< cost at x, with penalties; INFINITY: there is none
} ns_solver_result;

/// Minimise a function.
///
///   lm             Levenberg-Marquardt (Levenberg 1944, Marquardt 1963): residuals
///   lbfgs          L-BFGS (Liu & Nocedal 1989): gradient
///   owlqn          L-BFGS with an L1 penalty (Andrew & Gao 2007): gradient
///   adam           Adam (Kingma & Ba 2015): gradient; the cost may look at other data each time
///   proximal       accelerated proximal gradient (Beck & Teboulle 2009): gradient; exact zeros
///   basin_hopping  rounds of local searches around the best points so far: box
///   restart        rounds of local searches from anywhere in the box: box
///   crs2, isres, esch, mlsl   NLopt's global searches: box; mlsl: gradient. One at a time in a process
///
/// @param solver   name of one of these or of a registered solver
/// @param options  NULL: defaults
/// @param x        (n + carried) the start, receives the best point; NULL when the problem has
///                 gauss_newton and the solver is lm
/// @return NS_OK, however the solver ended (see result->finish); NS_ERR_ARGUMENT: no such solver, with
///         the nearest name, the problem does not have what it needs, or an option is out of range;
///         NS_ERR_NOMEM
NS_API ns_status ns_minimise(const char* solver, const ns_solver_problem* problem,
                             const ns_solver_options* options, double* x, ns_solver_result* result,
                             ns_error* error);

// ---- solvers as records ------------------------------------------------------------------------

/// What a solver needs and can do.
enum {
    NS_SOLVER_LEAST_SQUARES = 1, ///< needs residuals or gauss_newton
    NS_SOLVER_GRADIENT = 2,      ///< asks for gradients
    NS_SOLVER_GLOBAL = 4,        ///< searches a box: for `search` of a fit, not for its stages
    NS_SOLVER_STARTS = 8,        ///< global, by local searches from many starts
    NS_SOLVER_L1 = 16,           ///< minimises the cost with options.l1
    NS_SOLVER_GROUPS = 32,       ///< minimises the cost with options.group_lasso and factors
    NS_SOLVER_STOCHASTIC =
        64 ///< works with a cost of other data in each iteration. It may end at a
           ///< worse point than it has seen: a fit keeps the best itself
};

/// A solver. `state` is what it keeps from one iteration to the next, besides x.
typedef struct ns_solver {
    const char* name;      ///< "lbfgs": in files and calls
    const char* title;     ///< "L-BFGS": in reports
    const char* help;      ///< one line
    uint32_t capabilities; ///< NS_SOLVER_...
    uint32_t round;        ///< a fit calls step() for at most so many iterations, then looks at its
                           ///< observer and may write a checkpoint. 0: 1; UINT32_MAX: all at once
    uint32_t max_iterations; ///< the default

    /// Validate the options and make a state. Problem, options and what they point to outlive it; the
    /// problem's cost is set unless the solver has LEAST_SQUARES or STARTS. max_iterations is set.
    ns_status (*create)(const ns_solver_problem* problem, const ns_solver_options* options,
                        void** state, ns_error* error);

    /// Do at most so many iterations (1 or more) from x. Call the problem's observer, if it has one,
    /// after each, and end with NS_FINISH_STOPPED when it returns true. `result` is of this call
    /// alone; NS_FINISH_LIMIT says that there is more to do.
    ns_status (*step)(void* state, double* x, uint32_t iterations, ns_solver_result* result,
                      ns_error* error);

    /// The state between steps as numbers, for checkpoints: with them and x another state goes on to
    /// the same bits. All NULL: a fit that is resumed goes on from x with a new state.
    uint32_t (*state_size)(const void* state);
    void (*save)(const void* state, double* numbers); ///< (state_size)
    void (*load)(void* state, const double* numbers); ///< (state_size)
    void (*free)(void* state);                        ///< NULL is allowed
} ns_solver;

/// Add a solver for all threads of the process. The record and its texts stay the caller's and must
/// live as long as the library is used.
/// @return NS_OK; NS_ERR_ARGUMENT: create, step, free or the name is missing, or there is another
///         solver of this name; NS_ERR_LIMIT: there are too many
NS_API ns_status ns_solver_register(const ns_solver* solver, ns_error* error);

/// The solver of a name; NULL: there is none.
NS_API const ns_solver* ns_solver_find(const char* name);

/// All solvers in order, the library's own first; NULL: past the last one.
NS_API const ns_solver* ns_solver_at(uint32_t number);

#ifdef __cplusplus
}
#endif

#endif
