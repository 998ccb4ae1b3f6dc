// Planar pushing, with the models of experiments/push: a plate on points of a board, pushed by a rod that
// goes where it is told. Closed forms of centred pushes, and derivatives through whole pushes.

#include "support/assert.h"
#include "support/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { X, Y, YAW, ROD_X, ROD_Y, NQ };

static const double dt = 0.001, gravity = 9.81, rod_radius = 0.00475;

static ns_model* load(const char* plate) {
    char path[300];
    ns_model* model = NULL;
    ns_error error = {0};
    snprintf(path, sizeof path, NEURALSIM_SOURCE_DIR "/experiments/push/%s.xml", plate);
    must(ns_model_load(path, NULL, &model, &error), &error);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    return model;
}

// A push from (x, y) with the velocity (vx, vy) for all steps but the last 100.
typedef struct push {
    const char* plate;
    double x, y, vx, vy, yaw;
} push;

static trial start(const push* p, const ns_system_options* options, uint32_t steps) {
    trial t = trial_of_model(load(p->plate), options, steps);
    double* controls = calloc((size_t)steps * t.n.nc, sizeof *controls);
    assert_non_null(controls);
    for (uint32_t k = 0; k + 100 < steps; k++) {
        controls[k * t.n.nc] = p->vx;
        controls[k * t.n.nc + 1] = p->vy;
    }
    t.controls = controls;
    t.x0[YAW] = p->yaw;
    t.x0[ROD_X] = p->x;
    t.x0[ROD_Y] = p->y;
    return t;
}

static void finish(trial* t) {
    free((void*)t->controls);
    trial_free(t);
}

static double observed(const trial* t, uint32_t step, const char* name) {
    for (uint32_t k = 0; k < t->n.ny; k++) {
        if (strcmp(ns_system_observation_name(t->system, k), name) == 0) {
            return t->observations[(size_t)step * t->n.ny + k];
        }
    }
    fail_msg("%s is not observed", name);
    return NAN;
}

static void assert_about(double value, double expected, double tolerance, const char* what) {
    if (!(fabs(value - expected) <= tolerance)) {
        fail_msg("%s: %.12g where %.12g is right, to %g", what, value, expected, tolerance);
    }
}

// ---- closed forms ------------------------------------------------------------------------------

// The points carry the plate, each by the same share.
static void points_carry_the_plate(void** state) {
    (void)state;
    static const char* const plates[] = {"ellip1", "ellip2", "ellip3", "hex",
                                         "rect1",  "rect2",  "tri1"};
    for (size_t k = 0; k < sizeof plates / sizeof *plates; k++) {
        ns_model* model = load(plates[k]);
        double mass = ns_model_link(model, ns_model_find_link(model, "plate"))->mass;
        uint32_t count = ns_model_get_sizes(model).ncontact - 1; // one is the rod's
        ns_model_free(model);
        static const char* const observe[] = {"contact/*:board/*/force/normal"};
        ns_system_options options = ns_default_system_options();
        options.observe = observe;
        options.nobserve = 1;
        const push far = {plates[k], 0.3, 0.0, 0.0, 0.0, 0.4};
        trial t = start(&far, &options, 1);
        trial_run(&t);
        assert_int_equal(t.n.ny, count);
        double sum = 0.0;
        for (uint32_t i = 0; i < count; i++) {
            assert_about(t.observations[i], mass * gravity / count, 1e-7, plates[k]);
            sum += t.observations[i];
        }
        assert_about(sum, mass * gravity, 1e-6, plates[k]);
        finish(&t);
    }
}

