// Vectors, rotations and spatial algebra on expressions against plain numbers computed another way:
// identities, power series, sums over point masses, dense 6 x 6 matrices.

#include "math/spatial.h"
#include "model/pose.h"
#include "support/check.h"
#include "support/evaluate.h"
#include "support/randomtree.h"
#include "support/residual.h"
#include "support/tracing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

// A few dozen roundings of 1.1e-16 on numbers of order one.
static const double ROUNDING = 2e-14;

enum { CASES = 50, MAX_PORTS = 200 };

// ---- a bench for expressions ---------------------------------------------------------------

// Expressions being traced, with numbers for their inputs.
typedef struct lab {
    ns_graph* graph;
    double in[MAX_PORTS], out[MAX_PORTS];
    uint32_t nin, nout;
} lab;

static void begin(lab* t) {
    *t = (lab){0};
    assert_int_equal(ns_graph_create(NULL, &t->graph, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(t->graph, NULL), NS_OK);
}

static ns_expr number(lab* t, double value) {
    char name[16];
    snprintf(name, sizeof name, "x%u", t->nin);
    t->in[t->nin++] = value;
    return ns_input(name);
}

static void result(lab* t, ns_expr x) {
    char name[16];
    snprintf(name, sizeof name, "y%u", t->nout++);
    ns_output(name, x);
}

static void finish(lab* t) {
    assert_true(t->nin <= MAX_PORTS && t->nout <= MAX_PORTS);
    assert_int_equal(ns_trace_end(NULL), NS_OK);
    run_graph(t->graph, t->in, t->out);
}

static vec3 numbers3(lab* t, const double x[3]) {
    vec3 v;
    for (int i = 0; i < 3; i++) v.e[i] = number(t, x[i]);
    return v;
}
static mat3 numbers9(lab* t, const double x[9]) {
    mat3 m;
    for (int i = 0; i < 9; i++) m.e[i / 3][i % 3] = number(t, x[i]);
    return m;
}
static quat numbers4(lab* t, const double x[4]) {
    quat q;
    q.w = number(t, x[0]), q.x = number(t, x[1]), q.y = number(t, x[2]), q.z = number(t, x[3]);
    return q;
}
static motion motion_numbers(lab* t, const double x[6]) {
    vec3 w = numbers3(t, x);
    return (motion){w, numbers3(t, x + 3)};
}
static force force_numbers(lab* t, const double x[6]) {
    vec3 n = numbers3(t, x);
    return (force){n, numbers3(t, x + 3)};
}
static void results3(lab* t, vec3 v) {
    for (int i = 0; i < 3; i++) result(t, v.e[i]);
}
static void results9(lab* t, mat3 m) {
    for (int i = 0; i < 9; i++) result(t, m.e[i / 3][i % 3]);
}
static void results_motion(lab* t, motion m) {
    results3(t, m.w);
    results3(t, m.v);
}
static void results_force(lab* t, force f) {
    results3(t, f.n);
    results3(t, f.f);
}

// ---- plain numbers -------------------------------------------------------------------------

static void random_numbers(ns_rng* rng, double* x, int n) {
    for (int i = 0; i < n; i++) x[i] = ns_rng_uniform(rng, -2.0, 2.0);
}

// A frame B in a frame A: E (A's coordinates to B's) and r (B's origin in A).
typedef struct plain_transform {
    double E[9], r[3];
} plain_transform;

static plain_transform random_transform(ns_rng* rng) {
    plain_transform x;
    double q[4];
    random_quaternion(rng, q);
    nsi_quat_to_matrix(q, x.E); // any rotation will do
    random_numbers(rng, x.r, 3);
    return x;
}

static transform transform_numbers(lab* t, const plain_transform* x) {
    mat3 E = numbers9(t, x->E);
    return (transform){E, numbers3(t, x->r)};
}

static void apply(const double m[9], const double x[3], bool transposed, double out[3]) {
    for (int i = 0; i < 3; i++) {
        out[i] = 0.0;
        for (int k = 0; k < 3; k++) out[i] += m[transposed ? 3 * k + i : 3 * i + k] * x[k];
    }
}

// The 6 x 6 matrix of a motion transform, RBDA eq. (2.24): [E 0; -E rx E].
static void dense_transform(const plain_transform* x, double X[6][6]) {
    const double* r = x->r;
    const double rx[3][3] = {{0.0, -r[2], r[1]}, {r[2], 0.0, -r[0]}, {-r[1], r[0], 0.0}};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            X[i][j] = X[i + 3][j + 3] = x->E[3 * i + j];
            X[i][j + 3] = X[i + 3][j] = 0.0;
            for (int k = 0; k < 3; k++) X[i + 3][j] -= x->E[3 * i + k] * rx[k][j];
        }
    }
}

