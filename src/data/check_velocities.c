// Velocities against the rates of positions: over windows of a few samples, the change of the position is
// compared with the integral of the velocity, at several delays. Both sides are averages over the same
// samples, so that noise makes no bias in their ratio.
//
// Of a motion that turns through the phase p from sample to sample, the trapezoidal integral of the velocity
// is too small by tan(p/2) / (p/2), which is divided out. A velocity made of central differences is itself
// too small by sin(p) / p, which is no other unit: that much more is allowed. Beyond 75 degrees nothing is
// judged.

#include "data/check_state.h"

#include <math.h>
#include <stdio.h>

enum {
    MAX_DELAY = 12,
    DELAYS = 2 * MAX_DELAY + 1,
    LEVELS = 7,
    MAX_ORIGINS = 20000,
    MIN_WINDOWS = 30
};

static const struct {
    double good;        // correlation at which a scale is judged
    double scale;       // largest factor between a velocity and the rate of its position
    double delay;       // samples
    double improvement; // of the unexplained part by a delay
    double unexplained; // least part without it
    double phase;       // largest phase per sample, rad
    double errors;      // by how many standard errors a scale or a delay is beyond its limit
} thresholds = {.good = 0.95,
                .scale = 1.2,
                .delay = 1.2,
                .improvement = 1.5,
                .unexplained = 0.005,
                .errors = 3.0,
                .phase = 75.0 * NSI_PI / 180.0};

// ---- sums ----------------------------------------------------------------------------------------

typedef struct moments {
    double n, x, v, xx, xv, vv;
} moments;

static void moments_add(moments* m, double x, double v) {
    m->n++;
    m->x += x;
    m->v += v;
    m->xx += x * x;
    m->xv += x * v;
    m->vv += v * v;
}

static double variance_x(const moments* m) {
    return (m->xx - m->x * m->x / m->n) / m->n;
}
static double variance_v(const moments* m) {
    return (m->vv - m->v * m->v / m->n) / m->n;
}
static double correlation(const moments* m) {
    double both = variance_x(m) * variance_v(m);
    double covariance = (m->xv - m->x * m->v / m->n) / m->n;
    return m->n >= MIN_WINDOWS && both > 0.0 ? covariance / sqrt(both) : 0.0;
}

// A recording's position and velocity on the grid, with what makes windows cheap.
typedef struct pair_samples {
    uint32_t count;
    double* x;        // (count)
    double* integral; // (count) of the velocity, 0 where it is missing
    double* faults;   // (count) missing values and jumps up to here
} pair_samples;

// Does the position jump between k and k + 1, as a wrapped angle does?
static bool jumps(const double* x, uint32_t count, uint32_t k) {
    const uint32_t reach = 6;
    double step = fabs(x[k + 1] - x[k]), around = 0.0;
    for (uint32_t i = k > reach ? k - reach : 0; i < k + reach && i + 1 < count; i++) {
        // The steps of a single outlier are side by side.
        if (i + 2 < k || i > k + 2) around = fmax(around, fabs(x[i + 1] - x[i]));
    }
    return step > 6.0 * around && around > 0.0;
}

static void take_pair(const ns_data_check* c, const nsi_checked_recording* r, uint32_t position,
                      uint32_t velocity, pair_samples* out) {
    const ns_recording* rec = r->recording;
    double period = ns_dataset_period(r->data), integral = 0.0, faults = 0.0, before = NAN;
    out->count = rec->nsample;
    for (uint32_t k = 0; k < rec->nsample; k++)
        out->x[k] = rec->values[(size_t)k * c->nchannel + position];
    for (uint32_t k = 0; k < rec->nsample; k++) {
        double v = rec->values[(size_t)k * c->nchannel + velocity];
        bool known = !isnan(out->x[k]) && !isnan(v);
        if (k > 0 && known && !isnan(before)) integral += 0.5 * period * (before + v);
        if (!known || (k > 0 && jumps(out->x, out->count, k - 1))) faults++;
        out->integral[k] = integral;
        out->faults[k] = faults;
        before = v;
    }
}

// Windows of `length` steps, at all delays. The same windows for each of them.
static void add_windows(const pair_samples* s, uint32_t length, uint32_t stride,
                        moments sums[DELAYS]) {
    for (uint32_t k = MAX_DELAY; k + length + MAX_DELAY < s->count; k += stride) {
        uint32_t first = k - MAX_DELAY, last = k + length + MAX_DELAY;
        if (s->faults[last] > s->faults[first]) continue;
        double change = s->x[k + length] - s->x[k];
        for (int d = 0; d < DELAYS; d++) {
            uint32_t at = first + (uint32_t)d;
            moments_add(&sums[d], change, s->integral[at + length] - s->integral[at]);
        }
    }
}

// ---- matching ------------------------------------------------------------------------------------

static double delay_quality(const moments sums[DELAYS], uint32_t delay) {
    return fabs(correlation(&sums[delay]));
}

