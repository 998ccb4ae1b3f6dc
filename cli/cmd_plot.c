// neuralsim plot: figures of results and tables, as files or in characters.

#define _DEFAULT_SOURCE // struct winsize

#include "cli.h"

#include <errno.h>
#include <neuralsim/fit.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

int cmd_plot(int argc, char** argv);

static const char help[] =
    "usage: neuralsim plot RESULT [--figure NAME] [-o FILE] [--list] [OPTIONS]\n"
    "       neuralsim plot MODEL [--blueprint FILE] [--network NAME] [-o FILE]\n"
    "\n"
    "Draws figures of a fit, an experiment, a table or a network. RESULT is a result.json, the\n"
    "folder that has it, or a table (.csv). Without -o a figure is drawn in characters.\n"
    "\n"
    "  --list            list the figures\n"
    "  --figure NAME     which one. Default: the first\n"
    "  -o FILE           FILE.svg: the picture; FILE.csv: its numbers; DIR/: all figures, or that "
    "of\n"
    "                    --figure, as DIR/<name>.svg\n"
    "  --columns NAME... of a table, or of the predictions of a fit: names, or globs: * is\n"
    "                    anything but a slash, ** anything.\n"
    "                    Default: the first 4. NAME/before, NAME/after and NAME_recorded are "
    "drawn\n"
    "                    with NAME\n"
    "  --fit NAME        which fit of an experiment. Default: its main one\n"
    "\n"
    "Networks of a model: inputs and outputs with the names of their quantities, a line for each\n"
    "weight, its width and opacity by the weight's size, its colour by the sign. Without -o the "
    "SVG\n"
    "goes to standard output. Layers of more than 200 nodes show only the 40 strongest.\n"
    "\n"
    "  --network NAME    which network, or <network>/<match> where weights are separate. Not "
    "needed\n"
    "                    when there is only one\n"
    "  --blueprint FILE  the networks (docs/blueprint.md). Default: those of a hybrid model "
    "(.yaml)\n"
    "  --weights FILE    safetensors or .json. Default: the initial weights\n"
    "  --contact C       {contact}; --friction, --sweeps: as for simulate\n"
    "  --ground, --self-collision, --floating-base, --strict, --variant NAME   as for simulate\n"
    "\n"
    "examples:\n"
    "  neuralsim plot /tmp/pendulum\n"
    "  neuralsim plot /tmp/pendulum --figure parameters -o parameters.svg\n"
    "  neuralsim plot run.csv --columns 'q_*' -o run.svg\n"
    "  neuralsim plot models/swimmer2.xml --blueprint medium.yaml -o medium.svg\n";

enum { MAX_NETWORKS = 6, MAX_LISTED = 20 };

typedef struct plot {
    const char *source, *figure, *output, *fit;
    bool list;
    cli_list columns;
    const char* network; // of a model
    cli_networks networks;
    cli_contact contact;
    cli_load load;

    char folder[4096]; // of the parts of a fit, ending with '/'; "" for a table
    ns_report* report; // its figures
    ns_table table;    // what figures borrow from, as
    cli_model model;   // this
    ns_system* system;
    ns_error network_error; // why there are no pictures of networks
} plot;

// ---- where figures come from -------------------------------------------------------------------

static bool file_exists(const char* path) {
    return access(path, F_OK) == 0;
}

// "<folder><name>"; false after saying that it is too long.
static bool make_path(const char* folder, const char* name, char* out, size_t size) {
    if (snprintf(out, size, "%s%s", folder, name) < (int)size) return true;
    cli_fail("the name of a folder is too long: %.100s...", folder);
    return false;
}

static bool create_report(plot* p) {
    ns_error error;
    if (ns_report_create(p->source, NULL, &p->report, &error) == NS_OK) return true;
    return cli_fail("%s", error.message), false;
}

static bool plot_add_table(plot* p, const char* path, const char* name, const char* title) {
    ns_error error;
    ns_status status =
        ns_table_read(path, &(ns_table_options){.allow_missing = true}, NULL, &p->table, &error);
    if (status == NS_OK) {
        status = ns_section_add_curves(ns_report_add_section(p->report, NULL), &p->table, path,
                                       p->columns.items, p->columns.count, name, title, &error);
    }
    if (status != NS_OK) cli_fail("%s", error.message);
    return status == NS_OK;
}

static bool read_result(plot* p, const char* path) {
    ns_error error;
    if (ns_result_report(path, p->fit, &p->report, &error) == NS_OK) return true;
    return cli_fail("%s", error.message), false;
}

// Pictures of networks need the model, which takes its time and may not be where it was.
static void add_networks(plot* p, const char* path) {
    ns_section_add_networks(ns_report_add_section(p->report, NULL), path, MAX_NETWORKS,
                            &p->network_error);
}

