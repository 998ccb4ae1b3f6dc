// Systems: choose free parameters, trace the step, build its programs.

#include "sim/system.h"

#include "expr/block.h"
#include "neuralsim/tensors.h"
#include "sim/integrators.h"

#include <math.h>
#include <stdio.h>

static const ns_choice friction_rows[] = {NS_FRICTION_MAP(NS_CHOICE_ROW)};
const ns_choices ns_frictions = NS_CHOICES("friction", friction_rows);
static const ns_choice detection_rows[] = {NS_DETECTION_MAP(NS_CHOICE_ROW)};
const ns_choices ns_detections = NS_CHOICES("detection", detection_rows);

ns_system_options ns_default_system_options(void) {
    return (ns_system_options){.integrator = -1, .contact = -1, .backend = NS_BACKEND_AUTO};
}

static ns_status fail_no_param(const ns_model* model, const char* pattern, ns_error* error) {
    ns_nearest nearest = {.wanted = pattern};
    char hint[NS_HINT_SIZE];
    for (uint32_t i = 0; i < model->sizes.nparam; i++) {
        ns_nearest_offer(&nearest, model->params[i].name);
    }
    return nsi_fail(error, NS_ERR_ARGUMENT, "no parameter of the model matches \"%.100s\"%s",
                    pattern, ns_nearest_hint(&nearest, hint));
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
        if (!found) return fail_no_param(model, options->free_params[p], error);
    }
    return NS_OK;
}

ns_status nsi_set_params(const ns_model* model, const ns_param_value* set, double* values,
                         ns_error* error) {
    bool found = false;
    for (uint32_t i = 0; i < model->sizes.nparam; i++) {
        const ns_param* param = &model->params[i];
        if (!ns_glob_match(set->pattern, param->name)) continue;
        if (!(set->value >= param->lower && set->value <= param->upper)) {
            return nsi_fail(error, NS_ERR_ARGUMENT, "%s cannot be %g: it lies in %g to %g",
                            param->name, set->value, param->lower, param->upper);
        }
        if (values) values[i] = set->value;
        found = true;
    }
    return found ? NS_OK : fail_no_param(model, set->pattern, error);
}

// Values of all parameters: the model's, and those that are set.
static ns_status choose_param_values(const ns_model* model, const ns_system_options* options,
                                     double* values, ns_error* error) {
    ns_status status = NS_OK;
    for (uint32_t i = 0; i < model->sizes.nparam; i++) values[i] = model->params[i].value;
    for (uint32_t p = 0; p < options->nset && status == NS_OK; p++) {
        status = nsi_set_params(model, &options->set[p], values, error);
    }
    return status;
}

ns_status nsi_system_alloc_weights(ns_system* system, uint32_t narray, uint32_t nmatrix,
                                   uint32_t nw, ns_error* error) {
    const ns_allocator* memory = &system->allocator;
    system->arrays = nsi_alloc_zeroed(memory, (size_t)narray * sizeof *system->arrays);
    system->matrices = nsi_alloc_zeroed(memory, (size_t)nmatrix * sizeof *system->matrices);
    system->weights = nsi_alloc_zeroed(memory, (size_t)nw * sizeof *system->weights);
    if (!system->arrays || !system->matrices || !system->weights) return nsi_fail_nomem(error);
    system->narray = narray;
    system->nmatrix = nmatrix;
    return NS_OK;
}

// Tell where the binding has its sets and their layers.
static ns_status list_weights(const nsi_binding* binding, ns_system* system, ns_error* error) {
    nsi_layer layers[NSI_MAX_LAYERS];
    uint32_t nmatrix = 0, m = 0;
    for (uint32_t k = 0; k < binding->nset; k++) nmatrix += nsi_binding_layers(binding, k, layers);
    ns_status status =
        nsi_system_alloc_weights(system, binding->nset, nmatrix, binding->nweight, error);
    for (uint32_t k = 0; k < binding->nset && status == NS_OK; k++) {
        const nsi_binding_set* set = &binding->sets[k];
        system->arrays[k] = (nsi_weight_array){set->name, set->offset, set->count};
        uint32_t nlayer = nsi_binding_layers(binding, k, layers);
        for (uint32_t i = 0; i < nlayer; i++) {
            system->matrices[m++] = (ns_weight_matrix){.set = set->name,
                                                       .layer = i,
                                                       .offset = set->offset + layers[i].offset,
                                                       .rows = layers[i].rows,
                                                       .columns = layers[i].columns,
                                                       .bias = layers[i].bias,
                                                       .formula = nsi_binding_formula(binding, k)};
        }
    }
    return status;
}

