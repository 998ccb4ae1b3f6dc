// What networks structure whatever their weights are: dissipative, conservative, odd, even, bounded; and
// what such networks can learn.

#include "neuralsim/program.h"
#include "nn/network_rig.h"
#include "nn/network_trace.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/residual.h"
#include "support/tracing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- networks ------------------------------------------------------------------------------

// Zeros, subnormal, tiny, ordinary and huge numbers of both signs.
static double awkward(ns_rng* rng) {
    double sign = ns_rng_below(rng, 2) ? 1.0 : -1.0;
    switch (ns_rng_below(rng, 8)) {
    case 0: return 0.0 * sign;
    case 1: return 5e-324 * sign;
    case 2: return 1e-310 * sign;
    case 3: return sign * log_uniform(rng, 1e-200, 1e-3);
    case 4: return 1e3 * sign;
    case 5: return sign * log_uniform(rng, 1.0, 1e3);
    default: return ns_rng_normal(rng);
    }
}

// ---- dissipative ---------------------------------------------------------------------------

static double power(const net* t, const double* f, const double* v) {
    double sum = 0.0;
    for (uint32_t i = 0; i < t->nout; i++) sum += f[i] * v[i];
    return sum;
}

// Solve A x = b in place of b, A and b being overwritten; false when A is singular.
static bool solve(uint32_t n, double A[MAX_OUT][MAX_OUT], double* b) {
    for (uint32_t c = 0; c < n; c++) {
        uint32_t p = c;
        for (uint32_t i = c + 1; i < n; i++) p = fabs(A[i][c]) > fabs(A[p][c]) ? i : p;
        if (A[p][c] == 0.0) return false;
        for (uint32_t k = 0; k < n; k++) {
            double swap = A[c][k];
            A[c][k] = A[p][k];
            A[p][k] = swap;
        }
        double swap = b[c];
        b[c] = b[p];
        b[p] = swap;
        for (uint32_t i = c + 1; i < n; i++) {
            double factor = A[i][c] / A[c][c];
            for (uint32_t k = c; k < n; k++) A[i][k] -= factor * A[c][k];
            b[i] -= factor * b[c];
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++) b[i] -= A[i][k] * b[k];
        b[i] /= A[i][i];
    }
    return true;
}

// The direction in which the network brakes least, where rounding could turn the sign of the power
// first: by inverse iteration on the matrix of f, which is linear in v. Returns the largest element
// of the matrix.
static double weakest_direction(const runner* r, const net* t, const double* w, double* in,
                                ns_rng* rng) {
    double A[MAX_OUT][MAX_OUT], f[MAX_OUT], *v = in + t->nin, largest = 0.0;
    for (uint32_t k = 0; k < t->nout; k++) {
        for (uint32_t i = 0; i < t->nout; i++) v[i] = i == k ? 1.0 : 0.0;
        run(r, in, w, f);
        for (uint32_t i = 0; i < t->nout; i++) {
            A[i][k] = f[i];
            largest = fmax(largest, fabs(f[i]));
        }
    }
    double x[MAX_OUT];
    for (uint32_t i = 0; i < t->nout; i++) x[i] = ns_rng_normal(rng);
    for (int n = 0; n < 2; n++) {
        double B[MAX_OUT][MAX_OUT], norm = 0.0;
        memcpy(B, A, sizeof B);
        if (!solve(t->nout, B, x)) break;
        for (uint32_t i = 0; i < t->nout; i++) norm = fmax(norm, fabs(x[i]));
        for (uint32_t i = 0; i < t->nout; i++) x[i] /= norm;
    }
    for (uint32_t i = 0; i < t->nout; i++) v[i] = isfinite(x[i]) ? x[i] : 1.0;
    return largest;
}

// The bound of network_trace.c for L is about 1e11, so that forces of unit velocities are below 1e22
// times scales. Beyond, the power is negative up to rounding.
static const double MATRIX_LIMIT = 1e19;

