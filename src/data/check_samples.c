// Checks of one channel at a time: missing, stuck, outlying and wrapped values, joint limits.

#include "data/check_state.h"

#include "base/series.h"

#include <math.h>
#include <stdio.h>

// Numbers that decide what is a finding.
static const struct {
    uint32_t reach;          // samples to either side that show how a signal moves
    uint32_t stuck_samples;  // identical ones
    double stuck_jump;       // the step behind them, in the largest steps around
    double stuck_change;     // of what the velocity says, as a share of the deviation
    uint32_t frozen_samples; // identical ones of a signal with noise
    double frozen_noise;     // in steps of its resolution
    double spike;            // a spike, in the largest steps around it,
    double spike_noise;      // in standard deviations of the noise,
    double spike_range;      // and as a share of the deviation of the channel
    double control_spike;    // beyond the range of a control, in its width
    double control_still;    // share of rows that may repeat a control that changes in every row
    double missing;          // share of samples that may be missing
    double limit_range;      // how far beyond a limit, as a share of its range
} limits = {.reach = 12,
            .stuck_samples = 8,
            .stuck_jump = 4.0,
            .stuck_change = 0.1,
            .frozen_samples = 25,
            .frozen_noise = 2.0,
            .spike = 6.0,
            .spike_noise = 15.0,
            .spike_range = 0.05,
            .control_spike = 1.0,
            .control_still = 0.05,
            .missing = 0.1,
            .limit_range = 0.03};

// The largest step between rows near [first, last], those that touch it left out. 0 when there are none.
static double largest_step_around(const nsi_samples* s, uint32_t first, uint32_t last) {
    double largest = 0.0;
    uint32_t from = first > limits.reach ? first - limits.reach : 0;
    uint32_t to = last + limits.reach < s->count - 1 ? last + limits.reach : s->count - 1;
    for (uint32_t k = from; k < to; k++) {
        if (k + 1 >= first && k <= last) continue;
        largest = fmax(largest, fabs(s->x[k + 1] - s->x[k]));
    }
    return largest;
}

// ---- missing samples -----------------------------------------------------------------------------

// What is missing at the own rate of some rows.
typedef struct hole_count {
    nsi_places places;
    double missing, count, longest; // longest: s
} hole_count;

static void count_holes(hole_count* h, const nsi_checked_recording* r, const nsi_samples* s) {
    h->count += s->count;
    for (uint32_t k = 0; k + 1 < s->count; k++) {
        double gap = s->times[k + 1] - s->times[k];
        if (nsi_is_step(s, k)) continue;
        nsi_places_add(&h->places, r, s, k + 1);
        h->missing += round(gap / s->spacing) - 1.0;
        h->longest = fmax(h->longest, gap);
    }
}

static void find_holes(ns_data_check* c, const hole_count* h, const char* channel) {
    double share = h->missing / fmax(h->missing + h->count, 1.0);
    char where[NSI_WHERE_SIZE];
    if (h->places.count == 0) return;
    nsi_find(c, NS_DATA_MISSING, share > limits.missing ? NS_DATA_WARNING : NS_DATA_NOTE, channel,
             &h->places, share,
             "they are left out; max_gap in the map interpolates over longer gaps",
             "%.2g %% of the %s are missing, in gaps of up to %.3g %s%s", 100.0 * share,
             channel ? "samples" : "rows", h->longest, nsi_time_unit(c),
             nsi_places_text(&h->places, where));
}

// Rows that are missing for all channels of a source.
static void check_rows(ns_data_check* c, uint32_t source) {
    hole_count holes = {0};
    for (uint32_t r = 0; r < c->nrecording; r++) {
        const nsi_checked_recording* recording = &c->recordings[r];
        if (!recording->rows) continue;
        const nsi_source_rows* rows = &recording->rows->sources[source];
        nsi_samples s = {.count = rows->count, .times = rows->times, .lines = rows->lines};
        s.spacing = nsi_series_spacing(s.times, s.count, c->scratch);
        count_holes(&holes, recording, &s);
    }
    find_holes(c, &holes, NULL);
}

