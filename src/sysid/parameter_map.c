// Both maps are traced as graphs, so that their derivatives are those of expr.

#include "sysid/parameter_map.h"

#include "io/numbers.h"
#include "model/model_data.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

// Parameters of a link that must stay physical together, in the order of the body's coordinates.
static const char* const body_names[10] = {"mass",       "com/x",      "com/y",      "com/z",
                                           "inertia/xx", "inertia/yy", "inertia/zz", "inertia/xy",
                                           "inertia/xz", "inertia/yz"};

typedef struct whole_body {
    uint32_t at[10]; // its numbers among variables
} whole_body;

// A link of which some inertial numbers change.
typedef struct changed_link {
    const char* name;
    double fixed[10];
    uint32_t param[10]; // in p; NSI_NONE: `fixed`
} changed_link;

typedef struct range {
    double lower, upper;
} range;

// A parameter that is a formula of variables.
typedef struct formula_param {
    uint32_t param; // in the model
    ns_formula* formula;
    const nsi_setting_request* request;
} formula_param;

// What a variant has of its own.
typedef struct variant_params {
    NSI_ARRAY(changed_link) links;
    NSI_ARRAY(const char*) names; // of p
    NSI_ARRAY(range) ranges;      // of p: what the model, and a body with bounds, can have
    ns_program* program;          // forward derivatives of v -> p
} variant_params;

struct nsi_parameters {
    ns_allocator allocator;
    nsi_arena arena;
    NSI_ARRAY(nsi_parameter) items;
    NSI_ARRAY(whole_body) bodies;
    ns_program* natural;      // forward derivatives of z -> v
    variant_params* variants; // (nvariant)
    uint32_t nvariant;
};

// A variant while it is built.
typedef struct variant_build {
    const char* name;
    const ns_model* model;
    const ns_system_options* options;
    double* values;     // (nparam) of the model, after `set`
    uint8_t* taken;     // (nparam) 1: a variable, 2: a formula
    uint32_t* variable; // (nparam) its number where it is one
    NSI_ARRAY(formula_param) formulas;
    variant_params* out;
} variant_build;

typedef struct build {
    nsi_parameters* v;
    variant_build* variants; // (v->nvariant)
    const char* file;
    const nsi_parameter_request* requests;
    uint32_t nrequest;
    NSI_ARRAY(const nsi_parameter_request*) origins; // of each variable
    ns_error* error;
} build;

static ns_status fail_at(const build* b, uint32_t line, uint32_t column, const char* format, ...)
    NSI_PRINTF(4, 5);
