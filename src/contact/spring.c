// The law "spring": the normal force of Hunt & Crossley (Coefficient of Restitution Interpreted as
// Damping in Vibroimpact, 1975) and the friction of Brown & McPhee (A Continuous Velocity-Based
// Friction Model for Dynamics and Control with Physically Meaningful Parameters, 2016). Each term
// is a named quantity.

#include "contact/contact_stages.h"

#include <math.h>
#include <stddef.h>

enum { STIFFNESS, DAMPING, EXPONENT, MU, MU_STATIC, TRANSITION_VELOCITY, MAX_DEPTH, NPARAM };

static const ns_contact_param spring_params[NPARAM] = {
    [STIFFNESS] = {.name = "stiffness",
                   .unit = "N/m^exponent",
                   .value = NS_CONTACT_AUTO,
                   .upper = INFINITY,
                   .attribute = true,
                   .field = offsetof(ns_contact_def, stiffness)},
    [DAMPING] = {.name = "damping",
                 .may_vanish = true,
                 .unit = "s/m",
                 .value = NS_CONTACT_AUTO,
                 .upper = INFINITY,
                 .attribute = true,
                 .field = offsetof(ns_contact_def, damping)},
    [EXPONENT] = {.name = "exponent",
                  .unit = "",
                  .value = NS_CONTACT_AUTO,
                  .lower = 1.0,
                  .upper = INFINITY,
                  .attribute = true,
                  .field = offsetof(ns_contact_def, exponent)},
    [MU] = {.name = "mu", .may_vanish = true, .unit = ""}, // shared with the law "ncp"
    [MU_STATIC] = {.name = "mu_static",
                   .may_vanish = true,
                   .unit = "",
                   .value = NS_CONTACT_AUTO,
                   .upper = INFINITY,
                   .follows = "mu",
                   .field = offsetof(ns_contact_def, mu_static)},
    [TRANSITION_VELOCITY] = {.name = "transition_velocity",
                             .unit = "m/s",
                             .value = 0.05,
                             .upper = INFINITY,
                             .positive = true,
                             .attribute = true,
                             .field = offsetof(ns_contact_def, transition_velocity)},
    [MAX_DEPTH] = {.name = "max_depth",
                   .unit = "m",
                   .value = NS_CONTACT_AUTO,
                   .upper = INFINITY,
                   .positive = true,
                   .constant = true,
                   .field = offsetof(ns_contact_def, max_depth)},
};

// ---- automatic values ----------------------------------------------------------------------

// The larger of two numbers, either of which may be automatic; `otherwise` when both are.
static double larger_given(double a, double b, double otherwise) {
    double max = fmax(a, b); // NS_CONTACT_AUTO is negative
    return max == NS_CONTACT_AUTO ? otherwise : max;
}

// Two springs in a row; one alone when only one is given.
static double in_a_row(double a, double b, double otherwise) {
    if (a == NS_CONTACT_AUTO || b == NS_CONTACT_AUTO) return larger_given(a, b, otherwise);
    double soft = fmin(a, b), hard = fmax(a, b);
    return soft == 0.0 ? 0.0 : soft / (1.0 + soft / hard);
}

// A point mass m on the spring k d^p moves near the depth d with w^2 = p k d^(p-1) / m, and its force
// is k d^p = m w^2 d / p. Semi-implicit Euler follows that up to w dt = 2. What a contact point feels
// of its body is less than the whole mass: (1/m + r^2/I)^-1 at the distance r from the centre, a
// quarter at the end of a rod and, with four points, at the corners of a cube. It feels more where
// joints hold the body, since they only take mobility away. 0.3 is left to w dt at 1 cm: points of
// several geometries of a body act together, and damping, friction and deeper impacts need room.
static double default_stiffness(const nsi_pair_bodies* bodies, double exponent) {
    const double depth = 0.01, push = 100.0; // m, m/s^2
    double w = 0.3 / bodies->timestep;
    double wanted = push * bodies->tree_mass;
    double followed = 0.25 * bodies->body_mass * w * w * depth / exponent;
    double chosen = fmin(fmin(wanted, followed), 1e12); // of a hostile file it must stay finite
    return chosen / pow(depth, exponent);
}

