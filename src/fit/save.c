// Files of a result: the fitted model with its weights, the report, and what they refer to.

#include "fit/fit_report.h"
#include "fit/portable.h"
#include "fit/posterior_report.h"
#include "io/file.h"
#include "io/hybrid_file.h"
#include "nn/blueprint_data.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

char* nsi_fit_join(const ns_fit* f, const char* folder, const char* name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    char* path = nsi_alloc(&f->allocator, size);
    if (path) snprintf(path, size, "%s/%s", folder, name);
    return path;
}

ns_status nsi_fit_write_text(const ns_fit* f, const char* folder, const char* name,
                             const ns_text* text, ns_error* error) {
    char* path = nsi_fit_join(f, folder, name);
    ns_status status = path ? nsi_file_write(path, text->data, text->size, &f->allocator, error)
                            : nsi_fail_nomem(error);
    nsi_free(&f->allocator, path);
    return status;
}

ns_status nsi_fit_set_parameter(const ns_fit* f, nsi_hybrid_parameters* to, const ns_model* robot,
                                const char* name, double value, ns_error* error) {
    const ns_param* param = ns_model_param(robot, ns_model_find_param(robot, name));
    uint32_t kept = 0;
    for (uint32_t k = 0; k < to->count; k++) {
        if (strcmp(to->data[k].pattern, name) == 0) continue;
        to->data[kept++] = to->data[k];
    }
    to->count = kept;
    nsi_hybrid_parameter parameter = {.pattern = param->name,
                                      .value = fmin(fmax(value, param->lower), param->upper)};
    bool done = nsi_array_push(&f->allocator, to, parameter);
    return done ? NS_OK : nsi_fail_nomem(error);
}

// Value of a free parameter of a variant; NULL: it has none of this name.
static const double* find_value(const ns_fit* f, const double* p, uint32_t variant,
                                const char* name) {
    const char* const* names = nsi_parameters_param_names(f->parameters, variant);
    for (uint32_t k = 0; k < nsi_parameters_param_count(f->parameters, variant); k++) {
        if (strcmp(names[k], name) == 0) return &p[f->problem->param_at[variant] + k];
    }
    return NULL;
}

static bool is_given(const nsi_hybrid_parameters* parameters, const char* name) {
    for (uint32_t k = 0; k < parameters->count; k++) {
        if (ns_glob_match(parameters->data[k].pattern, name)) return true;
    }
    return false;
}

// Can a value stand among those of all variants? Not when one that has a parameter of this name has
// another value, as formulas may differ and globs pass over a link that is fixed in one of them; nor
// when it has one of its own in the file, which would hide it.
static bool is_common(const ns_fit* f, const nsi_hybrid* file, const double* p, const char* name,
                      double value) {
    for (uint32_t k = 0; k < f->nvariant; k++) {
        const ns_model* robot = f->variants[k].model;
        if (ns_model_find_param(robot, name) == NSI_NONE) continue;
        const double* other = find_value(f, p, k, name);
        if (!other || *other != value) return false;
        if (file->variants.count > 0 && is_given(&file->variants.data[k].parameters, name)) {
            return false;
        }
    }
    return true;
}

ns_status nsi_fit_set_following(const ns_fit* f, const ns_parameters* params, uint32_t variant,
                                const double* p, nsi_hybrid_parameters* to, ns_error* error) {
    nsi_following_moments moments;
    ns_status status = NS_OK;
    for (uint32_t k = 0; nsi_parameters_following(params, variant, p, k, &moments); k++) {
        const ns_model* robot = f->variants[variant].model;
        for (int i = 0; i < 6 && status == NS_OK; i++) {
            if (!moments.moved[i]) continue;
            status = nsi_fit_set_parameter(f, to, robot, moments.name[i], moments.value[i], error);
        }
    }
    return status;
}

