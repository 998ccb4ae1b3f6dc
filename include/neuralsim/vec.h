/// @file vec.h
/// Vectors, matrices and quaternions of expressions, for physics of your own: a contact law, features
/// of a policy. Everything is by value and inline; constants that are 0 or 1 vanish when the expressions
/// are built, so general code costs nothing extra on special cases (an axis along z, an identity
/// rotation).
///
///     vec3 r = m3_apply(m3_axis_angle(v3_const(0, 0, 1), ns_input("q")), v3_const(1, 0, 0));
///
/// Its names have no prefix, so neuralsim.h does not include it.

#ifndef NEURALSIM_VEC_H
#define NEURALSIM_VEC_H

#include "neuralsim/expr.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vec3 {
    ns_expr e[3];
} vec3;

typedef struct mat3 {
    ns_expr e[3][3]; // [row][column]
} mat3;

typedef struct quat {
    ns_expr w, x, y, z;
} quat;

// ---- vectors -------------------------------------------------------------------------------

static inline vec3 v3(ns_expr x, ns_expr y, ns_expr z) {
    vec3 result = {{x, y, z}};
    return result;
}
static inline vec3 v3_const(double x, double y, double z) {
    return v3(ns_const(x), ns_const(y), ns_const(z));
}
static inline vec3 v3_zero(void) {
    return v3_const(0.0, 0.0, 0.0);
}

static inline vec3 v3_add(vec3 a, vec3 b) {
    return v3(ns_add(a.e[0], b.e[0]), ns_add(a.e[1], b.e[1]), ns_add(a.e[2], b.e[2]));
}
static inline vec3 v3_sub(vec3 a, vec3 b) {
    return v3(ns_sub(a.e[0], b.e[0]), ns_sub(a.e[1], b.e[1]), ns_sub(a.e[2], b.e[2]));
}
static inline vec3 v3_neg(vec3 a) {
    return v3(ns_neg(a.e[0]), ns_neg(a.e[1]), ns_neg(a.e[2]));
}
static inline vec3 v3_scale(ns_expr s, vec3 a) {
    return v3(ns_mul(s, a.e[0]), ns_mul(s, a.e[1]), ns_mul(s, a.e[2]));
}
static inline ns_expr v3_dot(vec3 a, vec3 b) {
    ns_expr sum = ns_mul(a.e[0], b.e[0]);
    sum = ns_add(sum, ns_mul(a.e[1], b.e[1]));
    return ns_add(sum, ns_mul(a.e[2], b.e[2]));
}
static inline vec3 v3_cross(vec3 a, vec3 b) {
    return v3(ns_sub(ns_mul(a.e[1], b.e[2]), ns_mul(a.e[2], b.e[1])),
              ns_sub(ns_mul(a.e[2], b.e[0]), ns_mul(a.e[0], b.e[2])),
              ns_sub(ns_mul(a.e[0], b.e[1]), ns_mul(a.e[1], b.e[0])));
}

// ---- matrices ------------------------------------------------------------------------------

static inline mat3 m3_zero(void) {
    ns_expr o = ns_const(0.0);
    mat3 result = {{{o, o, o}, {o, o, o}, {o, o, o}}};
    return result;
}
static inline mat3 m3_identity(void) {
    ns_expr o = ns_const(0.0), i = ns_const(1.0);
    mat3 result = {{{i, o, o}, {o, i, o}, {o, o, i}}};
    return result;
}
static inline mat3 m3_add(mat3 a, mat3 b) {
    mat3 r;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) r.e[i][j] = ns_add(a.e[i][j], b.e[i][j]);
    }
    return r;
}
static inline mat3 m3_sub(mat3 a, mat3 b) {
    mat3 r;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) r.e[i][j] = ns_sub(a.e[i][j], b.e[i][j]);
    }
    return r;
}
static inline mat3 m3_transpose(mat3 a) {
    mat3 r;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) r.e[i][j] = a.e[j][i];
    }
    return r;
}
static inline vec3 m3_row(mat3 a, int i) {
    return v3(a.e[i][0], a.e[i][1], a.e[i][2]);
}
static inline vec3 m3_column(mat3 a, int j) {
    return v3(a.e[0][j], a.e[1][j], a.e[2][j]);
}

static inline vec3 m3_apply(mat3 a, vec3 x) { // A x
    return v3(v3_dot(m3_row(a, 0), x), v3_dot(m3_row(a, 1), x), v3_dot(m3_row(a, 2), x));
}
static inline vec3 m3_apply_t(mat3 a, vec3 x) { // A' x
    return v3(v3_dot(m3_column(a, 0), x), v3_dot(m3_column(a, 1), x), v3_dot(m3_column(a, 2), x));
}
static inline mat3 m3_mul(mat3 a, mat3 b) {
    mat3 r;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) r.e[i][j] = v3_dot(m3_row(a, i), m3_column(b, j));
    }
    return r;
}
static inline mat3 m3_mul_nt(mat3 a, mat3 b) { // A B'
    mat3 r;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) r.e[i][j] = v3_dot(m3_row(a, i), m3_row(b, j));
    }
    return r;
}