static void choose_value(double* value, double chosen) {
    if (*value == NS_CONTACT_AUTO) *value = chosen;
}

static void spring_choose(const nsi_pair_bodies* bodies, ns_contact_def* def) {
    const ns_geom_def *a = bodies->a, *b = bodies->b;
    choose_value(&def->exponent, larger_given(a->exponent, b->exponent, 1.5));
    bool automatic = def->stiffness == NS_CONTACT_AUTO && a->stiffness == NS_CONTACT_AUTO &&
                     b->stiffness == NS_CONTACT_AUTO;
    choose_value(&def->max_depth, automatic ? 0.05 : INFINITY);
    choose_value(&def->stiffness,
                 in_a_row(a->stiffness, b->stiffness, default_stiffness(bodies, def->exponent)));
    choose_value(&def->damping, larger_given(a->damping, b->damping, 1.0));
}

// ---- the law -------------------------------------------------------------------------------

static bool constant_value(const nsi_robot* robot, ns_expr x, double* value) {
    if (!ns_expr_is_valid(x)) return false;
    const nsi_node* node = &robot->graph->nodes.data[x.id];
    *value = node->value;
    return node->op == NSI_CONST;
}

// x^p for x > 0; the usual p needs no logarithm.
static ns_expr power(const nsi_robot* robot, ns_expr x, ns_expr p) {
    double value;
    if (constant_value(robot, p, &value) && value == 1.5) return ns_mul(x, ns_sqrt(x));
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

static void spring_force(void* context, const ns_contact_point* point, ns_expr along[3]) {
    (void)context;
    const nsi_robot* robot = ((const nsi_point_trace*)(const void*)point)->robot;
    const ns_expr* params = point->params;
    ns_expr zero = ns_const(0.0), depth = point->depth;
    const ns_expr *vn = &point->velocity[0], *vt = &point->velocity[1];
    double max_depth;

    // Normal force: an elastic part, and damping in proportion to it.
    if (constant_value(robot, params[MAX_DEPTH], &max_depth) && max_depth < INFINITY) {
        depth = ns_min(depth, params[MAX_DEPTH]);
    }
    ns_expr elastic = ns_mul(params[STIFFNESS], power(robot, depth, params[EXPONENT]));
    elastic = ns_select(point->touching, elastic, zero);
    elastic = ns_contact_quantity(point, "force/elastic", "N", elastic);
    ns_expr damping = ns_mul(params[DAMPING], ns_neg(*vn));
    damping = ns_contact_quantity(point, "force/damping", "N", ns_mul(elastic, damping));
    ns_expr normal = ns_max(ns_add(elastic, damping), zero);
    along[0] = normal = ns_contact_quantity(point, "force/normal", "N", normal);

    // The direction of slip is vt / speed; the tiny speed keeps it smooth at rest.
    ns_expr tiny = ns_mul(ns_const(1e-6), params[TRANSITION_VELOCITY]);
    ns_expr speed =
        ns_sqrt(ns_add(ns_add(ns_mul(vt[0], vt[0]), ns_mul(vt[1], vt[1])), ns_mul(tiny, tiny)));
    ns_expr coefficient = friction_coefficient(params[MU], params[MU_STATIC],
                                               ns_div(speed, params[TRANSITION_VELOCITY]));
    coefficient = ns_contact_quantity(point, "friction", "", coefficient);

    // Friction against the slip.
    ns_expr drag = ns_div(ns_mul(coefficient, normal), speed);
    for (int k = 0; k < 2; k++) {
        along[1 + k] = ns_contact_quantity(point, k == 0 ? "force/tangent1" : "force/tangent2", "N",
                                           ns_neg(ns_mul(drag, vt[k])));
    }
}

const nsi_contact_law nsi_contact_spring = {
    .law = {.name = "spring",
            .help = "nonlinear spring and damper with smooth friction",
            .params = spring_params,
            .nparam = NPARAM,
            .stage = NS_CONTACT_STAGE_FORCES,
            .force = spring_force},
    .formulas = 1u << EXPONENT,
    .choose = spring_choose,
};
