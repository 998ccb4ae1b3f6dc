// Torsional and rolling friction in motions, for the rigid laws: a ball that spins and one that rolls on the
// plane against closed forms, values and derivatives; energy; who has such friction and who has not.

#include "support/assert.h"
#include "support/modelfile.h"
#include "support/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double g = 9.81, radius = 0.1, mass = 2.0;
static const double inertia = 0.4 * 2.0 * 0.1 * 0.1; // of the ball

static const struct {
    ns_contact_model law;
    ns_friction friction;
    const char* name;
} laws[] = {{NS_CONTACT_NCP, NS_FRICTION_CONE, "ncp, cone"},
            {NS_CONTACT_NCP, NS_FRICTION_PYRAMID, "ncp, pyramid"},
            {NS_CONTACT_CONVEX, NS_FRICTION_CONE, "convex"},
            {NS_CONTACT_BAUMGARTE, NS_FRICTION_CONE, "baumgarte"}};
enum { LAWS = sizeof laws / sizeof *laws };

static ns_system_options options_of(int k, const char* const* free_params, uint32_t nfree) {
    ns_system_options options = ns_default_system_options();
    options.contact = (int)laws[k].law;
    options.friction = laws[k].friction;
    options.free_params = free_params;
    options.nfree = nfree;
    return options;
}

// A ball on the plane with these joints, and friction of a condim.
static const char* ball_text(const char* joints, int condim) {
    static char text[1000];
    snprintf(text, sizeof text,
             "<mujoco><option timestep='0.001' cone='elliptic'/><worldbody>"
             "<geom name='floor' type='plane' size='5 5 1' friction='0.2'/>"
             "<body name='ball' pos='0 0 0.1'>%s<geom name='ball' size='0.1' mass='2' condim='%d' "
             "friction='0.8 0.02 0.003'/></body></worldbody></mujoco>",
             joints, condim);
    return text;
}

#define FALLS "<joint name='z' type='slide' axis='0 0 1'/>"
#define SPINS FALLS "<joint name='spin' type='hinge' axis='0 0 1'/>"
#define ROLLS                                                                                      \
    "<joint name='x' type='slide' axis='1 0 0'/>" FALLS                                            \
    "<joint name='roll' type='hinge' axis='0 1 0'/>"

// ---- a ball that spins -------------------------------------------------------------------------

// It stops after w0 I / (mu_torsion m g). The angle is that of velocities at the ends of steps, of which K are
// whole before it stops.
static void a_spinning_ball_stops(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu_torsion"};
    enum { STEPS = 300, ANGLE = 1, SPIN = 3 };
    const double dt = 1e-3, w0 = 10.0, mu = 0.02, slowing = mu * mass * g / inertia;
    const double stop = w0 / slowing; // 0.204 s
    const double K = floor(stop / dt), turned = K * w0 * dt - slowing * dt * dt * K * (K + 1) / 2;
    for (int k = 0; k < LAWS; k++) {
        ns_system_options o = options_of(k, names, 1);
        trial t = trial_make(ball_text(SPINS, 4), &o, STEPS);
        assert_true(*trial_param(&t, "contact/ball:floor/mu_torsion") == mu);
        t.x0[SPIN] = w0;
        // The convex law parts bodies by mu_torsion times the spin: at that height the ball does not hop, but
        // for the first step, which starts to lower it.
        bool convex = laws[k].law == NS_CONTACT_CONVEX;
        const double accuracy = convex ? 0.11 * slowing * dt : 1e-5;
        if (convex) t.x0[0] = mu * w0 * dt;
        trial_run(&t);
        double last = 0.0;
        for (uint32_t i = 1; i <= STEPS; i++) {
            double w = trial_state(&t, i)[SPIN], want = fmax(0.0, w0 - slowing * i * dt);
            if (w > 1e-2) last = i * dt;
            close_to("spin", w, want, accuracy);
        }
        close_to("time at which it stops", last, stop, 1.5 * dt);
        close_to("spin at the end", trial_end(&t)[SPIN], 0.0, 1e-12);
        close_to("angle", trial_end(&t)[ANGLE], turned, stop * accuracy + 1e-5);
        close_to("angle in continuous time", turned, w0 * w0 / (2.0 * slowing), w0 * dt);

        // d angle / d mu_torsion = -angle / mu_torsion, d angle / d w0 = the time.
        double dx0[4], dmu;
        trial_gradient(&t, ANGLE, dx0, &dmu);
        print_message("%s: angle %.5f (%.5f), d/dmu %.3f (%.3f), d/dw0 %.5f (%.5f)\n", laws[k].name,
                      trial_end(&t)[ANGLE], turned, dmu, -stop * w0 / (2.0 * mu), dx0[SPIN], stop);
        close_to("d angle / d mu", dmu, -slowing / mu * dt * dt * K * (K + 1) / 2, 2e-3 / mu);
        close_to("d angle / d mu in continuous time", dmu, -stop * w0 / (2.0 * mu), w0 * dt / mu);
        close_to("d angle / d w0", dx0[SPIN], stop, 1.5 * dt);
        trial_free(&t);
    }
}

