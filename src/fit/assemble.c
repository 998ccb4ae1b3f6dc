// Putting an experiment together, and checking that its parts fit.

#include "data/map.h"
#include "fit/fit_state.h"
#include "io/file.h"
#include "nn/blueprint_data.h"
#include "sim/learned_model.h"
#include "sysid/stage_solver.h"

#include <math.h>
#include <stdio.h>

// A failure at an entry of the plan: its message begins with the place.
static ns_status fail_at(const ns_fit* f, const nsi_yaml_node* node, ns_status status,
                         const char* what, ns_error* error) {
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    if (!node) node = f->plan->yaml.root;
    return nsi_fail(error, status, "%.200s:%u:%u: %s", node->source->file, node->line, node->column,
                    what);
}

static const nsi_yaml_node* entry(const ns_fit* f, const char* key) {
    return nsi_yaml_find(f->plan->yaml.root, key);
}

// The path of a file that the plan names at `node`; it must be there.
static ns_status find_file(ns_fit* f, const nsi_yaml_node* node, const char** path,
                           ns_error* error) {
    nsi_schema_reader r = {.yaml = &f->plan->yaml, .arena = &f->plan->yaml.arena, .error = error};
    ns_status status = nsi_schema_path(&r, node, path);
    if (status != NS_OK) return status;
    *path = nsi_fit_spec_path(f->plan, *path);
    if (!*path) return nsi_fail_nomem(error);
    if (nsi_file_exists(*path)) return NS_OK;
    char what[600];
    snprintf(what, sizeof what, "there is no file %.500s", *path);
    return fail_at(f, node, NS_ERR_IO, what, error);
}

static ns_status change_plan(ns_fit* f, const nsi_fit_changes* c, ns_error* error) {
    nsi_fit_spec* p = f->plan;
    p->seed += c->seed;
    p->data_root = c->data;
    p->data_made = c->made;
    if (p->learned) p->learned->seed += c->seed;
    for (uint32_t k = 0; k < p->stages.count && c->iterations > 0; k++) {
        uint32_t* iterations = &p->stages.data[k].iterations;
        if (*iterations > c->iterations) *iterations = c->iterations;
    }
    ns_status status = nsi_fit_spec_expand(p, error);
    if (status == NS_OK) status = nsi_fit_spec_choose(p, c->trajectories, c->block, error);
    if (status == NS_OK && c->folds > 0) status = nsi_fit_spec_fold(p, c->folds, c->fold, error);
    return status;
}

// Networks without weights of their own start from others.
static ns_status change_weights(ns_fit* f, const nsi_fit_changes* c, ns_error* error) {
    const ns_blueprint* b = f->options.blueprint;
    for (uint32_t k = 0; b && k < b->networks.count; k++) {
        b->networks.data[k].def.seed += c->seed;
    }
    if (!c->weights) return NS_OK;
    if (!f->blueprint) {
        return fail_at(f, NULL, NS_ERR_UNSUPPORTED,
                       "there is no `blueprint` whose weights could come from another fit", error);
    }
    return ns_blueprint_load_weights(f->blueprint, c->weights, error);
}

// The variants of a hybrid model that has some.
static ns_status list_file_variants(ns_fit* f, const char* path, ns_error* error) {
    nsi_hybrid file = {0};
    nsi_arena* arena = &f->plan->yaml.arena;
    ns_status status = nsi_hybrid_read(path, &f->allocator, &file, error);
    uint32_t count = status == NS_OK ? file.variants.count : 0;
    if (count > 0) {
        f->variants = nsi_alloc_zeroed(&f->allocator, count * sizeof *f->variants);
        if (!f->variants) status = nsi_fail_nomem(error);
    }
    for (uint32_t k = 0; k < count && status == NS_OK; k++) {
        const nsi_hybrid_variant* v = &file.variants.data[k];
        const char *name = nsi_arena_string(arena, v->name, strlen(v->name)),
                   *files = nsi_arena_string(arena, v->files, strlen(v->files));
        f->variants[f->nvariant++] = (nsi_fit_variant){.name = name, .files = files};
        if (!name || !files) status = nsi_fail_nomem(error);
    }
    nsi_hybrid_free(&file);
    return status;
}

