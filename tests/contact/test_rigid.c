// Cases that rigid contact once got wrong: an impact beside resting contacts, restitution with friction,
// overlap at the start, redundant contacts, islands, pushes with much friction.

#include "support/assert.h"
#include "support/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ns_system_options options_of(double dt, const char* const* free_params, uint32_t nfree) {
    ns_system_options options = ns_default_system_options();
    options.contact = NS_CONTACT_NCP;
    options.timestep = dt;
    options.free_params = free_params;
    options.nfree = nfree;
    return options;
}

#define FLOOR "<geom name='floor' type='plane' size='5 5 1'/>"

// ---- an impact while another contact rests -----------------------------------------------------

static const char column[] =
    "<mujoco><worldbody>" FLOOR "<body pos='0 0 .1'><joint name='a' type='slide' axis='0 0 1'/>"
    "<geom name='a' type='sphere' size='.1' mass='1'/></body>"
    "<body pos='0 0 .3'><joint name='b' type='slide' axis='0 0 1'/>"
    "<geom name='b' type='sphere' size='.1' mass='1'/></body></worldbody></mujoco>";

// One ball lies on the floor, another one falls on it: both stop, whatever part of the step it arrives at.
static void a_column_stops(void** state) {
    (void)state;
    static const double shares[] = {0.001, 0.25, 0.5, 0.75, 0.999}, dts[] = {1e-3, 1e-4, 1e-5};
    double fastest = 0.0, deepest = 0.0;
    for (int k = 0; k < 3; k++) {
        ns_system_options o = options_of(dts[k], NULL, 0);
        trial t = trial_make(column, &o, 6);
        for (int j = 0; j < 5; j++) {
            memset(t.x0, 0, t.n.nx * sizeof *t.x0);
            t.x0[1] = 3.0 * dts[k] * shares[j];
            t.x0[3] = -3.0;
            trial_run(&t);
            const double* end = trial_end(&t);
            for (int i = 0; i < 2; i++) fastest = fmax(fastest, fabs(end[2 + i]));
            deepest = fmax(deepest, fmax(-end[0], end[0] - end[1]));
        }
        trial_free(&t);
    }
    print_message("fastest %.1e m/s, deepest %.1e m\n", fastest, deepest);
    assert_true(fastest < 1e-5);
    assert_true(deepest < 1e-6);
}

static const char side_hit[] =
    "<mujoco><worldbody>" FLOOR
    "<body pos='-0.15 0 0.05'><joint name='s' type='slide' axis='1 0 0'/>"
    "<geom name='p' type='sphere' size='0.05' mass='1'/></body>"
    "<body pos='0 0 0.1'><freejoint name='f'/>"
    "<geom name='b' type='box' size='0.1 0.1 0.1' mass='1'/></body></worldbody></mujoco>";

// A ball hits a box that lies flush on the floor: the exact gradient of the pitch rate for the ball's start
// is the difference over whole steps.
static void the_gradient_of_a_hit(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu", "contact/*/restitution"};
    enum { STEPS = 25, BALL = 0, PITCH = 8 + 1 + 4 };
    const double dt = 1e-3, v = 1.5;
    double worst = 0.0;
    for (int mu = 0; mu < 2; mu++) {
        for (int k = 0; k < 3; k++) {
            const double e = (const double[]){0.0, 0.5, 0.9}[k];
            ns_system_options o = options_of(dt, names, 2);
            trial t = trial_make(side_hit, &o, STEPS);
            trial_set(&t, "contact/*/mu", 0.5 * mu);
            trial_set(&t, "contact/*/restitution", e);
            t.x0[8] = v;
            double ends[2], dx0[40], local = 0.0;
            for (int side = 0; side < 2; side++) { // a whole step apart
                t.x0[BALL] = -v * dt * (2.4 + side);
                trial_run(&t);
                ends[side] = trial_end(&t)[PITCH];
            }
            // The mean over the step between.
            for (int j = 0; j < 5; j++) {
                t.x0[BALL] = -v * dt * (2.5 + 0.2 * j);
                trial_run(&t);
                trial_gradient(&t, PITCH, dx0, NULL);
                local += dx0[BALL] / 5.0;
            }
            double whole = (ends[0] - ends[1]) / (v * dt);
            print_message("mu %.1f, e %.1f: gradient %.3f, over whole steps %.3f\n", 0.5 * mu, e,
                          local, whole);
            worst = fmax(worst, fabs(local - whole) / fabs(whole));
            trial_free(&t);
        }
    }
    assert_true(worst < 0.02);
}

