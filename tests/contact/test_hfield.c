// Height fields: against planes, a search over all triangles, closed forms; derivatives and motions.

#include "base/common.h"
#include "contact/shapes.h"
#include "contact/shapes_rig.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/randomtree.h"
#include "support/residual.h"
#include "support/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NROW = 7, NCOL = 6, GRID = NROW * NCOL };

enum { HFIELD_PAIRS = sizeof hfield_pairs / sizeof *hfield_pairs };

// A field with this elevation, 3 m by 4 m and 0.5 m high, somewhere.
static body field_body(ns_rng* rng, const double elevation[GRID]) {
    body b = random_body(rng, NS_GEOM_HFIELD);
    b.size[0] = 1.5, b.size[1] = 2.0, b.size[2] = 0.5;
    b.grid.nrow = NROW, b.grid.ncol = NCOL, b.grid.elevation = elevation;
    return b;
}

static void random_elevation(ns_rng* rng, double out[GRID]) {
    for (int k = 0; k < GRID; k++) out[k] = ns_rng_uniform(rng, 0.0, 1.0);
}

// Put a body at a place of the field's frame.
static void put_at(body* a, const body* field, const double local[3]) {
    to_world(field, local, a->p);
}

// ---- planes --------------------------------------------------------------------------------

// z = 0.2 + 0.3 x - 0.1 y, and flat: the same as a plane.
static void straight_fields_are_planes(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(11);
    residual r = {.name = "height fields as planes", .tolerance = 1e-12};
    for (int slope = 0; slope < 2; slope++) {
        double elevation[GRID], up[3] = {slope ? -0.3 : 0.0, slope ? 0.1 : 0.0, 1.0};
        for (int k = 0; k < GRID; k++) {
            double x = 1.5 * (2.0 * (k % NCOL) / (NCOL - 1) - 1.0);
            double y = 2.0 * (2.0 * (k / NCOL) / (NROW - 1) - 1.0);
            elevation[k] = 0.4 + 2.0 * (-up[0] * x - up[1] * y);
        }
        for (int i = 0; i < 3; i++) up[i] /= sqrt(1.0 + (slope ? 0.1 : 0.0));
        for (int k = 0; k < HFIELD_PAIRS; k++) {
            // The cylinder's points are the lowest along the field's z.
            if (slope && hfield_pairs[k].a == NS_GEOM_CYLINDER) continue;
            body field = field_body(&rng, elevation), plane = random_body(&rng, NS_GEOM_PLANE);
            body a = random_body(&rng, hfield_pairs[k].a);
            machine on_field = machine_create(&a, &field), on_plane = machine_create(&a, &plane);
            assert_int_equal(on_field.slots, hfield_pairs[k].slots);
            for (int n = 0; n < CASES; n++) {
                a = random_body(&rng, hfield_pairs[k].a), field = field_body(&rng, elevation);
                double at[3] = {ns_rng_uniform(&rng, -0.6, 0.6), ns_rng_uniform(&rng, -0.6, 0.6)};
                at[2] = 0.2 + (slope ? 0.3 * at[0] - 0.1 * at[1] : 0.0);
                put_at(&plane, &field, at);
                at[2] += ns_rng_uniform(&rng, -0.1, 0.5);
                put_at(&a, &field, at);

                // The plane's z is `up` of the field.
                double turn[3], zero[3] = {0, 0, 1}, size;
                cross(zero, up, turn);
                size = length(turn);
                for (int i = 0; i < 3; i++) turn[i] *= size > 0.0 ? asin(size) / size : 0.0;
                compose_rotations(field.w, turn, plane.w);

                point got[MAX_SLOTS] = {0}, want[MAX_SLOTS] = {0};
                machine_run(&on_field, &a, &field, got);
                machine_run(&on_plane, &a, &plane, want);
                const point *p = deepest(&on_field, got), *q = deepest(&on_plane, want);
                assert_non_null(p);
                if (!p || !q || existing(&on_field, got) == 0) continue;
                residual_add(&r, p->gap, q->gap, 1.0);
                residual_array(&r, p->normal, q->normal, 3, 1.0);
                residual_array(&r, p->position, q->position, 3, 1.0);
            }
            machine_free(&on_field);
            machine_free(&on_plane);
        }
    }
    residual_check(&r);
}