// Which robots there are: of the plan, of its hybrid model, or one.
static ns_status list_variants(ns_fit* f, const char** model, ns_error* error) {
    nsi_fit_spec* p = f->plan;
    ns_status status = NS_OK;
    if (p->model) status = find_file(f, entry(f, "model"), model, error);
    if (status == NS_OK && p->model && ns_hybrid_is_path(*model)) {
        status = list_file_variants(f, *model, error);
    }
    if (status != NS_OK || f->nvariant > 0) return status;
    uint32_t count = p->model ? 1 : p->variants.count;
    f->variants = nsi_alloc_zeroed(&f->allocator, count * sizeof *f->variants);
    if (!f->variants) return nsi_fail_nomem(error);
    f->nvariant = count;
    for (uint32_t k = 0; k < count && !p->model && status == NS_OK; k++) {
        const nsi_fit_spec_variant* v = &p->variants.data[k];
        f->variants[k] = (nsi_fit_variant){.name = v->name, .files = v->files};
        status = find_file(f, nsi_yaml_find(v->node, "model"), &f->variants[k].robot, error);
    }
    return status;
}

static ns_status load_variant(ns_fit* f, nsi_fit_variant* v, const char* model, ns_error* error) {
    nsi_fit_spec* p = f->plan;
    ns_load_options load = ns_default_load_options();
    load.ground = p->ground;
    load.self_collision = p->self_collision;
    load.variant = model ? v->name : NULL;
    ns_status status = ns_hybrid_load(model ? model : v->robot, &load, &v->hybrid, error);
    if (status != NS_OK) return status;
    v->options = ns_default_system_options();
    ns_hybrid_apply(v->hybrid, &v->options);
    if (p->contact >= 0) v->options.contact = p->contact;
    if (p->integrator >= 0) v->options.integrator = p->integrator;
    return NS_OK;
}

static ns_status load_models(ns_fit* f, ns_error* error) {
    nsi_fit_spec* p = f->plan;
    const char *model = NULL, *path;
    ns_status status = list_variants(f, &model, error);
    for (uint32_t k = 0; k < f->nvariant && status == NS_OK; k++) {
        status = load_variant(f, &f->variants[k], model, error);
    }
    if (status != NS_OK) return status;
    f->hybrid = f->variants[0].hybrid;
    if (ns_hybrid_is_learned(f->hybrid)) {
        return fail_at(
            f, entry(f, "model"), NS_ERR_UNSUPPORTED,
            "this is a learned system; name the robot's own file, and describe the network"
            " under `learned`",
            error);
    }
    if (p->learned && (f->variants[0].name || ns_hybrid_blueprint(f->hybrid))) {
        return fail_at(f, entry(f, "model"), NS_ERR_UNSUPPORTED,
                       f->variants[0].name
                           ? "the model has variants, which `learned` does not go with; name a"
                             " robot's own file"
                           : "the model has networks of a blueprint, which `learned` does not go"
                             " with; name the robot's own file",
                       error);
    }
    if (p->blueprint) {
        status = find_file(f, entry(f, "blueprint"), &path, error);
        if (status == NS_OK) status = ns_blueprint_load(path, &f->allocator, &f->blueprint, error);
        if (status == NS_OK && p->weights) {
            status = find_file(f, entry(f, "weights"), &path, error);
            if (status == NS_OK) status = ns_blueprint_load_weights(f->blueprint, path, error);
        }
        f->variants[0].options.blueprint = f->blueprint;
    }
    // Networks are shared: what is changed in them is changed for all.
    for (uint32_t k = 1; k < f->nvariant; k++) {
        f->variants[k].options.blueprint = f->variants[0].options.blueprint;
    }
    f->options = f->variants[0].options;
    return status;
}

// To which variant does a file of recordings belong?
static ns_status check_file(const ns_fit* f, const nsi_fit_spec_file* file, const char* path,
                            ns_error* error) {
    char what[300];
    for (uint32_t k = 0; k < f->nvariant; k++) {
        const char* files = f->variants[k].files;
        if (!files || nsi_variant_has_file(files, path)) return NS_OK;
    }
    snprintf(what, sizeof what, "%.150s belongs to no variant: none of their `files` fits its name",
             file->path);
    return fail_at(f, file->node, NS_ERR_PARSE, what, error);
}