static void dissipative_networks_never_feed_energy(void** state) {
    (void)state;
    static const unsigned kinds[] = {DISSIPATIVE, DISSIPATIVE | EVEN, DISSIPATIVE | ODD};
    ns_rng rng = ns_rng_seed(2);
    uint32_t points = 0, strict = 0, beyond = 0;
    double least = INFINITY, most = 0.0;
    for (int n = 0; n < 3000; n++) {
        net t;
        weights w;
        random_net(&t, &rng, kinds[n % 3], (ns_activation)(n / 3 % 8));
        weights_random(&w, &t, &rng, log_uniform(&rng, 1e-4, 1e3));
        runner r = net_runner(&t, NS_BACKEND_AUTO);
        for (int p = 0; p < 20; p++) {
            double in[MAX_IN + MAX_OUT], f[MAX_OUT], random[MAX_OUT], *v = in + t.nin;
            bool drag = p % 5 == 4; // the velocities are inputs, too
            for (uint32_t i = 0; i < t.nout; i++) random[i] = awkward(&rng);
            for (uint32_t i = 0; i < t.nin; i++) {
                in[i] = drag && i < t.nout ? random[i] : awkward(&rng);
            }
            double largest = weakest_direction(&r, &t, w.nobody, in, &rng); // into v
            if (drag || p % 2 == 1) memcpy(v, random, t.nout * sizeof *v);
            double squares = 0.0, speed = 0.0;
            for (uint32_t i = 0; i < t.nout; i++) {
                squares += v[i] * v[i];
                speed = fmax(speed, fabs(v[i]));
            }
            run(&r, in, w.nobody, f);
            double P = power(&t, f, v);
            if (largest > MATRIX_LIMIT) {
                assert_true(P <= 1e-14 * largest * squares);
                beyond++;
                continue;
            }
            points++;
            if (!(P <= 0.0)) {
                fail_msg("power %g of %u velocities, %s, weights like %g, matrix up to %g", P,
                         t.nout, ns_activation_name(t.def.activation), w.w[0], largest);
            }
            // Never less than the least damping of network_trace.c, with P and s within 0.1..10
            if (speed > 1e-100) {
                assert_true(P < 0.0);
                least = fmin(least, -P / squares);
                most = fmax(most, -P / squares);
                strict++;
            }
            // No velocity, no force.
            for (uint32_t i = 0; i < t.nout; i++) v[i] = p % 2 ? 0.0 : -0.0;
            run(&r, in, w.nobody, f);
            for (uint32_t i = 0; i < t.nout; i++) assert_true(f[i] == 0.0);
        }
        runner_free(&r);
    }
    print_message("%u points, %u of them moving: -power / v^2 from %.1e to %.1e; %u beyond 1e19\n",
                  points, strict, least, most, beyond);
    assert_true(least > 0.9e-9 && most > 1e6 && beyond < points / 10);
}

// ---- conservative --------------------------------------------------------------------------

// A bound of the sum of magnitudes that an element of df/dx is made of: with slopes and curvatures
// of activations up to 1, V'' = sum over layers k of A' D A, where A leads from the inputs to the
// sums of layer k and D from those, by their curvatures, to V.
static double jacobian_bound(const net* t, const double* w) {
    nsi_layer layers[NSI_MAX_LAYERS];
    uint32_t n = nsi_network_layers(&t->def, t->nin, t->nout, layers);
    double norm[NSI_MAX_LAYERS], bound = 0.0, before = 1.0, scale = INFINITY;
    for (uint32_t k = 0; k < n; k++) {
        norm[k] = 0.0;
        uint32_t count = (layers[k].rows - layers[k].bias) * layers[k].columns;
        for (uint32_t i = 0; i < count; i++) norm[k] = hypot(norm[k], w[layers[k].offset + i]);
    }
    for (uint32_t k = 0; k + 1 < n; k++) {
        double after = 1.0;
        for (uint32_t m = k + 1; m < n; m++) after *= norm[m];
        before *= norm[k];
        bound += before * before * after;
    }
    for (uint32_t j = 0; j < t->nin; j++) {
        scale = fmin(scale, pick(t->input_scale, t->def.ninput_scale, j, 1.0));
    }
    return bound * pick(t->output_scale, t->def.noutput_scale, 0, 1.0) / (scale * scale);
}

