// Inside a blueprint: networks and where they stand in the file they came from, loaded weights.

#ifndef NSI_BLUEPRINT_H
#define NSI_BLUEPRINT_H

#include "base/base.h"
#include "neuralsim/blueprint.h"

enum {
    NSI_BLUEPRINT_MAX_NETWORKS = 1000,
    NSI_BLUEPRINT_MAX_HIDDEN = 16,  // layers
    NSI_BLUEPRINT_MAX_WIDTH = 4096, // of a layer; also inputs and outputs, before and after globs
    NSI_BLUEPRINT_MAX_NAME = 200,   // bytes of a network's name
    NSI_BLUEPRINT_MAX_TEXT = 1000,  // bytes of any other string
    NSI_BLUEPRINT_MAX_LAG = 1000,   // steps
    NSI_BLUEPRINT_MAX_WEIGHTS = 1 << 26
};

// What can be wrong with a network. The first are the keys of a file too.
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
    X(GUARANTEE, "guarantee")                                                                      \
    X(BOUND, "bound")                                                                              \
    X(AGAINST, "against")                                                                          \
    X(INPUT_SHIFT, "input_shift")                                                                  \
    X(INPUT_SCALE, "input_scale")                                                                  \
    X(OUTPUT_SCALE, "output_scale")                                                                \
    X(AGAINST_SCALE, "against_scale")                                                              \
    X(INIT_SCALE, "init_scale")                                                                    \
    X(INIT_LAST_SCALE, "init_last_scale")                                                          \
    X(SEED, "seed")

typedef enum nsi_field {
#define NSI_FIELD_ENUM(name, text) NSI_FIELD_##name,
    NSI_FIELD_MAP(NSI_FIELD_ENUM)
#undef NSI_FIELD_ENUM
        NSI_FIELD_COUNT
} nsi_field;

const char* nsi_field_name(nsi_field field);

// A place in a file, from 1; line 0: none.
typedef struct nsi_place {
    uint32_t line, column;
} nsi_place;

// Where a network and its fields stand.
typedef struct nsi_places {
    nsi_place network;
    nsi_place field[NSI_FIELD_COUNT];        // of a value; line 0 where there is none
    const nsi_place* items[NSI_FIELD_COUNT]; // of a list, as long as the field's; else NULL
} nsi_places;

// The nearest place there is: the item's, the field's, the network's. `item` may be NSI_NONE, and
// `field` NSI_FIELD_COUNT.
nsi_place nsi_places_find(const nsi_places* places, nsi_field field, uint32_t item);

typedef struct nsi_blueprint_network {
    ns_network_def def;
    nsi_places places;
} nsi_blueprint_network;

typedef struct nsi_blueprint_tensor {
    const char* name;
    uint32_t rows, columns;
    const double* data; // (rows x columns), row-major
} nsi_blueprint_tensor;

struct ns_blueprint {
    ns_allocator allocator;
    const char* file; // NULL when made by calls
    NSI_ARRAY(nsi_blueprint_network) networks;
    nsi_arena arena; // of the networks

    bool has_weights;         // loaded, be it none at all
    const char* weights_file; // that they came from; NULL when added by calls
    NSI_ARRAY(nsi_blueprint_tensor) tensors;
    nsi_index tensor_names;
    uint64_t tensor_numbers; // in all of them
    nsi_arena tensor_arena;
};

// What is wrong with a network, if anything.
typedef struct nsi_fault {
    ns_status status;
    nsi_field field; // NSI_FIELD_COUNT: the whole
    uint32_t item;   // of a list, or NSI_NONE
    char what[300];
} nsi_fault;

// ns_blueprint_add() of a network that comes from a file: `places` is copied. A fault is told with
// its place; to the caller it is the file's (NS_ERR_PARSE).
ns_status nsi_blueprint_add_at(ns_blueprint* blueprint, const ns_network_def* network,
                               const nsi_places* places, ns_error* error);

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
