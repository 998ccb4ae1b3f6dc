// Networks and what they guarantee for every weight: random networks with small and huge weights,
// at ordinary and awkward points, are held to each guarantee; the formulas to plain C; derivatives
// to the derivative check. That a guarantee leaves room to learn is shown by learning.

#include "neuralsim/program.h"
#include "nn/network_trace.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/residual.h"
#include "support/testalloc.h"
#include "support/tracing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { DISSIPATIVE = NS_GUARANTEE_DISSIPATIVE, CONSERVATIVE = NS_GUARANTEE_CONSERVATIVE };
enum { ODD = NS_GUARANTEE_ODD, EVEN = NS_GUARANTEE_EVEN, BOUNDED = NS_GUARANTEE_BOUNDED };

// Every set of guarantees that is allowed.
static const unsigned allowed[] = {
    0,
    ODD,
    EVEN,
    BOUNDED,
    ODD | BOUNDED,
    EVEN | BOUNDED,
    DISSIPATIVE,
    DISSIPATIVE | ODD,
    DISSIPATIVE | EVEN,
    CONSERVATIVE,
    CONSERVATIVE | ODD,
    CONSERVATIVE | EVEN,
};
enum { NALLOWED = sizeof allowed / sizeof *allowed };

static const char* guarantee_name(unsigned guarantee) {
    static const char* const names[5] = {"dissipative", "conservative", "odd", "even", "bounded"};
    static char text[80];
    text[0] = '\0';
    for (int i = 0; i < 5; i++) {
        if (!(guarantee >> i & 1)) continue;
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
    double output_scale[MAX_OUT], against_scale[MAX_OUT];
} net;

static bool is(const net* t, unsigned guarantee) {
    return (t->def.guarantee & guarantee) != 0;
}

static void net_size(net* t) {
    t->nweight = (uint32_t)nsi_network_weight_count(&t->def, t->nin, t->nout);
    assert_true(t->nweight <= MAX_WEIGHTS);
}

static void net_begin(net* t, unsigned guarantee, uint32_t nin, uint32_t nout, uint32_t nhidden,
                      const uint32_t* hidden) {
    memset(t, 0, sizeof *t);
    for (uint32_t i = 0; i < nhidden; i++) t->hidden[i] = hidden[i];
    t->def = (ns_network_def){.name = "net",
                              .hidden = t->hidden,
                              .nhidden = nhidden,
                              .activation = NS_TANH,
                              .guarantee = guarantee,
                              .bound = 1.0,
                              .init_scale = 1.0,
                              .init_last_scale = 0.1,
                              .seed = 1};
    t->nin = nin;
    t->nout = nout;
    net_size(t);
}

static double log_uniform(ns_rng* rng, double low, double high) {
    return exp(ns_rng_uniform(rng, log(low), log(high)));
}

// One number for all or one for each.
static uint32_t random_array(ns_rng* rng, double* x, uint32_t n, double low, double high) {
    uint32_t count = ns_rng_below(rng, 2) ? n : 1;
    for (uint32_t i = 0; i < count; i++) x[i] = log_uniform(rng, low, high);
    return count;
}

static void random_scales(net* t, ns_rng* rng, bool shift) {
    t->def.input_scale = t->input_scale;
    t->def.output_scale = t->output_scale;
    t->def.against_scale = t->against_scale;
    t->def.ninput_scale = random_array(rng, t->input_scale, t->nin, 0.1, 10.0);
    t->def.noutput_scale = random_array(rng, t->output_scale, t->nout, 0.1, 10.0);
    t->def.nagainst_scale = random_array(rng, t->against_scale, t->nout, 0.1, 10.0);
    t->def.bound = log_uniform(rng, 0.1, 10.0);
    if (!shift) return;
    t->def.input_shift = t->input_shift;
    t->def.ninput_shift = t->nin;
    for (uint32_t i = 0; i < t->nin; i++) t->input_shift[i] = ns_rng_uniform(rng, -1.0, 1.0);
}

static void random_net(net* t, ns_rng* rng, unsigned guarantee, ns_activation activation) {
    uint32_t hidden[MAX_HIDDEN], nhidden = ns_rng_below(rng, MAX_HIDDEN + 1);
    for (uint32_t i = 0; i < nhidden; i++) hidden[i] = 1 + ns_rng_below(rng, 9);
    uint32_t nin = 1 + ns_rng_below(rng, MAX_IN), nout = 1 + ns_rng_below(rng, MAX_OUT);
    net_begin(t, guarantee, nin, guarantee & CONSERVATIVE ? nin : nout, nhidden, hidden);
    t->def.activation = activation;
    t->def.no_bias = ns_rng_below(rng, 4) == 0;
    net_size(t);
    if (ns_rng_below(rng, 2)) random_scales(t, rng, false);
}

static void random_weights(const net* t, ns_rng* rng, double size, double* w) {
    for (uint32_t i = 0; i < t->nweight; i++) w[i] = size * ns_rng_normal(rng);
}

// Zeros, subnormal, tiny, ordinary and huge numbers of both signs.
static double awkward(ns_rng* rng) {
    double sign = ns_rng_below(rng, 2) ? 1.0 : -1.0;
    switch (ns_rng_below(rng, 8)) {
    case 0: return 0.0 * sign;
    case 1: return 5e-324 * sign;
    case 2: return 1e-310 * sign;
    case 3: return sign * log_uniform(rng, 1e-200, 1e-3);
    case 4: return 1e3 * sign;
    case 5: return sign * log_uniform(rng, 1.0, 1e3);
    default: return ns_rng_normal(rng);
    }
}

// Inputs x0.., for a dissipative network followed by velocities v0..; array w; outputs f0..
static uint32_t input_count(const net* t) {
    return t->nin + (is(t, DISSIPATIVE) ? t->nout : 0);
}

static void trace_net(const net* t, bool per_lane, ns_expr* f) {
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
                      is(t, DISSIPATIVE) ? v : NULL, f);
}

