// Equality constraints in motion: closed forms of a four-bar linkage, equivalent trees, order and drift.

#include "neuralsim/gradcheck.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/evaluate.h"
#include "support/modelfile.h"
#include "support/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- a four-bar linkage --------------------------------------------------------------------------

// Crank of length R at the origin, rocker of length S at x = D, and a coupler whose far joint is at
// (CX, CZ) in its frame. Hinges about +y: a rod along z at the angle t ends at (sin t, cos t).
static const double R = 0.2, S = 0.4, D = 0.5, CX = 0.5, CZ = 0.2;

// The linkage in the frame of a body that may be turned; hinges are about its y axis.
#define FOUR_BAR(turn, equality)                                                                   \
    "<mujoco><compiler angle='radian'/><option timestep='0.001'/><worldbody>"                      \
    "<body name='frame' " turn ">"                                                                 \
    "<body name='crank'><joint name='j1' axis='0 1 0'/>"                                           \
    "<inertial pos='0 0 0.1' mass='1' diaginertia='0.01 0.01 0.001'/>"                             \
    "<body name='coupler' pos='0 0 0.2'><joint name='j2' axis='0 1 0'/>"                           \
    "<inertial pos='0.25 0 0.1' mass='1' diaginertia='0.01 0.03 0.03'/></body></body>"             \
    "<body name='rocker' pos='0.5 0 0'><joint name='j3' axis='0 1 0'/>"                            \
    "<inertial pos='0 0 0.2' mass='1' diaginertia='0.02 0.02 0.001'/></body>"                      \
    "</body></worldbody><equality>" equality "</equality></mujoco>"
#define LOOP "<connect name='loop' body1='rocker' body2='coupler' anchor='0 0 0.4'/>"

static const char four_bar[] = FOUR_BAR("", LOOP);

// Angles of coupler and rocker in the world, from the crank's, near given ones: Newton's method on the
// closure of the loop,
//     R (sin a, cos a) + C(b) = (D, 0) + S (sin c, cos c).
static void close_loop(double a, double* b, double* c) {
    for (int k = 0; k < 50; k++) {
        double ex = R * sin(a) + CX * cos(*b) + CZ * sin(*b) - D - S * sin(*c);
        double ez = R * cos(a) - CX * sin(*b) + CZ * cos(*b) - S * cos(*c);
        double bx = -CX * sin(*b) + CZ * cos(*b), bz = -CX * cos(*b) - CZ * sin(*b);
        double cx = -S * cos(*c), cz = S * sin(*c), det = bx * cz - bz * cx;
        *b -= (ex * cz - ez * cx) / det;
        *c -= (bx * ez - bz * ex) / det;
    }
}

// Rates of coupler and rocker from `ax, az`: what the crank and products of rates contribute.
static void solve_rates(double b, double c, double ax, double az, double* wb, double* wc) {
    double bx = -CX * sin(b) + CZ * cos(b), bz = -CX * cos(b) - CZ * sin(b);
    double cx = -S * cos(c), cz = S * sin(c), det = bx * cz - bz * cx;
    *wb = -(ax * cz - az * cx) / det;
    *wc = -(bx * az - bz * ax) / det;
}

static ns_system_options options_with(ns_integrator integrator, double timestep) {
    ns_system_options options = ns_default_system_options();
    options.integrator = (int)integrator;
    options.timestep = timestep;
    return options;
}

// Velocities (j1, j2, j3) of the linkage at q = 0 whose crank turns at `rate`.
static void turn_crank(double* qd, double rate) {
    double wb, wc;
    solve_rates(0.0, 0.0, R * rate, 0.0, &wb, &wc);
    qd[0] = rate, qd[1] = wb - rate, qd[2] = wc;
}

