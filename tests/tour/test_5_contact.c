// Tour 5 of 5: contact. A ball falls on the ground, bounces, and comes to rest.
//
// Contact is rigid: in each step the solver finds impulses that keep bodies apart, pull never, and
// obey Coulomb's law of friction (docs/contact.md). trial_run() fails when a step is not solved.

#include "support/assert.h"
#include "support/trial.h"

#include <math.h>

// The ball touches the ground at q0 = -0.5, as its centre starts 0.6 m above and its radius is 0.1.
static const char ball[] =
    "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body name='ball' pos='0 0 0.6'><joint name='z' type='slide' axis='0 0 1'/>"
    "<geom name='ball' type='sphere' size='0.1' mass='0.5'/></body></worldbody></mujoco>";

static const double g = 9.81, drop = 0.5;

enum { Q = 0, QD = 1 };

// Without restitution: free fall, then rest.
static void a_ball_stays_where_it_lands(void** state) {
    (void)state;
    trial t = trial_make(ball, NULL, 1000);
    trial_run(&t);

    // Just before the impact, at sqrt(2 drop / g) = 0.3193 s, it falls as if there were no ground.
    close_to("velocity before", trial_state(&t, 318)[QD], -g * 0.318, 1e-9);

    // After it, it lies on the ground and stays there.
    for (uint32_t k = 330; k <= 1000; k++) {
        close_to("height", trial_state(&t, k)[Q], -drop, 1e-3);
        close_to("velocity", trial_state(&t, k)[QD], 0.0, 1e-2);
    }
    close_to("height in the end", trial_end(&t)[Q], -drop, 1e-5);
    trial_free(&t);
}

// With a restitution e it rebounds with e times its velocity, to e^2 times its height.
static void a_ball_bounces(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/restitution"};
    ns_system_options options = ns_default_system_options();
    options.free_params = names, options.nfree = 1;
    trial t = trial_make(ball, &options, 700);
    const double e = 0.8, impact = sqrt(2.0 * drop / g);
    trial_set(&t, names[0], e);
    trial_run(&t);

    double apex = -drop;
    for (uint32_t k = 320; k <= 700; k++) apex = fmax(apex, trial_state(&t, k)[Q]);
    close_to("apex", apex, (e * e - 1.0) * drop, 4e-3); // the impact falls between two steps

    // Derivatives go through the impact. At the time T it is at e v (T - impact) - g (T - impact)^2
    // / 2 above the ground; for e that has the slope v (T - impact), v being the velocity of impact.
    double de;
    trial_gradient(&t, Q, NULL, &de);
    close_to("d height / d restitution", de, g * impact * (0.7 - impact), 1e-2);
    trial_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ball_stays_where_it_lands),
        cmocka_unit_test(a_ball_bounces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
