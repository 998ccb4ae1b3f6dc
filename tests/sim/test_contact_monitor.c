// Contacts near a switch: found where the closed form has a kink, and nowhere else.

#include "neuralsim/certificate.h"
#include "support/assert.h"
#include "support/malloccount.h"
#include "support/testalloc.h"
#include "support/trial.h"

#include <math.h>

// A block on an inclined plane in the form of tilted gravity: it sticks when tan(tilt) < mu.
#define BLOCK(gx, gz)                                                                              \
    "<mujoco><option timestep='0.001' gravity='" gx " 0 " gz "'/><worldbody>"                      \
    "<geom name='ground' type='plane' size='5 5 1' friction='0.1'/>"                               \
    "<body pos='0 0 0.1'><joint name='x' type='slide' axis='1 0 0'/>"                              \
    "<joint name='z' type='slide' axis='0 0 1'/>"                                                  \
    "<geom name='b' type='sphere' size='0.1' mass='1' "                                            \
    "friction='0.5'/></body></worldbody></mujoco>"

static ns_gradient_certificate watch(trial* t) {
    ns_gradient_certificate c = {.finite = true, .steps = t->steps};
    ns_contact_monitor* monitor = NULL;
    ns_error error = {0};
    must(ns_contact_monitor_create(t->system, t->steps, &monitor, &error), &error);
    ns_rollout_args args = {.batch = 1, .steps = t->steps, .x0 = t->x0, .params = t->params};
    unsigned long before = malloc_calls;
    must(ns_contact_monitor_run(monitor, &args, &c, &error), &error);
    assert_true(malloc_calls == before);
    ns_contact_monitor_free(monitor);
    return c;
}

// Sticking with a margin, at the friction angle, and sliding.
static void the_friction_angle_is_a_switch(void** state) {
    (void)state;
    for (int pyramid = 0; pyramid < 2; pyramid++) {
        ns_system_options options = ns_default_system_options();
        options.friction = pyramid ? NS_FRICTION_PYRAMID : NS_FRICTION_CONE;
        trial sticks = trial_make(BLOCK("4.5", "-10"), &options, 50);
        trial kink = trial_make(BLOCK("4.999", "-10"), &options, 50);
        trial slides = trial_make(BLOCK("6", "-10"), &options, 50);
        slides.x0[2] = 0.5;
        ns_gradient_certificate a = watch(&sticks), b = watch(&kink), c = watch(&slides);
        assert_int_equal(a.switching_steps, 0);
        assert_int_equal(a.verdict, NS_GRADIENT_OK);
        assert_true(b.switching_steps >= 40 && b.sliding >= 40 && b.touching == 0);
        assert_int_equal(b.verdict, NS_GRADIENT_BIASED);
        assert_says(b.reason, "between sticking and sliding");
        assert_int_equal(c.switching_steps, 0);
        trial_free(&sticks);
        trial_free(&kink);
        trial_free(&slides);
    }
}

// Contacts that are found at run time have no quantities to look at: no switch is seen, and nothing fails.
static void contacts_found_at_run_time_are_left_out(void** state) {
    (void)state;
    ns_system_options options = ns_default_system_options();
    options.detection = NS_DETECTION_RUN_TIME;
    trial kink = trial_make(BLOCK("4.999", "-10"), &options, 50);
    ns_gradient_certificate c = watch(&kink);
    assert_int_equal(c.switching_steps, 0);
    trial_free(&kink);
}

// Friction that is a free parameter: its value in the rollout counts, not the model's.
static void free_friction_counts(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu", "link/*/mass"};
    ns_system_options options = ns_default_system_options();
    options.free_params = names;
    options.nfree = 2;
    trial t = trial_make(BLOCK("4.5", "-10"), &options, 50);
    assert_int_equal(watch(&t).switching_steps, 0);
    trial_set(&t, "contact/*/mu", 0.4502);
    assert_true(watch(&t).sliding >= 40);
    trial_free(&t);
}

