// Systems: choose free parameters, trace the step, build its programs.

#include "sim/system.h"

#include "expr/block.h"

#include <math.h>
#include <stdio.h>

ns_system_options ns_default_system_options(void) {
    return (ns_system_options){.integrator = -1, .contact = -1, .backend = NS_BACKEND_AUTO};
}

static const char* nearest_param(const ns_model* model, const char* name) {
    uint32_t least = UINT32_MAX, best = 0;
    for (uint32_t i = 0; i < model->sizes.nparam; i++) {
        uint32_t distance = nsi_edit_distance(name, model->params[i].name);
        if (distance < least) least = distance, best = i;
    }
    return model->params[best].name;
}

// Which parameters fit the patterns?
static ns_status choose_free(const ns_model* model, const ns_system_options* options,
                             uint8_t* is_free, ns_error* error) {
    for (uint32_t p = 0; p < options->nfree; p++) {
        bool found = false;
        for (uint32_t i = 0; i < model->sizes.nparam; i++) {
            if (!ns_glob_match(options->free_params[p], model->params[i].name)) continue;
            is_free[i] = 1;
            found = true;
        }
        if (!found) {
            const char* nearest = nearest_param(model, options->free_params[p]);
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "no parameter of the model is called, or fits, \"%.100s\"; the nearest"
                            " is \"%.200s\"",
                            options->free_params[p], nearest);
        }
    }
    return NS_OK;
}

static ns_status trace(const ns_model* model, const ns_system_options* options, ns_system* system,
                       ns_error* error) {
    uint8_t* is_free = nsi_alloc_zeroed(&model->allocator, (size_t)model->sizes.nparam + 1);
    if (!is_free) return nsi_fail_nomem(error);
    nsi_step_options step = {
        .timestep = options->timestep > 0.0 ? options->timestep : model->world.timestep,
        .integrator =
            options->integrator < 0 ? model->world.integrator : (ns_integrator)options->integrator,
        .contact = {.model = options->contact,
                    .friction = options->friction == NS_FRICTION_PYRAMID ? NSI_FRICTION_PYRAMID
                                                                         : NSI_FRICTION_CONE,
                    .sweeps = options->contact_sweeps},
        .is_free = is_free,
        .all_quantities = options->nobserve > 0,
        .observe = options->observe,
        .nobserve = options->nobserve};
    // Impulses do not go with rk4: what the model's file says gives way, a choice made here does not.
    if (options->integrator < 0 && step.integrator == NS_INTEGRATOR_RK4 &&
        nsi_step_has_impulses(model, &step)) {
        step.integrator = NS_INTEGRATOR_EULER;
    }
    ns_status status = choose_free(model, options, is_free, error);
    if (status == NS_OK) status = nsi_step_trace(model, &step, &system->graph, error);

    uint32_t np = 0;
    for (uint32_t i = 0; i < model->sizes.nparam; i++) np += is_free[i];
    system->free_param = nsi_alloc(&model->allocator, ((size_t)np + 1) * sizeof(uint32_t));
    if (status == NS_OK && !system->free_param) status = nsi_fail_nomem(error);
    if (status == NS_OK && system->free_param) {
        for (uint32_t i = 0, k = 0; i < model->sizes.nparam; i++) {
            if (is_free[i]) system->free_param[k++] = i;
        }
        uint32_t nsolver = nsi_step_has_impulses(model, &step);
        system->nsolver = nsolver;
        uint32_t nx = model->sizes.nq + model->sizes.nv + nsi_model_motor_count(model);
        system->sizes = (ns_system_sizes){.nx = nx,
                                          .nc = model->sizes.nu + model->sizes.nv,
                                          .np = np,
                                          .ny = system->graph->outputs.count - nx - nsolver,
                                          .timestep = step.timestep,
                                          .integrator = step.integrator};
    }
    nsi_free(&model->allocator, is_free);
    return status;
}

static ns_status build_forms(const ns_graph* graph, ns_backend backend, ns_program** forms,
                             ns_error* error) {
    static const uint32_t lanes[NSI_FORMS] = {1, 4};
    ns_status status = NS_OK;
    for (int f = 0; f < NSI_FORMS && status == NS_OK; f++) {
        ns_program_options options = {.backend = backend, .lanes = lanes[f]};
        status = ns_program_build(graph, &options, &forms[f], error);
    }
    return status;
}

ns_status ns_system_create(const ns_model* model, const ns_system_options* options, ns_system** out,
                           ns_error* error) {
    *out = NULL;
    if (!model) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_system_create: the model is NULL");
    ns_system_options defaults = ns_default_system_options();
    if (!options) options = &defaults;
    if (!(options->timestep >= 0.0) || !isfinite(options->timestep)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.timestep is %g; it must be positive",
                        options->timestep);
    }
    if (options->integrator > (int)NS_INTEGRATOR_IMPLICIT) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.integrator is %d, which is none",
                        options->integrator);
    }
    if (options->contact < -1 || options->contact > (int)NS_CONTACT_SPRING) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.contact is %d, which is none",
                        options->contact);
    }
    if ((unsigned)options->friction > NS_FRICTION_PYRAMID) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.friction is %d, which is none",
                        (int)options->friction);
    }
    ns_system* system = nsi_alloc_zeroed(&model->allocator, sizeof *system);
    if (!system) return nsi_fail_nomem(error);
    system->allocator = model->allocator;
    system->model = model;
    ns_graph *forward = NULL, *reverse = NULL;
    ns_diff_options gradient = ns_default_diff_options();
    gradient.skip_value = true;
    ns_status status = trace(model, options, system, error);
    if (status == NS_OK) status = ns_graph_jvp(system->graph, NULL, &forward, error);
    if (status == NS_OK) status = ns_graph_vjp(system->graph, &gradient, &reverse, error);
    if (status == NS_OK) status = build_forms(system->graph, options->backend, system->step, error);
    if (status == NS_OK) status = build_forms(forward, options->backend, system->jvp, error);
    if (status == NS_OK) status = build_forms(reverse, options->backend, system->vjp, error);
    ns_graph_free(forward);
    ns_graph_free(reverse);
    if (status != NS_OK) {
        ns_system_free(system);
        return status;
    }
    *out = system;
    return NS_OK;
}

