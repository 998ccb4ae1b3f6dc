// Rods against plates: polygons and ellipses.

#include "base/common.h"
#include "contact/shapes.h"
#include "contact/shapes_rig.h"
#include "neuralsim/program.h"
#include "support/assert.h"
#include "support/randomtree.h"
#include "support/residual.h"
#include "support/tracing.h"

#include <math.h>
#include <string.h>

// ---- bodies in plain numbers ---------------------------------------------------------------

static const double star[] = {0.0,  0.3,   0, 0.08, 0.1,  0, 0.3,  0.1,   0, 0.12,  -0.04, 0,
                              0.12, -0.04, 0, 0.2,  -0.3, 0, 0.0,  -0.12, 0, -0.2,  -0.3,  0,
                              -0.1, -0.02, 0, -0.2, 0.04, 0, -0.3, 0.1,   0, -0.08, 0.1,   0};

// ---- rods and plates -----------------------------------------------------------------------

// Signed distance from a polygon: segments, and the angle the outline goes round the point.
static double polygon_distance(const double* v, uint32_t n, double x, double y) {
    double best = INFINITY, angle = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        const double *p = v + 3 * i, *q = v + 3 * ((i + 1) % n);
        ray r = {.p = {p[0] - x, p[1] - y, 0}, .u = {q[0] - p[0], q[1] - p[1], 0}};
        best = fmin(best, search(ray_to_point, &r, 0.0, 1.0));
        double a[2] = {p[0] - x, p[1] - y}, b[2] = {q[0] - x, q[1] - y};
        angle += atan2(a[0] * b[1] - a[1] * b[0], a[0] * b[0] + a[1] * b[1]);
    }
    return fabs(angle) > 3.0 ? -best : best;
}

// Place a rod of a plate's frame, upside down when asked.
static body rod_at(const body* plate, double x, double y, double z, double radius,
                   double half_length, bool turned) {
    body rod = {.type = NS_GEOM_CYLINDER, .size = {radius, half_length}};
    double local[3] = {x, y, z}, over[3] = {acos(-1.0), 0, 0};
    to_world(plate, local, rod.p);
    memcpy(rod.w, plate->w, sizeof rod.w);
    if (turned) compose_rotations(plate->w, over, rod.w);
    return rod;
}

static void rods_touch_polygons(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(6);
    residual gaps = {.name = "rod against polygon by search", .tolerance = SEARCHED};
    residual halfway = {.name = "points are half way", .tolerance = SEARCHED};
    static double round[3 * 200];
    for (int i = 0; i < 200; i++) { // many vertices, not convex
        double t = 2.0 * acos(-1.0) * i / 200.0, radius = 0.2 + 0.05 * sin(5.0 * t);
        round[3 * i] = radius * cos(t), round[3 * i + 1] = radius * sin(t);
    }
    const double* outlines[] = {l_shape, star, round};
    uint32_t counts[] = {L_VERTICES, STAR_VERTICES, 200}, insides = 0;
    for (int k = 0; k < 3; k++) {
        body plate = random_body(&rng, NS_GEOM_POLYGON), rod = random_body(&rng, NS_GEOM_CYLINDER);
        plate.vertices = outlines[k], plate.nvertex = counts[k];
        machine m = machine_create(&rod, &plate);
        print_message("rod against %u vertices: %u operations\n", counts[k],
                      ns_graph_op_count(m.graph));
        for (int n = 0; n < (k == 2 ? CASES : 5 * CASES); n++) {
            plate = random_body(&rng, NS_GEOM_POLYGON);
            double x = ns_rng_uniform(&rng, -0.5, 0.5), y = ns_rng_uniform(&rng, -0.5, 0.5);
            double radius = ns_rng_uniform(&rng, 0.0, 0.05), z = ns_rng_uniform(&rng, -0.4, 0.4);
            rod = rod_at(&plate, x, y, z, radius, 0.1, n % 2);
            point got;
            machine_run(&m, &rod, &plate, &got);
            double want = polygon_distance(outlines[k], counts[k], x, y), local[3], tip[3];
            insides += want < 0.0;
            residual_add(&gaps, got.gap, want - radius, 1.0);
            assert_true(got.exists == (fabs(z) < 0.1 + plate.size[0]));
            residual_add(&halfway, along(&plate, 2, got.normal), 0.0, 1.0);
            residual_add(&halfway, length(got.normal), 1.0, 1.0);
            for (int i = 0; i < 3; i++) tip[i] = got.position[i] - 0.5 * got.gap * got.normal[i];
            to_local(&plate, tip, local); // on the outline
            residual_add(&halfway, polygon_distance(outlines[k], counts[k], local[0], local[1]),
                         0.0, 1.0);
            for (int i = 0; i < 3; i++) tip[i] = got.position[i] + 0.5 * got.gap * got.normal[i];
            to_local(&rod, tip, local); // on the rod, on the side that looks to the plate
            residual_add(&halfway, hypot(local[0], local[1]), radius, 1.0);
            if (got.exists != 0.0) {
                assert_true(fabs(local[2]) < 0.1 + 1e-12);
                to_local(&plate, tip, local);
                assert_true(fabs(local[2]) < plate.size[0] + 1e-12);
            }
        }
        machine_free(&m);
    }
    assert_true(insides > CASES / 4);
    residual_check(&gaps);
    residual_check(&halfway);
}

// From a point of the ellipse a distance along its normal: known without searching.
static void rods_touch_ellipses(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(7);
    residual gaps = {.name = "rod against ellipse", .tolerance = 1e-12};
    residual normals = {.name = "its normal, and position", .tolerance = 1e-9};
    body plate = random_body(&rng, NS_GEOM_ELLIPSE), rod = random_body(&rng, NS_GEOM_CYLINDER);
    machine m = machine_create(&rod, &plate);
    for (int n = 0; n < 20 * CASES; n++) {
        plate = random_body(&rng, NS_GEOM_ELLIPSE);
        double ratio = n % 7 == 0 ? 1.0 : pow(3.0, ns_rng_uniform(&rng, -1.0, 1.0));
        double a = plate.size[0] = ns_rng_uniform(&rng, 0.03, 0.3), b = plate.size[1] = ratio * a;
        double t = ns_rng_uniform(&rng, -4.0, 4.0), x = cos(t), y = sin(t);
        if (n % 5 == 0) x = n % 2 ? 1.0 : 0.0, y = n % 2 ? 0.0 : -1.0; // the ends of the axes
        double nx = x / a, ny = y / b, size = hypot(nx, ny);
        nx /= size, ny /= size;
        double d = n % 3 == 0 ? -ns_rng_uniform(&rng, 0.0, 1e-3)
                              : pow(10.0, ns_rng_uniform(&rng, -6.0, 0.0));
        rod = rod_at(&plate, a * x + d * nx, b * y + d * ny, 0.0, 0.01, 0.1, n % 2);
        point got;
        machine_run(&m, &rod, &plate, &got);
        residual_add(&gaps, got.gap, d - 0.01, 1.0);
        double local[3] = {nx, ny, 0.0}, world[3], back = 0.5 * (d - 0.01);
        rotate(plate.w, local, world);
        residual_array(&normals, got.normal, world, 3, 1.0);
        local[0] = a * x + back * nx, local[1] = b * y + back * ny;
        to_world(&plate, local, world);
        residual_array(&normals, got.position, world, 3, 1.0);
    }
    machine_free(&m);
    residual_check(&gaps);
    residual_check(&normals);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rods_touch_polygons),
        cmocka_unit_test(rods_touch_ellipses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
