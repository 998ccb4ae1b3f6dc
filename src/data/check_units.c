// Units that are not SI: degrees, turns, millimetres, milliseconds. Evidence is a velocity beside a
// position, the limits of a joint, the size of steps in time, and names of columns.

#include "data/check_state.h"

#include "base/series.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

#define DEGREES 57.29577951308232

// ---- names ---------------------------------------------------------------------------------------

// The size of a name or number at the beginning of a formula: letters, digits, '_' and '.', and the sign of
// an exponent ("1e-3"); 0: neither.
static size_t token_size(const char* text) {
    bool number = isdigit((unsigned char)*text) || *text == '.';
    size_t size = 0;
    for (;; size++) {
        char c = text[size];
        bool sign = (c == '-' || c == '+') && number && size > 0 &&
                    tolower((unsigned char)text[size - 1]) == 'e';
        if (!isalnum((unsigned char)c) && c != '_' && c != '.' && !sign) return size;
    }
}

// A word of a list, ended by spaces.
static bool is_word_of(const char* text, size_t size, const char* list) {
    for (const char* at = list; *at; at += strcspn(at, " "), at += *at == ' ') {
        size_t length = strcspn(at, " ");
        bool same = length == size;
        for (size_t k = 0; k < size && same; k++) same = tolower((unsigned char)text[k]) == at[k];
        if (same) return true;
    }
    return false;
}

// Does a column in the formula have one of these words in its name ("angle_deg", "x (mm)"), and nothing
// in the formula converts it?
static bool is_named(const char* formula, const char* words, const char* conversions) {
    bool named = false;
    for (const char* at = formula; *at;) {
        // A name: quoted, or letters, digits and '_'.
        bool quoted = *at == '"';
        size_t size = 0;
        if (quoted) {
            at++;
            size = strcspn(at, "\"");
        } else {
            size = token_size(at);
        }
        if (size == 0 && !quoted) {
            at++;
            continue;
        }
        if (!quoted && is_word_of(at, size, conversions)) return false;

        // Its words.
        for (size_t k = 0, length; k < size; k += length + 1) {
            for (length = 0; k + length < size && isalpha((unsigned char)at[k + length]);) length++;
            bool whole = !quoted && length == size;
            if (length > 0 && !whole && is_word_of(at + k, length, words)) named = true;
        }
        at += size + (quoted && at[size] == '"');
    }
    return named;
}

// ---- factors -------------------------------------------------------------------------------------

static bool is_factor(const nsi_velocity_match* m, double factor) {
    if (!m->known || !(m->scale > 0.0)) return false;
    double off = log(m->scale / factor);
    return off > -0.12 && off < 0.12 + log(m->shrink);
}

static double reach_of(const nsi_signal* s) {
    return fmax(fabs(s->stats.min), fabs(s->stats.max));
}

// Beyond the limits of the joint, but within them in the other unit.
static bool fits_limits(const nsi_signal* s, double factor) {
    if (!s->limited) return false;
    double most = fmax(fabs(s->lower), fabs(s->upper)), margin = 0.1 * (s->upper - s->lower);
    return reach_of(s) > 3.0 * most && s->stats.min / factor > s->lower - margin &&
           s->stats.max / factor < s->upper + margin;
}

// ---- angles --------------------------------------------------------------------------------------

static void find_degrees(ns_data_check* c, const nsi_signal* s, double factor, const char* unit,
                         const char* why) {
    char advice[300];
    const char* convert = factor == DEGREES ? " * deg" : factor > 1.0 ? "" : " * 2*pi";
    if (factor == 60.0) convert = " * 2*pi/60";
    const char* quote = nsi_yaml_quote(s->formula);
    snprintf(advice, sizeof advice, "write %s%.100s%s%s in the map", quote, s->formula, convert,
             quote);
    nsi_find(c, NS_DATA_DEGREES, NS_DATA_WARNING, s->name, NULL, factor, advice,
             "it seems to be in %s, not %s: %s", unit,
             s->kind == NSI_SIGNAL_ANGULAR_RATE ? "rad/s" : "rad", why);
}

static bool wrapped_at_360(const ns_data_check* c, const nsi_signal* s) {
    for (uint32_t k = 0; k < c->findings.count; k++) {
        const ns_data_finding* f = &c->findings.data[k];
        if (f->code == NS_DATA_WRAPPED && f->value > 300.0 && strcmp(f->channel, s->name) == 0) {
            return true;
        }
    }
    return false;
}

