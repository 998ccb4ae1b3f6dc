// A robot file in MuJoCo, where its library is there at build time.

#ifndef MODELS_MUJOCO_ROBOT_H
#define MODELS_MUJOCO_ROBOT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mujoco_robot mujoco_robot;

typedef struct mujoco_robot_sizes {
    uint32_t nq, nv, nu;
    bool floating; // the first joint is a free one
} mujoco_robot_sizes;

// NULL when MuJoCo does not load the file, or is not there.
mujoco_robot* mujoco_robot_open(const char* path);
void mujoco_robot_close(mujoco_robot* robot); // NULL is allowed

mujoco_robot_sizes mujoco_robot_get_sizes(const mujoco_robot* robot);

// Accelerations without constraints at the default pose moved by `step` (nv), with velocities qd and
// controls u. Receives the pose and the accelerations.
void mujoco_robot_accelerations(mujoco_robot* robot, const double* step, const double* qd,
                                const double* u, double* q, double* qdd);

// Some steps of `timestep` seconds from the default pose, at rest and without controls. Receives the height of a floating root.
// False when MuJoCo's own state is not finite or was reset.
bool mujoco_robot_move(mujoco_robot* robot, uint32_t steps, double timestep, double* height);

#endif
