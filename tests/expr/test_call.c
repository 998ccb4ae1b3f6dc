// Calls: they compute what the same expressions inline do, in every backend and at every order of
// differentiation, and nothing where they are not wanted.

#include "expr/call.h"
#include "expr/text_rig.h"
#include "expr/trace.h"
#include "neuralsim/neuralsim.h"
#include "support/check.h"
#include "support/tracing.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>

enum { NIN = 3, NOUT = 3, CALLS = 3, MAX_LANES = 64 };

static const double OFF[NOUT] = {7.0, 0.0, -1.5};

// ---- graphs --------------------------------------------------------------------------------

// Something of everything; no output is a product, which a sum outside could be fused with inline.
static void body_of(const ns_expr x[NIN], ns_expr y[NOUT]) {
    ns_expr inverse = ns_div(ns_const(1.0), ns_add(ns_const(2.0), ns_mul(x[0], x[0])));
    ns_expr above = ns_lt(ns_const(0.25), x[1]);
    y[0] = ns_add(ns_sin(ns_mul(x[0], x[1])), ns_mul(x[2], inverse));
    y[1] = ns_select(above, ns_sqrt(x[1]), ns_sub(x[2], ns_exp(x[0])));
    y[2] = ns_add(ns_tanh(ns_add(x[0], x[2])), ns_max(x[1], x[2]));
}

static ns_status make_function(const ns_allocator* allocator, nsi_function** out, ns_error* error) {
    static const char* const in[NIN] = {"x0", "x1", "x2"};
    static const char* const names[NOUT] = {"y0", "y1", "y2"};
    *out = NULL;
    ns_graph* body;
    ns_status status = ns_graph_create(allocator, &body, error);
    if (status != NS_OK) return status;
    ns_trace_begin(body, NULL);
    ns_expr x[NIN], y[NOUT];
    for (int k = 0; k < NIN; k++) x[k] = ns_input(in[k]);
    body_of(x, y);
    for (int k = 0; k < NOUT; k++) ns_output(names[k], y[k]);
    ns_trace_end(NULL);
    return nsi_function_create(body, OFF, out, error);
}

static nsi_function* function_of_test(void) {
    nsi_function* f;
    ns_error error;
    must(make_function(NULL, &f, &error), &error);
    return f;
}

// y = f(x) where `wanted`, as a call or inline.
static void apply(nsi_function* f, ns_expr wanted, const ns_expr x[NIN], ns_expr y[NOUT]) {
    if (!f) {
        body_of(x, y);
        for (int k = 0; k < NOUT; k++) y[k] = ns_select(wanted, y[k], ns_const(OFF[k]));
        return;
    }
    ns_graph* g = nsi_trace_graph();
    nsi_id inputs[NIN] = {x[0].id, x[1].id, x[2].id};
    nsi_id node = nsi_graph_call(g, f, wanted.id, inputs);
    for (uint32_t k = 0; k < NOUT; k++) y[k].id = nsi_graph_out(g, node, k);
}

// Calls on other numbers, each wanted under another condition, the last on results of the first.
static void trace_calls(nsi_function* f) {
    ns_expr x[4] = {ns_input("a"), ns_input("b"), ns_input("c"), ns_input("d")};
    ns_expr y[CALLS][NOUT], sum = ns_const(0.0);
    apply(f, ns_lt(x[0], x[3]), (ns_expr[]){x[0], x[1], x[2]}, y[0]);
    apply(f, ns_lt(x[3], ns_const(0.2)), (ns_expr[]){x[3], x[0], ns_const(0.5)}, y[1]);
    apply(f, ns_and(ns_lt(x[1], ns_const(1.5)), ns_lt(x[0], x[3])),
          (ns_expr[]){y[0][0], y[0][1], x[3]}, y[2]);
    for (int c = 0; c < CALLS; c++) {
        for (int k = 0; k < NOUT; k++) sum = ns_add(ns_mul(sum, x[c]), y[c][k]);
    }
    ns_output("sum", sum);
    ns_output("direct", y[0][1]);
    ns_output("again", y[0][1]);
    ns_output("last", ns_mul(y[2][0], y[2][2]));
}

