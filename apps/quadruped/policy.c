// Policies: scales, single precision, files.

#define _POSIX_C_SOURCE 200809L // open_memstream

#include "quadruped/policy.h"

#include "neuralsim/nn.h"
#include "neuralsim/program.h"
#include "neuralsim/random.h"
#include "neuralsim/tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FEATURES = QUAD_FEATURES, JOINTS = QUAD_JOINTS };

static ns_status create(const uint32_t* hidden, uint32_t nhidden, const ns_allocator* allocator,
                        quad_policy** out, ns_error* error) {
    // Inference has fixed buffers: check the sizes.
    *out = NULL;
    bool fits = nhidden >= 1 && nhidden < QUAD_MLP_F32_LAYERS;
    for (uint32_t k = 0; fits && k < nhidden; k++) {
        fits = hidden[k] >= 1 && hidden[k] <= QUAD_MLP_F32_WIDEST;
    }
    if (!fits) {
        return quad_fail(error, NS_ERR_ARGUMENT,
                         "a policy has 1 to %d hidden layers, each 1 to %d wide",
                         QUAD_MLP_F32_LAYERS - 1, QUAD_MLP_F32_WIDEST);
    }

    // Sizes of all layers.
    quad_policy* p = quad_alloc_zeroed(allocator, sizeof *p);
    if (!p) return quad_fail_nomem(error);
    p->allocator = allocator ? *allocator : ns_default_allocator();
    p->nlayer = nhidden + 1;
    // From features to torques of all joints.
    p->sizes[0] = FEATURES;
    memcpy(p->sizes + 1, hidden, nhidden * sizeof *hidden);
    p->sizes[p->nlayer] = JOINTS;
    for (uint32_t k = 0; k < p->nlayer; k++) {
        p->nweight += ns_dense_size(p->sizes[k], p->sizes[k + 1]);
    }

    // Scales are 1 until training sets them.
    for (int k = 0; k < FEATURES; k++) p->scale[k] = 1.0;
    for (int k = 0; k < JOINTS; k++) p->torque[k] = 1.0;
    // Double precision for training, single precision for inference.
    p->weights = quad_alloc_zeroed(allocator, p->nweight * sizeof *p->weights);
    p->single = quad_alloc_zeroed(allocator, p->nweight * sizeof *p->single);

    // Choose the kernel of this machine.
    p->kernel = quad_mlp_f32_generic;
#ifdef QUAD_HAVE_AVX2_KERNELS
    if (quad_cpu_has_avx2_fma()) p->kernel = quad_mlp_f32_avx2;
#endif

    if (!p->weights || !p->single) {
        quad_policy_free(p);
        return quad_fail_nomem(error);
    }
    *out = p;
    return NS_OK;
}

ns_status quad_policy_create(const uint32_t* hidden, uint32_t nhidden, uint64_t seed,
                             const ns_allocator* allocator, quad_policy** out, ns_error* error) {
    ns_status status = create(hidden, nhidden, allocator, out, error);
    if (status != NS_OK) return status;
    quad_policy* p = *out;
    ns_rng rng = ns_rng_seed(seed);
    double* w = p->weights;
    for (uint32_t layer = 0; layer < p->nlayer; layer++) {
        const uint32_t nin = p->sizes[layer], nout = p->sizes[layer + 1];
        const double most = sqrt(6.0 / (nin + nout));
        for (uint32_t k = 0; k < nin * nout; k++) w[k] = ns_rng_uniform(&rng, -most, most);
        w += ns_dense_size(nin, nout);
    }
    quad_policy_ready(p);
    return NS_OK;
}

ns_status quad_policy_copy(const quad_policy* policy, quad_policy** out, ns_error* error) {
    ns_status status =
        create(policy->sizes + 1, policy->nlayer - 1, &policy->allocator, out, error);
    if (status != NS_OK) return status;
    quad_policy* p = *out;
    memcpy(p->weights, policy->weights, p->nweight * sizeof *p->weights);
    memcpy(p->single, policy->single, p->nweight * sizeof *p->single);
    memcpy(p->mean, policy->mean, sizeof p->mean);
    memcpy(p->scale, policy->scale, sizeof p->scale);
    memcpy(p->torque, policy->torque, sizeof p->torque);
    return NS_OK;
}

void quad_policy_free(quad_policy* policy) {
    if (!policy) return;
    ns_allocator memory = policy->allocator;
    quad_free(&memory, policy->weights);
    quad_free(&memory, policy->single);
    quad_free(&memory, policy);
}

// ---- deciding ------------------------------------------------------------------------------------

