/// @file expr.h
/// Expressions: trace ordinary-looking arithmetic into a graph, differentiate it, print it.
///
///     ns_graph* f = NULL;
///     ns_graph_create(NULL, &f, NULL);
///     ns_trace_begin(f, NULL);
///     ns_expr x = ns_input("x"), y = ns_input("y");
///     ns_output("z", ns_mul(ns_sin(x), y));
///     if (ns_trace_end(&error) != NS_OK) ...          // whatever went wrong while tracing
///
///     ns_graph* df = NULL;
///     ns_graph_vjp(f, NULL, &df, &error);             // inputs x, y, seed:z; outputs z, d:x, d:y
///
/// A graph is a function of named scalar inputs (and arrays, which only blocks such as dense
/// layers read) to named scalar outputs. Building it folds constants, applies exact identities and
/// merges equal subexpressions. Derivatives are graphs again, so second derivatives come from
/// differentiating twice. Run a graph through program.h.
///
/// Identities hold for finite values and up to the sign of zero: x*0 is 0, x-x is 0, 0/x is 0. When
/// a program is made, a product that is used once, in a sum, is joined with it: the two round once.
/// So x*x - y*y may be a rounding error away from 0 at x = y.

#ifndef NEURALSIM_EXPR_H
#define NEURALSIM_EXPR_H

#include "neuralsim/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A graph. Not to be changed by two threads at once; each thread traces into a graph of its own.
typedef struct ns_graph ns_graph;

/// A scalar in the graph being traced. Meaningful only there.
typedef struct ns_expr {
    uint32_t id;
} ns_expr;

/// A part of an array input of the graph being traced, e.g. the weights of a layer.
typedef struct ns_array {
    uint32_t input;  ///< number of the array input
    uint32_t offset; ///< first element
    uint32_t size;   ///< number of elements
} ns_array;

// ---- graphs ----------------------------------------------------------------------------------

/// Create an empty graph.
/// @param allocator  NULL for ns_default_allocator()
/// @param out        receives the graph; free it with ns_graph_free()
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_graph_create(const ns_allocator* allocator, ns_graph** out, ns_error* error);

/// Free a graph; NULL is allowed. Programs built from it live on.
NS_API void ns_graph_free(ns_graph* graph);

/// Number of scalar inputs, scalar outputs, array inputs and array outputs.
NS_API uint32_t ns_graph_input_count(const ns_graph* graph);
NS_API uint32_t ns_graph_output_count(const ns_graph* graph);
NS_API uint32_t ns_graph_array_count(const ns_graph* graph);
NS_API uint32_t ns_graph_sink_count(const ns_graph* graph);

/// Names in order of their number, owned by the graph; NULL for a number that is too large.
NS_API const char* ns_graph_input_name(const ns_graph* graph, uint32_t number);
NS_API const char* ns_graph_output_name(const ns_graph* graph, uint32_t number);
NS_API const char* ns_graph_array_name(const ns_graph* graph, uint32_t number);
NS_API const char* ns_graph_sink_name(const ns_graph* graph, uint32_t number);

/// Number of elements of an array input or array output; 0 for a number that is too large.
NS_API uint32_t ns_graph_array_size(const ns_graph* graph, uint32_t number);
NS_API uint32_t ns_graph_sink_size(const ns_graph* graph, uint32_t number);

/// Operations that the outputs depend on; a block counts as one, and a function that blocks call with
/// all of its operations, but once. 0 when out of memory.
NS_API uint32_t ns_graph_op_count(const ns_graph* graph);

// ---- tracing ---------------------------------------------------------------------------------

/// Make `graph` the current graph of this thread; the functions below add to it.
/// @return NS_OK; NS_ERR_STATE when this thread is tracing already; NS_ERR_ARGUMENT for NULL
NS_API ns_status ns_trace_begin(ns_graph* graph, ns_error* error);

/// Stop tracing and report the first thing that went wrong since ns_trace_begin().
/// @return NS_OK, NS_ERR_STATE (not tracing), NS_ERR_ARGUMENT, NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_trace_end(ns_error* error);

