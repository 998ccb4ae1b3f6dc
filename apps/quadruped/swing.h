// Where swing feet go: the foothold, and the path to it.

#ifndef QUADRUPED_SWING_H
#define QUADRUPED_SWING_H

#include "quadruped/control.h"

// The foothold that keeps the velocity v of the hip, corrected for the wanted one w (Raibert 1986,
// "Legged robots that balance", ch. 2):
//
//     foothold + v T / 2 - gain (w - v),   T the duration of stance
//
// @param foothold  (2) x and y under which the foot stands at rest, in the trunk's frame
// @param velocity  (2) of the trunk, yaw_rate of it; both in its own heading
// @param height    of the trunk's origin above the centre of the toe when it has landed
// @param target    (3) in a frame at the trunk's origin with its heading and z up
void quad_swing_target(const quad_swing_options* swing, double stance_duration,
                       const double foothold[2], const double velocity[2], double yaw_rate,
                       const quad_command* command, double height, double target[3]);

// The foot at a phase (0 to 1) of swing: straight in x and y, a parabola in z through start, an apex
// in the middle and end; the phase is warped so that it leaves the ground fast and lands slowly.
void quad_swing_path(const quad_swing_options* swing, double phase, const double start[3],
                     const double end[3], double at[3]);

#endif