static ns_status fail_at(const build* b, uint32_t line, uint32_t column, const char* format, ...) {
    char what[NS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return nsi_fail(b->error, NS_ERR_PARSE, "%.200s:%u:%u: %s", b->file, line, column, what);
}

// ---- what is asked for -----------------------------------------------------------------------

static uint32_t param_count(const variant_build* t) {
    return ns_model_get_sizes(t->model).nparam;
}

static ns_status fail_unknown(const build* b, const char* name, uint32_t line, uint32_t column) {
    ns_nearest nearest = {.wanted = name};
    for (uint32_t m = 0; m < b->v->nvariant; m++) {
        for (uint32_t k = 0; k < param_count(&b->variants[m]); k++) {
            ns_nearest_offer(&nearest, ns_model_param(b->variants[m].model, k)->name);
        }
    }
    const char* who = b->v->nvariant > 1 ? "no variant has a" : "the model has no";
    char quote[NSI_QUOTE_SIZE], hint[NS_HINT_SIZE];
    nsi_quote(name, strlen(name), quote);
    if (ns_nearest_likely(&nearest)) {
        return fail_at(b, line, column, "%s parameter %s%s", who, quote,
                       ns_nearest_hint(&nearest, hint));
    }
    return fail_at(b, line, column,
                   "%s parameter %s; `neuralsim inspect MODEL --params` lists them,"
                   " and a number of your own needs a start",
                   who, quote);
}

static double or_else(double x, double otherwise) {
    return isnan(x) ? otherwise : x;
}

// Bounds, size and transform of a variable whose name, unit and start are there.
static ns_status choose_transform(build* b, const nsi_parameter_request* r, nsi_parameter* v,
                                  bool logarithm) {
    if (!(v->lower < v->upper)) {
        return fail_at(b, r->line, r->column,
                       "%s: the lower bound %g is not below the upper one %g", v->name, v->lower,
                       v->upper);
    }
    if (!(v->start >= v->lower && v->start <= v->upper)) {
        return fail_at(b, r->line, r->column, "%s: the start %g is not between %g and %g", v->name,
                       v->start, v->lower, v->upper);
    }
    v->size = or_else(r->size, v->start != 0.0 ? fabs(v->start) : 0.01);
    v->prior = or_else(r->prior, INFINITY);
    if (!(v->size > 0.0) || !(v->prior > 0.0)) {
        return fail_at(b, r->line, r->column, "%s: size and prior must be positive", v->name);
    }
    bool below = isfinite(v->lower), above = isfinite(v->upper);
    v->transform = below && above                              ? NSI_TRANSFORM_BOX
                   : below && logarithm && v->start > v->lower ? NSI_TRANSFORM_LOG
                   : below                                     ? NSI_TRANSFORM_ABOVE
                   : above                                     ? NSI_TRANSFORM_BELOW
                                                               : NSI_TRANSFORM_NONE;
    return NS_OK;
}

static ns_status push_variable(build* b, const nsi_parameter* v, const nsi_parameter_request* r) {
    if (!nsi_array_push(&b->v->allocator, &b->v->items, *v) ||
        !nsi_array_push(&b->v->allocator, &b->origins, r)) {
        return nsi_fail_nomem(b->error);
    }
    return NS_OK;
}

static uint32_t find_variable(const nsi_parameters* v, const char* name) {
    for (uint32_t k = 0; k < v->items.count; k++) {
        if (strcmp(v->items.data[k].name, name) == 0) return k;
    }
    return NSI_NONE;
}

static ns_status add_own(build* b, const nsi_parameter_request* r) {
    if (isnan(r->start)) return fail_unknown(b, r->name, r->line, r->column);
    nsi_parameter v = {.unit = "",
                       .start = r->start,
                       .lower = or_else(r->lower, -INFINITY),
                       .upper = or_else(r->upper, INFINITY)};
    v.name = nsi_arena_string(&b->v->arena, r->name, strlen(r->name));
    if (!v.name) return nsi_fail_nomem(b->error);
    ns_status status = choose_transform(b, r, &v, false);
    return status == NS_OK ? push_variable(b, &v, r) : status;
}

// A parameter that may well be 0, unlike a mass or a length: its bound must be within reach, and it must
// be possible to leave it again.
static bool may_vanish(const char* name) {
    static const char* const ends[] = {"/damping", "/friction",  "/armature", "/limit_damping",
                                       "/mu",      "/mu_static", "/kp",       "/kd"};
    size_t size = strlen(name);
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        size_t end = strlen(ends[k]);
        if (size > end && strcmp(name + size - end, ends[k]) == 0) return true;
    }
    return strncmp(name, "joint/", 6) == 0 && strstr(name, "stiffness") != NULL;
}

// A parameter that another variant has, too: what it was asked for there holds here.
static ns_status share_param(build* b, const nsi_parameter_request* r, const variant_build* t,
                             uint32_t number, uint32_t item) {
    const nsi_parameter* v = &b->v->items.data[item];
    if (b->origins.data[item] != r) {
        return fail_at(b, r->line, r->column, "%s is asked for twice", v->name);
    }
    if (isnan(r->start) && t->values[number] != v->start) {
        const variant_build* first = b->variants;
        for (uint32_t at; first < t; first++) { // where it was found
            at = ns_model_find_param(first->model, v->name);
            if (at != NSI_NONE && first->taken[at] == 1) break;
        }
        return fail_at(b, r->line, r->column,
                       "%s is %g in variant %.60s and %g in %.60s, and can start at one value only;"
                       " give a start",
                       v->name, v->start, first->name, t->values[number], t->name);
    }
    return NS_OK;
}

static ns_status add_param(build* b, const nsi_parameter_request* r, variant_build* t,
                           uint32_t number) {
    const ns_param* p = ns_model_param(t->model, number);
    if (t->taken[number]) {
        return fail_at(b, r->line, r->column, "%s is asked for twice", p->name);
    }
    t->taken[number] = 1;
    uint32_t shared = t != b->variants ? find_variable(b->v, p->name) : NSI_NONE;
    t->variable[number] = shared != NSI_NONE ? shared : b->v->items.count;
    if (shared != NSI_NONE) return share_param(b, r, t, number, shared);
    bool moment = p->transform == NS_TRANSFORM_INERTIA && strstr(p->name, "/inertia/") &&
                  p->name[strlen(p->name) - 1] == p->name[strlen(p->name) - 2];
    bool mass = p->transform == NS_TRANSFORM_INERTIA && !strstr(p->name, "/inertia/") &&
                !strstr(p->name, "/com/");
    nsi_parameter v = {.name = p->name,
                       .unit = p->unit,
                       .start = or_else(r->start, t->values[number]),
                       .lower = or_else(r->lower, moment || mass ? 0.0 : p->lower),
                       .upper = or_else(r->upper, p->upper)};
    bool logarithm = moment || mass || (p->transform == NS_TRANSFORM_LOG && !may_vanish(p->name));
    ns_status status = choose_transform(b, r, &v, logarithm);
    return status == NS_OK ? push_variable(b, &v, r) : status;
}

