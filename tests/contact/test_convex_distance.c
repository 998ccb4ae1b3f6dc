// Pairs of convex shapes against libccd: distances of thousands of random pairs, and depths.

#include "base/common.h"
#include "contact/shapes.h"
#include "contact/shapes_rig.h"
#include "support/assert.h"
#include "support/randomtree.h"
#include "support/residual.h"

#include <ccd/ccd.h>
#include <math.h>
#include <string.h>

enum { CONVEX_PAIRS = sizeof convex_pairs / sizeof *convex_pairs, TRIES = 400 };

// ---- support functions, written anew -------------------------------------------------------

static void support_point(const body* b, const double o[3], double out[3]) {
    double back[3] = {-b->w[0], -b->w[1], -b->w[2]}, l[3], x[3] = {0, 0, 0};
    rotate(back, o, l);
    double unit = length(l) > 0.0 ? 1.0 / length(l) : 0.0;
    if (b->type == NS_GEOM_SPHERE || b->type == NS_GEOM_CAPSULE) {
        for (int i = 0; i < 3; i++) x[i] = b->size[0] * unit * l[i];
        if (b->type == NS_GEOM_CAPSULE) x[2] += copysign(b->size[1], l[2]);
    } else if (b->type == NS_GEOM_BOX) {
        for (int i = 0; i < 3; i++) x[i] = copysign(b->size[i], l[i]);
    } else if (b->type == NS_GEOM_CYLINDER) {
        double across = hypot(l[0], l[1]);
        for (int i = 0; i < 2 && across > 0.0; i++) x[i] = b->size[0] * l[i] / across;
        x[2] = copysign(b->size[1], l[2]);
    } else if (b->type == NS_GEOM_ELLIPSOID) {
        double d[3];
        for (int i = 0; i < 3; i++) d[i] = b->size[i] * l[i];
        for (int i = 0; i < 3; i++) x[i] = length(d) > 0.0 ? b->size[i] * d[i] / length(d) : 0.0;
    } else {
        double best = -INFINITY;
        for (uint32_t k = 0; k < b->nvertex; k++) {
            double v[3];
            for (uint32_t i = 0; i < 3; i++) v[i] = b->size[i] * b->vertices[3 * k + i];
            if (dot(v, l) <= best) continue;
            best = dot(v, l);
            memcpy(x, v, sizeof x);
        }
    }
    to_world(b, x, out);
}

// The gap along a direction from b to a.
static double gap_along(const body* a, const body* b, const double n[3]) {
    double back[3] = {-n[0], -n[1], -n[2]}, x[3], y[3];
    support_point(a, back, x);
    support_point(b, n, y);
    return n[0] * (x[0] - y[0]) + n[1] * (x[1] - y[1]) + n[2] * (x[2] - y[2]);
}

static void ccd_support_point(const void* of, const ccd_vec3_t* direction, ccd_vec3_t* out) {
    double x[3];
    support_point(of, direction->v, x);
    memcpy(out->v, x, sizeof x);
}

static void ccd_centre(const void* of, ccd_vec3_t* out) {
    const body* b = of;
    memcpy(out->v, b->p, sizeof b->p);
}

// Depth by libccd's expanding polytope; false where there is no contact.
static bool ccd_depth(const body* a, const body* b, double* depth, double normal[3]) {
    ccd_t ccd;
    ccd_vec3_t direction, position;
    CCD_INIT(&ccd);
    ccd.support1 = ccd.support2 = ccd_support_point;
    ccd.center1 = ccd.center2 = ccd_centre;
    ccd.max_iterations = 500;
    ccd.epa_tolerance = 1e-7;
    if (ccdGJKPenetration(a, b, &ccd, depth, &direction, &position) != 0) return false;
    memcpy(normal, direction.v, 3 * sizeof *normal);
    return true;
}

// ---- pairs ---------------------------------------------------------------------------------