// The fit of an experiment that was read; NULL: the result is that of a fit alone.
static const char* fit_name(const plot* p) {
    for (uint32_t k = 0; k < ns_report_fact_count(p->report); k++) {
        ns_fact fact = ns_report_fact(p->report, k);
        if (strcmp(fact.name, "fit") == 0) return fact.text;
    }
    return NULL;
}

// Figures of a posterior, where there is one.
static bool add_posterior(plot* p, bool predicted) {
    char path[5000];
    ns_error error;
    ns_status status = NS_OK;
    if (predicted) {
        status = ns_section_add_bands(ns_report_add_section(p->report, NULL), &p->table, &error);
    }
    if (!make_path(p->folder, "samples.csv", path, sizeof path)) return false;
    if (status == NS_OK && file_exists(path)) {
        status = ns_section_add_corner(ns_report_add_section(p->report, NULL), path, &error);
    }
    if (status != NS_OK) cli_fail("%s", error.message);
    return status == NS_OK;
}

// What lies beside the result.
static bool read_parts(plot* p) {
    char path[5000];
    const char* fit = fit_name(p);
    if (fit) { // of an experiment: in a folder of its own, whose name is that of the fit
        size_t used = strlen(p->folder);
        if (fit[0] == '.' || strchr(fit, '/')) return true;
        snprintf(p->folder + used, sizeof p->folder - used, "%s/", fit);
    }
    if (!make_path(p->folder, "predictions.csv", path, sizeof path)) return false;
    bool predicted = file_exists(path);
    if (predicted && !plot_add_table(p, path, "predictions", "Recorded and predicted")) {
        return false;
    }
    if (!add_posterior(p, predicted)) return false;
    bool networks =
        p->list || (p->figure ? strncmp(p->figure, "network", 7) == 0 : p->output != NULL);
    if (!make_path(p->folder, "fitted.yaml", path, sizeof path)) return false;
    if (networks && file_exists(path)) add_networks(p, path);
    return true;
}

static bool load_result(plot* p) {
    char path[5000];
    const char* slash = strrchr(p->source, '/');
    // A table needs no folder: its columns are drawn.
    if (!cli_is_folder(p->source) && cli_ends_with(p->source, ".csv")) {
        return create_report(p) &&
               plot_add_table(p, p->source, "curves", slash ? slash + 1 : p->source);
    }

    // The parts of a result are in its folder.
    bool folder = cli_is_folder(p->source);
    size_t size = folder ? strlen(p->source) : slash ? (size_t)(slash - p->source) + 1 : 0;
    // Room for a slash and the end.
    if (size + 2 >= sizeof p->folder) {
        cli_fail("the name of a folder is too long: %.100s...", p->source);
        return false;
    }
    memcpy(p->folder, p->source, size);
    if (folder && p->folder[size - 1] != '/') p->folder[size] = '/';
    // Anything else is neither a table nor a result.
    if (!folder && !cli_ends_with(p->source, ".json")) {
        cli_fail("%s cannot be drawn; a result.json can, the folder of a fit or an experiment, and "
                 "a table (.csv)",
                 p->source);
        return false;
    }

    // Read the result itself, or say why there is none.
    if (!folder) return read_result(p, p->source) && read_parts(p);
    if (!make_path(p->folder, "result.json", path, sizeof path)) return false;
    if (!file_exists(path)) {
        if (!make_path(p->folder, "progress.json", path, sizeof path)) return false;
        // A running fit has progress, but no result yet.
        bool begun = file_exists(path);
        cli_fail("%s has no result.json%s", p->source,
                 begun ? ": its fit is still running, or was killed ('neuralsim view' shows it)"
                       : "; is it the folder of a fit or an experiment?");
        return false;
    }

    return read_result(p, path) && read_parts(p);
}

// Is the source a model, whose network is drawn?
static bool is_model(const plot* p) {
    return p->network || p->networks.blueprint || ns_hybrid_is_path(p->source);
}

static void fail_no_network(const plot* p, uint32_t count) {
    char list[1000] = "";
    for (uint32_t k = 0; k < count && k < MAX_LISTED; k++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, " %.200s", ns_network_name(p->system, k));
    }
    size_t used = strlen(list);
    if (count > MAX_LISTED) {
        snprintf(list + used, sizeof list - used, " and %u more", count - MAX_LISTED);
    }
    ns_nearest near = {.wanted = p->network};
    for (uint32_t k = 0; p->network && k < count; k++) {
        ns_nearest_offer(&near, ns_network_name(p->system, k));
    }
    if (!p->network) {
        cli_fail("there are %u networks; choose one with --network:%s", count, list);
    } else if (ns_nearest_likely(&near)) {
        cli_fail("there is no network '%.200s'; did you mean '%s'?", p->network,
                 ns_nearest_likely(&near));
    } else {
        cli_fail("there is no network '%.200s'; there are:%s", p->network, list);
    }
}