// ---- restitution with friction -----------------------------------------------------------------

// No gravity. The step is so short that nothing but the impact happens in it.
#define FREE "<mujoco><compiler angle='radian'/><option gravity='0 0 0'/><worldbody>"
static const char pendulum[] = FREE
    "<geom name='floor' type='plane' size='5 5 1' pos='0 0 -1.5'/>"
    "<body><joint axis='0 1 0'/>"
    "<inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/>"
    "<body pos='0 0 -1'><joint axis='0 1 0'/>"
    "<inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/>"
    "<geom name='tip' type='sphere' size='0.01' pos='0 0 -1'/></body></body></worldbody></mujoco>";
static const char box[] = FREE FLOOR
    "<body><freejoint/><geom type='box' size='.1 .07 .04' mass='1'/></body></worldbody></mujoco>";
static const char capsule[] = FREE FLOOR
    "<body><freejoint/><geom type='capsule' size='.05 .1' mass='1'/></body></worldbody></mujoco>";

// Where in a state things are, and how low a body reaches below its origin.
static double lowest_of_box(const double* q) {
    double w = q[3], x = q[4], y = q[5], z = q[6];
    double r[3] = {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)};
    return 0.1 * fabs(r[0]) + 0.07 * fabs(r[1]) + 0.04 * fabs(r[2]);
}

static double lowest_of_capsule(const double* q) {
    return 0.05 + 0.1 * fabs(1 - 2 * (q[4] * q[4] + q[5] * q[5]));
}

// A free body just above the floor, turning and approaching.
static void random_throw(ns_rng* rng, double height, double (*lowest)(const double*), double* x) {
    double size = 0.0;
    for (int k = 3; k < 7; k++) x[k] = ns_rng_normal(rng), size += x[k] * x[k];
    for (int k = 3; k < 7; k++) x[k] /= sqrt(size);
    for (int k = 7; k < 13; k++) x[k] = ns_rng_normal(rng) * (k < 10 ? 1.0 : 5.0);
    x[9] = -fabs(x[9]) - 0.5;
    x[0] = x[1] = 0.0;
    x[2] = lowest(x) + height;
}

// The tip of the pendulum just above the floor.
static bool random_swing(ns_rng* rng, double height, double* x) {
    x[0] = ns_rng_uniform(rng, -0.9, 0.9);
    double rest = 1.5 - 0.01 - height - cos(x[0]);
    if (fabs(rest) > 0.98) return false;
    double total = acos(rest) * (ns_rng_uniform(rng, -1.0, 1.0) > 0.0 ? 1.0 : -1.0);
    x[1] = total - x[0];
    x[2] = ns_rng_normal(rng);
    x[3] = 3.0 * ns_rng_normal(rng);
    // Height of the tip: -cos(q0) - cos(q0 + q1).
    return sin(x[0]) * x[2] + sin(total) * (x[2] + x[3]) < -0.2;
}

// Kinetic energy of states, by a system without contact.
static void energies(trial* t, const double* x, double* out) {
    memcpy(t->x0, x, t->n.nx * sizeof *x);
    trial_run(t);
    *out = t->observations[0];
}

