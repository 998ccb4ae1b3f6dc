// Refits of the active terms: Levenberg-Marquardt over all folds.

#include "discover/discover_state.h"

#include "solver/solvers.h"

#include <math.h>

// Columns of the active terms, and the position of each among them.
static void choose_columns(nsi_workspace* ws, const uint32_t* active, uint32_t n) {
    const nsi_term_library* library = ws->library;
    ws->nchosen = 0;
    for (uint32_t k = 0; k < library->ncolumn; k++) ws->at[k] = NSI_NONE;
    for (uint32_t i = 0; i < n; i++) {
        const nsi_term* t = &library->terms.data[active[i]];
        for (uint32_t p = 0; p < t->npart; p++) {
            uint32_t column = t->parts[p].column;
            if (ws->at[column] != NSI_NONE) continue;
            ws->at[column] = ws->nchosen;
            ws->chosen[ws->nchosen++] = column;
        }
    }
    for (uint32_t f = 0; f < ws->nfold; f++)
        nsi_objective_set_active(ws->folds[f], ws->chosen, ws->nchosen);
}

// Sum of the folds' reduced equations for the active terms into A and rhs; `left`: the cost after
// initial states alone.
static bool sum_equations(nsi_workspace* ws, const uint32_t* active, uint32_t n, double damping,
                          double* left) {
    const nsi_term_library* library = ws->library;
    memset(ws->A, 0, (size_t)n * n * sizeof *ws->A);
    memset(ws->rhs, 0, n * sizeof *ws->rhs);
    *left = 0.0;

    // Equations of each fold, with initial states eliminated (Schur complement).
    for (uint32_t f = 0; f < ws->nfold; f++) {
        double squares;
        if (!nsi_objective_eliminate_states(ws->folds[f], damping, ws->S, ws->b, &squares))
            return false;
        *left += squares;

        // Project columns onto terms, which are signed sums of columns.
        for (uint32_t i = 0; i < n; i++) {
            const nsi_term* t = &library->terms.data[active[i]];
            for (uint32_t p = 0; p < t->npart; p++) {
                size_t row = ws->at[t->parts[p].column];
                // Right-hand side.
                ws->rhs[i] += t->parts[p].sign * ws->b[row];

                // Lower triangle of the matrix.
                for (uint32_t j = 0; j <= i; j++) {
                    const nsi_term* u = &library->terms.data[active[j]];
                    for (uint32_t q = 0; q < u->npart; q++) {
                        size_t column = ws->at[u->parts[q].column];
                        // S holds the lower triangle only.
                        double s = row >= column ? ws->S[row * ws->nchosen + column]
                                                 : ws->S[column * ws->nchosen + row];
                        ws->A[(size_t)i * n + j] += t->parts[p].sign * u->parts[q].sign * s;
                    }
                }
            }
        }
    }
    return true;
}

// Shapes stay positive and in their range: the longest part of a step that does.
static double bounded_step(const nsi_workspace* ws, uint32_t term, double step) {
    const nsi_term* t = &ws->library->terms.data[term];
    double low = nsi_thresholds.refit.min_shape * t->start;
    double high = nsi_thresholds.refit.max_shape * t->start, shape = t->start + ws->values[term];
    if (t->kind != NSI_TERM_SHAPE || (shape + step >= low && shape + step <= high)) return step;
    return (step < 0.0 ? low : high) - shape;
}

// Solve for the steps of the active terms into rhs; `held` imposes some of them.
static bool solve_step(nsi_workspace* ws, uint32_t n, double damping) {
    for (uint32_t i = 0; i < n; i++) {
        double* own = &ws->A[(size_t)i * n + i];
        *own += (damping + nsi_thresholds.refit.regularisation) * *own;
        if (!(*own > 0.0)) *own = 1.0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (isnan(ws->held[i])) continue;
        for (uint32_t j = 0; j < n; j++) {
            double* a = i > j ? &ws->A[(size_t)i * n + j] : &ws->A[(size_t)j * n + i];
            if (isnan(ws->held[j])) ws->rhs[j] -= *a * ws->held[i];
            *a = i == j ? 1.0 : 0.0;
        }
        ws->rhs[i] = ws->held[i];
    }
    if (n == 0) return true;
    if (!nsi_dense_cholesky(n, ws->A, 1)) return false;
    nsi_dense_cholesky_solve(n, ws->A, 1, ws->rhs);
    return true;
}

