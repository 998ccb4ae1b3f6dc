// Regions: which steps are found, that skipping them changes no bit, and that they are skipped.

#include "expr/code.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/testalloc.h"
#include "support/tracing.h"

#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { LONG = 2 * NSI_REGION_STEPS, MAX_PORTS = 16, MAX_LANES = 4 };

// ---- graphs --------------------------------------------------------------------------------

// `steps` steps on x, each after the other; other constants make other steps.
static ns_expr chain(ns_expr x, uint32_t steps, double constant) {
    for (uint32_t i = 0; i < steps; i++) {
        x = i % 2 == 0 ? ns_abs(x) : ns_sub(ns_const(constant + i), x);
    }
    return x;
}

// Many values that are live at a time, so that registers spill: more than 2*count steps.
static ns_expr wide(ns_expr x, ns_expr y, uint32_t count, double constant) {
    enum { MAX = 40 };
    ns_expr live[MAX], sum = ns_const(0.0);
    for (uint32_t i = 0; i < count; i++) live[i] = ns_fma(x, ns_const(constant + i), y);
    for (uint32_t i = 0; i < count; i++) sum = ns_div(live[(7 * i) % count], ns_add(sum, y));
    for (uint32_t i = 0; i < count; i++) sum = ns_sub(live[i], sum);
    return sum;
}

static nsi_code code_of(const ns_graph* g) {
    nsi_code code;
    ns_error error;
    must(nsi_code_build(g, &code, &error), &error);
    return code;
}

static uint32_t count_regions(const ns_graph* g) {
    nsi_code code = code_of(g);
    uint32_t count = code.regions.count;
    nsi_code_free(&code);
    return count;
}

// ---- what a region may be ------------------------------------------------------------------

static bool is_bad(const uint8_t* bad, uint32_t ref) {
    return nsi_is_value(ref) && bad[NSI_REF_COMPONENT(ref)];
}

// Follow what is garbage when a region is skipped: selects by its condition must keep it from every
// output, block and jump. Said in another way than regions.c says it.
static void check_region(const nsi_code* code, const nsi_region* region) {
    uint8_t* bad = calloc((size_t)code->nvalue + 1, 1);
    for (uint32_t i = 0; i < code->steps.count; i++) {
        const nsi_step* step = &code->steps.data[i];
        for (uint32_t k = 0; k < code->regions.count; k++) { // others jump by their conditions
            const nsi_region* other = &code->regions.data[k];
            if (other->first == i) assert_false(is_bad(bad, other->condition));
        }
        if (step->op == NSI_BLOCK) {
            assert_false(i >= region->first && i < region->first + region->count);
            const nsi_code_block* block = &code->blocks.data[step->a];
            for (uint32_t k = 0; k < block->ninput; k++) {
                assert_false(is_bad(bad, code->block_inputs.data[block->first_input + k]));
            }
            continue;
        }
        bool result = i >= region->first && i < region->first + region->count;
        for (uint32_t k = 0; k < nsi_ops[step->op].arity; k++) {
            bool dropped = step->op == NSI_SELECT && step->a == region->condition &&
                           k == (region->when ? 1u : 2u);
            if (!dropped && is_bad(bad, nsi_step_operand(step, k))) result = true;
        }
        bad[NSI_REF_COMPONENT(step->dst)] = result;
    }
    for (uint32_t k = 0; k < code->outputs.count; k++) {
        assert_false(is_bad(bad, code->outputs.data[k]));
    }
    free(bad);
}

