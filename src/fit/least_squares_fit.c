// ns_least_squares_fit: Levenberg-Marquardt on residuals, with standard errors.

#include "fit/uncertainty.h"
#include "sysid/gauss_newton.h"
#include "sysid/objective_state.h"
#include "sysid/residuals_state.h"

#include <math.h>

// What the caller is given is the first member.
typedef struct owned_result {
    ns_fit_result view;
    nsi_result record;
} owned_result;

typedef struct solver_watch {
    owned_result* owned;
    double start, scale;
    bool failed;
} solver_watch;

static bool watch_solver(void* context, const ns_solver_progress* progress) {
    solver_watch* w = context;
    ns_fit_history_point point = {.iteration = progress->iteration,
                                  .seconds = nsi_clock_wall() - w->start,
                                  .value = sqrt(2.0 * progress->value * w->scale)};
    nsi_result* a = &w->owned->record;
    w->failed = !nsi_array_push(&a->allocator, &a->history, point);
    return w->failed;
}

static ns_status solve_least_squares(ns_residuals* r, const ns_solver_options* options,
                                     owned_result* owned, ns_error* error) {
    nsi_objective* e = r->objective;
    nsi_result* a = &owned->record;
    ns_solver_options defaults = {0};
    solver_watch w = {.owned = owned, .start = nsi_clock_wall()};

    // No solver can start from an infinite cost.
    if (!isfinite(nsi_objective_cost(e))) {
        return nsi_fail(error, NS_ERR_NONFINITE,
                        "ns_least_squares_fit: the simulation does not stay finite from the initial"
                        " values; use shorter windows or other values");
    }

    // Solvers sum over residuals; results give the mean.
    w.scale = 1.0 / nsi_objective_residual_count(e);

    // Levenberg-Marquardt on normal equations without initial states.
    ns_gauss_newton normal = nsi_objective_gauss_newton(e);
    ns_solver_problem problem = {
        .n = e->n, .gauss_newton = &normal, .observe = watch_solver, .context = &w};
    ns_solver_result result;
    ns_status status =
        ns_minimise("lm", &problem, options ? options : &defaults, NULL, &result, error);
    if (status != NS_OK) return status;

    // The observer cannot return a status of its own.
    if (w.failed) return nsi_fail_nomem(error);

    // Record the run as the only phase of the fit.
    a->seconds = nsi_clock_wall() - w.start;
    a->complete = true;
    ns_fit_phase phase = {.name = "LM",
                          .iterations = result.iterations,
                          .evaluations = result.evaluations,
                          .seconds = a->seconds,
                          .value = sqrt(2.0 * result.value * w.scale),
                          .finish = ns_finish_text(result.finish)};
    bool done = nsi_array_push(&a->allocator, &a->phases, phase);
    return done ? NS_OK : nsi_fail_nomem(error);
}

static bool keep_texts(nsi_result* a) {
    bool ok = true;
    for (uint32_t k = 0; k < a->estimates.count && ok; k++) {
        ns_estimate* e = &a->estimates.data[k];
        e->name = nsi_arena_string(&a->arena, e->name, strlen(e->name));
        e->unit = nsi_arena_string(&a->arena, e->unit, strlen(e->unit));
        ok = e->name && e->unit;
    }
    for (uint32_t k = 0; k < a->coefficients.count && ok; k++) {
        ns_fitted_coefficient* c = &a->coefficients.data[k];
        c->set = nsi_arena_string(&a->arena, c->set, strlen(c->set));
        c->name = nsi_arena_string(&a->arena, c->name, strlen(c->name));
        ok = c->set && c->name;
    }
    return ok;
}

// Estimates where the solver ended, in texts of their own.
static ns_status list_result(ns_residuals* r, const double* w0, double* v, nsi_result* a,
                             ns_error* error) {
    nsi_objective* e = r->objective;
    ns_status status = NS_OK;
    a->noise_known = true;
    for (uint32_t k = 0; k < ns_dataset_channel_count(r->data); k++) {
        const ns_channel* channel = ns_dataset_channel(r->data, k);
        if (channel->weight > 0.0 && !(channel->sigma > 0.0)) a->noise_known = false;
    }
    a->nweight = e->nw;
    if (r->params) {
        ns_residuals_get_parameters(r, v);
        status = nsi_list_estimates(r->params, v, a, error);
    }
    if (status == NS_OK) {
        status = nsi_list_coefficients(r->problem->system, w0, e->point.w, a, error);
    }
    if (status == NS_OK) {
        nsi_objective_cost(e); // residuals at the end, not at a step that was refused
        status =
            nsi_judge_estimates(r->params, r->problem->system, e->options.optimise, e, a, error);
    }
    return status == NS_OK && !keep_texts(a) ? nsi_fail_nomem(error) : status;
}

ns_status ns_least_squares_fit(ns_residuals* r, const ns_solver_options* options,
                               ns_fit_result** out, ns_error* error) {
    if (out) *out = NULL;

    // Validate the arguments.
    if (!r || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_least_squares_fit: an argument is NULL");
    }
    if (options && (options->l1 != 0.0 || options->group_lasso != 0.0)) {
        return nsi_fail(
            error, NS_ERR_ARGUMENT,
            "ns_least_squares_fit: there is no l1 or group_lasso here; use them in a stage"
            " of ns_fit_create()");
    }
    if (ns_residuals_unknown_count(r) == 0) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_least_squares_fit: there is nothing to optimise");
    }

    // The record and its public view share one allocation.
    ns_allocator memory = r->allocator;
    size_t nw = r->problem->sizes.nw, nz = r->params ? ns_parameters_count(r->params) : 0;
    owned_result* owned = nsi_alloc_zeroed(&memory, sizeof *owned);
    double* numbers = nsi_alloc(&memory, (nw + nz + 1) * sizeof *numbers);
    if (!owned || !numbers) {
        nsi_free(&memory, owned);
        nsi_free(&memory, numbers);
        return nsi_fail_nomem(error);
    }

    // Initial values are kept for the comparison with the estimates.
    nsi_result_init(&memory, &owned->record);
    ns_residuals_get_weights(r, numbers);

    // Solve, then list estimates with their standard errors.
    ns_status status = solve_least_squares(r, options, owned, error);
    if (status == NS_OK) status = list_result(r, numbers, numbers + nw, &owned->record, error);

    nsi_free(&memory, numbers);

    // The view points into the record, also when that is to be freed.
    owned->view = nsi_result_view(&owned->record);
    if (status != NS_OK) {
        ns_fit_result_free(&owned->view);
        return status;
    }
    *out = &owned->view;
    return NS_OK;
}

void ns_fit_result_free(ns_fit_result* result) {
    if (!result) return;
    owned_result* owned = (owned_result*)result;
    ns_allocator memory = owned->record.allocator;
    nsi_result_free(&owned->record);
    nsi_free(&memory, owned);
}
