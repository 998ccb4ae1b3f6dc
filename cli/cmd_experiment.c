// neuralsim experiment: a study, run as a whole from one file.

#define _POSIX_C_SOURCE 200809L

#include "cli.h"
#include "interrupt.h"
#include <neuralsim/study.h>
#include <neuralsim/words.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: neuralsim experiment NAME [--quick] [-o DIR] [--json] [--threads N]\n"
    "       neuralsim experiment [--list]\n"
    "\n"
    "Run a study: its fits one after the other, or one fit from every cell of a grid, with tables "
    "at\n"
    "the end. Without NAME it lists the studies: folders with a study.yaml (docs/experiments.md) "
    "in\n"
    "./experiments, or where the program was built. Walking robots have a program of their own:\n"
    "build/quadruped.\n"
    "\n"
    "  --quick        a part of it, in seconds\n"
    "  -o DIR         where results go: report.html, result.json, fitted.yaml (a model that every\n"
    "                 command takes) and the parts. Default: NAME_experiment,\n"
    "                 NAME_experiment_quick\n"
    "  --json         print the results as JSON instead of tables\n"
    "  --threads N    default: one per core. Results do not depend on it\n"
    "  --list         list the studies\n"
    "\n"
    "Recordings are searched in the study's folder and below $NEURALSIM_DATA. Ctrl-C stops it; "
    "fits\n"
    "that are done stay in DIR.\n"
    "\n"
    "example: neuralsim experiment basin_hopping --quick -o /tmp/basin_hopping\n";

static const char* const study_places[] = {"experiments", NEURALSIM_EXPERIMENTS};
enum { STUDY_PLACES = sizeof study_places / sizeof *study_places };

// ---- which there are -----------------------------------------------------------------------------

static int print_studies(const ns_study_list* list) {
    uint32_t count = ns_study_list_count(list);
    if (count == 0) {
        return cli_fail("there are no experiments in ./%s or %s", study_places[0], study_places[1]);
    }
    for (uint32_t k = 0; k < count; k++) {
        const ns_study_entry* entry = ns_study_list_at(list, k);
        printf("%-18s %s\n", entry->name,
               entry->title ? entry->title : "(study.yaml has no title, or cannot be read)");
    }
    return cli_finish();
}

// The file of a study; NULL after saying that there is none.
static const char* find_study(const ns_study_list* list, const char* name) {
    ns_nearest near = {.wanted = name};
    for (uint32_t k = 0; k < ns_study_list_count(list); k++) {
        const ns_study_entry* entry = ns_study_list_at(list, k);
        if (strcmp(entry->name, name) == 0) return entry->path;
        ns_nearest_offer(&near, entry->name);
    }
    const char* likely = ns_nearest_likely(&near);
    cli_fail("there is no experiment '%.100s'; %s%s%s'neuralsim experiment' lists all", name,
             likely ? "did you mean '" : "", likely ? likely : "", likely ? "'? " : "");
    return NULL;
}

// ---- running one ---------------------------------------------------------------------------------

typedef struct study_watcher {
    cli_progress progress;
    char what[200]; // that progress is about
} study_watcher;

static bool watch_study(void* context, const ns_study_progress* p) {
    study_watcher* w = context;
    if (strncmp(w->what, p->what, sizeof w->what - 1) != 0) {
        cli_progress_end(&w->progress);
        snprintf(w->what, sizeof w->what, "%s", p->what);
        w->progress = cli_progress_start(w->what);
    }
    cli_progress_update(&w->progress, p->done, p->total);
    return interrupt_heard();
}

static void note_study(void* context, const char* text) {
    study_watcher* w = context;
    cli_progress_end(&w->progress);
    cli_note("%s", text);
}

// Print the report, the paths of its files, and problems of the study.
static int show_study(ns_study* study, const char* folder, bool json) {
    ns_report* report = NULL;
    ns_error error;
    if (ns_study_report(study, &report, &error) != NS_OK) return cli_fail("%s", error.message);
    bool printed = cli_print_report(report, json);
    ns_report_free(report);
    if (!printed) return EXIT_FAILED;
    if (!json) printf("\nmodel   %s/fitted.yaml\npage    %s/report.html\n", folder, folder);

    int code = cli_finish();
    for (uint32_t k = 0; k < ns_study_problem_count(study); k++) {
        code = cli_fail("%s", ns_study_problem(study, k));
    }
    return code;
}

static int run_study(const char* path, const char* folder, bool json, ns_study_options options) {
    // Progress and notes of the library go to the terminal.
    study_watcher watcher = {.what = ""};
    ns_study* study = NULL;
    ns_error error;
    options.observe = watch_study;
    options.notify = note_study;
    options.context = &watcher;
    // The file is validated before anything runs.
    if (ns_study_load(path, &options, &study, &error) != NS_OK) {
        return cli_fail("%s", error.message);
    }

    // Ctrl-C stops the run in an orderly way: finished fits are kept.
    interrupt_listen();
    ns_status status = ns_study_run(study, folder, &error);
    // The progress line must not mix with the report.
    cli_progress_end(&watcher.progress);
    bool stopped = ns_study_stopped(study);
    if (status == NS_OK && !stopped) status = ns_study_save(study, &error);
    interrupt_restore();

    // A stopped run has no report.
    int code = EXIT_INTERRUPTED;
    if (status != NS_OK) {
        code = cli_fail("%s", error.message);
    } else if (!stopped) {
        code = show_study(study, folder, json);
    }

    ns_study_free(study);
    return code;
}

int cmd_experiment(int argc, char** argv) {
    // Options, in the order of the help text.
    ns_study_options options = {.smoke = false};
    const char* folder = NULL;
    bool list_all = false, json = false;
    const cli_row rows[] = {{"--quick", CLI_FLAG, &options.smoke, NULL},
                            {"-o", CLI_TEXT, &folder, "a folder"},
                            {"--json", CLI_FLAG, &json, NULL},
                            {"--threads", CLI_COUNT, &options.threads, "a whole number of threads"},
                            {"--list", CLI_FLAG, &list_all, NULL},
                            {0}};
    cli_list arguments = {.count = 0};

    // Parse the arguments.
    int code = cli_parse("experiment", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    if (arguments.count > 1) return cli_usage("experiment", "expected one name of an experiment");

    // Find the experiment among the folders that hold some.
    ns_study_list* list = NULL;
    ns_error error;
    if (ns_study_list_create(study_places, STUDY_PLACES, &list, &error) != NS_OK) {
        return cli_fail("%s", error.message);
    }
    // Without a name, list them.
    bool listed = list_all || arguments.count == 0;
    const char* path = listed ? NULL : find_study(list, arguments.items[0]);
    code = listed ? print_studies(list) : EXIT_FAILED;

    // Run it, into a folder of its name by default.
    char made[300];
    if (path) {
        // A quick run must not replace results of a full one.
        snprintf(made, sizeof made, "%.250s_experiment%s", arguments.items[0],
                 options.smoke ? "_quick" : "");
        code = run_study(path, folder ? folder : made, json, options);
    }

    ns_study_list_free(list);
    return code;
}
