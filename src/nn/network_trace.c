// Networks: initial weights, and the outputs with what is guaranteed of them.
//
// The core is a chain of dense layers. With z = (x - shift) / scale, or |z| where the signs of
// inputs shall not matter:
//
//   plain         y = core(z)
//   odd           y = (core(z) - core(-z)) / 2. Both are the same operations on numbers that differ
//                 in sign only, so that -z swaps them, and y changes its sign to the last bit.
//   bounded       y = bound tanh(y / bound); the traced tanh is exactly odd and within [-1, 1]
//   dissipative   f = -P/s ((L L' + 1e-6) u), u = v / s, L lower triangular: the core gives its
//                 rows, 0.5 is added to the diagonal. Computed as L (L'u), never by L L', it does
//                 the work sum f_i v_i = -P (|L'u|^2 + 1e-6 |u|^2), which rounding keeps negative
//                 as long as entries of L are below some 1e11: the errors of L'u and of L times it
//                 are at most e = 2 n 2^-53 |L| |u| |L'u|, and |L'u|^2 - e + 1e-6 |u|^2 has no
//                 root for 2 n 2^-53 |L| < 2e-3.
//   conservative  f = -dV/dx of the potential V = core(z)
//
// Odd together with the last two: what f is made of, L or V, is symmetrised to
// (core(z) + core(-z)) / 2; then f changes its sign when the inputs do, and for a dissipative
// network the velocities along with them. Symmetries are about x = shift.

#include "nn/network_trace.h"

#include "expr/block.h"
#include "expr/trace.h"

#include <math.h>

static const double LEAST_DAMPING = 1e-6; // added to L L'
static const double DIAGONAL_OF_L = 0.5;  // added, so that training starts with some damping

// ---- initial weights -----------------------------------------------------------------------

void nsi_network_init(const ns_network_def* def, uint32_t nin, uint32_t nout, uint64_t stream,
                      double* weights) {
    // The seed is mixed before the stream comes in, so that neighbours in one are no neighbours in
    // the other; seeding mixes again.
    ns_rng rng = ns_rng_seed(def->seed);
    rng = ns_rng_seed(ns_rng_next(&rng) ^ stream);
    nsi_layer layers[NSI_MAX_LAYERS];
    uint32_t nlayer = nsi_network_layers(def, nin, nout, layers);
    for (uint32_t k = 0; k < nlayer; k++) {
        const nsi_layer* layer = &layers[k];
        uint32_t fan_in = layer->rows - layer->bias, count = fan_in * layer->columns;
        double deviation = fan_in > 0 ? def->init_scale / sqrt(fan_in) : 0.0;
        if (k + 1 == nlayer) deviation *= def->init_last_scale;
        double* w = weights + layer->offset;
        for (uint32_t i = 0; i < count; i++) w[i] = deviation * ns_rng_normal(&rng);
        for (uint32_t i = 0; i < layer->columns && layer->bias; i++) w[count + i] = 0.0;
    }
}

// ---- the core ------------------------------------------------------------------------------

typedef struct network {
    ns_graph* g;
    const ns_network_def* def;
    ns_array weights;
    uint32_t nin, nout, nlayer, ncore;
    nsi_layer layers[NSI_MAX_LAYERS];

    // Room for expressions.
    ns_expr *scaled, *seen, *mirrored; // (nin) z; z or |z|, which the core gets; -z
    ns_expr* hidden[2];                // (widest layer) taking turns
    ns_expr *first, *slope;            // (first layer) sums before the activation; their adjoints
    ns_expr *top, *reflection;         // (last layer's inputs) of z and -z
    ns_expr* core;                     // (ncore)
    ns_expr *gradient, *opposite;      // (nin) of the potential at z and -z
    ns_expr* conjugate;                // (nout) u
} network;

static bool has(const network* n, ns_structure structure) {
    return (n->def->structure & (unsigned)structure) != 0;
}

static ns_array layer_weights(const network* n, uint32_t k) {
    const nsi_layer* layer = &n->layers[k];
    return ns_array_slice(n->weights, layer->offset, layer->rows * layer->columns);
}

