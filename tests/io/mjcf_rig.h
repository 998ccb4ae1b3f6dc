// Helpers that tests of MJCF files share.

#ifndef TEST_MJCF_RIG_H
#define TEST_MJCF_RIG_H

#include "model/model_data.h"
#include "model/pose.h"
#include "support/assert.h"
#include "support/modelfile.h"

#include <stdio.h>

static const double pi = 3.14159265358979323846;

#define BALL "<geom size='0.1'/>"

static inline ns_model* parse_world(const char* inside) {
    char text[4000];
    snprintf(text, sizeof text,
             "<mujoco><compiler angle='radian'/><worldbody>%s</worldbody></mujoco>", inside);
    return modelfile_parse(text);
}

// ---- against MuJoCo ----------------------------------------------------------------------------

// Poses of all links at coordinates q.
static inline void link_poses(const ns_model* model, const double* q, ns_pose* out) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nlink; i++) {
        const ns_link_def* link = ns_model_link(model, i);
        const double* at = q + model->links[i].q;
        ns_pose joint = nsi_pose_identity(), origin = link->origin;
        switch (link->joint_type) {
        case NS_JOINT_FIXED: break;
        case NS_JOINT_REVOLUTE: nsi_quat_from_axis(link->axis, at[0], joint.quaternion); break;
        case NS_JOINT_PRISMATIC:
            for (int k = 0; k < 3; k++) joint.position[k] = at[0] * link->axis[k];
            break;
        case NS_JOINT_SPHERICAL: memcpy(joint.quaternion, at, 4 * sizeof *at); break;
        case NS_JOINT_FLOATING:
            origin = nsi_pose_identity();
            memcpy(joint.position, at, 3 * sizeof *at);
            memcpy(joint.quaternion, at + 3, 4 * sizeof *at);
            break;
        }
        ns_pose local = nsi_pose_compose(&origin, &joint);
        uint32_t parent = ns_model_link_parent(model, i);
        out[i] = parent == UINT32_MAX ? local : nsi_pose_compose(&out[parent], &local);
    }
}

#endif
