// Contact in less plain surroundings, where the answer is still known: surfaces that move, joints
// that follow others, ball joints, rods against plates, points placed by hand, meshes. Values and
// derivatives against closed forms.

#include "support/assert.h"
#include "support/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const double g = 9.81;

// ---- building ------------------------------------------------------------------------------

static ns_model_builder* begin(double gravity) {
    ns_model_builder* b = NULL;
    ns_world_def world = ns_default_world_def();
    world.gravity[2] = -gravity;
    assert_int_equal(ns_model_builder_create(NULL, &b, NULL), NS_OK);
    assert_int_equal(ns_model_builder_set_world(b, &world, NULL), NS_OK);
    return b;
}

// A link with moments of inertia that are all alike, its joint along or about an axis ('x', 'y',
// 'z'), of the link's name.
static ns_link_def link_of(const char* name, ns_joint_type type, char axis, double mass,
                           double inertia) {
    ns_link_def l = ns_default_link_def();
    l.name = l.joint = name;
    l.joint_type = type;
    l.mass = mass;
    for (int k = 0; k < 3; k++) {
        l.inertia[k] = inertia;
        l.axis[k] = axis == 'x' + k;
    }
    return l;
}

static void add_link(ns_model_builder* b, const ns_link_def* link) {
    ns_error error = {0};
    must(ns_model_builder_add_link(b, link, &error), &error);
}

static ns_geom_def geom_of(const char* name, const char* link, ns_geom_type type, double x,
                           double y, double z) {
    ns_geom_def d = ns_default_geom_def();
    d.name = name;
    d.link = link;
    d.type = type;
    d.size[0] = x, d.size[1] = y, d.size[2] = z;
    return d;
}

static void add_geom(ns_model_builder* b, const ns_geom_def* geom) {
    ns_error error = {0};
    must(ns_model_builder_add_geom(b, geom, &error), &error);
}

static ns_model* finish(ns_model_builder* b, uint32_t pairs) {
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_builder_finish(b, &model, &error), &error);
    ns_model_builder_free(b);
    assert_int_equal(ns_model_get_sizes(model).ncontact, pairs);
    return model;
}

static ns_system_options options_of(ns_contact_model model, int friction,
                                    const char* const* free_params, uint32_t nfree) {
    ns_system_options options = ns_default_system_options();
    options.contact = (int)model;
    options.friction = (ns_friction)friction;
    options.free_params = free_params;
    options.nfree = nfree;
    return options;
}

static size_t param_number(trial* t, const char* name) {
    return (size_t)(trial_param(t, name) - t->params);
}

// ---- a block on a tray ---------------------------------------------------------------------

enum { TRAY, BLOCK_X, BLOCK_Z, TRAY_V, BLOCK_VX, BLOCK_VZ };

// The tray, a plane, slides along x, pulled by a spring so long that its force is constant; on it a
// block that can move along x and z.
static ns_model* tray_and_block(double tray, double block) {
    ns_model_builder* b = begin(g);
    ns_link_def l = link_of("tray", NS_JOINT_PRISMATIC, 'x', tray, 1.0);
    l.stiffness = 1e-3;
    l.origin.position[2] = 0.3; // not at the origin
    add_link(b, &l);
    l = link_of("slider", NS_JOINT_PRISMATIC, 'x', 0.0, 0.0);
    add_link(b, &l);
    l = link_of("block", NS_JOINT_PRISMATIC, 'z', block, 1.0);
    l.parent = "slider";
    l.origin.position[2] = 0.4;
    add_link(b, &l);
    ns_geom_def d = geom_of("tray", "tray", NS_GEOM_PLANE, 0.0, 0.0, 0.0);
    add_geom(b, &d);
    d = geom_of("block", "block", NS_GEOM_BOX, 0.2, 0.2, 0.1);
    add_geom(b, &d);
    return finish(b, 1);
}

