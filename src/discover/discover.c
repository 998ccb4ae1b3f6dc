// Discovery from end to end: what is loaded, what was found in words, and files.

#define _POSIX_C_SOURCE 200809L

#include "discover/discover_state.h"
#include "fit/portable.h"

#include "discover/discover_words.h"
#include "io/hybrid_file.h"
#include "nn/blueprint_data.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

static ns_status make_workspace(ns_discovery* d, ns_error* error) {
    ns_status status = nsi_workspace_make(d->fit, &d->library, &d->workspace, error);
    if (status != NS_OK) return status;
    d->workspace.progress = d->progress;
    size_t terms = (size_t)d->library.terms.count + 1;
    d->errors = nsi_alloc_zeroed(&d->allocator, terms * sizeof *d->errors);
    d->traded = nsi_alloc_zeroed(&d->allocator, terms * sizeof *d->traded);
    return d->errors && d->traded ? NS_OK : nsi_fail_nomem(error);
}

ns_status ns_discover_load(const char* path, uint32_t threads, ns_discovery** out,
                           ns_error* error) {
    if (out) *out = NULL;
    if (!path || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_discover_load: path or out is NULL");
    }

    // Start with an empty discovery that can be freed at any point.
    ns_allocator memory = ns_default_allocator();
    ns_discovery* d = nsi_alloc_zeroed(&memory, sizeof *d);
    if (!d) return nsi_fail_nomem(error);
    // All parts use the same allocator.
    d->allocator = memory;
    d->arena.allocator = memory;
    d->library.allocator = d->workspace.allocator = memory;
    d->progress = nsi_alloc_zeroed(&memory, sizeof *d->progress);

    // Load the file, the model and the recordings.
    ns_status status =
        d->progress ? nsi_fit_open(path, threads, NULL, &d->fit, error) : nsi_fail_nomem(error);

    // A fully learned system has no physics to correct.
    if (status == NS_OK && d->fit->spec->learned) {
        status = nsi_fail(error, NS_ERR_UNSUPPORTED,
                          "%.200s: a `learned` system has no physics that could lack something;"
                          " remove `learned`",
                          path);
    }

    // Only one robot at a time: with variants, a missing effect may belong to some of them only.
    if (status == NS_OK && d->fit->variants[0].name) {
        status = nsi_fail(error, NS_ERR_UNSUPPORTED,
                          "%.200s: discovery searches one robot; give one `model` instead of"
                          " variants",
                          path);
    }

    // Build the candidate library, and compile the system with all its terms.
    if (status == NS_OK) status = nsi_term_library_make(d->fit, NSI_NONE, &d->library, error);
    // An empty library is an error of the file, not a result.
    if (status == NS_OK && d->library.terms.count == 0) {
        status = nsi_fail(error, NS_ERR_PARSE,
                          "%.200s: there are no candidates: the model has no joint that moves, or"
                          " `discover` excludes everything",
                          path);
    }
    if (status == NS_OK) status = make_workspace(d, error);

    // Hand over a complete discovery or none.
    if (status != NS_OK) {
        ns_discover_free(d);
        return status;
    }
    *out = d;
    return NS_OK;
}

// All except what second passes share.
static void discovery_clear(ns_discovery* d) {
    ns_allocator memory = d->allocator;
    nsi_array_free(&memory, &d->active);
    nsi_array_free(&memory, &d->steps);
    nsi_array_free(&memory, &d->ranks);
    nsi_array_free(&memory, &d->rest);
    nsi_array_free(&memory, &d->levels);
    nsi_array_free(&memory, &d->found);
    nsi_array_free(&memory, &d->notes);
    nsi_array_free(&memory, &d->groups);
    nsi_free(&memory, d->errors);
    nsi_free(&memory, d->traded);
    ns_system_free(d->learned.system);
    ns_blueprint_free(d->learned.blueprint);
    nsi_free(&memory, d->learned.weights);
    nsi_workspace_free(&d->workspace);
    nsi_term_library_free(&d->library);
    nsi_arena_free(&d->arena);
}