static ns_graph* calls_graph(nsi_function* f) {
    ns_graph* g = tracing_begin();
    trace_calls(f);
    tracing_end();
    return g;
}

// ---- running -------------------------------------------------------------------------------

static void run_lanes(const ns_graph* g, ns_backend backend, uint32_t lanes, const double* in,
                      double* out) {
    ns_program_options options = ns_default_program_options();
    options.backend = backend;
    options.lanes = lanes;
    ns_program* program;
    ns_error error;
    must(ns_program_build(g, &options, &program, &error), &error);
    void* work = malloc(ns_program_work_size(program));
    memset(work, 0xff, ns_program_work_size(program)); // NaN: what is read was written before
    ns_program_run(program, &(ns_run){.in = in, .out = out, .work = work});
    free(work);
    ns_program_free(program);
}

// Both graphs, and their derivatives, give the same at random points; conditions differ by lane.
static void check_same(const ns_graph* g, const ns_graph* inline_g, double tolerance) {
    uint32_t nin = ns_graph_input_count(g), nout = ns_graph_output_count(g);
    double *in = doubles(nin * MAX_LANES), *out = doubles(nout * MAX_LANES),
           *want = doubles(nout * MAX_LANES);
    ns_rng rng = ns_rng_seed(5);
    for (int trial = 0; trial < 20; trial++) {
        for (uint32_t k = 0; k < nin * MAX_LANES; k++) in[k] = ns_rng_normal(&rng);
        for (uint32_t form = 0; form < NSI_LANE_FORMS; form++) {
            uint32_t lanes = nsi_lane_counts[form];
            run_lanes(inline_g, NS_BACKEND_INTERP, lanes, in, want);
            for (int native = 0; native < 2; native++) {
                ns_backend backend = native ? NS_BACKEND_NATIVE : NS_BACKEND_INTERP;
                run_lanes(g, backend, lanes, in, out);
                for (uint32_t k = 0; k < nout * lanes; k++) {
                    if (tolerance == 0.0) same_bits("call", &out[k], &want[k], 1);
                    close_relative(out[k], want[k], tolerance);
                }
            }
        }
    }
    free(in), free(out), free(want);
}

// ---- tests ---------------------------------------------------------------------------------

static void calls_equal_inline_expressions(void** state) {
    (void)state;
    nsi_function* f = function_of_test();
    ns_graph *g = calls_graph(f), *plain = calls_graph(NULL);
    check_same(g, plain, 0.0);

    // Derivatives: another order of sums, hence other last digits.
    typedef ns_status derive(const ns_graph*, const ns_diff_options*, ns_graph**, ns_error*);
    derive* modes[] = {ns_graph_jvp, ns_graph_vjp};
    for (int first = 0; first < 2; first++) {
        for (int second = 0; second < 2; second++) {
            ns_graph *d[2], *dd[2];
            for (int k = 0; k < 2; k++) {
                must(modes[first](k ? plain : g, NULL, &d[k], NULL), NULL);
                must(modes[second](d[k], NULL, &dd[k], NULL), NULL);
            }
            if (second == 0) check_same(d[0], d[1], 1e-12);
            check_same(dd[0], dd[1], 1e-11);
            for (int k = 0; k < 2; k++) ns_graph_free(d[k]), ns_graph_free(dd[k]);
        }
    }
    ns_graph_free(g);
    ns_graph_free(plain);
    nsi_function_release(f);
}

static void derivatives_are_right_in_all_backends(void** state) {
    (void)state;
    nsi_function* f = function_of_test();
    ns_graph* g = calls_graph(f);
    // All wanted, none wanted, some.
    const double points[3][4] = {
        {-0.3, 0.8, 0.6, 0.1}, {0.9, 1.7, 0.6, 0.5}, {-0.4, 2.0, -0.7, -0.1}};
    for (int k = 0; k < 3; k++) {
        check_function(g, points[k], NULL, &(check_options){.name = "calls", .second = true});
    }
    ns_graph_free(g);
    nsi_function_release(f);
}