// ---- a search ------------------------------------------------------------------------------

static void grid_point(const body* field, int row, int column, double out[3]) {
    out[0] = field->size[0] * (2.0 * column / (NCOL - 1) - 1.0);
    out[1] = field->size[1] * (2.0 * row / (NROW - 1) - 1.0);
    out[2] = field->size[2] * field->grid.elevation[row * NCOL + column];
}

// Distance of c from a segment.
static double from_segment(const double a[3], const double b[3], const double c[3]) {
    double e[3], r[3], d[3];
    for (int i = 0; i < 3; i++) e[i] = b[i] - a[i], r[i] = c[i] - a[i];
    double t = fmin(1.0, fmax(0.0, dot(e, r) / dot(e, e)));
    for (int i = 0; i < 3; i++) d[i] = r[i] - t * e[i];
    return length(d);
}

// Distance of c from a triangle: from its plane where that is inside, otherwise from its sides. `below`
// becomes true for a triangle above the point.
static double from_triangle(double v[3][3], const double c[3], bool* below) {
    double e[2][3], n[3], r[3];
    for (int i = 0; i < 3; i++) {
        e[0][i] = v[1][i] - v[0][i], e[1][i] = v[2][i] - v[0][i], r[i] = c[i] - v[0][i];
    }
    cross(e[0], e[1], n);
    double best = fmin(from_segment(v[0], v[1], c),
                       fmin(from_segment(v[1], v[2], c), from_segment(v[2], v[0], c)));

    // Where the foot on the plane is, and the point seen from above.
    double a = dot(e[0], e[0]), b = dot(e[0], e[1]), d = dot(e[1], e[1]);
    double x = dot(e[0], r), y = dot(e[1], r), det = a * d - b * b;
    double s = (d * x - b * y) / det, t = (a * y - b * x) / det;
    if (s >= 0.0 && t >= 0.0 && s + t <= 1.0) best = fabs(dot(n, r)) / length(n);
    det = e[0][0] * e[1][1] - e[0][1] * e[1][0];
    s = (r[0] * e[1][1] - r[1] * e[1][0]) / det, t = (e[0][0] * r[1] - e[0][1] * r[0]) / det;
    if (s >= 0.0 && t >= 0.0 && s + t <= 1.0) *below = r[2] < s * e[0][2] + t * e[1][2];
    return best;
}

// Signed distance of a point in the field's frame from the surface.
static double from_surface(const body* field, const double c[3]) {
    double best = INFINITY;
    bool below = false;
    for (int row = 0; row + 1 < NROW; row++) {
        for (int column = 0; column + 1 < NCOL; column++) {
            for (int second = 0; second < 2; second++) {
                double v[3][3];
                grid_point(field, row, column, v[0]);
                grid_point(field, row + second, column + 1 - second, v[1]);
                grid_point(field, row + 1, column + 1, v[2]);
                bool under = false;
                best = fmin(best, from_triangle(v, c, &under));
                below = below || under;
            }
        }
    }
    return below ? -best : best;
}