static void conservative_forces_have_a_symmetric_jacobian(void** state) {
    (void)state;
    static const unsigned kinds[] = {CONSERVATIVE, CONSERVATIVE | EVEN, CONSERVATIVE | ODD};
    ns_rng rng = ns_rng_seed(3);
    residual symmetry = {.name = "asymmetry of df/dx, relative to it", .tolerance = 1e-12};
    // Where weights or inputs are tiny or huge, what df/dx is made of cancels.
    residual anywhere = {.name = "asymmetry, relative to what it is made of", .tolerance = 1e-14};
    uint32_t count = 0, vanished = 0;
    for (int n = 0; n < 3000; n++) {
        bool ordinary = n / 24 % 2 == 0;
        net t;
        weights w;
        random_net(&t, &rng, kinds[n % 3], (ns_activation)(n / 3 % 8));
        weights_random(&w, &t, &rng, ordinary ? 1.0 : log_uniform(&rng, 1e-4, 1e3));
        ns_graph *g = net_graph(&t, false), *jvp = NULL;
        ns_diff_options options = ns_default_diff_options();
        options.skip_arrays = true;
        options.skip_value = true;
        assert_int_equal(ns_graph_jvp(g, &options, &jvp, NULL), NS_OK);
        runner r = runner_create(jvp, NS_BACKEND_AUTO);
        for (int p = 0; p < 5; p++) {
            double in[2 * MAX_IN] = {0}, J[MAX_IN][MAX_IN], largest = 0.0;
            for (uint32_t i = 0; i < t.nin; i++) {
                in[i] = ordinary ? ns_rng_uniform(&rng, -1.0, 1.0) : awkward(&rng);
            }
            for (uint32_t j = 0; j < t.nin; j++) {
                for (uint32_t i = 0; i < t.nin; i++) in[t.nin + i] = i == j ? 1.0 : 0.0;
                run(&r, in, w.nobody, J[j]);
                for (uint32_t i = 0; i < t.nin; i++) largest = fmax(largest, fabs(J[j][i]));
            }
            double scale = ordinary ? largest : jacobian_bound(&t, w.w);
            for (uint32_t j = 0; j < t.nin && largest > 0.0; j++) {
                for (uint32_t i = 0; i < j; i++) {
                    residual_add(ordinary ? &symmetry : &anywhere, J[j][i], J[i][j], scale);
                }
            }
            // A linear potential, or one made of linear pieces, has none. The even part of an odd
            // function, which tanh, softsign and sine make without biases, is 0.
            bool odd_core =
                t.def.no_bias && (t.def.activation == NS_TANH || t.def.activation == NS_SOFTSIGN ||
                                  t.def.activation == NS_SIN);
            if (t.def.nhidden == 0 || t.def.activation == NS_IDENTITY ||
                t.def.activation == NS_RELU) {
                assert_true(largest == 0.0);
            } else if (ordinary && !(odd_core && is(&t, ODD))) {
                count++;
                vanished += largest == 0.0;
            }
        }
        runner_free(&r);
        ns_graph_free(g);
        ns_graph_free(jvp);
    }
    residual_check(&symmetry);
    residual_check(&anywhere);
    print_message("%u of %u Jacobians vanish\n", vanished, count);
    assert_true(vanished < count / 50);
}

// Gauss-Legendre nodes and weights of order 10 on [-1, 1] (Abramowitz & Stegun, table 25.4).
static const double gauss[5][2] = {{0.148874338981631210884826, 0.295524224714752870173816},
                                   {0.433395394129247190799265, 0.269266719309996355091227},
                                   {0.679409568299024406234327, 0.219086362515982043995535},
                                   {0.865063366688984510732097, 0.149451349150580593145863},
                                   {0.973906528517171720077964, 0.066671344308688137593569}};

// The work of f along a straight line in 64 pieces.
static double work_along(const runner* r, const net* t, const double* w, const double* a,
                         const double* b, double* magnitude) {
    enum { PIECES = 64 };
    double work = 0.0;
    for (int piece = 0; piece < PIECES; piece++) {
        for (int k = 0; k < 10; k++) {
            double node = k < 5 ? gauss[k][0] : -gauss[k - 5][0];
            double at = (piece + 0.5 + 0.5 * node) / PIECES, x[MAX_IN], f[MAX_IN];
            for (uint32_t i = 0; i < t->nin; i++) x[i] = a[i] + at * (b[i] - a[i]);
            run(r, x, w, f);
            double rate = 0.0;
            for (uint32_t i = 0; i < t->nin; i++) rate += f[i] * (b[i] - a[i]);
            work += rate * gauss[k % 5][1] * 0.5 / PIECES;
            *magnitude += fabs(rate) * gauss[k % 5][1] * 0.5 / PIECES;
        }
    }
    return work;
}