// The matrix of a cross product: m3_skew(a) b = a x b.
static inline mat3 m3_skew(vec3 a) {
    ns_expr o = ns_const(0.0);
    mat3 result = {
        {{o, ns_neg(a.e[2]), a.e[1]}, {a.e[2], o, ns_neg(a.e[0])}, {ns_neg(a.e[1]), a.e[0], o}}};
    return result;
}

// A B A' for symmetric B: six dot products instead of nine.
static inline mat3 m3_congruence(mat3 a, mat3 b) {
    mat3 ab = m3_mul(a, b), r;
    for (int i = 0; i < 3; i++) {
        for (int j = i; j < 3; j++) {
            r.e[i][j] = v3_dot(m3_row(ab, i), m3_row(a, j));
            r.e[j][i] = r.e[i][j];
        }
    }
    return r;
}

// ---- rotations -----------------------------------------------------------------------------

// Rotation by `angle` about the unit vector `axis`: turns vectors (Rodrigues).
static inline mat3 m3_axis_angle(vec3 axis, ns_expr angle) {
    ns_expr s = ns_sin(angle), c = ns_cos(angle), one_minus_c = ns_sub(ns_const(1.0), c);
    mat3 r;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            r.e[i][j] = ns_mul(one_minus_c, ns_mul(axis.e[i], axis.e[j]));
        }
    }
    vec3 sa = v3_scale(s, axis);
    // Along a coordinate axis this folds to the plain form: c + (1-c)*1 is written as 1.
    for (int i = 0; i < 3; i++) {
        ns_expr a2 = ns_mul(axis.e[i], axis.e[i]);
        r.e[i][i] = ns_add(a2, ns_mul(c, ns_sub(ns_const(1.0), a2)));
    }
    r.e[0][1] = ns_sub(r.e[0][1], sa.e[2]);
    r.e[1][0] = ns_add(r.e[1][0], sa.e[2]);
    r.e[0][2] = ns_add(r.e[0][2], sa.e[1]);
    r.e[2][0] = ns_sub(r.e[2][0], sa.e[1]);
    r.e[1][2] = ns_sub(r.e[1][2], sa.e[0]);
    r.e[2][1] = ns_add(r.e[2][1], sa.e[0]);
    return r;
}

// Rotation matrix of a unit quaternion: turns body vectors into the frame the quaternion is
// relative to.
static inline mat3 m3_from_quat(quat q) {
    ns_expr two = ns_const(2.0), one = ns_const(1.0);
    ns_expr xx = ns_mul(q.x, q.x), yy = ns_mul(q.y, q.y), zz = ns_mul(q.z, q.z);
    ns_expr xy = ns_mul(q.x, q.y), xz = ns_mul(q.x, q.z), yz = ns_mul(q.y, q.z);
    ns_expr wx = ns_mul(q.w, q.x), wy = ns_mul(q.w, q.y), wz = ns_mul(q.w, q.z);
    mat3 r;
    r.e[0][0] = ns_sub(one, ns_mul(two, ns_add(yy, zz)));
    r.e[1][1] = ns_sub(one, ns_mul(two, ns_add(xx, zz)));
    r.e[2][2] = ns_sub(one, ns_mul(two, ns_add(xx, yy)));
    r.e[0][1] = ns_mul(two, ns_sub(xy, wz));
    r.e[1][0] = ns_mul(two, ns_add(xy, wz));
    r.e[0][2] = ns_mul(two, ns_add(xz, wy));
    r.e[2][0] = ns_mul(two, ns_sub(xz, wy));
    r.e[1][2] = ns_mul(two, ns_sub(yz, wx));
    r.e[2][1] = ns_mul(two, ns_add(yz, wx));
    return r;
}

static inline quat q_mul(quat a, quat b) { // Hamilton product
    vec3 u = v3(a.x, a.y, a.z), v = v3(b.x, b.y, b.z);
    vec3 r = v3_add(v3_cross(u, v), v3_add(v3_scale(a.w, v), v3_scale(b.w, u)));
    quat result = {ns_sub(ns_mul(a.w, b.w), v3_dot(u, v)), r.e[0], r.e[1], r.e[2]};
    return result;
}

static inline quat q_normalize(quat q) {
    ns_expr e[4] = {q.w, q.x, q.y, q.z};
    ns_normalize(4, e, e);
    quat result = {e[0], e[1], e[2], e[3]};
    return result;
}

// sin(x)/x of x = sqrt(x2), smooth through 0 with all derivatives that the series below gives:
// near 0 (x2 < 1e-2, truncation below 1e-18) the series, else the quotient.
NS_API ns_expr ns_sinc_of_square(ns_expr x2);
NS_API ns_expr ns_cos_of_square(ns_expr x2); // cos(sqrt(x2)), likewise

// The quaternion of turning by the vector `w` (axis times angle).
static inline quat q_exp(vec3 w) {
    ns_expr quarter = ns_mul(ns_const(0.25), v3_dot(w, w)); // (angle/2)^2
    ns_expr s = ns_mul(ns_const(0.5), ns_sinc_of_square(quarter));
    quat result = {ns_cos_of_square(quarter), ns_mul(s, w.e[0]), ns_mul(s, w.e[1]),
                   ns_mul(s, w.e[2])};
    return result;
}

#ifdef __cplusplus
}
#endif

#endif
