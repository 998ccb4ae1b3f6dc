// Recordings from arrays in memory, without files or maps.

#include "data/map.h"
#include "data/resample.h"

#include <math.h>

// ---- channels ------------------------------------------------------------------------------------

static ns_status copy_name(ns_data_map* map, const char* name, const char* what, uint32_t number,
                           const char** out, ns_error* error) {
    if (!name || !*name) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_dataset_create_arrays: %s %u has no name", what,
                        number);
    }
    *out = nsi_arena_string(&map->arena, name, strlen(name));
    return *out ? NS_OK : nsi_fail_nomem(error);
}

static ns_status add_array_channel(ns_data_map* map, const ns_array_channel* from, uint32_t number,
                                   ns_error* error) {
    ns_channel channel = {.sigma = from->sigma,
                          .weight = from->weight == 0.0 ? 1.0 : fmax(from->weight, 0.0)};
    ns_status status = copy_name(map, from->name, "channel", number, &channel.name, error);
    if (status != NS_OK) return status;
    channel.value = channel.name;
    if (!(from->sigma >= 0.0 && isfinite(from->sigma)) || !isfinite(from->weight)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_dataset_create_arrays: %.200s: sigma must be finite and not negative,"
                        " and the weight finite",
                        channel.name);
    }
    for (uint32_t k = 0; k < map->channels.count; k++) {
        if (strcmp(map->channels.data[k].name, channel.name) != 0) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_dataset_create_arrays: there are two channels %.200s", channel.name);
    }
    bool done = nsi_array_push(&map->arena.allocator, &map->channels, channel);
    return done ? NS_OK : nsi_fail_nomem(error);
}

static ns_status add_array_control(ns_data_map* map, const char* name, uint32_t number,
                                   ns_error* error) {
    const char* copy = NULL;
    ns_status status = copy_name(map, name, "control", number, &copy, error);
    if (status != NS_OK) return status;
    for (uint32_t k = 0; k < map->controls.count; k++) {
        if (strcmp(map->controls.data[k], copy) != 0) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_dataset_create_arrays: there are two controls %.200s", copy);
    }
    bool done = nsi_array_push(&map->arena.allocator, &map->controls, copy);
    return done ? NS_OK : nsi_fail_nomem(error);
}

ns_status ns_dataset_create_arrays(const ns_array_channel* channels, uint32_t nchannel,
                                   const char* const* controls, uint32_t ncontrol, double period,
                                   const ns_allocator* allocator, ns_dataset** out,
                                   ns_error* error) {
    // Validate the arguments before anything is allocated.
    if (!out) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_dataset_create_arrays: out is NULL");
    *out = NULL;
    if (!channels || nchannel == 0 || (ncontrol > 0 && !controls)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_dataset_create_arrays: there are no %s",
                        channels && nchannel > 0 ? "names of controls" : "channels");
    }
    // The same limits as for files.
    if (!(period >= NSI_GRID_MIN_PERIOD && period <= NSI_GRID_MAX_PERIOD)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_dataset_create_arrays: the period must be from 1e-9 to 1e9 s");
    }

    // Create a map without sources: it only names the columns of the arrays.
    ns_data_map* map = nsi_data_map_create("arrays", allocator);
    ns_status status = map ? NS_OK : nsi_fail_nomem(error);
    for (uint32_t k = 0; k < nchannel && status == NS_OK; k++) {
        status = add_array_channel(map, &channels[k], k, error);
    }
    for (uint32_t k = 0; k < ncontrol && status == NS_OK; k++) {
        status = add_array_control(map, controls[k], k, error);
    }

    // The dataset takes over the map; otherwise it is freed here.
    if (status == NS_OK) status = ns_dataset_create(map, period, allocator, out, error);
    if (status == NS_OK) {
        nsi_dataset_own_map(*out, map);
    } else {
        ns_data_map_free(map);
    }
    return status;
}

// ---- recordings ----------------------------------------------------------------------------------

ns_status ns_dataset_add_arrays(ns_dataset* data, const char* name, uint32_t nsample,
                                const double* values, const double* controls, ns_error* error) {
    // Validate the arguments; controls may be absent only if the dataset has none.
    if (!data || !name || !values || (ns_dataset_control_count(data) > 0 && !controls)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_dataset_add_arrays: an argument is NULL");
    }

    // The sample period dates the samples.
    double period = ns_dataset_period(data);
    if (nsample < 2 || !(period > 0.0)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_dataset_add_arrays: %.200s: %s", name,
                        nsample < 2 ? "a recording has at least 2 samples"
                                    : "the set has no period yet");
    }

    // Rows are samples: nothing is resampled.
    ns_recording recording = {.name = name,
                              .nsample = nsample,
                              .values = values,
                              .controls = controls,
                              .row_rate = 1.0 / period};

    // Values may be missing (NaN) but not infinite.
    size_t nchannel = ns_dataset_channel_count(data), ncontrol = ns_dataset_control_count(data);
    for (size_t k = 0; k < nsample * nchannel; k++) {
        if (isnan(values[k])) recording.nmissing++;
        if (!isinf(values[k])) continue;
        // Name the first bad sample and its channel.
        return nsi_fail(error, NS_ERR_NONFINITE, "%.200s: sample %zu of %.200s is infinite", name,
                        k / nchannel, ns_dataset_channel(data, (uint32_t)(k % nchannel))->name);
    }

    // Controls must be complete: the simulation needs them at every step.
    for (size_t k = 0; k < nsample * ncontrol; k++) {
        if (isfinite(controls[k])) continue;
        return nsi_fail(error, NS_ERR_NONFINITE, "%.200s: sample %zu of %.200s is not finite", name,
                        k / ncontrol, ns_dataset_control(data, (uint32_t)(k % ncontrol)));
    }

    // The dataset copies the arrays.
    return nsi_dataset_append(data, &recording, error);
}