static bool begins_with_part(const char* name, const char* kind, const char* part) {
    size_t size = strlen(kind);
    if (strncmp(name, kind, size) != 0) return false;
    return strncmp(name + size, part, strlen(part)) == 0 && name[size + strlen(part)] == '/';
}

// Does a parameter belong to a link that is fixed to the world, as the base of a robot often is? Globs
// pass it over.
static bool is_welded(const ns_model* model, const char* name) {
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nlink; k++) {
        const ns_link_def* link = ns_model_link(model, k);
        if (!begins_with_part(name, "link/", link->name) &&
            !begins_with_part(name, "joint/", link->joint)) {
            continue;
        }
        for (uint32_t up = k; up != UINT32_MAX; up = ns_model_link_parent(model, up)) {
            if (ns_joint_type_info(ns_model_link(model, up)->joint_type)->nv > 0) return false;
        }
        return true;
    }
    return false;
}

static ns_status add_request(build* b, const nsi_parameter_request* r, variant_build* t,
                             bool* found) {
    for (uint32_t i = 0; i < param_count(t); i++) {
        const char* name = ns_model_param(t->model, i)->name;
        if (!ns_glob_match(r->name, name)) continue;
        *found = true;
        if (strcmp(name, r->name) != 0 && is_welded(t->model, name)) continue;
        ns_status status = add_param(b, r, t, i);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

static ns_status add_requests(build* b) {
    for (uint32_t k = 0; k < b->nrequest; k++) {
        const nsi_parameter_request* r = &b->requests[k];
        bool found = r->own;
        ns_status status = r->own ? add_own(b, r) : NS_OK;
        for (uint32_t m = 0; m < b->v->nvariant && !r->own && status == NS_OK; m++) {
            status = add_request(b, r, &b->variants[m], &found);
        }
        if (status != NS_OK) return status;
        if (!found) return fail_unknown(b, r->name, r->line, r->column);
    }
    return NS_OK;
}

// Is a name that no variable of the user's own has a parameter of some variant?
static bool is_somewhere(const build* b, const char* name) {
    for (uint32_t m = 0; m < b->v->nvariant; m++) {
        if (ns_model_find_param(b->variants[m].model, name) != NSI_NONE) return true;
    }
    return false;
}

// Does a variant have all that a formula uses? What no variant has is told when it is traced.
static bool applies(const build* b, const variant_build* t, const ns_formula* formula) {
    for (uint32_t k = 0; k < ns_formula_variable_count(formula); k++) {
        const char* name = ns_formula_variable(formula, k);
        if (ns_model_find_param(t->model, name) != NSI_NONE) continue;
        if (is_somewhere(b, name)) return false;
    }
    return true;
}

// The formula with what the * of its name stands for in place of each {}; to be freed.
static ns_status fill_in(build* b, const nsi_setting_request* r, const char* name, char** out) {
    const char *star = strchr(r->name, '*'), *hole = r->formula;
    if (!star || strpbrk(star + 1, "*?") || memchr(r->name, '?', (size_t)(star - r->name))) {
        return fail_at(b, r->line, r->column, "{} in a formula needs one * in its name, and no ?");
    }
    size_t before = (size_t)(star - r->name), match = strlen(name) + 1 - strlen(r->name), holes = 0;
    while ((hole = strstr(hole, "{}"))) holes++, hole += 2;
    char* to = *out = nsi_alloc(&b->v->allocator, strlen(r->formula) + holes * match + 1);
    if (!to) return nsi_fail_nomem(b->error);
    for (const char* from = r->formula; *from;) {
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

static ns_status parse_formula(build* b, const nsi_setting_request* r, const char* name,
                               ns_formula** out) {
    size_t where = 0;
    ns_error inner;
    char* filled = NULL;
    ns_status status = strstr(r->formula, "{}") ? fill_in(b, r, name, &filled) : NS_OK;
    if (status != NS_OK) return status;
    const char* text = filled ? filled : r->formula;
    status = ns_formula_parse(text, strlen(text), false, &b->v->allocator, out, &where, &inner);
    nsi_free(&b->v->allocator, filled);
    if (status == NS_OK) return NS_OK;
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(b->error);
    return fail_at(b, r->line, r->column, "at character %zu of the formula: %s", where + 1,
                   inner.message);
}

// @param found, used  set when the variant has such a parameter, and all that the formula uses
static ns_status add_setting(build* b, const nsi_setting_request* r, variant_build* t, bool* found,
                             bool* used) {
    for (uint32_t i = 0; i < param_count(t); i++) {
        const char* name = ns_model_param(t->model, i)->name;
        if (!ns_glob_match(r->name, name)) continue;
        *found = true;
        if (t->taken[i]) {
            return fail_at(b, r->line, r->column, "%s is %s", name,
                           t->taken[i] == 1 ? "already looked for under `parameters`"
                                            : "set twice");
        }
        formula_param f = {.param = i, .request = r};
        ns_status status = parse_formula(b, r, name, &f.formula);
        if (status != NS_OK) return status;
        if (!applies(b, t, f.formula)) {
            ns_formula_free(f.formula);
            continue;
        }
        *used = true;
        t->taken[i] = 2;
        if (!nsi_array_push(&b->v->allocator, &t->formulas, f)) {
            ns_formula_free(f.formula);
            return nsi_fail_nomem(b->error);
        }
    }
    return NS_OK;
}

static ns_status add_settings(build* b, const nsi_setting_request* settings, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        const nsi_setting_request* r = &settings[k];
        bool found = false, used = false;
        for (uint32_t m = 0; m < b->v->nvariant; m++) {
            ns_status status = add_setting(b, r, &b->variants[m], &found, &used);
            if (status != NS_OK) return status;
        }
        if (!found) return fail_unknown(b, r->name, r->line, r->column);
        if (!used) {
            return fail_at(b, r->line, r->column,
                           "no variant that has %.200s has all parameters that its formula uses",
                           r->name);
        }
    }
    return NS_OK;
}

// ---- bodies ------------------------------------------------------------------------------------

// A link of a variant of which inertial numbers change; a body: all ten of them are variables.
static ns_status find_link(build* b, variant_build* t, const char* link) {
    nsi_parameters* v = b->v;
    variant_params* out = t->out;
    changed_link c = {.name = link};
    whole_body whole = {{0}};
    uint32_t nchange = 0, nvariable = 0;
    for (int i = 0; i < 10; i++) {
        char name[1200];
        snprintf(name, sizeof name, "link/%s/%s", link, body_names[i]);
        uint32_t param = ns_model_find_param(t->model, name);
        if (param == NSI_NONE) break;
        c.fixed[i] = t->values[param];
        c.param[i] = NSI_NONE;
        if (!t->taken[param]) continue;
        nchange++;
        for (uint32_t p = 0; p < out->names.count; p++) {
            if (strcmp(out->names.data[p], name) == 0) c.param[i] = p;
        }
        if (t->taken[param] != 1) continue;
        whole.at[i] = t->variable[param];
        nvariable++;
    }
    if (nchange > 0 && !nsi_array_push(&v->allocator, &out->links, c)) {
        return nsi_fail_nomem(b->error);
    }
    if (nvariable < 10) return NS_OK;
    bool known = v->items.data[whole.at[0]].transform == NSI_TRANSFORM_BODY; // of another variant
    for (int i = 0; i < 10; i++) { // together they know of no bounds: steps out of them are refused
        nsi_parameter* item = &v->items.data[whole.at[i]];
        range* r = &out->ranges.data[c.param[i]];
        item->transform = NSI_TRANSFORM_BODY;
        *r = (range){fmax(r->lower, item->lower), fmin(r->upper, item->upper)};
    }
    if (!known && !nsi_array_push(&v->allocator, &v->bodies, whole)) {
        return nsi_fail_nomem(b->error);
    }
    return NS_OK;
}

static ns_status find_links(build* b) {
    for (uint32_t m = 0; m < b->v->nvariant; m++) {
        variant_build* t = &b->variants[m];
        for (uint32_t k = 0; k < ns_model_get_sizes(t->model).nlink; k++) {
            ns_status status = find_link(b, t, ns_model_link(t->model, k)->name);
            if (status != NS_OK) return status;
        }
    }
    return NS_OK;
}

// Pseudo-inertia [S h; h' m], S = integral of rho x x', h = m c, of mass, com, inertia.
static void pseudo_inertia(const double body[10], double J[4][4]) {
    double m = body[0];
    const double *c = body + 1, *I = body + 4;
    double half_trace = 0.5 * (I[0] + I[1] + I[2]);
    double S[3][3] = {{half_trace - I[0], -I[3], -I[4]},
                      {-I[3], half_trace - I[1], -I[5]},
                      {-I[4], -I[5], half_trace - I[2]}};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) J[i][j] = S[i][j] + m * c[i] * c[j];
        J[i][3] = J[3][i] = m * c[i];
    }
    J[3][3] = m;
}

// U upper triangular with U U' = J; z: log of the last diagonal element, logs of the other diagonal
// elements and the rest, both relative to it.
static void body_to_z(const double body[10], double z[10]) {
    double J[4][4], U[4][4] = {{0}};
    pseudo_inertia(body, J);
    double trace = J[0][0] + J[1][1] + J[2][2];
    for (int j = 3; j >= 0; j--) {
        double d = J[j][j];
        for (int k = j + 1; k < 4; k++) d -= U[j][k] * U[j][k];
        // A thin rod lies on the border, where there is no logarithm.
        double least = 1e-9 * (j < 3 ? trace : J[3][3]);
        U[j][j] = sqrt(d > least ? d : least);
        for (int i = 0; i < j; i++) {
            double s = J[i][j];
            for (int k = j + 1; k < 4; k++) s -= U[i][k] * U[j][k];
            U[i][j] = s / U[j][j];
        }
    }
    z[0] = log(U[3][3]);
    for (int i = 0; i < 3; i++) {
        z[1 + i] = log(U[i][i] / U[3][3]);
        z[7 + i] = U[i][3] / U[3][3];
    }
    z[4] = U[0][1] / U[3][3];
    z[5] = U[0][2] / U[3][3];
    z[6] = U[1][2] / U[3][3];
}

static void trace_body(const ns_expr z[10], ns_expr body[10]) {
    ns_expr m = ns_exp(ns_mul(ns_const(2.0), z[0]));
    ns_expr zero = ns_const(0.0);
    // Rows of U / exp(z0), without the last column: S about the centre of mass is m times U U'.
    ns_expr U[3][3] = {
        {ns_exp(z[1]), z[4], z[5]}, {zero, ns_exp(z[2]), z[6]}, {zero, zero, ns_exp(z[3])}};
    ns_expr S[3][3];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            ns_expr sum = zero;
            for (int k = 0; k < 3; k++) sum = ns_add(sum, ns_mul(U[i][k], U[j][k]));
            S[i][j] = ns_mul(m, sum);
        }
    }
    body[0] = m;
    for (int i = 0; i < 3; i++) {
        body[1 + i] = z[7 + i];
        body[4 + i] = ns_add(S[(i + 1) % 3][(i + 1) % 3], S[(i + 2) % 3][(i + 2) % 3]);
    }
    body[7] = ns_neg(S[0][1]);
    body[8] = ns_neg(S[0][2]);
    body[9] = ns_neg(S[1][2]);
}

