// Contact where the answer is known: bounces, collisions, sliding, inclines, rolling, stacks. Values
// and derivatives against closed forms, for both contact models.

#include "support/assert.h"
#include "support/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const double g = 9.81;

static ns_system_options options_of(ns_contact_model model, ns_friction friction,
                                    const char* const* free_params, uint32_t nfree) {
    ns_system_options options = ns_default_system_options();
    options.contact = (int)model;
    options.friction = friction;
    options.free_params = free_params;
    options.nfree = nfree;
    return options;
}

// ---- a ball that bounces -------------------------------------------------------------------

static const char ball[] =
    "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body name='ball' pos='0 0 0.6'><joint name='z' type='slide' axis='0 0 1'/>"
    "<geom name='ball' type='sphere' size='0.1' mass='0.5'/></body></worldbody></mujoco>";

// q is the height above the start, which is 0.5 m above touching.
static void a_ball_bounces_to_its_height(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/restitution"};
    for (int friction = 0; friction < 2; friction++) {
        ns_system_options o = options_of(NS_CONTACT_NCP, (ns_friction)friction, names, 1);
        trial t = trial_make(ball, &o, 500);
        const double e = 0.8, drop = 0.5;
        trial_set(&t, "**", e);
        trial_run(&t);
        double t1 = sqrt(2.0 * drop / g), v1 = g * t1, T = 0.5, rest = T - t1;
        double z = e * v1 * rest - 0.5 * g * rest * rest - drop;
        // d z / d drop: t1' = t1 / (2 drop), v1' = g t1'.
        double dt1 = t1 / (2.0 * drop);
        double dz = e * g * dt1 * rest - e * v1 * dt1 + g * rest * dt1;
        close_to("height after the bounce", trial_end(&t)[0], z, 5e-3);
        double dx0[2], de;
        trial_gradient(&t, 0, dx0, &de);
        close_to("d height / d start", dx0[0], dz, 5e-3);
        close_to("d height / d restitution", de, v1 * rest, 5e-3);

        double highest = -1.0;
        for (uint32_t k = 320; k <= 500; k++) highest = fmax(highest, trial_state(&t, k)[0]);
        trial_free(&t);

        // The apex: e^2 of the height.
        t = trial_make(ball, &o, 700);
        trial_set(&t, "**", e);
        trial_run(&t);
        for (uint32_t k = 320; k <= 700; k++) highest = fmax(highest, trial_state(&t, k)[0]);
        close_to("apex", highest, (e * e - 1.0) * drop, 4e-3);
        trial_free(&t);
    }
}

static void without_restitution_a_ball_stays_where_it_lands(void** state) {
    (void)state;
    trial t = trial_make(ball, NULL, 2000);
    trial_run(&t);
    close_to("height", trial_end(&t)[0], -0.5, 1e-5);
    // Regularisation lets it creep while its position is held.
    close_to("velocity", trial_end(&t)[1], -1e-4 * g * 1e-3, 1e-9);
    // Where it started does not matter any more.
    double dx0[2];
    trial_gradient(&t, 0, dx0, NULL);
    close_to("d height / d start", dx0[0], 0.0, 1e-6);
    trial_free(&t);
}

// ---- two balls -----------------------------------------------------------------------------

static const char two_balls[] =
    "<mujoco><option timestep='0.001' gravity='0 0 0'/><worldbody>"
    "<body name='a' pos='-0.5 0 0'><joint name='a' type='slide' axis='1 0 0'/>"
    "<geom name='a' type='sphere' size='0.1' mass='0.7'/></body>"
    "<body name='b' pos='0.5 0 0'><joint name='b' type='slide' axis='1 0 0'/>"
    "<geom name='b' type='sphere' size='0.1' mass='0.7'/></body></worldbody></mujoco>";

