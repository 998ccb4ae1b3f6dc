// The public face of graph building: a current graph per thread, so that physics reads
// `ns_mul(m, ns_cos(q))` and not `ns_mul(g, m, ns_cos(g, q))`.

#include "expr/trace.h"

static _Thread_local ns_graph* current;
static _Thread_local bool muted;
static _Thread_local int stage;
static _Thread_local nsi_quantity_hook* hook;
static _Thread_local void* hook_context;
static _Thread_local nsi_quantity_filter* hook_filter;

ns_graph* nsi_trace_graph(void) {
    return current;
}
void nsi_trace_mute(bool mute) {
    muted = mute;
}

void nsi_trace_stage(int next) {
    stage = next;
}

void nsi_trace_hook(nsi_quantity_hook* to, void* context) {
    hook = to;
    hook_context = context;
    hook_filter = NULL;
}

void nsi_trace_filter(nsi_quantity_filter* filter) {
    hook_filter = filter;
}

bool nsi_trace_touches(const char* prefix) {
    return hook && (!hook_filter || hook_filter(hook_context, prefix));
}

nsi_trace_state nsi_trace_enter(ns_graph* graph) {
    nsi_trace_state outside = {current, muted, hook};
    current = graph;
    muted = true;
    hook = NULL;
    return outside;
}

void nsi_trace_leave(nsi_trace_state outside) {
    current = outside.graph;
    muted = outside.muted;
    hook = outside.hook;
}

void nsi_trace_forget(const ns_graph* graph) {
    if (current == graph) current = NULL;
}

static const ns_expr invalid = {NSI_NONE};

ns_status ns_trace_begin(ns_graph* graph, ns_error* error) {
    if (!graph) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_trace_begin: the graph is NULL");
    if (current) {
        return nsi_fail(error, NS_ERR_STATE,
                        "ns_trace_begin: this thread is tracing already; call ns_trace_end first");
    }
    current = graph;
    return NS_OK;
}

ns_status ns_trace_end(ns_error* error) {
    if (!current) {
        return nsi_fail(error, NS_ERR_STATE, "ns_trace_end without ns_trace_begin in this thread");
    }
    ns_graph* g = current;
    current = NULL;
    muted = false;
    stage = 0;
    hook = NULL;
    if (g->error.status != NS_OK && error) *error = g->error;
    return g->error.status;
}

bool ns_expr_is_valid(ns_expr x) {
    return x.id != NSI_NONE;
}

ns_expr ns_input(const char* name) {
    return current ? (ns_expr){nsi_graph_input(current, name)} : invalid;
}

ns_array ns_input_array(const char* name, uint32_t size, bool per_lane) {
    uint32_t number = current ? nsi_graph_array(current, name, size, per_lane) : NSI_NONE;
    return (ns_array){number, 0, number == NSI_NONE ? 0 : size};
}

ns_array ns_array_slice(ns_array array, uint32_t offset, uint32_t size) {
    if (offset <= array.size && size <= array.size - offset) {
        return (ns_array){array.input, array.offset + offset, size};
    }
    if (current) {
        nsi_graph_fail(current, NS_ERR_ARGUMENT,
                       "a slice of %u elements from offset %u on does not fit an array of %u", size,
                       offset, array.size);
    }
    return (ns_array){NSI_NONE, 0, 0};
}

void ns_output(const char* name, ns_expr x) {
    if (current) nsi_graph_output(current, name, x.id);
}

ns_expr nsi_trace_observe(const char* name, const char* unit, ns_expr x) {
    if (current && hook) x = hook(hook_context, name, x);
    if (current && !muted) {
        nsi_graph_quantity(current, &(nsi_port){name, x.id, unit, stage, NULL});
    }
    return x;
}

ns_expr nsi_trace_quantity(const char* name, const char* unit, ns_expr x) {
    if (!current) return x;
    nsi_graph_round(current, x.id);
    x = nsi_trace_observe(name, unit, x);
    nsi_graph_round(current, x.id);
    return x;
}

void nsi_trace_conjugate(const char* velocity) {
    if (!current || muted || current->error.status != NS_OK) return;
    nsi_port* force = &current->quantities.data[current->quantities.count - 1];
    force->conjugate = nsi_arena_string(&current->arena, velocity, strlen(velocity));
    if (!force->conjugate) nsi_graph_fail_nomem(current);
}

ns_expr nsi_trace_change(ns_expr changed, ns_expr given) {
    if (!current || current->error.status != NS_OK) return invalid;
    nsi_node node = current->nodes.data[changed.id];
    if (node.op == NSI_ADD && node.a == given.id) return (ns_expr){node.b};
    if (node.op == NSI_ADD && node.b == given.id) return (ns_expr){node.a};
    return ns_sub(changed, given);
}

