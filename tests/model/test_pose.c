// Rotations and poses in plain numbers: quaternions against matrices, axes and angles.

#include "model/pose.h"
#include "neuralsim/random.h"
#include "support/assert.h"

#include <math.h>
#include <string.h>

static void random_rotation(ns_rng* rng, double q[4]) {
    do {
        for (int i = 0; i < 4; i++) q[i] = ns_rng_normal(rng);
    } while (!nsi_normalize(q, 4));
}

static void multiply(const double a[9], const double b[9], double out[9]) {
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            out[3 * i + j] = 0.0;
            for (int k = 0; k < 3; k++) out[3 * i + j] += a[3 * i + k] * b[3 * k + j];
        }
    }
}

static void vectors_are_normalised_or_left_alone(void** state) {
    (void)state;
    double v[3] = {3.0, 0.0, -4.0}, zero[3] = {0}, bad[3] = {1.0, NAN, 0.0};
    assert_true(nsi_normalize(v, 3));
    all_close(v, (double[]){0.6, 0.0, -0.8}, 3, 1e-16);
    assert_false(nsi_normalize(zero, 3));
    assert_false(nsi_normalize(bad, 3));
    assert_true(zero[0] == 0.0 && bad[0] == 1.0);
}

static void quaternions_are_their_matrices(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    for (int repeat = 0; repeat < 100; repeat++) {
        double a[4], b[4], ab[4], ra[9], rb[9], rab[9], product[9];
        random_rotation(&rng, a);
        random_rotation(&rng, b);
        nsi_quat_multiply(a, b, ab);
        nsi_quat_to_matrix(a, ra);
        nsi_quat_to_matrix(b, rb);
        nsi_quat_to_matrix(ab, rab);
        multiply(ra, rb, product);
        all_close(rab, product, 9, 1e-14);

        // A vector is turned by the matrix; the matrix gives the quaternion back, up to its sign.
        double v[3] = {0.3, -1.1, 2.0}, turned[3], back[4];
        nsi_quat_rotate(a, v, turned);
        for (int i = 0; i < 3; i++) {
            double sum = ra[3 * i] * v[0] + ra[3 * i + 1] * v[1] + ra[3 * i + 2] * v[2];
            close_to("component", turned[i], sum, 1e-14);
        }
        nsi_quat_from_matrix(ra, back);
        double sign = back[0] * a[0] + back[1] * a[1] + back[2] * a[2] + back[3] * a[3];
        for (int i = 0; i < 4; i++)
            close_to("quaternion", back[i] * copysign(1.0, sign), a[i], 1e-14);
    }
}

static void roll_pitch_yaw_is_three_turns(void** state) {
    (void)state;
    const double rpy[3] = {0.4, -0.7, 1.9}, x[3] = {1, 0, 0}, y[3] = {0, 1, 0}, z[3] = {0, 0, 1};
    double roll[4], pitch[4], yaw[4], outer[4], want[4], got[4];
    nsi_quat_from_axis(x, rpy[0], roll);
    nsi_quat_from_axis(y, rpy[1], pitch);
    nsi_quat_from_axis(z, rpy[2], yaw);
    nsi_quat_multiply(yaw, pitch, outer);
    nsi_quat_multiply(outer, roll, want);
    nsi_quat_from_rpy(rpy, got);
    all_close(got, want, 4, 1e-15);
}

static void z_is_turned_to_any_direction(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3);
    for (int repeat = 0; repeat < 50; repeat++) {
        double d[3], q[4], turned[3];
        for (int i = 0; i < 3; i++) d[i] = ns_rng_normal(&rng);
        if (repeat == 0) memcpy(d, (double[]){0, 0, 1}, sizeof d);
        if (repeat == 1) memcpy(d, (double[]){0, 0, -1}, sizeof d);
        assert_true(nsi_normalize(d, 3));
        nsi_quat_from_z(d, q);
        nsi_quat_rotate(q, (double[]){0, 0, 1}, turned);
        all_close(turned, d, 3, 1e-14);
    }
}

static void poses_compose(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(4);
    ns_pose outer = nsi_pose_identity(), inner = nsi_pose_identity();
    ns_pose same = nsi_pose_compose(&outer, &inner);
    assert_memory_equal(&same, &outer, sizeof same);

    // A point of the inner frame, seen from outside, in one step and in two.
    random_rotation(&rng, outer.quaternion);
    random_rotation(&rng, inner.quaternion);
    for (int i = 0; i < 3; i++) {
        outer.position[i] = ns_rng_normal(&rng);
        inner.position[i] = ns_rng_normal(&rng);
    }
    ns_pose both = nsi_pose_compose(&outer, &inner);
    const double point[3] = {0.2, 0.5, -1.0};
    double middle[3], twice[3], once[3];
    nsi_quat_rotate(inner.quaternion, point, middle);
    for (int i = 0; i < 3; i++) middle[i] += inner.position[i];
    nsi_quat_rotate(outer.quaternion, middle, twice);
    nsi_quat_rotate(both.quaternion, point, once);
    for (int i = 0; i < 3; i++) {
        close_to("point", once[i] + both.position[i], twice[i] + outer.position[i], 1e-14);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_normalised_or_left_alone),
        cmocka_unit_test(quaternions_are_their_matrices),
        cmocka_unit_test(roll_pitch_yaw_is_three_turns),
        cmocka_unit_test(z_is_turned_to_any_direction),
        cmocka_unit_test(poses_compose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
