// A prismatic joint: translation along an axis.

#include "dyn/joint.h"
#include "dyn/robot.h"

static void prismatic_trace(const nsi_robot* robot, uint32_t link, nsi_body* body, mat3* R,
                            vec3* translation) {
    (void)R;
    const nsi_link* l = &robot->model->links[link];
    ns_expr distance = nsi_joint_coordinate(robot->model, link, robot->q);
    ns_expr rate = ns_mul(body->ratio, robot->qd[l->v]);
    vec3 axis = nsi_joint_axis(robot, link);
    body->rate[0] = rate;
    body->s[0] = (motion){v3_zero(), axis};
    *translation = v3_scale(distance, axis);
}

static void prismatic_pose(const ns_link_def* def, double value, ns_pose* pose) {
    for (int i = 0; i < 3; i++) pose->position[i] = value * def->axis[i];
}

static void prismatic_subspace(const ns_link_def* def, uint32_t k, double s[6]) {
    (void)k;
    for (int i = 0; i < 3; i++) s[i + 3] = def->axis[i];
}

const nsi_joint nsi_joint_prismatic = {
    .info =
        {.name = "prismatic", .nq = 1, .nv = 1, .nlinear = 1, .quaternion = 1, .has_axis = true},
    .trace = prismatic_trace,
    .pose = prismatic_pose,
    .subspace = prismatic_subspace,
};