// ---- rotations -----------------------------------------------------------------------------

static void rotation_matrices_are_rotations(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    residual orthonormal = {.name = "R R' = 1 and det R = 1", .tolerance = ROUNDING};
    residual axis_stays = {.name = "R turns about its axis, by its angle", .tolerance = ROUNDING};
    residual same = {.name = "axis-angle matrix = matrix of the quaternion", .tolerance = ROUNDING};
    for (int n = 0; n < CASES; n++) {
        double axis[3], angle = ns_rng_uniform(&rng, -7.0, 7.0);
        random_unit(&rng, axis);
        if (n < 6) { // coordinate axes
            for (int i = 0; i < 3; i++) axis[i] = i == n % 3 ? (n < 3 ? 1.0 : -1.0) : 0.0;
        }
        lab t;
        begin(&t);
        // Constants fold, inputs do not: both ways.
        vec3 a = n % 2 ? numbers3(&t, axis) : v3_const(axis[0], axis[1], axis[2]);
        ns_expr x = number(&t, angle);
        results9(&t, m3_axis_angle(a, x));
        results9(&t, m3_from_quat(q_exp(v3_scale(x, a))));
        finish(&t);

        const double* R = t.out;
        double product[9], turned[3], unit[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, cross[3];
        for (int i = 0; i < 9; i++) {
            product[i] = 0.0;
            for (int k = 0; k < 3; k++) product[i] += R[i / 3 * 3 + k] * R[i % 3 * 3 + k];
        }
        residual_array(&orthonormal, product, unit, 9, 1.0);
        nsi_cross(R, R + 3, cross);
        residual_add(&orthonormal, cross[0] * R[6] + cross[1] * R[7] + cross[2] * R[8], 1.0, 1.0);
        apply(R, axis, false, turned);
        residual_array(&axis_stays, turned, axis, 3, 1.0);
        residual_add(&axis_stays, R[0] + R[4] + R[8], 1.0 + 2.0 * cos(angle), 1.0);
        // The sense of rotation: the antisymmetric part is sin(angle) times the axis.
        residual_add(&axis_stays, 0.5 * (R[7] - R[5]), sin(angle) * axis[0], 1.0);
        residual_array(&same, t.out + 9, R, 9, 1.0);
        ns_graph_free(t.graph);
    }
    residual_check(&orthonormal);
    residual_check(&axis_stays);
    residual_check(&same);
}

static void quaternions_compose_as_their_matrices(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(2);
    residual r = {.name = "R(a b) = R(a) R(b)", .tolerance = ROUNDING};
    residual plain = {.name = "R(q) against plain numbers", .tolerance = ROUNDING};
    residual unit = {.name = "normalised quaternions", .tolerance = ROUNDING};
    for (int n = 0; n < CASES; n++) {
        double a[4], b[4], scaled[4], R[9];
        random_quaternion(&rng, a);
        random_quaternion(&rng, b);
        for (int i = 0; i < 4; i++) scaled[i] = 3.0 * a[i];
        lab t;
        begin(&t);
        quat qa = numbers4(&t, a), qb = numbers4(&t, b);
        results9(&t, m3_from_quat(q_mul(qa, qb)));
        results9(&t, m3_mul(m3_from_quat(qa), m3_from_quat(qb)));
        results9(&t, m3_from_quat(qa));
        quat one = q_normalize(numbers4(&t, scaled));
        result(&t, one.w), result(&t, one.x), result(&t, one.y), result(&t, one.z);
        finish(&t);
        residual_array(&r, t.out, t.out + 9, 9, 1.0);
        nsi_quat_to_matrix(a, R);
        residual_array(&plain, t.out + 18, R, 9, 1.0);
        residual_array(&unit, t.out + 27, a, 4, 1.0);
        ns_graph_free(t.graph);
    }
    residual_check(&r);
    residual_check(&plain);
    residual_check(&unit);
}

// ---- the exponential -----------------------------------------------------------------------

// With s = |w|^2 / 4: c(s) = cos(sqrt(s)) = sum (-s)^k / (2k)! and f(s) = sin(sqrt(s)) / sqrt(s) =
// sum (-s)^k / (2k+1)!, with `order` derivatives, in more digits than a double has. The sum
// converges for every s; for those used here the largest term does not cost the spare digits.
static long double power_series(long double s, int first, int order) {
    long double sum = 0.0L, factorial = 1.0L, power = 1.0L;
    for (int k = 0; k < 40; k++) {
        if (k > 0) factorial *= (long double)(2 * k + first - 1) * (2 * k + first);
        long double derivative = 1.0L; // k (k-1) ... of d^order s^k
        for (int j = 0; j < order; j++) derivative *= k - j;
        if (k >= order) {
            sum += (k % 2 ? -1.0L : 1.0L) * derivative * power / factorial;
            power *= s;
        }
    }
    return sum;
}

// q_exp and its first and second derivatives, from the series by the chain rule.
typedef struct exp_values {
    double value[4], first[4][3], second[4][3][3];
} exp_values;

static exp_values exp_reference(const double w[3]) {
    long double s = 0.0L, c[3], f[3];
    for (int i = 0; i < 3; i++) s += 0.25L * w[i] * w[i];
    for (int k = 0; k < 3; k++) {
        c[k] = power_series(s, 0, k);
        f[k] = power_series(s, 1, k);
    }
    exp_values e;
    // ds/dw_i = w_i / 2, d2s/dw_i dw_j = delta / 2; vector part: w_a f(s) / 2.
    e.value[0] = (double)c[0];
    for (int i = 0; i < 3; i++) {
        e.first[0][i] = (double)(c[1] * w[i] / 2);
        for (int j = 0; j < 3; j++) {
            e.second[0][i][j] = (double)(c[2] * w[i] * w[j] / 4 + (i == j ? c[1] / 2 : 0.0L));
        }
    }
    for (int a = 0; a < 3; a++) {
        e.value[a + 1] = (double)(f[0] * w[a] / 2);
        for (int i = 0; i < 3; i++) {
            e.first[a + 1][i] = (double)((a == i ? f[0] / 2 : 0.0L) + w[a] * f[1] * w[i] / 4);
            for (int j = 0; j < 3; j++) {
                long double x = w[a] * (f[2] * w[i] * w[j] / 4 + (i == j ? f[1] / 2 : 0.0L)) / 2;
                if (a == i) x += f[1] * w[j] / 4;
                if (a == j) x += f[1] * w[i] / 4;
                e.second[a + 1][i][j] = (double)x;
            }
        }
    }
    return e;
}

static void exponential_is_its_power_series(void** state) {
    (void)state;
    // A dozen operations each; a second derivative takes a few more.
    residual value = {.name = "q_exp", .tolerance = 1e-15};
    residual first = {.name = "q_exp, first derivatives", .tolerance = 1e-15};
    residual second = {.name = "q_exp, second derivatives", .tolerance = 5e-15};
    static const double lengths[] = {0.0, 1e-200, 1e-12, 1e-6, 1e-3, 0.05, 0.1, 0.1999,
                                     0.2, 0.2001, 0.5,   1.0,  2.0,  3.0,  5.0};
    ns_rng rng = ns_rng_seed(3);
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        double w[3];
        random_unit(&rng, w);
        for (int i = 0; i < 3; i++) w[i] *= lengths[n];
        exp_values want = exp_reference(w);
        lab t;
        begin(&t);
        vec3 x = numbers3(&t, w);
        quat q = q_exp(x);
        ns_expr part[4] = {q.w, q.x, q.y, q.z}, slope[4][3];
        for (int a = 0; a < 4; a++) {
            result(&t, part[a]);
            ns_gradient(part[a], 3, x.e, slope[a]);
        }
        for (int k = 0; k < 12; k++) result(&t, slope[k / 3][k % 3]);
        for (int k = 0; k < 12; k++) {
            ns_expr curvature[3];
            ns_gradient(slope[k / 3][k % 3], 3, x.e, curvature);
            for (int j = 0; j < 3; j++) result(&t, curvature[j]);
        }
        finish(&t);
        residual_array(&value, t.out, want.value, 4, 1.0);
        residual_array(&first, t.out + 4, &want.first[0][0], 12, 1.0);
        residual_array(&second, t.out + 16, &want.second[0][0][0], 36, 1.0);
        ns_graph_free(t.graph);
    }
    residual_check(&value);
    residual_check(&first);
    residual_check(&second);
}

