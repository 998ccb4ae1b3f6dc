/// @file hybrid.h
/// Hybrid models: one small YAML file that names a robot, changed parameters, networks and weights.
///
///     ns_hybrid* hybrid = NULL;
///     ns_hybrid_load("swimmer.yaml", NULL, &hybrid, &error);
///     ns_system_options options = ns_default_system_options();
///     ns_hybrid_apply(hybrid, &options);
///     ns_system_create(ns_hybrid_model(hybrid), &options, &system, &error);
///     ...
///     ns_system_free(system);
///     ns_hybrid_free(hybrid);
///
/// A file may have variants, robots that share everything else; ns_load_options.variant or .recording
/// tell which one is loaded.
///
/// A file may also name a learned system (learned.h) in place of physics; the model then gives names
/// and looks, and ns_hybrid_create_learned() the system. The format is in docs/blueprint.md.

#ifndef NEURALSIM_HYBRID_H
#define NEURALSIM_HYBRID_H

#include "neuralsim/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_hybrid ns_hybrid;

/// Does a path name a hybrid model? It ends in .yaml or .yml.
NS_API bool ns_hybrid_is_path(const char* path);

/// Read a hybrid model (a name that ends in .yaml or .yml) and the files it names, or a URDF or MJCF
/// file (any other name), which is a hybrid model that changes nothing. Whether networks and weights
/// fit the robot is checked by ns_system_create().
/// @param options  of the robot; NULL for ns_default_load_options(). `ground` and `self_collision`
///                 hold when they are set here or in the file; `variant` and `recording` are for a
///                 file with variants, of which one must be chosen
/// @param out      to be freed by ns_hybrid_free(); NULL after a failure
/// @param error    names file, line and column, and what to do
/// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_IO, NS_ERR_PARSE, NS_ERR_UNSUPPORTED, NS_ERR_NONFINITE,
///         NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_hybrid_load(const char* path, const ns_load_options* options, ns_hybrid** out,
                                ns_error* error);

/// Also frees the model and the blueprint: systems made of them go first. NULL is allowed.
NS_API void ns_hybrid_free(ns_hybrid* hybrid);

/// The robot as its own file has it. Owned by the hybrid model.
NS_API const ns_model* ns_hybrid_model(const ns_hybrid* hybrid);

/// The name of the variant that was chosen; NULL: the file has none.
NS_API const char* ns_hybrid_variant(const ns_hybrid* hybrid);

/// Its networks, with weights loaded if the file names some; NULL when there are none. Owned by the
/// hybrid model; other weights may be loaded into it before a system is made.
NS_API ns_blueprint* ns_hybrid_blueprint(const ns_hybrid* hybrid);

/// Set what the file gives: `set`, `blueprint`, `contact`, `integrator`, `timestep`. The rest stays. What is set
/// points into the hybrid model.
NS_API void ns_hybrid_apply(const ns_hybrid* hybrid, ns_system_options* options);

/// Is its step a network instead of physics? Systems made of its model by ns_system_create() are then
/// not what the file says.
NS_API bool ns_hybrid_is_learned(const ns_hybrid* hybrid);

/// The learned system of the file: its state is q and qd of the model, then what an LSTM keeps, which
/// starts at 0. Its initial weights are those of the file.
/// @param out  to be freed by ns_system_free()
/// @return NS_OK; NS_ERR_ARGUMENT: the file has none; as ns_system_create_learned() and
///         ns_system_load_weights(), naming the file; NS_ERR_UNSUPPORTED: a joint of the model has more
///         than one coordinate
NS_API ns_status ns_hybrid_create_learned(const ns_hybrid* hybrid, ns_system** out,
                                          ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