void ns_discover_free(ns_discovery* d) {
    if (!d) return;
    ns_allocator memory = d->allocator;
    discovery_clear(d);
    ns_fit_free(d->fit);
    nsi_free(&memory, d->progress);
    nsi_free(&memory, d);
}

// ---- second pass -------------------------------------------------------------------------------

static uint32_t count_terms(const ns_discovery* d) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < d->active.count; k++) {
        count += nsi_term_is_candidate(&d->library.terms.data[d->active.data[k]]);
    }
    return count;
}

// Is the second result the better one? It must leave much less in held-out windows, or as much with
// fewer terms.
static bool is_better(const ns_discovery* second, const ns_discovery* first) {
    double was = first->held_out[1], is = second->held_out[1];
    uint32_t before = count_terms(first), after = count_terms(second);
    if (second->levels.count == 0) return false;
    return (is < nsi_thresholds.second_pass.much_better * was &&
            after <= before + nsi_thresholds.second_pass.extra_terms) ||
           (is < nsi_thresholds.second_pass.as_good * was && after < before);
}

// Select again with an extended library at one joint.
static ns_status run_extended(ns_discovery* d, const nsi_site* site, ns_discovery* second,
                              ns_error* error) {
    *second = (ns_discovery){.allocator = d->allocator,
                             .arena = {.allocator = d->allocator},
                             .fit = d->fit,
                             .ran = true,
                             .progress = d->progress};
    second->library.allocator = second->workspace.allocator = d->allocator;
    ns_status status = nsi_term_library_make(d->fit, site->link, &second->library, error);
    if (status == NS_OK) status = make_workspace(second, error);
    if (status == NS_OK) status = nsi_discover_select(second, error);
    if (status == NS_OK) {
        second->extended = nsi_arena_string(&second->arena, site->name, strlen(site->name));
        if (!second->extended) status = nsi_fail_nomem(error);
    }
    return status;
}

static void discovery_swap(ns_discovery* a, ns_discovery* b) {
    ns_discovery kept = *a;
    *a = *b;
    *b = kept;
    a->workspace.library = &a->library;
    b->workspace.library = &b->library;
}

// Select again where a law seems to be missing that the library does not have.
static ns_status run_second_pass(ns_discovery* d, ns_error* error) {
    ns_discovery best = {.allocator = d->allocator}, next;
    best.arena.allocator = best.library.allocator = best.workspace.allocator = d->allocator;
    bool any = false;
    nsi_site_list suspects;
    ns_status status = nsi_discover_suspects(d, &suspects, error);

    // The best of a few joints; a result that leaves little ends it.
    for (uint32_t k = 0; k < suspects.count && status == NS_OK; k++) {
        if (k >= nsi_thresholds.second_pass.max_joints) break;
        if (any && !nsi_discover_is_open(&best)) break;
        if (nsi_discover_report_activity(d, "extending the candidate library")) break;
        status = run_extended(d, &d->library.sites.data[suspects.data[k]], &next, error);
        if (status == NS_OK && !d->progress->stopped && is_better(&next, any ? &best : d)) {
            discovery_swap(&best, &next);
            any = true;
        }
        discovery_clear(&next);
    }

    if (status == NS_OK && any) discovery_swap(d, &best);
    discovery_clear(&best);
    nsi_array_free(&d->allocator, &suspects);
    return status;
}

// ---- what was found ----------------------------------------------------------------------------