// At zero in closed form: q = (1 - w.w/8, w/2 (1 - w.w/24)) and higher terms.
static void exponential_at_zero_is_exact(void** state) {
    (void)state;
    const double zero[3] = {0.0, 0.0, 0.0};
    lab t;
    begin(&t);
    vec3 x = numbers3(&t, zero);
    quat q = q_exp(x);
    ns_expr slope_w[3], slope_x[3], curvature_w[3], curvature_x[3], third[3];
    ns_gradient(q.w, 3, x.e, slope_w);
    ns_gradient(q.x, 3, x.e, slope_x);
    ns_gradient(slope_w[0], 3, x.e, curvature_w);
    ns_gradient(slope_x[0], 3, x.e, curvature_x);
    ns_gradient(curvature_x[0], 3, x.e, third);
    result(&t, q.w), result(&t, q.x);
    for (int i = 0; i < 3; i++) {
        result(&t, slope_w[i]), result(&t, slope_x[i]);
        result(&t, curvature_w[i]), result(&t, curvature_x[i]), result(&t, third[i]);
    }
    finish(&t);
    const double want[17] = {1.0, 0.0, 0.0, 0.5, -0.25, 0.0, -0.125, 0.0, 0.0,
                             0.0, 0.0, 0.0, 0.0, 0.0,   0.0, 0.0,    0.0};
    for (int i = 0; i < 17; i++) {
        if (fabs(t.out[i] - want[i]) > 1e-16) fail_msg("%d: %g, not %g", i, t.out[i], want[i]);
    }
    ns_graph_free(t.graph);
}

