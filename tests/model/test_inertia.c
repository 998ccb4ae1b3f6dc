// Physical inertias, their repair, and the arithmetic of inertias and rotations.

#include "model/model_data.h"
#include "model/pose.h"
#include "support/assert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static const double pi = 3.14159265358979323846;

static void random_quat(ns_rng* rng, double q[4]) {
    do {
        for (int i = 0; i < 4; i++) q[i] = ns_rng_normal(rng);
    } while (!nsi_normalize(q, 4));
}

static double largest(const double inertia[6]) {
    double size = 0.0;
    for (int i = 0; i < 6; i++) size = fmax(size, fabs(inertia[i]));
    return size;
}

static void eigenvalues_are_found(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    double worst = 0.0;
    for (int k = 0; k < 20000; k++) {
        double q[4], principal[6] = {0.0}, inertia[6], values[3], vectors[9];
        random_quat(&rng, q);
        for (int i = 0; i < 3; i++) {
            principal[i] = ns_rng_normal(&rng) * pow(10.0, ns_rng_uniform(&rng, -6.0, 6.0));
        }
        if (k % 3 == 0) principal[1] = principal[0]; // the same twice
        if (k % 9 == 0) principal[2] = principal[0];
        nsi_inertia_rotate(q, principal, inertia);
        nsi_inertia_eigen(inertia, values, vectors);
        double scale = largest(inertia);
        assert_true(values[0] <= values[1] && values[1] <= values[2]);

        // V diag(values) V' is the matrix, and V is orthogonal.
        static const int row[6] = {0, 1, 2, 0, 0, 1}, column[6] = {0, 1, 2, 1, 2, 2};
        for (int e = 0; e < 6; e++) {
            double sum = 0.0, unit = 0.0;
            for (int j = 0; j < 3; j++) {
                double product = vectors[3 * row[e] + j] * vectors[3 * column[e] + j];
                sum += values[j] * product;
                unit += product;
            }
            worst = fmax(worst, fabs(sum - inertia[e]) / scale);
            worst = fmax(worst, fabs(unit - (row[e] == column[e] ? 1.0 : 0.0)));
        }
    }
    printf("eigenvalues: worst residual %.2g\n", worst);
    assert_true(worst < 5e-15);

    const double zero[6] = {0.0};
    double values[3], vectors[9];
    nsi_inertia_eigen(zero, values, vectors);
    all_close(values, zero, 3, 0.0);
    const double wild[6] = {NAN, 1.0, 2.0, INFINITY, 0.0, 1.0};
    nsi_inertia_eigen(wild, values, vectors); // ends
}

static void bodies_are_physical(void** state) {
    (void)state;
    // Random clouds of points have physical inertias, however they are turned.
    ns_rng rng = ns_rng_seed(2);
    for (int k = 0; k < 5000; k++) {
        double inertia[6] = {0.0};
        uint32_t points = 1 + ns_rng_below(&rng, 5);
        for (uint32_t p = 0; p < points; p++) {
            double x[3];
            for (int i = 0; i < 3; i++) x[i] = ns_rng_normal(&rng);
            nsi_inertia_shift(ns_rng_uniform(&rng, 0.0, 2.0), x, inertia);
        }
        assert_null(nsi_inertia_fault(1.0, inertia));
        double repaired[6];
        memcpy(repaired, inertia, sizeof repaired);
        nsi_inertia_repair(1.0, repaired); // changes nothing
        all_close(repaired, inertia, 6, 1e-14 * largest(inertia));
    }
    const double none[6] = {0.0}, rod[6] = {1.0, 1.0, 0.0, 0.0, 0.0, 0.0};
    const double plate[6] = {1.0, 1.0, 2.0, 0.0, 0.0, 0.0};
    const double rounded[6] = {0.333333, 0.666667, 1.000001, 0.0, 0.0, 0.0};
    assert_null(nsi_inertia_fault(0.0, none));
    assert_null(nsi_inertia_fault(1.0, none));
    assert_null(nsi_inertia_fault(1.0, rod));
    assert_null(nsi_inertia_fault(1.0, plate));
    assert_null(nsi_inertia_fault(1.0, rounded));
}