// Every value is computed once, before it is read; blocks stand where they say; regions are in
// order, long enough and safe to skip.
static uint32_t check_code(const ns_graph* g) {
    nsi_code code = code_of(g);
    uint8_t* known = calloc((size_t)code.nvalue + 1, 1);
    uint32_t known_count = 0, blocks = 0;
    for (uint32_t i = 0; i < code.steps.count; i++) {
        const nsi_step* step = &code.steps.data[i];
        bool is_block = step->op == NSI_BLOCK;
        const nsi_code_block* block = is_block ? &code.blocks.data[step->a] : NULL;
        if (is_block) {
            assert_int_equal(step->a, blocks++);
            assert_int_equal(block->step, i);
        }
        uint32_t count = is_block ? block->ninput : nsi_ops[step->op].arity;
        for (uint32_t k = 0; k < count; k++) {
            uint32_t ref = is_block ? code.block_inputs.data[block->first_input + k]
                                    : nsi_step_operand(step, k);
            if (nsi_is_value(ref)) assert_true(known[NSI_REF_COMPONENT(ref)]);
        }
        uint32_t first = is_block ? block->first_value : NSI_REF_COMPONENT(step->dst);
        for (uint32_t k = 0; k < (is_block ? block->noutput : 1); k++) {
            assert_false(known[first + k]);
            known[first + k] = 1;
            known_count++;
        }
        for (uint32_t k = 0; k < code.regions.count; k++) {
            const nsi_region* region = &code.regions.data[k];
            if (region->first == i) assert_true(known[NSI_REF_COMPONENT(region->condition)]);
        }
    }
    assert_int_equal(known_count, code.nvalue);
    assert_int_equal(blocks, code.blocks.count);
    uint32_t end = 0, found = code.regions.count;
    for (uint32_t k = 0; k < found; k++) {
        const nsi_region* region = &code.regions.data[k];
        assert_true(region->first >= end && region->count >= NSI_REGION_STEPS);
        end = region->first + region->count;
        assert_true(end <= code.steps.count);
        check_region(&code, region);
    }
    free(known);
    nsi_code_free(&code);
    return found;
}

// ---- all backends, all masks ---------------------------------------------------------------

typedef struct runner {
    ns_program* program;
    void* work;
    double out[MAX_PORTS * MAX_LANES];
} runner;

static runner make_runner(const ns_graph* g, ns_backend backend, uint32_t lanes) {
    ns_program_options options = {.backend = backend, .lanes = lanes};
    runner r = {0};
    ns_error error;
    must(ns_program_build(g, &options, &r.program, &error), &error);
    r.work = calloc(1, ns_program_work_size(r.program));
    return r;
}

static void free_runner(runner* r) {
    ns_program_free(r->program);
    free(r->work);
}

static void run(runner* r, const double* in, const double* weights) {
    ns_program_run(r->program, &(ns_run){.in = in,
                                         .out = r->out,
                                         .arrays = (const double* const[]){weights},
                                         .work = r->work});
}

// Native code against the interpreter, which skips nothing, for every way the lanes can disagree
// about `nswitch` inputs, the first ones; each follows others on the same work memory, which holds
// sometimes the numbers of the last run, sometimes anything. The values of the other inputs are x,
// a little different in every lane.
static void check_masks(const char* name, const ns_graph* g, uint32_t nswitch, const double* x,
                        const double* weights) {
    uint32_t ninput = ns_graph_input_count(g), noutput = ns_graph_output_count(g);
    assert_true(ninput <= MAX_PORTS && noutput <= MAX_PORTS);
    check_code(g);
    ns_rng rng = ns_rng_seed(1);
    for (uint32_t lanes = 1; lanes <= MAX_LANES; lanes += 3) {
        runner interp = make_runner(g, NS_BACKEND_INTERP, lanes);
        runner native = make_runner(g, NS_BACKEND_NATIVE, lanes);
        uint32_t masks = 1u << (lanes * nswitch), rounds = masks < 64 ? 20 : 3;
        for (uint32_t n = 0; n < masks * rounds; n++) {
            uint32_t mask = n < masks ? n : ns_rng_below(&rng, masks);
            double in[MAX_PORTS * MAX_LANES] = {0};
            for (uint32_t i = 0; i < ninput * lanes; i++) {
                bool is_switch = i < nswitch * lanes;
                in[i] = !is_switch         ? x[i / lanes - nswitch] * (1.0 + 0.01 * (i % lanes))
                        : (mask >> i & 1u) ? 1.0
                                           : -1.0;
            }
            if (ns_rng_below(&rng, 3) == 0) {
                int byte = (int)ns_rng_below(&rng, 256);
                memset(native.work, byte, ns_program_work_size(native.program));
            }
            run(&interp, in, weights);
            run(&native, in, weights);
            for (uint32_t k = 0; k < noutput * lanes; k++) {
                if (!check_same_bits(interp.out[k], native.out[k])) {
                    fail_msg("%s, %u lanes, mask %x: output %u in lane %u is %a, not %a", name,
                             lanes, mask, k / lanes, k % lanes, native.out[k], interp.out[k]);
                }
            }
        }
        free_runner(&interp);
        free_runner(&native);
    }
}

