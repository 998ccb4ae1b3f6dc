// An open-loop gait: every leg goes round a cycle of swing and stance, with its own start in it.

#include "quadruped/gait.h"

#include <math.h>

void quad_gait_at(const quad_gait_options* gait, double time, const bool* contact,
                  quad_gait_leg legs[QUAD_LEGS]) {
    const double cycle = gait->stance_duration / gait->duty_factor;
    for (int k = 0; k < QUAD_LEGS; k++) {
        quad_gait_leg* leg = &legs[k];
        bool swings_first = gait->swings_first[k];
        double first = swings_first ? 1.0 - gait->duty_factor : gait->duty_factor;
        double at = gait->initial_phase[k] + time / cycle;
        at -= floor(at);
        bool in_first = at < first;
        leg->swings = in_first == swings_first;
        leg->phase = in_first ? at / first : fmin((at - first) / (1.0 - first), 1.0);

        leg->state = leg->swings ? QUAD_LEG_SWING : QUAD_LEG_STANCE;
        if (!contact || leg->phase < gait->contact_phase) continue;
        if (leg->swings && contact[k]) leg->state = QUAD_LEG_EARLY;
        if (!leg->swings && !contact[k]) leg->state = QUAD_LEG_LOST;
    }
}