// The layers but the last one: what that gets (rows, without bias) of z (nin). Leaves the sums of
// the first layer in n->first.
static void trace_hidden(const network* n, const ns_expr* z, ns_expr* top) {
    const ns_expr* x = z;
    for (uint32_t k = 0; k + 1 < n->nlayer; k++) {
        const nsi_layer* layer = &n->layers[k];
        ns_expr* out = k + 2 == n->nlayer ? top : n->hidden[k % 2];
        ns_dense_layer(layer_weights(n, k), layer->rows - layer->bias, x, layer->columns,
                       NS_IDENTITY, out);
        if (k == 0) memcpy(n->first, out, layer->columns * sizeof *out);
        for (uint32_t i = 0; i < layer->columns; i++) {
            out[i] = ns_activate(n->def->activation, out[i]);
        }
        x = out;
    }
    if (n->nlayer == 1) memcpy(top, z, n->nin * sizeof *z);
}

// y (ncore), the last layer of `top`.
static void trace_last(const network* n, const ns_expr* top, bool bias, ns_expr* y) {
    const nsi_layer* layer = &n->layers[n->nlayer - 1];
    ns_array w = layer_weights(n, n->nlayer - 1);
    uint32_t rows = layer->rows - layer->bias;
    if (!bias) w = ns_array_slice(w, 0, rows * layer->columns);
    ns_dense_layer(w, rows, top, layer->columns, NS_IDENTITY, y);
    if (n->nlayer == 1) memcpy(n->first, y, layer->columns * sizeof *y);
}

// n->core = core(z); when the network is odd, (core(z) + sign core(-z)) / 2. The last layer is
// linear and takes the combination of both; in a difference its bias drops out.
static void trace_core(const network* n, double sign) {
    trace_hidden(n, n->seen, n->top);
    bool odd = has(n, NS_STRUCTURE_ODD);
    if (odd) {
        const nsi_layer* last = &n->layers[n->nlayer - 1];
        trace_hidden(n, n->mirrored, n->reflection);
        for (uint32_t i = 0; i < last->rows - last->bias; i++) {
            ns_expr a = n->top[i], b = n->reflection[i];
            n->top[i] = ns_mul(ns_const(0.5), sign > 0.0 ? ns_add(a, b) : ns_sub(a, b));
        }
    }
    trace_last(n, n->top, !odd || sign > 0.0, n->core);
}

// d core / d z for a core with one output.
//
// The step through the first layer is made here: ns_gradient() for z itself would give two inputs
// that are the same node, constants for example, the sum of both derivatives, and an input that
// is the constant 1 that of the biases.
static void trace_gradient(const network* n, const ns_expr* z, ns_expr* gradient) {
    // Potential: the scalar output of the core.
    ns_expr potential;
    trace_hidden(n, z, n->top);
    trace_last(n, n->top, true, &potential);

    // Gradient with respect to the first layer's pre-activations.
    uint32_t width = n->layers[0].columns;
    ns_gradient(potential, width, n->first, n->slope);
    for (uint32_t j = 0; j < n->nin; j++) gradient[j] = (ns_expr){NSI_NONE};
    // Outputs stay invalid after an error.
    if (n->g->error.status != NS_OK) return;

    // Multiply by the transposed weights of the first layer: chain rule to the inputs.
    nsi_id* inputs = nsi_alloc(&n->g->allocator, width * sizeof *inputs);
    if (!inputs) {
        nsi_graph_fail_nomem(n->g);
        return;
    }
    for (uint32_t i = 0; i < width; i++) inputs[i] = n->slope[i].id;
    // The same weights as in the forward pass.
    nsi_block block = {.kind = &nsi_dense_transpose,
                       .params = {n->nin, width}, // without the last row, the biases
                       .ninput = width,
                       .inputs = inputs,
                       .source = n->weights.input,
                       .source_offset = n->weights.offset + n->layers[0].offset,
                       .sink = NSI_NONE};

    // One output per input of the network.
    nsi_id node = nsi_graph_block(n->g, &block);
    nsi_free(&n->g->allocator, inputs);
    for (uint32_t j = 0; j < n->nin && node != NSI_NONE; j++) {
        gradient[j].id = nsi_graph_out(n->g, node, j);
    }
}

// ---- what is made of it --------------------------------------------------------------------

// An element of an array with one number for all, one for each, or none.
static double scale_element(const double* values, uint32_t count, uint32_t i, double otherwise) {
    return count == 0 ? otherwise : values[count == 1 ? 0 : i];
}

static double input_scale(const network* n, uint32_t i) {
    return scale_element(n->def->input_scale, n->def->ninput_scale, i, 1.0);
}

static double output_scale(const network* n, uint32_t i) {
    return scale_element(n->def->output_scale, n->def->noutput_scale, i, 1.0);
}