static ns_status load_data(ns_fit* f, ns_error* error) {
    nsi_fit_spec* p = f->plan;
    const ns_model* model = ns_hybrid_model(f->hybrid);
    const char* path = NULL;
    ns_status status = nsi_fit_spec_data_path(p, &p->files[NSI_ROLE_TRAIN].data[0], &path, error);
    if (status != NS_OK) return status;
    if (p->map) {
        status = find_file(f, nsi_yaml_find(entry(f, "data"), "map"), &path, error);
        if (status == NS_OK) status = ns_data_map_load(path, &f->allocator, &f->map, error);
    } else {
        status = ns_data_map_infer(path, model, &f->allocator, &f->map, error);
    }
    double period = p->period;
    for (int role = 0; status == NS_OK && role < NSI_ROLES; role++) {
        if (p->files[role].count == 0) continue;
        status = ns_dataset_create(f->map, period, &f->allocator, &f->data[role], error);
        for (uint32_t k = 0; status == NS_OK && k < p->files[role].count; k++) {
            const nsi_fit_spec_file* file = &p->files[role].data[k];
            status = nsi_fit_spec_data_path(p, file, &path, error);
            if (status == NS_OK) status = check_file(f, file, path, error);
            if (status == NS_OK) {
                status = ns_dataset_add(f->data[role], path, &file->part, error);
            }
        }
        if (status == NS_OK) period = ns_dataset_period(f->data[role]);
    }
    if (status == NS_OK && p->noise > 0.0) {
        nsi_dataset_add_noise(f->data[NSI_ROLE_TRAIN], p->noise, p->seed);
    }
    return status;
}

static ns_status make_learned_system(ns_fit* f, ns_error* error) {
    ns_error inner;
    ns_status status = nsi_fit_prepare_learned(f, &inner);
    if (status == NS_OK) {
        status = nsi_learned_create(f->plan->learned, ns_hybrid_model(f->hybrid), f->timestep,
                                    false, &f->allocator, &f->system, &inner);
    }
    // Names of channels and controls are the data's; all else is the network's.
    const nsi_yaml_node* node = entry(f, status == NS_ERR_PARSE ? "data" : "learned");
    if (status == NS_ERR_ARGUMENT) status = NS_ERR_PARSE; // what is wrong stands in the file
    return status == NS_OK ? NS_OK : fail_at(f, node, status, inner.message, error);
}

// The system of a variant. Its options say what it was made with, for those who make others.
static ns_status make_robot_system(ns_fit* f, uint32_t number, ns_error* error) {
    nsi_fit_variant* v = &f->variants[number];
    ns_error inner;
    ns_status status = nsi_problem_make_system(f->variables, number, f->timestep,
                                               f->data[NSI_ROLE_TRAIN], &v->system, &inner);
    v->options.free_params = nsi_parameters_param_names(f->variables, number);
    v->options.nfree = nsi_parameters_param_count(f->variables, number);
    if (status == NS_OK) return NS_OK;
    // Names of channels are the data's; what a system refuses is told without a place.
    if (status == NS_ERR_PARSE) return fail_at(f, entry(f, "data"), status, inner.message, error);
    return nsi_fail(error, status, "%s", inner.message);
}

// Variants as a problem knows them; to be freed.
static nsi_variant* make_variants(const ns_fit* f) {
    nsi_variant* variants = nsi_alloc(&f->allocator, f->nvariant * sizeof *variants);
    for (uint32_t k = 0; variants && k < f->nvariant; k++) {
        const nsi_fit_variant* v = &f->variants[k];
        const ns_system* system = k == 0 ? f->system : v->system;
        variants[k] = (nsi_variant){v->name, v->files, ns_hybrid_model(v->hybrid), system};
    }
    return variants;
}

static ns_status check_variants(const ns_fit* f, ns_error* error) {
    nsi_variant* variants = make_variants(f);
    ns_error inner;
    if (!variants) return nsi_fail_nomem(error);
    ns_status status = nsi_variants_check(variants, f->nvariant, &inner);
    nsi_free(&f->allocator, variants);
    const nsi_yaml_node* node = entry(f, f->plan->model ? "model" : "variants");
    return status == NS_OK ? NS_OK : fail_at(f, node, status, inner.message, error);
}

