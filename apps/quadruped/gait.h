// An open-loop gait: which legs stand and which swing, by the clock, and what to make of feet that touch
// too early or do not touch.

#ifndef NSI_QUADRUPED_GAIT_H
#define NSI_QUADRUPED_GAIT_H

#include "quadruped/control.h"

typedef struct nsi_gait_leg {
    bool swings;        // by the clock
    double phase;       // of that swing or stance, 0 to 1
    ns_leg_phase state; // with contact taken into account
} nsi_gait_leg;

// @param contact  (NS_LEGS) whether feet touch; NULL when that is not known
void nsi_gait_at(const ns_gait_options* gait, double time, const bool* contact,
                 nsi_gait_leg legs[NS_LEGS]);

#endif
