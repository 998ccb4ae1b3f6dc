// Residuals of a callback with a dense Jacobian, as a problem for Levenberg-Marquardt: the normal
// equations H = J'J, g = J'r, damped by the diagonal of H as those of a fit are.

#include "solver/solvers.h"

#include <math.h>

// Of a step with a penalty. One that is not the exact minimum still goes down.
enum { INNER_ITERATIONS = 2000 };
static const double INNER_TOLERANCE = 1e-12;

// Residuals below this share of their terms are rounding errors.
static const double ROUNDING = 1e-14;

struct nsi_dense_problem {
    const ns_allocator* allocator;
    uint32_t n, m;
    ns_residual_function* residuals;
    void* context;
    ns_solver_options options; // of the penalty
    ns_variable_group all;
    bool penalised;

    double* x;            // (n) the caller's
    double *r, *J;        // (m), (m x n)
    double *H, *S, *g;    // (n x n), (n x n), (n)
    double *step, *trial; // (n)
    double* linear;       // (n) of the quadratic with a penalty
    double* memory;
};

// Half the sum of squares at x; INFINITY where there is none.
static double dense_cost(nsi_dense_problem* p, const double* x, double* jacobian) {
    if (!p->residuals(p->context, x, p->r, jacobian)) return INFINITY;
    double sum = 0.0;
    for (uint32_t k = 0; k < p->m; k++) sum += p->r[k] * p->r[k];
    if (p->penalised) return 0.5 * sum + nsi_penalty(&p->options, x);
    return 0.5 * sum;
}

static bool dense_linearise(void* context, double* cost) {
    nsi_dense_problem* p = context;
    *cost = dense_cost(p, p->x, p->J);
    if (!isfinite(*cost)) return false;

    memset(p->H, 0, (size_t)p->n * p->n * sizeof *p->H);
    memset(p->g, 0, p->n * sizeof *p->g);
    if (p->m > 0 && p->n > 0) nsi_dense_add_gram(p->m, p->n, p->J, p->n, p->H, 1);
    for (uint32_t k = 0; k < p->m; k++) {
        for (uint32_t i = 0; i < p->n; i++) p->g[i] += p->J[(size_t)k * p->n + i] * p->r[k];
    }
    // A derivative that is not finite shows in the diagonal.
    bool finite = true;
    for (uint32_t i = 0; i < p->n; i++) finite = finite && isfinite(p->H[(size_t)i * p->n + i]);
    return finite;
}

// The decrease -g's - 1/2 s'Hs of the quadratic without damping for the step s.
static double dense_decrease(const nsi_dense_problem* p) {
    double decrease = 0.0;
    for (uint32_t i = 0; i < p->n; i++) {
        const double* row = p->H + (size_t)i * p->n;
        double sum = p->g[i] + 0.5 * row[i] * p->step[i];
        for (uint32_t j = 0; j < i; j++) sum += row[j] * p->step[j];
        decrease -= sum * p->step[i];
    }
    return decrease;
}

// The step to the minimum of the damped quadratic and the penalty (Lee, Sun & Saunders 2014). In terms
// of y = x + step the model is 1/2 y'Sy + b'y, b = g - Sx.
static bool dense_solve_penalised(nsi_dense_problem* p, double max_diagonal, double* predicted) {
    uint32_t n = p->n;

    // Linear term of the model in x rather than in the step, because penalties act on x.
    for (uint32_t i = 0; i < n; i++) {
        p->linear[i] = p->g[i];
        for (uint32_t j = 0; j < n; j++) {
            // S holds the lower triangle only.
            p->linear[i] -= p->S[(size_t)(j < i ? i : j) * n + (j < i ? j : i)] * p->x[j];
        }
    }

    // Minimise model plus penalty by proximal steps from the current point.
    ns_solver_options options = p->options;
    options.max_iterations = INNER_ITERATIONS;
    options.tolerance = INNER_TOLERANCE;
    // 1 / largest diagonal is a safe first step: backtracking corrects it.
    options.step = max_diagonal > 0.0 ? 1.0 / max_diagonal : 1.0;
    memcpy(p->trial, p->x, n * sizeof *p->trial);
    if (!nsi_proximal_quadratic(n, p->S, p->linear, p->trial, &options)) return false;

    // The step relative to the current point.
    for (uint32_t i = 0; i < n; i++) p->step[i] = p->trial[i] - p->x[i];
    *predicted =
        nsi_penalty(&p->options, p->x) - nsi_penalty(&p->options, p->trial) + dense_decrease(p);
    return true;
}

