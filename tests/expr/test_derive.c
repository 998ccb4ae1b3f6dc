// Differentiation of graphs and inside a trace: which inputs, which names, which outputs.

#include "expr/block.h"
#include "expr/graph_rig.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/tracing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- gradients inside a trace --------------------------------------------------------------

// f = sin(x) y + x^3: gradient and Hessian by ns_gradient against the closed form.
static void gradient_and_its_gradient(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x[2] = {ns_input("x"), ns_input("y")}, d[2], dd[2];
    ns_expr f = ns_add(ns_mul(ns_sin(x[0]), x[1]), ns_pow(x[0], k(3)));
    ns_gradient(f, 2, x, d);
    ns_output("fx", d[0]);
    ns_output("fy", d[1]);
    ns_gradient(d[0], 2, x, dd);
    ns_output("fxx", dd[0]);
    ns_output("fxy", dd[1]);
    ns_gradient(d[1], 2, x, dd);
    ns_output("fyx", dd[0]);
    ns_output("fyy", dd[1]);
    tracing_end();
    const double a = 0.8, b = -1.7, in[2] = {a, b};
    const double expected[6] = {
        cos(a) * b + 3 * a * a, sin(a), -sin(a) * b + 6 * a, cos(a), cos(a), 0.0};
    double out[6];
    run_graph(g, in, out);
    for (int i = 0; i < 6; i++) assert_true(fabs(out[i] - expected[i]) < 4e-15);
    check_function(g, in, NULL, &(check_options){.name = "gradients", .second = true});
    ns_graph_free(g);
}

static void gradient_for_intermediate_variables(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), u = ns_sin(x), v = ns_mul(u, u), d[3];
    ns_expr f = ns_mul(ns_mul(u, v), x);
    // Each variable is independent of the others: x does not act through u, nor u through v.
    ns_gradient(f, 3, (ns_expr[]){x, u, v}, d);
    ns_output("x", d[0]); // u v
    ns_output("u", d[1]); // v x
    ns_output("v", d[2]); // u x
    ns_gradient(f, 1, &x, d);
    ns_output("all", d[0]); // sin^3 + 3 x sin^2 cos
    ns_gradient(f, 1, &v, d);
    ns_output("v alone", d[0]); // u x
    ns_gradient(f, 1, &f, d);
    ns_output("itself", d[0]); // 1
    ns_expr unrelated = ns_input("other"), later = ns_cos(f);
    ns_gradient(f, 2, (ns_expr[]){unrelated, later}, d);
    ns_output("unrelated", d[0]);
    ns_output("later", d[1]);
    ns_gradient(f, 2, (ns_expr[]){u, u}, d); // the same one twice
    ns_output("u first", d[0]);
    ns_output("u second", d[1]);
    ns_gradient(k(3), 1, &x, d);
    ns_output("of a constant", d[0]);
    ns_gradient(f, 0, NULL, NULL);
    tracing_end();
    const double a = 0.6, s = sin(a), in[2] = {a, 9.0};
    const double total = 3 * s * s * a; // for u alone, v acting through it
    const double expected[11] = {s * s * s, s * s * a, s * a, s * s * s + 3 * a * s * s * cos(a),
                                 s * a,     1.0,       0.0,   0.0,
                                 total,     total,     0.0};
    double out[11];
    run_graph(g, in, out);
    for (int i = 0; i < 11; i++) {
        if (!(fabs(out[i] - expected[i]) < 1e-15)) {
            fail_msg("%s: %.17g instead of %.17g", ns_graph_output_name(g, (uint32_t)i), out[i],
                     expected[i]);
        }
    }
    ns_graph_free(g);
}

