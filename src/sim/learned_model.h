// Learned systems that stand for a model: its coordinates, velocities and controls, and a network
// for the step between them.
//
// The state is q, qd, then what an LSTM keeps; the controls are those that the definition names.
// With `integrate`, q follows from qd as in the model's own semi-implicit step, so that rotations
// stay rotations. Names under `hide` are joints, or of a floating joint "root" its coordinates
// "root/x", "root/y", "root/z" and "root/rotation".

#ifndef NSI_SIM_LEARNED_MODEL_H
#define NSI_SIM_LEARNED_MODEL_H

#include "io/learned_file.h"
#include "neuralsim/model.h"

// Can the definition stand for this model?
// @return NS_OK; NS_ERR_UNSUPPORTED: a joint has a rotation, which needs `integrate`;
//         NS_ERR_ARGUMENT: a name is not the model's, or a list has the wrong length
ns_status nsi_learned_check_model(const nsi_learned* learned, const ns_model* model,
                                  ns_error* error);

// How the network sees each of q and qd (nq + nv).
void nsi_learned_inputs(const nsi_learned* learned, const ns_model* model, ns_learned_input* out);

// @param timestep  s
// @param teacher   for teacher forcing: the network sees none of its own states; what it would see
//                  of recorded ones (their values, or sines and cosines) are further controls,
//                  before the others. Weights are the same. With `increment`, its q and qd are the
//                  changes alone. Not with `integrate`
// @return as nsi_learned_check_model() and ns_system_create_learned(); NS_ERR_UNSUPPORTED: a teacher with
//         `integrate`
ns_status nsi_learned_create(const nsi_learned* learned, const ns_model* model, double timestep,
                             bool teacher, const ns_allocator* allocator, ns_system** out,
                             ns_error* error);

#endif