// Expand the blueprint on what the step has, and lay out its weights.
static ns_status make_binding(const ns_model* model, const ns_blueprint* blueprint,
                              const nsi_step_options* step, ns_system* system, ns_error* error) {
    nsi_quantity_list list;
    ns_status status = nsi_step_quantities(model, step, &list, error);
    if (status != NS_OK) return status;
    nsi_binding_quantities quantities = {.count = list.count,
                                         .names = list.names,
                                         .affects_state = list.affects_state,
                                         .conjugate = list.conjugate,
                                         .spatial = list.spatial,
                                         .is_diagnostic = list.is_diagnostic,
                                         .is_state = list.is_state,
                                         .causality = &list.causality};
    status = nsi_binding_create(blueprint, &quantities, &model->allocator, &system->binding, error);
    nsi_quantity_list_free(&list);
    if (status == NS_OK) status = list_weights(system->binding, system, error);
    if (status != NS_OK) return status;
    return nsi_binding_weights(system->binding, system->weights, error);
}

nsi_step_options nsi_system_step_options(const ns_model* model, const ns_system_options* options) {
    nsi_step_options step = {
        .timestep = options->timestep > 0.0 ? options->timestep : model->world.timestep,
        .integrator =
            options->integrator < 0 ? model->world.integrator : (ns_integrator)options->integrator,
        .contact = {.model = options->contact,
                    .friction = options->friction == NS_FRICTION_PYRAMID ? NSI_FRICTION_PYRAMID
                                                                         : NSI_FRICTION_CONE,
                    .detection = (nsi_detection)options->detection,
                    .sweeps = options->contact_sweeps}};
    // Rigid contact needs an integrator that supports it: what the model's file says gives way, a
    // choice made here does not.
    if (options->integrator < 0 && !nsi_integrator_has(step.integrator, NSI_RIGID_CONTACT) &&
        nsi_step_has_impulses(model, &step)) {
        step.integrator = nsi_integrator_with(NSI_RIGID_CONTACT);
    }
    return step;
}

static ns_status trace_model_step(const ns_model* model, const ns_system_options* options,
                                  const uint8_t* is_free, ns_system* system, ns_error* error) {
    nsi_step_options step = nsi_system_step_options(model, options);
    step.params = system->params;
    step.is_free = is_free;
    step.all_quantities = options->nobserve > 0;
    step.observe = options->observe;
    step.nobserve = options->nobserve;

    // Networks and formulas, matched to the quantities of this step.
    ns_status status = NS_OK;
    if (ns_blueprint_network_count(options->blueprint) > 0 ||
        ns_blueprint_formula_count(options->blueprint) > 0) {
        status = make_binding(model, options->blueprint, &step, system, error);
        step.binding = system->binding;
    }

    if (status == NS_OK) status = nsi_step_trace(model, &step, &system->graph, error);
    if (status != NS_OK) return status;

    // Sizes follow from the ports of the graph: observations are the outputs that are neither state
    // nor the solver's residual.
    uint32_t nx = model->sizes.nq + model->sizes.nv + nsi_model_actuator_states(model);
    uint32_t nmemory = system->binding ? nsi_binding_memory_count(system->binding) : 0;
    nx += nmemory;
    system->nsolver = nsi_step_has_impulses(model, &step) ? 2 : 0;
    system->sizes = (ns_system_sizes){.nx = nx,
                                      .nmemory = nmemory,
                                      .nc = model->sizes.nu + model->sizes.nv,
                                      .nw = system->binding ? system->binding->nweight : 0,
                                      .ny = system->graph->outputs.count - nx - system->nsolver,
                                      .timestep = step.timestep,
                                      .integrator = step.integrator};
    return NS_OK;
}

