// Contact of cylinders, ellipsoids and meshes with everything solid: derivatives, shapes that lie and
// stand flat, closed forms, and motions. tests/contact/test_convex_distance.c has distances.

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

enum { CONVEX_PAIRS = sizeof convex_pairs / sizeof *convex_pairs };

static const double cube[] = {-1, -1, -1, 1, -1, -1, -1, 1, -1, 1, 1, -1,
                              -1, -1, 1,  1, -1, 1,  -1, 1, 1,  1, 1, 1};

// ---- closed forms --------------------------------------------------------------------------

// Ellipsoids with equal half axes, and meshes of one vertex, against spheres.
static void balls_in_disguise(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(41);
    residual r = {.name = "ellipsoids as spheres", .tolerance = 1e-12};
    body a = random_body(&rng, NS_GEOM_ELLIPSOID), b = random_body(&rng, NS_GEOM_ELLIPSOID);
    body sa = a, sb = b;
    sa.type = sb.type = NS_GEOM_SPHERE;
    machine m = machine_create(&a, &b), spheres = machine_create(&sa, &sb);
    for (int n = 0; n < CASES; n++) {
        a = random_body(&rng, NS_GEOM_ELLIPSOID), b = random_body(&rng, NS_GEOM_ELLIPSOID);
        for (int i = 1; i < 3; i++) a.size[i] = a.size[0], b.size[i] = b.size[0];
        sa = a, sb = b;
        sa.type = sb.type = NS_GEOM_SPHERE;
        point got[MAX_SLOTS] = {0}, want[MAX_SLOTS] = {0};
        machine_run(&m, &a, &b, got);
        machine_run(&spheres, &sa, &sb, want);
        assert_int_equal(existing(&m, got), 1);
        residual_add(&r, got[0].gap, want[0].gap, 1.0);
        residual_array(&r, got[0].position, want[0].position, 3, 1.0);
        residual_array(&r, got[0].normal, want[0].normal, 3, 1.0);
    }
    residual_check(&r);
    machine_free(&m);
    machine_free(&spheres);
}

// ---- flat on each other --------------------------------------------------------------------

typedef struct flat_case {
    const char* name;
    body a, b;
    uint32_t points;
    double gap;
    double reach; // of the points from the axis of z
} flat_case;

static const flat_case flats[] = {
    {"cylinder stands on box",
     {NS_GEOM_CYLINDER, {0, 0, 0.5}, {0, 0, 0}, {0.1, 0.3, 0}, 0, NULL, {0}},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.4, 0.2}, 0, NULL, {0}},
     4,
     0.0,
     0.1},
    {"cylinder lies on box",
     {NS_GEOM_CYLINDER, {0, 0, 0.299}, {0, 1.5707963267948966, 0}, {0.1, 0.3, 0}, 0, NULL, {0}},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.4, 0.2}, 0, NULL, {0}},
     2,
     -0.001,
     0.3},
    {"cylinder lies across box",
     {NS_GEOM_CYLINDER, {0, 0, 0.3}, {0, 1.5707963267948966, 0}, {0.1, 0.9, 0}, 0, NULL, {0}},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.4, 0.2}, 0, NULL, {0}},
     2,
     0.0,
     0.5},
    {"box on cylinder's end",
     {NS_GEOM_BOX, {0, 0, 0.5}, {0, 0, 0}, {0.5, 0.4, 0.2}, 0, NULL, {0}},
     {NS_GEOM_CYLINDER, {0, 0, 0}, {0, 0, 0}, {0.1, 0.3, 0}, 0, NULL, {0}},
     4,
     0.0,
     0.1},
    {"capsule lies on cylinder",
     {NS_GEOM_CAPSULE, {0, 0, 0.3}, {0, 1.5707963267948966, 0}, {0.1, 0.3, 0}, 0, NULL, {0}},
     {NS_GEOM_CYLINDER, {0, 0, 0}, {0, 1.5707963267948966, 0}, {0.2, 0.5, 0}, 0, NULL, {0}},
     2,
     0.0,
     0.3},
    {"cylinders side by side",
     {NS_GEOM_CYLINDER, {0, 0, 0.31}, {0, 1.5707963267948966, 0}, {0.1, 0.5, 0}, 0, NULL, {0}},
     {NS_GEOM_CYLINDER, {0, 0, 0}, {0, 1.5707963267948966, 0}, {0.2, 0.4, 0}, 0, NULL, {0}},
     2,
     0.01,
     0.4},
    {"cylinders stacked",
     {NS_GEOM_CYLINDER, {0, 0, 0.5}, {0, 0, 0.1}, {0.1, 0.2, 0}, 0, NULL, {0}},
     {NS_GEOM_CYLINDER, {0, 0, 0}, {0, 0, 0}, {0.2, 0.3, 0}, 0, NULL, {0}},
     4,
     0.0,
     0.1},
    {"mesh cube on box",
     {NS_GEOM_MESH, {0, 0, 0.3}, {0, 0, 0}, {0.1, 0.1, 0.1}, 8, cube, {0}},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.4, 0.2}, 0, NULL, {0}},
     4,
     0.0,
     0.14142135623730951},
    {"mesh cubes, one turned",
     {NS_GEOM_MESH, {0, 0, 0.3}, {0, 0, 0.3}, {0.1, 0.1, 0.1}, 8, cube, {0}},
     {NS_GEOM_MESH, {0, 0, 0}, {0, 0, 0}, {0.2, 0.2, 0.2}, 8, cube, {0}},
     4,
     0.0,
     0.14142135623730951},
    {"ellipsoid on box",
     {NS_GEOM_ELLIPSOID, {0, 0, 0.3}, {0, 0, 0.3}, {0.2, 0.3, 0.1}, 0, NULL, {0}},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.4, 0.2}, 0, NULL, {0}},
     1,
     0.0,
     0.0},
};