static void both_branches_agree_in_every_lane(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr m = ns_gt(ns_input("c"), ns_const(0.0)), x = ns_input("x"), y = ns_input("y");
    ns_output("z", ns_select(m, wide(x, y, 30, 0.5), wide(y, x, 25, 1.5)));
    tracing_end();
    nsi_code code = code_of(g);
    assert_int_equal(code.regions.count, 2);
    assert_true(code.regions.data[0].when && !code.regions.data[1].when);
    assert_int_equal(code.regions.data[0].condition, code.regions.data[1].condition);
    assert_true(code.regions.data[0].count > 60 && code.regions.data[1].count > 50);
    // Nothing is left but the comparison and the select.
    assert_int_equal(code.regions.data[0].count + code.regions.data[1].count + 2, code.steps.count);
    nsi_code_free(&code);
    check_masks("both branches", g, 1, (double[]){0.7, 1.3}, NULL);
    check_function(g, (double[]){1.0, 0.7, 1.3}, NULL, &(check_options){.name = "both branches"});
    ns_graph_free(g);
}

static void only_long_branches_are_regions(void** state) {
    (void)state;
    for (uint32_t steps = NSI_REGION_STEPS - 2; steps <= NSI_REGION_STEPS + 2; steps++) {
        ns_graph* g = tracing_begin();
        ns_expr m = ns_gt(ns_input("c"), ns_const(0.0)), x = ns_input("x");
        ns_output("z", ns_select(m, chain(x, steps, 1.0), x));
        tracing_end();
        assert_int_equal(count_regions(g), steps >= NSI_REGION_STEPS);
        check_masks("one branch", g, 1, (double[]){0.7}, NULL);
        ns_graph_free(g);
    }
}

// ---- shapes --------------------------------------------------------------------------------

typedef struct shape {
    const char* name;
    uint32_t nswitch, regions;
    void (*trace)(ns_expr c, ns_expr d, ns_expr x, ns_expr y);
} shape;

static ns_expr positive(ns_expr c) {
    return ns_gt(c, ns_const(0.0));
}

static void trace_nested(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr inner = ns_select(positive(d), chain(x, LONG, 1.0), chain(y, LONG, 2.0));
    ns_output("z", ns_select(positive(c), chain(inner, LONG, 3.0), y));
}

static void trace_selects_in_a_row(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr first = ns_select(positive(c), wide(x, y, 20, 1.0), chain(y, LONG, 2.0));
    ns_output("z", ns_select(positive(d), wide(first, y, 20, 3.0), chain(first, LONG, 4.0)));
    ns_output("first", first);
}

// The second condition is made of what the first select gives.
static void trace_dependent_conditions(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr first = ns_select(positive(c), chain(x, LONG, 1.0), y);
    ns_expr m = ns_lt(first, ns_mul(d, ns_const(3.0)));
    ns_output("z", ns_select(m, chain(y, LONG, 2.0), chain(first, LONG, 3.0)));
}

static void trace_shared_part(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr part = chain(x, LONG, 1.0); // of both sides and of what is outside
    ns_output("z", ns_select(positive(c), chain(part, LONG, 2.0), chain(part, LONG, 3.0)));
    ns_output("w", ns_add(ns_mul(part, d), y));
}

static void trace_branch_is_output(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr middle = chain(x, LONG, 1.0), end = chain(middle, LONG, 2.0);
    ns_output("z", ns_mul(ns_select(positive(c), end, y), d));
    ns_output("middle", middle);
    ns_output("z again", ns_select(positive(c), end, y));
}

static void trace_whole_branch_is_output(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr branch = chain(x, LONG, 1.0);
    ns_output("z", ns_mul(ns_select(positive(c), branch, y), d));
    ns_output("branch", branch);
}