static void exponential_passes_the_derivative_check(void** state) {
    (void)state;
    static const double points[][3] = {{0, 0, 0}, {1e-9, 0, 0}, {0.1, -0.05, 0.1}, {1, -2, 0.5}};
    lab t;
    begin(&t);
    quat q = q_exp(numbers3(&t, points[0]));
    result(&t, q.w), result(&t, q.x), result(&t, q.y), result(&t, q.z);
    finish(&t);
    check_batch* batch = check_batch_create();
    for (int n = 0; n < 4; n++) {
        check_options options = {.name = "q_exp", .second = true, .seed = (uint64_t)n};
        check_batch_add(batch, t.graph, points[n], NULL, &options);
    }
    check_report report = check_batch_finish(batch);
    assert_int_equal(report.undecided, 0);
    ns_graph_free(t.graph);
}

// ---- transforms ----------------------------------------------------------------------------

static void transforms_are_their_matrices_and_compose(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(4);
    residual dense = {.name = "motion transform against its 6 x 6 matrix", .tolerance = ROUNDING};
    residual compose = {.name = "transforms compose", .tolerance = ROUNDING};
    residual force_dense = {.name = "force transform is the transpose", .tolerance = ROUNDING};
    for (int n = 0; n < CASES; n++) {
        plain_transform b_a = random_transform(&rng), c_b = random_transform(&rng), c_a;
        double m[6], f[6], X[6][6], want[6], back[6] = {0.0};
        random_numbers(&rng, m, 6);
        random_numbers(&rng, f, 6);
        // x_c_a: rotations multiply; C's origin in A.
        for (int i = 0; i < 3; i++) {
            apply(b_a.E, c_b.E + 3 * i, true, c_a.E + 3 * i); // row i of E_cb E_ba
        }
        apply(b_a.E, c_b.r, true, c_a.r);
        for (int i = 0; i < 3; i++) c_a.r[i] += b_a.r[i];

        lab t;
        begin(&t);
        transform x1 = transform_numbers(&t, &b_a), x2 = transform_numbers(&t, &c_b);
        transform x3 = transform_numbers(&t, &c_a);
        motion a = motion_numbers(&t, m);
        results_motion(&t, tr_motion(x1, a));
        results_motion(&t, tr_motion(x2, tr_motion(x1, a)));
        results_motion(&t, tr_motion(x3, a));
        results_force(&t, tr_force_back(x1, force_numbers(&t, f)));
        finish(&t);

        dense_transform(&b_a, X);
        for (int i = 0; i < 6; i++) {
            want[i] = 0.0;
            for (int k = 0; k < 6; k++) {
                want[i] += X[i][k] * m[k];
                back[i] += X[k][i] * f[k];
            }
        }
        residual_array(&dense, t.out, want, 6, 1.0);
        residual_array(&compose, t.out + 6, t.out + 12, 6, 1.0);
        residual_array(&force_dense, t.out + 18, back, 6, 1.0);
        ns_graph_free(t.graph);
    }
    residual_check(&dense);
    residual_check(&compose);
    residual_check(&force_dense);
}