static void gradient_through_a_layer(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x[2] = {ns_input("x"), ns_input("y")}, y[1], d[2], z[1];
    ns_array w = ns_input_array("w", 3, false);
    ns_dense_layer(w, 2, x, 1, NS_TANH, y);
    ns_gradient(y[0], 2, x, d);
    ns_output("dx", d[0]);
    ns_output("dy", d[1]);
    // For the output of the block itself: its derivative is that of the activation.
    ns_dense_layer(w, 2, x, 1, NS_IDENTITY, z);
    ns_gradient(y[0], 1, z, d);
    ns_output("dz", d[0]);
    tracing_end();
    const double in[2] = {0.4, -0.9}, weights[3] = {0.7, -0.2, 0.1};
    double out[3];
    ns_program* program = NULL;
    assert_int_equal(ns_program_build(g, NULL, &program, NULL), NS_OK);
    void* work = malloc(ns_program_work_size(program));
    ns_program_run(
        program,
        &(ns_run){.in = in, .out = out, .arrays = (const double* const[]){weights}, .work = work});
    double t = tanh(0.4 * 0.7 + 0.9 * 0.2 + 0.1), slope = 1 - t * t;
    assert_true(fabs(out[0] - 0.7 * slope) < 1e-15);
    assert_true(fabs(out[1] + 0.2 * slope) < 1e-15);
    assert_true(fabs(out[2] - slope) < 1e-15);
    free(work);
    ns_program_free(program);
    check_function(g, in, (const double* const[]){weights},
                   &(check_options){.name = "gradient of a layer", .second = true});
    ns_graph_free(g);
}

// ---- options of differentiation ------------------------------------------------------------

static ns_graph* three_inputs(void) {
    ns_graph* g = tracing_begin();
    ns_expr x[3] = {ns_input("a"), ns_input("b"), ns_input("c")}, y[1];
    ns_array w = ns_input_array("w", 3, false);
    ns_input_array("v", 2, true);
    ns_dense_layer(w, 3, x, 1, NS_IDENTITY, y);
    ns_output("f", ns_mul(ns_mul(x[0], x[1]), x[2]));
    ns_output("g", y[0]);
    tracing_end();
    return g;
}

// The names of all ports, as one text.
static void expect_ports(const ns_graph* g, const char* expected) {
    char text[600] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < ns_graph_input_count(g); i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s ", ns_graph_input_name(g, i));
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "| ");
    for (uint32_t i = 0; i < ns_graph_array_count(g); i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s[%u]%s ",
                                 ns_graph_array_name(g, i), ns_graph_array_size(g, i),
                                 g->arrays.data[i].per_lane ? "*" : "");
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "-> ");
    for (uint32_t i = 0; i < ns_graph_output_count(g); i++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s ", ns_graph_output_name(g, i));
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "| ");
    for (uint32_t i = 0; i < ns_graph_sink_count(g); i++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s[%u]%s ", ns_graph_sink_name(g, i),
                             ns_graph_sink_size(g, i), g->sinks.data[i].per_lane ? "*" : "");
    }
    assert_string_equal(text, expected);
}

static ns_graph* jvp(const ns_graph* g, const ns_diff_options* options) {
    ns_graph* d = NULL;
    ns_error error;
    must(ns_graph_jvp(g, options, &d, &error), &error);
    return d;
}

static ns_graph* vjp(const ns_graph* g, const ns_diff_options* options) {
    ns_graph* d = NULL;
    ns_error error;
    must(ns_graph_vjp(g, options, &d, &error), &error);
    return d;
}