// Angles in the world satisfy the closure of the loop in position, velocity and acceleration.
static void check_closure(const double* q, const double* qd, const double* qdd, double position,
                          double velocity, double acceleration) {
    double a = q[0], b = q[0] + q[1], c = q[2], wb, wc;
    double b0 = b, c0 = c;
    close_loop(a, &b, &c);
    close_to("coupler", b0, b, position);
    close_to("rocker", c0, c, position);

    solve_rates(b, c, R * cos(a) * qd[0], -R * sin(a) * qd[0], &wb, &wc);
    close_to("rate of the coupler", qd[0] + qd[1], wb, velocity);
    close_to("rate of the rocker", qd[2], wc, velocity);

    // Second derivative: centripetal parts of all three.
    double ax = R * (cos(a) * qdd[0] - sin(a) * qd[0] * qd[0]);
    double az = -R * (sin(a) * qdd[0] + cos(a) * qd[0] * qd[0]);
    ax += wb * wb * (-CX * cos(b) - CZ * sin(b)) + wc * wc * S * sin(c);
    az += wb * wb * (CX * sin(b) - CZ * cos(b)) + wc * wc * S * cos(c);
    double alpha_b, alpha_c;
    solve_rates(b, c, ax, az, &alpha_b, &alpha_c);
    close_to("acceleration of the coupler", qdd[0] + qdd[1], alpha_b, acceleration);
    close_to("acceleration of the rocker", qdd[2], alpha_c, acceleration);
}

