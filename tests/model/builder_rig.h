// Builders, links and finished models, for tests.

#ifndef TEST_BUILDER_RIG_H
#define TEST_BUILDER_RIG_H

#include "model/model_data.h"
#include "support/assert.h"
#include "support/modelfile.h"

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

#endif
