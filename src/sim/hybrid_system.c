// Hybrid models: the files that one of them names, loaded.

#include "neuralsim/hybrid.h"

#include "io/hybrid_file.h"
#include "sim/learned_model.h"
#include "sim/system.h"

#include <stdio.h>

struct ns_hybrid {
    ns_allocator allocator;
    char* path;
    nsi_hybrid file;
    ns_model* model;
    ns_blueprint* blueprint;           // or NULL
    const nsi_hybrid_variant* variant; // that was chosen, of the file; NULL: it has none
    ns_param_value* set;               // those that the robot has
    uint32_t nset;
};

// Blueprint and weights, when the file names them.
static ns_status load_networks(ns_hybrid* h, ns_error* error) {
    if (!h->file.blueprint) return NS_OK;
    ns_status status = ns_blueprint_load(h->file.blueprint, &h->allocator, &h->blueprint, error);
    if (status == NS_OK && h->file.weights) {
        status = ns_blueprint_load_weights(h->blueprint, h->file.weights, error);
    }
    return status;
}

static ns_status fail_parameter(const char* path, const nsi_hybrid_parameter* parameter,
                                const ns_error* why, ns_error* error) {
    return nsi_fail(error, NS_ERR_PARSE, "%.150s:%u:%u: parameters: %s",
                    parameter->file ? parameter->file : path, parameter->line, parameter->column,
                    why->message);
}

static bool has_param(const ns_model* model, const char* pattern) {
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nparam; k++) {
        if (ns_glob_match(pattern, ns_model_param(model, k)->name)) return true;
    }
    return false;
}

// Another variant, for a parameter that the chosen one lacks: a fault says why it was looked at.
static ns_status load_other(const nsi_hybrid_variant* other, const char* path,
                            const nsi_hybrid_parameter* wanted, const ns_load_options* robot,
                            ns_model** out, ns_error* error) {
    ns_error inner;
    ns_status status = ns_model_load(other->robot, robot, out, &inner);
    if (status == NS_OK) return NS_OK;
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    return nsi_fail(error, status, "%.150s:%u:%u: looking for %.100s in variant %.60s: %s", path,
                    wanted->line, wanted->column, wanted->pattern, other->name, inner.message);
}

// Parameters of all variants that this one does not have: another one must, and take their value.
static ns_status check_others(const ns_hybrid* h, const char* path, const ns_load_options* robot,
                              bool* missing, ns_error* error) {
    const nsi_hybrid_parameters* all = &h->file.parameters;
    uint32_t left = 0;
    for (uint32_t k = 0; k < all->count; k++) left += missing[k];

    // Parameters that this variant has not must be those of another one, with a value it accepts.
    for (uint32_t v = 0; v < h->file.variants.count && left > 0; v++) {
        const nsi_hybrid_variant* other = &h->file.variants.data[v];
        ns_model* model = NULL;
        if (other == h->variant) continue;

        uint32_t first = 0;
        while (!missing[first]) first++;

        ns_status status = load_other(other, path, &all->data[first], robot, &model, error);
        for (uint32_t k = 0; k < all->count && status == NS_OK; k++) {
            ns_error inner;
            ns_param_value set = {all->data[k].pattern, all->data[k].value};
            if (!missing[k] || !has_param(model, all->data[k].pattern)) continue;
            missing[k] = false;
            left--;
            status = nsi_set_params(model, &set, NULL, &inner);
            if (status != NS_OK) status = fail_parameter(path, &all->data[k], &inner, error);
        }
        ns_model_free(model);
        if (status != NS_OK) return status;
    }

    // What no variant has fails with the message of the model at hand.
    for (uint32_t k = 0; k < all->count; k++) {
        ns_error inner;
        ns_param_value set = {all->data[k].pattern, all->data[k].value};
        if (!missing[k]) continue;
        nsi_set_params(h->model, &set, NULL, &inner);
        return fail_parameter(path, &all->data[k], &inner, error);
    }
    return NS_OK;
}

