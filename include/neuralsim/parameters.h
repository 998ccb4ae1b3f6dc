/// @file parameters.h
/// Parameters to estimate: which numbers of a model, from where, within which bounds.
///
///     ns_parameters* params = NULL;
///     ns_parameters_create(&(ns_variant){.model = robot}, 1, NULL, &params, &error);
///     ns_parameter mass = ns_default_parameter();
///     mass.upper = 3.0;                                             // kg
///     ns_parameters_add(params, "link/*/mass", &mass, &error);      // each link's mass by itself
///     ns_parameters_add(params, "joint/*/damping", NULL, &error);   // from the model's values
///     ...                                                           // residuals.h, fit.h
///     ns_parameters_free(params);
///
/// A parameter is named by the model ("link/upper/mass", see ns_model_param()), by a glob, or it is a
/// number of the user's own, from which parameters of the model are computed:
///
///     ns_parameter friction = ns_default_parameter();
///     friction.initial = 0.1;
///     ns_parameters_add(params, "friction", &friction, &error);
///     ns_parameters_set(params, "joint/*/damping", "2 * friction", &error);
///
/// Solvers work with unbounded coordinates z of the parameters; a transform keeps the values within
/// their bounds. A link whose ten inertial parameters are all estimated stays physical for every z
/// (log-Cholesky coordinates of its pseudo-inertia: Rucker & Wensing 2022).
///
/// Several variants of a robot can share parameters. Link libneuralsim_fit.

#ifndef NEURALSIM_PARAMETERS_H
#define NEURALSIM_PARAMETERS_H

#include "neuralsim/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_parameters ns_parameters;

/// A robot whose parameters are estimated. Of several, all have the same joints, controls, networks
/// and integrator. What it points to must outlive the parameters.
typedef struct ns_variant {
    const char* name;      ///< for messages; NULL: it is the only one
    const char* files;     ///< glob: its recordings are those from files of this name, folders left
                           ///< out. NULL: it is the only one
    const ns_model* model; ///< the robot
    const ns_system_options*
        options; ///< values that parameters have, networks, integrator, contact
                 ///< and time step; free_params and observe are ignored. NULL:
                 ///< ns_default_system_options()
} ns_variant;

/// How z becomes the value v of a parameter; l, u and s are its bounds and its scale.
typedef enum ns_parameter_transform {
    NS_PARAMETER_AUTO,   ///< by the bounds and the kind of parameter
    NS_PARAMETER_NONE,   ///< z: without bounds
    NS_PARAMETER_LOG,    ///< l + exp z: a lower bound that is not reached; masses, lengths
    NS_PARAMETER_ABOVE,  ///< l + s (sqrt(z^2 + 1) - 1): a lower bound that can be reached
    NS_PARAMETER_BELOW,  ///< u - s (sqrt(z^2 + 1) - 1): an upper bound that can be reached
    NS_PARAMETER_BOX,    ///< l + (u - l) (1 + sin z) / 2: both can be reached
    NS_PARAMETER_INERTIA ///< one of all ten of a link; cannot be asked for
} ns_parameter_transform;

/// How to estimate a parameter. Start from ns_default_parameter(), in which all numbers are NaN: not
/// given. All are in the parameter's SI unit.
typedef struct ns_parameter {
    double initial; ///< initial value. NaN: the model's; a user-defined number needs one
    double lower,
        upper;    ///< bounds, may be infinite. NaN: the model's; a user-defined number has none
    double scale; ///< what counts as a change when the value is near 0. NaN: |initial|, or
                  ///< 0.01 where that is 0
    double
        prior_sigma; ///< standard deviation of a Gaussian prior around the initial value. NaN: none
    ns_parameter_transform transform; ///< default NS_PARAMETER_AUTO
} ns_parameter;

NS_API ns_parameter ns_default_parameter(void);

/// Nothing to estimate so far.
/// @param variants  (nvariant) one robot or several; the array may go, not what it points to
/// @param out       to be freed by ns_parameters_free(); NULL after a failure
/// @return NS_OK; NS_ERR_ARGUMENT: no variant or no model, or of several variants one without name or
///         files; NS_ERR_NOMEM
NS_API ns_status ns_parameters_create(const ns_variant* variants, uint32_t nvariant,
                                      const ns_allocator* allocator, ns_parameters** out,
                                      ns_error* error);
NS_API void ns_parameters_free(ns_parameters* params); ///< NULL is allowed

/// Estimate a parameter, or each of those that fit a glob (ns_glob_match). Globs pass over links that
/// are fixed to the world. A name without '/' and wildcards is a user-defined number. Variants share
/// a parameter that several of them have.
/// @param how  NULL: ns_default_parameter()
/// @return NS_OK; NS_ERR_ARGUMENT: no parameter of this name, with the nearest one; estimated or set
///         before; bounds out of order, or an initial value out of them; variants with different
///         values and no initial one; or the parameters are in use. NS_ERR_NOMEM. After a failure
///         nothing was added
NS_API ns_status ns_parameters_add(ns_parameters* params, const char* name, const ns_parameter* how,
                                   ns_error* error);

/// Compute parameters of the model from estimated ones.
/// @param name     a parameter of the model or a glob
/// @param formula  of user-defined numbers and, in double quotes, of parameters: "2 * a",
///                 "\"link/upper/mass\" / 3". With one * in the name, {} in the formula stands for what
///                 * stands for. It holds in the variants that have all it uses. What it uses must be
///                 added, or a parameter that stays, when the parameters are first used
/// @return NS_OK; NS_ERR_ARGUMENT: no parameter of this name, with the nearest one; estimated or set
///         before; the formula is not one, with the place of the fault; or the parameters are in use.
///         NS_ERR_NOMEM. After a failure nothing was set
NS_API ns_status ns_parameters_set(ns_parameters* params, const char* name, const char* formula,
                                   ns_error* error);

/// A parameter that is estimated.
typedef struct ns_parameter_info {
    const char *name, *unit; ///< unit: "kg"; "" for a user-defined number
    double initial, lower, upper;
    double scale;
    double prior_sigma;               ///< INFINITY: no prior
    ns_parameter_transform transform; ///< never NS_PARAMETER_AUTO
} ns_parameter_info;

NS_API uint32_t ns_parameters_count(const ns_parameters* params);

/// In the order in which they were added, globs in the order of the model. NULL for a number that is
/// too large. Valid until the next one is added.
NS_API const ns_parameter_info* ns_parameters_at(const ns_parameters* params, uint32_t number);

/// The number of a parameter; UINT32_MAX: none of this name is estimated.
NS_API uint32_t ns_parameters_find(const ns_parameters* params, const char* name);

/// Another initial value, around which its prior, if it has one, is then centred. Bounds, scale and
/// transform stay. Allowed while the parameters are in use: residuals and fits made later see it.
/// @return NS_OK; NS_ERR_ARGUMENT: no parameter of this name is estimated, with the nearest one, or the
///         value is not within its bounds
NS_API ns_status ns_parameters_set_initial(ns_parameters* params, const char* name, double value,
                                           ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