// Random impacts with all e and mu: none gains energy.
static void check_no_gain(const char* name, const char* text, int which, uint32_t count) {
    static const char* const names[] = {"contact/*/mu", "contact/*/restitution"};
    static const char* const observe[] = {"energy/kinetic"};
    const double dt = 1e-11;
    ns_system_options o = options_of(dt, names, 2);
    trial t = trial_make(text, &o, 1);
    o = options_of(dt, NULL, 0);
    o.contact = NS_CONTACT_NONE;
    o.observe = observe;
    o.nobserve = 1;
    trial plain = trial_make(text, &o, 1);
    ns_rng rng = ns_rng_seed(41);
    uint32_t hit = 0, kept = 0;
    double worst = -1.0;
    for (uint32_t k = 0; k < count; k++) {
        double height = dt * ns_rng_uniform(&rng, 0.0, 0.2), x[13], before, after, flown;
        if (which == 0) {
            while (!random_swing(&rng, height, x)) continue;
        } else {
            random_throw(&rng, height, which == 1 ? lowest_of_box : lowest_of_capsule, x);
        }
        trial_set(&t, "contact/*/mu", ns_rng_uniform(&rng, 0.0, 1.0));
        trial_set(&t, "contact/*/restitution", k % 7 == 0 ? 1.0 : ns_rng_uniform(&rng, 0.0, 1.0));
        memcpy(t.x0, x, t.n.nx * sizeof *x);
        trial_run(&t);
        energies(&plain, x, &before);
        energies(&plain, trial_end(&plain), &flown);
        energies(&plain, trial_end(&t), &after);
        for (uint32_t i = t.nq; i < t.n.nx; i++) {
            if (fabs(trial_end(&t)[i] - x[i]) < 1e-3) continue;
            hit++;
            break;
        }
        kept += after > 0.5 * before;
        worst = fmax(worst, (after - before - fabs(flown - before)) / before);
    }
    print_message("%s: %u of %u hit, %u keep half of their energy or more, largest gain %.1e\n",
                  name, hit, count, kept, worst);
    assert_true(hit * 10 > 9 * count && kept * 5 > count);
    assert_true(worst < 1e-9);
    trial_free(&t);
    trial_free(&plain);
}

static void no_impact_gains_energy(void** state) {
    (void)state;
    check_no_gain("double pendulum", pendulum, 0, 4000);
    check_no_gain("box", box, 1, 2000);
    check_no_gain("capsule", capsule, 2, 2000);
}

// Kane's case: Newton's law gives 105 times the energy at e = 0.3.
static void kanes_pendulum_gains_nothing(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu", "contact/*/restitution"};
    static const char* const observe[] = {"energy/kinetic"};
    ns_system_options o = options_of(1e-4, names, 2);
    o.observe = observe;
    o.nobserve = 1;
    trial t = trial_make(pendulum, &o, 30);
    trial_set(&t, "contact/*/mu", 1.0);
    for (int k = 0; k <= 10; k++) {
        trial_set(&t, "contact/*/restitution", 0.1 * k);
        t.x0[0] = -0.7317, t.x0[1] = 0.0028, t.x0[2] = -0.25, t.x0[3] = 2.4575;
        trial_run(&t);
        double first = t.observations[0], most = 0.0;
        for (int i = 1; i < 30; i++) most = fmax(most, t.observations[i]);
        // Free flight of 3 ms changes 1e-3 of it.
        if (!(most < 1.001 * first)) fail_msg("e %.1f: %g J, then %g J", 0.1 * k, first, most);
    }
    trial_free(&t);
}

static const char wall[] =
    "<mujoco><option gravity='0 0 0'/><worldbody>"
    "<geom name='wall' type='plane' size='5 5 1' zaxis='-1 0 0' pos='.1 0 0'/>"
    "<body pos='0 0 0'><joint name='b' type='slide' axis='1 0 0'/>"
    "<geom name='b' type='sphere' size='.1' mass='1'/></body>"
    "<body pos='-.2 0 0'><joint name='a' type='slide' axis='1 0 0'/>"
    "<geom name='a' type='sphere' size='.1' mass='1'/></body></worldbody></mujoco>";

