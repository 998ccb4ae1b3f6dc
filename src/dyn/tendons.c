// Forces of tendons: spring with slack, damper, Coulomb friction, soft limits. Each is a named quantity.

#include "dyn/transmission.h"
#include "expr/trace.h"

static ns_expr spring_force(const nsi_robot* robot, const ns_expr* p, ns_expr length) {
    ns_expr k = p[NSI_TENDON_STIFFNESS], rest = p[NSI_TENDON_REST], slack = p[NSI_TENDON_SLACK];
    if (nsi_robot_is_zero(robot, slack)) return ns_mul(k, ns_sub(rest, length));
    ns_expr zero = ns_const(0.0), below = ns_max(ns_sub(rest, length), zero);
    // At the end of no slack both are 0; the derivative is that of being shorter.
    ns_expr above = ns_max(zero, ns_sub(length, ns_add(rest, slack)));
    return ns_mul(k, ns_sub(below, above));
}

static ns_expr name_force(ns_expr x, const nsi_tendon* tendon, const char* what) {
    return nsi_named(x, "", "tendon/%s/force/%s", tendon->def.name, what);
}

void nsi_tendon_forces(const nsi_robot* robot, double dt, nsi_implicit implicit,
                       nsi_passive_force* added, ns_expr** coupling) {
    const ns_model* model = robot->model;
    if (model->sizes.ntendon == 0) return;
    const nsi_link_pose* pose = nsi_transmission_poses(robot);
    for (uint32_t i = 0; i < model->sizes.ntendon; i++) {
        const nsi_tendon* tendon = &model->tendons[i];
        const ns_expr* p = robot->param + tendon->param;
        nsi_transmission t;
        if (!nsi_tendon_transmission(robot, pose, i, &t)) return;
        nsi_observed(t.length, "", "tendon/%s/length", tendon->def.name);
        nsi_observed(t.velocity, "", "tendon/%s/velocity", tendon->def.name);

        // Forces along the tendon.
        ns_expr law = ns_neg(ns_mul(p[NSI_TENDON_DAMPING], t.velocity));
        ns_expr damping = name_force(law, tendon, "damping");
        ns_expr smooth =
            ns_add(name_force(spring_force(robot, p, t.length), tendon, "spring"), damping);
        ns_expr slip = ns_tanh(ns_div(t.velocity, p[NSI_TENDON_FRICTION_VELOCITY]));
        ns_expr rubbing = ns_neg(ns_mul(p[NSI_TENDON_FRICTION], slip)), limit = ns_const(0.0);
        if (tendon->def.limited) {
            limit = nsi_limit_force(t.length, t.velocity, p + NSI_TENDON_LOWER,
                                    p + NSI_TENDON_LIMIT_STIFFNESS);
        }

        // How those that are stiff by themselves resist the tendon's velocity.
        ns_expr slope = ns_add(nsi_friction_slope(robot, rubbing, p[NSI_TENDON_FRICTION],
                                                  t.velocity, p[NSI_TENDON_FRICTION_VELOCITY]),
                               nsi_limit_slope(robot, limit, p + NSI_TENDON_LIMIT_STIFFNESS, dt));
        ns_expr stiff =
            ns_add(name_force(rubbing, tendon, "friction"), name_force(limit, tendon, "limit"));

        // Along the velocities of the model.
        for (uint32_t k = 0; k < model->sizes.nv; k++) {
            ns_expr m = t.moment[k];
            if (nsi_robot_is_zero(robot, m)) continue;
            added[k].smooth = ns_add(added[k].smooth, ns_mul(m, smooth));
            added[k].stiff = ns_add(added[k].stiff, ns_mul(m, stiff));
            added[k].slope = ns_add(added[k].slope, ns_mul(ns_mul(m, m), slope));
        }
        if (implicit == NSI_EXPLICIT) continue;
        // A network that changes the damping has a slope of its own.
        if (implicit == NSI_IMPLICIT) {
            bool changed = damping.id != law.id;
            slope = ns_add(slope, changed ? nsi_transmission_slope(robot, &t, damping)
                                          : p[NSI_TENDON_DAMPING]);
        }
        nsi_transmission_couple(robot, &t, slope, coupling);
    }
}