static void a_block_on_a_tray_sticks_or_slides(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu", "contact/*/mu_static", "joint/tray/rest"};
    const double M = 3.0, m = 2.0, mu = 0.3, T = 0.5, half = T * T / 2.0, k = 1e-3;
    for (int way = 0; way < 3; way++) { // cone, pyramid, springs
        bool rigid = way < 2;
        ns_system_options o =
            options_of(rigid ? NS_CONTACT_NCP : NS_CONTACT_SPRING, way % 2, names, 3);
        o.timestep = rigid ? 1e-3 : 2e-4;
        trial t = trial_of_model(tray_and_block(M, m), &o, rigid ? 500 : 2500);
        size_t at_mu = param_number(&t, "contact/*/mu"),
               at_force = param_number(&t, "joint/*/rest");
        size_t at_static = param_number(&t, "contact/*/mu_static");
        double dp[3], dx[6], tolerance = rigid ? 3e-3 : 1e-2;
        trial_set(&t, "contact/**", mu);
        if (!rigid) t.x0[BLOCK_Z] = -pow(m * g / 4.0 / (1e5 * m), 1.0 / 1.5); // settled

        // More than friction can pass on: the block has all of it, mu g.
        double force = 1.8 * mu * g * (M + m), v = 0.3; // no slip at the start would be a kink
        t.params[at_force] = force / k;
        t.x0[TRAY_V] = v;
        trial_run(&t);
        const double* end = trial_end(&t);
        close_to("way of the block", end[BLOCK_X], mu * g * half, tolerance);
        close_to("way of the tray", end[TRAY], v * T + (force - mu * m * g) / M * half, tolerance);
        // to rounding, and what the long spring loses
        close_to("momentum", M * end[TRAY_V] + m * end[BLOCK_VX], M * v + force * T, 2e-3);
        trial_gradient(&t, BLOCK_X, dx, dp);
        close_to("d block / d mu", dp[at_mu] + dp[at_static], g * half, 5.0 * tolerance);
        close_to("d block / d force", dp[at_force] / k, 0.0, 1e-3);
        close_to("d block / d vx", dx[BLOCK_VX], T, tolerance);
        close_to("d block / d tray v", dx[TRAY_V], 0.0, tolerance);
        trial_gradient(&t, TRAY, NULL, dp);
        close_to("d tray / d mu", dp[at_mu] + dp[at_static], -m * g / M * half, 5.0 * tolerance);
        close_to("d tray / d force", dp[at_force] / k, half / M, 1e-3);

        // Less: they move as one. Springs creep until friction is there: the slip is about
        // transition_velocity / 4 for half of mu.
        force = 0.5 * mu * g * (M + m);
        t.x0[TRAY_V] = 0.0;
        t.params[at_force] = force / k;
        trial_run(&t);
        double both = force / (M + m) * half;
        tolerance = rigid ? 1e-3 : 0.02;
        close_to("way of the block, sticking", end[BLOCK_X], both, tolerance);
        close_to("way of the tray, sticking", end[TRAY], both, tolerance);
        trial_gradient(&t, BLOCK_X, dx, dp);
        close_to("d block / d mu, sticking", dp[at_mu] + dp[at_static], 0.0, rigid ? 1e-3 : 0.05);
        close_to("d block / d force, sticking", dp[at_force] / k, half / (M + m), 2e-3);
        // A push on either is a push on both.
        close_to("d block / d vx, sticking", dx[BLOCK_VX], T * m / (M + m), rigid ? 2e-3 : 0.05);
        close_to("d block / d tray v, sticking", dx[TRAY_V], T * M / (M + m), rigid ? 2e-3 : 0.05);
        trial_free(&t);
    }
}

// ---- a joint that follows another ----------------------------------------------------------

