// What any pair of shapes must satisfy: slots as documented, symmetry, invariance, the derivative of a
// distance, finite numbers at degenerate poses, little cost.

#include "base/common.h"
#include "contact/contact_stages.h"
#include "contact/shapes.h"
#include "contact/shapes_rig.h"
#include "expr/trace.h"
#include "neuralsim/program.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/modelfile.h"
#include "support/randomtree.h"
#include "support/residual.h"
#include "support/tracing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- which pairs ---------------------------------------------------------------------------

enum { PAIRS = sizeof all / sizeof *all };
enum {
    CONVEX_PAIRS = sizeof convex_pairs / sizeof *convex_pairs,
    HFIELD_PAIRS = sizeof hfield_pairs / sizeof *hfield_pairs
};

// Bodies of a pair near each other; a rod is put along the plate's axis, at heights that overlap.
static void random_pair(ns_rng* rng, const pair_of_types* pair, body* a, body* b) {
    *a = random_body(rng, pair->a);
    *b = random_body(rng, pair->b);
    if (pair->a != NS_GEOM_CYLINDER || pair->b == NS_GEOM_PLANE) return;
    double local[3] = {ns_rng_uniform(rng, -0.5, 0.5), ns_rng_uniform(rng, -0.5, 0.5),
                       ns_rng_uniform(rng, -0.09, 0.09)};
    memcpy(a->w, b->w, sizeof a->w);
    a->size[0] = ns_rng_uniform(rng, 0.005, 0.05);
    to_world(b, local, a->p);
}

static void slots_are_as_documented(void** state) {
    (void)state;
    uint32_t handled = 0;
    for (ns_geom_type a = 0; a <= NS_GEOM_HFIELD; a++) {
        for (ns_geom_type b = 0; b <= NS_GEOM_HFIELD; b++) {
            uint32_t na = a == NS_GEOM_POLYGON ? 6 : 5, nb = b == NS_GEOM_POLYGON ? 6 : 5;
            uint32_t want = 0;
            for (int k = 0; k < PAIRS; k++) {
                bool same = all[k].a == a && all[k].b == b,
                     swapped = all[k].a == b && all[k].b == a;
                if (same || swapped) want = all[k].slots;
            }
            for (int k = 0; k < CONVEX_PAIRS; k++) {
                bool same = convex_pairs[k].a == a && convex_pairs[k].b == b,
                     swapped = convex_pairs[k].a == b && convex_pairs[k].b == a;
                if (same || swapped) want = convex_pairs[k].slots;
            }
            for (int k = 0; k < HFIELD_PAIRS; k++) {
                bool same = hfield_pairs[k].a == a && hfield_pairs[k].b == b,
                     swapped = hfield_pairs[k].a == b && hfield_pairs[k].b == a;
                if (same || swapped) want = hfield_pairs[k].slots;
            }
            assert_int_equal(nsi_contact_slots(a, na, b, nb), want);
            handled += want > 0;
        }
    }
    assert_int_equal(handled, 2 * (PAIRS + CONVEX_PAIRS + HFIELD_PAIRS) - 6); // six are of one type
    assert_int_equal(nsi_contact_slots(NS_GEOM_MESH, 129, NS_GEOM_BOX, 0), 0);
    assert_int_equal(nsi_contact_slots(NS_GEOM_MESH, 0, NS_GEOM_PLANE, 0), 0);
    assert_int_equal(nsi_contact_slots(NS_GEOM_CYLINDER, 0, NS_GEOM_POLYGON, 2), 0);
}

// ---- what holds for all pairs --------------------------------------------------------------

// Every existing point of `x` is one of `y`, with the normal times `sign`.
static double unmatched(const machine* m, const point* x, const point* y, double sign) {
    double worst = 0.0;
    for (uint32_t i = 0; i < m->slots; i++) {
        if (x[i].exists == 0.0) continue;
        double best = INFINITY;
        for (uint32_t j = 0; j < m->slots; j++) {
            if (y[j].exists == 0.0) continue;
            double error = fabs(x[i].gap - y[j].gap);
            for (int k = 0; k < 3; k++) {
                error = fmax(error, fabs(x[i].position[k] - y[j].position[k]));
                error = fmax(error, fabs(x[i].normal[k] - sign * y[j].normal[k]));
            }
            best = fmin(best, error);
        }
        worst = fmax(worst, best);
    }
    return worst;
}

