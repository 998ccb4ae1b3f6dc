// Links of URDF: files that are accepted with a note, and inertias that are repaired.

#include "support/assert.h"
#include "support/modelfile.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void accepted_files_are_noted(void** state) {
    (void)state;
    assert_true(modelfile_try_accepted("urdf/accepted", ".urdf") >= 24);
    assert_true(modelfile_try_accepted("mjcf/accepted", ".xml") >= 1);
}

static void the_nearest_physical_inertia_is_used(void** state) {
    (void)state;
    // Raised by the half of what is missing to the triangle inequality, each.
    ns_model* model = modelfile_load("urdf/accepted/triangle.urdf");
    all_close(ns_model_link(model, 0)->inertia, (const double[]){1, 1, 2, 0, 0, 0}, 6, 1e-15);
    ns_model_free(model);
}

// A hinge through the only mass of what it carries: the mass m gets the inertia 2/5 m r^2 of a ball of
// water, m = 4/3 pi r^3 1000 kg/m^3. Where the mass is off the axis, nothing is added.
static void points_on_an_axis_become_balls(void** state) {
    (void)state;
    for (int off = 0; off < 2; off++) {
        char text[600];
        snprintf(text, sizeof text,
                 "<robot><link name='a'/><link name='b'><inertial><origin xyz='%d 0 0.5'/>"
                 "<mass value='2'/><inertia ixx='0' iyy='0' izz='0'/></inertial></link>"
                 "<joint name='j' type='continuous'><parent link='a'/><child link='b'/>"
                 "<axis xyz='0 0 1'/></joint></robot>",
                 off);
        ns_model* model = modelfile_parse(text);
        double radius = cbrt(0.002 * 3.0 / (4.0 * 3.14159265358979323846));
        double ball = off ? 0.0 : 0.4 * 2.0 * radius * radius;
        const double expected[6] = {ball, ball, ball, 0, 0, 0};
        all_close(ns_model_link(model, 1)->inertia, expected, 6, 1e-15);
        assert_int_equal(modelfile_notes(model, "leave a joint without inertia"), !off);
        ns_model_free(model);

        ns_load_options options = ns_default_load_options();
        ns_error error = {0};
        options.strict = true;
        ns_status status = ns_model_parse(text, strlen(text), "t", &options, &model, &error);
        assert_int_equal(status, off ? NS_OK : NS_ERR_PARSE);
        if (!off) assert_non_null(strstr(error.message, "no inertia resists its motion"));
        ns_model_free(model);
    }
}

// Bullet's plane: the normal is z of the geometry, whatever its direction.
static void planes_face_their_normal(void** state) {
    (void)state;
    static const double normals[][3] = {{0, 0, 1}, {0, 0, -1}, {1, 0, 0}, {0.48, -0.6, 0.64}};
    for (size_t k = 0; k < sizeof normals / sizeof *normals; k++) {
        char text[400];
        snprintf(text, sizeof text,
                 "<robot><link name='world'><collision><geometry><plane normal='%g %g %g'/>"
                 "</geometry></collision></link></robot>",
                 2.0 * normals[k][0], 2.0 * normals[k][1], 2.0 * normals[k][2]);
        ns_model* model = modelfile_parse(text);
        const ns_geom_def* g = ns_model_geom(model, 0);
        assert_int_equal(g->type, NS_GEOM_PLANE);
        const double* q = g->pose.quaternion; // the image of z
        const double z[3] = {2 * (q[1] * q[3] + q[0] * q[2]), 2 * (q[2] * q[3] - q[0] * q[1]),
                             1 - 2 * (q[1] * q[1] + q[2] * q[2])};
        all_close(z, normals[k], 3, 1e-15);
        ns_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted_files_are_noted),
        cmocka_unit_test(the_nearest_physical_inertia_is_used),
        cmocka_unit_test(points_on_an_axis_become_balls),
        cmocka_unit_test(planes_face_their_normal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