static ns_status make_robot_systems(ns_fit* f, ns_error* error) {
    ns_status status = check_variants(f, error); // of their joints: channels may be named by them
    for (uint32_t k = 0; k < f->nvariant && status == NS_OK; k++) {
        status = make_robot_system(f, k, error);
    }
    f->system = f->variants[0].system;
    f->options = f->variants[0].options;
    return status == NS_OK ? check_variants(f, error) : status;
}

static ns_status make_variables(ns_fit* f, ns_error* error) {
    const nsi_fit_spec* p = f->plan;
    ns_variant* models = nsi_alloc(&f->allocator, f->nvariant * sizeof *models);
    if (!models) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < f->nvariant; k++) {
        const nsi_fit_variant* v = &f->variants[k];
        models[k] = (ns_variant){v->name, v->files, ns_hybrid_model(v->hybrid), &v->options};
    }
    ns_status status = nsi_parameters_read(models, f->nvariant, p->path, p->parameters.data,
                                           p->parameters.count, p->settings.data, p->settings.count,
                                           &f->allocator, &f->variables, error);
    nsi_free(&f->allocator, models);
    return status;
}

static ns_status make_problem(ns_fit* f, ns_error* error) {
    nsi_variant* variants = make_variants(f);
    if (!variants) return nsi_fail_nomem(error);
    ns_status status =
        nsi_problem_create_shared(variants, f->nvariant, f->variables, f->data[NSI_ROLE_TRAIN],
                                  &f->allocator, &f->problem, error);
    nsi_free(&f->allocator, variants);
    return status;
}

static ns_status make_system(ns_fit* f, ns_error* error) {
    nsi_fit_spec* p = f->plan;
    ns_status status = make_variables(f, error);
    if (status == NS_OK) {
        status = p->learned ? make_learned_system(f, error) : make_robot_systems(f, error);
    }
    if (status != NS_OK) return status;
    ns_error inner;
    status = make_problem(f, &inner);
    if (status == NS_OK && p->learned) status = nsi_fit_make_teacher(f, &inner);
    const nsi_yaml_node* node = entry(f, p->timestep > 0.0 ? "timestep" : "data");
    return status == NS_OK ? NS_OK : fail_at(f, node, status, inner.message, error);
}

// What the work would only find out on its way: that a stage has no windows, that a search does not
// know where, that a prediction has nothing to predict.
static ns_status check_stage(ns_fit* f, const nsi_stage* stage, const nsi_yaml_node* node,
                             ns_error* error) {
    nsi_windows windows = {0};
    ns_error inner;
    const nsi_problem* problem = nsi_fit_problem(f, stage);
    ns_status status = nsi_stage_solver_check(problem, stage, &inner);
    if (status == NS_OK) {
        status =
            nsi_windows_make(problem, f->data[NSI_ROLE_TRAIN], stage->windows.length,
                             stage->windows.max_windows, stage->windows.overlap, &windows, &inner);
    }
    for (uint32_t k = 0; k < windows.count && status == NS_OK; k++) {
        status = nsi_problem_check_length(problem, windows.data[k].length, &inner);
    }
    nsi_array_free(&f->allocator, &windows);
    return status == NS_OK ? NS_OK : fail_at(f, node, status, inner.message, error);
}

static ns_status check_search(const ns_fit* f, ns_error* error) {
    const nsi_yaml_node* node = entry(f, "search");
    const ns_solver* solver = f->plan->search.solver;
    if (!solver) return NS_OK;
    if (f->nz == 0) return fail_at(f, node, NS_ERR_PARSE, "a search needs `parameters`", error);
    for (uint32_t k = 0; k < f->nz; k++) {
        const ns_parameter_info* v = ns_parameters_at(f->variables, k);
        char what[400];
        if (v->transform == NS_PARAMETER_INERTIA && (solver->capabilities & NS_SOLVER_GRADIENT)) {
            snprintf(what, sizeof what,
                     "%.60s cannot look for all ten inertial numbers of a link: %.200s; take"
                     " basin_hopping",
                     solver->name, v->name);
            return fail_at(f, node, NS_ERR_PARSE, what, error);
        }
        if (isfinite(v->lower) && isfinite(v->upper)) continue;
        snprintf(what, sizeof what, "a search needs to know where: give lower and upper for %.200s",
                 v->name);
        return fail_at(f, node, NS_ERR_PARSE, what, error);
    }
    return NS_OK;
}