static bool dense_solve(void* context, double damping, double* predicted) {
    nsi_dense_problem* p = context;
    uint32_t n = p->n;

    // Each variable is damped by its own diagonal (Marquardt 1963); one without effect stays.
    memcpy(p->S, p->H, (size_t)n * n * sizeof *p->S);
    double max_diagonal = 0.0;
    for (uint32_t i = 0; i < n; i++) max_diagonal = fmax(max_diagonal, p->H[(size_t)i * n + i]);
    double least = max_diagonal > 0.0 ? 1e-14 * max_diagonal : 1.0;
    for (uint32_t i = 0; i < n; i++) {
        double d = p->H[(size_t)i * n + i];
        p->S[(size_t)i * n + i] += damping * d + (d > least ? 0.0 : least);
    }
    if (p->penalised) return dense_solve_penalised(p, max_diagonal, predicted);

    for (uint32_t i = 0; i < n; i++) p->step[i] = -p->g[i];
    if (n > 0) {
        if (!nsi_dense_cholesky(n, p->S, 1)) return false;
        nsi_dense_cholesky_solve(n, p->S, 1, p->step);
    }
    *predicted = dense_decrease(p);
    return isfinite(*predicted);
}

static double dense_trial_cost(void* context) {
    nsi_dense_problem* p = context;
    for (uint32_t i = 0; i < p->n; i++) p->trial[i] = p->x[i] + p->step[i];
    return dense_cost(p, p->trial, NULL);
}

static void dense_commit(void* context) {
    nsi_dense_problem* p = context;
    memcpy(p->x, p->trial, p->n * sizeof *p->x);
}

ns_status nsi_dense_problem_create(const ns_solver_problem* problem,
                                   const ns_solver_options* options, nsi_dense_problem** out,
                                   ns_error* error) {
    // On failure the caller gets NULL.
    *out = NULL;

    // Validate the penalty before anything is allocated.
    ns_status status = nsi_penalty_check("lm", problem->n, options, error);
    if (status != NS_OK) return status;

    // Allocate residuals, Jacobian, matrices and vectors in one block.
    const ns_allocator* allocator = options->allocator;
    size_t n = problem->n, m = problem->m;
    nsi_dense_problem* p = nsi_alloc_zeroed(allocator, sizeof *p);
    double* memory = nsi_alloc(allocator, (m + m * n + 2 * n * n + 4 * n + 1) * sizeof *memory);
    if (!p || !memory) {
        nsi_free(allocator, p);
        nsi_free(allocator, memory);
        return nsi_fail_nomem(error);
    }

    // Without a penalty, steps are solved for by Cholesky factorisation alone.
    *p = (nsi_dense_problem){.allocator = allocator,
                             .n = problem->n,
                             .m = problem->m,
                             .residuals = problem->residuals,
                             .context = problem->context,
                             .penalised = options->l1 > 0.0 || options->group_lasso > 0.0,
                             .memory = memory};

    // Without groups in the options, the penalty applies to all unknowns.
    p->options = nsi_penalty_of_all(options, p->n, &p->all);

    // Partition the block.
    // Residuals and Jacobian.
    p->r = memory;
    p->J = p->r + m;
    // Gauss-Newton matrix, and the same with damping.
    p->H = p->J + m * n;
    p->S = p->H + n * n;
    // Gradient, step and trial point; the last vector serves the penalised model.
    p->g = p->S + n * n;
    p->step = p->g + n;
    p->trial = p->step + n;
    p->linear = p->trial + n;
    *out = p;
    return NS_OK;
}

void nsi_dense_problem_free(nsi_dense_problem* p) {
    if (!p) return;
    nsi_free(p->allocator, p->memory);
    nsi_free(p->allocator, p);
}

bool nsi_dense_problem_is_exact(const nsi_dense_problem* p, double cost) {
    double scale = 0.0; // of the terms that residuals are differences of, squared
    for (uint32_t i = 0; i < p->n; i++) scale += p->H[(size_t)i * p->n + i] * p->x[i] * p->x[i];
    return 2.0 * cost <= ROUNDING * ROUNDING * scale;
}

ns_gauss_newton nsi_dense_problem_at(nsi_dense_problem* p, double* x) {
    p->x = x;
    return (ns_gauss_newton){.context = p,
                             .linearise = dense_linearise,
                             .solve = dense_solve,
                             .trial_cost = dense_trial_cost,
                             .commit = dense_commit};
}