static void equal_balls_swap_their_velocities(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/restitution"};
    for (int friction = 0; friction < 2; friction++) {
        ns_system_options o = options_of(NS_CONTACT_NCP, (ns_friction)friction, names, 1);
        trial t = trial_make(two_balls, &o, 1000);
        trial_set(&t, "**", 1.0);
        t.x0[2] = 1.1, t.x0[3] = -0.4;
        trial_run(&t);
        close_to("velocity of a", trial_end(&t)[2], -0.4, 1e-9);
        close_to("velocity of b", trial_end(&t)[3], 1.1, 1e-9);
        double da[4], db[4], de;
        trial_gradient(&t, 2, da, &de);
        trial_gradient(&t, 3, db, NULL);
        close_to("d va / d va0", da[2], 0.0, 1e-9);
        close_to("d va / d vb0", da[3], 1.0, 1e-9);
        close_to("d vb / d va0", db[2], 1.0, 1e-9);
        close_to("d vb / d vb0", db[3], 0.0, 1e-9);
        // va = mean - e (va0 - vb0) / 2
        close_to("d va / d e", de, -0.75, 1e-9);
        trial_free(&t);
    }
}

// The law for springs: what is exact is momentum, and energy up to the damping.
static void springs_swap_velocities_nearly(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/damping"};
    ns_system_options o = options_of(NS_CONTACT_SPRING, NS_FRICTION_CONE, names, 1);
    o.timestep = 1e-4;
    trial t = trial_make(two_balls, &o, 10000);
    trial_set(&t, "**", 0.0);
    t.x0[2] = 1.1, t.x0[3] = -0.4;
    trial_run(&t);
    close_to("velocity of a", trial_end(&t)[2], -0.4, 5e-3);
    close_to("velocity of b", trial_end(&t)[3], 1.1, 5e-3);
    close_to("momentum", trial_end(&t)[2] + trial_end(&t)[3], 0.7, 1e-12);
    double da[4];
    trial_gradient(&t, 2, da, NULL);
    close_to("d va / d va0", da[2], 0.0, 0.1);
    close_to("d va / d vb0", da[3], 1.0, 0.1);
    trial_free(&t);
}

// ---- a block that slides -------------------------------------------------------------------

static const char block[] =
    "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body name='box' pos='0 0 0.1'><freejoint/>"
    "<geom name='box' type='box' size='0.2 0.15 0.1' mass='2'/></body></worldbody></mujoco>";

enum { BLOCK_VX = 7 }; // of the free joint's velocity, behind q

static void a_block_slides_its_distance(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu"};
    for (int friction = 0; friction < 2; friction++) {
        ns_system_options o = options_of(NS_CONTACT_NCP, (ns_friction)friction, names, 1);
        trial t = trial_make(block, &o, 1000);
        const double mu = 0.4, v = 1.5;
        trial_set(&t, "**", mu);
        t.x0[BLOCK_VX] = v;
        trial_run(&t);
        close_to("distance", trial_end(&t)[0], v * v / (2.0 * mu * g), 2e-3);
        close_to("velocity", trial_end(&t)[BLOCK_VX], 0.0, 1e-3);
        double dx0[13], dmu;
        trial_gradient(&t, 0, dx0, &dmu);
        close_to("d distance / d v", dx0[BLOCK_VX], v / (mu * g), 4e-3);
        close_to("d distance / d mu", dmu, -v * v / (2.0 * mu * mu * g), 4e-3);
        close_to("d distance / d x", dx0[0], 1.0, 1e-6);
        trial_free(&t);
    }
}

