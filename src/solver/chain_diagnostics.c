// What chains say of a number: quantiles, split R-hat and effective sample sizes after Vehtari,
// Gelman, Simpson, Carpenter & Buerkner 2021, "Rank-normalization, folding, and localization: an
// improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16.

#include "neuralsim/posterior.h"

#include "base/common.h"

#include <math.h>
#include <stdlib.h>

typedef struct ranked {
    double value;
    size_t at;
} ranked;

static int compare_ranked(const void* a, const void* b) {
    const ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

// The standard normal quantile of 0 < p < 1: rational approximation (Acklam 2003), one Halley step.
static double normal_quantile(double p) {
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                               -2.759285104469687e+02, 1.383577518672690e+02,
                               -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                               -1.556989798598866e+02, 6.680131188771972e+01,
                               -1.328068155288572e+01};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01,
                               -2.400758277161838e+00, -2.549732539343734e+00,
                               4.374664141464968e+00,  2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                               3.754408661907416e+00};
    static const double ROOT_2PI = 2.50662827463100050242;

    // The approximation: one for the tails, one between them.
    double x, tail = p < 0.5 ? p : 1.0 - p;
    if (tail < 0.02425) {
        double q = sqrt(-2.0 * log(tail));
        x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
            ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1.0);
        if (p > 0.5) x = -x;
    } else {
        double q = p - 0.5, r = q * q;
        x = (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
            (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1.0);
    }

    // Halley's step.
    double e = 0.5 * erfc(-x / sqrt(2.0)) - p, u = e * ROOT_2PI * exp(0.5 * x * x);
    return x - u / (1.0 + 0.5 * x * u);
}

// Normal scores of ranks, (r - 3/8) / (S + 1/4); ties share the mean of theirs. `sorted` (count).
static void normal_scores(const double* x, size_t count, ranked* sorted, double* out) {
    for (size_t k = 0; k < count; k++) sorted[k] = (ranked){x[k], k};
    qsort(sorted, count, sizeof *sorted, compare_ranked);
    for (size_t k = 0; k < count;) {
        size_t end = k + 1;
        while (end < count && sorted[end].value == sorted[k].value) end++;
        double rank = 0.5 * ((double)k + 1.0 + (double)end);
        double score = normal_quantile((rank - 0.375) / ((double)count + 0.25));
        for (; k < end; k++) out[sorted[k].at] = score;
    }
}

static double chain_mean(const double* x, uint32_t count) {
    double sum = 0.0;
    for (uint32_t k = 0; k < count; k++) sum += x[k];
    return sum / count;
}

// Sum over pairs (count - lag) of a chain without its mean, divided by count.
static double autocovariance(const double* x, uint32_t count, double mean, uint32_t lag) {
    double sum = 0.0;
    for (uint32_t k = 0; k + lag < count; k++) sum += (x[k] - mean) * (x[k + lag] - mean);
    return sum / count;
}

// Variance within chains, and that which they have together.
static void chain_variances(const double* x, uint32_t chains, uint32_t count, double* within,
                            double* total) {
    double mean = 0.0, between = 0.0;
    *within = 0.0;
    for (uint32_t c = 0; c < chains; c++) {
        const double* one = x + (size_t)c * count;
        double m = chain_mean(one, count), before = mean;
        *within += autocovariance(one, count, m, 0) * count / (count - 1.0) / chains;
        mean += (m - mean) / (c + 1.0);
        between += (m - before) * (m - mean);
    }
    between = chains > 1 ? between / (chains - 1.0) : 0.0;
    *total = *within * (count - 1.0) / count + between;
}

static double split_rhat(const double* x, uint32_t chains, uint32_t count) {
    double within, total;
    chain_variances(x, chains, count, &within, &total);
    return within > 0.0 ? sqrt(total / within) : (double)NAN;
}

// Effective sample size by Geyer's initial monotone sequence (Geyer 1992).
static double effective_size(const double* x, uint32_t chains, uint32_t count) {
    double within, total, all = (double)chains * count;
    chain_variances(x, chains, count, &within, &total);
    if (!(total > 0.0)) return NAN;

    // Pairs of autocorrelations are positive and fall, until noise sets in.
    double sum = 0.0, last = INFINITY;
    for (uint32_t lag = 0; lag + 1 < count; lag += 2) {
        double rho[2] = {1.0, 0.0};
        for (uint32_t i = lag == 0; i < 2; i++) {
            double mean = 0.0;
            for (uint32_t c = 0; c < chains; c++) {
                const double* one = x + (size_t)c * count;
                mean += autocovariance(one, count, chain_mean(one, count), lag + i) / chains;
            }
            rho[i] = 1.0 - (within * (count - 1.0) / count - mean) / total;
        }
        double pair = fmin(rho[0] + rho[1], last);
        if (pair < 0.0) break;
        sum += pair;
        last = pair;
    }
    double tau = fmax(2.0 * sum - 1.0, 1.0 / log10(fmax(all, 10.0)));
    return all / tau;
}

