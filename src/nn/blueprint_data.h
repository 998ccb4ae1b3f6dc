// Inside a blueprint: networks and formulas, where they stand in the file they came from, loaded weights.

#ifndef NSI_BLUEPRINT_DATA_H
#define NSI_BLUEPRINT_DATA_H

#include "expr/formula_syntax.h"
#include "io/schema.h"
#include "neuralsim/blueprint.h"

enum {
    NSI_BLUEPRINT_MAX_NETWORKS = 1000, // and as many formulas
    NSI_BLUEPRINT_MAX_HIDDEN = 16,     // layers
    NSI_BLUEPRINT_MAX_WIDTH = 4096, // of a layer; also inputs and outputs, before and after globs
    NSI_BLUEPRINT_MAX_NAME = 200,   // bytes of a network's or a coefficient's name
    NSI_BLUEPRINT_MAX_FORMULA = 1 << 16, // bytes
    NSI_BLUEPRINT_MAX_TEXT = 1000,       // bytes of any other string
    NSI_BLUEPRINT_MAX_LAG = 1000,        // steps
    NSI_BLUEPRINT_MAX_WEIGHTS = 1 << 26
};

// What can be wrong with a network or a formula. Up to AGAINST_SCALE they are the keys of a network in
// a file too.
#define NSI_FIELD_MAP(X)                                                                           \
    X(NAME, "name")                                                                                \
    X(EACH, "each")                                                                                \
    X(WEIGHTS, "weights")                                                                          \
    X(INPUTS, "inputs")                                                                            \
    X(OUTPUTS, "outputs")                                                                          \
    X(MODE, "mode")                                                                                \
    X(HIDDEN, "hidden")                                                                            \
    X(ACTIVATION, "activation")                                                                    \
    X(BIAS, "bias")                                                                                \
    X(STRUCTURE, "structure")                                                                      \
    X(BOUND, "bound")                                                                              \
    X(CONJUGATE, "conjugate")                                                                      \
    X(INPUT_SHIFT, "input_shift")                                                                  \
    X(INPUT_SCALE, "input_scale")                                                                  \
    X(OUTPUT_SCALE, "output_scale")                                                                \
    X(CONJUGATE_SCALE, "conjugate_scale")                                                          \
    X(INIT_SCALE, "init_scale")                                                                    \
    X(INIT_LAST_SCALE, "init_last_scale")                                                          \
    X(SEED, "seed")                                                                                \
    X(OUTPUT, "output")                                                                            \
    X(FORMULA, "formula")                                                                          \
    X(COEFFICIENTS, "coefficients")

typedef enum nsi_field {
#define NSI_FIELD_ENUM(name, text) NSI_FIELD_##name,
    NSI_FIELD_MAP(NSI_FIELD_ENUM)
#undef NSI_FIELD_ENUM
        NSI_FIELD_COUNT
} nsi_field;

const char* nsi_field_name(nsi_field field);

// Do the matches of `each` have their weights in common?
#define NSI_SHARING_MAP(X)                                                                         \
    X(NSI_SHARED, "shared", "one set of weights for all matches")                                  \
    X(NSI_SEPARATE, "separate", "a set of weights for each match")
typedef enum nsi_sharing { NSI_SHARING_MAP(NS_CHOICE_VALUE) } nsi_sharing;
extern const ns_choices nsi_sharings;

// A place in a file, from 1; line 0: none.
typedef struct nsi_place {
    uint32_t line, column;
    const char* file; // NULL: the blueprint's; another one that it extends
} nsi_place;

// Where a network or formula and its fields stand.
typedef struct nsi_places {
    nsi_place whole;
    nsi_place field[NSI_FIELD_COUNT];        // of a value; line 0 where there is none
    const nsi_place* items[NSI_FIELD_COUNT]; // of a list, as long as the field's; else NULL
} nsi_places;

// The nearest place there is: the item's, the field's, the whole's. `item` may be NSI_NONE, and `field`
// NSI_FIELD_COUNT; of NSI_FIELD_FORMULA it is a byte of the text, from 0.
nsi_place nsi_places_find(const nsi_places* places, nsi_field field, uint32_t item);

typedef struct nsi_blueprint_network {
    ns_network_def def;
    nsi_places places;
} nsi_blueprint_network;

// What stands for a variable of a formula.
typedef struct nsi_formula_source {
    bool is_input; // otherwise a coefficient
    uint32_t number;
} nsi_formula_source;

typedef struct nsi_blueprint_formula {
    ns_formula_def def;
    ns_network_def ports; // what it has in common with a network: name, each, inputs, outputs...
    nsi_places places;
    ns_formula* formula;
    const nsi_formula_source* sources; // one per variable
} nsi_blueprint_formula;

