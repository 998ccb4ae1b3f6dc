// For tests of the contact solver's blocks: rows of random bodies, Coulomb's conditions, kernels run alone
// and in lanes, and the text form.

#ifndef TEST_BLOCK_RIG_H
#define TEST_BLOCK_RIG_H

#include "contact/ncp.h"
#include "contact/ncp_kernels.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BODY = 6, RIG_LANES = 16 };
enum { POINTS = 3, PARTS = 3 }; // contacts that turn, at most; blocks of rows of each

// ---- problems --------------------------------------------------------------------------------

// Jacobian J (3n x 6) of n random points of a rigid body, in rows normal, tangent, tangent; Z = J M^-1/2
// for mass 1 and an unsymmetric inertia.
static inline void body_rows(ns_rng* rng, uint32_t n, double* J, double* Z) {
    static const double inverse_inertia[3] = {4.0, 2.5, 1.7};
    for (uint32_t c = 0; c < n; c++) {
        double point[3], q[4], size = 0.0; // normal and tangents from a random quaternion
        for (int k = 0; k < 4; k++) q[k] = ns_rng_normal(rng);
        for (int k = 0; k < 4; k++) size += q[k] * q[k];
        for (int k = 0; k < 4; k++) q[k] /= sqrt(size);
        for (int k = 0; k < 3; k++) point[k] = ns_rng_uniform(rng, -0.5, 0.5);
        double w = q[0], a = q[1], b = q[2], d = q[3];
        double R[3][3] = {{1 - 2 * (b * b + d * d), 2 * (a * b - w * d), 2 * (a * d + w * b)},
                          {2 * (a * b + w * d), 1 - 2 * (a * a + d * d), 2 * (b * d - w * a)},
                          {2 * (a * d - w * b), 2 * (b * d + w * a), 1 - 2 * (a * a + b * b)}};
        for (uint32_t r = 0; r < 3; r++) {
            const double* f = R[r];
            double *row = J + (3 * c + r) * BODY, *z = Z + (3 * c + r) * BODY;
            for (int k = 0; k < 3; k++) row[k] = z[k] = f[k];
            row[3] = point[1] * f[2] - point[2] * f[1];
            row[4] = point[2] * f[0] - point[0] * f[2];
            row[5] = point[0] * f[1] - point[1] * f[0];
            for (int k = 3; k < BODY; k++) z[k] = row[k] * sqrt(inverse_inertia[k - 3]);
        }
    }
}

// The same for n blocks of rows: each point, its torsion and its rolling, which have the angular velocity along
// their directions.
static inline void turning_rows(ns_rng* rng, uint32_t n, double* J, double* Z) {
    static const double root[3] = {2.0, 1.5811388300841898, 1.3038404810405297}; // as body_rows()
    double points[3 * POINTS * BODY], z[3 * POINTS * BODY];
    body_rows(rng, n / PARTS, points, z);
    for (uint32_t b = 0; b < n; b++) {
        for (uint32_t r = 0; r < 3; r++) {
            double *row = J + (3 * b + r) * BODY, *to = Z + (3 * b + r) * BODY;
            const double* from = points + (3 * (b / PARTS) + r) * BODY;
            memset(row, 0, BODY * sizeof *row);
            memset(to, 0, BODY * sizeof *to);
            if (b % PARTS == 0) {
                memcpy(row, from, BODY * sizeof *row);
                memcpy(to, z + (3 * (b / PARTS) + r) * BODY, BODY * sizeof *to);
                continue;
            }
            if (b % PARTS == 1 ? r != 1 : r == 0) continue;
            if (b % PARTS == 1) from -= BODY; // about the normal
            for (uint32_t k = 0; k < 3; k++) {
                row[3 + k] = from[k];
                to[3 + k] = root[k] * from[k];
            }
        }
    }
}

// Any Z (3n x nv), with columns that a contact has not.
static inline void any_rows(ns_rng* rng, uint32_t n, uint32_t nv, double* Z) {
    for (uint32_t c = 0; c < n; c++) {
        uint32_t first = (uint32_t)ns_rng_uniform(rng, 0.0, nv), step = 1 + c % 3;
        for (uint32_t i = 3 * c; i < 3 * c + 3; i++) {
            for (uint32_t k = 0; k < nv; k++) {
                bool has = k == first || (k >= first && (k - first) % step == 0) || k < 2;
                Z[i * nv + k] = has ? ns_rng_normal(rng) : 0.0;
            }
        }
    }
}

