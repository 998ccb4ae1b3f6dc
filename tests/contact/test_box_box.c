// Two boxes: separating axes by support functions, stacks, crossing edges.

#include "base/common.h"
#include "contact/shapes.h"
#include "contact/shapes_rig.h"
#include "support/assert.h"
#include "support/randomtree.h"
#include "support/residual.h"

#include <math.h>
#include <string.h>

// The biases of box_box.c, in the separation.
static double edge_bias(const body* a, const body* b) {
    double shortest = INFINITY;
    for (int i = 0; i < 3; i++) shortest = fmin(shortest, fmin(a->size[i], b->size[i]));
    return 0.06 * fabs(separation(a, b, false)) + 1.1e-3 * shortest + 1e-12;
}

// Slots 0 to 3 of crossing edges: an end of an edge of one box, above a face of the other.
static void check_edge_end(const body* a, const body* b, const point* end, residual* inside) {
    assert_true(end->gap >= 0.0);
    double on_a[3], on_b[3], along[2] = {0.0, 0.0};
    for (int i = 0; i < 3; i++) {
        on_a[i] = end->position[i] + 0.5 * end->gap * end->normal[i];
        on_b[i] = end->position[i] - 0.5 * end->gap * end->normal[i];
    }
    residual_add(inside, distance(a, on_a), 0.0, 1.0);
    residual_add(inside, distance(b, on_b), 0.0, 1.0);

    // The normal is that of a face of one of them.
    for (int k = 0; k < 3; k++) {
        double axis[3] = {0.0, 0.0, 0.0}, turned[2][3];
        axis[k] = 1.0;
        rotate(a->w, axis, turned[0]);
        rotate(b->w, axis, turned[1]);
        for (int s = 0; s < 2; s++) along[s] = fmax(along[s], fabs(dot(turned[s], end->normal)));
    }
    residual_add(inside, fmax(along[0], along[1]), 1.0, 1.0);
}

static void boxes_touch_where_they_are(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(4);
    residual edge_gap = {.name = "gap of crossing edges by support functions",
                         .tolerance = ROUNDING};
    residual inside = {.name = "points are in both boxes", .tolerance = ROUNDING};
    body a = random_body(&rng, NS_GEOM_BOX), b = random_body(&rng, NS_GEOM_BOX);
    machine m = machine_create(&a, &b);
    uint32_t edges = 0, ends = 0, faces = 0, apart = 0, missed = 0, most = 0;
    for (int n = 0; n < 20 * CASES; n++) {
        touching_boxes(&rng, ns_rng_uniform(&rng, -0.2, 0.05), &a, &b);
        double want = separation(&a, &b, true), bias = edge_bias(&a, &b);
        point got[13];
        machine_run(&m, &a, &b, got);
        uint32_t count = existing(&m, got);
        most = count > most ? count : most;
        if (want > 0.0 && count == 0) {
            apart++;
            continue;
        }
        if (want < 0.0 && (count == 0 || deepest(&m, got)->gap > 0.0)) {
            missed++; // allowed only where the bias hides an edge
            if (want < -bias) fail_msg("no contact at a separation of %g", want);
            continue;
        }
        for (int s = 0; s < 13; s++) {
            if (got[s].exists == 0.0) continue;
            if (s < 4 && got[12].exists != 0.0) {
                check_edge_end(&a, &b, &got[s], &inside);
                ends++;
                continue;
            }
            const double* normal = got[s].normal;
            residual_add(&inside, length(normal), 1.0, 1.0);
            // The normal separates as well as any axis, up to the bias, and points from b to a.
            double along_normal = separation_along(&a, &b, normal), d[3];
            if (along_normal < want - bias) {
                fail_msg("the normal separates by %g instead of %g", along_normal, want);
            }
            for (int i = 0; i < 3; i++) d[i] = a.p[i] - b.p[i];
            assert_true(dot(d, normal) > 0.0);
            // No gap is below the separation along its normal. The surfaces are where the gap says:
            // half of it from the position, in the boxes to rounding (and the border of a clip).
            assert_true(got[s].gap > along_normal - 1e-12);
            double on_a[3], on_b[3];
            for (int i = 0; i < 3; i++) {
                on_a[i] = got[s].position[i] + 0.5 * got[s].gap * normal[i];
                on_b[i] = got[s].position[i] - 0.5 * got[s].gap * normal[i];
            }
            if (s == 12 && want > 0.0) continue; // edges that pass each other
            residual_add(&inside, fmax(distance(&a, on_a), 2e-6), 2e-6, 1.0);
            residual_add(&inside, fmax(distance(&b, on_b), 2e-6), 2e-6, 1.0);
            if (s == 12) {
                residual_add(&inside, distance(&a, on_a), 0.0, 1.0);
                residual_add(&inside, distance(&b, on_b), 0.0, 1.0);
            }
        }
        if (got[12].exists != 0.0) {
            residual_add(&edge_gap, got[12].gap, want, 1.0);
            for (int s = 4; s < 12; s++) assert_true(got[s].exists == 0.0);
            edges++;
        } else {
            faces++;
        }
    }
    print_message("%u by faces, %u by edges, %u apart, %u hidden by the bias; up to %u points\n",
                  faces, edges, apart, missed, most);
    assert_true(faces > 100 && edges > 100 && ends > 20 && most >= 4 && most <= 8);
    assert_true(missed < 20);
    residual_check(&edge_gap);
    residual_check(&inside);
    machine_free(&m);
}

