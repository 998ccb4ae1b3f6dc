// Graphs of mixed operations in about the proportions of rigid-body dynamics: per thousand, some
// 900 additions, subtractions, multiplications and negations, 40 abs/min/max/select, 25 divisions
// and square roots, 16 sines and cosines, 4 of tanh, exp, atan2 and log. About 30 values are live
// at a time, so registers spill as they do in real programs. Every operation is live.

#include "bench/bench.h"

#include "base/common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { INPUTS = 16, LIVE = 30 };

// A value together with its number at the point where all inputs are 1, which keeps it in range.
typedef struct item {
    ns_expr expr;
    double at_one;
} item;

typedef struct generator {
    ns_rng rng;
    item live[LIVE + 1];
    uint32_t count;
    item inputs[INPUTS];
} generator;

static item take(generator* g) {
    uint32_t k = ns_rng_below(&g->rng, g->count);
    item x = g->live[k];
    g->live[k] = g->live[--g->count];
    return x;
}

static item peek(generator* g) {
    if (g->count == 0 || ns_rng_below(&g->rng, 4) == 0) {
        return g->inputs[ns_rng_below(&g->rng, INPUTS)];
    }
    return g->live[ns_rng_below(&g->rng, g->count)];
}

static item next(generator* g) {
    // Operands: two different expressions with their values at input 1.
    item a = g->count > LIVE - 6 ? take(g) : peek(g), b = peek(g);
    while (b.expr.id == a.expr.id) b = peek(g); // x - x would fold
    double x = a.at_one, y = b.at_one;
    ns_expr c;
    // Drawn once, so that the sequence depends on the seed only.
    uint32_t kind = ns_rng_below(&g->rng, 1000);

    // Values are kept in a range where no function overflows or underflows.
    if (fabs(x) > 3.0 || fabs(x) < 0.05) {
        return fabs(x) > 3.0 ? (item){ns_mul(a.expr, ns_const(0.37)), 0.37 * x}
                             : (item){ns_add(a.expr, ns_const(0.83)), 0.83 + x};
    }

    // Frequencies of operations follow those of rigid body dynamics: mostly products and sums.
    if (kind < 430) return (item){ns_mul(a.expr, b.expr), x * y};
    if (kind < 690) return (item){ns_add(a.expr, b.expr), x + y};
    if (kind < 890) return (item){ns_sub(a.expr, b.expr), x - y};
    if (kind < 910) return (item){ns_neg(a.expr), -x};
    if (kind < 920) return (item){ns_abs(a.expr), fabs(x)};
    if (kind < 930) return (item){ns_min(a.expr, b.expr), fmin(x, y)};
    if (kind < 940) return (item){ns_max(a.expr, b.expr), fmax(x, y)};
    if (kind < 950) {
        c = ns_lt(a.expr, b.expr);
        return (item){ns_select(c, ns_mul(a.expr, b.expr), a.expr), x < y ? x * y : x};
    }

    // Denominators, and arguments of roots and logarithms, are positive.
    if (kind < 970) {
        return (item){ns_div(a.expr, ns_add(ns_const(1.5), ns_mul(b.expr, b.expr))),
                      x / (1.5 + y * y)};
    }
    if (kind < 980) {
        return (item){ns_sqrt(ns_add(ns_const(0.5), ns_mul(a.expr, a.expr))), sqrt(0.5 + x * x)};
    }
    if (kind < 988) return (item){ns_sin(a.expr), sin(x)};
    if (kind < 996) return (item){ns_cos(a.expr), cos(x)};
    if (kind == 996) return (item){ns_tanh(a.expr), tanh(x)};
    if (kind == 997) return (item){ns_exp(a.expr), exp(x)};
    if (kind == 998) return (item){ns_atan2(a.expr, b.expr), atan2(x, y)};
    return (item){ns_log(ns_add(ns_const(1.5), ns_mul(a.expr, a.expr))), log(1.5 + x * x)};
}

static ns_status trace_mixed(uint32_t operations, ns_graph** out, ns_error* error) {
    ns_status status = ns_graph_create(NULL, out, error);
    if (status == NS_OK) status = ns_trace_begin(*out, error);
    if (status != NS_OK) return status;
    generator g = {.rng = ns_rng_seed(operations)};
    char name[16];
    for (int i = 0; i < INPUTS; i++) {
        snprintf(name, sizeof name, "x%d", i);
        g.inputs[i] = (item){ns_input(name), 1.0};
    }
    // Handles count the nodes built so far; the few constants hardly matter.
    item made = {ns_const(0.83), 0.0};
    while (ns_expr_is_valid(made.expr) && made.expr.id < operations + INPUTS) {
        made = next(&g);
        g.live[g.count++] = made;
    }
    for (uint32_t k = 0; k < g.count; k++) {
        snprintf(name, sizeof name, "y%u", k);
        ns_output(name, g.live[k].expr);
    }
    return ns_trace_end(error);
}

bool bench_mixed_graph(const bench_case* self, const bench_options* options) {
    uint32_t operations = (uint32_t)strtoul(self->name + strlen("graph"), NULL, 10) * 1000;
    ns_graph* graph = NULL;
    ns_error error;
    ns_status status = trace_mixed(operations, &graph, &error);
    if (status != NS_OK) fprintf(stderr, "neuralsim bench: %s\n", error.message);
    bool ok = status == NS_OK && bench_graph(self->name, options, graph);
    ns_graph_free(graph);
    return ok;
}
