/// @file sim.h
/// Systems: a model's time step as a program, rolled out over time, with exact gradients.
///
///     ns_system_options options = ns_default_system_options();
///     const char* free_parameters[] = {"link/*/mass"};
///     options.free_params = free_parameters;
///     options.nfree = 1;
///     ns_system* system = NULL;
///     ns_system_create(robot, &options, &system, &error);
///
///     ns_workspace* work = NULL;
///     ns_workspace_size size = {.batch = 8, .steps = 500};
///     ns_workspace_create(system, &size, &work, &error);
///
///     ns_rollout_args rollout = {.batch = 8, .steps = 500, .x0 = x0, .states = states};
///     ns_rollout(system, work, &rollout, &error);
///
///     ns_rollout_adjoint gradient = {.state_seeds = dloss_dstates, .dparams = dloss_dmasses};
///     ns_rollout_vjp(system, work, &rollout, &gradient, &error);
///
/// The state x is q (nq), qd (nv), one number per series-elastic actuator (its motor's last angle) and
/// the past values that networks read ("prev:", "lag3:"). The control c is u (nu), then generalised forces tau (nv). Rolling out allocates
/// nothing. Results do not depend on the number of threads.

#ifndef NEURALSIM_SIM_H
#define NEURALSIM_SIM_H

#include "neuralsim/blueprint.h"
#include "neuralsim/expr.h"
#include "neuralsim/model.h"
#include "neuralsim/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_system ns_system;
typedef struct ns_workspace ns_workspace;
typedef struct ns_gradient_certificate ns_gradient_certificate; ///< certificate.h

/// Shape of the set of friction impulses.
#define NS_FRICTION_MAP(X)                                                                         \
    X(NS_FRICTION_CONE, "cone", "|l_t| <= mu l_n")                                                 \
    X(NS_FRICTION_PYRAMID, "pyramid", "the same for each of the two tangents by itself")

typedef enum ns_friction { NS_FRICTION_MAP(NS_CHOICE_VALUE) } ns_friction;
extern NS_API const ns_choices ns_frictions;

/// How the contacts of the law "ncp" are found. Traced contacts have named quantities, which networks can
/// change; each pair that could touch costs time in every step and in compilation. Contacts that are found
/// when the step runs cost what is near.
#define NS_DETECTION_MAP(X)                                                                        \
    X(NS_DETECTION_AUTO, "auto", "traced up to 192 contact points, else run_time")                 \
    X(NS_DETECTION_TRACED, "traced", "every point that could touch is part of the step")           \
    X(NS_DETECTION_RUN_TIME, "run_time", "pairs that are near are found in every step")

typedef enum ns_detection { NS_DETECTION_MAP(NS_CHOICE_VALUE) } ns_detection;
extern NS_API const ns_choices ns_detections;

/// A value for parameters, by name or glob.
typedef struct ns_param_value {
    const char* pattern;
    double value;
} ns_param_value;

/// Start from ns_default_system_options(): a zeroed struct means Euler, not the model's integrator.
typedef struct ns_system_options {
    const char* const* free_params; ///< names or globs (ns_glob_match) of parameters to set free
    uint32_t nfree;
    const ns_param_value* set; ///< values instead of the model's; later ones win
    uint32_t nset;
    const ns_blueprint* blueprint; ///< or NULL; must outlive the system and stay as it is
    const char* const* observe;    ///< names or globs of quantities to output at each step:
    uint32_t nobserve;             ///< their values at its start
    double timestep;               ///< s; 0: the model's
    int integrator;                ///< an ns_integrator; -1: the model's, but Euler instead of rk4
                                   ///< when there are contact impulses
    int contact;             ///< an ns_contact_model, or the number of another contact law, for
                             ///< all pairs; -1: as each pair says
    ns_friction friction;    ///< of contact impulses. Default NS_FRICTION_CONE
    ns_detection detection;  ///< of contacts of the law "ncp"; with torsional or rolling friction,
                             ///< all are traced. Default NS_DETECTION_AUTO
    uint32_t contact_sweeps; ///< 0: impulses solve their conditions, and so do derivatives; n: n
                             ///< sweeps of projected Gauss-Seidel, differentiated as they are,
                             ///< for comparison (docs/contact-gradients.md)
    ns_backend backend;
} ns_system_options;

NS_API ns_system_options ns_default_system_options(void);