// A ball hits another one before a wall, all elastic: three impacts one after the other, after which the
// first ball leaves with the speed it came with. q is (b, a), b before the wall. Nearer to the wall than the
// way of a step, the balls part and meet again within a step, where they count as resting: energy is lost
// then, but none is gained.
static void a_ball_before_a_wall(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/restitution"};
    static const double shares[] = {0.001, 0.25, 0.5, 0.75, 0.999}, gaps[] = {0.5, 1.0, 3.0};
    const double dt = 1e-3, v = 3.0;
    ns_system_options o = options_of(dt, names, 1);
    trial t = trial_make(wall, &o, 12);
    trial_set(&t, "**", 1.0);
    double gain = 0.0, error = 0.0, near = 0.0;
    for (int j = 0; j < 5; j++) {
        for (int k = 0; k < 3; k++) {
            t.x0[0] = -gaps[k] * v * dt;
            t.x0[1] = t.x0[0] - shares[j] * v * dt;
            t.x0[2] = 0.0, t.x0[3] = v;
            trial_run(&t);
            for (uint32_t i = 1; i <= 12; i++) {
                const double* x = trial_state(&t, i);
                gain = fmax(gain, (x[2] * x[2] + x[3] * x[3]) / (v * v) - 1.0);
            }
            const double* end = trial_end(&t);
            double off = fmax(fabs(end[2]), fabs(end[3] + v));
            if (gaps[k] >= 1.0) error = fmax(error, off);
            if (gaps[k] < 1.0) near = fmax(near, off);
        }
    }
    print_message("largest gain %.1e, speeds off by %.1e m/s, near the wall by %.2f m/s\n", gain,
                  error, near);
    assert_true(gain < 1e-9);
    assert_true(error < 1e-3);
    trial_free(&t);
}

// ---- overlap at the start ----------------------------------------------------------------------

static const char cube[] =
    "<mujoco><worldbody>" FLOOR
    "<body pos='0 0 .1'><freejoint/><geom type='box' size='.1 .1 .1' mass='1'/></body></worldbody>"
    "</mujoco>";

// What starts inside the floor comes out without speed, and not further than flush.
static void overlap_is_not_turned_into_speed(void** state) {
    (void)state;
    static const double depths[] = {1e-3, 5e-3, 10e-3, 50e-3}, dts[] = {1e-3, 1e-4};
    for (int k = 0; k < 2; k++) {
        ns_system_options o = options_of(dts[k], NULL, 0);
        enum { STEPS = 1500 };
        trial t = trial_make(cube, &o, STEPS);
        for (int j = 0; j < 4; j++) {
            t.x0[2] = 0.1 - depths[j];
            trial_run(&t);
            double highest = -1.0, fastest = 0.0;
            for (uint32_t i = 0; i <= STEPS; i++) {
                highest = fmax(highest, trial_state(&t, i)[2] - 0.1);
                fastest = fmax(fastest, fabs(trial_state(&t, i)[9]));
            }
            print_message("%2.0f mm, dt %g: highest %.1e m, fastest %.1e m/s\n", 1e3 * depths[j],
                          dts[k], highest, fastest);
            assert_true(highest < 1e-6 && fastest < 1e-3);
            close_to("height at the end", trial_end(&t)[2], 0.1, 1e-5);
        }
        trial_free(&t);
    }
}

// Without gravity nothing presses: touching or overlapping at rest has no effect and finite derivatives.
static void rest_without_gravity(void** state) {
    (void)state;
    ns_system_options o = options_of(1e-3, NULL, 0);
    trial t = trial_make(wall, &o, 3);
    for (int k = 0; k < 2; k++) {
        double dx0[4];
        t.x0[0] = t.x0[1] = k == 0 ? 0.0 : 1e-3;
        trial_run(&t);
        for (int i = 2; i < 4; i++) close_to("speed", trial_end(&t)[i], 0.0, 1e-12);
        for (uint32_t i = 0; i < 4; i++) trial_gradient(&t, i, dx0, NULL);
    }
    trial_free(&t);
}

// ---- redundant contacts ------------------------------------------------------------------------

