// A viewer drawn and read back.

#ifndef TEST_MOTION_RIG_H
#define TEST_MOTION_RIG_H

#include "report/html.h"
#include "report/motion_data.h"
#include "report/motion_scene.h"
#include "report/packed_columns.h"
#include "support/assert.h"
#include "support/payload.h"

static inline ns_model* load(const char* path, bool ground) {
    ns_load_options options = ns_default_load_options();
    options.ground = ground;
    ns_model* model = NULL;
    ns_error error;
    must(ns_model_load(path, &options, &model, &error), &error);
    return model;
}

static inline ns_text write_page(const ns_motion* viewer) {
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    ns_text text;
    ns_error error;
    nsi_html_open(&b, "page");
    must(nsi_motion_write(viewer, &b, &error), &error);
    nsi_html_close(&b);
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    return text;
}

static inline payload read_viewer(const ns_motion* viewer) {
    ns_text page = write_page(viewer);
    payload p = payload_read(page.data);
    ns_text_free(&page);
    return p;
}

static inline const json_t* at(const json_t* object, const char* key) {
    const json_t* value = json_object_get(object, key);
    if (!value) fail_msg("there is no \"%s\"", key);
    return value;
}

static inline const json_t* item(const json_t* array, size_t k) {
    const json_t* value = json_array_get(array, k);
    if (!value) fail_msg("there is no item %zu", k);
    return value;
}

static inline void assert_text(const json_t* object, const char* key, const char* text) {
    assert_string_equal(json_string_value(at(object, key)), text);
}

#endif