// One slider goes down by q, another by 2 q, and its ball hits the ground: by virtual work the mass
// is m + 4 M and the weight (m + 2 M) g.
static void a_mimic_joint_bounces(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/restitution"};
    const double m = 0.7, M = 0.4, radius = 0.1, height = 0.6, e = 0.7, T = 0.5;
    const double fall = g * (m + 2.0 * M) / (m + 4.0 * M), drop = (height - radius) / 2.0;
    for (int friction = 0; friction < 2; friction++) {
        ns_model_builder* b = begin(g);
        ns_link_def l = link_of("first", NS_JOINT_PRISMATIC, 'z', m, 1.0);
        l.origin.position[0] = 1.0;
        add_link(b, &l);
        l = link_of("second", NS_JOINT_PRISMATIC, 'z', M, 1.0);
        l.origin.position[2] = height;
        l.mimic = "first";
        l.mimic_multiplier = 2.0;
        add_link(b, &l);
        ns_geom_def d = geom_of("ground", NULL, NS_GEOM_PLANE, 0.0, 0.0, 0.0);
        add_geom(b, &d);
        d = geom_of("ball", "second", NS_GEOM_SPHERE, radius, 0.0, 0.0);
        add_geom(b, &d);
        ns_system_options o = options_of(NS_CONTACT_NCP, friction, names, 1);
        trial t = trial_of_model(finish(b, 1), &o, 500);
        assert_int_equal(t.n.nx, 2);
        trial_set(&t, "**", e);
        trial_run(&t);
        double t1 = sqrt(2.0 * drop / fall), v1 = fall * t1, rest = T - t1, dt1 = t1 / (2.0 * drop);
        close_to("height", trial_end(&t)[0], e * v1 * rest - fall * rest * rest / 2.0 - drop, 3e-3);
        close_to("velocity", trial_end(&t)[1], e * v1 - fall * rest, 1e-2);
        double dx[2], de;
        trial_gradient(&t, 0, dx, &de);
        close_to("d height / d start", dx[0],
                 e * fall * dt1 * rest - e * v1 * dt1 + fall * rest * dt1, 1e-2);
        close_to("d height / d restitution", de, v1 * rest, 5e-3);
        trial_free(&t);
    }
}

// ---- a ball joint --------------------------------------------------------------------------

// A pendulum on a ball joint without gravity swings to a wall that it hits when it hangs straight
// down, and comes back with e of its speed.
static void a_pendulum_on_a_ball_joint_hits_a_wall(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/restitution", "contact/*/mu"};
    const double angle = 0.3123, speed = 1.2, e = 0.6, T = 0.5, radius = 0.05;
    for (int friction = 0; friction < 2; friction++) {
        ns_model_builder* b = begin(0.0);
        ns_link_def l = link_of("arm", NS_JOINT_SPHERICAL, 'z', 0.8, 0.01);
        l.com[2] = -0.7;
        l.origin.position[2] = 1.0;
        add_link(b, &l);
        ns_geom_def d = geom_of("wall", NULL, NS_GEOM_PLANE, 0.0, 0.0, 0.0);
        d.pose.position[0] = radius;
        d.pose.quaternion[0] = sqrt(0.5), d.pose.quaternion[2] = -sqrt(0.5); // outside is -x
        add_geom(b, &d);
        d = geom_of("bob", "arm", NS_GEOM_SPHERE, radius, 0.0, 0.0);
        d.pose.position[2] = -0.7;
        add_geom(b, &d);
        ns_system_options o = options_of(NS_CONTACT_NCP, friction, names, 2);
        trial t = trial_of_model(finish(b, 1), &o, 500);
        trial_set(&t, "contact/*/restitution", e);
        trial_set(&t, "contact/*/mu", 0.0);
        t.x0[0] = cos(angle / 2.0), t.x0[2] = sin(angle / 2.0);
        t.x0[5] = -speed; // about y
        trial_run(&t);
        double end = e * (speed * T - angle); // angle
        close_to("angle", 2.0 * atan2(trial_end(&t)[2], trial_end(&t)[0]), end, 1e-6);
        close_to("speed", trial_end(&t)[5], e * speed, 1e-6);
        double dx[7], dp[2];
        // The wall is hit at an angle that the step decides, by 1e-3: that much of the derivative.
        const double gradient = 2e-4;
        trial_gradient(&t, 5, dx, dp);
        close_to("d speed / d speed", dx[5], -e, gradient);
        close_to("d speed / d e", dp[param_number(&t, "contact/*/restitution")], speed, gradient);
        trial_gradient(&t, 2, dx, dp); // sin(angle / 2)
        close_to("d sine / d speed", dx[5], -cos(end / 2.0) / 2.0 * e * T, gradient);
        close_to("d sine / d e", dp[param_number(&t, "contact/*/restitution")],
                 cos(end / 2.0) / 2.0 * (speed * T - angle), gradient);
        // Along the rotation of the start, d q = (-sin, cos) / 2: sin(end / 2) by -e.
        close_to("d sine / d angle", (-t.x0[2] * dx[0] + t.x0[0] * dx[2]) / 2.0,
                 -cos(end / 2.0) / 2.0 * e, gradient);
        trial_free(&t);
    }
}

// ---- a rod and a plate ---------------------------------------------------------------------

enum { ROD, PLATE_X, PLATE_Y, PLATE_TURN, ROD_V, PLATE_VX, PLATE_VY, PLATE_SPIN };

