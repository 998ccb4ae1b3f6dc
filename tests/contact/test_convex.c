// The law "convex" in motions: sliding with its known gap, bounces as with "ncp", falls and pushes with much
// friction, overlap, what it refuses.

#include "support/assert.h"
#include "support/modelfile.h"
#include "support/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double g = 9.81;

#define FLOOR "<geom name='floor' type='plane' size='5 5 1'/>"

static ns_system_options convex_options(const char* const* free_params, uint32_t nfree) {
    ns_system_options options = ns_default_system_options();
    options.contact = NS_CONTACT_CONVEX;
    options.free_params = free_params;
    options.nfree = nfree;
    return options;
}

// ---- sliding -----------------------------------------------------------------------------------

static const char block[] =
    "<mujoco><option timestep='0.001'/><worldbody>" FLOOR
    "<body name='box' pos='0 0 0.1'><freejoint/>"
    "<geom name='box' type='box' size='0.2 0.15 0.1' mass='2'/></body></worldbody></mujoco>";

enum { HEIGHT = 2, SPEED = 7, RISE = 9 }; // of the free body's state

// Started at the height mu v dt, a block slides without a hop: its gap is mu times its speed times dt, so it
// sinks with mu^2 g dt and presses with its weight. It slides as far as Coulomb's block, up to half a step.
static void a_block_slides_at_its_height(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu"};
    static const double steps[] = {1e-3, 2.5e-4};
    const double mu = 0.4, v = 1.5, way = v * v / (2.0 * mu * g);
    for (int k = 0; k < 2; k++) {
        const double dt = steps[k];
        ns_system_options o = convex_options(names, 1);
        o.timestep = dt;
        trial t = trial_make(block, &o, (uint32_t)(0.6 / dt));
        trial_set(&t, "**", mu);
        t.x0[SPEED] = v;
        t.x0[HEIGHT] += mu * v * dt;
        trial_run(&t);
        double worst = 0.0;
        for (uint32_t i = 1; i < 0.3 / dt; i++) {
            const double* x = trial_state(&t, i);
            worst = fmax(worst, fabs(x[HEIGHT] - 0.1 - mu * x[SPEED] * dt));
        }
        double dx0[13], dmu;
        trial_gradient(&t, 0, dx0, &dmu);
        print_message("dt %.2e: gap misses mu v dt = %.1e by %.1e m; distance %.5f (%.5f), d/dv"
                      " %.5f (%.5f), d/dmu %.5f (%.5f)\n",
                      dt, mu * v * dt, worst, trial_end(&t)[0], way, dx0[SPEED], v / (mu * g), dmu,
                      -way / mu);
        assert_true(worst < 0.01 * mu * v * dt);
        close_to("distance", trial_end(&t)[0], way, 1.5 * v * dt);
        close_to("speed", trial_end(&t)[SPEED], 0.0, 1e-4);
        close_to("height at rest", trial_end(&t)[HEIGHT], 0.1, 1e-6);
        trial_free(&t);
    }
}

// Started on the floor it hops: after the first step, with s its speed, it rises with mu s, and
// v - s = mu (mu s + g dt).
static void a_block_on_the_floor_hops(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu"};
    ns_system_options o = convex_options(names, 1);
    trial t = trial_make(block, &o, 1);
    const double mu = 0.4, v = 1.5, s = (v - mu * g * 1e-3) / (1.0 + mu * mu);
    trial_set(&t, "**", mu);
    t.x0[SPEED] = v;
    trial_run(&t);
    close_to("speed", trial_end(&t)[SPEED], s, 1e-3);
    close_to("rise", trial_end(&t)[RISE], mu * s, 1e-3);
    trial_free(&t);
}

// A block that sticks does not move, and a push below the bound does not move it.
static void a_block_sticks(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu", "world/gravity/?"};
    ns_system_options o = convex_options(names, 2);
    trial t = trial_make(block, &o, 1000);
    trial_set(&t, "contact/*/mu", 0.5);
    *trial_param(&t, "world/gravity/x") = 0.45 * g;
    trial_run(&t);
    close_to("way", trial_end(&t)[0], 0.0, 1e-3); // what the softness of contact creeps
    close_to("height", trial_end(&t)[HEIGHT], 0.1, 1e-6);
    trial_free(&t);
}

// ---- without friction --------------------------------------------------------------------------

static const char ball[] =
    "<mujoco><option timestep='0.001'/><worldbody>" FLOOR
    "<body name='ball' pos='0 0 0.6'><joint name='z' type='slide' axis='0 0 1'/>"
    "<geom name='ball' type='sphere' size='0.1' mass='0.5'/></body></worldbody></mujoco>";

