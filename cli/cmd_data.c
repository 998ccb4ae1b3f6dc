// neuralsim data: statistics of recordings, and likely mistakes in them.

#define _POSIX_C_SOURCE 200809L

#include "cli.h"
#include <neuralsim/data_report.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char help[] =
    "usage: neuralsim data FILE.. [--model MODEL] [--map FILE.yaml] [-o DIR] [--json]\n"
    "\n"
    "Check recordings before a fit: range, rate, noise, resolution and missing samples of each\n"
    "channel, and likely mistakes, such as degrees, milliseconds, wrapped angles, stuck values,\n"
    "outliers, or a velocity that does not match its position.\n"
    "\n"
    "  --model MODEL    the robot: also checks joint limits, and sign and holding of controls,\n"
    "                   and tells angles from lengths\n"
    "  --map FILE.yaml  what the columns mean (docs/data.md); default: columns by their names\n"
    "  --period S       s between samples; default: of the first file\n"
    "  -o DIR           write report.html, with the channels as curves, and result.json\n"
    "  --json           print the result as JSON\n"
    "  --variant NAME   of a model with variants\n"
    "  --ground, --self-collision, --floating-base, --package-path DIR, --strict   as for "
    "simulate\n"
    "\n"
    "Exit code 1: a file cannot be used as it is, for example because its time goes back. "
    "Warnings\n"
    "leave it at 0. fit, discover and score run the same checks.\n"
    "\n"
    "example: neuralsim data examples/pendulum_recording.csv --model models/double_pendulum.urdf\n";

typedef struct data_command {
    const char *model_path, *map_path, *output;
    cli_list files;
    double period; // NAN: not given
    bool json;
    cli_load load;
} data_command;

// DIR/report.html and DIR/result.json; false after saying why not.
static bool data_save(const data_command* c, const ns_report* report) {
    ns_error error;
    ns_text json = {0};
    if (mkdir(c->output, 0777) != 0 && errno != EEXIST) {
        cli_fail("cannot make the folder %s: %s", c->output, strerror(errno));
        return false;
    }
    if (!cli_is_folder(c->output)) {
        cli_fail("%s is there and is no folder; give another one with -o", c->output);
        return false;
    }
    cli_pool pool = {0};
    char* page = cli_pool_format(&pool, "%s/report.html", c->output);
    char* record = cli_pool_format(&pool, "%s/result.json", c->output);
    bool done = page && record;
    if (done && ns_report_save_html(report, page, NULL, &error) != NS_OK) {
        cli_fail("%s", error.message);
        done = false;
    }
    if (done && ns_report_json(report, &json, &error) != NS_OK) {
        cli_fail("%s", error.message);
        done = false;
    }
    if (done) done = cli_write_file(record, json.data, json.size);
    ns_text_free(&json);
    cli_pool_free(&pool);
    return done;
}

static int data_show(const data_command* c, const ns_data_check* check) {
    ns_report* report = NULL;
    ns_error error;
    if (ns_data_check_report(check, &report, &error) != NS_OK) return cli_fail("%s", error.message);
    bool done = (!c->output || data_save(c, report)) && cli_print_report(report, c->json);
    ns_report_free(report);
    if (!done) return EXIT_FAILED;
    if (!c->json && c->output) printf("\npage    %s/report.html\n", c->output);
    int code = cli_finish();
    bool usable = ns_data_check_count(check, NS_DATA_PROBLEM) == 0;
    return code == EXIT_OK && !usable ? EXIT_FAILED : code;
}

static int data_run(const data_command* c) {
    cli_model model = {0};
    if (c->model_path && !cli_model_load(c->model_path, &c->load, NULL, &model)) return EXIT_FAILED;
    ns_data_check_options options = {.files = c->files.items,
                                     .nfile = c->files.count,
                                     .map = c->map_path,
                                     .model = model.model,
                                     .period = isnan(c->period) ? 0.0 : c->period};
    ns_data_check* check = NULL;
    ns_error error;
    ns_status status = ns_data_check_files(&options, NULL, &check, &error);
    int code = status == NS_OK ? data_show(c, check) : cli_fail("%s", error.message);
    ns_data_check_free(check);
    cli_model_free(&model);
    return code;
}

int cmd_data(int argc, char** argv) {
    data_command c = {.period = NAN, .load.options = ns_default_load_options()};
    // Options, in the order of the help text.
    const cli_row rows[] = {{"--model", CLI_TEXT, &c.model_path, "a model file"},
                            {"--map", CLI_TEXT, &c.map_path, "a YAML file"},
                            {"--period", CLI_NUMBER, &c.period, "a time in s"},
                            {"-o", CLI_TEXT, &c.output, "a folder"},
                            {"--json", CLI_FLAG, &c.json, NULL},
                            CLI_LOAD_ROWS(c.load),
                            {0}};
    int code = cli_parse("data", help, rows, argc, argv, &c.files);
    if (code != CLI_GO_ON) return code;
    if (c.files.count == 0) return cli_usage("data", "expected recordings to check: CSV files");
    if (c.period <= 0.0) return cli_usage("data", "--period must be positive, not %g", c.period);
    return data_run(&c);
}