// A box that slides and turns on four feet: whether one of them is longer or shorter by 1e-12 to 1e-8 m does
// not matter.
static void one_corner_is_moved(void** state) {
    (void)state;
    static const char table[] =
        "<mujoco><worldbody>" FLOOR "<body pos='0 0 .1'><freejoint/>"
        "<inertial pos='0 0 0' mass='1' diaginertia='.0067 .0067 .0067'/>"
        "<geom name='a' type='sphere' size='.02' pos='.1 .1 -.08'/>"
        "<geom name='b' type='sphere' size='.02' pos='-.1 .1 -.08'/>"
        "<geom name='c' type='sphere' size='.02' pos='.1 -.1 -.08'/>"
        "<geom name='d' type='sphere' size='.02' pos='-.1 -.1 -.08'/></body></worldbody></mujoco>";
    static const char* const names[] = {"geom/a/radius"};
    ns_system_options o = options_of(1e-3, names, 1);
    trial t = trial_make(table, &o, 1);
    double yaw = 0.0, spread = 0.0;
    for (int k = 0; k <= 10; k++) {
        double sign = k % 2 ? -1.0 : 1.0,
               moved = k == 0 ? 0.0 : sign * pow(10.0, (k + 1) / 2 - 13.0);
        t.params[0] = 0.02 + moved;
        t.x0[7] = 0.1;  // slides
        t.x0[12] = 1.0; // and turns
        trial_run(&t);
        if (k == 0) yaw = trial_end(&t)[12];
        print_message("moved by %8.1e m: yaw rate %.12f\n", moved, trial_end(&t)[12]);
        spread = fmax(spread, fabs(trial_end(&t)[12] - yaw));
    }
    assert_true(fabs(yaw - 1.0) > 0.02); // friction acts
    assert_true(spread < 1e-9);
    trial_free(&t);
}

// ---- islands -----------------------------------------------------------------------------------

static const char three[] =
    "<mujoco><worldbody>" FLOOR "<body pos='-1 0 .1'><joint name='a' type='slide' axis='0 0 1'/>"
    "<geom name='a' type='sphere' size='.1' mass='1'/></body>"
    "<body pos='0 0 .1'><joint name='b' type='slide' axis='0 0 1'/>"
    "<geom name='b' type='sphere' size='.1' mass='1'/></body>"
    "<body pos='1 0 .1'><joint name='c' type='slide' axis='0 0 1'/>"
    "<geom name='c' type='sphere' size='.1' mass='1'/></body></worldbody></mujoco>";

// Two balls fall beside one that rests and bounce in the same step at different times: the exact gradient is the
// difference over whole steps, for each.
static void islands_have_their_own_impacts(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/restitution"};
    enum { STEPS = 9 };
    const double dt = 1e-3, v = 1.0;
    ns_system_options o = options_of(dt, names, 1);
    trial t = trial_make(three, &o, STEPS);
    trial_set(&t, "**", 0.5);
    for (uint32_t ball = 0; ball < 3; ball += 2) {
        double ends[2], local = 0.0, dx0[6];
        for (int side = 0; side < 2; side++) {
            for (int k = 0; k < 3; k++) t.x0[3 + k] = k == 1 ? 0.0 : -v;
            t.x0[1] = 0.0;
            t.x0[0] = v * dt * 3.3, t.x0[2] = v * dt * 3.8;
            t.x0[ball] += side * v * dt;
            trial_run(&t);
            ends[side] = trial_end(&t)[ball];
        }
        for (int j = 0; j < 10; j++) {
            t.x0[0] = v * dt * 3.3, t.x0[2] = v * dt * 3.8;
            t.x0[ball] += (0.05 + 0.1 * j) * v * dt;
            trial_run(&t);
            trial_gradient(&t, ball, dx0, NULL);
            local += dx0[ball] / 10.0;
            for (uint32_t k = 0; k < 3; k++) {
                if (k != ball) assert_true(fabs(dx0[k]) < 1e-12);
            }
        }
        double whole = (ends[1] - ends[0]) / (v * dt);
        print_message("ball %u: gradient %.4f, over whole steps %.4f\n", ball, local, whole);
        close_to("gradient", local, whole, 0.02 * fabs(whole));
    }
    trial_free(&t);
}

