// Contact as springs: the normal force of Hunt & Crossley (Coefficient of Restitution Interpreted as
// Damping in Vibroimpact, 1975) and the friction of Brown & McPhee (A Continuous Velocity-Based
// Friction Model for Dynamics and Control with Physically Meaningful Parameters, 2016). Each term
// is a named quantity.

#include "contact/contact.h"

#include <math.h>

// Velocity in the world of the point of a body that is at p now.
static vec3 point_velocity(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t body,
                           vec3 p) {
    if (body == NSI_NONE) return v3_zero();
    motion twist = robot->body[body].velocity;
    vec3 arm = m3_apply_t(pose[body].R, v3_sub(p, pose[body].position));
    return m3_apply(pose[body].R, v3_add(twist.v, v3_cross(twist.w, arm)));
}

// The force where a condition holds, else none.
static force fo_where(ns_expr condition, force x) {
    ns_expr zero = ns_const(0.0);
    for (int k = 0; k < 3; k++) {
        x.n.e[k] = ns_select(condition, x.n.e[k], zero);
        x.f.e[k] = ns_select(condition, x.f.e[k], zero);
    }
    return x;
}

// Add force f at p to the force on a body, in the body's frame. The select is the last step, so that
// the back ends can skip everything that leads to it when the shapes are apart.
static void add_force(const nsi_link_pose* pose, uint32_t body, vec3 p, ns_expr touching, vec3 f,
                      force* sum) {
    if (body == NSI_NONE) return;
    vec3 arm = m3_apply_t(pose[body].R, v3_sub(p, pose[body].position));
    vec3 local = m3_apply_t(pose[body].R, f), moment = v3_cross(arm, local);
    *sum = fo_add(*sum, fo_where(touching, (force){moment, local}));
}

// x^p for x > 0; the usual p needs no logarithm.
static ns_expr power(const nsi_robot* robot, ns_expr x, ns_expr p) {
    const nsi_node* node = &robot->graph->nodes.data[p.id];
    if (node->op == NSI_CONST && node->value == 1.5) return ns_mul(x, ns_sqrt(x));
    return ns_pow(x, p);
}

// Friction coefficient at the slip x = speed / transition velocity: rises to mu_static near x = 1
// and falls to mu.
static ns_expr friction_coefficient(ns_expr mu, ns_expr mu_static, ns_expr x) {
    ns_expr sliding = ns_mul(mu, ns_tanh(ns_mul(ns_const(4.0), x)));
    ns_expr hump = ns_add(ns_mul(ns_const(0.25), ns_mul(x, x)), ns_const(0.75));
    ns_expr stiction = ns_mul(ns_sub(mu_static, mu), ns_div(x, ns_mul(hump, hump)));
    return ns_add(sliding, stiction);
}

// Add the forces at one contact point to those on both bodies.
static void spring(const nsi_robot* robot, const nsi_link_pose* pose,
                   const nsi_candidate* candidate, force* on_a, force* on_b) {
    ns_expr zero = ns_const(0.0), one = ns_const(1.0);
    vec3 p = candidate->point.position, n = candidate->point.normal;
    vec3 v = v3_sub(point_velocity(robot, pose, candidate->body_a, p),
                    point_velocity(robot, pose, candidate->body_b, p));
    ns_expr depth = ns_neg(nsi_candidate_gap(robot, pose, candidate));
    ns_expr touching = ns_and(ns_gt(depth, zero), candidate->point.exists);
    // Without contact, use a depth at which the law is smooth; the final select drops the force.
    depth = ns_select(touching, depth, one);
    ns_expr vn = nsi_candidate_named(robot, candidate, "velocity/normal", v3_dot(n, v));
    ns_expr vt[2];
    vt[0] = nsi_candidate_named(robot, candidate, "velocity/tangent1",
                                v3_dot(candidate->tangent[0], v));
    vt[1] = nsi_candidate_named(robot, candidate, "velocity/tangent2",
                                v3_dot(candidate->tangent[1], v));

    double most = robot->model->contacts[candidate->pair].def.max_depth;
    if (most < INFINITY) depth = ns_min(depth, ns_const(most));
    ns_expr stretch =
        power(robot, depth, nsi_candidate_param(robot, candidate, NSI_CONTACT_EXPONENT));
    ns_expr elastic = ns_mul(nsi_candidate_param(robot, candidate, NSI_CONTACT_STIFFNESS), stretch);
    elastic = ns_select(touching, elastic, zero);
    elastic = nsi_candidate_named(robot, candidate, "force/elastic", elastic);
    ns_expr damping =
        ns_mul(nsi_candidate_param(robot, candidate, NSI_CONTACT_DAMPING), ns_neg(vn));
    damping = nsi_candidate_named(robot, candidate, "force/damping", ns_mul(elastic, damping));
    ns_expr normal = ns_max(ns_add(elastic, damping), zero);
    normal = nsi_candidate_named(robot, candidate, "force/normal", normal);

    // The direction of slip is vt / speed; the tiny speed keeps it smooth at rest.
    ns_expr transition = nsi_candidate_param(robot, candidate, NSI_CONTACT_TRANSITION_VELOCITY);
    ns_expr tiny = ns_mul(ns_const(1e-6), transition);
    ns_expr speed =
        ns_sqrt(ns_add(ns_add(ns_mul(vt[0], vt[0]), ns_mul(vt[1], vt[1])), ns_mul(tiny, tiny)));
    ns_expr coefficient = friction_coefficient(
        nsi_candidate_param(robot, candidate, NSI_CONTACT_MU),
        nsi_candidate_param(robot, candidate, NSI_CONTACT_MU_STATIC), ns_div(speed, transition));
    coefficient = nsi_candidate_named(robot, candidate, "friction", coefficient);
    ns_expr drag = ns_div(ns_mul(coefficient, normal), speed);
    vec3 f = v3_scale(normal, n);
    for (int k = 0; k < 2; k++) {
        ns_expr ft = ns_neg(ns_mul(drag, vt[k]));
        ft =
            nsi_candidate_named(robot, candidate, k == 0 ? "force/tangent1" : "force/tangent2", ft);
        f = v3_add(f, v3_scale(ft, candidate->tangent[k]));
    }
    add_force(pose, candidate->body_a, p, touching, f, on_a);
    add_force(pose, candidate->body_b, p, touching, v3_neg(f), on_b);
    nsi_candidate_force(robot, candidate, fo_where(touching, (force){v3_zero(), f}).f);
}

void nsi_contact_springs(const nsi_robot* robot, const nsi_contact_options* options,
                         force* external) {
    nsi_candidates candidates;
    nsi_link_pose* pose = nsi_robot_alloc(robot, robot->model->sizes.nlink, sizeof *pose);
    if (!pose) return;
    nsi_link_poses(robot, pose);
    if (!nsi_candidates_find(robot, pose, options, NS_CONTACT_SPRING, &candidates)) return;
    // Pair by pair: of one that is far apart not even the points need be computed.
    for (uint32_t k = 0; k < candidates.count;) {
        const nsi_candidate* first = &candidates.data[k];
        force on_a = fo_zero(), on_b = fo_zero();
        for (; k < candidates.count && candidates.data[k].pair == first->pair; k++) {
            spring(robot, pose, &candidates.data[k], &on_a, &on_b);
        }
        uint32_t a = first->body_a, b = first->body_b;
        if (a != NSI_NONE) external[a] = fo_add(external[a], fo_where(first->near, on_a));
        if (b != NSI_NONE) external[b] = fo_add(external[b], fo_where(first->near, on_b));
    }
}