static void swapping_turns_the_normal(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(8);
    residual r = {.name = "a and b swapped", .tolerance = 1e-12};
    uint32_t ties = 0;
    for (int k = 0; k < PAIRS; k++) {
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        machine m = machine_create(&a, &b), back = machine_create(&b, &a);
        assert_int_equal(m.slots, back.slots);
        for (int n = 0; n < CASES; n++) {
            random_pair(&rng, &all[k], &a, &b);
            if (all[k].a == NS_GEOM_BOX && all[k].b == NS_GEOM_BOX) {
                touching_boxes(&rng, -0.05, &a, &b);
            }
            point got[MAX_SLOTS], swapped[MAX_SLOTS];
            machine_run(&m, &a, &b, got);
            machine_run(&back, &b, &a, swapped);
            if (all[k].b == NS_GEOM_BOX && all[k].a == NS_GEOM_BOX &&
                dot(got[8].normal, swapped[8].normal) > -1.0 + 1e-9) { // of the reference faces
                ties++; // nearly equal separations: the bias prefers the first box
                continue;
            }
            if (all[k].b == NS_GEOM_CAPSULE && all[k].a == NS_GEOM_CAPSULE &&
                existing(&m, got) + existing(&back, swapped) > 2) {
                continue; // nearly parallel: the ends are those of the first
            }
            residual_add(&r, unmatched(&m, got, swapped, -1.0), 0.0, 1.0);
            residual_add(&r, unmatched(&m, swapped, got, -1.0), 0.0, 1.0);
        }
        machine_free(&m);
        machine_free(&back);
    }
    assert_true(ties < CASES / 4);
    residual_check(&r);
}

static void moving_both_changes_nothing(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(9);
    residual r = {.name = "both moved", .tolerance = 1e-12};
    for (int k = 0; k < PAIRS; k++) {
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        machine m = machine_create(&a, &b);
        for (int n = 0; n < CASES; n++) {
            random_pair(&rng, &all[k], &a, &b);
            if (all[k].a == NS_GEOM_BOX && all[k].b == NS_GEOM_BOX) {
                touching_boxes(&rng, -0.05, &a, &b);
            }
            body frame = random_body(&rng, NS_GEOM_SPHERE), moved_a = a, moved_b = b;
            to_world(&frame, a.p, moved_a.p);
            to_world(&frame, b.p, moved_b.p);
            compose_rotations(frame.w, a.w, moved_a.w);
            compose_rotations(frame.w, b.w, moved_b.w);
            point got[MAX_SLOTS], moved[MAX_SLOTS];
            machine_run(&m, &a, &b, got);
            machine_run(&m, &moved_a, &moved_b, moved);
            for (uint32_t s = 0; s < m.slots; s++) {
                assert_true(got[s].exists == moved[s].exists);
                if (got[s].exists == 0.0) continue;
                double want[3];
                residual_add(&r, moved[s].gap, got[s].gap, 1.0);
                to_world(&frame, got[s].position, want);
                residual_array(&r, moved[s].position, want, 3, 1.0);
                rotate(frame.w, got[s].normal, want);
                residual_array(&r, moved[s].normal, want, 3, 1.0);
            }
        }
        machine_free(&m);
    }
    residual_check(&r);
}

static machine jvp_machine(const machine* m) {
    ns_graph* graph = NULL;
    assert_int_equal(ns_graph_jvp(m->graph, NULL, &graph, NULL), NS_OK);
    return machine_of(graph, m->slots);
}

