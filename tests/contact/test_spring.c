// Springs with the numbers that are left to us: they stay finite and come to rest for the models that
// are shipped, take no energy from nowhere, and friction at rest follows friction.

#include "base/common.h"
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

static const char* const observed[] = {"energy/total", "energy/kinetic", "contact/**/depth"};
enum { TOTAL, KINETIC, DEPTHS, OBSERVED };

static ns_system_options spring_options(void) {
    ns_system_options options = ns_default_system_options();
    options.contact = NS_CONTACT_SPRING;
    options.observe = observed;
    options.nobserve = OBSERVED;
    return options;
}

static double observation(const trial* t, uint32_t step, uint32_t which) {
    double value = t->observations[(size_t)step * t->n.ny + which];
    if (!isfinite(value)) fail_msg("%s is %g in step %u", observed[which], value, step);
    return value;
}

// The step with the most energy of the first ones, the earliest of them.
static uint32_t most_energetic(const trial* t, uint32_t count) {
    uint32_t best = 0;
    for (uint32_t k = 0; k < count; k++) {
        if (observation(t, k, TOTAL) > observation(t, best, TOTAL)) best = k;
    }
    return best;
}

// Energy above that of the start, J.
static double gain_until(const trial* t, uint32_t step) {
    return observation(t, step, TOTAL) - observation(t, 0, TOTAL);
}

// Mean over the last tenth, J.
static double kinetic_in_the_end(const trial* t) {
    uint32_t count = t->steps / 10;
    double sum = 0.0;
    for (uint32_t k = t->steps - count; k < t->steps; k++) sum += observation(t, k, KINETIC);
    return sum / count;
}

// ---- models that are shipped -----------------------------------------------------------------

// Energy in the springs at the start, J: k times the integral of min(d, D)^1.5 over the depth d.
static double stored(const trial* t) {
    double sum = 0.0;
    for (uint32_t k = DEPTHS; k < t->n.ny; k++) {
        double d = t->observations[k];
        const char* name = ns_system_observation_name(t->system, k) + strlen("contact/");
        for (uint32_t i = 0; d > 0.0 && i < ns_model_get_sizes(t->model).ncontact; i++) {
            const ns_contact_def* contact = ns_model_contact(t->model, i);
            size_t length = strlen(contact->name);
            if (strncmp(name, contact->name, length) != 0 || name[length] != '/') continue;
            double D = contact->max_depth, low = fmin(d, D);
            assert_true(contact->exponent == 1.5);
            sum += contact->stiffness * (pow(low, 2.5) / 2.5 + pow(D, 1.5) * (d - low));
        }
    }
    return sum;
}

static ns_model* load(const char* file) {
    char path[400];
    snprintf(path, sizeof path, "%s/models/%s", NEURALSIM_SOURCE_DIR, file);
    ns_load_options options = ns_default_load_options();
    options.ground = true;
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_load(path, &options, &model, &error), &error);
    return model;
}

// Any pose: hinges anywhere, sliders by 0.3 m, and free bodies in any orientation.
static void random_pose(ns_rng* rng, const ns_model* model, double lift, double* q) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nlink; i++) {
        uint32_t at = ns_model_joint_q(model, i);
        ns_joint_type type = ns_model_link(model, i)->joint_type;
        if (at == UINT32_MAX || type == NS_JOINT_FIXED) continue;
        if (type == NS_JOINT_REVOLUTE) q[at] = ns_rng_uniform(rng, -3.0, 3.0);
        if (type == NS_JOINT_PRISMATIC) q[at] = ns_rng_uniform(rng, -0.3, 0.3);
        if (type == NS_JOINT_FLOATING) q[at + 2] = lift, at += 3;
        if (type != NS_JOINT_FLOATING && type != NS_JOINT_SPHERICAL) continue;
        double sum = 0.0;
        for (uint32_t k = 0; k < 4; k++) {
            q[at + k] = ns_rng_uniform(rng, -1.0, 1.0);
            sum += q[at + k] * q[at + k];
        }
        for (uint32_t k = 0; k < 4; k++) q[at + k] /= sqrt(sum);
    }
}

static void shipped_models_stay_finite_and_settle(void** state) {
    (void)state;
    // The pendulums hang from the ground into it, and the arm stands in it: they are pushed out.
    static const char* const files[] = {"quadruped.urdf",  "double_pendulum.urdf", "pendulum5.urdf",
                                        "arm7_mixed.urdf", "pendulum5_ground.xml", "swimmer2.urdf"};
    const double lift = 0.8; // m, of the quadruped: nothing of it is in the ground then
    ns_rng rng = ns_rng_seed(7);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        ns_system_options options = spring_options();
        trial t = trial_of_model(load(files[i]), &options, 2000);
        options.contact = NS_CONTACT_NONE, options.nobserve = DEPTHS;
        trial alone = trial_of_model(load(files[i]), &options, 2000);
        double gain = -INFINITY, rest = 0.0;
        for (int start = 0; start < 12; start++) {
            if (start > 0) random_pose(&rng, t.model, lift, t.x0);
            trial_run(&t);
            // What the integrator adds to the motion until then without contact is not ours.
            memcpy(alone.x0, t.x0, t.n.nx * sizeof *t.x0);
            trial_run(&alone);
            uint32_t top = most_energetic(&t, t.steps);
            double own = gain_until(&alone, most_energetic(&alone, top + 1));
            gain = fmax(gain, gain_until(&t, top) - own - stored(&t));
            rest = fmax(rest, kinetic_in_the_end(&t));
        }
        printf("%s: gains %.3g J, still moves with %.3g J\n", files[i], gain, rest);
        // Joints without damping may still swing.
        if (gain > 0.02) fail_msg("%s gains %g J", files[i], gain);
        if (rest > 1.5) fail_msg("%s still moves with %g J", files[i], rest);
        trial_free(&t);
        trial_free(&alone);
    }
}

