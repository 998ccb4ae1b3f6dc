// Equality constraints of a robot at one configuration: their rows, and how the robot responds to forces
// along them. phi (q) = 0 has the rate J qd, and J is one row of nv numbers for each equation.
//
//   joint    q_a - r_a - c(q_b - r_b)
//   connect  point of a less point of b, in the world
//   weld     the same, then the rotation vector from b's frame to a's, in the world. J is the relative
//            angular velocity, which is the rate where phi is zero
//
// All active constraints are rows of one system, in the model's order. Forces l along the rows change
// accelerations by M^-1 J'l, and rates of the rows by J M^-1 J'l. That matrix is singular where rows are
// redundant, as of a planar loop in space; what is solved is
//
//     (J M^-1 J' + R) l = rate,  R diagonal, 1e-9 of the mean of the block's diagonal (+ 1e-12)
//
// where a block is what three coordinates of a point or rotation have in common. Of redundant rows, which
// agree, this gives the solution of least norm to some 1e-9, and it is differentiable; constraints are
// missed by 1e-9 of what they change in a step, which the next step makes good.

#ifndef NSI_DYN_EQUALITY_H
#define NSI_DYN_EQUALITY_H

#include "dyn/robot.h"

struct nsi_equality {
    uint32_t nv, n;
    ns_expr* phi;     // (n) m or rad
    ns_expr* drift;   // (n) dJ/dt qd
    ns_expr* J;       // (n x nv)
    double* recovery; // (n) s, of the constraint (ns_equality_def)

    // By nsi_equality_factor().
    const ns_expr *M, *root; // factors of the mass matrix, and the roots of their diagonal
    ns_expr* Z;              // (n x nv) J L^-1 D^-1/2 with M = L'DL, so that Z Z' = J M^-1 J'
    ns_expr* A;              // (n x n) factors of Z Z' + R
};

// Equations of all active constraints of a model.
uint32_t nsi_equality_count(const ns_model* model);

// Rows at the robot's state; false when the graph has failed, also because there are too many.
bool nsi_equality_rows(const nsi_robot* robot, nsi_equality* out);

// Factor what the rows feel of a mass matrix: M (nv x nv) by nsi_ltdl_factor(), root (nv) the roots of its
// diagonal. Both must outlive the rows.
bool nsi_equality_factor(const nsi_robot* robot, const ns_expr* M, const ns_expr* root,
                         nsi_equality* rows);

// J x (n) of velocities or accelerations x (nv).
void nsi_equality_rates(const nsi_equality* rows, const ns_expr* x, ns_expr* out);

// Forces or impulses (n) that change the rates by `rate` (n); may be the same.
void nsi_equality_solve(const nsi_equality* rows, const ns_expr* rate, ns_expr* out);

// M^-1 J'l (nv) for forces l (n).
void nsi_equality_respond(const nsi_equality* rows, const ns_expr* l, ns_expr* out);

// A row of another Jacobian K as z = K L^-1 D^-1/2 (nv), in place: what it feels of the constrained robot.
// z less its projection on the rows of Z, so that products z z' are those of K with
// M^-1 - M^-1 J'(J M^-1 J' + R)^-1 J M^-1. `forces` (n, or NULL) receives the constraint forces by which a
// force along K is answered.
void nsi_equality_project(const nsi_robot* robot, const nsi_equality* rows, ns_expr* z,
                          ns_expr* forces);

#endif
