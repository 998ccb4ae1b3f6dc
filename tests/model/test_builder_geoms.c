// Geometries that a builder refuses, and what it keeps of meshes.

#include "model/pairs_rig.h"

#include <math.h>

static void bad_geometries_are_named(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_geom_def good = ns_default_geom_def();
    good.name = "ball";
    good.size[0] = 1.0;
    ns_geom_def geom = good;
    geom.link = "nobody";
    expect_geom_error(builder, &geom, NS_ERR_ARGUMENT,
                      "geometry \"ball\": link names no earlier link \"nobody\"");
    geom = good;
    geom.size[0] = 0.0;
    expect_geom_error(builder, &geom, NS_ERR_ARGUMENT, "size must be positive");
    geom = good;
    geom.type = NS_GEOM_BOX;
    expect_geom_error(builder, &geom, NS_ERR_ARGUMENT, "size must be positive");
    geom = good;
    geom.type = (ns_geom_type)99;
    expect_geom_error(builder, &geom, NS_ERR_ARGUMENT, "type");
    geom = good;
    geom.pose.quaternion[3] = 1.0;
    expect_geom_error(builder, &geom, NS_ERR_ARGUMENT, "quaternion of pose");
    geom = good;
    geom.friction[2] = -1.0;
    expect_geom_error(builder, &geom, NS_ERR_ARGUMENT, "friction must be zero or positive");
    geom = good;
    geom.condim = 2;
    expect_geom_error(builder, &geom, NS_ERR_ARGUMENT, "condim must be 1, 3, 4 or 6");
    geom = good;
    geom.color[3] = NAN;
    expect_geom_error(builder, &geom, NS_ERR_ARGUMENT, "color must be finite");
    geom = good;
    geom.type = NS_GEOM_MESH;
    expect_geom_error(builder, &geom, NS_ERR_ARGUMENT, "mesh must name a file");
    geom = good;
    geom.mesh = "a.stl";
    expect_geom_error(builder, &geom, NS_ERR_ARGUMENT, "mesh must be NULL");
    assert_int_equal(ns_model_builder_add_geom(builder, &good, NULL), NS_OK);
    expect_geom_error(builder, &good, NS_ERR_ARGUMENT, "another geometry has this name");
    ns_model_builder_free(builder);
}

static void bad_shapes_and_vertices_are_named(void** state) {
    (void)state;
    ns_geom_def geom = geom_of(NS_GEOM_SPHERE, "g", NULL);
    geom.restitution = 1.1;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT,
                      "geometry \"g\": restitution must be between 0 and 1");
    geom = geom_of(NS_GEOM_SPHERE, "g", NULL);
    geom.stiffness = -2.0;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "stiffness must be zero or positive");
    geom = geom_of(NS_GEOM_SPHERE, "g", NULL);
    geom.damping = NAN;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "damping must be finite");
    geom = geom_of(NS_GEOM_SPHERE, "g", NULL);
    geom.vertices = corners, geom.nvertex = 4;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT,
                      "only meshes, polygons and points have vertices");
    geom = geom_of(NS_GEOM_POLYGON, "g", NULL);
    geom.nvertex = 0;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "vertices must be given");
    geom = geom_of(NS_GEOM_POINTS, "g", NULL);
    geom.vertices = NULL;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "vertices is NULL");
    geom = geom_of(NS_GEOM_POINTS, "g", NULL);
    geom.nvertex = 0;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "vertices must be given");
    geom = geom_of(NS_GEOM_MESH, "g", NULL);
    geom.nvertex = 0;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "mesh must name a file, or give vertices");
    geom = geom_of(NS_GEOM_ELLIPSE, "g", NULL);
    geom.size[1] = 0.0;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "size must be positive");
    geom = geom_of(NS_GEOM_ELLIPSE, "g", NULL);
    geom.size[2] = -0.1;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "size must be zero or positive");
    const double bad[] = {0, 0, 0, 1, NAN, 0, 0, 1, 0};
    geom = geom_of(NS_GEOM_POLYGON, "g", NULL);
    geom.vertices = bad;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "vertices must be finite");
    const double bow[] = {0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0};
    geom.vertices = bow, geom.nvertex = 4;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT,
                      "geometry \"g\": vertices: the outline crosses or touches itself");
    geom.nvertex = 5000;
    expect_geom_error(NULL, &geom, NS_ERR_LIMIT, "too many vertices, 5000");
}

static void large_meshes_keep_their_corners(void** state) {
    (void)state;
    enum { N = 12 };
    static double grid[3 * N * N * N];
    for (int k = 0; k < N * N * N; k++) {
        grid[3 * k] = k % N, grid[3 * k + 1] = k / N % N, grid[3 * k + 2] = k / N / N;
    }
    ns_geom_def geom = geom_of(NS_GEOM_MESH, "g", NULL);
    geom.vertices = grid, geom.nvertex = N * N * N;
    ns_model_builder* builder = new_builder();
    assert_int_equal(ns_model_builder_add_geom(builder, &geom, NULL), NS_OK);
    ns_model* model = finish(builder);
    const ns_geom_def* kept = ns_model_geom(model, 0);
    assert_int_equal(kept->nvertex, 8);
    for (uint32_t k = 0; k < 24; k++) {
        assert_true(kept->vertices[k] == 0.0 || kept->vertices[k] == N - 1);
    }
    ns_model_free(model);
}

static void bad_height_fields_are_named(void** state) {
    (void)state;
    ns_geom_def geom = geom_of(NS_GEOM_HFIELD, "g", NULL);
    ns_model_builder* builder = new_builder();
    assert_int_equal(ns_model_builder_add_geom(builder, &geom, NULL), NS_OK);
    ns_model_builder_free(builder);
    geom.nrow = 1;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "at least 2 rows and 2 columns");
    geom.nrow = geom.ncol = UINT32_MAX;
    expect_geom_error(NULL, &geom, NS_ERR_LIMIT, "too many elevations, 4294967295 x 4294967295");
    geom = geom_of(NS_GEOM_HFIELD, "g", NULL);
    geom.elevation = NULL;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "a height field needs elevation");
    const double bad[4] = {0, 1, INFINITY, 0};
    geom.elevation = bad;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "elevation must be finite");
    geom = geom_of(NS_GEOM_BOX, "g", NULL);
    geom.nrow = 3;
    expect_geom_error(NULL, &geom, NS_ERR_ARGUMENT, "only height fields have elevation");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_geometries_are_named),
        cmocka_unit_test(bad_shapes_and_vertices_are_named),
        cmocka_unit_test(large_meshes_keep_their_corners),
        cmocka_unit_test(bad_height_fields_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