static void spheres_find_the_nearest_point(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(12);
    double elevation[GRID];
    random_elevation(&rng, elevation);
    body field = field_body(&rng, elevation), a = random_body(&rng, NS_GEOM_SPHERE);
    machine m = machine_create(&a, &field);
    residual gap = {.name = "gaps of spheres", .tolerance = 1e-12};
    residual on = {.name = "points on the surface", .tolerance = 1e-12};
    uint32_t several = 0, below = 0;
    for (int n = 0; n < 10 * CASES; n++) {
        random_elevation(&rng, elevation);
        field = field_body(&rng, elevation), a = random_body(&rng, NS_GEOM_SPHERE);
        m = (machine_free(&m), machine_create(&a, &field)); // elevations are constants
        double at[3] = {ns_rng_uniform(&rng, -1.5, 1.5), ns_rng_uniform(&rng, -2.0, 2.0),
                        ns_rng_uniform(&rng, 0.0, 0.7)};
        put_at(&a, &field, at);
        point got[MAX_SLOTS] = {0};
        machine_run(&m, &a, &field, got);
        double want = from_surface(&field, at);
        const point* p = deepest(&m, got);
        assert_non_null(p);
        if (!p || existing(&m, got) == 0) continue;
        residual_add(&gap, p->gap, want - a.size[0], 1.0);
        several += existing(&m, got) > 1, below += want < 0.0;

        // Every point is on the surface, at its gap from the sphere.
        for (uint32_t k = 0; k < m.slots; k++) {
            if (got[k].exists == 0.0) continue;
            double foot[3], local[3];
            for (int i = 0; i < 3; i++) {
                foot[i] = a.p[i] - (got[k].gap + a.size[0]) * got[k].normal[i];
                residual_add(&on, got[k].position[i], foot[i] + 0.5 * got[k].gap * got[k].normal[i],
                             1.0);
            }
            to_local(&field, foot, local);
            residual_add(&on, from_surface(&field, local), 0.0, 1.0);
            residual_add(&on, length(got[k].normal), 1.0, 1.0);
        }
    }
    print_message("%u with several points, %u below the surface\n", several, below);
    assert_true(several > 20 && below > 100);
    residual_check(&gap);
    residual_check(&on);
    machine_free(&m);
}

// ---- closed forms --------------------------------------------------------------------------

static void level_body(body* b, ns_geom_type type, double x, double y, double z) {
    *b = (body){.type = type, .p = {x, y, z}, .size = {0.3, 0.3, 0.2}};
    if (type == NS_GEOM_CAPSULE) b->size[0] = 0.2, b->w[1] = 1.5707963267948966;
}

// One spike under the middle of a shape's face: the corners are far above the ground.
static void peaks_are_found(void** state) {
    (void)state;
    double elevation[25] = {0};
    elevation[12] = 1.0; // 0.5 m high at the origin; cells of 0.5 m
    body field = {.type = NS_GEOM_HFIELD, .size = {1, 1, 0.5}, .grid = {5, 5, elevation}};
    static const ns_geom_type types[] = {NS_GEOM_BOX, NS_GEOM_CYLINDER, NS_GEOM_CAPSULE};
    for (int k = 0; k < 3; k++) {
        body a;
        level_body(&a, types[k], 0.05, 0.0, 0.69); // bottom at 0.49
        if (types[k] == NS_GEOM_CYLINDER) a.size[1] = 0.2;
        machine m = machine_create(&a, &field);
        point got[MAX_SLOTS] = {0};
        machine_run(&m, &a, &field, got);
        const point* p = deepest(&m, got);
        assert_non_null(p);
        if (!p) continue;
        all_close((const double[]){p->gap}, (const double[]){-0.01}, 1, 1e-12);
        all_close(p->normal, (const double[]){0, 0, 1}, 3, 1e-12);
        all_close(p->position, (const double[]){0, 0, 0.495}, 3, 1e-12);
        machine_free(&m);
    }
}

// A ball in a groove with walls of 45 degrees touches both.
static void valleys_touch_twice(void** state) {
    (void)state;
    const double elevation[6] = {1, 0, 1, 1, 0, 1};
    body field = {.type = NS_GEOM_HFIELD, .size = {1, 1, 1}, .grid = {2, 3, elevation}};
    body a = {.type = NS_GEOM_SPHERE, .p = {0.01, 0.1, 0.28}, .size = {0.2}};
    machine m = machine_create(&a, &field);
    point got[MAX_SLOTS] = {0};
    machine_run(&m, &a, &field, got);
    assert_int_equal(existing(&m, got), 2);
    const double r = 0.5 * sqrt(2.0);
    for (int k = 0; k < 2; k++) { // the nearer wall first: that of x > 0
        const double side = k ? 1.0 : -1.0;
        all_close((const double[]){got[k].gap}, (const double[]){r * (0.28 + side * 0.01) - 0.2}, 1,
                  1e-12);
        all_close(got[k].normal, (const double[]){side * r, 0, r}, 3, 1e-12);
    }
    machine_free(&m);
}