// ---- a ball that rolls -------------------------------------------------------------------------

// It slows down by mu_rolling g / (1.4 r) and stays where it stops.
static void a_rolling_ball_stops(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu_rolling"};
    enum { STEPS = 2500, X = 0, V = 3, ROLL = 5 };
    const double dt = 1e-3, v0 = 0.4, mu = 0.003, slowing = mu * g / (1.4 * radius);
    const double stop = v0 / slowing; // 1.903 s
    const double K = floor(stop / dt), way = K * v0 * dt - slowing * dt * dt * K * (K + 1) / 2;
    for (int k = 0; k < LAWS; k++) {
        ns_system_options o = options_of(k, names, 1);
        trial t = trial_make(ball_text(ROLLS, 6), &o, STEPS);
        assert_true(*trial_param(&t, "contact/ball:floor/mu_rolling") == mu);
        t.x0[V] = v0, t.x0[ROLL] = v0 / radius;
        trial_run(&t);
        for (uint32_t i = 1; i <= STEPS; i++) {
            const double* x = trial_state(&t, i);
            close_to("speed", x[V], fmax(0.0, v0 - slowing * i * dt), 3e-4);
            close_to("slip", x[V] - radius * x[ROLL], 0.0, 1e-4);
        }
        close_to("speed at the end", trial_end(&t)[V], 0.0, 1e-9);
        double place = trial_state(&t, STEPS - 300)[X];
        close_to("place where it stays", trial_end(&t)[X], place, 1e-9);
        close_to("distance", trial_end(&t)[X], way, 3e-4);

        double dx0[6], dmu;
        trial_gradient(&t, X, dx0, &dmu);
        print_message("%s: distance %.5f (%.5f), d/dmu %.3f (%.3f)\n", laws[k].name,
                      trial_end(&t)[X], way, dmu, -stop * v0 / (2.0 * mu));
        close_to("d distance / d mu", dmu, -stop * v0 / (2.0 * mu), v0 * dt / mu);
        close_to("d distance / d (v0, w0)", dx0[V] + dx0[ROLL] / radius, stop, 2.0 * dt);
        trial_free(&t);
    }
}

// Without it the ball rolls on; the derivative at 0 is that of what would slow it down.
static void without_it_a_ball_rolls_on(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu_rolling"};
    enum { STEPS = 1000, X = 0, V = 3, ROLL = 5 };
    const double T = 1.0, v0 = 0.4;
    for (int k = 0; k < LAWS; k++) {
        double ends[2][6];
        for (int condim = 3; condim <= 6; condim += 3) {
            ns_system_options o = options_of(k, names, condim == 6);
            trial t = trial_make(ball_text(ROLLS, condim), &o, STEPS);
            if (condim == 6) trial_set(&t, "**", 0.0);
            t.x0[V] = v0, t.x0[ROLL] = v0 / radius;
            trial_run(&t);
            close_to("speed", trial_end(&t)[V], v0, 1e-5);
            memcpy(ends[condim == 6], trial_end(&t), sizeof ends[0]);
            if (condim == 6) {
                double dmu;
                trial_gradient(&t, X, NULL, &dmu);
                close_to("d distance / d mu at 0", dmu, -g * T * T / (2.0 * 1.4 * radius), 0.1);
            }
            trial_free(&t);
        }
        all_close(ends[1], ends[0], 6, 1e-12); // with rows whose limit is 0, and without rows
    }
}