// More values than registers, all read for the last time inside; slots are used again behind.
static void trace_operands_die_inside(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    enum { N = 30 };
    ns_expr before[N], kept[N], after = d, branch = x;
    for (int i = 0; i < N; i++) {
        before[i] = ns_div(ns_const(1.0 + i), ns_add(x, ns_const(i)));
        kept[i] = ns_div(y, ns_add(x, ns_const(2.0 + i)));
        after = ns_fma(after, before[i], y); // outside, so that they are
    }
    for (int i = 0; i < N; i++) branch = ns_fma(branch, before[(11 * i) % N], kept[i]);
    for (int i = 0; i < N; i++) branch = ns_sub(before[i], branch);
    ns_expr z = ns_select(positive(c), branch, after);
    for (int i = 0; i < N; i++) z = ns_fma(z, ns_const(0.5), wide(z, kept[i], 3, i));
    for (int i = 0; i < N; i++) z = ns_sub(kept[i], z);
    ns_output("z", z);
}

// The second branch needs the first select, which others read too: it cannot come before it.
static void trace_later_part(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr first = ns_select(positive(c), chain(x, LONG, 1.0), y);
    ns_expr second = ns_select(positive(c), chain(first, LONG, 2.0), d);
    ns_output("z", ns_add(first, second));
}

// As before, but what waits is short: moved, not skipped, and fed with garbage when the rest is.
static void trace_short_later_part(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr branch = chain(x, LONG, 1.0), more = chain(x, LONG, 2.0);
    ns_expr first = ns_select(positive(c), branch, y);
    ns_expr second = ns_select(positive(c), chain(ns_mul(first, more), 3, 3.0), d);
    ns_output("z", ns_add(first, second));
}

// One short branch for each of several selects: only together they are long.
static void trace_many_selects(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    char name[8];
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "z%d", i);
        ns_expr branch = chain(ns_add(x, ns_const(i)), 8, 1.0 + i);
        ns_output(name, ns_select(positive(c), branch, ns_fma(y, ns_const(i), d)));
    }
}

// Too short for each select, and each needs the select before: nothing to skip.
static void trace_scattered(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr z = x, sum = d;
    for (int i = 0; i < 10; i++) {
        z = ns_select(positive(c), chain(z, 8, 1.0 + i), ns_fma(y, z, d));
        sum = ns_add(ns_mul(sum, y), z);
    }
    ns_output("z", sum);
}

static void trace_same_on_both_sides(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr branch = chain(x, LONG, 1.0);
    ns_output("then", ns_select(positive(c), branch, y));
    ns_output("otherwise", ns_select(positive(c), d, branch));
}

// A branch that is a truth value, or that is what another select asks.
static void trace_branch_is_condition(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr truth = ns_lt(chain(x, LONG, 1.0), chain(y, LONG, 2.0));
    ns_expr z = ns_select(positive(c), truth, d);
    ns_output("z", ns_select(z, x, y));
    ns_expr asked = ns_lt(chain(x, LONG, 3.0), d);
    ns_output("w", ns_select(positive(c), ns_select(asked, x, y), ns_mul(x, y)));
    ns_output("v", ns_select(asked, y, x));
}

static void trace_and_of_conditions(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr m = ns_and(positive(c), ns_not(positive(d)));
    ns_output("z", ns_select(m, wide(x, y, 20, 1.0), ns_const(0.0)));
    ns_output("w", ns_select(ns_not(m), wide(x, y, 20, 2.0), ns_const(0.0)));
}

// Elementary functions, whose expansions have selects themselves.
static void trace_functions(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr t = ns_mul(ns_log(x), ns_pow(y, ns_exp(x)));
    ns_expr u = ns_atan2(ns_sin(ns_sqrt(x)), ns_tanh(y));
    ns_output("z", ns_mul(ns_select(positive(c), t, u), d));
}

// Infinite or NaN on the side that is not taken, and on the side that is.
static void trace_not_finite(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_expr zero = ns_sub(ns_max(x, y), ns_max(y, x)); // not folded
    ns_expr infinite = chain(ns_div(x, zero), LONG, 1.0);
    ns_expr nan = chain(ns_sqrt(ns_neg(ns_add(x, ns_abs(y)))), LONG, 2.0);
    ns_output("inf or y", ns_select(positive(c), infinite, y));
    ns_output("y or nan", ns_select(positive(c), y, nan));
    ns_expr other = chain(ns_div(y, zero), LONG, 3.0), none = chain(ns_acos(y), LONG, 4.0);
    ns_output("inf or nan", ns_select(positive(d), other, none));
    ns_output("inf or 0", ns_select(positive(d), chain(ns_div(y, zero), LONG, 5.0), ns_const(0.0)));
    ns_output("0 or nan", ns_select(positive(d), ns_const(0.0), chain(ns_log(ns_neg(y)), LONG, 6)));
}

