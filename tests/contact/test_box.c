// Balls and capsules against a box: outside, inside, lying on it.

#include "base/common.h"
#include "contact/shapes.h"
#include "contact/shapes_rig.h"
#include "support/assert.h"
#include "support/residual.h"

#include <math.h>

// A ball whose centre is inside a box: out by the nearest face.
static void ball_inside_a_box(void** state) {
    (void)state;
    body a = {.type = NS_GEOM_SPHERE, .p = {0.05, 0.17, -0.1}, .size = {0.03}};
    body b = {.type = NS_GEOM_BOX, .size = {0.3, 0.2, 0.4}};
    machine m = machine_create(&a, &b);
    point got;
    machine_run(&m, &a, &b, &got);
    assert_true(fabs(got.gap + 0.06) < 1e-15 && got.normal[1] == 1.0 && got.normal[0] == 0.0);
    assert_true(fabs(got.position[1] - 0.17) < 1e-15); // between 0.2 and 0.17 - 0.03
    a.p[1] = -0.2;                                     // on the face
    machine_run(&m, &a, &b, &got);
    assert_true(got.normal[1] == -1.0 && fabs(got.gap + 0.03) < 1e-15);
    machine_free(&m);
}

static void lying_capsule_has_two_points(void** state) {
    (void)state;
    // Along x on the top of a box, z = 0.2: first inside the face, then overhanging on both sides.
    const double quarter = acos(-1.0) / 2.0;
    body b = {.type = NS_GEOM_BOX, .size = {0.3, 0.4, 0.2}};
    body a = {.type = NS_GEOM_CAPSULE, .p = {0.05, 0.1, 0.2999}, .size = {0.1, 0.2}};
    machine m = machine_create(&a, &b);
    for (int overhangs = 0; overhangs < 2; overhangs++) {
        if (overhangs) a.size[1] = 0.5;
        double low = overhangs ? -0.3 : -0.15, high = overhangs ? 0.3 : 0.25;
        for (int k = 0; k < 5; k++) {
            static const double tilts[] = {0.0, 1e-12, -1e-12, 1e-4, -1e-3};
            a.w[1] = quarter + tilts[k];
            point got[2];
            machine_run(&m, &a, &b, got);
            assert_int_equal(existing(&m, got), 2);
            double slack = fabs(tilts[k]) * 0.6 + 1e-12;
            double x0 = fmin(got[0].position[0], got[1].position[0]);
            double x1 = fmax(got[0].position[0], got[1].position[0]);
            assert_true(fabs(x0 - low) < slack && fabs(x1 - high) < slack);
            for (int s = 0; s < 2; s++) {
                assert_true(fabs(got[s].gap + 1e-4) < slack);
            }
        }
    }
    // Tilted by 0.03 only the lower end touches.
    a.size[1] = 0.2;
    a.w[1] = quarter + 0.03;
    point got[2];
    machine_run(&m, &a, &b, got);
    assert_int_equal(existing(&m, got), 1);
    assert_true(fabs(got[0].gap - (-1e-4 - 0.2 * sin(0.03))) < 1e-12);
    // Across an edge of the box: the middle of the capsule, 45 degrees.
    a = (body){.type = NS_GEOM_CAPSULE,
               .p = {0.35, 0, 0.25},
               .w = {0, 1.5 * quarter, 0},
               .size = {0.05, 0.3}};
    machine_run(&m, &a, &b, got);
    assert_int_equal(existing(&m, got), 1);
    assert_true(fabs(got[0].gap - (0.05 * sqrt(2.0) - 0.05)) < 1e-12);
    assert_true(fabs(got[0].normal[0] - sqrt(0.5)) < 1e-12);
    // Through the edge: the middle of the part inside.
    a.p[0] = 0.29, a.p[2] = 0.2;
    a.w[1] = 0.3 + quarter;
    machine_run(&m, &a, &b, got);
    assert_int_equal(existing(&m, got), 1);
    double x = 0.3, z = 0.2 - 0.01 * tan(0.3); // from (0.29, 0.2) to the side at x = 0.3
    assert_true(got[0].normal[2] == 1.0 || got[0].normal[0] == 1.0);
    double depth = fmin(0.5 * (0.2 - z), 0.5 * (x - 0.29));
    assert_true(fabs(got[0].gap - (-0.05 - depth)) < 1e-12);
    machine_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ball_inside_a_box),
        cmocka_unit_test(lying_capsule_has_two_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