// Moving a by dx changes a distance by normal . dx, however the nearest points run.
static void gap_grows_along_the_normal(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(10);
    residual r = {.name = "d gap = normal . dx", .tolerance = 1e-10};
    for (int k = 0; k < PAIRS; k++) {
        bool boxes = all[k].a == NS_GEOM_BOX && all[k].b == NS_GEOM_BOX;
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        machine m = machine_create(&a, &b), jvp = jvp_machine(&m);
        uint32_t compared = 0;
        for (int n = 0; n < CASES; n++) {
            random_pair(&rng, &all[k], &a, &b);
            if (boxes) touching_boxes(&rng, -0.05, &a, &b);
            double in[2 * INPUTS] = {0}, out[2 * MAX_SLOTS * SLOT], dx[3];
            fill_inputs(&a, &b, in);
            random_unit(&rng, dx);
            memcpy(in + INPUTS, dx, sizeof dx);
            ns_program_run(jvp.program, &(ns_run){.in = in, .out = out, .work = jvp.work});
            const double* slope = out + (size_t)m.slots * SLOT;
            uint32_t count = 0;
            for (uint32_t s = 0; s < m.slots; s++) count += out[SLOT * s + 7] != 0.0;
            for (uint32_t s = 0; s < m.slots; s++) {
                const double* p = out + (size_t)SLOT * s;
                if (p[7] == 0.0) continue;
                // A clipped point slides: only what is furthest along the normal counts. A lying
                // capsule's ends slide as well.
                if (boxes && fabs(separation_along(&a, &b, p + 3) - p[6]) > 1e-9) continue;
                if (all[k].a == NS_GEOM_CAPSULE && m.slots == 2 && all[k].b != NS_GEOM_PLANE &&
                    count > 1) {
                    continue;
                }
                // An axis inside the box.
                if (all[k].a == NS_GEOM_CAPSULE && all[k].b == NS_GEOM_BOX &&
                    p[6] < -a.size[0] + 1e-6) {
                    continue;
                }
                // Deeper than the ellipse's centres of curvature there is no such distance.
                if (all[k].b == NS_GEOM_ELLIPSE && all[k].a == NS_GEOM_CYLINDER) {
                    double small = fmin(b.size[0], b.size[1]), large = fmax(b.size[0], b.size[1]);
                    if (p[6] + a.size[0] < -0.9 * small * small / large) continue;
                }
                residual_add(&r, slope[SLOT * s + 6], dot(p + 3, dx), 1.0);
                compared++;
            }
        }
        assert_true(compared >= CASES / 4);
        machine_free(&m);
        machine_free(&jvp);
    }
    residual_check(&r);
}

// At rest on each other, exactly aligned: where things lie most of the time, and where kinks are.
typedef struct resting {
    const char* name;
    body a, b;
} resting;

static const resting restings[] = {
    {"stack",
     {NS_GEOM_BOX, {0, 0, 0.4}, {0, 0, 0}, {0.5, 0.3, 0.2}, 0, NULL, {0}},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.3, 0.2}, 0, NULL, {0}}},
    {"small on large",
     {NS_GEOM_BOX, {0.1, 0, 0.2999}, {0, 0, 0}, {0.1, 0.1, 0.1}, 0, NULL, {0}},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.3, 0.2}, 0, NULL, {0}}},
    {"capsules",
     {NS_GEOM_CAPSULE, {0, 0, 0.2}, {0, 1.5707963267948966, 0}, {0.1, 0.3, 0}, 0, NULL, {0}},
     {NS_GEOM_CAPSULE, {0.1, 0, 0}, {0, 1.5707963267948966, 0}, {0.1, 0.3, 0}, 0, NULL, {0}}},
    {"capsule on box",
     {NS_GEOM_CAPSULE, {0, 0, 0.3}, {0, 1.5707963267948966, 0}, {0.1, 0.3, 0}, 0, NULL, {0}},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.3, 0.2}, 0, NULL, {0}}},
    {"capsule over box",
     {NS_GEOM_CAPSULE, {0, 0, 0.3}, {0, 1.5707963267948966, 0}, {0.1, 0.6, 0}, 0, NULL, {0}},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.3, 0.2}, 0, NULL, {0}}},
    {"ball on box",
     {NS_GEOM_SPHERE, {0.1, 0, 0.3}, {0, 0, 0}, {0.1, 0, 0}, 0, NULL, {0}},
     {NS_GEOM_BOX, {0, 0, 0}, {0, 0, 0}, {0.5, 0.3, 0.2}, 0, NULL, {0}}},
    {"cylinder on plane",
     {NS_GEOM_CYLINDER, {0, 0, 0.3}, {0, 0, 0}, {0.1, 0.3, 0}, 0, NULL, {0}},
     {NS_GEOM_PLANE, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 0, NULL, {0}}},
};

