// neuralsim plot: figures of results and tables, as files or in characters.

#define _DEFAULT_SOURCE // struct winsize

#include "cli.h"

#include "fit/result.h"
#include "io/file.h"
#include "io/hybrid_file.h"
#include "report/curves.h"
#include "report/network_charts.h"
#include "report/start_map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

int cmd_plot(int argc, char** argv);

static const char help[] =
    "usage: neuralsim plot RESULT [--figure NAME] [-o FILE] [--list] [OPTIONS]\n"
    "\n"
    "Draws figures of a fit, an experiment or a table. RESULT is a result.json, the folder that "
    "has\n"
    "it, or a table (.csv). Without -o a figure is drawn in characters.\n"
    "\n"
    "  --list            which figures there are\n"
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
    "examples:\n"
    "  neuralsim plot /tmp/pendulum\n"
    "  neuralsim plot /tmp/pendulum --figure parameters -o parameters.svg\n"
    "  neuralsim plot run.csv --columns 'q_*' -o run.svg\n";

enum { MOST_NETWORKS = 6, MOST_BYTES = 256 << 20 };

typedef struct plot {
    const char *source, *figure, *output, *fit;
    bool list;
    cli_list columns;
    char folder[4096]; // of the parts of a fit, ending with '/'; "" for a table
    nsi_figures charts;
    nsi_result answer; // what charts borrow from
    ns_table table;
    ns_hybrid* hybrid;
    ns_system* system;
    ns_error network_error; // why there are no pictures of networks
} plot;

// ---- where figures come from -------------------------------------------------------------------

// "<folder><name>"; false after saying that it is too long.
static bool make_path(const char* folder, const char* name, char* out, size_t size) {
    if (snprintf(out, size, "%s%s", folder, name) < (int)size) return true;
    cli_fail("the name of a folder is too long: %.100s...", folder);
    return false;
}

static bool read_table(plot* p, const char* path, const char* name, const char* title) {
    ns_error error;
    ns_status status =
        ns_table_read(path, &(ns_table_options){.allow_missing = true}, NULL, &p->table, &error);
    if (status == NS_OK) {
        status = nsi_curves_add_figure(&p->table, path, p->columns.items, p->columns.count, name,
                                       title, &p->charts, &error);
    }
    if (status != NS_OK) cli_fail("%s", error.message);
    return status == NS_OK;
}

// A fit's or a grid's.
static bool read_result(plot* p, const char* path) {
    ns_error error;
    nsi_bytes bytes = {0};
    ns_allocator memory = ns_default_allocator();
    ns_status status = nsi_file_read(path, MOST_BYTES, NULL, &bytes, &error);
    if (status == NS_OK) {
        status = nsi_starts_read(bytes.data, bytes.count, path, &p->charts, &error);
        bool grid = status != NS_ERR_UNSUPPORTED;
        if (!grid) {
            status =
                nsi_result_read(bytes.data, bytes.count, path, p->fit, NULL, &p->answer, &error);
        }
        if (status == NS_OK && !grid)
            status = nsi_result_add_figures(&p->answer, &p->charts, &error);
    }
    nsi_array_free(&memory, &bytes);
    if (status != NS_OK) cli_fail("%s", error.message);
    return status == NS_OK;
}

// Pictures of networks need the model, which takes its time and may not be where it was.
static void load_networks(plot* p, const char* path) {
    ns_error* error = &p->network_error;
    nsi_hybrid file = {0};
    ns_load_options load = ns_default_load_options();
    ns_status status = nsi_hybrid_read(path, NULL, &file, error);
    // Networks are the same for all variants.
    if (status == NS_OK && file.variants.count > 0) load.variant = file.variants.data[0].name;
    if (status == NS_OK) status = ns_hybrid_load(path, &load, &p->hybrid, error);
    nsi_hybrid_free(&file);
    if (status != NS_OK || !ns_hybrid_blueprint(p->hybrid)) return;
    ns_system_options options = ns_default_system_options();
    ns_hybrid_apply(p->hybrid, &options);
    options.blueprint = ns_hybrid_blueprint(p->hybrid);
    status = ns_system_create(ns_hybrid_model(p->hybrid), &options, &p->system, error);
    uint32_t sets = status == NS_OK && p->system->binding ? p->system->binding->nset : 0;
    for (uint32_t k = 0; k < sets && k < MOST_NETWORKS && status == NS_OK; k++) {
        status = nsi_weights_add_figure(p->system, k, p->system->weights, NULL, &p->charts, error);
    }
}