static void conservative_work_is_a_difference_of_potential(void** state) {
    (void)state;
    static const unsigned kinds[] = {CONSERVATIVE, CONSERVATIVE | EVEN, CONSERVATIVE | ODD};
    static const ns_activation smooth[] = {NS_TANH, NS_SIGMOID, NS_SOFTPLUS, NS_SIN};
    ns_rng rng = ns_rng_seed(4);
    // Quadrature of smooth functions: rounding errors of the 640 points are left.
    residual around = {.name = "work around closed polygons", .tolerance = 1e-11};
    residual along = {.name = "work against the potential", .tolerance = 1e-11};
    for (int n = 0; n < 300; n++) {
        net t;
        weights w;
        random_net(&t, &rng, kinds[n % 3], smooth[n / 3 % 4]);
        random_scales(&t, &rng, kinds[n % 3] == CONSERVATIVE);
        for (uint32_t i = 0; i < t.nin; i++) t.input_scale[i] = ns_rng_uniform(&rng, 0.5, 2.0);
        weights_random(&w, &t, &rng, log_uniform(&rng, 0.05, 1.5));
        runner r = net_runner(&t, NS_BACKEND_AUTO);

        // A polygon; with even inputs inside one orthant, since f jumps where an input is 0.
        enum { CORNERS = 5 };
        double corner[CORNERS + 1][MAX_IN], total = 0.0, magnitude = 0.0;
        for (uint32_t i = 0; i < t.nin; i++) {
            double sign = ns_rng_below(&rng, 2) ? 1.0 : -1.0;
            for (int c = 0; c < CORNERS; c++) {
                corner[c][i] = is(&t, EVEN) ? sign * ns_rng_uniform(&rng, 0.01, 1.0)
                                            : ns_rng_uniform(&rng, -1.0, 1.0);
            }
            corner[CORNERS][i] = corner[0][i];
        }
        for (int c = 0; c < CORNERS; c++) {
            long double a[MAX_IN], b[MAX_IN];
            double edge = 0.0;
            for (uint32_t i = 0; i < t.nin; i++) a[i] = corner[c][i], b[i] = corner[c + 1][i];
            double work = work_along(&r, &t, w.nobody, corner[c], corner[c + 1], &edge);
            long double Va = plain_potential(&t, w.w, a), Vb = plain_potential(&t, w.w, b);
            residual_add(&along, work, (double)(Va - Vb), fmax(edge, 1e-3));
            total += work;
            magnitude += edge;
        }
        residual_add(&around, total, 0.0, fmax(magnitude, 1e-3));
        runner_free(&r);
    }
    residual_check(&around);
    residual_check(&along);
}

// Inputs that are one quantity twice, a quantity and its negative, or constants, among them the 1
// that stands for the biases, are inputs like any other.
static void conservative_inputs_may_be_any_expressions(void** state) {
    (void)state;
    for (int odd = 0; odd < 2; odd++) {
        net t;
        weights w;
        net_begin(&t, CONSERVATIVE | (odd ? ODD : 0), 6, 6, 2, (const uint32_t[]){5, 4});
        ns_rng rng = ns_rng_seed(5);
        weights_random(&w, &t, &rng, 0.8);
        runner free_inputs = net_runner(&t, NS_BACKEND_AUTO);
        ns_graph* g = tracing_begin();
        ns_expr a = ns_input("a"), b = ns_input("b"), f[6];
        ns_expr difference = ns_sub(ns_mul(a, b), a);
        ns_expr x[6] = {a, a, ns_neg(a), ns_const(1.0), ns_const(0.0), difference};
        ns_array array = ns_input_array("w", t.nweight + 3, false);
        nsi_network_trace(&t.def, ns_array_slice(array, 3, t.nweight), 6, x, 6, NULL, f, NULL);
        for (int i = 0; i < 6; i++) {
            char name[8];
            snprintf(name, sizeof name, "f%d", i);
            ns_output(name, f[i]);
        }
        tracing_end();
        runner r = runner_create(g, NS_BACKEND_AUTO);
        double got[6], want[6];
        run(&r, (const double[]){0.7, -0.3}, w.nobody, got);
        run(&free_inputs, (const double[]){0.7, 0.7, -0.7, 1.0, 0.0, 0.7 * -0.3 - 0.7}, w.nobody,
            want);
        for (int i = 0; i < 6; i++) {
            assert_true(fabs(got[i] - want[i]) <= 1e-14 * fmax(1.0, fabs(want[i])));
        }
        runner_free(&r);
        runner_free(&free_inputs);
        ns_graph_free(g);
    }
}

// ---- odd, even, bounded --------------------------------------------------------------------

