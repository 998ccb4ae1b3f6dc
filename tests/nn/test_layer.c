// Dense layers and activations against plain C: values, closed-form first and second derivatives,
// every lane count, weights shared by the lanes or one set each.

#include "expr/kernels.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/tracing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static ns_graph* derivative(const ns_graph* g, bool forward, const ns_diff_options* options) {
    ns_graph* d = NULL;
    ns_error error;
    ns_status status =
        forward ? ns_graph_jvp(g, options, &d, &error) : ns_graph_vjp(g, options, &d, &error);
    must(status, &error);
    return d;
}

// ---- activations ---------------------------------------------------------------------------

// Value, first and second derivative, from the definition, in long double.
static void reference(ns_activation activation, long double x, long double y[3]) {
    long double e, s;
    switch (activation) {
    case NS_TANH:
        y[0] = tanhl(x);
        y[1] = 1 / (coshl(x) * coshl(x));
        y[2] = -2 * y[0] * y[1];
        break;
    case NS_SIGMOID:
        y[0] = 1 / (1 + expl(-x));
        y[1] = y[0] * (1 - y[0]);
        y[2] = y[1] * (1 - 2 * y[0]);
        break;
    case NS_RELU:
        y[0] = x > 0 ? x : 0;
        y[1] = x > 0;
        y[2] = 0;
        break;
    case NS_ELU:
        e = expl(x);
        y[0] = x > 0 ? x : expm1l(x);
        y[1] = x > 0 ? 1 : e;
        y[2] = x > 0 ? 0 : e;
        break;
    case NS_SOFTPLUS:
        y[0] = x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
        y[1] = 1 / (1 + expl(-x));
        y[2] = y[1] * (1 - y[1]);
        break;
    case NS_SOFTSIGN:
        s = 1 + fabsl(x);
        y[0] = x / s;
        y[1] = 1 / (s * s);
        y[2] = (x > 0 ? -2 : 2) / (s * s * s);
        break;
    case NS_SIN:
        y[0] = sinl(x);
        y[1] = cosl(x);
        y[2] = -sinl(x);
        break;
    default:
        y[0] = x;
        y[1] = 1;
        y[2] = 0;
    }
}

// x, dx = 1, d2x = 1 of the jvp of the jvp give value, slope and curvature at once.
static void evaluate_twice(ns_activation activation, double x, double y[3]) {
    ns_graph* f = tracing_begin();
    ns_output("y", ns_activate(activation, ns_input("x")));
    tracing_end();
    ns_graph *first = derivative(f, true, NULL), *second = derivative(first, true, NULL);
    ns_program* program = NULL;
    assert_int_equal(ns_program_build(second, NULL, &program, NULL), NS_OK);
    void* work = malloc(ns_program_work_size(program));
    const double in[4] = {x, 1.0, 1.0, 0.0};
    double out[4];
    ns_program_run(program, &(ns_run){.in = in, .out = out, .work = work});
    y[0] = out[0];
    y[1] = out[1];
    y[2] = out[3];
    free(work);
    ns_program_free(program);
    ns_graph_free(f);
    ns_graph_free(first);
    ns_graph_free(second);
}

// Functions are accurate to about one unit in the last place of results up to 1. Slopes and
// curvatures come from those by a few products and sums, some of which, like 1 - tanh^2, cancel: so
// the error is bounded relative to 1, not to the result.
static void activations_match_their_definition(void** state) {
    (void)state;
    static const double TOLERANCE[3] = {3e-16, 6e-16, 2e-15}; // relative to max(1, |result|)
    static const double points[] = {-40,  -20, -8,   -3,  -1.5, -0.7, -0.1, -1e-4,
                                    1e-9, 0.1, 0.25, 0.9, 2,    5,    19,   39};
    for (int a = 0; a < NS_ACTIVATION_COUNT; a++) {
        double worst[3] = {0};
        for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
            double y[3];
            long double expected[3];
            evaluate_twice((ns_activation)a, points[i], y);
            reference((ns_activation)a, points[i], expected);
            for (int k = 0; k < 3; k++) {
                double error = (double)(fabsl(y[k] - expected[k]) / fmaxl(1, fabsl(expected[k])));
                worst[k] = fmax(worst[k], error);
                if (!(error <= TOLERANCE[k])) {
                    fail_msg("%s, derivative %d at %g: %.17g instead of %.17Lg",
                             ns_activation_name((ns_activation)a), k, points[i], y[k], expected[k]);
                }
            }
        }
        print_message("%-8s errors: value %.1e, slope %.1e, curvature %.1e\n",
                      ns_activation_name((ns_activation)a), worst[0], worst[1], worst[2]);
    }
}

