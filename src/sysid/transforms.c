// From the unbounded coordinates z of solvers to values within bounds, and back.
//
// The map is traced as a graph, so that its derivatives are those of expr.

#include "sysid/parameters_state.h"

#include <math.h>
#include <stdio.h>

// ---- choice --------------------------------------------------------------------------------------

static double transforms_or_else(double x, double otherwise) {
    return isnan(x) ? otherwise : x;
}

// Can a parameter with these bounds have the transform that was asked for?
static bool transform_fits(ns_parameter_transform transform, const ns_parameter_info* v) {
    bool below = isfinite(v->lower), above = isfinite(v->upper);
    switch (transform) {
    case NS_PARAMETER_AUTO: return true;
    case NS_PARAMETER_NONE: return !below && !above;
    case NS_PARAMETER_LOG: return below && !above && v->initial > v->lower;
    case NS_PARAMETER_ABOVE: return below && !above;
    case NS_PARAMETER_BELOW: return !below && above;
    case NS_PARAMETER_BOX: return below && above;
    case NS_PARAMETER_INERTIA: break;
    }
    return false;
}

ns_status nsi_choose_transform(const ns_parameter* how, bool logarithm, const nsi_place* place,
                               ns_parameter_info* v, ns_error* error) {
    // The bounds enclose the initial value.
    if (!(v->lower < v->upper)) {
        return nsi_parameters_fail(place, error,
                                   "%s: the lower bound %g is not below the upper one %g", v->name,
                                   v->lower, v->upper);
    }
    if (!(v->initial >= v->lower && v->initial <= v->upper && isfinite(v->initial))) {
        return nsi_parameters_fail(place, error,
                                   "%s: the initial value %g is not between %g and %g; give another"
                                   " `initial`, or other bounds",
                                   v->name, v->initial, v->lower, v->upper);
    }

    // The scale defaults to the magnitude of the initial value; without a prior its sigma is
    // infinite.
    v->scale = transforms_or_else(how->scale, v->initial != 0.0 ? fabs(v->initial) : 0.01);
    v->prior_sigma = transforms_or_else(how->prior_sigma, INFINITY);
    if (!(v->scale > 0.0) || !(v->prior_sigma > 0.0)) {
        return nsi_parameters_fail(place, error, "%s: scale and prior_sigma must be positive",
                                   v->name);
    }

    // A transform that was asked for is used, or refused.
    if (!transform_fits(how->transform, v)) {
        return nsi_parameters_fail(place, error,
                                   "%s: this transform does not fit the bounds %g and %g", v->name,
                                   v->lower, v->upper);
    }

    // By the bounds; a lower one that is never reached over orders of magnitude.
    bool below = isfinite(v->lower), above = isfinite(v->upper);
    v->transform = how->transform != NS_PARAMETER_AUTO           ? how->transform
                   : below && above                              ? NS_PARAMETER_BOX
                   : below && logarithm && v->initial > v->lower ? NS_PARAMETER_LOG
                   : below                                       ? NS_PARAMETER_ABOVE
                   : above                                       ? NS_PARAMETER_BELOW
                                                                 : NS_PARAMETER_NONE;
    return NS_OK;
}

// ---- z -> v --------------------------------------------------------------------------------------

static ns_expr trace_transform(const ns_parameter_info* v, ns_expr z) {
    ns_expr l = ns_const(v->lower), u = ns_const(v->upper), one = ns_const(1.0);
    ns_expr root = ns_sub(ns_sqrt(ns_add(ns_mul(z, z), one)), one);
    switch (v->transform) {
    case NS_PARAMETER_LOG: return ns_add(l, ns_exp(z));
    case NS_PARAMETER_ABOVE: return ns_add(l, ns_mul(ns_const(v->scale), root));
    case NS_PARAMETER_BELOW: return ns_sub(u, ns_mul(ns_const(v->scale), root));
    case NS_PARAMETER_BOX:
        return ns_add(l, ns_mul(ns_const(0.5 * (v->upper - v->lower)), ns_add(one, ns_sin(z))));
    case NS_PARAMETER_AUTO:
    case NS_PARAMETER_NONE:
    case NS_PARAMETER_INERTIA: break;
    }
    return z;
}

ns_status nsi_trace_natural(ns_parameters* v, ns_error* error) {
    uint32_t n = v->items.count;
    char name[32];
    ns_expr* z = nsi_arena_alloc(&v->arena, 2 * ((size_t)n + 1) * sizeof *z);
    if (!z) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < n; k++) {
        snprintf(name, sizeof name, "z%u", k);
        z[k] = ns_input(name);
    }

    // Each by itself, then the ten of a body together.
    for (uint32_t k = 0; k < n; k++) z[n + k] = trace_transform(&v->items.data[k], z[k]);
    for (uint32_t k = 0; k < v->bodies.count; k++) {
        const nsi_whole_body* whole = &v->bodies.data[k];
        ns_expr from[10], to[10];
        for (int i = 0; i < 10; i++) from[i] = z[whole->at[i]];
        nsi_trace_body(from, to);
        for (int i = 0; i < 10; i++) z[n + whole->at[i]] = to[i];
    }
    for (uint32_t k = 0; k < n; k++) {
        snprintf(name, sizeof name, "v%u", k);
        ns_output(name, z[n + k]);
    }
    return NS_OK;
}