// Is the channel there in every row?
static bool is_complete(const ns_data_check* c, uint32_t signal) {
    for (uint32_t r = 0; r < c->nrecording; r++) {
        const nsi_checked_recording* recording = &c->recordings[r];
        uint32_t rows = recording->rows ? recording->rows->sources[c->signals[signal].source].count
                                        : recording->recording->nsample;
        if (recording->samples[signal].count < rows) return false;
    }
    return true;
}

void nsi_check_missing(ns_data_check* c) {
    if (c->map->row_samples > 0) return;
    for (uint32_t k = 0; k < c->map->sources.count && c->has_time; k++) check_rows(c, k);
    for (uint32_t k = 0; k < c->nsignal; k++) {
        const nsi_signal* s = &c->signals[k];
        if (s->stats.count == 0) {
            nsi_find(c, NS_DATA_MISSING, NS_DATA_WARNING, s->name, NULL, 1.0,
                     "check the column, or remove it from the map", "it has no numbers");
            continue;
        }
        if (is_complete(c, k)) continue;
        hole_count holes = {0};
        for (uint32_t r = 0; r < c->nrecording; r++) {
            count_holes(&holes, &c->recordings[r], &c->recordings[r].samples[k]);
        }
        find_holes(c, &holes, s->name);
    }
}

// Constant controls are usual commands.
void nsi_check_constant(ns_data_check* c) {
    for (uint32_t k = 0; k < c->nchannel; k++) {
        const ns_data_channel* s = &c->signals[k].stats;
        if (s->count < 3 || s->min != s->max) continue;
        nsi_find(c, NS_DATA_CONSTANT, NS_DATA_NOTE, s->name, NULL, s->min, "check the sensor",
                 "it is %.4g in all samples", s->min);
    }
}

// ---- stuck values --------------------------------------------------------------------------------