typedef struct nsi_blueprint_tensor {
    const char* name;
    uint32_t rows, columns;
    const double* data; // (rows x columns), row-major
} nsi_blueprint_tensor;

struct ns_blueprint {
    ns_allocator allocator;
    const char* file; // NULL when made by calls
    NSI_ARRAY(nsi_blueprint_network) networks;
    NSI_ARRAY(nsi_blueprint_formula) formulas;
    nsi_arena arena; // of both

    bool has_weights;         // loaded, be it none at all
    const char* weights_file; // that they came from; NULL when added by calls
    NSI_ARRAY(nsi_blueprint_tensor) tensors;
    nsi_index tensor_names;
    uint64_t tensor_numbers; // in all of them
    nsi_arena tensor_arena;
};

// ns_blueprint_add() and ns_blueprint_add_formula() of what comes from a file: `places` is copied. A
// fault is told with its place; to the caller it is the file's (NS_ERR_PARSE).
ns_status nsi_blueprint_add_at(ns_blueprint* blueprint, const ns_network_def* network,
                               const nsi_places* places, ns_error* error);
ns_status nsi_blueprint_add_formula_at(ns_blueprint* blueprint, const ns_formula_def* formula,
                                       const nsi_places* places, ns_error* error);

// A blueprint as YAML that reads back to the same, loaded weights left out; and written to a file, which
// is replaced in one go if it is there.
// @param coefficients  of all formulas, one after the other, in place of their own; NULL: those
// @return NS_OK; NS_ERR_ARGUMENT naming what YAML cannot hold: text that is not UTF-8, a coefficient
//         that is not finite; NS_ERR_IO, NS_ERR_NOMEM
ns_status nsi_blueprint_text(const ns_blueprint* blueprint, const double* coefficients,
                             const ns_allocator* allocator, ns_text* out, ns_error* error);
ns_status nsi_blueprint_write(const char* path, const ns_blueprint* blueprint,
                              const double* coefficients, const ns_allocator* allocator,
                              ns_error* error);

// Tables of keys.
extern const nsi_schema nsi_blueprint_schema, nsi_network_schema, nsi_network_init_schema,
    nsi_formula_schema;

// ---- checks ----------------------------------------------------------------------------------

// What is wrong with a network or formula, if anything.
typedef struct nsi_fault {
    ns_status status;
    nsi_field field; // NSI_FIELD_COUNT: the whole
    uint32_t item;   // of a list, of a formula a byte, or NSI_NONE
    char what[300];
} nsi_fault;

// Fill it in; false.
bool nsi_fault_at(nsi_fault* fault, ns_status status, nsi_field field, uint32_t item,
                  const char* format, ...) NSI_PRINTF(5, 6);

// Each returns false, with the fault filled in, when something is wrong. `kind` is "network" or
// "formula".
bool nsi_check_name(const ns_blueprint* blueprint, const char* kind, const char* name,
                    nsi_fault* fault);
bool nsi_check_text(const char* text, bool each, nsi_field field, uint32_t item, nsi_fault* fault);
bool nsi_check_mode(ns_augment mode, nsi_fault* fault);

// "network "drag": inputs[2]: ..."
// @param number  its own, from 0, for what has no usable name
// @param places  or NULL: it does not come from a file
ns_status nsi_fault_tell(const nsi_fault* fault, const ns_blueprint* blueprint, const char* kind,
                         const char* name, uint32_t number, const nsi_places* places,
                         ns_error* error);

// "prev:x" and "lag<k>:x": x; `first` and `last` receive the lags that it stands for, 0 and 0 for
// a name without either. NULL when that is malformed.
const char* nsi_input_lags(const char* input, uint32_t* first, uint32_t* last);

// ---- loaded weights --------------------------------------------------------------------------

// Forget what was loaded before; from now on there are loaded weights, even if none are added.
void nsi_blueprint_clear_tensors(ns_blueprint* blueprint);

// Add a matrix; name and numbers are copied.
// @param data  (rows x columns), row-major; finite
// @return NS_OK; NS_ERR_ARGUMENT (a name twice or empty, a number that is not finite), NS_ERR_LIMIT,
//         NS_ERR_NOMEM: nothing was added
ns_status nsi_blueprint_add_tensor(ns_blueprint* blueprint, const char* name, uint32_t rows,
                                   uint32_t columns, const double* data, ns_error* error);

// NULL when there is none.
const nsi_blueprint_tensor* nsi_blueprint_find_tensor(const ns_blueprint* blueprint,
                                                      const char* name);

#endif