// A call that is not wanted raises no exceptions, because it is not executed.
static void inactive_calls_are_not_executed(void** state) {
    (void)state;
    ns_graph* body = tracing_begin();
    ns_output("y", ns_div(ns_const(1.0), ns_input("x")));
    tracing_end();
    nsi_function* f;
    must(nsi_function_create(body, (double[]){3.0}, &f, NULL), NULL);
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x");
    nsi_id node = nsi_graph_call(g, f, ns_ne(x, ns_const(0.0)).id, &x.id);
    ns_output("y", (ns_expr){nsi_graph_out(g, node, 0)});
    tracing_end();
    for (int native = 0; native < 2; native++) {
        for (uint32_t lanes = 1; lanes <= 4; lanes += 3) {
            double in[4] = {0.0, 0.0, 0.0, 0.0}, out[4];
            feclearexcept(FE_ALL_EXCEPT);
            run_lanes(g, native ? NS_BACKEND_NATIVE : NS_BACKEND_INTERP, lanes, in, out);
            assert_false(fetestexcept(FE_DIVBYZERO));
            for (uint32_t l = 0; l < lanes; l++) assert_true(out[l] == 3.0);

            // One lane wants it: it is executed, and the others keep their constant.
            in[lanes - 1] = 2.0;
            run_lanes(g, native ? NS_BACKEND_NATIVE : NS_BACKEND_INTERP, lanes, in, out);
            assert_true(out[lanes - 1] == 0.5);
            for (uint32_t l = 0; l + 1 < lanes; l++) assert_true(out[l] == 3.0);
        }
    }
    ns_graph_free(g);
    nsi_function_release(f);
}

// A select outside guards a call as it guards an operation: what is not chosen has derivative zero,
// also where it is infinite.
static void gates_reach_into_calls(void** state) {
    (void)state;
    ns_graph* body = tracing_begin();
    ns_output("y", ns_sqrt(ns_input("x")));
    tracing_end();
    nsi_function* f;
    must(nsi_function_create(body, NULL, &f, NULL), NULL);
    ns_graph *g = tracing_begin(), *vjp, *second;
    ns_expr x = ns_input("x");
    nsi_id node = nsi_graph_call(g, f, ns_const(1.0).id, &x.id);
    ns_expr root = {nsi_graph_out(g, node, 0)};
    ns_output("y", ns_select(ns_gt(x, ns_const(0.0)), root, ns_mul(x, x)));
    tracing_end();
    must(ns_graph_vjp(g, NULL, &vjp, NULL), NULL);
    must(ns_graph_jvp(vjp, NULL, &second, NULL), NULL);
    double out[2], dd[4];
    run_graph(vjp, (double[]){0.0, 1.0}, out); // sqrt has no derivative here, x^2 has 0
    assert_true(out[1] == 0.0);
    run_graph(vjp, (double[]){-3.0, 1.0}, out);
    assert_true(out[1] == -6.0);
    run_graph(vjp, (double[]){4.0, 1.0}, out);
    close_to("slope", out[1], 0.25, 1e-15);
    run_graph(second, (double[]){0.0, 1.0, 1.0, 0.0}, dd);
    close_to("curvature", dd[3], 2.0, 1e-15);
    ns_graph_free(g);
    ns_graph_free(vjp);
    ns_graph_free(second);
    nsi_function_release(f);
}

static uint32_t steps_of(const ns_graph* g) {
    ns_program* program;
    must(ns_program_build(g, NULL, &program, NULL), NULL);
    uint32_t count = ns_program_get_info(program).step_count;
    ns_program_free(program);
    return count;
}