// ---- v -> z --------------------------------------------------------------------------------------

// Off a bound, where the derivative vanishes: a share of the range or scale.
static const double NUDGE = 1e-3;

static double transform_to_z(const ns_parameter_info* v, double x) {
    double above = (x - v->lower) / v->scale, below = (v->upper - x) / v->scale, share;
    switch (v->transform) {
    case NS_PARAMETER_LOG: return log(fmax(x - v->lower, 1e-12 * v->scale));
    case NS_PARAMETER_ABOVE: above = fmax(above, NUDGE) + 1.0; return sqrt(above * above - 1.0);
    case NS_PARAMETER_BELOW: below = fmax(below, NUDGE) + 1.0; return sqrt(below * below - 1.0);
    case NS_PARAMETER_BOX:
        share = (x - v->lower) / (v->upper - v->lower);
        share = fmin(fmax(share, NUDGE), 1.0 - NUDGE);
        return asin(2.0 * share - 1.0);
    case NS_PARAMETER_AUTO:
    case NS_PARAMETER_NONE:
    case NS_PARAMETER_INERTIA: break;
    }
    return x;
}

void nsi_parameters_leave_bounds(const ns_parameters* v, double* z) {
    for (uint32_t k = 0; k < v->items.count; k++) {
        const ns_parameter_info* info = &v->items.data[k];
        if (!nsi_transform_is_bounded(info)) continue;
        double value = nsi_transform_value(info, z[k]);
        if (value != nsi_transform_inside(info, value, NUDGE)) z[k] = transform_to_z(info, value);
    }
}

double nsi_parameter_to_z(const ns_parameters* v, uint32_t number, double value) {
    return transform_to_z(&v->items.data[number], value);
}

bool nsi_transform_is_bounded(const ns_parameter_info* v) {
    return v->transform == NS_PARAMETER_BOX || v->transform == NS_PARAMETER_ABOVE ||
           v->transform == NS_PARAMETER_BELOW;
}

double nsi_transform_value(const ns_parameter_info* v, double z) {
    double root = z * z / (sqrt(z * z + 1.0) + 1.0); // sqrt(z^2 + 1) - 1, exact near 0
    switch (v->transform) {
    case NS_PARAMETER_ABOVE: return v->lower + v->scale * root;
    case NS_PARAMETER_BELOW: return v->upper - v->scale * root;
    case NS_PARAMETER_BOX: return v->lower + 0.5 * (v->upper - v->lower) * (1.0 + sin(z));
    case NS_PARAMETER_AUTO:
    case NS_PARAMETER_LOG:
    case NS_PARAMETER_NONE:
    case NS_PARAMETER_INERTIA: break;
    }
    return z;
}

double nsi_transform_slope(const ns_parameter_info* v, double z) {
    switch (v->transform) {
    case NS_PARAMETER_ABOVE: return v->scale * z / sqrt(z * z + 1.0);
    case NS_PARAMETER_BELOW: return -v->scale * z / sqrt(z * z + 1.0);
    case NS_PARAMETER_BOX: return 0.5 * (v->upper - v->lower) * cos(z);
    case NS_PARAMETER_AUTO:
    case NS_PARAMETER_LOG:
    case NS_PARAMETER_NONE:
    case NS_PARAMETER_INERTIA: break;
    }
    return 1.0;
}

double nsi_transform_coordinate(const ns_parameter_info* v, double value) {
    double above = (value - v->lower) / v->scale, below = (v->upper - value) / v->scale;
    switch (v->transform) {
    case NS_PARAMETER_ABOVE: return sqrt(above * (above + 2.0));
    case NS_PARAMETER_BELOW: return sqrt(below * (below + 2.0));
    case NS_PARAMETER_BOX: return asin(2.0 * (value - v->lower) / (v->upper - v->lower) - 1.0);
    case NS_PARAMETER_AUTO:
    case NS_PARAMETER_LOG:
    case NS_PARAMETER_NONE:
    case NS_PARAMETER_INERTIA: break;
    }
    return value;
}

double nsi_transform_inside(const ns_parameter_info* v, double value, double share) {
    bool box = v->transform == NS_PARAMETER_BOX;
    double margin = share * (box ? v->upper - v->lower : v->scale);
    return fmin(fmax(value, v->lower + margin), v->upper - margin);
}

void nsi_parameters_to_z(const ns_parameters* v, const double* natural, double* z) {
    for (uint32_t k = 0; k < v->items.count; k++) {
        z[k] = transform_to_z(&v->items.data[k], natural[k]);
    }
    for (uint32_t k = 0; k < v->bodies.count; k++) {
        double body[10], coordinates[10];
        for (int i = 0; i < 10; i++) body[i] = natural[v->bodies.data[k].at[i]];
        nsi_body_to_z(body, coordinates);
        for (int i = 0; i < 10; i++) z[v->bodies.data[k].at[i]] = coordinates[i];
    }
}
