// Construction of nodes: constant folding and exact identities, before hash-consing.
//
// Identities are exact for finite values, up to the sign of zero; nothing is reassociated, so a
// graph computes what was written. Signs move outwards and into subtractions, which saves
// negations and gives equal expressions one form.

#include "expr/graph.h"

#include <math.h>

#define NSI_C_SOURCE(...) __VA_ARGS__
#include "expr/bits.def"
#undef NSI_C_SOURCE

// The value of a primitive operation on numbers: the table's C text.
static double fold_constants(nsi_op op, double a, double b, double c) {
    const double lowered = NAN; // LOWER operations are folded through their expansion
    switch (op) {
#define OP(ENUM, name, arity, kind, flags, value, da, db, dc, edges)                               \
    case NSI_##ENUM:                                                                               \
        return value;
#include "expr/ops.def"
#undef OP
    case NSI_OP_COUNT: break;
    }
    return lowered;
}

static nsi_id intern(ns_graph* g, nsi_op op, nsi_id a, nsi_id b, nsi_id c) {
    uint32_t arity = nsi_ops[op].arity;
    if ((nsi_ops[op].flags & NSI_FLAG_COMMUTES) && a > b) {
        nsi_id swap = a;
        a = b;
        b = swap;
    }
    nsi_node node = {.op = op, .a = a};
    node.b = arity > 1 ? b : 0;
    node.c = arity > 2 ? c : 0;
    return nsi_graph_intern(g, node);
}

static nsi_id make1(ns_graph* g, nsi_op op, nsi_id a) {
    return nsi_make(g, op, a, 0, 0);
}
static nsi_id make2(ns_graph* g, nsi_op op, nsi_id a, nsi_id b) {
    return nsi_make(g, op, a, b, 0);
}
static nsi_id negate(ns_graph* g, nsi_id a) {
    return make1(g, NSI_NEG, a);
}

static bool is_op(const ns_graph* g, nsi_id id, nsi_op op) {
    return g->nodes.data[id].op == op;
}
static bool is_mask(const ns_graph* g, nsi_id id) {
    return (nsi_ops[g->nodes.data[id].op].flags & NSI_FLAG_MASK) != 0;
}

// x of -x; NSI_NONE when `id` is not a negation.
static nsi_id negated(const ns_graph* g, nsi_id id) {
    return is_op(g, id, NSI_NEG) ? g->nodes.data[id].a : NSI_NONE;
}

static bool is_power_of_two(double x) {
    int exponent;
    return isnormal(x) && isnormal(1.0 / x) && fabs(frexp(x, &exponent)) == 0.5;
}

static nsi_id make_add(ns_graph* g, nsi_id a, nsi_id b) {
    if (nsi_is_const(g, a, 0.0)) return b;
    if (nsi_is_const(g, b, 0.0)) return a;
    if (negated(g, b) != NSI_NONE) return make2(g, NSI_SUB, a, negated(g, b));
    if (negated(g, a) != NSI_NONE) return make2(g, NSI_SUB, b, negated(g, a));
    return intern(g, NSI_ADD, a, b, 0);
}

static nsi_id make_sub(ns_graph* g, nsi_id a, nsi_id b) {
    if (a == b) return nsi_graph_const(g, 0.0);
    if (nsi_is_const(g, b, 0.0)) return a;
    if (nsi_is_const(g, a, 0.0)) return negate(g, b);
    if (negated(g, b) != NSI_NONE) return make2(g, NSI_ADD, a, negated(g, b));
    if (negated(g, a) != NSI_NONE) return negate(g, make2(g, NSI_ADD, negated(g, a), b));
    if (is_op(g, b, NSI_CONST)) {
        return make2(g, NSI_ADD, a, nsi_graph_const(g, -g->nodes.data[b].value));
    }
    return intern(g, NSI_SUB, a, b, 0);
}

static nsi_id make_mul(ns_graph* g, nsi_id a, nsi_id b) {
    if (is_op(g, a, NSI_CONST)) { // constant second
        nsi_id swap = a;
        a = b;
        b = swap;
    }
    if (nsi_is_const(g, b, 0.0)) return b;
    if (nsi_is_const(g, b, 1.0)) return a;
    if (nsi_is_const(g, b, -1.0)) return negate(g, a);
    if (negated(g, a) != NSI_NONE && is_op(g, b, NSI_CONST)) {
        return make2(g, NSI_MUL, negated(g, a), nsi_graph_const(g, -g->nodes.data[b].value));
    }
    if (negated(g, a) != NSI_NONE) return negate(g, make2(g, NSI_MUL, negated(g, a), b));
    if (negated(g, b) != NSI_NONE) return negate(g, make2(g, NSI_MUL, a, negated(g, b)));
    return intern(g, NSI_MUL, a, b, 0);
}

