// Vertices of meshes and outlines of plates: copied, and simple polygons only.

#include "model/model_data.h"
#include "model/pairs_rig.h"
#include "support/assert.h"

static void vertices_are_copied(void** state) {
    (void)state;
    double points[6] = {1, 2, 3, 4, 5, 6};
    ns_model_builder* builder = new_builder();
    ns_geom_def geom = geom_of(NS_GEOM_POINTS, "pins", NULL);
    geom.vertices = points, geom.nvertex = 2;
    add_geom(builder, &geom);
    geom.vertices = points + 3, geom.nvertex = 1, geom.name = "pin";
    add_geom(builder, &geom);
    memset(points, 0, sizeof points);
    add_shape(builder, NS_GEOM_MESH, "mesh", NULL);
    add_shape(builder, NS_GEOM_SPHERE, "ball", NULL);
    // A clockwise outline is turned; z does not matter.
    const double clockwise[] = {0, 0, 1, 0, 1, 2, 1, 1, 3, 1, 0, 4};
    geom = geom_of(NS_GEOM_POLYGON, "plate", NULL);
    geom.vertices = clockwise, geom.nvertex = 4;
    add_geom(builder, &geom);
    ns_model* model = finish(builder);

    const ns_geom_def* held = ns_model_geom(model, 0);
    assert_int_equal(held->nvertex, 2);
    for (int i = 0; i < 6; i++) assert_true(held->vertices[i] == i + 1);
    assert_true(held->size[0] == 0.0); // points have none
    held = ns_model_geom(model, 1);
    for (int i = 0; i < 3; i++) assert_true(held->vertices[i] == i + 4);
    held = ns_model_geom(model, 2);
    assert_null(held->mesh);
    assert_memory_equal(held->vertices, corners, sizeof corners);
    assert_null(ns_model_geom(model, 3)->vertices);
    held = ns_model_geom(model, 4);
    const double turned[] = {1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0};
    assert_memory_equal(held->vertices, turned, sizeof turned);
    assert_true(held->size[0] == 0.1 && held->size[1] == 0.0);
    ns_model_free(model);
}

static void outlines_must_be_simple(void** state) {
    (void)state;
    static const struct {
        const char* fault; // NULL: none
        uint32_t count;
        double xy[20];
    } cases[] = {
        {NULL, 3, {0, 0, 1, 0, 0, 1}},
        {NULL, 3, {0, 0, 0, 1, 1, 0}},
        {NULL, 4, {0, 0, 2, 0, 0.5, 0.5, 0, 2}},   // not convex
        {NULL, 5, {0, 0, 1, 0, 2, 0, 2, 2, 0, 2}}, // three in a row
        {NULL, 4, {1e6, 1e6, 1e6 + 1, 1e6, 1e6 + 1, 1e6 + 1, 1e6, 1e6 + 1}},
        {NULL, 8, {0, 0, 4, 0, 4, 4, 3, 4, 3, 1, 1, 1, 1, 4, 0, 4}}, // a U
        {"fewer than 3", 2, {0, 0, 1, 0}},
        {"twice in a row", 4, {0, 0, 1, 0, 1, 0, 0, 1}},
        {"twice in a row", 4, {0, 0, 1, 0, 0, 1, 0, 0}},
        {"on a line", 3, {0, 0, 1, 1, 2, 2}},
        {"on a line", 3, {0, 0, 1, 0, 2, 1e-14}},
        {"crosses", 4, {0, 0, 1, 1, 1, 0, 0, 1}}, // a bow tie: no area at all
        {"crosses", 5, {0, 0, 4, 0, 4, 4, 2, -1, 0, 4}},
        {"crosses", 5, {0, 0, 4, 0, 4, 4, 2, 0, 0, 4}},       // a corner on an edge
        {"crosses", 6, {0, 0, 2, 0, 1, 1, 2, 2, 0, 2, 1, 1}}, // twice through a point
        {"folds back", 4, {0, 0, 4, 0, 2, 0, 0, 3}},
        {"too large", 3, {0, 0, 1e200, 0, 0, 1e200}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double vertices[30];
        for (uint32_t i = 0; i < cases[k].count; i++) {
            vertices[3 * i] = cases[k].xy[2 * i];
            vertices[3 * i + 1] = cases[k].xy[2 * i + 1];
            vertices[3 * i + 2] = 7.0;
        }
        const char* fault = nsi_outline_fault(vertices, cases[k].count);
        if (!cases[k].fault != !fault || (fault && !strstr(fault, cases[k].fault))) {
            fail_msg("outline %zu: %s", k, fault ? fault : "nothing is wrong");
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vertices_are_copied),
        cmocka_unit_test(outlines_must_be_simple),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
