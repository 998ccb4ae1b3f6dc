// neuralsim graph: print, differentiate, evaluate and export an expression graph.

#include "cli.h"

#include <neuralsim/neuralsim.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: neuralsim graph FILE [OPTIONS]\n"
    "\n"
    "Reads an expression graph (the text form of docs/design.md; - is standard input),\n"
    "validates it and prints its inputs, outputs and size.\n"
    "\n"
    "  --derive MODE     replace the graph by its derivative: jvp (forward) or vjp (reverse);\n"
    "                    repeat it for higher derivatives\n"
    "  --dump PASS       print the graph: built (as read or derived), lowered (elementary\n"
    "                    functions expanded), fused (with multiply-adds: what is executed)\n"
    "  --eval NAME=X,... evaluate with these inputs; the others are 0\n"
    "  --backend B       for --eval: {backend}\n"
    "  --emit-c NAME     print standalone C that defines the function NAME\n"
    "  -o FILE           write the output of --dump or --emit-c to FILE\n"
    "\n"
    "example: the gradient of a pendulum's acceleration at 0.5 rad\n"
    "  neuralsim graph examples/pendulum.graph --derive vjp --eval "
    "q=0.5,qd=1,length=1,seed:qdd=1\n";

typedef struct graph_command {
    const char* file;
    const char* dump;
    const char* eval;
    const char* emit;
    const char* output;
    cli_list derive; // "jvp", "vjp", in order
    ns_backend backend;
    ns_graph* graph;
} graph_command;

// Replace the graph by its derivative.
static int derive(graph_command* c, const char* mode) {
    ns_error error;
    ns_graph* graph = NULL;
    ns_status status = strcmp(mode, "jvp") == 0 ? ns_graph_jvp(c->graph, NULL, &graph, &error)
                                                : ns_graph_vjp(c->graph, NULL, &graph, &error);
    if (status != NS_OK) return cli_fail("%s", error.message);
    ns_graph_free(c->graph);
    c->graph = graph;
    return EXIT_OK;
}

static int print_text(const graph_command* c, ns_status status, ns_text* text,
                      const ns_error* error) {
    if (status != NS_OK) return cli_fail("%s", error->message);
    bool written = cli_write_file(c->output, text->data, text->size);
    ns_text_free(text);
    return written ? EXIT_OK : EXIT_FAILED;
}

static int dump(const graph_command* c) {
    ns_error error;
    ns_text text = {0};
    ns_graph* lowered = NULL;
    ns_status status = NS_OK;
    if (strcmp(c->dump, "built") != 0) {
        status = ns_graph_lower(c->graph, strcmp(c->dump, "fused") == 0, &lowered, &error);
    }
    if (status == NS_OK) status = ns_graph_print(lowered ? lowered : c->graph, &text, &error);
    ns_graph_free(lowered);
    return print_text(c, status, &text, &error);
}

// Names come from files: what is not printable must not reach the terminal.
static void print_name(FILE* file, const char* name) {
    for (; *name; name++) fputc(*name >= 0x20 && *name < 0x7f ? *name : '?', file);
}

static void print_port(const char* kind, const char* name, uint32_t size) {
    printf("%-8s", kind);
    print_name(stdout, name);
    if (size > 0) printf(" [%u]", size);
    printf("\n");
}

// ---- evaluation ----------------------------------------------------------------------------