// Weight k from features to torques: the first layer computes W' (f - mean) scale + b, the last one is
// times the torques' scale.
static double fold(const quad_policy* p, uint32_t k) {
    const uint32_t width = p->sizes[1], first = FEATURES * width;
    const uint32_t last = p->nweight - (p->sizes[p->nlayer - 1] + 1) * JOINTS;
    double w = p->weights[k];
    if (k < first) w *= p->scale[k / width];
    if (k >= first && k < first + width) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            w -= p->weights[j * width + k - first] * p->scale[j] * p->mean[j];
        }
    }
    return k >= last ? w * p->torque[(k - last) % JOINTS] : w;
}

void quad_policy_fold(const quad_policy* p, double* weights) {
    for (uint32_t k = 0; k < p->nweight; k++) weights[k] = fold(p, k);
}

void quad_policy_ready(quad_policy* p) {
    for (uint32_t k = 0; k < p->nweight; k++) p->single[k] = (float)fold(p, k);
}

bool quad_policy_decide(void* context, const double features[FEATURES], double torques[JOINTS]) {
    const quad_policy* p = context;
    float x[FEATURES], y[JOINTS];
    for (int k = 0; k < FEATURES; k++) x[k] = (float)features[k];
    p->kernel(p->nlayer, p->sizes, p->single, x, y);
    bool finite = true;
    for (int k = 0; k < JOINTS; k++) {
        torques[k] = (double)y[k];
        finite = finite && isfinite(y[k]);
    }
    return finite;
}

// ---- graphs and files ----------------------------------------------------------------------------

void quad_policy_trace(const quad_policy* p, ns_array weights, const ns_expr scaled[FEATURES],
                       ns_expr torques[JOINTS]) {
    ns_expr even[QUAD_MLP_F32_WIDEST], odd[QUAD_MLP_F32_WIDEST];
    ns_expr* const hidden[2] = {even, odd};
    const ns_expr* x = scaled;
    uint32_t offset = 0;
    for (uint32_t k = 0; k < p->nlayer; k++) {
        const bool last = k + 1 == p->nlayer;
        const uint32_t size = ns_dense_size(p->sizes[k], p->sizes[k + 1]);
        ns_expr* y = last ? torques : hidden[k % 2];
        ns_dense_layer(ns_array_slice(weights, offset, size), p->sizes[k], x, p->sizes[k + 1],
                       last ? NS_IDENTITY : NS_ELU, y);
        offset += size;
        x = y;
    }
}

ns_status quad_policy_save(const quad_policy* p, const char* path, ns_error* error) {
    double* folded = quad_alloc(&p->allocator, p->nweight * sizeof *folded);
    if (!folded) return quad_fail_nomem(error);
    quad_policy_fold(p, folded);
    ns_tensor tensors[QUAD_MLP_F32_LAYERS];
    char names[QUAD_MLP_F32_LAYERS][16];
    const double* w = folded;
    for (uint32_t k = 0; k < p->nlayer; k++) {
        snprintf(names[k], sizeof names[k], "policy/w%u", k);
        tensors[k] = (ns_tensor){names[k], p->sizes[k] + 1, p->sizes[k + 1], w};
        w += ns_dense_size(p->sizes[k], p->sizes[k + 1]);
    }
    ns_status status = ns_tensors_write(path, tensors, p->nlayer, false, &p->allocator, error);
    quad_free(&p->allocator, folded);
    return status;
}

static ns_status take_tensors(const ns_tensors* t, const char* path, const ns_allocator* allocator,
                              quad_policy** out, ns_error* error) {
    // Shapes are derived from the tensors.
    uint32_t hidden[QUAD_MLP_F32_LAYERS] = {0}, nin = FEATURES;
    const ns_tensor* layers[QUAD_MLP_F32_LAYERS];
    bool fits = t->count >= 2 && t->count <= QUAD_MLP_F32_LAYERS;

    // Find the layers by name; each must match the width of the one before.
    for (uint32_t k = 0; fits && k < t->count; k++) {
        char name[24];
        snprintf(name, sizeof name, "policy/w%u", k);
        layers[k] = NULL;
        // Tensors may be in any order.
        for (uint32_t i = 0; i < t->count; i++) {
            if (strcmp(t->data[i].name, name) == 0) layers[k] = &t->data[i];
        }
        // The last row holds the biases.
        fits = layers[k] && layers[k]->rows == nin + 1;
        if (fits) hidden[k] = nin = layers[k]->columns;
    }
    // The last layer has one output per joint.
    if (!fits || nin != JOINTS) {
        return quad_fail(
            error, NS_ERR_ARGUMENT,
            "%s: expected matrices policy/w0, policy/w1 ... that lead from %d features "
            "to %d torques, each with a last row of biases",
            path, FEATURES, JOINTS);
    }

    // Copy the weights, in the order of the layers.
    ns_status status = create(hidden, t->count - 1, allocator, out, error);
    if (status != NS_OK) return status;
    double* w = (*out)->weights;
    for (uint32_t k = 0; k < t->count; k++) {
        size_t count = (size_t)layers[k]->rows * layers[k]->columns;
        memcpy(w, layers[k]->data, count * sizeof *w);
        w += count;
    }

    // Convert the weights for inference.
    quad_policy_ready(*out);
    return NS_OK;
}