static double quantile_of(const ranked* sorted, size_t count, double p) {
    double at = p * (double)(count - 1);
    size_t low = (size_t)at, high = low + 1 < count ? low + 1 : low;
    return sorted[low].value + (at - (double)low) * (sorted[high].value - sorted[low].value);
}

// Each chain as two: of an odd number of samples the middle one is left out.
static void split_chains(const double* x, uint32_t chains, uint32_t count, double* out) {
    uint32_t half = count / 2;
    for (uint32_t c = 0; c < chains; c++) {
        const double* from = x + (size_t)c * count;
        memcpy(out + (size_t)(2 * c) * half, from, half * sizeof *out);
        memcpy(out + (size_t)(2 * c + 1) * half, from + (count - half), half * sizeof *out);
    }
}

// R-hat and effective sizes, of the split chains x (2 chains x half).
static void diagnose(const double* x, uint32_t chains, uint32_t half, ranked* sorted,
                     double* scratch, ns_chain_summary* out) {
    const size_t all = (size_t)chains * half;
    double median = out->median;

    // Of the bulk, by ranks; of the spread, by ranks of distances from the median.
    normal_scores(x, all, sorted, scratch);
    double bulk = split_rhat(scratch, chains, half);
    out->ess_bulk = effective_size(scratch, chains, half);
    double* folded = scratch + all;
    for (size_t k = 0; k < all; k++) folded[k] = fabs(x[k] - median);
    normal_scores(folded, all, sorted, scratch);
    out->rhat = fmax(bulk, split_rhat(scratch, chains, half));

    // Of the tails, by which samples are beyond the quantiles.
    for (int side = 0; side < 2; side++) {
        for (size_t k = 0; k < all; k++) scratch[k] = x[k] <= (side == 0 ? out->lower : out->upper);
        double size = effective_size(scratch, chains, half);
        out->ess_tail = side == 0 ? size : fmin(out->ess_tail, size);
    }
}

bool ns_chains_summarise(const double* x, uint32_t chains, uint32_t count, ns_chain_summary* out) {
    *out = (ns_chain_summary){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    const size_t all = (size_t)chains * count;
    if (all == 0) return true;
    ns_allocator memory = ns_default_allocator();
    ranked* sorted = nsi_alloc(&memory, all * sizeof *sorted);
    double* scratch = nsi_alloc(&memory, 3 * all * sizeof *scratch);
    if (!sorted || !scratch) {
        nsi_free(&memory, sorted);
        nsi_free(&memory, scratch);
        return false;
    }

    // Moments and quantiles of all samples.
    out->mean = 0.0;
    double squares = 0.0;
    for (size_t k = 0; k < all; k++) {
        double off = x[k] - out->mean;
        out->mean += off / (double)(k + 1);
        squares += off * (x[k] - out->mean);
        sorted[k] = (ranked){x[k], k};
    }
    out->deviation = all > 1 ? sqrt(squares / (double)(all - 1)) : 0.0;
    qsort(sorted, all, sizeof *sorted, compare_ranked);
    out->median = quantile_of(sorted, all, 0.5);
    out->lower = quantile_of(sorted, all, 0.05);
    out->upper = quantile_of(sorted, all, 0.95);

    // Chains that are too short say nothing of convergence.
    if (count >= 4 && isfinite(squares)) {
        split_chains(x, chains, count, scratch + 2 * all);
        diagnose(scratch + 2 * all, 2 * chains, count / 2, sorted, scratch, out);
    }
    nsi_free(&memory, sorted);
    nsi_free(&memory, scratch);
    return true;
}

ns_chain_summary ns_samples_summary(const ns_samples* s, uint32_t k) {
    ns_chain_summary out = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    ns_allocator memory = ns_default_allocator();
    const size_t all = (size_t)s->chains * s->count;
    double* column = nsi_alloc(&memory, (all + 1) * sizeof *column);
    if (!column) return out;
    for (size_t i = 0; i < all; i++) column[i] = s->x[i * s->n + k];
    ns_chains_summarise(column, s->chains, s->count, &out);
    nsi_free(&memory, column);
    return out;
}
