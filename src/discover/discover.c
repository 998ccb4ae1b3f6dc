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

static ns_status make_bench(ns_discovery* d, ns_error* error) {
    ns_status status = nsi_workspace_make(d->fit, &d->dictionary, &d->bench, error);
    if (status != NS_OK) return status;
    d->bench.watch = d->watch;
    size_t terms = (size_t)d->dictionary.terms.count + 1;
    d->errors = nsi_alloc_zeroed(&d->allocator, terms * sizeof *d->errors);
    return d->errors ? NS_OK : nsi_fail_nomem(error);
}

ns_status ns_discover_load(const char* path, uint32_t threads, ns_discovery** out,
                           ns_error* error) {
    if (out) *out = NULL;
    if (!path || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_discover_load: path or out is NULL");
    }
    ns_allocator memory = ns_default_allocator();
    ns_discovery* d = nsi_alloc_zeroed(&memory, sizeof *d);
    if (!d) return nsi_fail_nomem(error);
    d->allocator = memory;
    d->arena.allocator = memory;
    d->dictionary.allocator = d->bench.allocator = memory;
    d->watch = nsi_alloc_zeroed(&memory, sizeof *d->watch);
    ns_status status =
        d->watch ? nsi_fit_open(path, threads, NULL, &d->fit, error) : nsi_fail_nomem(error);
    if (status == NS_OK && d->fit->plan->learned) {
        status = nsi_fail(error, NS_ERR_UNSUPPORTED,
                          "%.200s: a `learned` system has no physics in which something could be"
                          " missing; leave `learned` out",
                          path);
    }
    if (status == NS_OK && d->fit->variants[0].name) {
        status = nsi_fail(error, NS_ERR_UNSUPPORTED,
                          "%.200s: discovery looks at one robot; give one `model` in place of"
                          " variants",
                          path);
    }
    if (status == NS_OK) status = nsi_dictionary_make(d->fit, NULL, &d->dictionary, error);
    if (status == NS_OK && d->dictionary.terms.count == 0) {
        status =
            nsi_fail(error, NS_ERR_PARSE,
                     "%.200s: there is nothing to look at: the model has no joint that moves, or"
                     " `discover` leaves nothing",
                     path);
    }
    if (status == NS_OK) status = make_bench(d, error);
    if (status != NS_OK) {
        ns_discover_free(d);
        return status;
    }
    *out = d;
    return NS_OK;
}

// All but what second looks share.
static void clear(ns_discovery* d) {
    ns_allocator memory = d->allocator;
    nsi_array_free(&memory, &d->active);
    nsi_array_free(&memory, &d->moves);
    nsi_array_free(&memory, &d->ranks);
    nsi_array_free(&memory, &d->rest);
    nsi_array_free(&memory, &d->levels);
    nsi_array_free(&memory, &d->found);
    nsi_array_free(&memory, &d->notes);
    nsi_free(&memory, d->errors);
    ns_system_free(d->learned.system);
    ns_blueprint_free(d->learned.blueprint);
    nsi_free(&memory, d->learned.weights);
    nsi_workspace_free(&d->bench);
    nsi_dictionary_free(&d->dictionary);
    nsi_arena_free(&d->arena);
}

void ns_discover_free(ns_discovery* d) {
    if (!d) return;
    ns_allocator memory = d->allocator;
    clear(d);
    ns_fit_free(d->fit);
    nsi_free(&memory, d->watch);
    nsi_free(&memory, d);
}

// ---- a second look -----------------------------------------------------------------------------

static uint32_t count_terms(const ns_discovery* d) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < d->active.count; k++) {
        count += nsi_term_is_candidate(&d->dictionary.terms.data[d->active.data[k]]);
    }
    return count;
}

// Is the second answer the better one? It must leave much less of what was not fitted, or as much with fewer
// terms.
static bool is_better(const ns_discovery* second, const ns_discovery* first) {
    double was = first->held_out[1], is = second->held_out[1];
    uint32_t before = count_terms(first), after = count_terms(second);
    if (second->levels.count == 0) return false;
    return (is < 0.5 * was && after <= before + 2) || (is < 1.1 * was && after < before);
}