// What an island does does not depend on what happens in another one at the same time.
static const char two_pendulums[] =
    FREE "<geom name='floor' type='plane' size='9 9 1' pos='0 0 -1.5'/>"
         "<body><joint axis='0 1 0'/>"
         "<inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/>"
         "<body pos='0 0 -1'><joint axis='0 1 0'/>"
         "<inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/>"
         "<geom name='tip' type='sphere' size='0.01' pos='0 0 -1'/></body></body>"
         "<body pos='5 0 -1.4'><joint type='slide' axis='0 0 1'/>"
         "<geom name='ball' type='sphere' size='.1' mass='1'/></body></worldbody></mujoco>";

static void islands_do_not_trade_energy(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu", "contact/*/restitution"};
    ns_system_options o = options_of(1e-4, names, 2);
    trial t = trial_make(two_pendulums, &o, 1);
    trial_set(&t, "contact/*/mu", 1.0);
    trial_set(&t, "contact/*/restitution", 0.5);
    double alone[2], worst = 0.0;
    for (int k = 0; k < 2; k++) {
        t.x0[0] = -0.7317, t.x0[1] = 0.0028, t.x0[3] = -0.25, t.x0[4] = 2.4575;
        t.x0[2] = k == 0 ? 1.0 : 1e-5; // the ball is far away, or arrives
        t.x0[5] = -10.0;
        double tip = 1.5 - 0.01 - cos(t.x0[0]) - cos(t.x0[0] + t.x0[1]);
        double speed = sin(t.x0[0]) * t.x0[3] + sin(t.x0[0] + t.x0[1]) * (t.x0[3] + t.x0[4]);
        t.x0[1] +=
            (tip - 5e-5 * fabs(speed)) / sin(t.x0[0] + t.x0[1]) * -1.0; // arrives in half a step
        trial_run(&t);
        for (int i = 0; i < 2; i++) {
            if (k == 0) alone[i] = trial_end(&t)[3 + i];
            worst = fmax(worst, fabs(trial_end(&t)[3 + i] - alone[i]));
        }
        print_message("pendulum: %.6f %.6f rad/s\n", trial_end(&t)[3], trial_end(&t)[4]);
    }
    assert_true(worst < 1e-9);
    trial_free(&t);
}

// ---- pushes ------------------------------------------------------------------------------------

static const char push[] =
    "<mujoco><option timestep='0.001'/><worldbody>" FLOOR
    "<body pos='-0.3 0 0.05'><joint name='push' type='slide' axis='1 0 0'/>"
    "<geom name='p' type='sphere' size='0.05' mass='1' friction='.5'/></body>"
    "<body pos='0 0.02 0.1'><freejoint/>"
    "<geom name='b' type='box' size='0.1 0.1 0.1' mass='1' friction='0.3'/></body></worldbody>"
    "</mujoco>";

// Random pushes with mu = 1: every step is solved.
static void pushes_are_solved(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu"};
    static const char* const observe[] = {"contact/relaxation", "contact/solves"};
    enum { PUSHES = 50, STEPS = 500 };
    for (int friction = 0; friction < 2; friction++) {
        ns_system_options o = options_of(0.0, names, 1);
        o.friction = (ns_friction)friction;
        o.observe = observe;
        o.nobserve = 2;
        trial t = trial_make(push, &o, STEPS);
        trial_set(&t, "**", 1.0);
        double* controls = doubles((size_t)STEPS * t.n.nc);
        ns_rng rng = ns_rng_seed(7);
        uint32_t softened = 0, hardest = 0;
        double softest = 0.0;
        for (int k = 0; k < PUSHES; k++) {
            double force = ns_rng_uniform(&rng, 0.0, 30.0), turn = ns_rng_uniform(&rng, -0.5, 0.5);
            memset(t.x0, 0, t.n.nx * sizeof *t.x0);
            t.x0[0] = ns_rng_uniform(&rng, 0.0, 0.1);
            t.x0[2] = ns_rng_uniform(&rng, -0.08, 0.08);
            t.x0[3] = 0.1;
            t.x0[4] = cos(turn), t.x0[7] = sin(turn);
            t.x0[8] = ns_rng_uniform(&rng, 0.3, 2.0);
            for (uint32_t i = 0; i < STEPS; i++) controls[i * t.n.nc] = force;
            t.controls = controls;
            trial_run(&t); // fails where a step is not solved
            assert_int_equal(t.contact.unsolved, 0);
            for (uint32_t i = 0; i < STEPS; i++) {
                softened += t.observations[2 * i] > 0.0;
                softest = fmax(softest, t.observations[2 * i]);
                hardest = (uint32_t)fmax(hardest, t.observations[2 * i + 1]);
            }
        }
        print_message("%s: %u of %u steps softened, up to cfm %g, up to %u solves\n",
                      friction ? "cone" : "pyramid", softened, PUSHES * STEPS, softest, hardest);
        assert_true(softened * 200 < PUSHES * STEPS);
        free(controls);
        trial_free(&t);
    }
}

