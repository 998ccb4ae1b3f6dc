// Normal equations of all terms, fold by fold, and what follows from them without simulating again.

#include "discover/discover_state.h"

#include "solver/solvers.h"

#include <math.h>

void nsi_gram_free(nsi_gram* m) {
    for (int k = 0; k <= NSI_FOLDS; k++) {
        nsi_free(&m->allocator, m->G[k]);
        nsi_free(&m->allocator, m->h[k]);
        m->G[k] = m->h[k] = NULL;
    }
}

// The fold's equations for columns (lower triangle) as those for terms: G = T' S T, h = T' b.
static void project(const nsi_dictionary* d, const double* S, const double* b, double* G,
                    double* h) {
    uint32_t n = d->terms.count, nc = d->ncolumn;
    for (uint32_t i = 0; i < n; i++) {
        const nsi_term* t = &d->terms.data[i];
        h[i] = 0.0;
        for (uint32_t p = 0; p < t->npart; p++) h[i] += t->parts[p].sign * b[t->parts[p].column];
        for (uint32_t j = 0; j <= i; j++) {
            const nsi_term* u = &d->terms.data[j];
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

ns_status nsi_gram_take(nsi_workspace* b, nsi_gram* m, ns_error* error) {
    const nsi_dictionary* d = b->dictionary;
    size_t n = d->terms.count;
    *m = (nsi_gram){.allocator = b->allocator, .n = (uint32_t)n, .nfold = b->nfold};
    for (uint32_t k = 0; k <= b->nfold; k++) {
        uint32_t at = k == b->nfold ? NSI_FOLDS : k;
        m->G[at] = nsi_alloc_zeroed(&m->allocator, (n * n + 1) * sizeof(double));
        m->h[at] = nsi_alloc_zeroed(&m->allocator, (n + 1) * sizeof(double));
        if (!m->G[at] || !m->h[at]) {
            nsi_gram_free(m);
            return nsi_fail_nomem(error);
        }
    }
    for (uint32_t f = 0; f < b->nfold; f++) {
        double value;
        if (nsi_watch_asks(b->watch)) break;
        nsi_objective_set_active(b->folds[f], NULL, 0);
        if (!nsi_objective_linearise(b->folds[f], &value) ||
            !nsi_objective_eliminate_states(b->folds[f], 0.0, b->S, b->b, &m->squares[f])) {
            nsi_gram_free(m);
            return nsi_fail(error, NS_ERR_NONFINITE,
                            "%.200s: the simulation does not stay finite, or start states cannot be"
                            " told from the recordings",
                            b->fit->plan->path);
        }
        project(d, b->S, b->b, m->G[f], m->h[f]);
        for (size_t k = 0; k < n * n; k++) m->G[NSI_FOLDS][k] += m->G[f][k];
        for (size_t k = 0; k < n; k++) m->h[NSI_FOLDS][k] += m->h[f][k];
        m->squares[NSI_FOLDS] += m->squares[f];
        m->freedom += nsi_objective_residual_count(b->folds[f]) -
                      (double)nsi_objective_window_count(b->folds[f]) * b->nt;
    }
    return NS_OK;
}

// ---- small systems -----------------------------------------------------------------------------

enum { MOST = 64 }; // terms at a time; more are cut off

// Solve for the terms, each scaled by its own diagonal. Pivots that vanish leave their term out.
// A: of all, less that of a fold (NSI_NONE: of none).
static uint32_t solve(const nsi_gram* m, uint32_t without, const uint32_t* terms, uint32_t count,
                      double ridge, double L[MOST][MOST], bool out[MOST], double* x) {
    const double* all = m->G[NSI_FOLDS];
    const double* less = without == NSI_NONE ? NULL : m->G[without];
    double size[MOST];
    size_t n = m->n;
    if (count > MOST) count = MOST;
    for (uint32_t i = 0; i < count; i++) {
        size_t at = terms[i] * n + terms[i];
        double own = all[at] - (less ? less[at] : 0.0);
        size[i] = own > 0.0 ? 1.0 / sqrt(own) : 0.0;
        out[i] = size[i] == 0.0;
    }
    for (uint32_t i = 0; i < count; i++) {
        double h = m->h[NSI_FOLDS][terms[i]];
        if (without < NSI_FOLDS) h -= m->h[without][terms[i]];
        x[i] = h * size[i];
        for (uint32_t j = 0; j <= i; j++) {
            size_t at = terms[i] * n + terms[j];
            double g = (all[at] - (less ? less[at] : 0.0)) * size[i] * size[j];
            L[i][j] = g + (i == j ? ridge : 0.0);
        }
    }
    // Cholesky; what others make superfluous (to rounding) is passed over.
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < i && !out[i]; j++) {
            if (out[j]) continue;
            for (uint32_t k = 0; k < j; k++) {
                if (!out[k]) L[i][j] -= L[i][k] * L[j][k];
            }
            L[i][j] /= L[j][j];
        }
        for (uint32_t k = 0; k < i && !out[i]; k++) {
            if (!out[k]) L[i][i] -= L[i][k] * L[i][k];
        }
        if (!(L[i][i] > 1e-10)) out[i] = true;
        if (!out[i]) L[i][i] = sqrt(L[i][i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < i && !out[i]; k++) {
            if (!out[k]) x[i] -= L[i][k] * x[k];
        }
        x[i] = out[i] ? 0.0 : x[i] / L[i][i];
    }
    for (uint32_t i = count; i-- > 0;) {
        for (uint32_t k = i + 1; k < count && !out[i]; k++) {
            if (!out[k]) x[i] -= L[k][i] * x[k];
        }
        x[i] = out[i] ? 0.0 : x[i] / L[i][i];
    }
    for (uint32_t i = 0; i < count; i++) x[i] *= size[i];
    return count;
}

// Sum of squares of a part after the step.
static double after(const nsi_gram* m, uint32_t part, const uint32_t* terms, uint32_t count,
                    const double* x) {
    const double *G = m->G[part], *h = m->h[part];
    double sum = m->squares[part];
    for (uint32_t i = 0; i < count; i++) {
        double row = -2.0 * h[terms[i]];
        for (uint32_t j = 0; j < count; j++) row += G[(size_t)terms[i] * m->n + terms[j]] * x[j];
        sum += row * x[i];
    }
    return sum;
}

double nsi_gram_explain(const nsi_gram* m, const uint32_t* terms, uint32_t count, double ridge,
                        double* step) {
    double L[MOST][MOST], x[MOST];
    bool out[MOST];
    count = solve(m, NSI_NONE, terms, count, ridge, L, out, x);
    if (step) memcpy(step, x, count * sizeof *x);
    return after(m, NSI_FOLDS, terms, count, x);
}

double nsi_gram_held_out(const nsi_gram* m, const uint32_t* terms, uint32_t count, double ridge) {
    double L[MOST][MOST], x[MOST], sum = 0.0;
    bool out[MOST];
    if (m->nfold < 2) return nsi_gram_explain(m, terms, count, ridge, NULL);
    for (uint32_t f = 0; f < m->nfold; f++) {
        uint32_t used = solve(m, f, terms, count, ridge, L, out, x);
        sum += after(m, f, terms, used, x);
    }
    return sum;
}

void nsi_gram_variances(const nsi_gram* m, const uint32_t* terms, uint32_t count,
                        double* variances) {
    double L[MOST][MOST], x[MOST];
    bool out[MOST];
    uint32_t used = solve(m, NSI_NONE, terms, count, 0.0, L, out, x);
    for (uint32_t i = 0; i < count; i++) {
        variances[i] = INFINITY;
        if (i >= used || out[i]) continue;
        // The row of L^-1 squared, in units of the diagonal.
        double column[MOST] = {0}, sum = 0.0;
        column[i] = 1.0;
        for (uint32_t r = i; r < used; r++) {
            if (out[r]) continue;
            for (uint32_t k = i; k < r; k++) {
                if (!out[k]) column[r] -= L[r][k] * column[k];
            }
            column[r] /= L[r][r];
            sum += column[r] * column[r];
        }
        variances[i] = sum / m->G[NSI_FOLDS][(size_t)terms[i] * m->n + terms[i]];
    }
}

double nsi_gram_own_share(const nsi_gram* m, const uint32_t* terms, uint32_t count, uint32_t term) {
    uint32_t list[MOST];
    double variances[MOST];
    if (count > MOST - 1) count = MOST - 1;
    memcpy(list, terms, count * sizeof *list);
    list[count] = term;
    double own = m->G[NSI_FOLDS][(size_t)term * m->n + term];
    if (!(own > 0.0)) return 0.0;
    nsi_gram_variances(m, list, count + 1, variances);
    return isfinite(variances[count]) ? 1.0 / (own * variances[count]) : 0.0;
}