static void power_and_cross_products_do_not_depend_on_the_frame(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(5);
    residual power = {.name = "power is the same in both frames", .tolerance = ROUNDING};
    residual dual = {.name = "(a x m) . f = -m . (a x* f)", .tolerance = ROUNDING};
    residual moved = {.name = "X (a x m) = (X a) x (X m)", .tolerance = ROUNDING};
    residual jacobi = {.name = "Jacobi identity", .tolerance = ROUNDING};
    const double zero[6] = {0.0};
    for (int n = 0; n < CASES; n++) {
        plain_transform b_a = random_transform(&rng);
        double a6[6], m6[6], f6[6];
        random_numbers(&rng, a6, 6);
        random_numbers(&rng, m6, 6);
        random_numbers(&rng, f6, 6);
        lab t;
        begin(&t);
        transform x = transform_numbers(&t, &b_a);
        motion a = motion_numbers(&t, a6), m = motion_numbers(&t, m6);
        motion c = motion_numbers(&t, f6);
        force f = force_numbers(&t, f6);
        result(&t, mo_dot(tr_motion(x, m), f));
        result(&t, mo_dot(m, tr_force_back(x, f)));
        result(&t, mo_dot(mo_cross(a, m), f));
        result(&t, ns_neg(mo_dot(m, mo_cross_force(a, f))));
        results_motion(&t, tr_motion(x, mo_cross(a, m)));
        results_motion(&t, mo_cross(tr_motion(x, a), tr_motion(x, m)));
        motion sum = mo_add(mo_cross(a, mo_cross(m, c)), mo_cross(m, mo_cross(c, a)));
        results_motion(&t, mo_add(sum, mo_cross(c, mo_cross(a, m))));
        finish(&t);
        residual_array(&power, t.out, t.out + 1, 1, 10.0);
        residual_array(&dual, t.out + 2, t.out + 3, 1, 10.0);
        residual_array(&moved, t.out + 4, t.out + 10, 6, 10.0);
        residual_array(&jacobi, t.out + 16, zero, 6, 10.0);
        ns_graph_free(t.graph);
    }
    residual_check(&power);
    residual_check(&dual);
    residual_check(&moved);
    residual_check(&jacobi);
}

