// Thousands of random functions through the derivative check: every operation, block and option a
// user can reach, in combinations that nobody would write by hand. All backends must agree in every
// bit, forward with reverse mode, and both with central differences. Seeds are fixed.

#include "expr/code.h"
#include "neuralsim/neuralsim.h"
#include "support/check.h"
#include "support/sanitized.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#ifdef SANITIZED
enum { GRAPHS = 1000 };
#else
enum { GRAPHS = 3200 };
#endif
enum { PER_BATCH = 100, MAX_POOL = 256, MAX_INPUTS = 5, ARRAYS = 2, ARRAY_SIZE = 90 };

// ---- random expressions --------------------------------------------------------------------

// An expression and a bound of its magnitude around the point, to keep growth in check.
typedef struct item {
    ns_expr x;
    double bound;
} item;

typedef struct maker {
    ns_rng rng;
    item pool[MAX_POOL];
    uint32_t count, ninput;
    ns_expr inputs[MAX_INPUTS];
    ns_array arrays[ARRAYS];
    uint32_t narray;
} maker;

// Arguments of one call draw at most one random number: the order of their evaluation is not
// defined.
static uint32_t below(maker* m, uint32_t n) {
    return ns_rng_below(&m->rng, n);
}
static bool chance(maker* m, double p) {
    return ns_rng_uniform(&m->rng, 0.0, 1.0) < p;
}

static void push(maker* m, ns_expr x, double bound) {
    if (m->count < MAX_POOL) m->pool[m->count++] = (item){x, bound};
}

// An operand: mostly something made recently, sometimes a constant.
static item pick(maker* m) {
    static const double constants[] = {0.0, 1.0, -1.0, 2.0, 0.5, -0.25, 3.0};
    if (chance(m, 0.08)) {
        double c = constants[below(m, sizeof constants / sizeof *constants)];
        return (item){ns_const(c), fabs(c)};
    }
    if (chance(m, 0.05)) {
        double c = ns_rng_uniform(&m->rng, -2.0, 2.0);
        return (item){ns_const(c), fabs(c)};
    }
    uint32_t window = m->count > 8 && chance(m, 0.7) ? 8 : m->count;
    return m->pool[m->count - 1 - below(m, window)];
}

// Something of magnitude `limit` at most.
static item tame(maker* m, item a, double limit) {
    if (a.bound <= limit) return a;
    ns_expr scaled = ns_mul(ns_const(1.5 / a.bound), a.x);
    switch (below(m, 8)) {
    case 0: return (item){ns_mul(ns_const(limit), ns_sin(a.bound < 20.0 ? a.x : scaled)), limit};
    case 1: return (item){ns_mul(ns_const(limit), ns_tanh(scaled)), limit};
    case 2:
    case 3: return (item){ns_mul(ns_const(limit), ns_activate(NS_SOFTSIGN, scaled)), limit};
    default: return (item){ns_mul(ns_const(0.6 * limit), scaled), limit};
    }
}

static item small(maker* m) {
    return tame(m, pick(m), 3.0);
}

// In [low, high], smoothly.
static ns_expr within(maker* m, double low, double high) {
    ns_expr unit = tame(m, pick(m), 1.0).x;
    return ns_fma(unit, ns_const(0.5 * (high - low)), ns_const(0.5 * (high + low)));
}

static ns_expr truth(maker* m, uint32_t depth) {
    typedef ns_expr binary(ns_expr, ns_expr);
    static binary* const comparisons[] = {ns_lt, ns_le, ns_gt, ns_ge, ns_eq, ns_ne};
    if (depth > 0 && chance(m, 0.3)) {
        ns_expr a = truth(m, depth - 1), b = truth(m, depth - 1);
        return chance(m, 0.4) ? ns_and(a, b) : chance(m, 0.5) ? ns_or(a, b) : ns_not(a);
    }
    ns_expr a = pick(m).x, b = pick(m).x;
    if (chance(m, 0.05)) return ns_and(a, b); // any number is a truth value
    return comparisons[below(m, 6)](a, b);
}

// ---- one operation at a time ---------------------------------------------------------------

static void push_arithmetic(maker* m) {
    item a = small(m), b = small(m), c = small(m);
    switch (below(m, 7)) {
    case 0: push(m, ns_add(a.x, b.x), a.bound + b.bound); break;
    case 1: push(m, ns_sub(a.x, b.x), a.bound + b.bound); break;
    case 2: push(m, ns_mul(a.x, b.x), a.bound * b.bound); break;
    case 3: push(m, ns_neg(a.x), a.bound); break;
    case 4: push(m, ns_fma(a.x, b.x, c.x), a.bound * b.bound + c.bound); break;
    case 5: push(m, ns_div(a.x, within(m, 0.4, 3.0)), a.bound / 0.4); break;
    default: push(m, ns_div_safe(a.x, within(m, -3.0, -0.4)), a.bound / 0.4);
    }
}

