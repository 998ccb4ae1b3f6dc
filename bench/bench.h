// Benchmarks: named cases, one row of numbers per backend and lane count.

#ifndef BENCH_H
#define BENCH_H

#include "neuralsim/neuralsim.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct bench_options {
    bool json;           // one JSON object a line
    bool quick;          // fewer and shorter samples
    const char* backend; // only this one of ours; NULL: all
    bool peers;          // also time other simulators, where a case has the same to do
} bench_options;

// The contact problem of a step.
typedef struct bench_contact {
    uint32_t rows;         // 3 for each point that can touch; 0: no contact
    double sweeps, solves; // of the solver, mean over the steps; NAN: not known
} bench_contact;

// One measurement. Times are thread CPU time, best of `samples`; ns is per lane.
typedef struct bench_row {
    const char* name;
    const char* backend;
    uint32_t lanes;
    double ns, ns_median;
    double compile_ms; // graph to program; best
    uint32_t ops;      // operations of the graph
    uint32_t steps;    // executed after lowering and fusing
    size_t code_bytes;
    int samples;
    const bench_contact* contact; // NULL: none
} bench_row;

void bench_print_header(const bench_options* options); // of the table; nothing for JSON
void bench_print(const bench_options* options, const bench_row* row);

// A case measures itself and prints its rows; false after a message on stderr.
typedef struct bench_case {
    const char* name;
    const char* what;
    bool (*run)(const struct bench_case* self, const bench_options* options);
} bench_case;

extern const bench_case bench_cases[];
extern const int bench_case_count;

// Seconds of CPU time of one call: `body` is called in a loop long enough to measure.
typedef struct bench_time {
    double best, median;
    int samples;
} bench_time;
bench_time bench_measure(const bench_options* options, void (*body)(void* context), void* context);

// Measure a graph as a program on every backend and lane count, and print the rows.
bool bench_graph(const char* name, const bench_options* options, const ns_graph* graph);

// ---- other simulators: peers.c -----------------------------------------------------------------

// Load them. False when there is none, with the reason, which may be kept.
bool bench_peers_open(const char** why);
void bench_peers_close(void);

// What is measured: `steps` steps of the robot of an MJCF text from a state, again and again.
typedef struct bench_peer_task {
    const char* name; // of the case
    const char* text;
    size_t size;
    uint32_t nq, nv;
    const double* state; // q (nq), qd (nv)
    uint32_t steps;
} bench_peer_task;

// A row for each simulator that bench_peers_open() found; false after a message on stderr.
bool bench_peers_step(const bench_options* options, const bench_peer_task* task);

// Cases, by file.
bool bench_mlp_value(const bench_case* self, const bench_options* options);
bool bench_mlp_gradient(const bench_case* self, const bench_options* options);
bool bench_mlp_policy(const bench_case* self, const bench_options* options);
bool bench_mixed_graph(const bench_case* self, const bench_options* options);
bool bench_robot_step(const bench_case* self, const bench_options* options);
bool bench_robot_gradient(const bench_case* self, const bench_options* options);
bool bench_ground_step(const bench_case* self, const bench_options* options);
bool bench_ground_gradient(const bench_case* self, const bench_options* options);
bool bench_scene_step(const bench_case* self, const bench_options* options);
bool bench_scene_gradient(const bench_case* self, const bench_options* options);
bool bench_far_step(const bench_case* self, const bench_options* options);
bool bench_pendulum_gradient(const bench_case* self, const bench_options* options);
bool bench_swimmer_gradient(const bench_case* self, const bench_options* options);
bool bench_pendulum_jacobian(const bench_case* self, const bench_options* options);
bool bench_swimmer_jacobian(const bench_case* self, const bench_options* options);
bool bench_first_gradient(const bench_case* self, const bench_options* options);
bool bench_walk_decision(const bench_case* self, const bench_options* options);
bool bench_walk_loop(const bench_case* self, const bench_options* options);

#endif