static void flat_shapes_have_several_points(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(42);
    for (size_t k = 0; k < sizeof flats / sizeof *flats; k++) {
        const flat_case* f = &flats[k];
        machine m = machine_create(&f->a, &f->b);
        for (int n = 0; n < 60; n++) {
            static const double noises[] = {0.0, 1e-16, 1e-12, 1e-8, 1e-5, 1e-4};
            double noise = noises[n % 6];
            body a = f->a;
            for (int i = 0; i < 3; i++) {
                a.p[i] += ns_rng_uniform(&rng, -noise, noise);
                a.w[i] += ns_rng_uniform(&rng, -noise, noise);
            }
            point got[MAX_SLOTS] = {0};
            machine_run(&m, &a, &f->b, got);
            if (existing(&m, got) != f->points) {
                fail_msg("%s, noise %g: %u points", f->name, noise, existing(&m, got));
            }
            for (uint32_t s = 0; s < m.slots; s++) {
                if (got[s].exists == 0.0) continue;
                const double* x = got[s].position;
                double reach = hypot(x[0], x[1]);
                if (fabs(got[s].gap - f->gap) > 3.0 * noise + 1e-12 ||
                    fabs(got[s].normal[2] - 1.0) > 1e-6 ||
                    fabs(reach - f->reach) > 10.0 * noise + 1e-9) {
                    fail_msg("%s, noise %g: gap %g, normal %g, reach %.17g", f->name, noise,
                             got[s].gap, got[s].normal[2], reach);
                }
            }
        }
        machine_free(&m);
    }
}

// ---- derivatives ---------------------------------------------------------------------------

// A ball around both in contact: a is moved towards b until the gap is about `want`.
static void near_pair(ns_rng* rng, const machine* m, const pair_of_types* types, double want,
                      body* a, body* b) {
    double away[3], low = 0.0, high = 3.0;
    *a = random_body(rng, types->a);
    *b = random_body(rng, types->b);
    for (int i = 0; i < 3; i++) {
        if (a->type == NS_GEOM_MESH) a->size[i] *= 4.0;
        if (b->type == NS_GEOM_MESH) b->size[i] *= 4.0;
    }
    random_unit(rng, away);
    for (int k = 0; k < 40; k++) {
        point got[MAX_SLOTS] = {0};
        double middle = 0.5 * (low + high);
        for (int i = 0; i < 3; i++) a->p[i] = b->p[i] + middle * away[i];
        machine_run(m, a, b, got);
        if (got[0].gap < want) {
            low = middle;
        } else {
            high = middle;
        }
    }
}

