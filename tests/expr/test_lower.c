// Lowering: symmetry, ranges, folding, length, and the pass over graphs.

#include "expr/block.h"
#include "expr/lower_rig.h"
#include "neuralsim/program.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- evaluation ----------------------------------------------------------------------------

// The same by constant folding.
static double fold(ns_graph* g, nsi_op op, double a, double b) {
    nsi_id x = nsi_graph_const(g, a), y = nsi_graph_const(g, b);
    nsi_id id = nsi_make(g, op, x, y, NSI_NONE);
    assert_int_equal(g->error.status, NS_OK);
    assert_int_equal(g->nodes.data[id].op, NSI_CONST);
    return g->nodes.data[id].value;
}

// ---- symmetry, range, folding --------------------------------------------------------------

// Any double: all bit patterns, but for NaN.
static double any_double(ns_rng* rng) {
    double x;
    do {
        uint64_t bits = ns_rng_next(rng);
        memcpy(&x, &bits, sizeof x);
    } while (isnan(x));
    return x;
}

static double usual_or_any(ns_rng* rng, int k) {
    return k % 2 ? any_double(rng) : ns_rng_uniform(rng, -20.0, 20.0);
}

static void symmetries_are_exact(void** state) {
    (void)state;
    static const struct {
        nsi_op op;
        double sign; // f(-x) = sign * f(x)
    } cases[] = {
        {NSI_SIN, -1},  {NSI_COS, 1},   {NSI_TAN, -1},   {NSI_TANH, -1},
        {NSI_ATAN, -1}, {NSI_ASIN, -1}, {NSI_ATAN2, -1}, {NSI_SIGN, -1},
    };
    enum { NPOINT = 20000 };
    ns_rng rng = ns_rng_seed(3);
    for (size_t i = 0; i < LENGTH(cases); i++) {
        function f = function_of(cases[i].op);
        for (int k = 0; k < NPOINT; k++) {
            double x = usual_or_any(&rng, k), y = usual_or_any(&rng, k / 2);
            assert_true(same(call(&f, -x, y), cases[i].sign * call(&f, x, y)));
        }
        function_free(&f);
    }
}

static void bounded_functions_stay_in_bounds(void** state) {
    (void)state;
    static const struct {
        nsi_op op;
        double low, high;
    } cases[] = {
        {NSI_SIN, -1, 1},     {NSI_COS, -1, 1},
        {NSI_TANH, -1, 1},    {NSI_ATAN, -PI / 2, PI / 2},
        {NSI_ATAN2, -PI, PI}, {NSI_EXP, 0, INF},
        {NSI_EXPM1, -1, INF}, {NSI_SOFTPLUS, 0, INF},
        {NSI_ACOS, 0, PI},    {NSI_ASIN, -PI / 2, PI / 2},
    };
    enum { NPOINT = 50000 };
    ns_rng rng = ns_rng_seed(5);
    for (size_t i = 0; i < LENGTH(cases); i++) {
        function f = function_of(cases[i].op);
        for (int k = 0; k < NPOINT; k++) {
            double x = usual_or_any(&rng, k), y = usual_or_any(&rng, k / 2);
            if (isinf(x)) continue;
            if (cases[i].op == NSI_ACOS || cases[i].op == NSI_ASIN) x = sin(x);
            double z = call(&f, x, y);
            if (!(z >= cases[i].low && z <= cases[i].high)) {
                print_error("%s(%.17g, %.17g) = %.17g\n", nsi_ops[f.op].name, x, y, z);
            }
            assert_true(z >= cases[i].low && z <= cases[i].high);
        }
        function_free(&f);
    }
}

static bool is_lowered(uint32_t op) {
    return nsi_ops[op].kind == NSI_KIND_LOWER;
}