// "name=value,name=value" into `in`; names may hold '=' and ',' only as far as they are
// unambiguous.
static int graph_read_inputs(const graph_command* c, double* in) {
    // Names may contain separators, so a plain split would not do.
    const char* p = c->eval;
    uint32_t count = ns_graph_input_count(c->graph);

    while (*p) {
        // Find the input; the longest match wins, since one name may begin another.
        uint32_t found = count;
        size_t length = 0;
        for (uint32_t i = 0; i < count; i++) {
            const char* name = ns_graph_input_name(c->graph, i);
            size_t n = strlen(name);
            // An exact match ends in an equals sign.
            if (strncmp(p, name, n) == 0 && p[n] == '=' && n >= length) {
                found = i;
                length = n;
            }
        }

        // Unknown input: list the first 30, since models have many.
        if (found == count) {
            int shown = (int)strcspn(p, "=,");
            fprintf(stderr, "neuralsim graph: --eval: there is no input '%.*s'; there are:", shown,
                    p);
            for (uint32_t i = 0; i < count && i < 30; i++) {
                fputc(' ', stderr);
                // Names may contain characters that need quotes.
                print_name(stderr, ns_graph_input_name(c->graph, i));
            }
            fprintf(stderr, "\n");
            return EXIT_USAGE;
        }

        // Read its value, up to the next comma; underflow to 0 is accepted.
        const char* number = p + length + 1;
        char* end;
        errno = 0;
        in[found] = strtod(number, &end);
        bool overflows = errno == ERANGE && (in[found] > 1.0 || in[found] < -1.0);
        // Trailing characters are an error.
        if (end == number || overflows || (*end != ',' && *end != '\0')) {
            return cli_usage("graph", "--eval: '%.40s' is not a number for %s", number,
                             ns_graph_input_name(c->graph, found));
        }

        p = *end == ',' ? end + 1 : end;
    }
    return EXIT_OK;
}

static int evaluate_graph(const graph_command* c) {
    // Only scalar inputs can be given on the command line.
    if (ns_graph_array_count(c->graph) + ns_graph_sink_count(c->graph) > 0) {
        return cli_fail("--eval cannot set arrays, and %s has some", c->file);
    }

    // Compile for the chosen back end.
    ns_error error;
    ns_program* program = NULL;
    ns_program_options options = ns_default_program_options();
    options.backend = c->backend;
    if (ns_program_build(c->graph, &options, &program, &error) != NS_OK) {
        return cli_fail("%s", error.message);
    }
    ns_program_info info = ns_program_get_info(program);
    // Say so if native code is not available.
    if (info.note[0]) fprintf(stderr, "neuralsim graph: %s; interpreting\n", info.note);

    // Inputs that are not given are 0.
    double* in = calloc((size_t)info.input_count + 1, sizeof *in);
    double* out = calloc((size_t)info.output_count + 1, sizeof *out);
    void* work = malloc(ns_program_work_size(program));
    int code = in && out && work ? graph_read_inputs(c, in) : cli_fail("out of memory");
    // Run once, and print every output in full precision.
    if (code == EXIT_OK && in && out && work) {
        ns_program_run(program, &(ns_run){.in = in, .out = out, .work = work});
        for (uint32_t k = 0; k < info.output_count; k++) {
            print_name(stdout, ns_graph_output_name(c->graph, k));
            printf(" = %.17g\n", out[k]);
        }
    }

    free(in);
    free(out);
    free(work);
    ns_program_free(program);
    return code;
}

static int summarize(const graph_command* c) {
    const ns_graph* g = c->graph;
    ns_error error;
    ns_program* program = NULL;
    if (ns_program_build(g, NULL, &program, &error) != NS_OK) return cli_fail("%s", error.message);
    ns_program_info info = ns_program_get_info(program);
    for (uint32_t i = 0; i < info.input_count; i++) {
        print_port("input", ns_graph_input_name(g, i), 0);
    }
    for (uint32_t i = 0; i < ns_graph_array_count(g); i++) {
        print_port("array", ns_graph_array_name(g, i), ns_graph_array_size(g, i));
    }
    for (uint32_t i = 0; i < info.output_count; i++) {
        print_port("output", ns_graph_output_name(g, i), 0);
    }
    for (uint32_t i = 0; i < ns_graph_sink_count(g); i++) {
        print_port("sink", ns_graph_sink_name(g, i), ns_graph_sink_size(g, i));
    }
    printf("%u operations; %u steps executed after lowering and fusing", ns_graph_op_count(g),
           info.step_count);
    if (info.code_size > 0) printf("; %zu bytes of machine code", info.code_size);
    printf(", made in %.2f ms\n", 1e3 * info.build_seconds);
    ns_program_free(program);
    return EXIT_OK;
}