// What lies beside the result.
static bool read_parts(plot* p) {
    char path[5000];
    if (p->answer.fit) { // of an experiment: in a folder of its own, whose name is that of the fit
        size_t used = strlen(p->folder);
        if (p->answer.fit[0] == '.' || strchr(p->answer.fit, '/')) return true;
        snprintf(p->folder + used, sizeof p->folder - used, "%s/", p->answer.fit);
    }
    if (!make_path(p->folder, "predictions.csv", path, sizeof path)) return false;
    if (nsi_file_exists(path) && !read_table(p, path, "predictions", "Recorded and predicted")) {
        return false;
    }
    bool networks =
        p->list || (p->figure ? strncmp(p->figure, "network", 7) == 0 : p->output != NULL);
    if (!make_path(p->folder, "fitted.yaml", path, sizeof path)) return false;
    if (networks && nsi_file_exists(path)) load_networks(p, path);
    return true;
}

static bool load(plot* p) {
    char path[5000];
    const char* slash = strrchr(p->source, '/');
    if (!cli_is_folder(p->source) && cli_ends_with(p->source, ".csv")) {
        return read_table(p, p->source, "curves", slash ? slash + 1 : p->source);
    }
    bool folder = cli_is_folder(p->source);
    size_t size = folder ? strlen(p->source) : slash ? (size_t)(slash - p->source) + 1 : 0;
    if (size + 2 >= sizeof p->folder) {
        cli_fail("the name of a folder is too long: %.100s...", p->source);
        return false;
    }
    memcpy(p->folder, p->source, size);
    if (folder && p->folder[size - 1] != '/') p->folder[size] = '/';
    if (!folder && !cli_ends_with(p->source, ".json")) {
        cli_fail("%s cannot be drawn; a result.json can, the folder of a fit or an experiment, and "
                 "a table (.csv)",
                 p->source);
        return false;
    }
    if (!folder) return read_result(p, p->source) && read_parts(p);
    if (!make_path(p->folder, "result.json", path, sizeof path)) return false;
    if (!nsi_file_exists(path)) {
        if (!make_path(p->folder, "progress.json", path, sizeof path)) return false;
        bool begun = nsi_file_exists(path);
        cli_fail("%s has no result.json%s", p->source,
                 begun ? ": its fit is still running, or was killed ('neuralsim view' shows it)"
                       : "; is it the folder of a fit or an experiment?");
        return false;
    }
    return read_result(p, path) && read_parts(p);
}

static void unload(plot* p) {
    nsi_figures_free(&p->charts);
    nsi_result_free(&p->answer);
    ns_table_free(&p->table);
    ns_system_free(p->system);
    ns_hybrid_free(p->hybrid);
}

// ---- where they go -----------------------------------------------------------------------------

static int list_all(const plot* p) {
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    for (uint32_t k = 0; k < p->charts.list.count; k++) {
        const ns_figure* chart = &p->charts.list.data[k];
        nsi_text_add(&b, "%-18s ", chart->name);
        nsi_format_add(&b, chart->title);
        nsi_text_add(&b, "\n");
    }
    ns_text text;
    ns_error error;
    if (nsi_text_finish(&b, &text, &error) != NS_OK) return cli_fail("%s", error.message);
    bool written = cli_write_file(NULL, text.data, text.size);
    ns_text_free(&text);
    return written ? cli_finish() : EXIT_FAILED;
}

// The chart that --columns are of; NULL after saying that there is none.
static const ns_figure* choose_table(const plot* p) {
    const ns_figure* chart = nsi_figures_find(&p->charts, "predictions");
    if (!chart) chart = nsi_figures_find(&p->charts, "curves");
    if (!chart) cli_fail("%s: --columns are of predictions, and there are none", p->source);
    return chart;
}

