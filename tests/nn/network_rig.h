// A network as a program, for tests.

#ifndef TEST_NETWORK_RIG_H
#define TEST_NETWORK_RIG_H

#include "neuralsim/program.h"
#include "nn/network_trace.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/tracing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DISSIPATIVE = NS_STRUCTURE_DISSIPATIVE, CONSERVATIVE = NS_STRUCTURE_CONSERVATIVE };

enum { ODD = NS_STRUCTURE_ODD, EVEN = NS_STRUCTURE_EVEN, BOUNDED = NS_STRUCTURE_BOUNDED };

static inline const char* guarantee_name(unsigned structure) {
    static const char* const names[5] = {"dissipative", "conservative", "odd", "even", "bounded"};
    static char text[80];
    text[0] = '\0';
    for (int i = 0; i < 5; i++) {
        if (!(structure >> i & 1)) continue;
        if (text[0]) strcat(text, " ");
        strcat(text, names[i]);
    }
    return text[0] ? text : "plain";
}

// ---- networks ------------------------------------------------------------------------------

enum { MAX_IN = 6, MAX_OUT = 6, MAX_HIDDEN = 3, MAX_WIDTH = 72, MAX_WEIGHTS = 4000 };

// A network with the arrays its definition points to; not to be copied.
typedef struct net {
    ns_network_def def;
    uint32_t nin, nout, nweight;
    uint32_t hidden[MAX_HIDDEN];
    double input_shift[MAX_IN], input_scale[MAX_IN];
    double output_scale[MAX_OUT], conjugate_scale[MAX_OUT];
} net;

static inline bool is(const net* t, unsigned structure) {
    return (t->def.structure & structure) != 0;
}

static inline void net_size(net* t) {
    t->nweight = (uint32_t)nsi_network_weight_count(&t->def, t->nin, t->nout);
    assert_true(t->nweight <= MAX_WEIGHTS);
}

static inline void net_begin(net* t, unsigned structure, uint32_t nin, uint32_t nout,
                             uint32_t nhidden, const uint32_t* hidden) {
    memset(t, 0, sizeof *t);
    for (uint32_t i = 0; i < nhidden; i++) t->hidden[i] = hidden[i];
    t->def = (ns_network_def){.name = "net",
                              .hidden = t->hidden,
                              .nhidden = nhidden,
                              .activation = NS_TANH,
                              .structure = structure,
                              .bound = 1.0,
                              .init_scale = 1.0,
                              .init_last_scale = 0.1,
                              .seed = 1};
    t->nin = nin;
    t->nout = nout;
    net_size(t);
}

static inline double log_uniform(ns_rng* rng, double low, double high) {
    return exp(ns_rng_uniform(rng, log(low), log(high)));
}

// One number for all or one for each.
static inline uint32_t random_array(ns_rng* rng, double* x, uint32_t n, double low, double high) {
    uint32_t count = ns_rng_below(rng, 2) ? n : 1;
    for (uint32_t i = 0; i < count; i++) x[i] = log_uniform(rng, low, high);
    return count;
}

static inline void random_scales(net* t, ns_rng* rng, bool shift) {
    t->def.input_scale = t->input_scale;
    t->def.output_scale = t->output_scale;
    t->def.conjugate_scale = t->conjugate_scale;
    t->def.ninput_scale = random_array(rng, t->input_scale, t->nin, 0.1, 10.0);
    t->def.noutput_scale = random_array(rng, t->output_scale, t->nout, 0.1, 10.0);
    t->def.nconjugate_scale = random_array(rng, t->conjugate_scale, t->nout, 0.1, 10.0);
    t->def.bound = log_uniform(rng, 0.1, 10.0);
    if (!shift) return;
    t->def.input_shift = t->input_shift;
    t->def.ninput_shift = t->nin;
    for (uint32_t i = 0; i < t->nin; i++) t->input_shift[i] = ns_rng_uniform(rng, -1.0, 1.0);
}

static inline void random_net(net* t, ns_rng* rng, unsigned structure, ns_activation activation) {
    uint32_t hidden[MAX_HIDDEN], nhidden = ns_rng_below(rng, MAX_HIDDEN + 1);
    for (uint32_t i = 0; i < nhidden; i++) hidden[i] = 1 + ns_rng_below(rng, 9);
    uint32_t nin = 1 + ns_rng_below(rng, MAX_IN), nout = 1 + ns_rng_below(rng, MAX_OUT);
    net_begin(t, structure, nin, structure & CONSERVATIVE ? nin : nout, nhidden, hidden);
    t->def.activation = activation;
    t->def.no_bias = ns_rng_below(rng, 4) == 0;
    net_size(t);
    if (ns_rng_below(rng, 2)) random_scales(t, rng, false);
}

static inline void random_weights(const net* t, ns_rng* rng, double size, double* w) {
    for (uint32_t i = 0; i < t->nweight; i++) w[i] = size * ns_rng_normal(rng);
}

// Inputs x0.., for a dissipative network followed by velocities v0..; array w; outputs f0..
static inline uint32_t input_count(const net* t) {
    return t->nin + (is(t, DISSIPATIVE) ? t->nout : 0);
}

