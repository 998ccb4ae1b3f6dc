// Kinematics of a leg: where its toe is, how it moves with the joints, and which angles put it where.
// Positions are in the trunk's frame.

#ifndef QUADRUPED_LEG_H
#define QUADRUPED_LEG_H

#include "quadruped/control.h"

// Centre of the toe.
void quad_leg_toe(const quad_leg_def* leg, const double q[3], double toe[3]);

// J (3 x 3): velocity of the point of the toe link that is at toe centre + `offset`, = J qd.
void quad_leg_jacobian(const quad_leg_def* leg, const double q[3], const double offset[3],
                       double J[9]);

// Angles that put the toe's centre at `toe`, with the knee bent backwards (shank turned back against
// the thigh) and the foot below the abduction axis. Where that is out of reach or beyond a limit, the
// nearest that the closed form gives: direction kept and distance clamped, then angles clamped.
// @param missed  distance between the target and where the toe comes to, m
// @return false when that is more than QUAD_LEG_REACHED
bool quad_leg_angles(const quad_leg_def* leg, const double toe[3], double q[3], double* missed);

#define QUAD_LEG_REACHED 1e-9 // m

#endif