// Runge-Kutta projects on the constraints, up to the square of what it takes off; Euler leaves terms of third
// order in positions and of first order in velocities.
static void a_four_bar_linkage_closes(void** state) {
    (void)state;
    const struct {
        ns_integrator integrator;
        double position, velocity, acceleration;
    } cases[] = {{NS_INTEGRATOR_RK4, 1e-11, 1e-8, 1e-6}, {NS_INTEGRATOR_EULER, 2e-6, 0.2, 3.0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_system_options options = options_with(cases[k].integrator, 1e-3);
        static const char* const observe[] = {"qdd"};
        options.observe = observe;
        options.nobserve = 1;
        trial t = trial_make(four_bar, &options, 3000);
        turn_crank(t.x0 + 3, 6.0);
        trial_run(&t);
        for (uint32_t step = 0; step < t.steps; step += 97) {
            const double* x = trial_state(&t, step);
            check_closure(x, x + 3, t.observations + (size_t)step * 3, cases[k].position,
                          cases[k].velocity, cases[k].acceleration);
        }
        trial_free(&t);
    }
}

static double energy_drift(ns_integrator integrator, double dt, double time) {
    ns_system_options options = options_with(integrator, dt);
    static const char* const observe[] = {"energy/total"};
    options.observe = observe;
    options.nobserve = 1;
    uint32_t steps = (uint32_t)lround(time / dt), ny;
    ns_model* model = modelfile_parse(four_bar);
    double x0[6] = {0.0};
    turn_crank(x0 + 3, 6.0);
    double* y = observe_rollout(model, &options, x0, steps, &ny);
    double drift = y[steps - 1] - y[0];
    free(y);
    ns_model_free(model);
    return drift;
}

// Kinetic energy of the start is about 9 J.
static void energy_converges_with_the_order_of_the_integrator(void** state) {
    (void)state;
    double coarse = energy_drift(NS_INTEGRATOR_EULER, 5e-4, 10.0);
    double fine = energy_drift(NS_INTEGRATOR_EULER, 2.5e-4, 10.0);
    assert_true(fabs(fine) < 0.2);
    close_to("order of euler", log2(coarse / fine), 1.0, 0.3);
    coarse = energy_drift(NS_INTEGRATOR_RK4, 4e-3, 10.0);
    fine = energy_drift(NS_INTEGRATOR_RK4, 2e-3, 10.0);
    assert_true(fabs(fine) < 1e-4);
    assert_true(log2(coarse / fine) > 3.5);
}

// A point at the end of a connect with nothing else on it: SHAKE keeps its speed, at any step, and drifts
// nowhere.
static void a_circle_is_kept(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><option gravity='0 0 0'/><worldbody><body name='ball'><freejoint/>"
        "<inertial pos='0 0 0' mass='1' diaginertia='1e-3 1e-3 1e-3'/></body></worldbody>"
        "<equality><connect name='string' body1='ball' anchor='1 0 0'/></equality></mujoco>";
    static const char* const observe[] = {"equality/string/violation", "equality/string/force",
                                          "qd"};
    ns_system_options options = options_with(NS_INTEGRATOR_EULER, 1e-2);
    options.observe = observe;
    options.nobserve = 3;
    enum { STEPS = 10000, NY = 12 };
    const double w = 2.0, x0[13] = {0, 0, 0, 1, 0, 0, 0, 0, -w, 0, 0, 0, w}; // about the anchor
    ns_model* model = modelfile_parse(text);
    uint32_t ny;
    double* y = observe_rollout(model, &options, x0, STEPS, &ny);
    assert_int_equal(ny, NY);

    // For 100 s of 0.02 rad in each step: each leaves the circle by (w dt)^3 / 6 = 1.33e-6, and half of what
    // is there is taken back (recovery in 0.02 s). At the same speed, pulled by m w^2 r.
    for (uint32_t k = 0; k < STEPS; k++) {
        const double *violation = y + (size_t)k * NY, *force = violation + 3, *qd = force + 3;
        assert_true(max_abs(violation, 3) < 2.67e-6);
        close_relative(hypot(force[0], force[1]), w * w, 1e-3);
        close_relative(hypot(qd[0], qd[1]), w, 1e-3);
        close_relative(qd[5], w, 1e-3);
    }
    free(y);
    ns_model_free(model);
}

// Where anchors are apart, forces act at one point between them: one step keeps the angular momentum. (The
// recovery is slow here: it moves bodies, which is no momentum, but moves what they carry.)
static void anchors_that_are_apart_keep_momentum(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><option gravity='0 0 0'/><worldbody><body name='a'><freejoint/>"
        "<inertial pos='0 0 0' mass='1' diaginertia='2e-2 2e-2 2e-2'/></body>"
        "<body name='b' pos='1 0 0'><freejoint/>"
        "<inertial pos='0 0 0' mass='2' diaginertia='1e-2 1e-2 1e-2'/></body></worldbody>"
        "<equality><connect body1='a' body2='b' anchor='0.4 0 0' solref='1e6 "
        "1'/></equality></mujoco>";
    static const char* const observe[] = {"momentum/angular", "momentum/linear"};
    const ns_integrator integrators[] = {NS_INTEGRATOR_EULER, NS_INTEGRATOR_IMPLICIT};
    ns_model* model = modelfile_parse(text);
    for (size_t k = 0; k < sizeof integrators / sizeof *integrators; k++) {
        ns_system_options options = options_with(integrators[k], 1e-3);
        options.observe = observe;
        options.nobserve = 2;

        // 1 cm apart across the line of the bodies.
        const double x0[26] = {0, 0, 0,   1, 0,   0,   0,   1, 0.006, -0.008, 1, 0,   0,
                               0, 0, 0.1, 0, 0.3, 0.7, 0.5, 0, -0.1,  0,      1, 0.2, -0.9};
        uint32_t ny;
        double* y = observe_rollout(model, &options, x0, 2, &ny);
        assert_int_equal(ny, 6);
        for (uint32_t i = 0; i < ny; i++) close_to("momentum", y[ny + i], y[i], 1e-9);
        free(y);
    }
    ns_model_free(model);
}

static void drift_stays_bounded(void** state) {
    (void)state;
    static const char* const observe[] = {"equality/loop/violation"};
    ns_system_options options = options_with(NS_INTEGRATOR_EULER, 1e-3);
    options.observe = observe;
    options.nobserve = 1;
    enum { STEPS = 100000 };
    ns_model* model = modelfile_parse(four_bar);
    double x0[6] = {0.0};
    uint32_t ny;
    turn_crank(x0 + 3, 3.0);
    double* y = observe_rollout(model, &options, x0, STEPS, &ny);
    assert_true(max_abs(y, ny * (size_t)STEPS) < 1e-6);
    free(y);
    ns_model_free(model);
}

// ---- equivalent trees ----------------------------------------------------------------------------

// Position of a body from its orientation w x y z: `anchor` of it is at `at`.
static void hang(const double* quaternion, const double* anchor, const double* at, double* out) {
    double w = quaternion[0], r[3];
    const double* u = quaternion + 1;
    double cross[3] = {u[1] * anchor[2] - u[2] * anchor[1] + w * anchor[0],
                       u[2] * anchor[0] - u[0] * anchor[2] + w * anchor[1],
                       u[0] * anchor[1] - u[1] * anchor[0] + w * anchor[2]};
    r[0] = anchor[0] + 2.0 * (u[1] * cross[2] - u[2] * cross[1]);
    r[1] = anchor[1] + 2.0 * (u[2] * cross[0] - u[0] * cross[2]);
    r[2] = anchor[2] + 2.0 * (u[0] * cross[1] - u[1] * cross[0]);
    for (int k = 0; k < 3; k++) out[k] = at[k] - r[k];
}

static void a_connected_body_is_a_spherical_pendulum(void** state) {
    (void)state;
#define BOB "<inertial pos='0.01 0.02 -0.3' mass='1' diaginertia='0.02 0.03 0.01'/>"
    static const char free_bob[] =
        "<mujoco><worldbody><body name='bob'><freejoint/>" BOB "</body></worldbody>"
        "<equality><connect body1='bob' anchor='0.02 0.03 0.3'/></equality></mujoco>";
    static const char tree[] = "<mujoco><worldbody><body name='bob'><joint type='ball' "
                               "pos='0.02 0.03 0.3'/>" BOB "</body></worldbody></mujoco>";
    static const double anchor[3] = {0.02, 0.03, 0.3};
    const ns_integrator integrators[] = {NS_INTEGRATOR_RK4, NS_INTEGRATOR_EULER,
                                         NS_INTEGRATOR_GYRO};
    const double dts[] = {1e-3, 1e-4, 1e-4}, tolerances[] = {1e-9, 1e-2, 1e-2};
    for (int k = 0; k < 3; k++) {
        ns_system_options options = options_with(integrators[k], dts[k]);
        uint32_t steps = (uint32_t)lround(2.0 / dts[k]);
        trial loop = trial_make(free_bob, &options, steps);
        trial ball = trial_make(tree, &options, steps);

        // The same orientation (a turn about x) and spin.
        const double spin[3] = {1.0, -2.0, 3.0}, turn[4] = {cos(0.6), sin(0.6), 0.0, 0.0};
        memcpy(ball.x0, turn, sizeof turn);
        memcpy(ball.x0 + 4, spin, sizeof spin);
        memcpy(loop.x0 + 3, turn, sizeof turn);
        memcpy(loop.x0 + 10, spin, sizeof spin);
        hang(turn, anchor, anchor, loop.x0);

        // The velocity of its origin: minus that of the anchor in relation to it, in the world.
        double cross[3] = {spin[1] * anchor[2] - spin[2] * anchor[1],
                           spin[2] * anchor[0] - spin[0] * anchor[2],
                           spin[0] * anchor[1] - spin[1] * anchor[0]};
        const double zero[3] = {0.0, 0.0, 0.0};
        hang(turn, cross, zero, loop.x0 + 7);
        trial_run(&loop);
        trial_run(&ball);
        double position[3];
        const double *a = trial_end(&loop), *b = trial_end(&ball);
        hang(b, anchor, anchor, position);
        all_close(a, position, 3, tolerances[k]);
        all_close(a + 3, b, 4, tolerances[k]);
        all_close(a + 10, b + 4, 3, 10.0 * tolerances[k]);
        trial_free(&loop);
        trial_free(&ball);
    }
#undef BOB
}

// Two free bodies that are welded, tumbling and falling, are one with a fixed joint.
static void welded_bodies_are_one(void** state) {
    (void)state;
#define FIRST "<inertial pos='0.1 0 0.05' mass='1' diaginertia='0.02 0.03 0.01'/>"
#define SECOND "<inertial pos='0 0.1 0.02' mass='0.5' diaginertia='0.01 0.004 0.008'/>"
#define PLACE "pos='0.3 -0.2 0.1' euler='20 30 -40'"
    static const char welded[] =
        "<mujoco><worldbody><body name='a'><freejoint/>" FIRST "</body>"
        "<body name='b' " PLACE "><freejoint/>" SECOND "</body></worldbody>"
        "<equality><weld name='w' body1='a' body2='b' anchor='0.05 0 0'/></equality></mujoco>";
    static const char merged[] =
        "<mujoco><worldbody><body name='a'><freejoint/>" FIRST "<body name='b' " PLACE ">" SECOND
        "</body></body></worldbody></mujoco>";
    static const char* const observe[] = {"link/b/pose", "link/b/velocity/linear"};
    ns_system_options options = options_with(NS_INTEGRATOR_RK4, 1e-3);
    options.observe = observe;
    options.nobserve = 2;
    enum { STEPS = 1000 };
    trial two = trial_make(welded, &options, STEPS), one = trial_make(merged, &options, STEPS);

    // The first body spins; the second gets what the fixed joint says.
    const double velocity[6] = {0.3, 0.2, 1.0, 3.0, -4.0, 5.0};
    memcpy(one.x0 + 7, velocity, sizeof velocity);
    trial_run(&one);
    memcpy(two.x0 + 14, velocity, sizeof velocity);
    const double* q = two.x0 + 10; // orientation of b; R' w of the first body's spin
    const double w[3] = {3.0, -4.0, 5.0}, back[4] = {q[0], -q[1], -q[2], -q[3]}, zero[3] = {0.0};
    double turned[3];
    hang(back, w, zero, turned); // minus
    for (int k = 0; k < 3; k++) two.x0[23 + k] = -turned[k];
    const double arm[3] = {0.3, -0.2, 0.1};
    two.x0[20] = velocity[0] + w[1] * arm[2] - w[2] * arm[1];
    two.x0[21] = velocity[1] + w[2] * arm[0] - w[0] * arm[2];
    two.x0[22] = velocity[2] + w[0] * arm[1] - w[1] * arm[0];
    trial_run(&two);

    all_close(trial_end(&two), trial_end(&one), 7, 1e-9);
    size_t last = (size_t)(STEPS - 1) * one.n.ny;
    assert_int_equal(one.n.ny, two.n.ny);
    all_close(two.observations + last, one.observations + last, one.n.ny, 1e-8);
    trial_free(&two);
    trial_free(&one);
#undef FIRST
#undef SECOND
#undef PLACE
}

// ---- polynomials ---------------------------------------------------------------------------------

// A bead on the wire y = c(x): masses M on the slider x, and m on the slider y that it carries. With y
// substituted, (M + m + m c'^2) x'' + m c' c'' x'^2 + m g c' = 0.
static const double coefficient[5] = {0.1, -0.2, 0.7, 0.3, 0.5};
static const double REF_X = 0.2, REF_Y = -0.1;

static void wire(double x, double* c, double* slope, double* bend) {
    const double* p = coefficient;
    x -= REF_X;
    *c = REF_Y + p[0] + x * (p[1] + x * (p[2] + x * (p[3] + x * p[4])));
    *slope = p[1] + x * (2.0 * p[2] + x * (3.0 * p[3] + x * 4.0 * p[4]));
    *bend = 2.0 * p[2] + x * (6.0 * p[3] + x * 12.0 * p[4]);
}

static double bead_acceleration(double x, double v) {
    const double M = 0.4, m = 1.5, g = 9.81;
    double c, slope, bend;
    wire(x, &c, &slope, &bend);
    return -(m * slope * bend * v * v + m * g * slope) / (M + m + m * slope * slope);
}

static void bead_step(double dt, double* x, double* v) {
    double a1 = bead_acceleration(*x, *v), v2 = *v + 0.5 * dt * a1;
    double a2 = bead_acceleration(*x + 0.5 * dt * *v, v2), v3 = *v + 0.5 * dt * a2;
    double a3 = bead_acceleration(*x + 0.5 * dt * v2, v3), v4 = *v + dt * a3;
    double a4 = bead_acceleration(*x + dt * v3, v4);
    *x += dt / 6.0 * (*v + 2.0 * v2 + 2.0 * v3 + v4);
    *v += dt / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4);
}

