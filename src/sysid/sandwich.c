// The sandwich estimator over blocks of samples. Scores of blocks come from reverse mode, initial
// states are eliminated from them as from the normal equations.

#include "sysid/sandwich.h"

#include "sysid/objective_state.h"

#include <math.h>

// ---- correlation --------------------------------------------------------------------------------

// Mean product of residuals `lag` samples apart, within windows and channels.
static double lagged_product(const nsi_objective* e, uint32_t lag) {
    const uint32_t nchannel = e->p->nchannel;
    double sum = 0.0, count = 0.0;
    for (uint32_t w = 0; w < e->windows.count; w++) {
        size_t last = e->row_at[w + 1], apart = (size_t)lag * nchannel;
        for (size_t row = e->row_at[w]; row + apart < last; row++) {
            if (e->row_weight[row] == 0.0 || e->row_weight[row + apart] == 0.0) continue;
            sum += e->residuals[row] * e->residuals[row + apart];
            count += 1.0;
        }
    }
    return count > 0.0 ? sum / count : 0.0;
}

static uint32_t longest_window(const nsi_objective* e) {
    uint32_t most = 0;
    for (uint32_t w = 0; w < e->windows.count; w++) {
        if (e->windows.data[w].length > most) most = e->windows.data[w].length;
    }
    return most;
}

// Sums of autocorrelations until they vanish in their own noise.
nsi_residual_correlation nsi_objective_residual_correlation(const nsi_objective* e) {
    static const double NOISE = 0.05;
    nsi_residual_correlation out = {0.0, 1.0};
    double square = lagged_product(e, 0);
    uint32_t most = longest_window(e) / 2;
    for (uint32_t lag = 1; lag <= most && square > 0.0; lag++) {
        double rho = lagged_product(e, lag) / square;
        if (lag == 1) out.lag1 = rho;
        if (rho < NOISE) break;
        out.samples += 2.0 * rho;
    }
    return out;
}

// ---- blocks -------------------------------------------------------------------------------------

static size_t count_samples(const nsi_objective* e) {
    return e->row_at[e->windows.count] / e->p->nchannel;
}

uint32_t nsi_objective_block_count(const nsi_objective* e, double samples, uint32_t* length) {
    double all = (double)count_samples(e), least = ceil(NSI_BLOCK_TIMES * fmax(samples, 1.0));
    double one = fmax(least, ceil(all / NSI_MAX_BLOCKS));
    double blocks = ceil(all / one);
    *length = (uint32_t)one;
    return blocks < NSI_MIN_BLOCKS ? 0 : (uint32_t)blocks;
}

// Factors of the windows' blocks, which directions of initial states are eliminated with.
static bool factor_states(nsi_objective* e, double* factors) {
    const size_t size = (size_t)e->nt * e->nt;
    memcpy(factors, e->normal.Hxx, e->windows.count * size * sizeof *factors);
    for (uint32_t w = 0; w < e->windows.count; w++) {
        if (!nsi_dense_cholesky(e->nt, factors + w * size, 1)) return false;
    }
    return true;
}

// The score of parameters and weights (n) when initial states follow them: s - Hnx Hxx^-1 sx, in
// place.
static void eliminate_from_score(nsi_objective* e, const double* factors, double* score) {
    const uint32_t n = e->n, nt = e->nt;
    for (uint32_t w = 0; w < e->windows.count && nt > 0; w++) {
        double* states = score + n + (size_t)w * nt;
        nsi_dense_cholesky_solve(nt, factors + (size_t)w * nt * nt, 1, states);
        const double* coupling = e->normal.Hxn + (size_t)w * nt * n;
        for (uint32_t i = 0; i < nt; i++) {
            for (uint32_t k = 0; k < n; k++) score[k] -= coupling[(size_t)i * n + k] * states[i];
        }
    }
}

// The factor of the reduced matrix, with a ridge for weights of networks that the data leaves open.
static bool factor_reduced(nsi_objective* e, double* A) {
    const uint32_t n = e->n;
    if (!nsi_normal_reduce(e, 0.0)) return false;
    memcpy(A, e->normal.S, (size_t)n * n * sizeof *A);
    double mean = nsi_mean_weight_diagonal(e, e->normal.S);
    for (uint32_t k = 0; k < n; k++) {
        if (nsi_is_network_weight(e, k)) A[(size_t)k * (n + 1)] += mean > 0.0 ? 1e-10 * mean : 1.0;
    }
    return nsi_dense_cholesky(n, A, 1);
}

static bool add_blocks(nsi_objective* e, uint32_t length, double* A, double* factors, double* score,
                       double* masked, double* variances) {
    const size_t rows = e->row_at[e->windows.count], step = (size_t)length * e->p->nchannel;
    const double blocks = ceil((double)rows / (double)step);
    memset(variances, 0, e->nz * sizeof *variances);
    for (size_t first = 0; first < rows; first += step) {
        size_t last = first + step < rows ? first + step : rows;
        if (!nsi_objective_score(e, first, last, masked, score)) return false;
        eliminate_from_score(e, factors, score);
        nsi_dense_cholesky_solve(e->n, A, 1, score);
        for (uint32_t k = 0; k < e->nz; k++) variances[k] += score[k] * score[k];
    }

    // Few blocks and fitted unknowns make sums too small.
    double residuals = e->nresidual, unknowns = nsi_objective_unknowns(e);
    double correction =
        blocks / fmax(blocks - 1.0, 1.0) * residuals / fmax(residuals - unknowns, 1.0);
    for (uint32_t k = 0; k < e->nz; k++) variances[k] *= correction;
    return true;
}

bool nsi_objective_sandwich(nsi_objective* e, uint32_t length, double* variances) {
    double value;
    if (e->options.initial_state == NS_INITIAL_STATE_TIED || e->chosen) return false;
    if (!nsi_normal_linearise(e, true, &value)) return false;

    // Memory, then factors, then blocks one by one.
    double* A = nsi_numbers(e, (size_t)e->n * e->n);
    double* factors = nsi_numbers(e, (size_t)e->windows.count * e->nt * e->nt);
    double* score = nsi_numbers(e, nsi_objective_unknowns(e));
    double* masked = nsi_numbers(e, e->row_at[e->windows.count]);
    bool done = A && factors && score && masked && factor_states(e, factors) &&
                factor_reduced(e, A) && add_blocks(e, length, A, factors, score, masked, variances);
    nsi_free(&e->allocator, A);
    nsi_free(&e->allocator, factors);
    nsi_free(&e->allocator, score);
    nsi_free(&e->allocator, masked);
    return done;
}
