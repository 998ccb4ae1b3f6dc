// Programs and emitted C: memory, failures, limits, threads. That they compute the right numbers is
// the business of test_random_graphs.c; here are the shapes a random graph does not take.

#include "expr/code.h"
#include "expr/program_rig.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/ccode.h"
#include "support/check.h"
#include "support/malloccount.h"
#include "support/testalloc.h"
#include "support/tracing.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

// ---- graphs --------------------------------------------------------------------------------

static const double mixture_point[] = {0.7, -0.4};

static const double mixture_weights[] = {0.5, -0.3, 0.8, 0.1,  -0.9, 0.4, 0.2,
                                         0.6, -0.7, 0.3, -0.2, 0.9,  0.1};

// ---- memory --------------------------------------------------------------------------------

static void running_allocates_nothing(void** state) {
    (void)state;
    enum { MAX_LANES = 64, SIZE = 64 * MAX_LANES };
    static double in[SIZE], out[SIZE], weights[SIZE], gradient[SIZE];
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_graph *f = mixture(&allocator), *vjp = NULL;
    assert_int_equal(ns_graph_vjp(f, NULL, &vjp, NULL), NS_OK);
    for (int i = 0; i < SIZE; i++) in[i] = weights[i] = 0.01 * (i % 100) - 0.3;

#ifdef COUNTS_MALLOC
    size_t before = malloc_calls;
    void* volatile probe = malloc(1); // volatile: compilers drop a malloc that nobody uses
    free(probe);
    assert_int_equal(malloc_calls, before + 1); // the counter counts
#endif
    for (uint32_t form = 0; form < NSI_LANE_FORMS; form++) {
        for (ns_backend backend = NS_BACKEND_INTERP; backend <= NS_BACKEND_NATIVE; backend++) {
            ns_program* program = build(vjp, backend, nsi_lane_counts[form]);
            ns_run run = {.in = in,
                          .out = out,
                          .arrays = (const double* const[]){weights},
                          .sinks = (double* const[]){gradient},
                          .work = malloc(ns_program_work_size(program))};
            size_t calls = counter.calls, mallocs = malloc_calls;
            for (int i = 0; i < 10; i++) ns_program_run(program, &run);
            assert_int_equal(counter.calls, calls);
            assert_true(malloc_calls == mallocs);
            free(run.work);
            ns_program_free(program);
        }
    }
    ns_graph_free(f);
    ns_graph_free(vjp);
    assert_int_equal(counter.live_blocks, 0);
}

// What is done with memory that may fail, on a graph that was built without failing; what it makes
// is freed again. `made` says whether there was a result.
typedef ns_status action(const ns_allocator* allocator, const ns_graph* f, bool* made,
                         ns_error* error);

static ns_status do_trace(const ns_allocator* allocator, const ns_graph* f, bool* made,
                          ns_error* error) {
    (void)f;
    ns_graph* g = NULL;
    ns_status status = ns_graph_create(allocator, &g, error);
    if (status == NS_OK) {
        status = trace_mixture(g, error);
        // A graph that failed says so again to whoever uses it.
        ns_program* program = NULL;
        ns_graph* derivative = NULL;
        ns_text text;
        if (status != NS_OK) {
            assert_int_equal(ns_program_build(g, NULL, &program, NULL), status);
            assert_int_equal(ns_graph_jvp(g, NULL, &derivative, NULL), status);
            assert_int_equal(ns_graph_vjp(g, NULL, &derivative, NULL), status);
            assert_int_equal(ns_graph_emit_c(g, "f", &text, NULL), status);
        }
    }
    *made = status == NS_OK;
    ns_graph_free(g);
    return status;
}

static ns_status do_jvp(const ns_allocator* allocator, const ns_graph* f, bool* made,
                        ns_error* error) {
    (void)allocator;
    ns_graph* g = NULL;
    ns_status status = ns_graph_jvp(f, NULL, &g, error);
    *made = g != NULL;
    ns_graph_free(g);
    return status;
}