// At 0 some have a kink; nn.h says which side the derivative takes.
static void derivatives_at_zero(void** state) {
    (void)state;
    static const struct {
        ns_activation activation;
        double value, slope, curvature;
    } expected[] = {
        {NS_IDENTITY, 0, 1, 0},
        {NS_TANH, 0, 1, 0},
        {NS_SIGMOID, 0.5, 0.25, 0},
        {NS_RELU, 0, 0, 0},
        {NS_ELU, 0, 1, 1}, // from below: exp
        {NS_SOFTPLUS, 0.69314718055994530942, 0.5, 0.25},
        {NS_SOFTSIGN, 0, 1, 0}, // abs has slope 0 there: between -2 and 2
        {NS_SIN, 0, 1, 0},
    };
    assert_int_equal(sizeof expected / sizeof *expected, NS_ACTIVATION_COUNT);
    for (int i = 0; i < NS_ACTIVATION_COUNT; i++) {
        double y[3];
        evaluate_twice(expected[i].activation, 0.0, y);
        double wanted[3] = {expected[i].value, expected[i].slope, expected[i].curvature};
        for (int k = 0; k < 3; k++) {
            if (!(fabs(y[k] - wanted[k]) <= 1.2e-16)) {
                fail_msg("%s, derivative %d at 0: %.17g instead of %.17g",
                         ns_activation_name(expected[i].activation), k, y[k], wanted[k]);
            }
        }
    }
}

// Far out nothing overflows, and no derivative is NaN.
static void activations_are_finite_far_out(void** state) {
    (void)state;
    for (int a = 0; a < NS_ACTIVATION_COUNT; a++) {
        if (a == NS_SIN) continue; // no business there
        for (int sign = -1; sign <= 1; sign += 2) {
            double y[3];
            long double expected[3];
            evaluate_twice((ns_activation)a, sign * 1e4, y);
            reference((ns_activation)a, sign * 1e4L, expected);
            for (int k = 0; k < 3; k++) {
                assert_true(fabsl(y[k] - expected[k]) <= 4e-16L * fmaxl(1, fabsl(expected[k])));
            }
        }
    }
}

static void activations_have_names(void** state) {
    (void)state;
    ns_error error;
    for (int a = 0; a < NS_ACTIVATION_COUNT; a++) {
        ns_activation found = NS_ACTIVATION_COUNT;
        assert_int_equal(ns_activation_find(ns_activation_name((ns_activation)a), &found, &error),
                         NS_OK);
        assert_int_equal(found, a);
    }
    assert_string_equal(ns_activation_name(NS_SOFTPLUS), "softplus");
    assert_null(ns_activation_name(NS_ACTIVATION_COUNT));
    assert_null(ns_activation_name((ns_activation)-1));
    ns_activation untouched = NS_ELU;
    assert_int_equal(ns_activation_find("swish", &untouched, &error), NS_ERR_ARGUMENT);
    assert_int_equal(untouched, NS_ELU);
    assert_non_null(strstr(error.message, "\"swish\""));
    assert_non_null(strstr(error.message, "softsign")); // the list of those there are
}

// ---- layers --------------------------------------------------------------------------------

enum { MAX_LANES = 64 };

// A layer and everything about it in plain C, for one lane.
typedef struct layer {
    uint32_t nin, nout;
    bool bias, per_lane;
    ns_activation activation;
} layer;

static uint32_t weight_count(const layer* t) {
    return (t->nin + t->bias) * t->nout;
}