// The first row at this time or later.
static uint32_t row_at(const nsi_samples* s, double time) {
    uint32_t low = 0, high = s->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->times[middle] < time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Does another position or velocity move while rows from..to of this one stay the same?
static bool others_move(const ns_data_check* c, const nsi_checked_recording* r, uint32_t signal,
                        double from, double to) {
    for (uint32_t k = 0; k < c->nchannel; k++) {
        const nsi_samples* s = &r->samples[k];
        double low = INFINITY, high = -INFINITY;
        if (k == signal) continue;
        for (uint32_t i = row_at(s, from); i < s->count && s->times[i] <= to; i++) {
            low = fmin(low, s->x[i]);
            high = fmax(high, s->x[i]);
        }
        if (high - low > c->signals[k].stats.deviation) return true;
    }
    return false;
}

// Does the velocity beside it say that a position moves from row first to last?
static bool velocity_contradicts(const ns_data_check* c, const nsi_checked_recording* r,
                                 uint32_t number, uint32_t first, uint32_t last) {
    const nsi_signal* signal = &c->signals[number];
    const nsi_samples* s = &r->samples[number];
    if (!signal->match.known || last - first + 1 < limits.stuck_samples) return false;
    const nsi_samples* v = &r->samples[signal->velocity];
    double change = 0.0;
    for (uint32_t k = row_at(v, s->times[first]); k + 1 < v->count && v->times[k] < s->times[last];
         k++) {
        change += 0.5 * (v->x[k] + v->x[k + 1]) * (v->times[k + 1] - v->times[k]);
    }
    change = fabs(signal->match.scale * change);
    return change > limits.stuck_change * signal->stats.deviation &&
           change > limits.spike_noise * fmax(signal->stats.noise, signal->stats.resolution);
}

enum { STEADY = 6 }; // steps beside a run that show whether a signal moves

// How many of the steps [from, to) repeat a value?
static uint32_t still_steps(const nsi_samples* s, uint32_t from, uint32_t to) {
    uint32_t still = 0;
    for (uint32_t k = from; k < to; k++) still += s->x[k + 1] == s->x[k] ? 1 : 0;
    return still;
}

// Does it change in nearly all of the steps [from, to)?
static bool moves_steadily(const nsi_samples* s, uint32_t from, uint32_t to) {
    return still_steps(s, from, to) <= 1;
}

// The last row of the run of identical values that begins here.
static uint32_t run_end(const nsi_samples* s, uint32_t first) {
    uint32_t last = first;
    while (last + 1 < s->count && s->x[last + 1] == s->x[first] && nsi_is_step(s, last)) last++;
    return last;
}

// The same value while it moves before and behind, and then a jump to where it would be.
static bool is_stuck(const nsi_signal* signal, const nsi_samples* s, uint32_t first,
                     uint32_t last) {
    if (last - first + 1 < limits.stuck_samples) return false;
    if (first < STEADY + 1 || last + 1 + STEADY >= s->count) return false;
    if (!moves_steadily(s, first - 1 - STEADY, first - 1)) return false;
    if (!moves_steadily(s, last + 1, last + 1 + STEADY)) return false;
    double jump = fabs(s->x[last + 1] - s->x[last]);
    double around = largest_step_around(s, first, last);
    return around > 0.0 && jump > limits.stuck_jump * around &&
           jump > limits.spike_noise * signal->stats.noise &&
           jump > limits.spike_range * signal->stats.deviation;
}

// Identical values are not to be expected of a sensor with noise.
static bool is_frozen(const ns_data_check* c, const nsi_checked_recording* r, uint32_t number,
                      uint32_t first, uint32_t last) {
    const nsi_signal* signal = &c->signals[number];
    const nsi_samples* s = &r->samples[number];
    const ns_data_channel* stats = &signal->stats;
    bool noisy = stats->noise > limits.frozen_noise * stats->resolution &&
                 stats->noise > 1e-4 * stats->deviation;
    if (!noisy || last - first + 1 < limits.frozen_samples) return false;
    if (first > STEADY && !moves_steadily(s, first - 1 - STEADY, first - 1)) return false;
    if (last + 1 + STEADY < s->count && !moves_steadily(s, last + 1, last + 1 + STEADY))
        return false;
    return others_move(c, r, number, s->times[first], s->times[last]);
}

// Does a run begin with a jump? Commands and forces may well drop to 0 for a while.
static bool drops_into(const nsi_samples* s, uint32_t first) {
    double around = 0.0;
    for (uint32_t k = first > STEADY ? first - STEADY : 0; k + 1 < first; k++) {
        around = fmax(around, fabs(s->x[k + 1] - s->x[k]));
    }
    return first > 0 && fabs(s->x[first] - s->x[first - 1]) > 2.0 * around;
}

// Does a control change in (nearly) every row, apart from runs that are long enough to be stuck? Held and
// constant commands do not.
static bool changes_in_every_row(const ns_data_check* c, uint32_t control) {
    double steps = 0.0, still = 0.0;
    for (uint32_t r = 0; r < c->nrecording; r++) {
        const nsi_samples* s = &c->recordings[r].samples[control];
        for (uint32_t i = 0, last; i < s->count; i = last + 1) {
            last = run_end(s, i);
            bool long_run = last - i + 1 >= limits.frozen_samples;
            still += long_run ? 0.0 : last - i;
            steps += long_run ? 1.0 : last - i + 1.0;
        }
    }
    return still <= limits.control_still * steps;
}

// Controls that change in every row, stay the same for long and then jump to where they would be. At 0 and
// at the ends of their range they are off or saturated.
static void check_stuck_control(ns_data_check* c, uint32_t control) {
    const nsi_signal* signal = &c->signals[control];
    nsi_places places = {0};
    double longest = 0.0;
    if (isnan(signal->stats.noise) || !changes_in_every_row(c, control)) return;
    for (uint32_t r = 0; r < c->nrecording; r++) {
        const nsi_samples* s = &c->recordings[r].samples[control];
        for (uint32_t i = 0, last; i < s->count; i = last + 1) {
            last = run_end(s, i);
            bool end = s->x[i] == signal->stats.min || s->x[i] == signal->stats.max;
            if (last - i + 1 < limits.frozen_samples || end || s->x[i] == 0.0) continue;
            if (!is_stuck(signal, s, i, last)) continue;
            nsi_places_add(&places, &c->recordings[r], s, i);
            longest = fmax(longest, s->times[last] - s->times[i]);
        }
    }
    if (places.count == 0) return;
    char where[NSI_WHERE_SIZE];
    nsi_find(c, NS_DATA_STUCK, NS_DATA_NOTE, signal->name, &places, longest,
             "if it was not commanded so, leave that part of the file out",
             "the same value for up to %.3g %s, but it changes in all other rows%s", longest,
             nsi_time_unit(c), nsi_places_text(&places, where));
}

static void check_stuck_channels(ns_data_check* c) {
    for (uint32_t k = 0; k < c->nchannel; k++) {
        const nsi_signal* signal = &c->signals[k];
        nsi_places places = {0};
        double longest = 0.0;
        bool frozen = false;
        if (signal->stats.min == signal->stats.max || isnan(signal->stats.noise)) continue;
        for (uint32_t r = 0; r < c->nrecording; r++) {
            const nsi_samples* s = &c->recordings[r].samples[k];
            for (uint32_t i = 0, last; i < s->count; i = last + 1) {
                last = run_end(s, i);
                if (last == i) continue;
                if (!is_stuck(signal, s, i, last) &&
                    !velocity_contradicts(c, &c->recordings[r], k, i, last) &&
                    !is_frozen(c, &c->recordings[r], k, i, last)) {
                    continue;
                }
                nsi_places_add(&places, &c->recordings[r], s, i);
                longest = fmax(longest, s->times[last] - s->times[i]);
                // At an end of its range a command is saturated.
                bool end = s->x[i] == signal->stats.min || s->x[i] == signal->stats.max;
                frozen = frozen || !(end || drops_into(s, i));
            }
        }
        if (places.count == 0) continue;
        char where[NSI_WHERE_SIZE];
        nsi_find(c, NS_DATA_STUCK,
                 signal->motion || (frozen && !c->model) ? NS_DATA_WARNING : NS_DATA_NOTE,
                 signal->name, &places, longest,
                 "make these cells empty, or leave that part of the file out",
                 "the same value for up to %.3g %s while it should change%s", longest,
                 nsi_time_unit(c), nsi_places_text(&places, where));
    }
}

void nsi_check_stuck(ns_data_check* c) {
    check_stuck_channels(c);
    for (uint32_t k = c->nchannel; k < c->nsignal; k++) check_stuck_control(c, k);
}

// ---- outliers ------------------------------------------------------------------------------------

// Rows k to k + width - 1 are away from both neighbours, which agree.
static bool is_spike(const nsi_signal* signal, const nsi_samples* s, uint32_t k, uint32_t width) {
    const ns_data_channel* stats = &signal->stats;
    uint32_t after = k + width;
    double up = s->x[k] - s->x[k - 1], down = s->x[after] - s->x[after - 1];
    double size = fmin(fabs(up), fabs(down));
    if (!(up * down < 0.0) || size < limits.spike_range * stats->deviation ||
        size < limits.spike_noise * stats->noise || size < limits.spike_noise * stats->resolution ||
        fabs(s->x[after] - s->x[k - 1]) > 0.5 * size) {
        return false;
    }
    for (uint32_t i = k - 1; i < after; i++) {
        if (!nsi_is_step(s, i)) return false;
    }
    return size > limits.spike * largest_step_around(s, k, after - 1);
}

// The range of nearly all values of a signal: single ones that are far away take no part.
static void core_range(const ns_data_check* c, uint32_t signal, double* low, double* high) {
    size_t count = 0;
    for (uint32_t r = 0; r < c->nrecording; r++) {
        const nsi_samples* s = &c->recordings[r].samples[signal];
        for (uint32_t k = 0; k < s->count; k++) c->scratch[count++] = s->x[k];
    }
    size_t tail = count / 100;
    *low = nsi_series_select(c->scratch, count, tail);
    *high = nsi_series_select(c->scratch, count, count - 1 - tail);
}

// A control may jump and pulse within its range. A single row far beyond it is an outlier where the control
// changes in most rows to both sides: an impulse out of a held command is none.
static void check_control_outliers(ns_data_check* c, uint32_t control) {
    const nsi_signal* signal = &c->signals[control];
    nsi_places places = {0};
    double low, high, largest = 0.0;
    if (isnan(signal->stats.noise) || signal->stats.min == signal->stats.max) return;
    core_range(c, control, &low, &high);
    double margin = limits.control_spike * (high - low);
    for (uint32_t r = 0; r < c->nrecording; r++) {
        const nsi_samples* s = &c->recordings[r].samples[control];
        for (uint32_t i = STEADY + 1; i + STEADY + 1 < s->count; i++) {
            bool beyond = s->x[i] < low - margin || s->x[i] > high + margin;
            if (!beyond || !is_spike(signal, s, i, 1)) continue;
            if (2 * still_steps(s, i - 1 - STEADY, i - 1) > STEADY ||
                2 * still_steps(s, i + 1, i + 1 + STEADY) > STEADY) {
                continue;
            }
            nsi_places_add(&places, &c->recordings[r], s, i);
            largest = fmax(largest, fabs(s->x[i] - s->x[i - 1]));
        }
    }
    if (places.count == 0) return;
    char where[NSI_WHERE_SIZE];
    nsi_find(
        c, NS_DATA_OUTLIERS, NS_DATA_NOTE, signal->name, &places, largest,
        "if it was not commanded so, take the mean of its neighbours",
        "single values up to %.3g away from both neighbours, beyond the range of %.4g to %.4g of "
        "the others%s",
        largest, low, high, nsi_places_text(&places, where));
}

static void check_channel_outliers(ns_data_check* c) {
    enum { MAX_WIDTH = 2 };
    for (uint32_t k = 0; k < c->nchannel; k++) {
        nsi_signal* signal = &c->signals[k];
        nsi_places places = {0};
        double largest = 0.0;
        // Few values, such as flags and counters, have no outliers.
        if (isnan(signal->stats.noise) || nsi_was_found(c, NS_DATA_WRAPPED, signal->name)) continue;
        for (uint32_t r = 0; r < c->nrecording; r++) {
            const nsi_samples* s = &c->recordings[r].samples[k];
            // At the ends, one side shows nothing.
            for (uint32_t i = STEADY; i + STEADY < s->count; i++) {
                for (uint32_t width = 1; width <= MAX_WIDTH && i + width < s->count; width++) {
                    if (!is_spike(signal, s, i, width)) continue;
                    nsi_places_add(&places, &c->recordings[r], s, i);
                    largest = fmax(largest, fabs(s->x[i] - s->x[i - 1]));
                    i += width;
                    break;
                }
            }
        }
        if (places.count == 0) continue;
        // Forces and accelerations have real peaks; one of two values may be the next step of an encoder.
        bool flickers =
            signal->stats.noise == 0.0 && largest >= signal->stats.max - signal->stats.min;
        bool warns = signal->motion && !flickers;
        char where[NSI_WHERE_SIZE];
        nsi_find(c, NS_DATA_OUTLIERS, warns ? NS_DATA_WARNING : NS_DATA_NOTE, signal->name, &places,
                 largest, "make these cells empty",
                 "values up to %.3g away from both neighbours (noise %.2g)%s", largest,
                 signal->stats.noise, nsi_places_text(&places, where));
    }
}

void nsi_check_outliers(ns_data_check* c) {
    check_channel_outliers(c);
    for (uint32_t k = c->nchannel; k < c->nsignal; k++) check_control_outliers(c, k);
}

// ---- wrapped angles ------------------------------------------------------------------------------

// Is this step a whole turn more than those around it?
static bool is_turn(const nsi_signal* signal, const nsi_samples* s, uint32_t k, double turn) {
    double step = fabs(s->x[k + 1] - s->x[k]);
    if (fabs(step - turn) > 0.25 * turn || !nsi_is_step(s, k)) return false;
    double around = largest_step_around(s, k, k + 1);
    if (around > 0.25 * turn) return false;
    double tolerance = 2.0 * around + 6.0 * signal->stats.noise + 0.005 * turn;
    if (fabs(step - turn) > tolerance) return false;
    if (signal->kind == NSI_SIGNAL_ANGLE) return true;

    // Of a signal that may be no angle: from one end of its range to the other.
    double end = 0.02 * turn, low = fmin(s->x[k], s->x[k + 1]), high = fmax(s->x[k], s->x[k + 1]);
    bool whole = fabs(signal->stats.max - signal->stats.min - turn) < 0.02 * turn;
    return whole && low - signal->stats.min < end && signal->stats.max - high < end;
}

void nsi_check_wrapped(ns_data_check* c) {
    const double turns[] = {2.0 * NSI_PI, 360.0};
    for (uint32_t k = 0; k < c->nchannel; k++) {
        const nsi_signal* signal = &c->signals[k];
        bool angle = signal->kind == NSI_SIGNAL_ANGLE;
        if (!angle && (signal->of_model || signal->kind != NSI_SIGNAL_OTHER)) continue;
        for (int t = 0; t < 2; t++) {
            nsi_places places = {0};
            for (uint32_t r = 0; r < c->nrecording; r++) {
                const nsi_samples* s = &c->recordings[r].samples[k];
                for (uint32_t i = 0; i + 1 < s->count; i++) {
                    if (is_turn(signal, s, i, turns[t]))
                        nsi_places_add(&places, &c->recordings[r], s, i + 1);
                }
            }
            if (places.count == 0) continue;
            char where[NSI_WHERE_SIZE], advice[200];
            const char* quote = nsi_yaml_quote(signal->formula);
            snprintf(advice, sizeof advice, "write %sunwrap(%.80s%s)%s in the map", quote,
                     signal->formula, t == 1 ? " * deg" : "", quote);
            nsi_find(c, NS_DATA_WRAPPED, angle ? NS_DATA_WARNING : NS_DATA_NOTE, signal->name,
                     &places, turns[t], advice, "the angle jumps by a whole turn (%s)%s",
                     t == 1 ? "360" : "2 pi", nsi_places_text(&places, where));
        }
    }
}

// ---- limits --------------------------------------------------------------------------------------

void nsi_check_joint_limits(ns_data_check* c) {
    for (uint32_t k = 0; k < c->nchannel; k++) {
        const nsi_signal* signal = &c->signals[k];
        if (!signal->limited || signal->stats.count == 0) continue;
        if (nsi_was_found(c, NS_DATA_DEGREES, signal->name) ||
            nsi_was_found(c, NS_DATA_MILLIMETRES, signal->name)) {
            continue;
        }
        // Limits are soft, and sensors have noise.
        double range = signal->upper - signal->lower;
        double tolerance = limits.limit_range * range +
                           (isnan(signal->stats.noise) ? 0.0 : 6.0 * signal->stats.noise);
        nsi_places places = {0};
        double most = 0.0;
        for (uint32_t r = 0; r < c->nrecording; r++) {
            const nsi_samples* s = &c->recordings[r].samples[k];
            for (uint32_t i = 0; i < s->count; i++) {
                double beyond = fmax(signal->lower - s->x[i], s->x[i] - signal->upper);
                if (!(beyond > tolerance)) continue;
                nsi_places_add(&places, &c->recordings[r], s, i);
                most = fmax(most, beyond);
            }
        }
        if (places.count == 0) continue;
        char where[NSI_WHERE_SIZE];
        nsi_find(c, NS_DATA_JOINT_LIMITS, NS_DATA_WARNING, signal->name, &places, most,
                 "check zero, sign and unit of the column, or the limits in the model",
                 "values from %.4g to %.4g, but the joint's limits are %.4g and %.4g%s",
                 signal->stats.min, signal->stats.max, signal->lower, signal->upper,
                 nsi_places_text(&places, where));
    }
}

// ---- columns -------------------------------------------------------------------------------------

void nsi_check_unknown_columns(ns_data_check* c) {
    if (!c->model || !c->map->inferred || !c->map->tolerant) return;
    for (uint32_t k = 0; k < c->nchannel; k++) {
        if (c->signals[k].of_model) continue;
        nsi_find(c, NS_DATA_UNKNOWN_COLUMN, NS_DATA_NOTE, c->signals[k].name, NULL, NAN,
                 "rename it, or give a map, if the model has it",
                 "the model has no quantity of this name");
    }
}
