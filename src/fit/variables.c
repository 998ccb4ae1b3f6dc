// Both maps are traced as graphs, so that their derivatives are those of expr.

#include "fit/variables.h"

#include "io/numbers.h"
#include "model/model.h"

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
    nsi_formula* formula;
    const nsi_setting_request* request;
} formula_param;

struct nsi_variables {
    ns_allocator allocator;
    nsi_arena arena;
    NSI_ARRAY(nsi_variable) items;
    NSI_ARRAY(uint32_t) model_param; // of each variable; NSI_NONE: the user's own
    NSI_ARRAY(whole_body) bodies;
    NSI_ARRAY(changed_link) links;
    NSI_ARRAY(const char*) param_names; // of p
    NSI_ARRAY(range) param_ranges;      // of p: what the model, and a body with bounds, can have
    ns_program *natural, *params;       // forward derivatives of z -> v and of v -> p
};

typedef struct build {
    nsi_variables* v;
    const ns_model* model;
    double* values; // (nparam) of the model, after `set`
    uint8_t* taken; // (nparam) 1: a variable, 2: a formula
    const char* file;
    const nsi_variable_request* requests;
    uint32_t nrequest;
    NSI_ARRAY(formula_param) formulas;
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

static uint32_t param_count(const build* b) {
    return ns_model_get_sizes(b->model).nparam;
}

static ns_status fail_unknown(const build* b, const char* name, uint32_t line, uint32_t column) {
    const char* nearest = NULL;
    uint32_t best = UINT32_MAX;
    for (uint32_t k = 0; k < param_count(b); k++) {
        const char* other = ns_model_param(b->model, k)->name;
        uint32_t distance = nsi_edit_distance(name, other);
        if (distance < best) best = distance, nearest = other;
    }
    char quote[NSI_QUOTE_SIZE];
    nsi_quote(name, strlen(name), quote);
    if (nearest && best <= strlen(name) / 3) {
        return fail_at(b, line, column, "the model has no parameter %s; did you mean %s?", quote,
                       nearest);
    }
    return fail_at(b, line, column,
                   "the model has no parameter %s; `neuralsim inspect MODEL --params` lists them,"
                   " and a number of your own needs a start",
                   quote);
}

static double or_else(double x, double otherwise) {
    return isnan(x) ? otherwise : x;
}

// Bounds, size and transform of a variable whose name, unit and start are there.
static ns_status choose_transform(build* b, const nsi_variable_request* r, nsi_variable* v,
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

static ns_status push_variable(build* b, const nsi_variable* v, uint32_t param) {
    for (uint32_t k = 0; k < b->v->items.count; k++) {
        NS_ASSERT(param == NSI_NONE || b->v->model_param.data[k] != param);
    }
    if (!nsi_array_push(&b->v->allocator, &b->v->items, *v) ||
        !nsi_array_push(&b->v->allocator, &b->v->model_param, param)) {
        return nsi_fail_nomem(b->error);
    }
    return NS_OK;
}

static ns_status add_own(build* b, const nsi_variable_request* r) {
    if (isnan(r->start)) return fail_unknown(b, r->name, r->line, r->column);
    nsi_variable v = {.unit = "",
                      .start = r->start,
                      .lower = or_else(r->lower, -INFINITY),
                      .upper = or_else(r->upper, INFINITY)};
    v.name = nsi_arena_string(&b->v->arena, r->name, strlen(r->name));
    if (!v.name) return nsi_fail_nomem(b->error);
    ns_status status = choose_transform(b, r, &v, false);
    return status == NS_OK ? push_variable(b, &v, NSI_NONE) : status;
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

static ns_status add_param(build* b, const nsi_variable_request* r, uint32_t number) {
    const ns_param* p = ns_model_param(b->model, number);
    if (b->taken[number]) {
        return fail_at(b, r->line, r->column, "%s is asked for twice", p->name);
    }
    b->taken[number] = 1;
    bool moment = p->transform == NS_TRANSFORM_INERTIA && strstr(p->name, "/inertia/") &&
                  p->name[strlen(p->name) - 1] == p->name[strlen(p->name) - 2];
    bool mass = p->transform == NS_TRANSFORM_INERTIA && !strstr(p->name, "/inertia/") &&
                !strstr(p->name, "/com/");
    nsi_variable v = {.name = p->name,
                      .unit = p->unit,
                      .start = or_else(r->start, b->values[number]),
                      .lower = or_else(r->lower, moment || mass ? 0.0 : p->lower),
                      .upper = or_else(r->upper, p->upper)};
    bool logarithm = moment || mass || (p->transform == NS_TRANSFORM_LOG && !may_vanish(p->name));
    ns_status status = choose_transform(b, r, &v, logarithm);
    return status == NS_OK ? push_variable(b, &v, number) : status;
}

static bool begins_with_part(const char* name, const char* kind, const char* part) {
    size_t size = strlen(kind);
    if (strncmp(name, kind, size) != 0) return false;
    return strncmp(name + size, part, strlen(part)) == 0 && name[size + strlen(part)] == '/';
}

// Does a parameter belong to a link that is fixed to the world, as the base of a robot often is? Globs
// pass it over.
static bool is_welded(const build* b, const char* name) {
    for (uint32_t k = 0; k < ns_model_get_sizes(b->model).nlink; k++) {
        const ns_link_def* link = ns_model_link(b->model, k);
        if (!begins_with_part(name, "link/", link->name) &&
            !begins_with_part(name, "joint/", link->joint)) {
            continue;
        }
        for (uint32_t up = k; up != UINT32_MAX; up = ns_model_link_parent(b->model, up)) {
            if (ns_model_link(b->model, up)->joint_type != NS_JOINT_FIXED) return false;
        }
        return true;
    }
    return false;
}

static ns_status add_requests(build* b) {
    for (uint32_t k = 0; k < b->nrequest; k++) {
        const nsi_variable_request* r = &b->requests[k];
        if (r->own) {
            ns_status status = add_own(b, r);
            if (status != NS_OK) return status;
            continue;
        }
        bool found = false;
        for (uint32_t i = 0; i < param_count(b); i++) {
            const char* name = ns_model_param(b->model, i)->name;
            if (!ns_glob_match(r->name, name)) continue;
            found = true;
            if (strcmp(name, r->name) != 0 && is_welded(b, name)) continue;
            ns_status status = add_param(b, r, i);
            if (status != NS_OK) return status;
        }
        if (!found) return fail_unknown(b, r->name, r->line, r->column);
    }
    return NS_OK;
}

static ns_status add_settings(build* b, const nsi_setting_request* settings, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        const nsi_setting_request* r = &settings[k];
        bool found = false;
        for (uint32_t i = 0; i < param_count(b); i++) {
            const char* name = ns_model_param(b->model, i)->name;
            if (!ns_glob_match(r->name, name)) continue;
            found = true;
            if (b->taken[i]) {
                return fail_at(b, r->line, r->column, "%s is %s", name,
                               b->taken[i] == 1 ? "already looked for under `parameters`"
                                                : "set twice");
            }
            b->taken[i] = 2;
            formula_param f = {.param = i, .request = r};
            size_t where = 0;
            ns_error inner;
            ns_status status = nsi_formula_parse(r->formula, strlen(r->formula), false,
                                                 &b->v->allocator, &f.formula, &where, &inner);
            if (status == NS_ERR_NOMEM) return nsi_fail_nomem(b->error);
            if (status != NS_OK) {
                return fail_at(b, r->line, r->column, "at character %zu of the formula: %s",
                               where + 1, inner.message);
            }
            if (!nsi_array_push(&b->v->allocator, &b->formulas, f)) {
                nsi_formula_free(f.formula);
                return nsi_fail_nomem(b->error);
            }
        }
        if (!found) return fail_unknown(b, r->name, r->line, r->column);
    }
    return NS_OK;
}

// ---- bodies ------------------------------------------------------------------------------------

// Links of which inertial numbers change; bodies: those of which all ten are variables.
static ns_status find_links(build* b) {
    nsi_variables* v = b->v;
    for (uint32_t k = 0; k < ns_model_get_sizes(b->model).nlink; k++) {
        const char* link = ns_model_link(b->model, k)->name;
        changed_link c = {.name = link};
        whole_body whole = {{0}};
        uint32_t nchange = 0, nvariable = 0;
        for (int i = 0; i < 10; i++) {
            char name[1200];
            snprintf(name, sizeof name, "link/%s/%s", link, body_names[i]);
            uint32_t param = ns_model_find_param(b->model, name);
            if (param == NSI_NONE) break;
            c.fixed[i] = b->values[param];
            c.param[i] = NSI_NONE;
            if (!b->taken[param]) continue;
            nchange++;
            for (uint32_t p = 0; p < v->param_names.count; p++) {
                if (strcmp(v->param_names.data[p], name) == 0) c.param[i] = p;
            }
            for (uint32_t j = 0; j < v->items.count; j++) {
                if (v->model_param.data[j] != param) continue;
                whole.at[i] = j;
                nvariable++;
            }
        }
        if (nchange > 0 && !nsi_array_push(&v->allocator, &v->links, c)) {
            return nsi_fail_nomem(b->error);
        }
        if (nvariable < 10) continue;
        for (int i = 0; i < 10;
             i++) { // together they know of no bounds: steps out of them are refused
            nsi_variable* item = &v->items.data[whole.at[i]];
            range* r = &v->param_ranges.data[c.param[i]];
            item->transform = NSI_TRANSFORM_BODY;
            *r = (range){fmax(r->lower, item->lower), fmin(r->upper, item->upper)};
        }
        if (!nsi_array_push(&v->allocator, &v->bodies, whole)) return nsi_fail_nomem(b->error);
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

static ns_expr trace_transform(const nsi_variable* v, ns_expr z) {
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

static double transform_to_z(const nsi_variable* v, double x) {
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

void nsi_variables_to_z(const nsi_variables* v, const double* natural, double* z) {
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

static ns_status trace_natural(build* b, ns_graph* graph) {
    nsi_variables* v = b->v;
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
static ns_status resolve(const build* b, const formula_param* f, const char* name,
                         const ns_expr* variables, ns_expr* out) {
    for (uint32_t k = 0; k < b->v->items.count; k++) {
        if (strcmp(b->v->items.data[k].name, name) != 0) continue;
        *out = variables[k];
        return NS_OK;
    }
    uint32_t param = ns_model_find_param(b->model, name);
    if (param != NSI_NONE && b->taken[param] != 2) {
        *out = ns_const(b->values[param]);
        return NS_OK;
    }
    char quote[NSI_QUOTE_SIZE];
    return fail_at(b, f->request->line, f->request->column,
                   "the formula uses %s, which is %s; names of parameters stand in double quotes",
                   nsi_quote(name, strlen(name), quote),
                   param == NSI_NONE ? "neither a parameter of the model nor one under `parameters`"
                                     : "itself set by a formula");
}

static ns_status trace_formula(build* b, const formula_param* f, const ns_expr* variables,
                               ns_expr* out) {
    ns_expr used[NSI_FORMULA_MAX_OPS];
    for (uint32_t k = 0; k < nsi_formula_variable_count(f->formula); k++) {
        ns_status status = resolve(b, f, nsi_formula_variable(f->formula, k), variables, &used[k]);
        if (status != NS_OK) return status;
    }
    *out = nsi_formula_trace(f->formula, used);
    return NS_OK;
}

static ns_status trace_params(build* b, ns_graph* graph) {
    nsi_variables* v = b->v;
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
    for (uint32_t i = 0; status == NS_OK && i < param_count(b); i++) {
        if (!b->taken[i]) continue;
        ns_expr value = ns_const(0.0);
        for (uint32_t k = 0; k < n; k++) {
            if (v->model_param.data[k] == i) value = x[k];
        }
        for (uint32_t k = 0; k < b->formulas.count && status == NS_OK; k++) {
            if (b->formulas.data[k].param != i) continue;
            status = trace_formula(b, &b->formulas.data[k], x, &value);
        }
        ns_output(ns_model_param(b->model, i)->name, value);
    }
    ns_error end;
    ns_status ended = ns_trace_end(&end);
    if (status != NS_OK) return status;
    return ended == NS_OK ? NS_OK : nsi_fail(b->error, ended, "%s", end.message);
}

// ---- programs ----------------------------------------------------------------------------------

static ns_status build_program(build* b, ns_status (*trace)(build*, ns_graph*), ns_program** out) {
    ns_graph *graph = NULL, *derivative = NULL;
    ns_status status = ns_graph_create(&b->v->allocator, &graph, b->error);
    if (status == NS_OK) status = trace(b, graph);
    if (status == NS_OK) status = ns_graph_jvp(graph, NULL, &derivative, b->error);
    if (status == NS_OK) status = ns_program_build(derivative, NULL, out, b->error);
    ns_graph_free(derivative);
    ns_graph_free(graph);
    return status;
}

// Names and ranges of p: every parameter that changes, in the order of the model.
static ns_status name_params(build* b) {
    for (uint32_t i = 0; i < param_count(b); i++) {
        if (!b->taken[i]) continue;
        const ns_param* param = ns_model_param(b->model, i);
        range r = {param->lower, param->upper};
        if (!nsi_array_push(&b->v->allocator, &b->v->param_names, param->name) ||
            !nsi_array_push(&b->v->allocator, &b->v->param_ranges, r)) {
            return nsi_fail_nomem(b->error);
        }
    }
    return NS_OK;
}

static ns_status build_all(build* b, const ns_system_options* options,
                           const nsi_setting_request* settings, uint32_t nsetting) {
    for (uint32_t i = 0; i < param_count(b); i++) {
        b->values[i] = ns_model_param(b->model, i)->value;
        for (uint32_t k = 0; k < options->nset; k++) {
            if (ns_glob_match(options->set[k].pattern, ns_model_param(b->model, i)->name)) {
                b->values[i] = options->set[k].value;
            }
        }
    }
    ns_status status = add_requests(b);
    if (status == NS_OK) status = add_settings(b, settings, nsetting);
    if (status == NS_OK) status = name_params(b);
    if (status == NS_OK) status = find_links(b);
    if (status == NS_OK) status = build_program(b, trace_natural, &b->v->natural);
    if (status == NS_OK) status = build_program(b, trace_params, &b->v->params);
    return status;
}

ns_status nsi_variables_create(const ns_model* model, const ns_system_options* options,
                               const char* file, const nsi_variable_request* requests,
                               uint32_t nrequest, const nsi_setting_request* settings,
                               uint32_t nsetting, const ns_allocator* allocator,
                               nsi_variables** out, ns_error* error) {
    *out = NULL;
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    build b = {.v = nsi_alloc_zeroed(&memory, sizeof *b.v),
               .model = model,
               .file = file,
               .requests = requests,
               .nrequest = nrequest,
               .error = error};
    if (!b.v) return nsi_fail_nomem(error);
    b.v->allocator = b.v->arena.allocator = memory;
    uint32_t count = param_count(&b);
    b.values = nsi_alloc(&memory, ((size_t)count + 1) * sizeof *b.values);
    b.taken = nsi_alloc_zeroed(&memory, (size_t)count + 1);
    ns_status status =
        b.values && b.taken ? build_all(&b, options, settings, nsetting) : nsi_fail_nomem(error);
    for (uint32_t k = 0; k < b.formulas.count; k++) nsi_formula_free(b.formulas.data[k].formula);
    nsi_array_free(&memory, &b.formulas);
    nsi_free(&memory, b.values);
    nsi_free(&memory, b.taken);
    if (status != NS_OK) {
        nsi_variables_free(b.v);
        return status;
    }
    *out = b.v;
    return NS_OK;
}

void nsi_variables_free(nsi_variables* v) {
    if (!v) return;
    ns_allocator memory = v->allocator;
    ns_program_free(v->natural);
    ns_program_free(v->params);
    nsi_array_free(&memory, &v->items);
    nsi_array_free(&memory, &v->model_param);
    nsi_array_free(&memory, &v->bodies);
    nsi_array_free(&memory, &v->links);
    nsi_array_free(&memory, &v->param_names);
    nsi_array_free(&memory, &v->param_ranges);
    nsi_arena_free(&v->arena);
    nsi_free(&memory, v);
}

uint32_t nsi_variables_count(const nsi_variables* v) {
    return v->items.count;
}

const nsi_variable* nsi_variables_at(const nsi_variables* v, uint32_t number) {
    return &v->items.data[number];
}

uint32_t nsi_variables_param_count(const nsi_variables* v) {
    return v->param_names.count;
}

const char* const* nsi_variables_param_names(const nsi_variables* v) {
    return v->param_names.data;
}

void nsi_variables_start(const nsi_variables* v, double* natural) {
    for (uint32_t k = 0; k < v->items.count; k++) natural[k] = v->items.data[k].start;
}

void nsi_variables_set_start(nsi_variables* v, uint32_t number, double value) {
    v->items.data[number].start = value;
}

static size_t largest(size_t a, size_t b) {
    return a > b ? a : b;
}

size_t nsi_variables_scratch(const nsi_variables* v) {
    size_t most = largest(v->items.count, v->param_names.count);
    size_t work = largest(ns_program_work_size(v->natural), ns_program_work_size(v->params));
    return 2 * ((size_t)v->items.count + 1) + 2 * (most + 1) + work / sizeof(double) + 1;
}

// Value (count) and derivatives (count x n) of one of the two maps.
static void run(const nsi_variables* v, const ns_program* program, const double* x, uint32_t count,
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

void nsi_variables_from_z(const nsi_variables* v, const double* z, double* natural, double* dv,
                          double* scratch) {
    run(v, v->natural, z, v->items.count, natural, dv, scratch);
}

void nsi_variables_params(const nsi_variables* v, const double* natural, double* p, double* dp,
                          double* scratch) {
    run(v, v->params, natural, v->param_names.count, p, dp, scratch);
}

const char* nsi_variables_fault(const nsi_variables* v, const double* p) {
    for (uint32_t k = 0; k < v->param_names.count; k++) {
        if (!isfinite(p[k])) return v->param_names.data[k];
    }
    for (uint32_t k = 0; k < v->links.count; k++) {
        const changed_link* c = &v->links.data[k];
        double body[10];
        for (int i = 0; i < 10; i++)
            body[i] = c->param[i] == NSI_NONE ? c->fixed[i] : p[c->param[i]];
        if (body[0] < 0.0 || nsi_inertia_fault(body[0], body + 4)) return c->name;
    }
    // Formulas and bounds may lead out of what the model can have; rounding does, a little.
    for (uint32_t k = 0; k < v->param_names.count; k++) {
        const range* r = &v->param_ranges.data[k];
        double low = isfinite(r->lower) ? fabs(r->lower) : 0.0;
        double high = isfinite(r->upper) ? fabs(r->upper) : 0.0;
        double slack = 1e-12 * fmax(fabs(p[k]), fmax(low, high));
        if (p[k] < r->lower - slack || p[k] > r->upper + slack) return v->param_names.data[k];
    }
    return NULL;
}
