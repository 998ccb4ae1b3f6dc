// neuralsim experiment: what a paper shows, run as a whole from one file.

#define _POSIX_C_SOURCE 200809L

#include "cli.h"
#include "experiment.h"
#include "io/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: neuralsim experiment NAME [--quick] [-o DIR] [--json] [--threads N]\n"
    "       neuralsim experiment [--list]\n"
    "\n"
    "Run an experiment: its fits one after the other, or one fit from every cell of a grid, with "
    "a\n"
    "table at the end. Without NAME those there are are listed: folders with an\n"
    "study.yaml (docs/experiments.md) in ./experiments, or where the program was built.\n"
    "\n"
    "  --quick        a part of it, in seconds\n"
    "  -o DIR         where results go: report.html, result.json, fitted.yaml (a model that every\n"
    "                 command takes) and the parts. Default: NAME_experiment,\n"
    "                 NAME_experiment_quick\n"
    "  --json         print the results as JSON instead of tables\n"
    "  --threads N    default: one per core. Results do not depend on it\n"
    "  --list         list the experiments\n"
    "\n"
    "Recordings are searched in the experiment's folder and below $NEURALSIM_DATA.\n"
    "\n"
    "example: neuralsim experiment basin_hopping --quick -o /tmp/basin_hopping\n";

static const char* const places[] = {"experiments", NEURALSIM_EXPERIMENTS};
enum { PLACES = sizeof places / sizeof *places };

// ---- which there are -----------------------------------------------------------------------

typedef NSI_ARRAY(char*) names;

static void free_names(names* list) {
    for (uint32_t k = 0; k < list->count; k++) free(list->data[k]);
    nsi_array_free(NULL, list);
}

// "<place>/<name>/study.yaml" to be freed, or NULL when there is none.
static char* find_in(const char* place, const char* name) {
    size_t size = strlen(place) + strlen(name) + sizeof "//study.yaml";
    char* path = malloc(size);
    if (!path) return NULL;
    snprintf(path, size, "%s/%s/study.yaml", place, name);
    if (nsi_file_exists(path)) return path;
    free(path);
    return NULL;
}

static char* find_experiment(const char* name) {
    char* path = NULL;
    if (*name == '\0' || strchr(name, '/')) return NULL;
    for (int k = 0; k < PLACES && !path; k++) path = find_in(places[k], name);
    return path;
}

static bool is_listed(const names* list, const char* name) {
    for (uint32_t k = 0; k < list->count; k++) {
        if (strcmp(list->data[k], name) == 0) return true;
    }
    return false;
}

static int compare_names(const void* a, const void* b) {
    return strcmp(*(char* const*)a, *(char* const*)b);
}

// Names of all experiments, in order; false when out of memory.
static bool list_names(names* list) {
    bool ok = true;
    for (int k = 0; k < PLACES; k++) {
        DIR* folder = opendir(places[k]);
        for (struct dirent* d; folder && ok && (d = readdir(folder));) {
            char* file = d->d_name[0] == '.' ? NULL : find_in(places[k], d->d_name);
            if (file && !is_listed(list, d->d_name)) {
                char* copy = strdup(d->d_name);
                ok = copy && nsi_array_push(NULL, list, copy);
                if (!ok) free(copy);
            }
            free(file);
        }
        if (folder) closedir(folder);
    }
    if (list->count > 0) qsort(list->data, list->count, sizeof *list->data, compare_names);
    return ok;
}

