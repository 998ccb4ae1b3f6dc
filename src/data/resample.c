// Resample rows at arbitrary times to a uniform grid, in one pass over rows and samples.

#include "data/resample.h"

#include "base/series.h"

#include <float.h>
#include <math.h>

static const ns_choice resample_rows[] = {NS_RESAMPLE_MAP(NS_CHOICE_ROW)};
const ns_choices ns_resamples = NS_CHOICES("resampling", resample_rows);

// ---- grids ---------------------------------------------------------------------------------

double nsi_grid_tolerance(double period, double largest_time) {
    return fmax(1e-6 * period, 4.0 * DBL_EPSILON * fabs(largest_time));
}

// To this many digits.
static double round_digits(double x, int digits) {
    int exponent = digits - 1 - (int)floor(log10(x));
    double scale = pow(10.0, fabs((double)exponent));
    return exponent >= 0 ? round(x * scale) / scale : round(x / scale) * scale;
}

double nsi_grid_period(const double* times, uint32_t count, double* scratch) {
    if (count < 2) return NAN;
    double period = nsi_series_spacing(times, count, scratch), steps = count - 1.0;
    double whole = (times[count - 1] - times[0]) / steps, deviation = 0.0;
    for (uint32_t k = 0; k < count; k++) {
        deviation = fmax(deviation, fabs(times[k] - times[0] - k * whole));
    }
    // Times of even rows are rounded, or tremble a little: their mean is better than the median.
    if (deviation <= 0.01 * whole) {
        period = whole;
    } else {
        deviation = 0.0;
    }
    if (!(period >= NSI_GRID_MIN_PERIOD && period <= NSI_GRID_MAX_PERIOD)) return period;

    // Accumulated over all rows, rounding must not exceed the deviation of the times.
    double tolerance = fmax(deviation, 1e-6 * period) / steps;
    for (int digits = 1; digits <= 12; digits++) {
        double rounded = round_digits(period, digits);
        if (fabs(rounded - period) <= tolerance) return rounded;
        rounded = 1.0 / round_digits(1.0 / period, digits);
        if (fabs(rounded - period) <= tolerance) return rounded;
    }
    return period;
}

// The last row that is not later than the time; the first when all are. `from` is a row before.
static uint32_t row_before(const double* times, uint32_t count, uint32_t from, double time) {
    while (from + 1 < count && times[from + 1] <= time) from++;
    return from;
}

static bool too_far(double distance, double max_gap) {
    return distance > max_gap * (1.0 + 1e-9); // the distance of two rounded times
}

nsi_grid_fit nsi_grid_compare(const nsi_grid* grid, const double* times, uint32_t count,
                              double spacing, double max_gap) {
    nsi_grid_fit fit = {0};
    double last = grid->start + (grid->count - 1.0) * grid->period;
    for (uint32_t k = 0; k < count; k++) {
        if (times[k] >= grid->start - grid->tolerance && times[k] <= last + grid->tolerance) {
            fit.rows++;
        }
        if (k == 0) continue;
        double steps = (times[k] - times[k - 1]) / spacing;
        if (steps > 1.5) fit.gaps = true;
        if (fabs(steps - round(steps)) > 0.01) fit.uneven = true;
    }
    for (uint32_t k = 0, row = 0; k < grid->count; k++) {
        double time = grid->start + k * grid->period;
        row = row_before(times, count, row, time + grid->tolerance);
        if (fabs(times[row] - time) <= grid->tolerance) {
            fit.at++;
        } else if (row + 1 < count && !too_far(times[row + 1] - times[row], max_gap)) {
            fit.between++;
        }
    }
    return fit;
}

// ---- numbers -------------------------------------------------------------------------------

// The slope at a row from the parabola through it and its neighbours: for even rows that of
// Catmull & Rom 1974. NaN when a neighbour is not there, or beyond a gap.
static double slope_at(const double* t, const double* x, uint32_t count, uint32_t row,
                       double max_gap) {
    if (row == 0 || row + 1 >= count) return NAN;
    double before = t[row] - t[row - 1], after = t[row + 1] - t[row];
    if (too_far(before, max_gap) || too_far(after, max_gap)) return NAN;
    double slope_before = (x[row] - x[row - 1]) / before;
    double slope_after = (x[row + 1] - x[row]) / after;
    return (before * slope_after + after * slope_before) / (before + after);
}

// The Hermite polynomial between row and the next, at a fraction s of the way. Where one slope is
// not known a parabola remains, without both a line.
static double cubic(const double* t, const double* x, uint32_t count, uint32_t row, double s,
                    double max_gap) {
    double h = t[row + 1] - t[row], rise = x[row + 1] - x[row];
    double m0 = slope_at(t, x, count, row, max_gap) * h;
    double m1 = slope_at(t, x, count, row + 1, max_gap) * h;
    if (isnan(m0) && isnan(m1)) m0 = m1 = rise;
    if (isnan(m0)) m0 = 2.0 * rise - m1;
    if (isnan(m1)) m1 = 2.0 * rise - m0;
    double a = m0 + m1 - 2.0 * rise, b = 3.0 * rise - 2.0 * m0 - m1;
    return x[row] + s * (m0 + s * (b + s * a));
}

void nsi_resample(const nsi_grid* grid, const double* times, const double* x, uint32_t count,
                  ns_resample manner, double max_gap, double* out, size_t stride) {
    for (uint32_t k = 0, row = 0; k < grid->count; k++) {
        double time = grid->start + k * grid->period, *result = out + k * stride;
        *result = NAN;
        if (count == 0) continue;
        row = row_before(times, count, row, time + grid->tolerance);
        bool at = fabs(times[row] - time) <= grid->tolerance;
        bool outside = times[row] > time || row + 1 == count;
        if (at || (outside && isinf(max_gap))) {
            *result = x[row];
            continue;
        }
        if (outside || too_far(times[row + 1] - times[row], max_gap)) continue;
        double s = (time - times[row]) / (times[row + 1] - times[row]);
        switch (manner) {
        case NS_RESAMPLE_LINEAR: *result = x[row] + s * (x[row + 1] - x[row]); break;
        case NS_RESAMPLE_NEAREST: *result = s < 0.5 ? x[row] : x[row + 1]; break;
        case NS_RESAMPLE_CUBIC: *result = cubic(times, x, count, row, s, max_gap); break;
        }
    }
}

void nsi_resample_held(const nsi_grid* grid, const double* times, const double* x, uint32_t count,
                       double* out, size_t stride) {
    uint32_t row = 0; // that holds at the beginning of a sample
    for (uint32_t k = 0; k < grid->count; k++) {
        double from = grid->start + k * grid->period, to = from + grid->period;
        while (row + 1 < count && times[row + 1] <= from + grid->tolerance) row++;
        uint32_t last = row; // that holds at its end
        while (last + 1 < count && times[last + 1] < to - grid->tolerance) last++;
        double sum = 0.0, begin = from;
        for (uint32_t i = row; i < last; i++) {
            sum += x[i] * (times[i + 1] - begin);
            begin = times[i + 1];
        }
        sum += x[last] * (to - begin);
        out[k * stride] = last == row ? x[row] : sum / grid->period;
    }
}
