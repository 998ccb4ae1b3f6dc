// ns_fit_load: reads spec, models, networks and recordings, and assembles the fit.

#include "data/map.h"
#include "fit/fit_state.h"
#include "io/file.h"
#include "nn/blueprint_data.h"

#include <math.h>
#include <stdio.h>

// The path of a file that the spec names at `node`; it must be there.
static ns_status find_file(ns_fit* f, const nsi_yaml_node* node, const char** path,
                           ns_error* error) {
    nsi_schema_reader r = {.yaml = &f->spec->yaml, .arena = &f->spec->yaml.arena, .error = error};
    ns_status status = nsi_schema_path(&r, node, path);
    if (status != NS_OK) return status;
    *path = nsi_fit_spec_path(f->spec, *path);
    if (!*path) return nsi_fail_nomem(error);
    if (nsi_file_exists(*path)) return NS_OK;
    char what[600];
    snprintf(what, sizeof what,
             "there is no file %.400s; correct the path, which counts from the folder of this file",
             *path);
    return nsi_fit_fail_at(f, node, NS_ERR_IO, what, error);
}

static ns_status change_spec(ns_fit* f, const nsi_fit_changes* c, ns_error* error) {
    nsi_fit_spec* p = f->spec;
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
        return nsi_fit_fail_at(f, NULL, NS_ERR_UNSUPPORTED,
                               "there is no `blueprint` whose weights could come from another fit",
                               error);
    }
    return ns_blueprint_load_weights(f->blueprint, c->weights, error);
}

// The variants of a hybrid model that has some.
static ns_status list_file_variants(ns_fit* f, const char* path, ns_error* error) {
    nsi_hybrid file = {0};
    nsi_arena* arena = &f->spec->yaml.arena;
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

// Which robots there are: of the spec, of its hybrid model, or one.
static ns_status list_variants(ns_fit* f, const char** model, ns_error* error) {
    nsi_fit_spec* p = f->spec;
    ns_status status = NS_OK;
    if (p->model) status = find_file(f, nsi_fit_entry(f, "model"), model, error);
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
    nsi_fit_spec* p = f->spec;
    ns_load_options load = ns_default_load_options();
    load.ground = p->ground;
    load.self_collision = p->self_collision;
    load.floating_base = p->floating_base;
    load.variant = model ? v->name : NULL;
    ns_status status = ns_hybrid_load(model ? model : v->robot, &load, &v->hybrid, error);
    if (status != NS_OK) return status;
    v->model = ns_hybrid_model(v->hybrid);
    v->options = ns_default_system_options();
    ns_hybrid_apply(v->hybrid, &v->options);
    if (p->contact >= 0) v->options.contact = p->contact;
    if (p->integrator >= 0) v->options.integrator = p->integrator;
    return NS_OK;
}

static ns_status load_fit_models(ns_fit* f, ns_error* error) {
    nsi_fit_spec* p = f->spec;

    // Every variant of the robot, the first of which represents the others.
    const char *model = NULL, *path;
    ns_status status = list_variants(f, &model, error);
    for (uint32_t k = 0; k < f->nvariant && status == NS_OK; k++) {
        status = load_variant(f, &f->variants[k], model, error);
    }
    if (status != NS_OK) return status;
    f->hybrid = f->variants[0].hybrid;

    // A learned system replaces the physics, so it excludes networks and variants.
    if (ns_hybrid_is_learned(f->hybrid)) {
        return nsi_fit_fail_at(
            f, nsi_fit_entry(f, "model"), NS_ERR_UNSUPPORTED,
            "this is a learned system; name the robot's own file, and describe the network"
            " under `learned`",
            error);
    }
    if (p->learned && (f->variants[0].name || ns_hybrid_blueprint(f->hybrid))) {
        return nsi_fit_fail_at(
            f, nsi_fit_entry(f, "model"), NS_ERR_UNSUPPORTED,
            f->variants[0].name
                ? "the model has variants, which `learned` does not go with; name a"
                  " robot's own file"
                : "the model has networks of a blueprint, which `learned` does not go"
                  " with; name the robot's own file",
            error);
    }

    // Networks to attach, with weights of an earlier fit.
    if (p->blueprint) {
        status = find_file(f, nsi_fit_entry(f, "blueprint"), &path, error);
        if (status == NS_OK) status = ns_blueprint_load(path, &f->allocator, &f->blueprint, error);
        if (status == NS_OK && p->weights) {
            status = find_file(f, nsi_fit_entry(f, "weights"), &path, error);
            if (status == NS_OK) status = ns_blueprint_load_weights(f->blueprint, path, error);
        }
        f->variants[0].options.blueprint = f->blueprint;
    }
    // Networks are shared: what is changed in them is changed for all.
    for (uint32_t k = 1; k < f->nvariant; k++) {
        f->variants[k].options.blueprint = f->variants[0].options.blueprint;
    }

    // Options that do not depend on the robot are read from the first.
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
    return nsi_fit_fail_at(f, file->node, NS_ERR_PARSE, what, error);
}

// Likely mistakes in the recordings.
static ns_status check_data(ns_fit* f, ns_error* error) {
    ns_dataset* sets[NS_ROLE_COUNT];
    const char* names[NS_ROLE_COUNT];
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        sets[role] = (ns_dataset*)f->data[role];
        names[role] = ns_choice_name(&ns_data_roles, role);
    }
    // Limits and dynamics are those of a variant, and recordings belong to several.
    const ns_model* model = f->nvariant > 1 ? NULL : f->variants[0].model;
    return nsi_data_warnings_check(&f->data_warnings, sets, names, NS_ROLE_COUNT, model, error);
}

