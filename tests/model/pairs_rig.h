// Models with geometries that touch, for tests of pairs.

#ifndef TEST_PAIRS_RIG_H
#define TEST_PAIRS_RIG_H

#include "model/builder_rig.h"
#include "model/model_data.h"
#include "support/assert.h"
#include "support/modelfile.h"

static inline void add_link(ns_model_builder* builder, const char* name, const char* parent,
                            ns_joint_type type, double mass) {
    ns_link_def link = ns_default_link_def();
    ns_error error = {0};
    link.name = name;
    link.parent = parent;
    link.joint_type = type;
    link.mass = mass;
    for (int i = 0; i < 3; i++) link.inertia[i] = 0.01 * mass;
    must(ns_model_builder_add_link(builder, &link, &error), &error);
}

static const double corners[] = {1, 1, 1, -1, 1, -1, -1, -1, 1, 1, -1, -1};

static const double triangle[] = {0, 0, 5, 2, 0, 5, 0, 1, 5};

static inline ns_geom_def geom_of(ns_geom_type type, const char* name, const char* link) {
    ns_geom_def geom = ns_default_geom_def();
    geom.type = type;
    geom.name = name;
    geom.link = link;
    for (int i = 0; i < 3; i++) geom.size[i] = 0.1;
    if (type == NS_GEOM_MESH || type == NS_GEOM_POINTS) {
        geom.vertices = corners, geom.nvertex = 4;
    } else if (type == NS_GEOM_POLYGON) {
        geom.vertices = triangle, geom.nvertex = 3;
    } else if (type == NS_GEOM_HFIELD) {
        geom.elevation = corners, geom.nrow = 3, geom.ncol = 4;
    }
    return geom;
}

static inline void add_geom(ns_model_builder* builder, const ns_geom_def* geom) {
    ns_error error = {0};
    must(ns_model_builder_add_geom(builder, geom, &error), &error);
}

static inline void add_shape(ns_model_builder* builder, ns_geom_type type, const char* name,
                             const char* link) {
    ns_geom_def geom = geom_of(type, name, link);
    add_geom(builder, &geom);
}

static inline void add_pair(ns_model_builder* builder, const char* a, const char* b) {
    ns_contact_def contact = ns_default_contact_def();
    ns_error error = {0};
    contact.a = a, contact.b = b;
    must(ns_model_builder_add_contact(builder, &contact, &error), &error);
}

// The names of all pairs, in order.
static inline void expect_pairs(const ns_model* model, const char* const* names) {
    uint32_t count = 0;
    for (; names[count]; count++) {
        const ns_contact_def* contact = ns_model_contact(model, count);
        assert_non_null(contact);
        assert_string_equal(contact->name, names[count]);
    }
    assert_int_equal(ns_model_get_sizes(model).ncontact, count);
    assert_null(ns_model_contact(model, count));
}

#define EXPECT_PAIRS(model, ...) expect_pairs(model, (const char* const[]){__VA_ARGS__, NULL})

#endif