static nsi_id make_div(ns_graph* g, nsi_id a, nsi_id b) {
    if (nsi_is_const(g, a, 0.0)) return a;
    if (is_op(g, b, NSI_CONST) && is_power_of_two(g->nodes.data[b].value)) {
        return make2(g, NSI_MUL, a, nsi_graph_const(g, 1.0 / g->nodes.data[b].value));
    }
    if (negated(g, a) != NSI_NONE) return negate(g, make2(g, NSI_DIV, negated(g, a), b));
    if (negated(g, b) != NSI_NONE) return negate(g, make2(g, NSI_DIV, a, negated(g, b)));
    return intern(g, NSI_DIV, a, b, 0);
}

static nsi_id make_neg(ns_graph* g, nsi_id a) {
    if (negated(g, a) != NSI_NONE) return negated(g, a);
    if (is_op(g, a, NSI_SUB)) return make2(g, NSI_SUB, g->nodes.data[a].b, g->nodes.data[a].a);
    return intern(g, NSI_NEG, a, 0, 0);
}

// +-(a*b) +- c: strip the signs of the operands, then name the form.
static nsi_id make_fused(ns_graph* g, nsi_op op, nsi_id a, nsi_id b, nsi_id c) {
    bool minus_product = op == NSI_FNMA || op == NSI_FNMS;
    bool minus_c = op == NSI_FMS || op == NSI_FNMS;
    if (negated(g, a) != NSI_NONE) a = negated(g, a), minus_product = !minus_product;
    if (negated(g, b) != NSI_NONE) b = negated(g, b), minus_product = !minus_product;
    if (negated(g, c) != NSI_NONE) c = negated(g, c), minus_c = !minus_c;

    if (nsi_is_const(g, a, 0.0) || nsi_is_const(g, b, 0.0)) return minus_c ? negate(g, c) : c;
    bool exact_product = false; // a product with 1, so that a plain sum has the same one rounding
    nsi_id product = NSI_NONE;
    if (nsi_is_const(g, a, 1.0) || nsi_is_const(g, c, 0.0)) product = make2(g, NSI_MUL, a, b);
    if (nsi_is_const(g, b, 1.0)) product = a;
    exact_product = product != NSI_NONE;
    if (exact_product) {
        if (minus_product) product = negate(g, product);
        return make2(g, minus_c ? NSI_SUB : NSI_ADD, product, c);
    }
    if (a > b) { // the product commutes
        nsi_id swap = a;
        a = b;
        b = swap;
    }
    op = minus_product ? (minus_c ? NSI_FNMS : NSI_FNMA) : (minus_c ? NSI_FMS : NSI_FMA);
    return intern(g, op, a, b, c);
}

static nsi_id make_select(ns_graph* g, nsi_id condition, nsi_id then, nsi_id otherwise) {
    const nsi_node* node = &g->nodes.data[condition];
    if (node->op == NSI_CONST) return node->value != 0.0 ? then : otherwise;
    if (then == otherwise) return then;
    if (node->op == NSI_NOT) return nsi_make(g, NSI_SELECT, node->a, otherwise, then);
    return intern(g, NSI_SELECT, condition, then, otherwise);
}

// x and c, x or c for a constant c on either side.
static nsi_id make_logic(ns_graph* g, nsi_op op, nsi_id a, nsi_id b) {
    if (is_op(g, a, NSI_CONST)) {
        nsi_id swap = a;
        a = b;
        b = swap;
    }
    if (is_op(g, b, NSI_CONST)) {
        bool truth = g->nodes.data[b].value != 0.0;
        if (op == NSI_AND && !truth) return nsi_graph_const(g, 0.0);
        if (op == NSI_OR && truth) return nsi_graph_const(g, 1.0);
        return is_mask(g, a) ? a : make2(g, NSI_NE, a, nsi_graph_const(g, 0.0));
    }
    if (a == b && is_mask(g, a)) return a;
    return intern(g, op, a, b, 0);
}