// The network that is asked for, or the only one; UINT32_MAX after saying which there are.
static uint32_t find_network(const plot* p) {
    uint32_t count = ns_network_count(p->system);
    for (uint32_t k = 0; p->network && k < count; k++) {
        if (strcmp(ns_network_name(p->system, k), p->network) == 0) return k;
    }
    for (uint32_t k = 0; p->network && k < ns_system_weight_matrix_count(p->system); k++) {
        if (strcmp(ns_system_weight_matrix(p->system, k).set, p->network) != 0) continue;
        cli_fail("'%.200s' is a formula; only networks are drawn", p->network);
        return UINT32_MAX;
    }
    if (!p->network && count == 1) return 0;
    if (count == 0) {
        cli_fail("the blueprint has no networks");
    } else {
        fail_no_network(p, count);
    }
    return UINT32_MAX;
}

static int load_network(plot* p) {
    if (!cli_model_load(p->source, &p->load, &p->networks, &p->model)) return EXIT_FAILED;
    if (!p->model.blueprint) return cli_usage("plot", "%s: no --blueprint given", p->source);
    ns_system_options options = ns_default_system_options();
    cli_model_apply(&p->model, &options);
    cli_set_contact(&p->contact, &options);
    p->system = cli_create_system(p->model.model, &options);
    uint32_t number = p->system ? find_network(p) : UINT32_MAX;
    if (number == UINT32_MAX || !create_report(p)) return EXIT_FAILED;
    ns_error error;
    ns_status status =
        ns_section_add_network(ns_report_add_section(p->report, NULL), p->system, number, &error);
    return status == NS_OK ? CLI_GO_ON : cli_fail("%s", error.message);
}

static int load_figures(plot* p) {
    if (is_model(p)) return load_network(p);
    return load_result(p) ? CLI_GO_ON : EXIT_FAILED;
}

static void unload(plot* p) {
    ns_report_free(p->report);
    ns_table_free(&p->table);
    ns_system_free(p->system);
    cli_model_free(&p->model);
}

// ---- where they go -----------------------------------------------------------------------------

static int list_all(const plot* p) {
    static const ns_report_column columns[] = {{.name = "figure"}, {.name = "title"}};
    ns_report* list = NULL;
    ns_error error;
    if (ns_report_create("Figures", NULL, &list, &error) != NS_OK) {
        return cli_fail("%s", error.message);
    }
    ns_report_table* table =
        ns_section_add_table(ns_report_add_section(list, NULL), "figures", NULL, columns, 2);
    for (uint32_t k = 0; k < ns_report_figure_count(p->report); k++) {
        const ns_figure* figure = ns_report_figure(p->report, k);
        const ns_cell row[] = {ns_cell_text(figure->name), ns_cell_text(figure->title)};
        ns_report_table_add_row(table, row, 2);
    }
    bool printed = cli_print_report(list, false);
    ns_report_free(list);
    return printed ? cli_finish() : EXIT_FAILED;
}

// The figure that --columns are of; NULL after saying that there is none.
static const ns_figure* choose_curves(const plot* p) {
    const ns_figure* figure = ns_report_find_figure(p->report, "predictions");
    if (!figure) figure = ns_report_find_figure(p->report, "curves");
    if (!figure) cli_fail("%s: --columns are of predictions, and there are none", p->source);
    return figure;
}

// NULL after saying which there are.
static const ns_figure* choose_figure(const plot* p) {
    if (ns_report_figure_count(p->report) == 0) {
        cli_fail("%s: there is nothing to draw", p->source);
        return NULL;
    }
    if (!p->figure && p->columns.count > 0) return choose_curves(p);
    if (!p->figure) return ns_report_figure(p->report, 0);
    const ns_figure* found = ns_report_find_figure(p->report, p->figure);
    if (found) return found;
    ns_nearest near = {.wanted = p->figure};
    for (uint32_t k = 0; k < ns_report_figure_count(p->report); k++) {
        ns_nearest_offer(&near, ns_report_figure(p->report, k)->name);
    }
    if (strncmp(p->figure, "network", 7) == 0 && p->network_error.status != NS_OK) {
        cli_fail("no figure '%.100s': %s", p->figure, p->network_error.message);
    } else if (ns_nearest_likely(&near)) {
        cli_fail("there is no figure '%.100s'; did you mean '%s'?", p->figure,
                 ns_nearest_likely(&near));
    } else {
        cli_fail("there is no figure '%.100s'; 'neuralsim plot %s --list' lists those there are",
                 p->figure, p->source);
    }
    return NULL;
}