static ns_graph* many_calls(nsi_function* f, uint32_t count, uint32_t nout) {
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), sum = ns_const(0.0);
    for (uint32_t c = 0; c < count; c++) {
        ns_expr y[NOUT];
        ns_expr shifted = ns_add(x, ns_const(c));
        apply(f, ns_lt(shifted, ns_const(9.0)), (ns_expr[]){shifted, x, x}, y);
        for (uint32_t k = 0; k < nout; k++) sum = ns_add(sum, y[k]);
    }
    ns_output("sum", sum);
    tracing_end();
    return g;
}

static void a_function_is_compiled_once_and_only_as_far_as_it_is_read(void** state) {
    (void)state;
    nsi_function* f = function_of_test();
    uint32_t body = ns_graph_op_count(f->body);
    ns_graph* g[4] = {many_calls(f, 1, NOUT), many_calls(f, 2, NOUT), many_calls(f, 100, NOUT),
                      many_calls(f, 2, 1)};
    // Per call: the shift, the comparison, the block, and three sums.
    assert_int_equal(ns_graph_op_count(g[2]) - ns_graph_op_count(g[1]), 98 * 6);
    assert_true(ns_graph_op_count(g[1]) > body);
    assert_int_equal(steps_of(g[2]) - steps_of(g[1]), 98 * 6);
    assert_true(steps_of(g[3]) + 20 < steps_of(g[1])); // exp and tanh are not needed

    // So are derivatives.
    ns_graph* d[3];
    for (int k = 0; k < 3; k++) must(ns_graph_vjp(g[k], NULL, &d[k], NULL), NULL);
    uint32_t two = steps_of(d[1]), hundred = steps_of(d[2]);
    print_message("100 calls: %u steps; gradient %u, of two calls %u\n", steps_of(g[2]), hundred,
                  two);
    assert_true(hundred < two + 98 * 20);
    for (int k = 0; k < 3; k++) ns_graph_free(d[k]);
    for (int k = 0; k < 4; k++) ns_graph_free(g[k]);
    nsi_function_release(f);
}

static void calls_that_are_never_active_are_constants(void** state) {
    (void)state;
    nsi_function* f = function_of_test();
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), y[NOUT];
    apply(f, ns_const(0.0), (ns_expr[]){x, x, x}, y);
    for (int k = 0; k < NOUT; k++) assert_true(nsi_is_const(g, y[k].id, OFF[k]));
    apply(f, ns_const(1.0), (ns_expr[]){x, x, x}, y);
    assert_int_equal(g->blocks.count, 2);
    apply(f, ns_const(1.0), (ns_expr[]){x, x, x}, y); // the same call
    assert_int_equal(g->blocks.count, 2);
    ns_output("y", y[0]);
    tracing_end();
    double want = sin(0.7 * 0.7) + 0.7 / (2.0 + 0.7 * 0.7), got;
    run_graph(g, (double[]){0.7}, &got);
    close_to("value", got, want, 1e-15);
    ns_graph_free(g);
    nsi_function_release(f);
}

static void text_keeps_functions(void** state) {
    (void)state;
    nsi_function* f = function_of_test();
    ns_graph *g = calls_graph(f), *vjp, *lowered, *copy;
    must(ns_graph_vjp(g, NULL, &vjp, NULL), NULL);
    must(ns_graph_lower(g, true, &lowered, NULL), NULL);
    check_round_trip(g);
    check_round_trip(vjp);
    check_round_trip(lowered);
    ns_text text = print(g);
    assert_non_null(strstr(text.data, "output \"y2\" %"));
    assert_non_null(strstr(text.data, "otherwise -1.5\n"));
    copy = parse(text.data);
    check_same(copy, g, 0.0);
    ns_text_free(&text);
    ns_graph_free(g);
    ns_graph_free(vjp);
    ns_graph_free(lowered);
    ns_graph_free(copy);
    nsi_function_release(f);
}