static ns_status trace_system(const ns_model* model, const ns_system_options* options,
                              const double* values, ns_system* system, ns_error* error) {
    uint32_t nparam = model->sizes.nparam, np = 0;
    uint8_t* is_free = nsi_alloc_zeroed(&model->allocator, (size_t)nparam + 1);
    system->params = nsi_alloc(&model->allocator, ((size_t)nparam + 1) * sizeof(double));
    system->free_param = nsi_alloc(&model->allocator, ((size_t)nparam + 1) * sizeof(uint32_t));
    ns_status status =
        is_free && system->params && system->free_param ? NS_OK : nsi_fail_nomem(error);
    if (status == NS_OK && values) memcpy(system->params, values, nparam * sizeof *values);
    if (status == NS_OK && !values)
        status = choose_param_values(model, options, system->params, error);
    if (status == NS_OK) status = choose_free(model, options, is_free, error);
    if (status == NS_OK) status = trace_model_step(model, options, is_free, system, error);
    for (uint32_t i = 0; status == NS_OK && i < nparam; i++) {
        if (is_free[i]) system->free_param[np++] = i;
    }
    system->sizes.np = np;
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

ns_status nsi_system_build(ns_system* system, ns_backend backend, ns_error* error) {
    ns_graph *forward = NULL, *reverse = NULL;
    ns_diff_options gradient = ns_default_diff_options();
    gradient.skip_value = true;
    ns_status status = ns_graph_jvp(system->graph, NULL, &forward, error);
    if (status == NS_OK) status = ns_graph_vjp(system->graph, &gradient, &reverse, error);
    if (status == NS_OK) status = build_forms(system->graph, backend, system->step, error);
    if (status == NS_OK) status = build_forms(forward, backend, system->jvp, error);
    if (status == NS_OK) status = build_forms(reverse, backend, system->vjp, error);
    ns_graph_free(forward);
    ns_graph_free(reverse);
    return status;
}

ns_status ns_system_build_hvp(ns_system* system, ns_error* error) {
    if (!system) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_system_build_hvp: the system is NULL");
    if (system->hvp[0]) return NS_OK;

    // The tangent of the reverse derivative.
    ns_graph *reverse = NULL, *tangent = NULL;
    ns_diff_options gradient = ns_default_diff_options();
    gradient.skip_value = true;
    ns_status status = ns_graph_vjp(system->graph, &gradient, &reverse, error);
    if (status == NS_OK) status = ns_graph_jvp(reverse, NULL, &tangent, error);
    ns_backend backend = ns_program_get_info(system->step[0]).backend;
    if (status == NS_OK) status = build_forms(tangent, backend, system->hvp, error);
    ns_graph_free(reverse);
    ns_graph_free(tangent);
    for (int f = 0; f < NSI_FORMS && status != NS_OK; f++) {
        ns_program_free(system->hvp[f]);
        system->hvp[f] = NULL;
    }
    return status;
}

ns_status nsi_system_check_options(const ns_system_options* options, ns_error* error) {
    if (!(options->timestep >= 0.0) || !isfinite(options->timestep)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.timestep is %g; it must be positive",
                        options->timestep);
    }
    if (options->integrator >= 0 && !ns_choice_has(&ns_integrators, options->integrator)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.integrator is %d, which is none",
                        options->integrator);
    }
    if (options->contact != -1 && !ns_contact_law_get(options->contact)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.contact is %d, which is no contact law",
                        options->contact);
    }
    if (!ns_choice_has(&ns_detections, (int)options->detection)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.detection is %d, which is none",
                        (int)options->detection);
    }
    if (!ns_choice_has(&ns_frictions, (int)options->friction)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.friction is %d, which is none",
                        (int)options->friction);
    }
    return NS_OK;
}

