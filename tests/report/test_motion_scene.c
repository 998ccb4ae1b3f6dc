// Scenes: links and shapes of a model, meshes by their triangles or corners.

#define _POSIX_C_SOURCE 200809L

#include "report/html.h"
#include "report/motion_rig.h"
#include "report/motion_scene.h"
#include "support/assert.h"
#include "support/payload.h"
#include "support/tempdir.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static void assert_numbers(const json_t* array, const double* numbers, size_t count) {
    assert_int_equal(json_array_size(array), count);
    for (size_t k = 0; k < count; k++) {
        assert_true(json_number_value(json_array_get(array, k)) == numbers[k]);
    }
}

// ---- scene -----------------------------------------------------------------------------------

static payload draw(const ns_model* model) {
    ns_motion* viewer = NULL;
    assert_int_equal(ns_motion_create(model, NULL, &viewer, NULL), NS_OK);
    payload p = read_viewer(viewer);
    ns_motion_free(viewer);
    return p;
}

static const json_t* find_geom(const payload* p, const char* name) {
    const json_t* geoms = at(at(p->data, "scene"), "geoms");
    for (size_t k = 0; k < json_array_size(geoms); k++) {
        const json_t* geom = item(geoms, k);
        if (strcmp(json_string_value(at(geom, "name")), name) == 0) return geom;
    }
    return NULL;
}

static void links_and_shapes_are_the_model_s(void** state) {
    (void)state;
    ns_model* model = load(NEURALSIM_SOURCE_DIR "/models/quadruped.urdf", true);
    payload p = draw(model);
    const json_t* scene = at(p.data, "scene");
    const json_t* links = at(scene, "links");
    const double up[3] = {0.0, 0.0, 1.0};
    ns_model_sizes n = ns_model_get_sizes(model);
    assert_numbers(at(scene, "up"), up, 3);
    assert_int_equal(json_array_size(links), n.nlink);
    for (uint32_t k = 0; k < n.nlink; k++) {
        const ns_link_def* def = ns_model_link(model, k);
        const json_t *link = item(links, k), *joint = at(link, "joint");
        uint32_t parent = ns_model_link_parent(model, k);
        assert_text(link, "name", def->name);
        assert_int_equal(json_integer_value(at(link, "parent")),
                         parent == UINT32_MAX ? -1 : (int)parent);
        assert_text(joint, "name", def->joint);
        assert_text(joint, "type", k == 0 ? "floating" : "revolute");
        assert_numbers(at(joint, "axis"), def->axis, 3);
    }
    // What is seen stands beside what touches: of these only the first are drawn.
    uint32_t visual = 0, drawn = (uint32_t)json_array_size(at(scene, "geoms"));
    for (uint32_t k = 0; k < n.ngeom; k++) {
        const ns_geom_def* def = ns_model_geom(model, k);
        const json_t* geom = find_geom(&p, def->name);
        visual += def->visual;
        assert_int_equal(geom != NULL, def->visual);
        if (!geom) continue;
        assert_numbers(at(geom, "size"), def->size, 3);
        assert_numbers(at(geom, "color"), def->color, 4);
        double pose[7];
        memcpy(pose, def->pose.position, 3 * sizeof *pose);
        memcpy(pose + 3, def->pose.quaternion, 4 * sizeof *pose);
        assert_numbers(at(geom, "pose"), pose, 7);
    }
    assert_int_equal(drawn, visual);
    assert_true(drawn < n.ngeom);
    assert_int_equal(json_integer_value(at(find_geom(&p, "ground"), "link")), -1);
    assert_text(find_geom(&p, "ground"), "type", "plane");
    payload_free(&p);
    ns_model_free(model);
}

// Volume of a closed surface, by the divergence theorem.
static double volume(const json_t* geom) {
    const json_t *vertices = at(geom, "vertices"), *triangles = at(geom, "triangles");
    double sum = 0.0;
    for (size_t k = 0; k < json_array_size(triangles); k += 3) {
        double v[3][3];
        for (size_t i = 0; i < 9; i++) {
            json_int_t corner = json_integer_value(item(triangles, k + i / 3));
            v[i / 3][i % 3] = json_number_value(item(vertices, (size_t)corner * 3 + i % 3));
        }
        sum += v[0][0] * (v[1][1] * v[2][2] - v[1][2] * v[2][1]) -
               v[0][1] * (v[1][0] * v[2][2] - v[1][2] * v[2][0]) +
               v[0][2] * (v[1][0] * v[2][1] - v[1][1] * v[2][0]);
    }
    return fabs(sum) / 6.0;
}

