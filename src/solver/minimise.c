// ns_minimise: any solver on any problem. Checks what the solver needs; makes a cost from residuals.

#include "solver/solvers.h"

#include <math.h>

// ---- cost from residuals -----------------------------------------------------------------------

typedef struct residual_cost {
    const ns_solver_problem* problem;
    double *r, *J; // (m), (m x n)
} residual_cost;

static double cost_of_residuals(void* context, const double* x, double* gradient) {
    residual_cost* c = context;
    const ns_solver_problem* p = c->problem;
    if (!p->residuals(p->context, x, c->r, gradient ? c->J : NULL)) return INFINITY;
    double sum = 0.0;
    for (uint32_t k = 0; k < p->m; k++) sum += c->r[k] * c->r[k];
    if (gradient) memset(gradient, 0, p->n * sizeof *gradient);
    for (uint32_t k = 0; gradient && k < p->m; k++) {
        for (uint32_t i = 0; i < p->n; i++) gradient[i] += c->J[(size_t)k * p->n + i] * c->r[k];
    }
    return 0.5 * sum;
}

static bool observe_residuals(void* context, const ns_solver_progress* progress) {
    const ns_solver_problem* p = ((residual_cost*)context)->problem;
    return p->observe(p->context, progress);
}

// ---- running -----------------------------------------------------------------------------------

ns_status nsi_solver_check_box(const char* solver, const ns_solver_problem* problem,
                               ns_error* error) {
    for (uint32_t i = 0; i < problem->n; i++) {
        double lower = problem->lower[i], upper = problem->upper[i];
        if (isfinite(upper - lower) && lower <= upper) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "%s: the box is from %g to %g in coordinate %u; it must be finite and not"
                        " empty",
                        solver, lower, upper, i);
    }
    return NS_OK;
}

ns_status nsi_solver_check_problem(const ns_solver* solver, const ns_solver_problem* p,
                                   const ns_solver_options* o, const double* x, ns_error* error) {
    const char* missing = NULL;
    bool least_squares = solver->capabilities & NS_SOLVER_LEAST_SQUARES;
    bool starts = solver->capabilities & NS_SOLVER_STARTS;
    if (least_squares) {
        if (!p->residuals && !p->gauss_newton) missing = "residuals";
    } else if (!p->cost && !p->residuals && !(starts && p->local_search)) {
        missing = "a cost";
    }
    if ((solver->capabilities & NS_SOLVER_GLOBAL) && !(p->lower && p->upper)) missing = "a box";
    if (!x && !(least_squares && p->gauss_newton)) missing = "a start";
    if (missing) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "%s: the problem needs %s", solver->name, missing);
    }
    if (o->l1 != 0.0 && !(solver->capabilities & NS_SOLVER_L1)) missing = "l1";
    if (o->group_lasso != 0.0 && !(solver->capabilities & NS_SOLVER_GROUPS)) {
        missing = "group_lasso";
    }
    if (!missing) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "%s: this solver has no %s", solver->name, missing);
}

static ns_status solve_whole(const ns_solver* solver, const ns_solver_problem* problem,
                             const ns_solver_options* options, double* x, ns_solver_result* result,
                             ns_error* error) {
    void* state = NULL;
    ns_status status = solver->create(problem, options, &state, error);
    if (status != NS_OK) return status;
    status = solver->step(state, x, options->max_iterations, result, error);
    solver->free(state);
    return status;
}

ns_status nsi_minimise(const ns_solver* solver, const ns_solver_problem* problem,
                       const ns_solver_options* options, double* x, ns_solver_result* result,
                       ns_error* error) {
    ns_solver_options o = options ? *options : (ns_solver_options){0};
    if (o.max_iterations == 0) o.max_iterations = solver->max_iterations;
    if (o.max_iterations == 0) o.max_iterations = 1000;
    *result = (ns_solver_result){.finish = NS_FINISH_FAILED, .value = INFINITY};
    ns_status status = nsi_solver_check_problem(solver, problem, &o, x, error);
    if (status != NS_OK) return status;

    // Searches from many starts hand the residuals on to the local solver of each thread.
    const uint32_t direct = NS_SOLVER_LEAST_SQUARES | NS_SOLVER_STARTS;
    if (problem->cost || (solver->capabilities & direct)) {
        return solve_whole(solver, problem, &o, x, result, error);
    }
    size_t m = problem->m, n = problem->n;
    residual_cost c = {.problem = problem,
                       .r = nsi_alloc(o.allocator, (m + m * n) * sizeof(double))};
    if (!c.r) return nsi_fail_nomem(error);
    c.J = c.r + m;
    ns_solver_problem adapted = *problem;
    adapted.cost = cost_of_residuals;
    adapted.observe = problem->observe ? observe_residuals : NULL;
    adapted.context = &c;
    status = solve_whole(solver, &adapted, &o, x, result, error);
    nsi_free(o.allocator, c.r);
    return status;
}

ns_status ns_minimise(const char* solver, const ns_solver_problem* problem,
                      const ns_solver_options* options, double* x, ns_solver_result* result,
                      ns_error* error) {
    if (!solver || !problem || !result) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_minimise: solver, problem and result must not be NULL");
    }
    ns_error why;
    const ns_solver* record = nsi_solver_choose(solver, 0, 0, &why);
    if (!record) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_minimise: %s", why.message);

    // A problem that solves its own normal equations knows nothing of penalties in the options.
    bool penalised = options && (options->l1 != 0.0 || options->group_lasso != 0.0);
    if (penalised && problem->gauss_newton && record == &nsi_solver_lm) {
        return nsi_fail(
            error, NS_ERR_ARGUMENT,
            "ns_minimise: gauss_newton has no l1 or group_lasso; use `residuals`, or put"
            " the penalty into its cost and normal equations");
    }
    return nsi_minimise(record, problem, options, x, result, error);
}

const char* ns_finish_text(ns_finish finish) {
    switch (finish) {
#define FINISH_TEXT(name, text)                                                                    \
    case name: return text;
        NS_FINISH_MAP(FINISH_TEXT)
#undef FINISH_TEXT
    }
    return "unknown";
}
