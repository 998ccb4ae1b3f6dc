// neuralsim fit: parameters and weights from recordings, as a fit file says.

#define _POSIX_C_SOURCE 200809L

#include "cli.h"
#include "interrupt.h"
#include "progress_file.h"
#include <neuralsim/fit.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "usage: neuralsim fit FILE [-o DIR] [--resume] [--json] [OPTIONS]\n"
    "\n"
    "Fit parameters of a model, and weights of its networks, to recordings. FILE is a fit file in\n"
    "YAML (docs/fit.md); it is validated before fitting starts.\n"
    "\n"
    "  -o DIR         where results go: fitted.yaml (a model that every command takes), weights,\n"
    "                 report.html, result.json, predictions.csv, checkpoint.json. Default: FILE\n"
    "                 without its ending, with _fit, beside it. 'neuralsim view DIR' shows the "
    "fit,\n"
    "                 also while it runs\n"
    "  --resume       go on from the checkpoint in DIR, if there is one\n"
    "  --interval S   seconds between checkpoints. Default 2\n"
    "  --threads N    default: one per core. The result does not depend on it\n"
    "  --json         print the result as JSON instead of tables\n"
    "  --check        only check FILE\n"
    "\n"
    "Ctrl-C ends the fit cleanly: the result so far is written, and --resume goes on.\n"
    "Exit code 4: the fit failed, for example because residuals are far above the noise. The "
    "first\n"
    "line of the report says so, with the most likely reasons; the result is written. A model "
    "that\n"
    "is only scored ('iterations: 0') cannot fail: the report says if it does not explain the "
    "data.\n"
    "\n"
    "example: neuralsim fit examples/pendulum_fit.yaml -o /tmp/pendulum\n";

typedef struct fit_command {
    const char *file, *output;
    bool resume, json, check;
    double interval;
    uint32_t threads;
    double shown; // s: when progress was shown last
    bool terminal;
    progress_file progress;
} fit_command;

static bool fit_watch(void* context, const ns_fit_progress* p) {
    fit_command* c = context;
    progress_file_update(&c->progress, p);
    if (c->terminal && p->seconds - c->shown > 0.2) {
        c->shown = p->seconds;
        fprintf(stderr, "\r\033[K%u/%u %s: %u of at most %u", p->number + 1, p->count, p->phase,
                p->iteration, p->iterations);
        if (isfinite(p->loss)) fprintf(stderr, ", loss %.4g", p->loss);
        fprintf(stderr, ", %.0f s", p->seconds);
    }
    return interrupt_heard();
}

static int fit_show(const fit_command* c, const ns_fit* fit, const char* folder) {
    ns_report* report = NULL;
    ns_error error;
    if (ns_fit_report(fit, NULL, &report, &error) != NS_OK) return cli_fail("%s", error.message);
    bool printed = cli_print_report(report, c->json);
    ns_report_free(report);
    if (!printed) return EXIT_FAILED;
    if (!c->json) {
        printf("\nmodel   %s/fitted.yaml\npage    %s/report.html\n", folder, folder);
    }
    if (!ns_report_has_script()) {
        cli_note("report.html shows no motion: %s", ns_report_script_hint());
    }
    int code = cli_finish();
    if (ns_fit_stopped(fit)) {
        cli_note("stopped; 'neuralsim fit %s -o %s --resume' goes on", c->file, folder);
        if (code == EXIT_OK) code = EXIT_INTERRUPTED;
    }
    if (code == EXIT_OK && ns_fit_get_result(fit)->failure) code = EXIT_FIT_FAILED;
    return code;
}

static int fit_run(fit_command* c, ns_fit* fit, const char* folder) {
    ns_error error;
    if (ns_fit_check_folder(fit, folder, &error) != NS_OK) return cli_fail("%s", error.message);
    char* checkpoint = malloc(strlen(folder) + sizeof "/checkpoint.json");
    if (!checkpoint) return cli_fail("out of memory");
    sprintf(checkpoint, "%s/checkpoint.json", folder);
    interrupt_listen();
    c->terminal = isatty(STDERR_FILENO);
    progress_file_begin(&c->progress, folder, ns_fit_title(fit));
    ns_fit_options options = {.observe = fit_watch,
                              .context = c,
                              .checkpoint = checkpoint,
                              .interval = c->interval,
                              .resume = c->resume};
    ns_status status = ns_fit_run(fit, &options, &error);
    if (c->terminal) fprintf(stderr, "\r\033[K");
    free(checkpoint);
    if (status == NS_OK) status = ns_fit_save(fit, folder, &error);
    const char* state = status != NS_OK ? "failed" : ns_fit_stopped(fit) ? "stopped" : "done";
    progress_file_end(&c->progress, state, status == NS_OK ? NULL : error.message);
    interrupt_restore();
    return status == NS_OK ? fit_show(c, fit, folder) : cli_fail("%s", error.message);
}

int cmd_fit(int argc, char** argv) {
    // Options, in the order of the help text.
    fit_command c = {0};
    const cli_row rows[] = {{"-o", CLI_TEXT, &c.output, "a folder"},
                            {"--resume", CLI_FLAG, &c.resume, NULL},
                            {"--interval", CLI_NUMBER, &c.interval, "seconds"},
                            {"--threads", CLI_COUNT, &c.threads, "a whole number of threads"},
                            {"--json", CLI_FLAG, &c.json, NULL},
                            {"--check", CLI_FLAG, &c.check, NULL},
                            {0}};
    cli_list arguments = {.count = 0};

    // Parse the arguments.
    int code = cli_parse("fit", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    if (arguments.count != 1) return cli_usage("fit", "expected one fit file");
    if (c.interval < 0.0) return cli_usage("fit", "--interval must not be negative");

    // A robot or a table in the place of the fit file is a common mistake.
    c.file = arguments.items[0];
    code = cli_check_fit_file(c.file, "docs/fit.md");
    if (code != CLI_GO_ON) return code;

    // Load and validate everything before a folder is created.
    ns_fit* fit = NULL;
    ns_error error;
    if (ns_fit_load(c.file, c.threads, &fit, &error) != NS_OK) return cli_fail("%s", error.message);
    for (uint32_t k = 0; k < ns_fit_data_warning_count(fit); k++) {
        cli_note("warning: %s", ns_fit_data_warning(fit, k));
    }
    // --check ends here.
    if (c.check) {
        bool clean = ns_fit_data_warning_count(fit) == 0;
        ns_fit_free(fit);
        printf("%s: %s\n", c.file, clean ? "nothing wrong" : "no errors; see the warnings");
        return cli_finish();
    }

    // Create the folder of the result, beside the fit file by default.
    char* made = c.output ? NULL : cli_beside(c.file, "_fit");
    const char* folder = c.output ? c.output : made;
    // Report why there is none.
    if (!folder) {
        code = cli_fail("out of memory");
    } else if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        code = cli_fail("cannot make the folder %s: %s", folder, strerror(errno));
    } else if (!cli_is_folder(folder)) {
        code = cli_fail("%s is there and is no folder; give another one with -o", folder);
    } else {
        // Checkpoints, report and fitted model go there.
        code = fit_run(&c, fit, folder);
    }

    free(made);
    ns_fit_free(fit);
    return code;
}