static ns_graph* net_graph(const net* t, bool per_lane) {
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

static runner runner_create(const ns_graph* g, ns_backend backend) {
    runner r = {0};
    ns_program_options options = {.backend = backend, .lanes = 1};
    ns_error error = {0};
    must(ns_program_build(g, &options, &r.program, &error), &error);
    r.work = malloc(ns_program_work_size(r.program) + 1);
    assert_non_null(r.work);
    return r;
}

static runner net_runner(const net* t, ns_backend backend) {
    ns_graph* g = net_graph(t, false);
    runner r = runner_create(g, backend);
    ns_graph_free(g);
    return r;
}

static void runner_free(runner* r) {
    free(r->work);
    ns_program_free(r->program);
}

// `w` has three numbers of nobody in front.
static void run(const runner* r, const double* in, const double* w, double* out) {
    ns_program_run(
        r->program,
        &(ns_run){.in = in, .out = out, .arrays = (const double* const[]){w}, .work = r->work});
}

// Weights with NaN where nothing may look.
typedef struct weights {
    double nobody[3];
    double w[MAX_WEIGHTS];
} weights;

static void weights_random(weights* w, const net* t, ns_rng* rng, double size) {
    for (int i = 0; i < 3; i++) w->nobody[i] = NAN;
    random_weights(t, rng, size, w->w);
}

// ---- shapes and initial weights ------------------------------------------------------------

static void weights_are_as_many_as_they_should_be(void** state) {
    (void)state;
    static const struct {
        unsigned guarantee;
        bool no_bias;
        uint32_t nin, nout, nhidden, hidden[3];
        uint64_t count;
    } cases[] = {
        {DISSIPATIVE, false, 3, 3, 2, {72, 17}, (3 + 1) * 72 + (72 + 1) * 17 + (17 + 1) * 6},
        {DISSIPATIVE, false, 3, 3, 2, {72, 17}, 1637},
        {0, false, 3, 3, 2, {29, 46}, 1637},
        {ODD | BOUNDED, false, 3, 3, 2, {29, 46}, 1637},
        {EVEN, true, 3, 3, 2, {29, 46}, 3 * 29 + 29 * 46 + 46 * 3},
        {DISSIPATIVE | EVEN, false, 3, 3, 2, {8, 8}, 158},
        {DISSIPATIVE, true, 5, 1, 1, {4}, 5 * 4 + 4},
        {CONSERVATIVE, false, 4, 4, 1, {8}, (4 + 1) * 8 + 8},
        {CONSERVATIVE | ODD, true, 4, 4, 2, {8, 3}, 4 * 8 + 8 * 3 + 3},
        {CONSERVATIVE, false, 4, 4, 0, {0}, 4},
        {0, false, 4, 2, 0, {0}, 10},
        {0, true, 4, 2, 0, {0}, 8},
        {DISSIPATIVE, false, 2, 4, 0, {0}, 30},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        net t;
        net_begin(&t, cases[i].guarantee, cases[i].nin, cases[i].nout, cases[i].nhidden,
                  cases[i].hidden);
        t.def.no_bias = cases[i].no_bias;
        assert_int_equal(nsi_network_weight_count(&t.def, t.nin, t.nout), cases[i].count);
        // Layers follow each other, the outputs of one are the inputs of the next.
        nsi_layer layers[NSI_MAX_LAYERS];
        uint32_t n = nsi_network_layers(&t.def, t.nin, t.nout, layers), offset = 0;
        assert_int_equal(n, cases[i].nhidden + 1);
        for (uint32_t k = 0; k < n; k++) {
            assert_int_equal(layers[k].offset, offset);
            bool constant = k + 1 == n && (cases[i].guarantee & CONSERVATIVE);
            assert_int_equal(layers[k].bias, !cases[i].no_bias && !constant);
            assert_int_equal(layers[k].rows - layers[k].bias,
                             k == 0 ? t.nin : layers[k - 1].columns);
            offset += layers[k].rows * layers[k].columns;
        }
        assert_int_equal(offset, cases[i].count);
    }

    // Sizes nobody means do not wrap.
    net t;
    net_begin(&t, 0, 1, 1, 2, (const uint32_t[]){1, 1});
    t.hidden[0] = t.hidden[1] = UINT32_MAX;
    uint64_t big = UINT32_MAX;
    assert_true(nsi_network_weight_count(&t.def, 1, 1) == UINT64_MAX);
    t.hidden[1] = 1;
    assert_true(nsi_network_weight_count(&t.def, 1, 1) == 2 * big + (big + 1) + 2);
    t.def.nhidden = 0;
    assert_true(nsi_network_weight_count(&t.def, UINT32_MAX, UINT32_MAX) == (big + 1) * big);
    t.def.guarantee = DISSIPATIVE;
    assert_true(nsi_network_weight_count(&t.def, 0, UINT32_MAX) == big * ((big + 1) / 2));
    assert_true(nsi_network_weight_count(&t.def, 9, UINT32_MAX) == UINT64_MAX);
}

// The number of standard deviations by which a mean or a variance of n normal numbers may be off. A
// case fails by chance with probability 6e-7; the seeds are fixed anyway.
static const double SIGMAS = 5.0;

static void initial_weights_are_normal(void** state) {
    (void)state;
    enum { COUNT = (40 + 1) * 60 + (60 + 1) * 50 + (50 + 1) * 30 };
    static double w[COUNT], other[COUNT];
    static const uint32_t hidden[2] = {60, 50};
    ns_network_def def = {
        .hidden = hidden, .nhidden = 2, .init_scale = 1.7, .init_last_scale = 0.1};
    assert_int_equal(nsi_network_weight_count(&def, 40, 30), COUNT);
    double worst = 0.0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        def.seed = seed;
        nsi_network_init(&def, 40, 30, 7 * seed, w);
        nsi_layer layers[NSI_MAX_LAYERS];
        uint32_t n = nsi_network_layers(&def, 40, 30, layers);
        for (uint32_t k = 0; k < n; k++) {
            uint32_t fan_in = layers[k].rows - 1, count = fan_in * layers[k].columns;
            const double* x = w + layers[k].offset;
            double variance = 1.7 * 1.7 / fan_in * (k + 1 == n ? 0.01 : 1.0);
            double mean = 0.0, square = 0.0;
            for (uint32_t i = 0; i < count; i++) mean += x[i], square += x[i] * x[i];
            double mean_off = fabs(mean) / sqrt(count * variance);
            double square_off = fabs(square / variance - count) / sqrt(2.0 * count);
            worst = fmax(worst, fmax(mean_off, square_off));
            if (!(worst <= SIGMAS)) {
                fail_msg("layer %u of seed %d: mean off by %g, variance by %g sigma", k, (int)seed,
                         mean_off, square_off);
            }
            // Biases
            for (uint32_t i = 0; i < layers[k].columns; i++) assert_true(x[count + i] == 0.0);
        }
    }
    print_message("means and variances off by at most %.1f sigma\n", worst);

    // The same seed gives the same numbers; other seeds and streams give others, uncorrelated ones,
    // also where seed and stream change places or add up to the same.
    static const uint64_t pairs[][2] = {{1, 0}, {0, 1},          {1, 1},          {2, 0},
                                        {0, 2}, {3, 5},          {5, 3},          {4, 4},
                                        {0, 0}, {UINT64_MAX, 0}, {0, UINT64_MAX}, {1, UINT64_MAX}};
    enum { NPAIR = sizeof pairs / sizeof *pairs };
    worst = 0.0;
    for (int a = 0; a < NPAIR; a++) {
        def.seed = pairs[a][0];
        nsi_network_init(&def, 40, 30, pairs[a][1], w);
        for (int b = 0; b < NPAIR; b++) {
            def.seed = pairs[b][0];
            nsi_network_init(&def, 40, 30, pairs[b][1], other);
            if (a == b) {
                assert_memory_equal(w, other, sizeof w);
                continue;
            }
            // First layer, at every small lag: streams are no shifted copies.
            for (int lag = 0; lag < 8; lag++) {
                double sum = 0.0, variance = 1.7 * 1.7 / 40.0;
                for (int i = 0; i < 2390; i++) sum += w[i] * other[i + lag];
                worst = fmax(worst, fabs(sum) / (variance * sqrt(2390.0)));
            }
        }
    }
    print_message("correlations off by at most %.1f sigma\n", worst);
    assert_true(worst <= SIGMAS);

    // Without biases, and a linear map.
    net t;
    net_begin(&t, DISSIPATIVE, 2, 2, 0, NULL);
    t.def.no_bias = true;
    w[6] = 123.0;
    nsi_network_init(&t.def, 2, 2, 0, w);
    for (int i = 0; i < 6; i++) assert_true(w[i] != 0.0 && fabs(w[i]) < 0.4);
    assert_true(w[6] == 123.0);
}

