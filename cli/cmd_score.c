// neuralsim score: how far a model is from recordings when it predicts them open loop.

#include "cli.h"

#include <neuralsim/scoring.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: neuralsim score MODEL --data FILE.. [OPTIONS]\n"
    "\n"
    "Predict recordings open loop, from their first row with their controls, and report the "
    "error.\n"
    "\n"
    "  --data FILE..         tables of recordings; columns q0, q_<joint>, qd_<joint>, u_<joint>,\n"
    "                        tau0, names of quantities, t, traj, or as a map says\n"
    "  --map FILE.yaml       what the columns mean, for all files\n"
    "  --period S            s between samples; default: of the first file\n"
    "  --horizon N           predict N samples, or seconds: 0.5s; default: to the end\n"
    "  --horizons S..        errors up to these times, s; default: four, spread evenly\n"
    "  --origins K           K predictions from evenly spread samples instead of one from the "
    "first\n"
    "                        of each recording\n"
    "  --history H           fit the state at each origin to the H samples up to it, by the "
    "model;\n"
    "                        default 0: as recorded, or as a cubic through samples around it "
    "tells\n"
    "  --reach R             samples of the cubic to either side; default 5\n"
    "  --dt H                time step, s; default: the longest that divides the period and is "
    "not\n"
    "                        above the model's\n"
    "  --integrator I        {integrator}; default: the model's\n"
    "  --contact C, --friction F, --sweeps N   as for simulate\n"
    "  --blueprint FILE, --weights FILE        networks, and their weights\n"
    "  -o FILE.csv           write predicted values beside recorded ones\n"
    "  --json                print one object instead of tables\n"
    "  --threads N           default: one for each core; the result is the same\n"
    "  --variant NAME        of a model with variants, for all files; default: as each name tells\n"
    "  --ground, --self-collision, --floating-base, --strict   as for simulate\n"
    "\n"
    "example: what a model without friction makes of a pendulum that has some\n"
    "  neuralsim score models/double_pendulum.urdf --data examples/rusty_pendulum_run.csv\n";

typedef struct score_command {
    const char *model_path, *map_path, *horizon, *output;
    cli_list files, horizon_texts;
    double period, dt; // NAN: not given
    uint32_t origins, history, reach, threads;
    int integrator;
    cli_contact contact;
    cli_networks networks;
    cli_load load;
    bool json;
    double horizons[CLI_MAX_LIST];
} score_command;

// ---- options -------------------------------------------------------------------------------

// "900", or "0.5s".
static bool read_horizon(const char* text, double* number, bool* seconds) {
    char digits[64];
    size_t size = strlen(text);
    *seconds = size > 1 && text[size - 1] == 's';
    if (*seconds) size--;
    if (size >= sizeof digits) return false;
    memcpy(digits, text, size);
    digits[size] = '\0';
    return cli_read_number(digits, number) && *number > 0.0 &&
           (*seconds || (*number == floor(*number) && *number < UINT32_MAX));
}

static int score_check_options(score_command* r) {
    if (r->files.count == 0) return cli_usage("score", "no --data given");
    // NAN passes: the default of the model or the data.
    if (r->period <= 0.0) return cli_usage("score", "--period must be positive, not %g", r->period);
    if (r->dt <= 0.0) return cli_usage("score", "--dt must be positive, not %g", r->dt);
    if (r->reach == 0) return cli_usage("score", "--reach needs at least 1");
    // Two documents in one stream could not be parsed.
    if (r->json && r->output && strcmp(r->output, "-") == 0) {
        return cli_usage("score", "--json and -o - both write to standard output");
    }

    // Horizons: one in samples or seconds, or several growing times.
    double number;
    bool seconds;
    if (r->horizon && !read_horizon(r->horizon, &number, &seconds)) {
        return cli_usage("score",
                         "--horizon needs a whole number of samples or seconds such as 0.5s, not"
                         " '%.60s'",
                         r->horizon);
    }

    // Several horizons must increase, as columns of the report do.
    for (uint32_t k = 0; k < r->horizon_texts.count; k++) {
        double* h = &r->horizons[k];
        if (!cli_read_number(r->horizon_texts.items[k], h) || *h <= 0.0) {
            return cli_usage("score", "--horizons needs positive times in s, not '%.60s'",
                             r->horizon_texts.items[k]);
        }
        if (k > 0 && *h <= h[-1]) return cli_usage("score", "--horizons must grow");
    }

    // Windows need a length.
    if (r->origins > 0 && !r->horizon && r->horizon_texts.count == 0) {
        return cli_usage("score", "--origins needs --horizon: how far to predict from each");
    }
    return CLI_GO_ON;
}