// A step for this damping; the cost there, or INFINITY. `predicted`: the cost by the normal
// equations.
static double try_refit_step(nsi_workspace* ws, const uint32_t* active, uint32_t n, double damping,
                             double* predicted) {
    const nsi_term_library* library = ws->library;
    double* rhs = ws->old;
    // NAN: the term is free.
    for (uint32_t i = 0; i < n; i++) ws->held[i] = NAN;

    // A scale that would leave its range is held at the bound, and the others are solved for again.
    for (bool again = true; again;) {
        again = false;
        *predicted = 0.0;
        // Normal equations, kept for the prediction because the solver overwrites them.
        if (!sum_equations(ws, active, n, damping, predicted)) return INFINITY;
        memcpy(rhs, ws->rhs, n * sizeof *rhs);
        if (!solve_step(ws, n, damping)) return INFINITY;

        // Hold the terms whose step had to be shortened.
        for (uint32_t i = 0; i < n; i++) {
            double move = bounded_step(ws, active[i], ws->rhs[i]);
            if (!isnan(ws->held[i]) || move == ws->rhs[i] || !isfinite(move)) continue;
            ws->held[i] = move;
            again = true;
        }
    }

    // Predicted cost of the step.
    for (uint32_t i = 0; i < n; i++) *predicted -= rhs[i] * ws->rhs[i];

    // Convert steps of terms to steps of columns.
    memset(ws->step, 0, library->ncolumn * sizeof *ws->step);
    for (uint32_t i = 0; i < n; i++) {
        const nsi_term* t = &library->terms.data[active[i]];
        for (uint32_t p = 0; p < t->npart; p++) {
            ws->step[ws->at[t->parts[p].column]] += t->parts[p].sign * ws->rhs[i];
        }
    }

    // Simulate all folds at the trial point. The cost is half the sum of squares.
    double sum = 0.0;
    for (uint32_t f = 0; f < ws->nfold && isfinite(sum); f++) {
        nsi_objective_set_step(ws->folds[f], ws->step);
        sum += 2.0 * nsi_objective_trial_cost(ws->folds[f]);
    }
    return sum;
}

// Linearise all folds; false: stopped, or not finite, which makes the cost INFINITY.
static bool linearise_folds(nsi_workspace* ws, double* cost) {
    double sum = 0.0;
    for (uint32_t f = 0; f < ws->nfold; f++) {
        double part;
        if (nsi_discover_poll(ws->progress)) return false;
        if (!nsi_objective_linearise(ws->folds[f], &part)) {
            *cost = INFINITY;
            return false;
        }
        sum += 2.0 * part;
    }
    *cost = sum;
    return true;
}

double nsi_workspace_refit(nsi_workspace* ws, const uint32_t* active, uint32_t n,
                           nsi_refit_limits limits) {
    // Levenberg-Marquardt over the active terms.
    double damping = nsi_thresholds.refit.damping, value = INFINITY;
    // Only columns of active terms are linearised.
    choose_columns(ws, active, n);
    for (uint32_t k = 0; k <= limits.iterations; k++) {
        if (!linearise_folds(ws, &value)) return value;
        // The last linearisation only updates the value and the equations.
        if (k == limits.iterations) break;

        // Increase the damping until a step decreases the cost, or until none can.
        double next = INFINITY;
        for (uint32_t failure = 0; failure < nsi_thresholds.refit.max_failures; failure++) {
            double predicted, least = nsi_thresholds.refit.negligible_decrease * limits.tolerance;
            next = try_refit_step(ws, active, n, damping, &predicted);
            // Stop early if even the predicted decrease is negligible.
            if (next < value || value - predicted < least * value) break;
            damping *= nsi_thresholds.refit.increase;
        }
        if (!(next < value)) break;

        // Accept the step, and reduce the damping.
        for (uint32_t f = 0; f < ws->nfold; f++) nsi_objective_commit(ws->folds[f]);
        for (uint32_t i = 0; i < n; i++) ws->values[active[i]] += ws->rhs[i];
        damping = fmax(nsi_thresholds.refit.decrease * damping, nsi_thresholds.refit.min_damping);
        // Converged if the relative decrease is below the tolerance.
        bool done = value - next < limits.tolerance * value;
        value = next;
        if (done) break;
    }
    return value;
}