void nsi_check_degrees(ns_data_check* c) {
    static const char words[] = "deg degs degree degrees", conversions[] = "deg pi";
    for (uint32_t k = 0; k < c->nchannel; k++) {
        const nsi_signal* s = &c->signals[k];
        const nsi_signal* v = s->velocity != NSI_NONE ? &c->signals[s->velocity] : NULL;
        char why[200];
        bool angle = s->kind == NSI_SIGNAL_ANGLE || (s->kind == NSI_SIGNAL_OTHER && v);
        if (!angle || s->stats.count == 0) continue;

        // A velocity in another unit.
        double ratio = v ? s->match.scale : 0.0;
        snprintf(why, sizeof why, "the rate of %.80s is %.4g times %.60s", s->name, ratio,
                 v ? v->name : "");
        if (is_factor(&s->match, DEGREES)) {
            find_degrees(c, s, DEGREES, "degrees", why);
            continue;
        }
        if (v && is_factor(&s->match, 1.0 / DEGREES))
            find_degrees(c, v, DEGREES, "degrees per s", why);
        if (v && s->kind == NSI_SIGNAL_ANGLE && is_factor(&s->match, 2.0 * NSI_PI)) {
            find_degrees(c, v, 1.0 / (2.0 * NSI_PI), "turns per s", why);
        }
        if (v && s->kind == NSI_SIGNAL_ANGLE && is_factor(&s->match, 2.0 * NSI_PI / 60.0)) {
            find_degrees(c, v, 60.0, "turns per minute", why);
        }

        // The joint's limits, turns of 360, or the name of the column.
        if (reach_of(s) > NSI_PI && fits_limits(s, DEGREES)) {
            snprintf(why, sizeof why,
                     "values from %.4g to %.4g, limits of the joint from %.4g to %.4g rad",
                     s->stats.min, s->stats.max, s->lower, s->upper);
            find_degrees(c, s, DEGREES, "degrees", why);
        } else if (wrapped_at_360(c, s)) {
            find_degrees(c, s, DEGREES, "degrees", "it jumps by 360");
        } else if (s->kind == NSI_SIGNAL_ANGLE && is_named(s->formula, words, conversions)) {
            snprintf(why, sizeof why,
                     "the column is called so, and its values go from %.4g to %.4g", s->stats.min,
                     s->stats.max);
            find_degrees(c, s, DEGREES, "degrees", why);
        }
    }
}

// ---- lengths -------------------------------------------------------------------------------------

static void find_millimetres(ns_data_check* c, const nsi_signal* s, const char* why) {
    char advice[300];
    const char* quote = nsi_yaml_quote(s->formula);
    snprintf(advice, sizeof advice, "write %s%.100s * mm%s in the map", quote, s->formula, quote);
    nsi_find(c, NS_DATA_MILLIMETRES, NS_DATA_WARNING, s->name, NULL, 1000.0, advice,
             "it seems to be in mm%s: %s", s->kind == NSI_SIGNAL_SPEED ? "/s, not m/s" : ", not m",
             why);
}

void nsi_check_millimetres(ns_data_check* c) {
    static const char words[] = "mm millimeter millimeters millimetre millimetres",
                      conversions[] = "mm 0.001 1e-3 1000 1e3";
    if (nsi_was_found(c, NS_DATA_MILLISECONDS, NULL)) return;
    for (uint32_t k = 0; k < c->nchannel; k++) {
        const nsi_signal* s = &c->signals[k];
        char why[200];
        if (s->kind != NSI_SIGNAL_LENGTH || s->stats.count == 0) continue;
        const nsi_signal* v = s->velocity != NSI_NONE ? &c->signals[s->velocity] : NULL;
        snprintf(why, sizeof why, "the rate of %.80s is %.4g times %.60s", s->name, s->match.scale,
                 v ? v->name : "");
        if (is_factor(&s->match, 1000.0)) {
            find_millimetres(c, s, why);
        } else if (v && is_factor(&s->match, 0.001)) {
            find_millimetres(c, v, why);
        } else if (fits_limits(s, 1000.0) && !fits_limits(s, 30.0)) {
            snprintf(why, sizeof why,
                     "values from %.4g to %.4g, limits of the joint from %.4g to %.4g m",
                     s->stats.min, s->stats.max, s->lower, s->upper);
            find_millimetres(c, s, why);
        } else if (is_named(s->formula, words, conversions)) {
            snprintf(why, sizeof why,
                     "the column is called so, and its values go from %.4g to %.4g", s->stats.min,
                     s->stats.max);
            find_millimetres(c, s, why);
        }
    }
}

// ---- time ----------------------------------------------------------------------------------------

// Units of clocks, by words in names of columns.
static const struct {
    const char *words, *unit;
    double factor; // per s
} clocks[] = {{"ms msec millis millisecond milliseconds", "milliseconds", 1e3},
              {"us usec micros microsecond microseconds", "microseconds", 1e6},
              {"ns nsec nanos nanosecond nanoseconds", "nanoseconds", 1e9}};
