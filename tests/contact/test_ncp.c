// The impulse solver: its conditions, closed forms, and derivatives.

#include "contact/ncp.h"
#include "contact/ncp_kernels.h"
#include "expr/trace.h"
#include "neuralsim/neuralsim.h"
#include "support/check.h"
#include "support/tracing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_CONTACTS = 5, MAX_ROWS = 3 * MAX_CONTACTS, MAX_INPUTS = 200 };

// A graph that is the block alone: inputs x0.., outputs l0.. and the residual.
static ns_graph* solver_graph(uint32_t n, nsi_friction friction) {
    ns_graph* g = tracing_begin();
    uint32_t params[2] = {n, friction};
    nsi_block_sizes sizes;
    assert_true(nsi_ncp.sizes(params, &sizes));
    nsi_id inputs[MAX_INPUTS];
    char name[16];
    for (uint32_t i = 0; i < sizes.ninput; i++) {
        snprintf(name, sizeof name, "x%u", i);
        inputs[i] = ns_input(name).id;
    }
    nsi_block block = {.kind = &nsi_ncp,
                       .params = {n, friction},
                       .ninput = sizes.ninput,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(g, &block);
    for (uint32_t k = 0; k < 3 * n; k++) {
        snprintf(name, sizeof name, "l%u", k);
        ns_output(name, (ns_expr){nsi_graph_out(g, node, k)});
    }
    tracing_end();
    return g;
}

// A rigid body (mass 1, unsymmetric inertia) that hits something at n random points: A = J M^-1 J'
// has rank 6 at most, made positive by 1e-4 of its diagonal; b takes its velocity away.
static void random_problem(nsi_rng* rng, uint32_t n, double mu, double* x) {
    static const double inverse_inertia[3] = {4.0, 2.5, 1.7};
    uint32_t rows = 3 * n, entries = rows * (rows + 1) / 2;
    double J[MAX_ROWS][6], twist[6];
    for (int k = 0; k < 6; k++) twist[k] = nsi_rng_normal(rng);
    for (uint32_t c = 0; c < n; c++) {
        double frame[3][3], point[3], size = 0.0; // normal and tangents, from a random quaternion
        double q[4];
        for (int k = 0; k < 4; k++) q[k] = nsi_rng_normal(rng);
        for (int k = 0; k < 4; k++) size += q[k] * q[k];
        for (int k = 0; k < 4; k++) q[k] /= sqrt(size);
        for (int k = 0; k < 3; k++) point[k] = nsi_rng_uniform(rng, -0.5, 0.5);
        double w = q[0], a = q[1], b = q[2], d = q[3];
        double R[3][3] = {{1 - 2 * (b * b + d * d), 2 * (a * b - w * d), 2 * (a * d + w * b)},
                          {2 * (a * b + w * d), 1 - 2 * (a * a + d * d), 2 * (b * d - w * a)},
                          {2 * (a * d - w * b), 2 * (b * d + w * a), 1 - 2 * (a * a + b * b)}};
        memcpy(frame, R, sizeof frame);
        for (uint32_t r = 0; r < 3; r++) {
            const double* f = frame[r];
            double* row = J[3 * c + r];
            for (int k = 0; k < 3; k++) row[k] = f[k];
            row[3] = point[1] * f[2] - point[2] * f[1];
            row[4] = point[2] * f[0] - point[0] * f[2];
            row[5] = point[0] * f[1] - point[1] * f[0];
        }
        x[entries + rows + c] = mu;
        x[entries + rows + n + c] = 1.0;
    }
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double sum = 0.0;
            for (int k = 0; k < 6; k++) {
                sum += J[i][k] * J[j][k] * (k < 3 ? 1.0 : inverse_inertia[k - 3]);
            }
            x[i * (i + 1) / 2 + j] = i == j ? 1.0001 * sum : sum;
        }
        x[entries + i] = 0.0;
        for (int k = 0; k < 6; k++) x[entries + i] -= J[i][k] * twist[k];
    }
}

static double entry(const double* x, uint32_t i, uint32_t j) {
    return i >= j ? x[i * (i + 1) / 2 + j] : x[j * (j + 1) / 2 + i];
}

