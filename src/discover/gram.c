// Normal equations of all terms, fold by fold, and what follows from them without simulating again.

#include "discover/discover_state.h"

#include <math.h>

void nsi_gram_free(nsi_gram* gram) {
    for (int k = 0; k <= NSI_FOLDS; k++) {
        nsi_free(&gram->allocator, gram->G[k]);
        nsi_free(&gram->allocator, gram->h[k]);
        gram->G[k] = gram->h[k] = NULL;
    }
    double** scratch[] = {&gram->factor, &gram->scale, &gram->solution, &gram->column};
    for (size_t k = 0; k < sizeof scratch / sizeof *scratch; k++) {
        nsi_free(&gram->allocator, *scratch[k]);
        *scratch[k] = NULL;
    }
    nsi_free(&gram->allocator, gram->dropped);
    nsi_free(&gram->allocator, gram->subset);
    gram->dropped = NULL;
    gram->subset = NULL;
}

ns_status nsi_gram_make(const ns_allocator* allocator, uint32_t count, uint32_t nfold,
                        nsi_gram* gram, ns_error* error) {
    size_t n = count, room = (n + 1) * sizeof(double);
    *gram = (nsi_gram){.allocator = *allocator, .n = count, .nfold = nfold};

    // Scratch is large enough for all terms at a time.
    gram->factor = nsi_alloc(allocator, (n * n + 1) * sizeof(double));
    gram->scale = nsi_alloc(allocator, room);
    gram->solution = nsi_alloc(allocator, room);
    gram->column = nsi_alloc(allocator, room);
    gram->dropped = nsi_alloc(allocator, n + 1);
    gram->subset = nsi_alloc(allocator, (n + 1) * sizeof *gram->subset);
    bool ok = gram->factor && gram->scale && gram->solution && gram->column && gram->dropped &&
              gram->subset;

    // One matrix per fold, and the sum of them.
    for (uint32_t k = 0; k <= nfold && ok; k++) {
        uint32_t at = k == nfold ? NSI_FOLDS : k;
        gram->G[at] = nsi_alloc_zeroed(allocator, (n * n + 1) * sizeof(double));
        gram->h[at] = nsi_alloc_zeroed(allocator, room);
        ok = gram->G[at] && gram->h[at];
    }
    if (ok) return NS_OK;
    nsi_gram_free(gram);
    return nsi_fail_nomem(error);
}

// The fold's equations for columns (lower triangle) as those for terms: G = T' S T, h = T' b.
static void project_columns(const nsi_term_library* library, const double* S, const double* b,
                            double* G, double* h) {
    uint32_t n = library->terms.count, nc = library->ncolumn;
    for (uint32_t i = 0; i < n; i++) {
        const nsi_term* t = &library->terms.data[i];
        h[i] = 0.0;
        for (uint32_t p = 0; p < t->npart; p++) h[i] += t->parts[p].sign * b[t->parts[p].column];
        for (uint32_t j = 0; j <= i; j++) {
            const nsi_term* u = &library->terms.data[j];
            double sum = 0.0;
            for (uint32_t p = 0; p < t->npart; p++) {
                for (uint32_t q = 0; q < u->npart; q++) {
                    size_t row = t->parts[p].column, column = u->parts[q].column;
                    double s = row >= column ? S[row * nc + column] : S[column * nc + row];
                    sum += t->parts[p].sign * u->parts[q].sign * s;
                }
            }
            G[(size_t)i * n + j] = G[(size_t)j * n + i] = sum;
        }
    }
}

