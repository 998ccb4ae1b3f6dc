/// @file nn.h
/// Neural network layers, traced like everything else.
///
///     ns_array w = ns_input_array("net/w", ns_dense_size(2, 8) + ns_dense_size(8, 1), false);
///     ns_expr hidden[8], y[1];
///     ns_dense_layer(ns_array_slice(w, 0, ns_dense_size(2, 8)), 2, x, 8, NS_TANH, hidden);
///     ns_dense_layer(ns_array_slice(w, ns_dense_size(2, 8), ns_dense_size(8, 1)), 8, hidden, 1,
///                    NS_IDENTITY, y);

#ifndef NEURALSIM_NN_H
#define NEURALSIM_NN_H

#include "neuralsim/expr.h"
#include "neuralsim/words.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Every activation, listed once.
#define NS_ACTIVATION_MAP(X)                                                                       \
    X(NS_IDENTITY, "identity", "x")                                                                \
    X(NS_TANH, "tanh", "tanh(x)")                                                                  \
    X(NS_SIGMOID, "sigmoid", "1 / (1 + exp(-x)), to 1e-16 absolute")                               \
    X(NS_RELU, "relu", "max(x, 0); derivative 0 at 0")                                             \
    X(NS_ELU, "elu", "x, or exp(x) - 1 below 0; derivative 1 at 0")                                \
    X(NS_SOFTPLUS, "softplus", "log(1 + exp(x)); derivative to 1e-16 absolute")                    \
    X(NS_SOFTSIGN, "softsign", "x / (1 + |x|)")                                                    \
    X(NS_SIN, "sin", "sin(x)")

typedef enum ns_activation { NS_ACTIVATION_MAP(NS_CHOICE_VALUE) NS_ACTIVATION_COUNT } ns_activation;
extern NS_API const ns_choices ns_activations;

/// "tanh" and so on; NULL for what is none.
NS_API const char* ns_activation_name(ns_activation activation);

/// The activation of a name.
/// @return NS_OK; NS_ERR_ARGUMENT with the list of names
NS_API ns_status ns_activation_find(const char* name, ns_activation* out, ns_error* error);

/// While tracing: the activation of one number.
NS_API ns_expr ns_activate(ns_activation activation, ns_expr x);

/// Number of weights of a layer with biases: (nin + 1) * nout.
NS_API uint32_t ns_dense_size(uint32_t nin, uint32_t nout);

/// While tracing: y = activation(W'x + b), nout results from nin inputs, each at most 16,383.
/// @param weights  ns_dense_size(nin, nout) numbers: W[j*nout + i] leads from input j to output i;
///                 row nin holds the biases. A size of nin * nout is a layer without biases.
/// @param y        (nout) receives the results; may not be `x`
NS_API void ns_dense_layer(ns_array weights, uint32_t nin, const ns_expr* x, uint32_t nout,
                           ns_activation activation, ns_expr* y);

/// While tracing: the elements of an array (at most 16,383) as numbers, e.g. biases or scales.
/// @param x  (array.size) receives them
NS_API void ns_array_elements(ns_array array, ns_expr* x);

#ifdef __cplusplus
}
#endif

#endif