// ---- z -> v ------------------------------------------------------------------------------------

static ns_expr trace_transform(const nsi_parameter* v, ns_expr z) {
    ns_expr l = ns_const(v->lower), u = ns_const(v->upper), one = ns_const(1.0);
    ns_expr root = ns_sub(ns_sqrt(ns_add(ns_mul(z, z), one)), one);
    switch (v->transform) {
    case NSI_TRANSFORM_LOG: return ns_add(l, ns_exp(z));
    case NSI_TRANSFORM_ABOVE: return ns_add(l, ns_mul(ns_const(v->size), root));
    case NSI_TRANSFORM_BELOW: return ns_sub(u, ns_mul(ns_const(v->size), root));
    case NSI_TRANSFORM_BOX:
        return ns_add(l, ns_mul(ns_const(0.5 * (v->upper - v->lower)), ns_add(one, ns_sin(z))));
    case NSI_TRANSFORM_NONE:
    case NSI_TRANSFORM_BODY: break;
    }
    return z;
}

static double transform_to_z(const nsi_parameter* v, double x) {
    const double nudge = 1e-3; // off a bound, where the derivative vanishes
    double above = (x - v->lower) / v->size, below = (v->upper - x) / v->size, share;
    switch (v->transform) {
    case NSI_TRANSFORM_LOG: return log(fmax(x - v->lower, 1e-12 * v->size));
    case NSI_TRANSFORM_ABOVE: above = fmax(above, nudge) + 1.0; return sqrt(above * above - 1.0);
    case NSI_TRANSFORM_BELOW: below = fmax(below, nudge) + 1.0; return sqrt(below * below - 1.0);
    case NSI_TRANSFORM_BOX:
        share = (x - v->lower) / (v->upper - v->lower);
        share = fmin(fmax(share, nudge), 1.0 - nudge);
        return asin(2.0 * share - 1.0);
    case NSI_TRANSFORM_NONE:
    case NSI_TRANSFORM_BODY: break;
    }
    return x;
}