static ns_status do_vjp(const ns_allocator* allocator, const ns_graph* f, bool* made,
                        ns_error* error) {
    (void)allocator;
    ns_graph* g = NULL;
    ns_status status = ns_graph_vjp(f, NULL, &g, error);
    *made = g != NULL;
    ns_graph_free(g);
    return status;
}

static ns_status do_build(const ns_graph* f, ns_backend backend, bool* made, ns_error* error) {
    ns_program_options options = ns_default_program_options();
    options.backend = backend;
    options.lanes = 4;
    ns_program* program = NULL;
    ns_status status = ns_program_build(f, &options, &program, error);
    *made = program != NULL;
    if (program && nsi_cpu_has_avx2_fma()) { // never the other backend for want of memory
        assert_int_equal(ns_program_get_info(program).backend, backend);
    }
    ns_program_free(program);
    return status;
}

static ns_status do_interp(const ns_allocator* allocator, const ns_graph* f, bool* made,
                           ns_error* error) {
    (void)allocator;
    return do_build(f, NS_BACKEND_INTERP, made, error);
}

static ns_status do_native(const ns_allocator* allocator, const ns_graph* f, bool* made,
                           ns_error* error) {
    (void)allocator;
    return do_build(f, NS_BACKEND_NATIVE, made, error);
}

static ns_status do_emit(const ns_allocator* allocator, const ns_graph* f, bool* made,
                         ns_error* error) {
    (void)allocator;
    ns_text text;
    ns_status status = ns_graph_emit_c(f, "f", &text, error);
    *made = text.data != NULL;
    ns_text_free(&text);
    return status;
}

static void every_failing_allocation_is_reported(void** state) {
    (void)state;
    static const struct {
        const char* name;
        action* act;
    } actions[] = {{"trace", do_trace},   {"jvp", do_jvp},       {"vjp", do_vjp},
                   {"interp", do_interp}, {"native", do_native}, {"emit_c", do_emit}};
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_graph *f = mixture(&allocator), *vjp = NULL;
    assert_int_equal(ns_graph_vjp(f, NULL, &vjp, NULL), NS_OK); // has sinks, so that f has more
    for (size_t a = 0; a < sizeof actions / sizeof *actions; a++) {
        size_t blocks = counter.live_blocks, bytes = counter.live_bytes, n = 0;
        for (bool failed = true; failed;) {
            ns_error error = {0};
            bool made;
            n++;
            counter.calls = 0;
            counter.fail_at = n;
            ns_status status = actions[a].act(&allocator, vjp, &made, &error);
            counter.fail_at = 0;
            failed = counter.calls >= n;
            if (failed) {
                if (status != NS_ERR_NOMEM || error.status != NS_ERR_NOMEM || !error.message[0]) {
                    fail_msg("%s: allocation %zu fails, status %d, \"%s\"", actions[a].name, n,
                             (int)status, error.message);
                }
                assert_false(made);
            } else {
                assert_int_equal(status, NS_OK);
                assert_true(made);
            }
            if (counter.live_blocks != blocks || counter.live_bytes != bytes) {
                fail_msg("%s: leaks when allocation %zu fails", actions[a].name, n);
            }
        }
        assert_true(n > 5); // it did allocate
        print_message("%s: %zu allocations\n", actions[a].name, n - 1);
    }
    ns_graph_free(f);
    ns_graph_free(vjp);
    assert_int_equal(counter.live_blocks, 0);
}

