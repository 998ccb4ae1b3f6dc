// neuralsim export: what a fit found, for other programs.

#include "cli.h"
#include <neuralsim/posterior.h>

#include <stdio.h>
#include <stdlib.h>

static const char help[] = "usage: neuralsim export DIR --ranges [--probability P] [-o FILE]\n"
                           "\n"
                           "Write ranges of parameters for domain randomisation, as JSON. DIR is "
                           "the result of a fit with a\n"
                           "posterior (docs/posterior.md). For each parameter: the ends of the "
                           "central interval, mean and\n"
                           "standard deviation, in SI units; correlations of all.\n"
                           "\n"
                           "  --ranges          ranges of parameters; must be given\n"
                           "  --probability P   of the intervals. Default 0.9\n"
                           "  -o FILE           write to a file instead of standard output\n"
                           "\n"
                           "example: neuralsim export /tmp/pendulum --ranges -o ranges.json\n";

int cmd_export(int argc, char** argv) {
    bool ranges = false;
    double probability = 0.9;
    const char* output = NULL;
    const cli_row rows[] = {{"--ranges", CLI_FLAG, &ranges, NULL},
                            {"--probability", CLI_NUMBER, &probability, "a number below 1"},
                            {"-o", CLI_TEXT, &output, "a file"},
                            {0}};
    cli_list arguments = {.count = 0};
    int code = cli_parse("export", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    if (arguments.count != 1) return cli_usage("export", "expected the folder of a fit");
    if (!ranges) return cli_usage("export", "say what to write: --ranges");
    if (!(probability > 0.0 && probability < 1.0)) {
        return cli_usage("export", "--probability must be between 0 and 1");
    }

    // Samples are beside the report of the fit.
    const char* folder = arguments.items[0];
    if (!cli_is_folder(folder)) return cli_fail("%s is not the folder of a fit", folder);
    char* path = malloc(strlen(folder) + sizeof "/samples.csv");
    if (!path) return cli_fail("out of memory");
    sprintf(path, "%s/samples.csv", folder);
    FILE* there = fopen(path, "rb");
    if (there) fclose(there);
    ns_text text = {0};
    ns_error error;
    if (!there) {
        code = cli_fail("%s has no samples.csv; add 'posterior: hmc' to the fit file and fit again",
                        folder);
    } else if (ns_posterior_ranges(path, probability, &text, &error) != NS_OK) {
        code = cli_fail("%s", error.message);
    } else {
        code = cli_write_file(output, text.data, text.size) ? cli_finish() : EXIT_FAILED;
    }
    ns_text_free(&text);
    free(path);
    return code;
}