// The first that holds of a term, whose formula may have a shape.
static ns_verdict judge_term(const ns_discovery* d, uint32_t number, const ns_discovered* found) {
    const nsi_term* t = &d->library.terms.data[number];
    if (t->shape != NSI_NONE) {
        double start = d->library.terms.data[t->shape].start, off = 1e-3 * start;
        if (found->shape <= nsi_thresholds.refit.min_shape * start + off) {
            return NS_VERDICT_AT_LOWER;
        }
        if (found->shape >= nsi_thresholds.refit.max_shape * start - off) {
            return NS_VERDICT_AT_UPPER;
        }
    }
    if (d->traded[number]) return NS_VERDICT_UNDETERMINED;
    if (found->standard_error > 0.5 * fabs(found->value)) return NS_VERDICT_POOR;
    return nsi_discover_is_misfit(d) ? NS_VERDICT_MISFIT : NS_VERDICT_OK;
}

static ns_status list_found(ns_discovery* d, ns_error* error) {
    // Report terms in the order in which they were selected.
    for (uint32_t k = 0; k < d->active.count; k++) {
        uint32_t number = d->active.data[k];
        const nsi_term* t = &d->library.terms.data[number];
        // Parameters that the file fits are no discovery.
        if (!nsi_term_is_candidate(t)) continue;
        // Values of the search are offsets from the start.
        ns_discovered found = {.parameter = t->kind == NSI_TERM_PARAMETER,
                               .quantity = t->quantity,
                               .form = t->form,
                               .value = t->start + d->workspace.values[number],
                               .standard_error = d->errors[number],
                               .start = t->start,
                               .shape = NAN};

        // The scale of a formula is reported as fitted, under one form for all grid points.
        if (t->kind == NSI_TERM_FORMULA && t->shape != NSI_NONE) {
            found.form = "tanh(qd / v)";
            found.shape = d->library.terms.data[t->shape].start + d->workspace.values[t->shape];
        }

        found.verdict = judge_term(d, number, &found);

        // Each discovery has a sentence for people.
        found.text = nsi_discover_sentence(d, &found);
        if (!found.text || !nsi_array_push(&d->allocator, &d->found, found)) {
            return nsi_fail_nomem(error);
        }
    }

    // A fallback network comes last. It has no single value.
    if (!d->learned.blueprint) return NS_OK;
    ns_discovered network = {.quantity = d->learned.quantity,
                             .form = d->learned.form,
                             .text = d->learned.text,
                             .value = NAN,
                             .standard_error = NAN,
                             .shape = NAN,
                             .verdict = NS_VERDICT_OK};
    return nsi_array_push(&d->allocator, &d->found, network) ? NS_OK : nsi_fail_nomem(error);
}

ns_status ns_discover_run(ns_discovery* d, ns_discover_observer* observe, void* context,
                          ns_error* error) {
    if (!d || d->ran) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_discover_run: discovery is NULL, or was run before");
    }
    d->ran = true;
    *d->progress =
        (nsi_discover_progress){.observe = observe, .context = context, .began = nsi_clock_wall()};
    ns_status status = nsi_discover_select(d, error);
    if (status == NS_OK) status = run_second_pass(d, error);
    if (status == NS_OK) status = nsi_discover_learn(d, error);
    if (status == NS_OK) status = list_found(d, error);
    if (status == NS_OK) status = nsi_discover_note(d, error);
    d->seconds = nsi_clock_wall() - d->progress->began;
    return status;
}

uint32_t ns_discover_data_warning_count(const ns_discovery* d) {
    return ns_fit_data_warning_count(d->fit);
}
const char* ns_discover_data_warning(const ns_discovery* d, uint32_t number) {
    return ns_fit_data_warning(d->fit, number);
}

bool ns_discover_stopped(const ns_discovery* d) {
    return d->progress->stopped;
}

uint32_t ns_discover_count(const ns_discovery* d) {
    return d->found.count;
}

const ns_discovered* ns_discover_found(const ns_discovery* d, uint32_t number) {
    return number < d->found.count ? &d->found.data[number] : NULL;
}

// ---- files -------------------------------------------------------------------------------------

