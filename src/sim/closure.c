// Moving states onto equality constraints by Newton's method; each step is a program.

#include "neuralsim/closure.h"

#include "sim/equality_step.h"
#include "sim/system.h"

#include <stdio.h>

struct ns_closure {
    const ns_system* system;
    uint32_t nq, nv, n; // coordinates, velocities, equations
    const ns_program*
        program; // in: q, qd, free parameters; out: the same state moved, violations, J; or NULL
    double *in, *out, *x, *defaults;
    void* work;
};

enum { MAX_NEWTON_STEPS = 60 };

// Newton's method ends where rounding does, for lengths and angles of order 1.
static const double CLOSED = 1e-13, CLOSE_ENOUGH = 1e-10;

// ---- the program ---------------------------------------------------------------------------------

static void name_ports(const char* prefix, uint32_t count, ns_expr* x, bool outputs) {
    char name[32];
    for (uint32_t k = 0; k < count; k++) {
        snprintf(name, sizeof name, "%s%u", prefix, k);
        if (outputs) {
            ns_output(name, x[k]);
        } else {
            x[k] = ns_input(name);
        }
    }
}

// One step from a state, in the current graph.
static void trace_newton_step(const ns_system* system, ns_graph* graph) {
    const ns_model* m = system->model;
    nsi_step_options options = {.timestep = INFINITY}; // takes all of a violation away
    nsi_robot robot;
    nsi_equality rows;
    nsi_stepper s = {.model = m, .options = &options, .graph = graph, .first = &robot};
    ns_expr *q = nsi_step_expressions(&s, m->sizes.nq), *qd = nsi_step_expressions(&s, m->sizes.nv);
    ns_expr* param = nsi_step_expressions(&s, m->sizes.nparam);
    if (graph->error.status != NS_OK) return;

    // Inputs: parameters in the order of the system's free ones, which is that of the registry.
    name_ports("q", m->sizes.nq, q, false);
    name_ports("qd", m->sizes.nv, qd, false);
    for (uint32_t k = 0; k < m->sizes.nparam; k++) param[k] = ns_const(system->params[k]);
    for (uint32_t k = 0; k < system->sizes.np; k++) {
        param[system->free_param[k]] = ns_input(m->params[system->free_param[k]].name);
    }

    // The violation where it begins, and the step.
    if (!nsi_robot_init(&robot, m, param, q, qd) || !nsi_equality_rows(&robot, &rows)) return;
    nsi_equality_project_state(&s, q, qd);
    if (graph->error.status != NS_OK) return;
    name_ports("q", m->sizes.nq, q, true);
    name_ports("qd", m->sizes.nv, qd, true);
    name_ports("violation", rows.n, rows.phi, true);
    name_ports("J", rows.n * rows.nv, rows.J, true);
}

static ns_status build_newton_step(ns_closure* c, ns_error* error) {
    ns_graph* graph = NULL;
    ns_program* program = NULL;
    ns_status status = ns_graph_create(&c->system->allocator, &graph, error);
    if (status == NS_OK) status = ns_trace_begin(graph, error);
    if (status == NS_OK) {
        trace_newton_step(c->system, graph);
        ns_trace_end(NULL);
        status = nsi_graph_finish(&graph, error);
    }
    ns_program_options options = {.backend = NS_BACKEND_INTERP, .lanes = 1};
    if (status == NS_OK) status = ns_program_build(graph, &options, &program, error);
    c->program = program;
    ns_graph_free(graph);
    return status;
}

ns_status ns_closure_create(const ns_system* system, ns_closure** out, ns_error* error) {
    if (!system || !out || !system->model) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_closure_create: an argument is NULL, or the system is of no robot");
    }
    *out = NULL;
    ns_closure* c = nsi_alloc_zeroed(&system->allocator, sizeof *c);
    if (!c) return nsi_fail_nomem(error);
    const ns_model_sizes* z = &system->model->sizes;
    *c = (ns_closure){
        .system = system, .nq = z->nq, .nv = z->nv, .n = nsi_equality_count(system->model)};

    // Nothing to compute without constraints.
    ns_status status = c->n > 0 ? build_newton_step(c, error) : NS_OK;
    if (status == NS_OK && c->n > 0) {
        uint32_t nx = c->nq + c->nv, np = system->sizes.np;
        c->in = nsi_alloc_zeroed(&system->allocator,
                                 ((size_t)3 * nx + 2 * np + c->n * (1 + (size_t)c->nv)) *
                                     sizeof *c->in);
        c->work = nsi_alloc_zeroed(&system->allocator, ns_program_work_size(c->program));
        if (!c->in || !c->work) status = nsi_fail_nomem(error);
        if (c->in) {
            c->defaults = c->in + nx + np;
            c->out = c->defaults + np;
            c->x = c->out + nx + c->n * (1 + (size_t)c->nv);
            ns_system_default_params(system, c->defaults);
        }
    }
    if (status != NS_OK) {
        ns_closure_free(c);
        return status;
    }
    *out = c;
    return NS_OK;
}

