// Rotations and poses in plain numbers, for reading and checking models. Quaternions are w x y z.

#ifndef NSI_MODEL_POSE_H
#define NSI_MODEL_POSE_H

#include "neuralsim/model.h"

ns_pose nsi_pose_identity(void);

// Make a vector unit length; false, and nothing changed, when it is too short or not finite.
bool nsi_normalize(double* vector, uint32_t size);

void nsi_cross(const double a[3], const double b[3], double out[3]);

void nsi_quat_multiply(const double a[4], const double b[4], double out[4]); // rotate by b, then a
void nsi_quat_rotate(const double q[4], const double v[3], double out[3]);
void nsi_quat_to_matrix(const double q[4], double r[9]); // row-major, columns are the inner axes
void nsi_quat_from_matrix(const double r[9], double q[4]);
void nsi_quat_from_axis(const double unit_axis[3], double angle, double q[4]);
void nsi_quat_from_rpy(const double rpy[3], double q[4]); // URDF: Rz(yaw) Ry(pitch) Rx(roll)

// The rotation that takes the z axis to this direction by the shortest way; about x when they are
// opposite.
void nsi_quat_from_z(const double unit_direction[3], double q[4]);

// `inner` is given in the frame `outer`.
ns_pose nsi_pose_compose(const ns_pose* outer, const ns_pose* inner);

#endif
