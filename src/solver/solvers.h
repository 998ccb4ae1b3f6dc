// Internals of the solvers: records, shared helpers and dense linear algebra.

#ifndef NSI_SOLVER_SOLVERS_H
#define NSI_SOLVER_SOLVERS_H

#include "base/common.h"
#include "neuralsim/posterior.h"
#include "neuralsim/random.h"
#include "neuralsim/solver.h"

// ---- solver_table.c ----------------------------------------------------------------------------

// The library's own solvers: one file defines the record, one line here adds it.
#define NSI_SOLVER_MAP(X)                                                                          \
    X(nsi_solver_lm)                                                                               \
    X(nsi_solver_lbfgs)                                                                            \
    X(nsi_solver_owlqn)                                                                            \
    X(nsi_solver_adam)                                                                             \
    X(nsi_solver_proximal)                                                                         \
    X(nsi_solver_basin_hopping)                                                                    \
    X(nsi_solver_restart)                                                                          \
    X(nsi_solver_crs2)                                                                             \
    X(nsi_solver_isres)                                                                            \
    X(nsi_solver_esch)                                                                             \
    X(nsi_solver_mlsl)

#define NSI_SOLVER_EXTERN(record) extern const ns_solver record;
NSI_SOLVER_MAP(NSI_SOLVER_EXTERN)
#undef NSI_SOLVER_EXTERN

// The solver of a name that has all of `needed` and none of `excluded`; NULL: `error` says which names
// there are, or the nearest one.
const ns_solver* nsi_solver_choose(const char* name, uint32_t needed, uint32_t excluded,
                                   ns_error* error);

// For reports; the name of one without a title.
static inline const char* nsi_solver_title(const ns_solver* solver) {
    return solver->title ? solver->title : solver->name;
}

// "lm, owlqn or proximal": names of the solvers that have all of `needed`.
void nsi_solver_list(uint32_t needed, uint32_t excluded, char* text, size_t size);

// ---- minimise.c --------------------------------------------------------------------------------

// ns_minimise() with a record.
ns_status nsi_minimise(const ns_solver* solver, const ns_solver_problem* problem,
                       const ns_solver_options* options, double* x, ns_solver_result* result,
                       ns_error* error);

// An option for which 0 means its default and a negative number 0.
static inline double nsi_option(double value, double otherwise) {
    return value == 0.0 ? otherwise : value < 0.0 ? 0.0 : value;
}

// A count from a checkpoint, whose numbers may be anything: those out of range become the nearest count.
static inline uint32_t nsi_saved_count(double number) {
    if (!(number > 0.0)) return 0;
    return number < (double)UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

// Does the problem have what the solver needs, and the solver what the options ask for?
ns_status nsi_solver_check_problem(const ns_solver* solver, const ns_solver_problem* problem,
                                   const ns_solver_options* options, const double* x,
                                   ns_error* error);

// Is this a box: finite and not empty?
ns_status nsi_solver_check_box(const char* solver, const ns_solver_problem* problem,
                               ns_error* error);

// ---- basin_hopping.c ---------------------------------------------------------------------------

// How many threads these options lead to: at least 1.
uint32_t nsi_solver_threads(const ns_solver_options* options);

// ---- lm.c --------------------------------------------------------------------------------------

// Levenberg-Marquardt from the point of `problem`, in memory of its own: cannot fail.
ns_solver_result nsi_lm(const ns_gauss_newton* problem, const ns_solver_options* options,
                        ns_solver_observer* observe, void* context);

// ---- dense_least_squares.c ---------------------------------------------------------------------

// Residuals from a callback as a Gauss-Newton problem, with a dense Jacobian.
typedef struct nsi_dense_problem nsi_dense_problem;
ns_status nsi_dense_problem_create(const ns_solver_problem* problem,
                                   const ns_solver_options* options, nsi_dense_problem** out,
                                   ns_error* error);
void nsi_dense_problem_free(nsi_dense_problem* problem); // NULL is allowed

// Its point is the caller's x (n) from now on.
ns_gauss_newton nsi_dense_problem_at(nsi_dense_problem* problem, double* x);

// Is a cost at the point no more than the rounding errors of residuals there?
bool nsi_dense_problem_is_exact(const nsi_dense_problem* problem, double cost);

// ---- proximal.c --------------------------------------------------------------------------------

// Validate l1, group_lasso and groups.
ns_status nsi_penalty_check(const char* solver, uint32_t n, const ns_solver_options* options,
                            ns_error* error);

// The options with `all` in place of groups that are NULL.
ns_solver_options nsi_penalty_of_all(const ns_solver_options* options, uint32_t n,
                                     ns_variable_group* all);

// The penalty at x; INFINITY when a variable is not 0 whose group has an infinite factor. Without groups
// there is none.
double nsi_penalty(const ns_solver_options* options, const double* x);

// Minimise 1/2 x'Ax + b'x and the penalty by the proximal solver, A (n x n) positive definite with its
// lower triangle given: x is where to start, and receives the best point found.
bool nsi_proximal_quadratic(uint32_t n, const double* A, const double* b, double* x,
                            const ns_solver_options* options);

// ---- laplace.c -----------------------------------------------------------------------------------

// ns_laplace_find() by one of several workers.
// @param close_enough  squared length of a Newton step, in standard deviations, that ends the search
ns_status nsi_laplace_search(const ns_density* density, uint32_t worker, double close_enough,
                             const double* start, const double* scale, ns_laplace** out,
                             ns_error* error);

// ---- hmc.c ---------------------------------------------------------------------------------------

// Zeroed samples; NULL when out of memory.
ns_samples* nsi_samples_create(uint32_t n, uint32_t chains, uint32_t count);

// Random numbers of a chain, which differ from those of all others.
ns_rng nsi_chain_rng(uint64_t seed, uint32_t chain);

// ---- linear_algebra.c: BLAS and LAPACK ---------------------------------------------------------
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

// Minimise 1/2 x'Sx - r'x within bounds that enclose 0, or lie on it. Where rounding keeps the last bounds from
// settling, x is lower than 0 all the same.
// @param S        (n x n) positive definite; the lower triangle is read
// @param scratch  n^2 + n numbers
// @param numbers  (n) scratch
// @return false when S is not positive definite
bool nsi_box_quadratic(uint32_t n, const double* S, const double* r, const double* lower,
                       const double* upper, uint32_t threads, double* x, double* scratch,
                       uint32_t* numbers);
// Eigenvalues (ascending) and vectors (row k belongs to value k) of a symmetric matrix (lower
// triangle), which is overwritten. False when LAPACK did not converge or had no memory, or when a
// number is NaN.
bool nsi_dense_eigen(uint32_t n, double* A, double* values, double* vectors);

#endif