static void a_program_outlives_its_graph(void** state) {
    (void)state;
    ns_graph* g = mixture(NULL);
    ns_program* programs[] = {build(g, NS_BACKEND_INTERP, 1), build(g, NS_BACKEND_NATIVE, 1)};
    ns_graph_free(g);
    double out[2][2];
    for (int i = 0; i < 2; i++) {
        void* work = malloc(ns_program_work_size(programs[i]));
        ns_program_run(programs[i], &(ns_run){.in = mixture_point,
                                              .out = out[i],
                                              .arrays = (const double* const[]){mixture_weights},
                                              .work = work});
        free(work);
        ns_program_free(programs[i]);
    }
    assert_true(isfinite(out[0][0]) && isfinite(out[0][1]));
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    ns_program_free(NULL);
    ns_text_free(NULL);
    ns_text_free(&(ns_text){0});
}

// ---- options and backends ------------------------------------------------------------------

static void options_are_checked(void** state) {
    (void)state;
    ns_graph* g = mixture(NULL);
    ns_error error;
    ns_program* program = NULL;
    static const uint32_t bad_lanes[] = {0, 2, 3, 5, 8, 32, 63, 128, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad_lanes / sizeof *bad_lanes; i++) {
        ns_program_options options = ns_default_program_options();
        options.lanes = bad_lanes[i];
        assert_int_equal(ns_program_build(g, &options, &program, &error), NS_ERR_ARGUMENT);
        assert_non_null(strstr(error.message, "options.lanes"));
        assert_null(program);
    }
    ns_program_options options = ns_default_program_options();
    options.backend = (ns_backend)7;
    assert_int_equal(ns_program_build(g, &options, &program, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "options.backend"));
    assert_string_equal(ns_backend_name(NS_BACKEND_AUTO), "auto");
    assert_string_equal(ns_backend_name(NS_BACKEND_INTERP), "interp");
    assert_string_equal(ns_backend_name(NS_BACKEND_NATIVE), "native");
    assert_string_equal(ns_backend_name((ns_backend)7), "unknown");
    ns_graph_free(g);
}

static void info_tells_what_was_built(void** state) {
    (void)state;
    bool has_native = nsi_cpu_has_avx2_fma();
    ns_graph* g = mixture(NULL);
    for (uint32_t form = 0; form < NSI_LANE_FORMS; form++) {
        uint32_t lanes = nsi_lane_counts[form];
        for (ns_backend asked = NS_BACKEND_AUTO; asked <= NS_BACKEND_NATIVE; asked++) {
            ns_program* program = build(g, asked, lanes);
            ns_program_info info = ns_program_get_info(program);
            bool native = asked != NS_BACKEND_INTERP && has_native && lanes <= 4;
            assert_int_equal(info.backend, native ? NS_BACKEND_NATIVE : NS_BACKEND_INTERP);
            assert_int_equal(info.code_size > 0, native);
            assert_int_equal(info.lanes, lanes);
            assert_int_equal(info.input_count, 2);
            assert_int_equal(info.output_count, 2);
            assert_true(info.step_count > ns_graph_op_count(g) / 2);
            assert_true(info.build_seconds > 0.0 && info.build_seconds < 60.0);
            // Only who asked for native is told why there is none.
            bool refused = asked == NS_BACKEND_NATIVE && !native;
            assert_int_equal(info.note[0] != '\0', refused);
            if (refused && has_native) assert_non_null(strstr(info.note, "1 or 4 lanes"));
            ns_program_free(program);
        }
    }
    ns_program* program = NULL;
    assert_int_equal(ns_program_build(g, NULL, &program, NULL), NS_OK); // defaults
    assert_int_equal(ns_program_get_info(program).lanes, 1);
    ns_program_free(program);
    ns_graph_free(g);
}

// ---- shapes --------------------------------------------------------------------------------