// The same bits, where zeros may differ in sign: a - b of equal numbers is +0 either way round.
static bool same(double a, double b) {
    return (a == 0.0 && b == 0.0) || check_same_bits(a, b);
}

// Outputs of one kind of network, and how many of them are not 0.
typedef struct output_count {
    uint32_t all, nonzero;
} output_count;

// What a symmetry says at one point of a random network; `point` counts from 0.
typedef void symmetry_check(const runner* r, const net* t, const weights* w, ns_rng* rng, int point,
                            output_count* count);

// Networks of four kinds, all activations, weights of all sizes, compiled and interpreted.
static void check_symmetry(const unsigned kinds[4], uint64_t seed, symmetry_check* check) {
    ns_rng rng = ns_rng_seed(seed);
    output_count count[4] = {{0}};
    for (int n = 0; n < 3200; n++) {
        net t;
        weights w;
        random_net(&t, &rng, kinds[n % 4], (ns_activation)(n / 4 % 8));
        weights_random(&w, &t, &rng, log_uniform(&rng, 1e-4, 1e3));
        runner r = net_runner(&t, n / 32 % 2 ? NS_BACKEND_INTERP : NS_BACKEND_AUTO);
        for (int p = 0; p < 20; p++) check(&r, &t, &w, &rng, p, &count[n % 4]);
        runner_free(&r);
    }

    // A network whose outputs are 0 has any symmetry.
    for (int k = 0; k < 4; k++) {
        print_message("%s: %u outputs, %u not 0\n", guarantee_name(kinds[k]), count[k].all,
                      count[k].nonzero);
        assert_true(count[k].nonzero > count[k].all / 3);
    }
}

static void check_odd(const runner* r, const net* t, const weights* w, ns_rng* rng, int point,
                      output_count* count) {
    double in[MAX_IN + MAX_OUT], f[MAX_OUT], g[MAX_OUT];
    for (uint32_t i = 0; i < input_count(t); i++) in[i] = point == 0 ? 0.0 : awkward(rng);
    run(r, in, w->nobody, f);

    // For a dissipative network the velocities turn round as well.
    for (uint32_t i = 0; i < input_count(t); i++) in[i] = -in[i];
    run(r, in, w->nobody, g);
    for (uint32_t i = 0; i < t->nout; i++) {
        if (!same(f[i], -g[i]) || !isfinite(f[i])) {
            fail_msg("%s, %s: f(x) = %a, f(-x) = %a", guarantee_name(t->def.structure),
                     ns_activation_name(t->def.activation), f[i], g[i]);
        }
        if (point == 0) assert_true(f[i] == 0.0);
        count->nonzero += f[i] != 0.0;
        count->all++;
    }
}

static void odd_networks_are_odd_to_the_last_bit(void** state) {
    (void)state;
    static const unsigned kinds[] = {ODD, ODD | BOUNDED, ODD | DISSIPATIVE, ODD | CONSERVATIVE};
    check_symmetry(kinds, 6, check_odd);
}

static void check_even(const runner* r, const net* t, const weights* w, ns_rng* rng, int point,
                       output_count* count) {
    (void)point;
    double in[MAX_IN + MAX_OUT], f[MAX_OUT], g[MAX_OUT], sign[MAX_IN];
    for (uint32_t i = 0; i < input_count(t); i++) in[i] = awkward(rng);
    run(r, in, w->nobody, f);
    for (uint32_t i = 0; i < t->nin; i++) {
        sign[i] = ns_rng_below(rng, 2) ? 1.0 : -1.0;
        in[i] *= sign[i];
    }
    run(r, in, w->nobody, g);
    for (uint32_t i = 0; i < t->nout; i++) {
        // The potential is what is even; its slopes turn with their inputs, 0 at 0.
        if (is(t, CONSERVATIVE) && in[i] == 0.0) assert_true(f[i] == 0.0 && g[i] == 0.0);
        double want = is(t, CONSERVATIVE) ? sign[i] * f[i] : f[i];
        if (!same(g[i], want) || !isfinite(g[i])) {
            fail_msg("%s, %s: %a, with other signs %a", guarantee_name(t->def.structure),
                     ns_activation_name(t->def.activation), f[i], g[i]);
        }
        count->nonzero += f[i] != 0.0;
        count->all++;
    }
}

