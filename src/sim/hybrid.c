// Hybrid models: the files that one of them names, loaded.

#include "neuralsim/hybrid.h"

#include "io/hybrid.h"
#include "sim/learned_model.h"
#include "sim/system.h"

struct ns_hybrid {
    ns_allocator allocator;
    char* path;
    nsi_hybrid file;
    ns_model* model;
    ns_blueprint* blueprint; // or NULL
    ns_param_value* set;     // (file.parameters.count)
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

// Are the parameters such as the robot has? A fault is told with its place: it is the file's.
static ns_status check_parameters(const ns_hybrid* h, const char* path, ns_error* error) {
    for (uint32_t k = 0; k < h->file.parameters.count; k++) {
        const nsi_hybrid_parameter* parameter = &h->file.parameters.data[k];
        ns_error inner;
        if (nsi_set_params(h->model, &h->set[k], NULL, &inner) == NS_OK) continue;
        return nsi_fail(error, NS_ERR_PARSE, "%.150s:%u:%u: parameters: %s", path, parameter->line,
                        parameter->column, inner.message);
    }
    return NS_OK;
}

static ns_status load_all(ns_hybrid* h, const char* path, ns_load_options robot, ns_error* error) {
    const char* robot_path = path;
    if (nsi_is_hybrid_path(path)) {
        ns_status status = nsi_hybrid_read(path, &h->allocator, &h->file, error);
        if (status != NS_OK) return status;
        robot_path = h->file.robot;
    } else {
        nsi_hybrid_init(&h->allocator, &h->file);
    }
    uint32_t count = h->file.parameters.count;
    h->set = nsi_alloc(&h->allocator, ((size_t)count + 1) * sizeof *h->set);
    if (!h->set) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < count; k++) {
        const nsi_hybrid_parameter* parameter = &h->file.parameters.data[k];
        h->set[k] = (ns_param_value){parameter->pattern, parameter->value};
    }
    robot.allocator = &h->allocator;
    robot.ground = robot.ground || h->file.ground;
    robot.self_collision = robot.self_collision || h->file.self_collision;
    ns_status status = ns_model_load(robot_path, &robot, &h->model, error);
    if (status == NS_OK) status = check_parameters(h, path, error);
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

ns_blueprint* ns_hybrid_blueprint(const ns_hybrid* hybrid) {
    return hybrid->blueprint;
}

void ns_hybrid_apply(const ns_hybrid* hybrid, ns_system_options* options) {
    const nsi_hybrid* file = &hybrid->file;
    if (file->parameters.count > 0) {
        options->set = hybrid->set;
        options->nset = file->parameters.count;
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