static void faults_are_told_apart(void** state) {
    (void)state;
    static const struct {
        double mass;
        double inertia[6];
        const char* fragment;
    } cases[] = {
        {0.0, {1.0, 1.0, 1.0}, "the mass is"},
        {1.0, {-1.0, 1.0, 1.0}, "negative principal moment"},
        {1.0, {1.0, 1.0, 1.0, 2.0}, "negative principal moment"},
        {1.0, {1.0, 1.0, 2.1}, "larger than the sum"},
        {1.0, {2.1, 1.0, 1.0}, "larger than the sum"},
        {1.0, {1.0, 1.0, 1.0, 0.9}, "larger than the sum"},
        {1.0, {1.0, 1.0, 2.00001}, "larger than the sum"},
        {1.0, {1e-20, 1e-20, 3e-20}, "larger than the sum"},
        {1.0, {1.0, NAN, 1.0}, "not finite"},
        {1.0, {1.0, 1.0, 1.0, 0.0, INFINITY}, "not finite"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char* fault = nsi_inertia_fault(cases[k].mass, cases[k].inertia);
        if (!fault || !strstr(fault, cases[k].fragment)) {
            fail_msg("case %zu: %s, not %s", k, fault ? fault : "none", cases[k].fragment);
        }
    }
}

// Distance of the second moments S = tr(I)/2 - I of two inertias.
static double distance(const double a[6], const double b[6]) {
    double d[6], trace = 0.0, square = 0.0;
    for (int i = 0; i < 6; i++) d[i] = a[i] - b[i];
    for (int i = 0; i < 3; i++) trace += d[i];
    for (int i = 0; i < 3; i++) square += (0.5 * trace - d[i]) * (0.5 * trace - d[i]);
    for (int i = 3; i < 6; i++) square += 2.0 * d[i] * d[i];
    return sqrt(square);
}

static void repair_is_the_nearest(void** state) {
    (void)state;
    // One moment too large: the plate. S = (I2 + I3 - I1)/2 ... = (1, 1, -0.5) becomes (1, 1, 0).
    double inertia[6] = {0.5, 0.5, 2.0};
    const double plate[6] = {1.0, 1.0, 2.0};
    nsi_inertia_repair(1.0, inertia);
    all_close(inertia, plate, 6, 1e-15);

    double massless[6] = {1.0, 2.0, 3.0, 0.1, 0.2, 0.3};
    const double zero[6] = {0.0};
    nsi_inertia_repair(0.0, massless);
    all_close(massless, zero, 6, 0.0);

    // Random symmetric matrices: physical after repair, unchanged by a second one, no principal
    // moment smaller, and no random physical inertia nearer.
    ns_rng rng = ns_rng_seed(3);
    for (int k = 0; k < 3000; k++) {
        double given[6], repaired[6], again[6], before[3], after[3], axes[9];
        for (int i = 0; i < 6; i++) given[i] = ns_rng_normal(&rng);
        memcpy(repaired, given, sizeof given);
        nsi_inertia_repair(1.0, repaired);
        assert_null(nsi_inertia_fault(1.0, repaired));
        memcpy(again, repaired, sizeof again);
        nsi_inertia_repair(1.0, again);
        all_close(again, repaired, 6, 1e-14 * (1.0 + largest(repaired)));

        double nearest = distance(given, repaired);
        for (int other = 0; other < 20; other++) {
            double physical[6] = {0.0}, away = ns_rng_uniform(&rng, 0.0, 1.0);
            for (int p = 0; p < 3; p++) {
                double x[3];
                for (int i = 0; i < 3; i++) x[i] = ns_rng_normal(&rng);
                nsi_inertia_shift(1.0, x, physical);
            }
            // Between the repaired one and another all are physical.
            for (int i = 0; i < 6; i++)
                physical[i] = repaired[i] + away * (physical[i] - repaired[i]);
            assert_true(distance(given, physical) >= nearest * (1.0 - 1e-12));
        }

        nsi_inertia_eigen(given, before, axes);
        nsi_inertia_eigen(repaired, after, axes);
        for (int i = 0; i < 3; i++)
            assert_true(after[i] >= before[i] - 1e-14 * (1.0 + largest(given)));
    }
}

static void inertias_turn_and_move(void** state) {
    (void)state;
    // A quarter turn about z exchanges x and y.
    double q[4], out[6];
    const double z[3] = {0.0, 0.0, 1.0};
    nsi_quat_from_axis(z, 0.5 * pi, q);
    const double inertia[6] = {1.0, 2.0, 3.0, 0.1, 0.2, 0.3};
    const double turned[6] = {2.0, 1.0, 3.0, -0.1, -0.3, 0.2};
    nsi_inertia_rotate(q, inertia, out);
    all_close(out, turned, 6, 1e-15);
    const double identity[4] = {1.0, 0.0, 0.0, 0.0};
    nsi_inertia_rotate(identity, inertia, out);
    all_close(out, inertia, 6, 0.0); // bit for bit

    // Two point masses at +-d are a dumbbell.
    double dumbbell[6] = {0.0};
    const double d[3] = {0.3, -0.4, 1.2}, minus_d[3] = {-0.3, 0.4, -1.2};
    nsi_inertia_shift(0.5, d, dumbbell);
    nsi_inertia_shift(0.5, minus_d, dumbbell);
    const double expected[6] = {0.16 + 1.44, 0.09 + 1.44, 0.25, 0.12, -0.36, 0.48};
    all_close(dumbbell, expected, 6, 1e-15);
    double moments[3], axes[9];
    nsi_inertia_eigen(dumbbell, moments, axes);
    const double principal[3] = {0.0, 1.69, 1.69};
    all_close(moments, principal, 3, 1e-15);
}

static void rotations_agree(void** state) {
    (void)state;
    // URDF's rpy is Rz(yaw) Ry(pitch) Rx(roll), as matrices.
    const double rpy[3] = {0.3, -1.1, 2.5};
    double q[4], r[9];
    nsi_quat_from_rpy(rpy, q);
    nsi_quat_to_matrix(q, r);
    double cr = cos(0.3), sr = sin(0.3), cp = cos(-1.1), sp = sin(-1.1), cy = cos(2.5),
           sy = sin(2.5);
    const double expected[9] = {cy * cp,
                                cy * sp * sr - sy * cr,
                                cy * sp * cr + sy * sr,
                                sy * cp,
                                sy * sp * sr + cy * cr,
                                sy * sp * cr - cy * sr,
                                -sp,
                                cp * sr,
                                cp * cr};
    all_close(r, expected, 9, 4e-16);

    ns_rng rng = ns_rng_seed(4);
    for (int k = 0; k < 5000; k++) {
        double a[4], b[4], ab[4], back[4], v[3], bv[3], abv[3], direct[3];
        random_quat(&rng, a);
        random_quat(&rng, b);
        if (k % 5 == 0) a[0] = 0.0, nsi_normalize(a, 4); // half a turn
        nsi_quat_to_matrix(a, r);
        nsi_quat_from_matrix(r, back);
        double sign = 0.0;
        for (int i = 0; i < 4; i++) sign += a[i] * back[i];
        for (int i = 0; i < 4; i++) back[i] *= copysign(1.0, sign);
        all_close(back, a, 4, 2e-15);

        // a after b, one by one or together.
        for (int i = 0; i < 3; i++) v[i] = ns_rng_normal(&rng);
        nsi_quat_multiply(a, b, ab);
        nsi_quat_rotate(b, v, bv);
        nsi_quat_rotate(a, bv, abv);
        nsi_quat_rotate(ab, v, direct);
        all_close(direct, abv, 3, 1e-14);

        // The shortest way from z to a direction.
        nsi_normalize(v, 3);
        const double z[3] = {0.0, 0.0, 1.0};
        nsi_quat_from_z(v, q);
        nsi_quat_rotate(q, z, direct);
        all_close(direct, v, 3, 1e-14);
    }
    const double down[3] = {0.0, 0.0, -1.0}, z[3] = {0.0, 0.0, 1.0};
    double turned[3];
    nsi_quat_from_z(down, q);
    nsi_quat_rotate(q, z, turned);
    all_close(turned, down, 3, 1e-15);
}

static void poses_compose(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(5);
    for (int k = 0; k < 1000; k++) {
        ns_pose a, b;
        random_quat(&rng, a.quaternion);
        random_quat(&rng, b.quaternion);
        double x[3], bx[3], abx[3], direct[3];
        for (int i = 0; i < 3; i++) {
            a.position[i] = ns_rng_normal(&rng);
            b.position[i] = ns_rng_normal(&rng);
            x[i] = ns_rng_normal(&rng);
        }
        ns_pose ab = nsi_pose_compose(&a, &b);
        nsi_quat_rotate(b.quaternion, x, bx);
        for (int i = 0; i < 3; i++) bx[i] += b.position[i];
        nsi_quat_rotate(a.quaternion, bx, abx);
        for (int i = 0; i < 3; i++) abx[i] += a.position[i];
        nsi_quat_rotate(ab.quaternion, x, direct);
        for (int i = 0; i < 3; i++) direct[i] += ab.position[i];
        all_close(direct, abx, 3, 2e-14);
    }
}

static void directions_are_made_unit_length(void** state) {
    (void)state;
    double v[3] = {3e200, 4e200, 0.0};
    assert_true(nsi_normalize(v, 3));
    all_close(v, (const double[]){0.6, 0.8, 0.0}, 3, 2e-16);
    double w[3] = {3e-90, -4e-90, 0.0};
    assert_true(nsi_normalize(w, 3));
    all_close(w, (const double[]){0.6, -0.8, 0.0}, 3, 2e-16);
    double bad[][3] = {{0.0, 0.0, 0.0},
                       {NAN, 1.0, 0.0},
                       {INFINITY, 0.0, 0.0},
                       {1e-200, 0.0, 0.0},
                       {1.7e308, 1.7e308, 1.7e308}};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) assert_false(nsi_normalize(bad[k], 3));
    double unit[4] = {0.98185617286608096, 0.064071347706071161, -0.09115754934299071,
                      0.15343930202422257};
    double copy[4];
    memcpy(copy, unit, sizeof copy);
    assert_true(nsi_normalize(unit, 4));
    assert_memory_equal(unit, copy, sizeof copy); // left alone
}