ns_status nsi_gram_take(nsi_workspace* ws, nsi_gram* gram, ns_error* error) {
    // One Gram matrix per fold, and their sum.
    size_t n = ws->library->terms.count;
    ns_status status = nsi_gram_make(&ws->allocator, (uint32_t)n, ws->nfold, gram, error);
    for (uint32_t f = 0; f < ws->nfold && status == NS_OK; f++) {
        double value;
        // Linearisation is the expensive part: allow a stop before each fold.
        if (nsi_discover_poll(ws->progress)) break;

        // Linearise with all columns, and eliminate the initial states of the windows.
        nsi_objective_set_active(ws->folds[f], NULL, 0);
        if (!nsi_objective_linearise(ws->folds[f], &value) ||
            !nsi_objective_eliminate_states(ws->folds[f], 0.0, ws->S, ws->b, &gram->squares[f])) {
            nsi_gram_free(gram);
            // No candidate can be judged without a finite linearisation.
            return nsi_fail(error, NS_ERR_NONFINITE,
                            "%.200s: the simulation does not stay finite, or the recordings do not"
                            " determine initial states",
                            ws->fit->spec->path);
        }

        // Project columns onto terms, and accumulate the sum over folds.
        project_columns(ws->library, ws->S, ws->b, gram->G[f], gram->h[f]);
        for (size_t k = 0; k < n * n; k++) gram->G[NSI_FOLDS][k] += gram->G[f][k];
        for (size_t k = 0; k < n; k++) gram->h[NSI_FOLDS][k] += gram->h[f][k];
        gram->squares[NSI_FOLDS] += gram->squares[f];
        // Degrees of freedom: residuals minus eliminated initial states.
        gram->freedom += nsi_objective_residual_count(ws->folds[f]) -
                         (double)nsi_objective_window_count(ws->folds[f]) * ws->nt;
    }
    return status;
}

// ---- small systems -----------------------------------------------------------------------------

// Cholesky of the (count x count) matrix in `factor`; terms that depend on others, but for
// rounding, are dropped.
static void factorise(const nsi_gram* gram, uint32_t count) {
    double* L = gram->factor;
    bool* dropped = gram->dropped;
    size_t n = count;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i && !dropped[i]; j++) {
            if (dropped[j]) continue;
            for (size_t k = 0; k < j; k++) {
                if (!dropped[k]) L[i * n + j] -= L[i * n + k] * L[j * n + k];
            }
            L[i * n + j] /= L[j * n + j];
        }
        for (size_t k = 0; k < i && !dropped[i]; k++) {
            if (!dropped[k]) L[i * n + i] -= L[i * n + k] * L[i * n + k];
        }
        if (!(L[i * n + i] > nsi_thresholds.gram.min_pivot)) dropped[i] = true;
        if (!dropped[i]) L[i * n + i] = sqrt(L[i * n + i]);
    }
}

// Solve for the steps of the terms into `solution`, each scaled by its own diagonal.
// @param without  fold that is left out; NSI_NONE: none
static void solve_terms(const nsi_gram* gram, uint32_t without, const uint32_t* terms,
                        uint32_t count, double ridge) {
    // A left-out fold is subtracted from the sum.
    const double* all = gram->G[NSI_FOLDS];
    const double* less = without == NSI_NONE ? NULL : gram->G[without];
    double *L = gram->factor, *x = gram->solution, *scale = gram->scale;
    bool* dropped = gram->dropped;
    size_t n = gram->n;

    // Scale each term so that the diagonal is 1: units of terms differ.
    for (uint32_t i = 0; i < count; i++) {
        size_t at = terms[i] * n + terms[i];
        double own = all[at] - (less ? less[at] : 0.0);
        scale[i] = own > 0.0 ? 1.0 / sqrt(own) : 0.0;
        // A term without effect has a zero column.
        dropped[i] = scale[i] == 0.0;
    }

    // Scaled right-hand side and lower triangle, with the ridge on the diagonal.
    for (uint32_t i = 0; i < count; i++) {
        double h = gram->h[NSI_FOLDS][terms[i]];
        // The left-out fold does not contribute to the right-hand side either.
        if (without < NSI_FOLDS) h -= gram->h[without][terms[i]];
        x[i] = h * scale[i];
        for (uint32_t j = 0; j <= i; j++) {
            size_t at = terms[i] * n + terms[j];
            double g = (all[at] - (less ? less[at] : 0.0)) * scale[i] * scale[j];
            L[(size_t)i * count + j] = g + (i == j ? ridge : 0.0);
        }
    }

    // Cholesky factor; nearly dependent terms are dropped.
    factorise(gram, count);

    // Forward and backward substitution; dropped terms keep a zero step.
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < i && !dropped[i]; k++) {
            if (!dropped[k]) x[i] -= L[(size_t)i * count + k] * x[k];
        }
        x[i] = dropped[i] ? 0.0 : x[i] / L[(size_t)i * count + i];
    }

    // Backward, with the transposed factor.
    for (uint32_t i = count; i-- > 0;) {
        for (uint32_t k = i + 1; k < count && !dropped[i]; k++) {
            if (!dropped[k]) x[i] -= L[(size_t)k * count + i] * x[k];
        }
        x[i] = dropped[i] ? 0.0 : x[i] / L[(size_t)i * count + i];
    }

    // Back to the units of the terms.
    for (uint32_t i = 0; i < count; i++) x[i] *= scale[i];
}

