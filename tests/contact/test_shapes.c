// Contact points of planes, balls and capsules against plain geometry computed another way: closed
// forms and searches for the nearest points.

#include "base/common.h"
#include "contact/shapes.h"
#include "contact/shapes_rig.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/randomtree.h"
#include "support/residual.h"

#include <math.h>
#include <string.h>

// ---- distances in plain numbers ------------------------------------------------------------

static double distance_along(double s, const void* context) {
    const ray* r = context;
    double x[3];
    for (int i = 0; i < 3; i++) x[i] = r->p[i] + s * r->u[i];
    return distance(r->from, x);
}

// Distance of a sphere or capsule from a convex body, by searching along the axis.
static double axis_distance(const body* a, const body* b) {
    ray r = {.from = b};
    memcpy(r.p, a->p, sizeof r.p);
    axis_of(a, 2, r.u);
    double half_length = a->type == NS_GEOM_CAPSULE ? a->size[1] : 0.0;
    return search(distance_along, &r, -half_length, half_length) - a->size[0];
}

// ---- planes --------------------------------------------------------------------------------

// Height of a world point above the plane.
static double height(const body* plane, const double x[3]) {
    double d[3] = {x[0] - plane->p[0], x[1] - plane->p[1], x[2] - plane->p[2]};
    return along(plane, 2, d);
}

// Gap, position and normal for a point x of a's surface.
static void compare_plane(residual* r, const body* plane, const double x[3], const point* got) {
    double n[3], h = height(plane, x);
    axis_of(plane, 2, n);
    residual_add(r, got->gap, h, 1.0);
    for (int i = 0; i < 3; i++) {
        residual_add(r, got->normal[i], n[i], 1.0);
        residual_add(r, got->position[i], x[i] - 0.5 * h * n[i], 1.0);
    }
    residual_add(r, got->exists, 1.0, 1.0);
}

static void vertices_on_a_plane(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    residual r = {.name = "capsule, box, mesh, polygon, points", .tolerance = ROUNDING};
    for (int k = 0; k < 9; k++) {
        body a = random_body(&rng, all[k].a), b = random_body(&rng, NS_GEOM_PLANE);
        machine m = machine_create(&a, &b);
        for (int n = 0; n < CASES; n++) {
            const double *vertices = a.vertices, *z;
            uint32_t nvertex = a.nvertex;
            a = random_body(&rng, all[k].a), b = random_body(&rng, NS_GEOM_PLANE);
            assert_true(vertices == a.vertices && nvertex == a.nvertex);
            point got[MAX_SLOTS];
            machine_run(&m, &a, &b, got);
            double up[3], x[3];
            axis_of(&b, 2, up);
            for (uint32_t s = 0; s < m.slots; s++) {
                double local[3] = {0, 0, 0}, radius = 0.0;
                if (a.type == NS_GEOM_SPHERE) {
                    radius = a.size[0];
                } else if (a.type == NS_GEOM_CAPSULE) {
                    radius = a.size[0], local[2] = s ? a.size[1] : -a.size[1];
                } else if (a.type == NS_GEOM_BOX) {
                    for (int i = 0; i < 3; i++) local[i] = s >> i & 1 ? a.size[i] : -a.size[i];
                } else if (a.type == NS_GEOM_MESH) {
                    for (int i = 0; i < 3; i++)
                        local[i] = a.size[i] * a.vertices[3 * s + (uint32_t)i];
                } else if (a.type == NS_GEOM_POINTS) {
                    memcpy(local, a.vertices + 3 * s, sizeof local);
                } else if (a.type == NS_GEOM_POLYGON) {
                    z = a.vertices + 3 * (s / 2);
                    local[0] = z[0], local[1] = z[1], local[2] = s % 2 ? a.size[0] : -a.size[0];
                } else {
                    continue;
                }
                to_world(&a, local, x);
                for (int i = 0; i < 3; i++) x[i] -= radius * up[i];
                compare_plane(&r, &b, x, &got[s]);
            }
        }
        machine_free(&m);
    }
    residual_check(&r);
}

