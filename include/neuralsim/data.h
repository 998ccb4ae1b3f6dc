/// @file data.h
/// Recordings: tables of measured numbers, mapped to quantities of a model on an even time grid.
///
///     ns_data_map* map = NULL;
///     ns_data_map_load("pendulum_map.yaml", NULL, &map, &error);
///     ns_dataset* data = NULL;
///     ns_dataset_create(map, 0.0025, NULL, &data, &error);       // a sample every 2.5 ms
///     ns_dataset_add(data, "run0.csv", NULL, &error);
///
/// A map says which quantities the columns of a table are, in YAML (docs/data.md):
///
///     columns: [x1, y1, x2, y2]                # names, for a file without a header
///     rate: 400                                # rows per second, or
///     time: t                                  # a formula of columns, s
///     trajectory: run                          # a column: a new recording wherever it changes
///     define:                                  # further columns
///       angle: unwrap(atan2(x2 - x1, y2 - y1))
///     observe:                                 # measured quantities
///       joint/shoulder/position: {value: angle - pi/2, sigma: 0.002}
///     control:                                 # what was commanded
///       u/shoulder_motor: 0.5 * current
///
/// Numbers that are in memory already need neither files nor a map:
///
///     ns_array_channel angle = {.name = "joint/elbow/position", .sigma = 0.002};
///     ns_dataset_create_arrays(&angle, 1, NULL, 0, 0.01, NULL, &data, &error);
///     ns_dataset_add_arrays(data, "swing", 500, angles, NULL, &error);
///
/// Without a map, columns are taken by their names: "q0", "qd0", "q_<joint>", "qd_<joint>", names of
/// quantities, "u_<joint>", "u/<actuator>", "tau0", "t", "traj".
/// Missing numbers are NaN.

#ifndef NEURALSIM_DATA_H
#define NEURALSIM_DATA_H

#include "neuralsim/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_data_map ns_data_map;
typedef struct ns_dataset ns_dataset;

/// Read a map. Messages name file, line and column.
/// @return NS_OK, NS_ERR_IO, NS_ERR_PARSE, NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_data_map_load(const char* path, const ns_allocator* allocator,
                                  ns_data_map** out, ns_error* error);

/// The map for a table whose columns already have names that the model knows (see above).
/// @param path  of the table, whose header is read
/// @return also NS_ERR_PARSE when no column is known, naming those there are and what is known
NS_API ns_status ns_data_map_infer(const char* path, const ns_model* model,
                                   const ns_allocator* allocator, ns_data_map** out,
                                   ns_error* error);
NS_API void ns_data_map_free(ns_data_map* map); ///< NULL is allowed

/// How numbers come onto the grid from the rows around them.
/// Cubics are those of Catmull and Rom.
#define NS_RESAMPLE_MAP(X)                                                                         \
    X(NS_RESAMPLE_LINEAR, "linear", "linearly")                                                    \
    X(NS_RESAMPLE_NEAREST, "nearest", "to the nearest row")                                        \
    X(NS_RESAMPLE_CUBIC, "cubic", "by cubics")

typedef enum ns_resample { NS_RESAMPLE_MAP(NS_CHOICE_VALUE) } ns_resample;
extern NS_API const ns_choices ns_resamples;

/// A measured quantity.
typedef struct ns_channel {
    const char* name;  ///< of the quantity: "joint/elbow/position", "q0"
    double sigma;      ///< standard deviation of its noise, in its unit; 0: not given
    double weight;     ///< in the loss. Default 1; 0: looked at, not fitted
    const char* value; ///< the formula
} ns_channel;

/// One recording on the grid: sample k is at start + k period.
typedef struct ns_recording {
    const char* name; ///< "run0.csv", or "run0.csv:3" for the trajectory 3 of a file
    const char* file; ///< its path
    uint32_t line;    ///< of its first row
    double start;     ///< s
    uint32_t nsample;
    const double* values;   ///< (nsample x nchannel); NaN: missing
    const double* controls; ///< (nsample x ncontrol), held until the next sample; never missing
    uint32_t nmissing;      ///< of the values
    double row_rate;        ///< rows of the file per second, median
    bool resampled;         ///< rows were not on the grid
} ns_recording;