// @param check  look for mistakes in the recordings
static ns_status load_data(ns_fit* f, bool check, ns_error* error) {
    nsi_fit_spec* p = f->spec;
    const ns_model* model = f->variants[0].model;

    // The map from columns to channels: given, or inferred from the first training file.
    const char* path = NULL;
    ns_status status = nsi_fit_spec_data_path(p, &p->files[NS_ROLE_TRAIN].data[0], &path, error);
    if (status != NS_OK) return status;
    if (p->map) {
        status = find_file(f, nsi_yaml_find(nsi_fit_entry(f, "data"), "map"), &path, error);
        if (status == NS_OK) status = ns_data_map_load(path, &f->allocator, &f->map, error);
    } else {
        status = ns_data_map_infer(path, model, &f->allocator, &f->map, error);
    }

    // All roles share the sample period that the first one establishes.
    double period = p->period;
    for (int role = 0; status == NS_OK && role < NS_ROLE_COUNT; role++) {
        // Only training data is required.
        ns_dataset* data = NULL;
        if (p->files[role].count == 0) continue;
        status = ns_dataset_create(f->map, period, &f->allocator, &data, error);
        f->data[role] = data;
        if (status == NS_OK && check) nsi_dataset_keep_rows(data);

        for (uint32_t k = 0; status == NS_OK && k < p->files[role].count; k++) {
            const nsi_fit_spec_file* file = &p->files[role].data[k];
            status = nsi_fit_spec_data_path(p, file, &path, error);
            if (status == NS_OK) status = check_file(f, file, path, error);
            if (status == NS_OK) {
                status = ns_dataset_add(data, path, &file->part, error);
            }
        }

        // Later roles are resampled to it.
        if (status == NS_OK) period = ns_dataset_period(f->data[role]);
    }

    if (status == NS_OK && check) status = check_data(f, error);

    // Noise is added to training data only; scores use the recording as it is.
    if (status == NS_OK && p->noise > 0.0) {
        nsi_dataset_add_noise((ns_dataset*)f->data[NS_ROLE_TRAIN], p->noise, p->seed);
    }
    return status;
}

// A formula of channels, from a text of the spec.
static ns_status load_formula(ns_fit* f, const nsi_yaml_node* node, nsi_error_formula* out,
                              ns_error* error) {
    const char* text = NULL;
    ns_error inner;
    ns_status status = nsi_yaml_text(&f->spec->yaml, node, &text, error);
    if (status != NS_OK) return status;
    status = nsi_fit_parse_formula(f, text, out, &inner);
    if (status == NS_OK) return NS_OK;
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    return nsi_yaml_fail(&f->spec->yaml, node, error, "%s", inner.message);
}

