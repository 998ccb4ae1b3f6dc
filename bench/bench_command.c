// neuralsim bench: run the named benchmark cases.

#include "bench/bench.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: neuralsim bench [CASE...] [OPTIONS]\n"
    "\n"
    "Measures the cases whose names start with CASE, or all cases. Times are thread CPU time; ns "
    "is\n"
    "the best sample divided by lanes. For cases with contact, rows is 3 for each possible "
    "contact\n"
    "point; sweeps and solves are means over the steps (- where the solver does not report them).\n"
    "\n"
    "  --list        list the cases\n"
    "  --json        one JSON object a line: name, backend, lanes, ns, ns_median, ns_per_op,\n"
    "                compile_ms, ops, steps, code_bytes, samples, rows, sweeps, solves\n"
    "  --backend B   {backend}\n"
    "  --peers       also time MuJoCo, where it is installed, on the same steps: cases named\n"
    "                .../step but chain100, backend mujoco-VERSION; rows and solves are then its\n"
    "                constraint rows and its solver's iterations, mean over the steps\n"
    "  --quick       fewer, shorter samples\n"
    "\n"
    "example: neuralsim bench mlp175 --backend native\n";

static bool selected(const char* name, const cli_list* wanted) {
    for (uint32_t i = 0; i < wanted->count; i++) {
        if (strncmp(name, wanted->items[i], strlen(wanted->items[i])) == 0) return true;
    }
    return wanted->count == 0;
}

static int list_cases(void) {
    for (int k = 0; k < bench_case_count; k++) {
        printf("%-28s %s\n", bench_cases[k].name, bench_cases[k].what);
    }
    return cli_finish();
}

int cmd_bench(int argc, char** argv) {
    bench_options options = {0};
    bool list = false;
    int backend = NS_BACKEND_AUTO;
    // Options, in the order of the help text.
    const cli_row rows[] = {{"--list", CLI_FLAG, &list, NULL},
                            {"--json", CLI_FLAG, &options.json, NULL},
                            {"--quick", CLI_FLAG, &options.quick, NULL},
                            {"--peers", CLI_FLAG, &options.peers, NULL},
                            {"--backend", CLI_CHOICE, &backend, &ns_backends},
                            {0}};

    // A name on the command line selects all cases that start with it.
    cli_list wanted = {.count = 0};
    int code = cli_parse("bench", help, rows, argc, argv, &wanted);
    if (code != CLI_GO_ON) return code;
    // A single back end can be measured.
    if (backend != NS_BACKEND_AUTO) options.backend = ns_backend_name((ns_backend)backend);
    if (list) return list_cases();

    // Refuse unknown names before anything is measured.
    for (uint32_t i = 0; i < wanted.count; i++) {
        const char* name = wanted.items[i];
        bool found = false;
        for (int k = 0; k < bench_case_count && !found; k++) {
            found = strncmp(bench_cases[k].name, name, strlen(name)) == 0;
        }
        if (!found) {
            return cli_usage("bench", "no case is called '%.100s' (--list prints them)", name);
        }
    }

    // Other simulators are optional: without them only our own rows appear.
    const char* why = NULL;
    if (options.peers && !bench_peers_open(&why)) {
        cli_note("bench --peers: only our own rows: %s", why);
        options.peers = false;
    }

    // Measure case by case; rows appear as they are ready.
    bench_print_header(&options);
    bool ok = true;
    for (int k = 0; k < bench_case_count && ok; k++) {
        if (selected(bench_cases[k].name, &wanted))
            ok = bench_cases[k].run(&bench_cases[k], &options);
    }

    bench_peers_close();
    return ok ? cli_finish() : EXIT_FAILED;
}
