// Any bytes as the text of a graph. What parses must be valid, must come back the same after
// printing and reading again, must be differentiable in both modes, and must run.

#include "expr/block.h"
#include "neuralsim/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MAX_DIFF_NODES =
        200, // larger graphs are not differentiated: the time is better spent elsewhere
    MAX_RUN_NODES = 2000,  // nor run
    MAX_DOUBLES = 1000000, // in all arrays and the work memory of a run
};

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static ns_graph* parse(const char* text, size_t size) {
    ns_graph* g = NULL;
    ns_error error = {0};
    ns_status status = ns_graph_parse(text, size, "fuzz", NULL, &g, &error);
    REQUIRE((status == NS_OK) == (g != NULL));
    REQUIRE(status == error.status); // an error has its message, and only an error
    return g;
}

static void check_round_trip(const ns_graph* g) {
    ns_text first, second;
    REQUIRE(nsi_graph_validate(g, NULL) == NS_OK);
    REQUIRE(ns_graph_print(g, &first, NULL) == NS_OK);
    ns_graph* copy = parse(first.data, first.size);
    REQUIRE(copy && nsi_graph_validate(copy, NULL) == NS_OK);
    REQUIRE(ns_graph_print(copy, &second, NULL) == NS_OK);
    if (first.size != second.size || memcmp(first.data, second.data, first.size) != 0) {
        fprintf(stderr, "%s---- reads back as\n%s", first.data, second.data);
        abort();
    }
    ns_text_free(&first);
    ns_text_free(&second);
    ns_graph_free(copy);
}

// NULL when a name with its new prefix is too long.
static ns_graph* derivative(const ns_graph* g, bool reverse) {
    ns_graph* out = NULL;
    ns_error error = {0};
    ns_status status =
        reverse ? ns_graph_vjp(g, NULL, &out, &error) : ns_graph_jvp(g, NULL, &out, &error);
    REQUIRE(status == NS_OK || status == NS_ERR_LIMIT);
    REQUIRE((status == NS_OK) == (out != NULL));
    REQUIRE(status == error.status);
    return out;
}

static void check_derivatives(const ns_graph* g) {
    for (int reverse = 0; reverse < 2; reverse++) {
        ns_graph* d = derivative(g, reverse);
        if (d) check_round_trip(d);
        ns_graph_free(d);
    }
}

// The passes before a program is made; their results can be dumped and read back as well.
static void check_lowered(const ns_graph* g) {
    for (int fuse = 0; fuse < 2; fuse++) {
        ns_graph* lowered = NULL;
        REQUIRE(ns_graph_lower(g, fuse, &lowered, NULL) == NS_OK);
        check_round_trip(lowered);
        ns_graph_free(lowered);
    }
}

// Memory for every array of the list, with numbers in it.
static double** create_arrays(const nsi_arrays* list) {
    double** arrays = calloc(list->count + 1, sizeof *arrays);
    REQUIRE(arrays);
    for (uint32_t k = 0; k < list->count; k++) {
        arrays[k] = malloc(list->data[k].size * sizeof **arrays);
        REQUIRE(arrays[k]);
        for (uint32_t i = 0; i < list->data[k].size; i++) arrays[k][i] = 0.25 * (i % 7) - 0.5;
    }
    return arrays;
}

static void free_arrays(double** arrays, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) free(arrays[k]);
    free(arrays);
}

static uint64_t total_size(const nsi_arrays* list) {
    uint64_t total = 0;
    for (uint32_t k = 0; k < list->count; k++) total += list->data[k].size;
    return total;
}

// One run; out has room for all outputs. False when it would take too much memory.
static bool run(const ns_graph* g, ns_backend backend, double x, double* out) {
    ns_program_options options = ns_default_program_options();
    options.backend = backend;
    ns_program* program = NULL;
    REQUIRE(ns_program_build(g, &options, &program, NULL) == NS_OK);
    size_t work_size = ns_program_work_size(program);
    bool small =
        work_size / sizeof(double) + total_size(&g->arrays) + total_size(&g->sinks) <= MAX_DOUBLES;
    if (small) {
        double** arrays = create_arrays(&g->arrays);
        double** sinks = create_arrays(&g->sinks);
        double* in = malloc((g->inputs.count + 1) * sizeof *in);
        void* work = malloc(work_size);
        REQUIRE(in && work);
        for (uint32_t k = 0; k < g->inputs.count; k++) in[k] = x * (k + 1);
        ns_run memory = {.in = in,
                         .out = out,
                         .arrays = (const double* const*)arrays,
                         .sinks = sinks,
                         .work = work};
        ns_program_run(program, &memory);
        free(in);
        free(work);
        free_arrays(arrays, g->arrays.count);
        free_arrays(sinks, g->sinks.count);
    }
    ns_program_free(program);
    return small;
}

