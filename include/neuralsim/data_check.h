/// @file data_check.h
/// Checks of recordings: statistics of each channel, and findings such as degrees in place of radians,
/// wrapped angles, stuck values, or a control of the wrong sign.
///
///     const char* files[] = {"run0.csv", "run1.csv"};
///     ns_data_check_options options = {.files = files, .nfile = 2, .model = model};
///     ns_data_check* check = NULL;
///     ns_data_check_files(&options, &check, &error);
///     for (uint32_t k = 0; k < ns_data_check_finding_count(check); k++) {
///         puts(ns_data_check_finding(check, k)->text);
///     }
///     ns_data_check_free(check);
///
/// Fits, discoveries and scorings run the same checks on the recordings that they load. Thresholds and
/// methods are in docs/data.md.

#ifndef NEURALSIM_DATA_CHECK_H
#define NEURALSIM_DATA_CHECK_H

#include "neuralsim/data.h"
#include "neuralsim/words.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NS_DATA_SEVERITY_MAP(X)                                                                    \
    X(NS_DATA_NOTE, "note", "worth knowing")                                                       \
    X(NS_DATA_WARNING, "warning", "probably a mistake")                                            \
    X(NS_DATA_PROBLEM, "problem", "cannot be used as it is")

typedef enum ns_data_severity { NS_DATA_SEVERITY_MAP(NS_CHOICE_VALUE) } ns_data_severity;
extern NS_API const ns_choices ns_data_severities;

/// What a finding is about: number, word, what it means.
#define NS_DATA_CODE_MAP(X)                                                                        \
    X(NS_DATA_UNREADABLE, "unreadable", "a file cannot be read")                                   \
    X(NS_DATA_OTHER_COLUMNS, "other_columns", "a file has other columns than the first one")       \
    X(NS_DATA_TIME_BACKWARDS, "time_backwards", "time goes back or repeats")                       \
    X(NS_DATA_NO_TIME, "no_time", "no column is the time")                                         \
    X(NS_DATA_MILLISECONDS, "milliseconds", "time is not in seconds")                              \
    X(NS_DATA_DUPLICATE, "duplicate", "two recordings have the same numbers")                      \
    X(NS_DATA_TRAIN_IS_TEST, "train_is_test", "the same samples are in two sets")                  \
    X(NS_DATA_DEGREES, "degrees", "an angle is in degrees or turns")                               \
    X(NS_DATA_MILLIMETRES, "millimetres", "a length is in millimetres")                            \
    X(NS_DATA_WRAPPED, "wrapped", "an angle jumps by a whole turn")                                \
    X(NS_DATA_VELOCITY_SCALE, "velocity_scale", "a velocity is not the rate of its position")      \
    X(NS_DATA_VELOCITY_DELAY, "velocity_delay", "a velocity is late or early")                     \
    X(NS_DATA_CONTROL_SIGN, "control_sign", "motion answers a control the wrong way")              \
    X(NS_DATA_CONTROL_HOLD, "control_hold", "controls change between samples")                     \
    X(NS_DATA_JOINT_LIMITS, "joint_limits", "a position is beyond the limits of its joint")        \
    X(NS_DATA_STUCK, "stuck", "a value stays the same although it should change")                  \
    X(NS_DATA_OUTLIERS, "outliers", "single values are far from their neighbours")                 \
    X(NS_DATA_MISSING, "missing", "samples are missing")                                           \
    X(NS_DATA_UNEVEN, "uneven", "the distances of rows vary")                                      \
    X(NS_DATA_CONSTANT, "constant", "a channel never changes")                                     \
    X(NS_DATA_UNKNOWN_COLUMN, "unknown_column", "a column is no quantity of the model")

typedef enum ns_data_code { NS_DATA_CODE_MAP(NS_CHOICE_VALUE) } ns_data_code;
extern NS_API const ns_choices ns_data_codes;

/// A place in a recording.
typedef struct ns_data_place {
    const char *recording, *file;
    uint32_t line; ///< 0: not from a file
    double time;   ///< s; where no column is the time: rows from the first one
} ns_data_place;

