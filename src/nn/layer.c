// Layers of neural networks on top of the dense block.

#include "expr/block.h"
#include "expr/trace.h"
#include "neuralsim/nn.h"

static const ns_choice activation_rows[] = {NS_ACTIVATION_MAP(NS_CHOICE_ROW)};
const ns_choices ns_activations = NS_CHOICES("activation", activation_rows);

const char* ns_activation_name(ns_activation activation) {
    bool known = ns_choice_has(&ns_activations, (int)activation);
    return known ? ns_choice_name(&ns_activations, (int)activation) : NULL;
}

ns_status ns_activation_find(const char* name, ns_activation* out, ns_error* error) {
    int value;
    if (!ns_choice_find(&ns_activations, name, &value)) {
        char fault[NS_ERROR_SIZE];
        ns_choice_fault(&ns_activations, name, fault, sizeof fault);
        return nsi_fail(error, NS_ERR_ARGUMENT, "activation: \"%.60s\" %.400s", name, fault);
    }
    *out = (ns_activation)value;
    return NS_OK;
}

ns_expr ns_activate(ns_activation activation, ns_expr x) {
    ns_expr zero = ns_const(0.0), half = ns_const(0.5), one = ns_const(1.0);
    ns_graph* g = nsi_trace_graph();
    switch (activation) {
    case NS_IDENTITY: return x;
    case NS_TANH: return ns_tanh(x);
    case NS_SIGMOID: return ns_fma(half, ns_tanh(ns_mul(half, x)), half);
    case NS_RELU: return ns_select(ns_le(x, zero), zero, x); // NaN stays NaN
    case NS_ELU:
        // The exponential never sees a positive number, so neither branch overflows. x comes
        // second: at 0 the tie takes its derivative.
        return ns_select(ns_gt(x, zero), x, ns_expm1(ns_min(zero, x)));
    case NS_SOFTPLUS: return ns_softplus(x);
    case NS_SOFTSIGN: return ns_div(x, ns_add(one, ns_abs(x)));
    case NS_SIN: return ns_sin(x);
    default: break;
    }
    if (g) nsi_graph_fail(g, NS_ERR_ARGUMENT, "%d is no activation", (int)activation);
    return (ns_expr){NSI_NONE};
}

uint32_t ns_dense_size(uint32_t nin, uint32_t nout) {
    return (nin + 1) * nout;
}

void ns_dense_layer(ns_array weights, uint32_t nin, const ns_expr* x, uint32_t nout,
                    ns_activation activation, ns_expr* y) {
    // On failure, outputs are invalid expressions and the graph holds the error.
    for (uint32_t i = 0; i < nout; i++) y[i] = (ns_expr){NSI_NONE};
    ns_graph* g = nsi_trace_graph();
    if (!g || g->error.status != NS_OK) return;

    // The number of weights tells whether there are biases.
    bool bias = weights.size == ((uint64_t)nin + 1) * nout;
    if (!bias && weights.size != (uint64_t)nin * nout) {
        nsi_graph_fail(g, NS_ERR_ARGUMENT,
                       "a dense layer of %u inputs and %u outputs needs %llu weights (%llu without"
                       " biases), not %u",
                       nin, nout, ((unsigned long long)nin + 1) * nout,
                       (unsigned long long)nin * nout, weights.size);
        return;
    }

    // Limits keep sizes within 32 bits.
    if (nin >= NSI_DENSE_MAX_WIDTH || nout > NSI_DENSE_MAX_WIDTH) {
        nsi_graph_fail(g, NS_ERR_LIMIT,
                       "a dense layer has at most %d inputs and outputs, not %u, %u",
                       NSI_DENSE_MAX_WIDTH - 1, nin, nout);
        return;
    }

    // All products of the layer form one block of the graph, which is differentiated as a whole.
    nsi_id* inputs = nsi_alloc(&g->allocator, ((size_t)nin + 1) * sizeof *inputs);
    if (!inputs) {
        nsi_graph_fail_nomem(g);
        return;
    }
    for (uint32_t j = 0; j < nin; j++) inputs[j] = x[j].id;
    if (bias) inputs[nin] = nsi_graph_const(g, 1.0); // the weight of a constant 1

    // The block reads its weights directly from the array.
    nsi_block block = {.kind = &nsi_dense,
                       .params = {nin + bias, nout},
                       .ninput = nin + bias,
                       .inputs = inputs,
                       .source = weights.input,
                       .source_offset = weights.offset,
                       .sink = NSI_NONE};

    // Activations are ordinary nodes.
    nsi_id node = nsi_graph_block(g, &block);
    nsi_free(&g->allocator, inputs);
    for (uint32_t i = 0; i < nout && node != NSI_NONE; i++) {
        y[i] = ns_activate(activation, (ns_expr){nsi_graph_out(g, node, i)});
    }
}

void ns_array_elements(ns_array array, ns_expr* x) {
    ns_expr one = ns_const(1.0);
    ns_dense_layer(array, 1, &one, array.size, NS_IDENTITY, x);
}