// ---- bodies that miss each other -----------------------------------------------------------------

// A ball flies past the edge of a plate, and past another ball that is free.
#define THROWN                                                                                     \
    "<body><joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 0 1'/>"                   \
    "<geom name='ball' type='sphere' size='.05' mass='1'/></body></worldbody></mujoco>"
static const char past_plate[] = FREE "<geom name='plate' type='box' size='.1 .1 .01'/>" THROWN;
static const char past_ball[] =
    FREE "<body><freejoint/><geom name='other' type='sphere' size='.05' mass='1'/></body>" THROWN;

// Share of `count` throws from different heights, at x, that something has deflected.
static double share_deflected(const char* text, double x, double v, ns_detection detection) {
    enum { COUNT = 40, STEPS = 40 };
    ns_system_options o = options_of(1e-3, NULL, 0);
    o.detection = detection;
    trial t = trial_make(text, &o, STEPS);
    uint32_t thrown = t.nq - 2, deflected = 0;
    for (int k = 0; k < COUNT; k++) {
        t.x0[thrown] = x;
        t.x0[thrown + 1] = (10.0 + (k + 0.5) / COUNT) * v * 1e-3; // of a step of the way
        t.x0[t.n.nx - 1] = -v;
        trial_run(&t);
        deflected += fabs(trial_end(&t)[t.n.nx - 1] + v) > 1e-9 * v;
    }
    trial_free(&t);
    return (double)deflected / COUNT;
}

// The normal at the start of a step points at the other body, though the way goes past it.
static void bodies_that_miss_each_other_pass(void** state) {
    (void)state;
    static const ns_detection ways[] = {NS_DETECTION_TRACED};
    for (int k = 0; k < 1; k++) {
        for (int j = 0; j < 2; j++) {
            double v = j == 0 ? 20.0 : 50.0;
            double miss = share_deflected(past_plate, 0.155, v, ways[k]);
            double hit = share_deflected(past_plate, 0.145, v, ways[k]);
            print_message("plate, %g m/s: %.2f of misses, %.2f of hits\n", v, miss, hit);
            assert_true(miss == 0.0 && hit == 1.0);
        }
        double miss = share_deflected(past_ball, 0.101, 20.0, ways[k]);
        double hit = share_deflected(past_ball, 0.099, 20.0, ways[k]);
        print_message("ball, 20 m/s: %.2f of misses, %.2f of hits\n", miss, hit);
        assert_true(miss == 0.0 && hit == 1.0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_stops),
        cmocka_unit_test(the_gradient_of_a_hit),
        cmocka_unit_test(kanes_pendulum_gains_nothing),
        cmocka_unit_test(a_ball_before_a_wall),
        cmocka_unit_test(overlap_is_not_turned_into_speed),
        cmocka_unit_test(rest_without_gravity),
        cmocka_unit_test(one_corner_is_moved),
        cmocka_unit_test(islands_have_their_own_impacts),
        cmocka_unit_test(islands_do_not_trade_energy),
        cmocka_unit_test(no_impact_gains_energy),
        cmocka_unit_test(pushes_are_solved),
        cmocka_unit_test(bodies_that_miss_each_other_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