static void push_function(maker* m) {
    item a = small(m), b = small(m);
    switch (below(m, 22)) {
    case 0: push(m, ns_sqrt(within(m, 0.1, 3.0)), 1.8); break;
    case 1: push(m, ns_sin(a.x), 1.0); break;
    case 2: push(m, ns_cos(a.x), 1.0); break;
    case 3: push(m, ns_tan(within(m, -1.2, 1.2)), 2.6); break;
    case 4: push(m, ns_asin(within(m, -0.9, 0.9)), 1.2); break;
    case 5: push(m, ns_acos(within(m, -0.9, 0.9)), 2.8); break;
    case 6: push(m, ns_atan(a.x), 1.6); break;
    case 7: push(m, ns_atan2(a.x, b.x), 3.2); break;
    case 8: push(m, ns_exp(within(m, -2.0, 2.0)), 7.4); break;
    case 9: push(m, ns_expm1(within(m, -2.0, 2.0)), 6.4); break;
    case 10: push(m, ns_log(within(m, 0.1, 3.0)), 2.4); break;
    case 11: push(m, ns_log1p(within(m, -0.8, 3.0)), 1.7); break;
    case 12: {
        ns_expr exponent = tame(m, a, 2.0).x;
        push(m, ns_pow(within(m, 0.2, 2.0), exponent), 25.0);
        break;
    }
    case 13: push(m, ns_pow(a.x, ns_const((double)below(m, 5))), pow(a.bound, 4.0) + 1.0); break;
    case 14: push(m, ns_tanh(a.x), 1.0); break;
    case 15: push(m, ns_softplus(a.x), a.bound + 0.7); break;
    case 16: push(m, ns_acos_safe(a.x), 3.2); break;
    case 17: push(m, ns_asin_safe(a.x), 1.6); break;
    case 18: push(m, ns_norm(2, (ns_expr[]){a.x, b.x}), a.bound + b.bound); break;
    case 19: {
        ns_expr unit[2] = {a.x, b.x};
        ns_normalize(2, unit, unit);
        push(m, unit[0], 1.0);
        push(m, unit[1], 1.0);
        break;
    }
    default: push(m, ns_activate((ns_activation)below(m, NS_ACTIVATION_COUNT), a.x), a.bound + 1.0);
    }
}

static void push_piece(maker* m) {
    item a = pick(m), b = pick(m);
    double larger = fmax(a.bound, b.bound);
    switch (below(m, 11)) {
    case 0: push(m, ns_abs(a.x), a.bound); break;
    case 1: push(m, ns_sign(a.x), 1.0); break;
    case 2: push(m, ns_min(a.x, b.x), larger); break;
    case 3: push(m, ns_max(a.x, b.x), larger); break;
    case 4: push(m, ns_add(ns_floor(a.x), b.x), a.bound + b.bound + 1.0); break;
    case 5: push(m, ns_sub(a.x, ns_round(b.x)), a.bound + b.bound + 1.0); break;
    case 6: push(m, ns_copysign(a.x, b.x), a.bound); break;
    case 7: push(m, ns_clamp(a.x, ns_const(-1.0), ns_const(0.5)), 1.0); break;
    case 8: push(m, ns_mul(a.x, truth(m, 2)), a.bound); break;
    default: push(m, ns_select(truth(m, 2), a.x, b.x), larger);
    }
}

// What would be infinite or NaN on the other side of a select.
static void push_guarded(maker* m) {
    item a = small(m), b = small(m);
    ns_expr positive = ns_gt(a.x, ns_const(0.05));
    switch (below(m, 5)) {
    case 0: push(m, ns_select(positive, ns_log(a.x), b.x), b.bound + 3.0); break;
    case 1: push(m, ns_select(positive, ns_sqrt(a.x), b.x), b.bound + 2.0); break;
    case 2: push(m, ns_select(positive, ns_div(b.x, a.x), b.x), 20.0 * b.bound); break;
    case 3:
        push(m, ns_select(positive, ns_pow(a.x, tame(m, b, 1.0).x), b.x), 20.0 + b.bound);
        break;
    default: {
        ns_expr inside = ns_lt(ns_abs(a.x), ns_const(0.95));
        push(m, ns_select(inside, ns_acos(a.x), b.x), 3.2 + b.bound);
    }
    }
}

