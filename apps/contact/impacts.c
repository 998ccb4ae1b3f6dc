// Random impacts of a double pendulum, a box and a capsule with the floor, all restitutions and friction
// coefficients: none gains energy. There is no gravity, and the step is so short that nothing but the
// impact happens in it.

#include "contact/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FREE                                                                                       \
    "<mujoco><compiler angle='radian'/><option gravity='0 0 0' timestep='1e-11'/><worldbody>"
#define FLOOR "<geom name='floor' type='plane' size='5 5 1'/>"

static const double impact_dt = 1e-11; // s, as in the files

// How low a box and a capsule reach below their origins, in the state q.
static double depth_of_box(const double* q) {
    double w = q[3], x = q[4], y = q[5], z = q[6];
    double r[3] = {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)};
    return 0.1 * fabs(r[0]) + 0.07 * fabs(r[1]) + 0.04 * fabs(r[2]);
}

static double depth_of_capsule(const double* q) {
    return 0.05 + 0.1 * fabs(1 - 2 * (q[4] * q[4] + q[5] * q[5]));
}

// A free body just above the floor, turning and approaching.
static void random_throw(ns_rng* rng, double height, double (*depth)(const double*), double* x) {
    double size = 0.0;
    for (int k = 3; k < 7; k++) x[k] = ns_rng_normal(rng), size += x[k] * x[k];
    for (int k = 3; k < 7; k++) x[k] /= sqrt(size);
    for (int k = 7; k < 13; k++) x[k] = ns_rng_normal(rng) * (k < 10 ? 1.0 : 5.0);
    x[9] = -fabs(x[9]) - 0.5;
    x[0] = x[1] = 0.0;
    x[2] = depth(x) + height;
}

// The tip of the pendulum just above the floor; false: try again.
static bool random_swing(ns_rng* rng, double height, double* x) {
    x[0] = ns_rng_uniform(rng, -0.9, 0.9);
    double rest = 1.5 - 0.01 - height - cos(x[0]);
    if (fabs(rest) > 0.98) return false;
    double total = acos(rest) * (ns_rng_uniform(rng, -1.0, 1.0) > 0.0 ? 1.0 : -1.0);
    x[1] = total - x[0];
    x[2] = ns_rng_normal(rng);
    x[3] = 3.0 * ns_rng_normal(rng);
    return sin(x[0]) * x[2] + sin(total) * (x[2] + x[3]) < -0.2; // velocity of the tip
}

typedef struct impact_scene {
    const char *name, *text;
    double (*depth)(const double*); // NULL: the pendulum
} impact_scene;

static const impact_scene scenes[] = {
    {"double pendulum",
     FREE "<geom name='floor' type='plane' size='5 5 1' pos='0 0 -1.5'/>"
          "<body><joint axis='0 1 0'/>"
          "<inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/>"
          "<body pos='0 0 -1'><joint axis='0 1 0'/>"
          "<inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/>"
          "<geom name='tip' type='sphere' size='0.01' pos='0 0 -1'/></body></body>"
          "</worldbody></mujoco>",
     NULL},
    {"box",
     FREE FLOOR "<body><freejoint/><geom type='box' size='.1 .07 .04' mass='1'/></body>"
                "</worldbody></mujoco>",
     depth_of_box},
    {"capsule",
     FREE FLOOR "<body><freejoint/><geom type='capsule' size='.05 .1' mass='1'/></body>"
                "</worldbody></mujoco>",
     depth_of_capsule},
};

// Kinetic energy of a state, and of where it moves without contact.
static double kinetic_energy(rig* r, const double* x) {
    memcpy(r->x0, x, r->n.nx * sizeof *x);
    if (!rig_run(r, 1)) trial_die("impact", "the motion is not finite");
    return r->observations[0];
}

static void impact_trial(const trial_options* options, const impact_scene* scene) {
    static const char* const names[] = {"contact/*/mu", "contact/*/restitution"};
    static const char* const observe[] = {"energy/kinetic"};
    const uint32_t count = options->quick ? 400 : 4000;
    ns_system_options o = ns_default_system_options();
    o.free_params = names;
    o.nfree = 2;
    rig r = rig_create(rig_load(NULL, scene->text, false), &o, 1, 1);
    o = ns_default_system_options();
    o.contact = NS_CONTACT_NONE;
    o.observe = observe;
    o.nobserve = 1;
    rig flight = rig_create(rig_load(NULL, scene->text, false), &o, 1, 1);

    ns_rng rng = ns_rng_seed(41);
    uint32_t hits = 0, unsolved = 0;
    double largest = -INFINITY, kept = 0.0;
    for (uint32_t k = 0; k < count; k++) {
        double height = impact_dt * ns_rng_uniform(&rng, 0.0, 0.2), x[13];
        if (scene->depth) {
            random_throw(&rng, height, scene->depth, x);
        } else {
            while (!random_swing(&rng, height, x)) continue;
        }
        rig_set(&r, "contact/*/mu", ns_rng_uniform(&rng, 0.0, 1.0));
        rig_set(&r, "contact/*/restitution", k % 7 == 0 ? 1.0 : ns_rng_uniform(&rng, 0.0, 1.0));
        memcpy(r.x0, x, r.n.nx * sizeof *x);
        if (!rig_run(&r, 1)) trial_die("impact", "the motion is not finite");
        unsolved += r.contact.unsolved;

        // A step in flight changes the energy by its own rounding.
        const double* end = rig_state(&r, 1);
        double before = kinetic_energy(&flight, x), change = 0.0;
        double drift = fabs(kinetic_energy(&flight, rig_state(&flight, 1)) - before);
        double after = kinetic_energy(&flight, end);
        largest = fmax(largest, (after - before - drift) / before);
        kept += after / before / count;
        for (uint32_t i = r.nq; i < r.n.nx; i++) change = fmax(change, fabs(end[i] - x[i]));
        hits += change > 1e-3;
    }

    char what[100], text[200];
    snprintf(what, sizeof what, "%u random impacts of a %s: largest gain of energy", count,
             scene->name);
    snprintf(text, sizeof text, "%.1e (%u hit, %.2f of the energy kept in the mean, %u unsolved)",
             largest, hits, kept, unsolved);
    trial_row(what, "<= 1e-9", text, largest <= 1e-9 && hits * 10 > 9 * count && unsolved == 0);
    rig_free(&flight);
    rig_free(&r);
}

void trial_impacts(const trial_options* options) {
    for (size_t k = 0; k < sizeof scenes / sizeof *scenes; k++) impact_trial(options, &scenes[k]);
}
