// Running a fit: the same bits at any number of threads, after any stop and from any checkpoint.

#define _POSIX_C_SOURCE 200809L

#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/tempdir.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define PENDULUM NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf"

// ---- experiments -------------------------------------------------------------------------------

static const double swings[] = {0.8, -0.3, 0.2, 0.5, -1.2, 0.4, -0.5, 1.0, 0.1, 1.4, 0.0, 0.0};

static int write_data(void** state) {
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

static void write_fit(const char* rest) {
    experiment_write("fit.yaml",
                     "model: " PENDULUM "\n"
                     "data: {train: [swings.csv]}\n"
                     "timestep: 0.01\n"
                     "parameters:\n"
                     "  link/link1/mass: {start: 0.9, lower: 0.1, upper: 3}\n"
                     "  joint/joint0/damping: {start: 0.1, lower: 0, upper: 1}\n"
                     "%s",
                     rest);
}

// One of each kind.
static const struct {
    const char *name, *text;
} experiments[] = {
    {"lm", "stages: [{windows: 10, iterations: 6}, {windows: whole}]\n"},
    {"lm, tied", "fit: {windows: 10, states: tied}\n"},
    {"lm, robust and network", "blueprint: net.yaml\nfit: {windows: 20, huber: 1, decay: 0.001,"
                               " iterations: 6}\n"},
    {"lbfgs", "fit: {windows: 10, method: lbfgs, states: recorded, iterations: 120,"
              " tolerance: 1e-15}\n"},
    {"lbfgs, free", "fit: {windows: 20, method: lbfgs, iterations: 120}\n"},
    {"adam", "fit: {windows: 10, method: adam, states: recorded, iterations: 40, rate: 0.05}\n"},
    {"adam, free", "fit: {windows: 10, method: adam, iterations: 40, clip: 1}\n"},
    {"adam, batches", "blueprint: net.yaml\nfit: {windows: 5, method: adam, states: recorded,"
                      " batch: 5, iterations: 40}\n"},
    {"proximal", "blueprint: net.yaml\nfit: {windows: 10, method: proximal, states: recorded,"
                 " iterations: 120, tolerance: 0, l1: 0.0001, group: 0.0001}\n"},
    {"owlqn", "blueprint: net.yaml\nfit: {windows: 10, method: owlqn, states: recorded,"
              " iterations: 120, tolerance: 0, l1: 0.0001}\n"},
    {"path",
     "blueprint: net.yaml\nfit: {windows: 10, states: recorded, method: proximal,"
     " iterations: 120, tolerance: 0}\nstages: [{method: lm, iterations: 2}, {group: 0.0001},"
     " {method: owlqn, l1: 0.001}]\n"},
    {"path, adaptive", "blueprint: net.yaml\nfit: {windows: 10, iterations: 6, tolerance: 0,"
                       " fit: weights}\nstages: [{}, {group: 0.00001},"
                       " {group: 0.00001, adaptive: true}, {l1: 0.000001, adaptive: true,"
                       " method: proximal, iterations: 120, states: recorded},"
                       " {adaptive: true}]\n"},
    {"hop", "fit: {windows: [10, 20], iterations: 5}\nsearch: {population: 4, rounds: 3}\n"},
    {"hop, adam", "fit: {windows: 10, method: adam, states: recorded, iterations: 8}\n"
                  "search: {population: 5, rounds: 2}\n"},
    {"restart", "fit: {windows: 10, iterations: 5}\n"
                "search: {method: restart, population: 4, rounds: 2}\n"},
    {"crs2", "fit: {windows: 10, iterations: 5}\nsearch: {method: crs2, evaluations: 60}\n"},
    {"mlsl", "fit: {windows: 10, iterations: 5}\nsearch: {method: mlsl, evaluations: 60}\n"},
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

static void copy_file(const char* from, const char* to) {
    char* text = file_text(from);
    if (*text) {
        FILE* file = fopen(to, "wb");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
    }
    free(text);
}

static bool watch(void* context, const ns_fit_progress* progress) {
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

static ending ending_of(const ns_fit* fit) {
    ending e = {.count = fit->nz + fit->nw,
                .phases = fit->answer.phases.count,
                .points = fit->answer.history.count,
                .stopped = ns_fit_stopped(fit)};
    assert_true(e.count <= 64);
    memcpy(e.numbers, fit->z, e.count * sizeof(double));
    assert_true(ns_fit_estimate(fit, "link/link1/mass", NULL, &e.standard_error));
    for (uint32_t k = 0; k < e.phases && k < 4; k++) {
        snprintf(e.names[k], sizeof e.names[k], "%s", fit->answer.phases.data[k].name);
        e.values[k] = fit->answer.phases.data[k].value;
    }
    e.path = fit->answer.path.count;
    e.path_hash = NSI_HASH_START;
    for (uint32_t k = 0; k < e.path; k++) {
        const nsi_path_point* p = &fit->answer.path.data[k];
        double numbers[] = {p->phase, p->iteration, p->l1, p->group, p->loss};
        e.path_hash = nsi_hash64(e.path_hash, numbers, sizeof numbers);
        e.path_hash =
            nsi_hash64(e.path_hash, p->norms, fit->answer.path_names.count * sizeof *p->norms);
    }
    assert_true(fit->answer.complete == !e.stopped);
    return e;
}

static void forget_checkpoints(void) {
    remove(tempdir_path("checkpoint.json"));
    remove(tempdir_path("checkpoint.json.old"));
}

// `stop_at` 0: to the end. `interval` 0: no checkpoints.
static ending run(uint32_t threads, uint32_t stop_at, double interval, bool resume, watcher* out) {
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

static void assert_same(const ending* a, const ending* b, const char* name) {
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

// ---- threads -----------------------------------------------------------------------------------

static void threads_do_not_change_the_answer(void** state) {
    (void)state;
    for (int k = 0; k < EXPERIMENTS; k++) {
        write_fit(experiments[k].text);
        ending one = run(1, 0, 0.0, false, NULL), two = run(2, 0, 0.0, false, NULL);
        assert_same(&one, &two, experiments[k].name);
        assert_int_equal(one.points, two.points);
        assert_false(one.stopped);
    }
}

static void a_fit_can_be_run_again(void** state) {
    (void)state;
    for (int k = 0; k < EXPERIMENTS; k += 3) {
        write_fit(experiments[k].text);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        assert_int_equal(ns_fit_run(fit, NULL, &error), NS_OK);
        ending first = ending_of(fit);
        assert_int_equal(ns_fit_run(fit, NULL, &error), NS_OK);
        ending second = ending_of(fit);
        assert_same(&first, &second, experiments[k].name);
        ns_fit_free(fit);
    }
}

// ---- stopping ----------------------------------------------------------------------------------

static void stopped_and_resumed_it_ends_the_same(void** state) {
    (void)state;
    for (int k = 0; k < EXPERIMENTS; k++) {
        write_fit(experiments[k].text);
        watcher whole_watch = {0};
        ending whole = run(1, 0, 0.0, false, &whole_watch);
        for (uint32_t stop_at = 1; stop_at <= whole_watch.calls; stop_at += 1 + stop_at / 2) {
            forget_checkpoints();
            ending e = run(1, stop_at, 1e3, false, NULL);
            assert_true(e.stopped);
            e = run(1, 0, 1e3, true, NULL);
            assert_false(e.stopped);
            assert_same(&whole, &e, experiments[k].name);
        }
        // Over and over, a little further each time.
        forget_checkpoints();
        ending e = {.stopped = true};
        uint32_t stops = 0, step = whole_watch.calls / 3 + 1;
        for (; e.stopped && stops < 50; stops++) e = run(1, step + stops, 1e3, true, NULL);
        assert_false(e.stopped);
        assert_same(&whole, &e, experiments[k].name);
    }
}

// Killed at any moment, the program goes on from a checkpoint that was written at some moment.
static void every_checkpoint_leads_to_the_same_end(void** state) {
    (void)state;
    for (int k = 0; k < EXPERIMENTS; k++) {
        write_fit(experiments[k].text);
        forget_checkpoints();
        watcher w = {.copy = true};
        ending whole = run(1, 0, 1e-9, false, &w);
        char last[32];
        snprintf(last, sizeof last, "copy%u.json", w.copies);
        if (access(tempdir_path("checkpoint.json"), R_OK) == 0) { // the last one
            copy_file(tempdir_path("checkpoint.json"), tempdir_path(last));
            w.copies++;
        }
        for (uint32_t i = 0; i < w.copies; i += i + 12 < w.copies ? 1 + w.copies / 12 : 1) {
            char name[32];
            snprintf(name, sizeof name, "copy%u.json", i);
            forget_checkpoints();
            copy_file(tempdir_path(name), tempdir_path("checkpoint.json"));
            ending e = run(1, 0, 1e3, true, NULL);
            assert_same(&whole, &e, experiments[k].name);
        }
    }
}

// Nothing is stopped in silence: the answer so far is there, and says so.
static void a_stopped_fit_has_an_answer(void** state) {
    (void)state;
    write_fit(experiments[0].text);
    ns_fit* fit = experiment_load("fit.yaml", 1);
    watcher w = {.stop_at = 2};
    ns_error error = {0};
    ns_fit_options options = {.observe = watch, .context = &w};
    assert_int_equal(ns_fit_run(fit, &options, &error), NS_OK);
    assert_true(ns_fit_stopped(fit));
    double value;
    assert_true(ns_fit_estimate(fit, "link/link1/mass", &value, NULL));
    assert_true(value != 0.9 && isfinite(value));
    ns_text text = {0};
    assert_int_equal(ns_fit_json(fit, &text, &error), NS_OK);
    ns_text_free(&text);
    ns_fit_free(fit);
}

// ---- damaged checkpoints -----------------------------------------------------------------------

static void damage(const char* name, ns_rng* rng, bool cut) {
    char* text = tempdir_read(name);
    size_t size = strlen(text), at = ns_rng_below(rng, (uint32_t)size);
    FILE* file = fopen(tempdir_path(name), "wb");
    assert_non_null(file);
    if (cut) {
        size = at;
    } else {
        text[at] = (char)(text[at] ^ (1 << ns_rng_below(rng, 7)));
    }
    fwrite(text, 1, size, file);
    fclose(file);
    free(text);
}

static bool has_note(const ns_fit* fit, const char* part) {
    for (uint32_t k = 0; k < fit->answer.notes.count; k++) {
        if (strstr(fit->answer.notes.data[k], part)) return true;
    }
    return false;
}

static void the_older_checkpoint_stands_in_for_a_damaged_one(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(4);
    write_fit(experiments[0].text);
    ending whole = run(1, 0, 0.0, false, NULL);
    uint32_t noticed = 0;
    for (int trial = 0; trial < 30; trial++) {
        forget_checkpoints();
        run(1, 5, 1e-9, false, NULL);
        assert_int_equal(access(tempdir_path("checkpoint.json.old"), R_OK), 0);
        damage("checkpoint.json", &rng, trial % 2 == 0);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        ns_fit_options options = {.checkpoint = tempdir_path("checkpoint.json"), .resume = true};
        must(ns_fit_run(fit, &options, &error), &error);
        ending e = ending_of(fit);
        assert_same(&whole, &e, "damaged");
        noticed += has_note(fit, "damaged");
        ns_fit_free(fit);
    }
    assert_true(noticed >= 28); // a flipped bit may be one that does not matter: 'a' and 'A'
}

static void refuse_to_resume(const char* says) {
    ns_fit* fit = experiment_load("fit.yaml", 1);
    ns_error error = {0};
    ns_fit_options options = {.checkpoint = tempdir_path("checkpoint.json"), .resume = true};
    assert_int_equal(ns_fit_run(fit, &options, &error), NS_ERR_PARSE);
    if (!strstr(error.message, says)) fail_msg("'%s' does not say '%s'", error.message, says);
    ns_fit_free(fit);
}

static void two_damaged_checkpoints_are_refused(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(4);
    write_fit(experiments[0].text);
    forget_checkpoints();
    run(1, 5, 1e-9, false, NULL);
    damage("checkpoint.json", &rng, true);
    damage("checkpoint.json.old", &rng, true);
    refuse_to_resume("damaged; start again without resuming");
    experiment_write("checkpoint.json", "%s", "");
    experiment_write("checkpoint.json.old", "no checkpoint\n{}");
    refuse_to_resume("damaged");
}

static void write_checkpoint(const char* body) {
    experiment_write("checkpoint.json", "{\"neuralsim checkpoint\": \"%016llx\"}\n%s",
                     (unsigned long long)nsi_hash64(NSI_HASH_START, body, strlen(body)), body);
}

// Whole, of this experiment, and at a phase that it does not have.
static void checkpoints_of_phases_that_are_not_there_are_refused(void** state) {
    (void)state;
    static const char* const changes[][2] = {{"\"phase\":0", "\"phase\":99"},
                                             {"\"phases\":[]", "\"phases\":[[1,1,1,1],[1,1,1,1]]"}};
    for (int k = 0; k < 2; k++) {
        write_fit(experiments[0].text);
        forget_checkpoints();
        run(1, 5, 1e-9, false, NULL); // in the first phase
        char* text = tempdir_read("checkpoint.json");
        char *body = strchr(text, '\n') + 1, *at = strstr(body, changes[k][0]);
        assert_non_null(at);
        char* changed = malloc(strlen(body) + 100);
        sprintf(changed, "%.*s%s%s", (int)(at - body), body, changes[k][1],
                at + strlen(changes[k][0]));
        write_checkpoint(changed);
        refuse_to_resume("phase that the experiment does not have");
        free(changed);
        free(text);
    }
}

// A path without its beginning would be a wrong picture.
static void checkpoints_without_a_path_are_refused(void** state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        write_fit(k == 0 ? "blueprint: net.yaml\nfit: {windows: 10, states: recorded, iterations:"
                           " 120, tolerance: 0, method: proximal, group: 0.0001}\n"
                         : experiments[0].text);
        forget_checkpoints();
        run(1, 1, 1e-9, false, NULL);
        remove(tempdir_path("checkpoint.json.old"));
        char* text = tempdir_read("checkpoint.json");
        char *body = strchr(text, '\n') + 1, *at = strstr(body, ",\"path\":");
        assert_non_null(at);
        strcpy(at, "}"); // it is the last entry
        write_checkpoint(body);
        free(text);
        if (k == 0) {
            refuse_to_resume("does not have the sparsity path of this fit");
        } else { // there is nothing to miss
            assert_false(run(1, 0, 1e3, true, NULL).stopped);
        }
    }
}

// A prior counts beside the data with the width it has, however small the residuals are.
static void errors_know_priors(void** state) {
    (void)state;
    write_fit("  link/link0/inertia/zz: {start: 0.01, prior: 0.002}\n" // no effect
              "fit: {windows: 20}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    ns_error error = {0};
    must(ns_fit_run(fit, NULL, &error), &error);
    double value, off;
    assert_true(ns_fit_estimate(fit, "link/link0/inertia/zz", &value, &off));
    assert_true(fit->answer.sigma < 0.1);
    assert_true(fabs(value - 0.01) < 1e-6);
    if (!(fabs(off / 0.002 - 1.0) < 1e-3)) fail_msg("%g, not 0.002", off);
    assert_true(has_note(fit, "priors were weighed as if"));
    ns_fit_free(fit);
}

// Bounds hold for the ten numbers of a body, too.
static void bodies_stay_in_their_bounds(void** state) {
    (void)state;
    experiment_write("fit.yaml", "model: " PENDULUM "\n"
                                 "data: {train: [swings.csv]}\n"
                                 "timestep: 0.01\n"
                                 "parameters:\n"
                                 "  link/link1/mass: {start: 0.9, lower: 0.85, upper: 0.95}\n"
                                 "  link/link1/com/*: free\n"
                                 "  link/link1/inertia/*: free\n"
                                 "fit: {windows: 10}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    ns_error error = {0};
    double mass;
    must(ns_fit_run(fit, NULL, &error), &error);
    assert_true(ns_fit_estimate(fit, "link/link1/mass", &mass, NULL));
    if (!(mass > 0.8499 && mass < 0.9501)) fail_msg("%g", mass);
    ns_fit_free(fit);
}

static void too_many_steps_are_refused(void** state) {
    (void)state;
    experiment_write("fit.yaml", "model: " PENDULUM "\n"
                                 "data: {train: [swings.csv], period: 0.01}\n"
                                 "timestep: 0.01\n"
                                 "parameters: {link/link1/mass: free}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    nsi_problem* p = fit->problem;
    ns_error error = {0};
    p->substeps = 1000000;
    assert_int_equal(nsi_problem_check_length(p, 2147, &error), NS_OK);
    assert_int_equal(nsi_problem_check_length(p, 2148, &error), NS_ERR_LIMIT);
    assert_int_equal(nsi_problem_check_length(p, 4295, &error), NS_ERR_LIMIT); // 2^32 and a bit
    ns_fit_free(fit);
}

// Of another plan, of other data, of another model.
static void checkpoints_of_other_experiments_are_refused(void** state) {
    (void)state;
    write_fit(experiments[0].text);
    forget_checkpoints();
    run(1, 5, 1e-9, false, NULL);
    write_fit("stages: [{windows: 10, iterations: 7}, {windows: whole}]\n");
    refuse_to_resume("belongs to another experiment");
    write_fit(experiments[0].text);
    motion m = motion_of(PENDULUM, 0.01, 41);
    m.runs = 3;
    m.x0 = swings;
    m.push = 0.5;
    m.sigma = 0.01;
    m.seed = 1;
    motion_record(&m, "swings.csv");
    refuse_to_resume("belongs to another experiment");
    write_data(NULL);
    ending e = run(1, 0, 1e3, true, NULL); // as it was
    assert_false(e.stopped);
}

// With nothing to go on from it begins at the beginning.
static void there_need_not_be_a_checkpoint(void** state) {
    (void)state;
    write_fit(experiments[0].text);
    forget_checkpoints();
    ending whole = run(1, 0, 0.0, false, NULL), e = run(1, 0, 1e3, true, NULL);
    assert_same(&whole, &e, "none");
}

static void checkpoints_that_cannot_be_written_end_the_fit(void** state) {
    (void)state;
    write_fit(experiments[0].text);
    ns_fit* fit = experiment_load("fit.yaml", 1);
    ns_error error = {0};
    ns_fit_options options = {.checkpoint = tempdir_path("none/checkpoint.json"), .interval = 1e-9};
    assert_int_equal(ns_fit_run(fit, &options, &error), NS_ERR_IO);
    assert_non_null(strstr(error.message, "none/checkpoint.json"));
    ns_fit_free(fit);
}

// ---- sparse networks ---------------------------------------------------------------------------

static const char pair[] =
    "<mujoco><option timestep='0.01'/><worldbody>"
    "<body name='a'><joint name='a' type='hinge' axis='0 1 0'%s/>"
    "<inertial pos='0 0 -0.4' mass='1' diaginertia='0.02 0.02 0.001'/></body>"
    "<body name='b' pos='0 3 0'><joint name='b' type='hinge' axis='0 1 0'/>"
    "<inertial pos='0 0 -0.3' mass='1' diaginertia='0.02 0.02 0.001'/></body>"
    "</worldbody></mujoco>";

// Two pendulums that know nothing of each other; the network may look at both. The second swings the
// other way in the second run, so that nothing of the first can be seen in it.
static void inputs_that_do_not_matter_get_exact_zeros(void** state) {
    (void)state;
    experiment_write("truth.xml", pair, " damping='0.3'");
    experiment_write("pair.xml", pair, "");
    static const double starts[] = {0.8, -0.5, 0.0, 1.0, 0.8, 0.5, 0.0, -1.0};
    motion m = motion_of(tempdir_path("truth.xml"), 0.01, 101);
    m.runs = 2;
    m.x0 = starts;
    m.sigma = 0.001;
    motion_record(&m, "pair.csv");
    experiment_write("drag.yaml", "networks:\n"
                                  "  - name: drag\n"
                                  "    inputs: [joint/a/velocity, joint/b/velocity]\n"
                                  "    outputs: joint/a/tau\n"
                                  "    hidden: [4]\n"
                                  "    bias: false\n"
                                  "    init: {scale: 0.5, last: 1, seed: 2}\n");
    // Without decay of the upper layer, weights shrink below and grow above for nothing.
    static const char* const fits[] = {
        "proximal, group: 1e-3}",
        "proximal, l1: 1e-3}",
        "owlqn, l1: 1e-3}",
        "lm, group: 1e-3}",
        "lm, l1: 1e-3}",
        "lm}\nstages: [{group: 1e-3}, {adaptive: true}]",
        "lm}\nstages: [{group: 1e-3, method: proximal}, {group: 1e-4,"
        " adaptive: true}, {adaptive: true, method: proximal}]"};
    for (int k = 0; k < 7; k++) {
        experiment_write("fit.yaml",
                         "model: pair.xml\nblueprint: drag.yaml\ndata: {train: [pair.csv]}\n"
                         "timestep: 0.01\n"
                         "fit: {windows: 20, states: recorded, iterations: 1000,"
                         " decay_upper: 1e-3, method: %s\n",
                         fits[k]);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        ns_weight_matrix first = ns_system_weight_matrix(fit->system, 0);
        assert_true(first.layer == 0 && first.rows == 2 && first.columns == 4);
        uint32_t used = 0;
        for (uint32_t i = 0; i < 4; i++) {
            used += fit->w[first.offset + i] != 0.0;
            if (fit->w[first.offset + 4 + i] != 0.0) {
                fail_msg("%s: %g", fits[k], fit->w[first.offset + 4 + i]);
            }
        }
        assert_true(used > 0);
        assert_true(fit->answer.after[NSI_ROLE_TRAIN].loss <
                    0.1 * fit->answer.before[NSI_ROLE_TRAIN].loss);
        ns_fit_free(fit);
    }
}

// Without iterations nothing moves, and there need not be anything that could.
static void a_model_is_scored_as_it_is(void** state) {
    (void)state;
    static const char* const fits[] = {"", "blueprint: net.yaml\n"};
    for (int k = 0; k < 2; k++) {
        experiment_write("fit.yaml",
                         "model: " PENDULUM "\ndata: {train: [swings.csv]}\ntimestep: 0.01\n"
                         "%sfit: {windows: 10, states: recorded, iterations: 0}\n",
                         fits[k]);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        const nsi_result* a = &fit->answer;
        assert_true(a->complete);
        assert_true(a->after[NSI_ROLE_TRAIN].loss > 0.0);
        assert_true(a->after[NSI_ROLE_TRAIN].loss == a->before[NSI_ROLE_TRAIN].loss);
        assert_int_equal(a->history.count, 0);
        assert_int_equal(a->estimates.count, 0);
        must(ns_fit_save(fit, tempdir_path("scored"), &error), &error);
        ns_fit_free(fit);
    }
}

// The first row of what is trained on, with and without noise; seeds draw other noise.
static void noise_is_added_to_what_is_trained_on(void** state) {
    (void)state;
    double first[3][4];
    for (uint32_t k = 0; k < 3; k++) {
        experiment_write("fit.yaml",
                         "model: " PENDULUM "\ndata: {train: [swings.csv], test: [swings.csv],"
                         " noise: %g}\ntimestep: 0.01\nseed: %u\n"
                         "fit: {windows: 10, states: recorded, iterations: 0}\n",
                         k > 0 ? 0.1 : 0.0, k);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        const double* train = ns_dataset_recording(fit->data[NSI_ROLE_TRAIN], 0)->values;
        const double* test = ns_dataset_recording(fit->data[NSI_ROLE_TEST], 0)->values;
        memcpy(first[k], train, sizeof first[k]);
        assert_memory_equal(test, first[0], sizeof first[0]);
        for (int c = 0; c < 4; c++) {
            assert_true((first[k][c] == first[0][c]) == (k == 0));
            assert_true(k < 2 || first[2][c] != first[1][c]);
        }
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        assert_true((strstr(fit->answer.setting, "noise of 0.1 ") != NULL) == (k > 0));
        ns_fit_free(fit);
    }
}

// A search looks for parameters; weights start from where they are, not from zero, at which a
// network cannot learn.
static void searches_carry_weights_along(void** state) {
    (void)state;
    write_fit("blueprint: net.yaml\nfit: {windows: 20, states: recorded, iterations: 0}\n"
              "search: {population: 3, rounds: 2}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    double weights[64];
    ns_system_default_weights(fit->system, weights);
    ns_error error = {0};
    must(ns_fit_run(fit, NULL, &error), &error);
    assert_memory_equal(fit->w, weights, fit->nw * sizeof(double));
    ns_fit_free(fit);
}

// A stage of no iterations leaves everything as it is, and its value is that of the start.
static void no_iterations_are_allowed(void** state) {
    (void)state;
    static const char* const methods[] = {"lm", "lbfgs", "adam"};
    double value[3];
    for (int k = 0; k < 3; k++) {
        char text[200];
        snprintf(text, sizeof text,
                 "fit: {windows: 20, states: recorded, iterations: 0, method: %s}\n", methods[k]);
        write_fit(text);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        assert_memory_equal(fit->z, fit->z0, fit->nz * sizeof(double));
        value[k] = fit->answer.phases.data[0].value;
        ns_fit_free(fit);
    }
    assert_true(value[0] > 0.0 && value[0] == value[1] && value[0] == value[2]);
}

// ---- what is left behind -----------------------------------------------------------------------

static double loss_of(const ns_fit* fit, bool after) {
    return (after ? fit->answer.after : fit->answer.before)[NSI_ROLE_TRAIN].loss;
}

// fitted.yaml predicts as the fit did, as a model of its own. An axis that was fitted is no longer
// of unit length there.
static void the_fitted_model_is_what_was_fitted(void** state) {
    (void)state;
    static const char* const parameters[] = {
        "{link/link1/mass: 0.9, joint/joint1/axis/x: 0.3, joint/joint1/damping: 0.1}",
        "{length: 0.5}\nset: {link/link1/com/z: -length}\nblueprint: net.yaml"};
    for (int k = 0; k < 2; k++) {
        experiment_write("fit.yaml",
                         "model: " PENDULUM "\ndata: {train: [swings.csv]}\ntimestep: 0.01\n"
                         "fit: {windows: 20, iterations: 4}\nparameters: %s\n",
                         parameters[k]);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        double before = loss_of(fit, false), after = loss_of(fit, true);
        assert_true(after < before);
        must(ns_fit_save(fit, tempdir_path("saved"), &error), &error);
        ns_fit_free(fit);
        experiment_write("again.yaml", "model: saved/fitted.yaml\ndata: {train: [swings.csv]}\n"
                                       "timestep: 0.01\nfit: {windows: 20, iterations: 0}\n"
                                       "parameters: {link/link0/mass: free}\n");
        fit = experiment_load("again.yaml", 1);
        must(ns_fit_run(fit, NULL, &error), &error);
        if (!(fabs(loss_of(fit, false) - after) <= 1e-12 * after)) {
            fail_msg("%d: %.10g, not %.10g", k, loss_of(fit, false), after);
        }
        ns_fit_free(fit);
    }
}

// After a last stage for weights nothing is known of errors of parameters; after one for parameters
// they are those for the weights as they are.
static void errors_are_those_of_the_last_stage(void** state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        char text[300];
        snprintf(text, sizeof text,
                 "blueprint: net.yaml\nfit: {windows: 20, iterations: 3, states: recorded}\n"
                 "stages: [{fit: all}, {fit: %s}]\n",
                 k ? "parameters" : "weights");
        write_fit(text);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        double deviation;
        assert_true(ns_fit_estimate(fit, "link/link1/mass", NULL, &deviation));
        assert_true(k ? deviation > 0.0 && isfinite(deviation) : isnan(deviation));
        ns_text out = {0};
        assert_int_equal(ns_fit_text(fit, &out, &error), NS_OK);
        ns_text_free(&out);
        assert_int_equal(ns_fit_html(fit, &out, &error), NS_OK);
        ns_text_free(&out);
        ns_fit_free(fit);
    }
}

// ---- the program -------------------------------------------------------------------------------

// Start it; its output goes nowhere.
static pid_t start_program(const char* folder, bool resume) {
    char path[256], out[256];
    snprintf(path, sizeof path, "%s", tempdir_path("fit.yaml"));
    snprintf(out, sizeof out, "%s", tempdir_path(folder));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) return child;
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(99);
    execl(NEURALSIM_PROGRAM, "neuralsim", "fit", path, "-o", out, "--interval", "0.01", "--threads",
          "1", resume ? "--resume" : (char*)NULL, (char*)NULL);
    _exit(98);
}

static int wait_for(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void wait_seconds(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&time, NULL);
}

static void wait_for_checkpoint(const char* folder) {
    char name[64], path[256];
    snprintf(name, sizeof name, "%s/checkpoint.json", folder);
    snprintf(path, sizeof path, "%s", tempdir_path(name));
    for (int k = 0; access(path, R_OK) != 0 && k < 6000; k++) wait_seconds(0.005);
}

static char* model_in(const char* folder) {
    char name[64];
    snprintf(name, sizeof name, "%s/fitted.yaml", folder);
    return tempdir_read(name);
}

static const char* const program_fits[] = {
    "fit: {windows: 10, method: adam, iterations: 1500, rate: 0.02}\n",
    "fit: {windows: [5, 10], iterations: 30}\nsearch: {population: 8, rounds: 10}\n",
};

static double seconds_of_whole; // how long the program takes uninterrupted

static char* run_whole(const char* folder) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    assert_int_equal(wait_for(start_program(folder, false)), 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    seconds_of_whole = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    char* text = model_in(folder);
    assert_true(*text);
    return text;
}

static void killed_at_any_moment_it_ends_the_same(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(6);
    for (int k = 0; k < 2; k++) {
        char folder[32];
        write_fit(program_fits[k]);
        snprintf(folder, sizeof folder, "whole%d", k);
        char* whole = run_whole(folder);
        snprintf(folder, sizeof folder, "killed%d", k);
        int kills = 0, code = -1;
        for (; code != 0; kills++) {
            pid_t child = start_program(folder, kills > 0);
            if (kills < 6) {
                wait_seconds(ns_rng_uniform(&rng, 0.05, 0.5) * seconds_of_whole);
                kill(child, SIGKILL);
            }
            code = wait_for(child);
            assert_true(code == 0 || code == -SIGKILL);
        }
        char* text = model_in(folder);
        assert_string_equal(text, whole);
        free(text);
        free(whole);
    }
}

static void interrupted_it_writes_what_it_has(void** state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        char folder[32];
        write_fit(program_fits[k]);
        snprintf(folder, sizeof folder, "all%d", k);
        char* whole = run_whole(folder);
        int code = 0;
        for (int attempt = 0; code == 0 && attempt < 10;
             attempt++) { // on a busy machine it may end first
            snprintf(folder, sizeof folder, "stopped%d_%d", k, attempt);
            pid_t child = start_program(folder, false);
            wait_for_checkpoint(folder); // now it listens
            kill(child, SIGINT);
            code = wait_for(child);
        }
        assert_int_equal(code, 130);
        char* text = model_in(folder);
        assert_true(*text);
        free(text);
        assert_int_equal(wait_for(start_program(folder, true)), 0);
        text = model_in(folder);
        assert_string_equal(text, whole);
        free(text);
        free(whole);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_change_the_answer),
        cmocka_unit_test(a_fit_can_be_run_again),
        cmocka_unit_test(stopped_and_resumed_it_ends_the_same),
        cmocka_unit_test(every_checkpoint_leads_to_the_same_end),
        cmocka_unit_test(a_stopped_fit_has_an_answer),
        cmocka_unit_test(the_older_checkpoint_stands_in_for_a_damaged_one),
        cmocka_unit_test(two_damaged_checkpoints_are_refused),
        cmocka_unit_test(checkpoints_of_phases_that_are_not_there_are_refused),
        cmocka_unit_test(checkpoints_without_a_path_are_refused),
        cmocka_unit_test(errors_know_priors),
        cmocka_unit_test(too_many_steps_are_refused),
        cmocka_unit_test(bodies_stay_in_their_bounds),
        cmocka_unit_test(checkpoints_of_other_experiments_are_refused),
        cmocka_unit_test(there_need_not_be_a_checkpoint),
        cmocka_unit_test(checkpoints_that_cannot_be_written_end_the_fit),
        cmocka_unit_test(inputs_that_do_not_matter_get_exact_zeros),
        cmocka_unit_test(a_model_is_scored_as_it_is),
        cmocka_unit_test(noise_is_added_to_what_is_trained_on),
        cmocka_unit_test(searches_carry_weights_along),
        cmocka_unit_test(no_iterations_are_allowed),
        cmocka_unit_test(the_fitted_model_is_what_was_fitted),
        cmocka_unit_test(errors_are_those_of_the_last_stage),
        cmocka_unit_test(killed_at_any_moment_it_ends_the_same),
        cmocka_unit_test(interrupted_it_writes_what_it_has),
    };
    return cmocka_run_group_tests(tests, write_data, NULL);
}