enum { RESTINGS = sizeof restings / sizeof *restings };

// Moved without turning, gaps follow the normal and positions follow at most; turned, nothing is
// out of proportion (the three points of a standing cylinder turn by 1 / UPRIGHT).
static void resting_poses_have_tame_derivatives(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(14);
    for (int k = 0; k < RESTINGS; k++) {
        machine m = machine_create(&restings[k].a, &restings[k].b), jvp = jvp_machine(&m);
        double worst = 0.0, moved = 0.0, turned = 0.0;
        uint32_t count = 0;
        for (int n = 0; n < 20; n++) {
            double in[2 * INPUTS] = {0}, out[2 * MAX_SLOTS * SLOT], direction[3];
            fill_inputs(&restings[k].a, &restings[k].b, in);
            random_unit(&rng, direction);
            memcpy(in + INPUTS + (n % 2 ? 3 : 0), direction, sizeof direction);
            ns_program_run(jvp.program, &(ns_run){.in = in, .out = out, .work = jvp.work});
            for (uint32_t s = 0; s < m.slots; s++) {
                const double *p = out + (size_t)SLOT * s, *d = p + (size_t)SLOT * m.slots;
                if (p[7] == 0.0) continue;
                count++;
                double largest = 0.0;
                for (int i = 0; i < 7; i++) largest = fmax(largest, fabs(d[i]));
                if (n % 2) {
                    turned = fmax(turned, largest);
                } else {
                    moved = fmax(moved, largest);
                    worst = fmax(worst, fabs(d[6] - dot(p + 3, direction)));
                }
            }
        }
        print_message("%-18s gap %.1e, moved %.1f, turned %.1f\n", restings[k].name, worst, moved,
                      turned);
        assert_true(count > 0 && moved < 20.0 && turned < (m.slots == 6 ? 200.0 : 20.0));
        assert_true(worst < 1e-14);
        machine_free(&m);
        machine_free(&jvp);
    }
}

static void derivatives_pass_the_check(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(11);
    check_batch* batch = check_batch_create();
    ns_graph* graphs[PAIRS];
    for (int k = 0; k < PAIRS; k++) {
        bool boxes = all[k].a == NS_GEOM_BOX && all[k].b == NS_GEOM_BOX;
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        uint32_t slots;
        graphs[k] = pair_graph(&a, &b, &slots);
        for (int n = 0; n < 4; n++) {
            random_pair(&rng, &all[k], &a, &b);
            if (boxes) touching_boxes(&rng, -0.05, &a, &b);
            double in[INPUTS];
            fill_inputs(&a, &b, in);
            check_batch_add(batch, graphs[k], in, NULL,
                            &(check_options){.name = all[k].name,
                                             .c = n == 0 ? CHECK_C_VJP : CHECK_C_VALUE,
                                             .seed = (uint64_t)n});
        }
    }
    // Near rest, tilted a little: where slots are the ends of what lies.
    ns_graph* near[RESTINGS];
    for (int k = 0; k < RESTINGS; k++) {
        body a = restings[k].a, b = restings[k].b;
        uint32_t slots;
        near[k] = pair_graph(&a, &b, &slots);
        for (int i = 0; i < 3; i++) {
            a.p[i] += ns_rng_uniform(&rng, -0.02, 0.02);
            a.w[i] += ns_rng_uniform(&rng, -0.008, 0.008);
        }
        double in[INPUTS];
        fill_inputs(&a, &b, in);
        check_batch_add(batch, near[k], in, NULL,
                        &(check_options){.name = restings[k].name, .c = CHECK_C_VALUE});
    }
    check_report report = check_batch_finish(batch);
    for (int k = 0; k < RESTINGS; k++) ns_graph_free(near[k]);
    print_message("transpose %.1e, differences %.1e, undecided %u of %u\n", report.transpose_error,
                  report.difference_error, report.undecided, report.slopes);
    assert_true(report.undecided * 20 <= report.slopes);
    for (int k = 0; k < PAIRS; k++) ns_graph_free(graphs[k]);
}

// ---- degenerate poses ----------------------------------------------------------------------

// Value, forward and reverse derivative in random directions: all finite, and normals unit.
typedef struct probe {
    machine value, jvp, vjp;
} probe;

