// A robot file in MuJoCo, where its library is there at build time.

#include "models/mujoco_robot.h"

#ifndef MODELS_HAVE_MUJOCO

mujoco_robot* mujoco_robot_open(const char* path) {
    (void)path;
    return 0;
}
void mujoco_robot_close(mujoco_robot* robot) {
    (void)robot;
}
mujoco_robot_sizes mujoco_robot_get_sizes(const mujoco_robot* robot) {
    (void)robot;
    return (mujoco_robot_sizes){0};
}
void mujoco_robot_accelerations(mujoco_robot* robot, const double* step, const double* qd,
                                const double* u, double* q, double* qdd) {
    (void)robot, (void)step, (void)qd, (void)u, (void)q, (void)qdd;
}
bool mujoco_robot_move(mujoco_robot* robot, uint32_t steps, double timestep, double* height) {
    (void)robot, (void)steps, (void)timestep, (void)height;
    return false;
}

#else

#include <mujoco/mujoco.h>
#include <stdlib.h>
#include <string.h>

struct mujoco_robot {
    mjModel* model;
    mjData* data;
};

mujoco_robot* mujoco_robot_open(const char* path) {
    char message[1000] = "";
    mujoco_robot* robot = calloc(1, sizeof *robot);
    if (!robot) return NULL;
    robot->model = mj_loadXML(path, NULL, message, sizeof message);
    robot->data = robot->model ? mj_makeData(robot->model) : NULL;
    if (robot->data) return robot;
    mujoco_robot_close(robot);
    return NULL;
}

void mujoco_robot_close(mujoco_robot* robot) {
    if (!robot) return;
    if (robot->data) mj_deleteData(robot->data);
    if (robot->model) mj_deleteModel(robot->model);
    free(robot);
}

mujoco_robot_sizes mujoco_robot_get_sizes(const mujoco_robot* robot) {
    const mjModel* m = robot->model;
    return (mujoco_robot_sizes){.nq = (uint32_t)m->nq,
                                .nv = (uint32_t)m->nv,
                                .nu = (uint32_t)m->nu,
                                .floating = m->njnt > 0 && m->jnt_type[0] == mjJNT_FREE};
}

void mujoco_robot_accelerations(mujoco_robot* robot, const double* step, const double* qd,
                                const double* u, double* q, double* qdd) {
    mjModel* m = robot->model;
    mjData* d = robot->data;
    int flags = m->opt.disableflags;
    mj_resetData(m, d);
    mj_integratePos(m, d->qpos, step, 1.0);
    memcpy(d->qvel, qd, (size_t)m->nv * sizeof *qd);
    if (m->nu > 0) memcpy(d->ctrl, u, (size_t)m->nu * sizeof *u);

    m->opt.disableflags |= mjDSBL_CONSTRAINT;
    mj_forward(m, d);
    m->opt.disableflags = flags;
    memcpy(q, d->qpos, (size_t)m->nq * sizeof *q);
    memcpy(qdd, d->qacc_smooth, (size_t)m->nv * sizeof *qdd);
}

bool mujoco_robot_move(mujoco_robot* robot, uint32_t steps, double timestep, double* height) {
    mjModel* m = robot->model;
    mjData* d = robot->data;
    mj_resetData(m, d);
    m->opt.timestep = timestep; // a URDF says none
    for (uint32_t k = 0; k < steps; k++) mj_step(m, d);
    *height = m->nq > 2 ? d->qpos[2] : 0.0;
    return d->warning[mjWARN_BADQPOS].number + d->warning[mjWARN_BADQVEL].number +
               d->warning[mjWARN_BADQACC].number ==
           0;
}

#endif