// y = act(W'x + b); for seeds s: dx = W (act' s), dw = x (act' s)'.
static void plain_layer(const layer* t, const double* w, const double* x, const double* s,
                        double* y, double* dx, double* dw) {
    for (uint32_t j = 0; j < t->nin; j++) dx[j] = 0.0;
    for (uint32_t i = 0; i < t->nout; i++) {
        long double z = 0, act[3];
        for (uint32_t j = 0; j < t->nin; j++) z += (long double)w[j * t->nout + i] * x[j];
        if (t->bias) z += w[t->nin * t->nout + i];
        reference(t->activation, z, act);
        y[i] = (double)act[0];
        double slope = (double)act[1] * s[i];
        for (uint32_t j = 0; j < t->nin; j++) {
            dx[j] += slope * w[j * t->nout + i];
            dw[j * t->nout + i] = slope * x[j];
        }
        if (t->bias) dw[t->nin * t->nout + i] = slope;
    }
}

static ns_graph* trace_layer(const layer* t) {
    ns_graph* g = tracing_begin();
    ns_expr* x = calloc(t->nin, sizeof *x);
    ns_expr* y = calloc(t->nout, sizeof *y);
    char name[16];
    for (uint32_t j = 0; j < t->nin; j++) {
        snprintf(name, sizeof name, "x%u", j);
        x[j] = ns_input(name);
    }
    ns_array w = ns_input_array("w", weight_count(t) + 5, t->per_lane);
    ns_dense_layer(ns_array_slice(w, 5, weight_count(t)), t->nin, x, t->nout, t->activation, y);
    for (uint32_t i = 0; i < t->nout; i++) {
        snprintf(name, sizeof name, "y%u", i);
        ns_output(name, y[i]);
    }
    tracing_end();
    free(x);
    free(y);
    return g;
}