static void a_polynomial_is_a_substitution(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><worldbody><body><joint name='x' type='slide' axis='1 0 0' ref='0.2'/>"
        "<inertial pos='0 0 0' mass='0.4' diaginertia='1 1 1'/>"
        "<body><joint name='y' type='slide' axis='0 0 1' ref='-0.1'/>"
        "<inertial pos='0 0 0' mass='1.5' diaginertia='1 1 1'/></body></body></worldbody><equality>"
        "<joint name='wire' joint1='y' joint2='x' polycoef='0.1 -0.2 0.7 0.3 0.5'/>"
        "</equality></mujoco>";
    const double dt = 1e-3;
    ns_system_options options = options_with(NS_INTEGRATOR_RK4, dt);
    enum { STEPS = 3000 };
    trial t = trial_make(text, &options, STEPS);
    double x = -0.5, v = 0.3, y, slope, bend;
    wire(x, &y, &slope, &bend);
    t.x0[0] = x, t.x0[1] = y, t.x0[2] = v, t.x0[3] = slope * v;
    trial_run(&t);
    for (int k = 0; k < STEPS; k++) bead_step(dt, &x, &v);
    wire(x, &y, &slope, &bend);
    const double want[4] = {x, y, v, slope * v};
    all_close(trial_end(&t), want, 4, 1e-9);
    trial_free(&t);
}