enum { CLOCKS = sizeof clocks / sizeof *clocks };

static const double SLOWEST_ROWS = 0.5; // s between rows; no robot is recorded at a lower rate

const char* nsi_clock_name(double factor) {
    for (int k = 0; k < CLOCKS; k++) {
        if (clocks[k].factor == factor) return clocks[k].unit;
    }
    return "seconds";
}

// By the name of a column that nothing in the formula converts; 0: it does not say.
static double clock_by_name(const char* formula) {
    static const char conversions[] = "0.001 1e-3 1000 1e3 1e-6 1e6 0.000001 1e-9 1e9";
    for (int k = 0; k < CLOCKS; k++) {
        if (is_named(formula, clocks[k].words, conversions)) return clocks[k].factor;
    }
    return 0.0;
}

// By distances of rows that no robot is recorded at.
static double clock_by_spacing(double spacing) {
    return spacing > 2e7 ? 1e9 : spacing > 2e4 ? 1e6 : 1e3;
}

static bool is_whole(double t) {
    return fabs(t - round(t)) <= 1e-9 * fmax(1.0, fabs(t));
}

double nsi_clock_of_column(const ns_data_check* c, uint32_t signal) {
    double named = clock_by_name(c->signals[signal].formula);
    if (named > 0.0) return named;

    // Whole numbers that are further apart than 1, which would count rows.
    const nsi_samples* s = &c->recordings[0].samples[signal];
    bool whole = s->count > 2;
    for (uint32_t k = 0; k < s->count; k++) whole = whole && is_whole(s->x[k]);
    double spacing = whole ? nsi_series_spacing(s->x, s->count, c->scratch) : NAN;
    return spacing > 1.0 ? clock_by_spacing(spacing) : 1.0;
}

// Are all times whole numbers, to rounding?
static bool has_whole_times(const ns_data_check* c) {
    for (uint32_t r = 0; r < c->nrecording; r++) {
        for (uint32_t i = 0; i < c->nsignal; i++) {
            const nsi_samples* s = &c->recordings[r].samples[i];
            for (uint32_t k = 0; k < s->count; k++) {
                if (!is_whole(s->times[k])) return false;
            }
        }
    }
    return true;
}

// The factor by which time is too large, from positions and velocities; 0: they tell nothing.
static double time_factor(const ns_data_check* c, double spacing) {
    uint32_t judged = 0, votes[CLOCKS] = {0};
    bool angles = false;
    for (uint32_t k = 0; k < c->nchannel; k++) {
        const nsi_signal* s = &c->signals[k];
        if (!s->match.known) continue;
        judged++;
        angles |= s->kind == NSI_SIGNAL_ANGLE;
        for (int i = 0; i < CLOCKS; i++) votes[i] += is_factor(&s->match, 1.0 / clocks[i].factor);
    }
    for (int i = 0; i < CLOCKS; i++) {
        // Of lengths alone, velocities could be in mm/s.
        bool possible = angles || spacing >= 0.2;
        if (judged > 0 && votes[i] == judged && possible) return clocks[i].factor;
    }
    return 0.0;
}

void nsi_check_milliseconds(ns_data_check* c) {
    const nsi_map_source* source = c->map->sources.count > 0 ? &c->map->sources.data[0] : NULL;
    if (!source || !source->time.formula || c->map->row_samples > 0 || c->nrecording == 0) return;
    double spacing = 1.0 / c->recordings[0].stats.rate;
    uint32_t rows = c->recordings[0].stats.rows;
    if (!(spacing > 0.0) || rows < 10) return;

    // Velocities know; otherwise steps that no robot is recorded at.
    double factor = time_factor(c, spacing);
    char why[200], advice[200];
    double named = clock_by_name(source->time.text);
    if (factor > 0.0) {
        snprintf(why, sizeof why, "positions change %.0f times slower than velocities say", factor);
    } else if (spacing >= SLOWEST_ROWS && (named > 0.0 || has_whole_times(c))) {
        factor = named > 0.0 ? named : clock_by_spacing(spacing);
        snprintf(why, sizeof why, "rows are %.4g s apart%s", spacing,
                 spacing == 1.0 ? ", so it may also count rows" : "");
    } else {
        return;
    }
    const char* quote = nsi_yaml_quote(source->time.text);
    snprintf(advice, sizeof advice, "write `time: %s%.80s * %g%s` in the map", quote,
             source->time.text, 1.0 / factor, quote);
    nsi_find(c, NS_DATA_MILLISECONDS, NS_DATA_WARNING, NULL, NULL, factor, advice,
             "the time seems to be in %s, not s: %s", nsi_clock_name(factor), why);
}