/// Trace the model's step and build its programs. The model must outlive the system.
/// @param options  NULL for ns_default_system_options(); what it points to may go afterwards
/// @return NS_OK; NS_ERR_ARGUMENT when a name fits nothing; NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_system_create(const ns_model* model, const ns_system_options* options,
                                  ns_system** out, ns_error* error);
NS_API void ns_system_free(ns_system* system); ///< NULL is allowed

/// Stages of a step, in the order in which it computes them.
#define NS_STAGE_MAP(X)                                                                            \
    X(NS_STAGE_START, "start", "inputs of the step")                                               \
    X(NS_STAGE_STATE, "state", "functions of the inputs")                                          \
    X(NS_STAGE_CONTACT, "contact", "contact by springs")                                           \
    X(NS_STAGE_FORCES, "forces", "forces of joints, actuators and networks")                       \
    X(NS_STAGE_ACCELERATION, "acceleration", "joint accelerations")                                \
    X(NS_STAGE_IMPULSES, "impulses", "rigid contact")                                              \
    X(NS_STAGE_AFTER, "after", "outputs that no other quantity depends on")

typedef enum ns_stage { NS_STAGE_MAP(NS_CHOICE_VALUE) } ns_stage;
extern NS_API const ns_choices ns_stages;

/// A quantity of a model's step.
typedef struct ns_quantity_info {
    const char* name;
    const char* unit;   ///< "" for none
    ns_stage stage;     ///< in which it is computed
    bool affects_state; ///< the next state depends on it: a network can be attached
    const char* group;  ///< vector or matrix that it is a number of, "link/foot/pose"; a scalar's
                        ///< own name
    const char* family; ///< the group of all objects of its kind, "link/*/pose"
    const char* object; ///< what the star stands for: "link", "joint", "actuator", "contact",
                        ///< "geom", "point" (of a contact); "" when there is no star
    const char* component; ///< "x", "y", "z", "qw", "qx", "qy", "qz"; "" for none
    uint32_t rank;         ///< number of indices: 1 for "qdd/3", 2 for "mass_matrix/0/1"
    uint32_t index[2];     ///< from 0
} ns_quantity_info;

typedef void ns_quantity_visitor(void* context, const ns_quantity_info* quantity);

/// Visit all quantities of a model's step, parameters included, in the order in which they are
/// computed. Of the options contact, integrator and timestep matter; networks are left out.
/// @param options  NULL for ns_default_system_options()
/// @param visit    what it is given is gone after it returns
/// @return NS_OK; NS_ERR_ARGUMENT, NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_model_quantities(const ns_model* model, const ns_system_options* options,
                                     ns_quantity_visitor* visit, void* context, ns_error* error);

typedef struct ns_system_sizes {
    uint32_t nx;      ///< state: q, qd, last angles of series-elastic motors, past values that
                      ///< networks read; of learned systems what they say
    uint32_t nmemory; ///< how many of them, at the end, are past values that networks read
    uint32_t nc;      ///< control: nu + nv
    uint32_t np;      ///< free parameters
    uint32_t nw;      ///< weights of networks, coefficients of formulas
    uint32_t ny;      ///< observations
    double timestep;  ///< s
    ns_integrator integrator; ///< in use: Euler where a model says rk4 but has rigid contact
} ns_system_sizes;

NS_API ns_system_sizes ns_system_get_sizes(const ns_system* system);

/// Names of state components ("q0", "qd0", "motor/<actuator>"), controls ("u/<actuator>",
/// "tau0"), free parameters and observations; NULL for a number that is too large.
NS_API const char* ns_system_state_name(const ns_system* system, uint32_t number);
NS_API const char* ns_system_control_name(const ns_system* system, uint32_t number);
NS_API const char* ns_system_param_name(const ns_system* system, uint32_t number);
NS_API const char* ns_system_observation_name(const ns_system* system, uint32_t number);

/// Of an observation that is an output of a network or formula: the quantity it changes; NULL for others.
/// @param mode  receives how it does so; may be NULL
NS_API const char* ns_system_observation_target(const ns_system* system, uint32_t number,
                                                ns_augment* mode);

/// Unit of an observation, "" for none; NULL for a number that is too large.
NS_API const char* ns_system_observation_unit(const ns_system* system, uint32_t number);

