// A network that decides the torques of stance legs in place of the MPC.
//
//     quad_policy_create((uint32_t[]){192, 192}, 2, seed, NULL, &policy, error);
//     ... its weights are trained (quadruped/imitation.h, quadruped/tuning.h) ...
//     quad_policy_ready(policy);                       // single precision, scales folded in
//     options.policy = quad_policy_decide;             // of a controller
//     options.policy_context = policy;                // may be shared by threads

#ifndef QUADRUPED_POLICY_H
#define QUADRUPED_POLICY_H

#include "neuralsim/expr.h"
#include "quadruped/control.h"
#include "quadruped/mlp_f32.h"
#include "quadruped/support.h"

typedef struct quad_policy {
    ns_allocator allocator;
    uint32_t nlayer, sizes[QUAD_MLP_F32_LAYERS + 1]; // 41, hidden ones, 12
    uint32_t nweight;
    double* weights; // (nweight) between scaled features and scaled torques, as in nn.h
    // The network sees (feature - mean) * scale and its outputs are times `torque`.
    double mean[QUAD_FEATURES], scale[QUAD_FEATURES];
    double torque[QUAD_JOINTS];

    float* single; // (nweight) what is run
    quad_mlp_f32_kernel* kernel;
} quad_policy;

// Weights random (Glorot & Bengio 2010, uniform), scales 1.
// @param hidden  (nhidden) widths of hidden layers, 1 to 512 each, at most 5 of them
ns_status quad_policy_create(const uint32_t* hidden, uint32_t nhidden, uint64_t seed,
                             const ns_allocator* allocator, quad_policy** out, ns_error* error);
ns_status quad_policy_copy(const quad_policy* policy, quad_policy** out, ns_error* error);
void quad_policy_free(quad_policy* policy); // NULL is allowed

// Take over weights and scales for quad_policy_decide().
void quad_policy_ready(quad_policy* policy);

quad_stance_policy quad_policy_decide; // context: an quad_policy

// Weights from features to torques, scales folded in: (nweight).
void quad_policy_fold(const quad_policy* policy, double* weights);

// While tracing: the network from scaled features to scaled torques.
// @param weights  (nweight) an array
void quad_policy_trace(const quad_policy* policy, ns_array weights,
                       const ns_expr scaled[QUAD_FEATURES], ns_expr torques[QUAD_JOINTS]);

// The same as a graph of its own: inputs weights, feature0 and so on, outputs torque0 and so on.
// @param out  to be freed also after a failure
ns_status quad_policy_graph(const quad_policy* policy, ns_graph** out, ns_error* error);

// Folded weights as matrices "policy/w0" and so on, inputs by rows, biases the last row.
// @return as ns_tensors_write() and ns_tensors_read(); NS_ERR_ARGUMENT when shapes do not fit
ns_status quad_policy_save(const quad_policy* policy, const char* path, ns_error* error);
ns_status quad_policy_load(const char* path, const ns_allocator* allocator, quad_policy** out,
                           ns_error* error);

// Plain C17 without dependencies: void <function>(const double features[41], double torques[12]) with
// the weights in it.
// @param function  as in ns_graph_emit_c()
ns_status quad_policy_emit_c(const quad_policy* policy, const char* function, ns_text* out,
                             ns_error* error);

#endif
