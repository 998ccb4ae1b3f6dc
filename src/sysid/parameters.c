// Parameters to estimate: requests, globs and lookup; and the maps between them and systems.
//
// Maps are traced as graphs when the parameters are first used, so that their derivatives are those
// of expr.

#include "io/numbers.h"
#include "neuralsim/words.h"
#include "sysid/parameters_state.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

ns_parameter ns_default_parameter(void) {
    return (ns_parameter){
        .initial = NAN, .lower = NAN, .upper = NAN, .scale = NAN, .prior_sigma = NAN};
}

// ---- messages ------------------------------------------------------------------------------------

ns_status nsi_parameters_fail(const nsi_place* place, ns_error* error, const char* format, ...) {
    char what[NS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (!place->file) return nsi_fail(error, NS_ERR_ARGUMENT, "%s", what);
    return nsi_fail(error, NS_ERR_PARSE, "%.200s:%u:%u: %s", place->file, place->line,
                    place->column, what);
}

ns_status nsi_parameters_fail_unknown(const ns_parameters* v, const char* name,
                                      const nsi_place* place, ns_error* error) {
    ns_nearest nearest = {.wanted = name};
    char quote[NSI_QUOTE_SIZE], hint[NS_HINT_SIZE];
    for (uint32_t m = 0; m < v->nvariant; m++) {
        for (uint32_t k = 0; k < v->variants[m].nparam; k++) {
            ns_nearest_offer(&nearest, ns_model_param(v->variants[m].variant.model, k)->name);
        }
    }
    const char* who = v->nvariant > 1 ? "no parameter of any variant" : "no parameter";
    nsi_quote(name, strlen(name), quote);
    // A name with a "/" is one of the model's; any other may be one of the user's own.
    if (ns_nearest_likely(&nearest) || strchr(name, '/')) {
        return nsi_parameters_fail(place, error, "%s matches %s%s", who, quote,
                                   ns_nearest_hint(&nearest, hint));
    }
    return nsi_parameters_fail(place, error,
                               "%s matches %s; `neuralsim inspect MODEL --params` lists them, and a"
                               " number of your own needs an initial value",
                               who, quote);
}

// ---- creation ------------------------------------------------------------------------------------

// Values of the model's parameters, after `set` of the options.
static ns_status begin_variant(const ns_parameters* v, nsi_variant_parameters* t, ns_error* error) {
    const ns_model* model = t->variant.model;
    t->nparam = ns_model_get_sizes(model).nparam;
    size_t count = (size_t)t->nparam + 1;
    t->values = nsi_alloc(&v->allocator, count * sizeof *t->values);
    t->role = nsi_alloc_zeroed(&v->allocator, count);
    t->number = nsi_alloc(&v->allocator, count * sizeof *t->number);
    if (!t->values || !t->role || !t->number) return nsi_fail_nomem(error);
    for (uint32_t i = 0; i < t->nparam; i++) {
        t->values[i] = ns_model_param(model, i)->value;
        for (uint32_t k = 0; k < t->options.nset; k++) {
            if (ns_glob_match(t->options.set[k].pattern, ns_model_param(model, i)->name)) {
                t->values[i] = t->options.set[k].value;
            }
        }
    }
    return NS_OK;
}

static ns_status check_variant_list(const ns_variant* variants, uint32_t nvariant,
                                    ns_error* error) {
    if (!variants || nvariant == 0) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_parameters_create: there is no variant");
    }
    for (uint32_t k = 0; k < nvariant; k++) {
        const ns_variant* v = &variants[k];
        if (v->model && (nvariant == 1 || (v->name && v->files))) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_parameters_create: variant %u has no %s", k,
                        !v->model  ? "model"
                        : !v->name ? "name"
                                   : "files");
    }
    return NS_OK;
}

ns_status ns_parameters_create(const ns_variant* variants, uint32_t nvariant,
                               const ns_allocator* allocator, ns_parameters** out,
                               ns_error* error) {
    if (!out) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_parameters_create: out is NULL");
    *out = NULL;
    ns_status status = check_variant_list(variants, nvariant, error);
    if (status != NS_OK) return status;
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    ns_parameters* v = nsi_alloc_zeroed(&memory, sizeof *v);
    if (!v) return nsi_fail_nomem(error);
    v->allocator = v->arena.allocator = memory;
    v->variants = nsi_alloc_zeroed(&memory, nvariant * sizeof *v->variants);
    if (!v->variants) status = nsi_fail_nomem(error);
    for (uint32_t k = 0; k < nvariant && status == NS_OK; k++) {
        nsi_variant_parameters* t = &v->variants[v->nvariant++];
        t->variant = variants[k];
        t->options = variants[k].options ? *variants[k].options : ns_default_system_options();
        t->variant.options = &t->options;
        status = begin_variant(v, t, error);
    }
    if (status != NS_OK) {
        ns_parameters_free(v);
        return status;
    }
    *out = v;
    return NS_OK;
}