// ---- inertias ------------------------------------------------------------------------------

enum { POINTS = 8 };

// Ten numbers of a cloud of point masses, summed directly: m, m c (3), I (9).
static void cloud_inertia(const double mass[POINTS], double at[POINTS][3], double out[13]) {
    for (int i = 0; i < 13; i++) out[i] = 0.0;
    for (int p = 0; p < POINTS; p++) {
        const double *x = at[p], square = x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
        out[0] += mass[p];
        for (int i = 0; i < 3; i++) {
            out[1 + i] += mass[p] * x[i];
            for (int j = 0; j < 3; j++) {
                out[4 + 3 * i + j] += mass[p] * ((i == j ? square : 0.0) - x[i] * x[j]);
            }
        }
    }
}

static inertia inertia_numbers(lab* t, const double x[13]) {
    ns_expr m = number(t, x[0]);
    vec3 h = numbers3(t, x + 1);
    return (inertia){m, h, numbers9(t, x + 4)};
}
static void results_inertia(lab* t, inertia in) {
    result(t, in.m);
    results3(t, in.h);
    results9(t, in.I);
}
static void results_articulated(lab* t, art_inertia a) {
    results9(t, a.I);
    results9(t, a.H);
    results9(t, a.M);
}

static void rigid_inertias_are_sums_over_point_masses(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(6);
    residual moved = {.name = "transformed inertia = point masses seen from A",
                      .tolerance = ROUNDING};
    residual momentum = {.name = "momentum = sum over point masses", .tolerance = ROUNDING};
    residual same = {.name = "articulated form of a rigid inertia", .tolerance = ROUNDING};
    residual sum = {.name = "inertias add", .tolerance = ROUNDING};
    for (int n = 0; n < CASES; n++) {
        plain_transform b_a = random_transform(&rng);
        double mass[POINTS], in_b[POINTS][3], in_a[POINTS][3], at_b[13], at_a[13], v[6];
        double want[6] = {0.0}, twice[13];
        random_numbers(&rng, v, 6);
        for (int p = 0; p < POINTS; p++) {
            mass[p] = ns_rng_uniform(&rng, 0.1, 1.0);
            random_numbers(&rng, in_b[p], 3);
            apply(b_a.E, in_b[p], true, in_a[p]);
            for (int i = 0; i < 3; i++) in_a[p][i] += b_a.r[i];
            double velocity[3], angular[3];
            nsi_cross(v, in_b[p], velocity);
            for (int i = 0; i < 3; i++) velocity[i] = mass[p] * (velocity[i] + v[3 + i]);
            nsi_cross(in_b[p], velocity, angular);
            for (int i = 0; i < 3; i++) want[i] += angular[i], want[3 + i] += velocity[i];
        }
        cloud_inertia(mass, in_b, at_b);
        cloud_inertia(mass, in_a, at_a);
        for (int i = 0; i < 13; i++) twice[i] = 2.0 * at_b[i];

        lab t;
        begin(&t);
        transform x = transform_numbers(&t, &b_a);
        inertia b = inertia_numbers(&t, at_b);
        motion twist = motion_numbers(&t, v);
        results_inertia(&t, tr_inertia_back(x, b));
        results_force(&t, in_apply(b, twist));
        results_inertia(&t, in_add(b, b));
        results_force(&t, ai_apply(in_articulated(b), twist));
        results_articulated(&t, tr_art_inertia_back(x, in_articulated(b)));
        results_articulated(&t, in_articulated(tr_inertia_back(x, b)));
        finish(&t);
        residual_array(&moved, t.out, at_a, 13, 1.0);
        residual_array(&momentum, t.out + 13, want, 6, 1.0);
        residual_array(&sum, t.out + 19, twice, 13, 1.0);
        residual_array(&same, t.out + 32, want, 6, 1.0);
        residual_array(&same, t.out + 38, t.out + 65, 27, 1.0);
        ns_graph_free(t.graph);
    }
    residual_check(&moved);
    residual_check(&momentum);
    residual_check(&same);
    residual_check(&sum);
}