// The lowest point by the support function, and all points on the surface.
static void curved_shapes_on_a_plane(void** state) {
    (void)state;
    static const ns_geom_type types[] = {NS_GEOM_CYLINDER, NS_GEOM_ELLIPSE, NS_GEOM_ELLIPSOID};
    ns_rng rng = ns_rng_seed(2);
    residual lowest = {.name = "lowest points of round shapes", .tolerance = ROUNDING};
    residual surface = {.name = "they are on the surface", .tolerance = 1e-12};
    for (int k = 0; k < 3; k++) {
        body a = random_body(&rng, types[k]), b = random_body(&rng, NS_GEOM_PLANE);
        machine m = machine_create(&a, &b);
        for (int n = 0; n < CASES; n++) {
            a = random_body(&rng, types[k]), b = random_body(&rng, NS_GEOM_PLANE);
            point got[MAX_SLOTS];
            machine_run(&m, &a, &b, got);
            double up[3], m_[3], rx = a.size[0], ry, rz;
            ry = types[k] == NS_GEOM_CYLINDER ? rx : a.size[1];
            rz = types[k] == NS_GEOM_CYLINDER ? a.size[1] : a.size[2];
            axis_of(&b, 2, up);
            for (int i = 0; i < 3; i++) m_[i] = along(&a, i, up);
            double centre = height(&b, a.p), want;
            if (types[k] == NS_GEOM_ELLIPSOID) {
                want = centre - sqrt(pow(rx * m_[0], 2) + pow(ry * m_[1], 2) + pow(rz * m_[2], 2));
            } else {
                want = centre - rz * fabs(m_[2]) - hypot(rx * m_[0], ry * m_[1]);
            }
            residual_add(&lowest, deepest(&m, got)->gap, want, 1.0);
            double sum[2][2] = {{0, 0}, {0, 0}};
            for (uint32_t s = 0; s < m.slots; s++) {
                double x[3], local[3];
                for (int i = 0; i < 3; i++) {
                    x[i] = got[s].position[i] + 0.5 * got[s].gap * got[s].normal[i];
                }
                compare_plane(&lowest, &b, x, &got[s]);
                to_local(&a, x, local);
                double c = local[0] / rx, d = local[1] / ry, e = local[2] / rz;
                if (types[k] == NS_GEOM_ELLIPSOID) {
                    residual_add(&surface, c * c + d * d + e * e, 1.0, 1.0);
                } else {
                    residual_add(&surface, c * c + d * d, 1.0, 1.0);
                    residual_add(&surface, e, s < 3 ? -1.0 : 1.0, 1.0);
                    sum[s / 3][0] += c, sum[s / 3][1] += d; // three directions 120 degrees apart
                }
            }
            for (int i = 0; i < 4; i++) residual_add(&surface, sum[i / 2][i % 2], 0.0, 1.0);
        }
        machine_free(&m);
    }
    residual_check(&lowest);
    residual_check(&surface);
}

// Upright, and on the way there: points on the rim, the lowest nearly so, and a fixed direction.
static void cylinder_stands_upright(void** state) {
    (void)state;
    body a = {.type = NS_GEOM_CYLINDER, .p = {0, 0, 0.3}, .size = {0.1, 0.3}};
    body b = {.type = NS_GEOM_PLANE};
    machine m = machine_create(&a, &b);
    point got[MAX_SLOTS];
    machine_run(&m, &a, &b, got);
    for (int s = 0; s < 3; s++) {
        double angle = 2.0 * acos(-1.0) / 3.0 * s;
        double want[3] = {0.1 * cos(angle), 0.1 * sin(angle), 0.0};
        for (int i = 0; i < 3; i++) assert_true(fabs(got[s].position[i] - want[i]) < 1e-15);
        assert_true(fabs(got[s].gap) < 1e-16 && fabs(got[s + 3].gap - 0.6) < 1e-15);
    }
    for (double tilt = 1e-12; tilt < 0.1; tilt *= 1.7) {
        for (int k = 0; k < 12; k++) {
            a.w[0] = tilt * cos(0.3 + k), a.w[1] = tilt * sin(0.3 + k);
            machine_run(&m, &a, &b, got);
            double want = 0.3 - 0.3 * cos(tilt) - 0.1 * sin(tilt),
                   slack = tilt < 1e-3 ? 0.5e-4 : 0.0;
            double gap = deepest(&m, got)->gap;
            assert_true(gap > want - 1e-15 && gap < want + slack + 1e-15);
        }
    }
    machine_free(&m);
}

// ---- balls and capsules --------------------------------------------------------------------

// Half the gap from the point along the normal are the surfaces, on both of which it stands upright.
static void compare_halfway(residual* r, const body* a, const body* b, const point* got) {
    for (int k = 0; k < 2; k++) {
        const body* s = k ? b : a;
        double away = k ? 1.0 : -1.0, on[3], off[3];
        for (int i = 0; i < 3; i++) {
            on[i] = got->position[i] - away * 0.5 * got->gap * got->normal[i];
            off[i] = on[i] + away * 0.01 * got->normal[i];
        }
        residual_add(r, distance(s, on), 0.0, 1.0);
        residual_add(r, distance(s, off), 0.01, 1.0);
    }
    residual_add(r, length(got->normal), 1.0, 1.0);
}