static void trace_inputs(const network* n, const ns_expr* inputs) {
    const ns_network_def* def = n->def;
    for (uint32_t j = 0; j < n->nin; j++) {
        ns_expr shift = ns_const(scale_element(def->input_shift, def->ninput_shift, j, 0.0));
        ns_expr z = ns_div(ns_sub(inputs[j], shift), ns_const(input_scale(n, j)));
        n->scaled[j] = z;
        n->seen[j] = has(n, NS_STRUCTURE_EVEN) ? ns_abs(z) : z;
        n->mirrored[j] = ns_neg(z);
    }
}

static void trace_plain(const network* n, ns_expr* outputs) {
    trace_core(n, -1.0);
    for (uint32_t i = 0; i < n->nout; i++) {
        double scale = output_scale(n, i);
        ns_expr y = n->core[i];
        if (has(n, NS_STRUCTURE_BOUNDED)) {
            y = ns_tanh(ns_div(y, ns_const(n->def->bound)));
            scale *= n->def->bound; // one product, which cannot round past the bound
        }
        outputs[i] = ns_mul(y, ns_const(scale));
    }
}

static void trace_dissipative(const network* n, const ns_expr* conjugate, ns_expr* outputs,
                              ns_expr* damping) {
    const ns_network_def* def = n->def;
    trace_core(n, 1.0);
    ns_expr* L = n->core; // row i begins at i (i + 1) / 2
    ns_expr* u = n->conjugate;
    for (uint32_t i = 0; i < n->nout; i++) {
        ns_expr* diagonal = &L[i * (i + 1) / 2 + i];
        *diagonal = ns_add(*diagonal, ns_const(DIAGONAL_OF_L));
        double s = scale_element(def->conjugate_scale, def->nconjugate_scale, i, 1.0);
        u[i] = ns_div(conjugate[i], ns_const(s));
        outputs[i] = ns_mul(ns_const(LEAST_DAMPING), u[i]);
    }
    for (uint32_t k = 0; k < n->nout; k++) {
        // (L'u)_k, and what it adds to L (L'u)
        ns_expr sum = ns_const(0.0);
        for (uint32_t i = k; i < n->nout; i++) sum = ns_fma(L[i * (i + 1) / 2 + k], u[i], sum);
        for (uint32_t i = k; i < n->nout; i++) {
            outputs[i] = ns_fma(L[i * (i + 1) / 2 + k], sum, outputs[i]);
        }
    }
    for (uint32_t i = 0; i < n->nout; i++) {
        // One P for all: another one for each would turn f away from what opposes v.
        double s = scale_element(def->conjugate_scale, def->nconjugate_scale, i, 1.0);
        outputs[i] = ns_mul(outputs[i], ns_const(-output_scale(n, 0) / s));
    }

    // A_ij = P / (s_i s_j) (L L' + LEAST_DAMPING)_ij
    for (uint32_t i = 0; damping && i < n->nout; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double si = scale_element(def->conjugate_scale, def->nconjugate_scale, i, 1.0);
            double sj = scale_element(def->conjugate_scale, def->nconjugate_scale, j, 1.0);
            ns_expr sum = ns_const(i == j ? LEAST_DAMPING : 0.0);
            for (uint32_t k = 0; k <= j; k++) {
                sum = ns_fma(L[i * (i + 1) / 2 + k], L[j * (j + 1) / 2 + k], sum);
            }
            sum = ns_mul(sum, ns_const(output_scale(n, 0) / (si * sj)));
            damping[i * n->nout + j] = damping[j * n->nout + i] = sum;
        }
    }
}

static void trace_conservative(const network* n, ns_expr* outputs) {
    bool odd = has(n, NS_STRUCTURE_ODD), even = has(n, NS_STRUCTURE_EVEN);
    trace_gradient(n, n->seen, n->gradient);
    if (odd) trace_gradient(n, n->mirrored, n->opposite);
    for (uint32_t j = 0; j < n->nin; j++) {
        ns_expr slope = n->gradient[j];
        if (odd) slope = ns_mul(ns_const(0.5), ns_sub(slope, n->opposite[j]));
        if (even) slope = ns_mul(ns_sign(n->scaled[j]), slope); // d|z| / dz, 0 at 0
        // One factor for all outputs: with others they would be no gradient.
        outputs[j] = ns_mul(slope, ns_const(-output_scale(n, 0) / input_scale(n, j)));
    }
}

// ---- the network ---------------------------------------------------------------------------