// ---- energy ------------------------------------------------------------------------------------

// Bodies fall and tumble with all kinds of friction: no step gains energy (without the correction of overlap,
// which lifts). With the law "ncp" some bounce: an impact loses energy, the motion around it keeps energy up to
// the order of the step, as it does without such friction.
static void no_step_gains_energy(void** state) {
    (void)state;
    static const char* const shapes[] = {"type='sphere' size='0.1'",
                                         "type='box' size='0.2 0.15 0.1'",
                                         "type='capsule' size='0.06 0.12'"};
    static const char* const watched[] = {"energy/total"};
    static const char* const names[] = {"contact/*/baumgarte_beta", "contact/*/restitution"};
    enum { STEPS = 800, FALLS_EACH = 8 };
    ns_rng rng = ns_rng_seed(81);
    for (int k = 0; k < LAWS; k++) {
        if (laws[k].law == NS_CONTACT_BAUMGARTE) continue; // its push is momentum
        double gain[2] = {-1.0, -1.0};                     // without and with restitution
        for (int shape = 0; shape < 3; shape++) {
            char text[1000];
            snprintf(text, sizeof text,
                     "<mujoco><option timestep='0.001'/><worldbody><geom name='floor' type='plane' "
                     "size='5 5 1'/><body name='b' pos='0 0 0.4'><freejoint/><geom name='b' %s "
                     "mass='2' condim='6' friction='0.7 0.02 0.01'/></body></worldbody></mujoco>",
                     shapes[shape]);
            ns_system_options o = options_of(k, names, 2);
            o.observe = watched;
            o.nobserve = 1;
            trial t = trial_make(text, &o, STEPS);
            trial_set(&t, "**/baumgarte_beta", 0.0);
            for (int fall = 0; fall < FALLS_EACH; fall++) {
                bool bounces = laws[k].law == NS_CONTACT_NCP && fall % 2 == 0;
                trial_set(&t, "**/restitution", bounces ? 0.7 : 0.0);
                double size = 0.0;
                for (int i = 3; i < 7; i++) t.x0[i] = ns_rng_normal(&rng);
                for (int i = 3; i < 7; i++) size += t.x0[i] * t.x0[i];
                for (int i = 3; i < 7; i++) t.x0[i] /= sqrt(size);
                for (int i = 7; i < 13; i++) t.x0[i] = ns_rng_normal(&rng) * (i < 10 ? 1.0 : 6.0);
                trial_run(&t);
                for (uint32_t i = 1; i < STEPS; i++) {
                    double more = t.observations[i] - t.observations[i - 1];
                    gain[bounces] = fmax(gain[bounces], more);
                }
            }
            trial_free(&t);
        }
        print_message("%s: largest gain in a step %.1e J, of those that bounce %.1e J\n",
                      laws[k].name, gain[0], gain[1]);
        assert_true(gain[0] < 1e-9 && gain[1] < 1e-3);
    }
}

// ---- who has it --------------------------------------------------------------------------------

// Springs and sweeps do without: the one documented, the other refused.
static void sweeps_are_refused(void** state) {
    (void)state;
    ns_system_options o = options_of(3, NULL, 0);
    o.contact_sweeps = 20;
    ns_model* model = modelfile_parse(ball_text(ROLLS, 6));
    ns_system* system = NULL;
    ns_error error = {0};
    assert_int_equal(ns_system_create(model, &o, &system, &error), NS_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "set mu_torsion and mu_rolling to 0"));
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spinning_ball_stops),      cmocka_unit_test(a_rolling_ball_stops),
        cmocka_unit_test(without_it_a_ball_rolls_on), cmocka_unit_test(no_step_gains_energy),
        cmocka_unit_test(sweeps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