// ---- command line --------------------------------------------------------------------------

static int parse_arguments(int argc, char** argv, graph_command* c) {
    // Passes that can be printed, in their order.
    static const ns_choice pass_rows[] = {{0, "built", "as read or derived"},
                                          {1, "lowered", "elementary operations only"},
                                          {2, "fused", "with fused multiply-add"}};
    static const ns_choices passes = NS_CHOICES("pass", pass_rows);

    // Options, in the order of the help text.
    int backend = NS_BACKEND_AUTO, pass = -1;
    const cli_row rows[] = {{"--derive", CLI_EACH, &c->derive, "jvp or vjp"},
                            {"--dump", CLI_CHOICE, &pass, &passes},
                            {"--eval", CLI_TEXT, &c->eval, "NAME=X,..."},
                            {"--backend", CLI_CHOICE, &backend, &ns_backends},
                            {"--emit-c", CLI_TEXT, &c->emit, "a function name"},
                            {"-o", CLI_TEXT, &c->output, "a file"},
                            {0}};

    // Parse the arguments.
    cli_list files = {.count = 0};
    int code = cli_parse("graph", help, rows, argc, argv, &files);
    if (code != CLI_GO_ON) return code;

    // Derivatives may be repeated, so their values are checked one by one.
    for (uint32_t k = 0; k < c->derive.count; k++) {
        const char* mode = c->derive.items[k];
        if (strcmp(mode, "jvp") != 0 && strcmp(mode, "vjp") != 0) {
            return cli_usage("graph", "--derive needs jvp or vjp, not '%.100s'", mode);
        }
    }
    // Without --dump, nothing is printed.
    c->backend = (ns_backend)backend;
    if (pass >= 0) c->dump = ns_choice_name(&passes, pass);

    // One graph, and one kind of output if it goes into a file.
    if (files.count == 0) return cli_usage("graph", "no FILE given");
    if (files.count > 1) {
        return cli_usage("graph", "one FILE at a time, not also '%.100s'", files.items[1]);
    }
    c->file = files.items[0];
    // Two texts in one file could not be told apart.
    if (c->output && !c->dump == !c->emit) {
        return cli_usage("graph", "-o needs exactly one of --dump and --emit-c");
    }
    return CLI_GO_ON;
}

static int run_graph_command(graph_command* c) {
    size_t size = 0;
    char* text = cli_read_file(c->file, &size);
    if (!text) return EXIT_FAILED;
    ns_error error;
    ns_status status = ns_graph_parse(text, size, c->file, NULL, &c->graph, &error);
    free(text);
    if (status != NS_OK) return cli_fail("%s", error.message);

    int code = EXIT_OK;
    for (uint32_t k = 0; k < c->derive.count && code == EXIT_OK; k++) {
        code = derive(c, c->derive.items[k]);
    }
    if (code == EXIT_OK && c->dump) code = dump(c);
    if (code == EXIT_OK && c->emit) {
        ns_text emitted = {0};
        status = ns_graph_emit_c(c->graph, c->emit, &emitted, &error);
        code = print_text(c, status, &emitted, &error);
    }
    if (code == EXIT_OK && c->eval) code = evaluate_graph(c);
    if (code == EXIT_OK && !c->dump && !c->emit && !c->eval) code = summarize(c);
    ns_graph_free(c->graph);
    return code == EXIT_OK ? cli_finish() : code;
}

int cmd_graph(int argc, char** argv) {
    graph_command c = {0};
    int code = parse_arguments(argc, argv, &c);
    return code == CLI_GO_ON ? run_graph_command(&c) : code;
}
