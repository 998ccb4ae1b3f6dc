// Robust statistics of channels: range, noise, resolution, rate.

#include "data/check_state.h"

#include "base/series.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_ORDER = 8, MIN_DIFFERENCES = 16 };

// ---- order statistics ----------------------------------------------------------------------------

double nsi_median(double* x, size_t count) {
    return count > 0 ? nsi_series_select(x, count, (count - 1) / 2) : NAN;
}

static int compare_doubles(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

// ---- noise ---------------------------------------------------------------------------------------

// Sizes of the differences of this order within stretches without gaps, into scratch.
static size_t gather_differences(const ns_data_check* c, uint32_t signal, uint32_t order) {
    size_t count = 0;
    double binomial[MAX_ORDER + 1] = {1.0};
    for (uint32_t k = 1; k <= order; k++) {
        binomial[k] = -binomial[k - 1] * (order - k + 1.0) / k;
    }
    for (uint32_t r = 0; r < c->nrecording; r++) {
        const nsi_samples* s = &c->recordings[r].samples[signal];
        uint32_t since = 0; // steps without a gap up to here
        for (uint32_t k = 1; k < s->count; k++) {
            since = nsi_is_step(s, k - 1) ? since + 1 : 0;
            if (since < order) continue;
            double sum = 0.0;
            for (uint32_t i = 0; i <= order; i++) sum += binomial[i] * s->x[k - i];
            c->scratch[count++] = fabs(sum);
        }
    }
    return count;
}

double nsi_noise(const ns_data_check* c, uint32_t signal) {
    const double normal = 0.6744897501960817; // median size of a standard normal number
    double best = NAN, variance = 1.0;        // of the difference of white noise: binomial(2k, k)
    for (uint32_t order = 1; order <= MAX_ORDER; order++) {
        variance *= 2.0 * (2.0 * order - 1.0) / order;
        size_t count = gather_differences(c, signal, order);
        if (count < MIN_DIFFERENCES) break;
        double noise = nsi_median(c->scratch, count) / (normal * sqrt(variance));
        best = isnan(best) ? noise : fmin(best, noise);
    }
    return best;
}

// ---- resolution ----------------------------------------------------------------------------------

double nsi_resolution(double* x, size_t count) {
    const double tolerance = 0.1, share = 0.95; // of a step; of the distances
    if (count < 2) return 0.0;

    // Distances of distinct values, rounding apart.
    qsort(x, count, sizeof *x, compare_doubles);
    double tiny = 1e-13 * fmax(fabs(x[0]), fabs(x[count - 1]));
    size_t n = 0;
    double before = x[0];
    for (size_t k = 1; k < count; k++) {
        double step = x[k] - before;
        if (!(step > tiny)) continue;
        before = x[k];
        x[n++] = step; // behind where we read
    }
    if (n < 3) return 0.0;
    qsort(x, n, sizeof *x, compare_doubles);

    // From the smallest on: are they multiples? The step gets more exact with each of them.
    double sum = 0.0, multiples = 0.0, step = x[0];
    size_t fitting = 0;
    for (size_t k = 0; k < n; k++) {
        double multiple = round(x[k] / step);
        if (multiple < 1.0 || fabs(x[k] - multiple * step) > tolerance * step) continue;
        fitting++;
        sum += x[k];
        multiples += multiple;
        step = sum / multiples;
    }
    // By chance, a fifth of them fit.
    return n >= 8 && (double)fitting >= share * (double)n ? step : 0.0;
}

// ---- all -----------------------------------------------------------------------------------------

static size_t gather_values(const ns_data_check* c, uint32_t signal, double* out) {
    size_t count = 0;
    for (uint32_t r = 0; r < c->nrecording; r++) {
        const nsi_samples* s = &c->recordings[r].samples[signal];
        for (uint32_t k = 0; k < s->count; k++) out[count++] = s->x[k];
    }
    return count;
}

static void fill_range(ns_data_channel* out, const double* x, size_t count) {
    double mean = 0.0, squares = 0.0; // Welford 1962
    out->min = out->max = count > 0 ? x[0] : NAN;
    for (size_t k = 0; k < count; k++) {
        double off = x[k] - mean;
        mean += off / (double)(k + 1);
        squares += off * (x[k] - mean);
        out->min = fmin(out->min, x[k]);
        out->max = fmax(out->max, x[k]);
    }
    out->mean = count > 0 ? mean : NAN;
    out->deviation = count > 0 ? sqrt(squares / (double)count) : NAN;
}

// Samples that are missing at the signal's own rate.
static uint64_t count_missing(const nsi_samples* s) {
    uint64_t missing = 0;
    for (uint32_t k = 0; k + 1 < s->count; k++) {
        if (nsi_is_step(s, k)) continue;
        missing += (uint64_t)fmin(round((s->times[k + 1] - s->times[k]) / s->spacing) - 1.0, 1e9);
    }
    return missing;
}

static void fill_channel(ns_data_check* c, uint32_t signal) {
    ns_data_channel* out = &c->signals[signal].stats;
    double* values = c->scratch;
    size_t count = gather_values(c, signal, values);
    out->file = c->file;
    fill_range(out, values, count);
    out->count = count;
    out->resolution = nsi_resolution(values, count);

    // Rates of recordings, and what is missing.
    size_t nrate = 0;
    for (uint32_t r = 0; r < c->nrecording; r++) {
        const nsi_samples* s = &c->recordings[r].samples[signal];
        out->missing += count_missing(s);
        if (!isnan(s->spacing)) c->scratch[nrate++] = 1.0 / s->spacing;
    }
    out->rate = c->has_time ? nsi_median(c->scratch, nrate) : NAN;

    // Rounding alone has this deviation.
    out->noise = nsi_noise(c, signal);
    if (!isnan(out->noise)) out->noise = fmax(out->noise, out->resolution / sqrt(12.0));
}

static void fill_recording(ns_data_check* c, nsi_checked_recording* r) {
    // The source with most rows stands for all.
    ns_data_recording* out = &r->stats;
    const nsi_samples* longest = NULL;
    for (uint32_t k = 0; k < c->nsignal; k++) {
        if (!longest || r->samples[k].count > longest->count) longest = &r->samples[k];
    }
    nsi_samples rows = longest ? *longest : (nsi_samples){.spacing = NAN};
    out->rows = rows.count;
    out->start = rows.count > 0 ? rows.times[0] : NAN;
    out->duration =
        rows.count > 0 && c->has_time ? rows.times[rows.count - 1] - rows.times[0] : NAN;
    out->rate = c->has_time ? 1.0 / rows.spacing : NAN;

    // Distances of rows: of usual length, or gaps.
    double squares = 0.0, steps = 0.0;
    for (uint32_t k = 0; k + 1 < rows.count; k++) {
        double step = rows.times[k + 1] - rows.times[k];
        if (!nsi_is_step(&rows, k)) {
            out->gaps++;
            out->longest_gap = fmax(out->longest_gap, step);
            continue;
        }
        squares += (step - rows.spacing) * (step - rows.spacing);
        steps++;
    }
    out->jitter = steps > 0.0 && c->has_time ? sqrt(squares / steps) : NAN;
    if (out->jitter < 1e-9 * rows.spacing) out->jitter = 0.0; // rounding of times
}

void nsi_statistics_fill(ns_data_check* c) {
    for (uint32_t k = 0; k < c->nsignal; k++) fill_channel(c, k);
    for (uint32_t k = 0; k < c->nrecording; k++) fill_recording(c, &c->recordings[k]);
}