static const double rod_mass = 0.6, plate_mass = 0.9, plate_inertia = 0.02, rod_radius = 0.02;

// An upright rod that slides along x, and a plate that moves in the plane.
static ns_model* rod_and_plate(const ns_geom_def* plate) {
    ns_model_builder* b = begin(0.0);
    ns_link_def l = link_of("rod", NS_JOINT_PRISMATIC, 'x', rod_mass, 1.0);
    l.origin.position[0] = -0.5;
    add_link(b, &l);
    l = link_of("x", NS_JOINT_PRISMATIC, 'x', 0.0, 0.0);
    add_link(b, &l);
    l = link_of("y", NS_JOINT_PRISMATIC, 'y', 0.0, 0.0);
    l.parent = "x";
    add_link(b, &l);
    l = link_of("plate", NS_JOINT_REVOLUTE, 'z', plate_mass, plate_inertia);
    l.parent = "y";
    add_link(b, &l);
    ns_geom_def d = geom_of("rod", "rod", NS_GEOM_CYLINDER, rod_radius, 0.1, 0.0);
    add_geom(b, &d);
    add_geom(b, plate);
    return finish(b, 1);
}

// What a smooth impact of the rod at speed v does: the normal n points out of the plate, at the
// point p of it (from its centre).
typedef struct impact {
    double rod, x, y, spin; // velocities after it
} impact;

static impact after_impact(const double p[2], const double n[2], double e, double v) {
    double lever = p[0] * n[1] - p[1] * n[0];
    double inverse = n[0] * n[0] / rod_mass + 1.0 / plate_mass + lever * lever / plate_inertia;
    double j = (1.0 + e) * v * -n[0] / inverse; // on the rod along n
    return (impact){.rod = v + j * n[0] / rod_mass,
                    .x = -j * n[0] / plate_mass,
                    .y = -j * n[1] / plate_mass,
                    .spin = -j * lever / plate_inertia};
}

static void check_impact(const trial* t, const impact* want, double tolerance) {
    const double* end = trial_end(t);
    close_to("speed of the rod", end[ROD_V], want->rod, tolerance);
    close_to("speed of the plate, x", end[PLATE_VX], want->x, tolerance);
    close_to("speed of the plate, y", end[PLATE_VY], want->y, tolerance);
    close_to("spin of the plate", end[PLATE_SPIN], want->spin, 10.0 * tolerance);
}

// Derivatives of the velocities after the impact, for the speed before it and for where the plate
// is: by differences of the closed form.
static void check_impact_gradient(trial* t, impact (*at)(double y, double v), double v, double y,
                                  double tolerance) {
    static const int component[] = {ROD_V, PLATE_VX, PLATE_VY, PLATE_SPIN};
    const double h = 1e-5;
    impact a = at(y + h, v), b = at(y - h, v), f = at(y, 1.0);
    double by_y[] = {a.rod - b.rod, a.x - b.x, a.y - b.y, a.spin - b.spin};
    double by_v[] = {f.rod, f.x, f.y, f.spin}; // they are proportional to v
    for (int k = 0; k < 4; k++) {
        double dx[8], dp[2];
        trial_gradient(t, (uint32_t)component[k], dx, dp);
        close_to("d velocity / d speed", dx[ROD_V], by_v[k], tolerance);
        close_to("d velocity / d y", dx[PLATE_Y], by_y[k] / (2.0 * h), 100.0 * tolerance);
        close_to("d velocity / d x", dx[PLATE_X] + dx[ROD], 0.0, 1e-9); // nothing but where it is
    }
}

static const double restitution = 0.8;
static const double half_side = 0.15;

static impact square_impact(double y, double v) {
    double p[] = {-half_side, -y}, n[] = {-1.0, 0.0};
    return after_impact(p, n, restitution, v);
}

static const double half_a = 0.2, half_b = 0.1;

// The point of the ellipse that a rod meets whose centre goes along the line -y below its centre.
static impact ellipse_impact(double y, double v) {
    double low = 1.6, high = 3.14159; // of the angle: height falls
    double p[2] = {0}, n[2] = {0};
    for (int k = 0; k < 100; k++) {
        double u = (low + high) / 2.0, nx = cos(u) / half_a, ny = sin(u) / half_b;
        double size = sqrt(nx * nx + ny * ny);
        n[0] = nx / size, n[1] = ny / size;
        p[0] = half_a * cos(u), p[1] = half_b * sin(u);
        *(p[1] + rod_radius * n[1] > -y ? &low : &high) = u;
    }
    return after_impact(p, n, restitution, v);
}