void nsi_parameters_to_z(const nsi_parameters* v, const double* natural, double* z) {
    for (uint32_t k = 0; k < v->items.count; k++) {
        z[k] = transform_to_z(&v->items.data[k], natural[k]);
    }
    for (uint32_t k = 0; k < v->bodies.count; k++) {
        double body[10], coordinates[10];
        for (int i = 0; i < 10; i++) body[i] = natural[v->bodies.data[k].at[i]];
        body_to_z(body, coordinates);
        for (int i = 0; i < 10; i++) z[v->bodies.data[k].at[i]] = coordinates[i];
    }
}

static ns_status trace_natural(build* b, const variant_build* of_all, ns_graph* graph) {
    (void)of_all;
    nsi_parameters* v = b->v;
    uint32_t n = v->items.count;
    ns_status status = ns_trace_begin(graph, b->error);
    if (status != NS_OK) return status;
    ns_expr* z = nsi_arena_alloc(&v->arena, 2 * ((size_t)n + 1) * sizeof *z);
    for (uint32_t k = 0; z && k < n; k++) {
        char name[32];
        snprintf(name, sizeof name, "z%u", k);
        z[k] = ns_input(name);
    }
    for (uint32_t k = 0; z && k < n; k++) z[n + k] = trace_transform(&v->items.data[k], z[k]);
    for (uint32_t k = 0; z && k < v->bodies.count; k++) {
        const whole_body* whole = &v->bodies.data[k];
        ns_expr from[10], to[10];
        for (int i = 0; i < 10; i++) from[i] = z[whole->at[i]];
        trace_body(from, to);
        for (int i = 0; i < 10; i++) z[n + whole->at[i]] = to[i];
    }
    for (uint32_t k = 0; z && k < n; k++) {
        char name[32];
        snprintf(name, sizeof name, "v%u", k);
        ns_output(name, z[n + k]);
    }
    status = ns_trace_end(b->error);
    return z ? status : nsi_fail_nomem(b->error);
}