// Parameters that are not the model's any more: those that were found, and those that the file
// fits.
static ns_status write_parameters(const ns_discovery* d, nsi_hybrid* file, ns_error* error) {
    const nsi_term_library* library = &d->library;
    const ns_parameters* v = library->variables;
    size_t nz = library->nz, np = nsi_parameters_param_count(v, 0);

    // One block for variables and parameters, before and after.
    double* z = nsi_alloc_zeroed(&d->allocator,
                                 (2 * nz + 2 * np + nsi_parameters_scratch(v) + 1) * sizeof *z);
    if (!z) return nsi_fail_nomem(error);
    double *natural = z + nz, *before = natural + nz, *after = before + np, *scratch = after + np;

    // Parameters before and after the search, in natural units.
    ns_status status = NS_OK;
    nsi_parameters_from_z(v, d->workspace.z0, natural, NULL, scratch);
    nsi_parameters_params(v, 0, natural, before, NULL, scratch);
    // Values of the terms become variables.
    nsi_workspace_variables(&d->workspace, d->workspace.values, z);
    nsi_parameters_from_z(v, z, natural, NULL, scratch);
    nsi_parameters_params(v, 0, natural, after, NULL, scratch);

    // A parameter that the file fits or sets is written even if unchanged, because the file may
    // start from another value than the model.
    const nsi_fit_spec* spec = d->fit->spec;
    for (uint32_t k = 0; k < np && status == NS_OK; k++) {
        const char* name = nsi_parameters_param_names(v, 0)[k];
        bool given = false; // a file that fits or sets it may start elsewhere than the model
        // Parameters that the file fits.
        for (uint32_t i = 0; i < spec->parameters.count; i++) {
            given = given || ns_glob_match(spec->parameters.data[i].name, name);
        }

        // Parameters that the file sets.
        for (uint32_t i = 0; i < spec->settings.count; i++) {
            given = given || ns_glob_match(spec->settings.data[i].name, name);
        }

        // Write what differs from the model.
        if (given || after[k] != before[k])
            status = nsi_fit_set_parameter(d->fit, &file->parameters, d->fit->variants[0].model,
                                           name, after[k], error);
    }
    if (status == NS_OK)
        status = nsi_fit_set_following(d->fit, v, 0, after, &file->parameters, error);

    nsi_free(&d->allocator, z);
    return status;
}

// Weights of networks that the model brings along, and coefficients; `any`: there are some.
static ns_status write_weights(const ns_discovery* d, const ns_blueprint* blueprint,
                               const char* path, bool* any, ns_error* error) {
    *any = true;
    if (d->learned.blueprint)
        return ns_system_save_weights(d->learned.system, d->learned.weights, path, error);
    ns_system* system = NULL;
    ns_system_options options = d->fit->options;
    options.blueprint = blueprint;
    ns_status status = ns_system_create(d->fit->variants[0].model, &options, &system, error);
    if (status != NS_OK) return status;
    size_t nw = ns_system_get_sizes(system).nw;
    *any = nw > 0;
    double* w = nsi_alloc_zeroed(&d->allocator, (nw + 1) * sizeof *w);
    if (w) {
        ns_system_default_weights(system, w);
        status = nsi_discover_base_weights(d->fit, system, w, error);
    } else {
        status = nsi_fail_nomem(error);
    }
    if (status == NS_OK && *any) status = ns_system_save_weights(system, w, path, error);
    nsi_free(&d->allocator, w);
    ns_system_free(system);
    return status;
}

