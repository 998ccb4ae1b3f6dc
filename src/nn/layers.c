// The shapes of a network's layers, which fix how its weights are laid out.

#include "nn/network_trace.h"

// A layer in numbers that no size wraps, unlike those of nsi_layer.
typedef struct shape {
    uint64_t rows, columns;
    bool bias;
} shape;

static uint64_t layer_output_count(const ns_network_def* def, uint64_t nout) {
    if (def->structure & NS_STRUCTURE_DISSIPATIVE) {
        return nout % 2 == 0 ? nout / 2 * (nout + 1) : (nout + 1) / 2 * nout; // of L
    }
    return def->structure & NS_STRUCTURE_CONSERVATIVE ? 1 : nout;
}

static shape layer_shape(const ns_network_def* def, uint32_t nin, uint32_t nout, uint32_t k) {
    bool last = k == def->nhidden;
    shape s;
    s.bias = !def->no_bias;
    // A constant in a potential has no gradient.
    if (last && (def->structure & NS_STRUCTURE_CONSERVATIVE)) s.bias = false;
    s.rows = (uint64_t)(k == 0 ? nin : def->hidden[k - 1]) + s.bias;
    s.columns = last ? layer_output_count(def, nout) : def->hidden[k];
    return s;
}

uint32_t nsi_network_layers(const ns_network_def* def, uint32_t nin, uint32_t nout,
                            nsi_layer layers[NSI_MAX_LAYERS]) {
    NS_ASSERT(def->nhidden < NSI_MAX_LAYERS);
    uint32_t offset = 0;
    for (uint32_t k = 0; k <= def->nhidden; k++) {
        shape s = layer_shape(def, nin, nout, k);
        layers[k] = (nsi_layer){offset, (uint32_t)s.rows, (uint32_t)s.columns, s.bias};
        offset += layers[k].rows * layers[k].columns;
    }
    return def->nhidden + 1;
}

uint64_t nsi_network_weight_count(const ns_network_def* def, uint32_t nin, uint32_t nout) {
    uint64_t count = 0;
    for (uint32_t k = 0; k <= def->nhidden; k++) {
        shape s = layer_shape(def, nin, nout, k);
        if (s.columns > 0 && s.rows > (UINT64_MAX - count) / s.columns) return UINT64_MAX;
        count += s.rows * s.columns;
    }
    return count;
}
