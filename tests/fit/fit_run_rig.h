// Experiments of several kinds, run and compared bit by bit.

#ifndef TEST_FIT_RUN_RIG_H
#define TEST_FIT_RUN_RIG_H

#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/tempdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PENDULUM NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf"

// ---- experiments -------------------------------------------------------------------------------

static const double swings[] = {0.8, -0.3, 0.2, 0.5, -1.2, 0.4, -0.5, 1.0, 0.1, 1.4, 0.0, 0.0};

static inline int write_data(void** state) {
    (void)state;
    motion m = motion_of(PENDULUM, 0.01, 41);
    m.runs = 3;
    m.x0 = swings;
    m.push = 0.5;
    m.sigma = 0.01;
    motion_record(&m, "swings.csv");
    experiment_write("net.yaml", "networks:\n"
                                 "  - name: drag\n"
                                 "    each: joint/*\n"
                                 "    inputs: [\"{}/velocity\", \"{}/position\"]\n"
                                 "    outputs: \"{}/tau\"\n"
                                 "    hidden: [3]\n");
    return 0;
}

static inline void write_fit(const char* rest) {
    experiment_write("fit.yaml",
                     "model: " PENDULUM "\n"
                     "data: {train: [swings.csv]}\n"
                     "timestep: 0.01\n"
                     "parameters:\n"
                     "  link/link1/mass: {initial: 0.9, lower: 0.1, upper: 3}\n"
                     "  joint/joint0/damping: {initial: 0.1, lower: 0, upper: 1}\n"
                     "%s",
                     rest);
}

// One of each kind.
static const struct {
    const char *name, *text;
} experiments[] = {
    {"lm", "stages: [{window: 10, iterations: 6}, {window: whole}]\n"},
    {"lm, tied", "train: {window: 10, initial_state: tied}\n"},
    {"lm, robust and network",
     "blueprint: net.yaml\ntrain: {window: 20, huber: 1, weight_decay: 0.001,"
     " iterations: 6}\n"},
    {"lbfgs", "train: {window: 10, method: lbfgs, initial_state: recorded, iterations: 120,"
              " tolerance: 1e-15}\n"},
    {"lbfgs, free", "train: {window: 20, method: lbfgs, iterations: 120}\n"},
    {"adam", "train: {window: 10, method: adam, initial_state: recorded, iterations: 40, "
             "learning_rate: 0.05}\n"},
    {"adam, free", "train: {window: 10, method: adam, iterations: 40, clip_norm: 1}\n"},
    {"adam, batches",
     "blueprint: net.yaml\ntrain: {window: 5, method: adam, initial_state: recorded,"
     " batch: 5, iterations: 40}\n"},
    {"proximal",
     "blueprint: net.yaml\ntrain: {window: 10, method: proximal, initial_state: recorded,"
     " iterations: 120, tolerance: 0, l1: 0.0001, group: 0.0001}\n"},
    {"owlqn", "blueprint: net.yaml\ntrain: {window: 10, method: owlqn, initial_state: recorded,"
              " iterations: 120, tolerance: 0, l1: 0.0001}\n"},
    {"path",
     "blueprint: net.yaml\ntrain: {window: 10, initial_state: recorded, method: proximal,"
     " iterations: 120, tolerance: 0}\nstages: [{method: lm, iterations: 2}, {group: 0.0001},"
     " {method: owlqn, l1: 0.001}]\n"},
    {"path, adaptive", "blueprint: net.yaml\ntrain: {window: 10, iterations: 6, tolerance: 0,"
                       " optimise: weights}\nstages: [{}, {group: 0.00001},"
                       " {group: 0.00001, adaptive: true}, {l1: 0.000001, adaptive: true,"
                       " method: proximal, iterations: 120, initial_state: recorded},"
                       " {adaptive: true}]\n"},
    {"hop", "train: {window: [10, 20], iterations: 5}\nsearch: {population: 4, rounds: 3}\n"},
    {"hop, adam", "train: {window: 10, method: adam, initial_state: recorded, iterations: 8}\n"
                  "search: {population: 5, rounds: 2}\n"},
    {"restart", "train: {window: 10, iterations: 5}\n"
                "search: {method: restart, population: 4, rounds: 2}\n"},
    {"crs2", "train: {window: 10, iterations: 5}\nsearch: {method: crs2, evaluations: 60}\n"},
    {"mlsl", "train: {window: 10, iterations: 5}\nsearch: {method: mlsl, evaluations: 60}\n"},
};

enum { EXPERIMENTS = sizeof experiments / sizeof *experiments };

// ---- running -----------------------------------------------------------------------------------

