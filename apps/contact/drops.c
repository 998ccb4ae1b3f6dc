// The quadruped of models/ without drives, dropped from 1 m in random orientations.

#include "contact/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Steps; gradients are over WINDOW steps, from states at these times: in turn the first and third, the second
// and fourth.
enum { SECOND = 1000, SECONDS = 10, WINDOW = 100, WINDOWS = 4, REPEATS = 3 };
static const uint32_t window_at[WINDOWS] = {350, 900, 2500, 9000};

typedef struct drop_totals {
    uint32_t drop_steps; // of a drop
    uint64_t unsolved, relaxed, steps;
    double softest;
    gradient_count gradients;
    double ours[SECONDS], theirs[SECONDS]; // s, sums of steps in each second
    float* times;                          // of all steps after the first second
    uint64_t count;
} drop_totals;

static void random_drop(ns_rng* rng, rig* r) {
    double size = 0.0;
    memset(r->x0, 0, r->n.nx * sizeof *r->x0);
    r->x0[2] = 1.0;
    for (int k = 3; k < 7; k++) r->x0[k] = ns_rng_normal(rng), size += r->x0[k] * r->x0[k];
    for (int k = 3; k < 7; k++) r->x0[k] /= sqrt(size);
}

// Step by step, the least time of some repetitions of each.
static void time_drop(rig* r, mujoco_peer* peer, drop_totals* t) {
    double* start = trial_alloc(r->n.nx, sizeof *start);
    memcpy(start, r->x0, r->n.nx * sizeof *start);
    if (peer) mujoco_peer_start(peer, start);
    for (uint32_t k = 0; k < t->drop_steps; k++) {
        double least = rig_time_step(r, REPEATS);
        t->ours[k / SECOND] += least;
        if (peer) t->theirs[k / SECOND] += mujoco_peer_step(peer, REPEATS);
        if (k >= SECOND) t->times[t->count++] = (float)least;
    }
    memcpy(r->x0, start, r->n.nx * sizeof *start);
    free(start);
}

// Gradients from states of a drop on, for random functions of the state at the end.
static void check_windows(const rig* drop, rig* windows, uint32_t first, ns_rng* rng,
                          drop_totals* t) {
    uint32_t nx = drop->n.nx;
    double* weights = trial_alloc(nx, sizeof *weights);
    for (uint32_t k = first; k < WINDOWS && window_at[k] < t->drop_steps; k += 2) {
        memcpy(windows->x0, rig_state(drop, window_at[k]), nx * sizeof *windows->x0);
        for (uint32_t i = 0; i < nx; i++) weights[i] = ns_rng_normal(rng);
        rig_check_gradient(windows, WINDOW, weights, false, &t->gradients);
    }
    free(weights);
}

static void report_drops(const trial_options* options, double mu, uint32_t drops, bool peer,
                         drop_totals* t) {
    char what[100], text[300];
    snprintf(what, sizeof what, "%u quadruped drops of %u s, mu %g: unsolved steps", drops,
             t->drop_steps / SECOND, mu);
    snprintf(text, sizeof text, "%llu of %llu (%llu relaxed, to cfm %.2g)",
             (unsigned long long)t->unsolved, (unsigned long long)t->steps,
             (unsigned long long)t->relaxed, t->softest);
    trial_row(what, "0", text, t->unsolved == 0);
    const gradient_count* g = &t->gradients;
    snprintf(what, sizeof what, "their gradients over %d steps", WINDOW);
    snprintf(text, sizeof text, "%.2f %% of %u (of %u inputs)",
             100.0 * (g->clean - g->wrong) / fmax(g->clean, 1), g->clean, g->inputs);
    trial_row(what, ">= 99 % of clean differences", text, g->wrong * 100 <= g->clean);

    // Times are not judged in a quick run, which may share its core with other tests.
    rig_report_times(options, "worst step / median, from the second second on", t->times, t->count);
    if (!peer) return;
    static const struct {
        const char* name;
        int from, to;
    } spans[] = {{"collapsing (second 2)", 1, 2},
                 {"collapsed (seconds 3 to 5)", 2, 5},
                 {"at rest (seconds 9, 10)", 8, 10}};
    for (int k = 0; k < 3 && spans[k].to * SECOND <= (int)t->drop_steps; k++) {
        double ours = 0.0, theirs = 0.0;
        for (int s = spans[k].from; s < spans[k].to; s++) {
            ours += t->ours[s];
            theirs += t->theirs[s];
        }
        double scale = 1e6 / ((double)SECOND * drops * (spans[k].to - spans[k].from));
        snprintf(what, sizeof what, "mean step beside MuJoCo's, %s", spans[k].name);
        snprintf(text, sizeof text, "%.2fx (%.1f us, %.1f us)", ours / theirs, scale * ours,
                 scale * theirs);
        trial_row(what, "<= 2x", text, options->quick || ours <= 2.0 * theirs);
    }
}

static void drop_trials(const trial_options* options, double mu) {
    const uint32_t drops = options->quick ? 1 : 100;
    char path[4096];
    snprintf(path, sizeof path, "%s/quadruped.urdf", options->models);
    ns_model* model = rig_load(path, NULL, true);
    ns_system_options o = ns_default_system_options();
    ns_param_value set = {"contact/*/mu", mu};
    o.set = &set;
    o.nset = 1;
    ns_model_sizes sizes = ns_model_get_sizes(model);
    drop_totals t = {.drop_steps = SECOND * (options->quick ? 2 : SECONDS)};
    rig r = rig_create(model, &o, 1, t.drop_steps);
    rig windows = rig_create(rig_load(path, NULL, true), &o, 6 * (sizes.nq + sizes.nv + 1), WINDOW);
    snprintf(path, sizeof path, "%s/quadruped.xml", options->scenes);
    mujoco_peer* peer = mujoco_peer_open(path, mu);
    t.times = trial_alloc((size_t)drops * t.drop_steps, sizeof *t.times);

    ns_rng rng = ns_rng_seed(3);
    for (uint32_t k = 0; k < drops; k++) {
        random_drop(&rng, &r);
        time_drop(&r, peer, &t);
        if (!rig_run(&r, t.drop_steps)) trial_die("drop", "the motion is not finite");
        t.unsolved += r.contact.unsolved;
        t.relaxed += r.contact.relaxed;
        t.steps += t.drop_steps;
        t.softest = fmax(t.softest, r.contact.relaxation);
        check_windows(&r, &windows, k % 2, &rng, &t);
    }
    report_drops(options, mu, drops, peer != NULL, &t);
    if (peer) mujoco_peer_close(peer);
    free(t.times);
    rig_free(&windows);
    rig_free(&r);
}

void trial_drops(const trial_options* options) {
    static const double mu[] = {0.3, 0.7, 1.0};
    for (int k = 0; k < 3; k++) drop_trials(options, mu[k]);
}