// Once more with a wider dictionary at one joint.
static ns_status widen(ns_discovery* d, const char* place, ns_discovery* second, ns_error* error) {
    *second = (ns_discovery){.allocator = d->allocator,
                             .arena = {.allocator = d->allocator},
                             .fit = d->fit,
                             .ran = true,
                             .watch = d->watch};
    second->dictionary.allocator = second->bench.allocator = d->allocator;
    ns_status status = nsi_dictionary_make(d->fit, place, &second->dictionary, error);
    if (status == NS_OK) status = make_bench(second, error);
    if (status == NS_OK) status = nsi_discover_select(second, error);
    if (status == NS_OK) {
        second->wide = nsi_arena_string(&second->arena, place, strlen(place));
        if (!second->wide) status = nsi_fail_nomem(error);
    }
    return status;
}

static void exchange(ns_discovery* a, ns_discovery* b) {
    ns_discovery kept = *a;
    *a = *b;
    *b = kept;
    a->bench.dictionary = &a->dictionary;
    b->bench.dictionary = &b->dictionary;
}

// Look again where a law seems to be missing that the first dictionary has not.
static ns_status look_again(ns_discovery* d, ns_error* error) {
    enum { MOST_LOOKS = 3 };
    ns_discovery best = {.allocator = d->allocator}, next;
    ns_status status = NS_OK;
    best.arena.allocator = best.dictionary.allocator = best.bench.allocator = d->allocator;
    bool any = false;
    for (uint32_t k = 0; k < MOST_LOOKS && status == NS_OK; k++) {
        const char* place = nsi_discover_suspect(d, k);
        if (!place || (any && !nsi_discover_is_open(&best))) break;
        if (nsi_discover_tell(d, "widening the dictionary")) break;
        status = widen(d, place, &next, error);
        if (status == NS_OK && !d->watch->stopped && is_better(&next, any ? &best : d)) {
            exchange(&best, &next);
            any = true;
        }
        clear(&next);
    }
    if (status == NS_OK && any) exchange(d, &best);
    clear(&best);
    return status;
}

// ---- what was found ----------------------------------------------------------------------------

static ns_status list_found(ns_discovery* d, ns_error* error) {
    for (uint32_t k = 0; k < d->active.count; k++) {
        uint32_t number = d->active.data[k];
        const nsi_term* t = &d->dictionary.terms.data[number];
        if (!nsi_term_is_candidate(t)) continue;
        ns_discovered found = {.parameter = t->kind == NSI_TERM_PARAMETER,
                               .quantity = t->place,
                               .form = t->form,
                               .value = t->start + d->bench.values[number],
                               .standard_error = d->errors[number],
                               .start = t->start,
                               .shape = NAN};
        if (t->kind == NSI_TERM_FORMULA && t->of != NSI_NONE) {
            found.form = "tanh(qd / v)";
            found.shape = d->dictionary.terms.data[t->of].start + d->bench.values[t->of];
        }
        found.text = nsi_discover_sentence(d, &found);
        if (!found.text || !nsi_array_push(&d->allocator, &d->found, found)) {
            return nsi_fail_nomem(error);
        }
    }
    if (!d->learned.blueprint) return NS_OK;
    ns_discovered network = {.quantity = d->learned.place,
                             .form = d->learned.form,
                             .text = d->learned.text,
                             .value = NAN,
                             .standard_error = NAN,
                             .shape = NAN};
    return nsi_array_push(&d->allocator, &d->found, network) ? NS_OK : nsi_fail_nomem(error);
}

ns_status ns_discover_run(ns_discovery* d, ns_discover_observer* observe, void* context,
                          ns_error* error) {
    if (!d || d->ran) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_discover_run: discovery is NULL, or was run before");
    }
    d->ran = true;
    *d->watch = (nsi_watch){.observe = observe, .context = context, .began = nsi_clock_wall()};
    ns_status status = nsi_discover_select(d, error);
    if (status == NS_OK) status = look_again(d, error);
    if (status == NS_OK) status = nsi_discover_learn(d, error);
    if (status == NS_OK) status = list_found(d, error);
    if (status == NS_OK) status = nsi_discover_note(d, error);
    d->seconds = nsi_clock_wall() - d->watch->began;
    return status;
}

bool ns_discover_stopped(const ns_discovery* d) {
    return d->watch->stopped;
}

uint32_t ns_discover_count(const ns_discovery* d) {
    return d->found.count;
}

const ns_discovered* ns_discover_found(const ns_discovery* d, uint32_t number) {
    return number < d->found.count ? &d->found.data[number] : NULL;
}

// ---- files -------------------------------------------------------------------------------------