// What would go wrong below; limits of layers included, so that sizes of memory cannot wrap.
static bool sizes_fit(const network* n, const ns_expr* conjugate) {
    // Layers within the limits of blocks.
    for (uint32_t k = 0; k < n->nlayer; k++) {
        uint32_t rows = n->layers[k].rows, columns = n->layers[k].columns;
        if (rows > NSI_DENSE_MAX_WIDTH || columns > NSI_DENSE_MAX_WIDTH) {
            nsi_graph_fail(n->g, NS_ERR_LIMIT,
                           "network \"%s\": layer %u is %u x %u; %d is the most there can be",
                           n->def->name, k, rows, columns, NSI_DENSE_MAX_WIDTH);
            return false;
        }
    }

    // The array must have exactly the weights of the definition.
    uint64_t count = nsi_network_weight_count(n->def, n->nin, n->nout);
    if (n->weights.size != count) {
        nsi_graph_fail(n->g, NS_ERR_ARGUMENT, "network \"%s\" needs %llu weights, not %u",
                       n->def->name, (unsigned long long)count, n->weights.size);
        return false;
    }

    // Requirements of structures: dissipation needs velocities to oppose.
    if (has(n, NS_STRUCTURE_DISSIPATIVE)) {
        if (conjugate) return true;
        nsi_graph_fail(n->g, NS_ERR_ARGUMENT, "network \"%s\" is dissipative and has no velocities",
                       n->def->name);
        return false;
    }

    // Conservation: one force per coordinate, the gradient of a potential.
    if (has(n, NS_STRUCTURE_CONSERVATIVE) && n->nin != n->nout) {
        nsi_graph_fail(n->g, NS_ERR_ARGUMENT,
                       "network \"%s\" is conservative: %u inputs have as many outputs, not %u",
                       n->def->name, n->nin, n->nout);
        return false;
    }
    return true;
}

void nsi_network_trace(const ns_network_def* def, ns_array weights, uint32_t nin,
                       const ns_expr* inputs, uint32_t nout, const ns_expr* conjugate,
                       ns_expr* outputs, ns_expr* damping) {
    // On failure, outputs are invalid expressions and the graph holds the error.
    for (uint32_t i = 0; i < nout; i++) outputs[i] = (ns_expr){NSI_NONE};
    ns_graph* g = nsi_trace_graph();
    if (!g || g->error.status != NS_OK) return;

    // Shape of the network, with the layers that structures add.
    network n = {.g = g, .def = def, .weights = weights, .nin = nin, .nout = nout};
    n.nlayer = nsi_network_layers(def, nin, nout, n.layers);
    n.ncore = n.layers[n.nlayer - 1].columns;
    // Checks come before sizes are multiplied.
    if (!sizes_fit(&n, conjugate)) return;

    // Working memory of all parts in one block.
    uint32_t widest = 0, first = n.layers[0].columns, top = n.layers[n.nlayer - 1].rows;
    for (uint32_t k = 0; k < n.nlayer; k++) {
        if (n.layers[k].columns > widest) widest = n.layers[k].columns;
    }
    // Vectors with their sizes.
    const struct {
        ns_expr** room;
        uint32_t count;
    } rooms[] = {{&n.scaled, nin},       {&n.seen, nin},         {&n.mirrored, nin},
                 {&n.hidden[0], widest}, {&n.hidden[1], widest}, {&n.first, first},
                 {&n.slope, first},      {&n.top, top},          {&n.reflection, top},
                 {&n.core, n.ncore},     {&n.gradient, nin},     {&n.opposite, nin},
                 {&n.conjugate, nout}};

    // Sum of the sizes, then one allocation.
    size_t total = 0;
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) total += rooms[i].count;
    ns_expr* block = nsi_alloc(&g->allocator, total * sizeof *block);
    if (!block) {
        nsi_graph_fail_nomem(g);
        return;
    }

    // Partition the block.
    ns_expr* next = block;
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        *rooms[i].room = next;
        next += rooms[i].count;
    }

    // The structure determines how outputs follow from the last layer.
    trace_inputs(&n, inputs);
    if (has(&n, NS_STRUCTURE_DISSIPATIVE)) {
        trace_dissipative(&n, conjugate, outputs, damping);
    } else if (has(&n, NS_STRUCTURE_CONSERVATIVE)) {
        trace_conservative(&n, outputs);
    } else {
        trace_plain(&n, outputs);
    }

    nsi_free(&g->allocator, block);
}