// A centred push: the plate goes with the rod's front, does not turn, and resists with mu m g; when the
// rod stops, so does the plate.
static void a_centred_push(void** state) {
    (void)state;
    static const char* const observe[] = {"contact/rect1:rod/0/**", "contact/rect1_p0:board/0/**"};
    const double side = 0.09, speed = 0.05, mass = 0.8374, mu = 0.4;
    ns_system_options options = ns_default_system_options();
    options.observe = observe;
    options.nobserve = 2;
    const push centred = {"rect1", -side / 2.0 - rod_radius - 0.003, 0.0, speed, 0.0, 0.0};
    enum { STEPS = 900 };
    trial t = start(&centred, &options, STEPS);
    trial_run(&t);
    double way = speed * dt * (STEPS - 100);
    const double* end = trial_end(&t);
    assert_about(end[ROD_X], centred.x + way, 1e-7, "the rod's place");
    assert_about(end[ROD_Y], 0.0, 1e-12, "the rod's other coordinate");
    // It glides no further than v^2 / (2 mu g) = 0.32 mm.
    double front = end[ROD_X] + rod_radius + side / 2.0;
    assert_true(end[X] > front - 1e-5 && end[X] < front + 3.3e-4);
    assert_about(end[Y], 0.0, 1e-9, "y");
    assert_about(end[YAW], 0.0, 1e-9, "yaw");

    // Steady: the plate has the rod's speed, and the rod's force is the board's friction.
    enum { STEADY = 600 };
    const double* x = trial_state(&t, STEADY);
    assert_about(x[NQ + X], speed, 1e-6, "speed");
    double force = observed(&t, STEADY, "contact/rect1:rod/0/force/normal");
    assert_about(force, mu * mass * gravity, 1e-3, "force");
    assert_about(observed(&t, STEADY, "contact/rect1:rod/0/force/x"), force, 1e-6, "force in x");

    // Where on the plate: half way between the surfaces, which touch.
    assert_about(observed(&t, STEADY, "contact/rect1:rod/0/local/x"), -side / 2.0, 1e-6, "local x");
    assert_about(observed(&t, STEADY, "contact/rect1:rod/0/local/y"), 0.0, 1e-9, "local y");
    assert_about(observed(&t, STEADY, "contact/rect1:rod/0/position/x"), x[X] - side / 2.0, 1e-6,
                 "position");
    finish(&t);
}

// A point that is fixed to a plate is at the same place of it, wherever the plate is.
static void points_stay_on_their_link(void** state) {
    (void)state;
    static const char* const observe[] = {"contact/*:board/**"};
    ns_system_options options = ns_default_system_options();
    options.observe = observe;
    options.nobserve = 1;
    const push turned = {"tri1", 0.5, 0.0, 0.0, 0.0, 0.7};
    trial t = start(&turned, &options, 1);
    t.x0[X] = 0.31, t.x0[Y] = -0.12;
    trial_run(&t);
    for (uint32_t i = 0; i < ns_model_get_sizes(t.model).ngeom; i++) {
        const ns_geom_def* geom = ns_model_geom(t.model, i);
        if (geom->type != NS_GEOM_POINTS) continue;
        double world[2] = {
            0.31 + cos(0.7) * geom->pose.position[0] - sin(0.7) * geom->pose.position[1],
            -0.12 + sin(0.7) * geom->pose.position[0] + cos(0.7) * geom->pose.position[1]};
        for (int k = 0; k < 2; k++) {
            char name[100];
            snprintf(name, sizeof name, "contact/%s:board/0/local/%c", geom->name, "xy"[k]);
            assert_about(observed(&t, 0, name), geom->pose.position[k], 1e-15, name);
            snprintf(name, sizeof name, "contact/%s:board/0/position/%c", geom->name, "xy"[k]);
            assert_about(observed(&t, 0, name), world[k], 1e-15, name);
        }
        char name[100]; // half way from the point to the board
        snprintf(name, sizeof name, "contact/%s:board/0/local/z", geom->name);
        assert_about(observed(&t, 0, name), -0.0065 - 0.0005, 1e-15, name);
    }
    finish(&t);
}

// ---- derivatives -------------------------------------------------------------------------------

