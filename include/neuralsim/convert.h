/// @file convert.h
/// States in the layouts of other programs. Ours is MuJoCo's (docs/conventions.md), which needs no
/// conversion.
///
///     double pq[ns_pinocchio_nq(model, false)], pv[nv];
///     ns_state_to_pinocchio(model, false, q, qd, pq, pv);

#ifndef NEURALSIM_CONVERT_H
#define NEURALSIM_CONVERT_H

#include "neuralsim/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Pinocchio: quaternions are x y z w; a free-flyer's velocity is linear then angular, both in the
/// body's frame; a spherical joint's is angular in the body's frame. With `continuous_as_cos_sin`
/// revolute joints without limits have the two coordinates cos and sin of their angle, as Pinocchio
/// makes of URDF's continuous joints; angles then come back in (-pi, pi]. Joints are in our order.
/// @return number of coordinates in that layout; velocities are nv as ours
NS_API uint32_t ns_pinocchio_nq(const ns_model* model, bool continuous_as_cos_sin);
NS_API void ns_state_to_pinocchio(const ns_model* model, bool continuous_as_cos_sin,
                                  const double* q, const double* qd, double* pin_q, double* pin_v);
NS_API void ns_state_from_pinocchio(const ns_model* model, bool continuous_as_cos_sin,
                                    const double* pin_q, const double* pin_v, double* q,
                                    double* qd);

/// PyBullet: quaternions are x y z w; the base is given by the pose of its centre of mass (axes of
/// the link: a file whose base has a rotated inertial frame differs by that rotation) and by linear velocity of the centre of mass and angular velocity, both in the world,
/// as by getBasePositionAndOrientation and getBaseVelocity; a spherical joint's angular velocity is
/// in the link's frame. Sizes (nq, nv) and the order of joints are ours.
NS_API void ns_state_to_pybullet(const ns_model* model, const double* q, const double* qd,
                                 double* bullet_q, double* bullet_v);
NS_API void ns_state_from_pybullet(const ns_model* model, const double* bullet_q,
                                   const double* bullet_v, double* q, double* qd);

#ifdef __cplusplus
}
#endif

#endif