void ns_parameters_free(ns_parameters* v) {
    if (!v) return;
    ns_allocator memory = v->allocator;
    ns_program_free(v->natural);
    for (uint32_t m = 0; v->variants && m < v->nvariant; m++) {
        nsi_variant_parameters* t = &v->variants[m];
        for (uint32_t k = 0; k < t->formulas.count; k++) {
            ns_formula_free(t->formulas.data[k].formula);
        }
        ns_program_free(t->program);
        nsi_array_free(&memory, &t->formulas);
        nsi_array_free(&memory, &t->links);
        nsi_array_free(&memory, &t->names);
        nsi_array_free(&memory, &t->ranges);
        nsi_free(&memory, t->values);
        nsi_free(&memory, t->role);
        nsi_free(&memory, t->number);
    }
    nsi_free(&memory, v->variants);
    nsi_array_free(&memory, &v->items);
    nsi_array_free(&memory, &v->requests);
    nsi_array_free(&memory, &v->bodies);
    nsi_arena_free(&v->arena);
    nsi_free(&memory, v);
}

// ---- requests ------------------------------------------------------------------------------------

// What is asked for: by a call or by a file.
typedef struct request {
    const char* name;
    const ns_parameter* how;
    const nsi_place* place;
    uint32_t number;
} request;

static double parameters_or_else(double x, double otherwise) {
    return isnan(x) ? otherwise : x;
}

static ns_status push_item(ns_parameters* v, const ns_parameter_info* item, const request* r,
                           ns_error* error) {
    if (!nsi_array_push(&v->allocator, &v->items, *item)) return nsi_fail_nomem(error);
    if (nsi_array_push(&v->allocator, &v->requests, r->number)) return NS_OK;
    v->items.count--;
    return nsi_fail_nomem(error);
}

// A number of the user's own has neither '/' nor a wildcard.
static bool is_own_name(const char* name) {
    return strpbrk(name, "/*?") == NULL;
}

static ns_status add_own_number(ns_parameters* v, const request* r, ns_error* error) {
    if (isnan(r->how->initial)) return nsi_parameters_fail_unknown(v, r->name, r->place, error);
    ns_parameter_info item = {.unit = "",
                              .initial = r->how->initial,
                              .lower = parameters_or_else(r->how->lower, -INFINITY),
                              .upper = parameters_or_else(r->how->upper, INFINITY)};
    item.name = nsi_arena_string(&v->arena, r->name, strlen(r->name));
    if (!item.name) return nsi_fail_nomem(error);
    if (ns_parameters_find(v, r->name) != UINT32_MAX) {
        return nsi_parameters_fail(r->place, error, "%s is asked for twice", r->name);
    }
    ns_status status = nsi_choose_transform(r->how, false, r->place, &item, error);
    return status == NS_OK ? push_item(v, &item, r, error) : status;
}

// A parameter that another variant has, too: what it was asked for there holds here.
static ns_status share_param(const ns_parameters* v, const request* r,
                             const nsi_variant_parameters* t, uint32_t param, uint32_t number,
                             ns_error* error) {
    const ns_parameter_info* item = &v->items.data[number];
    if (v->requests.data[number] != r->number) {
        return nsi_parameters_fail(r->place, error, "%s is asked for twice", item->name);
    }
    if (!isnan(r->how->initial) || t->values[param] == item->initial) return NS_OK;
    const nsi_variant_parameters* first = v->variants;
    for (uint32_t at; first < t; first++) { // where it was found
        at = ns_model_find_param(first->variant.model, item->name);
        if (at != NSI_NONE && first->role[at] == NSI_PARAM_ESTIMATED) break;
    }
    return nsi_parameters_fail(r->place, error,
                               "%s is %g in variant %.60s and %g in %.60s, and can have one initial"
                               " value only; give it",
                               item->name, item->initial, first->variant.name, t->values[param],
                               t->variant.name);
}