/// One finding. It stands for all places where a check found the same in a channel.
typedef struct ns_data_finding {
    ns_data_code code;
    ns_data_severity severity;
    const char* channel;         ///< or control; NULL: the file, or its time
    const ns_data_place* places; ///< (nplace) the first ones
    uint32_t nplace;             ///< 0: all recordings
    uint32_t count;              ///< how often it was found
    double value;        ///< what was measured: a factor, a delay in s, a share; NaN: nothing
    const char* message; ///< what is wrong
    const char* advice;  ///< what to do about it
    const char* text;    ///< all of it in one line: "run.csv:12: q_elbow: message; advice"
} ns_data_finding;

/// Statistics of a channel or control over all recordings. NaN: not known.
typedef struct ns_data_channel {
    const char *name, *unit; ///< unit: "" for none, or without a model
    const char* file;        ///< the first one with its columns
    bool control;
    uint64_t count, missing; ///< samples that are there; that are missing at the channel's own rate
    double min, max, mean, deviation;
    double rate;       ///< samples per s, median
    double noise;      ///< standard deviation of its white part
    double resolution; ///< step of quantisation; 0: none was found
} ns_data_channel;

/// Rows of a recording.
typedef struct ns_data_recording {
    const char *name, *file, *set; ///< set: "train", "test"; "" for files
    uint32_t rows;
    double start, duration; ///< s; duration: NaN without times
    double rate;            ///< rows per s, median; NaN without times
    double jitter;          ///< s, standard deviation of the distance of rows, gaps left out
    double longest_gap;     ///< s without a row; 0: there is no gap
    uint32_t gaps;          ///< distances of more than 1.5 median ones
} ns_data_recording;

typedef struct ns_data_check ns_data_check;

typedef struct ns_data_check_options {
    const char* const* files; ///< (nfile), at least one
    uint32_t nfile;
    const char* map;       ///< a map; NULL: columns are taken by their names, also unknown ones
    const ns_model* model; ///< NULL: checks that need one are left out. Outlives the check
    double period;         ///< s between samples; 0: of the first file
} ns_data_check_options;

/// Read files and check them. A file that cannot be read, or whose time goes back, is a finding. Without a
/// map, files with other columns than the first one are checked apart: their channels come after its own.
/// @param allocator  NULL for ns_default_allocator()
/// @return NS_OK, whatever was found; NS_ERR_ARGUMENT: no files; NS_ERR_IO, NS_ERR_PARSE: of the map;
///         NS_ERR_NOMEM
NS_API ns_status ns_data_check_files(const ns_data_check_options* options,
                                     const ns_allocator* allocator, ns_data_check** out,
                                     ns_error* error);

/// Check data sets that have the same channels and controls.
/// @param sets   (nset) outlive the check
/// @param names  (nset) what they are for: "train", "test"; samples that two sets share are a finding
/// @return NS_OK, whatever was found; NS_ERR_ARGUMENT: their channels differ; NS_ERR_NOMEM
NS_API ns_status ns_data_check_sets(const ns_dataset* const* sets, const char* const* names,
                                    uint32_t nset, const ns_model* model,
                                    const ns_allocator* allocator, ns_data_check** out,
                                    ns_error* error);
NS_API void ns_data_check_free(ns_data_check* check); ///< NULL is allowed

/// Findings, the most severe ones first; NULL for a number that is too large.
NS_API uint32_t ns_data_check_finding_count(const ns_data_check* check);
NS_API const ns_data_finding* ns_data_check_finding(const ns_data_check* check, uint32_t number);

/// How many findings are of this severity or a higher one; they are the first ones.
NS_API uint32_t ns_data_check_count(const ns_data_check* check, ns_data_severity severity);

NS_API uint32_t ns_data_check_channel_count(const ns_data_check* check);
NS_API const ns_data_channel* ns_data_check_channel(const ns_data_check* check, uint32_t number);
NS_API uint32_t ns_data_check_recording_count(const ns_data_check* check);
NS_API const ns_data_recording* ns_data_check_recording(const ns_data_check* check,
                                                        uint32_t number);

/// Rows of a channel in a recording, without those where it is missing. They belong to the check.
/// @return how many there are; 0: also for a channel of files with other columns
NS_API uint32_t ns_data_check_rows(const ns_data_check* check, uint32_t recording, uint32_t channel,
                                   const double** times, const double** values);

#ifdef __cplusplus
}
#endif

#endif