// Without friction both laws have the same bounces, up to when they call a ball at rest.
static void a_ball_bounces_as_with_ncp(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/restitution"};
    static const double bounces[] = {0.0, 0.5, 0.8, 1.0};
    for (int k = 0; k < 4; k++) {
        double end[2][2], dx0[2][2], de[2];
        for (int law = 0; law < 2; law++) {
            ns_system_options o = convex_options(names, 1);
            o.contact = law == 0 ? NS_CONTACT_NCP : NS_CONTACT_CONVEX;
            trial t = trial_make(ball, &o, 1200);
            trial_set(&t, "**", bounces[k]);
            trial_run(&t);
            trial_gradient(&t, 0, dx0[law], &de[law]);
            memcpy(end[law], trial_end(&t), sizeof end[law]);
            trial_free(&t);
        }
        print_message("e %.1f: height %.9f, ncp %.9f; d/d start %.6f, ncp %.6f; d/de %.6f, ncp"
                      " %.6f\n",
                      bounces[k], end[1][0], end[0][0], dx0[1][0], dx0[0][0], de[1], de[0]);
        close_to("height", end[1][0], end[0][0], 1e-6);
        close_to("speed", end[1][1], end[0][1], 1e-5);
        close_to("d height / d start", dx0[1][0], dx0[0][0], 1e-5);
        close_to("d height / d e", de[1], de[0], 1e-5 * (1.0 + fabs(de[0])));
    }
}

// ---- overlap -----------------------------------------------------------------------------------

// A box that starts inside the floor comes out without speed.
static void overlap_becomes_no_speed(void** state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        const double depth = (const double[]){1e-3, 1e-2, 5e-2}[k];
        ns_system_options o = convex_options(NULL, 0);
        trial t = trial_make(block, &o, 500);
        t.x0[HEIGHT] -= depth;
        trial_run(&t);
        double highest = 0.0, fastest = 0.0;
        for (uint32_t i = 0; i <= t.steps; i++) {
            highest = fmax(highest, trial_state(&t, i)[HEIGHT] - 0.1);
            fastest = fmax(fastest, fabs(trial_state(&t, i)[RISE]));
        }
        print_message("depth %.0e m: rises %.1e m above the floor, %.1e m/s\n", depth, highest,
                      fastest);
        assert_true(highest < 1e-6 && fastest < 1e-4);
        close_to("height", trial_end(&t)[HEIGHT], 0.1, 1e-6);
        trial_free(&t);
    }
}

// ---- falls with much friction ------------------------------------------------------------------

static void random_fall(ns_rng* rng, double* x) {
    double size = 0.0;
    for (int k = 3; k < 7; k++) x[k] = ns_rng_normal(rng), size += x[k] * x[k];
    for (int k = 3; k < 7; k++) x[k] /= sqrt(size);
    for (int k = 7; k < 13; k++) x[k] = ns_rng_normal(rng) * (k < 10 ? 1.0 : 4.0);
    x[0] = x[1] = 0.0;
    x[2] = 0.4;
}

// The largest gain of energy in a step of a rollout that observes energy/total and contact/solves, and the
// most Newton steps.
static void largest_gain(const trial* t, double* gain, double* solves) {
    for (uint32_t i = 0; i < t->steps; i++) {
        const double* y = t->observations + (size_t)2 * i;
        if (i > 0) *gain = fmax(*gain, y[0] - y[-2]);
        *solves = fmax(*solves, y[1]);
    }
}

static const char* const watched[] = {"energy/total", "contact/solves"};

// Boxes fall with mu = 1 and no restitution: every step is solved and none gains energy, but for what the
// correction of overlap lifts.
static void boxes_fall(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu", "contact/*/baumgarte_beta"};
    enum { BOXES = 20, STEPS = 1500 };
    for (int corrected = 0; corrected < 2; corrected++) {
        ns_system_options o = convex_options(names, 2);
        o.observe = watched;
        o.nobserve = 2;
        trial t = trial_make(block, &o, STEPS);
        trial_set(&t, "contact/*/mu", 1.0);
        trial_set(&t, "contact/*/baumgarte_beta", corrected ? 0.2 : 0.0);
        ns_rng rng = ns_rng_seed(51);
        double gain = -1.0, solves = 0.0, rest = 0.0, mean = 0.0;
        for (int k = 0; k < BOXES; k++) {
            random_fall(&rng, t.x0);
            trial_run(&t); // fails where a step is not solved
            assert_int_equal(t.contact.unsolved, 0);
            assert_int_equal(t.contact.relaxed, 0);
            largest_gain(&t, &gain, &solves);
            for (int i = 7; i < 13; i++) rest = fmax(rest, fabs(trial_end(&t)[i]));
            for (int i = 0; i < STEPS; i++) mean += t.observations[2 * i + 1] / (BOXES * STEPS);
        }
        print_message("%s correction: largest gain in a step %.1e J, %.2f Newton steps, up to %.0f,"
                      " fastest at the end %.1e\n",
                      corrected ? "with" : "without", gain, mean, solves, rest);
        assert_true(gain < (corrected ? 1e-3 : 1e-12));
        trial_free(&t);
    }
}