ns_status quad_policy_load(const char* path, const ns_allocator* allocator, quad_policy** out,
                           ns_error* error) {
    *out = NULL;
    ns_tensors tensors = {0};
    ns_status status = ns_tensors_read(path, allocator, &tensors, error);
    if (status == NS_OK) status = take_tensors(&tensors, path, allocator, out, error);
    ns_tensors_free(&tensors);
    return status;
}

ns_status quad_policy_graph(const quad_policy* p, ns_graph** out, ns_error* error) {
    ns_status status = ns_graph_create(&p->allocator, out, error);
    if (status == NS_OK) status = ns_trace_begin(*out, error);
    if (status != NS_OK) return status;
    ns_array weights = ns_input_array("weights", p->nweight, false);
    ns_expr x[FEATURES], y[JOINTS];
    char name[16];
    for (int k = 0; k < FEATURES; k++) {
        snprintf(name, sizeof name, "feature%d", k);
        x[k] = ns_input(name);
    }
    quad_policy_trace(p, weights, x, y);
    for (int k = 0; k < JOINTS; k++) {
        snprintf(name, sizeof name, "torque%d", k);
        ns_output(name, y[k]);
    }
    return ns_trace_end(error);
}

// The function of the network, its weights, and a function that calls the one with the others.
static ns_status write_c(const quad_policy* p, const char* function, const char* inner,
                         const char* network, const double* folded, ns_text* out, ns_error* error) {
    char* text = NULL;
    size_t size = 0;
    // The text grows in memory.
    FILE* file = open_memstream(&text, &size);
    if (!file) return quad_fail_nomem(error);

    // The network's function and its weights, in full precision.
    fprintf(file, "%s\nstatic const double %s_weights[%u] = {", network, function, p->nweight);
    for (uint32_t k = 0; k < p->nweight; k++) {
        fprintf(file, "%s%.17g,", k % 4 == 0 ? "\n    " : " ", folded[k]);
    }

    // An entry point that takes features and torques only.
    fprintf(file,
            "\n};\n\n// Torques of the joints of stance legs (N m) from what the controller "
            "sees.\nvoid %s(const double features[%d], double torques[%d]);\n"
            "void %s(const double features[%d], double torques[%d]) {\n"
            "    const double* const arrays[1] = {%s_weights};\n"
            "    double work[%s_work + 1];\n"
            "    %s(features, torques, arrays, 0, work);\n}\n",
            function, FEATURES, JOINTS, function, FEATURES, JOINTS, function, inner, inner);
    // Out of memory shows up here.
    bool written = !ferror(file);
    if (fclose(file) != 0) written = false;

    // Copy the text into the policy's allocator, as callers expect.
    char* copy = written ? quad_alloc(&p->allocator, size + 1) : NULL;
    if (copy) {
        memcpy(copy, text, size + 1);
        *out = (ns_text){.data = copy, .size = size, .allocator = p->allocator};
    }

    free(text);
    return copy ? NS_OK : quad_fail_nomem(error);
}

ns_status quad_policy_emit_c(const quad_policy* p, const char* function, ns_text* out,
                             ns_error* error) {
    *out = (ns_text){0};
    ns_graph* graph = NULL;
    ns_text network = {0};
    char inner[128];
    snprintf(inner, sizeof inner, "%.100s_network", function);
    double* folded = quad_alloc(&p->allocator, p->nweight * sizeof *folded);
    ns_status status = folded ? quad_policy_graph(p, &graph, error) : quad_fail_nomem(error);
    if (status == NS_OK) status = ns_graph_emit_c(graph, inner, &network, error);
    if (status == NS_OK) {
        quad_policy_fold(p, folded);
        status = write_c(p, function, inner, network.data, folded, out, error);
    }
    ns_text_free(&network);
    ns_graph_free(graph);
    quad_free(&p->allocator, folded);
    return status;
}