static void wrong_text_is_refused(void** state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"graph 1\nfunction\nfunction\n", "a function inside a function"},
        {"graph 1\nend\n", "end without function"},
        {"graph 1\nfunction\ninput \"x\"\n", "ends inside a function"},
        {"graph 1\ninput \"x\"\n%0 = input 0\n%1 = block call function=0 (%0)\n", "no function 0"},
        {"graph 1\nfunction\nend\n%0 = const 1\n%1 = block call function=0 (%0 %0)\n",
         "is given 2 inputs; its parameters ask for 1"},
        {"graph 1\nfunction\narray \"w\" 3\nend\n", "no blocks and no arrays"},
        {"graph 1\nfunction\ninput \"x\"\n%0 = input 0\noutput \"y\" %0 or 1\nend\n",
         "expected otherwise"},
        {"graph 1\nfunction\ninput \"x\"\n%0 = input 0\noutput \"y\" %0 otherwise\nend\n",
         "expected a number"},
        {"graph 1\n%0 = const 1\nfunction\noutput \"y\" %0\nend\n", "%0 is not defined"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_graph* g;
        ns_error error;
        ns_status status =
            ns_graph_parse(cases[k].text, strlen(cases[k].text), "t", NULL, &g, &error);
        assert_int_equal(status, NS_ERR_PARSE);
        assert_null(g);
        if (!strstr(error.message, cases[k].message)) fail_msg("%s", error.message);
    }
}

// Trace, derive, print, read, compile and emit; the first failure is returned.
static ns_status everything(const ns_allocator* allocator, ns_error* error) {
    nsi_function* f;
    ns_graph *g = NULL, *vjp = NULL, *copy = NULL;
    ns_text text = {0}, c = {0};
    ns_program *native = NULL, *interp = NULL;
    ns_status status = make_function(allocator, &f, error);
    if (status == NS_OK) status = ns_graph_create(allocator, &g, error);
    if (status == NS_OK) {
        ns_trace_begin(g, NULL);
        trace_calls(f);
        status = ns_trace_end(error);
    }
    nsi_function_release(f);
    ns_program_options options = {.backend = NS_BACKEND_INTERP, .lanes = 4};
    if (status == NS_OK) status = ns_graph_vjp(g, NULL, &vjp, error);
    if (status == NS_OK) status = ns_graph_print(vjp, &text, error);
    if (status == NS_OK) {
        status = ns_graph_parse(text.data, text.size, NULL, allocator, &copy, error);
    }
    if (status == NS_OK) status = ns_program_build(copy, &options, &interp, error);
    options.backend = NS_BACKEND_NATIVE;
    if (status == NS_OK) status = ns_program_build(vjp, &options, &native, error);
    if (status == NS_OK) status = ns_graph_emit_c(g, "f", &c, error);
    ns_text_free(&c);
    ns_text_free(&text);
    ns_program_free(native);
    ns_program_free(interp);
    ns_graph_free(copy);
    ns_graph_free(vjp);
    ns_graph_free(g);
    return status;
}

static void every_failing_allocation_is_reported(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_error error = {0};
        ns_status status = everything(&allocator, &error);
        assert_int_equal(counter.live_blocks, 0);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            print_message("%zu allocations, each failed once\n", n - 1);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
    }
}

static void bodies_are_operations_only(void** state) {
    (void)state;
    ns_graph* body = tracing_begin();
    ns_expr x = ns_input("x"), y;
    ns_dense_layer(ns_input_array("w", ns_dense_size(1, 1), false), 1, &x, 1, NS_IDENTITY, &y);
    ns_output("y", y);
    tracing_end();
    nsi_function* f;
    ns_error error;
    assert_int_equal(nsi_function_create(body, NULL, &f, &error), NS_ERR_UNSUPPORTED);
    assert_null(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_equal_inline_expressions),
        cmocka_unit_test(derivatives_are_right_in_all_backends),
        cmocka_unit_test(inactive_calls_are_not_executed),
        cmocka_unit_test(gates_reach_into_calls),
        cmocka_unit_test(a_function_is_compiled_once_and_only_as_far_as_it_is_read),
        cmocka_unit_test(calls_that_are_never_active_are_constants),
        cmocka_unit_test(text_keeps_functions),
        cmocka_unit_test(wrong_text_is_refused),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(bodies_are_operations_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
