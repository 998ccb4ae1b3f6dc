// State of a data check: what the signals are, their rows, and what was found. One check, one function;
// data_check.c has the table of checks.

#ifndef NSI_DATA_CHECK_STATE_H
#define NSI_DATA_CHECK_STATE_H

#include "data/map.h"
#include "data/rows.h"
#include "neuralsim/data_check.h"

#define NSI_PI 3.14159265358979323846

// What a signal measures, as far as names tell.
typedef enum nsi_signal_kind {
    NSI_SIGNAL_OTHER,
    NSI_SIGNAL_ANGLE,        // of a joint with one coordinate, rad
    NSI_SIGNAL_LENGTH,       // m
    NSI_SIGNAL_ANGULAR_RATE, // rad/s
    NSI_SIGNAL_SPEED,        // m/s
    NSI_SIGNAL_CONTROL
} nsi_signal_kind;

// How a position and its velocity go together, from all recordings.
typedef struct nsi_velocity_match {
    bool known;   // enough motion to judge
    double scale; // d position / dt = scale * velocity
    double
        shrink; // of central differences: how much larger the scale is when the velocity is made of them
    double delay;       // s: the velocity is late by this much
    double correlation; // at this delay
    double at_zero;     // without delay
    double scale_error; // standard error, as a share of the scale
    double delay_error; // s, standard error
} nsi_velocity_match;

// A channel, or a control: these have the numbers behind the channels.
typedef struct nsi_signal {
    const char* name;     // as the user knows it: the column where names were taken, else the map's
    const char* quantity; // of the model
    const char* formula;  // of columns, as it stands in the map
    nsi_signal_kind kind;
    bool motion;           // a position or velocity: it has no jumps of its own
    bool of_model;         // the model knows it
    uint32_t source, slot; // of the map, and among its signals
    uint32_t state;        // number in (q, qd), NSI_NONE: none
    uint32_t velocity;     // of a position: the signal that is its velocity, or NSI_NONE
    bool limited;
    double lower, upper;
    nsi_velocity_match match; // of positions with a velocity
    ns_data_channel stats;
} nsi_signal;

// Rows of a signal in one recording, without those where it is missing.
typedef struct nsi_samples {
    uint32_t count;
    const double *times, *x;
    const uint32_t* lines; // NULL: not from a file
    double spacing;        // s, median; NaN for fewer than two
} nsi_samples;

typedef struct nsi_checked_recording {
    const ns_recording* recording;
    const ns_dataset* data;
    const nsi_recording_rows* rows; // NULL: on the grid
    nsi_samples* samples;           // (nsignal)
    bool counted;                   // no column is the time: rows were counted
    uint32_t set;                   // number of its set; sets with the same name are one
    ns_data_recording stats;
} nsi_checked_recording;

struct ns_data_check {
    ns_allocator allocator;
    nsi_arena arena;
    const ns_model* model;
    ns_data_map* own_map; // of files, or NULL
    ns_dataset* own_data;
    const ns_data_map* map;
    const char* file; // the first one
    bool has_time;    // false: rows were counted
    nsi_signal* signals;
    uint32_t nsignal, nchannel;
    nsi_checked_recording* recordings;
    uint32_t nrecording, nset;
    double* scratch; // (most rows of a signal in all recordings)
    size_t nscratch;
    NSI_ARRAY(ns_data_finding) findings;
    bool failed;         // out of memory
    ns_data_check* next; // of files with other columns, or NULL
};

// ---- data_check.c ------------------------------------------------------------------------------

ns_data_check* nsi_check_create(const ns_model* model, const ns_allocator* allocator); // or NULL

// Run all checks on these sets. @return NS_OK or NS_ERR_NOMEM
ns_status nsi_check_run(ns_data_check* c, const ns_dataset* const* sets, const char* const* names,
                        uint32_t nset, ns_error* error);
void nsi_check_sort(
    ns_data_check* c); // findings: the most severe first, otherwise as they were found
const char* nsi_check_keep(ns_data_check* c, const char* text); // a copy; "" for NULL

