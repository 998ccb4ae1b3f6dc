// A spherical joint: any rotation, as a quaternion; the velocity is angular, in the link's frame.

#include "dyn/joint.h"
#include "dyn/robot.h"
#include "model/pose.h"

static quat spherical_rotation(const nsi_robot* robot, uint32_t link) {
    const ns_expr* q = robot->q + robot->model->links[link].q;
    return (quat){q[0], q[1], q[2], q[3]};
}

static void spherical_trace(const nsi_robot* robot, uint32_t link, nsi_body* body, mat3* R,
                            vec3* translation) {
    (void)translation;
    const ns_expr* qd = robot->qd + robot->model->links[link].v;
    *R = m3_from_quat(spherical_rotation(robot, link));
    for (uint32_t k = 0; k < 3; k++) {
        body->s[k] = nsi_unit_twist(k);
        body->rate[k] = qd[k];
    }
}

static void spherical_pose(const ns_link_def* def, double value, ns_pose* pose) {
    (void)def;
    const double rpy[3] = {value, 0.3 - value, 0.6 * value};
    nsi_quat_from_rpy(rpy, pose->quaternion);
}

static void spherical_subspace(const ns_link_def* def, uint32_t k, double s[6]) {
    (void)def;
    s[k] = 1.0;
}

const nsi_joint nsi_joint_spherical = {
    .info = {.name = "spherical", .nq = 4, .nv = 3},
    .trace = spherical_trace,
    .rotation = spherical_rotation,
    .pose = spherical_pose,
    .subspace = spherical_subspace,
};