static void round_shapes_are_nearest(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3);
    residual gaps = {.name = "gaps of round shapes by search", .tolerance = SEARCHED};
    residual halfway = {.name = "points are half way", .tolerance = SEARCHED};
    for (int k = 9; k < 14; k++) {
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        machine m = machine_create(&a, &b);
        uint32_t second = 0;
        for (int n = 0; n < CASES; n++) {
            a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
            double want = axis_distance(&a, &b);
            // The signed distance of an axis that cuts the box is another matter.
            if (all[k].a == NS_GEOM_CAPSULE && all[k].b == NS_GEOM_BOX && want < -a.size[0])
                continue;
            // A ball's centre on the axis of a capsule has no normal.
            if (want < -a.size[0] - 0.95 * b.size[0] && b.type != NS_GEOM_BOX) continue;
            point got[MAX_SLOTS];
            machine_run(&m, &a, &b, got);
            residual_add(&gaps, deepest(&m, got)->gap, want, 1.0);
            second += existing(&m, got) > 1;
            compare_halfway(&halfway, &a, &b, deepest(&m, got));
        }
        assert_true(second < CASES / 4);
        machine_free(&m);
    }
    residual_check(&gaps);
    residual_check(&halfway);
}

static void parallel_capsules_have_two_points(void** state) {
    (void)state;
    // Side by side along z, 0.3 apart in x; overlap from z = -0.1 to 0.5.
    body a = {.type = NS_GEOM_CAPSULE, .p = {0.3, 0, 0.4}, .size = {0.1, 0.5}};
    body b = {.type = NS_GEOM_CAPSULE, .size = {0.15, 0.5}};
    machine m = machine_create(&a, &b);
    point got[2];
    for (int k = 0; k < 4; k++) {
        static const double turns[] = {0.0, 3.14159265358979323846, 1e-9, -0.004}; // about x
        a.w[0] = turns[k];
        machine_run(&m, &a, &b, got);
        double slack = 1e-15 + fabs(sin(turns[k]));
        assert_int_equal(existing(&m, got), 2);
        double low = fmin(got[0].position[2], got[1].position[2]);
        double high = fmax(got[0].position[2], got[1].position[2]);
        assert_true(fabs(low + 0.1) < slack + 1e-12 && fabs(high - 0.5) < slack + 1e-12);
        for (int s = 0; s < 2; s++) {
            assert_true(fabs(got[s].gap - 0.05) < slack && fabs(got[s].normal[0] - 1.0) < slack);
        }
    }
    // From lying to crossing: gaps never below the distance, above it by the documented amount,
    // and no jump.
    point before[2];
    double worst = 0.0, jump = 0.0;
    for (int n = 0; n < 5000; n++) {
        a.w[0] = 1e-5 * n;
        machine_run(&m, &a, &b, got);
        for (int i = 0; i < 6 && n > 0; i++) {
            jump = fmax(jump, fabs(got[i / 3].position[i % 3] - before[i / 3].position[i % 3]));
        }
        memcpy(before, got, sizeof before);
        if (n % 50 != 0) continue;
        double over = deepest(&m, got)->gap - axis_distance(&a, &b);
        assert_true(over > -1e-12);
        worst = fmax(worst, over);
        if (n > 3001) assert_true(existing(&m, got) == 1 && over < 1e-12);
    }
    print_message("capsules turning from parallel: gap too large by %.1e, position jumps %.1e\n",
                  worst, jump);
    assert_true(worst < 0.006 * 0.006 * 0.6 * 0.6 / (2 * 0.3) * 2.0);
    assert_true(jump < 2e-3); // 1e-5 rad at a lever of 1/sin^2
    // End to end there is one point.
    a = (body){.type = NS_GEOM_CAPSULE, .p = {0, 0, 1.3}, .size = {0.1, 0.5}};
    machine_run(&m, &a, &b, got);
    assert_int_equal(existing(&m, got), 1);
    assert_true(fabs(got[0].gap - 0.05) < 1e-15 && got[0].normal[2] == 1.0);
    machine_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vertices_on_a_plane),
        cmocka_unit_test(curved_shapes_on_a_plane),
        cmocka_unit_test(cylinder_stands_upright),
        cmocka_unit_test(round_shapes_are_nearest),
        cmocka_unit_test(parallel_capsules_have_two_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