static void nothing_is_beside_the_field(void** state) {
    (void)state;
    const double elevation[4] = {1, 1, 1, 1};
    body field = {.type = NS_GEOM_HFIELD, .size = {1, 1, 1}, .grid = {2, 2, elevation}};
    for (int k = 0; k < HFIELD_PAIRS; k++) {
        ns_rng rng = ns_rng_seed(1);
        body a = random_body(&rng, hfield_pairs[k].a);
        a.p[0] = 2.0, a.p[1] = 0.0, a.p[2] = -1.0;
        machine m = machine_create(&a, &field);
        point got[MAX_SLOTS] = {0};
        machine_run(&m, &a, &field, got);
        assert_int_equal(existing(&m, got), 0);
        machine_free(&m);
    }
}

// ---- derivatives ---------------------------------------------------------------------------

static void derivatives_are_right(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(13);
    double elevation[GRID];
    random_elevation(&rng, elevation);
    check_report sum = {0};
    for (int k = 0; k < HFIELD_PAIRS; k++) {
        body field = field_body(&rng, elevation), a = random_body(&rng, hfield_pairs[k].a);
        machine m = machine_create(&a, &field);
        for (int n = 0; n < 3; n++) {
            a = random_body(&rng, hfield_pairs[k].a);
            double at[3] = {ns_rng_uniform(&rng, -0.7, 0.7), ns_rng_uniform(&rng, -0.7, 0.7),
                            ns_rng_uniform(&rng, 0.2, 0.6)};
            put_at(&a, &field, at);
            double in[INPUTS];
            fill_inputs(&a, &field, in);
            check_options options = {.name = hfield_pairs[k].name,
                                     .c = CHECK_C_VALUE,
                                     .second = n == 0,
                                     .seed = (uint64_t)(10 * k + n)};
            check_report r = check_function(m.graph, in, NULL, &options);
            sum.slopes += r.slopes, sum.undecided += r.undecided;
            sum.difference_error = fmax(sum.difference_error, r.difference_error);
            sum.transpose_error = fmax(sum.transpose_error, r.transpose_error);
        }
        machine_free(&m);
    }
    print_message("%u slopes, %u undecided, difference %.1e, transpose %.1e\n", sum.slopes,
                  sum.undecided, sum.difference_error, sum.transpose_error);
    assert_true(sum.undecided < sum.slopes / 10);
}

// On vertices, on edges, deep below, beside.
static void derivatives_are_finite(void** state) {
    (void)state;
    double elevation[25] = {0};
    elevation[12] = 1.0;
    body field = {.type = NS_GEOM_HFIELD, .size = {1, 1, 0.5}, .grid = {5, 5, elevation}};
    static const double places[][3] = {{0, 0, 0.5},    {0, 0, 0.4},    {0.25, 0, 0.25},
                                       {0.5, 0.5, 0},  {0.75, 0.1, 0}, {1, 1, 0},
                                       {0.3, 0.3, -9}, {1, 0, -0.1},   {3, 0, 0}};
    for (size_t k = 0; k < HFIELD_PAIRS; k++) {
        ns_rng rng = ns_rng_seed(k);
        body a = random_body(&rng, hfield_pairs[k].a);
        memset(a.w, 0, sizeof a.w);
        machine m = machine_create(&a, &field);
        ns_graph* graph = NULL;
        assert_int_equal(ns_graph_jvp(m.graph, NULL, &graph, NULL), NS_OK);
        machine jvp = machine_of(graph, m.slots);
        for (size_t n = 0; n < sizeof places / sizeof *places; n++) {
            for (int corner = 0; corner < 2; corner++) {
                for (int i = 0; i < 3; i++) a.p[i] = places[n][i] + corner * a.size[i];
                for (int i = 0; i < INPUTS; i++) {
                    double in[2 * INPUTS] = {0}, out[2 * MAX_SLOTS * SLOT];
                    fill_inputs(&a, &field, in);
                    in[INPUTS + i] = 1.0;
                    ns_program_run(jvp.program, &(ns_run){.in = in, .out = out, .work = jvp.work});
                    for (uint32_t j = 0; j < 2 * m.slots * SLOT; j++) assert_true(isfinite(out[j]));
                }
            }
        }
        machine_free(&m);
        machine_free(&jvp);
    }
}

