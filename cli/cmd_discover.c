// neuralsim discover: what is missing in a model, found from recordings.

#define _POSIX_C_SOURCE 200809L

#include "cli.h"
#include "interrupt.h"
#include <neuralsim/discover.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "usage: neuralsim discover FILE [-o DIR] [--json] [--threads N]\n"
    "\n"
    "Find what is missing in a model: wrong parameters and missing forces. FILE is a fit file as "
    "for\n"
    "'neuralsim fit', with a model and recordings. You do not have to say where to look; a "
    "section\n"
    "`discover: {parameters: [GLOB...], outputs: [GLOB...]}` restricts the search "
    "(docs/discover.md).\n"
    "\n"
    "  -o DIR         where results go: fitted.yaml (a model that every command takes),\n"
    "                 fitted_blueprint.yaml, report.html, result.json. Default: FILE without its\n"
    "                 ending, with _discover, beside it\n"
    "  --threads N    default: one per core. The result does not depend on it\n"
    "  --json         print the result as JSON\n"
    "\n"
    "If nothing is missing, it says so, with exit code 0. Ctrl-C ends the search: what was found "
    "so\n"
    "far is incomplete, and the exit code is 130.\n"
    "\n"
    "example: neuralsim discover examples/discover_pendulum.yaml -o /tmp/missing\n";

typedef struct watcher {
    bool terminal;
    double shown; // s
} watcher;

static bool discover_watch(void* context, const char* doing, double seconds) {
    watcher* w = context;
    if (w->terminal && seconds - w->shown > 0.2) {
        w->shown = seconds;
        fprintf(stderr, "\r\033[K%.70s, %.0f s", doing, seconds);
    }
    return interrupt_heard();
}

// The result is printed also when it cannot be saved.
static int discover_show(const ns_discovery* d, const char* folder, bool json, bool saved) {
    ns_error error;
    ns_report* report = NULL;
    if (ns_discover_report(d, &report, &error) != NS_OK) return cli_fail("%s", error.message);
    bool printed = cli_print_report(report, json);
    ns_report_free(report);
    if (!printed) return EXIT_FAILED;
    if (!json && saved)
        printf("\nmodel   %s/fitted.yaml\npage    %s/report.html\n", folder, folder);
    int code = cli_finish();
    return code == EXIT_OK && ns_discover_stopped(d) ? EXIT_INTERRUPTED : code;
}

static int discover_run(ns_discovery* d, const char* folder, bool json) {
    ns_error error;
    watcher w = {.terminal = isatty(STDERR_FILENO)};
    interrupt_listen();
    ns_status status = ns_discover_run(d, discover_watch, &w, &error);
    if (w.terminal) fprintf(stderr, "\r\033[K");
    if (status != NS_OK) {
        interrupt_restore();
        return cli_fail("%s", error.message);
    }
    status = ns_discover_save(d, folder, &error);
    interrupt_restore();
    bool early = ns_discover_stopped(d) && ns_discover_count(d) == 0;
    int code = discover_show(d, folder, json, status == NS_OK && !early);
    return status == NS_OK ? code : cli_fail("%s", error.message);
}

int cmd_discover(int argc, char** argv) {
    const char* output = NULL;
    bool json = false;
    uint32_t threads = 0;
    // Options, in the order of the help text.
    const cli_row rows[] = {{"-o", CLI_TEXT, &output, "a folder"},
                            {"--threads", CLI_COUNT, &threads, "a whole number of threads"},
                            {"--json", CLI_FLAG, &json, NULL},
                            {0}};
    cli_list arguments = {.count = 0};
    int code = cli_parse("discover", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    if (arguments.count != 1) return cli_usage("discover", "expected one fit file");

    // A robot or a table in the place of the fit file is a common mistake.
    code = cli_check_fit_file(arguments.items[0], "docs/discover.md");
    if (code != CLI_GO_ON) return code;

    // Load and validate everything before a folder is created.
    ns_discovery* d = NULL;
    ns_error error;
    if (ns_discover_load(arguments.items[0], threads, &d, &error) != NS_OK) {
        return cli_fail("%s", error.message);
    }

    for (uint32_t k = 0; k < ns_discover_data_warning_count(d); k++) {
        cli_note("warning: %s", ns_discover_data_warning(d, k));
    }

    // Create the folder of the result, beside the fit file by default.
    char* made = output ? NULL : cli_beside(arguments.items[0], "_discover");
    const char* folder = output ? output : made;
    // Report why there is none.
    if (!folder) {
        code = cli_fail("out of memory");
    } else if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        code = cli_fail("cannot make the folder %s: %s", folder, strerror(errno));
    } else if (!cli_is_folder(folder)) {
        code = cli_fail("%s is there and is no folder; give another one with -o", folder);
    } else {
        // The search writes report, model and record.
        code = discover_run(d, folder, json);
    }

    free(made);
    ns_discover_free(d);
    return code;
}