// Boxes that are apart, as anybody may observe them: no point is nearer than the boxes.
static void boxes_that_are_apart_have_no_depth(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(21);
    body a = {.type = NS_GEOM_BOX}, b = {.type = NS_GEOM_BOX};
    machine m = machine_create(&a, &b);
    uint32_t apart = 0;
    double furthest = 0.0;
    for (int n = 0; n < 20 * CASES; n++) {
        a = random_body(&rng, NS_GEOM_BOX), b = random_body(&rng, NS_GEOM_BOX);
        double want = separation(&a, &b, true), bias = edge_bias(&a, &b) + 0.06 * fabs(want);
        if (want <= 0.0) continue;
        point got[13];
        machine_run(&m, &a, &b, got);
        double least = INFINITY;
        for (int s = 0; s < 13; s++) least = fmin(least, got[s].gap);
        if (!(least > 0.0 && least >= want - bias)) fail_msg("%g apart, a gap of %g", want, least);
        furthest = fmax(furthest, want);
        apart++;
    }
    assert_true(apart > 100 && furthest > 0.5);

    // Along an axis, in closed form.
    a = (body){.type = NS_GEOM_BOX, .size = {0.1, 0.2, 0.3}};
    b = (body){.type = NS_GEOM_BOX, .p = {0.7, 0.5, 0.1}, .size = {0.2, 0.1, 0.1}};
    point got[13];
    machine_run(&m, &a, &b, got);
    for (int s = 0; s < 13; s++) assert_true(fabs(got[s].gap - 0.4) < 1e-15);
    machine_free(&m);
}

