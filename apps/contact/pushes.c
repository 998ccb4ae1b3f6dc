// Random pushes with mu = 1: a ball on a slider pushes a free box for half a second.

#include "contact/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PUSH_STEPS = 500, SLIDER = 0, BOX_X = 1, BOX_Y, BOX_Z, BOX_QW, BOX_QZ = 7, SPEED };

enum { PUSH_REPEATS = 3 }; // of each step, for its time

// A push: where the box lies, how it is turned, speed and force of the slider.
static void random_push(ns_rng* rng, rig* r) {
    double force = ns_rng_uniform(rng, 0.0, 30.0), turn = ns_rng_uniform(rng, -0.5, 0.5);
    memset(r->x0, 0, r->n.nx * sizeof *r->x0);
    r->x0[SLIDER] = ns_rng_uniform(rng, 0.0, 0.1);
    r->x0[BOX_Y] = ns_rng_uniform(rng, -0.08, 0.08);
    r->x0[BOX_Z] = 0.1;
    r->x0[BOX_QW] = cos(turn), r->x0[BOX_QZ] = sin(turn);
    r->x0[SPEED] = ns_rng_uniform(rng, 0.3, 2.0);
    for (uint32_t k = 0; k < r->steps; k++) r->controls[(size_t)k * r->n.nc] = force;
}

static void push_trials(const trial_options* options, const char* name, ns_friction friction) {
    static const char* const observe[] = {"contact/relaxation", "contact/solves"};
    const uint32_t pushes = options->quick ? 3 : 200;
    char path[4096], text[300], what[100];
    snprintf(path, sizeof path, "%s/push.xml", options->scenes);
    ns_system_options o = ns_default_system_options();
    ns_param_value mu = {"contact/*/mu", 1.0};
    o.set = &mu;
    o.nset = 1;
    o.friction = friction;
    o.observe = observe;
    o.nobserve = 2;
    ns_model* model = rig_load(path, NULL, false);
    ns_model_sizes sizes = ns_model_get_sizes(model);
    rig r = rig_create(model, &o, 6 * (sizes.nq + sizes.nv + 1), PUSH_STEPS);
    double* weights = trial_alloc(r.n.nx, sizeof *weights);
    weights[BOX_X] = weights[BOX_Y] = 1.0;

    ns_rng rng = ns_rng_seed(7);
    gradient_count count = {0}, relaxed_count = {0};
    uint32_t unsolved = 0, relaxed = 0, hardest = 0;
    double softest = 0.0;
    float* times = trial_alloc((size_t)pushes * PUSH_STEPS, sizeof *times);
    size_t ntimes = 0;
    for (uint32_t k = 0; k < pushes; k++) {
        random_push(&rng, &r);
        if (!rig_run(&r, PUSH_STEPS)) trial_die("push", "the motion is not finite");
        unsolved += r.contact.unsolved;
        relaxed += r.contact.relaxed;
        softest = fmax(softest, r.contact.relaxation);
        for (uint32_t i = 0; i < PUSH_STEPS; i++) {
            hardest = (uint32_t)fmax(hardest, r.observations[2 * i + 1]);
        }
        bool soft = r.contact.relaxed > 0;
        rig_check_gradient(&r, PUSH_STEPS, weights, true, soft ? &relaxed_count : &count);
        for (uint32_t i = 0; i < PUSH_STEPS; i++) {
            times[ntimes++] = (float)rig_time_step(&r, PUSH_REPEATS);
        }
    }

    snprintf(what, sizeof what, "%u pushes, mu 1, %s: unsolved steps", pushes, name);
    snprintf(text, sizeof text, "%u of %u (%u relaxed, to cfm %.2g; at most %u solves)", unsolved,
             pushes * PUSH_STEPS, relaxed, softest, hardest);
    trial_row(what, "0", text, unsolved == 0);
    uint32_t clean = count.clean + relaxed_count.clean;
    uint32_t wrong = count.wrong + relaxed_count.wrong;
    snprintf(what, sizeof what, "their gradients over %d steps", PUSH_STEPS);
    snprintf(text, sizeof text,
             "%.2f %% of %u (of %u inputs; with relaxed steps %u wrong of %u clean of %u)",
             100.0 * (clean - wrong) / fmax(clean, 1), clean, count.inputs + relaxed_count.inputs,
             relaxed_count.wrong, relaxed_count.clean, relaxed_count.inputs);
    trial_row(what, ">= 99 % of clean differences", text, wrong * 100 <= clean);
    rig_report_times(options, "their worst step / median", times, ntimes);
    free(times);
    free(weights);
    rig_free(&r);
}

void trial_pushes(const trial_options* options) {
    push_trials(options, "cone", NS_FRICTION_CONE);
    push_trials(options, "pyramid", NS_FRICTION_PYRAMID);
}
