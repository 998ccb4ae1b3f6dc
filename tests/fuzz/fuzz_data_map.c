// Any bytes as a map and a table, which a line "---" separates. What is accepted must be sound: times
// on an even grid, missing numbers counted, controls finite; what is not must say where it fails, and
// must leave no memory behind.

#include "data/map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void check_recording(const ns_dataset* data, const ns_recording* r) {
    uint32_t nchannel = ns_dataset_channel_count(data), ncontrol = ns_dataset_control_count(data);
    REQUIRE(r->nsample > 0 && isfinite(r->start) && r->line > 0);
    uint32_t missing = 0;
    for (size_t k = 0; k < (size_t)r->nsample * nchannel; k++) {
        REQUIRE(!isinf(r->values[k]));
        if (isnan(r->values[k])) missing++;
    }
    REQUIRE(missing == r->nmissing);
    for (size_t k = 0; k < (size_t)r->nsample * ncontrol; k++) REQUIRE(isfinite(r->controls[k]));
}

static void check_table(const ns_data_map* map, const char* text, size_t size) {
    // A given period, of which the part keeps the number of samples small, and the file's own.
    static const double periods[] = {0.01, 0.0};
    for (int k = 0; k < (map->channels.count + map->controls.count < 9 ? 2 : 1); k++) {
        ns_dataset* data = NULL;
        ns_error error = {0};
        REQUIRE(ns_dataset_create(map, periods[k], NULL, &data, &error) == NS_OK);
        ns_data_part part = {.to = 10.0, .all_trajectories = true};
        ns_status status = nsi_dataset_add_text(data, text, size, "t.csv", &part, &error);
        REQUIRE(status == error.status); // an error has its message, and only an error
        REQUIRE(status == NS_OK || strncmp(error.message, "t.csv:", 6) == 0 ||
                strncmp(error.message, "m.yaml:", 7) == 0);
        REQUIRE((status == NS_OK) == (ns_dataset_recording_count(data) > 0));
        for (uint32_t i = 0; i < ns_dataset_recording_count(data); i++) {
            check_recording(data, ns_dataset_recording(data, i));
        }
        ns_dataset_free(data);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    const char* text = (const char*)bytes;
    size_t end = 0; // of the map
    while (end + 5 <= size && memcmp(text + end, "\n---\n", 5) != 0) end++;
    bool table = end + 5 <= size;
    if (!table) end = size;
    ns_data_map* map = NULL;
    ns_error error = {0};
    ns_status status = nsi_data_map_parse(text, end, "m.yaml", NULL, &map, &error);
    REQUIRE(status == error.status && (status == NS_OK) == (map != NULL));
    REQUIRE(status == NS_OK || strncmp(error.message, "m.yaml:", 7) == 0);
    if (map && table) check_table(map, text + end + 5, size - end - 5);
    ns_data_map_free(map);
    return 0;
}
