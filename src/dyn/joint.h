// Joint types. Each is one file in joints/ that defines a record, and one line of NS_JOINT_TYPES
// (neuralsim/model.h), which makes its enumerator and its place in the table of joint.c. Loaders apart,
// nothing else switches on the type of a joint.
//
// Coordinates are lengths (the first nlinear), then angles, then a quaternion if there is one; the
// velocities are their rates, with three angular ones for the quaternion. That is all that
// integration needs (nsi_integrate_config()). The motion subspace is constant in the link's frame.

#ifndef NSI_JOINT_H
#define NSI_JOINT_H

#include "math/spatial.h"
#include "neuralsim/model.h"

typedef struct nsi_robot nsi_robot;
typedef struct nsi_body nsi_body;

// A joint whose velocities in the model are not the internal rates of nsi_body. Vectors have nv
// components; those of the model come in its order, internal ones in that of nsi_body.s.
typedef struct nsi_velocity_map {
    void (*force_to_body)(const nsi_body* body, const ns_expr* tau, ns_expr* internal);
    void (*force_to_model)(const nsi_body* body, ns_expr* t); // in place

    // Twist of a unit of velocity k in the link's frame, and in the world's axes about the link's
    // origin (R: link to world).
    motion (*twist)(const nsi_body* body, uint32_t k);
    motion (*world_twist)(const nsi_body* body, mat3 R, uint32_t k);

    void (*acceleration_to_body)(const nsi_body* body, const ns_expr* qdd, ns_expr* d); // NULL: 0
    void (*acceleration_to_model)(const nsi_body* body, const ns_expr* d, ns_expr* qdd);

    // D (nv x nv, lower triangle, internal) plus the diagonal `added` of the model's mass matrix.
    void (*add_inertia)(const nsi_robot* robot, const nsi_body* body, const ns_expr* added,
                        ns_expr* D);

    // Internal accelerations x. The parent imposes the acceleration a; LD are the factors of D, u the
    // internal forces and U = I S, as in aba.c.
    void (*accelerate)(const nsi_body* body, const ns_expr* added, motion a, const ns_expr* LD,
                       const ns_expr* u, const force* U, ns_expr* x);
} nsi_velocity_map;

typedef struct nsi_joint {
    ns_joint_info info;

    // Trace the joint at the robot's state: its rotation R (link to joint frame) and translation in
    // the joint frame, which hold the identity, and rate[] and s[] of the body. NULL: it is fixed.
    void (*trace)(const nsi_robot* robot, uint32_t link, nsi_body* body, mat3* R,
                  vec3* translation);

    // The rotation as a quaternion. NULL: there is none.
    quat (*rotation)(const nsi_robot* robot, uint32_t link);

    // As numbers, for checks of a model before anything is traced: the link in the joint frame at some
    // position that `value` (about 0 to 1) chooses, and column k of the motion subspace, angular part
    // first. NULL: identity; nothing.
    void (*pose)(const ns_link_def* def, double value, ns_pose* pose);
    void (*subspace)(const ns_link_def* def, uint32_t k, double s[6]);

    const nsi_velocity_map* map; // NULL: velocities are the internal rates
} nsi_joint;

#define DECLARE_JOINT(ENUMERATOR, record) extern const nsi_joint nsi_joint_##record;
NS_JOINT_TYPES(DECLARE_JOINT)
#undef DECLARE_JOINT

// The record of a type; `type` must be one.
const nsi_joint* nsi_joint_get(ns_joint_type type);

// ---- for the records -----------------------------------------------------------------------

// The unit twist k, angular part first.
static inline motion nsi_unit_twist(uint32_t k) {
    motion s = mo_zero();
    (k < 3 ? s.w.e : s.v.e)[k % 3] = ns_const(1.0);
    return s;
}

// The joint's axis, made unit length where it is free or was set to something else (robot.c).
vec3 nsi_joint_axis(const nsi_robot* robot, uint32_t link);

#endif