static void a_block_on_springs_slides_its_distance(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu", "contact/*/mu_static",
                                        "contact/*/transition_velocity"};
    ns_system_options o = options_of(NS_CONTACT_SPRING, NS_FRICTION_CONE, names, 3);
    o.timestep = 2e-4;
    trial t = trial_make(block, &o, 5000);
    const double mu = 0.4, v = 1.5;
    trial_set(&t, "**", mu);
    trial_set(&t, "contact/*/transition_velocity", 0.02);
    t.x0[BLOCK_VX] = v;
    trial_run(&t);
    // It starts where the springs do not press yet, and tilts a little while braking.
    close_to("distance", trial_end(&t)[0], v * v / (2.0 * mu * g), 0.02);
    double dx0[13], d[3];
    trial_gradient(&t, 0, dx0, d);
    close_to("d distance / d v", dx0[BLOCK_VX], v / (mu * g), 0.03);
    // mu_static follows mu in the closed form.
    close_to("d distance / d mu", d[0] + d[1], -v * v / (2.0 * mu * mu * g), 0.06);
    trial_free(&t);
}

// ---- an incline ----------------------------------------------------------------------------

// The slope of gravity instead of that of the ground: tan = slope.
static void set_slope(trial* t, double slope) {
    double scale = g / sqrt(1.0 + slope * slope);
    *trial_param(t, "world/gravity/x") = slope * scale;
    *trial_param(t, "world/gravity/z") = -scale;
}

static void a_block_on_an_incline_keeps_to_the_friction_angle(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu", "world/gravity/?"};
    const double mu = 0.5, T = 0.5;
    for (int friction = 0; friction < 2; friction++) {
        ns_system_options o = options_of(NS_CONTACT_NCP, (ns_friction)friction, names, 2);
        trial t = trial_make(block, &o, 500);
        trial_set(&t, "contact/*/mu", mu);
        size_t at_mu = (size_t)(trial_param(&t, "contact/*/mu") - t.params);
        double dp[4];

        set_slope(&t, 0.9 * mu); // below: it stays, and nothing makes a difference
        trial_run(&t);
        close_to("way below the angle", trial_end(&t)[0], 0.0, 1e-3);
        trial_gradient(&t, 0, NULL, dp);
        close_to("d way / d mu below the angle", dp[at_mu], 0.0, 2e-3);

        set_slope(&t, mu); // at: on the verge
        trial_run(&t);
        close_to("way at the angle", trial_end(&t)[0], 0.0, 1e-3);
        trial_gradient(&t, 0, NULL, dp);
        assert_true(fabs(dp[at_mu]) <= 1.05 * g * T * T / 2.0);

        set_slope(&t, 1.4 * mu); // above: it slides
        double gz = -*trial_param(&t, "world/gravity/z"), gx = *trial_param(&t, "world/gravity/x");
        trial_run(&t);
        close_to("way above the angle", trial_end(&t)[0], (gx - mu * gz) * T * T / 2.0, 3e-3);
        trial_gradient(&t, 0, NULL, dp);
        close_to("d way / d mu above the angle", dp[at_mu], -gz * T * T / 2.0, 5e-3);
        size_t at_gx = (size_t)(trial_param(&t, "world/gravity/x") - t.params);
        close_to("d way / d gx", dp[at_gx], T * T / 2.0, 1e-3);
        trial_free(&t);
    }
}

// ---- a sphere that rolls -------------------------------------------------------------------

static const char sphere[] =
    "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body name='ball' pos='0 0 0.1'><freejoint/>"
    "<geom name='ball' type='sphere' size='0.1' mass='0.5'/></body></worldbody></mujoco>";