// The exact gradient of a fall against differences of it, where no switch is near.
static void the_gradient_of_a_fall(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu"};
    ns_system_options o = convex_options(names, 1);
    trial t = trial_make(block, &o, 400);
    trial_set(&t, "**", 0.6);
    ns_rng rng = ns_rng_seed(52);
    uint32_t close = 0, total = 0;
    for (int k = 0; k < 10; k++) {
        random_fall(&rng, t.x0);
        trial_run(&t);
        double dx0[13];
        trial_gradient(&t, 0, dx0, NULL);
        for (int i = 7; i < 13; i++, total++) {
            const double h = 1e-7, x = t.x0[i];
            double ends[2];
            for (int side = 0; side < 2; side++) {
                t.x0[i] = x + (side ? h : -h);
                trial_run(&t);
                ends[side] = trial_end(&t)[0];
            }
            t.x0[i] = x;
            double slope = (ends[1] - ends[0]) / (2.0 * h);
            close += fabs(slope - dx0[i]) <= 1e-3 * (1.0 + fabs(slope));
        }
    }
    print_message("%u of %u slopes agree\n", close, total);
    assert_true(close * 10 >= 9 * total); // differences may cross a switch
    trial_free(&t);
}

// A quadruped without drives falls on the floor.
static void a_quadruped_falls(void** state) {
    (void)state;
    static const int laws[] = {NS_CONTACT_NCP, NS_CONTACT_CONVEX};
    for (int law = 0; law < 2; law++) {
        ns_load_options load = ns_default_load_options();
        load.ground = true;
        ns_error error = {0};
        ns_model* model = NULL;
        must(ns_model_load(NEURALSIM_SOURCE_DIR "/models/quadruped.urdf", &load, &model, &error),
             &error);
        ns_system_options o = convex_options(NULL, 0);
        o.contact = laws[law];
        o.timestep = 1e-3;
        o.observe = watched;
        o.nobserve = 2;
        trial t = trial_of_model(model, &o, 1000);
        t.x0[HEIGHT] = 0.6;
        trial_run(&t);
        double gain = 0.0, solves = 0.0;
        largest_gain(&t, &gain, &solves);
        print_message("%s: height %.3f m after 1 s, largest gain in a step %.1e J, up to %.0f"
                      " solves\n",
                      law ? "convex" : "ncp", trial_end(&t)[HEIGHT], gain, solves);
        if (law == 1) assert_int_equal(t.contact.unsolved + t.contact.relaxed, 0);
        assert_true(trial_end(&t)[HEIGHT] > 0.0 && trial_end(&t)[HEIGHT] < 0.6);
        trial_free(&t);
    }
}

// ---- what it refuses ---------------------------------------------------------------------------

static void pyramid_and_sweeps_are_refused(void** state) {
    (void)state;
    ns_error error = {0};
    ns_model* model = modelfile_parse(block);
    ns_system* system = NULL;
    ns_system_options o = convex_options(NULL, 0);
    o.friction = NS_FRICTION_PYRAMID;
    assert_int_equal(ns_system_create(model, &o, &system, &error), NS_ERR_UNSUPPORTED);
    assert_says(error.message, "choose friction cone");
    o = convex_options(NULL, 0);
    o.contact_sweeps = 5;
    assert_int_equal(ns_system_create(model, &o, &system, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, "contact law baumgarte");
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_slides_at_its_height),
        cmocka_unit_test(a_block_on_the_floor_hops),
        cmocka_unit_test(a_block_sticks),
        cmocka_unit_test(a_ball_bounces_as_with_ncp),
        cmocka_unit_test(overlap_becomes_no_speed),
        cmocka_unit_test(boxes_fall),
        cmocka_unit_test(the_gradient_of_a_fall),
        cmocka_unit_test(a_quadruped_falls),
        cmocka_unit_test(pyramid_and_sweeps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
