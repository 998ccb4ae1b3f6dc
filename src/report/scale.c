// Axes.

#include "report/scale.h"

#include <float.h>
#include <math.h>

bool nsi_scale_shows(const nsi_scale* scale, double value) {
    return isfinite(value) && (!scale->log || value > 0.0);
}

nsi_scale nsi_scale_empty(bool log) {
    return (nsi_scale){.log = log, .low = INFINITY, .high = -INFINITY};
}

void nsi_scale_include(nsi_scale* scale, double value) {
    if (!nsi_scale_shows(scale, value)) return;
    double at = scale->log ? log10(value) : value;
    scale->low = fmin(scale->low, at);
    scale->high = fmax(scale->high, at);
}

void nsi_scale_finish(nsi_scale* scale, double margin) {
    if (!(scale->low <= scale->high)) scale->low = scale->high = 0.0; // nothing was included
    // A logarithmic scale is wide enough for a tick, and no scale is a single point.
    double largest = fmax(fabs(scale->low), fabs(scale->high));
    double least = scale->log ? 0.4 : fmax(largest * 1e-12, DBL_MIN);
    double span = scale->high - scale->low;
    if (!scale->log && span <= least) {
        double widen = scale->low != 0.0 ? fmax(0.1 * fabs(scale->low), DBL_MIN) : 1.0;
        scale->low -= widen;
        scale->high += widen;
    } else if (span < least) {
        double widen = 0.5 * (least - span);
        scale->low -= widen;
        scale->high += widen;
    }
    double extra = margin * (scale->high - scale->low);
    if (!isfinite(extra)) extra = 0.0; // from one end of all numbers to the other
    scale->low = fmax(scale->low - extra, -DBL_MAX);
    scale->high = fmin(scale->high + extra, DBL_MAX);
}

// Quarters: the span of all numbers is not one.
double nsi_scale_place(const nsi_scale* scale, double value) {
    double at = 0.25 * (scale->log ? log10(value) : value);
    double low = 0.25 * scale->low, span = 0.25 * scale->high - low;
    return scale->from + (at - low) / span * (scale->to - scale->from);
}

static void add_tick(nsi_ticks* ticks, double value, int digits) {
    if (ticks->count == NSI_MAX_TICKS || !isfinite(value)) return; // 5e308 is none
    ticks->value[ticks->count] = value;
    ticks->label[ticks->count++] = nsi_format_short(value, digits);
}

// At 1, 2, 5 and 10 where powers of ten may be fewer than two, or at every n-th power of ten.
static void add_log_ticks(nsi_ticks* ticks, const nsi_scale* scale, uint32_t wanted) {
    double span = scale->high - scale->low, step = fmax(1.0, ceil(span / wanted));
    while (step > 1.0 && span < 2.0 * step) step -= 1.0;
    double first = step * floor(scale->low / step);
    int count = (int)fmin((scale->high - first) / step + 1.0, 1000.0);
    for (int k = 0; k < count; k++) {
        double decade = first + k * step;
        for (int digit = 1; digit <= 5; digit += digit == 1 ? 1 : 3) {
            double tick = decade + log10(digit);
            bool seen = tick >= scale->low && tick <= scale->high;
            if (seen && (digit == 1 || span < 2.0)) add_tick(ticks, pow(10.0, decade) * digit, 2);
        }
    }
}

// Multiples of 1, 2 or 5 times a power of ten: at most so many, unless there were fewer than two.
static void add_linear_ticks(nsi_ticks* ticks, const nsi_scale* scale, uint32_t wanted) {
    static const double digits_of_steps[] = {0.5, 1.0, 2.0, 5.0, 10.0};
    double span = scale->high / wanted - scale->low / wanted;
    double power = pow(10.0, floor(log10(span))), share = span / power;
    int which = share <= 1.0 ? 1 : share <= 2.0 ? 2 : share <= 5.0 ? 3 : 4;
    double step = power * digits_of_steps[which];
    if (floor(scale->high / step + 1e-9) - ceil(scale->low / step - 1e-9) < 1.0) {
        step = power * digits_of_steps[which - 1];
    }
    if (!(step > 0.0 && isfinite(step))) return;
    // Digits that tell neighbours apart.
    double largest = fmax(fabs(scale->low), fabs(scale->high)) / step;
    int digits = (int)fmin(17.0, fmax(3.0, ceil(log10(largest)) + 1.0));
    double first = ceil(scale->low / step - 1e-9);
    for (int k = 0; k < NSI_MAX_TICKS; k++) {
        double tick = (first + k) * step;
        if (tick > scale->high + 1e-9 * step) break;
        add_tick(ticks, tick, digits);
    }
}

nsi_ticks nsi_scale_ticks(const nsi_scale* scale, uint32_t wanted) {
    static const double NEARLY_LINEAR = 0.7; // decades, over which even steps are as good
    nsi_ticks ticks = {.count = 0};
    if (scale->log && scale->high - scale->low < NEARLY_LINEAR) {
        nsi_scale even = {.low = pow(10.0, scale->low), .high = pow(10.0, scale->high)};
        add_linear_ticks(&ticks, &even, wanted);
    } else if (scale->log) {
        add_log_ticks(&ticks, scale, wanted);
    } else {
        add_linear_ticks(&ticks, scale, wanted);
    }
    return ticks;
}