void ns_closure_free(ns_closure* closure) {
    if (!closure) return;
    ns_allocator memory = closure->system->allocator;
    ns_program_free((ns_program*)closure->program);
    nsi_free(&memory, closure->in);
    nsi_free(&memory, closure->work);
    nsi_free(&memory, closure);
}

// ---- states --------------------------------------------------------------------------------------

// Run one step from x (nq + nv); returns the largest violation there, infinite when it is not finite.
static double run_newton_step(ns_closure* c, const double* params, const double* x,
                              uint32_t* constraint) {
    uint32_t nx = c->nq + c->nv, np = c->system->sizes.np;
    memcpy(c->in, x, nx * sizeof *x);
    if (np > 0) memcpy(c->in + nx, params ? params : c->defaults, np * sizeof *params);
    ns_program_run(c->program, &(ns_run){.in = c->in, .out = c->out, .work = c->work});

    const ns_model* m = c->system->model;
    double worst = 0.0;
    uint32_t most = 0;
    for (uint32_t i = 0, row = 0; i < m->sizes.nequality; i++) {
        for (uint32_t k = ns_model_equality_rows(m, i); k > 0; k--) {
            double violation = fabs(c->out[nx + row++]);
            if (!(violation <= DBL_MAX)) violation = INFINITY;
            if (violation > worst) worst = violation, most = i;
        }
    }
    if (constraint) *constraint = most;
    return worst;
}

double ns_closure_violation(ns_closure* closure, const double* params, const double* x,
                            uint32_t* constraint) {
    if (constraint) *constraint = UINT32_MAX;
    if (!closure || closure->n == 0 || !x) return 0.0;
    return run_newton_step(closure, params, x, constraint);
}

// Rank of A (rows x columns, row-major), which is overwritten, by elimination with complete pivoting.
static uint32_t find_rank(double* A, uint32_t rows, uint32_t columns) {
    const double independent = 1e-9; // of the largest number
    double first = 0.0;
    for (uint32_t rank = 0; rank < rows && rank < columns; rank++) {
        // The largest number that is left.
        uint32_t row = rank, column = rank;
        for (uint32_t i = rank; i < rows; i++) {
            for (uint32_t j = rank; j < columns; j++) {
                if (fabs(A[i * columns + j]) > fabs(A[row * columns + column])) row = i, column = j;
            }
        }
        double pivot = A[row * columns + column];
        if (rank == 0) first = fabs(pivot);
        if (!(fabs(pivot) > independent * first)) return rank;

        // Swap it to the diagonal, and take its row off those below.
        for (uint32_t j = 0; j < columns; j++) {
            double swapped = A[rank * columns + j];
            A[rank * columns + j] = A[row * columns + j];
            A[row * columns + j] = swapped;
        }
        for (uint32_t i = 0; i < rows; i++) {
            double swapped = A[i * columns + rank];
            A[i * columns + rank] = A[i * columns + column];
            A[i * columns + column] = swapped;
        }
        for (uint32_t i = rank + 1; i < rows; i++) {
            double share = A[i * columns + rank] / pivot;
            for (uint32_t j = rank; j < columns; j++) {
                A[i * columns + j] -= share * A[rank * columns + j];
            }
        }
    }
    return rows < columns ? rows : columns;
}

uint32_t ns_closure_freedom(ns_closure* closure, const double* params, const double* x) {
    if (!closure || !x) return 0;
    if (closure->n == 0) return closure->system->model->sizes.nv;
    run_newton_step(closure, params, x, NULL);
    double* J = closure->out + closure->nq + closure->nv + closure->n;
    return closure->nv - find_rank(J, closure->n, closure->nv);
}

ns_status ns_closure_close(ns_closure* closure, const double* params, double* x, ns_error* error) {
    if (!closure || !x) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_closure_close: an argument is NULL");
    }
    ns_closure* c = closure;
    if (c->n == 0) return NS_OK;
    uint32_t nx = c->nq + c->nv, constraint = 0;
    double violation = INFINITY;
    memcpy(c->x, x, nx * sizeof *x);
    for (int k = 0; k < MAX_NEWTON_STEPS; k++) {
        violation = run_newton_step(c, params, c->x, &constraint);
        if (!isfinite(violation)) break;
        memcpy(c->x, c->out, nx * sizeof *x);
        if (violation < CLOSED) break;
    }
    if (violation < CLOSE_ENOUGH && nsi_all_finite(c->x, nx)) {
        memcpy(x, c->x, nx * sizeof *x);
        return NS_OK;
    }
    return nsi_fail(
        error, NS_ERR_ARGUMENT,
        "the equality constraint \"%s\" cannot be reached from this state: it is missed by"
        " %.3g after %d steps of Newton's method; start nearer to it",
        c->system->model->equalities[constraint].def.name, violation, MAX_NEWTON_STEPS);
}