typedef struct ending {
    double numbers[64]; // z, then weights
    uint32_t count;
    double standard_error;
    uint32_t phases, points; // points: of the history
    char names[4][120];
    double values[4]; // at the ends of phases
    uint32_t path;
    uint64_t path_hash;
    bool stopped;
} ending;

typedef struct watcher {
    uint32_t calls, stop_at; // 0: never
    uint32_t copies;         // checkpoints copied so far
    bool copy;
} watcher;

static inline void copy_file(const char* from, const char* to) {
    char* text = file_text(from);
    if (*text) {
        FILE* file = fopen(to, "wb");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
    }
    free(text);
}

static inline bool watch(void* context, const ns_fit_progress* progress) {
    watcher* w = context;
    assert_non_null(progress->phase);
    assert_true(progress->number < progress->count);
    assert_true(progress->iteration <= progress->iterations);
    w->calls++;
    if (w->copy) {
        char name[32];
        snprintf(name, sizeof name, "copy%u.json", w->copies);
        if (access(tempdir_path("checkpoint.json"), R_OK) == 0) {
            copy_file(tempdir_path("checkpoint.json"), tempdir_path(name));
            w->copies++;
        }
    }
    return w->stop_at > 0 && w->calls >= w->stop_at;
}

static inline ending ending_of(const ns_fit* fit) {
    ending e = {.count = fit->nz + fit->nw,
                .phases = fit->result.phases.count,
                .points = fit->result.history.count,
                .stopped = ns_fit_stopped(fit)};
    assert_true(e.count <= 64);
    memcpy(e.numbers, fit->z, e.count * sizeof(double));
    assert_true(ns_fit_estimate(fit, "link/link1/mass", NULL, &e.standard_error));
    for (uint32_t k = 0; k < e.phases && k < 4; k++) {
        snprintf(e.names[k], sizeof e.names[k], "%s", fit->result.phases.data[k].name);
        e.values[k] = fit->result.phases.data[k].value;
    }
    e.path = fit->result.path.count;
    e.path_hash = NSI_HASH_START;
    for (uint32_t k = 0; k < e.path; k++) {
        const ns_sparsity_point* p = &fit->result.path.data[k];
        double numbers[] = {p->phase, p->iteration, p->l1, p->group, p->loss};
        e.path_hash = nsi_hash64(e.path_hash, numbers, sizeof numbers);
        e.path_hash =
            nsi_hash64(e.path_hash, p->norms, fit->result.path_names.count * sizeof *p->norms);
    }
    assert_true(fit->result.complete == !e.stopped);
    return e;
}

// `stop_at` 0: to the end. `interval` 0: no checkpoints.
static inline ending run(uint32_t threads, uint32_t stop_at, double interval, bool resume,
                         watcher* out) {
    ns_fit* fit = experiment_load("fit.yaml", threads);
    watcher w = out ? *out : (watcher){0};
    w.stop_at = stop_at;
    ns_error error = {0};
    char checkpoint[256];
    snprintf(checkpoint, sizeof checkpoint, "%s", tempdir_path("checkpoint.json"));
    ns_fit_options options = {.observe = watch,
                              .context = &w,
                              .checkpoint = interval > 0.0 ? checkpoint : NULL,
                              .interval = interval,
                              .resume = resume};
    must(ns_fit_run(fit, &options, &error), &error);
    ending e = ending_of(fit);
    ns_fit_free(fit);
    if (out) *out = w;
    return e;
}

static inline void assert_same(const ending* a, const ending* b, const char* name) {
    assert_int_equal(a->count, b->count);
    for (uint32_t k = 0; k < a->count; k++) {
        if (memcmp(&a->numbers[k], &b->numbers[k], sizeof(double)) != 0) {
            fail_msg("%s: number %u is %.17g, not %.17g", name, k, a->numbers[k], b->numbers[k]);
        }
    }
    assert_memory_equal(&a->standard_error, &b->standard_error, sizeof(double));
    assert_int_equal(a->phases, b->phases);
    for (uint32_t k = 0; k < a->phases && k < 4; k++) {
        assert_string_equal(a->names[k], b->names[k]);
        if (memcmp(&a->values[k], &b->values[k], sizeof(double)) != 0) {
            fail_msg("%s: phase %u ends at %.17g, not %.17g", name, k, a->values[k], b->values[k]);
        }
    }
    if (a->path != b->path || a->path_hash != b->path_hash) {
        fail_msg("%s: the path differs; %u points and %u", name, a->path, b->path);
    }
}

// ---- damaged checkpoints -----------------------------------------------------------------------

static inline bool has_note(const ns_fit* fit, const char* part) {
    for (uint32_t k = 0; k < fit->result.notes.count; k++) {
        if (strstr(fit->result.notes.data[k], part)) return true;
    }
    return false;
}

#endif