// Equal boxes, stacked: four corners, whatever noise there is.
static void stacked_boxes_have_four_points(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(5);
    body b = {.type = NS_GEOM_BOX, .size = {0.5, 0.3, 0.2}};
    body a = b;
    machine m = machine_create(&a, &b);
    for (int n = 0; n < 300; n++) {
        static const double noises[] = {0.0, 1e-17, 1e-12, 1e-9, 1e-7, 1e-5};
        double noise = noises[n % 6];
        a = b;
        a.p[2] = 0.4 - (n % 2 ? 1e-4 : 0.0);
        for (int i = 0; i < 3; i++) {
            a.p[i] += ns_rng_uniform(&rng, -noise, noise);
            a.w[i] += ns_rng_uniform(&rng, -noise, noise);
        }
        point got[13];
        machine_run(&m, &a, &b, got);
        uint32_t corners = 0, count = existing(&m, got);
        // Beyond the border of the clip the corners of both show.
        assert_true(noise < 1e-6 ? count == 4 : count >= 4 && count <= 8);
        for (int s = 0; s < 13; s++) {
            if (got[s].exists == 0.0) continue;
            assert_true(fabs(got[s].normal[2] - 1.0) < 1e-9);
            assert_true(got[12].exists == 0.0);
            assert_true(fabs(got[s].gap - (a.p[2] - 0.4)) < 2.0 * noise + 1e-15);
            double x = got[s].position[0], y = got[s].position[1], slack = 3.0 * noise + 1e-12;
            bool at_corner = fabs(fabs(x) - 0.5) < slack && fabs(fabs(y) - 0.3) < slack;
            assert_true(at_corner || noise > 1e-6);
            if (at_corner) corners |= 1u << ((x > 0.0) + 2 * (y > 0.0));
        }
        assert_int_equal(corners, 15);
    }
    // A quarter turn about the vertical, a smaller one on top and below, one that overhangs.
    const double quarter = acos(-1.0) / 2.0;
    static const struct {
        double size[3], x, z, turn;
        uint32_t points;
        double reach[2]; // of the common area in x
    } tops[] = {
        {{0.3, 0.5, 0.2}, 0.0, 0.4, 1.0, 4, {-0.5, 0.5}},
        {{0.1, 0.1, 0.1}, 0.0, 0.3, 0.0, 4, {-0.1, 0.1}},
        {{1.0, 1.0, 0.1}, 0.0, 0.3, 0.0, 4, {-0.5, 0.5}},
        {{0.5, 0.1, 0.1}, 0.2, 0.3, 0.0, 4, {-0.3, 0.5}},
        {{0.5, 0.6, 0.1}, -0.2, -0.3, 0.0, 4, {-0.5, 0.3}},
        {{0.3, 0.3, 0.1}, 0.0, 0.3, 0.0, 4, {-0.3, 0.3}}, // equal in y
        {{0.5, 0.2, 0.1}, 0.0, 0.3, 0.0, 4, {-0.5, 0.5}}, // equal in x
    };
    for (size_t k = 0; k < sizeof tops / sizeof *tops; k++) {
        a = (body){.type = NS_GEOM_BOX, .p = {tops[k].x, 0, tops[k].z}};
        memcpy(a.size, tops[k].size, sizeof a.size);
        a.w[2] = quarter * tops[k].turn;
        point got[13];
        machine_run(&m, &a, &b, got);
        assert_int_equal(existing(&m, got), tops[k].points);
        double low = INFINITY, high = -INFINITY;
        for (int s = 0; s < 13; s++) {
            if (got[s].exists == 0.0) continue;
            assert_true(fabs(got[s].gap) < 1e-15);
            assert_true(got[s].normal[2] == (tops[k].z > 0.0 ? 1.0 : -1.0));
            low = fmin(low, got[s].position[0]), high = fmax(high, got[s].position[0]);
        }
        assert_true(fabs(low - tops[k].reach[0]) < 2e-6 && fabs(high - tops[k].reach[1]) < 2e-6);
    }
    // Lying at any angle and a little tilted: never by edges, which separate as well to 1e-4 m.
    for (int n = 0; n < 300; n++) {
        a = b;
        a.p[2] = 0.4 - ns_rng_uniform(&rng, 0.0, 2e-4);
        double tilt[3] = {ns_rng_uniform(&rng, -2e-4, 2e-4), ns_rng_uniform(&rng, -2e-4, 2e-4), 0};
        double yaw[3] = {0, 0, ns_rng_uniform(&rng, -2.0, 2.0)};
        compose_rotations(tilt, yaw, a.w);
        point got[13] = {0};
        machine_run(&m, &a, &b, got);
        assert_true(got[12].exists == 0.0 && existing(&m, got) >= 4);
    }
    // Turned by 45 degrees: an octagon.
    a = (body){
        .type = NS_GEOM_BOX, .p = {0, 0, 0.4}, .w = {0, 0, quarter / 2}, .size = {0.3, 0.3, 0.2}};
    b = (body){.type = NS_GEOM_BOX, .size = {0.3, 0.3, 0.2}};
    point got[13];
    machine_run(&m, &a, &b, got);
    assert_int_equal(existing(&m, got), 8);
    machine_free(&m);
}