// @param values  (nparam) of all parameters instead of the model's and `set`, or NULL
static ns_status create_system(const ns_model* model, const ns_system_options* options,
                               const double* values, ns_system** out, ns_error* error) {
    ns_system* system = nsi_alloc_zeroed(&model->allocator, sizeof *system);
    if (!system) return nsi_fail_nomem(error);
    system->allocator = model->allocator;
    system->model = model;

    // What the options point to may go afterwards, except for the blueprint
    system->options = *options;
    system->options.free_params = system->options.observe = NULL;
    system->options.set = NULL;
    system->options.nfree = system->options.nset = system->options.nobserve = 0;

    ns_status status = trace_system(model, options, values, system, error);
    if (status == NS_OK) status = nsi_system_build(system, options->backend, error);
    if (status != NS_OK) {
        ns_system_free(system);
        return status;
    }
    *out = system;
    return NS_OK;
}

ns_status ns_system_create(const ns_model* model, const ns_system_options* options, ns_system** out,
                           ns_error* error) {
    *out = NULL;
    if (!model) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_system_create: the model is NULL");
    ns_system_options defaults = ns_default_system_options();
    if (!options) options = &defaults;
    ns_status status = nsi_system_check_options(options, error);
    return status == NS_OK ? create_system(model, options, NULL, out, error) : status;
}

ns_status nsi_system_create_like(const ns_system* system, const ns_system_options* options,
                                 ns_system** out, ns_error* error) {
    ns_system_options chosen = *options;
    chosen.nset = 0;
    *out = NULL;
    return create_system(system->model, &chosen, system->params, out, error);
}

void ns_system_free(ns_system* system) {
    if (!system) return;
    ns_allocator memory = system->allocator;
    for (int f = 0; f < NSI_FORMS; f++) {
        ns_program_free(system->step[f]);
        ns_program_free(system->jvp[f]);
        ns_program_free(system->vjp[f]);
        ns_program_free(system->hvp[f]);
    }
    ns_graph_free(system->graph);
    nsi_binding_free(system->binding);
    nsi_free(&memory, system->arrays);
    nsi_free(&memory, system->matrices);
    nsi_free(&memory, system->weights);
    nsi_free(&memory, system->params);
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

const char* ns_system_observation_target(const ns_system* s, uint32_t number, ns_augment* mode) {
    if (!s->binding || number >= s->sizes.ny) return NULL;
    const char* name = s->graph->outputs.data[number].name;
    uint32_t output, use = nsi_augmented_find(s->binding, name, &output);
    if (use == NSI_NONE) return NULL;
    const nsi_network_instance* instance = &s->binding->instances[use];
    if (mode) *mode = instance->mode;
    return instance->outputs[output];
}

const char* ns_system_observation_unit(const ns_system* s, uint32_t number) {
    return number < s->sizes.ny ? s->graph->outputs.data[number].unit : NULL;
}

void ns_system_default_params(const ns_system* s, double* params) {
    for (uint32_t k = 0; k < s->sizes.np; k++) {
        params[k] = s->params[s->free_param[k]];
    }
}

void ns_system_default_weights(const ns_system* s, double* weights) {
    if (s->sizes.nw > 0) memcpy(weights, s->weights, s->sizes.nw * sizeof *weights);
}

uint32_t ns_system_weight_matrix_count(const ns_system* s) {
    return s->nmatrix;
}

ns_weight_matrix ns_system_weight_matrix(const ns_system* s, uint32_t number) {
    return number < s->nmatrix ? s->matrices[number] : (ns_weight_matrix){0};
}

// The tensor of a matrix, "<set>/w<k>"; NULL after saying what is wrong.
static const ns_tensor* find_weight_tensor(const ns_tensors* tensors, const ns_weight_matrix* m,
                                           const char* path, ns_error* error) {
    char name[1200];
    snprintf(name, sizeof name, "%.1100s/w%u", m->set, m->layer);
    for (uint32_t k = 0; k < tensors->count; k++) {
        const ns_tensor* t = &tensors->data[k];
        if (strcmp(t->name, name) != 0) continue;
        if (t->rows == m->rows && t->columns == m->columns) return t;
        nsi_fail(error, NS_ERR_ARGUMENT, "%.200s: \"%.200s\" is %u x %u, and not %u x %u", path,
                 name, t->rows, t->columns, m->rows, m->columns);
        return NULL;
    }
    nsi_fail(error, NS_ERR_ARGUMENT, "%.200s: \"%.200s\" (%u x %u) is missing", path, name, m->rows,
             m->columns);
    return NULL;
}

ns_status ns_system_load_weights(const ns_system* s, const char* path, double* weights,
                                 ns_error* error) {
    if (!s || !path || !weights) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_system_load_weights: an argument is NULL");
    }
    ns_tensors tensors;
    ns_status status = ns_tensors_read(path, &s->allocator, &tensors, error);
    uint32_t count = ns_system_weight_matrix_count(s);
    if (status == NS_OK && tensors.count != count) {
        status = nsi_fail(error, NS_ERR_ARGUMENT, "%.200s has %u matrices, and not %u", path,
                          tensors.count, count);
    }
    for (int copying = 0; copying < 2; copying++) { // look at all of them first
        for (uint32_t k = 0; k < count && status == NS_OK; k++) {
            ns_weight_matrix m = ns_system_weight_matrix(s, k);
            const ns_tensor* t = find_weight_tensor(&tensors, &m, path, error);
            if (!t) {
                status = NS_ERR_ARGUMENT;
            } else if (copying) {
                memcpy(weights + m.offset, t->data, (size_t)m.rows * m.columns * sizeof *weights);
            }
        }
    }
    ns_tensors_free(&tensors);
    return status;
}