static void derivatives_are_right(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(43);
    check_report sum = {0};
    for (int k = 0; k < CONVEX_PAIRS; k++) {
        body a = random_body(&rng, convex_pairs[k].a), b = random_body(&rng, convex_pairs[k].b);
        machine m = machine_create(&a, &b);
        for (int n = 0; n < 2; n++) {
            static const double gaps[2][2] = {{-0.02, 0.004}, {0.02, -0.003}};
            double gap = gaps[k % 2][n];
            near_pair(&rng, &m, &convex_pairs[k], gap, &a, &b);
            double in[INPUTS];
            fill_inputs(&a, &b, in);
            char name[64];
            snprintf(name, sizeof name, "%s at gap %g", convex_pairs[k].name, gap);
            check_options options = {.name = name,
                                     .c = CHECK_C_VALUE,
                                     .second = k % 3 == 0 && n == 0,
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

// Lying flat, tilted and turned by enough that no corner is about to change.
static void derivatives_of_flat_contacts(void** state) {
    (void)state;
    for (size_t k = 0; k < sizeof flats / sizeof *flats; k++) {
        body a = flats[k].a, b = flats[k].b;
        const double shift[3] = {0.013, -0.007, -0.001}, turn[3] = {0.003, -0.002, 0.004};
        double w[3];
        memcpy(w, a.w, sizeof w);
        compose_rotations(turn, w, a.w);
        for (int i = 0; i < 3; i++) a.p[i] += shift[i];
        machine m = machine_create(&a, &b);
        double in[INPUTS];
        fill_inputs(&a, &b, in);
        check_options options = {.name = flats[k].name, .c = CHECK_C_VALUE, .seed = k};
        check_report r = check_function(m.graph, in, NULL, &options);
        print_message("%-26s %u slopes, %u undecided, %.1e\n", flats[k].name, r.slopes, r.undecided,
                      r.difference_error);
        assert_true(r.slopes > 0 && r.undecided == 0);
        machine_free(&m);
    }
}

static void assert_finite_derivatives(const machine* m, const body* a, const body* b) {
    ns_graph* graph = NULL;
    assert_int_equal(ns_graph_jvp(m->graph, NULL, &graph, NULL), NS_OK);
    machine jvp = machine_of(graph, m->slots);
    for (int i = 0; i < INPUTS; i++) {
        double in[2 * INPUTS] = {0}, out[2 * MAX_SLOTS * SLOT];
        fill_inputs(a, b, in);
        in[INPUTS + i] = 1.0;
        ns_program_run(jvp.program, &(ns_run){.in = in, .out = out, .work = jvp.work});
        for (uint32_t j = 0; j < 2 * m->slots * SLOT; j++) assert_true(isfinite(out[j]));
    }
    machine_free(&jvp);
}

// Exactly flat, coincident, touching: everything finite.
static void derivatives_are_finite(void** state) {
    (void)state;
    for (size_t k = 0; k < sizeof flats / sizeof *flats + CONVEX_PAIRS; k++) {
        body a, b;
        if (k < sizeof flats / sizeof *flats) {
            a = flats[k].a, b = flats[k].b;
        } else { // the same place
            ns_rng rng = ns_rng_seed(k);
            const pair_of_types* types = &convex_pairs[k - sizeof flats / sizeof *flats];
            a = random_body(&rng, types->a), b = random_body(&rng, types->b);
            memcpy(b.p, a.p, sizeof a.p);
            memcpy(b.w, a.w, sizeof a.w);
        }
        machine m = machine_create(&a, &b);
        assert_finite_derivatives(&m, &a, &b);
        machine_free(&m);
    }
}

// Meshes without volume, mirrored, of copies of one vertex.
static void degenerate_meshes_touch(void** state) {
    (void)state;
    static const double square[] = {-1, -1, 0, 1, -1, 0, -1, 1, 0, 1, 1, 0};
    static const double line[] = {-1, 0, 0, 1, 0, 0}, copies[9] = {0};
#define BOX_BELOW                                                                                  \
    {                                                                                              \
        NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.4, 0.2}, 0, NULL, {                             \
            0                                                                                      \
        }                                                                                          \
    }
    static const struct {
        const char* name;
        body a, b;
        uint32_t points;
        double gap;
    } cases[] = {
        {"square on box",
         {NS_GEOM_MESH, {0, 0, 0.3}, {0, 0, 0}, {0.1, 0.1, 0.1}, 4, square, {0}},
         BOX_BELOW,
         4,
         0.1},
        {"square in box",
         {NS_GEOM_MESH, {0, 0, 0.15}, {0, 0, 0}, {0.1, 0.1, 0.1}, 4, square, {0}},
         BOX_BELOW,
         4,
         -0.05},
        {"mirrored square on box",
         {NS_GEOM_MESH, {0, 0, 0.21}, {0, 0, 0}, {-0.1, 0.1, 0.1}, 4, square, {0}},
         BOX_BELOW,
         4,
         0.01},
        {"square on square",
         {NS_GEOM_MESH, {0, 0, 0.1}, {0, 0, 0}, {0.1, 0.1, 0.1}, 4, square, {0}},
         {NS_GEOM_MESH, {0, 0, 0}, {0, 0, 0}, {0.1, 0.1, 0.1}, 4, square, {0}},
         4,
         0.1},
        {"square in square",
         {NS_GEOM_MESH, {0, 0, 0}, {0, 0, 0}, {0.1, 0.1, 0.1}, 4, square, {0}},
         {NS_GEOM_MESH, {0, 0, 0}, {0, 0, 0}, {0.1, 0.1, 0.1}, 4, square, {0}},
         4,
         0.0},
        {"line on box",
         {NS_GEOM_MESH, {0, 0, 0.3}, {0, 0, 0}, {0.1, 0.1, 0.1}, 2, line, {0}},
         BOX_BELOW,
         2,
         0.1},
        {"crossed lines",
         {NS_GEOM_MESH, {0, 0, 0}, {0, 0, 0}, {0.1, 0.1, 0.1}, 2, line, {0}},
         {NS_GEOM_MESH, {0, 0, 0}, {0, 0, 1}, {0.1, 0.1, 0.1}, 2, line, {0}},
         1,
         0.0},
        {"point in box",
         {NS_GEOM_MESH, {0, 0, 0.15}, {0, 0, 0}, {0.1, 0.1, 0.1}, 3, copies, {0}},
         BOX_BELOW,
         1,
         -0.05},
        {"point on point",
         {NS_GEOM_MESH, {0, 0, 0}, {0, 0, 0}, {0.1, 0.1, 0.1}, 3, copies, {0}},
         {NS_GEOM_MESH, {0, 0, 0}, {0, 0, 0}, {0.1, 0.1, 0.1}, 3, copies, {0}},
         1,
         0.0},
        {"mesh without size",
         {NS_GEOM_MESH, {0, 0, 0.21}, {0, 0, 0}, {0, 0, 0}, 4, square, {0}},
         BOX_BELOW,
         1,
         0.01},
    };
#undef BOX_BELOW
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        machine m = machine_create(&cases[k].a, &cases[k].b);
        point got[MAX_SLOTS] = {0};
        machine_run(&m, &cases[k].a, &cases[k].b, got);
        if (existing(&m, got) != cases[k].points || fabs(got[0].gap - cases[k].gap) > 1e-12 ||
            fabs(fabs(got[0].normal[2]) - 1.0) > 1e-9) {
            fail_msg("%s: %u points, gap %g, normal %g", cases[k].name, existing(&m, got),
                     got[0].gap, got[0].normal[2]);
        }
        assert_finite_derivatives(&m, &cases[k].a, &cases[k].b);
        machine_free(&m);
    }
}

// ---- motions -------------------------------------------------------------------------------

typedef struct motion {
    const char *name, *geom, *ground; // attributes
    double height, turn[4];           // start; a quaternion
    double rest;                      // height at the end
    double tolerance;
} motion;

#define CUBE_ASSET                                                                                 \
    "<asset><mesh name='cube' vertex='-.1 -.1 -.1 .1 -.1 -.1 -.1 .1 -.1 .1 .1 -.1 -.1 -.1 .1 .1 "  \
    "-.1 .1 -.1 .1 .1 .1 .1 .1'/><mesh name='slab' vertex='-1 -1 -.2 1 -1 -.2 -1 1 -.2 1 1 -.2 "   \
    "-1 -1 .2 1 -1 .2 -1 1 .2 1 1 .2'/></asset>"

static const motion motions[] = {
    {"cylinder stands",
     "type='cylinder' size='.1 .2'",
     "type='box' size='1 1 .2'",
     0.45,
     {1, 0, 0, 0},
     0.4,
     1e-3},
    {"cylinder lies",
     "type='cylinder' size='.1 .2'",
     "type='box' size='1 1 .2'",
     0.35,
     {0.70710678118654757, 0, 0.70710678118654757, 0},
     0.3,
     1e-3},
    {"cylinder tilted",
     "type='cylinder' size='.2 .05'",
     "type='box' size='1 1 .2'",
     0.4,
     {0.99, 0.141, 0, 0},
     0.25,
     2e-3},
    {"ellipsoid",
     "type='ellipsoid' size='.2 .15 .1'",
     "type='box' size='1 1 .2'",
     0.35,
     {1, 0, 0, 0},
     0.3,
     1e-3},
    {"mesh cube",
     "type='mesh' mesh='cube'",
     "type='box' size='1 1 .2'",
     0.35,
     {1, 0, 0, 0},
     0.3,
     1e-3},
    {"mesh on mesh",
     "type='mesh' mesh='cube'",
     "type='mesh' mesh='slab'",
     0.4,
     {0.99, 0.1, 0.08, 0.05},
     0.3,
     1e-3},
    {"box on cylinder",
     "type='box' size='.2 .2 .1'",
     "type='cylinder' size='.5 .2'",
     0.35,
     {1, 0, 0, 0},
     0.3,
     1e-3},
};

static void build_text(const motion* m, const char* model, char* text, size_t size) {
    snprintf(text, size,
             "<mujoco><option timestep='0.002'/>%s<worldbody><geom name='ground' %s/>"
             "<body name='b' pos='0.01 0.02 %.17g' quat='%.17g %.17g %.17g %.17g'><freejoint/>"
             "<inertial pos='0 0 0' mass='1' diaginertia='0.01 0.012 0.014'/>"
             "<geom name='g' %s/></body></worldbody><contact><pair geom1='g' geom2='ground' "
             "friction='0.6 0.6 0 0 0' model='%s'/></contact></mujoco>",
             CUBE_ASSET, m->ground, m->height, m->turn[0], m->turn[1], m->turn[2], m->turn[3],
             m->geom, model);
}

static double energy_of(const double* x) {
    const double inertia[3] = {0.01, 0.012, 0.014};
    double e = 9.81 * x[2];
    for (int i = 0; i < 3; i++) {
        e += 0.5 * x[7 + i] * x[7 + i] + 0.5 * inertia[i] * x[10 + i] * x[10 + i];
    }
    return e;
}

static void bodies_come_to_rest(void** state) {
    (void)state;
    for (size_t k = 0; k < sizeof motions / sizeof *motions; k++) {
        const motion* mo = &motions[k];
        for (int spring = 0; spring < 2; spring++) {
            char text[2000];
            build_text(mo, spring ? "spring" : "ncp", text, sizeof text);
            trial t = trial_make(text, NULL, 2000);
            trial_run(&t);
            double rise = 0.0, speed = 0.0;
            for (uint32_t s = 0; s < t.steps; s++) {
                const double *x = trial_state(&t, s), *y = trial_state(&t, s + 1);
                rise = fmax(rise, energy_of(y) - energy_of(x));
            }
            const double* end = trial_end(&t);
            for (int i = 7; i < 13; i++) speed = fmax(speed, fabs(end[i]));
            double dx0[13];
            trial_gradient(&t, 2, dx0, NULL);
            print_message("%-16s %s: rests at %.6f, speed %.1e, energy rises by %.1e\n", mo->name,
                          spring ? "spring" : "rigid ", end[2], speed, rise);
            if (!spring) {
                assert_true(fabs(end[2] - mo->rest) < mo->tolerance);
                assert_true(speed < 1e-4 && rise < 1e-5);
            } else {
                assert_true(end[2] < mo->rest + 1e-3 && end[2] > mo->rest - 0.02);
            }
            trial_free(&t);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balls_in_disguise),
        cmocka_unit_test(flat_shapes_have_several_points),
        cmocka_unit_test(derivatives_are_finite),
        cmocka_unit_test(degenerate_meshes_touch),
        cmocka_unit_test(derivatives_of_flat_contacts),
        cmocka_unit_test(derivatives_are_right),
        cmocka_unit_test(bodies_come_to_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
