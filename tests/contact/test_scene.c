// Contacts that are found at run time are those that are traced one by one: the same motion, and the same
// derivatives by a different route.

#include "base/common.h"
#include "contact/scene.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char* const free_names[] = {
    "contact/*/mu", "contact/*/restitution", "contact/*/cfm", "contact/*/baumgarte_beta",
    "geom/**",      "world/gravity/*",       "link/*/mass"};

static trial make(const char* text, ns_detection detection, uint32_t steps) {
    ns_system_options options = ns_default_system_options();
    options.detection = detection;
    options.free_params = free_names;
    options.nfree = sizeof free_names / sizeof *free_names;
    static const char* const names[] = {"contact/penetration", "energy/total"};
    options.observe = names;
    options.nobserve = 2;
    return trial_make(text, &options, steps);
}

// Largest difference of two vectors, relative to the largest number in them.
static double difference(uint32_t n, const double* a, const double* b) {
    double largest = 0.0, apart = 0.0;
    for (uint32_t k = 0; k < n; k++) {
        largest = fmax(largest, fmax(fabs(a[k]), fabs(b[k])));
        apart = fmax(apart, fabs(a[k] - b[k]));
    }
    return apart / fmax(largest, 1e-6); // what is zero has no more than rounding
}

// The same motion and gradients of some states, from x0 as the model stands plus `start` (nx, or NULL).
static void compare(const char* text, uint32_t steps, const double* velocity) {
    trial traced = make(text, NS_DETECTION_TRACED, steps);
    trial found = make(text, NS_DETECTION_RUN_TIME, steps);
    assert_int_equal(traced.n.nx, found.n.nx);
    assert_int_equal(traced.n.np, found.n.np);
    uint32_t nx = traced.n.nx, np = traced.n.np;
    for (uint32_t k = traced.nq; velocity && k < nx; k++) {
        traced.x0[k] = found.x0[k] = velocity[k - traced.nq];
    }
    trial_run(&traced);
    trial_run(&found);
    double moved = difference(nx * (steps + 1), traced.states, found.states);
    double seen = difference(2 * steps, traced.observations, found.observations);

    double g[4][600];
    assert_true(nx <= 600 && np <= 600);
    double worst = 0.0;
    for (uint32_t k = 0; k < nx; k += 3) {
        trial_gradient(&traced, k, g[0], g[1]);
        trial_gradient(&found, k, g[2], g[3]);
        worst = fmax(worst, difference(nx, g[0], g[2]));
        worst = fmax(worst, difference(np, g[1], g[3]));
    }
    print_message("states %.1e, observations %.1e, gradients %.1e\n", moved, seen, worst);
    assert_true(moved < 1e-9);
    assert_true(seen < 1e-9);
    assert_true(worst < 1e-6);
    trial_free(&traced);
    trial_free(&found);
}

#define HEAD                                                                                       \
    "<mujoco><option timestep=\"0.001\"/><worldbody>"                                              \
    "<geom name=\"floor\" type=\"plane\" size=\"5 5 1\"/>"
#define TAIL "</worldbody></mujoco>"

static void a_ball_bounces(void** state) {
    (void)state;
    static const char text[] =
        HEAD "<body name=\"a\" pos=\"0 0 0.12\"><freejoint/><geom name=\"a\" type=\"sphere\" "
             "size=\".1\" mass=\"1\"/></body>" TAIL;
    double v[6] = {0.3, 0.1, -1.0, 1.0, 2.0, 0.5};
    compare(text, 60, v);
}

static void two_islands(void** state) {
    (void)state;
    static const char text[] =
        HEAD "<body name=\"a\" pos=\"0 0 0.1\"><freejoint/><geom name=\"a\" type=\"sphere\" "
             "size=\".1\" mass=\"1\"/></body>"
             "<body name=\"b\" pos=\"0.02 0 0.302\"><freejoint/><geom name=\"b\" type=\"sphere\" "
             "size=\".1\" mass=\"2\"/></body>"
             "<body name=\"c\" pos=\"1 0 0.15\"><freejoint/><geom name=\"c\" type=\"box\" "
             "size=\".05 .06 .07\" mass=\"2\"/></body>" TAIL;
    double v[18] = {0, 0, 0, 0, 0, 0, 0.1, 0, -1, 0.2, 0.3, 0, 0.4, 0.2, -2, 3, 1, 2};
    compare(text, 80, v);
}

// A chain with its own collisions, beside a box on the ground: bodies of one tree touch each other.
static void a_chain_folds(void** state) {
    (void)state;
    static const char text[] =
        HEAD "<body name=\"l0\" pos=\"0 0 .5\"><joint axis=\"0 1 0\"/><joint axis=\"1 0 0\"/>"
             "<geom name=\"g0\" type=\"capsule\" fromto=\"0 0 0 .3 0 0\" size=\".03\" mass=\"1\"/>"
             "<body name=\"l1\" pos=\".3 0 0\"><joint axis=\"0 1 0\"/>"
             "<geom name=\"g1\" type=\"capsule\" fromto=\"0 0 0 .3 0 0\" size=\".03\" mass=\"1\"/>"
             "<body name=\"l2\" pos=\".3 0 0\"><joint axis=\"0 1 0\"/>"
             "<geom name=\"g2\" type=\"capsule\" fromto=\"0 0 0 .3 0 0\" size=\".03\" mass=\"1\"/>"
             "</body></body></body>"
             "<body name=\"box\" pos=\".3 0.02 .1\"><freejoint/><geom name=\"box\" type=\"box\" "
             "size=\".1 .1 .1\" mass=\"3\"/></body>" TAIL;
    double v[10] = {0.5, 0.2, 6.0, 9.0};
    compare(text, 200, v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ball_bounces),
        cmocka_unit_test(two_islands),
        cmocka_unit_test(a_chain_folds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