// The best delay. A motion that repeats fits as well a period later, and half a period later with the other
// sign: of peaks that are as good, the one nearest to no delay. Peaks between samples lose up to sin^2(p/2).
static uint32_t best_delay(const moments sums[DELAYS], double phase) {
    uint32_t best = MAX_DELAY;
    for (uint32_t d = 0; d < DELAYS; d++) {
        if (delay_quality(sums, d) > delay_quality(sums, best)) best = d;
    }
    double least = 1.0 - delay_quality(sums, best) * delay_quality(sums, best);
    double enough = thresholds.improvement * least + 0.5 * thresholds.unexplained +
                    sin(0.5 * phase) * sin(0.5 * phase);
    for (uint32_t k = 0; k < 2 * MAX_DELAY - 1; k++) {
        uint32_t d = k % 2 ? MAX_DELAY + (k + 1) / 2 : MAX_DELAY - k / 2;
        double quality = delay_quality(sums, d);
        bool peak = quality >= delay_quality(sums, d - 1) && quality >= delay_quality(sums, d + 1);
        if (peak && 1.0 - quality * quality <= enough) return d;
    }
    return best;
}

// Between samples, by a parabola through three correlations.
static double refine_delay(const moments sums[DELAYS], uint32_t best) {
    double offset = 0.0;
    if (best > 0 && best + 1 < DELAYS) {
        double a = fabs(correlation(&sums[best - 1])), b = fabs(correlation(&sums[best])),
               d = fabs(correlation(&sums[best + 1])), bend = a - 2.0 * b + d;
        if (bend < 0.0) offset = 0.5 * (a - d) / bend;
    }
    return (double)best - MAX_DELAY + offset;
}

// Standard errors of the scale, as a share of it, and of the delay, in samples. Windows that overlap count
// once, less the three numbers that are fitted; the delay is as sharp as the peak of the correlation.
static void match_errors(const moments sums[DELAYS], uint32_t at, double overlap, double* scale,
                         double* delay) {
    double r = fabs(correlation(&sums[at]));
    double independent = sums[at].n / fmax(overlap, 1.0) - 3.0;
    *scale = independent > 0.0 ? sqrt(fmax(1.0 - r * r, 0.0) / independent) : INFINITY;
    uint32_t before = at > 0 ? at - 1 : at + 1, behind = at + 1 < DELAYS ? at + 1 : at - 1;
    double bend = 2.0 * r - fabs(correlation(&sums[before])) - fabs(correlation(&sums[behind]));
    *delay = bend > 0.0 ? *scale / sqrt(bend) : INFINITY;
}

// The phase (rad) by which the velocity turns from sample to sample, from its covariances at lags 1 and 2:
// for a sine, c1 : c2 = cos p : cos 2p, with or without white noise. NaN from a quarter turn on.
static double phase_per_sample(const ns_data_check* c, uint32_t velocity) {
    double sums[2] = {0.0, 0.0};
    for (uint32_t r = 0; r < c->nrecording; r++) {
        const ns_recording* rec = c->recordings[r].recording;
        const double* v = rec->values + velocity;
        double mean = 0.0;
        size_t stride = c->nchannel, count = 0;
        for (size_t k = 0; k < rec->nsample; k++) {
            if (isnan(v[k * stride])) continue;
            mean += v[k * stride];
            count++;
        }
        mean /= count > 0 ? (double)count : 1.0;
        for (size_t k = 0; k + 2 < rec->nsample; k++) {
            double a = v[k * stride] - mean, b = v[(k + 1) * stride] - mean,
                   d = v[(k + 2) * stride] - mean;
            if (isnan(a + b + d)) continue;
            sums[0] += 0.5 * (a * b + b * d);
            sums[1] += a * d;
        }
    }
    if (!(sums[0] > 0.0)) return NAN;
    double ratio = sums[1] / sums[0], cosine = 0.25 * (ratio + sqrt(ratio * ratio + 8.0));
    return acos(fmin(cosine, 1.0));
}