// Every set must have something to predict, and one of them as much as the longest horizon asks for.
static ns_status check_predictions(const ns_fit* f, ns_error* error) {
    nsi_predict_options options = nsi_fit_predict_options(f);
    const nsi_yaml_node* node = entry(f, "predict");
    double longest = 0.0;
    for (int role = 0; role < NSI_ROLES; role++) {
        double reached = 0.0;
        ns_error inner;
        if (!f->data[role]) continue;
        ns_status status = nsi_predict_check(f->problem, f->data[role], &options, &reached, &inner);
        if (status != NS_OK) {
            return fail_at(f, node ? node : f->plan->files[role].data[0].node, status,
                           inner.message, error);
        }
        if (reached > longest) longest = reached;
    }
    double period = ns_dataset_period(f->data[NSI_ROLE_TRAIN]);
    double wanted = options.nhorizon > 0 ? options.horizons[options.nhorizon - 1] : 0.0;
    // A horizon counts its whole samples.
    if (floor(wanted / period + 1e-6) <= longest / period + 0.5) return NS_OK;
    char what[200];
    snprintf(what, sizeof what,
             "a horizon of %g s is longer than every recording allows: at most %g s", wanted,
             longest);
    return fail_at(f, node, NS_ERR_PARSE, what, error);
}

static ns_status check_work(ns_fit* f, ns_error* error) {
    const nsi_yaml_node *list = entry(f, "stages"), *node = list ? list->first : NULL;
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < f->plan->stages.count && status == NS_OK; k++) {
        const nsi_yaml_node *fit = entry(f, "train"), *at = node  ? node
                                                            : fit ? fit
                                                                  : entry(f, "data");
        status = check_stage(f, &f->plan->stages.data[k], at, error);
        if (node) node = node->next;
    }
    if (status == NS_OK) status = check_search(f, error);
    return status == NS_OK ? check_predictions(f, error) : status;
}

// Are there bodies with the numbers it starts from?
static ns_status check_start(ns_fit* f, ns_error* error) {
    size_t nz = f->nz, np = f->problem->param_at[f->nvariant];
    double* v =
        nsi_alloc(&f->allocator, (nz + np + nsi_parameters_scratch(f->variables)) * sizeof *v);
    if (!v) return nsi_fail_nomem(error);
    const char* fault = NULL;
    nsi_parameters_from_z(f->variables, f->z0, v, NULL, v + nz + np);
    for (uint32_t k = 0; k < f->nvariant && !fault; k++) {
        nsi_parameters_params(f->variables, k, v, v + nz, NULL, v + nz + np);
        fault = nsi_parameters_fault(f->variables, k, v + nz);
    }
    nsi_free(&f->allocator, v);
    if (!fault) return NS_OK;
    char what[500];
    snprintf(what, sizeof what,
             "with these starts %.200s is not physical: its inertia cannot belong to a body, or a"
             " formula has no value or one out of its range",
             fault);
    return fail_at(f, entry(f, "parameters"), NS_ERR_PARSE, what, error);
}