// Formulas of channels whose errors count.
static ns_status load_errors(ns_fit* f, ns_error* error) {
    const nsi_yaml_node* map = f->spec->errors;
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
    const nsi_yaml* yaml = &f->spec->yaml;

    // A metric takes consecutive formulas out of the common array.
    nsi_metric* m = &f->metrics[f->nmetric++];
    *m = (nsi_metric){.name = map->key, .unit = "", .formulas = f->measured + f->nmeasured};
    nsi_fit_measure says = {.unit = ""};
    nsi_schema_reader r = {.yaml = yaml, .arena = &f->spec->yaml.arena, .error = error};
    ns_status status = nsi_schema_read(&r, &nsi_fit_measure_schema, map, &says);

    // Either a distance of any dimension or a rotation of four components.
    const nsi_yaml_node *distance = nsi_yaml_find(map, "distance"),
                        *rotation = nsi_yaml_find(map, "rotation"),
                        *list = rotation ? rotation : distance;

    // The schema has checked the values; which keys go together is checked here.
    if (status != NS_OK) return status;
    bool right = (distance == NULL) != (rotation == NULL) && list->type == NSI_YAML_LIST &&
                 list->count > 0 && (!rotation || list->count == 4);
    if (!right) {
        return nsi_yaml_fail(yaml, map, error,
                             "expected `distance: [formulas]`, or `rotation:` of the four numbers"
                             " of a quaternion");
    }

    // The record of the metric, whose texts live in the spec.
    m->rotation = rotation != NULL;
    m->mean = says.average == NSI_AVERAGE_MEAN;
    m->unit = says.unit;

    // Formulas give the components, of the predicted and of the recorded channels.
    for (const nsi_yaml_node* n = list->first; n && status == NS_OK; n = n->next) {
        m->nformula++;
        status = load_formula(f, n, &f->measured[f->nmeasured++], error);
    }
    return status;
}

static ns_status load_measures(ns_fit* f, ns_error* error) {
    const nsi_yaml_node* map = f->spec->measures;
    size_t formulas = 0;
    if (!map) return NS_OK;
    for (const nsi_yaml_node* n = map->first; n; n = n->next) {
        for (const nsi_yaml_node* k = n->type == NSI_YAML_MAP ? n->first : NULL; k; k = k->next) {
            formulas += k->count;
        }
    }
    f->metrics = nsi_alloc_zeroed(&f->allocator, ((size_t)map->count + 1) * sizeof *f->metrics);
    f->measured = nsi_alloc_zeroed(&f->allocator, (formulas + 1) * sizeof *f->measured);
    if (!f->metrics || !f->measured) return nsi_fail_nomem(error);
    ns_status status = NS_OK;
    for (const nsi_yaml_node* n = map->first; n && status == NS_OK; n = n->next) {
        status = load_measure(f, n, error);
    }
    return status;
}