static double* random_numbers(ns_rng* rng, size_t count, double size) {
    double* x = malloc((count + 1) * sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = ns_rng_uniform(rng, -size, size);
    return x;
}

// Sums of up to 65 products of numbers around 1 in double against long double; sums over 64 lanes.
static const double LAYER_TOLERANCE = 2e-14;

static double worst_layer_error;

static void expect_close(const layer* t, const char* what, uint32_t lanes, double got,
                         double expected) {
    double error = fabs(got - expected) / fmax(1.0, fabs(expected));
    worst_layer_error = fmax(worst_layer_error, error);
    if (!(error <= LAYER_TOLERANCE)) {
        fail_msg("%u x %u %s layer, %s, %u lanes: %s is %.17g instead of %.17g", t->nin, t->nout,
                 ns_activation_name(t->activation), t->bias ? "biases" : "no biases", lanes, what,
                 got, expected);
    }
}

// Value and gradient of one layer in every lane of one program.
static void run_layer(const layer* t, const ns_graph* vjp, ns_backend backend, uint32_t lanes,
                      bool sink_per_lane, ns_rng* rng) {
    uint32_t nw = weight_count(t);
    ns_program_options options = {.backend = backend, .lanes = lanes};
    ns_program* program = NULL;
    assert_int_equal(ns_program_build(vjp, &options, &program, NULL), NS_OK);
    double* in = random_numbers(rng, (size_t)(t->nin + t->nout) * lanes, 1.0);
    double* w = random_numbers(rng, (size_t)(nw + 5) * (t->per_lane ? lanes : 1), 0.8);
    double* out = malloc((size_t)(t->nout + t->nin) * lanes * sizeof *out);
    double* sink = calloc((size_t)(nw + 5) * lanes, sizeof *sink);
    void* work = malloc(ns_program_work_size(program));
    ns_program_run(program, &(ns_run){.in = in,
                                      .out = out,
                                      .arrays = (const double* const[]){w},
                                      .sinks = (double* const[]){sink},
                                      .work = work});

    double x[64], s[64], y[64], dx[64], wl[65 * 64], dw[65 * 64];
    double* sum = calloc(nw, sizeof *sum);
    for (uint32_t l = 0; l < lanes; l++) {
        for (uint32_t j = 0; j < t->nin; j++) x[j] = in[j * lanes + l];
        for (uint32_t i = 0; i < t->nout; i++) s[i] = in[(t->nin + i) * lanes + l];
        for (uint32_t e = 0; e < nw; e++) wl[e] = t->per_lane ? w[(5 + e) * lanes + l] : w[5 + e];
        plain_layer(t, wl, x, s, y, dx, dw);
        for (uint32_t i = 0; i < t->nout; i++) {
            expect_close(t, "an output", lanes, out[i * lanes + l], y[i]);
        }
        for (uint32_t j = 0; j < t->nin; j++) {
            expect_close(t, "a derivative for an input", lanes, out[(t->nout + j) * lanes + l],
                         dx[j]);
        }
        for (uint32_t e = 0; e < nw; e++) {
            sum[e] += dw[e];
            if (sink_per_lane) {
                expect_close(t, "a derivative for a weight", lanes, sink[(5 + e) * lanes + l],
                             dw[e]);
            }
        }
    }
    for (uint32_t e = 0; e < nw && !sink_per_lane; e++) {
        expect_close(t, "a sum of derivatives for a weight", lanes, sink[5 + e], sum[e]);
    }
    // The first five weights belong to nobody.
    for (uint32_t e = 0; e < 5 * (sink_per_lane ? lanes : 1); e++) assert_true(sink[e] == 0.0);
    free(sum);
    free(in);
    free(w);
    free(out);
    free(sink);
    free(work);
    ns_program_free(program);
}

static void layers_match_plain_c(void** state) {
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1}, {2, 3},  {3, 4},  {5, 7},
                                        {4, 8}, {9, 13}, {7, 29}, {64, 64}};
    ns_rng rng = ns_rng_seed(6);
    uint32_t count = 0;
    for (int a = 0; a < NS_ACTIVATION_COUNT; a++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            for (int variant = 0; variant < 8; variant++) {
                layer t = {.nin = sizes[k][0],
                           .nout = sizes[k][1],
                           .bias = variant & 1,
                           .per_lane = (variant >> 1) & 1,
                           .activation = (ns_activation)a};
                bool apart = (variant >> 2) & 1;
                if (k > 3 && a != NS_TANH) continue; // the sizes do not care for the activation
                ns_diff_options options = ns_default_diff_options();
                options.per_lane = apart;
                ns_graph *f = trace_layer(&t), *vjp = derivative(f, false, &options);
                for (uint32_t form = 0; form < NSI_LANE_FORMS; form++) {
                    uint32_t lanes = nsi_lane_counts[form];
                    bool sink_per_lane = t.per_lane || apart;
                    run_layer(&t, vjp, NS_BACKEND_INTERP, lanes, sink_per_lane, &rng);
                    run_layer(&t, vjp, NS_BACKEND_NATIVE, lanes, sink_per_lane, &rng);
                    count += 2;
                }
                ns_graph_free(f);
                ns_graph_free(vjp);
            }
        }
    }
    print_message("%u programs, largest error %.1e\n", count, worst_layer_error);
}

// A network of three layers through the derivative check, second derivatives included.
static void networks_pass_the_derivative_check(void** state) {
    (void)state;
    enum { NIN = 3, WIDTH = 5, NOUT = 2 };
    const uint32_t n1 = ns_dense_size(NIN, WIDTH), n2 = WIDTH * WIDTH,
                   n3 = ns_dense_size(WIDTH, NOUT);
    const double x[NIN] = {0.6, -0.3, 1.2};
    double* weights = calloc(n1 + n2 + n3, sizeof *weights);
    ns_rng rng = ns_rng_seed(7);
    for (uint32_t i = 0; i < n1 + n2 + n3; i++) weights[i] = ns_rng_uniform(&rng, -0.7, 0.7);
    check_batch* batch = check_batch_create();
    ns_graph* graphs[2 * NS_ACTIVATION_COUNT];
    for (int k = 0; k < 2 * NS_ACTIVATION_COUNT; k++) {
        ns_activation activation = (ns_activation)(k / 2);
        graphs[k] = tracing_begin();
        ns_expr in[NIN] = {ns_input("a"), ns_input("b"), ns_input("c")};
        ns_expr first[WIDTH], second[WIDTH], out[NOUT];
        ns_array w = ns_input_array("w", n1 + n2 + n3, k % 2 == 1);
        ns_dense_layer(ns_array_slice(w, 0, n1), NIN, in, WIDTH, activation, first);
        ns_dense_layer(ns_array_slice(w, n1, n2), WIDTH, first, WIDTH, activation, second);
        ns_dense_layer(ns_array_slice(w, n1 + n2, n3), WIDTH, second, NOUT, NS_IDENTITY, out);
        ns_output("y", out[0]);
        ns_output("z", ns_mul(out[0], out[1]));
        tracing_end();
        check_options options = {.name = ns_activation_name(activation),
                                 .second = true,
                                 .c = k % 2 == 0 ? CHECK_C_ALL : CHECK_C_VALUE};
        check_batch_add(batch, graphs[k], x, (const double* const[]){weights}, &options);
    }
    check_report report = check_batch_finish(batch);
    assert_int_equal(report.undecided, 0);
    for (int k = 0; k < 2 * NS_ACTIVATION_COUNT; k++) ns_graph_free(graphs[k]);
    free(weights);
}