/// Values of the free parameters in the model (np); a learned system (learned.h) has none.
NS_API void ns_system_default_params(const ns_system* system, double* params);

/// Initial weights (nw): those loaded into the blueprint, else random ones by its seeds, or by that of
/// a learned system; of formulas the coefficients they were given.
NS_API void ns_system_default_weights(const ns_system* system, double* weights);

/// A matrix of weights: row j leads from input j to the outputs; the last row holds biases if there
/// are any.
typedef struct ns_weight_matrix {
    const char* set; ///< "drag", or "drag/link/a" where weights are separate
    uint32_t layer;  ///< from 0
    uint32_t offset; ///< of its first number, row-major, in all weights
    uint32_t rows, columns;
    bool bias;                     ///< the last row
    const ns_formula_def* formula; ///< whose coefficients these are, one row; NULL: a network's
} ns_weight_matrix;

NS_API uint32_t ns_system_weight_matrix_count(const ns_system* system);
NS_API ns_weight_matrix ns_system_weight_matrix(const ns_system* system, uint32_t number);

/// Read weights from a file as ns_system_save_weights() writes it, for any system with weights. They
/// must be all there and fit; messages name the file and both shapes.
/// @param weights  (nw) receives them; left as it is when something is wrong
/// @return NS_OK; NS_ERR_ARGUMENT; NS_ERR_IO, NS_ERR_PARSE, NS_ERR_UNSUPPORTED, NS_ERR_NONFINITE,
///         NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_system_load_weights(const ns_system* system, const char* path, double* weights,
                                        ns_error* error);

/// Write weights to a file that ns_system_load_weights() and ns_blueprint_load_weights() read: matrices "<set>/w<k>", as JSON when
/// the name ends in ".json", otherwise as safetensors (F64). An existing file is replaced in one
/// go.
/// @param weights  (nw), or NULL for the initial ones
/// @return NS_OK; NS_ERR_ARGUMENT when the system has no weights; NS_ERR_NONFINITE naming the matrix;
///         NS_ERR_LIMIT, NS_ERR_IO, NS_ERR_NOMEM
NS_API ns_status ns_system_save_weights(const ns_system* system, const double* weights,
                                        const char* path, ns_error* error);

/// The traced step: inputs state, control, free parameters; outputs observations, next state.
NS_API const ns_graph* ns_system_graph(const ns_system* system);

// ---- rollouts --------------------------------------------------------------------------------

typedef struct ns_workspace_size {
    uint32_t batch;   ///< most robots in a call
    uint32_t steps;   ///< most steps in a call
    uint32_t threads; ///< 0: one per core
    size_t max_bytes; ///< bound on the memory for stored states; 0: 1 GiB. Below what all steps
                      ///< need, states are stored at checkpoints and recomputed between them
} ns_workspace_size;

/// All memory that rollouts of up to this size need.
/// @return NS_OK; NS_ERR_LIMIT when max_bytes cannot be kept; NS_ERR_NOMEM
NS_API ns_status ns_workspace_create(const ns_system* system, const ns_workspace_size* size,
                                     ns_workspace** out, ns_error* error);
NS_API void ns_workspace_free(ns_workspace* work); ///< NULL is allowed

/// Steps whose contact impulses miss their conditions by more than this, relative to the largest
/// impulse, are counted as unsolved.
#define NS_CONTACT_TOLERANCE 1e-8

/// How well the contact impulses of a robot were found. Where a step is unsolved, the impulses are
/// those of projected Gauss-Seidel, and derivatives hold for the pattern of contacts they show.
typedef struct ns_contact_report {
    double residual;   ///< largest residual of the conditions, relative to the largest impulse
    uint32_t step;     ///< where that was
    uint32_t unsolved; ///< number of unsolved steps
    uint32_t relaxed;  ///< number of steps solved with more regularisation than asked for
    double relaxation; ///< the largest such regularisation; 0: none
} ns_contact_report;

/// What a rollout reads and writes. Row-major, one robot after the other.
typedef struct ns_rollout_args {
    uint32_t batch, steps;
    const double* x0;       ///< (batch x nx) initial states; quaternions of any length but 0
    const double* controls; ///< (batch x steps x nc), or NULL for zero
    const double* params;   ///< (np), or (batch x np) with per_robot_params; NULL: the model's. Any
                            ///< finite numbers: differences may step out of a parameter's range
    bool per_robot_params;
    const double* weights;      ///< (nw), or NULL for the initial ones
    double* states;             ///< (batch x (steps + 1) x nx) receives x0 and the states, or NULL
    double* observations;       ///< (batch x steps x ny) receives the observations, or NULL
    ns_contact_report* contact; ///< (batch) receives how well impulses were found, or NULL
} ns_rollout_args;

