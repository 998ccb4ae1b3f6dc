// Spatial vector algebra on expressions, after Featherstone, Rigid Body Dynamics Algorithms (2008),
// chapter 2: angular part first, coordinates of one frame throughout an operation.

#ifndef NSI_MATH_SPATIAL_H
#define NSI_MATH_SPATIAL_H

#include "neuralsim/vec.h"

typedef struct motion { // velocity or acceleration
    vec3 w, v;
} motion;

typedef struct force { // force or momentum
    vec3 n, f;
} force;

// Coordinates of frame A to frame B: E rotates A's coordinates into B's, r is B's origin in A.
typedef struct transform {
    mat3 E;
    vec3 r;
} transform;

typedef struct inertia { // of a rigid body, about the frame's origin
    ns_expr m;
    vec3 h; // m times centre of mass
    mat3 I; // rotational inertia about the origin
} inertia;

typedef struct art_inertia { // articulated: [I H; H' M], I and M symmetric
    mat3 I, H, M;
} art_inertia;

// ---- vectors -------------------------------------------------------------------------------

static inline motion mo_zero(void) {
    return (motion){v3_zero(), v3_zero()};
}
static inline motion mo_add(motion a, motion b) {
    return (motion){v3_add(a.w, b.w), v3_add(a.v, b.v)};
}
static inline motion mo_scale(ns_expr s, motion a) {
    return (motion){v3_scale(s, a.w), v3_scale(s, a.v)};
}
static inline force fo_zero(void) {
    return (force){v3_zero(), v3_zero()};
}
static inline force fo_add(force a, force b) {
    return (force){v3_add(a.n, b.n), v3_add(a.f, b.f)};
}
static inline force fo_sub(force a, force b) {
    return (force){v3_sub(a.n, b.n), v3_sub(a.f, b.f)};
}
static inline force fo_scale(ns_expr s, force a) {
    return (force){v3_scale(s, a.n), v3_scale(s, a.f)};
}

// Power: a motion times a force.
static inline ns_expr mo_dot(motion a, force b) {
    return ns_add(v3_dot(a.w, b.n), v3_dot(a.v, b.f));
}

static inline motion mo_cross(motion a, motion b) { // crm, RBDA eq. (2.31)
    return (motion){v3_cross(a.w, b.w), v3_add(v3_cross(a.w, b.v), v3_cross(a.v, b.w))};
}
static inline force mo_cross_force(motion a, force b) { // crf, RBDA eq. (2.32)
    return (force){v3_add(v3_cross(a.w, b.n), v3_cross(a.v, b.f)), v3_cross(a.w, b.f)};
}

// ---- transforms ----------------------------------------------------------------------------

// Motion of A's coordinates in B's: [E w; E (v - r x w)].
static inline motion tr_motion(transform x, motion a) {
    return (motion){m3_apply(x.E, a.w), m3_apply(x.E, v3_sub(a.v, v3_cross(x.r, a.w)))};
}

// Force of B's coordinates in A's: [E'n + r x E'f; E'f].
static inline force tr_force_back(transform x, force b) {
    vec3 f = m3_apply_t(x.E, b.f);
    return (force){v3_add(m3_apply_t(x.E, b.n), v3_cross(x.r, f)), f};
}

// ---- inertias ------------------------------------------------------------------------------

static inline force in_apply(inertia i, motion a) { // momentum of a rigid body
    return (force){v3_add(m3_apply(i.I, a.w), v3_cross(i.h, a.v)),
                   v3_sub(v3_scale(i.m, a.v), v3_cross(i.h, a.w))};
}

static inline inertia in_add(inertia a, inertia b) {
    return (inertia){ns_add(a.m, b.m), v3_add(a.h, b.h), m3_add(a.I, b.I)};
}

static inline art_inertia in_articulated(inertia i) {
    ns_expr o = ns_const(0.0);
    mat3 m = {{{i.m, o, o}, {o, i.m, o}, {o, o, i.m}}};
    return (art_inertia){i.I, m3_skew(i.h), m};
}

static inline force ai_apply(art_inertia a, motion b) {
    return (force){v3_add(m3_apply(a.I, b.w), m3_apply(a.H, b.v)),
                   v3_add(m3_apply_t(a.H, b.w), m3_apply(a.M, b.v))};
}

static inline art_inertia ai_add(art_inertia a, art_inertia b) {
    art_inertia r = {m3_add(a.I, b.I), m3_add(a.H, b.H), m3_add(a.M, b.M)};
    return r;
}

// A - s u u' for a force u: what a joint lets go.
static inline art_inertia ai_sub_outer(art_inertia a, force u, force su) {
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            a.H.e[i][j] = ns_sub(a.H.e[i][j], ns_mul(su.n.e[i], u.f.e[j]));
            if (j < i) {
                a.I.e[i][j] = a.I.e[j][i];
                a.M.e[i][j] = a.M.e[j][i];
                continue;
            }
            a.I.e[i][j] = ns_sub(a.I.e[i][j], ns_mul(su.n.e[i], u.n.e[j]));
            a.M.e[i][j] = ns_sub(a.M.e[i][j], ns_mul(su.f.e[i], u.f.e[j]));
        }
    }
    return a;
}

// X'A X: the articulated inertia of B's frame in A's. With everything first turned into A's axes,
// shifting by r gives M' = M, H' = H + rx M, I' = I + rx H'' - H rx (rx: cross product matrix).
static inline art_inertia tr_art_inertia_back(transform x, art_inertia a) {
    mat3 Et = m3_transpose(x.E), rx = m3_skew(x.r);
    mat3 M = m3_congruence(Et, a.M), H0 = m3_mul(m3_mul(Et, a.H), x.E);
    mat3 I0 = m3_congruence(Et, a.I);
    mat3 H = m3_add(H0, m3_mul(rx, M)), I;
    for (int i = 0; i < 3; i++) {
        for (int j = i; j < 3; j++) {
            ns_expr shift = ns_sub(v3_dot(m3_row(rx, i), m3_row(H, j)),
                                   v3_dot(m3_row(H0, i), m3_column(rx, j)));
            I.e[i][j] = ns_add(I0.e[i][j], shift);
            I.e[j][i] = I.e[i][j];
        }
    }
    return (art_inertia){I, H, M};
}

// The inertia of a rigid body of frame B in A's.
static inline inertia tr_inertia_back(transform x, inertia b) {
    mat3 Et = m3_transpose(x.E);
    vec3 h0 = m3_apply(Et, b.h), h = v3_add(h0, v3_scale(b.m, x.r));
    // I' = E'I E - rx h0x - hx rx
    mat3 I = m3_congruence(Et, b.I), rx = m3_skew(x.r);
    I = m3_sub(I, m3_add(m3_mul(rx, m3_skew(h0)), m3_mul(m3_skew(h), rx)));
    return (inertia){b.m, h, I};
}

#endif