// Identities that apply to an expansion of variables must not change what it computes.
static void folding_and_expansion_agree(void** state) {
    (void)state;
    enum { NPOINT = 1000 };
    ns_rng rng = ns_rng_seed(7);
    for (uint32_t op = 0; op < NSI_OP_COUNT; op++) {
        if (!is_lowered(op)) continue;
        function f = function_of((nsi_op)op);
        ns_graph* g;
        assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
        for (int k = 0; k < NPOINT; k++) {
            double a = usual_or_any(&rng, k), b = usual_or_any(&rng, k / 2);
            if (op == NSI_POW && k % 4 == 0) b = rint(b) + 0.25 * (double)(k % 3);
            double folded = fold(g, (nsi_op)op, a, b);
            // x^2, x^3, 1/x and so on are made as products when the exponent is known.
            if (op == NSI_POW && rint(2.0 * b) == 2.0 * b && fabs(b) <= 3.0) continue;
            assert_true(same(folded, call(&f, a, b)));
        }
        ns_graph_free(g);
        function_free(&f);
    }
}

static void backends_agree(void** state) {
    (void)state;
    static const ns_program_options options[] = {
        {.backend = NS_BACKEND_INTERP, .lanes = 16},
        {.backend = NS_BACKEND_NATIVE, .lanes = 1},
        {.backend = NS_BACKEND_NATIVE, .lanes = 4},
    };
    enum { NRUN = 500, NLANE = 16 };
    ns_rng rng = ns_rng_seed(17);
    for (uint32_t op = 0; op < NSI_OP_COUNT; op++) {
        if (!is_lowered(op)) continue;
        function f = function_of((nsi_op)op);
        for (size_t i = 0; i < LENGTH(options); i++) {
            const uint32_t lanes = options[i].lanes;
            ns_program* program;
            assert_int_equal(ns_program_build(f.g, &options[i], &program, NULL), NS_OK);
            void* work = malloc(ns_program_work_size(program));
            for (int k = 0; k < NRUN; k++) {
                double in[2 * NLANE], out[NLANE];
                for (uint32_t l = 0; l < 2 * lanes; l++) in[l] = usual_or_any(&rng, (int)l + k);
                ns_program_run(program, &(ns_run){.in = in, .out = out, .work = work});
                for (uint32_t l = 0; l < lanes; l++) {
                    assert_true(same(out[l], call(&f, in[l], in[lanes + l])));
                }
            }
            free(work);
            ns_program_free(program);
        }
        function_free(&f);
    }
}

// ---- length --------------------------------------------------------------------------------

static uint32_t count_ops(const ns_graph* g) {
    uint32_t count = 0;
    uint8_t* live = malloc(g->nodes.count);
    nsi_graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        count += live[i] && nsi_ops[g->nodes.data[i].op].kind == NSI_KIND_PRIM;
    }
    free(live);
    return count;
}

// Operations of outputs f(a, b), h(a, b) together.
static uint32_t count_both(nsi_op f, nsi_op h) {
    ns_graph *source, *g;
    assert_int_equal(ns_graph_create(NULL, &source, NULL), NS_OK);
    nsi_id a = nsi_graph_input(source, "a"), b = nsi_graph_input(source, "b");
    nsi_graph_output(source, "f", nsi_make(source, f, a, b, NSI_NONE));
    nsi_graph_output(source, "h", nsi_make(source, h, a, b, NSI_NONE));
    assert_int_equal(nsi_pass_lower(source, &g, NULL), NS_OK);
    assert_int_equal(nsi_pass_contract(g, NULL), NS_OK);
    uint32_t count = count_ops(g);
    ns_graph_free(source);
    ns_graph_free(g);
    return count;
}