// max(d, min(x, c)) is d for constants c <= d, also for a NaN x, and min(d, max(x, c)) for c >= d.
static nsi_id make_bound(ns_graph* g, nsi_op op, nsi_id a, nsi_id b) {
    if (a == b) return a;
    nsi_id outer = is_op(g, a, NSI_CONST) ? a : b, inner = outer == a ? b : a;
    if (is_op(g, outer, NSI_CONST) && is_op(g, inner, op == NSI_MAX ? NSI_MIN : NSI_MAX) &&
        is_op(g, g->nodes.data[inner].b, NSI_CONST)) {
        double d = g->nodes.data[outer].value;
        double c = g->nodes.data[g->nodes.data[inner].b].value;
        bool same = c == d && signbit(c) == signbit(d);
        if (same || (op == NSI_MAX ? c < d : c > d)) return outer;
    }
    return intern(g, op, a, b, 0);
}

// Powers that are cheaper, and at least as accurate, as products, quotients and roots.
static nsi_id make_pow(ns_graph* g, nsi_id a, nsi_id b) {
    if (is_op(g, b, NSI_CONST)) {
        double e = g->nodes.data[b].value;
        if (e == 0.0) return nsi_graph_const(g, 1.0);
        if (e == 1.0) return a;
        if (e == 2.0) return make2(g, NSI_MUL, a, a);
        if (e == 3.0) return make2(g, NSI_MUL, make2(g, NSI_MUL, a, a), a);
        if (e == -1.0) return make2(g, NSI_DIV, nsi_graph_const(g, 1.0), a);
        if (e == 0.5) return make1(g, NSI_SQRT, a);
        if (e == 1.5) return make2(g, NSI_MUL, a, make1(g, NSI_SQRT, a));
    }
    return intern(g, NSI_POW, a, b, 0);
}

nsi_id nsi_make(ns_graph* g, nsi_op op, nsi_id a, nsi_id b, nsi_id c) {
    // After an error, all further nodes are invalid.
    if (g->error.status != NS_OK) return NSI_NONE;

    // Operands must be nodes of this graph.
    uint32_t arity = nsi_ops[op].arity;
    nsi_id operands[3] = {a, b, c};
    bool constant = true;
    for (uint32_t k = 0; k < arity && k < 3; k++) {
        if (operands[k] >= g->nodes.count) {
            return nsi_graph_fail(g, NS_ERR_ARGUMENT,
                                  "operand %u of \"%s\" is not an expression of this graph", k + 1,
                                  nsi_ops[op].name);
        }
        // Fold only if all operands are constants.
        constant = constant && is_op(g, operands[k], NSI_CONST);
    }

    // Constant folding, with the bits that a program would compute.
    if (constant) {
        // Functions that are lowered fold through their lowered form.
        if (nsi_ops[op].kind == NSI_KIND_LOWER) return nsi_lower_op(g, op, a, b);
        double x = g->nodes.data[a].value;
        double y = arity > 1 ? g->nodes.data[b].value : 0.0;
        double z = arity > 2 ? g->nodes.data[c].value : 0.0;
        return nsi_graph_const(g, fold_constants(op, x, y, z));
    }

    // Identities that are exact; anything else becomes a node.
    switch (op) {
    case NSI_ADD: return make_add(g, a, b);
    case NSI_SUB: return make_sub(g, a, b);
    case NSI_MUL: return make_mul(g, a, b);
    case NSI_DIV: return make_div(g, a, b);
    case NSI_NEG: return make_neg(g, a);
    case NSI_FMA:
    case NSI_FMS:
    case NSI_FNMA:
    case NSI_FNMS: return make_fused(g, op, a, b, c);
    case NSI_POW: return make_pow(g, a, b);
    // |-x| = |x|, and the absolute value of one is itself.
    case NSI_ABS:
        if (negated(g, a) != NSI_NONE) a = negated(g, a);
        if (is_op(g, a, NSI_ABS)) return a;
        break;
    case NSI_COPYSIGN:
        // copysign ignores the sign of its first operand.
        if (is_op(g, a, NSI_ABS)) a = g->nodes.data[a].a;
        break;
    case NSI_MIN:
    case NSI_MAX: return make_bound(g, op, a, b);
    case NSI_LT:
        // x < x is false, for NaN as well.
        if (a == b) return nsi_graph_const(g, 0.0);
        break;
    case NSI_AND:
    case NSI_OR: return make_logic(g, op, a, b);
    case NSI_SELECT: return make_select(g, a, b, c);
    default: break;
    }

    // Hash-consing: equal nodes are the same node.
    return intern(g, op, a, b, c);
}
