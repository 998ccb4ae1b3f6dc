// Forces on links that follow from their motion and place alone: compensated gravity, and drag of the
// medium by MuJoCo's model of equivalent boxes.
//
// A link is the box with its mass and its principal moments. Per axis i of the box with sides b,
//
//     force  -3 pi d viscosity v_i    - density/2 b_j b_k |v_i| v_i
//     torque -pi d^3 viscosity w_i    - density/64 b_i (b_j^4 + b_k^4) |w_i| w_i
//
// where d is the mean side, v the velocity of the centre of mass through the medium. The box is that of
// the model as it was built: parameters that are set free do not change its sides.

#include "dyn/robot.h"

#include <math.h>

// The equivalent box: its sides, and its axes in the link (columns).
typedef struct drag_box {
    double side[3];
    double axes[9];
} drag_box;

static drag_box find_box(const ns_link_def* def) {
    const double* I = def->inertia;
    drag_box box = {.axes = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
    double moment[3] = {I[0], I[1], I[2]};
    if (I[3] != 0.0 || I[4] != 0.0 || I[5] != 0.0) nsi_inertia_eigen(I, moment, box.axes);
    double sum = moment[0] + moment[1] + moment[2];
    for (int i = 0; i < 3; i++) {
        box.side[i] = sqrt(6.0 * fmax(1e-15, sum - 2.0 * moment[i]) / def->mass);
    }
    return box;
}

// linear x + quadratic |x| x, times -1.
static ns_expr drag(ns_expr linear, ns_expr quadratic, ns_expr x) {
    return ns_neg(ns_mul(x, ns_add(linear, ns_mul(quadratic, ns_abs(x)))));
}

// Force and torque of the medium at the centre of mass, in the link's axes.
static force box_drag(const nsi_robot* robot, const drag_box* box, vec3 v, vec3 w) {
    const double pi = 3.14159265358979323846, *b = box->side, *e = box->axes;
    const ns_expr* medium = robot->param + robot->model->medium_param;
    ns_expr density = medium[NSI_MEDIUM_DENSITY], viscosity = medium[NSI_MEDIUM_VISCOSITY];
    double d = (b[0] + b[1] + b[2]) / 3.0;
    force sum = fo_zero();
    for (int i = 0; i < 3; i++) {
        double j = b[(i + 1) % 3], k = b[(i + 2) % 3];
        vec3 axis = v3_const(e[i], e[3 + i], e[6 + i]);
        ns_expr f = drag(ns_mul(ns_const(3.0 * pi * d), viscosity),
                         ns_mul(ns_const(0.5 * j * k), density), v3_dot(axis, v));
        ns_expr n = drag(ns_mul(ns_const(pi * d * d * d), viscosity),
                         ns_mul(ns_const(b[i] * (j * j * j * j + k * k * k * k) / 64.0), density),
                         v3_dot(axis, w));
        sum.f = v3_add(sum.f, v3_scale(f, axis));
        sum.n = v3_add(sum.n, v3_scale(n, axis));
    }
    return sum;
}

void nsi_medium_forces(const nsi_robot* robot, force* external) {
    const ns_model* model = robot->model;
    nsi_link_pose* pose = NULL;
    bool medium = model->medium_param != NSI_NONE;
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        const nsi_placement* place = &robot->place[i];
        bool drags = medium && l->def.mass > 1e-15;
        if (place->body == NSI_NONE || !(drags || l->def.gravity_compensation != 0.0)) continue;
        if (!pose) {
            pose = nsi_robot_alloc(robot, model->sizes.nlink, sizeof *pose);
            if (!pose) return;
            nsi_link_poses(robot, pose);
        }

        // At the centre of mass, in the link's axes.
        const ns_expr* c = robot->param + l->param + NSI_LINK_COM;
        vec3 com = v3(c[0], c[1], c[2]);
        force f = fo_zero();
        if (drags) {
            const ns_expr* wind = robot->param + model->medium_param + NSI_MEDIUM_WIND;
            motion twist = nsi_link_velocity(robot, i);
            vec3 v = v3_add(twist.v, v3_cross(twist.w, com));
            v = v3_sub(v, m3_apply_t(pose[i].R, v3(wind[0], wind[1], wind[2])));
            drag_box box = find_box(&l->def);
            f = box_drag(robot, &box, v, twist.w);
        }
        if (l->def.gravity_compensation != 0.0) {
            ns_expr lift = ns_mul(ns_const(-l->def.gravity_compensation),
                                  nsi_robot_param(robot, i, NSI_LINK_MASS));
            vec3 gravity = m3_apply_t(pose[i].R, nsi_robot_gravity(robot));
            f.f = v3_add(f.f, v3_scale(lift, gravity));
        }

        // To the body that the link moves with.
        vec3 along = m3_apply(place->R, f.f), torque = m3_apply(place->R, f.n);
        vec3 at = v3_add(place->position, m3_apply(place->R, com));
        force total = {v3_add(torque, v3_cross(at, along)), along};
        external[place->body] = fo_add(external[place->body], total);
    }
}
