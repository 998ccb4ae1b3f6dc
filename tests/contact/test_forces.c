// Forces of contact in the world, contact/*/*/force/x y z: they carry what rests, oppose what slides,
// and are all that changes momentum besides gravity.

#include "neuralsim/sim.h"

#include "base/common.h"
#include "support/assert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static const double mass = 3.0, gravity = 9.81, mu = 0.4, dt = 0.001;
static const double half[3] = {0.2, 0.15, 0.05};

enum { NX = 13, MOST = 64 };

// A box that floats freely, above the plane z = 0; with a second one if `two`.
static ns_model* make_model(bool two) {
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    assert_int_equal(ns_model_builder_create(NULL, &builder, NULL), NS_OK);
    for (int k = 0; k < 1 + two; k++) {
        ns_link_def link = ns_default_link_def();
        link.name = k == 0 ? "box" : "other";
        link.joint_type = NS_JOINT_FLOATING;
        link.mass = mass;
        for (int i = 0; i < 3; i++) {
            double a = half[(i + 1) % 3], b = half[(i + 2) % 3];
            link.inertia[i] = mass * (a * a + b * b) / 3.0;
        }
        ns_geom_def geom = ns_default_geom_def();
        geom.name = k == 0 ? "hull" : "shell";
        geom.link = link.name;
        geom.type = NS_GEOM_BOX;
        memcpy(geom.size, half, sizeof half);
        geom.friction[0] = mu;
        assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_OK);
        assert_int_equal(ns_model_builder_add_geom(builder, &geom, NULL), NS_OK);
    }
    ns_geom_def ground = ns_default_geom_def();
    ground.name = "ground";
    ground.type = NS_GEOM_PLANE;
    ground.friction[0] = mu;
    assert_int_equal(ns_model_builder_add_geom(builder, &ground, NULL), NS_OK);
    assert_int_equal(ns_model_builder_finish(builder, &model, NULL), NS_OK);
    ns_model_builder_free(builder);
    return model;
}

typedef struct trial {
    ns_model* model;
    ns_system* system;
    ns_workspace* work;
    ns_system_sizes z;
} trial;

static trial trial_make(bool two, ns_contact_model contact) {
    static const char* const observe[] = {"contact/**/force/?", "contact/**/force/normal",
                                          "contact/**/depth"};
    trial t = {.model = make_model(two)};
    ns_system_options options = ns_default_system_options();
    ns_error error;
    options.observe = observe;
    options.nobserve = 3;
    options.contact = (int)contact;
    options.integrator = NS_INTEGRATOR_EXPLICIT; // the forces observed are those at the start
    options.timestep = dt;
    must(ns_system_create(t.model, &options, &t.system, &error), &error);
    t.z = ns_system_get_sizes(t.system);
    ns_workspace_size size = {.batch = 1, .steps = 1, .threads = 1};
    assert_int_equal(ns_workspace_create(t.system, &size, &t.work, NULL), NS_OK);
    return t;
}

static void trial_free(trial* t) {
    ns_workspace_free(t->work);
    ns_system_free(t->system);
    ns_model_free(t->model);
}

// One step of x, in place; y are the observations at its start.
static void step(const trial* t, double* x, double* y) {
    double states[2 * 2 * NX];
    ns_rollout_args args = {.batch = 1, .steps = 1, .x0 = x, .states = states, .observations = y};
    ns_error error;
    must(ns_rollout(t->system, t->work, &args, &error), &error);
    memcpy(x, states + t->z.nx, t->z.nx * sizeof *x);
}

static double* observations(const trial* t) {
    return calloc(t->z.ny, sizeof(double));
}

static double observed(const trial* t, const double* y, const char* pair, uint32_t index,
                       const char* what) {
    char name[200];
    snprintf(name, sizeof name, "contact/%s/%u/%s", pair, index, what);
    for (uint32_t k = 0; k < t->z.ny; k++) {
        if (strcmp(ns_system_observation_name(t->system, k), name) == 0) return y[k];
    }
    return NAN;
}

// The force on the geometry from all pairs, added up; returns the number of points.
static uint32_t add_forces(const trial* t, const double* y, const char* geom, double sum[3]) {
    static const char* const parts[3] = {"force/x", "force/y", "force/z"};
    uint32_t points = 0, npair = ns_model_get_sizes(t->model).ncontact;
    sum[0] = sum[1] = sum[2] = 0.0;
    for (uint32_t p = 0; p < npair; p++) {
        const ns_contact_def* pair = ns_model_contact(t->model, p);
        double sign = strcmp(pair->a, geom) == 0 ? 1.0 : strcmp(pair->b, geom) == 0 ? -1.0 : 0.0;
        for (uint32_t k = 0; k < MOST && !isnan(observed(t, y, pair->name, k, "depth")); k++) {
            for (int i = 0; i < 3; i++) sum[i] += sign * observed(t, y, pair->name, k, parts[i]);
            points++;
        }
    }
    return points;
}

static void assert_close(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance)) fail_msg("%.12g is not %.12g", value, expected);
}

// ---- tests -------------------------------------------------------------------------------------

static void a_box_at_rest_is_carried(void** state) {
    (void)state;
    static const ns_contact_model models[] = {NS_CONTACT_NCP, NS_CONTACT_SPRING};
    for (int m = 0; m < 2; m++) {
        trial t = trial_make(false, models[m]);
        double* y = observations(&t);
        double x[NX] = {0.1, 0.2, half[2], 1.0, 0.0, 0.0, 0.0}, sum[3];
        for (int k = 0; k < 20000; k++) step(&t, x, y);
        assert_true(add_forces(&t, y, "hull", sum) >= 4);
        assert_close(sum[0], 0.0, 1e-6);
        assert_close(sum[1], 0.0, 1e-6);
        assert_close(sum[2], mass * gravity, 1e-6);
        free(y);
        trial_free(&t);
    }
}