/// Which part of a file.
typedef struct ns_data_part {
    double from, to; ///< s from the beginning of each recording; to = 0: its end. A sample at
                     ///< `to` is not in the part: parts that meet share none
    bool fractions;  ///< from, to are fractions (0 to 1) of each recording
    double first_trajectory; ///< values of the trajectory column, both included; without such a
    double last_trajectory;  ///< column there is trajectory 0
    bool all_trajectories;   ///< these two do not matter
} ns_data_part;

/// An empty set.
/// @param period  s between samples; 0: that of the first file, as even as its rows are
/// @param map     must outlive the set
NS_API ns_status ns_dataset_create(const ns_data_map* map, double period,
                                   const ns_allocator* allocator, ns_dataset** out,
                                   ns_error* error);
NS_API void ns_dataset_free(ns_dataset* data); ///< NULL is allowed

/// Read a file and append its recordings.
/// @param part  NULL: all of it
/// @return NS_OK; NS_ERR_IO, NS_ERR_PARSE naming file and line (a column that is not there, time
///         that does not grow, no sample left, a control that is missing), NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_dataset_add(ns_dataset* data, const char* path, const ns_data_part* part,
                                ns_error* error);

/// A channel of recordings in memory.
typedef struct ns_array_channel {
    const char* name; ///< of the quantity: "joint/elbow/position", "q0"
    double sigma;     ///< standard deviation of its noise, in its unit; 0: not given
    double weight;    ///< in the loss. 0: 1; negative: compared, not fitted
} ns_array_channel;

/// An empty set for recordings in memory.
/// @param channels  (nchannel), at least one; texts are copied
/// @param controls  (ncontrol) names of controls: "u/motor", "tau0"
/// @param period    s between samples, above 0
/// @return NS_OK; NS_ERR_ARGUMENT: no channel, a name that is missing or there twice, a sigma that is
///         negative or not finite, a period out of 1e-9 to 1e9 s; NS_ERR_NOMEM
NS_API ns_status ns_dataset_create_arrays(const ns_array_channel* channels, uint32_t nchannel,
                                          const char* const* controls, uint32_t ncontrol,
                                          double period, const ns_allocator* allocator,
                                          ns_dataset** out, ns_error* error);

/// Append a recording from memory, sample k at k periods. The numbers are copied.
/// @param name      of the recording; also taken for the name of its file, which selects the robot among
///                  variants
/// @param nsample   at least 2
/// @param values    (nsample x nchannel); NaN: missing
/// @param controls  (nsample x ncontrol), held until the next sample; NULL without controls
/// @return NS_OK; NS_ERR_ARGUMENT: an argument is missing, the period of the set is not known, or
///         there are too few samples; NS_ERR_NONFINITE naming the sample: an infinite value, or a
///         control that is not finite; NS_ERR_NOMEM. After a failure nothing was appended
NS_API ns_status ns_dataset_add_arrays(ns_dataset* data, const char* name, uint32_t nsample,
                                       const double* values, const double* controls,
                                       ns_error* error);

NS_API double ns_dataset_period(const ns_dataset* data); ///< s
NS_API uint32_t ns_dataset_channel_count(const ns_dataset* data);
NS_API const ns_channel* ns_dataset_channel(const ns_dataset* data, uint32_t number);
NS_API uint32_t ns_dataset_control_count(const ns_dataset* data);
NS_API const char* ns_dataset_control(const ns_dataset* data, uint32_t number); ///< its name
NS_API uint32_t ns_dataset_recording_count(const ns_dataset* data);
NS_API const ns_recording* ns_dataset_recording(const ns_dataset* data, uint32_t number);

/// What was done to the numbers between file and grid, in words: "resampled linearly from about
/// 500 Hz (uneven) to 500 Hz; smooth(x, 11, 3)". Owned by the set.
NS_API const char* ns_dataset_treatment(const ns_dataset* data);

#ifdef __cplusplus
}
#endif

#endif
