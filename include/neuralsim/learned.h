/// @file learned.h
/// Systems without physics: the whole step is a network, to be trained and compared with.
///
///     ns_learned_def def = ns_default_learned_def();
///     def.nx = 8, def.nc = 1;                              // a swimmer: x y h j, rates; torque
///     def.hidden = (uint32_t[]){32, 32}, def.nhidden = 2;
///     def.increment = true;
///     def.state_input = (ns_learned_input[]){NS_LEARNED_HIDE, NS_LEARNED_HIDE, NS_LEARNED_ANGLE};
///     def.nstate_input = 3;                                // the others as they are
///     ns_system* system = NULL;
///     ns_system_create_learned(&def, NULL, NS_BACKEND_AUTO, &system, &error);
///
/// Workspaces, rollouts, their derivatives and weights (sim.h) are those of any other system; there
/// are no free parameters and no observations. What the network gets, u, is made of the state x and
/// the control c in this order: per state (x - shift) / scale, or sin x and cos x, or nothing, per
/// quaternion the nine numbers of its rotation matrix, row by row; per control (c - shift) / scale.
/// Its outputs y, one per state that does not follow from a velocity, give the next state:
///
///     increment   x + output_scale * y
///     otherwise   state_shift + output_scale * y
///     follows     x + timestep * v', v' being the velocity after the step; a quaternion is turned
///                 by timestep * v' in the body's frame, and stays unit: those of x0 must be
///
/// Feed-forward: y is a chain of dense layers, activations between them. Weights: the set
/// "dynamics", layer k a matrix of (inputs + 1) x outputs, the last row its biases.
///
/// LSTM (Hochreiter & Schmidhuber 1997; forget gates of Gers, Schmidhuber & Cummins 2000, without
/// peepholes): layer k takes u, or the new h of layer k - 1, and keeps h and c of its width,
///
///     i, f, o = sigmoid(...)   g = tanh(...)   c' = f c + i g   h' = o tanh(c')
///
/// and y is linear in the new h of the last layer. They are further states, behind the nx of x:
/// "h0/0", "h0/1".., "c0/0".., "h1/0"..; to start afresh they are 0. Weights: the set "lstm", layer
/// k a matrix of (inputs + width + 1) x (4 width) whose rows belong to the inputs, the old h and
/// the biases, and whose columns to i, f, g, o, in this order; then the set "readout", (width + 1)
/// x outputs. There is one bias per gate; libraries that add up two have 4 width more numbers per
/// layer.
///
/// To train on recorded states instead of predicted ones, hide the states and give the recorded
/// ones as controls.

#ifndef NEURALSIM_LEARNED_H
#define NEURALSIM_LEARNED_H

#include "neuralsim/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NS_LEARNED_KIND_MAP(X)                                                                     \
    X(NS_LEARNED_FEEDFORWARD, "feedforward", "layers of neurons")                                  \
    X(NS_LEARNED_LSTM, "lstm", "layers of long short-term memory, and a linear one")

typedef enum ns_learned_kind { NS_LEARNED_KIND_MAP(NS_CHOICE_VALUE) } ns_learned_kind;
extern NS_API const ns_choices ns_learned_kinds;

/// How a network sees a state.
typedef enum ns_learned_input {
    NS_LEARNED_RAW,     ///< (x - shift) / scale
    NS_LEARNED_ANGLE,   ///< sin x, cos x; shift and scale do not matter
    NS_LEARNED_HIDE,    ///< not at all: where a machine is does not change how it moves
    NS_LEARNED_ROTATION ///< this state and the next three are a unit quaternion (w, x, y, z), seen
                        ///< as the rotation matrix, which q and -q share; those three must be HIDE
} ns_learned_input;

/// A state that follows from a velocity, itself a state with an output of the network.
typedef struct ns_learned_motion {
    uint32_t state;    ///< a coordinate, or the first of a unit quaternion
    uint32_t velocity; ///< its rate, or the first of three: angular velocity in the body's frame
    bool rotation;     ///< a quaternion, which a network by itself could not keep unit
} ns_learned_motion;

/// Start from ns_default_learned_def(). Arrays may be shorter than what they describe: the rest has
/// the default.
typedef struct ns_learned_def {
    ns_learned_kind kind;             ///< default NS_LEARNED_FEEDFORWARD
    uint32_t nx;                      ///< states, 1 to 4,096, without those an LSTM adds
    uint32_t nc;                      ///< controls, up to 4,096
    const char* const* state_names;   ///< (nx), or NULL: "x0", "x1"..
    const char* const* control_names; ///< (nc), or NULL: "c0", "c1"..

    const uint32_t* hidden;   ///< widths, 1 to 4,096, of hidden layers or LSTM layers
    uint32_t nhidden;         ///< up to 16. Default 0: a linear map; an LSTM has at least 1
    ns_activation activation; ///< of hidden layers; an LSTM's is NS_TANH. Default NS_TANH
    bool increment;           ///< predict the change of the state. Default false

    const ns_learned_input* state_input; ///< default NS_LEARNED_RAW
    uint32_t nstate_input;
    const double* state_shift; ///< default 0
    uint32_t nstate_shift;
    const double* state_scale; ///< positive. Default 1
    uint32_t nstate_scale;
    const double* control_shift; ///< default 0
    uint32_t ncontrol_shift;
    const double* control_scale; ///< positive. Default 1
    uint32_t ncontrol_scale;
    const double* output_scale; ///< positive; of increments or states. Default: state_scale
    uint32_t noutput_scale;

    double timestep;        ///< s, what one step stands for. Default 0.01
    double init_scale;      ///< weights start as N(0, init_scale^2 / fan_in), biases at 0, those of
                            ///< forget gates at 1. Default 1
    double init_last_scale; ///< the last layer's in addition times this. Default 0.1
    uint64_t seed;          ///< default 1

    const ns_learned_motion* motions; ///< states without outputs of their own. Default: none
    uint32_t nmotion;
} ns_learned_def;

NS_API ns_learned_def ns_default_learned_def(void);

/// Make a learned system; free it with ns_system_free().
/// @param def        what it points to may go afterwards
/// @param allocator  NULL for ns_default_allocator()
/// @return NS_OK; NS_ERR_ARGUMENT naming the field that is wrong; NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_system_create_learned(const ns_learned_def* def, const ns_allocator* allocator,
                                          ns_backend backend, ns_system** out, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