static void even_networks_ignore_signs(void** state) {
    (void)state;
    static const unsigned kinds[] = {EVEN, EVEN | BOUNDED, EVEN | DISSIPATIVE, EVEN | CONSERVATIVE};
    check_symmetry(kinds, 7, check_even);
}

static void bounded_networks_stay_in_bounds(void** state) {
    (void)state;
    static const unsigned kinds[] = {BOUNDED, BOUNDED | ODD, BOUNDED | EVEN};
    ns_rng rng = ns_rng_seed(8);
    double closest = 0.0;
    uint32_t at_bound = 0, count = 0;
    for (int n = 0; n < 3000; n++) {
        net t;
        weights w;
        random_net(&t, &rng, kinds[n % 3], (ns_activation)(n / 3 % 8));
        random_scales(&t, &rng, true);
        weights_random(&w, &t, &rng, log_uniform(&rng, 1e-4, 1e6));
        runner r = net_runner(&t, NS_BACKEND_AUTO);
        for (int p = 0; p < 20; p++) {
            double in[MAX_IN], f[MAX_OUT];
            for (uint32_t i = 0; i < t.nin; i++) in[i] = awkward(&rng) * (p == 0 ? 1e3 : 1.0);
            run(&r, in, w.nobody, f);
            for (uint32_t i = 0; i < t.nout; i++) {
                double bound = t.def.bound * pick(t.output_scale, t.def.noutput_scale, i, 1.0);
                if (!(fabs(f[i]) <= bound)) fail_msg("|%.17g| > %.17g", f[i], bound);
                at_bound += fabs(f[i]) == bound;
                if (fabs(f[i]) < bound) closest = fmax(closest, fabs(f[i]) / bound);
                count++;
            }
        }
        runner_free(&r);
    }
    print_message("%u outputs, %u at their bound, the next at %.6f of it\n", count, at_bound,
                  closest);
    assert_true(closest > 0.999 && at_bound < count * 0.9);
}

// ---- what can be learned -------------------------------------------------------------------

// Gradient descent with momentum on the mean square error at given points; the root of it, relative
// to that of the target, at other points.
typedef struct lesson {
    const char* name;
    void (*target)(const double* x, double* f);
    double range;
    int iterations;
    double rate;
    double error; // to be reached
} lesson;

static void quadratic_drag(const double* v, double* f) {
    for (int i = 0; i < 2; i++) f[i] = -(i + 1) * fabs(v[i]) * v[i];
}

// Drag of a plate that moves edge on more easily: the axes are coupled by the speed.
static void plate_drag(const double* v, double* f) {
    double speed = sqrt(v[0] * v[0] + v[1] * v[1]);
    f[0] = -0.3 * speed * v[0];
    f[1] = -2.0 * speed * v[1];
}

static void double_pendulum(const double* q, double* f) {
    f[0] = -2.0 * sin(q[0]) - sin(q[0] + q[1]);
    f[1] = -sin(q[0] + q[1]);
}

static void softening_spring(const double* x, double* f) {
    for (int i = 0; i < 2; i++) f[i] = -atan(3.0 * x[i]) * (i + 1) + 0.5 * x[1 - i];
}