static ns_status write_model(const ns_discovery* d, const char* folder, nsi_copy_notes* notes,
                             ns_error* error) {
    nsi_fit_spec* spec = d->fit->spec;
    nsi_hybrid file = {0};
    ns_blueprint* blueprint = NULL;

    // Paths of the files to write.
    char *path = nsi_fit_join(d->fit, folder, "fitted.yaml"),
         *formulas = nsi_fit_join(d->fit, folder, "fitted_blueprint.yaml"),
         *weights = nsi_fit_join(d->fit, folder, "weights.safetensors");
    const char* model = nsi_fit_spec_path(spec, spec->model);
    ns_status status = path && formulas && weights && model ? NS_OK : nsi_fail_nomem(error);

    // Extend an existing hybrid file; wrap a robot file in a new one.
    if (status == NS_OK && ns_hybrid_is_path(model)) {
        status = nsi_hybrid_read(model, &d->allocator, &file, error);
    } else if (status == NS_OK) {
        nsi_hybrid_init(&d->allocator, &file);
        file.robot = model;
    }

    // Fitted parameters.
    if (status == NS_OK) status = write_parameters(d, &file, error);

    // Formulas, or the network together with the formulas that remain.
    if (status == NS_OK && !d->learned.blueprint) {
        status = nsi_term_library_blueprint(&d->library, d->fit, d->active.data, d->active.count,
                                            d->workspace.values, &blueprint, error);
    }
    const ns_blueprint* written = d->learned.blueprint ? d->learned.blueprint : blueprint;
    // An unchanged model needs no blueprint.
    bool any = status == NS_OK &&
               (ns_blueprint_network_count(written) > 0 || ns_blueprint_formula_count(written) > 0);

    // Weights are needed only if networks are part of the blueprint.
    if (any) {
        status = nsi_blueprint_write(formulas, written, NULL, &d->allocator, error);
        file.blueprint = formulas;
        file.weights = NULL;
        if (status == NS_OK && (nsi_discover_base(d->fit) || d->learned.blueprint)) {
            bool some;
            status = write_weights(d, written, weights, &some, error);
            if (some) file.weights = weights;
        }
    }

    // Record the simulation options that the parameters were fitted with.
    if (status == NS_OK) {
        if (spec->contact >= 0) file.contact = spec->contact;
        file.integrator = (int)d->workspace.problem->sizes.integrator;
        file.timestep = d->fit->timestep;
        // The ground may come from the model file or the fit file.
        file.ground = file.ground || spec->ground;
        file.self_collision = file.self_collision || spec->self_collision;
        file.floating_base = file.floating_base || spec->floating_base;
        // The folder gets a copy of the robot, so that it can be moved.
        const ns_model* robot = d->fit->variants[0].model;
        status = nsi_copy_robots(folder, &robot, &file, notes, &d->allocator, error);
    }
    if (status == NS_OK) {
        status = nsi_hybrid_write(path, &file, &d->allocator, error);
    }

    // Remove files of an earlier result that this one does not use.
    if (status == NS_OK && !any) remove(formulas);
    if (status == NS_OK && (!any || !file.weights)) remove(weights);

    ns_blueprint_free(blueprint);
    nsi_hybrid_free(&file);
    nsi_free(&d->allocator, path);
    nsi_free(&d->allocator, formulas);
    nsi_free(&d->allocator, weights);
    return status;
}

ns_status ns_discover_save(const ns_discovery* d, const char* folder, ns_error* error) {
    if (d->progress->stopped && d->found.count == 0) return NS_OK;
    ns_status status = ns_fit_check_folder(d->fit, folder, error);
    if (status != NS_OK) return status;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return nsi_fail(error, NS_ERR_IO, "cannot make the folder %s: %s", folder, strerror(errno));
    }
    ns_report* report = NULL;
    nsi_copy_notes notes = {0};
    status = write_model(d, folder, &notes, error);
    if (status == NS_OK) status = ns_discover_report(d, &report, error);
    if (status == NS_OK && notes.count > 0) {
        ns_section* section = ns_report_add_section(report, "Files");
        for (uint32_t k = 0; k < notes.count; k++) {
            ns_section_add_note(section, NS_NOTE_INFO, notes.data[k]);
        }
    }
    if (status == NS_OK) status = nsi_fit_write_report(d->fit, report, folder, error);
    ns_report_free(report);
    nsi_copy_notes_free(&d->allocator, &notes);
    return status;
}