// A formula of channels, from a text of the plan.
static ns_status load_formula(ns_fit* f, const nsi_yaml_node* node, nsi_error_formula* out,
                              ns_error* error) {
    const nsi_yaml* yaml = &f->plan->yaml;
    const ns_dataset* train = f->data[NSI_ROLE_TRAIN];
    const char* text = NULL;
    size_t where = 0;
    ns_error inner;
    ns_status status = nsi_yaml_text(yaml, node, &text, error);
    if (status != NS_OK) return status;
    status =
        ns_formula_parse(text, strlen(text), false, &f->allocator, &out->formula, &where, &inner);
    if (status != NS_OK) {
        return nsi_yaml_fail(yaml, node, error, "at character %zu of the formula: %s", where + 1,
                             inner.message);
    }
    uint32_t count = ns_formula_variable_count(out->formula);
    uint32_t* channels =
        nsi_arena_alloc(&f->plan->yaml.arena, ((size_t)count + 1) * sizeof *channels);
    if (!channels) return nsi_fail_nomem(error);
    out->channels = channels;
    for (uint32_t k = 0; k < count; k++) {
        const char* name = ns_formula_variable(out->formula, k);
        channels[k] = NSI_NONE;
        for (uint32_t c = 0; c < ns_dataset_channel_count(train); c++) {
            if (strcmp(ns_dataset_channel(train, c)->name, name) == 0) channels[k] = c;
        }
        if (channels[k] == NSI_NONE) {
            return nsi_yaml_fail(yaml, node, error,
                                 "the data has no channel %.200s; put names in double quotes",
                                 name);
        }
    }
    return NS_OK;
}

// Formulas of channels whose errors count.
static ns_status load_errors(ns_fit* f, ns_error* error) {
    const nsi_yaml_node* map = f->plan->errors;
    ns_status status = NS_OK;
    if (!map) return NS_OK;
    f->errors = nsi_alloc_zeroed(&f->allocator, ((size_t)map->count + 1) * sizeof *f->errors);
    if (!f->errors) return nsi_fail_nomem(error);
    for (const nsi_yaml_node* n = map->first; n && status == NS_OK; n = n->next) {
        status = load_formula(f, n, &f->errors[f->nerror++], error);
    }
    return status;
}

// One measure: {distance: [...]} or {rotation: [w, x, y, z]}, `average` and `unit`.
static ns_status load_measure(ns_fit* f, const nsi_yaml_node* map, ns_error* error) {
    const nsi_yaml* yaml = &f->plan->yaml;
    nsi_measure* m = &f->measures[f->nmeasure++];
    *m = (nsi_measure){.name = map->key, .unit = "", .formulas = f->measured + f->nmeasured};
    nsi_fit_measure says = {.unit = ""};
    nsi_schema_reader r = {.yaml = yaml, .arena = &f->plan->yaml.arena, .error = error};
    ns_status status = nsi_schema_read(&r, &nsi_fit_measure_schema, map, &says);
    const nsi_yaml_node *distance = nsi_yaml_find(map, "distance"),
                        *rotation = nsi_yaml_find(map, "rotation"),
                        *list = rotation ? rotation : distance;
    if (status != NS_OK) return status;
    bool right = (distance == NULL) != (rotation == NULL) && list->type == NSI_YAML_LIST &&
                 list->count > 0 && (!rotation || list->count == 4);
    if (!right) {
        return nsi_yaml_fail(yaml, map, error,
                             "expected `distance: [formulas]`, or `rotation:` of the four numbers"
                             " of a quaternion");
    }
    m->rotation = rotation != NULL;
    m->mean = says.average == NSI_AVERAGE_MEAN;
    m->unit = says.unit;
    for (const nsi_yaml_node* n = list->first; n && status == NS_OK; n = n->next) {
        m->nformula++;
        status = load_formula(f, n, &f->measured[f->nmeasured++], error);
    }
    return status;
}

static ns_status load_measures(ns_fit* f, ns_error* error) {
    const nsi_yaml_node* map = f->plan->measures;
    size_t formulas = 0;
    if (!map) return NS_OK;
    for (const nsi_yaml_node* n = map->first; n; n = n->next) {
        for (const nsi_yaml_node* k = n->type == NSI_YAML_MAP ? n->first : NULL; k; k = k->next) {
            formulas += k->count;
        }
    }
    f->measures = nsi_alloc_zeroed(&f->allocator, ((size_t)map->count + 1) * sizeof *f->measures);
    f->measured = nsi_alloc_zeroed(&f->allocator, (formulas + 1) * sizeof *f->measured);
    if (!f->measures || !f->measured) return nsi_fail_nomem(error);
    ns_status status = NS_OK;
    for (const nsi_yaml_node* n = map->first; n && status == NS_OK; n = n->next) {
        status = load_measure(f, n, error);
    }
    return status;
}