// Worst violation of the conditions in ncp.h, in units of the largest impulse and velocity.
static double violation(const double* x, uint32_t n, nsi_friction friction, const double* l) {
    uint32_t rows = 3 * n, entries = rows * (rows + 1) / 2;
    double w[MAX_ROWS], worst = 0.0, size_l = 1e-9, size_w = 1e-9;
    for (uint32_t i = 0; i < rows; i++) {
        w[i] = -x[entries + i];
        for (uint32_t j = 0; j < rows; j++) w[i] += entry(x, i, j) * l[j];
        size_l = fmax(size_l, fabs(l[i]));
        size_w = fmax(size_w, fmax(fabs(w[i]), fabs(x[entries + i])));
    }
    for (uint32_t c = 0; c < n; c++) {
        const double *p = l + 3 * c, *v = w + 3 * c;
        double bound = x[entries + rows + c] * p[0];
        worst = fmax(worst, -p[0] / size_l);
        worst = fmax(worst, -v[0] / size_w);
        worst = fmax(worst, fabs(p[0] * v[0]) / (size_l * size_w));
        if (friction == NSI_FRICTION_CONE) {
            double size = hypot(p[1], p[2]), slip = hypot(v[1], v[2]);
            worst = fmax(worst, (size - bound) / size_l);
            // Inside: no slip. On the bound: slip straight against the impulse.
            worst =
                fmax(worst, fmin(slip, fabs(slip * bound + v[1] * p[1] + v[2] * p[2]) /
                                           fmax(bound, 1e-12)) /
                                size_w * (bound - size > 1e-9 * size_l || bound > 1e-9 * size_l));
        } else {
            for (int k = 1; k < 3; k++) {
                worst = fmax(worst, (fabs(p[k]) - bound) / size_l);
                double inside = bound - fabs(p[k]);
                worst = fmax(worst, fmin(fabs(v[k]) / size_w, inside / size_l));
                if (v[k] * p[k] > 0.0) worst = fmax(worst, fabs(v[k] * p[k]) / (size_l * size_w));
            }
        }
    }
    return worst;
}

static void conditions_hold(void** state) {
    (void)state;
    nsi_rng rng = nsi_rng_seed(3);
    for (nsi_friction friction = 0; friction <= NSI_FRICTION_CONE; friction++) {
        uint32_t failed = 0, total = 0;
        for (uint32_t n = 1; n <= MAX_CONTACTS; n++) {
            ns_graph* g = solver_graph(n, friction);
            for (int trial = 0; trial < 200; trial++) {
                double x[MAX_INPUTS], l[MAX_ROWS];
                random_problem(&rng, n, 0.5, x);
                run_graph(g, x, l);
                failed += violation(x, n, friction, l) > 1e-8;
                total++;
            }
            ns_graph_free(g);
        }
        print_message("%s: %u of %u random problems not met\n",
                      friction == NSI_FRICTION_CONE ? "cone" : "pyramid", failed, total);
        // Wedged between contacts from all sides, a Coulomb problem need not have a solution.
        assert_true(failed * 100 <= total);
    }
}

// A point of mass 2 falling and sliding: full friction, then more than friction can hold.
static void point_mass_has_the_closed_form(void** state) {
    (void)state;
    for (nsi_friction friction = 0; friction <= NSI_FRICTION_CONE; friction++) {
        ns_graph* g = solver_graph(1, friction);
        // A = 1/m, b = -v: velocity 3 down, 1 and -0.5 sideways.
        double x[] = {0.5, 0, 0.5, 0, 0, 0.5, 3, -1, 0.5, 0.8, 1.0}, l[3];
        run_graph(g, x, l);
        double expected[3] = {6.0, -2.0, 1.0};
        for (int k = 0; k < 3; k++) assert_true(fabs(l[k] - expected[k]) < 1e-12);
        x[9] = 0.1; // mu l_n = 0.6
        run_graph(g, x, l);
        double length = friction == NSI_FRICTION_CONE ? hypot(1.0, 0.5) : 1.0;
        assert_true(fabs(l[1] + 0.6 * (friction == NSI_FRICTION_CONE ? 1.0 / length : 1.0)) <
                    1e-12);
        assert_true(fabs(l[2] - 0.6 * (friction == NSI_FRICTION_CONE ? 0.5 / length : 1.0)) <
                    1e-12);
        x[10] = 0.0; // off
        run_graph(g, x, l);
        for (int k = 0; k < 3; k++) assert_true(l[k] == 0.0);
        ns_graph_free(g);
    }
}