// Entries that may not be moved stay, and the others go to a body with them where there is one.
static void inertias_are_completed(void** state) {
    (void)state;
    double rod[6] = {0.006, 0.0096, 1e-6}, plate[6] = {0.01, 0.01, 0.05}, off[6] = {1, 2, 1, 0.1};
    bool none[6] = {0}, all_but_yy[6] = {1, 0, 1, 1, 1, 1}, zz[6] = {0, 0, 1, 0, 0, 0};
    assert_false(nsi_inertia_complete(1.0, rod, none));
    assert_true(nsi_inertia_complete(1.0, rod, all_but_yy));
    assert_true(rod[1] == 0.0096 && !nsi_inertia_fault(1.0, rod));
    assert_true(nsi_inertia_complete(1.0, plate, zz));
    if (!(fabs(plate[2] - 0.02) < 1e-7)) fail_msg("%g", plate[2]); // xx + yy
    double kept[6];
    memcpy(kept, off, sizeof kept);
    assert_true(nsi_inertia_complete(1.0, kept, zz) && !nsi_inertia_fault(1.0, kept));
    assert_true(kept[0] == off[0] && kept[3] == off[3] && kept[2] > off[2]);
    double broken[6] = {1.0, NAN, 1.0}, weightless[6] = {1.0, 1.0, 1.0};
    assert_false(nsi_inertia_complete(1.0, broken, all_but_yy));
    assert_false(nsi_inertia_complete(0.0, weightless, zz));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eigenvalues_are_found),
        cmocka_unit_test(bodies_are_physical),
        cmocka_unit_test(inertias_are_completed),
        cmocka_unit_test(faults_are_told_apart),
        cmocka_unit_test(repair_is_the_nearest),
        cmocka_unit_test(inertias_turn_and_move),
        cmocka_unit_test(rotations_agree),
        cmocka_unit_test(poses_compose),
        cmocka_unit_test(directions_are_made_unit_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
