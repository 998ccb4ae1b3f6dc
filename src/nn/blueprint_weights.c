// Weights of a blueprint, from a file.

#include "neuralsim/blueprint.h"
#include "neuralsim/tensors.h"
#include "nn/blueprint_data.h"

ns_status ns_blueprint_load_weights(ns_blueprint* blueprint, const char* path, ns_error* error) {
    if (!blueprint || !path) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_blueprint_load_weights: blueprint or path is NULL");
    }
    // The file is read whole before anything is added: a broken one changes nothing.
    ns_tensors tensors;
    ns_status status = ns_tensors_read(path, NULL, &tensors, error);
    if (status == NS_OK) {
        nsi_blueprint_clear_tensors(blueprint);
        blueprint->weights_file = nsi_arena_string(&blueprint->tensor_arena, path, strlen(path));
        if (!blueprint->weights_file) status = nsi_fail_nomem(error);
    }
    for (uint32_t k = 0; k < tensors.count && status == NS_OK; k++) {
        const ns_tensor* tensor = &tensors.data[k];
        ns_error inner;
        status = nsi_blueprint_add_tensor(blueprint, tensor->name, tensor->rows, tensor->columns,
                                          tensor->data, &inner);
        if (status != NS_OK) nsi_fail(error, status, "%.200s: %s", path, inner.message);
    }
    ns_tensors_free(&tensors);
    return status;
}