static void rod_hits(const ns_geom_def* plate, impact (*at)(double y, double v), double tolerance,
                     double gradient_tolerance) {
    static const char* const names[] = {"contact/*/restitution", "contact/*/mu"};
    const double v = 1.5317, y = -0.06;
    for (int friction = 0; friction < 2; friction++) {
        ns_system_options o = options_of(NS_CONTACT_NCP, friction, names, 2);
        trial t = trial_of_model(rod_and_plate(plate), &o, 250);
        trial_set(&t, "contact/*/restitution", restitution);
        trial_set(&t, "contact/*/mu", 0.0);
        t.x0[PLATE_Y] = y;
        t.x0[ROD_V] = v;
        trial_run(&t);
        impact want = at(y, v);
        assert_true(fabs(want.spin) > 1.0);
        double momentum = rod_mass * trial_end(&t)[ROD_V] + plate_mass * trial_end(&t)[PLATE_VX];
        close_to("momentum", momentum, rod_mass * v, 1e-12);
        check_impact(&t, &want, tolerance);
        check_impact_gradient(&t, at, v, y, gradient_tolerance);
        trial_free(&t);
    }
}

static void a_rod_hits_a_polygon(void** state) {
    (void)state;
    const double s = half_side;
    // The square with a notch at its far side, clockwise.
    const double outline[] = {-s, -s, 0, -s, s, 0, s, s, 0, 0.02, 0, 0, s, -s, 0};
    ns_geom_def d = geom_of("plate", "plate", NS_GEOM_POLYGON, 0.05, 0.0, 0.0);
    d.vertices = outline;
    d.nvertex = 5;
    rod_hits(&d, square_impact, 1e-6, 1e-6);
}

// On a curved side the normal at the impact is not that at the start of the step, which is 1.5 mm
// away: whoever takes the speed along one and the impulse along the other has a value that is off by
// 1e-3 and a derivative that is off by its own size at any time step.
static void a_rod_hits_an_ellipse(void** state) {
    (void)state;
    ns_geom_def d = geom_of("plate", "plate", NS_GEOM_ELLIPSE, half_a, half_b, 0.05);
    rod_hits(&d, ellipse_impact, 1e-4, 1e-2);
}

// The same for balls that do not meet head-on.
static impact ball_impact(double y, double v) {
    double n[] = {-sqrt(0.2 * 0.2 - y * y) / 0.2, -y / 0.2}, p[] = {0.1 * n[0], 0.1 * n[1]};
    return after_impact(p, n, restitution, v);
}

static void a_ball_hits_a_ball_aside(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/restitution", "contact/*/mu"};
    const double v = 1.5317, y = -0.12;
    ns_model_builder* b = begin(0.0);
    ns_link_def l = link_of("rod", NS_JOINT_PRISMATIC, 'x', rod_mass, 1.0);
    l.origin.position[0] = -0.5;
    add_link(b, &l);
    l = link_of("x", NS_JOINT_PRISMATIC, 'x', 0.0, 0.0);
    add_link(b, &l);
    l = link_of("y", NS_JOINT_PRISMATIC, 'y', 0.0, 0.0);
    l.parent = "x";
    add_link(b, &l);
    l = link_of("plate", NS_JOINT_REVOLUTE, 'z', plate_mass, plate_inertia);
    l.parent = "y";
    add_link(b, &l);
    ns_geom_def d = geom_of("a", "rod", NS_GEOM_SPHERE, 0.1, 0.0, 0.0);
    add_geom(b, &d);
    d = geom_of("b", "plate", NS_GEOM_SPHERE, 0.1, 0.0, 0.0);
    add_geom(b, &d);
    ns_system_options o = options_of(NS_CONTACT_NCP, 0, names, 2);
    trial t = trial_of_model(finish(b, 1), &o, 300);
    trial_set(&t, "contact/*/restitution", restitution);
    trial_set(&t, "contact/*/mu", 0.0);
    t.x0[PLATE_Y] = y;
    t.x0[ROD_V] = v;
    trial_run(&t);
    impact want = ball_impact(y, v);
    check_impact(&t, &want, 1e-4);
    check_impact_gradient(&t, ball_impact, v, y, 1e-2);
    trial_free(&t);
}

