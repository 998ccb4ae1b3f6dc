// Networks as expressions: shapes, initial weights, outputs and derivatives against plain C.

#include "neuralsim/program.h"
#include "nn/network_rig.h"
#include "nn/network_trace.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/residual.h"
#include "support/testalloc.h"
#include "support/tracing.h"

#include <math.h>
#include <stdio.h>

// Every set of structures that is allowed.
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

// ---- shapes and initial weights ------------------------------------------------------------

static void weights_are_as_many_as_they_should_be(void** state) {
    (void)state;
    static const struct {
        unsigned structure;
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
        net_begin(&t, cases[i].structure, cases[i].nin, cases[i].nout, cases[i].nhidden,
                  cases[i].hidden);
        t.def.no_bias = cases[i].no_bias;
        assert_int_equal(nsi_network_weight_count(&t.def, t.nin, t.nout), cases[i].count);
        // Layers follow each other, the outputs of one are the inputs of the next.
        nsi_layer layers[NSI_MAX_LAYERS];
        uint32_t n = nsi_network_layers(&t.def, t.nin, t.nout, layers), offset = 0;
        assert_int_equal(n, cases[i].nhidden + 1);
        for (uint32_t k = 0; k < n; k++) {
            assert_int_equal(layers[k].offset, offset);
            bool constant = k + 1 == n && (cases[i].structure & CONSERVATIVE);
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
    t.def.structure = DISSIPATIVE;
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
            long double sum = 0, si = pick(def->conjugate_scale, def->nconjugate_scale, i, 1.0);
            for (uint32_t j = 0; j < t->nout; j++) {
                long double product = i == j ? 1e-6L : 0;
                for (uint32_t k = 0; k < t->nout; k++) product += L[i][k] * L[j][k];
                sum += product * v[j] / pick(def->conjugate_scale, def->nconjugate_scale, j, 1.0);
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
            t.input_scale[i] = t.output_scale[i] = t.conjugate_scale[i] = 1.0;
        }
        t.def.input_shift = t.input_shift, t.def.ninput_shift = 1;
        t.def.input_scale = t.input_scale, t.def.ninput_scale = 3;
        t.def.output_scale = t.output_scale, t.def.noutput_scale = 3;
        t.def.conjugate_scale = t.conjugate_scale, t.def.nconjugate_scale = 3;
        ns_graph* with = net_graph(&t, false);
        assert_int_equal(ns_graph_op_count(with), ns_graph_op_count(without));
        if (allowed[n] == 0) assert_int_equal(ns_graph_op_count(with), 1 + 4 + 1); // 2 blocks, tanh
        ns_graph_free(with);
        ns_graph_free(without);
    }
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
        unsigned structure = allowed[n / 2];
        net t;
        weights w;
        uint32_t nin = 3, nout = structure & CONSERVATIVE ? 3 : 2;
        net_begin(&t, structure, nin, nout, 2, (const uint32_t[]){5, 4});
        t.def.activation = activations[n % 2 ? n / 2 % 4 : 0];
        random_scales(&t, &rng, true);
        for (int i = 0; i < 3; i++) {
            t.input_scale[i] = 0.8 + 0.3 * i;
            t.output_scale[i] = 1.3 - 0.2 * i;
            t.conjugate_scale[i] = 0.7 + 0.2 * i;
            t.input_shift[i] = 0.1 * i;
        }
        t.def.bound = 0.9;
        weights_random(&w, &t, &rng, 0.7);
        for (int i = 0; i < 3; i++) w.nobody[i] = 1.0;
        graphs[n] = net_graph(&t, n % 2 == 1);
        snprintf(names[n], sizeof names[n], "%s, %s", guarantee_name(structure),
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
        if (mistake == 1) t.def.structure = DISSIPATIVE;
        if (mistake == 2) t.def.structure = CONSERVATIVE;
        if (mistake == 3) t.hidden[0] = 16385;
        if (mistake == 4) t.def.activation = NS_ACTIVATION_COUNT;
        if (mistake > 0) count = (uint32_t)nsi_network_weight_count(&t.def, 3, 2);
        ns_graph* g = tracing_begin();
        ns_expr x[3] = {ns_input("a"), ns_input("b"), ns_input("c")}, y[2];
        nsi_network_trace(&t.def, ns_input_array("w", count, false), 3, x, 2, NULL, y, NULL);
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
    nsi_network_trace(&t.def, (ns_array){0, 0, 2}, 1, &x, 1, NULL, &y, NULL);
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
        cmocka_unit_test(derivatives_agree),
        cmocka_unit_test(mistakes_are_reported),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