static bool write_figure(const ns_figure* figure, const char* path) {
    ns_error error;
    ns_text text = {0};
    ns_status status = path && cli_ends_with(path, ".csv")
                           ? ns_figure_csv(figure, NULL, &text, &error)
                           : ns_figure_svg(figure, NULL, &text, &error);
    bool done = status == NS_OK && cli_write_file(path, text.data, text.size);
    if (status != NS_OK) cli_fail("%s: %s", figure->name, error.message);
    ns_text_free(&text);
    return done;
}

static int write_all(const plot* p, const ns_figure* only) {
    char path[5000];
    size_t size = strlen(p->output);
    const char* gap = p->output[size - 1] == '/' ? "" : "/";
    if (mkdir(p->output, 0777) != 0 && errno != EEXIST) {
        return cli_fail("cannot make the folder %s: %s", p->output, strerror(errno));
    }
    if (p->network_error.status != NS_OK) {
        cli_note("without pictures of networks: %s", p->network_error.message);
    }
    for (uint32_t k = 0; k < ns_report_figure_count(p->report); k++) {
        const ns_figure* figure = ns_report_figure(p->report, k);
        if (only && figure != only) continue;
        int used = snprintf(path, sizeof path, "%s%s%s.svg", p->output, gap, figure->name);
        if (used >= (int)sizeof path) return cli_fail("the name of the folder is too long");
        if (!write_figure(figure, path)) return EXIT_FAILED;
    }
    return EXIT_OK;
}

static int print_figure(const ns_figure* figure) {
    struct winsize window;
    bool terminal = isatty(STDOUT_FILENO);
    uint32_t columns = 80;
    if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) {
        columns = window.ws_col < 400 ? window.ws_col : 400;
    }
    const char *no_colour = getenv("NO_COLOR"), *kind = getenv("TERM");
    bool colour = terminal && !(no_colour && *no_colour) && !(kind && strcmp(kind, "dumb") == 0);
    ns_text text = {0};
    ns_error error;
    if (ns_figure_text(figure, columns, colour, NULL, &text, &error) != NS_OK) {
        return cli_fail("%s", error.message);
    }
    fwrite(text.data, 1, text.size, stdout);
    ns_text_free(&text);
    return cli_finish();
}

static int plot_run(plot* p) {
    bool folder =
        p->output && (p->output[strlen(p->output) - 1] == '/' || cli_is_folder(p->output));
    if (p->output && !folder && !cli_ends_with(p->output, ".svg") &&
        !cli_ends_with(p->output, ".csv")) {
        return cli_usage("plot", "-o needs a name that ends with .svg, .csv or /");
    }
    if (p->output && !folder && cli_same_file(p->output, p->source)) {
        return cli_usage("plot", "-o would replace %s itself", p->source);
    }
    int code = load_figures(p);
    if (code != CLI_GO_ON) return code;
    if (p->list) return list_all(p);
    const ns_figure* figure = choose_figure(p);
    if (!figure) return EXIT_FAILED;
    if (folder) return write_all(p, p->figure ? figure : NULL);
    if (p->output) return write_figure(figure, p->output) ? EXIT_OK : EXIT_FAILED;
    if (is_model(p)) return write_figure(figure, NULL) ? cli_finish() : EXIT_FAILED;
    return print_figure(figure);
}

int cmd_plot(int argc, char** argv) {
    plot p = {.contact = CLI_CONTACT_DEFAULT, .load.options = ns_default_load_options()};
    const cli_row rows[] = {{"--figure", CLI_TEXT, &p.figure, "the name of a figure"},
                            {"-o", CLI_TEXT, &p.output, "a file or folder"},
                            {"--columns", CLI_LIST, &p.columns, "names of columns"},
                            {"--fit", CLI_TEXT, &p.fit, "the name of a fit"},
                            {"--list", CLI_FLAG, &p.list, NULL},
                            {"--network", CLI_TEXT, &p.network, "the name of a network"},
                            CLI_NETWORK_ROWS(p.networks),
                            CLI_CONTACT_ROWS(p.contact),
                            CLI_LOAD_ROWS(p.load),
                            {0}};
    cli_list arguments = {.count = 0};
    int code = cli_parse("plot", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    if (arguments.count != 1) {
        return cli_usage("plot",
                         "expected one RESULT: a result.json, its folder, a table, or a MODEL");
    }
    p.source = arguments.items[0];
    code = plot_run(&p);
    unload(&p);
    return code;
}