static void a_sphere_ends_up_rolling(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu", "contact/*/mu_static"};
    for (int model = NS_CONTACT_NCP; model <= NS_CONTACT_SPRING; model++) {
        for (int friction = 0; friction < 2; friction++) {
            ns_system_options o =
                options_of((ns_contact_model)model, (ns_friction)friction, names, 2);
            trial t = trial_make(sphere, &o, 1000);
            trial_set(&t, "**", 0.3);
            t.x0[BLOCK_VX] = 1.0;
            t.x0[BLOCK_VX + 1] = 0.2;
            trial_run(&t);
            bool rigid = model == NS_CONTACT_NCP;
            const double* end = trial_end(&t);
            close_to("speed x", end[BLOCK_VX], 5.0 / 7.0, rigid ? 1e-6 : 1e-2);
            close_to("speed y", end[BLOCK_VX + 1], 0.2 * 5.0 / 7.0, rigid ? 1e-6 : 1e-2);
            double dx0[13], dp[2];
            trial_gradient(&t, BLOCK_VX, dx0, dp);
            close_to("d speed / d v0", dx0[BLOCK_VX], 5.0 / 7.0, rigid ? 1e-4 : 1e-2);
            close_to("d speed / d mu", dp[0] + dp[1], 0.0, rigid ? 1e-4 : 1e-2);
            trial_free(&t);
        }
    }
}

// ---- stacks --------------------------------------------------------------------------------

static void a_stack_of_boxes_stays(void** state) {
    (void)state;
    static const char stack[] =
        "<mujoco><option timestep='0.002'/><worldbody>"
        "<geom name='ground' type='plane' size='5 5 1'/>"
        "<body name='a' pos='0 0 0.1'><freejoint/><geom name='a' type='box' size='.2 .2 "
        ".1'/></body>"
        "<body name='b' pos='0.02 0 0.3'><freejoint/><geom name='b' type='box' size='.2 .2 "
        ".1'/></body>"
        "<body name='c' pos='0 0.03 0.5' euler='0 0 20'><freejoint/>"
        "<geom name='c' type='box' size='.1 .15 .1'/></body></worldbody>"
        "<contact><exclude body1='a' body2='c'/><exclude body1='world' body2='b'/>"
        "<exclude body1='world' body2='c'/></contact></mujoco>";
    trial t = trial_make(stack, NULL, 5000);
    trial_run(&t);
    for (uint32_t i = 0; i < t.n.nx; i++) {
        close_to(ns_system_state_name(t.system, i), trial_end(&t)[i], t.x0[i], 2e-3);
    }
    trial_free(&t);
}

// ---- momentum ------------------------------------------------------------------------------

static void collisions_in_free_space_conserve_momentum(void** state) {
    (void)state;
    static const char* const shapes[] = {"type='sphere' size='0.12'",
                                         "type='capsule' size='0.08 0.1'",
                                         "type='box' size='0.12 0.1 0.08'"};
    static const char* const names[] = {"contact/*/restitution"};
    static const char* const observe[] = {"momentum", "energy/kinetic"};
    for (int pair = 0; pair < 6; pair++) {
        static const int first[] = {0, 0, 1, 0, 1, 2}, second[] = {0, 1, 1, 2, 2, 2};
        char text[1000];
        snprintf(text, sizeof text,
                 "<mujoco><option timestep='0.001' gravity='0 0 0'/><worldbody>"
                 "<body name='a' pos='-0.3 0.02 0.01' euler='10 20 30'><freejoint/>"
                 "<geom name='a' %s/></body><body name='b' pos='0.3 0 -0.01' euler='40 -50 60'>"
                 "<freejoint/><geom name='b' %s/></body></worldbody></mujoco>",
                 shapes[first[pair]], shapes[second[pair]]);
        for (int model = NS_CONTACT_NCP; model <= NS_CONTACT_SPRING; model++) {
            ns_system_options o = options_of((ns_contact_model)model, NS_FRICTION_CONE, names, 1);
            o.observe = observe;
            o.nobserve = 2;
            if (model == NS_CONTACT_SPRING) o.timestep = 1e-4;
            trial t = trial_make(text, &o, model == NS_CONTACT_SPRING ? 5000 : 500);
            trial_set(&t, "**", 0.5);
            t.x0[14] = 1.0, t.x0[20] = -1.0; // towards each other, spinning
            t.x0[17] = 1.0, t.x0[24] = -2.0;
            trial_run(&t);
            const double *p0 = t.observations, *p1 = p0 + (size_t)(t.steps - 1) * t.n.ny;
            assert_true(fabs(trial_end(&t)[14] - 1.0) > 0.1); // they have met
            // Impulses act at one point on both: linear momentum to rounding; angular momentum
            // changes by what the point moves in a step.
            for (int k = 0; k < 6; k++) close_to("momentum", p1[k], p0[k], k < 3 ? 1e-11 : 2e-3);
            assert_true(p1[6] < p0[6]);
            trial_free(&t);
        }
    }
}

