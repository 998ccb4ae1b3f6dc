// Stacks and heaps whose contacts are found when the step runs, against what they must do: what stands
// stays, nothing sinks in, and without restitution no step gains energy.

#include "base/common.h"
#include "support/assert.h"
#include "support/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char box[] = "type='box' size='.05 .05 .05' mass='1'";

static void start_pile(nsi_text_builder* t) {
    *t = (nsi_text_builder){.allocator = ns_default_allocator()};
    nsi_text_add(t, "<mujoco><option timestep='0.001'/><worldbody>"
                    "<geom name='floor' type='plane' size='5 5 1'/>");
}

static void put_body(nsi_text_builder* t, double x, double y, double z, const double turn[4],
                     const char* geom) {
    nsi_text_add(t,
                 "<body pos='%.9g %.9g %.9g' quat='%.9g %.9g %.9g %.9g'><freejoint/>"
                 "<geom %s/></body>",
                 x, y, z, turn[0], turn[1], turn[2], turn[3], geom);
}

static trial end_pile(nsi_text_builder* t, uint32_t steps) {
    static const char* const names[] = {"energy/total", "contact/penetration"};
    ns_system_options options = ns_default_system_options();
    options.observe = names;
    options.nobserve = 2;
    nsi_text_add(t, "</worldbody></mujoco>");
    ns_text text = {0};
    ns_error error = {0};
    must(nsi_text_finish(t, &text, &error), &error);
    trial pile = trial_make(text.data, &options, steps);
    ns_text_free(&text);
    return pile;
}

// No step gains more than rounding, and nothing sinks in by `depth`.
static void check_pile(trial* t, double depth) {
    trial_run(t);
    const double start = t->observations[0];
    double deepest = 0.0, gain = -1e300;
    for (uint32_t k = 0; k < t->steps; k++) {
        const double* y = t->observations + (size_t)2 * k;
        deepest = fmax(deepest, y[1]);
        if (k > 0) gain = fmax(gain, y[0] - y[-2]);
    }
    print_message("energy %.6g to %.6g J, largest gain in a step %.1e J, penetration %.1e m, %u of "
                  "%u steps relaxed\n",
                  start, t->observations[(size_t)2 * (t->steps - 1)], gain, deepest,
                  t->contact.relaxed, t->steps);
    assert_true(gain <= 1e-9 * start);
    assert_true(deepest < depth);
}

static const double upright[4] = {1, 0, 0, 0};

// 153 contacts in one island.
static void a_pyramid_stands(void** state) {
    (void)state;
    enum { ROWS = 6, BOXES = 21 };
    nsi_text_builder text;
    start_pile(&text);
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t k = 0; k < ROWS - row; k++) {
            put_body(&text, 0.105 * (k - 0.5 * (ROWS - row - 1)), 0.0, 0.05 + 0.1 * row, upright,
                     box);
        }
    }
    trial t = end_pile(&text, 300);
    check_pile(&t, 1e-8);
    for (uint32_t k = 0; k < BOXES; k++) {
        for (uint32_t i = 0; i < 7; i++) {
            assert_true(fabs(trial_end(&t)[7 * k + i] - t.x0[7 * k + i]) < 1e-6);
        }
    }

    // At rest a push does not grow.
    double* dx0 = doubles(t.n.nx);
    trial_gradient(&t, 7 * (BOXES - 1), dx0, NULL);
    for (uint32_t k = 0; k < t.n.nx; k++) assert_true(fabs(dx0[k]) < 10.0);
    free(dx0);
    trial_free(&t);
}

// Spheres fall into a bowl of eight inclined planes.
static void spheres_fill_a_bowl(void** state) {
    (void)state;
    enum { SIDES = 8, RING = 6, SPHERES = 30 };
    const double turn = 2.0 * 3.14159265358979323846;
    nsi_text_builder text;
    start_pile(&text);
    for (uint32_t k = 0; k < SIDES; k++) {
        double c = cos(turn * k / SIDES), s = sin(turn * k / SIDES);
        nsi_text_add(&text,
                     "<geom type='plane' size='5 5 1' pos='%.9g %.9g 0' zaxis='%.9g %.9g 1'/>",
                     0.15 * c, 0.15 * s, -c, -s);
    }
    for (uint32_t k = 0; k < SPHERES; k++) {
        double ring = (double)(k / RING), angle = turn * (k % RING) / RING + 0.5 * ring;
        put_body(&text, 0.13 * cos(angle), 0.13 * sin(angle), 0.2 + 0.13 * ring, upright,
                 "type='sphere' size='.05' mass='.5'");
    }
    trial t = end_pile(&text, 600);
    check_pile(&t, 1e-3);
    for (uint32_t k = 0; k < SPHERES; k++) {
        const double* q = trial_end(&t) + 7 * k;
        assert_true(hypot(q[0], q[1]) < 0.6 && q[2] > 0.0499);
    }
    trial_free(&t);
}

// Boxes turned at random fall on each other from small heights, up to 2 m/s.
static void boxes_fall_on_a_pile(void** state) {
    (void)state;
    enum { SIDE = 3, BOXES = 27 };
    ns_rng rng = ns_rng_seed(8);
    nsi_text_builder text;
    start_pile(&text);
    for (uint32_t k = 0; k < BOXES; k++) {
        double turn[4];
        for (int i = 0; i < 4; i++) turn[i] = ns_rng_normal(&rng);
        const uint32_t place = k % (SIDE * SIDE);
        put_body(&text, 0.18 * (place % SIDE), 0.18 * (double)(place / SIDE),
                 0.1 + 0.18 * (double)(k / (SIDE * SIDE)), turn, box);
    }
    trial t = end_pile(&text, 500);
    check_pile(&t, 1e-3);
    for (uint32_t k = 0; k < BOXES; k++) assert_true(trial_end(&t)[7 * k + 2] > 0.049);
    trial_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pyramid_stands),
        cmocka_unit_test(spheres_fill_a_bowl),
        cmocka_unit_test(boxes_fall_on_a_pile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