static bool same_number(double p, double q) {
    return memcmp(&p, &q, sizeof p) == 0 || (isnan(p) && isnan(q));
}

// Run with inputs zero and not; all backends give the same bits.
static void check_run(const ns_graph* g) {
    double* interp = malloc((g->outputs.count + 1) * sizeof *interp);
    double* best = malloc((g->outputs.count + 1) * sizeof *best);
    REQUIRE(interp && best);
    static const double points[] = {0.0, 0.7, -300.0};
    for (int k = 0; k < 3; k++) {
        double x = points[k];
        if (!run(g, NS_BACKEND_INTERP, x, interp) || !run(g, NS_BACKEND_AUTO, x, best)) break;
        for (uint32_t i = 0; i < g->outputs.count; i++) REQUIRE(same_number(interp[i], best[i]));
    }
    free(interp);
    free(best);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    ns_graph* g = parse((const char*)data, size);
    if (!g) return 0;
    check_round_trip(g);
    if (g->nodes.count < MAX_DIFF_NODES) check_derivatives(g);
    if (g->nodes.count < MAX_RUN_NODES) {
        check_lowered(g);
        check_run(g);
    }
    ns_graph_free(g);
    return 0;
}

// ---- mutation ------------------------------------------------------------------------------

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// A random "%number" of the text: its start and length; length 0 when it has none.
static size_t pick_node(ns_rng* rng, const char* text, size_t size, size_t* start) {
    uint32_t seen = 0;
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '%') continue;
        size_t n = 1;
        while (i + n < size && n < 11 && text[i + n] >= '0' && text[i + n] <= '9') n++;
        if (n > 1 && ns_rng_below(rng, ++seen) == 0) *start = i, length = n;
    }
    return length;
}

// Append "%<new> = <op> <nodes there are>" and an output for it; 0 when it does not fit.
static size_t append_operation(ns_rng* rng, char* text, size_t size, size_t max_size) {
    nsi_op op = (nsi_op)ns_rng_below(rng, NSI_OP_COUNT);
    uint32_t id = ns_rng_below(rng, INT32_MAX);
    char line[128];
    int used = snprintf(line, sizeof line, "\n%%%u = %s", id, nsi_ops[op].name);
    for (uint32_t k = 0; k < nsi_ops[op].arity; k++) {
        size_t start = 0, length = pick_node(rng, text, size, &start);
        used +=
            snprintf(line + used, sizeof line - (size_t)used, " %.*s", (int)length, text + start);
    }
    used += snprintf(line + used, sizeof line - (size_t)used, "\noutput \"y%u\" %%%u\n", id, id);
    if (size + (size_t)used > max_size) return 0;
    memcpy(text + size, line, (size_t)used);
    return size + (size_t)used;
}

// Let one "%number" be another; 0 when that is not possible.
static size_t swap_operand(ns_rng* rng, char* text, size_t size, size_t max_size) {
    size_t from = 0, to = 0, nfrom = pick_node(rng, text, size, &from);
    size_t nto = pick_node(rng, text, size, &to);
    if (nfrom == 0 || nto == 0 || size - nto + nfrom > max_size) return 0;
    char node[16];
    memcpy(node, text + from, nfrom);
    memmove(text + to + nfrom, text + to + nto, size - to - nto);
    memcpy(text + to, node, nfrom);
    return size - nto + nfrom;
}

// Bytes changed blindly seldom make a graph: half of the time, change it as a graph.
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
    ns_rng rng = ns_rng_seed(seed);
    size_t changed = 0;
    switch (ns_rng_below(&rng, 4)) {
    case 0: changed = append_operation(&rng, (char*)data, size, max_size); break;
    case 1: changed = swap_operand(&rng, (char*)data, size, max_size); break;
    default: break;
    }
    return changed ? changed : LLVMFuzzerMutate(data, size, max_size);
}
