// Gyroscopic torques of bodies that turn freely, over a step.
//
// Euler's equations I dw/dt + w x I w = 0 conserve energy and angular momentum; an explicit step of
// them gains energy in proportion to dt and explodes for fast spins. The implicit midpoint rule
//
//     I (w' - w) + dt m x I m = 0,   m = (w + w') / 2
//
// conserves both, since they are quadratic. The torque that gives the body by itself this w' is used in
// place of w x I w: I (w - w') / dt.

#include "dyn/robot.h"

enum { NEWTON_STEPS = 3 }; // the error of 0.1 rad per step is then 1e-15

static mat3 about_centre(inertia i) {
    // I + hx hx / m = I + (h h' - h'h 1) / m
    mat3 I = i.I;
    ns_expr inverse = ns_div(ns_const(1.0), i.m), square = v3_dot(i.h, i.h);
    for (int r = 0; r < 3; r++) {
        for (int c = 0; c < 3; c++) {
            ns_expr product = ns_mul(i.h.e[r], i.h.e[c]);
            if (r == c) product = ns_sub(product, square);
            I.e[r][c] = ns_add(I.e[r][c], ns_mul(inverse, product));
        }
    }
    return I;
}

// x with A x = b, by the columns of A: Cramer's rule.
static vec3 solve3(mat3 A, vec3 b) {
    vec3 a0 = m3_column(A, 0), a1 = m3_column(A, 1), a2 = m3_column(A, 2);
    vec3 n = v3_cross(a1, a2);
    ns_expr inverse = ns_div(ns_const(1.0), v3_dot(a0, n));
    return v3_scale(inverse,
                    v3(v3_dot(b, n), v3_dot(a0, v3_cross(b, a2)), v3_dot(a0, v3_cross(a1, b))));
}

vec3 nsi_gyroscopic_change(const nsi_robot* robot, uint32_t i) {
    const nsi_body* body = &robot->body[i];
    if (robot->spin_step == 0.0 || body->nv < 3) return v3_zero();
    mat3 I = about_centre(body->inertia);
    vec3 w = body->velocity.w, next = w;
    ns_expr half = ns_const(0.5), dt = ns_const(robot->spin_step);
    for (int n = 0; n < NEWTON_STEPS; n++) {
        // Newton: I + dt/2 (mx I - (I m)x) is the derivative for w'.
        vec3 m = v3_scale(half, v3_add(w, next)), momentum = m3_apply(I, m);
        vec3 residual = v3_add(m3_apply(I, v3_sub(next, w)), v3_scale(dt, v3_cross(m, momentum)));
        mat3 slope = m3_sub(m3_mul(m3_skew(m), I), m3_skew(momentum)), A;
        for (int k = 0; k < 9; k++) {
            ns_expr part = ns_mul(ns_mul(half, dt), slope.e[k / 3][k % 3]);
            A.e[k / 3][k % 3] = ns_add(I.e[k / 3][k % 3], part);
        }
        next = v3_sub(next, solve3(A, residual));
    }
    vec3 torque = v3_scale(ns_const(1.0 / robot->spin_step), m3_apply(I, v3_sub(w, next)));
    return v3_sub(torque, v3_cross(w, m3_apply(I, w)));
}