// Without a second joint, the first one is held.
static void a_joint_is_held(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><compiler angle='radian'/><worldbody><body><joint name='j' axis='0 1 0'/>"
        "<inertial pos='0.5 0 0' mass='2' diaginertia='1 1 1'/></body></worldbody><equality>"
        "<joint name='brake' joint1='j' polycoef='0.3 0 0 0 0'/></equality></mujoco>";
    static const char* const observe[] = {"equality/brake/force", "qdd"};
    ns_system_options options = options_with(NS_INTEGRATOR_EULER, 1e-3);
    options.observe = observe;
    options.nobserve = 2;
    trial t = trial_make(text, &options, 100);
    t.x0[0] = 0.3;
    trial_run(&t);
    close_to("angle", trial_end(&t)[0], 0.3, 1e-10);
    close_to("torque", t.observations[0], -2.0 * 9.81 * 0.5 * cos(0.3), 1e-6);
    close_to("acceleration", t.observations[1], 0.0, 1e-6);
    trial_free(&t);
}

// ---- redundant rows, violations, inactive constraints ------------------------------------------------

// A planar loop in space has one row too many, of no effect in the plane of the hinges, or mixed into the
// others when the plane is tilted.
static void redundant_rows_do_no_harm(void** state) {
    (void)state;
    static const char tilted[] = FOUR_BAR("euler='0.3 0.5 -0.2'", LOOP);
    static const char twice[] = FOUR_BAR(
        "", LOOP "<connect name='again' body1='coupler' body2='rocker' anchor='0.5 0 0.2'/>");
    ns_system_options options = options_with(NS_INTEGRATOR_EULER, 1e-3);
    options.set = &(ns_param_value){"world/gravity/*", 0.0};
    options.nset = 1;
    enum { STEPS = 2000 };
    trial plain = trial_make(four_bar, &options, STEPS);
    turn_crank(plain.x0 + 3, 6.0);
    trial_run(&plain);
    const char* const texts[] = {tilted, twice};
    for (int k = 0; k < 2; k++) {
        trial t = trial_make(texts[k], &options, STEPS);
        turn_crank(t.x0 + 3, 6.0);
        trial_run(&t);
        all_close(trial_end(&t), trial_end(&plain), 6, 1e-6);
        trial_free(&t);
    }
    trial_free(&plain);
}