static void expansions_are_short(void** state) {
    (void)state;
    static const struct {
        nsi_op f, h;
        uint32_t limit;
    } cases[] = {
        {NSI_EXP, NSI_EXP, 20},     {NSI_EXPM1, NSI_EXPM1, 23}, {NSI_LOG, NSI_LOG, 30},
        {NSI_LOG1P, NSI_LOG1P, 31}, {NSI_POW, NSI_POW, 84},     {NSI_SIN, NSI_SIN, 38},
        {NSI_COS, NSI_COS, 38},     {NSI_TAN, NSI_TAN, 41},     {NSI_ASIN, NSI_ASIN, 27},
        {NSI_ACOS, NSI_ACOS, 29},   {NSI_ATAN, NSI_ATAN, 32},   {NSI_ATAN2, NSI_ATAN2, 37},
        {NSI_TANH, NSI_TANH, 19},   {NSI_SIGN, NSI_SIGN, 4},    {NSI_SOFTPLUS, NSI_SOFTPLUS, 36},
        {NSI_SIN, NSI_COS, 40},     {NSI_SIN, NSI_TAN, 41},     {NSI_ASIN, NSI_ACOS, 37},
        {NSI_EXP, NSI_EXPM1, 35},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        uint32_t count = count_both(cases[i].f, cases[i].h);
        print_message("%s", nsi_ops[cases[i].f].name);
        if (cases[i].h != cases[i].f) print_message(" and %s", nsi_ops[cases[i].h].name);
        print_message(": %u operations\n", count);
        assert_true(count <= cases[i].limit);
    }
}

// ---- the pass ------------------------------------------------------------------------------

// Only primitive operations; masks where masks belong and nowhere else.
static void check_lowered(const ns_graph* g) {
    assert_int_equal(nsi_graph_validate(g, NULL), NS_OK);
    uint8_t* mask = malloc(g->nodes.count);
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const nsi_node* n = &g->nodes.data[i];
        assert_false(is_lowered(n->op));
        mask[i] = (nsi_ops[n->op].flags & NSI_FLAG_MASK) != 0;
        bool logic = n->op == NSI_AND || n->op == NSI_OR || n->op == NSI_NOT;
        for (uint32_t k = 0; k < nsi_ops[n->op].arity; k++) {
            bool wanted = logic || (n->op == NSI_SELECT && k == 0);
            assert_int_equal(mask[nsi_node_operand(n, k)], wanted);
        }
        if (n->op != NSI_BLOCK) continue;
        const nsi_block* block = &g->blocks.data[n->a];
        for (uint32_t k = 0; k < block->ninput; k++) assert_false(mask[block->inputs[k]]);
    }
    for (uint32_t k = 0; k < g->outputs.count; k++) assert_false(mask[g->outputs.data[k].node]);
    free(mask);
}

enum { NTRUTH = 11 };

// Truth values as numbers and numbers as truth values, wherever either can stand.
static ns_graph* truth_graph(void) {
    ns_graph* g;
    assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
    nsi_id x = nsi_graph_input(g, "x"), y = nsi_graph_input(g, "y");
    nsi_id less = nsi_make(g, NSI_LT, x, y, NSI_NONE);
    nsi_id differ = nsi_make(g, NSI_NE, x, y, NSI_NONE);
    const nsi_id outputs[NTRUTH] = {
        less,
        nsi_make(g, NSI_ADD, less, differ, NSI_NONE),
        nsi_make(g, NSI_LE, less, x, NSI_NONE),
        nsi_make(g, NSI_EXP, less, NSI_NONE, NSI_NONE),
        nsi_make(g, NSI_NOT, x, NSI_NONE, NSI_NONE),
        nsi_make(g, NSI_AND, x, less, NSI_NONE),
        nsi_make(g, NSI_OR, x, y, NSI_NONE),
        nsi_make(g, NSI_SELECT, x, less, y),
        nsi_make(g, NSI_SELECT, less, x, differ),
        nsi_make(g, NSI_SELECT, nsi_make(g, NSI_SELECT, less, differ, x), x, y),
        nsi_make(g, NSI_AND, nsi_make(g, NSI_MUL, less, y, NSI_NONE), differ, NSI_NONE),
    };
    for (uint32_t k = 0; k < NTRUTH; k++) {
        char name[8];
        snprintf(name, sizeof name, "y%u", k);
        nsi_graph_output(g, name, outputs[k]);
    }
    assert_int_equal(g->error.status, NS_OK);
    return g;
}