void ns_system_free(ns_system* system) {
    if (!system) return;
    ns_allocator memory = system->allocator;
    for (int f = 0; f < NSI_FORMS; f++) {
        ns_program_free(system->step[f]);
        ns_program_free(system->jvp[f]);
        ns_program_free(system->vjp[f]);
    }
    ns_graph_free(system->graph);
    nsi_free(&memory, system->free_param);
    nsi_free(&memory, system);
}

ns_system_sizes ns_system_get_sizes(const ns_system* system) {
    return system->sizes;
}
const ns_graph* ns_system_graph(const ns_system* system) {
    return system->graph;
}

const char* ns_system_state_name(const ns_system* s, uint32_t number) {
    return number < s->sizes.nx ? ns_graph_input_name(s->graph, number) : NULL;
}

const char* ns_system_control_name(const ns_system* s, uint32_t number) {
    return number < s->sizes.nc ? ns_graph_input_name(s->graph, s->sizes.nx + number) : NULL;
}

const char* ns_system_param_name(const ns_system* s, uint32_t number) {
    if (number >= s->sizes.np) return NULL;
    return ns_graph_input_name(s->graph, s->sizes.nx + s->sizes.nc + number);
}

const char* ns_system_observation_name(const ns_system* s, uint32_t number) {
    return number < s->sizes.ny ? ns_graph_output_name(s->graph, number) : NULL;
}

void ns_system_default_params(const ns_system* s, double* params) {
    for (uint32_t k = 0; k < s->sizes.np; k++) {
        params[k] = s->model->params[s->free_param[k]].value;
    }
}

// ---- what went wrong -----------------------------------------------------------------------

// A graph whose outputs are all numbers of the step's graph; map[i] is the output of node i.
static ns_graph* everything_graph(const ns_system* s, uint32_t* map) {
    ns_graph* g = NULL;
    nsi_id* nodes = NULL;
    if (nsi_graph_clone_ports(s->graph, &g, NULL) != NS_OK) return NULL;
    nodes = nsi_alloc(&s->allocator, ((size_t)s->graph->nodes.count + 1) * sizeof *nodes);
    if (nodes) nsi_graph_copy_nodes(s->graph, g, nodes);
    char name[32];
    bool copied = nodes && g->error.status == NS_OK;
    for (uint32_t i = 0; copied && i < s->graph->nodes.count; i++) {
        map[i] = NSI_NONE;
        if (nodes[i] == NSI_NONE || g->nodes.data[nodes[i]].op == NSI_BLOCK) continue;
        map[i] = g->outputs.count;
        snprintf(name, sizeof name, "%u", i);
        nsi_graph_output(g, name, nodes[i]);
    }
    nsi_free(&s->allocator, nodes);
    if (!nodes || g->error.status != NS_OK) {
        ns_graph_free(g);
        return NULL;
    }
    return g;
}

void nsi_system_diagnose(const ns_system* s, const double* in, char* text, size_t size) {
    snprintf(text, size, "the state is not finite");
    uint32_t count = s->graph->nodes.count;
    uint32_t* map = nsi_alloc(&s->allocator, ((size_t)count + 1) * sizeof *map);
    ns_graph* g = map ? everything_graph(s, map) : NULL;
    ns_program* program = NULL;
    ns_program_options options = {.backend = NS_BACKEND_INTERP, .lanes = 1};
    if (g && ns_program_build(g, &options, &program, NULL) == NS_OK) {
        double* out = nsi_alloc(&s->allocator, ((size_t)g->outputs.count + 1) * sizeof *out);
        void* work = nsi_alloc(&s->allocator, ns_program_work_size(program));
        if (out && work) {
            ns_program_run(program, &(ns_run){.in = in, .out = out, .work = work});
            const char *operation = NULL, *quantity = NULL;
            for (uint32_t i = 0; i < count && !operation; i++) {
                bool infinite_constant = s->graph->nodes.data[i].op == NSI_CONST;
                if (map[i] != NSI_NONE && !infinite_constant && !isfinite(out[map[i]])) {
                    operation = nsi_ops[s->graph->nodes.data[i].op].name;
                }
            }
            for (uint32_t k = 0; k < s->graph->quantities.count && !quantity; k++) {
                const nsi_port* port = &s->graph->quantities.data[k];
                if (map[port->node] != NSI_NONE && !isfinite(out[map[port->node]])) {
                    quantity = port->name;
                }
            }
            if (operation) {
                snprintf(text, size, "%s%.200s%sfirst in the operation \"%s\"",
                         quantity ? "quantity " : "", quantity ? quantity : "",
                         quantity ? " is not finite, " : "not finite, ", operation);
            }
        }
        nsi_free(&s->allocator, out);
        nsi_free(&s->allocator, work);
    }
    ns_program_free(program);
    ns_graph_free(g);
    nsi_free(&s->allocator, map);
}