static probe probe_create(const body* a, const body* b) {
    probe p = {.value = machine_create(a, b)};
    p.jvp = jvp_machine(&p.value);
    ns_graph* graph = NULL;
    assert_int_equal(ns_graph_vjp(p.value.graph, NULL, &graph, NULL), NS_OK);
    p.vjp = machine_of(graph, p.value.slots);
    return p;
}

static void probe_free(probe* p) {
    machine_free(&p->value);
    machine_free(&p->jvp);
    machine_free(&p->vjp);
}

static void probe_run(const probe* p, ns_rng* rng, const body* a, const body* b, const char* what) {
    enum { MOST = 2 * MAX_SLOTS * SLOT + 2 * INPUTS };
    double in[MOST], out[MOST];
    const machine* machines[3] = {&p->value, &p->jvp, &p->vjp};
    for (int k = 0; k < 3; k++) {
        const machine* m = machines[k];
        fill_inputs(a, b, in);
        for (uint32_t i = INPUTS; i < ns_graph_input_count(m->graph); i++) {
            in[i] = ns_rng_uniform(rng, -1.0, 1.0);
        }
        ns_program_run(m->program, &(ns_run){.in = in, .out = out, .work = m->work});
        for (uint32_t i = 0; i < ns_graph_output_count(m->graph); i++) {
            if (!isfinite(out[i])) {
                fail_msg("%s: output %s of the %s is %g", what, ns_graph_output_name(m->graph, i),
                         k == 0   ? "value"
                         : k == 1 ? "jvp"
                                  : "vjp",
                         out[i]);
            }
        }
        for (uint32_t s = 0; s < p->value.slots; s++) {
            double size = length(out + SLOT * s + 3);
            if (out[SLOT * s + 7] != 0.0 && fabs(size - 1.0) > 1e-12) {
                fail_msg("%s: a normal has length %g", what, size);
            }
        }
    }
}

// Both bodies at the origin with sizes that make things coincide, then each of many special
// offsets and turns, exact and with noise.
static void degenerate_poses_are_finite(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(12);
    const double quarter = acos(-1.0) / 2.0;
    static const double levels[] = {0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 1e3};
    static const double noises[] = {0.0, 0.0, 1e-17, 1e-13, 1e-9};
    uint32_t count = 0;
    for (int k = 0; k < PAIRS; k++) {
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        static const double sizes[3] = {0.2, 0.2, 0.2}, thin[3] = {0.1, 0.3, 0.2};
        probe p = probe_create(&a, &b);
        for (int n = 0; n < 700; n++) {
            memcpy(a.size, n % 2 ? sizes : thin, sizeof a.size);
            memcpy(b.size, n % 3 ? sizes : thin, sizeof b.size);
            double noise = noises[n % 5];
            for (int i = 0; i < 3; i++) {
                double offset = levels[ns_rng_below(&rng, 7)];
                if (offset > 1.0 && n % 10) offset = 0.0; // now and then very far
                a.p[i] = ns_rng_below(&rng, 2) ? offset : -offset;
                b.p[i] = 0.0;
                a.w[i] = b.w[i] = 0.0;
            }
            if (ns_rng_below(&rng, 3) == 0) memset(a.p, 0, sizeof a.p);
            double* turned = ns_rng_below(&rng, 2) ? a.w : b.w;
            turned[ns_rng_below(&rng, 3)] = 0.5 * quarter * ns_rng_below(&rng, 5);
            for (int i = 0; i < 3; i++) {
                a.p[i] += ns_rng_uniform(&rng, -noise, noise);
                a.w[i] += ns_rng_uniform(&rng, -noise, noise);
            }
            probe_run(&p, &rng, &a, &b, all[k].name);
            count++;
        }
        // Vertices and the middle of outlines.
        for (uint32_t v = 0; v < b.nvertex && all[k].a == NS_GEOM_CYLINDER; v++) {
            memset(b.p, 0, sizeof b.p), memset(b.w, 0, sizeof b.w), memset(a.w, 0, sizeof a.w);
            memcpy(a.p, b.vertices + 3 * v, sizeof a.p);
            probe_run(&p, &rng, &a, &b, "rod at a vertex");
            for (int i = 0; i < 2; i++) {
                a.p[i] = 0.5 * (b.vertices[3 * v + (uint32_t)i] +
                                b.vertices[3 * ((v + 1) % b.nvertex) + (uint32_t)i]);
            }
            probe_run(&p, &rng, &a, &b, "rod on an edge");
        }
        probe_free(&p);
    }
    print_message("%u degenerate poses\n", count);
}