// ---- motions -------------------------------------------------------------------------------

static double energy_of(const double* x) {
    double e = 9.81 * x[2];
    for (int i = 0; i < 3; i++) {
        e += 0.5 * x[7 + i] * x[7 + i] + 0.5 * 0.012 * x[10 + i] * x[10 + i];
    }
    return e;
}

static void bodies_come_to_rest_on_terrain(void** state) {
    (void)state;
    static const char* const geoms[] = {
        "type='sphere' size='.15'",         "type='capsule' size='.1 .2'",
        "type='box' size='.3 .2 .1'",       "type='cylinder' size='.2 .1'",
        "type='ellipsoid' size='.2 .2 .1'", "type='mesh' mesh='cube'"};
    for (size_t k = 0; k < sizeof geoms / sizeof *geoms; k++) {
        char text[3000];
        snprintf(text, sizeof text,
                 "<mujoco><option timestep='0.002'/><asset><hfield name='h' nrow='5' ncol='5' "
                 "size='2 2 .5 .1' elevation='1 .8 .8 .8 1 .8 .3 .2 .3 .8 .8 .2 0 .25 .8 .8 .3 .2 "
                 ".3 .8 1 .8 .8 .8 1'/><mesh name='cube' vertex='-.1 -.1 -.1 .1 -.1 -.1 -.1 .1 -.1 "
                 ".1 .1 -.1 -.1 -.1 .1 .1 -.1 .1 -.1 .1 .1 .1 .1 .1'/></asset><worldbody>"
                 "<geom name='ground' type='hfield' hfield='h'/><body name='b' pos='0.3 0.2 0.5'>"
                 "<freejoint/><inertial pos='0 0 0' mass='1' diaginertia='0.012 0.012 0.012'/>"
                 "<geom name='g' %s friction='0.8'/></body></worldbody></mujoco>",
                 geoms[k]);
        trial t = trial_make(text, NULL, 3000);
        trial_run(&t);
        const double* end = trial_end(&t);
        double speed = 0.0, rise = 0.0, dx0[13];
        for (uint32_t s = 0; s < t.steps; s++) {
            double before = energy_of(trial_state(&t, s)),
                   after = energy_of(trial_state(&t, s + 1));
            rise = fmax(rise, after - before);
        }
        for (int i = 7; i < 13; i++) speed = fmax(speed, fabs(end[i]));
        print_message("%-32s at %.4f %.4f %.4f, speed %.1e, energy rises by %.1e\n", geoms[k],
                      end[0], end[1], end[2], speed, rise);
        // Overlap is pushed out: where an edge crossed an edge, and of an ellipsoid that rolls, as on a
        // plane.
        assert_true(rise < (k == 4 ? 5e-3 : 1e-3));
        assert_true(k == 0 || k == 1 || k == 4 || speed < 1e-4); // the others roll
        assert_true(end[2] > 0.0 && end[2] < 0.6 && fabs(end[0]) < 1.0 && fabs(end[1]) < 1.0);
        trial_gradient(&t, 2, dx0, NULL);
        for (int i = 0; i < 13; i++) assert_true(isfinite(dx0[i]));
        trial_free(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(straight_fields_are_planes),
        cmocka_unit_test(spheres_find_the_nearest_point),
        cmocka_unit_test(peaks_are_found),
        cmocka_unit_test(valleys_touch_twice),
        cmocka_unit_test(nothing_is_beside_the_field),
        cmocka_unit_test(derivatives_are_right),
        cmocka_unit_test(derivatives_are_finite),
        cmocka_unit_test(bodies_come_to_rest_on_terrain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