/// While tracing: a new scalar input. Names are unique among inputs and at most 1,023 bytes.
NS_API ns_expr ns_input(const char* name);

/// While tracing: a new array input of `size` doubles. With `per_lane` each lane of a program has
/// its own copy, laid out [size][lanes]; otherwise all lanes share one.
NS_API ns_array ns_input_array(const char* name, uint32_t size, bool per_lane);

/// `size` elements of `array` from `offset` on.
NS_API ns_array ns_array_slice(ns_array array, uint32_t offset, uint32_t size);

/// While tracing: a new scalar output. Names are unique among outputs.
NS_API void ns_output(const char* name, ns_expr x);

NS_API ns_expr ns_const(double value);

/// An invalid expression is returned by every function here when something went wrong (no trace, no
/// memory, an operand that is no expression of this graph). It may be passed on; ns_trace_end()
/// tells the reason. An expression of another graph is noticed only when its number is too large
/// here.
NS_API bool ns_expr_is_valid(ns_expr x);

/// While tracing: give a result a name, by which it can be observed (and, later, augmented).
/// Returns what to go on with. Names are unique among quantities.
NS_API ns_expr ns_quantity(const char* name, ns_expr x);

// ---- operations ------------------------------------------------------------------------------
// Values and derivatives at kinks and domain edges are listed per operation in docs/operations.md.

NS_API ns_expr ns_add(ns_expr a, ns_expr b);
NS_API ns_expr ns_sub(ns_expr a, ns_expr b);
NS_API ns_expr ns_mul(ns_expr a, ns_expr b);
NS_API ns_expr ns_div(ns_expr a, ns_expr b);
NS_API ns_expr ns_neg(ns_expr a);
NS_API ns_expr ns_fma(ns_expr a, ns_expr b, ns_expr c); ///< a*b + c with one rounding
NS_API ns_expr ns_sqrt(ns_expr a);
NS_API ns_expr ns_sin(ns_expr a);
NS_API ns_expr ns_cos(ns_expr a);
NS_API ns_expr ns_tan(ns_expr a);
NS_API ns_expr ns_asin(ns_expr a);
NS_API ns_expr ns_acos(ns_expr a);
NS_API ns_expr ns_atan(ns_expr a);
NS_API ns_expr ns_atan2(ns_expr y, ns_expr x);
NS_API ns_expr ns_exp(ns_expr a);
NS_API ns_expr ns_expm1(ns_expr a);
NS_API ns_expr ns_log(ns_expr a);
NS_API ns_expr ns_log1p(ns_expr a);
NS_API ns_expr ns_pow(ns_expr a, ns_expr b);
NS_API ns_expr ns_tanh(ns_expr a);
NS_API ns_expr ns_softplus(ns_expr a); ///< log(1 + exp(a))
NS_API ns_expr ns_abs(ns_expr a);
NS_API ns_expr ns_sign(ns_expr a);
NS_API ns_expr ns_min(ns_expr a, ns_expr b);
NS_API ns_expr ns_max(ns_expr a, ns_expr b);
NS_API ns_expr ns_floor(ns_expr a);
NS_API ns_expr ns_round(ns_expr a);               ///< halves to even
NS_API ns_expr ns_copysign(ns_expr a, ns_expr b); ///< |a| with the sign of b
NS_API ns_expr ns_lt(ns_expr a, ns_expr b);       ///< 1 or 0
NS_API ns_expr ns_le(ns_expr a, ns_expr b);
NS_API ns_expr ns_gt(ns_expr a, ns_expr b);
NS_API ns_expr ns_ge(ns_expr a, ns_expr b);
NS_API ns_expr ns_eq(ns_expr a, ns_expr b);
NS_API ns_expr ns_ne(ns_expr a, ns_expr b);
NS_API ns_expr ns_and(ns_expr a, ns_expr b); ///< not 0 counts as true
NS_API ns_expr ns_or(ns_expr a, ns_expr b);
NS_API ns_expr ns_not(ns_expr a);

/// `then` where `condition` is not 0, else `otherwise`. Both are computed; the one not taken never
/// reaches the value. It does not reach the derivative either, not even as NaN from a division by
/// zero or a logarithm, provided that inputs are finite and products in it do not overflow.
NS_API ns_expr ns_select(ns_expr condition, ns_expr then, ns_expr otherwise);