// Are the parameters such as the robot has? A fault is told with its place: it is the file's.
static ns_status set_hybrid_parameters(ns_hybrid* h, const nsi_hybrid_parameters* from,
                                       const char* path, bool* missing, ns_error* error) {
    for (uint32_t k = 0; k < from->count; k++) {
        const nsi_hybrid_parameter* parameter = &from->data[k];
        ns_param_value* set = &h->set[h->nset];
        ns_error inner;
        *set = (ns_param_value){parameter->pattern, parameter->value};
        if (missing && !has_param(h->model, parameter->pattern)) {
            missing[k] = true;
        } else if (nsi_set_params(h->model, set, NULL, &inner) != NS_OK) {
            return fail_parameter(path, parameter, &inner, error);
        } else {
            h->nset++;
        }
    }
    return NS_OK;
}

static ns_status take_parameters(ns_hybrid* h, const char* path, const ns_load_options* robot,
                                 ns_error* error) {
    const nsi_hybrid_variant* v = h->variant;
    size_t common = h->file.parameters.count, own = v ? v->parameters.count : 0;
    h->set = nsi_alloc(&h->allocator, (common + own + 1) * sizeof *h->set);
    bool* missing = nsi_alloc_zeroed(&h->allocator, (common + 1) * sizeof *missing);
    ns_status status = h->set && missing ? NS_OK : nsi_fail_nomem(error);
    if (status == NS_OK) {
        status = set_hybrid_parameters(h, &h->file.parameters, path, v ? missing : NULL, error);
    }
    if (status == NS_OK && v) status = check_others(h, path, robot, missing, error);
    if (status == NS_OK && v) status = set_hybrid_parameters(h, &v->parameters, path, NULL, error);
    nsi_free(&h->allocator, missing);
    return status;
}

// "butter, hex"
static void list_hybrid_variants(const nsi_hybrid* file, char* out, size_t size) {
    size_t used = 0;
    *out = '\0';
    for (uint32_t k = 0; k < file->variants.count && used + 1 < size; k++) {
        int more = snprintf(out + used, size - used, "%s%.60s", k > 0 ? ", " : "",
                            file->variants.data[k].name);
        used += more > 0 ? (size_t)more : 0;
    }
}

// One of the variants of the file, if it has any.
static ns_status choose_variant(ns_hybrid* h, const char* path, const ns_load_options* options,
                                ns_error* error) {
    char names[200];
    if (h->file.variants.count == 0) {
        if (!options->variant) return NS_OK;
        return nsi_fail(error, NS_ERR_ARGUMENT, "%.200s has no variants: leave the name %.100s out",
                        path, options->variant);
    }
    list_hybrid_variants(&h->file, names, sizeof names);
    if (options->variant) {
        h->variant = nsi_hybrid_find_variant(&h->file, options->variant);
        if (h->variant) return NS_OK;
        return nsi_fail(error, NS_ERR_ARGUMENT, "%.200s has no variant %.100s, only %s", path,
                        options->variant, names);
    }
    if (options->recording) h->variant = nsi_hybrid_variant_of(&h->file, options->recording);
    if (h->variant) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT,
                    "%.200s has variants%s%.200s; choose one with the option variant: %s", path,
                    options->recording ? ", none for " : "",
                    options->recording ? options->recording : "", names);
}