// ---- formulas ------------------------------------------------------------------------------

static long double activate(ns_activation activation, long double x) {
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

static void plain_core(const net* t, const double* w, const long double* z, long double* y) {
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

static double pick(const double* x, uint32_t count, uint32_t i, double otherwise) {
    return count == 0 ? otherwise : count == 1 ? x[0] : x[i];
}

// The core's outputs, symmetrised; the potential times P for a conservative network.
static void plain_symmetric(const net* t, const double* w, const long double* x, long double* y) {
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

static long double plain_potential(const net* t, const double* w, const long double* x) {
    long double y;
    plain_symmetric(t, w, x, &y);
    return y * pick(t->def.output_scale, t->def.noutput_scale, 0, 1.0);
}

static void plain_net(const net* t, const double* w, const double* in, double* f) {
    const ns_network_def* def = &t->def;
    long double x[MAX_IN], y[MAX_WIDTH];
    for (uint32_t j = 0; j < t->nin; j++) x[j] = in[j];
    if (is(t, CONSERVATIVE)) {
        for (uint32_t j = 0; j < t->nin; j++) {
            const long double h = 1e-6L;
            x[j] = in[j] + h;
            long double above = plain_potential(t, w, x);
            x[j] = in[j] - h;
            f[j] = -(double)((above - plain_potential(t, w, x)) / (2 * h));
            x[j] = in[j];
        }
        return;
    }
    plain_symmetric(t, w, x, y);
    if (is(t, DISSIPATIVE)) {
        // The matrix L L' itself.
        const double* v = in + t->nin;
        long double L[MAX_OUT][MAX_OUT] = {{0}};
        double P = pick(def->output_scale, def->noutput_scale, 0, 1.0);
        for (uint32_t i = 0, e = 0; i < t->nout; i++) {
            for (uint32_t k = 0; k <= i; k++) L[i][k] = y[e++] + (i == k ? 0.5L : 0);
        }
        for (uint32_t i = 0; i < t->nout; i++) {
            long double sum = 0, si = pick(def->against_scale, def->nagainst_scale, i, 1.0);
            for (uint32_t j = 0; j < t->nout; j++) {
                long double product = i == j ? 1e-6L : 0;
                for (uint32_t k = 0; k < t->nout; k++) product += L[i][k] * L[j][k];
                sum += product * v[j] / pick(def->against_scale, def->nagainst_scale, j, 1.0);
            }
            f[i] = (double)(-P / si * sum);
        }
        return;
    }
    for (uint32_t i = 0; i < t->nout; i++) {
        if (is(t, BOUNDED)) y[i] = def->bound * tanhl(y[i] / def->bound);
        f[i] = (double)(y[i] * pick(def->output_scale, def->noutput_scale, i, 1.0));
    }
}

static void outputs_match_plain_c(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    residual formulas = {.name = "formulas in plain C", .tolerance = 1e-13};
    // Central differences of step 1e-6 in long double, of functions curved up to about 1e3
    residual slopes = {.name = "slopes of the potential in plain C", .tolerance = 1e-8};
    for (int n = 0; n < 1200; n++) {
        net t;
        weights w;
        random_net(&t, &rng, allowed[n % NALLOWED], (ns_activation)(n / NALLOWED % 8));
        random_scales(&t, &rng, true);
        weights_random(&w, &t, &rng, 0.7);
        runner r = net_runner(&t, NS_BACKEND_AUTO);
        double in[MAX_IN + MAX_OUT], f[MAX_OUT], want[MAX_OUT];
        for (uint32_t i = 0; i < input_count(&t); i++) in[i] = ns_rng_uniform(&rng, -2.0, 2.0);
        run(&r, in, w.nobody, f);
        plain_net(&t, w.w, in, want);
        residual_array(is(&t, CONSERVATIVE) ? &slopes : &formulas, f, want, t.nout, 1.0);
        runner_free(&r);
    }
    residual_check(&formulas);
    residual_check(&slopes);
}

// Scales that do nothing cost nothing.
static void scales_of_one_fold(void** state) {
    (void)state;
    for (int n = 0; n < NALLOWED; n++) {
        net t;
        net_begin(&t, allowed[n], 3, 3, 1, (const uint32_t[]){4});
        ns_graph* without = net_graph(&t, false);
        for (int i = 0; i < 3; i++) {
            t.input_scale[i] = t.output_scale[i] = t.against_scale[i] = 1.0;
        }
        t.def.input_shift = t.input_shift, t.def.ninput_shift = 1;
        t.def.input_scale = t.input_scale, t.def.ninput_scale = 3;
        t.def.output_scale = t.output_scale, t.def.noutput_scale = 3;
        t.def.against_scale = t.against_scale, t.def.nagainst_scale = 3;
        ns_graph* with = net_graph(&t, false);
        assert_int_equal(ns_graph_op_count(with), ns_graph_op_count(without));
        if (allowed[n] == 0) assert_int_equal(ns_graph_op_count(with), 1 + 4 + 1); // 2 blocks, tanh
        ns_graph_free(with);
        ns_graph_free(without);
    }
}

// ---- dissipative ---------------------------------------------------------------------------

static double power(const net* t, const double* f, const double* v) {
    double sum = 0.0;
    for (uint32_t i = 0; i < t->nout; i++) sum += f[i] * v[i];
    return sum;
}

// Solve A x = b in place of b, A and b being overwritten; false when A is singular.
static bool solve(uint32_t n, double A[MAX_OUT][MAX_OUT], double* b) {
    for (uint32_t c = 0; c < n; c++) {
        uint32_t p = c;
        for (uint32_t i = c + 1; i < n; i++) p = fabs(A[i][c]) > fabs(A[p][c]) ? i : p;
        if (A[p][c] == 0.0) return false;
        for (uint32_t k = 0; k < n; k++) {
            double swap = A[c][k];
            A[c][k] = A[p][k];
            A[p][k] = swap;
        }
        double swap = b[c];
        b[c] = b[p];
        b[p] = swap;
        for (uint32_t i = c + 1; i < n; i++) {
            double factor = A[i][c] / A[c][c];
            for (uint32_t k = c; k < n; k++) A[i][k] -= factor * A[c][k];
            b[i] -= factor * b[c];
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++) b[i] -= A[i][k] * b[k];
        b[i] /= A[i][i];
    }
    return true;
}

// The direction in which the network brakes least, where rounding could turn the sign of the power
// first: by inverse iteration on the matrix of f, which is linear in v. Returns the largest element
// of the matrix.
static double weakest_direction(const runner* r, const net* t, const double* w, double* in,
                                ns_rng* rng) {
    double A[MAX_OUT][MAX_OUT], f[MAX_OUT], *v = in + t->nin, largest = 0.0;
    for (uint32_t k = 0; k < t->nout; k++) {
        for (uint32_t i = 0; i < t->nout; i++) v[i] = i == k ? 1.0 : 0.0;
        run(r, in, w, f);
        for (uint32_t i = 0; i < t->nout; i++) {
            A[i][k] = f[i];
            largest = fmax(largest, fabs(f[i]));
        }
    }
    double x[MAX_OUT];
    for (uint32_t i = 0; i < t->nout; i++) x[i] = ns_rng_normal(rng);
    for (int n = 0; n < 2; n++) {
        double B[MAX_OUT][MAX_OUT], norm = 0.0;
        memcpy(B, A, sizeof B);
        if (!solve(t->nout, B, x)) break;
        for (uint32_t i = 0; i < t->nout; i++) norm = fmax(norm, fabs(x[i]));
        for (uint32_t i = 0; i < t->nout; i++) x[i] /= norm;
    }
    for (uint32_t i = 0; i < t->nout; i++) v[i] = isfinite(x[i]) ? x[i] : 1.0;
    return largest;
}

// The bound of network_trace.c for L is about 1e11, so that forces of unit velocities are below 1e22
// times scales. Beyond, the power is negative up to rounding.
static const double MATRIX_LIMIT = 1e19;

static void dissipative_networks_never_feed_energy(void** state) {
    (void)state;
    static const unsigned kinds[] = {DISSIPATIVE, DISSIPATIVE | EVEN, DISSIPATIVE | ODD};
    ns_rng rng = ns_rng_seed(2);
    uint32_t points = 0, strict = 0, beyond = 0;
    double least = INFINITY, most = 0.0;
    for (int n = 0; n < 3000; n++) {
        net t;
        weights w;
        random_net(&t, &rng, kinds[n % 3], (ns_activation)(n / 3 % 8));
        weights_random(&w, &t, &rng, log_uniform(&rng, 1e-4, 1e3));
        runner r = net_runner(&t, NS_BACKEND_AUTO);
        for (int p = 0; p < 20; p++) {
            double in[MAX_IN + MAX_OUT], f[MAX_OUT], random[MAX_OUT], *v = in + t.nin;
            bool drag = p % 5 == 4; // the velocities are inputs, too
            for (uint32_t i = 0; i < t.nout; i++) random[i] = awkward(&rng);
            for (uint32_t i = 0; i < t.nin; i++) {
                in[i] = drag && i < t.nout ? random[i] : awkward(&rng);
            }
            double largest = weakest_direction(&r, &t, w.nobody, in, &rng); // into v
            if (drag || p % 2 == 1) memcpy(v, random, t.nout * sizeof *v);
            double squares = 0.0, speed = 0.0;
            for (uint32_t i = 0; i < t.nout; i++) {
                squares += v[i] * v[i];
                speed = fmax(speed, fabs(v[i]));
            }
            run(&r, in, w.nobody, f);
            double P = power(&t, f, v);
            if (largest > MATRIX_LIMIT) {
                assert_true(P <= 1e-14 * largest * squares);
                beyond++;
                continue;
            }
            points++;
            if (!(P <= 0.0)) {
                fail_msg("power %g of %u velocities, %s, weights like %g, matrix up to %g", P,
                         t.nout, ns_activation_name(t.def.activation), w.w[0], largest);
            }
            // Never less than the least damping of network_trace.c, with P and s within 0.1..10
            if (speed > 1e-100) {
                assert_true(P < 0.0);
                least = fmin(least, -P / squares);
                most = fmax(most, -P / squares);
                strict++;
            }
            // No velocity, no force.
            for (uint32_t i = 0; i < t.nout; i++) v[i] = p % 2 ? 0.0 : -0.0;
            run(&r, in, w.nobody, f);
            for (uint32_t i = 0; i < t.nout; i++) assert_true(f[i] == 0.0);
        }
        runner_free(&r);
    }
    print_message("%u points, %u of them moving: -power / v^2 from %.1e to %.1e; %u beyond 1e19\n",
                  points, strict, least, most, beyond);
    assert_true(least > 0.9e-9 && most > 1e6 && beyond < points / 10);
}

// ---- conservative --------------------------------------------------------------------------

// A bound of the sum of magnitudes that an element of df/dx is made of: with slopes and curvatures
// of activations up to 1, V'' = sum over layers k of A' D A, where A leads from the inputs to the
// sums of layer k and D from those, by their curvatures, to V.
static double jacobian_bound(const net* t, const double* w) {
    nsi_layer layers[NSI_MAX_LAYERS];
    uint32_t n = nsi_network_layers(&t->def, t->nin, t->nout, layers);
    double norm[NSI_MAX_LAYERS], bound = 0.0, before = 1.0, scale = INFINITY;
    for (uint32_t k = 0; k < n; k++) {
        norm[k] = 0.0;
        uint32_t count = (layers[k].rows - layers[k].bias) * layers[k].columns;
        for (uint32_t i = 0; i < count; i++) norm[k] = hypot(norm[k], w[layers[k].offset + i]);
    }
    for (uint32_t k = 0; k + 1 < n; k++) {
        double after = 1.0;
        for (uint32_t m = k + 1; m < n; m++) after *= norm[m];
        before *= norm[k];
        bound += before * before * after;
    }
    for (uint32_t j = 0; j < t->nin; j++) {
        scale = fmin(scale, pick(t->input_scale, t->def.ninput_scale, j, 1.0));
    }
    return bound * pick(t->output_scale, t->def.noutput_scale, 0, 1.0) / (scale * scale);
}

static void conservative_forces_have_a_symmetric_jacobian(void** state) {
    (void)state;
    static const unsigned kinds[] = {CONSERVATIVE, CONSERVATIVE | EVEN, CONSERVATIVE | ODD};
    ns_rng rng = ns_rng_seed(3);
    residual symmetry = {.name = "asymmetry of df/dx, relative to it", .tolerance = 1e-12};
    // Where weights or inputs are tiny or huge, what df/dx is made of cancels.
    residual anywhere = {.name = "asymmetry, relative to what it is made of", .tolerance = 1e-14};
    uint32_t count = 0, vanished = 0;
    for (int n = 0; n < 3000; n++) {
        bool ordinary = n / 24 % 2 == 0;
        net t;
        weights w;
        random_net(&t, &rng, kinds[n % 3], (ns_activation)(n / 3 % 8));
        weights_random(&w, &t, &rng, ordinary ? 1.0 : log_uniform(&rng, 1e-4, 1e3));
        ns_graph *g = net_graph(&t, false), *jvp = NULL;
        ns_diff_options options = ns_default_diff_options();
        options.skip_arrays = true;
        options.skip_value = true;
        assert_int_equal(ns_graph_jvp(g, &options, &jvp, NULL), NS_OK);
        runner r = runner_create(jvp, NS_BACKEND_AUTO);
        for (int p = 0; p < 5; p++) {
            double in[2 * MAX_IN] = {0}, J[MAX_IN][MAX_IN], largest = 0.0;
            for (uint32_t i = 0; i < t.nin; i++) {
                in[i] = ordinary ? ns_rng_uniform(&rng, -1.0, 1.0) : awkward(&rng);
            }
            for (uint32_t j = 0; j < t.nin; j++) {
                for (uint32_t i = 0; i < t.nin; i++) in[t.nin + i] = i == j ? 1.0 : 0.0;
                run(&r, in, w.nobody, J[j]);
                for (uint32_t i = 0; i < t.nin; i++) largest = fmax(largest, fabs(J[j][i]));
            }
            double scale = ordinary ? largest : jacobian_bound(&t, w.w);
            for (uint32_t j = 0; j < t.nin && largest > 0.0; j++) {
                for (uint32_t i = 0; i < j; i++) {
                    residual_add(ordinary ? &symmetry : &anywhere, J[j][i], J[i][j], scale);
                }
            }
            // A linear potential, or one made of linear pieces, has none. The even part of an odd
            // function, which tanh, softsign and sine make without biases, is 0.
            bool odd_core =
                t.def.no_bias && (t.def.activation == NS_TANH || t.def.activation == NS_SOFTSIGN ||
                                  t.def.activation == NS_SIN);
            if (t.def.nhidden == 0 || t.def.activation == NS_IDENTITY ||
                t.def.activation == NS_RELU) {
                assert_true(largest == 0.0);
            } else if (ordinary && !(odd_core && is(&t, ODD))) {
                count++;
                vanished += largest == 0.0;
            }
        }
        runner_free(&r);
        ns_graph_free(g);
        ns_graph_free(jvp);
    }
    residual_check(&symmetry);
    residual_check(&anywhere);
    print_message("%u of %u Jacobians vanish\n", vanished, count);
    assert_true(vanished < count / 50);
}

// Gauss-Legendre nodes and weights of order 10 on [-1, 1] (Abramowitz & Stegun, table 25.4).
static const double gauss[5][2] = {{0.148874338981631210884826, 0.295524224714752870173816},
                                   {0.433395394129247190799265, 0.269266719309996355091227},
                                   {0.679409568299024406234327, 0.219086362515982043995535},
                                   {0.865063366688984510732097, 0.149451349150580593145863},
                                   {0.973906528517171720077964, 0.066671344308688137593569}};

// The work of f along a straight line in 64 pieces.
static double work_along(const runner* r, const net* t, const double* w, const double* a,
                         const double* b, double* magnitude) {
    enum { PIECES = 64 };
    double work = 0.0;
    for (int piece = 0; piece < PIECES; piece++) {
        for (int k = 0; k < 10; k++) {
            double node = k < 5 ? gauss[k][0] : -gauss[k - 5][0];
            double at = (piece + 0.5 + 0.5 * node) / PIECES, x[MAX_IN], f[MAX_IN];
            for (uint32_t i = 0; i < t->nin; i++) x[i] = a[i] + at * (b[i] - a[i]);
            run(r, x, w, f);
            double rate = 0.0;
            for (uint32_t i = 0; i < t->nin; i++) rate += f[i] * (b[i] - a[i]);
            work += rate * gauss[k % 5][1] * 0.5 / PIECES;
            *magnitude += fabs(rate) * gauss[k % 5][1] * 0.5 / PIECES;
        }
    }
    return work;
}

static void conservative_work_is_a_difference_of_potential(void** state) {
    (void)state;
    static const unsigned kinds[] = {CONSERVATIVE, CONSERVATIVE | EVEN, CONSERVATIVE | ODD};
    static const ns_activation smooth[] = {NS_TANH, NS_SIGMOID, NS_SOFTPLUS, NS_SIN};
    ns_rng rng = ns_rng_seed(4);
    // Quadrature of smooth functions: rounding errors of the 640 points are left.
    residual around = {.name = "work around closed polygons", .tolerance = 1e-11};
    residual along = {.name = "work against the potential", .tolerance = 1e-11};
    for (int n = 0; n < 300; n++) {
        net t;
        weights w;
        random_net(&t, &rng, kinds[n % 3], smooth[n / 3 % 4]);
        random_scales(&t, &rng, kinds[n % 3] == CONSERVATIVE);
        for (uint32_t i = 0; i < t.nin; i++) t.input_scale[i] = ns_rng_uniform(&rng, 0.5, 2.0);
        weights_random(&w, &t, &rng, log_uniform(&rng, 0.05, 1.5));
        runner r = net_runner(&t, NS_BACKEND_AUTO);

        // A polygon; with even inputs inside one orthant, since f jumps where an input is 0.
        enum { CORNERS = 5 };
        double corner[CORNERS + 1][MAX_IN], total = 0.0, magnitude = 0.0;
        for (uint32_t i = 0; i < t.nin; i++) {
            double sign = ns_rng_below(&rng, 2) ? 1.0 : -1.0;
            for (int c = 0; c < CORNERS; c++) {
                corner[c][i] = is(&t, EVEN) ? sign * ns_rng_uniform(&rng, 0.01, 1.0)
                                            : ns_rng_uniform(&rng, -1.0, 1.0);
            }
            corner[CORNERS][i] = corner[0][i];
        }
        for (int c = 0; c < CORNERS; c++) {
            long double a[MAX_IN], b[MAX_IN];
            double edge = 0.0;
            for (uint32_t i = 0; i < t.nin; i++) a[i] = corner[c][i], b[i] = corner[c + 1][i];
            double work = work_along(&r, &t, w.nobody, corner[c], corner[c + 1], &edge);
            long double Va = plain_potential(&t, w.w, a), Vb = plain_potential(&t, w.w, b);
            residual_add(&along, work, (double)(Va - Vb), fmax(edge, 1e-3));
            total += work;
            magnitude += edge;
        }
        residual_add(&around, total, 0.0, fmax(magnitude, 1e-3));
        runner_free(&r);
    }
    residual_check(&around);
    residual_check(&along);
}

// Inputs that are one quantity twice, a quantity and its negative, or constants, among them the 1
// that stands for the biases, are inputs like any other.
static void conservative_inputs_may_be_any_expressions(void** state) {
    (void)state;
    for (int odd = 0; odd < 2; odd++) {
        net t;
        weights w;
        net_begin(&t, CONSERVATIVE | (odd ? ODD : 0), 6, 6, 2, (const uint32_t[]){5, 4});
        ns_rng rng = ns_rng_seed(5);
        weights_random(&w, &t, &rng, 0.8);
        runner free_inputs = net_runner(&t, NS_BACKEND_AUTO);
        ns_graph* g = tracing_begin();
        ns_expr a = ns_input("a"), b = ns_input("b"), f[6];
        ns_expr difference = ns_sub(ns_mul(a, b), a);
        ns_expr x[6] = {a, a, ns_neg(a), ns_const(1.0), ns_const(0.0), difference};
        ns_array array = ns_input_array("w", t.nweight + 3, false);
        nsi_network_trace(&t.def, ns_array_slice(array, 3, t.nweight), 6, x, 6, NULL, f);
        for (int i = 0; i < 6; i++) {
            char name[8];
            snprintf(name, sizeof name, "f%d", i);
            ns_output(name, f[i]);
        }
        tracing_end();
        runner r = runner_create(g, NS_BACKEND_AUTO);
        double got[6], want[6];
        run(&r, (const double[]){0.7, -0.3}, w.nobody, got);
        run(&free_inputs, (const double[]){0.7, 0.7, -0.7, 1.0, 0.0, 0.7 * -0.3 - 0.7}, w.nobody,
            want);
        for (int i = 0; i < 6; i++) {
            assert_true(fabs(got[i] - want[i]) <= 1e-14 * fmax(1.0, fabs(want[i])));
        }
        runner_free(&r);
        runner_free(&free_inputs);
        ns_graph_free(g);
    }
}

// ---- odd, even, bounded --------------------------------------------------------------------

// The same bits, where zeros may differ in sign: a - b of equal numbers is +0 either way round.
static bool same(double a, double b) {
    return (a == 0.0 && b == 0.0) || check_same_bits(a, b);
}

static void odd_networks_are_odd_to_the_last_bit(void** state) {
    (void)state;
    static const unsigned kinds[] = {ODD, ODD | BOUNDED, ODD | DISSIPATIVE, ODD | CONSERVATIVE};
    ns_rng rng = ns_rng_seed(6);
    uint32_t nonzero[4] = {0}, count[4] = {0};
    for (int n = 0; n < 3200; n++) {
        net t;
        weights w;
        random_net(&t, &rng, kinds[n % 4], (ns_activation)(n / 4 % 8));
        weights_random(&w, &t, &rng, log_uniform(&rng, 1e-4, 1e3));
        runner r = net_runner(&t, n / 32 % 2 ? NS_BACKEND_INTERP : NS_BACKEND_AUTO);
        for (int p = 0; p < 20; p++) {
            double in[MAX_IN + MAX_OUT], f[MAX_OUT], g[MAX_OUT];
            for (uint32_t i = 0; i < input_count(&t); i++) {
                in[i] = p == 0 ? 0.0 : awkward(&rng);
            }
            run(&r, in, w.nobody, f);
            // For a dissipative network the velocities turn round as well.
            for (uint32_t i = 0; i < input_count(&t); i++) in[i] = -in[i];
            run(&r, in, w.nobody, g);
            for (uint32_t i = 0; i < t.nout; i++) {
                if (!same(f[i], -g[i]) || !isfinite(f[i])) {
                    fail_msg("%s, %s: f(x) = %a, f(-x) = %a", guarantee_name(t.def.guarantee),
                             ns_activation_name(t.def.activation), f[i], g[i]);
                }
                if (p == 0) assert_true(f[i] == 0.0);
                nonzero[n % 4] += f[i] != 0.0;
                count[n % 4]++;
            }
        }
        runner_free(&r);
    }
    for (int k = 0; k < 4; k++) {
        print_message("%s: %u outputs, %u not 0\n", guarantee_name(kinds[k]), count[k], nonzero[k]);
        assert_true(nonzero[k] > count[k] / 3);
    }
}

static void even_networks_ignore_signs(void** state) {
    (void)state;
    static const unsigned kinds[] = {EVEN, EVEN | BOUNDED, EVEN | DISSIPATIVE, EVEN | CONSERVATIVE};
    ns_rng rng = ns_rng_seed(7);
    uint32_t nonzero[4] = {0}, count[4] = {0};
    for (int n = 0; n < 3200; n++) {
        net t;
        weights w;
        random_net(&t, &rng, kinds[n % 4], (ns_activation)(n / 4 % 8));
        weights_random(&w, &t, &rng, log_uniform(&rng, 1e-4, 1e3));
        runner r = net_runner(&t, n / 32 % 2 ? NS_BACKEND_INTERP : NS_BACKEND_AUTO);
        for (int p = 0; p < 20; p++) {
            double in[MAX_IN + MAX_OUT], f[MAX_OUT], g[MAX_OUT], sign[MAX_IN];
            for (uint32_t i = 0; i < input_count(&t); i++) in[i] = awkward(&rng);
            run(&r, in, w.nobody, f);
            for (uint32_t i = 0; i < t.nin; i++) {
                sign[i] = ns_rng_below(&rng, 2) ? 1.0 : -1.0;
                in[i] *= sign[i];
            }
            run(&r, in, w.nobody, g);
            for (uint32_t i = 0; i < t.nout; i++) {
                // The potential is what is even; its slopes turn with their inputs, 0 at 0.
                if (is(&t, CONSERVATIVE) && in[i] == 0.0) assert_true(f[i] == 0.0 && g[i] == 0.0);
                double want = is(&t, CONSERVATIVE) ? sign[i] * f[i] : f[i];
                if (!same(g[i], want) || !isfinite(g[i])) {
                    fail_msg("%s, %s: %a, with other signs %a", guarantee_name(t.def.guarantee),
                             ns_activation_name(t.def.activation), f[i], g[i]);
                }
                nonzero[n % 4] += f[i] != 0.0;
                count[n % 4]++;
            }
        }
        runner_free(&r);
    }
    for (int k = 0; k < 4; k++) {
        print_message("%s: %u outputs, %u not 0\n", guarantee_name(kinds[k]), count[k], nonzero[k]);
        assert_true(nonzero[k] > count[k] / 3);
    }
}

static void bounded_networks_stay_in_bounds(void** state) {
    (void)state;
    static const unsigned kinds[] = {BOUNDED, BOUNDED | ODD, BOUNDED | EVEN};
    ns_rng rng = ns_rng_seed(8);
    double closest = 0.0;
    uint32_t at_bound = 0, count = 0;
    for (int n = 0; n < 3000; n++) {
        net t;
        weights w;
        random_net(&t, &rng, kinds[n % 3], (ns_activation)(n / 3 % 8));
        random_scales(&t, &rng, true);
        weights_random(&w, &t, &rng, log_uniform(&rng, 1e-4, 1e6));
        runner r = net_runner(&t, NS_BACKEND_AUTO);
        for (int p = 0; p < 20; p++) {
            double in[MAX_IN], f[MAX_OUT];
            for (uint32_t i = 0; i < t.nin; i++) in[i] = awkward(&rng) * (p == 0 ? 1e3 : 1.0);
            run(&r, in, w.nobody, f);
            for (uint32_t i = 0; i < t.nout; i++) {
                double bound = t.def.bound * pick(t.output_scale, t.def.noutput_scale, i, 1.0);
                if (!(fabs(f[i]) <= bound)) fail_msg("|%.17g| > %.17g", f[i], bound);
                at_bound += fabs(f[i]) == bound;
                if (fabs(f[i]) < bound) closest = fmax(closest, fabs(f[i]) / bound);
                count++;
            }
        }
        runner_free(&r);
    }
    print_message("%u outputs, %u at their bound, the next at %.6f of it\n", count, at_bound,
                  closest);
    assert_true(closest > 0.999 && at_bound < count * 0.9);
}

// ---- derivatives ---------------------------------------------------------------------------

// For inputs, velocities and weights, second derivatives included; those of a conservative network
// are third ones of its potential.
static void derivatives_agree(void** state) {
    (void)state;
    static const ns_activation activations[] = {NS_TANH, NS_SOFTPLUS, NS_SOFTSIGN, NS_ELU};
    ns_rng rng = ns_rng_seed(9);
    check_batch* batch = check_batch_create();
    ns_graph* graphs[2 * NALLOWED];
    static char names[2 * NALLOWED][80];
    for (int n = 0; n < 2 * NALLOWED; n++) {
        unsigned guarantee = allowed[n / 2];
        net t;
        weights w;
        uint32_t nin = 3, nout = guarantee & CONSERVATIVE ? 3 : 2;
        net_begin(&t, guarantee, nin, nout, 2, (const uint32_t[]){5, 4});
        t.def.activation = activations[n % 2 ? n / 2 % 4 : 0];
        random_scales(&t, &rng, true);
        for (int i = 0; i < 3; i++) {
            t.input_scale[i] = 0.8 + 0.3 * i;
            t.output_scale[i] = 1.3 - 0.2 * i;
            t.against_scale[i] = 0.7 + 0.2 * i;
            t.input_shift[i] = 0.1 * i;
        }
        t.def.bound = 0.9;
        weights_random(&w, &t, &rng, 0.7);
        for (int i = 0; i < 3; i++) w.nobody[i] = 1.0;
        graphs[n] = net_graph(&t, n % 2 == 1);
        snprintf(names[n], sizeof names[n], "%s, %s", guarantee_name(guarantee),
                 ns_activation_name(t.def.activation));
        const double x[5] = {0.6, -0.4, 1.3, 0.8, -0.5};
        check_options options = {
            .name = names[n], .second = true, .c = n % 2 == 0 ? CHECK_C_ALL : CHECK_C_VJP};
        check_batch_add(batch, graphs[n], x, (const double* const[]){w.nobody}, &options);
    }
    check_report report = check_batch_finish(batch);
    print_message("%u functions, %llu numbers, %u slopes, %u undecided\n", report.functions,
                  (unsigned long long)report.numbers, report.slopes, report.undecided);
    assert_true(report.undecided <= report.slopes / 100);
    for (int n = 0; n < 2 * NALLOWED; n++) ns_graph_free(graphs[n]);
}

// ---- what can be learned -------------------------------------------------------------------

// Gradient descent with momentum on the mean square error at given points; the root of it, relative
// to that of the target, at other points.
typedef struct lesson {
    const char* name;
    void (*target)(const double* x, double* f);
    double range;
    int iterations;
    double rate;
    double error; // to be reached
} lesson;

static void quadratic_drag(const double* v, double* f) {
    for (int i = 0; i < 2; i++) f[i] = -(i + 1) * fabs(v[i]) * v[i];
}

// Drag of a plate that moves edge on more easily: the axes are coupled by the speed.
static void plate_drag(const double* v, double* f) {
    double speed = sqrt(v[0] * v[0] + v[1] * v[1]);
    f[0] = -0.3 * speed * v[0];
    f[1] = -2.0 * speed * v[1];
}

static void double_pendulum(const double* q, double* f) {
    f[0] = -2.0 * sin(q[0]) - sin(q[0] + q[1]);
    f[1] = -sin(q[0] + q[1]);
}

static void softening_spring(const double* x, double* f) {
    for (int i = 0; i < 2; i++) f[i] = -atan(3.0 * x[i]) * (i + 1) + 0.5 * x[1 - i];
}

static void learn(net* t, const lesson* a) {
    enum { POINTS = 256, LANES = 4 };
    // Loss of one point with inputs x (as velocities, too) and the wanted f.
    ns_graph* g = tracing_begin();
    ns_expr x[2] = {ns_input("x0"), ns_input("x1")}, want[2] = {ns_input("t0"), ns_input("t1")};
    ns_expr f[2], loss = ns_const(0.0);
    ns_array array = ns_input_array("w", t->nweight, false);
    nsi_network_trace(&t->def, array, 2, x, 2, is(t, DISSIPATIVE) ? x : NULL, f);
    for (int i = 0; i < 2; i++) {
        ns_expr miss = ns_sub(f[i], want[i]);
        loss = ns_add(loss, ns_mul(miss, miss));
    }
    ns_output("loss", loss);
    tracing_end();
    ns_graph* vjp = NULL;
    ns_diff_options options = ns_default_diff_options();
    options.skip_inputs = true;
    assert_int_equal(ns_graph_vjp(g, &options, &vjp, NULL), NS_OK);
    ns_program* program = NULL;
    assert_int_equal(ns_program_build(vjp, &(ns_program_options){.lanes = LANES}, &program, NULL),
                     NS_OK);
    void* work = malloc(ns_program_work_size(program) + 1);

    static double w[MAX_WEIGHTS], gradient[MAX_WEIGHTS], velocity[MAX_WEIGHTS];
    static double points[2][POINTS][5];
    ns_rng rng = ns_rng_seed(10);
    double square[2] = {0.0, 0.0}, error[2] = {0.0, 0.0};
    for (int s = 0; s < 2; s++) {
        for (int p = 0; p < POINTS; p++) {
            double* row = points[s][p];
            for (int i = 0; i < 2; i++) row[i] = ns_rng_uniform(&rng, -a->range, a->range);
            a->target(row, row + 2);
            row[4] = 1.0; // seed
            square[s] += row[2] * row[2] + row[3] * row[3];
        }
    }
    nsi_network_init(&t->def, 2, 2, 0, w);
    memset(velocity, 0, sizeof velocity);
    double start = 0.0;
    for (int n = 0; n <= a->iterations; n++) {
        bool last = n == a->iterations; // then only to look
        memset(gradient, 0, sizeof gradient);
        for (int s = 0; s < (last ? 2 : 1); s++) {
            error[s] = 0.0;
            for (int p = 0; p < POINTS; p += LANES) {
                double in[5][LANES], out[LANES];
                for (int l = 0; l < LANES; l++) {
                    for (int i = 0; i < 5; i++) in[i][l] = points[s][p + l][i];
                }
                ns_program_run(program, &(ns_run){.in = &in[0][0],
                                                  .out = out,
                                                  .arrays = (const double* const[]){w},
                                                  .sinks = (double* const[]){gradient},
                                                  .work = work});
                for (int l = 0; l < LANES; l++) error[s] += out[l];
            }
        }
        if (n == 0) start = error[0];
        // The rate falls to 0.
        double rate = a->rate * (1.0 - (double)n / a->iterations) / POINTS;
        for (uint32_t i = 0; i < t->nweight && !last; i++) {
            velocity[i] = 0.95 * velocity[i] - rate * gradient[i];
            w[i] += velocity[i];
        }
    }
    double unseen = sqrt(error[1] / square[1]);
    print_message(
        "%s: relative error %.3f at first, then %.4f, at unseen points %.4f (at most %g)\n",
        a->name, sqrt(start / square[0]), sqrt(error[0] / square[0]), unseen, a->error);
    assert_true(unseen <= a->error && sqrt(start / square[0]) > 10.0 * a->error);
    free(work);
    ns_program_free(program);
    ns_graph_free(g);
    ns_graph_free(vjp);
}

static void dissipative_networks_learn_drag(void** state) {
    (void)state;
    net t;
    net_begin(&t, DISSIPATIVE | EVEN, 2, 2, 1, (const uint32_t[]){24});
    learn(&t, &(lesson){"drag v|v|", quadratic_drag, 1.5, 3000, 0.004, 0.03});
    learn(&t, &(lesson){"drag of a plate", plate_drag, 1.5, 3000, 0.004, 0.03});
    net_begin(&t, DISSIPATIVE | ODD, 2, 2, 1, (const uint32_t[]){24});
    learn(&t, &(lesson){"drag of a plate, odd", plate_drag, 1.5, 3000, 0.004, 0.06});
}

static void conservative_networks_learn_potentials(void** state) {
    (void)state;
    net t;
    net_begin(&t, CONSERVATIVE, 2, 2, 2, (const uint32_t[]){24, 24});
    learn(&t, &(lesson){"double pendulum", double_pendulum, 2.5, 3000, 0.02, 0.03});
    net_begin(&t, CONSERVATIVE | ODD, 2, 2, 2, (const uint32_t[]){16, 16});
    learn(&t, &(lesson){"double pendulum, odd", double_pendulum, 2.5, 3000, 0.02, 0.03});
    learn(&t, &(lesson){"softening springs, odd", softening_spring, 1.5, 3000, 0.02, 0.03});
}

// ---- mistakes ------------------------------------------------------------------------------

static void mistakes_are_reported(void** state) {
    (void)state;
    static const char* const words[] = {"needs 32 weights, not 31", "no velocities",
                                        "3 inputs have as many outputs, not 2", "16385",
                                        "no activation"};
    for (int mistake = 0; mistake < 5; mistake++) {
        net t;
        net_begin(&t, 0, 3, 2, 1, (const uint32_t[]){5});
        uint32_t count = t.nweight;
        if (mistake == 0) count--;
        if (mistake == 1) t.def.guarantee = DISSIPATIVE;
        if (mistake == 2) t.def.guarantee = CONSERVATIVE;
        if (mistake == 3) t.hidden[0] = 16385;
        if (mistake == 4) t.def.activation = NS_ACTIVATION_COUNT;
        if (mistake > 0) count = (uint32_t)nsi_network_weight_count(&t.def, 3, 2);
        ns_graph* g = tracing_begin();
        ns_expr x[3] = {ns_input("a"), ns_input("b"), ns_input("c")}, y[2];
        nsi_network_trace(&t.def, ns_input_array("w", count, false), 3, x, 2, NULL, y);
        assert_false(ns_expr_is_valid(y[0]) || ns_expr_is_valid(y[1]));
        ns_error error;
        assert_int_equal(ns_trace_end(&error), mistake == 3 ? NS_ERR_LIMIT : NS_ERR_ARGUMENT);
        if (!strstr(error.message, words[mistake])) fail_msg("%s", error.message);
        ns_graph_free(g);
    }

    // Without a trace there is nothing to add to.
    net t;
    net_begin(&t, 0, 1, 1, 0, NULL);
    ns_expr x = {0}, y = {0};
    nsi_network_trace(&t.def, (ns_array){0, 0, 2}, 1, &x, 1, NULL, &y);
    assert_false(ns_expr_is_valid(y));
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    for (int k = 0; k < NALLOWED; k++) {
        for (size_t n = 1;; n++) {
            net t;
            net_begin(&t, allowed[k], 2, 2, 2, (const uint32_t[]){4, 3});
            test_alloc counter = {.fail_at = n};
            ns_allocator allocator = test_allocator(&counter);
            ns_graph* g = NULL;
            ns_status status = ns_graph_create(&allocator, &g, NULL);
            if (status == NS_OK) {
                ns_expr f[MAX_OUT];
                assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
                trace_net(&t, false, f);
                status = ns_trace_end(NULL);
                assert_int_equal(status == NS_OK, ns_expr_is_valid(f[0]) && ns_expr_is_valid(f[1]));
                ns_graph_free(g);
            }
            assert_int_equal(counter.live_blocks, 0);
            if (counter.calls < n) {
                assert_int_equal(status, NS_OK);
                break;
            }
            assert_int_equal(status, NS_ERR_NOMEM);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_as_many_as_they_should_be),
        cmocka_unit_test(initial_weights_are_normal),
        cmocka_unit_test(outputs_match_plain_c),
        cmocka_unit_test(scales_of_one_fold),
        cmocka_unit_test(dissipative_networks_never_feed_energy),
        cmocka_unit_test(conservative_forces_have_a_symmetric_jacobian),
        cmocka_unit_test(conservative_work_is_a_difference_of_potential),
        cmocka_unit_test(conservative_inputs_may_be_any_expressions),
        cmocka_unit_test(odd_networks_are_odd_to_the_last_bit),
        cmocka_unit_test(even_networks_ignore_signs),
        cmocka_unit_test(bounded_networks_stay_in_bounds),
        cmocka_unit_test(derivatives_agree),
        cmocka_unit_test(dissipative_networks_learn_drag),
        cmocka_unit_test(conservative_networks_learn_potentials),
        cmocka_unit_test(mistakes_are_reported),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