static void array_elements_are_numbers(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), element[3];
    ns_array w = ns_input_array("w", 5, false);
    ns_array_elements(ns_array_slice(w, 1, 3), element);
    ns_output("y", ns_mul(x, ns_add(ns_mul(element[0], element[1]), element[2])));
    tracing_end();
    const double weights[5] = {100.0, 2.0, 3.0, 5.0, 100.0}, in[1] = {7.0};
    double out;
    ns_program* program = NULL;
    assert_int_equal(ns_program_build(g, NULL, &program, NULL), NS_OK);
    void* work = malloc(ns_program_work_size(program));
    ns_program_run(
        program,
        &(ns_run){.in = in, .out = &out, .arrays = (const double* const[]){weights}, .work = work});
    assert_true(out == 7.0 * 11.0);
    free(work);
    ns_program_free(program);
    check_function(g, in, (const double* const[]){weights}, &(check_options){.second = true});
    ns_graph_free(g);
}

// ---- mistakes ------------------------------------------------------------------------------

static void wrong_sizes_are_reported(void** state) {
    (void)state;
    static const uint32_t wrong[] = {1, 5, 7, 8, 10, 100};
    ns_expr y[3];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) { // 2 x 3 has 6 or 9 weights
        ns_graph* g = tracing_begin();
        ns_expr x[2] = {ns_input("x"), ns_input("y")};
        ns_dense_layer(ns_input_array("w", wrong[i], false), 2, x, 3, NS_TANH, y);
        assert_false(ns_expr_is_valid(y[0]) || ns_expr_is_valid(y[2]));
        ns_error error;
        assert_int_equal(ns_trace_end(&error), NS_ERR_ARGUMENT);
        char text[60];
        snprintf(text, sizeof text, "needs 9 weights (6 without biases), not %u", wrong[i]);
        assert_non_null(strstr(error.message, text));
        ns_graph_free(g);
    }
    assert_int_equal(ns_dense_size(2, 3), 9);
}

static void other_mistakes_are_reported(void** state) {
    (void)state;
    for (int mistake = 0; mistake < 5; mistake++) {
        ns_graph* g = tracing_begin();
        ns_expr x[2] = {ns_input("x"), ns_input("y")}, y[3];
        ns_array w = ns_input_array("w", 9, false);
        ns_activation activation = NS_TANH;
        uint32_t nin = 2, nout = 3;
        if (mistake == 0) activation = NS_ACTIVATION_COUNT;
        if (mistake == 1) x[1] = (ns_expr){12345}; // of another graph
        if (mistake == 2) w.input = 1;             // no such array
        if (mistake == 3) w.offset = 1;            // reaches beyond the end
        if (mistake == 4) nin = nout = w.size = 0;
        ns_dense_layer(w, nin, x, nout, activation, y);
        ns_error error;
        assert_int_equal(ns_trace_end(&error), NS_ERR_ARGUMENT);
        assert_true(error.message[0] != '\0');
        ns_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_match_their_definition),
        cmocka_unit_test(derivatives_at_zero),
        cmocka_unit_test(activations_are_finite_far_out),
        cmocka_unit_test(activations_have_names),
        cmocka_unit_test(layers_match_plain_c),
        cmocka_unit_test(networks_pass_the_derivative_check),
        cmocka_unit_test(array_elements_are_numbers),
        cmocka_unit_test(wrong_sizes_are_reported),
        cmocka_unit_test(other_mistakes_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
