/// @file blueprint.h
/// Blueprints: networks and formulas at named quantities, declared apart from the physics.
///
/// Wherever the step computes a named quantity (`neuralsim quantities`), a network or a formula can add to
/// it, scale it or replace it, fed from any quantities that are not computed from it. A blueprint is read
/// from YAML
///
///     networks:
///       - name: drag
///         each: link/*                       # for every link; {} below is its name
///         inputs: ["{}/velocity/com/x", "{}/velocity/com/y", "{}/velocity/angular/z"]
///         outputs: ["{}/force/x", "{}/force/y", "{}/torque/z"]
///         hidden: [35, 35]
///         structure: [dissipative, even]
///     formulas:
///       - name: friction
///         each: joint/*
///         output: "{}/tau"
///         formula: -b * "{}/velocity" - c * tanh("{}/velocity" / 0.05)
///         coefficients: {b: 0.098, c: 0.02}
///
/// or made by calls, and given to ns_system_create() by ns_system_options.blueprint. The format is in
/// docs/blueprint.md.

#ifndef NEURALSIM_BLUEPRINT_H
#define NEURALSIM_BLUEPRINT_H

#include "neuralsim/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_blueprint ns_blueprint;

/// What the output of a network or formula does to the quantity x it stands at.
#define NS_AUGMENT_MAP(X)                                                                          \
    X(NS_AUGMENT_ADD, "add", "x + output")                                                         \
    X(NS_AUGMENT_REPLACE, "replace", "output")                                                     \
    X(NS_AUGMENT_SCALE, "scale", "x (1 + output)")

typedef enum ns_augment { NS_AUGMENT_MAP(NS_CHOICE_VALUE) } ns_augment;
extern NS_API const ns_choices ns_augments;

/// What holds for every weight, by construction. A set of bits.
///
/// Dissipative: f = -S L L' S v with velocities v (`conjugate`) and L lower triangular, learned. Even and
/// odd exclude each other; bounded goes neither with dissipative nor with conservative.
#define NS_STRUCTURE_MAP(X)                                                                        \
    X(NS_STRUCTURE_DISSIPATIVE, 1, "dissipative", "sum of output times velocity <= 0")             \
    X(NS_STRUCTURE_CONSERVATIVE, 2, "conservative",                                                \
      "output i is -dV / d input i of one learned potential V")                                    \
    X(NS_STRUCTURE_ODD, 4, "odd", "net(-x) = -net(x)")                                             \
    X(NS_STRUCTURE_EVEN, 8, "even", "the sign of no input matters (in `conjugate` it does)")       \
    X(NS_STRUCTURE_BOUNDED, 16, "bounded", "|output| <= bound * output_scale")

typedef enum ns_structure { NS_STRUCTURE_MAP(NS_CHOICE_BIT) } ns_structure;
extern NS_API const ns_choices ns_structures;

/// A network, or one for each match of `each`.
typedef struct ns_network_def {
    const char* name; ///< unique, also among formulas; letters, digits, '_', '-', '.'

    /// NULL, or a glob of the beginnings of quantity names, up to a '/': "link/*" stands for link/a,
    /// link/b...; the network is applied to each of them, and "{}" in the lists below is replaced by it.
    const char* each;
    bool separate; ///< each match has weights of its own. Default false: they share one set

    /// Quantities computed before the outputs, or globs of them. "prev:<name>" is the value in the
    /// step before; "lag3:<name>" the last three values before this one, the latest first (three
    /// inputs); before the first step all of these are 0.
    const char* const* inputs;
    uint32_t ninput;
    const char* const* outputs; ///< quantities, or globs of them; each at most in one network or
                                ///< formula
    uint32_t noutput;
    ns_augment mode; ///< default NS_AUGMENT_ADD

    const uint32_t* hidden; ///< widths of hidden layers
    uint32_t nhidden;
    ns_activation activation; ///< of hidden layers. Default NS_TANH
    bool no_bias;             ///< default false

    unsigned structure; ///< bits of ns_structure. Default 0
    double bound;       ///< of NS_STRUCTURE_BOUNDED. Default 1

    /// Dissipative: the velocity that belongs to each output (noutput names). NULL where they are known:
    /// joint/<j>/velocity for joint/<j>/tau and joint/<j>/force/..., link/<l>/velocity/com/x for
    /// link/<l>/force/x, link/<l>/velocity/angular/x for link/<l>/torque/x.
    const char* const* conjugate;

    // Scales; arrays of 1 (for all) or as many as there are inputs or outputs after globs.
    const double* input_shift; ///< a network sees (input - shift) / scale. Default 0
    uint32_t ninput_shift;
    const double* input_scale; ///< default 1
    uint32_t ninput_scale;
    const double* output_scale; ///< outputs are multiplied by it. Dissipative: one number only, the
    uint32_t noutput_scale;     ///< power scale P. Default 1
    const double* conjugate_scale; ///< dissipative: scale s of each velocity: f_i = -(P / s_i)
    uint32_t nconjugate_scale;     ///< ((L L' + 1e-6) (v / s))_i. Default 1

    double init_scale; ///< weights start as N(0, init_scale^2 / fan_in), biases at 0. Default 1
    double init_last_scale; ///< the last layer's in addition times this. Default 0.1; dissipative:
                            ///< the diagonal of L starts at 0.5
    uint64_t seed;          ///< default 1
} ns_network_def;