static void match_pair(ns_data_check* c, uint32_t position, pair_samples* s) {
    nsi_signal* signal = &c->signals[position];
    double phase = phase_per_sample(c, signal->velocity);
    if (!(phase < thresholds.phase)) return;
    moments sums[LEVELS][DELAYS] = {{{0}}};
    size_t total = 0;
    for (uint32_t r = 0; r < c->nrecording; r++) total += c->recordings[r].recording->nsample;
    uint32_t stride = (uint32_t)(1 + total / MAX_ORIGINS);
    for (uint32_t r = 0; r < c->nrecording; r++) {
        take_pair(c, &c->recordings[r], position, signal->velocity, s);
        for (uint32_t i = 0; i < LEVELS; i++) add_windows(s, 1u << i, stride, sums[i]);
    }

    // The shortest windows in which noise does not matter, or the best ones.
    uint32_t level = 0;
    double best = 0.0;
    for (uint32_t i = 0; i < LEVELS && best < 0.99; i++) {
        double found = fabs(correlation(&sums[i][best_delay(sums[i], phase)]));
        if (!(found > best + 0.002)) continue;
        best = found;
        level = i;
    }
    const moments* m = sums[level];
    uint32_t at = best_delay(m, phase);
    if (m[at].n < MIN_WINDOWS || best < thresholds.good) return;

    // How far both may be off by chance.
    double scale_error, delay_error;
    match_errors(m, at, (double)(1u << level) / stride, &scale_error, &delay_error);

    // What the phase per sample makes of integrals and of differences.
    double integral = phase > 1e-6 ? tan(0.5 * phase) / (0.5 * phase) : 1.0;
    double sign = correlation(&m[at]) < 0.0 ? -1.0 : 1.0;
    signal->match = (nsi_velocity_match){
        .known = true,
        .scale = sign * sqrt(variance_x(&m[at]) / variance_v(&m[at])) / integral,
        .shrink = phase > 1e-6 ? phase / sin(phase) : 1.0,
        .delay = refine_delay(m, at) * ns_dataset_period(c->recordings[0].data),
        .correlation = correlation(&m[at]),
        .at_zero = correlation(&m[MAX_DELAY]),
        .scale_error = scale_error,
        .delay_error = delay_error * ns_dataset_period(c->recordings[0].data)};
}

void nsi_match_velocities(ns_data_check* c) {
    uint32_t most = 0;
    for (uint32_t r = 0; r < c->nrecording; r++) {
        uint32_t count = c->recordings[r].recording->nsample;
        if (count > most) most = count;
    }
    double* memory = nsi_alloc(&c->allocator, (3 * (size_t)most + 1) * sizeof *memory);
    pair_samples s = {.x = memory, .integral = memory + most, .faults = memory + 2 * (size_t)most};
    if (!memory) c->failed = true;
    for (uint32_t k = 0; k < c->nchannel && memory && c->has_time; k++) {
        if (c->signals[k].velocity != NSI_NONE && c->map->row_samples == 0) match_pair(c, k, &s);
    }
    nsi_free(&c->allocator, memory);
}

// ---- findings ------------------------------------------------------------------------------------

static void check_scale(ns_data_check* c, const nsi_signal* position, const nsi_signal* velocity) {
    double scale = position->match.scale, largest = thresholds.scale * position->match.shrink;
    double error = 1.0 + thresholds.errors * position->match.scale_error;
    if (scale * error > 1.0 / thresholds.scale && scale < largest * error) return;
    // Units have findings of their own.
    if (nsi_was_found(c, NS_DATA_MILLISECONDS, NULL) ||
        nsi_was_found(c, NS_DATA_DEGREES, position->name) ||
        nsi_was_found(c, NS_DATA_DEGREES, velocity->name) ||
        nsi_was_found(c, NS_DATA_MILLIMETRES, position->name) ||
        nsi_was_found(c, NS_DATA_MILLIMETRES, velocity->name)) {
        return;
    }
    char advice[200];
    if (scale > -largest && scale < -1.0 / thresholds.scale) {
        snprintf(advice, sizeof advice, "change the sign of the velocity or of the position");
    } else {
        snprintf(advice, sizeof advice, "check units and gear ratio: multiply one of them");
    }
    nsi_find(c, NS_DATA_VELOCITY_SCALE, NS_DATA_WARNING, velocity->name, NULL, scale, advice,
             "the rate of %s is %.4g times this velocity (correlation %.3f)", position->name, scale,
             fabs(position->match.correlation));
}

static void check_delay(ns_data_check* c, const nsi_signal* position, const nsi_signal* velocity) {
    const nsi_velocity_match* m = &position->match;
    double period = ns_dataset_period(c->recordings[0].data);
    double without = 1.0 - m->at_zero * m->at_zero, with = 1.0 - m->correlation * m->correlation;
    double least = thresholds.delay * period + thresholds.errors * m->delay_error;
    if (!(fabs(m->delay) >= least) || without < thresholds.unexplained ||
        without < thresholds.improvement * with) {
        return;
    }
    double samples = m->delay / period;
    char advice[300];
    snprintf(advice, sizeof advice,
             "write shift(%.80s, %d) in the map, or correct its clock by `offset`",
             velocity->formula, -(int)round(samples));
    nsi_find(c, NS_DATA_VELOCITY_DELAY, NS_DATA_WARNING, velocity->name, NULL, m->delay, advice,
             "it is %.2g ms (%.2g samples) %s relative to %s", 1e3 * fabs(m->delay), fabs(samples),
             m->delay > 0.0 ? "late" : "early", position->name);
}

void nsi_check_velocities(ns_data_check* c) {
    for (uint32_t k = 0; k < c->nchannel; k++) {
        const nsi_signal* s = &c->signals[k];
        if (!s->match.known) continue;
        check_scale(c, s, &c->signals[s->velocity]);
        check_delay(c, s, &c->signals[s->velocity]);
    }
}