static void options_choose_what_is_differentiated(void** state) {
    (void)state;
    ns_graph *f = three_inputs(), *d;
    const uint32_t wrt[] = {2, 0};
    ns_diff_options options = ns_default_diff_options();

    d = jvp(f, NULL);
    expect_ports(d, "a b c d:a d:b d:c | w[3] v[2]* d:w[3] d:v[2]* -> f g d:f d:g | ");
    ns_graph_free(d);
    d = vjp(f, NULL);
    expect_ports(d, "a b c seed:f seed:g | w[3] v[2]* -> f g d:a d:b d:c | d:w[3] d:v[2]* ");
    ns_graph_free(d);

    options.wrt = wrt;
    options.nwrt = 2;
    d = jvp(f, &options);
    expect_ports(d, "a b c d:a d:c | w[3] v[2]* d:w[3] d:v[2]* -> f g d:f d:g | ");
    ns_graph_free(d);
    options.skip_arrays = true;
    d = vjp(f, &options);
    expect_ports(d, "a b c seed:f seed:g | w[3] v[2]* -> f g d:a d:c | ");
    double out[4];
    ns_graph_free(d);

    options.skip_value = true;
    d = jvp(f, &options);
    expect_ports(d, "a b c d:a d:c | w[3] v[2]* -> d:f d:g | ");
    ns_graph_free(d);

    options = ns_default_diff_options();
    options.per_lane = true;
    d = jvp(f, &options);
    expect_ports(d, "a b c d:a d:b d:c | w[3] v[2]* d:w[3]* d:v[2]* -> f g d:f d:g | ");
    ns_graph_free(d);
    options.skip_inputs = true; // arrays only
    d = vjp(f, &options);
    expect_ports(d, "a b c seed:f seed:g | w[3] v[2]* -> f g | d:w[3]* d:v[2]* ");
    ns_graph_free(d);
    options.skip_inputs = false;
    options.wrt = wrt;
    options.nwrt = 0; // the same
    d = vjp(f, &options);
    expect_ports(d, "a b c seed:f seed:g | w[3] v[2]* -> f g | d:w[3]* d:v[2]* ");
    ns_graph_free(d);

    // The numbers: f = a b c, so the tangent for a and c alone is b c da + a b dc.
    options = ns_default_diff_options();
    options.wrt = wrt;
    options.nwrt = 2;
    options.skip_value = options.skip_arrays = true;
    ns_graph* only_f = tracing_begin();
    ns_expr x[3] = {ns_input("a"), ns_input("b"), ns_input("c")};
    ns_output("f", ns_mul(ns_mul(x[0], x[1]), x[2]));
    tracing_end();
    d = jvp(only_f, &options);
    run_graph(d, (double[]){2.0, 3.0, 5.0, 7.0, 11.0}, out);
    assert_true(out[0] == 3.0 * 5.0 * 7.0 + 2.0 * 3.0 * 11.0);
    ns_graph_free(d);
    d = vjp(only_f, &options);
    run_graph(d, (double[]){2.0, 3.0, 5.0, 10.0}, out);
    assert_true(out[0] == 150.0 && out[1] == 60.0);
    ns_graph_free(d);
    ns_graph_free(only_f);
    ns_graph_free(f);
}

static void wrong_options_are_reported(void** state) {
    (void)state;
    ns_graph *f = three_inputs(), *d = f;
    ns_error error;
    const uint32_t wrt[] = {1, 3};
    ns_diff_options options = ns_default_diff_options();
    options.wrt = wrt;
    options.nwrt = 2;
    assert_int_equal(ns_graph_jvp(f, &options, &d, &error), NS_ERR_ARGUMENT);
    assert_null(d);
    assert_non_null(strstr(error.message, "wrt[1] is input number 3"));
    assert_int_equal(ns_graph_vjp(f, &options, &d, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "wrt[1] is input number 3"));
    ns_graph_free(f);
}

// Repeated derivatives number their prefixes where names would clash.
static void prefixes_are_numbered(void** state) {
    (void)state;
    ns_graph* f = tracing_begin();
    ns_output("f", ns_sin(ns_input("x")));
    tracing_end();
    ns_graph *first = jvp(f, NULL), *second = jvp(first, NULL), *third = jvp(second, NULL);
    expect_ports(first, "x d:x | -> f d:f | ");
    expect_ports(second, "x d:x d2:x d2:d:x | -> f d:f d2:f d2:d:f | ");
    expect_ports(third, "x d:x d2:x d2:d:x d3:x d3:d:x d3:d2:x d3:d2:d:x | "
                        "-> f d:f d2:f d2:d:f d3:f d3:d:f d3:d2:f d3:d2:d:f | ");
    ns_graph_free(first);
    ns_graph_free(second);
    ns_graph_free(third);

    first = vjp(f, NULL), second = vjp(first, NULL), third = jvp(first, NULL);
    expect_ports(first, "x seed:f | -> f d:x | ");
    expect_ports(second, "x seed:f seed2:f seed2:d:x | -> f d:x d2:x d2:seed:f | ");
    expect_ports(third, "x seed:f d:x d:seed:f | -> f d:x d:f d:d:x | ");
    ns_graph_free(first);
    ns_graph_free(second);
    ns_graph_free(third);
    ns_graph_free(f);

    // A name that somebody has taken already.
    f = tracing_begin();
    ns_expr x = ns_input("x");
    ns_output("d:x", ns_mul(x, ns_input("d:x")));
    tracing_end();
    first = vjp(f, NULL);
    expect_ports(first, "x d:x seed2:d:x | -> d:x d2:x d2:d:x | ");
    ns_graph_free(first);
    first = jvp(f, NULL);
    expect_ports(first, "x d:x d2:x d2:d:x | -> d:x d2:d:x | ");
    ns_graph_free(first);
    ns_graph_free(f);

    // A name that becomes too long.
    char name[1024];
    memset(name, 'n', 1022);
    name[1022] = '\0';
    f = tracing_begin();
    ns_output("f", ns_sin(ns_input(name)));
    tracing_end();
    ns_error error;
    assert_int_equal(ns_graph_jvp(f, NULL, &first, &error), NS_ERR_LIMIT);
    assert_null(first);
    assert_int_equal(ns_graph_vjp(f, NULL, &first, &error), NS_ERR_LIMIT);
    assert_null(first);
    ns_graph_free(f);
}

