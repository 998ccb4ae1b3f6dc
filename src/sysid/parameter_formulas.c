// Parameters of the model that are formulas of estimated ones.

#include "io/numbers.h"
#include "sysid/parameters_state.h"

#include <stdio.h>

// ---- what is asked for -----------------------------------------------------------------------

// The formula with what the * of the name stands for in place of each {}; to be freed.
static ns_status fill_in(const ns_parameters* v, const char* pattern, const char* formula,
                         const char* name, const nsi_place* place, char** out, ns_error* error) {
    const char *star = strchr(pattern, '*'), *hole = formula;
    if (!star || strpbrk(star + 1, "*?") || memchr(pattern, '?', (size_t)(star - pattern))) {
        return nsi_parameters_fail(place, error,
                                   "{} in a formula needs one * in its name, and no ?");
    }
    size_t before = (size_t)(star - pattern), match = strlen(name) + 1 - strlen(pattern), holes = 0;
    while ((hole = strstr(hole, "{}"))) holes++, hole += 2;
    char* to = *out = nsi_alloc(&v->allocator, strlen(formula) + holes * match + 1);
    if (!to) return nsi_fail_nomem(error);
    for (const char* from = formula; *from;) {
        if (strncmp(from, "{}", 2) == 0) {
            memcpy(to, name + before, match);
            to += match;
            from += 2;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
    return NS_OK;
}

static ns_status parse_param_formula(const ns_parameters* v, const char* pattern,
                                     const char* formula, const char* name, const nsi_place* place,
                                     ns_formula** out, ns_error* error) {
    size_t where = 0;
    ns_error inner;
    char* filled = NULL;
    ns_status status =
        strstr(formula, "{}") ? fill_in(v, pattern, formula, name, place, &filled, error) : NS_OK;
    if (status != NS_OK) return status;
    const char* text = filled ? filled : formula;
    status = ns_formula_parse(text, strlen(text), false, &v->allocator, out, &where, &inner);
    nsi_free(&v->allocator, filled);
    if (status == NS_OK) return NS_OK;
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    return nsi_parameters_fail(place, error, "at character %zu of the formula: %s", where + 1,
                               inner.message);
}

// Is a name a parameter of some variant?
static bool is_param_somewhere(const ns_parameters* v, const char* name) {
    for (uint32_t m = 0; m < v->nvariant; m++) {
        if (ns_model_find_param(v->variants[m].variant.model, name) != NSI_NONE) return true;
    }
    return false;
}

// Does a variant have all that a formula uses? A name that no variant has is an error when the formula
// is traced.
static bool formula_applies(const ns_parameters* v, const nsi_variant_parameters* t,
                            const ns_formula* formula) {
    for (uint32_t k = 0; k < ns_formula_variable_count(formula); k++) {
        const char* name = ns_formula_variable(formula, k);
        if (ns_model_find_param(t->variant.model, name) != NSI_NONE) continue;
        if (is_param_somewhere(v, name)) return false;
    }
    return true;
}

// @param found, used  set when the variant has such a parameter, and all that the formula uses
static ns_status set_in_variant(ns_parameters* v, nsi_variant_parameters* t, const char* pattern,
                                const char* formula, const nsi_place* place, bool* found,
                                bool* used, ns_error* error) {
    for (uint32_t i = 0; i < t->nparam; i++) {
        const char* name = ns_model_param(t->variant.model, i)->name;
        if (!ns_glob_match(pattern, name)) continue;
        *found = true;
        if (t->role[i] != NSI_PARAM_FIXED) {
            return nsi_parameters_fail(place, error, "%s is %s", name,
                                       t->role[i] == NSI_PARAM_ESTIMATED ? "already estimated"
                                                                         : "set twice");
        }
        nsi_param_formula f = {.param = i, .place = *place};
        ns_status status = parse_param_formula(v, pattern, formula, name, place, &f.formula, error);
        if (status != NS_OK) return status;
        if (!formula_applies(v, t, f.formula)) {
            ns_formula_free(f.formula);
            continue;
        }
        *used = true;
        if (!nsi_array_push(&v->allocator, &t->formulas, f)) {
            ns_formula_free(f.formula);
            return nsi_fail_nomem(error);
        }
        t->role[i] = NSI_PARAM_FORMULA;
    }
    return NS_OK;
}

// Take back formulas behind the first `count` of a variant.
static void drop_formulas(nsi_variant_parameters* t, uint32_t count) {
    while (t->formulas.count > count) {
        const nsi_param_formula* last = &t->formulas.data[--t->formulas.count];
        t->role[last->param] = NSI_PARAM_FIXED;
        ns_formula_free(last->formula);
    }
}

ns_status nsi_parameters_set_formula(ns_parameters* v, const char* name, const char* formula,
                                     const nsi_place* place, ns_error* error) {
    bool found = false, used = false;
    ns_status status = NS_OK;
    uint32_t* before = nsi_alloc(&v->allocator, v->nvariant * sizeof *before);
    if (!before) return nsi_fail_nomem(error);
    for (uint32_t m = 0; m < v->nvariant; m++) before[m] = v->variants[m].formulas.count;
    for (uint32_t m = 0; m < v->nvariant && status == NS_OK; m++) {
        status = set_in_variant(v, &v->variants[m], name, formula, place, &found, &used, error);
    }
    if (status == NS_OK && !found) {
        status = nsi_parameters_fail_unknown(v, name, place, error);
    } else if (status == NS_OK && !used) {
        status = nsi_parameters_fail(
            place, error, "no variant that has %.200s has all parameters that its formula uses",
            name);
    }
    for (uint32_t m = 0; m < v->nvariant && status != NS_OK; m++) {
        drop_formulas(&v->variants[m], before[m]);
    }
    nsi_free(&v->allocator, before);
    return status;
}

// ---- v -> p ------------------------------------------------------------------------------------

// The expression for a name in a formula: an estimated parameter, or one that stays.
static ns_status resolve_name(const ns_parameters* v, const nsi_variant_parameters* t,
                              const nsi_param_formula* f, const char* name, const ns_expr* x,
                              ns_expr* out, ns_error* error) {
    uint32_t param = ns_model_find_param(t->variant.model, name), item = NSI_NONE;
    if (param == NSI_NONE) {
        item = ns_parameters_find(v, name);
    } else if (t->role[param] == NSI_PARAM_ESTIMATED) {
        item = t->number[param];
    }
    if (item != NSI_NONE) {
        *out = x[item];
        return NS_OK;
    }
    if (param != NSI_NONE && t->role[param] == NSI_PARAM_FIXED) {
        *out = ns_const(t->values[param]);
        return NS_OK;
    }
    char quote[NSI_QUOTE_SIZE];
    return nsi_parameters_fail(
        &f->place, error,
        "the formula uses %s, which is %s; names of parameters stand in double quotes",
        nsi_quote(name, strlen(name), quote),
        param == NSI_NONE ? "neither a parameter of the model nor one under `parameters`"
                          : "itself set by a formula");
}

static ns_status trace_param_formula(const ns_parameters* v, const nsi_variant_parameters* t,
                                     const nsi_param_formula* f, const ns_expr* x, ns_expr* out,
                                     ns_error* error) {
    ns_expr used[NSI_FORMULA_MAX_OPS];
    for (uint32_t k = 0; k < ns_formula_variable_count(f->formula); k++) {
        ns_status status =
            resolve_name(v, t, f, ns_formula_variable(f->formula, k), x, &used[k], error);
        if (status != NS_OK) return status;
    }
    *out = nsi_formula_trace(f->formula, used);
    return NS_OK;
}

ns_status nsi_trace_params(ns_parameters* v, uint32_t variant, ns_error* error) {
    const nsi_variant_parameters* t = &v->variants[variant];
    ns_status status = NS_OK;
    uint32_t n = v->items.count;
    ns_expr* x = nsi_arena_alloc(&v->arena, ((size_t)n + 1) * sizeof *x);
    if (!x) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < n; k++) {
        char name[32];
        snprintf(name, sizeof name, "v%u", k);
        x[k] = ns_input(name);
    }

    // Every parameter that changes, in the order of the model.
    for (uint32_t i = 0; status == NS_OK && i < t->nparam; i++) {
        if (t->role[i] == NSI_PARAM_FIXED) continue;
        ns_expr value = ns_const(0.0);
        if (t->role[i] == NSI_PARAM_ESTIMATED) value = x[t->number[i]];
        for (uint32_t k = 0; k < t->formulas.count && status == NS_OK; k++) {
            if (t->formulas.data[k].param != i) continue;
            status = trace_param_formula(v, t, &t->formulas.data[k], x, &value, error);
        }
        ns_output(ns_model_param(t->variant.model, i)->name, value);
    }
    return status;
}
