// Footholds after Raibert, and the path of swing feet to them.

#include "quadruped/swing.h"

#include <math.h>

void quad_swing_target(const quad_swing_options* swing, double stance_duration,
                       const double foothold[2], const double velocity[2], double yaw_rate,
                       const quad_command* command, double height, double target[3]) {
    const double turn[2] = {-foothold[1], foothold[0]}; // velocity of the foothold at 1 rad/s
    for (int i = 0; i < 2; i++) {
        double v = velocity[i] + yaw_rate * turn[i];
        double wanted = command->velocity[i] + command->yaw_rate * turn[i];
        target[i] = foothold[i] + 0.5 * stance_duration * v - swing->gain * (wanted - v);
    }
    target[2] = swing->clearance - height;
}

void quad_swing_path(const quad_swing_options* swing, double phase, const double start[3],
                     const double end[3], double at[3]) {
    const double pi = acos(-1.0);
    double s = fmin(fmax(phase, 0.0), 1.0);
    s = s <= 0.5 ? 0.8 * sin(pi * s) : 0.8 + 0.4 * (s - 0.5);
    for (int i = 0; i < 2; i++) at[i] = start[i] + s * (end[i] - start[i]);

    // z = z0 + b s + a s^2 through (0, z0), (1/2, apex), (1, z1).
    double apex = fmax(start[2], end[2]) + swing->apex, rise = end[2] - start[2];
    double middle = apex - start[2];
    double a = 2.0 * rise - 4.0 * middle, b = rise - a;
    at[2] = start[2] + s * (b + s * a);
}