// A branch long enough to be skipped where no lane needs it; what it is made of nobody else reads.
static item branch(maker* m) {
    item a = small(m);
    ns_expr x = a.x;
    uint32_t links = 2 + below(m, 3);
    for (uint32_t i = 0; i < links; i++) {
        ns_expr b = small(m).x;
        switch (below(m, 4)) {
        case 0: x = ns_fma(ns_sin(x), ns_const(1.5), ns_mul(ns_const(0.3), b)); break;
        case 1: x = ns_atan(ns_sub(b, x)); break;
        case 2: x = ns_mul(ns_tanh(x), ns_cos(b)); break;
        default: x = ns_div(x, ns_add(ns_const(1.2), ns_mul(b, b)));
        }
    }
    return (item){x, fmax(a.bound, 3.0)};
}

static void push_branches(maker* m) {
    ns_expr condition = truth(m, 1);
    item then = branch(m), otherwise = chance(m, 0.5) ? branch(m) : small(m);
    push(m, ns_select(condition, then.x, otherwise.x), fmax(then.bound, otherwise.bound));
    if (chance(m, 0.5)) return;
    item more = branch(m); // by the same condition
    push(m, ns_select(condition, ns_mul(then.x, more.x), more.x), (then.bound + 1.0) * more.bound);
}

// A layer on a random part of one of the arrays; parts may overlap.
static void push_layer(maker* m) {
    ns_array array = m->arrays[below(m, m->narray)];
    if (chance(m, 0.1)) {
        uint32_t n = 1 + below(m, 3);
        ns_expr elements[3];
        ns_array_elements(ns_array_slice(array, below(m, ARRAY_SIZE - n), n), elements);
        for (uint32_t i = 0; i < n; i++) push(m, elements[i], 0.8);
        return;
    }
    uint32_t nin = 1 + below(m, 8), nout = 1 + below(m, chance(m, 0.2) ? 9 : 4);
    uint32_t size = chance(m, 0.7) ? ns_dense_size(nin, nout) : nin * nout;
    ns_expr x[8], y[9];
    for (uint32_t i = 0; i < nin; i++) x[i] = tame(m, pick(m), 2.0).x;
    ns_array part = ns_array_slice(array, below(m, ARRAY_SIZE - size + 1), size);
    ns_dense_layer(part, nin, x, nout, (ns_activation)below(m, NS_ACTIVATION_COUNT), y);
    for (uint32_t i = 0; i < nout; i++) push(m, y[i], 2.0 * nin + 1.0);
}

// Derivatives inside the function.
static void push_gradient(maker* m) {
    ns_expr gradient[MAX_INPUTS];
    ns_gradient(m->pool[m->count - 1].x, m->ninput, m->inputs, gradient);
    uint32_t k = below(m, m->ninput);
    push(m, ns_tanh(ns_mul(ns_const(0.1), gradient[k])), 1.0);
}

static ns_graph* random_graph(uint64_t seed, double* x, double* weights[ARRAYS]) {
    static const char* const names[] = {"a", "b", "c", "d", "e"};
    maker m = {.rng = ns_rng_seed(seed)};
    ns_graph* g = NULL;
    ns_error error;
    assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);

    m.ninput = 1 + below(&m, MAX_INPUTS);
    for (uint32_t i = 0; i < m.ninput; i++) {
        x[i] = ns_rng_uniform(&m.rng, -1.5, 1.5);
        m.inputs[i] = ns_input(names[i]);
        push(&m, m.inputs[i], 1.7);
    }
    m.narray = chance(&m, 0.4) ? 1 + below(&m, ARRAYS) : 0;
    for (uint32_t k = 0; k < m.narray; k++) {
        m.arrays[k] = ns_input_array(k == 0 ? "w" : "v", ARRAY_SIZE, chance(&m, 0.4));
        for (uint32_t e = 0; e < ARRAY_SIZE; e++) {
            weights[k][e] = ns_rng_uniform(&m.rng, -0.8, 0.8);
        }
    }
    uint32_t steps = 2 + below(&m, 10);
    for (uint32_t i = 0; i < steps; i++) {
        if (m.narray > 0 && chance(&m, 0.2)) push_layer(&m);
        double kind = ns_rng_uniform(&m.rng, 0.0, 1.0);
        if (kind < 0.35) {
            push_arithmetic(&m);
        } else if (kind < 0.65) {
            push_function(&m);
        } else if (kind < 0.85) {
            push_piece(&m);
        } else if (kind < 0.93) {
            push_guarded(&m);
        } else if (kind < 0.97) {
            push_branches(&m);
        } else {
            push_gradient(&m);
        }
    }
    static const char* const outputs[] = {"p", "q", "r", "s"};
    uint32_t noutput = 1 + below(&m, 4);
    for (uint32_t k = 0; k < noutput; k++) {
        // The first one keeps much of the pool alive.
        ns_expr sum = m.pool[m.count - 1].x;
        for (uint32_t i = 2; k == 0 && i <= m.count && i < 5; i++) {
            sum = ns_add(sum, m.pool[m.count - i].x);
        }
        ns_output(outputs[k], k == 0 ? sum : pick(&m).x);
    }
    if (ns_trace_end(&error) != NS_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, error.message);
    return g;
}