NS_API ns_network_def ns_default_network_def(void);

/// A number of a formula that is fitted as weights are.
typedef struct ns_coefficient {
    const char* name; ///< letters, digits, '_', no digit first; no function or constant of formulas
    double value;     ///< initial
} ns_coefficient;

/// A formula, or one for each match of `each`. What it is made of: docs/blueprint.md.
typedef struct ns_formula_def {
    const char* name; ///< as a network's, and not that of one
    const char* each; ///< as a network's: NULL, or a glob; "{}" below is the match
    bool separate;    ///< each match has coefficients of its own. Default false: they share one set
    const char* output; ///< one quantity, no glob
    ns_augment mode;    ///< default NS_AUGMENT_ADD

    /// Numbers, + - * / ^, functions; names in double quotes are quantities computed before the output,
    /// or "prev:<name>", their value in the step before; names without quotes are coefficients.
    const char* formula;
    const ns_coefficient* coefficients; ///< all that the formula uses, and no others
    uint32_t ncoefficient;
} ns_formula_def;

NS_API ns_formula_def ns_default_formula_def(void);

/// An empty blueprint.
/// @param allocator  NULL for ns_default_allocator()
NS_API ns_status ns_blueprint_create(const ns_allocator* allocator, ns_blueprint** out,
                                     ns_error* error);
NS_API void ns_blueprint_free(ns_blueprint* blueprint); ///< NULL is allowed

/// Add a network; everything is copied. What needs the model (do the names exist?) is checked by
/// ns_system_create().
/// @return NS_OK; NS_ERR_ARGUMENT naming the field that is wrong; NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_blueprint_add(ns_blueprint* blueprint, const ns_network_def* network,
                                  ns_error* error);

NS_API uint32_t ns_blueprint_network_count(const ns_blueprint* blueprint);

/// By number; NULL for a number that is too large. Owned by the blueprint.
NS_API const ns_network_def* ns_blueprint_network(const ns_blueprint* blueprint, uint32_t number);

/// Add a formula; everything is copied. What needs the model is checked by ns_system_create().
/// @return NS_OK; NS_ERR_ARGUMENT naming the field that is wrong; NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_blueprint_add_formula(ns_blueprint* blueprint, const ns_formula_def* formula,
                                          ns_error* error);

NS_API uint32_t ns_blueprint_formula_count(const ns_blueprint* blueprint);

/// By number; NULL for a number that is too large. Owned by the blueprint.
NS_API const ns_formula_def* ns_blueprint_formula(const ns_blueprint* blueprint, uint32_t number);

/// Read YAML. Messages name file, line and column.
/// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_IO, NS_ERR_PARSE, NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_blueprint_load(const char* path, const ns_allocator* allocator,
                                   ns_blueprint** out, ns_error* error);
NS_API ns_status ns_blueprint_parse(const char* text, size_t size, const char* name,
                                    const ns_allocator* allocator, ns_blueprint** out,
                                    ns_error* error);

// ---- weights ---------------------------------------------------------------------------------
// A set of weights is called after its network, and after the match of `each` when weights are
// separate: "drag", "drag/link/a". Its layers are matrices "<set>/w<k>" (rows: inputs, the last one
// the bias unless there is none; columns: outputs), k from 0. That of a formula has one matrix, "w0",
// of one row: its coefficients in their order; a formula without coefficients has none.

/// Read weights from a safetensors file, or JSON when the name ends in ".json", to be the initial
/// ones of systems made with this blueprint. Whether they fit is checked by ns_system_create(),
/// whose message names both shapes.
NS_API ns_status ns_blueprint_load_weights(ns_blueprint* blueprint, const char* path,
                                           ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