// ---- a box that falls ------------------------------------------------------------------------

// 1 kg, from 1 m, flat and on a corner, with the time steps of both formats.
static void a_box_that_falls_gains_nothing(void** state) {
    (void)state;
    static const double steps[] = {0.001, 0.002, 0.004};
    for (size_t i = 0; i < 3; i++) {
        for (int tilted = 0; tilted < 2; tilted++) {
            char text[800];
            snprintf(
                text, sizeof text,
                "<mujoco><option timestep='%g'/><worldbody>"
                "<geom name='ground' type='plane' size='5 5 1'/><body pos='0 0 1.1' euler='%s'>"
                "<freejoint/><geom name='box' type='box' size='0.1 0.1 0.1' mass='1'/></body>"
                "</worldbody></mujoco>",
                steps[i], tilted ? "35 45 10" : "0 0 0");
            ns_system_options options = spring_options();
            trial t = trial_make(text, &options, (uint32_t)(4.0 / steps[i]));
            trial_run(&t);
            double gain = gain_until(&t, most_energetic(&t, t.steps));
            double left = kinetic_in_the_end(&t), height = trial_end(&t)[2];
            printf("dt %g, %s: energy %+.3g J at most, kinetic %.3g J in the end, height %.4f m\n",
                   steps[i], tilted ? "tilted" : "flat", gain, left, height);
            // Semi-implicit Euler keeps an energy that differs by the order of g dt v.
            assert_true(gain <= g * steps[i] * sqrt(2.0 * g));
            assert_true(left < 1e-3);
            // At rest it has sunk in by (m g / (4 k))^(2/3).
            double k = ns_model_contact(t.model, 0)->stiffness;
            double sunk = pow(g / (4.0 * k), 2.0 / 3.0);
            assert_true(fabs(height - (0.1 - sunk)) < 1e-4 && sunk < 0.01);
            trial_free(&t);
        }
    }
}

// ---- static friction -------------------------------------------------------------------------

// A block on an incline: the gravity is tilted by atan(0.75).
static const char incline[] =
    "<mujoco><option timestep='0.0005' gravity='5.886 0 -7.848'/><worldbody>"
    "<geom name='ground' type='plane' size='5 5 1' friction='0.9'/><body pos='0 0 0.0498'>"
    "<freejoint/><geom name='block' type='box' size='0.1 0.1 0.05' mass='1'/></body>"
    "</worldbody></mujoco>";

static void static_friction_follows_friction(void** state) {
    (void)state;
    static const char* const names[] = {"contact/*/mu", "contact/*/mu_static"};
    const double T = 1.0, along = 5.886, across = 7.848;
    const double mus[] = {0.3, 0.9};
    for (int k = 0; k < 2; k++) {
        ns_system_options options = spring_options();
        options.free_params = names;
        options.nfree = 1;
        trial alone = trial_make(incline, &options, 2000);
        options.nfree = 2;
        trial both = trial_make(incline, &options, 2000);
        trial_set(&alone, "**/mu", mus[k]);
        trial_set(&both, "**", mus[k]);
        trial_run(&alone);
        trial_run(&both);
        const double *x = trial_end(&alone), *y = trial_end(&both);
        uint32_t v = alone.nq; // velocity along x
        assert_true(fabs(x[0] - y[0]) < 1e-9 && fabs(x[v] - y[v]) < 1e-9);
        double d_alone[1], d_both[2];
        trial_gradient(&alone, v, NULL, d_alone);
        trial_gradient(&both, v, NULL, d_both);
        printf("mu %g: v %g, dv/dmu %g; apart %g and %g\n", mus[k], x[v], d_alone[0], d_both[0],
               d_both[1]);
        assert_true(fabs(d_alone[0] - d_both[0] - d_both[1]) <= 1e-6 * (1.0 + fabs(d_alone[0])));
        if (k == 0) { // slides: v = (g sin - mu g cos) T
            assert_true(fabs(x[v] - (along - mus[k] * across) * T) < 0.02 * x[v]);
            assert_true(fabs(d_alone[0] + across * T) < 0.02 * across * T);
        } else { // creeps with mu tanh(4 v / vt) = tan
            double vt = 0.05, creep = vt / 4.0 * atanh(0.75 / mus[k]);
            double slope = -vt / 4.0 * 0.75 / (mus[k] * mus[k] - 0.75 * 0.75);
            assert_true(fabs(x[v] - creep) < 0.01 * creep);
            assert_true(fabs(d_alone[0] - slope) < 0.02 * fabs(slope));
        }
        trial_free(&alone);
        trial_free(&both);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_models_stay_finite_and_settle),
        cmocka_unit_test(a_box_that_falls_gains_nothing),
        cmocka_unit_test(static_friction_follows_friction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