// ---- the test ------------------------------------------------------------------------------

static void add_reports(check_report* total, const check_report* r) {
    total->functions += r->functions;
    total->vanished += r->vanished;
    total->numbers += r->numbers;
    total->slopes += r->slopes;
    total->undecided += r->undecided;
    total->functions_undecided += r->functions_undecided;
    total->backend_error = fmax(total->backend_error, r->backend_error);
    total->transpose_error = fmax(total->transpose_error, r->transpose_error);
    total->difference_error = fmax(total->difference_error, r->difference_error);
}

static bool has_regions(const ns_graph* g) {
    nsi_code code;
    assert_int_equal(nsi_code_build(g, &code, NULL), NS_OK);
    bool found = code.regions.count > 0;
    nsi_code_free(&code);
    return found;
}

static bool reachable(nsi_op op) {
    switch (op) {
    case NSI_FMS: // made by fusing only
    case NSI_FNMA:
    case NSI_FNMS:
    case NSI_POW2I: // by lowering only
    case NSI_EXPONENT: return false;
    default: return true;
    }
}

static void random_functions_pass_the_derivative_check(void** state) {
    (void)state;
    static const check_c parts[] = {CHECK_C_VALUE, CHECK_C_JVP, CHECK_C_VJP};
    check_report total = {0};
    static uint64_t used[NSI_OP_COUNT];
    uint32_t with_regions = 0;
    double start = nsi_clock_wall();
    for (uint32_t first = 0; first < GRAPHS; first += PER_BATCH) {
        check_batch* batch = check_batch_create();
        ns_graph* graphs[PER_BATCH];
        char names[PER_BATCH][40];
        for (uint32_t i = 0; i < PER_BATCH; i++) {
            double x[MAX_INPUTS], w[ARRAYS][ARRAY_SIZE];
            uint64_t seed = first + i;
            graphs[i] = random_graph(seed, x, (double* [ARRAYS]){w[0], w[1]});
            for (uint32_t n = 0; n < graphs[i]->nodes.count; n++) {
                used[graphs[i]->nodes.data[n].op]++;
            }
            with_regions += has_regions(graphs[i]);
            snprintf(names[i], sizeof names[i], "graph %u", first + i);
            check_options options = {.name = names[i],
                                     .may_vanish = true,
                                     .second = seed % 8 == 0,
                                     .c = seed % 128 == 0 ? CHECK_C_ALL : parts[seed % 3],
                                     .seed = seed};
            check_batch_add(batch, graphs[i], x, (const double* const[ARRAYS]){w[0], w[1]},
                            &options);
        }
        check_report report = check_batch_finish(batch);
        add_reports(&total, &report);
        for (uint32_t i = 0; i < PER_BATCH; i++) ns_graph_free(graphs[i]);
    }
    print_message(
        "%u functions (%u with zero derivative, %u with regions) in %.1f s: %llu numbers of all "
        "backends"
        " compared, largest relative difference %g; transpose %.1e; %u slopes, %u undecided"
        " in %u functions, others within %.1e\n",
        total.functions, total.vanished, with_regions, nsi_clock_wall() - start,
        (unsigned long long)total.numbers, total.backend_error, total.transpose_error, total.slopes,
        total.undecided, total.functions_undecided, total.difference_error);
    assert_int_equal(total.functions, GRAPHS);
    assert_true(total.backend_error == 0.0);
    // Kinks closer than the smallest step, and flat functions, are rare.
    assert_true(total.functions_undecided * 200 <= total.functions);
    assert_true(total.vanished * 20 <= total.functions);
    assert_true(with_regions * 10 >= total.functions);
    for (nsi_op op = 0; op < NSI_OP_COUNT; op++) {
        if (reachable(op) && used[op] < GRAPHS / 32) {
            fail_msg("%s was used %llu times only", nsi_ops[op].name, (unsigned long long)used[op]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_functions_pass_the_derivative_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