ns_status ns_system_save_weights(const ns_system* s, const double* weights, const char* path,
                                 ns_error* error) {
    if (!s || !path) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_system_save_weights: system or path is NULL");
    }
    uint32_t count = ns_system_weight_matrix_count(s);
    if (count == 0) {
        return nsi_fail(
            error, NS_ERR_ARGUMENT,
            "ns_system_save_weights: the system has no networks or coefficients, and so no"
            " weights");
    }

    // Without weights the initial ones are written.
    if (!weights) weights = s->weights;

    // One tensor for each matrix, "<set>/w<layer>".
    nsi_arena arena = {.allocator = s->allocator};
    ns_tensor* tensors = nsi_arena_alloc(&arena, count * sizeof *tensors);
    ns_status status = tensors ? NS_OK : nsi_fail_nomem(error);
    for (uint32_t k = 0; k < count && status == NS_OK; k++) {
        ns_weight_matrix m = ns_system_weight_matrix(s, k);
        size_t size = strlen(m.set) + 16;
        char* name = nsi_arena_alloc(&arena, size);
        if (!name) {
            status = nsi_fail_nomem(error);
            break;
        }
        snprintf(name, size, "%s/w%u", m.set, m.layer);
        tensors[k] = (ns_tensor){name, m.rows, m.columns, weights + m.offset};
    }

    if (status == NS_OK) {
        status = ns_tensors_write(path, tensors, count, false, &s->allocator, error);
    }
    nsi_arena_free(&arena);
    return status;
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

void nsi_system_diagnose(const ns_system* s, const double* in, const double* const* arrays,
                         char* text, size_t size) {
    snprintf(text, size, "the state is not finite");

    // Every node of the step as an output, run once more from the inputs that failed.
    uint32_t count = s->graph->nodes.count;
    uint32_t* map = nsi_alloc(&s->allocator, ((size_t)count + 1) * sizeof *map);
    ns_graph* g = map ? everything_graph(s, map) : NULL;
    ns_program* program = NULL;
    ns_program_options options = {.backend = NS_BACKEND_INTERP, .lanes = 1};
    if (g && ns_program_build(g, &options, &program, NULL) == NS_OK) {
        double* out = nsi_alloc(&s->allocator, ((size_t)g->outputs.count + 1) * sizeof *out);
        void* work = nsi_alloc(&s->allocator, ns_program_work_size(program));
        if (out && work) {
            ns_program_run(program,
                           &(ns_run){.in = in, .out = out, .arrays = arrays, .work = work});

            // The first operation that was not finite, then the first named quantity.
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
