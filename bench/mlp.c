// Networks on their own: the 175-weight network of the reference measurements (design, section 6),
// 4-10-10-1 with tanh, biases on every layer and on the inputs: 4 + 5*10 + 11*10 + 11*1 = 175; and
// one of the size of policies that walk quadrupeds, 41-192-192-12 with ELU.

#include "bench/bench.h"

#include <stdio.h>

enum { NIN = 4, HIDDEN = 10, WEIGHTS = 175 };

static ns_status mlp_trace(ns_graph** out, ns_error* error) {
    ns_status status = ns_graph_create(NULL, out, error);
    if (status == NS_OK) status = ns_trace_begin(*out, error);
    if (status != NS_OK) return status;
    ns_array w = ns_input_array("w", WEIGHTS, false);
    uint32_t first = ns_dense_size(NIN, HIDDEN), second = ns_dense_size(HIDDEN, HIDDEN);
    ns_expr x[NIN], bias[NIN], h1[HIDDEN], h2[HIDDEN], y;
    ns_array_elements(ns_array_slice(w, 0, NIN), bias);
    for (int i = 0; i < NIN; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        x[i] = ns_add(ns_input(name), bias[i]);
    }
    ns_dense_layer(ns_array_slice(w, NIN, first), NIN, x, HIDDEN, NS_TANH, h1);
    ns_dense_layer(ns_array_slice(w, NIN + first, second), HIDDEN, h1, HIDDEN, NS_TANH, h2);
    ns_dense_layer(ns_array_slice(w, NIN + first + second, HIDDEN + 1), HIDDEN, h2, 1, NS_IDENTITY,
                   &y);
    ns_output("y", y);
    return ns_trace_end(error);
}

static bool mlp_run(const bench_case* self, const bench_options* options, bool gradient) {
    ns_graph *network = NULL, *derivative = NULL;
    ns_error error;
    ns_status status = mlp_trace(&network, &error);
    if (status == NS_OK && gradient) {
        // For the weights alone, as in training.
        ns_diff_options diff = ns_default_diff_options();
        diff.skip_inputs = true;
        status = ns_graph_vjp(network, &diff, &derivative, &error);
    }
    if (status != NS_OK) fprintf(stderr, "neuralsim bench: %s\n", error.message);
    bool ok = status == NS_OK && bench_graph(self->name, options, gradient ? derivative : network);
    ns_graph_free(network);
    ns_graph_free(derivative);
    return ok;
}

bool bench_mlp_value(const bench_case* self, const bench_options* options) {
    return mlp_run(self, options, false);
}

bool bench_mlp_gradient(const bench_case* self, const bench_options* options) {
    return mlp_run(self, options, true);
}

// ---- the policy ----------------------------------------------------------------------------

enum { OBSERVATIONS = 41, WIDTH = 192, ACTIONS = 12 };

static ns_status trace_policy(ns_graph** out, ns_error* error) {
    ns_status status = ns_graph_create(NULL, out, error);
    if (status == NS_OK) status = ns_trace_begin(*out, error);
    if (status != NS_OK) return status;
    uint32_t first = ns_dense_size(OBSERVATIONS, WIDTH), second = ns_dense_size(WIDTH, WIDTH),
             third = ns_dense_size(WIDTH, ACTIONS);
    ns_array w = ns_input_array("w", first + second + third, false);
    ns_expr x[OBSERVATIONS], h1[WIDTH], h2[WIDTH], y[ACTIONS];
    char name[8];
    for (int i = 0; i < OBSERVATIONS; i++) {
        snprintf(name, sizeof name, "x%d", i);
        x[i] = ns_input(name);
    }
    ns_dense_layer(ns_array_slice(w, 0, first), OBSERVATIONS, x, WIDTH, NS_ELU, h1);
    ns_dense_layer(ns_array_slice(w, first, second), WIDTH, h1, WIDTH, NS_ELU, h2);
    ns_dense_layer(ns_array_slice(w, first + second, third), WIDTH, h2, ACTIONS, NS_IDENTITY, y);
    for (int i = 0; i < ACTIONS; i++) {
        snprintf(name, sizeof name, "y%d", i);
        ns_output(name, y[i]);
    }
    return ns_trace_end(error);
}

bool bench_mlp_policy(const bench_case* self, const bench_options* options) {
    ns_graph* network = NULL;
    ns_error error;
    ns_status status = trace_policy(&network, &error);
    if (status != NS_OK) fprintf(stderr, "neuralsim bench: %s\n", error.message);
    bool ok = status == NS_OK && bench_graph(self->name, options, network);
    ns_graph_free(network);
    return ok;
}