// The one that is to be seen is lost, so those that touch are drawn.
static void meshes_are_drawn_with_their_triangles(void** state) {
    (void)state;
    ns_model* model = load(NEURALSIM_SOURCE_DIR "/tests/data/mesh/urdf.urdf", false);
    payload p = draw(model);
    static const char* const names[] = {"obj", "stl", "file"};
    for (int k = 0; k < 3; k++) {
        const json_t* geom = find_geom(&p, names[k]);
        assert_non_null(geom);
        assert_int_equal(json_array_size(at(geom, "triangles")), 3 * 12);
        assert_true(fabs(volume(geom) - 6.0) < 1e-9); // before it is scaled
    }
    const double scale[3] = {1.0, 1.0, 2.0};
    assert_numbers(at(find_geom(&p, "obj"), "size"), scale, 3);
    assert_null(find_geom(&p, "lost"));
    assert_null(find_geom(&p, "other"));
    payload_free(&p);
    ns_model_free(model);

    model = load(NEURALSIM_SOURCE_DIR "/tests/data/mesh/mjcf.xml", false);
    p = draw(model);
    assert_int_equal(json_array_size(at(find_geom(&p, "x"), "triangles")), 3 * 12);
    assert_null(json_object_get(find_geom(&p, "y"), "triangles")); // from vertices
    assert_int_equal(json_array_size(at(find_geom(&p, "y"), "vertices")), 3 * 4);
    assert_null(find_geom(&p, "drawn")); // damaged
    payload_free(&p);
    ns_model_free(model);
}

// A strip of triangles, each with a corner of its own.
static void write_strip(const char* name, uint32_t count) {
    size_t size = 84 + (size_t)count * 50;
    char* bytes = calloc(size, 1);
    memcpy(bytes + 80, &count, 4);
    for (uint32_t k = 0; k < count; k++) {
        float v[9] = {(float)k, 0, 0, (float)k + 1, 0, 0, (float)k, 1, (float)(k % 7)};
        memcpy(bytes + 84 + (size_t)k * 50 + 12, v, sizeof v);
    }
    tempdir_write_bytes(name, bytes, size);
    free(bytes);
}

static void large_and_lost_meshes_are_drawn_by_corners(void** state) {
    (void)state;
    static const char urdf[] =
        "<robot name='r'><link name='world'/><link name='a'><inertial><mass value='1'/>"
        "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial>"
        "<visual name='s'><geometry><mesh filename='s.stl'/></geometry></visual>"
        "<visual name='t'><geometry><mesh filename='t.stl'/></geometry></visual>"
        "<collision name='c'><geometry><mesh filename='t.stl'/></geometry></collision></link>"
        "<joint name='j' type='floating'><parent link='world'/><child link='a'/></joint></robot>";
    tempdir_write("r.urdf", urdf);
    uint32_t half = NSI_SCENE_MAX_TRIANGLES / 2;
    write_strip("s.stl", half);
    write_strip("t.stl", half);
    ns_model* model = load(tempdir_path("r.urdf"), false);
    payload p = draw(model); // as many as are allowed
    assert_int_equal(json_array_size(at(find_geom(&p, "t"), "triangles")), 3 * (size_t)half);
    payload_free(&p);

    write_strip("t.stl", half + 1); // one too many
    p = draw(model);
    static const char* const names[] = {"s", "t"};
    for (int k = 0; k < 2; k++) {
        const json_t* geom = find_geom(&p, names[k]);
        assert_null(json_object_get(geom, "triangles"));
        assert_in_range(json_array_size(at(geom, "vertices")), 3 * 4, 3 * 32);
    }
    assert_null(find_geom(&p, "c"));
    payload_free(&p);

    assert_int_equal(unlink(tempdir_path("s.stl")), 0); // gone since the model was read
    assert_int_equal(unlink(tempdir_path("t.stl")), 0);
    p = draw(model);
    assert_null(find_geom(&p, "s"));
    assert_null(json_object_get(find_geom(&p, "c"), "triangles"));
    assert_in_range(json_array_size(at(find_geom(&p, "c"), "vertices")), 3 * 4, 3 * 32);
    payload_free(&p);
    ns_model_free(model);
}

// Where the surface of contact is, by cells from -y.
static void height_fields_are_drawn(void** state) {
    (void)state;
    const char* path = tempdir_write(
        "hills.xml", "<mujoco><asset><hfield name='h' nrow='2' ncol='3' size='1 2 3 4' "
                     "elevation='4 2 3 0 1 2'/></asset><worldbody><geom name='hills' "
                     "type='hfield' hfield='h'/></worldbody></mujoco>");
    ns_model* model = load(path, false);
    payload p = draw(model);
    const json_t* geom = find_geom(&p, "hills");
    assert_non_null(geom);
    const double size[3] = {1, 2, 3}, triangles[12] = {0, 1, 4, 0, 4, 3, 1, 2, 5, 1, 5, 4};
    const double vertices[18] = {-1, -1, 0, 0, -1, 0.25, 1, -1, 0.5,
                                 -1, 1,  1, 0, 1,  0.5,  1, 1,  0.75};
    assert_text(geom, "type", "hfield");
    assert_numbers(at(geom, "size"), size, 3);
    assert_numbers(at(geom, "vertices"), vertices, 18);
    assert_numbers(at(geom, "triangles"), triangles, 12);
    payload_free(&p);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_and_shapes_are_the_model_s),
        cmocka_unit_test(meshes_are_drawn_with_their_triangles),
        cmocka_unit_test(large_and_lost_meshes_are_drawn_by_corners),
        cmocka_unit_test(height_fields_are_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
