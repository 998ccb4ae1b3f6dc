// Entry point: find the command and run it.

#include "cli.h"

#include <stdio.h>
#include <string.h>

int cmd_plot(int argc, char** argv); // cmd_plot.c

static const struct {
    const char* name;
    int (*run)(int argc, char** argv);
    const char* what;
} commands[] = {
    {"inspect", cmd_inspect, "show how a model file is interpreted"},
    {"quantities", cmd_quantities, "list states, controls and quantities of a model"},
    {"eval", cmd_eval, "compute quantities and their derivatives at given states"},
    {"simulate", cmd_simulate, "compute trajectories"},
    {"data", cmd_data, "check recordings: statistics, and likely mistakes"},
    {"score", cmd_score, "predict recordings and report the error"},
    {"fit", cmd_fit, "fit parameters and networks to recordings"},
    {"discover", cmd_discover, "find what is missing in a model from recordings"},
    {"experiment", cmd_experiment, "run an experiment: its fits, tables and figures"},
    {"export", cmd_export, "write what a fit found for other programs"},
    {"view", cmd_view, "show a page or a fit, also while it runs, in a browser"},
    {"plot", cmd_plot, "draw figures of a fit, an experiment, a table or a network"},
    {"gradcheck", cmd_gradcheck, "check gradients by reverse mode, forward mode and differences"},
    {"graph", cmd_graph, "read, differentiate, evaluate and export an expression graph"},
    {"bench", cmd_bench, "measure speed on this machine"},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_program_help(FILE* file) {
    fprintf(file,
            "neuralsim %s: differentiable simulation with neural augmentation\n\n"
            "usage: neuralsim COMMAND [ARGUMENTS]\n\n",
            ns_version());
    for (int i = 0; i < COMMANDS; i++) {
        fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].what);
    }
    fprintf(file, "\n'neuralsim COMMAND --help' lists options and shows an example.\n");
}

int main(int argc, char** argv) {
    if (argc < 2) {
        print_program_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_program_help(stdout);
        return cli_finish();
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("neuralsim %s\n", ns_version());
        return cli_finish();
    }
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 2, argv + 2);
    }
    ns_nearest nearest = {.wanted = argv[1]};
    for (int i = 0; i < COMMANDS; i++) ns_nearest_offer(&nearest, commands[i].name);
    const char* likely = ns_nearest_likely(&nearest);
    fprintf(stderr, "neuralsim: there is no command '%.100s'; ", argv[1]);
    if (likely) fprintf(stderr, "did you mean '%s'? ", likely);
    fprintf(stderr, "'neuralsim --help' lists all\n");
    return EXIT_USAGE;
}