static inline double row_dot(uint32_t n, const double* a, const double* b) {
    double sum = 0.0;
    for (uint32_t k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

// Worst violation of the conditions in ncp.h by impulses l and velocities w of one contact, in units of
// size_l and size_w.
static inline double coulomb_violation(nsi_friction friction, double mu, const double* l,
                                       const double* w, double size_l, double size_w) {
    double bound = mu * l[0], worst = fmax(-l[0] / size_l, -w[0] / size_w);
    worst = fmax(worst, fabs(l[0] * w[0]) / (size_l * size_w));
    if (friction == NSI_FRICTION_CONE) {
        double size = hypot(l[1], l[2]), slip = hypot(w[1], w[2]);
        worst = fmax(worst, (size - bound) / size_l);
        // Inside: no slip. On the bound: slip straight against the impulse.
        double against = fabs(slip * bound + w[1] * l[1] + w[2] * l[2]) / fmax(bound, 1e-12);
        if (bound > 1e-9 * size_l) worst = fmax(worst, fmin(slip, against) / size_w);
        return worst;
    }
    for (int k = 1; k < 3; k++) {
        double inside = bound - fabs(l[k]);
        worst = fmax(worst, -inside / size_l);
        worst = fmax(worst, fmin(fabs(w[k]) / size_w, inside / size_l));
        if (w[k] * l[k] > 0.0) worst = fmax(worst, fabs(w[k] * l[k]) / (size_l * size_w));
    }
    return worst;
}

// ---- kernels ---------------------------------------------------------------------------------

// The kernel of a kind for one lane.
static inline void run_kind(const nsi_block_kind* kind, const uint32_t* params, const double* x,
                            double* y) {
    nsi_block_sizes sizes;
    assert_true(kind->sizes(params, &sizes));
    double* scratch = test_malloc(sizes.scratch * sizeof *scratch);
    kind->kernel(0)(&(nsi_block_args){.params = params, .x = x, .y = y, .scratch = scratch});
    test_free(scratch);
}

// RIG_LANES lanes, alone and together: the same bits, whatever the neighbours are, on any machine. `x` is
// [lane][ninput], `y` receives the lanes alone.
static inline void check_lanes(const nsi_block_kind* kind,
                               nsi_block_kernel* const forms[NSI_LANE_FORMS],
                               nsi_block_kernel* alone, const uint32_t* params, const double* x,
                               double* y) {
    nsi_block_sizes sizes;
    assert_true(kind->sizes(params, &sizes));
    for (uint32_t form = 0; form < 3; form++) { // 1, 4 and 16 lanes
        size_t lanes = nsi_lane_counts[form];
        double* in = test_malloc(lanes * sizes.ninput * sizeof *in);
        double* out = test_malloc(lanes * sizes.noutput * sizeof *out);
        double* scratch = test_malloc(lanes * sizes.scratch * sizeof *scratch);
        for (size_t first = 0; first < RIG_LANES; first += lanes) {
            for (size_t e = 0; e < lanes; e++) {
                const double* from = x + (first + e) * sizes.ninput;
                for (size_t i = 0; i < sizes.ninput; i++) in[i * lanes + e] = from[i];
                double* to = y + (first + e) * sizes.noutput;
                alone(&(nsi_block_args){.params = params, .x = from, .y = to, .scratch = scratch});
            }
            forms[form](&(nsi_block_args){.params = params, .x = in, .y = out, .scratch = scratch});
            for (size_t k = 0; k < lanes * sizes.noutput; k++) {
                double expected = y[(first + k % lanes) * sizes.noutput + k / lanes];
                if (check_same_bits(out[k], expected)) continue;
                fail_msg("%s, %zu lanes: output %zu of lane %zu is %.17g, alone %.17g", kind->name,
                         lanes, k / lanes, first + k % lanes, out[k], expected);
            }
        }
        test_free(in);
        test_free(out);
        test_free(scratch);
    }
}

// ---- graphs ----------------------------------------------------------------------------------

// The text of a graph reads back as the same graph.
static inline void check_round_trip(const ns_graph* g) {
    ns_text first, second;
    ns_graph* copy = NULL;
    assert_int_equal(ns_graph_print(g, &first, NULL), NS_OK);
    assert_int_equal(ns_graph_parse(first.data, first.size, NULL, NULL, &copy, NULL), NS_OK);
    assert_int_equal(ns_graph_print(copy, &second, NULL), NS_OK);
    assert_string_equal(first.data, second.data);
    ns_text_free(&first);
    ns_text_free(&second);
    ns_graph_free(copy);
}

// Also with the blocks of its derivatives.
static inline void check_round_trips(const ns_graph* g) {
    ns_graph *jvp = NULL, *vjp = NULL;
    assert_int_equal(ns_graph_jvp(g, NULL, &jvp, NULL), NS_OK);
    assert_int_equal(ns_graph_vjp(g, NULL, &vjp, NULL), NS_OK);
    check_round_trip(g);
    check_round_trip(jvp);
    check_round_trip(vjp);
    ns_graph_free(jvp);
    ns_graph_free(vjp);
}

#endif
