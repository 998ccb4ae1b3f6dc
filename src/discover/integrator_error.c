// Residuals with other integrators and for other recordings: initial states are fitted, terms are
// not.

#include "discover/discover_state.h"

#include "sysid/gauss_newton.h"

#include <math.h>
#include <stdio.h>

// Residuals of all windows with initial states fitted; NULL: not finite, or no memory.
static double* fitted_residuals(const nsi_workspace* ws, const nsi_problem* problem,
                                const ns_dataset* data, uint32_t length, const double* values,
                                size_t* count, uint32_t* present, ns_error* error) {
    const nsi_term_library* library = ws->library;
    nsi_windows windows = {0};
    nsi_objective* e = NULL;
    // Windows as in the search, but only initial states are free.
    ns_window_options loss = nsi_workspace_windows(ws, length);
    loss.optimise = NS_OPTIMISE_NONE;

    // Create an objective over the same windows.
    ns_status status = nsi_windows_make(
        problem, data, length, nsi_workspace_max_windows(problem, length), false, &windows, error);
    if (status == NS_OK) {
        status = nsi_objective_create(problem, data, &loss, &windows, ws->fit->threads, &e, error);
    }
    // The objective has its own copy of the windows.
    nsi_array_free(&ws->allocator, &windows);
    if (status != NS_OK) return NULL;

    // Set parameters and weights to the given values of the terms.
    nsi_point p = nsi_objective_point(e);
    memcpy(p.z, ws->z0, library->nz * sizeof *p.z);
    memcpy(p.w, ws->w0, (library->ncolumn - library->nz) * sizeof *p.w);
    for (uint32_t k = 0; k < library->terms.count; k++) {
        const nsi_term* t = &library->terms.data[k];
        // A term moves each of its columns.
        for (uint32_t i = 0; i < t->npart && values[k] != 0.0; i++) {
            uint32_t column = t->parts[i].column;
            // Columns are parameters first, then weights.
            *(column < library->nz ? &p.z[column] : &p.w[column - library->nz]) +=
                t->parts[i].sign * values[k];
        }
    }

    // Fit the initial states.
    ns_solver_options options = {.max_iterations = nsi_thresholds.integrator.state_iterations,
                                 .damping = nsi_thresholds.integrator.damping};
    ns_solver_result out = nsi_objective_lm(e, &options, nsi_discover_poll_lm, ws->progress);
    double* kept = NULL;
    // Keep a copy of the residuals if the simulation stayed finite.
    if (isfinite(out.value) && isfinite(nsi_objective_cost(e))) {
        const double* r = nsi_objective_residuals(e, count);
        kept = nsi_alloc(&ws->allocator, (*count + 1) * sizeof *kept);
        if (kept) memcpy(kept, r, *count * sizeof *kept);
        // Recordings may have gaps: not every residual is present.
        *present = nsi_objective_residual_count(e);
    }
    nsi_objective_free(e);
    return kept;
}

// Sum of squares of r less its projection onto (other - r), the integrator's error up to a factor.
static double squares_without(const double* r, const double* other, size_t count) {
    const double max = nsi_thresholds.integrator.max_extrapolation;
    double along = 0.0, length = 0.0, sum = 0.0;
    for (size_t k = 0; k < count; k++) {
        double d = other[k] - r[k];
        along -= d * r[k];
        length += d * d;
    }
    double share = length > 0.0 ? along / length : 0.0;
    share = fmin(fmax(share, -max), max);
    for (size_t k = 0; k < count; k++) {
        double left = r[k] + share * (other[k] - r[k]);
        sum += left * left;
    }
    return sum;
}

// ---- other integrators -------------------------------------------------------------------------

typedef struct alternative {
    int integrator;
    double timestep;
} alternative;

enum { MAX_ALTERNATIVES = 3 };