static inline void trace_net(const net* t, bool per_lane, ns_expr* f) {
    char name[16];
    ns_expr x[MAX_IN], v[MAX_OUT];
    for (uint32_t i = 0; i < t->nin; i++) {
        snprintf(name, sizeof name, "x%u", i);
        x[i] = ns_input(name);
    }
    for (uint32_t i = 0; i < t->nout && is(t, DISSIPATIVE); i++) {
        snprintf(name, sizeof name, "v%u", i);
        v[i] = ns_input(name);
    }
    // Weights do not begin where the array does.
    ns_array w = ns_input_array("w", t->nweight + 3, per_lane);
    nsi_network_trace(&t->def, ns_array_slice(w, 3, t->nweight), t->nin, x, t->nout,
                      is(t, DISSIPATIVE) ? v : NULL, f, NULL);
}

static inline ns_graph* net_graph(const net* t, bool per_lane) {
    ns_graph* g = tracing_begin();
    ns_expr f[MAX_OUT];
    char name[16];
    trace_net(t, per_lane, f);
    for (uint32_t i = 0; i < t->nout; i++) {
        snprintf(name, sizeof name, "f%u", i);
        ns_output(name, f[i]);
    }
    tracing_end();
    return g;
}

// A graph to run at many points.
typedef struct runner {
    ns_program* program;
    void* work;
} runner;

static inline runner runner_create(const ns_graph* g, ns_backend backend) {
    runner r = {0};
    ns_program_options options = {.backend = backend, .lanes = 1};
    ns_error error = {0};
    must(ns_program_build(g, &options, &r.program, &error), &error);
    r.work = malloc(ns_program_work_size(r.program) + 1);
    assert_non_null(r.work);
    return r;
}

static inline runner net_runner(const net* t, ns_backend backend) {
    ns_graph* g = net_graph(t, false);
    runner r = runner_create(g, backend);
    ns_graph_free(g);
    return r;
}

static inline void runner_free(runner* r) {
    free(r->work);
    ns_program_free(r->program);
}

// `w` has three numbers of nobody in front.
static inline void run(const runner* r, const double* in, const double* w, double* out) {
    ns_program_run(
        r->program,
        &(ns_run){.in = in, .out = out, .arrays = (const double* const[]){w}, .work = r->work});
}

// Weights with NaN where nothing may look.
typedef struct weights {
    double nobody[3];
    double w[MAX_WEIGHTS];
} weights;

static inline void weights_random(weights* w, const net* t, ns_rng* rng, double size) {
    for (int i = 0; i < 3; i++) w->nobody[i] = NAN;
    random_weights(t, rng, size, w->w);
}

// ---- formulas ------------------------------------------------------------------------------

static inline long double activate(ns_activation activation, long double x) {
    switch (activation) {
    case NS_TANH: return tanhl(x);
    case NS_SIGMOID: return 1 / (1 + expl(-x));
    case NS_RELU: return x > 0 ? x : 0;
    case NS_ELU: return x > 0 ? x : expm1l(x);
    case NS_SOFTPLUS: return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
    case NS_SOFTSIGN: return x / (1 + fabsl(x));
    case NS_SIN: return sinl(x);
    default: return x;
    }
}

static inline void plain_core(const net* t, const double* w, const long double* z, long double* y) {
    nsi_layer layers[NSI_MAX_LAYERS];
    uint32_t n = nsi_network_layers(&t->def, t->nin, t->nout, layers);
    long double x[MAX_WIDTH], next[MAX_WIDTH];
    for (uint32_t j = 0; j < t->nin; j++) x[j] = z[j];
    for (uint32_t k = 0; k < n; k++) {
        uint32_t rows = layers[k].rows, columns = layers[k].columns;
        const double* m = w + layers[k].offset;
        if (layers[k].bias) x[rows - 1] = 1;
        for (uint32_t i = 0; i < columns; i++) {
            long double sum = 0;
            for (uint32_t j = 0; j < rows; j++) sum += m[j * columns + i] * x[j];
            next[i] = k + 1 < n ? activate(t->def.activation, sum) : sum;
        }
        for (uint32_t i = 0; i < columns; i++) x[i] = next[i];
    }
    nsi_layer last = layers[n - 1];
    for (uint32_t i = 0; i < last.columns; i++) y[i] = x[i];
}

static inline double pick(const double* x, uint32_t count, uint32_t i, double otherwise) {
    return count == 0 ? otherwise : count == 1 ? x[0] : x[i];
}

// The core's outputs, symmetrised; the potential times P for a conservative network.
static inline void plain_symmetric(const net* t, const double* w, const long double* x,
                                   long double* y) {
    const ns_network_def* def = &t->def;
    long double z[MAX_IN], mirrored[MAX_IN], other[MAX_WIDTH];
    for (uint32_t j = 0; j < t->nin; j++) {
        z[j] = (x[j] - pick(def->input_shift, def->ninput_shift, j, 0.0)) /
               pick(def->input_scale, def->ninput_scale, j, 1.0);
        if (is(t, EVEN)) z[j] = fabsl(z[j]);
        mirrored[j] = -z[j];
    }
    plain_core(t, w, z, y);
    if (!is(t, ODD)) return;
    plain_core(t, w, mirrored, other);
    int sign = is(t, DISSIPATIVE | CONSERVATIVE) ? 1 : -1;
    uint32_t count = is(t, DISSIPATIVE) ? t->nout * (t->nout + 1) / 2 : t->nout;
    for (uint32_t i = 0; i < (is(t, CONSERVATIVE) ? 1 : count); i++) {
        y[i] = (y[i] + sign * other[i]) / 2;
    }
}

static inline long double plain_potential(const net* t, const double* w, const long double* x) {
    long double y;
    plain_symmetric(t, w, x, &y);
    return y * pick(t->def.output_scale, t->def.noutput_scale, 0, 1.0);
}

#endif
