// The benchmark harness: warm-up, samples, output. Compare within one run only: machines are noisy.

#include "bench/bench.h"

#include "base/common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const bench_case bench_cases[] = {
    {"mlp175/value", "4-10-10-1 tanh network with 175 weights: value", bench_mlp_value},
    {"mlp175/gradient", "the same: value and gradient of all weights", bench_mlp_gradient},
    {"mlp_quadruped/value", "41-192-192-12 ELU network with 47,436 weights: value",
     bench_mlp_policy},
    {"double_pendulum/step", "one step, no contact", bench_robot_step},
    {"double_pendulum/gradient500", "500 steps, gradient for 4 parameters (whole rollout)",
     bench_pendulum_gradient},
    {"double_pendulum/jacobian",
     "500 steps, Jacobian of all states for 2 parameters (whole rollout)", bench_pendulum_jacobian},
    {"double_pendulum/jacobian_x0", "the same for the initial state, too", bench_pendulum_jacobian},
    {"pendulum5/step", "5 links", bench_robot_step},
    {"pendulum5_ground/step", "5 links lying on the ground, impulses, one step", bench_ground_step},
    {"pendulum5_ground/gradient", "the same, step and reverse sweep, 10 parameters",
     bench_ground_gradient},
    {"quadruped_air/step", "floating base and 12 joints, one step", bench_robot_step},
    {"quadruped_air/gradient", "the same, step and its reverse sweep", bench_robot_gradient},
    {"quadruped_ground/step", "the same standing on four feet, impulses", bench_ground_step},
    {"quadruped_ground/gradient", "the same, step and its reverse sweep", bench_ground_gradient},
    {"quadruped_far/spring", "the same 10 m above the ground, spring contacts, one step",
     bench_far_step},
    {"spheres8_far/none", "8 free spheres far apart, one step", bench_far_step},
    {"spheres8_far/spring", "the same with spring contacts between all", bench_far_step},
    {"scene/stack10/step", "10 boxes in a stack, one step", bench_scene_step},
    {"scene/stack10/gradient", "the same, step and its reverse sweep", bench_scene_gradient},
    {"scene/pyramid21/step", "21 boxes in a pyramid, one step", bench_scene_step},
    {"scene/pyramid21/gradient", "the same, step and its reverse sweep", bench_scene_gradient},
    {"scene/bowl30/step", "30 spheres fallen into a bowl, one step", bench_scene_step},
    {"scene/bowl30/gradient", "the same, step and its reverse sweep", bench_scene_gradient},
    {"scene/pile100/step", "100 boxes fallen on a pile, one step", bench_scene_step},
    {"scene/pile100/gradient", "the same, step and its reverse sweep", bench_scene_gradient},
    {"swimmer2_hybrid/gradient200",
     "swimmer, 1,639-weight network q, qd -> tau, 200 steps, gradient of all weights (whole "
     "rollout)",
     bench_swimmer_gradient},
    {"swimmer2_links/gradient200",
     "the same with a dissipative network of 1,637 weights that both links share",
     bench_swimmer_gradient},
    {"swimmer2_hybrid/jacobian",
     "swimmer, 1,639 weights, 200 steps, Jacobian for them and the initial state (whole rollout)",
     bench_swimmer_jacobian},
    {"quadruped/first_gradient", "from MJCF text to the first gradient (whole)",
     bench_first_gradient},
    {"quadruped/qp", "a decision of the walking A1: gait, MPC with its QP, torques",
     bench_walk_decision},
    {"quadruped/qp_laikago", "the same of Laikago", bench_walk_decision},
    {"quadruped/qp_stand", "the same of A1 with all feet on the ground, 120 variables",
     bench_walk_decision},
    {"quadruped/network", "a decision of the walking A1: gait, network 41-192-192-12, torques",
     bench_walk_decision},
    {"quadruped/walk", "1 ms of the A1 walking, simulation and control", bench_walk_loop},
    {"quadruped/walk_laikago", "the same of Laikago", bench_walk_loop},
    {"quadruped/walk_network", "the same of the A1 with the network", bench_walk_loop},
    {"chain100/step", "100 links in a row, one step", bench_robot_step},
    {"graph1k", "about 1,000 operations of mixed kind", bench_mixed_graph},
    {"graph10k", "about 10,000 operations of mixed kind", bench_mixed_graph},
    {"graph100k", "about 100,000 operations of mixed kind", bench_mixed_graph},
};
const int bench_case_count = sizeof bench_cases / sizeof *bench_cases;

