// The minimum of a convex quadratic within bounds, by a primal active-set method (Nocedal & Wright 2006,
// Numerical Optimization, section 16.5, with bounds as the constraints).

#include "solver/solvers.h"

#include <math.h>

typedef struct box_search {
    uint32_t n, nfree, threads;
    const double *S, *r, *lower, *upper;
    double *x, *A, *y; // A (nfree x nfree) of the free numbers, and where they want to go
    uint32_t* free;    // numbers of the free ones; behind them those at a bound
} box_search;

static double matrix_at(const box_search* s, uint32_t i, uint32_t j) {
    return s->S[(size_t)(i > j ? i : j) * s->n + (i > j ? j : i)];
}

// The slope of the quadratic along a number: (S x - r)_i.
static double box_slope(const box_search* s, uint32_t i) {
    double sum = -s->r[i], size = fabs(sum);
    for (uint32_t j = 0; j < s->n; j++) {
        double part = matrix_at(s, i, j) * s->x[j];
        sum += part;
        size += fabs(part);
    }
    return fabs(sum) > 1e-13 * size ? sum
                                    : 0.0; // else rounding, which would release and fix in turn
}

// The minimum over the free numbers, while the others stay.
static bool minimise_free(box_search* s) {
    for (uint32_t i = 0; i < s->nfree; i++) {
        double* row = s->A + (size_t)i * s->nfree;
        for (uint32_t j = 0; j <= i; j++) row[j] = matrix_at(s, s->free[i], s->free[j]);
        s->y[i] = s->r[s->free[i]];
        for (uint32_t j = s->nfree; j < s->n; j++) {
            s->y[i] -= matrix_at(s, s->free[i], s->free[j]) * s->x[s->free[j]];
        }
    }
    if (s->nfree == 0) return true;
    if (!nsi_dense_cholesky(s->nfree, s->A, s->threads)) return false;
    nsi_dense_cholesky_solve(s->nfree, s->A, 1, s->y);
    return true;
}

// Which number of `free` becomes fixed or free: exchanged with the first on the other side.
static void swap_free(box_search* s, uint32_t a, uint32_t b) {
    uint32_t kept = s->free[a];
    s->free[a] = s->free[b];
    s->free[b] = kept;
}

// Go towards the minimum of the free numbers as far as bounds allow; the first that is hit is fixed.
// True: none was.
static bool advance_to_bound(box_search* s) {
    uint32_t hit = s->nfree;
    double share = 1.0, limit = 0.0;
    for (uint32_t i = 0; i < s->nfree; i++) {
        uint32_t k = s->free[i];
        double bound = s->y[i] < s->x[k] ? s->lower[k] : s->upper[k], way = s->y[i] - s->x[k];
        if (way == 0.0 || fabs(way) * share <= fabs(bound - s->x[k])) continue;
        share = (bound - s->x[k]) / way;
        limit = bound;
        hit = i;
    }

    // Rounding must not lead beyond a bound.
    for (uint32_t i = 0; i < s->nfree; i++) {
        uint32_t k = s->free[i];
        double x = s->x[k] + share * (s->y[i] - s->x[k]);
        s->x[k] = fmin(fmax(x, s->lower[k]), s->upper[k]);
    }
    if (hit == s->nfree) return true;
    s->x[s->free[hit]] = limit;
    swap_free(s, hit, --s->nfree);
    return false;
}

// Free the number at a bound that gains most within; false: none does.
static bool release_bound(box_search* s) {
    uint32_t best = s->n;
    double gain = 0.0;
    for (uint32_t j = s->nfree; j < s->n; j++) {
        uint32_t k = s->free[j];
        double slope = box_slope(s, k), own = slope * slope / matrix_at(s, k, k);
        bool inward = s->x[k] <= s->lower[k] ? slope < 0.0 : slope > 0.0;
        if (!inward || s->lower[k] >= s->upper[k] || own <= gain) continue;
        gain = own;
        best = j;
    }
    if (best == s->n) return false;
    swap_free(s, best, s->nfree++);
    return true;
}

bool nsi_box_quadratic(uint32_t n, const double* S, const double* r, const double* lower,
                       const double* upper, uint32_t threads, double* x, double* scratch,
                       uint32_t* numbers) {
    box_search s = {.n = n,
                    .nfree = n,
                    .threads = threads,
                    .S = S,
                    .r = r,
                    .lower = lower,
                    .upper = upper,
                    .x = x,
                    .A = scratch,
                    .y = scratch + (size_t)n * n,
                    .free = numbers};
    for (uint32_t k = 0; k < n; k++) {
        x[k] = 0.0;
        numbers[k] = k;
    }

    // What begins at a bound and is pushed out stays there.
    for (uint32_t k = n; k-- > 0;) {
        bool low = lower[k] >= 0.0 && r[k] <= 0.0, high = upper[k] <= 0.0 && r[k] >= 0.0;
        if (low || high) swap_free(&s, k, --s.nfree);
    }

    // Each round fixes a number or reaches the minimum of a face; the value falls throughout, so an
    // early end is a point that is lower than the start.
    for (uint32_t round = 0; round < 4 * n + 10; round++) {
        if (!minimise_free(&s)) return false;
        if (advance_to_bound(&s) && !release_bound(&s)) break;
    }
    return true;
}