// Two contacts that share everything but one is off, or has rows without mass: no effect.
static void absent_contacts_change_no_bit(void** state) {
    (void)state;
    nsi_rng rng = nsi_rng_seed(5);
    ns_graph *one = solver_graph(1, NSI_FRICTION_CONE), *two = solver_graph(2, NSI_FRICTION_CONE);
    for (int trial = 0; trial < 50; trial++) {
        double x2[MAX_INPUTS], x1[MAX_INPUTS], l1[3], l2[6];
        random_problem(&rng, 2, 0.6, x2);
        x2[21 + 6 + 2 + 1] = 0.0; // the second is off
        for (int i = 0; i < 6; i++) x1[i] = x2[i];
        for (int i = 0; i < 3; i++) x1[6 + i] = x2[21 + i];
        x1[9] = x2[27];
        x1[10] = 1.0;
        run_graph(one, x1, l1);
        run_graph(two, x2, l2);
        for (int k = 0; k < 3; k++) assert_true(check_same_bits(l1[k], l2[k]));
        for (int k = 3; k < 6; k++) assert_true(l2[k] == 0.0);
    }
    ns_graph_free(one);
    ns_graph_free(two);
}

// Value, tangent or adjoint of a number of lanes, alone and together: the same bits, whatever the
// neighbours are, on any machine. `x` is [lane][ninput], `y` receives the lanes alone.
static void check_lanes(const nsi_block_kind* kind, nsi_block_kernel* const forms[NSI_LANE_FORMS],
                        nsi_block_kernel* alone, const uint32_t* params, const double* x,
                        double* y) {
    nsi_block_sizes sizes;
    assert_true(kind->sizes(params, &sizes));
    for (uint32_t form = 0; form < 3; form++) { // 1, 4 and 16 lanes
        size_t lanes = nsi_lane_counts[form];
        double* in = test_malloc(lanes * sizes.ninput * sizeof *in);
        double* out = test_malloc(lanes * sizes.noutput * sizeof *out);
        double* scratch = test_malloc(lanes * sizes.scratch * sizeof *scratch);
        for (size_t first = 0; first < 16; first += lanes) {
            for (size_t e = 0; e < lanes; e++) {
                const double* from = x + (first + e) * sizes.ninput;
                for (size_t i = 0; i < sizes.ninput; i++) in[i * lanes + e] = from[i];
                double* to = y + (first + e) * sizes.noutput;
                alone(&(nsi_block_args){.params = params, .x = from, .y = to, .scratch = scratch});
            }
            forms[form](&(nsi_block_args){.params = params, .x = in, .y = out, .scratch = scratch});
            for (size_t k = 0; k < lanes * sizes.noutput; k++) {
                double expected = y[(first + k % lanes) * sizes.noutput + k / lanes];
                assert_true(check_same_bits(out[k], expected));
            }
        }
        test_free(in);
        test_free(out);
        test_free(scratch);
    }
}

