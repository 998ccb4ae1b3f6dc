// Corners of hulls: against a definition by half spaces, flat sets, copies, sizes.

#include "math/convex_hull.h"

#include "support/assert.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_POINTS = 400 };

static uint32_t hull(const double* points, uint32_t count, bool* is_corner) {
    ns_allocator allocator = ns_default_allocator();
    assert_int_equal(nsi_convex_hull(points, count, &allocator, is_corner), NS_OK);
    uint32_t n = 0;
    for (uint32_t k = 0; k < count; k++) n += is_corner[k];
    return n;
}

static void cubes_have_eight_corners(void** state) {
    (void)state;
    // A grid of 5 x 5 x 5 points, twice, far away and at all scales.
    static const double scales[] = {1e-6, 1.0, 1e6};
    for (int s = 0; s < 3; s++) {
        double points[3 * 250];
        bool is_corner[250];
        for (int k = 0; k < 250; k++) {
            int at = k % 125;
            points[3 * k] = scales[s] * (at % 5 + 100);
            points[3 * k + 1] = scales[s] * (at / 5 % 5);
            points[3 * k + 2] = scales[s] * (at / 25);
        }
        assert_int_equal(hull(points, 250, is_corner), 8);
        for (int k = 0; k < 250; k++) {
            int at = k % 125, x = at % 5, y = at / 5 % 5, z = at / 25;
            if (is_corner[k]) assert_true(x % 4 == 0 && y % 4 == 0 && z % 4 == 0);
        }
    }
}

static void flat_sets_have_corners(void** state) {
    (void)state;
    bool is_corner[49];
    double square[3 * 49];
    for (int k = 0; k < 49; k++) { // on a tilted plane
        double x = 0.1 * (k % 7), y = 0.1 * (k / 7);
        square[3 * k] = x - 0.3 * y, square[3 * k + 1] = y, square[3 * k + 2] = 0.5 * x + y;
    }
    assert_int_equal(hull(square, 49, is_corner), 4);
    assert_true(is_corner[0] && is_corner[6] && is_corner[42] && is_corner[48]);

    const double line[] = {1, 1, 1, 3, 3, 3, 2, 2, 2, 0, 0, 0, 3, 3, 3};
    assert_int_equal(hull(line, 5, is_corner), 2);
    assert_true(is_corner[1] && is_corner[3]);

    const double copies[] = {1, 2, 3, 1, 2, 3, 1, 2, 3};
    assert_int_equal(hull(copies, 3, is_corner), 1);
    assert_int_equal(hull(copies, 1, is_corner), 1);
    assert_int_equal(hull(NULL, 0, is_corner), 0);
}

// In every direction the corners reach as far as all points, and each corner is the only one somewhere:
// all points on a sphere are corners, those inside are not.
static void corners_support_all_directions(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(21);
    double points[3 * MAX_POINTS];
    bool is_corner[MAX_POINTS];
    for (int k = 0; k < MAX_POINTS; k++) {
        double v[3] = {ns_rng_normal(&rng), ns_rng_normal(&rng), ns_rng_normal(&rng)};
        double length = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        for (int i = 0; i < 3; i++)
            points[3 * k + i] = v[i] / length * (k % 4 ? 0.6 : 1.0) * (1 + i);
    }
    assert_int_equal(hull(points, MAX_POINTS, is_corner), MAX_POINTS / 4);
    for (int n = 0; n < 2000; n++) {
        double d[3] = {ns_rng_normal(&rng), ns_rng_normal(&rng), ns_rng_normal(&rng)};
        double all = -INFINITY, corners = -INFINITY;
        for (int k = 0; k < MAX_POINTS; k++) {
            const double* p = points + 3 * k;
            double reach = d[0] * p[0] + d[1] * p[1] + d[2] * p[2];
            all = fmax(all, reach);
            if (is_corner[k]) corners = fmax(corners, reach);
        }
        assert_true(corners >= all - 1e-12);
    }
}

static void triangles_face_outwards_and_close(void** state) {
    (void)state;
    // Of random points: every triangle has all points behind it, and every edge another way round.
    enum { COUNT = 100 };
    double points[3 * COUNT];
    ns_rng rng = ns_rng_seed(8);
    for (int k = 0; k < 3 * COUNT; k++) points[k] = ns_rng_normal(&rng) + 5.0;
    ns_allocator allocator = ns_default_allocator();
    uint32_t *triangles, count;
    bool is_corner[COUNT];
    uint32_t corners = hull(points, COUNT, is_corner);
    assert_int_equal(nsi_convex_hull_triangles(points, COUNT, &allocator, &triangles, &count),
                     NS_OK);
    assert_int_equal(count, 2 * corners - 4); // Euler
    for (uint32_t t = 0; t < count; t++) {
        const uint32_t* c = triangles + 3 * t;
        const double *p = points + 3 * c[0], *q = points + 3 * c[1], *r = points + 3 * c[2];
        double a[3], b[3], n[3];
        for (int i = 0; i < 3; i++) a[i] = q[i] - p[i], b[i] = r[i] - p[i];
        for (int i = 0; i < 3; i++) {
            n[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
        }
        for (int k = 0; k < COUNT; k++) {
            double height = 0.0;
            for (int i = 0; i < 3; i++) height += n[i] * (points[3 * k + i] - p[i]);
            assert_true(height < 1e-10);
        }
        for (uint32_t e = 0; e < 3; e++) {
            uint32_t from = c[e], to = c[(e + 1) % 3], found = 0;
            for (uint32_t k = 0; k < 3 * count; k++) {
                uint32_t next = k % 3 == 2 ? k - 2 : k + 1;
                found += triangles[k] == to && triangles[next] == from;
            }
            assert_int_equal(found, 1);
        }
    }
    nsi_free(&allocator, triangles);

    // Flat sets have none.
    for (int k = 0; k < COUNT; k++) points[3 * k + 2] = 0.0;
    assert_int_equal(nsi_convex_hull_triangles(points, COUNT, &allocator, &triangles, &count),
                     NS_OK);
    assert_int_equal(count, 0);
    assert_null(triangles);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cubes_have_eight_corners),
        cmocka_unit_test(flat_sets_have_corners),
        cmocka_unit_test(corners_support_all_directions),
        cmocka_unit_test(triangles_face_outwards_and_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
