// Rotations and poses in plain numbers.

#include "model/pose.h"

#include <math.h>

ns_pose nsi_pose_identity(void) {
    return (ns_pose){{0.0, 0.0, 0.0}, {1.0, 0.0, 0.0, 0.0}};
}

bool nsi_normalize(double* vector, uint32_t size) {
    // Scaled first, so that neither huge nor tiny numbers spoil the square.
    double largest = 0.0;
    for (uint32_t i = 0; i < size; i++) {
        if (!isfinite(vector[i])) return false;
        largest = fmax(largest, fabs(vector[i]));
    }
    const double shortest = 1e-100; // far below any length a person means
    if (largest < shortest) return false;

    double square = 0.0;
    for (uint32_t i = 0; i < size; i++) square += (vector[i] / largest) * (vector[i] / largest);
    double length = largest * sqrt(square);
    if (!isfinite(length)) return false;

    // What is unit length to rounding stays as it was given, bit for bit.
    const double rounding = 4e-16;
    if (fabs(length - 1.0) <= rounding) return true;
    for (uint32_t i = 0; i < size; i++) vector[i] /= length;
    return true;
}

void nsi_cross(const double a[3], const double b[3], double out[3]) {
    double x = a[1] * b[2] - a[2] * b[1];
    double y = a[2] * b[0] - a[0] * b[2];
    double z = a[0] * b[1] - a[1] * b[0];
    out[0] = x, out[1] = y, out[2] = z;
}

void nsi_quat_multiply(const double a[4], const double b[4], double out[4]) {
    double w = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3];
    double x = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2];
    double y = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1];
    double z = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0];
    out[0] = w, out[1] = x, out[2] = y, out[3] = z;
}

void nsi_quat_to_matrix(const double q[4], double r[9]) {
    double w = q[0], x = q[1], y = q[2], z = q[3];
    r[0] = 1.0 - 2.0 * (y * y + z * z);
    r[1] = 2.0 * (x * y - w * z);
    r[2] = 2.0 * (x * z + w * y);
    r[3] = 2.0 * (x * y + w * z);
    r[4] = 1.0 - 2.0 * (x * x + z * z);
    r[5] = 2.0 * (y * z - w * x);
    r[6] = 2.0 * (x * z - w * y);
    r[7] = 2.0 * (y * z + w * x);
    r[8] = 1.0 - 2.0 * (x * x + y * y);
}

void nsi_quat_rotate(const double q[4], const double v[3], double out[3]) {
    double r[9], rotated[3];
    nsi_quat_to_matrix(q, r);
    for (int i = 0; i < 3; i++) {
        rotated[i] = r[3 * i] * v[0] + r[3 * i + 1] * v[1] + r[3 * i + 2] * v[2];
    }
    for (int i = 0; i < 3; i++) out[i] = rotated[i];
}

// Shepperd 1978: divide by the largest of the four components.
void nsi_quat_from_matrix(const double r[9], double q[4]) {
    double trace = r[0] + r[4] + r[8];
    if (trace > 0.0) {
        double s = 2.0 * sqrt(trace + 1.0); // 4 w
        q[0] = 0.25 * s;
        q[1] = (r[7] - r[5]) / s;
        q[2] = (r[2] - r[6]) / s;
        q[3] = (r[3] - r[1]) / s;
    } else {
        int i = r[4] > r[0] ? 1 : 0;
        if (r[8] > r[4 * i]) i = 2;
        int j = (i + 1) % 3, k = (i + 2) % 3;
        double s = 2.0 * sqrt(fmax(0.0, 1.0 + r[4 * i] - r[4 * j] - r[4 * k])); // 4 q[i + 1]
        q[0] = (r[3 * k + j] - r[3 * j + k]) / s;
        q[i + 1] = 0.25 * s;
        q[j + 1] = (r[3 * j + i] + r[3 * i + j]) / s;
        q[k + 1] = (r[3 * k + i] + r[3 * i + k]) / s;
    }
    nsi_normalize(q, 4);
}

void nsi_quat_from_axis(const double unit_axis[3], double angle, double q[4]) {
    double s = sin(0.5 * angle);
    q[0] = cos(0.5 * angle);
    for (int i = 0; i < 3; i++) q[i + 1] = s * unit_axis[i];
    nsi_normalize(q, 4);
}

void nsi_quat_from_rpy(const double rpy[3], double q[4]) {
    static const double axes[3][3] = {{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}};
    double roll[4], pitch[4], yaw[4];
    nsi_quat_from_axis(axes[0], rpy[0], roll);
    nsi_quat_from_axis(axes[1], rpy[1], pitch);
    nsi_quat_from_axis(axes[2], rpy[2], yaw);
    nsi_quat_multiply(yaw, pitch, q);
    nsi_quat_multiply(q, roll, q);
    nsi_normalize(q, 4);
}

void nsi_quat_from_z(const double unit_direction[3], double q[4]) {
    // Half way between the axes: q = (1 + cos a, axis sin a), which vanishes when they are
    // opposite.
    double x = unit_direction[0], y = unit_direction[1], z = unit_direction[2];
    q[0] = 1.0 + z;
    q[1] = -y;
    q[2] = x;
    q[3] = 0.0;
    const double opposite = 1e-12;
    if (q[0] < opposite) {
        q[0] = 0.0, q[1] = 1.0, q[2] = 0.0;
    }
    nsi_normalize(q, 4);
}

ns_pose nsi_pose_compose(const ns_pose* outer, const ns_pose* inner) {
    ns_pose pose;
    nsi_quat_rotate(outer->quaternion, inner->position, pose.position);
    for (int i = 0; i < 3; i++) pose.position[i] += outer->position[i];
    nsi_quat_multiply(outer->quaternion, inner->quaternion, pose.quaternion);
    nsi_normalize(pose.quaternion, 4);
    return pose;
}