static ns_scoring_options scoring_options(const score_command* r) {
    // Start from the defaults of the library.
    ns_scoring_options options = ns_default_scoring_options();
    double number = 0.0;
    bool seconds = false;
    if (r->horizon) read_horizon(r->horizon, &number, &seconds);

    // Recordings.
    options.files = r->files.items;
    options.nfile = r->files.count;
    options.map = r->map_path;
    options.period = isnan(r->period) ? 0.0 : r->period;

    // Horizons and windows.
    if (seconds) options.horizon_seconds = number;
    if (!seconds) options.horizon = (uint32_t)number;
    options.horizons = r->horizons;
    options.nhorizon = r->horizon_texts.count;
    options.origins = r->origins;
    options.history = r->history;
    options.smoothing = r->reach;

    // Simulation; unset options keep the choice of the model.
    options.timestep = isnan(r->dt) ? 0.0 : r->dt;
    options.integrator = r->integrator;
    options.contact = r->contact.model;
    options.friction = (ns_friction)r->contact.friction;
    options.contact_sweeps = r->contact.sweeps;

    // Networks.
    options.blueprint = r->networks.blueprint;
    options.weights = r->networks.weights;

    // Loading and execution.
    options.load = cli_load_options(&r->load);
    options.threads = r->threads;
    return options;
}

// ---- output --------------------------------------------------------------------------------

static void print_notes(const score_command* r, const ns_scoring* s, bool text) {
    for (uint32_t k = 0; k < ns_scoring_robot_count(s) && !ns_scoring_is_learned(s); k++) {
        cli_note_ignored(ns_scoring_model(s, k), r->model_path);
        cli_note_integrator(ns_scoring_model(s, k), ns_scoring_system(s, k),
                            ns_scoring_integrator(s, k));
    }
    for (uint32_t k = 0; k < ns_scoring_data_warning_count(s); k++) {
        cli_note("warning: %s", ns_scoring_data_warning(s, k));
    }
    for (uint32_t k = 0; k < ns_scoring_note_count(s) && !text; k++) { // the text has them
        cli_note("%s", ns_scoring_note(s, k));
    }
}

static bool write_predictions(const score_command* r, const ns_scoring* s) {
    if (!r->output) return true;
    ns_table_writer* writer = cli_create_table(r->output);
    if (!writer) return false;
    ns_error error;
    ns_status status = ns_scoring_write_predictions(s, writer, &error);
    if (status != NS_OK) cli_fail("%s", error.message);
    return cli_finish_table(writer) && status == NS_OK;
}

static int score_run(const score_command* r) {
    ns_scoring* s = NULL;
    ns_report* report = NULL;
    ns_error error;
    ns_scoring_options options = scoring_options(r);
    ns_status status = ns_scoring_run(r->model_path, &options, &s, &error);
    if (status == NS_ERR_ARGUMENT) return cli_usage("score", "%s", error.message);
    if (status != NS_OK) return cli_fail("%s", error.message);

    // Predictions to standard output leave no room for a report.
    bool piped = r->output && strcmp(r->output, "-") == 0;
    print_notes(r, s, !piped && !r->json);
    bool done = write_predictions(r, s);
    if (done && !piped) {
        status = ns_scoring_report(s, &report, &error);
        if (status != NS_OK) cli_fail("%s", error.message);
        done = status == NS_OK && cli_print_report(report, r->json);
    }
    ns_report_free(report);
    ns_scoring_free(s);
    return done ? cli_finish() : EXIT_FAILED;
}

int cmd_score(int argc, char** argv) {
    // NAN and -1 keep the choice of the model.
    score_command r = {.load.options = ns_default_load_options(),
                       .period = NAN,
                       .dt = NAN,
                       .reach = 5,
                       .integrator = -1,
                       .contact = CLI_CONTACT_DEFAULT};

    // Options, in the order of the help text.
    const cli_row rows[] = {{"--data", CLI_LIST, &r.files, "CSV files"},
                            {"--map", CLI_TEXT, &r.map_path, "a YAML file"},
                            {"--period", CLI_NUMBER, &r.period, "a time in s"},
                            {"--horizon", CLI_TEXT, &r.horizon, "samples, or seconds: 0.5s"},
                            {"--horizons", CLI_LIST, &r.horizon_texts, "times in s"},
                            {"--origins", CLI_COUNT, &r.origins, "a whole number of predictions"},
                            {"--history", CLI_COUNT, &r.history, "a whole number of samples"},
                            {"--reach", CLI_COUNT, &r.reach, "a whole number of samples"},
                            {"--dt", CLI_NUMBER, &r.dt, "a time step in s"},
                            {"--integrator", CLI_CHOICE, &r.integrator, &ns_integrators},
                            CLI_CONTACT_ROWS(r.contact),
                            CLI_NETWORK_ROWS(r.networks),
                            {"-o", CLI_TEXT, &r.output, "a file"},
                            {"--json", CLI_FLAG, &r.json, NULL},
                            {"--threads", CLI_COUNT, &r.threads, "a whole number of threads"},
                            CLI_LOAD_ROWS(r.load),
                            {0}};

    // Validate the options before the model is loaded.
    cli_list arguments = {.count = 0};
    int code = cli_parse("score", help, rows, argc, argv, &arguments);
    if (code == CLI_GO_ON) code = score_check_options(&r);
    if (code != CLI_GO_ON) return code;
    r.model_path = cli_model_argument("score", &arguments);
    return r.model_path ? score_run(&r) : EXIT_USAGE;
}
