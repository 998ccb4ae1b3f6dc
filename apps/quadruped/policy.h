// A network that decides the torques of stance legs in place of the MPC.
//
//     nsi_policy_create((uint32_t[]){192, 192}, 2, seed, NULL, &policy, error);
//     ... its weights are trained (quadruped/imitation.h, quadruped/tuning.h) ...
//     nsi_policy_ready(policy);                       // single precision, scales folded in
//     options.policy = nsi_policy_decide;             // of a controller
//     options.policy_context = policy;                // may be shared by threads

#ifndef NSI_QUADRUPED_POLICY_H
#define NSI_QUADRUPED_POLICY_H

#include "base/common.h"
#include "neuralsim/expr.h"
#include "quadruped/control.h"
#include "quadruped/mlp_f32.h"

typedef struct nsi_policy {
    ns_allocator allocator;
    uint32_t nlayer, sizes[NSI_MLP_F32_LAYERS + 1]; // 41, hidden ones, 12
    uint32_t nweight;
    double* weights; // (nweight) between scaled features and scaled torques, as in nn.h
    // The network sees (feature - mean) * scale and its outputs are times `torque`.
    double mean[NS_QUADRUPED_FEATURES], scale[NS_QUADRUPED_FEATURES];
    double torque[NS_QUADRUPED_JOINTS];

    float* single; // (nweight) what is run
    nsi_mlp_f32_kernel* kernel;
} nsi_policy;

// Weights random (Glorot & Bengio 2010, uniform), scales 1.
// @param hidden  (nhidden) widths of hidden layers, 1 to 512 each, at most 5 of them
ns_status nsi_policy_create(const uint32_t* hidden, uint32_t nhidden, uint64_t seed,
                            const ns_allocator* allocator, nsi_policy** out, ns_error* error);
ns_status nsi_policy_copy(const nsi_policy* policy, nsi_policy** out, ns_error* error);
void nsi_policy_free(nsi_policy* policy); // NULL is allowed

// Take over weights and scales for nsi_policy_decide().
void nsi_policy_ready(nsi_policy* policy);

ns_stance_policy nsi_policy_decide; // context: an nsi_policy

// Weights from features to torques, scales folded in: (nweight).
void nsi_policy_fold(const nsi_policy* policy, double* weights);

// While tracing: the network from scaled features to scaled torques.
// @param weights  (nweight) an array
void nsi_policy_trace(const nsi_policy* policy, ns_array weights,
                      const ns_expr scaled[NS_QUADRUPED_FEATURES],
                      ns_expr torques[NS_QUADRUPED_JOINTS]);

// The same as a graph of its own: inputs weights, feature0 and so on, outputs torque0 and so on.
// @param out  to be freed also after a failure
ns_status nsi_policy_graph(const nsi_policy* policy, ns_graph** out, ns_error* error);

// Folded weights as matrices "policy/w0" and so on, inputs by rows, biases the last row.
// @return as ns_tensors_write() and ns_tensors_read(); NS_ERR_ARGUMENT when shapes do not fit
ns_status nsi_policy_save(const nsi_policy* policy, const char* path, ns_error* error);
ns_status nsi_policy_load(const char* path, const ns_allocator* allocator, nsi_policy** out,
                          ns_error* error);

// Plain C17 without dependencies: void <function>(const double features[41], double torques[12]) with
// the weights in it.
// @param function  as in ns_graph_emit_c()
ns_status nsi_policy_emit_c(const nsi_policy* policy, const char* function, ns_text* out,
                            ns_error* error);

#endif