static ns_status take_start(ns_fit* f, ns_error* error) {
    double* v = nsi_alloc(&f->allocator, ((size_t)f->nz + 1) * sizeof(double));
    if (!v) return nsi_fail_nomem(error);
    nsi_parameters_initial(f->variables, v);
    nsi_parameters_to_z(f->variables, v, f->z0);
    nsi_free(&f->allocator, v);
    return NS_OK;
}

// Which variables adapt in predictions: names or globs of `parameters`.
static ns_status load_adaptation(ns_fit* f, ns_error* error) {
    const nsi_yaml_node* map = f->plan->adapt;
    if (!map) return NS_OK;
    f->adapt = nsi_alloc(&f->allocator, ((size_t)f->nz + 1) * sizeof *f->adapt);
    f->adapt_deviations = nsi_alloc(&f->allocator, ((size_t)f->nz + 1) * sizeof(double));
    if (!f->adapt || !f->adapt_deviations) return nsi_fail_nomem(error);
    for (const nsi_yaml_node* n = map->first; n; n = n->next) {
        bool found = false;
        for (uint32_t k = 0; k < f->nz && !found; k++) {
            found = ns_glob_match(n->key, ns_parameters_at(f->variables, k)->name);
        }
        if (!found) {
            return fail_at(f, n, NS_ERR_PARSE, "there is no such name under `parameters`", error);
        }
        double deviation;
        ns_status status = nsi_yaml_number(&f->plan->yaml, n, 1e-12, 1e12, &deviation, error);
        if (status != NS_OK) return status;
    }
    for (uint32_t k = 0; k < f->nz; k++) {
        const char* name = ns_parameters_at(f->variables, k)->name;
        for (const nsi_yaml_node* n = map->first; n; n = n->next) {
            if (!ns_glob_match(n->key, name)) continue;
            if (ns_parameters_at(f->variables, k)->transform == NS_PARAMETER_INERTIA) {
                return fail_at(f, n, NS_ERR_PARSE,
                               "all ten inertial numbers of this link are looked for together, so"
                               " none can adapt by itself",
                               error);
            }
            double deviation = 0.0;
            ns_status status = nsi_yaml_number(&f->plan->yaml, n, 1e-12, 1e12, &deviation, error);
            if (status != NS_OK) return status;
            f->adapt[f->nadapt] = k;
            f->adapt_deviations[f->nadapt++] = deviation;
            break;
        }
    }
    return NS_OK;
}

// No stage moves anything: the model is scored as it is.
static bool only_scores(const ns_fit* f) {
    for (uint32_t k = 0; k < f->plan->stages.count; k++) {
        if (f->plan->stages.data[k].iterations > 0) return false;
    }
    return !f->plan->search.solver;
}

static ns_status start(ns_fit* f, ns_error* error) {
    f->nz = ns_parameters_count(f->variables);
    f->nw = ns_system_get_sizes(f->system).nw;
    if (f->nz + f->nw == 0 && !only_scores(f)) {
        return fail_at(f, NULL, NS_ERR_PARSE,
                       "there is nothing to fit; give `parameters` or a blueprint, or"
                       " `train: {iterations: 0}` to score the model as it is",
                       error);
    }
    size_t nz = f->nz, nw = f->nw;
    f->z = nsi_alloc(&f->allocator, (2 * (nz + nw) + 1) * sizeof(double));
    if (!f->z) return nsi_fail_nomem(error);
    f->w = f->z + nz;
    f->z0 = f->w + nw;
    f->w0 = f->z0 + nz;
    ns_status status = take_start(f, error);
    if (status != NS_OK) return status;
    ns_system_default_weights(f->system, f->w0);
    memcpy(f->z, f->z0, (nz + nw) * sizeof(double));
    return check_start(f, error);
}