void nsi_trace_damping(ns_expr force, ns_expr along, ns_expr of, ns_expr coefficient) {
    if (!current || current->error.status != NS_OK) return;
    // Sums take the sign of -x into themselves: what is left there to find is x.
    const nsi_node* node = &current->nodes.data[force.id];
    nsi_id found = node->op == NSI_NEG ? node->a : force.id;
    nsi_damping_term term = {found, along.id, of.id, coefficient.id};
    if (!nsi_array_push(&current->allocator, &current->damping, term))
        nsi_graph_fail_nomem(current);
}

ns_expr ns_quantity(const char* name, ns_expr x) {
    return nsi_trace_quantity(name, "", x);
}

ns_expr ns_const(double value) {
    return current ? (ns_expr){nsi_graph_const(current, value)} : invalid;
}

// ---- operations ----------------------------------------------------------------------------

static ns_expr trace_node(nsi_op op, ns_expr a, ns_expr b, ns_expr c) {
    return current ? (ns_expr){nsi_make(current, op, a.id, b.id, c.id)} : invalid;
}

#define UNARY(name, OP)                                                                            \
    ns_expr name(ns_expr a) {                                                                      \
        return trace_node(OP, a, invalid, invalid);                                                \
    }
#define BINARY(name, OP)                                                                           \
    ns_expr name(ns_expr a, ns_expr b) {                                                           \
        return trace_node(OP, a, b, invalid);                                                      \
    }

UNARY(ns_neg, NSI_NEG)
UNARY(ns_sqrt, NSI_SQRT)
UNARY(ns_sin, NSI_SIN)
UNARY(ns_cos, NSI_COS)
UNARY(ns_tan, NSI_TAN)
UNARY(ns_asin, NSI_ASIN)
UNARY(ns_acos, NSI_ACOS)
UNARY(ns_atan, NSI_ATAN)
UNARY(ns_exp, NSI_EXP)
UNARY(ns_expm1, NSI_EXPM1)
UNARY(ns_log, NSI_LOG)
UNARY(ns_log1p, NSI_LOG1P)
UNARY(ns_tanh, NSI_TANH)
UNARY(ns_softplus, NSI_SOFTPLUS)
UNARY(ns_abs, NSI_ABS)
UNARY(ns_sign, NSI_SIGN)
UNARY(ns_floor, NSI_FLOOR)
UNARY(ns_round, NSI_ROUND)
UNARY(ns_not, NSI_NOT)

BINARY(ns_add, NSI_ADD)
BINARY(ns_sub, NSI_SUB)
BINARY(ns_mul, NSI_MUL)
BINARY(ns_div, NSI_DIV)
BINARY(ns_atan2, NSI_ATAN2)
BINARY(ns_pow, NSI_POW)
BINARY(ns_min, NSI_MIN)
BINARY(ns_max, NSI_MAX)
BINARY(ns_copysign, NSI_COPYSIGN)
BINARY(ns_lt, NSI_LT)
BINARY(ns_le, NSI_LE)
BINARY(ns_eq, NSI_EQ)
BINARY(ns_ne, NSI_NE)
BINARY(ns_and, NSI_AND)
BINARY(ns_or, NSI_OR)

ns_expr ns_gt(ns_expr a, ns_expr b) {
    return ns_lt(b, a);
}
ns_expr ns_ge(ns_expr a, ns_expr b) {
    return ns_le(b, a);
}
ns_expr ns_fma(ns_expr a, ns_expr b, ns_expr c) {
    return trace_node(NSI_FMA, a, b, c);
}

ns_expr ns_select(ns_expr condition, ns_expr then, ns_expr otherwise) {
    return trace_node(NSI_SELECT, condition, then, otherwise);
}

// ---- safe forms ----------------------------------------------------------------------------

ns_expr ns_div_safe(ns_expr a, ns_expr b) {
    // The divisor is replaced before dividing, so that no derivative of any order meets 1/0.
    ns_expr zero = ns_const(0.0), vanishes = ns_eq(b, zero);
    ns_expr divisor = ns_select(vanishes, ns_const(1.0), b);
    return ns_select(vanishes, zero, ns_div(a, divisor));
}

ns_expr ns_norm(uint32_t n, const ns_expr* x) {
    ns_expr sum = ns_const(0.0);
    for (uint32_t i = 0; i < n; i++) sum = ns_add(sum, ns_mul(x[i], x[i]));
    return ns_sqrt(sum);
}

void ns_normalize(uint32_t n, const ns_expr* x, ns_expr* out) {
    ns_expr scale = ns_div_safe(ns_const(1.0), ns_norm(n, x));
    for (uint32_t i = 0; i < n; i++) out[i] = ns_mul(x[i], scale);
}

ns_expr ns_clamp(ns_expr a, ns_expr low, ns_expr high) {
    // The argument comes second in both, so that NaN passes and a tie takes its derivative.
    return ns_min(high, ns_max(low, a));
}

ns_expr ns_acos_safe(ns_expr a) {
    return ns_acos(ns_clamp(a, ns_const(-1.0), ns_const(1.0)));
}
ns_expr ns_asin_safe(ns_expr a) {
    return ns_asin(ns_clamp(a, ns_const(-1.0), ns_const(1.0)));
}
