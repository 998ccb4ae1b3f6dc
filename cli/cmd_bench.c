// neuralsim bench: run the named benchmark cases.

#include "bench/bench.h"
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: neuralsim bench [CASE...] [OPTIONS]\n"
    "\n"
    "Measures named cases on this machine; a CASE is a name or the beginning of names. All of "
    "them\n"
    "without one. Times are thread CPU time: ns is the best of the samples, divided by lanes.\n"
    "\n"
    "  --list        name the cases\n"
    "  --json        one JSON object a line: name, backend, lanes, ns, ns_median, ns_per_op,\n"
    "                compile_ms, ops, steps, code_bytes, samples\n"
    "  --backend B   only interp or native\n"
    "  --quick       fewer, shorter samples\n"
    "\n"
    "example: neuralsim bench mlp175 --backend native\n";

static bool selected(const char* name, int argc, char** argv) {
    bool any = false;
    for (int i = 0; i < argc; i++) {
        if (!argv[i]) continue;
        any = true;
        if (strncmp(name, argv[i], strlen(argv[i])) == 0) return true;
    }
    return !any;
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
    for (int i = 0; i < argc && argv[i]; i++) {
        int at = i;
        if (strcmp(argv[i], "--help") == 0) {
            fputs(help, stdout);
            return cli_finish();
        } else if (strcmp(argv[i], "--list") == 0) {
            list = true;
        } else if (strcmp(argv[i], "--json") == 0) {
            options.json = true;
        } else if (strcmp(argv[i], "--quick") == 0) {
            options.quick = true;
        } else if (cli_option(argc, argv, &i, "--backend", &options.backend)) {
            const char* b = options.backend;
            if (!b || (strcmp(b, "interp") != 0 && strcmp(b, "native") != 0)) {
                return cli_usage("bench", "--backend takes interp or native");
            }
        } else if (argv[i][0] == '-') {
            return cli_usage("bench", "unknown option '%s'", argv[i]);
        } else {
            continue; // a case, looked up below
        }
        for (int k = at; k <= i; k++) argv[k] = NULL;
    }
    if (list) return list_cases();

    for (int i = 0; i < argc; i++) {
        bool found = !argv[i];
        for (int k = 0; k < bench_case_count && !found; k++) {
            found = strncmp(bench_cases[k].name, argv[i], strlen(argv[i])) == 0;
        }
        if (!found)
            return cli_usage("bench", "no case is called '%s' (--list names them)", argv[i]);
    }
    if (!options.json) {
        printf("%-28s %-8s %5s %12s %12s %10s %10s %8s %8s\n", "case", "backend", "lanes", "ns",
               "ns median", "ns per op", "compile ms", "ops", "steps");
    }
    for (int k = 0; k < bench_case_count; k++) {
        if (!selected(bench_cases[k].name, argc, argv)) continue;
        if (!bench_cases[k].run(&bench_cases[k], &options)) return EXIT_FAILED;
    }
    return cli_finish();
}