// Rounding and bits stand for functions in a lowered graph: its derivative would be wrong in
// silence.
static void lowered_graphs_are_not_differentiated(void** state) {
    (void)state;
    ns_graph *g = tracing_begin(), *lowered = NULL, *again = NULL, *derivative = NULL;
    ns_output("y", ns_sin(ns_input("x")));
    tracing_end();
    ns_error error;
    ns_text text;
    assert_int_equal(ns_graph_lower(g, false, &lowered, &error), NS_OK);
    assert_int_equal(ns_graph_jvp(lowered, NULL, &derivative, &error), NS_ERR_UNSUPPORTED);
    assert_int_equal(ns_graph_vjp(lowered, NULL, &derivative, &error), NS_ERR_UNSUPPORTED);
    assert_null(derivative);
    // Neither after a round trip through text.
    assert_int_equal(ns_graph_print(lowered, &text, &error), NS_OK);
    assert_int_equal(ns_graph_parse(text.data, text.size, NULL, NULL, &again, &error), NS_OK);
    assert_int_equal(ns_graph_vjp(again, NULL, &derivative, &error), NS_ERR_UNSUPPORTED);
    ns_text_free(&text);
    ns_graph_free(again);
    ns_graph_free(lowered);
    ns_graph_free(g);
}

// Blocks are cheap to write down and have many outputs: their sum must not wrap around.
static void too_many_block_outputs_are_refused(void** state) {
    (void)state;
    enum { WIDTH = 1 << 14, BLOCKS = (1 << 28) / WIDTH + 1 };
    ns_graph *g = tracing_begin(), *derivative = NULL;
    ns_array w = ns_input_array("w", WIDTH, false);
    nsi_id x = ns_input("x").id;
    for (uint32_t k = 0; k < BLOCKS; k++) {
        nsi_block block = {.kind = &nsi_dense,
                           .params = {1, WIDTH},
                           .ninput = 1,
                           .inputs = &x,
                           .source = w.input,
                           .sink = NSI_NONE};
        x = nsi_graph_out(g, nsi_graph_block(g, &block), 0);
    }
    ns_output("y", (ns_expr){x});
    tracing_end();
    ns_error error;
    assert_int_equal(ns_graph_jvp(g, NULL, &derivative, &error), NS_ERR_LIMIT);
    assert_int_equal(ns_graph_vjp(g, NULL, &derivative, &error), NS_ERR_LIMIT);
    assert_null(derivative);
    ns_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_and_its_gradient),
        cmocka_unit_test(gradient_for_intermediate_variables),
        cmocka_unit_test(gradient_through_a_layer),
        cmocka_unit_test(options_choose_what_is_differentiated),
        cmocka_unit_test(wrong_options_are_reported),
        cmocka_unit_test(prefixes_are_numbered),
        cmocka_unit_test(lowered_graphs_are_not_differentiated),
        cmocka_unit_test(too_many_block_outputs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