enum { MAX_SAMPLES = 31 };

static int by_value(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

bench_time bench_measure(const bench_options* options, void (*body)(void* context), void* context) {
    const double target = options->quick ? 1e-3 : 4e-3; // seconds per sample
    const int samples = options->quick ? 7 : MAX_SAMPLES;

    // Warm up and find how many calls fill a sample.
    long calls = 1;
    for (;;) {
        double start = nsi_clock_thread_cpu();
        for (long i = 0; i < calls; i++) body(context);
        double elapsed = nsi_clock_thread_cpu() - start;
        if (elapsed >= target || calls > 100000000L) break;
        calls = elapsed > 1e-5 ? (long)ceil((double)calls * 1.1 * target / elapsed) : calls * 8;
    }
    double times[MAX_SAMPLES];
    for (int s = 0; s < samples; s++) {
        double start = nsi_clock_thread_cpu();
        for (long i = 0; i < calls; i++) body(context);
        times[s] = (nsi_clock_thread_cpu() - start) / (double)calls;
    }
    qsort(times, (size_t)samples, sizeof *times, by_value);
    return (bench_time){times[0], times[samples / 2], samples};
}

// A number, or what stands for none.
static const char* number_or(char text[32], bool known, double value, const char* none) {
    if (!known) return none;
    snprintf(text, 32, "%.4g", value);
    return text;
}

void bench_print_header(const bench_options* options) {
    if (options->json) return;
    printf("%-28s %-12s %5s %12s %12s %10s %10s %8s %8s %6s %7s %7s\n", "case", "backend", "lanes",
           "ns", "ns median", "ns per op", "compile ms", "ops", "steps", "rows", "sweeps",
           "solves");
}

void bench_print(const bench_options* options, const bench_row* row) {
    const char* none = options->json ? "null" : "-";
    bench_contact contact = row->contact ? *row->contact : (bench_contact){0};
    bool any = contact.rows > 0;
    char text[4][32];
    const char* rows = number_or(text[0], any, contact.rows, none);
    const char* sweeps = number_or(text[1], any && !isnan(contact.sweeps), contact.sweeps, none);
    const char* solves = number_or(text[2], any && !isnan(contact.solves), contact.solves, none);
    const char* per_op = number_or(text[3], row->ops > 0, row->ns / row->ops, none);
    if (options->json) {
        printf("{\"name\": \"%s\", \"backend\": \"%s\", \"lanes\": %u, \"ns\": %.4g, "
               "\"ns_median\": %.4g, \"ns_per_op\": %s, \"compile_ms\": %.4g, \"ops\": %u, "
               "\"steps\": %u, \"code_bytes\": %zu, \"samples\": %d, \"rows\": %s, "
               "\"sweeps\": %s, \"solves\": %s}\n",
               row->name, row->backend, row->lanes, row->ns, row->ns_median, per_op,
               row->compile_ms, row->ops, row->steps, row->code_bytes, row->samples, rows, sweeps,
               solves);
    } else {
        printf("%-28s %-12s %5u %12.1f %12.1f %10s %10.3f %8u %8u %6s %7s %7s\n", row->name,
               row->backend, row->lanes, row->ns, row->ns_median, per_op, row->compile_ms, row->ops,
               row->steps, rows, sweeps, solves);
    }
    fflush(stdout);
}

// ---- graphs --------------------------------------------------------------------------------

typedef struct program_context {
    const ns_graph* graph;
    ns_program_options options;
    ns_program* program;
    ns_run run;
    ns_status status;
    ns_error error;
} program_context;

static void body_build(void* context) {
    program_context* c = context;
    ns_program_free(c->program);
    c->program = NULL;
    c->status = ns_program_build(c->graph, &c->options, &c->program, &c->error);
}

static void body_run(void* context) {
    const program_context* c = context;
    ns_program_run(c->program, &c->run);
}

static void free_arrays(double** arrays, uint32_t count) {
    for (uint32_t k = 0; arrays && k < count; k++) free(arrays[k]);
    free(arrays);
}

static double** make_arrays(uint32_t count, const ns_graph* graph,
                            uint32_t (*size)(const ns_graph*, uint32_t), ns_rng* rng) {
    double** arrays = calloc((size_t)count + 1, sizeof *arrays);
    for (uint32_t k = 0; arrays && k < count; k++) {
        arrays[k] = calloc(size(graph, k), sizeof **arrays);
        if (!arrays[k]) {
            free_arrays(arrays, count);
            return NULL;
        }
        for (uint32_t i = 0; rng && i < size(graph, k); i++) {
            arrays[k][i] = ns_rng_uniform(rng, -0.7, 0.7);
        }
    }
    return arrays;
}

// One backend and lane count.
static bool measure_program(const char* name, const bench_options* options, program_context* c) {
    // Compile; this time is reported separately.
    const ns_graph* graph = c->graph;
    bench_time build = bench_measure(options, body_build, c);
    // A graph that does not compile is a bug of the case.
    if (c->status != NS_OK) {
        fprintf(stderr, "neuralsim bench: %s: %s\n", name, c->error.message);
        return false;
    }
    ns_program_info info = ns_program_get_info(c->program);
    if (info.backend != c->options.backend) return true; // not on this machine: no row

    // Inputs are random, but the same in every run.
    ns_rng rng = ns_rng_seed(7);
    uint32_t narray = ns_graph_array_count(graph), nsink = ns_graph_sink_count(graph);
    size_t nin = (size_t)info.input_count * info.lanes;
    double* in = malloc((nin + 1) * sizeof *in);
    double* out = malloc(((size_t)info.output_count + 1) * info.lanes * sizeof *out);
    void* work = malloc(ns_program_work_size(c->program));
    // Weights are random, too; gradients start at zero.
    double** arrays = make_arrays(narray, graph, ns_graph_array_size, &rng);
    double** sinks = make_arrays(nsink, graph, ns_graph_sink_size, NULL);
    bool ok = in && out && work && arrays && sinks;

    // Run, and print one row.
    if (ok) {
        // Away from zero, so that no function overflows.
        for (size_t i = 0; i < nin; i++) in[i] = ns_rng_uniform(&rng, 0.5, 1.5);

        c->run = (ns_run){in, out, (const double* const*)arrays, sinks, work};
        bench_time time = bench_measure(options, body_run, c);
        bench_print(options, &(bench_row){.name = name,
                                          .backend = ns_backend_name(info.backend),
                                          .lanes = info.lanes,
                                          .ns = 1e9 * time.best / info.lanes,
                                          .ns_median = 1e9 * time.median / info.lanes,
                                          .compile_ms = 1e3 * build.best,
                                          .ops = ns_graph_op_count(graph),
                                          .steps = info.step_count,
                                          .code_bytes = info.code_size,
                                          .samples = time.samples});
    } else {
        fprintf(stderr, "neuralsim bench: out of memory\n");
    }

    free(in);
    free(out);
    free(work);
    free_arrays(arrays, narray);
    free_arrays(sinks, nsink);
    return ok;
}

bool bench_graph(const char* name, const bench_options* options, const ns_graph* graph) {
    static const ns_program_options forms[] = {
        {NS_BACKEND_NATIVE, 1}, {NS_BACKEND_NATIVE, 4},  {NS_BACKEND_INTERP, 1},
        {NS_BACKEND_INTERP, 4}, {NS_BACKEND_INTERP, 16}, {NS_BACKEND_INTERP, 64},
    };
    bool ok = true;
    for (size_t k = 0; k < sizeof forms / sizeof *forms && ok; k++) {
        const char* backend = ns_backend_name(forms[k].backend);
        if (options->backend && strcmp(options->backend, backend) != 0) continue;
        program_context c = {.graph = graph, .options = forms[k]};
        ok = measure_program(name, options, &c);
        ns_program_free(c.program);
    }
    return ok;
}