// A ball that is as light as nothing on the ground: it touches without a force.
static void an_unloaded_contact_is_a_switch(void** state) {
    (void)state;
    trial rests = trial_make(BLOCK("0", "-10"), NULL, 30);
    trial floats = trial_make(BLOCK("0", "-10"), NULL, 30);
    double* lift = doubles((size_t)30 * floats.n.nc);
    for (uint32_t k = 0; k < 30; k++) lift[k * floats.n.nc + 1] = 9.99;
    assert_int_equal(watch(&rests).switching_steps, 0);
    ns_gradient_certificate c = {.finite = true, .steps = 30};
    ns_contact_monitor* monitor = NULL;
    ns_error error = {0};
    must(ns_contact_monitor_create(floats.system, 30, &monitor, &error), &error);
    ns_rollout_args args = {.batch = 1, .steps = 30, .x0 = floats.x0, .controls = lift};
    must(ns_contact_monitor_run(monitor, &args, &c, &error), &error);
    assert_true(c.touching >= 25);
    assert_says(c.reason, "between touching and apart");
    ns_contact_monitor_free(monitor);
    free(lift);
    trial_free(&rests);
    trial_free(&floats);
}

// Two balls that land at once, and one after the other.
static void impacts_at_once_are_a_switch(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><option timestep='0.001'/><worldbody><geom name='g' type='plane' size='5 5 1'/>"
        "<body pos='0 0 0.2'><joint type='slide' axis='0 0 1'/>"
        "<geom name='a' type='sphere' size='0.1' mass='1'/></body>"
        "<body pos='1 0 0.2'><joint type='slide' axis='0 0 1'/>"
        "<geom name='b' type='sphere' size='0.1' mass='1'/></body></worldbody></mujoco>";
    trial t = trial_make(text, NULL, 160);
    t.x0[0] = 0.00013; // 0.10013 m is not passed exactly at the end of a step
    t.x0[1] = 0.00013;
    ns_gradient_certificate c = watch(&t);
    assert_int_equal(c.simultaneous, 1);
    assert_says(c.reason, "in the order of impacts");
    t.x0[1] = 0.003;
    c = watch(&t);
    assert_int_equal(c.simultaneous, 0);
    assert_int_equal(c.verdict, NS_GRADIENT_OK);
    trial_free(&t);
}

// Springs are smooth; without contact there is nothing to watch.
static void springs_do_not_switch(void** state) {
    (void)state;
    for (int law = 0; law < 2; law++) {
        ns_system_options options = ns_default_system_options();
        options.contact = law == 0 ? NS_CONTACT_SPRING : NS_CONTACT_NONE;
        trial t = trial_make(BLOCK("4.999", "-10"), &options, 20);
        assert_int_equal(watch(&t).switching_steps, 0);
        trial_free(&t);
    }
}

static void refuses_wrong_arguments(void** state) {
    (void)state;
    trial t = trial_make(BLOCK("0", "-10"), NULL, 5);
    ns_contact_monitor* monitor = NULL;
    ns_gradient_certificate c = {.finite = true};
    ns_error error = {0};
    assert_int_equal(ns_contact_monitor_create(NULL, 5, &monitor, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_contact_monitor_create(t.system, 0, &monitor, &error), NS_ERR_ARGUMENT);
    must(ns_contact_monitor_create(t.system, 5, &monitor, &error), &error);
    ns_rollout_args args = {.batch = 1, .steps = 6, .x0 = t.x0};
    assert_int_equal(ns_contact_monitor_run(monitor, &args, &c, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, "a monitor for 1 to 5 steps cannot watch 6");
    args.steps = 5;
    assert_int_equal(ns_contact_monitor_run(monitor, &args, NULL, &error), NS_ERR_ARGUMENT);
    ns_contact_monitor_free(monitor);
    trial_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_friction_angle_is_a_switch),
        cmocka_unit_test(contacts_found_at_run_time_are_left_out),
        cmocka_unit_test(free_friction_counts),
        cmocka_unit_test(an_unloaded_contact_is_a_switch),
        cmocka_unit_test(impacts_at_once_are_a_switch),
        cmocka_unit_test(springs_do_not_switch),
        cmocka_unit_test(refuses_wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