// ---- the solver's work ---------------------------------------------------------------------

// A ball in the air, then on the ground: nothing to do, then the sweeps that always come first.
static void a_step_tells_what_its_solver_did(void** state) {
    (void)state;
    static const char* const observe[] = {"contact/residual", "contact/sweeps", "contact/solves"};
    ns_system_options o = options_of(NS_CONTACT_NCP, NS_FRICTION_CONE, NULL, 0);
    o.observe = observe;
    o.nobserve = 3;
    trial t = trial_make(ball, &o, 500);
    trial_run(&t);
    const double *first = t.observations, *last = first + (size_t)(t.steps - 1) * t.n.ny;
    assert_int_equal(t.n.ny, 3);
    for (int k = 0; k < 3; k++) assert_true(first[k] == 0.0);
    assert_true(last[0] < 1e-12 && last[1] == 3.0);
    assert_true(last[2] >= 0.0 && last[2] <= 1.0); // one contact without friction is linear
    trial_free(&t);
}

// A smooth elastic box that tumbles keeps its energy, up to the order of the step.
static void elastic_impacts_keep_energy(void** state) {
    (void)state;
    static const char box[] =
        "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 "
        "1'/>"
        "<body name='box' pos='0 0 1' euler='45 30 10'><freejoint/>"
        "<geom name='box' type='box' size='0.1 0.15 0.2' mass='1'/></body></worldbody></mujoco>";
    static const char* const names[] = {"contact/*/mu", "contact/*/restitution"};
    static const char* const observe[] = {"energy/total"};
    ns_system_options o = options_of(NS_CONTACT_NCP, NS_FRICTION_CONE, names, 2);
    o.observe = observe;
    o.nobserve = 1;
    trial t = trial_make(box, &o, 5000);
    trial_set(&t, "contact/*/mu", 0.0);
    trial_set(&t, "contact/*/restitution", 1.0);
    trial_run(&t);
    for (uint32_t k = 0; k < t.steps; k++) close_to("energy", t.observations[k], 9.81, 0.25);
    trial_free(&t);
}

// Sweeps that have not converged say so.
static void unconverged_sweeps_are_reported(void** state) {
    (void)state;
    ns_system_options o = ns_default_system_options();
    o.contact = NS_CONTACT_BAUMGARTE;
    o.contact_sweeps = 5;
    trial t = trial_make(block, &o, 100);
    ns_contact_report report;
    ns_error error = {0};
    t.x0[BLOCK_VX] = 1.0;
    ns_rollout_args args = {.batch = 1, .steps = 100, .x0 = t.x0, .contact = &report};
    assert_int_equal(ns_rollout(t.system, t.work, &args, &error), NS_OK);
    assert_true(report.unsolved > 50 && report.residual > 1e-3);
    trial_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ball_bounces_to_its_height),
        cmocka_unit_test(without_restitution_a_ball_stays_where_it_lands),
        cmocka_unit_test(equal_balls_swap_their_velocities),
        cmocka_unit_test(springs_swap_velocities_nearly),
        cmocka_unit_test(a_block_slides_its_distance),
        cmocka_unit_test(a_block_on_springs_slides_its_distance),
        cmocka_unit_test(a_block_on_an_incline_keeps_to_the_friction_angle),
        cmocka_unit_test(a_sphere_ends_up_rolling),
        cmocka_unit_test(a_stack_of_boxes_stays),
        cmocka_unit_test(collisions_in_free_space_conserve_momentum),
        cmocka_unit_test(elastic_impacts_keep_energy),
        cmocka_unit_test(unconverged_sweeps_are_reported),
        cmocka_unit_test(a_step_tells_what_its_solver_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