static void trace_blocks(ns_expr c, ns_expr d, ns_expr x, ns_expr y) {
    ns_array w = ns_input_array("w", 9, false);
    // A branch feeds a block, a block feeds a branch, and one stands between branch and select.
    ns_expr fed[2], made[2], between[2];
    ns_expr branch = chain(x, LONG, 1.0);
    ns_dense_layer(ns_array_slice(w, 0, 4), 2, (ns_expr[]){branch, y}, 2, NS_IDENTITY, fed);
    ns_expr first = ns_select(positive(c), chain(branch, LONG, 2.0), fed[0]);
    ns_dense_layer(ns_array_slice(w, 4, 4), 2, (ns_expr[]){first, d}, 2, NS_IDENTITY, made);
    ns_expr second = ns_select(positive(d), chain(made[0], LONG, 3.0), made[1]);
    ns_expr waits = chain(x, LONG, 4.0);
    ns_dense_layer(ns_array_slice(w, 2, 4), 2, (ns_expr[]){second, x}, 2, NS_IDENTITY, between);
    ns_expr third = ns_select(ns_lt(c, d), waits, between[0]);
    ns_output("z", ns_add(ns_add(first, second), third));
    ns_output("fed", fed[1]);
    ns_output("between", between[1]);
}

static const shape shapes[] = {
    {"nested", 2, 1, trace_nested},
    {"selects in a row", 2, 4, trace_selects_in_a_row},
    {"dependent conditions", 2, 3, trace_dependent_conditions},
    {"shared part", 1, 2, trace_shared_part},
    {"branch is output", 1, 1, trace_branch_is_output},
    {"whole branch is output", 1, 0, trace_whole_branch_is_output},
    {"operands die inside", 1, 1, trace_operands_die_inside},
    {"later part", 1, 2, trace_later_part},
    {"short later part", 1, 1, trace_short_later_part},
    {"many selects", 1, 1, trace_many_selects},
    {"scattered", 1, 0, trace_scattered},
    {"same on both sides", 1, 0, trace_same_on_both_sides},
    {"branch is condition", 2, 1, trace_branch_is_condition},
    {"and of conditions", 2, 2, trace_and_of_conditions},
    {"functions", 1, 2, trace_functions},
    {"not finite", 2, 4, trace_not_finite},
    {"blocks", 2, 3, trace_blocks},
};

static ns_graph* trace_shape(const shape* s) {
    ns_graph* g = tracing_begin();
    ns_expr c = ns_input("c"), d = ns_input("d"), x = ns_input("x"), y = ns_input("y");
    s->trace(c, d, x, y);
    tracing_end();
    return g;
}

static void shapes_agree_in_every_lane(void** state) {
    (void)state;
    static const double weights[] = {0.5, -0.3, 0.8, 0.1, -0.9, 0.4, 0.2, 0.6, -0.7};
    static const double point[] = {0.9, 0.7, 1.3};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape* s = &shapes[i];
        ns_graph *g = trace_shape(s), *vjp = NULL;
        uint32_t found = check_code(g);
        if (found != s->regions) fail_msg("%s: %u regions, not %u", s->name, found, s->regions);
        check_masks(s->name, g, s->nswitch, point + s->nswitch - 1, weights);
        assert_int_equal(ns_graph_vjp(g, NULL, &vjp, NULL), NS_OK);
        check_code(vjp);
        ns_graph_free(vjp);
        // Emitted C too, and the derivatives.
        check_function(g, (double[]){0.6, -0.4, 0.7, 1.3}, (const double* const[]){weights},
                       &(check_options){.name = s->name,
                                        .may_vanish = true,
                                        .at_kink = true,
                                        .nonfinite = s->trace == trace_not_finite});
        ns_graph_free(g);
    }
}

// ---- skipping ------------------------------------------------------------------------------