// Lanes with different contacts on, and with rows that only some of them have.
static void lanes_do_not_see_their_neighbours(void** state) {
    (void)state;
    enum { LANES = 16, N = 4, ROWS = 3 * N, ENTRIES = ROWS * (ROWS + 1) / 2 };
    enum { VALUE = ENTRIES + ROWS + 2 * N, ADJOINT = VALUE + 2 * ROWS };
    enum { TANGENT = VALUE + ROWS + ENTRIES + ROWS + N };
    static double x[LANES * VALUE], l[LANES * (ROWS + 1)], tangent[LANES * TANGENT];
    static double adjoint[LANES * ADJOINT], y[LANES * TANGENT];
    const nsi_ncp_kernels* all[] = {
        &nsi_ncp_kernels_generic,
#ifdef NSI_HAVE_AVX2_KERNELS
        nsi_cpu_has_avx2_fma() ? &nsi_ncp_kernels_avx2 : &nsi_ncp_kernels_generic,
#endif
    };
    nsi_rng rng = nsi_rng_seed(17);
    for (uint32_t trial = 0; trial < 40; trial++) {
        uint32_t params[2] = {N, trial % 2};
        for (int e = 0; e < LANES; e++) {
            double* lane = x + e * VALUE;
            random_problem(&rng, N, 0.5, lane);
            for (uint32_t i = 0; i < ROWS; i++) { // every fourth row is without mass
                if (nsi_rng_uniform(&rng, 0.0, 1.0) > 0.25) continue;
                for (uint32_t j = 0; j < ROWS; j++) {
                    uint32_t at = i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i;
                    lane[at] = 0.0;
                }
            }
            for (uint32_t c = 0; c < N; c++) {
                lane[ENTRIES + ROWS + N + c] = nsi_rng_uniform(&rng, 0.0, 1.0) < 0.7;
            }
        }
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            check_lanes(&nsi_ncp, all[k]->value, all[0]->value[0], params, x, l);
            for (int e = 0; e < LANES; e++) {
                double *t = tangent + e * TANGENT, *a = adjoint + e * ADJOINT;
                memcpy(t, x + e * VALUE, VALUE * sizeof *t);
                memcpy(a, x + e * VALUE, VALUE * sizeof *a);
                memcpy(t + VALUE, l + e * (ROWS + 1), ROWS * sizeof *t);
                memcpy(a + VALUE, l + e * (ROWS + 1), ROWS * sizeof *a);
                for (int i = VALUE + ROWS; i < TANGENT; i++) t[i] = nsi_rng_normal(&rng);
                for (int i = VALUE + ROWS; i < ADJOINT; i++) a[i] = nsi_rng_normal(&rng);
            }
            check_lanes(&nsi_ncp_tangent, all[k]->tangent, all[0]->tangent[0], params, tangent, y);
            check_lanes(&nsi_ncp_adjoint, all[k]->adjoint, all[0]->adjoint[0], params, adjoint, y);
        }
    }
}

static void check_round_trip(const ns_graph* g) {
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
static void text_form_reads_back(void** state) {
    (void)state;
    ns_graph *g = solver_graph(2, NSI_FRICTION_CONE), *jvp = NULL, *vjp = NULL;
    assert_int_equal(ns_graph_jvp(g, NULL, &jvp, NULL), NS_OK);
    assert_int_equal(ns_graph_vjp(g, NULL, &vjp, NULL), NS_OK);
    check_round_trip(g);
    check_round_trip(jvp);
    check_round_trip(vjp);
    ns_graph_free(g);
    ns_graph_free(jvp);
    ns_graph_free(vjp);
}

static void derivatives_pass_the_check(void** state) {
    (void)state;
    nsi_rng rng = nsi_rng_seed(11);
    check_batch* batch = check_batch_create();
    ns_graph* graphs[8];
    int count = 0;
    for (nsi_friction friction = 0; friction <= NSI_FRICTION_CONE; friction++) {
        for (uint32_t n = 1; n <= 4; n++) {
            graphs[count] = solver_graph(n, friction);
            for (int trial = 0; trial < 2; trial++) {
                double x[MAX_INPUTS];
                random_problem(&rng, n, trial % 2 ? 0.3 : 0.9, x);
                check_batch_add(
                    batch, graphs[count], x, NULL,
                    &(check_options){.name = "ncp", .may_vanish = true, .seed = (uint64_t)trial});
            }
            count++;
        }
    }
    check_report report = check_batch_finish(batch);
    print_message("transpose %.1e, differences %.1e, undecided %u of %u\n", report.transpose_error,
                  report.difference_error, report.undecided, report.slopes);
    assert_true(report.undecided * 5 <= report.slopes); // where the pattern changes nearby
    while (count-- > 0) ns_graph_free(graphs[count]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(point_mass_has_the_closed_form),
        cmocka_unit_test(conditions_hold),
        cmocka_unit_test(absent_contacts_change_no_bit),
        cmocka_unit_test(lanes_do_not_see_their_neighbours),
        cmocka_unit_test(text_form_reads_back),
        cmocka_unit_test(derivatives_pass_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
