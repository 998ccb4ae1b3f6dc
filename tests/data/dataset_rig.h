// A map and the dataset that tables are added to.

#ifndef TEST_DATASET_RIG_H
#define TEST_DATASET_RIG_H

#include "data/map.h"
#include "data/resample.h"
#include "support/assert.h"
#include "support/check.h"

#include <math.h>

#define PI 3.14159265358979323846

typedef struct set {
    ns_data_map* map;
    ns_dataset* data;
} set;

static inline set make(const char* map_text, double period) {
    set s = {0};
    ns_error error = {0};
    if (nsi_data_map_parse(map_text, strlen(map_text), "m.yaml", NULL, &s.map, &error) != NS_OK ||
        ns_dataset_create(s.map, period, NULL, &s.data, &error) != NS_OK) {
        fail_msg("%s", error.message);
    }
    return s;
}

static inline void drop(set* s) {
    ns_dataset_free(s->data);
    ns_data_map_free(s->map);
    *s = (set){0};
}

static inline void add(const set* s, const char* text, const ns_data_part* part) {
    ns_error error = {0};
    must(nsi_dataset_add_text(s->data, text, strlen(text), "dir/t.csv", part, &error), &error);
}

static inline double value(const set* s, uint32_t recording, uint32_t sample, uint32_t channel) {
    const ns_recording* r = ns_dataset_recording(s->data, recording);
    assert_non_null(r);
    assert_true(sample < r->nsample);
    return r->values[(size_t)sample * ns_dataset_channel_count(s->data) + channel];
}

static inline double control(const set* s, uint32_t sample, uint32_t number) {
    const ns_recording* r = ns_dataset_recording(s->data, 0);
    assert_true(sample < r->nsample);
    return r->controls[(size_t)sample * ns_dataset_control_count(s->data) + number];
}

// A table being written.
typedef struct writing {
    nsi_text_builder text;
} writing;

static inline writing start_table(const char* header) {
    writing w = {.text = {.allocator = ns_default_allocator()}};
    nsi_text_add(&w.text, "%s\n", header);
    return w;
}

static inline void put_row(writing* w, const char* stream, uint32_t count, const double* numbers) {
    if (stream) nsi_text_add(&w->text, "%s,", stream);
    for (uint32_t k = 0; k < count; k++) {
        if (k > 0) nsi_text_add(&w->text, ",");
        if (!isnan(numbers[k])) nsi_text_add_double(&w->text, numbers[k]);
    }
    nsi_text_add(&w->text, "\n");
}

static inline void add_table(const set* s, writing* w, const ns_data_part* part) {
    ns_text text;
    assert_int_equal(nsi_text_finish(&w->text, &text, NULL), NS_OK);
    add(s, text.data, part);
    ns_text_free(&text);
}

#endif
