// Columns of numbers over time.

#include "base/series.h"

#include <math.h>

void nsi_series_unwrap(double* x, uint32_t count) {
    const double turn = 6.28318530717958647692;
    double last = NAN;
    for (uint32_t k = 0; k < count; k++) {
        if (isnan(x[k])) continue;
        if (!isnan(last)) x[k] -= turn * round((x[k] - last) / turn);
        last = x[k];
    }
}

// ---- spacing -------------------------------------------------------------------------------

// Hoare's selection.
double nsi_series_select(double* x, size_t count, size_t rank) {
    int64_t low = 0, high = (int64_t)count - 1, wanted = (int64_t)rank;
    while (low < high) {
        double pivot = x[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot) i++;
            while (x[j] > pivot) j--;
            if (i > j) break;
            double swap = x[i];
            x[i++] = x[j];
            x[j--] = swap;
        }
        if (wanted > j && wanted < i) break; // between the parts: the pivot
        if (wanted <= j) {
            high = j;
        } else {
            low = i;
        }
    }
    return x[rank];
}

double nsi_series_spacing(const double* times, uint32_t count, double* scratch) {
    if (count < 2) return NAN;
    for (uint32_t k = 0; k + 1 < count; k++) scratch[k] = times[k + 1] - times[k];
    return nsi_series_select(scratch, count - 1, (count - 2) / 2);
}

// ---- smoothing -----------------------------------------------------------------------------

typedef struct window {
    double s[NSI_SERIES_MAX_WINDOW]; // times from the row in the middle, scaled
    double r[NSI_SERIES_MAX_WINDOW]; // what is left of the numbers
    uint32_t count;
} window;

static double series_dot(const double* a, const double* b, uint32_t count) {
    double sum = 0.0;
    for (uint32_t k = 0; k < count; k++) sum += a[k] * b[k];
    return sum;
}

// The polynomial at s = 0, or its derivative there, in the basis of polynomials that are orthogonal
// on the points (Forsythe 1957): p[k+1] = (s - a) p[k] - b p[k-1]. No equations to solve, and none
// to be badly conditioned.
static double fit_at_zero(window* w, uint32_t order, bool derivative) {
    double p[NSI_SERIES_MAX_WINDOW], before[NSI_SERIES_MAX_WINDOW];
    double norm_before = 1.0, result = 0.0;
    double value = 1.0, value_before = 0.0; // of p[k] and p[k-1] at 0
    double slope = 0.0, slope_before = 0.0;

    // Polynomials that are orthogonal on the samples, one degree after the other (three-term
    // recurrence).
    for (uint32_t k = 0; k < w->count; k++) p[k] = 1.0, before[k] = 0.0;
    for (uint32_t degree = 0;; degree++) {
        // The share of this degree, evaluated at 0.
        double norm = series_dot(p, p, w->count), c = series_dot(w->r, p, w->count) / norm, a = 0.0;
        result += c * (derivative ? slope : value);
        if (degree == order) return result;

        // Coefficients of the recurrence; the residual loses what has been fitted.
        // The next polynomial at the samples, then its value and slope at 0.
        for (uint32_t k = 0; k < w->count; k++) {
            w->r[k] -= c * p[k];
            a += w->s[k] * p[k] * p[k];
        }
        a /= norm;
        double b = degree > 0 ? norm / norm_before : 0.0;
        for (uint32_t k = 0; k < w->count; k++) {
            double next = (w->s[k] - a) * p[k] - b * before[k];
            before[k] = p[k];
            p[k] = next;
        }
        double next_slope = value - a * slope - b * slope_before;
        double next_value = -a * value - b * value_before;
        slope_before = slope, slope = next_slope;
        value_before = value, value = next_value;
        norm_before = norm;
    }
}

void nsi_series_smooth(const double* x, const double* times, uint32_t count, uint32_t size,
                       uint32_t order, bool derivative, double* out) {
    double spacing = times ? nsi_series_spacing(times, count, out) : 1.0; // `out` as scratch
    if (count < 2) spacing = 1.0;
    uint32_t half = size / 2;
    double reach = size * spacing, scale = half * spacing;
    window w;
    for (uint32_t row = 0; row < count; row++) {
        uint32_t most = size < count ? size : count;
        uint32_t first = row > most / 2 ? row - most / 2 : 0;
        if (first > count - most) first = count - most;
        w.count = 0;
        for (uint32_t k = first; k < first + most && !isnan(x[row]); k++) {
            double s = times ? times[k] - times[row] : (double)k - (double)row;
            if (isnan(x[k]) || fabs(s) > reach) continue;
            w.s[w.count] = s / scale;
            w.r[w.count++] = x[k];
        }
        out[row] = w.count > order ? fit_at_zero(&w, order, derivative) : NAN;
        if (derivative) out[row] /= scale;
    }
}