static void learn(net* t, const lesson* a) {
    enum { POINTS = 256, LANES = 4 };
    // Loss of one point with inputs x (as velocities, too) and the wanted f.
    ns_graph* g = tracing_begin();
    ns_expr x[2] = {ns_input("x0"), ns_input("x1")}, want[2] = {ns_input("t0"), ns_input("t1")};
    ns_expr f[2], loss = ns_const(0.0);
    ns_array array = ns_input_array("w", t->nweight, false);
    nsi_network_trace(&t->def, array, 2, x, 2, is(t, DISSIPATIVE) ? x : NULL, f, NULL);
    for (int i = 0; i < 2; i++) {
        ns_expr miss = ns_sub(f[i], want[i]);
        loss = ns_add(loss, ns_mul(miss, miss));
    }
    ns_output("loss", loss);
    tracing_end();
    ns_graph* vjp = NULL;
    ns_diff_options options = ns_default_diff_options();
    options.skip_inputs = true;
    assert_int_equal(ns_graph_vjp(g, &options, &vjp, NULL), NS_OK);
    ns_program* program = NULL;
    assert_int_equal(ns_program_build(vjp, &(ns_program_options){.lanes = LANES}, &program, NULL),
                     NS_OK);
    void* work = malloc(ns_program_work_size(program) + 1);

    static double w[MAX_WEIGHTS], gradient[MAX_WEIGHTS], velocity[MAX_WEIGHTS];
    static double points[2][POINTS][5];
    ns_rng rng = ns_rng_seed(10);
    double square[2] = {0.0, 0.0}, error[2] = {0.0, 0.0};
    for (int s = 0; s < 2; s++) {
        for (int p = 0; p < POINTS; p++) {
            double* row = points[s][p];
            for (int i = 0; i < 2; i++) row[i] = ns_rng_uniform(&rng, -a->range, a->range);
            a->target(row, row + 2);
            row[4] = 1.0; // seed
            square[s] += row[2] * row[2] + row[3] * row[3];
        }
    }
    nsi_network_init(&t->def, 2, 2, 0, w);
    memset(velocity, 0, sizeof velocity);
    double start = 0.0;
    for (int n = 0; n <= a->iterations; n++) {
        bool last = n == a->iterations; // then only to look
        memset(gradient, 0, sizeof gradient);
        for (int s = 0; s < (last ? 2 : 1); s++) {
            error[s] = 0.0;
            for (int p = 0; p < POINTS; p += LANES) {
                double in[5][LANES], out[LANES];
                for (int l = 0; l < LANES; l++) {
                    for (int i = 0; i < 5; i++) in[i][l] = points[s][p + l][i];
                }
                ns_program_run(program, &(ns_run){.in = &in[0][0],
                                                  .out = out,
                                                  .arrays = (const double* const[]){w},
                                                  .sinks = (double* const[]){gradient},
                                                  .work = work});
                for (int l = 0; l < LANES; l++) error[s] += out[l];
            }
        }
        if (n == 0) start = error[0];
        // The rate falls to 0.
        double rate = a->rate * (1.0 - (double)n / a->iterations) / POINTS;
        for (uint32_t i = 0; i < t->nweight && !last; i++) {
            velocity[i] = 0.95 * velocity[i] - rate * gradient[i];
            w[i] += velocity[i];
        }
    }
    double unseen = sqrt(error[1] / square[1]);
    print_message(
        "%s: relative error %.3f at first, then %.4f, at unseen points %.4f (at most %g)\n",
        a->name, sqrt(start / square[0]), sqrt(error[0] / square[0]), unseen, a->error);
    assert_true(unseen <= a->error && sqrt(start / square[0]) > 10.0 * a->error);
    free(work);
    ns_program_free(program);
    ns_graph_free(g);
    ns_graph_free(vjp);
}

static void dissipative_networks_learn_drag(void** state) {
    (void)state;
    net t;
    net_begin(&t, DISSIPATIVE | EVEN, 2, 2, 1, (const uint32_t[]){24});
    learn(&t, &(lesson){"drag v|v|", quadratic_drag, 1.5, 3000, 0.004, 0.03});
    learn(&t, &(lesson){"drag of a plate", plate_drag, 1.5, 3000, 0.004, 0.03});
    net_begin(&t, DISSIPATIVE | ODD, 2, 2, 1, (const uint32_t[]){24});
    learn(&t, &(lesson){"drag of a plate, odd", plate_drag, 1.5, 3000, 0.004, 0.06});
}

static void conservative_networks_learn_potentials(void** state) {
    (void)state;
    net t;
    net_begin(&t, CONSERVATIVE, 2, 2, 2, (const uint32_t[]){24, 24});
    learn(&t, &(lesson){"double pendulum", double_pendulum, 2.5, 3000, 0.02, 0.03});
    net_begin(&t, CONSERVATIVE | ODD, 2, 2, 2, (const uint32_t[]){16, 16});
    learn(&t, &(lesson){"double pendulum, odd", double_pendulum, 2.5, 3000, 0.02, 0.03});
    learn(&t, &(lesson){"softening springs, odd", softening_spring, 1.5, 3000, 0.02, 0.03});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dissipative_networks_never_feed_energy),
        cmocka_unit_test(conservative_forces_have_a_symmetric_jacobian),
        cmocka_unit_test(conservative_work_is_a_difference_of_potential),
        cmocka_unit_test(conservative_inputs_may_be_any_expressions),
        cmocka_unit_test(odd_networks_are_odd_to_the_last_bit),
        cmocka_unit_test(even_networks_ignore_signs),
        cmocka_unit_test(bounded_networks_stay_in_bounds),
        cmocka_unit_test(dissipative_networks_learn_drag),
        cmocka_unit_test(conservative_networks_learn_potentials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