// Bodies of similar size, whose gap is about `want`, by moving a away from b.
static void random_convex_pair(ns_rng* rng, const pair_of_types* types, double want, body* a,
                               body* b) {
    double away[3], low = 0.0, high = 3.0;
    *a = random_body(rng, types->a);
    *b = random_body(rng, types->b);
    for (int i = 0; i < 3; i++) {
        if (a->type == NS_GEOM_MESH) a->size[i] *= 4.0;
        if (b->type == NS_GEOM_MESH) b->size[i] *= 4.0;
    }
    random_unit(rng, away);
    for (int k = 0; k < 50; k++) {
        double middle = 0.5 * (low + high), best = -INFINITY;
        for (int i = 0; i < 3; i++) a->p[i] = b->p[i] + middle * away[i];
        // The gap along the line of centres is a lower bound that grows with the distance.
        best = fmax(best, gap_along(a, b, away));
        if (best < want) {
            low = middle;
        } else {
            high = middle;
        }
    }
}

// Is there a direction with a larger gap? Small turns of n, at all scales.
static double better_gap(const body* a, const body* b, const double n[3], ns_rng* rng) {
    double here = gap_along(a, b, n), best = here;
    for (int k = 0; k < 60; k++) {
        double m[3], turn[3], scale = pow(10.0, ns_rng_uniform(rng, -6.0, -0.5));
        random_unit(rng, turn);
        for (int i = 0; i < 3; i++) m[i] = n[i] + scale * turn[i];
        double size = length(m);
        for (int i = 0; i < 3; i++) m[i] /= size;
        best = fmax(best, gap_along(a, b, m));
    }
    return best - here;
}

static void gaps_are_those_of_libccd(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(31);
    uint32_t faults = 0;
    for (int k = 0; k < CONVEX_PAIRS; k++) {
        const pair_of_types* types = &convex_pairs[k];
        body a = random_body(&rng, types->a), b = random_body(&rng, types->b);
        machine m = machine_create(&a, &b);
        double worst = 0.0, worst_local = 0.0, worst_depth = 0.0, too_deep = 0.0;
        uint32_t several = 0, deep = 0, missed = 0, local_misses = 0, local_deep = 0, shallow = 0;
        for (int n = 0; n < TRIES; n++) {
            random_convex_pair(&rng, types, ns_rng_uniform(&rng, -0.08, 0.03), &a, &b);
            point got[MAX_SLOTS] = {0};
            machine_run(&m, &a, &b, got);
            assert_true(got[0].exists == 1.0);
            const point* p = deepest(&m, got);
            if (!p) fail_msg("no contact point");
            if (!p) continue;
            double along_normal = gap_along(&a, &b, p->normal), depth, normal[3];
            assert_true(fabs(length(p->normal) - 1.0) < 1e-12);
            if (existing(&m, got) > 1) {
                several++;
                too_deep = fmax(too_deep, along_normal - p->gap);
                continue;
            }
            // The gap is that along the normal, which no neighbour improves.
            worst = fmax(worst, fabs(p->gap - along_normal));
            double better = better_gap(&a, &b, p->normal, &rng);
            worst_local = fmax(worst_local, better);
            local_misses += better > 1e-9;
            bool together = ccd_depth(&a, &b, &depth, normal);
            if (together != (p->gap < 0.0) && fabs(p->gap) > 1e-6) {
                print_message("%s %d: gap %g, libccd %d %g\n", types->name, n, p->gap, together,
                              together ? depth : 0.0);
                missed++;
            }
            if (!together || p->gap > 0.0) continue;
            deep++;
            // Its way out is not shorter than ours. Its depth is that of a polytope inside.
            double back[3] = {-normal[0], -normal[1], -normal[2]};
            double theirs = fmax(gap_along(&a, &b, normal), gap_along(&a, &b, back));
            worst_depth = fmax(worst_depth, theirs - p->gap);
            local_deep += theirs > p->gap + 1e-6;
            shallow += -p->gap - depth < 1e-3 * fabs(p->gap) + 1e-5;
        }
        print_message(
            "%-20s several %3u, deep %3u: gap %.1e, local %.1e (%u), deeper %.1e (%u, %u), "
            "manifold %.1e, wrong %u\n",
            types->name, several, deep, worst, worst_local, local_misses, worst_depth, local_deep,
            shallow, too_deep, missed);
        machine_free(&m);
        faults += missed > 0 || !(worst < 1e-12) || !(too_deep < 1e-9);
        faults += !(worst_local < 1e-9) || !(worst_depth < 1e-6);
    }
    assert_int_equal(faults, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_are_those_of_libccd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