// What was found, for all variants together where it is the same.
static ns_status set_parameters(const ns_fit* f, nsi_hybrid* file, ns_error* error) {
    size_t np = f->problem->param_at[f->nvariant], scratch = nsi_parameters_scratch(f->parameters);
    double* v = nsi_alloc(&f->allocator, ((size_t)f->nz + np + scratch + 1) * sizeof(double));
    if (!v) return nsi_fail_nomem(error);
    double* p = v + f->nz;
    nsi_parameters_from_z(f->parameters, f->z, v, NULL, p + np);
    for (uint32_t m = 0; m < f->nvariant; m++) {
        nsi_parameters_params(f->parameters, m, v, p + f->problem->param_at[m], NULL, p + np);
    }
    ns_status status = NS_OK;
    for (uint32_t m = 0; m < f->nvariant; m++) {
        const char* const* names = nsi_parameters_param_names(f->parameters, m);
        const ns_model* robot = f->variants[m].model;
        for (uint32_t k = 0; k < nsi_parameters_param_count(f->parameters, m); k++) {
            double value = p[f->problem->param_at[m] + k];
            nsi_hybrid_parameters* to = is_common(f, file, p, names[k], value)
                                            ? &file->parameters
                                            : &file->variants.data[m].parameters;
            if (status == NS_OK) {
                status = nsi_fit_set_parameter(f, to, robot, names[k], value, error);
            }
        }

        // Moments that no motion shows stand behind the others, whose place they may take.
        nsi_hybrid_parameters* own =
            f->nvariant > 1 ? &file->variants.data[m].parameters : &file->parameters;
        if (status == NS_OK) {
            status =
                nsi_fit_set_following(f, f->parameters, m, p + f->problem->param_at[m], own, error);
        }
    }
    nsi_free(&f->allocator, v);
    return status;
}

// The model that was fitted, as it was.
static ns_status begin_model(const ns_fit* f, nsi_hybrid* file, ns_error* error) {
    nsi_fit_spec* spec = f->spec;
    const char* model = spec->model ? nsi_fit_spec_path(spec, spec->model) : NULL;
    if (spec->model && !model) return nsi_fail_nomem(error);
    if (model && ns_hybrid_is_path(model)) {
        return nsi_hybrid_read(model, &f->allocator, file, error);
    }
    nsi_hybrid_init(&f->allocator, file);
    file->robot = model;
    for (uint32_t k = 0; k < f->nvariant && !model; k++) {
        const nsi_fit_variant* v = &f->variants[k];
        nsi_hybrid_variant variant = {.name = v->name, .files = v->files, .robot = v->robot};
        if (!nsi_array_push(&f->allocator, &file->variants, variant)) return nsi_fail_nomem(error);
    }
    return NS_OK;
}

// Copies of what the model refers to, so that the folder can be moved. A blueprint is written as it was
// read, without the files that it extends.
static ns_status copy_model_files(const ns_fit* f, const char* folder, nsi_hybrid* file,
                                  nsi_copy_notes* notes, ns_error* error) {
    const ns_model** models = nsi_alloc(&f->allocator, f->nvariant * sizeof *models);
    if (!models) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < f->nvariant; k++) models[k] = f->variants[k].model;
    ns_status status = nsi_copy_robots(folder, models, file, notes, &f->allocator, error);
    nsi_free(&f->allocator, models);
    if (status != NS_OK || !f->options.blueprint) return status;

    char* path = nsi_fit_join(f, folder, "fitted_blueprint.yaml");
    if (!path) return nsi_fail_nomem(error);
    status = nsi_blueprint_write(path, f->options.blueprint, NULL, &f->allocator, error);
    if (status == NS_OK) {
        file->blueprint = nsi_arena_string(&file->arena, path, strlen(path));
        if (!file->blueprint) status = nsi_fail_nomem(error);
    }
    nsi_free(&f->allocator, path);
    return status;
}

ns_status nsi_fit_write_model(const ns_fit* f, const char* folder, const char* name,
                              const char* weights, nsi_copy_notes* notes, ns_error* error) {
    const nsi_fit_spec* spec = f->spec;
    nsi_hybrid file = {0};
    char* path = nsi_fit_join(f, folder, name);
    ns_status status = path ? begin_model(f, &file, error) : nsi_fail_nomem(error);
    if (status == NS_OK) status = set_parameters(f, &file, error);
    if (status == NS_OK) status = copy_model_files(f, folder, &file, notes, error);
    if (status == NS_OK) {
        if (weights) file.weights = weights;
        if (spec->contact >= 0) file.contact = spec->contact;
        file.integrator = (int)ns_system_get_sizes(f->system).integrator;
        file.timestep = f->timestep;
        if (spec->learned) { // nothing of the physics counts
            file.learned = spec->learned;
            file.parameters.count = 0;
            file.contact = file.integrator = -1;
        }
        file.ground = file.ground || spec->ground;
        file.self_collision = file.self_collision || spec->self_collision;
        file.floating_base = file.floating_base || spec->floating_base;
        status = nsi_hybrid_write(path, &file, &f->allocator, error);
    }
    nsi_hybrid_free(&file);
    nsi_free(&f->allocator, path);
    return status;
}

