// Lowered functions, evaluated.

#ifndef TEST_LOWER_RIG_H
#define TEST_LOWER_RIG_H

#include "expr/block.h"
#include "neuralsim/program.h"
#include "support/assert.h"

#include <math.h>
#include <stdlib.h>

#define NSI_C_SOURCE(...) __VA_ARGS__
#include "expr/bits.def"
#undef NSI_C_SOURCE

#define LENGTH(table) (sizeof(table) / sizeof *(table))

// ---- evaluation ----------------------------------------------------------------------------

static inline double apply(uint32_t op, double a, double b, double c) {
    const double lowered = NAN;
    switch ((nsi_op)op) {
#define OP(ENUM, name, arity, kind, flags, value, da, db, dc, edges)                               \
    case NSI_##ENUM:                                                                               \
        return value;
#include "expr/ops.def"
#undef OP
    case NSI_OP_COUNT: break;
    }
    return lowered;
}

// Values of all nodes of a graph of primitive operations.
static inline void evaluate(const ns_graph* g, const double* in, double* values) {
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const nsi_node* n = &g->nodes.data[i];
        uint32_t arity = nsi_ops[n->op].arity;
        if (n->op == NSI_INPUT) {
            values[i] = in[n->a];
        } else if (n->op == NSI_CONST) {
            values[i] = n->value;
        } else {
            double a = arity > 0 ? values[n->a] : 0.0;
            double b = arity > 1 ? values[n->b] : 0.0;
            double c = arity > 2 ? values[n->c] : 0.0;
            values[i] = apply(n->op, a, b, c);
        }
    }
}

// A function of a and b as backends see it: lowered and contracted.
typedef struct function {
    nsi_op op;
    ns_graph* g;
    double* values;
} function;

static inline function function_of(nsi_op op) {
    ns_graph* source;
    assert_int_equal(ns_graph_create(NULL, &source, NULL), NS_OK);
    nsi_id a = nsi_graph_input(source, "a"), b = nsi_graph_input(source, "b");
    nsi_graph_output(source, "y", nsi_make(source, op, a, b, NSI_NONE));
    function f = {.op = op};
    assert_int_equal(nsi_pass_lower(source, &f.g, NULL), NS_OK);
    assert_int_equal(nsi_pass_contract(f.g, NULL), NS_OK);
    ns_graph_free(source);
    f.values = malloc(f.g->nodes.count * sizeof *f.values);
    return f;
}

static inline void function_free(function* f) {
    ns_graph_free(f->g);
    free(f->values);
}

static inline double call(const function* f, double a, double b) {
    double in[2] = {a, b};
    evaluate(f->g, in, f->values);
    return f->values[f->g->outputs.data[0].node];
}

static inline bool same(double x, double y) {
    return x == y || (isnan(x) && isnan(y));
}

// ---- special values ------------------------------------------------------------------------

#define INF INFINITY

#define PI 3.141592653589793

#define SMALLEST 0x1p-1074

#endif