// ---- v -> p ------------------------------------------------------------------------------------

// The expression for a name in a formula: a variable, or a parameter that stays.
static ns_status resolve(const build* b, const variant_build* t, const formula_param* f,
                         const char* name, const ns_expr* variables, ns_expr* out) {
    uint32_t param = ns_model_find_param(t->model, name), item = NSI_NONE;
    if (param == NSI_NONE) {
        item = find_variable(b->v, name);
    } else if (t->taken[param] == 1) {
        item = t->variable[param];
    }
    if (item != NSI_NONE) {
        *out = variables[item];
        return NS_OK;
    }
    if (param != NSI_NONE && t->taken[param] != 2) {
        *out = ns_const(t->values[param]);
        return NS_OK;
    }
    char quote[NSI_QUOTE_SIZE];
    return fail_at(b, f->request->line, f->request->column,
                   "the formula uses %s, which is %s; names of parameters stand in double quotes",
                   nsi_quote(name, strlen(name), quote),
                   param == NSI_NONE ? "neither a parameter of the model nor one under `parameters`"
                                     : "itself set by a formula");
}

static ns_status trace_formula(build* b, const variant_build* t, const formula_param* f,
                               const ns_expr* variables, ns_expr* out) {
    ns_expr used[NSI_FORMULA_MAX_OPS];
    for (uint32_t k = 0; k < ns_formula_variable_count(f->formula); k++) {
        ns_status status =
            resolve(b, t, f, ns_formula_variable(f->formula, k), variables, &used[k]);
        if (status != NS_OK) return status;
    }
    *out = nsi_formula_trace(f->formula, used);
    return NS_OK;
}

static ns_status trace_params(build* b, const variant_build* t, ns_graph* graph) {
    nsi_parameters* v = b->v;
    uint32_t n = v->items.count;
    ns_status status = ns_trace_begin(graph, b->error);
    if (status != NS_OK) return status;
    ns_expr* x = nsi_arena_alloc(&v->arena, ((size_t)n + 1) * sizeof *x);
    if (!x) status = nsi_fail_nomem(b->error);
    for (uint32_t k = 0; x && k < n; k++) {
        char name[32];
        snprintf(name, sizeof name, "v%u", k);
        x[k] = ns_input(name);
    }
    for (uint32_t i = 0; status == NS_OK && i < param_count(t); i++) {
        if (!t->taken[i]) continue;
        ns_expr value = ns_const(0.0);
        if (t->taken[i] == 1) value = x[t->variable[i]];
        for (uint32_t k = 0; k < t->formulas.count && status == NS_OK; k++) {
            if (t->formulas.data[k].param != i) continue;
            status = trace_formula(b, t, &t->formulas.data[k], x, &value);
        }
        ns_output(ns_model_param(t->model, i)->name, value);
    }
    ns_error end;
    ns_status ended = ns_trace_end(&end);
    if (status != NS_OK) return status;
    return ended == NS_OK ? NS_OK : nsi_fail(b->error, ended, "%s", end.message);
}

// ---- programs ----------------------------------------------------------------------------------

static ns_status build_program(build* b, const variant_build* t,
                               ns_status (*trace)(build*, const variant_build*, ns_graph*),
                               ns_program** out) {
    ns_graph *graph = NULL, *derivative = NULL;
    ns_status status = ns_graph_create(&b->v->allocator, &graph, b->error);
    if (status == NS_OK) status = trace(b, t, graph);
    if (status == NS_OK) status = ns_graph_jvp(graph, NULL, &derivative, b->error);
    if (status == NS_OK) status = ns_program_build(derivative, NULL, out, b->error);
    ns_graph_free(derivative);
    ns_graph_free(graph);
    return status;
}