// ---- cost ----------------------------------------------------------------------------------

// Operations with shape a moving and constant sizes: against a plane that is the ground, or another
// moving shape. Not the rotation matrices, which are inputs here.
static uint32_t operations(const body* a, const body* b, bool ground) {
    ns_graph* g = tracing_begin();
    nsi_shape s[2];
    for (int k = 0; k < 2; k++) {
        const body* from = k ? b : a;
        bool constant = k == 1 && ground;
        s[k] = (nsi_shape){.type = from->type,
                           .nvertex = from->nvertex,
                           .vertices = from->vertices,
                           .nrow = from->grid.nrow,
                           .ncol = from->grid.ncol,
                           .elevation = from->grid.elevation};
        for (int i = 0; i < 3; i++) {
            char name[16];
            snprintf(name, sizeof name, "p%d%d", k, i);
            s[k].position.e[i] = constant ? ns_const(0.0) : ns_input(name);
            s[k].size[i] = ns_const(from->size[i]);
            for (int j = 0; j < 3; j++) {
                snprintf(name, sizeof name, "R%d%d%d", k, i, j);
                s[k].R.e[i][j] = constant ? ns_const(i == j) : ns_input(name);
            }
        }
    }
    nsi_contact_point points[MAX_SLOTS];
    nsi_contact_points(&s[0], &s[1], points);
    uint32_t slots = nsi_contact_slots(a->type, a->nvertex, b->type, b->nvertex), n = 0;
    for (uint32_t k = 0; k < slots; k++) {
        ns_expr out[SLOT] = {points[k].position.e[0], points[k].position.e[1],
                             points[k].position.e[2], points[k].normal.e[0],
                             points[k].normal.e[1],   points[k].normal.e[2],
                             points[k].gap,           points[k].exists};
        for (int i = 0; i < SLOT; i++) {
            char name[16];
            snprintf(name, sizeof name, "y%u", n++);
            ns_output(name, out[i]);
        }
    }
    tracing_end();
    uint32_t count = ns_graph_op_count(g);
    ns_graph_free(g);
    return count;
}

static void pairs_cost_little(void** state) {
    (void)state;
    // What they cost when this was written, and a little more.
    static const uint32_t most[PAIRS] = {4,  20, 110, 90, 120, 50,   170, 120, 100,
                                         30, 45, 160, 90, 700, 1600, 250, 250};
    ns_rng rng = ns_rng_seed(13);
    for (int k = 0; k < PAIRS; k++) {
        body a = random_body(&rng, all[k].a), b = random_body(&rng, all[k].b);
        bool plane = all[k].b == NS_GEOM_PLANE;
        uint32_t n = operations(&a, &b, plane);
        print_message("%-16s %2u slots %5u operations%s", all[k].name, all[k].slots, n,
                      plane ? " on the ground" : "");
        if (plane) print_message(", %u on a moving plane", operations(&a, &b, false));
        print_message("\n");
        assert_true(n <= most[k]);
    }
}

// Of both tables whose features come from a block, which is one operation here.
static void pairs_with_blocks_cost_little(void** state) {
    (void)state;
    static const uint32_t most[CONVEX_PAIRS + HFIELD_PAIRS] = {
        730,  840,  490,  1060, 870, 820, 1730, 970, 1490, 1940, 1180, // convex
        1730, 1290, 970,  1490,                                        //
        420,  660,  1490, 1770, 750, 820};                             // height fields
    static const double elevation[4] = {0, 1, 1, 0};
    ns_rng rng = ns_rng_seed(14);
    for (int k = 0; k < CONVEX_PAIRS + HFIELD_PAIRS; k++) {
        bool convex = k < CONVEX_PAIRS;
        const pair_of_types* pair = convex ? &convex_pairs[k] : &hfield_pairs[k - CONVEX_PAIRS];
        body a = random_body(&rng, pair->a), b = random_body(&rng, pair->b);
        if (!convex) b.grid.nrow = b.grid.ncol = 2, b.grid.elevation = elevation;
        uint32_t n = operations(&a, &b, false);
        print_message("%-20s %2u slots %5u operations\n", pair->name, pair->slots, n);
        assert_true(n <= most[k]);
    }
}