static void friction_opposes_what_slides(void** state) {
    (void)state;
    const double direction[2] = {0.8, -0.6};
    static const ns_contact_model models[] = {NS_CONTACT_NCP, NS_CONTACT_SPRING};
    for (int m = 0; m < 2; m++) {
        trial t = trial_make(false, models[m]);
        double* y = observations(&t);
        double x[NX] = {0.0, 0.0, half[2] - 1e-4, 1.0};
        uint32_t sliding = 0;
        for (int k = 0; k < 100; k++) {
            x[7] = 2.0 * direction[0], x[8] = 2.0 * direction[1]; // kept going
            x[10] = x[11] = x[12] = 0.0;                          // and level
            x[3] = 1.0, x[4] = x[5] = x[6] = 0.0;
            step(&t, x, y);
        }
        for (uint32_t k = 0; k < MOST; k++) {
            const char* pair = ns_model_contact(t.model, 0)->name;
            if (isnan(observed(&t, y, pair, k, "depth"))) break;
            double normal = observed(&t, y, pair, k, "force/z");
            double fx = observed(&t, y, pair, k, "force/x"),
                   fy = observed(&t, y, pair, k, "force/y");
            assert_close(normal, observed(&t, y, pair, k, "force/normal"), 1e-9);
            if (normal < 1e-3) continue;
            assert_close(fx, -mu * normal * direction[0], 1e-6 * normal + 1e-6);
            assert_close(fy, -mu * normal * direction[1], 1e-6 * normal + 1e-6);
            sliding++;
        }
        assert_true(sliding >= 2);
        free(y);
        trial_free(&t);
    }
}

// Boxes thrown on the ground and on each other: m dv = (sum of forces + m g) dt, at every step.
static void forces_change_momentum(void** state) {
    (void)state;
    static const ns_contact_model models[] = {NS_CONTACT_NCP, NS_CONTACT_SPRING};
    static const char* const geoms[2] = {"hull", "shell"};
    for (int m = 0; m < 2; m++) {
        trial t = trial_make(true, models[m]);
        double* y = observations(&t);
        double x[2 * NX] = {0.0,  0.0, 0.25, 0.9, 0.3, 0.2, 0.1, // first, then the one above
                            0.05, 0.0, 0.6,  0.7, 0.1, 0.5, 0.4};
        double* qd = x + 14;
        qd[0] = 0.5, qd[4] = 3.0, qd[6] = -0.3, qd[8] = -2.0, qd[9] = 5.0;
        for (int b = 0; b < 2; b++) {
            double* q = x + 7 * b + 3;
            double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
            for (int i = 0; i < 4; i++) q[i] /= length;
        }
        double largest = 0.0, upper = 0.0;
        for (int k = 0; k < 1000; k++) {
            double before[2 * NX], sum[2][3];
            memcpy(before, x, sizeof before);
            step(&t, x, y);
            for (int b = 0; b < 2; b++) {
                add_forces(&t, y, geoms[b], sum[b]);
                for (int i = 0; i < 3; i++) {
                    double change = mass * (x[14 + 6 * b + i] - before[14 + 6 * b + i]) / dt;
                    if (i == 2) change += mass * gravity;
                    largest = fmax(largest, fabs(sum[b][i]));
                    assert_close(sum[b][i], change, 1e-7 * (1.0 + fabs(change)));
                }
            }
            upper = fmax(upper, fabs(sum[1][2]));
        }
        assert_true(largest > mass * gravity && upper > 0.0);
        free(y);
        trial_free(&t);
    }
}

static void nothing_pushes_what_is_apart(void** state) {
    (void)state;
    static const ns_contact_model models[] = {NS_CONTACT_NCP, NS_CONTACT_SPRING};
    for (int m = 0; m < 2; m++) {
        trial t = trial_make(false, models[m]);
        double* y = observations(&t);
        double x[NX] = {0.0, 0.0, 2.0, 0.8, 0.6}, sum[3];
        step(&t, x, y);
        add_forces(&t, y, "hull", sum);
        for (int i = 0; i < 3; i++) assert_true(sum[i] == 0.0);
        free(y);
        trial_free(&t);
    }
}

// They are there to be looked at: the step is the same with and without them.
static void looking_changes_nothing(void** state) {
    (void)state;
    ns_model* model = make_model(false);
    static const char* const observe[] = {"contact/**/force/?"};
    double ends[2][NX];
    for (int k = 0; k < 2; k++) {
        ns_system_options options = ns_default_system_options();
        options.observe = observe;
        options.nobserve = (uint32_t)k;
        ns_system* system = NULL;
        ns_workspace* work = NULL;
        enum { STEPS = 300 };
        double x0[NX] = {0.0, 0.0, 0.3, 0.9, 0.3, 0.3, 0.1}, states[(STEPS + 1) * NX];
        ns_workspace_size size = {.batch = 1, .steps = STEPS, .threads = 1};
        ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0, .states = states};
        assert_int_equal(ns_system_create(model, &options, &system, NULL), NS_OK);
        assert_int_equal(ns_workspace_create(system, &size, &work, NULL), NS_OK);
        assert_int_equal(ns_rollout(system, work, &args, NULL), NS_OK);
        memcpy(ends[k], states + STEPS * NX, sizeof ends[k]);
        ns_workspace_free(work);
        ns_system_free(system);
    }
    assert_memory_equal(ends[0], ends[1], sizeof ends[0]);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_box_at_rest_is_carried), cmocka_unit_test(friction_opposes_what_slides),
        cmocka_unit_test(forces_change_momentum),   cmocka_unit_test(nothing_pushes_what_is_apart),
        cmocka_unit_test(looking_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