// Names and ranges of p: every parameter that changes, in the order of the model.
static ns_status name_params(build* b, const variant_build* t) {
    for (uint32_t i = 0; i < param_count(t); i++) {
        if (!t->taken[i]) continue;
        const ns_param* param = ns_model_param(t->model, i);
        range r = {param->lower, param->upper};
        if (!nsi_array_push(&b->v->allocator, &t->out->names, param->name) ||
            !nsi_array_push(&b->v->allocator, &t->out->ranges, r)) {
            return nsi_fail_nomem(b->error);
        }
    }
    return NS_OK;
}

static ns_status begin_variant(build* b, variant_build* t) {
    const ns_system_options* options = t->options;
    size_t count = param_count(t);
    t->values = nsi_alloc(&b->v->allocator, (count + 1) * sizeof *t->values);
    t->taken = nsi_alloc_zeroed(&b->v->allocator, count + 1);
    t->variable = nsi_alloc(&b->v->allocator, (count + 1) * sizeof *t->variable);
    if (!t->values || !t->taken || !t->variable) return nsi_fail_nomem(b->error);
    for (uint32_t i = 0; i < count; i++) {
        t->values[i] = ns_model_param(t->model, i)->value;
        for (uint32_t k = 0; k < options->nset; k++) {
            if (ns_glob_match(options->set[k].pattern, ns_model_param(t->model, i)->name)) {
                t->values[i] = options->set[k].value;
            }
        }
    }
    return NS_OK;
}

static ns_status build_all(build* b, const nsi_setting_request* settings, uint32_t nsetting) {
    ns_status status = NS_OK;
    for (uint32_t m = 0; m < b->v->nvariant && status == NS_OK; m++) {
        status = begin_variant(b, &b->variants[m]);
    }
    if (status == NS_OK) status = add_requests(b);
    if (status == NS_OK) status = add_settings(b, settings, nsetting);
    for (uint32_t m = 0; m < b->v->nvariant && status == NS_OK; m++) {
        status = name_params(b, &b->variants[m]);
    }
    if (status == NS_OK) status = find_links(b);
    if (status == NS_OK) status = build_program(b, NULL, trace_natural, &b->v->natural);
    for (uint32_t m = 0; m < b->v->nvariant && status == NS_OK; m++) {
        status = build_program(b, &b->variants[m], trace_params, &b->v->variants[m].program);
    }
    return status;
}

static void end_variant(const ns_allocator* memory, variant_build* t) {
    for (uint32_t k = 0; k < t->formulas.count; k++) ns_formula_free(t->formulas.data[k].formula);
    nsi_array_free(memory, &t->formulas);
    nsi_free(memory, t->values);
    nsi_free(memory, t->taken);
    nsi_free(memory, t->variable);
}

ns_status nsi_parameters_create_shared(const nsi_parameter_model* models, uint32_t nmodel,
                                       const char* file, const nsi_parameter_request* requests,
                                       uint32_t nrequest, const nsi_setting_request* settings,
                                       uint32_t nsetting, const ns_allocator* allocator,
                                       nsi_parameters** out, ns_error* error) {
    *out = NULL;
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    build b = {.v = nsi_alloc_zeroed(&memory, sizeof *b.v),
               .file = file,
               .requests = requests,
               .nrequest = nrequest,
               .error = error};
    if (!b.v) return nsi_fail_nomem(error);
    b.v->allocator = b.v->arena.allocator = memory;
    b.variants = nsi_alloc_zeroed(&memory, nmodel * sizeof *b.variants);
    b.v->variants = nsi_alloc_zeroed(&memory, nmodel * sizeof *b.v->variants);
    if (b.variants && b.v->variants) b.v->nvariant = nmodel;
    for (uint32_t m = 0; m < b.v->nvariant; m++) {
        b.variants[m] = (variant_build){.name = models[m].name,
                                        .model = models[m].model,
                                        .options = models[m].options,
                                        .out = &b.v->variants[m]};
    }
    ns_status status =
        b.v->nvariant > 0 ? build_all(&b, settings, nsetting) : nsi_fail_nomem(error);
    for (uint32_t m = 0; m < b.v->nvariant; m++) end_variant(&memory, &b.variants[m]);
    nsi_array_free(&memory, &b.origins);
    nsi_free(&memory, b.variants);
    if (status != NS_OK) {
        nsi_parameters_free(b.v);
        return status;
    }
    *out = b.v;
    return NS_OK;
}

ns_status nsi_parameters_create(const ns_model* model, const ns_system_options* options,
                                const char* file, const nsi_parameter_request* requests,
                                uint32_t nrequest, const nsi_setting_request* settings,
                                uint32_t nsetting, const ns_allocator* allocator,
                                nsi_parameters** out, ns_error* error) {
    nsi_parameter_model one = {.model = model, .options = options};
    return nsi_parameters_create_shared(&one, 1, file, requests, nrequest, settings, nsetting,
                                        allocator, out, error);
}