// Of a loop that is closed twice, each constraint carries half: the solution of least norm.
static void redundant_forces_are_shared(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><worldbody><body name='a'><freejoint/><inertial pos='0 0 0' mass='2' "
        "diaginertia='1 1 1'/></body></worldbody><equality><connect name='e' body1='a' "
        "anchor='0 0 0'/><connect name='f' body1='a' anchor='0 0 0'/></equality></mujoco>";
    static const char* const observe[] = {"equality/*/force"};
    ns_system_options options = options_with(NS_INTEGRATOR_EULER, 1e-3);
    options.observe = observe;
    options.nobserve = 1;
    trial t = trial_make(text, &options, 10);
    trial_run(&t);
    const double weight = 2.0 * 9.81, half[6] = {0.0, 0.0, weight / 2, 0.0, 0.0, weight / 2};
    all_close(t.observations + 9 * (size_t)t.n.ny, half, 6, 1e-6);
    trial_free(&t);
}

// A violation of the start is gone after one step, or by dt / recovery of it in each, and gives no velocity.
static void violations_die_away(void** state) {
    (void)state;
#define SLIDER(solref)                                                                             \
    "<mujoco><option gravity='0 0 0' timestep='0.001'/><worldbody><body><joint name='x' "          \
    "type='slide'/><inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/></body></worldbody>"        \
    "<equality><joint name='e' joint1='x' polycoef='0 0 0 0 0' " solref "/></equality></mujoco>"
    static const struct {
        const char* text;
        double share;
    } cases[] = {
        {SLIDER(""), 0.0}, {SLIDER("solref='0.004 1'"), 0.75}, {SLIDER("solref='-1000 -10'"), 0.9}};
    for (int k = 0; k < 3; k++) {
        ns_system_options options = options_with(NS_INTEGRATOR_EULER, 1e-3);
        trial t = trial_make(cases[k].text, &options, 3);
        t.x0[0] = 0.01;
        trial_run(&t);
        for (uint32_t step = 0; step <= 3; step++) {
            close_to("position", trial_state(&t, step)[0], 0.01 * pow(cases[k].share, step), 1e-9);
            close_to("velocity", trial_state(&t, step)[1], 0.0, 1e-12);
        }
        trial_free(&t);
    }
#undef SLIDER
}