// Pushed without restitution in the middle of a side, both go on as one.
static void a_rod_pushes_a_plate(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu"};
    const double s = half_side, v = 1.5, T = 1.0;
    const double outline[] = {-s, -s, 0, s, -s, 0, s, s, 0, -s, s, 0};
    const double reach = 0.5 - s - rod_radius, both = rod_mass / (rod_mass + plate_mass);
    for (int shape = 0; shape < 2; shape++) {
        ns_geom_def d = geom_of("plate", "plate", NS_GEOM_ELLIPSE, s, 0.1, 0.05);
        if (shape == 0) {
            d = geom_of("plate", "plate", NS_GEOM_POLYGON, 0.05, 0.0, 0.0);
            d.vertices = outline;
            d.nvertex = 4;
        }
        ns_system_options o = options_of(NS_CONTACT_NCP, 0, names, 1);
        trial t = trial_of_model(rod_and_plate(&d), &o, 1000);
        trial_set(&t, "**", 0.5);
        t.x0[ROD_V] = v;
        trial_run(&t);
        const double* end = trial_end(&t);
        double t1 = reach / v;
        close_to("speed of the rod", end[ROD_V], both * v, 1e-4);
        close_to("speed of the plate", end[PLATE_VX], both * v, 1e-4);
        close_to("way of the plate", end[PLATE_X], both * v * (T - t1), 1e-3);
        close_to("gap", end[PLATE_X] - end[ROD], -reach, 1e-4);
        close_to("turn", end[PLATE_TURN], 0.0, 1e-9);
        double dx[8], dp[1];
        trial_gradient(&t, PLATE_X, dx, dp);
        close_to("d way / d speed", dx[ROD_V], both * T, 2e-3);
        close_to("d way / d rod", dx[ROD], both, 2e-3);
        close_to("d way / d plate", dx[PLATE_X], 1.0 - both, 2e-3);
        close_to("d way / d mu", dp[0], 0.0, 1e-9);
        trial_free(&t);
    }
}

// ---- things that slide ---------------------------------------------------------------------

enum { SLIDE_VX = 7 };

static ns_model* thing_on_ground(const ns_geom_def* geom, double height) {
    ns_model_builder* b = begin(g);
    ns_link_def l = link_of("thing", NS_JOINT_FLOATING, 'z', 2.0, 0.03);
    l.origin.position[2] = height;
    add_link(b, &l);
    ns_geom_def d = geom_of("ground", NULL, NS_GEOM_PLANE, 0.0, 0.0, 0.0);
    add_geom(b, &d);
    add_geom(b, geom);
    return finish(b, 1);
}

// A flat plate with nine points under it.
static void a_grid_of_points_slides_its_distance(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu", "contact/*/mu_static",
                                        "contact/*/transition_velocity"};
    const double mu = 0.4, v = 1.5, m = 2.0;
    double grid[27];
    for (int k = 0; k < 9; k++) {
        grid[3 * k] = 0.15 * (k % 3 - 1);
        grid[3 * k + 1] = 0.1 * (k / 3 - 1);
        grid[3 * k + 2] = -0.01;
    }
    for (int model = NS_CONTACT_NCP; model <= NS_CONTACT_SPRING; model++) {
        bool rigid = model == NS_CONTACT_NCP;
        ns_geom_def d = geom_of("grid", "thing", NS_GEOM_POINTS, 0.0, 0.0, 0.0);
        d.vertices = grid;
        d.nvertex = 9;
        ns_system_options o = options_of((ns_contact_model)model, 0, names, 3);
        o.timestep = rigid ? 1e-3 : 2e-4;
        // Springs start where they carry the weight.
        double sag = rigid ? 0.0 : pow(m * g / 9.0 / (1e5 * m), 1.0 / 1.5);
        trial t = trial_of_model(thing_on_ground(&d, 0.01 - sag), &o, rigid ? 1000 : 5000);
        trial_set(&t, "contact/*/mu", mu);
        trial_set(&t, "contact/*/mu_static", mu);
        trial_set(&t, "contact/*/transition_velocity", 0.02);
        t.x0[SLIDE_VX] = v;
        trial_run(&t);
        double distance = v * v / (2.0 * mu * g);
        close_to("distance", trial_end(&t)[0], distance, rigid ? 2e-3 : 5e-3);
        close_to("velocity", trial_end(&t)[SLIDE_VX], 0.0, 1e-3);
        close_to("height", trial_end(&t)[2], 0.01 - sag, 1e-4);
        close_to("way aside", trial_end(&t)[1], 0.0, 1e-6);
        double dx[13], dp[3];
        trial_gradient(&t, 0, dx, dp);
        close_to("d distance / d v", dx[SLIDE_VX], v / (mu * g), rigid ? 4e-3 : 0.01);
        close_to("d distance / d mu",
                 dp[param_number(&t, names[0])] + dp[param_number(&t, names[1])], -distance / mu,
                 rigid ? 4e-3 : 0.03);
        close_to("d distance / d x", dx[0], 1.0, 1e-6);
        trial_free(&t);
    }
}