static ns_status add_param(ns_parameters* v, const request* r, nsi_variant_parameters* t,
                           uint32_t param, ns_error* error) {
    const ns_param* p = ns_model_param(t->variant.model, param);
    if (t->role[param] != NSI_PARAM_FIXED) {
        return nsi_parameters_fail(r->place, error, "%s is asked for twice", p->name);
    }
    uint32_t shared = t != v->variants ? ns_parameters_find(v, p->name) : NSI_NONE;
    t->role[param] = NSI_PARAM_ESTIMATED;
    t->number[param] = shared != NSI_NONE ? shared : v->items.count;
    if (shared != NSI_NONE) return share_param(v, r, t, param, shared, error);

    // Masses and moments of inertia are positive even where the model's range is wider.
    bool moment = p->kind == NS_PARAM_INERTIA && p->component < 3; // xx yy zz
    bool mass = p->kind == NS_PARAM_MASS;
    bool logarithm = moment || mass || (p->transform == NS_TRANSFORM_LOG && !p->may_vanish);
    ns_parameter_info item = {
        .name = p->name,
        .unit = p->unit,
        .initial = parameters_or_else(r->how->initial, t->values[param]),
        .lower = parameters_or_else(r->how->lower, moment || mass ? 0.0 : p->lower),
        .upper = parameters_or_else(r->how->upper, p->upper)};
    ns_status status = nsi_choose_transform(r->how, logarithm, r->place, &item, error);
    return status == NS_OK ? push_item(v, &item, r, error) : status;
}

// Does a parameter belong to a link that is fixed to the world, as the base of a robot often is, or to
// its joint?
static bool is_welded(const ns_model* model, const ns_param* param) {
    if (param->kind > NS_PARAM_JOINT_LIMIT_DAMPING) return false;
    for (uint32_t up = param->owner; up != UINT32_MAX; up = ns_model_link_parent(model, up)) {
        if (ns_joint_type_info(ns_model_link(model, up)->joint_type)->nv > 0) return false;
    }
    return true;
}

