// Initial weights of a binding: random, or from the tensors that were loaded into the blueprint.

#include "nn/binding_state.h"

#include <stdarg.h>
#include <stdio.h>

static const char* tensor_name(const nsi_binding_set* set, uint32_t layer, char* out, size_t size) {
    snprintf(out, size, "%s/w%u", set->name, layer);
    return out;
}

enum { TENSOR_NAME_SIZE = NSI_BLUEPRINT_MAX_NAME + NSI_BINDER_MAX_EXPANDED + 16 };

// With the file that the weights came from.
static ns_status fail_weights(const nsi_binding* binding, ns_error* error, const char* format, ...)
    NSI_PRINTF(3, 4);
static ns_status fail_weights(const nsi_binding* binding, ns_error* error, const char* format,
                              ...) {
    char what[NS_ERROR_SIZE];
    const char* file = binding->blueprint->weights_file;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return nsi_fail(error, NS_ERR_ARGUMENT, "%.150s%s%s", file ? file : "", file ? ": " : "", what);
}

static const char* nearest_tensors(const ns_blueprint* blueprint, const char* wanted,
                                   char out[NSI_BINDER_NEAREST_SIZE]) {
    ns_nearest nearest = {.wanted = wanted};
    for (uint32_t i = 0; i < blueprint->tensors.count; i++) {
        ns_nearest_offer(&nearest, blueprint->tensors.data[i].name);
    }
    return nsi_binder_list_nearest(&nearest, out);
}

const ns_formula_def* nsi_binding_formula(const nsi_binding* binding, uint32_t set) {
    return ns_blueprint_formula(binding->blueprint, binding->sets[set].formula);
}

uint32_t nsi_binding_layers(const nsi_binding* binding, uint32_t number,
                            nsi_layer layers[NSI_MAX_LAYERS]) {
    const nsi_binding_set* set = &binding->sets[number];
    if (set->formula != NSI_NONE) {
        layers[0] = (nsi_layer){.rows = 1, .columns = set->count};
        return 1;
    }
    return nsi_network_layers(ns_blueprint_network(binding->blueprint, set->network), set->ninput,
                              set->noutput, layers);
}

static ns_status load_set(const nsi_binding* binding, uint32_t number, double* weights,
                          ns_error* error) {
    const nsi_binding_set* set = &binding->sets[number];
    nsi_layer layers[NSI_MAX_LAYERS];
    uint32_t nlayer = nsi_binding_layers(binding, number, layers);
    for (uint32_t k = 0; k < nlayer; k++) {
        const nsi_layer* layer = &layers[k];

        // A tensor for each layer, by name.
        char name[TENSOR_NAME_SIZE];
        const nsi_blueprint_tensor* tensor =
            nsi_blueprint_find_tensor(binding->blueprint, tensor_name(set, k, name, sizeof name));
        if (!tensor) {
            char nearest[NSI_BINDER_NEAREST_SIZE];
            return fail_weights(
                binding, error,
                "set \"%.120s\": the tensor \"%.130s\" (%u x %u) is missing from the"
                " loaded weights%s",
                set->name, name, layer->rows, layer->columns,
                nearest_tensors(binding->blueprint, name, nearest));
        }

        // Its shape follows from the numbers of inputs and outputs.
        bool fits = tensor->rows == layer->rows && tensor->columns == layer->columns;
        if (!fits && set->formula != NSI_NONE) {
            return fail_weights(binding, error,
                                "set \"%.120s\": the loaded tensor \"%.130s\" is %u x %u, but the"
                                " formula of %u coefficient%s needs %u x %u",
                                set->name, name, tensor->rows, tensor->columns, set->count,
                                set->count == 1 ? "" : "s", layer->rows, layer->columns);
        }
        if (!fits) {
            return fail_weights(binding, error,
                                "set \"%.120s\": the loaded tensor \"%.130s\" is %u x %u, but the"
                                " network of %u inputs and %u outputs needs %u x %u",
                                set->name, name, tensor->rows, tensor->columns, set->ninput,
                                set->noutput, layer->rows, layer->columns);
        }

        memcpy(weights + set->offset + layer->offset, tensor->data,
               (size_t)layer->rows * layer->columns * sizeof *weights);
    }
    return NS_OK;
}

// Is there a layer of this name?
static bool is_expected(const nsi_binding* binding, const char* tensor) {
    for (uint32_t i = 0; i < binding->nset; i++) {
        const nsi_binding_set* set = &binding->sets[i];
        size_t size = strlen(set->name);
        if (strncmp(tensor, set->name, size) != 0) continue;
        char name[TENSOR_NAME_SIZE];
        nsi_layer layers[NSI_MAX_LAYERS];
        uint32_t nlayer = nsi_binding_layers(binding, i, layers);
        for (uint32_t k = 0; k < nlayer; k++) {
            if (strcmp(tensor, tensor_name(set, k, name, sizeof name)) == 0) return true;
        }
    }
    return false;
}

static ns_status load_weights(const nsi_binding* binding, double* weights, ns_error* error) {
    const ns_blueprint* blueprint = binding->blueprint;
    uint64_t used = 0;
    for (uint32_t i = 0; i < binding->nset; i++) {
        nsi_layer layers[NSI_MAX_LAYERS];
        ns_status status = load_set(binding, i, weights, error);
        if (status != NS_OK) return status;
        used += nsi_binding_layers(binding, i, layers);
    }
    if (used == blueprint->tensors.count) return NS_OK;
    for (uint32_t i = 0; i < blueprint->tensors.count; i++) {
        const nsi_blueprint_tensor* tensor = &blueprint->tensors.data[i];
        if (is_expected(binding, tensor->name)) continue;
        return fail_weights(binding, error,
                            "the loaded tensor \"%.200s\" (%u x %u) belongs to no set of weights of"
                            " this blueprint and model",
                            tensor->name, tensor->rows, tensor->columns);
    }
    return NS_OK;
}

ns_status nsi_binding_weights(const nsi_binding* binding, double* weights, ns_error* error) {
    if (binding->blueprint->has_weights) return load_weights(binding, weights, error);
    uint64_t stream = 0;
    for (uint32_t i = 0; i < binding->nset; i++) {
        const nsi_binding_set* set = &binding->sets[i];
        const ns_formula_def* formula = nsi_binding_formula(binding, i);
        for (uint32_t k = 0; formula && k < set->count; k++) {
            weights[set->offset + k] = formula->coefficients[k].value;
        }
        if (formula) continue;
        stream = i > 0 && binding->sets[i - 1].network == set->network ? stream + 1 : 0;
        nsi_network_init(ns_blueprint_network(binding->blueprint, set->network), set->ninput,
                         set->noutput, stream, weights + set->offset);
    }
    return NS_OK;
}