static void outputs_may_be_anything(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), y = ns_input("y"), z = ns_mul(x, y), layer[2];
    ns_array w = ns_input_array("w", 4, false);
    ns_dense_layer(w, 2, (ns_expr[]){x, z}, 2, NS_IDENTITY, layer);
    ns_output("an input", y);
    ns_output("a constant", ns_const(-2.5));
    ns_output("a result", z);
    ns_output("the result again", z);
    ns_output("the input again", y);
    ns_output("of a block", layer[1]);
    ns_output("of the block again", layer[1]);
    ns_output("used and output", ns_add(layer[1], z));
    ns_output("infinity", ns_const(INFINITY));
    ns_output("not a number", ns_const(NAN));
    ns_output("minus zero", ns_const(-0.0));
    ns_output("tiny", ns_const(-0x1p-1074));
    tracing_end();
    const double in[2] = {3.0, -0.5}, weights[4] = {1.0, 2.0, 3.0, 4.0};
    double out[12];
    for (ns_backend backend = NS_BACKEND_INTERP; backend <= NS_BACKEND_NATIVE; backend++) {
        ns_program* program = build(g, backend, 1);
        void* work = malloc(ns_program_work_size(program));
        ns_program_run(program, &(ns_run){.in = in,
                                          .out = out,
                                          .arrays = (const double* const[]){weights},
                                          .work = work});
        // layer[1] = 2 x + 4 z
        const double expected[12] = {-0.5, -2.5, -1.5,     -1.5, -0.5, 0.0,
                                     0.0,  -1.5, INFINITY, NAN,  -0.0, -0x1p-1074};
        for (int i = 0; i < 12; i++) assert_true(check_same_bits(out[i], expected[i]));
        free(work);
        ns_program_free(program);
    }
    check_function(g, in, (const double* const[]){weights},
                   &(check_options){.name = "outputs", .at_kink = true, .second = true});
    ns_graph_free(g);
}

static void graphs_without_outputs_or_inputs(void** state) {
    (void)state;
    ns_graph* nothing = tracing_begin();
    tracing_end();
    check_function(nothing, NULL, NULL, &(check_options){.name = "nothing", .may_vanish = true});
    ns_graph_free(nothing);

    ns_graph* no_output = tracing_begin();
    ns_mul(ns_input("x"), ns_input("y"));
    tracing_end();
    assert_int_equal(ns_graph_op_count(no_output), 0);
    check_function(no_output, (double[]){1, 2}, NULL,
                   &(check_options){.name = "no output", .may_vanish = true});
    ns_graph_free(no_output);

    ns_graph* no_input = tracing_begin();
    ns_output("seven", ns_add(ns_const(3.0), ns_const(4.0)));
    tracing_end();
    check_function(no_input, NULL, NULL, &(check_options){.name = "no input", .may_vanish = true});
    ns_graph_free(no_input);
}

// `count` values, each used only after all have been made, twice, in two orders; with `layers` the
// values in between go through dense layers, which keep nothing in registers.
static ns_graph* many_live_values(uint32_t count, bool layers) {
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), y = ns_input("y"), sum = ns_const(0.0);
    ns_expr* live = calloc(count, sizeof *live);
    ns_array w = {0};
    if (layers) w = ns_input_array("w", 64, false);
    for (uint32_t i = 0; i < count; i++) {
        ns_expr scaled = ns_mul(x, ns_const(1.0 + 0.01 * i));
        live[i] = i % 3 == 0   ? ns_div(scaled, ns_add(y, ns_const(i)))
                  : i % 3 == 1 ? ns_sqrt(ns_add(ns_mul(scaled, scaled), y))
                               : ns_select(ns_lt(scaled, y), ns_sub(y, scaled), ns_abs(scaled));
    }
    for (uint32_t i = 0; i < count; i++) {
        if (layers && i % 10 == 3) {
            ns_expr in[8], out[8];
            for (uint32_t k = 0; k < 8; k++) in[k] = live[(i + 7 * k) % count];
            ns_dense_layer(w, 8, in, 8, NS_TANH, out);
            for (uint32_t k = 0; k < 8; k++) sum = ns_fma(sum, ns_const(0.5), out[k]);
        }
        sum = ns_fma(sum, ns_const(0.97), live[count - 1 - i]);
    }
    for (uint32_t i = 0; i < count; i++) sum = ns_sub(ns_mul(sum, ns_const(0.9)), live[i]);
    ns_output("sum", sum);
    tracing_end();
    free(live);
    return g;
}