static void truth_expected(double x, double y, double* out) {
    double less = x < y, differ = x != y;
    const double values[NTRUTH] = {
        less,
        less + differ,
        less <= x,
        less != 0.0 ? 0x1.5bf0a8b145769p1 : 1.0, // e
        x == 0.0,
        x != 0.0 && less != 0.0,
        x != 0.0 || y != 0.0,
        x != 0.0 ? less : y,
        less != 0.0 ? x : differ,
        (less != 0.0 ? differ : x) != 0.0 ? x : y,
        less * y != 0.0 && differ != 0.0,
    };
    memcpy(out, values, sizeof values);
}

static void truth_values_have_the_right_form(void** state) {
    (void)state;
    ns_graph *source = truth_graph(), *g;
    assert_int_equal(nsi_pass_lower(source, &g, NULL), NS_OK);
    check_lowered(g);
    assert_int_equal(nsi_pass_contract(g, NULL), NS_OK);
    check_lowered(g);
    ns_graph_free(g);

    // Run on the backends, in all pairs of these numbers.
    static const double numbers[] = {0.0, -0.0, 1.0, -1.0, 0.5, SMALLEST, INF, -INF, NAN};
    static const ns_backend backends[] = {NS_BACKEND_INTERP, NS_BACKEND_NATIVE};
    enum { NLANE = 4 };
    for (size_t k = 0; k < LENGTH(backends); k++) {
        ns_program_options options = {.backend = backends[k], .lanes = NLANE};
        ns_program* program;
        assert_int_equal(ns_program_build(source, &options, &program, NULL), NS_OK);
        void* work = malloc(ns_program_work_size(program));
        for (size_t i = 0; i < LENGTH(numbers); i++) {
            for (size_t j = 0; j < LENGTH(numbers); j += NLANE) {
                double in[2][NLANE], out[NTRUTH][NLANE], expected[NTRUTH];
                for (size_t l = 0; l < NLANE; l++) {
                    in[0][l] = numbers[i];
                    in[1][l] = numbers[(j + l) % LENGTH(numbers)];
                }
                ns_program_run(program, &(ns_run){.in = in[0], .out = out[0], .work = work});
                for (size_t l = 0; l < NLANE; l++) {
                    truth_expected(in[0][l], in[1][l], expected);
                    for (size_t n = 0; n < NTRUTH; n++) assert_true(same(out[n][l], expected[n]));
                }
            }
        }
        free(work);
        ns_program_free(program);
    }
    ns_graph_free(source);
}