// While boxes move, a slot is the point of the features that were chosen before: its normal turns with the
// boxes and does not jump to another feature, as it does where features are chosen anew.
static void slots_keep_their_features(void** state) {
    (void)state;
    enum { BOXES = 4 };
    const double small = 0.02;
    ns_rng rng = ns_rng_seed(6);
    body a = random_body(&rng, NS_GEOM_BOX), b = random_body(&rng, NS_GEOM_BOX);
    machine anew = machine_create(&a, &b);
    ns_graph* graph = tracing_begin();
    nsi_shape shape[BOXES];
    for (int k = 0; k < BOXES; k++) shape[k] = shape_inputs(&a, "abcd"[k], false);
    shape[0].chosen = &shape[2];
    shape[1].chosen = &shape[3];
    nsi_contact_point points[13];
    nsi_contact_points(&shape[0], &shape[1], points);
    for (int k = 0; k < 13; k++) {
        for (int i = 0; i < 3; i++) {
            char name[16];
            snprintf(name, sizeof name, "n%d_%d", k, i);
            ns_output(name, points[k].normal.e[i]);
        }
    }
    tracing_end();
    machine kept = machine_of(graph, 13);

    uint32_t jumps = 0, checked = 0;
    for (int n = 0; n < 20 * CASES; n++) {
        touching_boxes(&rng, ns_rng_uniform(&rng, -0.01, 0.01), &a, &b);
        point before[13] = {0}, after[13] = {0};
        machine_run(&anew, &a, &b, before);
        double in[2 * INPUTS], out[3 * 13], turn[3];
        fill_inputs(&a, &b, in + INPUTS);
        for (int i = 0; i < 3; i++) turn[i] = small * ns_rng_uniform(&rng, -0.5, 0.5);
        compose_rotations(turn, a.w, a.w);
        fill_inputs(&a, &b, in);
        machine_run(&anew, &a, &b, after);
        ns_program_run(kept.program, &(ns_run){.in = in, .out = out, .work = kept.work});

        // Normals of faces; that of crossing edges turns faster, the more the closer they are to parallel.
        for (int k = 0; k < 12; k++) {
            if (before[k].exists == 0.0) continue;
            double cosine = dot(before[k].normal, out + 3 * k);
            assert_true(cosine > cos(small));
            jumps += dot(before[k].normal, after[k].normal) < 0.9;
            checked++;
        }
    }
    print_message("%u of %u normals jump where features are chosen anew\n", jumps, checked);
    assert_true(checked > 1000 && jumps > 20);
    machine_free(&kept);
    machine_free(&anew);
}

// Two edges that cross at right angles: b's along y at x = z = 0, turned by 45 degrees about it;
// a's along x, 0.01 above.
static void crossing_edges_meet(void** state) {
    (void)state;
    const double eighth = acos(-1.0) / 4.0, diagonal = 0.2 * sqrt(2.0);
    body b = {
        .type = NS_GEOM_BOX, .p = {0, 0, -diagonal}, .w = {0, eighth, 0}, .size = {0.2, 0.5, 0.2}};
    body a = {
        .type = NS_GEOM_BOX, .p = {0, 0, diagonal}, .w = {eighth, 0, 0}, .size = {0.5, 0.2, 0.2}};
    machine m = machine_create(&a, &b);
    for (int k = 0; k < 2; k++) {
        double gap = k ? 0.01 : -0.01;
        a.p[0] = 0.1, a.p[1] = 0.03, a.p[2] = diagonal + gap;
        b.p[1] = -0.2;
        point got[13];
        machine_run(&m, &a, &b, got);
        for (int s = 0; s < 12; s++) {
            assert_true(got[s].exists == 0.0 || (s < 4 && got[s].gap > 0.1)); // ends, far above
        }
        assert_true(got[12].exists == 1.0 && fabs(got[12].gap - gap) < 1e-15);
        double want[6] = {0.0, 0.03, 0.5 * gap, 0.0, 0.0, 1.0};
        for (int i = 0; i < 3; i++) {
            assert_true(fabs(got[12].position[i] - want[i]) < 1e-14);
            assert_true(fabs(got[12].normal[i] - want[3 + i]) < 1e-14);
        }
    }
    machine_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_touch_where_they_are),
        cmocka_unit_test(boxes_that_are_apart_have_no_depth),
        cmocka_unit_test(stacked_boxes_have_four_points),
        cmocka_unit_test(slots_keep_their_features),
        cmocka_unit_test(crossing_edges_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
