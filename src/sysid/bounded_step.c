// Gauss-Newton steps of parameters with bounds (bounded_step.h).

#include "sysid/bounded_step.h"

#include "sysid/parameters_state.h"

#include <math.h>

// How near to a bound a step may lead: derivatives there have finite inverses.
static const double MARGIN = 1e-9;

// The parameter of a number of the normal equations, if it has bounds that a transform keeps; else NULL.
static const ns_parameter_info* bounded_parameter(const nsi_objective* e, uint32_t number) {
    uint32_t column = nsi_column_of(e, number);
    if (column >= e->nz) return NULL;
    const ns_parameter_info* v = ns_parameters_at(e->p->parameters, column);
    return nsi_transform_is_bounded(v) ? v : NULL;
}

bool nsi_has_bounded_numbers(const nsi_objective* e) {
    for (uint32_t k = 0; k < e->n; k++) {
        if (bounded_parameter(e, k)) return true;
    }
    return false;
}

bool nsi_bounded_step_prepare(nsi_objective* e) {
    size_t n = (size_t)e->nz + e->nw;
    if (e->nz == 0 || e->normal.box) return true;
    e->normal.box_numbers = nsi_alloc(&e->allocator, (n + 1) * sizeof *e->normal.box_numbers);
    if (e->normal.box_numbers) e->normal.box = nsi_numbers(e, n * n + 6 * n);
    return e->normal.box != NULL;
}

void nsi_bounded_step_hold_off(nsi_objective* e) {
    for (uint32_t k = 0; k < e->n; k++) {
        const ns_parameter_info* v = bounded_parameter(e, k);
        if (!v) continue;
        double* z = &e->point.z[nsi_column_of(e, k)];
        double value = nsi_transform_value(v, *z), inside = nsi_transform_inside(v, value, MARGIN);
        double size = v->transform == NS_PARAMETER_BOX ? v->upper - v->lower : v->scale;

        // Not for rounding: what was moved off once stays.
        if (fabs(inside - value) > 0.1 * MARGIN * size) *z = nsi_transform_coordinate(v, inside);
    }
}

bool nsi_bounded_step_solve(nsi_objective* e) {
    nsi_normal* m = &e->normal;
    const uint32_t n = e->n;
    double *slope = m->box, *value = slope + n, *lower = value + n, *upper = lower + n;
    double *x = upper + n, *scratch = x + n;

    // In terms of values: rows and columns over dv/dz.
    for (uint32_t k = 0; k < n; k++) {
        const ns_parameter_info* v = bounded_parameter(e, k);
        slope[k] = 1.0;
        lower[k] = -INFINITY;
        upper[k] = INFINITY;
        if (!v) continue;
        double z = e->point.z[nsi_column_of(e, k)];
        value[k] = nsi_transform_value(v, z);
        slope[k] = nsi_transform_slope(v, z);
        lower[k] = fmin(nsi_transform_inside(v, v->lower, MARGIN) - value[k], 0.0);
        upper[k] = fmax(nsi_transform_inside(v, v->upper, MARGIN) - value[k], 0.0);
    }
    for (uint32_t i = 0; i < n; i++) {
        m->step[i] /= slope[i];
        for (uint32_t j = 0; j <= i; j++) m->S[(size_t)i * n + j] /= slope[i] * slope[j];
    }

    // The step in values, then as a linear one in z.
    if (!nsi_box_quadratic(n, m->S, m->step, lower, upper, e->threads, x, scratch,
                           m->box_numbers)) {
        return false;
    }
    for (uint32_t k = 0; k < n; k++) m->step[k] = x[k] / slope[k];
    return true;
}

void nsi_bounded_step_finish(nsi_objective* e) {
    nsi_normal* m = &e->normal;
    const uint32_t n = e->n;
    const double *slope = m->box, *value = slope + n;
    for (uint32_t k = 0; k < n; k++) {
        const ns_parameter_info* v = bounded_parameter(e, k);
        if (!v || m->step[k] == 0.0) continue;
        double reached = nsi_transform_inside(v, value[k] + m->step[k] * slope[k], MARGIN);
        m->step[k] = nsi_transform_coordinate(v, reached) - e->point.z[nsi_column_of(e, k)];
    }
}