// Sum of squares of a fold, or of all, after the step in `solution`.
static double squares_after(const nsi_gram* gram, uint32_t fold, const uint32_t* terms,
                            uint32_t count) {
    const double *G = gram->G[fold], *h = gram->h[fold], *x = gram->solution;
    double sum = gram->squares[fold];
    for (uint32_t i = 0; i < count; i++) {
        double row = -2.0 * h[terms[i]];
        for (uint32_t j = 0; j < count; j++) row += G[(size_t)terms[i] * gram->n + terms[j]] * x[j];
        sum += row * x[i];
    }
    return sum;
}

double nsi_gram_explain(const nsi_gram* gram, const uint32_t* terms, uint32_t count, double ridge) {
    solve_terms(gram, NSI_NONE, terms, count, ridge);
    return squares_after(gram, NSI_FOLDS, terms, count);
}

double nsi_gram_held_out(const nsi_gram* gram, const uint32_t* terms, uint32_t count,
                         double ridge) {
    double sum = 0.0;
    if (gram->nfold < 2) return nsi_gram_explain(gram, terms, count, ridge);
    for (uint32_t f = 0; f < gram->nfold; f++) {
        solve_terms(gram, f, terms, count, ridge);
        sum += squares_after(gram, f, terms, count);
    }
    return sum;
}

// Squared length of a column of L^-1, in units of the scaled diagonal.
static double inverse_column(const nsi_gram* gram, uint32_t number, uint32_t count) {
    const double* L = gram->factor;
    double *column = gram->column, sum = 0.0;
    for (uint32_t r = number; r < count; r++) {
        column[r] = r == number ? 1.0 : 0.0;
        if (gram->dropped[r]) continue;
        for (uint32_t k = number; k < r; k++) {
            if (!gram->dropped[k]) column[r] -= L[(size_t)r * count + k] * column[k];
        }
        column[r] /= L[(size_t)r * count + r];
        sum += column[r] * column[r];
    }
    return sum;
}

void nsi_gram_variances(const nsi_gram* gram, const uint32_t* terms, uint32_t count,
                        double* variances) {
    solve_terms(gram, NSI_NONE, terms, count, 0.0);
    for (uint32_t i = 0; i < count; i++) {
        double own = gram->G[NSI_FOLDS][(size_t)terms[i] * gram->n + terms[i]];
        variances[i] = gram->dropped[i] ? INFINITY : inverse_column(gram, i, count) / own;
    }
}

double nsi_gram_own_share(const nsi_gram* gram, const uint32_t* terms, uint32_t count,
                          uint32_t term) {
    double own = gram->G[NSI_FOLDS][(size_t)term * gram->n + term];
    if (!(own > 0.0)) return 0.0;

    // The term comes last: only its own column of L^-1 is needed, one number.
    memcpy(gram->subset, terms, count * sizeof *terms);
    gram->subset[count] = term;
    solve_terms(gram, NSI_NONE, gram->subset, count + 1, 0.0);
    if (gram->dropped[count]) return 0.0;
    double variance = inverse_column(gram, count, count + 1) / own;
    return isfinite(variance) ? 1.0 / (own * variance) : 0.0;
}