ns_status nsi_fit_open(const char* path, uint32_t threads, const nsi_fit_changes* changes,
                       ns_fit** out, ns_error* error) {
    static const nsi_fit_changes none = {0};
    if (!changes) changes = &none;
    *out = NULL;
    ns_allocator memory = ns_default_allocator();
    ns_fit* f = nsi_alloc_zeroed(&memory, sizeof *f);
    if (!f) {
        nsi_fit_spec_free(changes->spec);
        return nsi_fail_nomem(error);
    }
    f->allocator = memory;
    f->threads = threads;
    nsi_result_init(&memory, &f->answer);
    f->plan = changes->spec;
    ns_status status = f->plan ? NS_OK : nsi_fit_spec_read(path, &memory, &f->plan, error);
    if (status == NS_OK) status = change_plan(f, changes, error);
    if (status == NS_OK) status = load_models(f, error);
    if (status == NS_OK) status = change_weights(f, changes, error);
    if (status == NS_OK) status = load_data(f, error);
    if (status == NS_OK) status = load_errors(f, error);
    if (status == NS_OK) status = load_measures(f, error);
    if (status == NS_OK) {
        double period = ns_dataset_period(f->data[NSI_ROLE_TRAIN]);
        f->timestep = period;
        for (uint32_t k = 0; k < f->nvariant && !f->plan->learned; k++) {
            const nsi_fit_variant* v = &f->variants[k];
            double own = nsi_problem_timestep(ns_hybrid_model(v->hybrid), &v->options,
                                              f->plan->timestep, period);
            if (k == 0 || own < f->timestep) f->timestep = own;
        }
        for (uint32_t k = 0; k < f->nvariant; k++) f->variants[k].options.timestep = f->timestep;
        f->options = f->variants[0].options;
    }
    if (status != NS_OK) {
        ns_fit_free(f);
        return status;
    }
    *out = f;
    return NS_OK;
}

ns_status ns_fit_load(const char* path, uint32_t threads, ns_fit** out, ns_error* error) {
    if (out) *out = NULL;
    if (!path || !out) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_fit_load: path or out is NULL");
    return nsi_fit_load(path, threads, NULL, out, error);
}

ns_status nsi_fit_load(const char* path, uint32_t threads, const nsi_fit_changes* changes,
                       ns_fit** out, ns_error* error) {
    ns_fit* f = NULL;
    *out = NULL;
    ns_status status = nsi_fit_open(path, threads, changes, &f, error);
    if (status == NS_OK) status = make_system(f, error);
    if (status == NS_OK) status = start(f, error);
    if (status == NS_OK) status = load_adaptation(f, error);
    if (status == NS_OK) status = check_work(f, error);
    if (status != NS_OK) {
        ns_fit_free(f);
        return status;
    }
    *out = f;
    return NS_OK;
}

ns_status ns_fit_set_start(ns_fit* f, const char* name, double value, ns_error* error) {
    if (!f || !name) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_fit_set_start: fit or name is NULL");
    }
    ns_error inner;
    ns_status status = ns_parameters_set_initial(f->variables, name, value, &inner);
    if (status == NS_OK) return take_start(f, error);
    return nsi_fail(error, status, "%s: %s", f->plan->path, inner.message);
}

void ns_fit_free(ns_fit* f) {
    if (!f) return;
    ns_allocator memory = f->allocator;
    nsi_result_free(&f->answer);
    for (uint32_t k = 0; k < f->nerror; k++) ns_formula_free(f->errors[k].formula);
    nsi_free(&memory, f->errors);
    for (uint32_t k = 0; k < f->nmeasured; k++) ns_formula_free(f->measured[k].formula);
    nsi_free(&memory, f->measured);
    nsi_free(&memory, f->measures);
    nsi_free(&memory, f->adapt);
    nsi_free(&memory, f->adapt_deviations);
    nsi_problem_free(f->teacher);
    ns_system_free(f->teacher_system);
    nsi_problem_free(f->problem);
    for (uint32_t k = 1; k < f->nvariant; k++) ns_system_free(f->variants[k].system);
    ns_system_free(f->system);
    ns_parameters_free(f->variables);
    for (int role = 0; role < NSI_ROLES; role++) ns_dataset_free(f->data[role]);
    ns_data_map_free(f->map);
    ns_blueprint_free(f->blueprint);
    for (uint32_t k = 0; k < f->nvariant; k++) ns_hybrid_free(f->variants[k].hybrid);
    nsi_free(&memory, f->variants);
    nsi_fit_spec_free(f->plan);
    nsi_free(&memory, f->z);
    nsi_free(&memory, f);
}