// The processor remembers that something was divided by zero, or that a root had no value. So one
// can see from outside which branches were computed.
static void branches_that_no_lane_needs_are_skipped(void** state) {
    (void)state;
    if (!nsi_cpu_has_avx2_fma()) skip();
    ns_graph* g = tracing_begin();
    ns_expr m = positive(ns_input("c")), x = ns_input("x"), y = ns_input("y");
    ns_expr divides = chain(ns_div(y, x), LONG, 1.0), roots = chain(ns_sqrt(y), LONG, 2.0);
    ns_output("z", ns_select(m, divides, roots));
    tracing_end();
    for (uint32_t lanes = 1; lanes <= MAX_LANES; lanes += 3) {
        runner interp = make_runner(g, NS_BACKEND_INTERP, lanes);
        runner native = make_runner(g, NS_BACKEND_NATIVE, lanes);
        uint32_t all = (1u << lanes) - 1;
        for (uint32_t mask = 0; mask <= all; mask++) {
            double in[3 * MAX_LANES];
            for (uint32_t l = 0; l < lanes; l++) {
                in[l] = (mask >> l & 1u) ? 1.0 : -1.0;
                in[lanes + l] = 0.0;
                in[2 * lanes + l] = -1.0;
            }
            feclearexcept(FE_ALL_EXCEPT);
            run(&native, in, NULL);
            int seen = fetestexcept(FE_DIVBYZERO | FE_INVALID);
            feclearexcept(FE_ALL_EXCEPT);
            int expected = (mask != 0 ? FE_DIVBYZERO : 0) | (mask != all ? FE_INVALID : 0);
            if (seen != expected) {
                fail_msg("%u lanes, mask %x: flags %x, not %x", lanes, mask, (unsigned)seen,
                         (unsigned)expected);
            }
            run(&interp, in, NULL); // knows no regions
            assert_int_equal(fetestexcept(FE_DIVBYZERO | FE_INVALID), FE_DIVBYZERO | FE_INVALID);
        }
        free_runner(&interp);
        free_runner(&native);
    }
    feclearexcept(FE_ALL_EXCEPT);
    ns_graph_free(g);
}

// ---- memory --------------------------------------------------------------------------------

