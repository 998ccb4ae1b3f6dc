// An open-loop gait: which legs stand and which swing, by the clock, and what to make of feet that touch
// too early or do not touch.

#ifndef QUADRUPED_GAIT_H
#define QUADRUPED_GAIT_H

#include "quadruped/control.h"

typedef struct quad_gait_leg {
    bool swings;          // by the clock
    double phase;         // of that swing or stance, 0 to 1
    quad_leg_phase state; // with contact taken into account
} quad_gait_leg;

// @param contact  (QUAD_LEGS) whether feet touch; NULL when that is not known
void quad_gait_at(const quad_gait_options* gait, double time, const bool* contact,
                  quad_gait_leg legs[QUAD_LEGS]);

#endif
