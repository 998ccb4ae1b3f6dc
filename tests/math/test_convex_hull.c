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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cubes_have_eight_corners),
        cmocka_unit_test(flat_sets_have_corners),
        cmocka_unit_test(corners_support_all_directions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