static int print_list(void) {
    names list = {0};
    int code = EXIT_OK;
    if (!list_names(&list)) code = cli_fail("out of memory");
    if (code == EXIT_OK && list.count == 0) {
        code = cli_fail("there are no experiments in ./%s or %s", places[0], places[1]);
    }
    for (uint32_t k = 0; k < list.count && code == EXIT_OK; k++) {
        char* path = find_experiment(list.data[k]);
        nsi_yaml yaml = {0};
        const char* title = "(study.yaml cannot be read)";
        if (path && nsi_yaml_read(path, NULL, &yaml, NULL) == NS_OK) {
            const nsi_yaml_node* node =
                yaml.root->type == NSI_YAML_MAP ? nsi_yaml_find(yaml.root, "title") : NULL;
            title = node && node->type == NSI_YAML_SCALAR ? node->text : "";
        }
        printf("%-18s %s\n", list.data[k], title);
        nsi_yaml_free(&yaml);
        free(path);
    }
    free_names(&list);
    return code == EXIT_OK ? cli_finish() : code;
}

static int fail_unknown(const char* name) {
    names list = {0};
    ns_nearest near = {.wanted = name};
    list_names(&list);
    for (uint32_t k = 0; k < list.count; k++) ns_nearest_offer(&near, list.data[k]);
    const char* likely = ns_nearest_likely(&near);
    int code =
        cli_fail("there is no experiment '%.100s'; %s%s%s'neuralsim experiment' lists all", name,
                 likely ? "did you mean '" : "", likely ? likely : "", likely ? "'? " : "");
    free_names(&list);
    return code;
}

// ---- running one -----------------------------------------------------------------------------

static int run(experiment* e, const char* path) {
    static const ns_choice kind_rows[] = {{0, "fits", "fits to recordings"},
                                          {1, "grid", "errors over a grid"}};
    static const ns_choices kinds = NS_CHOICES("kind of experiment", kind_rows);
    int kind = -1;
    e->status = nsi_yaml_read(path, NULL, &e->yaml, &e->error);
    const nsi_yaml_node* root = e->yaml.root;
    if (e->status == NS_OK && root->type != NSI_YAML_MAP) {
        experiment_fault(e, root, "expected keys: kind, title");
    }
    if (e->status == NS_OK) {
        e->status =
            nsi_yaml_choice(&e->yaml, nsi_yaml_find(root, "kind"), &kinds, &kind, &e->error);
        if (kind < 0) experiment_fault(e, root, "`kind` is missing: fits or grid");
    }
    nsi_schema_reader r = {.yaml = &e->yaml, .arena = &e->yaml.arena, .error = &e->error};
    if (e->status == NS_OK) e->status = nsi_schema_read_known(&r, &study_schema, root, e);
    int code = experiment_complain(e);
    if (code != EXIT_OK) return code;
    int (*const run_kind[])(experiment*) = {experiment_run_fits, experiment_run_grid};
    return run_kind[kind](e);
}

int cmd_experiment(int argc, char** argv) {
    experiment e = {.began = nsi_clock_wall()};
    bool list = false;
    const cli_row rows[] = {{"--quick", CLI_FLAG, &e.quick, NULL},
                            {"-o", CLI_TEXT, &e.output, "a folder"},
                            {"--json", CLI_FLAG, &e.json, NULL},
                            {"--threads", CLI_COUNT, &e.threads, "a whole number of threads"},
                            {"--list", CLI_FLAG, &list, NULL},
                            {0}};
    cli_list arguments = {.count = 0};
    int code = cli_parse("experiment", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    if (arguments.count > 1) return cli_usage("experiment", "expected one name of an experiment");
    if (list || arguments.count == 0) return print_list();
    e.name = arguments.items[0];
    char* path = find_experiment(e.name);
    if (!path) return fail_unknown(e.name);
    char* folder = nsi_file_folder(path, NULL);
    char* output = malloc(strlen(e.name) + sizeof "_experiment_quick");
    if (folder && output) {
        sprintf(output, "%s_experiment%s", e.name, e.quick ? "_quick" : "");
        e.folder = folder;
        if (!e.output) e.output = output;
        code = run(&e, path);
    } else {
        code = cli_fail("out of memory");
    }
    nsi_yaml_free(&e.yaml);
    nsi_free(NULL, folder);
    free(output);
    free(path);
    return code;
}