// ---- findings ----------------------------------------------------------------------------------

enum { NSI_MAX_PLACES = 20 };

// Places gathered by one check in one channel.
typedef struct nsi_places {
    ns_data_place data[NSI_MAX_PLACES];
    uint32_t kept, count, recordings;
    bool counted;     // times are numbers of rows
    const void* last; // recording
} nsi_places;

void nsi_places_add(nsi_places* places, const nsi_checked_recording* recording,
                    const nsi_samples* samples, uint32_t row);

// Add a finding.
// @param channel  NULL: of the file
// @param places   NULL: in all recordings
// @param advice   copied, as all texts are
void nsi_find(ns_data_check* c, ns_data_code code, ns_data_severity severity, const char* channel,
              const nsi_places* places, double value, const char* advice, const char* format, ...)
    NSI_PRINTF(8, 9);
// A formula with quoted names of columns stands in single quotes in YAML: "'" or "".
static inline const char* nsi_yaml_quote(const char* formula) {
    return strchr(formula, '"') ? "'" : "";
}

bool nsi_was_found(const ns_data_check* c, ns_data_code code, const char* channel);

// Of times of rows, which count them where no column is the time.
static inline const char* nsi_time_unit(const ns_data_check* c) {
    return c->has_time ? "s" : "rows";
}

// " 3 times in 2 recordings, first at 1.2 s" ("at row 12" where they were counted) into text.
enum { NSI_WHERE_SIZE = 120 };
const char* nsi_places_text(const nsi_places* places, char text[NSI_WHERE_SIZE]);

// ---- signals.c ---------------------------------------------------------------------------------

// What the signals of the map are, and the samples of each in each recording.
bool nsi_signals_create(ns_data_check* c);

// ---- statistics.c ------------------------------------------------------------------------------

double nsi_median(double* x, size_t count); // reorders x; NaN for none

// Standard deviation of the white part of a signal, from the differences of higher order (Rice 1984) of
// stretches without gaps: their median size, for the order at which it is smallest.
double nsi_noise(const ns_data_check* c, uint32_t signal);

// The step of which nearly all distances of distinct values are multiples; 0: there is none.
double nsi_resolution(double* x, size_t count); // reorders x

void nsi_statistics_fill(ns_data_check* c);

// ---- check_units.c -----------------------------------------------------------------------------

// The factor by which a column of times is larger than seconds: by its name, or by the distance of whole
// numbers; 1: it may be in s.
double nsi_clock_of_column(const ns_data_check* c, uint32_t signal);
const char* nsi_clock_name(double factor); // "milliseconds"

// ---- checks ------------------------------------------------------------------------------------

void nsi_check_time(ns_data_check* c);         // check_time.c
void nsi_check_milliseconds(ns_data_check* c); // check_units.c
void nsi_check_degrees(ns_data_check* c);
void nsi_check_millimetres(ns_data_check* c);
void nsi_check_duplicates(ns_data_check* c); // check_duplicates.c
void nsi_check_wrapped(ns_data_check* c);    // check_samples.c
void nsi_check_stuck(ns_data_check* c);
void nsi_check_outliers(ns_data_check* c);
void nsi_check_missing(ns_data_check* c);
void nsi_check_constant(ns_data_check* c);
void nsi_check_joint_limits(ns_data_check* c);
void nsi_check_unknown_columns(ns_data_check* c);
void nsi_match_velocities(ns_data_check* c); // check_velocities.c: fills nsi_signal.match
void nsi_check_velocities(ns_data_check* c);
void nsi_check_degrees_by_motion(ns_data_check* c); // check_dynamics.c
void nsi_check_control_sign(ns_data_check* c);
void nsi_check_control_hold(ns_data_check* c); // check_hold.c

// Is the step from row k to k + 1 of usual length, not a gap?
static inline bool nsi_is_step(const nsi_samples* s, uint32_t k) {
    return s->times[k + 1] - s->times[k] <= 1.5 * s->spacing;
}

#endif