// A mesh with the corners of a box does what the box does.
static void a_mesh_slides_and_tumbles_as_a_box(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu"};
    const double size[] = {0.2, 0.15, 0.1}, mu = 0.4, v = 1.5;
    double corners[24];
    for (int k = 0; k < 24; k++) corners[k] = k / 3 >> k % 3 & 1 ? 1.0 : -1.0;
    for (int friction = 0; friction < 2; friction++) {
        ns_geom_def box = geom_of("thing", "thing", NS_GEOM_BOX, size[0], size[1], size[2]);
        ns_geom_def mesh = geom_of("thing", "thing", NS_GEOM_MESH, size[0], size[1], size[2]);
        mesh.vertices = corners;
        mesh.nvertex = 8;
        ns_system_options o = options_of(NS_CONTACT_NCP, friction, names, 1);
        trial t = trial_of_model(thing_on_ground(&mesh, size[2]), &o, 1000);
        trial_set(&t, "**", mu);
        t.x0[SLIDE_VX] = v;
        trial_run(&t);
        close_to("distance", trial_end(&t)[0], v * v / (2.0 * mu * g), 2e-3);
        double dx[13], dp[1], dx_box[13], dp_box[1];
        trial_gradient(&t, 0, dx, dp);
        close_to("d distance / d v", dx[SLIDE_VX], v / (mu * g), 4e-3);
        close_to("d distance / d mu", dp[0], -v * v / (2.0 * mu * mu * g), 4e-3);

        // Thrown, until some time after the first impact.
        trial as_box = trial_of_model(thing_on_ground(&box, size[2]), &o, 1000);
        trial_set(&as_box, "**", mu);
        trial* both[] = {&t, &as_box};
        for (int k = 0; k < 2; k++) {
            const double throw[] = {0.0, 0.0, 0.5, 0.8, 0.2,  0.4, 0.4,
                                    0.5, 0.2, 0.0, 1.0, -1.0, 2.0};
            memcpy(both[k]->x0, throw, sizeof throw);
            trial_run(both[k]);
        }
        for (uint32_t k = 0; k < 13; k++) {
            close_to(ns_system_state_name(t.system, k), trial_end(&t)[k], trial_end(&as_box)[k],
                     1e-6);
        }
        assert_true(fabs(trial_end(&t)[2]) < 0.25); // it has landed
        trial_gradient(&t, 0, dx, dp);
        trial_gradient(&as_box, 0, dx_box, dp_box);
        for (int k = 7; k < 13; k++)
            close_to("d x / d v", dx[k], dx_box[k], 1e-5 + 1e-5 * fabs(dx[k]));
        close_to("d x / d mu", dp[0], dp_box[0], 1e-5);
        trial_free(&t);
        trial_free(&as_box);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_on_a_tray_sticks_or_slides),
        cmocka_unit_test(a_mimic_joint_bounces),
        cmocka_unit_test(a_pendulum_on_a_ball_joint_hits_a_wall),
        cmocka_unit_test(a_rod_hits_a_polygon),
        cmocka_unit_test(a_rod_hits_an_ellipse),
        cmocka_unit_test(a_ball_hits_a_ball_aside),
        cmocka_unit_test(a_rod_pushes_a_plate),
        cmocka_unit_test(a_grid_of_points_slides_its_distance),
        cmocka_unit_test(a_mesh_slides_and_tumbles_as_a_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