void nsi_parameters_free(nsi_parameters* v) {
    if (!v) return;
    ns_allocator memory = v->allocator;
    ns_program_free(v->natural);
    for (uint32_t m = 0; m < v->nvariant; m++) {
        variant_params* t = &v->variants[m];
        ns_program_free(t->program);
        nsi_array_free(&memory, &t->links);
        nsi_array_free(&memory, &t->names);
        nsi_array_free(&memory, &t->ranges);
    }
    nsi_free(&memory, v->variants);
    nsi_array_free(&memory, &v->items);
    nsi_array_free(&memory, &v->bodies);
    nsi_arena_free(&v->arena);
    nsi_free(&memory, v);
}

uint32_t nsi_parameters_count(const nsi_parameters* v) {
    return v->items.count;
}

const nsi_parameter* nsi_parameters_at(const nsi_parameters* v, uint32_t number) {
    return &v->items.data[number];
}

uint32_t nsi_parameters_param_count(const nsi_parameters* v, uint32_t variant) {
    return v->variants[variant].names.count;
}

const char* const* nsi_parameters_param_names(const nsi_parameters* v, uint32_t variant) {
    return v->variants[variant].names.data;
}

void nsi_parameters_start(const nsi_parameters* v, double* natural) {
    for (uint32_t k = 0; k < v->items.count; k++) natural[k] = v->items.data[k].start;
}

void nsi_parameters_set_start(nsi_parameters* v, uint32_t number, double value) {
    v->items.data[number].start = value;
}

static size_t largest(size_t a, size_t b) {
    return a > b ? a : b;
}

size_t nsi_parameters_scratch(const nsi_parameters* v) {
    size_t most = v->items.count, work = ns_program_work_size(v->natural);
    for (uint32_t m = 0; m < v->nvariant; m++) {
        most = largest(most, v->variants[m].names.count);
        work = largest(work, ns_program_work_size(v->variants[m].program));
    }
    return 2 * ((size_t)v->items.count + 1) + 2 * (most + 1) + work / sizeof(double) + 1;
}

// Value (count) and derivatives (count x n) of one of the two maps.
static void run(const nsi_parameters* v, const ns_program* program, const double* x, uint32_t count,
                double* value, double* derivative, double* scratch) {
    uint32_t n = v->items.count;
    double *in = scratch, *out = in + 2 * ((size_t)n + 1);
    ns_run job = {.in = in, .out = out, .work = out + 2 * ((size_t)largest(n, count) + 1)};
    memcpy(in, x, n * sizeof(double));
    memset(in + n, 0, n * sizeof(double));
    ns_program_run(program, &job);
    memcpy(value, out, count * sizeof(double));
    for (uint32_t j = 0; derivative && j < n; j++) {
        in[n + j] = 1.0;
        ns_program_run(program, &job);
        in[n + j] = 0.0;
        for (uint32_t i = 0; i < count; i++) derivative[(size_t)i * n + j] = out[count + i];
    }
}

void nsi_parameters_from_z(const nsi_parameters* v, const double* z, double* natural, double* dv,
                           double* scratch) {
    run(v, v->natural, z, v->items.count, natural, dv, scratch);
}

void nsi_parameters_params(const nsi_parameters* v, uint32_t variant, const double* natural,
                           double* p, double* dp, double* scratch) {
    const variant_params* t = &v->variants[variant];
    run(v, t->program, natural, t->names.count, p, dp, scratch);
}

const char* nsi_parameters_fault(const nsi_parameters* variables, uint32_t variant,
                                 const double* p) {
    const variant_params* v = &variables->variants[variant];
    for (uint32_t k = 0; k < v->names.count; k++) {
        if (!isfinite(p[k])) return v->names.data[k];
    }
    for (uint32_t k = 0; k < v->links.count; k++) {
        const changed_link* c = &v->links.data[k];
        double body[10];
        for (int i = 0; i < 10; i++)
            body[i] = c->param[i] == NSI_NONE ? c->fixed[i] : p[c->param[i]];
        if (body[0] < 0.0 || nsi_inertia_fault(body[0], body + 4)) return c->name;
    }
    // Formulas and bounds may lead out of what the model can have; rounding does, a little.
    for (uint32_t k = 0; k < v->names.count; k++) {
        const range* r = &v->ranges.data[k];
        double low = isfinite(r->lower) ? fabs(r->lower) : 0.0;
        double high = isfinite(r->upper) ? fabs(r->upper) : 0.0;
        double slack = 1e-12 * fmax(fabs(p[k]), fmax(low, high));
        if (p[k] < r->lower - slack || p[k] > r->upper + slack) return v->names.data[k];
    }
    return NULL;
}