static void many_live_values_are_spilled(void** state) {
    (void)state;
    double weights[64];
    for (int i = 0; i < 64; i++) weights[i] = 0.5 * sin(i);
    check_batch* batch = check_batch_create();
    static const uint32_t counts[] = {14, 15, 16, 17, 40, 300};
    enum { CASES = 2 * sizeof counts / sizeof *counts };
    ns_graph* graphs[CASES];
    for (uint32_t i = 0; i < CASES; i++) {
        graphs[i] = many_live_values(counts[i / 2], i % 2 == 1);
        check_options options = {.name = "many live values", .second = counts[i / 2] < 20};
        check_batch_add(batch, graphs[i], (double[]){0.8, 1.3}, (const double* const[]){weights},
                        &options);
    }
    check_batch_finish(batch);
    for (uint32_t i = 0; i < CASES; i++) ns_graph_free(graphs[i]);
}

// 300 inputs and outputs: addresses that need more than a byte.
static void many_inputs_and_outputs(void** state) {
    (void)state;
    enum { N = 300 };
    ns_graph* g = tracing_begin();
    ns_expr x[N];
    double point[N];
    char name[16];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "x%d", i);
        x[i] = ns_input(name);
        point[i] = 0.01 * i - 1.4;
    }
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "y%d", i);
        ns_output(name, ns_fma(x[i], x[(i * 7 + 1) % N], ns_mul(ns_const(0.5 + i), x[N - 1 - i])));
    }
    tracing_end();
    check_function(g, point, NULL, &(check_options){.name = "many inputs", .second = true});
    ns_graph_free(g);
}

// ---- threads -------------------------------------------------------------------------------

typedef struct worker {
    const ns_program* program;
    double shift;
    uint64_t hash;
    pthread_t thread;
} worker;

static void* run_often(void* argument) {
    enum { RUNS = 5000 };
    worker* w = argument;
    void* work = malloc(ns_program_work_size(w->program));
    for (int i = 0; i < RUNS; i++) {
        double in[2] = {w->shift + 1e-4 * i, -w->shift}, out[2];
        ns_program_run(w->program, &(ns_run){.in = in,
                                             .out = out,
                                             .arrays = (const double* const[]){mixture_weights},
                                             .work = work});
        for (int k = 0; k < 2; k++) {
            uint64_t bits;
            memcpy(&bits, &out[k], sizeof bits);
            w->hash = w->hash * UINT64_C(6364136223846793005) + bits;
        }
    }
    free(work);
    return NULL;
}

static void threads_share_a_program(void** state) {
    (void)state;
    enum { THREADS = 4 };
    ns_graph* g = mixture(NULL);
    for (ns_backend backend = NS_BACKEND_INTERP; backend <= NS_BACKEND_NATIVE; backend++) {
        ns_program* program = build(g, backend, 1);
        worker alone[THREADS], together[THREADS];
        for (int i = 0; i < THREADS; i++) {
            alone[i] = together[i] = (worker){.program = program, .shift = 0.2 * i};
            run_often(&alone[i]);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&together[i].thread, NULL, run_often, &together[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(together[i].thread, NULL);
            assert_true(together[i].hash == alone[i].hash);
        }
        assert_true(alone[0].hash != alone[1].hash);
        ns_program_free(program);
    }
    ns_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_allocates_nothing),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(a_program_outlives_its_graph),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(info_tells_what_was_built),
        cmocka_unit_test(outputs_may_be_anything),
        cmocka_unit_test(graphs_without_outputs_or_inputs),
        cmocka_unit_test(many_live_values_are_spilled),
        cmocka_unit_test(many_inputs_and_outputs),
        cmocka_unit_test(threads_share_a_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