// ---- safe forms ------------------------------------------------------------------------------
// Finite value and derivative where the plain forms have none; to be used in physics. Squares must
// neither overflow nor vanish: magnitudes from about 1e-150 to 1e150.

/// a / b, and 0 with zero derivative where b is 0.
NS_API ns_expr ns_div_safe(ns_expr a, ns_expr b);

/// Euclidean length of n numbers; derivative 0 at the origin.
NS_API ns_expr ns_norm(uint32_t n, const ns_expr* x);

/// x / |x|, and 0 with zero derivative at the origin. `out` may be `x`.
NS_API void ns_normalize(uint32_t n, const ns_expr* x, ns_expr* out);

/// acos and asin with the argument clamped to [-1, 1]; derivative 0 at and beyond the ends.
NS_API ns_expr ns_acos_safe(ns_expr a);
NS_API ns_expr ns_asin_safe(ns_expr a);

/// a limited to [low, high]; derivative 0 outside, that of a at the limits; NaN stays NaN.
NS_API ns_expr ns_clamp(ns_expr a, ns_expr low, ns_expr high);

// ---- derivatives -----------------------------------------------------------------------------

/// While tracing: d y / d x[i] for i < n, as expressions. x may be inputs or any earlier results;
/// each is taken as independent of the others.
NS_API void ns_gradient(ns_expr y, uint32_t n, const ns_expr* x, ns_expr* dydx);

typedef struct ns_diff_options {
    const uint32_t* wrt; ///< numbers of the scalar inputs to differentiate for; NULL: all. What is
                         ///< added for them comes in the order of inputs, not of this list
    uint32_t nwrt;       ///< length of `wrt`
    bool skip_inputs;    ///< with wrt NULL: differentiate for no scalar input; default false
    bool skip_arrays;    ///< do not differentiate for array inputs; default false
    bool per_lane;       ///< arrays this adds (tangents, gradients) are per lane; default false
    bool skip_value;     ///< leave out the outputs of the original graph; default false
} ns_diff_options;

NS_API ns_diff_options ns_default_diff_options(void);

/// Forward mode: the graph of value and directional derivative.
/// Adds an input `d:<input>` for each input in `wrt` and an array `d:<array>` for each array;
/// outputs are those of `graph` followed by `d:<output>` for each, and likewise array outputs.
/// Where such a name is taken, `d2:`, `d3:`... is used for all.
/// @param options  NULL for ns_default_diff_options()
/// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_UNSUPPORTED (a lowered graph), NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_graph_jvp(const ns_graph* graph, const ns_diff_options* options, ns_graph** out,
                              ns_error* error);

/// Reverse mode: the graph of value and gradient of a weighted sum of the outputs.
/// Adds an input `seed:<output>` (the weight) for each output and an array `seed:<sink>` for each
/// array output; outputs are those of `graph` followed by `d:<input>` for each input in `wrt`; the
/// gradient for an array is the array output `d:<array>`. Array outputs are added to, so zero them
/// before the first run.
/// @param options  NULL for ns_default_diff_options()
/// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_UNSUPPORTED (a lowered graph), NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_graph_vjp(const ns_graph* graph, const ns_diff_options* options, ns_graph** out,
                              ns_error* error);

// ---- text ------------------------------------------------------------------------------------

/// The live part of the graph as text; see docs/design.md for the form.
/// @param out  receives the text; free it with ns_text_free()
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_graph_print(const ns_graph* graph, ns_text* out, ns_error* error);

/// Read what ns_graph_print() wrote, or what a person did.
/// @param text, size  the text; need not be NUL-terminated
/// @param name        what to call it in messages, e.g. the file's name; NULL for "graph"
/// @param allocator   NULL for ns_default_allocator()
/// @return NS_OK; NS_ERR_PARSE with name, line and column in the message; NS_ERR_LIMIT,
///         NS_ERR_NOMEM
NS_API ns_status ns_graph_parse(const char* text, size_t size, const char* name,
                                const ns_allocator* allocator, ns_graph** out, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