// All parameters of a variant that match; globs pass over welded links.
static ns_status add_matches(ns_parameters* v, const request* r, nsi_variant_parameters* t,
                             bool* found, ns_error* error) {
    for (uint32_t i = 0; i < t->nparam; i++) {
        const ns_param* param = ns_model_param(t->variant.model, i);
        if (!ns_glob_match(r->name, param->name)) continue;
        *found = true;
        if (strcmp(param->name, r->name) != 0 && is_welded(t->variant.model, param)) continue;
        ns_status status = add_param(v, r, t, i, error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

// Take back what a request that failed has added.
static void drop_request(ns_parameters* v, const uint8_t* roles, uint32_t count) {
    v->items.count = v->requests.count = count;
    for (uint32_t m = 0; m < v->nvariant; m++) {
        memcpy(v->variants[m].role, roles, v->variants[m].nparam);
        roles += v->variants[m].nparam;
    }
}

static ns_status add_request(ns_parameters* v, const char* name, const ns_parameter* how,
                             const nsi_place* place, ns_error* error) {
    // A name of the set itself, or a glob over the parameters of the variants.
    request r = {.name = name, .how = how, .place = place, .number = v->nrequest};
    ns_status status = NS_OK;
    bool found = is_own_name(name);
    uint32_t count = v->items.count;
    size_t nrole = 0;

    // Roles as they are, for a failure on the way.
    for (uint32_t m = 0; m < v->nvariant; m++) nrole += v->variants[m].nparam;
    uint8_t* roles = nsi_alloc(&v->allocator, nrole + 1);
    if (!roles) return nsi_fail_nomem(error);
    nrole = 0;
    for (uint32_t m = 0; m < v->nvariant; m++) {
        memcpy(roles + nrole, v->variants[m].role, v->variants[m].nparam);
        nrole += v->variants[m].nparam;
    }

    // Add what matches.
    if (found) status = add_own_number(v, &r, error);
    for (uint32_t m = 0; m < v->nvariant && !is_own_name(name) && status == NS_OK; m++) {
        status = add_matches(v, &r, &v->variants[m], &found, error);
    }

    // A request that fails leaves the set as it was.
    if (status == NS_OK && !found) status = nsi_parameters_fail_unknown(v, name, place, error);
    if (status != NS_OK) drop_request(v, roles, count);

    // Its number tells parameters of one glob from those of another.
    v->nrequest += status == NS_OK;
    nsi_free(&v->allocator, roles);
    return status;
}

static ns_status check_open(const ns_parameters* v, const char* name, const char* call,
                            ns_error* error) {
    if (!v || !name) return nsi_fail(error, NS_ERR_ARGUMENT, "%s: an argument is NULL", call);
    if (!v->finished) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "%s: %.200s: the parameters are in use", call, name);
}

ns_status ns_parameters_add(ns_parameters* v, const char* name, const ns_parameter* how,
                            ns_error* error) {
    ns_parameter defaults = ns_default_parameter();
    ns_status status = check_open(v, name, "ns_parameters_add", error);
    if (status != NS_OK) return status;
    return add_request(v, name, how ? how : &defaults, &(nsi_place){0}, error);
}

ns_status ns_parameters_set(ns_parameters* v, const char* name, const char* formula,
                            ns_error* error) {
    ns_status status = check_open(v, formula ? name : NULL, "ns_parameters_set", error);
    if (status != NS_OK) return status;
    return nsi_parameters_set_formula(v, name, formula, &(nsi_place){0}, error);
}

ns_status nsi_parameters_read(const ns_variant* variants, uint32_t nvariant, const char* file,
                              const nsi_parameter_request* requests, uint32_t nrequest,
                              const nsi_setting_request* settings, uint32_t nsetting,
                              const ns_allocator* allocator, ns_parameters** out, ns_error* error) {
    ns_parameters* v = NULL;
    ns_status status = ns_parameters_create(variants, nvariant, allocator, &v, error);
    for (uint32_t k = 0; k < nrequest && status == NS_OK; k++) {
        const nsi_parameter_request* r = &requests[k];
        nsi_place place = {r->file ? r->file : file, r->line, r->column};
        status = add_request(v, r->name, &r->how, &place, error);
    }
    for (uint32_t k = 0; k < nsetting && status == NS_OK; k++) {
        const nsi_setting_request* r = &settings[k];
        nsi_place place = {r->file ? r->file : file, r->line, r->column};
        status = nsi_parameters_set_formula(v, r->name, r->formula, &place, error);
    }
    if (status == NS_OK) status = nsi_parameters_finish(v, error);
    if (status != NS_OK) ns_parameters_free(v);
    *out = status == NS_OK ? v : NULL;
    return status;
}

// ---- maps ----------------------------------------------------------------------------------------

// Trace z -> v (variant NSI_NONE) or v -> p of a variant, with derivatives.
static ns_status build_map(ns_parameters* v, uint32_t variant, ns_program** out, ns_error* error) {
    ns_graph *graph = NULL, *derivative = NULL;
    ns_status status = ns_graph_create(&v->allocator, &graph, error);
    if (status == NS_OK) status = ns_trace_begin(graph, error);
    if (status == NS_OK) {
        ns_error end;
        status =
            variant == NSI_NONE ? nsi_trace_natural(v, error) : nsi_trace_params(v, variant, error);
        ns_status ended = ns_trace_end(&end);
        if (status == NS_OK && ended != NS_OK) status = nsi_fail(error, ended, "%s", end.message);
    }
    if (status == NS_OK) status = ns_graph_jvp(graph, NULL, &derivative, error);
    if (status == NS_OK) status = ns_program_build(derivative, NULL, out, error);
    ns_graph_free(derivative);
    ns_graph_free(graph);
    return status;
}

// Names and ranges of p.
static ns_status name_params(const ns_parameters* v, nsi_variant_parameters* t, ns_error* error) {
    t->names.count = t->ranges.count = 0;
    for (uint32_t i = 0; i < t->nparam; i++) {
        if (t->role[i] == NSI_PARAM_FIXED) continue;
        const ns_param* param = ns_model_param(t->variant.model, i);
        nsi_range r = {param->lower, param->upper};
        if (!nsi_array_push(&v->allocator, &t->names, param->name) ||
            !nsi_array_push(&v->allocator, &t->ranges, r)) {
            return nsi_fail_nomem(error);
        }
    }
    return NS_OK;
}

ns_status nsi_parameters_finish(ns_parameters* v, ns_error* error) {
    ns_status status = NS_OK;
    if (v->finished) return NS_OK;
    // What an attempt that failed has left.
    v->bodies.count = 0;
    ns_program_free(v->natural);
    v->natural = NULL;
    for (uint32_t m = 0; m < v->nvariant && status == NS_OK; m++) {
        v->variants[m].links.count = 0;
        ns_program_free(v->variants[m].program);
        v->variants[m].program = NULL;
        status = name_params(v, &v->variants[m], error);
    }
    if (status == NS_OK) status = nsi_find_links(v, error);
    if (status == NS_OK) status = build_map(v, NSI_NONE, &v->natural, error);
    for (uint32_t m = 0; m < v->nvariant && status == NS_OK; m++) {
        status = build_map(v, m, &v->variants[m].program, error);
    }
    v->finished = status == NS_OK;
    return status;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

size_t nsi_parameters_scratch(const ns_parameters* v) {
    size_t most = v->items.count, work = ns_program_work_size(v->natural);
    for (uint32_t m = 0; m < v->nvariant; m++) {
        most = larger(most, v->variants[m].names.count);
        work = larger(work, ns_program_work_size(v->variants[m].program));
    }
    return 2 * ((size_t)v->items.count + 1) + 2 * (most + 1) + work / sizeof(double) + 1;
}

// Value (count) and derivatives (count x n) of one of the maps.
static void run_map(const ns_parameters* v, const ns_program* program, const double* x,
                    uint32_t count, double* value, double* derivative, double* scratch) {
    uint32_t n = v->items.count;
    double *in = scratch, *out = in + 2 * ((size_t)n + 1);
    ns_run job = {.in = in, .out = out, .work = out + 2 * ((size_t)larger(n, count) + 1)};
    memcpy(in, x, n * sizeof(double));
    memset(in + n, 0, n * sizeof(double));
    ns_program_run(program, &job);
    memcpy(value, out, count * sizeof(double));

    // One direction after the other.
    for (uint32_t j = 0; derivative && j < n; j++) {
        in[n + j] = 1.0;
        ns_program_run(program, &job);
        in[n + j] = 0.0;
        for (uint32_t i = 0; i < count; i++) derivative[(size_t)i * n + j] = out[count + i];
    }
}

void nsi_parameters_from_z(const ns_parameters* v, const double* z, double* natural, double* dv,
                           double* scratch) {
    run_map(v, v->natural, z, v->items.count, natural, dv, scratch);
}

void nsi_parameters_params(const ns_parameters* v, uint32_t variant, const double* natural,
                           double* p, double* dp, double* scratch) {
    const nsi_variant_parameters* t = &v->variants[variant];
    run_map(v, t->program, natural, t->names.count, p, dp, scratch);
}

// ---- lookup --------------------------------------------------------------------------------------

uint32_t ns_parameters_count(const ns_parameters* v) {
    return v->items.count;
}

const ns_parameter_info* ns_parameters_at(const ns_parameters* v, uint32_t number) {
    return number < v->items.count ? &v->items.data[number] : NULL;
}

uint32_t ns_parameters_find(const ns_parameters* v, const char* name) {
    for (uint32_t k = 0; k < v->items.count; k++) {
        if (strcmp(v->items.data[k].name, name) == 0) return k;
    }
    return UINT32_MAX;
}

ns_status ns_parameters_set_initial(ns_parameters* v, const char* name, double value,
                                    ns_error* error) {
    if (!v || !name) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_parameters_set_initial: an argument is NULL");
    }
    uint32_t number = ns_parameters_find(v, name);
    if (number == UINT32_MAX) {
        ns_nearest nearest = {.wanted = name};
        char hint[NS_HINT_SIZE];
        for (uint32_t k = 0; k < v->items.count; k++) {
            ns_nearest_offer(&nearest, v->items.data[k].name);
        }
        return nsi_fail(error, NS_ERR_ARGUMENT, "no parameter \"%.200s\" is estimated%s", name,
                        ns_nearest_hint(&nearest, hint));
    }
    ns_parameter_info* item = &v->items.data[number];
    if (!(isfinite(value) && value >= item->lower && value <= item->upper)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "%s: the initial value %g is not between %g and %g",
                        name, value, item->lower, item->upper);
    }
    item->initial = value;
    return NS_OK;
}

const ns_allocator* nsi_parameters_allocator(const ns_parameters* v) {
    return &v->allocator;
}

uint32_t nsi_parameters_variant_count(const ns_parameters* v) {
    return v->nvariant;
}

const ns_variant* nsi_parameters_variant(const ns_parameters* v, uint32_t variant) {
    return &v->variants[variant].variant;
}

uint32_t nsi_parameters_param_count(const ns_parameters* v, uint32_t variant) {
    return v->variants[variant].names.count;
}

const char* const* nsi_parameters_param_names(const ns_parameters* v, uint32_t variant) {
    return v->variants[variant].names.data;
}

void nsi_parameters_initial(const ns_parameters* v, double* natural) {
    for (uint32_t k = 0; k < v->items.count; k++) natural[k] = v->items.data[k].initial;
}