// Parameters that are not the model's any more: those that were found, and those that the file fits.
static ns_status set_parameters(const ns_discovery* d, nsi_hybrid* file, ns_error* error) {
    const nsi_dictionary* dictionary = &d->dictionary;
    const ns_parameters* v = dictionary->variables;
    size_t nz = dictionary->nz, np = nsi_parameters_param_count(v, 0);
    double* z = nsi_alloc_zeroed(&d->allocator,
                                 (2 * nz + 2 * np + nsi_parameters_scratch(v) + 1) * sizeof *z);
    if (!z) return nsi_fail_nomem(error);
    double *natural = z + nz, *before = natural + nz, *after = before + np, *scratch = after + np;
    ns_status status = NS_OK;
    nsi_parameters_from_z(v, d->bench.z0, natural, NULL, scratch);
    nsi_parameters_params(v, 0, natural, before, NULL, scratch);
    nsi_workspace_variables(&d->bench, d->bench.values, z);
    nsi_parameters_from_z(v, z, natural, NULL, scratch);
    nsi_parameters_params(v, 0, natural, after, NULL, scratch);
    const nsi_fit_spec* plan = d->fit->plan;
    for (uint32_t k = 0; k < np && status == NS_OK; k++) {
        const char* name = nsi_parameters_param_names(v, 0)[k];
        bool given = false; // a file that fits or sets it may start elsewhere than the model
        for (uint32_t i = 0; i < plan->parameters.count; i++) {
            given = given || ns_glob_match(plan->parameters.data[i].name, name);
        }
        for (uint32_t i = 0; i < plan->settings.count; i++) {
            given = given || ns_glob_match(plan->settings.data[i].name, name);
        }
        if (given || after[k] != before[k])
            status = nsi_fit_set_parameter(d->fit, &file->parameters,
                                           ns_hybrid_model(d->fit->hybrid), name, after[k], error);
    }
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
    ns_status status = ns_system_create(ns_hybrid_model(d->fit->hybrid), &options, &system, error);
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

static ns_status write_model(const ns_discovery* d, const char* folder, ns_error* error) {
    nsi_fit_spec* plan = d->fit->plan;
    nsi_hybrid file = {0};
    ns_blueprint* blueprint = NULL;
    char *path = nsi_fit_join(d->fit, folder, "fitted.yaml"),
         *formulas = nsi_fit_join(d->fit, folder, "blueprint.yaml"),
         *weights = nsi_fit_join(d->fit, folder, "weights.safetensors");
    const char* model = nsi_fit_spec_path(plan, plan->model);
    ns_status status = path && formulas && weights && model ? NS_OK : nsi_fail_nomem(error);
    if (status == NS_OK && ns_hybrid_is_path(model)) {
        status = nsi_hybrid_read(model, &d->allocator, &file, error);
    } else if (status == NS_OK) {
        nsi_hybrid_init(&d->allocator, &file);
        file.robot = model;
    }
    if (status == NS_OK) status = set_parameters(d, &file, error);
    if (status == NS_OK && !d->learned.blueprint) {
        status = nsi_dictionary_blueprint(&d->dictionary, d->fit, d->active.data, d->active.count,
                                          d->bench.values, &blueprint, error);
    }
    const ns_blueprint* written = d->learned.blueprint ? d->learned.blueprint : blueprint;
    bool any = status == NS_OK &&
               (ns_blueprint_network_count(written) > 0 || ns_blueprint_formula_count(written) > 0);
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
    if (status == NS_OK) {
        if (plan->contact >= 0) file.contact = plan->contact;
        file.integrator = (int)d->bench.problem->sizes.integrator;
        file.timestep = d->fit->timestep;
        file.ground = file.ground || plan->ground;
        file.self_collision = file.self_collision || plan->self_collision;
        const ns_model* robot = ns_hybrid_model(d->fit->hybrid);
        status = nsi_copy_robots(folder, &robot, &file, &d->allocator, error);
    }
    if (status == NS_OK) {
        status = nsi_hybrid_write(path, &file, &d->allocator, error);
    }
    // Those of an earlier answer would be taken for this one's.
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
    if (d->watch->stopped && d->found.count == 0) return NS_OK;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return nsi_fail(error, NS_ERR_IO, "cannot make the folder %s: %s", folder, strerror(errno));
    }
    ns_report* report = NULL;
    ns_status status = write_model(d, folder, error);
    if (status == NS_OK) status = ns_discover_report(d, &report, error);
    if (status == NS_OK) status = nsi_fit_write_report(d->fit, report, folder, error);
    ns_report_free(report);
    return status;
}