// ---- changes by networks -------------------------------------------------------------------

static ns_expr tilt_and_shift(void* context, const char* name, ns_expr x) {
    (void)context;
    if (strcmp(name, "contact/ball:ground/0/normal/x") == 0) return ns_add(x, ns_const(0.75));
    if (strcmp(name, "contact/ball:ground/0/position/y") == 0) return ns_add(x, ns_const(0.02));
    return x;
}

static void output_vector(const char* name, vec3 v) {
    char full[40];
    for (int k = 0; k < 3; k++) {
        snprintf(full, sizeof full, "%s/%d", name, k);
        ns_output(full, v.e[k]);
    }
}

// What a network does to a point at the start of a step is done to the same point later in it.
static void changes_follow_a_moved_robot(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><worldbody><geom name='ground' type='plane' size='1 1 1'/><body name='ball'"
        " pos='0 0 0.1'><freejoint/><geom name='ball' type='sphere' size='0.1'/></body></worldbody>"
        "</mujoco>");
    nsi_contact_options options = {.model = NS_CONTACT_NCP};
    ns_graph* graph = tracing_begin();
    ns_expr q[2][7], qd[6], param[200];
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 7; k++) q[i][k] = ns_const(k == 3 ? 1.0 : 0.1 * (i + 1) * (k < 3));
    }
    for (int k = 0; k < 6; k++) qd[k] = ns_const(0.0);
    assert_true(model->sizes.nparam <= 200);
    for (uint32_t k = 0; k < model->sizes.nparam; k++) param[k] = ns_const(model->params[k].value);

    nsi_robot robot, moved;
    nsi_link_pose pose[1];
    nsi_candidates start, later;
    assert_true(nsi_robot_init(&robot, model, param, q[0], qd));
    nsi_link_poses(&robot, pose);
    assert_true(nsi_candidates_find(&robot, pose, &options, NS_CONTACT_NCP, NULL, &start));
    nsi_trace_hook(tilt_and_shift, NULL);
    nsi_candidates_name(&robot, &start);
    nsi_trace_hook(NULL, NULL);
    assert_true(nsi_robot_move(&robot, q[1], qd, &moved));
    nsi_link_poses(&moved, pose);
    assert_true(nsi_candidates_find(&moved, pose, &options, NS_CONTACT_NCP, NULL, &later));
    nsi_candidates_follow(&start, &later);
    output_vector("normal", later.data[0].point.normal);
    output_vector("position", later.data[0].point.position);
    output_vector("tangent1", later.data[0].tangent[0]);
    output_vector("tangent2", later.data[0].tangent[1]);
    tracing_end();

    double out[12];
    run_graph(graph, NULL, out);
    const double normal[3] = {0.6, 0.0, 0.8};
    for (int k = 0; k < 3; k++) close_to("normal", out[k], normal[k], 1e-15);
    close_to("x", out[3], 0.2, 1e-15);
    close_to("y", out[4], 0.2 + 0.02, 1e-15);
    for (int k = 0; k < 2; k++) {
        const double *t = out + 6 + 3 * k, *other = out + 6 + 3 * (1 - k);
        close_to("tangent along the normal", dot(t, out), 0.0, 1e-15);
        close_to("length of a tangent", dot(t, t), 1.0, 1e-15);
        close_to("tangents", dot(t, other), 0.0, 1e-15);
    }
    ns_graph_free(graph);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_follow_a_moved_robot),
        cmocka_unit_test(slots_are_as_documented),
        cmocka_unit_test(swapping_turns_the_normal),
        cmocka_unit_test(moving_both_changes_nothing),
        cmocka_unit_test(gap_grows_along_the_normal),
        cmocka_unit_test(resting_poses_have_tame_derivatives),
        cmocka_unit_test(derivatives_pass_the_check),
        cmocka_unit_test(degenerate_poses_are_finite),
        cmocka_unit_test(pairs_cost_little),
        cmocka_unit_test(pairs_with_blocks_cost_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