typedef ns_status report_renderer(const ns_report* report, ns_text* out, ns_error* error);

static ns_status write_rendered(const ns_fit* f, const ns_report* report, report_renderer* render,
                                const char* folder, const char* name, ns_error* error) {
    ns_text text = {0};
    ns_status status = render(report, &text, error);
    if (status == NS_OK) status = nsi_fit_write_text(f, folder, name, &text, error);
    ns_text_free(&text);
    return status;
}

ns_status nsi_fit_write_report(const ns_fit* f, const ns_report* report, const char* folder,
                               ns_error* error) {
    ns_status status = write_rendered(f, report, ns_report_json, folder, "result.json", error);
    if (status != NS_OK) return status;
    return write_rendered(f, report, ns_report_html, folder, "report.html", error);
}

// Notes of a result, and what was not copied behind them. To be freed.
static ns_status join_notes(const ns_fit* f, const nsi_copy_notes* more, nsi_result* out,
                            ns_error* error) {
    *out = f->result;
    memset(&out->notes, 0, sizeof out->notes);
    bool done = true;
    for (uint32_t k = 0; k < f->result.notes.count && done; k++) {
        done = nsi_array_push(&f->allocator, &out->notes, f->result.notes.data[k]);
    }
    for (uint32_t k = 0; k < more->count && done; k++) {
        done = nsi_array_push(&f->allocator, &out->notes, more->data[k]);
    }
    return done ? NS_OK : nsi_fail_nomem(error);
}

// Recordings beside predictions as a table, and the report for machines and people.
static ns_status save_write_report(const ns_fit* f, const char* folder, const nsi_copy_notes* notes,
                                   ns_error* error) {
    ns_fit shown = *f;
    nsi_traces traces = {0};
    ns_report* report = NULL;
    char* path = nsi_fit_join(f, folder, "predictions.csv");
    ns_status status = path ? nsi_traces_make(f, &traces, error) : nsi_fail_nomem(error);
    if (status == NS_OK) status = nsi_traces_write(&traces, f, path, error);
    if (status == NS_OK) {
        status = join_notes(f, notes, &shown.result, error);
        if (status == NS_OK) status = nsi_fit_report(&shown, &traces, &report, error);
        if (status == NS_OK) status = nsi_fit_write_report(f, report, folder, error);
        ns_report_free(report);
        nsi_array_free(&f->allocator, &shown.result.notes);
    }
    nsi_traces_free(&traces);
    nsi_free(&f->allocator, path);
    return status;
}

// Samples of the posterior, if there is one.
static ns_status save_samples(const ns_fit* f, const char* folder, ns_error* error) {
    if (!f->result.posterior) return NS_OK;
    char* path = nsi_fit_join(f, folder, "samples.csv");
    ns_status status =
        path ? nsi_posterior_write_samples(f->result.posterior, path, &f->allocator, error)
             : nsi_fail_nomem(error);
    nsi_free(&f->allocator, path);
    return status;
}

ns_status ns_fit_save(const ns_fit* f, const char* folder, ns_error* error) {
    if (!f || !folder) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_fit_save: fit or folder is NULL");
    }
    if (!f->has_result) {
        return nsi_fail(error, NS_ERR_STATE, "ns_fit_save: there is no result; call ns_fit_run");
    }

    // The folder; it may be there already.
    nsi_copy_notes notes = {0};
    ns_status status = ns_fit_check_folder(f, folder, error);
    if (status != NS_OK) return status;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return nsi_fail(error, NS_ERR_IO, "cannot make the folder %s: %s", folder, strerror(errno));
    }

    // Its files: weights, the fitted model, samples, the report.
    char* weights = f->nw > 0 ? nsi_fit_join(f, folder, "weights.safetensors") : NULL;
    if (f->nw > 0) {
        status = weights ? ns_system_save_weights(f->system, f->w, weights, error)
                         : nsi_fail_nomem(error);
    }
    if (status == NS_OK && !f->by_calls) {
        status = nsi_fit_write_model(f, folder, "fitted.yaml", weights, &notes, error);
    }
    if (status == NS_OK) status = save_samples(f, folder, error);
    if (status == NS_OK) status = save_write_report(f, folder, &notes, error);

    nsi_copy_notes_free(&f->allocator, &notes);
    nsi_free(&f->allocator, weights);
    return status;
}