// NULL after saying which there are.
static const ns_figure* choose(const plot* p) {
    if (p->charts.list.count == 0) {
        cli_fail("%s: there is nothing to draw", p->source);
        return NULL;
    }
    if (!p->figure && p->columns.count > 0) return choose_table(p);
    if (!p->figure) return &p->charts.list.data[0];
    const ns_figure* found = nsi_figures_find(&p->charts, p->figure);
    if (found) return found;
    ns_nearest near = {.wanted = p->figure};
    for (uint32_t k = 0; k < p->charts.list.count; k++) {
        ns_nearest_offer(&near, p->charts.list.data[k].name);
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

static bool write_chart(const ns_figure* chart, const char* path) {
    ns_error error;
    ns_text text = {0};
    nsi_drawing figure = {0};
    ns_status status;
    if (cli_ends_with(path, ".csv")) {
        status = ns_figure_csv(chart, NULL, &text, &error);
    } else {
        status = nsi_figure_draw(chart, NULL, &figure, &error);
        if (status == NS_OK) status = nsi_drawing_file(&figure, &text, &error);
    }
    bool done = status == NS_OK && cli_write_file(path, text.data, text.size);
    if (status != NS_OK) cli_fail("%s: %s", chart->name, error.message);
    ns_text_free(&text);
    nsi_drawing_free(&figure);
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
    for (uint32_t k = 0; k < p->charts.list.count; k++) {
        const ns_figure* chart = &p->charts.list.data[k];
        if (only && chart != only) continue;
        int used = snprintf(path, sizeof path, "%s%s%s.svg", p->output, gap, chart->name);
        if (used >= (int)sizeof path) return cli_fail("the name of the folder is too long");
        if (!write_chart(chart, path)) return EXIT_FAILED;
    }
    return EXIT_OK;
}

static int print_chart(const ns_figure* chart) {
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
    if (ns_figure_text(chart, columns, colour, NULL, &text, &error) != NS_OK) {
        return cli_fail("%s", error.message);
    }
    fwrite(text.data, 1, text.size, stdout);
    ns_text_free(&text);
    return cli_finish();
}

static int run(plot* p) {
    bool folder =
        p->output && (p->output[strlen(p->output) - 1] == '/' || cli_is_folder(p->output));
    if (p->output && !folder && !cli_ends_with(p->output, ".svg") &&
        !cli_ends_with(p->output, ".csv")) {
        return cli_usage("plot", "-o needs a name that ends with .svg, .csv or /");
    }
    if (p->output && !folder && cli_same_file(p->output, p->source)) {
        return cli_usage("plot", "-o would replace %s itself", p->source);
    }
    if (!load(p)) return EXIT_FAILED;
    if (p->list) return list_all(p);
    const ns_figure* chart = choose(p);
    if (!chart) return EXIT_FAILED;
    if (folder) return write_all(p, p->figure ? chart : NULL);
    if (p->output) return write_chart(chart, p->output) ? EXIT_OK : EXIT_FAILED;
    return print_chart(chart);
}

int cmd_plot(int argc, char** argv) {
    plot p = {.source = NULL};
    const cli_row rows[] = {{"--figure", CLI_TEXT, &p.figure, "the name of a figure"},
                            {"-o", CLI_TEXT, &p.output, "a file or folder"},
                            {"--columns", CLI_LIST, &p.columns, "names of columns"},
                            {"--fit", CLI_TEXT, &p.fit, "the name of a fit"},
                            {"--list", CLI_FLAG, &p.list, NULL},
                            {0}};
    cli_list arguments = {.count = 0};
    int code = cli_parse("plot", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    if (arguments.count != 1) {
        return cli_usage("plot", "expected one RESULT: a result.json, its folder, or a table");
    }
    p.source = arguments.items[0];
    nsi_figures_init(NULL, &p.charts);
    nsi_result_init(NULL, &p.answer);
    code = run(&p);
    unload(&p);
    return code;
}
