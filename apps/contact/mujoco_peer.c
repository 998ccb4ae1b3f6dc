// MuJoCo's steps of the same scene, where its library is there at build time.

#include "contact/rig.h"

#ifndef CONTACT_HAVE_MUJOCO

mujoco_peer* mujoco_peer_open(const char* path, double friction) {
    (void)path, (void)friction;
    return NULL;
}
void mujoco_peer_close(mujoco_peer* peer) {
    (void)peer;
}
void mujoco_peer_start(mujoco_peer* peer, const double* x0) {
    (void)peer, (void)x0;
}
double mujoco_peer_step(mujoco_peer* peer, int repeats) {
    (void)peer, (void)repeats;
    return 0.0;
}

#else

#include <math.h>
#include <mujoco/mujoco.h>
#include <stdlib.h>
#include <string.h>

struct mujoco_peer {
    mjModel* model;
    mjData* data;
    double* start; // qpos, qvel, qacc_warmstart of a step
};

mujoco_peer* mujoco_peer_open(const char* path, double friction) {
    char message[1000] = "";
    mujoco_peer* peer = trial_alloc(1, sizeof *peer);
    peer->model = mj_loadXML(path, NULL, message, sizeof message);
    if (!peer->model) trial_die("MuJoCo", message);
    peer->data = mj_makeData(peer->model);
    peer->start =
        trial_alloc((size_t)peer->model->nq + 2 * (size_t)peer->model->nv, sizeof(double));
    for (int k = 0; k < peer->model->ngeom; k++) peer->model->geom_friction[3 * k] = friction;
    return peer;
}

void mujoco_peer_close(mujoco_peer* peer) {
    mj_deleteData(peer->data);
    mj_deleteModel(peer->model);
    free(peer->start);
    free(peer);
}

void mujoco_peer_start(mujoco_peer* peer, const double* x0) {
    size_t nq = (size_t)peer->model->nq, nv = (size_t)peer->model->nv;
    mj_resetData(peer->model, peer->data);
    memcpy(peer->data->qpos, x0, nq * sizeof *x0);
    memcpy(peer->data->qvel, x0 + nq, nv * sizeof *x0);
}

double mujoco_peer_step(mujoco_peer* peer, int repeats) {
    mjData* d = peer->data;
    size_t nq = (size_t)peer->model->nq, nv = (size_t)peer->model->nv;
    double least = INFINITY;
    memcpy(peer->start, d->qpos, nq * sizeof(double));
    memcpy(peer->start + nq, d->qvel, nv * sizeof(double));
    memcpy(peer->start + nq + nv, d->qacc_warmstart, nv * sizeof(double));
    for (int repeat = 0; repeat < repeats; repeat++) {
        memcpy(d->qpos, peer->start, nq * sizeof(double));
        memcpy(d->qvel, peer->start + nq, nv * sizeof(double));
        memcpy(d->qacc_warmstart, peer->start + nq + nv, nv * sizeof(double));
        double before = trial_clock();
        mj_step(peer->model, d);
        least = fmin(least, trial_clock() - before);
    }
    return least;
}

#endif