static void blocks_get_numbers(void** state) {
    (void)state;
    ns_graph *source, *g;
    assert_int_equal(ns_graph_create(NULL, &source, NULL), NS_OK);
    nsi_id x = nsi_graph_input(source, "x"), y = nsi_graph_input(source, "y");
    const nsi_id inputs[] = {nsi_make(source, NSI_LT, x, y, NSI_NONE),
                             nsi_make(source, NSI_SIN, x, NSI_NONE, NSI_NONE)};
    uint32_t weights = nsi_graph_array(source, "w", 6, false);
    nsi_block block = {.kind = &nsi_dense,
                       .params = {2, 3},
                       .ninput = 2,
                       .noutput = 3,
                       .inputs = inputs,
                       .source = weights,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(source, &block);
    nsi_graph_output(source, "z", nsi_graph_out(source, node, 2));
    nsi_graph_output(source, "less", inputs[0]);
    assert_int_equal(source->error.status, NS_OK);
    assert_int_equal(nsi_pass_lower(source, &g, NULL), NS_OK);
    check_lowered(g);
    assert_int_equal(g->blocks.count, 1);
    assert_int_equal(g->outputs.data[1].node, g->blocks.data[0].inputs[0]); // wrapped once
    ns_graph_free(g);
    ns_graph_free(source);
}

static void dead_nodes_are_dropped(void** state) {
    (void)state;
    ns_graph *source, *g;
    assert_int_equal(ns_graph_create(NULL, &source, NULL), NS_OK);
    nsi_id x = nsi_graph_input(source, "x");
    nsi_make(source, NSI_POW, x, x, NSI_NONE);
    nsi_graph_output(source, "y", nsi_make(source, NSI_ADD, x, x, NSI_NONE));
    assert_int_equal(nsi_pass_lower(source, &g, NULL), NS_OK);
    assert_int_equal(g->nodes.count, 2);
    ns_graph_free(g);
    ns_graph_free(source);
}

static void errors_are_handed_on(void** state) {
    (void)state;
    ns_graph *source, *g;
    assert_int_equal(ns_graph_create(NULL, &source, NULL), NS_OK);
    nsi_make(source, NSI_SIN, 5, NSI_NONE, NSI_NONE); // no such node
    ns_error error = {0};
    assert_int_equal(nsi_pass_lower(source, &g, &error), NS_ERR_ARGUMENT);
    assert_null(g);
    assert_int_equal(error.status, NS_ERR_ARGUMENT);
    assert_string_equal(error.message, source->error.message);
    ns_graph_free(source);

    assert_int_equal(ns_graph_create(NULL, &source, NULL), NS_OK);
    nsi_id x = nsi_graph_input(source, "x");
    assert_int_equal(nsi_lower_op(source, NSI_ADD, x, x), NSI_NONE);
    assert_int_equal(source->error.status, NS_ERR_INVALID);
    ns_graph_free(source);
}

static void every_failed_allocation_is_survived(void** state) {
    (void)state;
    size_t n = 1;
    for (;; n++) {
        test_alloc counter = {0};
        ns_allocator allocator = test_allocator(&counter);
        ns_graph *source, *g;
        assert_int_equal(ns_graph_create(&allocator, &source, NULL), NS_OK);
        nsi_id x = nsi_graph_input(source, "x"), y = nsi_graph_input(source, "y");
        nsi_id less = nsi_make(source, NSI_LT, x, y, NSI_NONE);
        for (uint32_t op = 0; op < NSI_OP_COUNT; op++) {
            if (is_lowered(op))
                nsi_graph_output(source, nsi_ops[op].name, nsi_make(source, op, x, y, 0));
        }
        nsi_graph_output(source, "less", less);
        assert_int_equal(source->error.status, NS_OK);

        size_t before = counter.live_blocks;
        counter.fail_at = counter.calls + n;
        ns_error error = {0};
        ns_status status = nsi_pass_lower(source, &g, &error);
        bool failed = counter.calls >= counter.fail_at;
        assert_int_equal(status, failed ? NS_ERR_NOMEM : NS_OK);
        assert_int_equal(error.status, status);
        assert_int_equal(g == NULL, failed);
        counter.fail_at = 0;
        ns_graph_free(g);
        assert_int_equal(counter.live_blocks, before);
        ns_graph_free(source);
        assert_int_equal(counter.live_blocks, 0);
        if (!failed) break;
    }
    print_message("%zu allocations failed, one at a time\n", n - 1);
    assert_true(n > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symmetries_are_exact),
        cmocka_unit_test(bounded_functions_stay_in_bounds),
        cmocka_unit_test(folding_and_expansion_agree),
        cmocka_unit_test(backends_agree),
        cmocka_unit_test(expansions_are_short),
        cmocka_unit_test(truth_values_have_the_right_form),
        cmocka_unit_test(blocks_get_numbers),
        cmocka_unit_test(dead_nodes_are_dropped),
        cmocka_unit_test(errors_are_handed_on),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
