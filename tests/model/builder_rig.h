// Builders, links and finished models, for tests.

#ifndef TEST_BUILDER_RIG_H
#define TEST_BUILDER_RIG_H

#include "model/model_data.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/testalloc.h"

static inline ns_link_def rod(const char* name, const char* parent) {
    ns_link_def link = ns_default_link_def();
    link.name = name;
    link.parent = parent;
    link.joint_type = NS_JOINT_REVOLUTE;
    link.axis[0] = 0.0, link.axis[1] = 2.0, link.axis[2] = 0.0;
    link.mass = 1.0;
    link.com[2] = -0.5;
    link.inertia[0] = link.inertia[1] = 0.02;
    return link;
}

static inline ns_model_builder* new_builder(void) {
    ns_model_builder* builder = NULL;
    assert_int_equal(ns_model_builder_create(NULL, &builder, NULL), NS_OK);
    return builder;
}

static inline void add(ns_model_builder* builder, const ns_link_def* link) {
    ns_error error = {0};
    must(ns_model_builder_add_link(builder, link, &error), &error);
}

static inline ns_model* finish(ns_model_builder* builder) {
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_builder_finish(builder, &model, &error), &error);
    modelfile_check(model);
    ns_model_builder_free(builder);
    return model;
}

// The geometry is refused with this status and message. NULL: by a builder that has nothing else.
static inline void expect_geom_error(ns_model_builder* builder, const ns_geom_def* geom,
                                     ns_status status, const char* fragment) {
    ns_model_builder* own = builder ? NULL : new_builder();
    ns_error error = {0};
    assert_int_equal(ns_model_builder_add_geom(builder ? builder : own, geom, &error), status);
    assert_says(error.message, fragment);
    ns_model_builder_free(own);
}

typedef ns_status model_maker(const ns_allocator* allocator, ns_model** out, ns_error* error);

// Let each allocation of the maker fail in turn: it says so and leaves nothing behind. A model that is
// made in the end, which `check` (or NULL) looks at, is one block.
static inline void fail_each_allocation(model_maker* make, void (*check)(const ns_model* model)) {
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_model* model = NULL;
        ns_error error = {0};
        ns_status status = make(&allocator, &model, &error);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            assert_int_equal(counter.live_blocks, 1);
            if (check) check(model);
            modelfile_check(model);
            ns_model_free(model);
            assert_int_equal(counter.live_blocks, 0);
            assert_true(n > 20);
            return;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(error.status, NS_ERR_NOMEM);
        assert_null(model);
        assert_int_equal(counter.live_blocks, 0);
    }
}

#endif