// The three blocks of a symmetric 6 x 6 matrix [I H; H' M].
static void blocks(double A[6][6], double out[27]) {
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            out[3 * i + j] = A[i][j];
            out[9 + 3 * i + j] = A[i][j + 3];
            out[18 + 3 * i + j] = A[i + 3][j + 3];
        }
    }
}

static void articulated_inertias_are_their_matrices(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(7);
    residual moved = {.name = "X' A X against 6 x 6 matrices", .tolerance = ROUNDING};
    residual applied = {.name = "A m against 6 x 6 matrices", .tolerance = ROUNDING};
    residual outer = {.name = "A - u s u' and A + A", .tolerance = ROUNDING};
    for (int n = 0; n < CASES; n++) {
        // Any symmetric matrix: nothing here may rely on M being a multiple of 1.
        plain_transform b_a = random_transform(&rng);
        double A[6][6], X[6][6], XAX[6][6], reduced[6][6], twice[6][6];
        double entries[27], want[27], u[6], m[6], product[6], s = ns_rng_uniform(&rng, 0.1, 1.0);
        for (int i = 0; i < 6; i++) {
            for (int j = i; j < 6; j++) A[i][j] = A[j][i] = ns_rng_uniform(&rng, -2.0, 2.0);
        }
        random_numbers(&rng, u, 6);
        random_numbers(&rng, m, 6);
        dense_transform(&b_a, X);
        for (int i = 0; i < 6; i++) {
            product[i] = 0.0;
            for (int j = 0; j < 6; j++) {
                product[i] += A[i][j] * m[j];
                reduced[i][j] = A[i][j] - s * u[i] * u[j];
                twice[i][j] = 2.0 * A[i][j];
                XAX[i][j] = 0.0;
                for (int k = 0; k < 6; k++) {
                    for (int l = 0; l < 6; l++) XAX[i][j] += X[k][i] * A[k][l] * X[l][j];
                }
            }
        }
        blocks(A, entries);
        lab t;
        begin(&t);
        transform x = transform_numbers(&t, &b_a);
        mat3 I = numbers9(&t, entries), H = numbers9(&t, entries + 9);
        art_inertia a = {I, H, numbers9(&t, entries + 18)};
        force fu = force_numbers(&t, u);
        results_articulated(&t, tr_art_inertia_back(x, a));
        results_force(&t, ai_apply(a, motion_numbers(&t, m)));
        results_articulated(&t, ai_sub_outer(a, fu, fo_scale(number(&t, s), fu)));
        results_articulated(&t, ai_add(a, a));
        finish(&t);
        blocks(XAX, want);
        residual_array(&moved, t.out, want, 27, 1.0);
        residual_array(&applied, t.out + 27, product, 6, 1.0);
        blocks(reduced, want);
        residual_array(&outer, t.out + 33, want, 27, 1.0);
        blocks(twice, want);
        residual_array(&outer, t.out + 60, want, 27, 1.0);
        ns_graph_free(t.graph);
    }
    residual_check(&moved);
    residual_check(&applied);
    residual_check(&outer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotation_matrices_are_rotations),
        cmocka_unit_test(quaternions_compose_as_their_matrices),
        cmocka_unit_test(exponential_is_its_power_series),
        cmocka_unit_test(exponential_at_zero_is_exact),
        cmocka_unit_test(exponential_passes_the_derivative_check),
        cmocka_unit_test(transforms_are_their_matrices_and_compose),
        cmocka_unit_test(power_and_cross_products_do_not_depend_on_the_frame),
        cmocka_unit_test(rigid_inertias_are_sums_over_point_masses),
        cmocka_unit_test(articulated_inertias_are_their_matrices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