static ns_status load_all(ns_hybrid* h, const char* path, ns_load_options robot, ns_error* error) {
    const char* robot_path = path;
    if (ns_hybrid_is_path(path)) {
        ns_status status = nsi_hybrid_read(path, &h->allocator, &h->file, error);
        if (status != NS_OK) return status;
        robot_path = h->file.robot;
    } else {
        nsi_hybrid_init(&h->allocator, &h->file);
    }
    ns_status status = choose_variant(h, path, &robot, error);
    if (status != NS_OK) return status;
    if (h->variant) robot_path = h->variant->robot;
    robot.allocator = &h->allocator;
    robot.ground = robot.ground || h->file.ground;
    robot.self_collision = robot.self_collision || h->file.self_collision;
    robot.floating_base = robot.floating_base || h->file.floating_base;
    status = ns_model_load(robot_path, &robot, &h->model, error);
    if (status == NS_OK) status = take_parameters(h, path, &robot, error);
    return status == NS_OK ? load_networks(h, error) : status;
}

ns_status ns_hybrid_load(const char* path, const ns_load_options* options, ns_hybrid** out,
                         ns_error* error) {
    if (out) *out = NULL;
    if (!path || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_hybrid_load: path or out is NULL");
    }
    ns_load_options robot = options ? *options : ns_default_load_options();
    ns_allocator allocator = robot.allocator ? *robot.allocator : ns_default_allocator();
    ns_hybrid* h = nsi_alloc_zeroed(&allocator, sizeof *h);
    if (!h) return nsi_fail_nomem(error);
    h->allocator = allocator;
    h->path = nsi_alloc(&allocator, strlen(path) + 1);
    if (!h->path) {
        ns_hybrid_free(h);
        return nsi_fail_nomem(error);
    }
    memcpy(h->path, path, strlen(path) + 1);
    ns_status status = load_all(h, path, robot, error);
    if (status != NS_OK) {
        ns_hybrid_free(h);
        return status;
    }
    *out = h;
    return NS_OK;
}

void ns_hybrid_free(ns_hybrid* hybrid) {
    if (!hybrid) return;
    ns_allocator allocator = hybrid->allocator;
    ns_blueprint_free(hybrid->blueprint);
    ns_model_free(hybrid->model);
    nsi_free(&allocator, hybrid->set);
    nsi_hybrid_free(&hybrid->file);
    nsi_free(&allocator, hybrid->path);
    nsi_free(&allocator, hybrid);
}

const ns_model* ns_hybrid_model(const ns_hybrid* hybrid) {
    return hybrid->model;
}

const char* ns_hybrid_variant(const ns_hybrid* hybrid) {
    return hybrid->variant ? hybrid->variant->name : NULL;
}

ns_blueprint* ns_hybrid_blueprint(const ns_hybrid* hybrid) {
    return hybrid->blueprint;
}

void ns_hybrid_apply(const ns_hybrid* hybrid, ns_system_options* options) {
    const nsi_hybrid* file = &hybrid->file;
    if (hybrid->nset > 0) {
        options->set = hybrid->set;
        options->nset = hybrid->nset;
    }
    if (hybrid->blueprint) options->blueprint = hybrid->blueprint;
    if (file->contact >= 0) options->contact = file->contact;
    if (file->integrator >= 0) options->integrator = file->integrator;
    if (file->timestep > 0.0) options->timestep = file->timestep;
}

bool ns_hybrid_is_learned(const ns_hybrid* hybrid) {
    return hybrid->file.learned != NULL;
}

ns_status ns_hybrid_create_learned(const ns_hybrid* hybrid, ns_system** out, ns_error* error) {
    const nsi_hybrid* file = &hybrid->file;
    *out = NULL;
    if (!file->learned) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "%.200s is no learned system", hybrid->path);
    }
    ns_error inner;
    ns_status status = nsi_learned_create(file->learned, hybrid->model, file->timestep, false,
                                          &hybrid->allocator, out, &inner);
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    if (status != NS_OK) {
        return nsi_fail(error, status, "%.150s: learned: %s", hybrid->path, inner.message);
    }
    if (!file->weights) return NS_OK;
    status = ns_system_load_weights(*out, file->weights, (*out)->weights, error);
    if (status == NS_OK) return NS_OK;
    ns_system_free(*out);
    *out = NULL;
    return status;
}
