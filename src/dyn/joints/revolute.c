// A revolute joint: rotation about an axis.

#include "dyn/joint.h"
#include "dyn/robot.h"
#include "model/pose.h"

static void revolute_trace(const nsi_robot* robot, uint32_t link, nsi_body* body, mat3* R,
                           vec3* translation) {
    (void)translation;
    const nsi_link* l = &robot->model->links[link];
    ns_expr angle = nsi_joint_coordinate(robot->model, link, robot->q);
    ns_expr rate = ns_mul(body->ratio, robot->qd[l->v]);
    vec3 axis = nsi_joint_axis(robot, link);
    body->rate[0] = rate;
    body->s[0] = (motion){axis, v3_zero()};
    *R = m3_axis_angle(axis, angle);
}

static quat revolute_rotation(const nsi_robot* robot, uint32_t link) {
    const ns_expr* p = robot->param + robot->model->links[link].param + NSI_JOINT_AXIS;
    ns_expr axis[3], angle = nsi_joint_coordinate(robot->model, link, robot->q);
    ns_normalize(3, p, axis);
    return q_exp(v3_scale(angle, v3(axis[0], axis[1], axis[2])));
}

static void revolute_pose(const ns_link_def* def, double value, ns_pose* pose) {
    nsi_quat_from_axis(def->axis, value, pose->quaternion);
}

static void revolute_subspace(const ns_link_def* def, uint32_t k, double s[6]) {
    (void)k;
    for (int i = 0; i < 3; i++) s[i] = def->axis[i];
}

const nsi_joint nsi_joint_revolute = {
    .info = {.name = "revolute", .nq = 1, .nv = 1, .quaternion = 1, .has_axis = true},
    .trace = revolute_trace,
    .rotation = revolute_rotation,
    .pose = revolute_pose,
    .subspace = revolute_subspace,
};
