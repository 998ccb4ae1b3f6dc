// Kinematics of a leg with an abduction axis along x and two parallel axes along y:
//
//     toe = hip + Rx(s q0) (upper + Ry(q1) (lower + Ry(q2) toe))
//
// The three vectors' sideways parts add up to a constant d, since turning about y leaves them alone:
// the toe is in a plane at the distance d from the abduction axis, in which thigh and shank are a
// planar arm. An angle in that plane is counted from straight down, forward to backward, which is how
// Ry turns it.

#include "quadruped/leg.h"

#include "quadruped/support.h"

#include <math.h>
#include <string.h>

static void turn_y(double angle, const double v[3], double out[3]) {
    double c = cos(angle), s = sin(angle), x = v[0], z = v[2];
    out[0] = c * x + s * z;
    out[1] = v[1];
    out[2] = c * z - s * x;
}

static void turn_x(double angle, const double v[3], double out[3]) {
    double c = cos(angle), s = sin(angle), y = v[1], z = v[2];
    out[0] = v[0];
    out[1] = c * y - s * z;
    out[2] = s * y + c * z;
}

// The toe, and the origins of the upper and lower joint.
static void positions(const quad_leg_def* leg, const double q[3], double toe[3], double upper[3],
                      double lower[3]) {
    double abduction = leg->abduction_sign * q[0], thigh[3], shank[3];
    turn_y(q[1], leg->lower, thigh);
    turn_y(q[1] + q[2], leg->toe, shank);
    for (int i = 0; i < 3; i++) {
        thigh[i] += leg->upper[i];
        shank[i] += thigh[i];
    }
    turn_x(abduction, leg->upper, upper);
    turn_x(abduction, thigh, lower);
    turn_x(abduction, shank, toe);
    for (int i = 0; i < 3; i++) {
        upper[i] += leg->hip[i];
        lower[i] += leg->hip[i];
        toe[i] += leg->hip[i];
    }
}

void quad_leg_toe(const quad_leg_def* leg, const double q[3], double toe[3]) {
    double upper[3], lower[3];
    positions(leg, q, toe, upper, lower);
}

void quad_leg_jacobian(const quad_leg_def* leg, const double q[3], const double offset[3],
                       double J[9]) {
    double toe[3], origin[3][3], axes[2][3] = {{leg->abduction_sign, 0.0, 0.0}, {0.0, 1.0, 0.0}};
    memcpy(origin[0], leg->hip, sizeof origin[0]);
    positions(leg, q, toe, origin[1], origin[2]);
    turn_x(leg->abduction_sign * q[0], axes[1], axes[1]);
    for (int k = 0; k < 3; k++) {
        double arm[3], column[3];
        for (int i = 0; i < 3; i++) arm[i] = toe[i] + offset[i] - origin[k][i];
        quad_cross(axes[k > 0], arm, column);
        for (int i = 0; i < 3; i++) J[3 * i + k] = column[i];
    }
}

static double plane_angle(double x, double z) {
    return atan2(-x, -z);
}

static double leg_clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

// The turn by less than half a circle from the middle of the limits.
static double unwind(double angle, const double limits[2]) {
    const double turn = 2.0 * acos(-1.0), middle = 0.5 * (limits[0] + limits[1]);
    return angle - turn * round((angle - middle) / turn);
}

bool quad_leg_angles(const quad_leg_def* leg, const double toe[3], double q[3], double* missed) {
    // The toe relative to the hip.
    double x = toe[0] - leg->hip[0], y = toe[1] - leg->hip[1], z = toe[2] - leg->hip[2];

    // Abduction: (y, z) is (d, -drop) rotated about x.
    const double d = leg->upper[1] + leg->lower[1] + leg->toe[1];
    // A target too close to the axis is projected.
    double drop = sqrt(fmax(y * y + z * z - d * d, 0.0));
    double angle = atan2(z, y) - atan2(-drop, d);
    q[0] = leg->abduction_sign * angle;

    // Thigh and shank form a planar two-link arm.
    double thigh = hypot(leg->lower[0], leg->lower[2]), shank = hypot(leg->toe[0], leg->toe[2]);
    double thigh_angle = plane_angle(leg->lower[0], leg->lower[2]);
    double shank_angle = plane_angle(leg->toe[0], leg->toe[2]);
    // The target in that plane.
    x -= leg->upper[0];
    z = -drop - leg->upper[2];

    double cosine = (x * x + z * z - thigh * thigh - shank * shank) / (2.0 * thigh * shank);
    // Knee first, by the law of cosines: if it is clamped, the thigh still points at the target.
    q[2] = thigh_angle - shank_angle - acos(leg_clamp(cosine, -1.0, 1.0));
    q[2] = leg_clamp(unwind(q[2], leg->limits[2]), leg->limits[2][0], leg->limits[2][1]);

    // Thigh: direction to the target minus the angle that the bent knee adds.
    double bend = q[2] - thigh_angle + shank_angle;
    q[1] = plane_angle(x, z) - atan2(shank * sin(bend), thigh + shank * cos(bend)) - thigh_angle;

    // Clamp the other joints to their limits.
    double reached[3], distance = 0.0;
    for (int k = 0; k < 2; k++) {
        q[k] = leg_clamp(unwind(q[k], leg->limits[k]), leg->limits[k][0], leg->limits[k][1]);
    }

    // Report by how much the toe misses the target.
    quad_leg_toe(leg, q, reached);
    for (int i = 0; i < 3; i++) distance = hypot(distance, reached[i] - toe[i]);
    *missed = distance;
    return distance <= QUAD_LEG_REACHED;
}