// Half the time step; RK4; Euler with the time step that the model would have by itself.
static int list_alternatives(const nsi_workspace* ws, alternative list[MAX_ALTERNATIVES]) {
    const ns_fit* f = ws->fit;
    const ns_system_sizes* z = &ws->problem->sizes;
    double period = ns_dataset_period(f->data[NS_ROLE_TRAIN]);
    ns_system_options usual = f->options;
    usual.timestep = 0.0;
    double own_step = nsi_problem_timestep(f->variants[0].model, &usual, 0.0, period);
    int count = 0;
    list[count++] = (alternative){(int)z->integrator, 0.5 * z->timestep};
    if (z->integrator != NS_INTEGRATOR_RK4) {
        list[count++] = (alternative){NS_INTEGRATOR_RK4, z->timestep};
    }
    if (z->integrator != NS_INTEGRATOR_EULER) {
        list[count++] = (alternative){NS_INTEGRATOR_EULER, own_step};
    }
    return count;
}

// The sum of squares of `own` residuals without what the alternative changes; INFINITY: it cannot
// be simulated, as rk4 with rigid contact.
static double compare_alternative(const nsi_workspace* ws, const alternative* a, const double* own,
                                  size_t rows) {
    const ns_dataset* train = ws->fit->data[NS_ROLE_TRAIN];
    if (ns_dataset_period(train) / a->timestep > nsi_thresholds.integrator.max_steps) {
        return INFINITY;
    }
    ns_system* system = NULL;
    nsi_problem* problem = NULL;
    ns_system_options options = ws->fit->options;
    ns_error inner;
    double squares = INFINITY;
    options.integrator = a->integrator;
    options.timestep = a->timestep;
    if (nsi_workspace_system(ws, &options, ws->library->blueprint, &system, &problem, &inner) ==
        NS_OK) {
        size_t its = 0;
        uint32_t present = 0;
        double* r =
            fitted_residuals(ws, problem, train, ws->length, ws->values, &its, &present, &inner);
        if (r && its == rows) squares = squares_without(own, r, rows);
        nsi_free(&ws->allocator, r);
    }
    nsi_problem_free(problem);
    ns_system_free(system);
    return squares;
}

ns_status nsi_workspace_numerical(nsi_workspace* ws, double* squares, char other[80],
                                  ns_error* error) {
    alternative list[MAX_ALTERNATIVES];
    int count = list_alternatives(ws, list);
    size_t rows = 0;
    uint32_t present = 0;
    double* own = fitted_residuals(ws, ws->problem, ws->fit->data[NS_ROLE_TRAIN], ws->length,
                                   ws->values, &rows, &present, error);
    *squares = INFINITY;
    other[0] = '\0';
    if (!own) return NS_OK;
    for (int k = 0; k < count && !nsi_discover_poll(ws->progress); k++) {
        double left = compare_alternative(ws, &list[k], own, rows);
        if (!(left < *squares)) continue;
        *squares = left;
        snprintf(other, 80, "%s, steps of %.4g ms",
                 ns_choice_name(&ns_integrators, list[k].integrator), 1e3 * list[k].timestep);
    }
    nsi_free(&ws->allocator, own);
    return NS_OK;
}

// ---- other recordings --------------------------------------------------------------------------

ns_status nsi_workspace_score(nsi_workspace* ws, const ns_dataset* data, const double* values,
                              double* out, ns_error* error) {
    uint32_t longest = nsi_workspace_longest(data), present = 0;
    size_t rows = 0;
    *out = NAN;
    uint32_t length = ws->length < longest ? ws->length : longest - 1;
    if (longest < 2) return NS_OK;
    double* r = fitted_residuals(ws, ws->problem, data, length, values, &rows, &present, error);
    double sum = 0.0;
    for (size_t k = 0; r && k < rows; k++) sum += r[k] * r[k];
    if (r && present > 0) *out = sqrt(sum / present);
    nsi_free(&ws->allocator, r);
    return NS_OK;
}
