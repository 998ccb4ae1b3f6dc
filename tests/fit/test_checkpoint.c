// Checkpoints: a fit that was stopped, interrupted or killed ends as if it had not been; damaged and
// foreign checkpoints are refused.

#define _POSIX_C_SOURCE 200809L

#include "fit/fit_run_rig.h"
#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/rendered.h"
#include "support/tempdir.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// ---- running -----------------------------------------------------------------------------------

static void forget_checkpoints(void) {
    remove(tempdir_path("checkpoint.json"));
    remove(tempdir_path("checkpoint.json.old"));
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

// Nothing is stopped in silence: the result so far is there, and says so.
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
    assert_int_equal(render_fit(fit, ns_report_json, &text, &error), NS_OK);
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
        run(1, 2, 1e-9, false, NULL); // in the first phase
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
        write_fit(
            k == 0 ? "blueprint: net.yaml\ntrain: {window: 10, initial_state: recorded, iterations:"
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

// Of another spec, of other data, of another model.
static void checkpoints_of_other_experiments_are_refused(void** state) {
    (void)state;
    write_fit(experiments[0].text);
    forget_checkpoints();
    run(1, 5, 1e-9, false, NULL);
    write_fit("stages: [{window: 10, iterations: 7}, {window: whole}]\n");
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
    "train: {window: 10, method: adam, iterations: 1500, learning_rate: 0.02}\n",
    "train: {window: [5, 10], iterations: 30}\nsearch: {population: 8, rounds: 10}\n",
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
        cmocka_unit_test(stopped_and_resumed_it_ends_the_same),
        cmocka_unit_test(every_checkpoint_leads_to_the_same_end),
        cmocka_unit_test(a_stopped_fit_has_an_answer),
        cmocka_unit_test(the_older_checkpoint_stands_in_for_a_damaged_one),
        cmocka_unit_test(two_damaged_checkpoints_are_refused),
        cmocka_unit_test(checkpoints_of_phases_that_are_not_there_are_refused),
        cmocka_unit_test(checkpoints_without_a_path_are_refused),
        cmocka_unit_test(checkpoints_of_other_experiments_are_refused),
        cmocka_unit_test(there_need_not_be_a_checkpoint),
        cmocka_unit_test(checkpoints_that_cannot_be_written_end_the_fit),
        cmocka_unit_test(killed_at_any_moment_it_ends_the_same),
        cmocka_unit_test(interrupted_it_writes_what_it_has),
    };
    return cmocka_run_group_tests(tests, write_data, NULL);
}