// Which parameters adapt in predictions: names or globs of `parameters`.
static ns_status load_adaptation(ns_fit* f, ns_error* error) {
    const nsi_yaml_node* map = f->spec->adapt;
    if (!map) return NS_OK;

    // At most every fitted parameter adapts.
    f->adapt = nsi_alloc(&f->allocator, ((size_t)f->nz + 1) * sizeof *f->adapt);
    f->adapt_deviations = nsi_alloc(&f->allocator, ((size_t)f->nz + 1) * sizeof(double));
    if (!f->adapt || !f->adapt_deviations) return nsi_fail_nomem(error);

    // Validate every glob, so that a misspelt name is not ignored.
    for (const nsi_yaml_node* n = map->first; n; n = n->next) {
        bool found = false;
        for (uint32_t k = 0; k < f->nz && !found; k++) {
            found = ns_glob_match(n->key, ns_parameters_at(f->parameters, k)->name);
        }
        if (!found) {
            return nsi_fit_fail_at(f, n, NS_ERR_PARSE, "there is no such name under `parameters`",
                                   error);
        }

        // A number that is out of range is reported even if an earlier glob hides it.
        double deviation;
        ns_status status = nsi_yaml_number(&f->spec->yaml, n, 1e-12, 1e12, &deviation, error);
        if (status != NS_OK) return status;
    }

    // The first glob that matches a parameter gives its standard deviation.
    for (uint32_t k = 0; k < f->nz; k++) {
        const char* name = ns_parameters_at(f->parameters, k)->name;
        for (const nsi_yaml_node* n = map->first; n; n = n->next) {
            if (!ns_glob_match(n->key, name)) continue;
            if (ns_parameters_at(f->parameters, k)->transform == NS_PARAMETER_INERTIA) {
                return nsi_fit_fail_at(
                    f, n, NS_ERR_PARSE,
                    "all ten inertial numbers of this link are looked for together, so"
                    " none can adapt by itself",
                    error);
            }

            double deviation = 0.0;
            ns_status status = nsi_yaml_number(&f->spec->yaml, n, 1e-12, 1e12, &deviation, error);
            if (status != NS_OK) return status;
            // One entry per parameter: later globs are for others.
            f->adapt[f->nadapt] = k;
            f->adapt_deviations[f->nadapt++] = deviation;
            break;
        }
    }
    return NS_OK;
}

static ns_status make_variables(ns_fit* f, ns_error* error) {
    const nsi_fit_spec* p = f->spec;
    ns_variant* models = nsi_alloc(&f->allocator, f->nvariant * sizeof *models);
    if (!models) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < f->nvariant; k++) {
        const nsi_fit_variant* v = &f->variants[k];
        models[k] = (ns_variant){v->name, v->files, v->model, &v->options};
    }
    ns_status status = nsi_parameters_read(models, f->nvariant, p->path, p->parameters.data,
                                           p->parameters.count, p->settings.data, p->settings.count,
                                           &f->allocator, &f->parameters, error);
    nsi_free(&f->allocator, models);
    return status;
}

ns_status nsi_fit_open(const char* path, uint32_t threads, const nsi_fit_changes* changes,
                       ns_fit** out, ns_error* error) {
    // The variations of a study have the recordings of the file itself: these were checked.
    static const nsi_fit_changes none = {0};
    bool check = changes == NULL;
    if (!changes) changes = &none;
    *out = NULL;

    // The fit owns the spec of the changes, also after a failure.
    ns_allocator memory = ns_default_allocator();
    ns_fit* f = nsi_alloc_zeroed(&memory, sizeof *f);
    if (!f) {
        nsi_fit_spec_free(changes->spec);
        return nsi_fail_nomem(error);
    }

    // From here on ns_fit_free() releases everything.
    f->allocator = memory;
    f->data_warnings.arena.allocator = memory;
    f->threads = threads;
    nsi_result_init(&memory, &f->result);
    f->spec = changes->spec;

    // Settings first, then models, then data that refers to models.
    ns_status status = f->spec ? NS_OK : nsi_fit_spec_read(path, &memory, &f->spec, error);
    if (status == NS_OK) status = change_spec(f, changes, error);
    if (status == NS_OK) status = load_fit_models(f, error);

    // Changes of seeds and weights come before any system is made.
    if (status == NS_OK) status = change_weights(f, changes, error);
    if (status == NS_OK) status = load_data(f, check, error);
    if (status == NS_OK) status = load_errors(f, error);
    if (status == NS_OK) status = load_measures(f, error);
    if (status == NS_OK) nsi_fit_choose_timestep(f);

    // What was loaded before a failure is freed with the fit.
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
    if (status == NS_OK) status = make_variables(f, error);
    if (status == NS_OK) status = nsi_fit_assemble(f, error);
    if (status == NS_OK) status = load_adaptation(f, error);
    if (status == NS_OK) status = nsi_fit_check(f, error);
    if (status != NS_OK) {
        ns_fit_free(f);
        return status;
    }
    *out = f;
    return NS_OK;
}