static void every_failing_allocation_is_reported(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_graph* g = NULL;
    assert_int_equal(ns_graph_create(&allocator, &g, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
    ns_expr c = ns_input("c"), d = ns_input("d"), x = ns_input("x"), y = ns_input("y");
    trace_selects_in_a_row(c, d, x, y);
    tracing_end();
    assert_int_equal(count_regions(g), 4);
    size_t blocks = counter.live_blocks, n = 0;
    for (bool failed = true; failed;) {
        ns_program_options options = {.backend = NS_BACKEND_NATIVE, .lanes = 4};
        ns_program* program = NULL;
        counter.calls = 0;
        counter.fail_at = ++n;
        ns_status status = ns_program_build(g, &options, &program, NULL);
        counter.fail_at = 0;
        failed = counter.calls >= n;
        assert_int_equal(status, failed ? NS_ERR_NOMEM : NS_OK);
        assert_int_equal(program != NULL, !failed);
        ns_program_free(program);
        assert_int_equal(counter.live_blocks, blocks);
    }
    assert_true(n > 20);
    ns_graph_free(g);
    assert_int_equal(counter.live_blocks, 0);
}

// ---- random graphs made of selects ---------------------------------------------------------

typedef struct pool {
    ns_rng rng;
    ns_expr items[600];
    uint32_t count;
} pool;

static ns_expr pick(pool* p) {
    uint32_t reach = ns_rng_below(&p->rng, 5) == 0 || p->count < 10 ? p->count : 10;
    return p->items[p->count - 1 - ns_rng_below(&p->rng, reach)];
}

static ns_expr operation(pool* p, ns_expr a, ns_expr b) {
    ns_expr constant = ns_const(ns_rng_uniform(&p->rng, 0.25, 0.75));
    switch (ns_rng_below(&p->rng, 5)) {
    case 0: return ns_fma(a, constant, b);
    case 1: return ns_sub(ns_mul(constant, a), b);
    case 2: return ns_max(ns_mul(a, constant), ns_neg(b));
    case 3: return ns_div(a, ns_add(constant, ns_abs(b)));
    default: return ns_sqrt(ns_add(ns_abs(a), constant));
    }
}

// Steps of their own on what there is; now and then one is left in the pool for others.
static ns_expr branch_of(pool* p, const ns_expr* m, uint32_t conditions) {
    ns_expr own[4];
    uint32_t steps = ns_rng_below(&p->rng, 70);
    for (int i = 0; i < 4; i++) own[i] = pick(p);
    for (uint32_t i = 0; i < steps; i++) {
        ns_expr outside = pick(p);
        ns_expr b = ns_rng_below(&p->rng, 4) == 0 ? outside : own[ns_rng_below(&p->rng, 4)];
        uint32_t k = ns_rng_below(&p->rng, 4);
        bool chooses = ns_rng_below(&p->rng, 30) == 0;
        own[k] = chooses ? ns_select(m[ns_rng_below(&p->rng, conditions)], own[k], b)
                         : operation(p, own[k], b);
        if (ns_rng_below(&p->rng, 150) == 0) p->items[p->count++] = own[k];
    }
    return ns_add(ns_add(own[0], own[1]), ns_sub(own[2], own[3]));
}

// Few conditions, many selects by each, and branches that may need what earlier selects gave.
static ns_graph* random_selects(uint64_t seed) {
    enum { CONDITIONS = 3, INPUTS = 6 };
    static const char* const names[INPUTS] = {"c", "d", "e", "x", "y", "z"};
    pool* p = calloc(1, sizeof *p);
    p->rng = ns_rng_seed(seed);
    ns_graph* g = tracing_begin();
    ns_expr m[CONDITIONS];
    for (int i = 0; i < INPUTS; i++) p->items[p->count++] = ns_input(names[i]);
    for (int i = 0; i < CONDITIONS; i++) m[i] = positive(p->items[i]);
    uint32_t selects = 1 + ns_rng_below(&p->rng, 8);
    for (uint32_t n = 0; n < selects; n++) {
        for (uint32_t i = ns_rng_below(&p->rng, 20); i-- > 0;) {
            ns_expr a = pick(p), b = pick(p);
            p->items[p->count++] = operation(p, a, b);
        }
        if (ns_rng_below(&p->rng, 4) == 0) {
            ns_expr a = pick(p), b = pick(p);
            m[ns_rng_below(&p->rng, CONDITIONS)] = ns_lt(a, b);
        }
        ns_expr condition = m[ns_rng_below(&p->rng, CONDITIONS)];
        ns_expr then = branch_of(p, m, CONDITIONS), otherwise = branch_of(p, m, CONDITIONS);
        p->items[p->count++] = ns_select(condition, then, otherwise);
        if (ns_rng_below(&p->rng, 3) == 0) { // once more, from the same branch
            ns_expr more = operation(p, then, pick(p));
            p->items[p->count++] = ns_select(condition, more, pick(p));
        }
    }
    ns_expr sum = ns_const(0.0);
    for (uint32_t i = INPUTS; i < p->count; i++) {
        sum = ns_fma(sum, ns_const(0.5), p->items[i]);
    }
    ns_output("sum", sum);
    ns_output("one", pick(p));
    tracing_end();
    free(p);
    return g;
}

static void random_selects_agree(void** state) {
    (void)state;
    enum { GRAPHS = 400 };
    uint32_t regions = 0, with = 0;
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        ns_graph* g = random_selects(seed);
        uint32_t found = check_code(g);
        regions += found;
        with += found > 0;
        char name[32];
        snprintf(name, sizeof name, "random graph %u", (unsigned)seed);
        if (found > 0) check_masks(name, g, 2, (double[]){-0.3, 0.7, 1.3, -0.8}, NULL);
        ns_graph_free(g);
    }
    print_message("%u regions in %u of %u random graphs\n", regions, with, (unsigned)GRAPHS);
    assert_true(with > GRAPHS / 2 && regions > 2 * with);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_branches_agree_in_every_lane),
        cmocka_unit_test(only_long_branches_are_regions),
        cmocka_unit_test(shapes_agree_in_every_lane),
        cmocka_unit_test(branches_that_no_lane_needs_are_skipped),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(random_selects_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