// Derivative of a state at the end by central differences with two steps; false when they disagree, as
// near a kink.
static bool difference(trial* t, uint32_t param, double size, double d[NQ]) {
    double kept = t->params[param], rough[NQ];
    bool agree = true;
    for (int round = 0; round < 2; round++) {
        double h = round == 0 ? size : 0.25 * size, ends[2][NQ];
        for (int side = 0; side < 2; side++) {
            t->params[param] = side == 0 ? kept - h : kept + h;
            trial_run(t);
            memcpy(ends[side], trial_end(t), sizeof ends[side]);
        }
        t->params[param] = kept;
        for (int k = 0; k < NQ; k++) {
            d[k] = (ends[1][k] - ends[0][k]) / (2.0 * h);
            if (round == 0) rough[k] = d[k];
            agree = agree && fabs(d[k] - rough[k]) <= 1e-3 * fabs(d[k]) + 1e-6;
        }
    }
    return agree;
}

// Where the plate ends, derived for friction, frame, radius and pressure, through whole pushes with
// sticking and sliding and the glide at the end.
static void whole_pushes_have_derivatives(void** state) {
    (void)state;
    static const push pushes[] = {
        {"rect1", -0.0510, 0.012, 0.050, 0.006, 0.00},
        {"rect1", -0.0505, -0.020, 0.050, 0.020, 0.05},
        {"ellip1", -0.0560, -0.010, 0.045, 0.030, 0.10},
        {"ellip3", -0.0560, 0.030, 0.050, -0.005, 0.00},
        {"hex", -0.0580, 0.008, 0.050, -0.010, 0.02},
        {"tri1", 0.0510, 0.010, -0.050, 0.004, 0.00},
    };
    static const char* const free_params[] = {
        "contact/*:rod/mu",  "contact/*_p0:board/mu", "contact/*_p5:board/stiffness",
        "geom/rod/origin/x", "geom/rod/origin/y",     "geom/rod/radius"};
    ns_system_options options = ns_default_system_options();
    options.free_params = free_params;
    options.nfree = sizeof free_params / sizeof *free_params;
    uint32_t compared = 0, undecided = 0;
    double worst = 0.0;
    for (size_t k = 0; k < sizeof pushes / sizeof *pushes; k++) {
        trial t = start(&pushes[k], &options, 1000);
        trial_run(&t);
        double turned = fabs(trial_end(&t)[YAW] - pushes[k].yaw);
        assert_true(turned > 0.02); // something happens
        double* gradient = calloc((size_t)NQ * t.n.np, sizeof *gradient);
        assert_non_null(gradient);
        for (uint32_t c = X; c <= YAW; c++) {
            trial_gradient(&t, c, NULL, gradient + (size_t)c * t.n.np);
        }
        for (uint32_t p = 0; p < t.n.np; p++) {
            double d[NQ];
            bool agree = difference(&t, p, 1e-5 * fmax(fabs(t.params[p]), 0.01), d);
            for (uint32_t c = X; c <= YAW; c++) {
                double g = gradient[(size_t)c * t.n.np + p];
                assert_true(isfinite(g));
                if (!agree) {
                    undecided++;
                    continue;
                }
                double off = fabs(g - d[c]) / (fabs(d[c]) + 1e-2);
                worst = fmax(worst, off);
                compared++;
                if (off > 1e-3) {
                    fail_msg("%s, push %zu, coordinate %u for %s: gradient %.9g, differences %.9g",
                             pushes[k].plate, k, c, ns_system_param_name(t.system, p), g, d[c]);
                }
            }
        }
        free(gradient);
        finish(&t);
    }
    print_message("%u derivatives compared, the worst off by %.1e; %u undecided\n", compared, worst,
                  undecided);
    assert_true(compared >= 4 * undecided); // differences of the others meet a kink
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_carry_the_plate),
        cmocka_unit_test(a_centred_push),
        cmocka_unit_test(points_stay_on_their_link),
        cmocka_unit_test(whole_pushes_have_derivatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