static void inactive_constraints_are_none(void** state) {
    (void)state;
    ns_system_options options = options_with(NS_INTEGRATOR_EULER, 1e-3);
    trial without = trial_make(FOUR_BAR("", ""), &options, 100);
    trial off = trial_make(FOUR_BAR("", "<connect active='false' body1='rocker' body2='coupler' "
                                        "anchor='0 0 0.4'/>"),
                           &options, 100);
    trial_run(&without);
    trial_run(&off);
    same_bits("end", trial_end(&off), trial_end(&without), 6);
    trial_free(&without);
    trial_free(&off);
}

// ---- derivatives ---------------------------------------------------------------------------------

static const char mixed[] =
    "<mujoco><compiler angle='radian'/><worldbody>"
    "<body name='a'><freejoint/><inertial pos='0.1 0 0' mass='1' diaginertia='0.02 0.03 0.01'/>"
    "<body name='arm' pos='0.2 0 0'><joint name='x' axis='0 1 0'/>"
    "<inertial pos='0.1 0 0' mass='0.5' diaginertia='0.01 0.01 0.01'/>"
    "<body pos='0.2 0 0'><joint name='y' type='slide' axis='0 0 1'/>"
    "<inertial pos='0 0 0' mass='0.4' diaginertia='0.01 0.01 0.01'/></body></body></body>"
    "<body name='b' pos='0 0.3 0' euler='0.2 0.1 0.3'><freejoint/>"
    "<inertial pos='0 0.1 0' mass='0.7' diaginertia='0.02 0.01 0.02'/></body></worldbody><equality>"
    "<weld name='w' body1='b' body2='a' solref='0.01 1'/>"
    "<joint name='p' joint1='y' joint2='x' polycoef='0.01 0.2 0.3 -0.1 0.2'/></equality></mujoco>";

// Reverse and forward mode, and differences, for all parameters and the state, also where the start
// violates the constraints.
static void gradients_agree_with_differences(void** state) {
    (void)state;
    static const char* const all[] = {"**"};
    const char* const texts[] = {four_bar, mixed};
    for (int m = 0; m < 2; m++) {
        for (uint32_t k = 0; k < ns_integrators.count; k++) {
            ns_model* model = modelfile_parse(texts[m]);
            ns_system_options options =
                options_with((ns_integrator)ns_integrators.items[k].value, 1e-3);
            options.free_params = all;
            options.nfree = 1;
            ns_system* system = NULL;
            ns_gradcheck_result* check = NULL;
            ns_error error = {0};
            must(ns_system_create(model, &options, &system, &error), &error);
            must(ns_gradcheck(system, NULL, &check, &error), &error);
            uint32_t anchors = 0;
            for (uint32_t i = 0; i < check->ninput; i++) {
                const ns_gradcheck_input* in = &check->inputs[i];
                bool fine = in->verdict == NS_GRADCHECK_OK || in->verdict == NS_GRADCHECK_ZERO;
                if (!fine) {
                    fail_msg("%s, %s: %.12g %.12g %.12g: %s", ns_integrators.items[k].name,
                             in->name, in->reverse, in->forward, in->difference, in->reason);
                }
                anchors += strncmp(in->name, "equality/", 9) == 0 && in->verdict == NS_GRADCHECK_OK;
            }
            assert_true(anchors >= 4);
            ns_gradcheck_free(check);
            ns_system_free(system);
            ns_model_free(model);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_four_bar_linkage_closes),
        cmocka_unit_test(energy_converges_with_the_order_of_the_integrator),
        cmocka_unit_test(a_circle_is_kept),
        cmocka_unit_test(anchors_that_are_apart_keep_momentum),
        cmocka_unit_test(drift_stays_bounded),
        cmocka_unit_test(a_connected_body_is_a_spherical_pendulum),
        cmocka_unit_test(welded_bodies_are_one),
        cmocka_unit_test(a_polynomial_is_a_substitution),
        cmocka_unit_test(a_joint_is_held),
        cmocka_unit_test(redundant_rows_do_no_harm),
        cmocka_unit_test(redundant_forces_are_shared),
        cmocka_unit_test(violations_die_away),
        cmocka_unit_test(inactive_constraints_are_none),
        cmocka_unit_test(gradients_agree_with_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