/// Simulate.
/// @return NS_OK; NS_ERR_ARGUMENT; NS_ERR_NONFINITE: the message names robot, step, quantity and
///         operation, states hold what was reached
NS_API ns_status ns_rollout(const ns_system* system, ns_workspace* work,
                            const ns_rollout_args* args, ns_error* error);

/// Directional derivative of a rollout. Tangents may be NULL for zero; `states` and `observations`
/// of `args` are filled as by ns_rollout().
typedef struct ns_rollout_tangent {
    const double* dx0;       ///< (batch x nx)
    const double* dcontrols; ///< (batch x steps x nc)
    const double* dparams;   ///< (np), or (batch x np) with per_robot_params
    const double* dweights;  ///< (nw)
    double* dstates;         ///< (batch x (steps + 1) x nx), or NULL
    double* dobservations;   ///< (batch x steps x ny), or NULL
} ns_rollout_tangent;

/// @return as ns_rollout(); also NS_ERR_NONFINITE, naming robot and state, when a tangent is not
///         finite although the motion is
NS_API ns_status ns_rollout_jvp(const ns_system* system, ns_workspace* work,
                                const ns_rollout_args* args, const ns_rollout_tangent* tangent,
                                ns_error* error);

/// Gradient of a function of states and observations, given its derivatives for them. Simulates
/// first; results may be NULL.
typedef struct ns_rollout_adjoint {
    const double* state_seeds;       ///< (batch x (steps + 1) x nx), or NULL for zero
    const double* observation_seeds; ///< (batch x steps x ny), or NULL for zero. Observations are
                                     ///< those at the start of each step: for the final state roll
                                     ///< out one step more
    double* dx0;                     ///< (batch x nx)
    double* dcontrols;               ///< (batch x steps x nc)
    double* dparams;  ///< (np), the sum over robots; (batch x np) with per_robot_params
    double* dweights; ///< (nw), the sum over robots
    ns_gradient_certificate* certificate; ///< (batch) receives how far the gradient can be trusted
} ns_rollout_adjoint;

/// @return as ns_rollout(); also NS_ERR_NONFINITE, naming robot and state or parameter, when a
///         gradient is not finite although the motion is; results hold what was reached
NS_API ns_status ns_rollout_vjp(const ns_system* system, ns_workspace* work,
                                const ns_rollout_args* args, const ns_rollout_adjoint* adjoint,
                                ns_error* error);

/// Build what ns_rollout_hvp() needs: programs for the second derivatives of a step. Workspaces that are
/// created after it have room for these. Calling it again does nothing.
/// @return NS_OK; NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_system_build_hvp(ns_system* system, ns_error* error);

/// The product of a Hessian with a direction (dx0, dcontrols, dparams, dweights), for a cost L of states
/// and observations. Computes in one forward and one reverse sweep
///
///     direction   dstates and dobservations, as ns_rollout_jvp()
///     gradient    the gradient of L, as ns_rollout_vjp(), from its derivatives for states and observations
///     product     the derivative of that gradient along the direction, by state, control, parameter and
///                 weight. Its seeds are the tangents of the seeds: for L = sum of l(x_t) those of the
///                 gradient are grad l(x_t), those of the product hess l(x_t) dx_t. NULL when L is linear
///
/// Seeds that depend on the motion come from ns_rollout_jvp() with the same direction. Results may be NULL,
/// the three structs may not, and certificates must be. Allocates nothing.
///
/// With contact the Hessian is that of a motion whose contacts happen in the same order, and press, slide
/// and stick as they do (docs/contact-gradients.md).
/// @return as ns_rollout_vjp(); NS_ERR_ARGUMENT when ns_system_build_hvp() was not called first
NS_API ns_status ns_rollout_hvp(const ns_system* system, ns_workspace* work,
                                const ns_rollout_args* args, const ns_rollout_tangent* direction,
                                const ns_rollout_adjoint* gradient,
                                const ns_rollout_adjoint* product, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
